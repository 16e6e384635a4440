/* NVRTC, NVIDIA's run-time compiler, opened at run time where it is found. */
#ifndef SINTER_RUNTIME_NVRTC_H
#define SINTER_RUNTIME_NVRTC_H

#include "runtime/image.h"

#ifndef __NVRTC_H__
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
#endif

typedef struct Nvrtc {
    void *library; /* NULL: not there */
    int major, minor;
    char path[512];
    char why[1024]; /* why it is not there */
#define NVRTC(FIELD, SYMBOL, PARAMS) nvrtcResult(*FIELD) PARAMS;
#define NVRTC_TEXT(FIELD, SYMBOL, PARAMS) const char *(*FIELD)PARAMS;
#include "runtime/nvrtc.def"
#undef NVRTC
#undef NVRTC_TEXT
} Nvrtc;

/* Opens `path`, or where it is NULL libnvrtc.so.13, libnvrtc.so.12, and those below cuda_home (NULL: none).
 */
bool nvrtc_open(Nvrtc *nvrtc, const char *path, const char *cuda_home);
void nvrtc_close(Nvrtc *nvrtc);
/* Compiles CUDA C++ for `target` ("sm_90a") to PTX, and to machine code where `binary` says so. False with a
 * diagnostic. Any number of threads may compile at once. */
bool nvrtc_compile(const Nvrtc *nvrtc, Arena *arena, const char *name, const char *source, const char *target,
                   bool binary, Image *out, Diags *diags);

#endif
