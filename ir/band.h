/* Bands of matrices: which elements a condition on coordinates leaves. */
#ifndef SINTER_IR_BAND_H
#define SINTER_IR_BAND_H

#include "ir/graph.h"

/* How far elements of a matrix are seen. The column, or (by_row) the column less the row, is at least, or
 * (is_most) at most, `offset`, and what numbers of the matrix add to it, as the length of a sequence does.
 * Sums of numbers and coordinates are taken not to wrap: no sequence is that long. */
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

/* Whether x is `beyond` outside of a band, as scores of keys that a query may not see are -inf: x =
 * select(inside, y, beyond), perhaps several times, where `inside` compares an element's column with its row,
 * or with a number of the matrix. *inner is y where that is all that is asked; else x, or a y in between, of
 * which more may be `beyond`. */
bool band_of(DimTable *dims, Value *x, double beyond, Band *band, Value **inner);
/* Whether x is zero outside of a band: such a select, the exponential of what is -inf there, or a multiple of
 * either. What the multiple is of is taken to be finite there, as weights of softmax take values to be. */
bool band_of_zeros(DimTable *dims, Value *x, Band *band);
/* Whether each column has an element that the band leaves, as dims alone say, of a matrix of so many rows and
 * columns; then each of its limits compares columns with rows. */
bool band_sees_columns(const DimTable *dims, const Band *band, const Dim *rows, const Dim *columns);
/* Whether both leave the same elements, by the same limits. */
bool band_same(const Band *a, const Band *b);

#endif
