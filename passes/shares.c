/* What weights of a row's softmax are written as comes to one form, which kernels of attention know
 * (ir/softmax.h).
 *
 * Divided by behind the product:
 *
 *     o = (e @ v) / d                       ->   o = (e / d) @ v            e = exp(x - m), d one of a row
 *
 * A row that one more element is joined to, which the product leaves out, a sink ("Efficient Streaming
 * Language Models with Attention Sinks", 2023):
 *
 *     c = concat(x, s)                      ->   m = max(max(x), s)
 *     p = slice(e) / sum(e)                      p = e / (sum(e) + exp(s - m)), e = exp(x - m)
 *     e = exp(c - max(c))
 *
 * where s has one element a row. Sinks besides the sum, without the maximum, count from the larger of both:
 * where one is far above its row, its exponential would have no room in f32.
 *
 *     e / (sum(e) + exp(s - max(x)))        ->   the same
 *
 * Nor are they left to a factor behind the product, of the logarithm of the row's sum:
 *
 *     (p @ v) * sigmoid(l - s)              ->   the same @ v          l = max(x) + log(sum(e))
 *
 * What drops some of the weights is a factor of them:
 *
 *     select(m, p * c, 0)                   ->   p * select(m, c, 0)
 *
 * A row all of which is -inf then has weights of 0, where the last two give no number. */
#include "ir/softmax.h"
#include "passes/factors.h"

/* The operand of exp(x - m), and m; false: it is no such thing of f32. */
static bool shares_exponent(const Value *e, Value **x, Value **base) {
    if (e->op != OP_exp || e->in[0]->op != OP_sub || e->dtype != DTYPE_F32)
        return false;
    *x = e->in[0]->in[0];
    *base = e->in[0]->in[1];
    return (*x)->rank && value_same_dims(*x, e);
}

/* Whether `row` has one element for each row of x. */
static bool shares_is_row(const Value *row, const Value *x) {
    return row->rank == x->rank && value_same_rows(row, x) && dim_is(row->dims[row->rank - 1], 1);
}

static bool shares_is_max(const Value *value, const Value *x) {
    return value->op == OP_reduce_max && value->in[0] == x && shares_is_row(value, x);
}

/* The weights of x beside a sink. */
static Value *shares_with_sink(Rewrite *rewrite, Value *x, Value *sink, const Value *like) {
    int last = x->rank - 1;
    Value *most = build_reduce(rewrite, OP_reduce_max, x, 1, &last, true, like);
    Value *base = build_scalar(rewrite, OP_max, most, sink, NULL, like);
    Value *e = build_exp_below(rewrite, x, base, like);
    Value *sum = build_reduce(rewrite, OP_sum, e, 1, &last, true, like),
          *weight = build_exp_below(rewrite, sink, base, like);
    return build_scalar(rewrite, OP_div, e, build_scalar(rewrite, OP_add, sum, weight, NULL, like), NULL,
                        like);
}

/* What a row of `joined` has besides `part`, which is all but one element of it; NULL: it is not. */
static Value *shares_left(const Value *joined, const Value *slice, Value **part) {
    int last = joined->rank - 1;
    if (joined->op != OP_concat || joined->n_in != 2 || joined->attrs[0].i != last)
        return NULL;
    for (int i = 0; i < 2; i++) {
        Value *sink = joined->in[!i];
        const Dim *begin = i ? joined->in[0]->dims[last] : NULL;
        *part = joined->in[i];
        bool is_whole =
            dim_is(sink->dims[last], 1) && value_same_dims(*part, slice) && slice->attrs[2].ints[last] == 1;
        for (int k = 0; k <= last && is_whole; k++) {
            const Dim *start = slice->attrs[0].dims[k];
            is_whole = k == last && begin ? start == begin : dim_is(start, 0);
        }
        if (is_whole)
            return sink;
    }
    return NULL;
}

/* slice(e) / sum(e) of a row that a sink is joined to. */
static Value *shares_joined(Rewrite *rewrite, Value *value) {
    const Value *slice = value->in[0], *sum = value->in[1];
    Value *joined, *base, *part;
    if (slice->op != OP_slice || sum->op != OP_sum || sum->in[0] != slice->in[0] ||
        !shares_exponent(slice->in[0], &joined, &base) || !shares_is_max(base, joined) ||
        !shares_is_row(sum, joined))
        return value;
    Value *sink = shares_left(joined, slice, &part);
    Value *shares = sink ? shares_with_sink(rewrite, part, sink, value) : NULL;
    return shares ? shares : value;
}

/* The s of s - base; -base is of 0. NULL: it is no such thing. */
static Value *shares_sink(Rewrite *rewrite, const Value *below, const Value *base, const Value *like) {
    if (below->op == OP_neg && below->in[0] == base)
        return build_constant(rewrite, (Number){.f = 0}, DTYPE_F32, like);
    return below->op == OP_sub && below->in[1] == base ? below->in[0] : NULL;
}

