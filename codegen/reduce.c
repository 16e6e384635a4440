#include "codegen/reduce.h"

#include <math.h>

#include "codegen/kernel_value.h"

bool reduce_has_number(const Value *reduction) {
    return reduction->op == OP_argmin || reduction->op == OP_argmax;
}

KType reduce_type(const Value *reduction) {
    if (reduction->op == OP_any || reduction->op == OP_all)
        return K_BOOL;
    return ktype_of(reduce_has_number(reduction) ? dtype_compute(reduction->in[0]->dtype) : reduction->dtype);
}

/* The value that loses against every other. */
static const KExpr *reduce_extreme(Builder *b, const Value *reduction, bool largest) {
    KType type = reduce_type(reduction);
    if (ktype_is_float(type))
        return k_float(b, type, largest ? INFINITY : -INFINITY);
    DType dtype = reduce_has_number(reduction) ? dtype_compute(reduction->in[0]->dtype) : reduction->dtype;
    return k_int(b, type, largest ? dtype_max_int(dtype) : dtype_min_int(dtype));
}

Partial reduce_identity(Builder *b, const Value *reduction, KType number_type) {
    const KExpr *number = reduce_has_number(reduction) ? k_int(b, number_type, 0) : NULL;
    switch (reduction->op) {
    case OP_prod: return (Partial){k_convert(b, k_i32(b, 1), reduce_type(reduction)), number};
    case OP_all: return (Partial){k_int(b, K_BOOL, 1), number};
    case OP_reduce_min:
    case OP_argmin: return (Partial){reduce_extreme(b, reduction, true), number};
    case OP_reduce_max:
    case OP_argmax: return (Partial){reduce_extreme(b, reduction, false), number};
    default: return (Partial){k_convert(b, k_i32(b, 0), reduce_type(reduction)), number};
    }
}

/* Of the better element, and of equals the first. The identity has number 0: where it stands against its
 * equals, those tie. Each part of the question has a name, so that C's || and && have nothing left to skip:
 * NVRTC branched around them (nearest of 1024: 199 us, and 6 s to compile, for 74). */
static Partial reduce_combine_arg(Builder *b, const Value *reduction, Partial a, Partial c) {
    OpKind better = reduction->op == OP_argmax ? OP_gt : OP_lt;
    const KExpr *wins = k_scalar(b, better, c.x, a.x, NULL);
    const KExpr *ties = k_eq(b, c.x, a.x);
    if (ktype_is_float(c.x->type)) {
        const KExpr *c_nan = k_let_expr(b, "is_nan", k_scalar(b, OP_isnan, c.x, NULL, NULL));
        const KExpr *a_nan = k_let_expr(b, "was_nan", k_scalar(b, OP_isnan, a.x, NULL, NULL));
        wins = k_scalar(b, OP_or, wins, k_and(b, c_nan, k_not(b, a_nan)), NULL);
        wins = k_and(b, wins, k_not(b, a_nan));
        ties = k_scalar(b, OP_or, ties, k_and(b, c_nan, a_nan), NULL);
    }
    const KExpr *better_one = k_let_expr(b, "is_better", wins), *equal = k_let_expr(b, "ties", ties);
    const KExpr *earlier = k_let_expr(b, "is_earlier", k_lt(b, c.number, a.number));
    wins = k_let_expr(b, "wins", k_scalar(b, OP_or, better_one, k_and(b, equal, earlier), NULL));
    return (Partial){k_select(b, wins, c.x, a.x), k_select(b, wins, c.number, a.number)};
}

Partial reduce_combine(Builder *b, const Value *reduction, Partial a, Partial c) {
    switch (reduction->op) {
    case OP_prod: return (Partial){k_mul(b, a.x, c.x), NULL};
    case OP_reduce_min: return (Partial){k_min(b, a.x, c.x), NULL};
    case OP_reduce_max: return (Partial){k_max(b, a.x, c.x), NULL};
    case OP_any: return (Partial){k_scalar(b, OP_or, a.x, c.x, NULL), NULL};
    case OP_all: return (Partial){k_and(b, a.x, c.x), NULL};
    case OP_argmin:
    case OP_argmax: return reduce_combine_arg(b, reduction, a, c);
    default: return (Partial){k_add(b, a.x, c.x), NULL};
    }
}

const KExpr *reduce_result(Builder *b, const Value *reduction, Partial partial) {
    return k_convert(b, partial.number ? partial.number : partial.x, ktype_of(reduction->dtype));
}

PartialVars reduce_declare(Builder *b, const Value *reduction, const char *name, int count,
                           KType number_type) {
    Partial identity = reduce_identity(b, reduction, number_type);
    KType type = identity.x->type;
    PartialVars vars = {NULL, NULL};
    vars.x = count ? k_array(b, name, type, count, identity.x) : k_variable(b, name, type, identity.x);
    if (identity.number) {
        const char *number = text_format(b->arena, "%s_at", name);
        vars.number = count ? k_array(b, number, number_type, count, identity.number)
                            : k_variable(b, number, number_type, identity.number);
    }
    return vars;
}

Partial reduce_get(Builder *b, PartialVars vars, const KExpr *index) {
    const KExpr *x = index ? k_elem(b, vars.x, index) : k_var(b, vars.x);
    if (!vars.number)
        return (Partial){x, NULL};
    return (Partial){x, index ? k_elem(b, vars.number, index) : k_var(b, vars.number)};
}

void reduce_put(Builder *b, PartialVars vars, const KExpr *index, Partial partial) {
    if (vars.number) /* both come from the old pair */
        partial.x = k_let_expr(b, "best", partial.x);
    if (vars.number)
        k_set_elem(b, vars.number, index, partial.number);
    k_set_elem(b, vars.x, index, partial.x);
}

