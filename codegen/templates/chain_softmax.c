/* A softmax in parts (chain_stream.c): what a warpgroup does in its registers between the two products. */
#include "codegen/reduce.h"
#include "codegen/templates/chain_stream.h"

#include <math.h>

void stream_find_scores(Stream *s) {
    const MatmulPlan *plan = &s->plan->link[0];
    Value *x = s->plan->softmax.x;
    softmax_band(plan->graph->dims, x, &s->band, &s->held);
    for (int i = 0; i < s->band.n; i++) {
        s->is_ragged = s->is_ragged || s->band.limit[i].by_row;
        s->may_see_none = s->may_see_none || s->band.limit[i].n_numbers;
    }
    s->masks = s->held != x;
    s->by = 1;
    double by;
    if (s->held->op == OP_mul && s->held->in[0] == plan->core[0] && value_is_constant(s->held->in[1], &by) &&
        by > 0 && isfinite((float)(by * M_LOG2E))) {
        s->held = s->held->in[0];
        s->by = by;
    }
}

void stream_declare_tile(Stream *s) {
    Builder *b = s->b;
    const KExpr *zero = k_float(b, K_F32, 0);
    // zeros cost nothing, as the first product reads none of them; unwritten, they are kept from one tile to the next
    s->scores = k_array(b, "scores", K_F32, s->schedule->tile_k / 2, zero);
    s->packed = k_array(b, "packed", K_U32, s->schedule->tile_k / 4, NULL);
    s->sums = k_array(b, "sums", K_F32, s->schedule->tile_n / 2, zero);
    s->top = k_array(b, "top", K_F32, STREAM_HALVES, k_float(b, K_F32, -INFINITY));
    s->total = k_array(b, "total", K_F32, STREAM_HALVES, zero);
    s->scale = k_array(b, "scale", K_F32, STREAM_HALVES, zero);
}

/* Each element that the thread has of 8 columns times `groups`, with its row and place in the registers. */
typedef struct StreamEach {
    const KExpr *group, *half, *j, *at;
} StreamEach;

static StreamEach stream_each_begin(Stream *s, int columns) {
    Builder *b = s->b;
    StreamEach each;
    each.group = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, columns / 8), 1, UNROLL_FULL);
    each.half = k_for_begin(b, "h", k_i32(b, 0), k_i32(b, STREAM_HALVES), 1, UNROLL_FULL);
    each.j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, 2), 1, UNROLL_FULL);
    const KExpr *row = k_add(b, k_mul(b, each.group, k_i32(b, STREAM_HALVES)), each.half);
    each.at = k_add(b, k_mul(b, row, k_i32(b, 2)), each.j);
    return each;
}

static void stream_each_end(Stream *s) {
    for (int i = 0; i < 3; i++)
        k_end(s->b);
}

void stream_scale_sums(Stream *s) {
    Builder *b = s->b;
    StreamEach each = stream_each_begin(s, s->schedule->tile_n);
    k_set_elem(b, s->sums, each.at, k_mul(b, k_elem(b, s->sums, each.at), k_elem(b, s->scale, each.half)));
    stream_each_end(s);
}

/* Where `some` of the warp's elements in the part lie beyond, those whose column less what `limit` adds to
 * their row is above or below it become -inf. */
static void stream_mask(Stream *s, const StreamAt *at, const KExpr *some, const KExpr *limit, bool by_row,
                        bool is_above) {
    Builder *b = s->b;
    k_if_begin(b, some);
    /* of a column less the part's first: what is constant for an unrolled element stands on one side */
    const KExpr *own = k_sub(b, limit, k_add(b, at->col, at->lane_col));
    own = k_let_expr(b, "mask_limit", by_row ? k_add(b, own, at->lane_row) : own);
    StreamEach each = stream_each_begin(s, s->schedule->tile_k);
    const KExpr *col = k_add(b, k_mul(b, each.group, k_i32(b, 8)), each.j);
    if (by_row)
        col = k_sub(b, col, k_mul(b, each.half, k_i32(b, 8)));
    const KExpr *inside = is_above ? k_ge(b, own, col) : k_ge(b, col, own);
    k_set_elem(b, s->scores, each.at,
               k_select(b, inside, k_elem(b, s->scores, each.at), k_float(b, K_F32, -INFINITY)));
    stream_each_end(s);
    k_end(b);
}

/* Elements beyond the band, and beyond the last column. */
static void stream_mask_part(Stream *s, const StreamAt *at) {
    enum { WARP_ROWS = 16 };
    Builder *b = s->b;
    const Dim *n = s->plan->link[0].n;
    const KExpr *last = k_add(b, at->col, k_i32(b, s->schedule->tile_k - 1));
    for (int i = 0; i < s->band.n && s->masks; i++) {
        const BandLimit *limit = &s->band.limit[i];
        const KExpr *own = limit->by_row ? k_add(b, at->warp_row, s->limit[i]) : s->limit[i];
        if (limit->by_row && !limit->is_most)
            own = k_add(b, own, k_i32(b, WARP_ROWS - 1));
        const KExpr *some = limit->is_most ? k_lt(b, own, last) : k_lt(b, at->col, own);
        stream_mask(s, at, some, s->limit[i], limit->by_row, limit->is_most);
    }
    if (dim_divisor(s->plan->graph->dims, n) % s->schedule->tile_k != 0) {
        const KExpr *limit = k_sub(b, k_dim(b, n, K_I32), k_i32(b, 1));
        stream_mask(s, at, k_lt(b, limit, last), limit, false, true);
    }
}

