/* Operands that are narrow memory times a factor for each block of their elements, as block quantization
 * leaves them:
 *
 *     x  = mul(q, reshape(broadcast(reshape(s, [M, 1, K/128, 1]), [M, 1, K/128, 128]), [M, K]))
 *
 * Within a block of K the factor is one number for each row (or one for many rows), so the narrow elements
 * are multiplied as they are, and each block's sum of products takes the factors of both operands on its way
 * into the accumulators (as DeepGEMM does it):
 *
 *     acc[row, col] += sum_{k in block} q_x[row, k] q_w[k, col]  *  s_x[row, block] * s_w[block, col]
 *
 * Factors that are the same for all columns that one instruction computes join those of rows, once a step;
 * where each column has its own (both operands of a weight's gradient have blocks of 1 x 128), they are read
 * on the way into the accumulators. Each warp copies its own factors to a ring of its own in shared memory,
 * three steps of K ahead, a lane a factor, and reads those of rows from there a step ahead. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"
#include "codegen/templates/matmul_tiles.h"

enum { SCALE_ELEMENTS_MAX = 1 << 30, SCALE_SLOTS = 4, SCALE_GROUP = 4, SCALE_LANES = 32 };

/* Below transposes; axis[i] stays the axis of the value that the operand's axis i has become. */
static Value *scale_below_transposes(Value *value, int rank, int *axis) {
    for (; value->op == OP_transpose; value = value->in[0])
        for (int i = 0; i < rank; i++)
            axis[i] = value->attrs[0].ints[axis[i]];
    return value;
}

/* The length of the blocks along an axis of the factor, and the distance between blocks: innermost parts of
 * it along which the memory repeats are a block, and at most one other remains. */
static bool scale_axis(const ViewFactors *factors, int axis, MatmulScaleAxis *out) {
    *out = (MatmulScaleAxis){.block = 1};
    for (int i = factors->n; i-- > 0;) {
        const ViewFactor *part = &factors->at[i];
        if (part->axis != axis)
            continue;
        if (out->stride)
            return false;
        if (!dim_is(part->stride, 0)) {
            out->stride = part->stride;
            continue;
        }
        if (!dim_is_const(part->dim) || part->dim->value < 1 ||
            out->block > SCALE_ELEMENTS_MAX / part->dim->value)
            return false;
        out->block *= part->dim->value;
    }
    return true;
}

bool matmul_find_factor(const Graph *graph, const Region *region, Value *value, int rank, const int *axis,
                        MatmulScale *scale) {
    void *context = (void *)(uintptr_t)region;
    Value *wide = view_below_movements(value, region_is_memory, context);
    View view = view_of(graph, wide, region_is_memory, context);
    if (!region_reads(region, view.base) || value->rank != rank)
        return false;
    const Dim *count = dim_const(graph->dims, 1);
    for (int i = 0; i < view.base->rank; i++)
        count = dim_mul(graph->dims, count, view.base->dims[i]);
    ViewFactors factors;
    if (!count || !view_factors(graph, value, wide, view.strides, &factors))
        return false;
    for (int i = 0; i < rank; i++)
        if (!scale_axis(&factors, axis[i], &scale->axis[i]))
            return false;
    scale->base = view.base;
    scale->is_large = dim_upper(graph->dims, count) > SCALE_ELEMENTS_MAX;
    scale->offset = dim_add(graph->dims, view.offset, factors.offset);
    return scale->offset != NULL;
}

/* Where the narrow elements are: memory under strides, or matrices or rows of it that indices choose.
 * `axis[i]` is the axis of `data` that the operand's axis i is. */
static bool scale_data(const Graph *graph, const Region *region, Value *data, const int *axis,
                       MatmulOperand *operand) {
    void *context = (void *)(uintptr_t)region;
    int rank = operand->value->rank;
    View view = view_of(graph, data, region_is_memory, context);
    ViewGather gather;
    if (region_reads(region, view.base)) {
        operand->view = view;
        for (int i = 0; i < rank; i++)
            operand->view.strides[i] = view.strides[axis[i]];
        operand->is_memory = true;
        matmul_read_view(operand);
        return true;
    }
    if (!view_gather(graph, data, region_is_memory, context, &gather))
        return false;
    ViewGather turned = gather;
    for (int i = 0; i < rank; i++) {
        turned.data.strides[i] = gather.data.strides[axis[i]];
        turned.index.strides[i] = gather.index.strides[axis[i]];
    }
    if (!matmul_take_chosen(graph, region, &turned, operand))
        return false;
    matmul_read_view(operand);
    return true;
}

