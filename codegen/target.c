#include "codegen/target.h"

#include <string.h>

static const Target target_rows[] = {
#define TARGET(NAME, SM, PTX, CPU, FEATURES, SMS, SMEM_BLOCK, SMEM_SM, REGISTERS, THREADS, L2, MEMORY,       \
               TENSOR, FMA, TENSOR_F64, MMA_BF16, MMA_FP8, WGMMA, TMA, CLUSTER)                              \
    {                                                                                                        \
        .name = NAME,                                                                                        \
        .sm = SM,                                                                                            \
        .ptx_version = PTX,                                                                                  \
        .llvm_cpu = CPU,                                                                                     \
        .llvm_features = FEATURES,                                                                           \
        .sm_count = SMS,                                                                                     \
        .smem_per_block = SMEM_BLOCK,                                                                        \
        .smem_per_sm = SMEM_SM,                                                                              \
        .registers_per_sm = REGISTERS,                                                                       \
        .max_threads_per_sm = THREADS,                                                                       \
        .l2_bytes = L2,                                                                                      \
        .memory_bytes_per_second = MEMORY,                                                                   \
        .tensor_flops = TENSOR,                                                                              \
        .fma_flops = FMA,                                                                                    \
        .tensor_f64_flops = TENSOR_F64,                                                                      \
        .has_mma_bf16 = MMA_BF16,                                                                            \
        .has_mma_fp8 = MMA_FP8,                                                                              \
        .has_wgmma = WGMMA,                                                                                  \
        .has_tma = TMA,                                                                                      \
        .has_cluster = CLUSTER,                                                                              \
    },
#include "codegen/targets.def"
#undef TARGET
};

enum { TARGET_ROWS = sizeof target_rows / sizeof *target_rows };

const Target *target_at(int i) {
    return i >= 0 && i < TARGET_ROWS ? &target_rows[i] : NULL;
}

const Target *target_find(const char *name) {
    for (int i = 0; name && i < TARGET_ROWS; i++)
        if (!strcmp(target_rows[i].name, name))
            return &target_rows[i];
    return NULL;
}

/* Code of a row whose name ends in 'a' uses what only that capability has, so it runs nowhere else. */
static bool target_is_specific(const Target *target) {
    return target->name[strlen(target->name) - 1] == 'a';
}

const Target *target_for_device(int major, int minor) {
    int sm = major * 10 + minor;
    const Target *best = NULL;
    for (int i = 0; i < TARGET_ROWS; i++) { /* ORDER TARGET */
        const Target *row = &target_rows[i];
        if (target_is_specific(row) ? row->sm == sm : row->sm <= sm)
            best = row;
    }
    return best;
}

int target_clustered_sms(const Target *target, int cluster) {
    enum { PERCENT = 91 };
    return cluster <= 2 ? target->sm_count : target->sm_count * PERCENT / 100 / cluster * cluster;
}

int target_launch_registers(const Target *target, int warpgroups) {
    enum { THREADS = 128, UNIT = 8 };
    return target->registers_per_sm / (THREADS * warpgroups) / UNIT * UNIT;
}

bool target_deals_registers(const Target *target, int warpgroups, int consumers, int produce, int consume) {
    enum { UNIT = 8, LEAST = 24, MOST = 256 };
    return !consume ||
           (produce % UNIT == 0 && consume % UNIT == 0 && produce >= LEAST && consume <= MOST &&
            produce + consumers * consume <= warpgroups * target_launch_registers(target, warpgroups));
}

FuseLimits target_fuse_limits(const Target *target) {
    FuseLimits limits = {
        .has_tensor_cores = target->has_mma_bf16,
        .shares_k = target->has_cluster,
        .adds_products = target->has_wgmma && target->has_tma,
        .hosts_rows = target->has_wgmma && target->has_tma,
        .hosts_products = target->has_wgmma && target->has_tma,
        .computes_fragments = target->has_wgmma && target->has_tma,
        .turns_words = target->has_wgmma && target->has_tma,
        .reads_chosen = target->has_wgmma && target->has_tma,
        .brings_rows = target->has_wgmma && target->has_tma,
        .scales_blocks = target->has_wgmma && target->has_mma_fp8,
        /* Row statistics of a matmul need the whole row in one tile of 256 columns, or in a gang of up to 32
         * blocks with such tiles, which wgmma's path has. */
        .matmul_row_max = target->has_wgmma ? 256 : 128,
        .matmul_gang_row_max = target->has_wgmma ? 32 * 256 : 0,
        .sm_count = target->sm_count,
        .memory_bytes_per_second = target->memory_bytes_per_second,
        .tensor_flops = target->tensor_flops,
        /* Accumulators of 64 rows, in the registers of a warpgroup. */
        .chain_columns_max = target->has_wgmma && target->has_tma ? 320 : 0,
        /* A block of 1,024 threads keeps up to 64 of its registers for the row. */
        .row_resident_max = 1024 * 64 * (int64_t)sizeof(float),
        .inline_cost_max = 32,
        .max_inputs = 24,
        .max_outputs = 12,
    };
    return limits;
}
