/* Dead Values go: what neither an output nor the list of inputs needs.
 *
 *     u = exp(x)            (nobody reads u)
 *     y = x + 1        ->   y = x + 1
 *
 * A hint on a Value that went has nothing left to say, but for an @expect, whose assertion is about the
 * kernels of the graph: it moves to the first output. */
#include "passes/pass.h"

bool pass_dce(Pass *pass, Graph *graph) {
    (void)pass;
    bool changed = graph_sort(graph);
    size_t kept = 0;
    for (size_t i = 0; i < graph->hints.n; i++) {
        Hint hint = graph->hints.at[i];
        Value *value = hint.value;
        bool alive = value && value->id < graph->values.n && graph->values.at[value->id] == value;
        if (!alive && (strcmp(hint.name, "expect") || !graph->outputs.n))
            continue;
        if (!alive)
            hint.value = graph->outputs.at[0].value;
        graph->hints.at[kept++] = hint;
    }
    graph->hints.n = kept;
    return changed;
}
