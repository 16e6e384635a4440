/* Products with few rows and split products, in the simulator, against the reference. */
#include "matmul_support.h"

static Schedule gemv_schedule(int tile_m, int tile_n, int tile_k, int warps_k, int warps_n) {
    return (Schedule){.path = MATMUL_GEMV,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = tile_k,
                      .warps_m = warps_k,
                      .warps_n = warps_n,
                      .group_m = 1};
}

typedef struct Plain {
    DType type, out;
    int64_t m, n, k;
    bool along_k;
} Plain;

static void check_plain(const char *target, Plain p, Schedule schedule) {
    Case c;
    case_open(&c, target);
    Value *x = INPUT(&c, "x", p.type, p.m, p.k);
    Value *w = p.along_k ? case_t(&c, INPUT(&c, "w", p.type, p.n, p.k)) : INPUT(&c, "w", p.type, p.k, p.n);
    Value *product = case_matmul(&c, x, w);
    case_output(&c, "y", p.out == product->dtype ? product : case_cast(&c, product, p.out));
    case_check(&c, &schedule, dtype_bits(p.out) == 16 ? 5e-3 : 1e-6);
    case_close(&c);
}

static void test_along_k(void **state) {
    (void)state;
    check_plain("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 1, 64, 512, true}, gemv_schedule(1, 8, 512, 2, 4));
    check_plain("sm_80", (Plain){DTYPE_F16, DTYPE_F32, 4, 16, 1024, true}, gemv_schedule(4, 16, 512, 1, 4));
    check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, 3, 21, 1000, true}, gemv_schedule(4, 4, 1024, 4, 1));
    check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, 5, 6, 333, true}, gemv_schedule(2, 4, 64, 2, 2));
}

static void test_along_n(void **state) {
    (void)state;
    check_plain("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 1, 512, 64, false},
                gemv_schedule(1, 256, 32, 4, 1));
    check_plain("sm_80", (Plain){DTYPE_F16, DTYPE_F32, 2, 64, 256, false}, gemv_schedule(2, 64, 64, 4, 1));
    check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, 3, 72, 100, false}, gemv_schedule(4, 64, 32, 2, 2));
    check_plain("sm_80", (Plain){DTYPE_F32, DTYPE_F32, 3, 52, 67, false}, gemv_schedule(4, 32, 32, 2, 1));
}

static void test_types(void **state) {
    (void)state;
    for (int along_k = 0; along_k < 2; along_k++) {
        Schedule one = along_k ? gemv_schedule(2, 8, 128, 1, 4) : gemv_schedule(2, 64, 32, 2, 1);
        check_plain("sm_90a", (Plain){DTYPE_F32, DTYPE_F32, 2, 64, 256, along_k}, one);
        one.tile_n = along_k ? 8 : 32;
        one.tile_k = along_k ? 64 : 32;
        check_plain("sm_90a", (Plain){DTYPE_F64, DTYPE_F64, 2, 64, 256, along_k}, one);
        Schedule bytes = along_k ? gemv_schedule(2, 8, 1024, 2, 2) : gemv_schedule(2, 128, 32, 2, 1);
        check_plain("sm_90a", (Plain){DTYPE_E4M3, DTYPE_F32, 2, 128, 1024, along_k}, bytes);
        check_plain("sm_90a", (Plain){DTYPE_I8, DTYPE_I32, 2, 128, 1024, along_k}, bytes);
    }
}

static void test_dequantized(void **state) {
    (void)state;
    for (int along_k = 0; along_k < 2; along_k++) {
        Case c;
        case_open(&c, "sm_90a");
        Value *x = INPUT(&c, "x", DTYPE_BF16, 2, 528);
        Value *w = along_k ? INPUT(&c, "w", DTYPE_I8, 64, 528) : INPUT(&c, "w", DTYPE_I8, 528, 64);
        Value *scale = along_k ? INPUT(&c, "scale", DTYPE_BF16, 64, 1) : INPUT(&c, "scale", DTYPE_BF16, 64);
        Value *weight = case_op(&c, OP_mul, case_cast(&c, w, DTYPE_BF16), scale, NULL, NULL);
        case_output(&c, "y", case_matmul(&c, x, along_k ? case_t(&c, weight) : weight));
        Schedule schedule = along_k ? gemv_schedule(2, 8, 512, 1, 4) : gemv_schedule(2, 64, 64, 2, 1);
        case_check(&c, &schedule, 5e-3);
        case_close(&c);
    }
}

