/* Statistics of a product's tile: parts of rows and of columns that another kernel puts together
 * (passes/split_product.c).
 *
 * Rows: as whole rows (matmul_rows.c), but of the tile's columns alone; one lane of those that share a row
 * writes its element. Columns: a warp has 16 rows of a column in 8 lanes, two in each. While outputs are
 * computed, each thread reduces its two rows; then the lanes exchange halves, so that each ends with whole
 * results of an eighth of the columns:
 *
 *     lanes of one column     0   1   2   3   4   5   6   7        columns in registers: 8
 *     exchange with lane ^ 4  keeps columns 0-3, or 4-7            4 shuffles
 *     with lane ^ 2           of these the first two, or the last  2
 *     with lane ^ 1           one column, of all 16 rows           1, where 8 columns by themselves take 24
 *
 * No two warps share rows of a column, so nothing goes through shared memory and nobody waits. */
#include "codegen/reduce.h"
#include "codegen/templates/matmul_epilogue.h"
#include "codegen/templates/matmul_paths.h"
#include "ir/block.h"

enum { WARP = 32 };

bool matmul_accepts_blocks(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    if (!plan->block_cols && !plan->columns.n) {
        *why = NULL;
        return true;
    }
    *why = "statistics of tiles are taken where one block has the whole sum over K";
    if (matmul_streams(schedule->path) || schedule->split_k > 1)
        return false;
    *why = "a statistic of blocks of columns takes tiles of as many columns, without swap_ab";
    if (plan->block_cols && (schedule->tile_n != plan->block_cols || schedule->swap_ab))
        return false;
    *why = "column statistics are taken from fragments of 16 rows: by wgmma or mma, without swap_ab";
    if (plan->columns.n && (schedule->path == MATMUL_SIMT || schedule->swap_ab))
        return false;
    *why = NULL;
    return true;
}

bool matmul_has_rows(const MatmulPlan *plan, const Schedule *schedule) {
    return plan->block_cols || dim_upper(plan->graph->dims, plan->n) <= schedule->tile_n;
}

static bool blocks_is_stored(const Region *region, const Value *statistic) {
    for (size_t i = 0; i < region->outputs.n; i++)
        if (block_stored(region->outputs.at[i]) == statistic)
            return true;
    return false;
}

/* The result of `partial`, at a block's coordinates: the space's with `axis` counted in blocks, and the axis
 * that is reduced behind it. */
static void blocks_store(Epilogue *e, const Value *statistic, const KExpr *row, const KExpr *col,
                         Partial partial) {
    const KExpr *coords[RANK_MAX];
    int rank = e->plan->batch_rank + 2;
    BlockStatistic block;
    block_statistic(statistic, &block);
    for (int i = 0; i < e->plan->batch_rank; i++)
        coords[i] = e->batch[i];
    coords[rank - 2] = row;
    coords[block.axis == rank - 1 ? rank - 1 : rank] = col;
    coords[block.axis + 1] = k_i32(e->b, 0);
    const KExpr *result = reduce_result(e->b, statistic, partial);
    for (size_t i = 0; i < e->plan->region->outputs.n; i++) {
        const Value *output = e->plan->region->outputs.at[i];
        if (block_stored(output) == statistic)
            lower_store_at(e->lower, output, statistic, coords, result);
    }
}

static void blocks_store_row(Epilogue *e, const Value *statistic) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *lane = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, f->row_lanes));
    const KExpr *part = k_div(b, f->col, k_i32(b, e->plan->block_cols));
    const KVar *array = NULL;
    for (size_t i = 0; i < e->rows.n; i++)
        if (e->rows.at[i].value == statistic)
            array = e->rows.at[i].array;
    const KExpr *inside = k_and(b, k_eq(b, lane, k_i32(b, 0)), k_lt(b, f->col, k_dim(b, e->plan->n, K_I32)));
    const KExpr *block = epilogue_loop(b, "block", f->blocks), *half = epilogue_loop(b, "h", f->halves);
    const KExpr *row = matmul_fragment_row(b, f, block, half);
    const KExpr *x = k_elem(b, array, epilogue_row_at(e, block, half));
    k_if_begin(b, k_and(b, inside, k_lt(b, row, k_dim(b, e->plan->m, K_I32))));
    blocks_store(e, statistic, row, part, (Partial){x, reduce_has_number(statistic) ? x : NULL});
    k_end(b);
    epilogue_loop_end(b, f->halves);
    epilogue_loop_end(b, f->blocks);
}

void matmul_store_row_blocks(Epilogue *e) {
    for (size_t i = 0; i < e->plan->statistics.n && e->plan->block_cols; i++)
        if (blocks_is_stored(e->plan->region, e->plan->statistics.at[i]))
            blocks_store_row(e, e->plan->statistics.at[i]);
}

/* ---- columns */

