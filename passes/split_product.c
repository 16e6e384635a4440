/* A reduction of a matrix product is done in parts, of a tile each, so that the kernel that multiplies does
 * them and the product is not read again, nor stored where nothing else needs it.
 *
 *     s = sum(y, over=1)                            y: [M, N], an expression over x @ w
 * ->  p = sum(reshape(y, dims=[M, N / 256, 256]), over=2)    by the product's kernel
 *     s = sum(p, over=1)                                     by a small one
 *
 * Down the columns the same with blocks of 16 rows, which is what a warp has of a tile. Where a block is not
 * full, y is padded first: by what the reduction ignores.
 *
 * The sum of a softmax refers to the maximum of its row, which no tile knows. It becomes sums that refer to
 * the maximum of the tile, brought to one reference afterwards ("Online normalizer calculation for softmax",
 * Milakov and Gimelshein, 2018):
 *
 *     m = reduce_max(x, over=1);  s = sum(exp(x - m), over=1)
 * ->  t = reduce_max(reshape(x), over=2);  r = sum(exp(reshape(x) - t), over=2)
 *     m = reduce_max(t, over=1);  s = sum(r * exp(t - m), over=1)
 *
 * product.c says for which reductions. */
#include "passes/fuse.h"

#include <math.h>

enum { PARTS_BLOCK = 1 << 18 /* parts that one block reduces well */ };

/* `operand` in blocks of `block` along `axis`, which becomes two. */
static Value *parts_cut(Rewrite *rewrite, Value *operand, int axis, int64_t block, Number identity,
                        const Value *like) {
    DimTable *table = rewrite->graph->dims;
    const Dim *extent = operand->dims[axis], *size = dim_const(table, block);
    const Dim *blocks = dim_ceil_div(table, extent, size), *whole = dim_mul(table, blocks, size);
    const Dim *low[RANK_MAX], *high[RANK_MAX], *dims[RANK_MAX];
    for (int i = 0; i < operand->rank; i++) {
        low[i] = high[i] = dim_const(table, 0);
        dims[i <= axis ? i : i + 1] = operand->dims[i];
    }
    if (whole != extent) {
        high[axis] = dim_sub(table, whole, extent);
        if (!dim_known_le(table, dim_const(table, 0), high[axis]))
            return NULL;
        Value *border = build_constant(rewrite, identity, operand->dtype, like);
        operand = build_pad(rewrite, operand, border, low, high, like);
    }
    dims[axis] = blocks;
    dims[axis + 1] = size;
    return operand ? build_reshape(rewrite, operand, operand->rank + 1, dims, like) : NULL;
}

/* What the reduction ignores, in the operand's type. */
static Number parts_identity(const Value *reduction) {
    DType type = reduction->in[0]->dtype;
    bool is_float = dtype_is_float(type);
    switch (reduction->op) {
    case OP_prod: return is_float ? (Number){.f = 1} : (Number){.i = 1};
    case OP_all: return (Number){.i = 1};
    case OP_reduce_min:
    case OP_argmin: return is_float ? (Number){.f = INFINITY} : (Number){.i = dtype_max_int(type)};
    case OP_reduce_max:
    case OP_argmax: return is_float ? (Number){.f = -INFINITY} : (Number){.i = dtype_min_int(type)};
    default: return is_float ? (Number){.f = 0} : (Number){.i = 0};
    }
}

/* The statistic of each block, [.., N / block, 1] or [.., M / block, 1, N]. */
static Value *parts_first(Rewrite *rewrite, OpKind op, Value *operand, const ProductReduction *at) {
    int axis = operand->rank - (at->part == PRODUCT_ROWS ? 1 : 2), inner = axis + 1;
    Value *cut = parts_cut(rewrite, operand, axis, at->block, parts_identity(at->value), at->value);
    return build_reduce(rewrite, op, cut, 1, &inner, true, at->value);
}

