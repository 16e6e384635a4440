/* .safetensors files: tensors are found, and headers that lie are refused. */
#include "tests/unit/runtime/support.h"

#include "runtime/safetensors.h"

static bool find(Arena *arena, const char *header, size_t data, const char *tensor, Diags *diags,
                 RawArray *out) {
    size_t n = strlen(header), whole = 8 + n + data;
    uint8_t *bytes = malloc(whole); /* exact, so that a sanitizer sees a read past it */
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(n >> 8 * i);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < data; i++)
        bytes[8 + n + i] = (uint8_t)i;
    *diags = (Diags){.arena = arena};
    bool ok = safetensors_find(bytes, whole, "w.safetensors", tensor, diags, out);
    if (ok) {
        Array array;
        assert_true(array_new(arena, out->dtype, out->rank, out->dims, NULL, &array));
        assert_true(raw_array_copy(out, "w", &array, diags));
        assert_memory_equal(array.at, bytes + (out->at - bytes), (size_t)array.bytes);
    }
    free(bytes);
    return ok;
}

static void test_found(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Diags diags;
    RawArray raw;
    const char *two =
        "{\"__metadata__\":{\"by\":\"x\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]}}";
    assert_true(find(arena, two, 16, "a", &diags, &raw));
    assert_int_equal(raw.dtype, DTYPE_BF16);
    assert_int_equal(raw.dims[1], 3);
    assert_true(find(arena, two, 16, "b", &diags, &raw));
    assert_int_equal(raw.count, 1);
    assert_false(find(arena, two, 16, NULL, &diags, &raw));
    assert_true(said(&diags, DIAG_DATA, "has 2 tensors"));
    assert_false(find(arena, two, 16, "c", &diags, &raw));
    assert_true(said(&diags, DIAG_DATA, "no tensor 'c'"));
    arena_free(arena);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *header, *reason;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}", "not a JSON object"},
        {"[1]", "not a JSON object"},
        {"{\"a\":{\"dtype\":\"Q8\",\"shape\":[4],\"data_offsets\":[0,16]}}", "element type"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}", "offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,15]}}", "offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16,3]}}", "offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":0}}", "offsets"},
        {"{\"a\":3}", "element type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_new(0);
        Diags diags;
        RawArray raw;
        assert_false(find(arena, cases[i].header, 16, NULL, &diags, &raw));
        if (!said(&diags, DIAG_DATA, cases[i].reason))
            fail_msg("'%s' said '%s'", cases[i].header, diags.list.at[0].message);
        arena_free(arena);
    }
}

static void test_lengths(void **state) {
    (void)state;
    static const uint8_t bytes[][12] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'},
                                        {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}};
    Arena *arena = arena_new(0);
    Diags diags = {.arena = arena};
    RawArray raw;
    for (size_t n = 0; n <= 10; n++)
        for (size_t i = 0; i < 2; i++)
            assert_false(safetensors_find(bytes[i], n, "w", NULL, &diags, &raw));
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
