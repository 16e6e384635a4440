/* Chained products in one kernel, in the simulator, against the reference: depths, layouts, ragged shapes,
 * clusters, passes, softmax between the two. */
#include "matmul_support.h"

static Schedule chain_schedule(int warps_m, int tile_n, int cluster) {
    return (Schedule){.path = MATMUL_WGMMA,
                      .tile_m = 64 * warps_m,
                      .tile_n = tile_n,
                      .tile_k = 64,
                      .warps_m = warps_m,
                      .warps_n = 1,
                      .stages = 3,
                      .later_stages = 4,
                      .cluster_m = cluster,
                      .tma_store = true,
                      .producer_registers = warps_m == 2 ? 40 : 0,
                      .consumer_registers = warps_m == 2 ? 232 : 0};
}

static void chain_open(Case *c) {
    case_open(c, "sm_90a");
    c->is_chain = true;
}

static Value *chain_relu(Case *c, Value *x) {
    return case_op(c, OP_max, x, case_number(c, 0), NULL, NULL);
}

/* x @ w.T + b, rectified and rounded. */
static Value *chain_layer(Case *c, Value *x, int64_t n, bool transposed, int number) {
    int64_t k = x->dims[x->rank - 1]->value;
    Value *w =
        transposed
            ? case_t(c, case_input(c, text_format(c->arena, "w%d", number), x->dtype, 2, (int64_t[]){n, k}))
            : case_input(c, text_format(c->arena, "w%d", number), x->dtype, 2, (int64_t[]){k, n});
    Value *b = case_input(c, text_format(c->arena, "b%d", number), x->dtype, 1, &n);
    Value *y = chain_relu(c, case_op(c, OP_add, case_matmul(c, x, w), b, NULL, NULL));
    return case_cast(c, y, x->dtype);
}

static void check_mlp(DType type, int64_t m, const int64_t *n, int layers, bool transposed, int sms,
                      Schedule schedule) {
    Case c;
    chain_open(&c);
    Target few = *c.target; /* several tiles for each block */
    few.sm_count = sms;
    c.target = &few;
    Value *x = case_input(&c, "x", type, 2, (int64_t[]){m, n[0]});
    for (int i = 1; i <= layers; i++)
        x = chain_layer(&c, x, n[i], transposed, i);
    case_output(&c, "y", x);
    case_check(&c, &schedule, 1e-2);
    case_close(&c);
}

static void test_two(void **state) {
    (void)state;
    check_mlp(DTYPE_BF16, 64, (int64_t[]){64, 64, 64}, 2, true, 132, chain_schedule(1, 64, 1));
    check_mlp(DTYPE_F16, 300, (int64_t[]){136, 96, 32}, 2, true, 2, chain_schedule(2, 32, 1));
    check_mlp(DTYPE_BF16, 70, (int64_t[]){136, 128, 64}, 2, false, 132, chain_schedule(1, 64, 1));
}

static void test_ragged(void **state) {
    (void)state;
    check_mlp(DTYPE_BF16, 130, (int64_t[]){72, 40, 24}, 2, true, 132, chain_schedule(2, 32, 1));
    check_mlp(DTYPE_BF16, 1, (int64_t[]){8, 8, 8}, 2, true, 132, chain_schedule(1, 16, 1));
    check_mlp(DTYPE_F16, 65, (int64_t[]){24, 72, 40}, 2, false, 132, chain_schedule(1, 48, 1));
}

static void test_three(void **state) {
    (void)state;
    check_mlp(DTYPE_BF16, 200, (int64_t[]){72, 64, 40, 96}, 3, true, 2, chain_schedule(2, 96, 1));
}

static void test_cluster(void **state) {
    (void)state;
    check_mlp(DTYPE_BF16, 300, (int64_t[]){136, 96, 64}, 2, true, 2, chain_schedule(1, 64, 2));
    check_mlp(DTYPE_BF16, 300, (int64_t[]){72, 128, 128}, 2, false, 2, chain_schedule(1, 128, 2));
}

static void test_passes(void **state) {
    (void)state;
    check_mlp(DTYPE_BF16, 140, (int64_t[]){72, 48, 200}, 2, true, 2, chain_schedule(2, 64, 1));
}

