/* Reductions and matrix products that no template holds in registers: loops where they stand, each at one
 * place of the result. */
#include "codegen/kernel_value.h"
#include "codegen/lower_internal.h"
#include "codegen/reduce.h"
#include "ir/gaps.h"

const KExpr *lower_reduction(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    Builder *b = lower->b;
    const Value *operand = value->in[0];
    bool reduced[RANK_MAX] = {false};
    const Dim *dims[RANK_MAX];
    LaneCoord at[RANK_MAX], numbers[RANK_MAX];
    int n = value->attrs[0].axes.n, next = 0;
    for (int i = 0; i < n; i++)
        reduced[value->attrs[0].axes.at[i]] = true;
    bool keeps = value->rank == operand->rank;
    for (int i = 0; i < operand->rank; i++)
        if (keeps || !reduced[i])
            at[i] = lane_concrete(lower, coords[keeps ? i : next++]);
    guard = lower_concrete(lower, guard);

    PartialVars acc = reduce_declare(b, value, lower_value_name(lower, value), 0, lower->index);
    n = 0;
    for (int i = 0; i < operand->rank; i++) {
        if (!reduced[i])
            continue;
        const KExpr *end = k_dim(b, operand->dims[i], lower->index);
        at[i] = (LaneCoord){k_for_begin(b, "r", lower->zero, end, 1, UNROLL_AUTO), 0, 1, 1};
        dims[n] = operand->dims[i];
        numbers[n++] = at[i];
    }
    size_t mark = lower_open_scope(lower);
    const KExpr *number = reduce_has_number(value) ? lane_linear(lower, n, numbers, dims).at : NULL;
    const KExpr *x = lower_eval(lower, operand, at, guard);
    reduce_take(b, value, acc, NULL, x, number, NULL);
    lower_close_scope(lower, mark);
    for (int i = 0; i < n; i++)
        k_end(b);
    return reduce_result(b, value, reduce_get(b, acc, NULL));
}

/* Coordinates of a product's operand: its batch dims are the result's, 1, or divide them, each matrix then
 * serving several. */
static void loop_batch_coords(Lower *lower, const Value *value, const Value *operand, const LaneCoord *coords,
                              LaneCoord *out) {
    DimTable *table = lower->graph->dims;
    int shift = value->rank - operand->rank;
    for (int i = 0; i < operand->rank - 2; i++) {
        LaneCoord coord = lane_concrete(lower, coords[i + shift]);
        if (dim_is(operand->dims[i], 1))
            coord = lane_const(lower, 0);
        else if (operand->dims[i] != value->dims[i + shift])
            coord.at = k_div(
                lower->b, coord.at,
                k_dim(lower->b, dim_div(table, value->dims[i + shift], operand->dims[i]), lower->index));
        out[i] = coord;
    }
}

/* An element as the product reads it. */
static const KExpr *loop_factor(Lower *lower, const Value *operand, const LaneCoord *at, const KExpr *guard,
                                KType type) {
    const KExpr *x = k_convert(lower->b, lower_eval(lower, operand, at, guard), type);
    return operand->dtype == DTYPE_TF32 ? k_round(lower->b, x, DTYPE_TF32) : x;
}

/* Whether an element is what a product leaves out. */
static const KExpr *loop_is_gap(Builder *b, const KExpr *element) {
    return k_eq(b, k_bitcast(b, k_convert(b, element, K_F32), K_U32), k_int(b, K_U32, 0x80000000));
}

const KExpr *lower_matmul(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    Builder *b = lower->b;
    const Value *x = value->in[0], *y = value->in[1];
    KType type = ktype_of(value->dtype);
    LaneCoord x_at[RANK_MAX], y_at[RANK_MAX];
    loop_batch_coords(lower, value, x, coords, x_at);
    loop_batch_coords(lower, value, y, coords, y_at);
    x_at[x->rank - 2] = lane_concrete(lower, coords[value->rank - 2]);
    y_at[y->rank - 1] = lane_concrete(lower, coords[value->rank - 1]);
    guard = lower_concrete(lower, guard);

    if (lower_known(lower, value)->binding.is_bound) /* tests look for it: such a kernel is slow beyond use */
        k_comment(b, "the product anew: no register of this thread's holds this element");
    const KVar *acc = k_variable(b, lower_value_name(lower, value), type, k_convert(b, k_i32(b, 0), type));
    const KExpr *end = k_dim(b, x->dims[x->rank - 1], lower->index);
    const KExpr *k = k_for_begin(b, "k", lower->zero, end, 1, UNROLL_AUTO);
    size_t mark = lower_open_scope(lower);
    x_at[x->rank - 1] = (LaneCoord){k, 0, 1, 1};
    y_at[y->rank - 2] = (LaneCoord){k, 0, 1, 1};
    const KExpr *p = loop_factor(lower, x, x_at, guard, type), *q = loop_factor(lower, y, y_at, guard, type);
    const KExpr *sum = ktype_is_float(type) ? k_scalar(b, OP_fma, p, q, k_var(b, acc))
                                            : k_add(b, k_var(b, acc), k_mul(b, p, q));
    k_set(b, acc, gaps_in(y) ? k_select(b, loop_is_gap(b, q), k_var(b, acc), sum) : sum);
    lower_close_scope(lower, mark);
    k_end(b);
    return k_var(b, acc);
}
