/* Decisions: what the compiler chose or refused, in a person's words, for `sinter explain` and for the notes
 * of a failed @expect. */
#include "passes/pass.h"

#include <stdarg.h>

typedef struct DecideRule {
    const char *name, *doc;
} DecideRule;

static const DecideRule decide_rules[] = {
#define RULE(NAME, DOC) {#NAME, DOC},
#include "passes/fuse_rules.def"
#undef RULE
};

const char *fuse_rule_doc(const char *name) {
    for (size_t i = 0; i < sizeof decide_rules / sizeof *decide_rules; i++)
        if (!strcmp(decide_rules[i].name, name))
            return decide_rules[i].doc;
    return NULL;
}

void pass_decide(Pass *pass, const char *rule, bool fused, Value *at, Value *other, const char *change,
                 const char *why, ...) {
    Arena *arena = pass->partition->graph->arena;
    Text text = text_new(arena);
    va_list args;
    va_start(args, why);
    text_addv(&text, why, args);
    va_end(args);
    Decision decision = {.rule = rule,
                         .fused = fused,
                         .at = at,
                         .other = other,
                         .why = text.at,
                         .change = fused ? NULL : change};
    vec_push(arena, &pass->partition->decisions, decision);
}
