/* Shared by the files of the matmul template's epilogue: matmul_epilogue.c, and what it is made of; nobody
 * else includes it.
 *
 *     matmul_epilogue_store.c              outputs, from registers or by boxes
 *     matmul_keep.c, matmul_row_inputs.c   loads for all passes, and what is one number a row
 *     matmul_inputs.c                      inputs through the ring of stages
 *     matmul_rows*.c, matmul_rounds.c      statistics of rows (matmul_rows.h)
 *     matmul_gang.c                        their exchange between blocks
 *     matmul_blocks.c                      statistics of a tile's part of rows and columns
 *     matmul_boxes.c, matmul_boxes_rows.c  outputs through shared memory
 */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_EPILOGUE_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_EPILOGUE_H

#include "codegen/reduce.h"
#include "codegen/templates/matmul_result.h"

/* An epilogue under way. */
struct Epilogue {
    Builder *b;
    const MatmulPlan *plan;
    Lower *lower;
    const MatmulFragment *fragment;
    const KExpr *const *batch;
    const MatmulVectors *vectors; /* NULL: none */
    MatmulInputs *inputs;         /* of the present pass; NULL: none */
    int run;            /* elements of a run: fragment->width, or less where the extent is no multiple */
    int64_t begin, end; /* columns that are being stored, where the epilogue moves some */
    int tile_slots;     /* runs of the batch around several boxes; 0: there is none */
    bool is_kept;       /* a batch around all passes is open (matmul_keep.c) */
    /* The result's columns from the thread's first on; NULL: asked run by run. Passes that ask again and
     * again compare constants with it, where compilers would keep each run's column, as many as accumulators.
     */
    const KExpr *columns_left;
    const Value *held; /* what accumulator[0] holds by now instead of the product; NULL: the product */
    VEC(MatmulRow) rows;
    VEC(MatmulRow) row_inputs;   /* what no product goes into (matmul_row_inputs.c) */
    struct EpilogueStore *early; /* what matmul_store_early() stores; NULL: nothing, or no longer */
    const KExpr *column_group;   /* the first of the groups that column statistics are being taken of */
    const PartialVars
        *columns; /* the first column statistics of the batch, known in all lanes; NULL: not yet */
    int boxes;    /* of staging that follow each other along the rows (matmul_boxes_follow) */
    const KVar *kept[STAGING_OUTPUTS]; /* of the last one, what the next stores; NULL: nothing */
};

/* matmul_gaps.c: ahead of all passes, products that are no numbers without what lies in gaps of their second
 * operands (ir/gaps.h). */
void matmul_leave_gaps(Epilogue *e);
/* matmul_keep.c: around all passes, loads of inputs that several of them want. */
void matmul_keep_begin(Epilogue *e);
void matmul_keep_end(Epilogue *e);
/* What is known of the thread's rows is known at one of them from now on. */
void epilogue_bind_rows(Epilogue *e, const KExpr *block, const KExpr *half);
/* matmul_row_inputs.c: brings what is one number for each of the thread's rows, for the whole tile. */
void matmul_row_inputs(Epilogue *e);
/* First column of a warp's box. */
const KExpr *matmul_box_col(Builder *b, const MatmulStaging *staging, const KExpr *box);
/* A box of each staged output, which all lanes have written to stages `boxes`, to memory; `first`: the
 * outputs' first column. */
void matmul_boxes_send(Epilogue *e, const MatmulStaging *staging, const KExpr *block, const KExpr *box,
                       const KExpr *const *boxes, int64_t first);
/* matmul_boxes_rows.c: ahead of them, how many boxes of the same rows leave one behind the other, from left
 * to right; 1: none follows another. */
void matmul_boxes_follow(Epilogue *e, const MatmulStaging *staging, int boxes);
/* A box, number `number` of its rows, of an output that lanes store: from stage `stage`; its first element is
 * that of the result at (box_row, box_col). */
void matmul_box_send_rows(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *box_row,
                          const KExpr *box_col, const KExpr *stage, const KExpr *number);

/* A run within a batch of column groups. */
typedef struct EpilogueSlot {
    const KExpr *block, *half, *group, *piece;
    const KExpr *local; /* group within the batch */
    Run run;
    const KExpr *inside; /* the run's columns lie in the result; NULL: all do */
} EpilogueSlot;
/* Computes `values` for `n_groups` column groups from `group` on, loads first, and calls body with the
 * registers of each run. The first `n_stored` of them the body only stores, which rounds. */
typedef void EpilogueBody(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, void *context);
void epilogue_batch(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups,
                    const Value *const *values, int n, int n_stored, EpilogueBody *body, void *context);
