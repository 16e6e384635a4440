/* QK-norm: heads of a product that statistics are applied to, and what is left to two kernels. Dims are
 * unknown to the passes (and count as large), and small where the meaning is compared. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"M", 3}, {"B", 2}, {NULL, 0}};

static void test_statistics_applied(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1024, 8], g: f32[128]) -> (y: bf16[M, 8, 128]) {\n"
                 "  y = rmsnorm(reshape(x @ w.T, [M, 8, 128]), g) }",
                 "matmul/rows", sizes);
    expect_graph(
        "graph g (x: bf16[M, 8], w: bf16[8, 1536], g: f32[192], b: f32[192]) -> (y: bf16[M, 8, 192]) {\n"
        "  y = layernorm(reshape(x @ w * 0.5, [M, 8, 192]), g, b) }",
        "matmul/rows", sizes);
    expect_graph("graph g (x: bf16[B, M, 8], w: bf16[1024, 8], g: f32[128]) -> (y: bf16[B, 8, M, 128]) {\n"
                 "  y = transpose(rmsnorm(reshape(x @ w.T, [B, M, 8, 128]), g), [0, 2, 1, 3]) }",
                 "matmul/rows", sizes);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1024, 8]) -> (h: bf16[M, 1024], y: f32[M, 2, 4, 128]) {\n"
                 "  p = x @ w.T\n  h = p\n  y = softmax(reshape(p, [M, 2, 4, 128])) }",
                 "matmul/rows>2", sizes);
}

static void test_turned_behind(void **state) {
    (void)state;
    expect_graph(
        "graph g (x: bf16[M, 8], w: bf16[1024, 8], g: f32[128], c: f32[M, 1, 64], s: f32[M, 1, 64])\n"
        "    -> (y: bf16[M, 8, 128]) {\n"
        "  y = rope(rmsnorm(reshape(x @ w.T, [M, 8, 128]), g), c, s) }",
        "matmul/rows", sizes);
    expect_graph(
        "graph g (x: bf16[M, 8], w: bf16[1024, 8], g: f32[128], c: f32[M, 1, 64], s: f32[M, 1, 64])\n"
        "    -> (y: bf16[8, M, 128]) {\n"
        "  y = transpose(rope(rmsnorm(reshape(x @ w.T, [M, 8, 128]), g), c, s, interleaved=true), [1, 0, 2]) "
        "}",
        "matmul/rows", sizes);
}

/* Narrow heads of a whole product, of which tiles have several; with factors of blocks too. */
static void test_joined(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1024, 8]) -> (y: bf16[M, 16, 64]) {\n"
                 "  y = rmsnorm(reshape(x @ w.T, [M, 16, 64])) }",
                 "matmul/rows", sizes);
    expect_graph("graph g (x: e4m3[M, 256], w: e4m3[1024, 256], a: f32[M, 2], b: f32[8, 2]) -> (y: bf16[M, "
                 "8, 128]) {\n"
                 "  p = dequantize(x, a, block=[1, 128]) @ dequantize(w, b, block=[128, 128]).T\n"
                 "  y = rmsnorm(reshape(p, [M, 8, 128])) }",
                 "matmul/rows", sizes);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1280, 8], c: f32[M, 1, 40], s: f32[M, 1, 40]) -> (y: "
                 "bf16[M, 16, 80]) {\n"
                 "  y = rope(rmsnorm(reshape(x @ w.T, [M, 16, 80])), c, s) }",
                 "matmul/rows", sizes);
}

/* Heads of no multiple of 16 columns, too few tiles, and rows that are reduced as a whole. */
static void test_left_alone(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1152, 8]) -> (y: bf16[M, 16, 72]) {\n"
                 "  y = rmsnorm(reshape(x @ w.T, [M, 16, 72])) }",
                 "matmul rows", sizes);
    expect_graph("graph g (x: bf16[16, 8], w: bf16[1024, 8]) -> (y: bf16[16, 8, 128]) {\n"
                 "  y = rmsnorm(reshape(x @ w.T, [16, 8, 128])) }",
                 "matmul rows", sizes);
    expect_graph(
        "graph g (x: bf16[512, 8], w: bf16[9344, 8]) -> (q: bf16[512, 64, 128], k: bf16[512, 9, 128]) {\n"
        "  h = x @ w.T; q = rmsnorm(reshape(h[:, 0:8192], [512, 64, 128]))\n"
        "  k = rmsnorm(reshape(h[:, 8192:9344], [512, 9, 128])) }",
        "matmul rows rows", sizes);
    /* rows of a kernel that rotates them, too */
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1152, 8], c: f32[M, 1, 36], s: f32[M, 1, 36]) -> (y: "
                 "bf16[M, 16, 72]) {\n"
                 "  y = rope(rmsnorm(reshape(x @ w.T, [M, 16, 72])), c, s) }",
                 "matmul rows", sizes);
    expect_graph("graph g (x: bf16[M, 8], w: bf16[1024, 8]) -> (y: f32[M, 8]) {\n"
                 "  y = sum(reshape(x @ w.T, [M, 8, 128]), over=2, keep=0) }",
                 "matmul", sizes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics_applied),
        cmocka_unit_test(test_turned_behind),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
