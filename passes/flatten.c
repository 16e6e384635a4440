/* A batch of products that share their second operand is one product, of all their rows.
 *
 *     y = x @ w + b                                     x: [B, M, K], w: [K, N]
 * ->  p = reshape(x, dims=[B * M, K]) @ w
 *     y = reshape(p + b, dims=[B, M, N])
 *
 * Tiles then end with the batch instead of with each of its parts, and few rows a part read the second
 * operand once. It is done where the reshape costs nothing: where the first operand lies in memory as it
 * should, or is computed from what does, or is copied anyway (realign.c), and where all that follows element
 * by element is told apart by the rows together, or not by them at all. A gate of each part, [B, 1, N], would
 * keep the result from its kernel.
 *
 * Where they are not joined, and M is few rows, another axis of the batch that has many becomes the rows:
 *
 *     y = x @ w + b                                     x: [512, 16, K], b: [16, N]
 * ->  y = transpose(transpose(x, [1, 0, 2]) @ w, [1, 0, 2]) + b
 *
 * which moves nothing either: an operand's rows, and a result's, may lie apart in memory.
 *
 * Matrices of a second operand may repeat, as keys do for the heads that share them. Then a row of each is
 * one of several, and what has a number for each head has one for each row:
 *
 *     y = q @ k.T                                       q: [B, 32, 1, D], k: [B, 8, T, D]
 * ->  y = reshape(reshape(q, dims=[B, 8, 4, D]) @ k.T, dims=[B, 32, 1, T])
 *
 * A few rows of each do the same, where nothing that follows tells rows apart without heads, but by their
 * numbers, as a mask along the diagonal does: the number of a row of all is divided by how many a head has.
 *
 * Where they are written out, as many heads as there are queries', a product reads what is repeated:
 *
 *     q @ reshape(broadcast(k, dims=[B, 8, 4, T, D]), dims=[B, 32, T, D]).T  ->  q @ k.T
 */
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/realign.h"

enum { FLATTEN_SEARCH = 256 /* Values looked at for one answer */, FLATTEN_ROUNDS = 16 };
/* Rows: of the least tile, half of it, and of the boxes in which results are stored. */
enum { FLATTEN_TILE = 64, FLATTEN_FEW = 32, FLATTEN_BOX = 16 };
/* How much better tiles must be filled by another axis. */
static const double flatten_gain = 1.5;

typedef struct Flatten {
    const Graph *graph;
    const Value **core;  /* by id: the product that a Value is computed from, row by row */
    const Value **whole; /* by id: the product whose batch and rows are the Value's first axes */
    bool *is_heavy;      /* by id: computed from products or reductions */
    bool *is_written;    /* by id: it is an output, or others than products read it */
    int *n_joined;       /* by id of a product: axes of its batch that join the rows; 0: none */
    int64_t *n_repeats;  /* by id: neighbours that share each of the second operand's matrices; 1: none do */
    int64_t *n_heads; /* by id: rows' numbers, and what is computed of them, for so many heads; 0: none are */
} Flatten;

/* Whether the second operand has not an axis of the batch, and the first has it whole. */
static bool flatten_is_shared(const Value *matmul, int axis) {
    const Value *a = matmul->in[0], *b = matmul->in[1];
    int at_a = axis - (matmul->rank - a->rank), at_b = axis - (matmul->rank - b->rank);
    return at_a >= 0 && a->dims[at_a] == matmul->dims[axis] && (at_b < 0 || dim_is(b->dims[at_b], 1));
}

/* Such axes before M. */
static int flatten_axes(const Value *matmul) {
    int n = 0;
    while (n < matmul->rank - 2 && flatten_is_shared(matmul, matmul->rank - 3 - n))
        n++;
    return n;
}

/* Whether `value`, which broadcasts to `like`, has M and the joined axes before it all as `like` has them, or
 * none of them. */
