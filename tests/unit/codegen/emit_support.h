/* Compiling what the printers print, without a GPU: CUDA C++ through NVRTC, PTX of the LLVM backend through
 * ptxas, both to machine code of every target, and what the compilers say about registers, spills and
 * serialized matrix products. What is not installed is skipped, and says so. */
#ifndef SINTER_TESTS_EMIT_SUPPORT_H
#define SINTER_TESTS_EMIT_SUPPORT_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "codegen/kernel_build.h"
#include "codegen/llvm_abi.h"

/* ---- a kernel under test
 * ------------------------------------------------------------------------------------ */

typedef struct Bench {
    Arena *arena;
    Diags *diags;
    Graph *graph;
    Region *region;
    int n_values;
} Bench;

static inline Bench bench_new(void) {
    Bench bench = {.arena = arena_new(0)};
    assert_non_null(bench.arena);
    bench.diags = ARENA_NEW(bench.arena, Diags);
    bench.diags->arena = bench.arena;
    bench.graph = ARENA_NEW(bench.arena, Graph);
    bench.graph->arena = bench.arena;
    bench.graph->name = "bench";
    bench.graph->dims = dim_table_new(bench.arena);
    bench.region = ARENA_NEW(bench.arena, Region);
    bench.region->name = "bench_kernel";
    return bench;
}

static inline void bench_free(Bench *bench) {
    arena_free(bench->arena);
}

static inline Builder bench_builder(Bench *bench, const char *target, int threads) {
    Builder b = builder_new(bench->arena, bench->region, bench->graph, target_find(target), bench->diags);
    b.kernel->threads = threads;
    return b;
}

/* A tensor n x 16 of the graph. */
static inline Value *bench_value(Bench *bench, const char *name, DType dtype) {
    Value *value = ARENA_NEW(bench->arena, Value);
    value->op = OP_input;
    value->dtype = dtype;
    value->name = name;
    value->rank = 2;
    value->dims[0] = dim_symbol(bench->graph->dims, "n");
    value->dims[1] = dim_const(bench->graph->dims, 16);
    value->id = (uint32_t)bench->n_values++;
    vec_push(bench->arena, &bench->graph->values, value);
    return value;
}

static inline Kernel *bench_finish(Bench *bench, Builder *b) {
    Kernel *kernel = builder_finish(b);
    for (size_t i = 0; i < bench->diags->list.n; i++)
        fprintf(stderr, "%s\n", bench->diags->list.at[i].message);
    assert_non_null(kernel);
    return kernel;
}

/* ---- NVRTC
 * -------------------------------------------------------------------------------------------------- */

typedef struct Nvrtc {
    bool is_here;
    int (*create)(void **program, const char *source, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*compile)(void *program, int n, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *text);
    int (*cubin_size)(void *program, size_t *size);
    int (*destroy)(void **program);
} Nvrtc;

static inline const Nvrtc *nvrtc(void) {
    static Nvrtc library;
    static bool is_tried;
    if (is_tried)
        return &library;
    is_tried = true;
    void *handle = dlopen("libnvrtc.so.13", RTLD_NOW);
    if (!handle)
        handle = dlopen("libnvrtc.so.12", RTLD_NOW);
    if (!handle) {
        print_message("SKIPPED: no NVRTC, so printed CUDA C++ is not compiled\n");
        return &library;
    }
    *(void **)&library.create = dlsym(handle, "nvrtcCreateProgram");
    *(void **)&library.compile = dlsym(handle, "nvrtcCompileProgram");
    *(void **)&library.log_size = dlsym(handle, "nvrtcGetProgramLogSize");
    *(void **)&library.log = dlsym(handle, "nvrtcGetProgramLog");
    *(void **)&library.cubin_size = dlsym(handle, "nvrtcGetCUBINSize");
    *(void **)&library.destroy = dlsym(handle, "nvrtcDestroyProgram");
    library.is_here = library.create && library.compile && library.log_size && library.log &&
                      library.cubin_size && library.destroy;
    return &library;
}

