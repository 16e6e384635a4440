/* Softmax as the graph has it, whoever wrote it: exp(x - max(x)) over its sum along the last axis. */
#ifndef SINTER_IR_SOFTMAX_H
#define SINTER_IR_SOFTMAX_H

#include "ir/graph.h"

typedef struct Softmax {
    Value *x;
    Value *max, *sum; /* of each row: of x, and of exp(x - max) */
} Softmax;

/* Whether `value` is a softmax in f32, rounded to a narrower type: cast(e / sum(e)), e = exp(x - max(x)). */
bool softmax_of(const Value *value, Softmax *out);

#endif
