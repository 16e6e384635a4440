/* Device buffers: [guard | data | guard], the data aligned to 256 bytes as cuMemAlloc would. */
#include "runtime/cli/device_run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { GUARD_BYTES = 4096, GUARD_BYTE = 0xA5, CUDA_NOT_READY = 600 };

/* Faults of a kernel: the context is gone. */
static bool device_is_lost(CUresult error) {
    return error >= 700 && error < 720;
}

static bool device_fail(DeviceRun *run, CUresult error, const char *what) {
    driver_explain(run->driver, error, what, run->why, sizeof run->why);
    run->lost = device_is_lost(error);
    return false;
}

static bool device_buffer(DeviceRun *run, DeviceBuffer *buffer, size_t bytes) {
    buffer->bytes = bytes;
    size_t whole = bytes + 2 * GUARD_BYTES + 256;
    CUresult error = run->driver->memory_alloc(&buffer->base, whole);
    if (error) {
        buffer->base = 0;
        char what[64];
        snprintf(what, sizeof what, "%zu bytes on the device", whole);
        return device_fail(run, error, what);
    }
    buffer->at = buffer->base + GUARD_BYTES;
    error = run->driver->fill_async(buffer->base, GUARD_BYTE, whole, run->stream);
    return !error || device_fail(run, error, "a device buffer");
}

static void device_buffer_free(DeviceRun *run, DeviceBuffer *buffer) {
    if (buffer->base)
        run->driver->memory_free(buffer->base);
    buffer->base = 0;
}

bool device_run_begin(DeviceRun *run, Problem *problem, Arena *arena) {
    const Graph *g = problem->g;
    memset(run, 0, sizeof *run);
    run->context = problem->cli->context;
    run->driver = &run->context->driver;
    run->arena = arena;
    run->timeout_ms = (problem->cli->o.timeout.given ? problem->cli->o.timeout.value : 30) * 1000;
    CUresult error = device_enter(run->driver, &run->context->device, &run->pushed);
    if (!error)
        error = run->driver->stream_create(&run->stream, DRIVER_STREAM_NON_BLOCKING);
    if (error)
        return device_fail(run, error, "the device");
    run->inputs = ARENA_ARRAY(arena, DeviceBuffer, g->inputs.n + 1);
    run->outputs = ARENA_ARRAY(arena, DeviceBuffer, g->outputs.n + 1);
    run->n_inputs = g->inputs.n;
    run->n_outputs = g->outputs.n;
    for (size_t i = 0; i < g->inputs.n; i++)
        if (!device_buffer(run, &run->inputs[i], (size_t)problem->inputs[i].bytes))
            return false;
    for (size_t i = 0; i < g->outputs.n; i++) {
        Array shape;
        ArenaMark mark = arena_mark(arena);
        bool ok = array_for(arena, g->outputs.at[i].value, (const Dim *const *)g->outputs.at[i].strides,
                            &problem->bindings, &problem->diags, &shape);
        arena_release(arena, mark);
        if (!ok || !device_buffer(run, &run->outputs[i], (size_t)shape.bytes))
            return false;
    }
    error = run->driver->stream_synchronize(run->stream);
    for (size_t i = 0; i < g->inputs.n && !error; i++)
        if (problem->inputs[i].bytes)
            error = run->driver->copy_to_device(run->inputs[i].at, problem->inputs[i].at,
                                                (size_t)problem->inputs[i].bytes);
    return !error || device_fail(run, error, "inputs could not be copied");
}

void device_run_end(DeviceRun *run) {
    if (run->lost)
        return; /* every call would fail, or wait for the kernel that hangs */
    for (size_t i = 0; i < run->n_inputs && run->inputs; i++)
        device_buffer_free(run, &run->inputs[i]);
    for (size_t i = 0; i < run->n_outputs && run->outputs; i++)
        device_buffer_free(run, &run->outputs[i]);
    device_buffer_free(run, &run->workspace);
    if (run->stream)
        run->driver->stream_destroy(run->stream);
    device_leave(run->driver, run->pushed);
}

bool device_run_prepare(DeviceRun *run, const Problem *problem, const sinter_plan *plan) {
    int64_t dims[PLAN_DIMS_MOST];
    size_t bytes;
    problem_plan_dims(problem, plan, dims);
    sinter_status status = sinter_plan_workspace(plan, dims, sinter_plan_dim_count(plan), &bytes);
    if (status) {
        snprintf(run->why, sizeof run->why, "workspace: %s", sinter_status_text(status));
        return false;
    }
    device_buffer_free(run, &run->workspace);
    bytes += run->spare;
    if (!device_buffer(run, &run->workspace, bytes))
        return false;
    CUresult error = bytes ? run->driver->fill_async(run->workspace.at, 0xFF, bytes, run->stream) : 0;
    for (size_t i = 0; i < run->n_outputs && !error; i++)
        if (run->outputs[i].bytes)
            error = run->driver->fill_async(run->outputs[i].at, 0xFF, run->outputs[i].bytes, run->stream);
    return !error || device_fail(run, error, "outputs could not be poisoned");
}

