/* Row statistics of a product whose rows lie whole within one tile, or one gang of blocks: softmax, RMS norm,
 * layer norm in the kernel that multiplies.
 *
 * A row's columns are spread over `row_lanes` neighbouring lanes and the registers of each. A statistic is
 * one pass over the registers, then an exchange between those lanes, and where a row lies in several blocks,
 * between those (matmul_gang.c); the next pass finds it bound to the row.
 *
 * What passes have in common is computed once. Before each pass, the last value through which everything
 * still wanted depends on the product takes the product's place in the accumulator registers: x @ w + r
 * before the sums of a norm, so that r is read once; exp(x - max) between the two passes of a softmax. */
#include "codegen/reduce.h"
#include "codegen/templates/matmul.h"

#include <math.h>

static const double rows_log2_e = 1.4426950408889634;

/* Whether `value`, held in place of what the accumulators hold now, serves every later pass; earlier
 * statistics are known by then. */
static bool rows_serves(Epilogue *e, size_t pass, const Value *value, const Value *const *held, int n_held,
                        ValueMap *marks) {
    const MatmulPlan *plan = e->plan;
    const Value **cut = ARENA_ARRAY(e->b->arena, const Value *, pass + 1);
    for (size_t i = 0; i < pass; i++)
        cut[i] = plan->statistics.at[i];
    cut[pass] = value;
    matmul_mark_dependents(plan, held, n_held, cut, (int)pass + 1, marks);
    for (size_t i = pass; i < plan->statistics.n; i++)
        if (value_map_get(marks, plan->statistics.at[i]->in[0]))
            return false;
    for (size_t i = 0; i < plan->region->outputs.n; i++)
        if (value_map_get(marks, plan->region->outputs.at[i]))
            return false;
    return true;
}

/* Marks what is computed from other columns of what is held: storing it in place would change what columns
 * still to come are computed from. */
static void rows_mark_moved(const MatmulPlan *plan, const ValueMap *reached, ValueMap *moved) {
    for (size_t i = 0; i < plan->region->values.n; i++) {
        const Value *value = plan->region->values.at[i];
        bool is_moved = false;
        OpClass class_ = op_info(value->op)->class_;
        for (int k = 0; k < value->n_in && class_ != OPCLASS_REDUCTION; k++)
            is_moved = is_moved || value_map_get(moved, value->in[k]) ||
                       (class_ == OPCLASS_MOVEMENT && value_map_get(reached, value->in[k]));
        value_map_set(moved, value, is_moved);
    }
}

/* The last value to hold instead before statistic number `pass`; NULL: nothing better than what is held. */
static const Value *rows_cut(Epilogue *e, size_t pass) {
    const MatmulPlan *plan = e->plan;
    const Value *const *held = e->held ? &e->held : plan->core;
    int n_held = e->held ? 1 : plan->n_cores;
    Arena *arena = e->b->arena;
    ValueMap marks = {.arena = arena}, reached = {.arena = arena}, too_early = {.arena = arena};
    ValueMap moved = {.arena = arena};
    matmul_mark_dependents(plan, held, n_held, NULL, 0, &reached);
    rows_mark_moved(plan, &reached, &moved);
    matmul_mark_dependents(plan, plan->statistics.at + pass, (int)(plan->statistics.n - pass), NULL, 0,
                           &too_early);
    for (size_t i = plan->region->values.n; i-- > 0;) {
        const Value *value = plan->region->values.at[i];
        bool is_pointwise = op_is_scalar(value->op) || value->op == OP_cast;
        if (is_pointwise && value_map_get(&reached, value) && !value_map_get(&too_early, value) &&
            !value_map_get(&moved, value) && value != e->held && value_same_dims(value, plan->core[0]) &&
            ktype_of(value->dtype) == plan->accumulator && rows_serves(e, pass, value, held, n_held, &marks))
            return value;
    }
    return NULL;
}

static void rows_hold(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, void *context) {
    (void)context;
    Builder *b = e->b;
    const KExpr *at = k_let_expr(b, "at", epilogue_at(e, slot));
    const KExpr *j = epilogue_loop(b, "j", e->run);
    k_set_elem(b, e->fragment->accumulator[0], k_add(b, at, j), k_elem(b, computed[0], j));
    epilogue_loop_end(b, e->run);
}

