/* Columns: reductions over the leading axes, the innermost axis kept.
 *
 * A block owns a strip of columns: threads_per_row threads side by side, each with a run of `vector` columns,
 * and rows_per_block of them one above the other, which share the rows:
 *
 *     for each level:  for r = own row; r < rows; r += rows_per_block * unroll:  acc[column] =
 * combine(acc[column], f(x[r][column])) acc to shared memory; combine the strips' rows_per_block partial
 * results in their order first threads:   outputs with one element a column for each row:    outputs with the
 * space's elements, where there are any
 *
 * What belongs to a whole column (results, and inputs such as a scale) stays in registers while the rows go
 * by. */
#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/template.h"
#include "codegen/templates/columns.h"
#include "codegen/templates/columns_held.h"
#include "codegen/templates/columns_places.h"
#include "codegen/templates/columns_schedules.h"
#include "codegen/templates/vectors.h"
#include "ir/base/checked.h"
#include "ir/value_map.h"

enum { COLUMNS_REGISTERS = 32 /* beside those of what is in flight */ };

typedef struct ColumnsHeld {
    const Value *value;
    const KVar *array;
} ColumnsHeld;

typedef struct Columns {
    Builder *b;
    const Region *region;
    Lower *lower;
    KType index;
    int width, across, above, unroll; /* threads side by side, threads one above the other */
    const Dim *rows, *columns;
    const KExpr *column, *y,
        *inside; /* first column of the thread; row of the block's; whether the column is there (NULL: yes) */
    ReduceLevels levels;
    VEC(ColumnsHeld) held;
    VEC(const Value *) whole, reduced;
    bool is_early;  /* the pass of the last level stores `whole` */
    bool is_held;   /* all of a thread's rows are read once, into registers */
    Transpose tile; /* of what is stored along the rows (columns_held.h) */
} Columns;

/* ---- runs */

static Run columns_run(Columns *c, const KExpr *row, bool exact) {
    Builder *b = c->b;
    const Region *region = c->region;
    int split = region->n_reduced;
    Run run = {.rank = region->rank, .axis = region->rank - 1, .width = c->width, .split = split};
    run.outer = row;
    run.inner = c->column;
    lower_delinearize(b, row, split, region->dims, run.coords);
    lower_delinearize(b, c->column, region->rank - split, region->dims + split, run.coords + split);
    run.guard = k_and(b, exact ? NULL : k_lt(b, row, k_dim(b, c->rows, c->index)), c->inside);
    return run;
}

/* Opens the loop over the rows in flight. */
static const KExpr *columns_slots_begin(Columns *c, const KExpr *first, bool exact, Run *run) {
    Builder *b = c->b;
    const KExpr *slot = k_i32(b, 0), *row = first;
    if (c->unroll > 1) {
        slot = k_for_begin(b, "u", k_i32(b, 0), k_i32(b, c->unroll), 1, UNROLL_FULL);
        row = k_add(b, first, k_mul(b, k_convert(b, slot, c->index), k_int(b, c->index, c->above)));
    }
    *run = columns_run(c, exact ? row : k_let_expr(b, "row", row), exact);
    return slot;
}

static void columns_slots_end(Columns *c) {
    if (c->unroll > 1)
        k_end(c->b);
}

/* ---- what belongs to columns */

static void columns_hold(Columns *c, const Value *value, const KVar *array) {
    ColumnsHeld held = {value, array};
    lower_bind_array(c->lower, value, array, NULL);
    vec_push(c->b->arena, &c->held, held);
}

typedef VEC(LowerTarget) HeldTargets;

/* Column values that a pass over the rows starts from: the last ones that vary along no row. */
static void columns_find_held(Columns *c, const Value *value, ValueMap *seen, HeldTargets *held) {
    if (value_map_get(seen, value))
        return;
    value_map_set(seen, value, true);
    for (size_t i = 0; i < c->held.n; i++)
        if (c->held.at[i].value == value)
            return;
    if (lower_is_column(c->region, value)) {
        vec_push(c->b->arena, held, (LowerTarget){.value = value});
        return;
    }
    bool is_elsewhere = value->op == OP_pad || value->op == OP_window || value->op == OP_slice;
    if (region_reads(c->region, value) || is_elsewhere) /* elements of other columns are no column's own */
        return;
    for (int i = 0; i < value->n_in; i++)
        columns_find_held(c, value->in[i], seen, held);
}

