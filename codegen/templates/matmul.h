/* Shared by the files of the matmul template, and by those of the chain template (chain.h); nobody else
 * includes it.
 *
 * A region of this kind is one matrix product, two that share their first operand, or several that are added
 * up, with what is computed on the operands before (prologue) and on the product after (epilogue):
 *
 *     matmul.c           what the region is (MatmulPlan), its paths and schedules, the Template row
 *     matmul_operand.c   where operands lie in memory, and how TMA reads them
 *     matmul_sum.c       products that are added up: each a plan of its own
 *     matmul_wgmma.c     TMA, mbarrier ring, wgmma, warp roles (sm_90a)
 *     matmul_mma.c       cp.async or computed operands, ldmatrix, mma.sync (sm_80 and later); f64, on sm_90a
 *     matmul_simt.c      fused multiply-adds from shared tiles: exact f32, f64, i32, i64
 *     matmul_ring.c      the loop over K, for the last two
 *     matmul_prologue.c  operands into shared tiles, for those
 *     matmul_tma.c       operands in by TMA; which outputs leave through shared memory
 *     matmul_stored.c    where rows and columns lie in such an output's memory
 *     matmul_boxes.c     those outputs from shared memory to global memory, by TMA or by rows
 *     matmul_gemv.c      few rows or columns: the larger operand streamed to registers, fused multiply-adds
 *     matmul_convert.c   operands that a warpgroup computes on their way to wgmma
 *     matmul_skew.c      or brings there, whose rows begin anywhere in memory
 *     matmul_scale.c     operands that are narrow memory times a factor a block
 *     matmul_epilogue.c  accumulators to outputs, for all three
 *     matmul_inputs.c    inputs of the epilogue through the ring of stages
 *     matmul_row_inputs.c  those with one number a row, into registers
 *     matmul_rows.c, matmul_rows_pass.c  row statistics of the product (softmax, norms) within the epilogue
 *     matmul_partials.c  parts of sums, held by warps or by the blocks of a cluster, to sums and the epilogue
 *     matmul_rounds.c    the largest of each row, as a loop of rounds
 *     matmul_gang.c      the exchange of those statistics where a row lies in several blocks
 *     matmul_rows_gang.c  both of a softmax or a layer norm in one exchange
 *     matmul_blocks.c    statistics of a tile's part of rows and columns, which another kernel puts together
 *     matmul_tiles.c     the order in which tiles of the result are visited
 *     matmul_schedules.c the schedules to choose from, by cost_matmul.c's estimates
 */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_H

#include "codegen/lower.h"
#include "codegen/pipeline.h"
#include "codegen/reduce.h"
#include "codegen/template.h"
#include "codegen/tile.h"
#include "ir/block.h"
#include "ir/value_map.h"
#include "ir/view.h"

/* wgmma (PTX ISA 9.7.15): threads that multiply together, rows of an instruction, columns of one at most. */
enum { WARPGROUP = 128, WGMMA_M = 64, WGMMA_N_MAX = 256 };
/* Shared memory besides tiles: for a block's mbarriers, and what the system takes a block. */
enum { BARRIER_BYTES = 256, BLOCK_RESERVE = 1024 };
/* Products of one launch. */
enum { MATMUL_PRODUCTS_MAX = 4 };

/* Registers of a thread whose warp takes rows or columns of a guest (wgmma_guest.c): fewer do not hold its
 * loads. */
enum { GUEST_REGISTERS = 56, GUEST_AT_LAUNCH = 128 /* where setmaxnreg deals none out */ };

enum { MATMUL_CORES = 2, MATMUL_BLOCK_ROWS = 16 };

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
    const Value *base;              /* f32 memory of the region's */
    const Dim *offset;              /* in elements */
    bool is_large;                  /* elements may be more than 32 bits count */
    MatmulScaleAxis axis[RANK_MAX]; /* of the operand */
} MatmulScale;

