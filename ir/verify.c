/* The invariants of a graph:
 *   1. ids are positions: values.at[i]->id == i;
 *   2. operands belong to the graph and stand before their users;
 *   3. the number of operands is the table's;
 *   4. type and dims are what inference makes of operation, operands and attributes (inputs: what they were
 * declared as);
 *   5. inputs are OP_input Values, numbered by position, and every OP_input is listed;
 *   6. outputs and hints name Values of the graph. */
#include "ir/verify.h"

#include "ir/infer.h"

static void verify_fail(Diags *diags, const char *stage, const Value *value, const char *what) {
    diag_error(diags, DIAG_INTERNAL, value->span, "after %s: %s '%s' (value %u) %s", stage,
               op_info(value->op)->name, value->name ? value->name : "", value->id, what);
}

static bool verify_belongs(const Graph *graph, const Value *value) {
    return value && value->id < graph->values.n && graph->values.at[value->id] == value;
}

static void verify_inferred(const Graph *graph, const Value *value, const char *stage, Diags *diags) {
    Value again = *value;
    if (!infer_value((Graph *)graph, &again, diags)) {
        verify_fail(diags, stage, value, "breaks its operation's rule");
        return;
    }
    if (again.dtype != value->dtype)
        verify_fail(diags, stage, value, "has another type than inference gives");
    if (!value_same_dims(&again, value))
        verify_fail(diags, stage, value, "has other dims than inference gives");
}

static void verify_value(const Graph *graph, size_t at, const char *stage, Diags *diags) {
    const Value *value = graph->values.at[at];
    if (value->id != at) {
        verify_fail(diags, stage, value, "has an id that is not its position");
        return;
    }
    int want = op_info(value->op)->n_in;
    if (want >= 0 ? value->n_in != want : value->n_in < 1)
        verify_fail(diags, stage, value, "has the wrong number of operands");
    for (int i = 0; i < value->n_in; i++)
        if (!verify_belongs(graph, value->in[i]) || value->in[i]->id >= at) {
            verify_fail(diags, stage, value, "has an operand that does not stand before it");
            return;
        }
    if (value->op != OP_input)
        verify_inferred(graph, value, stage, diags);
    else if (value->attrs[0].i < 0 || (size_t)value->attrs[0].i >= graph->inputs.n ||
             graph->inputs.at[value->attrs[0].i] != value)
        verify_fail(diags, stage, value, "is an input that the graph does not list");
}

bool graph_verify(const Graph *graph, const char *stage, Diags *diags) {
    int before = diags->errors;
    for (size_t i = 0; i < graph->values.n; i++)
        verify_value(graph, i, stage, diags);
    for (size_t i = 0; i < graph->inputs.n; i++)
        if (!verify_belongs(graph, graph->inputs.at[i]) || graph->inputs.at[i]->op != OP_input)
            verify_fail(diags, stage, graph->inputs.at[i], "is listed as an input and is none");
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (!verify_belongs(graph, graph->outputs.at[i].value))
            diag_error(diags, DIAG_INTERNAL, graph->outputs.at[i].span,
                       "after %s: output '%s' has no value in the graph", stage, graph->outputs.at[i].name);
    for (size_t i = 0; i < graph->hints.n; i++)
        if (!verify_belongs(graph, graph->hints.at[i].value))
            diag_error(diags, DIAG_INTERNAL, graph->hints.at[i].span,
                       "after %s: hint '@%s' has no value in the graph", stage, graph->hints.at[i].name);
    return diags->errors == before;
}