/* Computes them, before the loop over the rows. */
static void columns_prepare(Columns *c, const LowerTarget *pass, int n_pass) {
    Builder *b = c->b;
    ValueMap seen = {.arena = b->arena};
    HeldTargets held = {NULL, 0, 0};
    for (int i = 0; i < n_pass; i++)
        columns_find_held(c, lower_root(c->region, pass[i].value), &seen, &held);
    LowerTarget *targets = held.at;
    int n = (int)held.n;
    if (n == 0)
        return;
    for (int i = 0; i < n; i++) {
        const char *name = lower_value_name(c->lower, targets[i].value);
        targets[i].dst = k_array(b, text_format(b->arena, "%s_v", name), ktype_of(targets[i].value->dtype),
                                 c->width, NULL);
    }
    Run run = columns_run(c, k_int(b, c->index, 0), true);
    lower_run(c->lower, &run, targets, n);
    for (int i = 0; i < n; i++)
        columns_hold(c, targets[i].value, targets[i].dst);
}

/* ---- passes */

static bool columns_is_exact(const Columns *c) {
    int64_t step = (int64_t)c->above * c->unroll;
    return dim_divisor(c->b->kernel->graph->dims, c->rows) % step == 0;
}

/* What the passes need of the rows in flight from row `first` on. */
static void columns_load(Columns *c, const KExpr *first, const LowerTarget *targets, int n) {
    bool exact = columns_is_exact(c);
    Run run = columns_run(c, first, exact);
    lower_batch_begin(c->lower, &run, targets, n, c->unroll);
    const KExpr *slot = columns_slots_begin(c, first, exact, &run);
    lower_batch_load(c->lower, &run, slot);
    columns_slots_end(c);
}

static void columns_store(Columns *c, const Run *run, const KExpr *slot, const LowerTarget *target) {
    if (!transpose_is_written_turned(&c->tile, target->value)) {
        lower_store(c->lower, run, target->value, target->dst, NULL);
        return;
    }
    const KExpr *own = k_mod(c->b, k_special(c->b, SPECIAL_TID), k_i32(c->b, c->across));
    columns_tile_put(&c->tile, target, c->y, slot, c->above, k_mul(c->b, own, k_i32(c->b, c->width)));
}

/* Targets that fold into results of columns, and others, which are stored, of all the thread's rows. */
static void columns_rows(Columns *c, LowerTarget *targets, int n) {
    Builder *b = c->b;
    bool exact = columns_is_exact(c);
    const KExpr *first = c->y;
    Run run;
    columns_prepare(c, targets, n);
    if (!c->is_held) {
        int64_t step = (int64_t)c->above * c->unroll;
        first = k_for_begin(b, "first_row", c->y, k_dim(b, c->rows, c->index), step, UNROLL_NONE);
        columns_load(c, first, targets, n);
    }
    const KExpr *slot = columns_slots_begin(c, first, exact, &run);
    for (int i = 0; i < n; i++) {
        if (!targets[i].fold.reduction) {
            const char *name = text_format(b->arena, "%s_v", lower_value_name(c->lower, targets[i].value));
            targets[i].dst = k_array(b, name, ktype_of(targets[i].value->dtype), c->width, NULL);
        } else {
            targets[i].fold.number = run.outer;
            targets[i].fold.inside = exact ? NULL : k_lt(b, run.outer, k_dim(b, c->rows, c->index));
        }
    }
    lower_batch_run(c->lower, &run, slot, targets, n);
    for (int i = 0; i < n; i++)
        if (!targets[i].fold.reduction)
            columns_store(c, &run, slot, &targets[i]);
    columns_slots_end(c);
    if (c->is_held)
        return;
    lower_batch_end(c->lower);
    k_end(b);
}

/* Rows of partial results in shared memory: one a warp, whose lanes above one another have combined theirs,
 * or one a row of threads. */
static int columns_partials(const Columns *c) {
    return c->across < 32 ? c->b->kernel->threads / 32 : c->above;
}

