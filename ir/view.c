/* Views are built from the base upward: each movement operation turns the strides of its operand into its
 * own. A movement that strides cannot say (a pad, a gather, a reshape across a gap) ends the walk: that Value
 * is then its own base. */
#include "ir/view.h"

void view_base_strides(const Graph *graph, const Value *base, const Dim **strides) {
    const Dim **declared = base->op == OP_input ? base->strides : NULL;
    for (size_t i = 0; !declared && base->op != OP_input && i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value == base)
            declared = graph->outputs.at[i].strides;
    if (!declared) {
        dims_packed_strides(graph->dims, base->rank, base->dims, strides);
        return;
    }
    for (int i = 0; i < base->rank; i++)
        strides[i] = declared[i];
}

static View view_own(const Graph *graph, Value *value) {
    View view = {.base = value, .offset = dim_const(graph->dims, 0)};
    view_base_strides(graph, value, view.strides);
    return view;
}

static bool view_transpose(const Value *value, const View *in, View *out) {
    for (int i = 0; i < value->rank; i++)
        out->strides[i] = in->strides[value->attrs[0].ints[i]];
    return true;
}

static bool view_slice(const Graph *graph, const Value *value, const View *in, View *out) {
    for (int i = 0; i < value->rank; i++) {
        const Dim *start = dim_mul(graph->dims, value->attrs[0].dims[i], in->strides[i]);
        out->offset = dim_add(graph->dims, out->offset, start);
        out->strides[i] =
            dim_mul(graph->dims, in->strides[i], dim_const(graph->dims, value->attrs[2].ints[i]));
        if (!out->offset || !out->strides[i])
            return false;
    }
    return true;
}

static bool view_window(const Graph *graph, const Value *value, const View *in, View *out) {
    int axis = (int)value->attrs[0].i, last = value->rank - 1;
    out->strides[last] = dim_mul(graph->dims, in->strides[axis], dim_const(graph->dims, value->attrs[3].i));
    out->strides[axis] = dim_mul(graph->dims, in->strides[axis], dim_const(graph->dims, value->attrs[2].i));
    return out->strides[last] && out->strides[axis];
}

static bool view_broadcast(const Graph *graph, const Value *value, const View *in, View *out) {
    const Value *operand = value->in[0];
    int shift = value->rank - operand->rank;
    for (int i = 0; i < value->rank; i++) {
        bool repeats = i < shift || (dim_is(operand->dims[i - shift], 1) && !dim_is(value->dims[i], 1));
        out->strides[i] = repeats ? dim_const(graph->dims, 0) : in->strides[i - shift];
    }
    return true;
}

/* The axes of a shape that are not 1, innermost first. */
static int view_real_axes(const Value *value, int *axes) {
    int n = 0;
    for (int i = value->rank - 1; i >= 0; i--)
        if (!dim_is(value->dims[i], 1))
            axes[n++] = i;
    return n;
}

/* Splits and joins: from the innermost side, the shortest groups of old and new axes with equal products
 * belong together. A group of old axes must be packed among itself; the new axes then stride by the products
 * of the extents inside. */
static bool view_reshape(const Graph *graph, const Value *value, const View *in, View *out) {
    const Value *operand = value->in[0];
    DimTable *dims = graph->dims;
    int old_axes[RANK_MAX], new_axes[RANK_MAX];
    int n_old = view_real_axes(operand, old_axes), n_new = view_real_axes(value, new_axes);
    for (int i = 0; i < value->rank; i++)
        out->strides[i] = dim_const(dims, 0); /* axes of extent 1 */
    int i = 0, j = 0;
    while (i < n_old && j < n_new) {
        int first_old = i, first_new = j;
        const Dim *old_count = operand->dims[old_axes[i++]], *new_count = value->dims[new_axes[j++]];
        while (old_count != new_count) {
            bool grow_new = dim_known_le(dims, new_count, old_count) && j < n_new;
            if (grow_new)
                new_count = dim_mul(dims, new_count, value->dims[new_axes[j++]]);
            else if (i < n_old)
                old_count = dim_mul(dims, old_count, operand->dims[old_axes[i++]]);
            else
                return false;
            if (!old_count || !new_count)
                return false;
        }
        for (int k = first_old; k + 1 < i; k++) {
            int inner = old_axes[k], outer = old_axes[k + 1];
            if (in->strides[outer] != dim_mul(dims, operand->dims[inner], in->strides[inner]))
                return false;
        }
        const Dim *stride = in->strides[old_axes[first_old]];
        for (int k = first_new; k < j; k++) {
            out->strides[new_axes[k]] = stride;
            stride = dim_mul(dims, stride, value->dims[new_axes[k]]);
            if (!stride)
                return false;
        }
    }
    return i == n_old && j == n_new;
}

