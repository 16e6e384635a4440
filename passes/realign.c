/* An operand of a product whose rows do not start at 16 bytes is copied once to rows that do, so that the
 * product can be read by TMA and 16-byte copies:
 *
 *     y = x @ w                    x: bf16[1000, 1001]
 * ->  p = pad(x, 0, high=[0, 23])  bf16[1000, 1024], a kernel of its own
 *     y = p[:, 0:1001] @ w         a view
 *
 * So is one of 8 or 32 bits that lies along M or N, which matrix instructions take along K, unless they can
 * have it from registers, or those that can are no slower (realign_words.c); one whose innermost axis in
 * memory is neither K nor M nor N but a batch, as channels behind two axes of positions; and one that lies in
 * more parts than TMA follows, as an image's pieces: their copies have them in the order of the product.
 *
 * The product's arithmetic stays the same. Long rows are made whole lines of 128 bytes: a tile's row that
 * lies in two of them takes L2 twice the requests, and a product that L2 feeds ran at two thirds of its rate.
 *
 * It pays where the time that the slow path would lose is more than the copy costs, which the figures below
 * estimate from an H200: unaligned products ran at a twelfth of the aligned rate, and where tiles are few, a
 * step of K took ten times as long as an aligned one, whose loads run ahead. Elements of 16 bits a kernel may
 * bring by itself, at a better rate (realign_brought.c). Extents must be known. The pass stands behind the
 * fixpoint, since slicing what was padded is what `movement` would undo. Two operands share a copy, unless
 * they are large (realign_joined.c). */
#include "ir/windows.h"
#include "passes/realign.h"

#include <math.h>

#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/movement.h"

static const double realign_slow = 40e12, realign_fast = 500e12; /* operations a second */
/* Operations a second with 8 bits, and where a product turns an operand by itself: mma.sync, by the estimate,
 * for fp8 and for integers. */
static const double realign_fast_bytes = 1200e12;
static const double realign_turning_fp8 = 125e12, realign_turning_int8 = 350e12;
/* and at least, where rows and columns are few: seconds for each of K (48 x 4096 x 4096 of e4m3 took 40 us)
 */
static const double realign_turning_step = 6e-9;
/* operations a second where threads gather an operand that lies in many parts; by the estimate, 70 to 145 */
static const double realign_strewn = 100e12;
static const double realign_bytes = 3e12, realign_sectors = 4e12; /* a second, from memory, and from L2 */
static const double realign_slow_step = 21e-9, realign_fast_step = 2e-9; /* seconds for each of K */
enum {
    REALIGN_BYTES = 16,
    REALIGN_LINE = 128,
    REALIGN_SECTOR = 32,
    REALIGN_TILE = 16,  /* elements along either side of a tile that is turned */
    REALIGN_LONG = 512, /* bytes of a row that is made whole lines */
    REALIGN_FEW = 16    /* rows or columns of a product that a path without tiles takes as it lies */
};

static bool realign_is_tensor_type(DType type) {
    return type == DTYPE_BF16 || type == DTYPE_F16 || type == DTYPE_TF32 || dtype_is_fp8(type) ||
           dtype_is_int8(type);
}

double realign_operations(const Value *product) {
    const Value *a = product->in[0];
    const Dim *k = a->dims[a->rank - 1];
    return dim_is_const(k) ? 2 * realign_count(product) * (double)k->value : 0;
}

double realign_count(const Value *value) {
    double count = 1;
    for (int i = 0; i < value->rank; i++)
        count *= dim_is_const(value->dims[i]) ? (double)value->dims[i]->value : 0;
    return count;
}

/* Whether an input under strides has rows whose elements are neighbours, some of which begin within a piece.
 */
static bool realign_is_spaced(const Value *base, int64_t per_piece) {
    bool is_spaced = false;
    for (int i = 0; i < base->rank - 1; i++)
        is_spaced = is_spaced || !dim_is_const(base->strides[i]) || base->strides[i]->value % per_piece != 0;
    return is_spaced && dim_is(base->strides[base->rank - 1], 1);
}

