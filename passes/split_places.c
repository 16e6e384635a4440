/* Sums over the places of windows, channel by channel, as weights of depthwise convolutions have for their
 * gradient, are done in parts of an image, each a sum over few places for which a thread keeps all taps of an
 * axis (codegen/templates/columns_places.c):
 *
 *     dw = sum(dy * t, over=[0, 1, 2])      t: windows [N, P, Q, C, R, S]
 * ->  p = sum over P/b, Q/8 and 8 of [P/b, Q/8, 8, N, b, R, S, C]
 *     dw = sum(p, over=[N, b])
 *
 * As any long column would be cut, places were numbered through, and each thread found its own of a tap by
 * divisions: 7 x 7 taps of 64 x 56 x 56 x 96 took 4260 us on an H200 where cuDNN takes 124. */
#include "passes/split.h"

#include "passes/fuse.h"

enum {
    PLACES_AT_ONCE = 8, /* places along the last axis that a thread unrolls */
    PLACES_TURNS = 64,  /* of so many, one behind the other */
    PLACES_RUN = 4,     /* channels a thread */
    PLACES_THREADS = 65536,
};

/* Windows of these dims among what is computed element by element. */
static const Value *places_windows(const Value *value, const Value *like, int depth) {
    if (value->op == OP_window)
        return value_same_dims(value, like) ? value : NULL;
    if (depth == 0 || !value_is_pointwise(value))
        return NULL;
    for (int i = 0; i < value->n_in; i++) {
        const Value *found = places_windows(value->in[i], like, depth - 1);
        if (found)
            return found;
    }
    return NULL;
}

/* Of a sum over images and all places of windows, [N, P, Q, C, R, S] or [N, Q, C, S], the axes of places that
 * there are; 0: `value` is no such sum. */
static int places_axes(const Value *value) {
    enum { DEPTH = 6 };
    const Value *operand = value->in[0];
    int n = operand->rank / 2 - 1;
    if (value->op != OP_sum || !value->attrs[1].i || operand->rank != 2 * n + 2 || n < 1 || n > 2 ||
        value->attrs[0].axes.n != n + 1)
        return 0;
    for (int i = 0; i < operand->rank; i++)
        if (value_reduces(value, i) != (i <= n) || !dim_is_const(operand->dims[i]) ||
            dim_is(operand->dims[i], 0))
            return 0;
    const Value *windows = places_windows(operand, operand, DEPTH);
    return windows && windows->attrs[0].i == n ? n : 0;
}

/* How many parts of the axis that is cut are summed each by itself: as few as give threads enough, and each
 * few turns. */
static int64_t places_parts(const Value *operand, int n, int64_t cut, int64_t turns) {
    int64_t threads = operand->dims[0]->value * operand->dims[n + 1]->value / PLACES_RUN;
    if (n == 2)
        threads *= operand->dims[n + 2]->value;
    for (int64_t parts = 1; parts < cut; parts++)
        if (cut % parts == 0 && cut / parts * turns <= PLACES_TURNS && parts * threads >= PLACES_THREADS)
            return parts;
    return cut;
}

Value *split_places(Rewrite *rewrite, Value *value) {
    DimTable *table = rewrite->graph->dims;
    Value *operand = value->in[0];
    int n = places_axes(value);
    if (n == 0)
        return value;
    const Dim *const *from = operand->dims;
    int64_t last = from[n]->value, once = split_parts(last, PLACES_AT_ONCE, 1), turns = last / once;
    /* [N, Q, C, S] as [N, a, Q/a/8, 8, C, S]; [N, P, Q, C, R, S] as [N, b, P/b, Q/8, 8, C, R, S] */
    int64_t cut = n == 1 ? turns : from[1]->value, parts = places_parts(operand, n, cut, n == 1 ? 1 : turns);
    const Dim *dims[RANK_MAX] = {from[0], dim_const(table, parts), dim_const(table, cut / parts)};
    int at = 3;
    if (n == 2)
        dims[at++] = dim_const(table, turns);
    dims[at] = dim_const(table, once);
    for (int i = n + 1; i < operand->rank; i++)
        dims[at + i - n] = from[i];
    int rank = at + n + 2, perm[RANK_MAX], axes[RANK_MAX], n_axes = at - 1;
    for (int i = 0; i < n_axes; i++) { /* what is summed, from the third on */
        perm[i] = 2 + i;
        axes[i] = i;
    }
    perm[n_axes] = 0;
    perm[n_axes + 1] = 1;
    for (int i = 0; i < n; i++)
        perm[n_axes + 2 + i] = at + 2 + i; /* taps, then channels */
    perm[rank - 1] = at + 1;
    Value *apart = build_reshape(rewrite, operand, rank, dims, value);
    Value *turned = build_transpose(rewrite, apart, perm, value);
    Value *first = build_reduce(rewrite, OP_sum, turned, n_axes, axes, true, value);
    const Dim *rows[RANK_MAX] = {dim_mul(table, from[0], dims[1])};
    int back[RANK_MAX] = {0};
    for (int i = 0; i < n; i++) {
        rows[1 + i] = from[n + 2 + i];
        back[2 + i] = 1 + i;
    }
    rows[n + 1] = from[n + 1];
    back[1] = n + 1;
    Value *joined = build_reshape(rewrite, first, n + 2, rows, value);
    Value *second = build_reduce(rewrite, OP_sum, joined, 1, (int[]){0}, true, value);
    Value *fresh = build_reshape(rewrite, build_transpose(rewrite, second, back, value), value->rank,
                                 (const Dim *const *)value->dims, value);
    if (!fresh || fresh->dtype != value->dtype)
        return value;
    pass_decide(
        rewrite->pass, "split", false, value, NULL, "one part alone",
        "a thread sums %lld places for all taps of an axis, of %lld parts, which another kernel adds up",
        (long long)(cut / parts * (n == 1 ? 1 : turns) * once), (long long)rows[0]->value);
    return fresh;
}
