/* Factors of an operand's blocks on their way to those who multiply (matmul_scale.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_SCALE_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_SCALE_H

#include "codegen/templates/matmul.h"

/* Whether a computed operand is memory, perhaps chosen by indices, times a factor a block; then its view is
 * that memory's, and `scale` is set. */
bool matmul_find_scale(const Graph *graph, const Region *region, MatmulOperand *operand);
/* Whether a value is memory of the region's that repeats within blocks along the operand's axes; axis[i] is
 * the axis of the value that the operand's axis i is. */
bool matmul_find_factor(const Graph *graph, const Region *region, Value *value, int rank, const int *axis,
                        MatmulScale *scale);
/* Factors of one operand on their way: a ring of steps of K for each consumer warp. Where the operand has no
 * factors, nothing is done. */
typedef struct MatmulScales {
    const MatmulPlan *plan;
    const MatmulOperand *operand;
    int tile_k;
    int words; /* of a step: 16 rows of each m64 block, each column, or one for each instruction's columns */
    int group; /* steps that are copied together */
    const KBuffer *ring;
    const KExpr *own;                     /* first word of the warp's part */
    const KExpr *first[WGMMA_N_MAX / 32]; /* elements of the buffer that the lane copies, for K = 0 */
    const KExpr *bytes[WGMMA_N_MAX / 32]; /* of which it reads as many, at a time */
} MatmulScales;
MatmulScales matmul_scales(Builder *b, const MatmulPlan *plan, const Schedule *schedule,
                           const MatmulOperand *operand, bool is_rows);
int64_t matmul_scales_bytes(const MatmulPlan *plan, const Schedule *schedule);
/* Whether the operand's factors differ from column to column of the product. */
bool matmul_scale_is_by_column(const MatmulOperand *operand, bool is_rows);
/* A tile begins: the lane's row (or column) of the result, below `extent`; of more columns than lanes the
 * first. */
void matmul_scales_tile(Builder *b, MatmulScales *scales, const KExpr *warp, const KExpr *mn,
                        const Dim *extent, int tile_mn, const KExpr *const *batch);
/* Starts the copies of the first steps, and in step `step` those of a later one. One group of copies a step:
 * a step's factors have come when all groups but the latest, of the step before, have. `last` is the last
 * step.
 */
void matmul_scales_first(Builder *b, const MatmulScales *scales, const KExpr *last);
void matmul_scales_ahead(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *last);
/* to[at] = a factor of a step. */
void matmul_scale_read(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *word,
                       const KVar *to, int at);
/* Whether any operand has factors of blocks. */
bool matmul_has_scale(const MatmulPlan *plan);
/* Whether steps of K lie within blocks, and the columns of an instruction share a factor. */
bool matmul_scales_fit(const MatmulPlan *plan, const Schedule *schedule);

#endif