/* reduce_combine_arg() where c has the higher number: its equals tie for a, so that nothing but the elements
 * is asked, twice instead of six times. The identity keeps number 0 against its equals here too. */
const KExpr *reduce_beats(Builder *b, const Value *reduction, const KExpr *x, const KExpr *best,
                          const KExpr *inside) {
    bool largest = reduction->op == OP_argmax;
    if (!ktype_is_float(x->type))
        return k_and(b, inside, k_let_expr(b, "beats", k_scalar(b, largest ? OP_gt : OP_lt, x, best, NULL)));
    /* no order holds of a NaN, which so beats all but a NaN */
    const KExpr *loses = k_scalar(b, largest ? OP_le : OP_ge, x, best, NULL);
    const KExpr *beats = k_let_expr(b, "beats", k_not(b, loses));
    return k_and(b, k_and(b, inside, beats), k_let_expr(b, "is_number", k_eq(b, best, best)));
}

void reduce_take(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index,
                 const KExpr *element, const KExpr *number, const KExpr *inside) {
    const KExpr *x = k_convert(b, element, reduce_type(reduction));
    Partial before = reduce_get(b, vars, index);
    if (!before.number) {
        x = inside ? k_select(b, inside, x, reduce_identity(b, reduction, K_I32).x) : x;
        reduce_put(b, vars, index, reduce_combine(b, reduction, before, (Partial){x, NULL}));
        return;
    }
    x = k_let_expr(b, "x", x);
    inside = inside ? k_let_expr(b, "inside", inside) : NULL;
    const KExpr *wins = k_let_expr(b, "wins", reduce_beats(b, reduction, x, before.x, inside));
    Partial after = {k_select(b, wins, x, before.x), k_select(b, wins, number, before.number)};
    reduce_put(b, vars, index, after);
}

void reduce_into(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index, Partial partial) {
    if (partial.number)
        partial.x = k_let_expr(b, "x", partial.x);
    reduce_put(b, vars, index, reduce_combine(b, reduction, reduce_get(b, vars, index), partial));
}

void reduce_lanes_apart(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index, int lanes,
                        int stride) {
    for (int mask = lanes / 2; mask >= stride; mask /= 2) {
        Partial own = reduce_get(b, vars, index);
        Partial other = {k_shuffle_xor(b, own.x, mask),
                         own.number ? k_shuffle_xor(b, own.number, mask) : NULL};
        reduce_put(b, vars, index, reduce_combine(b, reduction, own, other));
    }
}

/* x as a word whose order, unsigned, is that of argmax or argmin: a NaN before all, zeros alike. */
static const KExpr *reduce_key(Builder *b, bool largest, const KExpr *x) {
    const KExpr *sign = k_int(b, K_U32, 0x80000000), *all = k_int(b, K_U32, 0xffffffff), *key;
    if (x->type == K_F32) {
        const KExpr *zero = k_float(b, K_F32, 0), *bits = k_select(b, k_eq(b, x, zero), zero, x);
        bits = k_let_expr(b, "bits", k_bitcast(b, bits, K_U32));
        const KExpr *is_negative = k_ge(b, bits, sign);
        key = k_scalar(b, OP_bit_xor, bits, k_select(b, is_negative, all, sign), NULL);
    } else {
        key = k_scalar(b, OP_bit_xor, k_bitcast(b, x, K_U32), sign, NULL);
    }
    key = largest ? key : k_scalar(b, OP_bit_xor, key, all, NULL);
    if (x->type == K_F32)
        key = k_select(b, k_scalar(b, OP_isnan, x, NULL, NULL), all, key);
    return k_let_expr(b, "key", key);
}

/* The element of a key; of zeros and NaNs, one. */
static const KExpr *reduce_of_key(Builder *b, bool largest, KType type, const KExpr *key) {
    const KExpr *sign = k_int(b, K_U32, 0x80000000), *all = k_int(b, K_U32, 0xffffffff);
    key = largest ? key : k_let_expr(b, "key", k_scalar(b, OP_bit_xor, key, all, NULL));
    const KExpr *flip = type == K_F32 ? k_select(b, k_ge(b, key, sign), sign, all) : sign;
    return k_bitcast(b, k_scalar(b, OP_bit_xor, key, flip, NULL), type);
}

/* The best of a warp by its two instructions that reduce: of keys, then of the numbers of those that have the
 * best; each takes about the time of one shuffle. */
static void reduce_warp_arg(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index) {
    bool largest = reduction->op == OP_argmax;
    Partial own = reduce_get(b, vars, index);
    const KExpr *none = k_int(b, K_U32, 0xffffffff), *key = reduce_key(b, largest, own.x);
    const KExpr *best = k_redux(b, ATOM_redux_max, "best_key", key);
    const KExpr *number = k_select(b, k_eq(b, key, best), k_bitcast(b, own.number, K_U32), none);
    number = k_redux(b, ATOM_redux_min, "first", number);
    Partial all = {reduce_of_key(b, largest, own.x->type, best), k_bitcast(b, number, K_I32)};
    reduce_put(b, vars, index, all);
}

void reduce_lanes(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index, int lanes) {
    bool has_words =
        vars.number && vars.number->type == K_I32 && (vars.x->type == K_F32 || vars.x->type == K_I32);
    if (lanes == 32 && has_words)
        reduce_warp_arg(b, reduction, vars, index);
    else
        reduce_lanes_apart(b, reduction, vars, index, lanes, 1);
}
