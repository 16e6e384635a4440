/* Inputs of the epilogue with one element for each of the product's: a residual, a gate, what an activation's
 * gradient is taken at.
 *
 * Loaded by the threads that need them, each warp would fetch 16 bytes of each of 8 rows at a time and wait
 * for it. Instead the producer brings them through the ring of stages, behind the last step of K, in chunks
 * of columns that fit one stage:
 *
 *     ring:  ... | a, b of step k-1 | r, columns 0-127 | r, columns 128-255 | a, b of the next tile | ...
 *
 * The copies are under way while the last products run; consumers take a chunk with ldmatrix, whose fragments
 * are the accumulators' own, and free the stage for the next tile. No shared memory is spent on it. */
#include "codegen/lower.h"
#include "codegen/templates/matmul_epilogue.h"
#include "codegen/templates/matmul_operand.h"

enum {
    BOX_COLS = 64 /* of 16-bit elements: the widest swizzle's span */,
    BOX_COLS_LEAST = 16,
    INPUT_BYTES = 2
};

/* Columns of a box: of patches, whose tiles have all features, the widest that divides them. */
static int inputs_box_cols(const Schedule *schedule) {
    int cols = BOX_COLS;
    while (schedule->patches && cols > BOX_COLS_LEAST && schedule->tile_n % cols != 0)
        cols /= 2;
    return cols;
}

/* Whether a Value is a statistic's operand in blocks, or padded to be. */
static bool inputs_is_cut(const MatmulPlan *plan, const Value *value) {
    bool found = false;
    for (size_t i = 0; i < plan->statistics.n && plan->block_cols; i++) {
        const Value *blocks = plan->statistics.at[i]->in[0];
        found |= blocks == value || (value->op == OP_pad && blocks->in[0] == value);
    }
    for (size_t i = 0; i < plan->columns.n; i++) {
        const Value *blocks = plan->columns.at[i]->in[0];
        found |= blocks == value || (value->op == OP_pad && blocks->in[0] == value);
    }
    return found;
}

/* Whether a Value is but the order in which an output is stored. */
static bool inputs_is_order(const MatmulPlan *plan, const Value *value) {
    for (size_t i = 0; i < plan->region->outputs.n; i++) {
        const Value *at = plan->region->outputs.at[i], *root = lower_root(plan->region, at);
        for (; at != root && at != value && at->n_in > 0; at = at->in[0]) {
        }
        if (at == value && at != root)
            return true;
    }
    return false;
}

/* Whether everything between the input and `cut` (or the outputs and statistics, where that is NULL) is
 * computed element by element, so that each element of the input is wanted where its own column is at hand,
 * and nothing behind `cut` wants it. */
static bool inputs_is_elementwise(const MatmulPlan *plan, const Value *input, const Value *cut,
                                  ValueMap *marks) {
    const Region *region = plan->region;
    bool is_read = false;
    value_map_clear(marks);
    value_map_set(marks, input, true);
    for (size_t i = 0; i < region->values.n; i++) { /* topological */
        const Value *value = region->values.at[i];
        bool reads = false, is_core = false;
        for (int k = 0; k < plan->n_cores; k++)
            is_core |= value == plan->core[k];
        for (int k = 0; k < value->n_in && !is_core; k++)
            reads |= value_map_get(marks, value->in[k]);
        if (!reads || inputs_is_order(plan, value))
            continue;
        if (inputs_is_cut(plan, value)) { /* in blocks, as the statistic behind it takes them */
            value_map_set(marks, value, true);
            continue;
        }
        if (op_info(value->op)->class_ == OPCLASS_REDUCTION) {
            for (size_t s = 0; s < plan->statistics.n; s++)
                reads &= plan->statistics.at[s] != value;
            for (size_t s = 0; s < plan->columns.n; s++)
                reads &= plan->columns.at[s] != value;
            if (reads || cut)
                return false;
            continue;
        }
        if (!(op_is_scalar(value->op) || value->op == OP_cast) || !value_same_dims(value, plan->core[0]))
            return false;
        is_read = true;
        if (value != cut)
            value_map_set(marks, value, true);
    }
    for (size_t i = 0; i < region->outputs.n && cut; i++)
        if (value_map_get(marks, region->outputs.at[i]))
            return false;
    return is_read;
}

/* An input in the product's dims: itself, or a reshape that alone reads it. */
static const Value *inputs_whole(const MatmulPlan *plan, const Value *input) {
    const Value *reshape = NULL;
    int readers = 0;
    if (value_same_dims(input, plan->core[0]) || input->strides)
        return input;
    for (size_t i = 0; i < plan->region->values.n; i++) {
        const Value *value = plan->region->values.at[i];
        for (int k = 0; k < value->n_in; k++)
            if (value->in[k] == input) {
                readers++;
                reshape = value->op == OP_reshape ? value : reshape;
            }
    }
    return readers == 1 && reshape ? reshape : input;
}

