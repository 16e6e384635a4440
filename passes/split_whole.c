/* Reductions of everything: rows first, by the kernel that has or writes them anyway. So is the largest
 * element found of what a norm writes, or of what is quantized, for the next step's scale.
 *
 *     a = reduce_max(abs(y), over=[0, 1]);  q = cast(y / s)                 y: [16384, 4096]
 * ->  p = reduce_max(abs(y), over=1)                                        by the kernel that computes q
 *     a = reduce_max(p, over=[0, 1])                                        by a small one
 *
 * Rows whose number comes at launch are reduced first in any case: one block would have to reduce them all.
 *
 * It comes ahead of the pass that makes axes one which nothing tells apart: this does. What a product's
 * kernel reduces is left to it. */
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/split.h"

static Value *whole_rule(Rewrite *rewrite, Value *value) {
    const ProductReductions *products = rewrite->pass->state;
    if (value_class(value) != OPCLASS_REDUCTION || product_get(products, value))
        return value;
    int axes[RANK_MAX], n = split_rows_whole(rewrite->pass, rewrite->graph, value), rank = value->in[0]->rank;
    if (!n)
        return value;
    for (int i = 0; i < n; i++)
        axes[i] = rank - n + i;
    Value *rows = build_reduce(rewrite, value->op, value->in[0], n, axes, true, value);
    Value *fresh = rows ? build_reduce(rewrite, value->op, rows, value->attrs[0].axes.n,
                                       value->attrs[0].axes.at, value->attrs[1].i, value)
                        : NULL;
    if (!fresh || fresh->dtype != value->dtype)
        return value;
    pass_decide(rewrite->pass, "split", true, fresh, NULL, NULL,
                "the kernel that has its rows anyway reduces them, another kernel their results");
    return fresh;
}

bool pass_split_whole(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion)
        return false;
    graph_renumber(graph);
    pass->state = product_find(pass, graph);
    return rewrite_graph(pass, graph, whole_rule);
}
