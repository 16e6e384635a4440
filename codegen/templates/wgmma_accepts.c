/* Sizes of what the wgmma path works on, and which schedules it takes. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"
#include "ir/base/checked.h"

int wgmma_k_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    return schedule->tile_k * dtype_bits(plan->a.elem) / 8;
}

/* Rows of the tile that one consumer warpgroup computes. */
int wgmma_rows(const Schedule *schedule) {
    return schedule->ping_pong ? schedule->tile_m : schedule->tile_m / schedule->warps_m;
}

int wgmma_blocks(const Schedule *schedule) {
    return wgmma_rows(schedule) / WGMMA_M;
}

/* Warps that must release a stage before it is free. */
int wgmma_releases(const Schedule *schedule) {
    return 4 * (schedule->ping_pong ? 1 : schedule->warps_m);
}

/* The tile as the result has it. */
int wgmma_result_rows(const Schedule *schedule) {
    return schedule->swap_ab ? schedule->tile_n : schedule->tile_m;
}

int wgmma_result_cols(const Schedule *schedule) {
    return schedule->swap_ab ? schedule->tile_m : schedule->tile_n;
}

enum { LINE = 128 };

/* Of tiles side by side, one of LINE / span begins where a line does. */
double matmul_lines(int bytes) {
    return (double)ceil_div(bytes, LINE) * (2 - tile_span_bytes(bytes) / (double)LINE);
}

const MatmulOperand *matmul_side(const MatmulPlan *plan, const Schedule *schedule, bool is_rows) {
    return is_rows != schedule->swap_ab ? &plan->a : &plan->b[0];
}

int matmul_held(const MatmulPlan *plan, const Schedule *schedule, bool is_rows) {
    const MatmulOperand *operand = matmul_side(plan, schedule, is_rows);
    int tile_mn = is_rows ? schedule->tile_m : schedule->tile_n, bits = dtype_bits(operand->elem);
    int bytes = tile_mn * bits / 8, runs = bytes / tile_span_bytes(bytes);
    bool is_copied = !matmul_is_converted(plan, operand) && !matmul_has_fragments(plan, schedule, operand);
    if (operand->major != MAJOR_MN || !is_copied || matmul_lines(bytes) >= runs)
        return tile_mn;
    return (int)round_up(tile_mn, 8 * LINE / bits);
}

int64_t matmul_smem_wgmma(const MatmulPlan *plan, const Schedule *schedule) {
    int n_rows = schedule->swap_ab ? plan->n_cores : 1, n_cols = schedule->swap_ab ? 1 : plan->n_cores;
    int64_t row_bits = (int64_t)matmul_row_elements(plan, schedule, matmul_side(plan, schedule, true)) *
                       matmul_stage_bits(plan, schedule, true),
            col_bits = (int64_t)schedule->tile_k * matmul_stage_bits(plan, schedule, false);
    int64_t stage = (n_rows * matmul_held(plan, schedule, true) * row_bits +
                     n_cols * matmul_held(plan, schedule, false) * col_bits) /
                    8;
    int64_t tiles = schedule->patches ? wgmma_patch_bytes(plan, schedule) : stage * schedule->stages;
    int64_t factors = wgmma_fragments_bytes(plan, schedule) * schedule->stages; /* in front of the tiles */
    int64_t parts = matmul_split(schedule) == 1 ? 0
                                                : matmul_partials_bytes(plan, wgmma_result_rows(schedule),
                                                                        wgmma_result_cols(schedule), 1);
    return round_up(factors, swizzle_period(SWIZZLE_128)) + tiles + parts +
           matmul_staging_bytes(plan, schedule) + matmul_scales_bytes(plan, schedule) +
           matmul_convert_bytes(plan, schedule) + wgmma_rows_bytes(plan, schedule) + BARRIER_BYTES;
}

/* A tile lies within one part of each axis that memory has in two. */
static bool wgmma_accepts_parts(const MatmulPlan *plan, const Schedule *schedule,
                                const MatmulOperand *operand, int tile_mn) {
    DimTable *dims = plan->graph->dims;
    return (!operand->k_part || plan->k_unit || dim_divisor(dims, operand->k_part) % schedule->tile_k == 0) &&
           (!operand->mn_part || dim_divisor(dims, operand->mn_part) % tile_mn == 0);
}

