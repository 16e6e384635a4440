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

/* How far elements of x are seen. The column, or (by_row) the column less the row, is at least, or (is_most)
 * at most, `offset`, and what numbers of the matrix add to it, as the length of a sequence does. Sums of
 * numbers and coordinates are taken not to wrap: no sequence is that long. */
enum { BAND_NUMBERS_MAX = 2, BAND_LIMITS_MAX = 4 };
typedef struct BandNumber {
    const Value *value; /* an integer for each matrix */
    bool is_taken;      /* subtracted */
} BandNumber;
typedef struct BandLimit {
    bool is_most, by_row;
    const Dim *offset;
    BandNumber number[BAND_NUMBERS_MAX];
    int n_numbers;
} BandLimit;
/* Elements that are seen by all limits. */
typedef struct Band {
    BandLimit limit[BAND_LIMITS_MAX];
    int n;
} Band;

/* Whether x is -inf beyond a band, as scores of keys that a query may not see are: x = select(inside, y,
 * -inf), perhaps several times, where `inside` compares an element's column with its row, or with a number of
 * the matrix. *inner is y where that is all that is asked; else x, or a y in between, of which more may be
 * -inf. */
bool softmax_band(DimTable *dims, Value *x, Band *band, Value **inner);

#endif
