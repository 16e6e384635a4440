/* Kernels that take the columns between two products in parts, one after the other: which parts the rows of a
 * tile see, in which order tiles come, and tiles of memory that a part needs (chain_parts.c). Shared by
 * chain_stream.c and the relay template; nobody else includes it. */
#ifndef SINTER_CODEGEN_TEMPLATES_CHAIN_PARTS_H
#define SINTER_CODEGEN_TEMPLATES_CHAIN_PARTS_H

#include "codegen/lower.h"
#include "codegen/pipeline.h"
#include "codegen/templates/matmul_tiles.h"
#include "codegen/templates/matmul_tma.h"
#include "ir/band.h"

/* Consumer warpgroups of a block: some that have rows each, or several (warps_n) that share their rows'
 * columns. */
int parts_groups(const Schedule *schedule);
/* What all such kernels ask of a schedule: wgmma, rows for warpgroups, registers that the SM has. False, with
 * a person's words in *why. */
bool parts_accepts(const Target *target, const Schedule *schedule, const char **why);
/* Whether setmaxnreg can deal the registers out. */
bool parts_accepts_registers(const Target *target, const Schedule *schedule, const char **why);
/* Registers of a consumer thread. */
int parts_registers(const Target *target, const Schedule *schedule);
/* A schedule of so many warpgroups, columns in the end, and columns of a part, but for its stages. */
Schedule parts_schedule(int groups, int columns, int width);
/* The schedule as outputs leave by it: boxes that leave more room for stages. */
Schedule parts_store_schedule(const Schedule *schedule);

enum { PARTS_K = 16 /* elements of a matrix instruction along its sum */ };

/* Columns of a tile of 16 bits that holds so many: in more than half a row of the widest swizzle whole ones,
 * which TMA brings in fewer boxes; beyond the operand's they are zero. */
int parts_tile_columns(int columns);

typedef struct Parts {
    Builder *b;
    const MatmulPlan *plan; /* of a product whose columns these are */
    Lower *lower;           /* of its region: computes the band's numbers */
    MatmulTiles tiles;
    int rows, width;   /* of a tile, and of a part: its columns */
    int64_t bytes;     /* of memory that tiles of one matrix share, for each of these columns */
    Band band;         /* parts beyond it are left out; n 0: none are */
    bool is_ragged;    /* tiles of other rows see other parts */
    bool may_see_none; /* numbers from memory are among the limits: no part, perhaps */
    const KExpr *limit[BAND_LIMITS_MAX]; /* of the present tile, as columns, or columns less the row */
    const KExpr *first, *end;            /* its parts */
    const KExpr *own_first, *own_end;    /* of these a warpgroup's own */
} Parts;

/* Says what follows from the band. */
void parts_set_band(Parts *parts, const Band *band);
/* How many there are of a matrix. */
const Dim *parts_count(const Parts *parts);
/* Coordinates of a value's element in a tile's matrix, aligned at the right: axes of one element at 0. */
void parts_coords(const Parts *parts, const Value *value, const MatmulTile *tile, const KExpr **coords);
/* The parts that a tile's rows see anything of: one at least, of which all may be masked, or (may_see_none)
 * none. */
void parts_find(Parts *parts, const MatmulTile *tile);
/* Of the tile's parts those that a warpgroup's rows, the first of which is `row`, see anything of: one at
 * least. Else they are all its own. */
void parts_find_own(Parts *parts, const KExpr *row);
/* Around what a role does with a tile's parts. */
void parts_if_any_begin(Parts *parts);
void parts_if_any_end(Parts *parts);
/* A tile by its number, where tiles of `together` matrices are numbered beside each other: the first rows of
 * each, then the next ones. */
typedef struct PartsNumbered {
    const KExpr *within, *members; /* its number in the group of these matrices, and how many they are */
    const KExpr *member, *matrix;  /* its matrix, of the group and of all */
    const KExpr *row;              /* of tiles */
} PartsNumbered;
PartsNumbered parts_numbered(const Parts *parts, const KExpr *number, int together);
/* A loop over the block's tiles, in the order that suits their parts; `plan`: of what the tiles are of. */
MatmulTile parts_tiles_begin(Parts *parts, const MatmulPlan *plan);
/* Blocks of the launch. */
const Dim *parts_grid(const Parts *parts);

/* Where a thread of a consumer warp stands in a tile: first rows of the warp and of the lane, first column of
 * the lane within eight. */
typedef struct PartsLane {
    const KExpr *warp_row, *row, *col;
} PartsLane;
PartsLane parts_lane(Builder *b, const KExpr *warp, const KExpr *group);

/* Where a lane's elements of a part lie. */
typedef struct PartsAt {
    const KExpr *col;                 /* of the part */
    const KExpr *warp_row;            /* of the warp */
    const KExpr *lane_row, *lane_col; /* of the lane, this one within the part */
} PartsAt;

/* Elements of a part that lie beyond a limit. */
typedef struct PartsMask {
    const KExpr
        *limit; /* of a column, less the part's first and the lane's; or of that less the row's half */
    bool by_row, is_most;
} PartsMask;
/* Where some of the warp's elements lie beyond the band (masks_band), or behind the last column: calls `mask`
 * to emit what becomes of these. */
void parts_mask(Parts *parts, const PartsAt *at, bool masks_band,
                void (*mask)(void *context, const PartsMask *), void *context);
/* Whether element j of a group of 8 columns, of one of a thread's two rows, is not beyond. */
const KExpr *parts_is_inside(Builder *b, const PartsMask *mask, const KExpr *group, const KExpr *half,
                             const KExpr *j);

/* An operand's tiles: all of its `depth` elements of the sum, or as many as a part has columns. may_clip:
 * what they have beyond the operand need not be zeros. */
MatmulTma parts_operand(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, const char *name,
                        int mn, int depth, int stages, bool may_clip);
/* Brings the tile at (mn, k), of what pages say if any, and goes on to the ring's next stage. */
void parts_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const Pipeline *ring,
                const PipelineState *state, const KExpr *mn, const KExpr *k, const MatmulTile *tile);
/* Brings it alone; so many bytes besides belong to the same stage. */
void parts_load_begin(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const Pipeline *ring,
                      const PipelineState *state, const KExpr *mn, const KExpr *k, const MatmulTile *tile,
                      int64_t beside);
/* The descriptor of a stage, from that of the first. */
const KExpr *parts_stage(Builder *b, const Tile *tile, const KExpr *descriptor, const KExpr *stage);
/* That from element k of the sum on. */
const KExpr *parts_from(Builder *b, const Tile *tile, OperandMajor major, const KExpr *at, int k);

#endif
