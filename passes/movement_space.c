/* Reshapes and transposes as changes of space, moved to where they are free: up to the inputs, where they are
 * strides, and down to the outputs, where they are an order of storing. Between, they would cut a kernel in
 * two.
 *
 *     r = reshape(exp(x))      ->   r = exp(reshape(x))          (hoisted: nothing heavy above)
 *     y = reshape(sum(x)) * g  ->   y = reshape(sum(x) * reshape(g))   (sunk: a kernel's result below)
 *
 * What is computed from a reduction or a matmul lies in that kernel's space, so movements sink from it; what
 * is not, takes any space, so movements rise. A Value has one of the two properties for good, so the two
 * rules never chase each other. */
#include "passes/fuse.h"
#include "passes/movement.h"

enum { RESPACE_CONE_MAX = 64, RESPACE_SHARED_MAX = 16, RESPACE_STORED_MAX = 3 };

/* The shortest run of axes of both sides, from i and j on, with equal products. */
static bool respace_match(DimTable *table, const Value *from, const Value *to, int i, int j, int *n_from,
                          int *n_to) {
    const Dim *product_from = dim_const(table, 1);
    for (int a = i; a < from->rank; a++) {
        product_from = dim_mul(table, product_from, from->dims[a]);
        const Dim *product_to = dim_const(table, 1);
        for (int b = j; b < to->rank; b++) {
            product_to = dim_mul(table, product_to, to->dims[b]);
            if (!product_from || !product_to || dim_is(product_from, 0))
                return false;
            if (product_from != product_to)
                continue;
            *n_from = a - i + 1;
            *n_to = b - j + 1;
            return true;
        }
    }
    return false;
}

static bool respace_groups(const Graph *graph, const Value *from, const Value *to, Respace *out) {
    int i = 0, j = 0, g = 0;
    while (i < from->rank || j < to->rank) {
        int n_from = 0, n_to = 0;
        out->begin_from[g] = i;
        out->begin_to[g] = j;
        if (i < from->rank && dim_is(from->dims[i], 1) && !(j < to->rank && dim_is(to->dims[j], 1)))
            n_from = 1;
        else if (j < to->rank && dim_is(to->dims[j], 1) && !(i < from->rank && dim_is(from->dims[i], 1)))
            n_to = 1;
        else if (!respace_match(graph->dims, from, to, i, j, &n_from, &n_to))
            return false;
        i += n_from;
        j += n_to;
        g++;
    }
    out->begin_from[g] = i;
    out->begin_to[g] = j;
    out->n_groups = g;
    return true;
}

Respace respace_transpose(const Value *operand, const int *perm) {
    Respace respace = {.is_transpose = true, .rank_from = operand->rank, .rank_to = operand->rank};
    for (int i = 0; i < operand->rank; i++) {
        respace.perm[i] = perm[i];
        respace.from[i] = operand->dims[i];
        respace.to[i] = operand->dims[perm[i]];
    }
    return respace;
}

bool respace_of(const Graph *graph, const Value *movement, Respace *out) {
    const Value *operand = movement->in[0];
    if (movement->op == OP_transpose) {
        *out = respace_transpose(operand, movement->attrs[0].ints);
        return true;
    }
    *out = (Respace){.rank_from = operand->rank, .rank_to = movement->rank};
    for (int i = 0; i < operand->rank; i++)
        out->from[i] = operand->dims[i];
    for (int i = 0; i < movement->rank; i++)
        out->to[i] = movement->dims[i];
    return respace_groups(graph, operand, movement, out);
}

bool respace_inverse(const Respace *respace, Respace *out) {
    *out = *respace;
    out->rank_from = respace->rank_to;
    out->rank_to = respace->rank_from;
    memcpy(out->from, respace->to, sizeof out->from);
    memcpy(out->to, respace->from, sizeof out->to);
    memcpy(out->begin_from, respace->begin_to, sizeof out->begin_from);
    memcpy(out->begin_to, respace->begin_from, sizeof out->begin_to);
    for (int i = 0; respace->is_transpose && i < respace->rank_from; i++)
        out->perm[respace->perm[i]] = i;
    return true;
}

/* The dim of `value` at axis i of the space that it broadcasts to; NULL where it has none. */
static const Dim *respace_dim(const Respace *respace, const Value *value, int i) {
    int at = i - (respace->rank_from - value->rank);
    return at < 0 ? NULL : value->dims[at];
}

/* Whether `value` spans group g: -1 where it spans some of its axes only. */
static int respace_spans(const Respace *respace, const Value *value, int g) {
    bool all_full = true, all_one = true;
    for (int i = respace->begin_from[g]; i < respace->begin_from[g + 1]; i++) {
        const Dim *dim = respace_dim(respace, value, i);
        all_one &= !dim || dim_is(dim, 1);
        all_full &= dim == respace->from[i] || (dim_is(respace->from[i], 1) && !dim);
    }
    return all_full ? 1 : all_one ? 0 : -1;
}

