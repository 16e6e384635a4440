/* What the constraints say: divisors, bounds, and whether one dim is at most another.
 *
 * A constraint `a relation b` is brought to the form c * x <= v (or =), x a Dim without constant term, and
 * x's node keeps the bound; `x % k == 0` gives x's node the divisor k. Every question is answered from the
 * nodes' facts and interval arithmetic; comparison also replaces divisions, remainders, minima and maxima by
 * what bounds them. An answer "not known" is always allowed. */
#include <string.h>

#include "ir/dim_table.h"

/* ---- divisors ---------------------------------------------------------------------------------------- */

static int64_t facts_lcm(int64_t a, int64_t b) {
    int64_t product;
    if (a == 0 || b == 0)
        return 0;
    if (__builtin_mul_overflow(a / dim_gcd(a, b), b, &product) || product >= DIM_CONST_END)
        return a > b ? a : b; /* either is true */
    return product;
}

static int64_t facts_product(int64_t a, int64_t b) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product) || product >= DIM_CONST_END)
        return a > b ? a : b;
    return product;
}

int64_t dim_divisor(const DimTable *table, const Dim *d) {
    if (!d)
        return 1;
    int64_t divisor = 1;
    switch (d->kind) {
    case DIM_CONST: return d->value < 0 ? -d->value : d->value;
    case DIM_SYMBOL: break;
    case DIM_ADD:
    case DIM_MIN:
    case DIM_MAX:
    case DIM_MOD: divisor = dim_gcd(dim_divisor(table, d->a), dim_divisor(table, d->b)); break;
    case DIM_MUL: divisor = facts_product(dim_divisor(table, d->a), dim_divisor(table, d->b)); break;
    case DIM_DIV:
        if (d->b->kind == DIM_CONST) {
            int64_t whole = dim_divisor(table, d->a);
            divisor = whole % d->b->value ? 1 : whole / d->b->value;
        }
        break;
    }
    return facts_lcm(divisor, dim_node(d)->divisor);
}

int64_t dim_term_divisor(const DimTable *table, const DimTerm *term) {
    int64_t divisor = term->coefficient < 0 ? -term->coefficient : term->coefficient;
    for (int i = 0; i < term->n; i++)
        divisor = facts_product(divisor, dim_divisor(table, term->atoms[i]));
    return divisor % term->divisor ? 1 : divisor / term->divisor;
}

bool dim_term_is_whole(const DimTable *table, const DimTerm *term) {
    DimTerm cleared = *term;
    cleared.divisor = 1;
    return dim_term_divisor(table, &cleared) % term->divisor == 0;
}

bool dim_known_multiple(const DimTable *table, const Dim *a, const Dim *b) {
    if (!a || !b)
        return false;
    if (b->kind == DIM_CONST)
        return b->value > 0 && dim_divisor(table, a) % b->value == 0;
    if (a == b || dim_is(a, 0))
        return true;
    const Dim *rest = dim_interned(table, DIM_MOD, 0, 0, a, b);
    return rest && dim_node(rest)->lower == 0 && dim_node(rest)->upper == 0;
}

/* ---- bounds ------------------------------------------------------------------------------------------ */

/* INT64_MIN and INT64_MAX stand for no bound. */
typedef struct Range {
    int64_t lower, upper;
} Range;

static bool facts_unbounded(int64_t v) {
    return v == INT64_MIN || v == INT64_MAX;
}

/* Sums of bounds of one side: no bound wins; an overflow is no bound on that side. */
static int64_t facts_add(int64_t a, int64_t b, int64_t none) {
    int64_t sum;
    if (facts_unbounded(a) || facts_unbounded(b) || __builtin_add_overflow(a, b, &sum))
        return none;
    return sum;
}

/* A corner of a product of ranges; INT64_MIN and INT64_MAX act as infinities, and 0 times them is 0. */
static int64_t facts_mul(int64_t a, int64_t b) {
    int64_t product;
    if (a == 0 || b == 0)
        return 0;
    if (facts_unbounded(a) || facts_unbounded(b) || __builtin_mul_overflow(a, b, &product))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return product;
}

