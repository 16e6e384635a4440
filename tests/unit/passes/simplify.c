/* Rules of algebra, folding, casts and scales: what the graph is afterwards, and that it means the same. */
#include "support.h"

#define VECTOR(BODY) "graph g (x: f32[N], z: f32[N]) -> (y: f32[N]) { y = " BODY " }"
#define INTEGERS(BODY) "graph g (x: i32[N], z: i32[N]) -> (y: i32[N]) { y = " BODY " }"

static const SupportDim *n5 = (const SupportDim[]){{"N", 5}, {NULL, 0}};

static void test_neutral_elements(void **state) {
    (void)state;
    check_text(VECTOR("exp(x + 0) * 1"), n5, LIST("exp("), LIST("add(", "mul("));
    check_text(VECTOR("exp(0 + x) / 1"), n5, LIST("exp("), LIST("add(", "div("));
    check_text(INTEGERS("(x - x) + z * 1"), n5, NONE, LIST("sub(", "mul("));
}

static void test_floats_keep_nan(void **state) {
    (void)state;
    check_text(VECTOR("(x - x) + z"), n5, LIST("sub("), NONE);
    check_text(VECTOR("x * 0 + z"), n5, LIST("mul("), NONE);
}

static void test_twice_the_same(void **state) {
    (void)state;
    check_text(VECTOR("-(-exp(x))"), n5, LIST("exp("), LIST("neg("));
    check_text(VECTOR("max(exp(x), exp(x))"), n5, LIST("exp("), LIST("max("));
    check_text(VECTOR("select(x > z, sin(x), sin(x))"), n5, LIST("sin("), LIST("select("));
    check_text(VECTOR("select(1 > 2, sin(x), cos(x))"), n5, LIST("cos("), LIST("select(", "sin("));
}

static void test_division_by_a_constant(void **state) {
    (void)state;
    check_text(VECTOR("sin(x) / 8"), n5, LIST("0.125"), LIST("div("));
    check_text(VECTOR("sin(x) / 3"), n5, LIST("div("),
               NONE); /* a third is not a float: halves would round elsewhere */
}

static void test_roots(void **state) {
    (void)state;
    check_text(VECTOR("1 / sqrt(exp(x))"), n5, LIST("rsqrt("), LIST("div("));
    check_text(VECTOR("z / sqrt(exp(x))"), n5, LIST("rsqrt("), LIST("div("));
    check_text(VECTOR("pow(x, 2)"), n5, LIST("mul("), LIST("pow("));
    check_text(VECTOR("pow(abs(x), 0.5)"), n5, LIST("sqrt("), LIST("pow("));
    check_text(VECTOR("pow(x + 2, 0.5)"), n5, LIST("pow("), LIST("sqrt("));
}

static void test_hyperbolic(void **state) {
    (void)state;
    check_text(VECTOR("0.5 * (1 + tanh(x))"), n5, LIST("sigmoid("), LIST("tanh("));
    check_text(VECTOR("gelu(x)"), n5, LIST("one_plus_erf("), LIST(" erf("));
    check_text(VECTOR("gelu_backward(z, x)"), n5, LIST("one_plus_erf("), LIST(" erf("));
    check_text(VECTOR("1 - erf(x)"), n5, LIST("one_plus_erf(", "neg("), LIST(" erf("));
    check_text(VECTOR("x * tanh(softplus(x))"), n5, LIST("exp("), LIST("tanh(", "log1pexp("));
    check_text(VECTOR("tanh_backward(z, x)"), n5, LIST("sigmoid("), LIST("tanh("));
    check_text(VECTOR("gelu_backward(z, x, approx=tanh)"), n5, LIST("sigmoid("), LIST("tanh("));
    check_text(VECTOR("z - tanh(x) * tanh(x)"), n5, LIST("tanh("), LIST("sigmoid("));
}

static void test_folding(void **state) {
    (void)state;
    check_text(VECTOR("x * (exp(0.0) + 2 * 3)"), n5, LIST("value=7"), LIST("exp("));
    check_text("graph g (x: f32[N, 8]) -> (y: f32[N, 1]) { y = mean(x, over=1) }", n5, LIST("0.125"),
               LIST("dim("));
}

static void test_integers_wrap_where_they_did(void **state) {
    (void)state;
    /* i32 sums wrap before they are widened: the two constants may not be joined in i64. */
    check_text("graph g (x: i32[N], z: i64[N]) -> (y: i64[N]) { y = (x + 2147483647) + z * 1 }", n5,
               LIST("2147483647"), NONE);
    check_text(INTEGERS("(x + 3) + 4"), n5, LIST("value=7"), LIST("value=3", "value=4"));
}

static void test_casts(void **state) {
    (void)state;
    check_text("graph g (x: bf16[N]) -> (y: bf16[N]) { y = cast(cast(exp(x), dtype=bf16) + 0, dtype=bf16) }",
               n5, LIST("dtype=bf16"), LIST("dtype=f32", "add("));
    check_text("graph g (x: f32[N]) -> (y: f32[N]) { y = cast(cast(x, dtype=bf16), dtype=f32) }", n5,
               LIST("dtype=bf16"), NONE);
}

static void test_products_of_narrow_types(void **state) {
    (void)state;
    const SupportDim *dims = (const SupportDim[]){{"M", 3}, {"N", 4}, {NULL, 0}};
    check_text("graph g (x: bf16[M, 32], w: bf16[32, N]) -> (y: f32[M, N]) { y = cast(x, dtype=f32) @ "
               "cast(w, dtype=f32) }",
               dims, NONE, LIST("cast("));
    check_text("graph g (x: bf16[M, 32], w: e4m3[N, 32]) -> (y: f32[M, N]) { y = x @ cast(w, dtype=f32).T }",
               dims, LIST("dtype=bf16"), LIST("dtype=f32"));
    check_text("graph g (x: i8[M, 32], w: i8[32, N]) -> (y: f32[M, N]) { y = cast(x, dtype=f32) @ cast(w, "
               "dtype=f32) }",
               dims, LIST("dtype=f32"), NONE);
}

static void test_scales_leave_operands(void **state) {
    (void)state;
    const SupportDim *dims = (const SupportDim[]){{"M", 3}, {"N", 4}, {NULL, 0}};
    check_text("graph g (x: e4m3[M, 32], w: e4m3[N, 32], s: f32[M, 1], t: f32[N, 1]) -> (y: f32[M, N]) { y = "
               "(x * s) @ (w * t).T }",
               dims, LIST("matmul(x"), NONE);
    /* The scale varies along K: it stays. */
    check_text("graph g (x: e4m3[M, 32], w: e4m3[32, N], s: f32[32]) -> (y: f32[M, N]) { y = (x * s) @ w }",
               dims, NONE, LIST("matmul(x"));
}

static void test_common_subexpressions(void **state) {
    (void)state;
    Support support = {.text = VECTOR("exp(x) * z + exp(x)"), .dims = n5};
    support_run(&support);
    const char *first = strstr(support.printed, "exp(");
    assert_non_null(first);
    assert_null(strstr(first + 1, "exp("));
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neutral_elements),
        cmocka_unit_test(test_floats_keep_nan),
        cmocka_unit_test(test_twice_the_same),
        cmocka_unit_test(test_division_by_a_constant),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_hyperbolic),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_integers_wrap_where_they_did),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_products_of_narrow_types),
        cmocka_unit_test(test_scales_leave_operands),
        cmocka_unit_test(test_common_subexpressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
