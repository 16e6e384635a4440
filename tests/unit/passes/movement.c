/* Movement: what meets is joined, and what remains stands at inputs and outputs. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"M", 3}, {"N", 4}, {NULL, 0}};

static void test_joined(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, N]) -> (y: f32[M, N]) { y = exp(transpose(transpose(x, perm=[1, 0]), "
               "perm=[1, 0])) }",
               sizes, LIST("exp(x)"), LIST("transpose("));
    check_text("graph g (x: f32[M, 6, N]) -> (y: f32[N, M, 6]) {\n"
               "  y = transpose(transpose(x, perm=[1, 2, 0]), perm=[1, 2, 0]) }",
               sizes, LIST("transpose(x, perm=[2, 0, 1])"), NONE);
    check_text("graph g (x: f32[M, 6]) -> (y: f32[M, 3, 2]) { y = reshape(reshape(x, dims=[M, 2, 3]), "
               "dims=[M, 3, 2]) }",
               sizes, LIST("reshape(x, dims=[M, 3, 2])"), LIST("dims=[M, 2, 3]"));
    check_text("graph g (x: f32[M, 6]) -> (y: f32[M, 6]) { y = exp(reshape(reshape(x, dims=[M, 2, 3]), "
               "dims=[M, 6])) }",
               sizes, LIST("exp(x)"), LIST("reshape("));
    check_text("graph g (x: f32[M, 8]) -> (y: f32[M, 2]) { y = x[:, 2:6][:, 1:3] }", sizes,
               LIST("start=[0, 3], limit=[M, 5]"), NONE);
    check_text("graph g (x: f32[M, 8]) -> (y: f32[M, 8]) { y = exp(x[:, 0:8]) }", sizes, LIST("exp(x)"),
               LIST("slice("));
}

static void test_transpose_of_single_axes_is_a_reshape(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, 1, N]) -> (y: f32[M, N, 1]) { y = exp(transpose(x, perm=[0, 2, 1])) }",
               sizes, LIST("reshape(x, dims=[M, N, 1])"), LIST("transpose("));
}

/* Not cut where they stay side by side and are joined behind; cut where another axis comes between. */
static void test_neighbours_stay_joined(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, 8, 12]) -> (y: f32[M, 4, 24]) { y = exp(reshape(transpose(reshape(x, "
               "[M, 2, 4, 4, 3]), [0, 2, 1, 3, 4]), [M, 4, 24])) }",
               sizes, LIST("dims=[M, 2, 4, 12]", "perm=[0, 2, 1, 3]"), LIST("dims=[M, 2, 4, 4, 3]"));
    check_text("graph g (x: f32[M, 8, 12]) -> (y: f32[M, 4, 24]) { y = exp(reshape(transpose(reshape(x, "
               "[M, 2, 4, 4, 3]), [0, 2, 3, 1, 4]), [M, 4, 24])) }",
               sizes, LIST("dims=[M, 2, 4, 4, 3]"), NONE);
}

static void test_broadcasts_that_nobody_needs(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, N], b: f32[N]) -> (y: f32[M, N]) { y = x + broadcast(b, dims=[M, N]) }",
               sizes, LIST("add(x, b)"), LIST("broadcast("));
    check_text("graph g (b: f32[N]) -> (y: f32[M, N]) { y = exp(broadcast(b, dims=[M, N])) }", sizes,
               LIST("broadcast("), NONE);
}

static void test_slice_of_concat(void **state) {
    (void)state;
    check_text(
        "graph g (x: f32[M, 3], z: f32[M, 5]) -> (y: f32[M, 5]) { y = exp(concat(x, z, axis=1)[:, 3:8]) }",
        sizes, LIST("exp(z)"), LIST("concat(", "slice("));
}