static void test_resident(void **state) {
    (void)state;
    for (int cluster = 1; cluster <= 2; cluster++) {
        Schedule schedule = chain_schedule(1, 64, cluster);
        schedule.later_stages = 0;
        check_mlp(DTYPE_BF16, 300, (int64_t[]){136, 96, 200}, 2, true, 2, schedule); /* in passes */
        schedule.tile_k = 32;
        schedule.tile_n = 128;
        check_mlp(DTYPE_BF16, 300, (int64_t[]){72, 128, 128, 128}, 3, false, 2, schedule);
    }
}

/* q @ k.T, softmax along its rows, @ v. */
static void check_attention(int64_t heads, int64_t kv_heads, int64_t s, int64_t t, int64_t d,
                            Schedule schedule) {
    Case c;
    chain_open(&c);
    Value *q = INPUT(&c, "q", DTYPE_BF16, 2, heads, s, d), *k = INPUT(&c, "k", DTYPE_BF16, 2, kv_heads, t, d),
          *v = INPUT(&c, "v", DTYPE_BF16, 2, kv_heads, t, d);
    Value *x = case_op(&c, OP_mul, case_matmul(&c, q, case_t(&c, k)), case_number(&c, 0.125), NULL, NULL);
    Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, x, case_row(&c, OP_reduce_max, x), NULL, NULL), NULL,
                       NULL, NULL);
    Value *p = case_op(&c, OP_div, e, case_row(&c, OP_sum, e), NULL, NULL);
    Value *y = case_matmul(&c, case_cast(&c, p, DTYPE_BF16), v);
    case_output(&c, "y", case_cast(&c, y, DTYPE_BF16));
    case_check(&c, &schedule, 1e-2);
    case_close(&c);
}

static void test_attention(void **state) {
    (void)state;
    check_attention(3, 3, 49, 49, 32, chain_schedule(1, 32, 1));
    check_attention(4, 2, 130, 77, 64, chain_schedule(2, 64, 1));
    check_attention(1, 1, 70, 257, 64, chain_schedule(2, 64, 1)); /* two instructions side by side */
}

static Schedule latent_schedule(int columns, int part) {
    Schedule schedule = chain_schedule(1, columns, 1);
    schedule.warps_n = 2;
    schedule.tile_k = part;
    schedule.stages = 2;
    schedule.later_stages = 0;
    schedule.tma_store = false;
    schedule.producer_registers = 24;
    schedule.consumer_registers = 240;
    return schedule;
}

typedef struct Latent {
    DType type;
    int64_t matrices, rows, keys, depth, from, columns;
} Latent;

/* Attention of which the values are columns of the keys, with the logarithms of rows' sums. */
static void latent_open(Case *c, const Latent *latent, const Target *target) {
    chain_open(c);
    if (target)
        c->target = target;
    Value *q = INPUT(c, "q", latent->type, latent->matrices, latent->rows, latent->depth),
          *k = INPUT(c, "k", latent->type, latent->matrices, latent->keys, latent->depth);
    Value *v = case_part(c, k, 2, latent->from, latent->from + latent->columns);
    Value *x = case_op(c, OP_mul, case_matmul(c, q, case_t(c, k)), case_number(c, 0.0625), NULL, NULL);
    Value *max = case_row(c, OP_reduce_max, x);
    Value *e = case_op(c, OP_exp, case_op(c, OP_sub, x, max, NULL, NULL), NULL, NULL, NULL);
    Value *sum = case_row(c, OP_sum, e);
    Value *p = case_op(c, OP_div, e, sum, NULL, NULL);
    Value *y = case_matmul(c, case_cast(c, p, latent->type), v);
    case_output(c, "y", case_cast(c, y, latent->type));
    Value *log = case_op(c, OP_log, sum, NULL, NULL, NULL);
    case_output(c, "l", case_op(c, OP_add, max, log, NULL, NULL));
}

static void check_latent(Latent latent, Schedule schedule) {
    Case c;
    Target few = *target_find("sm_90a"); /* several tiles for each block */
    few.sm_count = 2;
    latent_open(&c, &latent, &few);
    case_check(&c, &schedule, 1e-2);
    case_close(&c);
}

/* Two warpgroups share the columns of 64 rows; of the keys' tile the values are read too, or of one of their
 * own, where no block of it begins with them. */
