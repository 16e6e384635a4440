/* What gradient rules build. What would change nothing is not built. */
#include <string.h>

#include "ir/gradient_internal.h"

static Value *derive_append(Gradient *g, OpKind op, Value **in, int n_in, const Attr *attrs) {
    Value *value = graph_append(g->graph, op, in, n_in, attrs, g->value->span, g->diags);
    g->failed |= !value;
    return value;
}

static bool derive_has_dims(const Value *x, int rank, const Dim *const *dims) {
    bool same = x->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = x->dims[i] == dims[i];
    return same;
}

/* Dims as an attribute, which graph_append() copies. */
static Attr derive_dims(const Dim *const *dims, int n) {
    return (Attr){.dims = (const Dim **)dims, .n_dims = n};
}

Value *derive_scalar(Gradient *g, OpKind op, Value *a, Value *b, Value *c) {
    Value *in[OP_MAX_ARITY] = {a, b, c};
    return derive_append(g, op, in, op_info(op)->n_in, NULL);
}

Value *derive_number(Gradient *g, double number) {
    DType dtype = g->dy->dtype;
    Attr attrs[OP_MAX_ATTRS] = {{.number = {.f = dtype_round(number, dtype)}}, {.dtype = dtype}};
    return derive_append(g, OP_constant, NULL, 0, attrs);
}

Value *derive_cast(Gradient *g, Value *x, DType dtype) {
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = dtype}};
    if (x && x->op == OP_cast && x->in[0]->dtype == dtype && dtype_widens(dtype, x->dtype))
        x = x->in[0];
    return !x || x->dtype == dtype ? x : derive_append(g, OP_cast, &x, 1, attrs);
}

Value *derive_broadcast(Gradient *g, Value *x, int rank, const Dim *const *dims) {
    Attr attrs[OP_MAX_ATTRS] = {derive_dims(dims, rank)};
    return !x || derive_has_dims(x, rank, dims) ? x : derive_append(g, OP_broadcast, &x, 1, attrs);
}

Value *derive_reshape(Gradient *g, Value *x, int rank, const Dim *const *dims) {
    Attr attrs[OP_MAX_ATTRS] = {derive_dims(dims, rank)};
    return !x || derive_has_dims(x, rank, dims) ? x : derive_append(g, OP_reshape, &x, 1, attrs);
}

Value *derive_transpose(Gradient *g, Value *x, const int *perm) {
    int both[RANK_MAX];
    bool moves = false;
    if (!x)
        return NULL;
    bool is_turned = x->op == OP_transpose;
    for (int i = 0; i < x->rank; i++) {
        both[i] = is_turned ? x->attrs[0].ints[perm[i]] : perm[i];
        moves |= both[i] != i;
    }
    if (is_turned)
        x = x->in[0];
    Attr attrs[OP_MAX_ATTRS] = {{.ints = both, .n_ints = x->rank}};
    return moves ? derive_append(g, OP_transpose, &x, 1, attrs) : x;
}

Value *derive_swapped(Gradient *g, Value *x) {
    int perm[RANK_MAX];
    for (int i = 0; x && i < x->rank; i++)
        perm[i] = i < x->rank - 2 ? i : 2 * x->rank - 3 - i;
    return derive_transpose(g, x, perm);
}

Value *derive_reduced(Gradient *g, OpKind op, Value *x, const bool *over, bool keep) {
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {0}}, {.i = keep}};
    for (int i = 0; x && i < x->rank; i++)
        if (over[i])
            attrs[0].axes.at[attrs[0].axes.n++] = i;
    return x && attrs[0].axes.n ? derive_append(g, op, &x, 1, attrs) : x;
}

Value *derive_padded(Gradient *g, Value *x, const Dim *const *low, const Dim *const *high) {
    bool any = false;
    for (int i = 0; x && i < x->rank; i++)
        any |= !dim_is(low[i], 0) || !dim_is(high[i], 0);
    if (!any)
        return x;
    Value *in[] = {x, derive_cast(g, derive_number(g, 0), x->dtype)};
    Attr attrs[OP_MAX_ATTRS] = {derive_dims(low, x->rank), derive_dims(high, x->rank)};
    return derive_append(g, OP_pad, in, 2, attrs);
}

