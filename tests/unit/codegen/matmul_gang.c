/* Epilogues that need more than their own tile: rows that lie in several blocks, and inputs that come through
 * the ring of stages. Simulated, against the reference. */
#include "matmul_support.h"

static Schedule gang_schedule(int tile_m, int tile_n, bool ping_pong) {
    return (Schedule){.path = MATMUL_WGMMA,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = 64,
                      .warps_m = 2,
                      .warps_n = 1,
                      .stages = 3,
                      .tma_store = true,
                      .ping_pong = ping_pong,
                      .producer_registers = ping_pong ? 24 : 40,
                      .consumer_registers = ping_pong ? 240 : 232};
}

static Value *gang_product(Case *c, int64_t m, int64_t n) {
    Value *x = INPUT(c, "x", DTYPE_BF16, m, 72), *w = INPUT(c, "w", DTYPE_BF16, n, 72);
    return case_matmul(c, x, case_t(c, w));
}

static Value *two(Case *c, OpKind op, Value *a, Value *b) {
    return case_op(c, op, a, b, NULL, NULL);
}

/* Blocks of a row: whole tiles, a ragged last one, and more blocks than lanes that share a row. */
static const int64_t gang_columns[] = {128, 104, 328};

static void test_softmax(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof gang_columns / sizeof *gang_columns; i++)
        for (int ping_pong = 0; ping_pong < 2; ping_pong++) {
            Case c;
            case_open(&c, "sm_90a");
            Value *s = gang_product(&c, 300, gang_columns[i]);
            Value *e =
                case_op(&c, OP_exp, two(&c, OP_sub, s, case_row(&c, OP_reduce_max, s)), NULL, NULL, NULL);
            Value *total = case_row(&c, OP_sum, e);
            case_output(&c, "total", total);
            case_output(&c, "y", case_cast(&c, two(&c, OP_div, e, total), DTYPE_BF16));
            Schedule schedule = gang_schedule(128, 64, ping_pong);
            case_check(&c, &schedule, 5e-3);
            case_close(&c);
        }
}

/* The residual comes through the ring; the sum of both is stored before the statistics are there. */
static void test_layernorm(void **state) {
    (void)state;
    for (int tile_m = 128; tile_m <= 256; tile_m += 128) {
        Case c;
        case_open(&c, "sm_90a");
        int64_t n = 200;
        Value *product = gang_product(&c, 300, n);
        Value *r = INPUT(&c, "r", DTYPE_BF16, 300, n), *g = INPUT(&c, "g", DTYPE_F32, n);
        Value *s = case_cast(&c, two(&c, OP_add, product, r), DTYPE_BF16), *per = case_number(&c, 1.0 / 200);
        Value *d =
            two(&c, OP_sub, s, two(&c, OP_mul, case_row(&c, OP_sum, case_cast(&c, s, DTYPE_F32)), per));
        Value *variance = two(&c, OP_mul, case_row(&c, OP_sum, two(&c, OP_mul, d, d)), per);
        Value *inverse =
            case_op(&c, OP_rsqrt, two(&c, OP_add, variance, case_number(&c, 1e-5)), NULL, NULL, NULL);
        case_output(&c, "s", s);
        case_output(&c, "y", case_cast(&c, two(&c, OP_mul, two(&c, OP_mul, d, inverse), g), DTYPE_BF16));
        Schedule schedule = gang_schedule(tile_m, 64, false);
        case_check(&c, &schedule, 1e-2);
        case_close(&c);
    }
}

static int loads_of(const KBlock *block, const char *name) {
    int n = 0;
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        n += stmt->kind == KS_LOAD && !strcmp(stmt->buffer->name, name);
        n += loads_of(&stmt->body, name) + loads_of(&stmt->other, name);
    }
    return n;
}

/* What both the statistic and the output want of an input is loaded once, where accumulators leave room. */
static void test_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof gang_columns / sizeof *gang_columns; i++)
        for (int odd = 0; odd < 2; odd++) {
            Case c;
            case_open(&c, "sm_90a");
            int64_t n = gang_columns[i] + odd; /* odd: runs of one element */
            Value *dp = gang_product(&c, 300, n), *p = INPUT(&c, "shares", DTYPE_BF16, 300, n);
            Value *q = INPUT(&c, "q", DTYPE_BF16, 300, n),
                  *sum = case_row(&c, OP_sum, two(&c, OP_mul, dp, p));
            Value *ds = two(&c, OP_mul, p, two(&c, OP_sub, dp, sum));
            case_output(&c, "ds", case_cast(&c, two(&c, OP_add, ds, q), DTYPE_BF16));
            Schedule schedule = gang_schedule(128, 64, false);
            const Kernel *kernel = case_kernel(&c, &schedule);
            assert_int_equal(loads_of(&kernel->body, "shares"), 1);
            case_check(&c, &schedule, 1e-2);
            case_close(&c);
        }
}

static void test_refused(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    case_output(&c, "y", case_row(&c, OP_argmax, gang_product(&c, 128, 128)));
    case_region(&c);
    Schedule schedule = gang_schedule(128, 64, false);
    const char *why = NULL;
    assert_false(template_matmul.accepts(c.graph, &c.region, &schedule, c.target, &why));
    assert_non_null(strstr(why, "not their places"));
    case_close(&c);
}

/* Whether the kernel reads `name` through a tensor map. */
static bool has_map(const Kernel *kernel, const char *name) {
    for (size_t i = 0; i < kernel->params.n; i++)
        if (kernel->params.at[i].kind == PARAM_TENSOR_MAP &&
            kernel->params.at[i].map.buffer->value->name == name)
            return true;
    return false;
}

/* Through the ring of stages where the warpgroups share tiles, from memory where they take turns. */
static void test_inputs(void **state) {
    (void)state;
    static const struct {
        int tile_m, tile_n;
        bool ping_pong;
    } tiles[] = {{128, 64, false}, {128, 128, false}, {256, 128, false}, {128, 128, true}, {128, 192, true}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        Case c;
        case_open(&c, "sm_90a");
        int64_t n = 264;
        Value *product = gang_product(&c, 300, n);
        Value *r = INPUT(&c, "r", DTYPE_BF16, 300, n), *g = INPUT(&c, "g", DTYPE_F16, 300, n);
        Value *s = two(&c, OP_add, product, r);
        case_output(&c, "y", case_cast(&c, two(&c, OP_mul, s, g), DTYPE_BF16));
        case_output(&c, "z", two(&c, OP_sub, s, g));
        Schedule schedule = gang_schedule(tiles[i].tile_m, tiles[i].tile_n, tiles[i].ping_pong);
        assert_int_equal(has_map(case_kernel(&c, &schedule), r->name), !tiles[i].ping_pong);
        case_check(&c, &schedule, 5e-3);
        case_close(&c);
    }
}

/* An input that is wanted at other columns too is read from memory. */
static void test_input_read_elsewhere(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *product = gang_product(&c, 128, 128), *r = INPUT(&c, "r", DTYPE_BF16, 128, 128);
    case_output(&c, "y", two(&c, OP_add, two(&c, OP_add, product, r), case_t(&c, r)));
    Schedule schedule = gang_schedule(128, 64, false);
    assert_false(has_map(case_kernel(&c, &schedule), r->name));
    case_check(&c, &schedule, 1e-5);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_kept),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_inputs),  cmocka_unit_test(test_input_read_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