/* Without the axis of one element. */
static Value *parts_squeeze(Rewrite *rewrite, Value *parts, const ProductReduction *at) {
    const Dim *dims[RANK_MAX];
    if (!parts)
        return NULL;
    int one = parts->rank - (at->part == PRODUCT_ROWS ? 1 : 2);
    for (int i = 0; i < parts->rank; i++)
        if (i != one)
            dims[i < one ? i : i - 1] = parts->dims[i];
    return build_reshape(rewrite, parts, parts->rank - 1, dims, at->value);
}

/* The parts' own reduction, with the dims of the whole one. */
static Value *parts_second(Rewrite *rewrite, Value *squeezed, const ProductReduction *at) {
    const Value *value = at->value;
    if (squeezed && product_reduced(value) != value->in[0])
        squeezed = build_transpose(rewrite, squeezed, value->in[0]->attrs[0].ints, value);
    int n = value->attrs[0].axes.n, last = squeezed ? squeezed->rank - 1 : 0;
    const Value *operand = value->in[0];
    int64_t count = 1;
    bool is_more = false;
    for (int i = 0; i < operand->rank && !is_more; i++)
        is_more = __builtin_mul_overflow(count, product_extent(rewrite->graph, operand->dims[i]), &count);
    if (n > 1 && at->part == PRODUCT_ROWS &&
        (is_more || count / at->block > PARTS_BLOCK)) /* each row its own parts first */
        squeezed = build_reduce(rewrite, value->op, squeezed, 1, &last, true, value);
    Value *second = build_reduce(rewrite, value->op, squeezed, value->attrs[0].axes.n,
                                 value->attrs[0].axes.at, value->attrs[1].i, value);
    return second && second->dtype == value->dtype ? second : NULL;
}

static Value *parts_float(Rewrite *rewrite, double x, const Value *like) {
    return build_constant(rewrite, (Number){.f = x}, like->dtype, like);
}

/* x where it is finite, else 0. */
static Value *parts_finite(Rewrite *rewrite, Value *x, const Value *like) {
    Value *finite = build_scalar(rewrite, OP_isfinite, x, NULL, NULL, like);
    return build_scalar(rewrite, OP_select, finite, x, parts_float(rewrite, 0, x), like);
}

/* Each block's statistic for every element of the block, in the dims of `whole`. */
static Value *parts_repeat(Rewrite *rewrite, Value *parts, const Value *whole) {
    DimTable *table = rewrite->graph->dims;
    const Value *cut = parts->in[0], *padded = cut->in[0];
    const Dim *start[RANK_MAX];
    int step[RANK_MAX];
    Value *wide = build_broadcast(rewrite, parts, cut->rank, (const Dim *const *)cut->dims, whole);
    wide = build_reshape(rewrite, wide, padded->rank, (const Dim *const *)padded->dims, whole);
    for (int i = 0; i < whole->rank; i++) {
        start[i] = dim_const(table, 0);
        step[i] = 1;
    }
    return wide && !value_same_dims(wide, whole)
               ? build_slice(rewrite, wide, start, (const Dim *const *)whole->dims, step, whole)
               : wide;
}

/* sum(exp(x - g)), g from the maximum of x. A block of -inf alone has nothing to be brought to the reference:
 * its sum is what the elements themselves would give there. */
static Value *parts_exp_sum(Rewrite *rewrite, ProductReduction *at, Value *max_parts) {
    const Value *value = at->value;
    Value *shifted = value->in[0]->in[0], *x = shifted->in[0], *g = shifted->in[1];
    if (!max_parts)
        return NULL;
    Value *reference = parts_finite(rewrite, parts_repeat(rewrite, max_parts, x), value);
    at->parts = parts_first(rewrite, OP_sum, build_exp_below(rewrite, x, reference, value), at);
    Value *tops = parts_squeeze(rewrite, max_parts, at), *sums = parts_squeeze(rewrite, at->parts, at);
    if (!tops || !sums)
        return NULL;
    Value *scale = build_exp_below(rewrite, parts_finite(rewrite, tops, value), g, value);
    Value *scaled = build_scalar(rewrite, OP_mul, sums, scale, NULL, value);
    Value *none = build_scalar(rewrite, OP_eq, tops, parts_float(rewrite, -INFINITY, tops), NULL, value);
    Value *brought =
        build_scalar(rewrite, OP_select, none, build_exp_below(rewrite, tops, g, value), scaled, value);
    return parts_second(rewrite, brought, at);
}

