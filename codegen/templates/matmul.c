/* The matmul template: reads a region, chooses a path, hands over to its file. See matmul.h for the map. */
#include "codegen/templates/matmul.h"

static bool plan_is_input(void *context, const Value *value) {
    return region_reads(context, value);
}

/* Whether the operand's view tells where its elements are, in one way or another. */
static bool plan_has_view(const MatmulOperand *operand) {
    return operand->is_memory || operand->is_parted || operand->chosen;
}

/* The widest type that an operand's elements need: exact widening on the way is undone. */
static DType plan_narrow(const MatmulOperand *operand) {
    const Value *value = operand->value;
    if (plan_has_view(operand))
        return operand->view.base->dtype;
    while (value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype))
        value = value->in[0];
    return value->dtype;
}

void matmul_read_view(MatmulOperand *operand) {
    const Value *value = operand->value;
    operand->narrow = plan_narrow(operand);
    operand->major = MAJOR_K;
    if (plan_has_view(operand)) {
        bool along_k = dim_is(operand->view.strides[operand->k_axis], 1);
        bool along_mn = dim_is(operand->view.strides[operand->mn_axis], 1);
        operand->is_contiguous = along_k || along_mn;
        operand->major =
            along_mn && (!along_k || dim_is(value->dims[operand->k_axis], 1)) ? MAJOR_MN : MAJOR_K;
    }
    bool has_strides = operand->is_memory || operand->chosen;
    operand->n_batch = 0;
    for (int i = 0; i < value->rank - 2; i++)
        if (!dim_is(value->dims[i], 1) && !(has_strides && dim_is(operand->view.strides[i], 0)))
            operand->batch[operand->n_batch++] = i;
}

/* Whether a value is another with its last two axes exchanged. */
static bool plan_is_flipped(const Value *value) {
    int rank = value->rank;
    if (value->op != OP_transpose || value->attrs[0].ints[rank - 1] != rank - 2)
        return false;
    for (int axis = 0; axis < rank - 2; axis++)
        if (value->attrs[0].ints[axis] != axis)
            return false;
    return true;
}

/* Takes one axis of an operand from its factors; false where it is in more than two. */
static bool plan_part(DimTable *dims, const ViewFactors *factors, int axis, bool may_have_two,
                      MatmulOperand *operand, const Dim **part, const Dim **outer) {
    const ViewFactor *found[2];
    int n = 0;
    for (int i = 0; i < factors->n; i++) {
        if (factors->at[i].axis != axis)
            continue;
        if (n == (may_have_two ? 2 : 1))
            return false;
        found[n++] = &factors->at[i];
    }
    operand->view.strides[axis] = n ? found[n - 1]->stride : dim_const(dims, 0);
    if (n == 2) {
        *part = found[1]->dim;
        *outer = found[0]->stride;
    }
    return true;
}

static bool plan_is_step(const Graph *graph, const Dim *distance, DType elem) {
    int64_t divisor = dim_divisor(graph->dims, distance);
    return dim_lower(graph->dims, distance) >= 0 && divisor * dtype_bits(elem) % 128 == 0;
}

