/* Simplification of integer expressions of kernel IR; see kernel_fold.h for what it may rely on. */
#include "codegen/kernel_fold.h"

#include "codegen/kernel_value.h"
#include "ir/base/checked.h"

static bool fold_is_const(const KExpr *x) {
    return x->kind == KX_INT;
}

static bool fold_is(const KExpr *x, int64_t value) {
    return x->kind == KX_INT && x->i == value;
}

static bool fold_is_op(const KExpr *x, OpKind op) {
    return x->kind == KX_SCALAR && x->op == op;
}

/* x is `op` of something and a constant. */
static bool fold_has_const(const KExpr *x, OpKind op) {
    return fold_is_op(x, op) && x->args[1]->kind == KX_INT;
}

static bool fold_is_signed(const KExpr *x) {
    return x->type == K_I32 || x->type == K_I64;
}

/* The same value, for sure: one node, one variable, one constant. Both are evaluated where the expression
 * stands, so a variable that is set between their building and their use does not part them. */
static bool fold_same(const KExpr *x, const KExpr *y) {
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

/* ---- what is known of a value -------------------------------------------------------------------------- */

enum {
    FOLD_RANGE_DEPTH = 8
}; /* how deep a range is looked for: trees can be large, and this runs at every node built */

typedef struct FoldRange {
    int64_t low, high;
} FoldRange;

static const FoldRange fold_unbounded = {INT64_MIN, INT64_MAX};

static FoldRange fold_range(const Builder *b, const KExpr *x, int depth);

static FoldRange fold_special_range(const Builder *b, KSpecial special) {
    int64_t threads = b->kernel->threads;
    switch (special) {
    case SPECIAL_LANE: return (FoldRange){0, 31};
    case SPECIAL_TID: return (FoldRange){0, threads ? threads - 1 : 1023};
    case SPECIAL_WARP: return (FoldRange){0, threads ? (threads - 1) / 32 : 31};
    case SPECIAL_CTA_RANK: return (FoldRange){0, 15};
    default: return (FoldRange){0, INT32_MAX};
    }
}

static FoldRange fold_scalar_range(const Builder *b, const KExpr *x, int depth) {
    FoldRange p = fold_range(b, x->args[0], depth - 1), q = fold_range(b, x->args[1], depth - 1),
              r = fold_unbounded;
    switch (x->op) {
    case OP_add:
        if (!checked_add(p.low, q.low, &r.low) || !checked_add(p.high, q.high, &r.high))
            return fold_unbounded;
        return r;
    case OP_mul:
        if (p.low < 0 || q.low < 0)
            return fold_unbounded;
        if (!checked_mul(p.high, q.high, &r.high))
            r.high = INT64_MAX;
        r.low = 0;
        return r;
    case OP_div:
        if (p.low < 0 || q.low < 1)
            return fold_unbounded;
        return (FoldRange){0, p.high / q.low};
    case OP_mod:
        if (p.low < 0 || q.low < 1)
            return fold_unbounded;
        return (FoldRange){0, p.high < q.high - 1 ? p.high : q.high - 1};
    case OP_min: return (FoldRange){p.low < q.low ? p.low : q.low, p.high < q.high ? p.high : q.high};
    case OP_max: return (FoldRange){p.low > q.low ? p.low : q.low, p.high > q.high ? p.high : q.high};
    default: return fold_unbounded;
    }
}

/* Bounds of a signed integer; INT64_MIN and INT64_MAX where there are none. */
static FoldRange fold_range(const Builder *b, const KExpr *x, int depth) {
    if (depth == 0 || !fold_is_signed(x))
        return fold_unbounded;
    switch (x->kind) {
    case KX_INT: return (FoldRange){x->i, x->i};
    case KX_SPECIAL: return fold_special_range(b, (KSpecial)x->i);
    case KX_VAR: return x->var == b->warp ? fold_special_range(b, SPECIAL_WARP) : fold_unbounded;
    case KX_PARAM: {
        const Dim *dim = b->kernel->params.at[x->i].dim;
        return (FoldRange){dim_lower(b->kernel->graph->dims, dim), dim_upper(b->kernel->graph->dims, dim)};
    }
    case KX_CONVERT:
        return fold_is_signed(x->args[0]) && ktype_bits(x->args[0]->type) <= ktype_bits(x->type)
                   ? fold_range(b, x->args[0], depth - 1)
                   : fold_unbounded;
    case KX_SCALAR: return op_info(x->op)->n_in == 2 ? fold_scalar_range(b, x, depth) : fold_unbounded;
    default: return fold_unbounded;
    }
}

/* The same where variables of loops count: in what a let stands for, since other expressions are printed as
 * loops have them. */
static FoldRange fold_loop_range(const Builder *b, const KExpr *x, int depth) {
    if (depth == 0)
        return fold_unbounded;
    if (x->kind == KX_VAR && x->var->is_loop)
        return (FoldRange){x->var->low, x->var->high};
    if (x->kind != KX_SCALAR || op_info(x->op)->n_in != 2 || x->args[1]->kind != KX_INT || x->args[1]->i < 1)
        return fold_range(b, x, depth);
    FoldRange p = fold_loop_range(b, x->args[0], depth - 1);
    int64_t c = x->args[1]->i, high;
    if (p.low < 0)
        return fold_unbounded;
    switch (x->op) {
    case OP_mul: return checked_mul(p.high, c, &high) ? (FoldRange){0, high} : fold_unbounded;
    case OP_div: return (FoldRange){0, p.high / c};
    case OP_mod: return (FoldRange){0, p.high < c - 1 ? p.high : c - 1};
    default: return fold_range(b, x, depth);
    }
}

/* The same arithmetic on the same values. */
static bool fold_alike(const KExpr *x, const KExpr *y, int depth) {
    if (fold_same(x, y))
        return true;
    if (depth == 0 || x->kind != KX_SCALAR || y->kind != KX_SCALAR || x->op != y->op || x->type != y->type)
        return false;
    for (int i = 0; i < op_info(x->op)->n_in; i++)
        if (!fold_alike(x->args[i], y->args[i], depth - 1))
            return false;
    return true;
}

/* What a number that was taken apart is when it is put together again: x / c * kc + x mod c * k is x * k, and
 * so with x mod mc for the first x; with x / c mod m it is x mod mc * k. x itself may be y / d, and x / c
 * then y / cd. Reshapes of reshapes come to this, and a value is found in registers by its coordinates. NULL:
 * these are not its parts. */
static const KExpr *fold_parts(Builder *b, const KExpr *high, const KExpr *low) {
    int64_t by = 1, c;
    if (fold_has_const(low, OP_mul)) {
        by = low->args[1]->i;
        low = low->args[0];
    }
    if (!fold_is_signed(high) || !fold_has_const(low, OP_mod) || !fold_has_const(high, OP_mul) || by < 1)
        return NULL;
    const KExpr *quotient = high->args[0], *of = fold_has_const(quotient, OP_mod) ? quotient->args[1] : NULL;
    quotient = of ? quotient->args[0] : quotient;
    if (!fold_has_const(quotient, OP_div))
        return NULL;
    const KExpr *whole = quotient->args[0], *rest = low->args[0];
    c = low->args[1]->i;
    int64_t scale, modulus = 0, divisor;
    if (fold_has_const(rest, OP_div) && c > 0 && rest->args[1]->i > 0 &&
        checked_mul(rest->args[1]->i, c, &divisor) && quotient->args[1]->i == divisor &&
        fold_alike(whole, rest->args[0], FOLD_RANGE_DEPTH))
        whole = rest;
    else if (quotient->args[1]->i != c)
        return NULL;
    if (c < 1 || !checked_mul(by, c, &scale) || high->args[1]->i != scale ||
        (of &&
         (of->i < 1 || !checked_mul(of->i, c, &modulus) || kvalue_wrap(high->type, modulus) != modulus)))
        return NULL;
    bool is_rest_of = fold_has_const(whole, OP_mod) && whole->args[1]->i > 0 && whole->args[1]->i % c == 0 &&
                      fold_alike(whole->args[0], rest, FOLD_RANGE_DEPTH);
    if (!is_rest_of && !fold_alike(whole, rest, FOLD_RANGE_DEPTH))
        return NULL;
    whole = of ? k_mod(b, whole, k_int(b, whole->type, modulus)) : whole;
    return k_mul(b, whole, k_int(b, whole->type, by));
}

/* The same where c is not known: x / c * c + x mod c. */
static const KExpr *fold_parts_of_dim(const KExpr *high, const KExpr *low) {
    if (!fold_is_signed(high) || !fold_is_op(low, OP_mod) || !fold_is_op(high, OP_mul))
        return NULL;
    for (int i = 0; i < 2; i++) {
        const KExpr *quotient = high->args[i], *c = high->args[!i];
        if (fold_is_op(quotient, OP_div) && fold_alike(quotient->args[1], c, FOLD_RANGE_DEPTH) &&
            fold_alike(low->args[1], c, FOLD_RANGE_DEPTH) &&
            fold_alike(quotient->args[0], low->args[0], FOLD_RANGE_DEPTH))
            return low->args[0];
    }
    return NULL;
}

static const KExpr *fold_add(Builder *b, const KExpr *x, const KExpr *y) {
    if (fold_is(y, 0))
        return x;
    if (fold_is(x, 0))
        return y;
    if (fold_is_const(y) && fold_has_const(x, OP_sub)) /* (x - c) + d */
        return k_add(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)y->i - (uint64_t)x->args[1]->i)));
    const KExpr *whole = fold_parts(b, x, y);
    if (whole || (whole = fold_parts(b, y, x)) || (whole = fold_parts_of_dim(x, y)) ||
        (whole = fold_parts_of_dim(y, x)))
        return whole;
    for (int i = 0; i < 2 && fold_is_op(x, OP_add); i++) /* (x + w) + y */
        if ((whole = fold_parts(b, x->args[i], y)))
            return k_add(b, whole, x->args[!i]);
    if (fold_is_const(y) && fold_has_const(x, OP_add)) /* (x + c) + d */
        return k_add(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)x->args[1]->i + (uint64_t)y->i)));
    return NULL;
}

