/* Rows: reductions over the innermost axes and what is done with their results along the row.
 *
 * `threads_per_row` threads share a row, each with every threads_per_row-th run of `vector` elements.
 * Reductions that need one another (softmax: the sum needs the maximum) fall into levels; each level is a
 * pass over the row, and a last pass computes the outputs:
 *
 *     x_v = the thread's runs of the row                       resident: read once, kept in registers
 *     for each level:  acc = identity;  for each run: acc = combine(acc, f(x_v));  combine over lanes, then
 * over warps for each run:    y = g(x_v, results)
 *
 * Rows that begin anywhere in memory have edges besides (rows_skewed.c).
 *
 * A row too long for registers stays in shared memory, or is read again in each pass, from the L2 cache where
 * it fits. One that is too long for a block's is shared by the blocks of a cluster, whose results meet in
 * each other's shared memory:
 *
 *     block 0   | runs 0, 2, 4 ... | acc --+--> [ 0 ] <--+-- each lane reads one block's, and lanes combine
 *     block 1   | runs 1, 3, 5 ... | acc --+--> [ 1 ] <--+
 *
 * Orders of combination are fixed. */
#include "codegen/templates/rows.h"

#include "codegen/cost.h"
#include "codegen/templates/rows_build.h"
#include "codegen/templates/rows_turned.h"
#include "codegen/templates/vectors.h"

enum { ROWS_LOADED_WORDS = 40 /* registers of loads in flight before the first reduction */ };

/* ---- runs */

/* The run that starts at element `at` of the row. */
static Run rows_run(Rows *rows, const KExpr *at, bool exact) {
    Builder *b = rows->b;
    const Region *region = rows->region;
    Run run = {.rank = region->rank,
               .axis = region->rank - 1,
               .width = rows->width,
               .split = rows->split,
               .start = rows->start};
    run.outer = rows->row;
    run.inner = at;
    lower_delinearize(b, rows->row, rows->split, region->dims, run.coords);
    lower_delinearize(b, at, region->n_reduced, region->dims + rows->split, run.coords + rows->split);
    run.guard = k_and(b, rows->row_inside, exact ? NULL : rows_inside(rows, at));
    return run;
}

/* The thread's first element of the row. */
static const KExpr *rows_first(Rows *rows) {
    const KExpr *first = k_mul(rows->b, rows->lane, k_int(rows->b, rows->index, rows->width));
    return rows->start == RUN_SKEWED ? k_add(rows->b, rows->head, first) : first;
}

int64_t rows_stride(const Rows *rows) {
    return (int64_t)rows->lanes * rows->blocks * rows->width;
}

/* Opens the loop over the thread's runs from `first` on (none for a single run). */
static const KExpr *rows_slots_begin(Rows *rows, const KExpr *first, bool exact, Run *run) {
    Builder *b = rows->b;
    const KExpr *slot = k_i32(b, 0), *at = first;
    if (rows->runs > 1) {
        slot = k_for_begin(b, "c", k_i32(b, 0), k_i32(b, rows->runs), 1, UNROLL_FULL);
        at = k_add(b, first,
                   k_mul(b, k_convert(b, slot, rows->index), k_int(b, rows->index, rows_stride(rows))));
    }
    *run = rows_run(rows, exact ? at : k_let_expr(b, "col", at), exact);
    return slot;
}

static void rows_slots_end(Rows *rows) {
    if (rows->runs > 1)
        k_end(rows->b);
}

/* ---- passes */

typedef struct RowsPass {
    LowerTarget *targets;
    int n;
    PartialVars *acc; /* of the level's reductions, by number */
    int level;        /* rows->levels.n: the pass that computes the outputs */
    size_t held;      /* values held before this pass */
} RowsPass;

