/* Operands that are windows, by TMA (matmul_windows.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_WINDOWS_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_WINDOWS_H

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_tma.h"

/* The map of boxes of so many channels and places; its parameter's number. */
int matmul_windows_map(Builder *b, DimTable *dims, const MatmulTma *tma, int channels, int places);
/* Loads a box to shared address `to`: from element `within` of the windows on, and from window `place` on;
 * the bytes count at mbarrier address `full`. */
void matmul_windows_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, int map, const KExpr *to,
                         const KExpr *full, const KExpr *within, const KExpr *place,
                         const KExpr *const *batch);

#endif
