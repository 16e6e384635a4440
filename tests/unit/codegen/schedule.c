/* Schedules: every one that a template proposes is one that it accepts and builds; @schedule chooses among
 * them, lies over one, or is refused with the reason. */
#include "tests/unit/codegen/template_harness.h"

static Hint *make_hint(Harness *h, Value *value) {
    Hint *hint = ARENA_NEW(h->arena, Hint);
    hint->name = "schedule";
    hint->value = value;
    h->region->schedule_hint = hint;
    return hint;
}

static void hint_numbers(Harness *h, Hint *hint, const char *name, int n, const int64_t *values) {
    HintArg arg = {.name = name, .n = n};
    for (int i = 0; i < n; i++)
        arg.values[i] = values[i];
    vec_push(h->arena, &hint->args, arg);
}

static void hint_number(Harness *h, Hint *hint, const char *name, int64_t value) {
    hint_numbers(h, hint, name, 1, &value);
}

static void hint_word(Harness *h, Hint *hint, const char *name, const char *word) {
    HintArg arg = {.name = name, .word = word};
    vec_push(h->arena, &hint->args, arg);
}

/* y = exp(x) on [64, 128], one region. */
static Value *small_pointwise(Harness *h) {
    Value *x = make_input(h, "x", DTYPE_F32, 2, (int64_t[]){64, 128});
    Value *y = make1(h, OP_exp, x);
    harness_output(h, "y", y);
    harness_region(h, TEMPLATE_POINTWISE, y, 0);
    h->bindings = dim_bindings_new(h->arena, h->graph->dims);
    return y;
}

static bool schedule(Harness *h) {
    return codegen_schedule(h->graph, h->region, target_find("sm_90a"), &h->bindings, &h->diags);
}

static void a_hint_lies_over_the_choice(void **state) {
    (void)state;
    Harness h = harness_new();
    Hint *hint = make_hint(&h, small_pointwise(&h));
    hint_number(&h, hint, "threads", 96);
    hint_number(&h, hint, "vector", 2);
    assert_true(schedule(&h));
    assert_int_equal(h.region->schedule.threads, 96);
    assert_int_equal(h.region->schedule.vector, 2);
    assert_true(h.region->schedule.unroll >= 1);
    harness_check(&h, 1);
}

static void flags_paths_and_lists(void **state) {
    (void)state;
    Harness h = harness_new();
    Hint *hint = make_hint(&h, small_pointwise(&h));
    hint_word(&h, hint, "resident", "true");
    hint_number(&h, hint, "persistent", 1);
    hint_word(&h, hint, "swap_ab", "false");
    hint_word(&h, hint, "path", "mma");
    hint_numbers(&h, hint, "tile", 3, (int64_t[]){128, 256, 64});
    hint_numbers(&h, hint, "cluster", 2, (int64_t[]){2, 1});
    assert_true(schedule(&h));
    const Schedule *s = &h.region->schedule;
    assert_true(s->resident && s->persistent && !s->swap_ab);
    assert_int_equal(s->path, MATMUL_MMA_SYNC);
    assert_int_equal(s->tile_m, 128);
    assert_int_equal(s->tile_n, 256);
    assert_int_equal(s->tile_k, 64);
    assert_int_equal(s->cluster_m, 2);
    assert_int_equal(s->cluster_n, 1);
    arena_free(h.arena);
}

/* One wrong argument: refused, with these words. */
static void check_refused(const char *name, const char *word, int n, const int64_t *values,
                          const char *words) {
    Harness h = harness_new();
    Hint *hint = make_hint(&h, small_pointwise(&h));
    if (word)
        hint_word(&h, hint, name, word);
    else
        hint_numbers(&h, hint, name, n, values);
    assert_false(schedule(&h));
    assert_int_equal(h.diags.errors, 1);
    assert_int_equal(h.diags.list.at[0].id, DIAG_SCHEDULE);
    if (!strstr(h.diags.list.at[0].message, words))
        fail_msg("'%s' does not say '%s'", h.diags.list.at[0].message, words);
    arena_free(h.arena);
}