/* Gives the level's partial results to those who need the results: all threads, or the first row of them. */
static void columns_share(Columns *c, const ReduceLevel *level, const PartialVars *acc, KBuffer **x,
                          KBuffer **number) {
    Builder *b = c->b;
    const KExpr *width = k_i32(b, c->width), *own = k_mul(b, k_special(b, SPECIAL_TID), width);
    int partials = columns_partials(c), strip = c->across * c->width;
    if (c->across < 32) {
        const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), width, 1, UNROLL_FULL);
        for (size_t i = 0; i < level->n; i++)
            reduce_lanes_apart(b, level->at[i], acc[i], j, 32, c->across);
        k_end(b);
        const KExpr *lane = k_special(b, SPECIAL_LANE);
        k_if_begin(b, k_lt(b, lane, k_i32(b, c->across)));
        own = k_add(b, k_mul(b, k_special(b, SPECIAL_WARP), k_i32(b, strip)), k_mul(b, lane, width));
    }
    for (size_t i = 0; i < level->n; i++) {
        const char *name = text_format(b->arena, "%s_strips", acc[i].x->name);
        x[i] = k_shared(b, name, vectors_element(acc[i].x->type), (int64_t)partials * strip, 16);
        vectors_store(b, x[i], own, acc[i].x, k_i32(b, 0), c->width);
        if (!acc[i].number)
            continue;
        number[i] = k_shared(b, name, vectors_element(acc[i].number->type), (int64_t)partials * strip, 16);
        vectors_store(b, number[i], own, acc[i].number, k_i32(b, 0), c->width);
    }
    if (c->across < 32)
        k_end(b);
    k_barrier(b);
}

/* Combines the rows of partial results, in their order. */
static void columns_combine(Columns *c, const ReduceLevel *level, const PartialVars *acc, KBuffer *const *x,
                            KBuffer *const *number) {
    Builder *b = c->b;
    const KExpr *strip = k_i32(b, c->across * c->width), *first = k_i32(b, 0);
    const KExpr *own = k_mul(b, k_mod(b, k_special(b, SPECIAL_TID), k_i32(b, c->across)), k_i32(b, c->width));
    own = k_let_expr(b, "own", own);
    for (size_t i = 0; i < level->n; i++) {
        vectors_load(b, x[i], own, acc[i].x, first, c->width);
        if (number[i])
            vectors_load(b, number[i], own, acc[i].number, first, c->width);
    }
    const KExpr *above = k_for_begin(b, "above", k_i32(b, 1), k_i32(b, columns_partials(c)), 1, UNROLL_AUTO);
    const KExpr *from = k_let_expr(b, "from", k_add(b, k_mul(b, above, strip), own));
    for (size_t i = 0; i < level->n; i++) {
        PartialVars other = {k_array(b, "other", acc[i].x->type, c->width, NULL), NULL};
        vectors_load(b, x[i], from, other.x, first, c->width);
        if (number[i]) {
            other.number = k_array(b, "other_at", acc[i].number->type, c->width, NULL);
            vectors_load(b, number[i], from, other.number, first, c->width);
        }
        const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, c->width), 1, UNROLL_FULL);
        reduce_into(b, level->at[i], acc[i], j, reduce_get(b, other, j));
        k_end(b);
    }
    k_end(b);
}

/* Outputs with one element a column. */
static void columns_store_reduced(Columns *c) {
    Builder *b = c->b;
    int n = (int)c->reduced.n;
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    if (n == 0)
        return;
    for (int i = 0; i < n; i++) {
        const Value *output = c->reduced.at[i];
        const char *name = text_format(b->arena, "%s_v", lower_value_name(c->lower, output));
        targets[i] = (LowerTarget){.value = output, .stored = true};
        targets[i].dst = k_array(b, name, ktype_of(output->dtype), c->width, NULL);
    }
    Run run = columns_run(c, k_int(b, c->index, 0), true);
    lower_run(c->lower, &run, targets, n);
    for (int i = 0; i < n; i++)
        lower_store(c->lower, &run, targets[i].value, targets[i].dst, NULL);
}

/* Whether a thread stores its columns' results; NULL: each does. */
static const KExpr *columns_owner(Columns *c) {
    const KExpr *is_first = c->above > 1 ? k_eq(c->b, c->y, k_int(c->b, c->index, 0)) : NULL;
    return k_and(c->b, is_first, c->inside);
}

