/* Statistics of a product's tiles, in the simulator, against the reference: every reduction, blocks that the
 * matrix does not fill, batches, every path that takes them. */
#include "matmul_support.h"

static Schedule block_schedule(MatmulPath path, int tile_m, int tile_n, int warps_m, int warps_n) {
    bool wgmma = path == MATMUL_WGMMA;
    return (Schedule){.path = path,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = 64,
                      .warps_m = warps_m,
                      .warps_n = warps_n,
                      .stages = 3,
                      .group_m = 2,
                      .tma_store = wgmma,
                      .producer_registers = wgmma && warps_m == 2 ? 40 : 0,
                      .consumer_registers = wgmma && warps_m == 2 ? 232 : 0};
}

static const Dim **block_dims(Case *c, const Value *x) {
    const Dim **dims = ARENA_ARRAY(c->arena, const Dim *, RANK_MAX);
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    return dims;
}

/* x in blocks along `axis`, padded with `border`. */
static Value *block_cut(Case *c, Value *x, int axis, int block, Value *border) {
    DimTable *table = c->graph->dims;
    int64_t extent = x->dims[axis]->value, blocks = (extent + block - 1) / block;
    if (extent % block) {
        Attr attrs[OP_MAX_ATTRS] = {{.dims = block_dims(c, x), .n_dims = x->rank},
                                    {.dims = block_dims(c, x), .n_dims = x->rank}};
        for (int i = 0; i < x->rank; i++) {
            attrs[0].dims[i] = dim_const(table, 0);
            attrs[1].dims[i] = dim_const(table, i == axis ? blocks * block - extent : 0);
        }
        x = case_op(c, OP_pad, x, border, NULL, attrs);
    }
    Attr attrs[OP_MAX_ATTRS] = {{.dims = block_dims(c, x), .n_dims = x->rank + 1}};
    for (int i = x->rank; i > axis + 1; i--)
        attrs[0].dims[i] = x->dims[i - 1];
    attrs[0].dims[axis] = dim_const(table, blocks);
    attrs[0].dims[axis + 1] = dim_const(table, block);
    return case_op(c, OP_reshape, x, NULL, NULL, attrs);
}

static Value *block_reduce(Case *c, OpKind op, Value *x, int axis, int block, Value *border) {
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {.n = 1, .at = {axis + 1}}}, {.i = 1}};
    return case_op(c, op, block_cut(c, x, axis, block, border), NULL, NULL, attrs);
}

/* The statistic for every element of x. */
static Value *block_repeat(Case *c, Value *statistic, const Value *x) {
    const Value *cut = statistic->in[0], *whole = cut->in[0];
    Attr wide[OP_MAX_ATTRS] = {{.dims = block_dims(c, cut), .n_dims = cut->rank}};
    Attr flat[OP_MAX_ATTRS] = {{.dims = block_dims(c, whole), .n_dims = whole->rank}};
    Value *repeated = case_op(c, OP_broadcast, statistic, NULL, NULL, wide);
    repeated = case_op(c, OP_reshape, repeated, NULL, NULL, flat);
    if (value_same_dims(repeated, x))
        return repeated;
    Attr attrs[OP_MAX_ATTRS] = {{.dims = block_dims(c, x), .n_dims = x->rank},
                                {.dims = block_dims(c, x), .n_dims = x->rank},
                                {.ints = ARENA_ARRAY(c->arena, int, RANK_MAX), .n_ints = x->rank}};
    for (int i = 0; i < x->rank; i++) {
        attrs[0].dims[i] = dim_const(c->graph->dims, 0);
        attrs[2].ints[i] = 1;
    }
    return case_op(c, OP_slice, repeated, NULL, NULL, attrs);
}

static Value *block_product(Case *c, int64_t m, int64_t n, int64_t k) {
    Value *x = INPUT(c, "x", DTYPE_BF16, m, k), *w = INPUT(c, "w", DTYPE_BF16, n, k);
    return case_matmul(c, x, case_t(c, w));
}

static const Schedule *block_paths(int *n) {
    static Schedule paths[5];
    paths[0] = block_schedule(MATMUL_WGMMA, 64, 64, 1, 1);
    paths[1] = block_schedule(MATMUL_WGMMA, 128, 64, 2, 1);
    paths[2] = block_schedule(MATMUL_MMA_SYNC, 32, 64, 2, 1);
    paths[3] = paths[1];
    paths[3].ping_pong = true;
    paths[4] = paths[0];
    paths[4].cluster_m = 2;
    *n = 5;
    return paths;
}