static void wrong_hints_are_refused(void **state) {
    (void)state;
    check_refused("colour", NULL, 1, (int64_t[]){1}, "no such field");
    check_refused("threads", "many", 0, NULL, "takes one number");
    check_refused("threads", NULL, 2, (int64_t[]){2, 2}, "takes one number");
    check_refused("tile", NULL, 2, (int64_t[]){2, 2}, "takes three numbers");
    check_refused("cluster", NULL, 1, (int64_t[]){2}, "takes two numbers");
    check_refused("threads", NULL, 1, (int64_t[]){-32}, "out of range");
    check_refused("threads", NULL, 1, (int64_t[]){(int64_t)1 << 40}, "out of range");
    check_refused("resident", "perhaps", 0, NULL, "true or false");
    check_refused("resident", NULL, 1, (int64_t[]){2}, "true or false");
    check_refused("path", "scenic", 0, NULL, "one of loop");
    check_refused("threads", NULL, 1, (int64_t[]){33}, "multiple of 32");
    check_refused("vector", NULL, 1, (int64_t[]){3}, "power of two");
    check_refused("unroll", NULL, 1, (int64_t[]){0}, "between 1 and 16");
}

/* A product of 4096 x 4096 x 4096 in bf16. */
static Hint *large_product(Harness *h) {
    const int64_t dims[] = {4096, 4096};
    Value *in[] = {make_input(h, "x", DTYPE_BF16, 2, dims), make_input(h, "w", DTYPE_BF16, 2, dims)};
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_F32}};
    Value *y = make_named(h, "y", OP_matmul, in, 2, attrs);
    harness_output(h, "y", y);
    harness_region(h, TEMPLATE_MATMUL, y, 0);
    h->bindings = dim_bindings_new(h->arena, h->graph->dims);
    return make_hint(h, y);
}

/* What a hint leaves open belongs to what it says, not to the schedule that would be taken without it. */
static void the_rest_of_a_hint_fits_it(void **state) {
    (void)state;
    Harness h = harness_new();
    hint_numbers(&h, large_product(&h), "tile", 3, (int64_t[]){192, 160, 64});
    assert_true(schedule(&h));
    const Schedule *s = &h.region->schedule;
    assert_int_equal(s->path, MATMUL_WGMMA);
    assert_int_equal(s->tile_n, 160);
    assert_int_equal(s->warps_m, 3); /* 192 rows are three warpgroups', 512 threads with the producer's */
    assert_int_equal(s->threads, 512);
    assert_true(s->seconds > 0); /* one of those that the cost model knows */
    arena_free(h.arena);

    h = harness_new();
    hint_word(&h, large_product(&h), "path", "mma");
    assert_true(schedule(&h));
    assert_int_equal(h.region->schedule.path, MATMUL_MMA_SYNC);
    assert_true(h.region->schedule.seconds > 0);
    arena_free(h.arena);

    h = harness_new();
    Hint *hint = large_product(&h); /* a number of stages that no schedule of the list has */
    hint_numbers(&h, hint, "tile", 3, (int64_t[]){128, 128, 64});
    hint_number(&h, hint, "stages", 3);
    assert_true(schedule(&h));
    assert_int_equal(h.region->schedule.path, MATMUL_WGMMA);
    assert_int_equal(h.region->schedule.stages, 3);
    assert_true(h.region->schedule.seconds == 0);
    arena_free(h.arena);
}

typedef Value *BuildGraph(Harness *h, DType dtype, const int64_t *dims);

static Value *build_chain(Harness *h, DType dtype, const int64_t *dims) {
    Value *x = make_input(h, "x", dtype, 2, dims), *bias = make_input(h, "bias", dtype, 1, dims + 1);
    Value *y = make_cast(h, make2(h, OP_add, x, bias), dtype);
    harness_output(h, "y", y);
    return y;
}

static Value *build_softmax(Harness *h, DType dtype, const int64_t *dims) {
    Value *x = make_input(h, "x", dtype, 2, dims);
    Value *e = make1(h, OP_exp, make2(h, OP_sub, x, make_reduce1(h, OP_reduce_max, x, 1, true)));
    harness_output(h, "y", make_cast(h, make2(h, OP_div, e, make_reduce1(h, OP_sum, e, 1, true)), dtype));
    return x;
}

static Value *build_column_sums(Harness *h, DType dtype, const int64_t *dims) {
    Value *x = make_input(h, "x", dtype, 2, dims);
    harness_output(h, "y", make_reduce1(h, OP_sum, x, 0, false));
    return x;
}

static Value *build_transpose(Harness *h, DType dtype, const int64_t *dims) {
    Value *x = make_input(h, "x", dtype, 2, (int64_t[]){dims[1], dims[0]});
    Value *y = make_transpose(h, x, (int[]){1, 0});
    harness_output(h, "y", y);
    return y;
}

