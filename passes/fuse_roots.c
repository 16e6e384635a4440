/* What a kernel computes, and others want in several forms, is stored in the one that all of them come of:
 *
 *     h = x @ w.T + b                  kernel: writes h alone
 *     e = exp(-h * h / 2)
 *     g = 1 + erf(h / sqrt(2))
 *     d = dy @ u * (e * h + g)         another: computes e and g of it again
 *
 * Value by value, the walk back (fuse_store.c) sees that to store e costs what storing what it is computed of
 * does, and would store both. So before it, each value that others want is followed down as long as it is
 * computed of one tensor, and what several such ways lead to is their root. */
#include "passes/fuse.h"

typedef struct Roots {
    Fuse *fuse;
    bool *is_wanted;  /* by id: kernels other than its own compute with it, element by element, and nothing
                         else */
    int64_t *leading; /* bytes of wanted values whose ways lead to it; its own, too */
} Roots;

/* Whether a value may be computed again where it is wanted. */
static bool roots_can_again(const Roots *roots, const Value *value) {
    const FuseNode *node = fuse_node(roots->fuse, value);
    return node->home && value_is_pointwise(value) && !node->barrier && !node->is_read_whole &&
           !value_is_output(roots->fuse->graph, value);
}

static void roots_find_wanted(Roots *roots) {
    const Fuse *fuse = roots->fuse;
    const Graph *graph = fuse->graph;
    bool *is_kept = ARENA_ARRAY(fuse->arena, bool, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *user = graph->values.at[i];
        const Group *home = fuse_home(fuse, user);
        for (int k = 0; k < user->n_in; k++) {
            const Value *value = user->in[k];
            if (!home || !value_is_pointwise(user) || fuse_node(fuse, user)->barrier)
                is_kept[value->id] = is_kept[value->id] || home != fuse_home(fuse, value);
            else if (home != fuse_home(fuse, value))
                roots->is_wanted[value->id] = true;
        }
    }
    for (size_t i = 0; i < graph->values.n; i++)
        roots->is_wanted[i] &= !is_kept[i] && fuse_home(fuse, graph->values.at[i]);
}

/* The one tensor of the same kernel that a value is computed of, beside numbers and what is much smaller;
 * NULL: there is none. */
static Value *roots_below(const Roots *roots, const Value *value) {
    enum { SMALL = 16 };
    const Fuse *fuse = roots->fuse;
    Value *below = NULL;
    if (!roots_can_again(roots, value))
        return NULL;
    for (int i = 0; i < value->n_in; i++) {
        Value *in = value->in[i];
        if (fuse_node(fuse, in)->free || in == below)
            continue;
        bool is_small = in->op == OP_input && fuse_bytes(fuse, in) <= fuse_bytes(fuse, value) / SMALL;
        if (is_small)
            continue;
        if (below || fuse_home(fuse, in) != fuse_home(fuse, value) || !value_same_dims(in, value))
            return NULL;
        below = in;
    }
    return below;
}

/* What lies below on the way, while computing all of it again is cheap; NULL at its end. */
static Value *roots_next(const Roots *roots, const Value *value, int64_t *cost) {
    *cost += fuse_op_cost(value);
    return *cost <= roots->fuse->limits->inline_cost_max ? roots_below(roots, value) : NULL;
}

/* The nearest value on the way down from a wanted one that is narrower than all the wanted ones that lead to
 * it; NULL: there is none. */
static const Value *roots_of(const Roots *roots, const Value *value) {
    int64_t cost = 0, own = fuse_bytes(roots->fuse, value);
    for (const Value *at = roots_next(roots, value, &cost); at; at = roots_next(roots, at, &cost)) {
        int64_t bytes = fuse_bytes(roots->fuse, at);
        bool is_stored = roots->is_wanted[at->id] || value_is_output(roots->fuse->graph, at);
        bool pays = is_stored ? bytes <= own : roots->leading[at->id] > bytes;
        if (pays)
            return at;
    }
    return NULL;
}

void fuse_roots(Fuse *fuse) {
    const Graph *graph = fuse->graph;
    size_t n = graph->values.n + 1;
    Roots roots = {.fuse = fuse,
                   .is_wanted = ARENA_ARRAY(fuse->arena, bool, n),
                   .leading = ARENA_ARRAY(fuse->arena, int64_t, n)};
    fuse->has_root = ARENA_ARRAY(fuse->arena, bool, n);
    roots_find_wanted(&roots);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        int64_t cost = 0, bytes = fuse_bytes(fuse, value);
        for (const Value *at = roots.is_wanted[i] ? value : NULL; at; at = roots_next(&roots, at, &cost))
            roots.leading[at->id] += bytes;
    }
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i], *root = roots.is_wanted[i] ? roots_of(&roots, value) : NULL;
        int64_t cost = 0;
        for (const Value *at = root ? value : NULL; at && at != root; at = roots_next(&roots, at, &cost))
            fuse->has_root[at->id] = true;
    }
}
