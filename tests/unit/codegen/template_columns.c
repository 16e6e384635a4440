/* Columns kernels against the reference: every reduction and type, few and many rows and columns, results
 * applied again. */
#include "tests/unit/codegen/template_harness.h"

static void check_columns(Harness *h, const Value *space, int n_reduced, double terms) {
    harness_region(h, TEMPLATE_COLUMNS, space, n_reduced);
    harness_check(h, terms);
}

static void every_reduction_and_type(void **state) {
    (void)state;
    static const OpKind ops[] = {OP_sum, OP_prod, OP_reduce_min, OP_reduce_max,
                                 OP_any, OP_all,  OP_argmax,     OP_argmin};
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I32, DTYPE_I8,
                                  DTYPE_F64, DTYPE_I64,  DTYPE_BOOL};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int keep = 0; keep < 2; keep++) {
                if ((ops[i] == OP_any || ops[i] == OP_all) && types[t] != DTYPE_BOOL)
                    continue;
                Harness h = harness_new();
                h.is_double = types[t] == DTYPE_F64;
                h.scale = 100;
                Value *x = make_input(&h, "x", types[t], 2, (int64_t[]){72, 24});
                harness_output(&h, "out", make_reduce1(&h, ops[i], x, 0, keep));
                check_columns(&h, x, 1, 72);
            }
}

static void shapes(void **state) {
    (void)state;
    static const int64_t extents[] = {0, 1, 3, 8, 17, 33, 1000};
    for (size_t r = 0; r < sizeof extents / sizeof *extents; r++)
        for (size_t c = 0; c < sizeof extents / sizeof *extents; c++) {
            Harness h = harness_new();
            h.scale = 30;
            Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){extents[r], extents[c]});
            Value *sum = make_reduce1(&h, OP_sum, make1(&h, OP_exp, x), 0, false);
            harness_output(&h, "mean", make2(&h, OP_mul, sum, make_constant(&h, 0.25)));
            harness_output(&h, "most",
                           make_cast(&h, make_reduce1(&h, OP_reduce_max, x, 0, true), DTYPE_BF16));
            check_columns(&h, x, 1, (double)extents[r]);
        }
}

/* The first NaN wins, and of equals the first: numbers count rows. */
static void positions_of_extremes(void **state) {
    (void)state;
    for (int largest = 0; largest < 2; largest++) {
        Harness h = harness_new();
        h.max_int = 2;
        Value *x = make_input(&h, "x", DTYPE_I8, 2, (int64_t[]){300, 20});
        Value *f = make_cast(&h, x, DTYPE_F32);
        Value *with_nan = make2(&h, OP_div, f, make1(&h, OP_abs, f));
        harness_output(&h, "number", make_reduce1(&h, largest ? OP_argmax : OP_argmin, x, 0, false));
        harness_output(&h, "nan_number",
                       make_reduce1(&h, largest ? OP_argmax : OP_argmin, with_nan, 0, false));
        Value *infinite = make2(&h, OP_div, f, make2(&h, OP_sub, f, f));
        harness_output(&h, "infinite_number",
                       make_reduce1(&h, largest ? OP_argmax : OP_argmin, infinite, 0, false));
        check_columns(&h, x, 1, 1);
    }
}

/* Batch normalization: statistics of each column, applied to every row. */
static void results_applied_again(void **state) {
    (void)state;
    for (int64_t columns = 15; columns <= 64; columns += 49) {
        Harness h = harness_new();
        h.scale = 4;
        Value *x = make_input(&h, "x", DTYPE_BF16, 3, (int64_t[]){5, 9, columns});
        Value *gain = make_input(&h, "gain", DTYPE_F32, 1, &columns);
        Value *per_row = make_input(&h, "per_row", DTYPE_F32, 2, (int64_t[]){9, 1});
        Value *mean = make2(&h, OP_mul, make_reduce(&h, OP_sum, x, (int[]){0, 1}, 2, true),
                            make_constant(&h, 1.0 / 45));
        Value *d = make2(&h, OP_sub, x, mean);
        Value *square = make_reduce(&h, OP_sum, make2(&h, OP_mul, d, d), (int[]){0, 1}, 2, false);
        Value *variance = make2(&h, OP_mul, square, make_constant(&h, 1.0 / 45));
        Value *scale = make1(&h, OP_rsqrt, make2(&h, OP_add, variance, make_constant(&h, 1e-5)));
        Value *y = make2(&h, OP_mul, make2(&h, OP_mul, d, scale), make1(&h, OP_exp, gain));
        harness_output(&h, "y", make_cast(&h, make2(&h, OP_add, y, per_row), DTYPE_BF16));
        harness_output(&h, "variance", variance);
        check_columns(&h, x, 2, 45);
    }
}

