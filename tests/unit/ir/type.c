/* Element types against definitions written a second time: every code of the small floats by its formula,
 * every rounding boundary between them, C's own conversions where C has the type, exact integer comparison
 * where double would round twice. */
#include <float.h>
#include <math.h>

#include "support.h"

typedef struct Format {
    DType type;
    int bits, exponent, mantissa;
    double largest;
    bool has_infinity, saturates;
} Format;

static const Format formats[] = {
    {DTYPE_F16, 16, 5, 10, 65504, true, false},
    {DTYPE_BF16, 16, 8, 7, 3.3895313892515355e38, true, false},
    {DTYPE_E4M3, 8, 4, 3, 448, false, true},
    {DTYPE_E5M2, 8, 5, 2, 57344, true, true},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* The value of a code, by the formula of IEEE 754, or of arXiv 2209.05433 for e4m3. */
static double format_value(const Format *format, unsigned code) {
    unsigned sign = code >> (format->bits - 1),
             exponent = code >> format->mantissa & ((1u << format->exponent) - 1);
    unsigned mantissa = code & ((1u << format->mantissa) - 1), ones = (1u << format->exponent) - 1;
    int bias = (1 << (format->exponent - 1)) - 1;
    double fraction = mantissa / pow(2, format->mantissa), value;
    if (!format->has_infinity && exponent == ones && mantissa == (1u << format->mantissa) - 1)
        return NAN;
    if (format->has_infinity && exponent == ones)
        return mantissa ? NAN : sign ? -INFINITY : INFINITY;
    value = exponent ? (1 + fraction) * pow(2, (int)exponent - bias) : fraction * pow(2, 1 - bias);
    return sign ? -value : value;
}

static void test_every_code(void **state) {
    (void)state;
    for (int f = 0; f < N_FORMATS; f++)
        for (unsigned code = 0; code < 1u << formats[f].bits; code++) {
            uint16_t memory = (uint16_t)code, back = 0;
            double want = format_value(&formats[f], code);
            double got = dtype_load(formats[f].type, &memory, 0).f;
            if (isnan(want)) {
                assert_true(isnan(got));
                dtype_store(formats[f].type, &back, 0, (Number){.f = got});
                assert_true(isnan(dtype_load(formats[f].type, &back, 0).f));
                continue;
            }
            assert_true(got == want && signbit(got) == signbit(want));
            if (isinf(want) && formats[f].saturates)
                continue; /* storing rounds, and rounding saturates */
            dtype_store(formats[f].type, &back, 0, (Number){.f = got});
            assert_int_equal(back, code);
            assert_true(dtype_round(want, formats[f].type) == want);
        }
}

/* Between two neighbours: the nearer one, and at the middle the one whose code is even. */
static void test_every_boundary(void **state) {
    (void)state;
    for (int f = 0; f < N_FORMATS; f++) {
        const Format *format = &formats[f];
        for (unsigned code = 0;; code++) {
            double low = format_value(format, code), high = format_value(format, code + 1);
            if (low == format->largest)
                break;
            double middle = low + (high - low) / 2, even = code & 1 ? high : low;
            for (int sign = -1; sign <= 1; sign += 2) {
                assert_true(dtype_round(sign * middle, format->type) == sign * even);
                assert_true(dtype_round(sign * nextafter(middle, 0), format->type) == sign * low);
                assert_true(dtype_round(sign * nextafter(middle, INFINITY), format->type) == sign * high);
                assert_true(dtype_round(sign * nextafter(low, INFINITY), format->type) == sign * low);
            }
        }
        double step = format->largest -
                      format_value(format, (1u << (format->bits - 1)) - 1 -
                                               (format->has_infinity ? 1u << format->mantissa : 1) - 1);
        double beyond = format->saturates ? format->largest : INFINITY;
        assert_true(step > 0);
        assert_true(dtype_max_finite(format->type) == format->largest);
        assert_true(dtype_round(format->largest, format->type) == format->largest);
        assert_true(dtype_round(nextafter(format->largest + step / 2, 0), format->type) == format->largest);
        assert_true(dtype_round(format->largest + step / 2, format->type) == beyond);
        assert_true(dtype_round(-1e300, format->type) == -beyond);
        assert_true(dtype_round(INFINITY, format->type) == beyond);
        assert_true(dtype_round(-INFINITY, format->type) == -beyond);
        assert_true(isnan(dtype_round(NAN, format->type)));
        assert_true(signbit(dtype_round(-0.0, format->type)));
        assert_true(signbit(dtype_round(-1e-300, format->type)) && dtype_round(-1e-300, format->type) == 0);
    }
}

static double random_double(uint64_t *seed, int least, int most) {
    double value = ldexp((double)(draw(seed) >> 11) + 0x1p53, -53);
    value = ldexp(value, least + (int)draw_below(seed, most - least + 1));
    return draw(seed) & 1 ? -value : value;
}

static void test_f32_is_c(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 200000; i++) {
        double value = random_double(&seed, -160, 130);
        volatile float single = (float)value;
        assert_true(dtype_round(value, DTYPE_F32) == single);
        float tie = (float)random_double(&seed, -140, 120);
        double middle = (double)tie + ((double)nextafterf(tie, INFINITY) - (double)tie) / 2;
        volatile float even = (float)middle;
        assert_true(dtype_round(middle, DTYPE_F32) == even);
        float stored;
        dtype_store(DTYPE_F32, &stored, 0, (Number){.f = tie});
        assert_true(stored == tie && dtype_load(DTYPE_F32, &stored, 0).f == tie);
    }
    assert_true(dtype_max_finite(DTYPE_F32) == FLT_MAX && dtype_max_finite(DTYPE_F64) == DBL_MAX);
    assert_true(dtype_round(1e-310, DTYPE_F64) == 1e-310 && isinf(dtype_round(INFINITY, DTYPE_F64)));
}

