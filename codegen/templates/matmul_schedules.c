/* The schedules of a matrix product, the quickest by estimate first: every candidate that its path accepts
 * gets an estimate of its time (cost_matmul.c). No tuning run is needed for that; a tuner may try the rest of
 * the list. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "codegen/schedule.h"
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_schedules.h"
#include "codegen/templates/matmul_simt.h"
#include "codegen/templates/matmul_staging.h"
#include "ir/base/checked.h"

/* The power of two nearest to `x`. */
static int schedules_power(double x) {
    int power = 1;
    while (power * 1.42 < x)
        power *= 2;
    return power;
}

static double schedules_operand_bytes(const MatmulOperand *operand, int64_t mn, int64_t k) {
    return (double)mn * (double)k * dtype_bits(operand->elem) / 8;
}

/* Whether L2 holds neither operand and the result is not stored, as of a loss: a launch of so many rounds
 * that blocks drift apart, and what they read of the larger operand comes from memory again and again. */
static bool schedules_only_reads(const Cost *c) {
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
static double schedules_rounds(const Cost *c, const Schedule *s) {
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

static void schedules_add(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
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
static bool schedules_reads_tables(const MatmulPlan *plan) {
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

/* The deepest ring for a schedule whose K is split, where whole tiles would leave SMs without work. */
static void schedules_add_split(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    if (s.tile_m * s.tile_n > 128 * 128)
        return; /* the exchange of a larger tile costs more than the SMs that it gains */
    for (s.split_k = 2; s.split_k <= 8; s.split_k *= 2)
        if (schedules_rounds(c, &s) * s.split_k <= 1.1)
            schedules_add_deepest(c, accepts, found, s, WGMMA_STAGES, 1);
}

/* With one or two warpgroups that bring operands from anywhere in memory, and the registers that those who
 * multiply leave them. */
static void schedules_add_bringing(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    enum { MOST = 2, LOADING = 24 };
    for (s.converters = MOST; s.converters > 0; s.converters--) {
        int groups = 1 + s.converters + s.warps_m;
        int at_launch = target_launch_registers(c->plan->target, groups);
        s.producer_registers = s.consumer_registers = 0;
        schedules_add_deepest(c, accepts, found, s, WGMMA_STAGES, 1);
        s.producer_registers = LOADING;
        s.consumer_registers = (matmul_registers(c->plan, &s) + 7) / 8 * 8;
        if (s.consumer_registers > at_launch)
            schedules_add_deepest(c, accepts, found, s, WGMMA_STAGES, 1);
    }
}

/* With three converting warpgroups beside one that multiplies, or one beside one or two. */
static void schedules_add_converting(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    if (matmul_brings(c->plan)) {
        schedules_add_bringing(c, accepts, found, s);
        return;
    }
    if (s.warps_m > 1) {
        s.producer_registers = 24;
        s.consumer_registers = 184;
    }
    for (s.converters = s.warps_m == 1 ? 3 : 1; s.converters > 0; s.converters -= 2)
        schedules_add_deepest(c, accepts, found, s, 9, 1);
}

/* With the operand computed where it is multiplied, from whole lines of memory. */
static void schedules_add_fragments(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    s.fragments = true;
    s.tile_k = 1024 / matmul_stage_bits(matmul_wgmma_plan(c->plan), &s, true);
    for (int blocks = 1; blocks <= (s.warps_m == 1 ? 2 : 1); blocks++)
        schedules_add_deepest(c, accepts, found, s, WGMMA_STAGES, blocks);
    schedules_add_split(c, accepts, found, s);
}

/* The most stages. Where K is one step, L2 does not hold the result and its rows begin within lines, tiles
 * that are loaded long before they are multiplied take room from lines that are still half written: 7896 x
 * 3832 x 24 took 32.1 us with nine stages, 31.2 with five, 29.4 with three, and 29.4 with two. */
static int schedules_stages(const Cost *c, const Schedule *s) {
    enum { SHORT_STAGES = 3 };
    double result = c->bytes_out * (double)c->m * (double)c->n * (double)c->batch;
    bool is_short = c->k <= s->tile_k && !c->plan->statistics.n && c->rows_out != COST_ROWS_ALIGNED &&
                    result > 0.75 * (double)c->plan->target->l2_bytes;
    return is_short ? SHORT_STAGES : WGMMA_STAGES;
}

/* Whether wgmma takes the transposed product alone. */
static bool schedules_is_turned(const MatmulPlan *plan) {
    return matmul_is_turned(plan, &plan->b[0]);
}

/* The deepest ring, alone and with neighbours that read the same rows or columns of an operand together. Four
 * of them leave a tenth of the SMs without work: for tiles that are few. (2801 x 10064 x 5480: 430 us, by two
 * 419.) */
static void schedules_add_clusters(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    static const int clusters[][2] = {{0, 0}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}};
    bool may_share = !s.swap_ab || schedules_is_turned(matmul_wgmma_plan(c->plan));
    bool is_large = s.tile_m * s.tile_n >= 64 * 64 && may_share;
    for (size_t i = 0; i < (is_large ? sizeof clusters / sizeof *clusters : 1); i++) {
        s.cluster_m = clusters[i][0];
        s.cluster_n = clusters[i][1];
        if (s.cluster_m * s.cluster_n > 2 && schedules_rounds(c, &s) > 1)
            break;
        schedules_add_deepest(c, accepts, found, s, schedules_stages(c, &s), 1);
    }
}

/* Whether an epilogue neither reduces nor reads inputs of its own. */
static bool schedules_is_plain(const Cost *c, const MatmulPlan *plan) {
    return !plan->columns.n && !plan->statistics.n && c->bytes_in == 0;
}

/* Nor stores by lanes. */
static bool schedules_is_light(const Cost *c, const MatmulPlan *plan) {
    return schedules_is_plain(c, plan) && c->ragged == 0;
}

/* Whether few registers are left beside a thread's sums: three warpgroups have 160 of them, and of 232 more
 * than 128 sums leave no more. Sums of columns took 1706 and 1955 us so, where 128 x 256 took 1522. So many
 * sums help to fill the last of a few rounds; of many rounds the last is little. Two blocks of rows besides
 * tables leave none: spilled or not, a head's norm and rotation took 82.6 us where one block took 64.2. */
static bool schedules_is_tight(const Cost *c, const MatmulPlan *plan, const Schedule *s) {
    enum { MANY_ROUNDS = 6 };
    if (schedules_reads_tables(plan) && s->tile_m > 64 * s->warps_m)
        return true;
    bool is_large = s->tile_m * s->tile_n > 128 * 128 * s->warps_m;
    if (plan->region->column_block && is_large) /* they spill */
        return true;
    bool is_light = schedules_is_light(c, plan) && !matmul_converters(plan, s);
    return (is_large && schedules_rounds(c, s) > MANY_ROUNDS) || ((is_large || s->warps_m == 3) && !is_light);
}

/* Whether such rows would come from memory again and again, since L2 does not keep them: two warpgroups in
 * turn load a third more than one tile of both has, and blocks that wait for memory drift apart. H100, 4096 x
 * 128256 logits along 4096: 6394 to 7460 us in turn, 6335 side by side, 16384 x 32000: 7532 and 6336. */
static bool schedules_drifts(const Cost *c) {
    enum { LESS_THAN_L2 = 3 };
    return schedules_only_reads(c) && LESS_THAN_L2 * schedules_operand_bytes(&c->plan->a, c->m, c->k) >
                                          (double)c->plan->target->l2_bytes;
}

/* Whether each tile has whole rows, or parts of them beside nothing that is read, of which statistics are
 * taken. */
static bool schedules_has_rows(const Cost *c, const MatmulPlan *plan, const Schedule *s) {
    bool has_parts = plan->block_cols && c->bytes_in == 0 && !schedules_drifts(c);
    return plan->statistics.n && !plan->columns.n && c->ragged == 0 && (has_parts || c->n <= s->tile_n);
}

/* Whether two warpgroups may take turns. With other epilogues than plain ones that took longer: sums of
 * columns 1818 us where a shared tile took 1552, a gate 668 for 607, rows of 1023 columns 25.1 for 21.3; and
 * two products, whose tiles are narrow then, 1245 for 1201. Not so whole rows, of which all the work comes
 * behind the product: softmax of 32768 rows of 128 along 512 took 17.4 us for 19.4, of 96 along 2048 42.3 for
 * 45.2; nor parts of rows: the loss of 4096 x 32000 logits along 2048 795 us for 876; nor stores by lanes:
 * 4096 x 50257 logits along 768 450 us for 566. */
static bool schedules_has_turns(const Cost *c, const MatmulPlan *plan, const Schedule *s) {
    bool is_large = (plan->region->column_block || plan->block_cols) && s->tile_n > 128; /* they spill */
    return !is_large && s->tile_m == 128 && s->tile_n >= 96 && plan->n_cores == 1 &&
           (schedules_is_plain(c, plan) || schedules_has_rows(c, plan, s)) && schedules_rounds(c, s) > 1;
}

/* Whether two warpgroups may take tiles of 64 rows in turn whose rows lie in a gang: one waits for the other
 * blocks' statistics while the other multiplies. Few blocks, and a K neither long, as tiles of half the rows
 * are loaded at more bytes a product, nor so short that there is little to wait behind (softmax and rmsnorm
 * of 8192 x 1024 x 1024 took 32.3 and 29.5 us for 35.3 and 31.1, of 8192 x 1024 x 4096 94 and 92 for 95
 * and 90.6, softmax of 8192 x 2048 x 1024 73 for 65, of 96 heads' scores, 512 x 512 from K = 64, 55 for 53).
 * Inputs of the epilogue would not come through the ring then. */
static bool schedules_has_gang_turns(const Cost *c, const MatmulPlan *plan, const Schedule *s) {
    enum { GANG = 4, LEAST_DEPTH = 512, MOST_DEPTH = 2048 };
    int gang = matmul_gang(plan, s);
    return s->tile_m == 64 && s->warps_m == 1 && s->tile_n >= 128 && gang > 1 && gang <= GANG &&
           c->k >= LEAST_DEPTH && c->k <= MOST_DEPTH && plan->n_cores == 1 && !plan->columns.n &&
           !plan->region->column_block && c->bytes_in == 0 && c->ragged == 0 && !s->swap_ab;
}

/* Whether the transposed product may be as quick for a large M as for a small one: what its epilogue read of
 * other memory would lie in strides, as would what TMA does not store; elements of 32 bits, in boxes half as
 * wide, are not measured. */
static bool schedules_swaps(const Cost *c, const MatmulPlan *plan) {
    Schedule s = {.tile_m = 64, .tile_n = 64, .warps_m = 1, .swap_ab = true, .tma_store = true};
    return schedules_is_light(c, plan) && plan->n_cores == 1 && plan->region->outputs.n == 1 &&
           !c->has_wide_outputs && !matmul_converters(plan, &s) && matmul_staging_bytes(plan, &s) > 0;
}

/* One tile by wgmma, all ways to run it. */
static void schedules_wgmma_tile(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    const MatmulPlan *plan = matmul_wgmma_plan(c->plan);
    if (schedules_is_tight(c, plan, &s))
        return;
    bool has_idle = matmul_uses_idle_warps(plan);
    /* two sums at a time take what there is */
    schedule_deal_registers(&s, matmul_partial_cols(plan, &s) || schedules_reads_tables(plan));
    if (has_idle && s.warps_m > 1) {
        s.producer_registers = GUEST_REGISTERS;
        s.consumer_registers = s.warps_m == 3 ? 152 : 224;
    }
    schedules_add_clusters(c, accepts, found, s);
    if (matmul_converters(plan, &s) || plan->operand_rows.n) {
        schedules_add_converting(c, accepts, found, s);
        schedules_add_fragments(c, accepts, found, s);
        return;
    }
    schedules_add_split(c, accepts, found, s);
    if (s.warps_m >= 2 && (!s.swap_ab || schedules_is_turned(plan))) {
        Schedule shared = s;
        shared.stream_k = true;
        schedules_add_deepest(c, accepts, found, shared, WGMMA_STAGES, 1);
    }
    if (schedules_has_turns(c, plan, &s)) {
        Schedule turns = s;
        turns.ping_pong = true;
        if (!has_idle)
            schedule_deal_registers(&turns, false);
        schedules_add_clusters(c, accepts, found, turns);
    }
    if (schedules_has_gang_turns(c, plan, &s)) {
        Schedule turns = s;
        turns.threads = 128 * 3;
        turns.warps_m = 2;
        turns.ping_pong = true;
        schedule_deal_registers(&turns, false);
        if (has_idle) {
            turns.producer_registers = GUEST_REGISTERS;
            turns.consumer_registers = 224;
        }
        schedules_add_deepest(c, accepts, found, turns, WGMMA_STAGES, 1);
    }
    if (s.warps_m == 1)
        schedules_add_deepest(c, accepts, found, s, schedules_stages(c, &s), 2);
}

/* The longest step of K, up to a line of 128 bytes, that divides the parts in which memory has an operand's
 * K, and the blocks of its factors. */
static int schedules_step(const MatmulPlan *plan, int line) {
    int step = line;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        const MatmulScaleAxis *factors = operand->scale ? &operand->scale->axis[operand->k_axis] : NULL;
        const Dim *part = matmul_has_windows(operand) && operand->major == MAJOR_K
                              ? operand->windows->channels
                              : operand->k_part;
        while (part && !plan->k_unit && step > line / 4 && dim_divisor(plan->graph->dims, part) % step != 0)
            step /= 2;
        while (factors && factors->stride && step > line / 4 && factors->block % step != 0)
            step /= 2;
    }
    return step;
}

/* Whether steps of so many elements leave less of them empty than steps of twice as many: a short K does, and
 * short parts of it. */
static bool schedules_halves(const Cost *c, const MatmulPlan *plan, int tile_k) {
    Schedule s = {.tile_k = tile_k}, longer = {.tile_k = 2 * tile_k};
    if (!plan->k_unit)
        return c->k <= tile_k;
    return round_up(plan->k_unit->value, s.tile_k) < round_up(plan->k_unit->value, longer.tile_k);
}

/* Columns that have to be whole in a tile: within which they trade places, or of which it has statistics; 0:
 * any will do. */
static int64_t schedules_whole_columns(const MatmulPlan *plan) {
    if (plan->region->column_block)
        return plan->region->column_block;
    return plan->statistics.n && dim_is_const(plan->n) ? plan->n->value : 0;
}

static void schedules_wgmma(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    enum { FEW_ROUNDS = 3, SMALL_ROWS = 128 };
    static const int rows[][2] = {{128, 2}, {192, 3}, {256, 2}, {64, 1}}; /* tile_m, consumer warpgroups */
    const MatmulPlan *plan = matmul_wgmma_plan(c->plan);
    int line = 1024 / dtype_bits(plan->a.elem); /* elements of 128 bytes */
    int step = schedules_step(plan, line);
    int64_t whole = schedules_whole_columns(plan);
    /* sums are f32's unless the graph allows less; those of one step of K have no more than the tensor cores
     */
    bool promote = plan->kind == MATMUL_FP8 && !plan->region->fast_sums && c->k > line;
    bool is_small = c->m <= SMALL_ROWS, is_turned = schedules_is_turned(plan);
    int swaps = is_small || is_turned || schedules_swaps(c, plan) ? 2 : 1;
    /* of three products or four that share few columns out, tiles of 16 each would leave SMs without work */
    int least = plan->n_cores > 2 ? 8 : 16;
    schedules_patches(c, accepts, found, step);
    for (int swap = is_turned; swap < swaps; swap++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int tile_n = least; tile_n <= 256; tile_n += tile_n < 16 ? 8 : 16) {
                bool is_round = tile_n % 64 == 0 || tile_n <= 16 || tile_n == 32 || tile_n == 96 ||
                                tile_n == 160 || (whole > 0 && tile_n % whole == 0);
                /* few tiles may share themselves out among the SMs more evenly with another number of
                 * columns, or with their finer side along M: 4800 x 1024 x 8192 took 114 us, with 160 rows of
                 * the result a tile 105 */
                Schedule tile = {.tile_m = rows[i][0], .tile_n = tile_n, .swap_ab = swap};
                bool is_few = schedules_rounds(c, &tile) <= FEW_ROUNDS * plan->n_cores;
                if (swap && !is_small && !is_turned && !is_few)
                    continue;
                for (int tile_k = step; (is_round || is_few) && tile_k >= line / 4 &&
                                        (tile_k == step || schedules_halves(c, plan, tile_k));
                     tile_k /= 2)
                    schedules_wgmma_tile(c, accepts, found,
                                         (Schedule){.path = MATMUL_WGMMA,
                                                    .threads = 128 * (1 + rows[i][1]),
                                                    .tile_m = rows[i][0],
                                                    .tile_n = tile_n,
                                                    .tile_k = tile_k,
                                                    .warps_m = rows[i][1],
                                                    .warps_n = 1,
                                                    .persistent = true,
                                                    .swap_ab = swap,
                                                    .promote = promote,
                                                    .tma_store = true});
            }
}

/* Whether threads compute an operand, or copy it element by element. */
static bool schedules_computes(const MatmulPlan *plan, const Schedule *s) {
    bool computes = matmul_loader_registers(plan, &plan->a, s, s->tile_m, s->threads) > 0;
    for (int i = 0; i < plan->n_cores; i++)
        computes |= matmul_loader_registers(plan, &plan->b[i], s, s->tile_n, s->threads) > 0;
    return computes;
}

/* Copies of a thread for a stage, each of which has an address in registers. */
static int schedules_copies(const MatmulPlan *plan, const Schedule *s) {
    int pieces = 0;
    for (int i = 0; i <= plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        int width = operand->copy_width ? operand->copy_width : operand->run_width;
        pieces += (i ? s->tile_n : s->tile_m) * s->tile_k / width;
    }
    return pieces / s->threads;
}

/* The last shapes are for tf32, of which shared memory sets the pace: fewer warps, whose parts are larger. */
static void schedules_mma(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    static const int shapes[][4] = {
        /* tile_m, tile_n, warps_m, warps_n */
        {128, 256, 2, 4}, {128, 128, 2, 4}, {128, 128, 2, 2}, {128, 128, 4, 2}, {128, 64, 2, 2},
        {64, 128, 2, 2},  {64, 128, 2, 4},  {64, 64, 2, 2},   {64, 64, 4, 2},   {64, 32, 2, 2},
        {64, 32, 4, 2},   {32, 128, 1, 4},  {32, 64, 1, 2},   {32, 64, 2, 2},   {32, 32, 2, 2},
        {16, 128, 1, 4},  {16, 64, 1, 2},   {16, 32, 1, 2},   {64, 256, 4, 1},  {64, 128, 4, 1},
        {128, 128, 8, 1}, {128, 256, 8, 1}, {64, 64, 4, 1},   {64, 32, 4, 1},   {64, 16, 4, 1},
        {32, 256, 2, 1},  {16, 16, 1, 1},   {96, 112, 3, 1},  {64, 64, 1, 2},   {64, 32, 2, 1}};
    enum { STAGES = 4, STAGES_F64 = 6, SHAPES_TF32 = 3 /* the last */, MOST_COPIES = 22 };
    int all = (int)(sizeof shapes / sizeof *shapes), few_warps = all - SHAPES_TF32;
    int n_shapes = c->plan->kind == MATMUL_TF32 ? all : few_warps;
    bool is_f64 = c->plan->kind == MATMUL_F64;
    int bits = dtype_bits(c->plan->a.elem), before = found->n;
    /* a warp that has long rows to itself reads more than it multiplies: for their statistics alone; long
     * steps of 8-bit elements take the registers that large tiles need */
    bool has_rows = c->plan->statistics.n || c->plan->block_cols || c->plan->region->column_block;
    /* stages of one instruction's K where computed operands leave no registers for more, or K is short */
    int one = is_f64 ? 64 : 32; /* bytes */
    for (int least = c->k * bits <= 8 * one ? one : 2 * one; least >= one && found->n == before; least /= 2)
        for (int i = 0; i < n_shapes; i++)
            for (int k_bytes = least; k_bytes <= 2 * least; k_bytes *= 2) {
                Schedule s = {.path = MATMUL_MMA_SYNC,
                              .threads = 32 * shapes[i][2] * shapes[i][3],
                              .tile_m = shapes[i][0],
                              .tile_n = shapes[i][1],
                              .tile_k = k_bytes * 8 / bits,
                              .warps_m = shapes[i][2],
                              .warps_n = shapes[i][3]};
                bool is_large = s.tile_m * s.tile_n >= 64 * 64;
                if ((i >= few_warps && schedules_copies(c->plan, &s) > MOST_COPIES) ||
                    (s.warps_n == 1 && s.tile_n >= 128 && !has_rows) ||
                    (bits == 8 && k_bytes == 128 && is_large))
                    continue;
                /* a ring deeper than K only fills stages with zeros; what is computed on its way comes one
                 * step ahead however deep it is, and the first steps one after the other */
                int64_t steps = (c->k + s.tile_k - 1) / s.tile_k;
                int deepest = is_f64 ? STAGES_F64 : STAGES;
                int most = schedules_computes(c->plan, &s) ? 2 : steps < deepest ? (int)steps + 1 : deepest;
                for (int blocks = 1; blocks <= 4; blocks *= 2)
                    schedules_add_deepest(c, accepts, found, s, most, blocks);
            }
}

/* Warps of a block along M and N for a tile, so that threads load the least for what they multiply, and if
 * that leaves a choice store the longest runs; false: so many do not divide it. */
static bool schedules_simt_warps(const Cost *c, int warps, Schedule *s) {
    SimtShape shape;
    Schedule tried = *s;
    int least = INT_MAX;
    for (tried.warps_m = warps; tried.warps_m >= 1; tried.warps_m /= 2) {
        tried.warps_n = warps / tried.warps_m;
        if (simt_shape(c->plan, &tried, &shape) && simt_loads(&shape, c->plan->n_cores) < least &&
            (tried.warps_n == 1 || !c->plan->statistics.n)) {
            least = simt_loads(&shape, c->plan->n_cores);
            *s = tried;
        }
    }
    return least < INT_MAX;
}

/* A tile whole, and shared by the blocks of a cluster as long as not all SMs have some. */
static void schedules_simt_tile(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    enum { STAGES = 3, SPLIT_MOST = 8, BLOCKS_MOST = 3 /* of an SM */ };
    int most = schedules_computes(c->plan, &s) ? 2 : STAGES; /* it comes one step ahead however deep it is */
    double rounds = schedules_rounds(c, &s);
    for (s.split_k = 1; s.split_k <= SPLIT_MOST; s.split_k *= 2)
        if (s.split_k == 1 || rounds * s.split_k <= BLOCKS_MOST)
            schedules_add_deepest(c, accepts, found, s, most, 1);
}

static void schedules_simt(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    static const int sides[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256};
    enum { SIDES = sizeof sides / sizeof *sides, LEAST = 4, MOST = 8 /* warps */, LARGE = 128 * 256 };
    /* four warps divide no tile of less than 32 x 64: sides to that are there however few the rows are */
    double m = fmax(c->m, 32), n = fmax(c->n, 64);
    for (int i = 0; i < SIDES && (i == 0 || sides[i - 1] < m); i++)
        for (int j = 0; j < SIDES && (j == 0 || sides[j - 1] < n); j++)
            for (int warps = LEAST; warps <= MOST; warps *= 2)
                for (int tile_k = 16; tile_k <= 32; tile_k *= 2) {
                    Schedule s = {.path = MATMUL_SIMT,
                                  .threads = 32 * warps,
                                  .tile_m = sides[i],
                                  .tile_n = sides[j],
                                  .tile_k = tile_k};
                    int area = s.tile_m * s.tile_n;
                    /* longer steps, where registers are left for what is on its way to shared memory */
                    bool is_large =
                        (warps == MOST && area > 32 * s.threads) || dtype_bits(c->plan->a.elem) == 64;
                    if (area <= LARGE && !(tile_k > 16 && is_large) && schedules_simt_warps(c, warps, &s))
                        schedules_simt_tile(c, accepts, found, s);
                }
}

/* The few rows of a gemv, or with `swap` its few columns. */
static void schedules_gemv_few(const Cost *c, SchedulesAccept *accepts, Candidates *found, int64_t few,
                               bool swap) {
    int rows = 1;
    while (rows < few && rows < 8)
        rows *= 2;
    Schedule s = {.path = MATMUL_GEMV, .tile_m = rows, .swap_ab = swap};
    for (s.warps_m = 4; s.warps_m <= 8; s.warps_m *= 2)
        for (s.tile_n = 1; s.tile_n <= 256; s.tile_n *= 2)
            for (s.split_k = 1; s.split_k <= 8; s.split_k *= 2) {
                s.warps_n = 1;
                s.threads = 32 * s.warps_m;
                int least = matmul_gemv_step(c->plan, &s);
                for (s.tile_k = least; least && s.tile_k <= 8 * least; s.tile_k *= 2)
                    schedules_add(c, accepts, found, s);
            }
}

/* A tile of the skinny path with as many runs under way as there may be. */
static void schedules_skinny_steps(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    enum { UNROLL_MOST = 8 };
    int least = matmul_skinny_step(c->plan, &s);
    for (s.tile_k = least; least && s.tile_k <= UNROLL_MOST * least; s.tile_k *= 2)
        schedules_add(c, accepts, found, s);
}

/* The few rows, or with `swap` columns, of the skinny path: in the longest runs, and where there is more than
 * one group of rows in shorter ones, too, which take fewer registers of each. */
static void schedules_skinny_few(const Cost *c, SchedulesAccept *accepts, Candidates *found, int64_t few,
                                 bool swap) {
    enum { ROWS_LEAST = 8, COLUMNS = 16, BLOCKS_MOST = 4, ACROSS_MOST = 16, WARPS_MOST = 8, SHORT = 16 };
    Schedule s = {.path = MATMUL_SKINNY, .tile_m = ROWS_LEAST, .swap_ab = swap};
    bool is_across = matmul_skinny_is_across(c->plan, &s);
    int most = is_across ? ACROSS_MOST : BLOCKS_MOST;
    while (s.tile_m < few)
        s.tile_m *= 2;
    for (s.warps_m = 1; s.warps_m <= WARPS_MOST; s.warps_m *= 2)
        for (s.warps_n = s.warps_m < 4 ? 4 / s.warps_m : 1; s.warps_m * s.warps_n <= WARPS_MOST;
             s.warps_n *= 2)
            for (int blocks = is_across ? 2 : 1; blocks <= most; blocks *= 2)
                for (s.split_k = 1; s.split_k <= 8; s.split_k *= 2) {
                    s.threads = 32 * s.warps_m * s.warps_n;
                    s.tile_n = COLUMNS * blocks * s.warps_n;
                    schedules_skinny_steps(c, accepts, found, s);
                    Schedule other = s;
                    other.vector = SHORT; /* of several groups of rows, shorter; of runs across, longer */
                    int step = matmul_skinny_step(c->plan, &s), others = matmul_skinny_step(c->plan, &other);
                    if (is_across ? others > step : few > ROWS_LEAST && others < step)
                        schedules_skinny_steps(c, accepts, found, other);
                }
}

/* Weights of 4 and 8 bits, as the estimate is measured for. Of 16 bits wgmma takes no longer (8 x 4096 x
 * 4096 14.7 us, 15.3 by this path), and of 32 rows and more it is quicker with fewer bits, too (32 x 11008 x
 * 4096 29 us, 39); along N only of more than 32, as its warps collect those nibble by nibble (58, 33). */
static void schedules_skinny_side(const Cost *c, SchedulesAccept *accepts, Candidates *found, bool swap) {
    enum { MOST_ROWS = 16, MOST_ACROSS = 32, NARROW = 8 };
    int64_t few = swap ? c->n : c->m;
    Schedule s = {.path = MATMUL_SKINNY, .swap_ab = swap};
    const MatmulOperand *weights = swap ? &c->plan->a : &c->plan->b[0];
    int most = matmul_skinny_is_across(c->plan, &s) ? MOST_ACROSS : MOST_ROWS;
    if (few <= most && matmul_skinny_bits(c->plan, weights) <= NARROW)
        schedules_skinny_few(c, accepts, found, few, swap);
}

static void schedules_skinny(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    if (c->plan->kind != MATMUL_16BIT)
        return;
    schedules_skinny_side(c, accepts, found, false);
    if (c->m > c->n)
        schedules_skinny_side(c, accepts, found, true);
}

static void schedules_gemv(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    const MatmulPlan *plan = c->plan;
    enum { MOST_ROWS = 64 /* in tiles of 8, for weights that neither TMA nor cp.async can read */ };
    /* the constants are measured for 16-bit and exact f32 operands, and those of f64 are read alike; the
     * others have it by @schedule */
    DType type = plan->core[0]->dtype;
    bool is_fma = plan->kind == MATMUL_FMA && (type == DTYPE_F32 || type == DTYPE_F64);
    if (plan->kind != MATMUL_16BIT && plan->kind != MATMUL_F64 && !is_fma)
        return;
    if (c->m <= MOST_ROWS)
        schedules_gemv_few(c, accepts, found, c->m, false);
    /* where both are few, rows serve as well, unless columns are many times as many */
    if (c->n <= MOST_ROWS && (c->m > 8 ? c->m > c->n : c->m >= 4 * c->n))
        schedules_gemv_few(c, accepts, found, c->n, true);
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
