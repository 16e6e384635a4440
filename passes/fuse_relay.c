/* Relays: one or two products of few k, what is computed of them element by element, and the one or two
 * products that alone read that as their first operand, become one kernel (relay.h). Which they are is found
 * ahead of the walk down the graph, as what lies between and two products meet in values far below.
 *
 * The kernel takes operands from memory only by TMA, as chains do. */
#include "passes/fuse.h"
#include "passes/relay.h"

struct FuseRelay {
    Relay relay;
    Group *group; /* NULL: not begun */
    bool is_refused;
};

/* ---- which there are */

static bool relay_has(Value *const *values, size_t n, const Value *value) {
    for (size_t i = 0; i < n; i++)
        if (values[i] == value)
            return true;
    return false;
}

/* Both as one; false where that is too much for a kernel. */
static bool relay_join(Fuse *fuse, const Relay *a, const Relay *b, Relay *both) {
    *both = *a;
    both->between = (RelayValues){0};
    if (!relay_share_first(a, b) || a->n_last + b->n_last > RELAY_LAST ||
        !value_same_dims(a->last[0], b->last[0]))
        return false;
    for (int i = 0; i < b->n_last; i++)
        both->last[both->n_last++] = b->last[i];
    for (int i = 0; i < b->n_first; i++) {
        if (relay_has(both->first, (size_t)both->n_first, b->first[i]))
            continue;
        if (both->n_first == RELAY_FIRST)
            return false;
        both->first[both->n_first++] = b->first[i];
    }
    for (size_t i = 0; i < a->between.n; i++)
        vec_push(fuse->arena, &both->between, a->between.at[i]);
    for (size_t i = 0; i < b->between.n; i++)
        if (!relay_has(a->between.at, a->between.n, b->between.at[i]))
            vec_push(fuse->arena, &both->between, b->between.at[i]);
    int64_t columns = 0;
    for (int i = 0; i < both->n_last; i++)
        columns += dim_upper(fuse->graph->dims, both->last[i]->dims[both->last[i]->rank - 1]);
    return columns <= RELAY_ACCUMULATORS;
}

/* Stamps what the relay's kernel computes: what comes first and lies between with the number returned, last
 * products with one more. */
static int relay_stamp(Fuse *fuse, const Relay *relay) {
    int inner = ++fuse->stamp, last = ++fuse->stamp;
    for (int i = 0; i < relay->n_first; i++)
        fuse->stamps[relay->first[i]->id] = inner;
    for (size_t i = 0; i < relay->between.n; i++)
        fuse->stamps[relay->between.at[i]->id] = inner;
    for (int i = 0; i < relay->n_last; i++)
        fuse->stamps[relay->last[i]->id] = last;
    if (relay->across) {
        fuse->stamps[relay->across->in[0]->id] = inner;
        fuse->stamps[relay->across->id] = last;
    }
    return inner;
}

/* Whether nobody else needs what it does not store, and it waits for nothing that waits for it. */
static bool relay_is_closed(Fuse *fuse, const Relay *relay) {
    const Graph *graph = fuse->graph;
    int inner = relay_stamp(fuse, relay), last = inner + 1, behind = ++fuse->stamp;
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        int *stamp = &fuse->stamps[i];
        bool is_inner = *stamp == inner, is_last = *stamp == last;
        if (is_inner && (value_is_output(graph, value) || fuse_node(fuse, value)->barrier))
            return false;
        for (int k = 0; k < value->n_in; k++) {
            int operand = fuse->stamps[value->in[k]->id];
            bool may_read_inner = is_inner || (is_last && k == 0);
            if (operand == inner && !may_read_inner)
                return false;
            if ((operand == behind || operand == last) && (is_inner || is_last))
                return false;
            if (operand == behind || operand == last)
                *stamp = behind;
        }
    }
    return true;
}

/* Whether a chain takes the same in registers whole. */
static bool relay_is_chain(const Fuse *fuse, const Relay *relay) {
    const Value *first = relay->first[0];
    return relay->n_first + relay->n_last == 2 &&
           dim_upper(fuse->graph->dims, first->dims[first->rank - 1]) <= fuse->limits->chain_columns_max;
}

static bool relay_is_refused(const Fuse *fuse, const Relay *relay) {
    bool is_refused = false;
    for (int i = 0; i < relay->n_first; i++)
        is_refused = is_refused || fuse->known->refused[relay->first[i]->id] & REFUSED_PRODUCT;
    for (int i = 0; i < relay->n_last; i++)
        is_refused = is_refused || fuse->known->refused[relay->last[i]->id] & REFUSED_PRODUCT;
    if (relay->across)
        is_refused = is_refused || fuse->known->refused[relay->across->id] & REFUSED_PRODUCT;
    return is_refused;
}

