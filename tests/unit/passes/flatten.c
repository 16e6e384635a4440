/* Batches that share their second operand: which become one product, and which kernels the rest keeps. Dims
 * are unknown to the passes, and small where the meaning is compared. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"B", 2}, {"S", 3}, {NULL, 0}};

static int products_of_batches(const Graph *graph) {
    int n = 0;
    for (size_t i = 0; i < graph->values.n; i++)
        n += graph->values.at[i]->op == OP_matmul && graph->values.at[i]->rank > 2;
    return n;
}

static void expect_product(const char *text, const char *kernels, bool is_flat) {
    Support support = {.text = text, .dims = sizes};
    support_run(&support);
    assert_string_equal(support.kernels, kernels);
    assert_int_equal(products_of_batches(support.graph) > 0, !is_flat);
    assert_true(support.evaluated && support.worst < 1e-4);
    support_end(&support);
}

/* Single rows that are added to what is no product of them all, and rows enough to stay a batch. */
static void test_beside_others(void **state) {
    (void)state;
    static const char *const rows[] = {"1", "16"};
    for (int i = 0; i < 2; i++) {
        char text[256];
        snprintf(
            text, sizeof text,
            "graph g (x: bf16[20, %s, 64], w: bf16[64, 32], v: bf16[20, 64, 32]) -> (y: f32[20, %s, 32]) "
            "{ y = x @ w + x @ v }",
            rows[i], rows[i]);
        Support support = {.text = text, .dims = sizes};
        support_run(&support);
        assert_int_equal(products_of_batches(support.graph), i ? 2 : 1);
        assert_true(support.evaluated && support.worst < 1e-4);
        support_end(&support);
    }
}

static void test_flat(void **state) {
    (void)state;
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[16, 8], b: bf16[16], r: bf16[B, S, 16]) -> (y: "
                   "bf16[B, S, 16]) {\n"
                   "  y = gelu(x @ w.T + b) + r }",
                   "matmul", true);
    expect_product("graph g (x: bf16[B, S, 4, 8], w: bf16[8, 16]) -> (y: bf16[B, S, 4, 16]) { y = x @ w }",
                   "matmul", true);
    /* a row's statistic, and factors of rows */
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[16, 8], f: f32[B, S, 1]) -> (y: bf16[B, S, 16]) {\n"
                   "  y = softmax(x @ w.T * f) }",
                   "matmul/rows", true);
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[16, 8], u: bf16[16, 8]) -> (y: bf16[B, S, 16]) {\n"
                   "  y = silu(x @ w.T) * (x @ u.T) }",
                   "matmul2", true);
    /* both halves of one product, a residual that an earlier kernel made, columns reduced over all rows */
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[32, 8]) -> (y: bf16[B, S, 16]) {\n"
                   "  h = x @ w.T\n  y = silu(h[:, :, 0:16]) * h[:, :, 16:32] }",
                   "matmul2", true);
    expect_product(
        "graph g (x: bf16[B, S, 2048], w: bf16[2048, 2048], g: bf16[2048]) -> (y: bf16[B, S, 2048]) {\n"
        "  h = cast(rmsnorm(x, g), bf16)\n  y = h + h @ w.T }",
        "rows matmul", true);
    /* beside what a reshape gives from memory, and what is computed of reductions of windows */
    expect_product(
        "graph g (x: bf16[B, S, 64], v: bf16[B, 4, S, 16], w: bf16[64, 64], u: bf16[64, 64]) -> (y: "
        "bf16[B, S, 64]) {\n"
        "  a = reshape(transpose(exp(v @ u[0:16, 0:16]), [0, 2, 1, 3]), dims=[B, S, 64])\n"
        "  y = layernorm(a @ w.T + x) @ u.T + a }",
        "matmul>2 chain2", false);
    expect_product(
        "graph g (x: bf16[2, 6, 6, 16], k: bf16[16, 3, 3, 1], w: bf16[32, 16]) -> (y: bf16[2, 6, 6, 32]) "
        "{\n  y = layernorm(conv(x, k, pad=1, groups=16)) @ w.T }",
        "columns rows matmul", true);
}

/* Heads that share keys are rows, also where coordinates along the keys mask some, or a query is joined of
 * parts. */
static void test_shared_keys(void **state) {
    (void)state;
    expect_product("graph g (q: f32[S, 1, 16], k: f32[24, 16], n: i32[]) -> (y: f32[S, 1, 16]) {\n"
                   "  s = q @ k.T\n  y = softmax(select(index(s, 2) < max(n, 1), s, -inf)) @ k }",
                   "matmul/rows matmul", true);
    expect_product("graph g (q: f32[S, 1, 16], r: f32[S, 1, 8], k: f32[24, 24]) -> (y: f32[S, 1, 24]) {\n"
                   "  y = softmax(concat(q, r, axis=2) @ k.T) @ k }",
                   "matmul/rows matmul", true);
}

/* Single rows of a batch, one product behind the other, stay a chain. */
static void test_single_rows(void **state) {
    (void)state;
    expect_product(
        "graph g (x: bf16[2, 64, 128], w: bf16[32, 128], u: bf16[128, 32]) -> (y: bf16[2, 64, 128]) {\n"
        "  m = mean(x, over=1)\n  y = x * sigmoid(silu(m @ w.T) @ u.T) }",
        "columns chain2 pointwise", false);
}

