/* `grad` in the language: what it derives of composites is compared with differences of the forward graph. */
#include <math.h>

#include "support.h"

#include "ir/print.h"
#include "tests/unit/ir/gradient_check.h"

typedef struct Composite {
    const char *signature, *body;
    double low, high;
    int64_t below;
} Composite;

static const Composite composites[] = {
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = softmax(x)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = softmax(x, over=0)", -2, 2, 0},
    {"(x: f64[M, 6, 2]) -> (y: f64[M, 6, 2])", "y = softmax(x, over=[0, 2])", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = log_softmax(x)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 1])", "y = logsumexp(x, -1)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = x - logsumexp(x * x, -1) * softmax(x)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "m = reduce_max(x, -1); e = exp(x - m); y = e / sum(e * e, -1)", -2,
     2, 0}, /* no softmax, nor its logarithm */
    {"(x: f64[M, 6]) -> (y: f64[M, 6])",
     "m = reduce_max(x, -1); y = m + log(sum(exp(x - m), -1)) - log(sum(exp(x - m), [0, 1])) * (x - m)", -2,
     2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 1])",
     "m = reduce_max(x, -1); y = reduce_max(2 * x, -1) + log(sum(exp(x - m), -1))", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "m = reduce_max(x, -1); y = 2 * x - log(sum(exp(x - m), -1))", -2, 2,
     0},
    {"(x: f64[M, M]) -> (y: f64[M, M])", "y = softmax(causal(x))", -2, 2, 0},
    {"(x: f64[M, M], m: bool[M, M]) -> (y: f64[M, M])",
     "y = softmax(select(m || index(x, 0) == index(x, 1), x, -inf))", -2, 2, 0},
    {"(x: f64[M, 6], i: i32[M]) -> (y: f64[M])", "y = cross_entropy(x, i)", -2, 2, 6},
    {"(x: f64[M, 6], g: f64[6], b: f64[6]) -> (y: f64[M, 6])", "y = layernorm(x, g, b)", -2, 2, 0},
    {"(x: f64[M, 6], g: f64[6]) -> (y: f64[M, 6])", "y = rmsnorm(x, g)", -2, 2, 0},
    {"(x: f64[M, 6], g: f64[6], b: f64[6]) -> (y: f64[M, 6])", "y = groupnorm(x, 2, g, b)", -2, 2, 0},
    {"(x: f64[M, 6], g: f64[6], b: f64[6]) -> (y: f64[M, 6])",
     "y, m, r, nm, nv = batchnorm_train(x, g, b, g, b)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = gelu(x)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = gelu(x, approx=tanh)", -2, 2, 0},
    {"(x: f64[M, 6], u: f64[M, 6]) -> (y: f64[M, 6])", "y = swiglu(x, u) + mish(x) + softplus(u)", -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = elu(x) + leaky_relu(x) + hardswish(x) + softsign(x) + cosh(x)",
     -2, 2, 0},
    {"(x: f64[M, 6]) -> (y: f64[M, 1])", "y = norm2(x, -1) + variance(x, -1) + amax(x, -1)", -2, 2, 0},
    {"(x: f64[M, 6], u: f64[M, 1], v: f64[6]) -> (y: f64[M, 6])", "y = lerp(x, u, v) / (2 + u * v)", -1, 1,
     0},
    {"(x: f64[M, 6], w: f64[4, 6], b: f64[4]) -> (y: f64[M, 4])", "y = relu(linear(x, w, b))", -2, 2, 0},
    {"(x: f64[2, M, 6], w: f64[6, 4]) -> (y: f64[2, M, 4])", "y = x @ w", -2, 2, 0},
    {"(x: f64[6], w: f64[6, 4], v: f64[4]) -> (y: f64)", "y = x @ w @ v", -2, 2, 0},
    {"(x: f64[M, 8], c: f64[M, 4], s: f64[M, 4]) -> (y: f64[M, 8])",
     "y = rope(x, c, s) * rope(x, c, s, interleaved=true)", -2, 2, 0},
    {"(x: f64[M, 6], u: f64[6]) -> (y: f64[M, 6])", "y = select(x, u, x) * x", -2, 2, 0},
    {"(x: f64[M, 2]) -> (y: f64[(M + 3) / 4, 2]) where M >= 1", "y = x[::2][::2]", -2, 2, 0},
    {"(x: f64[M]) -> (y: f64[(M + 1) / 2])", "y = x[::2]", -2, 2, 0},
    {"(x: f64[1, H, 3]) -> (y: f64[1, (H + 1) / 3, 3]) where H >= 3", "y = max_pool(x, 2, stride=3)", -2, 2,
     0},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y = x[::-1] * x[:, ::-1]", -2, 2, 0},
    {"(x: f64[M, 7]) -> (y: f64[M])", "y = sum(x[:, 1::3], -1, keep=0) * x[:, -2]", -2, 2, 0},
    {"(x: f64[2 * M]) -> (y: f64[M]) where M >= 1", "y = x[::2] * x[1::2]", -2, 2, 0},
    {"(q: f64[2, 4, M, 8], k: f64[2, 2, M, 8], v: f64[2, 2, M, 8]) -> (y: f64[2, 4, M, 8])",
     "y = attention(q, k, v, causal=true)", -1, 1, 0},
    {"(q: f64[1, H, 3, 8], k: f64[1, J, 5, 8], v: f64[1, J, 5, 8]) -> (y: f64[1, H, 3, 8], l: f64[1, H, 3, "
     "1]) where "
     "H % J == 0",
     "y, l = attention_train(q, k, v, softcap=5)", -1, 1, 0},
    {"(x: f64[2, 9, 2], w: f64[4, 3, 2]) -> (y: f64[2, 5, 4])", "y = conv(x, w, stride=2, pad=1)", -2, 2, 0},
    {"(x: f64[2, 6, 7, 3], w: f64[4, 3, 2, 3]) -> (y: f64[2, 3, 4, 4])",
     "y = conv(x, w, stride=2, pad=[[1, 0], 1])", -2, 2, 0},
    {"(x: f64[1, H, 8, 2], w: f64[3, 3, 3, 2]) -> (y: f64[1, H, 8, 3]) where H >= 1",
     "y = relu(conv(x, w, pad=2, dilation=2))", -2, 2, 0},
    {"(x: f64[1, 11, 10, 2], w: f64[3, 3, 2, 2]) -> (y: f64[1, 4, 3, 3])",
     "y = conv(x, w, stride=[2, 3], dilation=[2, 2])", -2, 2, 0},
    {"(x: f64[2, 11, 9, 2], w: f64[3, 4, 5, 2]) -> (y: f64[2, 4, 3, 3])",
     "y = conv(x, w, stride=3, pad=[[0, 2], [2, 1]])", -2, 2, 0},
    {"(x: f64[2, 9, 2], w: f64[3, 2, 2]) -> (y: f64[2, 2, 3])", "y = conv(x, w, stride=4)", -2, 2, 0},
    {"(x: f64[2, 4, 2], w: f64[3, 2, 2]) -> (y: f64[2, 9, 3])", "y = conv(x, w, pad=3)", -2, 2, 0},
    {"(x: f64[1, H, 2], w: f64[3, 3, 2]) -> (y: f64[1, (H + 1) / 2, 3]) where H >= 1",
     "y = conv(2 * x, w * w, pad=1, stride=2)", -2, 2, 0},
    {"(x: f64[2, 9, 7, 6], w: f64[4, 3, 2, 3]) -> (y: f64[2, 5, 3, 4])",
     "y = conv(x, w, groups=2, stride=[2, 3], pad=1)", -2, 2, 0},
    {"(x: f64[2, 9, 6], w: f64[6, 3, 2]) -> (y: f64[2, 9, 6])", "y = conv(x, w, groups=3, pad=2, dilation=2)",
     -2, 2, 0},
    {"(x: f64[1, 4, 5, 4, 4], w: f64[6, 2, 3, 2, 2]) -> (y: f64[1, 3, 3, 2, 6])",
     "y = conv(x, w, stride=[1, 1, 2], groups=2)", -2, 2, 0},
    {"(x: f64[1, 6, 6, 4], w: f64[6, 3, 3, 2]) -> (y: f64[1, 4, 4, 6])", "y = conv(x, w, groups=2)", -2, 2,
     0},
    {"(x: f64[1, 6, 6, 4], w: f64[4, 3, 3, 1]) -> (y: f64[1, 3, 3, 4])",
     "y = conv(x, w, groups=4, stride=2, pad=1)", -2, 2, 0},
    {"(x: f64[2, 7, 6, 3], w: f64[3, 3, 5, 1]) -> (y: f64[2, 7, 6, 3])",
     "y = conv(2 * x, w * w, groups=3, pad=[1, 2])", -2, 2, 0},
    {"(x: f64[1, 8, 7, 2], w: f64[2, 3, 2, 1]) -> (y: f64[1, 3, 3, 2])",
     "y = conv(x, w, groups=2, stride=[3, 2], pad=[1, 0])", -2, 2, 0},
    {"(x: f64[2, 12, 2], w: f64[2, 3, 1]) -> (y: f64[2, 4, 2])",
     "y = conv(x, w, groups=2, stride=3, pad=[[2, 1]], dilation=2)", -2, 2, 0},
    {"(x: f64[1, 3, 4, 4, 2], w: f64[2, 2, 3, 3, 1]) -> (y: f64[1, 2, 4, 4, 2])",
     "y = conv(x, w, groups=2, pad=[0, 1, 1])", -2, 2, 0},
    {"(x: f64[1, 4, 4, 2], w: f64[2, 3, 3, 1]) -> (y: f64[1, 8, 8, 2])", "y = conv(x, w, groups=2, pad=3)",
     -2, 2, 0},
    {"(x: f64[1, 4, 5, 4, 2], w: f64[3, 2, 3, 2, 2]) -> (y: f64[1, 3, 3, 2, 3])",
     "y = conv(x, w, stride=[1, 1, 2])", -2, 2, 0},
    {"(x: f64[2, 6, 7, 3]) -> (y: f64[2, 3, 3, 3])", "y = max_pool(x, 2) + avg_pool(x, 2)", -2, 2, 0},
    {"(x: f64[2, 5, 5, 3]) -> (y: f64[2, 3, 3, 3])",
     "y = max_pool(x, 3, stride=2, pad=1) + avg_pool(x, 3, stride=2, pad=1, include_pad=false)", -2, 2, 0},
    {"(t: f64[5, 3], i: i32[M]) -> (y: f64[M, 3]) where M <= 100", "y = embedding(i, t)", -2, 2, 5},
    {"(x: f64[M, 6]) -> (y: f64[M, 6])", "y, mask = dropout(x, 0.5, 7)", -2, 2, 0},
};

