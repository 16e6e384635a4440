/* What sentences of the language mean: the graph that each makes, as its canonical text. */
#include <string.h>

#include "support.h"

#include "ir/print.h"

typedef struct Meant {
    const char *text; /* the definition, without the version */
    const char *body; /* the canonical statements, one a line; or part of them, where it starts with "..." */
} Meant;

static void check_meant(const Meant *test) {
    char text[3000];
    snprintf(text, sizeof text, "sinter 1\n%s\n", test->text);
    Parsed p = parse_text(text);
    assert_parsed(&p);
    Text out = text_new(p.arena);
    graph_print(&out, p.module.graphs.at[0]);
    char *body = strchr(out.at, '{');
    while (*body != '\n')
        body = strchr(body + 1, '{') ? strchr(body + 1, '{') : strchr(body, '\n');
    Text got = text_new(p.arena);
    for (const char *line = body + 1; *line && *line != '}'; line = strchr(line, '\n') + 1)
        text_add(&got, "%.*s\n", (int)(strchr(line, '\n') - line) - 4, line + 4);
    if (strncmp(test->body, "...", 3) == 0 ? !strstr(got.at, test->body + 3)
                                           : strcmp(got.at, test->body) != 0)
        fail_msg("%s\nmeans\n%s\nnot\n%s", test->text, got.at, test->body);
    parsed_free(&p);
}

#define CHECK(...)                                                                                           \
    do {                                                                                                     \
        static const Meant tests[] = {__VA_ARGS__};                                                          \
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)                                            \
            check_meant(&tests[i]);                                                                          \
    } while (0)

/* A number takes the type in which its neighbour is computed. */
static void test_weak_numbers(void **state) {
    (void)state;
    CHECK(
        {"graph f (x: bf16[M]) -> (y: f32[M]) { y = x * 2 }",
         "v0 = constant(value=2, dtype=f32)\ny = mul(x, v0)\n"},
        {"graph f (x: f64[M]) -> (y: f64[M]) { y = x * 2 }",
         "v0 = constant(value=2, dtype=f64)\ny = mul(x, v0)\n"},
        {"graph f (x: i8[M]) -> (y: i32[M]) { y = x * 2 }",
         "v0 = constant(value=2, dtype=i32)\ny = mul(x, v0)\n"},
        {"graph f (x: i64[M]) -> (y: i64[M]) { y = 2 * x }",
         "v0 = constant(value=2, dtype=i64)\ny = mul(v0, x)\n"},
        {"graph f (x: i32[M]) -> (y: f32[M]) { y = x * 0.5 }",
         "v0 = constant(value=0.5, dtype=f32)\ny = mul(x, v0)\n"},
        {"graph f (x: i32[M]) -> (y: i64[M]) { y = x + 3000000000 }",
         "v0 = constant(value=3000000000, dtype=i64)\ny = add(x, v0)\n"},
        {"graph f (x: f32[M], b: bool[M]) -> (y: f32[M]) { y = select(b, x, -inf) }",
         "v0 = constant(value=-inf, dtype=f32)\ny = select(b, x, v0)\n"},
        {"graph f (b: bool[M]) -> (y: bool[M]) { y = b == true }",
         "v0 = constant(value=1, dtype=bool)\ny = eq(b, v0)\n"},
        {"graph f (b: bool[M]) -> (y: f32[M]) { y = select(b, 1, 0.5) }",
         "v0 = constant(value=1, dtype=f32)\nv1 = constant(value=0.5, dtype=f32)\ny = select(b, v0, v1)\n"});
}

/* Numbers alone are worked out before they meet anything; so are dims. */
static void test_folding(void **state) {
    (void)state;
    CHECK(
        {"graph f (x: f32[M]) -> (y: f32[M]) { a = 3; b = a ** 2 - 1; y = x + (b * 0.25 + sqrt(16) + max(1, "
         "2)) }",
         "v0 = constant(value=8, dtype=f32)\ny = add(x, v0)\n"},
        {"graph f (x: f32[M, 64]) -> (y: f32[M, 64]) { y = x * rsqrt(size(x, 1)) }",
         "v0 = constant(value=0.125, dtype=f32)\ny = mul(x, v0)\n"},
        {"graph f (x: f32[M, K]) -> (y: f32[M, K]) { y = x / (M + 2 * K - M) }",
         "v0 = dim(value=2*K)\ny = div(x, v0)\n"},
        {"graph f (x: f32[M]) -> (y: f32[M]) { y = x * (7 / 2 if 7 % 2 == 0 else 7.0 / 2) }",
         "v0 = constant(value=3.5, dtype=f32)\ny = mul(x, v0)\n"},
        {"graph f (x: f32[M]) -> (y: f32[M]) where M >= 8 { y = relu(x) if M > 7 else x @ x }",
         "v0 = constant(value=0, dtype=f32)\ny = max(x, v0)\n"},
        {"graph f (x: f32[M]) -> (y: f32[M]) { y = x + select(true, 1, 2) + (0x10 + 1e1) }",
         "v0 = constant(value=1, dtype=f32)\nv1 = add(x, v0)\nv2 = constant(value=26, dtype=f32)\ny = "
         "add(v1, v2)\n"});
}