/* The extremes of the blocks: those of a reduction of the graph, where it has it, else its own. */
static Value *parts_best(Rewrite *rewrite, const ProductReduction *at) {
    const ProductReductions *all = rewrite->pass->state;
    OpKind op = at->value->op == OP_argmax ? OP_reduce_max : OP_reduce_min;
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].value->op == op && all->at[i].part == PRODUCT_ROWS && all->at[i].parts &&
            all->at[i].value->in[0] == at->value->in[0])
            return all->at[i].parts;
    return parts_first(rewrite, op, at->value->in[0], at);
}

/* The number of the first best element: the first best block's, whose elements count from its start. */
static Value *parts_arg(Rewrite *rewrite, ProductReduction *at) {
    const Value *value = at->value;
    Value *best = parts_squeeze(rewrite, parts_best(rewrite, at), at);
    at->parts = parts_first(rewrite, value->op, value->in[0], at);
    Value *numbers = parts_squeeze(rewrite, at->parts, at);
    if (!best || !numbers)
        return NULL;
    int axis = best->rank - 1;
    Value *block = build_reduce(rewrite, value->op, best, 1, &axis, true, value);
    Value *index =
        block ? build_index(rewrite, best->rank, (const Dim *const *)best->dims, axis, value) : NULL;
    Value *is_it = build_scalar(rewrite, OP_eq, index, block, NULL, value);
    Value *zero = build_constant(rewrite, (Number){.i = 0}, value->dtype, value);
    Value *size = build_constant(rewrite, (Number){.i = at->block}, value->dtype, value);
    Value *within = build_scalar(rewrite, OP_select, is_it, numbers, zero, value);
    Value *first = build_scalar(rewrite, OP_mul, block, size, NULL, value);
    Value *sum = build_reduce(rewrite, OP_sum, within, 1, &axis, true, value);
    Value *number = build_scalar(rewrite, OP_add, first, sum, NULL, value);
    return build_reshape(rewrite, number, value->rank, (const Dim *const *)value->dims, value);
}

/* Elements of the block that each element along `axis` of `dims` is in, or each block of them: f32. */
static Value *parts_count(Rewrite *rewrite, const Value *like, int axis, const Dim *extent, int64_t block,
                          bool of_blocks) {
    Value *at = build_index(rewrite, like->rank, (const Dim *const *)like->dims, axis, like);
    Value *size = build_constant(rewrite, (Number){.i = block}, DTYPE_I32, like);
    Value *first = of_blocks ? build_scalar(rewrite, OP_mul, at, size, NULL, like)
                             : build_scalar(rewrite, OP_sub, at,
                                            build_scalar(rewrite, OP_mod, at, size, NULL, like), NULL, like);
    Value *end = build_dim(rewrite, extent, like);
    Value *rest = build_scalar(rewrite, OP_sub, build_cast(rewrite, end, DTYPE_I32, like), first, NULL, like);
    return build_cast(rewrite, build_scalar(rewrite, OP_min, rest, size, NULL, like), DTYPE_F32, like);
}

/* A sum's mean: over a full block, or over `count` elements where it may not be. */
static Value *parts_mean(Rewrite *rewrite, Value *sum, Value *count, int64_t block, const Value *like) {
    return count ? build_scalar(rewrite, OP_div, sum, count, NULL, like)
                 : build_scalar(rewrite, OP_mul, sum, parts_float(rewrite, 1.0 / (double)block, like), NULL,
                                like);
}

