/* The gradients of what moves elements: each is moved back, and summed where it went to several places. */
#include "ir/gradient_internal.h"

/* So many taps of a window are added one by one; more are laid one behind the other, and reduced. */
enum { GRADIENT_MOST_TAPS = 32 };
/* Elements of the matrix of ones and zeros that stands for a gather. */
enum { GRADIENT_MOST_CHOICES = 1 << 20 };

void gradient_broadcast(Gradient *g) {
    gradient_give(g, 0, g->dy);
}

void gradient_reshape(Gradient *g) {
    const Value *x = g->value->in[0];
    gradient_give(g, 0, derive_reshape(g, g->dy, x->rank, (const Dim *const *)x->dims));
}

void gradient_transpose(Gradient *g) {
    int inverse[RANK_MAX];
    for (int i = 0; i < g->value->rank; i++)
        inverse[g->value->attrs[0].ints[i]] = i;
    gradient_give(g, 0, derive_transpose(g, g->dy, inverse));
}

/* ---- slices ---- */

/* dy with the axes turned round whose elements were taken downward. */
static Value *gradient_upward(Gradient *g, Value *dy) {
    DimTable *table = g->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < dy->rank; i++) {
        bool is_down = g->value->attrs[2].ints[i] < 0;
        start[i] = is_down ? dim_sub(table, dy->dims[i], dim_const(table, 1)) : dim_const(table, 0);
        limit[i] = is_down ? dim_const(table, -1) : dy->dims[i];
        step[i] = is_down ? -1 : 1;
    }
    return derive_slice(g, dy, start, limit, step);
}

void gradient_slice(Gradient *g) {
    DimTable *table = g->graph->dims;
    const Value *x = g->value->in[0];
    Value *dx = gradient_upward(g, g->dy);
    for (int i = 0; i < x->rank && dx; i++) {
        int64_t step = g->value->attrs[2].ints[i];
        const Dim *start = g->value->attrs[0].dims[i];
        const Dim *last =
            dim_mul(table, dim_sub(table, g->value->dims[i], dim_const(table, 1)), dim_const(table, step));
        if (step < 0)
            start = dim_add(table, start, last);
        dx = derive_placed(g, dx, i, start, step < 0 ? -step : step, x->dims[i]);
    }
    gradient_give(g, 0, dx);
}

/* ---- windows: y[.., p, .., r] = x[.., step * p + dilation * r, ..] ---- */

/* Windows that do not overlap: their elements stand one behind the other. */
static Value *gradient_apart(Gradient *g, int axis, int64_t step) {
    DimTable *table = g->graph->dims;
    const Value *x = g->value->in[0];
    const Dim *low[RANK_MAX], *high[RANK_MAX], *joined[RANK_MAX];
    int perm[RANK_MAX] = {0}, last = x->rank;
    for (int i = 0; i <= last; i++)
        perm[i] = i <= axis ? i : i == axis + 1 ? last : i - 1;
    Value *beside = derive_transpose(g, g->dy, perm);
    if (!beside)
        return NULL;
    for (int i = 0; i <= last; i++)
        low[i] = high[i] = dim_const(table, 0);
    high[axis + 1] = dim_sub(table, dim_const(table, step), beside->dims[axis + 1]);
    for (int i = 0; i < x->rank; i++)
        joined[i] = i == axis ? dim_mul(table, beside->dims[axis], dim_const(table, step)) : x->dims[i];
    Value *wide = derive_reshape(g, derive_padded(g, beside, low, high), x->rank, joined);
    return derive_fitted(g, wide, axis, low[axis], step, x->dims[axis]);
}

/* The sum over taps of their places in x. */
static Value *gradient_taps(Gradient *g, int axis, int64_t step, int64_t dilation) {
    DimTable *table = g->graph->dims;
    const Value *x = g->value->in[0];
    int last = x->rank;
    Value *sum = NULL;
    for (int64_t tap = 0; tap < g->value->dims[last]->value; tap++) {
        const Dim *start[RANK_MAX], *limit[RANK_MAX];
        for (int i = 0; i <= last; i++) {
            start[i] = dim_const(table, i == last ? tap : 0);
            limit[i] = i == last ? dim_const(table, tap + 1) : g->dy->dims[i];
        }
        Value *one = derive_slice(g, g->dy, start, limit, NULL);
        one = derive_reshape(g, one, last, (const Dim *const *)g->dy->dims);
        one = derive_placed(g, one, axis, dim_const(table, tap * dilation), step, x->dims[axis]);
        sum = sum ? derive_scalar(g, OP_add, sum, one, NULL) : one;
        if (!sum)
            return NULL;
    }
    return sum;
}

/* Any number of taps. Rows of places p, one a tap r, that are W long and are read as rows of W - dilation
 * have element p of row r at p + dilation * r, where the windows of step 1 had it; then columns are summed.
 */
