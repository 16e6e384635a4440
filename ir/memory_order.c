#include "ir/memory_order.h"

#include <string.h>

/* The axes from the outermost in memory to the innermost, where memory is packed; those of one element come
 * first, as they stand. */
static bool order_of_packed(DimTable *table, int rank, const Dim *const *dims, const Dim *const *strides,
                            int *order) {
    bool is_placed[RANK_MAX] = {false};
    int n_ones = 0, at = rank;
    for (int i = 0; i < rank; i++)
        if (dim_is(dims[i], 1)) {
            is_placed[i] = true;
            order[n_ones++] = i;
        }
    const Dim *inner = dim_const(table, 1);
    while (at > n_ones && inner) {
        int found = -1;
        for (int i = 0; i < rank && found < 0; i++)
            found = !is_placed[i] && strides[i] == inner ? i : -1;
        if (found < 0)
            return false;
        is_placed[found] = true;
        order[--at] = found;
        inner = dim_mul(table, inner, dims[found]);
    }
    return inner != NULL;
}

/* The same of constant strides, whatever lies between elements. */
static bool order_of_constant(int rank, const Dim *const *strides, int *order) {
    for (int i = 0; i < rank; i++) {
        if (!dim_is_const(strides[i]) || strides[i]->value < 1)
            return false;
        int at = i;
        for (; at > 0 && strides[order[at - 1]]->value < strides[i]->value; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return true;
}

/* Finds the order of a tensor's axes in memory, and its dims and strides in that (NULL: packed); false where
 * it is theirs, or not known. */
static bool order_find(Graph *graph, const Value *value, const Dim **strides, int *order, const Dim **dims,
                       const Dim ***fresh) {
    const Dim *const *own = (const Dim *const *)value->dims;
    bool is_moved = false;
    if (!strides)
        return false;
    bool is_packed = order_of_packed(graph->dims, value->rank, own, (const Dim *const *)strides, order);
    if (!is_packed && !order_of_constant(value->rank, (const Dim *const *)strides, order))
        return false;
    for (int i = 0; i < value->rank; i++) {
        is_moved = is_moved || order[i] != i;
        dims[i] = value->dims[order[i]];
    }
    *fresh = is_packed ? NULL : ARENA_ARRAY(graph->arena, const Dim *, (size_t)value->rank + 1);
    for (int i = 0; *fresh && i < value->rank; i++)
        (*fresh)[i] = strides[order[i]];
    return is_moved;
}

static Value *order_transpose(Graph *graph, Value *value, const int *perm, Span span, Diags *diags) {
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].ints = ARENA_ARRAY(graph->arena, int, RANK_MAX);
    attrs[0].n_ints = value->rank;
    memcpy(attrs[0].ints, perm, (size_t)value->rank * sizeof *perm);
    return graph_append(graph, OP_transpose, &value, 1, attrs, span, diags);
}

static bool order_input(Graph *graph, Value *input, Diags *diags) {
    int order[RANK_MAX], place[RANK_MAX];
    const Dim *dims[RANK_MAX], **strides;
    if (!order_find(graph, input, input->strides, order, dims, &strides))
        return false;
    for (int i = 0; i < input->rank; i++)
        place[order[i]] = i;
    memcpy(input->dims, dims, (size_t)input->rank * sizeof *dims);
    input->strides = strides;
    Value *before = order_transpose(graph, input, place, input->span, diags);
    if (!before)
        return false;
    graph_replace_uses(graph, input, before);
    before->in[0] = input;
    return true;
}

static bool order_output(Graph *graph, Output *output, Diags *diags) {
    int order[RANK_MAX];
    const Dim *dims[RANK_MAX], **strides;
    if (!order_find(graph, output->value, output->strides, order, dims, &strides))
        return false;
    Value *stored = order_transpose(graph, output->value, order, output->span, diags);
    if (!stored)
        return false;
    stored->name = output->name;
    output->value = stored;
    output->strides = strides;
    return true;
}

bool graph_take_memory_order(Graph *graph, Diags *diags) {
    bool changed = false;
    for (size_t i = 0; i < graph->inputs.n; i++)
        changed |= order_input(graph, graph->inputs.at[i], diags);
    for (size_t i = 0; i < graph->outputs.n; i++)
        changed |= order_output(graph, &graph->outputs.at[i], diags);
    if (changed)
        graph_sort(graph);
    return changed;
}
