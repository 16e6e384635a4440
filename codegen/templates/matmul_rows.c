/* Row statistics of a product whose rows lie whole within one tile: softmax, RMS norm, layer norm in the
 * kernel that multiplies.
 *
 * A row's columns are spread over `row_lanes` neighbouring lanes and the registers of each. A statistic is
 * one pass over the registers, then an exchange between those lanes; the next pass finds it bound to the row.
 *
 * What passes have in common is computed once. Before each pass, the last value through which everything
 * still wanted depends on the product takes the product's place in the accumulator registers: x @ w + r
 * before the sums of a norm, so that r is read once; exp(x - max) between the two passes of a softmax. */
#include "codegen/reduce.h"
#include "codegen/templates/matmul.h"

/* Whether `value`, held in place of what the accumulators hold now, serves every later pass. */
static bool rows_serves(Epilogue *e, size_t pass, const Value *value, const Value *const *held, int n_held,
                        ValueMap *marks) {
    const MatmulPlan *plan = e->plan;
    matmul_mark_dependents(plan, held, n_held, &value, 1, marks);
    for (size_t i = pass; i < plan->statistics.n; i++)
        if (value_map_get(marks, plan->statistics.at[i]->in[0]))
            return false;
    for (size_t i = 0; i < plan->region->outputs.n; i++)
        if (value_map_get(marks, plan->region->outputs.at[i]))
            return false;
    return true;
}

/* The last value to hold instead before statistic number `pass`; NULL: nothing better than what is held. */
static const Value *rows_cut(Epilogue *e, size_t pass) {
    const MatmulPlan *plan = e->plan;
    const Value *const *held = e->held ? &e->held : plan->core;
    int n_held = e->held ? 1 : plan->n_cores;
    Arena *arena = e->b->arena;
    ValueMap marks = {.arena = arena}, reached = {.arena = arena}, too_early = {.arena = arena};
    matmul_mark_dependents(plan, held, n_held, NULL, 0, &reached);
    matmul_mark_dependents(plan, plan->statistics.at + pass, (int)(plan->statistics.n - pass), NULL, 0,
                           &too_early);
    for (size_t i = plan->region->values.n; i-- > 0;) {
        const Value *value = plan->region->values.at[i];
        bool is_pointwise = op_is_scalar(value->op) || value->op == OP_cast;
        if (is_pointwise && value_map_get(&reached, value) && !value_map_get(&too_early, value) &&
            value != e->held && value_same_dims(value, plan->core[0]) &&
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
        const KVar *same = k_variable(b, "same", K_U32, NULL);
        KOperand operands[] = {k_reg(same), k_operand(k_bitcast(b, k_elem(b, array, row), K_U32)),
                               k_operand(k_convert(b, k_special(b, SPECIAL_LANE), K_U32))};
        k_atom(b, ATOM_shuffle_index, NULL, operands, 3);
        k_set_elem(b, array, row, k_bitcast(b, k_var(b, same), array->type));
        epilogue_loop_end(b, n_rows);
    }
}

typedef struct RowPass {
    const Value *statistic;
    PartialVars partial;
} RowPass;

static void rows_reduce(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed, void *context) {
    Builder *b = e->b;
    const RowPass *pass = context;
    Partial identity = reduce_identity(b, pass->statistic, K_I32);
    const KExpr *j = epilogue_loop(b, "j", e->run);
    const KExpr *column = k_add(b, slot->run.coords[slot->run.axis], j);
    Partial element = reduce_element(b, pass->statistic, k_elem(b, computed[0], j), column);
    if (slot->inside) { /* rows behind the last are not looked at */
        element.x = k_select(b, slot->inside, element.x, identity.x);
        if (element.number)
            element.number = k_select(b, slot->inside, element.number, identity.number);
    }
    reduce_into(b, pass->statistic, pass->partial, epilogue_row_at(e, slot->block, slot->half), element);
    epilogue_loop_end(b, e->run);
}

/* A pass over all columns of the thread's rows. */
static void rows_pass(Epilogue *e, const Value *value, EpilogueBody *body, void *context) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_groups = e->fragment->accumulator[0]->count >= 128 ? 1 : epilogue_batch_groups(e);
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    const KExpr *part = epilogue_loop(b, "part", f->groups / n_groups);
    epilogue_batch(e, block, k_mul(b, part, k_i32(b, n_groups)), n_groups, &value, 1, false, body, context);
    epilogue_loop_end(b, f->groups / n_groups);
    epilogue_loop_end(b, f->blocks);
}

static void rows_unbind(Epilogue *e) {
    for (int c = 0; c < e->plan->n_cores; c++)
        lower_unbind(e->lower, e->plan->core[c]);
    if (e->held)
        lower_unbind(e->lower, e->held);
}

void matmul_row_statistics(Epilogue *e) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_rows = f->blocks * f->halves;
    for (size_t i = 0; i < e->plan->statistics.n; i++) {
        const Value *statistic = e->plan->statistics.at[i];
        const Value *cut = rows_cut(e, i);
        if (cut) {
            rows_pass(e, cut, rows_hold, NULL);
            rows_unbind(e);
            e->held = cut;
        }
        const char *name = statistic->name ? statistic->name : op_info(statistic->op)->name;
        RowPass pass = {statistic,
                        reduce_declare(b, statistic, text_format(b->arena, "row_%s", name), n_rows, K_I32)};
        rows_pass(e, statistic->in[0], rows_reduce, &pass);
        const KExpr *row = epilogue_loop(b, "row", n_rows);
        reduce_lanes(b, statistic, pass.partial, row, f->row_lanes);
        epilogue_loop_end(b, n_rows);
        MatmulRow result = {statistic, pass.partial.number ? pass.partial.number : pass.partial.x};
        rows_forget(e);
        vec_push(b->arena, &e->rows, result);
    }
}