static void test_latent(void **state) {
    (void)state;
    check_latent((Latent){DTYPE_BF16, 3, 16, 200, 576, 0, 512}, latent_schedule(512, 64));
    check_latent((Latent){DTYPE_F16, 1, 100, 130, 320, 64, 256}, latent_schedule(256, 64));
    check_latent((Latent){DTYPE_BF16, 1, 64, 256, 192, 0, 128}, latent_schedule(128, 128));
    check_latent((Latent){DTYPE_F16, 2, 70, 97, 192, 24, 80}, latent_schedule(128, 32));
    check_latent((Latent){DTYPE_BF16, 1, 64, 64, 384, 64, 300},
                 latent_schedule(384, 32)); /* beyond the keys */
    Schedule alone = latent_schedule(80, 64);
    alone.warps_n = 1;
    alone.producer_registers = alone.consumer_registers = 0;
    alone.tma_store = true;
    check_latent((Latent){DTYPE_BF16, 2, 70, 97, 160, 32, 80}, alone);
}

static void test_latent_refusals(void **state) {
    (void)state;
    Case c;
    Latent wide = {DTYPE_BF16, 1, 64, 400, 576, 0, 512}, apart = {DTYPE_BF16, 1, 64, 400, 576, 8, 512};
    Schedule schedules[] = {latent_schedule(512, 64), latent_schedule(512, 128), latent_schedule(512, 48),
                            latent_schedule(448, 64)};
    const char *words[] = {NULL, "shared memory", "multiple of 32", "tile_n"};
    for (int i = 0; i < 4; i++) {
        const char *why = NULL;
        latent_open(&c, &wide, NULL);
        case_region(&c);
        assert_int_equal(template_chain.accepts(c.graph, &c.region, &schedules[i], c.target, &why),
                         !words[i]);
        assert_true(!words[i] || strstr(why, words[i]));
        case_close(&c);
    }
    const char *why = NULL; /* a tile of values besides */
    latent_open(&c, &apart, NULL);
    case_region(&c);
    assert_false(template_chain.accepts(c.graph, &c.region, &schedules[0], c.target, &why));
    assert_non_null(strstr(why, "shared memory"));
    schedules[0].tile_k = 32;
    assert_true(template_chain.accepts(c.graph, &c.region, &schedules[0], c.target, &why));
    case_close(&c);
}

static void test_symbolic(void **state) {
    (void)state;
    Case c;
    chain_open(&c);
    const Dim *m = dim_symbol(c.graph->dims, "M"), *k = dim_const(c.graph->dims, 72);
    Value *x = graph_add_input(c.graph, "x", DTYPE_BF16, 2, (const Dim *[]){m, k}, NULL, (Span){0});
    case_output(&c, "y", chain_layer(&c, chain_layer(&c, x, 48, true, 1), 24, true, 2));
    case_bind(&c, "M", 150);
    case_check(&c, NULL, 1e-2);
    case_close(&c);
}

static const char *refusal(Case *c, Value *y, Schedule schedule) {
    const char *why = NULL;
    case_output(c, "y", y);
    case_region(c);
    assert_false(template_chain.accepts(c->graph, &c->region, &schedule, c->target, &why));
    assert_non_null(why);
    return why;
}

static void test_refusals(void **state) {
    (void)state;
    Case c;
    chain_open(&c);
    Value *x = INPUT(&c, "x", DTYPE_BF16, 64, 64);
    const char *why =
        refusal(&c, chain_layer(&c, chain_layer(&c, x, 328, true, 1), 64, true, 2), chain_schedule(1, 64, 1));
    assert_non_null(strstr(why, "columns between"));
    case_close(&c);

    chain_open(&c);
    x = INPUT(&c, "x", DTYPE_BF16, 64, 33);
    why =
        refusal(&c, chain_layer(&c, chain_layer(&c, x, 64, true, 1), 64, true, 2), chain_schedule(1, 64, 1));
    assert_non_null(strstr(why, "16 bytes"));
    case_close(&c);

    chain_open(&c); /* what the first link computes is needed beside the second product too */
    x = INPUT(&c, "x", DTYPE_BF16, 64, 64);
    Value *h = chain_layer(&c, x, 64, true, 1);
    Value *y = chain_layer(&c, h, 64, true, 2);
    why = refusal(&c, case_op(&c, OP_add, y, case_op(&c, OP_neg, h->in[0], NULL, NULL, NULL), NULL, NULL),
                  chain_schedule(1, 64, 1));
    assert_non_null(strstr(why, "only the next link"));
    case_close(&c);

    chain_open(&c);
    x = INPUT(&c, "x", DTYPE_BF16, 64, 64);
    why = refusal(&c, chain_layer(&c, chain_layer(&c, x, 256, true, 1), 256, true, 2),
                  chain_schedule(2, 256, 1));
    assert_non_null(strstr(why, "registers"));
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_symbolic),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_latent),
        cmocka_unit_test(test_latent_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
