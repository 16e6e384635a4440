/* A norm before a product leaves its row's factor to the epilogue, where the product's kernel can reduce the
 * rows while it multiplies (fuse_operand.c):
 *
 *     r = rsqrt(sum(x * x, K) / K + eps)
 *     p = cast(x * r * g, bf16) @ w          ->    p = (cast(x * g, bf16) @ w) * r
 *
 * One rounding of each element either way, and x is then read once: the kernel that normalizes and its result
 * in memory are saved. What is summed is not normalized, so this is for bf16, which has f32's range; and the
 * elements that are rounded are others, so not for results of more than 16 bits, which would show that.
 *
 * Where the product has joined the axes of x, what is deferred is computed over the joined ones too:
 *
 *     p = reshape(cast(x * r * g, bf16), dims=[B * S, K]) @ w      x: [B, S, K] */
#include "passes/product.h"
#include "passes/rewrite.h"

enum { DEFER_FACTORS = 8, DEFER_DEPTH = 16, DEFER_JOINED = 64, DEFER_BITS = 16 };

typedef struct DeferFactor {
    Value *value;
    bool divides;
    bool is_deferred;
} DeferFactor;

/* What a product's first operand is made of. */
typedef struct Defer {
    Rewrite *rewrite;
    Value *rounded, *whole; /* the operand, and what it is before it is rounded */
    DeferFactor at[DEFER_FACTORS];
    int n;
    const Value *stream; /* the tensor that all of it is of; NULL: not met yet */
    bool is_joined;      /* the product has the operand's axes before K as one */
    const Value *from[DEFER_JOINED];
    Value *to[DEFER_JOINED]; /* what stands for it over the joined axes */
    int n_joined;
} Defer;

/* The factors of the operand; false where there are too many. */
static bool defer_collect(Defer *d, Value *value, bool divides, int depth) {
    bool is_product = value->op == OP_mul || (value->op == OP_div && !divides);
    if (is_product && value_same_dims(value, d->whole) && depth < DEFER_DEPTH)
        return defer_collect(d, value->in[0], divides, depth + 1) &&
               defer_collect(d, value->in[1], divides || value->op == OP_div, depth + 1);
    if (d->n == DEFER_FACTORS)
        return false;
    d->at[d->n++] = (DeferFactor){.value = value, .divides = divides};
    return true;
}

typedef enum DeferRows { ROWS_NONE, ROWS_ALL, ROWS_SOME } DeferRows;

/* Of which of the operand's rows a value says something of its own. */
static DeferRows defer_rows(const Defer *d, const Value *value) {
    const Value *whole = d->whole;
    int same = 0, ones = 0, leading = value->rank - 1;
    for (int i = 0; i < leading; i++) {
        ones += dim_is(value->dims[i], 1);
        same += value->rank == whole->rank && value->dims[i] == whole->dims[i];
    }
    return leading <= 0 || ones == leading ? ROWS_NONE : same == leading ? ROWS_ALL : ROWS_SOME;
}

/* Whether a tensor lies in memory whatever is made of it: the caller's, or a kernel's result. Not what is
 * computed element by element, stored or not: the kernel that normalizes does that on its way. */
static bool defer_is_memory(const Defer *d, Value *value) {
    return value->op == OP_input || rewrite_is_heavy(d->rewrite, value);
}

/* Whether a value is computed element by element of the stream and of numbers a column. */
static bool defer_reads(Defer *d, Value *value, int depth) {
    if (!value_same_dims(value, d->whole))
        return defer_rows(d, value) == ROWS_NONE && !rewrite_is_heavy(d->rewrite, value);
    if (!value_is_pointwise(value) || dtype_bits(value->dtype) <= DEFER_BITS) {
        bool is_stream = (!d->stream || d->stream == value) && defer_is_memory(d, value);
        d->stream = value;
        return is_stream && dtype_bits(value->dtype) <= DEFER_BITS;
    }
    for (int i = 0; i < value->n_in; i++)
        if (depth > DEFER_DEPTH || !defer_reads(d, value->in[i], depth + 1))
            return false;
    return true;
}

