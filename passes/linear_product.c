/* A sum of a product over axes that one operand alone has is the product of that operand's sum:
 *
 *     y = sum(x @ w + b, over=rows)            x: bf16[B, M, K], w: bf16[K, N], b: [N]
 * ->  y = sum(x, over=rows) @ w + M * b        in f32
 *
 * as where rows are projected before their mean is taken. Each of M rows is then read once and not multiplied
 * at all. The sum of elements of 16 bits is f32, and so is the product with it, away from the tensor cores:
 * that pays from some rows on. What comes of other products stays, as a softmax does, since one kernel may do
 * both. */
#include "passes/linear.h"

enum {
    LINEAR_LEAST = 16, /* of the axes: so much slower are multiply-adds than tensor cores */
    LINEAR_LEAST_FMA = 2
};

/* Which operand of a product has an axis of its result, the other having not: 0 or 1; -1: both, or neither.
 */
static int linear_side(const Value *product, int axis) {
    int rank = product->rank;
    if (axis >= rank - 2)
        return axis == rank - 1;
    bool has[2];
    for (int i = 0; i < 2; i++) {
        int at = axis - (rank - product->in[i]->rank);
        has[i] = at >= 0 && product->in[i]->dims[at] == product->dims[axis];
    }
    return has[0] == has[1] ? -1 : has[1];
}

/* The axes of one operand that are summed, those of the result that are summed behind the product, and how
 * many elements the former and all have. */
typedef struct LinearAxes {
    int side, n, axes[RANK_MAX], n_left, left[RANK_MAX];
    int64_t count, all;
} LinearAxes;

/* False where there are none, or where it is not known how many elements they have. */
static bool linear_axes_of(const Value *sum, const Value *product, LinearAxes *out) {
    *out = (LinearAxes){.side = -1, .count = 1, .all = 1};
    for (int i = 0; i < product->rank; i++) {
        const Dim *dim = product->dims[i];
        if (!value_reduces(sum, i) || dim_is(dim, 1))
            continue;
        if (!dim_is_const(dim) || __builtin_mul_overflow(out->all, dim->value, &out->all))
            return false;
        int side = linear_side(product, i);
        out->side = out->side < 0 ? side : out->side;
        if (side < 0 || side != out->side) {
            out->left[out->n_left++] = i;
            continue;
        }
        out->axes[out->n++] = i - (product->rank - product->in[side]->rank);
        out->count *= dim->value;
    }
    return out->n > 0;
}

static bool linear_is_float(const Value *value) {
    return dtype_is_float(value->dtype) && value->dtype != DTYPE_TF32 && value->dtype != DTYPE_F64;
}

/* Whether the product is the sum's alone, of floats, and reads the operand that would be summed from memory.
 */
static bool linear_is_taken(Rewrite *rewrite, const Value *product, const LinearAxes *axes) {
    bool is_fma = product->in[0]->dtype == DTYPE_F32 || product->in[1]->dtype == DTYPE_F32;
    return linear_is_float(product->in[0]) && linear_is_float(product->in[1]) &&
           axes->count >= (is_fma ? LINEAR_LEAST_FMA : LINEAR_LEAST) &&
           !rewrite_is_heavy(rewrite, product->in[axes->side]);
}

/* The product that is summed, alone or with what does not vary along the axes; NULL: none. */
static Value *linear_summed(const Rewrite *rewrite, const Value *sum, Value **beside) {
    Value *whole = sum->in[0];
    *beside = NULL;
    for (int i = 0; i < 2 && whole->op == OP_add && rewrite_is_free(rewrite, whole); i++)
        if (whole->in[i]->op == OP_matmul && value_same_dims(whole->in[i], whole) &&
            linear_is_fixed(whole->in[!i], sum)) {
            *beside = whole->in[!i];
            whole = whole->in[i];
        }
    bool is_product = whole->op == OP_matmul && whole->dtype == DTYPE_F32 && rewrite_is_free(rewrite, whole);
    return is_product && !rewrite_has_schedule(rewrite->graph, whole) ? whole : NULL;
}

Value *linear_product(Rewrite *rewrite, Value *sum) {
    LinearAxes axes;
    Value *beside, *product = linear_summed(rewrite, sum, &beside), *in[2];
    if (!product || !linear_axes_of(sum, product, &axes) || !linear_is_taken(rewrite, product, &axes))
        return sum;
    for (int i = 0; i < 2; i++) {
        in[i] = build_cast(rewrite, product->in[i], DTYPE_F32, sum);
        if (i == axes.side)
            in[i] = build_reduce(rewrite, OP_sum, in[i], axes.n, axes.axes, true, sum);
    }
    Value *fresh = build_matmul(rewrite, in[0], in[1], sum);
    if (fresh && axes.n_left)
        fresh = build_reduce(rewrite, OP_sum, fresh, axes.n_left, axes.left, true, sum);
    if (fresh && beside) {
        Value *times = build_constant(rewrite, (Number){.f = (double)axes.all}, DTYPE_F32, sum);
        beside = times ? build_scalar(rewrite, OP_mul, beside, times, NULL, sum) : NULL;
        fresh = beside ? build_scalar(rewrite, OP_add, fresh, beside, NULL, sum) : NULL;
    }
    if (!fresh || fresh->dtype != sum->dtype || !value_same_dims(fresh, sum))
        return sum;
    pass_decide(rewrite->pass, "linear", true, fresh, NULL, NULL,
                "axes that one operand of a product alone has are summed before they are multiplied");
    return fresh;
}
