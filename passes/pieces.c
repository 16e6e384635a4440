/* Rows that are reduced whole, and then in pieces, become rows of pieces, so that one kernel has both: a norm
 * whose result is quantized in blocks.
 *
 *     y = x * rsqrt(mean(x * x, over=1))            x: [M, N]
 *     r = reshape(y, dims=[M, N / 128, 128])
 *     a = reduce_max(abs(r), over=2)
 * ->  u = reshape(x, dims=[M, N / 128, 128])
 *     r = u * rsqrt(mean(u * u, over=[1, 2]))
 *     a = reduce_max(abs(r), over=2)
 *
 * What is computed of the same rows besides is so, too, and has its own dims again behind it. Nothing of a
 * product is: where its kernel's result comes in, the rows begin. */
#include <string.h>

#include "ir/base/checked.h"
#include "passes/rewrite.h"

enum { PIECE_LEAST = 16, PIECE_MOST = 128, PIECE_ROW_MOST = 1 << 14, PIECES_OPEN = 16 };

typedef struct Pieces {
    const Graph *graph;
    const Dim **piece; /* by id: elements of a piece, of what becomes rows of pieces; NULL: it stays */
    bool *is_heavy;    /* by id: computed of products or reductions */
    bool *is_row;      /* by id: computed of a reduction of these rows; filled for each cut */
    bool *is_mine;     /* by id: what a cut takes along */
} Pieces;

/* How a value's dims are those of `whole`: as many elements a row, or one; or not so. */
typedef enum PieceDims { PIECE_OTHER, PIECE_WHOLE, PIECE_OF_ROW } PieceDims;

static PieceDims pieces_dims(const Value *value, const Value *whole) {
    int last = whole->rank - 1;
    if (value->rank != whole->rank)
        return PIECE_OTHER;
    for (int i = 0; i < last; i++)
        if (value->dims[i] != whole->dims[i])
            return PIECE_OTHER;
    if (value->dims[last] == whole->dims[last])
        return PIECE_WHOLE;
    return dim_is(value->dims[last], 1) ? PIECE_OF_ROW : PIECE_OTHER;
}

/* Whether `value` reduces the last axis alone, and keeps it. */
static bool pieces_is_reduction(const Value *value) {
    return value_class(value) == OPCLASS_REDUCTION && !value_is_arg(value) && value->attrs[1].i &&
           value->attrs[0].axes.n == 1 && value->attrs[0].axes.at[0] == value->in[0]->rank - 1;
}

/* Whether `value` is computed over the rows that `whole` has. */
static bool pieces_is_of_rows(const Value *value, const Value *whole) {
    if (pieces_is_reduction(value))
        return pieces_dims(value->in[0], whole) == PIECE_WHOLE;
    return value_is_pointwise(value) && pieces_dims(value, whole) != PIECE_OTHER;
}

/* Whether `value` cuts the last axis, of a known length, in pieces of a power of two. */
static bool pieces_is_cut(const Value *value) {
    const Value *whole = value->in[0];
    if (value->op != OP_reshape || value->rank != whole->rank + 1 || !whole->rank)
        return false;
    int last = whole->rank - 1;
    for (int i = 0; i < last; i++)
        if (value->dims[i] != whole->dims[i])
            return false;
    const Dim *piece = value->dims[last + 1], *row = whole->dims[last];
    return dim_is_const(piece) && dim_is_const(row) && is_power_of_two(piece->value) &&
           piece->value >= PIECE_LEAST && piece->value <= PIECE_MOST && row->value > piece->value &&
           row->value <= PIECE_ROW_MOST;
}

/* Whether something computed of a cut, element by element, is reduced in its pieces. */
static bool pieces_are_reduced(const Pieces *pieces, const Value *cut, bool *is_of_cut) {
    const Graph *graph = pieces->graph;
    memset(is_of_cut, 0, graph->values.n * sizeof *is_of_cut);
    is_of_cut[cut->id] = true;
    for (size_t i = cut->id + 1; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        if (pieces_is_reduction(value) && is_of_cut[value->in[0]->id])
            return true;
        for (int k = 0; k < value->n_in && value_is_pointwise(value) && value_same_dims(value, cut); k++)
            is_of_cut[i] = is_of_cut[i] || is_of_cut[value->in[k]->id];
    }
    return false;
}

