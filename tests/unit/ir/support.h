/* What the tests of ir/ share: an arena with a graph in it, ready to be used below arena_run(). */
#ifndef SINTER_TESTS_UNIT_IR_SUPPORT_H
#define SINTER_TESTS_UNIT_IR_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ir/graph.h"

typedef struct Bench {
    Arena *arena;
    Diags diags;
    DimTable *dims;
    Graph *graph;
} Bench;

static inline void bench_body(void *context) {
    Bench **at = context;
    Bench *bench = *at;
    bench->diags = (Diags){.arena = bench->arena};
    bench->graph = graph_new(bench->arena, "g");
    bench->dims = bench->graph->dims;
}

static inline int bench_setup(void **state) {
    Bench *bench = calloc(1, sizeof *bench);
    bench->arena = arena_new(0);
    *state = bench;
    return bench->arena && arena_run(bench->arena, bench_body, state) ? 0 : -1;
}

static inline int bench_teardown(void **state) {
    Bench *bench = *state;
    arena_free(bench->arena);
    free(bench);
    return 0;
}

/* A test that fails jumps out of arena_run(), whose frame then must not be returned to: nothing is freed
 * through it. */
typedef struct BenchRun {
    Bench *bench;
    void (*test)(Bench *bench);
} BenchRun;

static inline void bench_run_body(void *context) {
    BenchRun *run = context;
    run->test(run->bench);
}

static inline void bench_run(void **state, void (*test)(Bench *bench)) {
    BenchRun run = {*state, test};
    assert_true(arena_run(run.bench->arena, bench_run_body, &run));
}

/* Defines the cmocka test `name` whose body gets a Bench and may allocate. */
#define BENCH_TEST(name)                                                                                     \
    static void name##_body(Bench *bench);                                                                   \
    static void name(void **state) {                                                                         \
        bench_run(state, name##_body);                                                                       \
    }                                                                                                        \
    static void name##_body(Bench *bench)
#define BENCH_ENTRY(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

static inline Value *bench_append_all(Bench *bench, OpKind op, Value **in, int n, const Attr *attrs) {
    Value *value = graph_append(bench->graph, op, in, n, attrs, (Span){0}, &bench->diags);
    if (!value)
        fail_msg("%s", bench->diags.list.at[0].message);
    return value;
}

/* An operation of up to two operands, NULL behind them. */
static inline Value *bench_append(Bench *bench, OpKind op, Value *x, Value *y, const Attr *attrs) {
    Value *in[] = {x, y};
    return bench_append_all(bench, op, in, y ? 2 : x ? 1 : 0, attrs);
}

/* A small generator (splitmix64), so that every run draws the same. */
static inline uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int64_t draw_below(uint64_t *state, int64_t n) {
    return (int64_t)(draw(state) % (uint64_t)n);
}

static inline const char *dim_text(Bench *bench, const Dim *d) {
    Text text = text_new(bench->arena);
    dim_print(&text, bench->dims, d);
    return text.at;
}

#endif