int64_t realign_missing(const Value *base) {
    int bits = dtype_bits(base->dtype);
    if (base->rank < 2 || bits < 8 || !dim_is_const(base->dims[base->rank - 1]))
        return 0;
    int64_t extent = base->dims[base->rank - 1]->value, per_piece = REALIGN_BYTES * 8 / bits;
    bool is_under_strides = base->op == OP_input && base->strides;
    if (extent <= per_piece ||
        (is_under_strides ? !realign_is_spaced(base, per_piece) : extent % per_piece == 0))
        return 0;
    int64_t unit = extent >= REALIGN_LONG * 8 / bits ? REALIGN_LINE * 8 / bits : per_piece;
    return unit - extent % unit;
}

Value *realign_padded(Rewrite *rewrite, Value *base, int64_t missing) {
    const Dim *low[RANK_MAX], *high[RANK_MAX];
    for (int i = 0; i < base->rank; i++)
        low[i] = high[i] = dim_const(rewrite->graph->dims, 0);
    high[base->rank - 1] = dim_const(rewrite->graph->dims, missing);
    Value *border = build_constant(rewrite, (Number){.i = 0}, base->dtype, base);
    return border ? build_pad(rewrite, base, border, low, high, base) : NULL;
}

Value *realign_part(Rewrite *rewrite, Value *copy, Value *base, const Dim *first_row) {
    DimTable *dims = rewrite->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < base->rank; i++) {
        start[i] = i == base->rank - 2 ? first_row : dim_const(dims, 0);
        limit[i] = dim_add(dims, start[i], base->dims[i]);
        step[i] = 1;
    }
    return build_slice(rewrite, copy, start, limit, step, base);
}

Value *realign_copied(Rewrite *rewrite, Value *base, int64_t missing) {
    Value *padded = realign_padded(rewrite, base, missing);
    return padded ? realign_part(rewrite, padded, base, dim_const(rewrite->graph->dims, 0)) : NULL;
}

/* The same of a scattered operand. Where its rows are joined axes, these are copied: a kernel that turns
 * tiles must see the one that is innermost in memory. */
static Value *realign_gathered(Rewrite *rewrite, Value *operand, int64_t missing) {
    Value *whole = operand->op == OP_reshape ? operand->in[0] : operand;
    bool is_joined = whole != operand && whole->rank > operand->rank &&
                     whole->dims[whole->rank - 1] == operand->dims[operand->rank - 1];
    Value *copy = realign_copied(rewrite, is_joined ? whole : operand, missing);
    return copy && is_joined
               ? build_reshape(rewrite, copy, operand->rank, (const Dim *const *)operand->dims, operand)
               : copy;
}

Value *realign_base(Value *operand) {
    return operand->op == OP_transpose ? operand->in[0] : operand;
}

/* Whether windows beside each other lie along K, by lines of places that are no whole steps: 768 x 768 from
 * 12544 patches of an image took 119 us by steps of 16 that had 14, where a copy and its product take 45. */
static bool realign_is_cut(const Value *operand, const Windows *windows, int k_axis) {
    enum { STEP = 16 };
    const Dim *line = windows->axis[0].places;
    return windows->places_axis == k_axis && dim_is_const(line) && line->value % STEP != 0 &&
           realign_count(operand) <= realign_count(windows->base);
}

/* Whether an input's rows or columns lie in more parts than TMA follows: in pieces of an image that are a
 * row each, say, of which a row is 16 elements in each line of each channel. TMA follows two parts of a row
 * or a column, three of these and of the batch's axes in all, 16 bytes or a multiple of them apart, and one
 * part is of neighbours. */