/* e / (sum(e) + exp(s - max(x))), which counts from max(x). */
static Value *shares_beside(Rewrite *rewrite, Value *value) {
    Value *x, *base, *whole = value->in[1];
    if (whole->op != OP_add || !shares_exponent(value->in[0], &x, &base) || !shares_is_max(base, x) ||
        !shares_is_row(whole, x))
        return value;
    for (int i = 0; i < 2; i++) {
        const Value *sum = whole->in[i], *weight = whole->in[!i];
        if (sum->op != OP_sum || sum->in[0] != value->in[0] || !shares_is_row(sum, x) || weight->op != OP_exp)
            continue;
        Value *sink = shares_sink(rewrite, weight->in[0], base, value);
        Value *shares = sink ? shares_with_sink(rewrite, x, sink, value) : NULL;
        return shares ? shares : value;
    }
    return value;
}

/* The product whose weights are `share`, rounded as they were. */
static Value *shares_product(Rewrite *rewrite, const Value *product, Value *share, Value *value) {
    Value *in[] = {share ? build_cast(rewrite, share, product->in[0]->dtype, value) : NULL, product->in[1]};
    Value *shared = in[0] ? build_like(rewrite, product, in) : NULL;
    return shared ? shared : value;
}

/* (e @ v) / d, of exponentials that nothing else multiplies. */
static Value *shares_behind(Rewrite *rewrite, Value *value) {
    Value *product = value->in[0], *whole = value->in[1], *x, *base;
    if (product->op != OP_matmul || rewrite_uses(rewrite, product) != 1)
        return value;
    Value *weights = product->in[0];
    if (weights->op != OP_cast || dtype_bits(weights->dtype) != 16 || rewrite_uses(rewrite, weights) != 1 ||
        !shares_exponent(weights->in[0], &x, &base) || !value_same_dims(product->in[0], x) ||
        !value_same_rows(product, x) || !shares_is_row(whole, x) || !value_is_computed_from(whole, x))
        return value;
    return shares_product(rewrite, product, build_scalar(rewrite, OP_div, weights->in[0], whole, NULL, value),
                          value);
}

/* Whether `log` is max + log(sum), or that where the maximum is finite and the maximum elsewhere. */
static bool shares_is_log(const Value *log, const Softmax *softmax) {
    if (log->op == OP_select && log->in[0]->op == OP_isfinite && log->in[0]->in[0] == softmax->max &&
        log->in[2] == softmax->max)
        log = log->in[1];
    for (int i = 0; i < 2 && log->op == OP_add; i++)
        if (log->in[i] == softmax->max && log->in[!i]->op == OP_log && log->in[!i]->in[0] == softmax->sum)
            return true;
    return false;
}

/* (softmax(x) @ v) * sigmoid(l - s), where nothing else reads the logarithms of the sums. */
static Value *shares_factor(Rewrite *rewrite, Value *value) {
    for (int i = 0; i < 2; i++) {
        Value *product = value->in[i], *factor = value->in[!i];
        Softmax softmax;
        if (product->op != OP_matmul || factor->op != OP_sigmoid || factor->in[0]->op != OP_sub ||
            rewrite_uses(rewrite, product) != 1 || rewrite_uses(rewrite, product->in[0]) != 1 ||
            !softmax_of(product->in[0], &softmax) || softmax.sink)
            continue;
        Value *log = factor->in[0]->in[0], *sink = factor->in[0]->in[1];
        if (!shares_is_log(log, &softmax) || rewrite_uses(rewrite, log) != 1 ||
            !value_same_rows(product, softmax.x) || !shares_is_row(factor, softmax.x))
            continue;
        return shares_product(rewrite, product, shares_with_sink(rewrite, softmax.x, sink, value), value);
    }
    return value;
}

/* cast(select(m, p * c, 0)) as cast(p * select(m, c, 0)), which kernels know: dropout. */
static Value *shares_dropped(Rewrite *rewrite, Value *value) {
    Softmax softmax;
    Value *weighed = value->in[0], *factor;
    bool may_be = weighed->dtype == DTYPE_F32 &&
                  (weighed->op == OP_select || weighed->op == OP_mul || weighed->op == OP_div);
    if (!may_be || softmax_of(value, &softmax) || rewrite_uses(rewrite, weighed) != 1)
        return value;
    Value *share = factors_below(rewrite, weighed, &factor, value);
    Value *plain = factor && share->op == OP_div ? build_cast(rewrite, share, value->dtype, value) : NULL;
    if (!plain || !softmax_of(plain, &softmax))
        return value;
    Value *product = build_scalar(rewrite, OP_mul, share, factor, NULL, value);
    Value *dropped = product ? build_cast(rewrite, product, value->dtype, value) : NULL;
    return dropped && softmax_of(dropped, &softmax) ? dropped : value;
}

static Value *shares_rule(Rewrite *rewrite, Value *value) {
    static Value *(*const rules[])(Rewrite *, Value *) = {shares_behind, shares_joined, shares_beside};
    if (value->id >= rewrite->n_before)
        return value;
    if (value->op == OP_cast && dtype_bits(value->dtype) == 16)
        return shares_dropped(rewrite, value);
    if (value->dtype != DTYPE_F32)
        return value;
    if (value->op == OP_mul)
        return shares_factor(rewrite, value);
    if (value->op != OP_div)
        return value;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        Value *shares = rules[i](rewrite, value);
        if (shares != value)
            return shares;
    }
    return value;
}

bool pass_shares(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion)
        return false;
    return rewrite_graph(pass, graph, shares_rule);
}