/* Whether TMA can read the operand where M, N or K lie in two parts; notes where. */
static bool plan_is_parted(const Graph *graph, const Region *region, MatmulOperand *operand) {
    ViewFactors factors;
    void *context = (void *)(uintptr_t)region;
    Value *value = (Value *)(uintptr_t)operand->value,
          *base = view_below_movements(value, plan_is_input, context);
    const Dim *strides[RANK_MAX];
    view_base_strides(graph, base, strides);
    if (!plan_is_input(context, base) || !view_factors(graph, value, base, strides, &factors))
        return false;
    MatmulOperand found = *operand;
    found.view = (View){.base = base, .offset = factors.offset};
    int n_batch = 0;
    for (int i = 0; i < value->rank; i++) {
        bool is_mn = i == operand->mn_axis, is_k = i == operand->k_axis;
        const Dim *part = NULL, *outer = NULL;
        if (!plan_part(graph->dims, &factors, i, is_mn || is_k, &found, &part, &outer))
            return false;
        if (is_mn) {
            found.mn_part = part;
            found.mn_outer = outer;
        } else if (is_k) {
            found.k_part = part;
            found.k_outer = outer;
        } else {
            n_batch += !dim_is(value->dims[i], 1);
        }
    }
    int parts = (found.mn_part != NULL) + (found.k_part != NULL);
    bool has_run =
        dim_is(found.view.strides[operand->k_axis], 1) || dim_is(found.view.strides[operand->mn_axis], 1);
    if (!parts || parts + n_batch > 2 || !has_run || dtype_bits(base->dtype) < 8)
        return false;
    if (!plan_is_step(graph, factors.offset, base->dtype))
        return false;
    for (int i = 0; i < factors.n; i++)
        if (!dim_is(factors.at[i].stride, 1) && !plan_is_step(graph, factors.at[i].stride, base->dtype))
            return false;
    found.is_parted = true;
    *operand = found;
    return true;
}

/* Whether TMA can read what an operand's view says. */
static bool plan_is_tma_view(const Graph *graph, const MatmulOperand *operand, const char **why) {
    *why = "TMA needs an operand that is contiguous along K, M or N";
    if (!operand->is_contiguous)
        return false;
    *why = "TMA needs rows and starts that are multiples of 16 bytes";
    int outer = operand->major == MAJOR_K ? operand->mn_axis : operand->k_axis;
    if (!plan_is_step(graph, operand->view.offset, operand->elem) ||
        !plan_is_step(graph, operand->view.strides[outer], operand->elem) ||
        dim_is(operand->view.strides[outer], 0) ||
        (operand->chosen && !plan_is_step(graph, operand->chosen->step, operand->elem)))
        return false;
    for (int i = 0; i < operand->n_batch; i++)
        if (!plan_is_step(graph, operand->view.strides[operand->batch[i]], operand->elem))
            return false;
    *why = "TMA reads at most four dims here: two of the matrix and two of the batch";
    if (operand->n_batch + (operand->chosen != NULL) > 2)
        return false;
    *why = NULL;
    return true;
}

bool matmul_find_chosen(const Graph *graph, const Region *region, MatmulOperand *operand) {
    ViewGather *gather = ARENA_NEW(graph->arena, ViewGather);
    Value *value = (Value *)(uintptr_t)operand->value;
    if (!view_gather(graph, value, plan_is_input, (void *)(uintptr_t)region, gather) ||
        !region_reads(region, gather->data.base) || !region_reads(region, gather->index.base) ||
        !dim_is(gather->index.strides[operand->mn_axis], 0) ||
        !dim_is(gather->index.strides[operand->k_axis], 0) ||
        dim_upper(graph->dims, gather->extent) > INT32_MAX)
        return false;
    MatmulOperand found = *operand;
    const char *why;
    found.view = gather->data;
    found.chosen = gather;
    matmul_read_view(&found);
    found.elem = found.narrow;
    if (!plan_is_tma_view(graph, &found, &why))
        return false;
    operand->view = found.view;
    operand->chosen = gather;
    return true;
}

static void plan_operand(const Graph *graph, const Region *region, const Value *product, int which,
                         MatmulOperand *operand) {
    Value *value = product->in[which];
    *operand = (MatmulOperand){.value = value, .runs = ARENA_NEW(graph->arena, MatmulRuns)};
    operand->mn_axis = value->rank - (which == 0 ? 2 : 1);
    operand->k_axis = value->rank - (which == 0 ? 1 : 2);
    operand->mn = value->dims[operand->mn_axis];
    operand->view = view_of(graph, value, plan_is_input, (void *)(uintptr_t)region);
    operand->is_memory = region_reads(region, operand->view.base);
    bool has_view = operand->is_memory || plan_is_parted(graph, region, operand) ||
                    matmul_find_chosen(graph, region, operand);
    while (!has_view && plan_is_flipped(operand->value)) { /* the same, the other way round */
        int axis = operand->mn_axis;
        operand->value = operand->value->in[0];
        operand->mn_axis = operand->k_axis;
        operand->k_axis = axis;
    }
    matmul_read_view(operand);
}

