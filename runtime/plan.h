/* What a sinter_plan holds. Nothing in it changes after sinter_plan_create(). */
#ifndef SINTER_RUNTIME_PLAN_H
#define SINTER_RUNTIME_PLAN_H

#include "codegen/codegen.h"
#include "runtime/graph_api.h"
#include "runtime/machine.h"

/* Bounds that keep sinter_plan_execute() on the stack; a plan that passes one is refused when it is made. */
enum { PLAN_DIMS_MOST = 64, PLAN_PARAMS_MOST = 128, PLAN_MAPS_MOST = 16 };

typedef enum PlaceKind { PLACE_INPUT, PLACE_OUTPUT, PLACE_WORKSPACE } PlaceKind;

/* Where a tensor that a kernel touches lies at run time. */
typedef struct Place {
    PlaceKind kind;
    int index;         /* of the input or output */
    const Dim *offset; /* bytes within it; NULL: 0 */
} Place;

typedef struct PlanParam {
    KParamKind kind;
    Place place;           /* PARAM_BUFFER, PARAM_TENSOR_MAP */
    const Value *value;    /* the same; NULL: scratch */
    const Dim *count;      /* elements of it */
    int align;             /* bytes that its address must be a multiple of */
    const Dim *dim;        /* PARAM_DIM */
    const KTensorMap *map; /* PARAM_TENSOR_MAP */
} PlanParam;

typedef struct PlanKernel {
    Region *region;
    Schedule schedule;                   /* the region's, in the kernel that was taken */
    Schedule choices[CODEGEN_SCHEDULES]; /* what the template proposes, best first */
    int n_choices;
    const char *remark;             /* why it is not the first choice; NULL: it is */
    struct PlanKernel *passed_over; /* that was compiled before it, and spilled; NULL */
    Kernel *kernel;
    PlanParam *params;
    int n_params;
    const char *cuda, *ir; /* emit_cuda()'s, kernel_print()'s */
    const char *form;      /* what it is apart from names: the hash of emit_form()'s text */
    bool has_image;
    MachineResult machine;
    CUmodule module; /* NULL: not loaded, or a kernel before it has loaded the same code */
    CUfunction function;
} PlanKernel;

/* Machine code of some of a plan's kernels: those of one form, by the backend that was asked for. */
typedef struct PlanCode {
    const char *form;
    sinter_backend backend;
    MachineResult result;
} PlanCode;

/* An output that no kernel writes, because it is an input, or the same tensor as another output. */
typedef struct PlanCopy {
    Place from;
    int output;
    const Dim *bytes;
} PlanCopy;

typedef struct PlanDecision {
    const Decision *decision;
    int line; /* of the source; 0: none */
} PlanDecision;

/* The sizes that one of a plan's variants is for, and those that its schedules are chosen for. */
typedef struct PlanScope {
    DimGuards guards;
    const char *text; /* of the guards */
    const sinter_dim *hints;
    int n_hints;
} PlanScope;

/* The sizes of an extent, above those of the entry before, that a variant is for. */
typedef struct PlanSizes {
    int64_t upper;
    int variant; /* -1: none */
} PlanSizes;

struct sinter_plan {
    sinter_context *context;
    Arena *arena; /* everything but this struct */
    Diags diags;
    Report report;
    ReportStorage storage;
    const Target *target;
    sinter_stage stage;
    Graph *graph; /* after the passes; its dims table has what is still symbolic */
    Partition *partition;
    const Dim *workspace; /* bytes: what kernels share, then their scratch; NULL: none */
    PlanKernel *kernels;
    int n_kernels;
    VEC(PlanCode) code;
    PlanCopy *copies;
    int n_copies;
    PlanDecision *decisions;
    int n_decisions;
    const char *explain;
    sinter_times times;
    bool no_fusion, no_variants; /* as was asked for */
    sinter_dim *bound;           /* what was compiled in */
    int n_bound;
    int free_dims[PLAN_DIMS_MOST]; /* numbers of the symbols that were not: whose values execute is given */
    int n_free_dims;
    DimBindings hint;       /* values to expect of them */
    const PlanScope *scope; /* of a variant, in the arena of the plan that has it; NULL: it is none */
    /* Variants, and by the size of one extent (NULL: all are alike) which of them is executed; where its
     * guards do not hold `plain`, and where those do not either the plan itself. */
    struct sinter_plan **variants;
    int n_variants;
    int plain; /* the variant for sizes that no other is for; -1: there is none */
    const Dim *sized;
    PlanSizes *sizes;
    int n_sizes;
};

