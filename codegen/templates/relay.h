/* Shared by the files of the relay template; nobody else includes it.
 *
 * A relay is one or two first products, what is computed of them element by element, and one or two last
 * products whose first operands that is, in one kernel: attention's gradients, attention whose weights are no
 * softmax, an MLP of few inputs and outputs.
 *
 *     s = q @ k.T                              first: of few k, all of it in shared memory for a tile's rows
 *     d = do @ v.T                             first
 *     e = cast(exp(s - l) * (d - r), bf16)     held: parts of tile_k columns, in registers
 *     dq = e @ k                               last: all columns in accumulators
 *
 * One more product may go across: of what is held the other way around, with the rows that a first product
 * has. Its sum runs over rows, so that each tile has a part of it, which is added to the others' in memory.
 * All of attention's gradients are one kernel so, of five products:
 *
 *     s' = k @ q.T, d' = v @ do.T          first
 *     p = cast(exp(s' - l.T), bf16)        held
 *     e = cast(exp(s' - l.T) * (d' - r.T), bf16)
 *     dv = p @ do, dk = e @ q              last
 *     dq = e.T @ k                         across
 *
 *     relay_plan.c     what the products are (RelayPlan)
 *     relay.c          which schedules it can take, the Template row
 *     relay_wgmma.c    the kernel
 *     relay_across.c   what a product across adds to it
 *     relay_order.c    then: in which order tiles add their parts
 *
 * As a chain's links, each product has a MatmulPlan of a region of its own. */
#ifndef SINTER_CODEGEN_TEMPLATES_RELAY_H
#define SINTER_CODEGEN_TEMPLATES_RELAY_H

#include "codegen/pipeline.h"
#include "codegen/templates/chain_parts.h"
#include "codegen/templates/matmul_result.h"
#include "codegen/templates/signals.h"

enum { RELAY_PRODUCTS = 2 /* first ones, and last ones */ };

/* A second operand, of which a part comes at a time. */
typedef struct RelayBrought {
    const MatmulPlan *plan;
    const MatmulOperand *operand;
    bool is_last; /* of a last product: the part is along its sum */
} RelayBrought;

typedef struct RelayPlan {
    const Graph *graph;
    const Region *region;
    const Target *target;
    int n_first, n_last, n_held, n_brought;
    size_t n_outputs; /* of the last products together */
    MatmulPlan first[RELAY_PRODUCTS], last[RELAY_PRODUCTS];
    const Value *held[RELAY_PRODUCTS];
    /* What is held, as it is computed of the first products: bare of the selects by which it is zero beyond a
     * band, where the kernel masks what lies beyond. */
    MatmulPlan between;
    const Value *made[RELAY_PRODUCTS];
    int n_needed[RELAY_PRODUCTS];             /* of the first products, these many come into it */
    Band band;                                /* n 0: there is none */
    int held_of[RELAY_PRODUCTS];              /* of each last product */
    RelayBrought brought[2 * RELAY_PRODUCTS]; /* those that lie in memory alike come once */
    int first_from[RELAY_PRODUCTS], last_from[RELAY_PRODUCTS]; /* that each product reads */
    int columns; /* of a last product, rounded up to what wgmma takes */
    bool has_across;
    MatmulPlan across;
    int across_held, across_rows; /* whose turn it is of, and of which first product it reads the rows */
    /* What is computed of first product 0 alone, in f32, and all that is held of that one is computed of:
     * takes its place in registers. NULL: not asked for, or there is none. */
    const Value *kept;
    MatmulPlan rest; /* `between` as it is computed of that */
    int n_vectors;   /* what lies between is computed of, and has one number of 32 bits a column */
    const Value *vectors[VECTORS_MAX];
} RelayPlan;

/* False, with a person's words in *why, where the region is none that the kernel takes. */
bool relay_plan(const Graph *graph, const Region *region, const Target *target, RelayPlan *plan,
                const char **why);
/* Whether a region has a product across. */
bool relay_goes_across(const Region *region);
/* Elements along a first product's sum, rounded up to whole instructions. */
int relay_depth(const RelayPlan *plan, int first);
/* Columns of tiles of its rows: as many, or those that the product across reads. */
int relay_rows_width(const RelayPlan *plan, const Schedule *schedule, int first);
/* Columns of tiles of a second operand that comes in parts, or its elements along the first product's sum. */
int relay_width(const RelayPlan *plan, const RelayBrought *brought);
/* Whether the first products of a part are multiplied behind the last ones of the part before, without
 * waiting for these: then both have their registers. */
bool relay_runs_ahead(const RelayPlan *plan, const Schedule *schedule);
/* Whether only first products read the second operand of that number: it is free again ahead of those that a
 * last product reads. */
bool relay_is_early(const RelayPlan *plan, int brought);
/* Stages of those: as many as of the others, or one where memory holds no more. */
int relay_early_stages(const RelayPlan *plan, const Schedule *schedule);
/* Tiles of rows in shared memory: two where they fit. */
int relay_row_stages(const RelayPlan *plan, const Schedule *schedule);
/* Shared memory of what a product across needs. */
enum { RELAY_ACROSS_GROUPS = 2 /* consumer warpgroups */ };
int64_t relay_across_bytes(const RelayPlan *plan, const Schedule *schedule);
/* Registers of a thread for a part of it, besides those of a first product. */
int relay_across_registers(const RelayPlan *plan, const Schedule *schedule);
/* Whether its parts divide among the warpgroups. */
bool relay_across_accepts(const Schedule *schedule, const char **why);
/* Its columns as warpgroups share them: rounded up, as those of the rows' tile are that it reads. */
int relay_across_width(const RelayPlan *plan, const Schedule *schedule);
void relay_build(Builder *b, const RelayPlan *plan);

