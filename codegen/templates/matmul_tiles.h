/* Which tiles a result has, in which order blocks take them, and which matrices of a batch a tile is of
 * (matmul_tiles.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_TILES_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_TILES_H

#include "codegen/templates/matmul_patch.h"
#include "codegen/templates/matmul_reach.h"

/* Blocks along n that together hold the rows of a product with row statistics; 1: a tile holds whole rows, or
 * there are none. They run at the same time, one tile of each row of tiles a block, and exchange what they
 * know of their rows. */
enum { MATMUL_GANG_MOST = 32 };
int matmul_gang(const MatmulPlan *plan, const Schedule *schedule);

/* Matrices of a batch side by side in a tile wider than each of them; their second operands are neighbours in
 * memory. Either they share their first operand, as the heads of a projection do, and are multiplied as one;
 * or each has one of its own, as the groups of a convolution have, whose rows are neighbours as well: then a
 * step brings all members' in one line, and each is multiplied by itself (own_k):
 *
 *     channels    | group 0 | group 1 | group 2 | group 3 |     a row of the first operand's tile, at one tap
 *     columns     | x w0    | x w1    | x w2    | x w3    |     a row of the result's
 */
typedef struct MatmulMembers {
    int n;              /* 1: the tile is of one matrix */
    int axis, own_axis; /* of the batch, and of the second operand, along which they are neighbours */
    bool own_k;
} MatmulMembers;
MatmulMembers matmul_members(const MatmulPlan *plan, const Schedule *schedule);
/* Elements along K of a step's rows that a tile has of an operand, all members'. */
int matmul_row_elements(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand);
/* Columns that an instruction multiplies at once: the tile's, or one member's. */
int matmul_columns_at_once(const MatmulPlan *plan, const Schedule *schedule);
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
    MatmulPatch patch;     /* axes 0: the rows of a tile follow each other in the result */
    MatmulReach reach;     /* axes 0: all tiles have all of K */
    int span_m, span_n;    /* rows and columns of a cluster: extents that they divide are never passed */
    int together;          /* blocks that count as one: a cluster or a gang */
    const Dim *tiles_m, *tiles_n, *batch; /* how many; m and n in clusters and gangs, batch in members */
    const Dim *rows_end, *cols_end; /* of the result, where the last tile ends with them (matmul_overlaps) */
    int beside; /* axes of the batch from this on are further columns in the order (matmul_beside) */
    int above;  /* or are further rows (matmul_above) */
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

#endif
