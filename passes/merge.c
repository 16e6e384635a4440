/* Axes that nothing tells apart become one, in a graph without products:
 *
 *     y = gelu(x - mean(x, over=1))                             x: [500, 3, 112, 257]
 * ->  y = reshape(gelu(p - mean(p, over=1)), dims=[500, 3, 112, 257])      p = reshape(x, dims=[500, 3,
 * 28784])
 *
 * Rows of 257 elements begin anywhere, those of 28784 with 16 bytes. So that transposes have both axes long
 * enough for a tile, an axis of a few elements is joined with its neighbour even where something is the same
 * along that one, which then repeats:
 *
 *     y = transpose(x, perm=[2, 0, 1]) + b                      x: [1000, 14, 1536], b: [14]
 * ->  y = transpose(reshape(x, dims=[14000, 1536]), perm=[1, 0]) + reshape(broadcast(b, [1000, 14]),
 * dims=[14000])
 *
 * A pair of neighbouring axes of each value is in a class with those of its operands that are the same axes.
 * What reduces, moves or repeats one of the two alone keeps the class as it is. Where a product is, or
 * windows are, axes are its rows, columns and batch, and other passes see to them. */
#include "passes/pass.h"
#include "passes/rewrite.h"

enum { MERGE_SHORT = 16 /* elements of an axis that leave a transpose's tiles empty */ };

typedef struct Merge {
    const Graph *graph;
    /* by id of a value */
    const Value **operand; /* its first, in the graph as it was */
    bool *is_read;         /* something is computed of it */
    bool *is_applied;      /* something else than reductions is */
    size_t *first;         /* the class of its first pair */
    /* by class, of which many may have become one */
    size_t *into;   /* that one, or one on the way to it */
    bool *is_kept;  /* its axes stay apart */
    bool *repeats;  /* something is the same along one of the two */
    bool *is_short; /* a transpose goes along an axis of few elements */
    bool *is_plane; /* some value has several elements along both */
} Merge;

static size_t merge_class(const Merge *merge, const Value *value, int axis) {
    size_t at = merge->first[value->id] + (size_t)axis;
    while (merge->into[at] != at)
        at = merge->into[at] = merge->into[merge->into[at]];
    return at;
}

static void merge_unite(Merge *merge, size_t a, size_t b) {
    merge->into[b] = a;
    merge->is_kept[a] |= merge->is_kept[b];
    merge->repeats[a] |= merge->repeats[b];
    merge->is_short[a] |= merge->is_short[b];
    merge->is_plane[a] |= merge->is_plane[b];
}

static void merge_keep(Merge *merge, const Value *value, int axis) {
    merge->is_kept[merge_class(merge, value, axis)] = true;
}

static void merge_keep_all(Merge *merge, const Value *value) {
    for (int i = 0; i + 1 < value->rank; i++)
        merge_keep(merge, value, i);
}

/* `operand` broadcasts to `value`. */
static void merge_aligned(Merge *merge, const Value *value, const Value *operand) {
    int shift = value->rank - operand->rank;
    for (int i = 0; i + 1 < value->rank; i++) {
        bool is_there[2], is_full[2];
        for (int k = 0; k < 2; k++) {
            const Dim *own = i + k < shift ? NULL : operand->dims[i + k - shift];
            is_there[k] = own && !dim_is(own, 1);
            is_full[k] = is_there[k] || dim_is(value->dims[i + k], 1);
        }
        if (is_full[0] != is_full[1] && (is_there[0] || is_there[1]))
            merge->repeats[merge_class(merge, value, i)] = true;
        else if (i >= shift)
            merge_unite(merge, merge_class(merge, value, i), merge_class(merge, operand, i - shift));
    }
}

