/* Variants of plans with symbolic dims: which sizes are whose, and that each computes what it should. */
#include "tests/unit/runtime/plan_bench.h"

#include <math.h>

static const char text[] =
    "sinter 1\n"
    "graph linear (x: f16[M, K], w: f16[N, K]) -> (y: f32[M, N]) { y = x @ w.T }\n"
    "graph layer (x: f16[M, 4096], w: f16[4096, 4096]) -> (y: f16[M, 4096]) { y = relu(x @ w.T) }\n"
    "graph tokens (x: f16[B, S, 4096], w: f16[4096, 4096]) -> (y: f16[B, S, 4096]) where B * S <= 300\n"
    "{ y = x @ w.T }\n"
    "graph rows (x: f32[M, N]) -> (y: f32[M, N]) { y = softmax(x, over=N) }\n"
    "graph add (x: f32[M], y: f32[M]) -> (z: f32[M]) where M >= 1 { z = x + y }\n"
    "graph empty (x: f32[4]) -> (y: f32[4]) { y = x + x }\n";

/* The values of dims by name, in the plan's order. */
static const sinter_plan *select_for(const sinter_plan *plan, const sinter_dim *dims, int n, int64_t *out) {
    assert_int_equal(sinter_plan_dim_count(plan), n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (strcmp(dims[k].name, sinter_plan_dim_name(plan, i)) == 0)
                out[i] = dims[k].value;
    return sinter_plan_select(plan, out, n);
}

static const char *guard_of(const Bench *bench, const sinter_dim *dims, int n) {
    int64_t values[4];
    return sinter_plan_guard(select_for(bench->plan, dims, n, values));
}

static uint16_t half_of(int number) { /* -4 to 4, exact */
    static const uint16_t halves[] = {0xC400, 0xC200, 0xC000, 0xBC00, 0, 0x3C00, 0x4000, 0x4200, 0x4400};
    return halves[number + 4];
}

static int digit(int64_t i, int salt) {
    return (int)((i * 2654435761u + (unsigned)salt) >> 7 & 0x7fffffff) % 9 - 4;
}

/* Runs `linear` on the simulator; every sum is exact. */
static void run_linear(const Bench *bench, int64_t m, int64_t n, int64_t k) {
    int64_t dims[3];
    select_for(bench->plan, (sinter_dim[]){{"M", m}, {"N", n}, {"K", k}}, 3, dims);
    uint16_t *x = aligned_alloc(256, (size_t)(m * k * 2 / 256 + 1) * 256),
             *w = aligned_alloc(256, (size_t)(n * k * 2 / 256 + 1) * 256);
    float *y = aligned_alloc(256, (size_t)(m * n * 4 / 256 + 1) * 256);
    for (int64_t i = 0; i < m * k; i++)
        x[i] = half_of(digit(i, 1));
    for (int64_t i = 0; i < n * k; i++)
        w[i] = half_of(digit(i, 77));
    memset(y, 0xFF, (size_t)(m * n) * 4);
    size_t bytes;
    assert_int_equal(sinter_plan_workspace(bench->plan, dims, 3, &bytes), SINTER_OK);
    void *workspace = aligned_alloc(256, bytes / 256 * 256 + 256);
    char message[256] = "";
    sinter_execution e = {.size = sizeof e,
                          .inputs = (void *[]){x, w},
                          .n_inputs = 2,
                          .outputs = (void *[]){y},
                          .n_outputs = 1,
                          .dims = dims,
                          .n_dims = 3,
                          .workspace = workspace,
                          .workspace_bytes = bytes,
                          .message = message,
                          .message_room = sizeof message};
    if (sinter_plan_simulate(bench->plan, &e))
        fail_msg("%lld x %lld x %lld: %s", (long long)m, (long long)n, (long long)k, message);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int sum = 0;
            for (int64_t c = 0; c < k; c++)
                sum += digit(i * k + c, 1) * digit(j * k + c, 77);
            if (y[i * n + j] != (float)sum)
                fail_msg("%lld x %lld x %lld: %f for %d", (long long)m, (long long)n, (long long)k,
                         (double)y[i * n + j], sum);
        }
    free(workspace);
    free(x);
    free(w);
    free(y);
}

