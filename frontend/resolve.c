/* Definitions: from a syntax tree to graphs. Signatures declare dims and inputs, `where` constrains the dims
 * (before types are read, so that K/128*128 is K where 128 divides K), the body is expanded statement by
 * statement, and outputs are taken by name. */
#include <stdlib.h>

#include "frontend/expand.h"
#include "frontend/gradients.h"
#include "ir/verify.h"

extern const char frontend_library_text[];

static const char resolve_library_name[] = "<library>";

typedef struct Resolve {
    Arena *arena;
    SourceSet *sources;
    const FrontendLimits *limits;
    Diags *diags;
    Names functions; /* FunctionSyntax */
    int64_t steps;   /* of the graphs so far */
} Resolve;

/* ---- functions ---- */

static uint32_t resolve_library_source(SourceSet *sources) {
    for (size_t i = 0; i < sources->files.n; i++)
        if (sources->files.at[i].n == strlen(frontend_library_text) &&
            strcmp(sources->files.at[i].name, resolve_library_name) == 0)
            return (uint32_t)i + 1;
    return source_add(sources, resolve_library_name, frontend_library_text, strlen(frontend_library_text));
}

static bool resolve_function(Resolve *resolve, FunctionSyntax *function) {
    const FunctionSyntax *before = names_find(&resolve->functions, function->name.text);
    if (call_is_builtin(function->name.text)) {
        diag_error(resolve->diags, DIAG_REDEFINED, function->name.span,
                   "'%s' is built in; a function needs another name", function->name.text);
        return false;
    }
    if (before && before->in_library == function->in_library) {
        diag_error(resolve->diags, DIAG_REDEFINED, function->name.span, "function '%s' is defined twice",
                   function->name.text);
        diag_note(resolve->diags, before->name.span, "it is defined here first");
        return false;
    }
    for (size_t i = 0; i < function->parameters.n; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(function->parameters.at[i].name.text, function->parameters.at[j].name.text) == 0) {
                diag_error(resolve->diags, DIAG_REDEFINED, function->parameters.at[i].name.span,
                           "parameter '%s' is declared twice", function->parameters.at[i].name.text);
                return false;
            }
    names_put(&resolve->functions, function->name.text, function);
    return true;
}

static bool resolve_library(Resolve *resolve) {
    ModuleSyntax library;
    uint32_t file = resolve_library_source(resolve->sources);
    bool good = parse_source(resolve->arena, resolve->sources, file, NULL, resolve->diags, &library);
    for (size_t i = 0; good && i < library.functions.n; i++) {
        library.functions.at[i]->in_library = true;
        good = resolve_function(resolve, library.functions.at[i]);
    }
    return good;
}

/* ---- where ---- */

static void resolve_constraint(Expand *expand, const ConstraintSyntax *syntax) {
    static const DimRelation relations[] = {
        [OPERATOR_EQ] = DIM_EQ, [OPERATOR_NE] = DIM_NE, [OPERATOR_LT] = DIM_LT,
        [OPERATOR_LE] = DIM_LE, [OPERATOR_GT] = DIM_GT, [OPERATOR_GE] = DIM_GE};
    const Dim *before = NULL;
    for (size_t i = 0; i < syntax->terms.n; i++) {
        const Expr *expr = syntax->terms.at[i];
        const Dim *dim = meaning_dim(expand, expand_expr(expand, expr), expr->span, "a side of a constraint");
        if (!dim)
            return;
        if (syntax->is_set) {
            if (dim->kind != DIM_SYMBOL)
                expand_fail(expand, DIAG_CONSTRAINT, expr->span,
                            "'in' constrains a dim that is a single name");
            else
                dim_constrain_set(expand->graph->dims, dim, syntax->set, syntax->n_set, syntax->span,
                                  expand->diags);
            return;
        }
        if (i > 0 && !dim_constrain(expand->graph->dims, before, relations[syntax->relations.at[i - 1]], dim,
                                    syntax->span, expand->diags))
            return;
        before = dim;
    }
}

/* ---- graphs ---- */

static void resolve_reserve(Expand *expand, const char *name) {
    int *last = ARENA_NEW(expand->arena, int);
    *last = 1;
    names_put(&expand->value_names, name, last);
}

/* Names of the text are the text's: what functions set on the way gets out of their way. */
static void resolve_reserve_all(Expand *expand, const GraphSyntax *syntax) {
    for (size_t i = 0; i < syntax->parameters.n; i++)
        resolve_reserve(expand, syntax->parameters.at[i].name.text);
    for (size_t i = 0; i < syntax->results.n; i++)
        resolve_reserve(expand, syntax->results.at[i].name.text);
    for (size_t i = 0; i < syntax->body.n; i++)
        for (size_t j = 0; j < syntax->body.at[i].targets.n; j++)
            resolve_reserve(expand, syntax->body.at[i].targets.at[j].name.text);
    for (int i = 0; i < dim_symbol_count(expand->graph->dims); i++)
        resolve_reserve(expand, dim_symbol_name(expand->graph->dims, i));
}

