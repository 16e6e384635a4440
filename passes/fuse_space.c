/* Iteration spaces: which Values a group can compute and write in its own coordinates. */
#include "passes/fuse.h"

bool space_same(const Group *group, int rank, const Dim *const *dims) {
    if (group->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (group->dims[i] != dims[i])
            return false;
    return true;
}

static bool space_axis_reduced(const Group *group, int axis) {
    return group->kind == TEMPLATE_COLUMNS ? axis < group->n_reduced : axis >= group->rank - group->n_reduced;
}

/* Whether it has one element for each piece of the group's rows. */
static bool space_is_of_pieces(const Group *group, const Value *value) {
    int last = group->rank - 1;
    if (!group->has_pieces || value->rank != group->rank || !dim_is(value->dims[last], 1))
        return false;
    for (int i = 0; i < last; i++)
        if (value->dims[i] != group->dims[i])
            return false;
    return true;
}

/* Reduced axes are either all there or all one: a store knows full rows and row scalars, and between them but
 * pieces. */
bool space_fits(const Group *group, const Value *value) {
    int missing = group->rank - value->rank;
    if (missing < 0 || (missing && group->kind != TEMPLATE_COLUMNS) || missing > group->n_reduced)
        return false;
    bool all_full = true, all_one = true;
    for (int i = 0; i < group->rank; i++) {
        const Dim *dim = i < missing ? NULL : value->dims[i - missing];
        if (!space_axis_reduced(group, i)) {
            if (dim != group->dims[i])
                return false;
            continue;
        }
        all_full &= dim == group->dims[i];
        all_one &= !dim || dim_is(dim, 1);
    }
    return all_one || space_is_of_pieces(group, value) ||
           (all_full && (group->kind != TEMPLATE_COLUMNS || group->goes_again));
}

Value *space_stored_base(const Fuse *fuse, Value *value) {
    while (!fuse_home(fuse, value) && (value->op == OP_reshape || value->op == OP_transpose))
        value = value->in[0];
    return value;
}

/* The last axis of more than one element; -1 where there is none. */
static int space_innermost(const Value *value) {
    int axis = value->rank - 1;
    while (axis >= 0 && dim_is(value->dims[axis], 1))
        axis--;
    return axis;
}

int space_innermost_of(const Value *value, const Value *base) {
    int axis = space_innermost(value);
    for (; value != base && axis >= 0 && axis != SPACE_AXES; value = value->in[0]) {
        if (value->op == OP_transpose)
            axis = value->attrs[0].ints[axis];
        else if (axis ==
                 space_innermost(value)) /* a part of the innermost axis before it, or the whole and more */
            axis = space_innermost(value->in[0]);
        else if ((axis = view_axis_below_reshape(value, axis)) < 0)
            axis = SPACE_AXES;
    }
    return axis;
}

bool space_keeps_innermost(const Value *value, const Value *base) {
    int axis = space_innermost_of(value, base);
    return axis < 0 || axis == space_innermost(base);
}

ReductionLayout reduction_layout(const Value *value, int *n_reduced) {
    const Value *operand = value->in[0];
    int rank = operand->rank, n = value->attrs[0].axes.n;
    if (!n)
        return REDUCTION_MIXED;
    int first = value->attrs[0].axes.at[0], last = value->attrs[0].axes.at[n - 1];
    bool rows = true, columns = true;
    for (int i = 0; i < rank; i++) {
        bool counts = !value_reduces(value, i) && !dim_is(operand->dims[i], 1);
        rows &= !(counts && i > first);
        columns &= !(counts && i < last);
    }
    *n_reduced = rows ? rank - first : last + 1;
    return rows ? REDUCTION_ROWS : columns ? REDUCTION_COLUMNS : REDUCTION_MIXED;
}

/* One that reads another in place would repeat that for each element: only the innermost of a nest may be
 * inline. */
static bool reduction_nests(const Value *value, int depth) {
    if (depth > 6 || value->n_in > OP_MAX_ARITY)
        return true;
    for (int i = 0; i < value->n_in; i++)
        if (value_is_heavy(value->in[i]) || reduction_nests(value->in[i], depth + 1))
            return true;
    return false;
}

/* Whether windows are among what is computed element by element, and no reduction or product but below them:
 * that is stored, as what is around a window is another block's. */
static bool reduction_finds_windows(const Value *value, bool is_below, int *room, bool *has_windows) {
    is_below |= value->op == OP_window;
    *has_windows |= is_below;
    if (--*room < 0 || value_is_heavy(value))
        return *room >= 0 && is_below;
    if (!value_is_pointwise(value) && !op_is_view(value->op))
        return true;
    for (int i = 0; i < value->n_in; i++)
        if (!reduction_finds_windows(value->in[i], is_below, room, has_windows))
            return false;
    return true;
}

bool reduction_is_of_windows(const Value *value) {
    enum { TAPS_MOST = 1024, CONE = 64 };
    bool has_windows = false;
    int room = CONE;
    int64_t count = 1;
    if (value_class(value) != OPCLASS_REDUCTION ||
        !reduction_finds_windows(value->in[0], false, &room, &has_windows))
        return false;
    for (int i = 0; i < value->attrs[0].axes.n && count <= TAPS_MOST; i++) {
        const Dim *dim = value->in[0]->dims[value->attrs[0].axes.at[i]];
        count = dim_is_const(dim) ? count * dim->value : TAPS_MOST + 1;
    }
    return has_windows && count <= TAPS_MOST;
}

bool reduction_is_short(const Value *value) {
    int64_t count = 1;
    if (value_class(value) != OPCLASS_REDUCTION)
        return false;
    for (int i = 0; i < value->attrs[0].axes.n; i++) {
        const Dim *dim = value->in[0]->dims[value->attrs[0].axes.at[i]];
        if (!dim_is_const(dim) || dim->value > FUSE_INLINE_REDUCTION)
            return false;
        count *= dim->value;
    }
    return count <= FUSE_INLINE_REDUCTION && !reduction_nests(value, 0);
}

bool reduction_is_inline(const Value *value) {
    int n_reduced;
    return reduction_is_short(value) && reduction_layout(value, &n_reduced) == REDUCTION_MIXED;
}
