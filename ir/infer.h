/* Types and shapes: the rule functions that ops.def names. A rule reads op, operands and attributes of
 * infer->value and sets its dtype, rank and dims; false, after a diagnostic, where the operation is not
 * defined on them. */
#ifndef SINTER_IR_INFER_H
#define SINTER_IR_INFER_H

#include "ir/graph.h"

typedef struct Infer {
    Graph *graph;
    Value *value;
    Diags *diags;
} Infer;

bool infer_value(Graph *graph, Value *value, Diags *diags);
/* NumPy's broadcast of two shapes into dims; the rank, or -1 where they do not fit. */
int infer_broadcast_dims(DimTable *table, int rank_a, const Dim *const *a, int rank_b, const Dim *const *b,
                         const Dim **dims);

/* For rules: a diagnostic at the value, with a note where each named operand is declared; always false. */
bool infer_fail(Infer *infer, DiagId id, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* For messages: "M/16", and "bf16[M, 4096]". */
const char *infer_dim_text(const Infer *infer, const Dim *dim);
const char *infer_type_text(const Infer *infer, const Value *value);

#define OP(NAME, N_IN, CLASS, INFER, GRADIENT, ATTRS, DOC) bool INFER(Infer *infer);
#include "ir/ops.def"
#undef OP
bool infer_scalar(Infer *infer);

#endif
