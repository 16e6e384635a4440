/* Slices, joins and reshapes of what is transposed or reshaped below a kernel's result: done in the result's
 * own order, and moved behind. Axes that movements leave side by side are one.
 *
 *     q = transpose(x @ w, perm=[1, 0, 2])            h = x @ w
 *     y = concat(-q[.., D/2:], q[.., :D/2])     ->    y = transpose(concat(-h[.., D/2:], h[.., :D/2]))
 *
 * The movement is then an order of storing, and what it stood between is one kernel's. */
#include "ir/columns.h"
#include "passes/movement.h"

static Value *transposed_slice(Rewrite *rewrite, const Value *value) {
    Value *transpose = value->in[0], *source = transpose->in[0];
    const int *perm = transpose->attrs[0].ints;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < value->rank; i++) {
        start[perm[i]] = value->attrs[0].dims[i];
        limit[perm[i]] = value->attrs[1].dims[i];
        step[perm[i]] = value->attrs[2].ints[i];
    }
    return build_transpose(rewrite, build_slice(rewrite, source, start, limit, step, value), perm, value);
}

static Value *transposed_concat(Rewrite *rewrite, const Value *value) {
    const Value *first = value->in[0];
    const int *perm = first->attrs[0].ints;
    Attr attrs[OP_MAX_ATTRS] = {{.i = perm[value->attrs[0].i]}};
    Value **in = ARENA_ARRAY(rewrite->graph->arena, Value *, value->n_in);
    for (int i = 0; i < value->n_in; i++) {
        if (value->in[i]->op != OP_transpose ||
            memcmp(value->in[i]->attrs[0].ints, perm, (size_t)value->rank * sizeof(int)) != 0)
            return NULL;
        in[i] = value->in[i]->in[0];
    }
    Value *joined =
        graph_append(rewrite->graph, OP_concat, in, value->n_in, attrs, value->span, rewrite->pass->diags);
    return build_transpose(rewrite, joined, perm, value);
}

/* Whether the axes of each run of the reshape, more than one, lie side by side in the transposed tensor. */
static bool transposed_runs(const Respace *respace, const int *perm) {
    for (int g = 0; g < respace->n_groups; g++)
        for (int i = respace->begin_from[g] + 1; i < respace->begin_from[g + 1]; i++)
            if (perm[i] != perm[i - 1] + 1)
                return false;
    return true;
}

static Value *transposed_reshape(Rewrite *rewrite, const Value *value) {
    Value *transpose = value->in[0], *source = transpose->in[0];
    const int *perm = transpose->attrs[0].ints;
    Respace respace;
    if (!respace_of(rewrite->graph, value, &respace) || !transposed_runs(&respace, perm))
        return NULL;
    const Dim *dims[RANK_MAX];
    int back[RANK_MAX], rank = 0;
    for (int axis = 0; axis <= source->rank; axis++) /* runs in the source's order; last those of no axis */
        for (int g = 0; g < respace.n_groups; g++) {
            bool is_none = respace.begin_from[g] == respace.begin_from[g + 1];
            if (is_none ? axis < source->rank : axis == source->rank || perm[respace.begin_from[g]] != axis)
                continue;
            for (int i = respace.begin_to[g]; i < respace.begin_to[g + 1]; i++) {
                back[i] = rank;
                dims[rank++] = value->dims[i];
            }
        }
    return build_transpose(rewrite, build_reshape(rewrite, source, rank, dims, value), back, value);
}

/* A reshape that joins the last two axes of what is cut and transposed, where these stay side by side: they
 * are not cut, and a run along them is seen to be one.
 *
 *     p = transpose(reshape(x, [N, P, 16, Q, 16, 3]), [0, 1, 3, 2, 4, 5])    pieces of an image, 3 channels
 *     y = reshape(p, [N, P * Q, 768])
 * ->  y = reshape(transpose(reshape(x, [N, P, 16, Q, 48]), [0, 1, 3, 2, 4]), [N, P * Q, 768])
 */
