/* Attention of fp8 is multiplied in 16 bits, which hold all of theirs, where one kernel then does both
 * products and the weights are never in memory:
 *
 *     o = softmax((q @ k.T) * c) @ v'       ->      o = softmax((bf16(q) @ bf16(k).T) * c) @ v'
 *
 * with q and k of fp8 and v' of 16 bits. The first product takes twice as long, and q and k are written
 * once more, which is little where there are as many queries as a key has elements, or more. */
#include "ir/softmax.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/streams.h"

enum { WIDEN_CONE = 32 /* operations between the products on one way */ };

/* By id: the type in which scores are multiplied; DTYPE_COUNT: as they are. */
static DType *widen_mark(const Pass *pass, const Graph *graph, bool *found) {
    DType *types = ARENA_ARRAY(pass->arena, DType, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++)
        types[i] = DTYPE_COUNT;
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *product = graph->values.at[i];
        Softmax softmax;
        if (product->op != OP_matmul || !product_is_16bit(product) || !softmax_of(product->in[0], &softmax))
            continue;
        const Value *scores = product_below(softmax.x, softmax.x, WIDEN_CONE);
        if (!scores || !dtype_is_fp8(scores->in[0]->dtype) || !dtype_is_fp8(scores->in[1]->dtype))
            continue;
        int64_t rows = product_extent(graph, scores->dims[scores->rank - 2]),
                depth = product_extent(graph, scores->in[0]->dims[scores->in[0]->rank - 1]);
        if (rows >= depth && streams_pays(graph, scores, product, 1)) {
            types[scores->id] = product->in[0]->dtype;
            *found = true;
        }
    }
    return types;
}

/* An operand in 16 bits; of a transposed one what is transposed, as it is written in its own order. */
static Value *widen_operand(Rewrite *rewrite, Value *value, DType type) {
    if (value->op != OP_transpose)
        return build_cast(rewrite, value, type, value);
    return build_transpose(rewrite, build_cast(rewrite, value->in[0], type, value), value->attrs[0].ints,
                           value);
}

static Value *widen_rule(Rewrite *rewrite, Value *value) {
    const DType *types = rewrite->pass->state;
    if (value->id >= rewrite->n_before || types[value->id] == DTYPE_COUNT)
        return value;
    Value *in[2];
    for (int i = 0; i < 2; i++)
        in[i] = widen_operand(rewrite, value->in[i], types[value->id]);
    Value *wide = in[0] && in[1] ? build_like(rewrite, value, in) : NULL;
    return wide ? wide : value;
}

bool pass_widen(Pass *pass, Graph *graph) {
    const FuseLimits *limits = pass->options->limits;
    bool found = false;
    if (pass->options->no_fusion || !limits || !limits->chain_columns_max)
        return false;
    graph_renumber(graph);
    pass->state = widen_mark(pass, graph, &found);
    return found && rewrite_graph(pass, graph, widen_rule);
}
