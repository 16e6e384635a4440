/* topk(x, k, over, of): the k largest along an axis, largest first, as the rounds that find them.
 *
 *     round j:  i = argmax(x)      v = reduce_max(x)      x = select(index == i, lowest, x)
 *
 * Each round is two reductions and an exchange of one element for what loses against all others, so the
 * kernel that reduces the row does all of them, behind a product too; there is no operation of this name. Of
 * equals the first comes first, and a NaN before everything, as argmax has it. -inf counts as the lowest
 * finite number until the values are given out, so that what has been taken is lower still: k different
 * places are found wherever the axis has as many.
 *
 * An axis longer than a kernel keeps, or than it is quick to go through so often, is cut into parts, about as
 * many as make the k largest of each part, all together, as long as a part. The largest of those are the
 * largest of all: a part's k come in order, and the parts do, so that of equals the first still comes first.
 * Their places are read from what the parts found.
 */
#include "frontend/expand.h"

#include <float.h>
#include <math.h>

enum {
    TOPK_MOST = 64,
    TOPK_LONG = 32768, /* elements that a block of threads has in registers, with some to spare */
    /* Elements that all rounds look at, from which on those of parts are less: 32 of 8192 in 16 rows take 36
     * us for 110 (H200), in 4096 rows 808 for 1122; 8 of 8192 in 4096 rows 232 for 171, of 32000 in 16 rows
     * 20 for 69, in 4096 rows 816 for 649. */
    TOPK_MUCH = 131072,
    TOPK_SHORT = 4096, /* elements of which parts were not tried */
};

typedef struct TopK {
    Expand *expand;
    Span span;
    int64_t k;
    bool is_float;
    Meaning low, taken; /* what -inf counts as, and what has been found: below everything */
} TopK;

/* What rounds look at, and what they have found: elements, and what is asked for beside each. */
typedef struct TopKRow {
    Meaning left;  /* no element of which is as low as what has been found */
    Meaning place; /* of what has been found: its number along the axis */
    Meaning of;    /* MEANING_NONE: the element itself is asked for */
    int axis;
} TopKRow;

static const Meaning topk_none = {.kind = MEANING_NONE};

static Meaning topk_append(TopK *t, OpKind op, const Meaning *in, int n, const Attr *attrs) {
    Value *values[TOPK_MOST]; /* the joined ones are the most */
    for (int i = 0; i < n; i++) {
        if (in[i].kind != MEANING_TENSOR)
            return (Meaning){.kind = MEANING_FAILED};
        values[i] = in[i].value;
    }
    return expand_append(t->expand, op, values, n, attrs, t->span);
}

static Meaning topk_scalar(TopK *t, OpKind op, Meaning a, Meaning b, Meaning c) {
    Meaning in[] = {a, b, c};
    for (int i = 0; i < op_info(op)->n_in; i++)
        if (in[i].kind == MEANING_FAILED)
            return in[i];
    return operator_scalar(t->expand, op, in, op_info(op)->n_in, t->span);
}

static Meaning topk_reduce(TopK *t, OpKind op, Meaning x, int axis) {
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {1, {axis}}}, {.i = 1}};
    return topk_append(t, op, &x, 1, attrs);
}

/* The number of each place along the axis. */
static Meaning topk_places(TopK *t, const Value *x, int axis) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == axis ? x->dims[i] : dim_const(t->expand->graph->dims, 1);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = dims, .n_dims = x->rank}, {.i = axis}};
    return topk_append(t, OP_index, NULL, 0, attrs);
}

static Meaning topk_join(TopK *t, const Meaning *parts, int axis) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = axis}};
    return t->k == 1 ? parts[0] : topk_append(t, OP_concat, parts, (int)t->k, attrs);
}

/* The k largest of each row, with their places. `is_last`: values are given out as they were. */
static TopKRow topk_rounds(TopK *t, TopKRow row, bool is_last) {
    TopKRow failed = {.left = {.kind = MEANING_FAILED}, .place = {.kind = MEANING_FAILED}};
    if (row.left.kind != MEANING_TENSOR)
        return failed;
    Meaning numbers = topk_places(t, row.left.value, row.axis), zero = {.kind = MEANING_WHOLE, .whole = 0};
    Meaning values[TOPK_MOST], places[TOPK_MOST], ofs[TOPK_MOST];
    bool has_of = row.of.kind == MEANING_TENSOR;
    for (int j = 0; j < t->k; j++) {
        places[j] = topk_reduce(t, OP_argmax, row.left, row.axis);
        if (places[j].kind != MEANING_TENSOR)
            return failed;
        Meaning here = topk_scalar(t, OP_eq, numbers, operator_cast(t->expand, places[j], DTYPE_I32, t->span),
                                   topk_none);
        if (has_of)
            ofs[j] = topk_reduce(t, OP_sum, topk_scalar(t, OP_select, here, row.of, zero), row.axis);
        if (!has_of || !is_last)
            values[j] = topk_reduce(t, OP_reduce_max, row.left, row.axis);
        if (!has_of && is_last && t->is_float) {
            Meaning is_low = topk_scalar(t, OP_le, values[j], t->low, topk_none);
            values[j] = topk_scalar(t, OP_select, is_low, t->taken, values[j]);
        }
        if (j + 1 < t->k)
            row.left = topk_scalar(t, OP_select, here, t->taken, row.left);
    }
    TopKRow found = {.axis = row.axis, .place = topk_join(t, places, row.axis), .of = topk_none};
    if (has_of)
        found.of = topk_join(t, ofs, row.axis);
    found.left = has_of && is_last ? found.of : topk_join(t, values, row.axis);
    return found;
}

