/* Gradients: from a graph, the graph of what a loss's gradient does on its way back through it.
 *
 * For y = f(x, w) of the forward graph, the gradient graph takes x, w and dy, the gradient of a loss with
 * respect to y, and gives dx and dw. It works out again what it needs of the forward graph; passes then fuse
 * that and drop the rest. It is built in reverse: each Value gets the sum of what its users give, and its
 * operation's rule (the gradient column of scalar.def and ops.def) gives to its operands. What depends on no
 * wanted input, or on which no output depends, is never built.
 *
 * Types. A gradient is f32 (f64 of f64) until an output stores it in its input's type: rounding to narrow
 * types has the slope 1. Only a matrix product's operands are narrow: dy is cast to the type of the operand
 * that it is multiplied with, if that is narrow, so that tensor cores multiply.
 *
 * Where a slope is not unique: the largest of a reduction, where several are, share its gradient, and so do
 * two equal operands of min and max, unless one is a constant: then the other has none, as relu(0) has none.
 * abs has 0 at 0. Rounding, comparing, counting and random numbers have none. */
#ifndef SINTER_IR_GRADIENT_H
#define SINTER_IR_GRADIENT_H

#include "ir/graph.h"

typedef struct GradientRequest {
    const char *name; /* of the new graph */
    Span span;
    const int *of; /* numbers of inputs, of floating-point types, each once */
    int n;
    size_t max_values; /* more are refused */
} GradientRequest;

/* The gradient graph in `arena`: inputs of `graph` and, for each of its floating-point outputs, that output's
 * gradient, of its type and layout; outputs as `request` has them. The gradient of x is called dx, or d_x
 * where another name of the border or a dim is dx. Hints and checks are not taken over. NULL, with
 * diagnostics, where an operation on the way has no gradient, or sizes do not let it be written. */
Graph *gradient_build(Arena *arena, const Graph *graph, const GradientRequest *request, Diags *diags);

#endif
