/* Weights of few bits that are scaled under dims of their own, a group along an axis, get those of the
 * product that reads them, as dequantize() of the library writes it:
 *
 *     reshape(reshape(w, [N, K / 128, 128]) * s, [N, K])            s: [N, K / 128, 1]
 *  -> w * reshape(broadcast(s, [N, K / 128, 128]), [N, K])
 *
 * Operands of products are known by a factor with their own dims. A difference, as that from a group's zero,
 * goes the same way. */
#include "passes/rewrite.h"

/* Whether a value is computed element by element of an input of the graph with elements of at most 8 bits. */
static bool ungroup_is_narrow(const Value *value) {
    enum { NARROW = 8, STEPS = 16 };
    for (int step = 0; step < STEPS; step++) {
        if (value->op == OP_input)
            return dtype_bits(value->dtype) <= NARROW && dtype_class(value->dtype) != DTYPE_LOGICAL;
        const Value *next = NULL;
        if (value->op == OP_reshape || value->op == OP_transpose || value->op == OP_cast)
            next = value->in[0];
        for (int i = 0; i < value->n_in && op_is_scalar(value->op) && !next; i++)
            if (value_same_dims(value->in[i], value))
                next = value->in[i];
        if (!next)
            return false;
        value = next;
    }
    return false;
}

/* An operand of what is reshaped, under its dims. */
static Value *ungroup_operand(Rewrite *rewrite, Value *operand, const Value *grouped, const Value *reshape) {
    if (operand->rank == 0)
        return operand;
    if (!value_same_dims(operand, grouped))
        operand = build_broadcast(rewrite, operand, grouped->rank, grouped->dims, reshape);
    return operand ? build_reshape(rewrite, operand, reshape->rank, reshape->dims, reshape) : NULL;
}

/* Whether an operand is a factor or a zero of groups: it repeats within what is reshaped. */
static bool ungroup_repeats(const Value *grouped) {
    bool repeats = false;
    for (int i = 0; i < grouped->n_in; i++)
        repeats |= grouped->in[i]->rank > 0 && !value_same_dims(grouped->in[i], grouped);
    return repeats;
}

static bool ungroup_takes(const Value *reader) {
    return reader->op == OP_matmul;
}

static Value *ungroup_rule(Rewrite *rewrite, Value *value) {
    const bool *taken = rewrite->pass->state;
    Value *grouped = value->op == OP_reshape && value->id < rewrite->n_before ? value->in[0] : NULL;
    if (!grouped || !taken[value->id] || (grouped->op != OP_mul && grouped->op != OP_sub) ||
        grouped->rank <= value->rank || !dtype_is_float(grouped->dtype) || !ungroup_repeats(grouped) ||
        rewrite_uses(rewrite, grouped) > 1 || !ungroup_is_narrow(grouped))
        return value;
    Value *in[2] = {NULL};
    for (int i = 0; i < grouped->n_in; i++) {
        in[i] = ungroup_operand(rewrite, grouped->in[i], grouped, value);
        if (!in[i])
            return value;
    }
    Value *flat = build_scalar(rewrite, grouped->op, in[0], in[1], NULL, value);
    if (flat && flat->dtype != value->dtype)
        flat = build_cast(rewrite, flat, value->dtype, value);
    return flat && value_same_dims(flat, value) ? flat : value;
}

bool pass_ungroup(Pass *pass, Graph *graph) {
    graph_renumber(graph);
    pass->state = rewrite_find_taken(pass, graph, ungroup_takes);
    return rewrite_graph(pass, graph, ungroup_rule);
}
