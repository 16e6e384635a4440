/* What a tuner keeps: read back as written; refused, with a reason, where a whole entry says nothing of use.
 */
#include "tests/unit/runtime/home.h"

#include "runtime/tuned.h"

static Home home;

static int setup(void **state) {
    (void)state;
    return home_make(home);
}

static int teardown(void **state) {
    (void)state;
    home_remove(home);
    return 0;
}

static void test_kept(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    sinter_context context = {.tuned = {home, 1 << 20}}, none = {0};
    uint8_t key[CACHE_KEY_BYTES] = {1}, other[CACHE_KEY_BYTES] = {2};
    Tuned tuned = {
        {.path = MATMUL_WGMMA, .tile_m = 128, .tile_n = 256, .tile_k = 64, .stages = 4, .ping_pong = true},
        12.5,
        13.25};
    Tuned got;
    const char *why = "unset";
    assert_false(tuned_get(&context, arena, key, &got, &why));
    assert_null(why);
    tuned_put(&context, arena, key, &tuned);
    assert_true(tuned_get(&context, arena, key, &got, &why));
    assert_null(why);
    assert_true(schedule_equals(&got.schedule, &tuned.schedule));
    assert_true(got.us == 12.5 && got.model_us == 13.25);
    assert_false(tuned_get(&context, arena, other, &got, &why));
    tuned_put(&none, arena, key, &tuned); /* nowhere to keep it */
    assert_false(tuned_get(&none, arena, key, &got, &why));
    assert_null(why);
    arena_free(arena);
}

static void test_nonsense(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    sinter_context context = {.tuned = {home, 1 << 20}};
    static const char *const texts[] = {"",
                                        "schedule",
                                        "schedule path=wgmma\n",
                                        "schedule path=wgmma\nus 3\n",
                                        "schedule path=nowhere\nus 3\nmodel_us 4\n",
                                        "schedule tile=1x2\nus 3\nmodel_us 4\n",
                                        "schedules path=wgmma\nus 3\nmodel_us 4\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint8_t key[CACHE_KEY_BYTES] = {3, (uint8_t)i};
        Tuned got;
        const char *why = NULL;
        cache_put(&context.tuned, arena, key, texts[i], strlen(texts[i]));
        if (tuned_get(&context, arena, key, &got, &why) || !why)
            fail_msg("taken: %s", texts[i]);
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_nonsense)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