bool respace_can(const Respace *respace, const Value *value) {
    if (value->rank > respace->rank_from)
        return false;
    for (int g = 0; !respace->is_transpose && g < respace->n_groups; g++)
        if (respace_spans(respace, value, g) < 0)
            return false;
    return true;
}

static bool respace_is_unit(const Value *value) {
    for (int i = 0; i < value->rank; i++)
        if (!dim_is(value->dims[i], 1))
            return false;
    return true;
}

/* The movement on `value` itself. */
static Value *respace_move(Rewrite *rewrite, const Respace *respace, Value *value, const Value *like) {
    const Dim *one = dim_const(rewrite->graph->dims, 1), *dims[RANK_MAX];
    if (value->rank == 0 || (respace_is_unit(value) && value->rank <= respace->rank_to))
        return value;
    if (!respace->is_transpose) {
        for (int g = 0; g < respace->n_groups; g++)
            for (int i = respace->begin_to[g]; i < respace->begin_to[g + 1]; i++)
                dims[i] = respace_spans(respace, value, g) == 1 ? respace->to[i] : one;
        return build_reshape(rewrite, value, respace->rank_to, dims, like);
    }
    if (value->rank < respace->rank_from) {
        for (int i = 0; i < respace->rank_from; i++) {
            const Dim *dim = respace_dim(respace, value, i);
            dims[i] = dim ? dim : one;
        }
        value = build_reshape(rewrite, value, respace->rank_from, dims, like);
    }
    return build_transpose(rewrite, value, respace->perm, like);
}

/* One push upward: what was moved already, so that a shared Value is moved once, and how much may still be.
 */
typedef struct RespacePush {
    Rewrite *rewrite;
    const Respace *respace;
    const Value *like;
    struct {
        Value *old, *moved;
    } done[RESPACE_CONE_MAX];
    int n;
} RespacePush;

/* Whether an order of axes brings those of a reduction of few elements to the front: it then is of columns,
 * beside reductions that are computed from it. */
static bool respace_leads(const Respace *respace, const Value *value) {
    if (!respace->is_transpose || !reduction_is_inline(value) || !value->attrs[1].i ||
        value->rank != respace->rank_from || value_is_arg(value))
        return false;
    for (int i = 0; i < value->attrs[0].axes.n; i++)
        if (!value_reduces(value, respace->perm[i]))
            return false;
    return true;
}

bool respace_has_leading(const Respace *respace, const Value *value, int depth) {
    enum { DEPTH = 8 };
    if (respace_leads(respace, value))
        return true;
    for (int i = 0; i < value->n_in && depth < DEPTH && value_is_pointwise(value); i++)
        if (respace_has_leading(respace, value->in[i], depth + 1))
            return true;
    return false;
}

/* Whether it reduces rows of what is not heavy, which lies in any space; the rows' own axes a reshape must
 * leave. */
static bool respace_is_of_rows(Rewrite *rewrite, const Respace *respace, const Value *value) {
    int last = value->rank - 1, group = respace->n_groups - 1;
    return !respace->is_transpose && value_class(value) == OPCLASS_REDUCTION && !value_is_arg(value) &&
           last > 0 && value->attrs[1].i && value->attrs[0].axes.n == 1 &&
           value->attrs[0].axes.at[0] == last && !rewrite_is_heavy(rewrite, value->in[0]) &&
           value->rank == respace->rank_from && respace->begin_from[group] == last &&
           respace->begin_to[group] == respace->rank_to - 1;
}

static Value *respace_push(RespacePush *push, Value *value);

static Value *respace_rows(RespacePush *push, Value *value) {
    Rewrite *rewrite = push->rewrite;
    Value *operand = value->in[0];
    Respace whole = *push->respace;
    int last = whole.rank_to - 1;
    whole.from[value->rank - 1] = whole.to[last] = operand->dims[value->rank - 1];
    if (!respace_can(&whole, operand))
        return NULL;
    Value *rows = respace_apply(rewrite, &whole, operand, push->like);
    return build_reduce(rewrite, value->op, rows, 1, &last, true, push->like);
}

static Value *respace_reduction(RespacePush *push, Value *value) {
    int axes[RANK_MAX], n = value->attrs[0].axes.n;
    for (int i = 0; i < n; i++)
        axes[i] = i;
    Value *operand = respace_push(push, value->in[0]);
    return operand ? build_reduce(push->rewrite, value->op, operand, n, axes, true, push->like) : NULL;
}

