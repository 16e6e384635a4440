/* What groups.c and groups_together.c share: products of groups of a convolution's channels. */
#ifndef SINTER_PASSES_GROUPS_H
#define SINTER_PASSES_GROUPS_H

#include "ir/window_rows.h"
#include "passes/rewrite.h"

/* Whether a product is of rows of windows, of several groups of channels, by weights that have no gaps yet.
 */
bool groups_product(Rewrite *rewrite, const Value *product, WindowRows *rows);
/* How many groups such a product multiplies together; 1: each by itself, element by element if `is_few`. */
int64_t groups_together(Rewrite *rewrite, const Value *product, const WindowRows *rows, bool is_few);
/* It, with so many groups together. */
Value *groups_multiplied(Rewrite *rewrite, const Value *product, const WindowRows *rows, int64_t together);

/* The same of a gradient of weights: whether a product is one; of how many groups it is computed; and it, of
 * which each group's own are taken. */
bool groups_gradient(Rewrite *rewrite, const Value *product, WindowRows *rows);
int64_t groups_gradient_together(Rewrite *rewrite, const Value *product, const WindowRows *rows);
Value *groups_gradient_multiplied(Rewrite *rewrite, const Value *product, const WindowRows *rows,
                                  int64_t together);

#endif
