/* Statements: the names that a body sets, with the types declared for them and the hints behind them. */
#include "frontend/expand.h"

static const char *const statement_hints[] = {"expect", "schedule", "allow", "fuse"};

static void statement_hint(Expand *expand, const HintSyntax *syntax, Meaning meaning) {
    Suggestion near = suggestion_new(syntax->name.text);
    bool known = false;
    for (size_t i = 0; i < sizeof statement_hints / sizeof *statement_hints; i++) {
        known |= strcmp(statement_hints[i], syntax->name.text) == 0;
        suggestion_offer(&near, statement_hints[i]);
    }
    if (!known) {
        expand_fail(expand, DIAG_HINT, syntax->name.span, "unknown hint '@%s'%s", syntax->name.text,
                    near.best ? suggestion_text(expand->arena, &near)
                              : "; a product has a space behind its '@'");
        return;
    }
    if (meaning.kind == MEANING_FAILED)
        return;
    if (meaning.kind != MEANING_TENSOR) {
        expand_fail(expand, DIAG_HINT, syntax->span,
                    "a hint belongs to a statement that sets one tensor; this sets %s",
                    meaning_noun(&meaning));
        return;
    }
    Hint hint = {.name = syntax->name.text, .value = meaning.value, .span = syntax->span};
    for (size_t i = 0; i < syntax->arguments.n; i++) {
        const HintArgument *argument = &syntax->arguments.at[i];
        HintArg arg = {.name = argument->name.text, .n = argument->n, .word = argument->word};
        memcpy(arg.values, argument->values, sizeof arg.values);
        for (size_t j = 0; j < i; j++)
            if (strcmp(syntax->arguments.at[j].name.text, arg.name) == 0)
                expand_fail(expand, DIAG_HINT, argument->name.span, "'%s' is given twice", arg.name);
        vec_push(expand->graph->arena, &hint.args, arg);
    }
    vec_push(expand->graph->arena, &expand->graph->hints, hint);
}

static void statement_target(Expand *expand, const Declaration *target, Meaning meaning) {
    if (target->type) {
        TypeMeaning type;
        meaning = type_meaning(expand, target->type, &type)
                      ? type_apply(expand, meaning, &type, target->name, target->span)
                      : (Meaning){.kind = MEANING_FAILED};
    }
    const TypeMeaning *output =
        expand->scope->function ? NULL : names_find(&expand->outputs, target->name.text);
    if (output)
        meaning = type_apply(expand, meaning, output, target->name, target->span);
    expand_bind(expand, target->name, meaning);
}

static void statement_expand(Expand *expand, const Statement *statement) {
    const Expr *expr = statement->values.at[0];
    Meaning meaning = expand_expr(expand, expr);
    size_t n = statement->targets.n;
    size_t results = meaning.kind == MEANING_SEVERAL ? (size_t)meaning.list.n : 1;
    if (meaning.kind != MEANING_FAILED && results != n)
        meaning = expand_fail(expand, DIAG_ARGUMENTS, expr->span, "%zu name%s for %zu result%s", n,
                              n == 1 ? "" : "s", results, results == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++)
        statement_target(expand, &statement->targets.at[i],
                         meaning.kind == MEANING_SEVERAL ? meaning.list.at[i] : meaning);
    for (size_t i = 0; i < statement->hints.n; i++) {
        Binding *binding = names_find(&expand->scope->names, statement->targets.at[0].name.text);
        statement_hint(expand, &statement->hints.at[i], binding && n == 1 ? binding->meaning : meaning);
    }
}

static Meaning statement_return(Expand *expand, const Statement *statement) {
    size_t n = statement->values.n;
    if (n == 1)
        return expand_expr(expand, statement->values.at[0]);
    Meaning several = {.kind = MEANING_SEVERAL, .list = {ARENA_ARRAY(expand->arena, Meaning, n), (int)n}};
    for (size_t i = 0; i < n; i++) {
        several.list.at[i] = expand_expr(expand, statement->values.at[i]);
        if (several.list.at[i].kind == MEANING_SEVERAL)
            return expand_fail(expand, DIAG_ARGUMENTS, statement->values.at[i]->span,
                               "this call has several results; set names to them first");
        if (several.list.at[i].kind == MEANING_FAILED)
            return several.list.at[i];
    }
    return several;
}

bool statement_body(Expand *expand, const StatementList *body, Meaning *result) {
    for (size_t i = 0; i < body->n; i++) {
        const Statement *statement = &body->at[i];
        if (!statement->is_return) {
            statement_expand(expand, statement);
            continue;
        }
        if (!expand->scope->function)
            *result = expand_fail(expand, DIAG_SYNTAX, statement->span,
                                  "'return' belongs to functions; a graph sets its outputs by name");
        else if (i + 1 < body->n)
            *result =
                expand_fail(expand, DIAG_SYNTAX, body->at[i + 1].span, "nothing may stand behind 'return'");
        else
            *result = statement_return(expand, statement);
        return true;
    }
    return false;
}
