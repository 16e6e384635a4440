/* The schedule of a matrix product from its shapes and the target: every candidate that the path accepts gets
 * an estimate of its time, and the quickest come first. No tuning run is needed for that; a tuner may try the
 * rest of the list.
 *
 *     time = launch + max(memory, work) + a part of the smaller; memory = bytes / rate
 *     work = rounds * (steps of K * step + rest)
 *     step = max(product / tensor rate, tile bytes / L2 rate, latency / stages)
 *     rest = epilogue, and the latency of the first step where the ring starts empty
 *
 * Where memory sets the pace, loads take longer (latency), and what an SM does between rings adds to the time
 * of memory; K split over a cluster has its own steps, more tiles, and the meeting of the parts in its rest.
 *
 * The constants are rounded from measurements on an H200 and serve as ratios for the other targets: an L2
 * that feeds an SM 64 bytes a clock in theory gives about 45; a TMA load takes about 700 ns; mma.sync reaches
 * 0.62 of wgmma's rate on Hopper. */
#include "codegen/cost.h"
#include "codegen/templates/matmul.h"

#include <math.h>
#include <stdlib.h>

enum { COST_CANDIDATES = 1024 };

static const double cost_launch = 2e-6, cost_latency = 0.7e-6, cost_memory_latency = 1.2e-6,
                    cost_gemv_latency = 0.9e-6, cost_gemv_block = 0.6e-6, cost_clock = 1.7e9,
                    cost_l2_per_clock = 45;
static const double cost_exchange = 2e-6;  /* of a row statistic between the blocks of a gang */
static const double cost_meeting = 1.5e-6; /* of parts of sums in a cluster */
static const double cost_mma_on_hopper = 0.62, cost_epilogue_slots = 14; /* instructions an element */

typedef struct Cost {
    const MatmulPlan *plan;
    int64_t m, n, k, batch;
    int64_t bytes;
    int streams;
    bool from_memory; /* memory, not the matrix unit, sets the pace */
} Cost;

typedef struct Candidate {
    Schedule schedule;
    double seconds;
} Candidate;

typedef struct Candidates {
    Candidate at[COST_CANDIDATES];
    int n;
} Candidates;

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
        double product = cols / 2.0, reads = 16 + cols / 4.0;
        return product / (product > reads ? product : reads);
    }
    if (s->path == MATMUL_MMA_SYNC) {
        double m = s->tile_m / (double)s->warps_m, n = s->tile_n / (double)s->warps_n;
        double reuse = m * n / (m + n) / 21.3; /* 64 x 32 elements of a warp are enough */
        double hopper = plan->target->has_wgmma ? cost_mma_on_hopper : 0.85;
        return hopper * (reuse < 1 ? reuse : 1);
    }
    double reuse = (double)s->tile_m * s->tile_n / (128.0 * 128);
    return 0.8 * sqrt(reuse < 1 ? reuse : 1);
}

/* Time in which the threads of a block compute a stage of operands that are not copied. */
static double cost_computed(const MatmulPlan *plan, const Schedule *s) {
    enum { SLOTS = 14 }; /* instructions an access */
    if (s->path == MATMUL_WGMMA)
        return 0;
    double accesses = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        int tile_mn = i ? s->tile_n : s->tile_m,
            width = operand->copy_width ? operand->copy_width : operand->run_width;
        if (matmul_loader_registers(plan, operand, s, tile_mn, 32))
            accesses += (double)tile_mn * s->tile_k / width;
    }
    return accesses * SLOTS / 128 / cost_clock;
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

/* The product as the schedule's path takes it. */
static const MatmulPlan *cost_plan(const Cost *c, const Schedule *s) {
    return s->path == MATMUL_WGMMA ? matmul_wgmma_plan(c->plan) : c->plan;
}

/* Blocks that run at once where each SM has one. A cluster lies within a GPC, whose SMs it need not divide:
 * an H100's 132 SMs hold 66 clusters of 2, 30 of 4 and 15 of 8. */
static double cost_slots(const Target *target, int cluster) {
    return cluster <= 2 ? target->sm_count : floor(target->sm_count * 0.91 / cluster) * cluster;
}