/* tf32 keeps 42 bits fewer than a double: add half of the last kept place, ties to even, and cut. */
static void test_tf32_is_a_cut_double(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 200000; i++) {
        double value = random_double(&seed, -126, 126), want;
        uint64_t bits;
        if (i % 3 == 0)
            value = ldexp(rint(ldexp(value, 11 - ilogb(value))), ilogb(value) - 11); /* many ties */
        memcpy(&bits, &value, sizeof bits);
        bits += ((uint64_t)1 << 41) - 1 + (bits >> 42 & 1);
        bits &= ~(((uint64_t)1 << 42) - 1);
        memcpy(&want, &bits, sizeof want);
        assert_true(dtype_round(value, DTYPE_TF32) == want);
        float stored;
        dtype_store(DTYPE_TF32, &stored, 0, (Number){.f = want});
        assert_true(stored == (float)want);
    }
    assert_true(isinf(dtype_round(0x1.ffep127, DTYPE_TF32)));
    assert_true(dtype_round(0x1.ffcp127, DTYPE_TF32) == dtype_max_finite(DTYPE_TF32));
    assert_true(dtype_round(0x1p-136, DTYPE_TF32) == 0x1p-136 && dtype_round(0x1p-137, DTYPE_TF32) == 0);
}

/* Large integers to small floats, judged in 128-bit integers: |chosen - v| is least, and at a tie the even
 * mantissa. */
static void test_integers_round_once(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 200000; i++) {
        int64_t value = (int64_t)draw(&seed) >> draw_below(&seed, 60);
        if (i % 2) { /* just beside a tie of f32 or bf16, on which rounding to double first would land */
            int64_t mantissa = draw_below(&seed, 2) ? ((int64_t)1 << 24) + draw_below(&seed, 1 << 24)
                                                    : (((int64_t)1 << 8) + draw_below(&seed, 1 << 8)) << 16;
            value = (mantissa << (30 + draw_below(&seed, 8))) + draw_below(&seed, 3) - 1;
        }
        volatile float single = (float)value;
        assert_true(dtype_convert((Number){.i = value}, DTYPE_I64, DTYPE_F32).f == single);
        volatile double wide = (double)value;
        assert_true(dtype_convert((Number){.i = value}, DTYPE_I64, DTYPE_F64).f == wide);
        double brain = dtype_convert((Number){.i = value}, DTYPE_I64, DTYPE_BF16).f;
        int exponent =
            value ? 63 - __builtin_clzll((uint64_t)(value < 0 ? -(uint64_t)value : (uint64_t)value)) : 0;
        __int128 place = exponent > 7 ? (__int128)1 << (exponent - 7) : 1, error = (__int128)brain - value;
        error = error < 0 ? -error : error;
        assert_true(2 * error <= place);
        if (2 * error == place)
            assert_true((__int128)brain / place % 2 == 0);
    }
}

