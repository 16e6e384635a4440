#include "ir/graph.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/infer.h"

Graph *graph_new(Arena *arena, const char *name) {
    Graph *graph = ARENA_NEW(arena, Graph);
    graph->arena = arena;
    graph->name = arena_strdup(arena, name);
    graph->dims = dim_table_new(arena);
    return graph;
}

/* ---- building ---------------------------------------------------------------------------------------- */

bool attr_fallback(OpKind op, int index, Attr *out) {
    const AttrInfo *info = &op_info(op)->attrs[index];
    *out = (Attr){.i = 0};
    if (!info->fallback)
        return false;
    if (info->kind == ATTR_INT)
        out->i = strtoll(info->fallback, NULL, 10);
    else if (info->kind == ATTR_DTYPE)
        out->dtype = dtype_find(info->fallback); /* "auto" is no type, so DTYPE_COUNT */
    else
        return false;
    return true;
}

static const Dim **graph_copy_dims(Arena *arena, const Dim *const *dims, int n) {
    if (!dims)
        return NULL;
    const Dim **copy = ARENA_ARRAY(arena, const Dim *, (size_t)n);
    if (n)
        memcpy(copy, dims, (size_t)n * sizeof *copy);
    return copy;
}

/* Declared strides; packed ones become NULL, so that one layout has one form. */
static const Dim **graph_copy_strides(Graph *graph, const Value *value, const Dim *const *strides) {
    const Dim *packed[RANK_MAX];
    bool same = true;
    dims_packed_strides(graph->dims, value->rank, value->dims, packed);
    for (int i = 0; strides && i < value->rank; i++)
        same &= strides[i] == packed[i];
    return same ? NULL : graph_copy_dims(graph->arena, strides, value->rank);
}

static Attr graph_copy_attr(Arena *arena, AttrKind kind, const Attr *attr) {
    Attr copy = *attr;
    if (kind == ATTR_DIMS) {
        copy.dims = graph_copy_dims(arena, attr->dims, attr->n_dims);
    } else if (kind == ATTR_INTS && attr->ints) {
        copy.ints = ARENA_ARRAY(arena, int, (size_t)attr->n_ints);
        if (attr->n_ints)
            memcpy(copy.ints, attr->ints, (size_t)attr->n_ints * sizeof *copy.ints);
    }
    return copy;
}

Value *graph_append(Graph *graph, OpKind op, Value **in, int n_in, const Attr *attrs, Span span,
                    Diags *diags) {
    for (int i = 0; i < n_in; i++)
        if (!in[i])
            return NULL;
    Value *value = ARENA_NEW(graph->arena, Value);
    value->op = op;
    value->span = span;
    value->n_in = n_in;
    value->in = ARENA_ARRAY(graph->arena, Value *, (size_t)n_in);
    if (n_in)
        memcpy(value->in, in, (size_t)n_in * sizeof *in);
    const OpInfo *info = op_info(op);
    for (int i = 0; i < info->n_attrs; i++) {
        if (attrs)
            value->attrs[i] = graph_copy_attr(graph->arena, info->attrs[i].kind, &attrs[i]);
        else
            attr_fallback(op, i, &value->attrs[i]);
    }
    if (!infer_value(graph, value, diags))
        return NULL;
    value->id = (uint32_t)graph->values.n;
    vec_push(graph->arena, &graph->values, value);
    graph->names = NULL;
    return value;
}

Value *graph_add_input(Graph *graph, const char *name, DType dtype, int rank, const Dim *const *dims,
                       const Dim *const *strides, Span span) {
    Value *value = ARENA_NEW(graph->arena, Value);
    value->op = OP_input;
    value->dtype = dtype;
    value->rank = rank;
    for (int i = 0; i < rank; i++)
        value->dims[i] = dims[i];
    value->in = ARENA_ARRAY(graph->arena, Value *, 0);
    value->attrs[0].i = (int64_t)graph->inputs.n;
    value->name = arena_strdup(graph->arena, name);
    value->span = span;
    value->strides = graph_copy_strides(graph, value, strides);
    value->id = (uint32_t)graph->values.n;
    vec_push(graph->arena, &graph->values, value);
    graph->names = NULL;
    vec_push(graph->arena, &graph->inputs, value);
    return value;
}

void graph_add_output(Graph *graph, const char *name, Value *value, const Dim *const *strides, Span span) {
    Output output = {.name = arena_strdup(graph->arena, name),
                     .value = value,
                     .strides = graph_copy_strides(graph, value, strides),
                     .span = span};
    vec_push(graph->arena, &graph->outputs, output);
    graph->names = NULL;
}

