/* An estimate of the time that a matrix product takes with a schedule, from its shapes and the target; here
 * that of tiles by mma.sync, and of a thread for each element.
 *
 *     time = launch + blocks' starts + work + bytes / memory rate     what blocks store, others do not hide
 *     work = rounds * (steps of K * step + epilogue + what is left of waiting beside other blocks' work)
 *     step = max(product / tensor rate, tile bytes / L2 rate)     where that is short, it waits for loads */
#include "codegen/templates/cost_matmul.h"

#include <math.h>

#include "codegen/cost.h"
#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_tiles.h"
#include "ir/base/checked.h"

/* Seconds of a kernel. */
static const double cost_launch = 4.6e-6, cost_loop_launch = 4.92e-6;

static const double cost_latency = 0.0837e-6; /* of a load, in seconds */
static const double cost_start = 0.16;        /* latencies that the first step of a ring waits */
static const double cost_hidden = 0.6;  /* the share of other blocks' work that hides a block's waiting */
static const double cost_again = 0.149; /* share of a second reading by other SMs that L2 does not serve */

/* L2's bytes a clock for an SM, and as factors its time for a row of 128 bytes that lies in two lines, in
 * whole sectors or not. */
static const double cost_l2_per_clock = 81.2, cost_two_lines = 1.29, cost_five_sectors = 1.84;

/* Instructions an element of the result: alone, and more for an input of its own, an operation, a function,
 * and a store of one where rows of the output start anywhere; warps of an SM that wait in them as long as
 * they work. */
static const double cost_epilogue_slots = 14.5, cost_stream_slots = 3.53, cost_op_slots = 0.843;
static const double cost_function_slots = 7.22, cost_ragged_slots = 30, cost_waiting_warps = 1.63;

/* Statistics that cost a pass over the elements each, and the share of one that more of them cost: the rounds
 * of a top-k. */
enum { COST_STATISTICS = 3 };
static const double cost_further_statistics = 0.1;

/* Bytes written twice, or read for it, where rows of two tiles meet in the middle of a line, or a sector. */
static const double cost_edge_line = 15.5, cost_edge_sector = 40;

/* mma.sync: its share of wgmma's rate, and of that in fp8; elements of a warp's tile, m n / (m + n), and
 * warps of an SM, that are enough for it; seconds of a step's barriers; the share of an unfilled last round
 * that counts. */
static const double cost_mma_on_hopper = 0.268, cost_mma_fp8 = 0.314;
static const double cost_mma_reuse = 4.51, cost_mma_warps = 1.33; /* 16 x 16 elements of a warp */
static const double cost_mma_step = 0.136e-6, cost_mma_round = 0.635;

/* The same in f64: the share of shared memory's time that adds to that of the products, and the sum of both
 * at which they have their full rate; warps, two for each of an SM's four matrix units, and what is lost with
 * none of them; L2's bytes a clock for all SMs together, of which tiles of such elements want more than the
 * others; and the share of memory's time that is not hidden behind products, which take so long, and what it
 * takes where they do not (8 and 16 x 4096 x 4096: 2.9 TB/s). By 300 schedules of four products on an H200.
 */
static const double cost_f64_shared = 0.1, cost_f64_full = 0.97, cost_f64_warps = 8, cost_f64_few = 0.28,
                    cost_f64_l2 = 5900;
static const double cost_f64_memory = 0.2, cost_f64_streamed = 1.45;

/* The same in tf32, where wgmma is: clocks of an SM's matrix units that mma.sync takes for one of wgmma's,
 * the share of the full rate at which it, or shared memory where that takes longer, is kept busy; and the
 * share of memory's time, or of the work's if that is less, that many rounds of blocks hide. Not fitted. */
static const double cost_words_sync = 1.6, cost_words_full = 0.85, cost_words_hidden = 0.7;

/* Bytes a second of the memory that the estimates were fitted with. Where that sets the pace, what other SMs
 * read again counts. It is L2 that they wait for: with a slower memory's rate (H100) products of 256 to 320
 * rows would count it, and took 2 us of 13 more by schedules that read less again. */
static const double cost_fitted_memory = 4.3e12;

/* Seconds of a block, and of each row that it reads, that all others wait for where rows of the few columns
 * are as short as a sector: every block reads the same few lines. Not fitted: 13096 x 8 x 72 took 819
 * blocks 13.6 us, 410 9.3, 205 7.4 and 103 6.4, and 4610 x 8 x 424 took 289 of them 13.2 and 73 8.2. */
