/* Operands that are windows, by TMA (matmul_windows.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_WINDOWS_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_WINDOWS_H

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_tma.h"

/* Whether boxes have places of one line each (windows_have_lines), whose taps TMA need not count. */
bool matmul_windows_are_lines(const MatmulTma *tma);
/* The map of boxes of so many channels and places; its parameter's number. */
int matmul_windows_map(Builder *b, DimTable *dims, const MatmulTma *tma, int channels, int places);
enum { WINDOWS_COORDS = 1 + WINDOWS_AXES_MAX };
/* Half of a box's coordinates, up to WINDOWS_COORDS of them, NULL behind: of element `at` within windows the
 * channel and taps, or of window `at` the image and places. */
void matmul_windows_part(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, bool is_within,
                         const KExpr *at, const KExpr *const *batch, const KExpr **out);
/* Loads a box to shared address `to`; the bytes count at mbarrier address `full`. `shared` is the half of its
 * coordinates that a tile's steps share, places of an operand along K, else what lies within windows; the
 * other half is worked out for element or window `own_at`. */
void matmul_windows_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, int map, const KExpr *to,
                         const KExpr *full, const KExpr *own_at, const KExpr *const *batch,
                         const KExpr *const *shared);

#endif
