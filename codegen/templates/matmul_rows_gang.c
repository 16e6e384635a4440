/* Softmax and layer norm of rows that lie in several blocks: both of their statistics in one exchange. */
#include "codegen/reduce.h"
#include "codegen/templates/matmul_rows.h"

#include <math.h>

/* Whether statistics i and i + 1 are max(z) and the sum of exp(z - max(z)), all in f32. */
static bool rows_is_softmax(const MatmulPlan *plan, size_t i) {
    if (i + 1 >= plan->statistics.n)
        return false;
    const Value *top = plan->statistics.at[i], *sum = plan->statistics.at[i + 1];
    if (top->op != OP_reduce_max || sum->op != OP_sum || reduce_type(top) != K_F32 ||
        reduce_type(sum) != K_F32 || sum->in[0]->op != OP_exp || sum->in[0]->in[0]->op != OP_sub)
        return false;
    const Value *distance = sum->in[0]->in[0];
    return distance->in[0] == top->in[0] && distance->in[1] == top;
}

/* Each held element, one after the other. */
typedef struct RowsHeld {
    const KExpr *at, *row; /* in the accumulators; of those that the thread has */
} RowsHeld;

static RowsHeld rows_held_begin(Epilogue *e) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int per_half = f->width, per_group = f->halves * per_half;
    const KExpr *block = epilogue_loop(b, "block", f->blocks), *group = epilogue_loop(b, "group", f->groups);
    const KExpr *half = epilogue_loop(b, "h", f->halves), *j = epilogue_loop(b, "j", per_half);
    const KExpr *at = k_add(b, k_mul(b, epilogue_group(e, block, group), k_i32(b, per_group)),
                            k_add(b, k_mul(b, half, k_i32(b, per_half)), j));
    return (RowsHeld){at, epilogue_row_at(e, block, half)};
}

static void rows_held_end(Epilogue *e) {
    const MatmulFragment *f = e->fragment;
    epilogue_loop_end(e->b, f->width);
    epilogue_loop_end(e->b, f->halves);
    epilogue_loop_end(e->b, f->groups);
    epilogue_loop_end(e->b, f->blocks);
}

/* Each held element with its row's correction. */
static void rows_correct(Epilogue *e, OpKind op, const KVar *by) {
    Builder *b = e->b;
    const KVar *held = e->fragment->accumulator[0];
    RowsHeld each = rows_held_begin(e);
    k_set_elem(b, held, each.at, k_scalar(b, op, k_elem(b, held, each.at), k_elem(b, by, each.row), NULL));
    rows_held_end(e);
}

/* Scales the parts of the row's sum, each counted from its block's largest element, to count from the row's,
 * and gives the block's own scale; in powers of two of rounded exponents, or of e. */
static void rows_scale_parts(Epilogue *e, const MatmulExchange *exchange, const KVar *own_top,
                             const KVar *whole_top, const KVar *scale, bool in_powers) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves;
    const KExpr *log2_e = k_float(b, K_F32, M_LOG2E);
    b->rounds_products = in_powers; /* as each block has rounded its own */
    const KExpr *row = epilogue_loop(b, "row", n_rows), *whole = k_elem(b, whole_top, row);
    if (in_powers)
        whole = k_let_expr(b, "whole", k_mul(b, whole, log2_e));
    const KExpr *turn = epilogue_loop(b, "turn", exchange->turns), *guard;
    const KExpr *at = matmul_gang_at(e, exchange, row, turn, &guard), *top = k_elem(b, exchange->part[0], at);
    const KExpr *far = k_sub(b, in_powers ? k_mul(b, top, log2_e) : top, whole);
    if (guard)
        k_if_begin(b, guard);
    far = in_powers ? lower_power_of_two(b, far) : k_scalar(b, OP_exp, far, NULL, NULL);
    k_set_elem(b, exchange->part[1], at, k_mul(b, k_elem(b, exchange->part[1], at), far));
    if (guard)
        k_end(b);
    epilogue_loop_end(b, exchange->turns);
    const KExpr *own = k_elem(b, own_top, row);
    own = k_sub(b, in_powers ? k_mul(b, own, log2_e) : own, whole);
    k_set_elem(b, scale, row, in_powers ? lower_power_of_two(b, own) : k_scalar(b, OP_exp, own, NULL, NULL));
    epilogue_loop_end(b, n_rows);
    b->rounds_products = false;
}

