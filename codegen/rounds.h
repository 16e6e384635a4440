/* Rounds that find the largest elements of rows one after the other, as values of a region:
 *
 *     a0 = argmax(x)     x1 = select(index == a0, -inf, x)     a1 = argmax(x1)     ... */
#ifndef SINTER_CODEGEN_ROUNDS_H
#define SINTER_CODEGEN_ROUNDS_H

#include "ir/region.h"

enum { ROUNDS_MAX = 64 };

/* Whether `value` tells the element that the argmax `at` has found, by its number along the axis of `extent`
 * elements, which is `from_end` axes before the end (1: the last). */
bool rounds_is_hit(const Value *value, const Value *at, int from_end, const Dim *extent);
/* `x` without what `at` has found: what loses against every element stands there. NULL: the region has no
 * such value. */
const Value *rounds_next(const Region *region, const Value *x, const Value *at, int from_end,
                         const Dim *extent);

#endif
