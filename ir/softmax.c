#include "ir/softmax.h"

/* Whether `row` has one element for each row of `x`. */
static bool softmax_is_of_rows(const Value *row, const Value *x) {
    return row->rank && value_same_rows(row, x) && dim_is(row->dims[row->rank - 1], 1);
}

/* Whether a value is computed element by element of what a kernel reads, and of random numbers if `random`.
 */
static bool softmax_is_given(const Value *value, bool random, int depth) {
    enum { DEPTH = 8 };
    OpClass kind = op_info(value->op)->class_;
    bool is_view = value->op == OP_reshape || value->op == OP_broadcast || value->op == OP_transpose;
    bool is_cheap =
        kind == OPCLASS_BORDER || kind == OPCLASS_POINTWISE || is_view || (random && kind == OPCLASS_RANDOM);
    if (!is_cheap || depth > DEPTH)
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!softmax_is_given(value->in[i], random, depth + 1))
            return false;
    return true;
}

/* Whether exponents count from the largest of x, or the larger of that and a sink. */
static bool softmax_base(Value *base, Softmax *out) {
    out->base = base;
    for (int i = 0; i < 2 && base->op == OP_max; i++) {
        out->max = base->in[i];
        out->sink = base->in[!i];
        const Value *sink = out->sink;
        if (out->max->op == OP_reduce_max && out->max->in[0] == out->x && dtype_is_float(sink->dtype) &&
            (!sink->rank || dim_is(sink->dims[sink->rank - 1], 1)) && softmax_is_given(sink, false, 0))
            return true;
    }
    out->max = base;
    out->sink = NULL;
    return base->op == OP_reduce_max && base->in[0] == out->x;
}

/* Whether a value is sink - base, which of a sink of 0 is -base. */
static bool softmax_is_below(const Value *value, const Softmax *of) {
    const Value *sink = of->sink;
    double number;
    if (value->op == OP_neg)
        return value_is_constant(sink, &number) && number == 0 && value->in[0] == of->base;
    return value->op == OP_sub && value->in[0] == sink && value->in[1] == of->base;
}

/* Whether they are divided by their sum, or by that and the sink's exponential. */
static bool softmax_whole(Value *whole, const Value *e, Softmax *out) {
    out->whole = whole;
    for (int i = 0; i < 2 && out->sink && whole->op == OP_add; i++) {
        const Value *weight = whole->in[!i];
        out->sum = whole->in[i];
        if (out->sum->op == OP_sum && out->sum->in[0] == e && weight->op == OP_exp &&
            softmax_is_below(weight->in[0], out))
            return true;
    }
    out->sum = whole;
    return !out->sink && whole->op == OP_sum && whole->in[0] == e;
}

bool softmax_share_of(const Value *value, Softmax *out) {
    if (value->op != OP_div || value->in[0]->op != OP_exp || value->in[0]->in[0]->op != OP_sub ||
        value->dtype != DTYPE_F32)
        return false;
    const Value *e = value->in[0], *below = e->in[0];
    Softmax softmax = {.x = below->in[0]};
    if (!softmax_base(below->in[1], &softmax) || !softmax_whole(value->in[1], e, &softmax) ||
        softmax.x->dtype != DTYPE_F32 || e->dtype != DTYPE_F32 || softmax.sum->dtype != DTYPE_F32)
        return false;
    *out = softmax;
    return true;
}

bool softmax_of(const Value *value, Softmax *out) {
    Value *share = value->op == OP_cast ? value->in[0] : NULL, *weighed = NULL;
    if (share && share->op == OP_mul && share->in[0]->op == OP_div && value_same_dims(share, share->in[0]) &&
        softmax_is_given(share->in[1], true, 0)) {
        weighed = share;
        share = share->in[0];
    }
    Softmax softmax;
    if (!share || !softmax_share_of(share, &softmax) || !softmax_is_of_rows(softmax.max, softmax.x) ||
        !softmax_is_of_rows(softmax.sum, softmax.x) || !softmax_is_of_rows(softmax.base, softmax.x))
        return false;
    softmax.share = weighed ? share : NULL;
    softmax.weighed = weighed;
    *out = softmax;
    return true;
}
