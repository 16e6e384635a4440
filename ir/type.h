/* Element types: what they hold, how wide they are, and exact conversion between them and the reference's
 * numbers. */
#ifndef SINTER_IR_TYPE_H
#define SINTER_IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(ENUM, NAME, BITS, CLASS, EXP, MAN) DTYPE_##ENUM,
#include "ir/types.def"
#undef DTYPE
    DTYPE_COUNT
} DType;

typedef enum DTypeClass { DTYPE_FLOAT, DTYPE_SIGNED, DTYPE_UNSIGNED, DTYPE_LOGICAL } DTypeClass;

/* One element as the reference holds it: f for float types, i for integers and bool (0 or 1). */
typedef union Number {
    double f;
    int64_t i;
} Number;

const char *dtype_name(DType type);
DType dtype_find(const char *name); /* DTYPE_COUNT where there is none */
int dtype_bits(DType type);
DTypeClass dtype_class(DType type);
static inline bool dtype_is_float(DType type) {
    return type <= DTYPE_E5M2; /* ORDER DTYPE */
}
/* What matrix instructions take of 8 bits: floats, and integers. */
static inline bool dtype_is_fp8(DType type) {
    return type == DTYPE_E4M3 || type == DTYPE_E5M2;
}
static inline bool dtype_is_int8(DType type) {
    return type == DTYPE_I8 || type == DTYPE_U8;
}
/* Largest finite value of a float type; largest and smallest of an integer type. */
double dtype_max_finite(DType type);
int64_t dtype_max_int(DType type);
int64_t dtype_min_int(DType type);

/* The type in which arithmetic on operands of these types is done and left: f64 if any is f64, else f32 if
 * any is a float, else i64 if any is i64, else i32. Compute types are f64, f32, i64, i32 and, for logic,
 * bool. */
DType dtype_compute(DType type);
DType dtype_promote(DType a, DType b);
/* Whether every value of `from` is a value of `to`, so that from -> to -> from changes nothing. */
bool dtype_widens(DType from, DType to);

/* A value of type `from` converted to `to`: the one definition that kernels must match.
 *   float -> float: round to nearest even once; overflow goes to infinity, for e4m3 and e5m2 to the largest
 * finite; NaN stays NaN. float -> integer: toward zero, saturating, NaN gives 0.   integer -> float: round to
 * nearest even. integer -> integer: the low bits (two's complement).      anything -> bool: not equal to zero
 * (NaN is true). */
Number dtype_convert(Number value, DType from, DType to);
/* Rounds a float64 to the values of `type` (a float type) by the rule above. */
double dtype_round(double value, DType type);

/* Element `index` of packed memory, bit-exact. Storing converts nothing: `value` must already be a value of
 * `type` (floats are rounded by the rule above, which then is exact). */
Number dtype_load(DType type, const void *base, int64_t index);
void dtype_store(DType type, void *base, int64_t index, Number value);
/* Bytes of `count` packed elements; false on overflow. */
bool dtype_bytes(DType type, int64_t count, int64_t *bytes);

#endif
