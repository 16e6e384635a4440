/* From accumulators to outputs: the epilogue's graph, computed on each thread's fragment at coordinates, and
 * stored.
 *
 * Column groups go in batches: the loads of a batch are all in flight before its first value is needed. An
 * output that TMA can write is packed, laid down (by stmatrix, if of 16 bits) in a swizzled box of 16 rows of
 * each warp, and sent off while the next box is computed:
 *
 *     registers --pack--> stmatrix --> [box 0] --TMA--> memory          each warp alone: no barrier between
 * warps [box 1]  (two boxes for each output)
 *
 * One that TMA cannot write, but whose rows lie side by side, goes through the same boxes, and leaves them by
 * rows (matmul_boxes.c). Others are stored from registers, guarded at the edges. */
#include "codegen/templates/matmul_epilogue.h"

#include "codegen/reduce.h"
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

/* Whether a value has one element for each column of the product. */
static bool vectors_is_column(const void *matmul_plan, const Value *value) {
    const MatmulPlan *plan = matmul_plan;
    if (value->rank < 1 || value->dims[value->rank - 1] != plan->n || dim_is(plan->n, 1))
        return false;
    for (int i = 0; i < value->rank - 1; i++)
        if (!dim_is(value->dims[i], 1))
            return false;
    return true;
}

static bool vectors_fits(const MatmulPlan *plan, const Value *value) {
    const Dim *strides[RANK_MAX];
    int bits = dtype_bits(value->dtype);
    if (!vectors_is_column(plan, value) || bits < 8 || bits > 32 ||
        !matmul_is_read_in_place(plan, value, vectors_is_column, plan))
        return false;
    view_base_strides(plan->graph, value, strides);
    return dim_is(strides[value->rank - 1], 1) && dim_divisor(plan->graph->dims, plan->n) % (32 / bits) == 0;
}