static void test_slices_compute_what_is_used(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, 8]) -> (y: f32[M, 2]) { y = sin(x)[:, 2:4] }", sizes,
               LIST("slice(x", "sin(v0)"), NONE);
    check_text("graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: f32[M, 3]) { y = (x @ w)[:, 0:3] }", sizes,
               LIST("slice(w"), NONE);
    /* Overlapping parts: the whole product is less work. */
    check_text("graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: f32[M, 4], z: f32[M, 4]) { h = x @ w; y = h[:, "
               "0:4]; z = h[:, 2:6] }",
               sizes, LIST("matmul(x, w, dtype=f32)"), NONE);
}

static void test_hoisted_to_inputs(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, 8], b: f32[8]) -> (y: f32[M, 1, 1]) {\n"
               "  y = sum(reshape(x * b, dims=[M, 2, 4]), over=[1, 2]) }",
               sizes, LIST("mul(x, ", "over=[1]"), LIST("dims=[M, 2, 4]"));
    /* A bias that splits axes unevenly cannot follow. */
    check_text(
        "graph g (x: f32[2, 3, N], b: f32[3, N]) -> (y: f32[6, N]) { y = exp(reshape(x + b, dims=[6, N])) }",
        sizes, LIST("add(x, b)"), NONE);
}

static void test_sunk_to_outputs(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, 8], w: f32[8, 6], r: bf16[M, 2, 3]) -> (y: bf16[M, 2, 3]) {\n"
               "  y = cast(reshape(x @ w, dims=[M, 2, 3]) + r, dtype=bf16) }",
               sizes, LIST("reshape(r, dims=[M, 6])", "y = reshape("), NONE);
}

/* Below a product, slices, joins and reshapes are of its own order. */
static void test_transposed_behind(void **state) {
    (void)state;
    check_text(
        "graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: f32[6, M], z: f32[3, M]) {\n"
        "  t = transpose(x @ w, perm=[1, 0])\n  y = concat(-t[3:6, :], t[0:3, :], axis=0)\n  z = t[0:3, :] }",
        sizes, LIST("start=[0, 3]", "axis=1", "y = transpose("), LIST("start=[3, 0]", "axis=0"));
    check_text("graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: f32[2, 3, M], z: f32[M, 6]) {\n"
               "  z = x @ w\n  y = reshape(transpose(z, perm=[1, 0]), dims=[2, 3, M]) }",
               sizes, LIST("dims=[M, 2, 3]", "y = transpose("), LIST("dims=[2, 3, M]"));
    /* Where nobody wants it in the other order, the product itself is transposed. */
    check_text("graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: f32[2, 3, M]) {\n"
               "  y = transpose(reshape(x @ w, dims=[M, 2, 3]), perm=[1, 2, 0]) }",
               sizes, LIST("y = reshape(", "dims=[2, 3, M]"), LIST("dims=[M, 2, 3]"));
    check_text("graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: f32[3, 2, M]) {\n"
               "  y = transpose(reshape(x @ w, dims=[M, 2, 3]), perm=[2, 1, 0]) }",
               sizes, LIST("dims=[M, 2, 3]", "y = transpose("), NONE);
    /* Read in both orders, each converted by itself, it is multiplied once. */
    check_text("graph g (x: f32[M, 8], w: f32[8, 6]) -> (y: bf16[2, 3, M], z: bf16[2, M, 3]) {\n"
               "  h = reshape(x @ w, dims=[M, 2, 3])\n"
               "  y = transpose(h, perm=[1, 2, 0])\n  z = transpose(h, perm=[1, 0, 2]) }",
               sizes, LIST("matmul(x, w, dtype=f32)"), LIST("transpose(w", "transpose(x"));
    /* Axes that did not stand side by side stay joined behind the transpose. */
    check_text("graph g (x: f32[2, M, 8], w: f32[8, 6]) -> (y: f32[M, 12]) {\n"
               "  y = reshape(transpose(x @ w, perm=[1, 0, 2]), dims=[M, 12]) }",
               sizes, LIST("perm=[1, 0, 2]", "dims=[M, 12]"), NONE);
}

