/* What an epilogue needs once a row of the fragment, and no product goes into: the scales of quantized rows,
 * a mask, a bias of channels that lie along M. Read with the elements, each group of columns would wait for
 * it again. Here it is brought, and computed, once a tile, into a register for each of the thread's rows: a
 * convolution of 32 x 256 x 3136 by 128 channels with a bias took 28.8 us, and 27.0 so.
 *
 *     y = (x @ w) * (s * 2) + b          s: [M, 1], b: [N]          s * 2: blocks * halves registers */
#include "codegen/templates/matmul_epilogue.h"

enum { ROW_INPUTS_REGISTERS = 8 /* of each */ };

bool matmul_is_read_in_place(const MatmulPlan *plan, const Value *value, MatmulKeeps *keeps,
                             const void *context) {
    const Region *region = plan->region;
    ValueMap of_products = {.arena = plan->graph->arena}, reached = {.arena = plan->graph->arena};
    matmul_mark_dependents(plan, plan->core, plan->n_cores, NULL, 0, &of_products);
    value_map_set(&reached, value, true);
    for (size_t i = 0; i < region->values.n; i++) { /* topological */
        const Value *user = region->values.at[i];
        bool reads = false;
        for (int k = 0; k < user->n_in && !value_map_get(&of_products, user); k++)
            reads |= value_map_get(&reached, user->in[k]);
        if (!reads)
            continue;
        if (!op_is_scalar(user->op) && user->op != OP_cast && user->op != OP_broadcast &&
            !keeps(context, user))
            return false;
        value_map_set(&reached, user, true);
    }
    return true;
}

/* Whether a value has one element for each row of the fragment, and the same for all of its columns; or one
 * for each matrix of the batch. */
static bool row_inputs_is_row(const void *epilogue, const Value *value) {
    const Epilogue *e = epilogue;
    const Value *core = e->plan->core[0];
    bool is_swapped = e->fragment->is_swapped, has_any = false;
    int rank = value->rank, shift = core->rank - rank, axis = rank - (is_swapped ? 1 : 2);
    if (axis < 0 || shift < 0)
        return false;
    for (int i = 0; i < rank; i++) {
        bool is_own = value->dims[i] == core->dims[i + shift] && (i == axis || i + shift < core->rank - 2);
        bool is_one = dim_is(value->dims[i], 1);
        if (!is_one && !is_own)
            return false;
        has_any = has_any || !is_one;
    }
    return has_any && dtype_bits(value->dtype) >= 8 && dtype_bits(value->dtype) <= 32;
}

/* Whether a value has an element for each of a matrix of the product, which several may share. */
static bool row_inputs_is_matrix(const Value *core, const Value *value) {
    return value->rank >= 2 && value->dims[value->rank - 1] == core->dims[core->rank - 1] &&
           value->dims[value->rank - 2] == core->dims[core->rank - 2];
}

/* Whether what the products go into uses it as it is, or what is computed for every element: the column of a
 * label, compared with each column. */
static bool row_inputs_is_used(const Epilogue *e, const ValueMap *dependents, const Value *value) {
    const Region *region = e->plan->region;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *user = region->values.at[i];
        bool is_whole = value_map_get(dependents, user) || row_inputs_is_matrix(e->plan->core[0], user);
        for (int k = 0; k < user->n_in && is_whole; k++)
            if (user->in[k] == value && user->op != OP_matmul)
                return true;
    }
    return false;
}

static const KVar *row_inputs_load(Epilogue *e, const Value *value) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    const MatmulFragment *f = e->fragment;
    int shift = plan->core[0]->rank - value->rank, axis = value->rank - (f->is_swapped ? 1 : 2);
    const KVar *array = k_array(b, text_format(b->arena, "%s_row", lower_value_name(e->lower, value)),
                                ktype_of(value->dtype), f->blocks * f->halves, NULL);
    const KExpr *block = epilogue_loop(b, "block", f->blocks), *half = epilogue_loop(b, "h", f->halves);
    const KExpr *row = matmul_fragment_row(b, f, block, half);
    const KExpr *inside = matmul_fragment_has_row(b, plan, f, block, half);
    const KExpr *coords[RANK_MAX];
    for (int i = 0; i < value->rank; i++)
        coords[i] = dim_is(value->dims[i], 1) ? k_i32(b, 0) : i == axis ? row : e->batch[i + shift];
    epilogue_bind_rows(e, block, half);
    k_set_elem(b, array, epilogue_row_at(e, block, half), lower_at(e->lower, value, coords, inside));
    epilogue_loop_end(b, f->halves);
    epilogue_loop_end(b, f->blocks);
    return array;
}

const KVar *matmul_epilogue_row(Builder *b, const MatmulPlan *plan, Lower *lower,
                                const MatmulFragment *fragment, const KExpr *const *batch,
                                const Value *value) {
    Epilogue e = {.b = b, .plan = plan, .lower = lower, .fragment = fragment, .batch = batch};
    return row_inputs_load(&e, value);
}

/* Whether registers should have an input's, or what is computed of inputs. Coordinates are at hand. */
static bool row_inputs_is_wanted(const Epilogue *e, const ValueMap *dependents, const Value *value) {
    return value->op != OP_index && !value_map_get(dependents, value) && row_inputs_is_row(e, value) &&
           row_inputs_is_used(e, dependents, value) &&
           matmul_is_read_in_place(e->plan, value, row_inputs_is_row, e);
}

void matmul_row_inputs(Epilogue *e) {
    const MatmulPlan *plan = e->plan;
    const Region *region = plan->region;
    const MatmulRows *known = e->fragment->row_inputs;
    for (int i = 0; known && i < known->n; i++)
        vec_push(e->b->arena, &e->row_inputs, known->at[i]);
    if (known || e->fragment->blocks * e->fragment->halves > ROW_INPUTS_REGISTERS)
        return;
    ValueMap dependents = {.arena = plan->graph->arena};
    matmul_mark_dependents(plan, plan->core, plan->n_cores, NULL, 0, &dependents);
    for (size_t i = 0; i < region->inputs.n + region->values.n && e->row_inputs.n < ROW_INPUTS_MOST; i++) {
        const Value *value =
            i < region->inputs.n ? region->inputs.at[i] : region->values.at[i - region->inputs.n];
        if (row_inputs_is_wanted(e, &dependents, value))
            vec_push(e->b->arena, &e->row_inputs, ((MatmulRow){value, row_inputs_load(e, value)}));
    }
}

MatmulRows *matmul_load_rows(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                             const KExpr *const *batch) {
    Epilogue e = {.b = b, .plan = plan, .lower = lower, .fragment = fragment, .batch = batch};
    MatmulRows *rows = ARENA_NEW(b->arena, MatmulRows);
    matmul_row_inputs(&e);
    for (size_t i = 0; i < e.row_inputs.n; i++)
        rows->at[rows->n++] = e.row_inputs.at[i];
    return rows;
}
