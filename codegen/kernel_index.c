#include "codegen/kernel_index.h"

#include "codegen/kernel_fold.h"

enum { INDEX_DEPTH = 16 }; /* lets within lets and sums within sums that are looked through */

/* A sum: NULL stands for 0. */
typedef struct IndexParts {
    const KExpr *rest;
    const KExpr *turns; /* of constants and unrolled loops' variables only */
} IndexParts;

static bool index_is_turn(const KExpr *x) {
    if (x->kind != KX_SCALAR && x->kind != KX_CONVERT)
        return x->kind == KX_INT || (x->kind == KX_VAR && x->var->is_unrolled);
    for (int i = 0; i < x->n_args; i++)
        if (!index_is_turn(x->args[i]))
            return false;
    return true;
}

static const KExpr *index_sum(Builder *b, const KExpr *x, const KExpr *y) {
    return !x ? y : !y ? x : k_add(b, x, y);
}

static const KExpr *index_scaled(Builder *b, const KExpr *x, const KExpr *by) {
    return x ? k_mul(b, x, by) : NULL;
}

static IndexParts index_parts(Builder *b, const KExpr *x, int depth) {
    if (index_is_turn(x))
        return (IndexParts){NULL, x};
    IndexParts whole = {x, NULL};
    if (depth == 0)
        return whole;
    if (x->kind == KX_VAR && x->var->value && fold_is_fixed(x->var->value, INDEX_DEPTH)) {
        IndexParts value = index_parts(b, x->var->value, depth - 1);
        return value.turns && value.turns->kind != KX_INT ? value : whole;
    }
    if (x->kind != KX_SCALAR)
        return whole;
    if (x->op == OP_add) {
        IndexParts left = index_parts(b, x->args[0], depth - 1),
                   right = index_parts(b, x->args[1], depth - 1);
        return (IndexParts){index_sum(b, left.rest, right.rest), index_sum(b, left.turns, right.turns)};
    }
    if (x->op == OP_mul && x->args[1]->kind == KX_INT) {
        IndexParts parts = index_parts(b, x->args[0], depth - 1);
        return (IndexParts){index_scaled(b, parts.rest, x->args[1]),
                            index_scaled(b, parts.turns, x->args[1])};
    }
    return whole;
}

const KExpr *k_index_unrolled_last(Builder *b, const KExpr *index) {
    IndexParts parts = index_parts(b, index, INDEX_DEPTH);
    if (!parts.rest || !parts.turns || parts.turns->kind == KX_INT)
        return index;
    return k_add(b, parts.rest, parts.turns);
}