/* How an operand's elements neighbour in memory: the path gemv asks for it with every schedule. */
typedef struct MatmulRuns {
    bool is_known; /* else nobody has asked yet */
    int axis; /* of the operand, along which neighbours are neighbours in memory; -1: neither of its two */
    int width_k, width_mn; /* elements along K, and along M (or N), that one access can move: 1, 2, 4 or 8 */
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
    /* Memory of which indices choose each matrix of the batch, so that TMA reads it, or each row along M or
     * N, which warps copy (wgmma_rows.c): not is_memory; the view is that of what they are chosen from. NULL:
     * neither. */
    const ViewGather *chosen;
    bool chooses_rows;
    bool is_contiguous; /* along the `major` axis neighbours are neighbours in memory */
    OperandMajor major; /* the axis that tiles keep contiguous */
    DType narrow;       /* the narrowest type that is known to hold every element */
    DType elem;         /* in shared memory: what the matrix instruction takes */
    int copy_width;     /* elements that cp.async can move at a time along the major axis; 0: none */
    int run_axis;       /* else: along which it is computed, run_width elements at a time */
    int run_width;
    int n_batch; /* batch axes along which it varies */
    int batch[RANK_MAX];
    MatmulRuns *runs;         /* matmul_gemv.c fills it in */
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

/* The product as the wgmma path takes it. */
static inline const MatmulPlan *matmul_wgmma_plan(const MatmulPlan *plan) {
    return plan->scaled ? plan->scaled : plan;
}

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

/* Reads operand `which` of a product of the region. */
void matmul_read_operand(const Graph *graph, const Region *region, const Value *product, int which,
                         MatmulOperand *operand);
/* Whether indices choose the operand's matrices of the batch, or its rows, from memory that can be read so,
 * whatever the type of its elements; notes which, and the view. */
bool matmul_find_chosen(const Graph *graph, const Region *region, MatmulOperand *operand);
/* The same for memory that the operand is computed from, with its axes in the operand's order. */
bool matmul_take_chosen(const Graph *graph, const Region *region, const ViewGather *gather,
                        MatmulOperand *operand);
/* Sets what follows from an operand's view. */
void matmul_read_view(MatmulOperand *operand);
/* Whether TMA can read an operand: contiguous, everything else in steps of 16 bytes. */
bool matmul_is_tma(const Graph *graph, const MatmulOperand *operand, const char **why);
/* Whether it can where tiles lie within the parts that memory has the operand in. */
bool matmul_is_parted(const MatmulOperand *operand);
/* Whether it reads matrices that indices choose. */
bool matmul_has_chosen_matrices(const MatmulOperand *operand);
/* Whether TMA brings the operand in any of these ways. */
bool matmul_is_brought_by_tma(const Graph *graph, const MatmulOperand *operand, const char **why);
/* Whether warps of wgmma's kernels copy the rows that indices choose. */
bool matmul_has_chosen_rows(const MatmulOperand *operand);
bool matmul_chooses_rows(const MatmulPlan *plan); /* of any operand */
/* What an index chooses for a batch, and for a row along M or N (NULL: it chooses whole matrices): -1 where
 * the index is none of what is chosen from, or the row none of the operand's. TMA reads zeros at -1, also
 * from a tensor of no matrices, which its map gives one. */
const KExpr *matmul_chosen(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                           const KExpr *const *batch, const KExpr *row);
/* Ahead of a tile's loads by TMA, which matrix of the operand they are of; NULL: it is the batch's. */
const KExpr *matmul_chosen_matrix(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                                  const KExpr *const *batch);
/* An input of the epilogue that TMA can read: 16-bit elements, the space's own dims, of which so many are a
 * batch's, rows in steps of 16 bytes. */
enum { INPUTS_BATCH = 2 };
bool matmul_is_tma_input(const MatmulPlan *plan, const Value *value);

/* Blocks along n that together hold the rows of a product with row statistics; 1: a tile holds whole rows, or
 * there are none. They run at the same time, one tile of each row of tiles a block, and exchange what they
 * know of their rows. */
enum { MATMUL_GANG_MOST = 32 };
int matmul_gang(const MatmulPlan *plan, const Schedule *schedule);

/* matmul_scale.c */

/* Whether a computed operand is memory, perhaps chosen by indices, times a factor a block; then its view is
 * that memory's, and `scale` is set. */
bool matmul_find_scale(const Graph *graph, const Region *region, MatmulOperand *operand);
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

/* Matrices of a batch side by side in a tile wider than each of them, so that they are multiplied as one:
 * they share their first operand, as the heads of a projection do, and their second ones are neighbours in
 * memory. */
typedef struct MatmulMembers {
    int n;              /* 1: the tile is of one matrix */
    int axis, own_axis; /* of the batch, and of the second operand, along which they are neighbours */
} MatmulMembers;
MatmulMembers matmul_members(const MatmulPlan *plan, const Schedule *schedule);
/* The batch of one of the matrices that a tile has, where the first of them is that of `batch`. */
typedef struct MatmulBatch {
    const KExpr *at[RANK_MAX];
} MatmulBatch;
MatmulBatch matmul_member_batch(Builder *b, const MatmulPlan *plan, const MatmulMembers *members,
                                const KExpr *const *batch, const KExpr *member);

/* matmul_tiles.c: tiles of the result in an order that keeps L2 warm: groups of `group_m` tiles along m, n
 * advancing within, and behind the last n the next matrix of those that share the first operand; or, where
 * `group_n` is set, groups of so many along n, m advancing within. Where indices choose second operands, the
 * rows of all matrices are as of one. With swap_ab, "m" of a tile lies along N of the result. A cluster
 * counts as one tile here. */
typedef struct MatmulTiles {
    int tile_m, tile_n, cluster_m, cluster_n, gang, group_m, group_n;
    MatmulMembers members; /* tile_n columns of each */
    int span_m, span_n;    /* rows and columns of a cluster: extents that they divide are never passed */
    int together;          /* blocks that count as one: a cluster or a gang */
    const Dim *tiles_m, *tiles_n, *batch; /* how many; m and n in clusters and gangs, batch in members */
    bool is_swapped;
    bool rows_overlap,
        cols_overlap; /* the last tile ends with the rows, with the columns (matmul_overlaps) */
    int beside;       /* axes of the batch from this on are further columns in the order (matmul_beside) */
    int above;        /* or are further rows (matmul_above) */
    const Dim *across, *down; /* columns and rows of tiles with them */
    const Dim *count;
} MatmulTiles;
typedef struct MatmulTile {
    const KExpr *row, *col; /* first of the tile of this CTA */
    const KExpr *batch[RANK_MAX];
} MatmulTile;
MatmulTiles matmul_tiles(const MatmulPlan *plan, const Schedule *schedule);
/* Whether the last of several tiles along the tile's rows (or columns) begins before the one in front of it
 * ends, and ends with the result: all of it is there. What TMA fills with zeros costs more than what it
 * reads, and blocks that ask for less than their neighbours run ahead of them, and no longer ask for the same
 * columns together, which L2 then sends twice: gelu behind 192 x 14336 x 4096 took 79 us by two tiles of 128
 * rows where 256 rows take 50, and takes 57. What both have is computed twice, the same bits: nothing may
 * count rows or columns, nor add up K in an order of the tile's own. */
bool matmul_overlaps(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);
/* The axis of the batch from which on all matrices have one first operand; the rank of the batch where none
 * do, or where matrices are rows (matmul_above). */
int matmul_beside(const MatmulPlan *plan);
/* The axis of the batch from which on indices choose all matrices' second operands, which then may be the
 * same for many of them; the rank of the batch where they do not. */
int matmul_above(const MatmulPlan *plan);
/* Blocks of a persistent launch: no more than run at once, and no more than the number of rounds needs. */
const Dim *matmul_persistent_grid(const MatmulPlan *plan, const Schedule *schedule);
const Dim *matmul_grid(const MatmulPlan *plan, const MatmulTiles *tiles, int blocks_per_sm);
MatmulTile matmul_tile_at(Builder *b, const MatmulPlan *plan, const MatmulTiles *tiles, const KExpr *number);
/* Coordinates of a batch in an operand's batch axis i, aligned at the right; grouped axes repeat. */
const KExpr *matmul_batch_coord(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, int axis,
                                const KExpr *const *batch);
/* The element of an operand's memory that lies in a batch's matrix where `element` does in the first. */
const KExpr *matmul_in_batch(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                             const KExpr *element, const KExpr *const *batch);

/* matmul_gang.c: a block's part in its gang. Packets, of two rows that are half_rows apart, lie as [gang]
 * [parity of the round][statistic][such a pair of rows][block of the gang]; the pairs are those of the tile,
 * for each consumer warpgroup that has tiles of its own. */
typedef struct MatmulGang {
    int blocks;
    const KBuffer *packets;
    const KExpr *gang, *own; /* number of the gang, and of this block in it */
    const KExpr *lane_pair;  /* of the thread's first rows among `pairs` */
    int pairs;
    const KVar *round; /* i32: exchanges so far */
} MatmulGang;
/* Elements of the packets of each block of the grid; `rows`: those of all tiles that it works on at a time.
 */
int64_t matmul_gang_words(int rows);
MatmulGang matmul_gang_new(Builder *b, const MatmulPlan *plan, const Schedule *schedule, int rows,
                           const KBuffer *packets);

/* What a thread has of the product after the loop over K: element
 *     ((block * block_groups + first_group + group) * halves + half) * width + e   of each accumulator array
 * is row  row + block * block_rows + half * half_rows,  column  col + group * group_cols + e. */
typedef struct MatmulFragment {
    const KVar *accumulator[MATMUL_CORES];
    int blocks, block_rows;
    int halves, half_rows;
    int groups, group_cols;
    int block_groups;         /* of the arrays: more than `groups` where a tile has several matrices */
    const KExpr *first_group; /* of this one; NULL: 0 */
    int width;
    const KExpr *row, *col;
    const KExpr *lane_col; /* the thread's first column of a group; NULL where no columns move */
    int tile_rows,
        tile_cols; /* of the tile, or the cluster's tiles together: extents that they divide need no guard */
    int row_lanes; /* neighbouring lanes that share each row, together all of the tile's columns */
    bool is_swapped;                      /* rows lie along N, columns along M */
    const struct MatmulRow *operand_rows; /* the plan's, known in all lanes of a row; NULL: loops in place */
    bool is_whole;          /* the tile's first column is the result's, and group g has columns 8 g and on */
    const MatmulGang *gang; /* blocks that hold the rest of the rows; NULL: the tile holds whole rows */
} MatmulFragment;

/* Shared memory through which outputs leave: each warp its own ring of boxes of 16 rows. The rows of a tile
 * of a transposed product lie along N: there a warpgroup has boxes of 64 columns, whole lines of memory. */
enum { STAGING_OUTPUTS = 2, STAGING_ROWS = 16, STAGING_PARTS = 8 };
/* matmul_stored.c: where the result's rows and columns lie in an output's memory, as the dims of a tensor
 * map, innermost first. An axis may lie in parts, as the rows of [B, S] heads first: then a box of rows and
 * columns lies within one part. */
enum { STORED_DIMS = 4 };
typedef struct MatmulStored {
    int n;
    struct {
        int axis; /* of the result: of its batch, then rows, then columns */
        const Dim *dim, *stride;
        const Dim *each; /* elements of the axis to one of these */
        bool is_last;    /* the outermost part of its axis */
    } at[STORED_DIMS];
} MatmulStored;
/* False where TMA cannot store the output: it can where elements are of whole bytes, the innermost are
 * columns side by side, all else is in steps of 16 bytes, and there are no more dims than it takes. */
bool matmul_stored(const MatmulPlan *plan, const Value *output, MatmulStored *stored);
/* Where TMA cannot: how many elements of a row a lane stores at a time, so that a box of STAGING_ROWS by
 * `cols` leaves by rows; 0 where a row's elements are not side by side, or too few of them. */
int matmul_stored_width(const MatmulPlan *plan, const Value *output, int cols);
/* The map's number, for boxes of `rows` by `cols`. */
int matmul_stored_map(Builder *b, const Value *output, const MatmulStored *stored, int rows, int cols,
                      KSwizzle swizzle);
/* Coordinates of a box at a row and a column of the result, those of its window. */
int matmul_stored_coords(Builder *b, const MatmulPlan *plan, const MatmulStored *stored,
                         const KExpr *const *batch, const KExpr *row, const KExpr *col, KOperand *coords);

/* An output that takes a window of the columns: whole boxes, each of which is one output's. */
typedef struct MatmulPart {
    const Value *output;
    int64_t first, width;
    MatmulStored stored;
    int map;
} MatmulPart;
typedef struct MatmulStaging {
    Tile tile[STAGING_OUTPUTS]; /* of 16 rows (or 64 columns), equally many columns (rows); `in_turn` an owner
                                 */
    bool is_swapped;            /* of a transposed product */
    int groups;                 /* consumer warpgroups */
    int in_turn;                /* boxes of a warp: one is read while it fills another, if it has two */
    int cols;                   /* of the product's tile in a box */
    const KExpr *owner;         /* number of the consumer warp, or of the warpgroup */
    const KExpr *row, *col;     /* of its first box in the product's tile */
    const KExpr *lane_row, *lane_col; /* of the 8x8 matrix row that a lane addresses, within a box */
    int n_outputs;                    /* those that leave this way */
    int n_tma;                        /* the first of them, by TMA; the others by rows */
    const Value *output[STAGING_OUTPUTS];
    MatmulStored stored[STAGING_OUTPUTS];
    int map[STAGING_OUTPUTS];       /* tensor map of each that TMA stores */
    int row_width[STAGING_OUTPUTS]; /* elements that a lane moves of the others (matmul_stored_width) */
    int n_parts; /* not 0: these, by their first columns, which leave no column out, share one ring of boxes
                  */
    MatmulPart parts[STAGING_PARTS];
} MatmulStaging;

/* matmul_tma.c: shared memory for the outputs whose rows lie side by side, and the maps of those that TMA can
 * write; false where there are none. `over` NULL: memory of its own; else that of another product's, which
 * has as much. */
bool matmul_staging(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const MatmulStaging *over,
                    MatmulStaging *staging);
/* Whether the memory of one product's outputs serves another's as well, in boxes of the same size and
 * elements, or the other needs none. */
bool matmul_staging_serves(const MatmulPlan *plan, const MatmulPlan *other, const Schedule *schedule);
int64_t matmul_staging_bytes(const MatmulPlan *plan, const Schedule *schedule);
const char *matmul_staging_name(const MatmulStaging *staging); /* for a kernel's summary */

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
    bool is_once;            /* nobody loads these elements again: L2 gives them up first */
    /* What the tile has along M or N beyond the operand need not be zeros: it is left as it was. Rows beyond
     * the end of memory are no work for memory, but they are for L2: 132 blocks whose tiles had 1 row of 128
     * took 72 us where they took 45 with all 128. */
    bool is_clipped;
} MatmulTma;
/* Bytes that the load of the tile at mn0 brings, this block's and others' parts. */
const KExpr *matmul_tma_bytes(Builder *b, const MatmulTma *tma, const KExpr *mn0);
MatmulMaps matmul_tma_maps(Builder *b, DimTable *dims, const MatmulTma *tma); /* that loads take */
/* Loads the tile at (mn0, k0) of a batch into a stage; the bytes count at mbarrier address `full`. */
void matmul_tma_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const KExpr *stage,
                     const KExpr *full, const KExpr *mn0, const KExpr *k0, const KExpr *const *batch);