/* ---- the kernel */

/* The order in which tiles add to a product across (relay_order.c); of the present tile: */
typedef struct RelayOrder {
    const KExpr *row, *matrix;        /* number of the tile among those of its matrix, and of that */
    const KExpr *low, *there, *place; /* tiles of the matrix that are there at the same time: number of the
                                         first, how many, and which of them this is */
    const KExpr
        *stride; /* to its next part: 1, or -1 where it goes through them from the last one on; NULL: around
                  */
    const KExpr *high,
        *bias; /* of its turn at a part, with a stride: min(high, last tile that sees it) + bias */
    const KExpr *start, *count; /* its first part, and how many */
} RelayOrder;

/* What a product across adds (relay_across.c). */
typedef struct RelayAcross {
    RelayOrder order;
    Tile held, sums;  /* what is held, as rows; parts of the product, on their way to memory */
    Pipeline ring;    /* of sums; what is held is in the same place of its copies */
    PipelineState at; /* a role's place in it */
    Signals signals;
    KBuffer *turns; /* of each of a matrix' parts: how many tiles have added to it */
    MatmulStored stored;
    int map;
    const KExpr *own_first, *turned_first, *rows_first; /* descriptors: of own rows, all turned, second
                                                           operand, of the first stage */
    const KExpr *rows_at;                               /* of the tile's stage */
    const KExpr *put_row, *put_col;                     /* of a lane's matrices within `held` */
    const KExpr *place;                                 /* of its first element within `sums` */
    const KVar *part; /* sums of it: first product 1's registers, or its own */
    Epilogue *rest;   /* of the tile */
} RelayAcross;

typedef struct RelayRun {
    Builder *b;
    const RelayPlan *plan;
    const Schedule *schedule;
    bool runs_ahead;
    Parts parts;
    MatmulTma rows[RELAY_PRODUCTS], brought[2 * RELAY_PRODUCTS];
    const KExpr *rows_first[RELAY_PRODUCTS];                         /* descriptors of the first stage */
    const KExpr *rows_at[RELAY_PRODUCTS];                            /* of the tile's */
    const KExpr *first_at[RELAY_PRODUCTS], *last_at[RELAY_PRODUCTS]; /* by product, of the first stage */
    Pipeline row_ring, part_ring,
        early_ring; /* early_ring: of stages 0 where those parts come with the others */
    PipelineState row, part, early;
    Lower *between, *lower[RELAY_PRODUCTS];
    Epilogue *pack; /* of the tile */
    MatmulStaging staging[RELAY_PRODUCTS];
    bool is_staged[RELAY_PRODUCTS];
    const KVar *fragment[RELAY_PRODUCTS]; /* the first products' parts */
    const KVar *packed[RELAY_PRODUCTS];   /* what is held of them, two neighbours a register */
    const KVar *masked;                   /* what relay_mask() masks */
    const KVar *sums[RELAY_PRODUCTS];
    MatmulVectors vectors; /* what has one number a column: brought with each part; where the plan has a
                              product across */
    RelayAcross across;
} RelayRun;

/* relay_wgmma.c */
void relay_issue_first(RelayRun *r, int from, int to);
void relay_issue_last(RelayRun *r, int held, const KExpr *stage);
/* Waits for all but so many groups; `settled`: arrays that are complete then. */
void relay_wait(RelayRun *r, int groups, const KVar *const *settled, int n);
void relay_release(RelayRun *r, const KExpr *stage);
MatmulFragment relay_fragment(const RelayRun *r, const KVar *const *accumulators, int n, int columns,
                              const KExpr *row, const KExpr *col);
/* Packs one thing that is held of a part, zero beyond the band and the last column. */
void relay_pack(RelayRun *r, Epilogue *pack, int held, const MatmulFragment *fragment, const PartsAt *at);

/* relay_across.c */
void relay_across_declare(RelayRun *r);
/* Consumers, ahead of all tiles; at the beginning of a tile; all of its parts. */
void relay_across_begin(RelayRun *r, const PartsLane *lane, const KExpr *group);
void relay_across_tile(RelayRun *r, const MatmulFragment *fragment, const MatmulTile *tile);
void relay_across_parts(RelayRun *r, const PartsAt *at);
/* Around the stores of a tile: all warpgroups have read what these go over, and may write it again. */
void relay_across_meet(RelayRun *r);
void relay_across_stored(RelayRun *r);
/* What warps of the producer's warpgroup do that do not load: add parts to memory; bring vectors. */
void relay_across_add(RelayRun *r);
void relay_across_bring(RelayRun *r);

/* relay_order.c */
const Dim *relay_order_blocks(const RelayRun *r);
/* A loop over the block's tiles, each with its parts found. */
MatmulTile relay_order_begin(RelayRun *r);
void relay_order_end(RelayRun *r);
/* The first part that a tile comes to; the one behind a part. */
const KVar *relay_order_first_part(const RelayRun *r);
void relay_order_next_part(const RelayRun *r, const KVar *part);
/* How many tiles add to a part before this one; the part's number among those of all matrices. */
const KExpr *relay_order_turn(const RelayRun *r, const KExpr *part);
const KExpr *relay_order_number(const RelayRun *r, const KExpr *part);

#endif