/* Whether the pass of the last level can store the outputs of the space, which need no result of it. */
static bool columns_stores_early(const Columns *c) {
    for (size_t i = 0; i < c->whole.n; i++)
        if (lower_levels_of(c->b->kernel->graph, c->region, c->whole.at[i]) == c->levels.n)
            return false;
    return c->levels.n > 0;
}

/* The outputs of the space, behind `n` other targets of a pass; how many there are then. */
static int columns_add_whole(const Columns *c, LowerTarget *targets, int n) {
    for (size_t i = 0; i < c->whole.n; i++)
        targets[n++] = (LowerTarget){.value = c->whole.at[i], .stored = true};
    return n;
}

static void columns_level(Columns *c, int number_of_level) {
    Builder *b = c->b;
    const ReduceLevel *level = &c->levels.at[number_of_level];
    bool is_top = number_of_level == c->levels.n - 1, is_last = is_top && (c->whole.n == 0 || c->is_early);
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, level->n + c->whole.n + 1);
    PartialVars *acc = ARENA_ARRAY(b->arena, PartialVars, level->n + 1);
    KBuffer **x = ARENA_ARRAY(b->arena, KBuffer *, level->n + 1);
    KBuffer **number = ARENA_ARRAY(b->arena, KBuffer *, level->n + 1);
    int n = (int)level->n;
    for (size_t i = 0; i < level->n; i++) {
        const Value *reduction = level->at[i];
        const char *name = lower_value_name(c->lower, reduction);
        acc[i] = reduce_declare(b, reduction, text_format(b->arena, "%s_acc", name), c->width, c->index);
        targets[i] = (LowerTarget){.value = reduction->in[0],
                                   .fold = {.reduction = reduction, .acc = acc[i], .by_lane = true}};
    }
    if (is_last)
        n = columns_add_whole(c, targets, n);
    columns_rows(c, targets, n);
    if (c->above > 1)
        columns_share(c, level, acc, x, number);
    const KExpr *owner = columns_owner(c);
    if (is_last && owner)
        k_if_begin(b, owner);
    if (c->above > 1)
        columns_combine(c, level, acc, x, number);
    for (size_t i = 0; i < level->n; i++) {
        const Value *reduction = level->at[i];
        const KVar *result = acc[i].x;
        if (acc[i].number || result->type != ktype_of(reduction->dtype)) {
            result =
                k_array(b, lower_value_name(c->lower, reduction), ktype_of(reduction->dtype), c->width, NULL);
            const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, c->width), 1, UNROLL_FULL);
            k_set_elem(b, result, j, reduce_result(b, reduction, reduce_get(b, acc[i], j)));
            k_end(b);
        }
        columns_hold(c, reduction, result);
    }
    if (is_last)
        columns_store_reduced(c);
    if (is_last && owner)
        k_end(b);
}

static Columns columns_new(Builder *b, const Region *region, const Schedule *schedule) {
    const Graph *graph = b->kernel->graph;
    Columns c = {.b = b, .region = region, .width = schedule->vector, .unroll = schedule->unroll};
    c.across = schedule->threads_per_row;
    c.above = schedule->rows_per_block;
    c.rows = region_extent(graph, region, 0, region->n_reduced);
    c.columns = region_extent(graph, region, region->n_reduced, region->rank);
    c.lower = lower_new(b, region);
    lower_declare_params(c.lower);
    c.index = lower_index_type(c.lower);
    for (size_t i = 0; i < region->outputs.n; i++) {
        if (lower_output_is_whole(graph, region, region->outputs.at[i]))
            vec_push(b->arena, &c.whole, region->outputs.at[i]);
        else
            vec_push(b->arena, &c.reduced, region->outputs.at[i]);
    }
    c.levels = lower_find_levels(c.lower);
    c.is_early = columns_stores_early(&c);
    c.is_held = schedule->resident;
    if (c.is_held)
        c.tile = columns_tile_plan(b, c.lower, region);
    return c;
}

static int columns_strip(const Schedule *schedule) {
    return schedule->threads_per_row * schedule->vector;
}