/* Gives each row's earlier statistics as a shuffle of the lane's own value, which no compiler sees through.
 * Otherwise what a pass computed of every element from them, exp(x - max), would be kept for the next pass,
 * in as many registers as the accumulators have; computing it again is cheap. */
static void rows_forget(Epilogue *e) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves;
    for (size_t i = 0; i < e->rows.n; i++) {
        const KVar *array = e->rows.at[i].array;
        if (ktype_bits(array->type) != 32)
            continue;
        const KExpr *row = epilogue_loop(b, "row", n_rows);
        k_set_elem(b, array, row,
                   k_shuffle_index(b, "same", k_elem(b, array, row), k_special(b, SPECIAL_LANE)));
        epilogue_loop_end(b, n_rows);
    }
}

typedef struct RowPass {
    const Value *statistic;
    PartialVars partial;
} RowPass;

/* Numbers count from the thread's first column, so that each is a constant where it is taken. */
static void rows_reduce(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, void *context) {
    Builder *b = e->b;
    const RowPass *pass = context;
    const KExpr *j = epilogue_loop(b, "j", e->run);
    const KExpr *column = k_add(b, k_mul(b, slot->group, k_i32(b, e->fragment->group_cols)),
                                k_add(b, k_mul(b, slot->piece, k_i32(b, e->run)), j));
    reduce_take(b, pass->statistic, pass->partial, epilogue_row_at(e, slot->block, slot->half),
                k_elem(b, computed[0], j), column, slot->inside); /* rows behind the last are not looked at */
    epilogue_loop_end(b, e->run);
}

/* From here on numbers count from the row's first column, or from the block's, which is a tile's. A row of
 * nothing but equals of the identity still has number 0: that of the thread with the first column. */
static void rows_number(Epilogue *e, const KVar *numbers, int n_rows) {
    Builder *b = e->b;
    const KExpr *first = e->fragment->col;
    if (e->plan->block_cols)
        first = k_mod(b, first, k_i32(b, e->plan->block_cols));
    first = k_let_expr(b, "first", first);
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    k_set_elem(b, numbers, row, k_add(b, k_elem(b, numbers, row), first));
    epilogue_loop_end(b, n_rows);
}

/* A pass over all columns of the thread's rows. */
static void rows_pass(Epilogue *e, const Value *value, EpilogueBody *body, void *context) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_groups = e->fragment->accumulator[0]->count >= 128 ? 1 : epilogue_batch_groups(e);
    if (e->inputs) /* they come in pairs of groups */
        n_groups = epilogue_batch_groups(e);
    const KExpr *chunk = matmul_inputs_chunk_begin(e);
    int parts = f->groups / n_groups / (e->inputs ? e->inputs->chunks : 1);
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    const KExpr *part = epilogue_loop(b, "part", parts);
    const KExpr *number = k_add(b, k_mul(b, chunk, k_i32(b, parts)), part);
    epilogue_batch(e, block, k_mul(b, number, k_i32(b, n_groups)), n_groups, &value, 1, 0, body, context);
    epilogue_loop_end(b, parts);
    epilogue_loop_end(b, f->blocks);
    matmul_inputs_chunk_end(e);
}

const Value *matmul_reduced(const Value *statistic) {
    BlockStatistic block;
    return block_statistic(statistic, &block) ? block.of : statistic->in[0];
}

static void rows_unbind(Epilogue *e) {
    for (int c = 0; c < e->plan->n_cores; c++)
        lower_unbind(e->lower, e->plan->core[c]);
    if (e->held)
        lower_unbind(e->lower, e->held);
}

const Value *matmul_rows_first_held(Builder *b, const MatmulPlan *plan) {
    Epilogue before = {.b = b, .plan = plan};
    return rows_cut(&before, 0);
}

/* The accumulators hold what statistic i and all later ones are best computed from; `only`: that or nothing.
 */
static void rows_hold_next(Epilogue *e, size_t i, MatmulInputs *inputs, const Value *only) {
    const Value *cut = rows_cut(e, i);
    if (!cut || (only && cut != only))
        return;
    e->inputs = inputs;
    rows_pass(e, cut, rows_hold, NULL);
    e->inputs = NULL;
    rows_unbind(e);
    e->held = cut;
}

/* Rounds find several statistics at once. */
static bool rows_is_known(const Epilogue *e, const Value *statistic) {
    for (size_t i = 0; i < e->rows.n; i++)
        if (e->rows.at[i].value == statistic)
            return true;
    return false;
}