/* Whether `value` may be its operand's memory under other strides. */
static bool view_follows(const Value *value) {
    if (value->op == OP_cast)
        return dtype_widens(value->in[0]->dtype, value->dtype);
    return value->op == OP_transpose || value->op == OP_slice || value->op == OP_broadcast ||
           value->op == OP_reshape || value->op == OP_window;
}

/* The view of a value, from that of its operand. */
static View view_step(const Graph *graph, Value *value, const View *in) {
    View out = *in;
    bool said = true;
    if (value->op == OP_transpose)
        said = view_transpose(value, in, &out);
    else if (value->op == OP_slice)
        said = view_slice(graph, value, in, &out);
    else if (value->op == OP_window)
        said = view_window(graph, value, in, &out);
    else if (value->op == OP_broadcast)
        said = view_broadcast(graph, value, in, &out);
    else if (value->op == OP_reshape)
        said = view_reshape(graph, value, in, &out);
    return said ? out : view_own(graph, value);
}

View view_of(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
             void *context) {
    enum { FEW = 16 };
    Value *few[FEW], **chain = few, *base = value;
    size_t n = 0;
    while (!(is_base && is_base(context, base)) && view_follows(base)) {
        base = base->in[0];
        n++;
    }
    if (n > FEW)
        chain = ARENA_ARRAY(graph->arena, Value *, n);
    for (size_t i = n; i > 0; value = value->in[0])
        chain[--i] = value;
    View view = view_own(graph, base);
    for (size_t i = 0; i < n; i++)
        view = view_step(graph, chain[i], &view);
    return view;
}

/* From strides along the axes of `below` those along the axes of `value`, which is views of it, a few. */
static bool view_carry(const Graph *graph, Value *value, const Value *below, View *view) {
    enum { FEW = 16 };
    Value *chain[FEW];
    int n = 0;
    for (; value != below; value = value->in[0]) {
        if (n == FEW)
            return false;
        chain[n++] = value;
    }
    const Value *base = view->base;
    while (n-- > 0 && view->base == base)
        *view = view_step(graph, chain[n], view);
    return view->base == base;
}

/* The view of `chosen`, a gather, itself. */
static ViewGather view_chosen(const Graph *graph, const Value *chosen,
                              bool (*is_base)(void *context, const Value *v), void *context) {
    View data = view_of(graph, chosen->in[0], is_base, context),
         index = view_of(graph, chosen->in[1], is_base, context);
    int axis = (int)chosen->attrs[0].i, n = chosen->in[1]->rank;
    ViewGather gather = {
        .data = data, .index = index, .step = data.strides[axis], .extent = chosen->in[0]->dims[axis]};
    for (int i = 0; i < chosen->rank; i++) {
        bool is_index = i >= axis && i < axis + n;
        const Dim *zero = dim_const(graph->dims, 0);
        gather.data.strides[i] = is_index ? zero : data.strides[i < axis ? i : i - n + 1];
        gather.index.strides[i] = is_index ? index.strides[i - axis] : zero;
    }
    return gather;
}

bool view_gather(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
                 void *context, ViewGather *gather) {
    Value *chosen = value;
    while (!is_base(context, chosen) && view_follows(chosen))
        chosen = chosen->in[0];
    if (chosen->op != OP_gather || is_base(context, chosen))
        return false;
    *gather = view_chosen(graph, chosen, is_base, context);
    return view_carry(graph, value, chosen, &gather->data) &&
           view_carry(graph, value, chosen, &gather->index);
}

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
    *out = (ViewFactor){from->axis, want, dim_mul(dims, from->dim, from->stride)};
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
            *last = (ViewFactor){at->axis, dim_mul(dims, last->dim, at->dim), at->stride};
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
            factors->at[factors->n++] = (ViewFactor){i, base->dims[i], strides[i]};
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

int view_vector_width(const Graph *graph, const View *view, const Value *value, int axis, int limit) {
    if (!dim_is(view->strides[axis], 1))
        return 1;
    int width = limit;
    while (width > 1) {
        bool fits = dim_divisor(graph->dims, value->dims[axis]) % width == 0 &&
                    dim_divisor(graph->dims, view->offset) % width == 0;
        for (int i = 0; fits && i < value->rank; i++)
            if (i != axis && !dim_is(value->dims[i], 1))
                fits = dim_divisor(graph->dims, view->strides[i]) % width == 0;
        if (fits)
            break;
        width /= 2;
    }
    return width;
}