static void merge_transposed(Merge *merge, const Value *value) {
    const int *perm = value->attrs[0].ints;
    const Value *operand = value->in[0];
    int last = value->rank - 1, at[RANK_MAX];
    for (int i = 0; i <= last; i++)
        at[perm[i]] = i;
    for (int i = 0; i < last; i++) {
        if (perm[i + 1] != perm[i] + 1)
            merge_keep(merge, value, i);
        else
            merge_unite(merge, merge_class(merge, value, i), merge_class(merge, operand, perm[i]));
        if (at[i + 1] != at[i] + 1)
            merge_keep(merge, operand, i);
    }
    if (last < 2 || perm[last] == last)
        return;
    const Dim *ends[] = {value->dims[last], operand->dims[last]};
    int pairs[] = {last - 1, at[last] - 1};
    for (int k = 0; k < 2; k++)
        if (pairs[k] >= 0 && dim_is_const(ends[k]) && ends[k]->value < MERGE_SHORT)
            merge->is_short[merge_class(merge, value, pairs[k])] = true;
}

static void merge_reduced(Merge *merge, const Value *value) {
    const Value *operand = value->in[0];
    /* another kernel reduces the results of columns, which it reads from memory under whatever axes */
    bool is_in_parts = merge->is_read[value->id] && !merge->is_applied[value->id] && value_reduces(value, 0);
    for (int i = 0; i + 1 < operand->rank; i++) {
        if (value_is_arg(value) || value_reduces(value, i) != value_reduces(value, i + 1))
            merge_keep(merge, operand, i);
        if (value->attrs[1].i && !is_in_parts)
            merge_unite(merge, merge_class(merge, operand, i), merge_class(merge, value, i));
    }
    if (!value->attrs[1].i)
        merge_keep_all(merge, operand);
}

/* Whether a reshape is of memory, or to it: elements have the same order there whatever their axes are.
 * Others join kernels whose axes are to be the same. */
static bool merge_is_free(const Merge *merge, const Value *value) {
    return value->op == OP_reshape && (value->in[0]->op == OP_input ||
                                       (value_is_output(merge->graph, value) && !merge->is_read[value->id]));
}

static void merge_visit(Merge *merge, const Value *value) {
    if (value_is_pointwise(value) || value->op == OP_broadcast) {
        for (int i = 0; i < value->n_in; i++)
            merge_aligned(merge, value, value->in[i]);
    } else if (value->op == OP_transpose) {
        merge_transposed(merge, value);
    } else if (value_class(value) == OPCLASS_REDUCTION) {
        merge_reduced(merge, value);
    } else if (value->op == OP_input) {
        if (value->strides)
            merge_keep_all(merge, value);
    } else if (!merge_is_free(merge, value)) {
        merge_keep_all(merge, value);
        for (int i = 0; i < value->n_in; i++)
            merge_keep_all(merge, value->in[i]);
    }
}

/* Whether axes `axis` and the next of a value become one. */
static bool merge_is_wanted(const Merge *merge, const Value *value, int axis) {
    size_t at = merge_class(merge, value, axis);
    return merge->is_plane[at] && !merge->is_kept[at] && (!merge->repeats[at] || merge->is_short[at]);
}

/* Axes whose sizes are not known stay as they are. */
static void merge_check(Merge *merge, const Value *value) {
    for (int i = 0; i + 1 < value->rank; i++) {
        const Dim *const *dims = (const Dim *const *)value->dims + i;
        if (!dim_is_const(dims[0]) || !dim_is_const(dims[1]))
            merge_keep(merge, value, i);
        else if (!dim_is(dims[0], 1) && !dim_is(dims[1], 1))
            merge->is_plane[merge_class(merge, value, i)] = true;
    }
}

/* What axes become: axis i of the value is part of axis of[i]. */
typedef struct Merged {
    int rank, of[RANK_MAX];
    const Dim *dims[RANK_MAX];
} Merged;

