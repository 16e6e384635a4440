/* The largest of each row, one after the other, while the row stays in the accumulators:
 *
 *     a0 = argmax(x)     v0 = reduce_max(x)
 *     x1 = select(index == a0, -inf, x)     a1 = argmax(x1)     v1 = reduce_max(x1)     ...
 *
 * As single statistics these are as many passes, each written out for every register. Here they are found as
 * what they are, rounds of one pass, and become a loop: its body finds the row's largest among what is not
 * taken, by bits of which each lane has one for each of its elements. sum(select(index == a0, y, 0)), what
 * another value has at that place, is found on the way. */
#include "codegen/reduce.h"
#include "codegen/rounds.h"
#include "codegen/templates/matmul_epilogue.h"

#include <math.h>

enum { ROUND_WORD = 32 };

typedef struct Rounds {
    const Value *x, *y; /* what is searched; what is picked beside it, or NULL */
    int n;
    const Value *at[ROUNDS_MAX], *best[ROUNDS_MAX], *picked[ROUNDS_MAX]; /* statistics; NULL: not wanted */
} Rounds;

static bool rounds_is_constant(const Value *value, double want) {
    double number;
    return value_is_constant(value, &number) && number == want;
}

/* The statistic of this kind over `operand`; NULL where there is none. */
static const Value *rounds_find(const MatmulPlan *plan, OpKind op, const Value *operand) {
    for (size_t i = 0; i < plan->statistics.n; i++)
        if (plan->statistics.at[i]->op == op && plan->statistics.at[i]->in[0] == operand)
            return plan->statistics.at[i];
    return NULL;
}

/* What another value has where `at` is. */
static void rounds_find_picked(const MatmulPlan *plan, Rounds *rounds, int j) {
    for (size_t i = 0; i < plan->statistics.n; i++) {
        const Value *sum = plan->statistics.at[i], *of = sum->in[0];
        if (sum->op != OP_sum || of->op != OP_select || !rounds_is_constant(of->in[2], 0) ||
            !rounds_is_hit(of->in[0], rounds->at[j], 1, plan->n) || of->in[1]->dtype != DTYPE_F32 ||
            !value_same_dims(of->in[1], plan->core[0]) || (rounds->y && rounds->y != of->in[1]))
            continue;
        rounds->y = of->in[1];
        rounds->picked[j] = sum;
    }
}

static bool rounds_match(const MatmulPlan *plan, const MatmulFragment *f, const Value *first,
                         Rounds *rounds) {
    *rounds = (Rounds){.x = first->in[0]};
    if (first->op != OP_argmax || first->in[0]->dtype != DTYPE_F32 || f->group_cols != 8 || f->width != 2 ||
        f->row_lanes != 4 || f->is_swapped || f->gang)
        return false;
    for (const Value *x = rounds->x, *at = first; at && rounds->n < ROUNDS_MAX;
         x = rounds_next(plan->region, x, at, 1, plan->n), at = x ? rounds_find(plan, OP_argmax, x) : NULL) {
        rounds->at[rounds->n] = at;
        rounds->best[rounds->n] = rounds_find(plan, OP_reduce_max, x);
        rounds_find_picked(plan, rounds, rounds->n++);
    }
    return rounds->n > 1;
}

/* Registers of one round, an element for each of the thread's rows. */
typedef struct RoundPass {
    const Rounds *rounds;
    const KVar *taken;  /* bits of each row's elements */
    PartialVars best;   /* its number: the bit of the thread's element, and the column once lanes meet */
    const KVar *picked; /* NULL: nothing is */
    int words;          /* of bits, a row */
} RoundPass;

/* The bit within its word. */
static const KExpr *rounds_mask(Builder *b, const KExpr *bit) {
    const KExpr *by = k_convert(b, k_mod(b, bit, k_i32(b, ROUND_WORD)), K_U32);
    return k_scalar(b, OP_shl, k_int(b, K_U32, 1), by, NULL);
}

static void rounds_search(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, void *context) {
    Builder *b = e->b;
    const RoundPass *pass = context;
    const KExpr *row = epilogue_row_at(e, slot->block, slot->half);
    const KExpr *j = epilogue_loop(b, "j", e->run);
    const KExpr *in_group = k_add(b, k_mul(b, slot->piece, k_i32(b, e->run)), j);
    const KExpr *bit = k_add(b, k_mul(b, slot->group, k_i32(b, 2)), in_group);
    const KExpr *word = k_add(b, k_mul(b, row, k_i32(b, pass->words)), k_div(b, bit, k_i32(b, ROUND_WORD)));
    const KExpr *one = rounds_mask(b, bit);
    const KExpr *set = k_bit_and(b, k_elem(b, pass->taken, word), one);
    const KExpr *x = k_let_expr(b, "x", k_elem(b, computed[0], j)), *best = k_elem(b, pass->best.x, row);
    const KExpr *is_free = k_let_expr(b, "is_free", k_eq(b, set, k_int(b, K_U32, 0)));
    /* columns come in order */
    const KExpr *wins = k_let_expr(b, "wins", reduce_beats(b, pass->rounds->at[0], x, best, is_free));
    k_set_elem(b, pass->best.number, row, k_select(b, wins, bit, k_elem(b, pass->best.number, row)));
    k_set_elem(b, pass->best.x, row, k_select(b, wins, x, best));
    if (pass->picked)
        k_set_elem(b, pass->picked, row,
                   k_select(b, wins, k_elem(b, computed[1], j), k_elem(b, pass->picked, row)));
    epilogue_loop_end(b, e->run);
}

