/* Outputs that leave through shared memory, by TMA or by rows: where their rows and columns lie in memory
 * (matmul_stored.c), which they are (matmul_staging.c), and their boxes (matmul_boxes.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_STAGING_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_STAGING_H

#include "codegen/templates/matmul_patch.h"

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
 * columns side by side, in whole pieces of 16 bytes, all else is in steps of 16 bytes, and there are no more
 * dims than it takes. */
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
    const MatmulPlace *place;   /* of the first row of its first box, where rows are a patch's; else NULL */
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

/* matmul_staging.c: shared memory for the outputs whose rows lie side by side, and the maps of those that TMA
 * can write; false where there are none. `over` NULL: memory of its own; else that of another product's,
 * which has as much. */
bool matmul_staging(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const MatmulStaging *over,
                    MatmulStaging *staging);
/* Whether the memory of one product's outputs serves another's as well, in boxes of the same size and
 * elements, or the other needs none. */
bool matmul_staging_serves(const MatmulPlan *plan, const MatmulPlan *other, const Schedule *schedule);
int64_t matmul_staging_bytes(const MatmulPlan *plan, const Schedule *schedule);
const char *matmul_staging_name(const MatmulStaging *staging); /* for a kernel's summary */

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
/* Whether an output is known before the first statistic of the rows is. */
bool matmul_is_early(const MatmulPlan *plan, const Value *output);

#endif
