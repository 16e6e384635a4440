/* Matrix products by mma.sync and by multiply-adds, in the simulator, against the reference. */
#include "matmul_support.h"

static Schedule mma_schedule(int tile_m, int tile_n, int tile_k, int warps_m, int warps_n) {
    return (Schedule){.path = MATMUL_MMA_SYNC,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = tile_k,
                      .warps_m = warps_m,
                      .warps_n = warps_n,
                      .stages = 3,
                      .group_m = 2};
}

static Schedule simt_schedule(int tile_m, int tile_n, int tile_k, int warps_m, int warps_n) {
    return (Schedule){.path = MATMUL_SIMT,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = tile_k,
                      .warps_m = warps_m,
                      .warps_n = warps_n,
                      .stages = 2,
                      .group_m = 1};
}

typedef struct Plain {
    DType a, b, out;
    int64_t m, n, k;
    bool a_t, b_t;
} Plain;

static void check_plain(const char *target, Plain p, Schedule schedule) {
    Case c;
    case_open(&c, target);
    Value *x = p.a_t ? case_t(&c, INPUT(&c, "x", p.a, p.k, p.m)) : INPUT(&c, "x", p.a, p.m, p.k);
    Value *w = p.b_t ? case_t(&c, INPUT(&c, "w", p.b, p.n, p.k)) : INPUT(&c, "w", p.b, p.k, p.n);
    Value *product = case_matmul(&c, x, w);
    case_output(&c, "y", p.out == product->dtype ? product : case_cast(&c, product, p.out));
    case_check(&c, &schedule, dtype_bits(p.out) == 16 ? 5e-3 : 1e-6);
    case_close(&c);
}

static void test_copied(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        Plain p = {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 72, 88, 104, layout & 1, layout & 2};
        check_plain("sm_80", p, mma_schedule(64, 64, 32, 2, 2));
        p.a = p.b = DTYPE_F16;
        p.out = DTYPE_F32;
        check_plain("sm_80", p, mma_schedule(32, 32, 64, 1, 2));
    }
}

static void test_narrow_copies(void **state) {
    (void)state; /* pitches of 8 and 4 bytes */
    check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, DTYPE_F32, 40, 36, 52, false, true},
                mma_schedule(32, 32, 32, 2, 1));
    check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, DTYPE_F32, 38, 34, 50, true, false},
                mma_schedule(32, 32, 32, 2, 1));
}

static void test_odd(void **state) {
    (void)state; /* no vector fits: operands through registers */
    for (int layout = 0; layout < 4; layout++)
        check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 37, 33, 45, layout & 1, layout & 2},
                    mma_schedule(32, 32, 32, 2, 1));
}

static void test_types(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        bool a_t = layout & 1, b_t = layout & 2;
        check_plain("sm_80", (Plain){DTYPE_I8, DTYPE_I8, DTYPE_I32, 40, 48, 80, a_t, b_t},
                    mma_schedule(32, 32, 64, 2, 1));
        check_plain("sm_80", (Plain){DTYPE_U8, DTYPE_I8, DTYPE_I32, 40, 48, 80, a_t, b_t},
                    mma_schedule(32, 32, 64, 2, 1));
        check_plain("sm_89", (Plain){DTYPE_E4M3, DTYPE_E5M2, DTYPE_F32, 40, 48, 80, a_t, b_t},
                    mma_schedule(32, 32, 64, 2, 1));
        check_plain("sm_80", (Plain){DTYPE_TF32, DTYPE_TF32, DTYPE_F32, 40, 36, 44, a_t, b_t},
                    mma_schedule(32, 32, 32, 2, 1));
    }
    check_plain("sm_80", (Plain){DTYPE_I4, DTYPE_I8, DTYPE_I32, 40, 48, 80, false, true},
                mma_schedule(32, 32, 64, 2, 1));
    check_plain("sm_80", (Plain){DTYPE_BF16, DTYPE_E4M3, DTYPE_F32, 40, 48, 80, false, true},
                mma_schedule(32, 32, 64, 2, 1));
}

