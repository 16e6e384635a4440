/* The mathematical functions of prelude/, compiled for the CPU and measured against float64 (f32) and the C
 * library (f64). On a GPU only the approximate instructions differ, by at most two units in the last place.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "ir/op.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;
#define DEVICE static inline __attribute__((unused))
#define TABLE static const

DEVICE u32 f32_bits(float x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
DEVICE float f32_from_bits(u32 bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
DEVICE u64 f64_bits(double x) {
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
DEVICE double f64_from_bits(u64 bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
DEVICE float ex2_approx_ftz(float x) {
    float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
}
DEVICE float rcp_approx_ftz(float x) {
    float y = 1.0f / x;
    return fabsf(y) < 0x1p-126f ? 0.0f : y;
}
DEVICE float div_full(float a, float b) {
    return a / b;
}
DEVICE int f32_to_i32(float x) {
    return (int)dtype_convert((Number){.f = x}, DTYPE_F32, DTYPE_I32).i;
}
DEVICE int f64_to_i32(double x) {
    return (int)dtype_convert((Number){.f = x}, DTYPE_F64, DTYPE_I32).i;
}
DEVICE u64 mul_hi_u64(u64 a, u64 b) {
    return (u64)((unsigned __int128)a * b >> 64);
}

#include "codegen/prelude/math_f64.cuh"

#include "codegen/prelude/math_f32.cuh"

#include "codegen/prelude/convert.cuh"

static u64 random_state;
static u64 random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static double random_between(double low, double high) {
    return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53;
}

/* |got - expected| in units in the last place of an f32; exact matches, NaN for NaN and equal infinities
 * count as 0. */
static double error_f32(double expected, float got) {
    float rounded = (float)expected;
    if (isnan(rounded) || isnan(got))
        return isnan(rounded) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got)) /* the last step before overflow may round either way */
        return rounded == got || (fabs(expected) > 3.4e38 && fabsf(got) > 3.4e38f) ? 0 : INFINITY;
    float next = nextafterf(fabsf(rounded), INFINITY);
    double unit = isinf(next) ? 0x1p104 : (double)next - fabsf(rounded);
    return fabs((double)got - expected) / unit;
}

/* In units of 2^-53 of the value; near 0 and for subnormal values of 2^-53 of the smallest normal one. */
static double error_f64(double expected, double got) {
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got) ? 0 : INFINITY;
    if (isinf(expected) || isinf(got))
        return expected == got ? 0 : INFINITY;
    return fabs(got - expected) / fmax(fabs(expected), 0x1p-1022) * 0x1p53;
}

/* `error`, but in units of a number near 1 for the function that is as precise as that. */
static double error_near_1(OpKind op, double expected, double got, double unit, double error) {
    return op == OP_one_plus_erf && fabs(expected) < 1 ? fabs(got - expected) / unit : error;
}

static const double special[] = {0.0,      -0.0,      1.0,   -1.0,     0.5,      2.0,     -2.0,      3.0,
                                 INFINITY, -INFINITY, NAN,   0x1p-149, 0x1p-126, 0x1p127, 0x1p-1074, 0x1p1023,
                                 88.7,     -103.9,    709.7, -745.1,   1e-8,     48000.0, 1e30,      -1e22};
enum { N_SPECIAL = sizeof special / sizeof *special, N_SAMPLES = 200000 };

/* Samples: the special values, any bit patterns, and the interval where the function does its work. */
static double sample(int i, double low, double high, bool is_f32) {
    if (i < N_SPECIAL)
        return special[i];
    if (i % 2)
        return random_between(low, high);
    return is_f32 ? f32_from_bits((u32)random_bits()) : f64_from_bits(random_bits());
}

typedef struct Case1 {
    OpKind op;
    float (*f32)(float);
    double (*f64)(double);
    double low, high;
    double limit_f32, limit_f64; /* errors allowed, in the units above */
} Case1;

