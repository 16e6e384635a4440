/* The front end: text of the graph language -> graphs. */
#ifndef SINTER_FRONTEND_FRONTEND_H
#define SINTER_FRONTEND_FRONTEND_H

#include "frontend/source.h"
#include "ir/graph.h"

/* Limits that a hostile file meets before it hurts; zero fields take the default in brackets. */
typedef struct FrontendLimits {
    size_t max_bytes;  /* of a source [4 MiB] */
    int max_depth;     /* of nesting [200] */
    int max_values;    /* of a graph, after expansion [20000] */
    int max_expansion; /* calls of fn, nested [64] */
} FrontendLimits;

typedef struct Module {
    VEC(Graph *) graphs; /* in source order, all in the arena given */
} Module;

/* Parses, resolves, inlines, infers and verifies. Goes on after an error to report further ones. False where
 * there was one. */
bool frontend_parse(Arena *arena, SourceSet *sources, uint32_t file, const FrontendLimits *limits,
                    Diags *diags, Module *out);
/* The source laid out canonically, comments kept (`sinter fmt`). False, with diagnostics, where it does not
 * parse. */
bool frontend_format(Arena *arena, SourceSet *sources, uint32_t file, Diags *diags, Text *out);

#endif