/* Bytes of the larger operand's stage, over which chunks are laid, and which operand that is. */
static int64_t inputs_stage_bytes(const MatmulPlan *plan, const Schedule *schedule, bool *is_rows) {
    *is_rows = schedule->tile_m > schedule->tile_n || schedule->patches;
    if (schedule->patches)
        return matmul_patch_pitch(plan, schedule) * dtype_bits(plan->a.elem) / 8;
    int longer = *is_rows ? schedule->tile_m : schedule->tile_n;
    return (int64_t)longer * schedule->tile_k * dtype_bits(plan->a.elem) / 8;
}

/* Boxes of an input that a stage holds. */
static int64_t inputs_stage_boxes(const MatmulPlan *plan, const Schedule *schedule) {
    bool is_rows;
    int64_t box = (int64_t)schedule->tile_m * inputs_box_cols(schedule) * INPUT_BYTES;
    return inputs_stage_bytes(plan, schedule, &is_rows) / box;
}

/* Warpgroups that take tiles in turn do not share a ring with inputs: the one would wait for a stage by its
 * parity before the other has seen the inputs that came to it before, and might take the fill before last for
 * its own. */
bool matmul_inputs_have_way(const MatmulPlan *plan, const Schedule *schedule) {
    return !schedule->swap_ab && schedule->tile_n % inputs_box_cols(schedule) == 0 &&
           schedule->cluster_m <= 1 && schedule->cluster_n <= 1 && schedule->split_k <= 1 &&
           !schedule->ping_pong && !plan->region->column_block && matmul_members(plan, schedule).n <= 1 &&
           inputs_stage_boxes(plan, schedule) >= 1;
}

static const char *inputs_name(const MatmulInputs *inputs, int i) {
    return inputs->memory[i]->name ? inputs->memory[i]->name : "input";
}

void matmul_find_inputs(Builder *b, const MatmulPlan *plan, const Schedule *schedule, MatmulInputs *inputs) {
    *inputs = (MatmulInputs){0};
    if (!matmul_inputs_have_way(plan, schedule))
        return;
    int64_t boxes = inputs_stage_boxes(plan, schedule);
    int all = schedule->tile_n / inputs_box_cols(schedule);
    boxes = boxes > all ? all : boxes;
    while (boxes > 1 && all % boxes != 0)
        boxes--;
    const Value *cut = plan->statistics.n ? matmul_rows_first_held(b, plan) : NULL;
    if (plan->statistics.n && !cut)
        return;
    ValueMap marks = {.arena = b->arena};
    for (size_t i = 0; i < plan->region->inputs.n && inputs->n < INPUTS_MOST; i++) {
        const Value *input = plan->region->inputs.at[i], *value = inputs_whole(plan, input);
        if (!matmul_is_tma_input(plan, value) || !inputs_is_elementwise(plan, value, cut, &marks) ||
            (plan->before && !matmul_is_read_behind(plan, value)))
            continue;
        inputs->memory[inputs->n] = input;
        inputs->value[inputs->n++] = value;
    }
    inputs->is_held = cut != NULL;
    inputs->chunks = all / (int)boxes;
    inputs->chunk_cols = (int)boxes * inputs_box_cols(schedule);
    inputs->patch = matmul_patch_of(plan, schedule);
}

/* In boxes of rows x BOX_COLS. */
static KTensorMap inputs_map(Builder *b, const MatmulPlan *plan, const MatmulPatch *patch,
                             const Value *memory, const Value *value, const Tile *tile) {
    const Dim *strides[RANK_MAX];
    view_base_strides(plan->graph, value, strides);
    KTensorMap map = {.buffer = k_global(b, memory, false),
                      .elem = value->dtype,
                      .rank = value->rank,
                      .swizzle = tile->swizzle};
    for (int axis = 0; axis < value->rank; axis++) { /* innermost first */
        map.dims[axis] = value->dims[value->rank - 1 - axis];
        map.strides[axis] = strides[value->rank - 1 - axis];
        map.box[axis] = axis == 0 ? tile->span : axis == 1 ? tile->rows : 1;
    }
    if (patch->axes)
        matmul_patch_dims(plan->graph->dims, patch, map.strides[1], tile->rows, &map);
    return map;
}

void matmul_inputs_declare(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const KBuffer *rows,
                           const KBuffer *cols, MatmulInputs *inputs) {
    bool is_rows;
    int64_t pitch = inputs_stage_bytes(plan, schedule, &is_rows) * 8 / 16;
    const KBuffer *over = is_rows ? rows : cols;
    for (int i = 0; i < inputs->n; i++) {
        const Value *value = inputs->value[i];
        const char *name = inputs_name(inputs, i);
        KBuffer *memory = k_shared_at(b, text_format(b->arena, "%s_tile", name), value->dtype,
                                      pitch * schedule->stages, over->offset);
        inputs->tile[i] =
            tile_over(memory, value->dtype, schedule->tile_m, inputs->chunk_cols, schedule->stages, pitch);
        KTensorMap map = inputs_map(b, plan, &inputs->patch, inputs->memory[i], value, &inputs->tile[i]);
        inputs->map[i] = k_tensor_map(b, text_format(b->arena, "%s_map", name), map);
    }
}

