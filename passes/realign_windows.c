/* Windows whose channels are no whole lines of memory, as if they were.
 *
 * Along K, where a tap's channels end within a sector:
 *
 *     y = conv(x, w)                      x: bf16[16, 40, 40, 40]   w: bf16[480, 3, 3, 40]
 * ->  p = pad(x, 0, high=[0, 0, 0, 24])   q = pad(w, 0, high=[0, 0, 0, 24])      a kernel each
 *     y = conv(p[..., 0:40], q[..., 0:40])                                       views
 *
 * TMA takes a window's channels at a tap as one row, from any multiple of 16 bytes on, but takes twice as
 * long where the zeros behind them begin within a sector: by 3 x 3 taps, 25600 places and 480 features took
 * 60 us with 40 channels, 47 with 56, and 34 with 48, 24 with 64. Each tap reads the channels again, the copy
 * once.
 *
 * Along M or N, as in the gradient of weights, where a box of columns has channels of one tap:
 *
 *     dw = dy.T @ rows(windows(x))                             x: bf16[32, 16, 16, 16, 80]
 * ->  p = pad(x, 0, high=[0, 0, 0, 0, 48])                     a view, of which TMA reads zeros
 *     dw = (dy.T @ rows(windows(p)))[..., those of x]
 *
 * Boxes of 16 columns, which divide 80 channels, took 1857 us where cuDNN took 484.
 *
 * And weights of groups of channels, of which a line has several, that do not lie along K as a convolution's
 * do, but along N, as its gradient of data reads them: a tile has several groups where their weights are
 * neighbours (codegen/templates/matmul_tiles.h), so they are copied to that order. */
#include "ir/base/checked.h"
#include "ir/view.h"
#include "ir/windows.h"
#include "passes/realign.h"

/* Operations a second: along K, with rows of either kind; along M or N, by boxes of 8, 16, 32 and 64 channels
 * (of less than 16 mma.sync's, whose few tiles share no K; 32 channels of 32768 places to 640 features, 3 x 3
 * x 3 taps: 100 us by boxes of 32, 140 as if there were 64). */
static const double windows_odd = 150e12, windows_even = 300e12;
static const double windows_boxes[] = {20e12, 120e12, 360e12, 500e12};

/* Operations a second of groups of 16 channels: of one a tile, of 64 x 28 x 28 x 256 and 3 x 3 taps, and of
 * four. */
static const double windows_group = 55e12, windows_groups = 110e12;

enum {
    WINDOWS_TAPS = 4,
    WINDOWS_LINE = 128,
    WINDOWS_SECTOR = 32, /* bytes */
    WINDOWS_BOX = 64,    /* channels: a line */
    WINDOWS_LEAST = 8    /* channels that memory has in one piece, for TMA */
};

/* Elements that each row of `channels` neighbours lacks to be whole lines; 0 where rows begin with sectors.
 */
static int64_t windows_missing(const Value *base, const Dim *channels) {
    bool is_rows = base->op == OP_input && !base->strides && base->rank > 1 && dim_is_const(channels) &&
                   base->dims[base->rank - 1] == channels;
    int64_t bytes = is_rows ? channels->value * dtype_bits(base->dtype) / 8 : 0;
    if (bytes % WINDOWS_SECTOR == 0 || bytes % (WINDOWS_SECTOR / 2) != 0)
        return 0;
    return (WINDOWS_LINE - bytes % WINDOWS_LINE) * 8 / dtype_bits(base->dtype);
}

/* `value`, which is nothing but `base` moved, of what takes the base's place. */
static Value *windows_rebuilt(Rewrite *rewrite, Value *value, const Value *base, Value *instead) {
    if (value == base)
        return instead;
    Value **in = ARENA_ARRAY(rewrite->pass->arena, Value *, (size_t)value->n_in);
    for (int i = 0; i < value->n_in; i++)
        in[i] = value->in[i];
    in[0] = windows_rebuilt(rewrite, value->in[0], base, instead);
    return in[0] ? build_like(rewrite, value, in) : NULL;
}

/* Seconds that a copy to channels that so many are missing of takes: it writes them, too. */
static double windows_copy_seconds(const Value *base, int64_t missing) {
    double channels = (double)base->dims[base->rank - 1]->value;
    return realign_launch +
           (realign_copy_seconds(base) - realign_launch) * (1 + (double)missing / channels / 2);
}

static Value *windows_copied(Rewrite *rewrite, Value *operand, Value *base, int64_t missing) {
    Value *copy = realign_copied(rewrite, base, missing);
    Value *moved = copy ? windows_rebuilt(rewrite, operand, base, copy) : NULL;
    if (moved)
        pass_decide(rewrite->pass, "realign", false, copy, base, "channels of whole sectors",
                    "windows of %lld bytes of channels begin within sectors at every tap, so it is copied to "
                    "longer ones first",
                    (long long)(base->dims[base->rank - 1]->value * dtype_bits(base->dtype) / 8));
    return moved;
}

