/* Graphs around a matrix product, built by hand; their kernels simulated and compared with the float64
 * reference. */
#ifndef SINTER_TESTS_MATMUL_SUPPORT_H
#define SINTER_TESTS_MATMUL_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "codegen/simulate.h"
#include "ir/block.h"
#include "ir/reference.h"
#include "ir/view.h"

enum { CASE_BUFFERS = 16 };

typedef struct Case {
    Arena *arena;
    Diags diags;
    Graph *graph;
    Region region;
    const Target *target;
    DimBindings bindings;
    bool is_chain; /* the products are links of a chain */
} Case;

static inline void case_open(Case *c, const char *target) {
    memset(c, 0, sizeof *c);
    c->arena = arena_new(0);
    assert_non_null(c->arena);
    c->diags.arena = c->arena;
    c->graph = graph_new(c->arena, "case");
    c->target = target_find(target);
    assert_non_null(c->target);
}

static inline void case_close(Case *c) {
    arena_free(c->arena);
}

static inline const char *case_message(const Case *c) {
    return c->diags.list.n ? c->diags.list.at[0].message : "";
}

static inline Value *case_input(Case *c, const char *name, DType dtype, int rank, const int64_t *dims) {
    const Dim *d[RANK_MAX];
    for (int i = 0; i < rank; i++)
        d[i] = dim_const(c->graph->dims, dims[i]);
    return graph_add_input(c->graph, name, dtype, rank, d, NULL, (Span){0});
}
#define INPUT(c, name, dtype, ...)                                                                           \
    case_input((c), (name), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),              \
               (int64_t[]){__VA_ARGS__})

static inline Value *case_op(Case *c, OpKind op, Value *x, Value *y, Value *z, const Attr *attrs) {
    Value *in[] = {x, y, z};
    Attr none[OP_MAX_ATTRS];
    memset(none, 0, sizeof none);
    Value *value = graph_append(c->graph, op, in,
                                z   ? 3
                                : y ? 2
                                    : 1,
                                attrs ? attrs : none, (Span){0}, &c->diags);
    if (!value)
        fail_msg("%s", case_message(c));
    return value;
}

static inline Value *case_named(Value *value, const char *name) {
    value->name = name;
    return value;
}

static inline Value *case_matmul(Case *c, Value *a, Value *b) {
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
    return case_op(c, OP_matmul, a, b, NULL, attrs);
}

static inline Value *case_cast(Case *c, Value *x, DType dtype) {
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = dtype}};
    return case_op(c, OP_cast, x, NULL, NULL, attrs);
}

/* The last two axes exchanged. */
static inline Value *case_t(Case *c, Value *x) {
    int *perm = ARENA_ARRAY(c->arena, int, RANK_MAX);
    for (int i = 0; i < x->rank; i++)
        perm[i] = i < x->rank - 2 ? i : 2 * x->rank - 3 - i;
    Attr attrs[OP_MAX_ATTRS] = {{.ints = perm, .n_ints = x->rank}};
    return case_op(c, OP_transpose, x, NULL, NULL, attrs);
}

/* What lies from `from` up to `to` along one axis. */
static inline Value *case_part(Case *c, Value *x, int axis, int64_t from, int64_t to) {
    const Dim **start = ARENA_ARRAY(c->arena, const Dim *, RANK_MAX),
              **limit = ARENA_ARRAY(c->arena, const Dim *, RANK_MAX);
    int *step = ARENA_ARRAY(c->arena, int, RANK_MAX);
    for (int i = 0; i < x->rank; i++) {
        start[i] = dim_const(c->graph->dims, i == axis ? from : 0);
        limit[i] = i == axis ? dim_const(c->graph->dims, to) : x->dims[i];
        step[i] = 1;
    }
    Attr attrs[OP_MAX_ATTRS] = {{.dims = start, .n_dims = x->rank},
                                {.dims = limit, .n_dims = x->rank},
                                {.ints = step, .n_ints = x->rank}};
    return case_op(c, OP_slice, x, NULL, NULL, attrs);
}

static inline Value *case_row(Case *c, OpKind reduction, Value *x) {
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {.n = 1, .at = {x->rank - 1}}}, {.i = 1}};
    return case_op(c, reduction, x, NULL, NULL, attrs);
}

static inline Value *case_number(Case *c, double value) {
    return graph_constant_float(c->graph, value, (Span){0});
}

static inline void case_output(Case *c, const char *name, Value *value) {
    graph_add_output(c->graph, name, case_named(value, name), NULL, (Span){0});
}

/* Everything but inputs in one region around its matrix products. */
static inline void case_region(Case *c) {
    Graph *graph = c->graph;
    graph_sort(graph);
    graph_renumber(graph);
    Region *r = &c->region;
    *r = (Region){.kind = c->is_chain ? TEMPLATE_CHAIN : TEMPLATE_MATMUL, .name = "kernel_case"};
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        if (value->op == OP_input)
            vec_push(c->arena, &r->inputs, value);
        else
            vec_push(c->arena, &r->values, value);
        if (value->op == OP_matmul)
            vec_push(c->arena, &r->cores, value);
        BlockStatistic block;
        if (op_info(value->op)->class_ == OPCLASS_REDUCTION && r->cores.n && !block_statistic(value, &block))
            r->n_reduced = 1;
    }
    for (size_t i = 0; i < graph->outputs.n; i++)
        vec_push(c->arena, &r->outputs, graph->outputs.at[i].value);
    const Value *core = r->cores.at[c->is_chain ? r->cores.n - 1 : 0];
    r->rank = core->rank;
    memcpy(r->dims, core->dims, sizeof r->dims);
}

