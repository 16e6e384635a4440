/* Between kernel_expr.c, which builds expressions, and kernel_fold.c, which finds simpler ones.
 *
 * Rules hold for index arithmetic as templates write it: i32 and i64 sums and products do not overflow. u32
 * and u64 wrap (hashes, Philox), so rules that need no overflow leave them alone. Floats do not fold:
 * rounding is the machine's. */
#ifndef SINTER_CODEGEN_KERNEL_FOLD_H
#define SINTER_CODEGEN_KERNEL_FOLD_H

#include "codegen/kernel_build.h"

/* A simpler expression of the same value; NULL where none is known. Of commutative operations a constant
 * stands at the right. */
const KExpr *fold_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y, const KExpr *z);
/* The same for a quotient and a remainder of integers that are not negative. */
const KExpr *fold_div(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *fold_mod(Builder *b, const KExpr *x, const KExpr *y);
/* Whether x is the same wherever it is written: nothing that is set more than once is in it. False where it
 * is more than `depth` deep. */
bool fold_is_fixed(const KExpr *x, int depth);

#endif
