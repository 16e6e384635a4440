/* Fusion's own structures: what the files fuse_*.c share.
 *
 * Fusion decides two things: which Values lie in memory, and which group (a region in the making) writes
 * each. Everything else follows: a region computes what its outputs need, down to the next Values in memory.
 * So every choice made here is legal, and a worse one only costs time.
 *
 * A Value has a home where one group alone computes it: reductions and matmuls, and what follows them element
 * by element. A Value without a home floats: it is computed wherever it is needed, or, where that would be
 * dear, gets a group of its own. */
#ifndef SINTER_PASSES_FUSE_H
#define SINTER_PASSES_FUSE_H

#include "ir/block.h"
#include "ir/columns.h"
#include "ir/view.h"
#include "passes/product.h"
#include "passes/rewrite.h"

typedef struct Group Group;
typedef struct FuseNode FuseNode;
typedef struct FuseRelay FuseRelay; /* fuse_relay.c */

/* A set of groups, by number. */
typedef struct GroupSet {
    uint64_t *words;
    size_t n;
} GroupSet;

/* Whether an argument of a hint is `what`, alone or with a value. */
static inline bool fuse_hint_says(const HintArg *arg, const char *what) {
    return (arg->name && !strcmp(arg->name, what)) || (arg->word && !strcmp(arg->word, what));
}

/* Whether a hint is an @allow of `what`. */
static inline bool fuse_hint_allows(const Hint *hint, const char *what) {
    for (size_t i = 0; !strcmp(hint->name, "allow") && i < hint->args.n; i++)
        if (fuse_hint_says(&hint->args.at[i], what))
            return true;
    return false;
}

/* Whether a hint is @fuse(guest), or @fuse(guest=false): then nothing is asked for. */
static inline bool fuse_hint_tells_guest(const Hint *hint, bool *is_asked) {
    for (size_t i = 0; !strcmp(hint->name, "fuse") && i < hint->args.n; i++) {
        const HintArg *arg = &hint->args.at[i];
        if (!fuse_hint_says(arg, "guest"))
            continue;
        *is_asked = !arg->word || strcmp(arg->word, "false") != 0;
        return true;
    }
    return false;
}

/* The path that a @schedule names; NULL: none. */
static inline const char *fuse_hint_path(const Hint *hint) {
    for (size_t i = 0; !strcmp(hint->name, "schedule") && i < hint->args.n; i++)
        if (hint->args.at[i].name && !strcmp(hint->args.at[i].name, "path"))
            return hint->args.at[i].word;
    return NULL;
}

/* A group that computes or reads a Value, and how many times it computes an element if it does. */
typedef struct FuseNeed {
    Group *group;
    double again;
} FuseNeed;

/* What fusion knows of one Value. */
struct FuseNode {
    Value *value;
    Group *home;        /* NULL: input, constant, or floating */
    bool stored;        /* lies in memory once its region has run */
    bool barrier;       /* @fuse(never): nobody joins it */
    bool is_read_whole; /* a kernel can only read it from memory */
    bool bundle;        /* a few elements a row, made of statistics (fuse_bundle.c) */
    bool free;          /* constant or dim: never in memory, costs nothing */
    bool is_hosted;     /* floating: a reduction of a product's first operand, by that product's kernel */
    bool takes_rows;    /* a product whose kernel has such ones */
    bool is_in_operand; /* floating: what such a product's operand is computed from */
    GroupSet reads;     /* floating: groups that its computation reads results of */
    int n_leaves;       /* floating: tensors that its computation reads, each counted once up to the limit */
    Value **leaves;
    VEC(FuseNeed) needs; /* groups that compute or read it: filled by the walk back from the outputs */
};

/* A region in the making. */
struct Group {
    int id;
    TemplateKind kind;
    bool dead; /* merged into another */
    int rank;
    const Dim *dims[RANK_MAX];
    int n_reduced;
    bool is_moved;        /* columns of its product move, or are cut apart (fuse_columns.c) */
    int moved_block;      /* within blocks of so many; 0: none move */
    bool is_chain;        /* each core is the first operand of the next; dims are those of the last */
    bool is_in_parts;     /* a chain around a softmax that comes in parts */
    bool is_relay;        /* a chain of which some cores are the first operands of others, in any order */
    bool goes_again;      /* a kernel of columns short enough to be gone through again (fuse_rows.c) */
    bool has_pieces;      /* a kernel of rows with statistics of the last axis alone (pieces.c) */
    int n_columns;        /* of a kernel of rows: statistics of columns that it takes beside its own */
    bool has_blocks;      /* it takes statistics of its product's tiles (fuse_blocks.c) */
    int64_t block_cols;   /* of that many columns, along rows; 0: none */
    GroupSet after;       /* groups that must run before it, through others too */
    VEC(Value *) cores;   /* in the order of their steps of K where there are sums */
    VEC(Value *) sums;    /* region.h */
    VEC(Value *) members; /* Values at home here */
    VEC(Value *) leaves;  /* tensors that it reads */
    VEC(Value *) outputs;
};