static void test_f64(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        Plain p = {DTYPE_F64, DTYPE_F64, DTYPE_F64, 72, 88, 104, layout & 1, layout & 2};
        check_plain("sm_90a", p, mma_schedule(64, 64, 16, 2, 2));
        check_plain("sm_90a", p, mma_schedule(48, 32, 32, 3, 1));
        p.m = 37;
        p.n = 33;
        p.k = 45;
        check_plain("sm_90a", p, mma_schedule(32, 64, 8, 1, 2));
        check_plain("sm_90a", p, simt_schedule(64, 64, 16, 4, 2));
    }
    check_plain("sm_90a", (Plain){DTYPE_F32, DTYPE_F64, DTYPE_F32, 40, 36, 44, true, false},
                mma_schedule(32, 32, 16, 2, 1));
}

/* Who has no such instruction refuses, as do steps of no whole number of it. */
static void test_f64_refused(void **state) {
    (void)state;
    static const struct {
        const char *target, *why;
        int tile_k;
    } cases[] = {{"sm_80", "no matrix instruction", 16},
                 {"sm_90a", "tile_k is 8, 16 or 32", 4},
                 {"sm_90a", "tile_k is 8, 16 or 32", 24},
                 {"sm_90a", "tile_k is 8, 16 or 32", 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case c;
        case_open(&c, cases[i].target);
        Value *x = INPUT(&c, "x", DTYPE_F64, 64, 64), *w = INPUT(&c, "w", DTYPE_F64, 64, 64);
        case_output(&c, "y", case_matmul(&c, x, w));
        case_region(&c);
        Schedule schedule = mma_schedule(32, 32, cases[i].tile_k, 2, 1);
        const char *why = NULL;
        assert_false(template_of(c.region.kind)->accepts(c.graph, &c.region, &schedule, c.target, &why));
        assert_non_null(strstr(why, cases[i].why));
        case_close(&c);
    }
}

static void test_prologue(void **state) {
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        Case c;
        case_open(&c, "sm_80");
        Value *x = INPUT(&c, "x", DTYPE_BF16, 50, 72), *g = INPUT(&c, "g", DTYPE_F32, 72),
              *row = INPUT(&c, "row", DTYPE_F32, 50, 1);
        Value *w =
            layout ? case_t(&c, INPUT(&c, "w", DTYPE_BF16, 40, 72)) : INPUT(&c, "w", DTYPE_BF16, 72, 40);
        Value *scaled = case_op(&c, OP_mul, case_op(&c, OP_mul, x, g, NULL, NULL), row, NULL, NULL);
        scaled = case_cast(&c, case_op(&c, OP_add, scaled, case_number(&c, 1), NULL, NULL), DTYPE_BF16);
        case_output(&c, "y", case_matmul(&c, scaled, w));
        Schedule schedule = mma_schedule(32, 32, 32, 2, 1);
        case_check(&c, &schedule, 1e-6);
        case_close(&c);
    }
}

/* An operand of which a thread computes 64 elements, each of twelve inputs: they are loaded in turns of as
 * many as the registers hold. */
static void test_prologue_of_many_inputs(void **state) {
    (void)state;
    enum { INPUTS_EACH = 12, HELD = 128 };
    Schedule schedule = mma_schedule(16, 64, 64, 1, 2);
    Case c;
    case_open(&c, "sm_80");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 70, 70), *w = NULL;
    for (int i = 0; i < INPUTS_EACH; i++) {
        int64_t dims[] = {70, 64};
        Value *more = case_input(&c, text_format(c.arena, "w%d", i), DTYPE_F32, 2, dims);
        w = w ? case_op(&c, OP_add, w, more, NULL, NULL) : more;
    }
    case_output(&c, "y", case_matmul(&c, x, case_cast(&c, w, DTYPE_BF16)));
    const Kernel *kernel = case_kernel(&c, &schedule);
    int held = 0, ahead = 0;
    for (size_t i = 0; i < kernel->vars.n; i++) {
        const KVar *var = kernel->vars.at[i];
        held += strncmp(var->name, "w0_v", 4) == 0;
        ahead += var->name[0] == 'w' && strstr(var->name, "_v") ? var->count : 0;
    }
    /* ahead of the products of a step, ahead of the first one's, and behind both for the turns that follow */
    assert_int_equal(held, 4);
    assert_in_range(ahead, held * HELD / 2, held * HELD);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_batches(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_80");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 2, 4, 1, 20, 40), *w = INPUT(&c, "w", DTYPE_BF16, 2, 3, 24, 40);
    case_output(&c, "y", case_matmul(&c, x, case_t(&c, w)));
    Schedule schedule = mma_schedule(32, 32, 32, 2, 1);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_softmax(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_80");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 40, 72), *w = INPUT(&c, "w", DTYPE_BF16, 72, 27);
    Value *s = case_op(&c, OP_mul, case_matmul(&c, x, w), case_number(&c, 0.25), NULL, NULL);
    Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, s, case_row(&c, OP_reduce_max, s), NULL, NULL), NULL,
                       NULL, NULL);
    case_output(&c, "y", case_op(&c, OP_div, e, case_row(&c, OP_sum, e), NULL, NULL));
    case_output(&c, "at", case_row(&c, OP_argmax, s));
    Schedule schedule = mma_schedule(32, 32, 32, 2, 1);
    case_check(&c, &schedule, 1e-5);
    case_close(&c);
}

