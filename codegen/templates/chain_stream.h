/* Shared by the files of a chain whose softmax comes in parts; nobody else includes it.
 *
 *     chain_stream.c            the order of tiles, what is loaded and multiplied
 *     chain_stream_schedules.c  sizes and schedules
 *     chain_softmax.c           a part of the softmax, in the registers
 *     chain_keyed.c             what comes with the keys
 *     chain_weigh.c             what its weights are multiplied with
 *     chain_exchange.c          what two warpgroups tell each other that share their rows
 */
#ifndef SINTER_CODEGEN_TEMPLATES_CHAIN_STREAM_H
#define SINTER_CODEGEN_TEMPLATES_CHAIN_STREAM_H

#include "codegen/reduce.h"
#include "codegen/templates/chain.h"
#include "codegen/templates/matmul_inputs.h"
#include "codegen/templates/matmul_result.h"

enum {
    STREAM_HALVES = 2,     /* rows of a thread, 8 apart */
    STREAM_ACROSS_MOST = 2 /* warpgroups that share rows */
};

/* Warpgroups that share rows; columns of a part, and of the sums, that each of them has. */
static inline int stream_across(const Schedule *s) {
    return s->warps_n > 1 ? s->warps_n : 1;
}
static inline int stream_scored(const Schedule *s) {
    return s->tile_k / stream_across(s);
}
static inline int stream_summed(const Schedule *s) {
    return s->tile_n / stream_across(s);
}

/* chain_stream_schedules.c */

/* Elements of a query and a key, rounded up to what instructions take. */
int stream_depth(const ChainPlan *plan);
/* Columns of tiles of queries and keys, and of values. */
int stream_width(const ChainPlan *plan);
int stream_values_width(const Schedule *schedule);
/* Tiles of queries in memory: two where they fit, so that the next tile's parts are on their way while this
 * one's last are multiplied. */
int stream_queries(const ChainPlan *plan, const Schedule *s);
/* Whether values are read from the keys' tiles. */
bool stream_keeps_values(const ChainPlan *plan, const Schedule *s);
/* Bytes of memory that a column of x needs. */
int stream_bytes(const ChainPlan *plan, const Schedule *s);
/* Shared memory of those that share rows. */
typedef struct StreamExchange {
    const KBuffer *tops, *totals; /* a number a row of each */
    const KBuffer *packed;        /* words of each thread */
} StreamExchange;

/* Elements of x that are one number: where `value` does not hold, or is_hidden: where it does. */
typedef struct StreamSeen {
    const Value *value; /* NULL: there are none */
    bool is_hidden;
    double unseen; /* in the place of what is held */
} StreamSeen;

typedef struct Stream {
    Builder *b;
    const ChainPlan *plan;
    const Schedule *schedule;
    Parts parts;
    MatmulTma query, key, value;
    bool keeps_values;                         /* they are columns of the keys' tiles, whose ring is theirs */
    const KExpr *query_first, *key_at;         /* descriptors of the first stage */
    const KExpr *value_at[STREAM_ACROSS_MOST]; /* the same, from the part's own columns on, and the others */
    const KExpr *query_at;                     /* of the tile's */
    const KExpr *across; /* the warpgroup's number of those that share its rows; NULL: nobody does */
    const KExpr *place;  /* the lane's first row in the tile */
    StreamExchange exchange;
    Pipeline queries, keys, values;
    Lower *lower[2]; /* of each link */
    Lower *rows;     /* of the rows' own outputs; NULL: there are none */
    Lower *sink;     /* of the rows' sinks; NULL: there are none */
    Lower *weighed;  /* of factors of the weights; NULL: there are none */
    MatmulStaging staging;
    bool is_staged;
    const MatmulRows *row_inputs; /* what x is computed of besides, one number a row */
    MatmulVectors keyed;          /* what comes with the keys, in their stages' places */
    int keyed_map[CHAIN_KEYED_MOST];
    const KExpr *keyed_stage; /* of the part at hand */
    bool masks;               /* elements beyond the band are what x masks, no others */
    Value *held;        /* what the accumulators have of a part: x, or without its band, or q @ k.T itself */
    double by;          /* x is as many times that */
    StreamSeen seen;    /* where x is a number instead */
    const KVar *random; /* numbers that weights are dropped by, as `scores`; NULL: there are none */
    const KVar *scores, *packed, *sums; /* x and p of a part, p in 16 bits, o */
    const KVar *top, *total,
        *scale; /* of each row: largest, the lane's part of the sum, what the sums take */
} Stream;

/* chain_softmax.c */

/* What is kept of q @ k.T for the exponentials. */
void stream_find_scores(Stream *s);
/* A consumer's registers for a tile. */
void stream_declare_tile(Stream *s);
/* Where rows have a sink, ahead of their parts: it is the largest element so far, and all of the sum.
 * `scores`: as below. */
void stream_begin_with_sink(Stream *s, const MatmulFragment *scores, const MatmulTile *tile);
/* x of a part, whose products have ended, becomes p; what the sums are scaled by then is known. `scores`: the
 * fragment but for its columns. */
void stream_softmax(Stream *s, const MatmulFragment *scores, const MatmulTile *tile, const PartsAt *at);
/* The sums so far count from the largest element that the last part brought. */
void stream_scale_sums(Stream *s);
/* p in 16 bits, for the products: two neighbours a register; that of all columns. */
void stream_pack(Stream *s);
/* The rows divided by their sums. */
void stream_divide(Stream *s);
/* Behind that: stores what is computed of the rows' maxima and sums, if anything. */
void stream_store_rows(Stream *s, const MatmulFragment *scores, const MatmulTile *tile);

/* chain_keyed.c */

/* Shared memory, and bytes that come with the keys of a part. */
int64_t stream_keyed_smem(const ChainPlan *plan, const Schedule *s);
int64_t stream_keyed_bytes(const Stream *s);
void stream_keyed_declare(Stream *s);
/* Brings a part's, to the stage of its keys. */
void stream_keyed_load(Stream *s, const KExpr *stage, const KExpr *full, const KExpr *part,
                       const MatmulTile *tile);
/* The consumers' part: its stage, which the ring of keys goes on from; where its elements are from the lane's
 * first column on, NULL if there are none; and that they are read: the stage is free. */
void stream_keyed_take(Stream *s, const PipelineState *key);
const MatmulVectors *stream_keyed_at(Stream *s, const KExpr *lane_col);
void stream_keyed_end(Stream *s);

/* chain_weigh.c */

/* p times its factors; `fragment`: of p, its columns too. */
void stream_weigh(Stream *s, const MatmulFragment *fragment, const MatmulTile *tile);

/* chain_exchange.c */

int64_t stream_exchange_bytes(const Schedule *s);
StreamExchange stream_exchange_new(Builder *b, const Schedule *s, DType elem);
/* Of what each has of the lane's rows, in all lanes of a row: what both have together. `tops` has a register
 * between two rows. */
void stream_exchange_tops(Stream *s, const Value *max, PartialVars tops);
void stream_exchange_totals(Stream *s, const Value *sum, PartialVars totals);
/* The other's words of p, behind the own ones. */
void stream_exchange_packed(Stream *s);

#endif