/* How many column groups make a batch. */
int epilogue_batch_groups(const Epilogue *e);
/* Number of a group of columns in the accumulator arrays. */
const KExpr *epilogue_group(Epilogue *e, const KExpr *block, const KExpr *group);
/* Element of the accumulator arrays that a run begins at. */
const KExpr *epilogue_at(Epilogue *e, const EpilogueSlot *slot);
/* The run's number among the thread's. */
const KExpr *epilogue_number(Epilogue *e, const EpilogueSlot *slot);
/* Sets the run's coordinates and guard; registers that hold values are known at it from now on. */
void epilogue_at_run(Epilogue *e, EpilogueSlot *slot);
const KExpr *epilogue_row_at(Epilogue *e, const KExpr *block, const KExpr *half);

/* A loop over chunks of columns, in which e->inputs are at hand; one turn where there are none. Their
 * elements of a batch, then of a run, are taken to registers. */
const KExpr *matmul_inputs_chunk_begin(Epilogue *e);
void matmul_inputs_chunk_end(Epilogue *e);
void matmul_inputs_take(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups);
void matmul_inputs_bind(Epilogue *e, const EpilogueSlot *slot);

void matmul_row_statistics(Epilogue *e,
                           MatmulInputs *inputs); /* inputs NULL: none is read before the first */
/* What the accumulators hold instead of the product from the first statistic on; NULL: the product still. */
const Value *matmul_rows_first_held(Builder *b, const MatmulPlan *plan);
/* Stores outputs that are known before the first statistic is (matmul_is_early), once: statistics are on
 * their way meanwhile. */
void matmul_store_early(Epilogue *e);

/* Up to two statistics on their way between the blocks of a gang. */
enum { GANG_STATISTICS = 2 };
typedef struct MatmulExchange {
    int n, turns;
    const KVar *part[GANG_STATISTICS]; /* by row and turn: what every row_lanes-th block of the gang sent */
} MatmulExchange;
/* Sends what each block knows of its part of the rows: arrays of one 32-bit element for each of the thread's
 * rows, the same in all lanes of a row. */
void matmul_gang_send(Epilogue *e, const KVar *const *partial, int n);
/* Waits for what all blocks have sent. */
MatmulExchange matmul_gang_receive(Epilogue *e, const KVar *const *partial, int n);
/* Element of the exchange's arrays for a row and turn, and whether there is such a block; NULL: always. */
const KExpr *matmul_gang_at(Epilogue *e, const MatmulExchange *exchange, const KExpr *row, const KExpr *turn,
                            const KExpr **guard);
/* A statistic of the whole rows from those of its parts: the same bits in every block of the gang. */
PartialVars matmul_gang_whole(Epilogue *e, const Value *statistic, const MatmulExchange *exchange, int which);
/* matmul_rounds.c: whether a statistic begins rounds that find a row's largest one after the other, and all
 * of them, of what is held by then. */
bool matmul_begins_rounds(const Epilogue *e, const Value *statistic);
void matmul_row_rounds(Epilogue *e, const Value *first);
/* What a statistic reduces, with the product's dims. */
const Value *matmul_reduced(const Value *statistic);

/* matmul_blocks.c: stores statistics of the tile's columns: an element a row. */
void matmul_store_row_blocks(Epilogue *e);
/* Partial results of the column statistics, over column groups from `group` on: declared before them; the
 * first ones folded into for each run (computed[i] are the elements of what plan->columns[i] reduces); behind
 * it the others are computed, all are exchanged between lanes, and stored. */
typedef VEC(PartialVars) MatmulColumns;
void matmul_columns_begin(Epilogue *e, const KExpr *group, int n_groups, MatmulColumns *columns);
void matmul_columns_fold(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                         const MatmulColumns *columns);
void matmul_columns_end(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups,
                        const MatmulColumns *columns);
/* Gives a run the first statistics, where they are known (e->columns). */
void matmul_columns_bind(Epilogue *e, const EpilogueSlot *slot);

/* matmul_epilogue_store.c: outputs that are stored in one pass over the fragment. */
typedef struct EpilogueStore {
    const MatmulStaging *staging; /* NULL: all from registers */
    VEC(const Value *) outputs;   /* one element a point of the space */
    VEC(const Value *) values;    /* outputs, and what column statistics reduce where `columns` */
    bool takes_columns;
    MatmulColumns columns;
    const KVar *packed[STAGING_OUTPUTS]; /* of 16 bits: two elements a word, for stmatrix */
    const KVar *single[STAGING_OUTPUTS]; /* where runs have one element: the batch's, until all are there */
    const KExpr *const *boxes;           /* the stages that the present boxes take */
    const KExpr *box_col;                /* the present batch's first column within a box */
} EpilogueStore;
/* Computes and stores them, and takes the column statistics where it is asked to. */
void epilogue_store(Epilogue *e, EpilogueStore *store);
/* The part of the staging that serves these outputs. */
MatmulStaging epilogue_part_of(const MatmulStaging *staging, const EpilogueStore *store);
/* Outputs of one element a row, by one lane of those that share the row. */
void epilogue_store_rows(Epilogue *e, const Value *const *outputs, int n, const Value *const *bundles,
                         int n_bundles);

#endif
