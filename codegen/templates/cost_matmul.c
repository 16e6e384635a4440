/* An estimate of the time that a matrix product takes with a schedule, from its shapes and the target.
 *
 *     time = launch + max(memory, work) + a part of the smaller; memory = bytes / rate
 *     work = rounds * (steps of K * step + rest)
 *     step = max(product / tensor rate, tile bytes / L2 rate, latency / stages)
 *     rest = epilogue, and the latency of the first step where the ring starts empty
 *
 * Where memory sets the pace, loads take longer (latency), and what an SM does between rings adds to the time
 * of memory; K split over a cluster has its own steps, more tiles, and the meeting of the parts in its rest.
 *
 * The constants are fitted, by random search, to what the exhaustive tuner measured on an H200 for 400
 * products (tests/gpu/sweep), so that the schedule chosen is near the best; they serve as ratios for the
 * other targets. Some stand for something that can be looked up: an L2 that feeds an SM 64 bytes a clock in
 * theory gives about 50, and mma.sync reaches half of wgmma's rate on Hopper. */
#include "codegen/templates/cost_matmul.h"

#include <math.h>

#include "codegen/cost.h"

/* Seconds of a kernel, and more of one of each kind. */
static const double cost_launch = 2e-6;
static const double cost_wgmma_launch = 0.253e-6, cost_gemv_launch = 0.01e-6;
static const double cost_loop_launch = 0.203e-6, cost_cluster_launch = 2.45e-6;

/* Seconds of a load: where memory is not what all wait for, and where it is. */
static const double cost_latency = 1.3e-6, cost_memory_latency = 0.966e-6;
static const double cost_start = 0.3;     /* latencies that the first step of a ring waits */
static const double cost_overlap = 0.238; /* of the smaller of work and memory that adds to the larger */
static const double cost_again = 0.247;   /* share of a second reading by other SMs that L2 does not serve */

/* L2's bytes a clock for an SM, and as factors its time for a row of 128 bytes that lies in two lines, in
 * whole sectors or not, and for runs of 64 and of 32 bytes. */
static const double cost_clock = 1.7e9, cost_l2_per_clock = 64.8;
static const double cost_two_lines = 1.55, cost_five_sectors = 1.65;
static const double cost_half_lines = 2, cost_quarter_lines = 4;

/* Instructions an element of the result: alone, and more for an input of its own, an operation, a function,
 * and where rows of the output start anywhere. */
static const double cost_epilogue_slots = 15, cost_stream_slots = 3.53, cost_op_slots = 0.843;
static const double cost_function_slots = 7.22, cost_ragged_slots = 13.6, cost_mma_ragged_slots = 27.4;

/* Statistics that cost a pass over the elements each, and the share of one that more of them cost: the rounds
 * of a top-k. */
enum { COST_STATISTICS = 3 };
static const double cost_further_statistics = 0.1;

/* An epilogue's factors where one warpgroup alone does not fill the schedulers, and where it has statistics
 * of blocks of columns besides: a head's norm took 273 us where two warpgroups took 203. */
static const double cost_alone = 1.3, cost_alone_blocks = 2.5;

/* Bytes written twice, or read for it, where rows of two tiles meet in the middle of a line, or a sector. */
static const double cost_edge_line = 24.5, cost_edge_sector = 52.9;

/* Seconds: of a row statistic for each block of a gang, of parts of sums in a cluster, and of each element.
 */
static const double cost_exchange = 0.25e-6, cost_meeting_element = 0.000151e-6, cost_meeting = 0.647e-6;

static const double cost_wgmma_reads = 27;                            /* clocks for 64 rows of A */
static const double cost_wgmma_step = 0.0343e-6;                      /* seconds of a step's barriers */
static const double cost_cluster = 1.1, cost_cluster_round = 0.02e-6; /* a step's factor; a tile's end */
/* Warpgroups in turn: a step's factor, and the share of an epilogue that steps must hide. */
static const double cost_turns = 1.08, cost_turns_epilogue = 0.953;

/* How much longer than the formula says a step of wgmma's tiles takes, by columns: 64 rows of one warpgroup,
 * 128 and 256 of two that share a tile, 128 of two that take turns. */