static const double cost_same_block = 6.5e-9, cost_same_row = 0.039e-9;
/* The same with 16 bytes of K a row, which pass L1 by, unlike 8 of them: 5320 x 104 x 8 took 333 blocks 8.2,
 * 167 6.8 and 84 6.05, 24 x 5104 x 8 took 638 6.0, 160 5.25 and 80 4.75, and 4 x 12544 x 4 784 4.5. */
static const double cost_short_block = 0.8e-9, cost_short_row = 0.04e-9;

/* Operands that threads compute: instructions an access, accesses of a thread in flight, their latency, and
 * instructions to convert an element. */
static const double cost_computed_slots = 4.87, cost_computed_lanes = 0.234, cost_computed_latency = 0.114e-6;
static const double cost_convert_slots = 2.5;
/* The same where an index is read for each access: pairs for 64 blocks of 4 rows, 1536 x 3072, took 253 us.
 */
static const double cost_chosen = 2;
/* The same of windows, whose places and borders are found for each: 3 x 3 taps of groups of 8 and of 24
 * channels took 124 and 123 us where 57 and 72 were expected, 7 x 7 of 16 and of 40 836 and 627 for 369 and
 * 321, a gradient of weights 525 for 217. */
static const double cost_windows = 2.1;

/* A thread with an element of its own: instructions, and more and seconds for each of K. 3312 x 24 x 16,
 * whose neighbours' columns are eight to a bank of L1, took 1.5 us besides a kernel's start, 10432 x 64 x
 * 11 3.8. */
static const double cost_loop_base = 43.2, cost_loop_slots = 10.4, cost_loop_latency = 0.0396e-6;

/* Seconds to start a block, and a warp of it. 2 x 1868 x 61 by gemv took 1868 blocks of four warps 5.2 us,
 * 934 of eight 4.85 and of four 4.65; fitted, as are the figures of a launch, to 105 products of a short K or
 * of few rows or columns. */
static const double cost_block = 0.4e-9, cost_warp = 0.0752e-9;

double cost_fma_rate(const MatmulPlan *plan) {
    return dtype_bits(plan->a.elem) == 64 ? plan->target->fma_flops / 2 : plan->target->fma_flops;
}

double cost_rate(const MatmulPlan *plan) {
    double tensor = plan->target->tensor_flops;
    switch (plan->kind) {
    case MATMUL_16BIT: return tensor;
    case MATMUL_TF32: return tensor / 2;
    case MATMUL_FP8:
    case MATMUL_INT8: return 2 * tensor;
    case MATMUL_F64: return plan->target->tensor_f64_flops;
    case MATMUL_FMA: return cost_fma_rate(plan);
    }
    return tensor;
}

/* By mma.sync: clocks of shared memory, to one of products, of elements of so many bytes. For m n products of
 * a step a warp reads m + n elements of it. */
static double cost_mma_shared(const Schedule *s, int bytes, int products) {
    enum { SHARED_BYTES = 128 };
    double m = s->tile_m / (double)s->warps_m, n = s->tile_n / (double)s->warps_n;
    double read = (m + n) / (m * n), written = (s->tile_m + s->tile_n) / (double)(s->tile_m * s->tile_n);
    return (read + written) * bytes * products / SHARED_BYTES;
}

/* Whether a product is tf32's by mma.sync, of a target whose rate is wgmma's. */
static bool cost_is_words(const MatmulPlan *plan, const Schedule *s) {
    return s->path == MATMUL_MMA_SYNC && plan->kind == MATMUL_TF32 && plan->target->has_wgmma;
}

static double cost_efficiency(const MatmulPlan *plan, const Schedule *s) {
    enum { PRODUCTS_F64 = 128, PRODUCTS_WORDS = 1024 /* an SM's in a clock */ };
    if (matmul_is_mma_f64(plan, s)) /* shared memory has little time to spare */
        return fmin(1, cost_f64_full / (1 + cost_f64_shared * cost_mma_shared(s, 8, PRODUCTS_F64)));
    if (cost_is_words(plan, s))
        return cost_words_full / fmax(cost_words_sync, cost_mma_shared(s, 4, PRODUCTS_WORDS));
    double m = s->tile_m / (double)s->warps_m, n = s->tile_n / (double)s->warps_n;
    double reuse = m * n / (m + n) / cost_mma_reuse; /* 64 x 32 elements of a warp are enough */
    double hopper = plan->target->has_wgmma ? cost_mma_on_hopper : 0.85;
    if (plan->kind == MATMUL_FP8)
        hopper *= cost_mma_fp8;
    return hopper * (reuse < 1 ? reuse : 1);
}

