/* Windows of few channels become windows of more, where the places that a window advances by lie within one
 * (space to depth):
 *
 *     y = rows(windows(x, 7 x 7, step 2)) @ w          x: bf16[64, 224, 224, 3], w: [7 * 7 * 3, 64]
 * ->  x' = the 2 x 2 places of a step as channels, and zeros: [64, 115, 115, 12 + 4]      a kernel
 *     w' = the taps, 8 x 8 with zeros, likewise: [4 * 4 * 16, 64]                         another
 *     y = rows(windows(x', 4 x 4, step 1)) @ w'
 *
 * as a network's first layer has them: neighbours of 6 bytes are nothing that TMA takes, so that each tile
 * would compute what it reads; of the copy it takes patches (codegen/templates/matmul_patch.c), which are of
 * windows one beside the other. Where windows are no steps apart the copy has but more channels. Each sum has
 * the terms that it had, and zeros. */
#include <math.h>

#include "ir/base/checked.h"
#include "ir/windows.h"
#include "passes/fuse.h"
#include "passes/realign.h"

/* Elements a second of windows that are computed, rows of K of whole instructions, and of those that are
 * brought in pieces of 16 bytes; operations a second of patches; bytes a second that a product writes, and a
 * copy moves (H200). */
static const double deepen_computed = 0.4e12, deepen_brought = 1e12, deepen_operations = 400e12,
                    deepen_written = 4e12, deepen_copied = 2.5e12;

enum {
    DEEPEN_CHANNELS = 8, /* that TMA takes */
    DEEPEN_MOST = 64,    /* channels that there come to be */
    DEEPEN_STEP = 16,    /* K of an instruction */
    DEEPEN_ROW = 32,     /* of a row that is computed */
    DEEPEN_FEATURES = 64 /* columns that an instruction takes no longer for than for fewer */
};

/* The windows, their axes from the outermost on. */
typedef struct Deepen {
    Rewrite *rewrite;
    Value *product;
    Windows windows;
    int n;
    int axis[WINDOWS_AXES_MAX];                                /* of the base */
    int64_t taps[WINDOWS_AXES_MAX], steps[WINDOWS_AXES_MAX];   /* as they are */
    int64_t blocks[WINDOWS_AXES_MAX], lines[WINDOWS_AXES_MAX]; /* steps that a window has; that all have */
    int64_t low[WINDOWS_AXES_MAX], extent[WINDOWS_AXES_MAX];   /* where windows begin; places of the base */
    int64_t channels, deep, padded;                            /* as they are, of a step, and with zeros */
    const Dim *images;
} Deepen;

static const Dim *deepen_dim(const Deepen *d, int64_t number) {
    return dim_const(d->rewrite->graph->dims, number);
}

/* ---- what has that form, and whether it pays */

/* Notes an axis; false where its taps are not one beside the other, in the order of the axes. */
static bool deepen_axis(Deepen *d, int position, const WindowsAxis *axis, int64_t inner) {
    const Dim *extent = d->windows.seen->dims[axis->base_axis];
    if (!dim_is_const(axis->places) || axis->places->value < 1 || !dim_is_const(extent) ||
        (axis->taps > 1 && (axis->tap_step != 1 || axis->taps_inner != inner)))
        return false;
    d->axis[position] = axis->base_axis;
    d->taps[position] = axis->taps;
    d->steps[position] = axis->step;
    d->blocks[position] = ceil_div(axis->taps, axis->step);
    d->lines[position] = axis->places->value + d->blocks[position] - 1;
    d->low[position] = axis->low;
    d->extent[position] = extent->value;
    return true;
}

/* Whether every other axis of the base is that of the images, or has one element. */
static bool deepen_has_images(Deepen *d) {
    const Value *base = d->windows.seen;
    d->images = d->windows.images_axis >= 0 ? base->dims[d->windows.images_axis] : deepen_dim(d, 1);
    for (int i = 0; i < base->rank; i++) {
        bool is_known = i == d->windows.channels_axis || i == d->windows.images_axis;
        for (int k = 0; k < d->n; k++)
            is_known |= d->axis[k] == i;
        if (!is_known && !dim_is(base->dims[i], 1))
            return false;
    }
    return dim_is_const(d->images) && !d->windows.is_of_some;
}

