/* From accumulators to outputs: the epilogue's graph, computed on each thread's fragment at coordinates.
 *
 * Column groups go in batches: the loads of a batch are all in flight before its first value is needed. What
 * is computed is stored as matmul_epilogue_store.c has it. */
#include "codegen/templates/matmul_epilogue.h"

#include "ir/block.h"

enum { EPILOGUE_BATCH = 4 };

bool matmul_is_read_behind(const MatmulPlan *plan, const Value *value) {
    ValueMap marks = {.arena = plan->graph->arena};
    VEC(const Value *) cut = {0};
    for (int i = 0; i < plan->n_cores; i++)
        vec_push(plan->graph->arena, &cut, plan->core[i]);
    for (size_t i = 0; i < plan->operand_rows.n; i++)
        vec_push(plan->graph->arena, &cut, plan->operand_rows.at[i]);
    matmul_mark_dependents(plan, &value, 1, cut.at, (int)cut.n, &marks);
    for (size_t i = 0; i < plan->region->outputs.n; i++)
        if (value_map_get(&marks, plan->region->outputs.at[i]))
            return true;
    return false;
}

void matmul_settle(Builder *b, const KVar *array) {
    enum { AT_ONCE = 128 };
    if (ktype_bits(array->type) != 32)
        return;
    for (int at = 0; at < array->count; at += AT_ONCE) {
        int n = array->count - at < AT_ONCE ? array->count - at : AT_ONCE;
        KOperand registers = k_regs(array, at, n);
        k_atom(b, array->type == K_F32 ? ATOM_settle_f32 : ATOM_settle_i32, (int[]){n}, &registers, 1);
    }
}

const KExpr *matmul_anew(Builder *b, const char *name, const KExpr *value) {
    const KVar *anew = k_variable(b, name, value->type, value);
    KOperand registers = k_reg(anew);
    AtomId atom = ktype_bits(value->type) == 64 ? ATOM_settle_i64 : ATOM_settle_i32;
    k_atom(b, atom, (int[]){1}, &registers, 1);
    return k_var(b, anew);
}

const KExpr *epilogue_loop(Builder *b, const char *name, int count) {
    return count == 1 ? k_i32(b, 0) : k_for_begin(b, name, k_i32(b, 0), k_i32(b, count), 1, UNROLL_FULL);
}

void epilogue_loop_end(Builder *b, int count) {
    if (count > 1)
        k_end(b);
}

const KExpr *matmul_fragment_row(Builder *b, const MatmulFragment *fragment, const KExpr *block,
                                 const KExpr *half) {
    const KExpr *to = fragment->taps ? matmul_patch_rows_to(b, fragment->taps->patch, block)
                                     : k_mul(b, block, k_i32(b, fragment->block_rows));
    const KExpr *row = k_add(b, fragment->row, to);
    return k_add(b, row, k_mul(b, half, k_i32(b, fragment->half_rows)));
}

const KExpr *matmul_fragment_has_row(Builder *b, const MatmulPlan *plan, const MatmulFragment *fragment,
                                     const KExpr *block, const KExpr *half) {
    const Dim *rows = fragment->is_swapped ? plan->n : plan->m;
    if (fragment->place) {
        const KExpr *groups = k_add(b, k_mul(b, block, k_i32(b, WGMMA_M / PATCH_GROUP)), half);
        MatmulPlace place = matmul_patch_behind(b, fragment->place, groups);
        return matmul_patch_inside(b, &place);
    }
    if (fragment->taps)
        return matmul_patch_has_row(b, fragment->taps, block, half);
    return dim_divisor(plan->graph->dims, rows) % fragment->tile_rows == 0
               ? NULL
               : k_lt(b, matmul_fragment_row(b, fragment, block, half), k_dim(b, rows, K_I32));
}