static bool merge_find(const Merge *merge, const Value *value, Merged *merged) {
    DimTable *table = merge->graph->dims;
    *merged = (Merged){0};
    for (int i = 0; i < value->rank; i++) {
        if (i && merge_is_wanted(merge, value, i - 1)) {
            const Dim *product = dim_mul(table, merged->dims[merged->rank - 1], value->dims[i]);
            if (!product)
                return false;
            merged->dims[merged->rank - 1] = product;
        } else {
            merged->dims[merged->rank++] = value->dims[i];
        }
        merged->of[i] = merged->rank - 1;
    }
    return merged->rank < value->rank;
}

/* How an operand, whose axes are the last of a value's, spans some of these: none, some or all of them, but
 * those of one element. */
typedef enum MergeSpan { MERGE_NONE, MERGE_SOME, MERGE_ALL } MergeSpan;

static const Dim *merge_dim(const Value *value, const Value *operand, int axis, const Dim *one) {
    int shift = value->rank - operand->rank;
    return axis < shift ? one : operand->dims[axis - shift];
}

static MergeSpan merge_span(const Value *value, const Value *operand, int begin, int end, const Dim *one) {
    bool has_all = true, has_any = false;
    for (int i = begin; i < end; i++) {
        bool has = !dim_is(merge_dim(value, operand, i, one), 1);
        has_all = has_all && (has || dim_is(value->dims[i], 1));
        has_any = has_any || has;
    }
    return has_all ? MERGE_ALL : has_any ? MERGE_SOME : MERGE_NONE;
}

/* The operand with a value's axes merged, repeated along those of which it has but some. */
static Value *merge_operand(Rewrite *rewrite, const Merged *merged, const Value *value, Value *operand) {
    const Dim *dims[RANK_MAX], *full[RANK_MAX], *one = dim_const(rewrite->graph->dims, 1);
    bool repeats = false;
    int first = value->rank - operand->rank, rank = 0;
    while (first > 0 && first < value->rank && merged->of[first - 1] == merged->of[first])
        first--; /* the first axis that the operand has is part of this one's */
    for (int begin = first, end; begin < value->rank; begin = end) {
        for (end = begin + 1; end < value->rank && merged->of[end] == merged->of[begin];)
            end++;
        MergeSpan span = merge_span(value, operand, begin, end, one);
        for (int i = begin; i < end; i++)
            full[i - first] = span == MERGE_SOME ? value->dims[i] : merge_dim(value, operand, i, one);
        repeats |= span == MERGE_SOME;
        dims[rank++] = span == MERGE_NONE ? one : merged->dims[merged->of[begin]];
    }
    if (repeats && !(operand = build_broadcast(rewrite, operand, value->rank - first, full, value)))
        return NULL;
    if (operand->op == OP_reshape)
        operand = operand->in[0];
    bool is_same = operand->rank == rank;
    for (int i = 0; i < rank && is_same; i++)
        is_same = operand->dims[i] == dims[i];
    return is_same ? operand : build_reshape(rewrite, operand, rank, dims, value);
}

static Value *merge_pointwise(Rewrite *rewrite, const Merged *merged, Value *value) {
    Value *in[OP_MAX_ARITY];
    for (int i = 0; i < value->n_in; i++) {
        in[i] = value->in[i]->rank ? merge_operand(rewrite, merged, value, value->in[i]) : value->in[i];
        if (!in[i])
            return NULL;
    }
    return value->op == OP_broadcast ? build_broadcast(rewrite, in[0], merged->rank, merged->dims, value)
                                     : build_like(rewrite, value, in);
}

static Value *merge_transpose(Rewrite *rewrite, const Merged *merged, Value *value) {
    const Value *operand = value->in[0];
    Merged of = {0};
    int perm[RANK_MAX], at[RANK_MAX];
    for (int i = 0; i < value->rank; i++)
        at[value->attrs[0].ints[i]] = i;
    for (int i = 0; i < operand->rank; i++) {
        bool begins = !i || merged->of[at[i]] != merged->of[at[i - 1]];
        if (begins) {
            perm[merged->of[at[i]]] = of.rank;
            of.dims[of.rank++] = merged->dims[merged->of[at[i]]];
        }
        of.of[i] = of.rank - 1;
    }
    Value *in = merge_operand(rewrite, &of, operand, value->in[0]);
    return in ? build_transpose(rewrite, in, perm, value) : NULL;
}

