/* Attention by a kernel that takes the keys in parts (codegen/templates/chain_stream.c): which heads it has
 * room for (streams.c). `scores` is q @ k.T, `product` softmax(x) @ v. */
#ifndef SINTER_PASSES_STREAMS_H
#define SINTER_PASSES_STREAMS_H

#include "passes/pass.h"

/* Whether attention by one kernel is the plan, as far as sizes and types say. */
bool streams_take(const Graph *graph, const FuseLimits *limits, const Value *scores, const Value *product);
/* Whether a kernel has room for a query's and a value's elements, and is the better plan for them. */
bool streams_heads(const Graph *graph, const Value *scores, const Value *product);
/* Whether they are more than two tiles of queries, or a warpgroup's registers, have room for: tiles are of 64
 * rows then, and parts shorter. */
bool streams_is_wide(const Graph *graph, const Value *scores, const Value *product);
/* Whether such a kernel has tiles worth its while, of `times` the matrices: enough of them to ask much of
 * memory; for heads that are not wide, product_streams(). */
bool streams_pays(const Graph *graph, const Value *scores, const Value *product, int64_t times);
/* Whether values are part of what memory has of the keys, and are read with them. */
bool streams_keeps_values(const Value *scores, const Value *product);

#endif
