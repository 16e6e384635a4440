/* Windows over the axes of a tensor that lie between its first, the batch, and its last, the channels: what
 * convolutions multiply and pools reduce. Written out as a pad and a `window` an axis. */
#include "frontend/windows.h"

Meaning windows_item(Expand *expand, const Expr *syntax, const Meaning *arguments, int argument, int i,
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

Meaning windows_padded(Expand *expand, Value *x, Meaning border, const Attr *attrs, Span span) {
    Meaning number = operator_cast(expand, border, x->dtype, span);
    return number.kind == MEANING_TENSOR
               ? expand_append(expand, OP_pad, (Value *[]){x, number.value}, 2, attrs, span)
               : number;
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
    return windows_padded(expand, x, border, attrs, span);
}

int windows_axes(Expand *expand, const Expr *syntax, const Meaning *arguments, WindowsAxis *axes) {
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

Meaning windows_taken(Expand *expand, Value *x, Meaning border, const WindowsAxis *axes, int n, Span span) {
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
