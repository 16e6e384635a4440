/* Reductions are brought into the two forms that kernels have: over the innermost axes (rows), or over
 * leading axes (columns).
 *
 *     m = sum(x, over=[1, 2], keep=0)  ->  m = reshape(sum(x, over=[1, 2]))     axes are kept, dropped behind
 *     m = sum(transpose(x), over=0)    ->  m = transpose(sum(x, over=1))        in the operand's order
 *     m = sum(x, over=[1, 3])          ->  m = transpose(sum(transpose(x), over=[2, 3]))
 *
 * In the third, mixed axes come to the end where the innermost is reduced, else to the front; the order among
 * reduced axes stays, so that argmax still numbers its elements as before. The transposes then move to inputs
 * and outputs (movement_space.c). */
#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/product.h"

static Value *reduce_drop_axes(Rewrite *rewrite, Value *value) {
    const Attr *attrs = value->attrs;
    Value *kept =
        build_reduce(rewrite, value->op, value->in[0], attrs[0].axes.n, attrs[0].axes.at, true, value);
    return kept ? build_reshape(rewrite, kept, value->rank, value->dims, value) : value;
}

/* How `axes` would lie in `operand`; asked before the reduction exists. */
static ReductionLayout reduce_layout_of(Value *operand, const Value *value, int n, const int *axes) {
    Value *in[1] = {operand};
    Value asked = *value;
    int n_reduced;
    asked.in = in;
    asked.n_in = 1;
    asked.attrs[0].axes.n = n;
    for (int i = 0; i < n; i++)
        asked.attrs[0].axes.at[i] = axes[i];
    return reduction_layout(&asked, &n_reduced);
}

static Value *reduce_transposed(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0], *source = operand->in[0];
    const int *perm = operand->attrs[0].ints;
    int axes[RANK_MAX], n = 0, last = -1;
    for (int i = 0; i < value->attrs[0].axes.n; i++) {
        int axis = perm[value->attrs[0].axes.at[i]];
        if (axis < last && value_is_arg(value))
            return value; /* the elements would be numbered in another order */
        last = axis > last ? axis : last;
    }
    for (int axis = 0; axis < source->rank; axis++)
        for (int i = 0; i < value->attrs[0].axes.n; i++)
            if (perm[value->attrs[0].axes.at[i]] == axis)
                axes[n++] = axis;
    if (reduce_layout_of(source, value, n, axes) == REDUCTION_MIXED)
        return value;
    Value *reduced = build_reduce(rewrite, value->op, source, n, axes, true, value);
    return reduced ? build_transpose(rewrite, reduced, perm, value) : value;
}

/* Over whole runs of a reshape's axes, below a kernel's result: reduced in that kernel's space. What is
 * joined is stored, and others read it under the reshape's dims; statistics have left their kernel's space.
 */
static Value *reduce_reshaped(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0], *source = operand->in[0];
    Respace respace;
    int axes[RANK_MAX], n = 0;
    if (source->op == OP_concat || value_class(source) == OPCLASS_REDUCTION ||
        !rewrite_is_heavy(rewrite, source) || !respace_of(rewrite->graph, operand, &respace))
        return value;
    for (int g = 0; g < respace.n_groups; g++) {
        int reduced = 0, counted = 0;
        for (int i = respace.begin_to[g]; i < respace.begin_to[g + 1]; i++) {
            bool unit = dim_is(operand->dims[i], 1);
            reduced += value_reduces(value, i) && !unit;
            counted += !unit;
        }
        if (reduced && reduced != counted)
            return value;
        for (int i = respace.begin_from[g]; reduced && i < respace.begin_from[g + 1]; i++)
            axes[n++] = i;
    }
    if (!n || reduce_layout_of(source, value, n, axes) == REDUCTION_MIXED)
        return value;
    Value *reduced = build_reduce(rewrite, value->op, source, n, axes, true, value);
    return reduced ? build_reshape(rewrite, reduced, value->rank, value->dims, value) : value;
}

enum {
    TURNED_CONE = 64,
    TURNED_LEAST = 16, /* columns: rows of fewer share their lines */
    TURNED_LONG = 32,  /* elements of a row: of fewer, threads that have one each read neighbours as it is */
    AXIS_ANY = -1,     /* nothing was found that has a say */
    AXIS_NONE = -2
};

/* The axis along which every tensor of the operand's dims that `value` is computed of, element by element, is
 * contiguous in memory; AXIS_NONE where there is no such axis. `axis`: what others have said. */
