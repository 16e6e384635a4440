/* Windows that no copy engine follows are written to memory as a matrix, where the product's kernel would
 * compute each element of them (im2col):
 *
 *     dw = dy.T @ rows(windows(x))             x: bf16[64, 224, 224, 3], windows of 7 x 7 channels of 3
 * ->  p = pad(rows(windows(x)), 0, high=[0, 13])                          a kernel: rows of whole sectors
 *     dw = dy.T @ p[:, 0:147]                                             a view
 *
 * as a network's first layer has them, of images of three channels: neighbours of 6 bytes, where TMA
 * takes 16. Along K, as in the gradient of weights, it is done wherever that takes longer: few tiles have all
 * of K, which nobody shares. Along M only where windows do not overlap (patches of a transformer for images),
 * so that what is written is no more than the image.
 *
 * What multiplies windows that TMA does follow and is none itself for its rows of three features, or of ten,
 * is copied to rows of whole sectors: with it, these windows would be computed, too. */
#include <math.h>

#include "ir/windows.h"
#include "passes/fuse.h"
#include "passes/realign.h"

/* Seconds an element of K that is computed by the few tiles there are; operations a second of such products,
 * and of those of what lies in memory; elements copied, and bytes moved, a second. */
static const double unfold_step = 4.5e-9, unfold_computed = 130e12, unfold_stored = 400e12,
                    unfold_elements = 1e12, unfold_bytes = 3e12;

/* Elements of windows a second that are computed beside such an operand, and that are brought. */
static const double unfold_windows = 1e12, unfold_brought = 3.4e12;

enum { UNFOLD_ROW = 16 /* elements of a sector */, UNFOLD_PIECE = 8 /* that TMA takes */ };

static const double unfold_most = 2e9; /* elements of such a matrix: memory that a caller may have to spare */

/* The tensor in memory that it is windows of; NULL: it is none. */
static const Value *unfold_base(const Value *value) {
    bool has_window = false;
    while (value->op == OP_reshape || value->op == OP_transpose || value->op == OP_window ||
           value->op == OP_pad || value->op == OP_slice) {
        has_window |= value->op == OP_window;
        value = value->in[0];
    }
    return has_window && value->op == OP_input ? value : NULL;
}

/* Whether the rows of an operand, as memory has it, are along K. */
static bool unfold_is_along_k(const Value *product, int i) {
    return (i == 1) != (product->in[i]->op == OP_transpose);
}

/* The product with that matrix, its operand i or what it is a transpose of, copied to rows of whole sectors.
 */
static Value *unfold_copied(Rewrite *rewrite, Value *product, int i, Value *matrix, Value **copy) {
    Value *operand = product->in[i], *in[2] = {product->in[0], product->in[1]};
    *copy = realign_copied(rewrite, matrix, UNFOLD_ROW - matrix->dims[1]->value % UNFOLD_ROW);
    in[i] = *copy && operand != matrix ? build_like(rewrite, operand, copy) : *copy;
    return in[i] ? build_like(rewrite, product, in) : NULL;
}

/* Seconds that the product takes less where its operand i, or what it is a transpose of, lies in memory. */
static double unfold_gain(const Value *product, int i, const Value *matrix, const Value *base) {
    double operations = realign_operations(product), elements = realign_count(matrix);
    double bytes = 2 * (elements + realign_count(product->in[!i])) + 4 * realign_count(product);
    double computed = operations / unfold_computed;
    if (elements > unfold_most)
        return 0;
    if (unfold_is_along_k(product, i))
        computed = fmax(computed, (double)matrix->dims[0]->value * unfold_step);
    else if (elements > realign_count(base))
        return 0;
    double stored = fmax(operations / unfold_stored, bytes / unfold_bytes) + 2 * realign_launch;
    return computed - stored - (elements / unfold_elements + realign_launch);
}

/* A product of windows that TMA follows with its operand i copied, where rows of that lie along M or N and
 * are no multiple of what TMA takes; NULL where they are, or it does not pay. */
static Value *unfold_beside(Rewrite *rewrite, Value *product, int i) {
    Value *other = product->in[!i], *base = realign_base(product->in[i]), *copy;
    Windows windows;
    if (!unfold_is_along_k(product, i) || base->rank != 2 || !dim_is_const(base->dims[0]) ||
        !dim_is_const(base->dims[1]) || base->dims[1]->value % UNFOLD_PIECE == 0 ||
        dtype_bits(base->dtype) != 16 || !unfold_base(other) ||
        !windows_of(rewrite->graph, other, !i, i, view_is_input, NULL, &windows))
        return NULL;
    int64_t columns = base->dims[1]->value, missing = UNFOLD_ROW - columns % UNFOLD_ROW;
    double gain = realign_count(other) * (1 / unfold_windows - 1 / unfold_brought) -
                  (double)base->dims[0]->value * (double)(columns + missing) / unfold_elements -
                  realign_launch;
    Value *fresh = gain > 0 ? unfold_copied(rewrite, product, i, base, &copy) : NULL;
    if (fresh)
        pass_decide(
            rewrite->pass, "unfold", false, copy, base, "a multiple of eight columns",
            "rows of %lld elements begin anywhere, so they are copied to longer ones, which by the estimate "
            "takes %.0f us less than computing the windows that they are multiplied with",
            (long long)columns, gain * 1e6);
    return fresh;
}

/* A product of windows that TMA does not follow with those, its operand i, copied; NULL likewise. */
static Value *unfold_matrix(Rewrite *rewrite, Value *product, int i) {
    Value *operand = product->in[i], *matrix = realign_base(operand), *copy;
    const Value *base = unfold_base(matrix);
    Windows windows;
    if (!base || operand->rank != 2 || dtype_bits(operand->dtype) != 16 || realign_operations(product) == 0)
        return NULL;
    double gain = unfold_gain(product, i, matrix, base);
    if (gain <= 0 || windows_of(rewrite->graph, operand, i, !i, view_is_input, NULL, &windows))
        return NULL;
    Value *fresh = unfold_copied(rewrite, product, i, matrix, &copy);
    if (fresh)
        pass_decide(
            rewrite->pass, "unfold", false, copy, matrix, "channels in multiples of 16 bytes",
            "no copy engine follows its windows of %lld elements, so they are written to memory first, which "
            "by the estimate takes %.0f us less than computing them where they are multiplied",
            (long long)matrix->dims[1]->value, gain * 1e6);
    return fresh;
}

static Value *unfold_rule(Rewrite *rewrite, Value *product) {
    const bool *is_counted = rewrite->pass->state; /* @expect is about the kernels that were there without */
    if (product->op != OP_matmul || product->rank != 2 || product->id >= rewrite->n_before ||
        is_counted[product->id] || !product_uses_tensor_cores(rewrite->pass->options->limits, product))
        return product;
    for (int i = 0; i < 2; i++) {
        Value *fresh = unfold_beside(rewrite, product, i);
        if (!fresh)
            fresh = unfold_matrix(rewrite, product, i);
        if (fresh)
            return fresh;
    }
    return product;
}

bool pass_unfold(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion)
        return false;
    graph_renumber(graph);
    pass->state = fuse_mark_hinted(pass->arena, graph, hint_is_expect);
    return rewrite_graph(pass, graph, unfold_rule);
}
