/* How long a product takes with a schedule, and what the schedules to choose from are. */
#ifndef SINTER_CODEGEN_COST_MATMUL_H
#define SINTER_CODEGEN_COST_MATMUL_H

#include "codegen/templates/matmul.h"

/* Where rows begin in memory: at lines of 128 bytes, at sectors of 32, or anywhere. */
typedef enum CostRows { COST_ROWS_ALIGNED, COST_ROWS_SECTORS, COST_ROWS_ANYWHERE } CostRows;

/* A product as the estimates see it. */
typedef struct Cost {
    const MatmulPlan *plan;
    int64_t m, n, k, batch;         /* K: of all products that are added up, one behind the other */
    int64_t beside;                 /* matrices of the batch that share their first operand */
    int64_t term_k[REGION_SUM_MAX]; /* of each */
    struct {
        int64_t n, batch;
    } guests[MATMUL_PRODUCTS_MAX]; /* the same, of products in the same launch, whose M is the product's */
    int n_guests;
    int n_terms,
        n_changed; /* products that are added up; of them, those of which something is computed before */
    int64_t bytes;
    double slots;     /* instructions of the region's own for an element of the result */
    double bytes_out; /* of the results, for an element of the product */
    bool from_memory; /* memory as fast as it gets, not the matrix unit, sets the pace */
    double bytes_in;  /* of the epilogue's inputs, for an element of the product that has one of its own */
    bool has_wide_outputs; /* 32 bits an element */
    double ragged; /* stores for an element where rows of the output start anywhere, and TMA cannot write
                      them; 0 elsewhere */
    CostRows rows_a, rows_b, rows_out; /* of the operands and the result in memory */
} Cost;

/* Under the sizes that `hint` expects. */
void cost_begin(Cost *c, const MatmulPlan *plan, const DimBindings *hint);
/* The product as the schedule's path takes it. */
const MatmulPlan *cost_plan(const Cost *c, const Schedule *s);
/* The same, with the columns of all matrices that a tile has side by side, and of all that have tiles in its
 * launch. */
Cost cost_joined(const Cost *c, const Schedule *s);
/* Seconds, of any path. */
double cost_product(const Cost *c, const Schedule *s);

#endif