static double cost_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = cost_plan(c, s);
    const Target *target = plan->target;
    int cluster_m = s->cluster_m > 1 ? s->cluster_m : 1, cluster_n = s->cluster_n > 1 ? s->cluster_n : 1;
    int64_t rows = s->swap_ab ? c->n : c->m, cols = s->swap_ab ? c->m : c->n;
    double tiles_m = ceil((double)rows / (s->tile_m * cluster_m)) * cluster_m;
    double tiles_n = ceil((double)cols / (s->tile_n * cluster_n)) * cluster_n;
    int split = s->split_k > 1 ? s->split_k : 1;
    double tiles = tiles_m * tiles_n * (double)c->batch * split; /* or parts of them */
    int occupancy = matmul_blocks_per_sm(plan, s), gang = matmul_gang(plan, s);
    double slots =
        gang > 1 ? target->sm_count * occupancy / gang * gang : cost_slots(target, split) * occupancy;
    double rounds = ceil(tiles / slots);
    double steps = ceil(ceil((double)c->k / s->tile_k) / split);
    /* blocks that share an SM share its matrix unit and its way to L2, not the latency */
    double crowd = tiles < (double)target->sm_count * occupancy ? ceil(tiles / target->sm_count) : occupancy;
    double flops = 2.0 * s->tile_m * s->tile_n * s->tile_k * plan->n_cores;
    double product = flops * crowd / (cost_rate(plan) / target->sm_count * cost_efficiency(plan, s));
    double elem = dtype_bits(plan->a.elem) / 8.0;
    int n_cols = plan->n_cores; /* two products: two tiles of their second operand */
    double row_bytes = (double)s->tile_m / cluster_n * (s->swap_ab ? n_cols : 1);
    double col_bytes = (double)s->tile_n / cluster_m * (s->swap_ab ? 1 : n_cols);
    double stage_bytes = (row_bytes + col_bytes) * s->tile_k * elem;
    product = fmax(product, cost_computed(plan, s) * crowd);
    product = fmax(product, cost_converted(plan, s) * crowd);
    double feed = stage_bytes * crowd / (cost_l2_per_clock * cost_clock);
    double latency = c->from_memory ? cost_memory_latency : cost_latency;
    double step = fmax(fmax(product, feed), latency / (s->stages > 1 ? s->stages - 1 : 1));
    if (cost_computed(plan, s) > 0) /* its loads are one step ahead, whatever the stages */
        step = fmax(step, cost_latency);
    double elements = (double)s->tile_m * s->tile_n * (1 + (double)(plan->statistics.n + plan->columns.n));
    double epilogue = elements * crowd * (cost_epilogue_slots + 4.0 * c->streams) / 128 / cost_clock;
    if (gang > 1)
        epilogue += cost_exchange * (double)plan->statistics.n;
    if (s->path == MATMUL_WGMMA && s->warps_m == 1)
        epilogue *= 1.7; /* four warps alone do not fill the schedulers */
    bool runs_ahead = s->path == MATMUL_WGMMA && rounds > 1 && split == 1;
    if (s->ping_pong) { /* the other warpgroup multiplies meanwhile, but one alone is assumed to feed the
                           matrix unit less well */
        step = fmax(step, epilogue / steps) * 1.15;
        epilogue /= rounds;
    }
    double rest = (runs_ahead ? 0.75 : 1) * epilogue + (runs_ahead ? 0 : latency);
    rest += split > 1 ? cost_meeting : 0;
    double work = rounds * (steps * step + rest), memory = (double)c->bytes / target->memory_bytes_per_second;
    if (c->from_memory) {
        /* the larger operand is brought to SMs once for each tile across it; L2 gives it half for nothing */
        double again = rows > cols ? (double)rows * (tiles_n - 1) : (double)cols * (tiles_m - 1);
        memory += 0.5 * again * (double)c->k * (double)c->batch * elem / target->memory_bytes_per_second;
        memory += runs_ahead ? 0 : rounds * rest; /* while which nothing is loaded */
    }
    double seconds = cost_launch + fmax(work, memory) + 0.15 * fmin(work, memory);
    /* loads by threads cost what TMA does not */
    return s->path == MATMUL_MMA_SYNC && target->has_wgmma ? 1.1 * seconds : seconds;
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
    double slow = 2 + s->tile_m * (1.5 + 3.5 / matmul_gemv_columns(plan, s)); /* instructions a weight */
    double adds = weights * slow / (128 * cost_clock * fmin(blocks, target->sm_count));
    if (s->swap_ab) { /* few columns may lie side by side, far from those of the next lane */
        double streamed = weights / plan->n_cores / fmin(blocks, target->sm_count);
        adds = fmax(adds, streamed * matmul_gemv_passes(plan, s) / cost_clock);
    }
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    memory *= fmax(1, sqrt(128.0 / matmul_gemv_line(plan, s))); /* it comes by half lines, and by pages */
    double longest = fmax(memory, fmax(waiting, adds)), others = memory + waiting + adds - longest;
    double warps = fmin(blocks, slots) / target->sm_count * s->threads / 32;
    double idle = 0.05 + 0.3 * fmax(0, 1 - warps / 32);
    return cost_launch + longest + idle * others + 0.3 * memory / rounds + (split > 1 ? 2 * cost_meeting : 0);
}