int cost_operations(const MatmulPlan *plan, const MatmulOperand *operand) {
    int n = 0;
    for (size_t i = 0; i < plan->region->values.n && !operand->is_memory; i++)
        n += value_same_dims(plan->region->values.at[i], operand->value) &&
             op_is_scalar(plan->region->values.at[i]->op);
    return n;
}

/* Accesses of a stage of the operands that threads compute instead of copying; none beyond their ends. */
static double cost_accesses(const MatmulPlan *plan, const Schedule *s, const CostShare *w, double depth) {
    double accesses = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        int tile_mn = i ? s->tile_n : s->tile_m,
            width = operand->copy_width ? operand->copy_width : operand->run_width;
        bool is_converted = !operand->is_memory || operand->narrow != operand->elem;
        double slots = is_converted ? cost_convert_slots * (1 + cost_operations(plan, operand)) : 0;
        double each = 1.0 / width + slots / cost_computed_slots;
        each *= operand->chosen ? cost_chosen : operand->windows ? cost_windows : 1;
        if (matmul_loader_registers(plan, operand, s, tile_mn, 32))
            accesses += fmin(tile_mn, i ? w->cols : w->rows) * depth * each;
    }
    return accesses;
}

/* Time in which the threads of an SM's blocks compute a stage. */
double cost_computed(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    double accesses = cost_accesses(plan, s, w, (double)c->k / w->steps),
           lanes = fmin(128, s->threads * w->crowd * cost_computed_lanes);
    return accesses * w->crowd * cost_computed_slots / lanes / cost_clock;
}

const MatmulPlan *cost_plan(const Cost *c, const Schedule *s) {
    return s->path == MATMUL_WGMMA ? matmul_wgmma_plan(c->plan) : c->plan;
}

/* Steps of K of one of the blocks that share it: each product of a sum begins one of its own. */
static double cost_steps(const Cost *c, const Schedule *s, int split) {
    const MatmulPlan *plan = cost_plan(c, s);
    double steps = 0;
    for (int i = 0; i < c->n_terms; i++, plan = plan->before) {
        int64_t filled = s->path == MATMUL_WGMMA ? matmul_filled_unit(plan, s) : 0;
        double parts = filled ? ceil((double)c->term_k[i] / (double)plan->k_unit->value) : 0;
        double all = filled ? parts * (double)(filled / s->tile_k) : ceil((double)c->term_k[i] / s->tile_k);
        steps += ceil(all / split);
    }
    return steps;
}

double cost_starting(double blocks, int threads) {
    return blocks * (cost_block + cost_warp * threads / 32);
}

CostShare cost_share(const Cost *c, const MatmulPlan *plan, const Schedule *s) {
    const Target *target = plan->target;
    CostShare w = {.cluster_m = s->cluster_m > 1 ? s->cluster_m : 1,
                   .cluster_n = s->cluster_n > 1 ? s->cluster_n : 1,
                   .split = matmul_split(s),
                   .gang = matmul_gang(plan, s),
                   .rows = (double)(s->swap_ab ? c->n : c->m),
                   .cols = (double)(s->swap_ab ? c->m : c->n)};
    w.tiles_m = ceil(w.rows / (s->tile_m * w.cluster_m)) * w.cluster_m;
    MatmulPatch patch = matmul_patch_of(plan, s);
    if (patch.axes)
        w.tiles_m =
            patch.is_along_k ? (double)matmul_patch_tiles(&patch) : cost_patches(&patch, (double)c->m);
    w.tiles_n = ceil(w.cols / (s->tile_n * w.cluster_n)) * w.cluster_n;
    double tiles = w.tiles_m * w.tiles_n * (double)c->batch * w.split; /* or parts of them */
    int occupancy =
        s->path == MATMUL_MMA_SYNC ? matmul_blocks_that_fit(plan, s) : matmul_blocks_per_sm(plan, s);
    int all = target->sm_count * occupancy;
    double slots = w.gang > 1 ? all / w.gang * w.gang
                              : target_clustered_sms(target, w.cluster_m * w.cluster_n * w.split) * occupancy;
    w.rounds = fmax(1, ceil(tiles / slots));         /* also of nothing */
    if (s->path == MATMUL_MMA_SYNC && tiles > slots) /* blocks start when others end */
        w.rounds = tiles / slots + cost_mma_round * (w.rounds - tiles / slots);
    w.steps = fmax(1, patch.is_along_k ? cost_patches(&patch, (double)c->k) : cost_steps(c, s, w.split));
    w.crowd = tiles < all ? fmax(1, ceil(tiles / target->sm_count)) : occupancy;
    w.all = fmin(s->stream_k ? target->sm_count : tiles, all);
    w.abreast = s->stream_k ? w.all : fmin(w.all, tiles / fmax(1, ceil(tiles / slots)));
    w.steps = cost_reached_steps(plan, s, &w);
    return w;
}

