/* How far a GPU's output may lie from the reference where nobody said. */
#ifndef SINTER_RUNTIME_CLI_TOLERANCE_H
#define SINTER_RUNTIME_CLI_TOLERANCE_H

#include "ir/graph.h"

/* Relative, as compare_array() takes it: by the output's type, and more where it depends on a product of fp8
 * elements, whose sums a GPU's tensor cores round. The simulator does not, so that its results are held to
 * the type alone. `arena` is for scratch. */
double tolerance_of_output(Arena *arena, const Graph *graph, size_t output);

#endif
