/* Products of fp8 operands with a factor for each block, and sums in two levels, by wgmma in the simulator
 * against the reference. Inputs are small multiples of 1/8, so that the 14 bits of the tensor cores are
 * enough and the tolerance can be that of f32. */
#include "matmul_support.h"

static Value *reshaped(Case *c, OpKind op, Value *x, int rank, const int64_t *dims) {
    const Dim **d = ARENA_ARRAY(c->arena, const Dim *, RANK_MAX);
    for (int i = 0; i < rank; i++)
        d[i] = dim_const(c->graph->dims, dims[i]);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = d, .n_dims = rank}};
    return case_op(c, op, x, NULL, NULL, attrs);
}

/* factors [.., rows, cols] repeated for each element of blocks of block_m x block_k */
static Value *unblocked(Case *c, Value *scale, int64_t rows, int64_t cols, int64_t block_m, int64_t block_k) {
    Value *apart = reshaped(c, OP_reshape, scale, 4, (int64_t[]){rows, 1, cols, 1});
    Value *wide = reshaped(c, OP_broadcast, apart, 4, (int64_t[]){rows, block_m, cols, block_k});
    return reshaped(c, OP_reshape, wide, 2, (int64_t[]){rows * block_m, cols * block_k});
}

static Value *times(Case *c, Value *x, Value *y) {
    return case_op(c, OP_mul, x, y, NULL, NULL);
}

static Schedule two_level(int tile_m, int tile_n, int warps_m) {
    return (Schedule){.path = MATMUL_WGMMA,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = 128,
                      .warps_m = warps_m,
                      .warps_n = 1,
                      .stages = 2,
                      .tma_store = true};
}

typedef struct Blocks {
    int64_t m, n, k;
    int64_t x_rows, w_rows; /* rows of a block; 0: the operand has no factors */
    bool turned;            /* the factors of x lie with their rows contiguous */
} Blocks;

static void open_blocks(Case *c, Blocks s) {
    case_open(c, "sm_90a");
    Value *x = INPUT(c, "x", DTYPE_E4M3, s.m, s.k), *w = INPUT(c, "w", DTYPE_E4M3, s.n, s.k);
    int64_t steps = s.k / 128;
    if (s.x_rows) {
        Value *sx = s.turned ? case_t(c, INPUT(c, "sx", DTYPE_F32, steps, s.m / s.x_rows))
                             : INPUT(c, "sx", DTYPE_F32, s.m / s.x_rows, steps);
        x = times(c, x, unblocked(c, sx, s.m / s.x_rows, steps, s.x_rows, 128));
    }
    if (s.w_rows) {
        Value *sw = INPUT(c, "sw", DTYPE_F32, s.n / s.w_rows, steps);
        w = times(c, w, unblocked(c, sw, s.n / s.w_rows, steps, s.w_rows, 128));
    }
    case_output(c, "y", case_matmul(c, x, case_t(c, w)));
}

