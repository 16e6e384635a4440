/* `grad name = gradient(graph, of=[inputs])`: graphs that are derived from others (ir/gradient.h). */
#ifndef SINTER_FRONTEND_GRADIENTS_H
#define SINTER_FRONTEND_GRADIENTS_H

#include "frontend/frontend.h"
#include "frontend/syntax.h"

typedef struct Gradients {
    Arena *arena;
    Diags *diags;
    const FrontendLimits *limits;
    const Names *declared; /* GraphSyntax: graphs of the text, whether sound or not */
    Names *graphs;         /* Graph: what the text defines, gradients too */
    Names own;             /* the gradients themselves, by name */
    int64_t values;        /* of all gradients so far */
} Gradients;

/* Derives every gradient of the module, of graphs or of other gradients, in whatever order they stand; each
 * is put into `graphs` and appended to the module. */
void gradients_resolve(Gradients *gradients, const ModuleSyntax *syntax, Module *out);

#endif
