/* Products along few k: which become multiplications, what these then join, and that they mean the same. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"B", 2}, {"S", 3}, {NULL, 0}};

static void expect_outer(const char *text, const char *kernels) {
    Support support = {.text = text, .dims = sizes};
    support_run(&support);
    assert_string_equal(support.kernels, kernels);
    assert_true(support.evaluated && support.worst < 1e-4);
    support_end(&support);
}

static void test_multiplied(void **state) {
    (void)state;
    expect_outer("graph g (x: bf16[S, 1], w: bf16[1, 16]) -> (y: bf16[S, 16]) { y = x @ w }", "pointwise");
    expect_outer("graph g (x: f32[S, 1], w: f32[16, 1]) -> (y: f32[S, 16]) { y = gelu(x @ w.T) }",
                 "pointwise");
    expect_outer("graph g (x: i8[B, S, 1], w: i8[1, 16]) -> (y: i32[B, S, 16]) { y = x @ w }", "pointwise");
    expect_outer("graph g (x: bf16[S, 7], w: bf16[7, 16]) -> (y: bf16[S, 16]) { y = x @ w }", "pointwise");
    expect_outer("graph g (x: e4m3[B, S, 1], w: e4m3[B, 1, 16]) -> (y: f32[B, S, 16]) { y = x @ w }",
                 "pointwise");
    /* of rank one, added to another product */
    expect_outer("graph g (a: bf16[S, 64], b: bf16[64, 16], u: bf16[S, 1], v: bf16[16, 1]) -> (y: bf16[S, "
                 "16]) { y = a @ b + u @ v.T }",
                 "matmul");
}

/* A second operand along K is copied first where the result is large, and read as it is where it is small or
 * where a thread has a column's elements for many rows. */
static void test_turned(void **state) {
    (void)state;
    expect_outer(
        "graph g (x: bf16[2048, 3], w: bf16[1536, 3]) -> (y: bf16[2048, 1536]) { y = relu(x @ w.T) }",
        "pointwise pointwise");
    expect_outer("graph g (x: bf16[S, 3], w: bf16[96, 3]) -> (y: bf16[S, 96]) { y = relu(x @ w.T) }",
                 "matmul");
    expect_outer("graph g (x: bf16[S, 3], w: bf16[64, 3]) -> (y: bf16[S, 64]) { y = relu(x @ w.T) }",
                 "pointwise");
    /* of rank four, added to another product */
    expect_outer("graph g (x: bf16[2048, 64], w: bf16[1536, 64], a: bf16[4, 64], b: bf16[1536, 4]) -> (y: "
                 "bf16[2048, 1536]) { y = x @ w.T + (x @ a.T) @ b.T }",
                 "matmul pointwise matmul");
}

/* A longer k, batches that repeat, and what the source says how to multiply. */
static void test_left_alone(void **state) {
    (void)state;
    expect_outer("graph g (x: bf16[S, 8], w: bf16[8, 16]) -> (y: bf16[S, 16]) { y = x @ w }", "matmul");
    expect_outer("graph g (x: bf16[4, S, 1], w: bf16[2, 1, 16]) -> (y: bf16[4, S, 16]) { y = x @ w }",
                 "matmul");
    expect_outer(
        "graph g (q: bf16[B, 7, 16], k: bf16[B, 7, 16], v: bf16[B, 7, 16]) -> (y: bf16[B, 7, 16]) {\n"
        "  y = softmax(q @ k.T) @ v }",
        "chain2");
    expect_outer("graph g (x: bf16[S, 1], w: bf16[1, 16]) -> (y: bf16[S, 16]) {\n"
                 "  y = gelu(x @ w) @schedule(path=loop) }",
                 "matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_multiplied), cmocka_unit_test(test_turned),
                                       cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
