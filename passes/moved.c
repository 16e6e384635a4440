/* An output that a kernel computes anyway under other dims, for what it reduces, is what that computes,
 * moved: the kernel then stores it, where one of its own would read everything once more.
 *
 *     s = x + r;  m = mean(u + v, over=[2, 3])         u, v: x, r as [N, G, C / G, H * W], or channels first
 * ->  s = reshape(u + v)
 *
 * It comes behind all passes that move reshapes and transposes up: they would take the movement apart again.
 */
#include "passes/rewrite.h"

enum { MOVED_STEPS = 6, MOVED_BUDGET = 64, MOVED_PAIRS = 4096, MOVED_LEAST = 1 << 16 /* elements */ };

/* Reshapes and transposes between a value and what it is of, the outermost first. */
typedef struct MovedPath {
    const Value *step[MOVED_STEPS];
    int n;
    Value *base;
} MovedPath;

/* What one value is of another: the same, element by element, of tensors that lie in the one along `path`. */
typedef struct Moved {
    MovedPath path; /* base: NULL: no tensor was met */
    const Dim *count;
    const Graph *graph;
    int budget;
} Moved;

static bool moved_path(Value *value, MovedPath *path) {
    path->n = 0;
    while (value->op == OP_reshape || value->op == OP_transpose) {
        if (path->n == MOVED_STEPS)
            return false;
        path->step[path->n++] = value;
        value = value->in[0];
    }
    path->base = value;
    return true;
}

static bool moved_is_same_step(const Value *a, const Value *b) {
    if (a->op != b->op || !value_same_dims(a, b))
        return false;
    for (int i = 0; a->op == OP_transpose && i < a->rank; i++)
        if (a->attrs[0].ints[i] != b->attrs[0].ints[i])
            return false;
    return true;
}

/* Whether `inner`, as the kernel has it, is of the tensor that `outer` reads in its own order; and the path
 * is that of all others. */
static bool moved_is_tensor(Moved *moved, Value *outer, Value *inner) {
    MovedPath path, plain;
    if (value_count(moved->graph, inner) != moved->count ||
        value_count(moved->graph, outer) != moved->count || !moved_path(inner, &path) ||
        !moved_path(outer, &plain) || path.base != plain.base)
        return false;
    for (int i = 0; i < plain.n; i++)
        if (plain.step[i]->op != OP_reshape)
            return false;
    if (!moved->path.base) {
        moved->path = path;
        return true;
    }
    bool is_same = path.n == moved->path.n && value_same_dims(path.base, moved->path.base);
    for (int i = 0; i < path.n && is_same; i++)
        is_same = moved_is_same_step(path.step[i], moved->path.step[i]);
    return is_same;
}

static bool moved_is(Moved *moved, Value *outer, Value *inner) {
    if (--moved->budget < 0 || outer->dtype != inner->dtype)
        return false;
    if (outer == inner)
        return outer->rank == 0;
    if (!value_is_pointwise(outer) || outer->op != inner->op || outer->n_in != inner->n_in ||
        value_count(moved->graph, outer) != moved->count || value_count(moved->graph, inner) != moved->count)
        return moved_is_tensor(moved, outer, inner);
    for (int i = 0; i < outer->n_in; i++)
        if (!moved_is(moved, outer->in[i], inner->in[i]))
            return false;
    return true;
}

/* Whether something computed of a value, over its dims, is reduced. */
static bool moved_is_reduced(const Graph *graph, const Value *value) {
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *at = graph->values.at[i];
        if (value_class(at) == OPCLASS_REDUCTION && value_same_dims(at->in[0], value) &&
            value_is_computed_from(at->in[0], value))
            return true;
    }
    return false;
}

/* The value along the path back to its end, and then under the dims of `like`. */
static Value *moved_back(Rewrite *rewrite, const MovedPath *path, Value *value, const Value *like) {
    for (int i = 0; i < path->n && value; i++) {
        const Value *step = path->step[i], *below = step->in[0];
        int inverse[RANK_MAX];
        for (int k = 0; step->op == OP_transpose && k < step->rank; k++)
            inverse[step->attrs[0].ints[k]] = k;
        value = step->op == OP_transpose
                    ? build_transpose(rewrite, value, inverse, like)
                    : build_reshape(rewrite, value, below->rank, (const Dim *const *)below->dims, like);
    }
    while (value && value->op == OP_reshape)
        value = value->in[0];
    return value ? build_reshape(rewrite, value, like->rank, (const Dim *const *)like->dims, like) : NULL;
}

static Value *moved_rule(Rewrite *rewrite, Value *value) {
    const Graph *graph = rewrite->graph;
    int *pairs = rewrite->pass->state;
    const Dim *count = value_count(graph, value);
    Value *outer = value;
    if (!value_is_output(graph, value) || !dim_is_const(count) || count->value < MOVED_LEAST)
        return value;
    while (outer->op == OP_reshape && rewrite_uses(rewrite, outer) <= 1)
        outer = outer->in[0];
    if (!value_is_pointwise(outer) || rewrite_uses(rewrite, outer) > 1 || rewrite_is_heavy(rewrite, outer))
        return value;
    for (size_t i = 0; i < rewrite->n_before && *pairs < MOVED_PAIRS; i++) {
        Value *inner = graph->values.at[i];
        Moved moved = {.count = count, .graph = graph, .budget = MOVED_BUDGET};
        if (inner == outer || inner->op != outer->op || inner->dtype != outer->dtype ||
            value_count(graph, inner) != count || value_same_dims(inner, outer))
            continue;
        ++*pairs;
        if (!moved_is(&moved, outer, inner) || !moved.path.base || !moved_is_reduced(graph, inner))
            continue;
        Value *fresh = moved_back(rewrite, &moved.path, inner, value);
        if (!fresh || !value_same_dims(fresh, value))
            return value;
        pass_decide(rewrite->pass, "sibling", true, fresh, inner, NULL,
                    "the kernel that reduces what is computed of it has it under other dims");
        return fresh;
    }
    return value;
}

bool pass_moved(Pass *pass, Graph *graph) {
    int pairs = 0;
    if (pass->options->no_fusion)
        return false;
    pass->state = &pairs;
    return rewrite_graph(pass, graph, moved_rule);
}
