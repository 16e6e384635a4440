/* An estimate of the time of few rows: blocks that wait for memory and add in between. Enough warps on an SM
 * hide the one behind the other. Of the bytes that all blocks together have to go, the last to finish leave
 * the machine part idle, so that small blocks end more evenly. */
#include <math.h>

#include "codegen/templates/cost_share.h"

/* Seconds: of a kernel, a load, a block, the parts of a cluster. */
static const double cost_launch = 4.6e-6, cost_latency = 0.728e-6, cost_block = 0.0477e-6,
                    cost_meeting = 1.19e-6;
/* Instructions a weight for each row, and for a column's sum; for a load of a lane, of 16 bytes. */
static const double cost_row_slots = 1.15, cost_column = 0.297, cost_load_slots = 0.208;
/* Bytes a clock of L2: every block reads the rows anew. */
static const double cost_l2_per_clock = 31100;
/* Shares: of what is hidden but for idle schedulers, at least and with no warps; of memory's time for the
 * last blocks. */
static const double cost_idle_least = 0.0646, cost_idle = 0.735, cost_end = 0.591;

enum { GEMV_WHOLE_LINE = 512 /* bytes that a warp loads at once, at most */ };

double cost_gemv_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = c->plan;
    const Target *target = plan->target;
    int split = s->split_k > 1 ? s->split_k : 1;
    int64_t rows = s->swap_ab ? c->n : c->m, cols = s->swap_ab ? c->m : c->n;
    double tiles = ceil((double)rows / s->tile_m) * ceil((double)cols / s->tile_n) * (double)c->batch;
    double blocks = tiles * split,
           slots = target_clustered_sms(target, split) * matmul_blocks_per_sm(plan, s);
    double rounds = fmax(1, blocks / slots);
    double steps = ceil(ceil((double)c->k / s->tile_k) / split);
    double waiting = rounds * (steps * cost_latency + cost_block);
    double weights = blocks * s->tile_n * steps * s->tile_k * plan->n_cores;
    double each = (double)s->tile_m / matmul_gemv_columns(plan, s), line = matmul_gemv_line(plan, s);
    double slow = 2 + s->tile_m * cost_row_slots + cost_column * each +
                  cost_load_slots * (1 + each) * GEMV_WHOLE_LINE / line; /* instructions a weight */
    double adds = weights * slow / (128 * cost_clock * fmin(blocks, target->sm_count));
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    memory *= fmax(1, sqrt(128.0 / line)); /* it comes by half lines, and by pages */
    double again = tiles * fmin((double)rows, s->tile_m) * (double)c->k * dtype_bits(plan->a.elem) / 8 /
                   (cost_l2_per_clock * cost_clock);
    double longest = fmax(fmax(memory, again), fmax(waiting, adds));
    double others = memory + again + waiting + adds - longest;
    double warps = fmin(blocks, slots) / target->sm_count * s->threads / 32;
    double idle = cost_idle_least + cost_idle * fmax(0, 1 - warps / 32);
    return cost_launch + longest + idle * others + cost_end * memory / rounds +
           (split > 1 ? cost_meeting : 0);
}
