/* Floor division, remainder, minimum and maximum of dims, folded as far as the constraints allow. */
#include <string.h>

#include "ir/dim_table.h"

int64_t dim_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}

int64_t dim_floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

const Dim *dim_pinned(DimTable *table, const Dim *d) {
    if (d && dim_node(d)->lower == dim_node(d)->upper)
        return dim_const(table, dim_node(d)->lower);
    return d;
}

/* Splits a into what k divides, already divided, and the rest, whose coefficients (as multiples of what the
 * term's divisor leaves) are below k in magnitude and whose constant lies in [0, k). a == k * quotient +
 * rest. */
static bool divide_split(DimTable *table, const Dim *a, int64_t k, DimPoly *quotient, DimPoly *rest) {
    DimPoly whole;
    dim_poly_of(table, a, &whole);
    quotient->n = rest->n = 0;
    for (int i = 0; i < whole.n; i++) {
        DimTerm part = whole.terms[i], left = whole.terms[i];
        if (part.n && dim_term_divisor(table, &part) % k == 0) {
            if (__builtin_mul_overflow(part.divisor, k, &part.divisor))
                return false;
            left.coefficient = 0;
        } else {
            part.coefficient = part.n ? left.coefficient / k : dim_floor_div(left.coefficient, k);
            left.coefficient -= part.coefficient * k;
            dim_term_reduce(&left);
        }
        dim_term_reduce(&part);
        if (!dim_poly_add(table, quotient, &part) || !dim_poly_add(table, rest, &left))
            return false;
    }
    return true;
}

/* The constant term is the last one. */
static int64_t *divide_constant(DimPoly *poly) {
    return poly->n && poly->terms[poly->n - 1].n == 0 ? &poly->terms[poly->n - 1].coefficient : NULL;
}

/* Divides all coefficients and k by what they share. */
static int64_t divide_reduce(DimPoly *poly, int64_t k) {
    int64_t shared = k;
    for (int i = 0; i < poly->n; i++)
        shared = dim_gcd(shared, poly->terms[i].coefficient);
    for (int i = 0; i < poly->n; i++)
        poly->terms[i].coefficient /= shared;
    return shared;
}

static const Dim *divide_by_const(DimTable *table, const Dim *a, int64_t k) {
    DimPoly quotient, rest;
    if (!divide_split(table, a, k, &quotient, &rest))
        return NULL;
    const Dim *whole = dim_poly_build(table, &quotient);
    /* Where all the rest but its constant comes in steps of g, so may the constant: (16*q + 15)/32 is
     * (16*q)/32. */
    int64_t step = k, *constant = divide_constant(&rest);
    for (int i = 0; i < rest.n - (constant != NULL); i++)
        step = dim_gcd(step, dim_term_divisor(table, &rest.terms[i]));
    if (constant) {
        *constant -= *constant % step;
        if (*constant == 0)
            rest.n--;
    }
    /* (x/m + y)/k is (x + m*y)/(m*k). */
    if (__builtin_mul_overflow(k, dim_poly_clear(&rest), &k) || k == 0)
        return NULL;
    k /= divide_reduce(&rest, k);
    const Dim *part = dim_poly_build(table, &rest);
    if (!whole || !part)
        return NULL;
    if (k == 1)
        return dim_add(table, whole, part);
    int64_t lower = dim_lower(table, part), upper = dim_upper(table, part);
    if (lower != INT64_MIN && upper != INT64_MAX && dim_floor_div(lower, k) == dim_floor_div(upper, k))
        return dim_add(table, whole, dim_const(table, dim_floor_div(lower, k)));
    /* So it is where m does not divide x, if y is a constant. */
    const Dim *inner = part->kind == DIM_ADD && part->b->kind == DIM_CONST ? part->a : part;
    if (inner->kind == DIM_DIV && inner->b->kind == DIM_CONST) {
        const Dim *m = inner->b, *c = inner == part ? dim_const(table, 0) : part->b;
        const Dim *divisor = dim_mul(table, m, dim_const(table, k));
        const Dim *numerator = dim_add(table, inner->a, dim_mul(table, m, c));
        return dim_add(table, whole, dim_div(table, numerator, divisor));
    }
    const Dim *atom = dim_intern(table, DIM_DIV, 0, 0, part, dim_const(table, k));
    return dim_add(table, whole, dim_pinned(table, atom));
}