/* What a tall reduction becomes in two kernels: the first sums pieces of the rows, which a transpose brings
 * to the front. */
static void pieces_of_tall_columns(void **state) {
    (void)state;
    Harness h = harness_new();
    h.scale = 10;
    Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){96, 40});
    Value *pieces = make_reshape(&h, x, 3, (int64_t[]){4, 24, 40});
    Value *front = make_transpose(&h, pieces, (int[]){1, 0, 2});
    harness_output(&h, "y", make_reduce1(&h, OP_sum, front, 0, false));
    check_columns(&h, front, 1, 24);
}

/* The second kernel: the axis of 1 that the first left counts as reduced or not. */
static void leading_axis_of_one(void **state) {
    (void)state;
    Harness h = harness_new();
    h.scale = 10;
    Value *x = make_input(&h, "x", DTYPE_F32, 3, (int64_t[]){1, 12, 40});
    Value *sum = make_cast(&h, make_reduce1(&h, OP_sum, x, 1, true), DTYPE_BF16);
    harness_output(&h, "y", make_reshape(&h, make_transpose(&h, sum, (int[]){1, 0, 2}), 1, (int64_t[]){40}));
    harness_output(&h, "at", make_reduce1(&h, OP_argmin, x, 1, false));
    check_columns(&h, x, 2, 12);
}

static void outputs_of_other_shapes(void **state) {
    (void)state;
    Harness h = harness_new();
    h.scale = 10;
    Value *x = make_input(&h, "x", DTYPE_F32, 3, (int64_t[]){40, 4, 6});
    Value *sum = make_reduce1(&h, OP_sum, x, 0, false);
    harness_output(&h, "turned", make_transpose(&h, make1(&h, OP_neg, sum), (int[]){1, 0}));
    harness_output(&h, "line", make_reshape(&h, make1(&h, OP_exp, sum), 1, (int64_t[]){24}));
    check_columns(&h, x, 1, 40);
}

