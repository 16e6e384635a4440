/* CUDA C++ to PTX and machine code in process. Sources include no header, so that `-minimal` (no built-in
 * preludes) applies. */
#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool nvrtc_open(Nvrtc *nvrtc, const char *path, const char *cuda_home) {
    memset(nvrtc, 0, sizeof *nvrtc);
    char below[2][512];
    const char *candidates[5];
    int n = 0;
    if (path) {
        candidates[n++] = path;
    } else {
        candidates[n++] = "libnvrtc.so.13";
        candidates[n++] = "libnvrtc.so.12";
        if (cuda_home) {
            snprintf(below[0], sizeof below[0], "%s/lib64/libnvrtc.so", cuda_home);
            snprintf(below[1], sizeof below[1], "%s/lib/libnvrtc.so", cuda_home);
            candidates[n++] = below[0];
            candidates[n++] = below[1];
        }
    }
    for (int i = 0; i < n && !nvrtc->library; i++) {
        /* Never unloaded: C++ libraries of this size leave thread-local and static state behind. */
        nvrtc->library = dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (nvrtc->library)
            snprintf(nvrtc->path, sizeof nvrtc->path, "%s", candidates[i]);
    }
    if (!nvrtc->library) {
        snprintf(nvrtc->why, sizeof nvrtc->why, "NVRTC is missing (%s)",
                 path ? path : "libnvrtc.so.13, libnvrtc.so.12");
        return false;
    }
    const char *missing = NULL;
#define NVRTC_TEXT NVRTC
#define NVRTC(FIELD, SYMBOL, PARAMS)                                                                         \
    *(void **)&nvrtc->FIELD = dlsym(nvrtc->library, #SYMBOL);                                                \
    if (!nvrtc->FIELD && !missing)                                                                           \
        missing = #SYMBOL;
#include "runtime/nvrtc.def"
#undef NVRTC
#undef NVRTC_TEXT
    if (missing || nvrtc->version(&nvrtc->major, &nvrtc->minor)) {
        snprintf(nvrtc->why, sizeof nvrtc->why, "%s is not NVRTC of CUDA 11.3 or later (%s)", nvrtc->path,
                 missing ? missing : "no version");
        nvrtc_close(nvrtc);
        return false;
    }
    return true;
}

void nvrtc_close(Nvrtc *nvrtc) {
    if (nvrtc->library)
        dlclose(nvrtc->library);
    nvrtc->library = NULL;
}

typedef struct NvrtcJob {
    const Nvrtc *nvrtc;
    Arena *arena;
    nvrtcProgram program;
    const char *name, *target;
    bool binary;
    Image *out;
    Diags *diags;
    bool ok;
} NvrtcJob;

static const char *nvrtc_log(const NvrtcJob *job) {
    size_t n = 0;
    if (job->nvrtc->log_size(job->program, &n) || n <= 1)
        return "";
    char *log = ARENA_ARRAY(job->arena, char, n + 1);
    return job->nvrtc->log(job->program, log) ? "" : log;
}

static void nvrtc_body(void *context) {
    NvrtcJob *job = context;
    const Nvrtc *nvrtc = job->nvrtc;
    Image *out = job->out;
    const char *arch = job->binary
                           ? text_format(job->arena, "--gpu-architecture=%s", job->target)
                           : text_format(job->arena, "--gpu-architecture=compute_%s",
                                         strncmp(job->target, "sm_", 3) == 0 ? job->target + 3 : job->target);
    const char *const options[] = {arch, "--std=c++17", "--minimal", "--ptxas-options=-v",
                                   "--device-as-default-execution-space"};
    nvrtcResult error = nvrtc->compile(job->program, (int)(sizeof options / sizeof *options), options);
    out->log = nvrtc_log(job);
    if (error) {
        diag_error(job->diags, DIAG_BACKEND, (Span){0}, "NVRTC refused kernel '%s' (%s): %s", job->name,
                   nvrtc->error_string(error), out->log);
        return;
    }
    size_t n = 0;
    if (nvrtc->ptx_size(job->program, &n) == 0 && n > 1) {
        char *ptx = ARENA_ARRAY(job->arena, char, n + 1);
        if (nvrtc->ptx(job->program, ptx) == 0) {
            out->ptx = ptx;
            out->ptx_bytes = strlen(ptx);
        }
    }
    n = 0;
    if (job->binary && nvrtc->cubin_size(job->program, &n) == 0 && n) {
        char *cubin = ARENA_ARRAY(job->arena, char, n);
        if (nvrtc->cubin(job->program, cubin) == 0) {
            out->cubin = cubin;
            out->cubin_bytes = n;
            out->assembler = IMAGE_BY_NVRTC;
            out->figures = image_read_log(out->log);
        }
    }
    if (job->binary ? !out->cubin : !out->ptx) {
        diag_error(job->diags, DIAG_BACKEND, (Span){0}, "NVRTC gave no code for kernel '%s'", job->name);
        return;
    }
    job->ok = true;
}

bool nvrtc_compile(const Nvrtc *nvrtc, Arena *arena, const char *name, const char *source, const char *target,
                   bool binary, Image *out, Diags *diags) {
    memset(out, 0, sizeof *out);
    out->backend = IMAGE_NVRTC;
    out->log = "";
    NvrtcJob job = {nvrtc, arena, NULL, name, target, binary, out, diags, false};
    const char *file = text_format(arena, "%s.cu", name);
    nvrtcResult error = nvrtc->create(&job.program, source, file, 0, NULL, NULL);
    if (error) {
        diag_error(diags, DIAG_ENVIRONMENT, (Span){0}, "NVRTC could not begin: %s",
                   nvrtc->error_string(error));
        return false;
    }
    bool fits = arena_run(arena, nvrtc_body, &job);
    nvrtc->destroy(&job.program);
    if (!fits)
        arena_give_up(arena);
    return job.ok;
}