bool matmul_find_scale(const Graph *graph, const Region *region, MatmulOperand *operand) {
    int rank = operand->value->rank, axis[RANK_MAX] = {0};
    for (int i = 0; i < rank; i++)
        axis[i] = i;
    Value *product = scale_below_transposes((Value *)(uintptr_t)operand->value, rank, axis);
    if (product->op != OP_mul || product->dtype != DTYPE_F32)
        return false;
    for (int i = 0; i < 2; i++) {
        Value *data = product->in[i], *factor = product->in[1 - i];
        MatmulScale scale;
        if (!value_same_dims(data, product) || !value_same_dims(factor, product) ||
            !matmul_find_factor(graph, region, factor, rank, axis, &scale) ||
            scale.base->dtype != DTYPE_F32 || !scale_data(graph, region, data, axis, operand))
            continue;
        MatmulScale *kept = ARENA_NEW(graph->arena, MatmulScale);
        *kept = scale;
        operand->scale = kept;
        return true;
    }
    return false;
}

bool matmul_scale_is_by_column(const MatmulOperand *operand, bool is_rows) {
    enum { COLUMNS_LEAST = 8 /* of an instruction */ };
    const MatmulScaleAxis *axis = operand->scale ? &operand->scale->axis[operand->mn_axis] : NULL;
    return axis && axis->stride && !is_rows && axis->block % COLUMNS_LEAST != 0;
}

/* A factor must be one number for all columns of an instruction, unless each column has its own. */
static bool scale_is_shared(const MatmulPlan *plan, const Schedule *schedule, int cols) {
    const MatmulOperand *operands[1 + MATMUL_CORES] = {&plan->a};
    for (int i = 0; i < plan->n_cores; i++)
        operands[1 + i] = &plan->b[i];
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulScale *scale = operands[i]->scale;
        if (!scale || (i == 0) != schedule->swap_ab || matmul_scale_is_by_column(operands[i], false))
            continue;
        const MatmulScaleAxis *axis = &scale->axis[operands[i]->mn_axis];
        if (axis->stride && axis->block % cols != 0)
            return false;
    }
    return true;
}

bool matmul_has_scale(const MatmulPlan *plan) {
    bool has_scale = plan->a.scale != NULL;
    for (int i = 0; i < plan->n_cores; i++)
        has_scale |= plan->b[i].scale != NULL;
    return has_scale;
}

int matmul_partial_cols(const MatmulPlan *plan, const Schedule *schedule) {
    enum { PARTIAL_COLS = 128 };
    if (!schedule->promote && !matmul_has_scale(plan))
        return 0;
    int step = plan->kind == MATMUL_INT8 ? 16 : 8;
    for (int cols = schedule->tile_n < PARTIAL_COLS ? schedule->tile_n : PARTIAL_COLS; cols >= step;
         cols -= step)
        if (schedule->tile_n % cols == 0 && scale_is_shared(plan, schedule, cols))
            return cols;
    return step;
}

bool matmul_scales_fit(const MatmulPlan *plan, const Schedule *schedule) {
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        const MatmulScaleAxis *axis = operand->scale ? &operand->scale->axis[operand->k_axis] : NULL;
        if (axis && axis->stride && axis->block % schedule->tile_k != 0)
            return false;
    }
    return scale_is_shared(plan, schedule, matmul_partial_cols(plan, schedule)) &&
           (!matmul_has_scale(plan) || dim_lower(plan->graph->dims, plan->k) > 0);
}