/* Inputs of the epilogue with one element a column (a bias), brought to shared memory while the products run,
 * so that the epilogue does not wait for them: cp.async by the warpgroup that needs them, two copies in turn.
 */
enum { VECTORS_MAX = 4 };
typedef struct MatmulVectors {
    int n;
    const Value *value[VECTORS_MAX];
    const KBuffer *buffer[VECTORS_MAX];
    const KExpr *base;     /* element of the buffers at which the present tile's copy begins */
    const KExpr *lane_col; /* of the thread's first column within the tile */
} MatmulVectors;
/* Whether the epilogue reads an input otherwise than through the products. */
bool matmul_is_read_behind(const MatmulPlan *plan, const Value *value);
/* Whether all that is computed of a value, but of products, is computed of its element at the same place:
 * what moves it (a transpose of one number a row is one a column) leaves it as `keeps` wants it. Only then
 * may a register stand for the value. */
typedef bool MatmulKeeps(const void *context, const Value *value);
bool matmul_is_read_in_place(const MatmulPlan *plan, const Value *value, MatmulKeeps *keeps,
                             const void *context);
/* Those that the epilogue reads and cp.async can copy in words of 4 bytes, as many as fit `bytes` with
 * `copies` copies. */
void matmul_find_vectors(const MatmulPlan *plan, int tile_cols, int copies, int64_t bytes,
                         MatmulVectors *vectors);

