/* The largest of each row, one after the other, while the row stays in registers:
 *
 *     a0 = argmax(x)     v0 = reduce_max(x)
 *     x1 = select(index == a0, -inf, x)     a1 = argmax(x1)     v1 = reduce_max(x1)     ...
 *
 * As reductions of levels these are as many passes, each written out for every register. Here they are found
 * as what they are, and become a loop. A thread knows the best of each group of its elements, so that a round
 * looks at those, at what the row's threads have, and at the elements of the one group that lost its best:
 *
 *     elements   x x x x x x x x | x x x x x x x x | ...      GROUP in each
 *     groups     best, number    | best, number    | ...
 *     round:     best of groups -> of lanes -> of warps: found;    found's group: without it, best again
 *
 * Each lane keeps what the rounds of its own number have found. */
#include "codegen/kernel_value.h"
#include "codegen/templates/rows_build.h"
#include "ir/value_map.h"

enum {
    GROUP = 8, /* elements, or a run's where those are more */
};

/* ---- which values are rounds */

static const Value *rounds_find(const Rows *rows, OpKind op, const Value *operand) {
    for (int l = 0; operand && l < rows->levels.n; l++)
        for (size_t i = 0; i < rows->levels.at[l].n; i++)
            if (rows->levels.at[l].at[i]->op == op && rows->levels.at[l].at[i]->in[0] == operand)
                return rows->levels.at[l].at[i];
    return NULL;
}

static void rounds_match(const Rows *rows, const Value *first, RowsRounds *found) {
    *found = (RowsRounds){.x = first->in[0]};
    const Value *x = found->x, *at = first;
    int from_end = x->rank - first->attrs[0].axes.at[0];
    while (at && found->n < ROUNDS_MAX) {
        found->at[found->n] = at;
        found->best[found->n++] = rounds_find(rows, OP_reduce_max, x);
        x = rounds_next(rows->region, x, at, from_end, rows->extent);
        at = rounds_find(rows, OP_argmax, x);
    }
    found->left = x;
}

static bool rounds_has(const RowsRounds *rounds, const Value *reduction) {
    for (int i = 0; i < rounds->n; i++)
        if (rounds->at[i] == reduction || rounds->best[i] == reduction)
            return true;
    return false;
}

/* Takes them out of the levels. */
static void rounds_take_out(Rows *rows, const RowsRounds *rounds) {
    for (int l = 0; l < rows->levels.n; l++) {
        ReduceLevel *level = &rows->levels.at[l];
        size_t n = 0;
        for (size_t i = 0; i < level->n; i++)
            if (!rounds_has(rounds, level->at[i]))
                level->at[n++] = level->at[i];
        level->n = n;
    }
}

static bool rounds_begin(Rows *rows, const Value *first, int level) {
    RowsRounds *rounds = &rows->rounds[rows->n_rounds];
    for (int i = 0; i < rows->n_rounds; i++)
        if (rows->rounds[i].level == level)
            return false;
    if (first->op != OP_argmax || first->attrs[0].axes.n != 1 || !lower_is_whole(rows->region, first->in[0]))
        return false;
    rounds_match(rows, first, rounds);
    rounds->level = level;
    return rounds->n >= ROUNDS_FEWEST;
}

void rows_find_rounds(Rows *rows) {
    if (!rows->schedule->resident || rows->blocks > 1 ||
        dim_upper(rows->b->kernel->graph->dims, rows->extent) > INT32_MAX)
        return;
    for (int l = 0; l < rows->levels.n; l++)
        for (size_t i = 0; i < rows->levels.at[l].n && rows->n_rounds < ROUNDS_CHAINS; i++)
            if (rounds_begin(rows, rows->levels.at[l].at[i], l)) {
                rounds_take_out(rows, &rows->rounds[rows->n_rounds++]);
                break;
            }
}

int rows_rounds_of(const Rows *rows, int level) {
    for (int i = 0; i < rows->n_rounds; i++)
        if (rows->rounds[i].level == level)
            return i;
    return -1;
}

/* ---- who asks for what rounds have found */

/* Whether `value` is computed from what rounds have found, other than `left`. */
static bool rounds_reach(const Rows *rows, const RowsRounds *rounds, const Value *value, ValueMap *seen) {
    if (rounds_has(rounds, value))
        return true;
    if (value == rounds->left || value_map_get(seen, value) || region_reads(rows->region, value))
        return false;
    value_map_set(seen, value, true);
    for (int i = 0; i < value->n_in; i++)
        if (rounds_reach(rows, rounds, value->in[i], seen))
            return true;
    return false;
}

static bool rounds_are_below(const Rows *rows, const RowsRounds *rounds, const Value *value) {
    ValueMap seen = {.arena = rows->b->arena};
    return rounds_reach(rows, rounds, value, &seen);
}

