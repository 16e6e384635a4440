/* Movement operations that meet are joined or cancelled; the others move to where they are free.
 *
 *     reshape(reshape(x))        ->  reshape(x)            transpose(transpose(x))  ->  transpose(x), or x
 *     broadcast(broadcast(x))    ->  broadcast(x)          y + broadcast(b)         ->  y + b
 *     gather(cast(table), i)     ->  cast(gather(table, i))
 *     gather(table * s, i)       ->  gather(table, i) * gather(s, i)
 *     gather(wide(s), i)         ->  wide(gather(s, i))       which repeats within a slice
 *
 * movement_turn.c exchanges rows and columns of what products read and give, movement_space.c moves reshapes
 * and transposes past what is element by element, movement_reduce.c brings reductions into the forms that
 * kernels have, movement_slice.c keeps slices from making anyone compute what is not used, movement_below.c
 * lets reshapes and transposes pass below movements of another kind, movement_window.c keeps windows from
 * repeating work. */
#include "passes/movement.h"
#include "ir/infer.h"

static bool movement_is_identity(const Value *value) {
    for (int i = 0; i < value->rank; i++)
        if (value->attrs[0].ints[i] != i)
            return false;
    return true;
}

bool movement_keeps_order(const Value *transpose) {
    int last = -1;
    for (int i = 0; i < transpose->rank; i++) {
        if (dim_is(transpose->dims[i], 1))
            continue;
        if (transpose->attrs[0].ints[i] < last)
            return false;
        last = transpose->attrs[0].ints[i];
    }
    return true;
}

static Value *movement_transpose(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (movement_is_identity(value))
        return operand;
    /* Below a kernel's result it stays: the same transpose brings a row's statistic back to what it is
     * applied to. */
    if (movement_keeps_order(value) && !rewrite_is_heavy(rewrite, operand))
        return build_reshape(rewrite, operand, value->rank, value->dims, value);
    if (operand->op == OP_transpose) {
        int perm[RANK_MAX];
        bool identity = true;
        for (int i = 0; i < value->rank; i++) {
            perm[i] = operand->attrs[0].ints[value->attrs[0].ints[i]];
            identity &= perm[i] == i;
        }
        if (identity)
            return operand->in[0];
        return build_transpose(rewrite, operand->in[0], perm, value);
    }
    const Graph *graph = rewrite->graph; /* what is an output both ways is computed once (fuse_store.c) */
    if (value_is_output(graph, value) && value_is_output(graph, operand) && value_is_pointwise(operand))
        return value;
    Value *fresh = movement_hoist(rewrite, value);
    return fresh == value ? movement_turn_result(rewrite, value) : fresh;
}

static Value *movement_reshape(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (value_same_dims(value, operand))
        return operand;
    if (operand->op == OP_reshape && value_same_dims(value, operand->in[0]))
        return operand->in[0];
    if (operand->op == OP_reshape)
        return build_reshape(rewrite, operand->in[0], value->rank, value->dims, value);
    if (operand->op == OP_transpose)
        return movement_below(rewrite, value);
    return movement_hoist(rewrite, value);
}

static Value *movement_broadcast(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (value_same_dims(value, operand))
        return operand;
    if (operand->op == OP_broadcast)
        return build_broadcast(rewrite, operand->in[0], value->rank, value->dims, value);
    return value;
}

bool movement_is_zero(int n, const Dim *const *dims) {
    for (int i = 0; i < n; i++)
        if (!dim_is(dims[i], 0))
            return false;
    return true;
}

/* Slices of what repeats within each: factors of blocks, behind reshapes that leave the slices' axis. */
static Value *movement_gather_repeated(Rewrite *rewrite, Value *value) {
    Value *table = value->in[0], *below = table->in[0], *in[2] = {below, value->in[1]};
    bool repeats = table->op == OP_broadcast || (table->op == OP_reshape && below->op == OP_broadcast);
    if (!repeats || value->attrs[0].i != 0 || below->rank < 1 || below->dims[0] != table->dims[0] ||
        (table->op == OP_broadcast && below->rank != table->rank))
        return value;
    Value *fresh = build_like(rewrite, value, in);
    if (!fresh)
        return value;
    return table->op == OP_broadcast ? build_broadcast(rewrite, fresh, value->rank, value->dims, value)
                                     : build_reshape(rewrite, fresh, value->rank, value->dims, value);
}

