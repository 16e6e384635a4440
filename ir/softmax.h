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

/* A band along the diagonal of the last two axes: elements with  low <= column - row <= high. */
typedef struct Band {
    const Dim *low, *high; /* NULL: no such bound */
} Band;

/* Whether x is -inf beyond a band, as scores of keys that a query may not see are: x = select(inside, y,
 * -inf), where `inside` compares an element's column with its row, perhaps several times. *inner is y where
 * that is all that `inside` asks; else x, of which more may be -inf. */
bool softmax_band(DimTable *dims, Value *x, Band *band, Value **inner);

#endif
