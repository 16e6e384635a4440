/* Binding dims, making inputs, and the ways of execution that need no GPU. */
#include "runtime/cli/problem.h"

#include <stdio.h>
#include <string.h>

#include "runtime/random.h"

static bool problem_report(Problem *problem) {
    ArenaMark mark = arena_mark(problem->arena);
    Report report = report_make(problem->arena, problem->graph->sources, &problem->diags);
    cli_progress_end(problem->cli);
    for (int i = 0; i < report.n; i++)
        fputs(report.at[i].text, stderr);
    cli_fail(problem->cli, cli_exit_of(report_status(&problem->diags)));
    arena_release(problem->arena, mark);
    return false;
}

static void problem_set(Problem *problem, int symbol, int64_t value) {
    problem->bindings.value[symbol] = value;
    problem->bindings.known[symbol] = true;
}

static const Value *problem_input_named(const Problem *problem, const char *name) {
    for (size_t i = 0; i < problem->g->inputs.n; i++)
        if (strcmp(problem->g->inputs.at[i]->name, name) == 0)
            return problem->g->inputs.at[i];
    return NULL;
}

/* Dims that stand alone in an input's shape take their value from the file's shape. */
static bool problem_dims_from_files(Problem *problem, const InputFile *files, size_t n) {
    for (size_t f = 0; f < n; f++) {
        const Value *input = problem_input_named(problem, files[f].name);
        if (!input) {
            diag_error(&problem->diags, DIAG_USAGE, (Span){0}, "the graph '%s' has no input '%s'",
                       problem->g->name, files[f].name);
            return false;
        }
        if (input->rank != files[f].raw.rank)
            continue; /* reported with both shapes when the array is copied */
        for (int i = 0; i < input->rank; i++) {
            const Dim *dim = input->dims[i];
            if (dim->kind == DIM_SYMBOL && !problem->bindings.known[dim->symbol])
                problem_set(problem, dim->symbol, files[f].raw.dims[i]);
        }
    }
    return true;
}

static void problem_dims_from_check(Problem *problem, CheckChoice choice) {
    if (choice == CHECK_NONE || !problem->g->checks.n)
        return;
    const Check *check = &problem->g->checks.at[0];
    for (size_t i = 0; i < check->dims.n; i++) {
        const CheckDim *dim = &check->dims.at[i];
        if (dim->n && !problem->bindings.known[dim->symbol])
            problem_set(problem, dim->symbol, dim->values[choice == CHECK_FIRST ? 0 : dim->n - 1]);
    }
}

bool problem_begin(Problem *problem, Cli *cli, Arena *arena, sinter_graph *graph, const sinter_dim *given,
                   int n_given, const InputFile *files, size_t n_files, CheckChoice choice) {
    *problem =
        (Problem){.cli = cli, .arena = arena, .graph = graph, .g = graph->graph, .diags = {.arena = arena}};
    DimTable *table = problem->g->dims;
    int n = dim_symbol_count(table);
    problem->bindings = dim_bindings_new(arena, table);
    for (int i = 0; i < n_given; i++) {
        const Dim *symbol = dim_find_symbol(table, given[i].name);
        if (!symbol) {
            diag_error(&problem->diags, DIAG_USAGE, (Span){0}, "the graph '%s' has no dim '%s'",
                       problem->g->name, given[i].name);
            return problem_report(problem);
        }
        problem_set(problem, symbol->symbol, given[i].value);
    }
    if (!problem_dims_from_files(problem, files, n_files))
        return problem_report(problem);
    problem_dims_from_check(problem, choice);
    problem->dims = ARENA_ARRAY(arena, sinter_dim, (size_t)n + 1);
    problem->n_dims = n;
    for (int i = 0; i < n; i++) {
        const char *name = dim_symbol_name(table, i);
        if (!problem->bindings.known[i])
            diag_error(&problem->diags, DIAG_DIM, (Span){0},
                       "dim '%s' of graph '%s' has no value: give --dim %s=...", name, problem->g->name,
                       name);
        problem->dims[i] = (sinter_dim){name, problem->bindings.value[i]};
    }
    if (problem->diags.errors || !dim_check(table, &problem->bindings, &problem->diags))
        return problem_report(problem);
    return true;
}

bool problem_inputs(Problem *problem, const InputFile *files, size_t n_files, uint64_t seed) {
    const Graph *g = problem->g;
    problem->inputs = ARENA_ARRAY(problem->arena, Array, g->inputs.n + 1);
    for (size_t i = 0; i < g->inputs.n; i++) {
        const Value *input = g->inputs.at[i];
        Array *array = &problem->inputs[i];
        if (!array_for(problem->arena, input, (const Dim *const *)input->strides, &problem->bindings,
                       &problem->diags, array))
            return problem_report(problem);
        const InputFile *file = NULL;
        for (size_t f = 0; f < n_files; f++)
            if (strcmp(files[f].name, input->name) == 0)
                file = &files[f];
        if (file) {
            if (!raw_array_copy(&file->raw, file->file, array, &problem->diags))
                return problem_report(problem);
            continue;
        }
        RandomPlan plan = random_plan(g, input, &problem->bindings);
        random_fill(problem->arena, array, &plan, seed, input->name);
    }
    return true;
}