/* Elements of a part: as many as the parts have found of together, so that no part is short where that can
 * be (what fills a short one is a kernel more), else a power of two. */
static int64_t topk_part(const TopK *t, int64_t length) {
    enum { STEP = 8, NEAR = 4 /* times as many, at most */ };
    int64_t part = 2;
    while (part < 2 * t->k || part * part < length * t->k)
        part *= 2;
    for (int64_t even = (part + STEP) / 2 / STEP * STEP; even < part / 2 * NEAR; even += STEP)
        if (even >= 2 * t->k && length % even == 0)
            return even;
    return part;
}

/* `x` with its axis in two: parts, and elements of a part. `border` fills the last part. */
static Meaning topk_cut(TopK *t, Meaning x, int axis, int64_t part, Meaning border) {
    DimTable *table = t->expand->graph->dims;
    const Dim *low[RANK_MAX], *high[RANK_MAX], *dims[RANK_MAX];
    if (x.kind != MEANING_TENSOR)
        return x;
    int rank = x.value->rank;
    int64_t parts = (x.value->dims[axis]->value + part - 1) / part;
    for (int i = 0; i < rank; i++) {
        low[i] = high[i] = dim_const(table, 0);
        dims[i + (i > axis)] = x.value->dims[i];
    }
    high[axis] = dim_const(table, parts * part - x.value->dims[axis]->value);
    dims[axis] = dim_const(table, parts);
    dims[axis + 1] = dim_const(table, part);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = low, .n_dims = rank}, {.dims = high, .n_dims = rank}};
    Value *fill = operator_tensor(t->expand, border, x.value->dtype, t->span);
    if (!fill)
        return (Meaning){.kind = MEANING_FAILED};
    Meaning in[] = {x, operator_cast(t->expand, (Meaning){.kind = MEANING_TENSOR, .value = fill},
                                     x.value->dtype, t->span)};
    Meaning padded = topk_append(t, OP_pad, in, 2, attrs);
    return padded.kind == MEANING_TENSOR ? indexing_reshape(t->expand, padded.value, rank + 1, dims, t->span)
                                         : padded;
}

/* The parts' largest side by side along the axis again. */
static Meaning topk_uncut(TopK *t, Meaning x, int axis) {
    const Dim *dims[RANK_MAX];
    if (x.kind != MEANING_TENSOR)
        return x;
    for (int i = 0; i < x.value->rank; i++)
        dims[i - (i > axis)] = x.value->dims[i];
    dims[axis] = dim_mul(t->expand->graph->dims, x.value->dims[axis], x.value->dims[axis + 1]);
    return indexing_reshape(t->expand, x.value, x.value->rank - 1, dims, t->span);
}

/* A row of the largest of its parts, with their places in the whole. */
static TopKRow topk_of_parts(TopK *t, TopKRow row, int64_t part) {
    int axis = row.axis;
    TopKRow cut = {.left = topk_cut(t, row.left, axis, part, t->taken), .axis = axis + 1, .of = topk_none};
    if (row.of.kind == MEANING_TENSOR)
        cut.of = topk_cut(t, row.of, axis, part, (Meaning){.kind = MEANING_WHOLE, .whole = 0});
    TopKRow found = topk_rounds(t, cut, false);
    if (found.place.kind != MEANING_TENSOR)
        return found;
    Meaning first = topk_scalar(t, OP_mul, topk_places(t, found.place.value, axis),
                                (Meaning){.kind = MEANING_WHOLE, .whole = part}, topk_none);
    found.place = topk_uncut(t, topk_scalar(t, OP_add, found.place, first, topk_none), axis);
    found.left = topk_uncut(t, found.left, axis);
    found.of = topk_uncut(t, found.of, axis);
    found.axis = axis;
    return found;
}

