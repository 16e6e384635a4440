/* One random graph on its way through the compiler: what the two ways of execution share. */
#ifndef SINTER_TESTS_FUZZ_DIFFERENTIAL_H
#define SINTER_TESTS_FUZZ_DIFFERENTIAL_H

#include "codegen/simulate.h"
#include "tests/fuzz/graphgen.h"

typedef struct Trial {
    Arena *arena;
    const Target *target; /* of the simulator */
    uint64_t seed;
    Diags diags;
    GraphGen generated;
    const char *text; /* the graph, before passes changed it */
    Tensor *inputs;
    Tensor *want; /* the reference's outputs */
    Partition *partition;
    SimBuffer *memory; /* by id of the partitioned graph's values; at is NULL for what crosses no border */
    bool failed;
} Trial;

/* Draws the graph, its text and inputs, and runs the reference. False where that fails. */
bool trial_begin(Trial *trial);
/* Prints the seed, what went wrong, and the graph. */
void trial_fail(Trial *trial, const char *what, const char *detail);
/* Whether an element is within the tolerance of its output; else the trial fails. */
bool trial_element(Trial *trial, const char *stage, size_t output, int64_t element, Number got);

/* `count` seeds from `first` on, each graph's plan on `device`: "cuda", or "sim". In child processes, since a
 * kernel that faults or hangs takes its process's context with it. Failures are added to *failures. False,
 * after a sentence on standard error, where there is no GPU or backend. */
bool device_trials(uint64_t first, uint64_t count, const char *device, const char *backend, int *failures);

#endif
