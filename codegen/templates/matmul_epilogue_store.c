/* Outputs of the epilogue, out of the registers in which each thread has computed a run of them.
 *
 * An output that TMA can write is packed, laid down (by stmatrix, if of 16 bits) in a swizzled box of 16 rows
 * of each warp, and sent off while the next box is computed:
 *
 *     registers --pack--> stmatrix --> [box 0] --TMA--> memory      each warp alone: no barrier between warps
 *                                      [box 1]                      two boxes for each output
 *
 * One that TMA cannot write, but whose rows lie side by side, goes through the same boxes, and leaves them by
 * rows (matmul_boxes.c). Others are stored from registers, guarded at the edges. */
#include "codegen/templates/matmul_epilogue.h"

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
    const KExpr *row = k_mul(b, slot->half, k_i32(b, STAGING_ROWS / 2));
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
    epilogue_at_run(e, &slot);
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
    epilogue_at_run(e, &slot);
    lower_tile_begin(e->lower, &slot.run, targets, (int)store->outputs.n, e->tile_slots);
    const KExpr *g = epilogue_loop(b, "g", box_groups);
    slot.group = k_add(b, first, g);
    slot.half = epilogue_loop(b, "h", e->fragment->halves);
    epilogue_at_run(e, &slot);
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
    matmul_boxes_follow(e, staging, n_chunks == 1 && (!e->inputs || f->blocks == 1) ? n_boxes : 1);
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

void epilogue_store_rows(Epilogue *e, const Value *const *outputs, int n, const Value *const *bundles,
                         int n_bundles) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *lane = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, f->row_lanes));
    int run = e->run;
    e->run = 1;
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    EpilogueSlot slot = {.block = block, .group = k_i32(b, 0), .piece = k_i32(b, 0)};
    slot.half = epilogue_loop(b, "h", f->halves);
    epilogue_at_run(e, &slot);
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

void epilogue_store(Epilogue *e, EpilogueStore *store) {
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

MatmulStaging epilogue_part_of(const MatmulStaging *staging, const EpilogueStore *store) {
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
    return plan->statistics.n && !plan->region->column_block && !value_map_get(&plan->of_statistics, output);
}

void matmul_store_early(Epilogue *e) {
    if (e->early)
        epilogue_store(e, e->early);
    e->early = NULL;
}
