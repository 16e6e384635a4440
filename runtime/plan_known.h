/* What the cost model has said of regions while a graph is cut into them: of one that is like another, the
 * same. */
#ifndef SINTER_RUNTIME_PLAN_KNOWN_H
#define SINTER_RUNTIME_PLAN_KNOWN_H

#include "codegen/codegen.h"

typedef struct KnownRegion {
    const Region *region; /* a copy: fusion goes on with its own */
    bool has_takes, takes, has_seconds;
    const char *why;
    double seconds;
} KnownRegion;

typedef struct PlanKnown {
    Arena *arena;
    const Target *target;
    const DimBindings *hint;
    VEC(KnownRegion) regions;
} PlanKnown;

/* codegen_takes() and codegen_seconds(), of regions of one graph that does not change meanwhile, as
 * PassOptions has them: context is a PlanKnown. */
bool plan_known_takes(void *context, const Graph *graph, const Region *region, const char **why);
double plan_known_seconds(void *context, const Graph *graph, const Region *region);

#endif