double cost_statistics(double n) {
    return 1 + fmin(n, COST_STATISTICS) + fmax(0, n - COST_STATISTICS) * cost_further_statistics;
}

double cost_bytes_again(const Cost *c, const CostShare *w) {
    double again = w->rows > w->cols ? w->rows * (w->tiles_n - 1) : w->cols * (w->tiles_m - 1);
    return again * (double)c->k * (double)c->batch * dtype_bits(c->plan->a.elem) / 8;
}

double cost_of_rows(CostRows rows, double aligned, double sectors, double anywhere) {
    return rows == COST_ROWS_ALIGNED ? aligned : rows == COST_ROWS_SECTORS ? sectors : anywhere;
}

double cost_seams(const Schedule *s, const CostShare *w) {
    return w->tiles_n <= 1 && !s->swap_ab ? 0 : w->rows * w->tiles_n;
}

/* L2's time for a row of 128 bytes of an operand. */
static double cost_row(CostRows rows) {
    return cost_of_rows(rows, 1, cost_two_lines, cost_five_sectors);
}

/* Share of their rate at which so many warps keep an SM's matrix units. */
static double cost_units(const MatmulPlan *plan, double warps) {
    if (plan->kind != MATMUL_F64)
        return fmin(1, warps / cost_mma_warps);
    return fmin(1, 1 - cost_f64_few * (1 - warps / cost_f64_warps));
}

/* A step of K: in which the SM is busy, and in which it waits besides, unless it has other blocks. */
static double cost_step(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w,
                        double *waits) {
    double units = cost_units(plan, s->threads / 32 * w->crowd);
    double flops = 2.0 * s->tile_m * s->tile_n * s->tile_k * plan->n_cores;
    double rate = cost_rate(plan) * cost_efficiency(plan, s) * units / plan->target->sm_count;
    double computed = cost_computed(c, plan, s, w), product = fmax(flops * w->crowd / rate, computed);
    double bits = s->tile_m * cost_row(c->rows_a) * matmul_stage_bits(plan, s, true) +
                  s->tile_n * plan->n_cores * cost_row(c->rows_b) * matmul_stage_bits(plan, s, false);
    double l2 = cost_l2_per_clock;
    if (matmul_is_mma_f64(plan, s))
        l2 = fmin(l2, cost_f64_l2 / fmin(w->all, plan->target->sm_count));
    double feed = bits * s->tile_k / 8 * w->crowd / (l2 * cost_clock);
    double busy = fmax(product, feed), step = fmax(busy, cost_latency / (s->stages > 1 ? s->stages - 1 : 1));
    if (computed > 0) /* its loads are one step ahead, whatever the stages */
        step = fmax(step, cost_computed_latency);
    *waits = step - busy + cost_mma_step;
    return busy;
}

double cost_tile_epilogue(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    double slots = cost_epilogue_slots + c->slots + cost_ragged_slots * c->ragged;
    double waiting = cost_waiting_warps / (s->threads / 32 * w->crowd);
    double passes = cost_statistics((double)(plan->statistics.n + plan->columns.n));
    double elements = fmin(s->tile_m, w->rows) * fmin(s->tile_n, w->cols); /* none beyond the result's end */
    return passes * elements * w->crowd * slots / 128 / cost_clock * (1 + waiting);
}