static void resolve_inputs(Expand *expand, const GraphSyntax *syntax) {
    for (size_t i = 0; i < syntax->parameters.n; i++) {
        const Declaration *parameter = &syntax->parameters.at[i];
        TypeMeaning type;
        Meaning meaning = {.kind = MEANING_FAILED};
        if (type_meaning(expand, parameter->type, &type))
            meaning = (Meaning){MEANING_TENSOR, .value = graph_add_input(expand->graph, parameter->name.text,
                                                                         type.dtype, type.rank, type.dims,
                                                                         type.strides, parameter->span)};
        expand_bind(expand, parameter->name, meaning);
    }
}

static void resolve_results(Expand *expand, const GraphSyntax *syntax) {
    for (size_t i = 0; i < syntax->results.n; i++) {
        const Declaration *result = &syntax->results.at[i];
        TypeMeaning *type = ARENA_NEW(expand->arena, TypeMeaning);
        const char *name = result->name.text;
        if (names_find(&expand->scope->names, name) || names_find(&expand->outputs, name))
            expand_fail(expand, DIAG_REDEFINED, result->name.span, "'%s' is declared twice", name);
        else if (type_meaning(expand, result->type, type)) {
            type->has_dims = true;
            names_put(&expand->outputs, name, type);
        }
    }
}

static void resolve_outputs(Expand *expand, const GraphSyntax *syntax) {
    if (syntax->results.n == 0)
        expand_fail(expand, DIAG_OUTPUT, syntax->name.span, "graph '%s' has no output", syntax->name.text);
    for (size_t i = 0; i < syntax->results.n; i++) {
        const Declaration *result = &syntax->results.at[i];
        const TypeMeaning *type = names_find(&expand->outputs, result->name.text);
        const Binding *binding = names_find(&expand->scope->names, result->name.text);
        if (!binding)
            expand_fail(expand, DIAG_OUTPUT, result->span, "the output '%s' is never set", result->name.text);
        else if (type && binding->meaning.kind == MEANING_TENSOR)
            graph_add_output(expand->graph, result->name.text, binding->meaning.value, type->strides,
                             result->span);
    }
}

static Graph *resolve_graph(Resolve *resolve, const GraphSyntax *syntax) {
    int errors = resolve->diags->errors;
    Graph *graph = graph_new(resolve->arena, syntax->name.text);
    graph->span = syntax->span;
    Scope scope = {.names = names_new(resolve->arena)};
    Expand expand = {.arena = resolve->arena,
                     .diags = resolve->diags,
                     .limits = resolve->limits,
                     .graph = graph,
                     .functions = &resolve->functions,
                     .scope = &scope,
                     .outputs = names_new(resolve->arena),
                     .value_names = names_new(resolve->arena),
                     .steps = resolve->steps};
    for (size_t i = 0; i < syntax->parameters.n; i++)
        type_declare(&expand, syntax->parameters.at[i].type);
    for (size_t i = 0; i < syntax->results.n; i++)
        type_declare(&expand, syntax->results.at[i].type);
    for (size_t i = 0; i < syntax->constraints.n; i++)
        resolve_constraint(&expand, &syntax->constraints.at[i]);
    if (resolve->diags->errors == errors) {
        resolve_inputs(&expand, syntax);
        resolve_results(&expand, syntax);
        resolve_reserve_all(&expand, syntax);
    }
    if (resolve->diags->errors == errors) {
        Meaning returned;
        statement_body(&expand, &syntax->body, &returned);
        if (!expand.stopped)
            resolve_outputs(&expand, syntax);
    }
    resolve->steps = expand.steps;
    for (size_t i = 0; i < graph->values.n; i++)
        graph->values.at[i]->scratch = NULL;
    if (resolve->diags->errors > errors)
        return NULL;
    graph_renumber(graph);
    return graph_verify(graph, "the front end", resolve->diags) ? graph : NULL;
}

/* ---- checks ---- */

