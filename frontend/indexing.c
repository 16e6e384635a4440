/* a.T and a[...], as transpose, slice and reshape; and the items of lists.
 *
 * Between the brackets stand, an axis each: a number, which drops the axis; start:limit:step, each of which
 * may be left out; `none`, which makes a new axis of size 1; and once `...` for all axes that are left.
 * Negative numbers count from the end. */
#include "frontend/expand.h"

Meaning indexing_reshape(Expand *expand, Value *of, int rank, const Dim *const *dims, Span span) {
    Attr attrs[OP_MAX_ATTRS] = {
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, (size_t)rank + 1), .n_dims = rank}};
    for (int i = 0; i < rank; i++)
        attrs[0].dims[i] = dims[i];
    return expand_append(expand, OP_reshape, &of, 1, attrs, span);
}

Meaning indexing_field(Expand *expand, const Expr *expr, Meaning of) {
    if (of.kind == MEANING_FAILED)
        return of;
    if (strcmp(expr->field, "T") != 0)
        return expand_fail(expand, DIAG_UNKNOWN_NAME, expr->span,
                           "unknown field '.%s'; there is '.T', the transpose", expr->field);
    if (of.kind != MEANING_TENSOR)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, expr->span, "'.T' is for tensors, not for %s",
                           meaning_noun(&of));
    int rank = of.value->rank;
    if (rank < 2)
        return expand_fail(expand, DIAG_RANK, expr->span, "'.T' swaps the last two axes; this tensor has %d",
                           rank);
    int perm[RANK_MAX];
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    Attr attrs[OP_MAX_ATTRS] = {{.ints = perm, .n_ints = rank}};
    return expand_append(expand, OP_transpose, &of.value, 1, attrs, expr->span);
}

/* ---- slices ---- */

typedef struct Slice {
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    bool whole[RANK_MAX]; /* the axis is taken as it is */
    const Dim *shape[2 * RANK_MAX];
    int rank; /* of shape: the result's, with axes dropped and new ones */
    bool reshapes;
} Slice;

/* A position along an axis, counted from its end where it is a negative number. */
static const Dim *indexing_position(Expand *expand, const Expr *expr, const Dim *size, const Dim *fallback) {
    if (!expr)
        return fallback;
    const Dim *at = meaning_dim(expand, expand_expr(expand, expr), expr->span, "a position");
    return dim_is_const(at) && at->value < 0 ? dim_add(expand->graph->dims, size, at) : at;
}

static bool indexing_range(Expand *expand, const IndexItem *item, const Value *of, int axis, Slice *slice) {
    DimTable *table = expand->graph->dims;
    const Dim *size = of->dims[axis];
    int64_t step = 1;
    if (item->step) {
        Meaning meaning = expand_expr(expand, item->step);
        if (meaning.kind == MEANING_FAILED)
            return false;
        if (meaning.kind != MEANING_WHOLE || meaning.whole == 0 || meaning.whole > INT32_MAX ||
            meaning.whole < -INT32_MAX) {
            expand_fail(expand, DIAG_ATTRIBUTE, item->step->span, "a step is a whole number other than 0");
            return false;
        }
        step = meaning.whole;
    }
    const Dim *last = dim_sub(table, size, dim_const(table, 1));
    slice->step[axis] = (int)step;
    slice->start[axis] = indexing_position(expand, item->start, size, step > 0 ? dim_const(table, 0) : last);
    slice->limit[axis] = indexing_position(expand, item->limit, size, step > 0 ? size : dim_const(table, -1));
    slice->whole[axis] = !item->start && !item->limit && step == 1;
    return slice->start[axis] && slice->limit[axis];
}