static void check_blocks(Blocks s, Schedule schedule) {
    Case c;
    open_blocks(&c, s);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_rows_and_tiles(void **state) {
    (void)state;
    check_blocks((Blocks){70, 128, 384, 1, 128, false}, two_level(64, 128, 1));
    check_blocks((Blocks){70, 128, 384, 1, 128, true}, two_level(64, 64, 1));
    check_blocks((Blocks){256, 128, 256, 128, 128, false}, two_level(64, 32, 1));
}

static void test_one_scaled_operand(void **state) {
    (void)state;
    check_blocks((Blocks){70, 64, 256, 1, 0, false}, two_level(64, 64, 1));
    check_blocks((Blocks){64, 128, 256, 0, 64, false}, two_level(64, 64, 1));
}

static void test_parts_of_columns(void **state) {
    (void)state;
    check_blocks((Blocks){64, 256, 256, 1, 128, false}, two_level(64, 256, 1));
    check_blocks((Blocks){64, 192, 128, 1, 64, false}, two_level(64, 192, 1));
}

static void test_each_column(void **state) {
    (void)state;
    check_blocks((Blocks){70, 128, 384, 1, 1, false}, two_level(64, 128, 1));
    check_blocks((Blocks){70, 72, 512, 1, 1, true}, two_level(64, 48, 1));
    Schedule wide = two_level(128, 256, 2);
    wide.producer_registers = 24;
    wide.consumer_registers = 240;
    check_blocks((Blocks){130, 256, 256, 0, 1, false}, wide);
    check_blocks((Blocks){128, 60, 256, 128, 2, false}, two_level(64, 32, 1));
}

static void test_blocks_of_rows_and_clusters(void **state) {
    (void)state;
    Schedule tall = two_level(256, 64, 2);
    tall.producer_registers = 40;
    tall.consumer_registers = 232;
    check_blocks((Blocks){300, 64, 256, 1, 64, false}, tall);
    tall.tile_m = 128;
    tall.cluster_m = 2;
    check_blocks((Blocks){300, 64, 256, 1, 64, true}, tall);
}

static void test_transposed_product(void **state) {
    (void)state;
    Schedule swapped = two_level(64, 16, 1);
    swapped.swap_ab = true;
    check_blocks((Blocks){16, 128, 256, 16, 1, false}, swapped);
    check_blocks((Blocks){9, 128, 384, 1, 128, false}, swapped); /* a factor for each column of it */
    check_blocks((Blocks){13, 64, 256, 1, 1, true}, swapped);
}

static void test_plain_promotion(void **state) {
    (void)state;
    Schedule schedule = two_level(64, 32, 1);
    schedule.promote = true;
    check_blocks((Blocks){70, 40, 208, 0, 0, false}, schedule);
}

static void test_batches(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_E4M3, 3, 70, 256), *w = INPUT(&c, "w", DTYPE_E4M3, 64, 256);
    Value *sx = INPUT(&c, "sx", DTYPE_F32, 3, 70, 2);
    Value *apart = reshaped(&c, OP_reshape, sx, 4, (int64_t[]){3, 70, 2, 1});
    Value *wide = reshaped(&c, OP_broadcast, apart, 4, (int64_t[]){3, 70, 2, 128});
    x = times(&c, x, reshaped(&c, OP_reshape, wide, 3, (int64_t[]){3, 70, 256}));
    case_output(&c, "y", case_matmul(&c, x, case_t(&c, w)));
    Schedule schedule = two_level(64, 64, 1);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_refusals(void **state) {
    (void)state;
    const char *why = NULL;
    Case c;
    open_blocks(&c, (Blocks){64, 128, 256, 1, 128, false});
    case_region(&c);
    Schedule schedule = two_level(64, 64, 1);
    schedule.tile_k = 64; /* within a block, but not all of a line */
    assert_true(template_matmul.accepts(c.graph, &c.region, &schedule, c.target, &why));
    schedule.tile_k = 128;
    Schedule simple = {.path = MATMUL_LOOP};
    assert_true(template_matmul.accepts(c.graph, &c.region, &simple, c.target, &why));
    case_close(&c);
    open_blocks(&c, (Blocks){64, 128, 256, 1, 128, false});
    case_region(&c);
    Schedule turns = two_level(64, 64, 2);
    turns.ping_pong = true;
    assert_false(template_matmul.accepts(c.graph, &c.region, &turns, c.target, &why));
    assert_non_null(strstr(why, "side by side"));
    case_close(&c);
}

/* The cost model takes the narrow path where it can. */
static void test_choice(void **state) {
    (void)state;
    Case c;
    open_blocks(&c, (Blocks){4096, 7168, 16384, 1, 128, true});
    case_region(&c);
    Schedule best[2];
    assert_int_equal(template_matmul.schedules(c.graph, &c.region, c.target, NULL, best, 2), 2);
    assert_int_equal(best[0].path, MATMUL_WGMMA);
    assert_true(best[0].tile_m * best[0].tile_n >= 128 * 192);
    case_close(&c);
    open_blocks(
        &c, (Blocks){4096, 7168, 16384, 0, 0, false}); /* plain fp8: sums in f32, unless less is allowed */
    case_region(&c);
    assert_int_equal(template_matmul.schedules(c.graph, &c.region, c.target, NULL, best, 2), 2);
    assert_true(best[0].promote);
    c.region.fast_sums = true;
    assert_int_equal(template_matmul.schedules(c.graph, &c.region, c.target, NULL, best, 2), 2);
    assert_false(best[0].promote);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_tiles),
        cmocka_unit_test(test_one_scaled_operand),
        cmocka_unit_test(test_parts_of_columns),
        cmocka_unit_test(test_each_column),
        cmocka_unit_test(test_blocks_of_rows_and_clusters),
        cmocka_unit_test(test_transposed_product),
        cmocka_unit_test(test_plain_promotion),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