/* The targets of a level, with their partial results; or of the outputs. */
static RowsPass rows_pass(Rows *rows, int level) {
    Builder *b = rows->b;
    RowsPass pass = {.level = level, .held = rows->held.n};
    bool is_last = level == rows->levels.n;
    bool resident = rows->schedule->resident;
    size_t n = is_last ? rows->whole.n : rows->levels.at[level].n;
    if (!is_last && resident)
        rows_find_held(rows, level);
    size_t n_held = rows->held.n - pass.held;
    pass.targets = ARENA_ARRAY(b->arena, LowerTarget, n + n_held + 1 + ROWS_KEPT_MAX + ROWS_DOWN_MAX);
    pass.acc = ARENA_ARRAY(b->arena, PartialVars, n + 1);
    for (size_t i = 0; i < n_held; i++)
        pass.targets[pass.n++] = (LowerTarget){.value = rows->held.at[pass.held + i].value,
                                               .dst = rows->held.at[pass.held + i].array};
    int number = rows_rounds_of(rows, level);
    if (number >= 0) {
        RowsRounds *rounds = &rows->rounds[number];
        rounds->elements = k_array(b, "left", ktype_of(rounds->x->dtype), rows->runs * rows->width, NULL);
        pass.targets[pass.n++] = (LowerTarget){.value = rounds->x, .dst = rounds->elements};
    }
    for (size_t i = 0; i < n; i++) {
        if (is_last) {
            pass.targets[pass.n++] = (LowerTarget){.value = rows->whole.at[i], .stored = true};
            continue;
        }
        const Value *reduction = rows->levels.at[level].at[i];
        const char *name = lower_value_name(rows->lower, reduction);
        pass.acc[i] = reduce_declare(b, reduction, text_format(b->arena, "%s_acc", name), 0, rows->index);
        pass.targets[pass.n++] =
            (LowerTarget){.value = reduction->in[0], .fold = {.reduction = reduction, .acc = pass.acc[i]}};
    }
    if (is_last) {
        rows_down_targets(rows, pass.targets + pass.n);
        pass.n += rows->n_down;
    }
    return pass;
}

/* One run of a pass. */
static void rows_pass_run(Rows *rows, RowsPass *pass, const Run *run, const KExpr *slot, bool exact) {
    Builder *b = rows->b;
    bool is_last = pass->level == rows->levels.n;
    const KExpr *first = k_mul(b, slot, k_i32(b, rows->width));
    rows_bind_held(rows, pass->held, slot);
    if (is_last)
        rows_pieces_run(rows, run, slot, exact);
    for (int i = 0; i < pass->n; i++) {
        LowerTarget *target = &pass->targets[i];
        if (target->fold.reduction) {
            target->fold.number = run->inner;
            target->fold.at = first;
            target->fold.inside = exact ? NULL : rows_inside(rows, run->inner);
        } else if (is_last) {
            const char *name = text_format(b->arena, "%s_v", lower_value_name(rows->lower, target->value));
            target->dst = k_array(b, name, ktype_of(target->value->dtype), rows->width, NULL);
        } else if (rows->schedule->resident) {
            target->at = first;
        }
    }
    lower_batch_run(rows->lower, run, slot, pass->targets, pass->n);
    for (int i = 0; is_last && i < pass->n; i++) {
        if (transpose_is_written_turned(&rows->tile, pass->targets[i].value))
            rows_tile_put(rows, &pass->targets[i], run);
        else if (pass->targets[i].dst)
            lower_store(rows->lower, run, pass->targets[i].value, pass->targets[i].dst, NULL);
    }
    if (is_last)
        rows_pieces_store(rows, run);
}

