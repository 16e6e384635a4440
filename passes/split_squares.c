/* Sums of squares around a mean, down long columns: in parts around means of their own, so that the columns
 * are read once for both (Chan, Golub and LeVeque, 1983), where the mean would have to be known before.
 *
 *     m = sum(x, over=0);  s = sum((x - g)^2, over=0)                       x: [R, C], g made of m
 * ->  p = sum(reshape(x, [P, n, C]), over=1);  q = sum((reshape(x) - p / n)^2, over=1)     by one kernel
 *     m = sum(p, over=0);  s = sum(q + n * (p / n - g)^2, over=0)                          by a small one
 *
 * A part is so short that L1 still holds it when its mean is known. */
#include "passes/fuse.h"
#include "passes/split.h"

enum {
    SQUARES_ROWS_LEAST = 128,
    SQUARES_COLUMN_BYTES = 1024, /* of a part */
    SQUARES_ROWS = 4096,         /* that are worth a kernel more */
    SQUARES_TOTAL = 1 << 20,
};

struct SplitSquares {
    ValueMap parts; /* of sums of squares, and of the sums that their means come from */
};

/* x - g in a sum of its squares down the columns, g being the columns'; NULL: it is none. */
static const Value *squares_difference(const Value *value) {
    int n_reduced;
    const Value *square = value->op == OP_sum ? value->in[0] : NULL;
    const Value *d = square && square->op == OP_mul && square->in[0] == square->in[1] ? square->in[0] : NULL;
    if (!d || d->op != OP_sub || !value->attrs[1].i || value->dtype != DTYPE_F32 ||
        reduction_layout(value, &n_reduced) != REDUCTION_COLUMNS || !value_same_dims(d->in[0], d) ||
        d->in[1]->rank != d->rank)
        return NULL;
    for (int i = 0; i < d->rank; i++)
        if (!dim_is_const(d->dims[i]) || d->in[1]->dims[i] != (i < n_reduced ? value->dims[i] : d->dims[i]))
            return NULL;
    return d;
}

/* The sum of the same columns that g is made of. */
static const Value *squares_sum(const Graph *graph, const Value *squares, const Value *d) {
    for (size_t i = 0; i < graph->values.n && graph->values.at[i] != squares; i++) {
        const Value *sum = graph->values.at[i];
        if (sum->op == OP_sum && sum->in[0] == d->in[0] && sum->attrs[1].i && value_same_dims(sum, squares) &&
            value_is_computed_from(d->in[1], sum))
            return sum;
    }
    return NULL;
}

/* Parts of columns of so many elements of x; 0: too few, or none divide them. */
static int64_t squares_parts(const Value *squares, const Value *x) {
    int64_t rows, kept, all, most = SQUARES_COLUMN_BYTES * 8 / dtype_bits(x->dtype);
    if (!split_counts(squares, &rows, &kept) || __builtin_mul_overflow(rows, kept, &all) ||
        rows < SQUARES_ROWS || all < SQUARES_TOTAL)
        return 0;
    for (int64_t own = most; own >= SQUARES_ROWS_LEAST; own--)
        if (rows % own == 0)
            return rows / own;
    return 0;
}

const SplitSquares *split_squares_find(Pass *pass, const Graph *graph) {
    SplitSquares *found = ARENA_NEW(pass->arena, SplitSquares);
    *found = (SplitSquares){.parts.arena = pass->arena};
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        const Value *d = squares_difference(value);
        const Value *sum = d ? squares_sum(graph, value, d) : NULL;
        int64_t parts = sum ? squares_parts(value, d->in[0]) : 0;
        if (parts > 1 && parts <= INT32_MAX) {
            value_map_set(&found->parts, value, (int)parts);
            value_map_set(&found->parts, sum, (int)parts);
        }
    }
    return found;
}

int64_t split_squares_get(const SplitSquares *found, const Value *value) {
    return value_map_get(&found->parts, value);
}

Value *split_squares_apply(Rewrite *rewrite, Value *value, int64_t parts) {
    DimTable *table = rewrite->graph->dims;
    int n_reduced, rank = 2, part = 0, inner = 1;
    int64_t rows, columns;
    const Value *d = squares_difference(value);
    if (!d || !split_counts(value, &rows, &columns))
        return value;
    Value *x = d->in[0];
    const Dim *dims[RANK_MAX], *kept[RANK_MAX];
    reduction_layout(value, &n_reduced);
    if (x->rank - n_reduced + rank > RANK_MAX)
        return value;
    for (int i = n_reduced; i < x->rank; i++, rank++)
        dims[rank] = kept[rank] = x->dims[i];
    double n = (double)(rows / parts);
    dims[0] = dim_const(table, parts);
    dims[1] = dim_const(table, rows / parts);
    kept[0] = kept[1] = dim_const(table, 1);
    Value *cut = build_reshape(rewrite, x, rank, dims, value),
          *g = build_reshape(rewrite, d->in[1], rank, kept, value);
    Value *sum = build_reduce(rewrite, OP_sum, cut, 1, &inner, true, value);
    if (!sum || !g || sum->dtype != DTYPE_F32)
        return value;
    Value *each = build_constant(rewrite, (Number){.f = 1 / n}, DTYPE_F32, value),
          *count = build_constant(rewrite, (Number){.f = n}, DTYPE_F32, value);
    Value *mean = build_scalar(rewrite, OP_mul, sum, each, NULL, value);
    Value *own = build_scalar(rewrite, OP_sub, cut, mean, NULL, value);
    own = build_reduce(rewrite, OP_sum, build_scalar(rewrite, OP_mul, own, own, NULL, value), 1, &inner, true,
                       value);
    Value *far = build_scalar(rewrite, OP_sub, mean, g, NULL, value);
    far = build_scalar(rewrite, OP_mul, build_scalar(rewrite, OP_mul, far, far, NULL, value), count, NULL,
                       value);
    Value *whole = build_scalar(rewrite, OP_add, own, far, NULL, value);
    whole = build_reduce(rewrite, OP_sum, whole, 1, &part, true, value);
    Value *fresh = build_reshape(rewrite, whole, value->rank, (const Dim *const *)value->dims, value);
    return fresh && fresh->dtype == value->dtype ? fresh : value;
}
