/* Shared by the files of the lowering; nobody else includes it.
 *
 * Coordinates are kept apart from the run that asks: an expression over placeholders (the run's first element
 * along each axis of the space, and the lane, the number of the element within the run). So one plan serves
 * many runs: the loads of four runs go out first, then each run is computed, and both walks of the graph find
 * the same registers by comparing expressions. lower_concrete() puts the present run and lane in the
 * placeholders' places. */
#ifndef SINTER_CODEGEN_LOWER_INTERNAL_H
#define SINTER_CODEGEN_LOWER_INTERNAL_H

#include "codegen/lower.h"
#include "ir/value_map.h"

enum { LOWER_ALIGN_MAX = 64 }; /* the largest alignment that is kept track of */

/* Coordinate of element `lane` of a run: at + step * lane. `align` is a power of two that divides `at`. Where
 * so many neighbours `share` a coordinate, as words of which each is a part do, it is at + step * (lane /
 * share), unless step is 0. */
typedef struct LaneCoord {
    const KExpr *at;
    int64_t step;
    int align, share;
} LaneCoord;

/* A number that was taken apart, in a run of this kind: a run's elements may be neighbours in it where they
 * are not along any of the parts. */
typedef struct LaneWhole {
    LaneCoord number, parts[RANK_MAX];
    const Dim *dims[RANK_MAX]; /* of the parts, none of them 1 */
    int n, axis, width, split;
    RunStart start;
} LaneWhole;

/* A value at coordinates, under a condition (NULL: always). */
typedef struct LowerKey {
    const Value *value;
    LaneCoord coords[RANK_MAX];
    const KExpr *guard;
} LowerKey;

typedef enum EntryKind {
    ENTRY_SEEN,    /* planning has been here */
    ENTRY_EXPR,    /* computed: `expr`, while its scope is open */
    ENTRY_UNIFORM, /* one load a run */
    ENTRY_VECTOR,  /* vector loads of the run's elements */
    ENTRY_LANES,   /* a scalar load for each element */
    ENTRY_WIDE,    /* elements of a run's words, as floats (lower_words.c) */
    ENTRY_RANDOM,  /* random numbers, four from one counter, computed before the loop over lanes */
    ENTRY_SPACE,   /* a coordinate of the present run, named */
    ENTRY_INDEX,   /* a coordinate that is a value, computed (LowerIndex.expr) */
} EntryKind;

typedef struct LowerEntry LowerEntry;
struct LowerEntry {
    EntryKind kind;
    LowerKey key;
    LowerEntry *older; /* of the same value */
    const KExpr *expr;
    const KVar *array;       /* loads: elements of all slots; a scalar for one uniform slot */
    int chunk;               /* elements of one vector access */
    int share;               /* ENTRY_VECTOR: lanes that have an element of array together */
    bool is_shared;          /* by all runs of a batch */
    bool is_outer;           /* of a batch around others: its slot is outer_slot */
    int period;              /* not 0: columns so many groups apart read the same (lower_key_of_tile) */
    int slots;               /* of array */
    int per_word;            /* ENTRY_VECTOR: array has words of so many elements; 0: elements */
    const LowerEntry *words; /* ENTRY_WIDE: of which it has the present run's */
    int index;               /* ENTRY_INDEX: which */
};

/* A coordinate that is itself a value (gather): stands in expressions as a placeholder and is computed where
 * it is needed. */
typedef struct LowerIndex {
    LowerKey key;
    KVar placeholder;
    bool varies;       /* from lane to lane */
    const KExpr *expr; /* computed in an open scope; NULL: not yet */
} LowerIndex;

typedef struct LowerBinding {
    bool is_bound;
    const KVar *array;
    const KExpr *at, *expr;
} LowerBinding;

/* What is known of one value. */
typedef struct LowerNode {
    LowerEntry *newest;
    LowerBinding binding;
    bool is_input, is_commented;
    int uses; /* within the region */
} LowerNode;

struct Lower {
    Builder *b;
    Arena *arena;
    const Region *region;
    const Graph *graph;
    KType index;       /* type of coordinates and offsets */
    const KExpr *zero; /* of that type */
    KVar space[RANK_MAX], lane_var, outer_var, inner_var;
    const KExpr *space_expr[RANK_MAX]; /* of the present run, once named */
    VEC(LowerIndex *) indices;
    VEC(LaneWhole *) wholes;
    ValueMap numbers; /* of values in `nodes`, plus 1 */
    VEC(LowerNode *) nodes;
    VEC(LowerEntry *) scope;
    const char *const *names; /* by value id, as the canonical text of the graph gives them */
    KCache cache;             /* of loads that the run reads once */
    bool has_columns;
    LowerColumns columns;
    bool is_dry; /* nothing is emitted: the plan alone is wanted */