/* matmul_inputs.c: inputs of the epilogue with an element for each of the product's, of 16 bits, which the
 * producer brings through the ring behind the steps of K. */
enum { INPUTS_MOST = 2 };
typedef struct MatmulInputs {
    int n;
    const Value *memory[INPUTS_MOST]; /* the region's input */
    const Value *value[INPUTS_MOST];  /* the same, or its reshape to the product's dims */
    bool is_held;           /* read by the pass before the first statistic; else where outputs are stored */
    int chunks, chunk_cols; /* a chunk of one input is a stage */
    Tile tile[INPUTS_MOST];
    int map[INPUTS_MOST];
    /* a consumer's */
    const Pipeline *pipeline;
    const PipelineState *state;
    const KExpr *row;                /* of the tile: the warp's first */
    const KExpr *stage[INPUTS_MOST]; /* of the present chunk */
    const KVar *words[INPUTS_MOST];  /* of the present batch of column groups: a pair of elements each */
} MatmulInputs;
/* Whether the schedule has a way through the ring for them; else each thread waits for its own elements. */
bool matmul_inputs_have_way(const MatmulPlan *plan, const Schedule *schedule);
/* Those that the epilogue reads element by element; n is 0 where there are none, or the schedule has no way
 * for them. */
void matmul_find_inputs(Builder *b, const MatmulPlan *plan, const Schedule *schedule, MatmulInputs *inputs);
/* `rows` and `cols`: the operands' tiles that give rows and columns, over whose stages chunks are laid. */
void matmul_inputs_declare(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const KBuffer *rows,
                           const KBuffer *cols, MatmulInputs *inputs);
