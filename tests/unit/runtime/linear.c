/* Compiling costs what the graph's size says, not its square: memory taken, per kernel, for a chain of a few
 * layers and for one of many. Whoever keeps an array over the whole graph for each kernel, or walks the graph
 * for each line that is printed, is seen here, since both take memory; and memory, unlike time, is the same
 * on every run. */
#include "tests/unit/runtime/support.h"

#include "ir/print.h"
#include "runtime/plan.h"

enum { FEW = 8, MANY = 96, KERNELS_A_LAYER = 5 };

/* A row kernel, two products, a kernel over columns and a pointwise kernel a layer. */
static void write_chain(Text *text, int layers) {
    text_add(text, "sinter 1\ngraph chain (x: bf16[M, 256]");
    for (int i = 0; i < layers; i++)
        text_add(text, ", g%d: bf16[256], u%d: bf16[512, 256], d%d: bf16[256, 512]", i, i, i);
    text_add(text, ") -> (y: bf16[M, 256])\nwhere M %% 8 == 0\n{\n    h0 = x\n");
    for (int i = 0; i < layers; i++) {
        text_add(text, "    n%d = rmsnorm(h%d, g%d)\n", i, i, i);
        text_add(text, "    a%d = cast(gelu(n%d @ u%d.T), bf16)\n", i, i, i);
        text_add(text, "    p%d = cast(a%d @ d%d.T + h%d, bf16)\n", i, i, i, i);
        text_add(text, "    c%d = sum(p%d, over=0, keep=1)\n", i, i);
        text_add(text, "    h%d = cast(p%d + c%d, bf16)\n", i + 1, i, i);
    }
    text_add(text, "    y = h%d\n}\n", layers);
}

typedef struct Cost {
    double compile, print; /* bytes a kernel */
    int kernels;
} Cost;

typedef struct Measure {
    sinter_context *context;
    Arena *arena;
    int layers;
    Cost cost;
} Measure;

static void measure_body(void *at) {
    Measure *measure = at;
    Text source = text_new(measure->arena);
    write_chain(&source, measure->layers);
    sinter_source s = {.size = sizeof s, .text = source.at, .name = "chain.sg"};
    sinter_graph *graph;
    sinter_status status = sinter_graph_parse(measure->context, &s, &graph);
    if (status)
        fail_msg("%s", sinter_graph_diagnostic(graph, 0)->text);
    sinter_plan_options options = {.size = sizeof options, .stage = SINTER_STAGE_KERNELS};
    sinter_plan *plan;
    status = sinter_plan_create(measure->context, graph, &options, &plan);
    if (status)
        fail_msg("%s", sinter_plan_diagnostic(plan, 0)->text);
    measure->cost.kernels = plan->n_kernels;
    measure->cost.compile = (double)arena_used(plan->arena) / plan->n_kernels;
    size_t before = arena_used(measure->arena);
    Text text = text_new(measure->arena);
    partition_print(&text, plan->partition);
    measure->cost.print = (double)(arena_used(measure->arena) - before) / plan->n_kernels;
    assert_non_null(strstr(text.at, "= rsqrt("));
    sinter_plan_destroy(plan);
    sinter_graph_destroy(graph);
}

static Cost measure(int layers) {
    Measure measure = {.arena = arena_new(0), .layers = layers};
    assert_int_equal(sinter_context_create(NULL, &measure.context), SINTER_OK);
    assert_true(arena_run(measure.arena, measure_body, &measure));
    sinter_context_destroy(measure.context);
    arena_free(measure.arena);
    assert_true(measure.cost.kernels >= 3 * layers && measure.cost.kernels <= KERNELS_A_LAYER * layers);
    return measure.cost;
}

static void test_memory_per_kernel_does_not_grow(void **state) {
    (void)state;
    Cost few = measure(FEW), many = measure(MANY);
    print_message("bytes a kernel: %.0f of %d, %.0f of %d; printed %.0f, %.0f\n", few.compile, few.kernels,
                  many.compile, many.kernels, few.print, many.print);
    /* Texts and tables double when they grow, so equal work may differ by almost a factor of two. */
    assert_true(many.compile < 1.5 * few.compile);
    assert_true(many.print < 2.5 * few.print);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_per_kernel_does_not_grow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
