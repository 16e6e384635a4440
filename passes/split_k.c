/* A product of few tiles and a long K is done in parts, so that every multiprocessor has work:
 *
 *     y = x @ w                      x: bf16[256, 65536], w: bf16[65536, 256]
 * ->  p = transpose(reshape(x, dims=[256, 8, 8192]), perm=[1, 0, 2]) @ reshape(w, dims=[8, 8192, 256])
 *     y = sum(p, over=0)
 *
 * The blocks of a cluster share a tile's K as well (Schedule.split_k), but no more than eight, each of whose
 * results is exchanged on chip; this is for what is left to do then. Multiply-adds take longer: there a K of
 * some hundreds is long, and clusters of four and eight leave a tenth of the multiprocessors without work.
 * The parts are views of memory, or computed of such. They are added in a fixed order, in the product's own
 * type. Extents must be known, and divide. */
#include <math.h>

#include "ir/base/checked.h"
#include "ir/windows.h"
#include "passes/fuse.h"
#include "passes/movement.h"

enum {
    SPLIT_K_TILE = 128,          /* rows and columns of a tile */
    SPLIT_K_CLUSTER = 8,         /* blocks that share a tile anyway */
    SPLIT_K_SHARE = 4,           /* of which so many are left to do it where parts are made */
    SPLIT_K_LEAST = 1 << 15,     /* K from which a second kernel, of 4 us, is less than what it saves */
    SPLIT_K_PART = 2048,         /* least K of a part, and a multiple of whole lines */
    SPLIT_K_CONE = 32,           /* Values that an operand is computed of */
    SPLIT_K_STATISTIC = 1 << 16, /* elements of what a kernel before leaves */
    SPLIT_FMA_FEW = 32,          /* without tensor cores: rows or columns that have kernels of their own */
    SPLIT_FMA_STREAMED = 64,     /* or may have, a few at a time */
    SPLIT_FMA_WIDE = 64,         /* tiles a multiprocessor where nothing is to be split */
    SPLIT_FMA_EACH = 8,          /* parts of which any number is tried, and beyond powers of two */
    SPLIT_FMA_MOST = 128,
    SPLIT_FMA_LEAST = 384,        /* K */
    SPLIT_FMA_COMPUTED = 1 << 12, /* of what is computed */
    SPLIT_FMA_PART = 64,          /* least K of a part */
    SPLIT_FMA_VECTOR = 4,         /* of which it is a multiple */
};

static bool split_k_is_windows(const Rewrite *rewrite, Value *operand) {
    Windows windows;
    return windows_of(rewrite->graph, operand, operand->rank - 2, operand->rank - 1, view_is_input, NULL,
                      &windows);
}

/* Whether an operand is an input, maybe with rows joined or transposed. */
static bool split_k_is_plain(const Value *base) {
    while (base->op == OP_transpose)
        base = base->in[0];
    if (base->op == OP_reshape)
        base = base->in[0];
    return base->op == OP_input && !base->strides;
}

/* How many elements dims are; 0: not known, or more than are counted. */
static int64_t split_k_count(int rank, const Dim *const *dims) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        if (!dim_is_const(dims[i]) || !checked_mul(count, dims[i]->value, &count))
            return 0;
    return count;
}

/* Whether a value is few numbers, that a kernel before leaves, as means of columns are. */
static bool split_k_is_statistic(const Value *value) {
    int64_t elements = split_k_count(value->rank, (const Dim *const *)value->dims);
    return value_class(value) == OPCLASS_REDUCTION && elements > 0 && elements <= SPLIT_K_STATISTIC;
}

/* Whether a value is computed of inputs, element by element, as categories are of their numbers. For
 * multiply-adds: of wide inputs, as tensor cores may yet get what is made of others, and of statistics. */
