/* Parts of sums, from several warps or blocks, put together (matmul_partials.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_PARTIALS_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_PARTIALS_H

#include "codegen/templates/matmul_result.h"

/* matmul_partials.c: sums that several warps of a block, or the blocks of a cluster, hold parts of, as rows
 * along M and columns along N of the tile, or where is_swapped the other way: `parts` of each block, one
 * after another. Where is_swapped, rows, columns and threads are powers of two. */
enum { PARTIALS_PAD = 4 /* elements between rows, against bank conflicts */ };
typedef struct MatmulPartials {
    const KBuffer *buffer[MATMUL_CORES];
    int rows, cols;
    int parts;
    int cluster;     /* blocks whose parts meet; 1: none */
    bool is_swapped; /* rows lie along N, columns along M: few rows, fewer than threads */
} MatmulPartials;
/* Whether each block of such a cluster has a part of the tile to finish, in vectors of 16 bytes. */
bool matmul_partials_divide(const MatmulPlan *plan, int rows, int cols, int cluster);
/* The steps of K, of `all`, that a block of the cluster takes: from *first to *end. */
void matmul_partials_steps(Builder *b, const Dim *all, int cluster, const KExpr **first, const KExpr **end);
MatmulPartials matmul_partials(Builder *b, const MatmulPlan *plan, int rows, int cols, int parts,
                               int cluster);
int64_t matmul_partials_bytes(const MatmulPlan *plan, int rows, int cols, int parts);
/* Element of the buffers where a part keeps (row, col) of the tile. */
const KExpr *matmul_partials_index(Builder *b, const MatmulPartials *p, const KExpr *part, const KExpr *row,
                                   const KExpr *col);
/* Part 0 from accumulators; the fragment's row and col count from the tile's corner. */
void matmul_partials_put(Builder *b, const MatmulPlan *plan, const MatmulPartials *p,
                         const MatmulFragment *fragment);
/* Behind a barrier of all who put: adds the parts and runs the epilogue, the tile's corner at (row, col). */
void matmul_partials_finish(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulPartials *p,
                            const KExpr *thread, int threads, const KExpr *row, const KExpr *col,
                            const KExpr *const *batch);

#endif
