/* Works out expressions and inlines functions.
 *
 * A function sees its parameters and what it sets itself, nothing of its caller. Parameters are bound to
 * Meanings, so that one function serves tensors, axes, words and absent arguments alike; `a if c else b`
 * works out the condition now and then one branch alone. Functions of the library count as one place, the
 * call in the user's text: the Values made there and the errors found there point at it.
 *
 * Termination: a function may not be active twice (no recursion), calls nest to a limit, and every expression
 * worked out is a counted step, so that a chain of doubling calls ends in a diagnostic, not in exponential
 * time. */
#include "frontend/expand.h"

#include "ir/print.h"

enum { EXPAND_MOST_STEPS = 400000, EXPAND_DEEPEST = 3000, EXPAND_NOTES = 6, EXPAND_MOST_ERRORS = 500 };

const char *meaning_noun(const Meaning *meaning) {
    static const char *const nouns[] = {
        [MEANING_FAILED] = "an error",   [MEANING_TENSOR] = "a tensor",
        [MEANING_WHOLE] = "a number",    [MEANING_REAL] = "a real number",
        [MEANING_DIM] = "a dim",         [MEANING_TRUTH] = "true or false",
        [MEANING_TYPE] = "a type",       [MEANING_WORD] = "a word",
        [MEANING_LIST] = "a list",       [MEANING_SEVERAL] = "several results",
        [MEANING_NONE] = "none (absent)"};
    return nouns[meaning->kind];
}

/* The outermost scope of the library that leads to the present one, or NULL. */
static const Scope *expand_library_scope(const Expand *expand) {
    const Scope *outermost = NULL;
    for (const Scope *s = expand->scope; s; s = s->caller)
        if (s->function && s->function->in_library)
            outermost = s;
    return outermost;
}

Span expand_place(const Expand *expand, Span span) {
    const Scope *library = expand_library_scope(expand);
    return library ? library->call : span;
}

static void expand_note_calls(Expand *expand, Span span) {
    const Scope *library = expand_library_scope(expand);
    if (library)
        diag_note(expand->diags, span, "in '%s' of the library", expand->scope->function->name.text);
    int notes = 0;
    for (const Scope *s = library ? library->caller : expand->scope; s && s->function && notes < EXPAND_NOTES;
         s = s->caller, notes++)
        diag_note(expand->diags, s->call, "in this call of '%s'", s->function->name.text);
}

Meaning expand_fail(Expand *expand, DiagId id, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Text text = text_new(expand->arena);
    text_addv(&text, format, args);
    va_end(args);
    diag_error(expand->diags, id, expand_place(expand, span), "%s", text.at);
    expand_note_calls(expand, span);
    expand->stopped |= expand->diags->errors >= EXPAND_MOST_ERRORS;
    return (Meaning){.kind = MEANING_FAILED};
}

static Meaning expand_stop(Expand *expand, Span span, const char *what, int64_t limit) {
    if (!expand->stopped)
        expand_fail(expand, DIAG_LIMIT, span, "%s (%lld)", what, (long long)limit);
    expand->stopped = true;
    return (Meaning){.kind = MEANING_FAILED};
}

/* The input that a value is a view of, or NULL: what a reader knows by name and type. */
static const Value *expand_declared(const Value *value) {
    while (value->op == OP_transpose || value->op == OP_cast || value->op == OP_reshape)
        value = value->in[0];
    return value->op == OP_input ? value : NULL;
}

