/* Kernels built by hand, verified and simulated. */
#ifndef SINTER_TESTS_KERNEL_SUPPORT_H
#define SINTER_TESTS_KERNEL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/kernel_build.h"
#include "codegen/simulate.h"

typedef struct Bench {
    Arena *arena;
    Diags diags;
    Graph *graph;
    Builder b;
    SimBuffer buffers[8];
    int n_buffers;
} Bench;

static inline void bench_open(Bench *bench, int threads) {
    memset(bench, 0, sizeof *bench);
    bench->arena = arena_new(0);
    assert_non_null(bench->arena);
    bench->diags.arena = bench->arena;
    bench->graph = ARENA_NEW(bench->arena, Graph);
    bench->graph->arena = bench->arena;
    bench->graph->dims = dim_table_new(bench->arena);
    bench->b = builder_new(bench->arena, NULL, bench->graph, target_find("sm_90a"), &bench->diags);
    bench->b.kernel->threads = threads;
}

static inline void bench_close(Bench *bench) {
    arena_free(bench->arena);
}

static inline const Dim *bench_dim(Bench *bench, int64_t value) {
    return dim_const(bench->graph->dims, value);
}

/* A global buffer of `count` elements over `memory`. */
static inline KBuffer *bench_buffer(Bench *bench, const char *name, DType dtype, void *memory, int64_t count,
                                    bool written) {
    Value *value = ARENA_NEW(bench->arena, Value);
    value->dtype = dtype;
    value->name = name;
    int64_t bytes;
    assert_true(dtype_bytes(dtype, count, &bytes));
    bench->buffers[bench->n_buffers++] = (SimBuffer){.value = value, .at = memory, .bytes = bytes};
    return k_global(&bench->b, value, written);
}

static inline const char *bench_message(const Bench *bench) {
    return bench->diags.list.n ? bench->diags.list.at[0].message : "";
}

/* Finishes and runs the kernel on a grid of n blocks. */
static inline bool bench_run_bound(Bench *bench, int64_t blocks, const DimBindings *bindings) {
    bench->b.kernel->grid[0] = bench_dim(bench, blocks);
    Kernel *kernel = builder_finish(&bench->b);
    if (!kernel)
        fail_msg("%s", bench_message(bench));
    SimOptions options = {.check_races = true, .step_limit = 10000000};
    return simulate(kernel, bindings, bench->buffers, bench->n_buffers, &options, &bench->diags);
}

static inline bool bench_run(Bench *bench, int64_t blocks) {
    DimBindings bindings = dim_bindings_new(bench->arena, bench->graph->dims);
    return bench_run_bound(bench, blocks, &bindings);
}

static inline void bench_runs(Bench *bench, int64_t blocks) {
    if (!bench_run(bench, blocks))
        fail_msg("%s", bench_message(bench));
}

/* The run fails, and says so with this text. */
static inline void bench_fails(Bench *bench, int64_t blocks, const char *text) {
    assert_false(bench_run(bench, blocks));
    if (!strstr(bench_message(bench), text))
        fail_msg("'%s' is not in '%s'", text, bench_message(bench));
}

/* Shortcuts in which kernels read. */
#define B (&bench.b)
#define TID k_special(B, SPECIAL_TID)
#define LANE k_special(B, SPECIAL_LANE)
#define WARP k_special(B, SPECIAL_WARP)
#define I(value) k_i32(B, value)
#define U(value) k_int(B, K_U32, value)
#define ATOM(name, shape, ...)                                                                               \
    k_atom(B, ATOM_##name, shape, (KOperand[]){__VA_ARGS__},                                                 \
           (int)(sizeof((KOperand[]){__VA_ARGS__}) / sizeof(KOperand)))
#define ATOM0(name, shape) k_atom(B, ATOM_##name, shape, NULL, 0)

#endif