static Value *transposed_neighbours(Rewrite *rewrite, const Value *value) {
    Value *transpose = value->in[0], *cut = transpose->in[0];
    int last = cut->rank - 1;
    Respace respace;
    if (cut->op != OP_reshape || last < 2 || transpose->attrs[0].ints[last] != last ||
        transpose->attrs[0].ints[last - 1] != last - 1 || !respace_of(rewrite->graph, value, &respace))
        return NULL;
    bool is_joined = false;
    for (int g = 0; g < respace.n_groups; g++)
        is_joined |= respace.begin_from[g] < last && respace.begin_from[g + 1] == last + 1;
    if (!is_joined)
        return NULL;
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < last; i++)
        dims[i] = cut->dims[i];
    dims[last - 1] = dim_mul(rewrite->graph->dims, cut->dims[last - 1], cut->dims[last]);
    if (!dims[last - 1])
        return NULL;
    Value *whole = build_reshape(rewrite, cut->in[0], last, dims, value);
    whole = build_transpose(rewrite, whole, transpose->attrs[0].ints, value);
    return build_reshape(rewrite, whole, value->rank, value->dims, value);
}

/* The axis of a reshape's operand that its axis `to` is, by itself; -1: it is joined with others, or cut. */
static int reshaped_axis(const Respace *respace, int to) {
    for (int g = 0; g < respace->n_groups; g++)
        if (respace->begin_to[g] == to && respace->begin_to[g + 1] == to + 1 &&
            respace->begin_from[g + 1] == respace->begin_from[g] + 1)
            return respace->begin_from[g];
    return -1;
}

/* Whether a group of axes is one of the operand's, cut, that is longer than a block of columns. */
static bool reshaped_is_long(const Respace *respace, const Value *source, int g) {
    int from = respace->begin_from[g];
    return respace->begin_from[g + 1] == from + 1 && dim_is_const(source->dims[from]) &&
           source->dims[from]->value > COLUMN_BLOCK_MAX;
}

/* Whether a slice takes one column of every `step` of them, by the last axis of a reshape that cuts columns
 * into so many: which axis of the reshape's operand these are; -1: it does something else. Where a block of
 * columns holds all, the product's kernel has them at hand. */
static int reshaped_columns(const Respace *respace, const Value *value, int to, int *step) {
    const Value *reshape = value->in[0], *source = reshape->in[0];
    const Dim *count = reshape->dims[to];
    if (to != value->rank - 1 || !dim_is(value->dims[to], 1) || !dim_is_const(count) || count->value < 2 ||
        count->value > INT16_MAX || !dim_is(value->attrs[0].dims[to - 1], 0) ||
        value->dims[to - 1] != reshape->dims[to - 1])
        return -1;
    for (int g = 0; g < respace->n_groups; g++) {
        if (respace->begin_to[g + 1] != to + 1 || respace->begin_to[g] != to - 1 ||
            !reshaped_is_long(respace, source, g))
            continue;
        *step = (int)count->value;
        return respace->begin_from[g];
    }
    return -1;
}

/* Whether a slice takes one half of the columns, by an axis of two that a reshape cuts off before the others:
 * which axis of the reshape's operand these are; -1: it does something else. */
static int reshaped_half(const Respace *respace, const Value *value, int to) {
    const Value *reshape = value->in[0], *source = reshape->in[0];
    if (!dim_is(reshape->dims[to], 2) || !dim_is(value->dims[to], 1))
        return -1;
    for (int g = 0; g < respace->n_groups; g++) {
        if (respace->begin_to[g] != to || !reshaped_is_long(respace, source, g))
            continue;
        for (int i = to + 1; i < respace->begin_to[g + 1]; i++)
            if (value->dims[i] != reshape->dims[i])
                return -1;
        return respace->begin_from[g];
    }
    return -1;
}

static Value *reshaped_slice(Rewrite *rewrite, const Value *value) {
    Value *reshape = value->in[0], *source = reshape->in[0];
    Respace respace;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    if (!respace_of(rewrite->graph, reshape, &respace))
        return NULL;
    for (int i = 0; i < source->rank; i++) {
        start[i] = dim_const(rewrite->graph->dims, 0);
        limit[i] = source->dims[i];
        step[i] = 1;
    }
    for (int i = 0; i < value->rank; i++) {
        bool is_whole = dim_is(value->attrs[0].dims[i], 0) && value->attrs[2].ints[i] == 1 &&
                        value->attrs[1].dims[i] == reshape->dims[i];
        int axis = reshaped_axis(&respace, i);
        if (is_whole)
            continue;
        int half = axis < 0 ? reshaped_half(&respace, value, i) : -1;
        if (half >= 0) {
            const Dim *each = dim_const(rewrite->graph->dims, source->dims[half]->value / 2);
            start[half] = dim_mul(rewrite->graph->dims, value->attrs[0].dims[i], each);
            limit[half] = dim_add(rewrite->graph->dims, start[half], each);
            continue;
        }
        if (axis < 0) {
            int every;
            axis = reshaped_columns(&respace, value, i, &every);
            if (axis < 0)
                return NULL;
            start[axis] = value->attrs[0].dims[i];
            step[axis] = every;
            continue;
        }
        start[axis] = value->attrs[0].dims[i];
        limit[axis] = value->attrs[1].dims[i];
        step[axis] = value->attrs[2].ints[i];
    }
    return build_reshape(rewrite, build_slice(rewrite, source, start, limit, step, value), value->rank,
                         value->dims, value);
}