/* Partial results of the row's warps, through shared memory; every thread gets the row's. */
static void rows_combine_warps(Rows *rows, const RowsPass *pass) {
    Builder *b = rows->b;
    int warps = rows->lanes / 32, all = b->kernel->threads / 32;
    size_t n = rows->levels.at[pass->level].n;
    KBuffer **x = ARENA_ARRAY(b->arena, KBuffer *, n), **number = ARENA_ARRAY(b->arena, KBuffer *, n);
    for (size_t i = 0; i < n; i++) {
        const char *name = text_format(b->arena, "%s_warps", pass->acc[i].x->name);
        x[i] = k_shared(b, name, vectors_element(pass->acc[i].x->type), all, 16);
        if (pass->acc[i].number)
            number[i] = k_shared(b, name, vectors_element(pass->acc[i].number->type), all, 16);
    }
    const KExpr *own = k_special(b, SPECIAL_WARP), *lane = k_special(b, SPECIAL_LANE);
    k_if_begin(b, k_eq(b, lane, k_i32(b, 0)));
    for (size_t i = 0; i < n; i++) {
        k_store(b, x[i], own, pass->acc[i].x, NULL, 1, NULL, CACHE_DEFAULT);
        if (number[i])
            k_store(b, number[i], own, pass->acc[i].number, NULL, 1, NULL, CACHE_DEFAULT);
    }
    k_end(b);
    k_barrier(b);
    const KExpr *first = k_mul(b, k_div(b, own, k_i32(b, warps)), k_i32(b, warps));
    const KExpr *from = k_let_expr(b, "from", k_add(b, first, k_mod(b, lane, k_i32(b, warps))));
    for (size_t i = 0; i < n; i++) {
        k_load(b, pass->acc[i].x, NULL, x[i], from, 1, NULL, CACHE_DEFAULT);
        if (number[i])
            k_load(b, pass->acc[i].number, NULL, number[i], from, 1, NULL, CACHE_DEFAULT);
        reduce_lanes(b, rows->levels.at[pass->level].at[i], pass->acc[i], NULL, warps);
    }
}

/* Partial results of the row's blocks, which all threads of each know; every thread gets the row's. */
static void rows_combine_blocks(Rows *rows, const RowsPass *pass) {
    enum { WORDS = 4 /* that a load from another block brings */ };
    Builder *b = rows->b;
    size_t n = rows->levels.at[pass->level].n;
    KBuffer **slot = ARENA_ARRAY(b->arena, KBuffer *, n);
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), zero));
    for (size_t i = 0; i < n; i++) {
        const PartialVars *acc = &pass->acc[i];
        slot[i] = k_shared(b, text_format(b->arena, "%s_blocks", acc->x->name), DTYPE_I32, WORDS, 16);
        const KVar *words = k_array(b, "own", K_I32, WORDS, zero);
        k_set_elem(b, words, zero, k_bitcast(b, k_var(b, acc->x), K_I32));
        if (acc->number)
            k_set_elem(b, words, one, k_convert(b, k_var(b, acc->number), K_I32));
        k_store(b, slot[i], zero, words, NULL, WORDS, NULL, CACHE_DEFAULT);
    }
    k_end(b);
    k_cluster_barrier(b);
    const KExpr *from = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, rows->blocks));
    from = k_let_expr(b, "of_block", k_convert(b, from, K_U32));
    for (size_t i = 0; i < n; i++) {
        const PartialVars *acc = &pass->acc[i];
        const KVar *words = k_array(b, "words", K_U32, WORDS, NULL);
        KOperand operands[] = {k_regs(words, 0, WORDS), k_operand(k_smem_addr(b, slot[i], zero)),
                               k_operand(from)};
        k_atom(b, ATOM_cluster_load, NULL, operands, 3);
        k_set(b, acc->x, k_bitcast(b, k_elem_at(b, words, 0), acc->x->type));
        if (acc->number)
            k_set(b, acc->number, k_convert(b, k_elem_at(b, words, 1), acc->number->type));
        reduce_lanes(b, rows->levels.at[pass->level].at[i], *acc, NULL, rows->blocks);
    }
}

/* The level's results, known to all threads of the row from here on. */
static void rows_finish_level(Rows *rows, const RowsPass *pass) {
    Builder *b = rows->b;
    size_t n = rows->levels.at[pass->level].n;
    for (size_t i = 0; i < n; i++)
        reduce_lanes(b, rows->levels.at[pass->level].at[i], pass->acc[i], NULL,
                     rows->lanes < 32 ? rows->lanes : 32);
    if (rows->lanes > 32)
        rows_combine_warps(rows, pass);
    if (rows->blocks > 1)
        rows_combine_blocks(rows, pass);
    for (size_t i = 0; i < n; i++) {
        const Value *reduction = rows->levels.at[pass->level].at[i];
        const char *name = lower_value_name(rows->lower, reduction);
        const KExpr *result = reduce_result(b, reduction, reduce_get(b, pass->acc[i], NULL));
        lower_bind_expr(rows->lower, reduction, k_let_expr(b, name, result));
        for (size_t k = 0; k < rows->beside.n; k++) {
            const RowsBeside *beside = &rows->beside.at[k];
            if (beside->finder != reduction)
                continue;
            result = reduce_result(b, beside->value, (Partial){.x = k_var(b, pass->acc[i].x)});
            lower_bind_expr(rows->lower, beside->value,
                            k_let_expr(b, lower_value_name(rows->lower, beside->value), result));
        }
    }
}

