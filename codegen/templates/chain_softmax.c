/* A softmax in parts (chain_stream.c): what a warpgroup does in its registers between the two products. */
#include "codegen/templates/chain_stream.h"

#include <math.h>

/* What select(seen, scores, unseen), or the other way round, is of; false: it is none, or of no number. */
static bool softmax_is_seen(Value *x, StreamSeen *seen, Value **scores) {
    if (x->op != OP_select)
        return false;
    for (int i = 1; i <= 2; i++)
        if (value_is_constant(x->in[3 - i], &seen->unseen) && !isnan(seen->unseen)) {
            seen->value = x->in[0];
            seen->is_hidden = i == 2;
            *scores = x->in[i];
            return true;
        }
    return false;
}

/* Scales and masks of q @ k.T itself are taken apart: the one goes into the exponentials, and of the other no
 * more is computed than whether an element is seen. */
void stream_find_scores(Stream *s) {
    const MatmulPlan *plan = &s->plan->link[0];
    Value *x = s->plan->softmax.x, *scores;
    Band band;
    band_of(plan->graph->dims, x, -INFINITY, &band, &s->held);
    parts_set_band(&s->parts, &band);
    s->masks = s->held != x;
    s->by = 1;
    scores = s->held;
    StreamSeen seen = {0};
    bool is_seen = softmax_is_seen(s->held, &seen, &scores);
    double by = 1;
    if (scores->op == OP_mul && scores->in[0] == plan->core[0] && value_is_constant(scores->in[1], &by) &&
        by > 0 && isfinite((float)(by * M_LOG2E)) && isfinite((float)(1 / by)))
        scores = scores->in[0];
    double unseen = is_seen ? seen.unseen / by : 0; /* of what is held */
    if (scores != plan->core[0] || (isfinite(seen.unseen) && !isfinite((float)unseen)))
        return;
    s->held = scores;
    s->by = by;
    s->seen = seen;
    s->seen.unseen = unseen;
}

void stream_declare_tile(Stream *s) {
    Builder *b = s->b;
    const KExpr *zero = k_float(b, K_F32, 0);
    // zeros cost nothing, as the first product reads none of them; unwritten, they are kept from one tile to
    // the next
    s->scores = k_array(b, "scores", K_F32, stream_scored(s->schedule) / 2, zero);
    s->packed = k_array(b, "packed", K_U32, s->schedule->tile_k / 4, NULL);
    s->sums = k_array(b, "sums", K_F32, stream_summed(s->schedule) / 2, zero);
    if (s->plan->weighed.n_cores > 1)
        s->random = k_array(b, "random", K_F32, stream_scored(s->schedule) / 2, NULL);
    s->top = k_array(b, "top", K_F32, STREAM_HALVES, k_float(b, K_F32, -INFINITY));
    s->total = k_array(b, "total", K_F32, STREAM_HALVES, zero);
    s->scale = k_array(b, "scale", K_F32, STREAM_HALVES, zero);
}

void stream_begin_with_sink(Stream *s, const MatmulFragment *scores, const MatmulTile *tile) {
    Builder *b = s->b;
    if (!s->sink)
        return;
    const KVar *sink =
        matmul_epilogue_row(b, &s->plan->sink, s->sink, scores, tile->batch, s->plan->softmax.sink);
    const KExpr *is_first = k_eq(b, k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, 4)), k_i32(b, 0));
    if (s->across)
        is_first = k_and(b, is_first, k_eq(b, s->across, k_i32(b, 0)));
    const KExpr *own = k_select(b, is_first, k_float(b, K_F32, 1), k_float(b, K_F32, 0));
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half);
        k_set_elem(b, s->top, row,
                   k_mul(b, k_convert(b, k_elem(b, sink, row), K_F32), k_float(b, K_F32, 1 / s->by)));
        k_set_elem(b, s->total, row, own);
    }
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
    StreamEach each = stream_each_begin(s, stream_summed(s->schedule));
    k_set_elem(b, s->sums, each.at, k_mul(b, k_elem(b, s->sums, each.at), k_elem(b, s->scale, each.half)));
    stream_each_end(s);
}

/* Elements beyond a limit become -inf. context: the Stream. */
static void stream_mask(void *context, const PartsMask *mask) {
    Stream *s = context;
    Builder *b = s->b;
    StreamEach each = stream_each_begin(s, stream_scored(s->schedule));
    const KExpr *inside = parts_is_inside(b, mask, each.group, each.half, each.j);
    k_set_elem(b, s->scores, each.at,
               k_select(b, inside, k_elem(b, s->scores, each.at), k_float(b, K_F32, -INFINITY)));
    stream_each_end(s);
}

/* What the rows' exponentials count from, and what the sums so far are scaled by, of one of the lane's rows.
 * Rows of which all is -inf so far count from 0. */
