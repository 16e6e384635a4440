/* Graphs for callers: parsed, or written by a builder and then parsed, so that both go the same way. */
#include "runtime/graph_api.h"

#include <stdlib.h>
#include <string.h>

#include "ir/print.h"

typedef struct GraphParse {
    sinter_graph *graph;
    sinter_source source;
    bool ok;
} GraphParse;

static void graph_parse_body(void *context) {
    GraphParse *parse = context;
    sinter_graph *graph = parse->graph;
    const sinter_source *source = &parse->source;
    graph->sources = source_set_new(graph->arena);
    graph->diags.arena = graph->arena;
    size_t n = source->length ? source->length : strlen(source->text);
    uint32_t file = source_add(graph->sources, source->name ? source->name : "<text>", source->text, n);
    parse->ok = frontend_parse(graph->arena, graph->sources, file, &(FrontendLimits){0}, &graph->diags,
                               &graph->module);
    if (parse->ok && graph->module.graphs.n == 0) {
        diag_error(&graph->diags, DIAG_SYNTAX, (Span){0}, "the source holds no graph");
        parse->ok = false;
    }
    graph->report = report_make(graph->arena, graph->sources, &graph->diags);
}

sinter_status graph_parse_module(sinter_context *context, const sinter_source *source, sinter_graph **out) {
    if (!out)
        return SINTER_USAGE;
    *out = NULL;
    sinter_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return SINTER_OUT_OF_MEMORY;
    *out = graph;
    graph->context = context;
    GraphParse parse = {.graph = graph};
    context_copy_options(&parse.source, sizeof parse.source, source);
    if (!parse.source.text) {
        graph->report = report_single(&graph->storage, DIAG_USAGE, "sinter_source.text is NULL");
        return SINTER_USAGE;
    }
    graph->arena = arena_new(context->memory_limit);
    double begin = context_now_ms();
    if (!graph->arena || !arena_run(graph->arena, graph_parse_body, &parse)) {
        graph->report = report_single(&graph->storage, DIAG_MEMORY,
                                      "memory ran out, or the limit on it was reached, while parsing");
        return SINTER_OUT_OF_MEMORY;
    }
    graph->parse_ms = context_now_ms() - begin;
    if (parse.ok)
        graph_select(graph, 0);
    else if (!graph->diags.errors)
        return SINTER_INTERNAL;
    return report_status(&graph->diags);
}

void graph_select(sinter_graph *graph, size_t i) {
    graph->graph = graph->module.graphs.at[i];
}

typedef struct GraphChoose {
    sinter_graph *graph;
    const char *name; /* NULL: the only one */
} GraphChoose;

static void graph_choose_body(void *context) {
    GraphChoose *choose = context;
    sinter_graph *graph = choose->graph;
    size_t n = graph->module.graphs.n;
    graph->graph = NULL;
    for (size_t i = 0; i < n; i++)
        if (choose->name ? strcmp(graph->module.graphs.at[i]->name, choose->name) == 0 : n == 1)
            graph->graph = graph->module.graphs.at[i];
    if (graph->graph)
        return;
    if (choose->name)
        diag_error(&graph->diags, DIAG_USAGE, (Span){0}, "the source has no graph '%s'", choose->name);
    else
        diag_error(&graph->diags, DIAG_USAGE, (Span){0}, "the source has %zu graphs: one has to be named", n);
    graph->report = report_make(graph->arena, graph->sources, &graph->diags);
}

sinter_status sinter_graph_parse(sinter_context *context, const sinter_source *source, sinter_graph **out) {
    sinter_status status = graph_parse_module(context, source, out);
    if (status)
        return status;
    sinter_source own;
    context_copy_options(&own, sizeof own, source);
    GraphChoose choose = {*out, own.graph};
    if (!arena_run((*out)->arena, graph_choose_body, &choose))
        return SINTER_OUT_OF_MEMORY;
    return report_status(&(*out)->diags);
}

void sinter_graph_destroy(sinter_graph *graph) {
    if (!graph)
        return;
    arena_free(graph->arena);
    free(graph);
}

const sinter_diagnostic *sinter_graph_diagnostic(const sinter_graph *graph, int i) {
    return graph && i >= 0 && i < graph->report.n ? &graph->report.at[i] : NULL;
}

const char *sinter_graph_name(const sinter_graph *graph) {
    return graph->graph ? graph->graph->name : "";
}

int sinter_graph_input_count(const sinter_graph *graph) {
    return graph->graph ? (int)graph->graph->inputs.n : 0;
}

int sinter_graph_output_count(const sinter_graph *graph) {
    return graph->graph ? (int)graph->graph->outputs.n : 0;
}

typedef struct GraphText {
    sinter_graph *graph;
    const char *text;
} GraphText;

static void graph_text_body(void *context) {
    GraphText *job = context;
    Text text = text_new(job->graph->arena);
    graph_print(&text, job->graph->graph);
    job->text = text.at;
}

const char *sinter_graph_text(sinter_graph *graph) {
    GraphText job = {graph, ""};
    return graph->graph && arena_run(graph->arena, graph_text_body, &job) ? job.text : "";
}

typedef struct GraphTensor {
    sinter_graph *graph;
    const Value *value;
    const char *name;
    const Dim **strides;
    sinter_tensor tensor;
} GraphTensor;

static const char *graph_dim_text(const GraphTensor *job, const Dim *dim) {
    Text text = text_new(job->graph->arena);
    dim_print(&text, job->graph->graph->dims, dim);
    return text.at;
}