/* Bits of the thread's elements, each row's the same: columns behind the last are taken from the start.
 * Asking in each round whether they are there would have compilers keep the answers, as many as there are
 * accumulators. */
static const KVar *rounds_taken(Epilogue *e, int words) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const Dim *columns = e->plan->n;
    int n_rows = f->blocks * f->halves;
    const KVar *taken = k_array(b, "taken", K_U32, n_rows * words, k_int(b, K_U32, 0));
    if (!e->columns_left)
        return taken;
    /* groups before the last column need no asking */
    int known = f->is_whole && dim_is_const(columns) ? (int)(columns->value / f->group_cols) : 0;
    const KExpr *number = epilogue_loop(b, "behind", f->groups - known), *j = epilogue_loop(b, "j", f->width);
    const KExpr *group = k_add(b, number, k_i32(b, known));
    const KExpr *column = k_add(b, k_mul(b, group, k_i32(b, f->group_cols)), j);
    const KExpr *bit = k_add(b, k_mul(b, group, k_i32(b, f->width)), j);
    const KExpr *one = rounds_mask(b, bit);
    const KExpr *is_behind = k_ge(b, column, e->columns_left);
    const KExpr *mark = k_let_expr(b, "mark", k_select(b, is_behind, one, k_int(b, K_U32, 0)));
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    const KExpr *word = k_add(b, k_mul(b, row, k_i32(b, words)), k_div(b, bit, k_i32(b, ROUND_WORD)));
    k_set_elem(b, taken, word, k_bit_or(b, k_elem(b, taken, word), mark));
    epilogue_loop_end(b, n_rows);
    epilogue_loop_end(b, f->width);
    epilogue_loop_end(b, f->groups - known);
    return taken;
}

/* The lane's number among those that share its rows. */
static const KExpr *rounds_lane(Epilogue *e) {
    return k_mod(e->b, k_special(e->b, SPECIAL_LANE), k_i32(e->b, e->fragment->row_lanes));
}

/* The row's largest among its lanes; the lane that has it marks it, and all learn what was picked beside it.
 */
static void rounds_meet(Epilogue *e, const RoundPass *pass, const KExpr *row) {
    Builder *b = e->b;
    const KExpr *number = k_elem(b, pass->best.number, row);
    const KExpr *mine =
        k_add(b, k_mul(b, k_div(b, number, k_i32(b, 2)), k_i32(b, 8)), k_mod(b, number, k_i32(b, 2)));
    mine = k_let_expr(b, "mine", k_add(b, e->fragment->col, mine));
    k_set_elem(b, pass->best.number, row, mine);
    reduce_lanes(b, pass->rounds->at[0], pass->best, row, e->fragment->row_lanes);
    const KExpr *at = k_elem(b, pass->best.number, row);
    const KExpr *lane = rounds_lane(e);
    const KExpr *owns =
        k_let_expr(b, "owns", k_eq(b, k_mod(b, k_div(b, at, k_i32(b, 2)), k_i32(b, 4)), lane));
    if (pass->picked) {
        const KExpr *has = k_and(b, owns, k_eq(b, mine, at));
        const KExpr *bits =
            k_select(b, has, k_bitcast(b, k_elem(b, pass->picked, row), K_U32), k_int(b, K_U32, 0));
        bits = k_let_expr(b, "bits", bits);
        for (int mask = 2; mask > 0; mask /= 2)
            bits = k_let_expr(b, "bits", k_bit_or(b, bits, k_shuffle_xor(b, bits, mask)));
        k_set_elem(b, pass->picked, row, k_bitcast(b, bits, K_F32));
    }
    const KExpr *bit = k_add(b, k_mul(b, k_div(b, at, k_i32(b, 8)), k_i32(b, 2)), k_mod(b, at, k_i32(b, 2)));
    bit = k_let_expr(b, "bit", bit);
    const KExpr *one = k_let_expr(b, "one", rounds_mask(b, bit));
    for (int w = 0; w < pass->words; w++) {
        const KExpr *word = k_add(b, k_mul(b, row, k_i32(b, pass->words)), k_i32(b, w));
        const KExpr *is_here = k_and(b, owns, k_eq(b, k_div(b, bit, k_i32(b, ROUND_WORD)), k_i32(b, w)));
        const KExpr *set = k_bit_or(b, k_elem(b, pass->taken, word), one);
        k_set_elem(b, pass->taken, word, k_select(b, is_here, set, k_elem(b, pass->taken, word)));
    }
}