/* Precedence and associativity, as in Python. */
static void test_precedence(void **state) {
    (void)state;
    CHECK(
        {"graph f (a: f32[M], b: f32[M], c: f32[M]) -> (y: f32[M]) { y = a - b - c * -a ** b ** c }",
         "v0 = sub(a, b)\nv1 = pow(b, c)\nv2 = pow(a, v1)\nv3 = neg(v2)\nv4 = mul(c, v3)\ny = sub(v0, v4)\n"},
        {"graph f (a: f32[M], b: f32[M], c: f32[M]) -> (y: bool[M]) { y = a < b && !(b < c) || a + b == c }",
         "v0 = lt(a, b)\nv1 = lt(b, c)\nv2 = not(v1)\nv3 = and(v0, v2)\nv4 = add(a, b)\nv5 = eq(v4, c)\ny = "
         "or(v3, v5)\n"},
        {"graph f (a: f32[M, K], b: f32[K, N], c: f32[N]) -> (y: f32[M, N]) { y = a @ b * c }",
         "v0 = matmul(a, b, dtype=f32)\ny = mul(v0, c)\n"});
}

/* An f32 intermediate beside a 16-bit operand is cast to that type; what the text wants in f32 is left alone.
 */
static void test_mixed_product(void **state) {
    (void)state;
    CHECK({"graph f (a: f32[M, K], b: bf16[K, N]) -> (y: f32[M, N]) { y = exp(a) @ b }",
           "v0 = exp(a)\nv1 = cast(v0, dtype=bf16)\ny = matmul(v1, b)\n"},
          {"graph f (a: f16[M, K], b: f32[N, K]) -> (y: f32[M, N]) { y = a @ exp(b).T }",
           "v0 = exp(b)\nv1 = transpose(v0, perm=[1, 0])\nv2 = cast(v1, dtype=f16)\ny = matmul(a, v2)\n"},
          {"graph f (a: f32[M, K], b: f32[K, N]) -> (y: f32[M, N]) { y = exp(a) @ exp(b) }",
           "v0 = exp(a)\nv1 = exp(b)\ny = matmul(v0, v1, dtype=f32)\n"},
          {"graph f (a: f32[M, K], b: bf16[K, N]) -> (y: f32[M, N]) { y = a[:, :] @ f32(b) }",
           "v0 = cast(b, dtype=f32)\ny = matmul(a, v0, dtype=f32)\n"},
          {"graph f (a: bf16[M, K], b: bf16[K, N]) -> (y: f32[M, N]) { p: f32 = exp(a)\n y = p @ exp(b) }",
           "p = exp(a)\nv0 = exp(b)\ny = matmul(p, v0, dtype=f32)\n"},
          {"graph f (a: f32[M, K], b: bf16[K, N]) -> (y: f32[M, N]) { y = matmul(exp(a), b) }",
           "v0 = exp(a)\nv1 = cast(v0, dtype=bf16)\ny = matmul(v1, b)\n"},
          {"graph f (a: f32[M, K], b: bf16[K, N]) -> (y: f32[M, N]) { y = matmul(exp(a), b, dtype=f32) }",
           "v0 = exp(a)\ny = matmul(v0, b, dtype=f32)\n"});
}

/* Two f32 intermediates are cast to the one 16-bit type that both come of: through a product that of its
 * operands, else that of whatever they were worked out from, beside which f32 may be repeated. */
