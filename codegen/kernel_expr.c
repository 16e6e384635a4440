/* Building expressions of kernel IR; integers simplify on the way (kernel_fold.c). See kernel_build.h. */
#include "codegen/kernel_fold.h"
#include "codegen/kernel_index.h"
#include "codegen/kernel_value.h"

static KExpr *expr_new(Builder *b, KExprKind kind, KType type) {
    KExpr *expr = ARENA_NEW(b->arena, KExpr);
    expr->kind = kind;
    expr->type = type;
    return expr;
}

const KExpr *k_int(Builder *b, KType type, int64_t value) {
    KExpr *expr = expr_new(b, KX_INT, type);
    expr->i = kvalue_wrap(type, value);
    return expr;
}

const KExpr *k_i32(Builder *b, int64_t value) {
    return k_int(b, K_I32, value);
}

const KExpr *k_float(Builder *b, KType type, double value) {
    KExpr *expr = expr_new(b, KX_FLOAT, type);
    expr->f = type == K_F32 ? (double)(float)value : value;
    return expr;
}

const KExpr *k_var(Builder *b, const KVar *var) {
    KExpr *expr = expr_new(b, KX_VAR, var->type);
    expr->var = var;
    return expr;
}

const KExpr *k_elem(Builder *b, const KVar *array, const KExpr *index) {
    KExpr *expr = expr_new(b, KX_ELEM, array->type);
    expr->var = array;
    expr->args[0] = index;
    expr->n_args = 1;
    return expr;
}

const KExpr *k_elem_at(Builder *b, const KVar *array, int index) {
    return k_elem(b, array, k_i32(b, index));
}

const KExpr *k_special(Builder *b, KSpecial special) {
    if (special == SPECIAL_WARP)
        return k_var(b, build_warp(b));
    KExpr *expr = expr_new(b, KX_SPECIAL, K_I32);
    expr->i = special;
    return expr;
}

/* ---- scalars ------------------------------------------------------------------------------------------- */

static const KExpr *expr_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z) {
    KType type = op == OP_select ? y->type : x->type;
    KExpr *expr = expr_new(b, KX_SCALAR, kvalue_scalar_type(op, type));
    expr->op = op;
    expr->is_rounded = b->rounds_products && op == OP_mul && ktype_is_float(type);
    expr->is_guarded = b->guards_divisions && (op == OP_div || op == OP_mod) && ktype_is_int(type);
    expr->args[0] = x;
    expr->args[1] = y;
    expr->args[2] = z;
    expr->n_args = op_info(op)->n_in;
    return expr;
}

static bool expr_is_commutative(OpKind op) {
    switch (op) {
    case OP_add:
    case OP_mul:
    case OP_min:
    case OP_max:
    case OP_eq:
    case OP_ne:
    case OP_and:
    case OP_or:
    case OP_xor:
    case OP_bit_and:
    case OP_bit_or:
    case OP_bit_xor: return true;
    default: return false;
    }
}

const KExpr *k_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z) {
    if (expr_is_commutative(op) && x->kind == KX_INT && y->kind != KX_INT) {
        const KExpr *swap = x;
        x = y;
        y = swap;
    }
    const KExpr *simpler = fold_scalar(b, op, x, y, z);
    return simpler ? simpler : expr_scalar(b, op, x, y, z);
}

const KExpr *k_add(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_add, x, y, NULL);
}

const KExpr *k_sub(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_sub, x, y, NULL);
}

const KExpr *k_mul(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_mul, x, y, NULL);
}

const KExpr *k_div(Builder *b, const KExpr *x, const KExpr *y) {
    const KExpr *simpler = ktype_is_int(x->type) && x->kind != KX_INT ? fold_div(b, x, y) : NULL;
    return simpler ? simpler : k_scalar(b, OP_div, x, y, NULL);
}

const KExpr *k_mod(Builder *b, const KExpr *x, const KExpr *y) {
    const KExpr *simpler = ktype_is_int(x->type) && x->kind != KX_INT ? fold_mod(b, x, y) : NULL;
    return simpler ? simpler : k_scalar(b, OP_mod, x, y, NULL);
}

const KExpr *k_min(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_min, x, y, NULL);
}

const KExpr *k_max(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_max, x, y, NULL);
}

const KExpr *k_lt(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_lt, x, y, NULL);
}

const KExpr *k_ge(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_ge, x, y, NULL);
}

const KExpr *k_eq(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_eq, x, y, NULL);
}