static int64_t facts_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t facts_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static Range facts_range(const Dim *d);

static Range facts_range_mul(Range a, Range b) {
    int64_t corners[] = {facts_mul(a.lower, b.lower), facts_mul(a.lower, b.upper),
                         facts_mul(a.upper, b.lower), facts_mul(a.upper, b.upper)};
    Range r = {corners[0], corners[0]};
    for (int i = 1; i < 4; i++) {
        r.lower = facts_min(r.lower, corners[i]);
        r.upper = facts_max(r.upper, corners[i]);
    }
    return r;
}

static Range facts_range_div(Range a, Range b) {
    Range r = {INT64_MIN, INT64_MAX};
    int64_t least = facts_max(b.lower, 1); /* a divisor is positive */
    if (a.lower != INT64_MIN)
        r.lower = a.lower >= 0 ? 0 : dim_floor_div(a.lower, least);
    if (a.lower > 0 && b.upper != INT64_MAX)
        r.lower = a.lower / facts_max(b.upper, 1);
    if (a.upper != INT64_MAX)
        r.upper = a.upper >= 0 ? a.upper / least : -1;
    if (a.upper < 0 && a.upper != INT64_MIN && b.upper != INT64_MAX)
        r.upper = dim_floor_div(a.upper, facts_max(b.upper, 1));
    return r;
}

static Range facts_range(const Dim *d) {
    Range r = {INT64_MIN, INT64_MAX}, a = r, b = r;
    if (d->kind == DIM_CONST)
        return (Range){d->value, d->value};
    if (d->kind != DIM_SYMBOL) {
        a = facts_range(d->a);
        b = facts_range(d->b);
    }
    switch (d->kind) {
    case DIM_CONST:
    case DIM_SYMBOL: break;
    case DIM_ADD:
        r.lower = facts_add(a.lower, b.lower, INT64_MIN);
        r.upper = facts_add(a.upper, b.upper, INT64_MAX);
        break;
    case DIM_MUL: r = facts_range_mul(a, b); break;
    case DIM_DIV: r = facts_range_div(a, b); break;
    case DIM_MOD:
        r.lower = 0;
        if (b.upper != INT64_MAX)
            r.upper = b.upper - 1;
        if (a.lower >= 0)
            r.upper = facts_min(r.upper, a.upper);
        break;
    case DIM_MIN:
        r.lower = facts_min(a.lower, b.lower);
        r.upper = facts_min(a.upper, b.upper);
        break;
    case DIM_MAX:
        r.lower = facts_max(a.lower, b.lower);
        r.upper = facts_max(a.upper, b.upper);
        break;
    }
    const DimNode *node = dim_node(d);
    return (Range){facts_max(r.lower, node->lower), facts_min(r.upper, node->upper)};
}

int64_t dim_lower(const DimTable *table, const Dim *d) {
    (void)table;
    return d ? facts_range(d).lower : INT64_MIN;
}

int64_t dim_upper(const DimTable *table, const Dim *d) {
    (void)table;
    return d ? facts_range(d).upper : INT64_MAX;
}

/* ---- comparison -------------------------------------------------------------------------------------- */

enum { FACTS_DEPTH = 4, FACTS_CONSTRAINTS = 64 };

static bool facts_nonpositive(DimTable *table, const Dim *d, int depth);

/* d = rest + c * others * atom, with others >= 0: whether d <= 0 when the atom gives way to a number that
 * bounds it from the side that matters (above for c > 0, below for c < 0); `scale` multiplies all of d first.
 */
static bool facts_relaxed(DimTable *table, const Dim *rest, const Dim *factor, const Dim *bound,
                          int64_t scale, int depth) {
    const Dim *scaled = dim_mul(table, rest, dim_const(table, scale));
    return facts_nonpositive(table, dim_add(table, scaled, dim_mul(table, factor, bound)), depth - 1);
}

