/* Conversions that no instruction does, or only on some targets, by the one rule of ir/type.h. C as much as CUDA: math_f32.cuh. */

//! round_tf32
/* To 10 bits of mantissa, halves to even; NaN stays. (cvt.rna.tf32 rounds halves away from zero.) */
DEVICE float round_tf32(float x) {
    u32 bits = f32_bits(x);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
    return x == x ? f32_from_bits(bits) : x;
}

//! f64_to_f32_odd
/* The f32 toward zero, its last bit set where the value was not exact: rounding the result again to a type of at most 22 bits of
 * mantissa gives what rounding x once would. */
DEVICE float f64_to_f32_odd(double x) {
    float nearest = (float)x;
    u32 bits = f32_bits(nearest);
    bits -= fabs((double)nearest) > fabs(x);
    bits |= (double)nearest != x;
    return x == x ? f32_from_bits(bits) : nearest;
}

//! encode_small_float
/* The code of x in a float type of 8 bits with `mantissa` stored bits and this exponent bias, sign in bit 7: halves to even, what
 * is too large becomes `largest`, NaN becomes 0x7f. */
DEVICE u32 encode_small_float(float x, int mantissa, int bias, u32 largest) {
    u32 bits = f32_bits(x), sign = bits >> 24 & 0x80;
    u32 magnitude = bits & 0x7fffffff;
    int shift = 23 - mantissa;
    u32 code = (magnitude + ((1u << (shift - 1)) - 1) + (magnitude >> shift & 1)) >> shift;
    code -= (u32)(127 - bias) << mantissa;
    /* Below the smallest normal value the codes count steps of 2^(1 - bias - mantissa). Adding 2^23 steps rounds to a whole one. */
    float steps = f32_from_bits((u32)(127 + 23 + 1 - bias - mantissa) << 23);
    u32 subnormal = f32_bits(f32_from_bits(magnitude) + steps) - f32_bits(steps);
    code = magnitude < (u32)(127 + 1 - bias) << 23 ? subnormal : code;
    code = code > largest || magnitude >= 0x7f000000u ? largest : code;
    return x == x ? sign | code : 0x7f;
}

//! encode_e4m3
DEVICE u32 encode_e4m3(float x) {
    return encode_small_float(x, 3, 7, 0x7e);
}

//! encode_e5m2
DEVICE u32 encode_e5m2(float x) {
    return encode_small_float(x, 2, 15, 0x7b);
}

//! decode_e4m3
/* The code's exponent and mantissa moved to f32's places mean the value times 2^(7 - 127), subnormal or not. */
DEVICE float decode_e4m3(u32 code) {
    float value = f32_from_bits((code & 0x7f) << 20) * 1.32922800e36f; /* 2^120 */
    value = (code & 0x7f) == 0x7f ? f32_from_bits(0x7fffffffu) : value;
    return code & 0x80 ? -value : value;
}

//! decode_e5m2
DEVICE float decode_e5m2(u32 code) {
    float value = f32_from_bits((code & 0x7f) << 21) * 5.19229686e33f; /* 2^112 */
    value = (code & 0x7f) > 0x7c ? f32_from_bits(0x7fffffffu) : (code & 0x7f) == 0x7c ? f32_from_bits(0x7f800000u) : value;
    return code & 0x80 ? -value : value;
}
