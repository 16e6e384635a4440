#include "codegen/kernel_index.h"

enum { INDEX_DEPTH = 16 }; /* lets within lets and sums within sums that are looked through */

/* A sum: NULL stands for 0. */
typedef struct IndexParts {
    const KExpr *rest;
    const KExpr *turns; /* of constants and unrolled loops' variables only */
} IndexParts;

/* Calls of this visit each part of an expression until one says no. */
typedef bool (*IndexTest)(const KExpr *x);

static bool index_all(const KExpr *x, IndexTest test) {
    if (x->kind != KX_SCALAR && x->kind != KX_CONVERT)
        return test(x);
    for (int i = 0; i < x->n_args; i++)
        if (!index_all(x->args[i], test))
            return false;
    return true;
}

static bool index_is_turn(const KExpr *x) {
    return x->kind == KX_INT || (x->kind == KX_VAR && x->var->is_unrolled);
}

static bool index_is_constant(const KExpr *x) {
    return x->kind == KX_INT;
}

/* Means wherever it stands what it meant where a let took it. */
static bool index_is_lasting(const KExpr *x) {
    return x->kind == KX_INT || x->kind == KX_PARAM || x->kind == KX_SPECIAL ||
           (x->kind == KX_VAR && x->var->is_let);
}

static const KExpr *index_sum(Builder *b, const KExpr *x, const KExpr *y) {
    return !x ? y : !y ? x : k_add(b, x, y);
}

static const KExpr *index_scaled(Builder *b, const KExpr *x, const KExpr *by) {
    return x ? k_mul(b, x, by) : NULL;
}

static IndexParts index_parts(Builder *b, const KExpr *x, int depth) {
    if (index_all(x, index_is_turn))
        return (IndexParts){NULL, x};
    IndexParts whole = {x, NULL};
    if (depth == 0)
        return whole;
    if (x->kind == KX_VAR && x->var->value && index_all(x->var->value, index_is_lasting)) {
        IndexParts value = index_parts(b, x->var->value, depth - 1);
        return value.turns && !index_all(value.turns, index_is_constant) ? value : whole;
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
    if (!parts.rest || !parts.turns || index_all(parts.turns, index_is_constant))
        return index;
    return k_add(b, parts.rest, parts.turns);
}