static bool facts_relax(DimTable *table, const Dim *rest, const Dim *factor, bool positive, const Dim *atom,
                        int depth) {
    const Dim *x = atom->a, *y = atom->b;
    switch (atom->kind) {
    case DIM_DIV: /* x - (k - g) <= k * (x/k) <= x, where g divides both x and k: so does what is left over */
        if (y->kind != DIM_CONST)
            return false;
        if (!positive && !dim_known_multiple(table, x, y)) {
            int64_t left = y->value - dim_gcd(dim_divisor(table, x), y->value);
            x = dim_sub(table, x, dim_const(table, left));
        }
        return facts_relaxed(table, rest, factor, x, y->value, depth);
    case DIM_MOD: /* 0 <= x%y <= x */
        if (positive && dim_lower(table, x) >= 0)
            return facts_relaxed(table, rest, factor, x, 1, depth);
        return !positive && facts_nonpositive(table, rest, depth - 1);
    case DIM_MIN:
    case DIM_MAX:
        if (positive == (atom->kind == DIM_MIN)) /* either operand is a bound */
            return facts_relaxed(table, rest, factor, x, 1, depth) ||
                   facts_relaxed(table, rest, factor, y, 1, depth);
        return facts_relaxed(table, rest, factor, x, 1, depth) &&
               facts_relaxed(table, rest, factor, y, 1, depth);
    case DIM_CONST:
    case DIM_SYMBOL:
    case DIM_ADD:
    case DIM_MUL: break;
    }
    return false;
}

/* d times a positive number that leaves it without divisors: d <= 0 where that is. */
static const Dim *facts_cleared(DimTable *table, const Dim *d) {
    DimPoly poly;
    dim_poly_of(table, d, &poly);
    int64_t factor = dim_poly_clear(&poly);
    return factor == 1 ? d : factor ? dim_poly_build(table, &poly) : NULL;
}

static bool facts_nonpositive(DimTable *table, const Dim *d, int depth) {
    if (!d)
        return false;
    if (facts_range(d).upper <= 0)
        return true;
    d = facts_cleared(table, d);
    if (!d || facts_range(d).upper <= 0)
        return d != NULL;
    if (depth == 0)
        return false;
    /* d = (d - p) + p, and p <= 0 by a constraint. */
    size_t n = table->nonpositive.n < FACTS_CONSTRAINTS ? table->nonpositive.n : FACTS_CONSTRAINTS;
    for (size_t i = 0; i < n; i++) {
        const Dim *less = dim_sub(table, d, table->nonpositive.at[i]);
        if (less && facts_range(less).upper <= 0)
            return true;
    }
    DimPoly poly;
    dim_poly_of(table, d, &poly);
    for (int i = 0; i < poly.n; i++) {
        DimTerm factor = poly.terms[i];
        for (int j = 0; j < factor.n; j++) {
            const Dim *atom = factor.atoms[j];
            if (atom->kind == DIM_SYMBOL)
                continue;
            memmove(&factor.atoms[j], &factor.atoms[j + 1],
                    (size_t)(factor.n - j - 1) * sizeof *factor.atoms);
            factor.n--;
            for (int k = 0; k < factor.n; k++)
                if (facts_range(factor.atoms[k]).lower < 0)
                    return false;
            memmove(&poly.terms[i], &poly.terms[i + 1], (size_t)(poly.n - i - 1) * sizeof *poly.terms);
            poly.n--;
            const Dim *rest = dim_poly_build(table, &poly);
            return facts_relax(table, rest, dim_term_build(table, &factor), factor.coefficient > 0, atom,
                               depth);
        }
    }
    return false;
}

bool dim_known_le(DimTable *table, const Dim *a, const Dim *b) {
    if (!a || !b)
        return false;
    return a == b || facts_nonpositive(table, dim_sub(table, a, b), FACTS_DEPTH);
}

bool dim_known_some(DimTable *table, const Dim *a, const Dim *b) {
    return dim_lower(table, a) >= 1 || dim_known_le(table, b, a);
}

/* ---- constraints ------------------------------------------------------------------------------------- */

