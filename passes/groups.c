/* Groups of a convolution, each of few channels, of which matrix instructions would multiply mostly zeros.
 *
 * Forward, and back to the input, element by element, by kernels that reduce windows (t as [N, P, Q, G, 1, C,
 * R, S]; 3 x 3 taps of 32 groups on an H200: 64 x 56 x 56 x 128 623 us as products, 108 so, 64 x 28 x 28 x
 * 256 129 and 97):
 *
 *     y = rows(windows t) @ w              [G, N P Q, R S C] @ [G, R S C, F]
 * ->  y = sum(t * w, over C, R and S)      w as [G, F, C, R, S]
 *
 * The gradient of weights, of so many groups together that there are whole lines of channels; of all their
 * features with all their channels, each group's own are taken (16 groups of 64 x 28 x 28 x 256: 527 us
 * apart, 56 together):
 *
 *     dw = dy.T @ rows(windows t)          [G, F, N P Q] @ [G, N P Q, R S C]
 * ->  p = dy.T @ rows(windows t)           [G / q, q F, N P Q] @ [G / q, N P Q, R S q C]
 *     dw = sum(select(i == j, p, 0), j)    p as [G / q, q (i), F, R S, q (j), C]
 *
 * This pass is the first, while rows are still as the library and the gradients write them. */
#include "ir/base/checked.h"
#include "ir/window_rows.h"
#include "passes/rewrite.h"

enum {
    GROUPS_FEW = 8,           /* channels that matrices would be mostly empty of */
    GROUPS_AT_ONCE = 64,      /* channels times features that elements are quicker for */
    GROUPS_LINE = 64,         /* channels that are read as a line */
    GROUPS_PLACES_LEAST = 512 /* of a gradient of weights: fewer are little work */
};

/* ---- products of elements */

/* The rows that few channels give; false: they are no such rows. */
static bool groups_are_few(Rewrite *rewrite, const Value *product, WindowRows *rows) {
    const Value *first = product->in[0], *second = product->in[1];
    if (!window_rows(rewrite->graph->dims, first, rows) || !rows->grouped || second->rank != 3 ||
        second->dims[0] != rows->groups || rows->windows->rank + 2 > RANK_MAX ||
        !dim_is_const(rows->channels) || !dim_is_const(second->dims[2]) ||
        !dtype_widens(first->dtype, product->dtype) || !dtype_widens(second->dtype, product->dtype))
        return false;
    int64_t channels = rows->channels->value, features = second->dims[2]->value;
    return is_power_of_two(channels) && channels > 1 && channels <= GROUPS_FEW && features > 0 &&
           features <= GROUPS_AT_ONCE / channels;
}

/* Weights [G, R S C, F] as [G, F, C, R, S]. */
static Value *groups_weights(Rewrite *rewrite, const WindowRows *rows, Value *weights) {
    const Dim *apart[RANK_MAX] = {rows->groups};
    int n = rows->n, perm[RANK_MAX] = {0, n + 2, n + 1};
    for (int i = 0; i < n; i++) {
        apart[1 + i] = rows->windows->dims[n + 2 + i];
        perm[3 + i] = 1 + i;
    }
    apart[n + 1] = rows->channels;
    apart[n + 2] = weights->dims[2];
    Value *parts = build_reshape(rewrite, weights, n + 3, apart, weights);
    return parts ? build_transpose(rewrite, parts, perm, weights) : NULL;
}

/* [N, P, Q, G, F] as the product has it, [G, N P Q, F]. */
static Value *groups_batched(Rewrite *rewrite, const WindowRows *rows, Value *sum, const Value *product) {
    int n = rows->n, perm[RANK_MAX] = {n + 1};
    for (int i = 0; i <= n; i++)
        perm[1 + i] = i;
    perm[n + 2] = n + 2;
    Value *turned = build_transpose(rewrite, sum, perm, product);
    return turned ? build_reshape(rewrite, turned, 3, (const Dim *const *)product->dims, product) : NULL;
}

static Value *groups_by_elements(Rewrite *rewrite, const WindowRows *rows, const Value *product) {
    int n = rows->n, rank = 2 * n + 4, axes[RANK_MAX];
    const Value *t = rows->windows;
    const Dim *wide[RANK_MAX];
    for (int i = 0; i <= n; i++)
        wide[i] = t->dims[i];
    wide[n + 1] = rows->groups;
    wide[n + 2] = dim_const(rewrite->graph->dims, 1);
    wide[n + 3] = rows->channels;
    for (int i = 0; i < n; i++)
        wide[n + 4 + i] = t->dims[n + 2 + i];
    for (int i = 0; i <= n; i++)
        axes[i] = n + 3 + i;
    Value *windows = build_reshape(rewrite, rows->windows, rank, wide, product);
    Value *weights = groups_weights(rewrite, rows, product->in[1]);
    if (!windows || !weights)
        return NULL;
    windows = build_cast(rewrite, windows, product->dtype, product);
    weights = build_cast(rewrite, weights, product->dtype, product);
    Value *terms = windows && weights ? build_scalar(rewrite, OP_mul, windows, weights, NULL, product) : NULL;
    Value *sum = terms ? build_reduce(rewrite, OP_sum, terms, n + 1, axes, false, product) : NULL;
    return sum ? groups_batched(rewrite, rows, sum, product) : NULL;
}

