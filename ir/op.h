/* The table of operations, as data: one enumeration over scalar.def and ops.def, one OpInfo a row. */
#ifndef SINTER_IR_OP_H
#define SINTER_IR_OP_H

#include "ir/type.h"

typedef enum OpKind {
#define SCALAR(NAME, ARITY, RULE, FEXPR, IEXPR, GRADIENT, DOC) OP_##NAME,
#include "ir/scalar.def"
#undef SCALAR
    OP_SCALAR_COUNT, /* kinds below this are scalar primitives */
    OP_FIRST_STRUCTURAL = OP_SCALAR_COUNT - 1,
#define OP(NAME, N_IN, CLASS, INFER, GRADIENT, ATTRS, DOC) OP_##NAME,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} OpKind;

typedef enum OpClass {
    OPCLASS_BORDER,
    OPCLASS_POINTWISE,
    OPCLASS_RANDOM,
    OPCLASS_MOVEMENT,
    OPCLASS_REDUCTION,
    OPCLASS_CONTRACTION,
    OPCLASS_COMPOSITE,
    OPCLASS_RECURRENT,
    OPCLASS_COLLECTIVE,
} OpClass;

typedef enum ScalarRule {
    RULE_ARITH,
    RULE_FLOAT,
    RULE_COMPARE,
    RULE_LOGIC,
    RULE_SELECT,
    RULE_BITS
} ScalarRule;

typedef enum AttrKind {
    ATTR_INT,    /* int64_t */
    ATTR_NUMBER, /* Number, by the op's dtype attribute */
    ATTR_DTYPE,
    ATTR_DIM,
    ATTR_DIMS, /* one Dim an axis */
    ATTR_INTS, /* one int an axis */
    ATTR_AXES, /* ascending, unique axis numbers */
} AttrKind;

enum { OP_MAX_ATTRS = 4, OP_MAX_ARITY = 3 /* of a scalar */, RANK_MAX = 8 };

typedef struct AttrInfo {
    const char *name;
    AttrKind kind;
    const char *fallback; /* default, as the language writes it; NULL: must be given */
} AttrInfo;

struct Infer;
typedef bool (*InferRule)(struct Infer *infer); /* infer.h */
struct Gradient;
typedef void (*GradientRule)(struct Gradient *gradient); /* gradient_internal.h */

typedef struct OpInfo {
    const char *name;
    const char *doc;
    int n_in; /* -1: any number, at least 1 */
    OpClass class_;
    InferRule infer;
    GradientRule gradient; /* gradient_none: its result does not change with its operands, or in steps */
    AttrInfo attrs[OP_MAX_ATTRS];
    int n_attrs;
    /* scalars only */
    ScalarRule rule;
    double (*float_ref)(double a, double b, double c);
    int64_t (*int_ref)(int64_t a, int64_t b, int64_t c); /* NULL: no integer form */
} OpInfo;

const OpInfo *op_info(OpKind kind);
OpKind op_find(const char *name); /* OP_COUNT where there is none */
/* Whether it gives a multiple of its first operand, or mul of either, where the other does not depend on it.
 */
static inline bool op_multiplies(OpKind kind) {
    return kind == OP_mul || kind == OP_div || kind == OP_neg;
}

static inline bool op_is_scalar(OpKind kind) {
    return kind < OP_SCALAR_COUNT;
}
/* Index of a named attribute in Value.attrs; -1 where the operation has none of that name. */
int op_attr_index(OpKind kind, const char *name);

#endif