static const char *const facts_relation_text[] = {
    [DIM_EQ] = "==", [DIM_NE] = "!=", [DIM_LT] = "<", [DIM_LE] = "<=", [DIM_GT] = ">", [DIM_GE] = ">="};

static bool facts_holds(int64_t a, DimRelation relation, int64_t b) {
    switch (relation) {
    case DIM_EQ: return a == b;
    case DIM_NE: return a != b;
    case DIM_LT: return a < b;
    case DIM_LE: return a <= b;
    case DIM_GT: return a > b;
    case DIM_GE: return a >= b;
    }
    return false;
}

/* Narrows x's range; false where nothing is left. */
static bool facts_narrow(const Dim *x, int64_t lower, int64_t upper) {
    DimNode *node = dim_node(x);
    node->lower = facts_max(node->lower, lower);
    node->upper = facts_min(node->upper, upper);
    Range all = facts_range(x);
    return all.lower <= all.upper;
}

/* Bounds of x from those of c * x / divisor; an overflow is no bound. */
static int64_t facts_upper_of(int64_t upper, int64_t c, int64_t divisor) {
    int64_t product;
    if (upper == INT64_MAX || __builtin_mul_overflow(upper, divisor, &product))
        return INT64_MAX;
    return dim_floor_div(product, c);
}

static int64_t facts_lower_of(int64_t lower, int64_t c, int64_t divisor) {
    int64_t product;
    if (lower == INT64_MIN || __builtin_mul_overflow(lower, -divisor, &product))
        return INT64_MIN;
    return -dim_floor_div(product, c);
}

/* Takes in that p <= 0. */
static void facts_keep(DimTable *table, const Dim *p) {
    p = p ? facts_cleared(table, p) : NULL;
    if (p)
        vec_push(table->arena, &table->nonpositive, p);
}

/* Takes in lower <= p <= upper, p being the difference of a constraint's sides. */
static bool facts_bound(DimTable *table, const Dim *p, int64_t lower, int64_t upper) {
    int64_t constant = p->kind == DIM_ADD && p->b->kind == DIM_CONST ? p->b->value : 0;
    const Dim *x = constant ? p->a : p;
    lower = lower == INT64_MIN ? lower : lower - constant;
    upper = upper == INT64_MAX ? upper : upper - constant;
    if (upper != INT64_MAX)
        facts_keep(table, dim_sub(table, x, dim_const(table, upper)));
    if (lower != INT64_MIN)
        facts_keep(table, dim_sub(table, dim_const(table, lower), x));
    if (x->kind == DIM_ADD) {
        const Dim *negated = dim_sub(table, dim_const(table, 0), x);
        int64_t low = upper == INT64_MAX ? INT64_MIN : -upper, high = lower == INT64_MIN ? INT64_MAX : -lower;
        return facts_narrow(x, lower, upper) && (!negated || facts_narrow(negated, low, high));
    }
    DimTerm term = dim_term_of(table, x);
    int64_t c = term.coefficient;
    if (c < 0) {
        int64_t low = upper == INT64_MAX ? INT64_MIN : -upper, high = lower == INT64_MIN ? INT64_MAX : -lower;
        lower = low, upper = high, c = -c;
    }
    /* The quotient first: once it is pinned to one number nobody would build it. */
    term.coefficient = 1;
    const Dim *quotient = dim_term_build(table, &term);
    int64_t divisor = term.divisor;
    term.divisor = 1;
    const Dim *product = dim_term_build(table, &term);
    lower = facts_lower_of(lower, c, 1);
    upper = facts_upper_of(upper, c, 1);
    return quotient && product &&
           facts_narrow(product, facts_lower_of(lower, 1, divisor), facts_upper_of(upper, 1, divisor)) &&
           facts_narrow(quotient, lower, upper);
}

