/* The canonical text, letter by letter, and the hash: what it sees and what it leaves out. That the text
 * parses back is tested with the front end. */
#include <math.h>

#include "support.h"

#include "ir/print.h"

#define CONST(value) dim_const(bench->dims, value)
#define SYMBOL(name) dim_symbol(bench->dims, name)

static const char *printed(Bench *bench) {
    Text text = text_new(bench->arena);
    graph_print(&text, bench->graph);
    return text.at;
}

static const char *line(Bench *bench, const Value *value) {
    Text text = text_new(bench->arena);
    value_print(&text, bench->graph, value);
    return text.at;
}

static Value *append(Bench *bench, OpKind op, int n_in, Value **in, const Attr *attrs) {
    Value *value = graph_append(bench->graph, op, in, n_in, attrs, (Span){0}, &bench->diags);
    assert_non_null(value);
    return value;
}

static Value *constant(Bench *bench, Number number, DType dtype) {
    Attr attrs[OP_MAX_ATTRS] = {{.number = number}, {.dtype = dtype}};
    return append(bench, OP_constant, 0, NULL, attrs);
}

BENCH_TEST(test_names_stay_apart) {
    const Dim *dims[] = {SYMBOL("M")};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_F32, 1, dims, NULL, (Span){0});
    Value *a = append(bench, OP_exp, 1, &x, NULL), *b = append(bench, OP_neg, 1, &a, NULL);
    Value *c = append(bench, OP_abs, 1, &b, NULL), *d = append(bench, OP_sin, 1, &c, NULL);
    Value *e = append(bench, OP_cos, 1, &d, NULL), *f = append(bench, OP_tan, 1, &e, NULL);
    Value *g = append(bench, OP_tanh, 1, &f, NULL), *y = append(bench, OP_sqrt, 1, &g, NULL);
    a->name = "mu"; /* as a function inlined twice names two values */
    b->name = "mu";
    c->name = "x";      /* an input's */
    d->name = "M";      /* a dim's */
    e->name = "return"; /* the language's */
    f->name = "two words";
    g->name = "v0"; /* of the source, so the numbering goes around it */
    y->name = "hidden behind the output's name";
    graph_add_output(bench->graph, "y", y, NULL, (Span){0});
    graph_add_output(bench->graph, "same", y, NULL, (Span){0});
    graph_add_output(bench->graph, "through", x, NULL, (Span){0});
    assert_string_equal(printed(bench), "sinter 1\n"
                                        "\n"
                                        "graph g (x: f32[M]) -> (y: f32[M], same: f32[M], through: f32[M])\n"
                                        "{\n"
                                        "    through = x\n"
                                        "    mu = exp(x)\n"
                                        "    mu_2 = neg(mu)\n"
                                        "    x_2 = abs(mu_2)\n"
                                        "    M_2 = sin(x_2)\n"
                                        "    v1 = cos(M_2)\n"
                                        "    v2 = tan(v1)\n"
                                        "    v0 = tanh(v2)\n"
                                        "    y = sqrt(v0)\n"
                                        "    same = y\n"
                                        "}\n");
    assert_string_equal(line(bench, b), "mu_2 = neg(mu)");
    assert_string_equal(line(bench, x), "x: f32[M]");
    Value stray = *b;
    assert_string_equal(line(bench, &stray), "mu = neg(mu)"); /* a value of no graph, still in words */
}