static bool reshaped_differs(const Value *a, const Value *b, int but) {
    if (a->rank != b->rank)
        return true;
    for (int i = 0; i < a->rank; i++)
        if (i != but && a->dims[i] != b->dims[i])
            return true;
    return false;
}

static Value *reshaped_concat(Rewrite *rewrite, const Value *value) {
    const Value *first = value->in[0];
    Respace respace;
    int to = (int)value->attrs[0].i, axis = -1;
    if (respace_of(rewrite->graph, first, &respace))
        axis = reshaped_axis(&respace, to);
    if (axis < 0)
        return NULL;
    Attr attrs[OP_MAX_ATTRS] = {{.i = axis}};
    Value **in = ARENA_ARRAY(rewrite->graph->arena, Value *, value->n_in);
    for (int i = 0; i < value->n_in; i++) {
        const Value *operand = value->in[i];
        if (operand->op != OP_reshape || reshaped_differs(operand, first, to) ||
            reshaped_differs(operand->in[0], first->in[0], axis) ||
            operand->dims[to] != operand->in[0]->dims[axis])
            return NULL;
        in[i] = operand->in[0];
    }
    Value *joined =
        graph_append(rewrite->graph, OP_concat, in, value->n_in, attrs, value->span, rewrite->pass->diags);
    return build_reshape(rewrite, joined, value->rank, value->dims, value);
}

/* Whether a value is some columns of a result, or computed from such: joined again, they are one kernel's.
 * Values beyond `room` count as such. */
static bool joined_is_of_parts(const Value *value, int *room) {
    if (value->op == OP_slice || --*room < 0)
        return true;
    for (int i = 0; !value_is_heavy(value) && i < value->n_in; i++)
        if (joined_is_of_parts(value->in[i], room))
            return true;
    return false;
}

/* cast(concat(x, y)) of kernels' results: each rounds its own, so that less is stored and read again. */
Value *movement_cast_joined(Rewrite *rewrite, Value *value) {
    Value *joined = value->op == OP_cast ? value->in[0] : NULL;
    if (!joined || joined->op != OP_concat || rewrite_uses(rewrite, joined) > 1 ||
        dtype_bits(value->dtype) >= dtype_bits(joined->dtype))
        return value;
    enum { JOINED_CONE = 64 };
    int room = JOINED_CONE;
    Value **in = ARENA_ARRAY(rewrite->graph->arena, Value *, joined->n_in);
    for (int i = 0; i < joined->n_in; i++) {
        if (joined->in[i]->dtype != joined->dtype || !rewrite_is_heavy(rewrite, joined->in[i]) ||
            joined_is_of_parts(joined->in[i], &room))
            return value;
        in[i] = build_cast(rewrite, joined->in[i], value->dtype, value);
    }
    Value *fresh = build_like(rewrite, joined, in);
    return fresh && fresh->dtype == value->dtype ? fresh : value;
}

Value *movement_below(Rewrite *rewrite, Value *value) {
    Value *operand = value->n_in ? value->in[0] : NULL, *fresh = NULL;
    if (operand && value->op == OP_reshape && operand->op == OP_transpose)
        fresh = transposed_neighbours(rewrite, value);
    if (fresh)
        return fresh;
    if (!operand || (operand->op != OP_transpose && operand->op != OP_reshape) ||
        !rewrite_is_heavy(rewrite, operand->in[0]))
        return value;
    if (operand->op == OP_reshape && value->op == OP_slice)
        fresh = reshaped_slice(rewrite, value);
    else if (operand->op == OP_reshape && value->op == OP_concat)
        fresh = reshaped_concat(rewrite, value);
    else if (operand->op == OP_reshape || movement_keeps_order(operand))
        return value;
    else if (value->op == OP_slice)
        fresh = transposed_slice(rewrite, value);
    else if (value->op == OP_concat)
        fresh = transposed_concat(rewrite, value);
    else if (value->op == OP_reshape)
        fresh = transposed_reshape(rewrite, value);
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}
