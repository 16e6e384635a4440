/* Heads of attention are columns of the product that reads its result, and pixels of a window are rows beside
 * each other: a view joins axes that lie apart in what is computed.
 *
 *     a = reshape(transpose(o, [0, 2, 1, 3]), dims=[B * S, H * D])          o: [B, H, S, D]
 *     y = a @ w.T
 *
 *     t = reshape(n, dims=[B, I, 7, J, 7, C])                               n: [B, 7 * I, 7 * J, C]
 *     y = reshape(transpose(t, [0, 1, 3, 2, 4, 5]), dims=[B * I * J * 49, C]) @ w.T
 *
 * Where nothing else reads o, it is stored as `a` has it. Then it is read in whole steps of K, by rows that
 * go on from one sequence to the next: of 77 queries, or heads of 72, TMA could not read it otherwise, or
 * only in steps of 16. So are gradients of queries, keys and values for those of their projections. Rows of
 * windows it could not follow at all: as threads gather them, 25088 x 192 to 576 columns took 47 us, where
 * the aligned product takes 10. */
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

/* Whether a value is the results of rows, one each, in the order in which a larger space repeats them, as
 * scores of pairs do for each head what both have a number of. What stores them apart from one another stores
 * them in any order; read so, neighbours would be as far apart. */
static bool joined_is_repeated(const Fuse *fuse, const Value *value, const Value *base) {
    enum { REPEATED = 8 };
    const Graph *graph = fuse->graph;
    if (value->op != OP_transpose || value->in[0] != base || value_class(base) != OPCLASS_REDUCTION ||
        movement_keeps_order(value) || !dim_is(base->dims[base->rank - 1], 1) ||
        joined_user(graph, base) != value)
        return false;
    const Value *user = joined_user(graph, value);
    return user && value_is_pointwise(user) &&
           fuse_count(fuse, user->rank, (const Dim *const *)user->dims) / REPEATED >=
               fuse_count(fuse, value->rank, (const Dim *const *)value->dims);
}

bool fuse_joins(const Fuse *fuse, const Value *value, const Value *base) {
    const Graph *graph = fuse->graph;
    if (joined_is_repeated(fuse, value, base))
        return true;
    const Value *turned = value->op == OP_reshape ? value->in[0] : NULL;
    if (!turned || turned->op != OP_transpose)
        return false;
    const Value *parts = turned->in[0];
    bool is_alone = parts == base ||
                    (parts->op == OP_reshape && parts->in[0] == base && joined_user(graph, base) == parts);
    return is_alone && !movement_keeps_order(turned) && space_keeps_innermost(value, base) &&
           joined_user(graph, parts) == turned && joined_user(graph, turned) == value &&
           joined_feeds_product(graph, value);
}

Value *fuse_joined_view(const Fuse *fuse, Value *operand, const Value *base) {
    bool floats = !fuse_home(fuse, base) && (value_is_pointwise(base) || base->op == OP_concat);
    for (; floats && operand != base; operand = operand->in[0])
        if (fuse_joins(fuse, operand, base))
            return operand;
    return NULL;
}
