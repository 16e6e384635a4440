/* Factors that do not vary along K leave the operands of a matmul for its epilogue, where they are free.
 *
 *     p = (cast(x, f32) * sx) @ (cast(w, f32) * sw)     ->    p = (x @ w) * sx * sw
 *
 * with sx one number, or one a row, and sw one number, or one a column. A product of what was quantized then
 * runs on the tensor cores of its narrow type (simplify.c drops the casts). It is done where nothing is left
 * to compute in the operand: otherwise the operand is computed anyway, and its factor is free there.
 *
 *     p = a @ cast(cast(w, f32) * sw, bf16)          ->    p = (a @ cast(w, bf16)) * sw
 *
 * where w is narrower than bf16: the weights are then exact, and rounded no more. Results of more than 16
 * bits would show that, and differ from what the graph says by its own rounding: they keep it. */
/*
 *     p = (x - zx) @ (w - zw)        ->    p = x @ w - zx * sum(w, K) - zw * sum(x, K) + length(K) * zx * zw
 *
 * where x and w are bytes and the zero points integers: all of it in i32, and exact. */
#include "passes/rewrite.h"

enum { SCALE_FACTORS = 8, SCALE_INT8_LENGTH = 32768, SCALE_ZERO_LENGTH = 8192 };

typedef struct ScaleFactor {
    Value *factor;
    bool divides;
} ScaleFactor;

typedef struct ScaleOperand {
    Value *top;      /* below at most one transpose: where the chain of factors begins */
    Value *rest;     /* what remains below the factors */
    DType rounded;   /* to which the product with the factors was rounded; DTYPE_COUNT: it was not */
    const int *perm; /* of that transpose; NULL: none */
    int k_axis;      /* the summed axis, in coordinates of `top` */
    ScaleFactor factors[SCALE_FACTORS];
    int n;
    Value *zero; /* what is subtracted from the rest; NULL: nothing */
} ScaleOperand;

/* The operand of a product that does not vary along K, while the other has the whole's dims; -1 where there
 * is none. */
static int scale_factor_at(const ScaleOperand *operand, const Value *value) {
    if ((value->op != OP_mul && value->op != OP_div) || !dtype_is_float(value->dtype))
        return -1;
    for (int i = 1; i >= 0; i--)
        if (!(value->op == OP_div && i == 0) && value_same_dims(value->in[!i], value) &&
            !value_varies(value->in[i], value, operand->k_axis))
            return i;
    return -1;
}

/* Whether nothing is computed in `value` but an exact widening, of what is stored or has been rounded to the
 * narrow type in which it is multiplied (quantized activations). */
static bool scale_is_plain(const Value *value) {
    while (value->op == OP_reshape || value->op == OP_transpose || value->op == OP_slice ||
           value->op == OP_broadcast ||
           (value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype)))
        value = value->in[0];
    bool is_narrowed = value->op == OP_cast && dtype_bits(value->dtype) <= 8 && value->dtype != DTYPE_BOOL;
    return is_narrowed || (!value_is_pointwise(value) && value->op != OP_constant);
}

static bool scale_is_int8(const Value *value) {
    return dtype_is_int8(value_before_widening(value)->dtype);
}

/* Takes the zero point of bytes off the rest, where it does not vary along K. */
static void scale_take_zero(ScaleOperand *operand) {
    Value *rest = operand->rest;
    if (rest->op != OP_sub || !value_same_dims(rest->in[0], rest) || !scale_is_int8(rest->in[0]) ||
        value_varies(rest->in[1], rest, operand->k_axis) || dtype_is_float(rest->in[1]->dtype))
        return;
    operand->zero = rest->in[1];
    operand->rest = rest->in[0];
}

static ScaleOperand scale_operand(Value *value, bool second) {
    ScaleOperand operand = {.top = value, .k_axis = value->rank - (second ? 2 : 1), .rounded = DTYPE_COUNT};
    for (int i = 0; i < 2; i++) { /* the cast and the transpose, in either order */
        const Value *top = operand.top;
        if (!operand.perm && top->op == OP_transpose) {
            operand.perm = top->attrs[0].ints;
            operand.k_axis = operand.perm[operand.k_axis];
            operand.top = top->in[0];
        } else if (operand.rounded == DTYPE_COUNT && top->op == OP_cast && dtype_is_float(top->dtype) &&
                   dtype_bits(top->dtype) == 16) {
            operand.rounded = top->dtype;
            operand.top = top->in[0];
        }
    }
    operand.rest = operand.top;
    while (operand.n < SCALE_FACTORS) {
        int at = scale_factor_at(&operand, operand.rest);
        if (at < 0)
            break;
        operand.factors[operand.n++] =
            (ScaleFactor){.factor = operand.rest->in[at], .divides = operand.rest->op == OP_div};
        operand.rest = operand.rest->in[!at];
    }
    scale_take_zero(&operand);
    bool is_exact = operand.rounded == DTYPE_COUNT || dtype_widens(operand.rest->dtype, operand.rounded);
    if (!scale_is_plain(operand.rest) || !is_exact) {
        operand.n = 0;
        operand.rest = operand.top;
        operand.zero = NULL;
    }
    return operand;
}

