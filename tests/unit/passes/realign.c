/* Operands that a product cannot read as they lie: which are copied, and which its kernel takes all the same.
 */
#include "support.h"

/* `takes`: the target's products have an operand of 32 bits along M or N from registers. */
static void expect_kernels(const char *text, bool takes, const char *kernels) {
    Support support = {.text = text, .limits = support_limits()};
    support.limits.turns_words = takes;
    support.limits.brings_rows = false;
    support_run(&support);
    assert_string_equal(support.kernels, kernels);
    support_end(&support);
}

#define GRAPH(X, W, BODY) "graph g (x: tf32[" X "], w: tf32[" W "]) -> (y: f32[1024, 1024]) { y = " BODY " }"

static void test_words(void **state) {
    (void)state;
    for (int takes = 0; takes < 2; takes++) {
        expect_kernels(GRAPH("1024, 512", "1024, 512", "x @ w.T"), takes, "matmul");
        expect_kernels(GRAPH("1024, 512", "512, 1024", "x @ w"), takes, "matmul");
        expect_kernels(GRAPH("512, 1024", "1024, 512", "relu(x.T @ w.T)"), takes, "matmul");
    }
    /* no copy makes mma.sync faster, where it is all that there is */
    expect_kernels(GRAPH("2048, 1024", "2048, 1024", "x.T @ w"), false, "matmul");
    expect_kernels(GRAPH("2048, 1024", "2048, 1024", "x.T @ w"), true, "transpose matmul");
}

/* Many small products, and few: mma.sync takes both operands as they lie. Not of a long K with few tiles, nor
 * where rows are reduced. */
static void test_lying(void **state) {
    (void)state;
    expect_kernels("graph g (x: tf32[384, 512, 192], w: tf32[384, 512, 100]) -> (y: f32[384, 192, 100]) "
                   "{ y = transpose(x, [0, 2, 1]) @ w }",
                   true, "matmul");
    expect_kernels("graph g (x: tf32[512, 256], w: tf32[512, 320]) -> (y: f32[256, 320]) { y = x.T @ w }",
                   true, "matmul");
    expect_kernels("graph g (x: tf32[8192, 256], w: tf32[8192, 320]) -> (y: f32[256, 320]) { y = x.T @ w }",
                   true, "transpose matmul");
    expect_kernels("graph g (x: tf32[512, 1024], w: tf32[512, 256]) -> (y: f32[1024, 256]) "
                   "{ y = softmax(x.T @ w) }",
                   true, "transpose matmul/rows");
}

/* The smaller of two is copied, whichever it is. */
static void test_smaller(void **state) {
    (void)state;
    static const char *const texts[] = {
        "graph g (x: tf32[1024, 256], w: tf32[1024, 2048]) -> (y: f32[256, 2048]) { y = x.T @ w }",
        "graph g (x: tf32[1024, 2048], w: tf32[1024, 256]) -> (y: f32[2048, 256]) { y = x.T @ w }"};
    for (int smaller = 0; smaller < 2; smaller++) {
        Support support = {.text = texts[smaller]};
        support_run(&support);
        assert_string_equal(support.kernels, "transpose matmul");
        const Region *copy = support.partition->regions.at[0];
        assert_string_equal(copy->inputs.at[0]->name, smaller ? "w" : "x");
        support_end(&support);
    }
}

/* Rows that are reduced, of a result whose columns the second operand gives; rows in memory that TMA does not
 * read; elements of 8 bits, which wgmma's registers have along K as well. */
static void test_copied(void **state) {
    (void)state;
    expect_kernels(GRAPH("1024, 512", "512, 1024", "softmax(x @ w)"), true, "transpose matmul/rows");
    expect_kernels(GRAPH("512, 1024", "1024, 512", "softmax(x.T @ w.T)"), true, "matmul/rows");
    expect_kernels("graph g (x: tf32[1024, 512], w: tf32[512, 1023]) -> (y: f32[1024, 1023]) { y = x @ w }",
                   true, "transpose matmul");
    expect_kernels("graph g (x: e4m3[2048, 1024], w: e4m3[1024, 2048]) -> (y: f32[2048, 2048]) { y = x @ w }",
                   true, "transpose matmul");
}

