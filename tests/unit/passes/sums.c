/* Sums of products: the order that they are brought into, and those that stay as they are. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"M", 3}, {NULL, 0}};

/* The passes leave a graph of products p and q, and of `rest`, whose text has `first`, and `then` behind it.
 */
static void expect_sum(const char *rest, const char *kernels, const char *first, const char *then) {
    char text[512];
    snprintf(
        text, sizeof text,
        "graph g (x: bf16[M, 16], w: bf16[24, 16], h: bf16[M, 8], u: bf16[24, 8], b: f32[24], r: f32[M, 24])"
        " -> (y: f32[M, 24]) {\n  p = x @ w.T\n  q = h @ u.T\n  %s }",
        rest);
    Support support = {.text = text, .dims = sizes};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, kernels);
    const char *found = strstr(support.printed, first);
    if (!found || !strstr(found, then))
        fail_msg("no '%s' and '%s' in\n%s", first, then, support.printed);
    assert_true(support.evaluated && support.worst < 1e-4);
    support_end(&support);
}

static void test_products_come_first(void **state) {
    (void)state;
    expect_sum("y = relu(p + b + q)", "matmul2", "add(p, q)", ", b)");
    expect_sum("y = relu((p + b) + (q + r))", "matmul2", "add(p, q)", ", r)");
    expect_sum("y = relu(r - (b - p) + q)", "matmul2", "add(p, q)", ", b)");
}

static void test_what_is_changed_comes_first_of_all(void **state) {
    (void)state;
    expect_sum("d = 2 * q\n  y = relu(p + b + d)", "matmul2", "add(d, p)", ", b)");
    expect_sum("d = p * r\n  y = relu(d - b + q)", "matmul2", "add(d, q)", ", b)");
    expect_sum("y = relu(p - q)", "matmul2", "neg(q)", ", p)");
}

static void test_left_alone(void **state) {
    (void)state;
    expect_sum("y = relu(p + q + b)", "matmul2", "add(p, q)", ", b)");
    expect_sum("c = p * 2 + b\n  d = q * 3\n  y = relu(c + d)", "matmul matmul", "add(c, d)", "");
    expect_sum("c = p + b\n  d = relu(q)\n  y = relu(c + d)", "matmul matmul", "add(c, ", "");
    expect_sum("c = p + b\n  d = c + q\n  y = relu(d) * p", "matmul matmul", "add(c, q)", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_come_first),
        cmocka_unit_test(test_what_is_changed_comes_first_of_all),
        cmocka_unit_test(test_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