static const KExpr *fold_sub(Builder *b, const KExpr *x, const KExpr *y) {
    if (fold_is(y, 0))
        return x;
    if (fold_same(x, y))
        return k_int(b, x->type, 0);
    if (fold_is_const(y) && fold_has_const(x, OP_add)) /* (x + c) - d */
        return k_add(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)x->args[1]->i - (uint64_t)y->i)));
    return NULL;
}

static const KExpr *fold_mul(Builder *b, const KExpr *x, const KExpr *y) {
    if (fold_is(y, 1))
        return x;
    if (fold_is(y, 0))
        return y;
    if (fold_is_const(y) && fold_has_const(x, OP_mul)) /* (x * c) * d */
        return k_mul(b, x->args[0], k_int(b, x->type, (int64_t)((uint64_t)x->args[1]->i * (uint64_t)y->i)));
    return NULL;
}

/* Whether x is a product with a multiple of c. */
static bool fold_is_multiple(const KExpr *x, int64_t c) {
    return fold_has_const(x, OP_mul) && x->args[1]->i % c == 0;
}

/* A sum as multiples of c and a rest; lets on the way are what they stand for, where that is made of lets and
 * loops' variables alone. */
typedef struct FoldSum {
    const KExpr *quotient; /* of the multiples; NULL: 0 */
    int64_t high;          /* bound of the rest, which is not negative */
    bool has_let;
} FoldSum;