static void schedules_that_are_asked_for(void **state) {
    (void)state;
    static const Schedule schedules[] = {
        {.threads = 32, .threads_per_row = 1, .rows_per_block = 32, .vector = 8, .unroll = 1},
        {.threads = 64, .threads_per_row = 64, .rows_per_block = 1, .vector = 4, .unroll = 3},
        {.threads = 96, .threads_per_row = 4, .rows_per_block = 24, .vector = 1, .unroll = 2},
        {.threads = 512, .threads_per_row = 8, .rows_per_block = 64, .vector = 8, .unroll = 8},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        for (int64_t rows = 10; rows <= 130; rows += 60) {
            Harness h = harness_new();
            h.scale = 10;
            h.has_schedule = true;
            h.schedule = schedules[i];
            Value *x = make_input(&h, "x", DTYPE_F16, 2, (int64_t[]){rows, 56});
            harness_output(&h, "y", make_reduce1(&h, OP_sum, x, 0, false));
            check_columns(&h, x, 1, (double)rows);
        }
}

/* Rows in registers, and results that are stored along them: strips that do not divide the last axis, turns
 * of the loop that stores them that are not every thread's, several kept axes, two levels, what needs no
 * result. */
static void rows_that_are_held(void **state) {
    (void)state;
    static const Schedule schedules[] = {
        {.threads = 64, .threads_per_row = 8, .rows_per_block = 8, .vector = 8, .unroll = 6},
        {.threads = 96, .threads_per_row = 4, .rows_per_block = 24, .vector = 4, .unroll = 2},
        {.threads = 96,
         .threads_per_row = 8,
         .rows_per_block = 12,
         .vector = 4,
         .unroll = 4,
         .turned_vector = 4},
        {.threads = 128,
         .threads_per_row = 8,
         .rows_per_block = 16,
         .vector = 8,
         .unroll = 3,
         .turned_vector = 8},
        {.threads = 192,
         .threads_per_row = 64,
         .rows_per_block = 3,
         .vector = 1,
         .unroll = 16,
         .turned_vector = 2},
        {.threads = 256,
         .threads_per_row = 16,
         .rows_per_block = 16,
         .vector = 2,
         .unroll = 3,
         .turned_vector = 16},
        {.threads = 64,
         .threads_per_row = 4,
         .rows_per_block = 16,
         .vector = 8,
         .unroll = 3,
         .turned_vector = 1},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        for (int is_turned = 0; is_turned < 2; is_turned++) {
            if (is_turned != (schedules[i].turned_vector > 0))
                continue;
            Harness h = harness_new();
            h.scale = 4;
            h.has_schedule = true;
            h.schedule = schedules[i];
            h.schedule.resident = true;
            Value *x = make_input(&h, "x", DTYPE_BF16, 3, (int64_t[]){48, 3, 104});
            Value *mean =
                make2(&h, OP_mul, make_reduce1(&h, OP_sum, x, 0, true), make_constant(&h, 1.0 / 48));
            Value *d = make2(&h, OP_sub, x, mean);
            Value *square = make_reduce1(&h, OP_sum, make2(&h, OP_mul, d, d), 0, true);
            Value *y = make2(&h, OP_mul, d, make1(&h, OP_rsqrt, square));
            harness_output(&h, "y", make_cast(&h, y, DTYPE_BF16));
            harness_output(&h, "square", square);
            if (is_turned) {
                harness_output(&h, "turned", make_transpose(&h, y, (int[]){1, 2, 0}));
                harness_output(&h, "early", make_transpose(&h, make1(&h, OP_exp, x), (int[]){1, 2, 0}));
            }
            check_columns(&h, x, 1, 48);
        }
}

/* Only what the pass of the statistic computes anyway is stored. */
static void stored_with_the_statistic(void **state) {
    (void)state;
    Harness h = harness_new();
    h.scale = 4;
    Value *x = make_input(&h, "x", DTYPE_F32, 2, (int64_t[]){64, 200});
    Value *y = make1(&h, OP_exp, x);
    harness_output(&h, "y", y);
    harness_output(&h, "turned", make_transpose(&h, make_cast(&h, y, DTYPE_BF16), (int[]){1, 0}));
    harness_output(&h, "most", make_reduce1(&h, OP_reduce_max, y, 0, true));
    check_columns(&h, x, 1, 64);
}

static void held_schedules_that_are_refused(void **state) {
    (void)state;
    static const struct {
        Schedule schedule;
        const char *why;
    } cases[] = {
        {{.threads = 64,
          .threads_per_row = 8,
          .rows_per_block = 8,
          .vector = 8,
          .unroll = 4,
          .turned_vector = 4},
         "rows_per_block times unroll"},
        {{.threads = 64, .threads_per_row = 8, .rows_per_block = 8, .vector = 8, .unroll = 6},
         "takes a turned_vector"},
        {{.threads = 64,
          .threads_per_row = 8,
          .rows_per_block = 8,
          .vector = 8,
          .unroll = 6,
          .turned_vector = 3},
         "powers of two"},
        {{.threads = 64,
          .threads_per_row = 8,
          .rows_per_block = 8,
          .vector = 8,
          .unroll = 6,
          .turned_vector = 32},
         "powers of two"},
    };
    const Target *target = target_find("sm_90a");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){48, 104});
        harness_output(&h, "y",
                       make_transpose(&h, make2(&h, OP_sub, x, make_reduce1(&h, OP_reduce_max, x, 0, true)),
                                      (int[]){1, 0}));
        harness_region(&h, TEMPLATE_COLUMNS, x, 1);
        Schedule schedule = cases[i].schedule;
        const char *why = "";
        schedule.resident = true;
        assert_false(template_of(TEMPLATE_COLUMNS)->accepts(h.graph, h.region, &schedule, target, &why));
        assert_non_null(strstr(why, cases[i].why));
        arena_free(h.arena);
    }
}

static void symbolic_extents(void **state) {
    (void)state;
    static const int64_t values[] = {0, 1, 50};
    for (int i = 0; i < 3; i++) {
        Harness h = harness_new();
        h.scale = 10;
        DimTable *table = h.graph->dims;
        const Dim *dims[] = {dim_symbol(table, "M"), dim_symbol(table, "N")};
        Value *x = graph_add_input(h.graph, "x", DTYPE_F32, 2, dims, NULL, (Span){0});
        h.bindings = dim_bindings_new(h.arena, table);
        h.bindings.known[0] = h.bindings.known[1] = true;
        h.bindings.value[0] = values[i];
        h.bindings.value[1] = 13;
        harness_output(&h, "y", make_reduce1(&h, OP_sum, x, 0, true));
        check_columns(&h, x, 1, 50);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reduction_and_type), cmocka_unit_test(shapes),
        cmocka_unit_test(positions_of_extremes),    cmocka_unit_test(results_applied_again),
        cmocka_unit_test(pieces_of_tall_columns),   cmocka_unit_test(outputs_of_other_shapes),
        cmocka_unit_test(leading_axis_of_one),      cmocka_unit_test(schedules_that_are_asked_for),
        cmocka_unit_test(rows_that_are_held),       cmocka_unit_test(stored_with_the_statistic),
        cmocka_unit_test(symbolic_extents),         cmocka_unit_test(held_schedules_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