static void functions_of_one(void **state) {
    (void)state;
    static const Case1 cases[] = {
        {OP_exp, exp_f32, exp_f64, -110, 110, 1.5, 4},
        {OP_exp2, NULL, exp2_f64, -160, 130, 0, 4},
        {OP_expm1, expm1_f32, expm1_f64, -2, 2, 2, 4},
        {OP_expm1, expm1_f32, expm1_f64, -30, 92, 2, 4},
        {OP_sigmoid, sigmoid_f32, sigmoid_f64, -88, 30, 70,
         6}, /* |x| * 0.72 units far below 0, as its comment says */
        {OP_tanh, tanh_f32, tanh_f64, -12, 12, 3.5, 8},
        {OP_log, log_f32, log_f64, 0, 10, 1.5, 4},
        {OP_log, log_f32, log_f64, 0.9, 1.1, 1.5, 4},
        {OP_log2, log2_f32, log2_f64, 0, 10, 2, 4},
        {OP_log2, log2_f32, log2_f64, 0.9, 1.1, 2, 4},
        {OP_log1p, log1p_f32, log1p_f64, -1, 10, 2, 6},
        {OP_log1p, log1p_f32, log1p_f64, -0.01, 0.01, 2, 6},
        {OP_log1pexp, log1pexp_f32, log1pexp_f64, -87, 100, 70, 6}, /* as the sigmoid */
        {OP_sin, sin_f32, sin_f64, -100, 100, 2, 6},
        {OP_sin, sin_f32, sin_f64, -200000, 200000, 2, 6},
        {OP_cos, cos_f32, cos_f64, -100, 100, 2, 6},
        {OP_tan, tan_f32, tan_f64, -100, 100, 4, 8},
        {OP_erf, erf_f32, erf_f64, -5, 5, 3, 4},
        {OP_erf, erf_f32, erf_f64, -1, 1, 3, 4},
        {OP_one_plus_erf, one_plus_erf_f32, one_plus_erf_f64, -5, 5, 2, 4},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const Case1 *row = &cases[c];
        double (*reference)(double, double, double) = op_info(row->op)->float_ref;
        random_state = 88172645463325252ull;
        for (int i = 0; i < N_SAMPLES; i++) {
            float x = (float)sample(i, row->low, row->high, true);
            double expected = reference((double)x, 0, 0);
            /* the instructions behind sigmoid and log1pexp of a large negative number give 0 for a subnormal
             * result */
            bool flushes = (row->op == OP_sigmoid || row->op == OP_log1pexp) && fabs(expected) < 0x1p-126;
            float got = row->f32 ? row->f32(x) : 0;
            double error = row->f32 && !flushes ? error_f32(expected, got) : 0;
            error = error_near_1(row->op, expected, (double)got, 0x1p-23, error);
            if (!(error <= row->limit_f32)) {
                fprintf(stderr, "%s_f32(%a) = %a, not %a: %g units\n", op_info(row->op)->name, x, row->f32(x),
                        expected, error);
                fail();
            }
            double wide = sample(i, row->low, row->high, false);
            expected = reference(wide, 0, 0);
            error = error_f64(expected, row->f64(wide));
            error = error_near_1(row->op, expected, row->f64(wide), 0x1p-53, error);
            if (!(error <= row->limit_f64)) {
                fprintf(stderr, "%s_f64(%a) = %a, not %a: %g units\n", op_info(row->op)->name, wide,
                        row->f64(wide), expected, error);
                fail();
            }
        }
    }
}

typedef struct Case2 {
    OpKind op;
    float (*f32)(float, float);
    double (*f64)(double, double);
    double low, high;
    double limit_f32, limit_f64;
} Case2;

