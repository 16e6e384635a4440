/* What the tests of templates share: graphs built by hand, one region made of all of them, its kernel run in
 * the simulator and compared with the reference. Each test program includes it once. */
#ifndef SINTER_TESTS_TEMPLATE_HARNESS_H
#define SINTER_TESTS_TEMPLATE_HARNESS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "codegen/simulate.h"
#include "ir/reference.h"
#include "ir/view.h"

typedef struct Harness {
    Arena *arena;
    Graph *graph;
    Region *region;
    Diags diags;
    DimBindings bindings;
    Kernel *kernel;
    uint64_t seed;
    Schedule schedule; /* where has_schedule: instead of the template's choice */
    bool has_schedule;
    double scale;         /* of what is added up: errors are relative to at least this; 0: 0.01 */
    const char *built_by; /* the template that must have built the kernel; NULL: the region's own */
    bool is_double;       /* all arithmetic is f64 */
    double max_int;       /* integers are drawn from [-max_int, max_int]; 0: 9 */
} Harness;

static Harness harness_new(void) {
    Harness h = {.arena = arena_new(0), .seed = 1};
    assert_non_null(h.arena);
    h.diags.arena = h.arena;
    h.graph = graph_new(h.arena, "test");
    h.region = ARENA_NEW(h.arena, Region);
    h.region->name = "kernel_under_test";
    return h;
}

static inline void harness_fail(Harness *h, const char *what) {
    Text text = text_new(h->arena);
    text_add(&text, "%s", what);
    for (size_t i = 0; i < h->diags.list.n; i++)
        text_add(&text, "\n  %s", h->diags.list.at[i].message);
    if (h->kernel) {
        text_add(&text, "\n");
        kernel_print(&text, h->kernel);
    }
    fail_msg("%s", text.at);
}

static inline const Dim *harness_dim(Harness *h, int64_t n) {
    return dim_const(h->graph->dims, n);
}

/* ---- graphs */

static inline Value *make_input(Harness *h, const char *name, DType dtype, int rank, const int64_t *dims) {
    const Dim *d[RANK_MAX];
    for (int i = 0; i < rank; i++)
        d[i] = harness_dim(h, dims[i]);
    return graph_add_input(h->graph, name, dtype, rank, d, NULL, (Span){0});
}

static inline Value *make_named(Harness *h, const char *name, OpKind op, Value **in, int n,
                                const Attr *attrs) {
    Value *value = graph_append(h->graph, op, in, n, attrs, (Span){0}, &h->diags);
    if (!value)
        harness_fail(h, op_info(op)->name);
    value->name = name;
    return value;
}

static inline Value *make1(Harness *h, OpKind op, Value *x) {
    return make_named(h, NULL, op, &x, 1, NULL);
}

static inline Value *make2(Harness *h, OpKind op, Value *x, Value *y) {
    Value *in[] = {x, y};
    return make_named(h, NULL, op, in, 2, NULL);
}

static inline Value *make3(Harness *h, OpKind op, Value *x, Value *y, Value *z) {
    Value *in[] = {x, y, z};
    return make_named(h, NULL, op, in, 3, NULL);
}

static inline Value *make_cast(Harness *h, Value *x, DType dtype) {
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = dtype}};
    return make_named(h, NULL, OP_cast, &x, 1, attrs);
}

static inline Value *make_reduce(Harness *h, OpKind op, Value *x, const int *axes, int n, bool keep) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
    attrs[0].axes.n = n;
    for (int i = 0; i < n; i++)
        attrs[0].axes.at[i] = axes[i];
    attrs[1].i = keep;
    return make_named(h, NULL, op, &x, 1, attrs);
}

static inline Value *make_reduce1(Harness *h, OpKind op, Value *x, int axis, bool keep) {
    return make_reduce(h, op, x, &axis, 1, keep);
}

static inline const Dim **make_dims(Harness *h, int rank, const int64_t *dims) {
    const Dim **d = ARENA_ARRAY(h->arena, const Dim *, (size_t)rank + 1);
    for (int i = 0; i < rank; i++)
        d[i] = harness_dim(h, dims[i]);
    return d;
}

static inline Value *make_shaped(Harness *h, OpKind op, Value *x, int rank, const int64_t *dims) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
    attrs[0].dims = make_dims(h, rank, dims);
    attrs[0].n_dims = rank;
    return make_named(h, NULL, op, x ? &x : NULL, x ? 1 : 0, attrs);
}

static inline Value *make_reshape(Harness *h, Value *x, int rank, const int64_t *dims) {
    return make_shaped(h, OP_reshape, x, rank, dims);
}

