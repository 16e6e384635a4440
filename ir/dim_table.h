/* The inside of symbolic dims; only the dim*.c files include it.
 *
 * A Dim is interned as a DimNode, which carries, besides the expression, what constraints say of its value.
 * Arithmetic takes sums of products apart into a DimPoly, works on that, and interns the result. The limits
 * bound the work that a hostile expression can cause; an expression beyond them is NULL, like one that
 * overflows. */
#ifndef SINTER_IR_DIM_TABLE_H
#define SINTER_IR_DIM_TABLE_H

#include "ir/dim.h"

enum {
    DIM_TERMS_MAX = 128, /* of a sum */
    DIM_DEGREE_MAX = 16, /* factors of a product */
    DIM_SIZE_MAX = 4096, /* nodes of an expression as a tree */
};
#define DIM_CONST_END ((int64_t)1 << 62) /* constants and coefficients lie below it in magnitude */

typedef struct DimNode {
    Dim dim; /* first, so that a Dim is its node */
    uint32_t hash, size;
    struct DimNode *next; /* in the bucket */
    /* What constraints say of the value: it is a multiple of divisor and lies in [lower, upper]. */
    int64_t divisor, lower, upper;
} DimNode;

struct DimTable {
    Arena *arena;
    DimNode **buckets;
    uint32_t n, n_buckets; /* a power of two */
    VEC(const char *) names;
    VEC(const Dim *) symbols;
    VEC(DimConstraint) constraints;
    VEC(const Dim *) nonpositive; /* each `p <= 0` that constraints give */
};

static inline DimNode *dim_node(const Dim *d) {
    return (DimNode *)d;
}

/* coefficient * atoms[0] * ... / divisor, a whole number wherever the constraints hold. Atoms are sorted by
 * dim_compare(); coefficient and divisor (>= 1) share no factor. No atom is a quotient of a product by a
 * constant that is known to divide it: that constant is in the divisor. (Of a sum it may be one: S/2 + 1/2
 * are no whole numbers where (S + 1)/2 is.) */
typedef struct DimTerm {
    int64_t coefficient, divisor;
    int n;
    const Dim *atoms[DIM_DEGREE_MAX];
} DimTerm;

typedef struct DimPoly {
    int n;
    DimTerm terms[DIM_TERMS_MAX];
} DimPoly;

/* The node of this expression as it stands, made if it is new; NULL where it is too large. */
const Dim *dim_intern(DimTable *table, DimKind kind, int64_t value, int symbol, const Dim *a, const Dim *b);
/* The same, but NULL where it is new. */
const Dim *dim_interned(const DimTable *table, DimKind kind, int64_t value, int symbol, const Dim *a,
                        const Dim *b);
/* A total order by structure and symbol names, so that it does not depend on the order of creation. */
int dim_compare(const DimTable *table, const Dim *a, const Dim *b);

/* Takes d apart; a canonical Dim always fits. */
void dim_poly_of(const DimTable *table, const Dim *d, DimPoly *poly);
DimTerm dim_term_of(const DimTable *table, const Dim *d);
void dim_term_sort(const DimTable *table, DimTerm *term);
/* Divides coefficient and divisor by what they share. */
void dim_term_reduce(DimTerm *term);
/* term *= by. False where limits are passed. */
bool dim_term_multiply(const DimTable *table, DimTerm *term, const DimTerm *by);
/* Multiplies all terms by the least number that leaves none with a divisor; that number, 0 where limits are
 * passed. */
int64_t dim_poly_clear(DimPoly *poly);
/* poly += term. False where limits are passed. */
bool dim_poly_add(const DimTable *table, DimPoly *poly, const DimTerm *term);
/* The canonical Dim; NULL where limits are passed. */
const Dim *dim_poly_build(DimTable *table, const DimPoly *poly);
const Dim *dim_term_build(DimTable *table, const DimTerm *term);
/* The value that d is pinned to by the constraints, else d. */
const Dim *dim_pinned(DimTable *table, const Dim *d);

/* Whether the atoms are known to make up for the divisor: a product of them may be whole for other reasons.
 */
bool dim_term_is_whole(const DimTable *table, const DimTerm *term);
/* Largest number known to divide a term, by what is known of its atoms. */
int64_t dim_term_divisor(const DimTable *table, const DimTerm *term);
int64_t dim_floor_div(int64_t a, int64_t b); /* b > 0 */

#endif
