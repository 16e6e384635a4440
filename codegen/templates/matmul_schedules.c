/* The schedules of a matrix product, the quickest by estimate first: every candidate that its path accepts
 * gets an estimate of its time (cost_matmul.c). No tuning run is needed for that; a tuner may try the rest of
 * the list. */
#include <math.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "codegen/schedule.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_reach.h"
#include "codegen/templates/matmul_schedules.h"
#include "codegen/templates/matmul_tiles.h"

/* The power of two nearest to `x`. */
static int schedules_power(double x) {
    int power = 1;
    while (power * 1.42 < x)
        power *= 2;
    return power;
}

double schedules_operand_bytes(const MatmulOperand *operand, int64_t mn, int64_t k) {
    return (double)mn * (double)k * dtype_bits(operand->elem) / 8;
}

/* Whether L2 holds neither operand and the result is not stored, as of a loss: a launch of so many rounds
 * that blocks drift apart, and what they read of the larger operand comes from memory again and again. */
bool schedules_only_reads(const Cost *c) {
    const MatmulPlan *plan = c->plan;
    double larger = schedules_operand_bytes(&plan->b[0], c->n, c->k);
    return c->bytes_out * 16 < dtype_bits(plan->a.elem) && c->m <= c->n && plan->n_cores == 1 &&
           c->batch == 1 && larger > (double)plan->target->l2_bytes;
}

/* Where indices choose the second operands, rows of tiles that are far apart may read the same one: as many
 * come together as a quarter of L2 holds the first operand of: each half of it has what the other's SMs read,
 * too. */
static int schedules_group_above(const Cost *c, const Schedule *s) {
    double all = ceil((double)c->m / s->tile_m) * (double)c->batch;
    double row = schedules_operand_bytes(&c->plan->a, s->tile_m, c->k);
    return schedules_power(fmin((double)c->plan->target->l2_bytes / 4 / row, all));
}

/* Tiles that a round of blocks works on together should span equal bytes of both operands. With wgmma half as
 * many rows did as well or better: 4 took up to 4 % less than 8, 16 up to 2 % more. A round that has whole
 * rows of tiles goes along them, as does one that soon ends: 2 took 2 to 4 % less than 8. */
static int schedules_group_m(const Cost *c, const Schedule *s) {
    enum { FEW_COLUMNS = 8, SHORT_BYTES = 512 };
    if (!s->swap_ab && matmul_above(c->plan) < c->plan->batch_rank)
        return schedules_group_above(c, s);
    int bits = dtype_bits(c->plan->a.elem), cluster_n = s->cluster_n > 1 ? s->cluster_n : 1;
    double cols = s->swap_ab ? (double)c->m : (double)c->n * (double)c->beside;
    double slots = c->plan->target->sm_count;
    double group = sqrt(slots * s->tile_n / s->tile_m) / (s->cluster_m > 1 ? s->cluster_m : 1);
    bool is_along = cols <= FEW_COLUMNS * s->tile_n * cluster_n || (double)c->k * bits / 8 <= SHORT_BYTES;
    if (s->path == MATMUL_WGMMA)
        group = is_along ? fmin(group / 2, 2) : group / 2;
    return schedules_power(group);
}

/* Rounds that the tiles of a schedule are, a tile a SM. */
double schedules_rounds(const Cost *c, const Schedule *s) {
    Cost of = cost_joined(c, s);
    double rows = (double)(s->swap_ab ? of.n : of.m), cols = (double)(s->swap_ab ? of.m : of.n);
    return ceil(rows / s->tile_m) * ceil(cols / s->tile_n) * (double)of.batch / c->plan->target->sm_count;
}

/* The order of tiles. Where L2 holds nothing of what a group of rows has read when the next begins, the
 * larger operand, the columns', comes once: a few columns of tiles with all rows, then the next ones;
 * neighbouring blocks read as much together as in the other order. H100, the losses of 8192 x 50257 logits
 * along 768: 1216 us, so 1114; of 2048 x 256000 along 2304: 4006 and 3467; by tiles of 256 x 128 of 16384 x
 * 32000 along 4096: 6631 and 6336. Where the result is stored as well, that took 2 % longer. */
static void schedules_set_order(const Cost *c, Schedule *s) {
    enum { TOGETHER = 32 };
    s->group_m = schedules_group_m(c, s);
    if (matmul_reach(matmul_wgmma_plan(c->plan), s).axes) { /* a round has tiles of as many steps */
        double rounds = schedules_rounds(c, s);
        s->group_m = (int)ceil(rounds * c->plan->target->sm_count / ceil(rounds));
        return;
    }
    if (s->path != MATMUL_WGMMA || s->swap_ab || !schedules_only_reads(c) ||
        c->m <= (int64_t)s->group_m * s->tile_m)
        return;
    s->group_m = 0;
    s->group_n = schedules_power(sqrt((double)TOGETHER * s->tile_m / s->tile_n));
}

void schedules_add(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    const char *why;
    schedules_set_order(c, &s);
    bool is_known = found->n && schedule_equals(&found->at[found->n - 1], &s); /* more blocks took no less */
    if (is_known || found->n == SCHEDULES_MOST - 1 || !accepts(c->plan, &s, &why))
        return;
    s.seconds = cost_product(c, &s);
    found->at[found->n++] = s;
}

/* Whether an epilogue normalizes rows and reads tables, as of a rotation, besides: too much for its
 * registers, so that it reads them more than once. */
