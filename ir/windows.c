/* Recognition works on the factors of the matrix's axes (view_places): whatever movements a person wrote, an
 * axis of the tensor that both a place and a tap step through is one with windows. */
#include "ir/windows.h"

/* The factors of an axis of the matrix, inner ones first; how many. */
static int windows_factors(const ViewPlaces *places, int axis, const ViewFactor **found) {
    int n = 0;
    for (int i = places->factors.n; i-- > 0;)
        if (places->factors.at[i].axis == axis)
            found[n++] = &places->factors.at[i];
    return n;
}

static WindowsAxis *windows_axis(Windows *windows, int base_axis) {
    for (int i = 0; i < windows->n; i++)
        if (windows->axis[i].base_axis == base_axis)
            return &windows->axis[i];
    return NULL;
}

static WindowsAxis *windows_add(const Graph *graph, Windows *windows, int base_axis) {
    if (windows->n == WINDOWS_AXES_MAX || windows_axis(windows, base_axis) ||
        base_axis == windows->channels_axis || base_axis == windows->images_axis)
        return NULL;
    WindowsAxis *axis = &windows->axis[windows->n++];
    *axis = (WindowsAxis){.base_axis = base_axis,
                          .places = dim_const(graph->dims, 1),
                          .step = 1,
                          .taps = 1,
                          .tap_step = 1,
                          .taps_inner = 1};
    return axis;
}

/* The channels: the inner factor of the axis that has taps. */
static bool windows_channels(const ViewPlaces *places, int within, Windows *windows) {
    const ViewFactor *factors[VIEW_FACTORS_MAX];
    int n = windows_factors(places, within, factors);
    if (!n || !dim_is(factors[0]->stride, 1))
        return false;
    windows->within_axis = within;
    windows->channels_axis = factors[0]->base_axis;
    windows->channels = factors[0]->dim;
    windows->first_channel = places->start[factors[0]->base_axis];
    return true;
}

/* Whether channels are neighbours in memory. */
static bool windows_are_close(const Windows *windows) {
    return dim_is(windows->strides[windows->channels_axis], 1);
}

/* Whether the images are parts of a batch, which has all of the base's. */
static bool windows_are_some(const Graph *graph, const ViewPlaces *places, const ViewFactor *outer) {
    for (int i = 0; i < places->factors.n; i++) {
        const ViewFactor *part = &places->factors.at[i];
        if (part->axis != outer->axis && part->base_axis == outer->base_axis)
            return part->stride == outer->dim &&
                   dim_mul(graph->dims, part->dim, part->stride) == places->base->dims[outer->base_axis];
    }
    return false;
}

/* Whether the outer factor of the places goes from image to image, which no window spans. */
static bool windows_has_images(const Graph *graph, const ViewPlaces *places, const ViewFactor *outer,
                               const ViewFactor *const *taps, int n_taps, bool *are_some) {
    *are_some = outer->dim != places->base->dims[outer->base_axis];
    bool found = dim_is(outer->stride, 1) && dim_is(places->start[outer->base_axis], 0) &&
                 (!*are_some || windows_are_some(graph, places, outer));
    for (int i = 1; i < n_taps; i++)
        found = found && taps[i]->base_axis != outer->base_axis;
    return found;
}

