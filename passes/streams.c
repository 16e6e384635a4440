#include "passes/streams.h"

#include "passes/product.h"
#include "passes/rewrite.h"

enum {
    STREAMS_DEPTH = 256, /* of either product around the softmax: their other extents */
    STREAMS_WIDE_QUERY =
        640, /* with which 64 rows, and two parts of 32 keys and values, fill an SM's memory */
    STREAMS_WIDE_VALUE = 512, /* in the registers of two warpgroups */
    STREAMS_WIDE_ROWS = 128,  /* with which a kernel waits for memory, not for tensor cores */
    STREAMS_TILE = 64,        /* rows */
    STREAMS_TILES = 32        /* that together ask enough of memory */
};

static int64_t streams_query(const Graph *graph, const Value *scores) {
    return dim_upper(graph->dims, scores->in[0]->dims[scores->in[0]->rank - 1]);
}

static int64_t streams_value(const Graph *graph, const Value *product) {
    return dim_upper(graph->dims, product->dims[product->rank - 1]);
}

bool streams_is_wide(const Graph *graph, const Value *scores, const Value *product) {
    return streams_query(graph, scores) > STREAMS_DEPTH || streams_value(graph, product) > STREAMS_DEPTH;
}

bool streams_keeps_values(const Value *scores, const Value *product) {
    const Value *keys = value_below_views(scores->in[1]), *values = value_below_views(product->in[1]);
    bool is_chosen = keys->op == OP_gather && values->op == OP_gather;
    return keys == values || (is_chosen && keys->in[1] == values->in[1] &&
                              value_below_views(keys->in[0]) == value_below_views(values->in[0]));
}

bool streams_heads(const Graph *graph, const Value *scores, const Value *product) {
    if (!streams_is_wide(graph, scores, product))
        return true;
    /* of many rows with keys and values apart, tiles of 64 read more than it costs to store the scores */
    return streams_query(graph, scores) <= STREAMS_WIDE_QUERY &&
           streams_value(graph, product) <= STREAMS_WIDE_VALUE &&
           (streams_keeps_values(scores, product) ||
            product_extent(graph, scores->dims[scores->rank - 2]) <= STREAMS_WIDE_ROWS);
}

/* Whether several matrices have the same keys, each in a tile of its own. */
static bool streams_repeats_keys(const Value *scores) {
    const Value *keys = scores->in[1];
    for (int i = 0; i < scores->rank - 2; i++) {
        int at = i - (scores->rank - keys->rank);
        if (!dim_is(scores->dims[i], 1) && (at < 0 || dim_is(keys->dims[at], 1)))
            return true;
    }
    return false;
}

bool streams_pays(const Graph *graph, const Value *scores, const Value *product, int64_t times) {
    if (!streams_is_wide(graph, scores, product))
        return product_streams(graph, scores, times);
    int64_t rows = product_extent(graph, scores->dims[scores->rank - 2]);
    if (streams_repeats_keys(scores) && 2 * rows < STREAMS_TILE) /* tensor cores wait for empty rows */
        return false;
    double tiles = product_matrices(graph, scores) * (double)times;
    tiles *= (double)((rows + STREAMS_TILE - 1) / STREAMS_TILE);
    return tiles >= STREAMS_TILES && streams_heads(graph, scores, product);
}

bool streams_take(const Graph *graph, const FuseLimits *limits, const Value *scores, const Value *product) {
    return limits->chain_columns_max && product_is_16bit(scores) && product_is_16bit(product) &&
           streams_pays(graph, scores, product, 1);
}
