/* The meaning of a graph: evaluated in float64 on the CPU, integers exactly. Slow and plain on purpose. */
#ifndef SINTER_IR_REFERENCE_H
#define SINTER_IR_REFERENCE_H

#include "ir/graph.h"

/* A tensor of the reference: packed row-major Numbers, whatever the element type. */
typedef struct Tensor {
    DType dtype;
    int rank;
    int64_t dims[RANK_MAX];
    int64_t count;
    Number *at;
} Tensor;

bool tensor_new(Arena *arena, DType dtype, int rank, const int64_t *dims,
                Tensor *out); /* false: size overflows */

/* Evaluates every output. `inputs` in the graph's order, values of the declared types; `outputs` receives
 * graph->outputs.n tensors. False, with a diagnostic, where a dim cannot be evaluated or the sizes do not fit
 * into memory. */
bool reference_run(Arena *arena, const Graph *graph, const DimBindings *bindings, const Tensor *inputs,
                   Tensor *outputs, Diags *diags);
/* The same for one Value's intermediate result, for tests and for `verify`'s worst element. */
bool reference_value(Arena *arena, const Graph *graph, const DimBindings *bindings, const Tensor *inputs,
                     const Value *value, Tensor *out, Diags *diags);

/* Philox-4x32-10 (Salmon et al., SC 2011): four 32-bit words w[0..4) for a 128-bit counter {counter, 0} and a
 * 64-bit key.
 *
 * Element e of a random tensor (row-major number) belongs to counter e / 4 + offset; the key is the seed's 64
 * bits. uniform: (w[e % 4] >> 8) * 2^-24, exact in f32. normal:  with p = (e % 4) / 2, u1 = ((w[2p] >> 8) +
 * 1) * 2^-24 and u2 = (w[2p + 1] >> 8) * 2^-24 (Box and Muller): sqrt(-2 ln u1) * cos(2 pi u2) for even e,
 * the same times sin for odd e. */
void philox4x32(uint64_t counter, uint64_t key, uint32_t out[4]);

#endif
