/* The space of the parts of keys, in which softmax(x)'s x and what it is computed of are built anew
 * (split_keys.c): [..., R, T] is [..., P, R, T / P]. */
#include <math.h>

#include "ir/view.h"
#include "passes/split_keys.h"

const Dim *keys_dim(const Value *value, int from_end) {
    return value->dims[value->rank - from_end];
}

/* ---- keys that are joined of two tensors */

/* Whether a slice has all there is along an axis. */
static bool keys_is_whole(const Value *slice, int axis) {
    return slice->dims[axis] == slice->in[0]->dims[axis] && slice->attrs[2].ints[axis] == 1;
}

/* The axis of its operand that a movement's axis is; -1: none, or a part of it. */
static int keys_axis_below(const Value *value, int axis) {
    if (value->op == OP_transpose)
        return value->attrs[0].ints[axis];
    if (value->op == OP_cast || (value->op == OP_slice && keys_is_whole(value, axis)))
        return axis;
    return value->op == OP_reshape ? view_axis_below_reshape(value, axis) : -1;
}

const Dim *keys_boundary(const Value *value, int axis, const Value **joined) {
    for (;; value = value->in[0]) {
        *joined = value;
        if (value->op == OP_concat)
            return value->attrs[0].i == axis && value->n_in == 2 ? value->in[0]->dims[axis] : NULL;
        if (!value->n_in || (axis = keys_axis_below(value, axis)) < 0)
            return NULL;
    }
}

/* What a movement makes of its operand, made of a part of that along one of its axes. */
static Value *keys_moved_part(const Keys *keys, const Value *value, int axis, Value *part) {
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    if (value->op == OP_transpose || value->op == OP_cast)
        return build_like(keys->rewrite, value, &part);
    bool is_slice = value->op == OP_slice;
    for (int i = 0; i < value->rank; i++) {
        start[i] = is_slice ? value->attrs[0].dims[i] : NULL;
        limit[i] = i == axis ? keys->all : is_slice ? value->attrs[1].dims[i] : value->dims[i];
    }
    return is_slice ? build_slice(keys->rewrite, part, start, limit, value->attrs[2].ints, value)
                    : build_reshape(keys->rewrite, part, value->rank, limit, value);
}

/* What a value has of the keys that are meant, which lie along `axis`: of joined ones, one of the two. */
static Value *keys_of(const Keys *keys, Value *value, int axis) {
    DimTable *dims = keys->rewrite->graph->dims;
    bool is_first = dim_is(keys->first, 0);
    if (is_first && value->dims[axis] == keys->all)
        return value;
    if (value->op == OP_concat && value->attrs[0].i == axis && value->n_in == 2 &&
        value->in[0]->dims[axis] == (is_first ? keys->all : keys->first))
        return value->in[is_first ? 0 : 1];
    int below = value->n_in ? keys_axis_below(value, axis) : -1;
    if (below >= 0) {
        Value *part = keys_of(keys, value->in[0], below);
        return part ? keys_moved_part(keys, value, axis, part) : NULL;
    }
    const Dim *limit = dim_add(dims, keys->first, keys->all);
    return limit ? build_part(keys->rewrite, value, axis, keys->first, limit, 1, value) : NULL;
}

/* ---- parts of them */

static Value *keys_reshape(const Keys *keys, Value *value, int n_batch, const Dim *a, const Dim *b,
                           const Dim *c) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < n_batch; i++)
        dims[i] = value->dims[i];
    dims[n_batch] = a;
    dims[n_batch + 1] = b;
    dims[n_batch + 2] = c;
    return build_reshape(keys->rewrite, value, n_batch + 3, dims, value);
}

static const Dim *keys_number(const Keys *keys, int64_t number) {
    return dim_const(keys->rewrite->graph->dims, number);
}

bool keys_overlap(const Keys *keys) {
    return keys->step != keys->each;
}

/* Parts that overlap along an axis, of which each one's keys are a last axis. */
static Value *keys_windows(const Keys *keys, Value *value, int axis) {
    return build_window(keys->rewrite, value, axis, keys->each, (int)keys->step->value, value);
}

Value *keys_rows(const Keys *keys, Value *matrix) {
    Value *value = keys_of(keys, matrix, matrix->rank - 2);
    if (!value)
        return NULL;
    if (keys_overlap(keys)) {
        Value *parts = keys_windows(keys, value, value->rank - 2);
        return parts ? build_turned(keys->rewrite, parts, value) : NULL;
    }
    return keys_reshape(keys, value, value->rank - 2, keys_number(keys, keys->parts), keys->each,
                        keys_dim(value, 1));
}

