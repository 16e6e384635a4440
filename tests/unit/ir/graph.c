/* Graphs: building, replacing, sorting, copying, and what survives when memory runs out in the midst of it.
 */
#include "support.h"

#include "ir/print.h"
#include "ir/verify.h"

#define CONST(value) dim_const(bench->dims, value)
#define SYMBOL(name) dim_symbol(bench->dims, name)

static Value *append(Bench *bench, OpKind op, Value *a, Value *b) {
    Value *value =
        graph_append(bench->graph, op, (Value *[]){a, b}, b ? 2 : 1, NULL, (Span){0}, &bench->diags);
    assert_non_null(value);
    return value;
}

static Value *input(Bench *bench, const char *name) {
    const Dim *dims[] = {SYMBOL("M"), CONST(8)};
    return graph_add_input(bench->graph, name, DTYPE_F32, 2, dims, NULL, (Span){0});
}

static const char *printed(Bench *bench, const Graph *graph) {
    Text text = text_new(bench->arena);
    graph_print(&text, graph);
    return text.at;
}

BENCH_TEST(test_append_copies) {
    Value *x = input(bench, "x"), *in[] = {x};
    int perm[] = {1, 0};
    Attr attrs[OP_MAX_ATTRS] = {{.ints = perm, .n_ints = 2}};
    Value *t = graph_append(bench->graph, OP_transpose, in, 1, attrs, (Span){0}, &bench->diags);
    const Dim *dims[] = {CONST(8), SYMBOL("M")};
    Attr shape[OP_MAX_ATTRS] = {{.dims = dims, .n_dims = 2}};
    Value *r = graph_append(bench->graph, OP_reshape, in, 1, shape, (Span){0}, &bench->diags);
    in[0] = NULL;
    perm[0] = perm[1] = 7;
    dims[0] = NULL;
    assert_ptr_equal(t->in[0], x);
    assert_int_equal(t->attrs[0].ints[0], 1);
    assert_ptr_equal(r->attrs[0].dims[0], CONST(8));
}

BENCH_TEST(test_replace_and_sort) {
    Value *x = input(bench, "x"), *y = input(bench, "y");
    Value *a = append(bench, OP_add, x, y), *b = append(bench, OP_exp, a, NULL),
          *c = append(bench, OP_mul, b, a);
    Value *dead = append(bench, OP_neg, c, NULL), *dead2 = append(bench, OP_abs, dead, NULL);
    graph_add_output(bench->graph, "c", c, NULL, (Span){0});
    graph_add_output(bench->graph, "b", b, NULL, (Span){0});
    Hint hint = {.name = "schedule", .value = a}, lost = {.name = "schedule", .value = dead2};
    vec_push(bench->arena, &bench->graph->hints, hint);
    vec_push(bench->arena, &bench->graph->hints, lost);
    Value *instead = append(bench, OP_sub, x, y);
    Value *deeper = append(bench, OP_neg, instead, NULL);
    graph_replace_uses(bench->graph, a, deeper);
    assert_true(c->in[1] == deeper && b->in[0] == deeper && bench->graph->hints.at[0].value == deeper);
    graph_replace_uses(bench->graph, b, instead);
    assert_ptr_equal(bench->graph->outputs.at[1].value, instead);
    assert_true(graph_sort(bench->graph));
    Value *want[] = {x, y, instead, deeper, c};
    assert_int_equal(bench->graph->values.n, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_ptr_equal(bench->graph->values.at[i], want[i]);
        assert_int_equal(want[i]->id, i);
    }
    assert_int_equal(bench->graph->hints.n, 1);
    assert_false(graph_sort(bench->graph));
    assert_true(graph_verify(bench->graph, "test", &bench->diags));
    int *counts = graph_use_counts(bench->arena, bench->graph);
    int uses[] = {1, 1, 3, 1, 1};
    for (int i = 0; i < 5; i++)
        assert_int_equal(counts[i], uses[i]);
    assert_true(value_is_output(bench->graph, c) && !value_is_output(bench->graph, x));
}

/* Unused inputs stay: they are the caller's. Values that were never listed are taken in. */
BENCH_TEST(test_sort_keeps_inputs_and_finds_strangers) {
    Value *unused = input(bench, "unused"), *x = input(bench, "x"), *a = append(bench, OP_exp, x, NULL);
    bench->graph->values.n--; /* a is listed no more */
    Value *b = append(bench, OP_neg, x, NULL);
    b->in[0] = a;
    graph_add_output(bench->graph, "b", b, NULL, (Span){0});
    assert_false(graph_sort(bench->graph));
    assert_int_equal(bench->graph->values.n, 4);
    assert_ptr_equal(bench->graph->values.at[0], unused);
    assert_ptr_equal(bench->graph->values.at[2], a);
    assert_ptr_equal(bench->graph->values.at[3], b);
}

