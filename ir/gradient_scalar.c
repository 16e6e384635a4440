/* The gradients of scalar primitives: the expressions of scalar.def as functions.
 *
 * Words of the table: a, b, c are the operands, y is the result and dy its gradient. An expression builds
 * what it says. C leaves open which argument is built first, so order is restored at the end (gradient.c). */
#include <math.h>

#include "ir/gradient_internal.h"

#define NUM(NUMBER) derive_number(g, NUMBER)
#define OF(NAME, A) derive_scalar(g, OP_##NAME, A, NULL, NULL)
#define NEG(A) OF(neg, A)
#define ADD(A, B) derive_scalar(g, OP_add, A, B, NULL)
#define SUB(A, B) derive_scalar(g, OP_sub, A, B, NULL)
#define MUL(A, B) derive_scalar(g, OP_mul, A, B, NULL)
#define DIV(A, B) derive_scalar(g, OP_div, A, B, NULL)
#define POW(A, B) derive_scalar(g, OP_pow, A, B, NULL)
/* A where the condition holds, else B: an operand's share of what is taken from several. */
#define PICK(CONDITION, A, B) gradient_pick(g, CONDITION, A, B)
/* dy of the operand that is less, or greater. */
#define WINS(RELATION, A, B) gradient_wins(g, OP_##RELATION, A, B)
/* A, and 0 where dy is 0 since something else was taken: slopes there may be infinite. */
#define LIVE(A) gradient_live(g, A)
/* A, and 0 where X is 0. */
#define UNLESS(X, A) gradient_unless(g, X, A)
/* A / X, and 0 where X is 0. */
#define OVER(A, X) gradient_over(g, A, X)

static Value *gradient_pick(Gradient *g, Value *condition, Value *a, Value *b) {
    g->is_cut = true;
    return derive_scalar(g, OP_select, condition, a, b);
}

static Value *gradient_unless(Gradient *g, Value *x, Value *a) {
    return derive_scalar(g, OP_select, derive_scalar(g, OP_eq, x, NUM(0), NULL), NUM(0), a);
}

static Value *gradient_over(Gradient *g, Value *a, Value *x) {
    return gradient_unless(g, x, DIV(a, x));
}

/* A number that the text gives, perhaps in another type or repeated. */
static bool gradient_is_constant(const Value *value) {
    while (value->op == OP_cast || value->op == OP_broadcast)
        value = value->in[0];
    return value->op == OP_constant;
}

/* Whether it is dy by a number that the text gives, which is 0 where dy is: the slope is finite. */
static bool gradient_is_scaled(const Gradient *g, const Value *a) {
    const Value *by =
        a->op == OP_div && a->in[0] == g->dy && gradient_is_constant(a->in[1]) ? a->in[1] : NULL;
    while (by && by->op != OP_constant)
        by = by->in[0];
    double number;
    return by && value_is_constant(by, &number) && number != 0 && isfinite(number);
}

static Value *gradient_live(Gradient *g, Value *a) {
    return g->is_cut && !gradient_is_scaled(g, a) ? gradient_unless(g, g->dy, a) : a;
}

static Value *gradient_wins(Gradient *g, OpKind relation, Value *a, Value *b) {
    Value *shared = NUM(0);
    if (!gradient_is_constant(b))
        shared =
            derive_scalar(g, OP_select, derive_scalar(g, OP_eq, a, b, NULL), MUL(g->dy, NUM(0.5)), shared);
    return gradient_pick(g, derive_scalar(g, relation, a, b, NULL), g->dy, shared);
}

static void gradient_slopes(Gradient *g, Value *const *slopes) {
    for (int i = 0; i < g->value->n_in; i++)
        if (slopes[i] && gradient_wants(g, i))
            gradient_give(g, i, slopes[i]);
}

#define FLAT
#define SLOPES(...)                                                                                          \
    Value *const slopes[OP_MAX_ARITY] = {__VA_ARGS__};                                                       \
    gradient_slopes(g, slopes);
#define SCALAR(NAME, ARITY, RULE, FEXPR, IEXPR, GRADIENT, DOC)                                               \
    void gradient_##NAME(Gradient *g) {                                                                      \
        Value *y = g->value, *dy = g->dy, *a = y->in[0];                                                     \
        Value *b = ARITY > 1 ? y->in[1] : NULL, *c = ARITY > 2 ? y->in[2] : NULL;                            \
        (void)y, (void)dy, (void)a, (void)b, (void)c;                                                        \
        GRADIENT                                                                                             \
    }
#include "ir/scalar.def"
