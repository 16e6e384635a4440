/* How long a product takes with a schedule, and what the schedules to choose from are. */
#ifndef SINTER_CODEGEN_COST_MATMUL_H
#define SINTER_CODEGEN_COST_MATMUL_H

#include "codegen/templates/matmul.h"

/* A product as the estimates see it. */
typedef struct Cost {
    const MatmulPlan *plan;
    int64_t m, n, k, batch;
    int64_t bytes;
    double slots;            /* instructions of an epilogue for an element of the result */
    bool from_memory;        /* memory, not the matrix unit, sets the pace */
    bool has_inputs;         /* that every element of the result has one of its own of */
    bool is_ragged;          /* rows of the output start anywhere, and TMA cannot write them */
    double edge;             /* bytes of a row of the output that two tiles write */
    double lines_a, lines_b; /* time of a row of a tile that is loaded: 1 where it is one line of L2 */
} Cost;

/* Under the sizes that `hint` expects. */
void cost_begin(Cost *c, const MatmulPlan *plan, const DimBindings *hint);
/* The product as the schedule's path takes it. */
const MatmulPlan *cost_plan(const Cost *c, const Schedule *s);
/* Seconds, of any path. */
double cost_product(const Cost *c, const Schedule *s);

#endif