static bool flatten_spans(const Value *like, const Value *value, int n_joined) {
    bool has_all = true, has_none = true;
    for (int back = 2; back <= n_joined + 2; back++) {
        const Dim *dim = value->rank >= back ? value->dims[value->rank - back] : NULL;
        bool is_one = !dim || dim_is(dim, 1);
        has_all = has_all && dim && dim == like->dims[like->rank - back];
        has_none = has_none && is_one;
    }
    return has_all || has_none;
}

static bool flatten_is_packed(const Value *value) {
    return value_is_heavy(value) || (value->op == OP_input && !value->strides);
}

/* What reshapes, and transposes of axes of one element, leave in its order. */
static const Value *flatten_unmoved(const Value *value) {
    while (value->op == OP_reshape || (value->op == OP_transpose && movement_keeps_order(value)))
        value = value->in[0];
    return value;
}

/* Whether a reshape does no more than cut rows in parts which are to be joined. */
static bool flatten_is_joined(const Value *reshape, int n_joined) {
    const Value *operand = reshape->in[0];
    if (operand->rank != reshape->rank - n_joined || operand->rank < 2 ||
        operand->dims[operand->rank - 1] != reshape->dims[reshape->rank - 1])
        return false;
    for (int i = 0; i < operand->rank - 2; i++)
        if (operand->dims[i] != reshape->dims[i])
            return false;
    return true;
}

/* Whether rows of several tensors are one behind the other. */
static bool flatten_joins_rows(const Value *value) {
    return value->op == OP_concat && value->attrs[0].i < value->rank - 1;
}

/* Whether a value is coordinates along an axis that is not joined: it is the same for all joined rows. */
static bool flatten_is_beside(const Value *value, int n_joined) {
    int axis = value_coordinate(value);
    return axis >= 0 && (axis == value->rank - 1 || axis < value->rank - 2 - n_joined);
}

/* Whether joining the axes of a first operand moves nothing in memory. */
static bool flatten_is_free(const Flatten *flatten, const Value *like, const Value *value, int n_joined,
                            int *budget) {
    if (value->rank == 0 || value_is_scalar_constant(value) || flatten_is_beside(value, n_joined))
        return true;
    if (!flatten_spans(like, value, n_joined) || --*budget < 0)
        return false;
    if (value_is_pointwise(value)) {
        for (int i = 0; i < value->n_in; i++)
            if (!flatten_is_free(flatten, like, value->in[i], n_joined, budget))
                return false;
        return true;
    }
    if (value_takes_columns(value))
        return flatten_is_free(flatten, like, value->in[0], n_joined, budget);
    if (value->op == OP_reshape && flatten_is_joined(value, n_joined))
        return true;
    if (flatten_joins_rows(value) || (value->op == OP_concat && dim_is(value->dims[value->rank - 2], 1)))
        return true; /* which no product reads as it lies, nor single rows' columns: it is stored first */
    const Value *base = flatten_unmoved(value);
    return flatten_is_packed(base) || (base != value && flatten->is_heavy[base->id]);
}

/* Whether the rows of `value` are those of `operand`, from which it is computed. */
static bool flatten_keeps_rows(const Value *value, const Value *operand) {
    if (value->rank != operand->rank)
        return false;
    for (int i = 0; i + 1 < value->rank; i++)
        if (value->dims[i] != operand->dims[i])
            return false;
    return value_is_pointwise(value) ||
           (value_class(value) == OPCLASS_REDUCTION && value->attrs[0].axes.n == 1 &&
            value->attrs[0].axes.at[0] == value->rank - 1);
}

/* Whether `value` has the batch and the rows of `core` for its first axes, as its operand has. */
static bool flatten_leads(const Value *value, const Value *core) {
    if (!value_is_pointwise(value) && value->op != OP_reshape && value->op != OP_slice)
        return false;
    bool leads = value->rank >= core->rank - 1;
    for (int i = 0; i < core->rank - 1 && leads; i++)
        leads = value->dims[i] == core->dims[i];
    return leads;
}