/* Whether they slide: places have windows of several elements, or are apart. (Weights' taps have one place.)
 */
static bool windows_slide(const Windows *windows) {
    for (int i = 0; i < windows->n; i++)
        if (!dim_is(windows->axis[i].places, 1) && (windows->axis[i].taps > 1 || windows->axis[i].step > 1))
            return true;
    return false;
}

/* Whether windows are of one of several groups of channels, of which a line of memory has more than one, each
 * as many as matrix instructions take at once. */
static bool windows_are_grouped(const Windows *windows, const Value *operand) {
    enum { STEP_BITS = 256 };
    const Dim *channels = windows->channels;
    int bits = dtype_bits(operand->dtype);
    bool is_grouped = false;
    for (int i = 0; i < operand->rank; i++)
        is_grouped |= i != windows->places_axis && i != windows->within_axis &&
                      windows->batch[i].base_axis == windows->channels_axis;
    return is_grouped && dim_is_const(channels) && channels->value * bits % STEP_BITS == 0 &&
           2 * channels->value * bits <= 8 * WINDOWS_LINE;
}

/* Whether memory has a matrix along an axis. */
static bool windows_lie_along(const Graph *graph, Value *operand, int axis) {
    View view = view_of(graph, operand, view_is_input, NULL);
    return view.base && view.base->op == OP_input && dim_is(view.strides[axis], 1);
}

/* A product of windows of a group of channels. */
static Value *windows_of_groups(Rewrite *rewrite, Value *product, const Windows *windows) {
    Value *weights = product->in[1];
    double gain = realign_operations(product) * (1 / windows_group - 1 / windows_groups);
    if (!windows_are_grouped(windows, product->in[0]) ||
        windows_lie_along(rewrite->graph, weights, weights->rank - 2) || gain < realign_copy_seconds(weights))
        return NULL;
    Value *in[2] = {product->in[0], realign_turned(rewrite, weights, true)};
    return in[1] == weights ? NULL : build_like(rewrite, product, in);
}

/* A product whose K has windows. */
static Value *windows_along_k(Rewrite *rewrite, Value *product, int i, const Windows *windows) {
    Value *operand = product->in[i], *other = product->in[1 - i];
    const Dim *k = operand->dims[windows->within_axis];
    Value *base = (Value *)(uintptr_t)windows->seen,
          *weights = view_below_movements(other, view_is_input, NULL);
    int64_t missing = windows_missing(base, windows->channels),
            behind = windows_missing(weights, windows->channels);
    if (i == 0 && base->dims[base->rank - 1] != windows->channels)
        return windows_of_groups(rewrite, product, windows);
    double cost = missing ? windows_copy_seconds(base, missing) : 0;
    cost += behind ? windows_copy_seconds(weights, behind) : 0;
    double gain = realign_operations(product) * (1 / windows_odd - 1 / windows_even);
    if (!missing || !dim_is_const(k) || k->value < WINDOWS_TAPS * windows->channels->value || gain < cost)
        return NULL;
    Value *in[2];
    in[i] = windows_copied(rewrite, operand, base, missing);
    in[1 - i] = behind ? windows_copied(rewrite, other, weights, behind) : other;
    return in[0] && in[1] ? build_like(rewrite, product, in) : NULL;
}

/* A base moved, and its channels: an axis, or, is_joined, the innermost part of the last one. */
typedef struct Widened {
    Value *value;
    int axis;
    bool is_joined;
} Widened;

/* Elements of the axes before `axis`; 0 where one is not known. */
static int64_t windows_before(const Value *value, int axis) {
    int64_t count = 1;
    for (int i = 0; i < axis; i++)
        if (!dim_is_const(value->dims[i]) || !checked_mul(count, value->dims[i]->value, &count))
            return 0;
    return count;
}

/* Which axis of a reshape's result has the channels, and whether others, too. */
static bool windows_reshaped(const Value *value, const Value *below, Widened *at) {
    int64_t channels = below->dims[at->axis]->value, before = windows_before(below, at->axis);
    int last = value->rank - 1;
    for (int i = 0; i <= last && before; i++)
        if (dim_is(value->dims[i], channels) && windows_before(value, i) == before) {
            at->axis = i;
            return true;
        }
    at->is_joined = true;
    bool is_innermost = at->axis == below->rank - 1;
    at->axis = last;
    return is_innermost && dim_is_const(value->dims[last]) && value->dims[last]->value % channels == 0;
}

/* `value`, which is nothing but `base` moved, of what takes the base's place and has more channels; a NULL
 * value where their number is part of anything else. */
