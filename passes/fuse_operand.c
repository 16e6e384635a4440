/* Statistics of a product's first operand, in the kernel that multiplies.
 *
 *     s = sum(x * x, K);  p = cast(x * g) @ w;  y = p * rsqrt(s / K + eps)
 *
 * Those who compute the operand's fragments have all of a row's elements in registers once, one after the
 * other (codegen/templates/wgmma_fragments.c): s costs them a few instructions an element, where a kernel of
 * its own reads x once more. So s floats, and the product's kernel computes it, where nothing but what is
 * computed of that product wants it. */
#include "passes/fuse.h"

/* Whether this walk has met a value before: what is used often is looked at once. */
static bool operand_is_met(Fuse *fuse, const Value *value) {
    bool is_met = fuse->stamps[value->id] == fuse->stamp;
    fuse->stamps[value->id] = fuse->stamp;
    return is_met;
}

/* The product of the dims of `value` that it is computed from element by element; NULL: there is none. */
static Value *operand_product_below(Fuse *fuse, Value *value) {
    if (value->op == OP_matmul)
        return value;
    Value *found = NULL;
    for (int i = 0; i < value->n_in && !found && value_is_pointwise(value); i++)
        if (value_same_dims(value->in[i], value) && !operand_is_met(fuse, value->in[i]))
            found = operand_product_below(fuse, value->in[i]);
    return found;
}

/* Whether a value is computed element by element of `stream`, and of what repeats, whoever else computes it.
 */
static bool operand_is_of(Fuse *fuse, const Value *value, const Value *stream) {
    if (value == stream || !value_same_dims(value, stream) || operand_is_met(fuse, value))
        return true;
    for (int i = 0; i < value->n_in; i++)
        if (!value_is_pointwise(value) || !operand_is_of(fuse, value->in[i], stream))
            return false;
    return value->n_in > 0;
}

/* The tensor whose rows the kernel of a product has while it multiplies, and of which it can reduce what
 * `statistic` does; NULL: it cannot. */
static const Value *operand_stream(Fuse *fuse, const Value *product, const Value *statistic) {
    const Value *operand = product->in[0], *stream = fuse_stream(fuse, operand);
    fuse->stamp++;
    bool fits = stream && value_same_dims(operand, statistic->in[0]) && value_same_dims(operand, stream) &&
                operand_is_of(fuse, statistic->in[0], stream) &&
                product_reduces_operand(fuse->graph, fuse->limits, product);
    return fits ? stream : NULL;
}

/* What lies between the stream and the operand floats, so that the product's kernel has it. */
static void operand_leave(Fuse *fuse, const Value *value, const Value *stream) {
    if (value == stream || !value_same_dims(value, stream) || fuse_home(fuse, value) ||
        fuse_node(fuse, value)->is_in_operand)
        return;
    fuse_node(fuse, value)->is_in_operand = true;
    for (int i = 0; i < value->n_in; i++)
        operand_leave(fuse, value->in[i], stream);
}

/* Whether `value` is element by element, of what hangs on the statistic and of others. */
static bool operand_follows(const Value *value) {
    return value_is_pointwise(value) || value->op == OP_broadcast;
}

/* The products behind which alone a statistic is wanted: one, or two that share their first operand. How many
 * there are; 0: something else wants it. */
static int operand_products(Fuse *fuse, const Value *statistic, Value *products[2]) {
    const Graph *graph = fuse->graph;
    ValueMap hangs = {.arena = fuse->arena}; /* on the statistic, and on no product yet */
    int n = 0;
    value_map_set(&hangs, statistic, true);
    if (value_is_output(graph, statistic))
        return 0;
    for (size_t i = statistic->id + 1; i < graph->values.n; i++) { /* topological */
        Value *value = graph->values.at[i];
        bool is_user = false;
        for (int k = 0; k < value->n_in; k++)
            is_user |= value_map_get(&hangs, value->in[k]);
        if (!is_user)
            continue;
        if (!operand_follows(value))
            return 0;
        fuse->stamp++;
        Value *product = operand_product_below(fuse, value);
        if (!product) {
            value_map_set(&hangs, value, true);
            if (value_is_output(graph, value))
                return 0;
            continue;
        }
        bool is_known = (n > 0 && product == products[0]) || (n > 1 && product == products[1]);
        if (is_known)
            continue;
        if (n == 2 || (n == 1 && !product_are_dual(products[0], product)))
            return 0;
        products[n++] = product;
    }
    return n;
}

bool fuse_operand_statistic(Fuse *fuse, Value *value) {
    Value *products[2];
    const Value *streams[2];
    int last = value->in[0]->rank - 1;
    if (!fuse->limits->computes_fragments || value->dtype != DTYPE_F32 || value->attrs[0].axes.n != 1 ||
        value->attrs[0].axes.at[0] != last || fuse->known->refused[value->id] & REFUSED_ROWS)
        return false;
    int n = operand_products(fuse, value, products);
    for (int i = 0; i < n; i++) {
        streams[i] = operand_stream(fuse, products[i], value);
        if (!streams[i])
            return false;
    }
    if (n == 0)
        return false;
    group_float(fuse, value);
    fuse_node(fuse, value)->is_hosted = true;
    for (int i = 0; i < n; i++) {
        operand_leave(fuse, products[i]->in[0], streams[i]);
        fuse_node(fuse, products[i])->takes_rows = true;
    }
    pass_decide(fuse->pass, "operand_rows", true, value, products[0], NULL,
                "the product's kernel has each row of its first operand in registers on the way");
    return true;
}

bool fuse_operand_refuse(Fuse *fuse, const Region *region) {
    const PassOptions *options = fuse->pass->options;
    const char *why = NULL;
    bool any = false;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        if (!fuse_node(fuse, value)->is_hosted)
            continue;
        if (!any && region->kind == TEMPLATE_MATMUL && region->sums.n == 0 &&
            options->takes(options->takes_context, fuse->graph, region, &why))
            return false;
        fuse->known->refused[value->id] |= REFUSED_ROWS;
        any = true;
    }
    return any;
}
