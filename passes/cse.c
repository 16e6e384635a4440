/* Equal operations are computed once.
 *
 *     a = exp(x)
 *     b = exp(x)            a = exp(x)
 *     y = a + b        ->   y = a + a
 *
 * Operations are pure functions (random ones too: of seed and element), so two Values with equal op, operands
 * and attributes are one. Dims are interned in their table, so pointers compare them. */
#include "passes/rewrite.h"

typedef struct CseTable {
    Value **slots;
    size_t mask;
} CseTable;

static uint64_t cse_mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t cse_hash(const Value *value) {
    const OpInfo *info = op_info(value->op);
    uint64_t hash = cse_mix((uint64_t)value->op + 1, (uint64_t)value->dtype);
    for (int i = 0; i < value->n_in; i++)
        hash = cse_mix(hash, (uintptr_t)value->in[i]);
    for (int i = 0; i < info->n_attrs; i++) {
        const Attr *attr = &value->attrs[i];
        switch (info->attrs[i].kind) {
        case ATTR_INT:
        case ATTR_NUMBER: hash = cse_mix(hash, (uint64_t)attr->i); break;
        case ATTR_DTYPE: hash = cse_mix(hash, (uint64_t)attr->dtype); break;
        case ATTR_DIM: hash = cse_mix(hash, (uintptr_t)attr->dim); break;
        case ATTR_DIMS:
            for (int k = 0; k < attr->n_dims; k++)
                hash = cse_mix(hash, (uintptr_t)attr->dims[k]);
            break;
        case ATTR_INTS:
            for (int k = 0; k < attr->n_ints; k++)
                hash = cse_mix(hash, (uint64_t)attr->ints[k]);
            break;
        case ATTR_AXES:
            for (int k = 0; k < attr->axes.n; k++)
                hash = cse_mix(hash, (uint64_t)attr->axes.at[k]);
            break;
        }
    }
    return hash;
}

static bool cse_same(const Value *a, const Value *b) {
    if (a->op != b->op || a->dtype != b->dtype || a->n_in != b->n_in || !value_same_dims(a, b))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i] != b->in[i])
            return false;
    return value_same_attrs(a, b);
}

/* The equal Value that the table holds, or `value`, which it now holds. */
static Value *cse_intern(CseTable *table, Value *value) {
    for (size_t slot = cse_hash(value) & table->mask;; slot = (slot + 1) & table->mask) {
        if (!table->slots[slot])
            return table->slots[slot] = value;
        if (cse_same(table->slots[slot], value))
            return table->slots[slot];
    }
}

bool pass_cse(Pass *pass, Graph *graph) {
    size_t room = 16;
    while (room < 2 * graph->values.n)
        room *= 2;
    CseTable table = {.slots = ARENA_ARRAY(pass->arena, Value *, room), .mask = room - 1};
    bool changed = false;
    for (size_t i = 0; i < graph->values.n; i++)
        graph->values.at[i]->scratch = NULL;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        for (int k = 0; k < value->n_in; k++)
            if (value->in[k]->scratch)
                value->in[k] = value->in[k]->scratch;
        if (value->op == OP_input)
            continue;
        Value *first = cse_intern(&table, value);
        if (first == value)
            continue;
        value->scratch = first;
        if (!first->name)
            first->name = value->name;
        changed = true;
    }
    for (size_t i = 0; changed && i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value->scratch)
            graph->outputs.at[i].value = graph->outputs.at[i].value->scratch;
    for (size_t i = 0; changed && i < graph->hints.n; i++)
        if (graph->hints.at[i].value && graph->hints.at[i].value->scratch)
            graph->hints.at[i].value = graph->hints.at[i].value->scratch;
    if (changed)
        graph_sort(graph);
    return changed;
}
