/* Reductions of products in parts: which, into how many kernels, and with the same meaning. Dims are unknown
 * to the passes (and count as large), and small where the meaning is compared. */
#include "support.h"

#define PRODUCT_DIMS DIMS({"M", 37}, {"N", 300})

static void test_rows(void **state) {
    (void)state;
    const SupportDim *dims = PRODUCT_DIMS;
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8], t: i32[M]) -> (y: f32[M]) {\n"
                 "  y = cross_entropy(x @ w.T, t) }",
                 "matmul>3 rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8], b: bf16[N]) -> (y: f32[M, 1]) {\n"
                 "  y = logsumexp(x @ w.T + b, 1) }",
                 "matmul>2 rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: i64[M]) { y = argmax(x @ w.T, 1, keep=0) }",
                 "matmul>2 rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (z: bf16[M, N], y: f32[M, 1]) {\n"
                 "  h = x @ w.T\n  z = h\n  y = amax(h, 1) }",
                 "matmul>2 rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8], t: bf16[M, N]) -> (l: f32[1, 1]) {\n"
                 "  d = x @ w.T - t\n  l = mean(d * d, [0, 1]) }",
                 "matmul rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8], v: bf16[N, 8]) -> (y: f32[M, 1]) {\n"
                 "  y = sum((x @ w.T) * (x @ v.T), 1) }",
                 "matmul2 rows", dims);
}

/* Squares around a mean: of each block around its own. */
static void test_variance(void **state) {
    (void)state;
    const SupportDim *dims = PRODUCT_DIMS;
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: f32[M, 1]) {\n"
                 "  y = variance(x @ w.T + 100, 1) }",
                 "matmul>2 rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (m: f32[1, 1], y: f32[1, 1]) {\n"
                 "  z = x @ w.T + 100\n  m = mean(z, [0, 1])\n  y = variance(z, [0, 1]) }",
                 "matmul>2 rows>2", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8], g: f32[N], b: f32[N], rm: f32[N], rv: f32[N])\n"
                 "    -> (y: bf16[M, N], mu: f32[N], r: f32[N]) {\n"
                 "  y, mu, r, m, v = batchnorm_train(x @ w.T + 10, g, b, rm, rv) }",
                 "matmul>3 columns>2 pointwise", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: f32[N]) where M % 16 == 0 {\n"
                 "  y = variance(x @ w.T + 100, 0, keep=0) }",
                 "matmul>2 columns", DIMS({"M", 48}, {"N", 300}));
}

/* Down many rows they take less in a kernel that reads the product again, as sums do behind windows of narrow
 * ones, and where K is short; but not where nobody else reads it. */
static void test_many_rows(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 4});
    expect_graph("graph g (x: bf16[8192, 8], w: bf16[256, 8]) -> (y: f32[256]) {\n"
                 "  y = variance(x @ w.T + 100, 0, keep=0) }",
                 "matmul columns>2 columns", dims);
    expect_graph("graph g (x: bf16[8192, 8], w: bf16[256, 8]) -> (y: f32[8192, 256], s: f32[256]) {\n"
                 "  y = x @ w.T\n  s = sum(y, 0, keep=0) }",
                 "matmul columns columns", dims);
    expect_graph("graph g (x: bf16[8192, 8], w: bf16[256, 8]) -> (s: f32[256]) {\n"
                 "  s = sum(abs(x @ w.T), 0, keep=0) }",
                 "matmul columns", dims);
    expect_graph("graph g (x: bf16[8192, 768], w: bf16[256, 768]) -> (y: f32[8192, 256], s: f32[256]) {\n"
                 "  y = x @ w.T\n  s = sum(y, 0, keep=0) }",
                 "matmul>2 columns", NULL);
    /* what is stored rounded would lie in memory twice */
    expect_graph("graph g (x: bf16[8192, 8], w: bf16[256, 8]) -> (y: bf16[8192, 256], s: f32[256]) {\n"
                 "  p = x @ w.T\n  y = p\n  s = sum(p, 0, keep=0) }",
                 "matmul>2 columns", dims);
    expect_graph(
        "graph g (x: bf16[8192, 8], w: bf16[256, 8]) -> (y: bf16[8192, 256], s: f32[256], q: f32[256]) {\n"
        "  p = x @ w.T\n  y = p\n  s, q = genstats(p) }",
        "matmul>3 columns>2", dims);
    /* and what is read rounded is read once, and squared again */
    expect_graph(
        "graph g (x: bf16[8192, 8], w: bf16[256, 8]) -> (y: bf16[8192, 256], s: f32[256], q: f32[256]) {\n"
        "  y = cast(x @ w.T, bf16)\n  s, q = genstats(cast(y, f32)) }",
        "matmul columns>2 columns>2", dims);
    /* of two products, by the kernel of the last */
    expect_graph("graph g (x: bf16[8192, 8], w: bf16[256, 8], u: bf16[8192, 8]) -> (h: bf16[8192, 256], "
                 "y: bf16[8192, 256], s: f32[256]) {\n"
                 "  h = x @ w.T\n  p = (u @ w.T) * h\n  y = p\n  s = sum(p, 0, keep=0) }",
                 "matmul matmul>2 columns", dims);
    expect_graph(
        "graph g (x: bf16[2, 64, 64, 8], w: bf16[64, 3, 3, 8]) -> (y: f32[2, 64, 64, 64], s: f32[64]) {\n"
        "  y = conv(x, w, pad=1)\n  s = sum(y, [0, 1, 2], keep=0) }",
        "matmul columns", dims);
}

