/* Operands that wgmma cannot take from memory as they are, made on the way: 8-bit weights with their scales,
 * a normalization that is applied. TMA brings the memory that the operand is mostly made of; a warpgroup
 * between the producer and the consumers computes the operand's elements from it, in registers, and puts them
 * down as the tile that wgmma reads.
 *
 *     producer  --TMA-->  raw ring  --converter: load, compute, round-->  stage  --wgmma-->  consumers
 *               --TMA------------------ the other operand ------------->
 *
 * Most of a stage's conversion is waiting, for shared memory and for conversions; so several warpgroups have
 * a stage each in turn. A stage is full when the bytes of the one operand and the four converting warps have
 * come.
 *
 * Memory that has the elements themselves, but not where TMA reads them from, they bring by themselves, of
 * both operands if need be (matmul_skew.c). */
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_operand.h"

/* `value` as an operand in memory with the coordinates of the computed one; false where TMA cannot read it.
 */
static bool convert_source(const MatmulPlan *plan, const MatmulOperand *operand, Value *value,
                           MatmulOperand *source) {
    const char *why;
    *source = *operand;
    source->value = value;
    source->is_parted = false;
    source->chosen = NULL;
    source->windows = NULL;
    source->chooses_rows = false;
    source->view = view_of(plan->graph, value, region_is_memory, (void *)(uintptr_t)plan->region);
    source->is_memory = region_reads(plan->region, source->view.base);
    if (!source->is_memory && !matmul_find_chosen(plan->graph, plan->region, source))
        return false;
    source->elem = source->view.base->dtype;
    matmul_read_view(source);
    return dtype_bits(source->elem) <= 16 && matmul_is_brought_by_tma(plan->graph, source, &why);
}

/* The widest of what the operand is computed from, element by element. */
static void convert_search(const MatmulPlan *plan, const MatmulOperand *operand, Value *value,
                           MatmulOperand *best, int depth) {
    enum { CONVERT_DEPTH = 16 };
    MatmulOperand source;
    if (!value_same_dims(value, operand->value) || depth > CONVERT_DEPTH)
        return;
    if (convert_source(plan, operand, value, &source)) {
        if (!best->value || dtype_bits(source.elem) > dtype_bits(best->elem))
            *best = source;
        return;
    }
    for (int i = 0; i < value->n_in && (op_is_scalar(value->op) || value->op == OP_cast); i++)
        convert_search(plan, operand, value->in[i], best, depth + 1);
}

bool matmul_convert_source(const MatmulPlan *plan, const MatmulOperand *operand, MatmulOperand *source) {
    *source = (MatmulOperand){0};
    convert_search(plan, operand, (Value *)(uintptr_t)operand->value, source, 0);
    int axis = source->major == MAJOR_K ? operand->k_axis : operand->mn_axis;
    bool is_memory = source->value == operand->value && source->elem == operand->elem;
    bool is_wide = operand->run_axis == axis && operand->run_width >= CONVERT_WIDTH;
    return source->value && (is_memory || is_wide);
}

bool matmul_is_converted(const MatmulPlan *plan, const MatmulOperand *operand) {
    const char *why;
    return !matmul_is_brought_by_tma(plan->graph, operand, &why) && !matmul_has_chosen_rows(operand) &&
           !matmul_is_dealt(plan, operand);
}

static int convert_operands(const MatmulPlan *plan) {
    int n = matmul_is_converted(plan, &plan->a);
    for (int i = 0; i < plan->n_cores; i++)
        n += matmul_is_converted(plan, &plan->b[i]);
    return n;
}

bool matmul_is_brought(const MatmulPlan *plan, const MatmulOperand *operand) {
    return matmul_is_converted(plan, operand) && matmul_is_skewed(operand);
}

bool matmul_brings(const MatmulPlan *plan) {
    int n = matmul_is_brought(plan, &plan->a);
    for (int i = 0; i < plan->n_cores; i++)
        n += matmul_is_brought(plan, &plan->b[i]);
    return n && n == convert_operands(plan);
}

int matmul_converters(const MatmulPlan *plan, const Schedule *schedule) {
    return schedule->fragments || !convert_operands(plan) ? 0
           : schedule->converters                         ? schedule->converters
                                                          : 1;
}