BENCH_TEST(test_deep_graphs_need_no_stack) {
    Value *x = input(bench, "x"), *chain = x;
    for (int i = 0; i < 100000; i++)
        chain = append(bench, OP_neg, chain, NULL);
    graph_add_output(bench->graph, "y", chain, NULL, (Span){0});
    for (size_t i = 1; i < bench->graph->values.n / 2; i++) { /* the worst order */
        Value *swap = bench->graph->values.at[i];
        bench->graph->values.at[i] = bench->graph->values.at[bench->graph->values.n - i];
        bench->graph->values.at[bench->graph->values.n - i] = swap;
    }
    assert_false(graph_sort(bench->graph));
    assert_true(graph_verify(bench->graph, "test", &bench->diags));
    assert_non_null(graph_clone(bench->arena, bench->graph, NULL, &bench->diags));
}

BENCH_TEST(test_a_cycle_ends) {
    Value *x = input(bench, "x"), *a = append(bench, OP_exp, x, NULL), *b = append(bench, OP_neg, a, NULL);
    graph_add_output(bench->graph, "b", b, NULL, (Span){0});
    a->in[0] = b;
    graph_sort(bench->graph);
    assert_false(graph_verify(bench->graph, "test", &bench->diags));
}

BENCH_TEST(test_helpers) {
    Value *x = input(bench, "x"), *y = input(bench, "y"),
          *scalar = graph_constant_float(bench->graph, 2.5, (Span){0});
    double number = 0;
    assert_true(value_is_constant(scalar, &number) && number == 2.5);
    assert_true(value_is_constant(graph_constant_int(bench->graph, -3, (Span){0}), &number) && number == -3);
    assert_false(value_is_constant(x, &number));
    assert_ptr_equal(value_count(bench->graph, x), dim_mul(bench->dims, CONST(8), SYMBOL("M")));
    assert_ptr_equal(value_count(bench->graph, scalar), CONST(1));
    assert_true(value_same_dims(x, y) && !value_same_dims(x, scalar));
    const Dim *dims[] = {SYMBOL("A"), SYMBOL("B"), CONST(4)}, *strides[3];
    dims_packed_strides(bench->dims, 3, dims, strides);
    assert_ptr_equal(strides[0], dim_mul(bench->dims, CONST(4), SYMBOL("B")));
    assert_ptr_equal(strides[1], CONST(4));
    assert_ptr_equal(strides[2], CONST(1));
}

/* ---- copies ------------------------------------------------------------------------------------------ */

/* A graph with one of everything that a copy has to carry. */
static void build_rich(Bench *bench, Arena *arena, Graph **out) {
    Graph *graph = graph_new(arena, "rich");
    DimTable *dims = graph->dims;
    const Dim *m = dim_symbol(dims, "M"), *n = dim_symbol(dims, "N"), *sixteen = dim_const(dims, 16);
    static const int64_t sizes[] = {64, 128};
    dim_constrain(dims, dim_mod(dims, m, sixteen), DIM_EQ, dim_const(dims, 0), (Span){0}, &bench->diags);
    dim_constrain(dims, m, DIM_LE, dim_const(dims, 4096), (Span){0}, &bench->diags);
    dim_constrain_set(dims, n, sizes, 2, (Span){0}, &bench->diags);
    const Dim *shape[] = {m, n}, *strides[] = {dim_const(dims, 1), m};
    Value *x = graph_add_input(graph, "x", DTYPE_BF16, 2, shape, strides, (Span){0});
    const Dim *split[] = {dim_div(dims, m, sixteen), sixteen, n};
    Attr reshape[OP_MAX_ATTRS] = {{.dims = split, .n_dims = 3}};
    Value *r = graph_append(graph, OP_reshape, &x, 1, reshape, (Span){0}, &bench->diags);
    r->name = "blocks";
    Attr over[OP_MAX_ATTRS] = {{.axes = {.n = 1, .at = {1}}}, {.i = 1}};
    Value *s = graph_append(graph, OP_sum, &r, 1, over, (Span){0}, &bench->diags);
    Attr size[OP_MAX_ATTRS] = {{.dim = m}};
    Value *count = graph_append(graph, OP_dim, NULL, 0, size, (Span){0}, &bench->diags);
    Value *y = graph_append(graph, OP_div, (Value *[]){s, count}, 2, NULL, (Span){0}, &bench->diags);
    graph_add_output(graph, "y", y, NULL, (Span){0});
    graph_add_output(graph, "again", y, NULL, (Span){0});
    Hint hint = {.name = "schedule", .value = y};
    vec_push(arena, &hint.args, ((HintArg){.name = "tile", .values = {128, 256, 64}, .n = 3}));
    vec_push(arena, &hint.args, ((HintArg){.name = "raster", .word = "along_m"}));
    vec_push(arena, &graph->hints, hint);
    static const int64_t tried[] = {16, 32};
    Check check = {.rtol = 0.02, .atol = -1, .seed = 5};
    vec_push(arena, &check.dims, ((CheckDim){.symbol = 0, .values = tried, .n = 2}));
    vec_push(arena, &check.dims, ((CheckDim){.symbol = 1, .values = sizes, .n = 1}));
    vec_push(arena, &graph->checks, check);
    *out = graph;
}