int epilogue_batch_groups(const Epilogue *e) {
    /* where accumulators and statistics fill the registers, loads go out in smaller numbers */
    bool is_full = e->plan->statistics.n && e->fragment->accumulator[0]->count >= 128;
    int ease = e->plan->region->schedule.ease;
    int least = e->inputs && e->inputs->n ? 2 : 1; /* ldmatrix brings two groups of an input */
    int n = ease > 1 ? least : ease || is_full ? EPILOGUE_BATCH / 2 : EPILOGUE_BATCH;
    while (e->fragment->groups % n != 0)
        n /= 2;
    return n;
}

const KExpr *epilogue_row_at(Epilogue *e, const KExpr *block, const KExpr *half) {
    return k_add(e->b, k_mul(e->b, block, k_i32(e->b, e->fragment->halves)), half);
}

const KExpr *epilogue_group(Epilogue *e, const KExpr *block, const KExpr *group) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *first = k_mul(b, block, k_i32(b, f->first_group ? f->block_groups : f->groups));
    return k_add(b, f->first_group ? k_add(b, first, f->first_group) : first, group);
}

const KExpr *epilogue_at(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *group = epilogue_group(e, slot->block, slot->group);
    const KExpr *at = k_add(b, k_mul(b, group, k_i32(b, f->halves)), slot->half);
    return k_add(b, k_mul(b, at, k_i32(b, f->width)), k_mul(b, slot->piece, k_i32(b, e->run)));
}

const KExpr *epilogue_number(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *group = k_add(b, k_mul(b, slot->block, k_i32(b, f->groups)), slot->group);
    const KExpr *at = k_add(b, k_mul(b, group, k_i32(b, f->halves)), slot->half);
    return k_add(b, k_mul(b, at, k_i32(b, f->width / e->run)), slot->piece);
}

/* Coordinates and guard of a run; the guard holds where every element lies in the result. */
static void epilogue_place(Epilogue *e, EpilogueSlot *slot) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    const MatmulFragment *f = e->fragment;
    DimTable *dims = plan->graph->dims;
    const Dim *cols = f->is_swapped ? plan->m : plan->n;
    const KExpr *row = matmul_fragment_row(b, f, slot->block, slot->half);
    const KExpr *across =
        k_add(b, k_mul(b, slot->group, k_i32(b, f->group_cols)), k_mul(b, slot->piece, k_i32(b, e->run)));
    const KExpr *col = k_add(b, f->col, across);
    int rank = plan->batch_rank + 2;
    slot->run = (Run){.rank = rank, .axis = f->is_swapped ? rank - 2 : rank - 1, .width = e->run};
    for (int i = 0; i < plan->batch_rank; i++)
        slot->run.coords[i] = e->batch[i];
    slot->run.coords[rank - 2] = f->is_swapped ? col : row;
    slot->run.coords[rank - 1] = f->is_swapped ? row : col;
    slot->run.guard = matmul_fragment_has_row(b, plan, f, slot->block, slot->half);
    slot->inside = NULL;
    if (e->columns_left)
        slot->inside = k_lt(b, across, e->columns_left);
    else if (dim_divisor(dims, cols) % f->tile_cols != 0)
        slot->inside = k_lt(b, col, k_dim(b, cols, K_I32));
    if (slot->inside && f->is_whole && dim_is_const(cols)) { /* known for all groups but the last */
        const KExpr *end = k_mul(b, k_add(b, slot->group, k_i32(b, 1)), k_i32(b, f->group_cols));
        slot->inside = k_scalar(b, OP_or, k_ge(b, k_i32(b, cols->value), end), slot->inside, NULL);
    }
    slot->run.guard = slot->inside ? k_and(b, slot->run.guard, slot->inside) : slot->run.guard;
}

static void epilogue_set_columns(Epilogue *e, const EpilogueSlot *slot) {
    EpilogueSlot first = *slot;
    first.group = k_i32(e->b, 0);
    LowerColumns columns = {.group = slot->group,
                            .first = epilogue_at(e, &first),
                            .lane = e->fragment->lane_col,
                            .groups = e->fragment->groups,
                            .group_stride = e->fragment->halves * e->fragment->width,
                            .begin = e->begin,
                            .end = e->end};
    if (e->tile_slots) {
        const KExpr *group = k_mod(e->b, slot->group, k_i32(e->b, e->tile_slots / e->fragment->halves));
        lower_set_outer_slot(e->lower,
                             k_add(e->b, k_mul(e->b, group, k_i32(e->b, e->fragment->halves)), slot->half));
    }
    lower_set_columns(e->lower, &columns);
}

