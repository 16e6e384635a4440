/* Sums are linear: what does not vary along the axes that are summed leaves them, and what lies around its
 * own mean adds up to nothing.
 *
 *     s = sum(u * c)               ->   s = sum(u) * c                c has one element along the axes
 *     s = sum(-u)                  ->   s = -sum(u)
 *     s = sum(u + c * (x - m))     ->   s = sum(u) + 0 * m * c        m = sum(x) / n, over the same axes
 *
 * So the sums that the gradient of a norm has wait for no other, and several are of the same terms: columns
 * are read once for all of them, where each would have been a reading of its own. The third takes the
 * rounding of a mean for nothing, which is less than that of the sum; its 0 is NaN where something of x, or
 * c, is no number. */
#include "passes/linear.h"

enum { LINEAR_DEPTH = 6, LINEAR_FACTORS = 8 };

bool linear_is_fixed(const Value *value, const Value *sum) {
    const Value *whole = sum->in[0];
    for (int i = 0; i < whole->rank; i++)
        if (value_reduces(sum, i) && value_varies(value, whole, i))
            return false;
    return true;
}

/* Whether `value` is n times something, n constant, or that by n; the something, NULL where it is not. */
static const Value *linear_scaled(const Value *value, double n) {
    if ((value->op != OP_div && value->op != OP_mul) || !value_is_scalar_constant(value->in[1]) ||
        !dtype_is_float(value->in[1]->dtype))
        return NULL;
    double factor = value->in[1]->attrs[0].number.f;
    double by = value->op == OP_div ? 1 / factor : factor;
    return by * n > 1 - 1e-6 && by * n < 1 + 1e-6 ? value->in[0] : NULL;
}

/* Whether m is the mean of x over the axes of `sum`. */
static bool linear_is_mean(const Value *m, const Value *x, const Value *sum) {
    double n = 1;
    for (int i = 0; i < x->rank; i++) {
        if (!value_reduces(sum, i))
            continue;
        if (!dim_is_const(x->dims[i]))
            return false;
        n *= (double)x->dims[i]->value;
    }
    const Value *mean = linear_scaled(m, n);
    if (!mean || mean->op != OP_sum || !mean->attrs[1].i || mean->in[0] != x)
        return false;
    for (int i = 0; i < x->rank; i++)
        if (value_reduces(mean, i) != value_reduces(sum, i) && !dim_is(x->dims[i], 1))
            return false;
    return true;
}

/* The m of x - m or m - x, m being the mean of x over the axes of `sum`; NULL: it does not lie around that.
 */
static Value *linear_mean(const Value *value, const Value *sum) {
    for (int i = 0; i < 2 && value->op == OP_sub; i++)
        if (value_same_dims(value->in[i], value) && linear_is_mean(value->in[!i], value->in[i], sum))
            return value->in[!i];
    return NULL;
}

/* What is left of `value`, summed as `sum` has it, where that comes to nothing: zero, or NaN where the mean
 * or a factor is none or infinite, as the sum would be. NULL: it does not. */
static Value *linear_nothing(Rewrite *rewrite, const Value *value, const Value *sum, int depth) {
    Value *mean = linear_mean(value, sum), *none = NULL;
    if (mean)
        return build_scalar(rewrite, OP_mul, mean, build_constant(rewrite, (Number){.f = 0}, DTYPE_F32, sum),
                            NULL, sum);
    if (depth > LINEAR_DEPTH || value->dtype != DTYPE_F32)
        return NULL;
    if (value->op == OP_neg)
        return linear_nothing(rewrite, value->in[0], sum, depth + 1);
    for (int i = 0; i < 2 && !none && (value->op == OP_mul || (value->op == OP_div && !i)); i++)
        if (value_same_dims(value->in[i], value) && linear_is_fixed(value->in[!i], sum)) {
            none = linear_nothing(rewrite, value->in[i], sum, depth + 1);
            none = none ? build_scalar(rewrite, value->op, none, value->in[!i], NULL, sum) : NULL;
        }
    return none;
}

/* A sum as it comes apart. */
typedef struct Linear {
    Rewrite *rewrite;
    const Value *sum;
    Value *rest; /* what is still summed */
    Value *none; /* what is left of terms that come to nothing; NULL: there were none */
    Value *factors[LINEAR_FACTORS];
    bool divides[LINEAR_FACTORS];
    int n;
    bool is_minus;
} Linear;