static inline Value *make_transpose(Harness *h, Value *x, const int *perm) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
    attrs[0].ints = ARENA_ARRAY(h->arena, int, RANK_MAX);
    attrs[0].n_ints = x->rank;
    for (int i = 0; i < x->rank; i++)
        attrs[0].ints[i] = perm[i];
    return make_named(h, NULL, OP_transpose, &x, 1, attrs);
}

static inline Value *make_constant(Harness *h, double value) {
    return graph_constant_float(h->graph, value, (Span){0});
}

/* ---- regions */

/* An output of the graph and of the region. */
static inline void harness_output(Harness *h, const char *name, Value *value) {
    if (!value->name)
        value->name = name;
    graph_add_output(h->graph, name, value, NULL, (Span){0});
    vec_push(h->arena, &h->region->outputs, value);
}

/* The region of the whole graph, its space that of `like`. */
static inline void harness_region(Harness *h, TemplateKind kind, const Value *like, int n_reduced) {
    Region *region = h->region;
    graph_renumber(h->graph);
    region->kind = kind;
    region->rank = like->rank;
    region->n_reduced = n_reduced;
    for (int i = 0; i < like->rank; i++)
        region->dims[i] = like->dims[i];
    for (size_t i = 0; i < h->graph->values.n; i++) {
        Value *value = h->graph->values.at[i];
        if (value->op == OP_input)
            vec_push(h->arena, &region->inputs, value);
        else
            vec_push(h->arena, &region->values, value);
        if (kind == TEMPLATE_MATMUL && value->op == OP_matmul)
            vec_push(h->arena, &region->cores, value);
    }
}

/* ---- data */