static void check_body(void *context) {
    Parsed *p = context;
    const Composite *composite = NULL;
    for (size_t i = 0; i < sizeof composites / sizeof *composites; i++)
        if (p->name == composites[i].body)
            composite = &composites[i];
    const Graph *forward = p->module.graphs.at[0];
    int64_t *sizes = ARENA_ARRAY(p->arena, int64_t, 8);
    for (int s = 0; s < dim_symbol_count(forward->dims); s++)
        sizes[s] = strcmp(dim_symbol_name(forward->dims, s), "J") == 0 ? 2 : 4;
    GradientCheck check = {.arena = p->arena,
                           .diags = p->diags,
                           .forward = forward,
                           .sizes = sizes,
                           .low = composite->low,
                           .high = composite->high,
                           .below = composite->below,
                           .tolerance = 2e-7};
    gradient_check(&check);
    check.forward = p->module.graphs.at[1]; /* a gradient is a graph: it has gradients */
    gradient_check(&check);
}

static void test_composites(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof composites / sizeof *composites; i++) {
        char text[2000];
        snprintf(text, sizeof text, "sinter 1\ngraph f %s\n{ %s }\ngrad g = gradient(f)\n",
                 composites[i].signature, composites[i].body);
        Parsed p = parse_text(text);
        assert_parsed(&p);
        assert_int_equal(p.module.graphs.n, 2);
        p.name = p.module.graphs.at[0]->name = composites[i].body; /* for messages */
        assert_true(arena_run(p.arena, check_body, &p));
        parsed_free(&p);
    }
}

