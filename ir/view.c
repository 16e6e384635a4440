/* Views are built from the base upward: each movement operation turns the strides of its operand into its
 * own. A movement that strides cannot say (a pad, a gather, a reshape across a gap) ends the walk: that Value
 * is then its own base. */
#include "ir/view.h"
#include "ir/view_internal.h"

void view_base_strides(const Graph *graph, const Value *base, const Dim **strides) {
    const Dim **declared = base->strides;
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

int view_axis_below_reshape(const Value *reshape, int axis) {
    const Value *operand = reshape->in[0];
    int at = 0, found = -1;
    for (int i = 0; i < reshape->rank; i++) {
        if (dim_is(reshape->dims[i], 1))
            continue;
        while (at < operand->rank && dim_is(operand->dims[at], 1))
            at++;
        if (at == operand->rank || operand->dims[at] != reshape->dims[i])
            return -1;
        found = i == axis ? at : found;
        at++;
    }
    return found;
}

bool view_is_input(void *context, const Value *value) {
    (void)context;
    return value->op == OP_input;
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

ViewGather view_chosen(const Graph *graph, const Value *chosen,
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

bool view_is_step(const Graph *graph, const Dim *distance, DType elem) {
    int64_t divisor = dim_divisor(graph->dims, distance);
    return dim_lower(graph->dims, distance) >= 0 && divisor * dtype_bits(elem) % 128 == 0;
}
