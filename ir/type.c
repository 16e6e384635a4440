#include "ir/type.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct DTypeInfo {
    const char *name;
    int bits;
    DTypeClass class_;
    int exponent, mantissa; /* bits; the mantissa without its hidden one */
} DTypeInfo;

static const DTypeInfo type_table[DTYPE_COUNT] = {
#define DTYPE(ENUM, NAME, BITS, CLASS, EXP, MAN)                                                             \
    [DTYPE_##ENUM] = {.name = NAME, .bits = BITS, .class_ = CLASS, .exponent = EXP, .mantissa = MAN},
#include "ir/types.def"
#undef DTYPE
};
_Static_assert(DTYPE_F64 == 0 && DTYPE_I64 == DTYPE_E5M2 + 1, "ORDER DTYPE: floats stand first");

const char *dtype_name(DType type) {
    return type_table[type].name;
}

DType dtype_find(const char *name) {
    for (int type = 0; type < DTYPE_COUNT; type++)
        if (strcmp(type_table[type].name, name) == 0)
            return (DType)type;
    return DTYPE_COUNT;
}

int dtype_bits(DType type) {
    return type_table[type].bits;
}

DTypeClass dtype_class(DType type) {
    return type_table[type].class_;
}

/* Exponent of the smallest normal number. */
static int type_exponent_min(DType type) {
    return 2 - (1 << (type_table[type].exponent - 1));
}

/* 2 to a power that is no subnormal double: ldexp() without its call, as all narrow numbers pass here. */
static double type_power(int exponent) {
    uint64_t bits = (uint64_t)(exponent + DBL_MAX_EXP - 1) << (DBL_MANT_DIG - 1);
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Exponent of a finite number; of a subnormal double one below all that those have which are none. */
static int type_exponent(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(bits << 1 >> DBL_MANT_DIG) - (DBL_MAX_EXP - 1);
}

double dtype_max_finite(DType type) {
    if (!dtype_is_float(type))
        return (double)dtype_max_int(type);
    if (type == DTYPE_F64)
        return DBL_MAX;
    if (type == DTYPE_E4M3)
        return 448; /* 1.75 * 2^8: all ones is NaN, and there is no infinity */
    return (2 - type_power(-type_table[type].mantissa)) * type_power(1 - type_exponent_min(type));
}

int64_t dtype_max_int(DType type) {
    int bits = type_table[type].bits;
    switch (type_table[type].class_) {
    case DTYPE_SIGNED: return INT64_MAX >> (64 - bits);
    case DTYPE_UNSIGNED: return ((int64_t)1 << bits) - 1;
    case DTYPE_LOGICAL: return 1;
    case DTYPE_FLOAT: break;
    }
    return INT64_MAX;
}

int64_t dtype_min_int(DType type) {
    return type_table[type].class_ == DTYPE_SIGNED ? -dtype_max_int(type) - 1 : 0;
}

DType dtype_compute(DType type) {
    if (dtype_is_float(type))
        return type == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    return type == DTYPE_I64 ? DTYPE_I64 : DTYPE_I32;
}

DType dtype_promote(DType a, DType b) {
    a = dtype_compute(a);
    b = dtype_compute(b);
    return a < b ? a : b; /* ORDER DTYPE: f64 < f32 < i64 < i32 */
}

bool dtype_widens(DType from, DType to) {
    if (from == to)
        return true;
    const DTypeInfo *f = &type_table[from], *t = &type_table[to];
    if (f->class_ == DTYPE_LOGICAL)
        return true;
    if (t->class_ == DTYPE_LOGICAL)
        return false;
    if (f->class_ == DTYPE_FLOAT)
        return t->class_ == DTYPE_FLOAT && f->exponent <= t->exponent && f->mantissa <= t->mantissa;
    int magnitude = f->bits - (f->class_ == DTYPE_SIGNED); /* bits of the largest magnitude but for -2^n */
    if (t->class_ == DTYPE_FLOAT)
        return magnitude <= t->mantissa + 1 && ldexp(1, magnitude) <= dtype_max_finite(to);
    if (f->class_ == DTYPE_SIGNED && t->class_ == DTYPE_UNSIGNED)
        return false;
    return magnitude <= t->bits - (t->class_ == DTYPE_SIGNED);
}

double dtype_round(double value, DType type) {
    if (type == DTYPE_F64 || value == 0 || isnan(value))
        return value;
    double most = dtype_max_finite(type);
    double beyond = dtype_is_fp8(type) ? most : INFINITY;
    if (fabs(value) >= 2 * most)
        return copysign(beyond, value);
    /* What the last mantissa bit weighs; subnormals share the exponent of the smallest normal number. Beside
     * a number whose own last bit weighs as much the sum is rounded so. */
    int exponent = type_exponent(value), least = type_exponent_min(type);
    int unit = (exponent < least ? least : exponent) - type_table[type].mantissa;
    double beside = 1.5 * type_power(unit + DBL_MANT_DIG - 1);
    double rounded = copysign(value + beside - beside, value);
    return fabs(rounded) > most ? copysign(beyond, value) : rounded;
}

/* An integer rounded once. Beyond 2^53 a plain conversion to double would round a first time, so the bits
 * that are lost there are gathered in the last one that stays ("round to odd", Boldo and Melquiond 2005),
 * which the second rounding then sees. */
static double type_from_int(int64_t value, DType to) {
    if (to == DTYPE_F64)
        return (double)value;
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    int shift = 0;
    while (magnitude >> shift >= (uint64_t)1 << 53)
        shift++;
    uint64_t kept = magnitude >> shift;
    if (kept << shift != magnitude)
        kept |= 1;
    double odd = ldexp((double)kept, shift);
    return dtype_round(value < 0 ? -odd : odd, to);
}

static int64_t type_int_from_float(double value, DType to) {
    if (isnan(value))
        return 0;
    value = trunc(value);
    /* The largest int64 is no double: compare with the power of two above it. */
    double above = ldexp(1, type_table[to].bits - (type_table[to].class_ == DTYPE_SIGNED));
    if (value >= above)
        return dtype_max_int(to);
    if (value < (double)dtype_min_int(to))
        return dtype_min_int(to);
    return (int64_t)value;
}

static int64_t type_low_bits(int64_t value, DType to) {
    int unused = 64 - type_table[to].bits;
    uint64_t high = (uint64_t)value << unused;
    return type_table[to].class_ == DTYPE_UNSIGNED ? (int64_t)(high >> unused) : (int64_t)high >> unused;
}

Number dtype_convert(Number value, DType from, DType to) {
    if (from == to)
        return value;
    if (dtype_is_float(from)) {
        if (dtype_is_float(to))
            return (Number){.f = dtype_round(value.f, to)};
        if (to == DTYPE_BOOL)
            return (Number){.i = value.f != 0};
        return (Number){.i = type_int_from_float(value.f, to)};
    }
    if (dtype_is_float(to))
        return (Number){.f = type_from_int(value.i, to)};
    if (to == DTYPE_BOOL)
        return (Number){.i = value.i != 0};
    return (Number){.i = type_low_bits(value.i, to)};
}

/* Floats of 8 and 16 bits as bit fields: sign, exponent, mantissa. */
static double type_decode(DType type, uint32_t bits) {
    int mantissa_bits = type_table[type].mantissa, exponent_bits = type_table[type].exponent;
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    uint32_t ones = (1u << exponent_bits) - 1;
    int unit = type_exponent_min(type) - mantissa_bits;
    double magnitude;
    if (type == DTYPE_E4M3 && exponent == ones && mantissa == 7)
        magnitude = NAN;
    else if (type != DTYPE_E4M3 && exponent == ones)
        magnitude = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = mantissa * type_power(unit);
    else
        magnitude = (mantissa | 1u << mantissa_bits) * type_power(unit + (int)exponent - 1);
    return bits >> (mantissa_bits + exponent_bits) & 1 ? -magnitude : magnitude;
}

static uint32_t type_encode(DType type, double value) {
    int mantissa_bits = type_table[type].mantissa, exponent_bits = type_table[type].exponent;
    uint32_t ones = (1u << exponent_bits) - 1;
    uint32_t sign = signbit(value) ? 1u << (mantissa_bits + exponent_bits) : 0;
    if (isnan(value))
        return type == DTYPE_E4M3 ? 0x7f : ones << mantissa_bits | 1u << (mantissa_bits - 1);
    value = fabs(dtype_round(value, type));
    if (isinf(value))
        return sign | ones << mantissa_bits;
    if (value == 0)
        return sign;
    int least = type_exponent_min(type), exponent = type_exponent(value);
    if (exponent < least)
        return sign | (uint32_t)(value * type_power(mantissa_bits - least));
    /* The hidden one adds one to the exponent field. */
    return sign | (((uint32_t)(exponent - least) << mantissa_bits) +
                   (uint32_t)(value * type_power(mantissa_bits - exponent)));
}

Number dtype_load(DType type, const void *base, int64_t index) {
    int bits = type_table[type].bits;
    if (bits == 4) {
        uint8_t pair = ((const uint8_t *)base)[index >> 1];
        return (Number){.i = type_low_bits(index & 1 ? pair >> 4 : pair, type)};
    }
    const char *at = (const char *)base + index * (bits / 8);
    if (bits == 64) {
        Number wide; /* both members are the memory's own form */
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (type == DTYPE_F32 || type == DTYPE_TF32) {
        float single;
        memcpy(&single, at, sizeof single);
        return (Number){.f = single};
    }
    uint32_t raw = 0;
    for (int byte = 0; byte < bits / 8; byte++)
        raw |= (uint32_t)(uint8_t)at[byte] << 8 * byte;
    if (dtype_is_float(type))
        return (Number){.f = type_decode(type, raw)};
    if (type == DTYPE_BOOL)
        return (Number){.i = raw != 0};
    return (Number){.i = type_low_bits((int64_t)raw, type)};
}

void dtype_store(DType type, void *base, int64_t index, Number value) {
    int bits = type_table[type].bits;
    if (bits == 4) {
        uint8_t *pair = (uint8_t *)base + (index >> 1);
        uint8_t nibble = (uint8_t)(value.i & 15);
        *pair = (uint8_t)(index & 1 ? (*pair & 15) | nibble << 4 : (*pair & 0xf0) | nibble);
        return;
    }
    char *at = (char *)base + index * (bits / 8);
    if (bits == 64) {
        memcpy(at, &value, sizeof value);
        return;
    }
    if (type == DTYPE_F32 || type == DTYPE_TF32) {
        float single = (float)dtype_round(value.f, type);
        memcpy(at, &single, sizeof single);
        return;
    }
    uint32_t raw = dtype_is_float(type) ? type_encode(type, value.f) : (uint32_t)value.i;
    for (int byte = 0; byte < bits / 8; byte++)
        at[byte] = (char)(raw >> 8 * byte);
}

bool dtype_bytes(DType type, int64_t count, int64_t *bytes) {
    int64_t total;
    if (count < 0 || __builtin_mul_overflow(count, type_table[type].bits, &total) || total > INT64_MAX - 7)
        return false;
    *bytes = (total + 7) / 8;
    return true;
}
