/* What a region with a matrix product is, to the files of the matmul template and of the chain template
 * (chain.h); nobody else includes it. What they share besides stands in headers of its own:
 *
 *     matmul_paths.h     what multiplies: what each path accepts, and takes of an SM
 *     matmul_tiles.h     tiles and their order; matmul_gang.h: blocks that share rows
 *     matmul_operand.h, matmul_tma.h, matmul_scale.h, matmul_ring.h, matmul_convert.h   operands
 *     matmul_result.h    accumulators and what becomes of them; matmul_partials.h: parts of sums
 *     matmul_inputs.h, matmul_staging.h   what the epilogue reads, and what leaves by shared memory
 *
 * A region of this kind is one matrix product, up to four that share their first operand, or several that are
 * added up, with what is computed on the operands before (prologue) and on the product after (epilogue):
 *
 *     matmul.c           what the region is (MatmulPlan), its paths and schedules, the Template row
 *     matmul_operand.c   where operands lie in memory, and how TMA reads them
 *     matmul_patch.c     tiles, or steps of K, that are patches of a convolution's places
 *     matmul_steps.c     steps of K where that is in parts
 *     matmul_sum.c       products that are added up: each a plan of its own
 *     matmul_wgmma.c     TMA, mbarrier ring, wgmma, warp roles (sm_90a)
 *     matmul_mma.c       cp.async or computed operands, ldmatrix, mma.sync (sm_80 and later); f64, on sm_90a
 *     matmul_simt.c      fused multiply-adds from shared tiles: exact f32, f64, i32, i64
 *     matmul_ring.c      the loop over K, for the last two
 *     matmul_prologue.c  operands into shared tiles, for those
 *     matmul_tma.c       operands in by TMA
 *     matmul_staging.c   which outputs leave through shared memory
 *     matmul_stored.c    where rows and columns lie in such an output's memory
 *     matmul_boxes.c     those outputs from shared memory to global memory, by TMA
 *     matmul_boxes_rows.c  or by rows, which may be of odd length
 *     matmul_gemv.c, matmul_gemv_shape.c  few rows or columns: the larger operand streamed to registers,
 * fused multiply-adds matmul_convert.c   operands that a warpgroup computes on their way to wgmma
 *     matmul_skew.c      or brings there, whose rows begin anywhere in memory
 *     matmul_dealt.c     or that TMA reads as matrices of every eighth row
 *     matmul_scale.c     operands that are narrow memory times a factor a block
 *     matmul_epilogue.c, matmul_epilogue_store.c  accumulators to outputs, for all three
 *     matmul_vectors.c   inputs of the epilogue with one number a column, into shared memory
 *     matmul_inputs.c    inputs of the epilogue through the ring of stages
 *     matmul_row_inputs.c  those with one number a row, into registers
 *     matmul_rows.c, matmul_rows_pass.c  row statistics of the product (softmax, norms) within the epilogue
 *     matmul_partials.c  parts of sums, held by warps or by the blocks of a cluster, to sums and the epilogue
 *     matmul_rounds.c    the largest of each row, as a loop of rounds
 *     matmul_gang.c      the exchange of those statistics where a row lies in several blocks
 *     matmul_rows_gang.c  both of a softmax or a layer norm in one exchange
 *     matmul_blocks.c    statistics of a tile's part of rows and columns, which another kernel puts together
 *     matmul_gaps.c      second operands of several groups with zeros around each
 *     matmul_tiles.c     the order in which tiles of the result are visited
 *     matmul_schedules.c, matmul_schedules_patches.c  the schedules to choose from, by cost_matmul.c's
 * estimates
 */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_H

#include "codegen/template.h"
#include "codegen/tile.h"
#include "ir/value_map.h"
#include "ir/view.h"
#include "ir/windows.h"

/* wgmma (PTX ISA 9.7.15): threads that multiply together, rows of an instruction, columns of one at most. */
enum { WARPGROUP = 128, WGMMA_M = 64, WGMMA_N_MAX = 256 };
/* Shared memory besides tiles: for a block's mbarriers, and what the system takes a block. */
enum { BARRIER_BYTES = 256, BLOCK_RESERVE = 1024 };
/* Products of one launch. */
enum { MATMUL_PRODUCTS_MAX = 4 };

/* Registers of a thread whose warp takes rows or columns of a guest (wgmma_guest.c): fewer do not hold its
 * loads. */
enum { GUEST_REGISTERS = 56, GUEST_AT_LAUNCH = 128 /* where setmaxnreg deals none out */ };

enum { MATMUL_CORES = REGION_CORES_MAX, MATMUL_BLOCK_ROWS = 16 };