void matmul_find_vectors(const MatmulPlan *plan, int tile_cols, int copies, int64_t bytes,
                         MatmulVectors *vectors) {
    *vectors = (MatmulVectors){0};
    bool is_cut = plan->region->column_block > 0; /* then they may be wanted at other columns */
    for (size_t i = 0; i < plan->region->windows.n; i++)
        is_cut = is_cut || !plan->region->windows.at[i].is_bundle;
    if (is_cut)
        return;
    for (size_t i = 0; i < plan->region->inputs.n && vectors->n < VECTORS_MAX; i++) {
        const Value *value = plan->region->inputs.at[i];
        if (!vectors_fits(plan, value) || tile_cols * dtype_bits(value->dtype) % 128 != 0 ||
            !matmul_is_read_behind(plan, value))
            continue;
        int64_t size = (int64_t)tile_cols * dtype_bits(value->dtype) / 8 * copies;
        if (size > bytes)
            continue;
        bytes -= size;
        vectors->value[vectors->n++] = value;
    }
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

const KExpr *epilogue_loop(Builder *b, const char *name, int count) {
    return count == 1 ? k_i32(b, 0) : k_for_begin(b, name, k_i32(b, 0), k_i32(b, count), 1, UNROLL_FULL);
}

void epilogue_loop_end(Builder *b, int count) {
    if (count > 1)
        k_end(b);
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
    const Dim *rows = f->is_swapped ? plan->n : plan->m, *cols = f->is_swapped ? plan->m : plan->n;
    const KExpr *row = k_add(b, f->row, k_mul(b, slot->block, k_i32(b, f->block_rows)));
    row = k_add(b, row, k_mul(b, slot->half, k_i32(b, f->half_rows)));
    const KExpr *across =
        k_add(b, k_mul(b, slot->group, k_i32(b, f->group_cols)), k_mul(b, slot->piece, k_i32(b, e->run)));
    const KExpr *col = k_add(b, f->col, across);
    int rank = plan->batch_rank + 2;
    slot->run = (Run){.rank = rank, .axis = f->is_swapped ? rank - 2 : rank - 1, .width = e->run};
    for (int i = 0; i < plan->batch_rank; i++)
        slot->run.coords[i] = e->batch[i];
    slot->run.coords[rank - 2] = f->is_swapped ? col : row;
    slot->run.coords[rank - 1] = f->is_swapped ? row : col;
    if (dim_divisor(dims, rows) % f->tile_rows != 0)
        slot->run.guard = k_lt(b, row, k_dim(b, rows, K_I32));
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

/* ---- outputs */

typedef struct EpilogueStore {
    const MatmulStaging *staging; /* NULL: all from registers */
    VEC(const Value *) outputs;   /* one element a point of the space */
    VEC(const Value *) values;    /* outputs, and what column statistics reduce where `columns` */
    bool takes_columns;
    MatmulColumns columns;
    const KVar *packed[STAGING_OUTPUTS]; /* of 16 bits: two elements a word, for stmatrix */
    const KVar *single[STAGING_OUTPUTS]; /* where runs have one element: the batch's, until all are there */
    const KExpr *const *boxes;           /* the stages that the present boxes take */
    const KExpr *box_col;                /* the present batch's first column within a box */
} EpilogueStore;

static bool epilogue_is_packed(const Value *output) {
    return dtype_bits(output->dtype) == 16;
}

/* The fragment's pair of elements among those of the batch. */
static const KExpr *epilogue_word(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    return k_add(b, k_mul(b, slot->local, k_i32(b, e->fragment->halves)), slot->half);
}

/* Where an element of the run lies in the box of an output of 8 or 32 bits, which stmatrix has no form for:
 * stores of two elements a lane meet no bank twice under the swizzle, nor do those of one of a transposed
 * product. */
static const KExpr *epilogue_in_box(Epilogue *e, const EpilogueStore *store, const EpilogueSlot *slot,
                                    int staged, int element) {
    Builder *b = e->b;
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *row = k_mul(b, slot->half, k_i32(b, e->fragment->half_rows));
    const KExpr *col = k_mul(b, slot->local, k_i32(b, e->fragment->group_cols));
    row = k_add(b, row, k_div(b, lane, k_i32(b, 4)));
    col = k_add(b, k_add(b, store->box_col, col), k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2)));
    col = k_add(b, col, k_i32(b, element));
    const MatmulStaging *staging = store->staging;
    if (!staging->is_swapped)
        return tile_index(b, &staging->tile[staged], store->boxes[staged], row, col);
    const KExpr *warps = k_i32(b, STAGING_ROWS); /* the box has those of all warps of the warpgroup */
    row = k_add(b, row, k_mul(b, k_div(b, staging->lane_col, warps), warps));
    return tile_index(b, &staging->tile[staged], store->boxes[staged], col, row);
}

static int epilogue_staged(const EpilogueStore *store, const Value *output) {
    for (int i = 0; store->staging && i < store->staging->n_outputs; i++)
        if (store->staging->output[i] == output)
            return i;
    return -1;
}

/* The two elements src[at], src[at + 1] of an output, the fragment's side by side, on their way to its box.
 */
static void epilogue_stage_pair(Epilogue *e, const EpilogueStore *store, const EpilogueSlot *slot, int staged,
                                const KVar *src, const KExpr *at) {
    Builder *b = e->b;
    const Value *output = store->staging->output[staged];
    if (!epilogue_is_packed(output)) {
        const KBuffer *box = store->staging->tile[staged].buffer;
        int width = store->staging->is_swapped ? 1 : e->fragment->width; /* neighbours in memory */
        for (int i = 0; i < e->fragment->width; i += width)
            k_store(b, box, epilogue_in_box(e, store, slot, staged, i), src, k_add(b, at, k_i32(b, i)), width,
                    NULL, CACHE_DEFAULT);
        return;
    }
    const KExpr *pair[] = {k_elem(b, src, at), k_elem(b, src, k_add(b, at, k_i32(b, 1)))};
    k_set_elem(b, store->packed[staged], epilogue_word(e, slot), k_pack(b, output->dtype, pair));
}