const KExpr *k_and(Builder *b, const KExpr *x, const KExpr *y) {
    if (!x || !y)
        return x ? x : y;
    return k_scalar(b, OP_and, x, y, NULL);
}

const KExpr *k_not(Builder *b, const KExpr *x) {
    return k_scalar(b, OP_not, x, NULL, NULL);
}

const KExpr *k_xor(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_bit_xor, x, y, NULL);
}

const KExpr *k_bit_and(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_bit_and, x, y, NULL);
}

const KExpr *k_bit_or(Builder *b, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_bit_or, x, y, NULL);
}

const KExpr *k_shl(Builder *b, const KExpr *x, int bits) {
    return k_scalar(b, OP_shl, x, k_int(b, x->type, bits), NULL);
}

const KExpr *k_shr(Builder *b, const KExpr *x, int bits) {
    return k_scalar(b, OP_shr, x, k_int(b, x->type, bits), NULL);
}

const KExpr *k_select(Builder *b, const KExpr *condition, const KExpr *x, const KExpr *y) {
    return k_scalar(b, OP_select, condition, x, y);
}

/* ---- types and bits ------------------------------------------------------------------------------------ */

const KExpr *k_mul_hi(Builder *b, const KExpr *x, const KExpr *y) {
    if (x->kind == KX_INT && y->kind == KX_INT)
        return k_int(b, K_U32, (int64_t)((uint64_t)x->i * (uint64_t)y->i >> 32));
    KExpr *expr = expr_new(b, KX_MUL_HI, K_U32);
    expr->args[0] = x;
    expr->args[1] = y;
    expr->n_args = 2;
    return expr;
}

static const KExpr *expr_constant(Builder *b, KType type, Number value) {
    return ktype_is_float(type) ? k_float(b, type, value.f) : k_int(b, type, value.i);
}

static bool expr_constant_value(const KExpr *x, Number *out) {
    if (x->kind == KX_INT)
        out->i = x->i;
    else if (x->kind == KX_FLOAT)
        out->f = x->f;
    else
        return false;
    return true;
}

static const KExpr *expr_unary(Builder *b, KExprKind kind, KType type, const KExpr *x) {
    KExpr *expr = expr_new(b, kind, type);
    expr->args[0] = x;
    expr->n_args = 1;
    return expr;
}

const KExpr *k_convert(Builder *b, const KExpr *x, KType type) {
    Number value;
    if (x->type == type)
        return x;
    if (expr_constant_value(x, &value))
        return expr_constant(b, type, kvalue_convert(value, x->type, type));
    if (x->kind == KX_CONVERT && x->args[0]->type == type && ktype_is_int(type) && ktype_is_int(x->type) &&
        ktype_bits(x->type) >= ktype_bits(type)) /* there and back again, the low bits kept */
        return x->args[0];
    return expr_unary(b, KX_CONVERT, type, x);
}

const KExpr *k_round(Builder *b, const KExpr *x, DType type) {
    if (x->kind == KX_FLOAT)
        return k_float(b, x->type, dtype_round(x->f, type));
    KExpr *expr = (KExpr *)expr_unary(b, KX_ROUND, x->type, x);
    expr->dtype = type;
    return expr;
}

const KExpr *k_bitcast(Builder *b, const KExpr *x, KType type) {
    Number value;
    if (x->type == type)
        return x;
    if (x->kind == KX_BITCAST)
        return k_bitcast(b, x->args[0], type);
    if (expr_constant_value(x, &value)) {
        value = kvalue_from_bits(kvalue_bits(value, x->type), type);
        if (!ktype_is_float(type) || value.f == value.f) /* a NaN's payload would be lost */
            return expr_constant(b, type, value);
    }
    return expr_unary(b, KX_BITCAST, type, x);
}

const KExpr *k_pack(Builder *b, DType type, const KExpr *const *values) {
    KExpr *expr = expr_new(b, KX_PACK, K_U32);
    expr->dtype = type;
    expr->n_args = 32 / dtype_bits(type);
    bool is_const = true;
    for (int i = 0; i < expr->n_args; i++) {
        Number value;
        expr->args[i] = values[i];
        is_const = is_const && expr_constant_value(values[i], &value);
    }
    if (!is_const)
        return expr;
    uint32_t word = 0;
    for (int i = 0; i < expr->n_args; i++) {
        Number value = {0};
        expr_constant_value(values[i], &value);
        dtype_store(type, &word, i, kvalue_to_element(value, values[i]->type, type));
    }
    return k_int(b, K_U32, word);
}

