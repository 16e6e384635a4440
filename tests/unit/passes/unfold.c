/* Windows of few channels: where they are written to memory first, and where a product's kernel computes
 * them. */
#include "support.h"

/* The kernels of a gradient of weights, and that it says what the graph says. */
static void expect_weights(const char *dy, const char *x, const char *dw, const char *how,
                           const char *kernels) {
    char text[512];
    snprintf(text, sizeof text,
             "graph g (dy: %s, x: %s) -> (dw: %s) { dw = conv_backward_weights(dy, x, %s }", dy, x, dw, how);
    expect_within(text, kernels, NO_DIMS, 1e-2);
}

static void test_written(void **state) {
    (void)state;
    expect_weights("bf16[8, 32, 32, 16]", "bf16[8, 32, 32, 3]", "bf16[16, 3, 3, 3]", "[3, 3], pad=1)",
                   "pointwise matmul");
    expect_weights("bf16[8, 16, 16, 16]", "bf16[8, 64, 64, 3]", "bf16[16, 4, 4, 3]", "[4, 4], stride=4)",
                   "pointwise matmul");
    expect_weights("f16[8, 28, 28, 16]", "f16[8, 28, 28, 12]", "f16[16, 3, 3, 12]", "[3, 3], pad=1)",
                   "pointwise matmul");
    /* in parts of K, whichever operand has the windows */
    expect_weights("bf16[8, 64, 64, 8]", "bf16[8, 64, 64, 2]", "bf16[8, 3, 3, 2]", "[3, 3], pad=1)",
                   "pointwise matmul columns");
}

/* A narrow operand is copied beside windows that TMA follows. */
static void test_widened(void **state) {
    (void)state;
    expect_weights("bf16[4, 64, 64, 3]", "bf16[4, 64, 64, 32]", "bf16[3, 3, 3, 32]", "[3, 3], pad=1)",
                   "pointwise matmul");
    expect_weights("bf16[2, 32, 32, 8]", "bf16[2, 32, 32, 16]", "bf16[8, 3, 3, 16]", "[3, 3], pad=1)",
                   "matmul");
    expect_weights("bf16[1, 8, 8, 3]", "bf16[1, 8, 8, 16]", "bf16[3, 3, 3, 16]", "[3, 3], pad=1)", "matmul");
}

static void test_computed(void **state) {
    (void)state;
    expect_weights("bf16[2, 16, 16, 16]", "bf16[2, 16, 16, 3]", "bf16[16, 3, 3, 3]", "[3, 3], pad=1)",
                   "matmul"); /* few places */
    expect_weights("f32[8, 32, 32, 4]", "f32[8, 32, 32, 3]", "f32[4, 3, 3, 3]", "[3, 3], pad=1)", "matmul");
    /* channels of 16 bytes, which TMA copies */
    expect_weights("bf16[8, 32, 32, 16]", "bf16[8, 32, 32, 8]", "bf16[16, 3, 3, 8]", "[3, 3], pad=1)",
                   "matmul");
    /* as many kernels as the graph says */
    expect_weights("bf16[8, 32, 32, 16]", "bf16[8, 32, 32, 3]", "bf16[16, 3, 3, 3]",
                   "[3, 3], pad=1) @expect(kernels=1)", "matmul");
}

static void test_patches(void **state) {
    (void)state;
    /* patches lie beside each other; windows that overlap would be more than the image */
    expect_graph("graph g (x: bf16[64, 224, 224, 3], w: bf16[768, 16, 16, 3]) -> (y: bf16[64, 14, 14, 768]) "
                 "{ y = conv(x, w, stride=16) }",
                 "pointwise matmul", NULL);
    expect_graph("graph g (x: bf16[64, 224, 224, 3], w: bf16[768, 16, 16, 3]) -> (y: bf16[64, 27, 27, 768]) "
                 "{ y = conv(x, w, stride=8) }",
                 "matmul", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_written), cmocka_unit_test(test_widened),
                                       cmocka_unit_test(test_computed), cmocka_unit_test(test_patches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