/* How many reductions from the first on `value` joins in order; -1: it joins others. Concats have others
 * below, where they are more than one takes; places may be cast to another type of integers. */
static int rounds_joined(const Value *value, const Value *const *reductions, int n) {
    if (value->op == OP_cast && !dtype_is_float(value->dtype))
        value = value->in[0];
    if (value->op != OP_concat || value->attrs[0].i != value->rank - 1)
        return n > 0 && value == reductions[0] ? 1 : -1;
    int joined = 0;
    for (int i = 0; i < value->n_in; i++) {
        int more = rounds_joined(value->in[i], reductions + joined, n - joined);
        if (more < 0)
            return -1;
        joined += more;
    }
    return joined;
}

/* Whether `value` is all that rounds have found, in order. */
static bool rounds_are_joined(const RowsRounds *rounds, const Value *value, const Value *const *reductions) {
    return value->op == OP_concat && rounds_joined(value, reductions, rounds->n) == rounds->n;
}

/* Whether element j of `value` needs no other round than j. */
static bool rounds_are_apart(const Rows *rows, const RowsRounds *rounds, const Value *value) {
    if (rounds_are_joined(rounds, value, rounds->at) || rounds_are_joined(rounds, value, rounds->best) ||
        !rounds_are_below(rows, rounds, value))
        return true;
    bool are = op_is_scalar(value->op) || value->op == OP_cast;
    for (int i = 0; are && i < value->n_in; i++)
        are = rounds_are_apart(rows, rounds, value->in[i]);
    return are;
}

/* Whether lanes can compute the bundle `output`, each an element of its own. */
static bool rounds_are_bundled(const Rows *rows, const RowsRounds *rounds, const Value *output) {
    for (int i = 0; i < rows->n_rounds; i++)
        if (&rows->rounds[i] != rounds && rounds_are_below(rows, &rows->rounds[i], output))
            return false;
    return region_window(rows->region, output)->width == rounds->n && rounds_are_apart(rows, rounds, output);
}

/* Whether every thread of the row has to know them. */
static bool rounds_are_asked_for(const Rows *rows, const RowsRounds *rounds) {
    for (int l = 0; l < rows->levels.n; l++)
        for (size_t i = 0; i < rows->levels.at[l].n; i++)
            if (rounds_are_below(rows, rounds, rows->levels.at[l].at[i]->in[0]))
                return true;
    for (int i = 0; i < rows->n_rounds; i++)
        if (&rows->rounds[i] != rounds && rounds_are_below(rows, rounds, rows->rounds[i].x))
            return true;
    for (size_t i = 0; i < rows->whole.n; i++)
        if (rounds_are_below(rows, rounds, rows->whole.at[i]))
            return true;
    for (size_t i = 0; i < rows->reduced.n; i++)
        if (rounds_are_below(rows, rounds, rows->reduced.at[i]))
            return true;
    for (size_t i = 0; i < rows->bundles.n; i++)
        if (rounds_are_below(rows, rounds, rows->bundles.at[i]) &&
            !rounds_are_bundled(rows, rounds, rows->bundles.at[i]))
            return true;
    return false;
}

/* ---- where it is kept */

/* Lanes that keep results apart, and the lane's number among them. */
static int round_lanes(const Rows *rows) {
    return rows->lanes < 32 ? rows->lanes : 32;
}

static const KExpr *round_lane(const Rows *rows) {
    return k_mod(rows->b, k_special(rows->b, SPECIAL_LANE), k_i32(rows->b, round_lanes(rows)));
}

/* ---- the loop */

typedef struct RoundLoop {
    Rows *rows;
    const RowsRounds *rounds;
    const Value *argmax; /* any of the rounds', which all combine alike */
    int elements, group, groups;
    PartialVars bests, best; /* of each group; of the row */
    const KExpr *round;
    KBuffer *x, *number; /* of the block's warps, in two copies: NULL where a warp has the row */
} RoundLoop;

/* The row's number of the thread's element `e`. */
static const KExpr *round_number(const RoundLoop *loop, const KExpr *e) {
    const Rows *rows = loop->rows;
    Builder *b = rows->b;
    const KExpr *width = k_i32(b, rows->width), *lane = k_convert(b, rows->lane, K_I32);
    const KExpr *run = k_mul(b, k_div(b, e, width), k_i32(b, rows_stride(rows)));
    return k_add(b, k_mul(b, lane, width), k_add(b, run, k_mod(b, e, width)));
}