void epilogue_bind_rows(Epilogue *e, const KExpr *block, const KExpr *half) {
    Builder *b = e->b;
    for (size_t i = 0; i < e->rows.n; i++) {
        const MatmulRow *row = &e->rows.at[i];
        const KExpr *x = k_elem(b, row->array, epilogue_row_at(e, block, half));
        lower_bind_expr(e->lower, row->value, k_convert(b, x, ktype_of(row->value->dtype)));
    }
}

static void epilogue_bind(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    const KExpr *at = epilogue_at(e, slot);
    if (e->plan->region->column_block)
        epilogue_set_columns(e, slot);
    if (e->is_kept)
        lower_set_outer_slot(e->lower, epilogue_number(e, slot));
    if (e->held)
        lower_bind_array(e->lower, e->held, e->fragment->accumulator[0], at);
    for (int c = 0; c < e->plan->n_cores && !e->held; c++)
        lower_bind_array(e->lower, e->plan->core[c], e->fragment->accumulator[c], at);
    epilogue_bind_rows(e, slot->block, slot->half);
    for (size_t i = 0; i < e->row_inputs.n; i++) {
        const MatmulRow *row = &e->row_inputs.at[i];
        lower_bind_expr(e->lower, row->value,
                        k_elem(b, row->array, epilogue_row_at(e, slot->block, slot->half)));
    }
    matmul_columns_bind(e, slot);
}

/* The run's elements of inputs that lie in shared memory. */
static void epilogue_load_inputs(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    for (int i = 0; e->vectors && i < e->vectors->n; i++) {
        const Value *value = e->vectors->value[i];
        const KVar *elements = k_array(b, text_format(b->arena, "%s_v", value->name ? value->name : "vector"),
                                       ktype_of(value->dtype), e->run, NULL);
        const KExpr *col =
            k_add(b, e->vectors->lane_col, k_mul(b, slot->group, k_i32(b, e->fragment->group_cols)));
        col = k_add(b, col, k_mul(b, slot->piece, k_i32(b, e->run)));
        k_load(b, elements, NULL, e->vectors->buffer[i], k_add(b, e->vectors->base, col), e->run, NULL,
               CACHE_DEFAULT);
        lower_bind_array(e->lower, value, elements, NULL);
    }
    matmul_inputs_bind(e, slot);
}

void epilogue_at_run(Epilogue *e, EpilogueSlot *slot) {
    epilogue_place(e, slot);
    epilogue_bind(e, slot);
}

/* Loops over the runs of a batch; sets the slot and gives its number. */
static const KExpr *epilogue_slots_begin(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups,
                                         EpilogueSlot *slot) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int pieces = f->width / e->run;
    *slot = (EpilogueSlot){.block = block};
    slot->local = epilogue_loop(b, "g", n_groups);
    slot->group = k_add(b, group, slot->local);
    slot->half = epilogue_loop(b, "h", f->halves);
    slot->piece = epilogue_loop(b, "p", pieces);
    epilogue_place(e, slot);
    epilogue_bind(e, slot);
    const KExpr *number = k_add(b, k_mul(b, slot->local, k_i32(b, f->halves)), slot->half);
    return k_add(b, k_mul(b, number, k_i32(b, pieces)), slot->piece);
}

static void epilogue_slots_end(Epilogue *e, int n_groups) {
    epilogue_loop_end(e->b, e->fragment->width / e->run);
    epilogue_loop_end(e->b, e->fragment->halves);
    epilogue_loop_end(e->b, n_groups);
}