/* What rounds find. All lanes of a row learn it; each keeps the rounds of its own number, so that results
 * take a quarter of the registers while the accumulators take most. */
static const KVar *rounds_results(Epilogue *e, int n, KType type, const char *name) {
    int n_rows = e->fragment->blocks * e->fragment->halves, lanes = e->fragment->row_lanes;
    return k_array(e->b, name, type, (n + lanes - 1) / lanes * n_rows, k_convert(e->b, k_i32(e->b, 0), type));
}

/* results[round] becomes `value`, where only the loop knows which round it is. */
static void rounds_keep(Epilogue *e, const KVar *results, int n, const KExpr *round, const KExpr *row,
                        const KExpr *value) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves, lanes = e->fragment->row_lanes;
    for (int j = 0; j < n; j += lanes) {
        const KExpr *is_own = k_eq(b, round, k_add(b, k_i32(b, j), rounds_lane(e)));
        const KExpr *to = k_add(b, k_i32(b, j / lanes * n_rows), row);
        k_set_elem(b, results, to, k_select(b, is_own, value, k_elem(b, results, to)));
    }
}

/* Round j's result of a row, from the lane that has it. */
static const KExpr *rounds_fetch(Epilogue *e, const KVar *results, int j, const KExpr *row) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves, lanes = e->fragment->row_lanes;
    const KExpr *kept = k_elem(b, results, k_add(b, k_i32(b, j / lanes * n_rows), row));
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    lane = k_add(b, k_sub(b, lane, k_mod(b, lane, k_i32(b, lanes))), k_i32(b, j % lanes));
    return k_shuffle_index(b, "found", kept, lane);
}

static void rounds_bind(Epilogue *e, const Value *const *statistics, int n, const KVar *results) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves;
    for (int j = 0; j < n; j++) {
        if (!statistics[j])
            continue;
        const char *name = statistics[j]->name ? statistics[j]->name : op_info(statistics[j]->op)->name;
        const KVar *array = k_array(b, text_format(b->arena, "row_%s", name), results->type, n_rows, NULL);
        const KExpr *row = epilogue_loop(b, "row", n_rows);
        k_set_elem(b, array, row, rounds_fetch(e, results, j, row));
        epilogue_loop_end(b, n_rows);
        MatmulRow bound = {statistics[j], array};
        vec_push(b->arena, &e->rows, bound);
    }
}

bool matmul_begins_rounds(const Epilogue *e, const Value *statistic) {
    Rounds rounds;
    return rounds_match(e->plan, e->fragment, statistic, &rounds);
}

void matmul_row_rounds(Epilogue *e, const Value *first) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    Rounds *rounds = ARENA_NEW(b->arena, Rounds);
    if (!rounds_match(e->plan, f, first, rounds))
        return;
    int n_rows = f->blocks * f->halves;
    RoundPass pass = {.rounds = rounds, .words = (2 * f->groups + ROUND_WORD - 1) / ROUND_WORD};
    pass.taken = rounds_taken(e, pass.words);
    const KVar *at = rounds_results(e, rounds->n, K_I32, "round_at");
    const KVar *best = rounds_results(e, rounds->n, K_F32, "round_best");
    const KVar *picked = rounds->y ? rounds_results(e, rounds->n, K_F32, "round_picked") : NULL;
    const KExpr *round = k_for_begin(b, "round", k_i32(b, 0), k_i32(b, rounds->n), 1, UNROLL_NONE);
    pass.best = reduce_declare(b, first, "found", n_rows, K_I32);
    pass.picked = picked ? k_array(b, "beside", K_F32, n_rows, k_float(b, K_F32, 0)) : NULL;
    const Value *values[] = {rounds->x, rounds->y};
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    /* groups whose loads are under way at a time: a round is a chain of comparisons, and waits for nothing
     * else */
    int together = 8;
    while (f->groups % together != 0)
        together /= 2;
    const KExpr *part = epilogue_loop(b, "part", f->groups / together);
    epilogue_batch(e, block, k_mul(b, part, k_i32(b, together)), together, values, rounds->y ? 2 : 1, 0,
                   rounds_search, &pass);
    epilogue_loop_end(b, f->groups / together);
    epilogue_loop_end(b, f->blocks);
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    rounds_meet(e, &pass, row);
    rounds_keep(e, at, rounds->n, round, row, k_elem(b, pass.best.number, row));
    rounds_keep(e, best, rounds->n, round, row, k_elem(b, pass.best.x, row));
    if (picked)
        rounds_keep(e, picked, rounds->n, round, row, k_elem(b, pass.picked, row));
    epilogue_loop_end(b, n_rows);
    k_end(b);
    rounds_bind(e, rounds->at, rounds->n, at);
    rounds_bind(e, rounds->best, rounds->n, best);
    if (picked)
        rounds_bind(e, rounds->picked, rounds->n, picked);
}