/* Tiles that a round of blocks works on together should span equal bytes of both operands. */
static int cost_group_m(const Cost *c, const Schedule *s) {
    double slots = c->plan->target->sm_count;
    double group = sqrt(slots * s->tile_n / s->tile_m) / (s->cluster_m > 1 ? s->cluster_m : 1);
    int power = 1;
    while (power * 1.42 < group)
        power *= 2;
    return power;
}

typedef bool CostAccepts(const MatmulPlan *plan, const Schedule *schedule, const char **why);

static void cost_add(const Cost *c, CostAccepts *accepts, Candidates *found, Schedule s) {
    const char *why;
    s.group_m = cost_group_m(c, &s);
    if (found->n < COST_CANDIDATES && accepts(c->plan, &s, &why))
        found->at[found->n++] =
            (Candidate){s, s.path == MATMUL_GEMV ? cost_gemv_seconds(c, &s) : cost_seconds(c, &s)};
}

/* The most stages, from `most` down to 2, with which `blocks` blocks share an SM. */
static void cost_add_deepest(const Cost *c, CostAccepts *accepts, Candidates *found, Schedule s, int most,
                             int blocks) {
    const char *why;
    for (s.stages = most; s.stages >= 2; s.stages--)
        if (accepts(c->plan, &s, &why) && matmul_blocks_per_sm(cost_plan(c, &s), &s) >= blocks) {
            cost_add(c, accepts, found, s);
            return;
        }
}

/* The deepest ring for a schedule whose K is split, where whole tiles would leave SMs without work. */
static void cost_add_split(const Cost *c, CostAccepts *accepts, Candidates *found, Schedule s) {
    int64_t rows = s.swap_ab ? c->n : c->m, cols = s.swap_ab ? c->m : c->n;
    double tiles = ceil((double)rows / s.tile_m) * ceil((double)cols / s.tile_n) * (double)c->batch;
    if (s.tile_m * s.tile_n > 128 * 64)
        return; /* the exchange of a larger tile costs more than the SMs that it gains */
    for (s.split_k = 2; s.split_k <= 8; s.split_k *= 2)
        if (tiles * s.split_k <= 1.1 * c->plan->target->sm_count)
            cost_add_deepest(c, accepts, found, s, 12, 1);
}

/* With three converting warpgroups beside one that multiplies, or one beside one or two. */
static void cost_add_converting(const Cost *c, CostAccepts *accepts, Candidates *found, Schedule s) {
    if (s.warps_m > 1) {
        s.producer_registers = 24;
        s.consumer_registers = 184;
    }
    for (s.converters = s.warps_m == 1 ? 3 : 1; s.converters > 0; s.converters -= 2)
        cost_add_deepest(c, accepts, found, s, 9, 1);
}