static const char rich_text[] =
    "sinter 1\n"
    "\n"
    "graph rich (x: bf16[M, N : strides=[1, M]]) -> (y: f32[M/16, 1, N], again: f32[M/16, 1, N])\n"
    "where M % 16 == 0, M <= 4096, N in {64, 128}\n"
    "{\n"
    "    blocks = reshape(x, dims=[M/16, 16, N])\n"
    "    v0 = sum(blocks, over=[1], keep=1)\n"
    "    v1 = dim(value=M)\n"
    "    y = div(v0, v1) @schedule(tile=128x256x64, raster=along_m)\n"
    "    again = y\n"
    "}\n"
    "\n"
    "check rich { M in {16, 32}; N in {64}; rtol = 0.02; seed = 5 }\n";

BENCH_TEST(test_clone) {
    Graph *graph;
    build_rich(bench, bench->arena, &graph);
    graph->values.at[0]->scratch = &graph;
    assert_string_equal(printed(bench, graph), rich_text);
    Graph *copy = graph_clone(bench->arena, graph, NULL, &bench->diags);
    assert_string_equal(printed(bench, copy), rich_text);
    assert_true(graph_verify(copy, "clone", &bench->diags));
    assert_ptr_equal(graph->values.at[0]->scratch, &graph); /* the original was only read */
    for (size_t i = 0; i < copy->values.n; i++) {
        assert_ptr_not_equal(copy->values.at[i], graph->values.at[i]);
        assert_null(copy->values.at[i]->scratch);
    }
}

BENCH_TEST(test_clone_with_values) {
    Graph *graph;
    build_rich(bench, bench->arena, &graph);
    DimBindings bindings = dim_bindings_new(bench->arena, graph->dims);
    bindings.value[0] = 48;
    bindings.known[0] = true;
    Graph *copy = graph_clone(bench->arena, graph, &bindings, &bench->diags);
    assert_non_null(copy);
    assert_non_null(strstr(printed(bench, copy),
                           "(x: bf16[48, N : strides=[1, 48]]) -> (y: f32[3, 1, N], again: "
                           "f32[3, 1, N])\nwhere N in {64, 128}\n"));
    assert_non_null(strstr(printed(bench, copy), "reshape(x, dims=[3, 16, N])"));
    assert_non_null(strstr(printed(bench, copy), "dim(value=48)"));
    assert_int_equal(copy->checks.at[0].dims.at[1].symbol, dim_find_symbol(copy->dims, "N")->symbol);
    assert_true(graph_verify(copy, "clone", &bench->diags));
    bindings.value[0] = 50;
    assert_null(graph_clone(bench->arena, graph, &bindings, &bench->diags));
    assert_int_equal(bench->diags.list.at[0].id, DIAG_CONSTRAINT);
    bindings.value[0] = -16;
    assert_null(graph_clone(bench->arena, graph, &bindings, &bench->diags));
    assert_string_equal(bench->diags.list.at[1].message, "the dim 'M' cannot be -16");
    bindings.value[0] = 16;
    bindings.value[1] = 65;
    bindings.known[1] = true;
    assert_null(graph_clone(bench->arena, graph, &bindings, &bench->diags));
    assert_string_equal(bench->diags.list.at[2].message, "'65 in {64, 128}' can never hold");
}