static bool windows_places(const Graph *graph, const ViewPlaces *places, Windows *windows) {
    const ViewFactor *factors[VIEW_FACTORS_MAX], *taps[VIEW_FACTORS_MAX];
    int n = windows_factors(places, windows->places_axis, factors),
        n_taps = windows_factors(places, windows->within_axis, taps);
    bool are_some;
    if (n && windows_has_images(graph, places, factors[n - 1], taps, n_taps, &are_some)) {
        windows->is_of_some = are_some;
        windows->images_axis = factors[--n]->base_axis;
    }
    for (int i = 0; i < n; i++) {
        WindowsAxis *axis = windows_add(graph, windows, factors[i]->base_axis);
        if (!axis || !dim_is_const(factors[i]->stride) || factors[i]->stride->value < 1)
            return false;
        axis->places = factors[i]->dim;
        axis->step = factors[i]->stride->value;
    }
    int64_t inner = 1;
    for (int i = 1; i < n_taps; i++) {
        WindowsAxis *axis = windows_axis(windows, taps[i]->base_axis);
        axis = axis ? axis : windows_add(graph, windows, taps[i]->base_axis);
        if (!axis || axis->taps > 1 || !dim_is_const(taps[i]->dim) || !dim_is_const(taps[i]->stride) ||
            taps[i]->stride->value == 0)
            return false;
        axis->taps = taps[i]->dim->value;
        axis->tap_step = taps[i]->stride->value;
        axis->taps_inner = inner;
        inner *= axis->taps;
    }
    return windows->n > 0;
}

/* Groups of channels, or images, may be a batch. */
static bool windows_batch(const Graph *graph, const ViewPlaces *places, const Value *value,
                          Windows *windows) {
    for (int i = 0; i < value->rank; i++) {
        const ViewFactor *factors[VIEW_FACTORS_MAX];
        windows->batch[i].base_axis = -1;
        if (i == windows->places_axis || i == windows->within_axis)
            continue;
        int n = windows_factors(places, i, factors);
        if (n == 0)
            continue;
        int axis = factors[0]->base_axis;
        if (windows->images_axis < 0 && axis != windows->channels_axis && !windows_axis(windows, axis) &&
            dim_is(factors[0]->stride, 1) && dim_is(places->start[axis], 0))
            windows->images_axis = axis;
        if (n > 1 || (axis != windows->channels_axis && axis != windows->images_axis) ||
            (axis == windows->channels_axis &&
             !view_is_step(graph, factors[0]->stride, windows->base->dtype)))
            return false;
        windows->batch[i].base_axis = axis;
        windows->batch[i].step = factors[0]->stride;
    }
    return true;
}

bool windows_have_lines(const Windows *windows) {
    const WindowsAxis *first = &windows->axis[0];
    return windows->n > 1 && windows->images_axis < 0 && first->taps == 1 && first->step == 1 &&
           first->low == 0;
}

/* The corners of the box that the windows' first elements lie in; where they lie outside of im2col's ranges,
 * places along K may be lines. */
static bool windows_corners(const Graph *graph, const ViewPlaces *places, bool may_be_lines,
                            Windows *windows) {
    static const int corner_bits[] = {16, 8, 5}, tap_bits[] = {16, 8, 5}; /* for 1, 2, 3 axes */
    enum { STEP_MOST = 8 };
    DimTable *dims = graph->dims;
    int row = windows->n < WINDOWS_IM2COL_MAX ? windows->n - 1 : WINDOWS_IM2COL_MAX - 1;
    int64_t corner = (int64_t)1 << (corner_bits[row] - 1), reach = (int64_t)1 << tap_bits[row];
    bool fits = windows->n <= WINDOWS_IM2COL_MAX;
    for (int i = 0; i < windows->n; i++) {
        WindowsAxis *axis = &windows->axis[i];
        const Dim *start = places->start[axis->base_axis],
                  *last = dim_sub(dims, axis->places, dim_const(dims, 1));
        if (!dim_is_const(start))
            return false;
        axis->low = start->value + (axis->tap_step < 0 ? (axis->taps - 1) * axis->tap_step : 0);
        last = dim_mul(dims, last, dim_const(dims, axis->step));
        const Dim *high = last ? dim_add(dims, last, dim_const(dims, axis->low + 1)) : NULL;
        high = high ? dim_sub(dims, high, places->base->dims[axis->base_axis]) : NULL;
        int64_t span = (axis->taps - 1) * (axis->tap_step < 0 ? -axis->tap_step : axis->tap_step);
        axis->high = high && dim_is_const(high) ? high->value : corner;
        fits = fits && axis->step <= STEP_MOST && span < reach && axis->low >= -corner &&
               axis->low < corner && axis->high >= -corner && axis->high < corner;
    }
    windows->is_by_lines = !fits;
    return fits || (may_be_lines && windows_have_lines(windows));
}

