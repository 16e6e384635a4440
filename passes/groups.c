/* Groups of a convolution, each of few channels, of which matrix instructions would multiply mostly zeros:
 * several are multiplied together.
 *
 * Forward, and back to the input, weights of several groups are one matrix, of zeros but where a group's own
 * are. It is stored, by a small kernel:
 *
 *     y = rows(windows t) @ w              [G, N P Q, R S C] @ [G, R S C, F]
 * ->  v = select(i == j, w, -0)            [G / q, q (j), F, R S, q (i), C], turned
 *     y = rows(windows t) @ v              [G / q, N P Q, R S q C] @ [G / q, R S q C, q F]
 *
 * A number of one group times the zeros of another is 0 but where it is infinite or none: there the product's
 * kernel leaves these out (ir/gaps.h). 3 x 3 taps on an H200, a group by itself (where that is of
 * at most 8 channels, by the kernel of reductions) and together: 64 x 56 x 56 x 128 of 8 channels 202 us and
 * 68, 64 x 28 x 28 x 192 of 24 84 and 43, 32 x 28 x 28 x 384 of 48 59 and 42.
 *
 * The gradient of weights: of all features with all channels of several groups, each group's own are taken
 * (64 x 28 x 28 x 192 of 24 channels: 548 us apart, 60 together):
 *
 *     dw = dy.T @ rows(windows t)          [G, F, N P Q] @ [G, N P Q, R S C]
 * ->  p = dy.T @ rows(windows t)           [G / q, q F, N P Q] @ [G / q, N P Q, R S q C]
 *     dw = sum(select(i == j, p, 0), j)    p as [G / q, q (i), F, R S, q (j), C]
 *
 * Where so few channels are all there are, products are done element by element, by kernels that reduce
 * windows (t as [N, P, Q, G, 1, C, R, S]):
 *
 *     y = sum(t * w, over C, R and S)      w as [G, F, C, R, S]
 *
 * This pass is the first, while rows are still as the library and the gradients write them. */
#include "ir/base/checked.h"
#include "passes/groups.h"

enum {
    GROUPS_FEW = 8,     /* channels that matrices would be mostly empty of */
    GROUPS_AT_ONCE = 64 /* channels times features that elements are quicker for */
};

/* Whether elements of so few channels are multiplied one by one. */
static bool groups_are_few(const Value *product, const WindowRows *rows) {
    const Value *first = product->in[0], *second = product->in[1];
    if (rows->windows->rank + 2 > RANK_MAX || !dtype_widens(first->dtype, product->dtype) ||
        !dtype_widens(second->dtype, product->dtype))
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

static Value *groups_forward(Rewrite *rewrite, Value *value, const WindowRows *rows) {
    bool is_few = groups_are_few(value, rows);
    int64_t together = groups_together(rewrite, value, rows, is_few);
    Value *made = together > 1 ? groups_multiplied(rewrite, value, rows, together) : NULL;
    if (made)
        pass_decide(rewrite->pass, "groups", true, made, NULL, NULL,
                    "of %lld channels a group, %lld groups are multiplied together, by weights that are zero "
                    "outside a group",
                    (long long)rows->channels->value, (long long)together);
    if (made || !is_few)
        return made;
    made = groups_by_elements(rewrite, rows, value);
    if (made)
        pass_decide(rewrite->pass, "groups", true, made, NULL, NULL,
                    "of %lld channels a group, products are done element by element",
                    (long long)rows->channels->value);
    return made;
}

static Value *groups_backward(Rewrite *rewrite, Value *value, const WindowRows *rows) {
    int64_t together = groups_gradient_together(rewrite, value, rows);
    Value *made = together > 1 ? groups_gradient_multiplied(rewrite, value, rows, together) : NULL;
    if (made)
        pass_decide(rewrite->pass, "groups", true, made, NULL, NULL,
                    "of %lld channels a group, %lld groups are multiplied together, and each one's own taken",
                    (long long)rows->channels->value, (long long)together);
    return made;
}

static Value *groups_rule(Rewrite *rewrite, Value *value) {
    WindowRows rows;
    if (value->op != OP_matmul || value->rank != 3 || !dtype_is_float(value->dtype) ||
        rewrite_has_schedule(rewrite->graph, value))
        return value;
    Value *made = NULL;
    if (groups_product(rewrite, value, &rows))
        made = groups_forward(rewrite, value, &rows);
    else if (groups_gradient(rewrite, value, &rows))
        made = groups_backward(rewrite, value, &rows);
    return made ? made : value;
}

bool pass_groups(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && pass->options->limits && pass->options->limits->has_tensor_cores &&
           rewrite_graph(pass, graph, groups_rule);
}
