/* Random graphs (graphgen.h) through the whole compiler, every output compared with the float64 reference.
 *
 *     differential FIRST_SEED COUNT [TARGET]
 *     differential FIRST_SEED COUNT --device=cuda|sim [--backend=llvm|nvrtc|auto]
 *
 * The first runs every kernel in the simulator, looking for races, and checks that each graph means the same
 * after the passes. The second makes plans and executes them on the GPU, or by the plans' own simulation.
 *
 * A failure prints its seed, what went wrong and the graph; the exit status is 1 then, and 5 where there is
 * no GPU or no such backend. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "ir/print.h"
#include "passes/pass.h"
#include "tests/fuzz/differential.h"

void trial_fail(Trial *trial, const char *what, const char *detail) {
    printf("seed %llu: %s: %s\n%s\n", (unsigned long long)trial->seed, what, detail, trial->text);
    for (size_t i = 0; i < trial->diags.list.n && i < 6; i++)
        printf("    %s\n", trial->diags.list.at[i].message);
    trial->failed = true;
}

bool trial_begin(Trial *trial) {
    trial->diags.arena = trial->arena;
    trial->generated = graphgen(trial->arena, trial->seed, NULL);
    Graph *graph = trial->generated.graph;
    Text text = text_new(trial->arena);
    graph_print(&text, graph);
    trial->text = text.at;
    trial->inputs = graphgen_inputs(trial->arena, &trial->generated, trial->seed);
    trial->want = ARENA_ARRAY(trial->arena, Tensor, graph->outputs.n);
    if (reference_run(trial->arena, graph, &trial->generated.bindings, trial->inputs, trial->want,
                      &trial->diags))
        return true;
    trial_fail(trial, "reference", "it does not run");
    return false;
}

bool trial_element(Trial *trial, const char *stage, size_t output, int64_t element, Number got) {
    const Tensor *want = &trial->want[output];
    double tolerance = trial->generated.tolerance[output];
    bool floats = dtype_is_float(want->dtype);
    double x = floats ? want->at[element].f : (double)want->at[element].i, y = floats ? got.f : (double)got.i;
    if (fabs(x - y) <= tolerance)
        return true;
    Text detail = text_new(trial->arena);
    text_add(&detail, "'out%zu', element %lld is %.9g, not %.9g (tolerance %.2g)", output, (long long)element,
             y, x, tolerance);
    trial_fail(trial, stage, detail.at);
    return false;
}

static int64_t trial_dim(const Trial *trial, const Dim *dim) {
    int64_t value = 0;
    if (!dim_eval(dim, &trial->generated.bindings, &value))
        arena_give_up(trial->arena);
    return value;
}

/* Elements of memory from the first to the last that a value with these strides has. */
static int64_t trial_extent(const Trial *trial, const Value *value, const Dim *const *strides) {
    int64_t last = 0;
    for (int i = 0; i < value->rank; i++) {
        int64_t dim = trial_dim(trial, value->dims[i]);
        if (dim == 0)
            return 0;
        last += (dim - 1) * trial_dim(trial, strides[i]);
    }
    return last + 1;
}

static const Dim **trial_strides(const Trial *trial, const Value *value, const Dim **declared) {
    if (declared)
        return declared;
    const Dim **strides = ARENA_ARRAY(trial->arena, const Dim *, RANK_MAX);
    dims_packed_strides(trial->partition->graph->dims, value->rank, value->dims, strides);
    return strides;
}

/* Memory of a value, every byte of it 0xa5, which no kernel should ever show. */
static void trial_allocate(Trial *trial, const Value *value, const Dim *const *strides) {
    SimBuffer *buffer = &trial->memory[value->id];
    int64_t bytes = 0;
    dtype_bytes(value->dtype, trial_extent(trial, value, strides), &bytes);
    buffer->value = value;
    buffer->bytes = bytes;
    buffer->at = memset(arena_alloc(trial->arena, (size_t)bytes + 16), 0xa5, (size_t)bytes + 16);
}

