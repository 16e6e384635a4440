/* Attention of few tiles of queries to many keys is done in parts of the keys, so that every multiprocessor
 * has some:
 *
 *     o = softmax(x) @ v                    x: [B, R, T], of q @ k.T;  v: [B, T, D]
 * ->  x' = what x is, of parts              [B, P, R, T / P], of reshape(q, dims=[B, 1, R, E]) @ k'.T
 *     o' = softmax(x') @ reshape(v, dims=[B, P, T / P, D])
 *     l  = max(x') + log(sum(exp(x' - max(x'))))
 *     o  = sum(o' * exp(l - max(l)), over=P) / sum(exp(l - max(l)), over=P)
 *
 * The first is a chain (fuse_chain.c) which gives rows' logarithms of sums besides, the second reads little
 * ("Flash-Decoding for long-context inference", 2023). A part that a row sees nothing of weighs nothing. Keys
 * and values are views of memory, of pages too, where a part has whole ones. Of keys that the parts' number
 * does not divide, T = 2049 of 16, parts overlap: they begin as far apart as the quotient says, 128, each has
 * what the last one needs to reach the end, 129, and all but the last are masked behind their own. What x is
 * computed from is moved to the parts' space here rather than by `movement`, so that coordinates stay
 * coordinates: masks that compare them are limits to the chain (ir/softmax.h).
 *
 * New keys behind kept ones, k = concat(kept, new), are such a part of their own, so that what is kept need
 * not be copied to where both lie side by side. A single one's result is its value, its x the logarithm. */
#include <math.h>
#include <string.h>

#include "ir/band.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/split_keys.h"
#include "passes/streams.h"

enum {
    KEYS_ROWS = 64,      /* of a warpgroup; more come in tiles of two */
    KEYS_STEP = 128,     /* keys that a tile takes at a time */
    KEYS_STEP_WIDE = 64, /* the same of wide heads */
    KEYS_PARTS = 64,     /* most parts */
    KEYS_CONE = 32,      /* operations between the products on one way */
    KEYS_NEW = 64        /* most keys that are attended to apart */
};

/* What a plan takes (H200): bytes a second from memory, by all and by one multiprocessor, which does so many
 * operations; a step of a tile that waits for neither, a tile besides its steps; a kernel more, and with its
 * scores stored three, and one of little work. */
static const double keys_bytes = 3.8e12, keys_bytes_sm = 80e9, keys_flops_sm = 4.5e12,
                    keys_parts_bytes = 3e12;
static const double keys_step = 1.3e-6, keys_tile = 1.5e-6, keys_weigh = 4e-6, keys_apart = 9e-6,
                    keys_copy = 3e-6;
/* Of wide heads, in whose kernels the products take turns with what lies between: 64 keys of 576 and 512
 * elements took 4 us, of 32 x 16 queries to 1024 keys and of 8 x 128 to 4096 (29 us for 34 apart, 55 for 47).
 */
static const double keys_flops_sm_wide = 2.2e12;
/* Of tiles whose lengths memory says, the share of keys that is seen; what parts must take of the time of a
 * single kernel, of which estimates this rough leave something. */
static const double keys_seen = 0.6, keys_worth = 0.85;

/* What an extent is taken for in estimates. */
static double keys_extent(const Keys *keys, const Value *value, int from_end) {
    return (double)product_extent(keys->rewrite->graph, keys_dim(value, from_end));
}

static double keys_count(const Keys *keys) {
    return (double)product_extent(keys->rewrite->graph, keys->all);
}

/* Whether rows, and what is read of a row or a key, are known. */
static bool keys_fit(const Keys *keys) {
    const Value *core = keys->core, *product = keys->product;
    return dim_is_const(keys_dim(core, 2)) && keys_dim(core, 2)->value > 0 &&
           dim_is_const(keys_dim(core->in[0], 1)) && dim_is_const(keys_dim(product, 1)) &&
           dim_lower(keys->rewrite->graph->dims, keys_dim(core, 1)) > 0 && product->in[1]->rank >= 2 &&
           core->in[1]->rank >= 2 && core->rank < RANK_MAX;
}

