/* Rows kernels against the reference: every reduction and type, rows shorter and longer than a warp, a block
 * and the registers. */
#include "tests/unit/codegen/template_harness.h"

/* The space is what is reduced. */
static void check_rows(Harness *h, const Value *space, int n_reduced, double terms) {
    harness_region(h, TEMPLATE_ROWS, space, n_reduced);
    harness_check(h, terms);
}

static Value *make_softmax(Harness *h, Value *x) {
    int axis = x->rank - 1;
    Value *m = make_reduce1(h, OP_reduce_max, x, axis, true);
    Value *e = make1(h, OP_exp, make2(h, OP_sub, x, m));
    return make2(h, OP_div, e, make_reduce1(h, OP_sum, e, axis, true));
}

static Value *make_layernorm(Harness *h, Value *x, Value *gain, Value *bias) {
    int axis = x->rank - 1;
    Value *n = make_constant(h, (double)harness_eval(h, x->dims[axis]));
    Value *mean = make2(h, OP_div, make_reduce1(h, OP_sum, x, axis, true), n);
    Value *d = make2(h, OP_sub, x, mean);
    Value *variance = make2(h, OP_div, make_reduce1(h, OP_sum, make2(h, OP_mul, d, d), axis, true), n);
    Value *scale = make1(h, OP_rsqrt, make2(h, OP_add, variance, make_constant(h, 1e-5)));
    return make2(h, OP_add, make2(h, OP_mul, make2(h, OP_mul, d, scale), gain), bias);
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
                Value *x = make_input(&h, "x", types[t], 2, (int64_t[]){5, 72});
                harness_output(&h, "out", make_reduce1(&h, ops[i], x, 1, keep));
                check_rows(&h, x, 1, 72);
            }
}

static void lengths(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 17, 33, 64, 100, 1000, 1024, 2049, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int t = 0; t < 2; t++)
            for (int64_t rows = 1; rows <= 9; rows += 8) {
                Harness h = harness_new();
                Value *x = make_input(&h, "x", t ? DTYPE_BF16 : DTYPE_F32, 2, (int64_t[]){rows, lengths[i]});
                Value *y = make_cast(&h, make_softmax(&h, x), x->dtype);
                harness_output(&h, "y", y);
                check_rows(&h, x, 1, (double)lengths[i]);
            }
}

/* NaN and infinity go through: a row of -inf alone gives NaN, as the reference says. */
static void positions_of_extremes(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 5, 40, 700, 3000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int largest = 0; largest < 2; largest++) {
            Harness h = harness_new(); /* few different values: many ties; and 0/0 where x is 0 */
            h.max_int = 2;
            Value *x = make_input(&h, "x", DTYPE_I8, 2, (int64_t[]){4, lengths[i]});
            Value *f = make_cast(&h, x, DTYPE_F32);
            Value *with_nan = make2(&h, OP_div, f, make1(&h, OP_abs, f));
            harness_output(&h, "number", make_reduce1(&h, largest ? OP_argmax : OP_argmin, x, 1, false));
            harness_output(&h, "nan_number",
                           make_reduce1(&h, largest ? OP_argmax : OP_argmin, with_nan, 1, false));
            Value *infinite = make2(&h, OP_div, f, make2(&h, OP_sub, f, f));
            harness_output(&h, "infinite_number",
                           make_reduce1(&h, largest ? OP_argmax : OP_argmin, infinite, 1, false));
            harness_output(
                &h, "far_number",
                make_reduce1(&h, largest ? OP_argmin : OP_argmax, make1(&h, OP_abs, infinite), 1, false));
            harness_output(&h, "extreme",
                           make_reduce1(&h, largest ? OP_reduce_max : OP_reduce_min, with_nan, 1, false));
            check_rows(&h, x, 1, 1);
        }
}

static void norms(void **state) {
    (void)state;
    static const int64_t lengths[] = {12, 96, 768, 4096};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        Harness h = harness_new();
        h.bindings = dim_bindings_new(h.arena, h.graph->dims);
        h.scale = 2;
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){6, lengths[i]});
        Value *residual = make_input(&h, "residual", DTYPE_BF16, 2, (int64_t[]){6, lengths[i]});
        Value *gain = make_input(&h, "gain", DTYPE_F32, 1, &lengths[i]),
              *bias = make_input(&h, "bias", DTYPE_F32, 1, &lengths[i]);
        Value *sum = make2(&h, OP_add, x, residual);
        harness_output(&h, "sum", make_cast(&h, sum, DTYPE_BF16));
        harness_output(&h, "y", make_cast(&h, make_layernorm(&h, sum, gain, bias), DTYPE_BF16));
        check_rows(&h, x, 1, (double)lengths[i]);
    }
}

