/* Which products are cut into three or four parts of their columns, each a product of its own, since the
 * parts meet again: the gates of a recurrent cell.
 *
 *     g = h @ u                                      a = h @ u[:, 0:N]   b = h @ u[:, N:2N]   c = ...
 *     y = f(g[:, 0:N], g[:, N:2N], g[:, 2N:3N]) ->   y = f(a, b, c)           (one kernel with three cores)
 *
 * Only where one value is computed of all parts, element by element in their dims, on the way of nothing that
 * another kernel computes of the product. q, k and v, or the chunks of a modulation, go to kernels apart,
 * which read their columns where the one product's kernel stores them. Of two products whose parts meet (x @
 * w and h @ u of a cell) the later one is cut, and its kernel reads the other's result. */
#include "passes/movement.h"
#include "passes/product.h"

enum {
    CUT_LEAST = 3,
    CUT_WIDTH = 8, /* of which a part's columns are a multiple: tiles are, and 16 bytes of weights */
    CUT_ROWS = 32, /* that kernels without tensor cores stream weights for, none of them a part of K */
};

/* What a value is computed of: the latest product, and of which of its parts, a bit each, element by element
 * in their dims; 0: otherwise. */
typedef struct CutMark {
    const Value *product;
    unsigned parts;
} CutMark;

typedef struct CutProduct {
    int n;
    const Value *slice[REGION_CORES_MAX];
} CutProduct;

typedef struct Cut {
    Pass *pass;
    const Graph *graph;
    const int *uses;
    CutProduct **products; /* by id; NULL: it stays whole */
    CutMark *marks;        /* by id */
    bool *found;           /* by id: a product of which one value is computed of all parts */
} Cut;

/* Whether the kernels of several products take one like this: its weights lie in memory, as what is computed
 * of weights on their way is made for one product at a time, and so are the patches of convolutions. */
static bool cut_may(const Cut *cut, const Value *product) {
    const FuseLimits *limits = cut->pass->options->limits;
    int uses = cut->uses[product->id];
    return product->op == OP_matmul && uses >= CUT_LEAST && uses <= REGION_CORES_MAX &&
           value_below_views(product->in[1])->op == OP_input && !product_reads_windows(product->in[0]) &&
           !product_reads_windows(product->in[1]) &&
           (product_uses_tensor_cores(limits, product) ||
            product_extent(cut->graph, product->dims[product->rank - 2]) <= CUT_ROWS);
}

/* Whether a slice is one of as many parts of equal width as its product has uses. */
static bool cut_is_part(const Cut *cut, const Value *slice) {
    const Value *product = slice->in[0];
    DimTable *dims = cut->graph->dims;
    int last = slice->rank - 1;
    for (int i = 0; i <= last; i++)
        if (slice->attrs[2].ints[i] != 1 || (i < last && slice->dims[i] != product->dims[i]))
            return false;
    const Dim *width = slice->dims[last], *n = dim_const(dims, cut->uses[product->id]);
    return dim_is_const(width) && width->value > 0 && width->value % CUT_WIDTH == 0 &&
           dim_divisor(dims, slice->attrs[0].dims[last]) % width->value == 0 &&
           dim_mul(dims, n, width) == product->dims[last];
}

/* Notes a slice of a product that may be cut; one that is no part of it, or one that there is already, leaves
 * the product whole. */
static void cut_add_slice(Cut *cut, const Value *slice) {
    const Value *value = slice->in[0];
    CutProduct *product = cut->products[value->id];
    int last = slice->rank - 1;
    if (!product)
        return;
    bool is_part = cut_is_part(cut, slice);
    for (int i = 0; i < product->n; i++)
        is_part = is_part && product->slice[i]->attrs[0].dims[last] != slice->attrs[0].dims[last];
    if (!is_part) {
        cut->products[value->id] = NULL;
        return;
    }
    cut->marks[slice->id] = (CutMark){value, 1u << product->n};
    product->slice[product->n++] = slice;
}

/* What a value is computed of, from its operands' marks. */
static CutMark cut_mark(const Cut *cut, const Value *value) {
    CutMark mark = {0};
    if (value->op == OP_matmul)
        return (CutMark){value, 0};
    for (int i = 0; i < value->n_in; i++) {
        const Value *product = cut->marks[value->in[i]->id].product;
        if (product && (!mark.product || product->id > mark.product->id))
            mark.product = product;
    }
    for (int i = 0; i < value->n_in && mark.product; i++) {
        const CutMark *of = &cut->marks[value->in[i]->id];
        if (of->product != mark.product)
            continue;
        if (!of->parts || !value_is_pointwise(value) || !value_same_dims(value, value->in[i]))
            return (CutMark){mark.product, 0};
        mark.parts |= of->parts;
    }
    return mark;
}

bool *movement_find_cut(Pass *pass, Graph *graph) {
    graph_renumber(graph);
    size_t n = graph->values.n, n_products = 0;
    Cut cut = {.pass = pass,
               .graph = graph,
               .uses = graph_use_counts(pass->arena, graph),
               .products = ARENA_ARRAY(pass->arena, CutProduct *, n + 1),
               .found = ARENA_ARRAY(pass->arena, bool, n + 1)};
    for (size_t i = 0; i < n && pass->options->limits && !pass->options->no_fusion; i++)
        if (cut_may(&cut, graph->values.at[i])) {
            cut.products[i] = ARENA_NEW(pass->arena, CutProduct);
            n_products++;
        }
    if (n_products == 0)
        return cut.found;
    cut.marks = ARENA_ARRAY(pass->arena, CutMark, n + 1);
    for (size_t i = 0; i < n; i++)
        if (graph->values.at[i]->op == OP_slice)
            cut_add_slice(&cut, graph->values.at[i]);
    for (size_t i = 0; i < n; i++) { /* topological */
        CutMark *mark = &cut.marks[i];
        if (!mark->product)
            *mark = cut_mark(&cut, graph->values.at[i]);
        const CutProduct *product = mark->product ? cut.products[mark->product->id] : NULL;
        if (product && product->n == cut.uses[mark->product->id] && mark->parts == (1u << product->n) - 1)
            cut.found[mark->product->id] = true;
    }
    return cut.found;
}
