/* Weights of windows that are reduced, an element a tap and channel: copied where their channels are no
 * neighbours in memory. */
#include "support.h"

static const SupportDim *sizes = DIMS({"N", 2});

static void test_copied(void **state) {
    (void)state;
    static const char *const depthwise =
        "graph g (x: bf16[N, 9, 10, 32], w: bf16[32, 3, 3, 1]) -> (y: bf16[N, 9, 10, 32]) {\n"
        "  y = conv(x, w, pad=1, groups=32) }";
    check_text(depthwise, sizes, LIST("reshape(w", "perm=[4, 5, 0, 1, 2, 3]", "pad("), NONE);
    expect_graph(depthwise, "pointwise columns", sizes);
    expect_graph("graph g (x: bf16[N, 9, 32], w: bf16[32, 3], b: bf16[32]) -> (y: bf16[N, 7, 32]) {\n"
                 "  y = silu(sum(window(x, axis=1, size=3) * w, over=-1, keep=0) + b) }",
                 "pointwise columns", sizes);
    /* Two weights, in two places of the expression. */
    expect_graph("graph g (x: f32[N, 9, 32], w: f32[32, 3], v: f32[32, 3]) -> (y: f32[N, 7, 32]) {\n"
                 "  y = sum(exp(window(x, axis=1, size=3) * w) * v, over=-1, keep=0) }",
                 "pointwise>2 columns", sizes);
    /* Of an image that is computed: what is reduced is transposed, not its operands. */
    expect_graph(
        "graph g (x: bf16[N, 9, 10, 32], v: bf16[32, 32], w: bf16[32, 3, 3, 1]) -> (y: bf16[N, 9, 10, "
        "32]) {\n  y = conv(relu(x @ v), w, pad=1, groups=32) }",
        "matmul pointwise columns", sizes);
}

/* The gradient of such weights: parts of an image with a few places of an axis innermost, then their sum. */
static void test_places(void **state) {
    (void)state;
    static const char *const image =
        "graph g (dy: bf16[16, 24, 24, 32], x: bf16[16, 24, 24, 32]) -> (dw: bf16[32, 3, 3, 1]) {\n"
        "  dw = conv_backward_weights(dy, x, [3, 3], pad=1, groups=32) }";
    expect_graph(image, "columns columns", NULL);
    check_text(image, NO_DIMS, LIST("perm=[2, 3, 4, 0, 1, 6, 7, 5]", "over=[0, 1, 2]"), NONE);
    static const char *const sound =
        "graph g (dy: f32[16, 512, 64], x: f32[16, 512, 64]) -> (dw: f32[64, 4, 1]) {\n"
        "  dw = conv_backward_weights(dy, x, [4], pad=[[3, 0]], groups=64) }";
    check_text(sound, NO_DIMS, LIST("perm=[2, 3, 0, 1, 5, 4]", "over=[0, 1]"), NONE);
    /* so few that one kernel does */
    expect_graph("graph g (dy: bf16[1, 8, 8, 8], x: bf16[1, 8, 8, 8]) -> (dw: bf16[8, 3, 3, 1]) {\n"
                 "  dw = conv_backward_weights(dy, x, [3, 3], pad=1, groups=8) }",
                 "columns", NO_DIMS);
}

static void test_not_copied(void **state) {
    (void)state;
    /* Results are too few to pay for it. */
    expect_graph("graph g (x: bf16[1, 9, 10, 32], w: bf16[32, 3, 3, 1]) -> (y: bf16[1, 9, 10, 32]) {\n"
                 "  y = conv(x, w, pad=1, groups=32) }",
                 "columns", NO_DIMS);
    /* Channels are innermost, or there is one a tap. */
    expect_graph("graph g (x: bf16[N, 9, 32], w: bf16[3, 32]) -> (y: bf16[N, 7, 32]) {\n"
                 "  y = sum(window(x, axis=1, size=3) * w.T, over=-1, keep=0) }",
                 "columns", sizes);
    expect_graph("graph g (x: bf16[N, 9, 32], w: bf16[3]) -> (y: bf16[N, 7, 32]) {\n"
                 "  y = sum(window(x, axis=1, size=3) * w, over=-1, keep=0) }",
                 "columns", sizes);
    /* One a channel does not differ from tap to tap. */
    expect_graph("graph g (x: bf16[N, 9, 32], w: bf16[32, 1]) -> (y: bf16[N, 7, 32]) {\n"
                 "  y = sum(exp(window(x, axis=1, size=3) * w), over=-1, keep=0) }",
                 "columns", sizes);
    /* There is nothing to copy, and what is computed has its own order. */
    expect_graph("graph g (x: bf16[N, 9, 32]) -> (y: bf16[N, 4, 32]) {\n"
                 "  y = reduce_max(window(x, axis=1, size=3, step=2), over=-1, keep=0) }",
                 "columns", sizes);
}

static void test_only_fused(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[2, 9, 32], w: bf16[32, 3]) -> (y: bf16[2, 7, 32]) {\n"
                               "  y = sum(window(x, axis=1, size=3) * w, over=-1, keep=0) }",
                       .no_fusion = true,
                       .dims = NO_DIMS};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_null(strstr(support.printed, "pad("));
    assert_true(support.evaluated && support.worst < 1e-2);
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copied),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_not_copied),
        cmocka_unit_test(test_only_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
