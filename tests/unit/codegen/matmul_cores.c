/* Kernels of three and four products that share their first operand, as the gates of recurrent cells, by each
 * path, in the simulator, against the reference. */
#include "matmul_support.h"

typedef struct Gates {
    const char *target;
    DType type, out;
    int n; /* gates: 3 or 4 */
    int64_t m, width, k;
    bool is_whole;  /* their weights are parts of one matrix, whose rows are columns of the result */
    bool is_turned; /* [N, K] in memory */
    bool has_state; /* another input, and a second output */
} Gates;

static Value *gates_weights(Case *c, const Gates *g, Value *whole, int i) {
    static const char *const names[] = {"w0", "w1", "w2", "w3"};
    Value *w = whole          ? case_part(c, whole, g->is_turned ? 0 : 1, i * g->width, (i + 1) * g->width)
               : g->is_turned ? INPUT(c, names[i], g->type, g->width, g->k)
                              : INPUT(c, names[i], g->type, g->k, g->width);
    return g->is_turned ? case_t(c, w) : w;
}

static Value *gates_op(Case *c, OpKind op, Value *x, Value *y) {
    return case_op(c, op, x, y, NULL, NULL);
}

/* y = x0 x1 + x2 s (s: 1 where there is no state) - x3. */
static void gates_check(Gates g, const Schedule *schedule, double tolerance) {
    Case c;
    case_open(&c, g.target);
    Value *x = INPUT(&c, "x", g.type, g.m, g.k), *whole = NULL, *at[4];
    if (g.is_whole)
        whole = g.is_turned ? INPUT(&c, "w", g.type, g.n * g.width, g.k)
                            : INPUT(&c, "w", g.type, g.k, g.n * g.width);
    for (int i = 0; i < g.n; i++)
        at[i] = case_matmul(&c, x, gates_weights(&c, &g, whole, i));
    Value *y = gates_op(&c, OP_mul, at[0], at[1]), *third = at[2];
    if (g.has_state)
        third = gates_op(&c, OP_mul, third, INPUT(&c, "s", at[0]->dtype, g.m, g.width));
    y = gates_op(&c, OP_add, y, third);
    if (g.n > 3)
        y = gates_op(&c, OP_sub, y, at[3]);
    case_output(&c, "y", g.out == y->dtype ? y : case_cast(&c, y, g.out));
    if (g.has_state)
        case_output(&c, "third", third);
    case_check(&c, schedule, tolerance);
    case_close(&c);
}

static Schedule gates_wgmma(int tile_m, int tile_n, int tile_k, int warps_m, bool swap_ab) {
    Schedule s = wgmma_schedule(tile_m, tile_n, tile_k, warps_m);
    s.swap_ab = swap_ab;
    return s;
}

static Schedule gates_warps(MatmulPath path, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n) {
    return (Schedule){.path = path,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = tile_k,
                      .warps_m = warps_m,
                      .warps_n = warps_n,
                      .stages = path == MATMUL_GEMV ? 0 : 3,
                      .group_m = 2};
}

static void test_wgmma(void **state) {
    (void)state;
    for (int n = 3; n <= 4; n++) {
        Gates g = {"sm_90a", DTYPE_BF16, DTYPE_BF16, n, 70, 72, 136, .is_turned = true};
        Schedule schedule = gates_wgmma(64, 32, 64, 1, false);
        gates_check(g, &schedule, 1e-2);
        g.is_whole = g.has_state = true;
        gates_check(g, &schedule, 1e-2);
        schedule.tile_n = 8;
        gates_check(g, &schedule, 1e-2);
        g.is_turned = false;
        schedule = gates_wgmma(128, 64, 64, 2, false);
        gates_check(g, &schedule, 1e-2);
        g.is_turned = true;
        schedule.cluster_m = 2;
        gates_check(g, &schedule, 1e-2);
        schedule = gates_wgmma(64, 32, 64, 1, false);
        schedule.split_k = 2;
        gates_check(g, &schedule, 1e-2);
    }
}