static bool plan_all_widen(const MatmulPlan *plan, DType type) {
    bool widens = dtype_widens(plan->a.narrow, type);
    for (int i = 0; i < plan->n_cores; i++)
        widens = widens && dtype_widens(plan->b[i].narrow, type);
    return widens;
}

static void plan_set_elems(MatmulPlan *plan, DType type) {
    plan->a.elem = type;
    for (int i = 0; i < plan->n_cores; i++)
        plan->b[i].elem = type;
}

static bool plan_is_fp8(const MatmulOperand *operand) {
    return operand->narrow == DTYPE_E4M3 || operand->narrow == DTYPE_E5M2;
}

/* i8 or u8, whichever holds the operand's integers; DTYPE_COUNT where neither does. */
static DType plan_byte(const MatmulOperand *operand) {
    if (dtype_is_float(operand->narrow))
        return DTYPE_COUNT;
    return dtype_widens(operand->narrow, DTYPE_I8)   ? DTYPE_I8
           : dtype_widens(operand->narrow, DTYPE_U8) ? DTYPE_U8
                                                     : DTYPE_COUNT;
}

/* The matrix instruction whose operands hold every element exactly. Products of such elements are exact in
 * f32, so that only the order of the sum differs from the reference. */
static void plan_kind(MatmulPlan *plan) {
    DType result = plan->core[0]->dtype;
    bool is_fp8 = plan->target->has_mma_fp8 && plan_is_fp8(&plan->a);
    bool is_int8 = plan_byte(&plan->a) != DTYPE_COUNT;
    for (int i = 0; i < plan->n_cores; i++) {
        is_fp8 = is_fp8 && plan_is_fp8(&plan->b[i]);
        is_int8 = is_int8 && plan_byte(&plan->b[i]) != DTYPE_COUNT;
    }
    plan->kind = MATMUL_FMA;
    plan_set_elems(plan, result);
    if (!plan->target->has_mma_bf16)
        return;
    if (result == DTYPE_I32 && is_int8) {
        plan->kind = MATMUL_INT8;
        plan->a.elem = plan_byte(&plan->a);
        for (int i = 0; i < plan->n_cores; i++)
            plan->b[i].elem = plan_byte(&plan->b[i]);
    } else if (result == DTYPE_F32 && is_fp8) {
        plan->kind = MATMUL_FP8;
        plan->a.elem = plan->a.narrow;
        for (int i = 0; i < plan->n_cores; i++)
            plan->b[i].elem = plan->b[i].narrow;
    } else if (result == DTYPE_F32 && (plan_all_widen(plan, DTYPE_BF16) || plan_all_widen(plan, DTYPE_F16))) {
        plan->kind = MATMUL_16BIT;
        plan_set_elems(plan, plan_all_widen(plan, DTYPE_BF16) ? DTYPE_BF16 : DTYPE_F16);
    } else if (result == DTYPE_F32 && plan_all_widen(plan, DTYPE_TF32)) {
        plan->kind = MATMUL_TF32;
        plan_set_elems(plan, DTYPE_TF32);
    }
}

/* How an operand reaches shared memory where TMA does not bring it. */
static void plan_access(const Graph *graph, const Region *region, MatmulOperand *operand) {
    int whole = 128 / dtype_bits(operand->elem);
    if (operand->is_memory && operand->is_contiguous && operand->narrow == operand->elem) {
        int axis = operand->major == MAJOR_K ? operand->k_axis : operand->mn_axis;
        int width = view_vector_width(graph, &operand->view, operand->value, axis, whole);
        operand->copy_width = width * dtype_bits(operand->elem) >= 32 ? width : 0;
    }
    if (operand->copy_width)
        return;
    Region *space = matmul_operand_space(graph->arena, region, operand->value);
    int along_k = lower_vector_width(graph, space, operand->k_axis);
    int along_mn = lower_vector_width(graph, space, operand->mn_axis);
    bool is_mn =
        operand->is_memory && operand->is_contiguous ? operand->major == MAJOR_MN : along_mn > along_k;
    operand->run_axis = is_mn ? operand->mn_axis : operand->k_axis;
    operand->run_width = is_mn ? along_mn : along_k;
    operand->run_width = operand->run_width > whole ? whole : operand->run_width;
}