static void pieces_find_rows(Pieces *pieces, const Value *whole) {
    const Graph *graph = pieces->graph;
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        pieces->is_mine[i] = false;
        pieces->is_row[i] = pieces_is_reduction(value) && pieces_is_of_rows(value, whole);
        for (int k = 0; k < value->n_in && value_is_pointwise(value) && pieces_is_of_rows(value, whole); k++)
            pieces->is_row[i] = pieces->is_row[i] || pieces->is_row[value->in[k]->id];
    }
}

/* Takes along what `value` is computed of, but for products and their results. */
static void pieces_take_light(Pieces *pieces, const Value *value, const Value *whole) {
    if (pieces->is_mine[value->id] || pieces->is_heavy[value->id] || !pieces_is_of_rows(value, whole))
        return;
    pieces->is_mine[value->id] = true;
    for (int i = 0; i < value->n_in; i++)
        pieces_take_light(pieces, value->in[i], whole);
}

static bool pieces_open(const Value *value, const Value **open, int *n) {
    for (int i = 0; i < value->n_in; i++) {
        bool is_open = false;
        for (int k = 0; k < *n; k++)
            is_open = is_open || open[k] == value->in[i];
        if (is_open)
            continue;
        if (*n == PIECES_OPEN)
            return false;
        open[(*n)++] = value->in[i];
    }
    return true;
}

/* Takes along what the rows of `whole` are computed of, down to inputs and to at most one result of other
 * kernels' reductions and products; false: there are several, or no reduction of the rows. */
static bool pieces_take_below(Pieces *pieces, const Value *whole, const Value **start) {
    const Value *open[PIECES_OPEN] = {whole};
    int n = 1;
    *start = NULL;
    if (!pieces->is_row[whole->id])
        return false;
    for (;;) {
        int n_heavy = 0, last = -1;
        for (int k = 0; k < n; k++) {
            bool is_heavy = pieces->is_heavy[open[k]->id];
            n_heavy += is_heavy;
            last = is_heavy && (last < 0 || open[k]->id > open[last]->id) ? k : last;
        }
        if (n_heavy == 0)
            break;
        const Value *at = open[last];
        if (n_heavy == 1 && !pieces->is_row[at->id]) {
            *start = at;
            return pieces_dims(at, whole) == PIECE_WHOLE;
        }
        if (!pieces_is_of_rows(at, whole))
            return false;
        pieces->is_mine[at->id] = true;
        open[last] = open[--n];
        if (!pieces_open(at, open, &n))
            return false;
    }
    return true;
}

/* Takes along what else is computed of these rows, and of nothing else that waits for a kernel. */
static void pieces_take_above(Pieces *pieces, const Value *whole, const Value *start) {
    const Graph *graph = pieces->graph;
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        bool is_above = false, is_able = !pieces->is_mine[i] && pieces_is_of_rows(value, whole);
        for (int k = 0; k < value->n_in && is_able; k++) {
            const Value *in = value->in[k];
            is_above = is_above || pieces->is_mine[in->id];
            is_able = pieces->is_mine[in->id] || in == start || !pieces->is_heavy[in->id];
        }
        if (is_able && is_above)
            pieces->is_mine[i] = true;
    }
}

