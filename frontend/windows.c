/* Windows over the axes of a tensor that lie between its first, the batch, and its last, the channels: what
 * convolutions multiply and pools reduce. Written out as a pad and a `window` an axis. */
#include "frontend/expand.h"

enum { WINDOWS_AXES = 3 };

/* What is asked for along one axis. */
typedef struct WindowsAxis {
    const Dim *size, *low, *high;
    int64_t stride, dilation;
} WindowsAxis;

/* Of a list with one item an axis, that of axis i; anything else is meant for all. */
static Meaning windows_item(Expand *expand, const Expr *syntax, const Meaning *arguments, int argument, int i,
                            int n) {
    Meaning given = arguments[argument];
    if (given.kind != MEANING_LIST)
        return given;
    if (given.list.n != n)
        return expand_fail(expand, DIAG_RANK, syntax->arguments.at[argument].value->span,
                           "%d number%s for a tensor that has %d ax%s between its first and its last",
                           given.list.n, given.list.n == 1 ? "" : "s", n, n == 1 ? "is" : "es");
    return given.list.at[i];
}

static bool windows_step(Expand *expand, const Expr *syntax, int argument, const char *what, Meaning item,
                         int64_t *out) {
    *out = item.whole;
    if (item.kind == MEANING_WHOLE && item.whole >= 1 && item.whole <= INT32_MAX)
        return true;
    if (item.kind != MEANING_FAILED)
        expand_fail(expand, DIAG_ATTRIBUTE, syntax->arguments.at[argument].value->span,
                    "a %s is a positive whole number", what);
    return false;
}

/* One number on both sides, or a list of two. */
static bool windows_pad(Expand *expand, const Expr *syntax, int argument, Meaning item, WindowsAxis *axis) {
    Span span = syntax->arguments.at[argument].value->span;
    bool is_pair = item.kind == MEANING_LIST;
    if (is_pair && item.list.n != 2) {
        expand_fail(expand, DIAG_RANK, span, "a pad is a number, or two for both sides");
        return false;
    }
    axis->low = meaning_dim(expand, is_pair ? item.list.at[0] : item, span, "a pad");
    axis->high = is_pair ? meaning_dim(expand, item.list.at[1], span, "a pad") : axis->low;
    return axis->low && axis->high;
}

static bool windows_axis(Expand *expand, const Expr *syntax, const Meaning *arguments, int i, int n,
                         WindowsAxis *axis) {
    Meaning items[5];
    for (int argument = 1; argument < 5; argument++) {
        items[argument] = windows_item(expand, syntax, arguments, argument, i, n);
        if (items[argument].kind == MEANING_FAILED)
            return false;
    }
    axis->size = meaning_dim(expand, items[1], syntax->arguments.at[1].value->span, "a window's size");
    return axis->size && windows_step(expand, syntax, 2, "stride", items[2], &axis->stride) &&
           windows_pad(expand, syntax, 3, items[3], axis) &&
           windows_step(expand, syntax, 4, "dilation", items[4], &axis->dilation);
}

static Meaning windows_bordered(Expand *expand, Value *x, Meaning border, const WindowsAxis *axes, int n,
                                Span span) {
    bool has_border = false;
    Attr attrs[OP_MAX_ATTRS] = {
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = x->rank},
        {.dims = ARENA_ARRAY(expand->arena, const Dim *, RANK_MAX), .n_dims = x->rank}};
    for (int i = 0; i < x->rank; i++) {
        bool is_inner = i > 0 && i <= n;
        attrs[0].dims[i] = is_inner ? axes[i - 1].low : dim_const(expand->graph->dims, 0);
        attrs[1].dims[i] = is_inner ? axes[i - 1].high : dim_const(expand->graph->dims, 0);
        has_border |= !dim_is(attrs[0].dims[i], 0) || !dim_is(attrs[1].dims[i], 0);
    }
    if (!has_border)
        return (Meaning){.kind = MEANING_TENSOR, .value = x};
    Meaning number = operator_cast(expand, border, x->dtype, span);
    return number.kind == MEANING_TENSOR
               ? expand_append(expand, OP_pad, (Value *[]){x, number.value}, 2, attrs, span)
               : number;
}

/* How many axes windows of x run over, and what is asked for along them; 0 after an error. */
static int windows_axes(Expand *expand, const Expr *syntax, const Meaning *arguments, WindowsAxis *axes) {
    int rank = arguments[0].value->rank, n = rank - 2;
    if (n < 1 || n > WINDOWS_AXES) {
        expand_fail(expand, DIAG_RANK, syntax->arguments.at[0].value->span,
                    "windows run over 1 to %d axes between the first and the last; this tensor has %d dims",
                    WINDOWS_AXES, rank);
        return 0;
    }
    for (int i = 0; i < n; i++)
        if (!windows_axis(expand, syntax, arguments, i, n, &axes[i]))
            return 0;
    return n;
}

static Meaning windows_taken(Expand *expand, Value *x, Meaning border, const WindowsAxis *axes, int n,
                             Span span) {
    Meaning found = windows_bordered(expand, x, border, axes, n, span);
    for (int i = 0; i < n && found.kind == MEANING_TENSOR; i++) {
        Attr attrs[OP_MAX_ATTRS] = {
            {.i = i + 1}, {.dim = axes[i].size}, {.i = axes[i].stride}, {.i = axes[i].dilation}};
        found = expand_append(expand, OP_window, &found.value, 1, attrs, span);
    }
    return found;
}

Meaning windows_call(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    WindowsAxis axes[WINDOWS_AXES];
    int n = windows_axes(expand, syntax, arguments, axes);
    return n ? windows_taken(expand, arguments[0].value, arguments[5], axes, n, syntax->span)
             : (Meaning){.kind = MEANING_FAILED};
}

/* ---- back: what the elements of x were in windows for ---- */

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
    Meaning none = operator_cast(expand, (Meaning){.kind = MEANING_WHOLE, .whole = 0}, x->dtype, span);
    Meaning wide = indexing_reshape(expand, x, rank + 1, apart, span);
    if (wide.kind == MEANING_TENSOR && none.kind == MEANING_TENSOR)
        wide = expand_append(expand, OP_pad, (Value *[]){wide.value, none.value}, 2, attrs, span);
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
        bool is_tap = i >= x->rank - n;
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

Meaning windows_back_call(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    WindowsAxis axes[WINDOWS_AXES];
    Meaning found = arguments[0];
    int n = windows_axes(expand, syntax, arguments, axes);
    if (!n)
        return (Meaning){.kind = MEANING_FAILED};
    for (int i = 0; i < n; i++) {
        Span span = syntax->arguments.at[5].value->span;
        Meaning item = windows_item(expand, syntax, arguments, 5, i, n);
        const Dim *size = item.kind == MEANING_FAILED ? NULL : meaning_dim(expand, item, span, "a size");
        found = size ? windows_spread(expand, found.value, i + 1, axes[i].stride, syntax->span)
                     : (Meaning){.kind = MEANING_FAILED};
        if (found.kind != MEANING_TENSOR)
            return found;
        if (!windows_back_axis(expand, found.value, i, size, &axes[i]))
            return expand_fail(expand, DIAG_DIM, span, "these windows' sizes overflow");
        found = windows_cropped(expand, found.value, i + 1, &axes[i], syntax->span);
        if (found.kind != MEANING_TENSOR)
            return found;
    }
    Meaning none = {.kind = MEANING_WHOLE, .whole = 0};
    found = windows_taken(expand, found.value, none, axes, n, syntax->span);
    return found.kind == MEANING_TENSOR ? windows_flipped(expand, found.value, n, syntax->span) : found;
}
