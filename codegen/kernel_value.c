/* The arithmetic of registers; see kernel_value.h. */
#include "codegen/kernel_value.h"

#include <math.h>

const char *ktype_name(KType type) {
    static const char *const names[] = {"bool", "i32", "u32", "i64", "u64", "f32", "f64"};
    return names[type];
}

int ktype_bits(KType type) {
    static const int bits[] = {1, 32, 32, 64, 64, 32, 64};
    return bits[type];
}

KType ktype_of(DType type) {
    switch (type) {
    case DTYPE_F64: return K_F64;
    case DTYPE_I64: return K_I64;
    case DTYPE_BOOL: return K_BOOL;
    default: return dtype_is_float(type) ? K_F32 : K_I32;
    }
}

/* The element type whose values are those of a register; the unsigned ones have none. */
static DType value_dtype(KType type) {
    switch (type) {
    case K_BOOL: return DTYPE_BOOL;
    case K_I32: return DTYPE_I32;
    case K_F32: return DTYPE_F32;
    case K_F64: return DTYPE_F64;
    default: return DTYPE_I64;
    }
}

int64_t kvalue_wrap(KType type, int64_t value) {
    switch (type) {
    case K_BOOL: return value != 0;
    case K_I32: return (int32_t)(uint32_t)value;
    case K_U32: return (uint32_t)value;
    default: return value;
    }
}

static int64_t value_float_to_unsigned(double value, KType to) {
    double limit = to == K_U32 ? 4294967296.0 : 18446744073709551616.0;
    if (!(value > 0))
        return 0;
    if (value >= limit)
        return to == K_U32 ? UINT32_MAX : (int64_t)UINT64_MAX;
    return (int64_t)(uint64_t)value;
}

Number kvalue_convert(Number value, KType from, KType to) {
    if (from == to)
        return value;
    Number result = {0};
    if (to == K_BOOL)
        return dtype_convert(value, ktype_is_float(from) ? DTYPE_F64 : DTYPE_I64, DTYPE_BOOL);
    if (ktype_is_float(from)) {
        if (to == K_U32 || to == K_U64)
            result.i = value_float_to_unsigned(value.f, to);
        else
            result = dtype_convert(value, value_dtype(from), value_dtype(to));
        return result;
    }
    if (ktype_is_float(to)) {
        if (from == K_U64)
            result.f = to == K_F32 ? (float)(uint64_t)value.i : (double)(uint64_t)value.i;
        else
            result.f = to == K_F32 ? (float)value.i : (double)value.i;
        return result;
    }
    result.i = kvalue_wrap(to, value.i);
    return result;
}

Number kvalue_to_element(Number value, KType from, DType to) {
    if (from == K_U32)
        from = K_I64; /* a u32's value is the same as an i64 */
    if (from == K_U64 && dtype_is_float(to)) {
        value = kvalue_convert(value, K_U64, K_F64);
        from = K_F64;
    }
    return dtype_convert(value, value_dtype(from), to);
}

Number kvalue_from_element(Number value, DType from, KType to) {
    Number wide = dtype_convert(value, from, value_dtype(ktype_of(from)));
    return kvalue_convert(wide, ktype_of(from), to);
}

uint64_t kvalue_bits(Number value, KType type) {
    if (type == K_F64)
        return (uint64_t)value.i; /* the union's bits */
    if (type == K_F32) {
        float narrow = (float)value.f;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        return bits;
    }
    return ktype_bits(type) == 32 ? (uint32_t)value.i : (uint64_t)value.i;
}

Number kvalue_from_bits(uint64_t bits, KType type) {
    Number value = {.i = (int64_t)bits};
    if (type == K_F32) {
        uint32_t low = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &low, sizeof narrow);
        value.f = narrow;
    } else if (type != K_F64) {
        value.i = kvalue_wrap(type, value.i);
    }
    return value;
}

KType kvalue_scalar_type(OpKind op, KType type) {
    ScalarRule rule = op_info(op)->rule;
    return rule == RULE_COMPARE || rule == RULE_LOGIC ? K_BOOL : type;
}

bool kvalue_scalar_takes(OpKind op, KType type) {
    switch (op_info(op)->rule) {
    case RULE_ARITH: return type != K_BOOL;
    case RULE_FLOAT: return ktype_is_float(type);
    case RULE_COMPARE: return true;
    case RULE_LOGIC: return type == K_BOOL;
    case RULE_SELECT: return true;
    case RULE_BITS: return ktype_is_int(type);
    }
    return false;
}

/* Where 64 unsigned bits differ from 64 signed ones; false where they do not. */
static bool value_scalar_u64(OpKind op, uint64_t a, uint64_t b, int64_t *out) {
    switch (op) {
    case OP_div: *out = (int64_t)(b ? a / b : 0); return true;
    case OP_mod: *out = (int64_t)(b ? a % b : 0); return true;
    case OP_min: *out = (int64_t)(a < b ? a : b); return true;
    case OP_max: *out = (int64_t)(a > b ? a : b); return true;
    case OP_lt: *out = a < b; return true;
    case OP_le: *out = a <= b; return true;
    case OP_gt: *out = a > b; return true;
    case OP_ge: *out = a >= b; return true;
    case OP_shr: *out = (int64_t)(a >> (b & 63)); return true;
    case OP_abs: *out = (int64_t)a; return true;
    case OP_sign: *out = a != 0; return true;
    default: return false;
    }
}

Number kvalue_scalar(OpKind op, KType type, Number a, Number b, Number c) {
    const OpInfo *info = op_info(op);
    Number result = {0};
    if (info->rule == RULE_SELECT)
        return a.i ? b : c;
    if (ktype_is_float(type)) {
        if (op == OP_fma) {
            result.f = type == K_F32 ? (double)fmaf((float)a.f, (float)b.f, (float)c.f) : fma(a.f, b.f, c.f);
            return result;
        }
        double value = info->float_ref(a.f, b.f, c.f);
        if (info->rule == RULE_COMPARE)
            result.i = value != 0;
        else
            result.f = type == K_F32 ? (double)(float)value : value;
        return result;
    }
    if (type == K_U64 && value_scalar_u64(op, (uint64_t)a.i, (uint64_t)b.i, &result.i))
        return result;
    if (info->int_ref)
        result.i = kvalue_wrap(kvalue_scalar_type(op, type), info->int_ref(a.i, b.i, c.i));
    return result;
}