/* The rows' largest elements with those of this part, and what the sums so far are scaled by. Rows of which
 * all is -inf so far count from 0. */
static void stream_find_top(Stream *s, const KVar *base) {
    Builder *b = s->b;
    const Value *max = s->plan->softmax.max;
    PartialVars tops = reduce_declare(b, max, "part_top", 2 * STREAM_HALVES, K_I32);
    StreamEach each = stream_each_begin(s, s->schedule->tile_k);
    const KExpr *column = k_add(b, k_mul(b, each.half, k_i32(b, 2)), each.j);
    reduce_take(b, max, tops, column, k_elem(b, s->scores, each.at), NULL, NULL);
    stream_each_end(s);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half), *own = k_i32(b, 2 * half);
        reduce_into(b, max, tops, own, reduce_get(b, tops, k_i32(b, 2 * half + 1)));
        reduce_lanes(b, max, tops, own, 4);
        reduce_into(b, max, tops, own, (Partial){k_elem(b, s->top, row), NULL});
        const KExpr *top = k_elem(b, tops.x, own), *low = k_float(b, K_F32, -INFINITY);
        const KExpr *counted = k_select(b, k_eq(b, top, low), k_float(b, K_F32, 0), top);
        const KExpr *log2_e = k_float(b, K_F32, s->by * M_LOG2E);
        k_set_elem(b, base, row, k_mul(b, counted, log2_e));
        const KExpr *below = k_sub(b, k_mul(b, k_elem(b, s->top, row), log2_e), k_elem(b, base, row));
        k_set_elem(b, s->scale, row, lower_power_of_two(b, below));
        k_set_elem(b, s->top, row, top);
    }
}

/* p in the place of x, and the sum of a row with it. */
static void stream_exponentials(Stream *s, const KVar *base) {
    Builder *b = s->b;
    const KVar *part = k_array(b, "part_sum", K_F32, 2 * STREAM_HALVES, k_float(b, K_F32, 0));
    StreamEach each = stream_each_begin(s, s->schedule->tile_k);
    const KExpr *x = k_elem(b, s->scores, each.at), *log2_e = k_float(b, K_F32, s->by * M_LOG2E);
    const KExpr *below = k_sub(b, k_mul(b, x, log2_e), k_elem(b, base, each.half));
    const KExpr *column = k_add(b, k_mul(b, each.half, k_i32(b, 2)), each.j);
    k_set_elem(b, s->scores, each.at, lower_power_of_two(b, below));
    k_set_elem(b, part, column, k_add(b, k_elem(b, part, column), k_elem(b, s->scores, each.at)));
    stream_each_end(s);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half);
        const KExpr *sum = k_add(b, k_elem_at(b, part, 2 * half), k_elem_at(b, part, 2 * half + 1));
        k_set_elem(b, s->total, row,
                   k_add(b, k_mul(b, k_elem(b, s->total, row), k_elem(b, s->scale, row)), sum));
    }
}

void stream_softmax(Stream *s, const MatmulFragment *scores, const MatmulTile *tile, const StreamAt *at) {
    Builder *b = s->b;
    const KVar *base = k_array(b, "base", K_F32, STREAM_HALVES, NULL);
    MatmulFragment fragment = *scores;
    fragment.col = k_add(b, at->col, at->lane_col);
    if (s->held != s->plan->link[0].core[0])
        matmul_epilogue_hold(b, &s->plan->link[0], s->lower[0], &fragment, tile->batch, NULL, s->held);
    stream_mask_part(s, at);
    stream_find_top(s, base);
    stream_exponentials(s, base);
}

void stream_pack(Stream *s) {
    Builder *b = s->b;
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, s->packed->count), 1, UNROLL_FULL);
    const KExpr *at = k_mul(b, word, k_i32(b, 2));
    const KExpr *pair[] = {k_elem(b, s->scores, at), k_elem(b, s->scores, k_add(b, at, k_i32(b, 1)))};
    k_set_elem(b, s->packed, word, k_pack(b, s->value.operand->elem, pair));
    k_end(b);
    matmul_settle(b, s->packed);
}

void stream_divide(Stream *s) {
    Builder *b = s->b;
    const Value *sum = s->plan->softmax.sum;
    PartialVars totals = {.x = s->total};
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half);
        reduce_lanes(b, sum, totals, row, 4);
        k_set_elem(b, s->scale, row, k_div(b, k_float(b, K_F32, 1), k_elem(b, s->total, row)));
    }
    stream_scale_sums(s);
}

void stream_store_rows(Stream *s, const MatmulFragment *scores, const MatmulTile *tile) {
    Builder *b = s->b;
    if (!s->rows)
        return;
    const KVar *max = k_array(b, "row_max", K_F32, STREAM_HALVES, NULL);
    for (int half = 0; half < STREAM_HALVES; half++)
        k_set_elem(b, max, k_i32(b, half), k_mul(b, k_elem_at(b, s->top, half), k_float(b, K_F32, s->by)));
    MatmulRow known[] = {{s->plan->softmax.max, max}, {s->plan->softmax.sum, s->total}};
    matmul_epilogue_rows(b, &s->plan->rows, s->rows, scores, tile->batch, known, 2);
}