/* Statistics that are dropped axes, reshaped or transposed on their way out, beside the row's elements. */
static void outputs_of_other_shapes(void **state) {
    (void)state;
    Harness h = harness_new();
    Value *x = make_input(&h, "x", DTYPE_F32, 3, (int64_t[]){4, 6, 40});
    Value *sum = make_reduce1(&h, OP_sum, x, 2, false);
    Value *most = make_reduce1(&h, OP_reduce_max, x, 2, true);
    Value *centred = make2(&h, OP_sub, x, most);
    harness_output(&h, "turned", make_transpose(&h, make1(&h, OP_neg, sum), (int[]){1, 0}));
    harness_output(&h, "line", make_reshape(&h, make1(&h, OP_exp, most), 1, (int64_t[]){24}));
    harness_output(&h, "flat", make_reshape(&h, make1(&h, OP_abs, centred), 2, (int64_t[]){24, 40}));
    harness_output(&h, "heads", make_transpose(&h, centred, (int[]){1, 0, 2}));
    h.scale = 10;
    check_rows(&h, x, 1, 40);
}

static void several_reduced_axes(void **state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 4, (int64_t[]){3, 2, 5, odd ? 7 : 16});
        Value *mean = make_reduce(&h, OP_sum, x, (int[]){2, 3}, 2, true);
        Value *scale = make_input(&h, "scale", DTYPE_F32, 4, (int64_t[]){1, 2, 1, 1});
        Value *column = make_input(&h, "column", DTYPE_F32, 3, (int64_t[]){1, 5, 1});
        h.scale = 4;
        Value *y = make2(&h, OP_mul, make2(&h, OP_add, x, mean), make1(&h, OP_exp, scale));
        harness_output(&h, "y", make2(&h, OP_sub, y, make1(&h, OP_exp, column)));
        harness_output(&h, "number", make_reduce(&h, OP_argmax, x, (int[]){2, 3}, 2, false));
        check_rows(&h, x, 2, 80);
    }
}

static void everything_reduced(void **state) {
    (void)state;
    Harness h = harness_new();
    h.scale = 10;
    Value *x = make_input(&h, "x", DTYPE_F32, 2, (int64_t[]){6, 50});
    harness_output(&h, "y", make_reduce(&h, OP_sum, x, (int[]){0, 1}, 2, false));
    check_rows(&h, x, 2, 300);
}

static void schedules_that_are_asked_for(void **state) {
    (void)state;
    static const Schedule schedules[] = {
        {.threads = 32, .threads_per_row = 1, .rows_per_block = 32, .vector = 8, .resident = true},
        {.threads = 64, .threads_per_row = 4, .rows_per_block = 16, .vector = 4, .resident = true},
        {.threads = 96, .threads_per_row = 32, .rows_per_block = 3, .vector = 2, .resident = true},
        {.threads = 128, .threads_per_row = 64, .rows_per_block = 2, .vector = 1, .resident = true},
        {.threads = 512, .threads_per_row = 512, .rows_per_block = 1, .vector = 8, .resident = true},
        {.threads = 32, .threads_per_row = 8, .rows_per_block = 4, .vector = 8, .unroll = 1},
        {.threads = 64, .threads_per_row = 64, .rows_per_block = 1, .vector = 2, .unroll = 3},
        {.threads = 256, .threads_per_row = 128, .rows_per_block = 2, .vector = 1, .unroll = 4},
    };
    static const int64_t lengths[] = {8, 56, 64};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        for (size_t k = 0; k < 3; k++) {
            Harness h = harness_new();
            Value *x = make_input(&h, "x", DTYPE_F16, 2, (int64_t[]){7, lengths[k]});
            Value *gain = make_input(&h, "gain", DTYPE_F32, 1, &lengths[k]);
            h.has_schedule = true;
            h.schedule = schedules[i];
            harness_output(&h, "y", make2(&h, OP_mul, make_softmax(&h, x), gain));
            check_rows(&h, x, 1, (double)lengths[k]);
        }
}