/* Whether a factor is made of statistics of the stream along K, that nothing else wants. */
static bool defer_is_statistic(Defer *d, Value *value, bool *has_statistic, int depth) {
    if (value->op == OP_constant || value->op == OP_dim)
        return true;
    if (rewrite_uses(d->rewrite, value) > 1 || depth > DEFER_DEPTH)
        return false;
    if (value_class(value) == OPCLASS_REDUCTION) {
        Value *reduced = value->in[0];
        *has_statistic = true;
        return value->attrs[0].axes.n == 1 && value->attrs[0].axes.at[0] == reduced->rank - 1 &&
               value->rank == reduced->rank && value_same_dims(reduced, d->whole) &&
               defer_reads(d, reduced, 0);
    }
    for (int i = 0; i < value->n_in; i++)
        if (!value_is_pointwise(value) || !defer_is_statistic(d, value->in[i], has_statistic, depth + 1))
            return false;
    return true;
}

/* Finds the factors that may leave, and whether the rest is of the stream alone. */
static bool defer_find(Defer *d) {
    bool any = false, rest_is_good = true;
    for (int i = 0; i < d->n; i++) {
        DeferFactor *factor = &d->at[i];
        bool has_statistic = false;
        factor->is_deferred = factor->value->rank == d->whole->rank &&
                              dim_is(factor->value->dims[factor->value->rank - 1], 1) &&
                              defer_rows(d, factor->value) == ROWS_ALL &&
                              defer_is_statistic(d, factor->value, &has_statistic, 0) && has_statistic;
        any |= factor->is_deferred;
    }
    for (int i = 0; i < d->n && any; i++)
        rest_is_good &= d->at[i].is_deferred || defer_reads(d, d->at[i].value, 0);
    return any && rest_is_good && d->stream;
}

/* Whether all that reads the operand are products of it: one, or two that one kernel computes. */
static bool defer_is_read_alone(const Defer *d, const Value *product) {
    const Rewrite *rewrite = d->rewrite;
    const Value *operand = product->in[0];
    if (operand != d->rounded && rewrite_uses(rewrite, d->rounded) > 1)
        return false;
    if (rewrite_uses(rewrite, d->whole) > 1 || rewrite_uses(rewrite, operand) == 1)
        return rewrite_uses(rewrite, d->whole) == 1;
    if (rewrite_uses(rewrite, operand) != 2 || rewrite_users(rewrite, operand) != USER_CONTRACTION)
        return false;
    for (size_t i = 0; i < rewrite->n_before; i++) {
        const Value *other = rewrite->graph->values.at[i];
        if (other->op == OP_matmul && other != product && other->in[0] == operand)
            return product_are_dual(product, other);
    }
    return false;
}

static Value *defer_joined(Defer *d, Value *value, const Value *like);

/* The same over the joined axes, of a value that has rows, or is one number a column. */
static Value *defer_rebuilt(Defer *d, Value *value, const Value *like) {
    Rewrite *rewrite = d->rewrite;
    Value *in[OP_MAX_ARITY];
    if (defer_rows(d, value) == ROWS_NONE)
        return value->rank > 1 ? build_reshape(rewrite, value, 1, &value->dims[value->rank - 1], like)
                               : value;
    if (value_class(value) == OPCLASS_REDUCTION) {
        int axis = 1;
        Value *reduced = defer_joined(d, value->in[0], like);
        return reduced ? build_reduce(rewrite, value->op, reduced, 1, &axis, true, like) : NULL;
    }
    if (value_is_pointwise(value) && value != d->stream) {
        for (int i = 0; i < value->n_in; i++)
            in[i] = defer_joined(d, value->in[i], like);
        return build_like(rewrite, value, in);
    }
    const Dim *dims[] = {like->dims[0], value->dims[value->rank - 1]};
    return build_reshape(rewrite, value, 2, dims, like);
}

