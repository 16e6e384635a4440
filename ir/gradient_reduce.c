/* The gradients of casts, reductions and products of matrices. */
#include "ir/gradient_internal.h"

void gradient_none(Gradient *g) {
    (void)g;
}

void gradient_cast(Gradient *g) {
    gradient_give(g, 0, g->dy);
}

/* ---- reductions ---- */

/* Which axes y reduces. */
static void gradient_over_axes(const Gradient *g, bool *over) {
    const Attr *axes = &g->value->attrs[0];
    for (int i = 0; i < RANK_MAX; i++)
        over[i] = false;
    for (int i = 0; i < axes->axes.n; i++)
        over[axes->axes.at[i]] = true;
}

/* y or what has its dims, with the reduced axes as 1. */
static Value *gradient_kept(Gradient *g, Value *value, const bool *over) {
    const Value *x = g->value->in[0];
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        dims[i] = over[i] ? dim_const(g->graph->dims, 1) : x->dims[i];
    return derive_reshape(g, value, x->rank, dims);
}

static Value *gradient_like_operand(Gradient *g, Value *value) {
    const Value *x = g->value->in[0];
    return derive_broadcast(g, value, x->rank, (const Dim *const *)x->dims);
}

void gradient_sum(Gradient *g) {
    bool over[RANK_MAX];
    if (gradient_of_channels(g))
        return;
    gradient_over_axes(g, over);
    gradient_give(g, 0, gradient_like_operand(g, gradient_kept(g, g->dy, over)));
}

/* The product of the others: y / x unless there is a zero, of which there may then be no other. */
void gradient_prod(Gradient *g) {
    Value *x = g->value->in[0], *zero = derive_number(g, 0), *one = derive_number(g, 1);
    bool over[RANK_MAX];
    gradient_over_axes(g, over);
    Value *is_zero = derive_scalar(g, OP_eq, x, zero, NULL);
    Value *rest = derive_reduced(g, OP_prod, derive_scalar(g, OP_select, is_zero, one, x), over, true);
    Value *zeros = derive_reduced(g, OP_sum, derive_scalar(g, OP_select, is_zero, one, zero), over, true);
    Value *alone = derive_scalar(g, OP_select, derive_scalar(g, OP_eq, zeros, one, NULL), rest, zero);
    Value *among = derive_scalar(g, OP_select, derive_scalar(g, OP_eq, zeros, zero, NULL),
                                 derive_scalar(g, OP_div, rest, x, NULL), zero);
    Value *others = derive_scalar(g, OP_select, is_zero, alone, among);
    gradient_give(g, 0, derive_scalar(g, OP_mul, gradient_kept(g, g->dy, over), others, NULL));
}

/* reduce_min and reduce_max: all that are as large as the largest have an equal share. */
void gradient_extreme(Gradient *g) {
    Value *x = g->value->in[0], *zero = derive_number(g, 0), *one = derive_number(g, 1);
    bool over[RANK_MAX];
    gradient_over_axes(g, over);
    Value *is_largest = derive_scalar(g, OP_eq, x, gradient_kept(g, g->value, over), NULL);
    Value *count = derive_reduced(g, OP_sum, derive_scalar(g, OP_select, is_largest, one, zero), over, true);
    Value *share = derive_scalar(g, OP_div, gradient_kept(g, g->dy, over), count, NULL);
    gradient_give_cut(g, 0, derive_scalar(g, OP_select, is_largest, share, zero));
}

/* ---- products of matrices: y[.., M, N] = a[.., M, K] @ b[.., K, N] ---- */

DType gradient_factor_type(const Gradient *g, DType operand) {
    if (g->dy->dtype != DTYPE_F32)
        return DTYPE_COUNT;
    if (dtype_is_fp8(operand))
        return DTYPE_BF16;
    return operand == DTYPE_F16 || operand == DTYPE_BF16 || operand == DTYPE_TF32 ? operand : DTYPE_COUNT;
}

/* Whether an operand is a transposed matrix, rounded or not. */
static bool gradient_is_swapped(const Value *value) {
    if (value->op == OP_cast)
        value = value->in[0];
    bool swapped = value->op == OP_transpose;
    for (int i = 0; swapped && i < value->rank; i++)
        swapped = value->attrs[0].ints[i] == (i < value->rank - 2 ? i : 2 * value->rank - 3 - i);
    return swapped;
}

/* left @ right, where the gradient of `operand` is wanted; of an operand that is itself transposed, the
 * product is built so that the two transposes meet. */
static Value *gradient_product_for(Gradient *g, const Value *operand, Value *left, Value *right) {
    if (!gradient_is_swapped(operand))
        return derive_product(g, left, right);
    return derive_swapped(g, derive_product(g, derive_swapped(g, right), derive_swapped(g, left)));
}

/* Of the axes before the last two, those that b has fewer elements of than y are, from the last on, rows of
 * the product that sums over them: a [B, S, M, K] and dy [B, S, M, N] for b [B, 1, K, N] become [B, 1, S * M,
 * K] and [B, 1, S * M, N]. Axes of one are dropped where nothing stands before them. */
static Value *gradient_rows_joined(Gradient *g, Value *x, const Value *b, const Value *y) {
    DimTable *table = g->graph->dims;
    const Dim *dims[RANK_MAX], *rows = x->dims[x->rank - 2], *one = dim_const(table, 1);
    int shift = y->rank - x->rank, b_shift = y->rank - b->rank, batch = x->rank - 2;
    bool ends = false;
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    int axis = batch - 1;
    for (; axis >= 0 && !ends; axis--) {
        const Dim *of_b = axis + shift >= b_shift ? b->dims[axis + shift - b_shift] : one;
        if (of_b == y->dims[axis + shift])
            break;
        ends = of_b != one;
        rows = dim_mul(table, rows, ends ? dim_div(table, dims[axis], of_b) : dims[axis]);
        dims[axis] = of_b;
    }
    dims[batch] = rows;
    int dropped = axis < 0 && !ends ? batch : 0;
    return derive_reshape(g, x, x->rank - dropped, dims + dropped);
}

static void gradient_matmul_left(Gradient *g) {
    Value *a = g->value->in[0], *b = g->value->in[1];
    DType type = gradient_factor_type(g, b->dtype);
    Value *dy = g->dy;
    if (type != DTYPE_COUNT) {
        dy = derive_cast(g, dy, type);
        b = derive_cast(g, b, type);
    }
    if (!gradient_of_convolved(g, dy, b))
        gradient_give(g, 0, gradient_product_for(g, a, dy, derive_swapped(g, b)));
}

static void gradient_matmul_right(Gradient *g) {
    Value *a = g->value->in[0], *b = g->value->in[1];
    DType type = gradient_factor_type(g, a->dtype);
    Value *dy = g->dy;
    if (type != DTYPE_COUNT) {
        dy = derive_cast(g, dy, type);
        a = derive_cast(g, a, type);
    }
    Value *rows = gradient_rows_joined(g, a, b, g->value);
    Value *dy_rows = gradient_rows_joined(g, dy, b, g->value);
    gradient_give(g, 1, gradient_product_for(g, b, derive_swapped(g, rows), dy_rows));
}

void gradient_matmul(Gradient *g) {
    g->is_cut = false; /* its sums have what was taken, too */
    if (gradient_wants(g, 0))
        gradient_matmul_left(g);
    if (gradient_wants(g, 1))
        gradient_matmul_right(g);
}