/* Gives a symbol its value, after which no new symbol may come. */
static inline void case_bind(Case *c, const char *symbol, int64_t value) {
    const Dim *dim = dim_find_symbol(c->graph->dims, symbol);
    assert_non_null(dim);
    if (!c->bindings.n)
        c->bindings = dim_bindings_new(c->arena, c->graph->dims);
    c->bindings.value[dim->symbol] = value;
    c->bindings.known[dim->symbol] = true;
}

static inline Kernel *case_kernel(Case *c, const Schedule *schedule) {
    case_region(c);
    if (schedule) {
        const char *why = "";
        c->region.schedule = *schedule;
        if (!template_of(c->region.kind)->accepts(c->graph, &c->region, schedule, c->target, &why))
            fail_msg("refused: %s", why);
    } else if (!codegen_schedule(c->graph, &c->region, c->target, NULL, &c->diags)) {
        fail_msg("%s", case_message(c));
    }
    Kernel *kernel = codegen_kernel(c->arena, c->graph, &c->region, c->target, &c->diags);
    if (!kernel)
        fail_msg("%s", case_message(c));
    return kernel;
}

static inline uint32_t case_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Values that the type holds exactly, small enough for sums to stay accurate. */
static inline Number case_fill(DType dtype, uint32_t *state) {
    int r = (int)(case_random(state) % 33) - 16;
    if (dtype == DTYPE_BOOL)
        return (Number){.i = r & 1};
    if (!dtype_is_float(dtype))
        return (Number){.i = dtype_bits(dtype) < 8                  ? (r & 7)
                             : dtype_class(dtype) == DTYPE_UNSIGNED ? r + 16
                                                                    : r};
    return (Number){.f = dtype_round((double)r / 8 + (dtype_bits(dtype) > 8 ? 1.0 / 64 : 0), dtype)};
}

/* Simulates and compares every output; tolerance relative to the largest element of it. */
static inline void case_check(Case *c, const Schedule *schedule, double tolerance) {
    Kernel *kernel = case_kernel(c, schedule);
    Graph *graph = c->graph;
    if (!c->bindings.n)
        c->bindings = dim_bindings_new(c->arena, graph->dims);
    uint32_t state = 7;
    Tensor inputs[CASE_BUFFERS], outputs[CASE_BUFFERS];
    SimBuffer buffers[CASE_BUFFERS];
    int n = 0;
    for (size_t i = 0; i < graph->inputs.n; i++) {
        const Value *value = graph->inputs.at[i];
        int64_t dims[RANK_MAX], bytes;
        for (int k = 0; k < value->rank; k++)
            assert_true(dim_eval(value->dims[k], &c->bindings, &dims[k]));
        assert_true(tensor_new(c->arena, value->dtype, value->rank, dims, &inputs[i]));
        assert_true(dtype_bytes(value->dtype, inputs[i].count, &bytes));
        void *memory = arena_alloc(c->arena, (size_t)bytes + 16);
        for (int64_t k = 0; k < inputs[i].count; k++) {
            inputs[i].at[k] = case_fill(value->dtype, &state);
            dtype_store(value->dtype, memory, k, inputs[i].at[k]);
        }
        buffers[n++] = (SimBuffer){value, memory, bytes};
    }
    if (!reference_run(c->arena, graph, &c->bindings, inputs, outputs, &c->diags))
        fail_msg("%s", case_message(c));
    int first = n;
    for (size_t i = 0; i < graph->outputs.n; i++) {
        int64_t bytes;
        const Value *value = graph->outputs.at[i].value;
        assert_true(dtype_bytes(value->dtype, outputs[i].count, &bytes));
        void *memory = arena_alloc(c->arena, (size_t)bytes + 16);
        memset(memory, 0xff, (size_t)bytes);
        buffers[n++] = (SimBuffer){value, memory, bytes};
    }
    SimOptions options = {.check_races = true};
    if (!simulate(kernel, &c->bindings, buffers, n, &options, &c->diags))
        fail_msg("%s", case_message(c));
    for (size_t i = 0; i < graph->outputs.n; i++) {
        const Value *value = graph->outputs.at[i].value;
        double largest = 0;
        for (int64_t k = 0; k < outputs[i].count; k++)
            if (dtype_is_float(value->dtype) && fabs(outputs[i].at[k].f) > largest)
                largest = fabs(outputs[i].at[k].f);
        for (int64_t k = 0; k < outputs[i].count; k++) {
            Number got = dtype_load(value->dtype, buffers[first + (int)i].at, k);
            bool good = dtype_is_float(value->dtype)
                            ? fabs(got.f - outputs[i].at[k].f) <= tolerance * (largest + 1e-30)
                            : got.i == outputs[i].at[k].i;
            if (!good)
                fail_msg("%s[%lld]: %g where the reference has %g", value->name, (long long)k,
                         dtype_is_float(value->dtype) ? got.f : (double)got.i,
                         dtype_is_float(value->dtype) ? outputs[i].at[k].f : (double)outputs[i].at[k].i);
        }
    }
}

/* By TMA and wgmma: small tiles, so that a case of a few tiles is quick. */
static inline Schedule wgmma_schedule(int tile_m, int tile_n, int tile_k, int warps_m) {
    return (Schedule){.path = MATMUL_WGMMA,
                      .tile_m = tile_m,
                      .tile_n = tile_n,
                      .tile_k = tile_k,
                      .warps_m = warps_m,
                      .warps_n = 1,
                      .stages = 3,
                      .group_m = 2,
                      .tma_store = true,
                      .producer_registers = warps_m == 2 ? 40 : 0,
                      .consumer_registers = warps_m == 2 ? 232 : 0};
}

#endif