/* sum((x - g)^2): of each block around its own mean, brought to g by its distance (Chan, Golub and LeVeque,
 * 1983): the sum is that of each block's, and of count * (mean - g)^2. */
static Value *parts_square_sum(Rewrite *rewrite, ProductReduction *at, Value *first_parts) {
    const Value *value = at->value;
    Value *shifted = value->in[0]->in[0], *x = shifted->in[0], *g = shifted->in[1];
    Value *sums = first_parts ? parts_squeeze(rewrite, first_parts, at) : NULL;
    if (!sums || value->dtype != DTYPE_F32)
        return NULL;
    int axis = x->rank - (at->part == PRODUCT_ROWS ? 1 : 2);
    const Dim *extent = x->dims[axis];
    bool is_full = dim_divisor(rewrite->graph->dims, extent) % at->block == 0;
    Value *own = is_full ? NULL : parts_count(rewrite, x, axis, extent, at->block, false);
    Value *count = is_full ? NULL : parts_count(rewrite, sums, axis, extent, at->block, true);
    Value *mean = parts_mean(rewrite, parts_repeat(rewrite, first_parts, x), own, at->block, value);
    Value *d = build_scalar(rewrite, OP_sub, x, mean, NULL, value);
    at->parts = parts_first(rewrite, OP_sum, build_scalar(rewrite, OP_mul, d, d, NULL, value), at);
    Value *far =
        build_scalar(rewrite, OP_sub, parts_mean(rewrite, sums, count, at->block, value), g, NULL, value);
    Value *moved = build_scalar(rewrite, OP_mul, build_scalar(rewrite, OP_mul, far, far, NULL, value),
                                count ? count : parts_float(rewrite, (double)at->block, value), NULL, value);
    Value *squares = parts_squeeze(rewrite, at->parts, at);
    return parts_second(rewrite, build_scalar(rewrite, OP_add, squares, moved, NULL, value), at);
}

static Value *parts_rule(Rewrite *rewrite, Value *value) {
    const ProductReductions *all = rewrite->pass->state;
    ProductReduction *at = product_get(all, value);
    if (!at)
        return value;
    Value *fresh;
    const ProductReduction *first = at->first ? product_get(all, at->first) : NULL;
    if (at->form == PRODUCT_EXP_SUM) {
        fresh = parts_exp_sum(rewrite, at, first ? first->parts : NULL);
    } else if (at->form == PRODUCT_SQUARE_SUM) {
        fresh = parts_square_sum(rewrite, at, first ? first->parts : NULL);
    } else if (value->op == OP_argmax || value->op == OP_argmin) {
        fresh = parts_arg(rewrite, at);
    } else {
        at->parts = parts_first(rewrite, value->op, product_reduced(value), at);
        fresh = parts_second(rewrite, parts_squeeze(rewrite, at->parts, at), at);
    }
    if (!fresh || fresh->dtype != value->dtype || !value_same_dims(fresh, value))
        return value;
    pass_decide(
        rewrite->pass, "split_product", true, fresh, value, NULL,
        at->part == PRODUCT_ROWS
            ? "the product's kernel reduces %lld columns of each row at a time, another kernel their results"
            : "the product's kernel reduces %lld rows of each column at a time, another kernel their results",
        (long long)at->block);
    return fresh;
}

bool pass_split_product(Pass *pass, Graph *graph) {
    graph_renumber(graph);
    ProductReductions *found = product_find(pass, graph);
    pass->state = found;
    for (size_t i = 0; i < found->n_whole; i++) {
        bool is_row = found->whole[i].part == PRODUCT_ROWS;
        pass_decide(
            pass, "split_product", false, found->whole[i].value, NULL,
            is_row ? "statistics that nothing is applied to along the row"
                   : "reductions down the columns that do not wait for one another",
            is_row ? "what waits for the statistics of these rows reads them again, and takes them on the way"
                   : "one reduction of these columns waits for another, and reads the product again");
    }
    return found->n && rewrite_graph(pass, graph, parts_rule);
}
