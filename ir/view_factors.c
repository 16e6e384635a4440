/* Factors: where the axes of a Value lie in memory that has them in another order, or in parts; or, place by
 * place, in a base that zeros surround. Each movement turns the factors of its operand into its own. */
#include "ir/view_internal.h"

/* The factors of `stored`'s operand, from its own, where it is a transpose. */
static void view_transpose_back(const Value *stored, ViewFactors *factors) {
    ViewFactors in = *factors;
    factors->n = 0;
    for (int axis = 0; axis < stored->rank; axis++)
        for (int i = 0; i < in.n; i++)
            if (stored->attrs[0].ints[in.at[i].axis] == axis) {
                factors->at[factors->n] = in.at[i];
                factors->at[factors->n++].axis = axis;
            }
}

/* How many of the next factors make up an axis of `rest` elements; 0: no number of whole ones does. */
static int view_whole_factors(DimTable *dims, const ViewFactors *in, int next, const Dim *rest) {
    const Dim *product = dim_const(dims, 1);
    for (int i = next; i < in->n && product; i++) {
        product = dim_mul(dims, product, in->at[i].dim);
        if (product == rest)
            return i + 1 - next;
    }
    return 0;
}

/* The next factor for an axis of which `rest` is to be found yet, as far as constants and divisors tell:
 * whole, or its outer part. */
static bool view_take(DimTable *dims, ViewFactors *in, int *next, const Dim **rest, ViewFactor *out) {
    if (*next == in->n || !dim_is_const(*rest))
        return false;
    ViewFactor *from = &in->at[*next];
    const Dim *want = *rest;
    if (dim_is(from->dim, 0) || want->value == 0)
        return false;
    if (dim_is_const(from->dim) && want->value % from->dim->value == 0) {
        *out = *from;
        ++*next;
        *rest = dim_const(dims, want->value / from->dim->value);
        return true;
    }
    if (want->value == 1 || dim_divisor(dims, from->dim) % want->value != 0)
        return false;
    from->dim = dim_div(dims, from->dim, want);
    *out = *from;
    out->dim = want;
    out->stride = dim_mul(dims, from->dim, from->stride);
    *rest = dim_const(dims, 1);
    return out->stride != NULL;
}

/* Across a reshape: the factors in order are shared out among the axes on its other side. */
static bool view_share_out(DimTable *dims, int rank, const Dim *const *to, ViewFactors *factors) {
    ViewFactors in = *factors;
    int next = 0;
    factors->n = 0;
    for (int axis = 0; axis < rank; axis++) {
        const Dim *rest = to[axis];
        int whole = view_whole_factors(dims, &in, next, rest), end = next + whole;
        while (next < end || (!whole && !dim_is(rest, 1))) {
            ViewFactor *out = &factors->at[factors->n];
            if (factors->n == VIEW_FACTORS_MAX)
                return false;
            if (whole)
                *out = in.at[next++];
            else if (!view_take(dims, &in, &next, &rest, out))
                return false;
            out->axis = axis;
            factors->n++;
        }
    }
    return next == in.n;
}

/* Neighbours of one axis that stride as one are one. */
static void view_join_factors(DimTable *dims, ViewFactors *factors) {
    int n = 0;
    for (int i = 0; i < factors->n; i++) {
        ViewFactor *last = n ? &factors->at[n - 1] : NULL, *at = &factors->at[i];
        if (last && last->axis == at->axis && last->stride == dim_mul(dims, at->dim, at->stride))
            *last = (ViewFactor){at->axis, at->base_axis, dim_mul(dims, last->dim, at->dim), at->stride};
        else
            factors->at[n++] = *at;
    }
    factors->n = n;
}

static bool view_own_factors(DimTable *dims, const Value *base, const Dim *const *strides,
                             ViewFactors *factors) {
    *factors = (ViewFactors){.offset = dim_const(dims, 0)};
    for (int i = 0; i < base->rank; i++) {
        if (dim_is(base->dims[i], 0))
            return false;
        if (!dim_is(base->dims[i], 1))
            factors->at[factors->n++] = (ViewFactor){i, i, base->dims[i], strides[i]};
    }
    return true;
}

bool view_stored(const Graph *graph, const Value *stored, const Value *root, int rank, const Dim *const *as,
                 ViewFactors *factors) {
    DimTable *dims = graph->dims;
    const Dim *strides[RANK_MAX];
    view_base_strides(graph, stored, strides);
    if (!view_own_factors(dims, stored, strides, factors))
        return false;
    for (; stored != root; stored = stored->in[0]) {
        const Value *before = stored->in[0];
        if (stored->op == OP_transpose)
            view_transpose_back(stored, factors);
        else if (!view_share_out(dims, before->rank, (const Dim *const *)before->dims, factors))
            return false;
        view_join_factors(dims, factors);
    }
    bool is_said = view_share_out(dims, rank, as, factors);
    view_join_factors(dims, factors);
    return is_said;
}