static void cost_wgmma(const Cost *c, CostAccepts *accepts, Candidates *found) {
    static const int rows[][2] = {{128, 2}, {256, 2}, {64, 1}}; /* tile_m, consumer warpgroups */
    const MatmulPlan *plan = matmul_wgmma_plan(c->plan);
    /* sums are f32's unless the graph allows less; those of one step of K have no more than the tensor cores
     */
    bool promote =
        plan->kind == MATMUL_FP8 && !plan->region->fast_sums && c->k > 1024 / dtype_bits(plan->a.elem);
    int64_t cols_extent[2] = {c->n, c->m};
    /* the transposed product stores with strides: for a small M alone */
    for (int swap = 0; swap < (c->m <= 128 ? 2 : 1); swap++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int tile_n = 16; tile_n <= 256; tile_n += 16) {
                bool is_round = tile_n % 64 == 0 || tile_n == 16 || tile_n == 32 || tile_n == 96;
                bool is_exact = cols_extent[swap] <= tile_n && cols_extent[swap] > tile_n - 16;
                if (!is_round && !is_exact)
                    continue;
                Schedule s = {.path = MATMUL_WGMMA,
                              .threads = 128 * (1 + rows[i][1]),
                              .tile_m = rows[i][0],
                              .tile_n = tile_n,
                              .tile_k = 1024 / dtype_bits(plan->a.elem),
                              .warps_m = rows[i][1],
                              .warps_n = 1,
                              .persistent = true,
                              .swap_ab = swap,
                              .promote = promote,
                              .tma_store = !swap};
                if (rows[i][1] == 2) { /* two sums at a time take what there is */
                    bool is_full = matmul_partial_cols(plan, &s);
                    s.producer_registers = is_full ? 24 : 40;
                    s.consumer_registers = is_full ? 240 : 232;
                }
                cost_add_deepest(c, accepts, found, s, c->from_memory ? 12 : 8, 1);
                if (matmul_converters(plan, &s)) {
                    cost_add_converting(c, accepts, found, s);
                    continue;
                }
                cost_add_split(c, accepts, found, s);
                if (rows[i][0] == 128 && tile_n >= 96 && !swap) {
                    Schedule turns = s;
                    turns.ping_pong = true;
                    turns.producer_registers = 24;
                    turns.consumer_registers = 240;
                    cost_add_deepest(c, accepts, found, turns, 8, 1);
                }
                if (rows[i][1] == 1)
                    cost_add_deepest(c, accepts, found, s, 12, 2);
            }
}

static void cost_mma(const Cost *c, CostAccepts *accepts, Candidates *found) {
    static const int shapes[][4] = {/* tile_m, tile_n, warps_m, warps_n */
                                    {128, 256, 2, 4}, {128, 128, 2, 4}, {128, 128, 2, 2}, {128, 128, 4, 2},
                                    {128, 64, 2, 2},  {64, 128, 2, 2},  {64, 128, 2, 4},  {64, 64, 2, 2},
                                    {64, 64, 4, 2},   {32, 128, 1, 4},  {32, 64, 1, 2},   {32, 64, 2, 2},
                                    {16, 128, 1, 4},  {16, 64, 1, 2},   {64, 256, 4, 1},  {64, 128, 4, 1},
                                    {128, 128, 8, 1}, {128, 256, 8, 1}, {64, 64, 4, 1},   {64, 32, 4, 1},
                                    {64, 16, 4, 1},   {32, 256, 2, 1},  {16, 16, 1, 1}};
    /* stages of 32 bytes of K where computed operands leave no registers for more */
    int before = found->n;
    for (int least = 64; least >= 32 && found->n == before; least /= 2)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int k_bytes = least; k_bytes <= 2 * least; k_bytes *= 2) {
                Schedule s = {.path = MATMUL_MMA_SYNC,
                              .threads = 32 * shapes[i][2] * shapes[i][3],
                              .tile_m = shapes[i][0],
                              .tile_n = shapes[i][1],
                              .tile_k = k_bytes * 8 / dtype_bits(c->plan->a.elem),
                              .warps_m = shapes[i][2],
                              .warps_n = shapes[i][3]};
                cost_add_deepest(c, accepts, found, s, 4, 1);
                cost_add_deepest(c, accepts, found, s, 4, 2);
            }
}

static void cost_simt(const Cost *c, CostAccepts *accepts, Candidates *found) {
    static const int sides[] = {128, 64, 32};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            Schedule s = {
                .path = MATMUL_SIMT, .threads = 256, .tile_m = sides[i], .tile_n = sides[j], .tile_k = 16};
            cost_add_deepest(c, accepts, found, s, 3, 1);
        }
}

/* Whether `vector` makes the runs of a gemv any shorter. */
static bool cost_gemv_is_shorter(const Cost *c, const Schedule *s) {
    Schedule whole = *s;
    whole.vector = 0;
    return matmul_gemv_line(c->plan, s) < matmul_gemv_line(c->plan, &whole);
}

