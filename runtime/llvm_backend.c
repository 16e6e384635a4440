/* Finding and checking the LLVM plugin. */
#include "runtime/llvm_backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/llvm_abi.h"

static const char LLVM_BACKEND_FILE[] = "libsinter_llvm.so";

static bool llvm_backend_try(LlvmBackend *llvm, const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        snprintf(llvm->why, sizeof llvm->why, "the LLVM backend is missing (%s)", path);
        return false;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        snprintf(llvm->why, sizeof llvm->why, "the LLVM backend does not load (%s)", dlerror());
        return false;
    }
    const int *abi = dlsym(library, "sinter_llvm_abi");
    LlvmEmit *emit;
    *(void **)&emit = dlsym(library, "sinter_llvm_emit");
    if (!abi || !emit || *abi != SINTER_LLVM_ABI) {
        snprintf(llvm->why, sizeof llvm->why, "%s belongs to another version of Sinter", path);
        dlclose(library);
        return false;
    }
    llvm->library = library;
    llvm->emit = emit;
    llvm->stamp =
        (uint64_t)status.st_size ^ (uint64_t)status.st_mtim.tv_sec << 32 ^ (uint64_t)status.st_mtim.tv_nsec;
    snprintf(llvm->path, sizeof llvm->path, "%s", path);
    return true;
}

/* Tries the plugin's places relative to the file `of`. */
static bool llvm_backend_try_beside(LlvmBackend *llvm, const char *of) {
    const char *slash = strrchr(of, '/');
    if (!slash)
        return false;
    static const char *const places[] = {"", "sinter/", "../lib/sinter/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[1024];
        int n = snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - of), of, places[i], LLVM_BACKEND_FILE);
        if (n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0)
            return llvm_backend_try(llvm, path);
    }
    return false;
}

bool llvm_backend_open(LlvmBackend *llvm, const char *path) {
    memset(llvm, 0, sizeof *llvm);
    if (path)
        return llvm_backend_try(llvm, path);
    snprintf(llvm->why, sizeof llvm->why, "the LLVM backend is missing (%s beside the program)",
             LLVM_BACKEND_FILE);
    Dl_info info;
    if (dladdr((const void *)LLVM_BACKEND_FILE, &info) && info.dli_fname &&
        llvm_backend_try_beside(llvm, info.dli_fname))
        return true;
    char program[1024];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return false;
    program[n] = 0;
    return llvm_backend_try_beside(llvm, program);
}

void llvm_backend_close(LlvmBackend *llvm) {
    if (llvm->library)
        dlclose(llvm->library);
    llvm->library = NULL;
}

bool llvm_backend_compile(const LlvmBackend *llvm, Arena *arena, const Kernel *kernel, Image *out,
                          Diags *diags) {
    Text text = text_new(arena);
    memset(out, 0, sizeof *out);
    out->backend = IMAGE_LLVM;
    out->log = "";
    int before = diags->errors;
    if (!llvm->emit(&text, kernel, LLVM_OUTPUT_PTX, diags)) {
        if (diags->errors == before)
            diag_error(diags, DIAG_BACKEND, (Span){0}, "the LLVM backend gave no PTX for kernel '%s'",
                       kernel->name);
        return false;
    }
    out->ptx = text.at;
    out->ptx_bytes = text.n;
    return true;
}