/* A statistic of blocks: of a tile's columns, or of a warp's rows. */
static bool plan_block(MatmulPlan *plan, const Value *value) {
    const Value *core = plan->core[0];
    BlockStatistic block;
    if (!block_statistic(value, &block) || !value_same_dims(block.of, core))
        return false;
    if (block.axis == core->rank - 2) {
        vec_push(plan->graph->arena, &plan->columns, value);
        return block.block == MATMUL_BLOCK_ROWS;
    }
    bool same = !plan->statistics.n || plan->block_cols == block.block;
    plan->block_cols = block.block;
    vec_push(plan->graph->arena, &plan->statistics, value);
    return same;
}

/* Whether a reduction of the region is a statistic of the product's rows. */
static bool plan_is_row_reduction(const MatmulPlan *plan, const Value *value) {
    const Value *core = plan->core[0];
    return value_same_dims(value->in[0], core) && value->attrs[0].axes.n == 1 &&
           value->attrs[0].axes.at[0] == core->rank - 1;
}

/* Whether a reduction that no product goes into is one of the first operand's rows, and long enough not to be
 * a loop in place. */
static bool plan_is_operand_row(const MatmulPlan *plan, const Value *value) {
    enum { SHORT = 16 };
    const MatmulOperand *a = &plan->a;
    return value->attrs[0].axes.n == 1 && value->attrs[0].axes.at[0] == a->k_axis &&
           value_same_dims(value->in[0], a->value) && !reduce_has_number(value) &&
           ktype_bits(reduce_type(value)) == 32 && dim_upper(plan->graph->dims, plan->k) > SHORT;
}

void matmul_mark_dependents(const MatmulPlan *plan, const Value *const *from, int n_from,
                            const Value *const *cut, int n_cut, ValueMap *marks) {
    const Region *region = plan->region;
    value_map_clear(marks);
    for (int i = 0; i < n_from; i++)
        value_map_set(marks, from[i], true);
    for (size_t i = 0; i < region->values.n; i++) { /* topological */
        const Value *value = region->values.at[i];
        bool depends = value_map_get(marks, value);
        for (int k = 0; k < value->n_in; k++)
            depends |= value_map_get(marks, value->in[k]);
        for (int k = 0; k < n_cut; k++)
            depends &= cut[k] != value;
        value_map_set(marks, value, depends);
    }
}

/* Column statistics that wait for another one go behind the rest; false where they wait for each other too.
 */
static bool plan_order_columns(MatmulPlan *plan) {
    Arena *arena = plan->graph->arena;
    VEC(const Value *) first = {0}, rest = {0};
    for (size_t i = 0; i < plan->columns.n; i++) {
        const Value *column = plan->columns.at[i];
        ValueMap marks = {.arena = arena}, late = {.arena = arena};
        matmul_mark_dependents(plan, first.at, (int)first.n, NULL, 0, &marks);
        matmul_mark_dependents(plan, rest.at, (int)rest.n, NULL, 0, &late);
        if (value_map_get(&late, column))
            return false;
        if (value_map_get(&marks, column))
            vec_push(arena, &rest, column);
        else
            vec_push(arena, &first, column);
    }
    plan->n_columns_first = first.n;
    plan->columns.n = 0;
    for (size_t i = 0; i < first.n; i++)
        vec_push(arena, &plan->columns, first.at[i]);
    for (size_t i = 0; i < rest.n; i++)
        vec_push(arena, &plan->columns, rest.at[i]);
    return true;
}

