/* Scalar operations and casts on registers: operands are brought to the type in which the operation computes.
 */
#include <float.h>
#include <math.h>

#include "codegen/kernel_value.h"
#include "codegen/lower_internal.h"
#include "ir/block.h"

/* The type of the computation, which for comparisons is not the type of the result. */
static DType scalar_compute_type(const Value *value, const OpInfo *info) {
    int first = info->rule == RULE_SELECT ? 1 : 0;
    DType type = dtype_compute(value->in[first]->dtype);
    for (int i = first + 1; i < value->n_in; i++)
        type = dtype_promote(type, value->in[i]->dtype);
    return info->int_ref || dtype_is_float(type) ? type : DTYPE_F32;
}

/* Whether a Value is x less the largest of x along some axes, or of a block of them, or less 0 where that is
 * not finite: what softmax takes the exponential of. */
static bool scalar_is_below_max(const Value *value) {
    const Value *most = value->op == OP_sub ? value->in[1] : NULL;
    double zero;
    if (most && most->op == OP_select && most->in[0]->op == OP_isfinite &&
        most->in[0]->in[0] == most->in[1] && value_is_constant(most->in[2], &zero) && zero == 0)
        most = most->in[1];
    const Value *statistic = most ? block_repeated(most) : NULL;
    BlockStatistic block;
    if (statistic)
        return block_statistic(statistic, &block) && statistic->op == OP_reduce_max &&
               block.of == value->in[0];
    while (most && (most->op == OP_broadcast || most->op == OP_reshape))
        most = most->in[0];
    return most && most->op == OP_reduce_max && most->in[0] == value->in[0];
}

const KExpr *lower_power_of_two(Builder *b, const KExpr *x) {
    const KVar *power = k_variable(b, "power", K_F32, NULL);
    KOperand operands[] = {k_reg(power), k_operand(x)};
    k_atom(b, ATOM_ex2_ftz, NULL, operands, 2);
    return k_var(b, power);
}

/* e to the power x, of which 16 bits are kept. Rounding x * log2(e) costs a relative error of |x| * 6e-8, at
 * most 6e-6. Of a difference both sides are multiplied, so that the first is fused with the product, if any,
 * that it is. */
static const KExpr *scalar_exp_rounded(Builder *b, const KExpr *x) {
    const KExpr *log2_e = k_float(b, K_F32, M_LOG2E);
    if (x->kind == KX_SCALAR && x->op == OP_sub)
        return lower_power_of_two(b, k_sub(b, k_mul(b, x->args[0], log2_e), k_mul(b, x->args[1], log2_e)));
    return lower_power_of_two(b, k_mul(b, x, log2_e));
}

/* e to the power x for x that is 0 for the largest of a row: rounding x * log2(e) costs a relative error of
 * |x| * 6e-8, which is less than 3e-8 of the largest, and what would be subnormal is 0. */
static const KExpr *scalar_exp_below_max(Builder *b, const KExpr *x) {
    return lower_power_of_two(b, k_mul(b, x, k_float(b, K_F32, M_LOG2E)));
}

/* Whether a Value is a softmax's quotient, e / sum(e) of what the function above computes: the sum is at
 * least 1. */
static bool scalar_is_share(const Value *value) {
    const Value *part = value->in[0], *sum = value->in[1];
    while (sum->op == OP_broadcast || sum->op == OP_reshape)
        sum = sum->in[0];
    return sum->op == OP_sum && sum->in[0] == part && part->op == OP_exp && scalar_is_below_max(part->in[0]);
}

/* What a quotient by a constant is multiplied by instead: one instruction, and no further from the quotient
 * than a division of 2 units in the last place. 0: its reciprocal is not a normal number. */
static double scalar_reciprocal(const KExpr *divisor) {
    double reciprocal = divisor->kind == KX_FLOAT && divisor->f ? (double)(float)(1 / divisor->f) : 0;
    return fabs(reciprocal) >= FLT_MIN && fabs(reciprocal) <= FLT_MAX ? reciprocal : 0;
}