bool fold_is_fixed(const KExpr *x, int depth) {
    if (depth == 0)
        return false;
    switch (x->kind) {
    case KX_INT:
    case KX_PARAM:
    case KX_SPECIAL: return true;
    case KX_VAR: return x->var->is_let;
    case KX_CONVERT: return fold_is_fixed(x->args[0], depth - 1);
    case KX_SCALAR:
        for (int i = 0; i < op_info(x->op)->n_in; i++)
            if (!fold_is_fixed(x->args[i], depth - 1))
                return false;
        return true;
    default: return false;
    }
}

static bool fold_sum(Builder *b, const KExpr *x, int64_t c, int depth, FoldSum *sum) {
    if (depth == 0 || !fold_is_signed(x))
        return false;
    const KExpr *part = NULL;
    FoldRange rest = {0, 0};
    if (x->kind == KX_INT) {
        rest.low = rest.high = x->i < 0 ? x->i : x->i % c;
        part = x->i >= c ? k_int(b, x->type, x->i / c) : NULL;
    } else if (fold_is_multiple(x, c)) {
        part = k_mul(b, x->args[0], k_int(b, x->type, x->args[1]->i / c));
    } else if (fold_is_op(x, OP_add)) {
        return fold_sum(b, x->args[0], c, depth - 1, sum) && fold_sum(b, x->args[1], c, depth - 1, sum);
    } else if (x->kind == KX_VAR && x->var->value) {
        sum->has_let = true;
        return fold_is_fixed(x->var->value, depth) && fold_sum(b, x->var->value, c, depth - 1, sum);
    } else {
        rest = fold_loop_range(b, x, depth);
    }
    if (rest.low < 0 || rest.high > c || sum->high > c)
        return false;
    sum->high += rest.high;
    if (part)
        sum->quotient = sum->quotient ? k_add(b, sum->quotient, part) : part;
    return true;
}

