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
 * An axis that is long is cut into parts. The k largest lie in the k parts whose largest elements are the
 * largest, of equals those that come first: every other part has k elements before its own largest. So one
 * reading finds the largest of each part, rounds find k of these, and the rounds that count look at the
 * elements of k parts only. Those parts stand in their own order, so that of equals the first still comes
 * first.
 */
#include "frontend/expand.h"

#include <float.h>
#include <math.h>

enum {
    TOPK_MOST = 64,
    TOPK_LONG = 32768, /* elements that a block of threads has in registers, with some to spare */
    /* Elements times rounds, from which on parts are less than the row whole; of few rows, which wait for one
     * kernel after the other, it takes more (H200, us): 32 of 8192 in 16 rows whole 15.2, by parts 22.3, in
     * 4096 rows 173 and 94; 8 of 32000 in 16 rows 11.6 and 12.6, in 512 rows 39.8 and 24.4. */
    TOPK_MUCH = 49152,
    TOPK_MUCH_OF_FEW = 786432,
    TOPK_FEW_ROWS = 128,
    TOPK_SHORT = 4096, /* elements of which parts are not less */
};

typedef struct TopK {
    Expand *expand;
    Span span;
    int64_t k;
    bool is_float;
    Meaning low, taken; /* what -inf counts as, and what has been found: below everything */
} TopK;

/* What is looked through, along `axis`. */
typedef struct TopKRow {
    Meaning left; /* elements not found yet; no other is as low as what stands for those that are */
    Meaning of;   /* MEANING_NONE: the element itself is asked for */
    int axis;
} TopKRow;

typedef struct TopKFound {
    Meaning value, place; /* place: the number along the axis, i64 */
} TopKFound;

static const Meaning topk_none = {.kind = MEANING_NONE};
static const TopKFound topk_failed = {.value = {.kind = MEANING_FAILED}, .place = {.kind = MEANING_FAILED}};

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

/* `keep`: the axis stays, with one element. */
static Meaning topk_reduce(TopK *t, OpKind op, Meaning x, int axis, bool keep) {
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {1, {axis}}}, {.i = keep}};
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

/* The k largest of each row, found one by one. */
static TopKFound topk_rounds(TopK *t, TopKRow *row) {
    if (row->left.kind != MEANING_TENSOR)
        return topk_failed;
    Meaning numbers = topk_places(t, row->left.value, row->axis), zero = {.kind = MEANING_WHOLE, .whole = 0};
    Meaning values[TOPK_MOST], places[TOPK_MOST];
    bool has_of = row->of.kind == MEANING_TENSOR;
    for (int j = 0; j < t->k; j++) {
        places[j] = topk_reduce(t, OP_argmax, row->left, row->axis, true);
        if (places[j].kind != MEANING_TENSOR)
            return topk_failed;
        Meaning here = topk_scalar(t, OP_eq, numbers, operator_cast(t->expand, places[j], DTYPE_I32, t->span),
                                   topk_none);
        if (has_of)
            values[j] =
                topk_reduce(t, OP_sum, topk_scalar(t, OP_select, here, row->of, zero), row->axis, true);
        else
            values[j] = topk_reduce(t, OP_reduce_max, row->left, row->axis, true);
        row->left = topk_scalar(t, OP_select, here, t->taken, row->left);
    }
    TopKFound found = {topk_join(t, values, row->axis), topk_join(t, places, row->axis)};
    if (!has_of && t->is_float) {
        Meaning is_low = topk_scalar(t, OP_le, found.value, t->low, topk_none);
        found.value = topk_scalar(t, OP_select, is_low, t->taken, found.value);
    }
    return found;
}

/* What stands in `of` at these places along the axis. */
static Meaning topk_taken(TopK *t, Meaning of, Meaning places, int axis) {
    DimTable *table = t->expand->graph->dims;
    if (of.kind != MEANING_TENSOR || places.kind != MEANING_TENSOR)
        return (Meaning){.kind = MEANING_FAILED};
    Meaning at = topk_none;
    const Dim *step = dim_const(table, 1);
    for (int i = of.value->rank; i-- > 0; step = dim_mul(table, step, of.value->dims[i])) {
        if (i != axis && dim_is(of.value->dims[i], 1))
            continue;
        Meaning number = i == axis ? places : topk_places(t, of.value, i);
        Meaning part = topk_scalar(t, OP_mul, operator_cast(t->expand, number, DTYPE_I64, t->span),
                                   meaning_of_dim(step), topk_none);
        at = at.kind == MEANING_NONE ? part : topk_scalar(t, OP_add, at, part, topk_none);
    }
    Meaning flat = indexing_reshape(t->expand, of.value, 1, &step, t->span);
    Meaning in[] = {flat, at};
    Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
    return topk_append(t, OP_gather, in, 2, attrs);
}

