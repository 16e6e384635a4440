/* Shared by the two files of a chain whose softmax comes in parts; nobody else includes it.
 *
 *     chain_stream.c    schedules, the order of tiles, what is loaded and multiplied
 *     chain_softmax.c   a part of the softmax, in the registers
 */
#ifndef SINTER_CODEGEN_TEMPLATES_CHAIN_STREAM_H
#define SINTER_CODEGEN_TEMPLATES_CHAIN_STREAM_H

#include "codegen/templates/chain.h"
#include "codegen/templates/matmul_result.h"
#include "codegen/templates/matmul_tma.h"

enum {
    STREAM_K = 16,    /* elements of a matrix instruction */
    STREAM_HALVES = 2 /* rows of a thread, 8 apart */
};

typedef struct Stream {
    Builder *b;
    const ChainPlan *plan;
    const Schedule *schedule;
    MatmulTiles tiles;
    MatmulTma query, key, value;
    const KExpr *query_first, *key_at, *value_at; /* descriptors of the first stage */
    const KExpr *query_at;                        /* of the tile's */
    Pipeline queries, keys, values;
    Lower *lower[2]; /* of each link */
    Lower *rows;     /* of the rows' own outputs; NULL: there are none */
    MatmulStaging staging;
    bool is_staged;
    Band band;                           /* parts beyond it are left out */
    const KExpr *limit[BAND_LIMITS_MAX]; /* of the tile, as columns, or columns less the row */
    bool is_ragged;                      /* tiles of other rows see other parts */
    bool may_see_none;                   /* numbers from memory are among the limits: no part, perhaps */
    bool masks;                          /* elements beyond the band are what x masks, no others */
    Value *held; /* what the accumulators have of a part: x, or without its band, or q @ k.T itself */
    double by;   /* x is as many times that */
    const KExpr *first, *end;           /* parts of the tile */
    const KVar *scores, *packed, *sums; /* x and p of a part, p in 16 bits, o */
    const KVar *top, *total,
        *scale; /* of each row: largest, the lane's part of the sum, what the sums take */
} Stream;

/* Where a lane's elements of a part lie. */
typedef struct StreamAt {
    const KExpr *col;                 /* of the part */
    const KExpr *warp_row;            /* of the warp */
    const KExpr *lane_row, *lane_col; /* of the lane, this one within the part */
} StreamAt;

/* chain_softmax.c */

/* What is kept of q @ k.T for the exponentials. */
void stream_find_scores(Stream *s);
/* A consumer's registers for a tile. */
void stream_declare_tile(Stream *s);
/* x of a part, whose products have ended, becomes p; what the sums are scaled by then is known. `scores`: the
 * fragment but for its columns. */
void stream_softmax(Stream *s, const MatmulFragment *scores, const MatmulTile *tile, const StreamAt *at);
/* The sums so far count from the largest element that the last part brought. */
void stream_scale_sums(Stream *s);
/* p in 16 bits, for the products: two neighbours a register. */
void stream_pack(Stream *s);
/* The rows divided by their sums. */
void stream_divide(Stream *s);
/* Behind that: stores what is computed of the rows' maxima and sums, if anything. */
void stream_store_rows(Stream *s, const MatmulFragment *scores, const MatmulTile *tile);

#endif
