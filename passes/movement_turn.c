/* Transposes of matrices, the last two axes exchanged, on both sides of a product.
 *
 *     y = x @ (w.T * s)         ->   y = x @ (w * s.T).T
 *     y = relu(x @ w + b).T     ->   y = relu(w.T @ x.T + b.T)
 *     y = transpose(reshape(x @ w, [B, S, H, D]), [0, 2, 3, 1])   ->   y = reshape(w.T @ x.T, [B, H, D, S])
 *
 * A product reads a transposed view for nothing, and gives its result in either order. A kernel that computes
 * an operand, or that stores the result, does not: it would read along one axis and write along another. */
#include "passes/movement.h"

enum { TURN_CONE_MAX = 32 };

static bool turn_is(const Value *value) {
    int rank = value->rank;
    if (value->op != OP_transpose || rank < 2)
        return false;
    const int *perm = value->attrs[0].ints;
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i)
            return false;
    return perm[rank - 1] == rank - 2;
}

static Respace turn_of(const Value *value) {
    int perm[RANK_MAX];
    turn_perm(value->rank, perm);
    return respace_transpose(value, perm);
}

static bool turn_is_vector(const Value *value) {
    return value->rank < 2 || dim_is(value->dims[value->rank - 2], 1) ||
           dim_is(value->dims[value->rank - 1], 1);
}

/* ---- operands */

/* Whether each matrix that `value` is computed from, element by element, is transposed; counts them, and what
 * it visits. */
static bool turn_is_of_turned(Rewrite *rewrite, const Value *value, int *visited, int *turned) {
    if (++*visited > TURN_CONE_MAX)
        return false;
    if (value_is_pointwise(value) && !rewrite_is_heavy(rewrite, value)) {
        for (int i = 0; i < value->n_in; i++)
            if (!turn_is_of_turned(rewrite, value->in[i], visited, turned))
                return false;
        return true;
    }
    if (turn_is_vector(value))
        return true;
    *turned += turn_is(value);
    return turn_is(value);
}

Value *movement_turn_operand(Rewrite *rewrite, Value *value) {
    int visited = 0, turned = 0;
    if (value->rank < 2 || rewrite_users(rewrite, value) != USER_CONTRACTION ||
        rewrite_is_heavy(rewrite, value) || !turn_is_of_turned(rewrite, value, &visited, &turned) || !turned)
        return value;
    Respace turn = turn_of(value);
    return build_turned(rewrite, respace_apply(rewrite, &turn, value, value), value);
}

/* ---- results */

/* What is computed of a product, down to a value that is transposed. */
typedef struct TurnCone {
    Rewrite *rewrite;
    const Respace *turn;
    struct {
        const Value *old;
        int seen; /* as an operand within the cone */
        Value *turned;
    } at[TURN_CONE_MAX];
    int n, products;
} TurnCone;

static int turn_find(const TurnCone *cone, const Value *value) {
    int i = 0;
    while (i < cone->n && cone->at[i].old != value)
        i++;
    return i;
}

/* Whether `value` follows one product element by element; notes what is on the way. */
static bool turn_is_of_product(TurnCone *cone, const Value *value) {
    if (!rewrite_is_heavy(cone->rewrite, value))
        return respace_can(cone->turn, value);
    int at = turn_find(cone, value);
    if (at < cone->n) {
        cone->at[at].seen++;
        return true;
    }
    if (at == TURN_CONE_MAX || value->rank != cone->turn->rank_from)
        return false;
    cone->at[at].old = value;
    cone->at[at].seen = 1;
    cone->n++;
    if (value->op == OP_matmul)
        return ++cone->products == 1 && value->in[0]->rank >= 2 && value->in[1]->rank >= 2;
    for (int i = 0; i < value->n_in; i++)
        if (!turn_is_of_product(cone, value->in[i]))
            return false;
    return value_is_pointwise(value);
}

static Value *turn_result(TurnCone *cone, Value *value) {
    if (!rewrite_is_heavy(cone->rewrite, value))
        return respace_apply(cone->rewrite, cone->turn, value, value);
    int at = turn_find(cone, value);
    if (cone->at[at].turned)
        return cone->at[at].turned;
    Value *in[OP_MAX_ARITY];
    for (int i = 0; i < value->n_in; i++)
        in[i] = value->op == OP_matmul ? build_turned(cone->rewrite, value->in[1 - i], value->in[1 - i])
                                       : turn_result(cone, value->in[i]);
    cone->at[at].turned = build_like(cone->rewrite, value, in);
    return cone->at[at].turned;
}

/* The matrices that `value` is the transposes of: its operand, or what the operand is with the columns in
 * parts, as heads, which stay beside each other in front of the rows; NULL: it is none. */
static Value *turn_source(const Value *value) {
    Value *operand = value->in[0];
    if (turn_is(value))
        return operand;
    if (operand->op == OP_cast)
        operand = operand->in[0];
    if (operand->op != OP_reshape || operand->in[0]->rank < 2)
        return NULL;
    Value *source = operand->in[0];
    int rows = source->rank - 2, rank = value->rank;
    const int *perm = value->attrs[0].ints;
    bool is_split = rank > source->rank;
    for (int i = 0; i <= rows && is_split; i++)
        is_split = operand->dims[i] == source->dims[i] && (i == rows || perm[i] == i);
    for (int i = rows; i < rank - 1 && is_split; i++)
        is_split = perm[i] == i + 1;
    return is_split ? source : NULL;
}

Value *movement_turn_result(Rewrite *rewrite, Value *value) {
    Value *source =
        value_is_output(rewrite->graph, value) && value->op == OP_transpose ? turn_source(value) : NULL;
    if (!source)
        return value;
    /* what this walk has made may be one of several that read the product: the next walk knows */
    bool is_split = source != value->in[0];
    if (is_split && source->id >= rewrite->n_before)
        return value;
    for (const Value *between = value->in[0]; between != source; between = between->in[0])
        if (between->id >= rewrite->n_before || rewrite_uses(rewrite, between) != 1)
            return value;
    Respace turn = turn_of(source);
    TurnCone cone = {.rewrite = rewrite, .turn = &turn};
    if (!turn_is_of_product(&cone, source) || cone.products != 1)
        return value;
    for (int i = 0; i < cone.n; i++)
        if (rewrite_uses(rewrite, cone.at[i].old) != cone.at[i].seen) /* somebody has it in the other order */
            return value;
    Value *turned = turn_result(&cone, source);
    if (!turned || !is_split)
        return turned;
    turned = build_cast(rewrite, turned, value->dtype, value);
    return turned ? build_reshape(rewrite, turned, value->rank, (const Dim *const *)value->dims, value)
                  : NULL;
}