static bool deepen_find(Rewrite *rewrite, Value *product, Deepen *d) {
    *d = (Deepen){.rewrite = rewrite, .product = product};
    Windows *windows = &d->windows;
    if (product->in[0]->rank != 2 || dtype_bits(product->in[0]->dtype) != 16 ||
        !windows_found(rewrite->graph, product->in[0], 0, 1, windows) || !dim_is_const(windows->channels) ||
        !dim_is(windows->first_channel, 0) ||
        windows->channels != windows->seen->dims[windows->channels_axis] || windows->n > WINDOWS_IM2COL_MAX)
        return false;
    int64_t inner = 1;
    d->n = windows->n;
    d->channels = d->deep = windows->channels->value;
    if (d->channels < 1)
        return false;
    bool slides = false;
    for (int i = 0; i < d->n; i++) { /* fastest first */
        int position = d->n - 1 - i;
        if (!deepen_axis(d, position, &windows->axis[i], inner))
            return false;
        if (!checked_mul(inner, d->taps[position], &inner) ||
            !checked_mul(d->deep, d->steps[position], &d->deep) || d->deep > DEEPEN_MOST)
            return false;
        slides |= d->blocks[position] > 1;
    }
    d->padded = round_up(d->deep, DEEPEN_CHANNELS);
    bool is_followed = d->channels % DEEPEN_CHANNELS == 0;
    return slides && (!is_followed || (d->channels == DEEPEN_CHANNELS && d->deep > d->channels)) &&
           d->padded <= DEEPEN_MOST && checked_mul(inner, d->channels, &inner) &&
           dim_is(product->in[0]->dims[1], inner) && dim_is_const(product->dims[0]) &&
           dim_is_const(product->dims[1]) && deepen_has_images(d);
}

/* Seconds that it saves. */
static double deepen_gain(const Deepen *d) {
    double rows = realign_count(d->product) / (double)d->product->dims[1]->value;
    double features = fmax((double)d->product->dims[1]->value, DEEPEN_FEATURES);
    double k = (double)round_up(d->product->in[0]->dims[1]->value, DEEPEN_ROW);
    double from = (double)d->images->value * (double)d->channels,
           to = (double)d->images->value * (double)d->padded;
    double steps = (double)round_up(d->padded, DEEPEN_STEP);
    for (int i = 0; i < d->n; i++) {
        from *= (double)d->extent[i];
        to *= (double)d->lines[i];
        steps *= (double)d->blocks[i];
    }
    double product =
        fmax(2 * rows * features * steps / deepen_operations, 2 * realign_count(d->product) / deepen_written);
    double computed = d->channels % DEEPEN_CHANNELS ? deepen_computed : deepen_brought;
    return rows * k / computed - product - 2 * (from + to) / deepen_copied - 2 * realign_launch;
}

/* ---- tensors whose axes are images or features, then those of the windows, and channels behind them */

/* So many zeros before and behind what there is along an axis; a copy, even of none. */
static Value *deepen_bordered(const Deepen *d, Value *value, int axis, int64_t before, int64_t behind) {
    const Dim *low[RANK_MAX], *high[RANK_MAX];
    for (int i = 0; value && i < value->rank; i++) {
        low[i] = deepen_dim(d, i == axis ? before : 0);
        high[i] = deepen_dim(d, i == axis ? behind : 0);
    }
    Value *zero = value ? build_constant(d->rewrite, (Number){.f = 0}, value->dtype, d->product) : NULL;
    return zero ? build_pad(d->rewrite, value, zero, low, high, d->product) : NULL;
}

/* Along one axis from `low` on, `extent` elements, where there are none zeros. */
static Value *deepen_span(const Deepen *d, Value *value, int axis, int64_t low, int64_t extent) {
    if (!value)
        return NULL;
    int64_t has = value->dims[axis]->value, end = low + extent;
    int64_t begin = low > 0 ? low : 0, limit = end < has ? end : has;
    if (begin > 0 || limit < has)
        value =
            build_part(d->rewrite, value, axis, deepen_dim(d, begin), deepen_dim(d, limit), 1, d->product);
    if (low >= 0 && end <= has)
        return value;
    return deepen_bordered(d, value, axis, low < 0 ? -low : 0, end > has ? end - has : 0);
}

/* [F, A * s, B * t, C] as [F, A, B, s * t * C + zeros], A and B being `counts`. */
static Value *deepen_channels(const Deepen *d, Value *value, const int64_t *counts) {
    const Dim *apart[RANK_MAX], *together[RANK_MAX];
    int perm[RANK_MAX], n = d->n;
    apart[0] = together[0] = value ? value->dims[0] : NULL;
    perm[0] = 0;
    for (int i = 0; i < n; i++) {
        apart[1 + 2 * i] = together[1 + i] = deepen_dim(d, counts[i]);
        apart[2 + 2 * i] = deepen_dim(d, d->steps[i]);
        perm[1 + i] = 1 + 2 * i;
        perm[1 + n + i] = 2 + 2 * i;
    }
    apart[1 + 2 * n] = deepen_dim(d, d->channels);
    perm[1 + 2 * n] = 1 + 2 * n;
    together[1 + n] = deepen_dim(d, d->deep);
    value = build_reshape(d->rewrite, value, 2 + 2 * n, apart, d->product);
    value = build_transpose(d->rewrite, value, perm, d->product);
    value = build_reshape(d->rewrite, value, 2 + n, together, d->product);
    return deepen_bordered(d, value, 1 + n, 0, d->padded - d->deep);
}

