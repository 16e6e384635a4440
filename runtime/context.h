/* What a sinter_context holds. After its creation only what stands below the lock changes. */
#ifndef SINTER_RUNTIME_CONTEXT_H
#define SINTER_RUNTIME_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "codegen/target.h"
#include "runtime/cache.h"
#include "runtime/driver.h"
#include "runtime/llvm_backend.h"
#include "runtime/nvrtc.h"
#include "runtime/ptxas.h"
#include "runtime/report.h"

struct sinter_context {
    Arena *arena;
    Report report;
    ReportStorage storage;
    const char *search_path, *cuda_home, *temporary, *llvm_plugin, *nvrtc_library; /* NULL: not given */
    size_t memory_limit;
    Cache cache, tuned; /* machine code; schedules that a tuner found (tuned.h) */
    bool has_device;
    Driver driver;
    Device device;
    const struct Pack *pack;          /* images to take before any backend is asked; NULL: none */
    char device_why[DRIVER_WHY_ROOM]; /* why there is none, where one was asked for */
    Target device_target;             /* the row for the device, with the device's own figures */

    /* Opened when first needed, under the lock; constant from then on. */
    pthread_mutex_t lock;
    bool nvrtc_tried, llvm_tried, ptxas_tried;
    Nvrtc nvrtc;
    LlvmBackend llvm;
    Ptxas ptxas;

    atomic_uint_fast64_t plans, kernels, cache_hits, cache_misses, launches;
    atomic_uint_fast64_t passes_ns, codegen_ns, backend_ns, ptxas_ns, load_ns;
};

/* Each opens on first use; the answer's library or path is NULL where it is not there. */
const Nvrtc *context_nvrtc(sinter_context *context);
const LlvmBackend *context_llvm(sinter_context *context);
const Ptxas *context_ptxas(sinter_context *context);

/* Milliseconds of a clock that only runs forward. */
double context_now_ms(void);
/* Copies a caller's options struct of `given` bytes over zeros, so that an older, shorter one reads as zeros
 * behind its end. */
void context_copy_options(void *to, size_t size, const void *from);

#endif