static void test_wgmma_types(void **state) {
    (void)state;
    Gates g = {"sm_90a", DTYPE_E4M3, DTYPE_F32, 3, 70, 48, 272, .is_turned = true};
    Schedule schedule = gates_wgmma(64, 32, 128, 1, false);
    gates_check(g, &schedule, 1e-5);
    schedule.promote = true;
    gates_check(g, &schedule, 1e-5);
    g.type = DTYPE_I8;
    g.out = DTYPE_I32;
    schedule.promote = false;
    gates_check(g, &schedule, 0);
    g.type = DTYPE_TF32;
    g.out = DTYPE_F32;
    g.has_state = true;
    schedule.tile_k = 32;
    gates_check(g, &schedule, 1e-4);
}

static void test_transposed_wgmma(void **state) {
    (void)state;
    for (int n = 3; n <= 4; n++) {
        Gates g = {"sm_90a", DTYPE_F16, DTYPE_F16, n, 13, 136, 200, .is_turned = true, .is_whole = true};
        Schedule schedule = gates_wgmma(64, 16, 64, 1, true);
        gates_check(g, &schedule, 5e-3);
        g.has_state = true;
        schedule.split_k = 2;
        gates_check(g, &schedule, 5e-3);
        g.is_turned = false;
        schedule.split_k = 1;
        gates_check(g, &schedule, 5e-3);
    }
}

static void test_mma_sync(void **state) {
    (void)state;
    for (int n = 3; n <= 4; n++) {
        Gates g = {"sm_80", DTYPE_BF16, DTYPE_BF16, n, 21, 72, 104, .is_turned = true, .is_whole = true};
        Schedule schedule = gates_warps(MATMUL_MMA_SYNC, 32, 32, 32, 2, 1);
        gates_check(g, &schedule, 1e-2);
        g.has_state = true;
        g.is_turned = false;
        gates_check(g, &schedule, 1e-2);
        g.target = "sm_90a";
        g.type = g.out = DTYPE_F64;
        schedule = gates_warps(MATMUL_MMA_SYNC, 32, 32, 16, 2, 1);
        gates_check(g, &schedule, 1e-12);
    }
}

static void test_multiply_adds(void **state) {
    (void)state;
    for (int n = 3; n <= 4; n++) {
        Gates g = {"sm_80", DTYPE_F32, DTYPE_F32, n, 21, 72, 100, .is_turned = true, .is_whole = true};
        Schedule schedule = gates_warps(MATMUL_SIMT, 32, 64, 16, 2, 2);
        gates_check(g, &schedule, 1e-5);
        g.has_state = true;
        g.is_turned = false;
        gates_check(g, &schedule, 1e-5);
    }
}

static void test_few_rows(void **state) {
    (void)state;
    for (int n = 3; n <= 4; n++) {
        Gates g = {"sm_90a", DTYPE_BF16, DTYPE_BF16, n, 3, 72, 520, .is_turned = true, .is_whole = true};
        Schedule schedule = gates_warps(MATMUL_GEMV, 4, 4, 512, 2, 2);
        gates_check(g, &schedule, 1e-2);
        g.has_state = true;
        g.is_turned = false;
        schedule = gates_warps(MATMUL_GEMV, 4, 32, 64, 2, 1);
        gates_check(g, &schedule, 1e-2);
        schedule.split_k = 2;
        gates_check(g, &schedule, 1e-2);
        /* and few columns */
        g.m = 72;
        g.width = 3;
        g.is_whole = false;
        schedule = gates_warps(MATMUL_GEMV, 4, 4, 512, 2, 2);
        schedule.swap_ab = true;
        gates_check(g, &schedule, 1e-2);
    }
}

/* What the template chooses by itself. */
static void test_chosen(void **state) {
    (void)state;
    for (int n = 3; n <= 4; n++)
        for (int64_t m = 1; m <= 80; m = 4 * m + 1) {
            Gates g = {"sm_90a",          DTYPE_BF16,       DTYPE_BF16,       n, m, 128, 192,
                       .is_turned = true, .is_whole = true, .has_state = true};
            gates_check(g, NULL, 1e-2);
            g.target = "sm_80";
            gates_check(g, NULL, 1e-2);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wgmma),
        cmocka_unit_test(test_wgmma_types),
        cmocka_unit_test(test_transposed_wgmma),
        cmocka_unit_test(test_mma_sync),
        cmocka_unit_test(test_multiply_adds),
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