static bool realign_is_strewn(const Graph *graph, const Value *operand, bool is_second) {
    enum { PARTS = 2, TILE_LEAST = 16 };
    Value *value = (Value *)(uintptr_t)operand, *base = view_below_movements(value, view_is_input, NULL);
    const Dim *strides[RANK_MAX];
    const ViewFactor *innermost[RANK_MAX] = {NULL};
    int parts[RANK_MAX] = {0}, more = 0, last = operand->rank - 1, k_axis = is_second ? last - 1 : last;
    ViewFactors factors;
    Windows windows;
    if ((base->op != OP_input && base->op != OP_pad) ||
        view_of(graph, value, view_is_input, NULL).base == base ||
        (windows_of(graph, value, 2 * last - 1 - k_axis, k_axis, view_is_input, NULL, &windows) &&
         !realign_is_cut(value, &windows, k_axis)))
        return false;
    view_base_strides(graph, base, strides);
    if (!view_factors(graph, operand, base, strides, &factors))
        return true;
    for (int i = 0; i < factors.n; i++) {
        innermost[factors.at[i].axis] = &factors.at[i];
        parts[factors.at[i].axis]++;
    }
    bool has_run = false, fits = true;
    for (int axis = 0; axis <= last; axis++) {
        bool is_batch = axis < last - 1, is_run = innermost[axis] && dim_is(innermost[axis]->stride, 1);
        more += is_batch ? parts[axis] : parts[axis] > 1;
        fits = fits && parts[axis] <= (is_batch ? 1 : PARTS);
        if (!is_batch && !is_run && parts[axis] > 1)
            fits = fits && dim_divisor(graph->dims, innermost[axis]->dim) % TILE_LEAST == 0;
        has_run = has_run || (!is_batch && is_run);
    }
    bool is_parted = parts[last] > 1 || parts[last - 1] > 1;
    for (int i = 0; i < factors.n && is_parted; i++)
        fits = fits &&
               (dim_is(factors.at[i].stride, 1) || view_is_step(graph, factors.at[i].stride, operand->dtype));
    return !fits || more > FUSE_TMA_BEYOND || !has_run;
}

/* Whether neighbours along the last two axes of an operand are a batch's in memory. */
static bool realign_is_across(const Value *operand) {
    const Value *base = operand->op == OP_transpose ? operand->in[0] : NULL;
    if (!base || base->rank < 3 || (base->op == OP_input && base->strides))
        return false;
    const int *perm = operand->attrs[0].ints;
    int last = base->rank - 1;
    return perm[last] != last && perm[last - 1] != last && !dim_is(base->dims[last], 1) &&
           !dim_is(operand->dims[last], 1) && !dim_is(operand->dims[last - 1], 1);
}

bool realign_is_scattered(const Graph *graph, const Value *operand, bool is_second) {
    return operand->rank >= 2 && dtype_bits(operand->dtype) <= 16 && realign_is_tensor_type(operand->dtype) &&
           dim_is_const(operand->dims[operand->rank - 1]) &&
           (realign_is_across(operand) || realign_is_strewn(graph, operand, is_second));
}

/* Whether a value is a packed input, or one whose rows are joined, or have batch axes of one put before. */
static bool realign_is_packed(const Value *value) {
    const Value *base = value->op == OP_reshape ? value->in[0] : value;
    bool has_rows =
        base->rank >= 2 && value->rank >= 2 && base->dims[base->rank - 1] == value->dims[value->rank - 1];
    return base->op == OP_input && !base->strides && (base == value || has_rows);
}

bool realign_is_turned(const Value *operand, bool is_second) {
    const Value *base = realign_base((Value *)(uintptr_t)operand);
    int last = operand->rank - 1, along = last, k = is_second ? last - 1 : last;
    if (!realign_is_packed(base) || last < 1 || dtype_bits(base->dtype) == 16 ||
        !realign_is_tensor_type(base->dtype) || !dim_is_const(operand->dims[k]))
        return false;
    if (operand != base)
        for (along = 0; operand->attrs[0].ints[along] != last; along++)
            continue;
    return along != k && along >= last - 1 && !dim_is(operand->dims[along], 1);
}

double realign_copy_seconds(const Value *value) {
    return 2 * realign_count(value) * dtype_bits(value->dtype) / 8 / realign_bytes + realign_launch;
}

/* Seconds that the copy of an operand costs; 0 where none is needed, or possible. Where neighbours in memory
 * are fewer than a kernel turns as a tile, each element is read from a sector of its own (512 x 196 x 49 x 12
 * bytes behind each other took 600 us). */