static void test_reductions_take_their_two_forms(void **state) {
    (void)state;
    check_text("graph g (x: f32[M, N]) -> (y: f32[N]) { y = sum(x.T, over=1, keep=0) }", sizes,
               LIST("sum(x, over=[0], keep=1)"), LIST("transpose(x"));
    check_text("graph g (x: f32[M, 5, N, 6]) -> (y: f32[M, N]) { y = sum(x, over=[1, 3], keep=0) }", sizes,
               LIST("transpose(x, perm=[0, 2, 1, 3])", "over=[2, 3]"), NONE);
    check_text("graph g (x: f32[M, 16, N]) -> (y: f32[M, N]) { y = sum(x, over=1, keep=0) }", sizes,
               LIST("transpose(x, perm=[1, 0, 2])", "over=[0]"), NONE);
    /* argmax numbers the elements in their old order. */
    check_text("graph g (x: f32[M, 5, N, 6]) -> (y: i64[M, N]) { y = argmax(x, over=[1, 3], keep=0) }", sizes,
               LIST("transpose(x, perm=[0, 2, 1, 3])"), NONE);
    check_text("graph g (x: f32[M, 5, 6]) -> (y: i64[M]) { y = argmax(transpose(x, perm=[0, 2, 1]), over=[1, "
               "2], keep=0) }",
               sizes, LIST("transpose(x, perm=[0, 2, 1])"), NONE);
    /* One number is computed where its reduction has it, and loses its axes last. */
    check_text("graph g (x: f32[M, N]) -> (y: f32[]) { y = sqrt(mean(x, over=[0, 1], keep=0)) }", sizes,
               LIST("y = reshape("), NONE);
}

static void test_tables_are_gathered_narrow(void **state) {
    (void)state;
    check_text("graph g (t: bf16[64, N], i: i32[M]) -> (y: f32[M, N]) { y = gather(cast(t, dtype=f32), i, "
               "axis=0) * 2 }",
               sizes, LIST("gather(t, i"), NONE);
    /* Both factors, and none that repeats along the axis: an index of nothing would not read 0. */
    check_text("graph g (t: e4m3[64, N], s: f32[64, 1], i: i32[M]) -> (y: f32[M, N]) {\n"
               "  y = gather(dequantize(t, s), i) }",
               sizes, LIST("gather(t, i", "gather(s, i"), NONE);
    check_text("graph g (t: f32[64, N], s: f32[1, N], i: i32[M]) -> (y: f32[M, N]) { y = gather(t * s, i) }",
               sizes, LIST("= mul(t, s)"), LIST("gather(t, i"));
}

/* What is narrowed repeats in windows, so that it is narrowed once, below them; widened, it stays narrow. */
static void test_windows_of_what_is_cast(void **state) {
    (void)state;
    check_text("graph g (x: f32[2, 9, M]) -> (y: bf16[2, 4, M, 3]) {\n"
               "  y = cast(window(x, axis=1, size=3, step=2), dtype=bf16) }",
               sizes, LIST("cast(x, dtype=bf16)", "window(v0"), LIST("window(x"));
    check_text("graph g (x: f32[2, 9, M]) -> (y: bf16[2, 5, M, 3]) {\n"
               "  y = cast(windows(x, 3, 2, 1, 1, 0.3), dtype=bf16) }",
               sizes, LIST("cast(x, dtype=bf16)", "pad(v0", "window("), LIST("pad(x"));
    check_text("graph g (x: f32[2, 9, 8]) -> (y: bf16[18, 24]) {\n"
               "  t = windows(x, 3, 1, 1, 1, 0)\n"
               "  y = cast(reshape(transpose(t, perm=[0, 1, 3, 2]), dims=[18, 24]), dtype=bf16) }",
               sizes, LIST("cast(x, dtype=bf16)"), LIST("pad(x"));
    check_text("graph g (x: bf16[2, 9, M]) -> (y: f32[2, 4, M, 3]) {\n"
               "  y = cast(window(x, axis=1, size=3, step=2), dtype=f32) }",
               sizes, LIST("window(x"), LIST("cast(x"));
    /* Others read them as they are. */
    check_text("graph g (x: f32[2, 9, M]) -> (y: bf16[2, 4, M, 3], z: f32[2, 4, M, 3]) {\n"
               "  t = window(x, axis=1, size=3, step=2)\n"
               "  y = cast(t, dtype=bf16); z = t * 2 }",
               sizes, LIST("window(x"), LIST("cast(x"));
    /* No window, no repetition. */
    check_text("graph g (x: f32[2, 9, M]) -> (y: bf16[2, 11, M]) {\n"
               "  y = cast(pad(x, 0.3, low=[0, 1, 0], high=[0, 1, 0]), dtype=bf16) }",
               sizes, LIST("pad(x"), LIST("cast(x"));
}