/* Everything that any pass computes, for the loads that all of them share. */
static LowerTarget *rows_all_targets(Rows *rows, int *n) {
    LowerTarget *targets = ARENA_ARRAY(rows->b->arena, LowerTarget,
                                       2 * rows->region->values.n + 2 * rows->region->outputs.n + 1);
    *n = 0;
    for (size_t i = 0; i < rows->pieces.n; i++)
        targets[(*n)++].value = rows->pieces.at[i]->in[0];
    for (int level = 0; level < rows->levels.n; level++)
        for (size_t i = 0; i < rows->levels.at[level].n; i++)
            targets[(*n)++].value = rows->levels.at[level].at[i]->in[0];
    for (int i = 0; i < rows->n_rounds; i++)
        targets[(*n)++].value = rows->rounds[i].x;
    for (size_t i = 0; i < rows->whole.n; i++)
        targets[(*n)++].value = rows->whole.at[i];
    for (int i = 0; i < rows->n_down; i++)
        targets[(*n)++].value = rows->down[i].block.of;
    return targets;
}

/* Registers that a thread's runs of every input take, packed as they were read. */
static int64_t rows_loaded_words(const Rows *rows) {
    const Region *region = rows->region;
    int64_t words = 0;
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *input = region->inputs.at[i];
        if (rows_varies(input))
            words += (int64_t)rows->runs * rows->width * dtype_bits(input->dtype) / 32;
    }
    return words;
}

/* Elements behind the row's last, which no round finds. */
static void rows_fill_border(Rows *rows, const RowsRounds *rounds, const Run *run, const KExpr *slot) {
    Builder *b = rows->b;
    const KVar *elements = rounds->elements;
    const KExpr *lowest = reduce_identity(b, rounds->at[0], K_I32).x;
    const KExpr *inside = k_lt(b, run->inner, k_dim(b, rows->extent, rows->index));
    const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, rows->width), 1, UNROLL_FULL);
    const KExpr *e = k_add(b, k_mul(b, slot, k_i32(b, rows->width)), j);
    k_set_elem(b, elements, e, k_select(b, inside, k_elem(b, elements, e), lowest));
    k_end(b);
}

static void rows_build_resident(Rows *rows) {
    Builder *b = rows->b;
    bool exact = dim_is(rows->extent, rows_stride(rows) * rows->runs);
    int n;
    LowerTarget *all = rows_all_targets(rows, &n);
    rows_edges_begin(rows, all, n);
    const KExpr *first = k_let_expr(b, "first", rows_first(rows));
    Run head = rows_run(rows, first, true), run;
    rows_bind_held(rows, rows->held.n, k_i32(b, 0)); /* so that no loads of it are planned */
    lower_batch_streams_only(rows->lower, rows_loaded_words(rows) > ROWS_LOADED_WORDS);
    lower_batch_begin(rows->lower, &head, all, n, rows->runs);
    const KExpr *slot = rows_slots_begin(rows, first, exact, &run);
    lower_batch_load(rows->lower, &run, slot);
    rows_slots_end(rows);
    for (int level = 0; level <= rows->levels.n; level++) {
        if (level == rows->levels.n && rows->whole.n == 0 && rows->n_down == 0 && rows->of_pieces.n == 0)
            break;
        RowsPass pass = rows_pass(rows, level);
        if (pass.n == 0 && level < rows->levels.n)
            continue;
        rows_bind_held(rows, pass.held, k_i32(b, 0));
        lower_row_values(rows->lower, &head, pass.targets, pass.n);
        slot = rows_slots_begin(rows, first, exact, &run);
        rows_pass_run(rows, &pass, &run, slot, exact);
        int rounds = rows_rounds_of(rows, level);
        if (rounds >= 0 && !exact)
            rows_fill_border(rows, &rows->rounds[rounds], &run, slot);
        rows_slots_end(rows);
        rows_edges_pass(rows, pass.targets, pass.acc, pass.n);
        if (level < rows->levels.n)
            rows_finish_level(rows, &pass);
        if (rounds >= 0)
            rows_build_rounds(rows, &rows->rounds[rounds]);
    }
    lower_batch_end(rows->lower);
    rows_edges_end(rows);
}