static bool split_k_is_computed(const Value *value, bool for_fma, int *room) {
    if (--*room < 0 || value->op == OP_window)
        return false;
    if (value_is_heavy(value))
        return for_fma && split_k_is_statistic(value);
    if (value->op == OP_input && for_fma && dtype_bits(value->dtype) < dtype_bits(DTYPE_F32))
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!split_k_is_computed(value->in[i], for_fma, room))
            return false;
    return value_is_pointwise(value) || op_is_view(value->op) || value->n_in == 0;
}

/* Whether any parts of an operand are views of memory: of such an input, of a copy that is made first, as
 * unfold.c has it of the windows of a long K, and of what is computed beside a copy, which is stored as well.
 */
static bool split_k_is_memory(const Value *product, int i) {
    return split_k_is_plain(product->in[i]) || value_is_realigned(product->in[i]) ||
           value_is_realigned(product->in[!i]);
}

/* Or of what the product's kernel computes: always where tensor cores do, else of a K that makes it worth it.
 */
static bool split_k_is_made(const FuseLimits *limits, const Value *product, int i) {
    const Dim *k = product->in[0]->dims[product->in[0]->rank - 1];
    bool is_long = dim_is_const(k) && k->value >= SPLIT_FMA_COMPUTED;
    bool has_tensor_cores = product_uses_tensor_cores(limits, product);
    int room = SPLIT_K_CONE;
    return split_k_is_memory(product, i) ||
           ((has_tensor_cores || is_long) && split_k_is_computed(product->in[i], !has_tensor_cores, &room));
}

/* Matrices of a product's batch; 0: not known, or more than are counted. */
static int64_t split_k_batch(const Value *product) {
    return split_k_count(product->rank - 2, (const Dim *const *)product->dims);
}

/* Tiles of multiply-adds, and the seconds of one of K that a block alone on a multiprocessor takes (H200): of
 * 32 bits by the estimate of their schedules, of 64 on tensor cores. */
static const struct {
    int rows, columns;
    double step, step_64;
} split_fma_tiles[] = {{64, 64, 29e-9, 40e-9}, {64, 128, 50e-9, 60e-9}, {128, 128, 98e-9, 100e-9}};
/* Seconds for the blocks of a cluster to meet, and the share of the multiprocessors that clusters of four and
 * more have. */
static const double split_fma_meeting = 2e-6, split_fma_clustered = 0.9;
/* Of a second kernel: seconds, bytes a second of the parts that are written and read, and the share of the
 * time without it that is worth its while. */
static const double split_fma_kernel = 4e-6, split_fma_bytes = 3e12, split_fma_worth = 0.9;
static const double split_streamed = 14e12; /* operations a second of kernels for few rows or columns */

/* Seconds in the best of these tiles, each whole or shared by a cluster. */
static double split_fma_seconds(const FuseLimits *limits, const Value *product, int64_t k, int64_t parts) {
    double m = (double)product->dims[product->rank - 2]->value,
           n = (double)product->dims[product->rank - 1]->value, batch = (double)split_k_batch(product);
    bool is_wide = dtype_bits(product->dtype) == 64;
    int most = limits->shares_k && !is_wide ? SPLIT_K_CLUSTER : 1;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof split_fma_tiles / sizeof *split_fma_tiles; i++)
        for (int cluster = 1; cluster <= most; cluster *= 2) {
            double tiles = batch * ceil(m / split_fma_tiles[i].rows) * ceil(n / split_fma_tiles[i].columns);
            double slots = (double)limits->sm_count * (cluster > 2 ? split_fma_clustered : 1);
            double rounds = ceil(tiles * (double)parts * cluster / slots);
            double steps = (double)k / (double)parts / cluster;
            double meeting = cluster > 1 ? split_fma_meeting : 0;
            double step = is_wide ? split_fma_tiles[i].step_64 : split_fma_tiles[i].step;
            least = fmin(least, rounds * steps * step + meeting);
        }
    double bytes = 2.0 * dtype_bits(product->dtype) / 8 * (double)parts * batch * m * n;
    return parts > 1 ? least + split_fma_kernel + bytes / split_fma_bytes : least;
}