    /* the present plan */
    VEC(size_t) batches; /* scopes of the open ones */
    bool streams_only, tile_only, is_outer;
    int fixed_axis; /* a batch holds what is the same along it, alone; 0: no such axis, the first is none */
    const KExpr *outer_slot;
    const Run *shape;
    VEC(LowerEntry *) loads;
    VEC(LowerEntry *) hoisted;

    /* the present run */
    const Run *run;
    const KExpr *slot;
    const KExpr *lane; /* NULL before the loop over lanes */
};

/* lower_index.c: coordinates */
LaneCoord lane_const(Lower *lower, int64_t value);
LaneCoord lane_concrete(Lower *lower, LaneCoord coord);
LaneCoord lane_add(Lower *lower, LaneCoord x, LaneCoord y);
LaneCoord lane_add_dim(Lower *lower, LaneCoord x, const Dim *dim, int sign);
LaneCoord lane_scale(Lower *lower, LaneCoord x, const Dim *by);
/* Quotient and remainder by an extent. */
void lane_split(Lower *lower, LaneCoord x, const Dim *by, LaneCoord *quotient, LaneCoord *remainder);
LaneCoord lane_offset(Lower *lower, int rank, const LaneCoord *coords, const Dim *const *strides);
/* Offset in memory of a value's element. */
LaneCoord lane_memory(Lower *lower, const Value *value, const LaneCoord *coords);
LaneCoord lane_linear(Lower *lower, int rank, const LaneCoord *coords, const Dim *const *dims);
void lane_delinear(Lower *lower, LaneCoord linear, int rank, const Dim *const *dims, LaneCoord *coords);
/* The same elements under other dims. */
void lane_reshape(Lower *lower, int rank, const Dim *const *dims, const LaneCoord *coords, int to_rank,
                  const Dim *const *to_dims, LaneCoord *to);
bool lane_equal(LaneCoord x, LaneCoord y);
/* Whether the coordinates of neighbours are neighbours. */
bool lane_is_run(LaneCoord coord);
/* Elements with coordinates of their own among the lanes of a run. */
int lane_shares(const Lower *lower, LaneCoord coord);
bool lower_expr_equal(const KExpr *x, const KExpr *y);
/* Whether an expression over placeholders differs from lane to lane. */
bool lower_expr_varies(const Lower *lower, const KExpr *expr);
bool lane_varies(const Lower *lower, LaneCoord coord);
/* The coordinate at the present lane, over placeholders. */
const KExpr *lane_expr(Lower *lower, LaneCoord coord);
const KExpr *lower_concrete(Lower *lower, const KExpr *expr);
int lower_align_of(int64_t divisor);
/* Numbers of the placeholder variables: the run's first coordinate along an axis, the lane, a coordinate that
 * is a value. */
int lower_space_placeholder(int axis);
int lower_lane_placeholder(void);
int lower_outer_placeholder(void);
int lower_inner_placeholder(void);
/* Whether an expression over placeholders depends, besides the lane, on the coordinate along `axis` alone. */
bool lower_expr_is_along(const KExpr *expr, int axis);
/* Whether an expression over placeholders depends on the lane alone. */
bool lower_expr_is_of_lane(const KExpr *expr);
/* Whether an expression over placeholders is the same along `axis`, which is one of a run's inner axes. */
bool lower_expr_is_fixed(const KExpr *expr, int axis);
/* Whether an expression over placeholders depends on axes before `split` alone. */
bool lower_expr_is_outer(const Lower *lower, const KExpr *expr, int split);
int lower_index_placeholder(int index);
KType lower_choose_index(const Graph *graph, const Region *region);

/* lower_columns.c: another column of a fragment; NULL where the thread does not hold it */
const KExpr *lower_moved(Lower *lower, const LowerBinding *binding, const LaneCoord *coords, int rank,
                         const KExpr *guard);
/* Arithmetic over placeholders that gives, in every tile, the lane's columns of some group: in terms of lane
 * and group, for the run's first element; NULL where it is nothing of the kind. */
const KExpr *lower_column_of_tile(Lower *lower, const KExpr *expr);
/* Where a load, wherever its condition holds, reads a column that its place in the tile alone says (a table
 * of cosines for each head): the same without condition, so that it is one load for all columns that are
 * `period` groups apart, and for both halves of a rotation. False, and *key untouched, where it is no such
 * load. */
bool lower_key_of_tile(Lower *lower, LowerKey *key, int *period);
/* A condition over placeholders, for the present run and lane. */
const KExpr *lower_condition(Lower *lower, const KExpr *condition);

