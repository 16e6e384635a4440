/* The gradient of what a convolution's windows are of: a product of windows of dy, so that none are stored.
 *
 * A convolution is a product of windows as rows with weights as columns, t being windows of a bordered x:
 *
 *     x [N, H, W, C]  ->  t [N, P, Q, C, R, S]  ->  rows [N P Q, R S C] @ w [R S C, F]  =  y [N P Q, F]
 *
 * By the rules of its parts, dy @ w.T would be stored, R S times as large as x, and its taps summed. Instead
 * an element of x reads the dy of its windows tap by tap. It was tap r of window p where it stands at step *
 * p + dilation * r - low; so it has windows of dy, with taps from the last to the first.
 *
 * With steps, elements that are a step apart have the same taps. With before = -low mod step and q = ceil(low
 * / step), window p = i + q - t had element step * i + a as its tap step * t + a - before. Weights with
 * `before` zeros in front then give all a at once, as columns. (frontend/windows_back.c has the same for
 * text.)
 *
 * Of channels by themselves, y is a sum over taps. An element of x then sums the dy of its windows, which are
 * a step apart among zeros, tap by tap; by the rules of its parts each tap would be a tensor of its own. */
#include "ir/gradient_internal.h"
#include "ir/window_rows.h"

typedef struct ConvolvedAxis {
    const Dim *size, *places; /* of x, of y */
    int64_t taps, step, dilation, low;
    /* backward */
    const Dim *count, *high;      /* of elements a step apart; zeros behind the places of dy */
    int64_t before, steps, ahead; /* zeros before the taps; taps in steps; zeros before the places */
} ConvolvedAxis;

typedef struct Convolved {
    Value *x;
    WindowRows rows;
    ConvolvedAxis axis[WINDOW_ROWS_AXES];
} Convolved;

/* Follows the windows over `n` axes, the last axis' first, and the border. */
static bool convolved_windows(Gradient *g, Value *x, int n, Convolved *out) {
    for (int i = n; i >= 1; i--, x = x->in[0]) {
        if (x->op != OP_window || x->attrs[0].i != i || !dim_is_const(x->attrs[1].dim))
            return false;
        out->axis[i - 1] = (ConvolvedAxis){.places = x->dims[i],
                                           .taps = x->attrs[1].dim->value,
                                           .step = x->attrs[2].i,
                                           .dilation = x->attrs[3].i};
    }
    const Value *pad = x->op == OP_pad && !g->wanted[x->in[1]->id] ? x : NULL;
    for (int i = 0; pad && i < pad->rank; i++) {
        const Dim *low = pad->attrs[0].dims[i], *high = pad->attrs[1].dims[i];
        bool is_inner = i >= 1 && i <= n;
        if (is_inner ? !dim_is_const(low) : !dim_is(low, 0) || !dim_is(high, 0))
            return false;
        if (is_inner)
            out->axis[i - 1].low = low->value;
    }
    out->x = pad ? pad->in[0] : x;
    return true;
}

static bool convolved_of(Gradient *g, const Value *rows, Convolved *out) {
    return window_rows(g->graph->dims, rows, &out->rows) &&
           convolved_windows(g, out->rows.windows, out->rows.n, out);
}

/* False where there are steps and dilation, or it is not known that dy is only bordered. */
static bool convolved_back(DimTable *table, ConvolvedAxis *axis, const Dim *size) {
    if (axis->step > 1 && axis->dilation > 1)
        return false;
    int64_t q = (axis->low + axis->step - 1) / axis->step;
    axis->size = size;
    axis->before = q * axis->step - axis->low;
    axis->steps = (axis->taps + axis->before + axis->step - 1) / axis->step;
    axis->ahead = (axis->steps - 1) * axis->dilation - q;
    axis->count = dim_ceil_div(table, size, dim_const(table, axis->step));
    axis->high = dim_add(table, dim_sub(table, axis->count, axis->places), dim_const(table, q));
    return axis->ahead >= 0 && dim_known_le(table, dim_const(table, 0), axis->high);
}