static Widened windows_widened(Rewrite *rewrite, Value *value, Value *base, Value *instead) {
    int last = base->rank - 1;
    const Widened none = {NULL, 0, false};
    int64_t from = base->dims[last]->value, to = instead->dims[last]->value;
    if (value == base)
        return (Widened){instead, last, false};
    if (!value->n_in)
        return none;
    Widened at = windows_widened(rewrite, value->in[0], base, instead);
    if (!at.value || at.is_joined)
        return none;
    Value *in[2] = {at.value, value->n_in > 1 ? value->in[1] : NULL};
    const Dim *dims[RANK_MAX], *more = dim_const(rewrite->graph->dims, to);
    switch (value->op) {
    case OP_pad: break;
    case OP_window:
        if (value->attrs[0].i == at.axis)
            return none;
        break;
    case OP_transpose:
        for (int i = 0; i < value->rank; i++)
            if (value->attrs[0].ints[i] == at.axis) {
                at.axis = i;
                break;
            }
        break;
    case OP_slice:
        if (!dim_is(value->dims[at.axis], from))
            return none;
        for (int i = 0; i < value->rank; i++)
            dims[i] = i == at.axis ? more : value->attrs[1].dims[i];
        at.value = build_slice(rewrite, at.value, value->attrs[0].dims, dims, value->attrs[2].ints, value);
        return at;
    case OP_reshape:
        if (!windows_reshaped(value, value->in[0], &at))
            return none;
        for (int i = 0; i < value->rank; i++)
            dims[i] = value->dims[i];
        dims[at.axis] = dim_const(rewrite->graph->dims, value->dims[at.axis]->value / from * to);
        at.value = build_reshape(rewrite, at.value, value->rank, dims, value);
        return at;
    default: return none;
    }
    at.value = build_like(rewrite, value, in);
    return at;
}

/* Of an axis that has `from` elements of every `to`, those; the axis is the last, or that before it. */
static Value *windows_narrowed(Rewrite *rewrite, Value *wide, const Value *like, int axis, int64_t from,
                               int64_t to) {
    DimTable *table = rewrite->graph->dims;
    const Dim *dims[RANK_MAX];
    if (like->rank == RANK_MAX)
        return NULL;
    for (int i = 0; i < like->rank; i++)
        dims[i + (i > axis)] = like->dims[i];
    dims[axis] = dim_const(table, like->dims[axis]->value / from);
    dims[axis + 1] = dim_const(table, to);
    Value *apart = build_reshape(rewrite, wide, like->rank + 1, dims, like);
    Value *part =
        apart ? build_part(rewrite, apart, axis + 1, dim_const(table, 0), dim_const(table, from), 1, like)
              : NULL;
    return part ? build_reshape(rewrite, part, like->rank, (const Dim *const *)like->dims, like) : NULL;
}

/* A product whose M or N has them. */
static Value *windows_across(Rewrite *rewrite, Value *product, int i, const Windows *windows) {
    Value *base = (Value *)(uintptr_t)windows->seen;
    const Dim *channels = windows->channels;
    int axis = product->rank - (i ? 1 : 2);
    if (base->op != OP_input || base->strides || !dim_is_const(channels) ||
        base->dims[base->rank - 1] != channels || channels->value % WINDOWS_LEAST != 0 ||
        channels->value % WINDOWS_BOX == 0 || !dim_is_const(product->dims[axis]))
        return NULL;
    int box = 0;
    while (channels->value % ((int64_t)WINDOWS_LEAST << (box + 1)) == 0)
        box++;
    int64_t from = channels->value, to = round_up(from, WINDOWS_BOX);
    double wide = (double)to / (double)from / windows_boxes[3];
    double gain = realign_operations(product) * (1 / windows_boxes[box] - wide);
    if (gain < 2 * realign_copy_seconds(product)) /* in 32 bits */
        return NULL;
    Value *in[2] = {product->in[0], product->in[1]}, *copy = realign_padded(rewrite, base, to - from);
    Widened widened = {NULL, 0, false};
    if (copy)
        widened = windows_widened(rewrite, product->in[i], base, copy);
    in[i] = widened.value;
    bool is_across = in[i] && widened.axis == windows->within_axis;
    Value *made = is_across ? build_like(rewrite, product, in) : NULL;
    Value *part = made ? windows_narrowed(rewrite, made, product, axis, from, to) : NULL;
    if (part)
        pass_decide(
            rewrite->pass, "realign", false, product, base, "channels of whole lines",
            "windows of %lld channels are read in boxes of %d, so they are multiplied as if they had %lld",
            (long long)from, WINDOWS_LEAST << box, (long long)to);
    return part;
}

Value *realign_windows(Rewrite *rewrite, Value *product) {
    for (int i = 0; i < 2; i++) {
        Value *operand = product->in[i];
        int last = operand->rank - 1, k_axis = i ? last - 1 : last;
        Windows windows;
        if (dtype_bits(operand->dtype) != 16 ||
            !windows_of(rewrite->graph, operand, 2 * last - 1 - k_axis, k_axis, view_is_input, NULL,
                        &windows) ||
            !windows_slide(&windows))
            continue;
        Value *better = windows.within_axis == k_axis ? windows_along_k(rewrite, product, i, &windows)
                                                      : windows_across(rewrite, product, i, &windows);
        if (better)
            return better;
    }
    return NULL;
}
