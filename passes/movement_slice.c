/* Slices: of slices joined, of borders taken ahead of them, of everything dropped, and moved above what they
 * would otherwise make compute more than is used.
 *
 *     h = x @ w                       a = x @ w[:, 0:N/2]
 *     a = h[:, 0:N/2]           ->    b = x @ w[:, N/2:N]
 *     b = h[:, N/2:N]                 y = silu(a) * b           (one kernel with two cores)
 *     y = silu(a) * b                                           and so with h[:, 0::2], h[:, 1::2] */
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/relay.h"

enum { SLICE_SEARCH = 64 /* Values looked at for one answer */ };

static bool slice_is_plain(const Value *value, int axis) {
    return value->attrs[2].ints[axis] == 1;
}

static bool slice_is_whole_axis(const Value *value, int axis) {
    return slice_is_plain(value, axis) && dim_is(value->attrs[0].dims[axis], 0) &&
           value->attrs[1].dims[axis] == value->in[0]->dims[axis];
}

static bool slice_is_whole(const Value *value) {
    for (int i = 0; i < value->rank; i++)
        if (!slice_is_whole_axis(value, i))
            return false;
    return true;
}

/* slice(slice(x)), both by steps of one. */
static Value *slice_of_slice(Rewrite *rewrite, Value *value) {
    Value *inner = value->in[0];
    DimTable *table = rewrite->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < value->rank; i++) {
        if (!slice_is_plain(value, i) || !slice_is_plain(inner, i))
            return value;
        start[i] = dim_add(table, inner->attrs[0].dims[i], value->attrs[0].dims[i]);
        limit[i] = dim_add(table, inner->attrs[0].dims[i], value->attrs[1].dims[i]);
        step[i] = 1;
        if (!start[i] || !limit[i])
            return value;
    }
    Value *fresh = build_slice(rewrite, inner->in[0], start, limit, step, value);
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}

/* The part of `operand`, which broadcasts to the sliced Value, that the slice needs. */
static Value *slice_operand(Rewrite *rewrite, const Value *value, Value *operand) {
    DimTable *table = rewrite->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX], missing = value->rank - operand->rank;
    bool whole = true;
    for (int i = 0; i < operand->rank; i++) {
        bool one = dim_is(operand->dims[i], 1) && !dim_is(value->in[0]->dims[i + missing], 1);
        start[i] = one ? dim_const(table, 0) : value->attrs[0].dims[i + missing];
        limit[i] = one ? dim_const(table, 1) : value->attrs[1].dims[i + missing];
        step[i] = one ? 1 : value->attrs[2].ints[i + missing];
        whole &= one;
    }
    return whole ? operand : build_slice(rewrite, operand, start, limit, step, value);
}

static Value *slice_of_pointwise(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0], *in[OP_MAX_ARITY];
    for (int i = 0; i < operand->n_in; i++)
        in[i] = slice_operand(rewrite, value, operand->in[i]);
    Value *fresh = build_like(rewrite, operand, in);
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}

/* Whether the slices of an operand together take all of it, and its elements wait for a statistic along an
 * axis that they cut: then nothing is saved, and what has the statistic has the whole row. */
static bool slice_of_applied(Rewrite *rewrite, const Value *value) {
    Value *operand = value->in[0];
    const Dim *uses = dim_const(rewrite->graph->dims, rewrite_uses(rewrite, operand));
    for (int i = 0; i < value->rank; i++) {
        if (slice_is_whole_axis(value, i) ||
            dim_mul(rewrite->graph->dims, uses, value->dims[i]) != operand->dims[i])
            continue;
        for (int k = 0; k < operand->n_in; k++) {
            int axis = i - (operand->rank - operand->in[k]->rank);
            if (axis >= 0 && dim_is(operand->in[k]->dims[axis], 1) &&
                rewrite_is_heavy(rewrite, operand->in[k]))
                return true;
        }
    }
    return false;
}

/* Whether slices that are steps of axes before the last, as pixels are that become one, together take all of
 * what is computed of products or reductions: each would compute its own share from what lies as far apart,
 * where the whole may be stored by the kernel that has it (a norm of four pixels each, of a sum of 32 x 28 x
 * 28 x 192, took 76 us; of the stored sum 6.6). */