const KExpr *k_unpack(Builder *b, DType type, const KExpr *word, int lane) {
    KExpr *expr = (KExpr *)expr_unary(b, KX_UNPACK, ktype_of(type), word);
    expr->dtype = type;
    expr->i = lane;
    return expr;
}

static const KExpr *expr_address(Builder *b, KExprKind kind, KType type, const KBuffer *buffer,
                                 const KExpr *index) {
    KExpr *expr = (KExpr *)expr_unary(b, kind, type, index ? k_index_unrolled_last(b, index) : k_i32(b, 0));
    expr->buffer = buffer;
    return expr;
}

const KExpr *k_smem_addr(Builder *b, const KBuffer *buffer, const KExpr *index) {
    return expr_address(b, KX_SMEM_ADDR, K_U32, buffer, index);
}

const KExpr *k_global_addr(Builder *b, const KBuffer *buffer, const KExpr *index) {
    return expr_address(b, KX_GLOBAL_ADDR, K_U64, buffer, index);
}

const KExpr *k_tensor_map_addr(Builder *b, int param) {
    KExpr *expr = expr_new(b, KX_TENSOR_MAP, K_U64);
    expr->i = param;
    return expr;
}

/* ---- dims ---------------------------------------------------------------------------------------------- */

/* Floor division, whatever the signs of a; b > 0. */
static const KExpr *expr_floor_div(Builder *b, const KExpr *x, const KExpr *y, bool nonnegative) {
    if (nonnegative)
        return k_div(b, x, y);
    const KExpr *one = k_int(b, x->type, 1), *zero = k_int(b, x->type, 0);
    const KExpr *down = k_scalar(b, OP_div, k_sub(b, x, k_sub(b, y, one)), y, NULL);
    return k_select(b, k_lt(b, x, zero), down, k_scalar(b, OP_div, x, y, NULL));
}

static const KExpr *expr_dim(Builder *b, const Dim *dim, KType type) {
    DimTable *table = b->kernel->graph->dims;
    switch (dim->kind) {
    case DIM_CONST: return k_int(b, type, dim->value);
    case DIM_SYMBOL: {
        KExpr *param = expr_new(b, KX_PARAM, K_I64);
        param->i = k_dim_param(b, dim, dim_symbol_name(table, dim->symbol));
        return k_convert(b, param, type);
    }
    case DIM_ADD: {
        /* A sum's negative terms read better as differences. */
        const Dim *negated = dim->b->kind == DIM_MUL || dim->b->kind == DIM_CONST
                                 ? dim_mul(table, dim->b, dim_const(table, -1))
                                 : NULL;
        bool is_difference = (dim->b->kind == DIM_CONST && dim->b->value < 0) ||
                             (dim->b->kind == DIM_MUL && negated && negated->kind != DIM_MUL);
        if (is_difference && negated)
            return k_sub(b, expr_dim(b, dim->a, type), expr_dim(b, negated, type));
        return k_add(b, expr_dim(b, dim->a, type), expr_dim(b, dim->b, type));
    }
    case DIM_MUL: return k_mul(b, expr_dim(b, dim->a, type), expr_dim(b, dim->b, type));
    case DIM_DIV:
    case DIM_MOD:
    case DIM_MIN:
    case DIM_MAX: break;
    }
    /* These need their operands whole: sums and products may pass 32 bits before. */
    bool fits =
        type == K_I64 || (dim_lower(table, dim->a) >= INT32_MIN && dim_upper(table, dim->a) <= INT32_MAX &&
                          dim_lower(table, dim->b) >= INT32_MIN && dim_upper(table, dim->b) <= INT32_MAX);
    KType wide = fits ? type : K_I64;
    const KExpr *x = expr_dim(b, dim->a, wide), *y = expr_dim(b, dim->b, wide), *result;
    bool nonnegative = dim_lower(table, dim->a) >= 0;
    switch (dim->kind) {
    case DIM_DIV: result = expr_floor_div(b, x, y, nonnegative); break;
    case DIM_MOD:
        result = nonnegative ? k_mod(b, x, y) : k_sub(b, x, k_mul(b, expr_floor_div(b, x, y, false), y));
        break;
    case DIM_MIN: result = k_min(b, x, y); break;
    default: result = k_max(b, x, y); break;
    }
    return k_convert(b, result, type);
}

const KExpr *k_dim(Builder *b, const Dim *dim, KType type) {
    if (!dim) {
        diag_error(b->diags, DIAG_INTERNAL, b->span, "kernel '%s': a dim that overflows is used",
                   b->kernel->name);
        return k_int(b, type, 0);
    }
    return expr_dim(b, dim, type);
}