/* Whether strips are tiles (columns_held.c) that do not divide the last axis. */
static bool columns_has_edges(const Columns *c) {
    const Dim *last = c->region->dims[c->region->rank - 1];
    return c->tile.writes.n > 0 &&
           dim_divisor(c->b->kernel->graph->dims, last) % ((int64_t)c->across * c->width) != 0;
}

static const Dim *columns_strips(const Columns *c) {
    DimTable *table = c->b->kernel->graph->dims;
    const Region *region = c->region;
    const Dim *wide = dim_const(table, (int64_t)c->across * c->width);
    if (!columns_has_edges(c))
        return dim_ceil_div(table, c->columns, wide);
    const Dim *outer = region_extent(c->b->kernel->graph, region, region->n_reduced, region->rank - 1);
    return dim_mul(table, outer, dim_ceil_div(table, region->dims[region->rank - 1], wide));
}

/* What the columns' results are applied to. */
static void columns_apply(Columns *c) {
    Builder *b = c->b;
    const KExpr *owner = columns_owner(c);
    if (owner)
        k_if_begin(b, owner);
    columns_store_reduced(c);
    if (owner)
        k_end(b);
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, c->whole.n + 1);
    columns_rows(c, targets, columns_add_whole(c, targets, 0));
}

/* All that any pass reads of the thread's rows, in registers from here on; and the tile, which begins at
 * column `first`. */
static void columns_hold_rows(Columns *c, const KExpr *first) {
    int n = 0;
    LowerTarget *targets = ARENA_ARRAY(c->b->arena, LowerTarget, c->region->values.n + c->whole.n + 1);
    for (int level = 0; level < c->levels.n; level++)
        for (size_t i = 0; i < c->levels.at[level].n; i++)
            targets[n++] = (LowerTarget){.value = c->levels.at[level].at[i]->in[0]};
    columns_load(c, c->y, targets, columns_add_whole(c, targets, n));
    if (c->tile.writes.n == 0)
        return;
    Run run = columns_run(c, k_int(c->b, c->index, 0), true);
    lower_delinearize(c->b, first, c->region->rank - 1, c->region->dims + 1, run.coords + 1);
    columns_tile_begin(&c->tile, &run);
}

/* The first column of a strip. Strips that are tiles do not go on where the last axis ends; *left then is
 * how many columns there are up to that end, and NULL where it makes no difference. */
static const KExpr *columns_first(Columns *c, const KExpr *strip, const KExpr **left) {
    Builder *b = c->b;
    DimTable *table = b->kernel->graph->dims;
    int wide = c->across * c->width;
    const Dim *last = c->region->dims[c->region->rank - 1];
    const KExpr *width = k_int(b, c->index, wide), *end = k_dim(b, last, c->index);
    strip = k_convert(b, strip, c->index);
    *left = NULL;
    if (!columns_has_edges(c))
        return k_mul(b, strip, width);
    const KExpr *across = k_dim(b, dim_ceil_div(table, last, dim_const(table, wide)), c->index);
    const KExpr *at = k_let_expr(b, "strip_column", k_mul(b, k_mod(b, strip, across), width));
    *left = k_sub(b, end, at);
    return k_add(b, k_mul(b, k_div(b, strip, across), end), at);
}

/* The strip number `strip`, by a thread that has a run of its columns, from column `own` on, and every so
 * many of its rows, from `y` on. */
static void columns_build_strip(Columns *c, const KExpr *strip, const KExpr *own, const KExpr *y) {
    Builder *b = c->b;
    int wide = c->across * c->width;
    const KExpr *left, *first = columns_first(c, strip, &left);
    own = k_convert(b, own, c->index);
    c->column = k_let_expr(b, "column", k_add(b, first, own));
    c->y = y;
    if (left)
        c->inside = k_lt(b, own, left);
    else if (dim_divisor(b->kernel->graph->dims, c->columns) % wide != 0)
        c->inside = k_lt(b, c->column, k_dim(b, c->columns, c->index));
    if (c->is_held)
        columns_hold_rows(c, first);
    for (int level = 0; level < c->levels.n; level++)
        columns_level(c, level);
    if (c->whole.n > 0 && !c->is_early)
        columns_apply(c);
    if (c->is_held)
        lower_batch_end(c->lower);
    if (c->tile.writes.n > 0)
        transpose_write(&c->tile);
}