static double realign_copy(const Graph *graph, Value *operand, bool is_second) {
    const Value *base = realign_base(operand);
    const Dim *run = realign_is_across(operand) ? base->dims[base->rank - 1] : NULL;
    if (run && dim_is_const(run) && run->value < REALIGN_TILE)
        return realign_count(operand) * REALIGN_SECTOR / realign_sectors + realign_launch;
    if (realign_is_scattered(graph, operand, is_second) || realign_is_turned(operand, is_second))
        return realign_copy_seconds(operand);
    bool is_stored =
        base->op == OP_input || value_is_heavy(base) || (value_is_pointwise(base) && !product_is_below(base));
    if (!is_stored || !realign_is_tensor_type(base->dtype) || !realign_missing(base))
        return 0;
    return realign_copy_seconds(base);
}

Value *realign_turned(Rewrite *rewrite, Value *operand, bool is_second) {
    Value *rows = is_second ? build_turned(rewrite, operand, operand) : operand;
    Value *packed = rows ? realign_gathered(rewrite, rows, realign_missing(rows)) : NULL;
    if (!packed)
        return operand;
    pass_decide(rewrite->pass, "realign", false, packed, operand,
                "elements of 16 bits, or neighbours along K",
                "matrix instructions take its elements along K, so it is copied to that order first");
    return is_second ? build_turned(rewrite, packed, packed) : packed;
}

/* The operand, or a transpose of it, on aligned rows. */
static Value *realign_operand(Rewrite *rewrite, Value *operand, bool is_second) {
    bool is_scattered = realign_is_scattered(rewrite->graph, operand, is_second);
    if (realign_is_turned(operand, is_second) || (is_scattered && dtype_bits(operand->dtype) == 8))
        return realign_turned(rewrite, operand, is_second);
    if (is_scattered) {
        Value *packed = realign_gathered(rewrite, operand, realign_missing(operand));
        if (packed)
            pass_decide(rewrite->pass, "realign", false, packed, operand,
                        "rows or columns that lie side by side",
                        "neighbours in its rows and columns are none in memory, so it is copied to their "
                        "order first");
        return packed ? packed : operand;
    }
    Value *base = realign_base(operand), *aligned = realign_copied(rewrite, base, realign_missing(base));
    if (!aligned)
        return operand;
    pass_decide(rewrite->pass, "realign", false, aligned, base, "rows that start at 16 bytes",
                "rows of %lld bytes cannot be read 16 bytes at a time, so it is copied to longer ones first",
                (long long)(base->dims[base->rank - 1]->value * dtype_bits(base->dtype) / 8));
    return operand == base ? aligned : build_like(rewrite, operand, &aligned);
}

/* Whether what is cut off is all that was put behind. */
static bool realign_gives_back(const Value *slice, const Value *pad) {
    return pad->op == OP_pad && value_same_dims(slice, pad->in[0]) &&
           movement_is_zero(pad->rank, pad->attrs[0].dims) &&
           movement_is_zero(slice->rank, slice->attrs[0].dims);
}

bool value_is_realigned(const Value *value) {
    while (value->op == OP_transpose)
        value = value->in[0];
    if (value->op != OP_slice)
        return false;
    return realign_is_joined(value->in[0]) || realign_gives_back(value, value->in[0]);
}

/* Seconds that a product loses which turns an operand of 8 bits by itself. */
static double realign_bytes_loss(const Value *product, DType type) {
    const Value *a = product->in[0];
    double turning = dtype_is_float(type) ? realign_turning_fp8 : realign_turning_int8;
    return fmax(realign_operations(product) * (1 / turning - 1 / realign_fast_bytes),
                (double)a->dims[a->rank - 1]->value * realign_turning_step);
}

/* Seconds that the product loses where an operand of it, other than `taken`, cannot be copied 16 bytes at a
 * time. */
