/* The matmul template: reads a region, chooses a path, hands over to its file. See matmul.h for the map. */
#include "codegen/lower.h"
#include "codegen/templates/cost_matmul.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"
#include "ir/block.h"

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
    return dtype_is_fp8(operand->narrow);
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
    plan->kind = result == DTYPE_F64 && plan->target->tensor_f64_flops > 0 ? MATMUL_F64 : MATMUL_FMA;
    plan_set_elems(plan, result);
    if (!plan->target->has_mma_bf16)
        return;
    if (is_int8 && (result == DTYPE_I32 || (result == DTYPE_F32 && matmul_has_scale(plan)))) {
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

/* The product over narrow memory with factors of blocks left to the accumulators; NULL where it has not that
 * form. Integers beside floats are no product of an instruction's. */
static const MatmulPlan *plan_scaled(const MatmulPlan *plan) {
    if (plan->before)
        return NULL;
    MatmulPlan *scaled = ARENA_NEW(plan->graph->arena, MatmulPlan);
    *scaled = *plan;
    if (!plan->a.is_memory)
        matmul_find_scale(plan->graph, plan->region, &scaled->a);
    for (int i = 0; i < plan->n_cores; i++)
        if (!plan->b[i].is_memory)
            matmul_find_scale(plan->graph, plan->region, &scaled->b[i]);
    if (!matmul_has_scale(scaled))
        return NULL;
    plan_kind(scaled);
    return scaled->kind == MATMUL_FP8 || scaled->kind == MATMUL_INT8 ? scaled : NULL;
}

/* The product, or those side by side, or the last of those that are added up. */
static bool plan_products(MatmulPlan *plan, const char **why) {
    const Region *region = plan->region;
    bool is_sum = region->sums.n > 0;
    MatmulSum sum = {0};
    if (is_sum)
        sum = matmul_last_sum(region);
    *why = "a matmul region has one to four products, or adds some up";
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
    matmul_read_operand(plan->graph, region, first, 0, &plan->a);
    for (int i = 0; i < plan->n_cores; i++) {
        const Value *product = is_sum ? sum.product : region->cores.at[i];
        plan->core[i] = is_sum ? sum.sum : product;
        matmul_read_operand(plan->graph, region, product, 1, &plan->b[i]);
        *why = "the products of one kernel share their first operand and their shape";
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
    bool is_planned = matmul_plan(plan->graph, region, plan->target, own, why);
    own->k_unit = NULL; /* its steps are those of the plan that hosts it */
    return is_planned;
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
    plan->of_statistics.arena = graph->arena;
    matmul_mark_dependents(plan, plan->statistics.at, (int)plan->statistics.n, NULL, 0, &plan->of_statistics);
    *why = "statistics of columns wait for each other";
    if (!plan_order_columns(plan))
        return false;
    if (!plan_guest(plan, why))
        return false;
    plan->scaled = plan_scaled(plan);
    plan->k_unit = matmul_find_k_unit(plan);
    return plan_outputs(plan, why);
}

bool matmul_holds_blocks(const MatmulPlan *plan, int columns, const char **why) {
    *why =
        "the epilogue reads other columns: a warp's columns must be whole blocks of those that trade places";
    return !plan->region->column_block || columns % plan->region->column_block == 0;
}

/* ---- the Template row */

/* Whether threads hold columns by the pair, as a byte of an output of 4-bit elements has them. */
static bool accepts_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    bool has_pairs = !schedule->swap_ab && (!matmul_streams(schedule->path) || schedule->tile_n % 4 == 0);
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
    case MATMUL_SKINNY: return matmul_accepts_skinny(plan, schedule, why);
    case MATMUL_LOOP: return true;
    case MATMUL_NONE: break;
    }
    *why = "no path is named: wgmma, mma, skinny, simt, gemv or loop";
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

static double matmul_seconds(const Graph *graph, const Region *region, const Target *target,
                             const DimBindings *hint, const Schedule *schedule) {
    MatmulPlan plan;
    Cost cost;
    const char *why;
    if (!matmul_plan(graph, region, target, &plan, &why))
        return 0;
    cost_begin(&cost, &plan, hint);
    return cost_product(&cost, schedule);
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
    case MATMUL_SKINNY: matmul_build_skinny(b, &plan); return;
    case MATMUL_LOOP:
    case MATMUL_NONE: return;
    }
}

const Template template_matmul = {.name = "matmul",
                                  .accepts = matmul_accepts,
                                  .schedules = matmul_choose,
                                  .seconds = matmul_seconds,
                                  .build = matmul_build,
                                  .orders = true};