static void test_computed_product(void **state) {
    (void)state;
#define COMPUTED "v0 = exp(a)\nv1 = exp(b)\n"
#define EXACT COMPUTED "y = matmul(v0, v1, dtype=f32)\n"
    CHECK(
        {"graph f (a: bf16[M, K], b: bf16[K, N]) -> (y: f32[M, N]) { y = exp(a) @ exp(b) }",
         COMPUTED "v2 = cast(v0, dtype=bf16)\nv3 = cast(v1, dtype=bf16)\ny = matmul(v2, v3)\n"},
        {"graph f (a: bf16[M, K], b: f16[K, N]) -> (y: f32[M, N]) { y = exp(a) @ exp(b) }", EXACT},
        {"graph f (a: bf16[M, K], b: f32[K, N]) -> (y: f32[M, N]) { y = exp(a) @ exp(b) }", EXACT},
        {"graph f (a: f16[M, M]) -> (y: f32[M, M]) { p = a @ a; y = p @ p.T }",
         "p = matmul(a, a)\nv0 = transpose(p, perm=[1, 0])\nv1 = cast(p, dtype=f16)\nv2 = cast(v0, "
         "dtype=f16)\ny = matmul(v1, v2)\n"},
        /* f32 of a matrix' own size asks for f32, unless a product of 16 bits is beside it */
        {"graph f (a: f16[M, M], c: f32[M, M]) -> (y: f32[M, M]) { p = a + c; y = p @ p }",
         "p = add(a, c)\ny = matmul(p, p, dtype=f32)\n"},
        {"graph f (a: f16[M, M], c: f32[M, M]) -> (y: f32[M, M]) { p = a @ a + c; y = p @ p }",
         "v0 = matmul(a, a)\np = add(v0, c)\nv1 = cast(p, dtype=f16)\nv2 = cast(p, dtype=f16)\ny = "
         "matmul(v1, v2)\n"},
        {"graph f (a: f16[M, M], c: f32[M]) -> (y: f32[M, M]) { p = a + c; y = p @ p }",
         "p = add(a, c)\nv0 = cast(p, dtype=f16)\nv1 = cast(p, dtype=f16)\ny = matmul(v0, v1)\n"},
        /* a product of f32 is f32, and what comes of it */
        {"graph f (a: f16[M, M], c: f32[M, M]) -> (y: f32[M, M]) { p = c @ c + a @ a; y = p @ p }",
         "v0 = matmul(c, c, dtype=f32)\nv1 = matmul(a, a)\np = add(v0, v1)\ny = matmul(p, p, "
         "dtype=f32)\n"},
        {"graph f (a: f16[M, M]) -> (y: f32[M, M]) { p = f32(a @ a); q = exp(a); y = p @ q }",
         "p = matmul(a, a)\nq = exp(a)\ny = matmul(p, q, dtype=f32)\n"},
        /* factors of rows and columns leave the operands exact */
        {"graph f (a: f16[M, K], b: f16[K, N], c: f32[M, 1], d: f32[N]) -> (y: f32[M, N]) { y = (a * c) @ (b "
         "/ d) }",
         "v0 = mul(a, c)\nv1 = div(b, d)\ny = matmul(v0, v1, dtype=f32)\n"},
        {"graph f (a: f16[M, K], b: f16[K, N], c: f32[K], d: f32[N]) -> (y: f32[M, N]) { y = (a * c) @ (b / "
         "d) }",
         "v0 = mul(a, c)\nv1 = div(b, d)\nv2 = cast(v0, dtype=f16)\nv3 = cast(v1, dtype=f16)\ny = matmul(v2, "
         "v3)\n"});
#undef COMPUTED
#undef EXACT
}

static void test_types(void **state) {
    (void)state;
    CHECK({"graph f (x: f32[M]) -> (y: bf16[M]) { z: f16 = x; y = z }",
           "z = cast(x, dtype=f16)\ny = cast(z, dtype=bf16)\n"},
          {"graph f (x: f32[M]) -> (y: f32[M]) { y = f32(bf16(x)) }",
           "v0 = cast(x, dtype=bf16)\ny = cast(v0, dtype=f32)\n"},
          {"graph f (x: f32[M]) -> (s: bf16[M], y: bf16[M]) { s = x + x; y = exp(s) }",
           "v0 = add(x, x)\ns = cast(v0, dtype=bf16)\nv1 = exp(s)\ny = cast(v1, dtype=bf16)\n"},
          {"graph f (x: f32[M]) -> (y: i32) { y = 7 }", "y = constant(value=7, dtype=i32)\n"});
}

