/* What schedules are chosen by: sizes as far as they are known, and how many bytes a region moves. */
#ifndef SINTER_CODEGEN_COST_H
#define SINTER_CODEGEN_COST_H

#include "codegen/kernel.h"

enum { COST_UNKNOWN_EXTENT = 4096 }; /* what a symbol without a value counts as */

/* A symbol's value: the one that the caller knows (hint may be NULL), or what it counts as. */
int64_t cost_symbol(const DimTable *table, int symbol, const DimBindings *hint);
/* A dim under the bindings that the caller knows (hint may be NULL); saturates at 2^62. */
int64_t cost_extent(const Graph *graph, const Dim *dim, const DimBindings *hint);
/* Product of the extents of axes [begin, end) of the region's space. */
int64_t cost_space(const Graph *graph, const Region *region, int begin, int end, const DimBindings *hint);
/* Bytes that the region reads and writes, each input once; of one that is gathered, what is chosen. */
int64_t cost_bytes(const Graph *graph, const Region *region, const DimBindings *hint);
/* Seconds of a kernel behind others that does little but move these bytes. */
double cost_moving_seconds(const Graph *graph, const Region *region, const Target *target,
                           const DimBindings *hint);
/* Inputs that every element of the space reads its own element of: what a thread has in flight for each run.
 */
int cost_streams(const Graph *graph, const Region *region);
/* How the region's large inputs are cached where little is written: streamed where they cannot stay in the L2
 * cache anyway (the largest of 32000 in 4096 rows: 71 us, 68 so; sums of 4096 columns of 16384: 46 and 42).
 * Beside as much that is written it costs 3 to 12 %. */
KCache cost_cache(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint);
/* Largest power of two that is at most `limit` and for which `enough` blocks remain of `items`, each block
 * taking `per_block` at 1. */
int cost_unroll(int64_t items, int64_t per_block, int64_t enough, int limit);

#endif