Meaning expand_append(Expand *expand, OpKind op, Value **in, int n_in, const Attr *attrs, Span span) {
    if (expand->stopped)
        return (Meaning){.kind = MEANING_FAILED};
    if (expand->graph->values.n >= (size_t)expand->limits->max_values)
        return expand_stop(expand, span, "the graph has too many operations", expand->limits->max_values);
    int errors = expand->diags->errors;
    Value *value =
        graph_append(expand->graph, op, in, n_in, attrs, expand_place(expand, span), expand->diags);
    if (value)
        return (Meaning){.kind = MEANING_TENSOR, .value = value};
    if (expand->diags->errors == errors)
        return expand_fail(expand, DIAG_DIM, span, "the dims of this result overflow 64 bits");
    for (int i = 0; i < n_in; i++) {
        const Value *input = in[i]->name ? NULL : expand_declared(in[i]);
        if (!input)
            continue;
        Text type = text_new(expand->arena);
        value_print_type(&type, expand->graph, input);
        diag_note(expand->diags, input->span, "'%s' is declared %s here", input->name, type.at);
    }
    expand_note_calls(expand, span);
    return (Meaning){.kind = MEANING_FAILED};
}

/* ---- names ---- */

static Binding *expand_find(const Expand *expand, const char *name) {
    return names_find(&expand->scope->names, name);
}

/* A Value keeps the name that its statement gives it; a name that another Value of the graph has gets a
 * number. */
static void expand_name_value(Expand *expand, Word name, Value *value) {
    if (value->name || value->op == OP_input)
        return;
    const char *unique = name.text;
    int *last = names_find(&expand->value_names, name.text);
    if (!last) {
        last = ARENA_NEW(expand->arena, int);
        names_put(&expand->value_names, name.text, last);
        *last = 1;
    } else if (expand->scope->function) {
        do
            unique = text_format(expand->arena, "%s_%d", name.text, ++*last);
        while (names_find(&expand->value_names, unique));
        int *taken = ARENA_NEW(expand->arena, int);
        *taken = 1;
        names_put(&expand->value_names, unique, taken);
    }
    value->name = unique;
}

void expand_bind(Expand *expand, Word name, Meaning meaning) {
    if (strcmp(name.text, "_") == 0)
        return;
    Binding *before = expand_find(expand, name.text);
    if (before) {
        expand_fail(expand, DIAG_REDEFINED, name.span, "'%s' is set twice", name.text);
        if (!expand_library_scope(expand))
            diag_note(expand->diags, before->declared, "it is set here first");
        return;
    }
    if (!expand->scope->function && dim_find_symbol(expand->graph->dims, name.text)) {
        expand_fail(expand, DIAG_REDEFINED, name.span, "'%s' names a dim already", name.text);
        return;
    }
    Binding *binding = ARENA_NEW(expand->arena, Binding);
    *binding = (Binding){meaning, name.span};
    names_put(&expand->scope->names, name.text, binding);
    if (meaning.kind == MEANING_TENSOR)
        expand_name_value(expand, name, meaning.value);
}

static Meaning expand_unknown(Expand *expand, Word name) {
    Suggestion near = suggestion_new(name.text);
    suggestion_offer_all(&near, &expand->scope->names);
    if (!expand->scope->function)
        for (int i = 0; i < dim_symbol_count(expand->graph->dims); i++)
            suggestion_offer(&near, dim_symbol_name(expand->graph->dims, i));
    const char *hint = suggestion_text(expand->arena, &near);
    if (expand->scope->function && !near.best && dim_find_symbol(expand->graph->dims, name.text))
        hint = ": a function sees its parameters alone; pass the dim";
    else if (!near.best && (call_is_builtin(name.text) || names_find(expand->functions, name.text)))
        hint = ": it is a function; call it";
    return expand_fail(expand, DIAG_UNKNOWN_NAME, name.span, "unknown name '%s'%s", name.text, hint);
}

static Meaning expand_name(Expand *expand, Word name) {
    Binding *binding = expand_find(expand, name.text);
    if (binding)
        return binding->meaning;
    if (!expand->scope->function) {
        const Dim *symbol = dim_find_symbol(expand->graph->dims, name.text);
        if (symbol)
            return (Meaning){.kind = MEANING_DIM, .dim = symbol};
    }
    if (strcmp(name.text, "inf") == 0)
        return (Meaning){.kind = MEANING_REAL, .real = 1.0 / 0.0};
    if (strcmp(name.text, "nan") == 0)
        return (Meaning){.kind = MEANING_REAL, .real = 0.0 / 0.0};
    if (strcmp(name.text, "true") == 0 || strcmp(name.text, "false") == 0)
        return (Meaning){.kind = MEANING_TRUTH, .truth = name.text[0] == 't'};
    if (strcmp(name.text, "none") == 0)
        return (Meaning){.kind = MEANING_NONE};
    DType dtype = dtype_find(name.text);
    if (dtype != DTYPE_COUNT)
        return (Meaning){.kind = MEANING_TYPE, .dtype = dtype};
    return expand_unknown(expand, name);
}