/* Of 8 bits: behind an axis of a batch, or shared along one; narrow along K, where turning takes longest. */
static void test_turned_batches(void **state) {
    (void)state;
    expect_kernels(
        "graph g (x: e4m3[512, 128, 96], w: e4m3[512, 96, 768]) -> (y: bf16[512, 128, 768]) { y = x @ w }",
        true, "transpose matmul");
    expect_kernels("graph g (x: e4m3[64, 4, 64, 512], w: e4m3[4, 512, 512]) -> (y: bf16[64, 4, 64, 512]) "
                   "{ y = x @ w }",
                   true, "transpose matmul");
    expect_kernels("graph g (x: i8[512, 256, 32], w: i8[32, 512, 512]) -> (y: i32[32, 256, 512]) "
                   "{ y = transpose(x, [2, 1, 0]) @ transpose(w, [0, 2, 1]) }",
                   true, "transpose matmul");
}

/* Two operands are copied by one kernel: not large ones, nor where another product shares a copy, nor one
 * matrix twice, nor copies in other orders. */
static void test_joined(void **state) {
    (void)state;
    static const char *const joined[] = {
        "graph g (x: bf16[333, 777], w: bf16[555, 777]) -> (y: f32[333, 555]) { y = x @ w.T }",
        "graph g (x: bf16[555, 777], w: bf16[777, 777]) -> (y: f32[777, 555]) { y = w.T @ x.T }",
        "graph g (x: bf16[333, 777], w: bf16[777, 555]) -> (y: f32[333, 555]) { y = x @ w }",
        "graph g (x: bf16[4097, 1025], w: bf16[1023, 1025]) -> (y: f32[4097, 1023]) { y = x @ w.T }",
        "graph g (x: f16[4, 512, 395], w: f16[4, 395, 197]) -> (y: f32[4, 512, 197]) { y = x @ w }",
        "graph g (x: e4m3[333, 777], w: e4m3[555, 777]) -> (y: f32[333, 555]) { y = relu(x @ w.T) }"};
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        expect_kernels(joined[i], true, "pointwise matmul");
    expect_kernels(
        "graph g (x: bf16[8191, 4097], w: bf16[1023, 4097]) -> (y: f32[8191, 1023]) { y = x @ w.T }", true,
        "pointwise pointwise matmul");
    expect_kernels("graph g (x: bf16[333, 777], w: bf16[555, 777], u: bf16[222, 777]) -> (y: f32[333, 555], "
                   "z: f32[333, 222]) { y = x @ w.T; z = x @ u.T }",
                   true, "pointwise pointwise matmul pointwise matmul");
    expect_kernels("graph g (x: bf16[777, 777]) -> (y: f32[777, 777]) { y = x @ x.T }", true,
                   "pointwise matmul");
}

/* Pitches that are given, of 16 bytes or not. */
static void test_spaced(void **state) {
    (void)state;
    expect_kernels(
        "graph g (x: bf16[1000, 1000 : strides=[1003, 1]], w: bf16[1000, 1000]) -> (y: f32[1000, 1000]) "
        "{ y = x @ w.T }",
        true, "pointwise matmul");
    expect_kernels("graph g (x: bf16[8, 100, 333 : strides=[33337, 336, 1]], w: bf16[8, 200, 336]) -> (y: "
                   "f32[8, 100, 200]) "
                   "{ y = x @ w[:, :, 0:333].T }",
                   true, "pointwise matmul");
    expect_kernels(
        "graph g (x: bf16[1000, 1001 : strides=[1008, 1]], w: bf16[1000, 1001 : strides=[1024, 1]]) -> "
        "(y: f32[1000, 1000]) { y = x @ w.T }",
        true, "matmul");
    expect_kernels(
        "graph g (x: bf16[1000, 1000 : strides=[2000, 2]], w: bf16[1000, 1000]) -> (y: f32[1000, 1000]) "
        "{ y = x @ w.T }",
        true, "matmul");
}

/* `brings`: the target's products have operands of 16 bits from anywhere in memory. Those that a copy costs
 * more than it gains stay where they are; rows that are reduced, operands that are computed, of other types,
 * and large products want the copy. */