Value *graph_constant_float(Graph *graph, double value, Span span) {
    DType dtype = isfinite(value) && fabs(value) > FLT_MAX ? DTYPE_F64 : DTYPE_F32;
    Attr attrs[] = {{.number = {.f = dtype_round(value, dtype)}}, {.dtype = dtype}};
    return graph_append(graph, OP_constant, NULL, 0, attrs, span, NULL);
}

Value *graph_constant_int(Graph *graph, int64_t value, Span span) {
    DType dtype = value < INT32_MIN || value > INT32_MAX ? DTYPE_I64 : DTYPE_I32;
    Attr attrs[] = {{.number = {.i = value}}, {.dtype = dtype}};
    return graph_append(graph, OP_constant, NULL, 0, attrs, span, NULL);
}

/* ---- changing ---------------------------------------------------------------------------------------- */

void graph_replace_uses(Graph *graph, Value *old, Value *fresh) {
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *user = graph->values.at[i];
        for (int j = 0; j < user->n_in; j++)
            if (user->in[j] == old)
                user->in[j] = fresh;
    }
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value == old)
            graph->outputs.at[i].value = fresh;
    for (size_t i = 0; i < graph->hints.n; i++)
        if (graph->hints.at[i].value == old)
            graph->hints.at[i].value = fresh;
    graph->names = NULL;
}

void graph_renumber(Graph *graph) {
    for (size_t i = 0; i < graph->values.n; i++)
        graph->values.at[i]->id = (uint32_t)i;
    graph->names = NULL;
}

enum { GRAPH_UNSEEN, GRAPH_OPEN, GRAPH_NEEDED, GRAPH_PLACED };

typedef struct GraphSort {
    Arena *arena;
    VEC(Value *) all; /* by id */
    VEC(uint8_t) state;
    VEC(Value *) stack;
    VEC(Value *) order;
} GraphSort;

/* The state of a value, which gets an id at first sight. */
static uint8_t *graph_state(GraphSort *sort, Value *value) {
    if (value->id >= sort->all.n || sort->all.at[value->id] != value) {
        value->id = (uint32_t)sort->all.n;
        vec_push(sort->arena, &sort->all, value);
        vec_push(sort->arena, &sort->state, GRAPH_UNSEEN);
    }
    return &sort->state.at[value->id];
}

/* Marks what `value` needs, without recursion: a graph may be deep. */
static void graph_mark(GraphSort *sort, Value *value) {
    vec_push(sort->arena, &sort->stack, value);
    while (sort->stack.n) {
        Value *v = sort->stack.at[--sort->stack.n];
        uint8_t *state = graph_state(sort, v);
        if (*state != GRAPH_UNSEEN)
            continue;
        *state = GRAPH_NEEDED;
        for (int i = 0; i < v->n_in; i++)
            vec_push(sort->arena, &sort->stack, v->in[i]);
    }
}

/* Places `value` behind its operands; an operand that waits for itself (a cycle, which the verifier names) is
 * passed over. */
static void graph_place(GraphSort *sort, Value *value) {
    vec_push(sort->arena, &sort->stack, value);
    while (sort->stack.n) {
        Value *v = sort->stack.at[sort->stack.n - 1];
        uint8_t *state = graph_state(sort, v);
        if (*state == GRAPH_NEEDED) {
            *state = GRAPH_OPEN;
            for (int i = v->n_in - 1; i >= 0; i--)
                if (*graph_state(sort, v->in[i]) == GRAPH_NEEDED)
                    vec_push(sort->arena, &sort->stack, v->in[i]);
            continue;
        }
        sort->stack.n--;
        if (*state == GRAPH_OPEN) {
            *state = GRAPH_PLACED;
            vec_push(sort->arena, &sort->order, v);
        }
    }
}

bool graph_sort(Graph *graph) {
    GraphSort sort = {.arena = graph->arena};
    size_t before = graph->values.n;
    for (size_t i = 0; i < graph->inputs.n; i++)
        graph_mark(&sort, graph->inputs.at[i]);
    for (size_t i = 0; i < graph->outputs.n; i++)
        graph_mark(&sort, graph->outputs.at[i].value);
    for (size_t i = 0; i < graph->values.n; i++)
        if (*graph_state(&sort, graph->values.at[i]) == GRAPH_NEEDED)
            graph_place(&sort, graph->values.at[i]);
    size_t kept = 0;
    for (size_t i = 0; i < graph->hints.n; i++) {
        Value *value = graph->hints.at[i].value;
        if (!value || *graph_state(&sort, value) == GRAPH_PLACED)
            graph->hints.at[kept++] = graph->hints.at[i];
    }
    graph->hints.n = kept;
    graph->values.at = sort.order.at;
    graph->values.n = sort.order.n;
    graph->values.room = sort.order.room;
    graph_renumber(graph);
    return graph->values.n < before;
}

