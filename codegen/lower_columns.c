/* A product's columns within a thread's registers: reads at another column of the same row, and conditions on
 * the column, while an epilogue's fragment is lowered (lower_set_columns).
 *
 * Both are arithmetic on the column by the time they arrive here, whatever reshapes, slices and concats it
 * went through. A column is the tile's, the lane's and the group's share, and only the last two bits and the
 * group are known when loops are unrolled. So the arithmetic is evaluated for every column, and what comes
 * out is said again in terms of the group:
 *
 *     acc at column (c / 128 * 128 + c % 128 + 64)    ->   acc[... group + 8 ...]
 *     c % 128 >= 64                                   ->   group % 16 >= 8 */
#include "codegen/kernel_value.h"
#include "codegen/lower_internal.h"
#include "ir/columns.h"

void lower_set_columns(Lower *lower, const LowerColumns *columns) {
    lower->has_columns = columns != NULL;
    if (columns)
        lower->columns = *columns;
}

/* The value of arithmetic over placeholders for element `lane` of the run whose first column is `column`;
 * false where it needs anything else. */
static bool columns_evaluate(const Lower *lower, const KExpr *expr, int64_t column, int64_t lane,
                             Number *out) {
    Number args[3] = {{0}, {0}, {0}};
    switch (expr->kind) {
    case KX_INT: out->i = expr->i; return true;
    case KX_VAR:
        if (expr->var->id == lower_lane_placeholder())
            out->i = lane;
        else if (expr->var->id == lower_space_placeholder(lower->region->rank - 1))
            out->i = column;
        else
            return false;
        return true;
    case KX_CONVERT:
    case KX_SCALAR: break;
    default: return false;
    }
    for (int i = 0; i < expr->n_args; i++)
        if (!columns_evaluate(lower, expr->args[i], column, lane, &args[i]))
            return false;
    KType type = expr->args[expr->op == OP_select && expr->kind == KX_SCALAR ? 1 : 0]->type;
    if (ktype_is_float(type))
        return false;
    *out = expr->kind == KX_CONVERT ? kvalue_convert(args[0], type, expr->type)
                                    : kvalue_scalar(expr->op, type, args[0], args[1], args[2]);
    return true;
}

/* Whether arithmetic over placeholders depends on the column. */
static bool columns_is_column(const Lower *lower, const KExpr *expr) {
    if (expr->kind == KX_VAR)
        return expr->var->id == lower_lane_placeholder() ||
               expr->var->id == lower_space_placeholder(lower->region->rank - 1);
    for (int i = 0; i < expr->n_args; i++)
        if (columns_is_column(lower, expr->args[i]))
            return true;
    return false;
}

const KExpr *lower_moved(Lower *lower, const LowerBinding *binding, const LaneCoord *coords, int rank,
                         const KExpr *guard) {
    Builder *b = lower->b;
    const LowerColumns *columns = &lower->columns;
    int width = lower->shape->width;
    const KExpr *column = lane_expr(lower, coords[rank - 1]);
    ColumnFit fit = column_fit_start();
    ColumnMove move;
    for (int64_t c = columns->begin; c < columns->end; c++) {
        Number is_read = {.i = 1}, to;
        int64_t first = c / width * width;
        if (guard && columns_evaluate(lower, guard, first, c - first, &is_read) && !is_read.i)
            continue;
        if (!columns_evaluate(lower, column, first, c - first, &to))
            return NULL;
        column_fit_add(&fit, c, to.i);
    }
    if (!fit.any) /* wanted nowhere */
        return k_convert(b, k_i32(b, 0), binding->array->type);
    if (width != 2 || !column_fit_end(&fit, &move))
        return NULL;
    const KExpr *lane = lower->lane, *group = columns->group;
    if (move.by && move.is_xor)
        group = k_xor(b, group, k_i32(b, move.by));
    else if (move.by) { /* where the guard does not hold, some register of the thread's */
        int64_t by = (move.by % columns->groups + columns->groups) % columns->groups;
        group = k_mod(b, k_add(b, group, k_i32(b, by)), k_i32(b, columns->groups));
    }
    if (move.elem[0] == 1 && move.elem[1] == 0)
        lane = k_sub(b, k_i32(b, 1), lane);
    else if (move.elem[0] == move.elem[1])
        lane = k_i32(b, move.elem[0]);
    const KExpr *at = k_add(b, columns->first, k_mul(b, group, k_i32(b, columns->group_stride)));
    return k_elem(b, binding->array, k_add(b, at, lane));
}