static Value *respace_push(RespacePush *push, Value *value) {
    Rewrite *rewrite = push->rewrite;
    for (int i = 0; i < push->n; i++)
        if (push->done[i].old == value)
            return push->done[i].moved;
    bool is_light = !rewrite_is_heavy(rewrite, value) || respace_has_leading(push->respace, value, 0);
    bool through = value_is_pointwise(value) && value->rank && is_light && push->n < RESPACE_CONE_MAX / 2;
    for (int i = 0; through && i < value->n_in; i++)
        through = respace_can(push->respace, value->in[i]);
    Value *moved = NULL;
    if (through) {
        Value *in[OP_MAX_ARITY];
        for (int i = 0; i < value->n_in; i++)
            in[i] = respace_push(push, value->in[i]);
        moved = build_like(rewrite, value, in);
    } else if (respace_leads(push->respace, value)) {
        moved = respace_reduction(push, value);
    } else if (respace_is_of_rows(rewrite, push->respace, value)) {
        moved = respace_rows(push, value);
    } else {
        moved = respace_move(rewrite, push->respace, value, push->like);
    }
    if (push->n < RESPACE_CONE_MAX) {
        push->done[push->n].old = value;
        push->done[push->n++].moved = moved;
    }
    return moved;
}

Value *respace_apply(Rewrite *rewrite, const Respace *respace, Value *value, const Value *like) {
    RespacePush push = {.rewrite = rewrite, .respace = respace, .like = like};
    return respace_push(&push, value);
}

/* How many Values element by element lie above `value`, counted up to a limit. */
static int respace_cone(const Value *value, int limit) {
    if (!value_is_pointwise(value) || limit <= 0)
        return 0;
    int n = 1;
    for (int i = 0; i < value->n_in && n < limit; i++)
        n += respace_cone(value->in[i], limit - n);
    return n;
}

Value *movement_hoist(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (!value_is_pointwise(operand) || rewrite_is_heavy(rewrite, operand))
        return value;
    /* A product reads a transposed view for nothing, but would have a transposed computation stored against
     * the grain. */
    bool only_contractions = rewrite_users(rewrite, value) == USER_CONTRACTION;
    if (value->op == OP_transpose && only_contractions)
        return value;
    /* What a product reads too lies in memory: to compute it once more in another order gains nothing. */
    int cone_most =
        rewrite_users(rewrite, operand) & USER_CONTRACTION ? RESPACE_STORED_MAX : RESPACE_SHARED_MAX;
    if (rewrite_uses(rewrite, operand) > 1 &&
        (only_contractions || respace_cone(operand, cone_most) >= cone_most))
        return value;
    Respace respace;
    if (!respace_of(rewrite->graph, value, &respace))
        return value;
    for (int i = 0; i < operand->n_in; i++)
        if (!respace_can(&respace, operand->in[i]))
            return value;
    Value *moved = respace_apply(rewrite, &respace, operand, value);
    return moved && value_same_dims(moved, value) ? moved : value;
}

/* Whether reshape `in` does to something that broadcasts to `movement`'s operand what that reshape does. */
static bool movement_is_same_reshape(const Graph *graph, const Value *in, const Value *movement) {
    Respace respace;
    if (!respace_of(graph, movement, &respace) || !respace_can(&respace, in->in[0]))
        return false;
    for (int g = 0; g < respace.n_groups; g++)
        for (int i = respace.begin_to[g]; i < respace.begin_to[g + 1]; i++) {
            bool is_full = respace_spans(&respace, in->in[0], g) == 1;
            if (is_full ? in->dims[i] != respace.to[i] : !dim_is(in->dims[i], 1))
                return false;
        }
    return true;
}

/* Whether operand `in` comes by the same movement as `movement`, up to axes of one element. */
static bool movement_is_same(const Graph *graph, const Value *in, const Value *movement) {
    if (in->op != movement->op || in->rank != movement->rank || in->in[0]->rank != movement->in[0]->rank)
        return false;
    if (movement->op == OP_transpose)
        return !memcmp(in->attrs[0].ints, movement->attrs[0].ints, (size_t)movement->rank * sizeof(int));
    return movement_is_same_reshape(graph, in, movement);
}

/* Whether another operand lets `movement` pass below `value`. What is not heavy takes any space, and what
 * comes by the same movement gives it away too. A result of full size keeps its own space, unless `movement`
 * brings a statistic of that very result, or a reshape of what is computed from it by a later kernel. A
 * smaller result follows a full one, unless it is such a statistic of it; two smaller ones stay as they are.
 */
