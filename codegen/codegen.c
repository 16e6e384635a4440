/* From a region to a kernel: the schedule, with what the graph's @schedule asks for over the template's
 * choice, then the build. */
#include "codegen/codegen.h"

#include "codegen/cost.h"
#include "codegen/lower.h"

int codegen_schedules(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                      Schedule *out, int room) {
    return template_of(region->kind)->schedules(graph, region, target, hint, out, room);
}

bool codegen_accepts(const Graph *graph, const Region *region, const Target *target, const Schedule *schedule,
                     const char **why) {
    return template_of(region->kind)->accepts(graph, region, schedule, target, why);
}

/* What @schedule leaves open: the quickest of the template's schedules that have what it says, or else the
 * quickest that the template accepts with what it says in place of its own. Of the path that it says, or the
 * quickest one. */
static bool codegen_complete(const Graph *graph, Region *region, const Target *target,
                             const DimBindings *hint, Diags *diags) {
    enum { ALL = 4096 };
    Schedule *list = ARENA_ARRAY(graph->arena, Schedule, ALL), taken = region->schedule;
    int n = codegen_schedules(graph, region, target, hint, list, ALL);
    bool is_taken = false, agrees = false;
    for (int i = 0; i < n && !agrees; i++) {
        const char *why;
        Schedule asked = list[i];
        if (asked.path != region->schedule.path || !schedule_apply_hint(region->schedule_hint, &asked, diags))
            continue;
        bool has_all = schedule_agrees(&asked, &list[i]);
        if ((is_taken && !has_all) || !codegen_accepts(graph, region, target, &asked, &why))
            continue;
        taken = asked;
        is_taken = true;
        agrees = has_all;
    }
    if (!agrees)
        taken.seconds = 0; /* nobody predicted it */
    region->schedule = taken;
    return is_taken;
}

bool codegen_settle(const Graph *graph, Region *region, const Target *target, const DimBindings *hint,
                    const Schedule *choice, Diags *diags) {
    region->schedule = *choice;
    if (!region->schedule_hint)
        return true;
    region->schedule.seconds = 0;
    if (!schedule_apply_hint(region->schedule_hint, &region->schedule, diags))
        return false;
    const char *why = "the template refuses it";
    if (codegen_complete(graph, region, target, hint, diags) ||
        codegen_accepts(graph, region, target, &region->schedule, &why))
        return true;
    diag_error(diags, DIAG_SCHEDULE, region->schedule_hint->span,
               "the %s template cannot do this @schedule: %s", template_of(region->kind)->name, why);
    return false;
}

bool codegen_schedule(const Graph *graph, Region *region, const Target *target, const DimBindings *hint,
                      Diags *diags) {
    Schedule choices[CODEGEN_SCHEDULES];
    codegen_schedules(graph, region, target, hint, choices, CODEGEN_SCHEDULES);
    return codegen_settle(graph, region, target, hint, &choices[0], diags);
}

/* Whether rows or columns would be stored element by element, against their order, for want of a tile. */
static bool codegen_scatters(const Graph *graph, const Region *region, const Schedule *schedule) {
    if ((region->kind != TEMPLATE_ROWS && region->kind != TEMPLATE_COLUMNS) || schedule->turned_vector)
        return false;
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        int axis =
            op_info(output->op)->class_ == OPCLASS_MOVEMENT && lower_output_is_whole(graph, region, output)
                ? lower_write_axis(graph, region, output)
                : -1;
        if (axis >= 0 && axis < region->rank - 1)
            return true;
    }
    return false;
}

bool codegen_takes(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                   const char **why) {
    Schedule choices[2]; /* the second is the loop, where that is not all there is */
    *why = "its template has no schedule for it";
    return template_of(region->kind)->schedules(graph, region, target, hint, choices, 2) > 0 &&
           choices[0].path != MATMUL_LOOP && !codegen_scatters(graph, region, &choices[0]);
}

double codegen_seconds(const Graph *graph, const Region *region, const Target *target,
                       const DimBindings *hint) {
    Schedule choices[2]; /* the last is the loop that always works */
    if (region->cores.n == 0)
        return cost_moving_seconds(graph, region, target, hint);
    int n = template_of(region->kind)->schedules(graph, region, target, hint, choices, 2);
    return n > 0 ? choices[0].seconds : 0;
}

double codegen_schedule_seconds(const Graph *graph, const Region *region, const Target *target,
                                const DimBindings *hint, const Schedule *schedule) {
    if (region->cores.n == 0)
        return cost_moving_seconds(graph, region, target, hint);
    const Template *template = template_of(region->kind);
    return template->seconds ? template->seconds(graph, region, target, hint, schedule) : 0;
}

/* What takes a region that its own template refuses, with the schedule set: rows and columns aside, every
 * region is pointwise if need be; and one thread an element takes them all. */
static const Template *codegen_fallback(const Graph *graph, Region *region, const Target *target) {
    const char *why;
    if (region->n_reduced == 0 && region->cores.n == 0) {
        template_pointwise.schedules(graph, region, target, NULL, &region->schedule, 1);
        if (template_pointwise.accepts(graph, region, &region->schedule, target, &why))
            return &template_pointwise;
    }
    template_any.schedules(graph, region, target, NULL, &region->schedule, 1);
    return &template_any;
}

Kernel *codegen_kernel(Arena *arena, const Graph *graph, const Region *region, const Target *target,
                       Diags *diags) {
    const Template *template = template_of(region->kind);
    const char *why = NULL;
    if (!template->accepts(graph, region, &region->schedule, target, &why)) {
        if (region->guest) {
            diag_error(diags, DIAG_INTERNAL, (Span){0}, "kernel '%s' cannot have its guest: %s", region->name,
                       why);
            return NULL;
        }
        Region *fallback = ARENA_NEW(arena, Region);
        *fallback = *region;
        template = codegen_fallback(graph, fallback, target);
        region = fallback;
    }
    Builder b = builder_new(arena, region, graph, target, diags);
    int errors = diags->errors;
    b.kernel->waits = region->follows && target->sm >= atom_info(ATOM_grid_wait)->sm;
    if (!template->orders)
        template_order(&b, region);
    template->build(&b, region);
    if (why)
        b.kernel->summary = text_format(arena, "%s (the %s template: %s)", b.kernel->summary,
                                        template_of(region->kind)->name, why);
    return diags->errors == errors ? builder_finish(&b) : NULL;
}
