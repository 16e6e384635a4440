/* Building expressions of kernel IR: integers fold and simplify as they are built; see kernel_build.h.
 *
 * Rules hold for index arithmetic as templates write it: i32 and i64 sums and products do not overflow, and
 * what k_div and k_mod divide is nonnegative. u32 and u64 wrap (hashes, Philox), so rules that need no
 * overflow leave them alone. Floats never fold but for changes of type: rounding is the machine's. */
#include "codegen/kernel_build.h"
#include "codegen/kernel_value.h"
#include "ir/base/checked.h"

static KExpr *expr_new(Builder *b, KExprKind kind, KType type) {
    KExpr *expr = ARENA_NEW(b->arena, KExpr);
    expr->kind = kind;
    expr->type = type;
    return expr;
}

static bool expr_is_const(const KExpr *x) {
    return x->kind == KX_INT;
}

static bool expr_is(const KExpr *x, int64_t value) {
    return x->kind == KX_INT && x->i == value;
}

/* x is `op` of something and a constant. */
static bool expr_has_const(const KExpr *x, OpKind op) {
    return x->kind == KX_SCALAR && x->op == op && x->args[1]->kind == KX_INT;
}

static bool expr_is_signed(const KExpr *x) {
    return x->type == K_I32 || x->type == K_I64;
}

/* The same value, for sure: one node, one variable, one constant. Both are evaluated where the expression
 * stands, so a variable that is set between their building and their use does not part them. */
static bool expr_same(const KExpr *x, const KExpr *y) {
    if (x == y)
        return true;
    if (x->kind != y->kind || x->type != y->type)
        return false;
    switch (x->kind) {
    case KX_INT:
    case KX_PARAM:
    case KX_SPECIAL: return x->i == y->i;
    case KX_VAR: return x->var == y->var;
    default: return false;
    }
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
    KExpr *expr = expr_new(b, KX_SPECIAL, K_I32);
    expr->i = special;
    return expr;
}

/* ---- what is known of a value -------------------------------------------------------------------------- */

enum {
    EXPR_RANGE_DEPTH = 8
}; /* how deep a range is looked for: trees can be large, and this runs at every node built */

typedef struct ExprRange {
    int64_t low, high;
} ExprRange;

static const ExprRange expr_unbounded = {INT64_MIN, INT64_MAX};

static ExprRange expr_range(const Builder *b, const KExpr *x, int depth);

static ExprRange expr_special_range(const Builder *b, KSpecial special) {
    int64_t threads = b->kernel->threads;
    switch (special) {
    case SPECIAL_LANE: return (ExprRange){0, 31};
    case SPECIAL_TID: return (ExprRange){0, threads ? threads - 1 : 1023};
    case SPECIAL_WARP: return (ExprRange){0, threads ? (threads - 1) / 32 : 31};
    case SPECIAL_CTA_RANK: return (ExprRange){0, 15};
    default: return (ExprRange){0, INT32_MAX};
    }
}

static ExprRange expr_scalar_range(const Builder *b, const KExpr *x, int depth) {
    ExprRange p = expr_range(b, x->args[0], depth - 1), q = expr_range(b, x->args[1], depth - 1),
              r = expr_unbounded;
    switch (x->op) {
    case OP_add:
        if (!checked_add(p.low, q.low, &r.low) || !checked_add(p.high, q.high, &r.high))
            return expr_unbounded;
        return r;
    case OP_mul:
        if (p.low < 0 || q.low < 0)
            return expr_unbounded;
        if (!checked_mul(p.high, q.high, &r.high))
            r.high = INT64_MAX;
        r.low = 0;
        return r;
    case OP_div:
        if (p.low < 0 || q.low < 1)
            return expr_unbounded;
        return (ExprRange){0, p.high / q.low};
    case OP_mod:
        if (p.low < 0 || q.low < 1)
            return expr_unbounded;
        return (ExprRange){0, p.high < q.high - 1 ? p.high : q.high - 1};
    case OP_min: return (ExprRange){p.low < q.low ? p.low : q.low, p.high < q.high ? p.high : q.high};
    case OP_max: return (ExprRange){p.low > q.low ? p.low : q.low, p.high > q.high ? p.high : q.high};
    default: return expr_unbounded;
    }
}

