/* The inside of a plan's variants: family.c makes them, family_cut.c decides for which sizes. */
#ifndef SINTER_RUNTIME_FAMILY_H
#define SINTER_RUNTIME_FAMILY_H

#include <stdatomic.h>

#include "runtime/plan.h"

enum {
    FAMILY_SKETCHES = 16, /* at a time */
    FAMILY_SCOPES = 16,
    FAMILY_KERNELS = 16, /* of a plan whose sizes are cut: each variant has as many again */
};

/* The sizes of one extent that a variant is made for. */
typedef struct FamilyRange {
    const Dim *extent;    /* of the plan's table; NULL: nothing is said of the sizes */
    int64_t lower, upper; /* guarded; INT64_MAX: no bound */
    int64_t hint;         /* what schedules are chosen for; 0: nothing in particular */
} FamilyRange;

typedef struct Family {
    sinter_plan *plan;
    const sinter_graph *graph;
    sinter_plan_options options;
    VEC(DimGuard) facts; /* of all variants; dims of the plan's table */
    DimBindings usual;   /* values to expect where a variant has none of its own */
    PlanScope *scopes[FAMILY_SCOPES];
    int n_scopes, plain; /* of them the one that has the facts alone; -1: none */
    sinter_plan *sketches[FAMILY_SKETCHES], *made[FAMILY_SCOPES]; /* NULL: none, or no longer the family's */
    sinter_status status[FAMILY_SCOPES];
    atomic_int next; /* scope that nobody makes yet */
} Family;

/* What every size of an extent is a multiple of in a variant, and at least: none is 0. */
int64_t family_multiple(const Family *family, const Dim *extent);
/* Whether d is a product of symbols; *last is the one that takes its value where the others are 1. */
bool family_is_extent(const Dim *d, const Dim **last);
/* Values of the dims where an extent has this size: of the others nothing is known but what is hinted. */
DimBindings family_point(const Family *family, const Dim *extent, int64_t size);
/* The facts, and a range (extent NULL: none). */
PlanScope *family_scope(Family *family, const FamilyRange *range);

/* Calls work(context) in as many threads as there are processors, at most n, this one among them; each takes
 * what is next as long as there is any. Ends when all have. */
void family_run(void *(*work)(void *context), void *context, int n);

/* family_cut.c. Adds a scope for each set of sizes that gains by kernels of its own, and says in
 * family->plan which sizes are whose. */
void family_cut(Family *family);

#endif