static void epilogue_store_run(Epilogue *e, const EpilogueSlot *slot, const KVar *const *computed,
                               void *context) {
    Builder *b = e->b;
    const EpilogueStore *store = context;
    for (size_t i = 0; i < store->outputs.n; i++) {
        const Value *output = store->outputs.at[i];
        int staged = epilogue_staged(store, output);
        if (staged < 0) {
            lower_store(e->lower, &slot->run, output, computed[i], NULL);
            continue;
        }
        if (e->run == e->fragment->width) {
            epilogue_stage_pair(e, store, slot, staged, computed[i], k_i32(b, 0));
            continue;
        }
        const KExpr *at = k_mul(b, epilogue_word(e, slot), k_i32(b, e->fragment->width));
        k_set_elem(b, store->single[staged], k_add(b, at, slot->piece), k_elem_at(b, computed[i], 0));
    }
    if (store->takes_columns)
        matmul_columns_fold(e, slot, computed + store->outputs.n, &store->columns);
}

static void epilogue_columns_begin(Epilogue *e, EpilogueStore *store, const KExpr *group, int n_groups) {
    if (store->takes_columns)
        matmul_columns_begin(e, group, n_groups, &store->columns);
}

static void epilogue_columns_end(Epilogue *e, EpilogueStore *store, const KExpr *block, const KExpr *group,
                                 int n_groups) {
    if (store->takes_columns)
        matmul_columns_end(e, block, group, n_groups, &store->columns);
}

/* The batch's elements that were computed one by one, in pairs on their way to the boxes. */
static void epilogue_pair_up(Epilogue *e, EpilogueStore *store, int n_groups) {
    Builder *b = e->b;
    EpilogueSlot slot = {.local = epilogue_loop(b, "g", n_groups)};
    slot.half = epilogue_loop(b, "h", e->fragment->halves);
    const KExpr *at = k_mul(b, epilogue_word(e, &slot), k_i32(b, e->fragment->width));
    for (int o = 0; o < store->staging->n_outputs; o++)
        epilogue_stage_pair(e, store, &slot, o, store->single[o], at);
    epilogue_loop_end(b, e->fragment->halves);
    epilogue_loop_end(b, n_groups);
}

/* One batch of column groups, from `group` on; its staged outputs into their boxes from column `box_col` on.
 */
static void epilogue_store_batch(Epilogue *e, EpilogueStore *store, const KExpr *block, const KExpr *group,
                                 int n_groups, const KExpr *const *boxes, const KExpr *box_col) {
    Builder *b = e->b;
    const MatmulStaging *staging = store->staging;
    bool is_single = staging && staging->n_outputs && e->run < e->fragment->width;
    store->boxes = boxes;
    store->box_col = box_col;
    for (int o = 0; staging && o < staging->n_outputs; o++) {
        const char *name = staging->output[o]->name ? staging->output[o]->name : "out";
        if (epilogue_is_packed(staging->output[o]))
            store->packed[o] =
                k_array(b, text_format(b->arena, "%s_packed", name), K_U32, 2 * n_groups, NULL);
        if (is_single)
            store->single[o] = k_array(b, text_format(b->arena, "%s_single", name),
                                       ktype_of(staging->output[o]->dtype), 4 * n_groups, NULL);
    }
    epilogue_batch(e, block, group, n_groups, store->values.at, (int)store->values.n, (int)store->outputs.n,
                   epilogue_store_run, store);
    if (is_single)
        epilogue_pair_up(e, store, n_groups);
    for (int o = 0; staging && o < staging->n_outputs; o++)
        for (int pair = 0; pair < n_groups / 2 && epilogue_is_packed(staging->output[o]); pair++) {
            /* four 8x8 matrices, of two groups of columns */
            const KExpr *first = k_add(b, box_col, k_i32(b, 16 * pair));
            const KExpr *row = staging->lane_row, *col = staging->lane_col;
            if (staging->is_swapped)
                row = k_add(b, first, row);
            else
                col = k_add(b, first, col);
            KOperand operands[] = {k_operand(tile_address(b, &staging->tile[o], boxes[o], row, col)),
                                   k_regs(store->packed[o], 4 * pair, 4)};
            k_atom(b, staging->is_swapped ? ATOM_stmatrix_x4_trans : ATOM_stmatrix_x4, NULL, operands, 2);
        }
}