/* Both statistics of `op`, of a product whose rows and columns do not fill their blocks. */
static void check_reductions(const Schedule *schedule, OpKind op, double border, int64_t m, int64_t n) {
    Case c;
    case_open(&c, "sm_90a");
    Target few = *c.target; /* several tiles for each block */
    few.sm_count = 2;
    c.target = &few;
    Value *product = block_product(&c, m, n, 72), *y = product;
    if (op == OP_prod) /* near 1, so that products stay in range */
        y = case_op(&c, OP_add, case_op(&c, OP_mul, y, case_number(&c, 0.001), NULL, NULL),
                    case_number(&c, 1), NULL, NULL);
    bool is_logical = op == OP_any || op == OP_all;
    Value *edge = case_number(&c, border), *of = y;
    if (is_logical) {
        of = case_op(&c, OP_gt, y, case_number(&c, op == OP_any ? 20 : -20), NULL, NULL);
        edge = case_cast(&c, edge, DTYPE_BOOL);
    }
    case_output(&c, "rows", block_reduce(&c, op, of, 1, 64, edge));
    case_output(&c, "columns", block_reduce(&c, op, of, 0, 16, edge));
    case_output(&c, "y", case_cast(&c, product, DTYPE_BF16));
    case_check(&c, schedule, 5e-3);
    case_close(&c);
}

static void test_reductions(void **state) {
    (void)state;
    int n;
    const Schedule *paths = block_paths(&n);
    check_reductions(&paths[1], OP_sum, 0, 200, 136);
    check_reductions(&paths[1], OP_prod, 1, 200, 136);
    check_reductions(&paths[1], OP_reduce_max, -INFINITY, 200, 136);
    check_reductions(&paths[1], OP_reduce_min, INFINITY, 200, 136);
    check_reductions(&paths[1], OP_any, 0, 200, 136);
    check_reductions(&paths[1], OP_all, 1, 200, 136);
    check_reductions(&paths[1], OP_argmax, -INFINITY, 200, 136);
    check_reductions(&paths[1], OP_argmin, INFINITY, 200, 136);
}

static void test_paths(void **state) {
    (void)state;
    int n;
    const Schedule *paths = block_paths(&n);
    for (int i = 0; i < n; i++) {
        check_reductions(&paths[i], OP_sum, 0, 200, 136);
        check_reductions(&paths[i], OP_argmax, -INFINITY, 128, 128);
        check_reductions(&paths[i], OP_reduce_max, -INFINITY, 69, 72);
    }
}

/* Odd numbers of columns: runs of one element, and outputs that no TMA takes. */
static void test_odd(void **state) {
    (void)state;
    Schedule mma = block_schedule(MATMUL_MMA_SYNC, 32, 64, 2, 1);
    check_reductions(&mma, OP_sum, 0, 35, 67);
    check_reductions(&mma, OP_reduce_max, -INFINITY, 16, 129);
    Schedule narrow = block_schedule(MATMUL_MMA_SYNC, 32, 16, 2, 1);
    Case c;
    case_open(&c, "sm_80");
    Value *y = block_product(&c, 50, 37, 40);
    case_output(&c, "rows", block_reduce(&c, OP_sum, y, 1, 16, case_number(&c, 0)));
    case_output(&c, "columns", block_reduce(&c, OP_sum, y, 0, 16, case_number(&c, 0)));
    case_check(&c, &narrow, 1e-5);
    case_close(&c);
}

/* The parts of a softmax's sum, several statistics at once, operands besides the product. */
static void test_online_softmax(void **state) {
    (void)state;
    int n;
    const Schedule *paths = block_paths(&n);
    for (int i = 0; i < n; i++) {
        Case c;
        case_open(&c, "sm_90a");
        Value *bias = INPUT(&c, "bias", DTYPE_BF16, 136), *r = INPUT(&c, "r", DTYPE_BF16, 200, 136);
        Value *y = case_op(&c, OP_add, block_product(&c, 200, 136, 72), bias, NULL, NULL);
        y = case_op(&c, OP_add, y, r, NULL, NULL);
        Value *max = block_reduce(&c, OP_reduce_max, y, 1, 64, case_number(&c, -INFINITY));
        Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, y, block_repeat(&c, max, y), NULL, NULL), NULL,
                           NULL, NULL);
        case_output(&c, "max", max);
        case_output(&c, "sum", block_reduce(&c, OP_sum, e, 1, 64, case_number(&c, 0)));
        case_output(&c, "column", block_reduce(&c, OP_sum, e, 0, 16, case_number(&c, 0)));
        case_output(
            &c, "square",
            block_reduce(&c, OP_sum, case_op(&c, OP_mul, y, y, NULL, NULL), 0, 16, case_number(&c, 0)));
        case_check(&c, &paths[i], 1e-5);
        case_close(&c);
    }
}