static bool keys_find(Rewrite *rewrite, Value *product, Keys *keys) {
    *keys = (Keys){.rewrite = rewrite, .product = product};
    if (product->op != OP_matmul || !softmax_of(product->in[0], &keys->softmax))
        return false;
    const Softmax *softmax = &keys->softmax;
    keys->core = product_below(softmax->x, softmax->x, KEYS_CONE);
    keys->first = dim_const(rewrite->graph->dims, 0);
    keys->all = keys->core ? keys_dim(keys->core, 1) : NULL;
    /* x is read by its maximum and by what is below it, which both are read once, as nothing else is here */
    if (softmax->weighed)
        return false;
    const int base_uses = softmax->sink ? 2 : 1; /* the sink's own exponential is below it as well */
    return keys->core && rewrite_uses(rewrite, product->in[0]) == 1 &&
           rewrite_uses(rewrite, softmax->base) == base_uses && rewrite_uses(rewrite, softmax->whole) == 1 &&
           rewrite_uses(rewrite, keys->core) == 1 && rewrite_uses(rewrite, softmax->x) == 2 &&
           rewrite_uses(rewrite, softmax->max) == 1 && rewrite_uses(rewrite, softmax->sum) == 1 &&
           product_is_16bit(keys->core) && product_is_16bit(product) && keys_fit(keys) &&
           streams_heads(rewrite->graph, keys->core, product);
}

/* ---- how many parts */

static double keys_matrices(const Keys *keys) {
    return product_matrices(keys->rewrite->graph, keys->core);
}

/* Elements of a key and its value; of those, the ones that memory has (values may be a part of the keys). */
static double keys_depth(const Keys *keys) {
    return keys_extent(keys, keys->core->in[0], 1) + keys_extent(keys, keys->product, 1);
}

static double keys_depth_read(const Keys *keys) {
    return streams_keeps_values(keys->core, keys->product) ? keys_extent(keys, keys->core->in[0], 1)
                                                           : keys_depth(keys);
}

/* Tiles of a matrix' rows, and rows of one. */
static double keys_row_tiles(const Keys *keys, double *tile_rows) {
    double rows = keys_extent(keys, keys->core, 2);
    *tile_rows = rows <= KEYS_ROWS || keys->is_wide ? KEYS_ROWS : 2 * KEYS_ROWS;
    return ceil(rows / *tile_rows);
}

/* Keys of each of so many parts. */
static double keys_longest(double keys, int64_t parts) {
    return keys - floor(keys / (double)parts) * (double)(parts - 1);
}

/* Seconds in which the results of so many parts are written, read and weighed. */
static double keys_weighing(const Keys *keys, int64_t parts) {
    double rows = keys_matrices(keys) * keys_extent(keys, keys->core, 2);
    return keys_weigh + 2 * 4 * (double)parts * rows * keys_extent(keys, keys->product, 1) / keys_parts_bytes;
}

/* Seconds in so many parts, of which each block takes its share of tiles. */
static double keys_seconds(const Keys *keys, const FuseLimits *limits, int64_t parts, bool is_ragged) {
    double tile_rows, row_tiles = keys_row_tiles(keys, &tile_rows), sms = limits->sm_count;
    double tiles = keys_matrices(keys) * row_tiles * (double)parts, active = fmin(tiles, sms);
    double rate = fmin(keys_bytes / active, keys_bytes_sm) * row_tiles; /* which share what L2 has */
    double length = keys->is_wide ? KEYS_STEP_WIDE : KEYS_STEP;
    double flops = keys->is_wide ? keys_flops_sm_wide : keys_flops_sm;
    double step = fmax(keys_step, fmax(length * 2 * keys_depth_read(keys) / rate,
                                       2 * tile_rows * length * keys_depth(keys) / flops));
    double steps = ceil(keys_longest(keys_count(keys), parts) / length);
    double tile = steps * step + keys_tile;
    double rounds = ceil(tiles / sms);
    double together = (is_ragged && rounds > 1 ? keys_seen * tiles / sms + 1 - keys_seen : rounds) * tile;
    return parts == 1 ? together : together + keys_weighing(keys, parts);
}

/* Seconds of both products in kernels of their own, whose tiles are parts of the keys anyway. Wide heads, of
 * which there are many, take as long to multiply as to read, and their weights are stored; L2 has what both
 * read. */
static double keys_seconds_apart(const Keys *keys, const FuseLimits *limits) {
    double columns = keys_matrices(keys) * keys_count(keys), depth = keys_depth(keys), tile_rows;
    double read = keys->is_wide ? keys_depth_read(keys) : depth;
    double seconds = columns * 2 * read / keys_bytes + keys_apart;
    if (!keys->is_wide)
        return seconds;
    double tiles = keys_row_tiles(keys, &tile_rows), rows = keys_extent(keys, keys->core, 2);
    return seconds + columns * tiles * tile_rows * 2 * depth / (keys_flops_sm * limits->sm_count) +
           columns * rows * 4 / keys_parts_bytes;
}