/* ---- functions ---- */

/* The word that an argument gives to a parameter with choices: written as such, or handed on from the
 * caller's own parameter. */
static Meaning expand_choice(Expand *expand, const FunctionParameter *parameter, const Expr *argument) {
    const char *word = NULL;
    if (argument->kind == EXPR_NAME) {
        Binding *binding = expand_find(expand, argument->name);
        word = binding && binding->meaning.kind == MEANING_WORD ? binding->meaning.word : argument->name;
    }
    Suggestion near = suggestion_new(word ? word : "");
    Text list = text_new(expand->arena);
    for (size_t i = 0; i < parameter->choices.n; i++) {
        const char *choice = parameter->choices.at[i].text;
        if (word && strcmp(choice, word) == 0)
            return (Meaning){.kind = MEANING_WORD, .word = choice};
        suggestion_offer(&near, choice);
        text_add(&list, "%s%s", i ? " or " : "", choice);
    }
    return expand_fail(expand, DIAG_ATTRIBUTE, argument->span, "'%s' is one of the words %s%s",
                       parameter->name.text, list.at, suggestion_text(expand->arena, &near));
}

static const FunctionParameter *expand_parameter(const FunctionSyntax *function, const char *name,
                                                 size_t *at) {
    for (size_t i = 0; i < function->parameters.n; i++)
        if (strcmp(function->parameters.at[i].name.text, name) == 0) {
            *at = i;
            return &function->parameters.at[i];
        }
    return NULL;
}

/* Which argument goes to which parameter: given[p] becomes its expression. */
static bool expand_match(Expand *expand, const Expr *call, const FunctionSyntax *function,
                         const Expr **given) {
    bool good = true, named = false;
    for (size_t i = 0; i < call->arguments.n; i++) {
        const Argument *argument = &call->arguments.at[i];
        size_t at = i;
        if (argument->name.text) {
            named = true;
            if (!expand_parameter(function, argument->name.text, &at)) {
                Suggestion near = suggestion_new(argument->name.text);
                for (size_t p = 0; p < function->parameters.n; p++)
                    suggestion_offer(&near, function->parameters.at[p].name.text);
                expand_fail(expand, DIAG_ARGUMENTS, argument->name.span, "'%s' has no parameter '%s'%s",
                            function->name.text, argument->name.text, suggestion_text(expand->arena, &near));
                good = false;
                continue;
            }
        } else if (named) {
            expand_fail(expand, DIAG_ARGUMENTS, argument->value->span,
                        "an argument without a name may not follow one with a name");
            good = false;
            continue;
        } else if (i >= function->parameters.n) {
            expand_fail(expand, DIAG_ARGUMENTS, argument->value->span, "'%s' takes %zu argument%s, not %zu",
                        function->name.text, function->parameters.n, function->parameters.n == 1 ? "" : "s",
                        call->arguments.n);
            return false;
        }
        if (given[at]) {
            expand_fail(expand, DIAG_ARGUMENTS, argument->value->span, "'%s' is given twice",
                        function->parameters.at[at].name.text);
            good = false;
            continue;
        }
        given[at] = argument->value;
    }
    return good;
}

static bool expand_is_active(const Expand *expand, const FunctionSyntax *function) {
    for (const Scope *s = expand->scope; s; s = s->caller)
        if (s->function == function)
            return true;
    return false;
}

