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
 * coordinates: masks that compare them are limits to the chain (ir/softmax.h). */
#include <math.h>
#include <string.h>

#include "ir/band.h"
#include "ir/softmax.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/rewrite.h"
#include "passes/streams.h"

enum {
    KEYS_ROWS = 64,      /* of a warpgroup; more come in tiles of two */
    KEYS_STEP = 128,     /* keys that a tile takes at a time */
    KEYS_STEP_WIDE = 64, /* the same of wide heads */
    KEYS_PARTS = 64,     /* most parts */
    KEYS_CONE = 32       /* operations between the products on one way */
};

/* What a plan takes (H200): bytes a second from memory, by all and by one multiprocessor, which does so many
 * operations; a step of a tile that waits for neither, a tile besides its steps; a kernel more, and with its
 * scores stored three. */
static const double keys_bytes = 3.8e12, keys_bytes_sm = 80e9, keys_flops_sm = 4.5e12,
                    keys_parts_bytes = 3e12;
static const double keys_step = 1.3e-6, keys_tile = 1.5e-6, keys_weigh = 4e-6, keys_apart = 9e-6;
/* Of wide heads, in whose kernels the products take turns with what lies between. */
static const double keys_flops_sm_wide = 4e12;
/* Of tiles whose lengths memory says, the share of keys that is seen; what parts must take of the time of a
 * single kernel, of which estimates this rough leave something. */
static const double keys_seen = 0.6, keys_worth = 0.85;

typedef struct Keys {
    Rewrite *rewrite;
    Softmax softmax;
    Value *core, *product; /* q @ k.T, and softmax(x) @ v */
    int64_t parts;
    bool is_wide;    /* its heads: streams_is_wide */
    const Dim *each; /* keys of a part */
    const Dim
        *step; /* from where one begins to where the next one does; less than `each` where they overlap */
} Keys;

static const Dim *keys_dim(const Value *value, int from_end) {
    return value->dims[value->rank - from_end];
}

/* What an extent is taken for in estimates. */
static double keys_extent(const Keys *keys, const Value *value, int from_end) {
    return (double)product_extent(keys->rewrite->graph, keys_dim(value, from_end));
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
    /* x is read by its maximum and by what is below it, which both are read once, as nothing else is here */
    return keys->core && rewrite_uses(rewrite, product->in[0]) == 1 &&
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

/* Seconds in so many parts, of which each block takes its share of tiles. */
static double keys_seconds(const Keys *keys, const FuseLimits *limits, int64_t parts, bool is_ragged) {
    double tile_rows, row_tiles = keys_row_tiles(keys, &tile_rows), sms = limits->sm_count;
    double tiles = keys_matrices(keys) * row_tiles * (double)parts, active = fmin(tiles, sms);
    double rate = fmin(keys_bytes / active, keys_bytes_sm) * row_tiles; /* which share what L2 has */
    double length = keys->is_wide ? KEYS_STEP_WIDE : KEYS_STEP;
    double flops = keys->is_wide ? keys_flops_sm_wide : keys_flops_sm;
    double step = fmax(keys_step, fmax(length * 2 * keys_depth_read(keys) / rate,
                                       2 * tile_rows * length * keys_depth(keys) / flops));
    double steps = ceil(keys_longest(keys_extent(keys, keys->core, 1), parts) / length);
    double tile = steps * step + keys_tile;
    double rounds = ceil(tiles / sms);
    double together = (is_ragged && rounds > 1 ? keys_seen * tiles / sms + 1 - keys_seen : rounds) * tile;
    double rows = keys_matrices(keys) * keys_extent(keys, keys->core, 2);
    double bytes = 2 * 4 * (double)parts * rows * keys_extent(keys, keys->product, 1);
    return parts == 1 ? together : together + keys_weigh + bytes / keys_parts_bytes;
}

/* Seconds of both products in kernels of their own, whose tiles are parts of the keys anyway. Wide heads, of
 * which there are many, take as long to multiply as to read, and their weights are stored. */
static double keys_seconds_apart(const Keys *keys, const FuseLimits *limits) {
    double columns = keys_matrices(keys) * keys_extent(keys, keys->core, 1), depth = keys_depth(keys);
    double seconds = columns * 2 * depth / keys_bytes + keys_apart, tile_rows;
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
    const Dim *all = keys_dim(keys->core, 1);
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
static int64_t keys_parts(const Keys *keys, const FuseLimits *limits) {
    int64_t best = 1;
    bool is_ragged = keys_are_ragged(keys);
    bool has_chain = keys_stream(keys, 1);
    double least =
        has_chain ? keys_worth * keys_seconds(keys, limits, 1, is_ragged) : keys_seconds_apart(keys, limits);
    for (int64_t parts = 2; parts <= KEYS_PARTS; parts++) {
        if (!keys_divide(keys, parts) || !keys_stream(keys, parts))
            continue;
        double seconds = keys_seconds(keys, limits, parts, is_ragged);
        if (seconds < least) {
            least = seconds;
            best = parts;
        }
    }
    return best;
}

/* ---- the space of parts: [..., R, T] is [..., P, R, T / P] */

static Value *keys_reshape(const Keys *keys, Value *value, int n_batch, const Dim *a, const Dim *b,
                           const Dim *c) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < n_batch; i++)
        dims[i] = value->dims[i];
    dims[n_batch] = a;
    dims[n_batch + 1] = b;
    dims[n_batch + 2] = c;
    return build_reshape(keys->rewrite, value, n_batch + 3, dims, value);
}