static void flatten_find(Flatten *flatten, const Value *value) {
    size_t id = value->id;
    flatten->is_heavy[id] = value_is_heavy(value);
    for (int i = 0; i < value->n_in; i++) {
        flatten->is_written[value->in[i]->id] |= value->op != OP_matmul;
        const Value *core = flatten->core[value->in[i]->id];
        flatten->is_heavy[id] = flatten->is_heavy[id] || flatten->is_heavy[value->in[i]->id];
        if (core && flatten_keeps_rows(value, value->in[i]))
            flatten->core[id] = core;
        const Value *whole = flatten->whole[value->in[i]->id];
        if (whole && flatten_leads(value, whole))
            flatten->whole[id] = whole;
    }
    if (value->op != OP_matmul)
        return;
    int n = flatten_axes(value), budget = FLATTEN_SEARCH;
    flatten->core[id] = flatten->whole[id] = value;
    bool is_free = n && (flatten_is_free(flatten, value->in[0], value->in[0], n, &budget) ||
                         realign_is_scattered(flatten->graph, value->in[0], false));
    flatten->n_joined[id] = is_free ? n : 0;
}

/* A reduction over some of the joined axes, which then are none. */
static bool flatten_divides(const Value *reduction, int n_joined) {
    const Value *operand = reduction->in[0];
    int n = 0, all = 0;
    for (int back = 2; back <= n_joined + 2; back++) {
        int axis = operand->rank - back;
        bool is_one = dim_is(operand->dims[axis], 1);
        all += !is_one;
        n += value_reduces(reduction, axis) && !is_one;
    }
    return n != 0 && n != all;
}

/* Whether each part of a batch has so few rows that reading the second operand for each costs more than a
 * kernel that would have followed. */
static bool flatten_is_few(const Value *core) {
    const Dim *m = core->dims[core->rank - 2];
    return dim_is_const(m) && m->value < FLATTEN_BOX;
}

/* Whether `operand` can be had by the joined rows of `core`, beside which it is computed with. */
static bool flatten_joins(const Flatten *flatten, const Value *core, const Value *like,
                          const Value *operand) {
    int n = flatten->n_joined[core->id];
    const Value *other = flatten->core[operand->id];
    if (other)
        return flatten->n_joined[other->id] == n || flatten_is_few(core);
    bool is_whole =
        operand->rank == like->rank && operand->dims[like->rank - 2] == like->dims[like->rank - 2];
    /* in memory, or brought from there, where it is as good */
    bool is_moved = flatten_unmoved(operand) != operand || flatten_joins_rows(operand);
    return flatten_spans(like, operand, n) && !(is_whole && flatten->is_heavy[operand->id] && !is_moved &&
                                                !value_is_computed_from(core, operand));
}

/* Whether what `value` makes of the product that its operand follows can be made of joined rows. */
static bool flatten_follows(const Flatten *flatten, const Value *value, const Value *operand) {
    const Value *core = flatten->core[operand->id];
    if (value_is_pointwise(value)) {
        for (int i = 0; i < value->n_in; i++)
            if (!flatten_joins(flatten, core, operand, value->in[i]))
                return false;
        return flatten->core[value->id];
    }
    if (value_class(value) == OPCLASS_REDUCTION)
        return !flatten_divides(value, flatten->n_joined[core->id]);
    return value->op != OP_transpose;
}

/* Rows of tiles for each row of a product of so many. */
static double flatten_waste(int64_t rows) {
    return (double)((rows + FLATTEN_TILE - 1) / FLATTEN_TILE * FLATTEN_TILE) / (double)rows;
}

