/* The inside of the generator; only graphgen*.c include it. */
#ifndef SINTER_TESTS_FUZZ_GRAPHGEN_INTERNAL_H
#define SINTER_TESTS_FUZZ_GRAPHGEN_INTERNAL_H

#include "tests/fuzz/graphgen.h"

enum { GEN_POOL_MAX = 6 };
/* Largest magnitude, and largest error, that an operation may result in. */
#define GEN_LARGEST 1000.0
#define GEN_ERROR_MOST 0.05
/* What a kernel's functions may be off: a few units of f32 and, near 0, an absolute amount. */
#define GEN_RELATIVE 2e-6
#define GEN_ABSOLUTE 2e-6

/* What is known of a value, in value->scratch. */
typedef struct Known {
    double low, high;
    double error; /* 0: a kernel has exactly the reference's value */
    int64_t count;
    bool used;
} Known;

typedef struct Gen {
    Arena *arena;
    Graph *graph;
    uint64_t random;
    GraphGenOptions options;
    DimBindings bindings;
    const Dim *pool[GEN_POOL_MAX]; /* the dims that shapes are made of */
    int n_pool;
    int n_inputs; /* ever made, for names */
} Gen;

uint64_t gen_draw(uint64_t *state);
int gen_below(Gen *gen, int n);
bool gen_chance(Gen *gen, int percent);

Known *gen_known(const Value *value);
/* Appends, unless the rules, the size or the numbers are against it: then NULL. So do all below that make a
 * Value. */
Value *gen_append(Gen *gen, OpKind op, Value **in, int n_in, const Attr *attrs, Known known);
void gen_undo(Gen *gen, size_t values, size_t inputs);
Value *gen_constant(Gen *gen, double number, DType dtype);
Value *gen_input(Gen *gen, DType dtype, int rank, const Dim *const *dims);
Value *gen_random_input(Gen *gen);
Value *gen_any(Gen *gen);
DType gen_dtype(Gen *gen);
const Dim *gen_dim(Gen *gen);
const Dim **gen_strides(Gen *gen, int rank, const Dim *const *dims);

Value *gen_scalar(Gen *gen, OpKind op);
Value *gen_cast_to(Gen *gen, Value *x, DType to);
Value *gen_movement(Gen *gen, OpKind op, Value *x); /* NULL, too, for an operation that it does not know */
Value *gen_shaped(Gen *gen, OpKind op);             /* index and random numbers */
Value *gen_reduction(Gen *gen, OpKind op);
Value *gen_matmul(Gen *gen);

#endif