/* Rows too long to stay on chip are done in parts even where they are read again. */
static void test_long_rows(void **state) {
    (void)state;
    expect_graph(
        "graph g (x: bf16[M, 8], w: bf16[100000, 8]) -> (y: bf16[M, 100000]) { y = softmax(x @ w.T) }",
        "matmul>3 rows>2 pointwise", DIMS({"M", 2}));
}

/* A long K of few tiles is done in parts; not where it is short, tiles are many, or parts come out uneven. */
static void test_long_k(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 4});
    expect_graph("graph g (x: bf16[4, 32768], w: bf16[8, 32768], b: f32[8]) -> (y: f32[4, 8]) {\n"
                 "  y = relu(x @ w.T + b) }",
                 "matmul columns", dims);
    expect_graph("graph g (x: f16[32768, 4], w: f16[32768, 8]) -> (y: f16[4, 8]) { y = x.T @ w }",
                 "matmul columns", dims);
    expect_graph("graph g (x: bf16[4, 4096], w: bf16[8, 4096]) -> (y: f32[4, 8]) { y = x @ w.T }", "matmul",
                 dims);
    expect_graph("graph g (x: bf16[4, 32769], w: bf16[8, 32769]) -> (y: f32[4, 8]) { y = x @ w.T }", "matmul",
                 dims);
    expect_graph("graph g (x: bf16[M, 32768], w: bf16[8, 32768]) -> (y: f32[M, 8]) { y = x @ w.T }", "matmul",
                 dims);
}

/* An operand whose values are used twice each, thirty deep: looked at once each, not 2^30 times. */
static void test_deep_operand(void **state) {
    (void)state;
    char text[2048];
    int n =
        sprintf(text, "graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: bf16[M, N]) {\n  h0 = cast(x, f32)\n");
    for (int i = 0; i < 30; i++)
        n += sprintf(text + n, "  h%d = tanh(h%d) + h%d\n", i + 1, i, i);
    sprintf(text + n, "  y = cast(h30, bf16) @ w.T }");
    expect_graph(text, "pointwise matmul", PRODUCT_DIMS);
}

/* Blocks of -inf alone, rows of them, NaN: what the whole sum would give. */
static void test_special_values(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 5}, {"N", 600});
    for (int first = 0; first <= 700; first += 350) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (l: f32[M, 1], s: f32[M, 1]) {\n"
                 "  z = select(index([M, N], 1) < %d, -inf, (x @ w.T) * 50 - 400)\n"
                 "  l = logsumexp(z, 1)\n  s = sum(exp(z - reduce_max(z, 1)), 1) }",
                 first);
        expect_graph(text, "matmul>2 rows>2", dims);
        snprintf(text, sizeof text,
                 "graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (l: f32[M, 1], s: f32[M, 1], a: i64[M, 1]) {\n"
                 "  z = select(index([M, N], 1) == %d, inf, x @ w.T)\n"
                 "  l = logsumexp(z, 1)\n  s = sum(exp(z - reduce_max(z, 1)), 1)\n  a = argmax(z, 1) }",
                 first);
        expect_graph(text, "matmul>3 rows>3", dims);
        snprintf(text, sizeof text,
                 "graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (l: f32[M, 1], a: i64[M, 1], b: i64[M, 1]) {\n"
                 "  z = select(index([M, N], 1) == %d, log(-1), x @ w.T)\n"
                 "  l = logsumexp(z, 1)\n  a = argmax(z, 1)\n  b = argmin(z, 1) }",
                 first);
        expect_graph(text, "matmul>5 rows>3", dims);
    }
}

