/* Axes that nothing tells apart become one. */
#include "support.h"

static const SupportDim sizes[] = {{"N", 5}, {NULL, 0}};

static void test_joined(void **state) {
    (void)state;
    check_text("graph g (x: f32[5, 3, 4, 7]) -> (y: f32[5, 3, 4, 7]) { y = exp(x - sum(x, over=1)) }", sizes,
               LIST("reshape(x, dims=[5, 3, 28])", "y = reshape("), NONE);
    check_text("graph g (x: f32[5, 3, 4, 7], r: f32[5, 3, 1, 1], b: f32[4, 7]) -> (y: f32[5, 3, 4, 7]) {\n"
               "  y = exp(x * r + b) }",
               sizes, LIST("reshape(x, dims=[15, 28])", "reshape(r, dims=[15, 1])", "reshape(b, dims=["),
               NONE);
    check_text("graph g (x: f32[5, 3, 4, 7]) -> (y: f32[5, 3, 1, 1]) { y = sum(x * x, over=[2, 3]) }", sizes,
               LIST("reshape(x, dims=[15, 28])", "over=[1]"), NONE);
}

/* One axis alone is reduced, repeated or moved, or its size is not known. */
static void test_apart(void **state) {
    (void)state;
    check_text("graph g (x: f32[5, 3, 7]) -> (y: f32[5, 3, 7]) { y = x - sum(x, over=1) }", sizes, NONE,
               LIST("reshape("));
    check_text("graph g (x: f32[20, 30], b: f32[30]) -> (y: f32[20, 30]) { y = exp(x + b) }", sizes, NONE,
               LIST("reshape("));
    check_text("graph g (x: f32[N, 3]) -> (y: f32[N, 3]) { y = exp(x) }", sizes, NONE, LIST("reshape("));
    check_text("graph g (x: f32[3, 5, 8], w: f32[8, 4]) -> (y: f32[3, 5, 4], z: f32[3, 5, 8]) {\n"
               "  y = x @ w; z = exp(x) }",
               sizes, NONE, LIST("dims=[120]"));
}

/* Axes of few elements leave a transpose's tiles empty: what is the same along one of them then repeats. */
static void test_transposed(void **state) {
    (void)state;
    check_text("graph g (x: f32[40, 6, 32], b: f32[6]) -> (y: f32[32, 40, 6]) {\n"
               "  y = exp(transpose(x, perm=[2, 0, 1]) + b) }",
               sizes, LIST("reshape(x, dims=[240, 32])", "perm=[1, 0]", "broadcast(b, dims=["), NONE);
    check_text("graph g (x: f32[32, 40, 6], b: f32[40]) -> (y: f32[40, 6, 32]) {\n"
               "  y = exp(transpose(x, perm=[1, 2, 0]) + reshape(b, dims=[40, 1, 1])) }",
               sizes, LIST("reshape(x, dims=[32, 240])", "perm=[1, 0]"), NONE);
    check_text("graph g (x: f32[40, 24, 32], b: f32[24]) -> (y: f32[32, 40, 24]) {\n"
               "  y = exp(transpose(x, perm=[2, 0, 1]) + b) }",
               sizes, LIST("perm=[2, 0, 1]"), LIST("broadcast("));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_transposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