/* What a product's kernel may not take in of a Value, since codegen has no schedule for what came of it. */
typedef enum FuseRefusal {
    REFUSED_ROWS = 1,    /* the statistic */
    REFUSED_COLUMNS = 2, /* at other columns than its own */
    REFUSED_PRODUCT = 4, /* the product, beside or behind another */
    REFUSED_STORE = 8,   /* the element-wise result */
    REFUSED_SUM = 16,    /* the product, behind another that it is added to */
    REFUSED_CORES = 32,  /* the product, beside more than one other */
} FuseRefusal;

/* Seconds of the kernels in which two plans differ around a statistic: with it in the product's kernel, and
 * in a kernel of its own. 0: not weighed. */
typedef struct RowsEstimate {
    double joined, apart;
} RowsEstimate;

/* What one plan of a graph tells the next, by Value.id. */
typedef struct FuseKnown {
    uint8_t *refused;   /* FuseRefusal bits */
    RowsEstimate *rows; /* of a statistic */
} FuseKnown;

typedef struct Fuse {
    Pass *pass;
    Graph *graph;
    Arena *arena;
    const FuseLimits *limits;
    FuseNode *nodes; /* by Value.id */
    VEC(Group *) groups;
    FuseKnown *known;
    FuseRelay **relay_of; /* by Value.id: whose kernel computes it, as found ahead of the walk; NULL: none */
    bool *has_root;    /* by id: computed again by kernels that want it, of what is stored (fuse_roots.c) */
    Value **joined_of; /* by id: an output that joins axes of what floats, not stored yet (fuse_store.c) */
    bool is_stale;     /* something was refused that the walk had begun: it is done again */
    int *stamps;       /* by Value.id: the number of the last walk that met it */
    int stamp;
} Fuse;

enum {
    FUSE_UNKNOWN_DIM = 4096, /* what a dim without bounds counts as where costs are compared */
    FUSE_MEMBERS_MAX = 640, /* operations of one kernel: beyond, compiling takes longer than a launch saves */
    FUSE_CONE_MAX = 192,    /* operations that one kernel computes again from memory */
    FUSE_INLINE_REDUCTION = 8, /* elements of a reduction that is computed in place like a scalar */
};

/* The value that a hint is about; NULL: none of this graph. */
static inline Value *fuse_hint_value(const Graph *graph, const Hint *hint) {
    Value *value = hint->value;
    return value && value->id < graph->values.n && graph->values.at[value->id] == value ? value : NULL;
}
static inline FuseNode *fuse_node(const Fuse *fuse, const Value *value) {
    return &fuse->nodes[value->id];
}
static inline Group *fuse_home(const Fuse *fuse, const Value *value) {
    return fuse->nodes[value->id].home;
}
/* Whether walks along operands end here: at an input, or at what some group computes already. */
static inline bool fuse_is_base(const Fuse *fuse, const Value *value) {
    return value->op == OP_input || fuse_home(fuse, value);
}
/* Axes besides a matrix' two that TMA follows: of a batch, outer parts of an axis, what indices choose. */
enum { FUSE_TMA_BEYOND = 3 };
/* view_of and view_gather down to such bases. */
View fuse_view(Fuse *fuse, Value *value);
bool fuse_view_gather(Fuse *fuse, Value *value, ViewGather *gather);
/* Of pages that hardware copies as boxes: of a known multiple of 8 rows of an operand, or of 8 columns whose
 * elements are neighbours. */
bool fuse_view_pages(Fuse *fuse, Value *operand, ViewGather *gather);

/* Whether `group` reads `value` from memory: it lies there, another group writes it, and that one does not
 * wait for `group` (whose own Values it may have been computed from; then `group` computes it too). */
bool fuse_reads(const Fuse *fuse, const Group *group, const Value *value);
/* What a group computes for some Values, these included, and what it reads for that, each once and in no
 * order.
 */
typedef struct FuseClosure {
    VEC(Value *) computed, read;
} FuseClosure;
FuseClosure fuse_closure(Fuse *fuse, const Group *group, Value *const *outputs, size_t n);

