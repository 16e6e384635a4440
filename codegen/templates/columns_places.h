/* Columns of several places a thread (columns_places.c): a part of the columns template. */
#ifndef SINTER_CODEGEN_TEMPLATES_COLUMNS_PLACES_H
#define SINTER_CODEGEN_TEMPLATES_COLUMNS_PLACES_H

#include "codegen/kernel_build.h"

enum { PLACES_TAPS = 32 /* along the last reduced axis, at most, which are written out */ };

/* Whether a schedule with `places`, which suits the columns template otherwise, suits this part. */
bool columns_accepts_places(const Graph *graph, const Region *region, const Schedule *schedule,
                            const char **why);
/* Schedules with places for a region of windows, by runs of `vector` elements; how many. */
int columns_places_schedules(const Graph *graph, const Region *region, const Target *target,
                             const DimBindings *hint, int vector, Schedule *out, int room);
void columns_build_places(Builder *b, const Region *region);

#endif