static void test_every_size_is_right(void **state) {
    (void)state;
    Bench bench = open_bench(text, "linear", &(sinter_plan_options){0});
    static const int64_t rows[] = {0, 1, 2, 16, 17, 65, 129, 257, 330};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run_linear(&bench, rows[i], 24, 40);
    run_linear(&bench, 5, 23, 40); /* what no variant is for */
    run_linear(&bench, 5, 24, 41);
    run_linear(&bench, 70, 24, 0);
    run_linear(&bench, 70, 0, 8);
    close_bench(&bench);
}

#define GUARD(bench, ...)                                                                                    \
    guard_of(bench, (sinter_dim[]){__VA_ARGS__},                                                             \
             (int)(sizeof(sinter_dim[]){__VA_ARGS__} / sizeof(sinter_dim)))

static void test_sizes_have_their_variants(void **state) {
    (void)state;
    Bench bench = open_bench(text, "linear", &(sinter_plan_options){0});
    assert_non_null(strstr(GUARD(&bench, {"M", 1}, {"N", 64}, {"K", 64}), "M == 1, "));
    assert_non_null(strstr(GUARD(&bench, {"M", 9}, {"N", 64}, {"K", 64}), "<= M <= 16, "));
    assert_non_null(strstr(GUARD(&bench, {"M", 300}, {"N", 64}, {"K", 64}), "257 <= M"));
    assert_non_null(strstr(GUARD(&bench, {"M", 9}, {"N", 64}, {"K", 64}), "K % 8 == 0"));
    assert_non_null(strstr(GUARD(&bench, {"M", 1 << 20}, {"N", 64}, {"K", 64}), "1 <= M"));
    assert_string_equal(GUARD(&bench, {"M", 9}, {"N", 64}, {"K", 63}), "");
    assert_string_equal(GUARD(&bench, {"M", 9}, {"N", 64}, {"K", 0}), "");
    assert_string_equal(GUARD(&bench, {"M", 0}, {"N", 64}, {"K", 64}), "");
    assert_string_equal(GUARD(&bench, {"M", -1}, {"N", 64}, {"K", 64}), ""); /* and is refused there */
    close_bench(&bench);
    bench = open_bench(text, "tokens", &(sinter_plan_options){0}); /* a product of dims is cut like one dim */
    assert_non_null(strstr(GUARD(&bench, {"B", 4}, {"S", 4}), "<= B*S <= 16"));
    assert_non_null(strstr(GUARD(&bench, {"B", 1}, {"S", 1}), "B*S == 1"));
    close_bench(&bench);
    bench = open_bench(text, "rows", &(sinter_plan_options){0});
    assert_non_null(strstr(GUARD(&bench, {"M", 4}, {"N", 1000}), "N <= 1024"));
    assert_string_equal(GUARD(&bench, {"M", 4}, {"N", 1001}), "");
    close_bench(&bench);
}

/* Every variant is chosen for some size, and is a plan that can be asked. */
static void test_variants_are_plans(void **state) {
    (void)state;
    Bench bench = open_bench(text, "layer", &(sinter_plan_options){0});
    int n = sinter_plan_variant_count(bench.plan);
    assert_true(n >= 5);
    assert_null(sinter_plan_variant(bench.plan, n));
    assert_null(sinter_plan_variant(bench.plan, -1));
    assert_string_equal(sinter_plan_guard(bench.plan), "");
    for (int i = 0; i < n; i++) {
        const sinter_plan *variant = sinter_plan_variant(bench.plan, i);
        bool chosen = false;
        for (int64_t m = 1; m <= 8192 && !chosen; m++)
            chosen = sinter_plan_select(bench.plan, &m, 1) == variant;
        assert_true(chosen);
        assert_int_equal(sinter_plan_variant_count(variant), 0);
        assert_int_equal(sinter_plan_dim_count(variant), 1);
        sinter_kernel kernel = {.size = sizeof kernel};
        assert_int_equal(sinter_plan_kernel(variant, 0, &kernel), SINTER_OK);
        assert_non_null(strstr(sinter_plan_explain(bench.plan), sinter_plan_guard(variant)));
    }
    sinter_metrics metrics = {.size = sizeof metrics};
    sinter_context_metrics(bench.context, &metrics);
    assert_int_equal(metrics.plans, 1);
    assert_int_equal(metrics.kernels, 1 + n);
    close_bench(&bench);
}