enum { COST_KINDS = 4, COST_WIDTHS = 8 };
static const int cost_widths[COST_WIDTHS] = {24, 48, 72, 112, 136, 168, 200, 256}; /* up to so many columns */
static const double cost_tile[COST_KINDS][COST_WIDTHS] = {{0.99, 0.97, 1.06, 0.99, 0.97, 1.04, 0.99, 1.02},
                                                          {0.99, 0.99, 0.98, 0.97, 1.04, 1.03, 1.01, 0.93},
                                                          {0.99, 1.00, 0.99, 1.00, 0.94, 1.08, 1.02, 1.00},
                                                          {1.00, 1.00, 1.00, 1.00, 0.93, 1.01, 0.90, 1.00}};

/* mma.sync: its share of wgmma's rate, and of that in fp8; elements of a warp's tile, m n / (m + n), and
 * warps of an SM, that are enough for it; seconds of a step's barriers; the share of an unfilled last round
 * that counts; factors for loads by threads and for the epilogue. */
static const double cost_mma_on_hopper = 0.35, cost_mma_fp8 = 0.68;
static const double cost_mma_reuse = 21.3, cost_mma_warps = 2.5; /* 64 x 32 elements of a warp */
static const double cost_mma_step = 0.0111e-6, cost_mma_round = 0.569;
static const double cost_mma_loads = 0.988, cost_mma_epilogue = 0.867;

/* Operands that threads compute: instructions an access, accesses of a thread in flight, their latency. */
static const double cost_computed_slots = 14.3, cost_computed_lanes = 0.165, cost_computed_latency = 0.3e-6;
/* Slots for two elements of fragments that are computed, and more for each operation; the share of what is
 * shorter, computing or multiplying, that the other does not hide. An element that is converted on its way to
 * shared memory by those who multiply. */
static const double cost_fragment_slots = 12, cost_fragment_op_slots = 4, cost_fragment_overlap = 0.3;
static const double cost_convert_slots = 2.5;

/* A thread with an element of its own: instructions and seconds for each of K. */
static const double cost_loop_slots = 11.7, cost_loop_latency = 0.0368e-6;

/* gemv: seconds of a load, a block, the parts of a cluster; instructions a weight for each row, and for a
 * column's sum; shares, see cost_gemv_seconds(). */
static const double cost_gemv_latency = 0.608e-6, cost_gemv_block = 0.295e-6, cost_gemv_meeting = 0.984e-6;
static const double cost_gemv_slots = 2.33, cost_gemv_column = 0.549;
static const double cost_gemv_idle = 0.469, cost_gemv_end = 0.465;

/* A schedule's work, as one SM sees it. */
typedef struct CostShare {
    int cluster_m, cluster_n, split, gang;
    double rows, cols, tiles_m, tiles_n; /* of the product as the schedule takes it */
    double rounds;                       /* tiles, one after another */
    double steps;                        /* of K */
    double crowd; /* blocks that share the SM's matrix unit and its way to L2, not the latency */
} CostShare;

/* Rate of the matrix unit, of the whole machine, for the kind of product. */
static double cost_rate(const MatmulPlan *plan) {
    double tensor = plan->target->tensor_flops;
    switch (plan->kind) {
    case MATMUL_16BIT: return tensor;
    case MATMUL_TF32: return tensor / 2;
    case MATMUL_FP8:
    case MATMUL_INT8: return 2 * tensor;
    case MATMUL_FMA:
        return dtype_bits(plan->a.elem) == 64 ? plan->target->fma_flops / 2 : plan->target->fma_flops;
    }
    return tensor;
}

/* wgmma reads 64 rows of A anew for every instruction: below n = 64 shared memory, not the matrix unit, sets
 * the pace. */