/* Bounds of a signed integer; INT64_MIN and INT64_MAX where there are none. */
static ExprRange expr_range(const Builder *b, const KExpr *x, int depth) {
    if (depth == 0 || !expr_is_signed(x))
        return expr_unbounded;
    switch (x->kind) {
    case KX_INT: return (ExprRange){x->i, x->i};
    case KX_SPECIAL: return expr_special_range(b, (KSpecial)x->i);
    case KX_PARAM: {
        const Dim *dim = b->kernel->params.at[x->i].dim;
        return (ExprRange){dim_lower(b->kernel->graph->dims, dim), dim_upper(b->kernel->graph->dims, dim)};
    }
    case KX_CONVERT:
        return expr_is_signed(x->args[0]) && ktype_bits(x->args[0]->type) <= ktype_bits(x->type)
                   ? expr_range(b, x->args[0], depth - 1)
                   : expr_unbounded;
    case KX_SCALAR: return op_info(x->op)->n_in == 2 ? expr_scalar_range(b, x, depth) : expr_unbounded;
    default: return expr_unbounded;
    }
}

/* ---- scalars ------------------------------------------------------------------------------------------- */

static const KExpr *expr_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z) {
    KType type = op == OP_select ? y->type : x->type;
    KExpr *expr = expr_new(b, KX_SCALAR, kvalue_scalar_type(op, type));
    expr->op = op;
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

static const KExpr *expr_fold_add(Builder *b, const KExpr *x, const KExpr *y) {
    if (expr_is(y, 0))
        return x;
    if (expr_is(x, 0))
        return y;
    if (expr_is_const(y) && expr_has_const(x, OP_add)) /* (x + c) + d */
        return k_add(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)x->args[1]->i + (uint64_t)y->i)));
    return NULL;
}

static const KExpr *expr_fold_sub(Builder *b, const KExpr *x, const KExpr *y) {
    if (expr_is(y, 0))
        return x;
    if (expr_same(x, y))
        return k_int(b, x->type, 0);
    if (expr_is_const(y) && expr_has_const(x, OP_add)) /* (x + c) - d */
        return k_add(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)x->args[1]->i - (uint64_t)y->i)));
    return NULL;
}

static const KExpr *expr_fold_mul(Builder *b, const KExpr *x, const KExpr *y) {
    if (expr_is(y, 1))
        return x;
    if (expr_is(y, 0))
        return y;
    if (expr_is_const(y) && expr_has_const(x, OP_mul)) /* (x * c) * d */
        return k_mul(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)x->args[1]->i * (uint64_t)y->i)));
    return NULL;
}

/* Whether x is a product with a multiple of c. */
static bool expr_is_multiple(const KExpr *x, int64_t c) {
    return expr_has_const(x, OP_mul) && x->args[1]->i % c == 0;
}

/* x / c, both nonnegative, c > 0. */
static const KExpr *expr_fold_div(Builder *b, const KExpr *x, const KExpr *y) {
    if (!expr_is_const(y) || y->i <= 0)
        return NULL;
    int64_t c = y->i;
    if (c == 1)
        return x;
    if (!expr_is_signed(x))
        return NULL;
    ExprRange range = expr_range(b, x, EXPR_RANGE_DEPTH);
    if (range.low >= 0 && range.high < c)
        return k_int(b, x->type, 0);
    if (expr_is_multiple(x, c)) /* (x * kc) / c */
        return k_mul(b, x->args[0], k_int(b, x->type, x->args[1]->i / c));
    if (expr_has_const(x, OP_mul) && x->args[1]->i > 0 && c % x->args[1]->i == 0) /* (x * c) / kc */
        return k_div(b, x->args[0], k_int(b, x->type, c / x->args[1]->i));
    int64_t product;
    if (expr_has_const(x, OP_div) && x->args[1]->i > 0 && checked_mul(x->args[1]->i, c, &product) &&
        kvalue_wrap(x->type, product) == product) /* (x / d) / c */
        return k_div(b, x->args[0], k_int(b, x->type, product));
    if (x->kind == KX_SCALAR && x->op == OP_add) /* (x * kc + y) / c, y >= 0 */
        for (int i = 0; i < 2; i++)
            if (expr_is_multiple(x->args[i], c) && expr_range(b, x->args[!i], EXPR_RANGE_DEPTH).low >= 0)
                return k_add(b, k_div(b, x->args[i], y), k_div(b, x->args[!i], y));
    return NULL;
}