static void graph_tensor_body(void *context) {
    GraphTensor *job = context;
    job->tensor.name = job->name;
    job->tensor.dtype = dtype_name(job->value->dtype);
    job->tensor.rank = job->value->rank;
    for (int i = 0; i < job->value->rank; i++) {
        job->tensor.dims[i] = graph_dim_text(job, job->value->dims[i]);
        job->tensor.strides[i] = job->strides ? graph_dim_text(job, job->strides[i]) : NULL;
    }
}

static sinter_status graph_tensor(GraphTensor *job, sinter_tensor *out) {
    job->tensor.size = out->size;
    if (!arena_run(job->graph->arena, graph_tensor_body, job))
        return SINTER_OUT_OF_MEMORY;
    memcpy(out, &job->tensor, out->size < sizeof job->tensor ? out->size : sizeof job->tensor);
    return SINTER_OK;
}

sinter_status sinter_graph_input(sinter_graph *graph, int i, sinter_tensor *out) {
    if (i < 0 || i >= sinter_graph_input_count(graph))
        return SINTER_USAGE;
    const Value *value = graph->graph->inputs.at[i];
    return graph_tensor(
        &(GraphTensor){.graph = graph, .value = value, .name = value->name, .strides = value->strides}, out);
}

sinter_status sinter_graph_output(sinter_graph *graph, int i, sinter_tensor *out) {
    if (i < 0 || i >= sinter_graph_output_count(graph))
        return SINTER_USAGE;
    const Output *output = &graph->graph->outputs.at[i];
    return graph_tensor(
        &(GraphTensor){
            .graph = graph, .value = output->value, .name = output->name, .strides = output->strides},
        out);
}

/* ---- builder
 * --------------------------------------------------------------------------------------------------------------
 */

struct sinter_builder {
    sinter_context *context;
    Arena *arena;
    const char *name;
    Text inputs, outputs, where, body;
    bool broken; /* memory ran out on the way */
};

typedef struct BuilderStep {
    sinter_builder *builder;
    Text *to;
    const char *separator, *a, *b, *attributes;
    const char *const *operands;
    int n_operands;
    const char *name;
} BuilderStep;

static void builder_begin(void *context) {
    BuilderStep *step = context;
    sinter_builder *builder = step->builder;
    builder->name = arena_strdup(builder->arena, step->name && *step->name ? step->name : "graph1");
    builder->inputs = text_new(builder->arena);
    builder->outputs = text_new(builder->arena);
    builder->where = text_new(builder->arena);
    builder->body = text_new(builder->arena);
}

sinter_status sinter_builder_create(sinter_context *context, const char *graph_name, sinter_builder **out) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return SINTER_OUT_OF_MEMORY;
    (*out)->context = context;
    (*out)->arena = arena_new(context->memory_limit);
    BuilderStep step = {.builder = *out, .name = graph_name};
    (*out)->broken = !(*out)->arena || !arena_run((*out)->arena, builder_begin, &step);
    return (*out)->broken ? SINTER_OUT_OF_MEMORY : SINTER_OK;
}

static void builder_pair_body(void *context) {
    BuilderStep *step = context;
    if (step->to->n)
        text_add(step->to, ", ");
    text_add(step->to, step->b ? "%s: %s" : "%s", step->a, step->b);
}

static void builder_pair(sinter_builder *builder, Text *to, const char *a, const char *b) {
    BuilderStep step = {.builder = builder, .to = to, .a = a, .b = b};
    if (!builder->broken)
        builder->broken = !arena_run(builder->arena, builder_pair_body, &step);
}

void sinter_builder_input(sinter_builder *builder, const char *name, const char *type) {
    builder_pair(builder, &builder->inputs, name, type);
}

void sinter_builder_output(sinter_builder *builder, const char *name, const char *type) {
    builder_pair(builder, &builder->outputs, name, type);
}

void sinter_builder_where(sinter_builder *builder, const char *constraint) {
    builder_pair(builder, &builder->where, constraint, NULL);
}

static void builder_op_body(void *context) {
    BuilderStep *step = context;
    text_add(step->to, "    %s = %s(", step->a, step->b);
    for (int i = 0; i < step->n_operands; i++)
        text_add(step->to, "%s%s", i ? ", " : "", step->operands[i]);
    if (step->attributes && *step->attributes)
        text_add(step->to, "%s%s", step->n_operands ? ", " : "", step->attributes);
    text_add(step->to, ")\n");
}

void sinter_builder_op(sinter_builder *builder, const char *result, const char *op,
                       const char *const *operands, int n_operands, const char *attributes) {
    BuilderStep step = {.builder = builder,
                        .to = &builder->body,
                        .a = result,
                        .b = op,
                        .operands = operands,
                        .n_operands = n_operands,
                        .attributes = attributes};
    if (!builder->broken)
        builder->broken = !arena_run(builder->arena, builder_op_body, &step);
}

static void builder_whole(void *context) {
    BuilderStep *step = context;
    sinter_builder *builder = step->builder;
    const char *where = builder->where.n ? text_format(builder->arena, "where %s\n", builder->where.at) : "";
    step->a = text_format(builder->arena, "sinter 1\n\ngraph %s (%s) -> (%s)\n%s{\n%s}\n", builder->name,
                          builder->inputs.n ? builder->inputs.at : "",
                          builder->outputs.n ? builder->outputs.at : "", where,
                          builder->body.n ? builder->body.at : "");
}

sinter_status sinter_builder_finish(sinter_builder *builder, sinter_graph **out) {
    *out = NULL;
    BuilderStep step = {.builder = builder};
    sinter_status status = SINTER_OUT_OF_MEMORY;
    if (!builder->broken && arena_run(builder->arena, builder_whole, &step))
        status = sinter_graph_parse(
            builder->context,
            &(sinter_source){.size = sizeof(sinter_source), .text = step.a, .name = "<builder>"}, out);
    arena_free(builder->arena);
    free(builder);
    return status;
}
