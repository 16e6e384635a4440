/* One box a value; kernels are clusters; a value that several kernels compute again stands in each. */
#include "runtime/cli/dot.h"

#include "ir/print.h"

static void dot_label(Text *out, const sinter_plan *plan, const Value *value) {
    Text line = text_new(out->arena);
    value_print(&line, plan->graph, value);
    for (size_t i = 0; i < line.n; i++) {
        if (line.at[i] == '"' || line.at[i] == '\\')
            text_add(out, "\\");
        text_add_bytes(out, &line.at[i], 1);
    }
}

/* The region that writes a value to memory; -1: none does, it is an input. */
static int dot_writer(const sinter_plan *plan, const Value *value) {
    for (size_t i = 0; i < plan->partition->regions.n; i++)
        if (region_kernel_writes(plan->partition->regions.at[i], value))
            return (int)i;
    return -1;
}

static void dot_name(Text *out, int region, const Value *value) {
    if (region < 0)
        text_add(out, "in%u", value->id);
    else
        text_add(out, "k%d_v%u", region, value->id);
}

static void dot_values(Text *out, const sinter_plan *plan, int kernel, const Region *region) {
    for (size_t i = 0; i < region->values.n; i++) {
        text_add(out, "    ");
        dot_name(out, kernel, region->values.at[i]);
        text_add(out, " [label=\"");
        dot_label(out, plan, region->values.at[i]);
        text_add(out, "\"];\n");
    }
}

/* What the values of a region, or of a guest, are computed from: thin within their kernel. */
static void dot_edges(Text *out, const sinter_plan *plan, int kernel, const Region *region) {
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        for (int k = 0; k < value->n_in; k++) {
            bool here = region_kernel_computes(plan->partition->regions.at[kernel], value->in[k]);
            text_add(out, "  ");
            dot_name(out, here ? kernel : dot_writer(plan, value->in[k]), value->in[k]);
            text_add(out, " -> ");
            dot_name(out, kernel, value);
            text_add(out, here ? ";\n" : " [style=bold];\n");
        }
    }
}

void dot_print(Text *out, const sinter_plan *plan) {
    const Partition *partition = plan->partition;
    text_add(out, "digraph \"%s\" {\n  node [shape=box, fontname=monospace];\n", plan->graph->name);
    for (size_t i = 0; i < plan->graph->inputs.n; i++) {
        const Value *input = plan->graph->inputs.at[i];
        text_add(out, "  ");
        dot_name(out, -1, input);
        text_add(out, " [label=\"%s\", style=rounded];\n", input->name);
    }
    for (size_t r = 0; r < partition->regions.n; r++) {
        const Region *region = partition->regions.at[r];
        text_add(out, "  subgraph cluster_%zu {\n    label=\"%s (%s)\";\n", r, region->name,
                 plan_template_name(region->kind));
        for (const Region *part = region; part; part = part->guest)
            dot_values(out, plan, (int)r, part);
        text_add(out, "  }\n");
    }
    for (size_t r = 0; r < partition->regions.n; r++)
        for (const Region *part = partition->regions.at[r]; part; part = part->guest)
            dot_edges(out, plan, (int)r, part);
    text_add(out, "}\n");
}