/* (let + y) / c where the let has multiples of c, and what is left is less; NULL: it is not so. */
static const KExpr *fold_div_sum(Builder *b, const KExpr *x, int64_t c) {
    FoldSum sum = {0};
    if (!fold_sum(b, x, c, FOLD_RANGE_DEPTH, &sum) || !sum.has_let || sum.high >= c)
        return NULL;
    return sum.quotient ? sum.quotient : k_int(b, x->type, 0);
}

const KExpr *fold_div(Builder *b, const KExpr *x, const KExpr *y) {
    if (!fold_is_const(y) || y->i <= 0)
        return NULL;
    int64_t c = y->i;
    if (c == 1)
        return x;
    if (!fold_is_signed(x))
        return NULL;
    FoldRange range = fold_range(b, x, FOLD_RANGE_DEPTH);
    if (range.low >= 0 && range.high < c)
        return k_int(b, x->type, 0);
    if (fold_is_multiple(x, c)) /* (x * kc) / c */
        return k_mul(b, x->args[0], k_int(b, x->type, x->args[1]->i / c));
    if (fold_has_const(x, OP_mul) && x->args[1]->i > 0 && c % x->args[1]->i == 0) /* (x * c) / kc */
        return k_div(b, x->args[0], k_int(b, x->type, c / x->args[1]->i));
    int64_t product;
    if (fold_has_const(x, OP_div) && x->args[1]->i > 0 && checked_mul(x->args[1]->i, c, &product) &&
        kvalue_wrap(x->type, product) == product) /* (x / d) / c */
        return k_div(b, x->args[0], k_int(b, x->type, product));
    if (fold_is_op(x, OP_add)) /* (x * kc + y) / c, y >= 0 */
        for (int i = 0; i < 2; i++)
            if (fold_is_multiple(x->args[i], c) && fold_range(b, x->args[!i], FOLD_RANGE_DEPTH).low >= 0)
                return k_add(b, k_div(b, x->args[i], y), k_div(b, x->args[!i], y));
    return fold_div_sum(b, x, c);
}