static const KExpr *expr_fold_mod(Builder *b, const KExpr *x, const KExpr *y) {
    if (!expr_is_const(y) || y->i <= 0)
        return NULL;
    int64_t c = y->i;
    if (c == 1)
        return k_int(b, x->type, 0);
    if (!expr_is_signed(x))
        return NULL;
    ExprRange range = expr_range(b, x, EXPR_RANGE_DEPTH);
    if (range.low >= 0 && range.high < c)
        return x;
    if (expr_is_multiple(x, c))
        return k_int(b, x->type, 0);
    if (expr_has_const(x, OP_mod) && x->args[1]->i % c == 0) /* (x mod kc) mod c */
        return k_mod(b, x->args[0], y);
    if (x->kind == KX_SCALAR && x->op == OP_add)
        for (int i = 0; i < 2; i++)
            if (expr_is_multiple(x->args[i], c) && expr_range(b, x->args[!i], EXPR_RANGE_DEPTH).low >= 0)
                return k_mod(b, x->args[!i], y);
    return NULL;
}

static const KExpr *expr_fold_min_max(Builder *b, OpKind op, const KExpr *x, const KExpr *y) {
    if (expr_same(x, y))
        return x;
    if (!expr_is_signed(x))
        return NULL;
    ExprRange p = expr_range(b, x, EXPR_RANGE_DEPTH), q = expr_range(b, y, EXPR_RANGE_DEPTH);
    if (p.high <= q.low)
        return op == OP_min ? x : y;
    if (q.high <= p.low)
        return op == OP_min ? y : x;
    return NULL;
}

static const KExpr *expr_fold_compare(Builder *b, OpKind op, const KExpr *x, const KExpr *y) {
    if (expr_same(x, y))
        return k_int(b, K_BOOL, op == OP_eq || op == OP_le || op == OP_ge);
    if (!expr_is_signed(x))
        return NULL;
    ExprRange p = expr_range(b, x, EXPR_RANGE_DEPTH), q = expr_range(b, y, EXPR_RANGE_DEPTH);
    bool below = p.high<q.low, above = p.low> q.high;
    bool at_most = p.high <= q.low, at_least = p.low >= q.high;
    switch (op) {
    case OP_lt: return below ? k_int(b, K_BOOL, 1) : at_least ? k_int(b, K_BOOL, 0) : NULL;
    case OP_ge: return at_least ? k_int(b, K_BOOL, 1) : below ? k_int(b, K_BOOL, 0) : NULL;
    case OP_gt: return above ? k_int(b, K_BOOL, 1) : at_most ? k_int(b, K_BOOL, 0) : NULL;
    case OP_le: return at_most ? k_int(b, K_BOOL, 1) : above ? k_int(b, K_BOOL, 0) : NULL;
    case OP_eq: return below || above ? k_int(b, K_BOOL, 0) : NULL;
    case OP_ne: return below || above ? k_int(b, K_BOOL, 1) : NULL;
    default: return NULL;
    }
}