int *graph_use_counts(Arena *arena, const Graph *graph) {
    int *counts = ARENA_ARRAY(arena, int, graph->values.n);
    for (size_t i = 0; i < graph->values.n; i++)
        for (int j = 0; j < graph->values.at[i]->n_in; j++)
            counts[graph->values.at[i]->in[j]->id]++;
    for (size_t i = 0; i < graph->outputs.n; i++)
        counts[graph->outputs.at[i].value->id]++;
    return counts;
}

/* ---- asking ------------------------------------------------------------------------------------------ */

bool value_is_constant(const Value *value, double *out) {
    if (value->op != OP_constant)
        return false;
    Number number = value->attrs[0].number;
    *out = dtype_is_float(value->dtype) ? number.f : (double)number.i;
    return true;
}

int value_coordinate(const Value *value) {
    const Value *index = value;
    while (index->op == OP_reshape)
        index = index->in[0];
    const Dim *extent = index->op == OP_index ? index->dims[index->attrs[1].i] : NULL;
    if (index == value && extent)
        return dim_is(extent, 1) ? -1 : (int)value->attrs[1].i;
    for (int axis = 0; axis < value->rank && extent && !dim_is(extent, 1); axis++)
        if (value->dims[axis] == extent)
            return axis;
    return -1;
}

Value *value_turned(const Value *value) {
    int last = value->rank - 1;
    if (value->op != OP_transpose || last < 1)
        return NULL;
    for (int i = 0; i <= last; i++)
        if (value->attrs[0].ints[i] != (i < last - 1 ? i : 2 * last - 1 - i))
            return NULL;
    return value->in[0];
}

const Value *value_before_widening(const Value *value) {
    while (value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype))
        value = value->in[0];
    return value;
}

const Dim *value_count(const Graph *graph, const Value *value) {
    return dims_product(graph->dims, (const Dim *const *)value->dims, value->rank);
}

bool value_same_rows(const Value *a, const Value *b) {
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank - 1; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

bool value_is_of_rows(const Value *value, const Value *like) {
    int last = like->rank - 1;
    if (value->rank == like->rank)
        return dim_is(value->dims[last], 1) && !dim_is(like->dims[last], 1) && value_same_rows(value, like);
    if (value->rank != last)
        return false;
    for (int i = 0; i < last; i++)
        if (value->dims[i] != like->dims[i])
            return false;
    return true;
}

bool value_varies(const Value *operand, const Value *whole, int axis) {
    int at = axis - (whole->rank - operand->rank);
    return at >= 0 && !dim_is(operand->dims[at], 1);
}

bool value_same_dims(const Value *a, const Value *b) {
    return value_same_rows(a, b) && (a->rank == 0 || a->dims[a->rank - 1] == b->dims[b->rank - 1]);
}

bool value_is_output(const Graph *graph, const Value *value) {
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value == value)
            return true;
    return false;
}

const Dim *dims_product(DimTable *table, const Dim *const *dims, int n) {
    const Dim *product = dim_const(table, 1);
    for (int i = 0; i < n; i++)
        product = dim_mul(table, product, dims[i]);
    return product;
}

void dims_packed_strides(DimTable *table, int rank, const Dim *const *dims, const Dim **strides) {
    const Dim *stride = dim_const(table, 1);
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride = dim_mul(table, stride, dims[i]);
    }
}

static bool attr_same(AttrKind kind, const Attr *a, const Attr *b) {
    switch (kind) {
    case ATTR_INT:
    case ATTR_NUMBER: return a->i == b->i; /* the bits: 0.0 and -0.0 differ */
    case ATTR_DTYPE: return a->dtype == b->dtype;
    case ATTR_DIM: return a->dim == b->dim;
    case ATTR_DIMS:
        return a->n_dims == b->n_dims && !memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims);
    case ATTR_INTS:
        return a->n_ints == b->n_ints && !memcmp(a->ints, b->ints, (size_t)a->n_ints * sizeof *a->ints);
    case ATTR_AXES:
        return a->axes.n == b->axes.n && !memcmp(a->axes.at, b->axes.at, (size_t)a->axes.n * sizeof(int));
    }
    return false;
}

bool value_same_attrs(const Value *a, const Value *b) {
    const OpInfo *info = op_info(a->op);
    for (int i = 0; i < info->n_attrs; i++)
        if (!attr_same(info->attrs[i].kind, &a->attrs[i], &b->attrs[i]))
            return false;
    return true;
}