/* Waiting for lines that all blocks read. */
static double cost_same(const Cost *c, const MatmulPlan *plan, const CostShare *w) {
    enum { SECTOR = 32, MOST_ROWS = 512 };
    const MatmulOperand *b = &plan->b[0];
    int bits = dtype_bits(b->elem);
    double batch = (double)c->batch;
    if (b->major == MAJOR_MN && (double)c->n * bits <= 8 * SECTOR)
        return w->tiles_m * w->tiles_n * batch * (cost_same_block + cost_same_row * (double)c->k);
    double few = fmin(w->rows, w->cols), across = w->rows > w->cols ? w->tiles_m : w->tiles_n;
    bool is_short = b->major == MAJOR_K && (double)c->k * bits == 4 * SECTOR && few <= MOST_ROWS;
    return is_short ? across * batch * (cost_short_block + cost_short_row * few) : 0;
}

static double cost_tiles_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = c->plan;
    CostShare w = cost_share(c, plan, s);
    double waits, busy = cost_step(c, plan, s, &w, &waits) * w.steps + cost_tile_epilogue(c, plan, s, &w);
    waits = waits * w.steps + cost_start * cost_latency;
    double others = busy * (1 - 1 / w.crowd);
    double left = waits > 0 ? waits * waits / (waits + cost_hidden * others) : 0;
    double work = w.rounds * (busy + left);
    double edge = cost_of_rows(c->rows_out, 0, cost_edge_line, cost_edge_sector);
    double bytes = (double)c->bytes + edge * cost_seams(s, &w) * (double)c->batch;
    if (c->from_memory)
        bytes += cost_again * cost_bytes_again(c, &w);
    double memory = bytes / plan->target->memory_bytes_per_second;
    if (matmul_is_mma_f64(plan, s))
        memory = fmax(cost_f64_memory * memory, cost_f64_streamed * (memory - work));
    if (cost_is_words(plan, s))
        memory -= cost_words_hidden * (1 - 1 / w.rounds) * fmin(work, memory);
    return cost_launch + cost_starting(w.all, s->threads) + work + cost_same(c, plan, &w) + memory;
}

/* Lanes of a warp, neighbours along N, whose operand lies in the same bank: an SM serves one a clock. */
static double cost_loop_lanes(const Cost *c) {
    enum { LANES = 32, WORD = 32 };
    const MatmulOperand *b = &c->plan->b[0];
    int64_t bits;
    if (b->major != MAJOR_K || !checked_mul(c->k, dtype_bits(b->elem), &bits) || bits % WORD != 0)
        return 1;
    int lanes = 1;
    while (lanes < LANES && bits / WORD % (2 * lanes) == 0)
        lanes *= 2;
    return fmax(1, lanes * fmin(1, (double)c->n / LANES));
}

static double cost_loop_seconds(const Cost *c) {
    enum { THREADS = 2048 /* of an SM */ };
    const Target *target = c->plan->target;
    double threads = (double)c->m * (double)c->n * (double)c->batch, all = (double)THREADS * target->sm_count;
    double clocks = ((double)c->k * cost_loop_slots + cost_loop_base) / 128;
    clocks += (double)c->k * (cost_loop_lanes(c) - 1) / 32;
    double work = threads * clocks / cost_clock / target->sm_count;
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    double latency = ceil(threads / all) * (double)c->k * cost_loop_latency;
    return cost_loop_launch + cost_starting(fmin(threads, all) / 256, 256) + fmax(work, latency) + memory;
}

/* Stores for an element where TMA cannot write rows of `pitch` bytes: each has what lies within so many bytes
 * as the pitch is a multiple of. 0: it can. */
static double cost_ragged(int64_t pitch, bool is_wide) {
    if (pitch % 16 == 0)
        return 0;
    int bytes = pitch % 8 == 0 ? 8 : pitch % 4 == 0 ? 4 : 2;
    return fmin(1, (is_wide ? 4.0 : 2.0) / bytes);
}

/* How rows of `pitch` bytes begin. */
static CostRows cost_rows(int64_t pitch) {
    return pitch % 128 == 0 ? COST_ROWS_ALIGNED : pitch % 32 == 0 ? COST_ROWS_SECTORS : COST_ROWS_ANYWHERE;
}