/* fuse_group.c: groups and the order between them */
Group *group_new(Fuse *fuse, TemplateKind kind, int rank, const Dim *const *dims, int n_reduced);
void group_add_core(Fuse *fuse, Group *group, Value *value);
bool group_set_has(const GroupSet *set, int id);
bool group_set_add(Arena *arena, GroupSet *set, int id);
bool group_set_join(Arena *arena, GroupSet *set, const GroupSet *more);
/* Whether `group` waits for `other`. */
bool group_waits(const Group *group, const Group *other);
typedef bool (*GroupCounts)(const Group *group, const Value *value);
/* Whether the graph, or a Value outside of the group but for `but`, needs what the group computes; `counts`:
 * of that, what is looked at, NULL: all. */
bool group_is_needed_elsewhere(const Fuse *fuse, const Group *group, const Value *but, GroupCounts counts);
/* Whether `operand`, computed in `group`, needs nothing that in turn waits for `group`. Floating Values may
 * read the group's own results: they become a part of it. */
bool group_can_compute(const Fuse *fuse, const Group *group, const Value *operand);
/* Whether computing `value` outside of `group` would need a result of `group`. */
bool group_feeds(const Fuse *fuse, const Group *group, const Value *value);
/* Makes `group` wait for whatever `value` is read or computed from. */
void group_wait_for(Fuse *fuse, Group *group, const Value *value);
/* Puts `value` into `group`, whose operands it may read. */
void group_join(Fuse *fuse, Group *group, Value *value);
/* Whether `group` with `value` would read more tensors than a kernel may, or compute more than it should. */
bool group_has_room(Fuse *fuse, Group *group, const Value *value);
/* Makes `from` a part of `into`; neither may wait for the other. */
void group_merge(Fuse *fuse, Group *into, Group *from);
/* A floating Value's reads and leaves, from those of its operands. */
void group_float(Fuse *fuse, Value *value);

/* fuse_cost.c */
/* Whether a region's product is known to have no elements, or none but zeros: there is nothing to share. */
bool fuse_is_idle(const Region *region);
int64_t fuse_extent(const Fuse *fuse, const Dim *dim);
int64_t fuse_count(const Fuse *fuse, int rank, const Dim *const *dims);
int64_t fuse_bytes(const Fuse *fuse, const Value *value);
/* Scalar operations of one element of `value`, down to what lies in memory; stops counting above `limit`. */
int64_t fuse_cone_cost(Fuse *fuse, const Value *value, int64_t limit);
/* Operations of that computation, counted up to `limit` + 1. */
int64_t fuse_cone_size(Fuse *fuse, const Value *value, int64_t limit);
int64_t fuse_op_cost(const Value *value);
/* Whether `in` is so little beside `value`, of whose kernel it is an operand, that one more kernel has it for
 * nothing: it lies in memory, or is computed of what does (a number a channel: 1 / sqrt(variance)). */
bool fuse_is_slight(const Fuse *fuse, const Value *in, const Value *value);

/* fuse_space.c: which Values a group's space can express */
bool space_same(const Group *group, int rank, const Dim *const *dims);
/* `value` has the group's dims, or these with reduced axes 1 (dropped where they lead). */
bool space_fits(const Group *group, const Value *value);
/* The Value below `value` whose layout in memory alone reshapes and transposes change; `value` itself where
 * there is none. */
Value *space_stored_base(const Fuse *fuse, Value *value);
enum { SPACE_AXES = RANK_MAX };
/* The axis of that base along which `value` is contiguous; SPACE_AXES: several; -1: it has one element. */
int space_innermost_of(const Value *value, const Value *base);
/* Whether a store of that base in the order of `value` keeps the innermost axis contiguous. */
bool space_keeps_innermost(const Value *value, const Value *base);
typedef enum ReductionLayout { REDUCTION_ROWS, REDUCTION_COLUMNS, REDUCTION_MIXED } ReductionLayout;
/* How the reduced axes lie in the operand; *n_reduced of them, axes of one element counted as it suits. */
ReductionLayout reduction_layout(const Value *value, int *n_reduced);
/* Whether a reduction is so short that it is computed like a scalar, in place. */
bool reduction_is_inline(const Value *value);
/* Whether it is of so few elements, and of nothing that is heavy, as one that is. */
bool reduction_is_short(const Value *value);
/* Whether it is of windows, over few of their elements: its kernel goes through these for runs of what is not
 * reduced. */
bool reduction_is_of_windows(const Value *value);

