/* What a product reads transposed, and what is computed element by element of products of few k, is computed
 * again the other way around for it:
 *
 *     s = q @ k.T                            s' = k @ q.T
 *     e = cast(exp(s - l), bf16)       ->    e' = cast(exp(s' - l.T), bf16)
 *     dv = e.T @ do                          dv = e' @ do
 *
 * so that one kernel computes e' in registers and multiplies it from there (fuse_relay.c), and no kernel
 * stores it: the gradients of attention. Multiplying twice along a k of 128 takes less than a third of what
 * 16 bits take to be written and read.
 *
 * A product that reads it as it was, dq = e @ k, then reads e'.T, and goes across the same kernel. */
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

static Value *turned_view(Turned *t, Value *value) {
    Value *operand = value_turned(value);
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

static Value *turned_power(Turned *t, Value *x, Value *logarithm) {
    Value *below = logarithm ? build_scalar(t->rewrite, OP_sub, x, logarithm, NULL, t->product) : NULL;
    return below ? build_scalar(t->rewrite, OP_exp, below, NULL, NULL, t->product) : NULL;
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
        Value *x, *logarithm =
                      is_again ? relay_logarithm(t->rewrite->graph, t->rewrite->pass->diags, top, &x) : NULL;
        if (logarithm && !turned_known(t, x)) {
            vec_push(arena, &open, x);
            continue;
        }
        if (logarithm)
            made = turned_power(t, turned_known(t, x), turned_view(t, logarithm));
        for (int i = 0; i < top->n_in && is_again && !logarithm; i++) {
            in[i] = top->op == OP_matmul ? turned_view(t, top->in[i]) : turned_known(t, top->in[i]);
            if (in[i])
                continue;
            waits = true;
            vec_push(arena, &open, top->in[i]);
        }
        if (waits)
            continue;
        if (!logarithm)
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

/* What a reshape joins the heads that share keys of with their rows: [..., H, S, T] as [..., J, H / J * S,
 * T]; NULL: it does something else. */
static Value *turned_heads(Value *joined) {
    Value *apart = joined->op == OP_reshape ? joined->in[0] : NULL;
    int rank = joined->rank;
    if (!apart || apart->rank != rank || rank < 3 || rank == RANK_MAX ||
        apart->dims[rank - 1] != joined->dims[rank - 1])
        return NULL;
    for (int i = 0; i < rank - 3; i++)
        if (apart->dims[i] != joined->dims[i])
            return NULL;
    return apart;
}

/* Turned products of heads by themselves, added up for those that `whole` joins; NULL: not so. */
static Value *turned_sum(Rewrite *rewrite, Value *whole, Value *product) {
    DimTable *table = rewrite->graph->dims;
    const Dim *dims[RANK_MAX];
    int rank = whole->rank;
    const Dim *heads = whole->dims[rank - 3], *all = product->dims[rank - 3];
    if (!dim_is_const(heads) || !dim_is_const(all) || heads->value < 1 || all->value % heads->value)
        return NULL;
    memcpy(dims, product->dims, sizeof *dims * (size_t)(rank - 3));
    dims[rank - 3] = heads;
    dims[rank - 2] = dim_const(table, all->value / heads->value);
    dims[rank - 1] = product->dims[rank - 2];
    dims[rank] = product->dims[rank - 1];
    int perm[RANK_MAX] = {rank - 2}; /* what is reduced leads */
    for (int i = 0; i < rank; i++)
        perm[i + 1] = i < rank - 2 ? i : i + 1;
    Value *apart = build_reshape(rewrite, product, rank + 1, dims, whole);
    Value *leading = apart ? build_transpose(rewrite, apart, perm, whole) : NULL;
    return leading ? build_reduce(rewrite, OP_sum, leading, 1, (int[]){0}, false, whole) : NULL;
}

static bool turned_is_product(const Value *value) {
    return value->op == OP_matmul && value->in[0]->rank == value->rank && value->in[1]->rank == value->rank;
}

/* Of what a product reads transposed, and perhaps of joined heads (*apart): that; NULL: it reads no such. */
static Value *turned_read(const Value *value, Value **apart) {
    Value *read = turned_is_product(value) ? value_turned(value->in[0]) : NULL;
    *apart = read ? turned_heads(read) : NULL;
    return *apart ? *apart : read;
}

/* Whether some product reads `held` transposed. */
static bool turned_is_wanted(const Graph *graph, const Value *held) {
    Value *apart;
    for (size_t i = 0; i < graph->values.n; i++)
        if (turned_read(graph->values.at[i], &apart) == held)
            return true;
    return false;
}

/* A product of what others read transposed, so of what is computed the other way around for these: it goes
 * across their kernel (relay.h), which has both. NULL: it is none, or would not. */
static Value *turned_across(Rewrite *rewrite, Value *value) {
    Relay relay;
    Value *held = turned_is_product(value) ? value->in[0] : NULL;
    if (!held || !relay_between(rewrite->pass->arena, rewrite->graph, held, &relay) ||
        !turned_has_batches(&relay) || !turned_is_wanted(rewrite->graph, held))
        return NULL;
    Turned t = {.rewrite = rewrite, .product = value, .number = {.arena = rewrite->pass->arena}};
    Value *in[] = {build_turned(rewrite, turned_value(&t, &relay, held), value), value->in[1]};
    Value *made = in[0] ? build_like(rewrite, value, in) : NULL;
    if (!made || !value_same_dims(made, value) ||
        !relay_is_across(rewrite->pass->arena, rewrite->graph, made))
        return NULL;
    pass_decide(rewrite->pass, "relay", true, made, held, NULL,
                "it goes across the kernel that computes what it reads the other way around");
    return made;
}

static Value *turned_rule(Rewrite *rewrite, Value *value) {
    Value *apart, *held = turned_read(value, &apart), *second = value->op == OP_matmul ? value->in[1] : NULL;
    Relay relay;
    Value *across = held ? NULL : turned_across(rewrite, value);
    if (across)
        return across;
    if (!held || (!apart && !relay_is_last(rewrite->graph, value)) ||
        !relay_between(rewrite->pass->arena, rewrite->graph, held, &relay) || !turned_has_batches(&relay))
        return value;
    Turned t = {.rewrite = rewrite, .product = value, .number = {.arena = rewrite->pass->arena}};
    Value *turned = turned_value(&t, &relay, held);
    if (apart) {
        const Dim *dims[RANK_MAX];
        memcpy(dims, apart->dims, sizeof *dims * (size_t)apart->rank);
        dims[apart->rank - 1] = second->dims[second->rank - 1];
        Value *heads = turned_heads(second);
        second = heads && heads->dims[heads->rank - 3] == dims[apart->rank - 3] &&
                         heads->dims[heads->rank - 2] == dims[apart->rank - 2]
                     ? heads
                     : build_reshape(rewrite, second, apart->rank, dims, value);
    }
    if (!turned || !second || (!apart && !value_same_dims(turned, value->in[0])))
        return value;
    Value *in[] = {turned, second}, *made = build_like(rewrite, value, in);
    if (made && apart)
        made = !relay_is_last(rewrite->graph, made) ? NULL : turned_sum(rewrite, value, made);
    if (!made || !value_same_dims(made, value))
        return value;
    pass_decide(rewrite->pass, "relay", true, made, held, NULL,
                "what it reads transposed is computed again the other way around, in registers");
    return made;
}

bool pass_turned(Pass *pass, Graph *graph) {
    const FuseLimits *limits = pass->options->limits;
    return !pass->options->no_fusion && limits->chain_columns_max > 0 &&
           rewrite_graph(pass, graph, turned_rule);
}