/* Blocks an SM that leave the registers for what is in flight. Left to itself, ptxas may rather have twice
 * the blocks than that (an instance norm of 32 x 28 x 28 x 1280: 88 us, 58 so). */
static int columns_blocks(const Kernel *kernel, const Region *region) {
    const Schedule *schedule = &region->schedule;
    int bits = 0;
    for (size_t i = 0; i < region->inputs.n; i++)
        if (lower_output_is_whole(kernel->graph, region, region->inputs.at[i]))
            bits += schedule->unroll * schedule->vector * dtype_bits(region->inputs.at[i]->dtype);
    return kernel->target->registers_per_sm / ((COLUMNS_REGISTERS + bits / 32) * schedule->threads);
}

static void columns_build(Builder *b, const Region *region) {
    const Schedule *schedule = &region->schedule;
    Kernel *kernel = b->kernel;
    if (schedule->places) {
        columns_build_places(b, region);
        return;
    }
    Columns c = columns_new(b, region, schedule);
    kernel->threads = schedule->threads;
    kernel->grid[0] = columns_strips(&c);
    kernel->summary =
        text_format(b->arena, "columns: strips of %d columns, %d rows at a time, %d in flight%s",
                    columns_strip(schedule), c.above, c.unroll,
                    c.tile.writes.n > 0 ? ", kept in registers, stored along the rows through a tile"
                    : c.is_held         ? ", kept in registers"
                                        : "");
    if (c.levels.n > 1 && !c.is_held && c.unroll > COLUMNS_UNROLL)
        kernel->min_blocks = columns_blocks(kernel, region);
    if (c.whole.n == 0 && c.levels.n == 1)
        lower_set_cache(c.lower, cost_cache(kernel->graph, region, kernel->target, NULL));
    const KExpr *tid = k_special(b, SPECIAL_TID), *across = k_i32(b, c.across);
    const KExpr *own = k_mul(b, k_mod(b, tid, across), k_i32(b, c.width));
    const KExpr *y = k_let_expr(b, "y", k_convert(b, k_div(b, tid, across), c.index));
    columns_build_strip(&c, k_special(b, SPECIAL_CTA_X), own, y);
}

/* ---- a strip a warp */

bool columns_warp_takes(const Graph *graph, const Region *region) {
    bool reduces = false;
    if (lower_stores_whole(graph, region))
        return false;
    for (size_t i = 0; i < region->values.n; i++)
        reduces |= lower_is_space_reduction(region, region->values.at[i]);
    return reduces;
}

Schedule columns_warp_schedule(const Graph *graph, const Region *region, int registers, int ease) {
    enum { AROUND = 24 /* registers for addresses, sums and what is computed */, IN_FLIGHT = 16 };
    Schedule s = {.threads = 32, .threads_per_row = 32, .rows_per_block = 1, .unroll = IN_FLIGHT};
    int bits = 0;
    s.vector = lower_vector_width(graph, region, region->rank - 1);
    s.vector = s.vector > 8 ? 8 : s.vector;
    for (size_t i = 0; i < region->inputs.n; i++)
        if (region->inputs.at[i]->rank > 0)
            bits += s.vector * dtype_bits(region->inputs.at[i]->dtype);
    while (s.unroll > 1 && (s.unroll >> ease) * ((bits + 31) / 32) > registers - AROUND)
        s.unroll /= 2;
    s.unroll = s.unroll >> ease > 1 ? s.unroll >> ease : 1;
    return s;
}

const Dim *columns_warp_strips(const Graph *graph, const Region *region, const Schedule *schedule) {
    const Dim *columns = region_extent(graph, region, region->n_reduced, region->rank);
    return dim_ceil_div(graph->dims, columns, dim_const(graph->dims, columns_strip(schedule)));
}

void columns_build_warp(Builder *b, const Region *region, const Schedule *schedule, const KExpr *strip,
                        const KExpr *lane) {
    Columns c = columns_new(b, region, schedule);
    columns_build_strip(&c, strip, k_mul(b, lane, k_i32(b, c.width)), k_int(b, c.index, 0));
}

const Template template_columns = {
    .name = "columns", .accepts = columns_accepts, .schedules = columns_schedules, .build = columns_build};