/* Windows of a bordered dy [N, P, Q, F], taps from the last to the first: [N, I, J, F, T, U]. */
static Value *convolved_taps(Gradient *g, const Convolved *of, int n, Value *t) {
    DimTable *table = g->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < n; i++)
        t = derive_window(g, t, i + 1, of->axis[i].steps, of->axis[i].dilation);
    for (int i = 0; t && i < t->rank; i++) {
        bool is_tap = i >= n + 2 && !dim_is(t->dims[i], 1);
        start[i] = is_tap ? dim_sub(table, t->dims[i], dim_const(table, 1)) : dim_const(table, 0);
        limit[i] = is_tap ? dim_const(table, -1) : t->dims[i];
        step[i] = is_tap ? -1 : 1;
    }
    return t ? derive_slice(g, t, start, limit, step) : NULL;
}

/* dy [N P Q, F] as rows of windows, [N I J, T U F]; of groups [G, N P Q, F] as [G, N I J, T U F]. */
static Value *convolved_rows(Gradient *g, const Convolved *of, Value *dy) {
    DimTable *table = g->graph->dims;
    const Dim *zero = dim_const(table, 0), *low[RANK_MAX], *high[RANK_MAX];
    const Dim *dims[RANK_MAX] = {of->rows.images}, *columns = dy->dims[1 + of->rows.grouped];
    int n = of->rows.n;
    for (int i = 0; i < 2 * n + 2; i++)
        low[i] = high[i] = zero;
    for (int i = 0; i < n; i++) {
        dims[i + 1] = of->axis[i].places;
        low[i + 1] = dim_const(table, of->axis[i].ahead);
        high[i + 1] = of->axis[i].high;
    }
    dims[n + 1] = dim_mul(table, of->rows.groups, columns);
    if (of->rows.grouped)
        dy = derive_transpose(g, dy, (int[]){1, 0, 2});
    Value *t = convolved_taps(g, of, n, derive_padded(g, derive_reshape(g, dy, n + 2, dims), low, high));
    if (!t)
        return NULL;
    const Dim *places = dims_product(table, (const Dim *const *)t->dims, n + 1);
    const Dim *taps = dims_product(table, (const Dim *const *)t->dims + n + 2, n);
    const Dim *apart[] = {places, columns, taps}, *apart_groups[] = {places, of->rows.groups, columns, taps};
    const Dim *rows[] = {of->rows.groups, places, dim_mul(table, taps, columns)};
    Value *parts = derive_reshape(g, t, 3 + of->rows.grouped, of->rows.grouped ? apart_groups : apart);
    parts = derive_transpose(g, parts, window_rows_order(of->rows.grouped));
    return derive_reshape(g, parts, 2 + of->rows.grouped, rows + 1 - of->rows.grouped);
}

/* w [R S C, F] as [T U F, a b C]: of each step's taps, those of every element between. Groups stand before.
 */
