/* What is computed of products of few k, where kernels that do not become one want it: each computes it for
 * itself, as writing and reading it takes longer than multiplying along few k again (relay.h). So the weights
 * of attention, where gradients want them, from the rows' largest and sum, which the kernel of the two
 * products stores.
 *
 *     p = exp(x - m) / l           kernel: o = p @ v, m, l, where nothing else wants p
 *     e = p * (d - r)              p' = exp(x' - m) / l        in the kernel of what is computed of e
 *
 * Runs behind all that would find the copies equal to what they are copies of. */
#include "ir/softmax.h"
#include "ir/value_map.h"
#include "passes/relay.h"
#include "passes/rewrite.h"

#include <string.h>

typedef struct Again {
    Pass *pass;
    Graph *graph;
    ValueMap inner; /* what the weights are computed of in their dims: 1 + its copy's number, or 1 */
    VEC(Value *) copies;
} Again;

static void again_mark(Again *again, const Relay *relay) {
    for (int i = 0; i < relay->n_first; i++)
        value_map_set(&again->inner, relay->first[i], 1);
    for (size_t i = 0; i < relay->between.n; i++)
        value_map_set(&again->inner, relay->between.at[i], 1);
}

static Value *again_append(Again *again, OpKind op, Value **in, int n_in, const Value *like) {
    return graph_append(again->graph, op, in, n_in, op == like->op ? like->attrs : NULL, like->span,
                        again->pass->diags);
}

/* The copy of an inner value, made behind those of its operands; NULL: a defect. What lies between is bounded
 * (relay_between), and so is the recursion. */
static Value *again_copy(Again *again, Value *value) {
    int number = value_map_get(&again->inner, value);
    if (number == 0)
        return value;
    if (number > 1)
        return again->copies.at[number - 2];
    Value *in[OP_MAX_ARITY] = {0}, *x, *copy = NULL;
    Value *logarithm = relay_logarithm(again->graph, again->pass->diags, value, &x);
    for (int i = 0; i < value->n_in && !logarithm; i++)
        in[i] = again_copy(again, value->in[i]);
    if (logarithm) {
        in[0] = again_copy(again, x);
        in[1] = logarithm;
        in[0] = again_append(again, OP_sub, in, 2, value);
        copy = again_append(again, OP_exp, in, 1, value);
    } else {
        copy = again_append(again, value->op, in, value->n_in, value);
    }
    if (!copy)
        return NULL;
    vec_push(again->pass->arena, &again->copies, copy);
    value_map_set(&again->inner, value, (int)again->copies.n + 1);
    return copy;
}

/* Whether `user` is another than the attention that the weights are of. */
static bool again_is_other(const Again *again, const Softmax *softmax, const Value *product,
                           const Value *user, int operand) {
    bool is_own = value_map_get(&again->inner, user) || user == softmax->max || user == softmax->sum ||
                  (user == product && operand == 0);
    return !is_own && value_map_get(&again->inner, user->in[operand]);
}

static bool again_product(Pass *pass, Graph *graph, Value *product) {
    Relay relay;
    Softmax softmax;
    if (product->op != OP_matmul || !softmax_of(product->in[0], &softmax) || !relay_is_last(graph, product) ||
        !relay_between(pass->arena, graph, product->in[0], &relay))
        return false;
    Again again = {.pass = pass, .graph = graph, .inner = {.arena = pass->arena}};
    again_mark(&again, &relay);
    size_t n = graph->values.n;
    bool changed = false;
    for (size_t i = 0; i < n; i++) {
        Value *user = graph->values.at[i];
        for (int k = 0; k < user->n_in; k++) {
            if (!again_is_other(&again, &softmax, product, user, k))
                continue;
            Value *copy = again_copy(&again, user->in[k]);
            if (!copy)
                return changed;
            user->in[k] = copy;
            changed = true;
        }
    }
    if (changed)
        pass_decide(pass, "relay", true, product, product->in[0], NULL,
                    "others compute its weights again, in registers, from their rows' largest and sum");
    return changed;
}

/* Products that could be last ones of a relay. */
typedef struct AgainLast {
    Value *product;
    Relay relay;
} AgainLast;

/* Whether one kernel has room for both last products' sums: they have equal dims, and few columns. */
static bool again_has_room(const Graph *graph, const Value *a, const Value *b) {
    int64_t columns = dim_upper(graph->dims, a->dims[a->rank - 1]);
    return value_same_dims(a, b) && columns <= RELAY_ACCUMULATORS / RELAY_LAST;
}

/* Whether to multiply again takes less than to store what first products give, which is more than their rows
 * are, or each matrix has a second operand of its own; not so two halves of a gate behind a projection. */
static bool again_pays(const Relay *relay) {
    bool pays = true;
    for (int i = 0; i < relay->n_first; i++) {
        const Value *first = relay->first[i], *rows = first->in[0];
        const Dim *columns = first->dims[first->rank - 1], *depth = rows->dims[rows->rank - 1];
        bool is_more = !dim_is_const(columns) || !dim_is_const(depth) || columns->value > depth->value;
        pays = pays && (is_more || first->in[1]->rank > 2);
    }
    return pays;
}

/* Last products that one kernel does not take with one before them that is computed of the same: values
 * deeper than queries, or more than 128 columns of each. Each gets what it is computed of for itself. (H200,
 * gradients of 3 x 8 causal heads of 3072 x 256: 1770 us with weights in memory.) */
static bool again_apart(Pass *pass, Graph *graph) {
    VEC(AgainLast) lasts = {0};
    bool changed = false;
    for (size_t i = 0; i < graph->values.n; i++) {
        AgainLast last = {.product = graph->values.at[i]};
        if (last.product->op == OP_matmul && relay_is_last(graph, last.product) &&
            relay_between(pass->arena, graph, last.product->in[0], &last.relay))
            vec_push(pass->arena, &lasts, last);
    }
    for (size_t i = 0; i < lasts.n; i++) {
        bool is_apart = false;
        const AgainLast *own = &lasts.at[i];
        for (size_t k = 0; k < i; k++)
            is_apart = is_apart || (relay_share_first(&own->relay, &lasts.at[k].relay) &&
                                    !again_has_room(graph, own->product, lasts.at[k].product));
        if (!is_apart || !again_pays(&own->relay))
            continue;
        Again again = {.pass = pass, .graph = graph, .inner = {.arena = pass->arena}};
        again_mark(&again, &own->relay);
        Value *copy = again_copy(&again, own->product->in[0]);
        if (!copy)
            return changed;
        own->product->in[0] = copy;
        changed = true;
    }
    if (changed)
        graph_sort(graph);
    return changed;
}

bool pass_again(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits->chain_columns_max)
        return false;
    bool changed = false;
    size_t n = graph->values.n;
    Value **values = ARENA_ARRAY(pass->arena, Value *, n + 1);
    memcpy(values, graph->values.at, n * sizeof *values);
    for (size_t i = 0; i < n && pass->diags->errors == 0; i++)
        if (again_product(pass, graph, values[i])) {
            changed = true;
            graph_sort(graph);
        }
    return again_apart(pass, graph) || changed;
}