/* Whether a fragment's threads can write each output: elements of the product, two columns at a time, or one
 * a row. */
static bool plan_outputs(const MatmulPlan *plan, const char **why) {
    const Graph *graph = plan->graph;
    for (size_t i = 0; i < plan->region->outputs.n; i++) {
        const Value *output = plan->region->outputs.at[i], *root = lower_root(plan->region, output);
        if (block_stored(output))
            continue;
        bool is_row = value_is_of_rows(root, plan->core[0]);
        *why = "an output is neither the product's shape, nor a window of its columns, nor one element a row";
        if (!is_row && !value_same_dims(root, plan->core[0]) && !region_window(plan->region, output))
            return false;
        *why = "two threads would write one byte of an output of 4-bit elements";
        if (dtype_bits(output->dtype) < 8 && (is_row || dim_divisor(graph->dims, plan->n) % 2))
            return false;
    }
    *why = NULL;
    return true;
}

static void plan_find_scale(const MatmulPlan *plan, MatmulOperand *operand) {
    if (operand->is_memory || !matmul_find_scale(plan->graph, plan->region, operand))
        return;
    operand->is_memory = true;
    matmul_read_view(operand);
}

/* The product over narrow memory with factors of blocks left to the accumulators; NULL where it has not that
 * form. */
static const MatmulPlan *plan_scaled(const MatmulPlan *plan) {
    if (plan->before)
        return NULL;
    MatmulPlan *scaled = ARENA_NEW(plan->graph->arena, MatmulPlan);
    *scaled = *plan;
    plan_find_scale(scaled, &scaled->a);
    bool has_scale = scaled->a.scale != NULL;
    for (int i = 0; i < plan->n_cores; i++) {
        plan_find_scale(scaled, &scaled->b[i]);
        has_scale |= scaled->b[i].scale != NULL;
    }
    plan_kind(scaled);
    return has_scale && scaled->kind == MATMUL_FP8 ? scaled : NULL;
}

/* The product, or two, or the last of those that are added up. */
static bool plan_products(MatmulPlan *plan, const char **why) {
    const Region *region = plan->region;
    bool is_sum = region->sums.n > 0;
    MatmulSum sum = {0};
    if (is_sum)
        sum = matmul_last_sum(region);
    *why = "a matmul region has one or two products, or adds some up";
    if (region->kind != TEMPLATE_MATMUL || region->cores.n < 1 ||
        (is_sum ? !sum.product : region->cores.n > MATMUL_CORES))
        return false;
    plan->n_cores = is_sum ? 1 : (int)region->cores.n;
    const Value *first = is_sum ? sum.product : region->cores.at[0];
    plan->batch_rank = first->rank - 2;
    plan->m = first->dims[first->rank - 2];
    plan->n = first->dims[first->rank - 1];
    plan->k = first->in[0]->dims[first->in[0]->rank - 1];
    plan->accumulator = ktype_of(first->dtype);
    plan_operand(plan->graph, region, first, 0, &plan->a);
    for (int i = 0; i < plan->n_cores; i++) {
        const Value *product = is_sum ? sum.product : region->cores.at[i];
        plan->core[i] = is_sum ? sum.sum : product;
        plan_operand(plan->graph, region, product, 1, &plan->b[i]);
        *why = "two products of one kernel share their first operand and their shape";
        if (product->in[0] != first->in[0] || !value_same_dims(product, first) ||
            product->dtype != first->dtype)
            return false;
    }
    plan_kind(plan);
    if (is_sum)
        plan->before = matmul_plan_before(plan, why);
    return !is_sum || plan->before;
}

/* A product that is a guest, under the host's schedule. */
static bool plan_guest(MatmulPlan *plan, const char **why) {
    const Region *guest = plan->region->guest;
    if (!guest || guest->kind != TEMPLATE_MATMUL)
        return true;
    Arena *arena = plan->graph->arena;
    Region *region = ARENA_NEW(arena, Region);
    *region = *guest;
    region->schedule = plan->region->schedule;
    MatmulPlan *own = ARENA_NEW(arena, MatmulPlan);
    plan->guest = own;
    return matmul_plan(plan->graph, region, plan->target, own, why);
}

