/* Operands of products that indices choose: matrices of a batch and rows are read where they lie, where the
 * product's kernel can; else they are gathered first. */
#include "support.h"

#define CHOSEN_DIMS DIMS({"M", 40}, {"N", 24})

static void test_matrices(void **state) {
    (void)state;
    const SupportDim *dims = CHOSEN_DIMS;
    expect_graph("graph g (x: bf16[4, M, 64], i: i32[4], w: bf16[3, 200, 64]) -> (y: bf16[4, M, 200]) {\n"
                 "  y = relu(x @ gather(w, i).T) }",
                 "matmul", dims);
    expect_graph("graph g (x: bf16[4, M, 64], i: i64[4], w: bf16[3, 64, 200], u: bf16[3, 64, 200])\n"
                 "    -> (y: bf16[4, M, 200]) { y = silu(x @ gather(w, i)) * (x @ gather(u, i)) }",
                 "matmul2", dims);
    expect_graph("graph g (w: bf16[3, M, 64], i: i32[2, 2], x: bf16[2, 2, 64, 200])\n"
                 "    -> (y: bf16[2, 2, M, 200]) { y = gather(w, i) @ x }",
                 "matmul", dims);
}

static void test_rows(void **state) {
    (void)state;
    const SupportDim *dims = CHOSEN_DIMS;
    expect_graph("graph g (e: bf16[70, 64], i: i32[M], w: bf16[300, 64]) -> (y: bf16[M, 300]) {\n"
                 "  y = gather(e, i) @ w.T }",
                 "matmul", dims);
    expect_graph("graph g (x: bf16[M, 64], e: bf16[70, 64], i: i32[300]) -> (y: bf16[M, 300]) {\n"
                 "  y = x @ gather(e, i).T }",
                 "matmul", dims);
}

/* The kernel reads indices from memory. */
static void test_computed_indices(void **state) {
    (void)state;
    const SupportDim *dims = CHOSEN_DIMS;
    expect_graph("graph g (x: bf16[4, M, 64], i: i32[4], w: bf16[3, 200, 64]) -> (y: bf16[4, M, 200]) {\n"
                 "  y = x @ gather(w, i % 3).T }",
                 "pointwise matmul", dims);
}

/* Rows that do not lie along K, or beside an operand that warpgroups bring; a norm of them. */
static void test_what_is_gathered_first(void **state) {
    (void)state;
    const SupportDim *dims = CHOSEN_DIMS;
    expect_graph("graph g (e: bf16[64, 72], i: i32[M], w: bf16[64, 300]) -> (y: bf16[M, 300]) {\n"
                 "  y = gather(e, i, axis=1).T @ w }",
                 "pointwise matmul", dims);
    expect_graph("graph g (e: bf16[70, 64], i: i32[M], w: bf16[64, N]) -> (y: bf16[M, N]) {\n"
                 "  y = gather(e, i) @ w }",
                 "pointwise matmul", dims);
    expect_graph("graph g (e: bf16[70, 64], i: i32[M], w: bf16[300, 64]) -> (y: bf16[M, 300]) {\n"
                 "  y = rmsnorm(gather(e, i)) @ w.T }",
                 "rows matmul", dims);
}

static void test_attention(void **state) {
    (void)state;
    expect_graph("graph g (q: bf16[2, M, 64], k: bf16[5, 700, 64], v: bf16[5, 700, 64], i: i32[2])\n"
                 "    -> (o: bf16[2, M, 64]) { o = softmax(q @ gather(k, i).T) @ gather(v, i) }",
                 "chain2", CHOSEN_DIMS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices),         cmocka_unit_test(test_rows),
        cmocka_unit_test(test_computed_indices), cmocka_unit_test(test_what_is_gathered_first),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
