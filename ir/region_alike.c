/* Regions that are the same but for which tensors they are of: a model's layers have the same kernels again
 * and again, and what takes long to find out of one need not be asked of the next.
 *
 * Both are walked at once. A value is numbered where it is met first, in either region, and alike are those
 * of one number: computed by the same operation of operands of the same numbers, or tensors of other kernels
 * or of the graph's border that have the same dims, types and strides, made by the same operation of operands
 * that look alike. */
#include "ir/region.h"

#include <string.h>

#include "ir/value_map.h"

typedef struct Alike {
    const Graph *graph;
    ValueMap a, b; /* numbers, from 1 on */
    int n;
} Alike;

static bool alike_strides(const Value *value, const Dim **a, const Dim **b) {
    return a == b || (a && b && !memcmp(a, b, (size_t)value->rank * sizeof *a));
}

/* Whether two values look the same from outside. */
static bool alike_shape(const Value *a, const Value *b) {
    return a->op == b->op && a->dtype == b->dtype && a->n_in == b->n_in && value_same_dims(a, b) &&
           alike_strides(a, a->strides, b->strides);
}

static bool alike_attrs(const Value *a, const Value *b) {
    return a->op == OP_input || value_same_attrs(a, b); /* an input's is its position */
}

/* Two tensors that come from elsewhere. */
static bool alike_border(const Value *a, const Value *b) {
    if (!alike_shape(a, b) || !alike_attrs(a, b))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!alike_shape(a->in[i], b->in[i]))
            return false;
    return true;
}

static void alike_number(Alike *alike, const Value *a, const Value *b) {
    alike->n++;
    value_map_set(&alike->a, a, alike->n);
    value_map_set(&alike->b, b, alike->n);
}

/* Whether two values have one number; the first time, whether they may have. */
static bool alike_met(Alike *alike, const Value *a, const Value *b) {
    int number = value_map_get(&alike->a, a);
    if (number != value_map_get(&alike->b, b))
        return false;
    if (number)
        return true;
    alike_number(alike, a, b);
    return alike_border(a, b);
}

static bool alike_computed(Alike *alike, const Value *a, const Value *b) {
    if (!alike_shape(a, b) || !alike_attrs(a, b))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!alike_met(alike, a->in[i], b->in[i]))
            return false;
    alike_number(alike, a, b);
    return true;
}

static const Output *alike_find_output(const Graph *graph, const Value *value) {
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value == value)
            return &graph->outputs.at[i];
    return NULL;
}

static bool alike_output(Alike *alike, const Value *a, const Value *b) {
    const Output *to_a = alike_find_output(alike->graph, a), *to_b = alike_find_output(alike->graph, b);
    return alike_met(alike, a, b) && !to_a == !to_b &&
           (!to_a || alike_strides(a, to_a->strides, to_b->strides));
}

static bool alike_window(Alike *alike, const RegionWindow *a, const RegionWindow *b) {
    return a->first == b->first && a->width == b->width && a->is_bundle == b->is_bundle &&
           alike_met(alike, a->value, b->value) && alike_met(alike, a->root, b->root);
}

static bool alike_met_all(Alike *alike, Value *const *a, Value *const *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!alike_met(alike, a[i], b[i]))
            return false;
    return true;
}

static bool alike_lists(Alike *alike, const Region *a, const Region *b) {
    if (a->values.n != b->values.n || a->inputs.n != b->inputs.n || a->outputs.n != b->outputs.n ||
        a->cores.n != b->cores.n || a->sums.n != b->sums.n || a->windows.n != b->windows.n)
        return false;
    for (size_t i = 0; i < a->values.n; i++)
        if (!alike_computed(alike, a->values.at[i], b->values.at[i]))
            return false;
    for (size_t i = 0; i < a->outputs.n; i++)
        if (!alike_output(alike, a->outputs.at[i], b->outputs.at[i]))
            return false;
    for (size_t i = 0; i < a->windows.n; i++)
        if (!alike_window(alike, &a->windows.at[i], &b->windows.at[i]))
            return false;
    return alike_met_all(alike, a->inputs.at, b->inputs.at, a->inputs.n) &&
           alike_met_all(alike, a->cores.at, b->cores.at, a->cores.n) &&
           alike_met_all(alike, a->sums.at, b->sums.at, a->sums.n);
}

static bool alike_regions(Alike *alike, const Region *a, const Region *b) {
    bool same = a->kind == b->kind && a->follows == b->follows && a->leads == b->leads &&
                a->rank == b->rank && a->n_reduced == b->n_reduced && a->column_block == b->column_block &&
                a->fast_sums == b->fast_sums && !a->guest == !b->guest && !a->schedule_hint &&
                !b->schedule_hint && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
    return same && alike_lists(alike, a, b) && (!a->guest || alike_regions(alike, a->guest, b->guest));
}

bool region_is_alike(Arena *arena, const Graph *graph, const Region *a, const Region *b) {
    ArenaMark mark = arena_mark(arena);
    Alike alike = {.graph = graph, .a = {.arena = arena}, .b = {.arena = arena}};
    bool is_alike = alike_regions(&alike, a, b);
    arena_release(arena, mark);
    return is_alike;
}