/* The axis of the batch that becomes the rows of a product of few, whose axes are not joined; -1: none. */
static int flatten_many(const Value *matmul) {
    const Dim *m = matmul->dims[matmul->rank - 2];
    if (!dim_is_const(m) || m->value < 2 || m->value > FLATTEN_FEW)
        return -1;
    int best = -1;
    double waste = flatten_waste(m->value) / flatten_gain;
    for (int i = matmul->rank - 3; i >= 0; i--) {
        const Dim *dim = matmul->dims[i];
        if (!flatten_is_shared(matmul, i) || !dim_is_const(dim) || dim->value < 1 ||
            flatten_waste(dim->value) > waste)
            continue;
        best = i;
        waste = flatten_waste(dim->value);
    }
    return best;
}

/* Whether a result is stored with its rows away from the axis before them, so that they had better stay an
 * axis of their own: where they are too few for a box and another axis takes their place, or where they come
 * last in memory and are rows enough for the transposed product (movement_turn.c). A product reads them by
 * any order of axes. */
static bool flatten_parts_rows(const Value *transpose, const Value *whole) {
    const int *perm = transpose->attrs[0].ints;
    int rows = whole->rank - 2, at = 0;
    const Dim *m = whole->dims[rows];
    while (perm[at] != rows)
        at++;
    if (!dim_is_const(m) || (at > 0 && perm[at - 1] == rows - 1))
        return false;
    return at == transpose->rank - 1 ? m->value >= FLATTEN_TILE
                                     : m->value % FLATTEN_BOX != 0 && flatten_many(whole) >= 0;
}

/* Whether a product takes single rows from another, `core`, and stays a batch of them: then both are a chain,
 * as where channels are weighted by what is everywhere. */
static bool flatten_is_chain(const Flatten *flatten, const Value *value, const Value *core) {
    return value->op == OP_matmul && core && flatten->core[value->in[0]->id] == core &&
           dim_is(value->dims[value->rank - 2], 1) && !flatten->n_joined[value->id];
}

/* Products that something keeps from it; whether there was any. */
static bool flatten_refuse(Flatten *flatten) {
    bool any = false;
    for (size_t i = 0; i < flatten->graph->values.n; i++) {
        const Value *value = flatten->graph->values.at[i];
        for (int k = 0; k < value->n_in; k++) {
            const Value *core = flatten->core[value->in[k]->id], *whole = flatten->whole[value->in[k]->id];
            if (value->op == OP_transpose && whole && flatten->is_written[i] &&
                flatten_parts_rows(value, whole))
                core = whole;
            else if (!core || (flatten_follows(flatten, value, value->in[k]) &&
                               !flatten_is_chain(flatten, value, core)))
                continue;
            if (!flatten->n_joined[core->id])
                continue;
            flatten->n_joined[core->id] = 0;
            any = true;
        }
    }
    return any;
}

/* `value` with the joined axes as one; those of a second operand, all 1, go. */
static Value *flatten_join(Rewrite *rewrite, Value *value, int n_joined, bool is_second) {
    const Dim *dims[RANK_MAX];
    DimTable *table = rewrite->graph->dims;
    int n = value->rank - 2 - n_joined, rank = 0;
    for (int i = 0; i < n; i++)
        dims[rank++] = value->dims[i];
    const Dim *rows = value->dims[value->rank - 2];
    for (int i = n; !is_second && i < value->rank - 2 && rows; i++)
        rows = dim_mul(table, value->dims[i], rows);
    if (!rows)
        return NULL;
    dims[rank++] = rows;
    dims[rank++] = value->dims[value->rank - 1];
    return build_reshape(rewrite, value, rank, dims, value);
}

/* The product with that axis for its rows. */
static Value *flatten_exchange(Rewrite *rewrite, Value *value, int axis) {
    int perm[RANK_MAX], rows = value->rank - 2, back = value->rank - value->in[0]->rank;
    for (int i = 0; i < value->rank; i++)
        perm[i] = i == axis ? rows : i == rows ? axis : i;
    int first[RANK_MAX];
    for (int i = 0; i < value->in[0]->rank; i++)
        first[i] = perm[i + back] - back;
    Value *in[] = {build_transpose(rewrite, value->in[0], first, value), value->in[1]};
    Value *product = in[0] ? build_like(rewrite, value, in) : NULL;
    return product ? build_transpose(rewrite, product, perm, value) : value;
}

