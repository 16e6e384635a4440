/* .npy files: what is written reads back, NumPy's own bytes are understood, and nothing that is damaged is
 * believed. */
#include "tests/unit/runtime/support.h"

#include "runtime/npy.h"

/* NumPy 1.26: np.save of np.array([[1.5, -2], [0, 4]], dtype='<f4', order='F'). */
static const char numpy_fortran[] = "\x93NUMPY\x01\x00v\x00"
                                    "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }            "
                                    "                                               \n"
                                    "\x00\x00\xc0?\x00\x00\x00\x00\x00\x00\x00\xc0\x00\x00\x80@";

static void test_numpy_bytes(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Diags diags = {.arena = arena};
    RawArray raw;
    assert_true(npy_parse(numpy_fortran, sizeof numpy_fortran - 1, "x.npy", &diags, &raw));
    assert_int_equal(raw.rank, 2);
    assert_true(raw.fortran);
    Array array;
    assert_true(array_new(arena, DTYPE_F32, 2, (int64_t[]){2, 2}, NULL, &array));
    assert_true(raw_array_copy(&raw, "x.npy", &array, &diags));
    const double want[] = {1.5, -2, 0, 4};
    for (int i = 0; i < 4; i++)
        assert_true(array_get(&array, i).f == want[i]);
    arena_free(arena);
}

static void test_every_type_reads_back(void **state) {
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        Arena *arena = arena_new(0);
        Diags diags = {.arena = arena};
        Array first, second;
        /* strided on one side: a column-major 3 x 5 */
        assert_true(array_new(arena, (DType)t, 2, (int64_t[]){3, 5}, (int64_t[]){1, 3}, &first));
        for (int64_t i = 0; i < first.count; i++) {
            Number number = dtype_is_float((DType)t) ? (Number){.f = (double)i - 4} : (Number){.i = i % 7};
            array_set(&first, i,
                      dtype_convert(number, dtype_is_float((DType)t) ? DTYPE_F64 : DTYPE_I64, (DType)t));
        }
        Text bytes = text_new(arena);
        npy_format(&bytes, &first);
        assert_int_equal(
            (bytes.n - (size_t)first.count * (dtype_bits((DType)t) < 8 ? 1 : dtype_bits((DType)t) / 8)) % 64,
            0);
        RawArray raw;
        assert_true(npy_parse(bytes.at, bytes.n, "x", &diags, &raw));
        assert_true(array_new(arena, (DType)t, 2, (int64_t[]){3, 5}, NULL, &second));
        assert_true(raw_array_copy(&raw, "x", &second, &diags));
        for (int64_t i = 0; i < first.count; i++)
            assert_int_equal(array_get(&first, i).i, array_get(&second, i).i);
        arena_free(arena);
    }
}

static void test_rounding_and_refusal(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Diags diags = {.arena = arena};
    Array wide, narrow, integers;
    array_new(arena, DTYPE_F64, 1, (int64_t[]){2}, NULL, &wide);
    array_set(&wide, 0, (Number){.f = 1.00390625});
    array_set(&wide, 1, (Number){.f = 1e300});
    Text bytes = text_new(arena);
    npy_format(&bytes, &wide);
    RawArray raw;
    assert_true(npy_parse(bytes.at, bytes.n, "x", &diags, &raw));
    array_new(arena, DTYPE_BF16, 1, (int64_t[]){2}, NULL, &narrow);
    assert_true(raw_array_copy(&raw, "x", &narrow, &diags));
    assert_true(array_get(&narrow, 0).f == 1.0); /* a tie, to even */
    assert_true(array_get(&narrow, 1).f > 1e300);
    array_new(arena, DTYPE_I32, 1, (int64_t[]){2}, NULL, &integers);
    assert_false(raw_array_copy(&raw, "x.npy", &integers, &diags));
    assert_true(said(&diags, DIAG_DATA, "the graph declares i32"));
    array_new(arena, DTYPE_F64, 1, (int64_t[]){3}, NULL, &wide);
    assert_false(raw_array_copy(&raw, "x.npy", &wide, &diags));
    assert_true(said(&diags, DIAG_DATA, "has shape [2], and the graph wants [3]"));
    arena_free(arena);
}

static void parse_header(const char *header, const char *reason) {
    Arena *arena = arena_new(0);
    Diags diags = {.arena = arena};
    RawArray raw;
    Text bytes = text_new(arena);
    size_t n = strlen(header);
    text_add_bytes(&bytes, "\x93NUMPY\x01\x00", 8);
    text_add_bytes(&bytes, (const char[]){(char)n, (char)(n >> 8)}, 2);
    text_add_bytes(&bytes, header, n);
    text_add_bytes(&bytes, "12345678", 8);
    assert_false(npy_parse(bytes.at, bytes.n, "bad.npy", &diags, &raw));
    if (!said(&diags, DIAG_DATA, reason))
        fail_msg("'%s' said '%s'", header, diags.list.at[0].message);
    arena_free(arena);
}

static void test_hostile_headers(void **state) {
    (void)state;
    parse_header(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }",
        "overflows");
    parse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "shape");
    parse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "shape");
    parse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "eight");
    parse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "shorter");
    parse_header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "little-endian");
    parse_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "element type");
    parse_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "element type");
    parse_header("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "neither True nor False");
    parse_header("{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", "repeated");
    parse_header("{'descr': '<f4', 'fortran_order': False}", "lacks");
    parse_header("print('x')", "dictionary");
}

/* Every prefix, and every byte changed: an answer, whatever it is, and no access outside. */
static void test_damage(void **state) {
    (void)state;
    size_t n = sizeof numpy_fortran - 1;
    for (size_t i = 0; i < n; i++) {
        Arena *arena = arena_new(0);
        Diags diags = {.arena = arena};
        RawArray raw;
        char *prefix = malloc(i ? i : 1);
        memcpy(prefix, numpy_fortran, i);
        assert_false(npy_parse(prefix, i, "x", &diags, &raw));
        free(prefix);
        char *whole = malloc(n);
        memcpy(whole, numpy_fortran, n);
        for (int value = 0; value < 256; value += 5) {
            whole[i] = (char)value;
            if (!npy_parse(whole, n, "x", &diags, &raw))
                continue;
            Array array;
            if (raw.dtype != DTYPE_COUNT && array_new(arena, raw.dtype, raw.rank, raw.dims, NULL, &array))
                assert_true(raw_array_copy(&raw, "x", &array, &diags));
        }
        free(whole);
        arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy_bytes),
        cmocka_unit_test(test_every_type_reads_back),
        cmocka_unit_test(test_rounding_and_refusal),
        cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