static void stream_count_from(Stream *s, const KVar *base, int half, const KExpr *top) {
    Builder *b = s->b;
    const KExpr *row = k_i32(b, half), *low = k_float(b, K_F32, -INFINITY);
    const KExpr *counted = k_select(b, k_eq(b, top, low), k_float(b, K_F32, 0), top);
    const KExpr *log2_e = k_float(b, K_F32, s->by * M_LOG2E);
    k_set_elem(b, base, row, k_mul(b, counted, log2_e));
    const KExpr *below = k_sub(b, k_mul(b, k_elem(b, s->top, row), log2_e), k_elem(b, base, row));
    k_set_elem(b, s->scale, row, lower_power_of_two(b, below));
    k_set_elem(b, s->top, row, top);
}

/* The rows' largest elements with those of this part. */
static void stream_find_top(Stream *s, const KVar *base) {
    Builder *b = s->b;
    const Value *max = s->plan->softmax.max;
    PartialVars tops = reduce_declare(b, max, "part_top", 2 * STREAM_HALVES, K_I32);
    StreamEach each = stream_each_begin(s, stream_scored(s->schedule));
    const KExpr *column = k_add(b, k_mul(b, each.half, k_i32(b, 2)), each.j);
    reduce_take(b, max, tops, column, k_elem(b, s->scores, each.at), NULL, NULL);
    stream_each_end(s);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *own = k_i32(b, 2 * half);
        reduce_into(b, max, tops, own, reduce_get(b, tops, k_i32(b, 2 * half + 1)));
        reduce_lanes(b, max, tops, own, 4);
        reduce_into(b, max, tops, own, (Partial){k_elem(b, s->top, k_i32(b, half)), NULL});
        if (!s->across)
            stream_count_from(s, base, half, k_elem(b, tops.x, own));
    }
    if (!s->across)
        return;
    stream_exchange_tops(s, max, tops);
    for (int half = 0; half < STREAM_HALVES; half++)
        stream_count_from(s, base, half, k_elem_at(b, tops.x, 2 * half));
}

/* p in the place of x, and the sum of a row with it. */
static void stream_exponentials(Stream *s, const KVar *base) {
    Builder *b = s->b;
    const KVar *part = k_array(b, "part_sum", K_F32, 2 * STREAM_HALVES, k_float(b, K_F32, 0));
    StreamEach each = stream_each_begin(s, stream_scored(s->schedule));
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

void stream_softmax(Stream *s, const MatmulFragment *scores, const MatmulTile *tile, const PartsAt *at) {
    Builder *b = s->b;
    const KVar *base = k_array(b, "base", K_F32, STREAM_HALVES, NULL);
    MatmulFragment fragment = *scores;
    fragment.col = k_add(b, at->col, at->lane_col);
    fragment.row_inputs = s->row_inputs;
    const MatmulPlan *link = &s->plan->link[0];
    const MatmulVectors *vectors = stream_keyed_at(s, at->lane_col);
    if (s->held != link->core[0])
        matmul_epilogue_hold(b, link, s->lower[0], &fragment, tile->batch, vectors, s->held);
    if (s->seen.value)
        matmul_epilogue_select(b, link, s->lower[0], &fragment, tile->batch, vectors, s->seen.value,
                               s->seen.is_hidden, s->seen.unseen);
    stream_keyed_end(s);
    parts_mask(&s->parts, at, s->masks, stream_mask, s);
    stream_find_top(s, base);
    stream_exponentials(s, base);
    stream_weigh(s, &fragment, tile);
}

void stream_pack(Stream *s) {
    Builder *b = s->b;
    int words = s->packed->count / stream_across(s->schedule);
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, words), 1, UNROLL_FULL);
    const KExpr *at = k_mul(b, word, k_i32(b, 2));
    const KExpr *pair[] = {k_elem(b, s->scores, at), k_elem(b, s->scores, k_add(b, at, k_i32(b, 1)))};
    k_set_elem(b, s->packed, word, k_pack(b, s->value.operand->elem, pair));
    k_end(b);
    if (s->across)
        stream_exchange_packed(s);
    matmul_settle(b, s->packed);
}

void stream_divide(Stream *s) {
    Builder *b = s->b;
    const Value *sum = s->plan->softmax.sum;
    PartialVars totals = {.x = s->total};
    for (int half = 0; half < STREAM_HALVES; half++)
        reduce_lanes(b, sum, totals, k_i32(b, half), 4);
    if (s->across)
        stream_exchange_totals(s, sum, totals);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half);
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
    MatmulRow known[] = {{s->plan->softmax.base, max}, {s->plan->softmax.whole, s->total}};
    matmul_epilogue_rows(b, &s->plan->rows, s->rows, scores, tile->batch, known, 2);
}