bool matmul_plan(const Graph *graph, const Region *region, const Target *target, MatmulPlan *plan,
                 const char **why) {
    *plan = (MatmulPlan){.graph = graph, .region = region, .target = target};
    if (!plan_products(plan, why))
        return false;
    plan_access(graph, region, &plan->a);
    for (int i = 0; i < plan->n_cores; i++)
        plan_access(graph, region, &plan->b[i]);
    *why = "the epilogue reduces the product otherwise than along its rows, or 16 rows of its columns";
    ValueMap of_product = {.arena = graph->arena};
    matmul_mark_dependents(plan, plan->core, plan->n_cores, NULL, 0, &of_product);
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        if (op_info(value->op)->class_ != OPCLASS_REDUCTION)
            continue;
        if (!value_map_get(&of_product, value)) { /* others of inputs are lowered in place */
            if (plan_is_operand_row(plan, value))
                vec_push(graph->arena, &plan->operand_rows, value);
            continue;
        }
        if (plan_block(plan, value))
            continue;
        if (!plan_is_row_reduction(plan, value) || plan->block_cols)
            return false;
        vec_push(graph->arena, &plan->statistics, value);
    }
    *why = "statistics of columns wait for each other";
    if (!plan_order_columns(plan))
        return false;
    if (!plan_guest(plan, why))
        return false;
    plan->scaled = plan_scaled(plan);
    return plan_outputs(plan, why);
}

bool matmul_is_tma(const Graph *graph, const MatmulOperand *operand, const char **why) {
    *why = "TMA copies memory: an operand is computed in this kernel, or converted";
    return operand->is_memory && operand->narrow == operand->elem && plan_is_tma_view(graph, operand, why);
}

bool matmul_is_parted(const MatmulOperand *operand) {
    return operand->is_parted && operand->narrow == operand->elem;
}

bool matmul_is_brought_by_tma(const Graph *graph, const MatmulOperand *operand, const char **why) {
    bool is_chosen = operand->chosen && operand->narrow == operand->elem;
    return is_chosen || matmul_is_parted(operand) || matmul_is_tma(graph, operand, why);
}

bool matmul_is_tma_input(const MatmulPlan *plan, const Value *value) {
    const Dim *strides[RANK_MAX];
    if (dtype_bits(value->dtype) != 16 || !dtype_is_float(value->dtype) ||
        !value_same_dims(value, plan->core[0]) || plan->batch_rank > 2 ||
        dim_divisor(plan->graph->dims, plan->n) % 2 != 0)
        return false;
    view_base_strides(plan->graph, value, strides);
    if (!dim_is(strides[value->rank - 1], 1))
        return false;
    for (int i = 0; i < value->rank - 1; i++)
        if (!plan_is_step(plan->graph, strides[i], value->dtype) || dim_is(strides[i], 0))
            return false;
    return true;
}

bool matmul_holds_blocks(const MatmulPlan *plan, int columns, const char **why) {
    *why =
        "the epilogue reads other columns: a warp's columns must be whole blocks of those that trade places";
    return !plan->region->column_block || columns % plan->region->column_block == 0;
}

/* ---- the Template row */

/* Whether threads hold columns by the pair, as a byte of an output of 4-bit elements has them. */
static bool accepts_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    bool has_pairs = !schedule->swap_ab && (schedule->path != MATMUL_GEMV || schedule->tile_n % 4 == 0);
    for (size_t i = 0; i < plan->region->outputs.n && !has_pairs; i++)
        if (dtype_bits(plan->region->outputs.at[i]->dtype) < 8)
            return false;
    return true;
}

static bool accepts_guest(const Region *region, const Schedule *schedule, const char **why) {
    *why = "only wgmma's blocks stay for more than a tile of one product";
    return !region->guest || schedule->path == MATMUL_WGMMA;
}