/* Takes in that k divides x. */
static void facts_divides(DimTable *table, const Dim *x, int64_t k) {
    DimTerm term = dim_term_of(table, x);
    k = facts_product(k / dim_gcd(term.coefficient, k), term.divisor);
    term.coefficient = term.divisor = 1;
    x = dim_term_build(table, &term);
    if (x)
        dim_node(x)->divisor = facts_lcm(dim_node(x)->divisor, k);
}

/* The difference p of the sides stands in `relation` to 0. */
static bool facts_take(DimTable *table, const Dim *p, DimRelation relation) {
    switch (relation) {
    case DIM_EQ:
        /* c * (x % k) == 0 */
        if (p->kind == DIM_MOD || (p->kind == DIM_MUL && p->a->kind == DIM_CONST && p->b->kind == DIM_MOD)) {
            const Dim *mod = p->kind == DIM_MOD ? p : p->b;
            if (mod->b->kind == DIM_CONST)
                facts_divides(table, mod->a, mod->b->value);
        }
        return facts_bound(table, p, 0, 0);
    case DIM_NE: {
        Range r = facts_range(p);
        if (r.lower == 0 && r.upper == 0)
            return false;
        return r.lower == 0 ? facts_bound(table, p, 1, INT64_MAX)
                            : r.upper != 0 || facts_bound(table, p, INT64_MIN, -1);
    }
    case DIM_LT: return facts_bound(table, p, INT64_MIN, -1);
    case DIM_LE: return facts_bound(table, p, INT64_MIN, 0);
    case DIM_GT: return facts_bound(table, p, 1, INT64_MAX);
    case DIM_GE: return facts_bound(table, p, 0, INT64_MAX);
    }
    return true;
}

static const char *facts_text(Arena *arena, const DimTable *table, const DimConstraint *c) {
    Text text = text_new(arena);
    dim_print(&text, table, c->a);
    if (!c->set) {
        text_add(&text, " %s ", facts_relation_text[c->relation]);
        dim_print(&text, table, c->b);
        return text.at;
    }
    text_add(&text, " in {");
    for (int i = 0; i < c->n_set; i++)
        text_add(&text, "%s%lld", i ? ", " : "", (long long)c->set[i]);
    text_add(&text, "}");
    return text.at;
}

bool dim_constrain(DimTable *table, const Dim *a, DimRelation relation, const Dim *b, Span span,
                   Diags *diags) {
    const Dim *p = dim_sub(table, a, b);
    if (!p) {
        diag_error(diags, DIAG_DIM, span, "a side of this constraint overflows 64 bits");
        return false;
    }
    DimConstraint constraint = {.a = a, .relation = relation, .b = b, .span = span};
    bool possible = true;
    if (p->kind == DIM_CONST) {
        possible = facts_holds(p->value, relation, 0);
    } else {
        for (size_t i = 0; i < table->constraints.n; i++) {
            const DimConstraint *known = &table->constraints.at[i];
            if (!known->set && known->a == a && known->relation == relation && known->b == b)
                return true;
        }
        possible = facts_take(table, p, relation);
        vec_push(table->arena, &table->constraints, constraint);
    }
    if (!possible)
        diag_error(diags, DIAG_CONSTRAINT, span, "'%s' can never hold%s",
                   facts_text(table->arena, table, &constraint),
                   p->kind == DIM_CONST ? "" : " together with the constraints before it");
    return possible;
}

bool dim_constrain_set(DimTable *table, const Dim *symbol, const int64_t *values, int n, Span span,
                       Diags *diags) {
    int64_t *copy = ARENA_ARRAY(table->arena, int64_t, (size_t)n + 1);
    if (n)
        memcpy(copy, values, (size_t)n * sizeof *copy);
    DimConstraint constraint = {.a = symbol, .set = copy, .n_set = n, .span = span};
    Range allowed = facts_range(symbol), left = {INT64_MAX, INT64_MIN};
    int64_t divisor = dim_divisor(table, symbol), common = 0;
    for (int i = 0; i < n; i++) {
        bool zero_only = divisor == 0 && copy[i] != 0;
        if (copy[i] < allowed.lower || copy[i] > allowed.upper || zero_only || (divisor && copy[i] % divisor))
            continue;
        left.lower = facts_min(left.lower, copy[i]);
        left.upper = facts_max(left.upper, copy[i]);
        common = dim_gcd(common, copy[i]);
    }
    if (left.lower > left.upper) {
        diag_error(diags, DIAG_CONSTRAINT, span, "'%s' can never hold",
                   facts_text(table->arena, table, &constraint));
        return false;
    }
    if (symbol->kind == DIM_CONST)
        return true;
    vec_push(table->arena, &table->constraints, constraint);
    if (common)
        dim_node(symbol)->divisor = facts_lcm(dim_node(symbol)->divisor, common);
    return facts_bound(table, symbol, left.lower, left.upper);
}

