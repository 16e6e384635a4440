/* An estimate of the time of a few dozen rows by tensor cores: blocks that wait for memory, make numbers of
 * 16 bits of what comes and multiply them. Enough warps on an SM hide the one behind the other. */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_skinny.h"

/* Seconds of a kernel, of a step's loads, of a block, of parts that meet in a cluster. Instructions of a
 * lane: to make an element of 4 or 8 bits one of 16; for an access; for a factor or a zero, each sum that
 * takes it and its load. Clocks of a scheduler for one of its tensor core. Bytes a second of L2, where every
 * block has the rows anew. Warps of a scheduler that keep it half busy; of what is hidden, the share that is
 * not, and more of it where a block is alone on its SM; of blocks that SMs, or rounds, share unevenly, the
 * share that is waited for. Of memory's time, the share that lines of 32 bytes take more than of 64. */
typedef struct CostSkinny {
    double launch, latency, block, meeting;
    double nibble, byte, access, sum, factor;
    double mma, again, warps, idle, alone, uneven, uneven_rounds, narrow;
} CostSkinny;

/* Weights along K, and across it. Fitted on an H200 to 3848 schedules of 21 products of 1 to 16 rows, and to
 * 2913 of 16 of 1 to 64, with weights of 4 and 8 bits. */
static const CostSkinny cost_kinds[] = {
    {.launch = 4.99e-6,
     .latency = 0.542e-6,
     .block = 1e-6,
     .meeting = 1.82e-6,
     .nibble = 2.59,
     .byte = 4.83,
     .access = 1.45,
     .sum = 3.49,
     .factor = 3.49,
     .mma = 6.9,
     .again = 16.6e12,
     .warps = 0.88,
     .idle = 0.26,
     .uneven = 0.09,
     .uneven_rounds = 0.23},
    {.launch = 5.73e-6,
     .latency = 0.327e-6,
     .block = 3e-6,
     .meeting = 1.5e-6,
     .nibble = 2.95,
     .byte = 4.83,
     .access = 2.24,
     .sum = 2.24,
     .factor = 1.47,
     .mma = 2.52,
     .again = 40e12,
     .warps = 0.57,
     .idle = 0.31,
     .alone = 0.07,
     .uneven = 0.35,
     .uneven_rounds = 0.47,
     .narrow = 0.19},
};

/* Instructions for each weight of a lane. */
static double cost_slots(const MatmulPlan *plan, const Schedule *s, const SkinnyShape *shape) {
    const CostSkinny *cost = &cost_kinds[shape->is_across];
    enum {
        ACCESS_BITS = 128,
        SUMS = 4,
        WEIGHTS = 32 /* of a lane for these sums */,
        PER_ACCESS = 8 /* of the rows */
    };
    const MatmulOperand *w = gemv_weights(plan, s, 0);
    const SkinnySource *source = skinny_source(plan, w);
    int bits = matmul_skinny_bits(plan, w), factors = source->has_factor + source->has_zero;
    double convert = bits > 8 ? 0 : bits > 4 ? cost->byte : cost->nibble;
    int run = shape->is_across ? shape->columns : shape->width; /* neighbours in memory */
    double access = fmax((double)bits / ACCESS_BITS, 1.0 / run);
    double rows = (double)shape->groups / (shape->columns * gemv_n_weights(plan, s)) * gemv_n_few(plan, s);
    double slots = convert + cost->access * (access + rows / PER_ACCESS);
    if (shape->is_across) /* each sum takes it, and it is loaded, once a run of K */
        return slots + factors * (cost->sum * 2 * shape->groups + cost->factor) / shape->width;
    if (!shape->is_direct)
        return slots + cost_operations(plan, w) + cost->access / shape->width;
    return slots + factors * (cost->sum * SUMS * shape->groups / WEIGHTS + cost->factor / shape->width);
}

/* How much longer memory takes where lanes' runs side by side are short lines of it. */
static double cost_of_lines(const MatmulPlan *plan, const Schedule *s, const SkinnyShape *shape) {
    enum { LINE_BITS = 512 };
    double bits = (double)SKINNY_ROWS * shape->columns * matmul_skinny_bits(plan, gemv_weights(plan, s, 0));
    bool is_short = shape->is_across && bits < LINE_BITS;
    return is_short ? 1 + cost_kinds[true].narrow * (LINE_BITS / bits - 1) : 1;
}

double cost_skinny_seconds(const Cost *c, const Schedule *s) {
    enum { WEIGHTS = 8 /* of a lane, that an instruction takes */, SCHEDULERS = 4, LANES = 32 };
    const MatmulPlan *plan = c->plan;
    const Target *target = plan->target;
    SkinnyShape shape;
    if (!skinny_shape(plan, s, &shape))
        return INFINITY;
    const CostSkinny *cost = &cost_kinds[shape.is_across];
    int split = matmul_split(s);
    int64_t rows = s->swap_ab ? c->n : c->m, cols = s->swap_ab ? c->m : c->n;
    double tiles = ceil((double)rows / s->tile_m) * ceil((double)cols / s->tile_n) * (double)c->batch;
    int per_sm = matmul_blocks_per_sm(plan, s);
    double blocks = tiles * split, slots = target_clustered_sms(target, split) * per_sm;
    double rounds = fmax(1, blocks / slots), each = blocks / target->sm_count;
    double uneven =
        1 + cost->uneven * (ceil(each) / each - 1) + cost->uneven_rounds * (ceil(rounds) / rounds - 1);
    double steps = ceil(ceil((double)c->k / s->tile_k) / split);
    double weights = blocks * s->tile_n * steps * s->tile_k;
    double clocks = cost_clock * target->sm_count * SCHEDULERS * LANES / uneven;
    double warps = fmin(blocks, slots) / target->sm_count * s->threads / (SCHEDULERS * LANES);
    double waiting = rounds * (steps * cost->latency + cost->block);
    double issued =
        weights * gemv_n_weights(plan, s) * cost_slots(plan, s, &shape) * (1 + cost->warps / warps) / clocks;
    double products = weights * plan->n_cores * shape.groups * cost->mma / WEIGHTS / clocks;
    double memory = (double)c->bytes / target->memory_bytes_per_second * cost_of_lines(plan, s, &shape);
    double again =
        tiles * fmin((double)rows, s->tile_m) * (double)c->k * dtype_bits(plan->a.elem) / 8 / cost->again;
    double longest = fmax(fmax(memory, waiting), fmax(fmax(issued, products), again));
    double others = memory + waiting + issued + products + again - longest;
    double idle = cost->idle + cost->alone / fmax(1, fmin(per_sm, floor(each)));
    return cost->launch + longest + idle * others + (split > 1 ? cost->meeting : 0);
}
