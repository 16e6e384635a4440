/* Convolutions of images of few channels: where a copy of more channels pays, what it means then, and where
 * the windows stay as they are. */
#include "support.h"

/* The kernels of a convolution, and that it says what the graph says. */
static void expect_windows(const char *x, const char *w, const char *y, const char *how,
                           const char *kernels) {
    char text[512];
    snprintf(text, sizeof text, "graph g (x: %s, w: %s) -> (y: %s) { y = conv(x, w%s }", x, w, y, how);
    expect_within(text, kernels, NO_DIMS, 1e-2);
}

static void test_copied(void **state) {
    (void)state;
    expect_windows("bf16[18, 64, 64, 3]", "bf16[8, 7, 7, 3]", "bf16[18, 32, 32, 8]", ", stride=2, pad=3)",
                   "pointwise pointwise matmul");
    /* steps that do not divide the taps, nor the image; nothing left of some lines */
    expect_windows("bf16[42, 66, 65, 3]", "bf16[8, 7, 7, 3]", "bf16[42, 20, 20, 8]", ", stride=3)",
                   "pointwise pointwise matmul");
    expect_windows("bf16[1, 300, 300, 4]", "bf16[8, 5, 5, 4]", "bf16[1, 150, 150, 8]", ", stride=2, pad=2)",
                   "pointwise pointwise matmul");
}

static void test_as_they_are(void **state) {
    (void)state;
    expect_windows("bf16[2, 64, 64, 3]", "bf16[8, 7, 7, 3]", "bf16[2, 32, 32, 8]", ", stride=2, pad=3)",
                   "matmul"); /* few places */
    expect_windows("bf16[18, 64, 64, 3]", "bf16[8, 7, 7, 3]", "bf16[18, 32, 32, 8]",
                   ", stride=2, pad=3) @expect(kernels=1)", "matmul");
    expect_windows("bf16[18, 64, 64, 3]", "bf16[8, 4, 4, 3]", "bf16[18, 16, 16, 8]", ", stride=4)",
                   "matmul"); /* patches, which do not slide */
    expect_windows("bf16[18, 64, 64, 16]", "bf16[8, 3, 3, 16]", "bf16[18, 32, 32, 8]", ", stride=2, pad=1)",
                   "matmul"); /* channels that TMA takes */
    expect_windows("bf16[18, 64, 64, 3]", "bf16[8, 4, 4, 3]", "bf16[18, 32, 32, 8]",
                   ", stride=2, pad=3, dilation=2)", "matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copied), cmocka_unit_test(test_as_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
