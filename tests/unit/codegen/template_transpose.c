/* Transposing kernels against the reference: reads turned, writes turned, both; vectors, single elements,
 * edges of tiles. */
#include "tests/unit/codegen/template_harness.h"

static void check_transpose(Harness *h, const Value *space) {
    harness_region(h, TEMPLATE_TRANSPOSE, space, 0);
    harness_check(h, 1);
}

static void turned_reads(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_BF16, DTYPE_F32, DTYPE_I8, DTYPE_F64};
    static const int64_t shapes[][2] = {{1, 2},    {3, 5},     {16, 16},  {40, 24},
                                        {130, 70}, {128, 256}, {33, 1000}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            Harness h = harness_new();
            h.built_by = shapes[i][0] == 1 ? "pointwise" : NULL; /* an axis of 1 turns nothing */
            Value *x = make_input(&h, "x", types[t], 2, shapes[i]);
            Value *y = make_transpose(&h, x, (int[]){1, 0});
            harness_output(&h, "y", y);
            check_transpose(&h, y);
        }
}

static void work_on_the_way(void **state) {
    (void)state;
    for (int64_t n = 24; n <= 31; n += 7) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 3, (int64_t[]){2, 40, n});
        Value *straight = make_input(&h, "straight", DTYPE_BF16, 3, (int64_t[]){2, n, 40});
        Value *bias = make_input(&h, "bias", DTYPE_F32, 1, (int64_t[]){40});
        Value *scale = make_input(&h, "scale", DTYPE_F32, 3, (int64_t[]){2, n, 1});
        Value *y = make2(&h, OP_add, make1(&h, OP_exp, make_transpose(&h, x, (int[]){0, 2, 1})), straight);
        y = make2(&h, OP_mul, make2(&h, OP_add, y, bias), scale);
        harness_output(&h, "y", make_cast(&h, y, DTYPE_BF16));
        h.scale = 2;
        check_transpose(&h, y);
    }
}

/* NCHW to NHWC, as one transpose of reshaped images. */
static void images(void **state) {
    (void)state;
    Harness h = harness_new();
    Value *x = make_input(&h, "x", DTYPE_F16, 4, (int64_t[]){2, 24, 8, 10});
    Value *y = make1(&h, OP_neg, make_transpose(&h, x, (int[]){0, 2, 3, 1}));
    Value *out = make_cast(&h, y, DTYPE_F16);
    harness_output(&h, "y", out);
    check_transpose(&h, out);
}

/* An input whose memory is turned, though nothing in the graph turns it. */
static void strided_input(void **state) {
    (void)state;
    Harness h = harness_new();
    const Dim *dims[] = {harness_dim(&h, 40), harness_dim(&h, 72)},
              *strides[] = {harness_dim(&h, 1), harness_dim(&h, 48)};
    Value *x = graph_add_input(h.graph, "x", DTYPE_BF16, 2, dims, strides, (Span){0});
    Value *y = make_cast(&h, make1(&h, OP_exp, x), DTYPE_BF16);
    harness_output(&h, "y", y);
    check_transpose(&h, y);
}

static void turned_writes(void **state) {
    (void)state;
    for (int64_t n = 24; n <= 35; n += 11) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){40, n});
        Value *z = make_input(&h, "z", DTYPE_BF16, 2, (int64_t[]){n, 40});
        Value *y = make2(&h, OP_add, make1(&h, OP_exp, x), make_transpose(&h, z, (int[]){1, 0}));
        harness_output(&h, "straight", make_cast(&h, y, DTYPE_BF16));
        harness_output(&h, "turned", make_transpose(&h, make_cast(&h, y, DTYPE_F32), (int[]){1, 0}));
        check_transpose(&h, y);
    }
}

static void schedules_that_are_asked_for(void **state) {
    (void)state;
    static const Schedule schedules[] = {
        {.threads = 32, .vector = 1, .unroll = 1, .tile_rows = 8, .tile_cols = 32},
        {.threads = 64, .vector = 2, .unroll = 1, .tile_rows = 32, .tile_cols = 16},
        {.threads = 128, .vector = 4, .unroll = 1, .tile_rows = 64, .tile_cols = 32},
        {.threads = 32, .vector = 8, .unroll = 1, .tile_rows = 64, .tile_cols = 64},
        {.threads = 64, .vector = 1, .turned_vector = 8, .unroll = 1, .tile_rows = 64, .tile_cols = 24},
        {.threads = 32, .vector = 8, .turned_vector = 1, .unroll = 1, .tile_rows = 16, .tile_cols = 64},
        {.threads = 32, .vector = 4, .turned_vector = 2, .unroll = 1, .tile_rows = 32, .tile_cols = 48},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        Harness h = harness_new();
        h.has_schedule = true;
        h.schedule = schedules[i];
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){72, 88});
        Value *y = make1(&h, OP_exp, make_transpose(&h, x, (int[]){1, 0}));
        harness_output(&h, "y", y);
        check_transpose(&h, y);
    }
}

/* Rows that begin anywhere: edges at their ends, and where tiles meet; several outputs of types of their own;
 * work that needs inputs of the row, of the column, and of every element. */