/* Fails on what a compiler may report without failing itself: spills, local memory, serialized wgmma. */
static inline void bench_check_log(const char *who, const char *log, const char *source) {
    static const char *const faults[] = {"C7504", "C7507", "C7508", "C7509", "C7510",
                                         "C7514", "C7515", "C7517", "C7519"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strstr(log, faults[i])) {
            fprintf(stderr, "%s\n%s: %s\n", source, who, log);
            fail();
        }
    for (const char *at = strstr(log, " bytes stack frame"); at; at = strstr(at + 1, " bytes stack frame")) {
        const char *number = at;
        while (number > log && number[-1] >= '0' && number[-1] <= '9')
            number--;
        if (strncmp(number, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", 62) != 0) {
            fprintf(stderr, "%s\n%s: %s\n", source, who, log);
            fail();
        }
    }
}

static inline void bench_compile_cuda(const char *source, const char *architecture) {
    const Nvrtc *n = nvrtc();
    if (!n->is_here)
        return;
    void *program = NULL;
    assert_int_equal(n->create(&program, source, "kernel.cu", 0, NULL, NULL), 0);
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    const char *options[] = {option, "-minimal", "--ptxas-options=-v"};
    int status = n->compile(program, 3, options);
    size_t size = 0;
    n->log_size(program, &size);
    char *log = calloc(size + 1, 1);
    n->log(program, log);
    if (status != 0) {
        fprintf(stderr, "%s\nNVRTC, %s: %s\n", source, architecture, log);
        fail();
    }
    bench_check_log(architecture, log, source);
    size_t cubin = 0;
    assert_int_equal(n->cubin_size(program, &cubin), 0);
    assert_true(cubin > 0);
    free(log);
    n->destroy(&program);
}

/* ---- LLVM and ptxas
 * ----------------------------------------------------------------------------------------- */

/* The plugin lies two folders above the test's program, where the Makefile builds both. */
static inline LlvmEmit *bench_llvm(void) {
    static LlvmEmit *emit;
    static bool is_tried;
    if (is_tried)
        return emit;
    is_tried = true;
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = 0;
    for (int i = 0; i < 3; i++)
        *strrchr(path, '/') = 0;
    strcat(path, "/libsinter_llvm.so");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        print_message("SKIPPED: no LLVM backend (%s)\n", dlerror());
        return NULL;
    }
    const int *abi = dlsym(handle, "sinter_llvm_abi");
    assert_non_null(abi);
    assert_int_equal(*abi, SINTER_LLVM_ABI);
    *(void **)&emit = dlsym(handle, "sinter_llvm_emit");
    assert_non_null(emit);
    return emit;
}

static inline const char *bench_ptxas(void) {
    static const char *path;
    static bool is_tried;
    static const char *const places[] = {"/usr/local/cuda/bin/ptxas", "/usr/local/cuda-13.0/bin/ptxas",
                                         "/opt/cuda/bin/ptxas"};
    if (is_tried)
        return path;
    is_tried = true;
    for (size_t i = 0; i < sizeof places / sizeof *places && !path; i++)
        if (access(places[i], X_OK) == 0)
            path = places[i];
    if (!path && system("command -v ptxas >/dev/null 2>&1") == 0)
        path = "ptxas";
    if (!path)
        print_message("SKIPPED: no ptxas, so PTX is not assembled\n");
    return path;
}

static inline void bench_assemble(const char *ptx, const char *architecture) {
    const char *ptxas = bench_ptxas();
    if (!ptxas)
        return;
    char path[] = "/tmp/sinter_test_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    size_t bytes = strlen(ptx);
    assert_int_equal(write(file, ptx, bytes), (ssize_t)bytes);
    close(file);
    char command[512];
    snprintf(command, sizeof command, "%s -v -arch=%s -o /dev/null %s 2>&1", ptxas, architecture, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    static char log[1 << 16];
    size_t n = fread(log, 1, sizeof log - 1, pipe);
    log[n] = 0;
    int status = pclose(pipe);
    unlink(path);
    if (status != 0) {
        fprintf(stderr, "%s\nptxas, %s: %s\n", ptx, architecture, log);
        fail();
    }
    bench_check_log(architecture, log, ptx);
}

/* ---- both
 * --------------------------------------------------------------------------------------------------- */

/* Prints the kernel with both backends and compiles what they print for the kernel's target. The CUDA text is
 * returned. */
static inline const char *bench_compile(Bench *bench, const Kernel *kernel) {
    Text cuda = text_new(bench->arena);
    emit_cuda(&cuda, kernel);
    bench_compile_cuda(cuda.at, kernel->target->name);
    LlvmEmit *llvm = kernel->target->llvm_cpu ? bench_llvm() : NULL;
    if (llvm) {
        Text ptx = text_new(bench->arena);
        if (!llvm(&ptx, kernel, LLVM_OUTPUT_PTX, bench->diags)) {
            for (size_t i = 0; i < bench->diags->list.n; i++)
                fprintf(stderr, "%s\n", bench->diags->list.at[i].message);
            fail();
        }
        bench_assemble(ptx.at, kernel->target->name);
    }
    return cuda.at;
}

#endif