/* Whether an expression calls a function, or divides. */
static bool scalar_is_long(const KExpr *x) {
    if (x->kind != KX_SCALAR || !ktype_is_float(x->type))
        return false;
    bool is_long = x->op == OP_div || op_info(x->op)->rule == RULE_FLOAT;
    for (int i = 0; i < OP_MAX_ARITY && x->args[i] && !is_long; i++)
        is_long = scalar_is_long(x->args[i]);
    return is_long;
}

/* One of the two that a select is between. Where it takes long to compute, the compiler of CUDA would branch
 * around it, element by element, and lanes would wait for each other: elu behind 8192 x 2560 x 2560 took 168
 * us, 149 where both are computed. */
static const KExpr *scalar_choice(Builder *b, const KExpr *x) {
    return scalar_is_long(x) ? k_let_expr(b, "choice", x) : x;
}

const KExpr *lower_scalar_op(Builder *b, const Value *value, const KExpr *const *operands) {
    const OpInfo *info = op_info(value->op);
    KType type = info->rule == RULE_LOGIC ? K_BOOL : ktype_of(scalar_compute_type(value, info));
    if (info->n_in == 1 && info->rule == RULE_COMPARE && !ktype_is_float(type))
        return k_int(b, K_BOOL, value->op == OP_isfinite); /* every integer is finite, none is NaN */
    const KExpr *args[OP_MAX_ARITY] = {NULL};
    for (int i = 0; i < value->n_in; i++) {
        bool is_condition = info->rule == RULE_SELECT && i == 0;
        args[i] = k_convert(b, operands[i], is_condition ? K_BOOL : type);
        if (info->rule == RULE_SELECT && !is_condition)
            args[i] = scalar_choice(b, args[i]);
    }
    if (value->op == OP_exp && type == K_F32 && value->dtype == DTYPE_F32 &&
        scalar_is_below_max(value->in[0]))
        return scalar_exp_below_max(b, args[0]);
    if (value->op == OP_exp && type == K_F32 && value->dtype == DTYPE_F32 && b->rounds_powers)
        return scalar_exp_rounded(b, args[0]);
    if (value->op == OP_div && type == K_F32 && b->rounds_powers) /* one reciprocal a row, or a column */
        return k_convert(b, k_mul(b, args[0], k_div(b, k_float(b, K_F32, 1), args[1])),
                         ktype_of(value->dtype));
    if (value->op == OP_div && type == K_F32 && scalar_is_share(value)) /* one division a row */
        return k_mul(b, args[0], k_div(b, k_float(b, K_F32, 1), args[1]));
    if (value->op == OP_div && type == K_F32 && scalar_reciprocal(args[1]))
        return k_convert(b, k_mul(b, args[0], k_float(b, K_F32, scalar_reciprocal(args[1]))),
                         ktype_of(value->dtype));
    b->guards_divisions = true;
    const KExpr *result = k_scalar(b, value->op, args[0], args[1], args[2]);
    b->guards_divisions = false;
    return k_convert(b, result, ktype_of(value->dtype));
}

/* An integer register cut to the values of a narrow integer type: its low bits. */
static const KExpr *scalar_wrap(Builder *b, const KExpr *x, DType to) {
    int bits = dtype_bits(to);
    x = k_convert(b, x, ktype_of(to));
    if (bits >= ktype_bits(x->type))
        return x;
    if (dtype_class(to) == DTYPE_UNSIGNED)
        return k_bit_and(b, x, k_int(b, x->type, ((int64_t)1 << bits) - 1));
    int shift = ktype_bits(x->type) - bits;
    return k_shr(b, k_shl(b, x, shift), shift);
}