int matmul_warpgroups(const MatmulPlan *plan, const Schedule *schedule) {
    return 1 + matmul_converters(plan, schedule) + schedule->warps_m;
}

int matmul_convert_registers(const MatmulPlan *plan, const Schedule *schedule) {
    int converters = matmul_converters(plan, schedule), groups = matmul_warpgroups(plan, schedule);
    int at_launch = target_launch_registers(plan->target, groups);
    int left =
        groups * at_launch - schedule->producer_registers - schedule->warps_m * schedule->consumer_registers;
    left = left > 0 ? left / converters : 0;
    left = left < at_launch ? left : at_launch;
    /* the assembler refuses to keep more than any warp has */
    return (left < schedule->consumer_registers ? left : schedule->consumer_registers) / 8 * 8;
}

/* Stages that are made from one raw tile: as many as make its rows 128 bytes, without which memory delivers
 * less. Steps and stages must come in such numbers, so that the converter keeps its stages from tile to tile;
 * several converters, and those for several warpgroups, have raw tiles of one step each. */
static int convert_ratio(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *source) {
    int row = schedule->tile_k * dtype_bits(source->elem) / 8;
    bool is_even = dim_divisor(plan->graph->dims, plan->k) % (2 * (int64_t)schedule->tile_k) == 0 &&
                   schedule->stages % 2 == 0 && schedule->warps_m == 1 &&
                   matmul_converters(plan, schedule) == 1;
    return source->major == MAJOR_K && row == 64 && is_even ? 2 : 1;
}

/* Raw tiles in the ring. Where one warpgroup multiplies, few rows meet many weights: the more of them are on
 * their way, the better. */
static int convert_raw_stages(const Schedule *schedule) {
    return schedule->warps_m == 1 ? 2 * schedule->stages : schedule->stages;
}

bool matmul_accepts_convert(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                            const char **why) {
    MatmulOperand source;
    if (matmul_brings(plan)) {
        int tile_mn = (operand == &plan->a) != schedule->swap_ab ? schedule->tile_m : schedule->tile_n;
        *why =
            "one or two warpgroups bring rows that begin anywhere: lines of 64 elements, of columns, or of K "
            "four to a warp";
        int warps = 4 * matmul_converters(plan, schedule);
        if (plan->kind != MATMUL_16BIT || warps < 4 ||
            !matmul_skew_accepts(operand, tile_mn, schedule->tile_k, warps))
            return false;
        *why = "what is brought behind the last row is no zeros, which sums of columns would take in";
        if (plan->columns.n)
            return false;
    } else {
        *why = "a converting warpgroup makes one operand, of 16 bits, for one product";
        if (plan->kind != MATMUL_16BIT || plan->n_cores > 1 || convert_operands(plan) > 1)
            return false;
        *why = "what the operand is computed from does not lie as TMA reads it, in runs of 8 elements";
        if (!matmul_convert_source(plan, operand, &source))
            return false;
        *why = "TMA brings rows of whole 16 bytes";
        int along = source.major == MAJOR_K                      ? schedule->tile_k
                    : (operand == &plan->a) != schedule->swap_ab ? schedule->tile_m
                                                                 : schedule->tile_n;
        if (along * dtype_bits(source.elem) % (8 * CONVERT_LINE) != 0)
            return false;
    }
    *why = "a computed operand is not shared in a cluster, nor between warpgroups that take turns";
    if (schedule->cluster_m > 1 || schedule->cluster_n > 1 || schedule->split_k > 1 || schedule->ping_pong ||
        matmul_gang(plan, schedule) > 1)
        return false;
    *why = "one to three warpgroups convert, and each has its own stages";
    int converters = matmul_converters(plan, schedule);
    if (converters < 1 || converters > 3 || (!matmul_brings(plan) && schedule->stages % converters != 0))
        return false;
    *why = "a block has at most 64 mbarriers: two for each stage and each raw tile";
    if (2 * (schedule->stages + convert_raw_stages(schedule)) > 64)
        return false;
    *why = "at most four warpgroups multiply and convert";
    return schedule->warps_m + converters <= 4;
}

