/* The LLVM backend: libsinter_llvm.so, a plugin with LLVM inside, opened where it is found. */
#ifndef SINTER_RUNTIME_LLVM_BACKEND_H
#define SINTER_RUNTIME_LLVM_BACKEND_H

#include "codegen/codegen.h"
#include "runtime/image.h"

typedef struct LlvmBackend {
    void *library; /* NULL: not there */
    LlvmEmit *emit;
    char path[1024];
    char why[1200]; /* why it is not there */
    uint64_t stamp; /* of the file, for cache keys */
} LlvmBackend;

/* Opens `path`, or where it is NULL libsinter_llvm.so beside the library or program that holds this code, or
 * in ../lib/sinter of it. */
bool llvm_backend_open(LlvmBackend *llvm, const char *path);
void llvm_backend_close(LlvmBackend *llvm);
/* False with a diagnostic. Any number of threads may compile at once. The plugin may leave deferred calls in
 * `arena`, which therefore is freed before llvm_backend_close(). */
bool llvm_backend_compile(const LlvmBackend *llvm, Arena *arena, const Kernel *kernel, Image *out,
                          Diags *diags);

#endif
