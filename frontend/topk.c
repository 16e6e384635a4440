/* topk(x, k, over, of): the k largest along an axis, largest first, as the rounds that find them.
 *
 *     round j:  i = argmax(x)      v = reduce_max(x)      x = select(index == i, lowest, x)
 *
 * Each round is two reductions and an exchange of one element for what loses against all others, so the
 * kernel that reduces the row does all of them, behind a product too; there is no operation of this name. Of
 * equals the first comes first, and a NaN before everything, as argmax has it. -inf counts as the lowest
 * finite number until the values are given out, so that what has been taken is lower still: k different
 * places are found wherever the axis has as many. */
#include "frontend/expand.h"

#include <float.h>
#include <math.h>

enum { TOPK_MOST = 64 };

typedef struct TopK {
    Expand *expand;
    Span span;
} TopK;

static Meaning topk_append(TopK *t, OpKind op, Meaning *in, int n, const Attr *attrs) {
    Value *values[OP_MAX_ARITY];
    for (int i = 0; i < n; i++) {
        if (in[i].kind != MEANING_TENSOR)
            return (Meaning){.kind = MEANING_FAILED};
        values[i] = in[i].value;
    }
    return expand_append(t->expand, op, values, n, attrs, t->span);
}

static Meaning topk_scalar(TopK *t, OpKind op, Meaning a, Meaning b, Meaning c) {
    Meaning in[] = {a, b, c};
    for (int i = 0; i < op_info(op)->n_in; i++)
        if (in[i].kind == MEANING_FAILED)
            return in[i];
    return operator_scalar(t->expand, op, in, op_info(op)->n_in, t->span);
}

static Meaning topk_reduce(TopK *t, OpKind op, Meaning x, int axis) {
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {1, {axis}}}, {.i = 1}};
    return topk_append(t, op, &x, 1, attrs);
}

/* The number of each place along the axis. */
static Meaning topk_places(TopK *t, const Value *x, int axis) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == axis ? x->dims[i] : dim_const(t->expand->graph->dims, 1);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = dims, .n_dims = x->rank}, {.i = axis}};
    return topk_append(t, OP_index, NULL, 0, attrs);
}

static Meaning topk_join(TopK *t, Value **parts, int n, int axis) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = axis}};
    return n == 1 ? (Meaning){.kind = MEANING_TENSOR, .value = parts[0]}
                  : expand_append(t->expand, OP_concat, parts, n, attrs, t->span);
}

Meaning topk_call(Expand *expand, Value *x, int64_t k, int axis, Value *of, Span span) {
    TopK t = {.expand = expand, .span = span};
    DType type = dtype_compute(x->dtype);
    bool is_float = dtype_is_float(type);
    double finite = type == DTYPE_F64 ? DBL_MAX : FLT_MAX;
    if (k < 1 || k > TOPK_MOST || (dim_is_const(x->dims[axis]) && k > x->dims[axis]->value))
        return expand_fail(expand, DIAG_ATTRIBUTE, span,
                           "topk takes 1 to %d elements, and no more than the axis has", TOPK_MOST);
    Meaning none = {.kind = MEANING_NONE};
    Meaning low = is_float ? (Meaning){.kind = MEANING_REAL, .real = -finite}
                           : (Meaning){.kind = MEANING_WHOLE, .whole = dtype_min_int(type) + 1};
    Meaning taken = is_float ? (Meaning){.kind = MEANING_REAL, .real = -HUGE_VAL}
                             : (Meaning){.kind = MEANING_WHOLE, .whole = dtype_min_int(type)};
    Meaning left = topk_scalar(&t, OP_max, (Meaning){.kind = MEANING_TENSOR, .value = x}, low, none);
    Meaning places = topk_places(&t, x, axis), zero = {.kind = MEANING_WHOLE, .whole = 0};
    Value *values[TOPK_MOST], *indices[TOPK_MOST];
    for (int j = 0; j < k; j++) {
        Meaning at = topk_reduce(&t, OP_argmax, left, axis), value;
        if (at.kind != MEANING_TENSOR)
            return at;
        indices[j] = at.value;
        Meaning here = topk_scalar(&t, OP_eq, places, operator_cast(expand, at, DTYPE_I32, span), none);
        if (of) {
            value = topk_scalar(&t, OP_select, here, (Meaning){.kind = MEANING_TENSOR, .value = of}, zero);
            value = topk_reduce(&t, OP_sum, value, axis);
        } else {
            value = topk_reduce(&t, OP_reduce_max, left, axis);
            if (is_float) {
                Meaning is_low = topk_scalar(&t, OP_le, value, low, none);
                value = topk_scalar(&t, OP_select, is_low, taken, value);
            }
        }
        if (value.kind != MEANING_TENSOR)
            return value;
        values[j] = value.value;
        if (j + 1 < k)
            left = topk_scalar(&t, OP_select, here, taken, left);
    }
    Meaning several = {.kind = MEANING_SEVERAL, .list = {ARENA_ARRAY(expand->arena, Meaning, 2), 2}};
    several.list.at[0] = topk_join(&t, values, (int)k, axis);
    several.list.at[1] = topk_join(&t, indices, (int)k, axis);
    for (int i = 0; i < 2; i++)
        if (several.list.at[i].kind != MEANING_TENSOR)
            return several.list.at[i];
    return several;
}