static Value *gradient_skewed(Gradient *g, int axis, int64_t step, int64_t dilation) {
    DimTable *table = g->graph->dims;
    const Value *x = g->value->in[0];
    const Dim *zero = dim_const(table, 0), *taps = g->value->dims[x->rank];
    int perm[RANK_MAX] = {0}, last = x->rank;
    for (int i = 0; i <= last; i++)
        perm[i] = i < axis ? i : i == axis ? last : i - 1;
    Value *rows = derive_transpose(g, g->dy, perm);
    const Dim *places = dim_mul(table, g->value->dims[axis], dim_const(table, step));
    rows = derive_placed(g, rows, axis + 1, zero, step, places);
    if (!rows)
        return NULL;
    const Dim *more = dim_mul(table, taps, dim_const(table, dilation));
    const Dim *width = dim_add(table, places, more);
    const Dim *narrow = dim_sub(table, width, dim_const(table, dilation));
    const Dim *low[RANK_MAX], *high[RANK_MAX], *flat[RANK_MAX], *limit[RANK_MAX], *skewed[RANK_MAX];
    bool over[RANK_MAX] = {false};
    for (int i = 0; i <= last; i++) {
        low[i] = high[i] = zero;
        skewed[i] = i == axis + 1 ? narrow : rows->dims[i];
    }
    high[axis + 1] = more;
    for (int i = 0; i < last; i++) {
        flat[i] = i == axis ? dim_mul(table, taps, width) : x->dims[i];
        limit[i] = i == axis ? dim_mul(table, taps, narrow) : x->dims[i];
    }
    over[axis] = true;
    Value *line = derive_reshape(g, derive_padded(g, rows, low, high), last, flat);
    line = derive_slice(g, line, low, limit, NULL);
    Value *sum = derive_reduced(g, OP_sum, derive_reshape(g, line, last + 1, skewed), over, false);
    return derive_fitted(g, sum, axis, zero, step, x->dims[axis]);
}

void gradient_window(Gradient *g) {
    const Attr *attrs = g->value->attrs;
    int axis = (int)attrs[0].i;
    const Dim *taps = attrs[1].dim;
    int64_t step = attrs[2].i, dilation = attrs[3].i;
    if (dilation == 1 && dim_is_const(taps) && taps->value <= step)
        gradient_give(g, 0, gradient_apart(g, axis, step));
    else if (dim_is_const(taps) && taps->value <= GRADIENT_MOST_TAPS)
        gradient_give(g, 0, gradient_taps(g, axis, step, dilation));
    else
        gradient_give(g, 0, gradient_skewed(g, axis, step, dilation));
}

/* ---- borders and parts ---- */

void gradient_pad(Gradient *g) {
    DimTable *table = g->graph->dims;
    const Value *x = g->value->in[0];
    const Attr *low = &g->value->attrs[0], *high = &g->value->attrs[1];
    const Dim *limit[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        limit[i] = dim_add(table, low->dims[i], x->dims[i]);
    if (gradient_wants(g, 0))
        gradient_give(g, 0, derive_slice(g, g->dy, (const Dim *const *)low->dims, limit, NULL));
    if (!gradient_wants(g, 1))
        return;
    Value *zero = derive_number(g, 0);
    Value *inside = derive_broadcast(g, derive_number(g, 1), x->rank, (const Dim *const *)x->dims);
    inside = derive_padded(g, inside, (const Dim *const *)low->dims, (const Dim *const *)high->dims);
    Value *outside = derive_scalar(g, OP_eq, inside, zero, NULL);
    gradient_give(g, 1, derive_scalar(g, OP_select, outside, g->dy, zero));
}

void gradient_concat(Gradient *g) {
    DimTable *table = g->graph->dims;
    int64_t axis = g->value->attrs[0].i;
    const Dim *at = dim_const(table, 0);
    for (int k = 0; k < g->value->n_in; k++) {
        const Dim *start[RANK_MAX], *limit[RANK_MAX];
        const Dim *end = dim_add(table, at, g->value->in[k]->dims[axis]);
        for (int i = 0; i < g->value->rank; i++) {
            start[i] = i == axis ? at : dim_const(table, 0);
            limit[i] = i == axis ? end : g->value->dims[i];
        }
        if (gradient_wants(g, k))
            gradient_give(g, k, derive_slice(g, g->dy, start, limit, NULL));
        at = end;
    }
}

/* ---- gather ---- */

/* Nothing adds to elements that are chosen by numbers, so the choice becomes a matrix of ones and zeros,
 * [elements of the axis, indices], which multiplies dy [before, indices, behind]. */
void gradient_gather(Gradient *g) {
    DimTable *table = g->graph->dims;
    Value *x = g->value->in[0], *indices = g->value->in[1];
    int axis = (int)g->value->attrs[0].i;
    const Dim *n = value_count(g->graph, indices), *one = dim_const(table, 1);
    const Dim *choices = dim_mul(table, n, x->dims[axis]);
    if (!choices || dim_upper(table, choices) > GRADIENT_MOST_CHOICES) {
        gradient_refuse(g,
                        "nothing adds to rows chosen by indices; where pairs of an index and a row are known "
                        "to be 2^20 at most, it is written as a product");
        return;
    }
    Attr attrs[OP_MAX_ATTRS] = {{.dims = (const Dim *[]){x->dims[axis], one}, .n_dims = 2}, {.i = 0}};
    Value *rows = graph_append(g->graph, OP_index, NULL, 0, attrs, g->value->span, g->diags);
    Value *line = derive_reshape(g, indices, 2, (const Dim *[]){one, n});
    Value *chosen = derive_scalar(g, OP_eq, rows, line, NULL);
    chosen = derive_scalar(g, OP_select, chosen, derive_number(g, 1), derive_number(g, 0));
    const Dim *flat[] = {dims_product(table, (const Dim *const *)x->dims, axis), n,
                         dims_product(table, (const Dim *const *)x->dims + axis + 1, x->rank - axis - 1)};
    Value *dx = derive_product(g, chosen, derive_reshape(g, g->dy, 3, flat));
    gradient_give(g, 0, derive_reshape(g, dx, x->rank, (const Dim *const *)x->dims));
}