/* A factor of heads that repeat in the product, [h, 1, 1] of h that divides H, as one of all: [H, 1, 1]. */
static Value *scale_repeated(Rewrite *rewrite, Value *factor, const Value *matmul) {
    DimTable *table = rewrite->graph->dims;
    for (int i = 0; factor && i < factor->rank - 2; i++) {
        const Dim *all = matmul->dims[i + matmul->rank - factor->rank], *own = factor->dims[i];
        if (dim_is(own, 1) || own == all)
            continue;
        const Dim *dims[RANK_MAX + 1], *apart[RANK_MAX + 1];
        int rank = 0;
        for (int k = 0; k < factor->rank; k++) {
            apart[rank] = dims[rank] = factor->dims[k];
            rank++;
            if (k != i)
                continue;
            apart[rank] = dim_const(table, 1);
            dims[rank++] = dim_const(table, all->value / own->value);
        }
        factor =
            build_broadcast(rewrite, build_reshape(rewrite, factor, rank, apart, matmul), rank, dims, matmul);
        for (int k = 0; k <= i; k++)
            apart[k] = dims[k];
        apart[i] = all;
        for (int k = i + 2; k < rank; k++)
            apart[k - 1] = dims[k];
        factor = build_reshape(rewrite, factor, rank - 1, apart, matmul);
    }
    return factor;
}

/* Whether all that repeats in a product are so many matrices as is known. */
static bool scale_knows_repeats(const Value *matmul) {
    for (int n = 0; n < 2; n++) {
        const Value *operand = matmul->in[n];
        for (int i = 0; i < operand->rank - 2; i++) {
            const Dim *own = operand->dims[i], *all = matmul->dims[i + matmul->rank - operand->rank];
            if (!dim_is(own, 1) && own != all && !(dim_is_const(own) && dim_is_const(all) && own->value > 0))
                return false;
        }
    }
    return matmul->rank < RANK_MAX;
}

/* The factor in the space of the matmul's operand: K is one there, so it broadcasts to the result as it is.
 */
static Value *scale_in_result(Rewrite *rewrite, const ScaleOperand *operand, Value *factor,
                              const Value *like) {
    if (!operand->perm || factor->rank == 0)
        return scale_repeated(rewrite, factor, like);
    const Dim *dims[RANK_MAX];
    int missing = operand->top->rank - factor->rank;
    for (int i = 0; i < operand->top->rank; i++)
        dims[i] = i < missing ? dim_const(rewrite->graph->dims, 1) : factor->dims[i - missing];
    factor = build_transpose(rewrite, build_reshape(rewrite, factor, operand->top->rank, dims, like),
                             operand->perm, like);
    return scale_repeated(rewrite, factor, like);
}

/* Whether a factor of an operand's rows, columns or matrices is one of the product's. Matrices may repeat
 * there (grouped heads), which broadcasting does not say; so many are known, then. */
static bool scale_broadcasts(const ScaleOperand *operand, const Value *factor, const Value *matmul) {
    for (int i = 0; i < factor->rank; i++) {
        int axis = i + operand->top->rank - factor->rank, result = 0;
        while (operand->perm && operand->perm[result] != axis)
            result++;
        result = (operand->perm ? result : axis) + matmul->rank - operand->top->rank;
        if (result < 0)
            return false;
        const Dim *own = factor->dims[i], *all = matmul->dims[result];
        bool repeats = result < matmul->rank - 2 && matmul->rank < RANK_MAX && dim_is_const(own) &&
                       dim_is_const(all) && own->value > 0;
        if (!dim_is(own, 1) && own != all && !repeats)
            return false;
    }
    return true;
}

/* Whether a factor is a number of the graph's inputs or a constant. A computed one may be NaN, as the mean of
 * a row of nothing is, where the sum without it is 0. */
static bool scale_is_given(const Value *factor) {
    while (factor->n_in == 1 && (factor->op == OP_cast || value_class(factor) == OPCLASS_MOVEMENT))
        factor = factor->in[0];
    return factor->op == OP_input || factor->op == OP_constant;
}