static bool indexing_at(Expand *expand, const IndexItem *item, Meaning meaning, const Value *of, int axis,
                        Slice *slice) {
    DimTable *table = expand->graph->dims;
    if (meaning.kind == MEANING_TENSOR) {
        expand_fail(expand, DIAG_ATTRIBUTE, item->span,
                    "a position is known when the graph is written; indices from a tensor are read by "
                    "gather(x, i, axis)");
        return false;
    }
    const Dim *at = meaning_dim(expand, meaning, item->span, "a position");
    if (at && dim_is_const(at) && at->value < 0)
        at = dim_add(table, of->dims[axis], at);
    if (!at)
        return false;
    if (dim_upper(table, at) < 0 || dim_known_le(table, of->dims[axis], at)) {
        Text size = text_new(expand->arena);
        dim_print(&size, table, of->dims[axis]);
        expand_fail(expand, DIAG_AXIS, item->span, "this position is out of range: axis %d has size %s", axis,
                    size.at);
        return false;
    }
    slice->start[axis] = at;
    slice->limit[axis] = dim_add(table, at, dim_const(table, 1));
    slice->step[axis] = 1;
    slice->whole[axis] = false;
    slice->reshapes = true;
    return slice->limit[axis] != NULL;
}

/* Size along an axis after slicing: ceil((limit - start) / step). */
static const Dim *indexing_size(DimTable *table, const Slice *slice, const Value *of, int axis) {
    if (slice->whole[axis])
        return of->dims[axis];
    int64_t step = slice->step[axis];
    const Dim *length = step > 0 ? dim_sub(table, slice->limit[axis], slice->start[axis])
                                 : dim_sub(table, slice->start[axis], slice->limit[axis]);
    return length ? dim_ceil_div(table, length, dim_const(table, step > 0 ? step : -step)) : NULL;
}

static void indexing_keep(const Value *of, int axis, DimTable *table, Slice *slice) {
    slice->start[axis] = dim_const(table, 0);
    slice->limit[axis] = of->dims[axis];
    slice->step[axis] = 1;
    slice->whole[axis] = true;
    slice->shape[slice->rank++] = of->dims[axis];
}

static bool indexing_items(Expand *expand, const Expr *expr, const Value *of, Slice *slice) {
    DimTable *table = expand->graph->dims;
    const IndexList *items = &expr->indices;
    int used = 0, axis = 0;
    bool ellipsis = false;
    Meaning *meanings = ARENA_ARRAY(expand->arena, Meaning, items->n);
    for (size_t i = 0; i < items->n; i++) {
        if (items->at[i].kind == INDEX_AT)
            meanings[i] = expand_expr(expand, items->at[i].at);
        if (items->at[i].kind == INDEX_AT && meanings[i].kind == MEANING_FAILED)
            return false;
        if (items->at[i].kind == INDEX_ELLIPSIS && ellipsis) {
            expand_fail(expand, DIAG_SYNTAX, items->at[i].span, "'...' may stand once between brackets");
            return false;
        }
        ellipsis |= items->at[i].kind == INDEX_ELLIPSIS;
        used += items->at[i].kind == INDEX_RANGE ||
                (items->at[i].kind == INDEX_AT && meanings[i].kind != MEANING_NONE);
    }
    if (used > of->rank || items->n > 2 * RANK_MAX) {
        expand_fail(expand, DIAG_RANK, expr->span, "%d positions for a tensor of %d dims", used, of->rank);
        return false;
    }
    for (size_t i = 0; i < items->n; i++) {
        const IndexItem *item = &items->at[i];
        if (item->kind == INDEX_ELLIPSIS) {
            for (int left = of->rank - used; left > 0; left--)
                indexing_keep(of, axis++, table, slice);
        } else if (item->kind == INDEX_AT && meanings[i].kind == MEANING_NONE) {
            if (slice->rank < 2 * RANK_MAX)
                slice->shape[slice->rank++] = dim_const(table, 1);
            slice->reshapes = true;
        } else if (item->kind == INDEX_AT) {
            if (!indexing_at(expand, item, meanings[i], of, axis, slice))
                return false;
            axis++;
        } else {
            if (!indexing_range(expand, item, of, axis, slice))
                return false;
            if (slice->rank < 2 * RANK_MAX)
                slice->shape[slice->rank++] = indexing_size(table, slice, of, axis);
            axis++;
        }
    }
    while (axis < of->rank && slice->rank < 2 * RANK_MAX)
        indexing_keep(of, axis++, table, slice);
    return true;
}