static void test_windows_of_one_element(void **state) {
    (void)state;
    check_text("graph g (x: f32[2, 9, M]) -> (y: f32[2, 5, M, 1]) { y = exp(window(x, axis=1, size=1, "
               "step=2)) }",
               sizes, LIST("slice(x", "step=[1, 2, 1]", "dims=[2, 5, M, 1]"), LIST("window("));
    check_text("graph g (x: f32[2, 9, M]) -> (y: f32[2, 9, M]) {\n"
               "  y = exp(reshape(window(x, axis=1, size=1, dilation=4), dims=[2, 9, M])) }",
               sizes, LIST("exp("), LIST("window(", "slice("));
    check_text("graph g (x: f32[2, 9, 7, M]) -> (y: f32[2, 5, 3, M, 1, 2]) {\n"
               "  y = exp(windows(x, [1, 2], [2, 3], [0, 1], 1, 0)) }",
               sizes, LIST("axis=2, size=2"), LIST("size=1"));
}

/* Taps come to the front, where kernels go through them in vectors of channels. */
static void test_reductions_of_windows_are_of_columns(void **state) {
    (void)state;
    check_text("graph g (x: f32[2, 9, N]) -> (y: f32[2, 4, N]) {\n"
               "  y = reduce_max(window(x, axis=1, size=3, step=2), over=-1, keep=0) }",
               sizes, LIST("perm=[3, 0, 1, 2]", "over=[0]"), LIST("over=[3]"));
    check_text("graph g (x: f32[2, 9, 8, N]) -> (y: f32[2, 9, 8, N]) { y = avg_pool(x, 3, 1, 1) }", sizes,
               LIST("perm=[4, 5, 0, 1, 2, 3]", "over=[0, 1]"), LIST("over=[4, 5]"));
    /* Below what is computed element by element as well; other rows stay. */
    check_text("graph g (x: f32[2, 9, N]) -> (y: f32[2, 4, N]) {\n"
               "  y = sum(exp(window(x, axis=1, size=3, step=2)) * 2, over=-1, keep=0) }",
               sizes, LIST("over=[0]"), LIST("over=[3]"));
    check_text("graph g (x: f32[2, 4, N, 3]) -> (y: f32[2, 4, N]) { y = sum(exp(x), over=-1, keep=0) }",
               sizes, LIST("over=[2]"), NONE); /* of the first two axes joined */
    expect_graph("graph g (x: f32[2, 9, N]) -> (y: f32[2, 4, N]) {\n"
                 "  y = reduce_max(window(x, axis=1, size=3, step=2), over=-1, keep=0) }",
                 "columns", sizes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_transpose_of_single_axes_is_a_reshape),
        cmocka_unit_test(test_neighbours_stay_joined),
        cmocka_unit_test(test_broadcasts_that_nobody_needs),
        cmocka_unit_test(test_slice_of_concat),
        cmocka_unit_test(test_slices_compute_what_is_used),
        cmocka_unit_test(test_hoisted_to_inputs),
        cmocka_unit_test(test_sunk_to_outputs),
        cmocka_unit_test(test_transposed_behind),
        cmocka_unit_test(test_reductions_take_their_two_forms),
        cmocka_unit_test(test_tables_are_gathered_narrow),
        cmocka_unit_test(test_windows_of_what_is_cast),
        cmocka_unit_test(test_windows_of_one_element),
        cmocka_unit_test(test_reductions_of_windows_are_of_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