static uint64_t harness_random(Harness *h) { /* splitmix64 */
    uint64_t z = h->seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static Number harness_number(Harness *h, DType dtype) {
    double unit = (double)(harness_random(h) >> 11) / 9007199254740992.0;
    if (dtype_is_float(dtype))
        return (Number){.f = dtype_round(4 * unit - 2, dtype)};
    if (dtype == DTYPE_BOOL)
        return (Number){.i = unit < 0.5};
    double most = h->max_int ? h->max_int : 9,
           high = dtype_max_int(dtype) < most ? (double)dtype_max_int(dtype) : most;
    double low = dtype_min_int(dtype) > -most ? (double)dtype_min_int(dtype) : -most;
    return (Number){.i = (int64_t)floor(low + unit * (high - low + 1))};
}

static inline int64_t harness_eval(Harness *h, const Dim *dim) {
    int64_t value = 0;
    if (!dim_eval(dim, &h->bindings, &value))
        harness_fail(h, "a dim has no value");
    return value;
}

static inline int64_t harness_dims(Harness *h, const Value *value, int64_t *dims) {
    int64_t count = 1;
    for (int i = 0; i < value->rank; i++)
        count *= dims[i] = harness_eval(h, value->dims[i]);
    return count;
}

/* Element offsets in memory, in row-major order of the elements, and how many elements the memory has. */
static inline int64_t *harness_offsets(Harness *h, const Value *value, int64_t count, int64_t *span) {
    int64_t dims[RANK_MAX], strides[RANK_MAX], *offsets = ARENA_ARRAY(h->arena, int64_t, (size_t)count + 1);
    const Dim *stride_dims[RANK_MAX];
    harness_dims(h, value, dims);
    view_base_strides(h->graph, value, stride_dims);
    *span = count ? 1 : 0;
    for (int i = 0; i < value->rank; i++) {
        strides[i] = harness_eval(h, stride_dims[i]);
        if (count)
            *span += strides[i] * (dims[i] - 1);
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = k, offset = 0;
        for (int i = value->rank - 1; i >= 0; i--) {
            offset += rest % dims[i] * strides[i];
            rest /= dims[i];
        }
        offsets[k] = offset;
    }
    return offsets;
}

static SimBuffer harness_buffer(Harness *h, const Value *value, int64_t span) {
    SimBuffer buffer = {.value = value};
    if (!dtype_bytes(value->dtype, span, &buffer.bytes))
        harness_fail(h, "a buffer is too large");
    void *at = NULL;
    if (posix_memalign(&at, 128, (size_t)buffer.bytes + 128))
        harness_fail(h, "no memory");
    memset(at, 0x5b, (size_t)buffer.bytes + 128);
    arena_defer(h->arena, free, at);
    buffer.at = at;
    return buffer;
}

/* How far a kernel's result may lie from the reference's: its own rounding and f32 arithmetic on `terms`
 * terms. */
static inline double harness_tolerance(const Harness *h, DType dtype, double expected, double terms) {
    double unit = h->is_double          ? 1e-13
                  : dtype == DTYPE_BF16 ? 1.0 / 128
                  : dtype == DTYPE_F16  ? 1.0 / 1024
                  : dtype == DTYPE_E4M3 ? 1.0 / 8
                  : dtype == DTYPE_E5M2 ? 1.0 / 4
                  : dtype == DTYPE_TF32 ? 1.0 / 1024
                                        : 4e-6;
    return unit * (fabs(expected) + (h->scale > 0 ? h->scale : 1e-2)) *
               (dtype == DTYPE_F32 || dtype == DTYPE_F64 ? 1 + sqrt(terms) : 1) +
           1e-30;
}

static inline void harness_compare(Harness *h, const Value *value, const SimBuffer *buffer,
                                   const int64_t *offsets, const Tensor *expected, double terms) {
    for (int64_t k = 0; k < expected->count; k++) {
        Number got = dtype_load(value->dtype, buffer->at, offsets[k]), want = expected->at[k];
        bool same;
        if (dtype_is_float(value->dtype)) {
            double rounded = dtype_round(want.f, value->dtype);
            bool equal = got.f == rounded || (got.f != got.f && rounded != rounded);
            same = equal || fabs(got.f - want.f) <= harness_tolerance(h, value->dtype, want.f, terms);
        } else {
            same = got.i == want.i;
        }
        if (!same) {
            Text text = text_new(h->arena);
            text_add(&text, "%s[%lld] is %.9g, not %.9g", value->name, (long long)k,
                     dtype_is_float(value->dtype) ? got.f : (double)got.i,
                     dtype_is_float(value->dtype) ? want.f : (double)want.i);
            harness_fail(h, text.at);
        }
    }
}

/* Schedules the region, builds its kernel for a target, runs it in the simulator on random inputs, and
 * compares every output with the reference; `terms` is the length of the longest sum. Then the harness is
 * gone. */
static inline void harness_check_on(Harness *h, const char *target_name, double terms) {
    const Target *target = target_find(target_name);
    if (!h->bindings.value)
        h->bindings = dim_bindings_new(h->arena, h->graph->dims);
    if (!codegen_schedule(h->graph, h->region, target, &h->bindings, &h->diags))
        harness_fail(h, "no schedule");
    if (h->has_schedule)
        h->region->schedule = h->schedule;
    h->kernel = codegen_kernel(h->arena, h->graph, h->region, target, &h->diags);
    if (!h->kernel)
        harness_fail(h, "no kernel");
    const char *built_by = h->built_by ? h->built_by : template_of(h->region->kind)->name;
    if (strncmp(h->kernel->summary, built_by, strlen(built_by)) != 0)
        harness_fail(h, h->kernel->summary);

    size_t n_in = h->graph->inputs.n, n_out = h->region->outputs.n;
    Tensor *inputs = ARENA_ARRAY(h->arena, Tensor, n_in + 1);
    SimBuffer *buffers = ARENA_ARRAY(h->arena, SimBuffer, n_in + n_out + 1);
    int64_t **offsets = ARENA_ARRAY(h->arena, int64_t *, n_out + 1);
    for (size_t i = 0; i < n_in; i++) {
        Value *value = h->graph->inputs.at[i];
        int64_t dims[RANK_MAX], count = harness_dims(h, value, dims), span;
        assert_true(tensor_new(h->arena, value->dtype, value->rank, dims, &inputs[i]));
        int64_t *at = harness_offsets(h, value, count, &span);
        buffers[i] = harness_buffer(h, value, span);
        for (int64_t k = 0; k < count; k++) {
            inputs[i].at[k] = harness_number(h, value->dtype);
            dtype_store(value->dtype, buffers[i].at, at[k], inputs[i].at[k]);
        }
        for (int64_t k = 0; k < count; k++) /* with a stride of 0, elements share memory */
            inputs[i].at[k] = dtype_load(value->dtype, buffers[i].at, at[k]);
    }
    for (size_t i = 0; i < n_out; i++) {
        Value *value = h->region->outputs.at[i];
        int64_t dims[RANK_MAX], span;
        offsets[i] = harness_offsets(h, value, harness_dims(h, value, dims), &span);
        buffers[n_in + i] = harness_buffer(h, value, span);
    }
    SimOptions options = {.check_races = true};
    if (!simulate(h->kernel, &h->bindings, buffers, (int)(n_in + n_out), &options, &h->diags))
        harness_fail(h, "the simulator refuses");
    for (size_t i = 0; i < n_out; i++) {
        Tensor expected;
        const Value *value = h->region->outputs.at[i];
        if (!reference_value(h->arena, h->graph, &h->bindings, inputs, value, &expected, &h->diags))
            harness_fail(h, "no reference");
        harness_compare(h, value, &buffers[n_in + i], offsets[i], &expected, terms);
    }
    arena_free(h->arena);
}

static inline void harness_check(Harness *h, double terms) {
    harness_check_on(h, "sm_90a", terms);
}

#endif
