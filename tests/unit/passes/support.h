/* Graphs from text through the passes, and back as a line that a test compares: one word a kernel. Each
 * result is also checked by its meaning: where dims are given, the reference evaluates the graph before and
 * after, on the same random inputs. */
#ifndef SINTER_TESTS_PASSES_SUPPORT_H
#define SINTER_TESTS_PASSES_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/print.h"
#include "ir/reference.h"
#include "ir/verify.h"
#include "passes/pass.h"

typedef struct SupportDim {
    const char *name;
    int64_t value;
} SupportDim;

typedef struct Support {
    const char *text; /* the graph's body, without the version */
    const char *skip;
    bool no_fusion;
    int pass_limit;         /* 0: all */
    const SupportDim *dims; /* ends in a NULL name; NULL: nothing is evaluated */
    FuseLimits limits;      /* max_inputs 0: the usual ones */
    bool (*takes)(void *context, const Graph *graph, const Region *region, const char **why); /* NULL: all */
    double (*seconds)(void *context, const Graph *graph, const Region *region); /* NULL: nobody knows */
    /* results */
    Arena *arena;
    Graph *graph;
    Partition *partition;
    Diags diags;
    char *kernels;  /* e.g. "rows matmul/rows pointwise" */
    char *printed;  /* the graph afterwards */
    char *messages; /* diagnostics, a line each */
    double worst;   /* largest difference of an output from its reference before the passes, relative to 1 +
                       |value| */
    bool evaluated;
} Support;

static inline FuseLimits support_limits(void) {
    return (FuseLimits){.has_tensor_cores = true,
                        .scales_blocks = true,
                        .adds_products = true,
                        .hosts_rows = true,
                        .computes_fragments = true,
                        .turns_words = true,
                        .reads_chosen = true,
                        .brings_rows = true,
                        .matmul_row_max = 256,
                        .matmul_gang_row_max = 8192,
                        .sm_count = 132,
                        .memory_bytes_per_second = 4.3e12,
                        .tensor_flops = 790e12,
                        .chain_columns_max = 320,
                        .row_resident_max = 256 * 1024,
                        .inline_cost_max = 32,
                        .max_inputs = 24,
                        .max_outputs = 12};
}

static inline void support_kernels(Support *support) {
    Text text = text_new(support->arena);
    for (size_t i = 0; support->partition && i < support->partition->regions.n; i++) {
        const Region *region = support->partition->regions.at[i];
        static const char *const kinds[TEMPLATE_COUNT] = {"pointwise", "rows",  "columns", "transpose",
                                                          "matmul",    "chain", "relay"};
        text_add(&text, "%s%s", i ? " " : "", kinds[region->kind]);
        if (region->cores.n > 1)
            text_add(&text, "%zu", region->cores.n);
        if (region->kind == TEMPLATE_MATMUL && region->n_reduced)
            text_add(&text, "/rows");
        if (region->outputs.n > 1)
            text_add(&text, ">%zu", region->outputs.n);
        if (region->guest)
            text_add(&text, "+%s", kinds[region->guest->kind]);
    }
    support->kernels = text.at ? text.at : "";
}

static inline Number support_random(uint64_t *state, DType type) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double unit = (double)(*state >> 11) / 9007199254740992.0;
    if (dtype_is_float(type))
        return (Number){.f = dtype_round(2 * unit - 1, type)};
    if (dtype_class(type) == DTYPE_LOGICAL)
        return (Number){.i = unit < 0.5};
    return (Number){.i = (int64_t)(unit * 4)};
}

static inline bool support_bind(Support *support, const Graph *graph, DimBindings *bindings) {
    *bindings = dim_bindings_new(support->arena, graph->dims);
    for (const SupportDim *dim = support->dims; dim && dim->name; dim++)
        for (int i = 0; i < dim_symbol_count(graph->dims); i++)
            if (!strcmp(dim_symbol_name(graph->dims, i), dim->name)) {
                bindings->value[i] = dim->value;
                bindings->known[i] = true;
            }
    return true;
}

/* What the reference makes of random inputs; NULL where it cannot. */
static inline Tensor *support_reference(Arena *arena, const Graph *graph, const DimBindings *bindings,
                                        Diags *diags) {
    Tensor *inputs = ARENA_ARRAY(arena, Tensor, graph->inputs.n + 1);
    Tensor *outputs = ARENA_ARRAY(arena, Tensor, graph->outputs.n + 1);
    uint64_t state = 42;
    for (size_t i = 0; i < graph->inputs.n; i++) {
        const Value *input = graph->inputs.at[i];
        int64_t dims[RANK_MAX];
        for (int k = 0; k < input->rank; k++)
            if (!dim_eval(input->dims[k], bindings, &dims[k]))
                return NULL;
        if (!tensor_new(arena, input->dtype, input->rank, dims, &inputs[i]))
            return NULL;
        for (int64_t k = 0; k < inputs[i].count; k++)
            inputs[i].at[k] = support_random(&state, input->dtype);
    }
    return reference_run(arena, graph, bindings, inputs, outputs, diags) ? outputs : NULL;
}