BENCH_TEST(test_every_kind_of_attribute) {
    const Dim *dims[] = {SYMBOL("M"), CONST(16)}, *zero[] = {CONST(0), CONST(1)};
    const Dim *limit[] = {SYMBOL("M"), CONST(9)}, *pads[] = {CONST(0), CONST(2)};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_BF16, 2, dims, NULL, (Span){0});
    assert_string_equal(
        line(bench, append(bench, OP_transpose, 1, &x, (Attr[3]){{.ints = (int[]){1, 0}, .n_ints = 2}})),
        "v0 = transpose(x, perm=[1, 0])");
    assert_string_equal(
        line(bench, append(bench, OP_reduce_max, 1, &x, (Attr[3]){{.axes = {.n = 1, .at = {1}}}, {.i = 1}})),
        "v1 = reduce_max(x, over=[1], keep=1)");
    assert_string_equal(line(bench, append(bench, OP_cast, 1, &x, (Attr[3]){{.dtype = DTYPE_E4M3}})),
                        "v2 = cast(x, dtype=e4m3)");
    Attr slice[] = {
        {.dims = zero, .n_dims = 2}, {.dims = limit, .n_dims = 2}, {.ints = (int[]){1, 2}, .n_ints = 2}};
    assert_string_equal(line(bench, append(bench, OP_slice, 1, &x, slice)),
                        "v3 = slice(x, start=[0, 1], limit=[M, 9], step=[1, 2])");
    assert_string_equal(
        line(bench, append(bench, OP_index, 0, NULL, (Attr[3]){{.dims = dims, .n_dims = 2}, {.i = 1}})),
        "v4 = index(dims=[1, 16], axis=1)");
    assert_string_equal(line(bench, append(bench, OP_dim, 0, NULL,
                                           (Attr[3]){{.dim = dim_div(bench->dims, dims[0], dims[1])}})),
                        "v5 = dim(value=M/16)");
    Value *border = constant(bench, (Number){.f = 0.5}, DTYPE_BF16);
    Attr pad[] = {{.dims = pads, .n_dims = 2}, {.dims = pads, .n_dims = 2}};
    assert_string_equal(line(bench, append(bench, OP_pad, 2, (Value *[]){x, border}, pad)),
                        "v7 = pad(x, 0.5, low=[0, 2], high=[0, 2])");
    Value *t = bench->graph->values.at[1];
    assert_string_equal(line(bench, append(bench, OP_matmul, 2, (Value *[]){x, t}, NULL)), "v8 = x @ v0");
    assert_string_equal(
        line(bench, append(bench, OP_matmul, 2, (Value *[]){x, t}, (Attr[3]){{.dtype = DTYPE_F64}})),
        "v9 = matmul(x, v0, dtype=f64)");
    assert_string_equal(line(bench, append(bench, OP_sum, 1, &x, (Attr[3]){{.axes = {.n = 0}}, {.i = 0}})),
                        "v10 = sum(x, over=[], keep=0)");
    Attr window[] = {{.i = 1}, {.dim = CONST(3)}, {.i = 2}, {.i = 1}};
    assert_string_equal(line(bench, append(bench, OP_window, 1, &x, window)),
                        "v11 = window(x, axis=1, size=3, step=2, dilation=1)");
}

