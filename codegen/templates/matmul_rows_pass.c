/* Passes over a tile's rows in the registers, and what the registers hold meanwhile.
 *
 * What passes have in common is computed once. Before each pass, the last value through which everything
 * still wanted depends on the product takes the product's place in the accumulator registers: x @ w + r
 * before the sums of a norm, so that r is read once; exp(x - max) between the two passes of a softmax. */
#include "codegen/reduce.h"
#include "codegen/templates/matmul_rows.h"
#include "ir/block.h"

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

/* Whether accumulators can hold it: they do, or floats take the registers of the integers that they are
 * computed of. */
static bool rows_has_place(const MatmulPlan *plan, const Value *value) {
    KType type = ktype_of(value->dtype);
    return type == plan->accumulator || (type == K_F32 && plan->accumulator == K_I32);
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
            rows_has_place(plan, value) && rows_serves(e, pass, value, held, n_held, &marks))
            return value;
    }
    return NULL;
}

/* context: where elements are held. Accumulators of another type are 0 from then on: the next tile's products
 * still name them, so that sums would stay in registers beside what is held. */
static void rows_hold(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, void *context) {
    Builder *b = e->b;
    const KVar *held = context;
    const KExpr *at = k_let_expr(b, "at", epilogue_at(e, slot));
    const KExpr *j = epilogue_loop(b, "j", e->run);
    const KExpr *element = k_elem(b, computed[0], j), *place = k_add(b, at, j);
    k_set_elem(b, held, place, element);
    const KVar *accumulator = e->fragment->accumulator[0];
    if (accumulator != held)
        k_set_elem(b, accumulator, place, k_convert(b, k_i32(b, 0), accumulator->type));
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

void rows_unbind(Epilogue *e) {
    for (int c = 0; c < e->plan->n_cores; c++)
        lower_unbind(e->lower, e->plan->core[c]);
    if (e->held)
        lower_unbind(e->lower, e->held);
}

const Value *matmul_rows_first_held(Builder *b, const MatmulPlan *plan) {
    Epilogue before = {.b = b, .plan = plan};
    return rows_cut(&before, 0);
}

void rows_hold_next(Epilogue *e, size_t i, MatmulInputs *inputs, const Value *only) {
    const Value *cut = rows_cut(e, i);
    if (!cut || (only && cut != only))
        return;
    Builder *b = e->b;
    MatmulFragment *fragment = ARENA_NEW(b->arena, MatmulFragment);
    *fragment = *e->fragment;
    const KVar *accumulator = fragment->accumulator[0];
    KType type = ktype_of(cut->dtype);
    if (type != accumulator->type)
        fragment->accumulator[0] = k_array(b, "held", type, accumulator->count, NULL);
    e->inputs = inputs;
    rows_pass(e, cut, rows_hold, (void *)fragment->accumulator[0]);
    e->inputs = NULL;
    rows_unbind(e);
    e->held = cut;
    e->fragment = fragment;
}

PartialVars rows_statistic_of(Epilogue *e, size_t i, const Value *of) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    const Value *statistic = e->plan->statistics.at[i];
    const char *name = statistic->name ? statistic->name : op_info(statistic->op)->name;
    RowPass pass = {statistic,
                    reduce_declare(b, statistic, text_format(b->arena, "row_%s", name), n_rows, K_I32)};
    rows_pass(e, of, rows_reduce, &pass);
    if (pass.partial.number)
        rows_number(e, pass.partial.number, n_rows);
    const KExpr *row = epilogue_loop(b, "row", n_rows);
    reduce_lanes(b, statistic, pass.partial, row, f->row_lanes);
    epilogue_loop_end(b, n_rows);
    return pass.partial;
}

PartialVars rows_statistic(Epilogue *e, size_t i, MatmulInputs *inputs, const Value *only) {
    rows_hold_next(e, i, inputs, only);
    return rows_statistic_of(e, i, matmul_reduced(e->plan->statistics.at[i]));
}

void rows_bind(Epilogue *e, const Value *statistic, const KVar *array) {
    rows_forget(e);
    vec_push(e->b->arena, &e->rows, ((MatmulRow){statistic, array}));
}