static bool keys_are_ragged(const Keys *keys) {
    Band band;
    Value *inner;
    bool is_ragged = false;
    band_of(keys->rewrite->graph->dims, keys->softmax.x, -INFINITY, &band, &inner);
    for (int i = 0; i < band.n; i++)
        is_ragged = is_ragged || band.limit[i].n_numbers;
    return is_ragged;
}

/* Whether there can be so many parts: they divide the keys, into whole pages where there may be some, or
 * overlap, of a known number of keys. */
static bool keys_divide(const Keys *keys, int64_t parts) {
    const Dim *all = keys->all;
    int64_t divisor = dim_divisor(keys->rewrite->graph->dims, all);
    bool has_pages = value_below_views(keys->core->in[1])->op == OP_gather ||
                     value_below_views(keys->product->in[1])->op == OP_gather;
    if (has_pages)
        return divisor % (parts * KEYS_STEP) == 0;
    return divisor % parts == 0 ||
           (dim_is_const(all) && all->value / parts >= KEYS_STEP / 2 && all->value <= INT32_MAX);
}

static bool keys_stream(const Keys *keys, int64_t parts) {
    return streams_pays(keys->rewrite->graph, keys->core, keys->product, parts);
}

/* 1: as it is, in one kernel where there are matrices enough. */
static int64_t keys_parts(const Keys *keys, const FuseLimits *limits, double *seconds) {
    int64_t best = 1;
    bool is_ragged = keys_are_ragged(keys);
    bool has_chain = keys_stream(keys, 1);
    *seconds = has_chain ? keys_seconds(keys, limits, 1, is_ragged) : keys_seconds_apart(keys, limits);
    double least = *seconds * (has_chain ? keys_worth : 1);
    for (int64_t parts = 2; parts <= KEYS_PARTS; parts++) {
        if (!keys_divide(keys, parts) || !keys_stream(keys, parts))
            continue;
        double of_parts = keys_seconds(keys, limits, parts, is_ragged);
        if (of_parts < least) {
            *seconds = least = of_parts;
            best = parts;
        }
    }
    return best;
}

/* ---- kept keys and new ones */

/* How many of the keys are the first tensor's of two, which both keys and values are joined of, and which no
 * one else wants joined; 0: they are not, or one is not known. */
static int64_t keys_kept(const Keys *keys) {
    const Graph *graph = keys->rewrite->graph;
    const Value *joined[2], *operands[] = {keys->core->in[1], keys->product->in[1]};
    const Dim *kept[2];
    for (int i = 0; i < 2; i++) {
        kept[i] = keys_boundary(operands[i], operands[i]->rank - (i ? 2 : 1), &joined[i]);
        if (!kept[i] || value_is_output(graph, joined[i]))
            return 0;
    }
    return kept[0] == kept[1] && dim_is_const(kept[0]) && dim_is_const(keys->all) ? kept[0]->value : 0;
}

/* Seconds in which a kernel writes them joined. */
static double keys_joining(const Keys *keys) {
    double bits = dtype_bits(keys->product->in[1]->dtype);
    return 2 * keys_matrices(keys) * keys_count(keys) * keys_depth(keys) * bits / 8 / keys_parts_bytes +
           keys_copy;
}

/* Where new keys are joined to kept ones, both are parts of their own if that takes less than to join them in
 * memory: then `keys` means the kept ones and `own` the new. */
static bool keys_come_apart(Keys *keys, Keys *own, const FuseLimits *limits) {
    double joined, apart;
    int64_t kept = keys_kept(keys);
    keys->parts = keys_parts(keys, limits, &joined);
    if (!kept)
        return false;
    Keys first = *keys;
    first.all = dim_const(keys->rewrite->graph->dims, kept);
    *own = *keys;
    own->first = first.all;
    own->all = dim_const(keys->rewrite->graph->dims, keys->all->value - kept);
    own->parts = 1;
    first.parts = keys_parts(&first, limits, &apart);
    apart += first.parts == 1 ? keys_weighing(keys, 2) : keys_weighing(keys, 1) - keys_weigh;
    apart += own->all->value == 1 ? keys_copy : keys_seconds_apart(own, limits);
    if (own->all->value > KEYS_NEW || apart > joined + keys_joining(keys))
        return false;
    *keys = first;
    return true;
}