/* Values of a plan's dims, on the stack of whoever evaluates. */
typedef struct PlanBindings {
    int64_t value[PLAN_DIMS_MOST];
    bool known[PLAN_DIMS_MOST];
    DimBindings bindings; /* over the two above */
} PlanBindings;

/* Binds and checks the constraints, without allocating. A failure is described in message (may be NULL). */
sinter_status plan_bind(const sinter_plan *plan, const int64_t *dims, int n_dims, PlanBindings *out,
                        char *message, size_t room);
/* Elements of memory that a tensor of these strides (NULL: packed) spans, from its first to past its last. */
bool plan_extent(const Value *value, const Dim *const *strides, const DimBindings *bindings,
                 int64_t *elements);
/* Writes a printf-formatted sentence where there is room for it. */
void plan_say(char *message, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* One region alone, with a schedule of the tuner's: what a plan for measuring is made of. */
typedef struct PlanTrial {
    int region;
    const Schedule *schedule;
} PlanTrial;
/* sinter_plan_create(), where trial is NULL; else only the trial's kernel is compiled and loaded, and only
 * plan_execute_kernel() may run it. `scope` not NULL: a plan for those sizes, without variants; the scope
 * outlives it. */
sinter_status plan_create(sinter_context *context, const sinter_graph *graph,
                          const sinter_plan_options *options, const PlanTrial *trial, const PlanScope *scope,
                          sinter_plan **out);
/* family.c: makes the variants of a plan that has its kernels. Variants that fail are left out, with a
 * warning. */
void plan_make_family(sinter_plan *plan, const sinter_graph *graph, const sinter_plan_options *options);
/* launch.c: as sinter_plan_execute(), one kernel. */
sinter_status plan_execute_kernel(const sinter_plan *plan, int kernel, const sinter_execution *execution);

/* plan_choose.c. From entry->schedule to the kernel, its texts and its parameters. */
bool plan_generate(sinter_plan *plan, PlanKernel *entry);
/* To machine code. Where the assembler finds that the kernel spills, the template's next schedules are tried,
 * and the first that does not, or the one that does least, is taken. */
bool plan_choose(sinter_plan *plan, PlanKernel *entry, const MachineOptions *options);
/* plan_code.c. Compiles what the kernels are, each form once and several at a time by threads, ahead of
 * plan_choose() for each of them, which finds it made. What fails is left for that to report. */
void plan_code_ahead(sinter_plan *plan, const MachineOptions *options);
/* To machine code, with the schedule as it is. */
bool plan_build_machine(sinter_plan *plan, PlanKernel *entry, const MachineOptions *options);
/* The first kernel before this one of the plan's that has the same machine code; NULL: none. */
const PlanKernel *plan_same_code(const sinter_plan *plan, const PlanKernel *entry);
/* Puts what a tuner found for the region on this device in place of the first choice. */
void plan_take_tuned(sinter_plan *plan, PlanKernel *entry);
/* Where the memory of each of the kernel's parameters is. */
bool plan_params(sinter_plan *plan, PlanKernel *entry);
const char *plan_template_name(TemplateKind kind);
/* The explanation, of one line of the source only where `line` is not 0. */
void plan_explain(Text *out, const sinter_plan *plan, int line);

#endif
