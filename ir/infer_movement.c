/* Shapes of the operations that compute nothing: broadcast, reshape, transpose, slice, window, pad, concat,
 * gather. */
#include "ir/infer.h"

bool infer_broadcast(Infer *infer) {
    Value *value = infer->value;
    const Value *x = value->in[0];
    const Attr *to = &value->attrs[0];
    value->dtype = x->dtype;
    value->rank = to->n_dims;
    for (int i = 0; i < value->rank; i++)
        value->dims[i] = to->dims[i];
    if (x->rank > value->rank)
        return infer_fail(infer, DIAG_RANK, "%s does not broadcast to %s, which has fewer dims",
                          infer_type_text(infer, x), infer_type_text(infer, value));
    for (int i = 1; i <= x->rank; i++) {
        const Dim *from = x->dims[x->rank - i], *dim = value->dims[value->rank - i];
        if (from != dim && !dim_is(from, 1))
            return infer_fail(infer, DIAG_SHAPE_MISMATCH,
                              "%s does not broadcast to %s: %s is not %s on axis -%d",
                              infer_type_text(infer, x), infer_type_text(infer, value),
                              infer_dim_text(infer, from), infer_dim_text(infer, dim), i);
    }
    return true;
}

bool infer_reshape(Infer *infer) {
    Value *value = infer->value;
    const Value *x = value->in[0];
    value->dtype = x->dtype;
    value->rank = value->attrs[0].n_dims;
    for (int i = 0; i < value->rank; i++)
        value->dims[i] = value->attrs[0].dims[i];
    const Dim *before = value_count(infer->graph, x), *after = value_count(infer->graph, value);
    if (!before || !after)
        return infer_fail(infer, DIAG_DIM, "the number of elements of %s overflows 64 bits",
                          infer_type_text(infer, before ? value : x));
    if (before == after)
        return true;
    infer_fail(infer, DIAG_SHAPE_MISMATCH, "%s has %s elements and cannot be reshaped to %s, which has %s",
               infer_type_text(infer, x), infer_dim_text(infer, before), infer_type_text(infer, value),
               infer_dim_text(infer, after));
    for (int i = 0; infer->diags && i < value->rank; i++)
        if (value->dims[i]->kind == DIM_DIV &&
            !dim_known_multiple(infer->graph->dims, value->dims[i]->a, value->dims[i]->b))
            diag_note(infer->diags, value->span, "%s is known to be exact only under 'where %s %% %s == 0'",
                      infer_dim_text(infer, value->dims[i]), infer_dim_text(infer, value->dims[i]->a),
                      infer_dim_text(infer, value->dims[i]->b));
    return false;
}

bool infer_transpose(Infer *infer) {
    Value *value = infer->value;
    const Value *x = value->in[0];
    const Attr *perm = &value->attrs[0];
    if (perm->n_ints != x->rank)
        return infer_fail(infer, DIAG_RANK, "'perm' of 'transpose' has %d numbers for %s, which has %d dims",
                          perm->n_ints, infer_type_text(infer, x), x->rank);
    bool seen[RANK_MAX] = {false};
    value->dtype = x->dtype;
    value->rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        int axis = perm->ints[i];
        if (axis < 0 || axis >= x->rank || seen[axis])
            return infer_fail(infer, DIAG_AXIS,
                              "'perm' of 'transpose' names every axis once, but axis %d is %s", axis,
                              axis >= 0 && axis < x->rank ? "repeated" : "out of range");
        seen[axis] = true;
        value->dims[i] = x->dims[axis];
    }
    return true;
}

/* Requires low <= high to be known, and says which constraint would make it so. */
static bool infer_order(Infer *infer, const char *what, int axis, const Dim *low, const Dim *high) {
    DimTable *table = infer->graph->dims;
    if (dim_known_le(table, low, high))
        return true;
    const Dim *excess = dim_sub(table, low, high);
    if (!excess || dim_lower(table, excess) > 0)
        return infer_fail(infer, DIAG_ATTRIBUTE, "%s on axis %d: %s exceeds %s", what, axis,
                          infer_dim_text(infer, low), infer_dim_text(infer, high));
    infer_fail(infer, DIAG_ATTRIBUTE, "%s on axis %d is not known to hold: %s may exceed %s", what, axis,
               infer_dim_text(infer, low), infer_dim_text(infer, high));
    if (infer->diags)
        diag_note(infer->diags, infer->value->span, "'where %s <= %s' would say so",
                  infer_dim_text(infer, low), infer_dim_text(infer, high));
    return false;
}