/* A tile's boxes each lie within one tap of windows. */
static bool wgmma_accepts_windows(const MatmulPlan *plan, const Schedule *schedule,
                                  const MatmulOperand *operand, bool is_rows) {
    DimTable *dims = plan->graph->dims;
    int64_t channels = dim_divisor(dims, operand->windows->channels);
    if (schedule->patches && operand->major == MAJOR_MN)
        return true; /* by blocks of channels of their own */
    if (operand->major == MAJOR_K)
        return plan->k_unit || channels % schedule->tile_k == 0;
    const Dim *line = operand->windows->axis[0].places;
    if (operand->windows->is_by_lines && !plan->k_unit &&
        !(dim_is_const(line) && line->value % schedule->tile_k == 0))
        return false;
    int bits = dtype_bits(operand->elem), held = matmul_held(plan, schedule, is_rows);
    int span = tile_span_bytes(held * bits / 8) * 8 / bits,
        tile_mn = is_rows ? schedule->tile_m : schedule->tile_n;
    /* places beyond the last are zeros, unless they are of other images */
    return channels % span == 0 && tile_mn % span == 0 &&
           (!operand->windows->is_of_some || dim_divisor(dims, plan->k) % schedule->tile_k == 0);
}

bool wgmma_accepts_operand(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                           bool is_rows, const char **why) {
    int tile_mn = is_rows ? schedule->tile_m : schedule->tile_n;
    if (matmul_has_fragments(plan, schedule, operand))
        return wgmma_accepts_fragments(plan, schedule, operand, is_rows, why);
    if (matmul_is_parted(operand)) {
        *why = "memory has an axis of an operand in parts, which no tile of this size divides";
        if (!wgmma_accepts_parts(plan, schedule, operand, tile_mn))
            return false;
    } else if (matmul_has_windows(operand)) {
        *why = "a window's channels are no whole number of a tile's";
        if (!wgmma_accepts_windows(plan, schedule, operand, is_rows))
            return false;
    } else if (matmul_is_dealt(plan, operand)) {
        return wgmma_accepts_dealt(plan, schedule, why);
    } else if (matmul_has_chosen_rows(operand)) {
        return wgmma_accepts_rows(plan, schedule, tile_mn, why);
    } else if (!matmul_is_brought_by_tma(plan->graph, operand, why)) {
        if (operand->is_memory && operand->narrow == operand->elem && !matmul_is_brought(plan, operand))
            return false;
        return matmul_accepts_convert(plan, schedule, operand, why);
    }
    *why =
        "wgmma takes operands of 8 bits only where K is contiguous, and of 32 bits those that give columns";
    if (operand->major == MAJOR_MN && plan->kind != MATMUL_16BIT &&
        !(matmul_is_turned(plan, operand) && is_rows))
        return false;
    *why = "wgmma reads an operand that is contiguous along N in tiles of a multiple of 16";
    return operand->major == MAJOR_K || tile_mn % 16 == 0;
}

static bool wgmma_accepts_split(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    int split = matmul_split(schedule);
    if (split == 1)
        return true;
    *why = "split_k takes a cluster of 2, 4 or 8 blocks of its own, whose tile has powers of two";
    if (split > 8 || !is_power_of_two(split) || schedule->cluster_m > 1 || schedule->cluster_n > 1 ||
        schedule->ping_pong || !is_power_of_two(schedule->tile_m) || !is_power_of_two(schedule->tile_n) ||
        schedule->warps_m == 3)
        return false;
    *why = "a split has no warpgroups that convert operands";
    if (matmul_converters(plan, schedule))
        return false;
    *why = "each block of a split has at least one step of K";
    if (dim_lower(plan->graph->dims, matmul_k_steps(plan, schedule)) < split ||
        dim_lower(plan->graph->dims, plan->k) < (int64_t)split * schedule->tile_k)
        return false;
    *why = "row statistics need the sums of whole rows, which a split has in several blocks";
    return plan->statistics.n == 0;
}

