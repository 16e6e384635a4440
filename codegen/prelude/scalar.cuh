/* Scalar operations that one instruction does, or a few; the others: math_f32.cuh, math_f64.cuh. */

//! ex2_approx
DEVICE float ex2_approx(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//! ex2_approx_ftz
DEVICE float ex2_approx_ftz(float x) { // a subnormal result is 0
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//! rcp_approx
DEVICE float rcp_approx(float x) { // 1 unit in the last place
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//! rcp_approx_ftz
DEVICE float rcp_approx_ftz(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//! rsqrt_approx
DEVICE float rsqrt_approx(float x) {
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//! sqrt_approx
DEVICE float sqrt_approx(float x) { // 1 unit in the last place
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//! div_full
DEVICE float div_full(float a, float b) { // 2 units in the last place, over the whole range
    float y;
    asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

//! min_f32
DEVICE float min_f32(float a, float b) { // NaN if either is
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
//! max_f32
DEVICE float max_f32(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
//! min_f64
DEVICE double min_f64(double a, double b) {
    return a < b || a != a ? a : b;
}
//! max_f64
DEVICE double max_f64(double a, double b) {
    return a > b || a != a ? a : b;
}
//! sign_f32
DEVICE float sign_f32(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}
//! sign_f64
DEVICE double sign_f64(double x) {
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
}
//! sign_i32
DEVICE int sign_i32(int x) {
    return (x > 0) - (x < 0);
}
//! sign_i64
DEVICE i64 sign_i64(i64 x) {
    return (x > 0) - (x < 0);
}
//! sign_u32
DEVICE u32 sign_u32(u32 x) {
    return x != 0;
}
//! sign_u64
DEVICE u64 sign_u64(u64 x) {
    return x != 0;
}
//! is_nan
template <typename T> DEVICE bool is_nan(T x) {
    return x != x;
}
//! is_finite
template <typename T> DEVICE bool is_finite(T x) {
    return x - x == 0;
}

/* Integers from memory wrap, where C++ would leave overflow undefined; a division by zero gives 0. */
//! wrap_add_i32
DEVICE int wrap_add_i32(int a, int b) {
    return (int)((u32)a + (u32)b);
}
//! wrap_add_i64
DEVICE i64 wrap_add_i64(i64 a, i64 b) {
    return (i64)((u64)a + (u64)b);
}
//! wrap_sub_i32
DEVICE int wrap_sub_i32(int a, int b) {
    return (int)((u32)a - (u32)b);
}
//! wrap_sub_i64
DEVICE i64 wrap_sub_i64(i64 a, i64 b) {
    return (i64)((u64)a - (u64)b);
}
//! wrap_mul_i32
DEVICE int wrap_mul_i32(int a, int b) {
    return (int)((u32)a * (u32)b);
}
//! wrap_mul_i64
DEVICE i64 wrap_mul_i64(i64 a, i64 b) {
    return (i64)((u64)a * (u64)b);
}
//! wrap_neg_i32
DEVICE int wrap_neg_i32(int a) {
    return (int)(0 - (u32)a);
}
//! wrap_abs_i32
DEVICE int wrap_abs_i32(int a) {
    return a < 0 ? wrap_neg_i32(a) : a;
}
//! wrap_shl_i32
DEVICE int wrap_shl_i32(int a, int bits) {
    return (int)((u32)a << bits);
}
//! safe_div_i32
DEVICE int safe_div_i32(int a, int b) {
    return b == 0 ? 0 : b == -1 ? wrap_neg_i32(a) : a / b;
}
//! safe_mod_i32
DEVICE int safe_mod_i32(int a, int b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
//! wrap_neg_i64
DEVICE i64 wrap_neg_i64(i64 a) {
    return (i64)(0 - (u64)a);
}
//! wrap_abs_i64
DEVICE i64 wrap_abs_i64(i64 a) {
    return a < 0 ? wrap_neg_i64(a) : a;
}
//! wrap_shl_i64
DEVICE i64 wrap_shl_i64(i64 a, i64 bits) {
    return (i64)((u64)a << bits);
}
//! safe_div_i64
DEVICE i64 safe_div_i64(i64 a, i64 b) {
    return b == 0 ? 0 : b == -1 ? wrap_neg_i64(a) : a / b;
}
//! safe_mod_i64
DEVICE i64 safe_mod_i64(i64 a, i64 b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
//! safe_div_u32
DEVICE u32 safe_div_u32(u32 a, u32 b) {
    return b == 0 ? 0 : a / b;
}
//! safe_mod_u32
DEVICE u32 safe_mod_u32(u32 a, u32 b) {
    return b == 0 ? 0 : a % b;
}
//! safe_div_u64
DEVICE u64 safe_div_u64(u64 a, u64 b) {
    return b == 0 ? 0 : a / b;
}
//! safe_mod_u64
DEVICE u64 safe_mod_u64(u64 a, u64 b) {
    return b == 0 ? 0 : a % b;
}

//! f32_to_i32
DEVICE int f32_to_i32(float x) { // toward zero, saturating; NaN gives 0
    return __float2int_rz(x);
}
//! f32_to_u32
DEVICE u32 f32_to_u32(float x) {
    return __float2uint_rz(x);
}
//! f32_to_i64
DEVICE i64 f32_to_i64(float x) {
    return x == x ? __float2ll_rz(x) : 0;
}
//! f32_to_u64
DEVICE u64 f32_to_u64(float x) {
    return x == x ? __float2ull_rz(x) : 0;
}
//! f64_to_i32
DEVICE int f64_to_i32(double x) {
    return x == x ? __double2int_rz(x) : 0;
}
//! f64_to_u32
DEVICE u32 f64_to_u32(double x) {
    return x == x ? __double2uint_rz(x) : 0;
}
//! f64_to_i64
DEVICE i64 f64_to_i64(double x) {
    return x == x ? __double2ll_rz(x) : 0;
}
//! f64_to_u64
DEVICE u64 f64_to_u64(double x) {
    return x == x ? __double2ull_rz(x) : 0;
}

//! mul_hi_u64
DEVICE u64 mul_hi_u64(u64 a, u64 b) {
    return __umul64hi(a, b);
}
