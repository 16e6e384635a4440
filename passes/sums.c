/* Sums of products are brought into the order in which one kernel adds them up (fuse_sum.c): the products
 * first, of them the one that is changed before it is added, then what is not a product.
 *
 *     y = (x @ w.T + c) - 2 * (t @ b.T)      ->      y = (-(2 * (t @ b.T)) + x @ w.T) + c
 *
 * The terms are the same, in f32 or i32 as before; no more is done than a kernel's epilogue may do with them
 * in any case. Sums that are in order, and those that no kernel adds up, stay as they are. */
#include <string.h>

#include "passes/product.h"
#include "passes/rewrite.h"

enum { SUMS_TERMS = 16 };

typedef struct SumsTerm {
    Value *value;
    Value *product;  /* that it is, or is a multiple of; NULL: neither */
    bool is_changed; /* no product as it is */
    bool is_minus;
} SumsTerm;

/* The terms of a sum, those that are added up first first. */
typedef struct Sums {
    Rewrite *rewrite;
    const Value *whole;
    SumsTerm at[SUMS_TERMS];
    int n;
    bool is_spine; /* each has but one operand that is a sum again */
} Sums;

/* Whether it is a sum like the whole, which nothing else needs. */
static bool sums_is_inner(const Sums *sums, const Value *value) {
    return (value->op == OP_add || value->op == OP_sub) && value->dtype == sums->whole->dtype &&
           value_same_dims(value, sums->whole) && rewrite_is_free(sums->rewrite, value);
}

/* The product that a term is a multiple of, by itself and for nothing else; NULL: none. */
static Value *sums_product(const Sums *sums, Value *value) {
    while (value->op != OP_matmul) {
        if (!op_multiplies(value->op) || !rewrite_is_free(sums->rewrite, value))
            return NULL;
        bool is_second = value->op == OP_mul && !value_same_dims(value->in[0], value);
        value = value->in[is_second];
    }
    bool is_alone = value_same_dims(value, sums->whole) && value->dtype == sums->whole->dtype &&
                    rewrite_uses(sums->rewrite, value) == 1;
    return is_alone ? value : NULL;
}

/* False where there are too many. */
static bool sums_collect(Sums *sums, Value *value, bool is_minus, bool is_top) {
    if (!is_top && !sums_is_inner(sums, value)) {
        if (sums->n == SUMS_TERMS)
            return false;
        Value *product = sums_product(sums, value);
        sums->at[sums->n++] = (SumsTerm){value, product, is_minus || product != value, is_minus};
        return true;
    }
    bool inner[] = {sums_is_inner(sums, value->in[0]), sums_is_inner(sums, value->in[1])};
    sums->is_spine = sums->is_spine && !(inner[0] && inner[1]);
    int first = inner[1] && !inner[0]; /* the sum that is deeper has been added up before */
    for (int i = 0; i < 2; i++) {
        int k = i ? !first : first;
        if (!sums_collect(sums, value->in[k], is_minus != (k == 1 && value->op == OP_sub), false))
            return false;
    }
    return true;
}

/* Terms whose products one kernel cannot add to those of the first are no products here; how many are left.
 */
static int sums_keep_alike(Sums *sums) {
    const Rewrite *rewrite = sums->rewrite;
    const Value *first = NULL;
    const char *change;
    int n = 0;
    for (int i = 0; i < sums->n; i++) {
        SumsTerm *term = &sums->at[i];
        if (!term->product)
            continue;
        if (first && (product_are_dual(first, term->product) ||
                      product_sum_fault(rewrite->pass->options->limits, first, term->product, &change)))
            term->product = NULL;
        first = first ? first : term->product;
        n += term->product != NULL;
    }
    return n;
}

/* When a term's turn is: a changed product can but be the first. */
static int sums_turn(const SumsTerm *term, bool is_first_changed) {
    return !term->product ? 3 : !term->is_changed ? 1 : is_first_changed ? 0 : 2;
}

/* The terms by their turns, otherwise as they were; whether that is another order. */
static bool sums_sort(Sums *sums) {
    SumsTerm sorted[SUMS_TERMS];
    int changed = 0, n = 0;
    bool is_other = false;
    while (changed < sums->n && !(sums->at[changed].product && sums->at[changed].is_changed))
        changed++;
    for (int turn = 0; turn <= 3; turn++)
        for (int i = 0; i < sums->n; i++)
            if (sums_turn(&sums->at[i], i == changed) == turn)
                sorted[n++] = sums->at[i];
    for (int i = 0; i < n; i++) {
        bool is_swapped = (i < 2 && sorted[i].value == sums->at[1 - i].value); /* a + b is b + a */
        is_other |= sorted[i].value != sums->at[i].value && !is_swapped;
    }
    memcpy(sums->at, sorted, sizeof sorted);
    return is_other || sums->at[0].is_minus;
}

static Value *sums_build(Sums *sums) {
    Rewrite *rewrite = sums->rewrite;
    Value *sum = sums->at[0].value;
    if (sums->at[0].is_minus)
        sum = build_scalar(rewrite, OP_neg, sum, NULL, NULL, sums->whole);
    for (int i = 1; i < sums->n && sum; i++)
        sum = build_scalar(rewrite, sums->at[i].is_minus ? OP_sub : OP_add, sum, sums->at[i].value, NULL,
                           sums->whole);
    return sum;
}

static Value *sums_rule(Rewrite *rewrite, Value *value) {
    Sums sums = {.rewrite = rewrite, .whole = value, .is_spine = true};
    if ((value->op != OP_add && value->op != OP_sub) || value->rank < 2 ||
        !sums_collect(&sums, value, false, true) || sums_keep_alike(&sums) < 2)
        return value;
    bool is_bare = false;
    for (int i = 0; i < sums.n; i++)
        is_bare |= sums.at[i].product && !sums.at[i].is_changed;
    bool is_other = sums_sort(&sums);
    if (!is_bare || (sums.is_spine && !is_other))
        return value;
    Value *fresh = sums_build(&sums);
    return fresh && fresh->dtype == value->dtype && value_same_dims(fresh, value) ? fresh : value;
}

bool pass_sums(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits || !pass->options->limits->adds_products)
        return false;
    return rewrite_graph(pass, graph, sums_rule);
}