static Meaning expand_function(Expand *expand, const Expr *call, const FunctionSyntax *function) {
    if (expand_is_active(expand, function))
        return expand_fail(expand, DIAG_RECURSION, call->callee.span,
                           "'%s' calls itself; functions are inlined, so they cannot recur",
                           function->name.text);
    if (expand->calls >= expand->limits->max_expansion)
        return expand_stop(expand, call->span, "calls of functions are nested too deeply",
                           expand->limits->max_expansion);
    size_t n = function->parameters.n;
    const Expr **given = ARENA_ARRAY(expand->arena, const Expr *, n + 1);
    if (!expand_match(expand, call, function, given))
        return (Meaning){.kind = MEANING_FAILED};

    Meaning *values = ARENA_ARRAY(expand->arena, Meaning, n + 1);
    bool good = true;
    for (size_t p = 0; p < n; p++) {
        const FunctionParameter *parameter = &function->parameters.at[p];
        if (given[p]) {
            values[p] = parameter->choices.n ? expand_choice(expand, parameter, given[p])
                                             : expand_expr(expand, given[p]);
            if (values[p].kind == MEANING_SEVERAL)
                values[p] = expand_fail(expand, DIAG_ARGUMENTS, given[p]->span,
                                        "this call has several results; set names to them first");
            good &= values[p].kind != MEANING_FAILED;
        } else if (!parameter->fallback) {
            expand_fail(expand, DIAG_ARGUMENTS, call->callee.span, "'%s' lacks its argument '%s'",
                        function->name.text, parameter->name.text);
            good = false;
        }
    }
    if (!good)
        return (Meaning){.kind = MEANING_FAILED};

    Scope scope = {names_new(expand->arena), function, expand->scope, call->span};
    expand->scope = &scope;
    expand->calls++;
    for (size_t p = 0; p < n; p++) {
        const FunctionParameter *parameter = &function->parameters.at[p];
        if (!given[p])
            values[p] = parameter->choices.n ? expand_choice(expand, parameter, parameter->fallback)
                                             : expand_expr(expand, parameter->fallback);
        Binding *binding = ARENA_NEW(expand->arena, Binding);
        *binding = (Binding){values[p], parameter->name.span};
        names_put(&scope.names, parameter->name.text, binding);
    }
    Meaning result;
    if (!statement_body(expand, &function->body, &result))
        result = expand_fail(expand, DIAG_ARGUMENTS, function->name.span, "'%s' returns nothing",
                             function->name.text);
    expand->calls--;
    expand->scope = scope.caller;
    return result;
}

static Meaning expand_call(Expand *expand, const Expr *call) {
    const FunctionSyntax *function = names_find(expand->functions, call->callee.text);
    if (function)
        return expand_function(expand, call, function);
    if (call_is_planned(call->callee.text))
        return expand_fail(expand, DIAG_UNSUPPORTED, call->callee.span,
                           "'%s' is not supported by this version", call->callee.text);
    if (!call_is_builtin(call->callee.text)) {
        Suggestion near = suggestion_new(call->callee.text);
        suggestion_offer_all(&near, expand->functions);
        call_suggest(&near);
        return expand_fail(expand, DIAG_UNKNOWN_OP, call->callee.span, "unknown function '%s'%s",
                           call->callee.text, suggestion_text(expand->arena, &near));
    }
    Meaning *arguments = ARENA_ARRAY(expand->arena, Meaning, call->arguments.n + 1);
    bool good = true;
    for (size_t i = 0; i < call->arguments.n; i++) {
        const Argument *argument = &call->arguments.at[i];
        arguments[i] = expand_expr(expand, argument->value);
        if (arguments[i].kind == MEANING_SEVERAL)
            arguments[i] = expand_fail(expand, DIAG_ARGUMENTS, argument->value->span,
                                       "this call has several results; set names to them first");
        good &= arguments[i].kind != MEANING_FAILED;
    }
    return good ? call_builtin(expand, call, arguments) : (Meaning){.kind = MEANING_FAILED};
}