static double cost_efficiency(const MatmulPlan *plan, const Schedule *s) {
    if (s->path == MATMUL_WGMMA) {
        double cols = matmul_partial_cols(plan, s) ? matmul_partial_cols(plan, s) : s->tile_n;
        double product = cols / 2.0, reads = cost_wgmma_reads + cols / 4.0;
        return product / (product > reads ? product : reads);
    }
    if (s->path == MATMUL_MMA_SYNC) {
        double m = s->tile_m / (double)s->warps_m, n = s->tile_n / (double)s->warps_n;
        double reuse = m * n / (m + n) / cost_mma_reuse; /* 64 x 32 elements of a warp are enough */
        double hopper = plan->target->has_wgmma ? cost_mma_on_hopper : 0.85;
        if (plan->kind == MATMUL_FP8)
            hopper *= cost_mma_fp8;
        return hopper * (reuse < 1 ? reuse : 1);
    }
    double reuse = (double)s->tile_m * s->tile_n / (128.0 * 128);
    return 0.8 * sqrt(reuse < 1 ? reuse : 1);
}

/* Accesses of a stage of the operands that threads compute instead of copying. */
static double cost_accesses(const MatmulPlan *plan, const Schedule *s) {
    if (s->path == MATMUL_WGMMA)
        return 0;
    double accesses = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        int tile_mn = i ? s->tile_n : s->tile_m,
            width = operand->copy_width ? operand->copy_width : operand->run_width;
        bool is_converted = !operand->is_memory || operand->narrow != operand->elem;
        if (matmul_loader_registers(plan, operand, s, tile_mn, 32))
            accesses += (double)tile_mn * s->tile_k *
                        (1.0 / width + (is_converted ? cost_convert_slots / cost_computed_slots : 0));
    }
    return accesses;
}

/* Time in which the threads of an SM's blocks compute a stage. */
static double cost_computed(const MatmulPlan *plan, const Schedule *s, double crowd) {
    double accesses = cost_accesses(plan, s), lanes = fmin(128, s->threads * crowd * cost_computed_lanes);
    return accesses * crowd * cost_computed_slots / lanes / cost_clock;
}

/* Time in which the consumers of a block compute a stage's fragments. */
static double cost_fragments(const MatmulPlan *plan, const Schedule *s) {
    if (s->path != MATMUL_WGMMA || !s->fragments)
        return 0;
    const MatmulOperand *operand = s->swap_ab ? &plan->b[0] : &plan->a;
    double slots = cost_fragment_slots;
    for (size_t i = 0; i < plan->region->values.n; i++)
        if (value_same_dims(plan->region->values.at[i], operand->value) &&
            op_is_scalar(plan->region->values.at[i]->op))
            slots += cost_fragment_op_slots / plan->n_cores;
    double words = (double)s->tile_m * s->tile_k / 2 * (s->swap_ab ? plan->n_cores : 1);
    return words / 128 * slots / cost_clock;
}

/* Time of a stage of an operand that warpgroups convert: 64 x 64 elements of 8 bits took 417, 331 and 300 ns
 * with one, two and three of them. */
static double cost_converted(const MatmulPlan *plan, const Schedule *s) {
    int converters = s->path == MATMUL_WGMMA ? matmul_converters(plan, s) : 0;
    if (!converters)
        return 0;
    bool is_rows = matmul_is_converted(plan, &plan->a) != s->swap_ab;
    double elements = (double)(is_rows ? s->tile_m : s->tile_n) * s->tile_k;
    return elements / 4096 * (240e-9 + 180e-9 / converters);
}

const MatmulPlan *cost_plan(const Cost *c, const Schedule *s) {
    return s->path == MATMUL_WGMMA ? matmul_wgmma_plan(c->plan) : c->plan;
}

/* Blocks that run at once where each SM has one. A cluster lies within a GPC, whose SMs it need not divide:
 * an H100's 132 SMs hold 66 clusters of 2, 30 of 4 and 15 of 8. */
static double cost_slots(const Target *target, int cluster) {
    return cluster <= 2 ? target->sm_count : floor(target->sm_count * 0.91 / cluster) * cluster;
}

