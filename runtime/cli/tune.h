/* What `sinter tune` keeps of a region whose schedules it measures, and how it measures one (tune_measure.c).
 */
#ifndef SINTER_RUNTIME_CLI_TUNE_H
#define SINTER_RUNTIME_CLI_TUNE_H

#include "runtime/cli/device_run.h"

typedef struct TuneTry {
    Schedule schedule;
    sinter_plan *plan; /* NULL: does not compile, or was let go */
    double us;         /* 0: not measured */
    const char *why;   /* it was dropped; NULL */
} TuneTry;

/* An output of the region, as far as it is compared. */
typedef struct TuneOutput {
    DType dtype;
    CUdeviceptr at;
    size_t bytes;
    uint8_t *want; /* the pieces that the model's choice wrote */
} TuneOutput;

typedef struct Tune {
    Cli *cli;
    Arena *arena;
    const char *file;
    sinter_graph *graph;
    const sinter_dim *dims;
    int n_dims;
    bool reports; /* the verb's own output; else a remark */
    bool ok;
    Problem problem;
    DeviceRun run;
    CUdeviceptr flush;
    sinter_plan_options options;
    sinter_plan *whole;      /* the cost model's */
    const sinter_plan *base; /* of it and its variants, what these dims take: what is tuned */
    int region;
    TuneTry *tries;
    int n_tries;
    VEC(TuneOutput) outputs;
    int turn; /* an open file whose lock is this tuner's turn at the device; -1: it shares with nobody */
} Tune;

/* Executes the plan's own kernel, the model's choice, and keeps what it writes: what candidates must come to.
 * False, with the reason in run.why where there is one, where even that does not run. */
bool tune_want(Tune *tune);
/* Compares what a candidate writes, and times it; one that fails is dropped, with the reason in `why`. */
void tune_measure(Tune *tune, TuneTry *try);
/* The quickest of the first few and `model`, which are measured again: among a hundred schedules, the least
 * first time is one that luck made small. So, a little, is the least of these; it and `model` are measured
 * once more, by which they are judged. */
const TuneTry *tune_final(Tune *tune, TuneTry *model);

#endif
