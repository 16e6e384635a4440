/* Matrix products by TMA and wgmma, in the simulator, against the reference: shapes that do not fit tiles,
 * layouts, types, clusters, epilogues. */
#include "matmul_support.h"

static void check_plain(DType type, int64_t m, int64_t n, int64_t k, bool a_t, bool b_t, Schedule schedule,
                        DType out) {
    Case c;
    case_open(&c, "sm_90a");
    Value *x = a_t ? case_t(&c, INPUT(&c, "x", type, k, m)) : INPUT(&c, "x", type, m, k);
    Value *w = b_t ? case_t(&c, INPUT(&c, "w", type, n, k)) : INPUT(&c, "w", type, k, n);
    Value *product = case_matmul(&c, x, w);
    case_output(&c, "y", out == product->dtype ? product : case_cast(&c, product, out));
    case_check(&c, &schedule, dtype_bits(out) == 16 ? 5e-3 : 1e-6);
    case_close(&c);
}

static void test_one_tile(void **state) {
    (void)state;
    check_plain(DTYPE_BF16, 64, 64, 64, false, true, wgmma_schedule(64, 64, 64, 1), DTYPE_BF16);
}

static void test_ragged(void **state) {
    (void)state;
    check_plain(DTYPE_BF16, 200, 136, 152, false, true, wgmma_schedule(128, 64, 64, 2), DTYPE_BF16);
    check_plain(DTYPE_F16, 65, 24, 8, false, true, wgmma_schedule(64, 32, 64, 1), DTYPE_F32);
    check_plain(DTYPE_BF16, 1, 8, 264, false, true, wgmma_schedule(64, 16, 64, 1), DTYPE_BF16);
}

static void test_layouts(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++)
        check_plain(DTYPE_BF16, 136, 72, 104, layout & 1, layout & 2, wgmma_schedule(128, 64, 64, 2),
                    DTYPE_BF16);
    check_plain(DTYPE_F16, 72, 40, 72, true, false, wgmma_schedule(64, 32, 64, 1), DTYPE_F16);
    check_plain(DTYPE_F16, 72, 40, 72, false, false, wgmma_schedule(64, 96, 32, 1), DTYPE_F16);
}

static void test_types(void **state) {
    (void)state;
    check_plain(DTYPE_TF32, 70, 24, 36, false, true, wgmma_schedule(64, 32, 32, 1), DTYPE_F32);
    check_plain(DTYPE_E4M3, 70, 24, 144, false, true, wgmma_schedule(64, 32, 128, 1), DTYPE_F32);
    check_plain(DTYPE_E5M2, 70, 24, 144, false, true, wgmma_schedule(64, 32, 128, 1), DTYPE_BF16);
    check_plain(DTYPE_I8, 70, 24, 144, false, true, wgmma_schedule(64, 32, 128, 1), DTYPE_I32);
    check_plain(DTYPE_U8, 70, 24, 144, false, true, wgmma_schedule(64, 32, 128, 1), DTYPE_I32);
}

static void test_two_blocks_of_rows(void **state) {
    (void)state;
    check_plain(DTYPE_BF16, 300, 40, 128, false, true, wgmma_schedule(256, 32, 64, 2), DTYPE_BF16);
}

static void test_clusters(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        Schedule along_m = wgmma_schedule(64, 128, 64, 1), along_n = wgmma_schedule(128, 64, 64, 2);
        along_m.cluster_m = 2;
        along_n.cluster_n = 2;
        check_plain(DTYPE_BF16, 200, 264, 136, layout & 1, layout & 2, along_m, DTYPE_BF16);
        check_plain(DTYPE_BF16, 136, 200, 136, layout & 1, layout & 2, along_n, DTYPE_BF16);
    }
}