/* What a block's elements count from: its largest, or 0 where they all are -inf. */
static const KExpr *rows_count_from(Builder *b, const KExpr *top) {
    return k_select(b, k_eq(b, top, k_float(b, K_F32, -INFINITY)), k_float(b, K_F32, 0), top);
}

/* Both statistics of a softmax in one exchange: each block takes its own columns' largest element for the
 * row's, and what it has come to is scaled by exp(its max - the row's) afterwards (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018). A block whose columns are all -inf counts from 0, so
 * that it adds nothing; where the whole row is so, the scale is NaN, as in the reference. */
static void rows_softmax(Epilogue *e, size_t i, MatmulInputs *inputs) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    const Value *top = e->plan->statistics.at[i], *sum = e->plan->statistics.at[i + 1];
    PartialVars own_top = rows_statistic(e, i, inputs, NULL);
    const KVar *from = k_array(b, "counted_from", K_F32, n_rows, NULL);
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    k_set_elem(b, from, row, rows_count_from(b, k_elem(b, own_top.x, row)));
    epilogue_loop_end(b, n_rows);
    size_t bound = e->rows.n;
    rows_bind(e, top, from);
    PartialVars own_sum = rows_statistic(e, i + 1, NULL, sum->in[0]);

    const KVar *own[] = {own_top.x, own_sum.x};
    matmul_gang_send(e, own, 2);
    if (e->held != sum->in[0])
        matmul_store_early(e);
    MatmulExchange exchange = matmul_gang_receive(e, own, 2);
    PartialVars whole_top = matmul_gang_whole(e, top, &exchange, 0);
    const KVar *scale = k_array(b, "scale", K_F32, n_rows, NULL);
    rows_scale_parts(e, &exchange, own_top.x, whole_top.x, scale, false);
    PartialVars whole_sum = matmul_gang_whole(e, sum, &exchange, 1);
    if (e->held == sum->in[0])
        rows_correct(e, OP_mul, scale);
    e->rows.at[bound].array = whole_top.x;
    rows_bind(e, sum, whole_sum.x);
}

/* What the accumulators have, of which z is a positive multiple: `by` times; or z itself, once. */
static const Value *rows_multiple(const Epilogue *e, const Value *z, double *by) {
    const Value *held = e->held ? e->held : e->plan->n_cores == 1 ? e->plan->core[0] : NULL;
    *by = 1;
    if (held == z || z->op != OP_mul || z->in[0] != held || ktype_of(held->dtype) != K_F32 ||
        !value_is_constant(z->in[1], by))
        return held == z ? z : NULL;
    return *by > 0 && isfinite(*by * M_LOG2E) ? held : NULL;
}

/* Whether all that is wanted of max(z) and of e = exp(z - max(z)) is e / sum(e), and the accumulators have z
 * or a part of it: a softmax alone. */
static bool rows_is_shares(const Epilogue *e, size_t i) {
    const Region *region = e->plan->region;
    const Value *top = e->plan->statistics.at[i], *sum = e->plan->statistics.at[i + 1];
    const Value *power = sum->in[0], *distance = power->in[0], *z = top->in[0];
    double by;
    const Value *held = rows_multiple(e, z, &by);
    if (!held)
        return false;
    for (size_t k = 0; k < region->values.n; k++) {
        const Value *user = region->values.at[k];
        bool is_share = user->op == OP_div && user->in[0] == power && user->in[1] == sum;
        for (int j = 0; j < user->n_in; j++)
            if ((user->in[j] == sum && !is_share) || (user->in[j] == power && !is_share && user != sum) ||
                (user->in[j] == top && user != distance) || (user->in[j] == distance && user != power) ||
                (user->in[j] == z && user != top && user != distance) ||
                (held != z && user->in[j] == held && user != z))
                return false;
    }
    return !region_writes(region, top) && !region_writes(region, distance) && !region_writes(region, power) &&
           !region_writes(region, sum) && !region_writes(region, z) && !region_writes(region, held);
}

/* The exchange of a softmax whose elements count from the block's own top: its scale goes into the row's
 * divisor instead of the elements. */