/* How many neighbours share each of a second operand's matrices, of which a tile has all rows; 1: none do. */
static int64_t flatten_repeats(const Value *matmul) {
    const Value *a = matmul->in[0], *b = matmul->in[1];
    if (matmul->op != OP_matmul || a->rank < 3 || b->rank < 3)
        return 1;
    const Dim *many = a->dims[a->rank - 3], *few = b->dims[b->rank - 3], *rows = a->dims[a->rank - 2];
    if (!dim_is_const(many) || !dim_is_const(few) || !dim_is_const(rows) || few->value < 2 ||
        many->value <= few->value)
        return 1;
    int64_t times = many->value / few->value;
    return rows->value == 1 || (rows->value > 0 && times <= FLATTEN_TILE / rows->value) ? times : 1;
}

/* Whether a value is computed of coordinates alone: it is told apart by anything that has them. */
static bool flatten_is_counted(const Value *value, int *budget) {
    if (value_is_scalar_constant(value) || value->op == OP_index)
        return true;
    if (!value_is_pointwise(value) || --*budget < 0)
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!flatten_is_counted(value->in[i], budget))
            return false;
    return true;
}

/* Notes what is computed of rows' numbers, below and with `value`. */
static void flatten_note_rows(const Value *value, const Dim *rows, ValueMap *counted) {
    if (value->rank < 2 || value->dims[value->rank - 2] != rows ||
        (value->op == OP_index && value->attrs[1].i != value->rank - 2))
        return;
    value_map_set(counted, value, true);
    for (int i = 0; i < value->n_in; i++)
        flatten_note_rows(value->in[i], rows, counted);
}

/* Whether an operand of what follows a product tells rows of all heads apart, which its coordinates do alone.
 */
static bool flatten_counts_rows(const Value *value, const Value *operand, ValueMap *counted) {
    int budget = FLATTEN_FEW;
    if (!flatten_is_counted(operand, &budget))
        return false;
    flatten_note_rows(operand, value->dims[value->rank - 2], counted);
    return true;
}

/* Whether a value that is computed from a product, or what follows from it, goes by heads and rows together:
 * element by element, along rows of its own, as the first operand of a product with as many neighbours, or
 * stored as it is. */
static bool flatten_is_by_rows(const Value *value, const ValueMap *followers, int64_t times,
                               ValueMap *counted) {
    if (value->op == OP_matmul)
        return !value_map_get(followers, value->in[1]) && flatten_repeats(value) == times;
    if (value_class(value) == OPCLASS_REDUCTION)
        return value->attrs[0].axes.n == 1 && value_reduces(value, value->in[0]->rank - 1);
    for (int i = 0; i < value->n_in && value_is_pointwise(value); i++)
        if (!value_map_get(followers, value->in[i]) && !flatten_spans(value, value->in[i], 1) &&
            !flatten_counts_rows(value, value->in[i], counted))
            return false;
    return value_is_pointwise(value);
}

/* Whether nothing but these, and what follows the product, reads the numbers of rows. */
static bool flatten_keeps_numbers(const Graph *graph, const ValueMap *followers, const ValueMap *counted) {
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        bool is_theirs = value_map_get(followers, value) || value_map_get(counted, value);
        for (int k = 0; k < value->n_in && !is_theirs; k++)
            if (value_map_get(counted, value->in[k]))
                return false;
        if (value_map_get(counted, value) && value_is_output(graph, value))
            return false;
    }
    return true;
}

/* Whether all that follows a product does; numbers of rows get its heads then. Where new keys lie behind kept
 * ones, both of which a product each takes, the numbers of rows stay, and so do heads. */