/* The factors of a transpose, from its operand's. */
static void view_transpose_on(const Value *value, ViewFactors *factors) {
    ViewFactors in = *factors;
    factors->n = 0;
    for (int axis = 0; axis < value->rank; axis++)
        for (int i = 0; i < in.n; i++)
            if (in.at[i].axis == value->attrs[0].ints[axis]) {
                factors->at[factors->n] = in.at[i];
                factors->at[factors->n++].axis = axis;
            }
}

/* The factors of one axis of which `extent` elements from `start` on are taken: whole ones of its outermost
 * part. */
static bool view_cut(DimTable *dims, int axis, const Dim *start, const Dim *extent, ViewFactors *factors) {
    int first = 0, end, n = 0;
    while (first < factors->n && factors->at[first].axis != axis)
        first++;
    const Dim *inner = dim_const(dims, 1);
    for (end = first; end < factors->n && factors->at[end].axis == axis; end++)
        inner = end > first ? dim_mul(dims, inner, factors->at[end].dim) : inner;
    if (first == end || !inner || !dim_is_const(inner) || inner->value < 1 ||
        dim_divisor(dims, start) % inner->value != 0 || dim_divisor(dims, extent) % inner->value != 0)
        return false;
    ViewFactor *outer = &factors->at[first];
    const Dim *from = dim_mul(dims, dim_div(dims, start, inner), outer->stride);
    factors->offset = from ? dim_add(dims, factors->offset, from) : NULL;
    outer->dim = dim_div(dims, extent, inner);
    for (int i = 0; i < factors->n; i++)
        if (!dim_is(factors->at[i].dim, 1))
            factors->at[n++] = factors->at[i];
    factors->n = n;
    return factors->offset != NULL;
}

/* The factors of a slice, from its operand's. */
static bool view_slice_on(DimTable *dims, const Value *value, ViewFactors *factors) {
    for (int i = 0; i < value->rank; i++) {
        if (value->attrs[2].ints[i] != 1)
            return false;
        if (value->dims[i] != value->in[0]->dims[i] &&
            !view_cut(dims, i, value->attrs[0].dims[i], value->dims[i], factors))
            return false;
    }
    return true;
}

bool view_factors(const Graph *graph, const Value *value, const Value *base, const Dim *const *strides,
                  ViewFactors *factors) {
    enum { MOVEMENTS_MAX = 8 };
    const Value *chain[MOVEMENTS_MAX];
    int n = 0;
    for (; value != base; value = value->in[0]) {
        if (n == MOVEMENTS_MAX)
            return false;
        chain[n++] = value;
    }
    if (!view_own_factors(graph->dims, base, strides, factors))
        return false;
    while (n-- > 0) {
        bool is_said = true;
        if (chain[n]->op == OP_transpose)
            view_transpose_on(chain[n], factors);
        else if (chain[n]->op == OP_slice)
            is_said = view_slice_on(graph->dims, chain[n], factors);
        else
            is_said =
                view_share_out(graph->dims, chain[n]->rank, (const Dim *const *)chain[n]->dims, factors);
        if (!is_said)
            return false;
        view_join_factors(graph->dims, factors);
    }
    return true;
}

Value *view_below_movements(Value *value, bool (*is_base)(void *context, const Value *v), void *context) {
    while (!is_base(context, value) &&
           (value->op == OP_reshape || value->op == OP_transpose || value->op == OP_slice))
        value = value->in[0];
    return value;
}

/* The factors of an axis, outer ones first, in *first; how many. */
static int view_axis_factors(const ViewFactors *factors, int axis, const ViewFactor **first) {
    int n = 0;
    for (int i = factors->n; i-- > 0;)
        if (factors->at[i].axis == axis) {
            *first = &factors->at[i];
            n++;
        }
    return n;
}

/* One axis of pages' view, from its factors in the data and in the index. */
static bool view_page_axis(const Graph *graph, int axis, const ViewFactors *data, const ViewFactors *index,
                           ViewGather *gather) {
    const ViewFactor *of_data = NULL, *of_index = NULL;
    const Dim *zero = dim_const(graph->dims, 0);
    int n_data = view_axis_factors(data, axis, &of_data), n_index = view_axis_factors(index, axis, &of_index);
    gather->data.strides[axis] = n_data ? of_data[n_data - 1].stride : zero;
    gather->index.strides[axis] = n_index ? of_index->stride : zero;
    if (n_data <= 1 && n_index <= 1)
        return true;
    if (n_data != 2 || n_index != 2 || gather->page || !dim_is(of_data->stride, 0) ||
        !dim_is(of_index[1].stride, 0) || of_data[1].dim != of_index[1].dim)
        return false;
    gather->page = of_data[1].dim;
    gather->page_axis = axis;
    return true;
}

bool view_pages(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
                void *context, ViewGather *gather) {
    Value *chosen = view_below_movements(value, is_base, context);
    ViewFactors data, index;
    if (chosen->op != OP_gather || is_base(context, chosen))
        return false;
    *gather = view_chosen(graph, chosen, is_base, context);
    if (!view_factors(graph, value, chosen, gather->data.strides, &data) ||
        !view_factors(graph, value, chosen, gather->index.strides, &index))
        return false;
    gather->data.offset = dim_add(graph->dims, gather->data.offset, data.offset);
    gather->index.offset = dim_add(graph->dims, gather->index.offset, index.offset);
    for (int axis = 0; axis < value->rank; axis++)
        if (!view_page_axis(graph, axis, &data, &index, gather))
            return false;
    return gather->page && gather->data.offset && gather->index.offset;
}