/* ---- expressions ---- */

static Meaning expand_if(Expand *expand, const Expr *expr) {
    Meaning condition = expand_expr(expand, expr->condition);
    if (condition.kind == MEANING_FAILED)
        return condition;
    if (condition.kind != MEANING_TRUTH)
        return expand_fail(
            expand, DIAG_ATTRIBUTE, expr->condition->span,
            "the condition of 'if' must be true or false when the graph is written, and is %s; element by "
            "element, it is select(condition, a, b)",
            meaning_noun(&condition));
    return expand_expr(expand, condition.truth ? expr->then : expr->otherwise);
}

/* `approx == tanh`: a name that means nothing else is a word where the other side is one. */
static Meaning expand_word_or_expr(Expand *expand, const Expr *expr, const Expr *other) {
    if (expr->kind == EXPR_NAME && other->kind == EXPR_NAME && !expand_find(expand, expr->name)) {
        Binding *binding = expand_find(expand, other->name);
        if (binding && binding->meaning.kind == MEANING_WORD)
            return (Meaning){.kind = MEANING_WORD, .word = expr->name};
    }
    return expand_expr(expand, expr);
}

static Meaning expand_binary(Expand *expand, const Expr *expr) {
    bool compares = expr->operator_ == OPERATOR_EQ || expr->operator_ == OPERATOR_NE;
    Meaning a = compares ? expand_word_or_expr(expand, expr->a, expr->b) : expand_expr(expand, expr->a);
    bool decided = a.kind == MEANING_TRUTH && ((expr->operator_ == OPERATOR_AND && !a.truth) ||
                                               (expr->operator_ == OPERATOR_OR && a.truth));
    if (decided && expand->scope->function)
        return a;
    Meaning b = compares ? expand_word_or_expr(expand, expr->b, expr->a) : expand_expr(expand, expr->b);
    return operator_binary(expand, expr, a, b);
}

static Meaning expand_list(Expand *expand, const Expr *expr) {
    Meaning list = {.kind = MEANING_LIST,
                    .list = {ARENA_ARRAY(expand->arena, Meaning, expr->items.n + 1), (int)expr->items.n}};
    for (size_t i = 0; i < expr->items.n; i++) {
        list.list.at[i] = expand_expr(expand, expr->items.at[i]);
        if (list.list.at[i].kind == MEANING_FAILED)
            return list.list.at[i];
    }
    return list;
}

static Meaning expand_node(Expand *expand, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NAME: return expand_name(expand, (Word){expr->name, expr->span});
    case EXPR_WHOLE: return (Meaning){.kind = MEANING_WHOLE, .whole = expr->whole};
    case EXPR_REAL: return (Meaning){.kind = MEANING_REAL, .real = expr->real};
    case EXPR_UNARY: return operator_unary(expand, expr, expand_expr(expand, expr->a));
    case EXPR_BINARY: return expand_binary(expand, expr);
    case EXPR_CALL: return expand_call(expand, expr);
    case EXPR_LIST: return expand_list(expand, expr);
    case EXPR_FIELD: return indexing_field(expand, expr, expand_expr(expand, expr->of));
    case EXPR_INDEX: return indexing_index(expand, expr, expand_expr(expand, expr->indexed));
    case EXPR_IF: return expand_if(expand, expr);
    }
    return (Meaning){.kind = MEANING_FAILED};
}

Meaning expand_expr(Expand *expand, const Expr *expr) {
    if (expand->stopped)
        return (Meaning){.kind = MEANING_FAILED};
    if (++expand->steps > EXPAND_MOST_STEPS)
        return expand_stop(expand, expr->span, "the text takes too many steps to expand", EXPAND_MOST_STEPS);
    if (expand->depth >= EXPAND_DEEPEST)
        return expand_stop(expand, expr->span, "expressions and calls are nested too deeply", EXPAND_DEEPEST);
    expand->depth++;
    Meaning meaning = expand_node(expand, expr);
    expand->depth--;
    return meaning;
}
