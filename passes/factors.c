#include "passes/factors.h"

typedef struct Factors {
    Rewrite *rewrite;
    const Value *like;
    Value *all; /* NULL: none yet */
} Factors;

static bool factors_take(Factors *factors, OpKind op, Value *factor) {
    Value *one = build_constant(factors->rewrite, (Number){.f = 1}, DTYPE_F32, factors->like);
    if (factor && one && (factors->all || op == OP_div))
        factors->all = build_scalar(factors->rewrite, op, factors->all ? factors->all : one, factor, NULL,
                                    factors->like);
    else
        factors->all = factor;
    return factors->all && one;
}

static bool factors_is_zero(const Value *value) {
    double number;
    return value_is_constant(value, &number) && number == 0;
}

/* Where the one operand of a product is that is not its factor: the first, but for factors that stand there.
 */
static int factors_place(const Value *value) {
    const Value *first = value->in[0];
    bool is_made =
        first->op == OP_div || first->op == OP_select || first->op == OP_mul || first->op == OP_matmul;
    return value->op == OP_mul && value->in[1]->op != OP_constant && !is_made;
}

Value *factors_below(Rewrite *rewrite, Value *value, Value **factor, const Value *like) {
    enum { DEPTH = 6 };
    Factors factors = {.rewrite = rewrite, .like = like};
    Value *whole = value;
    *factor = NULL;
    for (int i = 0; i < DEPTH && value->dtype == DTYPE_F32; i++) {
        Value *below, *taken;
        if (value->op == OP_select && factors_is_zero(value->in[2])) {
            Value *one = build_constant(rewrite, (Number){.f = 1}, DTYPE_F32, like);
            below = value->in[1];
            taken = one ? build_scalar(rewrite, OP_select, value->in[0], one, value->in[2], like) : NULL;
        } else if (value->op == OP_mul || value->op == OP_div) {
            int at = factors_place(value);
            below = value->in[at];
            taken = value->in[!at];
        } else {
            break;
        }
        if (below->op == OP_exp || !value_same_dims(value, below))
            break;
        if (!factors_take(&factors, value->op == OP_div ? OP_div : OP_mul, taken))
            return whole;
        value = below;
    }
    *factor = factors.all;
    return value;
}