/* The best of group `g`'s elements, of which `found` (NULL: none) is taken. */
static void round_search_group(RoundLoop *loop, const KExpr *g, const KExpr *found) {
    Builder *b = loop->rows->b;
    const KVar *elements = loop->rounds->elements;
    reduce_put(b, loop->bests, g, reduce_identity(b, loop->argmax, K_I32));
    const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, loop->group), 1, UNROLL_FULL);
    const KExpr *e = k_add(b, k_mul(b, g, k_i32(b, loop->group)), j);
    const KExpr *number = k_let_expr(b, "number", round_number(loop, e));
    if (found) {
        const KExpr *lowest = reduce_identity(b, loop->argmax, K_I32).x;
        k_set_elem(b, elements, e, k_select(b, k_eq(b, number, found), lowest, k_elem(b, elements, e)));
    }
    reduce_take(b, loop->argmax, loop->bests, g, k_elem(b, elements, e), number, NULL);
    k_end(b);
}

/* The best of the row's warps, known to all of them. Copies take turns, so that one barrier a round keeps
 * those who write from those who still read. */
static void round_combine_warps(RoundLoop *loop) {
    const Rows *rows = loop->rows;
    Builder *b = rows->b;
    int warps = rows->lanes / 32, all = b->kernel->threads / 32;
    const KExpr *own = k_special(b, SPECIAL_WARP), *lane = k_special(b, SPECIAL_LANE);
    const KExpr *copy = k_mul(b, k_mod(b, loop->round, k_i32(b, 2)), k_i32(b, all));
    copy = k_let_expr(b, "copy", copy);
    k_if_begin(b, k_eq(b, lane, k_i32(b, 0)));
    k_store(b, loop->x, k_add(b, copy, own), loop->best.x, NULL, 1, NULL, CACHE_DEFAULT);
    k_store(b, loop->number, k_add(b, copy, own), loop->best.number, NULL, 1, NULL, CACHE_DEFAULT);
    k_end(b);
    k_barrier(b);
    const KExpr *first = k_mul(b, k_div(b, own, k_i32(b, warps)), k_i32(b, warps));
    const KExpr *from = k_add(b, first, k_mod(b, lane, k_i32(b, warps)));
    from = k_let_expr(b, "from", k_add(b, copy, from));
    k_load(b, loop->best.x, NULL, loop->x, from, 1, NULL, CACHE_DEFAULT);
    k_load(b, loop->best.number, NULL, loop->number, from, 1, NULL, CACHE_DEFAULT);
    reduce_lanes(b, loop->argmax, loop->best, NULL, warps < 4 ? warps : 32); /* who repeat each other */
}

static const KVar *round_results(const Rows *rows, int n, const char *name, KType type) {
    int words = (n + round_lanes(rows) - 1) / round_lanes(rows);
    return k_array(rows->b, name, type, words, k_convert(rows->b, k_i32(rows->b, 0), type));
}

/* results[round] becomes `value`, where only the loop knows which round it is. */
static void round_keep(const RoundLoop *loop, const KVar *results, const KExpr *value) {
    const Rows *rows = loop->rows;
    Builder *b = rows->b;
    for (int j = 0; j < loop->rounds->n; j += round_lanes(rows)) {
        const KExpr *is_own = k_eq(b, loop->round, k_add(b, k_i32(b, j), round_lane(rows)));
        const KExpr *word = k_i32(b, j / round_lanes(rows));
        k_set_elem(b, results, word, k_select(b, is_own, value, k_elem(b, results, word)));
    }
}

/* Binds what rounds have found: round j's from the lane that keeps it. */
static void round_bind(const Rows *rows, int n, const Value *const *reductions, const KVar *results) {
    Builder *b = rows->b;
    int lanes = round_lanes(rows);
    const KExpr *own = k_special(b, SPECIAL_LANE);
    for (int j = 0; j < n; j++) {
        if (!reductions[j])
            continue;
        const KExpr *lane = k_add(b, k_sub(b, own, round_lane(rows)), k_i32(b, j % lanes));
        const KExpr *kept = k_elem(b, results, k_i32(b, j / lanes));
        const KExpr *found = k_shuffle_index(b, lower_value_name(rows->lower, reductions[j]), kept, lane);
        lower_bind_expr(rows->lower, reductions[j], k_convert(b, found, ktype_of(reductions[j]->dtype)));
    }
}

