/* What a graph must cost at least: the bytes of its inputs and outputs, the arithmetic of its matrix
 * products. */
#ifndef SINTER_RUNTIME_CLI_ROOFLINE_H
#define SINTER_RUNTIME_CLI_ROOFLINE_H

#include "runtime/cli/problem.h"

typedef struct Roofline {
    double bytes;
    double flops; /* of matrix products, 2 for a multiply-add */
    double memory_us, compute_us;
    double floor_us; /* the larger */
} Roofline;

Roofline roofline_of(const Problem *problem, const Target *target);

#endif