/* fuse_matmul.c, fuse_rows.c, fuse_pointwise.c: what starts a group, and who joins it */
void fuse_matmul(Fuse *fuse, Value *value);
void fuse_reduction(Fuse *fuse, Value *value);
/* Whether `group` reads a tensor of its whole space that `operand` is computed from too. */
bool fuse_rows_share(Fuse *fuse, const Group *group, const Value *operand);
/* fuse_rows_moved.c: a concat of columns of what a kernel of rows computes, in other places. */
bool fuse_rows_moved(Fuse *fuse, Value *value);
/* Marks the statistics of a product's rows where there may be rows without columns, for which no block would
 * store what has an element a row; whether there are any. */
bool fuse_rows_refuse(Fuse *fuse, const Region *region);
/* A statistic of columns of a block of rows, by a kernel that computes or reads these rows. */
bool fuse_rows_block(Fuse *fuse, Value *value, const BlockStatistic *block);
/* fuse_blocks.c: statistics of a tile, and what repeats them over it. */
bool fuse_block_statistic(Fuse *fuse, Value *value);
bool fuse_block_repeated(Fuse *fuse, Value *value);
void fuse_light(Fuse *fuse, Value *value);
/* Whether all products of both groups share their first operand and are of equal size and type: they may be
 * the cores of one kernel, and no sum is added up in one of them. */
bool fuse_are_dual(const Group *a, const Group *b);
/* Then they become one, up to REGION_CORES_MAX of them, where `value` is the first to need both groups. */
bool fuse_dual(Fuse *fuse, Value *value, Group *a, Group *b);
/* fuse_sum.c: whether `value` adds a product of one of two groups to what the other computes. */
bool fuse_is_sum(const Fuse *fuse, const Value *value, const Group *a, const Group *b);
/* Then the groups of its operands become one kernel that adds both up in the same accumulators, if they can.
 */
bool fuse_sum(Fuse *fuse, Value *value);
/* Whether a product, or its multiple, is added to another one that may take its accumulators. */
bool fuse_sum_follows(const Fuse *fuse, const Value *product);
/* Whether a matmul reads `operand` from memory rather than computing it. */
bool matmul_wants_stored(Fuse *fuse, Value *matmul, int operand);
/* The tensor of which an operand is windows, which the product reads where that lies in memory; NULL: it is
 * none, or computed. */
Value *matmul_windows_base(Fuse *fuse, Value *matmul, int operand);
/* The indices that choose an operand's matrices or rows, where they are computed and have to be stored for
 * that; NULL: nothing is to be stored. */
Value *matmul_index_apart(Fuse *fuse, Value *matmul, int operand);
/* Factors of blocks of an operand's elements that have to be computed first; NULL: it has none. */
Value *matmul_factors_apart(Fuse *fuse, Value *matmul, int operand);
/* The exact widening of an operand to 16 bits that is done once, in memory, since many rows read it; NULL: it
 * is done as the operand is read, or there is none. */
Value *matmul_widened_apart(Fuse *fuse, Value *matmul, int operand);
/* realign.c: a view of a copy of a value, which lies in memory in the order of its axes, its rows longer by
 * `missing` elements; NULL: a defect. For passes behind the fixpoint, which would undo it. */
Value *realign_copied(Rewrite *rewrite, Value *value, int64_t missing);
/* Whether a value is such a view, or a transpose of one. */
bool value_is_realigned(const Value *value);

/* fuse.c: a plan of a graph in pass->partition, which keeps to what is known, and each of whose products has
 * a schedule; NULL: a defect, kernels that wait for each other. */
Fuse *fuse_plan(Pass *pass, Graph *graph, FuseKnown *known);
/* fuse_weigh.c: refuses the statistics in product kernels of this plan that are quicker in kernels of their
 * own, by the cost model, and notes what it found, in fuse->known. True where the graph must be planned
 * again. */
bool fuse_weigh_rows(Fuse *fuse);
/* By id, what is computed of which the graph says how many kernels it takes, as few as can be, or how a
 * product is multiplied, whose kernel then has it. */
bool *fuse_mark_expected(const Fuse *fuse);
/* By id, Values of hints that count, and what these are computed from. */
bool *fuse_mark_hinted(Arena *arena, const Graph *graph, bool (*counts)(const Hint *hint));
/* Whether a hint says how many kernels something takes. */
bool hint_is_expect(const Hint *hint);
/* fuse_fragments.c: seconds that a first operand costs beside the product alone which is computed between the
 * matrix instructions, or by a kernel of its own; whether the first is the quicker way. */
typedef struct FragmentsEstimate {
    double fragments, stored; /* 0: not weighed */
} FragmentsEstimate;
bool fuse_fragments(Fuse *fuse, const Value *matmul, FragmentsEstimate *estimate);
/* What has the elements of an operand in memory, from which alone, and from what repeats over the operand, it
 * is computed element by element; NULL where there is no such tensor. */
