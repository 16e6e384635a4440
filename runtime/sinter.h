/* Sinter: graphs of tensor operations, compiled into few GPU kernels.
 *
 *     sinter_context *context;  sinter_graph *graph;  sinter_plan *plan;
 *     sinter_context_create(&(sinter_context_options){.size = sizeof(sinter_context_options), .use_device =
 * 1}, &context); sinter_graph_parse(context, &(sinter_source){.size = sizeof(sinter_source), .text = text},
 * &graph); sinter_plan_create(context, graph, NULL, &plan);                      // compiles, loads:
 * milliseconds sinter_plan_execute(plan, &(sinter_execution){...});                  // launches:
 * microseconds
 *
 * Ownership. Every create function sets *out even where it fails (NULL only where there is no memory at all),
 * because the object carries the diagnostics; destroy it in both cases. Strings and structs that a function
 * returns belong to the object asked and live as long as it. A plan is independent of the graph that it was
 * made from, and dies before its context. NULL may be destroyed.
 *
 * Threads. A context may serve several threads at once. A graph is used by one thread at a time; making plans
 * from one graph in several threads is allowed, since that only reads it. A plan never changes after its
 * creation: any number of threads may execute it.
 *
 * Errors. Functions answer a status; its hundreds are the kind of failure. What, where and why stands in the
 * object's diagnostics. The library never prints, never ends the process, and reads the environment only
 * where an option asks for it.
 *
 * Options structs start with their size, so that a program built against an older header keeps its meaning:
 * fields that it does not know count as zero, and zero is always the default. */
#ifndef SINTER_H
#define SINTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SINTER_API __attribute__((visibility("default")))

#define SINTER_VERSION "0.1.0"

typedef enum sinter_status {
#define STATUS(NAME, CODE, DOC) SINTER_##NAME = CODE,
#include "status.def"
#undef STATUS
} sinter_status;

typedef struct sinter_context sinter_context; /* a device (or none), the backends found, the kernel cache */
typedef struct sinter_graph sinter_graph;
typedef struct sinter_builder sinter_builder;
typedef struct sinter_plan sinter_plan; /* a graph, compiled for a target */

/* The version of the library, which may differ from SINTER_VERSION of the header. */
SINTER_API const char *sinter_version(void);
SINTER_API const char *sinter_status_name(sinter_status status);
SINTER_API const char *sinter_status_text(sinter_status status);

/* ---- diagnostics
 * ----------------------------------------------------------------------------------------------------------
 */

typedef enum sinter_severity { SINTER_NOTE, SINTER_WARNING, SINTER_ERROR } sinter_severity;

typedef struct sinter_diagnostic {
    sinter_severity severity; /* a note explains the error before it */
    const char *id;           /* "shape-mismatch"; `sinter explain ID` tells more */
    const char *message;
    const char *file; /* NULL: no place in a source */
    int line, column; /* 1-based */
    const char
        *text; /* the whole, as a terminal shows it, with the source line and a caret; ends in a newline */
} sinter_diagnostic;

/* The i-th diagnostic; NULL past the last. */
SINTER_API const sinter_diagnostic *sinter_context_diagnostic(const sinter_context *context, int i);
SINTER_API const sinter_diagnostic *sinter_graph_diagnostic(const sinter_graph *graph, int i);
SINTER_API const sinter_diagnostic *sinter_plan_diagnostic(const sinter_plan *plan, int i);

/* ---- context
 * --------------------------------------------------------------------------------------------------------------
 */

typedef struct sinter_context_options {
    size_t size;
    int use_device; /* 0: compile only, the driver is not opened; 1: the device below, through its primary
                       context */
    int device;     /* ordinal */
    /* 1: fields below that are NULL are taken from PATH, CUDA_HOME, XDG_CACHE_HOME, HOME and TMPDIR. */
    int read_environment;
    const char *cache_directory; /* of compiled kernels; NULL: no cache */
    int64_t cache_bytes;         /* its bound; 0: 1 GiB */
    const char
        *search_path; /* where ptxas and nvdisasm are looked for, as in PATH; NULL: only below cuda_home */
    const char *cuda_home;           /* of a CUDA toolkit; NULL: none */
    const char *temporary_directory; /* NULL: /tmp */
    const char *llvm_plugin;         /* path of libsinter_llvm.so; NULL: beside this library or program */
    const char *nvrtc_library;       /* path of libnvrtc; NULL: libnvrtc.so.13, .12, then below cuda_home */
    size_t memory_limit;             /* bytes of host memory that one graph or plan may take; 0: none */
} sinter_context_options;

/* `options` NULL: compile only, no cache, no toolkit. SINTER_NO_DEVICE where a device was asked for and there
 * is none. */
SINTER_API sinter_status sinter_context_create(const sinter_context_options *options, sinter_context **out);
SINTER_API void sinter_context_destroy(sinter_context *context);

/* Kernels that `sinter compile -o x.sgk` packed: plans made later in this context take them and need no
 * backend, as long as they come to exactly the same kernels. Copies the bytes. Call it before plans are made
 * in several threads; a second pack replaces the first. */
