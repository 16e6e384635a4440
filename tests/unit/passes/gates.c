/* Products whose columns are cut into parts that meet again: one kernel of several cores. */
#include "support.h"

static const SupportDim *rows = (const SupportDim[]){{"M", 3}, {NULL, 0}};

static void expect_text(const char *body, const char *kernels) {
    Arena *arena = arena_new(0);
    expect_graph(text_format(arena,
                             "graph g (x: bf16[M, 16], w: bf16[96, 16], u: bf16[128, 16], b: bf16[96], s: "
                             "f32[M, 32]) -> (y: f32[M, 32]) where 1 <= M <= 512 { %s }",
                             body),
                 kernels, rows);
    arena_free(arena);
}

static void test_parts_that_meet(void **state) {
    (void)state;
    expect_text("h = x @ w.T + b\n"
                "  y = sigmoid(h[:, :32]) * s + tanh(h[:, 32:64] + sigmoid(h[:, 64:]) * s)",
                "matmul3");
    expect_text("h = x @ u.T\n"
                "  c = sigmoid(h[:, 32:64]) * s + sigmoid(h[:, :32]) * tanh(h[:, 64:96])\n"
                "  y = sigmoid(h[:, 96:]) * tanh(c)",
                "matmul4");
    /* in steps, each of the state before */
    expect_graph("graph g (x: bf16[M, 32], p: bf16[M, 96], w: bf16[96, 32]) -> (y: bf16[M, 32]) {\n"
                 "  g0 = x @ w.T + p\n"
                 "  s = cast(g0[:, :32] * x + g0[:, 32:64] * tanh(g0[:, 64:]), bf16)\n"
                 "  g1 = s @ w.T + p\n"
                 "  y = cast(g1[:, :32] * s + g1[:, 32:64] * tanh(g1[:, 64:]), bf16) }",
                 "matmul3 matmul3", rows);
    /* of two products the later one, whose kernel reads the other's result */
    expect_graph("graph g (x: bf16[M, 16], h: bf16[M, 32], w: bf16[96, 16], u: bf16[96, 32]) -> (y: bf16[M, "
                 "32]) {\n"
                 "  a = x @ w.T\n  b = h @ u.T\n  r = sigmoid(a[:, :32] + b[:, :32])\n"
                 "  z = sigmoid(a[:, 32:64] + b[:, 32:64])\n  n = tanh(a[:, 64:] + r * b[:, 64:])\n"
                 "  y = cast(n + z * (h - n), bf16) }",
                 "matmul matmul3", rows);
}

static void test_parts_that_do_not(void **state) {
    (void)state;
    /* to products; to kernels that wait for one another; and some of them alone */
    expect_text("h = x @ w.T\n  t = cast(h[:, :32], bf16) @ cast(h[:, 32:64], bf16).T\n"
                "  y = cast(cast(t, bf16) @ cast(h[:, 64:], bf16), f32)",
                "matmul>3 matmul matmul");
    expect_text("h = x @ w.T\n  c = h[:, :32] * h[:, 32:64]\n"
                "  y = h[:, 64:] * (c - sum(c, over=1)) + s",
                "matmul>2 rows");
    expect_graph("graph g (x: bf16[M, 16], w: bf16[96, 16]) -> (y: f32[M, 32], z: f32[M, 32]) {\n"
                 "  h = x @ w.T\n  y = h[:, :32] * h[:, 32:64]\n  z = relu(h[:, 64:]) }",
                 "matmul>2", rows);
    /* parts that overlap, and of columns that are no whole vectors */
    expect_graph("graph g (x: bf16[M, 16], w: bf16[1536, 16]) -> (y: f32[M, 512]) {\n"
                 "  h = x @ w.T\n  y = h[:, :512] * h[:, 256:768] + h[:, 1024:] }",
                 "matmul pointwise", rows);
    expect_graph("graph g (x: bf16[M, 16], w: bf16[1500, 16]) -> (y: f32[M, 500]) {\n"
                 "  h = x @ w.T\n  y = h[:, :500] * h[:, 500:1000] + h[:, 1000:] }",
                 "matmul pointwise", rows);
    /* of a convolution, whose kernel of one product has patches */
    expect_graph("graph g (x: f16[2, 20, 32], w: f16[192, 3, 32]) -> (y: f32[2, 20, 64]) {\n"
                 "  h = conv(x, w, pad=1)\n  y = h[:, :, :64] * h[:, :, 64:128] + h[:, :, 128:] }",
                 "matmul>2 pointwise", DIMS({"M", 1}));
    /* weights that are computed, and exact products of more rows than stream */
    expect_graph("graph g (x: bf16[M, 16], w: f32[1536, 16]) -> (y: f32[M, 512]) {\n"
                 "  h = x @ cast(w, bf16).T\n  y = h[:, :512] * h[:, 512:1024] + h[:, 1024:] }",
                 "pointwise matmul pointwise", rows);
    expect_graph("graph g (x: f32[M, 16], w: f32[96, 16]) -> (y: f32[M, 32]) where 100 <= M <= 512 {\n"
                 "  h = x @ w.T\n  y = h[:, :32] * h[:, 32:64] + h[:, 64:] }",
                 "matmul pointwise", DIMS({"M", 100}));
    expect_graph("graph g (x: f32[M, 16], w: f32[96, 16]) -> (y: f32[M, 32]) where 1 <= M <= 32 {\n"
                 "  h = x @ w.T\n  y = h[:, :32] * h[:, 32:64] + h[:, 64:] }",
                 "matmul3", rows);
}

/* As the graph has them: up to four of them side by side. */
static void test_products_that_meet(void **state) {
    (void)state;
    expect_graph(
        "graph g (x: bf16[M, 16], a: bf16[16, 8], b: bf16[16, 8], c: bf16[16, 8]) -> (y: bf16[M, 8]) {\n"
        "  y = sigmoid(x @ a) * (x @ b) + x @ c }",
        "matmul3", rows);
    expect_graph(
        "graph g (x: bf16[M, 16], a: bf16[16, 8], b: bf16[16, 8], c: bf16[16, 8], d: bf16[16, 8]) -> (y: "
        "bf16[M, 8]) {\n"
        "  y = relu(x @ a) * (x @ b) - relu(x @ c) * (x @ d) }",
        "matmul4", rows);
    expect_graph(
        "graph g (x: bf16[M, 16], a: bf16[16, 8], b: bf16[16, 8], c: bf16[16, 8], d: bf16[16, 8], e: "
        "bf16[16, 8]) -> (y: bf16[M, 8]) {\n"
        "  y = relu(x @ a) * (x @ b) * relu(x @ c) * (x @ d) * (x @ e) }",
        "matmul4 matmul", rows);
}

/* No schedule for more than two products side by side. */
static bool takes_two(void *context, const Graph *graph, const Region *region, const char **why) {
    (void)context, (void)graph;
    *why = "it is a test";
    return region->cores.n < 3;
}

static void test_gives_up_more_than_two(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[M, 16], a: bf16[16, 8], b: bf16[16, 8], c: bf16[16, 8], d: "
                               "bf16[16, 8]) -> (y: bf16[M, 8]) {\n"
                               "  y = relu(x @ a) * (x @ b) - relu(x @ c) * (x @ d) }",
                       .takes = takes_two};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, "matmul2 matmul2");
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_that_meet),
        cmocka_unit_test(test_parts_that_do_not),
        cmocka_unit_test(test_products_that_meet),
        cmocka_unit_test(test_gives_up_more_than_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