static Meaning indexing_slice(Expand *expand, Value *of, const Slice *slice, Span span) {
    bool whole = true;
    int rank = of->rank;
    Attr attrs[OP_MAX_ATTRS] = {{.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = rank},
                                {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = rank},
                                {.ints = ARENA_ARRAY(expand->arena, int, RANK_MAX), .n_ints = rank}};
    for (int i = 0; i < rank; i++) {
        whole &= slice->whole[i];
        attrs[0].dims[i] = slice->start[i];
        attrs[1].dims[i] = slice->limit[i];
        attrs[2].ints[i] = slice->step[i];
    }
    return whole ? (Meaning){.kind = MEANING_TENSOR, .value = of}
                 : expand_append(expand, OP_slice, &of, 1, attrs, span);
}

Meaning indexing_part(Expand *expand, Value *of, int axis, const Dim *start, const Dim *limit, Span span) {
    Slice slice = {.rank = 0};
    for (int i = 0; i < of->rank; i++)
        indexing_keep(of, i, expand->graph->dims, &slice);
    slice.start[axis] = start;
    slice.limit[axis] = limit;
    slice.whole[axis] = false;
    return indexing_slice(expand, of, &slice, span);
}

/* ---- lists ---- */

static bool indexing_list_bound(Expand *expand, const Expr *expr, int n, int64_t fallback, int64_t *out) {
    *out = fallback;
    if (!expr)
        return true;
    Meaning at = expand_expr(expand, expr);
    if (at.kind != MEANING_WHOLE || at.whole < -n || at.whole > n) {
        if (at.kind != MEANING_FAILED)
            expand_fail(expand, DIAG_AXIS, expr->span, "a list of %d items has no such position", n);
        return false;
    }
    *out = at.whole < 0 ? at.whole + n : at.whole;
    return true;
}

static Meaning indexing_list(Expand *expand, const Expr *expr, Meaning of) {
    const IndexItem *item = &expr->indices.at[0];
    int n = of.list.n;
    int64_t start, limit;
    if (expr->indices.n != 1 || item->kind == INDEX_ELLIPSIS || item->step)
        return expand_fail(expand, DIAG_SYNTAX, expr->span, "a list is read by list[i] or list[i:j]");
    if (item->kind == INDEX_AT) {
        if (!indexing_list_bound(expand, item->at, n, 0, &start))
            return (Meaning){.kind = MEANING_FAILED};
        if (start >= n)
            return expand_fail(expand, DIAG_AXIS, item->span, "a list of %d items has no such position", n);
        return of.list.at[start];
    }
    if (!indexing_list_bound(expand, item->start, n, 0, &start) ||
        !indexing_list_bound(expand, item->limit, n, n, &limit))
        return (Meaning){.kind = MEANING_FAILED};
    return (Meaning){.kind = MEANING_LIST,
                     .list = {of.list.at + start, (int)(limit > start ? limit - start : 0)}};
}

Meaning indexing_index(Expand *expand, const Expr *expr, Meaning of) {
    if (of.kind == MEANING_FAILED)
        return of;
    if (of.kind == MEANING_LIST)
        return indexing_list(expand, expr, of);
    if (of.kind != MEANING_TENSOR)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, expr->span,
                           "'[...]' is for tensors and lists, not for %s", meaning_noun(&of));
    Slice *slice = ARENA_NEW(expand->arena, Slice);
    if (!indexing_items(expand, expr, of.value, slice))
        return (Meaning){.kind = MEANING_FAILED};
    Meaning part = indexing_slice(expand, of.value, slice, expr->span);
    if (part.kind != MEANING_TENSOR || !slice->reshapes)
        return part;
    if (slice->rank > RANK_MAX)
        return expand_fail(expand, DIAG_RANK, expr->span, "%d dims; %d are the most", slice->rank, RANK_MAX);
    for (int i = 0; i < slice->rank; i++)
        if (!slice->shape[i])
            return expand_fail(expand, DIAG_DIM, expr->span, "a size of this slice overflows 64 bits");
    return indexing_reshape(expand, part.value, slice->rank, slice->shape, expr->span);
}