/* The base with what a step has as channels: [images, lines, channels]. */
static Value *deepen_base(const Deepen *d) {
    const Value *base = d->windows.seen;
    int perm[RANK_MAX], at = 0;
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < base->rank; i++) {
        bool is_image = i != d->windows.channels_axis;
        for (int k = 0; k < d->n; k++)
            is_image &= d->axis[k] != i;
        if (is_image)
            perm[at++] = i;
    }
    dims[0] = d->images;
    for (int k = 0; k < d->n; k++) {
        dims[1 + k] = deepen_dim(d, d->extent[k]);
        perm[at++] = d->axis[k];
    }
    dims[1 + d->n] = d->windows.channels;
    perm[at] = d->windows.channels_axis;
    Value *value = build_transpose(d->rewrite, (Value *)(uintptr_t)base, perm, d->product);
    value = build_reshape(d->rewrite, value, 2 + d->n, dims, d->product);
    for (int k = 0; k < d->n; k++)
        value = deepen_span(d, value, 1 + k, d->low[k], d->lines[k] * d->steps[k]);
    return deepen_channels(d, value, d->lines);
}

/* Windows of that, as rows: [images * places, taps * channels]. */
static Value *deepen_rows(const Deepen *d, Value *value) {
    int perm[RANK_MAX], n = d->n;
    const Dim *dims[2] = {d->product->dims[0]};
    int64_t k = d->padded;
    for (int i = 0; i < n; i++)
        value = build_window(d->rewrite, value, 1 + i, deepen_dim(d, d->blocks[i]), 1, d->product);
    for (int i = 0; i < n; i++) {
        perm[i] = i;
        perm[1 + n + i] = 2 + n + i;
        k *= d->blocks[i];
    }
    perm[n] = n;
    perm[1 + 2 * n] = 1 + n;
    dims[1] = deepen_dim(d, k);
    value = build_transpose(d->rewrite, value, perm, d->product);
    return build_reshape(d->rewrite, value, 2, dims, d->product);
}

/* The weights, of [taps * channels, features], to match. */
static Value *deepen_weights(const Deepen *d) {
    Value *value = build_turned(d->rewrite, d->product->in[1], d->product);
    const Dim *dims[RANK_MAX];
    int64_t k = d->padded;
    dims[0] = d->product->dims[1];
    for (int i = 0; i < d->n; i++) {
        dims[1 + i] = deepen_dim(d, d->taps[i]);
        k *= d->blocks[i];
    }
    dims[1 + d->n] = d->windows.channels;
    value = build_reshape(d->rewrite, value, 2 + d->n, dims, d->product);
    for (int i = 0; i < d->n; i++)
        value = deepen_span(d, value, 1 + i, 0, d->blocks[i] * d->steps[i]);
    value = deepen_channels(d, value, d->blocks);
    dims[1] = deepen_dim(d, k);
    value = build_reshape(d->rewrite, value, 2, dims, d->product);
    return build_turned(d->rewrite, value, d->product);
}

static Value *deepen_rule(Rewrite *rewrite, Value *product) {
    const bool *is_counted = rewrite->pass->state; /* @expect is about the kernels that were there without */
    Deepen d;
    if (product->op != OP_matmul || product->rank != 2 || product->id >= rewrite->n_before ||
        is_counted[product->id] || !product_uses_tensor_cores(rewrite->pass->options->limits, product) ||
        !deepen_find(rewrite, product, &d))
        return product;
    double gain = deepen_gain(&d);
    Value *base = gain > 0 ? deepen_base(&d) : NULL;
    Value *in[2] = {base ? deepen_rows(&d, base) : NULL, base ? deepen_weights(&d) : NULL};
    Value *fresh = in[0] && in[1] ? build_like(rewrite, product, in) : NULL;
    if (!fresh)
        return product;
    pass_decide(
        rewrite->pass, "deepen", false, base, NULL, "channels in multiples of 16 bytes",
        "no copy engine follows windows of %lld channels, so it is copied to %lld, of the places that "
        "a window advances by, which by the estimate takes %.0f us less",
        (long long)d.channels, (long long)d.padded, gain * 1e6);
    return fresh;
}

bool pass_deepen(Pass *pass, Graph *graph) {
    const FuseLimits *limits = pass->options->limits;
    if (pass->options->no_fusion || !limits || !limits->has_tensor_cores || !limits->reads_chosen)
        return false;
    graph_renumber(graph);
    pass->state = fuse_mark_hinted(pass->arena, graph, hint_is_expect);
    return rewrite_graph(pass, graph, deepen_rule);
}