void rows_build_rounds(Rows *rows, RowsRounds *rounds) {
    Builder *b = rows->b;
    RoundLoop loop = {
        .rows = rows, .rounds = rounds, .argmax = rounds->at[0], .elements = rows->runs * rows->width};
    loop.group = rows->width;
    while (loop.group < GROUP && loop.elements % (2 * loop.group) == 0)
        loop.group *= 2;
    loop.groups = loop.elements / loop.group;
    loop.bests = reduce_declare(b, loop.argmax, "bests", loop.groups, K_I32);
    rounds->found_at = round_results(rows, rounds->n, "round_at", K_I32);
    rounds->found_best = round_results(rows, rounds->n, "round_best", loop.bests.x->type);
    if (rows->lanes > 32) {
        int copies = 2 * b->kernel->threads / 32;
        loop.x = k_shared(b, "round_best_of", rounds->x->dtype, copies, 16);
        loop.number = k_shared(b, "round_at_of", DTYPE_I32, copies, 16);
    }
    const KExpr *g = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, loop.groups), 1, UNROLL_FULL);
    round_search_group(&loop, g, NULL);
    k_end(b);

    loop.round = k_for_begin(b, "round", k_i32(b, 0), k_i32(b, rounds->n), 1, UNROLL_NONE);
    loop.best = reduce_declare(b, loop.argmax, "found", 0, K_I32);
    g = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, loop.groups), 1, UNROLL_FULL);
    reduce_take(b, loop.argmax, loop.best, NULL, k_elem(b, loop.bests.x, g), k_elem(b, loop.bests.number, g),
                NULL);
    k_end(b);
    reduce_lanes(b, loop.argmax, loop.best, NULL, round_lanes(rows));
    if (rows->lanes > 32)
        round_combine_warps(&loop);
    const KExpr *found = k_var(b, loop.best.number);
    round_keep(&loop, rounds->found_at, found);
    round_keep(&loop, rounds->found_best, k_var(b, loop.best.x));
    int64_t step = rows_stride(rows) * (loop.group / rows->width);
    const KExpr *lost = k_let_expr(b, "lost", k_div(b, found, k_i32(b, step)));
    g = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, loop.groups), 1, UNROLL_FULL);
    k_if_begin(b, k_eq(b, lost, g));
    round_search_group(&loop, g, found);
    k_end(b);
    k_end(b);
    k_end(b);

    if (rounds_are_asked_for(rows, rounds)) {
        round_bind(rows, rounds->n, rounds->at, rounds->found_at);
        round_bind(rows, rounds->n, rounds->best, rounds->found_best);
    }
    RowsHeld left = {rounds->left, rounds->elements};
    if (left.value)
        vec_push(b->arena, &rows->held, left);
}

/* Joined results below `value`: bound to what the lane has of them in word `word`, or (-1) to nothing. */
static void round_bind_joined(const Rows *rows, const RowsRounds *rounds, const Value *value, int word) {
    Builder *b = rows->b;
    bool is_at = rounds_are_joined(rounds, value, rounds->at);
    if (is_at || rounds_are_joined(rounds, value, rounds->best)) {
        const KVar *found = is_at ? rounds->found_at : rounds->found_best;
        if (word < 0) {
            lower_unbind(rows->lower, value);
            return;
        }
        const KExpr *own = k_elem(b, found, k_i32(b, word));
        lower_bind_expr(rows->lower, value, k_convert(b, own, ktype_of(value->dtype)));
        return;
    }
    for (int i = 0; i < value->n_in && rounds_are_below(rows, rounds, value); i++)
        round_bind_joined(rows, rounds, value->in[i], word);
}

static bool round_store(Rows *rows, const RowsRounds *rounds, const Value *output) {
    Builder *b = rows->b;
    if (!rounds_are_below(rows, rounds, output) || !rounds_are_bundled(rows, rounds, output))
        return false;
    int lanes = round_lanes(rows);
    const char *name = text_format(b->arena, "%s_v", lower_value_name(rows->lower, output));
    for (int j = 0; j < rounds->n; j += lanes) {
        int n = rounds->n - j < lanes ? rounds->n - j : lanes;
        Run run = {.rank = rows->region->rank, .axis = rows->region->rank - 1, .width = 1};
        lower_delinearize(b, rows->row, rows->split, rows->region->dims, run.coords);
        run.coords[run.axis] = k_add(b, rows->lane, k_int(b, rows->index, j));
        k_if_begin(b, k_and(b, k_lt(b, rows->lane, k_int(b, rows->index, n)), rows->row_inside));
        round_bind_joined(rows, rounds, output, j / lanes);
        LowerTarget target = {.value = output, .stored = true};
        target.dst = k_variable(b, name, ktype_of(output->dtype), NULL);
        lower_run(rows->lower, &run, &target, 1);
        lower_store(rows->lower, &run, output, target.dst, NULL);
        k_end(b);
    }
    round_bind_joined(rows, rounds, output, -1);
    return true;
}

bool rows_store_rounds(Rows *rows, const Value *output) {
    for (int i = 0; i < rows->n_rounds; i++)
        if (round_store(rows, &rows->rounds[i], output))
            return true;
    return false;
}