/* Computes one box of each staged output and sends it off; `first`: the outputs' first column. */
static void epilogue_store_box(Epilogue *e, EpilogueStore *store, const KExpr *block, const KExpr *box,
                               const KExpr *const *boxes, int64_t first) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_groups = epilogue_batch_groups(e), box_groups = store->staging->cols / f->group_cols;
    n_groups = n_groups > box_groups ? box_groups : n_groups < 2 ? 2 : n_groups; /* stmatrix takes two */
    const KExpr *box_group = k_mul(b, box, k_i32(b, box_groups));
    epilogue_columns_begin(e, store, box_group, box_groups);
    const KExpr *part = epilogue_loop(b, "part", box_groups / n_groups);
    const KExpr *group = k_add(b, box_group, k_mul(b, part, k_i32(b, n_groups)));
    epilogue_store_batch(e, store, block, group, n_groups, boxes,
                         k_mul(b, part, k_i32(b, n_groups * f->group_cols)));
    epilogue_loop_end(b, box_groups / n_groups);
    epilogue_columns_end(e, store, block, box_group, box_groups);
    matmul_boxes_send(e, store->staging, block, box, boxes, first);
}

/* The same where a box is one output's alone, whichever has its columns. */
static void epilogue_store_parts(Epilogue *e, EpilogueStore *store, const KExpr *block, const KExpr *box,
                                 const KExpr *const *boxes) {
    Builder *b = e->b;
    const MatmulStaging *staging = store->staging;
    int n = staging->n_parts;
    for (int i = 0; i < n; i++) {
        const MatmulPart *part = &staging->parts[i];
        MatmulStaging own = *staging;
        EpilogueStore one = {.staging = &own};
        own.output[0] = part->output;
        own.map[0] = part->map;
        own.stored[0] = part->stored;
        vec_push(b->arena, &one.outputs, part->output);
        vec_push(b->arena, &one.values, part->output);
        if (i + 1 < n)
            k_if_begin(b, k_lt(b, matmul_box_col(b, staging, box), k_i32(b, part->first + part->width)));
        e->begin = part->first;
        e->end = part->first + part->width;
        epilogue_store_box(e, &one, block, box, boxes, part->first);
        if (i + 1 < n)
            k_else(b);
    }
    for (int i = 0; i + 1 < n; i++)
        k_end(b);
}

/* Starts a batch of what every so many boxes read alike (tables of a rotation), with its loads; how many
 * boxes there are until it is read again, 0 where nothing is. Its registers serve all of them: chunk c is
 * boxes c, c + chunks, c + 2 chunks, ... */
static int epilogue_tile_chunks(Epilogue *e, const EpilogueStore *store, int n_boxes, LowerTarget *targets) {
    /* for these alone, and beside accumulators: what is left is room to compute */
    enum { REGISTERS_MAX = 64, REGISTERS_ALL = 192 };
    Builder *b = e->b;
    int box_groups = e->fragment->groups / n_boxes, period;
    EpilogueSlot slot = {
        .block = k_i32(b, 0), .half = k_i32(b, 0), .group = k_i32(b, 0), .piece = k_i32(b, 0)};
    if (!e->plan->region->column_block || e->run != 2)
        return 0;
    for (size_t i = 0; i < store->outputs.n; i++)
        targets[i] = (LowerTarget){.value = store->outputs.at[i], .stored = true};
    epilogue_place(e, &slot);
    epilogue_bind(e, &slot);
    int slots = box_groups * e->fragment->halves;
    int registers = lower_tile_registers(e->lower, &slot.run, targets, (int)store->outputs.n, slots, &period);
    if (!period || registers > REGISTERS_MAX ||
        registers + e->fragment->accumulator[0]->count > REGISTERS_ALL)
        return 0;
    if (box_groups % period == 0)
        return 1;
    bool is_shared = period % box_groups == 0 && n_boxes % (period / box_groups) == 0;
    return is_shared ? period / box_groups : n_boxes;
}