/* Number of the factor of a block in its buffer; `mn` and `k` are coordinates of an element of the block. */
static const KExpr *scale_index(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                                const KExpr *mn, const KExpr *k, const KExpr *const *batch) {
    const MatmulScale *scale = operand->scale;
    KType type = scale->is_large ? K_I64 : K_I32;
    const KExpr *at = k_dim(b, scale->offset, type);
    for (int i = 0; i < operand->value->rank; i++) {
        const MatmulScaleAxis *axis = &scale->axis[i];
        if (!axis->stride)
            continue;
        const KExpr *coord = i == operand->mn_axis  ? mn
                             : i == operand->k_axis ? k
                                                    : matmul_batch_coord(b, plan, operand, i, batch);
        if (coord)
            at = k_add(b, at,
                       k_mul(b, k_convert(b, k_div(b, coord, k_i32(b, axis->block)), type),
                             k_dim(b, axis->stride, type)));
    }
    return at;
}

/* Steps of K whose factors of a row are copied together, as 16 bytes: 4 where they are neighbours in memory
 * (the factors as quantization leaves them, rows of K / 128), so that the lanes of a copy touch 32 lines once
 * in four steps; else 1. */
static int scale_group(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand) {
    const MatmulScale *scale = operand->scale;
    DimTable *dims = plan->graph->dims;
    const MatmulScaleAxis *along = &scale->axis[operand->k_axis];
    bool is_vector = along->stride && dim_is(along->stride, 1) && along->block == schedule->tile_k &&
                     dim_divisor(dims, plan->k) % (along->block * SCALE_GROUP) == 0 &&
                     dim_divisor(dims, scale->offset) % SCALE_GROUP == 0;
    for (int i = 0; i < operand->value->rank; i++)
        if (i != operand->k_axis && scale->axis[i].stride)
            is_vector = is_vector && dim_divisor(dims, scale->axis[i].stride) % SCALE_GROUP == 0;
    return is_vector ? SCALE_GROUP : 1;
}

/* Steps of which a ring holds the factors. */
static int scale_steps(int group) {
    return group > 1 ? 2 * group : SCALE_SLOTS;
}

/* Factors of an operand that a warp needs at a time: one for each of its rows, for each column or for each
 * instruction's columns. */
static int scale_words(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                       bool is_rows) {
    if (is_rows)
        return schedule->tile_m / schedule->warps_m / 4;
    int each = matmul_scale_is_by_column(operand, false) ? 1 : matmul_partial_cols(plan, schedule);
    return schedule->tile_n / each;
}

int64_t matmul_scales_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    int64_t words = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        if (operand->scale)
            words += (int64_t)scale_words(plan, schedule, operand, (i != 0) == schedule->swap_ab) *
                     scale_steps(scale_group(plan, schedule, operand));
    }
    return 4 * words * 4 * schedule->warps_m;
}

MatmulScales matmul_scales(Builder *b, const MatmulPlan *plan, const Schedule *schedule,
                           const MatmulOperand *operand, bool is_rows) {
    MatmulScales scales = {.plan = plan, .operand = operand, .tile_k = schedule->tile_k};
    if (!operand->scale)
        return scales;
    const char *name = operand->scale->base->name ? operand->scale->base->name : "scale";
    scales.words = scale_words(plan, schedule, operand, is_rows);
    scales.group = scale_group(plan, schedule, operand);
    scales.ring = k_shared(b, text_format(b->arena, "%s_ring", name), DTYPE_F32,
                           (int64_t)scales.words * scale_steps(scales.group) * 4 * schedule->warps_m, 16);
    return scales;
}

void matmul_scales_tile(Builder *b, MatmulScales *scales, const KExpr *warp, const KExpr *mn,
                        const Dim *extent, int tile_mn, const KExpr *const *batch) {
    const MatmulOperand *operand = scales->operand;
    if (!operand->scale)
        return;
    for (int turn = 0; turn * SCALE_LANES < scales->words; turn++) {
        const KExpr *own = turn ? k_add(b, mn, k_i32(b, turn * SCALE_LANES)) : mn;
        scales->bytes[turn] = k_int(b, K_U32, 4 * scales->group);
        /* What lies beyond the result is never stored; its factors are zeros that nobody reads from memory.
         * (All lanes of all blocks that read the last row's instead wait for one line of L2: 16 x 4096 x 4096
         * took 34 us, of 64 rows 14.) */
        if (dim_divisor(scales->plan->graph->dims, extent) % tile_mn != 0) {
            const KExpr *last = k_sub(b, k_dim(b, extent, K_I32), k_i32(b, 1));
            scales->bytes[turn] = k_let_expr(
                b, "factor_bytes",
                k_select(b, k_lt(b, own, k_dim(b, extent, K_I32)), scales->bytes[turn], k_int(b, K_U32, 0)));
            own = k_min(b, own, last);
        }
        scales->first[turn] =
            k_let_expr(b, "scale_at", scale_index(b, scales->plan, operand, own, NULL, batch));
    }
    scales->own = k_mul(b, warp, k_i32(b, scale_steps(scales->group) * scales->words));
}