static void rows_that_are_read_again(void **state) {
    (void)state;
    static const int64_t lengths[] = {40000, 40003};
    for (int i = 0; i < 2; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){2, lengths[i]});
        h.has_schedule = true;
        h.schedule = (Schedule){
            .threads = 256, .threads_per_row = 256, .rows_per_block = 1, .vector = i ? 1 : 8, .unroll = 4};
        harness_output(&h, "y", make_cast(&h, make_softmax(&h, x), DTYPE_BF16));
        check_rows(&h, x, 1, 40000);
    }
}

static void rows_in_shared_memory(void **state) {
    (void)state;
    static const int64_t lengths[] = {5, 96, 1000, 1003};
    for (int i = 0; i < 4; i++)
        for (int rows_per_block = 1; rows_per_block <= 2; rows_per_block++) {
            Harness h = harness_new();
            Value *x = make_input(&h, "x", DTYPE_BF16, 3, (int64_t[]){3, lengths[i], 2});
            Value *r = make_input(&h, "r", DTYPE_F32, 3, (int64_t[]){3, 2, lengths[i]});
            Value *sum = make2(&h, OP_add, make_transpose(&h, x, (int[]){0, 2, 1}), r);
            h.has_schedule = true;
            h.schedule = (Schedule){
                .threads = 64 * rows_per_block, .threads_per_row = 64, .rows_per_block = rows_per_block};
            h.schedule.vector = lengths[i] % 8 ? 1 : 8;
            h.schedule.unroll = 3;
            h.schedule.row_in_smem = true;
            harness_output(&h, "y", make_cast(&h, make_softmax(&h, sum), DTYPE_BF16));
            check_rows(&h, sum, 1, 1000);
        }
}

/* What does not fit into a block's shared memory is shared by the blocks of a cluster, where there are
 * clusters and the row fits into theirs, or is read again. */
static void rows_that_blocks_share(void **state) {
    (void)state;
    static const struct {
        const char *target;
        int64_t length;
        int blocks;
        bool in_smem;
    } cases[] = {{"sm_90a", 60000, 0, true},
                 {"sm_90a", 128256, 8, true},
                 {"sm_80", 128256, 0, false},
                 {"sm_90a", 4 << 20, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){300, cases[i].length});
        harness_output(&h, "y", make_cast(&h, make_softmax(&h, x), DTYPE_BF16));
        harness_region(&h, TEMPLATE_ROWS, x, 1);
        assert_true(codegen_schedule(h.graph, h.region, target_find(cases[i].target), &h.bindings, &h.diags));
        assert_int_equal(h.region->schedule.cluster_n, cases[i].blocks);
        assert_int_equal(h.region->schedule.row_in_smem, cases[i].in_smem);
        arena_free(h.arena);
    }
}

static void symbolic_length(void **state) {
    (void)state;
    static const int64_t values[] = {0, 1, 5, 300};
    for (int bounded = 0; bounded < 2; bounded++)
        for (int i = 0; i < 4; i++) {
            Harness h = harness_new();
            DimTable *table = h.graph->dims;
            const Dim *dims[] = {dim_symbol(table, "M"), dim_symbol(table, "N")};
            if (bounded)
                dim_constrain(table, dims[1], DIM_LE, dim_const(table, 512), (Span){0}, &h.diags);
            Value *x = graph_add_input(h.graph, "x", DTYPE_F32, 2, dims, NULL, (Span){0});
            h.bindings = dim_bindings_new(h.arena, table);
            h.bindings.known[0] = h.bindings.known[1] = true;
            h.bindings.value[0] = 3;
            h.bindings.value[1] = values[i];
            harness_output(&h, "y", make_softmax(&h, x));
            harness_output(&h, "sum", make_reduce1(&h, OP_sum, x, 1, true));
            h.scale = 10;
            check_rows(&h, x, 1, 300);
        }
}

/* Reductions over other axes than the row's become loops in place; a matrix product on a row too. */
static void other_reductions_inside(void **state) {
    (void)state;
    Harness h = harness_new();
    h.scale = 10;
    Value *x = make_input(&h, "x", DTYPE_F32, 2, (int64_t[]){5, 24}),
          *w = make_input(&h, "w", DTYPE_F32, 2, (int64_t[]){3, 24});
    Value *column = make_reduce1(&h, OP_sum, w, 0, false);
    Value *y = make_softmax(&h, make2(&h, OP_add, x, column));
    harness_output(&h, "y", y);
    check_rows(&h, x, 1, 24);
}

