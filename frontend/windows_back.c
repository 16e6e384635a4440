/* Windows backwards: for each element of a tensor, what its windows' results had of it, as gradients of
 * convolutions read them. */
#include "frontend/windows.h"

static const Meaning windows_nothing = {.kind = MEANING_WHOLE, .whole = 0};

/* The axis with zeros behind each element but the last, so that neighbours are `stride` apart. */
static Meaning windows_spread(Expand *expand, Value *x, int axis, int64_t stride, Span span) {
    DimTable *table = expand->graph->dims;
    const Dim *zero = dim_const(table, 0), *apart[RANK_MAX], *joined[RANK_MAX];
    int rank = x->rank;
    if (stride == 1)
        return (Meaning){.kind = MEANING_TENSOR, .value = x};
    Attr attrs[OP_MAX_ATTRS] = {
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = rank + 1},
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = rank + 1}};
    for (int i = 0; i <= rank; i++) {
        apart[i] = i <= axis ? x->dims[i] : i == axis + 1 ? dim_const(table, 1) : x->dims[i - 1];
        attrs[0].dims[i] = zero;
        attrs[1].dims[i] = i == axis + 1 ? dim_const(table, stride - 1) : zero;
    }
    for (int i = 0; i < rank; i++)
        joined[i] = i == axis ? dim_mul(table, x->dims[i], dim_const(table, stride)) : x->dims[i];
    if (!joined[axis])
        return expand_fail(expand, DIAG_DIM, span, "the size of axis %d times its stride overflows", axis);
    Meaning wide = indexing_reshape(expand, x, rank + 1, apart, span);
    if (wide.kind == MEANING_TENSOR)
        wide = windows_padded(expand, wide.value, windows_nothing, attrs, span);
    if (wide.kind == MEANING_TENSOR)
        wide = indexing_reshape(expand, wide.value, rank, joined, span);
    if (wide.kind != MEANING_TENSOR)
        return wide;
    const Dim *last = dim_sub(table, joined[axis], dim_const(table, stride - 1));
    return indexing_part(expand, wide.value, axis, zero, last, span);
}

/* The taps of the last n axes from the last to the first. */
static Meaning windows_flipped(Expand *expand, Value *x, int n, Span span) {
    DimTable *table = expand->graph->dims;
    Attr attrs[OP_MAX_ATTRS] = {
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = x->rank},
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = x->rank},
        {.ints = ARENA_ARRAY(expand->arena, int, RANK_MAX), .n_ints = x->rank}};
    for (int i = 0; i < x->rank; i++) {
        bool is_tap = i >= x->rank - n && !dim_is(x->dims[i], 1);
        attrs[0].dims[i] = is_tap ? dim_sub(table, x->dims[i], dim_const(table, 1)) : dim_const(table, 0);
        attrs[1].dims[i] = is_tap ? dim_const(table, -1) : x->dims[i];
        attrs[2].ints[i] = is_tap ? -1 : 1;
    }
    return expand_append(expand, OP_slice, &x, 1, attrs, span);
}

/* Along one axis of `size` elements that had windows: how the windows' results are bordered so that taps that
 * go back find them. */
static bool windows_back_axis(Expand *expand, const Value *x, int i, const Dim *size, WindowsAxis *axis) {
    DimTable *table = expand->graph->dims;
    const Dim *reach =
        dim_mul(table, dim_sub(table, axis->size, dim_const(table, 1)), dim_const(table, axis->dilation));
    const Dim *before = reach ? dim_sub(table, reach, axis->low) : NULL;
    const Dim *behind = before ? dim_add(table, dim_sub(table, size, x->dims[i + 1]), axis->low) : NULL;
    axis->low = before;
    axis->high = behind;
    axis->stride = 1;
    return before && behind;
}

/* Windows of an axis of `size` elements are as many as x has there, unless symbols leave that open. */
static bool windows_back_fit(Expand *expand, const Value *x, int axis, const Dim *size, const WindowsAxis *of,
                             Span span) {
    DimTable *table = expand->graph->dims;
    const Dim *wide = dim_add(table, dim_add(table, size, of->low), of->high);
    const Dim *reach =
        dim_mul(table, dim_sub(table, of->size, dim_const(table, 1)), dim_const(table, of->dilation));
    const Dim *below = wide && reach ? dim_sub(table, wide, reach) : NULL;
    const Dim *places = below ? dim_ceil_div(table, below, dim_const(table, of->stride)) : NULL;
    const Dim *excess = places ? dim_sub(table, places, x->dims[axis]) : NULL;
    if (!excess || !dim_is_const(excess) || dim_is(excess, 0))
        return true;
    Text elements = text_new(expand->arena), found = text_new(expand->arena), given = text_new(expand->arena);
    dim_print(&elements, table, size);
    dim_print(&found, table, places);
    dim_print(&given, table, x->dims[axis]);
    expand_fail(expand, DIAG_SHAPE_MISMATCH, span, "an axis of %s has %s of these windows, not %s",
                elements.at, found.at, given.at);
    return false;
}

