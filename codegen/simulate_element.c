/* Elements of memory as the simulator reads and writes them: what dtype_load() and dtype_store() say, but
 * quickly for the types that matrix products and rows are full of. */
#include "codegen/kernel_value.h"
#include "codegen/simulate_internal.h"

#include <math.h>

static double element_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double element_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31, mantissa = half & 0x3ffu;
    if (exponent == 31)
        return element_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent)
        return element_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    double tiny = mantissa * 0x1p-24;
    return sign ? -tiny : tiny;
}

/* Without the exponent's top value that e5m2 has for infinities: 448 is exponent 15, mantissa 6; 0x7f alone
 * is NaN. */
static double element_e4m3(uint8_t byte) {
    uint32_t sign = (uint32_t)(byte >> 7) << 31, exponent = byte >> 3 & 15, mantissa = byte & 7u;
    if ((byte & 0x7f) == 0x7f)
        return NAN;
    if (exponent)
        return element_of_bits(sign | (exponent + 120) << 23 | mantissa << 20);
    double tiny = mantissa * 0x1p-9;
    return sign ? -tiny : tiny;
}

Number sim_element_load(DType type, const void *base, int64_t index) {
    const uint8_t *bytes = base;
    uint16_t half;
    switch (type) {
    case DTYPE_BF16:
        memcpy(&half, bytes + 2 * index, 2);
        return (Number){.f = element_of_bits((uint32_t)half << 16)};
    case DTYPE_F16: memcpy(&half, bytes + 2 * index, 2); return (Number){.f = element_f16(half)};
    case DTYPE_E5M2: return (Number){.f = element_f16((uint16_t)(bytes[index] << 8))};
    case DTYPE_E4M3: return (Number){.f = element_e4m3(bytes[index])};
    default: return dtype_load(type, base, index);
    }
}

void sim_element_store(DType type, void *base, int64_t index, Number value, KType from) {
    float single = (float)value.f;
    if (from == K_F32 && (type == DTYPE_F32 || (type == DTYPE_BF16 && isfinite(single)))) {
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        if (type == DTYPE_F32) {
            memcpy((uint8_t *)base + 4 * index, &bits, sizeof bits);
            return;
        }
        uint16_t half = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16); /* to nearest, ties to even */
        memcpy((uint8_t *)base + 2 * index, &half, sizeof half);
        return;
    }
    dtype_store(type, base, index, kvalue_to_element(value, from, type));
}

double sim_matrix_element(DType type, const void *base, int64_t index) {
    if (type == DTYPE_TF32) {
        uint32_t bits;
        memcpy(&bits, (const uint8_t *)base + 4 * index, sizeof bits);
        return element_of_bits(bits & 0xffffe000u);
    }
    Number number = sim_element_load(type, base, index);
    return dtype_is_float(type) ? number.f : (double)number.i;
}
