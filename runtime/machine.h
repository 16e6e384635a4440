/* From kernel IR to machine code: the backend chosen, the cache asked, PTX assembled. */
#ifndef SINTER_RUNTIME_MACHINE_H
#define SINTER_RUNTIME_MACHINE_H

#include "runtime/context.h"

typedef struct MachineOptions {
    sinter_backend backend;
    bool binary;      /* machine code wanted, not PTX alone */
    bool need_binary; /* and its lack is an error; else the driver may assemble the PTX */
    bool no_cache;
} MachineOptions;

typedef struct MachineResult {
    Image image;
    bool from_cache;
    double backend_ms, ptxas_ms;
} MachineResult;

/* `cuda` is the kernel's source, `form` stands for what it is apart from names (emit_form()): by it images
 * are cached and packed, so that one may come from a kernel of another name. False with diagnostics. With
 * SINTER_BACKEND_AUTO a backend that fails gives its place to the other, and a warning. */
bool machine_build(sinter_context *context, Arena *arena, const Kernel *kernel, const char *cuda,
                   const char *form, const MachineOptions *options, MachineResult *out, Diags *diags);

#endif