/* Word of the ring that holds the factor of number `word` of a step. */
static const KExpr *scale_at(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *word) {
    const KExpr *slot = k_mod(b, step, k_i32(b, scale_steps(scales->group)));
    const KExpr *first =
        k_mul(b, k_div(b, slot, k_i32(b, scales->group)), k_i32(b, scales->group * scales->words));
    const KExpr *at =
        k_add(b, k_mul(b, word, k_i32(b, scales->group)), k_mod(b, slot, k_i32(b, scales->group)));
    return k_add(b, scales->own, k_add(b, first, at));
}

/* A lane's copy of the factor of one row or column. */
static void scales_copy_turn(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *last,
                             int turn) {
    const MatmulOperand *operand = scales->operand;
    const MatmulScaleAxis *axis = &operand->scale->axis[operand->k_axis];
    const KExpr *from = scales->first[turn];
    const KExpr *word = k_add(b, k_special(b, SPECIAL_LANE), k_i32(b, turn * SCALE_LANES));
    if (axis->stride) { /* behind the last step nothing is needed; its own factors come again */
        const KExpr *k = k_mul(b, k_min(b, step, last), k_i32(b, scales->tile_k));
        const KExpr *block = k_div(b, k, k_i32(b, axis->block));
        if (scales->group > 1)
            block = k_mul(b, k_div(b, block, k_i32(b, scales->group)), k_i32(b, scales->group));
        KType type = from->type;
        from = k_add(b, from, k_mul(b, k_convert(b, block, type), k_dim(b, axis->stride, type)));
    }
    KOperand operands[] = {k_operand(k_smem_addr(b, scales->ring, scale_at(b, scales, step, word))),
                           k_operand(k_global_addr(b, k_global(b, operand->scale->base, false), from)),
                           k_operand(scales->bytes[turn])};
    bool is_part = scales->words < (turn + 1) * SCALE_LANES;
    if (is_part)
        k_if_begin(b, k_lt(b, word, k_i32(b, scales->words)));
    if (scales->group > 1)
        k_atom(b, ATOM_cp_async_16, NULL, operands, 3);
    else
        k_atom(b, ATOM_cp_async, (int[]){4}, operands, 3);
    if (is_part)
        k_end(b);
}

static void scales_copy(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *last) {
    for (int turn = 0; scales->operand->scale && turn * SCALE_LANES < scales->words; turn++)
        scales_copy_turn(b, scales, step, last, turn);
}

void matmul_scales_ahead(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *last) {
    if (!scales->operand->scale)
        return;
    if (scales->group == 1) {
        scales_copy(b, scales, k_add(b, step, k_i32(b, SCALE_SLOTS - 1)), last);
        return;
    }
    k_if_begin(b, k_eq(b, k_mod(b, step, k_i32(b, scales->group)), k_i32(b, 0)));
    scales_copy(b, scales, k_add(b, step, k_i32(b, scales->group)), last);
    k_end(b);
}

void matmul_scales_first(Builder *b, const MatmulScales *scales, const KExpr *last) {
    int steps = scales->group > 1 ? 1 : SCALE_SLOTS - 1;
    for (int step = 0; step < steps; step++)
        scales_copy(b, scales, k_i32(b, step), last);
}

void matmul_scale_read(Builder *b, const MatmulScales *scales, const KExpr *step, const KExpr *word,
                       const KVar *to, int at) {
    k_load(b, to, k_i32(b, at), scales->ring, scale_at(b, scales, step, word), 1, NULL, CACHE_DEFAULT);
}
