/* Timing on the device: CUDA events around launches. */
#include <stdlib.h>

#include "runtime/cli/device_run.h"

static bool time_good(DeviceRun *run, CUresult error, const char *what) {
    if (error)
        driver_explain(run->driver, error, what, run->why, sizeof run->why);
    return !error;
}

bool device_time(DeviceRun *run, const Problem *problem, const sinter_plan *plan, int kernel,
                 CUdeviceptr flush, int n, float *us) {
    const Driver *driver = run->driver;
    ArenaMark mark = arena_mark(run->arena);
    CUevent *events = ARENA_ARRAY(run->arena, CUevent, 2 * (size_t)n);
    bool ok = true;
    for (int i = 0; i < 2 * n && ok; i++)
        ok = time_good(run, driver->event_create(&events[i], DRIVER_EVENT_DEFAULT), "an event");
    for (int i = 0; i < n && ok; i++) {
        if (flush)
            ok = time_good(run, driver->fill_async(flush, (unsigned char)i, DEVICE_FLUSH_BYTES, run->stream),
                           "flushing");
        ok = ok && time_good(run, driver->event_record(events[2 * i], run->stream), "an event") &&
             device_run_launch_kernel(run, problem, plan, kernel) &&
             time_good(run, driver->event_record(events[2 * i + 1], run->stream), "an event");
    }
    ok = ok && device_run_wait(run);
    for (int i = 0; i < n && ok; i++) {
        float ms = 0;
        ok = time_good(run, driver->event_elapsed(&ms, events[2 * i], events[2 * i + 1]), "an event's time");
        us[i] = ms * 1000;
    }
    for (int i = 0; i < 2 * n && !run->lost; i++)
        if (events[i])
            driver->event_destroy(events[i]);
    arena_release(run->arena, mark);
    return ok;
}

static int time_compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double device_median(float *us, int n) {
    qsort(us, (size_t)n, sizeof *us, time_compare);
    return n % 2 ? us[n / 2] : (us[n / 2 - 1] + us[n / 2]) / 2;
}
