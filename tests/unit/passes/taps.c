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
                 "pointwise pointwise columns", sizes);
}

static void test_not_copied(void **state) {
    (void)state;
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
        cmocka_unit_test(test_not_copied),
        cmocka_unit_test(test_only_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