/* What an integer's magnitude does not exceed, as far as its expression says. */
static int64_t scalar_most(const KExpr *x, int depth) {
    if (x->kind == KX_INT)
        return x->i < 0 ? (x->i == INT64_MIN ? INT64_MAX : -x->i) : x->i;
    if (x->kind == KX_VAR && x->var->is_let && x->var->value && depth > 0)
        return scalar_most(x->var->value, depth - 1);
    if (x->kind != KX_SCALAR || depth == 0)
        return INT64_MAX;
    if (x->op == OP_bit_and) {
        for (int i = 0; i < 2; i++)
            if (x->args[i]->kind == KX_INT && x->args[i]->i >= 0)
                return x->args[i]->i;
    }
    return x->op == OP_shr || x->op == OP_div ? scalar_most(x->args[0], depth - 1) : INT64_MAX;
}

/* An integer below 2^22 in magnitude as a float: behind the first two bits of a fraction it is a number of
 * ones. A conversion would take eight times as long as an addition. */
static const KExpr *scalar_small_to_f32(Builder *b, const KExpr *x) {
    enum { LEADING = 0x4b400000 /* 2^23 + 2^22 */ };
    const KExpr *bits = k_add(b, k_convert(b, x, K_I32), k_i32(b, LEADING));
    return k_sub(b, k_bitcast(b, bits, K_F32), k_float(b, K_F32, (1 << 23) + (1 << 22)));
}

/* A wide integer as a narrow float type: rounded once, in f64. Of 63 bits, those below 53 become one sticky
 * bit first, which cannot stand in the way of a rounding to so few. */
static const KExpr *scalar_int_to_narrow(Builder *b, const KExpr *x, DType to) {
    enum { DEPTH = 8, SMALL = 1 << 22 };
    int64_t most = scalar_most(x, DEPTH);
    if (most < SMALL) {
        const KExpr *number = scalar_small_to_f32(b, x);
        bool is_exact = dtype_widens(most <= dtype_max_int(DTYPE_U4)   ? DTYPE_U4
                                     : most <= dtype_max_int(DTYPE_U8) ? DTYPE_U8
                                                                       : DTYPE_I32,
                                     to);
        return is_exact ? number : k_round(b, number, to);
    }
    if (x->type == K_I64) {
        const KExpr *low = k_bit_and(b, x, k_int(b, K_I64, 2047));
        const KExpr *sticky =
            k_select(b, k_eq(b, low, k_int(b, K_I64, 0)), k_int(b, K_I64, 0), k_int(b, K_I64, 1024));
        const KExpr *odd = k_bit_or(b, k_bit_and(b, x, k_int(b, K_I64, -2048)), sticky);
        const KExpr *is_large =
            k_ge(b, k_scalar(b, OP_abs, k_shr(b, x, 1), NULL, NULL), k_int(b, K_I64, (int64_t)1 << 52));
        x = k_select(b, is_large, odd, x);
    }
    return k_convert(b, k_round(b, k_convert(b, x, K_F64), to), K_F32);
}

const KExpr *lower_cast(Builder *b, const KExpr *x, DType from, DType to) {
    if (from == to)
        return x;
    if (dtype_class(to) == DTYPE_LOGICAL)
        return k_convert(b, x, K_BOOL);
    if (dtype_is_float(to)) {
        if (to == DTYPE_F32 || to == DTYPE_F64 || dtype_widens(from, to))
            return k_convert(b, x, ktype_of(to));
        if (dtype_is_float(from))
            return k_convert(b, k_round(b, x, to), ktype_of(to));
        return x->type == K_BOOL ? k_convert(b, x, ktype_of(to)) : scalar_int_to_narrow(b, x, to);
    }
    if (!dtype_is_float(from))
        return dtype_widens(from, to) ? k_convert(b, x, ktype_of(to)) : scalar_wrap(b, x, to);
    x = k_convert(b, x, ktype_of(to)); /* toward zero, saturating at the register's ends */
    if (dtype_bits(to) >= ktype_bits(x->type))
        return x;
    return k_min(b, k_max(b, x, k_int(b, x->type, dtype_min_int(to))), k_int(b, x->type, dtype_max_int(to)));
}