/* How many parts where a thread has some sums to itself: as many as are quickest. */
static int64_t split_fma_parts(const FuseLimits *limits, const Value *product, const Dim *k) {
    const Dim *m = product->dims[product->rank - 2], *n = product->dims[product->rank - 1];
    int64_t most = (int64_t)limits->sm_count * SPLIT_FMA_WIDE;
    bool is_memory = split_k_is_memory(product, 0) && split_k_is_memory(product, 1);
    bool is_few = m->value <= SPLIT_FMA_FEW || n->value <= SPLIT_FMA_FEW;
    if (k->value < SPLIT_FMA_LEAST || (is_few && is_memory) || m->value > most || n->value > most)
        return 1;
    int64_t best = 1;
    bool is_streamed = is_memory && (m->value <= SPLIT_FMA_STREAMED || n->value <= SPLIT_FMA_STREAMED);
    if (is_streamed && product->in[0]->op != OP_transpose && product->in[1]->op == OP_transpose)
        return 1; /* both lie along K, as streams are read fastest */
    double operations =
        2.0 * (double)split_k_batch(product) * (double)m->value * (double)n->value * (double)k->value;
    double whole = split_fma_seconds(limits, product, k->value, 1);
    if (is_streamed)
        whole = fmin(whole, operations / split_streamed);
    double least = split_fma_worth * whole;
    for (int64_t parts = 2; parts <= SPLIT_FMA_MOST && k->value / parts >= SPLIT_FMA_PART;
         parts += parts < SPLIT_FMA_EACH ? 1 : parts) {
        double seconds = split_fma_seconds(limits, product, k->value, parts);
        if (k->value % (parts * SPLIT_FMA_VECTOR) == 0 && seconds < least) {
            least = seconds;
            best = parts;
        }
    }
    return best;
}

/* How many parts of a gradient of weights whose windows lie beside each other, 0 where it is none: tiles may
 * have all taps of a line (matmul_patch.c), so that there are fewer of them, and parts are of whole images.
 */
static int64_t split_k_weights(const Rewrite *rewrite, const FuseLimits *limits, const Value *product) {
    enum { FEATURES = 128, CHANNELS = 64, LEAST = 1 << 13, RESULT_MOST = 320 << 10 /* elements */ };
    Value *operand = product->in[1];
    Windows windows;
    if (product->rank != 2 || !windows_of(rewrite->graph, operand, 1, 0, view_is_input, NULL, &windows) ||
        windows.images_axis < 0 || !dim_is_const(windows.seen->dims[windows.images_axis]) ||
        !dim_is_const(windows.channels) || dtype_bits(windows.base->dtype) != 16)
        return 0;
    int64_t taps = 1, images = windows.seen->dims[windows.images_axis]->value;
    for (int i = 0; i < windows.n; i++) {
        if (windows.axis[i].step != 1)
            return 0;
        taps *= windows.axis[i].taps;
    }
    int64_t m = product->dims[0]->value, n = product->dims[1]->value, k = operand->dims[0]->value, result;
    int64_t tiles =
        ceil_div(m, FEATURES) * ceil_div(windows.channels->value, CHANNELS) * taps / windows.axis[0].taps;
    if (taps == 1 || k < LEAST || !checked_mul(m, n, &result) || result > RESULT_MOST ||
        tiles >= limits->sm_count)
        return 0;
    int64_t parts = 1;
    while (parts * tiles < limits->sm_count && images % (2 * parts) == 0)
        parts *= 2;
    return 2 * parts * tiles >= limits->sm_count ? parts : 0; /* else they are more than images */
}

