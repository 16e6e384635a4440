/* What follows fusion: long reductions in parts, the workspace, @expect and its reasons, and the runner's own
 * duties. */
#include "support.h"

static void test_long_rows_are_split(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[4, 1048576]) -> (y: f32[4]) { y = sum(x, over=1, keep=0) }", "rows rows",
                 NULL);
    expect_graph("graph g (x: f32[4096, 1024]) -> (y: f32[1024]) { y = sum(x * x, over=0, keep=0) }",
                 "columns columns", NULL);
    expect_graph("graph g (x: f32[2, 262144]) -> (y: f32[2, 1]) { y = reduce_max(x, over=1) }", "rows rows",
                 NO_DIMS);
    /* Enough rows, or rows too short, or numbered elements: one kernel. */
    expect_graph("graph g (x: f32[4096, 65536]) -> (y: f32[4096]) { y = sum(x, over=1, keep=0) }", "rows",
                 NULL);
    expect_graph("graph g (x: f32[4, 65536]) -> (y: f32[4]) { y = sum(x, over=1, keep=0) }", "rows", NULL);
    expect_graph("graph g (x: f32[4, 1048576]) -> (y: i64[4]) { y = argmax(x, over=1, keep=0) }", "rows",
                 NULL);
}

static void test_split_keeps_meaning(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[3, 131072]) -> (y: f32[3]) { y = sum(x * 0.01, over=1, keep=0) }",
                 "rows rows", NO_DIMS);
    expect_graph("graph g (x: f32[65536, 16]) -> (y: f32[16]) { y = reduce_max(x, over=0, keep=0) }",
                 "columns columns", NO_DIMS);
}

/* The columns of what a kernel of rows computes, reads or writes are that kernel's, in blocks of rows; and a
 * small kernel's. */
static void test_columns_beside_rows(void **state) {
    (void)state;
    const char *norm =
        "graph g (x: f32[2112, 256], d: f32[2112, 256]) -> (y: f32[2112, 256], s: f32[256]) {\n"
        "  n = x - mean(x, over=1)\n  y = d * n\n  s = sum(d * n, over=0, keep=0) }";
    expect_graph(norm, "rows>2 columns", NO_DIMS);
    expect_graph("graph g (x: f32[2112, 256]) -> (y: f32[2112, 256], s: f32[256]) {\n"
                 "  y = tanh(x)\n  s = reduce_max(y, over=0, keep=0) }",
                 "rows>2 columns", NO_DIMS);
    /* Batches, of which each has whole blocks; several columns' statistics, put together by one kernel. */
    expect_graph("graph g (x: f32[4, 528, 256]) -> (y: f32[4, 528, 1], s: f32[256], t: f32[256]) {\n"
                 "  y = sum(x, over=2)\n  s = sum(x * x, over=[0, 1], keep=0)\n  t = reduce_min(x, over=[0, "
                 "1], keep=0) }",
                 "rows>3 columns>2", NO_DIMS);
    /* As many as a kernel takes; the fifth is another's. */
    expect_graph("graph g (x: f32[2112, 256]) -> (y: f32[2112, 1], a: f32[256], b: f32[256], c: f32[256], d: "
                 "f32[256], "
                 "e: f32[256]) {\n"
                 "  y = sum(x, over=1)\n  a = sum(x, over=0, keep=0)\n  b = reduce_min(x, over=0, keep=0)\n"
                 "  c = reduce_max(x, over=0, keep=0)\n  d = sum(x * x, over=0, keep=0)\n"
                 "  e = sum(x * x * x, over=0, keep=0) }",
                 "rows>5 columns>4 rows columns", NO_DIMS);
    /* Nothing along the rows; rows that wait for the columns; blocks that would fill no machine; few
     * elements. */
    expect_graph("graph g (x: f32[2112, 256]) -> (s: f32[256]) { s = sum(x * x, over=0, keep=0) }", "columns",
                 NO_DIMS);
    expect_graph("graph g (x: f32[2112, 256]) -> (y: f32[2112, 1]) {\n"
                 "  d = x - mean(x, over=0)\n  y = sum(d * d, over=1) }",
                 "columns rows", NO_DIMS);
    expect_graph("graph g (x: f32[2111, 256]) -> (y: f32[2111, 1], s: f32[256]) {\n"
                 "  y = sum(x, over=1)\n  s = sum(x, over=0, keep=0) }",
                 "rows columns", NULL);
    expect_graph("graph g (x: f32[528, 64]) -> (y: f32[528, 1], s: f32[64]) {\n"
                 "  y = sum(x, over=1)\n  s = sum(x, over=0, keep=0) }",
                 "rows columns", NO_DIMS);
}