static bool infer_slice_axis(Infer *infer, int axis) {
    DimTable *table = infer->graph->dims;
    Value *value = infer->value;
    const Dim *dim = value->in[0]->dims[axis], *zero = dim_const(table, 0), *one = dim_const(table, 1);
    const Dim *start = value->attrs[0].dims[axis], *limit = value->attrs[1].dims[axis], *count;
    int step = value->attrs[2].ints[axis];
    if (step == 0 || step == INT32_MIN)
        return infer_fail(infer, DIAG_ATTRIBUTE, "the step of 'slice' on axis %d is %d", axis, step);
    if (step > 0) {
        if (!infer_order(infer, "0 <= start of 'slice'", axis, zero, start) ||
            !infer_order(infer, "start of 'slice' <= dim", axis, start, dim) ||
            !infer_order(infer, "limit of 'slice' <= dim", axis, limit, dim))
            return false;
        count = dim_ceil_div(table, dim_sub(table, limit, start), dim_const(table, step));
    } else {
        const Dim *below = dim_const(table, -1), *last = dim_sub(table, dim, one);
        if (!infer_order(infer, "-1 <= start of 'slice'", axis, below, start) ||
            !infer_order(infer, "start of 'slice' < dim", axis, start, last) ||
            !infer_order(infer, "-1 <= limit of 'slice'", axis, below, limit))
            return false;
        count = dim_ceil_div(table, dim_sub(table, start, limit), dim_const(table, -(int64_t)step));
    }
    value->dims[axis] = dim_max(table, count, zero);
    return true;
}

bool infer_slice(Infer *infer) {
    Value *value = infer->value;
    const Value *x = value->in[0];
    const Attr *attrs = value->attrs;
    if (attrs[0].n_dims != x->rank || attrs[1].n_dims != x->rank || attrs[2].n_ints != x->rank)
        return infer_fail(
            infer, DIAG_RANK, "'slice' of %s needs %d starts, limits and steps, not %d, %d and %d",
            infer_type_text(infer, x), x->rank, attrs[0].n_dims, attrs[1].n_dims, attrs[2].n_ints);
    value->dtype = x->dtype;
    value->rank = x->rank;
    for (int i = 0; i < x->rank; i++)
        if (!infer_slice_axis(infer, i))
            return false;
    return true;
}

bool infer_window(Infer *infer) {
    DimTable *table = infer->graph->dims;
    Value *value = infer->value;
    const Value *x = value->in[0];
    int64_t axis = value->attrs[0].i, step = value->attrs[2].i, dilation = value->attrs[3].i;
    const Dim *size = value->attrs[1].dim, *one = dim_const(table, 1);
    if (axis < 0 || axis >= x->rank)
        return infer_fail(infer, DIAG_AXIS, "'window' along axis %lld of %s, which has %d dims",
                          (long long)axis, infer_type_text(infer, x), x->rank);
    if (x->rank == RANK_MAX)
        return infer_fail(infer, DIAG_RANK, "the result of 'window' has %d dims; %d is the most", x->rank + 1,
                          RANK_MAX);
    if (step < 1 || step > INT32_MAX || dilation < 1 || dilation > INT32_MAX)
        return infer_fail(infer, DIAG_ATTRIBUTE,
                          "the %s of 'window' is %lld, not a positive number of 32 bits",
                          step < 1 || step > INT32_MAX ? "step" : "dilation",
                          (long long)(step < 1 || step > INT32_MAX ? step : dilation));
    const Dim *reach = dim_mul(table, dim_sub(table, size, one), dim_const(table, dilation)), *below = NULL;
    if (!reach || !(below = dim_sub(table, x->dims[axis], reach)))
        return infer_fail(infer, DIAG_DIM, "the size of 'window' overflows 64 bits");
    /* an axis that is one too short has no windows, as that of no elements has none in a border */
    if (!infer_order(infer, "1 <= size of 'window'", (int)axis, one, size) ||
        !infer_order(infer, "the reach of a 'window' <= dim", (int)axis, reach, x->dims[axis]))
        return false;
    value->dtype = x->dtype;
    value->rank = x->rank + 1;
    for (int i = 0; i < x->rank; i++)
        value->dims[i] = i == axis ? dim_ceil_div(table, below, dim_const(table, step)) : x->dims[i];
    value->dims[x->rank] = size;
    return true;
}