static CostShare cost_share(const Cost *c, const MatmulPlan *plan, const Schedule *s) {
    const Target *target = plan->target;
    CostShare w = {.cluster_m = s->cluster_m > 1 ? s->cluster_m : 1,
                   .cluster_n = s->cluster_n > 1 ? s->cluster_n : 1,
                   .split = s->split_k > 1 ? s->split_k : 1,
                   .gang = matmul_gang(plan, s),
                   .rows = (double)(s->swap_ab ? c->n : c->m),
                   .cols = (double)(s->swap_ab ? c->m : c->n)};
    w.tiles_m = ceil(w.rows / (s->tile_m * w.cluster_m)) * w.cluster_m;
    w.tiles_n = ceil(w.cols / (s->tile_n * w.cluster_n)) * w.cluster_n;
    double tiles = w.tiles_m * w.tiles_n * (double)c->batch * w.split; /* or parts of them */
    int occupancy = matmul_blocks_per_sm(plan, s), all = target->sm_count * occupancy;
    double slots = w.gang > 1 ? all / w.gang * w.gang : cost_slots(target, w.split) * occupancy;
    w.rounds = fmax(1, ceil(tiles / slots));         /* also of nothing */
    if (s->path == MATMUL_MMA_SYNC && tiles > slots) /* blocks start when others end */
        w.rounds = tiles / slots + cost_mma_round * (w.rounds - tiles / slots);
    w.steps = fmax(1, ceil(ceil((double)c->k / s->tile_k) / w.split));
    w.crowd = tiles < all ? fmax(1, ceil(tiles / target->sm_count)) : occupancy;
    return w;
}

/* How much longer than the formula says a step of the tile takes. */
static double cost_of_tile(const Schedule *s) {
    int kind = s->ping_pong ? 3 : s->warps_m == 1 ? 0 : s->tile_m == 128 ? 1 : 2, width = 0;
    while (width < COST_WIDTHS - 1 && s->tile_n > cost_widths[width])
        width++;
    return cost_tile[kind][width];
}

/* L2's time for a tile's columns where the operand that gives them is contiguous along them, since TMA brings
 * these in runs that divide them: a batch of 592 x 1256 x 8192 took 279 us with 224 columns a tile, 173 with
 * 256. */
static double cost_runs(const MatmulOperand *operand, const Schedule *s) {
    int bytes = s->tile_n * dtype_bits(operand->elem) / 8;
    if (s->path != MATMUL_WGMMA || operand->major != MAJOR_MN || bytes % 128 == 0)
        return 1;
    return bytes % 64 == 0 ? cost_half_lines : cost_quarter_lines;
}

/* A step of K. */
static double cost_step(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    bool is_mma = s->path == MATMUL_MMA_SYNC;
    double units = is_mma ? fmin(1, s->threads / 32 * w->crowd / cost_mma_warps) : 1;
    double flops = 2.0 * s->tile_m * s->tile_n * s->tile_k * plan->n_cores;
    double rate = cost_rate(plan) / plan->target->sm_count * cost_efficiency(plan, s) * units;
    double computed = cost_computed(plan, s, w->crowd);
    double product = fmax(fmax(flops * w->crowd / rate, computed), cost_converted(plan, s) * w->crowd);
    double fragments = cost_fragments(plan, s) * w->crowd;
    product = fmax(product, fragments) + cost_fragment_overlap * fmin(product, fragments);
    int n_cols = plan->n_cores; /* two products: two tiles of their second operand */
    double rows = (double)s->tile_m / w->cluster_n, cols = (double)s->tile_n / w->cluster_m;
    double row_bits = matmul_stage_bits(plan, s, true), col_bits = matmul_stage_bits(plan, s, false);
    col_bits *= cost_runs(s->swap_ab ? &plan->a : &plan->b[0], s);
    double bits = s->swap_ab ? rows * n_cols * c->lines_b * row_bits + cols * c->lines_a * col_bits
                             : rows * c->lines_a * row_bits + cols * n_cols * c->lines_b * col_bits;
    double bytes = bits * s->tile_k / 8;
    double feed = bytes * w->crowd / (cost_l2_per_clock * cost_clock);
    double latency =
        (c->from_memory ? cost_memory_latency : cost_latency) / (s->stages > 1 ? s->stages - 1 : 1);
    double step = fmax(fmax(product, feed), latency);
    if (computed > 0) /* its loads are one step ahead, whatever the stages */
        step = fmax(step, cost_computed_latency);
    if (s->path != MATMUL_WGMMA)
        return step + cost_mma_step;
    return (step + cost_wgmma_step) * cost_of_tile(s) * (w->cluster_m * w->cluster_n > 1 ? cost_cluster : 1);
}