bool schedules_reads_tables(const MatmulPlan *plan) {
    return plan->region->column_block && plan->statistics.n;
}

/* Whether a ring leaves L1 too little for such tables: of 64 KiB a tile 60 KiB hold the most, 28 KiB do not.
 * (A head's norm and rotation, 8192 x 2048 x 1024: six stages took 69.9 us, five 64.2.) */
static bool schedules_crowds_tables(const MatmulPlan *plan, const Schedule *s) {
    enum { TABLES_L1 = 32 << 10 };
    return s->path == MATMUL_WGMMA && schedules_reads_tables(plan) &&
           matmul_smem_wgmma(plan, s) > plan->target->smem_per_sm - TABLES_L1;
}

void schedules_add_deepest(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s, int most,
                           int blocks) {
    const char *why;
    const MatmulPlan *plan = cost_plan(c, &s);
    for (s.stages = most; s.stages >= 2; s.stages--)
        if (accepts(c->plan, &s, &why) && matmul_blocks_per_sm(plan, &s) >= blocks &&
            !schedules_crowds_tables(plan, &s)) {
            schedules_add(c, accepts, found, s);
            return;
        }
}

/* Whether a thread that adds up an element of its own may be as quick as a tile. */
static bool schedules_loops(const Cost *c) {
    const MatmulPlan *plan = c->plan;
    return matmul_is_short(plan) && plan->n_cores == 1 && !plan->statistics.n && !plan->columns.n;
}

static int schedules_compare(const void *x, const void *y) {
    const Schedule *a = x, *b = y;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    /* fewer, larger tiles: less traffic */
    int64_t area_a = (int64_t)a->tile_m * a->tile_n, area_b = (int64_t)b->tile_m * b->tile_n;
    if (area_a != area_b)
        return area_a > area_b ? -1 : 1;
    return a->tile_m < b->tile_m ? -1 : a->tile_m > b->tile_m;
}

/* How many of the first n have the tile of `s`, its step, its warps and their turns. */
static int schedules_alike(const Schedule *out, int n, const Schedule *s) {
    int alike = 0;
    for (int i = 0; i < n; i++)
        alike += out[i].path == s->path && out[i].tile_m == s->tile_m && out[i].tile_n == s->tile_n &&
                 out[i].tile_k == s->tile_k && out[i].warps_m == s->warps_m && out[i].warps_n == s->warps_n &&
                 out[i].ping_pong == s->ping_pong && out[i].stream_k == s->stream_k;
    return alike;
}

/* The same with so many registers for the warpgroup that loads and for those that multiply, where accepted.
 */
static Schedule schedules_given(const MatmulPlan *plan, SchedulesAccept *accepts, const Schedule *s,
                                int producer, int consumer) {
    Schedule given = *s;
    const char *why;
    given.producer_registers = producer;
    given.consumer_registers = consumer;
    return accepts(plan, &given, &why) ? given : *s;
}

/* The same with fewer registers wanted. First with more given as well where rows have statistics, whose
 * warpgroups want them most; last with fewer: what the assembler spills of 232, it sometimes has room for in
 * 224. */
static Schedule schedules_eased(const MatmulPlan *plan, SchedulesAccept *accepts, const Schedule *s,
                                int ease) {
    Schedule eased = *s;
    eased.ease = ease;
    if (ease == 0 || s->consumer_registers != 232)
        return eased;
    if (ease == 1)
        return plan->statistics.n ? schedules_given(plan, accepts, &eased, 24, 240) : eased;
    return schedules_given(plan, accepts, &eased, 48, 224);
}

int matmul_schedules(const MatmulPlan *plan, const DimBindings *hint, const Schedule *loop, Schedule *out,
                     int room, SchedulesAccept *accepts) {
    const Graph *graph = plan->graph;
    Cost c;
    cost_begin(&c, plan, hint);
    Candidates *found = ARENA_NEW(graph->arena, Candidates);
    schedules_wgmma(&c, accepts, found);
    schedules_mma(&c, accepts, found);
    schedules_simt(&c, accepts, found);
    schedules_gemv(&c, accepts, found);
    schedules_skinny(&c, accepts, found);
    if (schedules_loops(&c)) {
        found->at[found->n] = *loop;
        found->at[found->n++].seconds = cost_product(&c, loop);
    }
    qsort(found->at, (size_t)found->n, sizeof *found->at, schedules_compare);
    /* the best also with fewer registers, should the assembler find that it spills; and a short list does not
     * end before it has come to other tiles */
    int n = 0, alike = room <= CODEGEN_SCHEDULES ? 1 : room;
    bool has_loop = false;
    for (int i = 0; i < found->n && n < room - 1; i++) {
        if (schedules_alike(out, n, &found->at[i]) >= alike)
            continue;
        MatmulPath path = found->at[i].path;
        int eases = i || matmul_streams(path) || path == MATMUL_LOOP ? 1 : 3;
        for (int ease = 0; ease < eases && n < room - 1; ease++)
            out[n++] = schedules_eased(plan, accepts, &found->at[i], ease);
        has_loop |= path == MATMUL_LOOP;
    }
    if (!has_loop && n < room && !plan->region->guest) {
        out[n] = *loop; /* each element its own sum: the path that always exists */
        out[n++].seconds = cost_product(&c, loop);
    }
    return n;
}