bool infer_pad(Infer *infer) {
    DimTable *table = infer->graph->dims;
    Value *value = infer->value;
    const Value *x = value->in[0], *with = value->in[1];
    const Attr *low = &value->attrs[0], *high = &value->attrs[1];
    if (low->n_dims != x->rank || high->n_dims != x->rank)
        return infer_fail(infer, DIAG_RANK, "'pad' of %s needs %d lows and highs, not %d and %d",
                          infer_type_text(infer, x), x->rank, low->n_dims, high->n_dims);
    if (with->rank != 0)
        return infer_fail(infer, DIAG_RANK, "the border of 'pad' is a scalar, not %s",
                          infer_type_text(infer, with));
    if (with->dtype != x->dtype)
        return infer_fail(infer, DIAG_TYPE_MISMATCH, "'pad' borders %s with %s; cast it to %s first",
                          infer_type_text(infer, x), dtype_name(with->dtype), dtype_name(x->dtype));
    value->dtype = x->dtype;
    value->rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        if (!infer_order(infer, "0 <= low of 'pad'", i, dim_const(table, 0), low->dims[i]) ||
            !infer_order(infer, "0 <= high of 'pad'", i, dim_const(table, 0), high->dims[i]))
            return false;
        value->dims[i] = dim_add(table, dim_add(table, low->dims[i], x->dims[i]), high->dims[i]);
    }
    return true;
}

bool infer_concat(Infer *infer) {
    Value *value = infer->value;
    const Value *first = value->in[0];
    int64_t axis = value->attrs[0].i;
    if (axis < 0 || axis >= first->rank)
        return infer_fail(infer, DIAG_AXIS, "'concat' along axis %lld of %s, which has %d dims",
                          (long long)axis, infer_type_text(infer, first), first->rank);
    value->dtype = first->dtype;
    value->rank = first->rank;
    for (int i = 0; i < first->rank; i++)
        value->dims[i] = first->dims[i];
    for (int k = 1; k < value->n_in; k++) {
        const Value *next = value->in[k];
        if (next->dtype != first->dtype)
            return infer_fail(infer, DIAG_TYPE_MISMATCH, "'concat' joins %s and %s; cast one of them first",
                              dtype_name(first->dtype), dtype_name(next->dtype));
        if (next->rank != first->rank)
            return infer_fail(infer, DIAG_RANK, "'concat' joins %s and %s, whose ranks differ",
                              infer_type_text(infer, first), infer_type_text(infer, next));
        for (int i = 0; i < first->rank; i++) {
            if (i == axis)
                value->dims[i] = dim_add(infer->graph->dims, value->dims[i], next->dims[i]);
            else if (next->dims[i] != first->dims[i])
                return infer_fail(infer, DIAG_SHAPE_MISMATCH,
                                  "'concat' along axis %lld: dims differ on axis %d: %s and %s",
                                  (long long)axis, i, infer_dim_text(infer, first->dims[i]),
                                  infer_dim_text(infer, next->dims[i]));
        }
        if (!value->dims[axis])
            return infer_fail(infer, DIAG_DIM, "dim %lld of the result of 'concat' overflows 64 bits",
                              (long long)axis);
    }
    return true;
}

bool infer_gather(Infer *infer) {
    Value *value = infer->value;
    const Value *x = value->in[0], *indices = value->in[1];
    int64_t axis = value->attrs[0].i;
    if (axis < 0 || axis >= x->rank)
        return infer_fail(infer, DIAG_AXIS, "'gather' along axis %lld of %s, which has %d dims",
                          (long long)axis, infer_type_text(infer, x), x->rank);
    DTypeClass class_ = dtype_class(indices->dtype);
    if (class_ != DTYPE_SIGNED && class_ != DTYPE_UNSIGNED)
        return infer_fail(infer, DIAG_TYPE_MISMATCH, "indices of 'gather' are integers, not %s",
                          dtype_name(indices->dtype));
    if (x->rank - 1 + indices->rank > RANK_MAX)
        return infer_fail(infer, DIAG_RANK, "the result of 'gather' has %d dims; %d is the most",
                          x->rank - 1 + indices->rank, RANK_MAX);
    value->dtype = x->dtype;
    value->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i != axis) {
            value->dims[value->rank++] = x->dims[i];
            continue;
        }
        for (int j = 0; j < indices->rank; j++)
            value->dims[value->rank++] = indices->dims[j];
    }
    return true;
}