/* Results that are stored across the rows, along the axis before them or one that others lie behind; rows
 * that do not fill their runs, and tiles whose blocks are not every thread's. */
static void results_across_the_rows(void **state) {
    (void)state;
    static const Schedule schedules[] = {
        {.threads = 128,
         .threads_per_row = 32,
         .rows_per_block = 4,
         .vector = 8,
         .turned_vector = 4,
         .tile_rows = 16},
        {.threads = 64,
         .threads_per_row = 16,
         .rows_per_block = 4,
         .vector = 4,
         .turned_vector = 8,
         .tile_rows = 8},
        {.threads = 128,
         .threads_per_row = 64,
         .rows_per_block = 2,
         .vector = 2,
         .turned_vector = 1,
         .tile_rows = 4},
        {.threads = 256,
         .threads_per_row = 64,
         .rows_per_block = 4,
         .vector = 1,
         .turned_vector = 2,
         .tile_rows = 16},
    };
    static const int perms[][4] = {{0, 1, 3, 2}, {0, 2, 3, 1}, {3, 0, 2, 1}};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        for (size_t k = 0; k < sizeof perms / sizeof *perms; k++) {
            Harness h = harness_new();
            h.scale = 4;
            h.has_schedule = true;
            h.schedule = schedules[i];
            h.schedule.resident = true;
            Value *x = make_input(&h, "x", DTYPE_BF16, 4, (int64_t[]){2, 16, 16, 152});
            Value *most = make_reduce1(&h, OP_reduce_max, x, 3, true);
            Value *e = make1(&h, OP_exp, make2(&h, OP_sub, x, most));
            Value *sum = make_reduce1(&h, OP_sum, e, 3, true);
            Value *y = make_cast(&h, make2(&h, OP_div, e, sum), DTYPE_BF16);
            harness_output(&h, "turned", make_transpose(&h, y, perms[k]));
            harness_output(&h, "straight", y);
            harness_output(&h, "sum", sum);
            harness_region(&h, TEMPLATE_ROWS, x, 1);
            harness_check(&h, 152);
        }
}

static void schedules_across_the_rows_that_are_refused(void **state) {
    (void)state;
    static const struct {
        Schedule schedule;
        const char *why;
    } cases[] = {
        {{.threads = 128,
          .threads_per_row = 32,
          .rows_per_block = 4,
          .vector = 8,
          .turned_vector = 8,
          .tile_rows = 32},
         "divide the axis"},
        {{.threads = 128,
          .threads_per_row = 32,
          .rows_per_block = 4,
          .vector = 8,
          .turned_vector = 3,
          .tile_rows = 16},
         "multiple of turned_vector"},
        {{.threads = 128,
          .threads_per_row = 32,
          .rows_per_block = 4,
          .vector = 8,
          .turned_vector = 4,
          .tile_rows = 8,
          .unroll = 1},
         "resident"},
    };
    const Target *target = target_find("sm_90a");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){48, 152});
        harness_output(&h, "y",
                       make_transpose(&h, make2(&h, OP_sub, x, make_reduce1(&h, OP_reduce_max, x, 1, true)),
                                      (int[]){1, 0}));
        harness_region(&h, TEMPLATE_ROWS, x, 1);
        Schedule schedule = cases[i].schedule;
        const char *why = "taken";
        schedule.resident = schedule.unroll == 0;
        if (template_of(TEMPLATE_ROWS)->accepts(h.graph, h.region, &schedule, target, &why) ||
            !strstr(why, cases[i].why))
            fail_msg("case %zu: %s", i, why);
        arena_free(h.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reduction_and_type),
        cmocka_unit_test(lengths),
        cmocka_unit_test(positions_of_extremes),
        cmocka_unit_test(norms),
        cmocka_unit_test(outputs_of_other_shapes),
        cmocka_unit_test(several_reduced_axes),
        cmocka_unit_test(everything_reduced),
        cmocka_unit_test(schedules_that_are_asked_for),
        cmocka_unit_test(rows_that_are_read_again),
        cmocka_unit_test(rows_in_shared_memory),
        cmocka_unit_test(rows_that_blocks_share),
        cmocka_unit_test(symbolic_length),
        cmocka_unit_test(other_reductions_inside),
        cmocka_unit_test(results_across_the_rows),
        cmocka_unit_test(schedules_across_the_rows_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