/* Where a run of the thread's row lies in shared memory: as in the row, whose length is rounded up to whole
 * steps of the loop. */
static const KExpr *rows_kept_at(Rows *rows, const Run *run) {
    Builder *b = rows->b;
    const KExpr *at = rows->start == RUN_SKEWED ? k_sub(b, run->inner, rows->head) : run->inner;
    at = k_convert(b, at, K_I32);
    if (rows->blocks > 1) { /* without the other blocks' runs between its own */
        const KExpr *own = k_i32(b, (int64_t)rows->lanes * rows->width);
        const KExpr *round = k_div(b, at, k_i32(b, rows_stride(rows)));
        return k_add(b, k_mul(b, round, own), k_mod(b, at, own));
    }
    if (rows->schedule->rows_per_block == 1)
        return at;
    const KExpr *row = k_div(b, k_special(b, SPECIAL_TID), k_i32(b, rows->lanes));
    int64_t length = rows_kept_length(b->kernel->graph, rows->region, rows->schedule);
    return k_add(b, k_mul(b, row, k_i32(b, length)), at);
}

static void rows_find_kept(Rows *rows) {
    Builder *b = rows->b;
    const Schedule *schedule = rows->schedule;
    const Value *moved[ROWS_KEPT_MAX];
    rows->n_kept = lower_moved_inputs(rows->region, moved, ROWS_KEPT_MAX);
    int64_t count = rows_kept_length(b->kernel->graph, rows->region, schedule) * schedule->rows_per_block;
    for (int i = 0; i < rows->n_kept; i++) {
        const char *name = text_format(b->arena, "%s_row", lower_value_name(rows->lower, moved[i]));
        rows->kept[i] = (RowsKept){moved[i], k_shared(b, name, moved[i]->dtype, count, 16), NULL};
    }
}

/* Passes behind the first read rows from shared memory, so that planning looks for no loads of them. */
static void rows_kept_bind(Rows *rows, int level) {
    Builder *b = rows->b;
    for (int i = 0; level > 0 && i < rows->n_kept; i++) {
        const Value *value = rows->kept[i].value;
        lower_bind_expr(rows->lower, value, k_convert(b, k_i32(b, 0), ktype_of(value->dtype)));
    }
}

/* The first pass fills shared memory while it computes; later ones read it instead of the inputs. Every
 * thread reads what it has written itself, so that no barrier is needed. */
static void rows_kept_before(Rows *rows, RowsPass *pass, const Run *run) {
    Builder *b = rows->b;
    for (int i = 0; i < rows->n_kept; i++) {
        RowsKept *kept = &rows->kept[i];
        const char *name = text_format(b->arena, "%s_v", lower_value_name(rows->lower, kept->value));
        kept->run = k_array(b, name, ktype_of(kept->value->dtype), rows->width, NULL);
        if (pass->level == 0) {
            pass->targets[pass->n++] = (LowerTarget){.value = kept->value, .dst = kept->run};
            continue;
        }
        vectors_load(b, kept->buffer, rows_kept_at(rows, run), kept->run, k_i32(b, 0), rows->width);
        lower_bind_array(rows->lower, kept->value, kept->run, NULL);
    }
}

