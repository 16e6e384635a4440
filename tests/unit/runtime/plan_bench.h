/* A graph, and the kernels that a plan makes of it, in a context of their own. */
#ifndef TESTS_UNIT_RUNTIME_PLAN_BENCH_H
#define TESTS_UNIT_RUNTIME_PLAN_BENCH_H

#include "tests/unit/runtime/support.h"

#include "runtime/plan.h"

typedef struct Bench {
    sinter_context *context;
    sinter_graph *graph;
    sinter_plan *plan;
} Bench;

/* The graph that the text calls `name` (NULL: its only one), planned as is asked but without machine code. */
static inline Bench open_bench(const char *text, const char *name, const sinter_plan_options *asked) {
    Bench bench;
    assert_int_equal(sinter_context_create(NULL, &bench.context), SINTER_OK);
    sinter_source source = {.size = sizeof source, .text = text, .graph = name};
    assert_int_equal(sinter_graph_parse(bench.context, &source, &bench.graph), SINTER_OK);
    sinter_plan_options options = *asked;
    options.size = sizeof options;
    options.stage = SINTER_STAGE_KERNELS;
    assert_int_equal(sinter_plan_create(bench.context, bench.graph, &options, &bench.plan), SINTER_OK);
    return bench;
}

static inline void close_bench(Bench *bench) {
    sinter_plan_destroy(bench->plan);
    sinter_graph_destroy(bench->graph);
    sinter_context_destroy(bench->context);
}

#endif