static const KExpr *expr_fold_logic(Builder *b, OpKind op, const KExpr *x, const KExpr *y) {
    switch (op) {
    case OP_and:
        if (expr_is_const(y))
            return y->i ? x : y;
        return expr_same(x, y) ? x : NULL;
    case OP_or:
        if (expr_is_const(y))
            return y->i ? y : x;
        return expr_same(x, y) ? x : NULL;
    case OP_not:
        if (x->kind == KX_SCALAR && x->op == OP_not)
            return x->args[0];
        if (x->kind == KX_SCALAR &&
            ktype_is_int(x->args[0]->type)) { /* floats have NaN: not (a < b) is more than a >= b */
            static const OpKind pairs[][2] = {{OP_lt, OP_ge}, {OP_gt, OP_le}, {OP_eq, OP_ne}};
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 2; j++)
                    if (x->op == pairs[i][j])
                        return k_scalar(b, pairs[i][!j], x->args[0], x->args[1], NULL);
        }
        return NULL;
    default: return NULL;
    }
}

static const KExpr *expr_fold_bits(OpKind op, const KExpr *x, const KExpr *y) {
    if (!expr_is_const(y))
        return NULL;
    int64_t ones = kvalue_wrap(x->type, -1);
    switch (op) {
    case OP_bit_and: return y->i == 0 ? y : y->i == ones ? x : NULL;
    case OP_bit_or: return y->i == 0 ? x : y->i == ones ? y : NULL;
    case OP_bit_xor:
    case OP_shl:
    case OP_shr: return y->i == 0 ? x : NULL;
    default: return NULL;
    }
}

/* A simpler expression of the same value; NULL where there is none. */
static const KExpr *expr_simplify(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z) {
    if (op == OP_select) {
        if (expr_is_const(x))
            return x->i ? y : z;
        return expr_same(y, z) ? y : NULL;
    }
    if (ktype_is_float(x->type))
        return NULL;
    if (expr_is_const(x) && (!y || expr_is_const(y)) && (!z || expr_is_const(z)) && op_info(op)->int_ref) {
        Number zero = {0};
        Number value = kvalue_scalar(op, x->type, (Number){.i = x->i}, y ? (Number){.i = y->i} : zero,
                                     z ? (Number){.i = z->i} : zero);
        return k_int(b, kvalue_scalar_type(op, x->type), value.i);
    }
    switch (op_info(op)->rule) {
    case RULE_ARITH:
        switch (op) {
        case OP_add: return expr_fold_add(b, x, y);
        case OP_sub: return expr_fold_sub(b, x, y);
        case OP_mul: return expr_fold_mul(b, x, y);
        case OP_min:
        case OP_max: return expr_fold_min_max(b, op, x, y);
        default:
            return NULL; /* OP_div and OP_mod may have negative operands here: k_div and k_mod know better */
        }
    case RULE_COMPARE: return y ? expr_fold_compare(b, op, x, y) : NULL;
    case RULE_LOGIC: return expr_fold_logic(b, op, x, y);
    case RULE_BITS: return expr_fold_bits(op, x, y);
    case RULE_FLOAT:
    case RULE_SELECT: return NULL;
    }
    return NULL;
}

const KExpr *k_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z) {
    if (expr_is_commutative(op) && expr_is_const(x) && !expr_is_const(y)) {
        const KExpr *swap = x;
        x = y;
        y = swap;
    }
    const KExpr *simpler = expr_simplify(b, op, x, y, z);
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
    const KExpr *simpler = ktype_is_int(x->type) && !expr_is_const(x) ? expr_fold_div(b, x, y) : NULL;
    return simpler ? simpler : k_scalar(b, OP_div, x, y, NULL);
}

const KExpr *k_mod(Builder *b, const KExpr *x, const KExpr *y) {
    const KExpr *simpler = ktype_is_int(x->type) && !expr_is_const(x) ? expr_fold_mod(b, x, y) : NULL;
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
    if (expr_is_const(x) && expr_is_const(y))
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
    KExpr *expr = (KExpr *)expr_unary(b, kind, type, index ? index : k_i32(b, 0));
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