/* term / by, where by's factors are among the term's and the quotient is known to be whole. */
static bool divide_term_by(const DimTable *table, DimTerm *term, const DimTerm *by) {
    DimTerm left = {.coefficient = term->coefficient, .divisor = term->divisor};
    DimTerm inverse = {.coefficient = by->divisor, .divisor = by->coefficient};
    if (by->coefficient < 0)
        inverse = (DimTerm){.coefficient = -by->divisor, .divisor = -by->coefficient};
    int j = 0;
    for (int i = 0; i < term->n; i++) {
        if (j < by->n && term->atoms[i] == by->atoms[j])
            j++;
        else
            left.atoms[left.n++] = term->atoms[i];
    }
    if (j < by->n || !dim_term_multiply(table, &left, &inverse) || !dim_term_is_whole(table, &left))
        return false;
    *term = left;
    return true;
}

/* Splits a by a symbolic b of one term: a == b * quotient + rest. */
static void divide_split_symbolic(DimTable *table, const Dim *a, const Dim *b, DimPoly *quotient,
                                  DimPoly *rest) {
    DimPoly whole;
    dim_poly_of(table, a, &whole);
    quotient->n = rest->n = 0;
    DimTerm by = dim_term_of(table, b);
    for (int i = 0; i < whole.n; i++) {
        DimTerm term = whole.terms[i];
        bool divides = b->kind != DIM_ADD && divide_term_by(table, &term, &by);
        dim_poly_add(table, divides ? quotient : rest, &term);
    }
}

/* a / b by long division, where b has several terms and nothing remains; else NULL. */
static const Dim *divide_whole(DimTable *table, const Dim *a, const Dim *b) {
    DimPoly divisor, rest;
    dim_poly_of(table, b, &divisor);
    const Dim *quotient = dim_const(table, 0);
    for (int step = 0; step < DIM_DEGREE_MAX && a && quotient; step++) {
        if (dim_is(a, 0))
            return quotient;
        dim_poly_of(table, a, &rest);
        if (!divide_term_by(table, &rest.terms[0], &divisor.terms[0]))
            return NULL;
        const Dim *part = dim_term_build(table, &rest.terms[0]);
        quotient = dim_add(table, quotient, part);
        a = dim_sub(table, a, dim_mul(table, part, b));
    }
    return NULL;
}

const Dim *dim_div(DimTable *table, const Dim *a, const Dim *b) {
    if (!a || !b || (b->kind == DIM_CONST && b->value <= 0))
        return NULL;
    if (dim_is(b, 1) || dim_is(a, 0))
        return a;
    if (b->kind == DIM_CONST)
        return divide_by_const(table, a, b->value);
    const Dim *multiple = b->kind == DIM_ADD ? divide_whole(table, a, b) : NULL;
    if (multiple)
        return multiple;
    DimPoly quotient, rest;
    divide_split_symbolic(table, a, b, &quotient, &rest);
    const Dim *whole = dim_poly_build(table, &quotient), *part = dim_poly_build(table, &rest);
    if (!whole || !part)
        return NULL;
    if (dim_is(part, 0))
        return whole;
    if (dim_lower(table, part) >= 0 && dim_known_le(table, dim_add(table, part, dim_const(table, 1)), b))
        return whole;
    const Dim *atom = dim_intern(table, DIM_DIV, 0, 0, part, b);
    return dim_add(table, whole, dim_pinned(table, atom));
}

static const Dim *divide_mod_const(DimTable *table, const Dim *a, int64_t k) {
    DimPoly quotient, rest;
    if (!divide_split(table, a, k, &quotient, &rest))
        return NULL;
    /* (x % m) % k is x % k where k divides m. */
    for (int i = 0; i < rest.n; i++) {
        DimTerm term = rest.terms[i];
        if (term.n != 1 || term.divisor != 1 || term.atoms[0]->kind != DIM_MOD ||
            term.atoms[0]->b->kind != DIM_CONST || term.atoms[0]->b->value % k)
            continue;
        memmove(&rest.terms[i], &rest.terms[i + 1], (size_t)(rest.n - i - 1) * sizeof *rest.terms);
        rest.n--;
        const Dim *inner = dim_mul(table, dim_const(table, term.coefficient), term.atoms[0]->a);
        return dim_mod(table, dim_add(table, dim_poly_build(table, &rest), inner), dim_const(table, k));
    }
    int64_t shared = divide_reduce(&rest, k);
    k /= shared;
    const Dim *part = dim_poly_build(table, &rest);
    if (!part)
        return NULL;
    const Dim *factor = dim_const(table, shared);
    if (k == 1 || dim_known_multiple(table, part, dim_const(table, k)))
        return dim_const(table, 0);
    int64_t lower = dim_lower(table, part), upper = dim_upper(table, part);
    if (lower != INT64_MIN && upper != INT64_MAX && dim_floor_div(lower, k) == dim_floor_div(upper, k)) {
        const Dim *below = dim_mul(table, dim_const(table, dim_floor_div(lower, k)), dim_const(table, k));
        return dim_mul(table, factor, dim_sub(table, part, below));
    }
    const Dim *atom = dim_intern(table, DIM_MOD, 0, 0, part, dim_const(table, k));
    return dim_mul(table, factor, dim_pinned(table, atom));
}