static void rows_kept_after(Rows *rows, const RowsPass *pass, const Run *run) {
    Builder *b = rows->b;
    for (int i = 0; pass->level == 0 && i < rows->n_kept; i++)
        vectors_store(b, rows->kept[i].buffer, rows_kept_at(rows, run), rows->kept[i].run, k_i32(b, 0),
                      rows->width);
}

static void rows_build_streaming(Rows *rows) {
    Builder *b = rows->b;
    int n;
    LowerTarget *all = rows_all_targets(rows, &n);
    rows_edges_begin(rows, all, n);
    const KExpr *first = k_let_expr(b, "first", rows_first(rows));
    int64_t step = rows_stride(rows) * rows->runs;
    bool exact = dim_divisor(b->kernel->graph->dims, rows->extent) % step == 0;
    Run head = rows_run(rows, first, true);
    if (rows->schedule->row_in_smem)
        rows_find_kept(rows);
    lower_batch_begin(rows->lower, &head, NULL, 0, 1);
    for (int level = 0; level <= rows->levels.n; level++) {
        if (level == rows->levels.n && rows->whole.n == 0)
            break;
        RowsPass pass = rows_pass(rows, level);
        rows_kept_bind(rows, level);
        lower_row_values(rows->lower, &head, pass.targets, pass.n);
        const KExpr *end = k_dim(b, rows->extent, rows->index);
        const KExpr *at = k_for_begin(b, "at", first, end, step, UNROLL_NONE);
        Run run = rows_run(rows, at, exact);
        lower_batch_begin(rows->lower, &run, pass.targets, pass.n, rows->runs);
        const KExpr *slot = rows_slots_begin(rows, at, exact, &run);
        lower_batch_load(rows->lower, &run, slot);
        rows_slots_end(rows);
        slot = rows_slots_begin(rows, at, exact, &run);
        rows_kept_before(rows, &pass, &run);
        rows_pass_run(rows, &pass, &run, slot, exact);
        rows_kept_after(rows, &pass, &run);
        rows_slots_end(rows);
        lower_batch_end(rows->lower);
        k_end(b);
        rows_edges_pass(rows, pass.targets, pass.acc, pass.n);
        if (level < rows->levels.n)
            rows_finish_level(rows, &pass);
    }
    lower_batch_end(rows->lower);
    rows_edges_end(rows);
}

void rows_store_single(Rows *rows, const Run *run, const Value *const *outputs, size_t n) {
    Builder *b = rows->b;
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, n);
    for (size_t i = 0; i < n; i++) {
        const char *name = text_format(b->arena, "%s_v", lower_value_name(rows->lower, outputs[i]));
        targets[i] = (LowerTarget){.value = outputs[i], .stored = true};
        targets[i].dst = k_variable(b, name, ktype_of(outputs[i]->dtype), NULL);
    }
    lower_run(rows->lower, run, targets, (int)n);
    for (size_t i = 0; i < n; i++)
        lower_store(rows->lower, run, targets[i].value, targets[i].dst, NULL);
}

/* Outputs with one element a row, or a few: its first thread writes them, or lanes that found one each. */
static void rows_store_reduced(Rows *rows) {
    Builder *b = rows->b;
    size_t left = 0;
    for (size_t i = 0; i < rows->bundles.n; i++)
        if (!rows_store_rounds(rows, rows->bundles.at[i]))
            rows->bundles.at[left++] = rows->bundles.at[i];
    rows->bundles.n = left;
    if (rows->reduced.n + rows->bundles.n == 0)
        return;
    const KExpr *zero = k_int(b, rows->index, 0);
    Run run = {.rank = rows->region->rank, .axis = rows->region->rank - 1, .width = 1};
    lower_delinearize(b, rows->row, rows->split, rows->region->dims, run.coords);
    for (int i = rows->split; i < run.rank; i++)
        run.coords[i] = zero;
    k_if_begin(b, k_and(b, k_eq(b, rows->lane, zero), rows->row_inside));
    rows_store_single(rows, &run, rows->reduced.at, rows->reduced.n);
    for (size_t i = 0; i < rows->bundles.n; i++)
        lower_store_bundle(rows->lower, &run, rows->bundles.at[i]);
    k_end(b);
}