/* ---- several groups together */

/* Of how many groups a gradient of weights is computed together; 1: of each by itself. */
static int64_t groups_together(Rewrite *rewrite, const Value *product, WindowRows *rows) {
    const Value *first = product->in[0];
    if (!window_rows(rewrite->graph->dims, product->in[1], rows) || !rows->grouped || first->rank != 3 ||
        first->dims[0] != rows->groups || first->dims[2] != rows->places || !dim_is_const(rows->channels) ||
        !dim_is_const(rows->groups) || dim_lower(rewrite->graph->dims, rows->places) < GROUPS_PLACES_LEAST)
        return 1;
    int64_t channels = rows->channels->value;
    int64_t together =
        channels > 0 && GROUPS_LINE % channels == 0 && channels % 4 == 0 ? GROUPS_LINE / channels : 1;
    return rows->groups->value % together == 0 ? together : 1;
}

/* The rows of so many groups together. */
static Value *groups_joined_rows(Rewrite *rewrite, const WindowRows *rows, int64_t together) {
    DimTable *table = rewrite->graph->dims;
    const Dim *groups = dim_const(table, rows->groups->value / together),
              *channels = dim_const(table, rows->channels->value * together);
    const Dim *parts[] = {rows->places, groups, channels, rows->taps};
    const Dim *whole[] = {groups, rows->places, dim_mul(table, rows->taps, channels)};
    Value *apart = build_reshape(rewrite, rows->windows, 4, parts, rows->windows);
    Value *turned = apart ? build_transpose(rewrite, apart, window_rows_order(1), rows->windows) : NULL;
    return turned ? build_reshape(rewrite, turned, 3, whole, rows->windows) : NULL;
}

/* Each group's own features and channels of p. */
static Value *groups_own(Rewrite *rewrite, const WindowRows *rows, int64_t together, Value *all,
                         const Value *product) {
    DimTable *table = rewrite->graph->dims;
    const Dim *q = dim_const(table, together);
    const Dim *apart[] = {all->dims[0], q, product->dims[1], rows->taps, q, rows->channels};
    enum { FEATURES_OF = 1, CHANNELS_OF = 4, RANK = 6 };
    Value *parts = build_reshape(rewrite, all, RANK, apart, product);
    Value *i = build_index(rewrite, RANK, apart, FEATURES_OF, product),
          *j = build_index(rewrite, RANK, apart, CHANNELS_OF, product);
    Value *zero = build_constant(rewrite, (Number){.f = 0}, product->dtype, product);
    Value *is_own = i && j ? build_scalar(rewrite, OP_eq, i, j, NULL, product) : NULL;
    Value *own =
        is_own && parts && zero ? build_scalar(rewrite, OP_select, is_own, parts, zero, product) : NULL;
    Value *sum = own ? build_reduce(rewrite, OP_sum, own, 1, (int[]){CHANNELS_OF}, false, product) : NULL;
    return sum ? build_reshape(rewrite, sum, 3, (const Dim *const *)product->dims, product) : NULL;
}

static Value *groups_multiplied(Rewrite *rewrite, const WindowRows *rows, int64_t together,
                                const Value *product) {
    DimTable *table = rewrite->graph->dims;
    const Value *first = product->in[0];
    const Dim *joined[] = {dim_const(table, rows->groups->value / together),
                           dim_mul(table, first->dims[1], dim_const(table, together)), first->dims[2]};
    Value *in[] = {build_reshape(rewrite, product->in[0], 3, joined, first),
                   groups_joined_rows(rewrite, rows, together)};
    Value *all = in[0] && in[1] ? build_like(rewrite, product, in) : NULL;
    return all ? groups_own(rewrite, rows, together, all, product) : NULL;
}

static Value *groups_rule(Rewrite *rewrite, Value *value) {
    WindowRows rows;
    if (value->op != OP_matmul || value->rank != 3 || !dtype_is_float(value->dtype) ||
        rewrite_has_schedule(rewrite->graph, value))
        return value;
    Value *made = NULL;
    if (groups_are_few(rewrite, value, &rows)) {
        made = groups_by_elements(rewrite, &rows, value);
        if (made)
            pass_decide(rewrite->pass, "groups", true, made, NULL, NULL,
                        "of %lld channels a group, products are done element by element",
                        (long long)rows.channels->value);
        return made ? made : value;
    }
    int64_t together = groups_together(rewrite, value, &rows);
    if (together > 1)
        made = groups_multiplied(rewrite, &rows, together, value);
    if (made)
        pass_decide(rewrite->pass, "groups", true, made, NULL, NULL,
                    "of %lld channels a group, %lld groups are multiplied together, and each one's own taken",
                    (long long)rows.channels->value, (long long)together);
    return made ? made : value;
}

bool pass_groups(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && pass->options->limits && pass->options->limits->has_tensor_cores &&
           rewrite_graph(pass, graph, groups_rule);
}