static const Dim *keys_number(const Keys *keys, int64_t number) {
    return dim_const(keys->rewrite->graph->dims, number);
}

static bool keys_overlap(const Keys *keys) {
    return keys->step != keys->each;
}

/* Parts that overlap along an axis, of which each one's keys are a last axis. */
static Value *keys_windows(const Keys *keys, Value *value, int axis) {
    return build_window(keys->rewrite, value, axis, keys->each, (int)keys->step->value, value);
}

/* A matrix whose rows are keys: [..., T, D] as [..., P, T / P, D]. */
static Value *keys_rows(const Keys *keys, Value *value) {
    if (keys_overlap(keys)) {
        Value *parts = keys_windows(keys, value, value->rank - 2);
        return parts ? build_turned(keys->rewrite, parts, value) : NULL;
    }
    return keys_reshape(keys, value, value->rank - 2, keys_number(keys, keys->parts), keys->each,
                        keys_dim(value, 1));
}

/* Any value that has x's axes, or broadcasts to them. */
static Value *keys_moved(const Keys *keys, Value *value) {
    if (value->rank == 0)
        return value;
    int n_batch = value->rank > 2 ? value->rank - 2 : 0, perm[RANK_MAX];
    const Dim *one = keys_number(keys, 1), *rows = value->rank > 1 ? keys_dim(value, 2) : one;
    if (dim_is(keys_dim(value, 1), 1))
        return keys_reshape(keys, value, n_batch, one, rows, one);
    Value *cut = keys_overlap(keys)
                     ? keys_windows(keys, value, value->rank - 1)
                     : keys_reshape(keys, value, n_batch, rows, keys_number(keys, keys->parts), keys->each);
    if (cut && cut->rank == 2) /* of a vector */
        cut = keys_reshape(keys, cut, 0, one, keys_number(keys, keys->parts), keys->each);
    for (int i = 0; i < n_batch + 3; i++)
        perm[i] = i;
    perm[n_batch] = n_batch + 1;
    perm[n_batch + 1] = n_batch;
    return cut ? build_transpose(keys->rewrite, cut, perm, value) : NULL;
}

static Value *keys_float(Rewrite *rewrite, double number, const Value *like) {
    return build_constant(rewrite, (Number){.f = number}, DTYPE_F32, like);
}

