/* How a schedule of the path for few rows divides its work (matmul_gemv_shape.c), to the kernel that does it
 * (matmul_gemv.c); beside these, only the path for a few dozen rows includes it (matmul_skinny.h). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_GEMV_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_GEMV_H

#include "codegen/lower.h"
#include "codegen/templates/matmul.h"

enum { GEMV_LANES = 32, GEMV_WIDTH_MAX = 16, GEMV_ROWS_MAX = 16, GEMV_UNROLL_MAX = 8 };
enum { GEMV_ACCESS_BITS = 128 };

/* How a schedule divides the work. */
typedef struct GemvShape {
    bool along_k;
    int width;            /* elements of a weight's run */
    bool x_along_k;       /* runs of the few rows lie along K; else a run is of several rows at one K */
    int x_width;          /* elements of such a run */
    int cols;             /* columns of a thread */
    int lanes_n, lanes_k; /* of a warp */
    int unroll;           /* runs of each column (along N: of the thread) under way */
} GemvShape;
/* False where the schedule does not divide it. */
bool gemv_shape(const MatmulPlan *plan, const Schedule *schedule, GemvShape *shape);
/* Neighbours along K that a thread has of a row at a time. */
int gemv_run_k(const GemvShape *s);
/* How an operand's elements neighbour in memory. */
const MatmulRuns *gemv_runs(const MatmulPlan *plan, const MatmulOperand *operand);

/* Where a run of an operand begins: along its M or N, of which a tile has so many, and along K; the axis that
 * it lies along, and its elements. */
typedef struct GemvPlace {
    const KExpr *mn, *k;
    int tile_mn, axis, width;
} GemvPlace;
/* The run, guarded where tiles, or the schedule's steps, do not divide M (or N), or K. */
Run gemv_run(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
             const KExpr *const *batch, const GemvPlace *place);

/* The operands that stream, and those with few rows: how many, and each. */
int gemv_n_weights(const MatmulPlan *plan, const Schedule *schedule);
const MatmulOperand *gemv_weights(const MatmulPlan *plan, const Schedule *schedule, int i);
int gemv_n_few(const MatmulPlan *plan, const Schedule *schedule);
const MatmulOperand *gemv_few(const MatmulPlan *plan, const Schedule *schedule, int i);

#endif
