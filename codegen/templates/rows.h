/* A row a warp: what the rows template (rows.c) computes, for a kernel of another template that hosts it. */
#ifndef SINTER_CODEGEN_TEMPLATES_ROWS_H
#define SINTER_CODEGEN_TEMPLATES_ROWS_H

#include "codegen/kernel_build.h"

/* How one warp takes a row of the region with so many registers a thread: neither shared memory nor barriers
 * of the block. `ease` as in a schedule: fewer loads in flight. */
Schedule rows_warp_schedule(const Graph *graph, const Region *region, int registers, int ease);
/* The row number `row`, which exists, by the calling warp under such a schedule, which must last as long as
 * the builder. All lanes come here together. */
void rows_build_warp(Builder *b, const Region *region, const Schedule *schedule, const KExpr *row,
                     const KExpr *lane);

#endif
