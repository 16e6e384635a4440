/* What reductions do with two partial results: the one definition for loops in place, rows and columns. */
#ifndef SINTER_CODEGEN_REDUCE_H
#define SINTER_CODEGEN_REDUCE_H

#include "codegen/kernel_build.h"

/* A partial result: for argmin and argmax, the best element and its number; else `number` is NULL. */
typedef struct Partial {
    const KExpr *x;
    const KExpr *number;
} Partial;

/* The same in registers: scalars, or arrays of independent partial results. */
typedef struct PartialVars {
    const KVar *x;
    const KVar *number; /* NULL where there is none */
} PartialVars;

bool reduce_has_number(const Value *reduction);
/* The register type in which elements are combined. */
KType reduce_type(const Value *reduction);
Partial reduce_identity(Builder *b, const Value *reduction, KType number_type);
/* Of two partial results, in any order of elements: the same result whatever the order, but for the rounding
 * of sums. */
Partial reduce_combine(Builder *b, const Value *reduction, Partial a, Partial c);
/* The result in the register type of the reduction's element type. */
const KExpr *reduce_result(Builder *b, const Value *reduction, Partial partial);

/* Registers that hold the identity; count 0: scalars. */
PartialVars reduce_declare(Builder *b, const Value *reduction, const char *name, int count,
                           KType number_type);
Partial reduce_get(Builder *b, PartialVars vars, const KExpr *index); /* index NULL: scalars */
void reduce_put(Builder *b, PartialVars vars, const KExpr *index, Partial partial);
/* Takes an element of the operand into vars[index]; `inside` false: there is none (NULL: there is). `number`,
 * of use for argmin and argmax alone, is the element's row-major number among the reduced ones, and higher
 * than those of all elements that vars[index] has taken before: threads go through theirs in order. */
void reduce_take(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index,
                 const KExpr *element, const KExpr *number, const KExpr *inside);
/* Whether argmin or argmax takes x, of the higher number and `inside`, rather than what is best before it. */
const KExpr *reduce_beats(Builder *b, const Value *reduction, const KExpr *x, const KExpr *best,
                          const KExpr *inside);
/* vars[index] becomes its combination with `partial`, of any elements. */
void reduce_into(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index, Partial partial);
/* All lanes of each group of `lanes` (a power of two up to 32) neighbours get the group's result; of those
 * among them, where `stride` is more than 1, that lie a multiple of it apart. */
void reduce_lanes(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index, int lanes);
void reduce_lanes_apart(Builder *b, const Value *reduction, PartialVars vars, const KExpr *index, int lanes,
                        int stride);

#endif
