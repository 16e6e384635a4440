/* The table of dims: interning, symbols, and sums of products. Division, minimum and maximum stand in
 * dim_divide.c, constraints and what follows from them in dim_facts.c, text and evaluation in dim_print.c. */
#include "ir/dim.h"

#include <string.h>

#include "ir/dim_table.h"

DimTable *dim_table_new(Arena *arena) {
    DimTable *table = ARENA_NEW(arena, DimTable);
    table->arena = arena;
    table->n_buckets = 64;
    table->buckets = ARENA_ARRAY(arena, DimNode *, table->n_buckets);
    return table;
}

/* ---- interning --------------------------------------------------------------------------------------- */

static uint32_t dim_hash(DimKind kind, int64_t value, int symbol, const Dim *a, const Dim *b) {
    uint64_t h = (uint64_t)kind * 0x9e3779b97f4a7c15u;
    uint64_t parts[] = {(uint64_t)value, (uint64_t)symbol, a ? a->id + 1u : 0, b ? b->id + 1u : 0};
    for (int i = 0; i < 4; i++) {
        h = (h ^ parts[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

static DimNode *dim_lookup(const DimTable *table, uint32_t hash, DimKind kind, int64_t value, int symbol,
                           const Dim *a, const Dim *b) {
    for (DimNode *node = table->buckets[hash & (table->n_buckets - 1)]; node; node = node->next) {
        const Dim *d = &node->dim;
        if (node->hash == hash && d->kind == kind && d->value == value && d->symbol == symbol && d->a == a &&
            d->b == b)
            return node;
    }
    return NULL;
}

static void dim_rehash(DimTable *table) {
    uint32_t n_buckets = table->n_buckets * 2;
    DimNode **buckets = ARENA_ARRAY(table->arena, DimNode *, n_buckets);
    for (uint32_t i = 0; i < table->n_buckets; i++)
        for (DimNode *node = table->buckets[i], *next; node; node = next) {
            next = node->next;
            node->next = buckets[node->hash & (n_buckets - 1)];
            buckets[node->hash & (n_buckets - 1)] = node;
        }
    table->buckets = buckets;
    table->n_buckets = n_buckets;
}

const Dim *dim_interned(const DimTable *table, DimKind kind, int64_t value, int symbol, const Dim *a,
                        const Dim *b) {
    DimNode *node = dim_lookup(table, dim_hash(kind, value, symbol, a, b), kind, value, symbol, a, b);
    return node ? &node->dim : NULL;
}

const Dim *dim_intern(DimTable *table, DimKind kind, int64_t value, int symbol, const Dim *a, const Dim *b) {
    uint32_t hash = dim_hash(kind, value, symbol, a, b);
    DimNode *node = dim_lookup(table, hash, kind, value, symbol, a, b);
    if (node)
        return &node->dim;
    uint32_t size = 1 + (a ? dim_node(a)->size : 0) + (b ? dim_node(b)->size : 0);
    if (size > DIM_SIZE_MAX)
        return NULL;
    if (table->n >= table->n_buckets)
        dim_rehash(table);
    node = ARENA_NEW(table->arena, DimNode);
    node->dim = (Dim){.kind = kind, .id = table->n++, .value = value, .symbol = symbol, .a = a, .b = b};
    node->hash = hash;
    node->size = size;
    node->divisor = 1;
    node->lower = kind == DIM_SYMBOL ? 0 : INT64_MIN;
    node->upper = INT64_MAX;
    DimNode **bucket = &table->buckets[hash & (table->n_buckets - 1)];
    node->next = *bucket;
    *bucket = node;
    return &node->dim;
}

const Dim *dim_const(DimTable *table, int64_t value) {
    if (value <= -DIM_CONST_END || value >= DIM_CONST_END)
        return NULL;
    return dim_intern(table, DIM_CONST, value, 0, NULL, NULL);
}

const Dim *dim_find_symbol(DimTable *table, const char *name) {
    for (size_t i = 0; i < table->names.n; i++)
        if (strcmp(table->names.at[i], name) == 0)
            return table->symbols.at[i];
    return NULL;
}

const Dim *dim_symbol(DimTable *table, const char *name) {
    const Dim *known = dim_find_symbol(table, name);
    if (known)
        return known;
    const Dim *fresh = dim_intern(table, DIM_SYMBOL, 0, (int)table->symbols.n, NULL, NULL);
    vec_push(table->arena, &table->names, arena_strdup(table->arena, name));
    vec_push(table->arena, &table->symbols, fresh);
    return fresh;
}

int dim_symbol_count(const DimTable *table) {
    return (int)table->symbols.n;
}

const char *dim_symbol_name(const DimTable *table, int symbol) {
    return table->names.at[symbol];
}

const Dim *dim_symbol_at(const DimTable *table, int symbol) {
    return table->symbols.at[symbol];
}

/* ---- order ------------------------------------------------------------------------------------------- */

/* Interned canonical Dims differ wherever their pointers do, so this walks down one path only. */
int dim_compare(const DimTable *table, const Dim *a, const Dim *b) {
    while (a != b) {
        if (a->kind != b->kind)
            return a->kind < b->kind ? -1 : 1;
        if (a->kind == DIM_CONST)
            return a->value < b->value ? -1 : 1;
        if (a->kind == DIM_SYMBOL)
            return strcmp(table->names.at[a->symbol], table->names.at[b->symbol]);
        if (a->a != b->a) {
            const Dim *left = a->a, *right = b->a;
            a = left, b = right;
        } else {
            const Dim *left = a->b, *right = b->b;
            a = left, b = right;
        }
    }
    return 0;
}

/* Higher degrees first, so that a constant stands last: `M*N + 2*K + 1`. */
static int dim_term_compare(const DimTable *table, const DimTerm *a, const DimTerm *b) {
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++) {
        int order = dim_compare(table, a->atoms[i], b->atoms[i]);
        if (order)
            return order;
    }
    return 0;
}

void dim_term_sort(const DimTable *table, DimTerm *term) {
    for (int i = 1; i < term->n; i++)
        for (int j = i; j > 0 && dim_compare(table, term->atoms[j - 1], term->atoms[j]) > 0; j--) {
            const Dim *swap = term->atoms[j];
            term->atoms[j] = term->atoms[j - 1];
            term->atoms[j - 1] = swap;
        }
}

/* ---- sums of products -------------------------------------------------------------------------------- */

void dim_term_reduce(DimTerm *term) {
    int64_t shared = dim_gcd(term->coefficient, term->divisor);
    if (shared > 1) {
        term->coefficient /= shared;
        term->divisor /= shared;
    }
}

bool dim_term_multiply(const DimTable *table, DimTerm *term, const DimTerm *by) {
    if (term->n + by->n > DIM_DEGREE_MAX)
        return false;
    int64_t across = dim_gcd(term->coefficient, by->divisor), back = dim_gcd(by->coefficient, term->divisor);
    across += across == 0, back += back == 0;
    if (__builtin_mul_overflow(term->coefficient / across, by->coefficient / back, &term->coefficient) ||
        __builtin_mul_overflow(term->divisor / back, by->divisor / across, &term->divisor))
        return false;
    memcpy(&term->atoms[term->n], by->atoms, (size_t)by->n * sizeof *by->atoms);
    term->n += by->n;
    dim_term_sort(table, term);
    return true;
}

/* x/k of a product x that k is known to divide; as a term. */
static bool dim_term_of_quotient(const DimTable *table, const Dim *d, DimTerm *term) {
    if (d->kind != DIM_DIV || d->b->kind != DIM_CONST || d->a->kind == DIM_ADD || d->a->kind == DIM_CONST)
        return false;
    *term = dim_term_of(table, d->a);
    if (dim_term_divisor(table, term) % d->b->value ||
        __builtin_mul_overflow(term->divisor, d->b->value, &term->divisor))
        return false;
    dim_term_reduce(term);
    return true;
}

DimTerm dim_term_of(const DimTable *table, const Dim *d) {
    DimTerm term = {.coefficient = 1, .divisor = 1};
    if (d->kind == DIM_CONST) {
        term.coefficient = d->value;
        return term;
    }
    /* A product is const * ((x * y) * z), either part missing where it is 1. */
    if (d->kind == DIM_MUL && d->a->kind == DIM_CONST) {
        term.coefficient = d->a->value;
        d = d->b;
    }
    int n = 1;
    for (const Dim *walk = d; walk->kind == DIM_MUL; walk = walk->a)
        n++;
    term.n = n;
    for (; n > 1; d = d->a)
        term.atoms[--n] = d->b;
    term.atoms[0] = d;
    for (int i = 0; i < term.n; i++) {
        DimTerm quotient;
        if (!dim_term_of_quotient(table, term.atoms[i], &quotient))
            continue;
        DimTerm whole = term;
        memmove(&whole.atoms[i], &whole.atoms[i + 1], (size_t)(whole.n - i - 1) * sizeof *whole.atoms);
        whole.n--;
        if (!dim_term_multiply(table, &whole, &quotient))
            continue; /* beyond the limits it stays an atom */
        term = whole;
        i = -1; /* the atoms have moved; the quotient's own are none of these any more */
    }
    return term;
}

void dim_poly_of(const DimTable *table, const Dim *d, DimPoly *poly) {
    poly->n = 0;
    for (; d->kind == DIM_ADD; d = d->a) {
        DimTerm term = dim_term_of(table, d->b);
        dim_poly_add(table, poly, &term);
    }
    DimTerm term = dim_term_of(table, d);
    dim_poly_add(table, poly, &term);
}

bool dim_poly_add(const DimTable *table, DimPoly *poly, const DimTerm *term) {
    if (term->coefficient == 0)
        return true;
    int at = 0, order = 1;
    while (at < poly->n && (order = dim_term_compare(table, &poly->terms[at], term)) < 0)
        at++;
    if (at < poly->n && order == 0) {
        DimTerm *known = &poly->terms[at];
        int64_t shared = dim_gcd(known->divisor, term->divisor), a, b, sum, divisor;
        if (__builtin_mul_overflow(known->coefficient, term->divisor / shared, &a) ||
            __builtin_mul_overflow(term->coefficient, known->divisor / shared, &b) ||
            __builtin_mul_overflow(known->divisor, term->divisor / shared, &divisor) ||
            __builtin_add_overflow(a, b, &sum) || sum <= -DIM_CONST_END || sum >= DIM_CONST_END)
            return false;
        known->coefficient = sum;
        known->divisor = divisor;
        dim_term_reduce(known);
        if (sum == 0) {
            memmove(&poly->terms[at], &poly->terms[at + 1], (size_t)(poly->n - at - 1) * sizeof *poly->terms);
            poly->n--;
        }
        return true;
    }
    if (poly->n == DIM_TERMS_MAX)
        return false;
    memmove(&poly->terms[at + 1], &poly->terms[at], (size_t)(poly->n - at) * sizeof *poly->terms);
    poly->terms[at] = *term;
    poly->n++;
    return true;
}

int64_t dim_poly_clear(DimPoly *poly) {
    int64_t all = 1;
    for (int i = 0; i < poly->n; i++)
        if (__builtin_mul_overflow(all, poly->terms[i].divisor / dim_gcd(all, poly->terms[i].divisor), &all))
            return 0;
    for (int i = 0; i < poly->n; i++) {
        DimTerm *term = &poly->terms[i];
        if (__builtin_mul_overflow(term->coefficient, all / term->divisor, &term->coefficient))
            return 0;
        term->divisor = 1;
    }
    return all;
}

/* A factor x/k of the term, where k divides x, that meets what cancels it: a number that shares a divisor
 * with k, or k itself. With a sum for x that would give parts that are no whole numbers, if the term has a
 * divisor. */
static bool dim_term_cancels(const DimTable *table, const DimTerm *term, int *which, int *with) {
    for (int i = 0; i < term->n; i++) {
        const Dim *atom = term->atoms[i];
        if (atom->kind != DIM_DIV || (term->divisor > 1 && atom->a->kind == DIM_ADD) ||
            !dim_known_multiple(table, atom->a, atom->b))
            continue;
        *which = i;
        *with = -1;
        if (atom->b->kind == DIM_CONST && dim_gcd(term->coefficient, atom->b->value) > 1)
            return true;
        for (int j = 0; j < term->n; j++)
            if (term->atoms[j] == atom->b) {
                *with = j;
                return true;
            }
    }
    return false;
}

static void dim_term_drop(DimTerm *term, int i) {
    memmove(&term->atoms[i], &term->atoms[i + 1], (size_t)(term->n - i - 1) * sizeof *term->atoms);
    term->n--;
}

static const Dim *dim_term_build_cancelled(DimTable *table, const DimTerm *term, int which, int with) {
    DimTerm rest = *term;
    const Dim *atom = term->atoms[which], *quotient = atom->a;
    if (with < 0) {
        int64_t shared = dim_gcd(term->coefficient, atom->b->value);
        rest.coefficient /= shared;
        quotient = dim_div(table, atom->a, dim_const(table, atom->b->value / shared));
        dim_term_drop(&rest, which);
    } else {
        dim_term_drop(&rest, which > with ? which : with);
        dim_term_drop(&rest, which > with ? with : which);
    }
    if (!quotient || quotient->kind == DIM_ADD)
        return dim_mul(table, dim_term_build(table, &rest), quotient);
    DimTerm factor = dim_term_of(table, quotient);
    return dim_term_multiply(table, &rest, &factor) ? dim_term_build(table, &rest) : NULL;
}

const Dim *dim_term_build(DimTable *table, const DimTerm *term) {
    if (term->coefficient <= -DIM_CONST_END || term->coefficient >= DIM_CONST_END)
        return NULL;
    int which, with;
    if (dim_term_cancels(table, term, &which, &with))
        return dim_term_build_cancelled(table, term, which, with);
    if (term->n == 0)
        return dim_const(table, term->coefficient);
    const Dim *product = term->atoms[0], *divisor = dim_const(table, term->divisor);
    for (int i = 1; i < term->n && product; i++)
        product = dim_intern(table, DIM_MUL, 0, 0, product, term->atoms[i]);
    if (product && term->divisor > 1) {
        product = divisor ? dim_pinned(table, dim_intern(table, DIM_DIV, 0, 0, product, divisor)) : NULL;
        if (product && product->kind == DIM_CONST)
            return dim_mul(table, product, dim_const(table, term->coefficient));
    }
    if (product && term->coefficient != 1)
        product = dim_intern(table, DIM_MUL, 0, 0, dim_const(table, term->coefficient), product);
    return product;
}

/* Whether the term is built as it stands, and so keeps its place in a sum. */
static bool dim_term_is_plain(const DimTable *table, const DimTerm *term, const Dim *built) {
    int which, with;
    return !dim_term_cancels(table, term, &which, &with) && (term->n == 0 || built->kind != DIM_CONST);
}

const Dim *dim_poly_build(DimTable *table, const DimPoly *poly) {
    const Dim *terms[DIM_TERMS_MAX], *sum = NULL;
    bool plain = true;
    if (poly->n == 0)
        return dim_const(table, 0);
    for (int i = 0; i < poly->n; i++) {
        terms[i] = dim_term_build(table, &poly->terms[i]);
        if (!terms[i])
            return NULL;
        plain &= dim_term_is_plain(table, &poly->terms[i], terms[i]);
    }
    for (int i = 0; i < poly->n; i++) {
        /* A term that cancelled may be a sum, or meet another term, so it is added with all care. */
        sum = !sum    ? terms[i]
              : plain ? dim_intern(table, DIM_ADD, 0, 0, sum, terms[i])
                      : dim_add(table, sum, terms[i]);
        if (!sum)
            return NULL;
    }
    return sum;
}

/* ---- arithmetic -------------------------------------------------------------------------------------- */

static const Dim *dim_add_scaled(DimTable *table, const Dim *a, const Dim *b, int64_t factor) {
    if (!a || !b)
        return NULL;
    if (dim_is(b, 0))
        return a;
    DimPoly sum, other;
    dim_poly_of(table, a, &sum);
    dim_poly_of(table, b, &other);
    for (int i = 0; i < other.n; i++) {
        other.terms[i].coefficient *= factor;
        if (!dim_poly_add(table, &sum, &other.terms[i]))
            return NULL;
    }
    return dim_poly_build(table, &sum);
}

const Dim *dim_add(DimTable *table, const Dim *a, const Dim *b) {
    return dim_add_scaled(table, a, b, 1);
}

const Dim *dim_sub(DimTable *table, const Dim *a, const Dim *b) {
    return dim_add_scaled(table, a, b, -1);
}

const Dim *dim_mul(DimTable *table, const Dim *a, const Dim *b) {
    if (!a || !b)
        return NULL;
    if (dim_is(a, 1))
        return b;
    if (dim_is(b, 1))
        return a;
    DimPoly left, right, product;
    dim_poly_of(table, a, &left);
    dim_poly_of(table, b, &right);
    product.n = 0;
    for (int i = 0; i < left.n; i++)
        for (int j = 0; j < right.n; j++) {
            DimTerm term = left.terms[i];
            if (!dim_term_multiply(table, &term, &right.terms[j]) || !dim_poly_add(table, &product, &term))
                return NULL;
        }
    return dim_poly_build(table, &product);
}
