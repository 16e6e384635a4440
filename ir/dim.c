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

const Dim *dim_symbol_at(DimTable *table, int symbol) {
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

DimTerm dim_term_of(const Dim *d) {
    DimTerm term = {.coefficient = 1};
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
    return term;
}

void dim_poly_of(const DimTable *table, const Dim *d, DimPoly *poly) {
    poly->n = 0;
    for (; d->kind == DIM_ADD; d = d->a) {
        DimTerm term = dim_term_of(d->b);
        dim_poly_add(table, poly, &term);
    }
    DimTerm term = dim_term_of(d);
    dim_poly_add(table, poly, &term);
}

bool dim_poly_add(const DimTable *table, DimPoly *poly, const DimTerm *term) {
    if (term->coefficient == 0)
        return true;
    int at = 0, order = 1;
    while (at < poly->n && (order = dim_term_compare(table, &poly->terms[at], term)) < 0)
        at++;
    if (at < poly->n && order == 0) {
        int64_t sum;
        if (__builtin_add_overflow(poly->terms[at].coefficient, term->coefficient, &sum) ||
            sum <= -DIM_CONST_END || sum >= DIM_CONST_END)
            return false;
        poly->terms[at].coefficient = sum;
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

/* A factor x/k of the term, where k divides x, that meets what cancels it: a number that shares a divisor
 * with k, or k itself. */
static bool dim_term_cancels(const DimTable *table, const DimTerm *term, int *which, int *with) {
    for (int i = 0; i < term->n; i++) {
        const Dim *atom = term->atoms[i];
        if (atom->kind != DIM_DIV || !dim_known_multiple(table, atom->a, atom->b))
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

const Dim *dim_term_build(DimTable *table, const DimTerm *term) {
    if (term->coefficient <= -DIM_CONST_END || term->coefficient >= DIM_CONST_END)
        return NULL;
    int which, with;
    if (dim_term_cancels(table, term, &which, &with)) {
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
        return dim_mul(table, dim_term_build(table, &rest), quotient);
    }
    if (term->n == 0)
        return dim_const(table, term->coefficient);
    const Dim *product = term->atoms[0];
    for (int i = 1; i < term->n && product; i++)
        product = dim_intern(table, DIM_MUL, 0, 0, product, term->atoms[i]);
    if (product && term->coefficient != 1)
        product = dim_intern(table, DIM_MUL, 0, 0, dim_const(table, term->coefficient), product);
    return product;
}

const Dim *dim_poly_build(DimTable *table, const DimPoly *poly) {
    const Dim *sum = NULL;
    bool cancelled = false;
    int which, with;
    for (int i = 0; i < poly->n && !cancelled; i++)
        cancelled = dim_term_cancels(table, &poly->terms[i], &which, &with);
    if (poly->n == 0)
        return dim_const(table, 0);
    for (int i = 0; i < poly->n; i++) {
        const Dim *term = dim_term_build(table, &poly->terms[i]);
        if (!term)
            return NULL;
        /* A term that cancelled may be a sum, or meet another term, so it is added with all care. */
        sum = !sum        ? term
              : cancelled ? dim_add(table, sum, term)
                          : dim_intern(table, DIM_ADD, 0, 0, sum, term);
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
            const DimTerm *by = &right.terms[j];
            if (term.n + by->n > DIM_DEGREE_MAX ||
                __builtin_mul_overflow(term.coefficient, by->coefficient, &term.coefficient))
                return NULL;
            memcpy(&term.atoms[term.n], by->atoms, (size_t)by->n * sizeof *by->atoms);
            term.n += by->n;
            dim_term_sort(table, &term);
            if (!dim_poly_add(table, &product, &term))
                return NULL;
        }
    return dim_poly_build(table, &product);
}
