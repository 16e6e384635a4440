/* Where the gradient of a softmax sums weights times what their gradients are, along a row, and these are a
 * product with the values that the weights weigh, the output has that sum already:
 *
 *     p = softmax(x)
 *     r = sum(p * (g @ v.T), over=keys)      ->      r = sum(g * (p @ v), over=columns of v)
 *
 * and the same of weights that are dropped, r = sum(p * (f * (g @ v.T))) = sum(g * ((p * f) @ v)),
 * since both are the sum of p[i, j] g[i, k] v[j, k] over j and k ("FlashAttention", 2022, appendix B.2). Then
 * no kernel has to have a whole row of that product, and the one that multiplies weights and values, in
 * parts, gives their rows' largest and sum too. Where g comes of that output, as in a layer that is run again
 * for its gradient, that kernel stores it in f32 besides. (Libraries take it rounded; where one weight is
 * nearly all of its row, gradients had few bits left of that.) */
#include "ir/softmax.h"
#include "passes/factors.h"
#include "passes/product.h"
#include "passes/relay.h"

/* The weights as attention multiplies them, of the type of the other operand, times a factor of their
 * gradients, if there is one; NULL: `value` is no softmax whose product with v a kernel takes in parts. */
static Value *dots_weights(Rewrite *rewrite, Value *value, Value *factor, DType dtype) {
    Relay relay;
    Softmax softmax;
    if (value->op != OP_div || value->in[0]->op != OP_exp || value->dtype != DTYPE_F32)
        return NULL;
    Value *weighed = factor ? build_scalar(rewrite, OP_mul, value, factor, NULL, value) : value;
    Value *weights = weighed ? build_cast(rewrite, weighed, dtype, value) : NULL;
    return weights && softmax_of(weights, &softmax) &&
                   relay_between(rewrite->pass->arena, rewrite->graph, weights, &relay)
               ? weights
               : NULL;
}

/* g @ v.T, where both have 16 bits and few columns. */
static bool dots_is_product(const Value *value) {
    if (value->op != OP_matmul || !product_is_16bit(value) || value->in[0]->rank != value->rank)
        return false;
    const Dim *depth = value->in[0]->dims[value->rank - 1];
    return dim_is_const(depth) && depth->value <= RELAY_DEPTH;
}

/* Whether g is computed of a product, which therefore is not of the kernel that sums its rows times g. */
static bool dots_waits(Rewrite *rewrite, const Value *g, const Value *product) {
    Arena *arena = rewrite->pass->arena;
    bool *seen = ARENA_ARRAY(arena, bool, rewrite->graph->values.n + 1);
    VEC(const Value *) open = {0};
    vec_push(arena, &open, g);
    while (open.n) {
        const Value *value = open.at[--open.n];
        if (value == product)
            return true;
        for (int i = 0; i < value->n_in; i++) {
            if (!seen[value->in[i]->id])
                vec_push(arena, &open, value->in[i]);
            seen[value->in[i]->id] = true;
        }
    }
    return false;
}

/* The output of these weights and v that the graph has, unrounded, where g is computed of it; NULL: it has
 * none, or the kernel that computes it has g, too, and sums as well. */
static Value *dots_output(Rewrite *rewrite, const Value *weights, Value *v, const Value *g) {
    const Graph *graph = rewrite->graph;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *product = graph->values.at[i];
        if (product->op == OP_matmul && product->in[0]->op == OP_cast && product->in[0]->in[0] == weights &&
            value_same_dims(product, g) && relay_is_same(product->in[1], v) &&
            dots_waits(rewrite, g, product))
            return product;
    }
    return NULL;
}

static Value *dots_rule(Rewrite *rewrite, Value *value) {
    const Value *product = value->op == OP_sum ? value->in[0] : NULL;
    if (!product || product->op != OP_mul || value->attrs[0].axes.n != 1 ||
        value->attrs[0].axes.at[0] != product->rank - 1)
        return value;
    for (int i = 0; i < 2; i++) {
        Value *factor, *gradients = factors_below(rewrite, product->in[i], &factor, value);
        if (!dots_is_product(gradients) || !value_same_dims(gradients, product))
            continue;
        Value *g = gradients->in[0], *weights = dots_weights(rewrite, product->in[1 - i], factor, g->dtype);
        Value *v = weights ? build_turned(rewrite, gradients->in[1], value) : NULL;
        Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
        Value *in[] = {weights, v};
        Value *out = v && !factor ? dots_output(rewrite, product->in[1 - i], v, g) : NULL;
        if (!out && v)
            out = graph_append(rewrite->graph, OP_matmul, in, 2, attrs, value->span, rewrite->pass->diags);
        if (!out || !relay_is_last(rewrite->graph, out) || !value_same_dims(out, g))
            continue;
        Value *wide = build_cast(rewrite, g, DTYPE_F32, value);
        Value *terms = wide ? build_scalar(rewrite, OP_mul, wide, out, NULL, value) : NULL;
        Value *sum = terms ? build_reduce(rewrite, OP_sum, terms, 1, (int[]){terms->rank - 1},
                                          value->attrs[1].i, value)
                           : NULL;
        if (!sum || !value_same_dims(sum, value))
            continue;
        pass_decide(rewrite->pass, "relay", true, sum, gradients, NULL,
                    "the rows of weights times their gradients are summed from the output, which has them");
        return sum;
    }
    return value;
}

bool pass_dots(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && pass->options->limits->chain_columns_max > 0 &&
           rewrite_graph(pass, graph, dots_rule);
}
