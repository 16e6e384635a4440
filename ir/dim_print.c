/* Dims as text, their values, and copies in another table. */
#include "ir/dim_table.h"

/* ---- text -------------------------------------------------------------------------------------------- */

/* How tightly the place binds in which an expression is printed. */
typedef enum Place { PLACE_SUM, PLACE_FACTOR, PLACE_NUMERATOR, PLACE_DENOMINATOR } Place;

static void print_at(Text *out, const DimTable *table, const Dim *d, Place place);

static void print_call(Text *out, const DimTable *table, const char *name, const Dim *d) {
    text_add(out, "%s(", name);
    print_at(out, table, d->a, PLACE_SUM);
    text_add(out, ", ");
    print_at(out, table, d->b, PLACE_SUM);
    text_add(out, ")");
}

static bool print_is_negative(const Dim *d) {
    return d->kind == DIM_CONST ? d->value < 0
                                : d->kind == DIM_MUL && d->a->kind == DIM_CONST && d->a->value < 0;
}

/* The magnitude of a term, so that a sum can write its sign. */
static void print_magnitude(Text *out, const DimTable *table, const Dim *d) {
    if (d->kind == DIM_CONST) {
        text_add(out, "%lld", (long long)(d->value < 0 ? -d->value : d->value));
    } else if (print_is_negative(d)) {
        if (d->a->value != -1)
            text_add(out, "%lld*", -(long long)d->a->value);
        print_at(out, table, d->b, d->b->kind == DIM_MUL ? PLACE_SUM : PLACE_FACTOR);
    } else {
        print_at(out, table, d, PLACE_SUM);
    }
}

static bool print_needs_parentheses(const Dim *d, Place place) {
    switch (d->kind) {
    case DIM_CONST: return place != PLACE_SUM && d->value < 0;
    case DIM_SYMBOL:
    case DIM_MIN:
    case DIM_MAX: return false;
    case DIM_ADD: return place != PLACE_SUM;
    case DIM_MUL: return place == PLACE_DENOMINATOR || (place != PLACE_SUM && print_is_negative(d));
    case DIM_DIV:
    case DIM_MOD: return place == PLACE_FACTOR || place == PLACE_DENOMINATOR;
    }
    return true;
}

static void print_at(Text *out, const DimTable *table, const Dim *d, Place place) {
    bool parentheses = print_needs_parentheses(d, place);
    text_add(out, parentheses ? "(" : "");
    switch (d->kind) {
    case DIM_CONST: text_add(out, "%lld", (long long)d->value); break;
    case DIM_SYMBOL: text_add(out, "%s", dim_symbol_name(table, d->symbol)); break;
    case DIM_ADD:
        print_at(out, table, d->a, PLACE_SUM);
        text_add(out, print_is_negative(d->b) ? " - " : " + ");
        print_magnitude(out, table, d->b);
        break;
    case DIM_MUL:
        if (print_is_negative(d)) {
            text_add(out, "-");
            print_magnitude(out, table, d);
            break;
        }
        print_at(out, table, d->a, PLACE_FACTOR);
        text_add(out, "*");
        print_at(out, table, d->b, PLACE_FACTOR);
        break;
    case DIM_DIV:
    case DIM_MOD:
        print_at(out, table, d->a, PLACE_NUMERATOR);
        text_add(out, "%s", d->kind == DIM_DIV ? "/" : " % ");
        print_at(out, table, d->b, PLACE_DENOMINATOR);
        break;
    case DIM_MIN: print_call(out, table, "min", d); break;
    case DIM_MAX: print_call(out, table, "max", d); break;
    }
    text_add(out, parentheses ? ")" : "");
}

void dim_print(Text *out, const DimTable *table, const Dim *d) {
    if (d)
        print_at(out, table, d, PLACE_SUM);
    else
        text_add(out, "overflow");
}

/* ---- values ------------------------------------------------------------------------------------------ */

DimBindings dim_bindings_new(Arena *arena, const DimTable *table) {
    int n = dim_symbol_count(table);
    return (DimBindings){.n = n,
                         .value = ARENA_ARRAY(arena, int64_t, (size_t)n + 1),
                         .known = ARENA_ARRAY(arena, bool, (size_t)n + 1)};
}

bool dim_eval(const Dim *d, const DimBindings *bindings, int64_t *out) {
    if (!d)
        return false;
    if (d->kind == DIM_CONST) {
        *out = d->value;
        return true;
    }
    if (d->kind == DIM_SYMBOL) {
        if (d->symbol >= bindings->n || !bindings->known[d->symbol])
            return false;
        *out = bindings->value[d->symbol];
        return true;
    }
    int64_t a, b;
    if (!dim_eval(d->a, bindings, &a) || !dim_eval(d->b, bindings, &b))
        return false;
    switch (d->kind) {
    case DIM_CONST:
    case DIM_SYMBOL: break;
    case DIM_ADD: return !__builtin_add_overflow(a, b, out);
    case DIM_MUL: return !__builtin_mul_overflow(a, b, out);
    case DIM_DIV: *out = b > 0 ? dim_floor_div(a, b) : 0; return b > 0;
    case DIM_MOD: *out = b > 0 ? a - dim_floor_div(a, b) * b : 0; return b > 0;
    case DIM_MIN: *out = a < b ? a : b; return true;
    case DIM_MAX: *out = a > b ? a : b; return true;
    }
    return false;
}

const Dim *dim_copy(DimTable *to, const DimTable *from, const Dim *d, const DimBindings *bindings) {
    if (!d)
        return NULL;
    if (d->kind == DIM_CONST)
        return dim_const(to, d->value);
    if (d->kind == DIM_SYMBOL) {
        if (bindings && d->symbol < bindings->n && bindings->known[d->symbol])
            return dim_const(to, bindings->value[d->symbol]);
        return dim_symbol(to, dim_symbol_name(from, d->symbol));
    }
    const Dim *a = dim_copy(to, from, d->a, bindings), *b = dim_copy(to, from, d->b, bindings);
    switch (d->kind) {
    case DIM_CONST:
    case DIM_SYMBOL: break;
    case DIM_ADD: return dim_add(to, a, b);
    case DIM_MUL: return dim_mul(to, a, b);
    case DIM_DIV: return dim_div(to, a, b);
    case DIM_MOD: return dim_mod(to, a, b);
    case DIM_MIN: return dim_min(to, a, b);
    case DIM_MAX: return dim_max(to, a, b);
    }
    return NULL;
}

static void print_guard(Text *out, const DimTable *table, const DimGuard *guard) {
    bool has_lower = guard->lower != INT64_MIN, has_upper = guard->upper != INT64_MAX;
    bool is_one = has_lower && guard->lower == guard->upper;
    if (has_lower && !is_one)
        text_add(out, "%lld <= ", (long long)guard->lower);
    if (has_lower || has_upper)
        dim_print(out, table, guard->dim);
    if (has_upper)
        text_add(out, " %s %lld", is_one ? "==" : "<=", (long long)guard->upper);
    if (guard->multiple == 1)
        return;
    bool is_symbol = guard->dim->kind == DIM_SYMBOL;
    text_add(out, "%s%s", has_lower || has_upper ? ", " : "", is_symbol ? "" : "(");
    dim_print(out, table, guard->dim);
    text_add(out, "%s %% %lld == 0", is_symbol ? "" : ")", (long long)guard->multiple);
}

void dim_guards_print(Text *out, const DimGuards *guards) {
    for (int i = 0; i < guards->n; i++) {
        text_add(out, "%s", i ? ", " : "");
        print_guard(out, guards->table, &guards->at[i]);
    }
}