/* Mean and variance of long columns: one kernel reads them once, in parts; of short ones it applies them too.
 */
static void test_columns_around_means(void **state) {
    (void)state;
    const char *text =
        "graph g (x: f32[5120, 256]) -> (y: f32[5120, 256], v: f32[1, 256]) {\n"
        "  d = x + 100.0 - mean(x + 100.0, over=0)\n  v = mean(d * d, over=0)\n  y = d * rsqrt(v + 1e-5) }";
    expect_graph(text, "columns>2 columns>3 pointwise", NO_DIMS);
    /* Parts would be an axis too many, unless axes become one. */
    expect_graph("graph g (x: f32[4608, 2, 3, 2, 3, 2, 2, 3], b: f32[2, 1, 2, 1, 2, 1, 3]) -> "
                 "(y: f32[1, 2, 3, 2, 3, 2, 2, 3]) {\n"
                 "  h = x * b\n  d = h - mean(h, over=0)\n  y = mean(d * d, over=0) }",
                 "columns", NO_DIMS);
    expect_graph("graph g (x: f32[4608, 2, 3, 2, 3, 2, 2, 3]) -> (y: f32[1, 2, 3, 2, 3, 2, 2, 3]) {\n"
                 "  d = x - mean(x, over=0)\n  y = mean(d * d, over=0) }",
                 "columns>2 columns", NO_DIMS);
    expect_graph("graph g (x: f32[64, 9216]) -> (y: f32[64, 9216]) { y = softmax(x, over=0) }", "columns",
                 NO_DIMS);
    expect_graph("graph g (x: f32[64, 4096]) -> (y: f32[64, 4096]) { y = softmax(x, over=0) }",
                 "columns>2 pointwise", NO_DIMS);
    expect_graph("graph g (x: f32[640, 9216]) -> (y: f32[640, 9216]) { y = softmax(x, over=0) }",
                 "columns>2 pointwise", NULL);
}

#define GROUP_NORM(n, places, groups, channels)                                                              \
    "graph g (x: bf16[" #n "," #places "," #groups "," #channels "]) -> (y: bf16[" #n "," #places            \
    "," #groups "," #channels "]) {\n"                                                                       \
    "  d = x - mean(x, over=[1, 3])\n  y = d * rsqrt(mean(d * d, over=[1, 3]) + 1e-5) }"

/* Groups of channels are read by whole lines; by a block a row, where these are whole sectors and rows
 * enough. */
static void test_groups_of_channels(void **state) {
    (void)state;
    expect_graph(GROUP_NORM(2, 4096, 32, 4), "columns>2 rows>2 pointwise", NO_DIMS);
    expect_graph(GROUP_NORM(8, 1024, 16, 10), "columns>2 rows>2 pointwise", NO_DIMS);
    expect_graph(GROUP_NORM(2, 4096, 8, 16), "columns>2 rows>2 pointwise", NO_DIMS); /* few rows */
    expect_graph(GROUP_NORM(8, 512, 32, 16), "rows", NO_DIMS);
    expect_graph(GROUP_NORM(8, 500, 32, 10), "rows", NO_DIMS); /* too few places */
    expect_graph(GROUP_NORM(1, 4000, 32, 4), "rows", NO_DIMS); /* too little in all */
    /* rows that no block holds, read once for both statistics */
    expect_graph("graph g (x: f32[4, 262144]) -> (y: f32[4, 262144]) {\n"
                 "  d = x - mean(x, over=1)\n  y = d * rsqrt(mean(d * d, over=1) + 1e-5) }",
                 "rows>2 rows>2 pointwise", NO_DIMS);
}

