/* Operands of 16 bits whose rows begin anywhere in memory, which a product's kernel brings by itself
 * (codegen/templates/matmul_skew.c): for small products that is quicker than a copy first, and a launch less.
 * Large ones multiply at a lower rate then, so they are copied. */
#include "passes/realign.h"

#include <math.h>

#include "passes/product.h"

/* Operations a second with one operand brought, and with both; of others; seconds for each of K that is
 * brought where tiles are few. */
static const double brought_one = 380e12, brought_both = 130e12, brought_none = 600e12, brought_step = 7e-9;

/* Whether an operand is memory: given, or stored by another kernel. */
static bool brought_is_memory(Value *operand) {
    const Value *base = realign_base(operand);
    return base->op == OP_input || value_is_heavy(base) ||
           (value_is_pointwise(base) && product_is_below(base));
}

double realign_brought(const Rewrite *rewrite, const Value *product, int n) {
    const bool *reduced = rewrite->pass->state;
    const Dim *k = product->in[0]->dims[product->in[0]->rank - 1];
    bool is_brought = rewrite->pass->options->limits->brings_rows && product->id < rewrite->n_before &&
                      !reduced[product->id] && dim_is_const(k);
    for (int i = 0; i < 2 && is_brought; i++) {
        const Value *operand = product->in[i];
        is_brought = dtype_bits(operand->dtype) == 16 && dtype_is_float(operand->dtype) &&
                     brought_is_memory(product->in[i]) && !realign_is_scattered(rewrite->graph, operand, i);
    }
    if (!is_brought)
        return -1;
    double operations = realign_operations(product);
    double loss = 1 / (n > 1 ? brought_both : brought_one) - 1 / brought_none;
    return fmax(operations * loss, (double)k->value * brought_step);
}