/* Lanes that share a column. */
static int columns_lanes(const Epilogue *e) {
    return WARP / e->fragment->row_lanes;
}

/* The first of a run's columns, among those of the batch. */
static const KExpr *columns_at(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    const KExpr *at = k_mul(b, k_sub(b, slot->group, e->column_group), k_i32(b, e->fragment->width));
    return k_add(b, at, k_mul(b, slot->piece, k_i32(b, e->run)));
}

void matmul_columns_begin(Epilogue *e, const KExpr *group, int n_groups, MatmulColumns *columns) {
    Builder *b = e->b;
    columns->n = 0;
    e->column_group = group;
    for (size_t i = 0; i < e->plan->columns.n; i++) {
        const Value *statistic = e->plan->columns.at[i];
        const char *name = statistic->name ? statistic->name : op_info(statistic->op)->name;
        PartialVars vars = reduce_declare(b, statistic, text_format(b->arena, "column_%s", name),
                                          n_groups * e->fragment->width, K_I32);
        vec_push(b->arena, columns, vars);
    }
}

/* The elements of a run into the statistics from number `from` on. */
static void columns_fold(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, size_t from,
                         size_t to, const MatmulColumns *columns) {
    Builder *b = e->b;
    int rank = e->plan->batch_rank + 2;
    for (size_t i = from; i < to; i++) {
        const Value *statistic = e->plan->columns.at[i];
        const KExpr *j = epilogue_loop(b, "j", e->run);
        const KExpr *number = k_mod(b, slot->run.coords[rank - 2], k_i32(b, MATMUL_BLOCK_ROWS));
        reduce_take(b, statistic, columns->at[i], k_add(b, columns_at(e, slot), j),
                    k_elem(b, computed[i - from], j), number, slot->run.guard);
        epilogue_loop_end(b, e->run);
    }
}

void matmul_columns_fold(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                         const MatmulColumns *columns) {
    columns_fold(e, slot, computed, 0, e->plan->n_columns_first, columns);
}

static void columns_fold_rest(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                              void *context) {
    columns_fold(e, slot, computed, e->plan->n_columns_first, e->plan->columns.n, context);
}

/* Whether a value repeats a statistic for the elements that it was taken of, where others ask for it. */
static bool columns_are_repeated(const Epilogue *e, const Value *value, const Value *statistic) {
    return block_repeated(value) == statistic && value_same_dims(value, e->plan->core[0]);
}

/* The first column statistics, where they are asked for: known at `at`, or with NULL no longer. */
static void columns_bind(Epilogue *e, const KExpr *at) {
    const Region *region = e->plan->region;
    for (size_t i = 0; i < e->plan->n_columns_first; i++)
        for (size_t k = 0; k < region->values.n; k++) {
            const Value *value = region->values.at[k];
            if (!columns_are_repeated(e, value, e->plan->columns.at[i]))
                continue;
            if (at)
                lower_bind_array(e->lower, value, e->columns[i].x, at);
            else
                lower_unbind(e->lower, value);
        }
}

void matmul_columns_bind(Epilogue *e, const EpilogueSlot *slot) {
    if (e->columns && e->plan->n_columns_first)
        columns_bind(e, columns_at(e, slot));
}

static Partial columns_shuffle(Builder *b, Partial partial, int mask) {
    return (Partial){k_shuffle_xor(b, partial.x, mask),
                     partial.number ? k_shuffle_xor(b, partial.number, mask) : NULL};
}

static Partial columns_choose(Builder *b, const KExpr *condition, Partial x, Partial y) {
    return (Partial){k_select(b, condition, x.x, y.x),
                     x.number ? k_select(b, condition, x.number, y.number) : NULL};
}

/* Each lane keeps one half of `count` columns and gives the other to the lane that keeps that. */
static void columns_halve(Builder *b, const Value *statistic, PartialVars vars, int count, int mask) {
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *upper = k_let_expr(b, "upper", k_ge(b, k_mod(b, lane, k_i32(b, 2 * mask)), k_i32(b, mask)));
    const KExpr *i = epilogue_loop(b, "i", count / 2);
    Partial low = reduce_get(b, vars, i), high = reduce_get(b, vars, k_add(b, i, k_i32(b, count / 2)));
    Partial given = columns_shuffle(b, columns_choose(b, upper, low, high), mask);
    reduce_put(b, vars, i, reduce_combine(b, statistic, columns_choose(b, upper, high, low), given));
    epilogue_loop_end(b, count / 2);
}

/* The sum over lanes of one column statistic; each column's result is then in the lanes whose number among
 * those of the column, times columns, divided by lanes, is the column's. How many each has. */