/* ---- what the graph asks for */

/* Whether a hint wants one kernel, or says how it multiplies. */
static bool keys_is_for_one(const Hint *hint) {
    for (size_t i = 0; i < hint->args.n; i++) {
        const HintArg *arg = &hint->args.at[i];
        if (!strcmp(hint->name, "expect") && fuse_hint_says(arg, "kernels") && arg->n == 1 &&
            arg->values[0] == 1)
            return true;
        if (!strcmp(hint->name, "schedule") && (fuse_hint_says(arg, "tile") || fuse_hint_says(arg, "path")))
            return true;
    }
    return false;
}

/* ---- the parts, and their sum */

/* [..., P, R, D] with its parts last, which are few: [..., R, D, P]. */
static Value *keys_parts_last(Rewrite *rewrite, Value *value) {
    int perm[RANK_MAX], n = value->rank - 3;
    for (int i = 0; i < n; i++)
        perm[i] = i;
    for (int i = 0; i < 3; i++)
        perm[n + i] = n + (i + 1) % 3;
    return build_transpose(rewrite, value, perm, value);
}

/* What attention to parts of the keys gives, and the logarithm of each row's sum. */
typedef struct KeysResult {
    Value *o, *log;
} KeysResult;

/* What a result adds to the sum: of one that weighs nothing, which may be no number, nothing. */
static Value *keys_added(Rewrite *rewrite, Value *result, Value *weight, const Value *like) {
    Value *zero = keys_float(rewrite, 0, like),
          *weighs = build_scalar(rewrite, OP_gt, weight, zero, NULL, like);
    Value *added = build_scalar(rewrite, OP_mul, result, weight, NULL, like);
    return build_scalar(rewrite, OP_select, weighs, added, zero, like);
}

/* A sink as a logarithm of a sum, whose parts are last: [..., R, 1] as [..., R, 1, 1]. */
static Value *keys_sink(Rewrite *rewrite, Value *sink, const Value *like) {
    const Dim *dims[RANK_MAX];
    if (sink->rank >= RANK_MAX)
        return NULL;
    for (int i = 0; i < sink->rank; i++)
        dims[i] = sink->dims[i];
    dims[sink->rank] = dim_const(rewrite->graph->dims, 1);
    return build_reshape(rewrite, sink, sink->rank + 1, dims, like);
}

/* The parts by their logarithms of sums, and those of new keys, if there are; a sink, if there is one, weighs
 * without adding anything. */
static Value *keys_weighed(Rewrite *rewrite, const KeysResult *parts, const KeysResult *own, Value *sink,
                           const Value *like) {
    Value *each = keys_parts_last(rewrite, parts->o), *logs = keys_parts_last(rewrite, parts->log);
    if (!each || !logs)
        return NULL;
    int last = each->rank - 1;
    logs = build_broadcast(rewrite, logs, each->rank, (const Dim *const *)each->dims, like);
    Value *most = build_reduce(rewrite, OP_reduce_max, logs, 1, &last, true, like);
    Value *of_own = own ? keys_parts_last(rewrite, own->log) : NULL;
    if (own)
        most = build_scalar(rewrite, OP_max, most, of_own, NULL, like);
    Value *beside = sink ? keys_sink(rewrite, sink, like) : NULL;
    if (sink && !beside)
        return NULL;
    if (sink)
        most = build_scalar(rewrite, OP_max, most, beside, NULL, like);
    Value *weight = build_exp_below(rewrite, logs, most, logs);
    Value *all = build_reduce(rewrite, OP_sum, keys_added(rewrite, each, weight, like), 1, &last, true, like),
          *weights = build_reduce(rewrite, OP_sum, weight, 1, &last, true, like);
    if (own) {
        Value *share = build_exp_below(rewrite, of_own, most, of_own);
        Value *added = keys_added(rewrite, keys_parts_last(rewrite, own->o), share, like);
        all = build_scalar(rewrite, OP_add, all, added, NULL, like);
        weights = build_scalar(rewrite, OP_add, weights, share, NULL, like);
    }
    if (sink)
        weights = build_scalar(rewrite, OP_add, weights, build_exp_below(rewrite, beside, most, beside), NULL,
                               like);
    return build_scalar(rewrite, OP_div, all, weights, NULL, like);
}