/* ---- the definition ---- */

static const Graph *graph_named(const Parsed *p, const char *name) {
    for (size_t i = 0; i < p->module.graphs.n; i++)
        if (strcmp(p->module.graphs.at[i]->name, name) == 0)
            return p->module.graphs.at[i];
    fail_msg("no graph '%s'", name);
    return NULL;
}

static const char *heading(const Parsed *p, const char *name) {
    Text text = text_new(p->arena);
    graph_print(&text, graph_named(p, name));
    const char *begin = strstr(text.at, "graph ");
    return text_format(p->arena, "%.*s", (int)(strstr(begin, "\n{") - begin), begin);
}

/* Signatures, in whatever order graphs and gradients stand; the module has them as the text does. */
static void test_definitions(void **state) {
    (void)state;
    Parsed p = parse_text(
        "sinter 1\n"
        "grad twice = gradient(once)\n"
        "grad once = gradient(f, of=[w, x])\n"
        "grad one = gradient(f, of=x)\n"
        "graph f (x: bf16[M, 8], ids: i32[M], w: f32[N, 8 : strides=[1, N]]) -> (y: bf16[M, N], n: i32[M])\n"
        "where M <= 64, N % 16 == 0\n"
        "{ y = exp(x @ bf16(w).T)  @expect(kernels=1)\n  n = ids }\n"
        "check f { M = 1; N = 16 }\n"
        "grad all = gradient(f)\n"
        "check once { M in {1, 5}; N = 16 }\n");
    assert_parsed(&p);
    static const char *const order[] = {"twice", "once", "one", "f", "all"};
    assert_int_equal(p.module.graphs.n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(p.module.graphs.at[i]->name, order[i]);
    assert_string_equal(
        heading(&p, "once"),
        "graph once (x: bf16[M, 8], ids: i32[M], w: f32[N, 8 : strides=[1, N]], dy: bf16[M, N]) -> (dw: "
        "f32[N, 8 : strides=[1, N]], dx: bf16[M, 8])\nwhere M <= 64, N % 16 == 0");
    assert_string_equal(
        heading(&p, "one"),
        "graph one (x: bf16[M, 8], ids: i32[M], w: f32[N, 8 : strides=[1, N]], dy: bf16[M, N]) -> (dx: "
        "bf16[M, 8])\nwhere M <= 64, N % 16 == 0");
    assert_string_equal(
        heading(&p, "all"),
        "graph all (x: bf16[M, 8], ids: i32[M], w: f32[N, 8 : strides=[1, N]], dy: bf16[M, N]) -> (dx: "
        "bf16[M, 8], dw: f32[N, 8 : strides=[1, N]])\nwhere M <= 64, N % 16 == 0");
    assert_string_equal(
        heading(&p, "twice"),
        "graph twice (x: bf16[M, 8], ids: i32[M], w: f32[N, 8 : strides=[1, N]], dy: bf16[M, N], ddw: "
        "f32[N, 8 : strides=[1, N]], ddx: bf16[M, 8]) -> (dx: bf16[M, 8], dw: f32[N, 8 : strides=[1, N]], "
        "ddy: bf16[M, N])\nwhere M <= 64, N % 16 == 0");
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(p.module.graphs.at[i]->hints.n, strcmp(order[i], "f") == 0);
        assert_int_equal(p.module.graphs.at[i]->checks.n, i == 1 || i == 3);
    }
    parsed_free(&p);
}