static void rows_find_outputs(Rows *rows) {
    Builder *b = rows->b;
    const Region *region = rows->region;
    BlockStatistic block;
    rows->n_down = rows_find_down(region, rows->down);
    for (size_t i = 0; i < region->outputs.n; i++) {
        if (lower_output_is_block(region, region->outputs.at[i], &block))
            continue;
        if (region_window(region, region->outputs.at[i]))
            vec_push(b->arena, &rows->bundles, region->outputs.at[i]);
        else if (lower_output_is_whole(b->kernel->graph, region, region->outputs.at[i]))
            vec_push(b->arena, &rows->whole, region->outputs.at[i]);
        else if (lower_output_is_piece(region, region->outputs.at[i]))
            vec_push(b->arena, &rows->of_pieces, region->outputs.at[i]);
        else
            vec_push(b->arena, &rows->reduced, region->outputs.at[i]);
    }
}

/* Takes extrema out of their levels that an argmin or argmax beside them finds. */
static void rows_find_beside(Rows *rows) {
    for (int l = 0; l < rows->levels.n; l++) {
        ReduceLevel *level = &rows->levels.at[l];
        size_t n = 0;
        for (size_t i = 0; i < level->n; i++) {
            const Value *value = level->at[i], *finder = NULL;
            OpKind op = value->op == OP_reduce_max   ? OP_argmax
                        : value->op == OP_reduce_min ? OP_argmin
                                                     : value->op;
            for (size_t k = 0; k < level->n && op != value->op && !finder; k++)
                if (level->at[k]->op == op && level->at[k]->in[0] == value->in[0])
                    finder = level->at[k];
            if (finder)
                vec_push(rows->b->arena, &rows->beside, ((RowsBeside){value, finder}));
            else
                level->at[n++] = value;
        }
        level->n = n;
    }
}

/* What a region's rows are under a schedule; which row a thread has, and its number in it, says the caller.
 */
static Rows rows_new(Builder *b, const Region *region, const Schedule *schedule) {
    const Graph *graph = b->kernel->graph;
    int split = region->rank - region->n_reduced;
    Rows rows = {.b = b,
                 .region = region,
                 .schedule = schedule,
                 .split = split,
                 .width = schedule->vector,
                 .lanes = schedule->threads_per_row,
                 .blocks = rows_blocks(schedule),
                 .start = rows_start(graph, region, schedule->vector)};
    rows.rows = region_extent(graph, region, 0, split);
    rows.extent = region_extent(graph, region, split, region->rank);
    rows.lower = lower_new(b, region);
    lower_declare_params(rows.lower);
    rows.index = lower_index_type(rows.lower);
    int64_t longest = dim_upper(graph->dims, rows.extent), runs = schedule->unroll;
    if (schedule->resident)
        runs = longest <= rows_stride(&rows) ? 1 : (longest + rows_stride(&rows) - 1) / rows_stride(&rows);
    rows.runs = (int)runs;
    rows_find_outputs(&rows);
    rows_find_pieces(&rows);
    rows.levels = lower_find_levels(rows.lower);
    rows_find_rounds(&rows);
    rows_find_beside(&rows);
    if (schedule->resident && rows.whole.n == 0) /* what is only read */
        lower_set_cache(rows.lower, cost_cache(graph, region, b->kernel->target, NULL));
    return rows;
}

/* The thread's row, from its loads to its outputs. */
static void rows_build_row(Rows *rows) {
    if (rows->schedule->resident)
        rows_build_resident(rows);
    else
        rows_build_streaming(rows);
    rows_store_reduced(rows);
}

void rows_build_warp(Builder *b, const Region *region, const Schedule *schedule, const KExpr *row,
                     const KExpr *lane) {
    Rows rows = rows_new(b, region, schedule);
    rows.row = k_let_expr(b, "row", k_convert(b, row, rows.index));
    rows.lane = k_let_expr(b, "t", k_convert(b, lane, rows.index));
    rows_build_row(&rows);
}