/* A slice passes one term of a short sum in each round: there are more of these than rules take. */
static void test_short_sums_settle(void **state) {
    (void)state;
    expect_graph(
        "graph g (a: bf16[31, 7 : strides=[1, 31]], b: bf16[2, 7], c: f32[2, 20]) -> (y: f32[31, 20]) "
        "{ y = (a @ b.T + 1) @ c }",
        "pointwise", NULL);
}

static const Buffer *find_buffer(const Support *support, const char *name) {
    for (size_t i = 0; i < support->partition->buffers.n; i++) {
        const Value *value = support->partition->buffers.at[i].value;
        if (value->name && !strcmp(value->name, name))
            return &support->partition->buffers.at[i];
    }
    fail_msg("no buffer '%s'", name);
    return NULL;
}

static void test_workspace_is_used_again(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: f32[128, 256], w: f32[256, 256]) -> (y: f32[128, 256]) {\n"
                               "  a = x @ w\n  b = a @ w\n  c = b @ w\n  d = c @ w\n  y = d @ w }"};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, "matmul matmul matmul matmul matmul");
    assert_int_equal(support.partition->buffers.n, 4);
    assert_true(dim_is(support.partition->workspace, 2 * 128 * 256 * 4));
    assert_ptr_equal(find_buffer(&support, "a")->offset, find_buffer(&support, "c")->offset);
    assert_ptr_not_equal(find_buffer(&support, "a")->offset, find_buffer(&support, "b")->offset);
    support_end(&support);
}

static void test_symbolic_workspace_is_a_sum(void **state) {
    (void)state;
    Support support = {
        .text = "graph g (x: f32[M, 512], w: f32[512, 8]) -> (y: f32[M, 8]) {\n"
                "  a = cast(x @ w @ transpose(w, perm=[1, 0]), dtype=bf16)\n  y = cast(a, f32) @ w }"};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_int_equal(support.partition->buffers.n, 2);
    DimBindings bindings = dim_bindings_new(support.arena, support.graph->dims);
    bindings.known[0] = true;
    bindings.value[0] = 5;
    int64_t bytes;
    assert_true(dim_eval(support.partition->workspace, &bindings, &bytes));
    assert_int_equal(bytes, 256 + 5 * 1024); /* f32[5, 8] rounded up, and bf16[5, 512] */
    for (size_t i = 0; i < support.partition->buffers.n; i++)
        assert_int_equal(dim_divisor(support.graph->dims, support.partition->buffers.at[i].offset) % 256, 0);
    support_end(&support);
}

static void test_expect(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[M, K], w: bf16[N, K], g: f32[N]) -> (y: bf16[M, N]) {\n"
                               "  y = rmsnorm(x @ w.T, g, over=N)   @expect(kernels=1) }"};
    support_run(&support);
    assert_non_null(strstr(support.messages, "this takes 2 kernels, more than the 1 expected [expect]"));
    assert_non_null(strstr(support.messages, "rows of at most 256, known from the dims or a 'where'"));
    assert_int_equal(diags_fault(&support.diags), FAULT_INPUT);
    support_end(&support);
    expect_graph("graph g (x: bf16[M, K], w: bf16[N, K], g: f32[N]) -> (y: bf16[M, N]) where N <= 256 {\n"
                 "  y = rmsnorm(x @ w.T, g, over=N)   @expect(kernels=1) }",
                 "matmul/rows", NULL);
}

static void test_expect_counts_what_the_value_needs(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[M, K], w: f32[K, N], v: f32[N, N]) -> (y: f32[M, N], z: f32[M, N]) {\n"
                 "  y = x @ w   @expect(kernels=1)\n  z = y @ v   @expect(kernels=2) }",
                 "matmul matmul", NULL);
}

