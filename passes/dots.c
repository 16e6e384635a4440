/* Where the gradient of a softmax sums weights times what their gradients are, along a row, and these are a
 * product with the values that the weights weigh, the output has that sum already:
 *
 *     p = softmax(x)
 *     r = sum(p * (g @ v.T), over=keys)      ->      r = sum(g * (p @ v), over=columns of v)
 *
 * since both are the sum of p[i, j] g[i, k] v[j, k] over j and k ("FlashAttention", 2022, appendix B.2). Then
 * no kernel has to have a whole row of that product, and the one that multiplies weights and values, in
 * parts, gives their rows' largest and sum too. */
#include "ir/softmax.h"
#include "passes/product.h"
#include "passes/relay.h"
#include "passes/rewrite.h"

/* The weights as attention multiplies them, of the type of the other operand; NULL: `value` is no softmax
 * whose product with v a kernel takes in parts. */
static Value *dots_weights(Rewrite *rewrite, Value *value, DType dtype) {
    Relay relay;
    Softmax softmax;
    if (value->op != OP_div || value->in[0]->op != OP_exp || value->dtype != DTYPE_F32)
        return NULL;
    Value *weights = build_cast(rewrite, value, dtype, value);
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

static Value *dots_rule(Rewrite *rewrite, Value *value) {
    const Value *product = value->op == OP_sum ? value->in[0] : NULL;
    if (!product || product->op != OP_mul || value->attrs[0].axes.n != 1 ||
        value->attrs[0].axes.at[0] != product->rank - 1)
        return value;
    for (int i = 0; i < 2; i++) {
        Value *gradients = product->in[i];
        if (!dots_is_product(gradients) || !value_same_dims(gradients, product))
            continue;
        Value *g = gradients->in[0], *weights = dots_weights(rewrite, product->in[1 - i], g->dtype);
        Value *v = weights ? build_turned(rewrite, gradients->in[1], value) : NULL;
        Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
        Value *in[] = {weights, v};
        Value *out =
            v ? graph_append(rewrite->graph, OP_matmul, in, 2, attrs, value->span, rewrite->pass->diags)
              : NULL;
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