/* Rows lie in one tile, or in a gang of blocks that exchange one word a row and statistic. */
static bool wgmma_accepts_statistics(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "row statistics need tiles whose rows lie along N: not swap_ab";
    if (schedule->swap_ab)
        return false;
    *why = "row statistics leave nothing to a second tile of their rows in a cluster";
    if (schedule->cluster_n > 1)
        return false;
    *why = "row statistics need whole rows in one tile, or an N that is known";
    if (!dim_is_const(plan->n) && !matmul_has_rows(plan, schedule))
        return false;
    int gang = matmul_gang(plan, schedule);
    if (gang == 1)
        return true;
    *why = "the blocks that hold a row do not run at the same time";
    if (gang > plan->target->sm_count || gang > MATMUL_GANG_MOST)
        return false;
    *why = "a gang of blocks has no cluster";
    if (schedule->cluster_m > 1 || schedule->cluster_n > 1)
        return false;
    *why = "blocks exchange statistics of 32 bits: sums, products and extremes, not their places";
    for (size_t i = 0; i < plan->statistics.n; i++)
        if (reduce_has_number(plan->statistics.at[i]) ||
            ktype_bits(reduce_type(plan->statistics.at[i])) != 32)
            return false;
    return true;
}

bool wgmma_accepts_shared(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    enum { MOST_DIMS = 3 };
    *why =
        "multicast copies at most three dims, no windows, and whole blocks of 8 rows, or of 64 along M or N";
    for (int is_rows = 0; is_rows < 2; is_rows++) {
        const MatmulOperand *shared = matmul_side(plan, schedule, is_rows);
        int share = is_rows ? schedule->cluster_n : schedule->cluster_m;
        int piece = shared->major == MAJOR_MN ? 64 : 8;
        bool has_parts = shared->k_part || matmul_filled_unit(plan, schedule);
        int dims = 2 + has_parts + (shared->mn_part != NULL) + shared->n_batch;
        if (share > 1 && (dims > MOST_DIMS || shared->chosen || shared->windows ||
                          (is_rows ? schedule->tile_m : schedule->tile_n) % (piece * share) != 0))
            return false;
    }
    return true;
}