/* As text and back. */
static void check_text(Harness *h, const Schedule *schedule) {
    Schedule again;
    Text text = text_new(h->arena);
    schedule_print(&text, schedule);
    if (!schedule_parse(h->arena, text.at, &again) || !schedule_equals(schedule, &again))
        fail_msg("not read back: %s", text.at);
}

/* What a tuner would try around a schedule: what the template takes of it builds. */
static int check_near(Harness *h, const Template *template, const Target *target, const Schedule *schedule) {
    Schedule near[32];
    int n = schedule_near(schedule, near, 32), taken = 0;
    for (int i = 0; i < n; i++) {
        const char *why;
        assert_false(schedule_equals(&near[i], schedule));
        assert_true(near[i].stages >= 0 && (schedule->stages || !near[i].stages)); /* unused stays unused */
        check_text(h, &near[i]);
        if (!template->accepts(h->graph, h->region, &near[i], target, &why))
            continue;
        taken++;
        h->region->schedule = near[i];
        h->kernel = codegen_kernel(h->arena, h->graph, h->region, target, &h->diags);
        if (!h->kernel)
            harness_fail(h, "a schedule near a proposal does not build");
    }
    return taken;
}

static int near_taken;

static void check_proposals(TemplateKind kind, int n_reduced, BuildGraph *build, DType dtype,
                            const int64_t *dims, const char *target_name) {
    enum { ROOM = 8 };
    Harness h = harness_new();
    const Target *target = target_find(target_name);
    harness_region(&h, kind, build(&h, dtype, dims), n_reduced);
    Schedule proposals[ROOM];
    const Template *template = template_of(kind);
    int n = template->schedules(h.graph, h.region, target, NULL, proposals, ROOM);
    assert_in_range(n, 1, ROOM);
    assert_int_equal(template->schedules(h.graph, h.region, target, NULL, proposals, 1), 1);
    n = template->schedules(h.graph, h.region, target, NULL, proposals, ROOM);
    for (int i = 0; i < n; i++) {
        const char *why = NULL;
        if (!template->accepts(h.graph, h.region, &proposals[i], target, &why))
            fail_msg("%s refuses its own proposal %d for %lld x %lld: %s", template->name, i,
                     (long long)dims[0], (long long)dims[1], why);
        h.region->schedule = proposals[i];
        h.kernel = codegen_kernel(h.arena, h.graph, h.region, target, &h.diags);
        if (!h.kernel)
            harness_fail(&h, "a proposal does not build");
        check_text(&h, &proposals[i]);
        if (i == 0)
            near_taken += check_near(&h, template, target, &proposals[i]);
    }
    arena_free(h.arena);
}

static void proposals_are_accepted(void **state) {
    (void)state;
    static const int64_t extents[] = {1, 8, 31, 1000, 4096, 100000};
    static const DType types[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_I8};
    static const char *const targets[] = {"sm_80", "sm_90a"};
    for (size_t r = 0; r < sizeof extents / sizeof *extents; r++)
        for (size_t c = 0; c < sizeof extents / sizeof *extents; c++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                for (int target = 0; target < 2; target++) {
                    const int64_t dims[] = {extents[r], extents[c]};
                    check_proposals(TEMPLATE_POINTWISE, 0, build_chain, types[t], dims, targets[target]);
                    check_proposals(TEMPLATE_ROWS, 1, build_softmax, types[t], dims, targets[target]);
                    check_proposals(TEMPLATE_COLUMNS, 1, build_column_sums, types[t], dims, targets[target]);
                    if (dims[0] > 1 && dims[1] > 1) /* an axis of 1 turns nothing */
                        check_proposals(TEMPLATE_TRANSPOSE, 0, build_transpose, types[t], dims,
                                        targets[target]);
                }
    assert_true(near_taken > 1000);
}

static void wrong_texts_are_refused(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    static const char *const wrong[] = {
        "path",         "path=scenic",     "tile=128x256",  "threads=12y",
        "threads=",     "threads=-1",      "colour=3",      "threads=99999999999999999999",
        "tile=1x2x3x4", "resident=2, x=1", "tile=1x2x3x4x5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Schedule schedule;
        if (schedule_parse(arena, wrong[i], &schedule))
            fail_msg("taken: %s", wrong[i]);
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hint_lies_over_the_choice), cmocka_unit_test(flags_paths_and_lists),
        cmocka_unit_test(the_rest_of_a_hint_fits_it),  cmocka_unit_test(wrong_hints_are_refused),
        cmocka_unit_test(proposals_are_accepted),      cmocka_unit_test(wrong_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
