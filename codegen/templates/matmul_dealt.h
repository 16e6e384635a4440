/* First operands whose rows begin anywhere, dealt out to matrices whose rows begin alike (matmul_dealt.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_DEALT_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_DEALT_H

#include "codegen/templates/matmul.h"

/* Elements of 16 bits that TMA's coordinates are multiples of. */
enum { DEALT_PIECE = 8 };

typedef struct MatmulDealt {
    int axis;             /* of the batch, along which the matrices are every `count`-th row */
    int64_t count, pitch; /* matrices; elements from the first row of one to that of the next */
} MatmulDealt;
/* Whether an operand is such matrices; notes which. */
bool matmul_dealt(const Graph *graph, const MatmulOperand *operand, MatmulDealt *dealt);
/* Whether it is the first operand of a plan that its kernel takes so. */
bool matmul_is_dealt(const MatmulPlan *plan, const MatmulOperand *operand);
/* Elements of a line of memory that has a row of each matrix. */
const Dim *matmul_dealt_line(DimTable *dims, const MatmulOperand *operand, const MatmulDealt *dealt);
/* Where a batch's matrix begins in such a line, and that as far as TMA counts it. */
const KExpr *matmul_dealt_start(Builder *b, const MatmulPlan *plan, const MatmulDealt *dealt,
                                const KExpr *const *batch);
const KExpr *matmul_dealt_piece(Builder *b, const KExpr *start);
/* Elements that a tile has of a row before the matrix's own, of a start and at most. */
const KExpr *matmul_dealt_shift(Builder *b, const KExpr *start);
int matmul_dealt_most(const MatmulDealt *dealt);

#endif