bool device_run_launch(DeviceRun *run, const Problem *problem, const sinter_plan *plan) {
    return device_run_launch_kernel(run, problem, plan, -1);
}

bool device_run_launch_kernel(DeviceRun *run, const Problem *problem, const sinter_plan *plan, int kernel) {
    int64_t dims[PLAN_DIMS_MOST];
    problem_plan_dims(problem, plan, dims);
    ArenaMark mark = arena_mark(run->arena);
    void **in = ARENA_ARRAY(run->arena, void *, run->n_inputs + 1),
         **out = ARENA_ARRAY(run->arena, void *, run->n_outputs + 1);
    for (size_t i = 0; i < run->n_inputs; i++)
        in[i] = (void *)(uintptr_t)run->inputs[i].at;
    for (size_t i = 0; i < run->n_outputs; i++)
        out[i] = (void *)(uintptr_t)run->outputs[i].at;
    sinter_execution execution = {.size = sizeof execution,
                                  .inputs = in,
                                  .n_inputs = (int)run->n_inputs,
                                  .outputs = out,
                                  .n_outputs = (int)run->n_outputs,
                                  .dims = dims,
                                  .n_dims = sinter_plan_dim_count(plan),
                                  .workspace = (void *)(uintptr_t)run->workspace.at,
                                  .workspace_bytes = run->workspace.bytes,
                                  .stream = run->stream,
                                  .message = run->why,
                                  .message_room = sizeof run->why};
    sinter_status status =
        kernel < 0 ? sinter_plan_execute(plan, &execution) : plan_execute_kernel(plan, kernel, &execution);
    arena_release(run->arena, mark);
    if (status == SINTER_OK)
        return true;
    CUresult error = run->driver->stream_query(run->stream);
    run->lost = device_is_lost(error); /* an earlier kernel of the plan has faulted already */
    return false;
}

bool device_run_wait(DeviceRun *run) {
    double begin = context_now_ms();
    struct timespec nap = {0, 20000};
    CUresult error;
    while ((error = run->driver->stream_query(run->stream)) == CUDA_NOT_READY) {
        if (context_now_ms() - begin > (double)run->timeout_ms) {
            snprintf(run->why, sizeof run->why, "the kernels did not end within %lld s",
                     (long long)run->timeout_ms / 1000);
            run->lost = true;
            return false;
        }
        nanosleep(&nap, NULL);
    }
    return !error || device_fail(run, error, "a kernel failed");
}

static bool device_guard(DeviceRun *run, const DeviceBuffer *buffer, const char *what, size_t number) {
    uint8_t words[GUARD_BYTES];
    for (int side = 0; side < 2; side++) {
        CUresult error =
            run->driver->copy_to_host(words, side ? buffer->at + buffer->bytes : buffer->base, GUARD_BYTES);
        if (error)
            return device_fail(run, error, "guards could not be read");
        for (int i = 0; i < GUARD_BYTES; i++) {
            if (words[i] == GUARD_BYTE)
                continue;
            long long distance = side ? (long long)buffer->bytes + i : (long long)i - GUARD_BYTES;
            snprintf(run->why, sizeof run->why, "a kernel wrote outside %s %zu, at byte %lld of %zu", what,
                     number, distance, buffer->bytes);
            return false;
        }
    }
    return true;
}

bool device_run_fetch(DeviceRun *run, const Problem *problem, Array *outputs) {
    for (size_t i = 0; i < run->n_outputs; i++) {
        CUresult error = outputs[i].bytes ? run->driver->copy_to_host(outputs[i].at, run->outputs[i].at,
                                                                      (size_t)outputs[i].bytes)
                                          : 0;
        if (error)
            return device_fail(run, error, "outputs could not be copied");
        if (!device_guard(run, &run->outputs[i], "output", i))
            return false;
    }
    if (!device_guard(run, &run->workspace, "the workspace", 0))
        return false;
    for (size_t i = 0; i < run->n_inputs; i++) {
        const Array *input = &problem->inputs[i];
        if (!device_guard(run, &run->inputs[i], "input", i))
            return false;
        ArenaMark mark = arena_mark(run->arena);
        uint8_t *now = ARENA_ARRAY(run->arena, uint8_t, (size_t)input->bytes + 1);
        CUresult error =
            input->bytes ? run->driver->copy_to_host(now, run->inputs[i].at, (size_t)input->bytes) : 0;
        bool same = !error && memcmp(now, input->at, (size_t)input->bytes) == 0;
        arena_release(run->arena, mark);
        if (error)
            return device_fail(run, error, "inputs could not be read back");
        if (!same) {
            snprintf(run->why, sizeof run->why, "a kernel changed input '%s'",
                     problem->g->inputs.at[i]->name);
            return false;
        }
    }
    return true;
}
