/* Columns all of whose rows a block has in registers, and results that are stored along these rows
 * (columns_held.c): a part of the columns template. */
#ifndef SINTER_CODEGEN_TEMPLATES_COLUMNS_HELD_H
#define SINTER_CODEGEN_TEMPLATES_COLUMNS_HELD_H

#include "codegen/templates/transpose.h"

/* Whether an output with as many elements as the space is stored along the reduced rows. */
bool columns_stores_turned(const Graph *graph, const Region *region);
/* Why a schedule with `resident`, which suits the columns template otherwise and takes `bytes` of shared
 * memory so, does not suit this part; NULL: it does. */
const char *columns_held_refuses(const Graph *graph, const Region *region, const Schedule *schedule,
                                 const Target *target, int64_t bytes);
/* Such schedules by runs of at most `vector` columns; how many. */
int columns_held_schedules(const Graph *graph, const Region *region, const Target *target, int vector,
                           Schedule *out, int room);
/* The tile that a block's strip is, and which outputs go through it. */
Transpose columns_tile_plan(Builder *b, Lower *lower, const Region *region);
/* Declares the tiles of the strip whose first element has the run's coordinates. */
void columns_tile_begin(Transpose *tile, const Run *first);
/* A run of an output, computed by a thread whose first row is `y`, of its rows number `slot`, which are
 * `above` apart: into the tile, from the strip's column `column` on. */
void columns_tile_put(const Transpose *tile, const LowerTarget *target, const KExpr *y, const KExpr *slot,
                      int above, const KExpr *column);

#endif
