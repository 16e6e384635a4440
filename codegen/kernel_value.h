/* What a register holds, and what the operations of kernel IR do with it: one definition for the builder's
 * constant folding and for the simulator.
 *
 * Integers live in Number.i: i32 with its sign extended, u32 with zeros, u64 as its bits, bool as 0 or 1.
 * Floats live in Number.f, an f32 always being a value that a float can hold. */
#ifndef SINTER_CODEGEN_KERNEL_VALUE_H
#define SINTER_CODEGEN_KERNEL_VALUE_H

#include "codegen/kernel.h"

static inline bool ktype_is_float(KType type) {
    return type == K_F32 || type == K_F64;
}
static inline bool ktype_is_int(KType type) {
    return type == K_I32 || type == K_U32 || type == K_I64 || type == K_U64;
}

/* The low bits of an integer, as a value of `type`. */
int64_t kvalue_wrap(KType type, int64_t value);
/* KX_CONVERT. The unsigned types, which no element has, follow dtype_convert()'s rule too: toward zero,
 * saturating, NaN gives 0. */
Number kvalue_convert(Number value, KType from, KType to);
/* A register's value as an element of memory, and back: what stores and loads, KX_PACK and KX_UNPACK do. */
Number kvalue_to_element(Number value, KType from, DType to);
Number kvalue_from_element(Number value, DType from, KType to);
/* KX_BITCAST. */
uint64_t kvalue_bits(Number value, KType type);
Number kvalue_from_bits(uint64_t bits, KType type);
/* KX_SCALAR on operands of register type `type` (for select: of its last two); the result has type
 * kvalue_scalar_type(). */
Number kvalue_scalar(OpKind op, KType type, Number a, Number b, Number c);
KType kvalue_scalar_type(OpKind op, KType type);
/* Whether `op` is defined on operands of this type. */
bool kvalue_scalar_takes(OpKind op, KType type);

#endif