static void rows_meet_shares(Epilogue *e, size_t i, PartialVars *top, PartialVars *sum, const KVar *scale) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves;
    const KVar *own[] = {top->x, sum->x};
    matmul_gang_send(e, own, 2);
    MatmulExchange exchange = matmul_gang_receive(e, own, 2);
    PartialVars whole_top = matmul_gang_whole(e, e->plan->statistics.at[i], &exchange, 0);
    rows_scale_parts(e, &exchange, top->x, whole_top.x, scale, true);
    PartialVars whole_sum = matmul_gang_whole(e, e->plan->statistics.at[i + 1], &exchange, 1);
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    k_set_elem(b, whole_sum.x, row,
               k_scalar(b, OP_div, k_elem(b, whole_sum.x, row), k_elem(b, scale, row), NULL));
    epilogue_loop_end(b, n_rows);
    *top = whole_top;
    *sum = whole_sum;
}

/* The same where a softmax is all there is: e counts in powers of two from max(z) * log2(e), which all of a
 * row share however it was rounded, so that an element takes one multiplication and addition in one; z need
 * not be known, where it is a multiple of what is. */
static void rows_shares(Epilogue *e, size_t i) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    const Value *top = e->plan->statistics.at[i], *sum = e->plan->statistics.at[i + 1];
    double by;
    const Value *of = rows_multiple(e, top->in[0], &by);
    PartialVars own_top = rows_statistic_of(e, i, of);
    const KVar *from = k_array(b, "counted_from", K_F32, n_rows, NULL), *held = f->accumulator[0];
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    k_set_elem(b, from, row,
               k_mul(b, rows_count_from(b, k_elem(b, own_top.x, row)), k_float(b, K_F32, -by * M_LOG2E)));
    if (by != 1)
        k_set_elem(b, own_top.x, row, k_mul(b, k_elem(b, own_top.x, row), k_float(b, K_F32, by)));
    epilogue_loop_end(b, n_rows);
    RowsHeld each = rows_held_begin(e);
    const KExpr *powers = k_scalar(b, OP_fma, k_elem(b, held, each.at), k_float(b, K_F32, by * M_LOG2E),
                                   k_elem(b, from, each.row));
    k_set_elem(b, held, each.at, lower_power_of_two(b, powers));
    rows_held_end(e);
    rows_unbind(e);
    e->held = sum->in[0];
    PartialVars own_sum = rows_statistic(e, i + 1, NULL, sum->in[0]);
    if (f->gang)
        rows_meet_shares(e, i, &own_top, &own_sum, from);
    rows_bind(e, top, own_top.x);
    rows_bind(e, sum, own_sum.x);
}

/* z - mean, where statistics i and i + 1 are sum(z) and sum((z - mean) * (z - mean)) in f32, and mean is that
 * sum over the length of the row; NULL where they are not. */
static const Value *rows_centered(const MatmulPlan *plan, size_t i) {
    if (i + 1 >= plan->statistics.n || !dim_is_const(plan->n))
        return NULL;
    const Value *sum = plan->statistics.at[i], *square = plan->statistics.at[i + 1];
    if (sum->op != OP_sum || square->op != OP_sum || reduce_type(sum) != K_F32 ||
        reduce_type(square) != K_F32 || square->in[0]->op != OP_mul ||
        square->in[0]->in[0] != square->in[0]->in[1])
        return NULL;
    const Value *centered = square->in[0]->in[0];
    if (centered->op != OP_sub || centered->in[0] != sum->in[0] || ktype_of(centered->dtype) != K_F32)
        return NULL;
    const Value *mean = centered->in[1];
    double n = (double)plan->n->value, by;
    if ((mean->op != OP_div && mean->op != OP_mul) || mean->in[0] != sum ||
        !value_is_constant(mean->in[1], &by))
        return NULL;
    return fabs(mean->op == OP_div ? by / n - 1 : by * n - 1) < 1e-6 ? centered : NULL;
}

/* Columns that a block of the gang has, as f32. */
static const KExpr *rows_columns(Epilogue *e, const KExpr *block) {
    Builder *b = e->b;
    const KExpr *all = k_i32(b, e->plan->n->value), *tile = k_i32(b, e->fragment->tile_cols);
    return k_convert(b, k_min(b, tile, k_sub(b, all, k_mul(b, block, tile))), K_F32);
}