static void functions_of_two(void **state) {
    (void)state;
    static const Case2 cases[] = {
        {OP_pow, pow_f32, pow_f64, 0, 30, 2, 8},
        {OP_pow, pow_f32, pow_f64, -4, 4, 2, 8},
        {OP_atan2, atan2_f32, atan2_f64, -3, 3, 3, 8},
        {OP_mod, mod_f32, mod_f64, -100, 100, 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const Case2 *row = &cases[c];
        double (*reference)(double, double, double) = op_info(row->op)->float_ref;
        random_state = 1234567891234567ull;
        for (int i = 0; i < N_SAMPLES; i++) {
            bool grid = i < N_SPECIAL * N_SPECIAL;
            double a = grid ? special[i / N_SPECIAL] : sample(N_SPECIAL + i, row->low, row->high, true);
            double b = grid ? special[i % N_SPECIAL] : sample(N_SPECIAL + i, row->low, row->high, true);
            if (i % 16 == 5)
                b = rint(b);
            float x = (float)a, y = (float)b;
            double error = error_f32(reference((double)x, (double)y, 0), row->f32(x, y));
            if (!(error <= row->limit_f32)) {
                fprintf(stderr, "%s_f32(%a, %a) = %a, not %a: %g units\n", op_info(row->op)->name, x, y,
                        row->f32(x, y), reference((double)x, (double)y, 0), error);
                fail();
            }
            error = error_f64(reference(a, b, 0), row->f64(a, b));
            if (!(error <= row->limit_f64)) {
                fprintf(stderr, "%s_f64(%a, %a) = %a, not %a: %g units\n", op_info(row->op)->name, a, b,
                        row->f64(a, b), reference(a, b, 0), error);
                fail();
            }
        }
    }
}

/* Roundings in software against the one definition, for every upper half of an f32 and random lower halves.
 */
static void conversions_match_the_definition(void **state) {
    (void)state;
    random_state = 987654321ull;
    for (u32 i = 0; i < 1u << 18; i++) {
        u32 low[] = {0, 0x8000, 0x1000, 0x7fff, 0x8001, (u32)random_bits() & 0xffff};
        float x = f32_from_bits(i << 16 | low[i >> 16 & 3 ? (i >> 16) % 6 : random_bits() % 6]);
        double expected[] = {dtype_round(x, DTYPE_TF32), dtype_round(x, DTYPE_E4M3),
                             dtype_round(x, DTYPE_E5M2)};
        double got[] = {round_tf32(x), decode_e4m3(encode_e4m3(x)), decode_e5m2(encode_e5m2(x))};
        for (int j = 0; j < 3; j++)
            if (f64_bits(expected[j]) != f64_bits(got[j]) && !(isnan(expected[j]) && isnan(got[j]))) {
                fprintf(stderr, "rounding %d of %a: %a, not %a\n", j, x, got[j], expected[j]);
                fail();
            }
    }
    for (int code = 0; code < 256; code++) {
        uint8_t byte = (uint8_t)code;
        double e4m3 = dtype_load(DTYPE_E4M3, &byte, 0).f, e5m2 = dtype_load(DTYPE_E5M2, &byte, 0).f;
        assert_true(decode_e4m3((u32)code) == (float)e4m3 || isnan(e4m3));
        assert_true(decode_e5m2((u32)code) == (float)e5m2 || isnan(e5m2));
        assert_int_equal(isnan(decode_e4m3((u32)code)) != 0, isnan(e4m3) != 0);
        assert_int_equal(isnan(decode_e5m2((u32)code)) != 0, isnan(e5m2) != 0);
    }
}

/* f64 -> f32 by rounding to odd -> a small type must equal one rounding, also at the ties that f32 makes of
 * values near them. */
static void rounding_to_odd_rounds_once(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_E4M3, DTYPE_E5M2, DTYPE_TF32};
    random_state = 5555555555ull;
    for (int i = 0; i < 200000; i++) {
        double x = random_between(-500, 500);
        DType type = types[i % 5];
        if (i % 3 == 0) { /* just off the middle between two values of the type */
            double near = dtype_round(x, type);
            double other = dtype_round(near * (1 + 0x1p-3), type);
            x = (near + other) / 2 * (1 + (i % 2 ? 0x1p-40 : -0x1p-40));
        } else if (i % 3 == 1) {
            x = f64_from_bits(random_bits());
        }
        double expected = dtype_round(x, type), got = dtype_round((double)f64_to_f32_odd(x), type);
        if (expected != got && !(isnan(expected) && isnan(got))) {
            fprintf(stderr, "%a to %s: %a, not %a\n", x, dtype_name(type), got, expected);
            fail();
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one),
        cmocka_unit_test(functions_of_two),
        cmocka_unit_test(conversions_match_the_definition),
        cmocka_unit_test(rounding_to_odd_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
