/* What the files split.c, split_rows.c, split_squares.c, split_groups.c and split_places.c share. */
#ifndef SINTER_PASSES_SPLIT_H
#define SINTER_PASSES_SPLIT_H

#include "passes/rewrite.h"

/* Elements along the axes that `value` reduces, and along the others; false where a dim is not constant,
 * there is none, or their product overflows. */
bool split_counts(const Value *value, int64_t *reduced, int64_t *kept);

/* Whether a reduction by `op` is one of parts that are reduced first, in any order. */
bool split_takes_parts(OpKind op);

/* Whether a matrix has even blocks of 128 rows, enough for all multiprocessors, so that the kernel that
 * stores it turned reduces its columns, or all of it, too (split_turned.c). */
bool split_takes_turned(const Pass *pass, const Value *value);

/* Axes of a reduction's operand that follow each other, all of them reduced, of which parts are made. */
typedef struct SplitRun {
    int at, n;          /* the first, how many */
    int64_t rows;       /* elements along them */
    int64_t kept;       /* results */
    bool is_row;        /* they are the last axes */
    bool is_dealt;      /* rows are dealt out to parts one by one, and do not follow each other */
    bool is_group;      /* the last axis is reduced too, by the kernel that puts parts together */
    int perm[RANK_MAX]; /* of a group: parts, their rows and the other axes as they lie in memory */
    int row;            /* the axis that rows are, so moved */
} SplitRun;

typedef struct SplitGroups SplitGroups;

/* The axes that `value` reduces; false where they do not follow each other, or are of unknown lengths. */
bool split_run(const SplitGroups *groups, const Value *value, SplitRun *run);
/* Parts of a row, where there are so few rows that not all multiprocessors would work; else 1 or less. */
int64_t split_row_parts(const SplitRun *run, int64_t most);

/* A reduction's operand with so many parts of the run. Of a group: as it lies in memory, and the axes behind
 * the rows are one, of columns. */
Value *split_cut(Rewrite *rewrite, Value *operand, const SplitRun *run, int64_t parts, const Value *like);
/* What is cut reduced along the rows of each part. */
Value *split_reduce_rows(Rewrite *rewrite, OpKind op, Value *cut, const SplitRun *run, const Value *like);
/* What is so reduced, or made of that, in the order of the axes of `value`, the reduction. */
Value *split_parts_of(Rewrite *rewrite, Value *reduced, const SplitRun *run, int64_t parts, Value *value);
/* This reduced along parts, and the last axis of a group; `value` itself, where there is none of its type. */
Value *split_joined(Rewrite *rewrite, Value *parts, const SplitRun *run, Value *value);

/* Finds the reductions that sums of the columns of the same tensors are computed from, as the gradient of a
 * group norm has them. Lasts as long as the pass. */
const SplitGroups *split_groups_find(Pass *pass, const Graph *graph);
/* Whether a reduction over the last axes reads pieces of memory so short, with others between them, that
 * columns had better be reduced first, and then those of a group: *run, of its axes, becomes the columns'. */
bool split_groups(const SplitGroups *found, const Value *value, SplitRun *run);

typedef struct SplitRows SplitRows;

/* Finds the reductions down columns that kernels of rows can do in parts of a block of rows each. Lasts as
 * long as the pass. */
const SplitRows *split_rows_find(Pass *pass, const Graph *graph);
/* Rows of such a block; 0: `value` is none of them. */
int64_t split_rows_block(const SplitRows *found, const Value *value);

/* Where a reduction of everything, or of the matrices of a batch of products, is of what a kernel has or
 * writes by rows anyway, how many axes, the last ones, that kernel had better reduce first; else 0. */
int split_rows_whole(Pass *pass, const Graph *graph, const Value *value);

typedef struct SplitSquares SplitSquares;

/* Finds sums of squares around a mean down long columns, and the sums that these means come from. Lasts as
 * long as the pass. */
const SplitSquares *split_squares_find(Pass *pass, const Graph *graph, const SplitGroups *groups);
/* The parts that both of such a pair are taken in; 0: `value` is of none. */
int64_t split_squares_get(const SplitSquares *found, const Value *value);
/* A sum of squares in so many parts; `value` itself where it is none. */
Value *split_squares_apply(Rewrite *rewrite, const SplitGroups *groups, Value *value, int64_t parts);

/* The most parts, at most `wanted`, that divide n with `least` elements or more each; 1 where there are none.
 */
int64_t split_parts(int64_t n, int64_t wanted, int64_t least);

/* A sum over images and all places of windows in parts of an image; `value` itself where it is none. */
Value *split_places(Rewrite *rewrite, Value *value);

#endif