/* Both statistics of a layer norm in one exchange: each block takes its own columns' mean for the row's. Sums
 * of squares about another mean are less by the columns' number times the square of the means' distance
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979). */
static void rows_moments(Epilogue *e, size_t i, const Value *centered, MatmulInputs *inputs) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    const Value *sum = e->plan->statistics.at[i], *square = e->plan->statistics.at[i + 1];
    const KExpr *n = k_float(b, K_F32, (double)e->plan->n->value);
    const KExpr *own_n = k_let_expr(b, "own_columns", rows_columns(e, f->gang->own));
    PartialVars own_sum = rows_statistic(e, i, inputs, NULL);
    const KVar *as_row = k_array(b, "sum_as_row", K_F32, n_rows, NULL); /* gives the block's mean */
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    k_set_elem(b, as_row, row, k_mul(b, k_elem(b, own_sum.x, row), k_scalar(b, OP_div, n, own_n, NULL)));
    epilogue_loop_end(b, n_rows);
    size_t bound = e->rows.n;
    rows_bind(e, sum, as_row);
    PartialVars own_square = rows_statistic(e, i + 1, NULL, centered);

    const KVar *own[] = {own_sum.x, own_square.x};
    matmul_gang_send(e, own, 2);
    if (e->held != centered)
        matmul_store_early(e);
    MatmulExchange exchange = matmul_gang_receive(e, own, 2);
    PartialVars whole_sum = matmul_gang_whole(e, sum, &exchange, 0);
    const KVar *shift = k_array(b, "shift", K_F32, n_rows, NULL);
    row = epilogue_loop(b, "row", n_rows);
    const KExpr *mean = k_let_expr(b, "mean", k_scalar(b, OP_div, k_elem(b, whole_sum.x, row), n, NULL));
    const KExpr *turn = epilogue_loop(b, "turn", exchange.turns), *guard;
    const KExpr *at = matmul_gang_at(e, &exchange, row, turn, &guard);
    if (guard)
        k_if_begin(b, guard);
    const KExpr *lane = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, f->row_lanes));
    const KExpr *block = k_add(b, lane, k_mul(b, turn, k_i32(b, f->row_lanes)));
    const KExpr *part_n = k_let_expr(b, "part_columns", rows_columns(e, block));
    const KExpr *far = k_sub(b, k_scalar(b, OP_div, k_elem(b, exchange.part[0], at), part_n, NULL), mean);
    far = k_let_expr(b, "far", far);
    k_set_elem(b, exchange.part[1], at,
               k_add(b, k_elem(b, exchange.part[1], at), k_mul(b, part_n, k_mul(b, far, far))));
    if (guard)
        k_end(b);
    epilogue_loop_end(b, exchange.turns);
    const KExpr *own_mean = k_scalar(b, OP_div, k_elem(b, own_sum.x, row), own_n, NULL);
    k_set_elem(b, shift, row, k_sub(b, own_mean, mean));
    epilogue_loop_end(b, n_rows);
    PartialVars whole_square = matmul_gang_whole(e, square, &exchange, 1);
    if (e->held == centered)
        rows_correct(e, OP_add, shift);
    e->rows.at[bound].array = whole_sum.x;
    rows_bind(e, square, whole_square.x);
}

bool rows_take_pair(Epilogue *e, size_t i, MatmulInputs *inputs) {
    const MatmulPlan *plan = e->plan;
    bool is_softmax = rows_is_softmax(plan, i);
    if (is_softmax) {
        double by;
        if (inputs || !rows_multiple(e, plan->statistics.at[i]->in[0], &by))
            rows_hold_next(e, i, inputs, NULL);
        if (rows_is_shares(e, i)) {
            rows_shares(e, i);
            return true;
        }
    }
    if (!e->fragment->gang)
        return false;
    const Value *centered = is_softmax ? NULL : rows_centered(plan, i);
    if (is_softmax)
        rows_softmax(e, i, inputs);
    else if (centered)
        rows_moments(e, i, centered, inputs);
    return is_softmax || centered;
}