/* Place in memory of the element with row-major number `element`. */
static int64_t trial_place(const int64_t *dims, const int64_t *strides, int rank, int64_t element) {
    int64_t place = 0;
    for (int i = rank - 1; i >= 0; i--) {
        place += element % dims[i] * strides[i];
        element /= dims[i];
    }
    return place;
}

static void trial_fill(Trial *trial, const Value *value, const Tensor *tensor) {
    const Dim **strides = trial_strides(trial, value, value->strides);
    int64_t numbers[RANK_MAX];
    trial_allocate(trial, value, strides);
    for (int i = 0; i < value->rank; i++)
        numbers[i] = trial_dim(trial, strides[i]);
    for (int64_t e = 0; e < tensor->count; e++)
        dtype_store(value->dtype, trial->memory[value->id].at,
                    trial_place(tensor->dims, numbers, value->rank, e), tensor->at[e]);
}

/* An output in memory, or, where `reference` is given, in that. */
static void trial_compare(Trial *trial, const char *stage, size_t output, const Tensor *reference) {
    const Output *declared = &trial->partition->graph->outputs.at[output];
    const Value *value = declared->value;
    const Tensor *want = &trial->want[output];
    const Dim **strides = trial_strides(trial, value, declared->strides);
    int64_t numbers[RANK_MAX];
    for (int i = 0; i < value->rank; i++)
        numbers[i] = trial_dim(trial, strides[i]);
    for (int64_t e = 0; e < want->count; e++) {
        Number got = reference ? reference->at[e]
                               : dtype_load(value->dtype, trial->memory[value->id].at,
                                            trial_place(want->dims, numbers, value->rank, e));
        if (!trial_element(trial, stage, output, e, got))
            return;
    }
}

static bool trial_region(Trial *trial, Region *region) {
    const Graph *graph = trial->partition->graph;
    if (!codegen_schedule(graph, region, trial->target, NULL, &trial->diags))
        return false;
    Kernel *kernel = codegen_kernel(trial->arena, graph, region, trial->target, &trial->diags);
    if (!kernel)
        return false;
    VEC(SimBuffer) buffers = {0};
    for (const Region *part = region; part; part = part->guest) {
        for (size_t i = 0; i < part->inputs.n; i++)
            if (part == region || !region_writes(region, part->inputs.at[i]))
                vec_push(trial->arena, &buffers, trial->memory[part->inputs.at[i]->id]);
        for (size_t i = 0; i < part->outputs.n; i++)
            vec_push(trial->arena, &buffers, trial->memory[part->outputs.at[i]->id]);
    }
    return simulate(kernel, &trial->generated.bindings, buffers.at, (int)buffers.n,
                    &(SimOptions){.check_races = true}, &trial->diags);
}

/* The memory of what a kernel stores: its own, or part of another value's. */
static void trial_store(Trial *trial, const Value *value) {
    const Dim *first;
    const Value *in = partition_stored(trial->partition, value, &first);
    if (!trial->memory[in->id].at)
        trial_allocate(trial, in, trial_strides(trial, in, NULL));
    if (in == value)
        return;
    SimBuffer *buffer = &trial->memory[value->id];
    int64_t bytes = 0, offset = 0;
    dtype_bytes(value->dtype, trial_extent(trial, value, trial_strides(trial, value, value->strides)),
                &bytes);
    dtype_bytes(value->dtype, trial_dim(trial, first), &offset);
    *buffer = (SimBuffer){.value = value, .at = (uint8_t *)trial->memory[in->id].at + offset, .bytes = bytes};
}

static void trial_memory(Trial *trial, const Tensor *inputs) {
    Graph *graph = trial->partition->graph;
    trial->memory = ARENA_ARRAY(trial->arena, SimBuffer, graph->values.n);
    for (size_t i = 0; i < graph->inputs.n; i++)
        trial_fill(trial, graph->inputs.at[i], &inputs[i]);
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value->op != OP_input)
            trial_allocate(trial, graph->outputs.at[i].value,
                           trial_strides(trial, graph->outputs.at[i].value, graph->outputs.at[i].strides));
    for (size_t r = 0; r < trial->partition->regions.n; r++) {
        for (const Region *part = trial->partition->regions.at[r]; part; part = part->guest)
            for (size_t i = 0; i < part->outputs.n; i++)
                trial_store(trial, part->outputs.at[i]);
    }
    for (size_t i = 0; i < trial->partition->stored.n; i++)
        trial_store(trial, trial->partition->stored.at[i].value);
}