/* Rows of heads that share a second operand, and what has a number for each head. */
static void test_repeated(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rows;
    } cases[] = {
        {"graph g (q: bf16[B,8,1,16], k: bf16[B,2,24,16], h: f32[8,1,1]) -> (y: bf16[B,8,1,24]) {\n"
         "  y = relu(q @ k.T * h) }",
         4},
        {"graph g (q: bf16[B,8,2,16], k: bf16[B,2,24,16]) -> (y: bf16[B,8,2,24]) { y = q @ k.T }", 8},
        {"graph g (q: bf16[B,8,2,16], k: bf16[B,2,24,16], r: f32[2,1]) -> (y: bf16[B,8,2,24]) {\n"
         "  y = q @ k.T + r }",
         2},
        {"graph g (q: bf16[B,8,1,16], k: bf16[B,8,24,16]) -> (y: bf16[B,8,1,24]) { y = q @ k.T }", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Support support = {.text = cases[i].text, .dims = sizes};
        support_run(&support);
        assert_string_equal(support.kernels, "matmul");
        for (size_t k = 0; k < support.graph->values.n; k++) {
            const Value *value = support.graph->values.at[k];
            if (value->op == OP_matmul)
                assert_int_equal(value->dims[value->rank - 2]->value, cases[i].rows);
        }
        assert_true(support.evaluated && support.worst < 1e-4);
        support_end(&support);
    }
}

/* What would not be told apart by the rows together, or is not in memory as it should be. */
static void test_left_alone(void **state) {
    (void)state;
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[16, 8], g: bf16[B, 1, 16]) -> (y: bf16[B, S, 16]) {\n"
                   "  y = x @ w.T * g }",
                   "matmul", false);
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[16, 8], c: f32[S, 16]) -> (y: bf16[B, S, 16]) { y = x "
                   "@ w.T + c }",
                   "matmul", false);
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[16, 8], u: bf16[16, 8], g: bf16[B, 1, 16]) -> (y: "
                   "bf16[B, S, 16]) {\n"
                   "  y = silu(x @ w.T * g) * (x @ u.T) }",
                   "matmul2", false);
    expect_product("graph g (x: bf16[S, B, 8], w: bf16[16, 8]) -> (y: bf16[B, S, 16]) {\n"
                   "  y = transpose(x, [1, 0, 2]) @ w.T }",
                   "matmul", false);
    expect_product("graph g (x: bf16[B, S, 8], w: bf16[B, 16, 8]) -> (y: bf16[B, S, 16]) { y = x @ w.T }",
                   "matmul", false);
}

/* Few rows, which cannot be joined: whether another axis of so many takes their place. */
static void expect_rows(const char *text, int64_t rows) {
    Support support = {.text = text, .dims = sizes};
    support_run(&support);
    assert_string_equal(support.kernels, "matmul");
    for (size_t i = 0; i < support.graph->values.n; i++) {
        const Value *value = support.graph->values.at[i];
        if (value->op == OP_matmul)
            assert_int_equal(value->dims[value->rank - 2]->value, rows);
    }
    assert_true(support.evaluated && support.worst < 1e-4);
    support_end(&support);
}

/* What is joined along rows, which is stored first. */
static void test_rows_of_parts(void **state) {
    (void)state;
    expect_product(
        "graph g (x: bf16[B, S, 8], z: bf16[B, 2, 8], w: bf16[16, 8]) -> (y: bf16[B, S + 2, 16]) {\n"
        "  t = concat(x, z, axis=1)\n  y = cast(exp(t - reduce_max(t, over=-1)), bf16) @ w.T }",
        "rows matmul", true);
}

static void test_exchanged(void **state) {
    (void)state;
    expect_rows("graph g (x: bf16[96, 4, 8], w: bf16[8, 16]) -> (y: bf16[4, 96, 16]) {\n"
                "  y = transpose(relu(x @ w), [1, 0, 2]) }",
                96);
    expect_rows("graph g (x: bf16[96, 4, 8], w: bf16[8, 16], b: f32[4, 16]) -> (y: bf16[96, 4, 16]) {\n"
                "  y = x @ w + b }",
                96);
    /* the second operand varies along the axis between; the other way round rows are enough as they are */
    expect_rows("graph g (x: bf16[96, 3, 4, 8], w: bf16[3, 8, 16]) -> (y: bf16[96, 3, 4, 16]) { y = x @ w }",
                96);
    expect_rows("graph g (x: bf16[4, 96, 8], w: bf16[8, 16], b: f32[96, 16]) -> (y: bf16[4, 96, 16]) {\n"
                "  y = x @ w + b }",
                96);
    expect_rows(
        "graph g (x: bf16[5, 4, 8], w: bf16[8, 16], b: f32[4, 16]) -> (y: bf16[5, 4, 16]) { y = x @ w + b }",
        4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_others), cmocka_unit_test(test_flat),
        cmocka_unit_test(test_single_rows),   cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_left_alone),    cmocka_unit_test(test_exchanged),
        cmocka_unit_test(test_rows_of_parts), cmocka_unit_test(test_shared_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