/* A coordinate along an axis of a space of parts. */
static Value *keys_along(const Keys *keys, int rank, int axis, const Dim *extent, const Value *like) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? extent : keys_number(keys, 1);
    return build_index(keys->rewrite, rank, dims, axis, like);
}

/* One along an axis of x's: of a key, the part's first and that within the part. */
static Value *keys_index(const Keys *keys, Value *value, int axis) {
    Rewrite *rewrite = keys->rewrite;
    int rank = value->rank < 2 ? 3 : value->rank + 1, behind = value->rank - 1 - axis;
    if (behind > 0)
        return keys_along(keys, rank, behind == 1 ? rank - 2 : axis, value->dims[axis], value);
    Value *size = build_cast(rewrite, build_dim(rewrite, keys->step, value), value->dtype, value);
    Value *part = keys_along(keys, rank, rank - 3, keys_number(keys, keys->parts), value);
    Value *first = build_scalar(rewrite, OP_mul, part, size, NULL, value);
    Value *within = keys_along(keys, rank, rank - 1, keys->each, value);
    return build_scalar(rewrite, OP_add, within, first, NULL, value);
}

/* q @ k.T of parts. */
static Value *keys_scores(const Keys *keys) {
    Value *q = keys->core->in[0], *k = keys->core->in[1];
    Value *in[2] = {keys_reshape(keys, q, q->rank - 2, keys_number(keys, 1), keys_dim(q, 2), keys_dim(q, 1)),
                    NULL};
    Value *turned = build_turned(keys->rewrite, k, k);
    Value *rows = turned ? keys_rows(keys, turned) : NULL;
    in[1] = rows ? build_turned(keys->rewrite, rows, k) : NULL;
    return in[0] && in[1] ? build_like(keys->rewrite, keys->core, in) : NULL;
}

/* What x is computed by, of parts. */
static Value *keys_cone(const Keys *keys, Value *value, int depth) {
    if (value == keys->core)
        return keys_scores(keys);
    int axis = value_coordinate(value);
    if (axis >= 0)
        return keys_index(keys, value, axis);
    if (!value_is_pointwise(value) || !value->n_in || !depth || value->rank == 0)
        return keys_moved(keys, value);
    Value *in[OP_MAX_ARITY];
    for (int i = 0; i < value->n_in; i++) {
        in[i] = keys_cone(keys, value->in[i], depth - 1);
        if (!in[i])
            return NULL;
    }
    return build_like(keys->rewrite, value, in);
}

