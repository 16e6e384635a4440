/* The generator of random graphs keeps its promises: the same seed draws the same graph, every graph is valid
 * and evaluates, every row of the table is drawn, and computing in f32 stays within the tolerance that it
 * gives. */
#include <math.h>

#include "support.h"

#include "ir/print.h"
#include "ir/verify.h"
#include "tests/fuzz/graphgen.h"

enum { SEEDS = 3000 };

typedef struct Once {
    Arena *arena;
    uint64_t seed;
    bool *drawn; /* by operation */
    bool *typed; /* by element type, of inputs */
    double worst;
    char *text;
} Once;

/* The reference once more, but rounding every float result to f32, as a kernel would. */
static bool run_in_f32(Arena *arena, const GraphGen *generated, const Tensor *inputs, Tensor *outputs,
                       Diags *diags) {
    /* Splitting the graph at every value: each is evaluated from rounded operands as a graph of its own. */
    const Graph *graph = generated->graph;
    Tensor *results = ARENA_ARRAY(arena, Tensor, graph->values.n);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        if (value->op == OP_input) {
            results[i] = inputs[value->attrs[0].i];
            continue;
        }
        Graph *one = graph_new(arena, "one");
        one->dims = graph->dims;
        Value **in = ARENA_ARRAY(arena, Value *, (size_t)value->n_in);
        Tensor *operands = ARENA_ARRAY(arena, Tensor, (size_t)value->n_in);
        for (int k = 0; k < value->n_in; k++) {
            const Value *operand = value->in[k];
            in[k] = graph_add_input(one, "x", operand->dtype, operand->rank, operand->dims, NULL, (Span){0});
            operands[k] = results[operand->id];
        }
        Value *copy = graph_append(one, value->op, in, value->n_in, value->attrs, (Span){0}, diags);
        if (!copy || !reference_value(arena, one, &generated->bindings, operands, copy, &results[i], diags))
            return false;
        for (int64_t e = 0; value->dtype == DTYPE_F32 && e < results[i].count; e++)
            results[i].at[e].f = dtype_round(results[i].at[e].f, DTYPE_F32);
    }
    for (size_t i = 0; i < graph->outputs.n; i++)
        outputs[i] = results[graph->outputs.at[i].value->id];
    return true;
}

static void once_body(void *context) {
    Once *once = context;
    Diags diags = {.arena = once->arena};
    GraphGen generated = graphgen(once->arena, once->seed, NULL);
    const Graph *graph = generated.graph;
    Text text = text_new(once->arena);
    graph_print(&text, graph);
    once->text = text.at;
    if (!graph_verify(graph, "graphgen", &diags) || !dim_check(graph->dims, &generated.bindings, &diags))
        fail_msg("seed %llu: %s\n%s", (unsigned long long)once->seed, diags.list.at[0].message, text.at);
    for (size_t i = 0; i < graph->values.n; i++)
        once->drawn[graph->values.at[i]->op] = true;
    for (size_t i = 0; i < graph->inputs.n; i++)
        once->typed[graph->inputs.at[i]->dtype] = true;
    Tensor *inputs = graphgen_inputs(once->arena, &generated, once->seed);
    Tensor *outputs = ARENA_ARRAY(once->arena, Tensor, graph->outputs.n);
    Tensor *rounded = ARENA_ARRAY(once->arena, Tensor, graph->outputs.n);
    if (!reference_run(once->arena, graph, &generated.bindings, inputs, outputs, &diags) ||
        !run_in_f32(once->arena, &generated, inputs, rounded, &diags))
        fail_msg("seed %llu: %s\n%s", (unsigned long long)once->seed, diags.list.at[0].message, text.at);
    for (size_t i = 0; i < graph->outputs.n; i++)
        for (int64_t e = 0; e < outputs[i].count; e++) {
            bool floats = dtype_is_float(outputs[i].dtype);
            double want = floats ? outputs[i].at[e].f : (double)outputs[i].at[e].i;
            double got = floats ? rounded[i].at[e].f : (double)rounded[i].at[e].i, off = fabs(got - want);
            if (!isfinite(want) || !(off <= generated.tolerance[i]))
                fail_msg(
                    "seed %llu: output %zu, element %lld: %.9g, in f32 %.9g, but the tolerance is %g\n%s",
                    (unsigned long long)once->seed, i, (long long)e, want, got, generated.tolerance[i],
                    text.at);
            if (generated.tolerance[i] > 0 && off / generated.tolerance[i] > once->worst)
                once->worst = off / generated.tolerance[i];
        }
}

static void test_promises(void **state) {
    (void)state;
    bool drawn[OP_COUNT] = {false}, typed[DTYPE_COUNT] = {false};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        Once once = {.arena = arena_new(0), .seed = seed, .drawn = drawn, .typed = typed};
        assert_true(arena_run(once.arena, once_body, &once));
        arena_free(once.arena);
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (!drawn[op])
            fail_msg("'%s' was never drawn", op_info((OpKind)op)->name);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (!typed[dtype])
            fail_msg("no input was %s", dtype_name((DType)dtype));
}

static void test_same_seed_same_graph(void **state) {
    (void)state;
    bool drawn[OP_COUNT], typed[DTYPE_COUNT];
    Once a = {.arena = arena_new(0), .seed = 7, .drawn = drawn, .typed = typed};
    Once b = {.arena = arena_new(0), .seed = 7, .drawn = drawn, .typed = typed};
    Once c = {.arena = arena_new(0), .seed = 8, .drawn = drawn, .typed = typed};
    assert_true(arena_run(a.arena, once_body, &a) && arena_run(b.arena, once_body, &b) &&
                arena_run(c.arena, once_body, &c));
    assert_string_equal(a.text, b.text);
    assert_string_not_equal(a.text, c.text);
    arena_free(a.arena);
    arena_free(b.arena);
    arena_free(c.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_same_seed_same_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