/* The producer's part of a tile. */
void matmul_inputs_load(Builder *b, const MatmulPlan *plan, const MatmulInputs *inputs,
                        const Pipeline *pipeline, const PipelineState *state, const MatmulTile *at);

/* Nothing that reads the registers may move in front of this place, nor be known to be what was computed
 * before it. */
void matmul_settle(Builder *b, const KVar *array);
/* staging NULL: every output is stored from registers. */
void matmul_epilogue(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                     const KExpr *const *batch, const MatmulStaging *staging, const MatmulVectors *vectors,
                     MatmulInputs *inputs);
/* Stores nothing: `value`, of the product's shape, takes the product's place in accumulator[0], for another
 * product; zero behind the last column. */
void matmul_epilogue_hold(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulVectors *vectors, const Value *value);

/* What is known of a thread's rows. */
typedef struct MatmulRow {
    const Value *value; /* a statistic, or an input */
    const KVar *array;  /* one register for each of the thread's rows: blocks * halves */
} MatmulRow;
/* Stores the outputs of a plan that has none but those of one element a row, computed from what is known of
 * the rows in all lanes that share them. */
void matmul_epilogue_rows(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulRow *known, int n_known);

/* matmul_boxes.c: ahead of all tiles: which row of four 8x8 matrices a lane addresses (`lane_row`,
 * `lane_col`). */