/* x without the keys of a part that the next one begins with. */
static Value *keys_masked(const Keys *keys, Value *x) {
    Rewrite *rewrite = keys->rewrite;
    int last = x->rank - 1;
    Value *within = keys_along(keys, x->rank, last, keys->each, x),
          *part = keys_along(keys, x->rank, last - 2, keys_number(keys, keys->parts), x);
    Value *own = build_constant(rewrite, (Number){.i = keys->step->value}, within->dtype, x),
          *end = build_constant(rewrite, (Number){.i = keys->parts - 1}, part->dtype, x);
    Value *is_own = build_scalar(rewrite, OP_lt, within, own, NULL, x),
          *is_end = build_scalar(rewrite, OP_eq, part, end, NULL, x);
    Value *is_seen = build_scalar(rewrite, OP_or, is_own, is_end, NULL, x);
    return build_scalar(rewrite, OP_select, is_seen, x, keys_float(rewrite, -INFINITY, x), x);
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

static Value *keys_exp(Rewrite *rewrite, Value *x, Value *max) {
    return build_scalar(rewrite, OP_exp, build_scalar(rewrite, OP_sub, x, max, NULL, x), NULL, NULL, x);
}

/* [..., P, R, D] with its parts last, which are few: [..., R, D, P]. */
static Value *keys_parts_last(Rewrite *rewrite, Value *value) {
    int perm[RANK_MAX], n = value->rank - 3;
    for (int i = 0; i < n; i++)
        perm[i] = i;
    for (int i = 0; i < 3; i++)
        perm[n + i] = n + (i + 1) % 3;
    return build_transpose(rewrite, value, perm, value);
}

/* The parts by their logarithms of sums. Of those that weigh nothing the result may be no number. */
static Value *keys_weighed(Rewrite *rewrite, Value *parts, Value *log, const Value *like) {
    Value *each = keys_parts_last(rewrite, parts), *logs = keys_parts_last(rewrite, log);
    if (!each || !logs)
        return NULL;
    int last = each->rank - 1;
    logs = build_broadcast(rewrite, logs, each->rank, (const Dim *const *)each->dims, like);
    Value *weight = keys_exp(rewrite, logs, build_reduce(rewrite, OP_reduce_max, logs, 1, &last, true, like));
    Value *zero = keys_float(rewrite, 0, like),
          *weighs = build_scalar(rewrite, OP_gt, weight, zero, NULL, like);
    Value *seen = build_scalar(rewrite, OP_mul, each, weight, NULL, like);
    seen = build_scalar(rewrite, OP_select, weighs, seen, zero, like);
    Value *all = build_reduce(rewrite, OP_sum, seen, 1, &last, true, like),
          *weights = build_reduce(rewrite, OP_sum, weight, 1, &last, true, like);
    return build_scalar(rewrite, OP_div, all, weights, NULL, like);
}

/* How long the parts are, and how far apart. */
static void keys_cut(Keys *keys) {
    DimTable *dims = keys->rewrite->graph->dims;
    const Dim *all = keys_dim(keys->core, 1);
    if (dim_divisor(dims, all) % keys->parts == 0) {
        keys->each = keys->step = dim_div(dims, all, keys_number(keys, keys->parts));
        return;
    }
    int64_t step = all->value / keys->parts;
    keys->step = keys_number(keys, step);
    keys->each = keys_number(keys, all->value - (keys->parts - 1) * step);
}

static Value *keys_rule(Rewrite *rewrite, Value *value) {
    Keys keys;
    const bool *is_kept = rewrite->pass->state;
    if (value->id >= rewrite->n_before || is_kept[value->id] || !keys_find(rewrite, value, &keys))
        return value;
    keys.is_wide = streams_is_wide(rewrite->graph, keys.core, value);
    keys.parts = keys_parts(&keys, rewrite->pass->options->limits);
    keys_cut(&keys);
    Value *x = keys.parts > 1 ? keys_cone(&keys, keys.softmax.x, KEYS_CONE) : NULL;
    if (x && keys_overlap(&keys))
        x = keys_masked(&keys, x);
    if (!x)
        return value;
    int last = x->rank - 1;
    Value *max = build_reduce(rewrite, OP_reduce_max, x, 1, &last, true, value);
    Value *e = keys_exp(rewrite, x, max);
    Value *sum = build_reduce(rewrite, OP_sum, e, 1, &last, true, value);
    Value *share = build_scalar(rewrite, OP_div, e, sum, NULL, value);
    Value *in[] = {build_cast(rewrite, share, value->in[0]->dtype, value), keys_rows(&keys, value->in[1])};
    Value *parts = in[0] && in[1] ? build_like(rewrite, value, in) : NULL;
    Value *none = keys_float(rewrite, -INFINITY, value),
          *is_none = build_scalar(rewrite, OP_eq, max, none, NULL, value);
    Value *log = build_scalar(rewrite, OP_log, sum, NULL, NULL, value);
    log = build_scalar(rewrite, OP_add, max, log, NULL, value);
    log = build_scalar(rewrite, OP_select, is_none, none, log, value);
    Value *o = parts && log ? keys_weighed(rewrite, parts, log, value) : NULL;
    if (!o)
        return value;
    pass_decide(
        rewrite->pass, "split_keys", false, parts, NULL, "more queries, or fewer keys",
        "its keys come in %lld parts, so that every multiprocessor has some, and a kernel behind weighs them",
        (long long)keys.parts);
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
