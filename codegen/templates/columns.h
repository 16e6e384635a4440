/* A strip of columns a warp: what the columns template (columns.c) computes, for a kernel of another template
 * that hosts it. */
#ifndef SINTER_CODEGEN_TEMPLATES_COLUMNS_H
#define SINTER_CODEGEN_TEMPLATES_COLUMNS_H

#include "codegen/kernel_build.h"

/* Whether warps by themselves do for the region: it reduces, and all that it stores is one element a column.
 */
bool columns_warp_takes(const Graph *graph, const Region *region);
/* How one warp takes a strip with so many registers a thread: neither shared memory nor barriers of the
 * block. `ease` as in a schedule: fewer loads in flight. */
Schedule columns_warp_schedule(const Graph *graph, const Region *region, int registers, int ease);
/* Strips that there are under it. */
const Dim *columns_warp_strips(const Graph *graph, const Region *region, const Schedule *schedule);
/* The strip number `strip`, which exists, by the calling warp under such a schedule, which must last as long
 * as the builder. All lanes come here together. */
void columns_build_warp(Builder *b, const Region *region, const Schedule *schedule, const KExpr *strip,
                        const KExpr *lane);

#endif