/* A border below 0 takes elements away: those that lay in windows of nothing but border. */
static Meaning windows_cropped(Expand *expand, Value *x, int axis, WindowsAxis *border, Span span) {
    DimTable *table = expand->graph->dims;
    const Dim *zero = dim_const(table, 0), *below = dim_const(table, -1);
    const Dim *start = zero, *limit = x->dims[axis];
    if (dim_known_le(table, border->low, below)) {
        start = dim_sub(table, zero, border->low);
        border->low = zero;
    }
    if (dim_known_le(table, border->high, below)) {
        limit = dim_add(table, limit, border->high);
        border->high = zero;
    }
    if (start == zero && limit == x->dims[axis])
        return (Meaning){.kind = MEANING_TENSOR, .value = x};
    return limit ? indexing_part(expand, x, axis, start, limit, span)
                 : expand_fail(expand, DIAG_DIM, span, "these windows' sizes overflow");
}

/* The size of an axis that had such windows; NULL after an error. */
static const Dim *windows_back_size(Expand *expand, const Expr *syntax, const Meaning *arguments, int i,
                                    int n, const WindowsAxis *axis) {
    enum { OF = 5 };
    Span span = syntax->arguments.at[OF].value->span;
    Meaning item = windows_item(expand, syntax, arguments, OF, i, n);
    const Dim *size = item.kind == MEANING_FAILED ? NULL : meaning_dim(expand, item, span, "a size");
    return size && windows_back_fit(expand, arguments[0].value, i + 1, size, axis, span) ? size : NULL;
}

/* x with what the windows that go back along axis i + 1 need between and around its elements. */
static Meaning windows_back_along(Expand *expand, Value *x, int i, const Dim *size, WindowsAxis *axis,
                                  Span span) {
    Meaning found = windows_spread(expand, x, i + 1, axis->stride, span);
    if (found.kind != MEANING_TENSOR)
        return found;
    if (!windows_back_axis(expand, found.value, i, size, axis))
        return expand_fail(expand, DIAG_DIM, span, "these windows' sizes overflow");
    return windows_cropped(expand, found.value, i + 1, axis, span);
}

static Meaning windows_back_taken(Expand *expand, Value *x, const WindowsAxis *axes, int n, Span span) {
    Meaning found = windows_taken(expand, x, windows_nothing, axes, n, span);
    return found.kind == MEANING_TENSOR ? windows_flipped(expand, found.value, n, span) : found;
}

Meaning windows_back_call(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    WindowsAxis axes[WINDOWS_AXES];
    Meaning found = arguments[0];
    int n = windows_axes(expand, syntax, arguments, axes);
    for (int i = 0; i < n; i++) {
        const Dim *size = windows_back_size(expand, syntax, arguments, i, n, &axes[i]);
        found = size ? windows_back_along(expand, found.value, i, size, &axes[i], syntax->span)
                     : (Meaning){.kind = MEANING_FAILED};
        if (found.kind != MEANING_TENSOR)
            return found;
    }
    return n ? windows_back_taken(expand, found.value, axes, n, syntax->span)
             : (Meaning){.kind = MEANING_FAILED};
}

/* ---- phases: elements of a tensor whose windows are `stride` apart have the same taps */

/* Along an axis: windows of the results at each `stride`-th element, and the weights' taps in as many steps.
 *
 * Element stride * i + a was at tap r of window p where stride * p + r - pad = stride * i + a. With delta =
 * -pad mod stride and q = ceil(pad / stride), p = i + q - t has tap r = stride * t + a - delta, so that
 * weights with delta zeros in front have those taps for all a at step t. */
typedef struct PhasesAxis {
    WindowsAxis windows;
    int64_t stride, before, steps;
} PhasesAxis;