static bool linear_take(Linear *linear, Value *rest, Value *factor, bool divides) {
    if (linear->n == LINEAR_FACTORS || value_is_scalar_constant(factor) ||
        !linear_is_fixed(factor, linear->sum))
        return false;
    linear->factors[linear->n] = factor;
    linear->divides[linear->n++] = divides;
    linear->rest = rest;
    return true;
}

/* Whether the factor of a product's factor leaves the sum as well, so that u * (x - m) is summed once for
 * (u * g) * (x - m) and u * ((x - m) * r), which a norm's gradient has both of. Rows are in the kernel that
 * sums them as they are, and a softmax is known by its quotient. */
static bool linear_nested(const Linear *linear, const Value *term, const Value *other) {
    const Value *sum = linear->sum;
    return !value_reduces(sum, sum->in[0]->rank - 1) || linear_mean(term->in[0], sum) ||
           linear_mean(other, sum);
}

/* Takes one factor off a product, or off a factor of it. */
static bool linear_factor(Linear *linear) {
    Value *value = linear->rest;
    for (int i = 0; i < 2 && (value->op == OP_mul || (value->op == OP_div && !i)); i++) {
        Value *term = value->in[i], *other = value->in[!i];
        if (value_same_dims(term, value) && linear_take(linear, term, other, value->op == OP_div))
            return true;
        if (value->op == OP_mul && (term->op == OP_mul || term->op == OP_div) &&
            value_same_dims(term->in[0], value) && linear_nested(linear, term, other) &&
            linear_take(linear, value, term->in[1], term->op == OP_div)) {
            Value *in[] = {i ? other : term->in[0], i ? term->in[0] : other};
            linear->rest = build_scalar(linear->rewrite, OP_mul, in[0], in[1], NULL, linear->sum);
            return linear->rest != NULL;
        }
    }
    return false;
}

/* Takes a term off that comes to nothing, or a sign. */
static bool linear_term(Linear *linear) {
    Value *value = linear->rest;
    bool is_sub = value->op == OP_sub;
    if (value->op == OP_neg) {
        linear->rest = value->in[0];
        linear->is_minus ^= true;
        return true;
    }
    for (int i = 0; i < 2 && (is_sub || value->op == OP_add); i++) {
        Value *none = value_same_dims(value->in[i], value)
                          ? linear_nothing(linear->rewrite, value->in[!i], linear->sum, 0)
                          : NULL;
        if (!none)
            continue;
        linear->none = linear->none
                           ? build_scalar(linear->rewrite, OP_add, linear->none, none, NULL, linear->sum)
                           : none;
        linear->rest = value->in[i];
        linear->is_minus ^= is_sub && i;
        return true;
    }
    return false;
}

static Value *linear_rule(Rewrite *rewrite, Value *value) {
    const Value *operand = value->n_in ? value->in[0] : NULL;
    if (value->op != OP_sum || !operand->rank || value->dtype != DTYPE_F32 || operand->dtype != DTYPE_F32)
        return value;
    Value *product = linear_product(rewrite, value);
    if (product != value)
        return product;
    Linear linear = {.rewrite = rewrite, .sum = value, .rest = value->in[0]};
    while (linear.rest && (linear_term(&linear) || linear_factor(&linear)))
        continue;
    if (!linear.rest || linear.rest == operand)
        return value;
    Value *fresh = build_reduce(rewrite, OP_sum, linear.rest, value->attrs[0].axes.n, value->attrs[0].axes.at,
                                true, value);
    if (linear.is_minus)
        fresh = build_scalar(rewrite, OP_neg, fresh, NULL, NULL, value);
    for (int i = linear.n - 1; i >= 0; i--)
        fresh =
            build_scalar(rewrite, linear.divides[i] ? OP_div : OP_mul, fresh, linear.factors[i], NULL, value);
    if (linear.none)
        fresh = build_scalar(rewrite, OP_add, fresh, linear.none, NULL, value);
    if (fresh && !value_same_dims(fresh, value))
        fresh = build_reshape(rewrite, fresh, value->rank, (const Dim *const *)value->dims, value);
    if (!fresh || fresh->dtype != value->dtype)
        return value;
    pass_decide(rewrite->pass, "linear", true, fresh, value, NULL,
                "what has one element along the summed axes leaves the sum, and what lies around its own "
                "mean adds nothing");
    return fresh;
}

bool pass_linear(Pass *pass, Graph *graph) {
    return rewrite_graph(pass, graph, linear_rule);
}