Value *derive_slice(Gradient *g, Value *x, const Dim *const *start, const Dim *const *limit,
                    const int *step) {
    static const int ones[RANK_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool any = false;
    for (int i = 0; x && i < x->rank; i++)
        any |= !dim_is(start[i], 0) || limit[i] != x->dims[i] || (step && step[i] != 1);
    if (!any)
        return x;
    Attr attrs[OP_MAX_ATTRS] = {derive_dims(start, x->rank),
                                derive_dims(limit, x->rank),
                                {.ints = (int *)(step ? step : ones), .n_ints = x->rank}};
    return derive_append(g, OP_slice, &x, 1, attrs);
}

Value *derive_window(Gradient *g, Value *x, int axis, int64_t size, int64_t dilation) {
    Attr attrs[OP_MAX_ATTRS] = {
        {.i = axis}, {.dim = dim_const(g->graph->dims, size)}, {.i = 1}, {.i = dilation}};
    return derive_append(g, OP_window, &x, 1, attrs);
}

Value *derive_product(Gradient *g, Value *a, Value *b) {
    Value *in[] = {a, b};
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
    return derive_append(g, OP_matmul, in, 2, attrs);
}

/* Of an axis whose elements a product's batch repeats, each `like` elements of x are one's. */
static Value *derive_summed_repeats(Gradient *g, Value *x, int axis, const Dim *like) {
    const Dim *apart[RANK_MAX];
    bool over[RANK_MAX] = {false};
    if (!x || x->rank == RANK_MAX) {
        if (x)
            gradient_refuse(g, "its batch has too many axes");
        return NULL;
    }
    for (int i = 0; i <= x->rank; i++)
        apart[i] = i < axis ? x->dims[i] : i == axis ? like : i == axis + 1 ? NULL : x->dims[i - 1];
    apart[axis + 1] = dim_div(g->graph->dims, x->dims[axis], like);
    over[axis + 1] = true;
    return derive_reduced(g, OP_sum, derive_reshape(g, x, x->rank + 1, apart), over, false);
}

Value *derive_summed(Gradient *g, Value *x, int rank, const Dim *const *dims) {
    bool over[RANK_MAX] = {false};
    if (!x || derive_has_dims(x, rank, dims))
        return x;
    int more = x->rank - rank; /* below 0: x lacks leading axes of one */
    for (int i = more > 0 ? more : 0; x && i < x->rank; i++) {
        const Dim *dim = dims[i - more];
        over[i] = dim_is(dim, 1) && !dim_is(x->dims[i], 1);
        if (!over[i] && x->dims[i] != dim)
            x = derive_summed_repeats(g, x, i, dim);
    }
    for (int i = 0; i < more; i++)
        over[i] = true;
    return derive_reshape(g, derive_reduced(g, OP_sum, x, over, more <= 0), rank, dims);
}

/* Zeros around each element of the axis: `before` of them, and as many as make `step` of each. */
static Value *derive_spread(Gradient *g, Value *x, int axis, int64_t step, int64_t before) {
    DimTable *table = g->graph->dims;
    const Dim *apart[RANK_MAX + 1], *low[RANK_MAX + 1], *high[RANK_MAX + 1], *joined[RANK_MAX];
    if (!x || step == 1)
        return x;
    if (x->rank == RANK_MAX) {
        gradient_refuse(g, "its zeros between elements need an axis more than there may be");
        return NULL;
    }
    for (int i = 0; i <= x->rank; i++) {
        bool is_fresh = i == axis + 1;
        apart[i] = is_fresh ? dim_const(table, 1) : x->dims[i <= axis ? i : i - 1];
        low[i] = dim_const(table, is_fresh ? before : 0);
        high[i] = dim_const(table, is_fresh ? step - 1 - before : 0);
    }
    for (int i = 0; i < x->rank; i++)
        joined[i] = i == axis ? dim_mul(table, x->dims[i], dim_const(table, step)) : x->dims[i];
    Value *wide = derive_padded(g, derive_reshape(g, x, x->rank + 1, apart), low, high);
    return derive_reshape(g, wide, x->rank, joined);
}

Value *derive_fitted(Gradient *g, Value *x, int axis, const Dim *before, int64_t step, const Dim *dim) {
    DimTable *table = g->graph->dims;
    const Dim *zero = dim_const(table, 0), *low[RANK_MAX], *high[RANK_MAX], *limit[RANK_MAX];
    if (!x)
        return NULL;
    for (int i = 0; i < x->rank; i++) {
        low[i] = high[i] = zero;
        limit[i] = i == axis ? dim : x->dims[i];
    }
    const Dim *rest = dim_sub(table, dim_sub(table, dim, before), x->dims[axis]);
    const Dim *spare = dim_add(table, rest, dim_const(table, step - 1));
    low[axis] = before;
    high[axis] = dim_known_le(table, zero, rest)    ? rest
                 : dim_known_le(table, rest, zero)  ? zero
                 : dim_known_le(table, zero, spare) ? spare
                                                    : dim; /* enough, whatever is known */
    x = derive_padded(g, x, low, high);
    low[axis] = zero;
    return derive_slice(g, x, low, limit, NULL);
}

Value *derive_placed(Gradient *g, Value *x, int axis, const Dim *start, int64_t step, const Dim *dim) {
    DimTable *table = g->graph->dims;
    /* zeros that are before the first element as well stand there: of those behind the last, dim may lack
     * some */
    int64_t before = dim_is_const(start) ? start->value % step : 0;
    const Dim *low = dim_sub(table, start, dim_const(table, before));
    return derive_fitted(g, derive_spread(g, x, axis, step, before), axis, low, step, dim);
}