/* What multiplies. */
typedef enum MatmulKind {
    MATMUL_16BIT, /* f16 or bf16 into f32 */
    MATMUL_TF32,
    MATMUL_FP8,  /* e4m3 and e5m2 into f32 */
    MATMUL_INT8, /* i8 and u8 into i32 */
    MATMUL_F64,  /* by mma.sync, where the target has it */
    MATMUL_FMA,  /* fused multiply-adds in the core's own type */
} MatmulKind;

/* A factor of an operand that is the same within blocks of its elements. */
typedef struct MatmulScaleAxis {
    int64_t block;     /* elements along the axis that share it */
    const Dim *stride; /* from one block's factor to the next, in elements; NULL: it does not vary */
} MatmulScaleAxis;
typedef struct MatmulScale {
    const Value *base;              /* memory of the region's, of an operand f32 */
    const Dim *offset;              /* in elements */
    bool is_large;                  /* elements may be more than 32 bits count */
    MatmulScaleAxis axis[RANK_MAX]; /* of the operand */
} MatmulScale;

/* Whether a path has few rows, and streams the larger operand from memory to registers. */
static inline bool matmul_streams(MatmulPath path) {
    return path == MATMUL_GEMV || path == MATMUL_SKINNY;
}

struct SkinnySource;
/* How an operand's elements neighbour in memory: the paths for few rows ask for it with every schedule. */
typedef struct MatmulRuns {
    bool is_known; /* else nobody has asked yet */
    int axis; /* of the operand, along which neighbours are neighbours in memory; -1: neither of its two */
    int width_k, width_mn; /* elements along K, and along M (or N), that one access can move: 1, 2, 4 or 8 */
    int bits;              /* of memory for an element, of all that it is computed from, rounded */
    const struct SkinnySource *source; /* matmul_skinny.h; NULL: nobody has asked yet */
} MatmulRuns;

typedef struct MatmulOperand {
    const Value *value;  /* operand of the core, [..., mn, k] or [..., k, mn] */
    int mn_axis, k_axis; /* of value: its M (or N) and its K */
    const Dim *mn;
    View view;      /* the memory behind it, where is_memory */
    bool is_memory; /* an input of the region under strides, nothing computed but exact widening */
    /* Memory that has M, N or K in two parts, as heads beside each other: not is_memory, but TMA reads it, a
     * tile within one inner part. Of an axis in two, the inner part's extent and the outer part's stride; the
     * view has the inner one's. */
    bool is_parted;
    const Dim *mn_part, *mn_outer, *k_part, *k_outer; /* NULL: the axis is in one */
    /* Memory of which indices choose each matrix of the batch, or pages along one of the two axes, so that
     * TMA reads it, or each row along M or N, which warps copy (wgmma_rows.c): not is_memory; the view is
     * that of what they are chosen from. NULL: none of these. */
    const ViewGather *chosen;
    bool chooses_rows;
    /* Windows of memory, their places along one axis and what lies within along the other, which TMA reads a
     * tap at a time: not is_memory; the view has but the axis of neighbours. NULL: none. */
    const Windows *windows;
    bool is_contiguous; /* along the `major` axis neighbours are neighbours in memory */
    OperandMajor major; /* the axis that tiles keep contiguous */
    DType narrow;       /* the narrowest type that is known to hold every element */
    DType elem;         /* in shared memory: what the matrix instruction takes */
    int copy_width;     /* elements that cp.async can move at a time along the major axis; 0: none */
    int run_axis;       /* else: along which it is computed, run_width elements at a time */
    int run_width;
    int n_batch; /* batch axes along which it varies */
    int batch[RANK_MAX];
    MatmulRuns *runs;         /* matmul_gemv_shape.c fills it in */
    const MatmulScale *scale; /* is_memory times this; NULL: as it is. In MatmulPlan.scaled alone */
} MatmulOperand;

typedef struct MatmulPlan {
    const Graph *graph;
    const Region *region;
    const Target *target;
    MatmulKind kind;
    int n_cores;
    const Value *core[MATMUL_CORES]; /* what the accumulators have in the end: a product, or its sum */
    MatmulOperand a, b[MATMUL_CORES];
    /* The product, itself perhaps such a sum, whose steps of K come before this one's, in a region of its own
     * that computes what this one is added to; NULL: none. */
    const struct MatmulPlan *before;
    bool is_changed;  /* of a plan before: something is computed of its sums before others are added */
    bool is_multiple; /* they take factors alone, if anything, so that parts of them add up */
    int batch_rank;
    const Dim *m, *n, *k;
    VEC(const Value *) statistics; /* reductions of the product along its rows, in order */
    ValueMap of_statistics;        /* what is computed of them, and they themselves */
    int64_t block_cols;            /* they are of that many columns, a tile's; 0: of whole rows */
    VEC(const Value *) columns;    /* reductions of MATMUL_BLOCK_ROWS rows of its columns */
    /* Reductions along K of what the first operand is computed from, which the epilogue takes: those who
     * compute its fragments have them on the way (wgmma_fragments.c). */
    VEC(const Value *) operand_rows;
    size_t n_columns_first; /* those that wait for no other of them, and come first */
    KType accumulator;
    /* The same product read as narrow memory times factors of blocks, where it has that form, for wgmma; else
     * NULL. */
    const struct MatmulPlan *scaled;
    const struct MatmulPlan *guest; /* a product that the kernel computes too; NULL: none */
    const Dim
        *k_unit; /* parts of K, each of which may begin a step of its own (matmul_steps.c); NULL: none */
} MatmulPlan;