static bool movement_follows(Rewrite *rewrite, const Value *value, const Value *movement, const Respace *back,
                             const Value *in) {
    if (!rewrite_is_heavy(rewrite, in) || movement_is_same(rewrite->graph, in, movement) ||
        respace_is_of_rows(rewrite, back, in))
        return true;
    bool full = value_same_dims(in, value), sinks_full = value_same_dims(movement, value);
    if (full && movement->op == OP_reshape && in->op == OP_reshape) /* from memory in any case */
        return true;
    if (full)
        return (!sinks_full || movement->op == OP_reshape) && value_is_computed_from(movement->in[0], in);
    return sinks_full && !value_is_computed_from(in, movement->in[0]);
}

/* A statistic gives its movement to what it is applied to: something of full size. */
static bool movement_is_applied(const Value *value, int at) {
    bool applied = value_same_dims(value->in[at], value);
    for (int i = 0; i < value->n_in; i++)
        applied |= i != at && value_same_dims(value->in[i], value);
    return applied;
}

/* The same of a statistic of rows, [200704, 1] as [64, 56, 56, 1]: the rows of `value` become those again. */
static bool movement_rows_back(const Graph *graph, const Value *value, const Value *movement, Respace *back) {
    const Value *rows = movement->in[0];
    if (movement->op != OP_reshape || movement->rank != value->rank || rows->rank < 2 || value->rank < 2 ||
        !value_same_rows(movement, value) || !dim_is(movement->dims[movement->rank - 1], 1) ||
        !dim_is(rows->dims[rows->rank - 1], 1))
        return false;
    Value to = {.op = OP_reshape, .rank = rows->rank, .in = (Value *[]){(Value *)(uintptr_t)value}};
    for (int i = 0; i < rows->rank; i++)
        to.dims[i] = i < rows->rank - 1 ? rows->dims[i] : value->dims[value->rank - 1];
    return respace_of(graph, &to, back);
}

/* The change of space back from `value`, which `movement`, of its dims or a statistic that broadcasts to
 * them, leads to. */
static bool movement_way_back(const Graph *graph, const Value *value, const Value *movement, Respace *back) {
    Respace respace;
    if (value_same_dims(movement, value))
        return respace_of(graph, movement, &respace) && respace_inverse(&respace, back);
    if (movement->op != OP_transpose)
        return movement_rows_back(graph, value, movement, back);
    if (movement->rank != value->rank)
        return false;
    *back = (Respace){.is_transpose = true, .rank_from = value->rank, .rank_to = value->rank};
    for (int i = 0; i < value->rank; i++) {
        back->from[i] = value->dims[i];
        back->to[movement->attrs[0].ints[i]] = value->dims[i];
        back->perm[movement->attrs[0].ints[i]] = i;
    }
    return true;
}

/* Whether a reshape cuts rows, and `value`, in the space behind it, is only reduced there while something
 * else is computed there too: of `value` before the reshape, a kernel would have to be given both. */
static bool movement_is_cut_for(const Rewrite *rewrite, const Value *movement, const Value *value) {
    const Value *whole = movement->in[0];
    return movement->op == OP_reshape && rewrite_uses(rewrite, movement) > 1 &&
           rewrite_users(rewrite, value) == USER_REDUCTION && movement->rank && whole->rank &&
           movement->dims[movement->rank - 1] != whole->dims[whole->rank - 1];
}

/* Whether operand `at` of `value` can give its movement away, all others following. */
static bool movement_can_sink(Rewrite *rewrite, const Value *value, int at, Respace *back) {
    Value *movement = value->in[at];
    if (movement_is_cut_for(rewrite, movement, value))
        return false;
    if ((movement->op != OP_reshape && movement->op != OP_transpose) ||
        !rewrite_is_heavy(rewrite, movement->in[0]) || !movement_is_applied(value, at) ||
        !movement_way_back(rewrite->graph, value, movement, back))
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (i != at && !(respace_can(back, value->in[i]) &&
                         (movement_follows(rewrite, value, movement, back, value->in[i]) ||
                          respace_has_leading(back, value->in[i], 0))))
            return false;
    return true;
}

Value *movement_sink(Rewrite *rewrite, Value *value) {
    for (int at = 0; at < value->n_in; at++) {
        Respace back;
        if (!movement_can_sink(rewrite, value, at, &back))
            continue;
        Value *movement = value->in[at], *in[OP_MAX_ARITY];
        for (int i = 0; i < value->n_in; i++)
            in[i] = movement_is_same(rewrite->graph, value->in[i], movement)
                        ? value->in[i]->in[0]
                        : respace_apply(rewrite, &back, value->in[i], value);
        Value *computed = build_like(rewrite, value, in);
        if (!computed || computed->rank != back.rank_to)
            return value;
        if (back.is_transpose)
            return build_transpose(rewrite, computed, movement->attrs[0].ints, value);
        return build_reshape(rewrite, computed, value->rank, (const Dim *const *)value->dims, value);
    }
    return value;
}
