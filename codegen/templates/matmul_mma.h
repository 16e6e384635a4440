/* Products by mma.sync: what matmul_mma.c and matmul_mma_elements.c share. */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_MMA_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_MMA_H

#include "codegen/templates/matmul_ring.h"

typedef struct Mma {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    MatmulRing ring;
    int rows, cols;                                            /* fragments of a warp along m and n */
    const KExpr *warp_row, *warp_col;                          /* of the warp's part, within the tile */
    const KVar *accumulator[MATMUL_CORES], *a_words, *b_words; /* words, or elements of f64 */
    const KExpr *lane_mn, *lane_k; /* of fragments loaded by elements: the lane's place along either axis */
} Mma;

/* Elements of an instruction's K. */
int mma_k(const MatmulPlan *plan);

/* matmul_mma_elements.c: whether fragments of an operand are loaded by single elements. */
bool mma_takes_elements(const MatmulPlan *plan, const MatmulLoader *loader);
/* Sets what those loads have in common. */
void mma_elements_begin(Mma *m);
/* Fragments of 16 rows (A) or 16 columns (B), from mn on, a multiple of 16, in step `first`, an even one or
 * the only one, + `kk`. */
void mma_elements_load(const Mma *m, const MatmulLoader *loader, bool is_a, const KExpr *stage,
                       const KExpr *mn, const KExpr *first, const KExpr *kk, const KVar *elements, int at);

#endif
