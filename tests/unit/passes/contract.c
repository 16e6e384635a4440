/* Sums that are matrix products: which become one, what that reads, and what stays. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"H", 3}, {NULL, 0}};

static void test_batches(void **state) {
    (void)state;
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[3, 16, 24]) -> (y: f32[5, 24]) {\n"
               "  y = sum(x @ w, over=0, keep=0) }",
               sizes, LIST("reshape(w, dims=[48, 24])", "dims=[5, 48]", "matmul("), LIST("sum("));
    check_text("graph g (x: f32[2, 3, 5, 16], w: f32[3, 16, 24], b: f32[24]) -> (y: f32[2, 5, 24]) {\n"
               "  y = sum(x @ w, over=1, keep=0) + b }",
               sizes, LIST("reshape(w, dims=[48, 24])", "dims=[2, 5, 48]"), LIST("sum("));
    check_text("graph g (x: bf16[3, 2, 4, 5, 16], w: bf16[3, 2, 4, 16, 24]) -> (y: f32[2, 5, 24]) {\n"
               "  y = sum(x @ w, over=[0, 2], keep=0) }",
               sizes, LIST("dims=[2, 5, 192]", "dims=[2, 192, 24]"), LIST("sum("));
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[3, 16, 24]) -> (y: f32[24, 1, 5]) {\n"
               "  y = sum(transpose(x @ w, [2, 0, 1]), over=1) }",
               sizes, LIST("matmul("), LIST("sum("));
    check_text("graph g (x: i8[H, 5, 16], w: i8[H, 16, 24]) -> (y: i32[5, 24]) {\n"
               "  y = sum(x @ w, over=0, keep=0) }",
               sizes, LIST("matmul("), LIST("sum("));
}

/* Operands that can be read as they lie: joined in their own order, K in the one that needs no copy. */
static void test_views(void **state) {
    (void)state;
    check_text("graph g (x: bf16[4, 48, 64], dy: bf16[4, 48, 40]) -> (dw: f32[40, 64]) {\n"
               "  dw = mean(transpose(dy, [0, 2, 1]) @ x, over=0, keep=0) }",
               sizes, LIST("reshape(dy, dims=[192, 40])", "reshape(x, dims=[192, 64])"), LIST("sum("));
    check_text("graph g (x: bf16[40, 64, 16], w: bf16[64, 24, 16]) -> (y: f32[40, 24]) {\n"
               "  y = sum(transpose(x, [2, 0, 1]) @ transpose(w, [2, 0, 1]), over=0, keep=0) }",
               sizes, LIST("reshape(x, dims=[40, 1024])"), LIST("sum(", "pad("));
    /* parts of a row that do not start at 16 bytes are copied, which takes less than products in memory */
    expect_graph("graph g (x: bf16[16, 2048, 60], w: bf16[16, 60, 1024]) -> (y: bf16[2048, 1024]) {\n"
                 "  y = sum(x @ w, over=0, keep=0) }",
                 "pointwise matmul", NULL);
    expect_graph("graph g (x: e4m3[8, 1024, 2048], dy: e4m3[8, 1024, 1024]) -> (dw: f32[1024, 2048]) {\n"
                 "  dw = sum(transpose(dy, [0, 2, 1]) @ x, over=0, keep=0) }",
                 "transpose transpose matmul", NULL);
}

/* What a softmax weighs is one kernel's, unless the product has more columns than that holds. */
static void test_company(void **state) {
    (void)state;
    expect_graph(
        "graph g (q: bf16[4, 64, 64], k: bf16[4, 64, 64], v: bf16[4, 64, 64]) -> (y: bf16[64, 64]) {\n"
        "  y = sum(softmax(q @ k.T) @ v, over=0, keep=0) }",
        "chain2 columns", NULL);
    expect_graph("graph g (q: bf16[4, 64, 64], k: bf16[4, 64, 64], v: bf16[4, 64, 64], w: bf16[4, 64, 512])\n"
                 "-> (y: bf16[64, 512]) { y = sum((softmax(q @ k.T) @ v) @ w, over=0, keep=0) }",
                 "chain2 matmul", NULL);
}