static void epilogue_tile_begin(Epilogue *e, const EpilogueStore *store, const KExpr *block,
                                const KExpr *chunk, int box_groups, const LowerTarget *targets) {
    Builder *b = e->b;
    EpilogueSlot slot = {.block = block, .half = k_i32(b, 0), .piece = k_i32(b, 0)};
    const KExpr *first = k_mul(b, chunk, k_i32(b, box_groups));
    slot.group = first;
    e->tile_slots = box_groups * e->fragment->halves;
    epilogue_place(e, &slot);
    epilogue_bind(e, &slot);
    lower_tile_begin(e->lower, &slot.run, targets, (int)store->outputs.n, e->tile_slots);
    const KExpr *g = epilogue_loop(b, "g", box_groups);
    slot.group = k_add(b, first, g);
    slot.half = epilogue_loop(b, "h", e->fragment->halves);
    epilogue_place(e, &slot);
    epilogue_bind(e, &slot);
    lower_batch_load(e->lower, &slot.run, k_add(b, k_mul(b, g, k_i32(b, e->fragment->halves)), slot.half));
    epilogue_loop_end(b, e->fragment->halves);
    epilogue_loop_end(b, box_groups);
}

/* The fragment, its column anew behind statistics: as a shuffle of the lane's own value, which no compiler
 * sees through. What the column alone says where to read (tables of a rotation) they would otherwise read
 * ahead of the statistics, for all blocks and matrices of a tile at once, and spill. */
static MatmulFragment epilogue_behind_statistics(Epilogue *e) {
    Builder *b = e->b;
    MatmulFragment f = *e->fragment;
    if (!e->plan->statistics.n || !e->plan->region->column_block || !f.lane_col)
        return f;
    const KExpr *own = k_shuffle_index(b, "same_col", f.lane_col, k_special(b, SPECIAL_LANE));
    f.col = k_add(b, k_sub(b, f.col, f.lane_col), own);
    f.lane_col = own;
    return f;
}

static void epilogue_store_staged(Epilogue *e, EpilogueStore *store) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const MatmulStaging *staging = store->staging;
    int box_groups = staging->cols / f->group_cols, n_boxes = f->groups / box_groups;
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, store->outputs.n + 1);
    int chunks = epilogue_tile_chunks(e, store, n_boxes, targets);
    int n_chunks = chunks ? chunks : 1;
    bool meets_last = f->blocks * n_boxes % staging->in_turn != 0;
    if (meets_last) /* the tile before ended on the side that this one begins with */
        matmul_boxes_wait(b, staging, 0);
    const KExpr *part = matmul_inputs_chunk_begin(e);
    int in_part = n_boxes / (e->inputs ? e->inputs->chunks : 1), n_images = in_part / n_chunks;
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    MatmulFragment behind = epilogue_behind_statistics(e);
    e->fragment = &behind;
    const KExpr *chunk = epilogue_loop(b, "chunk", n_chunks);
    if (chunks)
        epilogue_tile_begin(e, store, block, chunk, box_groups, targets);
    const KExpr *image = epilogue_loop(b, "box", n_images);
    matmul_boxes_wait(b, staging, staging->in_turn - 1); /* what the box had before has been read */
    const KExpr *number = k_add(b, k_mul(b, chunk, k_i32(b, n_images)), image);
    const KExpr *round =
        k_add(b, k_mul(b, k_add(b, k_mul(b, part, k_i32(b, f->blocks)), block), k_i32(b, in_part)), number);
    const KExpr *box =
        k_add(b, k_mul(b, part, k_i32(b, in_part)), k_add(b, k_mul(b, image, k_i32(b, n_chunks)), chunk));
    const KExpr *boxes[STAGING_OUTPUTS];
    for (int o = 0; o < staging->n_outputs; o++)
        boxes[o] = k_add(b, k_mul(b, staging->owner, k_i32(b, staging->in_turn)),
                         k_mod(b, round, k_i32(b, staging->in_turn)));
    if (staging->n_parts)
        epilogue_store_parts(e, store, block, box, boxes);
    else
        epilogue_store_box(e, store, block, box, boxes, 0);
    epilogue_loop_end(b, n_images);
    if (chunks)
        lower_batch_end(e->lower);
    epilogue_loop_end(b, n_chunks);
    epilogue_loop_end(b, f->blocks);
    matmul_inputs_chunk_end(e);
    e->fragment = f;
    e->tile_slots = 0;
}

