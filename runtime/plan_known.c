#include "runtime/plan_known.h"

enum {
    KNOWN_MOST = 512 /* regions that are kept: a graph of more kernels that are all different gains nothing */
};

/* Most regions are told apart by these. */
static bool known_may_be(const Region *a, const Region *b) {
    return a->kind == b->kind && a->values.n == b->values.n && a->outputs.n == b->outputs.n &&
           a->inputs.n == b->inputs.n;
}

/* NULL: it is not known, and there is no room for more. */
static KnownRegion *known_of(PlanKnown *known, const Graph *graph, const Region *region) {
    for (size_t i = 0; i < known->regions.n; i++) {
        KnownRegion *at = &known->regions.at[i];
        if (known_may_be(at->region, region) && region_is_alike(known->arena, graph, at->region, region))
            return at;
    }
    if (known->regions.n >= KNOWN_MOST)
        return NULL;
    vec_push(known->arena, &known->regions, ((KnownRegion){.region = region_copy(known->arena, region)}));
    return &known->regions.at[known->regions.n - 1];
}

bool plan_known_takes(void *context, const Graph *graph, const Region *region, const char **why) {
    PlanKnown *known = context;
    KnownRegion *at = known_of(known, graph, region);
    if (!at)
        return codegen_takes(graph, region, known->target, known->hint, why);
    if (!at->has_takes)
        at->takes = codegen_takes(graph, region, known->target, known->hint, &at->why);
    at->has_takes = true;
    *why = at->why;
    return at->takes;
}

double plan_known_seconds(void *context, const Graph *graph, const Region *region) {
    PlanKnown *known = context;
    KnownRegion *at = known_of(known, graph, region);
    if (!at)
        return codegen_seconds(graph, region, known->target, known->hint);
    if (!at->has_seconds)
        at->seconds = codegen_seconds(graph, region, known->target, known->hint);
    at->has_seconds = true;
    return at->seconds;
}