static bool accepts_planned(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    if (!accepts_guest(plan->region, schedule, why))
        return false;
    *why = "ease is 0, 1 or 2";
    if (schedule->ease < 0 || schedule->ease > 2 || !matmul_accepts_blocks(plan, schedule, why))
        return false;
    *why = "two threads would write one byte of an output of 4-bit elements";
    if (!accepts_bytes(plan, schedule))
        return false;
    *why = "rows of the first operand are reduced where its fragments are, by wgmma";
    if (plan->operand_rows.n && schedule->path != MATMUL_WGMMA && schedule->path != MATMUL_LOOP)
        return false;
    *why = "products are added up in one kernel by wgmma alone";
    if (plan->before && schedule->path != MATMUL_WGMMA && schedule->path != MATMUL_LOOP)
        return false;
    switch (schedule->path) {
    case MATMUL_WGMMA: return matmul_accepts_wgmma(matmul_wgmma_plan(plan), schedule, why);
    case MATMUL_MMA_SYNC: return matmul_accepts_mma(plan, schedule, why);
    case MATMUL_SIMT: return matmul_accepts_simt(plan, schedule, why);
    case MATMUL_GEMV: return matmul_accepts_gemv(plan, schedule, why);
    case MATMUL_LOOP: return true;
    case MATMUL_NONE: break;
    }
    *why = "no path is named: wgmma, mma, simt, gemv or loop";
    return false;
}

static bool matmul_accepts(const Graph *graph, const Region *region, const Schedule *schedule,
                           const Target *target, const char **why) {
    MatmulPlan plan;
    if (schedule->path == MATMUL_LOOP)
        return accepts_guest(region, schedule, why);
    return matmul_plan(graph, region, target, &plan, why) && accepts_planned(&plan, schedule, why);
}

bool matmul_is_short(const MatmulPlan *plan) {
    enum { SHORT = 16 };
    return dim_is_const(plan->k) && plan->k->value <= SHORT && !plan->before;
}

static int matmul_choose(const Graph *graph, const Region *region, const Target *target,
                         const DimBindings *hint, Schedule *out, int room) {
    MatmulPlan plan;
    const char *why;
    Schedule loop; /* each element its own sum: the path that always exists */
    if (room < 1 || template_any.schedules(graph, region, target, hint, &loop, 1) != 1)
        return 0;
    loop.path = MATMUL_LOOP;
    if (matmul_plan(graph, region, target, &plan, &why))
        return matmul_schedules(&plan, hint, &loop, out, room, accepts_planned);
    out[0] = loop;
    return !region->guest;
}

static void matmul_build(Builder *b, const Region *region) {
    MatmulPlan plan;
    const char *why;
    bool is_planned = matmul_plan(b->kernel->graph, region, b->kernel->target, &plan, &why);
    if (region->schedule.path != MATMUL_WGMMA)
        template_order(b, region);
    if (region->schedule.path == MATMUL_LOOP) {
        template_any.build(b, region);
        if (is_planned && matmul_is_short(&plan))
            b->kernel->summary = "matmul by a thread for each element, since K is short";
        return;
    }
    if (!is_planned) {
        diag_error(b->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': %s", region->name, why);
        return;
    }
    switch (region->schedule.path) {
    case MATMUL_WGMMA: matmul_build_wgmma(b, matmul_wgmma_plan(&plan)); return;
    case MATMUL_MMA_SYNC: matmul_build_mma(b, &plan); return;
    case MATMUL_SIMT: matmul_build_simt(b, &plan); return;
    case MATMUL_GEMV: matmul_build_gemv(b, &plan); return;
    case MATMUL_LOOP:
    case MATMUL_NONE: return;
    }
}

const Template template_matmul = {.name = "matmul",
                                  .accepts = matmul_accepts,
                                  .schedules = matmul_choose,
                                  .build = matmul_build,
                                  .orders = true};