/* A coordinate that is, in every tile, start + (8 * (group % period) + the lane's columns) / by. */
typedef struct ColumnOfTile {
    int64_t start;
    int period, by;
    bool is_read[2]; /* whether anything is, for the first and the second of the lane's columns */
} ColumnOfTile;

enum { COLUMNS_EVEN = 0x55, COLUMNS_ODD = 0xaa }; /* of a group, a bit each */

/* All of a group's columns that are read where those of `read` are: of a pair's columns the first, the second
 * or both; where one element serves a pair (`by` is 2), one of them. */
static unsigned columns_with(unsigned read, int by) {
    unsigned pairs = (read | read >> 1) & COLUMNS_EVEN;
    if (by == 2)
        return pairs ? COLUMNS_EVEN : 0;
    return (read & COLUMNS_EVEN ? COLUMNS_EVEN : 0) | (read & COLUMNS_ODD ? COLUMNS_ODD : 0);
}

/* Finds one for all columns where `guard` holds, if in every group that repeats, each lane has some: where a
 * lane has none, the coordinate might lie outside. `for_run`: of the runs' first elements alone. */
static bool columns_of_tile(const Lower *lower, const KExpr *expr, const KExpr *guard, int by, bool for_run,
                            ColumnOfTile *of_tile) {
    enum { GROUPS_MAX = COLUMN_BLOCK_MAX / COLUMN_GROUP };
    int64_t starts[GROUPS_MAX];               /* of each group, the value for the lane of columns 0 and 1 */
    unsigned read[GROUPS_MAX] = {0}, any = 0; /* columns, a bit each */
    int groups = lower->columns.groups, first = -1;
    if (groups > GROUPS_MAX)
        return false;
    for (int64_t c = lower->columns.begin; c < lower->columns.end; c += for_run ? 2 : 1) {
        Number number, is_read;
        int64_t group = c / COLUMN_GROUP % groups;
        if (guard && !columns_evaluate(lower, guard, c / 2 * 2, c % 2, &is_read))
            return false;
        if (guard && !is_read.i)
            continue;
        if (!columns_evaluate(lower, expr, c / 2 * 2, c % 2, &number))
            return false;
        number.i -= c % COLUMN_GROUP / by;
        if (read[group] && starts[group] != number.i)
            return false;
        first = first >= 0 ? first : (int)group;
        read[group] |= 1u << c % COLUMN_GROUP;
        any |= read[group];
        starts[group] = number.i;
    }
    unsigned wanted = columns_with(any, by);
    for (int period = 1; period <= groups && first >= 0; period++) {
        bool fits = groups % period == 0;
        unsigned met[GROUPS_MAX] = {0};
        int64_t start = starts[first] - COLUMN_GROUP / by * (first % period);
        for (int g = 0; fits && g < groups; g++) {
            fits = !read[g] || starts[g] == start + COLUMN_GROUP / by * (g % period);
            met[g % period] |= by == 2 ? (read[g] | read[g] >> 1) & COLUMNS_EVEN : read[g];
        }
        for (int g = 0; fits && g < period; g++)
            fits = met[g] == wanted;
        if (!fits)
            continue;
        *of_tile = (ColumnOfTile){start, period, by, {any & COLUMNS_EVEN, any & COLUMNS_ODD}};
        return true;
    }
    return false;
}

/* Whether arithmetic is the same for both elements of every run. */
static bool columns_are_of_runs(const Lower *lower, const KExpr *expr) {
    for (int64_t c = lower->columns.begin; c < lower->columns.end; c += 2) {
        Number first, second;
        if (!columns_evaluate(lower, expr, c, 0, &first) || !columns_evaluate(lower, expr, c, 1, &second) ||
            first.i != second.i)
            return false;
    }
    return true;
}

/* What differs within a run (neighbours that trade places) is said element by element, not once a run. */
const KExpr *lower_column_of_tile(Lower *lower, const KExpr *expr) {
    Builder *b = lower->b;
    ColumnOfTile of_tile;
    if (!columns_are_of_runs(lower, expr) || (!columns_of_tile(lower, expr, NULL, 1, true, &of_tile) &&
                                              !columns_of_tile(lower, expr, NULL, 2, true, &of_tile)))
        return NULL;
    const KExpr *lane = k_div(b, lower->columns.lane, k_i32(b, of_tile.by));
    const KExpr *start = k_mul(b, k_mod(b, lower->columns.group, k_i32(b, of_tile.period)),
                               k_i32(b, COLUMN_GROUP / of_tile.by));
    return k_convert(b, k_add(b, k_add(b, lane, start), k_i32(b, of_tile.start)), expr->type);
}

