/* The kernel for a few dozen rows as its loads (matmul_skinny_load.c) and its products (matmul_skinny.c)
 * share it; nobody else includes it. */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_SKINNY_LOAD_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_SKINNY_LOAD_H

#include "codegen/lower.h"
#include "codegen/templates/matmul_skinny.h"
#include "codegen/templates/matmul_tiles.h"

/* One operand: its lines of a lane (columns of the weights, or the K of a run of those along N; rows), and
 * what was loaded of them. */
typedef struct SkinnySide {
    const MatmulOperand *operand;
    bool is_weight, is_across;
    int lines, tile_mn;
    int width; /* elements of a line */
    KCache cache;
    SkinnySource source;
    int access;                /* elements of an access, where lanes take them from memory */
    const KVar *raw;           /* of all runs of a step, [run][line]: words of memory */
    const KVar *factor, *zero; /* [run][column of the lane]; NULL: none */
    Lower *lower;              /* else */
    LowerTarget target;
} SkinnySide;

typedef struct Skinny {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    SkinnyShape shape;
    int n_x, n_w;
    SkinnySide x[MATMUL_CORES], w[MATMUL_CORES];
    bool is_nibbles;                             /* in whose order pairs are */
    bool has_parts;                              /* factors or zeros are given to the sums of each run */
    bool has_zeros;                              /* which takes the sums of the rows, too */
    const KExpr *lane_line;                      /* g */
    const KExpr *thread_k;                       /* of the thread's first run in a step */
    const KExpr *warp_n;                         /* the warp's first column in the tile */
    const KVar *accumulator[MATMUL_CORES];       /* [block][instruction][group][half][pair] */
    const KVar *part, *row_sum[MATMUL_CORES];    /* of a run, a block of columns: [..][group][half][pair] */
    const KVar *a_words, *b_words[MATMUL_CORES]; /* of a block of columns, of all rows, in a run */
    MatmulTile tile;
} Skinny;

/* An operand's side of the work. */
void skinny_side(Skinny *s, SkinnySide *side, const MatmulOperand *operand, bool is_weight);
/* Loads run `u` of the step that begins at k0, of operands that lanes take from memory, where `more` holds
 * (NULL: always). */
void skinny_load_both(const Skinny *s, const KExpr *k0, const KExpr *u, const KExpr *more);
/* Around a step: what all its runs are computed from, of an operand that lanes do not take from memory. */
void skinny_begin(Skinny *s, SkinnySide *side, const KExpr *k0);
void skinny_end(SkinnySide *side);
/* Where a line of run `u` is in the operand, in the step that begins at k0; which it is of a step's lines. */
Run skinny_run(const Skinny *s, const SkinnySide *side, const KExpr *k0, const KExpr *u, const KExpr *line);
const KExpr *skinny_slot(const Skinny *s, const SkinnySide *side, const KExpr *u, const KExpr *line);
/* Whether neighbouring columns of a lane have factors, or zeros, of their own. */
bool skinny_varies(const SkinnySide *side, const MatmulScale *scale);

#endif
