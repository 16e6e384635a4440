/* Rows: what is kept in registers between the passes over a row. */
#include "codegen/templates/rows_build.h"
#include "ir/value_map.h"

enum {
    ROWS_HEAVY = 8, /* operations that an exponential, a random number or a gathered element costs, and
                     * that registers cost: what passes would do again is kept where it is as much */
};

/* What the level's rounds search, or NULL. */
static const Value *rows_searched(const Rows *rows, int level) {
    int number = rows_rounds_of(rows, level);
    return number < 0 ? NULL : rows->rounds[number].x;
}

/* Marks what lies between `value` and what is read, reduced or kept. */
static void rows_mark(const Rows *rows, const Value *value, ValueMap *marks) {
    const Region *region = rows->region;
    if (value_map_get(marks, value) || lower_is_space_reduction(region, value) || region_reads(region, value))
        return;
    for (size_t i = 0; i < rows->held.n; i++)
        if (rows->held.at[i].value == value)
            return;
    value_map_set(marks, value, true);
    for (int i = 0; i < value->n_in; i++)
        rows_mark(rows, value->in[i], marks);
}

/* What computing `value` again from what is not marked costs an element, in operations; `seen` are counted.
 */
static int rows_work(const Region *region, const Value *value, const ValueMap *marks, ValueMap *seen) {
    if (!value_map_get(marks, value) || value_map_get(seen, value) ||
        !lower_is_whole(region, value)) /* what belongs to the whole row is computed once anyway */
        return 0;
    value_map_set(seen, value, true);
    const OpInfo *info = op_info(value->op);
    bool is_heavy = (op_is_scalar(value->op) && info->rule == RULE_FLOAT) || value->op == OP_div ||
                    value->op == OP_gather || info->class_ == OPCLASS_RANDOM ||
                    info->class_ == OPCLASS_CONTRACTION || info->class_ == OPCLASS_REDUCTION;
    int work = is_heavy ? ROWS_HEAVY : 1;
    for (int i = 0; i < value->n_in; i++)
        work += rows_work(region, value->in[i], marks, seen);
    return work;
}

static bool rows_is_used_later(const Rows *rows, const Value *value, int level, const ValueMap *now,
                               const ValueMap *later) {
    const Region *region = rows->region;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *user = region->values.at[i];
        for (int k = 0; k < user->n_in; k++)
            if (user->in[k] == value && value_map_get(later, user) && !value_map_get(now, user))
                return true;
    }
    for (int l = level + 1; l < rows->levels.n; l++) {
        for (size_t i = 0; i < rows->levels.at[l].n; i++)
            if (rows->levels.at[l].at[i]->in[0] == value)
                return true;
        if (rows_searched(rows, l) == value)
            return true;
    }
    for (size_t i = 0; i < rows->whole.n; i++)
        if (lower_root(region, rows->whole.at[i]) == value)
            return true;
    for (int i = 0; i < rows->n_down; i++)
        if (rows->down[i].block.of == value)
            return true;
    return false;
}

/* What passes from `level` on compute. */
static ValueMap rows_marks(const Rows *rows, int level, int end) {
    ValueMap marks = {.arena = rows->b->arena};
    for (int l = level; l < end && l < rows->levels.n; l++) {
        for (size_t i = 0; i < rows->levels.at[l].n; i++)
            rows_mark(rows, rows->levels.at[l].at[i]->in[0], &marks);
        if (rows_searched(rows, l))
            rows_mark(rows, rows_searched(rows, l), &marks);
    }
    for (size_t i = 0; end > rows->levels.n && i < rows->whole.n; i++)
        rows_mark(rows, lower_root(rows->region, rows->whole.at[i]), &marks);
    for (int i = 0; end > rows->levels.n && i < rows->n_down; i++)
        rows_mark(rows, rows->down[i].block.of, &marks);
    return marks;
}

/* Whether passes from `level` on need a value that is held already, by what they compute. */
static bool rows_needs_held(const Rows *rows, const Value *held, int level, const ValueMap *later) {
    return rows_is_used_later(rows, held, level - 1, &(ValueMap){.arena = rows->b->arena}, later);
}

/* What values replace costs no registers any more: a row of which one element a pass is taken out is held
 * again after each. */
void rows_find_held(Rows *rows, int level) {
    const Region *region = rows->region;
    Arena *arena = rows->b->arena;
    ValueMap now = rows_marks(rows, level, level + 1);
    ValueMap later = rows_marks(rows, level + 1, rows->levels.n + 1);
    int passes = rows->levels.n - level - (rows->whole.n == 0 && rows->n_down == 0); /* later ones */
    size_t before = rows->held.n, live = 0;
    for (size_t i = 0; i < before; i++)
        live += rows_needs_held(rows, rows->held.at[i].value, level + 1, &later);
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        size_t fresh = rows->held.n - before;
        bool fits = (int)(live + fresh + 1) * rows->runs * rows->width <= ROWS_REGISTERS;
        ValueMap seen = {.arena = arena};
        if (fits && fresh < 2 && value_map_get(&now, value) && value_map_get(&later, value) &&
            lower_is_whole(region, value) && rows_work(region, value, &now, &seen) * passes >= ROWS_HEAVY &&
            rows_is_used_later(rows, value, level, &now, &later)) {
            const char *name = lower_value_name(rows->lower, value);
            RowsHeld held = {value,
                             k_array(rows->b, name, ktype_of(value->dtype), rows->runs * rows->width, NULL)};
            vec_push(arena, &rows->held, held);
        }
    }
}

void rows_bind_held(Rows *rows, size_t n, const KExpr *slot) {
    for (size_t i = 0; i < n; i++)
        lower_bind_array(rows->lower, rows->held.at[i].value, rows->held.at[i].array,
                         k_mul(rows->b, slot, k_i32(rows->b, rows->width)));
}