static void test_columns(void **state) {
    (void)state;
    const SupportDim *dims = PRODUCT_DIMS;
    expect_graph("graph g (y: bf16[M, 8], w: bf16[N, 8], h: bf16[M, N]) -> (dx: bf16[M, N], db: f32[N]) {\n"
                 "  d = gelu_backward(y @ w.T, h, approx=tanh)\n  dx = d\n  db = sum(d, 0, keep=0) }",
                 "matmul>2 columns", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (s: f32[N], q: f32[N]) {\n"
                 "  s, q = genstats(x @ w.T) }",
                 "matmul>2 columns>2", dims);
    expect_graph("graph g (x: bf16[B, M, 8], w: bf16[B, N, 8]) -> (s: f32[N]) {\n"
                 "  s = sum(x @ w.T, [0, 1], keep=0) }",
                 "matmul columns", DIMS({"B", 2}, {"M", 37}, {"N", 300}));
    /* applied again: the product is stored, and read once */
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: bf16[M, N]) {\n"
                 "  h = x @ w.T\n  y = h - mean(h, 0) }",
                 "matmul>2 columns pointwise", dims);
}

static void test_whole(void **state) {
    (void)state;
    const SupportDim *dims = PRODUCT_DIMS;
    /* the row is read again, or something else than a sum of parts is wanted of it */
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: bf16[M, N]) { y = softmax(x @ w.T) }",
                 "matmul rows", dims);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[N, 8], v: bf16[N, 8]) -> (y: f32[M, 8]) {\n"
                 "  y = softmax(x @ w.T) @ v }",
                 "matmul rows matmul", dims);
    /* rows that are not read 16 bytes at a time */
    expect_graph("graph g (x: bf16[M, K], w: bf16[N, K]) -> (y: f32[M, 1]) { y = amax(x @ w.T, 1) }",
                 "matmul rows", NULL);
    /* too small to gain, which leaves them to blocks that share them; no tensor cores */
    expect_graph("graph g (x: bf16[128, 8], w: bf16[512, 8]) -> (y: f32[128, 1]) { y = amax(x @ w.T, 1) }",
                 "matmul/rows", NULL);
    expect_graph("graph g (x: f32[M, 8], w: f32[N, 8]) -> (y: f32[M, 1]) { y = amax(x @ w.T, 1) }",
                 "matmul rows", NULL);
    /* whole rows in a tile, and columns of what their statistics are applied to */
    expect_graph("graph g (x: bf16[M, 8], w: bf16[256, 8]) -> (y: bf16[M, 256], s: f32[256]) {\n"
                 "  h = softmax(x @ w.T)\n  y = h\n  s = sum(h, 0, keep=0) }",
                 "matmul/rows>2 columns", DIMS({"M", 37}));
}

static void test_explained(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[M, 8], w: bf16[N, 8]) -> (y: bf16[M, N], s: f32[N]) {\n"
                               "  h = x @ w.T\n  y = softmax(h)\n  s = sum(h, 0, keep=0) }"};
    support_run(&support);
    assert_string_equal(support.messages, "");
    int parts = 0, whole = 0;
    for (size_t i = 0; i < support.partition->decisions.n; i++) {
        const Decision *decision = &support.partition->decisions.at[i];
        bool is_mine = !strcmp(decision->rule, "split_product");
        parts += is_mine && decision->fused;
        whole += is_mine && !decision->fused && strstr(decision->why, "again");
    }
    assert_int_equal(parts, 1);
    assert_true(whole >= 1);
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_variance),  cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_long_rows), cmocka_unit_test(test_columns),
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_explained),
        cmocka_unit_test(test_long_k),    cmocka_unit_test(test_deep_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
