/* A partitioned graph as Graphviz text: a cluster a kernel. */
#ifndef SINTER_RUNTIME_CLI_DOT_H
#define SINTER_RUNTIME_CLI_DOT_H

#include "runtime/plan.h"

void dot_print(Text *out, const sinter_plan *plan);

#endif