/* A gradient lies in memory as its input does, unless elements of that share a place. */
static void test_layouts(void **state) {
    (void)state;
    Parsed p = parse_text(
        "sinter 1\n"
        "graph f (a: f32[M, 8 : strides=[16, 2]], b: f32[M, 8 : strides=[1, M]], c: f32[M, 8 : strides=[0, "
        "1]], "
        "d: f32[M, 8 : strides=[1, 1]], e: f32[2, M, 8 : strides=[8, 16, 1]]) -> (y: f32[2, M, 8 : "
        "strides=[1, 16, 2]])\n"
        "where M >= 1 { y = a * b * c * d * e }\n"
        "grad df = gradient(f)\n"
        "graph g (x: f32[2, M, N : strides=[M*N, 1, M]]) -> (y: f32[2, M, N]) { y = x * x }\n"
        "grad dg = gradient(g)\n");
    assert_parsed(&p);
    assert_non_null(strstr(heading(&p, "dg"), "-> (dx: f32[2, M, N : strides=[M*N, 1, M]])"));
    assert_non_null(strstr(heading(&p, "df"),
                           "dy: f32[2, M, 8 : strides=[1, 16, 2]]) -> (da: f32[M, 8 : strides=[16, 2]], "
                           "db: f32[M, 8 : strides=[1, M]], dc: f32[M, 8], dd: f32[M, 8], de: f32[2, M, "
                           "8 : strides=[8, 16, 1]])"));
    parsed_free(&p);
}

static int count_ops(const Graph *graph, OpKind op) {
    int n = 0;
    for (size_t k = 0; k < graph->values.n; k++)
        n += graph->values.at[k]->op == op;
    return n;
}