static void test_every_decision_has_a_rule(void **state) {
    (void)state;
    Support support = {
        .text = "graph g (x: bf16[M, K], w: bf16[N, K], g: f32[N], r: f32[M, N]) -> (y: bf16[M, N], s: "
                "f32[1, N]) {\n"
                "  h = relu(x * 2) @ w.T + r\n  y = rmsnorm(h, g, over=N)\n  s = sum(h, over=0) }"};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_true(support.partition->decisions.n > 5);
    int refused = 0;
    for (size_t i = 0; i < support.partition->decisions.n; i++) {
        const Decision *decision = &support.partition->decisions.at[i];
        if (!fuse_rule_doc(decision->rule))
            fail_msg("no row for '%s'", decision->rule);
        assert_true(decision->why && *decision->why);
        assert_true(decision->fused || decision->change);
        refused += !decision->fused;
    }
    assert_true(refused >= 2); /* prologue, row statistics */
    support_end(&support);
}

static int dumps_seen;

static void count_dump(void *context, int number, const char *pass, const Graph *graph, bool changed) {
    (void)context;
    (void)changed;
    assert_int_equal(number, ++dumps_seen);
    assert_non_null(pass);
    assert_non_null(graph);
}

static void limited_body(void *context) {
    Support *support = context;
    support->diags = (Diags){.arena = support->arena};
    SourceSet *sources = source_set_new(support->arena);
    uint32_t file = source_add(sources, "t", support->text, strlen(support->text));
    Module module = {0};
    FrontendLimits limits = {0};
    assert_true(frontend_parse(support->arena, sources, file, &limits, &support->diags, &module));
    PassOptions options = {
        .limits = &support->limits, .verify = true, .pass_limit = support->pass_limit, .dump = count_dump};
    support->graph = module.graphs.at[0];
    support->partition = passes_run(support->graph, &options, &support->diags);
}

static void test_limit_and_dump(void **state) {
    (void)state;
    for (int limit = 0; limit < 5; limit++) {
        Support support = {.text =
                               "sinter 1\ngraph g (x: f32[N]) -> (y: f32[N]) { y = exp(x + 0) * (2 * 3) }",
                           .pass_limit = limit,
                           .limits = support_limits(),
                           .arena = arena_new(0)};
        dumps_seen = 0;
        assert_true(arena_run(support.arena, limited_body, &support));
        assert_non_null(support.partition);
        static const size_t kernels[] = {3, 3, 3, 2,
                                         2}; /* folded; simplified; and fusion comes after the limit */
        assert_int_equal(support.partition->regions.n, kernels[limit]);
        assert_int_equal(dumps_seen, limit + 2); /* fuse and workspace always run */
        support_end(&support);
    }
}

static void test_many_operands_are_cut(void **state) {
    (void)state;
    char text[8192], body[2048] = "x0", parameters[2048] = "x0: f32[N]";
    for (int i = 1; i < 60; i++) {
        snprintf(body + strlen(body), sizeof body - strlen(body), " * x%d", i);
        snprintf(parameters + strlen(parameters), sizeof parameters - strlen(parameters), ", x%d: f32[N]", i);
    }
    snprintf(text, sizeof text, "graph g (%s) -> (y: f32[N]) { y = %s }", parameters, body);
    Support support = {.text = text, .dims = DIMS({"N", 3})};
    support_run(&support);
    assert_string_equal(support.messages, "");
    for (size_t i = 0; i < support.partition->regions.n; i++)
        assert_true(support.partition->regions.at[i]->inputs.n <= 24);
    assert_true(support.partition->regions.n >= 3);
    assert_true(support.worst < 1e-6);
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_rows_are_split),
        cmocka_unit_test(test_split_keeps_meaning),
        cmocka_unit_test(test_columns_beside_rows),
        cmocka_unit_test(test_columns_around_means),
        cmocka_unit_test(test_groups_of_channels),
        cmocka_unit_test(test_short_sums_settle),
        cmocka_unit_test(test_workspace_is_used_again),
        cmocka_unit_test(test_symbolic_workspace_is_a_sum),
        cmocka_unit_test(test_expect),
        cmocka_unit_test(test_expect_counts_what_the_value_needs),
        cmocka_unit_test(test_every_decision_has_a_rule),
        cmocka_unit_test(test_limit_and_dump),
        cmocka_unit_test(test_many_operands_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