static void test_ping_pong(void **state) {
    (void)state;
    for (int cluster = 1; cluster <= 2; cluster++) {
        Schedule schedule = wgmma_schedule(64, 64, 64, 2);
        schedule.ping_pong = true;
        schedule.cluster_m = cluster;
        Case c;
        case_open(&c, "sm_90a");
        Target few = *c.target; /* several tiles for each block, in odd numbers */
        few.sm_count = 2;
        c.target = &few;
        Value *x = INPUT(&c, "x", DTYPE_BF16, 200, 456), *w = INPUT(&c, "w", DTYPE_BF16, 200, 456);
        case_output(&c, "y", case_cast(&c, case_matmul(&c, x, case_t(&c, w)), DTYPE_BF16));
        case_check(&c, &schedule, 5e-3);
        case_close(&c);
    }
    Schedule tall = wgmma_schedule(128, 64, 64, 2);
    tall.ping_pong = true;
    check_plain(DTYPE_BF16, 300, 72, 136, false, true, tall, DTYPE_BF16);
}

static void test_transposed_product(void **state) {
    (void)state;
    Schedule schedule = wgmma_schedule(64, 16, 64, 1);
    schedule.swap_ab = true;
    check_plain(DTYPE_BF16, 5, 200, 136, false, true, schedule, DTYPE_BF16);
    check_plain(DTYPE_BF16, 16, 72, 136, false, false, schedule, DTYPE_F32);
}

static void test_no_k(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    const Dim *k = dim_symbol(c.graph->dims, "K"), *m = dim_const(c.graph->dims, 72);
    assert_true(dim_constrain(c.graph->dims, dim_mod(c.graph->dims, k, dim_const(c.graph->dims, 8)), DIM_EQ,
                              dim_const(c.graph->dims, 0), (Span){0}, &c.diags));
    Value *x = graph_add_input(c.graph, "x", DTYPE_BF16, 2, (const Dim *[]){m, k}, NULL, (Span){0});
    Value *w = graph_add_input(c.graph, "w", DTYPE_BF16, 2, (const Dim *[]){m, k}, NULL, (Span){0});
    case_output(&c, "y", case_matmul(&c, x, case_t(&c, w)));
    Schedule schedule = wgmma_schedule(64, 32, 64, 1);
    case_bind(&c, "K", 0);
    case_check(&c, &schedule, 0);
    case_close(&c);
}

static void test_batches(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 2, 4, 70, 72),
          *w = INPUT(&c, "w", DTYPE_BF16, 2, 2, 40, 72); /* grouped heads */
    case_output(&c, "y", case_cast(&c, case_matmul(&c, x, case_t(&c, w)), DTYPE_BF16));
    Schedule schedule = wgmma_schedule(64, 32, 64, 1);
    case_check(&c, &schedule, 5e-3);
    case_close(&c);

    case_open(&c, "sm_90a");
    x = INPUT(&c, "x", DTYPE_BF16, 3, 70, 72);
    w = INPUT(&c, "w", DTYPE_BF16, 1, 40, 72); /* one for all */
    case_output(&c, "y", case_cast(&c, case_matmul(&c, x, case_t(&c, w)), DTYPE_BF16));
    case_check(&c, &schedule, 5e-3);
    case_close(&c);
}

static void test_epilogue(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Target few = *c.target; /* several tiles for each block */
    few.sm_count = 2;
    c.target = &few;
    Value *x = INPUT(&c, "x", DTYPE_BF16, 130, 72), *w = INPUT(&c, "w", DTYPE_BF16, 72, 72);
    Value *bias = INPUT(&c, "bias", DTYPE_BF16, 72), *scale = INPUT(&c, "scale", DTYPE_F32, 130, 1),
          *r = INPUT(&c, "r", DTYPE_BF16, 130, 72);
    Value *s = case_op(&c, OP_add, case_matmul(&c, x, case_t(&c, w)), bias, NULL, NULL);
    s = case_op(&c, OP_add, case_op(&c, OP_mul, s, scale, NULL, NULL), r, NULL, NULL);
    case_output(&c, "pre", case_cast(&c, s, DTYPE_BF16));
    case_output(&c, "wide", case_op(&c, OP_neg, s, NULL, NULL, NULL));
    case_output(&c, "y", case_cast(&c, case_op(&c, OP_max, s, case_number(&c, 0), NULL, NULL), DTYPE_F16));
    Schedule schedule = wgmma_schedule(128, 64, 64, 2);
    case_check(&c, &schedule, 5e-3);
    case_close(&c);
}