static double cost_epilogue(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    double n = (double)(plan->statistics.n + plan->columns.n);
    if (n > COST_STATISTICS)
        n = COST_STATISTICS + (n - COST_STATISTICS) * cost_further_statistics;
    double elements = (double)s->tile_m * s->tile_n * (1 + n);
    bool is_mma = s->path == MATMUL_MMA_SYNC;
    double ragged = !c->is_ragged ? 0 : is_mma ? cost_mma_ragged_slots : cost_ragged_slots;
    double seconds = elements * w->crowd * (c->slots + ragged) / 128 / cost_clock;
    if (is_mma) /* fewer than four warps do not fill the schedulers */
        seconds *= cost_mma_epilogue * fmax(1, 4.0 / (s->threads / 32 * w->crowd));
    if (s->path == MATMUL_WGMMA && s->warps_m == 1 && w->crowd <= 1)
        seconds *= plan->block_cols ? cost_alone_blocks : cost_alone;
    return seconds;
}

static double cost_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = cost_plan(c, s);
    const Target *target = plan->target;
    CostShare w = cost_share(c, plan, s);
    bool is_wgmma = s->path == MATMUL_WGMMA, is_cluster = w.cluster_m * w.cluster_n > 1;
    double step = cost_step(c, plan, s, &w), epilogue = cost_epilogue(c, plan, s, &w);
    if (s->ping_pong) { /* the other warpgroup multiplies meanwhile */
        step = fmax(step, cost_turns_epilogue * epilogue / w.steps) * cost_turns;
        epilogue /= w.rounds;
    }
    bool runs_ahead = is_wgmma && w.rounds > 1 && w.split == 1;
    double latency = c->from_memory ? cost_memory_latency : cost_latency;
    double rest = epilogue + (runs_ahead ? 0 : cost_start * latency) + (is_cluster ? cost_cluster_round : 0) +
                  (w.split > 1 ? cost_meeting + cost_meeting_element * s->tile_m * s->tile_n : 0) +
                  (w.gang > 1 ? cost_exchange * (double)plan->statistics.n * w.gang : 0);
    double work = w.rounds * (w.steps * step + rest);
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    memory += c->edge * w.rows * w.tiles_n * (double)c->batch / target->memory_bytes_per_second;
    if (c->from_memory) {
        /* the larger operand is brought to SMs once for each tile across it */
        double again = w.rows > w.cols ? w.rows * (w.tiles_n - 1) : w.cols * (w.tiles_m - 1);
        memory += cost_again * again * (double)c->k * (double)c->batch * dtype_bits(plan->a.elem) / 8 /
                  target->memory_bytes_per_second;
        memory += runs_ahead ? 0 : w.rounds * rest; /* while which nothing is loaded */
    }
    double seconds = cost_launch + fmax(work, memory) + cost_overlap * fmin(work, memory) +
                     (is_cluster ? cost_cluster_launch : 0) + (is_wgmma ? cost_wgmma_launch : 0);
    return s->path == MATMUL_MMA_SYNC && target->has_wgmma ? cost_mma_loads * seconds : seconds;
}

static double cost_loop_seconds(const Cost *c) {
    const Target *target = c->plan->target;
    double work =
        (double)c->m * (double)c->n * (double)c->k * cost_loop_slots / (128 * cost_clock * target->sm_count);
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    double waves = ceil((double)c->m * (double)c->n / (2048.0 * target->sm_count));
    return cost_launch + cost_loop_launch + fmax(work, waves * (double)c->k * cost_loop_latency) + memory;
}

/* Few rows: blocks that wait for memory and add in between. Enough warps on an SM hide the one behind the
 * other. Of the bytes that all blocks together have to go, the last to finish leave the machine part idle, so
 * that small blocks end more evenly. */
