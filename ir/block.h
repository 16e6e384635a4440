/* Statistics of blocks: what a kernel that has only a tile of a matrix at a time can know of its rows and
 * columns.
 *
 *     r = reshape(pad(x, ..), dims=[M, N / 256, 256])     x: [M, N], padded where N is no multiple
 *     p = sum(r, over=2)                                  [M, N / 256, 1]: of 256 columns of each row
 *     s = reshape(broadcast(p, dims=[M, N / 256, 256]), dims=[M, N])[:, 0:N]     each element its block's
 *
 * The forms are made by one pass (passes/split_product.c), and known again by fusion and by the template. */
#ifndef SINTER_IR_BLOCK_H
#define SINTER_IR_BLOCK_H

#include "ir/graph.h"

typedef struct BlockStatistic {
    Value *of; /* what is reduced, before it is cut in blocks */
    int axis; /* of `of`, along which blocks lie: the last (blocks of columns), or the one before (of rows) */
    int64_t block; /* elements along that axis */
} BlockStatistic;

/* Whether `value` is such a reduction (p above). */
bool block_statistic(const Value *value, BlockStatistic *out);
/* The statistic of blocks that an output is by reshapes and transposes, an order of storing it; NULL: none.
 */
const Value *block_stored(const Value *output);
/* The statistic that `value` repeats (p for s above, and for the broadcast and the reshape in it); NULL where
 * it is none of these. */
const Value *block_repeated(const Value *value);

#endif
