/* Random valid graphs, drawn from the table of operations by a seed: for tests that compare the float64
 * reference with kernels.
 *
 * Every value carries an interval that it lies in and a bound on what a kernel, which computes in f32, may
 * differ from the reference. An operation is taken only where both stay small: no logarithm of a negative
 * number, no floor of an inexact one. A scalar that scalar.def gains is drawn without a change here, since
 * intervals come from sampling its reference; a structural operation needs a case in graphgen.c, which
 * tests/unit/ir/graphgen.c demands. */
#ifndef SINTER_TESTS_FUZZ_GRAPHGEN_H
#define SINTER_TESTS_FUZZ_GRAPHGEN_H

#include "ir/reference.h"

typedef struct GraphGenOptions {
    int operations;    /* drawn, about [12] */
    int max_dim;       /* largest dim [40] */
    int64_t max_count; /* most elements of a value [6000] */
    bool no_symbols;   /* every dim a number */
    bool no_layouts;   /* inputs and outputs packed */
    bool no_nibbles;   /* no output of i4 or u4 */
} GraphGenOptions;

typedef struct GraphGenRange {
    double low, high;
} GraphGenRange;

typedef struct GraphGen {
    Graph *graph;
    DimBindings bindings;  /* values of the symbols, within the constraints */
    GraphGenRange *ranges; /* one an input: what it is filled with */
    double *tolerance;     /* one an output: how far, absolutely, a kernel may be off; 0: equal */
} GraphGen;

/* Zero fields of `options`, or NULL, take the defaults in brackets. The graph is sorted, verified by
 * construction and has at least one output. Below arena_run(). */
GraphGen graphgen(Arena *arena, uint64_t seed, const GraphGenOptions *options);
/* Values for the graph's inputs, in its order, drawn evenly from their ranges: floats from [-2, 2], small
 * integers from their whole type, wider ones from [-20, 20], some i64 from far beyond 32 bits. */
Tensor *graphgen_inputs(Arena *arena, const GraphGen *generated, uint64_t seed);

#endif
