/* Fusion decisions in a person's words. */
#include <string.h>

#include "codegen/cost.h"
#include "ir/print.h"
#include "runtime/plan.h"

/* By its name; by what it is where it has none; by its operation where a pass took it out of the graph later,
 * since what it was made of may have no name any more either. */
static void explain_value(Text *out, const sinter_plan *plan, const Value *value) {
    const Graph *graph = plan->graph;
    bool is_there = value->id < graph->values.n && graph->values.at[value->id] == value;
    if (value->name)
        text_add(out, "'%s'", value->name);
    else if (!is_there)
        text_add(out, "an earlier `%s`", op_info(value->op)->name);
    else {
        text_add(out, "`");
        value_print(out, plan->graph, value);
        text_add(out, "`");
    }
}

/* What a kernel's parameter is the memory of: of two forms of a result the one that is the graph's output; a
 * part of what is joined is itself. */
static const Value *explain_stored(const sinter_plan *plan, const Value *value) {
    return value->strides ? value : partition_stored(plan->partition, value, NULL);
}

static void explain_names(Text *out, const sinter_plan *plan, const char *verb, Value *const *values,
                          size_t n) {
    text_add(out, "%s ", verb);
    for (size_t i = 0; i < n; i++) {
        text_add(out, i ? ", " : "");
        explain_value(out, plan, explain_stored(plan, values[i]));
    }
    if (!n)
        text_add(out, "nothing");
}

static void explain_border(Text *out, const sinter_plan *plan, const Region *region) {
    explain_names(out, plan, "reads", region->inputs.at, region->inputs.n);
    text_add(out, "; ");
    explain_names(out, plan, "writes", region->outputs.at, region->outputs.n);
    text_add(out, "\n");
}

/* What the cost model expects of the schedule, for what sizes if it is not for one alone, and of the best
 * that it did not take. */
static void explain_predicted(Text *out, const sinter_plan *plan, const PlanKernel *entry) {
    text_add(out, "        predicted %.1f us", entry->schedule.seconds * 1e6);
    const char *between = " for ";
    for (int i = 0; i < plan->n_free_dims; i++) {
        int symbol = plan->free_dims[i];
        text_add(out, "%s%s=%lld", between, dim_symbol_name(plan->graph->dims, symbol),
                 (long long)cost_symbol(plan->graph->dims, symbol, &plan->hint));
        between = ", ";
    }
    for (int i = 0; i < entry->n_choices; i++) {
        Schedule choice = entry->choices[i]; /* its own registers apart */
        choice.ease = entry->schedule.ease;
        choice.producer_registers = entry->schedule.producer_registers;
        choice.consumer_registers = entry->schedule.consumer_registers;
        if (choice.seconds <= 0 || schedule_equals(&choice, &entry->schedule))
            continue;
        text_add(out, "; next %.1f us: ", choice.seconds * 1e6);
        schedule_print(out, &entry->choices[i]);
        break;
    }
    text_add(out, "\n");
}

/* What the template says of its schedule, and the shared memory that it takes. */
static void explain_schedule(Text *out, const sinter_plan *plan, const PlanKernel *entry) {
    const Kernel *kernel = entry->kernel;
    for (const char *line = kernel->summary ? kernel->summary : ""; *line;) {
        size_t n = strcspn(line, "\n");
        text_add(out, "        %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    text_add(out, "        %d threads a block, %lld bytes of shared memory\n", kernel->threads,
             (long long)kernel->smem_bytes);
    if (entry->schedule.seconds > 0)
        explain_predicted(out, plan, entry);
    if (entry->remark)
        text_add(out, "        %s\n", entry->remark);
}

static void explain_kernels(Text *out, const sinter_plan *plan) {
    size_t n = plan->partition->regions.n;
    text_add(out, "graph '%s': %zu kernel%s\n", plan->graph->name, n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        const Region *region = plan->partition->regions.at[i];
        text_add(out, "  %zu %s (%s): ", i, region->name, plan_template_name(region->kind));
        explain_border(out, plan, region);
        for (const Region *guest = region->guest; guest; guest = guest->guest) {
            text_add(out, "      and its guest (%s): ", plan_template_name(guest->kind));
            explain_border(out, plan, guest);
        }
        if ((int)i < plan->n_kernels)
            explain_schedule(out, plan, &plan->kernels[i]);
    }
}

/* The kernels for some sizes alone, each with the sizes. */
static void explain_variants(Text *out, const sinter_plan *plan) {
    for (int i = 0; i < plan->n_variants; i++) {
        text_add(out, "for %s, ", sinter_plan_guard(plan->variants[i]));
        explain_kernels(out, plan->variants[i]);
    }
}

void plan_explain(Text *out, const sinter_plan *plan, int line) {
    if (!line) {
        explain_kernels(out, plan);
        explain_variants(out, plan);
    }
    for (int i = 0; i < plan->n_decisions; i++) {
        const PlanDecision *entry = &plan->decisions[i];
        const Decision *d = entry->decision;
        if (line && entry->line != line)
            continue;
        if (entry->line)
            text_add(out, "line %d: ", entry->line);
        if (d->at)
            explain_value(out, plan, d->at);
        text_add(out, d->fused ? " joined" : " was not joined");
        if (d->other) {
            text_add(out, d->fused ? " to " : " with ");
            explain_value(out, plan, d->other);
        }
        text_add(out, ": %s [%s]\n", d->why ? d->why : "", d->rule);
        if (d->change)
            text_add(out, "        it would be, if %s\n", d->change);
    }
}
