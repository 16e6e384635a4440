/* Gradients by name: which graph, which of its inputs, and in which order those that are made of one another
 * come. */
#include "frontend/gradients.h"

#include "ir/gradient.h"
#include "ir/print.h"
#include "ir/verify.h"

enum { GRADIENTS_MOST_VALUES = 400000 }; /* of a file */

typedef struct OwnGradient {
    const GradientSyntax *syntax;
    enum { GRADIENT_UNSEEN, GRADIENT_OPEN, GRADIENT_DONE } state;
} OwnGradient;

static void gradients_fail(Gradients *g, DiagId id, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void gradients_fail(Gradients *g, DiagId id, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Text text = text_new(g->arena);
    text_addv(&text, format, args);
    va_end(args);
    diag_error(g->diags, id, span, "%s", text.at);
}

/* ---- arguments ---- */

/* The graph's name and the list, NULL where none is given. */
static bool gradients_arguments(Gradients *g, const GradientSyntax *syntax, const Expr **graph,
                                const Expr **of) {
    *graph = *of = NULL;
    if (strcmp(syntax->callee.text, "gradient") != 0) {
        gradients_fail(g, DIAG_UNKNOWN_OP, syntax->callee.span,
                       "what 'grad' defines is 'gradient(graph, of=[inputs])', not a call of '%s'",
                       syntax->callee.text);
        return false;
    }
    for (size_t i = 0; i < syntax->arguments.n; i++) {
        const Argument *argument = &syntax->arguments.at[i];
        bool is_of = argument->name.text ? strcmp(argument->name.text, "of") == 0 : i == 1;
        if (is_of ? *of != NULL : argument->name.text || i > 0) {
            gradients_fail(g, DIAG_ARGUMENTS,
                           argument->name.text ? argument->name.span : argument->value->span,
                           "'gradient' takes a graph and, once, 'of': a list of its inputs");
            return false;
        }
        *(is_of ? of : graph) = argument->value;
    }
    if (*graph && (*graph)->kind == EXPR_NAME)
        return true;
    gradients_fail(g, DIAG_ARGUMENTS, *graph ? (*graph)->span : syntax->callee.span,
                   "'gradient' takes the name of a graph");
    return false;
}

static int gradients_input(const Graph *graph, const char *name) {
    for (size_t i = 0; i < graph->inputs.n; i++)
        if (strcmp(graph->inputs.at[i]->name, name) == 0)
            return (int)i;
    return -1;
}

/* The number of the input that is named, once, as one that has a gradient; -1 after an error. */
static int gradients_wanted(Gradients *g, const Graph *graph, const Expr *name, const bool *seen) {
    if (name->kind != EXPR_NAME) {
        gradients_fail(g, DIAG_ARGUMENTS, name->span, "'of' is a list of names of inputs of '%s'",
                       graph->name);
        return -1;
    }
    int input = gradients_input(graph, name->name);
    if (input < 0) {
        Suggestion near = suggestion_new(name->name);
        for (size_t i = 0; i < graph->inputs.n; i++)
            suggestion_offer(&near, graph->inputs.at[i]->name);
        gradients_fail(g, DIAG_UNKNOWN_NAME, name->span, "'%s' is no input of '%s'%s", name->name,
                       graph->name, suggestion_text(g->arena, &near));
        return -1;
    }
    const Value *value = graph->inputs.at[input];
    if (!dtype_is_float(value->dtype)) {
        Text type = text_new(g->arena);
        value_print_type(&type, graph, value);
        gradients_fail(g, DIAG_TYPE_MISMATCH, name->span,
                       "'%s' has no gradient: it is no tensor of a floating-point type", name->name);
        diag_note(g->diags, value->span, "'%s' is declared %s here", name->name, type.at);
        return -1;
    }
    if (seen[input]) {
        gradients_fail(g, DIAG_REDEFINED, name->span, "'%s' is named twice", name->name);
        return -1;
    }
    return input;
}

/* The inputs asked for, or where nobody says, all that have a gradient. */
static bool gradients_of(Gradients *g, const Graph *graph, const Expr *list, Span span,
                         GradientRequest *request) {
    int *of = ARENA_ARRAY(g->arena, int, graph->inputs.n + 1);
    bool *seen = ARENA_ARRAY(g->arena, bool, graph->inputs.n + 1), good = true;
    request->of = of;
    for (size_t i = 0; !list && i < graph->inputs.n; i++)
        if (dtype_is_float(graph->inputs.at[i]->dtype))
            of[request->n++] = (int)i;
    size_t n = list ? list->kind == EXPR_LIST ? list->items.n : 1 : 0;
    for (size_t i = 0; i < n; i++) {
        int input = gradients_wanted(g, graph, list->kind == EXPR_LIST ? list->items.at[i] : list, seen);
        good &= input >= 0;
        if (input < 0)
            continue;
        seen[input] = true;
        of[request->n++] = input;
    }
    if (good && request->n == 0)
        gradients_fail(g, DIAG_ARGUMENTS, list ? list->span : span,
                       list ? "'of' names no input" : "'%s' has no input of a floating-point type",
                       graph->name);
    return good && request->n > 0;
}

static bool gradients_has_output(const Graph *graph) {
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (dtype_is_float(graph->outputs.at[i].value->dtype))
            return true;
    return false;
}

/* ---- graphs ---- */

static void gradients_one(Gradients *g, OwnGradient *own, int depth, Module *out);

/* The graph of this name, derived first where it is a gradient itself; NULL after an error. */
static Graph *gradients_source(Gradients *g, const Expr *name, int depth, Module *out) {
    OwnGradient *own = names_find(&g->own, name->name);
    if (own && own->state == GRADIENT_OPEN) {
        gradients_fail(g, DIAG_RECURSION, name->span, "the gradient '%s' would be made of itself",
                       name->name);
        return NULL;
    }
    if (own && depth >= g->limits->max_expansion) {
        gradients_fail(g, DIAG_LIMIT, name->span, "gradients of gradients are nested too deeply (%d)",
                       g->limits->max_expansion);
        return NULL;
    }
    if (own)
        gradients_one(g, own, depth + 1, out);
    Graph *graph = names_find(g->graphs, name->name);
    if (!graph && !own && !names_find(g->declared, name->name)) {
        Suggestion near = suggestion_new(name->name);
        suggestion_offer_all(&near, g->declared);
        suggestion_offer_all(&near, &g->own);
        gradients_fail(g, DIAG_UNKNOWN_NAME, name->span, "there is no graph '%s'%s", name->name,
                       suggestion_text(g->arena, &near));
    }
    return graph; /* of one that is not sound, an error speaks already */
}

static Graph *gradients_derive(Gradients *g, const GradientSyntax *syntax, int depth, Module *out) {
    const Expr *name, *of;
    if (!gradients_arguments(g, syntax, &name, &of))
        return NULL;
    const Graph *source = gradients_source(g, name, depth, out);
    if (!source)
        return NULL;
    int64_t left = GRADIENTS_MOST_VALUES - g->values;
    GradientRequest request = {.name = syntax->name.text,
                               .span = syntax->span,
                               .max_values =
                                   (size_t)(left < g->limits->max_values ? left : g->limits->max_values)};
    if (!gradients_of(g, source, of, name->span, &request))
        return NULL;
    if (!gradients_has_output(source)) {
        gradients_fail(g, DIAG_TYPE_MISMATCH, name->span, "'%s' has no output of a floating-point type",
                       source->name);
        return NULL;
    }
    Graph *graph = gradient_build(g->arena, source, &request, g->diags);
    if (!graph || !graph_verify(graph, "deriving gradients", g->diags))
        return NULL;
    g->values += (int64_t)graph->values.n;
    return graph;
}

static void gradients_one(Gradients *g, OwnGradient *own, int depth, Module *out) {
    if (own->state != GRADIENT_UNSEEN)
        return;
    own->state = GRADIENT_OPEN;
    Graph *graph = gradients_derive(g, own->syntax, depth, out);
    own->state = GRADIENT_DONE;
    if (!graph)
        return;
    names_put(g->graphs, graph->name, graph);
    vec_push(g->arena, &out->graphs, graph);
}

void gradients_resolve(Gradients *g, const ModuleSyntax *syntax, Module *out) {
    g->own = names_new(g->arena);
    for (size_t i = 0; i < syntax->gradients.n; i++) {
        const GradientSyntax *gradient = syntax->gradients.at[i];
        const char *name = gradient->name.text;
        const GraphSyntax *graph = names_find(g->declared, name);
        const OwnGradient *before = names_find(&g->own, name);
        if (graph || before) {
            gradients_fail(g, DIAG_REDEFINED, gradient->name.span, "graph '%s' is defined twice", name);
            diag_note(g->diags, graph ? graph->name.span : before->syntax->name.span,
                      "it is defined here first");
            continue;
        }
        OwnGradient *own = ARENA_NEW(g->arena, OwnGradient);
        own->syntax = gradient;
        names_put(&g->own, name, own);
    }
    for (size_t i = 0; i < syntax->gradients.n; i++) {
        OwnGradient *own = names_find(&g->own, syntax->gradients.at[i]->name.text);
        if (own && own->syntax == syntax->gradients.at[i])
            gradients_one(g, own, 0, out);
    }
}
