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
    const Dim *offset; /* PLACE_WORKSPACE: bytes */
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

/* A piece of the workspace that a kernel finds zeroed. */
typedef struct PlanScratch {
    const Dim *offset, *bytes;
} PlanScratch;
enum { PLAN_SCRATCH_MOST = 2 }; /* pieces of one kernel */

typedef struct PlanKernel {
    PlanScratch scratch[PLAN_SCRATCH_MOST];
    int n_scratch;
    Region *region;
    Kernel *kernel;
    PlanParam *params;
    int n_params;
    const char *cuda, *ir;
    bool has_image;
    MachineResult machine;
    CUmodule module; /* NULL: not loaded */
    CUfunction function;
} PlanKernel;

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
    PlanCopy *copies;
    int n_copies;
    PlanDecision *decisions;
    int n_decisions;
    const char *explain;
    sinter_times times;
    bool no_fusion;
    sinter_dim *bound; /* what was compiled in */
    int n_bound;
    int free_dims[PLAN_DIMS_MOST]; /* numbers of the symbols that were not: whose values execute is given */
    int n_free_dims;
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
const char *plan_template_name(TemplateKind kind);
/* The explanation, of one line of the source only where `line` is not 0. */
void plan_explain(Text *out, const sinter_plan *plan, int line);

#endif
