/* A graph together with values for its dims and arrays for its inputs: what run, verify and bench execute. */
#ifndef SINTER_RUNTIME_CLI_PROBLEM_H
#define SINTER_RUNTIME_CLI_PROBLEM_H

#include "runtime/cli/cli.h"
#include "runtime/npy.h"

typedef struct Problem {
    Cli *cli;
    Arena *arena; /* of the arrays: freed with the problem */
    sinter_graph *graph;
    const Graph *g;
    Diags diags;
    DimBindings bindings;
    sinter_dim *dims; /* every symbol, with its value */
    int n_dims;
    Array *inputs;
} Problem;

typedef struct InputFile {
    const char *name, *file;
    RawArray raw;
} InputFile;

/* How a dim without a value gets one from the graph's first `check`. */
typedef enum CheckChoice { CHECK_NONE, CHECK_FIRST, CHECK_LAST } CheckChoice;

/* Values for every dim: `given` first, then what the shapes of the files say, then the check. False after
 * diagnostics. Call it, and what follows, below arena_run(arena). */
bool problem_begin(Problem *problem, Cli *cli, Arena *arena, sinter_graph *graph, const sinter_dim *given,
                   int n_given, const InputFile *files, size_t n_files, CheckChoice choice);
/* Arrays for the inputs: from the files, the rest seeded random. */
bool problem_inputs(Problem *problem, const InputFile *files, size_t n_files, uint64_t seed);
/* The float64 results. */
bool problem_reference(Problem *problem, Tensor **out);
/* Arrays for the outputs, filled with 0xFF bytes. */
bool problem_outputs(Problem *problem, Array **out);
/* What problem_plan() compiles with. False after a usage error. */
bool problem_plan_options(const Problem *problem, sinter_backend backend, sinter_stage stage,
                          sinter_plan_options *out);
/* Compiles for this problem: its dims compiled in, or with --symbolic given at launch. NULL after
 * diagnostics, with the exit status noted; to be destroyed by the caller. `why` receives the first error. */
sinter_plan *problem_plan(Problem *problem, sinter_backend backend, sinter_stage stage, bool no_fusion,
                          const char **why);
/* The values of the plan's symbolic dims, in its order. */
void problem_plan_dims(const Problem *problem, const sinter_plan *plan, int64_t dims[PLAN_DIMS_MOST]);
/* Of the plan and its variants, the one that executes this problem. */
const sinter_plan *problem_variant(const Problem *problem, const sinter_plan *plan);
/* Executes on the simulator into `outputs`. False with the reason in `why`. */
bool problem_simulate(Problem *problem, const sinter_plan *plan, Array *outputs, const char **why);
/* "M=17, N=64". */
const char *problem_dims_text(const Problem *problem);
void problem_dims_json(const Problem *problem, Json *json);

#endif
