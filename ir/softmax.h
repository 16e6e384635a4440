/* Softmax as the graph has it, whoever wrote it: exp(x - max(x)) over its sum along the last axis, in
 * which a sink may count besides. */
#ifndef SINTER_IR_SOFTMAX_H
#define SINTER_IR_SOFTMAX_H

#include "ir/graph.h"

typedef struct Softmax {
    Value *x;
    Value *max, *sum; /* of each row: of x, and of exp(x - base) */
    /* One more element of each row, which no product multiplies, so that the weights add up to less than 1;
     * NULL: there is none. It is computed of inputs and constants, element by element, and broadcasts. */
    Value *sink;
    Value *base, *whole; /* max and sum, or with a sink max(max(x), sink) and sum + exp(sink - base) */
    /* Where weights are multiplied by something that does not come of x before they are rounded (dropout):
     * e / whole, and that times the factor; NULL: they are not. */
    Value *share, *weighed;
} Softmax;

/* Whether `value` is a softmax in f32, rounded to a narrower type: cast(e / whole), or cast(e / whole *
 * factor), with e = exp(x - base). */
bool softmax_of(const Value *value, Softmax *out);

/* Whether `value` is e / whole, of any axes; out->share and weighed are NULL. */
bool softmax_share_of(const Value *value, Softmax *out);

#endif
