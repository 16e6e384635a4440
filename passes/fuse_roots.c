/* What a kernel computes, and others want in several forms, is stored in the one that all of them come of:
 *
 *     h = x @ w.T + b                  kernel: writes h alone
 *     e = exp(-h * h / 2)
 *     g = 1 + erf(h / sqrt(2))
 *     d = dy @ u * (e * h + g)         another: computes e and g of it again
 *
 * Value by value, the walk back (fuse_store.c) sees that to store e costs what storing what it is computed of
 * does, and would store both. So before it, each value that others want is followed down as long as it is
 * computed of one tensor, in several ways that meet again (s * (1 - s)) and beside what is slight (a number a
 * channel), and what several such ways lead to is their root. Others may read it in another shape. */
#include "passes/fuse.h"

typedef struct Roots {
    Fuse *fuse;
    bool *is_wanted;  /* by id: kernels other than its own compute with it, element by element, and nothing
                         else */
    bool *is_kept;    /* by id: read by others in a way that it is stored for */
    int64_t *leading; /* bytes of wanted values whose ways lead to it; its own, too */
} Roots;

/* Whether a value may be computed again where it is wanted. */
static bool roots_can_again(const Roots *roots, const Value *value) {
    const FuseNode *node = fuse_node(roots->fuse, value);
    return node->home && value_is_pointwise(value) && !node->barrier && !node->is_read_whole &&
           !value_is_output(roots->fuse->graph, value);
}

/* Whether it is so little beside the columns that its kernel goes through that reading two forms takes
 * nothing, and computing one again for each element of these something. What rows have is computed once for
 * each. */
static bool roots_is_of_columns(const Fuse *fuse, const Value *value) {
    enum { LITTLE = 16 };
    const Group *home = fuse_home(fuse, value);
    int64_t elements = fuse_count(fuse, value->rank, (const Dim *const *)value->dims);
    return home->kind == TEMPLATE_COLUMNS && elements <= fuse_count(fuse, home->rank, home->dims) / LITTLE;
}

static void roots_find_wanted(Roots *roots) {
    const Fuse *fuse = roots->fuse;
    const Graph *graph = fuse->graph;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *user = graph->values.at[i], *base = space_stored_base(fuse, user);
        const Group *home = fuse_home(fuse, user);
        if (base != user) {
            roots->is_kept[base->id] |= value_is_output(graph, user);
            continue; /* whoever reads the view is met */
        }
        for (int k = 0; k < user->n_in; k++) {
            const Value *value = space_stored_base(fuse, user->in[k]);
            if (home == fuse_home(fuse, value))
                continue;
            if (!value_is_pointwise(user) || fuse_node(fuse, user)->barrier)
                roots->is_kept[value->id] = true;
            else
                roots->is_wanted[value->id] = true;
        }
    }
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        roots->is_wanted[i] &=
            !roots->is_kept[i] && fuse_home(fuse, value) && !roots_is_of_columns(fuse, value);
    }
}

enum { ROOTS_WIDTH = 8 };

/* Adds the operands of `value` that are tensors of its size to those that are open, each once; false: there
 * is no room, or one is not of its kernel and dims. */
static bool roots_open(const Roots *roots, const Value *value, Value **open, int *n) {
    const Fuse *fuse = roots->fuse;
    for (int i = 0; i < value->n_in; i++) {
        Value *in = value->in[i];
        bool is_open = fuse_node(fuse, in)->free || fuse_is_slight(fuse, in, value);
        for (int k = 0; k < *n && !is_open; k++)
            is_open = open[k] == in;
        if (is_open)
            continue;
        if (*n == ROOTS_WIDTH || fuse_home(fuse, in) != fuse_home(fuse, value) || !value_same_dims(in, value))
            return false;
        open[(*n)++] = in;
    }
    return true;
}

/* The nearest tensor that a value is computed of alone, beside what is slight: s * (1 - s) of what s is of.
 * `cost` grows by what lies between, the value with it, and `marks` has it set; NULL: there is none, or
 * computing all of it again is dear. */
static Value *roots_next(const Roots *roots, const Value *value, int64_t *cost, bool *marks) {
    Value *open[ROOTS_WIDTH];
    int n = 0;
    for (const Value *at = value;;) {
        *cost += fuse_op_cost(at);
        if (*cost > roots->fuse->limits->inline_cost_max || !roots_can_again(roots, at) ||
            !roots_open(roots, at, open, &n))
            return NULL;
        if (marks)
            marks[at->id] = true;
        if (n <= 1)
            return n ? open[0] : NULL;
        int last = 0; /* which the others cannot be computed of */
        for (int k = 1; k < n; k++)
            last = open[k]->id > open[last]->id ? k : last;
        at = open[last];
        open[last] = open[--n];
    }
}

/* On the way down from a wanted value, what saves the most bytes if it is stored instead of all that lead
 * there; NULL: none saves more than the value itself. */
static const Value *roots_of(const Roots *roots, const Value *value) {
    int64_t cost = 0, own = fuse_bytes(roots->fuse, value), most = roots->leading[value->id] - own;
    const Value *best = NULL;
    for (const Value *at = roots_next(roots, value, &cost, NULL); at;
         at = roots_next(roots, at, &cost, NULL)) {
        int64_t bytes = fuse_bytes(roots->fuse, at), saved = roots->leading[at->id];
        bool is_there = roots->is_kept[at->id] || value_is_output(roots->fuse->graph, at);
        if (!is_there)
            saved -= bytes;
        if (saved > most && (!(is_there || roots->is_wanted[at->id]) || bytes <= own)) {
            most = saved;
            best = at;
        }
    }
    return best;
}

void fuse_roots(Fuse *fuse) {
    const Graph *graph = fuse->graph;
    size_t n = graph->values.n + 1;
    Roots roots = {.fuse = fuse,
                   .is_wanted = ARENA_ARRAY(fuse->arena, bool, n),
                   .is_kept = ARENA_ARRAY(fuse->arena, bool, n),
                   .leading = ARENA_ARRAY(fuse->arena, int64_t, n)};
    fuse->has_root = ARENA_ARRAY(fuse->arena, bool, n);
    roots_find_wanted(&roots);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        int64_t cost = 0, bytes = fuse_bytes(fuse, value);
        for (const Value *at = roots.is_wanted[i] ? value : NULL; at;
             at = roots_next(&roots, at, &cost, NULL))
            roots.leading[at->id] += bytes;
    }
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i], *root = roots.is_wanted[i] ? roots_of(&roots, value) : NULL;
        int64_t cost = 0;
        for (const Value *at = root ? value : NULL; at && at != root;)
            at = roots_next(&roots, at, &cost, fuse->has_root);
    }
    for (size_t i = 0; i < graph->values.n; i++)
        fuse->has_root[i] &= !roots.is_kept[i];
}
