/* An estimate of the time of tiles by multiply-adds from shared memory. A step of K takes the longer of two:
 * instructions, of which a scheduler issues one a clock, the multiply-adds with the loads among them; and
 * shared memory, which has to give a warp its vectors and to take the next step's elements. What neither
 * hides of the barrier and of first loads, other blocks of the SM do.
 *
 * By 40 schedules of two products on an H200, 200 x 3072 x 768 and 1000 x 640 x 640. */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_simt.h"

static const double cost_launch = 4.6e-6; /* seconds of a kernel */
static const double cost_fill = 1e-6;     /* and of a block's first step, from memory */
static const double cost_others = 0.06;   /* instructions for one multiply-add, besides those that load */
static const double cost_few =
    0.2; /* more clocks for each of four warps, by the square of their share of all */
static const double cost_both = 6;      /* the power in which instructions and shared memory add up */
static const double cost_waits = 400;   /* clocks of a step in which a block alone does nothing */
static const double cost_hidden = 0.94; /* the share of other blocks' work that hides them */
/* Seconds for the blocks of a cluster to meet, and for each element of the tile that they exchange. */
static const double cost_meeting = 1.24e-6, cost_meeting_element = 0.1e-9;
/* Share of memory's time that is not hidden behind multiply-adds, and what it takes where it sets the pace.
 */
static const double cost_memory = 0.2, cost_streamed = 1.45;

/* Clocks of a step, of one block among `blocks` of an SM. */
static double simt_step(const Cost *c, const Schedule *s, const SimtShape *shape, const CostShare *w,
                        double blocks) {
    const MatmulPlan *plan = c->plan;
    double warps = s->threads / 32, cores = plan->n_cores, bytes = dtype_bits(plan->a.elem) / 8.0;
    double products =
        (double)s->tile_m * s->tile_n * s->tile_k * cores; /* of a thread: rows * cols * width^2 */
    double loads = (shape->rows + shape->cols * cores) /
                   (shape->rows * shape->cols * cores * shape->width * shape->width);
    double few = 4 / (warps * blocks);
    double issue = products * 2 / (cost_fma_rate(plan) / plan->target->sm_count) * cost_clock;
    issue *= (1 + loads + cost_others) * (1 + cost_few * few * few);
    double shared = warps * s->tile_k * simt_loads(shape, plan->n_cores);
    shared += (s->tile_m + s->tile_n * cores) * s->tile_k * bytes / 128;
    double computed = cost_computed(c, plan, s, w) * cost_clock;
    return fmax(computed, pow(pow(issue, cost_both) + pow(shared, cost_both), 1 / cost_both));
}

/* Seconds in which an SM has done all steps of so many blocks side by side. */
static double simt_round(const Cost *c, const Schedule *s, const SimtShape *shape, const CostShare *w,
                         double blocks) {
    double busy = simt_step(c, s, shape, w, blocks);
    double waits = cost_waits * cost_waits / (cost_waits + cost_hidden * busy * (blocks - 1));
    return w->steps * (blocks * busy + waits) / cost_clock;
}

double cost_simt_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = c->plan;
    const Target *target = plan->target;
    CostShare w = cost_share(c, plan, s);
    SimtShape shape;
    if (!simt_shape(plan, s, &shape))
        return INFINITY;
    double tiles = w.tiles_m * w.tiles_n * (double)c->batch * w.split;
    double turns =
        fmax(1, ceil(tiles / target_clustered_sms(target, w.split))); /* blocks of the busiest SM */
    double abreast = fmin(matmul_blocks_that_fit(plan, s), turns), rounds = ceil(turns / abreast);
    w.crowd = 1;
    double last = turns - (rounds - 1) * abreast;
    double work = (rounds - 1) * simt_round(c, s, &shape, &w, abreast) + simt_round(c, s, &shape, &w, last);
    work += turns * cost_tile_epilogue(c, plan, s, &w) + cost_fill;
    if (w.split > 1)
        work += rounds * (cost_meeting + cost_meeting_element * s->tile_m * s->tile_n * abreast);
    double memory = (double)c->bytes / target->memory_bytes_per_second;
    memory = fmax(cost_memory * memory, cost_streamed * (memory - work));
    return cost_launch + cost_starting(w.all, s->threads) + work + memory;
}