static CostRows cost_operand_rows(const Graph *graph, const MatmulOperand *operand, const DimBindings *hint) {
    MatmulDealt dealt;
    if (matmul_dealt(graph, operand, &dealt))
        return COST_ROWS_SECTORS;
    int along = operand->major == MAJOR_K ? operand->mn_axis : operand->k_axis;
    if (!operand->is_memory || !operand->view.strides[along])
        return COST_ROWS_ALIGNED;
    return cost_rows(cost_extent(graph, operand->view.strides[along], hint) * dtype_bits(operand->elem) / 8);
}

/* Instructions of the region's epilogue for an element. What is computed before the product counts too: it is
 * a candidate's share as well. */
static double cost_region_slots(const MatmulPlan *plan, int streams) {
    const Region *region = plan->region;
    double slots = cost_stream_slots * streams;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        OpKind op = value->op;
        if (op_is_scalar(op))
            slots += op == OP_div || op_info(op)->rule == RULE_FLOAT ? cost_function_slots : cost_op_slots;
        else if (op == OP_cast && value_same_dims(value, plan->core[0]) &&
                 dtype_is_float(value->dtype) != dtype_is_float(value->in[0]->dtype))
            slots += cost_function_slots; /* integers are converted at the rate of functions */
    }
    return slots;
}

static bool cost_has_count(const MatmulPlan *plan, const Value *value) {
    return value_count(plan->graph, value) == value_count(plan->graph, plan->core[0]);
}

/* Elements of an input that the epilogue reads for each of the product's: one of one that has as many (an
 * operand may have as many), or one of each of its parts that have, beside several products. */
static int cost_epilogue_parts(const MatmulPlan *plan, const Value *input) {
    const Region *region = plan->region;
    int parts = 0;
    if (cost_has_count(plan, input))
        return matmul_is_read_behind(plan, input);
    for (size_t i = 0; i < region->values.n && plan->n_cores > 1; i++) {
        const Value *part = region->values.at[i];
        parts += part->op == OP_slice && part->in[0] == input && cost_has_count(plan, part) &&
                 matmul_is_read_behind(plan, part);
    }
    return parts;
}

static int cost_epilogue_streams(const MatmulPlan *plan) {
    const Region *region = plan->region;
    int streams = 0;
    for (size_t i = 0; i < region->inputs.n; i++)
        streams += cost_epilogue_parts(plan, region->inputs.at[i]);
    return streams;
}

static double cost_bytes_in(const MatmulPlan *plan) {
    const Region *region = plan->region;
    double bytes = 0;
    for (size_t i = 0; i < region->inputs.n; i++)
        bytes +=
            cost_epilogue_parts(plan, region->inputs.at[i]) * (dtype_bits(region->inputs.at[i]->dtype) / 8.0);
    return bytes;
}

/* Bytes of the results for an element of the product. */
static double cost_bytes_out(const Cost *c, const Graph *graph, const Region *region,
                             const DimBindings *hint) {
    double bytes = 0;
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        double elements = 1;
        for (int axis = 0; axis < output->rank; axis++)
            elements *= (double)cost_extent(graph, output->dims[axis], hint);
        bytes += elements * dtype_bits(output->dtype) / 8;
    }
    return bytes / fmax(1, (double)c->m * (double)c->n * (double)c->batch);
}

/* Bytes of a row of the largest result; 0: there are statistics alone. */
static int64_t cost_pitch(const Cost *c, const DimBindings *hint) {
    enum { STATISTIC = 16 /* elements of the product for one of it, at least */ };
    const Graph *graph = c->plan->graph;
    const Region *region = c->plan->region;
    int64_t most = 0, pitch = 0;
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        int64_t count = cost_extent(graph, value_count(graph, output), hint);
        if (!output->rank || count <= most)
            continue;
        most = count;
        int64_t columns = cost_extent(graph, output->dims[output->rank - 1], hint), bits;
        pitch = checked_mul(columns, dtype_bits(output->dtype), &bits) ? bits / 8 : 0;
    }
    return (double)most * STATISTIC < (double)c->m * (double)c->n * (double)c->batch ? 0 : pitch;
}

/* The products whose steps one tile takes. */
static void cost_terms(Cost *c, const DimBindings *hint) {
    for (const MatmulPlan *plan = c->plan; plan; plan = plan->before) {
        c->term_k[c->n_terms] = cost_extent(plan->graph, plan->k, hint);
        if (!checked_add(c->k, c->term_k[c->n_terms++], &c->k))
            c->k = INT64_MAX;
        c->n_changed += plan->before && plan->before->is_changed;
    }
}