/* Elements of a part: about as many as make the parts as many as the elements of k of them; a number near
 * that leaves no part short, where there is one. */
static int64_t topk_part(const TopK *t, int64_t length) {
    enum { STEP = 8 };
    int64_t part = 2;
    while (2 * part * part * t->k < length || length / part > TOPK_LONG)
        part *= 2;
    for (int64_t even = part - part % STEP; even >= STEP && even > part / 2; even -= STEP)
        if (length % even == 0)
            return even;
    return part;
}

/* `x` with its axis in two: parts, and elements of a part; the last is filled by what is below everything. */
static Meaning topk_cut(TopK *t, Meaning x, int axis, int64_t part) {
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
    Value *fill = operator_tensor(t->expand, t->taken, x.value->dtype, t->span);
    if (!fill)
        return (Meaning){.kind = MEANING_FAILED};
    Meaning in[] = {x, operator_cast(t->expand, (Meaning){.kind = MEANING_TENSOR, .value = fill},
                                     x.value->dtype, t->span)};
    Meaning padded = topk_append(t, OP_pad, in, 2, attrs);
    return padded.kind == MEANING_TENSOR ? indexing_reshape(t->expand, padded.value, rank + 1, dims, t->span)
                                         : padded;
}

/* The numbers of the k parts that have the k largest in them, lowest first. `cut`: its parts are along
 * `axis`, their elements along the next. */
static Meaning topk_parts(TopK *t, Meaning cut, int axis) {
    TopKRow row = {.of = topk_none, .axis = axis};
    row.left = topk_reduce(t, OP_reduce_max, cut, axis + 1, false);
    if (topk_rounds(t, &row).place.kind != MEANING_TENSOR)
        return (Meaning){.kind = MEANING_FAILED};
    /* the largest of what falls along the axis are the first, by the same rounds */
    Meaning numbers = topk_places(t, row.left.value, axis),
            none = {.kind = MEANING_WHOLE, .whole = INT32_MIN};
    Meaning is_chosen = topk_scalar(t, OP_eq, row.left, t->taken, topk_none);
    TopK order = *t;
    order.is_float = false;
    order.taken = none;
    row.left =
        topk_scalar(t, OP_select, is_chosen, topk_scalar(t, OP_neg, numbers, topk_none, topk_none), none);
    return topk_rounds(&order, &row).place;
}

/* Where the elements of these parts stand along the axis. */
static Meaning topk_elements(TopK *t, Meaning parts, int axis, int64_t part) {
    DimTable *table = t->expand->graph->dims;
    const Dim *apart[RANK_MAX], *of_part[RANK_MAX], *dims[RANK_MAX];
    Meaning first = topk_scalar(t, OP_mul, parts, (Meaning){.kind = MEANING_WHOLE, .whole = part}, topk_none);
    if (first.kind != MEANING_TENSOR)
        return first;
    int rank = first.value->rank;
    for (int i = 0; i < rank; i++) {
        dims[i] = apart[i + (i > axis)] = first.value->dims[i];
        of_part[i + (i > axis)] = dim_const(table, 1);
    }
    dims[axis] = dim_const(table, t->k * part);
    apart[axis + 1] = of_part[axis] = dim_const(table, 1);
    of_part[axis + 1] = dim_const(table, part);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = of_part, .n_dims = rank + 1}, {.i = axis + 1}};
    first = indexing_reshape(t->expand, first.value, rank + 1, apart, t->span);
    Meaning at = topk_scalar(t, OP_add, first, topk_append(t, OP_index, NULL, 0, attrs), topk_none);
    return at.kind == MEANING_TENSOR ? indexing_reshape(t->expand, at.value, rank, dims, t->span) : at;
}

