#include "passes/relay.h"

#include <string.h>

#include "ir/band.h"
#include "ir/base/checked.h"
#include "ir/softmax.h"
#include "ir/value_map.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/rewrite.h"

enum {
    RELAY_BETWEEN = 64, /* operations */
    RELAY_ROWS = 128,   /* of a tile */
    /* Tiles for which a kernel by itself beats several with what lies between in memory: gradients of 4 heads
     * of 2048 x 64, 64 tiles, took 56 us for 101, sigmoid attention of the same 23.5 for 27.9, GELU between
     * 128 and 4096 columns of 8192 rows 47 for 54; of 4096 rows, 32 tiles, 46 for 33. */
    RELAY_BLOCKS = 48,
};

static const Dim *relay_depth(const Value *product) {
    return product->in[0]->dims[product->in[0]->rank - 1];
}

/* Whether such a kernel computes it first. */
static bool relay_is_first(const Graph *graph, const Value *product, DType type) {
    const Dim *depth = relay_depth(product);
    int64_t most = dim_upper(graph->dims, depth);
    return product_is_16bit(product) && product->in[0]->dtype == type && most >= 1 && most <= RELAY_DEPTH &&
           dim_known_some(graph->dims, depth, product->dims[product->rank - 2]);
}

static bool relay_add_first(const Graph *graph, Value *product, DType type, Relay *relay) {
    if (relay->n_first == RELAY_FIRST || !relay_is_first(graph, product, type))
        return false;
    relay->first[relay->n_first++] = product;
    return true;
}

bool relay_share_first(const Relay *a, const Relay *b) {
    for (int i = 0; i < a->n_first; i++)
        for (int k = 0; k < b->n_first; k++)
            if (a->first[i] == b->first[k])
                return true;
    return false;
}

bool relay_between(Arena *arena, const Graph *graph, Value *held, Relay *relay) {
    ValueMap seen = {.arena = arena};
    VEC(Value *) open = {0};
    *relay = (Relay){0};
    if (!value_is_pointwise(held) || dtype_bits(held->dtype) != 16 || held->rank < 2)
        return false;
    vec_push(arena, &open, held);
    value_map_set(&seen, held, 1);
    while (open.n) {
        Value *value = open.at[--open.n];
        if (value_is_output(graph, value))
            return false; /* it is written in any case, and may as well be read */
        if (value->op == OP_matmul) {
            if (!relay_add_first(graph, value, held->dtype, relay))
                return false;
            continue;
        }
        if (!value_is_pointwise(value) && value->op != OP_broadcast)
            continue; /* memory, or what another kernel computes */
        vec_push(arena, &relay->between, value);
        if (relay->between.n > RELAY_BETWEEN)
            return false;
        for (int i = 0; i < value->n_in; i++) {
            if (!value_same_dims(value->in[i], held) || value_map_get(&seen, value->in[i]))
                continue;
            value_map_set(&seen, value->in[i], 1);
            vec_push(arena, &open, value->in[i]);
        }
    }
    return relay->n_first > 0;
}

Value *relay_logarithm(Graph *graph, Diags *diags, const Value *value, Value **x) {
    Softmax softmax;
    if (!softmax_share_of(value, &softmax) || !value_same_dims(softmax.base, softmax.whole))
        return NULL;
    Value *max = softmax.base, *sum = softmax.whole;
    *x = softmax.x;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *known = graph->values.at[i];
        if (known->op == OP_add && known->in[0] == max && known->in[1]->op == OP_log &&
            known->in[1]->in[0] == sum)
            return known;
    }
    Value *log = graph_append(graph, OP_log, &sum, 1, NULL, value->span, diags);
    Value *in[] = {max, log};
    return log ? graph_append(graph, OP_add, in, 2, NULL, value->span, diags) : NULL;
}

/* Whether so many rows of each of the product's matrices make tiles for most of a GPU. */
static bool relay_has_tiles(const Graph *graph, const Value *product, const Dim *rows) {
    double tiles = (double)((product_extent(graph, rows) + RELAY_ROWS - 1) / RELAY_ROWS);
    return product_matrices(graph, product) * tiles >= RELAY_BLOCKS;
}

bool relay_is_last(const Graph *graph, const Value *product) {
    const DimTable *dims = graph->dims;
    const Dim *rows = product->dims[product->rank - 2];
    int64_t columns = dim_upper(dims, product->dims[product->rank - 1]);
    return product->op == OP_matmul && product_is_16bit(product) && columns >= 1 &&
           columns <= RELAY_ACCUMULATORS && dim_known_some(graph->dims, relay_depth(product), rows) &&
           relay_has_tiles(graph, product, rows);
}

/* What transposes one behind the other are of, and where its axes are in the end. */
static const Value *relay_untransposed(const Value *value, int *perm) {
    for (int i = 0; i < value->rank; i++)
        perm[i] = i;
    for (; value->op == OP_transpose; value = value->in[0])
        for (int i = 0; i < value->rank; i++)
            perm[i] = value->attrs[0].ints[perm[i]];
    return value;
}

bool relay_is_same(const Value *a, const Value *b) {
    int of_a[RANK_MAX], of_b[RANK_MAX];
    const Value *from_a = relay_untransposed(a, of_a), *from_b = relay_untransposed(b, of_b);
    return from_a == from_b && a->rank == b->rank && !memcmp(of_a, of_b, sizeof *of_a * (size_t)a->rank);
}

bool relay_is_across(Arena *arena, const Graph *graph, const Value *product) {
    enum { UNIT = 16, MOST = 128 };
    Value *held = product->op == OP_matmul ? value_turned(product->in[0]) : NULL;
    Relay relay;
    if (!held || product->dtype != DTYPE_F32 || !product_is_16bit(product) ||
        !relay_between(arena, graph, held, &relay) || relay.n_first != RELAY_FIRST)
        return false;
    const Dim *rows = held->dims[held->rank - 2];
    if (dim_is(rows, 1) || dim_is(held->dims[held->rank - 1], 1)) /* no rows, or no columns, to tell apart */
        return false;
    Band band;
    if (band_of_zeros(graph->dims, held, &band) &&
        !band_sees_columns(graph->dims, &band, rows, held->dims[held->rank - 1]))
        return false;
    int64_t columns = round_up(dim_upper(graph->dims, product->dims[product->rank - 1]), UNIT);
    if (columns > MOST)
        return false;
    bool reads_rows = false;
    for (int i = 0; i < relay.n_first; i++) {
        const Dim *depth = relay_depth(relay.first[i]);
        reads_rows = reads_rows || relay_is_same(relay.first[i]->in[0], product->in[1]);
        if (dim_upper(graph->dims, depth) > columns)
            return false;
    }
    return reads_rows && relay_has_tiles(graph, product, rows);
}