/* Of products in the same launch, their sizes; slots are an average. */
static void cost_guests(Cost *c, const DimBindings *hint) {
    const Graph *graph = c->plan->graph;
    double all = fmax(1, (double)c->m * (double)c->n * (double)c->batch), slots = c->slots * all;
    const MatmulPlan *guest = c->plan->guest;
    for (; guest && c->n_guests < MATMUL_PRODUCTS_MAX; guest = guest->guest) {
        double elements = (double)cost_space(graph, guest->region, 0, guest->batch_rank + 2, hint);
        slots += elements * cost_region_slots(guest, cost_epilogue_streams(guest));
        all += elements;
        c->bytes += cost_bytes(graph, guest->region, hint);
        c->guests[c->n_guests].n = cost_extent(graph, guest->n, hint);
        c->guests[c->n_guests++].batch = cost_space(graph, guest->region, 0, guest->batch_rank, hint);
    }
    c->slots = slots / all;
}

void cost_begin(Cost *c, const MatmulPlan *plan, const DimBindings *hint) {
    const Graph *graph = plan->graph;
    *c = (Cost){.plan = plan,
                .m = cost_extent(graph, plan->m, hint),
                .n = cost_extent(graph, plan->n, hint),
                .batch = cost_space(graph, plan->region, 0, plan->batch_rank, hint),
                .beside = cost_space(graph, plan->region, matmul_beside(plan), plan->batch_rank, hint),
                .bytes = cost_bytes(graph, plan->region, hint),
                .slots = cost_region_slots(plan, cost_epilogue_streams(plan)),
                .bytes_in = cost_bytes_in(plan),
                .rows_a = cost_operand_rows(graph, &plan->a, hint),
                .rows_b = cost_operand_rows(graph, &plan->b[0], hint)};
    cost_terms(c, hint);
    c->bytes_out = cost_bytes_out(c, graph, plan->region, hint);
    for (size_t i = 0; i < plan->region->outputs.n; i++)
        c->has_wide_outputs |= dtype_bits(plan->region->outputs.at[i]->dtype) == 32;
    int64_t pitch = cost_pitch(c, hint);
    c->ragged = cost_ragged(pitch, c->has_wide_outputs);
    c->rows_out = cost_rows(pitch);
    cost_guests(c, hint);
    double cols = (double)c->n * (double)c->batch;
    for (int i = 0; i < c->n_guests; i++)
        cols += (double)c->guests[i].n * (double)c->guests[i].batch;
    double flops = 2.0 * (double)c->m * cols * (double)c->k * plan->n_cores;
    c->from_memory = flops / cost_rate(plan) < (double)c->bytes / cost_fitted_memory;
}

/* Columns of a product's tiles. */
static double cost_cols(const Schedule *s, int members, int64_t n, int64_t batch) {
    return ceil((double)n * members / s->tile_n) * s->tile_n * ceil((double)batch / members);
}

/* Matrices side by side in a tile are as one. Guests are further columns: a tile has those of one product. */
Cost cost_joined(const Cost *c, const Schedule *s) {
    Cost joined = *c;
    int members = matmul_members(cost_plan(c, s), s).n;
    joined.n *= members;
    joined.batch /= members;
    if (!c->n_guests)
        return joined;
    double cols = cost_cols(s, members, c->n, c->batch);
    const MatmulPlan *guest = c->plan->guest;
    for (int i = 0; i < c->n_guests; i++, guest = guest->guest)
        cols +=
            cost_cols(s, matmul_members(matmul_wgmma_plan(guest), s).n, c->guests[i].n, c->guests[i].batch);
    joined.n = (int64_t)fmin(cols, 0x1p62);
    joined.batch = 1;
    return joined;
}

double cost_product(const Cost *product, const Schedule *s) {
    Cost joined = cost_joined(product, s), *c = &joined;
    switch (s->path) {
    case MATMUL_LOOP: return cost_loop_seconds(c);
    case MATMUL_GEMV: return cost_gemv_seconds(c, s);
    case MATMUL_SKINNY: return cost_skinny_seconds(c, s);
    case MATMUL_SIMT: return cost_simt_seconds(c, s);
    case MATMUL_WGMMA: return cost_wgmma_seconds(c, s);
    default: return cost_tiles_seconds(c, s);
    }
}
