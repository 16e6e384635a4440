/* A plan on the GPU, with buffers of its own: guarded by words that nobody may touch, outputs and workspace
 * poisoned. */
#ifndef SINTER_RUNTIME_CLI_DEVICE_RUN_H
#define SINTER_RUNTIME_CLI_DEVICE_RUN_H

#include "runtime/cli/problem.h"

typedef struct DeviceBuffer {
    CUdeviceptr base; /* of the allocation, with guards on both sides; 0: none */
    CUdeviceptr at;
    size_t bytes;
} DeviceBuffer;

typedef struct DeviceRun {
    sinter_context *context;
    const Driver *driver;
    Arena *arena;
    bool pushed;
    CUstream stream;
    DeviceBuffer *inputs, *outputs, workspace;
    size_t n_inputs, n_outputs;
    size_t spare; /* bytes of workspace beyond what the plan needs: for others that share its buffers */
    int64_t timeout_ms;
    bool lost;      /* a kernel faulted or hung: nothing more runs in this process */
    char why[1024]; /* of the latest failure */
} DeviceRun;

/* Enters the device and puts the inputs there. False with run->why. device_run_end() either way. */
bool device_run_begin(DeviceRun *run, Problem *problem, Arena *arena);
void device_run_end(DeviceRun *run);
/* Room for this plan's workspace; outputs and workspace filled with 0xFF, guards renewed. */
bool device_run_prepare(DeviceRun *run, const Problem *problem, const sinter_plan *plan);
/* Enqueues; does not wait. */
bool device_run_launch(DeviceRun *run, const Problem *problem, const sinter_plan *plan);
/* The same, one kernel of the plan (-1: all). */
bool device_run_launch_kernel(DeviceRun *run, const Problem *problem, const sinter_plan *plan, int kernel);
/* device_time.c: n timed launches of a kernel (-1: of the plan) into `us`. Before each the buffer at `flush`
 * (0: none), DEVICE_FLUSH_BYTES long, is overwritten, so that the L2 cache holds nothing of use. */
enum { DEVICE_FLUSH_BYTES = 256 << 20 };
bool device_time(DeviceRun *run, const Problem *problem, const sinter_plan *plan, int kernel,
                 CUdeviceptr flush, int n, float *us);
/* The median; sorts them. */
double device_median(float *us, int n);
/* Waits, at most the timeout. */
bool device_run_wait(DeviceRun *run);
/* Copies the outputs, and checks guards and that inputs are as they were. */
bool device_run_fetch(DeviceRun *run, const Problem *problem, Array *outputs);

#endif
