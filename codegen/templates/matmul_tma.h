/* Operands' tiles by TMA (matmul_tma.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_TMA_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_TMA_H

#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_tiles.h"

/* Tensor maps: of whole tiles, and of the last along M or N, with the rows that are there; or the same. */
typedef struct MatmulMaps {
    int whole, last;
} MatmulMaps;

/* An operand that TMA loads (matmul_is_tma). K-major: rows of the tile along M or N; MN-major: along K. */
typedef struct MatmulTma {
    const MatmulOperand *operand;
    Tile tile;
    MatmulMembers members; /* that the tile has along M or N; n 0: as 1 */
    MatmulMaps maps;
    int share; /* blocks of a cluster, each of which loads its part of the tile into all; 1: none */
    int share_step, cluster; /* from the rank of one of these blocks to that of the next; all blocks */
    const KExpr *chosen;     /* the present tile's matrix, where indices choose it (matmul_chosen_matrix) */
    const KExpr **pages; /* of which boxes one below the other are; NULL: of none (matmul_tma_find_pages) */
    const Dim *unit;     /* parts of K, of which each step is of one: TMA has a dim for it; NULL: none */
    const Dim *unit_end; /* the extent of that dim */
    int64_t filled;      /* elements that steps count for each of them */
    const MatmulPatch *patch; /* of windows, whose taps one box has all; NULL: a box has one tap */
    const KExpr **windows; /* what all steps of a tile share of where boxes of windows are; NULL: of none */
    const MatmulDealt *dealt; /* rows of every so many-th of a matrix; NULL, or count 0: of all */
    const KExpr *piece; /* the element of a line that the first of those of the present tile's begins with */
    bool is_once;       /* nobody loads these elements again: L2 gives them up first */
    /* What the tile has along M or N beyond the operand need not be zeros: it is left as it was. Rows beyond
     * the end of memory are no work for memory, but they are for L2: 132 blocks whose tiles had 1 row of 128
     * took 72 us where they took 45 with all 128. */
    bool is_clipped;
} MatmulTma;
/* Bytes that the load of the tile at mn0 brings, this block's and others' parts. */
const KExpr *matmul_tma_bytes(Builder *b, const MatmulTma *tma, const KExpr *mn0);
MatmulMaps matmul_tma_maps(Builder *b, DimTable *dims, const MatmulTma *tma); /* that loads take */
/* Ahead of a load of the tile at (mn0, k0), and of waiting for its stage: reads of which pages it is. */
void matmul_tma_find_pages(Builder *b, const MatmulPlan *plan, MatmulTma *tma, const KExpr *mn0,
                           const KExpr *k0, const KExpr *const *batch);
/* Ahead of a tile's steps, where the operand is windows: what of their boxes' places these share. Compilers
 * do not move it out of the loop by themselves: a step of three boxes took longer than its products. */
void matmul_tma_find_windows(Builder *b, const MatmulPlan *plan, MatmulTma *tma, const KExpr *mn0,
                             const KExpr *const *batch);
/* Loads the tile at (mn0, k0) of a batch into a stage; the bytes count at mbarrier address `full`. */
void matmul_tma_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const KExpr *stage,
                     const KExpr *full, const KExpr *mn0, const KExpr *k0, const KExpr *const *batch);

#endif
