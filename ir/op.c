#include "ir/op.h"

#include <math.h>
#include <string.h>

#include "ir/gradient_internal.h"
#include "ir/infer.h"

/* The reference functions, generated from the expressions of scalar.def. A row of rule FLOAT has no integer
 * form (NO_INT). */
#define SCALAR_INT_ARITH(NAME, EXPR) SCALAR_INT(NAME, EXPR)
#define SCALAR_INT_FLOAT(NAME, EXPR)
#define SCALAR_INT_COMPARE(NAME, EXPR) SCALAR_INT(NAME, EXPR)
#define SCALAR_INT_LOGIC(NAME, EXPR) SCALAR_INT(NAME, EXPR)
#define SCALAR_INT_SELECT(NAME, EXPR) SCALAR_INT(NAME, EXPR)
#define SCALAR_INT_BITS(NAME, EXPR) SCALAR_INT(NAME, EXPR)
#define SCALAR_INT(NAME, EXPR)                                                                               \
    static int64_t op_int_##NAME(int64_t a, int64_t b, int64_t c) {                                          \
        (void)a, (void)b, (void)c;                                                                           \
        return EXPR;                                                                                         \
    }
#define SCALAR(NAME, ARITY, RULE, FEXPR, IEXPR, GRADIENT, DOC)                                               \
    static double op_float_##NAME(double a, double b, double c) {                                            \
        (void)a, (void)b, (void)c;                                                                           \
        return FEXPR;                                                                                        \
    }                                                                                                        \
    SCALAR_INT_##RULE(NAME, IEXPR)
#include "ir/scalar.def"
#undef SCALAR

#define SCALAR_REF_ARITH(NAME) op_int_##NAME
#define SCALAR_REF_FLOAT(NAME) NULL
#define SCALAR_REF_COMPARE(NAME) op_int_##NAME
#define SCALAR_REF_LOGIC(NAME) op_int_##NAME
#define SCALAR_REF_SELECT(NAME) op_int_##NAME
#define SCALAR_REF_BITS(NAME) op_int_##NAME

/* Whether a row has slopes. */
#define SLOPES(...) +1
#define FLAT

#define ATTRS(...) __VA_ARGS__
#define OP_ATTR_COUNT(...) (int)(sizeof((AttrInfo[]){__VA_ARGS__}) / sizeof(AttrInfo))

static const OpInfo op_table[OP_COUNT] = {
#define SCALAR(NAME, ARITY, RULE, FEXPR, IEXPR, GRADIENT, DOC)                                               \
    [OP_##NAME] = {.name = #NAME,                                                                            \
                   .doc = DOC,                                                                               \
                   .n_in = ARITY,                                                                            \
                   .class_ = OPCLASS_POINTWISE,                                                              \
                   .infer = infer_scalar,                                                                    \
                   .gradient = (0 GRADIENT) ? gradient_##NAME : gradient_none,                               \
                   .rule = RULE_##RULE,                                                                      \
                   .float_ref = op_float_##NAME,                                                             \
                   .int_ref = SCALAR_REF_##RULE(NAME)},
#include "ir/scalar.def"
#undef SCALAR
#define OP(NAME, N_IN, CLASS, INFER, GRADIENT, ATTRIBUTES, DOC)                                              \
    [OP_##NAME] = {.name = #NAME,                                                                            \
                   .doc = DOC,                                                                               \
                   .n_in = N_IN,                                                                             \
                   .class_ = CLASS,                                                                          \
                   .infer = INFER,                                                                           \
                   .gradient = GRADIENT,                                                                     \
                   .attrs = {ATTRIBUTES},                                                                    \
                   .n_attrs = OP_ATTR_COUNT(ATTRIBUTES)},
#include "ir/ops.def"
#undef OP
};

const OpInfo *op_info(OpKind kind) {
    return &op_table[kind];
}

OpKind op_find(const char *name) {
    for (int kind = 0; kind < OP_COUNT; kind++)
        if (strcmp(op_table[kind].name, name) == 0)
            return (OpKind)kind;
    return OP_COUNT;
}

int op_attr_index(OpKind kind, const char *name) {
    const OpInfo *info = op_info(kind);
    for (int i = 0; i < info->n_attrs; i++)
        if (strcmp(info->attrs[i].name, name) == 0)
            return i;
    return -1;
}
