#include "passes/streams.h"

#include "passes/product.h"
#include "passes/rewrite.h"

enum {
    STREAMS_DEPTH = 256, /* of either product around the softmax: their other extents */
    STREAMS_WIDE_QUERY =
        640, /* with which 64 rows, and two parts of 32 keys and values, fill an SM's memory */
    STREAMS_WIDE_VALUE = 512, /* in the registers of two warpgroups */
    STREAMS_WIDE_ROWS = 128   /* with which a kernel waits for memory, not for tensor cores */
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
