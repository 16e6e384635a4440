/* The machines that kernels are made for: one row of targets.def each. */
#ifndef SINTER_CODEGEN_TARGET_H
#define SINTER_CODEGEN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/region.h"

typedef struct Target {
    const char *name;        /* "sm_90a" */
    int sm;                  /* 80, 86, 89, 90, 100, ... */
    const char *ptx_version; /* the lowest that has everything used: "8.0" */
    const char *llvm_cpu;    /* NULL: LLVM 19 does not know it */
    const char *llvm_features;
    int sm_count;       /* of the usual part; the runtime replaces it by the device's */
    int smem_per_block; /* bytes, opt-in maximum */
    int smem_per_sm;
    int registers_per_sm;
    int max_threads_per_sm;
    int64_t l2_bytes;
    double memory_bytes_per_second, tensor_flops /* bf16 dense */, fma_flops /* f32 */;
    double tensor_f64_flops; /* 0: products of f64 are multiply-adds */
    bool has_mma_bf16, has_mma_fp8, has_wgmma, has_tma, has_cluster;
} Target;

const Target *target_find(const char *name); /* NULL where there is none */
const Target *target_at(int i);              /* NULL past the end */
/* The best row for a device of this compute capability: sm_90a for 9.0; for newer devices the newest row that
 * runs there. */
const Target *target_for_device(int major, int minor);
/* SMs that have a block where each takes one and blocks come in clusters of so many: a cluster lies within a
 * GPC, whose SMs it need not divide. An H100's 132 SMs hold 66 clusters of 2, 30 of 4 and 15 of 8. */
int target_clustered_sms(const Target *target, int cluster);
/* Registers of a thread that a block of so many warpgroups has at launch, in the multiples of 8 that
 * setmaxnreg deals out. */
int target_launch_registers(const Target *target, int warpgroups);
/* Whether setmaxnreg can give each thread of the first warpgroup `produce` and of some `consumers` `consume`;
 * 0: it is not asked to. What a block has at launch is all that its warpgroups can share: to ask for more is
 * to wait for ever. */
bool target_deals_registers(const Target *target, int warpgroups, int consumers, int produce, int consume);
FuseLimits target_fuse_limits(const Target *target);

#endif
