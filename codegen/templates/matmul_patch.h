/* Tiles whose rows are a patch of the places of windows (matmul_patch.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_PATCH_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_PATCH_H

#include "codegen/templates/matmul.h"

/* Rows of a tile that lie beside each other in the box: as many as wgmma reads from one piece of memory. */
enum { PATCH_GROUP = 8 };
/* Places of a step along K: 8 x 8, or in one line. */
enum { PATCH_PLACES = 64 };
/* Axes along which it may have several places. */
enum { PATCH_AXES = 2 };

/* Axes are in the order of the windows': those whose places vary fastest first. */
typedef struct MatmulPatch {
    const Windows *windows;
    bool is_along_k;   /* the places are those of a step of K, not of the tile's rows: the gradient of
                          weights, whose rows are taps and channels */
    const Dim *extent; /* places of all images */
    int axes;
    int places[WINDOWS_AXES_MAX]; /* of the tile, or of a step, along each axis */
    int box[WINDOWS_AXES_MAX];    /* elements of the base that their windows span */
    int taps;                     /* of a window */
    int apart;                    /* elements of the box from one group of places to the next */
    int64_t rows_apart;           /* rows of the result from one to the next */
    /* Along K: rows of a tile in blocks of 64, each of `beside` taps along the first axis with so many
     * channels; a line of taps along it is in `across` blocks, a tile has `lines` of them, each warpgroup
     * `own`, or, of one line, its part. */
    int channels, beside, across, lines, own;
} MatmulPatch;

/* Axes along which it has. */
static inline int matmul_patch_sides(const MatmulPatch *patch) {
    return patch->axes < PATCH_AXES ? patch->axes : PATCH_AXES;
}

/* Whether one box may have all taps of a tile's rows, and nothing counts on rows that follow each other in
 * the result; the patch of the schedule's tile. */
bool matmul_patch(const MatmulPlan *plan, const Schedule *schedule, MatmulPatch *patch, const char **why);
/* Blocks of 64 rows that a line of taps of weights takes, in a product that is their gradient; 0: it is not.
 */
int matmul_patch_across(const MatmulPlan *plan);
/* The same of a schedule that is accepted. */
MatmulPatch matmul_patch_of(const MatmulPlan *plan, const Schedule *schedule);
/* Boxes that a tile takes one after the other: each has a step's channels. */
const Dim *matmul_patch_steps(const MatmulPlan *plan, const Schedule *schedule);
/* Elements of a box, of one channel. */
int matmul_patch_elements(const MatmulPatch *patch);
/* The element of a box at which the window of the first place has tap number `tap`. */
int matmul_patch_tap(const MatmulPatch *patch, int tap);
/* Along K: the same for the first tap of a warpgroup's block, beyond that of its first block, and of the
 * blocks of warpgroup number 1, beyond those of number 0. */
int matmul_patch_block(const MatmulPatch *patch, int block);
int matmul_patch_warpgroup(const MatmulPatch *patch, int blocks);
/* Tiles of all rows: by channels, then by lines of taps. */
int64_t matmul_patch_tiles(const MatmulPatch *patch);
/* The first row of tile `number`. */
const KExpr *matmul_patch_first(Builder *b, const MatmulPatch *patch, const KExpr *number);
/* wgmma_patch.c: whether the weights stay in shared memory for the launch, all of them. */
bool matmul_patch_stays(const MatmulPlan *plan, const Schedule *schedule);
/* Elements of shared memory from one stage's box to the next, at multiples of the swizzle's period. */
int64_t matmul_patch_pitch(const MatmulPlan *plan, const Schedule *schedule);

/* Patches of all images. */
const Dim *matmul_patch_count(DimTable *dims, const MatmulPatch *patch);
/* The row of the result that is the first place of patch `number`. */
const KExpr *matmul_patch_row(Builder *b, const MatmulPatch *patch, const KExpr *number);

/* Behind a map's first dim, of columns: those of a matrix whose rows are the result's, `pitch` apart, and the
 * box of the first `rows` of a patch's. */
void matmul_patch_dims(DimTable *dims, const MatmulPatch *patch, const Dim *pitch, int rows, KTensorMap *map);

/* Where a place of a patch lies, beyond the last one of the image perhaps. */
typedef struct MatmulPlace {
    const MatmulPatch *patch;
    const KExpr *at[PATCH_AXES]; /* along the axes that it has several places of */
    const KExpr *beyond;         /* number of the image's, along the other axes and from image to image */
} MatmulPlace;
/* That of row `lane` of group number `group`, of the patch whose first row is `row`. */
MatmulPlace matmul_patch_place(Builder *b, const MatmulPatch *patch, const KExpr *row, const KExpr *group,
                               const KExpr *lane);
/* The place so many groups behind it. */
MatmulPlace matmul_patch_behind(Builder *b, const MatmulPlace *place, const KExpr *groups);
/* Its coordinates in such a map; how many. */
int matmul_patch_coords(const MatmulPlace *place, KOperand *coords);
/* Whether it is one of the image's; NULL: all of the patches' are. */
const KExpr *matmul_patch_inside(Builder *b, const MatmulPlace *place);

/* Along K, what a thread's first row is: its tap along the first axis and the second, its channel. */
typedef struct MatmulTapRows {
    const MatmulPatch *patch;
    const KExpr *tap, *line, *channel;
} MatmulTapRows;
/* Rows of the result from that of the warpgroup's first block to the same one of another. */
const KExpr *matmul_patch_rows_to(Builder *b, const MatmulPatch *patch, const KExpr *block);
/* Whether the row of a block and a half (8 rows) of it is one of the result's; NULL: all are. */
const KExpr *matmul_patch_has_row(Builder *b, const MatmulTapRows *rows, const KExpr *block,
                                  const KExpr *half);

#endif