SINTER_API sinter_status sinter_context_use_pack(sinter_context *context, const void *bytes, size_t n);

typedef struct sinter_metrics {
    size_t size;
    uint64_t plans, kernels;                                     /* made */
    uint64_t cache_hits, cache_misses;                           /* of kernels */
    uint64_t launches;                                           /* of kernels on the device */
    double passes_ms, codegen_ms, backend_ms, ptxas_ms, load_ms; /* summed over plans */
} sinter_metrics;

/* Set size first. */
SINTER_API void sinter_context_metrics(const sinter_context *context, sinter_metrics *out);

/* ---- graphs
 * ---------------------------------------------------------------------------------------------------------------
 */

typedef struct sinter_source {
    size_t size;
    const char *text;  /* of the graph language; copied */
    size_t length;     /* bytes; 0: up to the NUL */
    const char *name;  /* for diagnostics; NULL: "<text>" */
    const char *graph; /* which graph of the text; NULL: the only one */
} sinter_source;

SINTER_API sinter_status sinter_graph_parse(sinter_context *context, const sinter_source *source,
                                            sinter_graph **out);
SINTER_API void sinter_graph_destroy(sinter_graph *graph);

/* A builder writes the graph statement by statement, in the language's own terms: a type is "bf16[M, 4096]",
 * attributes are "over=D, eps=1e-6", operands are names of inputs, of earlier statements, or numbers.
 * Functions of the library (gelu, softmax, attention, ...) are operations like any other. Nothing is checked
 * before sinter_builder_finish(). */
SINTER_API sinter_status sinter_builder_create(sinter_context *context, const char *graph_name,
                                               sinter_builder **out);
SINTER_API void sinter_builder_input(sinter_builder *builder, const char *name, const char *type);
SINTER_API void sinter_builder_output(sinter_builder *builder, const char *name, const char *type);
SINTER_API void sinter_builder_where(sinter_builder *builder, const char *constraint);
/* attributes NULL: none. */
SINTER_API void sinter_builder_op(sinter_builder *builder, const char *result, const char *op,
                                  const char *const *operands, int n_operands, const char *attributes);
/* Parses what was written and destroys the builder, whatever the status. */
SINTER_API sinter_status sinter_builder_finish(sinter_builder *builder, sinter_graph **out);

typedef struct sinter_tensor {
    size_t size;
    const char *name;
    const char *dtype; /* "bf16" */
    int rank;
    const char *dims[8];    /* expressions over the graph's dims: "4096", "M", "K/128" */
    const char *strides[8]; /* elements; NULL where the tensor is packed row-major */
} sinter_tensor;

SINTER_API const char *sinter_graph_name(const sinter_graph *graph);
/* The canonical text, which parses back to an equal graph. */
SINTER_API const char *sinter_graph_text(sinter_graph *graph);
SINTER_API int sinter_graph_input_count(const sinter_graph *graph);
SINTER_API int sinter_graph_output_count(const sinter_graph *graph);
/* Set out->size first. */
SINTER_API sinter_status sinter_graph_input(sinter_graph *graph, int i, sinter_tensor *out);
SINTER_API sinter_status sinter_graph_output(sinter_graph *graph, int i, sinter_tensor *out);

/* ---- plans
 * ----------------------------------------------------------------------------------------------------------------
 */

typedef enum sinter_backend {
    SINTER_BACKEND_AUTO, /* for each kernel the one that measured better, of those present */
    SINTER_BACKEND_LLVM,
    SINTER_BACKEND_NVRTC,
} sinter_backend;

typedef enum sinter_stage {
    SINTER_STAGE_LOAD,    /* machine code, loaded where the context has a device */
    SINTER_STAGE_BINARY,  /* machine code, not loaded */
    SINTER_STAGE_PTX,     /* PTX only */
    SINTER_STAGE_KERNELS, /* kernel IR only: enough to simulate */
    SINTER_STAGE_REGIONS, /* fusion only */
} sinter_stage;

typedef struct sinter_dim {
    const char *name;
    int64_t value;
} sinter_dim;

typedef struct sinter_plan_options {
    size_t size;
    const char *target; /* "sm_90a"; NULL: the context's device, or sm_90a without one */
    sinter_backend backend;
    sinter_stage stage;
    const sinter_dim *dims; /* compiled in; dims not listed stay symbolic */
    int n_dims;
    const sinter_dim *hints; /* values to expect of symbolic dims, for the cost model only */
    int n_hints;
    int no_fusion;    /* 1: every operation its own kernel, to compare with */
    int verify;       /* 1: the graph is verified after each pass */
    int pass_limit;   /* only the first n passes; 0: all */
    const char *skip; /* names of passes to leave out, comma-separated */
    int no_cache;     /* 1: the kernel cache is neither read nor written */
    /* After each pass: its number, its name, the graph's text, whether it changed. May be NULL. */
    void (*dump)(void *context, int number, const char *pass, const char *text, int changed);
    void *dump_context;
    int ignore_tuned; /* 1: the cost model's schedules, whatever `sinter tune` found on this device */
    int choice; /* of each kernel's schedules, as its template proposes them, the n-th behind the best, or
                 * the last, whatever was tuned; 0: the best */
    int no_variants; /* 1: the same kernels for all values of symbolic dims */
} sinter_plan_options;

