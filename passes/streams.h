/* Attention by a kernel that takes the keys in parts (codegen/templates/chain_stream.c): which heads it has
 * room for (streams.c). `scores` is q @ k.T, `product` softmax(x) @ v. */
#ifndef SINTER_PASSES_STREAMS_H
#define SINTER_PASSES_STREAMS_H

#include "ir/graph.h"

/* Whether a kernel has room for a query's and a value's elements, and is the better plan for them. */
bool streams_heads(const Graph *graph, const Value *scores, const Value *product);
/* Whether they are more than two tiles of queries, or a warpgroup's registers, have room for: tiles are of 64
 * rows then, and parts shorter. */
bool streams_is_wide(const Graph *graph, const Value *scores, const Value *product);
/* Whether values are part of what memory has of the keys, and are read with them. */
bool streams_keeps_values(const Value *scores, const Value *product);

#endif