/* One statistic over the thread's columns and the lanes that share its rows, of what is held by then. */
static PartialVars rows_statistic(Epilogue *e, size_t i, MatmulInputs *inputs, const Value *only) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    const Value *statistic = e->plan->statistics.at[i];
    rows_hold_next(e, i, inputs, only);
    const char *name = statistic->name ? statistic->name : op_info(statistic->op)->name;
    RowPass pass = {statistic,
                    reduce_declare(b, statistic, text_format(b->arena, "row_%s", name), n_rows, K_I32)};
    rows_pass(e, matmul_reduced(statistic), rows_reduce, &pass);
    if (pass.partial.number)
        rows_number(e, pass.partial.number, n_rows);
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    reduce_lanes(b, statistic, pass.partial, row, f->row_lanes);
    epilogue_loop_end(b, n_rows);
    return pass.partial;
}

static void rows_bind(Epilogue *e, const Value *statistic, const KVar *array) {
    rows_forget(e);
    vec_push(e->b->arena, &e->rows, ((MatmulRow){statistic, array}));
}

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

static const KExpr *rows_power(Builder *b, const KExpr *x) {
    const KVar *power = k_variable(b, "power", K_F32, NULL);
    KOperand operands[] = {k_reg(power), k_operand(x)};
    k_atom(b, ATOM_ex2_ftz, NULL, operands, 2);
    return k_var(b, power);
}

/* Scales the parts of the row's sum, each counted from its block's largest element, to count from the row's,
 * and gives the block's own scale; in powers of two of rounded exponents, or of e. */
static void rows_scale_parts(Epilogue *e, const MatmulExchange *exchange, const KVar *own_top,
                             const KVar *whole_top, const KVar *scale, bool in_powers) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves;
    const KExpr *log2_e = k_float(b, K_F32, rows_log2_e);
    b->rounds_products = in_powers; /* as each block has rounded its own */
    const KExpr *row = epilogue_loop(b, "row", n_rows), *whole = k_elem(b, whole_top, row);
    if (in_powers)
        whole = k_let_expr(b, "whole", k_mul(b, whole, log2_e));
    const KExpr *turn = epilogue_loop(b, "turn", exchange->turns), *guard;
    const KExpr *at = matmul_gang_at(e, exchange, row, turn, &guard), *top = k_elem(b, exchange->part[0], at);
    const KExpr *far = k_sub(b, in_powers ? k_mul(b, top, log2_e) : top, whole);
    if (guard)
        k_if_begin(b, guard);
    far = in_powers ? rows_power(b, far) : k_scalar(b, OP_exp, far, NULL, NULL);
    k_set_elem(b, exchange->part[1], at, k_mul(b, k_elem(b, exchange->part[1], at), far));
    if (guard)
        k_end(b);
    epilogue_loop_end(b, exchange->turns);
    const KExpr *own = k_elem(b, own_top, row);
    own = k_sub(b, in_powers ? k_mul(b, own, log2_e) : own, whole);
    k_set_elem(b, scale, row, in_powers ? rows_power(b, own) : k_scalar(b, OP_exp, own, NULL, NULL));
    epilogue_loop_end(b, n_rows);
    b->rounds_products = false;
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
    const KExpr *row = epilogue_loop(b, "row", n_rows), *x = k_elem(b, own_top.x, row);
    k_set_elem(b, from, row, k_select(b, k_eq(b, x, k_float(b, K_F32, -INFINITY)), k_float(b, K_F32, 0), x));
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

/* Whether all that is wanted of max(z) and of e = exp(z - max(z)) is e / sum(e), and the accumulators have z:
 * a softmax alone. */
static bool rows_is_shares(const Epilogue *e, size_t i) {
    const Region *region = e->plan->region;
    const Value *top = e->plan->statistics.at[i], *sum = e->plan->statistics.at[i + 1];
    const Value *power = sum->in[0], *distance = power->in[0], *z = top->in[0];
    if (e->held ? e->held != z : e->plan->n_cores > 1 || e->plan->core[0] != z)
        return false;
    for (size_t k = 0; k < region->values.n; k++) {
        const Value *user = region->values.at[k];
        bool is_share = user->op == OP_div && user->in[0] == power && user->in[1] == sum;
        for (int j = 0; j < user->n_in; j++)
            if ((user->in[j] == sum && !is_share) || (user->in[j] == power && !is_share && user != sum) ||
                (user->in[j] == top && user != distance) || (user->in[j] == distance && user != power))
                return false;
    }
    for (size_t k = 0; k < region->outputs.n; k++) {
        const Value *output = region->outputs.at[k];
        if (output == top || output == distance || output == power || output == sum)
            return false;
    }
    return true;
}

