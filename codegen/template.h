/* Templates: from a region and a schedule to kernel IR. One file each in templates/; the table stands in
 * template.c. */
#ifndef SINTER_CODEGEN_TEMPLATE_H
#define SINTER_CODEGEN_TEMPLATE_H

#include "codegen/kernel_build.h"

typedef struct Template {
    const char *name;
    /* Whether the template can do this region with this schedule on this target; *why a person's words where
     * not. */
    bool (*accepts)(const Graph *graph, const Region *region, const Schedule *schedule, const Target *target,
                    const char **why);
    /* The schedules worth trying, best first by the cost model; returns how many (at least 1, at most
     * `room`). `hint` binds symbols that the caller knows, or expects; others count as 4096. */
    int (*schedules)(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                     Schedule *out, int room);
    /* Seconds that the cost model expects of an accepted schedule; 0 where it cannot tell. NULL: it never
     * can.
     */
    double (*seconds)(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                      const Schedule *schedule);
    /* Builds into b. region->schedule has been accepted. */
    void (*build)(Builder *b, const Region *region);
    /* `build` says by template_order() where the kernel waits for the one before it; else it begins so. */
    bool orders;
} Template;

extern const Template template_pointwise, template_rows, template_columns, template_transpose,
    template_matmul, template_chain, template_relay;
/* One thread an element, everything in loops in place: takes any region, for what its own template refuses.
 */
extern const Template template_any;
const Template *template_of(TemplateKind kind);

/* What several templates ask of a schedule: threads that are threads_per_row times rows_per_block, and a
 * vector that divides the innermost dim; *why where not. */
bool template_takes_rows(const Schedule *schedule, const char **why);
bool template_takes_vector(const Graph *graph, const Region *region, const Schedule *schedule,
                           const char **why);

/* Programmatic dependent launch: the kernels of a plan start while the one before still runs, so that
 * launches and first instructions overlap. From here on all that the kernels before have written is there:
 * the one before has completed, which by the same rule is after all before that. The next may start as soon
 * as all blocks of this one run, where they are few enough to say so. What no kernel of the plan writes may
 * be read earlier. */
void template_order(Builder *b, const Region *region);

#endif
