/* Heads of attention are columns of the product that reads its result: a view joins axes that lie apart in
 * it.
 *
 *     a = reshape(transpose(o, [0, 2, 1, 3]), dims=[B * S, H * D])          o: [B, H, S, D]
 *     y = a @ w.T
 *
 * Where nothing else reads o, it is stored as `a` has it. Then it is read in whole steps of K, by rows that
 * go on from one sequence to the next: of 77 queries, or heads of 72, TMA could not read it otherwise, or
 * only in steps of 16. So are gradients of queries, keys and values for those of their projections. */
#include "passes/fuse.h"
#include "passes/movement.h"

/* What alone reads a value that is no output; NULL: several do, or none. */
static const Value *joined_user(const Graph *graph, const Value *value) {
    const Value *user = NULL;
    for (size_t i = value->id + 1; i < graph->values.n; i++)
        for (int k = 0; k < graph->values.at[i]->n_in; k++) {
            if (graph->values.at[i]->in[k] != value)
                continue;
            if (user && user != graph->values.at[i])
                return NULL;
            user = graph->values.at[i];
        }
    return value_is_output(graph, value) ? NULL : user;
}

/* Whether a product reads a value, as it is or as a view of it. */
static bool joined_feeds_product(const Graph *graph, const Value *value) {
    for (size_t i = value->id + 1; i < graph->values.n; i++) {
        const Value *user = graph->values.at[i];
        for (int k = 0; k < user->n_in; k++)
            if (user->in[k] == value &&
                (user->op == OP_matmul || (op_is_view(user->op) && joined_feeds_product(graph, user))))
                return true;
    }
    return false;
}

bool fuse_joins(const Fuse *fuse, const Value *value, const Value *base) {
    const Graph *graph = fuse->graph;
    const Value *turned = value->op == OP_reshape ? value->in[0] : NULL;
    return turned && turned->op == OP_transpose && turned->in[0] == base && !movement_keeps_order(turned) &&
           space_keeps_innermost(value, base) && joined_user(graph, base) == turned &&
           joined_user(graph, turned) == value && joined_feeds_product(graph, value);
}

Value *fuse_joined_view(const Fuse *fuse, Value *operand, const Value *base) {
    bool floats = !fuse_home(fuse, base) && value_is_pointwise(base);
    for (; floats && operand != base; operand = operand->in[0])
        if (fuse_joins(fuse, operand, base))
            return operand;
    return NULL;
}