/* Elements of `x` as [outer, along the axis, inner]. */
static Meaning topk_flat(TopK *t, Value *x, int axis, const Dim **dims) {
    DimTable *table = t->expand->graph->dims;
    dims[0] = dims[2] = dim_const(table, 1);
    dims[1] = x->dims[axis];
    for (int i = 0; i < x->rank; i++)
        if (i != axis)
            dims[i < axis ? 0 : 2] = dim_mul(table, dims[i < axis ? 0 : 2], x->dims[i]);
    return indexing_reshape(t->expand, x, 3, dims, t->span);
}

/* What stands in `of` at these places along the axis. */
static Meaning topk_taken(TopK *t, Meaning of, Meaning places, int axis) {
    DimTable *table = t->expand->graph->dims;
    const Dim *whole[3], *chosen[3], *count;
    if (of.kind != MEANING_TENSOR || places.kind != MEANING_TENSOR)
        return (Meaning){.kind = MEANING_FAILED};
    Value *like = places.value;
    Meaning flat = topk_flat(t, of.value, axis, whole), at = topk_flat(t, like, axis, chosen);
    if (flat.kind != MEANING_TENSOR || at.kind != MEANING_TENSOR)
        return (Meaning){.kind = MEANING_FAILED};
    Meaning outer =
        topk_scalar(t, OP_mul, operator_cast(t->expand, topk_places(t, at.value, 0), DTYPE_I64, t->span),
                    meaning_of_dim(whole[1]), topk_none);
    at = topk_scalar(t, OP_mul, topk_scalar(t, OP_add, at, outer, topk_none), meaning_of_dim(whole[2]),
                     topk_none);
    if (at.kind != MEANING_TENSOR)
        return at;
    at = topk_scalar(t, OP_add, at, topk_places(t, at.value, 2), topk_none);
    count = dim_mul(table, dim_mul(table, whole[0], whole[1]), whole[2]);
    Meaning in[] = {indexing_reshape(t->expand, of.value, 1, &count, t->span), at};
    Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
    Meaning taken = topk_append(t, OP_gather, in, 2, attrs);
    return taken.kind == MEANING_TENSOR
               ? indexing_reshape(t->expand, taken.value, like->rank, (const Dim *const *)like->dims, t->span)
               : taken;
}

/* The k largest of a row whose axis is long. */
static TopKRow topk_long(TopK *t, TopKRow row, int64_t length) {
    TopKRow parts = topk_of_parts(t, row, topk_part(t, length));
    TopKRow found = topk_rounds(t, (TopKRow){.left = parts.left, .of = topk_none, .axis = row.axis}, true);
    if (row.of.kind == MEANING_TENSOR)
        found.left = topk_taken(t, parts.of, found.place, row.axis);
    found.place = topk_taken(t, parts.place, found.place, row.axis);
    return found;
}

Meaning topk_call(Expand *expand, Value *x, int64_t k, int axis, Value *of, Span span) {
    DType type = dtype_compute(x->dtype);
    TopK t = {.expand = expand, .span = span, .k = k, .is_float = dtype_is_float(type)};
    double finite = type == DTYPE_F64 ? DBL_MAX : FLT_MAX;
    if (k < 1 || k > TOPK_MOST || (dim_is_const(x->dims[axis]) && k > x->dims[axis]->value))
        return expand_fail(expand, DIAG_ATTRIBUTE, span,
                           "topk takes 1 to %d elements, and no more than the axis has", TOPK_MOST);
    t.low = t.is_float ? (Meaning){.kind = MEANING_REAL, .real = -finite}
                       : (Meaning){.kind = MEANING_WHOLE, .whole = dtype_min_int(type) + 1};
    t.taken = t.is_float ? (Meaning){.kind = MEANING_REAL, .real = -HUGE_VAL}
                         : (Meaning){.kind = MEANING_WHOLE, .whole = dtype_min_int(type)};
    TopKRow row = {.of = topk_none, .axis = axis};
    row.left = topk_scalar(&t, OP_max, (Meaning){.kind = MEANING_TENSOR, .value = x}, t.low, topk_none);
    if (of)
        row.of = (Meaning){.kind = MEANING_TENSOR, .value = of};
    int64_t length = dim_is_const(x->dims[axis]) ? x->dims[axis]->value : 0;
    bool has_places = length <= INT32_MAX && x->rank < RANK_MAX; /* places are i32 */
    bool is_long = has_places && (length > TOPK_LONG || (length > TOPK_SHORT && length * k >= TOPK_MUCH));
    TopKRow found = is_long ? topk_long(&t, row, length) : topk_rounds(&t, row, true);
    Meaning several = {.kind = MEANING_SEVERAL, .list = {ARENA_ARRAY(expand->arena, Meaning, 2), 2}};
    several.list.at[0] = found.left;
    several.list.at[1] = found.place;
    for (int i = 0; i < 2; i++)
        if (several.list.at[i].kind != MEANING_TENSOR)
            return several.list.at[i];
    return several;
}