static bool flatten_goes_by_rows(const Flatten *flatten, const Value *product, int64_t times) {
    ValueMap followers = {.arena = flatten->graph->arena}, counted = {.arena = flatten->graph->arena};
    value_map_set(&followers, product, true);
    for (size_t i = 0; i < flatten->graph->values.n; i++) {
        const Value *value = flatten->graph->values.at[i];
        bool follows = false;
        for (int k = 0; k < value->n_in; k++)
            follows = follows || value_map_get(&followers, value->in[k]);
        if (!follows)
            continue;
        if (!flatten_is_by_rows(value, &followers, times, &counted))
            return false;
        value_map_set(&followers, value, true);
    }
    if (counted.n && (value_below_views(product->in[1])->op == OP_concat ||
                      !flatten_keeps_numbers(flatten->graph, &followers, &counted)))
        return false;
    for (size_t i = 0; i < flatten->graph->values.n; i++)
        if (value_map_get(&counted, flatten->graph->values.at[i]))
            flatten->n_heads[i] = product->in[0]->dims[product->in[0]->rank - 3]->value;
    return true;
}

/* The neighbours that share a matrix and are to be rows of it. Of a second product that takes its rows from
 * another, if that one's are. */
static int64_t flatten_shares(const Flatten *flatten, const Value *product) {
    int64_t times = flatten_repeats(product);
    const Value *before = times > 1 ? flatten->core[product->in[0]->id] : NULL;
    if (times == 1 || dim_is(product->dims[product->rank - 2], 1))
        return times;
    return (!before || flatten->n_repeats[before->id] == times) &&
                   flatten_goes_by_rows(flatten, product, times)
               ? times
               : 1;
}

static Value *flatten_repeated(Rewrite *rewrite, Value *value, int64_t times) {
    const Dim *dims[RANK_MAX];
    Value *a = value->in[0];
    int batch = a->rank - 3, rows = a->rank - 2;
    for (int i = 0; i < a->rank; i++)
        dims[i] = a->dims[i];
    dims[batch] = dim_const(rewrite->graph->dims, a->dims[batch]->value / times);
    dims[rows] = dim_const(rewrite->graph->dims, times * a->dims[rows]->value);
    Value *in[] = {build_reshape(rewrite, a, a->rank, dims, value), value->in[1]};
    Value *product = in[0] ? build_like(rewrite, value, in) : NULL;
    return product ? build_reshape(rewrite, product, value->rank, value->dims, value) : value;
}

/* What a product's second operand repeats each matrix of, and a reshape counts as more of them; NULL: it does
 * not. */
static Value *flatten_written_out(const Value *matmul) {
    const Value *many = matmul->op == OP_matmul ? matmul->in[1] : NULL;
    if (many && value_turned(many))
        many = value_turned(many);
    if (!many || many->op != OP_reshape || many->in[0]->op != OP_broadcast || many->rank < 3)
        return NULL;
    const Value *wide = many->in[0];
    Value *few = wide->in[0];
    int heads = many->rank - 3;
    if (wide->rank != many->rank + 1 || few->rank != wide->rank || !dim_is(few->dims[heads + 1], 1) ||
        matmul->in[0]->rank < 3 || matmul->in[0]->dims[matmul->in[0]->rank - 3] != many->dims[heads])
        return NULL;
    for (int i = 0; i < few->rank; i++)
        if (i != heads + 1 &&
            (few->dims[i] != wide->dims[i] || (i != heads && wide->dims[i] != many->dims[i - (i > heads)])))
            return NULL;
    return few;
}

/* The product with each of those once. */
static Value *flatten_shared(Rewrite *rewrite, Value *value, Value *few) {
    const Dim *dims[RANK_MAX];
    int heads = few->rank - 4;
    for (int i = 0; i < few->rank; i++)
        dims[i - (i > heads)] = i == heads + 1 ? dims[heads] : few->dims[i];
    Value *in[] = {value->in[0], build_reshape(rewrite, few, few->rank - 1, dims, value)};
    if (in[1] && value->in[1]->op == OP_transpose)
        in[1] = build_turned(rewrite, in[1], value);
    Value *product = in[1] ? build_like(rewrite, value, in) : NULL;
    return product ? product : value;
}

