/* A result against the float64 reference. */
#ifndef SINTER_RUNTIME_CLI_COMPARE_H
#define SINTER_RUNTIME_CLI_COMPARE_H

#include "runtime/array.h"

typedef struct Comparison {
    bool ok;
    double error;     /* root mean square of the difference over that of the reference */
    double tolerance; /* that `error` was held against */
    int64_t wrong;    /* elements beyond the bound of one element */
    int64_t worst;    /* the element farthest from its reference; -1: none differs */
    double got, want; /* there */
} Comparison;

/* Two bounds must hold. Over all elements: rms(got - want) <= rtol * rms(want) + atol. For each element: |got
 * - want| <= 8 * rtol * (|want| + rms(want)) + 8 * atol, so that one wrong element of a million is seen.
 * Integers: |got - want| <= atol. NaN must meet NaN, an infinity the same infinity. Negative tolerances: by
 * the element type. */
Comparison compare_array(const Array *got, const Tensor *want, double rtol, double atol);
double compare_default_rtol(DType dtype);

#endif
