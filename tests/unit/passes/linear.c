/* Sums that come apart: what leaves them, what adds nothing to them, and what stays. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"M", 5}, {NULL, 0}};

/* What the passes make of a graph whose result is `y`, a sum over the last axis or what is made of one, has
 * `there`, and `missing` nowhere; NULL: nothing is asked. */
static void expect_sum(const char *rest, const char *there, const char *missing) {
    char text[640];
    snprintf(
        text, sizeof text,
        "graph g (x: f32[M, 24], u: f32[M, 24], c: f32[M, 1], e: f32[24], f: f32[1, 1]) -> (y: f32[M, 1]) {\n"
        "  m = mean(x, over=1)\n  d = x - m\n  %s }",
        rest);
    Support support = {.text = text, .dims = sizes};
    support_run(&support);
    assert_string_equal(support.messages, "");
    if (there && !strstr(support.printed, there))
        fail_msg("no '%s' in\n%s", there, support.printed);
    if (missing && strstr(support.printed, missing))
        fail_msg("'%s' in\n%s", missing, support.printed);
    assert_true(support.evaluated && support.worst < 1e-5);
    support_end(&support);
}

static void test_factors_leave(void **state) {
    (void)state;
    expect_sum("y = sum(u * c, over=1)", "sum(u, over=[1]", NULL);
    expect_sum("y = sum(u * c * f, over=1)", "sum(u, over=[1]", NULL);
    expect_sum("y = sum(f * u / c, over=1)", "sum(u, over=[1]", NULL);
    expect_sum("y = sum(-u, over=1)", "sum(u, over=[1]", NULL);
    /* beside what lies around its mean, so that two sums become one */
    expect_sum("y = sum(u * (d * c), over=1) + sum(u * f * d, over=1)", "mul(u, d)", "mul(d, c)");
}

/* Down columns a factor of a factor leaves, too: rows are in their kernel anyway. */
static void test_factors_of_factors(void **state) {
    (void)state;
    expect_sum("y = c + amax(sum(u * (x * e), over=0), over=1)", "mul(u, x)", "mul(x, e)");
    expect_sum("y = c + amax(sum(u / e * x, over=0), over=1)", "mul(u, x)", "div(u, e)");
    expect_sum("y = sum(u * (x * c), over=1)", "mul(x, c)", "mul(u, x)");
}

static void test_what_lies_around_its_mean_adds_nothing(void **state) {
    (void)state;
    expect_sum("y = sum(u + d * c, over=1)", "sum(u, over=[1]", ", x)");
    expect_sum("y = sum(c * -d - u, over=1)", "sum(u, over=[1]", ", x)");
    expect_sum("y = sum(u + d / c * f + d, over=1)", "sum(u, over=[1]", ", x)");
    /* but for what is no number: NaN, as the sum is */
    expect_sum("z = x / 0.0\n  n = z - mean(z, over=1)\n  y = sum(u + n * c, over=1)", "sum(u, over=[1]",
               ", x)");
    expect_sum("y = sum(u - d * (c / 0.0), over=1)", "sum(u, over=[1]", ", x)");
}

static void test_left_alone(void **state) {
    (void)state;
    expect_sum("y = sum(u * e, over=1)", "mul(u, e)", NULL);
    expect_sum("y = sum(u * 0.5, over=1)", "mul(u, ", NULL);
    expect_sum("y = sum(u + d * e, over=1)", "sum(x", NULL);
    expect_sum("y = sum(u + d * d, over=1)", "sum(x", NULL);
    expect_sum("y = sum(u + (x - sum(x, over=1) / 23) * c, over=1)", "sum(x", NULL);
    expect_sum("y = sum(u + (u - m) * c, over=1)", "sum(x", NULL);
    expect_sum("y = sum(u + (x - mean(x, over=0)) * f, over=1)", "sum(x", NULL);
    expect_sum("y = sum(u + (x - mean(x, over=1)) * f, over=[0, 1]) + c", "sum(x", NULL);
}

/* Axes that one operand of a product alone has; not of what comes of a product, nor few, nor beside a reader.
 */
static void test_products(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_summed_first;
    } cases[] = {
        {"graph g (x: bf16[3, 40, 8], w: bf16[6, 8], b: bf16[6]) -> (y: f32[3, 1, 6]) {\n"
         "  y = sum(x @ w.T + b, over=1) }",
         true},
        {"graph g (x: bf16[9, 8], w: bf16[18, 8, 6]) -> (y: f32[1, 9, 6]) { y = sum(x @ w, over=0) }", true},
        {"graph g (x: bf16[3, 8, 8], w: bf16[6, 8]) -> (y: f32[3, 1, 6]) { y = sum(x @ w.T, over=1) }",
         false},
        {"graph g (x: bf16[M, 8], w: bf16[6, 8]) -> (y: f32[1, 6]) { y = sum(x @ w.T, over=0) }", false},
        {"graph g (x: bf16[40, 8], w: bf16[6, 8]) -> (p: f32[40, 6], y: f32[1, 6]) {\n"
         "  p = x @ w.T\n  y = sum(p, over=0) }",
         false},
        {"graph g (x: bf16[40, 8], w: bf16[8, 8], v: bf16[6, 8]) -> (y: f32[1, 6]) {\n"
         "  y = sum(cast(relu(x @ w.T), bf16) @ v.T, over=0) }",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Support support = {.text = cases[i].text, .dims = sizes};
        support_run(&support);
        assert_string_equal(support.messages, "");
        bool is_fma = false; /* a product in f32 of operands that are */
        for (size_t k = 0; k < support.graph->values.n; k++) {
            const Value *value = support.graph->values.at[k];
            is_fma |= value->op == OP_matmul && value->in[0]->dtype == DTYPE_F32;
        }
        assert_int_equal(is_fma, cases[i].is_summed_first);
        assert_true(support.evaluated && support.worst < 1e-4);
        support_end(&support);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_leave),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_factors_of_factors),
        cmocka_unit_test(test_what_lies_around_its_mean_adds_nothing),
        cmocka_unit_test(test_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