static void relay_mark(Fuse *fuse, FuseRelay *relay) {
    const Relay *r = &relay->relay;
    for (int i = 0; i < r->n_first; i++)
        fuse->relay_of[r->first[i]->id] = relay;
    for (size_t i = 0; i < r->between.n; i++)
        fuse->relay_of[r->between.at[i]->id] = relay;
    for (int i = 0; i < r->n_last; i++)
        fuse->relay_of[r->last[i]->id] = relay;
    if (r->across)
        fuse->relay_of[r->across->in[0]->id] = fuse->relay_of[r->across->id] = relay;
}

/* The product that goes across the kernel of these last ones; NULL: there is none. */
static Value *relay_find_across(Fuse *fuse, const Relay *relay) {
    const Graph *graph = fuse->graph;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        if (!relay_is_across(fuse->arena, graph, value))
            continue;
        for (int k = 0; k < relay->n_last; k++)
            if (relay->last[k]->in[0] == value_turned(value->in[0]) &&
                relay->last[k]->dims[value->rank - 1] == value->dims[value->rank - 1])
                return value;
    }
    return NULL;
}

/* The relay of a product and of one below it that is computed of the same; or of the product alone. */
static bool relay_of_last(Fuse *fuse, Value *last, Relay *relay) {
    const Graph *graph = fuse->graph;
    if (!relay_is_last(graph, last) || !relay_between(fuse->arena, graph, last->in[0], relay))
        return false;
    relay->last[relay->n_last++] = last;
    for (size_t i = last->id + 1; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        Relay other, both;
        if (value->op != OP_matmul || fuse->relay_of[i] || !relay_is_last(graph, value) ||
            !value_same_dims(value, last) || !relay_between(fuse->arena, graph, value->in[0], &other))
            continue;
        other.last[other.n_last++] = value;
        if (!relay_join(fuse, relay, &other, &both))
            continue;
        both.across = relay_find_across(fuse, &both);
        if (!relay_is_closed(fuse, &both) || relay_is_refused(fuse, &both))
            continue;
        *relay = both;
        return true;
    }
    relay->across = relay_find_across(fuse, relay);
    return relay_is_closed(fuse, relay) && !relay_is_chain(fuse, relay) && !relay_is_refused(fuse, relay);
}

void fuse_relays_find(Fuse *fuse) {
    const Graph *graph = fuse->graph;
    fuse->relay_of = ARENA_ARRAY(fuse->arena, FuseRelay *, graph->values.n + 1);
    if (!fuse->limits->chain_columns_max || chain_has_other_path(graph))
        return;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        Relay relay;
        if (value->op != OP_matmul || fuse->relay_of[i] || !relay_of_last(fuse, value, &relay))
            continue;
        FuseRelay *found = ARENA_NEW(fuse->arena, FuseRelay);
        found->relay = relay;
        relay_mark(fuse, found);
    }
}

/* ---- the walk down the graph */

/* Whether its kernel can have the value, by what is known of its operands now. */
static bool relay_can_take(Fuse *fuse, Group *group, Value *value, bool is_last) {
    for (int i = 0; i < value->n_in; i++)
        if (!group_can_compute(fuse, group, value->in[i]))
            return false;
    if (!group_has_room(fuse, group, value))
        return false;
    for (int i = is_last; i < 2 && value->op == OP_matmul; i++)
        if (!chain_reads(fuse, value, i))
            return false;
    return true;
}

bool fuse_relay(Fuse *fuse, Value *value) {
    FuseRelay *relay = fuse->relay_of[value->id];
    if (!relay || relay->is_refused)
        return false;
    Value *last = relay->relay.last[0], *first = relay->relay.first[0];
    if (!relay->group) {
        relay->group = group_new(fuse, TEMPLATE_MATMUL, last->rank, last->dims, 0);
        relay->group->is_chain = relay->group->is_relay = true;
    }
    bool is_across = value == relay->relay.across;
    bool is_last = is_across || relay_has(relay->relay.last, (size_t)relay->relay.n_last, value);
    if (!relay_can_take(fuse, relay->group, value, is_last)) {
        pass_decide(fuse->pass, "relay", false, last, first,
                    "operands in memory whose rows start at 16 bytes, and that wait for nothing of it",
                    "TMA cannot read what it is computed of");
        relay->is_refused = fuse->is_stale = true;
        fuse->known->refused[last->id] |= REFUSED_PRODUCT;
        return false;
    }
    if (value->op != OP_matmul) {
        group_join(fuse, relay->group, value);
        return true;
    }
    for (int i = is_last; i < 2; i++)
        chain_read(fuse, value, i);
    group_add_core(fuse, relay->group, value);
    if (is_across) {
        fuse_node(fuse, value)->barrier = true; /* its tiles add it up in memory */
        pass_decide(fuse->pass, "relay", true, value, first, NULL,
                    "its first operand is there the other way around: tiles add it up in memory");
    } else if (is_last)
        pass_decide(fuse->pass, "relay", true, value, first, NULL,
                    "its first operand comes in parts, in the registers of the kernel that computes it");
    return true;
}
