/* What the files split.c, split_rows.c, split_squares.c and split_places.c share. */
#ifndef SINTER_PASSES_SPLIT_H
#define SINTER_PASSES_SPLIT_H

#include "passes/rewrite.h"

/* Elements along the axes that `value` reduces, and along the others; false where a dim is not constant,
 * there is none, or counts overflow. */
bool split_counts(const Value *value, int64_t *reduced, int64_t *kept);

typedef struct SplitRows SplitRows;

/* Finds the reductions down columns that kernels of rows can do in parts of a block of rows each. Lasts as
 * long as the pass. */
const SplitRows *split_rows_find(Pass *pass, const Graph *graph);
/* Rows of such a block; 0: `value` is none of them. */
int64_t split_rows_block(const SplitRows *found, const Value *value);

typedef struct SplitSquares SplitSquares;

/* Finds sums of squares around a mean down long columns, and the sums that these means come from. Lasts as
 * long as the pass. */
const SplitSquares *split_squares_find(Pass *pass, const Graph *graph);
/* The parts that both of such a pair are taken in; 0: `value` is of none. */
int64_t split_squares_get(const SplitSquares *found, const Value *value);
/* A sum of squares in so many parts; `value` itself where it is none. */
Value *split_squares_apply(Rewrite *rewrite, Value *value, int64_t parts);

/* The most parts, at most `wanted`, that divide n with `least` elements or more each; 1 where there are none.
 */
int64_t split_parts(int64_t n, int64_t wanted, int64_t least);

/* A sum over images and all places of windows in parts of an image; `value` itself where it is none. */
Value *split_places(Rewrite *rewrite, Value *value);

#endif