/* Axes by dim, by number, from the end, several, all. */
static void test_axes(void **state) {
    (void)state;
    CHECK(
        {"graph f (x: f32[M, N]) -> (y: f32[M, 1]) { y = sum(x, over=N) }", "y = sum(x, over=[1], keep=1)\n"},
        {"graph f (x: f32[M, N]) -> (y: f32[M, 1]) { y = sum(x, -1) }", "y = sum(x, over=[1], keep=1)\n"},
        {"graph f (x: f32[M, N]) -> (y: f32) { y = max(x, over=[N, 0], keep=0) }",
         "y = reduce_max(x, over=[0, 1], keep=0)\n"},
        {"graph f (x: f32[M, N/2]) -> (y: f32[M, 1]) { y = min(x, over=N/2) }",
         "y = reduce_min(x, over=[1], keep=1)\n"},
        {"graph f (x: f32[M, N]) -> (y: i32[1, N]) { y = index(x, N) }", "y = index(dims=[1, N], axis=1)\n"},
        {"fn other (x, over) { return axes(x) - axes(x, over) }\n"
         "graph f (x: f32[M, N, K]) -> (y: f32[N]) { y = sum(x, other(x, N), keep=0) }",
         "y = sum(x, over=[0, 2], keep=0)\n"},
        {"graph f (x: f32[M, N]) -> (y: f32[2*M, N]) { y = concat(x, x, axis=M) }",
         "y = concat(x, x, axis=0)\n"});
}

static void test_functions(void **state) {
    (void)state;
    CHECK({"fn two (a, b=1) { s = a + b; return s, a }\ngraph f (x: f32[M]) -> (y: f32[M], z: f32[M]) { y, z "
           "= two(x, b=x) }",
           "z = x\ny = add(x, x)\n"},
          {"fn pick (x, how: up | down = up) { return exp(x) if how == up else log(x) }\n"
           "fn hand (x, how: up | down) { return pick(x, how=how) }\n"
           "graph f (x: f32[M]) -> (y: f32[M]) { y = pick(x) + pick(x, how=down) + hand(x, down) }",
           "v0 = exp(x)\nv1 = log(x)\nv2 = add(v0, v1)\nv3 = log(x)\ny = add(v2, v3)\n"},
          {"fn maybe (x, b=none) { return x if b == none else x + b }\n"
           "graph f (x: f32[M]) -> (y: f32[M]) { y = maybe(exp(x)) - maybe(x, x) }",
           "v0 = exp(x)\nv1 = add(x, x)\ny = sub(v0, v1)\n"},
          {"fn second (x, n = size(x, 0), k = n + 1) { return x / k }\ngraph f (x: f32[M]) -> (y: f32[M]) { "
           "y = second(x) }",
           "v0 = dim(value=M + 1)\ny = div(x, v0)\n"},
          {"fn silu (x) { return x }\ngraph f (x: f32[M]) -> (y: f32[M]) { y = silu(x) }", "y = x\n"},
          {"fn g (x) { t = exp(x); return t * t }\ngraph f (x: f32[M]) -> (y: f32[M]) { t = g(x); y = g(t) }",
           "t_2 = exp(x)\nt = mul(t_2, t_2)\nt_3 = exp(t)\ny = mul(t_3, t_3)\n"},
          {"fn named (x, over, keep) { return sum(x, keep=keep, over=over) }\n"
           "graph f (x: f32[M, N]) -> (y: f32[N]) { y = named(keep=false, x=x, over=M) }",
           "y = sum(x, over=[0], keep=0)\n"});
}

/* Statements end at a line end, unless a bracket is open or an operator waits for its operand. */
static void test_lines(void **state) {
    (void)state;
    CHECK({"graph f (x: f32[M]) -> (y: f32[M]) {\n a = exp(\n x\n )\n\n ; y = a +\n # a comment\n x\n}",
           "a = exp(x)\ny = add(a, x)\n"},
          {"graph f (\n x: f32[M]\n)\n->\n(y: f32[M]\n)\nwhere M > 1,\n M < 9\n\n{\n\n y = exp(x); }",
           "y = exp(x)\n"},
          {"graph graph (check: f32[M]) -> (grad: f32[M]) { fn = exp(check); where = fn; grad = where + "
           "check }",
           "fn = exp(check)\ngrad = add(fn, check)\n"});
}

static void test_at_sign(void **state) {
    (void)state;
    CHECK({"fn g (x) { return x }\ngraph f (x: f32[M, M]) -> (y: f32[M, M]) { y = x@x @ g(x)@g(x) "
           "@expect(kernels=2) }",
           "v0 = matmul(x, x, dtype=f32)\nv1 = matmul(v0, x, dtype=f32)\ny = matmul(v1, x, dtype=f32) "
           "@expect(kernels=2)\n"},
          {"graph f (x: f32[M]) -> (y: f32[M]) {\n y = exp(x)\n\n  # why\n  @schedule(tile=128x64, "
           "raster=along_m, stages=3)\n  @allow(tf32)\n}",
           "y = exp(x) @schedule(tile=128x64, raster=along_m, stages=3) @allow(tf32)\n"});
}

