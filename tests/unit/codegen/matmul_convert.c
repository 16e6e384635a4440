/* wgmma with an operand that a warpgroup computes on its way, in the simulator against the reference: weights
 * of 8 bits with their scales, norms that are applied, several converters, several tiles a block. */
#include "matmul_support.h"

static Schedule convert_schedule(int tile_m, int tile_n, int stages, int converters) {
    return (Schedule){.path = MATMUL_WGMMA,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = 64,
                      .warps_m = 1,
                      .warps_n = 1,
                      .stages = stages,
                      .group_m = 2,
                      .converters = converters,
                      .tma_store = true};
}

static Value *times(Case *c, Value *x, Value *y) {
    return case_op(c, OP_mul, x, y, NULL, NULL);
}

/* Two SMs, so that each block has several tiles. */
static void open_few(Case *c, Target *few) {
    case_open(c, "sm_90a");
    *few = *c->target;
    few->sm_count = 2;
    c->target = few;
}

typedef struct Weights {
    DType type;
    int64_t m, n, k;
    bool along_n; /* the weights lie with N contiguous */
    bool scaled;
} Weights;

static void check_weights(Weights s, Schedule schedule) {
    Case c;
    Target few;
    open_few(&c, &few);
    Value *x = INPUT(&c, "x", DTYPE_BF16, s.m, s.k), *w;
    if (s.along_n)
        w = INPUT(&c, "w", s.type, s.k, s.n);
    else
        w = case_t(&c, INPUT(&c, "w", s.type, s.n, s.k));
    if (s.scaled)
        w = times(&c, w, INPUT(&c, "sw", DTYPE_F32, 1, s.n));
    case_output(&c, "y", case_matmul(&c, x, case_cast(&c, w, DTYPE_BF16)));
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_weights(void **state) {
    (void)state;
    check_weights((Weights){DTYPE_I8, 70, 64, 128, false, true}, convert_schedule(64, 64, 3, 1));
    check_weights((Weights){DTYPE_I8, 70, 64, 128, false, false}, convert_schedule(64, 64, 3, 0));
    check_weights((Weights){DTYPE_U8, 70, 64, 128, false, true}, convert_schedule(64, 32, 2, 1));
    check_weights((Weights){DTYPE_E4M3, 70, 72, 144, false, true}, convert_schedule(64, 64, 3, 1));
}

static void test_weights_along_n(void **state) {
    (void)state;
    check_weights((Weights){DTYPE_I8, 70, 144, 136, true, true}, convert_schedule(64, 64, 3, 1));
    check_weights((Weights){DTYPE_E5M2, 64, 128, 64, true, false}, convert_schedule(64, 128, 2, 2));
}

/* Steps that no number of converters divides: each tile begins with another one. */
static void test_converters_take_turns(void **state) {
    (void)state;
    check_weights((Weights){DTYPE_I8, 64, 400, 5 * 64, false, true}, convert_schedule(64, 32, 4, 2));
    check_weights((Weights){DTYPE_I8, 64, 400, 5 * 64, false, true}, convert_schedule(64, 32, 6, 3));
    check_weights((Weights){DTYPE_I8, 64, 400, 2 * 64, false, true}, convert_schedule(64, 32, 3, 3));
    check_weights((Weights){DTYPE_I8, 64, 400, 1 * 64, false, true}, convert_schedule(64, 32, 3, 3));
}

/* Rows of 128 bytes at a time: two steps of K from each raw tile. */
static void test_pairs_of_steps(void **state) {
    (void)state;
    check_weights((Weights){DTYPE_I8, 70, 72, 256, false, true}, convert_schedule(64, 64, 2, 1));
    check_weights((Weights){DTYPE_E4M3, 64, 400, 5 * 128, false, true}, convert_schedule(64, 32, 4, 1));
    check_weights((Weights){DTYPE_I8, 64, 400, 128, false, false}, convert_schedule(64, 32, 6, 1));
}

static void test_transposed_product(void **state) {
    (void)state;
    Schedule swapped = convert_schedule(64, 16, 4, 2);
    swapped.swap_ab = true;
    check_weights((Weights){DTYPE_I8, 9, 400, 208, false, true}, swapped);
}

static void test_two_consumers(void **state) {
    (void)state;
    Schedule wide = convert_schedule(128, 64, 4, 2);
    wide.warps_m = 2;
    wide.producer_registers = 24;
    wide.consumer_registers = 144;
    check_weights((Weights){DTYPE_I8, 300, 128, 192, false, true}, wide);
}

/* A norm that is applied to the first operand, whose weights vary along K and whose factor along the rows. */
static void test_applied_norm(void **state) {
    (void)state;
    Case c;
    Target few;
    open_few(&c, &few);
    Value *x = INPUT(&c, "x", DTYPE_BF16, 150, 192), *w = INPUT(&c, "w", DTYPE_BF16, 72, 192);
    Value *r = INPUT(&c, "r", DTYPE_F32, 150, 1), *g = INPUT(&c, "g", DTYPE_BF16, 192);
    Value *normed = case_cast(&c, times(&c, times(&c, x, r), g), DTYPE_BF16);
    case_output(&c, "y", case_matmul(&c, normed, case_t(&c, w)));
    Schedule schedule = convert_schedule(64, 64, 3, 1);
    case_check(&c, &schedule, 1e-5);
    case_close(&c);
}

/* Beyond K the operand is zero, whatever its computation makes of zeros. */
static void test_border(void **state) {
    (void)state;
    Case c;
    Target few;
    open_few(&c, &few);
    Value *x = INPUT(&c, "x", DTYPE_BF16, 64, 80), *w = INPUT(&c, "w", DTYPE_BF16, 64, 80);
    Value *one = case_op(&c, OP_add, x, case_number(&c, 1), NULL, NULL);
    case_output(&c, "y", case_matmul(&c, case_cast(&c, one, DTYPE_BF16), case_t(&c, w)));
    Schedule schedule = convert_schedule(64, 64, 3, 1);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void expect_refusal(Schedule schedule, const char *words) {
    const char *why = NULL;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 64, 128), *w = INPUT(&c, "w", DTYPE_I8, 64, 128);
    case_output(&c, "y", case_matmul(&c, x, case_cast(&c, case_t(&c, w), DTYPE_BF16)));
    case_region(&c);
    assert_false(template_matmul.accepts(c.graph, &c.region, &schedule, c.target, &why));
    if (!why || !strstr(why, words))
        fail_msg("%s", why ? why : "no words");
    case_close(&c);
}

static void test_refusals(void **state) {
    (void)state;
    expect_refusal(convert_schedule(64, 64, 4, 3), "its own stages");
    Schedule cluster = convert_schedule(64, 64, 4, 1);
    cluster.cluster_m = 2;
    expect_refusal(cluster, "cluster");
    Schedule many = convert_schedule(128, 64, 3, 3);
    many.warps_m = 2;
    expect_refusal(many, "four warpgroups");
    Schedule starved = convert_schedule(128, 64, 4, 2);
    starved.warps_m = 2;
    starved.producer_registers = 40;
    starved.consumer_registers = 232;
    expect_refusal(starved, "no more than the block has at launch");
    starved.producer_registers = 24; /* 24 + 2 * 200 of 5 * 96, and two that convert */
    starved.consumer_registers = 200;
    expect_refusal(starved, "less than 56 registers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_weights_along_n),
        cmocka_unit_test(test_converters_take_turns),
        cmocka_unit_test(test_pairs_of_steps),
        cmocka_unit_test(test_transposed_product),
        cmocka_unit_test(test_two_consumers),
        cmocka_unit_test(test_applied_norm),
        cmocka_unit_test(test_border),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
