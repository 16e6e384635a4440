/* What the files split.c and split_rows.c share. */
#ifndef SINTER_PASSES_SPLIT_H
#define SINTER_PASSES_SPLIT_H

#include "passes/rewrite.h"

typedef struct SplitRows SplitRows;

/* Finds the reductions down columns that kernels of rows can do in parts of a block of rows each. Lasts as
 * long as the pass. */
const SplitRows *split_rows_find(Pass *pass, const Graph *graph);
/* Rows of such a block; 0: `value` is none of them. */
int64_t split_rows_block(const SplitRows *found, const Value *value);

#endif