int64_t matmul_convert_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    int64_t bytes = 0;
    for (int i = 0; i < 1 + plan->n_cores && !schedule->fragments; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        MatmulOperand source;
        int tile_mn = (i != 0) == schedule->swap_ab ? schedule->tile_m : schedule->tile_n;
        if (matmul_is_brought(plan, operand))
            bytes += matmul_skew_bytes(operand, tile_mn);
        if (!matmul_is_converted(plan, operand) || !matmul_convert_source(plan, operand, &source))
            continue;
        int64_t tile = (int64_t)tile_mn * schedule->tile_k * convert_ratio(plan, schedule, &source);
        bytes +=
            (tile * dtype_bits(source.elem) / 8 + 16) * convert_raw_stages(schedule); /* and two mbarriers */
    }
    return bytes;
}

MatmulConvert matmul_convert(Builder *b, const MatmulPlan *plan, const Schedule *schedule,
                             const MatmulOperand *operand, const char *name, int tile_mn) {
    MatmulConvert convert = {.is_brought = matmul_is_brought(plan, operand)};
    if (convert.is_brought) {
        convert.skew = matmul_skew(b, plan, operand, name, tile_mn, schedule->tile_k, schedule->stages,
                                   4 * matmul_converters(plan, schedule));
        return convert;
    }
    convert.loader = matmul_loader(b, plan, operand, name, tile_mn, schedule->tile_k, schedule->stages,
                                   CONVERT_THREADS, MATMUL_WGMMA);
    MatmulOperand *source = ARENA_NEW(b->arena, MatmulOperand);
    matmul_convert_source(plan, operand, source);
    convert.ratio = convert_ratio(plan, schedule, source);
    int stages = convert_raw_stages(schedule), k = schedule->tile_k * convert.ratio;
    bool is_k = source->major == MAJOR_K;
    int rows = is_k ? tile_mn : k, cols = is_k ? k : tile_mn, bits = dtype_bits(source->elem);
    DType raw = bits < 8 ? DTYPE_U8 : source->elem; /* several as one */
    convert.ahead = stages - matmul_converters(plan, schedule);
    convert.ahead = convert.ahead > 0 ? convert.ahead : 1;
    convert.tma =
        (MatmulTma){.operand = source,
                    .tile = tile_shared(b, "raw_tile", raw, rows, cols * bits / dtype_bits(raw), stages),
                    .share = 1};
    convert.tma.maps = matmul_tma_maps(b, plan->graph->dims, &convert.tma);
    convert.raw = pipeline_new(b, "raw", stages);
    convert.loader.vector = CONVERT_WIDTH;
    convert.loader.source = source;
    convert.loader.source_tile = convert.tma.tile;
    return convert;
}

void matmul_convert_arrive(Builder *b, const Pipeline *stages, const PipelineState *stage) {
    k_atom(b, ATOM_fence_async, NULL, NULL, 0);
    pipeline_fill(b, stages, stage);
    pipeline_advance(b, stages, stage);
}

void matmul_convert_raw(Builder *b, MatmulConvert *convert, const Pipeline *stages, const PipelineState *raw,
                        const PipelineState *stage, const KExpr *mn0, const KExpr *k0,
                        const KExpr *const *batch) {
    MatmulLoader *loader = &convert->loader;
    for (int i = 0; i < convert->ratio; i++) {
        const KExpr *k = k_i32(b, (int64_t)i * loader->tile_k);
        /* what else the operand is computed from is on its way while the stages are waited for */
        matmul_load_start(b, loader, k_var(b, stage->stage), mn0, k_add(b, k0, k), batch, NULL);
        if (i == 0)
            pipeline_wait_full(b, &convert->raw, raw);
        pipeline_wait_empty(b, stages, stage);
        loader->source_stage = k_var(b, raw->stage);
        loader->source_k = k;
        matmul_load_finish(b, loader);
        matmul_convert_arrive(b, stages, stage);
    }
    pipeline_release(b, &convert->raw, k_var(b, raw->stage), NULL);
    pipeline_advance(b, &convert->raw, raw);
}