static Value *defer_joined(Defer *d, Value *value, const Value *like) {
    if (!d->is_joined)
        return value;
    for (int i = 0; i < d->n_joined; i++)
        if (d->from[i] == value)
            return d->to[i];
    Value *fresh = defer_rebuilt(d, value, like);
    if (fresh && d->n_joined < DEFER_JOINED) {
        d->from[d->n_joined] = value;
        d->to[d->n_joined++] = fresh;
    }
    return fresh;
}

/* `value` times the factors that leave, or those that stay; NULL for `value`: the first of them. */
static Value *defer_multiply(Defer *d, Value *value, bool is_deferred, const Value *like) {
    for (int divides = 0; divides < 2; divides++)
        for (int i = 0; i < d->n; i++) {
            if (d->at[i].is_deferred != is_deferred || d->at[i].divides != divides)
                continue;
            Value *factor = defer_joined(d, d->at[i].value, like);
            if (!factor || (!value && divides))
                return NULL;
            OpKind op = divides ? OP_div : OP_mul;
            value = value ? build_scalar(d->rewrite, op, value, factor, NULL, like) : factor;
            if (!value)
                return NULL;
        }
    return value;
}

/* Whether an operand joins all axes of a value but the last. */
static bool defer_joins(const Value *operand) {
    const Value *value = operand->in[0];
    return operand->op == OP_reshape && operand->rank == 2 && value->rank > 2 &&
           value->dims[value->rank - 1] == operand->dims[1];
}

static Value *defer_rule(Rewrite *rewrite, Value *value) {
    const FuseLimits *limits = rewrite->pass->options->limits;
    const bool *shown = rewrite->pass->state;
    if (value->op != OP_matmul || value->dtype != DTYPE_F32 || value->in[0]->dtype != DTYPE_BF16 ||
        value->in[0]->rank < 2 || shown[value->id])
        return value;
    Value *operand = value->in[0];
    /* of a row of nothing the factor may be NaN, where the product of none is 0 */
    bool may_be_none = dim_lower(rewrite->graph->dims, operand->dims[operand->rank - 1]) < 1;
    if (may_be_none || !product_reduces_operand(rewrite->graph, limits, value))
        return value;
    Defer d = {.rewrite = rewrite, .rounded = operand, .is_joined = defer_joins(operand)};
    if (d.is_joined)
        d.rounded = operand->in[0];
    if (d.rounded->op != OP_cast || d.rounded->in[0]->dtype != DTYPE_F32)
        return value;
    d.whole = d.rounded->in[0];
    if (!defer_is_read_alone(&d, value) || !defer_collect(&d, d.whole, false, 0) || !defer_find(&d))
        return value;
    DeferEstimate estimate;
    if (!product_defers(rewrite->graph, limits, value, rewrite_uses(rewrite, operand), &estimate)) {
        pass_decide(
            rewrite->pass, "defer", false, value, operand, "fewer columns of result",
            "its operand's rows would be reduced while they are multiplied, which costs %.0f us by the "
            "estimate, and a kernel that normalizes %.0f us",
            estimate.beside * 1e6, estimate.apart * 1e6);
        return value;
    }
    Value *rest = build_cast(rewrite, defer_multiply(&d, NULL, false, operand), DTYPE_BF16, operand);
    if (!rest || !value_same_dims(rest, operand))
        return value;
    Value *in[] = {rest, value->in[1]};
    Value *product = build_like(rewrite, value, in);
    Value *fresh = product ? defer_multiply(&d, product, true, value) : NULL;
    if (!fresh || fresh->dtype != value->dtype || !value_same_dims(fresh, value))
        return value;
    pass_decide(
        rewrite->pass, "defer", true, product, operand, NULL,
        "its operand's rows are reduced while they are multiplied, which costs %.0f us by the estimate, and "
        "their factors follow the product; a kernel that normalizes takes %.0f us",
        estimate.beside * 1e6, estimate.apart * 1e6);
    return fresh;
}

bool pass_defer(Pass *pass, Graph *graph) {
    if (!pass->options->limits->computes_fragments)
        return false;
    graph_renumber(graph);
    pass->state = rewrite_find_shown(pass, graph);
    return rewrite_graph(pass, graph, defer_rule);
}