static void resolve_check_item(Resolve *resolve, const Graph *graph, const CheckItem *item, Check *check) {
    const char *name = item->name.text;
    const Dim *symbol = dim_find_symbol(graph->dims, name);
    bool one = item->is_real || item->n_set == 1;
    double value = item->is_real ? item->real : (double)item->set[0];
    if (symbol && !item->is_real) {
        for (size_t i = 0; i < check->dims.n; i++)
            if (check->dims.at[i].symbol == symbol->symbol) {
                diag_error(resolve->diags, DIAG_CHECK, item->span, "'%s' is given twice", name);
                return;
            }
        CheckDim dim = {symbol->symbol, item->set, item->n_set};
        vec_push(graph->arena, &check->dims, dim);
    } else if (!symbol && strcmp(name, "rtol") == 0 && one) {
        check->rtol = value;
    } else if (!symbol && strcmp(name, "atol") == 0 && one) {
        check->atol = value;
    } else if (!symbol && strcmp(name, "seed") == 0 && one && !item->is_real) {
        check->seed = item->set[0];
    } else if (symbol || strcmp(name, "rtol") == 0 || strcmp(name, "atol") == 0 ||
               strcmp(name, "seed") == 0) {
        diag_error(resolve->diags, DIAG_CHECK, item->span, "'%s' takes %s", name,
                   symbol || strcmp(name, "seed") == 0 ? "whole numbers" : "one number");
    } else {
        Suggestion near = suggestion_new(name);
        static const char *const settings[] = {"rtol", "atol", "seed"};
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            suggestion_offer(&near, settings[i]);
        for (int i = 0; i < dim_symbol_count(graph->dims); i++)
            suggestion_offer(&near, dim_symbol_name(graph->dims, i));
        diag_error(resolve->diags, DIAG_CHECK, item->name.span,
                   "'%s' is no dim of '%s' and no setting of a check%s", name, graph->name,
                   suggestion_text(resolve->arena, &near));
    }
}

static void resolve_check(Resolve *resolve, const CheckSyntax *syntax, const Names *graphs) {
    Graph *graph = names_find(graphs, syntax->graph.text);
    if (!graph) {
        Suggestion near = suggestion_new(syntax->graph.text);
        suggestion_offer_all(&near, graphs);
        diag_error(resolve->diags, DIAG_CHECK, syntax->graph.span, "there is no graph '%s'%s",
                   syntax->graph.text, suggestion_text(resolve->arena, &near));
        return;
    }
    Check check = {.rtol = -1, .atol = -1, .span = syntax->span};
    for (size_t i = 0; i < syntax->items.n; i++)
        resolve_check_item(resolve, graph, &syntax->items.at[i], &check);
    for (int s = 0; s < dim_symbol_count(graph->dims); s++) {
        bool given = false;
        for (size_t i = 0; i < check.dims.n; i++)
            given |= check.dims.at[i].symbol == s;
        if (!given)
            diag_error(resolve->diags, DIAG_CHECK, syntax->graph.span,
                       "the check gives no value for the dim '%s'", dim_symbol_name(graph->dims, s));
    }
    vec_push(graph->arena, &graph->checks, check);
}

/* As the text has them: a gradient is derived behind the graphs. */
static int resolve_in_order(const void *a, const void *b) {
    uint32_t first = (*(Graph *const *)a)->span.begin, second = (*(Graph *const *)b)->span.begin;
    return first < second ? -1 : first > second;
}

bool frontend_parse(Arena *arena, SourceSet *sources, uint32_t file, const FrontendLimits *limits,
                    Diags *diags, Module *out) {
    FrontendLimits full = frontend_limits(limits);
    Resolve resolve = {arena, sources, &full, diags, names_new(arena), 0};
    ModuleSyntax module;
    int errors = diags->errors;
    *out = (Module){0};
    if (!parse_source(arena, sources, file, &full, diags, &module) || !resolve_library(&resolve))
        return false;
    for (size_t i = 0; i < module.functions.n; i++)
        resolve_function(&resolve, module.functions.at[i]);
    Names graphs = names_new(arena), declared = names_new(arena);
    for (size_t i = 0; i < module.graphs.n; i++) {
        GraphSyntax *syntax = module.graphs.at[i];
        const GraphSyntax *before = names_find(&declared, syntax->name.text);
        if (before) {
            diag_error(diags, DIAG_REDEFINED, syntax->name.span, "graph '%s' is defined twice",
                       syntax->name.text);
            diag_note(diags, before->name.span, "it is defined here first");
            continue;
        }
        names_put(&declared, syntax->name.text, syntax);
        Graph *graph = resolve_graph(&resolve, syntax);
        if (!graph)
            continue;
        names_put(&graphs, graph->name, graph);
        vec_push(arena, &out->graphs, graph);
    }
    Gradients gradients = {arena, diags, &full, &declared, &graphs, {0}, 0};
    gradients_resolve(&gradients, &module, out);
    if (out->graphs.n)
        qsort(out->graphs.at, out->graphs.n, sizeof *out->graphs.at, resolve_in_order);
    bool sound = diags->errors == errors; /* checks of graphs that failed would only repeat it */
    for (size_t i = 0; i < module.checks.n && sound; i++)
        resolve_check(&resolve, module.checks.at[i], &graphs);
    if (module.graphs.n == 0 && diags->errors == errors) {
        Span start = {file, 0, sources->files.at[file - 1].n > 0, 0};
        diag_error(diags, DIAG_SYNTAX, start, "the file defines no graph");
    }
    return diags->errors == errors;
}