static double realign_gain(const Rewrite *rewrite, const Value *product, const Dim *k, int taken) {
    const Dim *m = product->dims[product->rank - 2], *n = product->dims[product->rank - 1];
    if (!dim_is_const(k) || !dim_is_const(m) || !dim_is_const(n))
        return 0;
    double operations = realign_operations(product);
    for (int i = 0; i < 2; i++)
        if (i != taken && realign_is_turned(product->in[i], i))
            return dtype_bits(product->in[i]->dtype) == 8 ? realign_bytes_loss(product, product->in[i]->dtype)
                                                          : realign_words_loss(rewrite, product);
    bool is_few = m->value <= REALIGN_FEW || n->value <= REALIGN_FEW;
    double steps = is_few ? 0 : (double)k->value;
    return fmax(operations / realign_slow, steps * realign_slow_step) -
           fmax(operations / realign_fast, steps * realign_fast_step);
}

/* The same by whichever way its kernel reads `n` such operands. */
static double realign_loss(const Rewrite *rewrite, const Value *product, int taken, int n) {
    const Value *a = product->in[0];
    double loss = realign_gain(rewrite, product, a->dims[a->rank - 1], taken);
    double brought = realign_brought(rewrite, product, n);
    return brought < 0 ? loss : fmin(loss, brought);
}

/* Leaves an operand that lies in many parts where gathering it takes less than the copies, of which all
 * that read it have a share. */
static void realign_gather(const Rewrite *rewrite, const Value *product, double *copies) {
    bool is_strewn[2], gathers = false;
    double cost = 0;
    for (int i = 0; i < 2; i++) {
        is_strewn[i] = copies[i] > 0 && realign_is_strewn(rewrite->graph, product->in[i], i);
        gathers |= is_strewn[i];
        int readers = is_strewn[i] ? rewrite_uses(rewrite, product->in[i]) : 1;
        cost += copies[i] / (readers > 1 ? readers : 1);
    }
    double loss = realign_operations(product) * (1 / realign_strewn - 1 / realign_fast);
    if (gathers && loss < cost)
        for (int i = 0; i < 2; i++)
            copies[i] = is_strewn[i] ? 0 : copies[i];
}

/* Operands that could be copied, and are not. */
static void realign_leave(const Rewrite *rewrite, Value *product, const double *copies) {
    for (int i = 0; i < 2; i++)
        if (copies[i] > 0)
            pass_decide(rewrite->pass, "realign", true, product, realign_base(product->in[i]), NULL,
                        "its kernel reads it as it lies, which takes less than a copy to an order that it "
                        "reads faster");
}

static Value *realign_rule(Rewrite *rewrite, Value *value) {
    if (value->op != OP_matmul)
        return value;
    Value *scaled = realign_scaled(rewrite, value);
    if (!scaled && rewrite->pass->options->limits->reads_chosen && value->id < rewrite->n_before)
        scaled = realign_windows(rewrite, value);
    if (scaled)
        return scaled;
    int taken = realign_taken(rewrite, value);
    double copies[] = {taken == 0 ? 0 : realign_copy(rewrite->graph, value->in[0], false),
                       taken == 1 ? 0 : realign_copy(rewrite->graph, value->in[1], true)};
    realign_gather(rewrite, value, copies);
    Value *in[2] = {value->in[0], value->in[1]};
    bool joins = copies[0] > 0 && copies[1] > 0 && realign_joins(rewrite, in);
    double cost = copies[0] + copies[1] - (joins ? realign_launch : 0);
    if (cost == 0 || realign_loss(rewrite, value, taken, (copies[0] > 0) + (copies[1] > 0)) < cost) {
        realign_leave(rewrite, value, copies);
        return value;
    }
    if (!joins || !realign_both(rewrite, in))
        for (int i = 0; i < 2; i++)
            in[i] = copies[i] > 0 ? realign_operand(rewrite, value->in[i], i) : value->in[i];
    return build_like(rewrite, value, in);
}

/* The pass's state tells what these take. */
static bool realign_reduces(const Value *reader) {
    return value_class(reader) == OPCLASS_REDUCTION;
}

bool pass_realign(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits || !pass->options->limits->has_tensor_cores)
        return false;
    graph_renumber(graph);
    pass->state = rewrite_find_taken(pass, graph, realign_reduces);
    return rewrite_graph(pass, graph, realign_rule);
}
