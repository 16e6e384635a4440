/* Factors of a value, one behind the other, taken off it as one: what drops weights of attention, and their
 * gradients. */
#ifndef SINTER_PASSES_FACTORS_H
#define SINTER_PASSES_FACTORS_H

#include "passes/rewrite.h"

/* What an f32 value is factors times of, of its dims, and those in *factor: of select(m, x, 0) * c, x and
 * select(m, 1, 0) * c. The value itself, and NULL, where there are none, or where the graph has no room. */
Value *factors_below(Rewrite *rewrite, Value *value, Value **factor, const Value *like);

#endif