/* `options` NULL: all defaults. Kernels are compiled by as many threads as there are processors, which have
 * ended when the call returns. */
SINTER_API sinter_status sinter_plan_create(sinter_context *context, const sinter_graph *graph,
                                            const sinter_plan_options *options, sinter_plan **out);
SINTER_API void sinter_plan_destroy(sinter_plan *plan);

/* The dims that are still symbolic, in the order in which their values are passed. */
SINTER_API int sinter_plan_dim_count(const sinter_plan *plan);
SINTER_API const char *sinter_plan_dim_name(const sinter_plan *plan, int i);

/* A plan with symbolic dims has variants: kernels of their own for some of the values, as for one row, for 2
 * to 16, for pitches that are multiples of 16 bytes, chosen by the cost model. Executing, simulating and
 * asking for workspace take the variant that the dims given belong to; each is a plan that can be asked like
 * any other, and belongs to the one that has it. They are made by several threads, which have ended when the
 * plan is there, each within the context's memory_limit; one that fails is a warning of the plan's. */
SINTER_API int sinter_plan_variant_count(const sinter_plan *plan);
SINTER_API const sinter_plan *sinter_plan_variant(const sinter_plan *plan, int i); /* NULL: there is none */
/* The one that these dims belong to: `plan` itself where none of its variants is meant for them. */
SINTER_API const sinter_plan *sinter_plan_select(const sinter_plan *plan, const int64_t *dims, int n_dims);
/* What a variant relies on besides the graph's constraints: "2 <= M <= 16"; "" of a plan that is none. */
SINTER_API const char *sinter_plan_guard(const sinter_plan *plan);

/* Bytes of workspace for these dims. */
SINTER_API sinter_status sinter_plan_workspace(const sinter_plan *plan, const int64_t *dims, int n_dims,
                                               size_t *bytes);

typedef struct sinter_execution {
    size_t size;
    void *const
        *inputs; /* in the graph's order; device pointers, aligned to 256 bytes where nothing else is known */
    int n_inputs;
    void *const *outputs; /* do not overlap one another nor an input */
    int n_outputs;
    const int64_t *dims; /* of the symbolic dims */
    int n_dims;
    void *workspace; /* aligned to 256 bytes; its contents before and after do not matter */
    size_t workspace_bytes;
    void *stream;  /* CUstream of the plan's device; NULL: the default stream */
    char *message; /* where a failure is described; may be NULL */
    size_t message_room;
} sinter_execution;

/* Enqueues the plan's kernels on the stream. No allocation, no lock, no compiling, no synchronization: safe
 * inside CUDA graph capture. Constraints, alignment and sizes are checked first. */
SINTER_API sinter_status sinter_plan_execute(const sinter_plan *plan, const sinter_execution *execution);
/* The same on the CPU, by executing the kernels thread by thread: all pointers are host memory, stream does
 * not count. Slow; reports what hardware would let pass (out of bounds, races, reads of what nobody wrote).
 */
SINTER_API sinter_status sinter_plan_simulate(const sinter_plan *plan, const sinter_execution *execution);

typedef struct sinter_kernel {
    size_t size;
    const char *name;
    const char *kind;    /* template: "pointwise", "matmul", ... */
    const char *backend; /* "llvm", "nvrtc"; NULL before SINTER_STAGE_PTX */
    const char *cuda;    /* CUDA C++ source */
    const char *ir;      /* kernel IR */
    const char *ptx;     /* NULL where there is none */
    const void *cubin;   /* NULL where there is none */
    size_t cubin_bytes;
    const char *assembler; /* who made the machine code: "ptxas", "nvrtc", "driver" */
    int threads, registers /* 0: not known */, stack_bytes, spill_store_bytes, spill_load_bytes;
    int64_t shared_bytes;
    int from_cache;
    const char
        *entry; /* the function's name in ptx and cubin: of the first kernel that this code was made for,
                   NULL where there is none; kernels that differ in names alone share their code */
} sinter_kernel;

SINTER_API int sinter_plan_kernel_count(const sinter_plan *plan);
/* Set out->size first. */
SINTER_API sinter_status sinter_plan_kernel(const sinter_plan *plan, int i, sinter_kernel *out);
/* What was fused and what was not, with the rule and what would change it, in a person's words. */
SINTER_API const char *sinter_plan_explain(const sinter_plan *plan);

typedef struct sinter_times {
    size_t size;
    double passes_ms, codegen_ms, backend_ms, ptxas_ms, load_ms;
} sinter_times;

/* Set out->size first. */
SINTER_API void sinter_plan_times(const sinter_plan *plan, sinter_times *out);

#ifdef __cplusplus
}
#endif

#endif
