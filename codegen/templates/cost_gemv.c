/* An estimate of the time of few rows: blocks that wait for memory and add in between. Enough warps on an SM
 * hide the one behind the other. Of the bytes that all blocks together have to go, the last to finish leave
 * the machine part idle, so that small blocks end more evenly. */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_gemv.h"
#include "codegen/templates/matmul_paths.h"

static const double cost_launch = 4.45e-6; /* seconds of a kernel */

/* Where the weights lie along N, and along K. */
typedef struct CostStream {
    /* Seconds: of a load, a block, the parts of a cluster, and each element of one. */
    double latency, block, meeting, meeting_element;
    /* Instructions a weight for each row, and for a column's sum; for a load of a lane, of 16 bytes; for a
     * line of the few rows. */
    double row, column, load, line;
    double l2_per_clock; /* bytes: every block reads the rows anew */
    /* Shares: of what is hidden but for idle schedulers, at least and with no warps; of memory's time for the
     * last blocks. */
    double idle_least, idle, end;
    double short_lines; /* the power of a line's share of 128 bytes by which memory takes longer */
    double apart;       /* the share by which it does for each further part of K */
} CostStream;
static const CostStream cost_streams[] = {
    {.latency = 0.455e-6,
     .block = 0.0581e-6,
     .meeting = 1.24e-6,
     .meeting_element = 0.4e-9,
     .row = 2.39,
     .column = 0.319,
     .load = 0.169,
     .line = 0.12,
     .l2_per_clock = 33700,
     .idle_least = 0.0737,
     .idle = 0.348,
     .end = 0.184,
     .short_lines = 0.433,
     .apart = 0.0319},
    {.latency = 0.344e-6,
     .block = 0.0477e-6,
     .meeting = 1.19e-6,
     .meeting_element = 0,
     .row = 1.15,
     .column = 0.297,
     .load = 0.208,
     .line = 0.02,
     .l2_per_clock = 31100,
     .idle_least = 0.0646,
     .idle = 1.02,
     .end = 0.591,
     .short_lines = 0.5,
     .apart = 0},
};

/* Of a clock that an SM asks L1 for a line: where neighbours along K of the few rows lie apart, that is for
 * each lane another one. */
static const double cost_line_apart = 0.4;
/* The share of a meeting that each round of blocks behind the first waits for anew: 112 x 40 x 6576 in tiles
 * of 8 x 8 took 10.9 us whole, 12.3 in two parts. */
static const double cost_meet_again = 0.5;

enum { GEMV_WHOLE_LINE = 512 /* bytes that a warp loads at once, at most */ };

/* Instructions that make a weight of what memory has, more than those of 16 bits take: to widen nibbles and
 * bytes; of what is computed, to round it as well. 1 x 11008 x 4096 took 14.0 us with nibbles alone, 18.7
 * with a factor for each 128 of them, 20.3 with a zero besides. */
static double gemv_cost_computed(const MatmulPlan *plan, const Schedule *s) {
    enum { NIBBLE = 4, BYTE = 8 };
    static const double widen_nibble = 1.6, widen_byte = 0.8, operation = 6;
    const MatmulOperand *w = gemv_weights(plan, s, 0);
    int bits = matmul_skinny_bits(plan, w);
    return (bits <= NIBBLE ? widen_nibble
            : bits <= BYTE ? widen_byte
                           : 0) +
           operation * cost_operations(plan, w);
}

double cost_gemv_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = c->plan;
    const Target *target = plan->target;
    int split = matmul_split(s);
    int64_t rows = s->swap_ab ? c->n : c->m, cols = s->swap_ab ? c->m : c->n;
    double tiles = ceil((double)rows / s->tile_m) * ceil((double)cols / s->tile_n) * (double)c->batch;
    double blocks = tiles * split,
           slots = target_clustered_sms(target, split) * matmul_blocks_per_sm(plan, s);
    double rounds = fmax(1, blocks / slots);
    double steps = ceil(ceil((double)c->k / s->tile_k) / split);
    MatmulStream stream = matmul_gemv_stream(plan, s, rows);
    const CostStream *cost = &cost_streams[stream.along_k];
    double waiting = rounds * (steps * cost->latency + cost->block);
    double weights = blocks * s->tile_n * steps * s->tile_k * plan->n_cores;
    double each = (double)s->tile_m / stream.columns;
    double slow = 2 + s->tile_m * cost->row + cost->column * each +
                  cost->load * (1 + each) * GEMV_WHOLE_LINE / stream.line +
                  (stream.is_apart ? 0 : cost->line * stream.asked); /* instructions a weight */
    slow += gemv_cost_computed(plan, s);
    double clocks = cost_clock * fmin(blocks, target->sm_count);
    double adds = weights * slow / 128 / clocks;
    double asking = stream.is_apart ? cost_line_apart * stream.asked * weights / 32 / clocks : 0;
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    memory *= fmax(1, pow(128.0 / stream.line, cost->short_lines)); /* it comes by half lines, and by pages */
    memory *= 1 + cost->apart * (split - 1);
    double again = tiles * fmin((double)rows, s->tile_m) * (double)c->k * dtype_bits(plan->a.elem) / 8 /
                   (cost->l2_per_clock * cost_clock);
    double longest = fmax(fmax(memory, again), fmax(waiting, fmax(adds, asking)));
    double others = memory + again + waiting + adds + asking - longest;
    double warps = fmin(blocks, slots) / target->sm_count * s->threads / 32;
    double idle = cost->idle_least + cost->idle * fmax(0, 1 - warps / 32);
    return cost_launch + cost_starting(fmin(blocks, slots), s->threads) + longest + idle * others +
           cost->end * memory / rounds +
           (split > 1 ? cost->meeting * (1 + cost_meet_again * (rounds - 1)) +
                            cost->meeting_element * s->tile_m * s->tile_n * split * rounds
                      : 0);
}