void epilogue_batch(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups,
                    const Value *const *values, int n, int n_stored, EpilogueBody *body, void *context) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    const KVar **computed = ARENA_ARRAY(b->arena, const KVar *, (size_t)n + 1);
    for (int i = 0; i < n; i++)
        targets[i] = (LowerTarget){.value = values[i], .stored = i < n_stored};
    EpilogueSlot slot = {.block = block, .group = group, .half = k_i32(b, 0), .piece = k_i32(b, 0)};
    epilogue_place(e, &slot);
    epilogue_bind(e, &slot);
    for (int i = 0; e->vectors && i < e->vectors->n; i++) /* so that no load of them is planned */
        lower_bind_array(e->lower, e->vectors->value[i], f->accumulator[0], NULL);
    for (int i = 0; e->inputs && i < e->inputs->n; i++)
        lower_bind_array(e->lower, e->inputs->value[i], f->accumulator[0], NULL);
    matmul_inputs_take(e, block, group, n_groups);
    lower_batch_begin(e->lower, &slot.run, targets, n, n_groups * f->halves * (f->width / e->run));
    const KExpr *number = epilogue_slots_begin(e, block, group, n_groups, &slot);
    lower_batch_load(e->lower, &slot.run, number);
    epilogue_slots_end(e, n_groups);

    number = epilogue_slots_begin(e, block, group, n_groups, &slot);
    epilogue_load_inputs(e, &slot);
    for (int i = 0; i < n; i++) {
        const char *name = values[i]->name ? values[i]->name : "out";
        computed[i] = k_array(b, name, ktype_of(values[i]->dtype), e->run, NULL);
        targets[i].dst = computed[i];
    }
    lower_batch_run(e->lower, &slot.run, number, targets, n);
    body(e, &slot, computed, context);
    epilogue_slots_end(e, n_groups);
    lower_batch_end(e->lower);
    for (int i = 0; e->vectors && i < e->vectors->n; i++)
        lower_unbind(e->lower, e->vectors->value[i]);
    for (int i = 0; e->inputs && i < e->inputs->n; i++)
        lower_unbind(e->lower, e->inputs->value[i]);
}

/* Whether pairs of columns may have one beyond the last: nothing is read there, and boxes leave it behind. */
static bool epilogue_passes_end(const MatmulPlan *plan, const MatmulFragment *fragment,
                                const MatmulStaging *staging, const MatmulVectors *vectors) {
    const Region *region = plan->region;
    bool leaves = staging && staging->n_outputs == (int)region->outputs.n && !fragment->is_swapped;
    if (!leaves || plan->statistics.n || plan->columns.n || region->column_block || region->windows.n)
        return false;
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *value = region->inputs.at[i];
        bool is_known = dim_is(value_count(plan->graph, value), 1);
        for (int k = 0; vectors && k < vectors->n; k++)
            is_known = is_known || vectors->value[k] == value;
        if (!is_known && matmul_is_read_behind(plan, value))
            return false;
    }
    return true;
}

static Epilogue epilogue_begin(Builder *b, const MatmulPlan *plan, Lower *lower,
                               const MatmulFragment *fragment, const KExpr *const *batch,
                               const MatmulStaging *staging, const MatmulVectors *vectors) {
    Epilogue e = {.vectors = vectors,
                  .b = b,
                  .plan = plan,
                  .lower = lower,
                  .fragment = fragment,
                  .batch = batch,
                  .run = fragment->width};
    const Dim *along = fragment->is_swapped ? plan->m : plan->n;
    while (dim_divisor(plan->graph->dims, along) % e.run != 0 &&
           !epilogue_passes_end(plan, fragment, staging, vectors))
        e.run /= 2;
    if (plan->region->column_block)
        e.end = plan->n->value;
    if (plan->statistics.n && dim_divisor(plan->graph->dims, along) % fragment->tile_cols != 0)
        e.columns_left = k_let_expr(b, "columns_left", k_sub(b, k_dim(b, along, K_I32), fragment->col));
    for (size_t i = 0; i < plan->operand_rows.n && fragment->operand_rows; i++)
        vec_push(b->arena, &e.rows, fragment->operand_rows[i]);
    matmul_leave_gaps(&e);
    matmul_row_inputs(&e);
    return e;
}

