/* Elements in 32-bit words, the first in the low bits: what vector accesses and KX_PACK, KX_UNPACK share. Rounding follows
 * ir/type.h: to nearest even, e4m3 and e5m2 saturate. */

//! unpack_f16
DEVICE float unpack_f16(u32 word, int lane) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)(word >> 16 * lane)));
    return x;
}
//! pack_f16
DEVICE u32 pack_f16(float low, float high) {
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
//! unpack_bf16
DEVICE float unpack_bf16(u32 word, int lane) { // the upper half of an f32
    return f32_from_bits(lane ? word & 0xffff0000 : word << 16);
}
//! pack_bf16
DEVICE u32 pack_bf16(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

//! unpack_e4m3 sm>=89
DEVICE float unpack_e4m3(u32 word, int lane) {
    u32 pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((u16)(word >> 16 * (lane / 2))));
    return unpack_f16(pair, lane % 2);
}
//! unpack_e4m3 sm<89
DEVICE float unpack_e4m3(u32 word, int lane) {
    return decode_e4m3(word >> 8 * lane & 0xff);
}
//! pack_e4m3 sm>=89
DEVICE u32 pack_e4m3(float x0, float x1, float x2, float x3) {
    u16 low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x1), "f"(x0));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x3), "f"(x2));
    return (u32)high << 16 | low;
}
//! pack_e4m3 sm<89
DEVICE u32 pack_e4m3(float x0, float x1, float x2, float x3) {
    return encode_e4m3(x0) | encode_e4m3(x1) << 8 | encode_e4m3(x2) << 16 | encode_e4m3(x3) << 24;
}
//! unpack_e5m2
DEVICE float unpack_e5m2(u32 word, int lane) { // the upper half of an f16
    return unpack_f16(word >> 8 * lane << 8, 0);
}
//! pack_e5m2 sm>=89
DEVICE u32 pack_e5m2(float x0, float x1, float x2, float x3) {
    u16 low, high;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x1), "f"(x0));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x3), "f"(x2));
    return (u32)high << 16 | low;
}
//! pack_e5m2 sm<89
DEVICE u32 pack_e5m2(float x0, float x1, float x2, float x3) {
    return encode_e5m2(x0) | encode_e5m2(x1) << 8 | encode_e5m2(x2) << 16 | encode_e5m2(x3) << 24;
}
//! unpack_i16
DEVICE int unpack_i16(u32 word, int lane) {
    return (int)(word << 16 * (1 - lane)) >> 16;
}
//! pack_i16
DEVICE u32 pack_i16(int low, int high) {
    return __byte_perm((u32)low, (u32)high, 0x5410);
}
//! unpack_i8
DEVICE int unpack_i8(u32 word, int lane) {
    return (int)(word << 8 * (3 - lane)) >> 24;
}
//! pack_i8
DEVICE u32 pack_i8(int x0, int x1, int x2, int x3) {
    return __byte_perm(__byte_perm((u32)x0, (u32)x1, 0x0040), __byte_perm((u32)x2, (u32)x3, 0x0040), 0x5410);
}
//! unpack_u8
DEVICE int unpack_u8(u32 word, int lane) {
    return (int)(word >> 8 * lane & 0xff);
}
//! pack_u8
DEVICE u32 pack_u8(int x0, int x1, int x2, int x3) {
    return pack_i8(x0, x1, x2, x3);
}
//! unpack_bool
DEVICE bool unpack_bool(u32 word, int lane) {
    return (word >> 8 * lane & 0xff) != 0;
}
//! pack_bool
DEVICE u32 pack_bool(bool x0, bool x1, bool x2, bool x3) {
    return (u32)x0 | (u32)x1 << 8 | (u32)x2 << 16 | (u32)x3 << 24;
}
//! unpack_i4
DEVICE int unpack_i4(u32 word, int lane) {
    return (int)(word << 4 * (7 - lane)) >> 28;
}
//! unpack_u4
DEVICE int unpack_u4(u32 word, int lane) {
    return (int)(word >> 4 * lane & 0xf);
}
//! pack_i4
DEVICE u32 pack_i4(int x0, int x1, int x2, int x3, int x4, int x5, int x6, int x7) {
    return ((u32)x0 & 15) | ((u32)x1 & 15) << 4 | ((u32)x2 & 15) << 8 | ((u32)x3 & 15) << 12 | ((u32)x4 & 15) << 16 |
           ((u32)x5 & 15) << 20 | ((u32)x6 & 15) << 24 | (u32)x7 << 28;
}
//! pack_u4
DEVICE u32 pack_u4(int x0, int x1, int x2, int x3, int x4, int x5, int x6, int x7) {
    return pack_i4(x0, x1, x2, x3, x4, x5, x6, x7);
}
//! unpack_f32
DEVICE float unpack_f32(u32 word, int) {
    return f32_from_bits(word);
}
//! pack_f32
DEVICE u32 pack_f32(float x) {
    return f32_bits(x);
}
//! unpack_tf32
DEVICE float unpack_tf32(u32 word, int) {
    return f32_from_bits(word);
}
//! pack_tf32
DEVICE u32 pack_tf32(float x) {
    return f32_bits(round_tf32(x));
}
//! unpack_i32
DEVICE int unpack_i32(u32 word, int) {
    return (int)word;
}
//! pack_i32
DEVICE u32 pack_i32(int x) {
    return (u32)x;
}

//! round_f16
DEVICE float round_f16(float x) {
    return unpack_f16(pack_f16(x, 0.0f), 0);
}
//! round_bf16
DEVICE float round_bf16(float x) {
    return unpack_bf16(pack_bf16(x, 0.0f), 0);
}
//! round_e4m3
DEVICE float round_e4m3(float x) {
    return unpack_e4m3(pack_e4m3(x, 0.0f, 0.0f, 0.0f), 0);
}
//! round_e5m2
DEVICE float round_e5m2(float x) {
    return unpack_e5m2(pack_e5m2(x, 0.0f, 0.0f, 0.0f), 0);
}