static void test_elements(void **state) {
    (void)state;
    check_text("graph g (x: bf16[20, 1, 16], z: bf16[1, 24, 16]) -> (y: f32[20, 24]) {\n"
               "  y = sum(x * z, over=2, keep=0) }",
               sizes, LIST("reshape(x, dims=[20, 16])", "matmul("), LIST("sum(", " mul("));
    check_text("graph g (x: f32[3, 16, 20, 1], z: f32[3, 16, 1, 24]) -> (y: f32[3, 1, 20, 24]) {\n"
               "  y = sum(x * z, over=1) }",
               sizes, LIST("= matmul("), LIST("sum(", " mul("));
    /* rows and columns of several axes, in another order */
    check_text("graph g (x: bf16[16, 5, 1, 4, 1], z: bf16[16, 1, 6, 1, 3]) -> (y: f32[5, 6, 4, 3]) {\n"
               "  y = sum(x * z, over=0, keep=0) }",
               sizes, LIST("dims=[16, 20]", "dims=[16, 18]", "dims=[5, 4, 6, 3]"), LIST("sum(", " mul("));
    /* two types, of which f32 has both; one of f32 in name only */
    check_text("graph g (x: f32[20, 1, 16], z: bf16[1, 24, 16]) -> (y: f32[20, 24]) {\n"
               "  y = sum(x * z, over=2, keep=0) }",
               sizes, LIST("= matmul("), LIST("sum(", " mul("));
    check_text("graph g (x: bf16[20, 1, 16], z: bf16[1, 24, 16]) -> (y: f32[20, 24]) {\n"
               "  y = sum(x * cast(z, f32), over=2, keep=0) }",
               sizes, LIST("= matmul("), LIST("sum(", " mul(", "cast("));
}

#define STAYS LIST(" sum(")

static void test_left_alone(void **state) {
    (void)state;
    /* wanted itself, an axis that an operand repeats, rows among what is summed, what has a schedule */
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[3, 16, 24]) -> (p: f32[3, 5, 24], y: f32[5, 24]) {\n"
               "  p = x @ w\n  y = sum(p, over=0, keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[16, 24]) -> (y: f32[5, 24]) {\n"
               "  y = sum(x @ w, over=0, keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[3, 16, 24]) -> (y: f32[24]) {\n"
               "  y = sum(x @ w, over=[0, 1], keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[3, 16, 24]) -> (y: f32[5, 24]) {\n"
               "  p = x @ w @schedule(path=loop)\n  y = sum(p, over=0, keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: bf16[3, 5, 16], w: bf16[3, 16, 24]) -> (y: f32[5, 24]) {\n"
               "  p = x @ w @fuse(never)\n  y = sum(p, over=0, keep=0) }",
               sizes, STAYS, NONE);
    /* few rows, few k, an axis that one of two has, whole numbers */
    check_text("graph g (x: bf16[15, 1, 16], z: bf16[1, 24, 16]) -> (y: f32[15, 24]) {\n"
               "  y = sum(x * z, over=2, keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: bf16[20, 1, 16, 4], z: bf16[1, 24, 16, 1]) -> (y: f32[20, 24]) {\n"
               "  y = sum(x * z, over=[2, 3], keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: i32[20, 1, 16], z: i32[1, 24, 16]) -> (y: i32[20, 24]) {\n"
               "  y = sum(x * z, over=2, keep=0) }",
               sizes, STAYS, NONE);
    /* a batch that lies last, and windows */
    check_text("graph g (x: f32[32, 20, 1, 3], z: f32[32, 1, 24, 3]) -> (y: f32[20, 24, 3]) {\n"
               "  y = sum(x * z, over=0, keep=0) }",
               sizes, STAYS, NONE);
    check_text("graph g (x: f32[1, 20, 16], w: f32[16, 3, 16]) -> (y: f32[1, 18, 16]) {\n"
               "  t = reshape(window(x, axis=1, size=3), [1, 18, 16, 3, 1])\n"
               "  y = sum(t * w, over=[2, 3], keep=0) }",
               sizes, STAYS, NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batches), cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_company), cmocka_unit_test(test_elements),
                                       cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