/* Whether there are any. */
static bool pieces_find(Pieces *pieces, Arena *arena) {
    const Graph *graph = pieces->graph;
    bool found = false;
    bool *is_of_cut = ARENA_ARRAY(arena, bool, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        pieces->is_heavy[i] = value_is_heavy(value);
        for (int k = 0; k < value->n_in; k++)
            pieces->is_heavy[i] = pieces->is_heavy[i] || pieces->is_heavy[value->in[k]->id];
    }
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *cut = graph->values.at[i], *start;
        const Value *whole = cut->n_in ? cut->in[0] : NULL;
        if (!whole || !pieces_is_cut(cut) || !dtype_is_float(whole->dtype) ||
            !pieces_are_reduced(pieces, cut, is_of_cut))
            continue;
        pieces_find_rows(pieces, whole);
        if (!pieces_take_below(pieces, whole, &start))
            continue;
        for (size_t k = 0; k < graph->values.n; k++)
            for (int m = 0; pieces->is_mine[k] && m < graph->values.at[k]->n_in; m++)
                pieces_take_light(pieces, graph->values.at[k]->in[m], whole);
        pieces_take_above(pieces, whole, start);
        bool is_free = true;
        for (size_t k = 0; k < graph->values.n; k++)
            is_free = is_free && !(pieces->is_mine[k] && pieces->piece[k]);
        for (size_t k = 0; k < graph->values.n && is_free; k++)
            if (pieces->is_mine[k])
                pieces->piece[k] = cut->dims[cut->rank - 1];
        found = found || is_free;
    }
    return found;
}

/* `value` over rows in pieces, what has a single element a row with a single piece. */
static Value *pieces_cut(Rewrite *rewrite, Value *value, const Dim *piece, const Value *like) {
    const Dim *dims[RANK_MAX];
    if (value->rank == 0)
        return value;
    int last = value->rank - 1;
    for (int i = 0; i < last; i++)
        dims[i] = value->dims[i];
    bool is_one = dim_is(value->dims[last], 1);
    dims[last] =
        is_one ? value->dims[last] : dim_const(rewrite->graph->dims, value->dims[last]->value / piece->value);
    dims[last + 1] = is_one ? value->dims[last] : piece;
    Value *below = value->op == OP_reshape ? value->in[0] : NULL;
    bool is_behind = below && below->rank == last + 2;
    for (int i = 0; i < last + 2 && is_behind; i++)
        is_behind = below->dims[i] == dims[i];
    return is_behind ? below : build_reshape(rewrite, value, last + 2, dims, like);
}

static Value *pieces_rule(Rewrite *rewrite, Value *value) {
    const Pieces *pieces = rewrite->pass->state;
    const Dim *piece = pieces->piece[value->id];
    Value *in[OP_MAX_ARITY], *fresh;
    if (value->op == OP_reshape && value->in[0]->op == OP_reshape &&
        value_same_dims(value->in[0]->in[0], value))
        return value->in[0]->in[0];
    if (!piece)
        return value;
    for (int i = 0; i < value->n_in; i++)
        if (!(in[i] = pieces_cut(rewrite, value->in[i], piece, value)))
            return value;
    if (value_class(value) == OPCLASS_REDUCTION) {
        int last = value->in[0]->rank - 1;
        fresh = build_reduce(rewrite, value->op, in[0], 2, (int[]){last, last + 1}, true, value);
    } else {
        fresh = build_like(rewrite, value, in);
    }
    fresh = fresh ? build_reshape(rewrite, fresh, value->rank, (const Dim *const *)value->dims, value) : NULL;
    if (!fresh || fresh->dtype != value->dtype)
        return value;
    if (value_class(value) == OPCLASS_REDUCTION)
        pass_decide(rewrite->pass, "pieces", true, fresh, NULL, NULL,
                    "its rows are reduced in pieces behind, by the same kernel if threads have them whole");
    return fresh;
}

bool pass_pieces(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion)
        return false;
    graph_renumber(graph);
    size_t n = graph->values.n + 1;
    Pieces pieces = {.graph = graph,
                     .piece = ARENA_ARRAY(pass->arena, const Dim *, n),
                     .is_heavy = ARENA_ARRAY(pass->arena, bool, n),
                     .is_row = ARENA_ARRAY(pass->arena, bool, n),
                     .is_mine = ARENA_ARRAY(pass->arena, bool, n)};
    pass->state = &pieces;
    return pieces_find(&pieces, pass->arena) && rewrite_graph(pass, graph, pieces_rule);
}
