/* What a sinter_graph holds: the graphs of one source, one of which is the object's own. */
#ifndef SINTER_RUNTIME_GRAPH_API_H
#define SINTER_RUNTIME_GRAPH_API_H

#include "frontend/frontend.h"
#include "runtime/context.h"

struct sinter_graph {
    sinter_context *context;
    Arena *arena; /* everything but this struct */
    SourceSet *sources;
    Diags diags;
    Module module;
    Graph *graph; /* of the module; NULL where parsing failed */
    double parse_ms;
    Report report;
    ReportStorage storage;
};

/* Parses a source that may hold any number of graphs; graph_select() then chooses. The public
 * sinter_graph_parse() is this and a choice. */
sinter_status graph_parse_module(sinter_context *context, const sinter_source *source, sinter_graph **out);
/* Makes the i-th graph of the source the object's own. */
void graph_select(sinter_graph *graph, size_t i);

#endif