/* A product of bytes, in i32, less what their zero points add to it. */
static Value *scale_less_zeros(Rewrite *rewrite, const ScaleOperand *operands, Value *const *in,
                               Value *product, const Value *like) {
    Value *zeros[2] = {NULL, NULL}, *sums[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        int axis = in[i]->rank - (i ? 2 : 1);
        if (operands[i].zero)
            zeros[i] = build_cast(rewrite, scale_in_result(rewrite, &operands[i], operands[i].zero, like),
                                  DTYPE_I32, like);
        if (operands[!i].zero)
            sums[i] =
                scale_repeated(rewrite,
                               build_reduce(rewrite, OP_sum, build_cast(rewrite, in[i], DTYPE_I32, like), 1,
                                            &axis, true, like),
                               like);
    }
    for (int i = 0; i < 2; i++)
        if (zeros[i])
            product = build_scalar(rewrite, OP_sub, product,
                                   build_scalar(rewrite, OP_mul, zeros[i], sums[!i], NULL, like), NULL, like);
    if (!zeros[0] || !zeros[1])
        return product;
    int64_t length = in[0]->dims[in[0]->rank - 1]->value;
    Value *both = build_scalar(rewrite, OP_mul, zeros[0], zeros[1], NULL, like);
    both = build_scalar(rewrite, OP_mul, both,
                        build_constant(rewrite, (Number){.i = length}, DTYPE_I32, like), NULL, like);
    return build_scalar(rewrite, OP_add, product, both, NULL, like);
}

static Value *scale_rule(Rewrite *rewrite, Value *value) {
    bool is_sum = value->dtype == DTYPE_F32 || value->dtype == DTYPE_I32;
    if (value->op != OP_matmul || !is_sum || value->in[0]->rank < 2 || value->in[1]->rank < 2)
        return value;
    const bool *shown = rewrite->pass->state;
    ScaleOperand operands[2] = {scale_operand(value->in[0], false), scale_operand(value->in[1], true)};
    for (int i = 0; i < 2; i++)
        if (operands[i].rounded != DTYPE_COUNT && shown[value->id])
            operands[i].n = 0, operands[i].zero = NULL;
    bool has_zero = operands[0].zero || operands[1].zero;
    Value *in[2] = {value->in[0], value->in[1]};
    if (!has_zero && (value->dtype != DTYPE_F32 || (!operands[0].n && !operands[1].n)))
        return value;
    const Dim *k = value->in[0]->dims[value->in[0]->rank - 1];
    int64_t longest = dim_upper(rewrite->graph->dims, k);
    bool may_be_none = dim_lower(rewrite->graph->dims, k) < 1;
    bool is_rounded = operands[0].rounded != DTYPE_COUNT || operands[1].rounded != DTYPE_COUNT;
    bool are_bytes = scale_is_int8(operands[0].rest) && scale_is_int8(operands[1].rest) && !is_rounded;
    if (has_zero &&
        (!are_bytes || !dim_is_const(k) || longest > SCALE_ZERO_LENGTH || !scale_knows_repeats(value)))
        return value;
    for (int i = 0; i < 2; i++) {
        for (int f = 0; f < operands[i].n; f++)
            if (!scale_broadcasts(&operands[i], operands[i].factors[f].factor, value) ||
                (may_be_none && !scale_is_given(operands[i].factors[f].factor)))
                return value;
        if (operands[i].zero && !scale_broadcasts(&operands[i], operands[i].zero, value))
            return value;
        while (has_zero && operands[i].rest->op == OP_cast) /* bytes are multiplied as such */
            operands[i].rest = operands[i].rest->in[0];
        if (operands[i].n || has_zero)
            in[i] = operands[i].perm ? build_transpose(rewrite, operands[i].rest, operands[i].perm, value)
                                     : operands[i].rest;
        if (operands[i].n && operands[i].rounded != DTYPE_COUNT)
            in[i] = build_cast(rewrite, in[i], operands[i].rounded, value);
    }
    bool integers = !dtype_is_float(in[0]->dtype) && !dtype_is_float(in[1]->dtype);
    if (integers && longest > SCALE_INT8_LENGTH)
        return value;
    Value *product = build_like(rewrite, value, in);
    if (has_zero && product)
        product = scale_less_zeros(rewrite, operands, in, product, value);
    Value *fresh = product ? build_cast(rewrite, product, value->dtype, value) : NULL;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < operands[i].n; k++) {
            Value *factor = scale_in_result(rewrite, &operands[i], operands[i].factors[k].factor, value);
            if (!fresh || !factor)
                return value;
            fresh = build_scalar(rewrite, operands[i].factors[k].divides ? OP_div : OP_mul, fresh, factor,
                                 NULL, value);
        }
    return fresh && fresh->dtype == value->dtype && value_same_dims(fresh, value) ? fresh : value;
}

bool pass_scale(Pass *pass, Graph *graph) {
    graph_renumber(graph);
    pass->state = rewrite_find_shown(pass, graph);
    return rewrite_graph(pass, graph, scale_rule);
}
