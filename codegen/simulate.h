/* Kernel IR run on the CPU: thread by thread, warps of 32 lanes as fibers, with shared memory, mbarriers, TMA
 * and matrix atoms. Reports what hardware would let pass: accesses out of bounds, races between barriers,
 * reads of shared memory or registers that nobody wrote, barriers that never complete (deadlock), misaligned
 * vectors. */
#ifndef SINTER_CODEGEN_SIMULATE_H
#define SINTER_CODEGEN_SIMULATE_H

#include "codegen/kernel.h"

typedef struct SimBuffer {
    const Value *value; /* as in the kernel's KBuffer */
    void *at;           /* host memory in the element's packed format */
    int64_t bytes;
} SimBuffer;

typedef struct SimOptions {
    bool check_races;    /* shadow memory: slower */
    uint64_t step_limit; /* statements over all warps; 0: 2^34 */
    int64_t max_blocks;  /* runs only the first n blocks; 0: all */
} SimOptions;

/* False, with a diagnostic (DIAG_INTERNAL, naming block, thread, address and statement), where a check
 * failed. */
bool simulate(const Kernel *kernel, const DimBindings *bindings, const SimBuffer *buffers, int n_buffers,
              const SimOptions *options, Diags *diags);

#endif
