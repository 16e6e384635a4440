/* The schedules by wgmma: tiles, rings, clusters, warpgroups in turn or side by side, and those that convert,
 * bring or compute operands. */
#include "codegen/schedule.h"
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_schedules.h"
#include "codegen/templates/matmul_staging.h"
#include "ir/base/checked.h"

/* The deepest ring for a schedule whose K is split, where whole tiles would leave SMs without work. */
static void schedules_add_split(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    if (s.tile_m * s.tile_n > 128 * 128)
        return; /* the exchange of a larger tile costs more than the SMs that it gains */
    for (s.split_k = 2; s.split_k <= 8; s.split_k *= 2)
        if (schedules_rounds(c, &s) * s.split_k <= 1.1)
            schedules_add_deepest(c, accepts, found, s, WGMMA_STAGES, 1);
}

/* Whether lines of K would be brought of which little is anything: mma.sync, or a loop, always took less time
 * then. 164 x 13662 x 4 17.2 us, 9.3 by mma.sync; 88 x 11895 x 2 13.1 and 7.4; 107 x 5162 x 19 7.7 and 6.4.
 * Results that do not stay in L2 were not measured. */
static bool schedules_bring_little(const Cost *c) {
    enum { LITTLE = 32, OF_L2 = 4 };
    double result = c->bytes_out * (double)c->m * (double)c->n * (double)c->batch;
    return c->k < LITTLE && OF_L2 * result <= (double)c->plan->target->l2_bytes;
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
    if (schedules_is_tight(c, plan, &s) || (matmul_brings(plan) && schedules_bring_little(c)))
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

void schedules_wgmma(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
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