/* How many parts; 1: as it is. */
static int64_t split_k_parts(const Rewrite *rewrite, const FuseLimits *limits, const Value *product) {
    const Dim *m = product->dims[product->rank - 2], *n = product->dims[product->rank - 1];
    const Dim *k = product->in[0]->dims[product->in[0]->rank - 1];
    if (!dim_is_const(m) || !dim_is_const(n) || !dim_is_const(k) || m->value < 1 || n->value < 1 ||
        split_k_batch(product) < 1)
        return 1;
    if (!product_uses_tensor_cores(limits, product))
        return split_fma_parts(limits, product, k);
    if (product->rank > 2)
        return 1;
    int64_t of_weights = split_k_weights(rewrite, limits, product);
    if (of_weights)
        return of_weights;
    int64_t tiles_m = ceil_div(m->value, SPLIT_K_TILE), tiles_n = ceil_div(n->value, SPLIT_K_TILE);
    if (k->value < SPLIT_K_LEAST || tiles_m > limits->sm_count || tiles_n > limits->sm_count ||
        tiles_m * tiles_n * SPLIT_K_CLUSTER > limits->sm_count * 3 / 4)
        return 1;
    int64_t parts = 2;
    while (parts * tiles_m * tiles_n * SPLIT_K_SHARE < limits->sm_count)
        parts *= 2;
    while (parts > 1 && (k->value % (parts * SPLIT_K_TILE) != 0 || k->value / parts < SPLIT_K_PART))
        parts /= 2;
    return parts;
}

/* An operand with its K, axis `axis` from behind, in two: parts, which become an axis before the last two,
 * and elements of a part. */
static Value *split_k_operand(Rewrite *rewrite, Value *operand, int axis, int64_t parts, const Value *like) {
    DimTable *table = rewrite->graph->dims;
    const Dim *dims[RANK_MAX];
    int rank = operand->rank, at = rank - axis, perm[RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i + (i > at)] = operand->dims[i];
    dims[at] = dim_const(table, parts);
    dims[at + 1] = dim_const(table, operand->dims[at]->value / parts);
    for (int i = 0; i <= rank; i++)
        perm[i] = i;
    perm[rank - 2] = at;
    perm[at] = rank - 2;
    Value *cut = build_reshape(rewrite, operand, rank + 1, dims, like);
    return cut ? build_transpose(rewrite, cut, perm, like) : NULL;
}

static Value *split_k_rule(Rewrite *rewrite, Value *value) {
    const FuseLimits *limits = rewrite->pass->options->limits;
    bool is_float = value->dtype == DTYPE_F32 || value->dtype == DTYPE_F64;
    if (value->op != OP_matmul || value->rank < 2 || value->rank >= RANK_MAX || !is_float ||
        value->in[0]->rank < 2 || value->in[1]->rank < 2 ||
        !(split_k_is_made(limits, value, 0) || split_k_is_windows(rewrite, value->in[0])) ||
        !(split_k_is_made(limits, value, 1) || split_k_is_windows(rewrite, value->in[1])))
        return value;
    int64_t parts = split_k_parts(rewrite, limits, value),
            k = value->in[0]->dims[value->in[0]->rank - 1]->value;
    if (parts < 2)
        return value;
    int axis = value->rank - 2;
    Value *in[] = {split_k_operand(rewrite, value->in[0], 1, parts, value),
                   split_k_operand(rewrite, value->in[1], 2, parts, value)};
    for (int i = 0; i < 2; i++)
        if (!split_k_is_made(limits, value, i) && !(in[i] && split_k_is_windows(rewrite, in[i])))
            return value;
    Value *product = build_like(rewrite, value, in);
    Value *sum = build_reduce(rewrite, OP_sum, product, 1, &axis, true, value);
    Value *fresh = build_reshape(rewrite, sum, value->rank, (const Dim *const *)value->dims, value);
    if (!fresh || fresh->dtype != value->dtype)
        return value;
    pass_decide(
        rewrite->pass, "split_k", false, value, NULL, "more rows or columns, or a shorter K",
        "K of %lld is multiplied in %lld parts, which another kernel adds, so that all multiprocessors "
        "work",
        (long long)k, (long long)parts);
    return fresh;
}

bool pass_split_k(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits || !pass->options->limits->has_tensor_cores)
        return false;
    if (!rewrite_graph(pass, graph, split_k_rule))
        return false;
    for (int round = 0; round < 4 && pass_movement(pass, graph); round++)
        continue; /* the parts belong on the inputs */
    return true;
}