static bool slice_of_places(Rewrite *rewrite, const Value *value) {
    const Value *operand = value->in[0];
    bool has_step = false;
    for (int i = 0; i < value->rank - 1; i++)
        has_step = has_step || value->attrs[2].ints[i] != 1;
    const Graph *graph = rewrite->graph;
    const Dim *uses = dim_const(graph->dims, rewrite_uses(rewrite, operand));
    return has_step && rewrite_is_heavy(rewrite, operand) &&
           dim_mul(graph->dims, uses, value_count(graph, value)) == value_count(graph, operand);
}

/* Whether every n-th row or column of a product's operand is read as well as all of them: where the other
 * axis is the one whose neighbours are neighbours in memory. */
static bool slice_may_step(const Value *operand, bool rows) {
    int turned = 0;
    for (; operand->op == OP_transpose || operand->op == OP_slice || operand->op == OP_cast;
         operand = operand->in[0])
        if (operand->op == OP_transpose)
            turned ^= operand->attrs[0].ints[operand->rank - 1] != operand->rank - 1;
    return operand->op == OP_input && !operand->strides && turned == !rows;
}

/* Whether a product's operand, of which each part of its rows or columns wants all, is computed element by
 * element of a product of few k, as for gradients of attention: each part would multiply and compute that
 * again (passes/relay.h). */
static bool slice_hands_on(const Value *operand, int *budget) {
    if (operand->op == OP_matmul) {
        const Dim *k = operand->in[0]->dims[operand->in[0]->rank - 1], *n = operand->dims[operand->rank - 1];
        return dim_is_const(k) && k->value <= RELAY_DEPTH && !(dim_is_const(n) && n->value <= k->value);
    }
    bool is_moved = operand->op == OP_transpose || operand->op == OP_reshape;
    if (--*budget < 0 || !(value_is_pointwise(operand) || is_moved))
        return false;
    for (int i = 0; i < operand->n_in; i++)
        if ((is_moved || value_same_dims(operand->in[i], operand)) && slice_hands_on(operand->in[i], budget))
            return true;
    return false;
}

/* Whether all slices of a product are to be products of their own. */
static bool slice_is_cut(const Rewrite *rewrite, const Value *matmul) {
    const bool *cut = rewrite->pass->state;
    return matmul->id < rewrite->n_before && cut[matmul->id];
}

/* Rows or columns of a product, where the slices together are no more than the whole. Columns cut into more
 * than two parts stay with the product, whose kernel stores each part where it belongs (fuse_columns.c), but
 * for those that meet again as the cores of one kernel (movement_cut.c), as two may. */
static Value *slice_of_matmul(Rewrite *rewrite, Value *value) {
    Value *matmul = value->in[0];
    DimTable *table = rewrite->graph->dims;
    int rank = value->rank, m = rank - 2, n = rank - 1, uses = rewrite_uses(rewrite, matmul);
    int budget = SLICE_SEARCH;
    for (int i = 0; i < m; i++)
        if (!slice_is_whole_axis(value, i))
            return value;
    bool rows = slice_is_whole_axis(value, n), columns = slice_is_whole_axis(value, m);
    if (!rows && !columns)
        return value;
    int axis = rows ? m : n;
    if ((!rows && uses > 2 && !slice_is_cut(rewrite, matmul)) || slice_hands_on(matmul->in[rows], &budget))
        return value;
    const Dim *together = dim_mul(table, dim_const(table, uses), value->dims[axis]);
    Value *in[2] = {matmul->in[0], matmul->in[1]};
    Value *sliced = in[!rows];
    if ((!slice_is_plain(value, axis) && !slice_may_step(sliced, rows)) ||
        (uses > 1 && together != matmul->dims[axis]))
        return value;
    in[!rows] = build_part(rewrite, sliced, sliced->rank - (rows ? 2 : 1), value->attrs[0].dims[axis],
                           value->attrs[1].dims[axis], value->attrs[2].ints[axis], value);
    Value *fresh = build_like(rewrite, matmul, in);
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}

/* Products of equal dims that a Value is the sum of, times what it may be, counted up to two. */
static int slice_terms(const Value *value, const Value *whole, int depth) {
    enum { DEPTH = 8 };
    int n = 0;
    if (!value_same_dims(value, whole) || depth > DEPTH)
        return 0;
    if (value->op == OP_matmul)
        return 1;
    bool adds = value->op == OP_add || value->op == OP_sub;
    if (!adds && !op_multiplies(value->op))
        return 0;
    for (int i = 0; i < value->n_in && n < 2; i++)
        n += slice_terms(value->in[i], whole, depth + 1);
    return adds ? n : n > 0;
}