static void test_two_products(void **state) {
    (void)state;
    for (int swap = 0; swap < 2; swap++) {
        Case c;
        case_open(&c, "sm_90a");
        int64_t m = swap ? 13 : 130;
        Value *x = INPUT(&c, "x", DTYPE_BF16, m, 72), *wg = INPUT(&c, "wg", DTYPE_BF16, 72, 72),
              *wu = INPUT(&c, "wu", DTYPE_BF16, 72, 72);
        Value *g = case_matmul(&c, x, case_t(&c, wg)), *u = case_matmul(&c, x, case_t(&c, wu));
        Value *y = case_op(&c, OP_mul, case_op(&c, OP_max, g, case_number(&c, 0), NULL, NULL), u, NULL, NULL);
        case_output(&c, "y", case_cast(&c, y, DTYPE_BF16));
        Schedule schedule = swap ? wgmma_schedule(64, 16, 64, 1) : wgmma_schedule(128, 64, 64, 2);
        schedule.swap_ab = swap;
        case_check(&c, &schedule, 5e-3);
        case_close(&c);
    }
}

static void test_softmax(void **state) {
    (void)state;
    for (int64_t n = 40; n <= 64; n += 24) {
        Case c;
        case_open(&c, "sm_90a");
        Value *x = INPUT(&c, "x", DTYPE_BF16, 130, 72), *w = INPUT(&c, "w", DTYPE_BF16, n, 72),
              *b = INPUT(&c, "b", DTYPE_F32, n);
        Value *s = case_op(&c, OP_add, case_matmul(&c, x, case_t(&c, w)), b, NULL, NULL);
        Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, s, case_row(&c, OP_reduce_max, s), NULL, NULL),
                           NULL, NULL, NULL);
        Value *total = case_row(&c, OP_sum, e);
        case_output(&c, "total", total);
        case_output(&c, "y", case_cast(&c, case_op(&c, OP_div, e, total, NULL, NULL), DTYPE_BF16));
        Schedule schedule = wgmma_schedule(128, 64, 64, 2);
        case_check(&c, &schedule, 5e-3);
        case_close(&c);
    }
}

static void test_layernorm(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 70, 72), *w = INPUT(&c, "w", DTYPE_BF16, 56, 72),
          *r = INPUT(&c, "r", DTYPE_BF16, 70, 56), *g = INPUT(&c, "g", DTYPE_F32, 56);
    Value *s = case_op(&c, OP_add, case_matmul(&c, x, case_t(&c, w)), r, NULL, NULL),
          *per = case_number(&c, 1.0 / 56);
    Value *d =
        case_op(&c, OP_sub, s, case_op(&c, OP_mul, case_row(&c, OP_sum, s), per, NULL, NULL), NULL, NULL);
    Value *variance =
        case_op(&c, OP_mul, case_row(&c, OP_sum, case_op(&c, OP_mul, d, d, NULL, NULL)), per, NULL, NULL);
    Value *inverse = case_op(&c, OP_rsqrt, case_op(&c, OP_add, variance, case_number(&c, 1e-5), NULL, NULL),
                             NULL, NULL, NULL);
    case_output(&c, "sum", case_cast(&c, s, DTYPE_BF16));
    case_output(&c, "y",
                case_cast(&c, case_op(&c, OP_mul, case_op(&c, OP_mul, d, inverse, NULL, NULL), g, NULL, NULL),
                          DTYPE_BF16));
    Schedule schedule = wgmma_schedule(64, 64, 64, 1);
    case_check(&c, &schedule, 5e-3);
    case_close(&c);
}

static void test_refusals(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_TF32, 64, 33), *w = INPUT(&c, "w", DTYPE_TF32, 64, 33);
    case_output(&c, "y", case_matmul(&c, x, case_t(&c, w)));
    case_region(&c);
    Schedule schedule = wgmma_schedule(64, 64, 32, 1);
    const char *why = NULL;
    assert_false(template_matmul.accepts(c.graph, &c.region, &schedule, c.target, &why));
    assert_non_null(strstr(why, "16 bytes"));
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_tile),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_two_blocks_of_rows),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_transposed_product),
        cmocka_unit_test(test_no_k),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_epilogue),
        cmocka_unit_test(test_two_products),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
