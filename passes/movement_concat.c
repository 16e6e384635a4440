/* A reduction of few that were joined, one by one.
 *
 *     v = concat(a, b, c, axis=-1)      each one element along the axis: statistics of a row, the largest of
 * it s = sum(exp(v - m), over=-1)      ->      s = exp(a - m) + exp(b - m) + exp(c - m)
 *
 * The result has one element a row, like what it is computed from, and stays in the kernel that has those. */
#include "passes/movement.h"

enum { CONCAT_PARTS_MAX = 64, CONCAT_DEPTH_MAX = 16 };

static bool concat_is_one(const Value *value, int axis) {
    return value->rank == 0 || dim_is(value->dims[axis], 1);
}

/* How many parts `value` has along the axis, where it is element by element what was joined of single
 * elements; 0: it is not, or it is the same for all parts. */
static int concat_parts(const Value *value, int axis, int depth) {
    int n = 0;
    if (value->op == OP_concat && value->attrs[0].i == axis && value->n_in <= CONCAT_PARTS_MAX) {
        for (int i = 0; i < value->n_in; i++)
            if (!dim_is(value->in[i]->dims[axis], 1))
                return 0;
        return value->n_in;
    }
    if (!value_is_pointwise(value) || depth == 0)
        return 0;
    for (int i = 0; i < value->n_in; i++) {
        const Value *in = value->in[i];
        if (in->rank != 0 && in->rank != value->rank)
            return 0;
        if (concat_is_one(in, axis))
            continue;
        n = concat_parts(in, axis, depth - 1);
        if (n == 0)
            return 0;
    }
    return n;
}

static Value *concat_part(Rewrite *rewrite, Value *value, int axis, int j) {
    if (concat_is_one(value, axis))
        return value;
    if (value->op == OP_concat)
        return value->in[j];
    Value *in[OP_MAX_ARITY];
    for (int i = 0; i < value->n_in; i++)
        in[i] = concat_part(rewrite, value->in[i], axis, j);
    return build_like(rewrite, value, in);
}

OpKind movement_repeated(OpKind reduction) {
    switch (reduction) {
    case OP_sum: return OP_add;
    case OP_prod: return OP_mul;
    case OP_reduce_min: return OP_min;
    case OP_reduce_max: return OP_max;
    default: return OP_COUNT;
    }
}

Value *movement_reduce_concat(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0], *result = NULL;
    OpKind op = movement_repeated(value->op);
    if (value->attrs[0].axes.n != 1 || op == OP_COUNT)
        return value;
    int axis = value->attrs[0].axes.at[0], n = concat_parts(operand, axis, CONCAT_DEPTH_MAX);
    for (int j = 0; j < n; j++) {
        Value *part = build_cast(rewrite, concat_part(rewrite, operand, axis, j), value->dtype, value);
        result = result ? build_scalar(rewrite, op, result, part, NULL, value) : part;
    }
    return result && value_same_dims(result, value) && result->dtype == value->dtype ? result : value;
}