/* How long the parts are, and how far apart. */
static void keys_cut(Keys *keys) {
    DimTable *dims = keys->rewrite->graph->dims;
    const Dim *all = keys->all, *parts = dim_const(dims, keys->parts);
    if (dim_divisor(dims, all) % keys->parts == 0) {
        keys->each = keys->step = dim_div(dims, all, parts);
        return;
    }
    int64_t step = all->value / keys->parts;
    keys->step = dim_const(dims, step);
    keys->each = dim_const(dims, all->value - (keys->parts - 1) * step);
}

/* Whether a matrix' batch is that of x, or broadcasts to it: no heads that share it. */
static bool keys_has_batch(const Value *matrix, const Value *x) {
    for (int back = 3; back <= matrix->rank; back++)
        if (!dim_is(keys_dim(matrix, back), 1) &&
            (back > x->rank || keys_dim(matrix, back) != keys_dim(x, back)))
            return false;
    return true;
}

/* Attention to the keys that are meant, in their parts; false where the graph has no room. */
static bool keys_attend(Keys *keys, Value *value, KeysResult *result) {
    Rewrite *rewrite = keys->rewrite;
    keys_cut(keys);
    Value *x = keys_cone(keys, keys->softmax.x, KEYS_CONE), *values = keys_rows(keys, value->in[1]);
    if (x && keys_overlap(keys))
        x = keys_masked(keys, x);
    if (!x || !values)
        return false;
    if (dim_is(keys->all, 1) && keys_has_batch(values, x)) { /* all the weight there is */
        *result = (KeysResult){.o = build_cast(rewrite, values, DTYPE_F32, value), .log = x};
        return true;
    }
    int last = x->rank - 1;
    Value *max = build_reduce(rewrite, OP_reduce_max, x, 1, &last, true, value);
    Value *e = build_exp_below(rewrite, x, max, x);
    Value *sum = build_reduce(rewrite, OP_sum, e, 1, &last, true, value);
    Value *share = build_scalar(rewrite, OP_div, e, sum, NULL, value);
    Value *in[] = {build_cast(rewrite, share, value->in[0]->dtype, value), values};
    result->o = in[0] ? build_like(rewrite, value, in) : NULL;
    Value *none = keys_float(rewrite, -INFINITY, value),
          *is_none = build_scalar(rewrite, OP_eq, max, none, NULL, value);
    Value *log = build_scalar(rewrite, OP_log, sum, NULL, NULL, value);
    log = build_scalar(rewrite, OP_add, max, log, NULL, value);
    result->log = build_scalar(rewrite, OP_select, is_none, none, log, value);
    return result->o && result->log;
}

static void keys_decide(const Keys *keys, const Keys *own, Value *parts) {
    Pass *pass = keys->rewrite->pass;
    if (own)
        pass_decide(
            pass, "split_keys", false, parts, NULL, "keys that are in memory in one tensor",
            "its last %lld keys are attended to apart, which takes less than to write them behind the "
            "others, and a kernel behind weighs both",
            (long long)own->all->value);
    if (keys->parts > 1)
        pass_decide(pass, "split_keys", false, parts, NULL, "more queries, or fewer keys",
                    "its keys come in %lld parts, so that every multiprocessor has some, and a kernel behind "
                    "weighs them",
                    (long long)keys->parts);
}

static Value *keys_rule(Rewrite *rewrite, Value *value) {
    Keys keys, own;
    KeysResult parts, last;
    const bool *is_kept = rewrite->pass->state;
    if (value->id >= rewrite->n_before || is_kept[value->id] || !keys_find(rewrite, value, &keys))
        return value;
    keys.is_wide = streams_is_wide(rewrite->graph, keys.core, value);
    bool has_own = keys_come_apart(&keys, &own, rewrite->pass->options->limits);
    if ((!has_own && keys.parts == 1) || !keys_attend(&keys, value, &parts) ||
        (has_own && !keys_attend(&own, value, &last)))
        return value;
    Value *o = keys_weighed(rewrite, &parts, has_own ? &last : NULL, keys.softmax.sink, value);
    if (!o)
        return value;
    keys_decide(&keys, has_own ? &own : NULL, parts.o);
    return build_reshape(rewrite, o, value->rank, (const Dim *const *)value->dims, value);
}

bool pass_split_keys(Pass *pass, Graph *graph) {
    const FuseLimits *limits = pass->options->limits;
    if (pass->options->no_fusion || !limits || !limits->chain_columns_max)
        return false;
    graph_renumber(graph);
    pass->state = fuse_mark_hinted(pass->arena, graph, keys_is_for_one);
    return rewrite_graph(pass, graph, keys_rule);
}