/* ---- places in a base that zeros surround */

/* The one factor of an axis; NULL where it has several, or none. */
static ViewFactor *places_factor(ViewPlaces *places, int axis) {
    ViewFactor *found = NULL;
    for (int i = 0; i < places->factors.n; i++) {
        if (places->factors.at[i].axis != axis)
            continue;
        if (found)
            return NULL;
        found = &places->factors.at[i];
    }
    return found;
}

static bool places_move(DimTable *dims, ViewPlaces *places, const ViewFactor *factor, const Dim *by) {
    const Dim *moved = dim_mul(dims, by, factor->stride), **start = &places->start[factor->base_axis];
    *start = moved ? dim_add(dims, *start, moved) : NULL;
    return *start != NULL;
}

/* Whether the border is zeros, and along axes that one factor has: of which nothing was left out before,
 * since that is no zeros. */
static bool places_pad(DimTable *dims, const Value *value, ViewPlaces *places) {
    double border;
    if (!value_is_constant(value->in[1], &border) || border != 0)
        return false;
    places->has_border = true;
    for (int i = 0; i < value->rank; i++) {
        if (value->dims[i] == value->in[0]->dims[i])
            continue;
        ViewFactor *factor = places_factor(places, i);
        if (!factor || places->is_cut[factor->base_axis] ||
            !places_move(dims, places, factor, dim_sub(dims, dim_const(dims, 0), value->attrs[0].dims[i])))
            return false;
        factor->dim = value->dims[i];
    }
    return true;
}

static bool places_slice(DimTable *dims, const Value *value, ViewPlaces *places) {
    for (int i = 0; i < value->rank; i++) {
        int step = value->attrs[2].ints[i];
        if (value->dims[i] == value->in[0]->dims[i] && step == 1)
            continue;
        ViewFactor *factor = places_factor(places, i);
        if (!factor || !places_move(dims, places, factor, value->attrs[0].dims[i]))
            return false;
        places->is_cut[factor->base_axis] = true;
        factor->dim = value->dims[i];
        factor->stride = dim_mul(dims, factor->stride, dim_const(dims, step));
        if (!factor->stride)
            return false;
    }
    return true;
}

static bool places_window(DimTable *dims, const Value *value, ViewPlaces *places) {
    int axis = (int)value->attrs[0].i;
    ViewFactor *factor = places_factor(places, axis);
    if (!factor || places->factors.n == VIEW_FACTORS_MAX)
        return false;
    places->is_cut[factor->base_axis] = true;
    ViewFactor *within = &places->factors.at[places->factors.n++];
    *within = *factor;
    within->axis = value->rank - 1;
    within->dim = value->dims[within->axis];
    within->stride = dim_mul(dims, factor->stride, dim_const(dims, value->attrs[3].i));
    factor->dim = value->dims[axis];
    factor->stride = dim_mul(dims, factor->stride, dim_const(dims, value->attrs[2].i));
    return within->stride && factor->stride;
}

/* Factors of one element say nothing, once nothing moves them any more. */
static bool places_reshape(DimTable *dims, const Value *value, ViewPlaces *places) {
    ViewFactors *factors = &places->factors;
    int n = 0;
    for (int i = 0; i < factors->n; i++)
        if (!dim_is(factors->at[i].dim, 1))
            factors->at[n++] = factors->at[i];
    factors->n = n;
    return view_share_out(dims, value->rank, (const Dim *const *)value->dims, factors);
}

static bool places_step(DimTable *dims, const Value *value, ViewPlaces *places) {
    switch (value->op) {
    case OP_transpose: view_transpose_on(value, &places->factors); return true;
    case OP_reshape: return places_reshape(dims, value, places);
    case OP_slice: return places_slice(dims, value, places);
    case OP_window: return places_window(dims, value, places);
    case OP_pad: return places_pad(dims, value, places);
    default: return false;
    }
}

static bool places_follow(const Value *value) {
    return value->op == OP_transpose || value->op == OP_reshape || value->op == OP_slice ||
           value->op == OP_window || value->op == OP_pad;
}

bool view_places(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
                 void *context, ViewPlaces *places) {
    enum { MOVEMENTS_MAX = 16 };
    const Value *chain[MOVEMENTS_MAX];
    int n = 0;
    for (; !is_base(context, value) && places_follow(value); value = value->in[0]) {
        if (n == MOVEMENTS_MAX)
            return false;
        chain[n++] = value;
    }
    *places = (ViewPlaces){.base = value};
    const Dim *one = dim_const(graph->dims, 1);
    for (int i = 0; i < value->rank; i++) {
        places->start[i] = dim_const(graph->dims, 0);
        places->factors.at[places->factors.n++] = (ViewFactor){i, i, value->dims[i], one};
    }
    while (n-- > 0)
        if (!places_step(graph->dims, chain[n], places))
            return false;
    return true;
}
