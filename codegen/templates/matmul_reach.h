/* Steps of K that a tile's columns have, where they are windows that lie outside of their tensor at the
 * others (matmul_reach.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_REACH_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_REACH_H

#include "codegen/kernel_build.h"
#include "codegen/templates/matmul.h"

enum { REACH_TAPS_MAX = 8 };

/* Places along K that lie within the tensor, along an axis. */
typedef struct MatmulReachAxis {
    int places; /* all */
    int taps;   /* columns of so many taps differ; 1: all are alike */
    int inner;  /* columns from one of them to the next */
    int low[REACH_TAPS_MAX], count[REACH_TAPS_MAX];
} MatmulReachAxis;

/* K is [places of the axes, the last outermost][features]. */
typedef struct MatmulReach {
    int axes; /* 0: all tiles have all of K */
    MatmulReachAxis axis[WINDOWS_AXES_MAX];
    int steps_each; /* of K, at one place */
    bool descends;  /* the last columns have the most steps */
} MatmulReach;

/* What columns of tiles reach under a schedule; axes 0 where all reach all of K, or where the schedule has
 * what counts on a K that is the same for all tiles. */
MatmulReach matmul_reach(const MatmulPlan *plan, const Schedule *schedule);
/* Steps of the tile whose first column that is: one at least. */
int64_t matmul_reach_steps(const MatmulReach *reach, int64_t col);

/* The same in a kernel, of one tile. */
typedef struct MatmulReached {
    const KExpr *low[WINDOWS_AXES_MAX], *count[WINDOWS_AXES_MAX]; /* of places; a count is 1 at least */
    const KExpr *steps;
} MatmulReached;
MatmulReached matmul_reached(Builder *b, const MatmulReach *reach, const KExpr *col);
/* The step of all of K that is number `step` of those. */
const KExpr *matmul_reached_step(Builder *b, const MatmulReach *reach, const MatmulReached *reached,
                                 const KExpr *step);

/* Tiles that `blocks` blocks have, one after another, where their steps differ: the blocks take those of each
 * round in the opposite order of the round's before, as tiles with the most steps come first.
 *
 *     steps of tiles      4 4 4 4 2 | 2 2 2 2 2 | 2 2 1 1 1      a round of five each
 *     blocks              0 1 2 3 4   4 3 2 1 0   0 1 2 3 4 */
const KExpr *matmul_reach_rounds(Builder *b, const KExpr *block, const KExpr *blocks, const KExpr *tiles);
const KExpr *matmul_reach_tile(Builder *b, const KExpr *block, const KExpr *blocks, const KExpr *round);

#endif