BENCH_TEST(test_numbers) {
    static const struct {
        double value;
        DType dtype;
        const char *text;
    } numbers[] = {
        {0.5, DTYPE_F32, "0.5"},       {(double)0.1f, DTYPE_F32, "0.1"},
        {0.1, DTYPE_F64, "0.1"},       {(double)0.1f, DTYPE_F64, "0.10000000149011612"},
        {INFINITY, DTYPE_F32, "inf"},  {-INFINITY, DTYPE_BF16, "-inf"},
        {NAN, DTYPE_F64, "nan"},       {-0.0, DTYPE_F32, "-0.0"},
        {1, DTYPE_F32, "1"},           {0.0999755859375, DTYPE_F16, "0.1"},
        {-3e38f, DTYPE_F32, "-3e+38"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Value *value = constant(bench, (Number){.f = numbers[i].value}, numbers[i].dtype);
        assert_string_equal(line(bench, value),
                            text_format(bench->arena, "v%zu = constant(value=%s, dtype=%s)", i,
                                        numbers[i].text, dtype_name(numbers[i].dtype)));
    }
    assert_non_null(strstr(line(bench, constant(bench, (Number){.i = INT64_MIN}, DTYPE_I64)),
                           "value=-9223372036854775808,"));
    assert_non_null(
        strstr(line(bench, constant(bench, (Number){.i = 1}, DTYPE_BOOL)), "value=1, dtype=bool"));
}

/* ---- the hash ---------------------------------------------------------------------------------------- */

/* One graph, with one thing changed. */
typedef enum Change {
    CHANGE_NOTHING,
    CHANGE_NAME_OF_INTERMEDIATE,
    CHANGE_SPANS,
    CHANGE_EXPECT,
    CHANGE_CHECK,
    CHANGE_UNRELATED_SYMBOL, /* a larger table of dims */
    CHANGE_FIRST_THAT_COUNTS,
    CHANGE_OP = CHANGE_FIRST_THAT_COUNTS,
    CHANGE_OPERANDS,
    CHANGE_ATTRIBUTE,
    CHANGE_CONSTANT,
    CHANGE_DTYPE,
    CHANGE_DIM,
    CHANGE_STRIDES,
    CHANGE_CONSTRAINT,
    CHANGE_INPUT_NAME,
    CHANGE_OUTPUT_NAME,
    CHANGE_OUTPUT_STRIDES,
    CHANGE_SECOND_OUTPUT,
    CHANGE_SCHEDULE,
    CHANGE_GRAPH_NAME,
    CHANGE_COUNT
} Change;

static void hashed(Bench *bench, Change change, uint8_t hash[GRAPH_HASH_BYTES]) {
    Graph *graph = graph_new(bench->arena, change == CHANGE_GRAPH_NAME ? "h" : "g");
    DimTable *dims = graph->dims;
    if (change == CHANGE_UNRELATED_SYMBOL)
        dim_symbol(dims, "Z");
    const Dim *m = dim_symbol(dims, "M"), *shape[] = {m, dim_const(dims, change == CHANGE_DIM ? 9 : 8)};
    const Dim *strides[] = {dim_const(dims, 1), m};
    if (change == CHANGE_CONSTRAINT)
        dim_constrain(dims, m, DIM_LE, dim_const(dims, 100), (Span){0}, &bench->diags);
    Span span = {.file = change == CHANGE_SPANS, .end = 4};
    Value *x = graph_add_input(graph, change == CHANGE_INPUT_NAME ? "z" : "x",
                               change == CHANGE_DTYPE ? DTYPE_F64 : DTYPE_F32, 2, shape,
                               change == CHANGE_STRIDES ? strides : NULL, span);
    Value *c = graph_constant_float(graph, change == CHANGE_CONSTANT ? 0.25 : 0.5, span);
    Value *in[] = {x, c}, *other[] = {c, x};
    Value *a = graph_append(graph, change == CHANGE_OP ? OP_add : OP_sub,
                            change == CHANGE_OPERANDS ? other : in, 2, NULL, span, &bench->diags);
    a->name = change == CHANGE_NAME_OF_INTERMEDIATE ? "a" : NULL;
    Attr over[OP_MAX_ATTRS] = {{.axes = {.n = 1, .at = {change == CHANGE_ATTRIBUTE}}}, {.i = 1}};
    Value *y = graph_append(graph, OP_sum, &a, 1, over, span, &bench->diags);
    graph_add_output(graph, change == CHANGE_OUTPUT_NAME ? "w" : "y", y,
                     change == CHANGE_OUTPUT_STRIDES ? strides : NULL, span);
    if (change == CHANGE_SECOND_OUTPUT)
        graph_add_output(graph, "again", y, NULL, span);
    Hint hint = {.name = change == CHANGE_EXPECT ? "expect" : "schedule", .value = y};
    vec_push(bench->arena, &hint.args, ((HintArg){.name = "stages", .values = {1}, .n = 1}));
    if (change == CHANGE_EXPECT || change == CHANGE_SCHEDULE)
        vec_push(bench->arena, &graph->hints, hint);
    if (change == CHANGE_CHECK)
        vec_push(bench->arena, &graph->checks, ((Check){.rtol = 0.1, .atol = -1}));
    graph_hash(graph, hash);
}

BENCH_TEST(test_hash) {
    static uint8_t hashes[CHANGE_COUNT][GRAPH_HASH_BYTES];
    for (int change = 0; change < CHANGE_COUNT; change++)
        hashed(bench, (Change)change, hashes[change]);
    assert_int_equal(bench->diags.errors, 0);
    for (int change = 0; change < CHANGE_COUNT; change++) {
        if (change < CHANGE_FIRST_THAT_COUNTS) {
            assert_memory_equal(hashes[change], hashes[0], GRAPH_HASH_BYTES);
            continue;
        }
        for (int other = 0; other < change; other++)
            if (memcmp(hashes[change], hashes[other], GRAPH_HASH_BYTES) == 0 &&
                !(other < CHANGE_FIRST_THAT_COUNTS && change < CHANGE_FIRST_THAT_COUNTS))
                fail_msg("changes %d and %d have one hash", change, other);
    }
}

/* The digest was worked out by a second program, so that the text and the vendored code are both pinned. */
BENCH_TEST(test_hash_is_that_of_the_text) {
    Graph *graph = graph_new(bench->arena, "g");
    uint8_t hash[GRAPH_HASH_BYTES], again[GRAPH_HASH_BYTES];
    graph_hash(graph, hash);
    graph_hash(graph_clone(bench->arena, graph, NULL, &bench->diags), again);
    assert_memory_equal(hash, again, sizeof hash);
    char hex[2 * GRAPH_HASH_BYTES + 1];
    for (int i = 0; i < GRAPH_HASH_BYTES; i++)
        sprintf(hex + 2 * i, "%02x", hash[i]);
    Text text = text_new(bench->arena);
    graph_print_for_hash(&text, graph);
    assert_string_equal(text.at, "sinter 1\n\ngraph g () -> ()\n{\n}\n");
    assert_string_equal(hex, "a2fe6be9b1dec578974fe4d1158bb63009c5ca287f9f8afdb7f749558e08e273");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_names_stay_apart),
        BENCH_ENTRY(test_every_kind_of_attribute),
        BENCH_ENTRY(test_numbers),
        BENCH_ENTRY(test_hash),
        BENCH_ENTRY(test_hash_is_that_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
