/* Seeded random inputs: the same seed, name and type give the same array on every machine. */
#ifndef SINTER_RUNTIME_RANDOM_H
#define SINTER_RUNTIME_RANDOM_H

#include "runtime/array.h"

typedef enum RandomKind {
    RANDOM_NORMAL,   /* floats: mean 0, deviation 1 */
    RANDOM_POSITIVE, /* floats: uniform in [0.5, 1.5), for what a square root, logarithm or division reads */
    RANDOM_INDEX,    /* integers in [0, bound) */
    RANDOM_LENGTH,   /* integers in [1, bound], for what coordinates are compared with */
    RANDOM_SMALL,    /* integers in [-8, 8), or [0, 8) without a sign; bool: both */
} RandomKind;

typedef struct RandomPlan {
    RandomKind kind;
    int64_t bound; /* RANDOM_INDEX, RANDOM_LENGTH */
} RandomPlan;

/* What suits this input, from what the graph does with it. */
RandomPlan random_plan(const Graph *graph, const Value *input, const DimBindings *bindings);
void random_fill(Arena *arena, Array *array, const RandomPlan *plan, uint64_t seed, const char *name);

#endif