/* The rows that the product's kernel hosts; NULL: none. */
static inline const Region *matmul_rows_guest(const MatmulPlan *plan) {
    const Region *guest = plan->region->guest;
    return guest && guest->kind == TEMPLATE_ROWS ? guest : NULL;
}

/* The columns that it hosts; NULL: none. */
static inline const Region *matmul_columns_guest(const MatmulPlan *plan) {
    const Region *guest = plan->region->guest;
    return guest && guest->kind == TEMPLATE_COLUMNS ? guest : NULL;
}

/* Whether warps that would otherwise be idle take one of them. */
static inline bool matmul_has_idle_guest(const MatmulPlan *plan) {
    return matmul_rows_guest(plan) || matmul_columns_guest(plan);
}

/* Whether tensor cores multiply f64: by mma.sync, while other paths take it by multiply-adds. */
static inline bool matmul_is_mma_f64(const MatmulPlan *plan, const Schedule *schedule) {
    return schedule->path == MATMUL_MMA_SYNC && plan->kind == MATMUL_F64;
}

/* Whether such warps have work: a guest, or rows that indices choose. */
bool matmul_uses_idle_warps(const MatmulPlan *plan);

/* Whether K is known to be so short that sums of a thread for each element may be chosen, not only fallen
 * back to. */
bool matmul_is_short(const MatmulPlan *plan);

/* False, with a person's words in *why, where the region has not the form that this template takes. */
bool matmul_plan(const Graph *graph, const Region *region, const Target *target, MatmulPlan *plan,
                 const char **why);

/* matmul_steps.c: parts of K behind whose end TMA leaves zeros in all operands' tiles; NULL: there are none.
 */
const Dim *matmul_find_k_unit(const MatmulPlan *plan);
/* Elements of such a part with what fills its last step up, where steps of wgmma do not divide it; else 0. */
int64_t matmul_filled_unit(const MatmulPlan *plan, const Schedule *schedule);
/* Where TMA is to see the end of a part, if steps do not divide it: behind the zeros that a copy has there,
 * as far as steps go, since zeros that TMA puts within a sector take it twice as long. */
const Dim *matmul_unit_end(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand);
/* Steps of K. */
const Dim *matmul_k_steps(const MatmulPlan *plan, const Schedule *schedule);

/* The product as the wgmma path takes it. */
static inline const MatmulPlan *matmul_wgmma_plan(const MatmulPlan *plan) {
    return plan->scaled ? plan->scaled : plan;
}

/* matmul_gaps.c: whether a product's second operand has gaps (ir/gaps.h). */
bool matmul_has_gaps(const MatmulPlan *plan);

/* matmul_sum.c: the last sum of a region that has some, the product that it adds, and what it adds that to.
 */
typedef struct MatmulSum {
    const Value *sum, *product;
    Value *to;
} MatmulSum;
MatmulSum matmul_last_sum(const Region *region);
/* The plan of what the region's last sum adds its product to; NULL, with a person's words in *why, where
 * matrix instructions do not add both up. */
const MatmulPlan *matmul_plan_before(const MatmulPlan *plan, const char **why);
/* Whether the epilogue reads an input otherwise than through the products. */
bool matmul_is_read_behind(const MatmulPlan *plan, const Value *value);
/* Whether all that is computed of a value, but of products, is computed of its element at the same place:
 * what moves it (a transpose of one number a row is one a column) leaves it as `keeps` wants it. Only then
 * may a register stand for the value. */
typedef bool MatmulKeeps(const void *context, const Value *value);
bool matmul_is_read_in_place(const MatmulPlan *plan, const Value *value, MatmulKeeps *keeps,
                             const void *context);

/* Marks the region's values that depend on one of `from` otherwise than through one of `cut`; old marks go.
 */
void matmul_mark_dependents(const MatmulPlan *plan, const Value *const *from, int n_from,
                            const Value *const *cut, int n_cut, ValueMap *marks);

#endif