static void expect_brought(const char *text, bool brings, const char *kernels) {
    Support support = {.text = text, .limits = support_limits()};
    support.limits.brings_rows = brings;
    support_run(&support);
    assert_string_equal(support.kernels, kernels);
    support_end(&support);
}

static void test_brought(void **state) {
    (void)state;
    static const char *const brought[] = {
        "graph g (x: bf16[32, 512, 197], w: bf16[32, 197, 197]) -> (y: f32[32, 512, 197]) { y = x @ w }",
        "graph g (d: f16[512, 50257], x: f16[512, 512]) -> (y: f32[50257, 512]) { y = relu(d.T @ x) }"};
    for (size_t i = 0; i < sizeof brought / sizeof *brought; i++) {
        expect_brought(brought[i], false, "pointwise matmul");
        expect_brought(brought[i], true, "matmul");
    }
    expect_brought("graph g (x: bf16[32, 512, 197], w: bf16[32, 197, 197]) -> (y: f32[32, 512, 197]) "
                   "{ y = softmax(x @ w) }",
                   true, "pointwise matmul/rows");
    expect_brought("graph g (x: bf16[32, 512, 197], w: bf16[32, 197, 197]) -> (y: f32[32, 512, 197]) "
                   "{ y = relu(x) @ w }",
                   true, "pointwise matmul");
    expect_brought(
        "graph g (x: bf16[4097, 1025], w: bf16[1023, 1025]) -> (y: f32[4097, 1023]) { y = x @ w.T }", true,
        "pointwise matmul");
    expect_brought("graph g (x: bf16[1002, 1001], w: bf16[1001, 1000]) -> (y: f32[1002, 1000]) { y = x @ w }",
                   true, "pointwise matmul");
    expect_brought("graph g (x: e4m3[333, 777], w: e4m3[555, 777]) -> (y: f32[333, 555]) { y = x @ w.T }",
                   true, "pointwise matmul");
}

/* Pieces of an image as rows: in more parts than TMA follows, or in parts that no tile divides and that are
 * no windows. Not heads, which are two, nor where so few columns read them that gathering them costs less
 * than a copy. */
static void test_strewn(void **state) {
    (void)state;
#define PIECES "reshape(transpose(reshape(x, [32, 3, 14, 16, 14, 16]), [0, 2, 4, 1, 3, 5]), [32, 196, 768])"
    expect_kernels("graph g (x: bf16[32, 3, 224, 224], w: bf16[768, 768]) -> (y: f32[32, 196, 768]) "
                   "{ y = " PIECES " @ w.T }",
                   true, "pointwise matmul");
#define WHOLE_PIECES                                                                                         \
    "reshape(transpose(reshape(x, [32, 14, 16, 14, 16, 3]), [0, 1, 3, 2, 4, 5]), [32, 196, 768])"
    expect_kernels(
        "graph g (x: bf16[32, 224, 224, 3], w: bf16[768, 768], p: bf16[196, 768]) -> (y: f32[32, 196, "
        "768]) { y = " WHOLE_PIECES " @ w.T + p }",
        true, "pointwise matmul");
    expect_kernels("graph g (x: bf16[32, 224, 224, 3], w: bf16[768, 768]) -> (y: f32[32, 196, 768]) "
                   "{ y = " WHOLE_PIECES " @ w.T }",
                   true, "matmul");
    expect_kernels("graph g (x: bf16[32, 3, 224, 224], w: bf16[768, 16]) -> (y: f32[32, 196, 16]) "
                   "{ y = " PIECES " @ w }",
                   true, "matmul");
    expect_kernels("graph g (x: bf16[4, 16, 512, 64], w: bf16[1024, 1024]) -> (y: f32[4, 512, 1024]) "
                   "{ y = reshape(transpose(x, [0, 2, 1, 3]), [4, 512, 1024]) @ w.T }",
                   true, "matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),   cmocka_unit_test(test_lying),  cmocka_unit_test(test_smaller),
        cmocka_unit_test(test_copied),  cmocka_unit_test(test_joined), cmocka_unit_test(test_spaced),
        cmocka_unit_test(test_brought), cmocka_unit_test(test_strewn), cmocka_unit_test(test_turned_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
