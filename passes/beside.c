/* What is computed element by element beside a product whose rows were joined gets the product's dims, so
 * that one kernel can hold both (fuse_siblings.c):
 *
 *     p = reshape(dy, dims=[B * M, K]) @ w                       dy: [B, M, K]
 *     d = reshape(p * reshape(g, dims=[B * M, N]), dims=[B, M, N])
 *     h = silu(g) * u                                            g, u: [B, M, N]
 * ->  h = reshape(silu(reshape(g, dims=[B * M, N])) * reshape(u, dims=[B * M, N]), dims=[B, M, N])
 *
 * Movement brings reshapes to the inputs, so that this comes behind it. Only what ends in memory is taken:
 * what something else reads, a reduction say, wants the dims that it has. */
#include "passes/fuse.h"
#include "passes/rewrite.h"

enum { BESIDE_PRODUCTS = 64 /* that are looked at */ };

typedef struct Beside {
    const Graph *graph;
    const Value **joined; /* by id: a tensor's reshape to the dims of a product; NULL: none */
    const Value **like;   /* by id of what is to have these dims: such a reshape; NULL: it stays */
} Beside;

static bool beside_is_product(const FuseLimits *limits, const Value *value) {
    return value->op == OP_matmul && value->rank == 2 && product_uses_tensor_cores(limits, value);
}

/* Finds tensors that are read by the joined rows of a product. */
static bool beside_find_joined(Beside *beside, const FuseLimits *limits) {
    const Graph *graph = beside->graph;
    const Value *products[BESIDE_PRODUCTS];
    int n = 0;
    bool any = false;
    for (size_t i = 0; i < graph->values.n && n < BESIDE_PRODUCTS; i++)
        if (beside_is_product(limits, graph->values.at[i]))
            products[n++] = graph->values.at[i];
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i], *operand = value->n_in ? value->in[0] : NULL;
        if (value->op != OP_reshape || value->rank != 2 || operand->rank <= 2 ||
            operand->dims[operand->rank - 1] != value->dims[1])
            continue;
        for (int k = 0; k < n; k++)
            if (value_same_dims(value, products[k])) {
                beside->joined[operand->id] = value;
                any = true;
            }
    }
    return any;
}

/* Whether an operand of `value` can be had with its rows joined, or is the same for all of them. */
static bool beside_takes(const Beside *beside, const Value *value, const Value *operand) {
    if (operand->rank < 2)
        return true;
    bool is_at_hand = beside->joined[operand->id] || beside->like[operand->id] ||
                      (operand->op == OP_input && !operand->strides);
    return is_at_hand && value_same_dims(operand, value);
}

static void beside_find(Beside *beside, const Value *value) {
    const Value *like = NULL;
    if (!value_is_pointwise(value) || value->rank <= 2)
        return;
    for (int i = 0; i < value->n_in; i++) {
        const Value *operand = value->in[i];
        if (!beside_takes(beside, value, operand))
            return;
        const Value *own =
            beside->like[operand->id] ? beside->like[operand->id] : beside->joined[operand->id];
        like = own && operand->rank > 2 ? own : like;
    }
    beside->like[value->id] = like;
}

/* What something reads that keeps its dims keeps its own. */
static bool beside_refuse(Beside *beside) {
    bool any = false;
    for (size_t i = beside->graph->values.n; i-- > 0;) {
        const Value *value = beside->graph->values.at[i];
        any |= beside->like[i] != NULL;
        for (int k = 0; !beside->like[i] && k < value->n_in; k++)
            beside->like[value->in[k]->id] = NULL;
    }
    return any;
}

static Value *beside_rule(Rewrite *rewrite, Value *value) {
    const Beside *beside = rewrite->pass->state;
    const Value *like = beside->like[value->id];
    if (!like)
        return value;
    Value **in = ARENA_ARRAY(rewrite->pass->arena, Value *, (size_t)value->n_in + 1);
    for (int i = 0; i < value->n_in; i++) {
        Value *operand = value->in[i];
        if (operand->op == OP_reshape && value_same_dims(operand->in[0], like))
            in[i] = operand->in[0];
        else
            in[i] = operand->rank < 2 ? operand : build_reshape(rewrite, operand, 2, like->dims, value);
        if (!in[i])
            return value;
    }
    Value *joined = build_like(rewrite, value, in);
    return joined ? build_reshape(rewrite, joined, value->rank, (const Dim *const *)value->dims, value)
                  : value;
}

bool pass_beside(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion)
        return false;
    graph_renumber(graph);
    Beside beside = {.graph = graph};
    beside.joined = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    beside.like = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    if (!beside_find_joined(&beside, pass->options->limits))
        return false;
    for (size_t i = 0; i < graph->values.n; i++)
        beside_find(&beside, graph->values.at[i]);
    pass->state = &beside;
    return beside_refuse(&beside) && rewrite_graph(pass, graph, beside_rule);
}