void matmul_boxes_begin(Builder *b, MatmulStaging *staging);
/* The first row of an owner's boxes within the tile, of which `warp_row` is the warp's. */
const KExpr *matmul_boxes_row(Builder *b, const MatmulStaging *staging, const KExpr *warp_row);
/* The threads of a consumer warpgroup meet: number `group` of so many. */
void matmul_meet_group(Builder *b, const KExpr *group, int groups);
/* Boxes may be written again: those of all but the latest rounds, 0 or 1, have been read. */
void matmul_boxes_wait(Builder *b, const MatmulStaging *staging, int rounds);
/* Behind the last tile: shared memory must outlive the copies out of it. */
void matmul_boxes_end(Builder *b, const MatmulStaging *staging);

/* An unrolled loop over 0 .. count-1; a constant and no loop where count is 1. */
const KExpr *epilogue_loop(Builder *b, const char *name, int count);
void epilogue_loop_end(Builder *b, int count);

/* Marks the region's values that depend on one of `from` otherwise than through one of `cut`; old marks go.
 */
void matmul_mark_dependents(const MatmulPlan *plan, const Value *const *from, int n_from,
                            const Value *const *cut, int n_cut, ValueMap *marks);
/* Whether an output is known before the first statistic of the rows is. */
bool matmul_is_early(const MatmulPlan *plan, const Value *output);