static int reduce_memory_axis(const Graph *graph, const Value *reduction, Value *value, int axis, int *room) {
    const Value *like = reduction->in[0];
    if (!value_same_dims(value, like))
        return axis;
    if (--*room < 0)
        return AXIS_NONE;
    if (value_is_pointwise(value)) {
        for (int i = 0; i < value->n_in && axis != AXIS_NONE; i++)
            axis = reduce_memory_axis(graph, reduction, value->in[i], axis, room);
        return axis;
    }
    View view = view_of(graph, value, view_is_input, NULL);
    int along = AXIS_NONE;
    for (int i = 0; i < like->rank; i++) {
        if (dim_is(like->dims[i], 1))
            continue;
        if (dim_is(view.strides[i], 0)) /* it repeats */
            return AXIS_NONE;
        along = dim_is(view.strides[i], 1) ? i : along;
    }
    return axis == AXIS_ANY || axis == along ? along : AXIS_NONE;
}

/* The axes of what is reduced in another order: those that are reduced at the end (rows), or to the front. */
typedef struct ReduceOrder {
    int perm[RANK_MAX], inverse[RANK_MAX];
    int n, axes[RANK_MAX]; /* that are reduced then */
    bool is_moved;
} ReduceOrder;

/* `last` is the last of those that it is among, but of reduced ones whose order is told. */
static ReduceOrder reduce_order(const Value *value, bool rows, int last) {
    ReduceOrder order = {.n = 0};
    int rank = value->in[0]->rank, at = 0;
    bool stays = value_is_arg(value) && value_reduces(value, last);
    for (int side = 0; side < 2; side++)
        for (int k = 0; k <= rank; k++) {
            int i = k < rank ? k : last;
            bool is_later = k < rank ? i == last && !stays : stays;
            if (is_later || value_reduces(value, i) != (rows ? side == 1 : side == 0))
                continue;
            if (value_reduces(value, i))
                order.axes[order.n++] = at;
            order.perm[at++] = i;
        }
    for (int i = 0; i < rank; i++) {
        order.inverse[order.perm[i]] = i;
        order.is_moved |= order.perm[i] != i;
    }
    return order;
}

/* What is so moved reduced, and its axes brought back. */
static Value *reduce_moved(Rewrite *rewrite, Value *value, const ReduceOrder *order, Value *moved) {
    Value *reduced =
        moved ? build_reduce(rewrite, value->op, moved, order->n, order->axes, true, value) : NULL;
    return reduced ? build_transpose(rewrite, reduced, order->inverse, value) : value;
}

static Value *reduce_brought(Rewrite *rewrite, Value *value, bool rows, int last) {
    Value *operand = value->in[0];
    ReduceOrder order = reduce_order(value, rows, last);
    if (!order.is_moved)
        return value;
    Respace respace = respace_transpose(operand, order.perm);
    Value *moved = respace_has_leading(&respace, operand, 0)
                       ? respace_apply(rewrite, &respace, operand, value)
                       : build_transpose(rewrite, operand, order.perm, value);
    return reduce_moved(rewrite, value, &order, moved);
}

static Value *reduce_mixed(Rewrite *rewrite, Value *value) {
    int n_reduced, innermost = value->in[0]->rank - 1;
    if (!value->attrs[0].axes.n || reduction_layout(value, &n_reduced) != REDUCTION_MIXED ||
        reduction_is_inline(value))
        return value;
    while (innermost > 0 && dim_is(value->in[0]->dims[innermost], 1))
        innermost--;
    int room = TURNED_CONE, axis = reduce_memory_axis(rewrite->graph, value, value->in[0], AXIS_ANY, &room);
    axis = axis < 0 ? innermost : axis;
    return reduce_brought(rewrite, value, value_reduces(value, axis), axis);
}

/* The axes of `cut`, a reshape that does no more than cut axes of what is transposed, in another order: the
 * cut first, and one transpose.
 *
 *     transpose(reshape(transpose(x), [N, 32, 128]), [2, 1, 0])
 * ->  transpose(reshape(x, [32, 128, N]), [1, 0, 2]) */
static Value *reduce_cut_turned(Rewrite *rewrite, Value *cut, const int *perm, const Value *like) {
    Value *turned = cut->in[0], *source = turned->in[0];
    int axis_of[RANK_MAX], order[RANK_MAX], place[RANK_MAX], rank = 0;
    const Dim *dims[RANK_MAX];
    Respace respace;
    if (!respace_of(rewrite->graph, cut, &respace) || respace.n_groups != turned->rank)
        return build_transpose(rewrite, cut, perm, like);
    for (int g = 0; g < respace.n_groups; g++) {
        if (respace.begin_from[g] != g || respace.begin_from[g + 1] != g + 1)
            return build_transpose(rewrite, cut, perm, like);
        axis_of[turned->attrs[0].ints[g]] = g;
    }
    for (int axis = 0; axis < source->rank; axis++)
        for (int i = respace.begin_to[axis_of[axis]]; i < respace.begin_to[axis_of[axis] + 1]; i++) {
            dims[rank] = cut->dims[i];
            place[i] = rank++;
        }
    for (int i = 0; i < cut->rank; i++)
        order[i] = place[perm[i]];
    return build_transpose(rewrite, build_reshape(rewrite, source, rank, dims, like), order, like);
}