static double cost_gemv_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = c->plan;
    const Target *target = plan->target;
    int split = s->split_k > 1 ? s->split_k : 1;
    int64_t rows = s->swap_ab ? c->n : c->m, cols = s->swap_ab ? c->m : c->n;
    double tiles = ceil((double)rows / s->tile_m) * ceil((double)cols / s->tile_n) * (double)c->batch;
    double blocks = tiles * split, slots = cost_slots(target, split) * matmul_blocks_per_sm(plan, s);
    double rounds = fmax(1, blocks / slots);
    double steps = ceil(ceil((double)c->k / s->tile_k) / split);
    double waiting = rounds * (steps * cost_gemv_latency + cost_gemv_block);
    double weights = blocks * s->tile_n * steps * s->tile_k * plan->n_cores;
    double slow =
        2 + s->tile_m * (cost_gemv_slots +
                         cost_gemv_column / matmul_gemv_columns(plan, s)); /* instructions a weight */
    double adds = weights * slow / (128 * cost_clock * fmin(blocks, target->sm_count));
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    memory *= fmax(1, sqrt(128.0 / matmul_gemv_line(plan, s))); /* it comes by half lines, and by pages */
    double longest = fmax(memory, fmax(waiting, adds)), others = memory + waiting + adds - longest;
    double warps = fmin(blocks, slots) / target->sm_count * s->threads / 32;
    double idle = 0.05 + cost_gemv_idle * fmax(0, 1 - warps / 32);
    return cost_launch + cost_gemv_launch + longest + idle * others + cost_gemv_end * memory / rounds +
           (split > 1 ? cost_gemv_meeting : 0);
}

/* L2's time for a row of a tile, 128 bytes of a row of memory. */
static double cost_lines(const Graph *graph, const MatmulOperand *operand, const DimBindings *hint) {
    int along = operand->major == MAJOR_K ? operand->mn_axis : operand->k_axis;
    if (!operand->is_memory || !operand->view.strides[along])
        return 1;
    int64_t pitch = cost_extent(graph, operand->view.strides[along], hint) * dtype_bits(operand->elem) / 8;
    return pitch % 128 == 0 ? 1 : pitch % 32 == 0 ? cost_two_lines : cost_five_sectors;
}

/* Instructions of the region's epilogue for an element. What is computed before the product counts too: it is
 * a candidate's share as well. */
static double cost_region_slots(const Region *region, int streams) {
    double slots = cost_epilogue_slots + cost_stream_slots * streams;
    for (size_t i = 0; i < region->values.n; i++) {
        OpKind op = region->values.at[i]->op;
        if (op_is_scalar(op))
            slots += op == OP_div || op_info(op)->rule == RULE_FLOAT ? cost_function_slots : cost_op_slots;
    }
    return slots;
}

void cost_begin(Cost *c, const MatmulPlan *plan, const DimBindings *hint) {
    const Graph *graph = plan->graph;
    const Value *output = plan->region->outputs.at[0];
    int streams = cost_streams(graph, plan->region);
    *c = (Cost){.plan = plan,
                .m = cost_extent(graph, plan->m, hint),
                .n = cost_extent(graph, plan->n, hint),
                .k = cost_extent(graph, plan->k, hint),
                .batch = cost_space(graph, plan->region, 0, plan->batch_rank, hint),
                .bytes = cost_bytes(graph, plan->region, hint),
                .slots = cost_region_slots(plan->region, streams),
                .has_inputs = streams > 0,
                .lines_a = cost_lines(graph, &plan->a, hint),
                .lines_b = cost_lines(graph, &plan->b[0], hint)};
    int64_t pitch = output->rank ? cost_extent(graph, output->dims[output->rank - 1], hint) *
                                       dtype_bits(output->dtype) / 8
                                 : 0;
    c->is_ragged = pitch % 16 != 0;
    c->edge = pitch % 32 ? cost_edge_sector : pitch % 128 ? cost_edge_line : 0;
    double flops = 2.0 * (double)c->m * (double)c->n * (double)c->k * (double)c->batch * plan->n_cores;
    c->from_memory = flops / cost_rate(plan) < (double)c->bytes / plan->target->memory_bytes_per_second;
}

double cost_product(const Cost *c, const Schedule *s) {
    switch (s->path) {
    case MATMUL_LOOP: return cost_loop_seconds(c);
    case MATMUL_GEMV: return cost_gemv_seconds(c, s);
    default: return cost_seconds(c, s);
    }
}