bool problem_outputs(Problem *problem, Array **out) {
    const Graph *g = problem->g;
    *out = ARENA_ARRAY(problem->arena, Array, g->outputs.n + 1);
    for (size_t i = 0; i < g->outputs.n; i++) {
        const Output *output = &g->outputs.at[i];
        if (!array_for(problem->arena, output->value, (const Dim *const *)output->strides, &problem->bindings,
                       &problem->diags, &(*out)[i]))
            return problem_report(problem);
        memset((*out)[i].at, 0xFF, (size_t)(*out)[i].bytes);
    }
    return true;
}

bool problem_reference(Problem *problem, Tensor **out) {
    const Graph *g = problem->g;
    Tensor *inputs = ARENA_ARRAY(problem->arena, Tensor, g->inputs.n + 1);
    *out = ARENA_ARRAY(problem->arena, Tensor, g->outputs.n + 1);
    for (size_t i = 0; i < g->inputs.n; i++) {
        if (!array_to_tensor(problem->arena, &problem->inputs[i], &inputs[i])) {
            diag_error(&problem->diags, DIAG_DIM, (Span){0}, "input '%s' is too large for the reference",
                       g->inputs.at[i]->name);
            return problem_report(problem);
        }
    }
    return reference_run(problem->arena, g, &problem->bindings, inputs, *out, &problem->diags) ||
           problem_report(problem);
}

bool problem_plan_options(const Problem *problem, sinter_backend backend, sinter_stage stage,
                          sinter_plan_options *out) {
    Cli *cli = problem->cli;
    if (!cli_plan_options(cli, out))
        return false;
    out->backend = backend;
    out->stage = stage;
    cli_plan_dims(cli, problem->dims, problem->n_dims, out);
    return true;
}

sinter_plan *problem_plan(Problem *problem, sinter_backend backend, sinter_stage stage, bool no_fusion,
                          const char **why) {
    Cli *cli = problem->cli;
    sinter_plan_options options;
    *why = "the command line";
    if (!problem_plan_options(problem, backend, stage, &options))
        return NULL;
    options.no_fusion |= no_fusion;
    sinter_plan *plan;
    sinter_status status = sinter_plan_create(cli->context, problem->graph, &options, &plan);
    if (plan)
        cli_plan_diagnostics(cli, plan);
    *why = NULL;
    if (!status)
        return plan;
    *why = sinter_status_text(status);
    const sinter_diagnostic *d;
    for (int i = 0; plan && (d = sinter_plan_diagnostic(plan, i)); i++) {
        if (d->severity == SINTER_ERROR) {
            *why = arena_strdup(problem->arena, d->message);
            break;
        }
    }
    cli_fail(cli, cli_exit_of(status));
    sinter_plan_destroy(plan);
    return NULL;
}

void problem_plan_dims(const Problem *problem, const sinter_plan *plan, int64_t dims[PLAN_DIMS_MOST]) {
    cli_plan_values(plan, problem->dims, problem->n_dims, dims); /* 0: a symbol that binding made needless */
}

const sinter_plan *problem_variant(const Problem *problem, const sinter_plan *plan) {
    int64_t dims[PLAN_DIMS_MOST];
    problem_plan_dims(problem, plan, dims);
    return sinter_plan_select(plan, dims, sinter_plan_dim_count(plan));
}

bool problem_simulate(Problem *problem, const sinter_plan *plan, Array *outputs, const char **why) {
    const Graph *g = problem->g;
    int64_t dims[PLAN_DIMS_MOST];
    char message[1024] = "";
    size_t workspace = 0;
    problem_plan_dims(problem, plan, dims);
    int n_dims = sinter_plan_dim_count(plan);
    sinter_status status = sinter_plan_workspace(plan, dims, n_dims, &workspace);
    void **in = ARENA_ARRAY(problem->arena, void *, g->inputs.n + 1),
         **out = ARENA_ARRAY(problem->arena, void *, g->outputs.n + 1);
    for (size_t i = 0; i < g->inputs.n; i++)
        in[i] = problem->inputs[i].at;
    for (size_t i = 0; i < g->outputs.n; i++)
        out[i] = outputs[i].at;
    void *space = ARENA_ARRAY(problem->arena, uint8_t, workspace + 256);
    memset(space, 0xFF, workspace + 256);
    if (!status)
        status = sinter_plan_simulate(plan, &(sinter_execution){.size = sizeof(sinter_execution),
                                                                .inputs = in,
                                                                .n_inputs = (int)g->inputs.n,
                                                                .outputs = out,
                                                                .n_outputs = (int)g->outputs.n,
                                                                .dims = dims,
                                                                .n_dims = n_dims,
                                                                .workspace = space,
                                                                .workspace_bytes = workspace,
                                                                .message = message,
                                                                .message_room = sizeof message});
    if (!status)
        return true;
    *why = arena_strdup(problem->arena, *message ? message : sinter_status_text(status));
    cli_fail(problem->cli, cli_exit_of(status));
    return false;
}

const char *problem_dims_text(const Problem *problem) {
    Text text = text_new(problem->arena);
    for (int i = 0; i < problem->n_dims; i++)
        text_add(&text, "%s%s=%lld", i ? ", " : "", problem->dims[i].name, (long long)problem->dims[i].value);
    return text.n ? text.at : "";
}

void problem_dims_json(const Problem *problem, Json *json) {
    json_begin(json, "dims", '{');
    for (int i = 0; i < problem->n_dims; i++)
        json_int(json, problem->dims[i].name, problem->dims[i].value);
    json_end(json, '}');
}
