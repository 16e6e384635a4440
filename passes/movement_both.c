/* An output that is another one turned is a transpose of it: a kernel then computes both at once and writes
 * the second through a tile, where each of two would read everything.
 *
 *     q = cast(x * s);  t = cast(transpose(x) * s)     ->     t = transpose(q)
 *
 * Of what is computed element by element alone: so do transposes come to inputs (movement_space.c), also
 * where the graph has `transpose(x * s)` for it. */
#include <string.h>

#include "passes/movement.h"
#include "passes/split.h"

typedef struct BothWays {
    const int *perm;   /* of the first transpose that was met; NULL: none yet */
    const Value *base; /* what that is of */
    int rank;
    int budget; /* values looked at */
} BothWays;

enum { BOTH_BUDGET = 128 };

static const Value *both_below_reshapes(const Value *value) {
    while (value->op == OP_reshape)
        value = value->in[0];
    return value;
}

/* Whether `turned` has the one axis of `straight` that is more than one element, where the order has it. */
static bool both_is_vector(const BothWays *both, const Value *turned, const Value *straight) {
    const Value *base =
        both_below_reshapes(turned); /* which only give it axes of one element, or take them */
    int at = -1;
    if (base != both_below_reshapes(straight) || (base->op != OP_input && !value_is_scalar_constant(base)))
        return false;
    for (int i = 0; i < straight->rank; i++) {
        if (dim_is(straight->dims[i], 1))
            continue;
        if (at >= 0)
            return false;
        at = i + both->rank - straight->rank;
    }
    for (int i = 0; i < both->rank; i++) {
        int axis = i - (both->rank - turned->rank);
        bool is_there = axis >= 0 && !dim_is(turned->dims[axis], 1);
        if (is_there != (at >= 0 && both->perm[i] == at))
            return false;
    }
    return true;
}

/* Whether `turned` is `straight` transposed, element by element down to tensors that are. */
static bool both_are(BothWays *both, const Value *turned, const Value *straight) {
    if (--both->budget < 0 || turned->dtype != straight->dtype)
        return false;
    if (turned == straight && turned->rank == 0)
        return true;
    if (turned->op == OP_transpose && turned->in[0] == straight && turned->rank == both->rank) {
        const int *perm = turned->attrs[0].ints;
        both->base = both->perm ? both->base : straight;
        both->perm = both->perm ? both->perm : perm;
        return !memcmp(perm, both->perm, (size_t)both->rank * sizeof *perm);
    }
    if (!value_is_pointwise(turned) || turned->op != straight->op || turned->n_in != straight->n_in)
        return both->perm && both_is_vector(both, turned, straight);
    bool is_late[OP_MAX_ARITY] = {false};
    for (int i = 0; i < turned->n_in; i++) { /* what is transposed says first how */
        is_late[i] = turned->in[i]->rank != both->rank || !value_same_dims(turned->in[i], turned);
        if (!is_late[i] && !both_are(both, turned->in[i], straight->in[i]))
            return false;
    }
    for (int i = 0; i < turned->n_in; i++)
        if (is_late[i] && !both_are(both, turned->in[i], straight->in[i]))
            return false;
    return true;
}

/* Whether all of `base` is reduced, too: the kernel that does that computes the one output, which leaves the
 * other for a kernel of its own (8192 x 4096 in 8 bits both ways and the largest: 56 us, 63 so), but where
 * the kernel of both reduces it. */
static bool both_is_reduced(const Pass *pass, const Graph *graph, const Value *base) {
    const Dim *count = value_count(graph, base);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        if (value_class(value) != OPCLASS_REDUCTION || value_count(graph, value->in[0]) != count ||
            !value_is_computed_from(value->in[0], base))
            continue;
        if (!value_reduces(value, 0) || !split_takes_turned(pass, value->in[0]))
            return true;
    }
    return false;
}

Value *movement_both_ways(Rewrite *rewrite, Value *value) {
    const Graph *graph = rewrite->graph;
    if (value->rank < 2 || !value_is_pointwise(value) || !value_is_output(graph, value) ||
        rewrite_is_heavy(rewrite, value))
        return value;
    for (size_t i = 0; i < graph->outputs.n; i++) {
        Value *straight = graph->outputs.at[i].value;
        BothWays both = {.rank = value->rank, .budget = BOTH_BUDGET};
        if (straight->id >= value->id || straight->scratch || straight->rank != value->rank ||
            !both_are(&both, value, straight) || !both.perm ||
            both_is_reduced(rewrite->pass, graph, both.base))
            continue;
        Value *turned = build_transpose(rewrite, straight, both.perm, value);
        return turned && value_same_dims(turned, value) ? turned : value;
    }
    return value;
}