static void test_two_products(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 2, 512), *w = INPUT(&c, "w", DTYPE_BF16, 24, 512),
          *v = INPUT(&c, "v", DTYPE_BF16, 24, 512);
    Value *gate = case_matmul(&c, x, case_t(&c, w)), *up = case_matmul(&c, x, case_t(&c, v));
    case_output(&c, "y",
                case_op(&c, OP_mul, case_op(&c, OP_sigmoid, gate, NULL, NULL, NULL), up, NULL, NULL));
    Schedule schedule = gemv_schedule(2, 8, 512, 2, 2);
    case_check(&c, &schedule, 1e-5);
    case_close(&c);
}

static void test_batches(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 2, 4, 1, 256), *w = INPUT(&c, "w", DTYPE_BF16, 2, 2, 20, 256);
    case_output(&c, "y", case_matmul(&c, x, case_t(&c, w)));
    Schedule schedule = gemv_schedule(1, 8, 256, 1, 2);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

/* A number of rows that is not known, in tiles of four. */
static void test_symbolic_rows(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    const Dim *m = dim_symbol(c.graph->dims, "M"), *k = dim_const(c.graph->dims, 256);
    Value *x = graph_add_input(c.graph, "x", DTYPE_BF16, 2, (const Dim *[]){m, k}, NULL, (Span){0});
    Value *w = INPUT(&c, "w", DTYPE_BF16, 20, 256);
    case_output(&c, "y", case_matmul(&c, x, case_t(&c, w)));
    case_bind(&c, "M", 6);
    Schedule schedule = gemv_schedule(4, 8, 256, 1, 2);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_split_over_a_cluster(void **state) {
    (void)state;
    for (int split = 2; split <= 8; split *= 2)
        for (int along_k = 0; along_k < 2; along_k++) {
            Schedule schedule = along_k ? gemv_schedule(4, 16, 256, 1, 2) : gemv_schedule(4, 64, 64, 2, 1);
            schedule.split_k = split;
            check_plain("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 3, 72, 2056 + 256 * split, along_k},
                        schedule);
        }
}

/* y[M,N] = a[M,K] @ b[K,N] with few columns: a streams, along K (a) or along M (its transpose), against b or
 * its transpose. */
static void check_columns(const char *target, Plain p, bool b_along_k, Schedule schedule) {
    Case c;
    case_open(&c, target);
    Value *a = p.along_k ? INPUT(&c, "a", p.type, p.m, p.k) : case_t(&c, INPUT(&c, "a", p.type, p.k, p.m));
    Value *b = b_along_k ? case_t(&c, INPUT(&c, "b", p.type, p.n, p.k)) : INPUT(&c, "b", p.type, p.k, p.n);
    Value *product = case_matmul(&c, a, b);
    case_output(&c, "y", p.out == product->dtype ? product : case_cast(&c, product, p.out));
    schedule.swap_ab = true;
    case_check(&c, &schedule, dtype_bits(p.out) == 16 ? 5e-3 : 1e-6);
    case_close(&c);
}

static void test_few_columns(void **state) {
    (void)state;
    for (int b_along_k = 0; b_along_k < 2; b_along_k++) {
        check_columns("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 64, 1, 512, true}, b_along_k,
                      gemv_schedule(1, 8, 512, 2, 4));
        check_columns("sm_80", (Plain){DTYPE_F16, DTYPE_F32, 16, 4, 1024, true}, b_along_k,
                      gemv_schedule(4, 16, 512, 1, 4));
        check_columns("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, 6, 5, 333, true}, b_along_k,
                      gemv_schedule(2, 4, 64, 2, 2));
        check_columns("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, 72, 3, 100, false}, b_along_k,
                      gemv_schedule(4, 64, 32, 2, 2));
        check_columns("sm_80", (Plain){DTYPE_F32, DTYPE_F32, 52, 8, 67, false}, b_along_k,
                      gemv_schedule(8, 32, 32, 2, 1));
        Schedule split = gemv_schedule(1, 64, 32, 2, 1);
        split.split_k = 4;
        check_columns("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 100, 1, 520, false}, b_along_k, split);
        Schedule shorter = gemv_schedule(8, 4, 256, 2, 1);
        shorter.vector = 2;
        check_columns("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 21, 8, 1000, true}, b_along_k, shorter);
    }
}

static Schedule split_schedule(int tile_m, int tile_n, int warps_m, int split, bool swap_ab) {
    Schedule s = wgmma_schedule(tile_m, tile_n, 64, warps_m);
    s.tma_store = false;
    s.split_k = split;
    s.swap_ab = swap_ab;
    return s;
}

static void test_split_wgmma(void **state) {
    (void)state;
    for (int along_k = 0; along_k < 2; along_k++) {
        check_plain("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 13, 200, 584, along_k},
                    split_schedule(64, 16, 1, 2, true));
        check_plain("sm_90a", (Plain){DTYPE_F16, DTYPE_F32, 40, 136, 264, along_k},
                    split_schedule(128, 64, 2, 4, true));
        check_plain("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 100, 72, 520, along_k},
                    split_schedule(64, 64, 1, 8, false));
        check_plain("sm_90a", (Plain){DTYPE_BF16, DTYPE_BF16, 136, 72, 264, along_k},
                    split_schedule(128, 32, 2, 2, false));
    }
    check_plain("sm_90a", (Plain){DTYPE_E4M3, DTYPE_BF16, 20, 72, 1040, true},
                (Schedule){.path = MATMUL_WGMMA,
                           .tile_m = 64,
                           .tile_n = 32,
                           .tile_k = 128,
                           .warps_m = 1,
                           .warps_n = 1,
                           .stages = 2,
                           .split_k = 4,
                           .swap_ab = true});
}

static const char *refusal(const char *target, const Schedule *schedule, bool computed, bool normalized) {
    Case c;
    case_open(&c, target);
    Value *x = INPUT(&c, "x", DTYPE_BF16, 4, 512);
    if (computed)
        x = case_op(&c, OP_exp, x, NULL, NULL, NULL);
    Value *y = case_matmul(&c, x, case_t(&c, INPUT(&c, "w", DTYPE_BF16, 64, 512)));
    if (normalized)
        y = case_op(&c, OP_sub, y, case_row(&c, OP_reduce_max, y), NULL, NULL);
    case_output(&c, "y", y);
    case_region(&c);
    static char words[256];
    const char *why = "";
    bool takes = template_matmul.accepts(c.graph, &c.region, schedule, c.target, &why);
    snprintf(words, sizeof words, "%s", takes ? "" : why);
    case_close(&c);
    return words;
}

static void test_refusals(void **state) {
    (void)state;
    Schedule good = gemv_schedule(4, 8, 256, 1, 2), bad = good;
    assert_string_equal(refusal("sm_90a", &good, false, false), "");
    assert_non_null(strstr(refusal("sm_90a", &good, true, false), "computed anew"));
    assert_non_null(strstr(refusal("sm_90a", &good, false, true), "row statistics"));
    bad.tile_m = 3;
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "1, 2, 4, 8 or 16 rows"));
    bad = good;
    bad.stages = -1;
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "stages"));
    bad = good;
    bad.vector = 3;
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "power of two"));
    bad = good;
    bad.swap_ab = true; /* then the first operand streams, and may be computed */
    assert_string_equal(refusal("sm_90a", &bad, true, false), "");
    bad = good;
    bad.tile_k = 300;
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "runs of each lane"));
    bad = good;
    bad.split_k = 2;
    assert_string_equal(refusal("sm_90a", &bad, false, false), "");
    assert_non_null(strstr(refusal("sm_80", &bad, false, false), "split_k takes a cluster"));
    bad.split_k = 4; /* 512 = 2 steps */
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "split_k takes a cluster"));

    good = split_schedule(64, 16, 1, 4, true);
    assert_string_equal(refusal("sm_90a", &good, false, false), "");
    bad = good;
    bad.split_k = 3;
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "a cluster of 2, 4 or 8"));
    bad = split_schedule(64, 64, 1, 2, false);
    assert_non_null(strstr(refusal("sm_90a", &bad, false, true), "whole rows"));
    bad.tile_k = 64;
    bad.split_k = 8;
    assert_string_equal(refusal("sm_90a", &bad, false, false), "");
    bad.cluster_m = 2;
    assert_non_null(strstr(refusal("sm_90a", &bad, false, false), "of its own"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_along_k),       cmocka_unit_test(test_along_n),
        cmocka_unit_test(test_types),         cmocka_unit_test(test_dequantized),
        cmocka_unit_test(test_two_products),  cmocka_unit_test(test_batches),
        cmocka_unit_test(test_symbolic_rows), cmocka_unit_test(test_split_over_a_cluster),
        cmocka_unit_test(test_split_wgmma),   cmocka_unit_test(test_few_columns),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