const Dim *dim_mod(DimTable *table, const Dim *a, const Dim *b) {
    if (!a || !b || (b->kind == DIM_CONST && b->value <= 0))
        return NULL;
    if (dim_is(b, 1) || a == b)
        return dim_const(table, 0);
    if (a->kind == DIM_CONST && a->value == 0)
        return a;
    if (b->kind == DIM_CONST)
        return divide_mod_const(table, a, b->value);
    DimPoly quotient, rest;
    divide_split_symbolic(table, a, b, &quotient, &rest);
    const Dim *part = dim_poly_build(table, &rest);
    if (!part || dim_is(part, 0))
        return part;
    if (dim_lower(table, part) >= 0 && dim_known_le(table, dim_add(table, part, dim_const(table, 1)), b))
        return part;
    return dim_pinned(table, dim_intern(table, DIM_MOD, 0, 0, part, b));
}

const Dim *dim_ceil_div(DimTable *table, const Dim *a, const Dim *b) {
    return dim_div(table, dim_sub(table, dim_add(table, a, b), dim_const(table, 1)), b);
}

/* ---- minimum and maximum ----------------------------------------------------------------------------- */

enum { DIVIDE_OPERANDS_MAX = 32 };

static bool divide_flatten(DimKind kind, const Dim *d, const Dim **operands, int *n) {
    for (; d->kind == kind; d = d->a) {
        if (*n == DIVIDE_OPERANDS_MAX)
            return false;
        operands[(*n)++] = d->b; /* built below as kind(kind(x, y), z) */
    }
    if (*n == DIVIDE_OPERANDS_MAX)
        return false;
    operands[(*n)++] = d;
    return true;
}

/* min or max of all operands of both, sorted, without those that another one makes needless. */
static const Dim *divide_extremum(DimTable *table, DimKind kind, const Dim *a, const Dim *b) {
    if (!a || !b)
        return NULL;
    const Dim *operands[DIVIDE_OPERANDS_MAX], *kept[DIVIDE_OPERANDS_MAX];
    int n = 0, n_kept = 0;
    if (!divide_flatten(kind, a, operands, &n) || !divide_flatten(kind, b, operands, &n))
        return NULL;
    for (int i = 0; i < n; i++) {
        bool needless = false;
        for (int j = 0; j < n_kept && !needless; j++)
            needless = kind == DIM_MIN ? dim_known_le(table, kept[j], operands[i])
                                       : dim_known_le(table, operands[i], kept[j]);
        if (needless)
            continue;
        int left = 0;
        for (int j = 0; j < n_kept; j++) {
            bool beaten = kind == DIM_MIN ? dim_known_le(table, operands[i], kept[j])
                                          : dim_known_le(table, kept[j], operands[i]);
            if (!beaten)
                kept[left++] = kept[j];
        }
        n_kept = left;
        int at = n_kept++;
        for (; at > 0 && dim_compare(table, kept[at - 1], operands[i]) > 0; at--)
            kept[at] = kept[at - 1];
        kept[at] = operands[i];
    }
    /* Constants sort first; a person reads them better last. */
    if (n_kept > 1 && kept[0]->kind == DIM_CONST) {
        const Dim *constant = kept[0];
        memmove(kept, kept + 1, (size_t)(n_kept - 1) * sizeof *kept);
        kept[n_kept - 1] = constant;
    }
    const Dim *result = kept[0];
    for (int i = 1; i < n_kept && result; i++)
        result = dim_intern(table, kind, 0, 0, result, kept[i]);
    return result;
}

const Dim *dim_min(DimTable *table, const Dim *a, const Dim *b) {
    return divide_extremum(table, DIM_MIN, a, b);
}

const Dim *dim_max(DimTable *table, const Dim *a, const Dim *b) {
    return divide_extremum(table, DIM_MAX, a, b);
}
