/* A product along a K that is joined of parts becomes a sum of products, which one kernel adds up in its
 * accumulators (fuse_sum.c), and nothing is joined in memory:
 *
 *     y = concat(x, z, axis=1) @ w                     features beside each other, of two layers
 * ->  y = x @ w[0:K, :] + z @ w[K:K + P, :]
 *
 * The terms are those of the one sum over K, in f32 or i32 as before. The parts must be memory, or what other
 * kernels store anyway, and start at 16 bytes of the other operand's rows. Values of attention, kept ones and
 * new ones, stay joined, and so do elements of its queries and keys, as those that turn with their position
 * and those that do not: its kernel would not be one, and its weights be stored. */
#include "ir/softmax.h"
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/product.h"
#include "passes/streams.h"

enum {
    CONCAT_LEAST = 64,  /* K of a part: shorter ones leave a kernel's steps half empty */
    CONCAT_ALIGN = 128, /* bits that it is a multiple of */
    CONCAT_FEW = 64,    /* rows or columns of the result: those have kernels of their own */
    CONCAT_DEPTH = 8,   /* operations behind a product */
    CONCAT_CONE = 32    /* and between those of attention, on one way */
};

/* Whether a part is memory, or the result of a kernel: of a product or a reduction, and what is computed of
 * it. What is computed of inputs alone is joined and stored in one kernel. */
static bool split_concat_is_stored(const Value *part, int depth) {
    while (part->op == OP_transpose)
        part = part->in[0];
    bool is_stored = part->op == OP_input || value_is_heavy(part);
    for (int i = 0; value_is_pointwise(part) && i < part->n_in && depth > 0; i++)
        is_stored |= part->in[i]->op != OP_input && split_concat_is_stored(part->in[i], depth - 1);
    return is_stored;
}

/* The concat that an operand is along K, `axis` of the operand, perhaps below an exchange of its last axes;
 * NULL: it is none that can be taken apart. */
static const Value *split_concat_find(Rewrite *rewrite, const Value *operand, int axis) {
    const Value *concat = operand;
    if (rewrite_uses(rewrite, operand) != 1)
        return NULL;
    if (operand->op == OP_transpose) {
        axis = operand->attrs[0].ints[axis];
        concat = operand->in[0];
    }
    if (concat->op != OP_concat || concat->attrs[0].i != axis || rewrite_uses(rewrite, concat) != 1 ||
        concat->n_in > REGION_SUM_MAX)
        return NULL;
    for (int i = 0; i < concat->n_in; i++) {
        const Dim *extent = concat->in[i]->dims[axis];
        if (!split_concat_is_stored(concat->in[i], CONCAT_DEPTH) || !dim_is_const(extent) ||
            extent->value < CONCAT_LEAST || extent->value * dtype_bits(concat->dtype) % CONCAT_ALIGN != 0)
            return NULL;
    }
    return concat;
}

/* Elements [first, first + extent) of the other operand along its K. */
static Value *split_concat_slice(Rewrite *rewrite, Value *operand, int axis, int64_t first,
                                 const Dim *extent) {
    DimTable *dims = rewrite->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < operand->rank; i++) {
        start[i] = dim_const(dims, i == axis ? first : 0);
        limit[i] = i == axis ? dim_const(dims, first + extent->value) : operand->dims[i];
        step[i] = 1;
    }
    return build_slice(rewrite, operand, start, limit, step, operand);
}

static Value *split_concat_apart(Rewrite *rewrite, Value *product, int side, const Value *concat) {
    Value *joined = product->in[side], *sum = NULL;
    int k[] = {product->in[0]->rank - 1, product->in[1]->rank - 2};
    int axis = (int)concat->attrs[0].i;
    int64_t first = 0;
    for (int i = 0; i < concat->n_in; i++) {
        Value *part = concat->in[i];
        Value *own = joined == concat ? part : build_like(rewrite, joined, &part);
        Value *in[2];
        in[side] = own;
        in[1 - side] =
            split_concat_slice(rewrite, product->in[1 - side], k[1 - side], first, part->dims[axis]);
        Value *term = own && in[1 - side] ? build_like(rewrite, product, in) : NULL;
        if (!term)
            return product;
        sum = sum ? build_scalar(rewrite, OP_add, sum, term, NULL, product) : term;
        first += part->dims[axis]->value;
    }
    pass_decide(rewrite->pass, "split_concat", true, sum, NULL, NULL,
                "K is joined of %d parts: their products are added up instead", concat->n_in);
    return sum;
}

static Value *split_concat_rule(Rewrite *rewrite, Value *value) {
    const FuseLimits *limits = rewrite->pass->options->limits;
    if (value->op != OP_matmul || (value->dtype != DTYPE_F32 && value->dtype != DTYPE_I32) ||
        !product_uses_tensor_cores(limits, value) || rewrite_has_hint(rewrite->graph, value))
        return value;
    const bool *stays = rewrite->pass->state;
    if (value->id >= rewrite->n_before || stays[value->id])
        return value;
    for (int i = value->rank - 2; i < value->rank; i++)
        if (!dim_is_const(value->dims[i]) || value->dims[i]->value < CONCAT_FEW)
            return value;
    for (int side = 0; side < 2; side++) {
        const Value *operand = value->in[side];
        const Value *concat = split_concat_find(rewrite, operand, operand->rank - (side ? 2 : 1));
        if (concat)
            return split_concat_apart(rewrite, value, side, concat);
    }
    return value;
}

/* By id: the products of attention that one kernel does. */
static bool *split_concat_mark(const Pass *pass, Graph *graph) {
    bool *stays = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        Softmax softmax;
        if (value->op != OP_matmul || !softmax_of(value->in[0], &softmax))
            continue;
        stays[i] = true;
        const Value *scores = product_below(softmax.x, softmax.x, CONCAT_CONE);
        if (scores && streams_take(graph, pass->options->limits, scores, value))
            stays[scores->id] = true;
    }
    return stays;
}

bool pass_split_concat(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits || !pass->options->limits->has_tensor_cores)
        return false;
    graph_renumber(graph);
    pass->state = split_concat_mark(pass, graph);
    if (!rewrite_graph(pass, graph, split_concat_rule))
        return false;
    for (int round = 0; round < 4 && pass_movement(pass, graph); round++)
        continue; /* the slices belong on the inputs */
    return true;
}
