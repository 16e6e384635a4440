/* An estimate of the time of a few dozen rows by tensor cores: blocks that wait for memory, make numbers of
 * 16 bits of what comes and multiply them. Enough warps on an SM hide the one behind the other. */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_skinny.h"

/* Fitted to 3848 schedules of 21 products of 1 to 16 rows with weights of 4 and 8 bits, on an H200. Seconds
 * of a kernel, of a load, of a block, of parts that meet in a cluster. */
static const double cost_launch = 4.99e-6, cost_latency = 0.542e-6, cost_block = 1e-6, cost_meeting = 1.82e-6;
/* Instructions of a lane: to make an element of 4 or 8 bits one of 16; for an access; for a factor or a zero,
 * its load and each sum that takes it. Clocks of a scheduler for one of its tensor core. */
static const double cost_nibble = 2.59, cost_byte = 4.83, cost_access = 1.45, cost_factor = 3.49,
                    cost_mma = 6.9;
/* Bytes a second of L2, where every block has the rows anew. */
static const double cost_rows_again = 16.6e12;
/* Warps of a scheduler that keep it half busy; of what is hidden, the share that is not; of blocks that SMs,
 * or rounds, share unevenly, the share that is waited for. */
static const double cost_warps = 0.88, cost_idle = 0.26, cost_uneven = 0.09, cost_uneven_rounds = 0.23;

/* Instructions for each weight of a lane. */
static double cost_slots(const MatmulPlan *plan, const Schedule *s, const SkinnyShape *shape) {
    enum {
        ACCESS_BITS = 128,
        SUMS = 4,
        WEIGHTS = 32 /* of a lane for these sums */,
        PER_ACCESS = 8 /* of the rows */
    };
    const MatmulOperand *w = gemv_weights(plan, s, 0);
    SkinnySource source = skinny_source(plan, w);
    int bits = matmul_skinny_bits(plan, w), factors = source.has_factor + source.has_zero;
    double convert = bits > 8 ? 0 : bits > 4 ? cost_byte : cost_nibble;
    double rows = (double)shape->groups / (2 * shape->blocks * gemv_n_weights(plan, s)) * gemv_n_few(plan, s);
    double slots = convert + cost_access * ((double)bits / ACCESS_BITS + rows / PER_ACCESS);
    if (!shape->is_direct)
        return slots + cost_operations(plan, w) + cost_access / shape->width;
    return slots + cost_factor * factors * ((double)SUMS * shape->groups / WEIGHTS + 1.0 / shape->width);
}

double cost_skinny_seconds(const Cost *c, const Schedule *s) {
    enum { WEIGHTS = 8 /* of a lane, that an instruction takes */, SCHEDULERS = 4, LANES = 32 };
    const MatmulPlan *plan = c->plan;
    const Target *target = plan->target;
    SkinnyShape shape;
    if (!skinny_shape(plan, s, &shape))
        return INFINITY;
    int split = matmul_split(s);
    int64_t rows = s->swap_ab ? c->n : c->m, cols = s->swap_ab ? c->m : c->n;
    double tiles = ceil((double)rows / s->tile_m) * ceil((double)cols / s->tile_n) * (double)c->batch;
    double blocks = tiles * split,
           slots = target_clustered_sms(target, split) * matmul_blocks_per_sm(plan, s);
    double rounds = fmax(1, blocks / slots), each = blocks / target->sm_count;
    double uneven =
        1 + cost_uneven * (ceil(each) / each - 1) + cost_uneven_rounds * (ceil(rounds) / rounds - 1);
    double steps = ceil(ceil((double)c->k / s->tile_k) / split);
    double weights = blocks * s->tile_n * steps * s->tile_k;
    double clocks = cost_clock * target->sm_count * SCHEDULERS * LANES / uneven;
    double warps = fmin(blocks, slots) / target->sm_count * s->threads / (SCHEDULERS * LANES);
    double waiting = rounds * (steps * cost_latency + cost_block);
    double issued =
        weights * gemv_n_weights(plan, s) * cost_slots(plan, s, &shape) * (1 + cost_warps / warps) / clocks;
    double products = weights * plan->n_cores * shape.groups * cost_mma / WEIGHTS / clocks;
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    double again =
        tiles * fmin((double)rows, s->tile_m) * (double)c->k * dtype_bits(plan->a.elem) / 8 / cost_rows_again;
    double longest = fmax(fmax(memory, waiting), fmax(fmax(issued, products), again));
    double others = memory + waiting + issued + products + again - longest;
    return cost_launch + longest + cost_idle * others + (split > 1 ? cost_meeting : 0);
}
