/* Results in another order than the one that they are computed in: which kernel stores them so. */
#include "support.h"

/* Columns of few rows, along these rows. */
static void test_along_columns(void **state) {
    (void)state;
    expect_within("graph g (x: bf16[64, 8512]) -> (q: e4m3[8512, 64], s: f32[8512, 2]) {\n"
                  "  q, s = quantize_block(transpose(x, [1, 0]), 32) }",
                  "columns>2", NULL, 8e-2);
    /* rows that fill no block evenly, and too few columns for all multiprocessors: the tile is another
     * kernel's */
    expect_graph("graph g (x: f32[72, 8512]) -> (y: f32[8512, 72]) { y = transpose(softmax(x, 0), [1, 0]) }",
                 "columns transpose", NULL);
}

/* Across the rows of a norm. */
static void test_across_rows(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 32});
    expect_graph("graph g (x: f32[M, 96]) -> (y: f32[96, M]) { y = transpose(rmsnorm(x), [1, 0]) }", "rows",
                 dims);
    expect_graph("graph g (x: f32[2, M, 96]) -> (y: f32[2, M, 96], t: f32[2, 96, M]) {\n"
                 "  y = softmax(x)\n  t = transpose(y, [0, 2, 1]) }",
                 "rows>2", dims);
}

static bool takes_none(void *context, const Graph *graph, const Region *region, const char **why) {
    (void)context, (void)graph;
    *why = "none";
    return region->kind != TEMPLATE_ROWS;
}

/* Where no schedule has a tile, a kernel of its own transposes. */
static void test_refused(void **state) {
    (void)state;
    Support support = {.text =
                           "graph g (x: f32[M, 96]) -> (y: f32[96, M]) { y = transpose(rmsnorm(x), [1, 0]) }",
                       .takes = takes_none,
                       .dims = DIMS({"M", 32})};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, "rows transpose");
    assert_true(support.evaluated && support.worst < 1e-5);
    support_end(&support);
}

/* A reduction beside what is stored both ways is taken in parts of 128 rows; of rows alone it is not. */
static void test_both_ways(void **state) {
    (void)state;
    expect_graph(
        "graph g (x: f32[512, 2176]) -> (q: f32[512, 2176], t: f32[2176, 512], a: f32[], c: f32[2176]) {\n"
        "  q = x * 0.5\n  t = transpose(q, [1, 0])\n  a = amax(x, over=[0, 1], keep=0)\n"
        "  c = sum(x, over=0, keep=0) }",
        "columns>4 rows rows columns", NULL);
    expect_graph("graph g (x: f32[512, 2112]) -> (q: f32[512, 2112], t: f32[2112, 512], r: f32[512, 1]) {\n"
                 "  q = x * 0.5\n  t = transpose(q, [1, 0])\n  r = sum(x, over=1) }",
                 "rows>3", NULL);
}

/* An output that a kernel computes under other dims, for what it reduces. */
static void test_moved(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[2, 64, 32, 32], r: f32[2, 64, 32, 32]) -> (s: f32[2, 64, 32, 32], y: "
                 "f32[2, 64, 32, 32]) {\n"
                 "  s = x + r\n  y = groupnorm(s, 8, axis=1) }",
                 "rows>2", NULL);
    /* of another tensor's elements, or transposed, it is another sum */
    expect_graph(
        "graph g (x: f32[64, 64, 64], r: f32[64, 64, 64]) -> (s: f32[64, 64, 64], y: f32[64, 64, 64]) {\n"
        "  s = x + transpose(r, [1, 0, 2])\n  y = softmax(x + r, 1) }",
        "columns>2 pointwise>2", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_along_columns),
                                       cmocka_unit_test(test_across_rows), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_both_ways), cmocka_unit_test(test_moved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