/* Of equals the first, the first NaN before all, and 0 where nothing beats what the search starts from. */
static void check_positions(Schedule schedule, DType dtype, int64_t n) {
    for (int largest = 0; largest < 2; largest++) {
        Case c;
        case_open(&c, "sm_80");
        OpKind op = largest ? OP_argmax : OP_argmin;
        Value *x = INPUT(&c, "x", dtype, 40, 24), *w = INPUT(&c, "w", dtype, 24, n),
              *s = case_matmul(&c, x, w);
        Value *zero = case_number(&c, 0), *infinite = case_op(&c, OP_div, s, zero, NULL, NULL);
        Value *all = case_op(&c, OP_abs, infinite, NULL, NULL, NULL);
        Value *sign = case_op(&c, OP_div, s, case_op(&c, OP_abs, s, NULL, NULL, NULL), NULL, NULL);
        Value *nan = case_op(&c, OP_sqrt, s, NULL, NULL, NULL);
        case_output(&c, "of_signs", case_row(&c, op, sign));
        case_output(&c, "of_zeros", case_row(&c, op, case_op(&c, OP_mul, s, zero, NULL, NULL)));
        case_output(&c, "of_infinities", case_row(&c, op, infinite));
        case_output(&c, "of_highest", case_row(&c, op, all));
        case_output(&c, "of_lowest", case_row(&c, op, case_op(&c, OP_neg, all, NULL, NULL, NULL)));
        case_output(&c, "of_roots", case_row(&c, op, nan));
        case_output(&c, "of_nan", case_row(&c, op, case_op(&c, OP_sub, all, all, NULL, NULL)));
        case_check(&c, &schedule, 0);
        case_close(&c);
    }
}

static void test_positions(void **state) {
    (void)state;
    check_positions(mma_schedule(32, 32, 32, 2, 1), DTYPE_BF16, 27);
    check_positions(mma_schedule(32, 32, 32, 2, 1), DTYPE_BF16, 32);
    check_positions(simt_schedule(64, 64, 16, 4, 1), DTYPE_F32, 61);
}

static void test_two_products(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_86");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 40, 72), *wg = INPUT(&c, "wg", DTYPE_BF16, 72, 40),
          *wu = INPUT(&c, "wu", DTYPE_BF16, 40, 72);
    Value *g = case_matmul(&c, x, wg), *u = case_matmul(&c, x, case_t(&c, wu));
    case_output(&c, "y",
                case_op(&c, OP_mul, case_op(&c, OP_max, g, case_number(&c, 0), NULL, NULL), u, NULL, NULL));
    Schedule schedule = mma_schedule(32, 32, 32, 2, 1);
    case_check(&c, &schedule, 1e-6);
    case_close(&c);
}

static void test_multiply_adds(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        bool a_t = layout & 1, b_t = layout & 2;
        check_plain("sm_80", (Plain){DTYPE_F32, DTYPE_F32, DTYPE_F32, 72, 68, 40, a_t, b_t},
                    simt_schedule(64, 64, 16, 2, 2));
        check_plain("sm_80", (Plain){DTYPE_F32, DTYPE_F32, DTYPE_F32, 7, 131, 9, a_t, b_t},
                    simt_schedule(64, 128, 8, 4, 2));
        check_plain("sm_80", (Plain){DTYPE_F64, DTYPE_F64, DTYPE_F64, 34, 38, 20, a_t, b_t},
                    simt_schedule(32, 32, 16, 4, 2));
        check_plain("sm_80", (Plain){DTYPE_I32, DTYPE_I32, DTYPE_I32, 34, 38, 20, a_t, b_t},
                    simt_schedule(64, 64, 16, 2, 4));
        check_plain("sm_80", (Plain){DTYPE_I64, DTYPE_I64, DTYPE_I64, 34, 38, 20, a_t, b_t},
                    simt_schedule(32, 64, 16, 2, 2));
    }
}

