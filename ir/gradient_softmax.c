/* Softmax, its logarithm, and the logarithm of a sum of exponentials, whoever wrote them.
 *
 * All subtract the row's largest, m, so that exp stays in its range, and add it again or divide it out: what
 * m gains through one way it loses through the other. Rules of single operations would work both out, and
 * find the largest once more. With d = x - m and e = exp(d),
 *
 *     softmax        y = e / sum(e)                     dx = y * (dy - sum(dy * y))
 *
 *       with a sink, y = e / (sum(e) + exp(s - m)), m perhaps the larger of both:
 *                                                       dx as above, ds = -sum(dy * y) * exp(s - m) / the
 * same
 *
 *     log_softmax    y = d - log(sum(e))                dx = dy - exp(y) * sum(dy)
 *
 *     logsumexp      y = m + log(sum(e))                dx = dy * exp(x - y)
 *
 * there is nothing of m. */
#include <math.h>

#include "ir/gradient_internal.h"

typedef struct Softened {
    Value *x;
    const Value *max; /* kept as axes of 1 */
} Softened;

static bool softened_is(const Value *value, OpKind op) {
    return value->op == op;
}

/* d = x - max(x). */
static bool softened_shifted(const Value *d, Softened *out) {
    if (!softened_is(d, OP_sub) || !softened_is(d->in[1], OP_reduce_max))
        return false;
    out->x = d->in[0];
    out->max = d->in[1];
    return out->max->in[0] == out->x && out->max->attrs[1].i == 1;
}

/* The sum of exp(d) over the axes of the largest, kept. */
static bool softened_sum(const Value *sum, const Value *exponential, const Softened *of) {
    const Attr *over = sum->attrs;
    if (!softened_is(sum, OP_sum) || sum->in[0] != exponential || over[1].i != 1)
        return false;
    bool same = over[0].axes.n == of->max->attrs[0].axes.n;
    for (int i = 0; same && i < over[0].axes.n; i++)
        same = over[0].axes.at[i] == of->max->attrs[0].axes.at[i];
    return same;
}

/* log(sum(exp(x - m))). */
static bool softened_log_sum(const Value *log, Softened *out) {
    if (!softened_is(log, OP_log) || !softened_is(log->in[0], OP_sum))
        return false;
    const Value *exponential = log->in[0]->in[0];
    return softened_is(exponential, OP_exp) && softened_shifted(exponential->in[0], out) &&
           softened_sum(log->in[0], exponential, out);
}

static bool softened_softmax(const Value *y, Softened *out) {
    return softened_is(y, OP_div) && softened_is(y->in[0], OP_exp) &&
           softened_shifted(y->in[0]->in[0], out) && softened_sum(y->in[1], y->in[0], out);
}

/* Whether base is the largest of x, or the larger of that and a sink; NULL: of 0. */
static bool softened_base(const Value *base, const Value *sink, Softened *out) {
    out->max = base;
    for (int i = 0; i < 2 && base->op == OP_max; i++) {
        const Value *other = base->in[!i];
        double number;
        bool is_zero = value_is_constant(other, &number) && number == 0;
        if (sink ? other == sink : is_zero)
            out->max = base->in[i];
    }
    return softened_is(out->max, OP_reduce_max) && out->max->in[0] == out->x && out->max->attrs[1].i == 1;
}

/* The same beside a sink, whose exponential is *weight; *sink NULL: it is 0. */
static bool softened_sink(const Value *y, Softened *out, Value **sink, Value **weight) {
    if (!softened_is(y, OP_div) || !softened_is(y->in[0], OP_exp) || !softened_is(y->in[0]->in[0], OP_sub) ||
        !softened_is(y->in[1], OP_add))
        return false;
    const Value *d = y->in[0]->in[0], *base = d->in[1];
    out->x = d->in[0];
    for (int i = 0; i < 2; i++) {
        *weight = y->in[1]->in[!i];
        const Value *below = softened_is(*weight, OP_exp) ? (*weight)->in[0] : NULL;
        bool is_sink = below && softened_is(below, OP_sub) && below->in[1] == base;
        if (!is_sink && !(below && softened_is(below, OP_neg) && below->in[0] == base))
            continue;
        *sink = is_sink ? below->in[0] : NULL;
        if (softened_base(base, *sink, out) && softened_sum(y->in[1]->in[i], y->in[0], out))
            return true;
    }
    return false;
}

static bool softened_log_softmax(const Value *y, Softened *out) {
    return softened_is(y, OP_sub) && softened_log_sum(y->in[1], out) &&
           y->in[1]->in[0]->in[0]->in[0] == y->in[0];
}

/* Perhaps with the largest itself where it is not finite. */
static bool softened_log_sum_exp(const Value *y, Softened *out) {
    const Value *select = softened_is(y, OP_select) ? y : NULL;
    if (select)
        y = select->in[1];
    if (!softened_is(y, OP_add) || !softened_log_sum(y->in[1], out) || y->in[0] != out->max)
        return false;
    return !select || (softened_is(select->in[0], OP_isfinite) && select->in[0]->in[0] == out->max &&
                       select->in[2] == out->max);
}

static Value *softened_row_sum(Gradient *g, Value *value, const Softened *of) {
    bool over[RANK_MAX] = {false};
    for (int i = 0; i < of->max->attrs[0].axes.n; i++)
        over[of->max->attrs[0].axes.at[i]] = true;
    return derive_reduced(g, OP_sum, value, over, true);
}

bool gradient_of_softmax(Gradient *g) {
    Value *y = g->value, *dy = g->dy, *dx;
    Value *sink, *weight;
    Softened of;
    if (softened_sink(y, &of, &sink, &weight)) {
        Value *mean = softened_row_sum(g, derive_scalar(g, OP_mul, dy, y, NULL), &of);
        dx = derive_scalar(g, OP_mul, y, derive_scalar(g, OP_sub, dy, mean, NULL), NULL);
        Value *share = derive_scalar(g, OP_div, weight, y->in[1], NULL);
        share = derive_scalar(g, OP_neg, derive_scalar(g, OP_mul, share, mean, NULL), NULL, NULL);
        if (sink)
            gradient_give_value(g, sink, share);
    } else if (softened_softmax(y, &of)) {
        Value *mean = softened_row_sum(g, derive_scalar(g, OP_mul, dy, y, NULL), &of);
        dx = derive_scalar(g, OP_mul, y, derive_scalar(g, OP_sub, dy, mean, NULL), NULL);
    } else if (softened_log_softmax(y, &of)) {
        Value *shares = derive_scalar(g, OP_exp, y, NULL, NULL);
        shares = derive_scalar(g, OP_mul, shares, softened_row_sum(g, dy, &of), NULL);
        dx = derive_scalar(g, OP_sub, dy, shares, NULL);
    } else if (softened_log_sum_exp(y, &of)) {
        /* a row of -inf has no shares: -inf - -inf is none */
        Value *is_none = derive_scalar(g, OP_eq, y, derive_number(g, -INFINITY), NULL);
        Value *shares = derive_scalar(g, OP_exp, derive_scalar(g, OP_sub, of.x, y, NULL), NULL, NULL);
        shares = derive_scalar(g, OP_select, is_none, derive_number(g, 0), shares);
        dx = derive_scalar(g, OP_mul, dy, shares, NULL);
    } else {
        return false;
    }
    gradient_give_value(g, of.x, dx);
    return true;
}