BENCH_TEST(test_clone_that_overflows) {
    const Dim *dims[] = {SYMBOL("M"), SYMBOL("N")},
              *flat[] = {dim_mul(bench->dims, SYMBOL("M"), SYMBOL("N"))};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_I8, 2, dims, NULL, (Span){0});
    Attr attrs[OP_MAX_ATTRS] = {{.dims = flat, .n_dims = 1}};
    graph_append(bench->graph, OP_reshape, &x, 1, attrs, (Span){0}, &bench->diags);
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    bindings.value[0] = bindings.value[1] = (int64_t)1 << 40;
    bindings.known[0] = bindings.known[1] = true;
    assert_null(graph_clone(bench->arena, bench->graph, &bindings, &bench->diags));
    assert_int_equal(bench->diags.list.at[0].id, DIAG_DIM);
}

/* ---- memory that runs out ---------------------------------------------------------------------------- */

typedef struct Fault {
    Bench bench;
    char *text;
} Fault;

static void fault_body(void *context) {
    Fault *fault = context;
    Arena *arena = fault->bench.arena;
    uint8_t hash[GRAPH_HASH_BYTES];
    Graph *graph;
    fault->bench.diags = (Diags){.arena = arena};
    build_rich(&fault->bench, arena, &graph);
    graph = graph_clone(arena, graph, NULL, &fault->bench.diags);
    graph_sort(graph);
    graph_hash(graph, hash);
    Text text = text_new(arena);
    graph_print(&text, graph);
    fault->text = text.at;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    bool done = false;
    uint64_t n = 0;
    while (!done) {
        Fault fault = {.bench = {.arena = arena_new(0)}};
        arena_fail_at(fault.bench.arena, ++n);
        done = arena_run(fault.bench.arena, fault_body, &fault);
        if (done)
            assert_string_equal(fault.text, rich_text);
        arena_free(fault.bench.arena);
    }
    assert_true(n > 100);
}

/* ---- the verifier ------------------------------------------------------------------------------------ */

static void verify_breaks(Bench *bench, const char *words) {
    Diags diags = {.arena = bench->arena};
    assert_false(graph_verify(bench->graph, "pass", &diags));
    assert_int_equal(diags.list.at[0].id, DIAG_INTERNAL);
    if (!strstr(diags.list.at[0].message, words) ||
        strncmp(diags.list.at[0].message, "after pass: ", 12) != 0)
        fail_msg("'%s' does not say '%s'", diags.list.at[0].message, words);
}

BENCH_TEST(test_verifier_finds) {
    Value *x = input(bench, "x"), *a = append(bench, OP_exp, x, NULL), *b = append(bench, OP_add, a, x);
    graph_add_output(bench->graph, "b", b, NULL, (Span){0});
    Hint hint = {.name = "schedule", .value = a};
    vec_push(bench->arena, &bench->graph->hints, hint);
    assert_true(graph_verify(bench->graph, "pass", &bench->diags));
    a->id = 5;
    verify_breaks(bench, "an id that is not its position");
    a->id = 1;
    a->dtype = DTYPE_F16;
    verify_breaks(bench, "another type than inference gives");
    a->dtype = DTYPE_F32;
    a->dims[1] = CONST(9);
    verify_breaks(bench, "other dims than inference gives");
    a->dims[1] = CONST(8);
    a->in[0] = b;
    verify_breaks(bench, "an operand that does not stand before it");
    a->in[0] = x;
    b->n_in = 1;
    verify_breaks(bench, "the wrong number of operands");
    b->n_in = 2;
    x->attrs[0].i = 3;
    verify_breaks(bench, "an input that the graph does not list");
    x->attrs[0].i = 0;
    Value stray = *a;
    bench->graph->outputs.at[0].value = &stray;
    verify_breaks(bench, "output 'b' has no value in the graph");
    bench->graph->outputs.at[0].value = b;
    bench->graph->hints.at[0].value = &stray;
    verify_breaks(bench, "hint '@schedule' has no value in the graph");
    bench->graph->hints.at[0].value = a;
    bench->graph->inputs.at[0] = a;
    verify_breaks(bench, "an input that the graph does not list");
    bench->graph->inputs.at[0] = x;
    assert_true(graph_verify(bench->graph, "pass", &bench->diags));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_append_copies),
        BENCH_ENTRY(test_replace_and_sort),
        BENCH_ENTRY(test_sort_keeps_inputs_and_finds_strangers),
        BENCH_ENTRY(test_deep_graphs_need_no_stack),
        BENCH_ENTRY(test_a_cycle_ends),
        BENCH_ENTRY(test_helpers),
        BENCH_ENTRY(test_clone),
        BENCH_ENTRY(test_clone_with_values),
        BENCH_ENTRY(test_clone_that_overflows),
        cmocka_unit_test(test_every_allocation_may_fail),
        BENCH_ENTRY(test_verifier_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