static void epilogue_store_direct(Epilogue *e, EpilogueStore *store) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int n_groups = epilogue_batch_groups(e);
    const KExpr *chunk = matmul_inputs_chunk_begin(e);
    int parts = f->groups / n_groups / (e->inputs ? e->inputs->chunks : 1);
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    const KExpr *part = epilogue_loop(b, "part", parts);
    const KExpr *number = k_add(b, k_mul(b, chunk, k_i32(b, parts)), part);
    const KExpr *group = k_mul(b, number, k_i32(b, n_groups));
    epilogue_columns_begin(e, store, group, n_groups);
    epilogue_store_batch(e, store, block, group, n_groups, NULL, NULL);
    epilogue_columns_end(e, store, block, group, n_groups);
    epilogue_loop_end(b, parts);
    epilogue_loop_end(b, f->blocks);
    matmul_inputs_chunk_end(e);
}

/* Outputs of one element a row, by one lane of those that share the row. */
static void epilogue_store_rows(Epilogue *e, const Value *const *outputs, int n, const Value *const *bundles,
                                int n_bundles) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *lane = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, f->row_lanes));
    int run = e->run;
    e->run = 1;
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    EpilogueSlot slot = {.block = block, .group = k_i32(b, 0), .piece = k_i32(b, 0)};
    slot.half = epilogue_loop(b, "h", f->halves);
    epilogue_place(e, &slot);
    epilogue_bind(e, &slot);
    slot.run.coords[slot.run.axis] = k_i32(b, 0);
    slot.run.guard = k_and(b, slot.run.guard, k_eq(b, lane, k_i32(b, 0)));
    if (f->gang) /* all of its blocks have the value */
        slot.run.guard = k_and(b, slot.run.guard, k_eq(b, f->gang->own, k_i32(b, 0)));
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        const char *name = outputs[i]->name ? outputs[i]->name : "out";
        targets[i] = (LowerTarget){.value = outputs[i],
                                   .dst = k_variable(b, name, ktype_of(outputs[i]->dtype), NULL),
                                   .stored = true};
    }
    lower_run(e->lower, &slot.run, targets, n);
    for (int i = 0; i < n; i++)
        lower_store(e->lower, &slot.run, outputs[i], targets[i].dst, NULL);
    for (int i = 0; i < n_bundles; i++)
        lower_store_bundle(e->lower, &slot.run, bundles[i]);
    epilogue_loop_end(b, f->halves);
    epilogue_loop_end(b, f->blocks);
    e->run = run;
}

static void epilogue_store(Epilogue *e, EpilogueStore *store) {
    const MatmulPlan *plan = e->plan;
    for (size_t i = 0; i < store->outputs.n; i++)
        vec_push(e->b->arena, &store->values, store->outputs.at[i]);
    for (size_t i = 0; i < plan->n_columns_first && store->takes_columns; i++)
        vec_push(e->b->arena, &store->values, matmul_reduced(plan->columns.at[i]));
    if (store->outputs.n && store->staging && store->staging->n_outputs)
        epilogue_store_staged(e, store);
    else if (store->values.n)
        epilogue_store_direct(e, store);
}