static void epilogue_end(Epilogue *e) {
    lower_set_columns(e->lower, NULL);
    for (int c = 0; c < e->plan->n_cores; c++)
        lower_unbind(e->lower, e->plan->core[c]);
    if (e->held)
        lower_unbind(e->lower, e->held);
    for (size_t i = 0; i < e->rows.n; i++)
        lower_unbind(e->lower, e->rows.at[i].value);
    for (size_t i = 0; i < e->row_inputs.n; i++)
        lower_unbind(e->lower, e->row_inputs.at[i].value);
}

static void epilogue_hold_run(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                              void *context) {
    (void)context;
    Builder *b = e->b;
    const KExpr *at = k_let_expr(b, "at", epilogue_at(e, slot));
    const KExpr *j = epilogue_loop(b, "j", e->run);
    const KExpr *element = k_elem(b, computed[0], j);
    if (slot->inside)
        element = k_select(b, slot->inside, element, k_float(b, K_F32, 0));
    k_set_elem(b, e->fragment->accumulator[0], k_add(b, at, j), element);
    epilogue_loop_end(b, e->run);
}

/* All of the fragment, in batches. */
static void epilogue_all(Epilogue *e, const Value *value, EpilogueBody *body, void *context) {
    Builder *b = e->b;
    const MatmulFragment *fragment = e->fragment;
    int n_groups = epilogue_batch_groups(e);
    const KExpr *block = epilogue_loop(b, "block", fragment->blocks);
    const KExpr *part = epilogue_loop(b, "part", fragment->groups / n_groups);
    epilogue_batch(e, block, k_mul(b, part, k_i32(b, n_groups)), n_groups, &value, 1, 1, body, context);
    epilogue_loop_end(b, fragment->groups / n_groups);
    epilogue_loop_end(b, fragment->blocks);
}

void matmul_epilogue_hold(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulVectors *vectors, const Value *value) {
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, NULL, vectors);
    if (plan->statistics.n)
        matmul_row_statistics(&e, NULL);
    epilogue_all(&e, value, epilogue_hold_run, NULL);
    epilogue_end(&e);
}

typedef struct EpilogueSelect {
    bool is_hidden;
    double number;
} EpilogueSelect;

static void epilogue_select_run(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                                void *context) {
    Builder *b = e->b;
    const EpilogueSelect *select = context;
    const KVar *accumulator = e->fragment->accumulator[0];
    const KExpr *at = k_let_expr(b, "at", epilogue_at(e, slot));
    const KExpr *j = epilogue_loop(b, "j", e->run), *place = k_add(b, at, j);
    const KExpr *element = k_elem(b, accumulator, place), *number = k_float(b, K_F32, select->number);
    k_set_elem(b, accumulator, place,
               k_select(b, k_elem(b, computed[0], j), select->is_hidden ? number : element,
                        select->is_hidden ? element : number));
    epilogue_loop_end(b, e->run);
}

void matmul_epilogue_select(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                            const KExpr *const *batch, const MatmulVectors *vectors, const Value *condition,
                            bool is_hidden, double number) {
    EpilogueSelect select = {is_hidden, number};
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, NULL, vectors);
    epilogue_all(&e, condition, epilogue_select_run, &select);
    epilogue_end(&e);
}

Epilogue *matmul_pack_begin(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                            const KExpr *const *batch, const MatmulVectors *vectors) {
    Epilogue *e = ARENA_NEW(b->arena, Epilogue);
    *e = epilogue_begin(b, plan, lower, fragment, batch, NULL, vectors);
    return e;
}