/* Any value that has x's axes, or broadcasts to them. */
static Value *keys_moved(const Keys *keys, Value *whole) {
    Value *value =
        whole->rank == 0 || dim_is(keys_dim(whole, 1), 1) ? whole : keys_of(keys, whole, whole->rank - 1);
    if (!value || value->rank == 0)
        return value;
    int n_batch = value->rank > 2 ? value->rank - 2 : 0, perm[RANK_MAX];
    const Dim *one = keys_number(keys, 1), *rows = value->rank > 1 ? keys_dim(value, 2) : one;
    if (dim_is(keys_dim(value, 1), 1))
        return keys_reshape(keys, value, n_batch, one, rows, one);
    Value *cut = keys_overlap(keys)
                     ? keys_windows(keys, value, value->rank - 1)
                     : keys_reshape(keys, value, n_batch, rows, keys_number(keys, keys->parts), keys->each);
    if (cut && cut->rank == 2) /* of a vector */
        cut = keys_reshape(keys, cut, 0, one, keys_number(keys, keys->parts), keys->each);
    for (int i = 0; i < n_batch + 3; i++)
        perm[i] = i;
    perm[n_batch] = n_batch + 1;
    perm[n_batch + 1] = n_batch;
    return cut ? build_transpose(keys->rewrite, cut, perm, value) : NULL;
}

Value *keys_float(Rewrite *rewrite, double number, const Value *like) {
    return build_constant(rewrite, (Number){.f = number}, DTYPE_F32, like);
}

/* A coordinate along an axis of a space of parts. */
static Value *keys_along(const Keys *keys, int rank, int axis, const Dim *extent, const Value *like) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? extent : keys_number(keys, 1);
    return build_index(keys->rewrite, rank, dims, axis, like);
}

/* One along an axis of x's: of a key, the part's first and that within the part. */
static Value *keys_index(const Keys *keys, Value *value, int axis) {
    Rewrite *rewrite = keys->rewrite;
    int rank = value->rank < 2 ? 3 : value->rank + 1, behind = value->rank - 1 - axis;
    if (behind > 0)
        return keys_along(keys, rank, behind == 1 ? rank - 2 : axis, value->dims[axis], value);
    Value *size = build_cast(rewrite, build_dim(rewrite, keys->step, value), value->dtype, value);
    Value *part = keys_along(keys, rank, rank - 3, keys_number(keys, keys->parts), value);
    Value *first = build_scalar(rewrite, OP_mul, part, size, NULL, value);
    Value *within = keys_along(keys, rank, rank - 1, keys->each, value);
    Value *of_range = build_scalar(rewrite, OP_add, within, first, NULL, value);
    if (dim_is(keys->first, 0))
        return of_range;
    Value *begin = build_cast(rewrite, build_dim(rewrite, keys->first, value), value->dtype, value);
    return build_scalar(rewrite, OP_add, of_range, begin, NULL, value);
}

/* q @ k.T of parts. */
static Value *keys_scores(const Keys *keys) {
    Value *q = keys->core->in[0], *k = keys->core->in[1];
    Value *in[2] = {keys_reshape(keys, q, q->rank - 2, keys_number(keys, 1), keys_dim(q, 2), keys_dim(q, 1)),
                    NULL};
    Value *turned = build_turned(keys->rewrite, k, k);
    Value *rows = turned ? keys_rows(keys, turned) : NULL;
    in[1] = rows ? build_turned(keys->rewrite, rows, k) : NULL;
    return in[0] && in[1] ? build_like(keys->rewrite, keys->core, in) : NULL;
}

Value *keys_cone(const Keys *keys, Value *value, int depth) {
    if (value == keys->core)
        return keys_scores(keys);
    int axis = value_coordinate(value);
    if (axis >= 0)
        return keys_index(keys, value, axis);
    if (!value_is_pointwise(value) || !value->n_in || !depth || value->rank == 0)
        return keys_moved(keys, value);
    Value *in[OP_MAX_ARITY];
    for (int i = 0; i < value->n_in; i++) {
        in[i] = keys_cone(keys, value->in[i], depth - 1);
        if (!in[i])
            return NULL;
    }
    return build_like(keys->rewrite, value, in);
}

Value *keys_masked(const Keys *keys, Value *x) {
    Rewrite *rewrite = keys->rewrite;
    int last = x->rank - 1;
    Value *within = keys_along(keys, x->rank, last, keys->each, x),
          *part = keys_along(keys, x->rank, last - 2, keys_number(keys, keys->parts), x);
    Value *own = build_constant(rewrite, (Number){.i = keys->step->value}, within->dtype, x),
          *end = build_constant(rewrite, (Number){.i = keys->parts - 1}, part->dtype, x);
    Value *is_own = build_scalar(rewrite, OP_lt, within, own, NULL, x),
          *is_end = build_scalar(rewrite, OP_eq, part, end, NULL, x);
    Value *is_seen = build_scalar(rewrite, OP_or, is_own, is_end, NULL, x);
    return build_scalar(rewrite, OP_select, is_seen, x, keys_float(rewrite, -INFINITY, x), x);
}