static void rows_that_begin_anywhere(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_BF16, DTYPE_F32, DTYPE_I8, DTYPE_F64};
    static const Schedule schedules[] = {
        {.threads = 32, .vector = 2, .turned_vector = 1, .unroll = 1, .tile_rows = 8, .tile_cols = 16},
        {.threads = 64, .vector = 2, .turned_vector = 2, .unroll = 1, .tile_rows = 16, .tile_cols = 48},
        {.threads = 32, .vector = 4, .turned_vector = 2, .unroll = 1, .tile_rows = 32, .tile_cols = 16},
        {.threads = 64, .vector = 4, .turned_vector = 8, .unroll = 1, .tile_rows = 64, .tile_cols = 136},
        {.threads = 128, .vector = 8, .turned_vector = 4, .unroll = 1, .tile_rows = 32, .tile_cols = 128},
        {.threads = 32, .vector = 16, .turned_vector = 8, .unroll = 1, .tile_rows = 32, .tile_cols = 16},
    };
    static const int64_t extents[] = {3, 15, 97, 129, 257};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
            for (size_t k = 0; k < sizeof extents / sizeof *extents; k++) {
                if (schedules[i].vector * dtype_bits(types[t]) > 128)
                    continue;
                Harness h = harness_new();
                h.has_schedule = true;
                h.schedule = schedules[i];
                Value *x = make_input(&h, "x", types[t], 3, (int64_t[]){extents[k], 3, 40});
                Value *y = make_transpose(&h, x, (int[]){2, 1, 0});
                harness_output(&h, "y", y);
                check_transpose(&h, y);
            }
}

static void rows_that_begin_anywhere_with_work(void **state) {
    (void)state;
    for (int64_t n = 65; n <= 69; n += 2) {
        Harness h = harness_new();
        h.has_schedule = true;
        h.schedule = (Schedule){
            .threads = 32, .vector = 4, .turned_vector = 4, .unroll = 1, .tile_rows = 32, .tile_cols = 40};
        Value *x = make_input(&h, "x", DTYPE_BF16, 3, (int64_t[]){2, n, 40});
        Value *straight = make_input(&h, "straight", DTYPE_BF16, 3, (int64_t[]){2, 40, n});
        Value *bias = make_input(&h, "bias", DTYPE_F32, 1, (int64_t[]){n});
        Value *scale = make_input(&h, "scale", DTYPE_F32, 3, (int64_t[]){2, 40, 1});
        Value *y = make2(&h, OP_add, make1(&h, OP_exp, make_transpose(&h, x, (int[]){0, 2, 1})), straight);
        y = make2(&h, OP_mul, make2(&h, OP_add, y, bias), scale);
        harness_output(&h, "wide", y);
        harness_output(&h, "narrow", make_cast(&h, y, DTYPE_BF16));
        h.scale = 2;
        check_transpose(&h, y);
    }
}

/* What a schedule asks for is refused with the reason. */
static void schedules_that_are_refused(void **state) {
    (void)state;
    static const struct {
        Schedule schedule;
        const char *why;
        bool is_written_turned;
    } cases[] = {
        {{.threads = 64, .vector = 8, .turned_vector = 3, .tile_rows = 64, .tile_cols = 64},
         "powers of two",
         false},
        {{.threads = 64, .vector = 8, .turned_vector = 8, .tile_rows = 64, .tile_cols = 60},
         "tile_cols a multiple of vector",
         false},
        {{.threads = 64, .vector = 8, .turned_vector = 16, .tile_rows = 64, .tile_cols = 64},
         "turned_vector (vector, where it is not said) must divide the axis",
         false},
        {{.threads = 96, .vector = 8, .turned_vector = 8, .tile_rows = 64, .tile_cols = 96},
         "two vectors of each row",
         false},
        {{.threads = 64, .vector = 16, .turned_vector = 8, .tile_rows = 64, .tile_cols = 64},
         "at most 16 bytes",
         false},
        {{.threads = 64, .vector = 8, .turned_vector = 8, .tile_rows = 64, .tile_cols = 64},
         "where an output is written along another one",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){67, 88});
        Value *y = make1(&h, OP_exp, make_transpose(&h, x, (int[]){1, 0}));
        harness_output(&h, "y", y);
        if (cases[i].is_written_turned)
            harness_output(&h, "turned", make_transpose(&h, y, (int[]){1, 0}));
        harness_region(&h, TEMPLATE_TRANSPOSE, y, 0);
        const char *why = "taken";
        const Target *target = target_find("sm_90a");
        if (template_of(TEMPLATE_TRANSPOSE)->accepts(h.graph, h.region, &cases[i].schedule, target, &why) ||
            !strstr(why, cases[i].why))
            fail_msg("case %zu: %s", i, why);
        arena_free(h.arena);
    }
}

static void symbolic_extents(void **state) {
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) /* the innermost extent is, of rows of odd length */
        for (int64_t n = 0; n <= 80; n += 40) {
            Harness h = harness_new();
            DimTable *table = h.graph->dims;
            const Dim *rows = dim_symbol(table, "M"), *columns = dim_symbol(table, "N");
            const Dim *dims[] = {is_known ? harness_dim(&h, 45) : rows, columns};
            Value *x = graph_add_input(h.graph, "x", DTYPE_F32, 2, dims, NULL, (Span){0});
            h.bindings = dim_bindings_new(h.arena, table);
            h.bindings.known[0] = h.bindings.known[1] = true;
            h.bindings.value[0] = n;
            h.bindings.value[1] = is_known ? n : 45;
            Value *y = make_transpose(&h, x, (int[]){1, 0});
            harness_output(&h, "y", y);
            check_transpose(&h, y);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turned_reads),
        cmocka_unit_test(work_on_the_way),
        cmocka_unit_test(images),
        cmocka_unit_test(turned_writes),
        cmocka_unit_test(strided_input),
        cmocka_unit_test(schedules_that_are_asked_for),
        cmocka_unit_test(symbolic_extents),
        cmocka_unit_test(rows_that_begin_anywhere),
        cmocka_unit_test(rows_that_begin_anywhere_with_work),
        cmocka_unit_test(schedules_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
