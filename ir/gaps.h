/* Matrices with gaps: several smaller ones that lie in one of zeros, as weights of groups of channels do that
 * are multiplied together.
 *
 * What a product has to leave out is a zero of negative sign, and nothing else in such a matrix is one: so
 * kernels multiply it like any other matrix, and where a result is no number, since an infinite element met a
 * gap, they know which terms do not count. */
#ifndef SINTER_IR_GAPS_H
#define SINTER_IR_GAPS_H

#include "ir/graph.h"

/* Whether a product's operand has gaps, as passes/groups_together.c makes them: it is, moved and rounded to
 * 16 bits, select(i == j, select(x == 0, 0, x), -0) with i and j coordinates. What a graph says of zeros of
 * negative sign otherwise is about zeros. */
bool gaps_in(const Value *operand);

#endif