const KExpr *fold_mod(Builder *b, const KExpr *x, const KExpr *y) {
    if (!fold_is_const(y) || y->i <= 0)
        return NULL;
    int64_t c = y->i;
    if (c == 1)
        return k_int(b, x->type, 0);
    if (!fold_is_signed(x))
        return NULL;
    FoldRange range = fold_range(b, x, FOLD_RANGE_DEPTH);
    if (range.low >= 0 && range.high < c)
        return x;
    if (fold_is_multiple(x, c))
        return k_int(b, x->type, 0);
    if (fold_has_const(x, OP_mod) && x->args[1]->i % c == 0) /* (x mod kc) mod c */
        return k_mod(b, x->args[0], y);
    if (fold_is_op(x, OP_add))
        for (int i = 0; i < 2; i++)
            if (fold_is_multiple(x->args[i], c) && fold_range(b, x->args[!i], FOLD_RANGE_DEPTH).low >= 0)
                return k_mod(b, x->args[!i], y);
    return NULL;
}

static const KExpr *fold_min_max(Builder *b, OpKind op, const KExpr *x, const KExpr *y) {
    if (fold_same(x, y))
        return x;
    if (!fold_is_signed(x))
        return NULL;
    FoldRange p = fold_range(b, x, FOLD_RANGE_DEPTH), q = fold_range(b, y, FOLD_RANGE_DEPTH);
    if (p.high <= q.low)
        return op == OP_min ? x : y;
    if (q.high <= p.low)
        return op == OP_min ? y : x;
    return NULL;
}

static const KExpr *fold_compare(Builder *b, OpKind op, const KExpr *x, const KExpr *y) {
    if (fold_same(x, y))
        return k_int(b, K_BOOL, op == OP_eq || op == OP_le || op == OP_ge);
    if (!fold_is_signed(x))
        return NULL;
    FoldRange p = fold_range(b, x, FOLD_RANGE_DEPTH), q = fold_range(b, y, FOLD_RANGE_DEPTH);
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

static const KExpr *fold_logic(Builder *b, OpKind op, const KExpr *x, const KExpr *y) {
    switch (op) {
    case OP_and:
        if (fold_is_const(y))
            return y->i ? x : y;
        return fold_same(x, y) ? x : NULL;
    case OP_or:
        if (fold_is_const(y))
            return y->i ? y : x;
        return fold_same(x, y) ? x : NULL;
    case OP_not:
        if (fold_is_op(x, OP_not))
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

static const KExpr *fold_bits(OpKind op, const KExpr *x, const KExpr *y) {
    if (!fold_is_const(y))
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

const KExpr *fold_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z) {
    if (op == OP_select) {
        if (fold_is_const(x))
            return x->i ? y : z;
        return fold_same(y, z) ? y : NULL;
    }
    if (ktype_is_float(x->type))
        return NULL;
    if (fold_is_const(x) && (!y || fold_is_const(y)) && (!z || fold_is_const(z)) && op_info(op)->int_ref) {
        Number zero = {0};
        Number value = kvalue_scalar(op, x->type, (Number){.i = x->i}, y ? (Number){.i = y->i} : zero,
                                     z ? (Number){.i = z->i} : zero);
        return k_int(b, kvalue_scalar_type(op, x->type), value.i);
    }
    switch (op_info(op)->rule) {
    case RULE_ARITH:
        switch (op) {
        case OP_add: return fold_add(b, x, y);
        case OP_sub: return fold_sub(b, x, y);
        case OP_mul: return fold_mul(b, x, y);
        case OP_min:
        case OP_max: return fold_min_max(b, op, x, y);
        default:
            return NULL; /* OP_div and OP_mod may have negative operands here: k_div and k_mod know better */
        }
    case RULE_COMPARE: return y ? fold_compare(b, op, x, y) : NULL;
    case RULE_LOGIC: return fold_logic(b, op, x, y);
    case RULE_BITS: return fold_bits(op, x, y);
    case RULE_FLOAT:
    case RULE_SELECT: return NULL;
    }
    return NULL;
}