/* lower_movement.c: where an operand is read for a coordinate of the result; *guard gains the condition that
 * it is read at all */
void lower_broadcast_coords(Lower *lower, const Value *operand, int rank, const LaneCoord *coords,
                            LaneCoord *out);
bool lower_is_plain_movement(
    OpKind op); /* broadcast, reshape, transpose, slice: one operand, always inside */
void lower_operand_coords(Lower *lower, const Value *value, const LaneCoord *coords, LaneCoord *out);
/* Pad, concat: coordinates in operand `i` and the condition that the element comes from there. */
void lower_part_coords(Lower *lower, const Value *value, int i, const LaneCoord *coords, LaneCoord *out,
                       const KExpr **inside);
void lower_gather_coords(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                         LaneCoord *index_coords, LaneCoord *out, const KExpr **inside);

/* lower.c */
LowerNode *lower_node(Lower *lower, const Value *value);
/* The same to read only: what nobody has told anything about reads as zeros. */
const LowerNode *lower_known(const Lower *lower, const Value *value);
LowerEntry *lower_find(Lower *lower, const LowerKey *key, EntryKind first, EntryKind last);
LowerEntry *lower_remember(Lower *lower, EntryKind kind, const LowerKey *key);
/* Has space_expr[number] or indices[number] forgotten when the scope closes. */
void lower_remember_number(Lower *lower, EntryKind kind, int number);
LowerKey lower_key(const Value *value, const LaneCoord *coords, const KExpr *guard);
size_t lower_open_scope(Lower *lower);
void lower_close_scope(Lower *lower, size_t mark);
bool lower_is_leaf(const Lower *lower, const Value *value);
/* lower_plan.c: what the targets read, before anything is computed */
void lower_plan(Lower *lower, const Run *shape, const LowerTarget *targets, int n);
/* Registers for the planned loads of so many runs. */
void lower_declare_loads(Lower *lower, int slots);
void lower_emit_loads(Lower *lower, bool shared);
void lower_emit_hoisted(Lower *lower);
/* What is loaded instead, so that one load serves several: the same in every tile (lower_key_of_tile), or for
 * all lanes that share it. False, and *key untouched, where it is neither. */
bool lower_key_of_load(Lower *lower, LowerKey *key, int *period);
/* Whether as many elements are read as the space has. */
bool lower_is_stream(const Lower *lower, const Value *value);

/* lower_eval.c: the expression of a value at coordinates, at the present lane */
const KExpr *lower_eval(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard);
const KExpr *lower_load_at(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard);

/* Which slot of a load's array the present run has. */
const KExpr *lower_entry_slot(Lower *lower, const LowerEntry *entry);

/* lower_scalar.c */
const KExpr *lower_scalar_op(Builder *b, const Value *value, const KExpr *const *operands);
const KExpr *lower_cast(Builder *b, const KExpr *x, DType from, DType to);

/* lower_loop.c: reductions and matrix products as loops in place */
const KExpr *lower_reduction(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard);
const KExpr *lower_matmul(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard);

/* lower_words.c */
/* Elements of a word of 32 bits as which a load keeps them, to be widened by each run; 0: it does not. */
int lower_word_elements(const Lower *lower, const LowerEntry *entry);
/* Sets an ENTRY_WIDE's elements to those of the present run. */
void lower_words_widen(Lower *lower, const LowerEntry *entry);

/* lower_random.c */
const KExpr *lower_random(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard);
bool lower_random_is_wide(Lower *lower, const Value *value, const LaneCoord *coords);
void lower_random_fill(Lower *lower, LowerEntry *entry);

/* lower_place.c: where a value's elements lie in the region's space */
/* Coordinates of a target's element for a run (over placeholders); false where the value does not fit the
 * space. */
bool lower_place(Lower *lower, const Value *value, const Run *shape, LaneCoord *coords);
/* Whether an output has an element for each point of the axes that are kept. */
bool lower_output_is_kept(const Graph *graph, const Region *region, const Value *output);
bool lower_output_coords(Lower *lower, const Value *output, const Run *shape, LaneCoord *coords);
/* The same in its lower_root(), where its computation begins. */
bool lower_root_coords(Lower *lower, const Value *output, const Run *shape, LaneCoord *coords);
/* Coordinates in a reshape's or a transpose's operand become those in its result. */
void lower_move_coords(Lower *lower, const Value *movement, const LaneCoord *from, LaneCoord *coords);
/* The condition, over placeholders, that a run lies in an output's window of the columns; NULL: always. */
const KExpr *lower_window(Lower *lower, const Value *output);

#endif