static int columns_exchange(Epilogue *e, const Value *statistic, PartialVars vars, int count) {
    Builder *b = e->b;
    for (int mask = WARP / 2; mask >= e->fragment->row_lanes; mask /= 2) {
        if (count > 1) {
            columns_halve(b, statistic, vars, count, mask);
            count /= 2;
            continue;
        }
        Partial own = reduce_get(b, vars, k_i32(b, 0));
        reduce_put(b, vars, k_i32(b, 0), reduce_combine(b, statistic, own, columns_shuffle(b, own, mask)));
    }
    return count;
}

/* Every lane of a column gets its result: what the statistics that wait are computed from. Then those. */
static void columns_rest(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups,
                         const MatmulColumns *columns) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    int count = n_groups * e->fragment->width;
    VEC(const Value *) values = {0};
    for (size_t i = 0; i < plan->n_columns_first; i++) {
        const KExpr *at = epilogue_loop(b, "i", count);
        reduce_lanes_apart(b, plan->columns.at[i], columns->at[i], at, WARP, e->fragment->row_lanes);
        epilogue_loop_end(b, count);
    }
    for (size_t i = plan->n_columns_first; i < plan->columns.n; i++)
        vec_push(b->arena, &values, matmul_reduced(plan->columns.at[i]));
    e->columns = columns->at;
    epilogue_batch(e, block, group, n_groups, values.at, (int)values.n, 0, columns_fold_rest,
                   (void *)(uintptr_t)columns);
    e->columns = NULL;
    columns_bind(e, NULL);
}

/* The coordinates of a batch's columns, and who stores them. */
typedef struct ColumnPlace {
    const KExpr *lane;         /* among the lanes of a column */
    const KExpr *part, *first; /* the warp's rows: their number in parts, and the first */
    const KExpr *group;
    int count;
} ColumnPlace;

/* Column `number` of the batch, by the lanes that satisfy `mine`. */
static void columns_store(Epilogue *e, const ColumnPlace *place, const Value *statistic, const KExpr *number,
                          const KExpr *mine, Partial result) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *width = k_i32(b, f->width);
    const KExpr *col = k_mul(b, k_add(b, place->group, k_div(b, number, width)), k_i32(b, f->group_cols));
    col = k_let_expr(b, "column", k_add(b, k_add(b, f->col, col), k_mod(b, number, width)));
    const KExpr *inside = k_and(b, k_lt(b, place->first, k_dim(b, e->plan->m, K_I32)),
                                k_lt(b, col, k_dim(b, e->plan->n, K_I32)));
    k_if_begin(b, k_and(b, inside, mine));
    blocks_store(e, statistic, place->part, col, result);
    k_end(b);
}

/* A statistic of which each lane has every column: each stores its own. */
static void columns_store_known(Epilogue *e, const ColumnPlace *place, const Value *statistic,
                                PartialVars vars) {
    Builder *b = e->b;
    const KExpr *at = epilogue_loop(b, "i", place->count);
    const KExpr *mine = k_eq(b, place->lane, k_mod(b, at, k_i32(b, columns_lanes(e))));
    columns_store(e, place, statistic, at, mine, reduce_get(b, vars, at));
    epilogue_loop_end(b, place->count);
}

static void columns_store_parts(Epilogue *e, const ColumnPlace *place, const Value *statistic,
                                PartialVars vars) {
    Builder *b = e->b;
    int lanes = columns_lanes(e), count = place->count;
    int own = columns_exchange(e, statistic, vars, count);
    const KExpr *at = epilogue_loop(b, "i", own);
    const KExpr *number = k_add(b, k_div(b, k_mul(b, place->lane, k_i32(b, count)), k_i32(b, lanes)), at);
    const KExpr *mine = NULL;
    if (count < lanes) /* several lanes have the same */
        mine = k_eq(b, k_mod(b, place->lane, k_i32(b, lanes / count)), k_i32(b, 0));
    columns_store(e, place, statistic, number, mine, reduce_get(b, vars, at));
    epilogue_loop_end(b, own);
}

void matmul_columns_end(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups,
                        const MatmulColumns *columns) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    const MatmulFragment *f = e->fragment;
    const KExpr *row = k_add(b, f->row, k_mul(b, block, k_i32(b, f->block_rows)));
    const KExpr *part = k_div(b, row, k_i32(b, MATMUL_BLOCK_ROWS)); /* the same for all lanes of the warp */
    ColumnPlace place = {.lane = k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, f->row_lanes)),
                         .part = part,
                         .first = k_mul(b, part, k_i32(b, MATMUL_BLOCK_ROWS)),
                         .group = group,
                         .count = n_groups * f->width};
    bool waits = plan->columns.n > plan->n_columns_first;
    if (waits)
        columns_rest(e, block, group, n_groups, columns);
    for (size_t i = 0; i < plan->columns.n; i++) {
        if (waits && i < plan->n_columns_first)
            columns_store_known(e, &place, plan->columns.at[i], columns->at[i]);
        else
            columns_store_parts(e, &place, plan->columns.at[i], columns->at[i]);
    }
}
