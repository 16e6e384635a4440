/* What a thread has of a product behind its loop over K, and what becomes of it (matmul_epilogue.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_RESULT_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_RESULT_H

#include "codegen/lower.h"
#include "codegen/templates/matmul_gang.h"
#include "codegen/templates/matmul_inputs.h"
#include "codegen/templates/matmul_patch.h"
#include "codegen/templates/matmul_staging.h"

/* What a thread has of the product after the loop over K: element
 *     ((block * block_groups + first_group + group) * halves + half) * width + e   of each accumulator array
 * is row  row + block * block_rows + half * half_rows,  column  col + group * group_cols + e. */
typedef struct MatmulFragment {
    const KVar *accumulator[MATMUL_CORES];
    int blocks, block_rows;
    int halves, half_rows;
    int groups, group_cols;
    int block_groups;         /* of the arrays: more than `groups` where a tile has several matrices */
    const KExpr *first_group; /* of this one; NULL: 0 */
    int width;
    const KExpr *row, *col;
    const KExpr *lane_col; /* the thread's first column of a group; NULL where no columns move */
    int tile_rows,
        tile_cols; /* of the tile, or the cluster's tiles together: extents that they divide need no guard */
    int row_lanes; /* neighbouring lanes that share each row, together all of the tile's columns */
    bool is_swapped;                      /* rows lie along N, columns along M */
    const struct MatmulRow *operand_rows; /* the plan's, known in all lanes of a row; NULL: loops in place */
    const struct MatmulRows *row_inputs;  /* what matmul_load_rows() gave; NULL: brought where it is wanted */
    const MatmulPlace
        *place; /* of the thread's first row, where rows are a patch's; NULL: they follow each other */
    const MatmulTapRows
        *taps;     /* where rows are taps and channels; NULL: they follow each other, or are a patch's */
    bool is_whole; /* the tile's first column is the result's, and group g has columns 8 g and on */
    const MatmulGang *gang; /* blocks that hold the rest of the rows; NULL: the tile holds whole rows */
} MatmulFragment;

/* The row of a half of a block, and whether it is one of the result's; NULL: all of the tile's are. */
const KExpr *matmul_fragment_row(Builder *b, const MatmulFragment *fragment, const KExpr *block,
                                 const KExpr *half);
const KExpr *matmul_fragment_has_row(Builder *b, const MatmulPlan *plan, const MatmulFragment *fragment,
                                     const KExpr *block, const KExpr *half);

/* Nothing that reads the registers may move in front of this place, nor be known to be what was computed
 * before it. */
void matmul_settle(Builder *b, const KVar *array);
/* A number known anew at this place: what is computed of it is not kept in registers from elsewhere. */
const KExpr *matmul_anew(Builder *b, const char *name, const KExpr *value);
/* staging NULL: every output is stored from registers. */
void matmul_epilogue(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                     const KExpr *const *batch, const MatmulStaging *staging, const MatmulVectors *vectors,
                     MatmulInputs *inputs);
/* Stores nothing: `value`, of the product's shape, takes the product's place in accumulator[0], for another
 * product; zero behind the last column. */
void matmul_epilogue_hold(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulVectors *vectors, const Value *value);
/* Likewise: where `condition`, of the product's shape, does not hold, or is_hidden: where it does, the
 * product is replaced by a number. */
void matmul_epilogue_select(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                            const KExpr *const *batch, const MatmulVectors *vectors, const Value *condition,
                            bool is_hidden, double number);

/* The same in parts of the columns, and into words of two neighbours of 16 bits: of fragments two elements
 * wide that differ in their columns alone. What is one number a row is read once, ahead of the parts. Behind
 * the last column anything is packed. */
typedef struct Epilogue Epilogue;
Epilogue *matmul_pack_begin(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                            const KExpr *const *batch, const MatmulVectors *vectors);
void matmul_pack(Epilogue *e, const MatmulFragment *fragment, const Value *value, const KVar *packed);
/* Not packed: it takes the place of accumulator[0]. */
void matmul_pack_hold(Epilogue *e, const MatmulFragment *fragment, const Value *value);
void matmul_pack_end(Epilogue *e);

/* What is known of a thread's rows. */
typedef struct MatmulRow {
    const Value *value; /* a statistic, or an input */
    const KVar *array;  /* one register for each of the thread's rows: blocks * halves */
} MatmulRow;
/* Stores the outputs of a plan that has none but those of one element a row, computed from what is known of
 * the rows in all lanes that share them. */
void matmul_epilogue_rows(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulRow *known, int n_known);

/* Inputs of the epilogue with one number for each of the thread's rows, in registers: for a tile that is
 * finished in parts (MatmulFragment.row_inputs). `fragment`: of any part. */
enum { ROW_INPUTS_MOST = 4 };
typedef struct MatmulRows {
    int n;
    MatmulRow at[ROW_INPUTS_MOST];
} MatmulRows;
MatmulRows *matmul_load_rows(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                             const KExpr *const *batch);

/* A register for each of the thread's rows, of a value of the plan's region that no product goes into and
 * that has one element a row, or one for several: the same in all lanes of a row. */
const KVar *matmul_epilogue_row(Builder *b, const MatmulPlan *plan, Lower *lower,
                                const MatmulFragment *fragment, const KExpr *const *batch,
                                const Value *value);

/* An unrolled loop over 0 .. count-1; a constant and no loop where count is 1. */
const KExpr *epilogue_loop(Builder *b, const char *name, int count);
void epilogue_loop_end(Builder *b, int count);

#endif
