/* Sums of squares around a mean, down long columns, over groups of columns (split_groups.c) or long rows: in
 * parts around means of their own, so that memory is read once for both (Chan, Golub and LeVeque, 1983),
 * where the mean would have to be known before.
 *
 *     m = sum(x, over=0);  s = sum((x - g)^2, over=0)                       x: [R, C], g made of m
 * ->  p = sum(reshape(x, [P, n, C]), over=1);  q = sum((reshape(x) - p / n)^2, over=1)     by one kernel
 *     m = sum(p, over=0);  s = sum(q + (p - n * g)^2 / n, over=0)                          by a small one
 *
 * A part is so short that L1, or its block, still holds it when its mean is known. */
#include "passes/fuse.h"
#include "passes/split.h"

enum {
    SQUARES_ROWS_LEAST = 128,
    SQUARES_COLUMN_BYTES = 512, /* of a part; twice as many where nothing else divides the rows */
    SQUARES_ROWS = 4096,        /* that are worth a kernel more */
    SQUARES_ROW_PART = 16384,   /* elements of a part of a row */
    SQUARES_TOTAL = 1 << 20,
};

struct SplitSquares {
    ValueMap parts; /* of sums of squares, and of the sums that their means come from */
};

/* x - g in a sum of its squares, g being the same for all that is summed; NULL: it is none. */
static const Value *squares_difference(const SplitGroups *groups, const Value *value, SplitRun *run) {
    const Value *square = value->op == OP_sum ? value->in[0] : NULL;
    const Value *d = square && square->op == OP_mul && square->in[0] == square->in[1] ? square->in[0] : NULL;
    if (!d || d->op != OP_sub || !value->attrs[1].i || value->dtype != DTYPE_F32 ||
        !split_run(groups, value, run) || !value_same_dims(d->in[0], d) || d->in[1]->rank != d->rank)
        return NULL;
    for (int i = 0; i < d->rank; i++)
        if (!dim_is_const(d->dims[i]) || d->in[1]->dims[i] != value->dims[i])
            return NULL;
    return d;
}

/* The sum of the same elements that g is made of. */
static const Value *squares_sum(const Graph *graph, const Value *squares, const Value *d) {
    for (size_t i = 0; i < graph->values.n && graph->values.at[i] != squares; i++) {
        const Value *sum = graph->values.at[i];
        if (sum->op == OP_sum && sum->in[0] == d->in[0] && sum->attrs[1].i && value_same_dims(sum, squares) &&
            value_is_computed_from(d->in[1], sum))
            return sum;
    }
    return NULL;
}

/* Parts that a block reads once; 0: too little is summed, or nothing divides it. */
static int64_t squares_parts(const SplitRun *run, const Value *x) {
    int64_t most = SQUARES_COLUMN_BYTES * 8 / dtype_bits(x->dtype);
    if (run->is_row && !run->is_group)
        return split_row_parts(run, SQUARES_ROW_PART);
    if (!run->is_group && (run->rows < SQUARES_ROWS || run->rows * run->kept < SQUARES_TOTAL))
        return 0;
    for (int64_t own = most; own >= SQUARES_ROWS_LEAST; own--)
        if (run->rows % own == 0)
            return run->rows / own;
    for (int64_t own = most + 1; own <= 2 * most; own++)
        if (run->rows % own == 0)
            return run->rows / own;
    return 0;
}

const SplitSquares *split_squares_find(Pass *pass, const Graph *graph, const SplitGroups *groups) {
    SplitSquares *found = ARENA_NEW(pass->arena, SplitSquares);
    *found = (SplitSquares){.parts.arena = pass->arena};
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        SplitRun run;
        const Value *d = squares_difference(groups, value, &run);
        const Value *sum = d ? squares_sum(graph, value, d) : NULL;
        int64_t parts = sum ? squares_parts(&run, d->in[0]) : 0;
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

Value *split_squares_apply(Rewrite *rewrite, const SplitGroups *groups, Value *value, int64_t parts) {
    SplitRun run;
    const Value *d = squares_difference(groups, value, &run);
    if (!d)
        return value;
    DimTable *table = rewrite->graph->dims;
    const Dim *kept[RANK_MAX];
    double rows = (double)(run.rows / parts);
    Value *x = split_cut(rewrite, d->in[0], &run, parts, value),
          *sum = split_reduce_rows(rewrite, OP_sum, x, &run, value);
    if (!sum || sum->dtype != DTYPE_F32)
        return value;
    Value *each = build_constant(rewrite, (Number){.f = 1 / rows}, DTYPE_F32, value),
          *count = build_constant(rewrite, (Number){.f = rows}, DTYPE_F32, value);
    Value *own = build_scalar(rewrite, OP_mul, sum, each, NULL, value);
    own = build_scalar(rewrite, OP_sub, x, own, NULL, value);
    own = build_scalar(rewrite, OP_mul, own, own, NULL, value);
    own = split_parts_of(rewrite, split_reduce_rows(rewrite, OP_sum, own, &run, value), &run, parts, value);
    sum = split_parts_of(rewrite, sum, &run, parts, value);
    if (!sum)
        return value;
    for (int i = 0; i < sum->rank; i++)
        kept[i] = i < run.at       ? value->dims[i]
                  : i < run.at + 2 ? dim_const(table, 1)
                                   : value->dims[i + run.n - 2];
    Value *g = build_reshape(rewrite, d->in[1], sum->rank, kept, value);
    g = build_scalar(rewrite, OP_mul, g, count, NULL, value);
    Value *far = build_scalar(rewrite, OP_sub, sum, g, NULL, value);
    far = build_scalar(rewrite, OP_mul, build_scalar(rewrite, OP_mul, far, far, NULL, value), each, NULL,
                       value);
    return split_joined(rewrite, build_scalar(rewrite, OP_add, own, far, NULL, value), &run, value);
}
