/* Rows whose results are stored across them, through a tile of several rows (rows_turned.c): a part of the
 * rows template. */
#ifndef SINTER_CODEGEN_TEMPLATES_ROWS_TURNED_H
#define SINTER_CODEGEN_TEMPLATES_ROWS_TURNED_H

#include "codegen/templates/rows_build.h"

/* Whether an output with as many elements as the space is stored along another axis than the rows' own. */
bool rows_store_turned(const Graph *graph, const Region *region);
/* Why a schedule, which suits the rows template otherwise and takes `bytes` of shared memory so, does not
 * suit such a region, or has a turned_vector without need; NULL: neither. */
const char *rows_turned_refuses(const Graph *graph, const Region *region, const Schedule *schedule,
                                const Target *target, int64_t bytes);
/* Schedules of such a region, of rows as `like` has them; how many. */
int rows_turned_schedules(const Graph *graph, const Region *region, const Target *target,
                          const Schedule *like, Schedule *out, int room);
/* Which outputs of the kernel go through the tile. */
void rows_tile_plan(Rows *rows);
/* The rows of the block number `block`, of which the thread has every so many from `above` on. */
void rows_tile_build(Rows *rows, const KExpr *block, const KExpr *above, void (*build_row)(Rows *rows));
/* A run of an output that goes through the tile. */
void rows_tile_put(const Rows *rows, const LowerTarget *target, const Run *run);

#endif