/* What is reduced, its axes in another order, as its tensors lie in memory. */
static Value *reduce_in_order(Rewrite *rewrite, const Respace *respace, Value *value, const Value *like) {
    Value *in[OP_MAX_ARITY];
    if (!value_same_dims(value, like->in[0]))
        return respace_apply(rewrite, respace, value, like);
    if (value->op == OP_reshape && value->in[0]->op == OP_transpose)
        return reduce_cut_turned(rewrite, value, respace->perm, like);
    if (!value_is_pointwise(value))
        return build_transpose(rewrite, value, respace->perm, like);
    for (int i = 0; i < value->n_in; i++)
        if (!(in[i] = reduce_in_order(rewrite, respace, value->in[i], like)))
            return NULL;
    return build_like(rewrite, value, in);
}

/* Elements that are reduced to each result; 0: it is not known how many. */
static int64_t reduce_count(const Value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->attrs[0].axes.n; i++) {
        const Dim *dim = value->in[0]->dims[value->attrs[0].axes.at[i]];
        if (!dim_is_const(dim) || __builtin_mul_overflow(count, dim->value, &count))
            return 0;
    }
    return count;
}

/* Rows of what lies in memory along another axis, as columns: lanes then read neighbours.
 *
 *     m = reduce_max(abs(transpose(x)), over=1)     ->     m = transpose(reduce_max(abs(x), over=0)) */
static Value *reduce_turned(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    int n_reduced, room = TURNED_CONE;
    if (!value->attrs[0].axes.n || reduction_layout(value, &n_reduced) != REDUCTION_ROWS ||
        (rewrite_is_heavy(rewrite, operand) && !op_is_view(operand->op)))
        return value;
    int axis = reduce_memory_axis(rewrite->graph, value, operand, AXIS_ANY, &room);
    if (axis < 0 || value_reduces(value, axis) || reduce_count(value) < TURNED_LONG ||
        dim_upper(rewrite->graph->dims, operand->dims[axis]) < TURNED_LEAST)
        return value;
    ReduceOrder order = reduce_order(value, false, axis);
    Respace respace = respace_transpose(operand, order.perm);
    Value *moved = reduce_in_order(rewrite, &respace, operand, value);
    if (moved && moved->op == OP_transpose && moved->in[0] == operand && operand->op != OP_transpose)
        return value; /* a view that is no transpose: rows they would become again */
    return reduce_moved(rewrite, value, &order, moved);
}

/* Taps come to the front, as channels are read in vectors. */
static Value *reduce_windows(Rewrite *rewrite, Value *value) {
    int n_reduced;
    return reduction_layout(value, &n_reduced) == REDUCTION_COLUMNS
               ? value
               : reduce_brought(rewrite, value, false, value->in[0]->rank - 1);
}

/* The larger of each two columns of a product, as of two products, which one kernel has side by side:
 *
 *     m = reduce_max(reshape(x @ w, [M, N / 2, 2]), over=2)  ->  m = max(x @ w[:, 0::2], x @ w[:, 1::2]) */
static Value *reduce_pair(Rewrite *rewrite, Value *value) {
    enum { DEPTH = 8 };
    DimTable *table = rewrite->graph->dims;
    Value *operand = value->in[0], *source = operand->in[0], *part[2];
    OpKind op = movement_repeated(value->op);
    int axis = value->attrs[0].axes.at[0];
    if (op == OP_COUNT || value->attrs[0].axes.n != 1 || !dim_is(operand->dims[axis], 2) ||
        rewrite_users(rewrite, operand) != USER_REDUCTION || !product_below(source, source, DEPTH))
        return value;
    for (int i = 0; i < 2; i++) {
        part[i] = build_part(rewrite, operand, axis, dim_const(table, i), dim_const(table, i + 1), 1, value);
        part[i] = part[i] ? build_cast(rewrite, part[i], value->dtype, value) : NULL;
    }
    Value *fresh = part[0] && part[1] ? build_scalar(rewrite, op, part[0], part[1], NULL, value) : NULL;
    return fresh && value_same_dims(fresh, value) && fresh->dtype == value->dtype ? fresh : value;
}

Value *movement_reduce(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (!value->attrs[1].i)
        return reduce_drop_axes(rewrite, value);
    if (value->attrs[0].axes.n && reduction_is_of_windows(value))
        return reduce_windows(rewrite, value);
    Value *parted = movement_reduce_concat(rewrite, value);
    if (parted != value)
        return parted;
    Value *fresh = value;
    if (operand->op == OP_transpose) {
        fresh = reduce_transposed(rewrite, value);
    } else if (operand->op == OP_reshape) {
        fresh = reduce_reshaped(rewrite, value);
        fresh = fresh == value ? reduce_pair(rewrite, value) : fresh;
    }
    fresh = fresh == value ? reduce_mixed(rewrite, value) : fresh;
    return fresh == value ? reduce_turned(rewrite, value) : fresh;
}