/* The few rows of a gemv, or with `swap` its few columns; `vector` 0: the longest runs that there are. */
static void cost_gemv_few(const Cost *c, CostAccepts *accepts, Candidates *found, int64_t few, bool swap,
                          int vector) {
    int rows = 1;
    while (rows < few && rows < 8)
        rows *= 2;
    Schedule s = {.path = MATMUL_GEMV, .tile_m = rows, .swap_ab = swap, .vector = vector};
    for (s.warps_m = 4; s.warps_m <= 8; s.warps_m *= 2)
        for (s.tile_n = 1; s.tile_n <= 256; s.tile_n *= 2)
            for (s.split_k = 1; s.split_k <= 8; s.split_k *= 2) {
                s.warps_n = 1;
                s.threads = 32 * s.warps_m;
                int least = !vector || cost_gemv_is_shorter(c, &s) ? matmul_gemv_step(c->plan, &s) : 0;
                for (s.tile_k = least; least && s.tile_k <= 8 * least; s.tile_k *= 2)
                    cost_add(c, accepts, found, s);
            }
}

static void cost_gemv(const Cost *c, CostAccepts *accepts, Candidates *found) {
    const MatmulPlan *plan = c->plan;
    enum { MOST_ROWS = 64 /* in tiles of 8, for weights that neither TMA nor cp.async can read */ };
    /* the constants are measured for 16-bit and exact f32 operands; the others have it by @schedule */
    bool is_measured =
        plan->kind == MATMUL_16BIT || (plan->kind == MATMUL_FMA && plan->core[0]->dtype == DTYPE_F32);
    if (!is_measured)
        return;
    if (c->m <= MOST_ROWS)
        cost_gemv_few(c, accepts, found, c->m, false, 0);
    /* where both are few, rows serve as well, unless they are many times as many */
    if (c->n > MOST_ROWS || c->m < (c->m > 8 ? c->n + 1 : 4 * c->n))
        return;
    cost_gemv_few(c, accepts, found, c->n, true, 0);
    if (c->n > 1) /* in short runs of K, lanes lie closer together in columns that are side by side */
        cost_gemv_few(c, accepts, found, c->n, true, 2);
}

static int cost_compare(const void *x, const void *y) {
    const Candidate *a = x, *b = y;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    /* fewer, larger tiles: less traffic */
    int64_t area_a = (int64_t)a->schedule.tile_m * a->schedule.tile_n,
            area_b = (int64_t)b->schedule.tile_m * b->schedule.tile_n;
    if (area_a != area_b)
        return area_a > area_b ? -1 : 1;
    return a->schedule.tile_m < b->schedule.tile_m ? -1 : a->schedule.tile_m > b->schedule.tile_m;
}

int matmul_schedules(const MatmulPlan *plan, const DimBindings *hint, Schedule *out, int room,
                     CostAccepts *accepts) {
    const Graph *graph = plan->graph;
    Cost c = {.plan = plan,
              .m = cost_extent(graph, plan->m, hint),
              .n = cost_extent(graph, plan->n, hint),
              .k = cost_extent(graph, plan->k, hint),
              .batch = cost_space(graph, plan->region, 0, plan->batch_rank, hint),
              .bytes = cost_bytes(graph, plan->region, hint),
              .streams = cost_streams(graph, plan->region)};
    double flops = 2.0 * (double)c.m * (double)c.n * (double)c.k * (double)c.batch * plan->n_cores;
    c.from_memory = flops / cost_rate(plan) < (double)c.bytes / plan->target->memory_bytes_per_second;
    Candidates *found = ARENA_NEW(graph->arena, Candidates);
    cost_wgmma(&c, accepts, found);
    cost_mma(&c, accepts, found);
    cost_simt(&c, accepts, found);
    cost_gemv(&c, accepts, found);
    qsort(found->at, (size_t)found->n, sizeof *found->at, cost_compare);
    /* the best also with fewer registers, should the assembler find that it spills */
    int n = 0;
    for (int i = 0; i < found->n && n < room; i++)
        for (int ease = 0; ease <= (i || found->at[i].schedule.path == MATMUL_GEMV ? 0 : 2) && n < room;
             ease++) {
            out[n] = found->at[i].schedule;
            out[n].ease = ease;
            out[n++].seconds = found->at[i].seconds;
        }
    return n;
}
