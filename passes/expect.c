/* @expect(kernels=N): how many kernels the statement's value takes, from the graph's inputs on, is at most N.
 * Where it is more, the compilation fails, and each refusal of fusion that stood in the way becomes a note
 * with what would change it. */
#include "passes/pass.h"

/* Marks the regions that `value` is computed by, through everything that these read; how many. */
static int expect_count(const Partition *partition, const Value *value, bool *needed) {
    const Graph *graph = partition->graph;
    bool *wanted = ARENA_ARRAY(graph->arena, bool, graph->values.n + 1);
    int n = 0;
    wanted[value->id] = true;
    bool found = false;
    for (size_t i = partition->regions.n; i-- > 0;) {
        const Region *region = partition->regions.at[i];
        /* A value that no kernel stores is computed by the first that holds it. */
        bool writes = !found && region_kernel_computes(region, value);
        for (const Region *part = region; part; part = part->guest)
            for (size_t k = 0; k < part->outputs.n; k++)
                writes |= wanted[partition_stored(partition, part->outputs.at[k], NULL)->id];
        if (!writes)
            continue;
        found = true;
        needed[i] = true;
        n++;
        for (const Region *part = region; part; part = part->guest)
            for (size_t k = 0; k < part->inputs.n; k++)
                wanted[partition_stored(partition, part->inputs.at[k], NULL)->id] = true;
    }
    return n;
}

static bool expect_concerns(const Partition *partition, const bool *needed, const Value *value) {
    for (size_t i = 0; value && i < partition->regions.n; i++) {
        if (!needed[i])
            continue;
        if (region_kernel_computes(partition->regions.at[i], value))
            return true;
    }
    return false;
}

static void expect_notes(Pass *pass, const bool *needed) {
    const Partition *partition = pass->partition;
    for (size_t i = 0; i < partition->decisions.n; i++) {
        const Decision *decision = &partition->decisions.at[i];
        if (decision->fused || (decision->at && !expect_concerns(partition, needed, decision->at)))
            continue;
        Span span = decision->at ? decision->at->span : (Span){0};
        const char *name = decision->at && decision->at->name ? decision->at->name : NULL;
        diag_note(pass->diags, span, "%s%s%s%s [%s]; what would change it: %s", name ? "'" : "",
                  name ? name : "", name ? "': " : "", decision->why, decision->rule,
                  decision->change ? decision->change : "nothing");
    }
}

static void expect_kernels(Pass *pass, const Hint *hint, int64_t most) {
    const Partition *partition = pass->partition;
    const Graph *graph = partition->graph;
    const Value *value = hint->value;
    bool *needed = ARENA_ARRAY(pass->arena, bool, partition->regions.n + 1);
    int n = (int)partition->regions.n;
    if (value && value->id < graph->values.n && graph->values.at[value->id] == value)
        n = expect_count(partition, value, needed);
    else
        memset(needed, true, partition->regions.n * sizeof *needed);
    if (n <= most)
        return;
    diag_error(pass->diags, DIAG_EXPECT, hint->span, "this takes %d kernels, more than the %lld expected", n,
               (long long)most);
    for (size_t i = 0; i < partition->regions.n; i++)
        if (needed[i])
            diag_note(pass->diags, partition->regions.at[i]->outputs.at[0]->span, "kernel '%s' ends here",
                      partition->regions.at[i]->name);
    expect_notes(pass, needed);
}

bool pass_expect(Pass *pass, Graph *graph) {
    for (size_t i = 0; i < graph->hints.n && !pass->options->no_fusion; i++) {
        const Hint *hint = &graph->hints.at[i];
        for (size_t k = 0; !strcmp(hint->name, "expect") && k < hint->args.n; k++)
            if (hint->args.at[k].name && !strcmp(hint->args.at[k].name, "kernels") && hint->args.at[k].n == 1)
                expect_kernels(pass, hint, hint->args.at[k].values[0]);
    }
    return false;
}
