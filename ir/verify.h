/* Whether a graph keeps its invariants; each that fails becomes one DIAG_INTERNAL diagnostic, `stage` naming
 * the pass before. */
#ifndef SINTER_IR_VERIFY_H
#define SINTER_IR_VERIFY_H

#include "ir/graph.h"

bool graph_verify(const Graph *graph, const char *stage, Diags *diags);

#endif