static Value *merge_reduction(Rewrite *rewrite, Value *value) {
    const Merge *merge = rewrite->pass->state;
    const Value *operand = merge->operand[value->id];
    Merged of;
    int axes[RANK_MAX], n = 0;
    if (!value->attrs[1].i || !merge_find(merge, operand, &of))
        return NULL;
    for (int i = 0; i < operand->rank; i++)
        if (value_reduces(value, i) && (!i || of.of[i] != of.of[i - 1]))
            axes[n++] = of.of[i];
    Value *in = merge_operand(rewrite, &of, operand, value->in[0]);
    return in ? build_reduce(rewrite, value->op, in, n, axes, true, value) : NULL;
}

static Value *merge_rule(Rewrite *rewrite, Value *value) {
    const Merge *merge = rewrite->pass->state;
    Merged merged;
    Value *fresh = NULL;
    if (value->id >= rewrite->n_before || !value->n_in)
        return value;
    if (value_class(value) == OPCLASS_REDUCTION)
        fresh = merge_reduction(rewrite, value);
    else if (!merge_find(merge, value, &merged))
        return value;
    else if (value_is_pointwise(value) || value->op == OP_broadcast)
        fresh = merge_pointwise(rewrite, &merged, value);
    else if (value->op == OP_transpose)
        fresh = merge_transpose(rewrite, &merged, value);
    if (!fresh)
        return value;
    return build_reshape(rewrite, fresh, value->rank, (const Dim *const *)value->dims, value);
}

static bool merge_may(const Graph *graph) {
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        if (value_class(value) == OPCLASS_CONTRACTION || value->op == OP_window)
            return false;
    }
    return true;
}

static Merge *merge_new(Arena *arena, const Graph *graph) {
    Merge *merge = ARENA_NEW(arena, Merge);
    size_t n = 0, room = graph->values.n + 1;
    *merge = (Merge){.graph = graph,
                     .operand = ARENA_ARRAY(arena, const Value *, room),
                     .is_read = ARENA_ARRAY(arena, bool, room),
                     .is_applied = ARENA_ARRAY(arena, bool, room),
                     .first = ARENA_ARRAY(arena, size_t, room)};
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        merge->first[value->id] = n;
        n += (size_t)value->rank;
        for (int k = 0; k < value->n_in; k++) {
            merge->is_read[value->in[k]->id] = true;
            merge->is_applied[value->in[k]->id] |= value_class(value) != OPCLASS_REDUCTION;
            merge->operand[value->id] = value->in[0];
        }
    }
    merge->into = ARENA_ARRAY(arena, size_t, n + 1);
    merge->is_kept = ARENA_ARRAY(arena, bool, n + 1);
    merge->repeats = ARENA_ARRAY(arena, bool, n + 1);
    merge->is_short = ARENA_ARRAY(arena, bool, n + 1);
    merge->is_plane = ARENA_ARRAY(arena, bool, n + 1);
    for (size_t i = 0; i < n; i++)
        merge->into[i] = i;
    return merge;
}

bool pass_merge(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !merge_may(graph))
        return false;
    graph_renumber(graph);
    Merge *merge = merge_new(pass->arena, graph);
    for (size_t i = 0; i < graph->values.n; i++) {
        merge_visit(merge, graph->values.at[i]);
        merge_check(merge, graph->values.at[i]);
    }
    bool any = false;
    Merged merged;
    for (size_t i = 0; i < graph->values.n && !any; i++)
        any = merge_find(merge, graph->values.at[i], &merged);
    pass->state = merge;
    return any && rewrite_graph(pass, graph, merge_rule);
}