static void test_layouts(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int strides[4];
    } tests[] = {{"f32[2, 3, 4, 5 : NHWC]", {60, 1, 15, 3}},
                 {"f32[2, 3, 4, 5 : nchw]", {0}},
                 {"f32[2, 3, 4, 5 : CHWN]", {1, 40, 10, 2}},
                 {"f32[2, 3, 4, 5 : strides=[100, 30, 6, 1]]", {100, 30, 6, 1}},
                 {"f32[2, 3, 4, 5 : strides=[60, 20, 5, 1]]", {0}}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        char text[300];
        snprintf(text, sizeof text, "sinter 1\ngraph f (x: %s) -> (y: %s) { y = exp(x) }", tests[t].type,
                 tests[t].type);
        Parsed p = parse_text(text);
        assert_parsed(&p);
        const Graph *graph = p.module.graphs.at[0];
        const Dim **in = graph->inputs.at[0]->strides, **out = graph->outputs.at[0].strides;
        assert_int_equal(in != NULL, tests[t].strides[0] != 0);
        assert_int_equal(out != NULL, tests[t].strides[0] != 0);
        for (int i = 0; in && i < 4; i++) {
            assert_int_equal(in[i]->value, tests[t].strides[i]);
            assert_int_equal(out[i]->value, tests[t].strides[i]);
        }
        parsed_free(&p);
    }
    /* By the names of the dims: N is what no other letter names. */
    Parsed p = parse_text("sinter 1\ngraph f (x: f32[B, C, H, W : NHWC]) -> (y: f32[B, H, W, C : BHWC]) { y "
                          "= exp(transpose(x, [0, 2, 3, 1])) }");
    assert_parsed(&p);
    const Graph *graph = p.module.graphs.at[0];
    Text text = text_new(p.arena);
    dim_print(&text, graph->dims, graph->inputs.at[0]->strides[3]);
    assert_string_equal(text.at, "C");
    assert_null(graph->outputs.at[0].strides);
    parsed_free(&p);
}

static void test_where_and_check(void **state) {
    (void)state;
    Parsed p = parse_text("sinter 1\ngraph f (x: f32[M, N, K]) -> (y: f32[M, N, K])\n"
                          "where 1 <= M <= 100, N % 16 == 0, K in {64, 128}, M <= N { y = exp(x) }\n"
                          "check f { M in {1, 2}; N = 16\n K in {64}; rtol = 1e-3; atol = 2; seed = 5 "
                          "}\ncheck f { M = 1; N = 32; K = 64 }");
    assert_parsed(&p);
    const Graph *graph = p.module.graphs.at[0];
    assert_int_equal(dim_upper(graph->dims, graph->inputs.at[0]->dims[0]), 100);
    assert_int_equal(dim_lower(graph->dims, graph->inputs.at[0]->dims[0]), 1);
    assert_int_equal(dim_divisor(graph->dims, graph->inputs.at[0]->dims[1]) % 16, 0);
    assert_int_equal(dim_upper(graph->dims, graph->inputs.at[0]->dims[2]), 128);
    assert_true(dim_known_le(graph->dims, graph->inputs.at[0]->dims[0], graph->inputs.at[0]->dims[1]));
    assert_int_equal(graph->checks.n, 2);
    const Check *check = &graph->checks.at[0];
    assert_int_equal(check->dims.n, 3);
    assert_int_equal(check->dims.at[0].n, 2);
    assert_int_equal(check->dims.at[0].values[1], 2);
    assert_true(check->rtol == 1e-3 && check->atol == 2 && check->seed == 5);
    assert_true(graph->checks.at[1].rtol < 0 && graph->checks.at[1].atol < 0);
    parsed_free(&p);
}

/* Values made by the library come from the line of the text that called it. */
static void test_places(void **state) {
    (void)state;
    Parsed p = parse_text("sinter 1\nfn mine (x) { return exp(x) }\ngraph f (x: f32[M, N]) -> (y: f32[M, N]) "
                          "{\n y = mine(\n softmax(x)) }");
    assert_parsed(&p);
    const Graph *graph = p.module.graphs.at[0];
    for (size_t i = 0; i < graph->values.n; i++) {
        int line, column;
        const Value *value = graph->values.at[i];
        source_locate(p.sources, value->span.file, value->span.caret, &line, &column);
        assert_int_equal(value->span.file, 1);
        assert_int_equal(line, value->op == OP_input ? 3 : i + 1 == graph->values.n ? 2 : 5);
    }
    parsed_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weak_numbers),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_mixed_product),
        cmocka_unit_test(test_computed_product),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_at_sign),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_where_and_check),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