/* Whether simplification has made two outputs one value: the caller of a plan then gets copies, which is not
 * compared here. */
static bool trial_is_copied(const Graph *graph, size_t output) {
    const Value *value = graph->outputs.at[output].value;
    for (size_t i = 0; i < output; i++)
        if (graph->outputs.at[i].value == value)
            return true;
    return value->op == OP_input;
}

static void trial_body(void *context) {
    Trial *trial = context;
    if (!trial_begin(trial))
        return;
    Graph *graph = trial->generated.graph;
    size_t n = graph->outputs.n;
    Tensor *after = ARENA_ARRAY(trial->arena, Tensor, n);
    FuseLimits limits = target_fuse_limits(trial->target);
    PassOptions options = {
        .limits = &limits, .verify = true, .no_fusion = trial->seed % 8 == 0, .pass_limit = -1};
    trial->partition = passes_run(graph, &options, &trial->diags);
    if (!trial->partition || trial->diags.errors) {
        trial_fail(trial, "passes", "they fail");
        return;
    }
    graph = trial->partition->graph;
    if (!reference_run(trial->arena, graph, &trial->generated.bindings, trial->inputs, after,
                       &trial->diags)) {
        trial_fail(trial, "reference", "it does not run after the passes");
        return;
    }
    trial_memory(trial, trial->inputs);
    for (size_t i = 0; i < n && !trial->failed; i++)
        trial_compare(trial, "after the passes", i, &after[i]);
    for (size_t i = 0; i < trial->partition->regions.n && !trial->failed; i++)
        if (!trial_region(trial, trial->partition->regions.at[i]))
            trial_fail(trial, "kernel", trial->partition->regions.at[i]->name);
    for (size_t i = 0; i < n && !trial->failed; i++)
        if (!trial_is_copied(graph, i))
            trial_compare(trial, "in the simulator", i, NULL);
}

static int trial_all(uint64_t first, uint64_t count, const Target *target) {
    int failures = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        Trial trial = {.arena = arena_new((size_t)4 << 30), .target = target, .seed = seed};
        if (!trial.arena || !arena_run(trial.arena, trial_body, &trial)) {
            printf("seed %llu: memory ran out\n", (unsigned long long)seed);
            trial.failed = true;
        }
        failures += trial.failed;
        arena_free(trial.arena);
    }
    return failures;
}

static int usage(void) {
    fprintf(stderr, "usage: differential FIRST_SEED COUNT [TARGET]\n"
                    "       differential FIRST_SEED COUNT --device=cuda|sim [--backend=llvm|nvrtc|auto]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *words[3] = {NULL, NULL, "sm_90a"}, *device = NULL, *backend = "auto";
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--device=", 9) == 0)
            device = argv[i] + 9;
        else if (strncmp(argv[i], "--backend=", 10) == 0)
            backend = argv[i] + 10;
        else if (argv[i][0] == '-' || n == 3)
            return usage();
        else
            words[n++] = argv[i];
    }
    const Target *target = target_find(words[2]);
    if (n < 2 || !target ||
        (device && (n == 3 || (strcmp(device, "cuda") != 0 && strcmp(device, "sim") != 0))))
        return usage();
    uint64_t first = strtoull(words[0], NULL, 10), count = strtoull(words[1], NULL, 10);
    int failures = 0;
    if (!device)
        failures = trial_all(first, count, target);
    else if (!device_trials(first, count, device, backend, &failures))
        return 5;
    printf("%llu graphs, %d failed\n", (unsigned long long)count, failures);
    return failures > 0;
}