/* Whether a sum of products, which one kernel may add up, is cut into columns of more than two parts: they
 * stay with it, as they stay with a product. */
static bool slice_of_sum(Rewrite *rewrite, const Value *value) {
    const FuseLimits *limits = rewrite->pass->options->limits;
    const Value *sum = value->in[0];
    for (int i = 0; i < value->rank - 1; i++)
        if (!slice_is_whole_axis(value, i))
            return false;
    return limits && limits->adds_products && (sum->op == OP_add || sum->op == OP_sub) &&
           rewrite_uses(rewrite, sum) > 2 && slice_terms(sum, sum, 0) > 1;
}

/* One whole operand of a concat. */
static Value *slice_of_concat(Rewrite *rewrite, Value *value) {
    Value *concat = value->in[0];
    DimTable *table = rewrite->graph->dims;
    int axis = (int)concat->attrs[0].i;
    const Dim *offset = dim_const(table, 0);
    for (int i = 0; i < value->rank; i++)
        if (i != axis && !slice_is_whole_axis(value, i))
            return value;
    for (int i = 0; i < concat->n_in && offset; i++) {
        const Dim *end = dim_add(table, offset, concat->in[i]->dims[axis]);
        if (slice_is_plain(value, axis) && value->attrs[0].dims[axis] == offset &&
            value->attrs[1].dims[axis] == end)
            return concat->in[i]->dtype == value->dtype ? concat->in[i] : value;
        offset = end;
    }
    return value;
}

/* How much each of two dims is beyond the other, one of them by 0; false where nobody knows which it is. */
static bool slice_beyond(DimTable *table, const Dim *a, const Dim *b, const Dim **by_a, const Dim **by_b) {
    bool is_a = dim_known_le(table, b, a);
    if (!is_a && !dim_known_le(table, a, b))
        return false;
    *by_a = is_a ? dim_sub(table, a, b) : dim_const(table, 0);
    *by_b = is_a ? dim_const(table, 0) : dim_sub(table, b, a);
    return *by_a && *by_b;
}

/* slice(pad(x)), as what rows before another are, pad(x)[:, 0:S]: a border around what is left of x. */
static Value *slice_of_pad(Rewrite *rewrite, Value *value) {
    Value *pad = value->in[0], *x = pad->in[0];
    DimTable *table = rewrite->graph->dims;
    const Dim *begin[RANK_MAX], *end[RANK_MAX], *low[RANK_MAX], *high[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < value->rank; i++) {
        const Dim *first = pad->attrs[0].dims[i], *start = value->attrs[0].dims[i];
        const Dim *behind = dim_add(table, first, x->dims[i]), *limit = value->attrs[1].dims[i], *less;
        step[i] = 1;
        if (!behind || !slice_is_plain(value, i) || !slice_beyond(table, first, start, &low[i], &begin[i]) ||
            !slice_beyond(table, limit, behind, &high[i], &less))
            return value;
        end[i] = dim_sub(table, x->dims[i], less);
        if (!end[i] || !dim_known_le(table, begin[i], end[i]))
            return value;
    }
    Value *left = build_slice(rewrite, x, begin, end, step, value);
    Value *fresh = build_pad(rewrite, left, pad->in[1], low, high, value);
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}

Value *movement_slice(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (slice_is_whole(value))
        return operand;
    if (operand->op == OP_slice)
        return slice_of_slice(rewrite, value);
    if (operand->op == OP_concat)
        return slice_of_concat(rewrite, value);
    if (operand->op == OP_pad && rewrite_users(rewrite, operand) == USER_SLICE && !value_is_realigned(value))
        return slice_of_pad(rewrite, value);
    if (operand->op == OP_transpose || operand->op == OP_reshape)
        return movement_below(rewrite, value);
    if (rewrite_users(rewrite, operand) != USER_SLICE)
        return value;
    if (operand->op == OP_matmul)
        return slice_of_matmul(rewrite, value);
    if (!value_is_pointwise(operand) || slice_of_applied(rewrite, value) || slice_of_sum(rewrite, value) ||
        slice_of_places(rewrite, value))
        return value;
    return slice_of_pointwise(rewrite, value);
}