const Value *fuse_stream(Fuse *fuse, const Value *operand);
/* fuse_operand.c: a reduction of a product's first operand floats, where that product's kernel takes it on
 * the way and nothing else wants it. */
bool fuse_operand_statistic(Fuse *fuse, Value *value);
/* Marks such reductions that a region would compute otherwise than so, as a loop for each element; whether
 * there are any. Codegen says what it takes. */
bool fuse_operand_refuse(Fuse *fuse, const Region *region);
/* fuse_chain.c: a product joins the kernel that computes its first operand, where that stays in registers */
bool fuse_chain(Fuse *fuse, Value *matmul);
/* Operands of attention in a narrower type, of which more rows than that costs want the wider one, are stored
 * in it: the chain reads 16 bits. So are queries and keys whose elements are joined of parts. */
void chain_mark_stored(Fuse *fuse);
/* Whether TMA can read an operand, or indices choose it; marks what it reads, which has to lie in memory. */
bool chain_reads(Fuse *fuse, Value *matmul, int operand);
void chain_read(Fuse *fuse, Value *matmul, int operand);
/* fuse_relay.c: products that hand on to others what is computed of them, found ahead of the walk */
void fuse_relays_find(Fuse *fuse);
/* Takes a Value of such into its kernel; false: it is of none. */
bool fuse_relay(Fuse *fuse, Value *value);
/* Whether the chain that a product is of reads an operand's matrices where indices say that they lie. */
bool chain_chooses(Fuse *fuse, Value *matmul, int operand);
/* Whether the graph asks for another path of some product than wgmma, and would not get it. */
bool chain_has_other_path(const Graph *graph);
/* Longest rows whose statistics the epilogue of a group's last product can take; INT64_MAX: those of a
 * softmax come in parts, whatever their length. */
int64_t chain_row_max(Fuse *fuse, Group *group);

/* fuse_columns.c: columns of a product that trade places, or that are cut apart */
/* Puts a Value into the kernel of a product whose columns it moves, where that can be; `decides`: says why
 * not. */
bool fuse_columns(Fuse *fuse, Value *value, bool decides);
bool fuse_columns_place(Fuse *fuse, const Group *group, const Value *value, ColumnPlace *place,
                        const char **why);
/* Fills region->windows and region->column_block. */
void fuse_columns_windows(Fuse *fuse, const Group *group, Region *region);

/* fuse_bundle.c: puts a Value of a few statistics a row into the kernel that has them */
bool fuse_bundle(Fuse *fuse, Value *value);

/* fuse_store.c: the walk back from the outputs, which says what lies in memory */
void fuse_store(Fuse *fuse);

/* fuse_roots.c: ahead of it, fills fuse->has_root */
void fuse_roots(Fuse *fuse);

/* fuse_joined.c: whether `value` is a view that joins axes of `base`, which nothing else reads, for a product
 */
bool fuse_joins(const Fuse *fuse, const Value *value, const Value *base);
/* Such a view among those of a product's operand, of a base that floats; NULL: there is none. */
Value *fuse_joined_view(const Fuse *fuse, Value *operand, const Value *base);

/* fuse_siblings.c: pointwise kernels beside kernels that read the same */
void fuse_siblings(Fuse *fuse);
/* fuse_emit.c: groups in launch order become regions */
bool fuse_emit(Fuse *fuse);
/* The order of the graph, of pointers to Values, for qsort() and bsearch(). */
int fuse_by_id(const void *a, const void *b);
/* Numbers and names the partition's regions by their places. */
void fuse_number(const Graph *graph, Partition *partition);
/* Seconds that the cost model gives the kernel of a region; 0: codegen has none, or nobody asks it. */
double fuse_seconds(const Fuse *fuse, const Region *region);
/* fuse_guest.c: rows kernels become guests of the products before them */
void fuse_guests(Fuse *fuse);
/* What @fuse(guest) or @fuse(guest=false) says at a value of a region; false where nothing does. */
bool fuse_guest_hint(const Graph *graph, const Region *guest, bool *is_asked);
/* fuse_products.c: products of one input become guests of the first */
void fuse_products(Fuse *fuse);
/* fuse_unfused.c: a kernel an operation */
void fuse_unfused(Fuse *fuse);

/* Whether a partition keeps the invariants of region.h; each that fails becomes a DIAG_INTERNAL. */
bool partition_verify(const Partition *partition, Diags *diags);

#endif
