/* What the files of the pass `linear` share. */
#ifndef SINTER_PASSES_LINEAR_H
#define SINTER_PASSES_LINEAR_H

#include "passes/rewrite.h"

/* Whether `value` has one element along all axes that `sum` reduces, seen from its operand. */
bool linear_is_fixed(const Value *value, const Value *sum);
/* linear_product.c: a sum of a product as the product of an operand's sum; the sum itself where it is none.
 */
Value *linear_product(Rewrite *rewrite, Value *sum);

#endif