static void test_floats_to_integers(void **state) {
    (void)state;
    static const struct {
        double value;
        DType to;
        int64_t want;
    } cases[] = {
        {2.9, DTYPE_I32, 2},
        {-2.9, DTYPE_I32, -2},
        {NAN, DTYPE_I32, 0},
        {INFINITY, DTYPE_I32, INT32_MAX},
        {-INFINITY, DTYPE_I32, INT32_MIN},
        {2147483647.5, DTYPE_I32, INT32_MAX},
        {2147483648.0, DTYPE_I32, INT32_MAX},
        {-2147483648.9, DTYPE_I32, INT32_MIN},
        {-2147483649.0, DTYPE_I32, INT32_MIN},
        {0x1p63, DTYPE_I64, INT64_MAX},
        {-0x1p63, DTYPE_I64, INT64_MIN},
        {0x1.fffffffffffffp62, DTYPE_I64, 0x7ffffffffffffc00},
        {-1e300, DTYPE_I64, INT64_MIN},
        {NAN, DTYPE_I64, 0},
        {255.9, DTYPE_U8, 255},
        {256, DTYPE_U8, 255},
        {-0.9, DTYPE_U8, 0},
        {-1, DTYPE_U8, 0},
        {127.5, DTYPE_I8, 127},
        {-129, DTYPE_I8, -128},
        {7.99, DTYPE_I4, 7},
        {8, DTYPE_I4, 7},
        {-9, DTYPE_I4, -8},
        {16, DTYPE_U4, 15},
        {40000, DTYPE_I16, 32767},
        {NAN, DTYPE_BOOL, 1},
        {-0.0, DTYPE_BOOL, 0},
        {1e-300, DTYPE_BOOL, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(dtype_convert((Number){.f = cases[i].value}, DTYPE_F64, cases[i].to).i,
                         cases[i].want);
}

static void test_integers_to_integers(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (int i = 0; i < 20000; i++) {
        int64_t v = (int64_t)draw(&seed) >> draw_below(&seed, 64);
        Number n = {.i = v};
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_I32).i, (int32_t)v);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_I16).i, (int16_t)v);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_I8).i, (int8_t)v);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_U8).i, (uint8_t)v);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_U4).i, v & 15);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_I4).i, ((v & 15) ^ 8) - 8);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_BOOL).i, v != 0);
        assert_int_equal(dtype_convert(n, DTYPE_I64, DTYPE_I64).i, v);
    }
}

/* All values of a type of at most 16 bits. */
static int small_values(DType type, Number *values) {
    int n = 0;
    for (unsigned code = 0; code < 1u << dtype_bits(type); code++) {
        uint16_t memory = (uint16_t)code;
        Number value = dtype_load(type, &memory, 0);
        if (type == DTYPE_BOOL && code > 1)
            break;
        if (!dtype_is_float(type) || isfinite(value.f))
            values[n++] = value;
    }
    return n;
}

static bool same_number(Number a, Number b, DType type) {
    return dtype_is_float(type) ? a.f == b.f && signbit(a.f) == signbit(b.f) : a.i == b.i;
}

/* "Widens" is exactly: every finite value survives the way there and back, and is itself there. */
static void test_widening(void **state) {
    (void)state;
    static Number values[1 << 16];
    for (int from = 0; from < DTYPE_COUNT; from++) {
        assert_true(dtype_widens((DType)from, (DType)from));
        if (dtype_bits((DType)from) > 16)
            continue;
        int n = small_values((DType)from, values);
        for (int to = 0; to < DTYPE_COUNT; to++) {
            bool survives = true;
            for (int i = 0; i < n && survives; i++) {
                Number there = dtype_convert(values[i], (DType)from, (DType)to);
                survives = same_number(dtype_convert(there, (DType)to, (DType)from), values[i], (DType)from);
                if (survives && dtype_is_float((DType)from) == dtype_is_float((DType)to))
                    survives = same_number(there, values[i], (DType)from);
                else if (survives)
                    survives = dtype_is_float((DType)to) ? there.f == (double)values[i].i
                                                         : (double)there.i == values[i].f;
            }
            if (dtype_widens((DType)from, (DType)to) != survives)
                fail_msg("%s -> %s: widens is %d", dtype_name((DType)from), dtype_name((DType)to), !survives);
        }
    }
    static const DType wide[][2] = {{DTYPE_F32, DTYPE_F64},
                                    {DTYPE_TF32, DTYPE_F32},
                                    {DTYPE_TF32, DTYPE_F64},
                                    {DTYPE_I32, DTYPE_F64},
                                    {DTYPE_I32, DTYPE_I64}};
    static const DType wide_from[] = {DTYPE_F64, DTYPE_F32, DTYPE_TF32, DTYPE_I64, DTYPE_I32};
    for (size_t i = 0; i < sizeof wide_from / sizeof *wide_from; i++)
        for (int to = 0; to < DTYPE_COUNT; to++) {
            bool want = wide_from[i] == (DType)to;
            for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
                want |= wide[k][0] == wide_from[i] && wide[k][1] == (DType)to;
            assert_int_equal(dtype_widens(wide_from[i], (DType)to), want);
        }
}