/* K in parts, among the blocks of a cluster: the parts of one element are added in one order. */
static void test_multiply_adds_split(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        bool a_t = layout & 1, b_t = layout & 2;
        Schedule schedule = simt_schedule(64, 64, 16, 2, 2);
        schedule.split_k = 2 << layout % 3;
        check_plain("sm_90a", (Plain){DTYPE_F32, DTYPE_F32, DTYPE_F32, 72, 68, 140, a_t, b_t}, schedule);
        check_plain("sm_90a", (Plain){DTYPE_I32, DTYPE_I32, DTYPE_I32, 5, 131, 129, a_t, b_t}, schedule);
    }
}

static void refuse_multiply_adds(DType type, const char *target, Schedule schedule, const char *expected) {
    Case c;
    case_open(&c, target);
    Value *x = INPUT(&c, "x", type, 64, 64), *w = INPUT(&c, "w", type, 64, 64);
    case_output(&c, "y", case_matmul(&c, x, w));
    case_region(&c);
    const char *why = NULL;
    assert_false(template_of(c.region.kind)->accepts(c.graph, &c.region, &schedule, c.target, &why));
    assert_non_null(strstr(why, expected));
    case_close(&c);
}

static void test_multiply_adds_refused(void **state) {
    (void)state;
    refuse_multiply_adds(DTYPE_F32, "sm_90a", simt_schedule(64, 64, 16, 0, 0), "1 to 16 warps");
    refuse_multiply_adds(DTYPE_F32, "sm_90a", simt_schedule(64, 64, 16, 8, 4), "1 to 16 warps");
    refuse_multiply_adds(DTYPE_F32, "sm_90a", simt_schedule(40, 64, 16, 2, 2), "4 x 8 or 8 x 4 vectors");
    refuse_multiply_adds(DTYPE_F32, "sm_90a", simt_schedule(64, 64, 24, 2, 2), "tile_k is 8, 16 or 32");
    refuse_multiply_adds(DTYPE_F32, "sm_90a", simt_schedule(256, 256, 16, 2, 2), "do not fit its registers");
    Schedule schedule = simt_schedule(64, 64, 16, 2, 2);
    schedule.split_k = 3;
    refuse_multiply_adds(DTYPE_F32, "sm_90a", schedule, "a cluster of 2, 4 or 8 blocks");
    schedule.split_k = 4;
    refuse_multiply_adds(DTYPE_F32, "sm_80", schedule, "a cluster of 2, 4 or 8 blocks");
    refuse_multiply_adds(DTYPE_F64, "sm_90a", schedule, "sums of 32 bits");
    schedule.split_k = 8;
    refuse_multiply_adds(DTYPE_F32, "sm_90a", schedule, "at least one step of K");
    schedule.split_k = 0;
    schedule.stages = 9;
    refuse_multiply_adds(DTYPE_F32, "sm_90a", schedule, "2 to 8 stages");
}

static void test_multiply_adds_softmax(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_80");
    Value *x = INPUT(&c, "x", DTYPE_F32, 70, 20), *w = INPUT(&c, "w", DTYPE_F32, 20, 61);
    Value *s = case_matmul(&c, x, w);
    Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, s, case_row(&c, OP_reduce_max, s), NULL, NULL), NULL,
                       NULL, NULL);
    case_output(&c, "y", case_op(&c, OP_div, e, case_row(&c, OP_sum, e), NULL, NULL));
    Schedule schedule = simt_schedule(64, 64, 16, 4, 1);
    case_check(&c, &schedule, 1e-5);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copied),
        cmocka_unit_test(test_narrow_copies),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_f64_refused),
        cmocka_unit_test(test_prologue),
        cmocka_unit_test(test_prologue_of_many_inputs),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_two_products),
        cmocka_unit_test(test_multiply_adds),
        cmocka_unit_test(test_multiply_adds_split),
        cmocka_unit_test(test_multiply_adds_refused),
        cmocka_unit_test(test_multiply_adds_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