/* A cast, and a product of factors that have the axis: an index out of range reads 0, which both keep. */
static Value *movement_gather(Rewrite *rewrite, Value *value) {
    Value *table = value->in[0], *in[2] = {NULL, value->in[1]}, *factors[2];
    int axis = (int)value->attrs[0].i;
    if (table->op == OP_broadcast || table->op == OP_reshape)
        return movement_gather_repeated(rewrite, value);
    if ((table->op != OP_cast && table->op != OP_mul) || rewrite_uses(rewrite, table) > 1)
        return value;
    for (int i = 0; i < table->n_in; i++)
        if (table->in[i]->rank != table->rank || table->in[i]->dims[axis] != table->dims[axis])
            return value;
    for (int i = 0; i < table->n_in; i++) {
        in[0] = table->in[i];
        factors[i] = build_like(rewrite, value, in);
    }
    return build_like(rewrite, table, factors);
}

/* Operands broadcast by themselves: a broadcast that does not make the result larger is not needed. */
static Value *movement_drop_broadcasts(Rewrite *rewrite, Value *value) {
    Value *in[OP_MAX_ARITY];
    bool dropped = false;
    for (int i = 0; i < value->n_in; i++)
        in[i] = value->in[i];
    for (int i = 0; i < value->n_in; i++) {
        if (in[i]->op != OP_broadcast)
            continue;
        const Dim *dims[RANK_MAX];
        int rank = in[i]->in[0]->rank;
        for (int k = 0; k < rank; k++)
            dims[k] = in[i]->in[0]->dims[k];
        for (int k = 0; k < value->n_in && rank >= 0; k++)
            if (k != i)
                rank = infer_broadcast_dims(rewrite->graph->dims, rank, dims, in[k]->rank,
                                            (const Dim *const *)in[k]->dims, dims);
        bool same = rank == value->rank;
        for (int k = 0; same && k < rank; k++)
            same = dims[k] == value->dims[k];
        if (!same)
            continue;
        in[i] = in[i]->in[0];
        dropped = true;
    }
    return dropped ? build_like(rewrite, value, in) : value;
}

/* What a reshape has without the leading axes of one element that it takes; the reshape itself where it does
 * anything else. */
static Value *movement_with_units(Value *reshape) {
    Value *operand = reshape->n_in == 1 ? reshape->in[0] : NULL;
    if (reshape->op != OP_reshape || operand->rank <= reshape->rank || reshape->rank == 0)
        return reshape;
    int taken = operand->rank - reshape->rank;
    for (int i = 0; i < operand->rank; i++)
        if (i < taken ? !dim_is(operand->dims[i], 1) : operand->dims[i] != reshape->dims[i - taken])
            return reshape;
    return operand;
}

/* Operands broadcast by themselves: leading axes of one element need not be taken first. A mean that is
 * dropped from its tensor's axes is then still seen to be its mean. */
static Value *movement_keep_units(Rewrite *rewrite, Value *value) {
    Value *in[OP_MAX_ARITY];
    bool kept = false;
    for (int i = 0; i < value->n_in; i++) {
        in[i] = movement_with_units(value->in[i]);
        if (in[i]->rank > value->rank)
            in[i] = value->in[i];
        kept = kept || in[i] != value->in[i];
    }
    Value *fresh = kept ? build_like(rewrite, value, in) : value;
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}

static Value *movement_rule(Rewrite *rewrite, Value *value) {
    if (value_is_pointwise(value)) {
        Value *fresh = movement_drop_broadcasts(rewrite, value);
        fresh = fresh == value ? movement_keep_units(rewrite, value) : fresh;
        fresh = fresh == value ? movement_cast_joined(rewrite, value) : fresh;
        fresh = fresh == value ? movement_cast_windows(rewrite, value) : fresh;
        fresh = fresh == value ? movement_sink(rewrite, value) : fresh;
        fresh = fresh == value ? movement_both_ways(rewrite, value) : fresh;
        return fresh == value ? movement_turn_operand(rewrite, value) : fresh;
    }
    if (value_class(value) == OPCLASS_REDUCTION)
        return movement_reduce(rewrite, value);
    switch (value->op) {
    case OP_reshape: return movement_reshape(rewrite, value);
    case OP_transpose: return movement_transpose(rewrite, value);
    case OP_broadcast: return movement_broadcast(rewrite, value);
    case OP_slice: return movement_slice(rewrite, value);
    case OP_window: return movement_window(rewrite, value);
    case OP_gather: return movement_gather(rewrite, value);
    case OP_concat: return value->n_in == 1 ? value->in[0] : movement_below(rewrite, value);
    case OP_pad:
        return movement_is_zero(value->rank, value->attrs[0].dims) &&
                       movement_is_zero(value->rank, value->attrs[1].dims)
                   ? value->in[0]
                   : value;
    default: return value;
    }
}

bool pass_movement(Pass *pass, Graph *graph) {
    void *state = pass->state; /* of the pass that has this one follow it */
    pass->state = movement_find_cut(pass, graph);
    bool changed = rewrite_graph(pass, graph, movement_rule);
    pass->state = state;
    return changed;
}
