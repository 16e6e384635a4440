/* What two warpgroups tell each other that share 64 rows of a softmax in parts (chain_stream.c): each has x
 * of half of a part's columns, and sums of half of the columns behind.
 *
 *     x of own columns -> their largest        tops:    both go on with the larger of the two
 *     p of own columns, in 16 bits             packed:  both multiply p of all columns
 *     sums of p of own columns                 totals:  added up, at the end of a tile
 *
 * A lane has the same place in the fragments of both, so words go from thread to thread as they lie: 16 bytes
 * of each, neighbours beside each other. Each is written behind a meeting at which both are known to have
 * read what was there before: tops behind that for p of the part before, p behind that for tops, totals
 * behind any of the tile. */
#include "codegen/templates/chain_stream.h"

enum {
    EXCHANGE_BARRIER = 1,
    EXCHANGE_WORDS = 4, /* of an access */
    EXCHANGE_ELEMENTS = 2 * EXCHANGE_WORDS,
    EXCHANGE_ALIGN = 16
};

static int exchange_words(const Schedule *s) {
    return stream_scored(s) / 4;
}

int64_t stream_exchange_bytes(const Schedule *s) {
    enum { WORD = 4, NUMBERS = 2 /* tops and totals */ };
    int across = stream_across(s);
    return across > 1 ? (int64_t)across * WORD * (NUMBERS * WGMMA_M + exchange_words(s) * WARPGROUP) : 0;
}

StreamExchange stream_exchange_new(Builder *b, const Schedule *s, DType elem) {
    int across = stream_across(s);
    int64_t elements = (int64_t)across * exchange_words(s) * WARPGROUP * 2;
    return (StreamExchange){
        .packed = k_shared(b, "shared_p", elem, elements, EXCHANGE_ALIGN),
        .tops = k_shared(b, "shared_tops", DTYPE_F32, (int64_t)across * WGMMA_M, EXCHANGE_ALIGN),
        .totals = k_shared(b, "shared_totals", DTYPE_F32, (int64_t)across * WGMMA_M, EXCHANGE_ALIGN)};
}

static void exchange_meet(Stream *s) {
    k_named_barrier(s->b, EXCHANGE_BARRIER, WARPGROUP * parts_groups(s->schedule));
}

static const KExpr *exchange_other(Stream *s) {
    return k_sub(s->b, k_i32(s->b, 1), s->across);
}

static void exchange_rows(Stream *s, const KBuffer *memory, const Value *reduction, PartialVars rows,
                          int step) {
    enum { ROW_LANES = 4, HALF_ROWS = 8 };
    Builder *b = s->b;
    const KExpr *lane = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, ROW_LANES));
    const KExpr *is_first = k_eq(b, lane, k_i32(b, 0)), *rows_each = k_i32(b, WGMMA_M);
    const KExpr *own = k_add(b, k_mul(b, s->across, rows_each), s->place),
                *other = k_add(b, k_mul(b, exchange_other(s), rows_each), s->place);
    for (int half = 0; half < STREAM_HALVES; half++)
        k_store_scalar(b, memory, k_add(b, own, k_i32(b, half * HALF_ROWS)),
                       k_elem_at(b, rows.x, half * step), is_first);
    exchange_meet(s);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *at = k_add(b, other, k_i32(b, half * HALF_ROWS));
        const KExpr *number = k_load_scalar(b, "others", memory, at, NULL);
        reduce_into(b, reduction, rows, k_i32(b, half * step), (Partial){number, NULL});
    }
}

void stream_exchange_tops(Stream *s, const Value *max, PartialVars tops) {
    exchange_rows(s, s->exchange.tops, max, tops, 2);
}

void stream_exchange_totals(Stream *s, const Value *sum, PartialVars totals) {
    if (s->parts.may_see_none)
        exchange_meet(s);
    exchange_rows(s, s->exchange.totals, sum, totals, 1);
}

/* The first element of a chunk of a thread's words. */
static const KExpr *exchange_place(Stream *s, const KExpr *group, int chunk) {
    Builder *b = s->b;
    const KExpr *thread = k_mod(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP));
    const KExpr *first = k_mul(b, group, k_i32(b, (int64_t)exchange_words(s->schedule) * WARPGROUP * 2));
    const KExpr *at = k_add(b, first, k_mul(b, thread, k_i32(b, EXCHANGE_ELEMENTS)));
    return k_add(b, at, k_i32(b, (int64_t)chunk * EXCHANGE_ELEMENTS * WARPGROUP));
}

void stream_exchange_packed(Stream *s) {
    Builder *b = s->b;
    int words = exchange_words(s->schedule), chunks = words / EXCHANGE_WORDS;
    for (int i = 0; i < chunks; i++)
        k_store_raw(b, s->exchange.packed, exchange_place(s, s->across, i), s->packed,
                    k_i32(b, i * EXCHANGE_WORDS), EXCHANGE_ELEMENTS, NULL, CACHE_DEFAULT);
    exchange_meet(s);
    for (int i = 0; i < chunks; i++)
        k_load_raw(b, s->packed, k_i32(b, words + i * EXCHANGE_WORDS), s->exchange.packed,
                   exchange_place(s, exchange_other(s), i), EXCHANGE_ELEMENTS, NULL, CACHE_DEFAULT);
}