/* matmul_blocks.c: whether a schedule's tiles are the blocks that the region's statistics are of. */
bool matmul_accepts_blocks(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Whether a tile has all columns of a row that its statistics are of. */
bool matmul_has_rows(const MatmulPlan *plan, const Schedule *schedule);

/* matmul_prologue.c (matmul_ring.h) */
/* The operand as a region of its own: its dims the space, itself the output. */
Region *matmul_operand_space(Arena *arena, const Region *region, const Value *value);
/* Registers in which a thread holds a stage's part of a computed operand; 0 where it is copied. */
int matmul_loader_registers(const MatmulPlan *plan, const MatmulOperand *operand, const Schedule *schedule,
                            int tile_mn, int threads);
/* Bytes of one stage; `is_mn_tile`: as threads alone read it, M or N contiguous whatever memory has. */
int64_t matmul_loader_bytes(const MatmulOperand *operand, int tile_mn, int tile_k, bool is_mn_tile);

/* matmul_partials.c: sums that several warps of a block, or the blocks of a cluster, hold parts of, as rows
 * along M and columns along N of the tile, or where is_swapped the other way: `parts` of each block, one
 * after another. Rows, columns and threads are powers of two. */
enum { PARTIALS_PAD = 4 /* elements between rows, against bank conflicts */ };
typedef struct MatmulPartials {
    const KBuffer *buffer[MATMUL_CORES];
    int rows, cols;
    int parts;
    int cluster;     /* blocks whose parts meet; 1: none */
    bool is_swapped; /* rows lie along N, columns along M: few rows, fewer than threads */
} MatmulPartials;
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

/* wgmma_fragments.c: whether those who multiply take an operand to registers: it is computed, or rows of it
 * are reduced on the way. */
bool matmul_has_fragments(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand);
/* Registers of a thread for it. */
int matmul_fragment_registers(const MatmulPlan *plan, const Schedule *schedule);
/* Whether its words go from memory to the products without being taken apart. */
bool matmul_fragments_are_packed(const MatmulPlan *plan, const Schedule *schedule);
/* wgmma_turned.c: whether wgmma takes an operand from registers alone, as rows, since it is contiguous along
 * M or N; registers of a thread for it. */
bool matmul_is_turned(const MatmulPlan *plan, const MatmulOperand *operand);
int matmul_turned_registers(const MatmulPlan *plan, const Schedule *schedule);
/* wgmma_accepts.c: the operand that gives the tile's rows, or its columns; of several, the first. */
const MatmulOperand *matmul_side(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);
/* Bits that an element of the operand which gives the tile's rows, or its columns, takes in a stage. */
int matmul_stage_bits(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);
/* Lines of 128 bytes that a row of `bytes` asks L2 for, on average over a matrix's tiles: twice for those
 * that a tile begins within. */
double matmul_lines(int bytes);
/* Elements along M or N of an operand that a stage of the wgmma path has, of the tile's rows or columns.
 * Where the operand is contiguous along them these are whole lines, if TMA asks for fewer so than for the
 * runs that divide the tile, which the matrix unit reads slower, too; the last line may reach into the next
 * tile, or beyond the operand's end. */
int matmul_held(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);

/* Bytes of shared memory of a block. */
/* wgmma in two levels: each step's products into registers of their own, whose sum goes into the f32
 * accumulators, with the factors of its block. Columns of the result that one such sum spans; 0: the products
 * go into the accumulators straight. */
int matmul_partial_cols(const MatmulPlan *plan, const Schedule *schedule);
/* Whether any operand has factors of blocks. */
bool matmul_has_scale(const MatmulPlan *plan);
/* Whether steps of K lie within blocks, and the columns of an instruction share a factor. */
bool matmul_scales_fit(const MatmulPlan *plan, const Schedule *schedule);
int64_t matmul_smem_wgmma(const MatmulPlan *plan, const Schedule *schedule);
int64_t matmul_smem_tiles(const MatmulPlan *plan, const Schedule *schedule); /* mma.sync, multiply-adds */
int64_t matmul_smem_gemv(const MatmulPlan *plan, const Schedule *schedule);
/* The least tile_k of the gemv path for these warps and columns, one run of each lane; 0: they do not divide.
 */
int matmul_gemv_step(const MatmulPlan *plan, const Schedule *schedule);
/* What the gemv path's threads load, as estimates of its time see it. */
typedef struct MatmulStream {
    bool along_k;  /* the weights lie along K, not along N */
    bool is_apart; /* the few rows do not: their neighbours along K lie apart */
    int line;      /* bytes in a row that a warp's load has from memory */
    int columns;   /* of the product that a thread adds to, for which it reads the few rows once */
    double asked;  /* lines of 128 bytes of the few rows that a warp asks L1 for, for each weight of a lane */
} MatmulStream;
/* `few`: how many rows, or columns, the product has that are few. */
MatmulStream matmul_gemv_stream(const MatmulPlan *plan, const Schedule *schedule, int64_t few);
/* Registers of a thread of the gemv path, estimated. */
int matmul_gemv_registers(const MatmulPlan *plan, const Schedule *schedule);

void matmul_build_wgmma(Builder *b, const MatmulPlan *plan);
void matmul_build_mma(Builder *b, const MatmulPlan *plan);
void matmul_build_simt(Builder *b, const MatmulPlan *plan);
void matmul_build_gemv(Builder *b, const MatmulPlan *plan);

/* Whether what is loaded once should be the first that L2 gives up, so that it drives out neither what is
 * read again nor what others wrote. Of streams many times its size nothing would stay anyway, and they are
 * faster when L2 writes those lines back at once (H200, reading behind a kernel that wrote 256 MB: 34.2
 * against 37.8 us for 117 MB, but 117.4 against 112.9 for 470 MB). */
bool matmul_leaves_l2(const MatmulPlan *plan, const MatmulOperand *operand);

/* With stream_k: rounds of whole tiles, then tiles that groups of blocks share, so many each; of the steps of
 * such a tile, what a block has; parts that the owner of one adds. */
typedef struct MatmulShares {
    int rounds, tiles, parts;
    double share;
} MatmulShares;
/* False: none are shared. */
bool matmul_stream(const MatmulPlan *plan, const Schedule *schedule, MatmulShares *shares);

/* Registers of a thread, estimated; more than 255 spill. */
int matmul_registers(const MatmulPlan *plan, const Schedule *schedule);
/* Blocks for which an SM has shared memory, registers and threads, by estimate. */
int matmul_blocks_that_fit(const MatmulPlan *plan, const Schedule *schedule);
/* Blocks that run on one SM at a time, as far as the kernel asks for it (`.minnctapersm`). */
int matmul_blocks_per_sm(const MatmulPlan *plan, const Schedule *schedule);

bool matmul_accepts_wgmma(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_mma(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_simt(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_gemv(const MatmulPlan *plan, const Schedule *schedule, const char **why);

/* Whether a warp whose fragment spans so many columns has every column that its epilogue reads. */
bool matmul_holds_blocks(const MatmulPlan *plan, int columns, const char **why);

/* matmul_schedules.c: schedules worth trying, best first, of those that accepts() takes; how many. `loop` is
 * the one that always works, and always among them. */
int matmul_schedules(const MatmulPlan *plan, const DimBindings *hint, const Schedule *loop, Schedule *out,
                     int room,
                     bool (*accepts)(const MatmulPlan *plan, const Schedule *schedule, const char **why));

#endif