/* The numbers of rows, for each of the heads: [1, S, 1] as [H, S, 1]. */
static Value *flatten_numbered(Rewrite *rewrite, Value *value, int64_t heads) {
    DimTable *table = rewrite->graph->dims;
    int rank = value->rank < 3 ? 3 : value->rank;
    const Dim *rows = value->dims[value->rank - 2], *dims[RANK_MAX], *one = dim_const(table, 1);
    const Dim *all[] = {dim_const(table, heads * rows->value), one};
    for (int i = 0; i < rank; i++)
        dims[i] = i == rank - 3 ? dim_const(table, heads) : i == rank - 2 ? rows : one;
    Value *number = build_index(rewrite, 2, all, 0, value);
    Value *count = build_constant(rewrite, (Number){.i = rows->value}, DTYPE_I32, value);
    return build_reshape(rewrite, build_scalar(rewrite, OP_mod, number, count, NULL, value), rank, dims,
                         value);
}

static Value *flatten_rule(Rewrite *rewrite, Value *value) {
    const Flatten *flatten = rewrite->pass->state;
    int64_t heads = value->id < rewrite->n_before ? flatten->n_heads[value->id] : 0;
    if (heads)
        return value->op == OP_index ? flatten_numbered(rewrite, value, heads)
                                     : build_like(rewrite, value, value->in);
    if (value->op != OP_matmul || value->id >= rewrite->n_before)
        return value;
    Value *few = flatten_written_out(value);
    if (few)
        return flatten_shared(rewrite, value, few);
    int64_t times = flatten->n_repeats[value->id];
    if (times > 1)
        return flatten_repeated(rewrite, value, times);
    int n = flatten->n_joined[value->id], many = n ? -1 : flatten_many(value);
    if (many >= 0)
        return flatten_exchange(rewrite, value, many);
    if (!n)
        return value;
    Value *in[] = {flatten_join(rewrite, value->in[0], n, false), value->in[1]};
    if (value->in[1]->rank > 2)
        in[1] = flatten_join(rewrite, value->in[1], n, true);
    Value *product = in[0] && in[1] ? build_like(rewrite, value, in) : NULL;
    return product ? build_reshape(rewrite, product, value->rank, value->dims, value) : value;
}

bool pass_flatten(Pass *pass, Graph *graph) {
    Flatten flatten = {.graph = graph};
    bool any = false;
    graph_renumber(graph);
    flatten.core = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    flatten.whole = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    flatten.n_joined = ARENA_ARRAY(pass->arena, int, graph->values.n + 1);
    flatten.n_repeats = ARENA_ARRAY(pass->arena, int64_t, graph->values.n + 1);
    flatten.n_heads = ARENA_ARRAY(pass->arena, int64_t, graph->values.n + 1);
    flatten.is_heavy = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    flatten.is_written = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    for (size_t i = 0; i < graph->outputs.n; i++)
        flatten.is_written[graph->outputs.at[i].value->id] = true;
    for (size_t i = 0; i < graph->values.n; i++)
        flatten_find(&flatten, graph->values.at[i]);
    for (size_t i = 0; i < graph->values.n; i++)
        flatten.n_repeats[i] = flatten_shares(&flatten, graph->values.at[i]);
    int rounds = 0;
    while (flatten_refuse(&flatten)) /* what meets a product that stays as it is stays as it is */
        if (++rounds == FLATTEN_ROUNDS)
            return false;
    for (size_t i = 0; i < graph->values.n; i++)
        any = any || flatten.n_joined[i] > 0 || flatten.n_repeats[i] > 1 ||
              flatten_written_out(graph->values.at[i]) ||
              (graph->values.at[i]->op == OP_matmul && flatten_many(graph->values.at[i]) >= 0);
    pass->state = &flatten;
    return any && rewrite_graph(pass, graph, flatten_rule);
}