static inline Tensor *support_evaluate(Support *support, const Graph *graph) {
    DimBindings bindings;
    support_bind(support, graph, &bindings);
    return support_reference(support->arena, graph, &bindings, &support->diags);
}

static inline void support_compare(Support *support, const Graph *before) {
    const Tensor *expected = support_evaluate(support, before),
                 *got = support_evaluate(support, support->graph);
    if (!expected || !got)
        return;
    support->evaluated = true;
    for (size_t i = 0; i < before->outputs.n; i++) {
        if (expected[i].count != got[i].count)
            support->worst = INFINITY;
        for (int64_t k = 0; k < expected[i].count; k++) {
            bool real = dtype_is_float(expected[i].dtype);
            double a = real ? expected[i].at[k].f : (double)expected[i].at[k].i;
            double b = real ? got[i].at[k].f : (double)got[i].at[k].i;
            double difference = (a == b || (isnan(a) && isnan(b))) ? 0 : fabs(a - b) / (1 + fabs(a));
            support->worst = difference <= support->worst ? support->worst : difference;
        }
    }
}

static inline void support_messages(Support *support) {
    Text text = text_new(support->arena);
    for (size_t i = 0; i < support->diags.list.n; i++)
        text_add(&text, "%s [%s]\n", support->diags.list.at[i].message,
                 diag_name(support->diags.list.at[i].id));
    support->messages = text.at ? text.at : "";
}

static inline void support_body(void *context) {
    Support *support = context;
    support->diags = (Diags){.arena = support->arena};
    SourceSet *sources = source_set_new(support->arena);
    char *text = text_format(support->arena, "sinter 1\n%s\n", support->text);
    uint32_t file = source_add(sources, "test.sg", text, strlen(text));
    Module module = {0};
    FrontendLimits limits = {0};
    if (frontend_parse(support->arena, sources, file, &limits, &support->diags, &module)) {
        support->graph = module.graphs.at[0];
        Graph *before = graph_clone(support->arena, support->graph, NULL, &support->diags);
        PassOptions options = {.limits = &support->limits,
                               .verify = true,
                               .no_fusion = support->no_fusion,
                               .skip = support->skip,
                               .pass_limit = support->pass_limit ? support->pass_limit : -1,
                               .takes = support->takes,
                               .seconds = support->seconds};
        support->partition = passes_run(support->graph, &options, &support->diags);
        Text printed = text_new(support->arena);
        graph_print(&printed, support->graph);
        support->printed = printed.at;
        support_kernels(support);
        if (support->partition && support->dims)
            support_compare(support, before);
    }
    support_messages(support);
}

/* Runs the passes; the arena stays until support_end(). */
static inline void support_run(Support *support) {
    if (!support->limits.max_inputs)
        support->limits = support_limits();
    support->arena = arena_new(0);
    assert_non_null(support->arena);
    assert_true(arena_run(support->arena, support_body, support));
}

static inline void support_end(Support *support) {
    arena_free(support->arena);
}

/* The kernels that `text` becomes are `kernels`, nothing is reported, and where dims are given the meaning is
 * the same, but for less than `worst`. */
static inline void expect_within(const char *text, const char *kernels, const SupportDim *dims,
                                 double worst) {
    Support support = {.text = text, .dims = dims};
    support_run(&support);
    if (*support.messages || !support.kernels || strcmp(support.kernels, kernels) != 0)
        print_message("%s\n%s\n", support.messages, support.printed ? support.printed : "");
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, kernels);
    if (dims) {
        assert_true(support.evaluated);
        if (!(support.worst < worst))
            print_message("%s\n", support.printed);
        assert_true(support.worst < worst);
    }
    support_end(&support);
}

static inline void expect_graph(const char *text, const char *kernels, const SupportDim *dims) {
    expect_within(text, kernels, dims, 2e-2);
}

/* The graph afterwards holds each of `with` and none of `without` (lists end in NULL). */
static inline void check_text(const char *text, const SupportDim *dims, const char *const *with,
                              const char *const *without) {
    Support support = {.text = text, .dims = dims};
    support_run(&support);
    assert_string_equal(support.messages, "");
    for (; *with; with++)
        if (!strstr(support.printed, *with))
            fail_msg("'%s' is missing in\n%s", *with, support.printed);
    for (; *without; without++)
        if (strstr(support.printed, *without))
            fail_msg("'%s' is left in\n%s", *without, support.printed);
    assert_true(support.evaluated);
    assert_true(support.worst < 1e-5);
    support_end(&support);
}

#define LIST(...)                                                                                            \
    (const char *const[]) {                                                                                  \
        __VA_ARGS__, NULL                                                                                    \
    }
#define NONE ((const char *const[]){NULL})
#define DIMS(...)                                                                                            \
    (const SupportDim[]) {                                                                                   \
        __VA_ARGS__, {                                                                                       \
            NULL, 0                                                                                          \
        }                                                                                                    \
    }
#define NO_DIMS ((const SupportDim[]){{NULL, 0}})

#endif
