/* A product along few k's is a sum of outer products, which are done element by element:
 *
 *     y = x @ w                x: [M, 2], w: [2, N]
 * ->  y = x[:, 0:1] * w[0:1, :] + x[:, 1:2] * w[1:2, :]
 *
 * in the type that the product adds up in. Where a row of K is less than what one copy brings, tiles of a
 * product would multiply zeros beside it, and store their result slower than an element-wise kernel: 4096 x
 * 4096 with k of 1 took 27 us, of 2 28 us, and takes 12. A second operand that lies along K is copied first,
 * behind the fixpoint, which would undo it. As sums, they join whatever kernel is beside them, another
 * product's epilogue too: a @ b + u @ v.T of rank one. */
#include "ir/base/checked.h"
#include "passes/fuse.h"

enum {
    OUTER_LENGTH = 7,
    OUTER_COLUMNS = 64 /* that threads side by side read one by one from few lines, each for many rows */
};

/* Seconds that an element of the result gains, and of a kernel more. */
static const double outer_gain = 0.9e-12, outer_kernel = 2.2e-6;

/* Whether batches broadcast: in a product they may repeat as well. */
static bool outer_broadcasts(const Value *operand, const Value *product) {
    for (int i = 0; i < operand->rank - 2; i++)
        if (!dim_is(operand->dims[i], 1) &&
            operand->dims[i] != product->dims[i + product->rank - operand->rank])
            return false;
    return true;
}

/* The elements of an operand at one k, in the product's type. */
static Value *outer_part(Rewrite *rewrite, Value *operand, int axis, int64_t k, const Value *product) {
    DimTable *table = rewrite->graph->dims;
    Value *part = dim_is(operand->dims[axis], 1) ? operand
                                                 : build_part(rewrite, operand, axis, dim_const(table, k),
                                                              dim_const(table, k + 1), 1, product);
    return build_cast(rewrite, part, product->dtype, product);
}

/* Whether a thread of an element-wise kernel has the second operand's elements at hand: side by side along N,
 * or, one by one, for many rows. */
static bool outer_is_at_hand(const Value *second) {
    int last = second->rank - 1;
    const Dim *n = second->dims[last];
    bool is_turned = second->op == OP_transpose && second->attrs[0].ints[last] != last;
    return !is_turned || dim_is(second->dims[last - 1], 1) ||
           (dim_is_const(n) && n->value <= OUTER_COLUMNS && is_power_of_two(n->value));
}

/* K of a product that is a sum of outer products; 0: it is none. */
static int64_t outer_length(const Rewrite *rewrite, const Value *value) {
    if (value->op != OP_matmul || value->in[0]->rank < 2 || value->in[1]->rank < 2)
        return 0;
    const Dim *k = value->in[0]->dims[value->in[0]->rank - 1];
    if (!dim_is_const(k) || k->value < 1 || k->value > OUTER_LENGTH)
        return 0;
    for (int i = 0; i < 2; i++)
        if (!dtype_widens(value->in[i]->dtype, value->dtype) || !outer_broadcasts(value->in[i], value))
            return 0;
    return rewrite_has_schedule(rewrite->graph, value) ? 0 : k->value;
}

/* The sum; the product where that is a defect. */
static Value *outer_sum(Rewrite *rewrite, Value *product, Value *second, int64_t length) {
    Value *sum = NULL;
    for (int64_t k = 0; k < length; k++) {
        Value *a = outer_part(rewrite, product->in[0], product->in[0]->rank - 1, k, product),
              *b = outer_part(rewrite, second, second->rank - 2, k, product);
        Value *term = a && b ? build_scalar(rewrite, OP_mul, a, b, NULL, product) : NULL;
        sum = sum && term ? build_scalar(rewrite, OP_add, sum, term, NULL, product) : term;
        if (!sum)
            return product;
    }
    if (!sum || !value_same_dims(sum, product))
        return product;
    pass_decide(rewrite->pass, "outer", true, sum, NULL, NULL,
                "the product along %lld k is done element by element", (long long)length);
    return sum;
}

/* Whether a sum gains more than a kernel more costs. */
static bool outer_pays(const Graph *graph, const Value *product) {
    const Dim *count = value_count(graph, product);
    return dim_is_const(count) && (double)count->value * outer_gain >= outer_kernel;
}

/* Whether a first operand that comes of a product may stay in its kernel, as weights of few keys do. */
static bool outer_breaks_chain(Rewrite *rewrite, const Value *product) {
    const Value *second = product->in[1];
    if (!rewrite_is_heavy(rewrite, product->in[0]))
        return false;
    for (int i = 0; i < second->rank - 2; i++)
        if (!dim_is(second->dims[i], 1))
            return true;
    return !outer_pays(rewrite->graph, product);
}

static Value *outer_rule(Rewrite *rewrite, Value *value) {
    int64_t length = outer_length(rewrite, value);
    bool is_taken = length && outer_is_at_hand(value->in[1]) && !outer_breaks_chain(rewrite, value);
    return is_taken ? outer_sum(rewrite, value, value->in[1], length) : value;
}

bool pass_outer(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && rewrite_graph(pass, graph, outer_rule);
}

/* The second operand along K, where the product is worth a copy that has it along N. */
static Value *outer_turned_rule(Rewrite *rewrite, Value *value) {
    int64_t length = outer_length(rewrite, value);
    if (!length || !outer_pays(rewrite->graph, value) || outer_breaks_chain(rewrite, value))
        return value;
    Value *copy = realign_copied(rewrite, value->in[1], 0);
    if (!copy)
        return value;
    pass_decide(rewrite->pass, "outer", false, copy, value->in[1], "columns side by side",
                "it is copied to that order first, for a sum of %lld outer products", (long long)length);
    return outer_sum(rewrite, value, copy, length);
}

bool pass_outer_turned(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && rewrite_graph(pass, graph, outer_turned_rule);
}
