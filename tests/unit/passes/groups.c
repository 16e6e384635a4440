/* Groups of few channels: what becomes of their products, what is left alone, and that they mean the same. */
#include "support.h"

static void expect_groups(const char *text, const char *kernels) {
    Support support = {.text = text, .dims = NO_DIMS};
    support_run(&support);
    assert_string_equal(support.kernels, kernels);
    assert_true(support.evaluated && support.worst < 1e-5);
    support_end(&support);
}

static void test_by_elements(void **state) {
    (void)state;
    expect_groups("graph g (x: bf16[2, 6, 7, 8], w: bf16[16, 3, 3, 4]) -> (y: f32[2, 6, 7, 16]) {\n"
                  "  y = relu(conv(x, w, pad=1, groups=2)) }",
                  "columns");
    expect_groups("graph g (x: f16[2, 9, 8], w: f16[8, 3, 2]) -> (y: f32[2, 9, 8]) {\n"
                  "  y = conv(x, w, pad=1, groups=4) }",
                  "columns");
    expect_groups("graph g (dy: bf16[2, 6, 7, 16], w: bf16[16, 3, 3, 2]) -> (dx: f32[2, 6, 7, 4]) {\n"
                  "  dx = conv_backward_data(dy, w, [6, 7], pad=1, groups=2) }",
                  "columns");
}

static void test_together(void **state) {
    (void)state;
    expect_groups("graph g (x: f16[2, 64, 64, 96], w: f16[96, 1, 1, 12]) -> (y: f32[2, 64, 64, 96]) {\n"
                  "  y = conv(x, w, groups=8) }",
                  "pointwise matmul");
    expect_groups("graph g (x: bf16[2, 1024, 128], w: bf16[128, 49, 8]) -> (y: f32[2, 1024, 128]) {\n"
                  "  y = conv(x, w, pad=24, groups=16) }",
                  "pointwise matmul");
    expect_groups("graph g (dy: bf16[2, 16, 16, 48], x: bf16[2, 16, 16, 48]) -> (dw: f32[48, 1, 1, 16]) {\n"
                  "  dw = conv_backward_weights(dy, x, [1, 1], groups=3) }",
                  "matmul columns");
    expect_groups("graph g (dy: bf16[2, 16, 16, 64], x: bf16[2, 16, 16, 64]) -> (dw: f32[64, 1, 1, 32]) {\n"
                  "  dw = conv_backward_weights(dy, x, [1, 1], groups=2) }",
                  "matmul columns");
}

/* Channels that are no power of two or too many, features that are many, windows along three axes, groups
 * that lines of channels are no less work for, few places, and what the source says how to multiply. */
static void test_left_alone(void **state) {
    (void)state;
    static const char *const texts[] = {
        "graph g (x: bf16[2, 6, 7, 6], w: bf16[8, 3, 3, 3]) -> (y: f32[2, 6, 7, 8]) {\n"
        "  y = conv(x, w, pad=1, groups=2) }",
        "graph g (x: bf16[2, 6, 7, 32], w: bf16[32, 3, 3, 16]) -> (y: f32[2, 6, 7, 32]) {\n"
        "  y = conv(x, w, pad=1, groups=2) }",
        "graph g (x: bf16[2, 6, 7, 8], w: bf16[64, 3, 3, 4]) -> (y: f32[2, 6, 7, 64]) {\n"
        "  y = conv(x, w, pad=1, groups=2) }",
        "graph g (x: bf16[1, 3, 4, 5, 8], w: bf16[8, 3, 3, 3, 4]) -> (y: f32[1, 3, 4, 5, 8]) {\n"
        "  y = conv(x, w, pad=1, groups=2) }",
        "graph g (dy: bf16[2, 16, 16, 400], x: bf16[2, 16, 16, 400]) -> (dw: f32[400, 3, 3, 80]) {\n"
        "  dw = conv_backward_weights(dy, x, [3, 3], pad=1, groups=5) }",
        "graph g (dy: bf16[1, 4, 4, 64], x: bf16[1, 4, 4, 64]) -> (dw: f32[64, 1, 1, 32]) {\n"
        "  dw = conv_backward_weights(dy, x, [1, 1], groups=2) }",
        "graph g (x: bf16[2, 6, 7, 8], w: bf16[16, 3, 3, 4]) -> (y: f32[2, 6, 7, 16]) {\n"
        "  y = conv(x, w, pad=1, groups=2) @schedule(path=mma) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_groups(texts[i], "matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_elements), cmocka_unit_test(test_together),
                                       cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