/* The same where a softmax is all there is: e counts in powers of two from max(z) * log2(e), which all of a
 * row share however it was rounded, so that an element takes one multiplication and addition in one; and the
 * block's scale goes into the row's divisor instead of its elements. */
static void rows_shares(Epilogue *e, size_t i, MatmulInputs *inputs) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    const Value *top = e->plan->statistics.at[i], *sum = e->plan->statistics.at[i + 1];
    const KExpr *log2_e = k_float(b, K_F32, rows_log2_e);
    PartialVars own_top = rows_statistic(e, i, inputs, NULL);
    const KVar *from = k_array(b, "counted_from", K_F32, n_rows, NULL), *held = f->accumulator[0];
    const KExpr *row = epilogue_loop(b, "row", n_rows), *x = k_elem(b, own_top.x, row);
    x = k_select(b, k_eq(b, x, k_float(b, K_F32, -INFINITY)), k_float(b, K_F32, 0), x);
    k_set_elem(b, from, row, k_mul(b, x, k_float(b, K_F32, -rows_log2_e)));
    epilogue_loop_end(b, n_rows);
    RowsHeld each = rows_held_begin(e);
    k_set_elem(
        b, held, each.at,
        rows_power(b, k_scalar(b, OP_fma, k_elem(b, held, each.at), log2_e, k_elem(b, from, each.row))));
    rows_held_end(e);
    rows_unbind(e);
    e->held = sum->in[0];
    PartialVars own_sum = rows_statistic(e, i + 1, NULL, sum->in[0]);

    const KVar *own[] = {own_top.x, own_sum.x};
    matmul_gang_send(e, own, 2);
    MatmulExchange exchange = matmul_gang_receive(e, own, 2);
    PartialVars whole_top = matmul_gang_whole(e, top, &exchange, 0);
    rows_scale_parts(e, &exchange, own_top.x, whole_top.x, from, true);
    PartialVars whole_sum = matmul_gang_whole(e, sum, &exchange, 1);
    row = epilogue_loop(b, "row", n_rows);
    k_set_elem(b, whole_sum.x, row,
               k_scalar(b, OP_div, k_elem(b, whole_sum.x, row), k_elem(b, from, row), NULL));
    epilogue_loop_end(b, n_rows);
    rows_bind(e, top, whole_top.x);
    rows_bind(e, sum, whole_sum.x);
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

void matmul_row_statistics(Epilogue *e, MatmulInputs *inputs) {
    const MatmulPlan *plan = e->plan;
    for (size_t i = 0; i < plan->statistics.n; i++) {
        MatmulInputs *own = i == 0 ? inputs : NULL;
        if (e->fragment->gang && rows_is_softmax(plan, i)) {
            if (rows_is_shares(e, i))
                rows_shares(e, i, own);
            else
                rows_softmax(e, i, own);
            i++;
            continue;
        }
        const Value *centered = e->fragment->gang ? rows_centered(plan, i) : NULL;
        if (centered) {
            rows_moments(e, i++, centered, own);
            continue;
        }
        const Value *statistic = plan->statistics.at[i];
        if (rows_is_known(e, statistic))
            continue;
        if (matmul_begins_rounds(e, statistic)) {
            rows_hold_next(e, i, own, NULL);
            matmul_row_rounds(e, statistic);
            continue;
        }
        PartialVars partial = rows_statistic(e, i, own, NULL);
        if (e->fragment->gang) {
            matmul_gang_send(e, &partial.x, 1);
            matmul_store_early(e);
            MatmulExchange exchange = matmul_gang_receive(e, &partial.x, 1);
            partial = matmul_gang_whole(e, statistic, &exchange, 0);
        }
        rows_bind(e, statistic, partial.number ? partial.number : partial.x);
    }
    matmul_store_early(e);
    if (plan->region->column_block) /* what is wanted at two columns is computed once */
        rows_hold_next(e, plan->statistics.n, NULL, NULL);
}