static Value *convolved_weights(Gradient *g, const Convolved *of, Value *w) {
    DimTable *table = g->graph->dims;
    const Dim *zero = dim_const(table, 0), *filters = w->dims[1 + of->rows.grouped];
    const Dim *whole[RANK_MAX], *low[RANK_MAX], *high[RANK_MAX], *apart[RANK_MAX];
    const Dim *columns[] = {of->rows.groups, filters, of->rows.channels};
    int n = of->rows.n, at = of->rows.grouped, perm[RANK_MAX] = {0};
    whole[0] = apart[0] = of->rows.groups;
    low[0] = high[0] = zero;
    for (int i = 0; i < n; i++) {
        const ConvolvedAxis *axis = &of->axis[i];
        whole[at + i] = dim_const(table, axis->taps);
        low[at + i] = dim_const(table, axis->before);
        high[at + i] = dim_const(table, axis->steps * axis->step - axis->before - axis->taps);
        apart[at + 2 * i] = dim_const(table, axis->steps);
        apart[at + 2 * i + 1] = dim_const(table, axis->step);
        perm[at + i] = at + 2 * i;
        perm[at + n + 1 + i] = at + 2 * i + 1;
        columns[1] = dim_mul(table, columns[1], apart[at + 2 * i]);
        columns[2] = dim_mul(table, columns[2], apart[at + 2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        low[at + n + i] = high[at + n + i] = zero;
        whole[at + n + i] = apart[at + 2 * n + i] = i ? filters : of->rows.channels;
    }
    perm[at + n] = at + 2 * n + 1;
    perm[at + 2 * n + 1] = at + 2 * n;
    Value *padded = derive_padded(g, derive_reshape(g, w, at + n + 2, whole), low, high);
    Value *turned = derive_transpose(g, derive_reshape(g, padded, at + 2 * n + 2, apart), perm);
    return derive_reshape(g, turned, at + 2, columns + 1 - at);
}

/* [N I J, a b C] as x: elements I a, J b, of each group, and of those as many as there are. */
static Value *convolved_joined(Gradient *g, const Convolved *of, Value *product) {
    DimTable *table = g->graph->dims;
    const Dim *apart[RANK_MAX] = {of->rows.groups}, *joined[RANK_MAX] = {of->rows.images}, *start[RANK_MAX];
    int n = of->rows.n, at = of->rows.grouped, perm[RANK_MAX] = {at}, last = at + 2 * n + 1;
    apart[at] = of->rows.images;
    for (int i = 0; i < n; i++) {
        const Dim *step = dim_const(table, of->axis[i].step);
        apart[at + 1 + i] = of->axis[i].count;
        apart[at + 1 + n + i] = step;
        joined[1 + i] = dim_mul(table, of->axis[i].count, step);
        perm[1 + 2 * i] = at + 1 + i;
        perm[2 + 2 * i] = at + 1 + n + i;
    }
    apart[last] = of->rows.channels;
    joined[n + 1] = dim_mul(table, of->rows.groups, of->rows.channels);
    perm[2 * n + 1] = 0; /* groups, where they are */
    perm[last] = last;
    for (int i = 0; i < n + 2; i++)
        start[i] = dim_const(table, 0);
    Value *turned = derive_transpose(g, derive_reshape(g, product, last + 1, apart), perm);
    return derive_slice(g, derive_reshape(g, turned, n + 2, joined), start, (const Dim *const *)of->x->dims,
                        NULL);
}

bool gradient_of_convolved(Gradient *g, Value *dy, Value *w) {
    Convolved of = {0};
    if (w->rank != g->value->rank || !convolved_of(g, g->value->in[0], &of) ||
        (of.rows.grouped && w->dims[0] != of.rows.groups))
        return false;
    for (int i = 0; i < of.rows.n; i++)
        if (!convolved_back(g->graph->dims, &of.axis[i], of.x->dims[i + 1]))
            return false;
    Value *in[] = {convolved_rows(g, &of, dy), convolved_weights(g, &of, w)};
    Value *product = derive_product(g, in[0], in[1]);
    gradient_give_value(g, of.x, convolved_joined(g, &of, product));
    return true;
}

/* ---- channels by themselves ---- */

/* Where `y` is sum(t * w) over the taps of windows t [N, P, Q, C, R, S], with weights w [C, R, S]: the number
 * of axes that have windows, else 0. */
static int convolved_channels(Gradient *g, const Value *y, Convolved *out, Value **w) {
    const Value *product = y->in[0];
    int n = product->rank / 2 - 1;
    if (product->op != OP_mul || product->rank != 2 * n + 2 || n < 1 || y->attrs[0].axes.n != n)
        return 0;
    for (int i = 0; i < n; i++)
        if (y->attrs[0].axes.at[i] != n + 2 + i)
            return 0;
    for (int side = 0; side < 2; side++) {
        Value *t = product->in[side], *weights = product->in[!side];
        bool fits = value_same_dims(t, product) && weights->rank == n + 1;
        for (int i = 0; fits && i <= n; i++)
            fits = weights->dims[i] == t->dims[n + 1 + i];
        if (fits && convolved_windows(g, t, n, out)) {
            *w = weights;
            out->rows.windows = t;
            return n;
        }
    }
    return 0;
}

/* The border of dy, whose places are `step` apart among zeros, for windows that go back; false where it is
 * not known that dy is only bordered. */
static bool convolved_spread(DimTable *table, ConvolvedAxis *axis, const Dim *size) {
    const Dim *one = dim_const(table, 1), *step = dim_const(table, axis->step);
    const Dim *wide = dim_mul(table, dim_sub(table, axis->places, one), step);
    axis->count = wide ? dim_add(table, wide, one) : NULL;
    axis->steps = axis->taps;
    axis->ahead = (axis->taps - 1) * axis->dilation - axis->low;
    axis->high =
        axis->count ? dim_add(table, dim_sub(table, size, axis->count), dim_const(table, axis->low)) : NULL;
    return axis->ahead >= 0 && axis->high && dim_known_le(table, dim_const(table, 0), axis->high);
}

/* dx [N, H, W, C], a sum over the taps of windows of dy. */
static Value *convolved_channels_back(Gradient *g, const Convolved *of, int n, Value *dy, Value *w) {
    DimTable *table = g->graph->dims;
    const Dim *low[RANK_MAX], *high[RANK_MAX];
    bool over[RANK_MAX] = {false};
    for (int i = 0; i < n + 2; i++) {
        const ConvolvedAxis *axis = i >= 1 && i <= n ? &of->axis[i - 1] : NULL;
        low[i] = dim_const(table, axis ? axis->ahead : 0);
        high[i] = axis ? axis->high : dim_const(table, 0);
        if (axis && axis->step > 1)
            dy = derive_placed(g, dy, i, dim_const(table, 0), axis->step, axis->count);
    }
    for (int i = 0; i < n; i++)
        over[n + 2 + i] = true;
    Value *t = convolved_taps(g, of, n, derive_padded(g, dy, low, high));
    return derive_reduced(g, OP_sum, derive_scalar(g, OP_mul, t, w, NULL), over, false);
}

/* dw [C, R, S]: of each tap the sum over places of what its windows have there, times dy. */
static Value *convolved_channels_weights(Gradient *g, const Convolved *of, int n, Value *dy) {
    const Dim *dims[RANK_MAX];
    bool over[RANK_MAX] = {false};
    for (int i = 0; i < 2 * n + 2; i++) {
        dims[i] = i < n + 2 && dy ? dy->dims[i] : dim_const(g->graph->dims, 1);
        over[i] = i <= n;
    }
    Value *wide = derive_reshape(g, dy, 2 * n + 2, dims);
    return derive_reduced(g, OP_sum, derive_scalar(g, OP_mul, of->rows.windows, wide, NULL), over, false);
}

bool gradient_of_channels(Gradient *g) {
    Convolved of = {0};
    Value *w = NULL;
    int n = convolved_channels(g, g->value, &of, &w);
    for (int i = 0; i < n; i++)
        if (!convolved_spread(g->graph->dims, &of.axis[i], of.x->dims[i + 1]))
            return false;
    if (n == 0)
        return false;
    DType type = gradient_factor_type(g, w->dtype);
    Value *dy = derive_reshape(g, g->dy, n + 2, of.rows.windows->dims);
    if (type != DTYPE_COUNT)
        dy = derive_cast(g, dy, type);
    if (g->wanted[of.x->id])
        gradient_give_value(g, of.x, convolved_channels_back(g, &of, n, dy, w));
    if (g->wanted[w->id])
        gradient_give_value(g, w, convolved_channels_weights(g, &of, n, dy));
    return true;
}