/* A block's rows, one after the other, and what they come to. */
static void rows_build_block(Rows *rows, const KExpr *block) {
    Builder *b = rows->b;
    const KExpr *size = k_int(b, rows->index, rows->down[0].block.block), *above = rows->row;
    rows_declare_down(rows);
    rows->first_row = k_let_expr(b, "first_row", k_add(b, k_mul(b, block, size), above));
    rows_ahead_begin(rows);
    const KExpr *at = k_for_begin(b, "of_block", k_int(b, rows->index, 0), size,
                                  rows->schedule->rows_per_block, UNROLL_NONE);
    rows->row = k_let_expr(b, "row", k_add(b, rows->first_row, at));
    rows_ahead_take(rows, at);
    rows_build_row(rows);
    if (rows->lanes > 32 &&
        rows->levels.n + rows->n_rounds == 1) /* of several, another's barrier is between */
        k_barrier(b);
    k_end(b);
    rows_store_down(rows, block);
}

static void rows_build(Builder *b, const Region *region) {
    const Schedule *schedule = &region->schedule;
    Kernel *kernel = b->kernel;
    DimTable *table = kernel->graph->dims;
    Rows rows = rows_new(b, region, schedule);
    kernel->threads = schedule->threads;
    if (schedule->turned_vector)
        rows_tile_plan(&rows);
    bool is_tile = rows.tile.writes.n > 0;
    int64_t of_block = rows.n_down ? rows.down[0].block.block
                       : is_tile   ? rows.tile.rows
                                   : schedule->rows_per_block;
    kernel->grid[0] = dim_ceil_div(table, rows.rows, dim_const(table, of_block));
    kernel->grid[0] = dim_mul(table, kernel->grid[0], dim_const(table, rows.blocks));
    kernel->cluster[0] = rows.blocks;
    const char *ahead =
        schedule->stages > 1 ? text_format(b->arena, ", %d on their way", schedule->stages - 1) : "";
    kernel->summary = text_format(
        b->arena, "rows: %d threads a row%s, %d rows a block%s, %s%s%s", schedule->threads_per_row,
        rows.blocks > 1 ? text_format(b->arena, " in each of %d blocks", rows.blocks) : "",
        schedule->rows_per_block,
        rows.n_down || is_tile ? text_format(b->arena, " at a time, of %lld", (long long)of_block) : "",
        schedule->resident      ? "kept in registers"
        : schedule->row_in_smem ? "kept in shared memory"
                                : "read again in each pass",
        ahead, is_tile ? ", stored across them through a tile" : "");

    const KExpr *tid = k_special(b, SPECIAL_TID), *lanes = k_i32(b, schedule->threads_per_row);
    const KExpr *lane = k_mod(b, tid, lanes), *group = k_special(b, SPECIAL_CTA_X);
    if (rows.blocks > 1) {
        lane = k_add(b, k_mul(b, k_special(b, SPECIAL_CTA_RANK), lanes), lane);
        group = k_div(b, group, k_i32(b, rows.blocks));
    }
    rows.lane = k_let_expr(b, "t", k_convert(b, lane, rows.index));
    const KExpr *block = k_convert(b, group, rows.index);
    if (rows.n_down) {
        rows.row = k_let_expr(b, "above", k_convert(b, k_div(b, tid, lanes), rows.index));
        rows_build_block(&rows, block);
        return;
    }
    if (is_tile) {
        rows_tile_build(&rows, block, k_div(b, tid, lanes), rows_build_row);
        return;
    }
    const KExpr *row = k_mul(b, block, k_int(b, rows.index, schedule->rows_per_block));
    rows.row = k_let_expr(b, "row", k_add(b, row, k_convert(b, k_div(b, tid, lanes), rows.index)));
    if (dim_divisor(table, rows.rows) % schedule->rows_per_block != 0)
        rows.row_inside = k_lt(b, rows.row, k_dim(b, rows.rows, rows.index));
    rows_build_row(&rows);
    if (rows.blocks > 1) { /* no block leaves while another may still read what it found */
        k_cluster_barrier(b);
    }
}

const Template template_rows = {
    .name = "rows", .accepts = rows_accepts, .schedules = rows_schedules, .build = rows_build};