/* Whether each axis of the base is one of these, or has one element, and lies in steps that TMA takes. */
static bool windows_base(const Graph *graph, const ViewPlaces *places, Windows *windows) {
    for (int i = 0; i < places->base->rank; i++) {
        const WindowsAxis *axis = windows_axis(windows, i);
        if (i == windows->channels_axis)
            continue;
        if (axis || i == windows->images_axis
                ? !view_is_step(graph, windows->strides[i], windows->base->dtype) ||
                      dim_is(windows->strides[i], 0)
                : !dim_is(places->base->dims[i], 1))
            return false;
    }
    return view_is_step(graph, windows->first_channel, windows->base->dtype);
}

static bool windows_is_value(void *context, const Value *value) {
    return value == context;
}

/* Windows of a base that is seen as this value. */
static bool windows_seen(const Graph *graph, Value *value, int mn_axis, int k_axis, const Value *base,
                         const Value *seen, Windows *windows) {
    ViewPlaces places;
    if (!view_places(graph, value, windows_is_value, (void *)(uintptr_t)seen, &places))
        return false;
    *windows = (Windows){.base = base, .seen = seen, .images_axis = -1};
    View view = view_of(graph, (Value *)(uintptr_t)seen, windows_is_value, (void *)(uintptr_t)base);
    if (view.base != base || !dim_is(view.offset, 0))
        return false;
    for (int i = 0; i < seen->rank; i++)
        windows->strides[i] = view.strides[i];
    bool is_along_k = windows_channels(&places, k_axis, windows) && windows_are_close(windows);
    if (!is_along_k && (!windows_channels(&places, mn_axis, windows) || !windows_are_close(windows)))
        return false;
    windows->places_axis = is_along_k ? mn_axis : k_axis;
    return windows_places(graph, &places, windows) && windows_batch(graph, &places, value, windows) &&
           windows_corners(graph, &places, !is_along_k, windows) && windows_base(graph, &places, windows);
}

/* The highest of the reshapes that stand on the base, whose elements lie in their order; NULL: none does. */
static const Value *windows_reshaped(const Value *value, const Value *base) {
    const Value *highest = NULL;
    for (; value != base; value = value->in[0])
        highest = value->op != OP_reshape ? NULL : highest ? highest : value;
    return highest;
}

bool windows_of(const Graph *graph, Value *value, int mn_axis, int k_axis,
                bool (*is_base)(void *context, const Value *v), void *context, Windows *windows) {
    ViewPlaces places;
    if (!view_places(graph, value, is_base, context, &places) || !is_base(context, places.base) ||
        dtype_bits(places.base->dtype) < 8)
        return false;
    if (windows_seen(graph, value, mn_axis, k_axis, places.base, places.base, windows))
        return true;
    const Value *reshaped = windows_reshaped(value, places.base);
    return reshaped && windows_seen(graph, value, mn_axis, k_axis, places.base, reshaped, windows);
}

bool windows_found(const Graph *graph, Value *value, int mn_axis, int k_axis, Windows *windows) {
    ViewPlaces places;
    if (!view_places(graph, value, windows_is_value, NULL, &places))
        return false;
    *windows = (Windows){.base = places.base, .seen = places.base, .images_axis = -1};
    view_base_strides(graph, places.base, windows->strides);
    windows->places_axis = mn_axis;
    if (!windows_channels(&places, k_axis, windows) || !windows_places(graph, &places, windows) ||
        !windows_batch(graph, &places, value, windows))
        return false;
    windows_corners(graph, &places, false, windows);
    for (int i = 0; i < windows->n; i++)
        if (!dim_is_const(places.start[windows->axis[i].base_axis]))
            return false;
    return true;
}