static void test_none_where_none_is_wanted(void **state) {
    (void)state;
    Bench bench = open_bench(text, "layer", &(sinter_plan_options){.no_variants = 1});
    assert_int_equal(sinter_plan_variant_count(bench.plan), 0);
    close_bench(&bench);
    bench = open_bench(text, "layer", &(sinter_plan_options){.dims = &(sinter_dim){"M", 7}, .n_dims = 1});
    assert_int_equal(sinter_plan_variant_count(bench.plan), 0);
    close_bench(&bench);
    bench = open_bench(text, "layer", &(sinter_plan_options){.no_fusion = 1});
    assert_int_equal(sinter_plan_variant_count(bench.plan), 0);
    close_bench(&bench);
    bench = open_bench(text, "add", &(sinter_plan_options){0}); /* would be the same kernel */
    assert_int_equal(sinter_plan_variant_count(bench.plan), 0);
    close_bench(&bench);
    bench = open_bench(text, "empty", &(sinter_plan_options){0});
    assert_int_equal(sinter_plan_variant_count(bench.plan), 0);
    close_bench(&bench);
}

/* A size that is expected is not cut: all schedules are chosen for it. */
static void test_hints_are_kept(void **state) {
    (void)state;
    Bench bench =
        open_bench(text, "layer", &(sinter_plan_options){.hints = &(sinter_dim){"M", 8}, .n_hints = 1});
    for (int i = 0; i < sinter_plan_variant_count(bench.plan); i++)
        assert_string_equal(sinter_plan_guard(sinter_plan_variant(bench.plan, i)), "1 <= M");
    close_bench(&bench);
}

typedef struct Late {
    Bench *bench;
    sinter_plan_options options;
} Late;

static void make_late(void *context) {
    Late *late = context;
    plan_make_family(late->bench->plan, late->bench->graph, &late->options);
}

/* The plan is there, and for its variants no memory is left. */
static void test_what_fails_is_left_out(void **state) {
    (void)state;
    Late late = {.options = {.size = sizeof late.options, .stage = SINTER_STAGE_KERNELS, .no_variants = 1}};
    Bench bench = open_bench(text, "linear", &late.options);
    late.bench = &bench;
    bench.context->memory_limit = 1024;
    assert_true(arena_run(bench.plan->arena, make_late, &late));
    bench.context->memory_limit = 0;
    assert_int_equal(sinter_plan_variant_count(bench.plan), 0);
    assert_int_equal(bench.plan->diags.errors, 0);
    assert_int_equal(bench.plan->diags.list.n, 1);
    assert_non_null(strstr(bench.plan->diags.list.at[0].message, "no kernels of their own for "));
    run_linear(&bench, 5, 24, 40);
    close_bench(&bench);
}

/* With less memory than variants take there are fewer of them, or no plan. */
static void test_memory_limits(void **state) {
    (void)state;
    bool planned = false, whole = false;
    for (size_t limit = 1 << 16; !whole; limit += limit / 8) {
        assert_true(limit < (size_t)1 << 30);
        Bench bench = {.plan = NULL};
        sinter_context_options options = {.size = sizeof options, .memory_limit = limit};
        assert_int_equal(sinter_context_create(&options, &bench.context), SINTER_OK);
        sinter_source source = {.size = sizeof source, .text = text, .graph = "layer"};
        sinter_status status = sinter_graph_parse(bench.context, &source, &bench.graph);
        sinter_plan_options asked = {.size = sizeof asked, .stage = SINTER_STAGE_KERNELS};
        if (!status)
            status = sinter_plan_create(bench.context, bench.graph, &asked, &bench.plan);
        assert_true(status == SINTER_OK || status == SINTER_OUT_OF_MEMORY);
        planned |= !status;
        whole =
            !status && !sinter_plan_diagnostic(bench.plan, 0) && sinter_plan_variant_count(bench.plan) >= 5;
        close_bench(&bench);
    }
    assert_true(planned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_is_right),    cmocka_unit_test(test_sizes_have_their_variants),
        cmocka_unit_test(test_variants_are_plans),     cmocka_unit_test(test_none_where_none_is_wanted),
        cmocka_unit_test(test_hints_are_kept),         cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_what_fails_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
