/* The arena: its limits, its faults, what it releases and when. */
#include "support.h"

#include "ir/base/checked.h"

static void body_fill(void *context) {
    Arena *arena = context;
    for (int i = 0; i < 100; i++) {
        size_t size = (size_t)i * 37;
        unsigned char *at = arena_alloc(arena, size);
        assert_int_equal((uintptr_t)at % 16, 0);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(at[k], 0);
        memset(at, 0xff, size);
    }
}

static void test_allocations_are_zero_and_aligned(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    assert_true(arena_run(arena, body_fill, arena));
    assert_true(arena_used(arena) >= 99 * 100 / 2 * 37);
    arena_free(arena);
}

/* Each allocation fails once; every run but the last must answer false, and the last does all the work. */
static void test_every_fault_comes_back(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 101; n++) {
        Arena *arena = arena_new(0);
        arena_fail_at(arena, n);
        assert_int_equal(arena_run(arena, body_fill, arena), n == 101);
        arena_free(arena);
    }
}

static void test_limit_holds(void **state) {
    (void)state;
    Arena *arena = arena_new(5000);
    assert_false(arena_run(arena, body_fill, arena));
    assert_true(arena_used(arena) <= 5000);
    arena_free(arena);
}

static void body_huge(void *context) {
    arena_alloc_array(context, SIZE_MAX / 2, 3);
    fail_msg("an overflowing product was allocated");
}

static void body_enormous(void *context) {
    arena_alloc(context, SIZE_MAX - 8);
    fail_msg("more than the machine's memory was allocated");
}

static void test_sizes_that_overflow(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    assert_false(arena_run(arena, body_huge, arena));
    assert_false(arena_run(arena, body_enormous, arena));
    arena_free(arena);
}

typedef struct Trace {
    Arena *arena;
    char log[32];
    bool inner, fails;
} Trace;

static void release_a(void *object) {
    strcat(((Trace *)object)->log, "a");
}
static void release_b(void *object) {
    strcat(((Trace *)object)->log, "b");
}
static void release_c(void *object) {
    strcat(((Trace *)object)->log, "c");
}

static void body_inner(void *context) {
    Trace *trace = context;
    arena_defer(trace->arena, release_b, trace);
    arena_defer(trace->arena, release_c, trace);
    if (trace->fails)
        arena_give_up(trace->arena);
}

static void body_outer(void *context) {
    Trace *trace = context;
    arena_defer(trace->arena, release_a, trace);
    trace->inner = arena_run(trace->arena, body_inner, trace);
    strcat(trace->log, "-");
}

static void test_deferred_calls(void **state) {
    (void)state;
    Trace good = {.arena = arena_new(0)};
    assert_true(arena_run(good.arena, body_outer, &good));
    assert_true(good.inner);
    assert_string_equal(good.log, "-");
    arena_free(good.arena);
    assert_string_equal(good.log, "-cba");

    Trace bad = {.arena = arena_new(0), .fails = true};
    assert_true(arena_run(bad.arena, body_outer, &bad));
    assert_false(bad.inner);
    assert_string_equal(bad.log, "cb-"); /* what the failed run registered, and no more */
    arena_free(bad.arena);
    assert_string_equal(bad.log, "cb-a");

    /* What cannot be registered is released at once. */
    Trace full = {.arena = arena_new(0)};
    arena_fail_at(full.arena, 3);
    assert_true(arena_run(full.arena, body_outer, &full));
    assert_false(full.inner);
    assert_string_equal(full.log, "cb-");
    arena_free(full.arena);
}

static void body_mark(void *context) {
    Arena *arena = context;
    char *kept = arena_strdup(arena, "kept");
    size_t before = arena_used(arena);
    for (int round = 0; round < 50; round++) {
        ArenaMark mark = arena_mark(arena);
        for (int i = 0; i < 20; i++)
            memset(arena_alloc(arena, 10000), 1, 10000);
        arena_release(arena, mark);
        assert_int_equal(arena_used(arena), before);
        char *again = arena_alloc(arena, 64);
        assert_int_equal(again[0] | again[63], 0); /* zeroed although used before */
        arena_release(arena, mark);
    }
    assert_string_equal(kept, "kept");
}

static void test_mark_and_release(void **state) {
    (void)state;
    Arena *arena = arena_new(400000);
    assert_true(arena_run(arena, body_mark, arena));
    arena_free(arena);
}

static void body_strings(void *context) {
    assert_string_equal(arena_strndup(context, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(context, "ab\0cd", 5), "ab");
    assert_string_equal(arena_strdup(context, ""), "");
}

static void test_strings(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    assert_true(arena_run(arena, body_strings, arena));
    arena_free(arena);
    arena_free(NULL);
}

static void test_checked_sizes(void **state) {
    (void)state;
    int64_t out = 7;
    size_t size = 7;
    assert_false(checked_add(INT64_MAX, 1, &out));
    assert_false(checked_sub(INT64_MIN, 1, &out));
    assert_false(checked_mul(INT64_MAX / 2, 3, &out));
    assert_false(checked_size_mul(SIZE_MAX, 2, &size));
    assert_int_equal(out, 7);
    assert_int_equal(size, 7);
    assert_true(checked_add(2, 3, &out) && out == 5);
    assert_true(checked_sub(2, 3, &out) && out == -1);
    assert_true(checked_mul(-2, 3, &out) && out == -6);
    assert_true(checked_size_mul(2, 3, &size) && size == 6);
    for (int64_t a = -9; a <= 9; a++)
        for (int64_t b = 1; b <= 4; b++) {
            assert_true(ceil_div(a, b) * b >= a && (ceil_div(a, b) - 1) * b < a);
            assert_true(round_up(a, b) % b == 0 && round_up(a, b) >= a && round_up(a, b) < a + b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_zero_and_aligned),
        cmocka_unit_test(test_every_fault_comes_back),
        cmocka_unit_test(test_limit_holds),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_deferred_calls),
        cmocka_unit_test(test_mark_and_release),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_checked_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
