/* Contexts: the device, the backends, the cache. */
#include "runtime/context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double context_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void context_copy_options(void *to, size_t size, const void *from) {
    memset(to, 0, size);
    if (!from)
        return;
    size_t given;
    memcpy(&given, from, sizeof given); /* every options struct begins with its size */
    memcpy(to, from, given < size ? given : size);
}

typedef struct ContextMake {
    sinter_context_options options;
    sinter_context *context;
} ContextMake;

static const char *context_setting(const ContextMake *make, const char *given, const char *variable) {
    if (!given && make->options.read_environment && variable)
        given = getenv(variable);
    return given && *given ? arena_strdup(make->context->arena, given) : NULL;
}

/* Schedules that were tuned lie below the machine code. */
static void context_set_tuned(sinter_context *context) {
    enum { TUNED_MOST = 16 << 20 };
    context->tuned.most = TUNED_MOST;
    if (context->cache.directory)
        context->tuned.directory = text_format(context->arena, "%s/tuned", context->cache.directory);
}

static void context_fill(void *argument) {
    ContextMake *make = argument;
    sinter_context *context = make->context;
    const sinter_context_options *o = &make->options;
    context->search_path = context_setting(make, o->search_path, "PATH");
    context->cuda_home = context_setting(make, o->cuda_home, "CUDA_HOME");
    context->temporary = context_setting(make, o->temporary_directory, "TMPDIR");
    context->llvm_plugin = context_setting(make, o->llvm_plugin, NULL);
    context->nvrtc_library = context_setting(make, o->nvrtc_library, NULL);
    context->memory_limit = o->memory_limit;
    context->cache.most = o->cache_bytes > 0 ? o->cache_bytes : (int64_t)1 << 30;
    context->cache.directory = context_setting(make, o->cache_directory, NULL);
    if (!context->cache.directory && o->read_environment) {
        const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        if (xdg && *xdg == '/')
            context->cache.directory = text_format(context->arena, "%s/sinter", xdg);
        else if (home && *home == '/')
            context->cache.directory = text_format(context->arena, "%s/.cache/sinter", home);
    }
    context_set_tuned(context);
}

/* Bytes a second that memory brings, by the device's word; the row's, where it has none or nearly the same,
 * so that the usual part compiles as its row does. */
static double context_memory_rate(const Device *device, const Target *row) {
    /* of what the pins carry: an H200's 4.92 TB/s were 4.3 in a copy, an H100's 3.35 were 3.0 */
    static const double reached = 0.875, nearly = 0.02;
    double rate = reached * 2e3 * device->memory_khz * device->bus_bits / 8;
    bool is_same = fabs(rate / row->memory_bytes_per_second - 1) < nearly;
    return rate > 0 && !is_same ? rate : row->memory_bytes_per_second;
}

/* The row for the device, with what the device says of itself in place of the usual part's figures. */
static void context_set_target(sinter_context *context) {
    const Device *device = &context->device;
    const Target *row = target_for_device(device->major, device->minor);
    if (!row)
        return;
    context->device_target = *row;
    context->device_target.sm_count = device->sm_count;
    if (device->l2_bytes > 0)
        context->device_target.l2_bytes = device->l2_bytes;
    context->device_target.memory_bytes_per_second = context_memory_rate(device, row);
}

sinter_status sinter_context_create(const sinter_context_options *options, sinter_context **out) {
    if (!out)
        return SINTER_USAGE;
    *out = NULL;
    sinter_context *context = calloc(1, sizeof *context);
    if (!context)
        return SINTER_OUT_OF_MEMORY;
    if (pthread_mutex_init(&context->lock, NULL) != 0) {
        free(context);
        return SINTER_OUT_OF_MEMORY;
    }
    *out = context;
    context->arena = arena_new(0);
    ContextMake make = {.context = context};
    context_copy_options(&make.options, sizeof make.options, options);
    if (!context->arena || !arena_run(context->arena, context_fill, &make)) {
        context->report = report_single(&context->storage, DIAG_MEMORY, "memory ran out");
        return SINTER_OUT_OF_MEMORY;
    }
    if (!make.options.use_device)
        return SINTER_OK;
    if (driver_open(&context->driver, NULL, context->device_why)) {
        if (device_open(&context->driver, make.options.device, &context->device, context->device_why)) {
            context->has_device = true;
            context_set_target(context);
            if (context->device_target.name)
                return SINTER_OK;
            context->report = report_single(&context->storage, DIAG_UNSUPPORTED,
                                            "the device is older than sm_80, the oldest target");
            return SINTER_UNSUPPORTED;
        }
        driver_close(&context->driver);
    }
    context->report = report_single(&context->storage, DIAG_ENVIRONMENT, context->device_why);
    return SINTER_NO_DEVICE;
}

void sinter_context_destroy(sinter_context *context) {
    if (!context)
        return;
    if (context->has_device) {
        device_close(&context->driver, &context->device);
        driver_close(&context->driver);
    }
    nvrtc_close(&context->nvrtc);
    llvm_backend_close(&context->llvm);
    pthread_mutex_destroy(&context->lock);
    arena_free(context->arena);
    free(context);
}

const sinter_diagnostic *sinter_context_diagnostic(const sinter_context *context, int i) {
    return context && i >= 0 && i < context->report.n ? &context->report.at[i] : NULL;
}

const Nvrtc *context_nvrtc(sinter_context *context) {
    pthread_mutex_lock(&context->lock);
    if (!context->nvrtc_tried)
        nvrtc_open(&context->nvrtc, context->nvrtc_library, context->cuda_home);
    context->nvrtc_tried = true;
    pthread_mutex_unlock(&context->lock);
    return &context->nvrtc;
}

const LlvmBackend *context_llvm(sinter_context *context) {
    pthread_mutex_lock(&context->lock);
    if (!context->llvm_tried)
        llvm_backend_open(&context->llvm, context->llvm_plugin);
    context->llvm_tried = true;
    pthread_mutex_unlock(&context->lock);
    return &context->llvm;
}

static void context_find_ptxas(void *argument) {
    sinter_context *context = argument;
    ptxas_find(&context->ptxas, context->arena, context->cuda_home, context->search_path);
}

const Ptxas *context_ptxas(sinter_context *context) {
    pthread_mutex_lock(&context->lock);
    if (!context->ptxas_tried && !arena_run(context->arena, context_find_ptxas, context))
        context->ptxas.path = NULL;
    context->ptxas_tried = true;
    pthread_mutex_unlock(&context->lock);
    return &context->ptxas;
}

void sinter_context_metrics(const sinter_context *context, sinter_metrics *out) {
    sinter_metrics metrics = {
        .size = out->size,
        .plans = atomic_load(&context->plans),
        .kernels = atomic_load(&context->kernels),
        .cache_hits = atomic_load(&context->cache_hits),
        .cache_misses = atomic_load(&context->cache_misses),
        .launches = atomic_load(&context->launches),
        .passes_ms = (double)atomic_load(&context->passes_ns) * 1e-6,
        .codegen_ms = (double)atomic_load(&context->codegen_ns) * 1e-6,
        .backend_ms = (double)atomic_load(&context->backend_ns) * 1e-6,
        .ptxas_ms = (double)atomic_load(&context->ptxas_ns) * 1e-6,
        .load_ms = (double)atomic_load(&context->load_ns) * 1e-6,
    };
    memcpy(out, &metrics, out->size < sizeof metrics ? out->size : sizeof metrics);
}
