/* How a template carries out a region: plain data, chosen by the cost model (codegen/cost.h), overridable in
 * the graph by
 * @schedule(...), improvable by a tuner. Zero in a field means "does not apply". */
#ifndef SINTER_IR_SCHEDULE_H
#define SINTER_IR_SCHEDULE_H

#include <stdbool.h>

typedef enum MatmulPath {
    MATMUL_NONE,
    MATMUL_LOOP, /* one thread an element, a loop over K: any type, any layout; the path that always exists */
    MATMUL_GEMV, /* few rows (swap_ab: columns): the other operand streams from memory to registers, fused
                    multiply-add */
    MATMUL_SKINNY,   /* a few dozen rows (swap_ab: columns): the same, to mma.sync: sm_80 and later */
    MATMUL_SIMT,     /* tiles in shared memory, fused multiply-add in f32, f64 or i32: exact f32 */
    MATMUL_MMA_SYNC, /* cp.async, ldmatrix, mma.sync: sm_80 and later */
    MATMUL_WGMMA,    /* TMA, mbarrier pipeline, wgmma, warp roles: sm_90a */
} MatmulPath;

typedef struct Schedule {
    int threads; /* a block */
    int vector;  /* elements a thread handles together along the innermost axis; gemv: of the larger operand,
                    0: as many as can be */
    int unroll;  /* vectors a thread has in flight */

    /* rows and columns */
    int threads_per_row;
    int rows_per_block;
    bool resident;    /* the row, or all rows of columns, stay in registers between passes; else they are read
                         again */
    bool row_in_smem; /* where not resident: from shared memory */
    int places;       /* columns: neighbours along the axis before the last that a thread has; 0: one */

    /* transpose; rows and columns whose results are stored in another order, tile_rows: of rows */
    int tile_rows, tile_cols;
    int turned_vector; /* elements a thread handles together along the other axis; 0: as many as `vector`, of
                          rows and columns: none */

    /* matmul */
    MatmulPath path;
    int tile_m, tile_n, tile_k;
    int warps_m, warps_n; /* mma.sync: warps of a block; wgmma: consumer warpgroups along m (1 along n) */
    int stages;
    int later_stages; /* chains: slots of the ring of second operands of all links but the first; 0: those are
                         resident */
    int cluster_m, cluster_n;
    int split_k;
    bool stream_k; /* wgmma: several blocks share the steps of K of a tile that does not fill a round */
    int group_m;   /* rasterization: tiles of m visited before n advances */
    int group_n;   /* not 0: the other way round, tiles of n visited before m advances */
    bool persistent;
    bool swap_ab;   /* computes the transposed product, so that a small M lies along wgmma's n, or a small N
                       along gemv's rows */
    bool patches;   /* wgmma: a tile's rows are a patch of a convolution's places, which one box has all taps
                       of; with swap_ab, a gradient of weights: the places of a step of K are */
    bool tma_store; /* outputs leave through shared memory: by TMA where it can write them, else by rows */
    bool ping_pong; /* wgmma: consumer warpgroups take whole tiles in turn, so that one multiplies while the
                       other stores */
    int converters; /* wgmma: warpgroups that compute an operand on its way to the products, a stage each in
                       turn; 0: as many as it takes */
    bool fragments; /* wgmma: the products take an operand that is computed from registers, where those who
                       multiply compute it */
    bool promote; /* wgmma: each step's sum of products goes into f32 registers, since fp8 products add up in
                     14 bits */
    int producer_registers, consumer_registers; /* setmaxnreg */
    int ease; /* matmul, where registers are short: 1: half as many loads of the epilogue in flight; 2: as few
                 as can be, and one block an SM */

    double seconds; /* what the cost model predicts; 0: nothing. No part of the schedule itself */
} Schedule;

#endif
