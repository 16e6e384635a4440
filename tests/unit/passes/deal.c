/* First operands whose rows begin anywhere, as matrices whose rows begin alike. */
#include "support.h"

static const SupportDim sizes[] = {{"M", 64}, {NULL, 0}};

/* By eighths, fourths and halves of the rows; what follows goes on. */
static void test_dealt(void **state) {
    (void)state;
    check_text("graph g (x: bf16[512, 65], w: bf16[65, 64]) -> (y: bf16[512, 64]) { y = x @ w }", sizes,
               LIST("reshape(x, dims=[64, 8, 65])", "perm=[1, 0, 2]"), NONE);
    check_text("graph g (x: f16[256, 70], w: f16[70, 64]) -> (y: f16[256, 64]) { y = x @ w }", sizes,
               LIST("reshape(x, dims=[64, 4, 70])"), NONE);
    check_text("graph g (x: bf16[128, 68], w: bf16[68, 64]) -> (y: f32[128, 64]) { y = x @ w }", sizes,
               LIST("reshape(x, dims=[64, 2, 68])"), NONE);
    check_text("graph g (x: bf16[512, 65], w: bf16[65, 64], c: bf16[64], r: bf16[512, 64]) -> "
               "(y: bf16[512, 64]) { y = relu(x @ w + c) + r }",
               sizes, LIST("reshape(x, dims=[64, 8, 65])", "reshape(r, dims=[64, 8, 64])"), NONE);
}

/* Rows of whole pieces, or that no count divides, or of which a matrix has few; rows of the other operand
 * that begin anywhere; elements of other sizes; sizes that are not known. */
static void test_not_dealt(void **state) {
    (void)state;
    static const char *const texts[] = {
        "graph g (x: bf16[512, 72], w: bf16[72, 64]) -> (y: bf16[512, 64]) { y = x @ w }",
        "graph g (x: bf16[516, 65], w: bf16[65, 64]) -> (y: bf16[516, 64]) { y = x @ w }",
        "graph g (x: bf16[256, 65], w: bf16[65, 64]) -> (y: bf16[256, 64]) { y = x @ w }",
        "graph g (x: bf16[512, 65], w: bf16[65, 65]) -> (y: bf16[512, 65]) { y = x @ w }",
        "graph g (x: tf32[512, 65], w: tf32[65, 64]) -> (y: f32[512, 64]) { y = x @ w }",
        "graph g (x: bf16[M, 65], w: bf16[65, 64]) -> (y: bf16[M, 64]) { y = x @ w }"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(texts[i], sizes, NONE, LIST("perm=[1, 0, 2]"));
}

/* Sums and products of the result want its rows in order; so does who says how it is computed. */
static void test_in_order(void **state) {
    (void)state;
    static const char *const texts[] = {
        "graph g (x: bf16[512, 65], w: bf16[65, 64]) -> (y: f32[1, 64]) { y = sum(f32(x @ w), over=0) }",
        "graph g (x: bf16[512, 65], w: bf16[65, 64]) -> (y: bf16[512, 64]) { y = softmax(x @ w) }",
        "graph g (x: bf16[512, 65], w: bf16[65, 64], v: bf16[64, 64]) -> (y: bf16[512, 64]) {\n"
        "  y = relu(x @ w) @ v }",
        "graph g (x: bf16[512, 65], w: bf16[65, 64]) -> (y: bf16[512, 64]) {\n"
        "  y = x @ w @schedule(path=mma) }"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(texts[i], sizes, NONE, LIST("perm=[1, 0, 2]"));
}

/* A long K of few tiles is shared by blocks that are dealt none; of few rows a matrix tiles would be small; a
 * step of K more costs more than the copy. */
static void test_copied(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[8192, 50257], w: bf16[50257, 768]) -> (y: bf16[8192, 768]) { y = x @ w }",
                 "matmul", NULL);
    expect_graph("graph g (x: bf16[512, 50257], w: bf16[50257, 128]) -> (y: bf16[512, 128]) { y = x @ w }",
                 "pointwise matmul", NULL);
    expect_graph("graph g (x: bf16[512, 1001], w: bf16[1001, 4096]) -> (y: bf16[512, 4096]) { y = x @ w }",
                 "pointwise matmul", NULL);
    expect_graph("graph g (x: bf16[8192, 767], w: bf16[767, 3072]) -> (y: bf16[8192, 3072]) { y = x @ w }",
                 "pointwise matmul", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dealt),
        cmocka_unit_test(test_not_dealt),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