static TopKFound topk_row(TopK *t, TopKRow row, int64_t length);

/* The k largest of a row whose axis is long. */
static TopKFound topk_long(TopK *t, TopKRow row, int64_t length) {
    int64_t part = topk_part(t, length);
    int axis = row.axis;
    Meaning parts = topk_parts(t, topk_cut(t, row.left, axis, part), axis);
    Meaning at = topk_elements(t, parts, axis, part);
    Meaning size = {.kind = MEANING_WHOLE, .whole = part},
            last = {.kind = MEANING_WHOLE, .whole = length - 1};

    TopKRow near = {.axis = axis, .of = topk_none};
    near.left = topk_taken(t, row.left, topk_scalar(t, OP_min, at, last, topk_none), axis);
    if (length % part)
        near.left =
            topk_scalar(t, OP_select, topk_scalar(t, OP_le, at, last, topk_none), near.left, t->taken);
    TopKFound found = topk_row(t, near, t->k * part);

    Meaning of_parts = topk_scalar(t, OP_div, found.place, size, topk_none);
    Meaning first = topk_taken(t, parts, of_parts, axis);
    found.place = topk_scalar(t, OP_add, topk_scalar(t, OP_mul, first, size, topk_none),
                              topk_scalar(t, OP_mod, found.place, size, topk_none), topk_none);
    found.place = operator_cast(t->expand, found.place, DTYPE_I64, t->span);
    if (row.of.kind == MEANING_TENSOR)
        found.value = topk_taken(t, row.of, found.place, axis);
    return found;
}

/* Whether there are fewer rows than fill the machine. */
static bool topk_is_of_few(const Value *x, int axis) {
    int64_t rows = 1;
    for (int i = 0; i < x->rank && rows < TOPK_FEW_ROWS; i++)
        rows = i == axis ? rows : dim_is_const(x->dims[i]) ? rows * x->dims[i]->value : TOPK_FEW_ROWS;
    return rows < TOPK_FEW_ROWS;
}

/* `length`: 0 where it is not known; places are i32, and cutting takes an axis more. */
static TopKFound topk_row(TopK *t, TopKRow row, int64_t length) {
    if (row.left.kind != MEANING_TENSOR)
        return topk_failed;
    const Value *x = row.left.value;
    int64_t much = topk_is_of_few(x, row.axis) ? TOPK_MUCH_OF_FEW : TOPK_MUCH;
    bool is_long = length > TOPK_LONG || (length > TOPK_SHORT && length * t->k >= much);
    return is_long && length <= INT32_MAX && x->rank < RANK_MAX ? topk_long(t, row, length)
                                                                : topk_rounds(t, &row);
}

/* `x` with these two axes exchanged: rows are quicker to go through again and again than columns. */
static Meaning topk_turned(TopK *t, Meaning x, int axis, int last) {
    if (axis == last || x.kind != MEANING_TENSOR)
        return x;
    int *perm = ARENA_ARRAY(t->expand->arena, int, RANK_MAX);
    for (int i = 0; i < x.value->rank; i++)
        perm[i] = i == axis ? last : i == last ? axis : i;
    Attr attrs[OP_MAX_ATTRS] = {{.ints = perm, .n_ints = x.value->rank}};
    return topk_append(t, OP_transpose, &x, 1, attrs);
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
    int last = x->rank - 1;
    TopKRow row = {.of = topk_none, .axis = last};
    row.left = topk_turned(&t, (Meaning){.kind = MEANING_TENSOR, .value = x}, axis, last);
    row.left = topk_scalar(&t, OP_max, row.left, t.low, topk_none);
    if (of)
        row.of = topk_turned(&t, (Meaning){.kind = MEANING_TENSOR, .value = of}, axis, last);
    TopKFound found = topk_row(&t, row, dim_is_const(x->dims[axis]) ? x->dims[axis]->value : 0);
    Meaning several = {.kind = MEANING_SEVERAL, .list = {ARENA_ARRAY(expand->arena, Meaning, 2), 2}};
    several.list.at[0] = topk_turned(&t, found.value, axis, last);
    several.list.at[1] = topk_turned(&t, found.place, axis, last);
    for (int i = 0; i < 2; i++)
        if (several.list.at[i].kind != MEANING_TENSOR)
            return several.list.at[i];
    return several;
}