/* context: the words. */
static void epilogue_pack_run(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                              void *context) {
    Builder *b = e->b;
    const KVar *packed = context;
    const KExpr *group = epilogue_group(e, slot->block, slot->group);
    const KExpr *word = k_add(b, k_mul(b, group, k_i32(b, e->fragment->halves)), slot->half);
    DType type = e->plan->a.elem;
    const KExpr *first = k_elem_at(b, computed[0], 0), *zero = k_float(b, K_F32, 0);
    if (e->run == 2) {
        const KExpr *pair[] = {first, k_elem_at(b, computed[0], 1)};
        k_set_elem(b, packed, word, k_pack(b, type, pair));
        return;
    }
    const KExpr *low[] = {first, zero}, *high[] = {zero, first};
    const KExpr *own =
        k_select(b, k_eq(b, slot->piece, k_i32(b, 0)), k_pack(b, type, low), k_pack(b, type, high));
    k_set_elem(b, packed, word, k_bit_or(b, k_elem(b, packed, word), own));
}

void matmul_pack(Epilogue *e, const MatmulFragment *fragment, const Value *value, const KVar *packed) {
    Builder *b = e->b;
    e->fragment = fragment;
    if (e->run == 1) { /* words of two runs */
        const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, packed->count), 1, UNROLL_FULL);
        k_set_elem(b, packed, word, k_int(b, K_U32, 0));
        k_end(b);
    }
    epilogue_all(e, value, epilogue_pack_run, (void *)packed);
}

void matmul_pack_hold(Epilogue *e, const MatmulFragment *fragment, const Value *value) {
    e->fragment = fragment;
    epilogue_all(e, value, epilogue_hold_run, NULL);
}

void matmul_pack_end(Epilogue *e) {
    epilogue_end(e);
}

void matmul_epilogue_rows(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulRow *known, int n_known) {
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, NULL, NULL);
    for (int i = 0; i < n_known; i++)
        vec_push(b->arena, &e.rows, known[i]);
    const Region *region = plan->region;
    epilogue_store_rows(&e, (const Value *const *)region->outputs.at, (int)region->outputs.n, NULL, 0);
    epilogue_end(&e);
}

void matmul_epilogue(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                     const KExpr *const *batch, const MatmulStaging *staging, const MatmulVectors *vectors,
                     MatmulInputs *inputs) {
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, staging, vectors);
    EpilogueStore store = {0}, early = {0};
    VEC(const Value *) rows = {0}, bundles = {0};
    for (size_t i = 0; i < plan->region->outputs.n; i++) {
        const Value *output = plan->region->outputs.at[i];
        const RegionWindow *window = region_window(plan->region, output);
        if (block_stored(output))
            continue;
        if (window && window->is_bundle)
            vec_push(b->arena, &bundles, output);
        else if (plan->statistics.n && value_is_of_rows(lower_root(plan->region, output), plan->core[0]))
            vec_push(b->arena, &rows, output);
        else if (matmul_is_early(plan, output))
            vec_push(b->arena, &early.outputs, output);
        else
            vec_push(b->arena, &store.outputs, output);
    }
    MatmulStaging early_staging, late_staging;
    if (staging) {
        early_staging = epilogue_part_of(staging, &early);
        late_staging = epilogue_part_of(staging, &store);
        early.staging = &early_staging;
        store.staging = &late_staging;
    }
    bool is_early = early.outputs.n > 0;
    for (size_t i = 0; i < plan->columns.n; i++)
        is_early = is_early && matmul_is_early(plan, plan->columns.at[i]);
    early.takes_columns = plan->columns.n && is_early;
    store.takes_columns = plan->columns.n && !is_early;
    e.early = &early;
    if (!inputs || !inputs->n)
        matmul_keep_begin(&e);
    if (plan->statistics.n)
        matmul_row_statistics(&e, inputs && inputs->is_held ? inputs : NULL);
    e.inputs = inputs && !inputs->is_held ? inputs : NULL;
    epilogue_store(&e, &store);
    matmul_keep_end(&e);
    matmul_store_row_blocks(&e);
    if (rows.n + bundles.n)
        epilogue_store_rows(&e, rows.at, (int)rows.n, bundles.at, (int)bundles.n);
    epilogue_end(&e);
}