/* Column statistics beside statistics of whole rows, and of what those are applied to. */
static void test_beside_rows(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *y = block_product(&c, 136, 64, 72);
    Value *d = case_op(&c, OP_sub, y, case_row(&c, OP_reduce_max, y), NULL, NULL);
    case_output(&c, "d", case_cast(&c, d, DTYPE_BF16));
    case_output(&c, "column", block_reduce(&c, OP_sum, d, 0, 16, case_number(&c, 0)));
    Schedule schedule = block_schedule(MATMUL_WGMMA, 128, 64, 2, 1);
    case_check(&c, &schedule, 5e-3);
    case_close(&c);
}

static void test_batches_and_two_products(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *x = INPUT(&c, "x", DTYPE_BF16, 3, 70, 72), *w = INPUT(&c, "w", DTYPE_BF16, 3, 72, 72),
          *v = INPUT(&c, "v", DTYPE_BF16, 3, 72, 72);
    Value *y =
        case_op(&c, OP_mul, case_matmul(&c, x, case_t(&c, w)), case_matmul(&c, x, case_t(&c, v)), NULL, NULL);
    case_output(&c, "y", case_cast(&c, y, DTYPE_BF16));
    case_output(&c, "rows", block_reduce(&c, OP_sum, y, 2, 64, case_number(&c, 0)));
    case_output(&c, "columns", block_reduce(&c, OP_sum, y, 1, 16, case_number(&c, 0)));
    Schedule schedule = block_schedule(MATMUL_WGMMA, 64, 64, 1, 1);
    case_check(&c, &schedule, 5e-3);
    case_close(&c);

    case_open(&c, "sm_90a"); /* integers */
    x = INPUT(&c, "x", DTYPE_I8, 70, 64);
    w = INPUT(&c, "w", DTYPE_I8, 64, 64);
    y = case_matmul(&c, x, case_t(&c, w));
    case_output(&c, "rows", block_reduce(&c, OP_reduce_max, y, 1, 64, NULL));
    case_output(&c, "columns", block_reduce(&c, OP_sum, y, 0, 16, graph_constant_int(c.graph, 0, (Span){0})));
    case_check(&c, &schedule, 0);
    case_close(&c);
}

static void expect_refusal(Case *c, const Schedule *schedule, const char *word) {
    const char *why = "";
    assert_false(template_matmul.accepts(c->graph, &c->region, schedule, c->target, &why));
    if (!why || !strstr(why, word))
        fail_msg("'%s' does not say '%s'", why ? why : "", word);
}

static void test_refusals(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    Value *y = block_product(&c, 200, 136, 72);
    case_output(&c, "rows", block_reduce(&c, OP_sum, y, 1, 64, case_number(&c, 0)));
    case_region(&c);
    Schedule wide = block_schedule(MATMUL_WGMMA, 64, 128, 1, 1);
    expect_refusal(&c, &wide, "as many columns");
    Schedule swapped = block_schedule(MATMUL_WGMMA, 64, 64, 1, 1);
    swapped.swap_ab = true;
    expect_refusal(&c, &swapped, "swap_ab");
    Schedule warps = block_schedule(MATMUL_MMA_SYNC, 64, 64, 2, 2);
    expect_refusal(&c, &warps, "one warp");
    case_close(&c);

    case_open(&c, "sm_90a");
    y = block_product(&c, 200, 136, 72);
    case_output(&c, "columns", block_reduce(&c, OP_sum, y, 0, 16, case_number(&c, 0)));
    case_region(&c);
    expect_refusal(&c, &swapped, "swap_ab");
    case_close(&c);

    case_open(&c, "sm_90a"); /* parts of another length than a warp's rows */
    y = block_product(&c, 200, 136, 72);
    case_output(&c, "columns", block_reduce(&c, OP_sum, y, 0, 8, case_number(&c, 0)));
    case_region(&c);
    Schedule plain = block_schedule(MATMUL_WGMMA, 64, 64, 1, 1);
    expect_refusal(&c, &plain, "16 rows");
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),  cmocka_unit_test(test_paths),
        cmocka_unit_test(test_odd),         cmocka_unit_test(test_online_softmax),
        cmocka_unit_test(test_beside_rows), cmocka_unit_test(test_batches_and_two_products),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