bool lower_key_of_tile(Lower *lower, LowerKey *key, int *period) {
    Builder *b = lower->b;
    LowerKey fresh = *key;
    bool is_found = false;
    if (!lower->has_columns || lower->shape->width != 2)
        return false;
    const KVar *column = &lower->space[lower->region->rank - 1];
    fresh.guard = NULL;
    for (int i = 0; i < key->value->rank; i++) {
        const KExpr *expr = lane_expr(lower, key->coords[i]);
        ColumnOfTile of_tile;
        if (!columns_is_column(lower, expr))
            continue;
        bool is_pair = columns_of_tile(lower, expr, key->guard, 1, false, &of_tile);
        if (is_found || (!is_pair && !columns_of_tile(lower, expr, key->guard, 2, false, &of_tile)))
            return false;
        const KExpr *extent = k_int(b, lower->index, (int64_t)COLUMN_GROUP * of_tile.period);
        const KExpr *at = k_mod(b, k_var(b, column), extent);
        if (!is_pair)
            at = k_div(b, at, k_int(b, lower->index, 2));
        bool has_both = of_tile.is_read[0] && of_tile.is_read[1];
        if (is_pair && !has_both) { /* the other might lie outside */
            of_tile.start += of_tile.is_read[1];
            is_pair = false;
        }
        fresh.coords[i] = (LaneCoord){k_add(b, at, k_int(b, lower->index, of_tile.start)), is_pair,
                                      is_pair && of_tile.start % 2 == 0 ? 2 : 1, 1};
        *period = of_tile.period;
        is_found = true;
    }
    if (is_found)
        *key = fresh;
    return is_found;
}

/* A condition that holds in some groups of a tile and not in others, whatever the lane and the tile: in terms
 * of the group. NULL where it is no such condition. */
static const KExpr *columns_condition(Lower *lower, const KExpr *condition) {
    Builder *b = lower->b;
    const LowerColumns *columns = &lower->columns;
    int width = lower->shape ? lower->shape->width : 1, groups = columns->groups;
    signed char holds[COLUMN_BLOCK_MAX / COLUMN_GROUP];
    if (groups > (int)sizeof holds)
        return NULL;
    memset(holds, -1, sizeof holds);
    for (int64_t c = columns->begin; c < columns->end; c++) {
        Number is_true;
        int64_t first = c / width * width, group = c / COLUMN_GROUP % groups;
        if (!columns_evaluate(lower, condition, first, c - first, &is_true))
            return NULL;
        if (holds[group] >= 0 && holds[group] != (is_true.i != 0))
            return NULL;
        holds[group] = is_true.i != 0;
    }
    /* below a bound or from one on, in every `period` groups */
    for (int period = 1; period <= groups; period++) {
        int bound = 0;
        if (groups % period != 0)
            continue;
        while (bound < period && holds[bound] == holds[0])
            bound++;
        bool repeats = true;
        for (int g = 0; g < groups; g++)
            repeats = repeats && (holds[g] < 0 || (holds[g] == holds[0]) == (g % period < bound));
        if (!repeats)
            continue;
        if (bound == period)
            return k_int(b, K_BOOL, holds[0]);
        const KExpr *within = k_mod(b, columns->group, k_i32(b, period));
        return holds[0] ? k_lt(b, within, k_i32(b, bound)) : k_ge(b, within, k_i32(b, bound));
    }
    return NULL;
}

const KExpr *lower_condition(Lower *lower, const KExpr *condition) {
    Builder *b = lower->b;
    if (!condition || !lower->has_columns)
        return lower_concrete(lower, condition);
    if (condition->kind == KX_SCALAR && condition->op == OP_and) {
        const KExpr *x = lower_condition(lower, condition->args[0]),
                    *y = lower_condition(lower, condition->args[1]);
        if (x->kind == KX_INT)
            return x->i ? y : x;
        if (y->kind == KX_INT)
            return y->i ? x : y;
        return k_and(b, x, y);
    }
    const KExpr *known = columns_condition(lower, condition);
    return known ? known : lower_concrete(lower, condition);
}