static void test_packed_nibbles(void **state) {
    (void)state;
    uint8_t memory[8] = {0};
    for (int i = 0; i < 16; i++)
        dtype_store(DTYPE_U4, memory, i, (Number){.i = i});
    assert_int_equal(memory[0], 0x10); /* the little end first */
    assert_int_equal(memory[7], 0xfe);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(dtype_load(DTYPE_U4, memory, i).i, i);
        assert_int_equal(dtype_load(DTYPE_I4, memory, i).i, i < 8 ? i : i - 16);
    }
    dtype_store(DTYPE_I4, memory, 3, (Number){.i = -1});
    assert_int_equal(memory[1], 0xf2);
    dtype_store(DTYPE_I4, memory, 2, (Number){.i = -8});
    assert_int_equal(memory[1], 0xf8);
}

static void test_integers_in_memory(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_I64, DTYPE_I32, DTYPE_I16, DTYPE_I8,
                                  DTYPE_U8,  DTYPE_I4,  DTYPE_U4,  DTYPE_BOOL};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        int64_t values[] = {dtype_min_int(types[t]), 0, 1, dtype_max_int(types[t])};
        uint8_t memory[64];
        memset(memory, 0xa5, sizeof memory);
        for (int i = 0; i < 4; i++)
            dtype_store(types[t], memory, i, (Number){.i = values[i]});
        for (int i = 0; i < 4; i++)
            assert_int_equal(dtype_load(types[t], memory, i).i, values[i]);
        assert_int_equal(memory[4 * dtype_bits(types[t]) / 8], 0xa5); /* nothing behind */
    }
    double wide = -0.0;
    dtype_store(DTYPE_F64, &wide, 0, (Number){.f = 1e-310});
    assert_true(wide == 1e-310 && dtype_load(DTYPE_F64, &wide, 0).f == 1e-310);
}

static void test_limits_and_bytes(void **state) {
    (void)state;
    int64_t bytes = 0;
    assert_true(dtype_max_int(DTYPE_I64) == INT64_MAX && dtype_min_int(DTYPE_I64) == INT64_MIN);
    assert_true(dtype_max_int(DTYPE_I32) == INT32_MAX && dtype_min_int(DTYPE_I32) == INT32_MIN);
    assert_true(dtype_max_int(DTYPE_U8) == 255 && dtype_min_int(DTYPE_U8) == 0);
    assert_true(dtype_max_int(DTYPE_I4) == 7 && dtype_min_int(DTYPE_I4) == -8 &&
                dtype_max_int(DTYPE_U4) == 15);
    assert_true(dtype_max_int(DTYPE_BOOL) == 1 && dtype_min_int(DTYPE_BOOL) == 0);
    assert_true(dtype_bytes(DTYPE_I4, 3, &bytes) && bytes == 2);
    assert_true(dtype_bytes(DTYPE_F64, 3, &bytes) && bytes == 24);
    assert_true(dtype_bytes(DTYPE_BOOL, 0, &bytes) && bytes == 0);
    assert_false(dtype_bytes(DTYPE_F64, INT64_MAX / 8, &bytes));
    assert_false(dtype_bytes(DTYPE_I8, -1, &bytes));
}

static void test_names_and_compute_types(void **state) {
    (void)state;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        assert_int_equal(dtype_find(dtype_name((DType)type)), type);
        assert_int_equal(dtype_is_float((DType)type), dtype_class((DType)type) == DTYPE_FLOAT);
        DType compute = dtype_compute((DType)type);
        assert_int_equal(compute, dtype_compute(compute));
        assert_true(dtype_widens((DType)type, compute));
        for (int other = 0; other < DTYPE_COUNT; other++) {
            bool f64 = type == DTYPE_F64 || other == DTYPE_F64, i64 = type == DTYPE_I64 || other == DTYPE_I64;
            bool floats = dtype_is_float((DType)type) || dtype_is_float((DType)other);
            DType want = f64 ? DTYPE_F64 : floats ? DTYPE_F32 : i64 ? DTYPE_I64 : DTYPE_I32;
            assert_int_equal(dtype_promote((DType)type, (DType)other), want);
        }
    }
    assert_int_equal(dtype_find("f128"), DTYPE_COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_every_boundary),
        cmocka_unit_test(test_f32_is_c),
        cmocka_unit_test(test_tf32_is_a_cut_double),
        cmocka_unit_test(test_integers_round_once),
        cmocka_unit_test(test_floats_to_integers),
        cmocka_unit_test(test_integers_to_integers),
        cmocka_unit_test(test_widening),
        cmocka_unit_test(test_packed_nibbles),
        cmocka_unit_test(test_integers_in_memory),
        cmocka_unit_test(test_limits_and_bytes),
        cmocka_unit_test(test_names_and_compute_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
