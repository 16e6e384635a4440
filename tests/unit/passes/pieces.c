/* Rows of pieces: which rows become so, how many kernels that leaves, and that they mean the same. */
#include "support.h"

static void test_one_kernel(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, 256], g: bf16[256]) -> (q: e4m3[M, 256], s: f32[M, 8]) {\n"
                 "  q, s = quantize_block(rmsnorm(x, g), 32) }",
                 "rows>2", DIMS({"M", 3}));
    /* what is normed, the norm's result and its mean are written too, in dims of their own */
    expect_within(
        "graph g (x: bf16[M, 384], r: bf16[M, 384]) -> (h: bf16[M, 384], m: f32[M, 1], y: bf16[M, 384], "
        "q: e4m3[M, 384], s: f32[M, 3]) {\n"
        "  h = x + r\n  m = mean(h, 1)\n  y = layernorm(h)\n  q, s = quantize_block(y, 128) }",
        "rows>5", DIMS({"M", 3}), 8e-2);
    /* several statistics of pieces, of which one needs another */
    expect_graph("graph g (x: f32[M, 128]) -> (y: f32[M, 8, 16]) {\n"
                 "  t = reshape(softmax(x), dims=[M, 8, 16])\n  d = t - mean(t, 2)\n"
                 "  y = d * rsqrt(mean(d * d, 2) + 0.1) }",
                 "rows", DIMS({"M", 3}));
}

/* A product's result is where rows begin. */
static void test_behind_a_product(void **state) {
    (void)state;
    expect_within("graph g (x: bf16[M, 16], w: bf16[1024, 16], r: bf16[M, 1024]) -> (h: bf16[M, 1024], "
                  "q: e4m3[M, 1024], s: f32[M, 8]) {\n"
                  "  h = x @ w.T + r\n  q, s = quantize_block(rmsnorm(h), 128) }",
                  "matmul rows>2", DIMS({"M", 3}), 8e-2);
}

static void test_as_they_are(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 3});
    /* nothing is reduced but pieces; pieces of no power of two, or of columns; rows of unknown length */
    expect_graph("graph g (x: bf16[M, 256]) -> (q: e4m3[M, 256], s: f32[M, 8]) {\n"
                 "  q, s = quantize_block(silu(x), 32) }",
                 "rows>2", dims);
    expect_graph("graph g (x: f32[M, 240]) -> (y: f32[M, 5, 48]) {\n"
                 "  t = reshape(softmax(x), dims=[M, 5, 48])\n  y = t - amax(t, 2) }",
                 "rows rows", dims);
    expect_graph("graph g (x: f32[M, 256]) -> (y: f32[M, 8, 32]) {\n"
                 "  t = reshape(softmax(x), dims=[M, 8, 32])\n  y = t - amax(t, 1) }",
                 "rows>2 columns pointwise", dims);
    expect_graph("graph g (x: f32[M, N]) -> (y: f32[M, N / 32, 32]) where N % 32 == 0 {\n"
                 "  t = reshape(softmax(x), dims=[M, N / 32, 32])\n  y = t - amax(t, 2) }",
                 "rows rows", DIMS({"M", 3}, {"N", 64}));
}

static bool takes_none(void *context, const Graph *graph, const Region *region, const char **why) {
    (void)context, (void)graph;
    *why = "none";
    return region->kind != TEMPLATE_ROWS;
}

/* Where no schedule has the pieces, they are another kernel's. */
static void test_refused(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: f32[M, 128]) -> (y: f32[M, 8, 16]) {\n"
                               "  t = reshape(softmax(x), dims=[M, 8, 16])\n  y = t - amax(t, 2) }",
                       .takes = takes_none,
                       .dims = DIMS({"M", 3})};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, "rows rows");
    assert_true(support.evaluated && support.worst < 1e-5);
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_kernel),
        cmocka_unit_test(test_behind_a_product),
        cmocka_unit_test(test_as_they_are),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
