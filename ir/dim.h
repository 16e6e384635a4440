/* Symbolic dims: integer expressions over named symbols, with what the graph's constraints say of them.
 *
 * A Dim is immutable, canonical and interned in its DimTable: two equal expressions are one pointer, so `==`
 * decides equality. Canonical form: a sum of products with constant coefficients (terms sorted), over atoms
 * that are symbols or floor_div, mod, min, max of canonical Dims. Constants fold; (k*x) floor_div k folds to
 * x; x mod k folds where the constraints say that k divides x, and there a product's quotient x/k is not an
 * atom but the coefficient 1/k: D - D/2 is D/2, 2*(D/2) is D, and (M*D)/2 is one Dim whichever factor is
 * even. Such coefficients stand in the tree as c*(x/k). Values are nonnegative in use, but expressions (slice
 * starts, differences) may be negative in between. */
#ifndef SINTER_IR_DIM_H
#define SINTER_IR_DIM_H

#include "ir/base/diag.h"

typedef struct Dim Dim;
typedef struct DimTable DimTable;
typedef enum DimKind { DIM_CONST, DIM_SYMBOL, DIM_ADD, DIM_MUL, DIM_DIV, DIM_MOD, DIM_MIN, DIM_MAX } DimKind;
typedef enum DimRelation { DIM_EQ, DIM_NE, DIM_LT, DIM_LE, DIM_GT, DIM_GE } DimRelation;

/* A Dim as a tree, for printers and for lowering into kernel arithmetic. */
struct Dim {
    DimKind kind;
    uint32_t id;      /* order of creation: stable within a table */
    int64_t value;    /* DIM_CONST */
    int symbol;       /* DIM_SYMBOL: 0-based number in the table */
    const Dim *a, *b; /* operands of the others; DIM_DIV is floor division */
};

DimTable *dim_table_new(Arena *arena);
/* A constant below 2^62 in magnitude; arithmetic that leaves that range yields NULL, which every function
 * below passes on. */
const Dim *dim_const(DimTable *table, int64_t value);
const Dim *dim_symbol(DimTable *table, const char *name);      /* the same symbol for the same name */
const Dim *dim_find_symbol(DimTable *table, const char *name); /* NULL where there is none */
int dim_symbol_count(const DimTable *table);
const char *dim_symbol_name(const DimTable *table, int symbol);
const Dim *dim_symbol_at(const DimTable *table, int symbol);

const Dim *dim_add(DimTable *table, const Dim *a, const Dim *b);
const Dim *dim_sub(DimTable *table, const Dim *a, const Dim *b);
const Dim *dim_mul(DimTable *table, const Dim *a, const Dim *b);
const Dim *dim_div(DimTable *table, const Dim *a, const Dim *b); /* floor; b > 0 */
const Dim *dim_mod(DimTable *table, const Dim *a, const Dim *b); /* in [0, b); b > 0 */
const Dim *dim_ceil_div(DimTable *table, const Dim *a, const Dim *b);
const Dim *dim_min(DimTable *table, const Dim *a, const Dim *b);
const Dim *dim_max(DimTable *table, const Dim *a, const Dim *b);

static inline bool dim_is_const(const Dim *d) {
    return d && d->kind == DIM_CONST;
}
static inline bool dim_is(const Dim *d, int64_t value) {
    return d && d->kind == DIM_CONST && d->value == value;
}

/* Adds `a relation b` as something that the compiler may rely on and the runtime checks at launch. False,
 * with a diagnostic, where it can never hold. `M % 16 == 0`, bounds and equalities sharpen the answers below;
 * others are only checked. */
bool dim_constrain(DimTable *table, const Dim *a, DimRelation relation, const Dim *b, Span span,
                   Diags *diags);
/* Adds `symbol in {values}`. */
bool dim_constrain_set(DimTable *table, const Dim *symbol, const int64_t *values, int n, Span span,
                       Diags *diags);

/* What is to hold of some dims of a table, besides its constraints. */
typedef struct DimGuard {
    const Dim *dim;
    int64_t lower, upper; /* INT64_MIN, INT64_MAX: no bound */
    int64_t multiple;     /* the dim is one of this; 1: any */
} DimGuard;
typedef struct DimGuards {
    const DimTable *table; /* of the dims */
    const DimGuard *at;
    int n;
} DimGuards;
/* Adds the guards, of this table or another, as constraints. */
bool dim_constrain_guards(DimTable *table, const DimGuards *guards, Span span, Diags *diags);
/* In the language's syntax, joined by commas: "17 <= M <= 64, K % 8 == 0". */
void dim_guards_print(Text *out, const DimGuards *guards);

typedef struct DimConstraint {
    const Dim *a;
    DimRelation relation;
    const Dim *b;
    const int64_t *set; /* not NULL: a is one of set[0..n_set) and relation, b do not count */
    int n_set;
    Span span;
} DimConstraint;
int dim_constraint_count(const DimTable *table);
const DimConstraint *dim_constraint_at(const DimTable *table, int i);

/* Largest g known to divide every value that d can take (0 divides only itself: gives 0 for the constant 0).
 */
int64_t dim_divisor(const DimTable *table, const Dim *d);
int64_t dim_gcd(int64_t a, int64_t b); /* the greatest common divisor of magnitudes; gcd(0, x) = x */
/* Known bounds, INT64_MIN and INT64_MAX where there are none. A symbol is at least 0. */
int64_t dim_lower(const DimTable *table, const Dim *d);
int64_t dim_upper(const DimTable *table, const Dim *d);
/* Whether a <= b is known to hold. */
bool dim_known_le(DimTable *table, const Dim *a, const Dim *b);
/* Whether a >= 1 is known to hold wherever b >= 1 does. */
bool dim_known_some(DimTable *table, const Dim *a, const Dim *b);
/* Whether b (> 0) is known to divide a. */
bool dim_known_multiple(const DimTable *table, const Dim *a, const Dim *b);

/* Values of the symbols, by number; known[i] false where symbol i has none yet. */
typedef struct DimBindings {
    int n;
    int64_t *value;
    bool *known;
} DimBindings;
DimBindings dim_bindings_new(Arena *arena, const DimTable *table);
/* False where a symbol is unbound, a division by zero arises, or 64 bits overflow. */
bool dim_eval(const Dim *d, const DimBindings *bindings, int64_t *out);
/* Whether one constraint holds; false also where a dim that it names is not known. */
bool dim_constraint_holds(const DimConstraint *constraint, const DimBindings *bindings);
/* Checks every constraint; a diagnostic names the first that fails. */
bool dim_check(const DimTable *table, const DimBindings *bindings, Diags *diags);
/* A copy of d in another table, symbols by name; where `bindings` (of the old table) knows a symbol, its
 * value. */
const Dim *dim_copy(DimTable *to, const DimTable *from, const Dim *d, const DimBindings *bindings);
/* In the language's syntax, e.g. "M/16", "2*K + 1", "min(M, 8)"; parses back to the same Dim. */
void dim_print(Text *out, const DimTable *table, const Dim *d);

#endif