/* The part of the staging that serves these outputs. */
static MatmulStaging epilogue_part_of(const MatmulStaging *staging, const EpilogueStore *store) {
    MatmulStaging part = *staging;
    if (staging->n_parts) /* all of them share one ring */
        return part;
    part.n_outputs = part.n_tma = 0;
    for (int i = 0; i < staging->n_outputs; i++)
        for (size_t k = 0; k < store->outputs.n; k++)
            if (store->outputs.at[k] == staging->output[i]) {
                part.output[part.n_outputs] = staging->output[i];
                part.tile[part.n_outputs] = staging->tile[i];
                part.map[part.n_outputs] = staging->map[i];
                part.stored[part.n_outputs] = staging->stored[i];
                part.row_width[part.n_outputs++] = staging->row_width[i];
                part.n_tma += i < staging->n_tma;
            }
    return part;
}

bool matmul_is_early(const MatmulPlan *plan, const Value *output) {
    if (!plan->statistics.n || plan->region->column_block)
        return false;
    ValueMap marks = {.arena = plan->graph->arena};
    matmul_mark_dependents(plan, plan->statistics.at, (int)plan->statistics.n, NULL, 0, &marks);
    return !value_map_get(&marks, output);
}

void matmul_store_early(Epilogue *e) {
    if (e->early)
        epilogue_store(e, e->early);
    e->early = NULL;
}

static Epilogue epilogue_begin(Builder *b, const MatmulPlan *plan, Lower *lower,
                               const MatmulFragment *fragment, const KExpr *const *batch,
                               const MatmulVectors *vectors) {
    Epilogue e = {.vectors = vectors,
                  .b = b,
                  .plan = plan,
                  .lower = lower,
                  .fragment = fragment,
                  .batch = batch,
                  .run = fragment->width};
    const Dim *along = fragment->is_swapped ? plan->m : plan->n;
    while (dim_divisor(plan->graph->dims, along) % e.run != 0)
        e.run /= 2;
    if (plan->region->column_block)
        e.end = plan->n->value;
    if (plan->statistics.n && dim_divisor(plan->graph->dims, along) % fragment->tile_cols != 0)
        e.columns_left = k_let_expr(b, "columns_left", k_sub(b, k_dim(b, along, K_I32), fragment->col));
    for (size_t i = 0; i < plan->operand_rows.n && fragment->operand_rows; i++)
        vec_push(b->arena, &e.rows, fragment->operand_rows[i]);
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

void matmul_epilogue_hold(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulVectors *vectors, const Value *value) {
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, vectors);
    if (plan->statistics.n)
        matmul_row_statistics(&e, NULL);
    int n_groups = epilogue_batch_groups(&e);
    const KExpr *block = epilogue_loop(b, "block", fragment->blocks);
    const KExpr *part = epilogue_loop(b, "part", fragment->groups / n_groups);
    epilogue_batch(&e, block, k_mul(b, part, k_i32(b, n_groups)), n_groups, &value, 1, 1, epilogue_hold_run,
                   NULL);
    epilogue_loop_end(b, fragment->groups / n_groups);
    epilogue_loop_end(b, fragment->blocks);
    epilogue_end(&e);
}

void matmul_epilogue_rows(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                          const KExpr *const *batch, const MatmulRow *known, int n_known) {
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, NULL);
    for (int i = 0; i < n_known; i++)
        vec_push(b->arena, &e.rows, known[i]);
    const Region *region = plan->region;
    epilogue_store_rows(&e, (const Value *const *)region->outputs.at, (int)region->outputs.n, NULL, 0);
    epilogue_end(&e);
}

void matmul_epilogue(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulFragment *fragment,
                     const KExpr *const *batch, const MatmulStaging *staging, const MatmulVectors *vectors,
                     MatmulInputs *inputs) {
    Epilogue e = epilogue_begin(b, plan, lower, fragment, batch, vectors);
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