bool matmul_accepts_wgmma(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    const Target *target = plan->target;
    *why = "the target has no wgmma";
    if (!target->has_wgmma || !target->has_tma)
        return false;
    *why = "no matrix instruction holds both operands exactly";
    if (plan->kind == MATMUL_FMA)
        return false;
    *why = "f64 is multiplied by mma.sync, not by wgmma";
    if (plan->kind == MATMUL_F64)
        return false;
    if (!wgmma_accepts_operand(plan, schedule, &plan->a, !schedule->swap_ab, why))
        return false;
    for (int i = 0; i < plan->n_cores; i++) {
        if (!wgmma_accepts_operand(plan, schedule, &plan->b[i], schedule->swap_ab, why))
            return false;
        *why = "all products must read their second operands alike";
        if (plan->b[i].major != plan->b[0].major || plan->b[i].elem != plan->b[0].elem)
            return false;
    }
    bool is_of_weights = schedule->patches && schedule->swap_ab; /* whose rows are blocks of taps */
    *why = "tile_m is 64 or 128 rows for each of 1 to 3 consumer warpgroups";
    if (schedule->warps_m < 1 || schedule->warps_m > 3 || schedule->tile_m < WGMMA_M ||
        schedule->tile_m % ((schedule->ping_pong ? 1 : schedule->warps_m) * WGMMA_M) != 0 ||
        (!is_of_weights && (wgmma_blocks(schedule) > 2 || schedule->tile_m > TMA_BOX_MAX)))
        return false;
    *why = "ping_pong takes two consumer warpgroups";
    if (schedule->ping_pong && schedule->warps_m != 2)
        return false;
    *why = "tile_n is a multiple of 8 up to 256 (of 16 for integers)";
    if (schedule->tile_n < 8 || schedule->tile_n > WGMMA_N_MAX ||
        schedule->tile_n % (plan->kind == MATMUL_INT8 ? 16 : 8) != 0)
        return false;
    *why = "tile_k is 32, 64 or 128 bytes of K, and up to 512 where fragments are of fewer bits";
    int k_bytes = wgmma_k_bytes(plan, schedule);
    if (k_bytes != 32 && k_bytes != 64 && k_bytes != 128 &&
        !(schedule->fragments && (k_bytes == 256 || k_bytes == 512)))
        return false;
    *why = "fragments are of an operand that is computed, or whose rows are reduced";
    if (schedule->fragments && !matmul_has_fragments(plan, schedule, matmul_side(plan, schedule, true)))
        return false;
    *why = "rows of the first operand are reduced in whole, where its fragments are";
    if (plan->operand_rows.n && (!schedule->fragments || schedule->swap_ab || matmul_split(schedule) > 1))
        return false;
    if (matmul_partial_cols(plan, schedule)) {
        *why = "two-level sums are for floats and all of K, and need warpgroups that multiply side by side";
        if (plan->accumulator != K_F32 || matmul_turned_registers(plan, schedule) || schedule->ping_pong ||
            matmul_split(schedule) > 1)
            return false;
        *why = "a step of K lies within one block of factors, and an instruction's columns share one factor";
        if (!matmul_scales_fit(plan, schedule))
            return false;
    }
    *why = "the accumulators do not fit the registers";
    int at_launch = target->registers_per_sm / (WARPGROUP * matmul_warpgroups(plan, schedule));
    int most = schedule->consumer_registers ? schedule->consumer_registers
               : at_launch > 255            ? 255
                                            : at_launch;
    if (matmul_registers(plan, schedule) > most)
        return false;
    *why = "2 to 12 stages";
    if (schedule->stages < 2 || schedule->stages > 12)
        return false;
    *why = "the stages do not fit shared memory";
    if (matmul_smem_wgmma(plan, schedule) > target->smem_per_block)
        return false;
    *why = "a cluster has 2, 4 or 8 blocks";
    int cluster_m = schedule->cluster_m > 1 ? schedule->cluster_m : 1,
        cluster_n = schedule->cluster_n > 1 ? schedule->cluster_n : 1;
    if (cluster_m > 8 || cluster_n > 8 || cluster_m * cluster_n > 8 ||
        !is_power_of_two(cluster_m * cluster_n))
        return false;
    if (!wgmma_accepts_shared(plan, schedule, why))
        return false;
    if (!wgmma_accepts_split(plan, schedule, why))
        return false;
    if (plan->statistics.n && !wgmma_accepts_statistics(plan, schedule, why))
        return false;
    if (plan->before && !wgmma_accepts_terms(plan, schedule, why))
        return false;
    if (schedule->patches && !wgmma_accepts_patches(plan, schedule, why))
        return false;
    if (schedule->stream_k && !wgmma_accepts_stream(plan, schedule, why))
        return false;
    if (matmul_rows_guest(plan) && !wgmma_accepts_guest(plan, schedule, why))
        return false;
    if (matmul_columns_guest(plan) && !wgmma_accepts_columns(plan, schedule, why))
        return false;
    if (plan->guest && !wgmma_accepts_products(plan, schedule, why))
        return false;
    if (!matmul_holds_blocks(plan, schedule->swap_ab || matmul_split(schedule) > 1 ? 1 : schedule->tile_n,
                             why))
        return false;
    *why = "setmaxnreg takes multiples of 8 from 24 to 256, together no more than the block has at launch";
    int groups = matmul_warpgroups(plan, schedule);
    if (!target_deals_registers(target, groups, schedule->warps_m, schedule->producer_registers,
                                schedule->consumer_registers))
        return false;
    *why = "an instruction's columns take more registers than a thread has at launch";
    int cols = matmul_partial_cols(plan, schedule) ? matmul_partial_cols(plan, schedule) : schedule->tile_n;
    if (cols / 2 + WGMMA_OPERANDS > at_launch)
        return false;
    *why = "the converting warpgroups have less than 56 registers a thread";
    if (schedule->consumer_registers && matmul_converters(plan, schedule) &&
        matmul_convert_registers(plan, schedule) < 56)
        return false;
    *why = NULL;
    return true;
}