void matmul_inputs_load(Builder *b, const MatmulPlan *plan, const MatmulInputs *inputs,
                        const Pipeline *pipeline, const PipelineState *state, const MatmulTile *at) {
    static const AtomId atoms[1 + INPUTS_BATCH] = {ATOM_tma_load_2d, ATOM_tma_load_3d, ATOM_tma_load_4d};
    if (!inputs->n)
        return;
    MatmulPlace place = {0};
    if (inputs->patch.axes)
        place = matmul_patch_place(b, &inputs->patch, at->row, k_i32(b, 0), k_i32(b, 0));
    const KExpr *chunk = epilogue_loop(b, "chunk", inputs->chunks);
    const KExpr *first = k_add(b, at->col, k_mul(b, chunk, k_i32(b, inputs->chunk_cols)));
    for (int i = 0; i < inputs->n; i++) {
        const Tile *tile = &inputs->tile[i];
        pipeline_wait_empty(b, pipeline, state);
        pipeline_expect(b, pipeline, state, k_int(b, K_U32, tile_bytes(tile)));
        for (int box = 0; box < inputs->chunk_cols / tile->span; box++) {
            KOperand operands[5 + INPUTS_BATCH] = {
                k_operand(tile_block_address(b, tile, k_var(b, state->stage), 0, box)),
                k_operand(k_tensor_map_addr(b, inputs->map[i])),
                k_operand(pipeline_full_address(b, pipeline, state)),
                k_operand(k_add(b, first, k_i32(b, box * tile->span))), k_operand(at->row)};
            int n = inputs->patch.axes ? 4 + matmul_patch_coords(&place, operands + 4) : 5;
            for (int axis = plan->batch_rank; axis-- > 0;)
                operands[n++] = k_operand(at->batch[axis]);
            k_atom(b, atoms[n - 5], NULL, operands, n);
        }
        pipeline_advance(b, pipeline, state);
    }
    epilogue_loop_end(b, inputs->chunks);
}

/* ---- consumers */

const KExpr *matmul_inputs_chunk_begin(Epilogue *e) {
    Builder *b = e->b;
    MatmulInputs *inputs = e->inputs;
    const KExpr *chunk = epilogue_loop(b, "chunk", inputs ? inputs->chunks : 1);
    for (int i = 0; inputs && i < inputs->n; i++) {
        inputs->stage[i] = k_let_expr(b, text_format(b->arena, "%s_stage", inputs->tile[i].buffer->name),
                                      k_var(b, inputs->state->stage));
        pipeline_wait_full(b, inputs->pipeline, inputs->state);
        pipeline_advance(b, inputs->pipeline, inputs->state);
    }
    return chunk;
}

/* Ordinary reads are not ordered before TMA's next write by an arrival alone: it may overtake them. */
void matmul_inputs_chunk_end(Epilogue *e) {
    Builder *b = e->b;
    if (e->inputs && e->inputs->n) {
        k_atom(b, ATOM_fence_async, NULL, NULL, 0);
        k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    }
    for (int i = 0; e->inputs && i < e->inputs->n; i++)
        pipeline_release(b, e->inputs->pipeline, e->inputs->stage[i], NULL);
    epilogue_loop_end(b, e->inputs ? e->inputs->chunks : 1);
}

void matmul_inputs_take(Epilogue *e, const KExpr *block, const KExpr *group, int n_groups) {
    Builder *b = e->b;
    MatmulInputs *inputs = e->inputs;
    for (int i = 0; inputs && i < inputs->n; i++) {
        const char *name = inputs_name(inputs, i);
        inputs->words[i] = k_array(b, text_format(b->arena, "%s_words", name), K_U32, 2 * n_groups, NULL);
        const KExpr *row = k_add(b, inputs->row, k_mul(b, block, k_i32(b, WGMMA_M)));
        for (int pair = 0; pair < n_groups / 2; pair++) {
            const KExpr *number = k_add(b, group, k_i32(b, 2 * pair));
            const KExpr *col =
                k_mod(b, k_mul(b, number, k_i32(b, e->fragment->group_cols)), k_i32(b, inputs->chunk_cols));
            tile_load_matrices(b, &inputs->tile[i], inputs->stage[i], row, col, true, false, inputs->words[i],
                               4 * pair);
        }
    }
}

void matmul_inputs_bind(Epilogue *e, const EpilogueSlot *slot) {
    Builder *b = e->b;
    const MatmulInputs *inputs = e->inputs;
    for (int i = 0; inputs && i < inputs->n; i++) {
        const Value *value = inputs->value[i];
        const KVar *elements = k_array(b, text_format(b->arena, "%s_v", inputs_name(inputs, i)),
                                       ktype_of(value->dtype), e->run, NULL);
        const KExpr *word = k_add(b, k_mul(b, slot->local, k_i32(b, e->fragment->halves)), slot->half);
        for (int j = 0; j < e->run; j++)
            k_set_elem(b, elements, k_i32(b, j),
                       k_unpack(b, value->dtype, k_elem(b, inputs->words[i], word), j));
        lower_bind_array(e->lower, value, elements, NULL);
    }
}