static bool facts_guard(DimTable *table, const Dim *d, const DimGuard *guard, Span span, Diags *diags) {
    const Dim *zero = dim_const(table, 0), *multiple = dim_const(table, guard->multiple);
    return (guard->multiple == 1 ||
            dim_constrain(table, dim_mod(table, d, multiple), DIM_EQ, zero, span, diags)) &&
           (guard->lower == INT64_MIN ||
            dim_constrain(table, d, DIM_GE, dim_const(table, guard->lower), span, diags)) &&
           (guard->upper == INT64_MAX ||
            dim_constrain(table, d, DIM_LE, dim_const(table, guard->upper), span, diags));
}

bool dim_constrain_guards(DimTable *table, const DimGuards *guards, Span span, Diags *diags) {
    for (int i = 0; i < guards->n; i++) {
        const DimGuard *guard = &guards->at[i];
        const Dim *d = dim_copy(table, guards->table, guard->dim, NULL);
        if (!facts_guard(table, d, guard, span, diags))
            return false;
    }
    return true;
}

int dim_constraint_count(const DimTable *table) {
    return (int)table->constraints.n;
}

const DimConstraint *dim_constraint_at(const DimTable *table, int i) {
    return &table->constraints.at[i];
}

/* "M = 17, N = 3": the values of the symbols in d. */
static void facts_print_values(Text *out, const DimTable *table, const Dim *d, const DimBindings *bindings,
                               bool *seen) {
    if (d->kind == DIM_SYMBOL) {
        if (seen[d->symbol])
            return;
        seen[d->symbol] = true;
        const char *name = dim_symbol_name(table, d->symbol);
        if (d->symbol < bindings->n && bindings->known[d->symbol])
            text_add(out, "%s%s = %lld", out->n ? ", " : "", name, (long long)bindings->value[d->symbol]);
        else
            text_add(out, "%s%s is not known", out->n ? ", " : "", name);
    } else if (d->kind != DIM_CONST) {
        facts_print_values(out, table, d->a, bindings, seen);
        facts_print_values(out, table, d->b, bindings, seen);
    }
}

bool dim_constraint_holds(const DimConstraint *constraint, const DimBindings *bindings) {
    int64_t a, b;
    if (!dim_eval(constraint->a, bindings, &a))
        return false;
    for (int i = 0; constraint->set && i < constraint->n_set; i++)
        if (constraint->set[i] == a)
            return true;
    return !constraint->set && dim_eval(constraint->b, bindings, &b) &&
           facts_holds(a, constraint->relation, b);
}

bool dim_check(const DimTable *table, const DimBindings *bindings, Diags *diags) {
    for (size_t i = 0; i < table->constraints.n; i++) {
        const DimConstraint *c = &table->constraints.at[i];
        if (dim_constraint_holds(c, bindings))
            continue;
        Text values = text_new(table->arena);
        bool *seen = ARENA_ARRAY(table->arena, bool, table->symbols.n + 1);
        facts_print_values(&values, table, c->a, bindings, seen);
        if (!c->set)
            facts_print_values(&values, table, c->b, bindings, seen);
        diag_error(diags, DIAG_CONSTRAINT, c->span, "the constraint '%s' does not hold: %s",
                   facts_text(table->arena, table, c), values.at);
        return false;
    }
    return true;
}
