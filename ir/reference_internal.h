/* Shared by the files of the reference; nobody else includes it. */
#ifndef SINTER_IR_REFERENCE_INTERNAL_H
#define SINTER_IR_REFERENCE_INTERNAL_H

#include "ir/reference.h"

typedef struct Evaluation {
    Arena *arena;
    const Graph *graph;
    const DimBindings *bindings;
    const Tensor *inputs;
    Tensor *results; /* by Value.id */
    Diags *diags;
} Evaluation;

/* Row-major walk over `dims` that keeps, for up to three operands, the element's offset under their strides.
 */
typedef struct Walk {
    int rank;
    int64_t dims[RANK_MAX];
    int64_t at[RANK_MAX];
    int n;
    int64_t strides[OP_MAX_ARITY][RANK_MAX];
    int64_t offset[OP_MAX_ARITY];
} Walk;

void walk_start(Walk *walk, const Tensor *space);
/* Adds an operand that broadcasts to the space (aligned at the right). */
void walk_add_broadcast(Walk *walk, const Tensor *operand);
/* Adds an operand with explicit strides, starting at `offset`. */
void walk_add(Walk *walk, const int64_t *strides, int64_t offset);
void walk_next(Walk *walk);
void tensor_strides(const Tensor *tensor, int64_t *strides);

const Tensor *evaluation_operand(const Evaluation *e, const Value *value, int i);
/* False, with a diagnostic, where the dim cannot be evaluated. */
bool evaluation_dim(Evaluation *e, const Value *value, const Dim *dim, int64_t *out);
double number_as_double(Number number, DType type);
/* An integer result wrapped to the width of its type. */
int64_t wrap_int(int64_t value, DType type);

/* Each fills `out`, whose storage is ready. */
bool reference_movement(Evaluation *e, const Value *value, Tensor *out);
void reference_reduction(Evaluation *e, const Value *value, Tensor *out);
void reference_matmul(Evaluation *e, const Value *value, Tensor *out);
void reference_random(Evaluation *e, const Value *value, Tensor *out);

#endif