/* Softmax has the gradient that people write: nothing of the row's largest is worked out again. */
static void test_softmax_is_short(void **state) {
    (void)state;
    Parsed p = parse_text("sinter 1\n"
                          "graph f (x: f32[M, N]) -> (y: f32[M, N]) { y = softmax(x) }\n"
                          "graph l (x: f32[M, N]) -> (y: f32[M, N]) { y = log_softmax(x) }\n"
                          "graph s (x: f32[M, N]) -> (y: f32[M, 1]) { y = logsumexp(x, -1) }\n"
                          "grad df = gradient(f)\ngrad dl = gradient(l)\ngrad ds = gradient(s)\n");
    assert_parsed(&p);
    static const char *const names[] = {"df", "dl", "ds"};
    static const int sums[] = {2, 2, 1};
    for (size_t i = 0; i < 3; i++) {
        const Graph *graph = graph_named(&p, names[i]);
        assert_int_equal(count_ops(graph, OP_sum), sums[i]);
        assert_int_equal(count_ops(graph, OP_reduce_max), 1);
    }
    parsed_free(&p);
}

/* The gradient of a convolution is two, of windows of dy and of x: no taps are added up. */
static void test_convolution_is_two(void **state) {
    (void)state;
    Parsed p = parse_text(
        "sinter 1\n"
        "graph f (x: bf16[2, 8, 8, 16], w: bf16[32, 3, 3, 16]) -> (y: bf16[2, 4, 4, 32]) { y = conv(x, w, "
        "stride=2, pad=1) }\n"
        "grad df = gradient(f)\n"
        "graph g (x: bf16[2, 8, 8, 16], w: bf16[32, 3, 3, 8]) -> (y: bf16[2, 8, 8, 32]) { y = conv(x, w, "
        "groups=2, pad=1) }\n"
        "grad dg = gradient(g)\n");
    assert_parsed(&p);
    static const char *const names[] = {"df", "dg"};
    for (size_t i = 0; i < 2; i++) {
        const Graph *graph = graph_named(&p, names[i]);
        assert_int_equal(count_ops(graph, OP_matmul), 2);
        assert_int_equal(count_ops(graph, OP_window), 4);
        assert_int_equal(count_ops(graph, OP_add), 0);
    }
    parsed_free(&p);
}

/* Rows that see nothing, and numbers far from zero: gradients are finite where results are. */
static void far_body(void *context) {
    Parsed *p = context;
    const Graph *derived = p->module.graphs.at[1];
    DimBindings bindings = dim_bindings_new(p->arena, derived->dims);
    Number x[] = {{.f = -INFINITY}, {.f = -INFINITY}, {.f = -1000}, {.f = 1000}, {.f = 0}, {.f = -0.0}};
    Number dy[] = {{.f = 1}, {.f = 1}, {.f = 1}};
    Tensor in[] = {{DTYPE_F32, 2, {3, 2}, 6, x}, {DTYPE_F32, 2, {3, 1}, 3, dy}}, out;
    assert_true(reference_run(p->arena, derived, &bindings, in, &out, p->diags));
    static const double wanted[] = {0, 0, 0, 1, 0.5, 0.5};
    for (int i = 0; i < 6; i++)
        if (out.at[i].f != wanted[i])
            fail_msg("element %d: %g", i, out.at[i].f);
}

static void test_far_from_zero(void **state) {
    (void)state;
    Parsed p = parse_text("sinter 1\n"
                          "graph f (x: f32[3, 2]) -> (y: f32[3, 1]) { y = logsumexp(x, -1) }\n"
                          "grad df = gradient(f)\n");
    assert_parsed(&p);
    assert_true(arena_run(p.arena, far_body, &p));
    parsed_free(&p);
}

/* Gradients of gradients without end are refused before they take long. */
static void test_limits(void **state) {
    (void)state;
    enum { LEVELS = 200 };
    char *text = malloc(LEVELS * 40 + 200);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "sinter 1\ngraph g0 (x: f32) -> (y: f32) { y = x * x }\n");
    for (int i = LEVELS; i > 0; i--)
        n += (size_t)sprintf(text + n, "grad g%d = gradient(g%d)\n", i, i - 1);
    Parsed p = parse_text(text);
    assert_true(p.ran);
    assert_false(p.good);
    assert_int_equal(p.diags->list.at[0].id, DIAG_LIMIT);
    parsed_free(&p);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_composites),
                                       cmocka_unit_test(test_definitions),
                                       cmocka_unit_test(test_softmax_is_short),
                                       cmocka_unit_test(test_far_from_zero),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_layouts),
                                       cmocka_unit_test(test_convolution_is_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
