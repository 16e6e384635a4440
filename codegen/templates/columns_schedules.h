/* Schedules of the columns template (columns_schedules.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_COLUMNS_SCHEDULES_H
#define SINTER_CODEGEN_TEMPLATES_COLUMNS_SCHEDULES_H

#include "codegen/template.h"

enum { COLUMNS_UNROLL = 4 /* rows in flight; of more, registers say how many blocks are on an SM */ };

bool columns_accepts(const Graph *graph, const Region *region, const Schedule *s, const Target *target,
                     const char **why);
int columns_schedules(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                      Schedule *out, int room);

#endif
