/* What a product reads transposed, and what is computed element by element of products of few k, is computed
 * again the other way around for it:
 *
 *     s = q @ k.T                            s' = k @ q.T
 *     e = cast(exp(s - l), bf16)       ->    e' = cast(exp(s' - l.T), bf16)
 *     dv = e.T @ do                          dv = e' @ do
 *
 * so that one kernel computes e' in registers and multiplies it from there (fuse_relay.c), and no kernel
 * stores it: the gradients of attention. Multiplying twice along a k of 128 takes less than a third of what
 * 16 bits take to be written and read. */
#include "ir/value_map.h"
#include "passes/relay.h"
#include "passes/rewrite.h"

#include <string.h>

/* Values, and what they are turned around. */
typedef struct Turned {
    Rewrite *rewrite;
    const Value *product; /* for which */
    ValueMap number;      /* in `made`, plus 1 */
    VEC(Value *) made;
} Turned;

/* What a transpose exchanges the last two axes of; NULL: it is no such. */
static Value *turned_operand(const Value *value) {
    int perm[RANK_MAX];
    if (value->op != OP_transpose || value->rank < 2)
        return NULL;
    turn_perm(value->rank, perm);
    return memcmp(perm, value->attrs[0].ints, sizeof *perm * (size_t)value->rank) ? NULL : value->in[0];
}

static Value *turned_view(Turned *t, Value *value) {
    Value *operand = turned_operand(value);
    const Dim *dims[2];
    if (operand || value->rank == 0)
        return operand ? operand : value;
    if (value->rank > 1)
        return build_turned(t->rewrite, value, t->product);
    dims[0] = value->dims[0];
    dims[1] = dim_const(t->rewrite->graph->dims, 1);
    return build_reshape(t->rewrite, value, 2, dims, t->product);
}

static void turned_exchange(const Dim **to, const Dim *const *dims, int rank) {
    memcpy(to, dims, sizeof *to * (size_t)rank);
    to[rank - 2] = dims[rank - 1];
    to[rank - 1] = dims[rank - 2];
}

static Value *turned_operation(Turned *t, Value *value, Value *const *in) {
    const Dim *dims[RANK_MAX];
    int last = value->rank - 1;
    if (value->op == OP_matmul) {
        Value *operands[] = {in[1], in[0]};
        return build_like(t->rewrite, value, operands);
    }
    if (value->op == OP_broadcast || value->op == OP_index)
        turned_exchange(dims, (const Dim *const *)value->dims, value->rank);
    if (value->op == OP_broadcast)
        return build_broadcast(t->rewrite, in[0], value->rank, dims, t->product);
    if (value->op == OP_index) {
        int axis = (int)value->attrs[1].i;
        return build_index(t->rewrite, value->rank, dims, axis >= last - 1 ? 2 * last - 1 - axis : axis,
                           t->product);
    }
    return build_like(t->rewrite, value, (Value **)in);
}

/* Whether an operation is done again on turned operands, rather than seen through a transpose: what lies
 * between, and coordinates with what is computed of them. */
static bool turned_is_again(Turned *t, const Relay *relay, const Value *value) {
    bool is_inner = false;
    for (size_t i = 0; i < relay->between.n; i++)
        is_inner = is_inner || relay->between.at[i] == value;
    for (int i = 0; i < relay->n_first; i++)
        is_inner = is_inner || relay->first[i] == value;
    if (is_inner || value->rank < 2)
        return is_inner;
    return value->op == OP_index || (value_is_pointwise(value) && !rewrite_is_heavy(t->rewrite, value) &&
                                     !dtype_is_float(value->dtype));
}

static Value *turned_known(const Turned *t, const Value *value) {
    int number = value_map_get(&t->number, value);
    return number ? t->made.at[number - 1] : NULL;
}

/* `value` the other way around, and what it is computed of before it; NULL: a defect. */
static Value *turned_value(Turned *t, const Relay *relay, Value *value) {
    Arena *arena = t->rewrite->pass->arena;
    VEC(Value *) open = {0};
    vec_push(arena, &open, value);
    while (open.n) {
        Value *top = open.at[open.n - 1], *in[OP_MAX_ARITY] = {0}, *made = NULL;
        bool is_again = turned_is_again(t, relay, top), waits = false;
        if (turned_known(t, top)) {
            open.n--;
            continue;
        }
        for (int i = 0; i < top->n_in && is_again; i++) {
            in[i] = top->op == OP_matmul ? turned_view(t, top->in[i]) : turned_known(t, top->in[i]);
            if (in[i])
                continue;
            waits = true;
            vec_push(arena, &open, top->in[i]);
        }
        if (waits)
            continue;
        made = is_again ? turned_operation(t, top, in) : turned_view(t, top);
        if (!made)
            return NULL;
        vec_push(arena, &t->made, made);
        value_map_set(&t->number, top, (int)t->made.n);
        open.n--;
    }
    return turned_known(t, value);
}

/* Whether operands have the axes of their products, so that either may be the other. */
static bool turned_has_batches(const Relay *relay) {
    bool has = true;
    for (int i = 0; i < relay->n_first; i++)
        for (int k = 0; k < 2; k++)
            has = has && relay->first[i]->in[k]->rank == relay->first[i]->rank;
    return has;
}

static Value *turned_rule(Rewrite *rewrite, Value *value) {
    Value *held =
        value->op == OP_matmul && value->in[0]->rank == value->rank ? turned_operand(value->in[0]) : NULL;
    Relay relay;
    if (!held || !relay_is_last(rewrite->graph, value) ||
        !relay_between(rewrite->pass->arena, rewrite->graph, held, &relay) || !turned_has_batches(&relay))
        return value;
    Turned t = {.rewrite = rewrite, .product = value, .number = {.arena = rewrite->pass->arena}};
    Value *turned = turned_value(&t, &relay, held);
    if (!turned || !value_same_dims(turned, value->in[0]))
        return value;
    pass_decide(rewrite->pass, "relay", true, value, held, NULL,
                "what it reads transposed is computed again the other way around, in registers");
    Value *in[] = {turned, value->in[1]};
    Value *made = build_like(rewrite, value, in);
    return made ? made : value;
}

bool pass_turned(Pass *pass, Graph *graph) {
    const FuseLimits *limits = pass->options->limits;
    return !pass->options->no_fusion && limits->chain_columns_max > 0 &&
           rewrite_graph(pass, graph, turned_rule);
}
