/* The mathematical functions for the LLVM backend: the sections of math_f32.cuh, math_f64.cuh and convert.cuh
 * compiled once by clang to LLVM IR, math.ll, which is checked in so that building Sinter needs no clang.
 * After a change in those files: make math-ll. */
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define DEVICE
#define TABLE const

#define fmaf __builtin_fmaf
#define fma __builtin_fma
#define fabsf __builtin_fabsf
#define fabs __builtin_fabs
#define fminf __builtin_fminf
#define fmin __builtin_fmin
#define fmaxf __builtin_fmaxf
#define fmax __builtin_fmax
#define rintf __builtin_rintf
#define rint __builtin_rint
#define truncf __builtin_truncf
#define trunc __builtin_trunc
#define copysignf __builtin_copysignf
#define copysign __builtin_copysign

#define INLINE static inline __attribute__((always_inline))

INLINE u32 f32_bits(float x) {
    u32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE float f32_from_bits(u32 bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
INLINE u64 f64_bits(double x) {
    u64 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE double f64_from_bits(u64 bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
INLINE float ex2_approx_ftz(float x) {
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINE float rcp_approx_ftz(float x) {
    float y;
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINE float div_full(float a, float b) {
    float y;
    __asm__("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
INLINE int f32_to_i32(float x) {
    return __nvvm_f2i_rz(x);
}
INLINE int f64_to_i32(double x) {
    return x == x ? __nvvm_d2i_rz(x) : 0;
}
INLINE u64 mul_hi_u64(u64 a, u64 b) {
    return __nvvm_mulhi_ull(a, b);
}

/* What answers through a pointer goes into its callers, so that no pointers stand in math.ll. */
int reduce_pi_f32(float x, float *r) __attribute__((always_inline));
int reduce_pi_f64(double x, double *r) __attribute__((always_inline));
double log_split_f64(double x, double *f) __attribute__((always_inline));

#include "math_f64.cuh"

#include "math_f32.cuh"

#include "convert.cuh"
