/* Shared by the files that estimate the time of matrix products; nobody else includes it.
 *
 *     cost_matmul.c   the product as the estimates see it; tiles by mma.sync; a thread an element
 *     cost_simt.c     tiles by multiply-adds
 *     cost_wgmma.c    tiles by wgmma
 *     cost_patches.c  tiles, or steps of K, that are patches of the image: what differs
 *     cost_reach.c    tiles that differ in their steps of K
 *     cost_gemv.c     few rows, without tiles
 *     cost_skinny.c   a few dozen rows, without shared memory
 *
 * The constants are fitted, by an evolution strategy, to what the exhaustive tuner measured on an H200 for
 * 900 products, those of tests/gpu/sweep and others, a quarter of them with operands that lie along M or N:
 * 110000 schedules, with the choices that are near the best as the goal, and the times themselves as a lesser
 * one; those of launches, of blocks that start and of few rows further to 105 with a short K or few rows.
 * What was added since, for results and operands whose rows begin within lines, for the ends of tiles and for
 * operands that are read from memory once, is set by those and 148 more, 40000 schedules. What parts of sums
 * cost that are handed on, second readings, launches and gemv along N were fitted again to 157 products of
 * the layers of models on an H100, 30000 schedules, and to what was chosen and what was best of 260 on the
 * H200; what blocks that drift apart and an epilogue's inputs cost besides to 31 large products with
 * epilogues, 3800 schedules, and to 48 pairs of schedules. They serve as ratios for the other targets. */
#ifndef SINTER_CODEGEN_COST_SHARE_H
#define SINTER_CODEGEN_COST_SHARE_H

#include "codegen/templates/cost_matmul.h"
#include "codegen/templates/matmul_patch.h"

/* Clocks a second. */
static const double cost_clock = 1.7e9;
/* Seconds of a load by TMA. */
static const double cost_load = 0.72e-6;

/* A schedule's work, as one SM sees it. */
typedef struct CostShare {
    int cluster_m, cluster_n, split, gang;
    double rows, cols, tiles_m, tiles_n; /* of the product as the schedule takes it */
    double rounds;                       /* tiles, one after another */
    double steps;                        /* of K */
    double crowd;   /* blocks that share the SM's matrix unit and its way to L2, not the latency */
    double all;     /* blocks that run at the same time, which share L2 */
    double abreast; /* the same, on average over rounds */
} CostShare;

CostShare cost_share(const Cost *c, const MatmulPlan *plan, const Schedule *s);
/* Seconds to start as many blocks, of those that the machine has room for: others start while they work. */
double cost_starting(double blocks, int threads);
/* Rate of the matrix unit, of the whole machine, for the kind of product. */
double cost_rate(const MatmulPlan *plan);
/* The same of multiply-adds. */
double cost_fma_rate(const MatmulPlan *plan);
/* Time in which the threads of an SM's blocks compute a stage, and that of a tile's epilogue. */
double cost_computed(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w);
double cost_tile_epilogue(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w);
/* Operations for each element of an operand that is computed. */
int cost_operations(const MatmulPlan *plan, const MatmulOperand *operand);
/* How often an epilogue with `n` row and column statistics goes over the elements of its tile. */
double cost_statistics(double n);
/* Where rows of the result go on from tile to tile; none where a tile has all of a row, behind which the next
 * one begins: 1.6 million rows of 96 columns of bf16 took 141 us, 264 by the estimate with seams. */
double cost_seams(const Schedule *s, const CostShare *w);
/* One of three figures: for rows that begin at lines, at sectors, or anywhere. */
double cost_of_rows(CostRows rows, double aligned, double sectors, double anywhere);
/* Bytes of the larger operand that are read again: it is brought to SMs once for each tile across it. */
double cost_bytes_again(const Cost *c, const CostShare *w);

/* L2's time for a row of so many bytes of a tile, of which a line has others, in that of as many bytes of
 * whole lines. */
double cost_short_rows(int bytes);

/* Patches of the places of all images, so many of which are rows or K. */
double cost_patches(const MatmulPatch *patch, double extent);
/* Steps of K that one box serves. */
double cost_taps(const MatmulPlan *plan, const Schedule *s);
/* Of the rows that a tile has at each tap, those that its box brings; of weights that stay, none come. */
double cost_box(const MatmulPlan *plan, const Schedule *s, bool is_rows);
/* Seconds until weights that stay have come, once for all tiles. */
double cost_resident(const MatmulPlan *plan, const Schedule *s, const CostShare *w);
/* How much longer such tiles take than their parts. */
double cost_in_patches(const MatmulPlan *plan, const Schedule *s, const CostShare *w);

/* Steps of an average tile of the block that has the most to do, where tiles differ in theirs. */
double cost_reached_steps(const MatmulPlan *plan, const Schedule *s, const CostShare *w);

double cost_wgmma_seconds(const Cost *c, const Schedule *s);
double cost_simt_seconds(const Cost *c, const Schedule *s);
double cost_gemv_seconds(const Cost *c, const Schedule *s);
double cost_skinny_seconds(const Cost *c, const Schedule *s);

#endif
