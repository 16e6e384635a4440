/* Statistics of the rows of a product's first operand: which norms leave their factor to the epilogue, when
 * the product's kernel takes the statistic, and that the graph means the same. */
#include "support.h"

static bool takes_nothing(void *context, const Graph *graph, const Region *region, const char **why) {
    (void)context;
    (void)graph;
    (void)region;
    *why = "nothing is taken";
    return false;
}

typedef struct Expected {
    const char *kernels;
    bool defers;
} Expected;

/* M is 8 and B 2 where the meaning is compared; both are taken to be 4096 where costs are. */
static void expect_rows(const char *text, Expected expected) {
    static const SupportDim sizes[] = {{"M", 8}, {"B", 2}, {NULL, 0}};
    Support support = {.text = text, .dims = sizes};
    support_run(&support);
    bool defers = false;
    for (size_t i = 0; support.partition && i < support.partition->decisions.n; i++)
        defers |= support.partition->decisions.at[i].fused &&
                  !strcmp(support.partition->decisions.at[i].rule, "defer");
    assert_string_equal(support.kernels, expected.kernels);
    assert_int_equal(defers, expected.defers);
    /* either way each element is rounded to bf16 once, in another place */
    assert_true(support.evaluated && support.worst < (defers ? 6e-2 : 1e-2));
    support_end(&support);
}

#define WEIGHTS "g: bf16[64], w: bf16[32, 64]"

static void test_norms(void **state) {
    (void)state;
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS ") -> (y: bf16[M, 32]) { y = rmsnorm(x, g) @ w.T }",
                (Expected){"matmul", true});
    expect_rows("graph g (x: bf16[B, M, 64], " WEIGHTS ") -> (y: bf16[B, M, 32]) { y = rmsnorm(x, g) @ w.T }",
                (Expected){"matmul", true});
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS
                ") -> (y: bf16[M, 32]) { y = (x / norm2(x, over=-1)) @ w.T }",
                (Expected){"matmul", false}); /* nothing is left in the operand: scale.c moves it */
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS ", u: bf16[32, 64]) -> (y: bf16[M, 32]) {\n"
                "  h = rmsnorm(x, g)\n  y = silu(h @ w.T) * (h @ u.T) }",
                (Expected){"matmul2", true});
    /* a residual stream, which another product's kernel stores */
    expect_rows("graph g (q: bf16[M, 16], v: bf16[64, 16], " WEIGHTS
                ") -> (s: bf16[M, 64], y: bf16[M, 32]) {\n"
                "  s = q @ v.T\n  y = rmsnorm(s, g) @ w.T }",
                (Expected){"matmul matmul", true});
}

/* Elements that need their row's statistic before they are multiplied; results that show where elements are
 * rounded; a type whose range the sums would
 * leave; few rows, which the other operand comes before; so many columns that the rows would be reduced more
 * often than a kernel of its own costs; several that want the norm; a sum that is stored, which the kernel
 * that normalizes computes on its way. */
static void test_norms_that_stay(void **state) {
    (void)state;
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS ") -> (y: bf16[M, 32]) { y = layernorm(x, g) @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS ") -> (y: bf16[M, 32]) { y = softmax(x) @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS ") -> (y: f32[M, 32]) { y = rmsnorm(x, g) @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: f16[M, 64], g: f16[64], w: f16[32, 64]) -> (y: f16[M, 32]) {\n"
                "  y = rmsnorm(x, g) @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[128, 64], " WEIGHTS ") -> (y: bf16[128, 32]) { y = rmsnorm(x, g) @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[B, M, 64], g: bf16[64], w: bf16[16384, 64]) -> (y: bf16[B, M, 16384]) {\n"
                "  y = rmsnorm(x, g) @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS
                ", v: bf16[16, 64]) -> (y: bf16[M, 32], z: bf16[M, 16]) {\n"
                "  h = rmsnorm(x, g)\n  y = h @ w.T\n  z = h @ v.T }",
                (Expected){"rows matmul matmul", false});
    expect_rows("graph g (x: bf16[M, 64], " WEIGHTS ") -> (y: bf16[M, 32], h: bf16[M, 64]) {\n"
                "  h = rmsnorm(x, g)\n  y = h @ w.T }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[M, 64], r: bf16[M, 64], " WEIGHTS
                ") -> (s: bf16[M, 64], y: bf16[M, 32]) {\n"
                "  s = x + r\n  y = rmsnorm(s, g) @ w.T }",
                (Expected){"rows>2 matmul", false});
}

/* What is written out behind a product, and who else may not want it. */
static void test_statistics(void **state) {
    (void)state;
    expect_rows("graph g (x: f16[M, 64], w: f16[32, 64]) -> (y: f16[M, 32]) {\n"
                "  y = (x @ w.T) * rsqrt(mean(x * x, over=-1) + 1e-5) }",
                (Expected){"matmul", false});
    expect_rows("graph g (x: bf16[M, 64], w: bf16[32, 64]) -> (y: bf16[M, 32]) {\n"
                "  y = (x @ w.T) / (1 + amax(x, over=-1)) + sum(x, over=-1) }",
                (Expected){"matmul", false});
    expect_rows("graph g (x: bf16[M, 64], w: bf16[32, 64]) -> (y: bf16[M, 32], m: f32[M, 1]) {\n"
                "  m = 1 + amax(x, over=-1)\n  y = (x @ w.T) / m }",
                (Expected){"rows matmul", false});
    expect_rows("graph g (x: bf16[M, 64], w: bf16[32, 64]) -> (y: bf16[M, 32], z: bf16[M, 64]) {\n"
                "  m = 1 + amax(x, over=-1)\n  y = (x @ w.T) / m\n  z = x / m }",
                (Expected){"rows>2 matmul", false});
    expect_rows("graph g (x: bf16[M, 64], q: bf16[M, 64], w: bf16[32, 64]) -> (y: bf16[M, 32]) {\n"
                "  y = (x @ w.T) / (1 + amax(q, over=-1)) }",
                (Expected){"rows matmul", false}); /* of another tensor */
}

/* Where codegen has no schedule for it, the statistic has a kernel of its own, and no element a loop. */
static void test_refused(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[4096, 64], w: bf16[32, 64]) -> (y: bf16[4096, 32]) {\n"
                               "  y = (x @ w.T) * sum(x, over=-1) }",
                       .takes = takes_nothing};
    support_run(&support);
    assert_string_equal(support.kernels, "rows matmul");
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_norms_that_stay),
                                       cmocka_unit_test(test_statistics), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