/* False where it is not known: then zeros are put between the results, and there is one phase. */
static bool phases_axis(const Expand *expand, const Value *x, int i, const Dim *size,
                        const WindowsAxis *asked, PhasesAxis *axis) {
    DimTable *table = expand->graph->dims;
    if (asked->stride == 1 || asked->dilation != 1 || !dim_is_const(asked->size) || !dim_is_const(asked->low))
        return false;
    int64_t stride = asked->stride, pad = asked->low->value, taps = asked->size->value;
    int64_t q = (pad + stride - 1) / stride;
    axis->stride = stride;
    axis->before = q * stride - pad;
    axis->steps = (taps + axis->before + stride - 1) / stride;
    const Dim *places = dim_ceil_div(table, size, dim_const(table, stride));
    const Dim *low = dim_const(table, axis->steps - 1 - q);
    const Dim *high = dim_add(table, dim_sub(table, places, x->dims[i + 1]), dim_const(table, q));
    axis->windows = (WindowsAxis){dim_const(table, axis->steps), low, high, 1, 1};
    return pad >= 0 && low->value >= 0 && high && dim_lower(table, high) >= 0;
}

/* The weights [F, R, ..., C] as [F, steps, stride, ..., C], zeros where a step has no tap. */
static Meaning phases_weights(Expand *expand, Value *w, const PhasesAxis *axes, int n, Span span) {
    DimTable *table = expand->graph->dims;
    const Dim *zero = dim_const(table, 0), *apart[RANK_MAX];
    Attr attrs[OP_MAX_ATTRS] = {
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = w->rank},
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = w->rank}};
    bool is_padded = false;
    int at = 0;
    for (int i = 0; i < w->rank; i++) {
        const PhasesAxis *axis = i > 0 && i <= n ? &axes[i - 1] : NULL;
        attrs[0].dims[i] = axis ? dim_const(table, axis->before) : zero;
        attrs[1].dims[i] = zero;
        apart[at++] = axis ? axis->windows.size : w->dims[i];
        if (!axis)
            continue;
        apart[at++] = dim_const(table, axis->stride);
        if (axis->stride > 1)
            attrs[1].dims[i] =
                dim_const(table, axis->steps * axis->stride - axis->before - w->dims[i]->value);
        is_padded |= !dim_is(attrs[0].dims[i], 0) || !dim_is(attrs[1].dims[i], 0);
    }
    Meaning padded = {.kind = MEANING_TENSOR, .value = w};
    if (is_padded)
        padded = windows_padded(expand, w, windows_nothing, attrs, span);
    return padded.kind == MEANING_TENSOR ? indexing_reshape(expand, padded.value, at, apart, span) : padded;
}

Meaning phases_call(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    WindowsAxis asked[WINDOWS_AXES], taken[WINDOWS_AXES];
    PhasesAxis axes[WINDOWS_AXES];
    Meaning sizes = {.kind = MEANING_LIST, .list = {ARENA_ARRAY(expand->arena, Meaning, WINDOWS_AXES), 0}};
    Meaning found = arguments[0], weights = arguments[6];
    int n = windows_axes(expand, syntax, arguments, asked);
    if (!n)
        return (Meaning){.kind = MEANING_FAILED};
    if (weights.kind != MEANING_TENSOR || weights.value->rank != n + 2)
        return expand_fail(expand, DIAG_RANK, syntax->arguments.at[6].value->span,
                           "weights have the taps of %d axes between their first and their last", n);
    for (int i = 0; i < n; i++) {
        const Dim *size = windows_back_size(expand, syntax, arguments, i, n, &asked[i]);
        if (!size)
            return (Meaning){.kind = MEANING_FAILED};
        if (!phases_axis(expand, found.value, i, size, &asked[i], &axes[i])) {
            axes[i] = (PhasesAxis){asked[i], 1, 0, 0};
            found = windows_back_along(expand, found.value, i, size, &axes[i].windows, syntax->span);
        }
        if (found.kind != MEANING_TENSOR)
            return found;
        taken[i] = axes[i].windows;
        sizes.list.at[sizes.list.n++] = meaning_of_dim(size);
    }
    Meaning several = {.kind = MEANING_SEVERAL, .list = {ARENA_ARRAY(expand->arena, Meaning, 3), 3}};
    found = windows_back_taken(expand, found.value, taken, n, syntax->span);
    several.list.at[0] = found;
    several.list.at[1] = phases_weights(expand, weights.value, axes, n, syntax->span);
    several.list.at[2] = sizes;
    for (int i = 0; i < 2; i++)
        if (several.list.at[i].kind != MEANING_TENSOR)
            return several.list.at[i];
    return several;
}
