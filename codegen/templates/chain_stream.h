/* Shared by the two files of a chain whose softmax comes in parts; nobody else includes it.
 *
 *     chain_stream.c    schedules, the order of tiles, what is loaded and multiplied
 *     chain_softmax.c   a part of the softmax, in the registers
 */
#ifndef SINTER_CODEGEN_TEMPLATES_CHAIN_STREAM_H
#define SINTER_CODEGEN_TEMPLATES_CHAIN_STREAM_H

#include "codegen/templates/chain.h"
#include "codegen/templates/matmul_result.h"

enum {
    STREAM_HALVES = 2 /* rows of a thread, 8 apart */
};

typedef struct Stream {
    Builder *b;
    const ChainPlan *plan;
    const Schedule *schedule;
    Parts parts;
    MatmulTma query, key, value;
    const KExpr *query_first, *key_at, *value_at; /* descriptors of the first stage */
    const KExpr *query_at;                        /* of the tile's */
    Pipeline queries, keys, values;
    Lower *lower[2]; /* of each link */
    Lower *rows;     /* of the rows' own outputs; NULL: there are none */
    MatmulStaging staging;
    bool is_staged;
    bool masks;  /* elements beyond the band are what x masks, no others */
    Value *held; /* what the accumulators have of a part: x, or without its band, or q @ k.T itself */
    double by;   /* x is as many times that */
    const KVar *scores, *packed, *sums; /* x and p of a part, p in 16 bits, o */
    const KVar *top, *total,
        *scale; /* of each row: largest, the lane's part of the sum, what the sums take */
} Stream;

/* chain_softmax.c */

/* What is kept of q @ k.T for the exponentials. */
void stream_find_scores(Stream *s);
/* A consumer's registers for a tile. */
void stream_declare_tile(Stream *s);
/* x of a part, whose products have ended, becomes p; what the sums are scaled by then is known. `scores`: the
 * fragment but for its columns. */
void stream_softmax(Stream *s, const MatmulFragment *scores, const MatmulTile *tile, const PartsAt *at);
/* The sums so far count from the largest element that the last part brought. */
void stream_scale_sums(Stream *s);
/* p in 16 bits, for the products: two neighbours a register. */
void stream_pack(Stream *s);
/* The rows divided by their sums. */
void stream_divide(Stream *s);
/* Behind that: stores what is computed of the rows' maxima and sums, if anything. */
void stream_store_rows(Stream *s, const MatmulFragment *scores, const MatmulTile *tile);

#endif
