/* Symbolic dims: identities that must be pointer equality, text, and random expressions evaluated beside a
 * naive tree. */
#include "support.h"

#define SYMBOL(name) dim_symbol(bench->dims, name)
#define CONST(value) dim_const(bench->dims, value)
#define ADD(a, b) dim_add(bench->dims, a, b)
#define SUB(a, b) dim_sub(bench->dims, a, b)
#define MUL(a, b) dim_mul(bench->dims, a, b)
#define DIV(a, b) dim_div(bench->dims, a, b)
#define MOD(a, b) dim_mod(bench->dims, a, b)
#define WHERE(a, relation, b)                                                                                \
    assert_true(dim_constrain(bench->dims, a, relation, b, (Span){0}, &bench->diags))

BENCH_TEST(test_equal_expressions_are_one) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *k = SYMBOL("K");
    assert_ptr_equal(SYMBOL("M"), m);
    assert_ptr_equal(ADD(m, n), ADD(n, m));
    assert_ptr_equal(MUL(MUL(m, n), k), MUL(k, MUL(n, m)));
    assert_ptr_equal(MUL(ADD(m, n), ADD(m, n)), ADD(ADD(MUL(m, m), MUL(CONST(2), MUL(m, n))), MUL(n, n)));
    assert_ptr_equal(SUB(ADD(m, n), n), m);
    assert_ptr_equal(SUB(m, m), CONST(0));
    assert_ptr_equal(MUL(m, CONST(0)), CONST(0));
    assert_ptr_equal(DIV(MUL(m, n), n), m);
    assert_ptr_equal(DIV(MUL(CONST(6), m), CONST(3)), MUL(CONST(2), m));
    assert_ptr_equal(DIV(ADD(m, CONST(32)), CONST(16)), ADD(DIV(m, CONST(16)), CONST(2)));
    assert_ptr_equal(DIV(DIV(m, CONST(4)), CONST(8)), DIV(m, CONST(32)));
    assert_ptr_equal(DIV(MUL(ADD(m, CONST(1)), ADD(n, CONST(3))), ADD(m, CONST(1))), ADD(n, CONST(3)));
    assert_ptr_equal(MOD(MUL(CONST(16), m), CONST(8)), CONST(0));
    assert_ptr_equal(MOD(MOD(m, CONST(32)), CONST(8)), MOD(m, CONST(8)));
    assert_ptr_equal(DIV(CONST(-7), CONST(2)), CONST(-4));
    assert_ptr_equal(MOD(CONST(-7), CONST(2)), CONST(1));
    assert_ptr_equal(dim_min(bench->dims, m, dim_min(bench->dims, n, m)), dim_min(bench->dims, n, m));
    assert_ptr_equal(dim_max(bench->dims, m, ADD(m, CONST(1))), ADD(m, CONST(1)));
    assert_ptr_equal(dim_max(bench->dims, m, CONST(0)), m);
    assert_ptr_equal(dim_ceil_div(bench->dims, MUL(CONST(8), m), CONST(8)), m);
    assert_null(dim_find_symbol(bench->dims, "Q"));
    assert_int_equal(dim_symbol_count(bench->dims), 3);
    assert_string_equal(dim_symbol_name(bench->dims, 2), "K");
    assert_ptr_equal(dim_symbol_at(bench->dims, 2), k);
}

BENCH_TEST(test_divisors_fold) {
    const Dim *m = SYMBOL("M"), *h = SYMBOL("H"), *j = SYMBOL("J"), *s = SYMBOL("S");
    assert_ptr_not_equal(MUL(CONST(16), DIV(m, CONST(16))), m);
    WHERE(MOD(m, CONST(16)), DIM_EQ, CONST(0));
    WHERE(MOD(h, j), DIM_EQ, CONST(0));
    assert_ptr_equal(MUL(CONST(16), DIV(m, CONST(16))), m);
    assert_ptr_equal(MUL(CONST(32), DIV(m, CONST(16))), MUL(CONST(2), m));
    assert_ptr_equal(MUL(CONST(4), DIV(m, CONST(16))), DIV(m, CONST(4)));
    assert_ptr_equal(ADD(MUL(CONST(8), DIV(m, CONST(16))), MUL(CONST(8), DIV(m, CONST(16)))), m);
    assert_ptr_equal(dim_ceil_div(bench->dims, m, CONST(8)), DIV(m, CONST(8)));
    assert_ptr_equal(MOD(ADD(m, CONST(5)), CONST(8)), CONST(5));
    assert_ptr_equal(MUL(MUL(DIV(h, j), s), j), MUL(h, s));
    assert_ptr_equal(MOD(h, j), CONST(0));
    assert_true(dim_known_multiple(bench->dims, h, j) && !dim_known_multiple(bench->dims, j, h));
    assert_int_equal(dim_divisor(bench->dims, m), 16);
    assert_int_equal(dim_divisor(bench->dims, ADD(MUL(m, s), CONST(24))), 8);
    assert_int_equal(dim_divisor(bench->dims, DIV(m, CONST(4))), 4);
    assert_int_equal(dim_divisor(bench->dims, DIV(m, CONST(32))), 1);
    /* Rounded up to 32, a multiple of 16 is not less than it was; but not by 32. */
    const Dim *whole = MUL(CONST(32), dim_ceil_div(bench->dims, m, CONST(32)));
    assert_true(dim_known_le(bench->dims, m, whole));
    assert_true(dim_known_le(bench->dims, whole, ADD(m, CONST(16))));
    assert_false(dim_known_le(bench->dims, ADD(m, CONST(16)), whole));
    assert_int_equal(dim_divisor(bench->dims, CONST(0)), 0);
    assert_int_equal(dim_divisor(bench->dims, CONST(-12)), 12);
    WHERE(MOD(m, CONST(6)), DIM_EQ, CONST(0));
    assert_int_equal(dim_divisor(bench->dims, m), 48);
    WHERE(MOD(ADD(s, CONST(1)), CONST(2)), DIM_EQ, CONST(0));
    assert_ptr_equal(MUL(CONST(2), DIV(ADD(s, CONST(1)), CONST(2))), ADD(s, CONST(1)));
}

BENCH_TEST(test_exact_quotients_are_coefficients) {
    const Dim *d = SYMBOL("D"), *m = SYMBOL("M"), *n = SYMBOL("N"), *s = SYMBOL("S"), *e = SYMBOL("E");
    const Dim *p = SYMBOL("P"), *early = DIV(MUL(p, n), CONST(2)), *odd = ADD(s, CONST(1));
    assert_ptr_not_equal(ADD(early, early), MUL(p, n));
    WHERE(MOD(d, CONST(4)), DIM_EQ, CONST(0));
    WHERE(MOD(m, CONST(2)), DIM_EQ, CONST(0));
    WHERE(MOD(p, CONST(2)), DIM_EQ, CONST(0));
    WHERE(MOD(odd, CONST(2)), DIM_EQ, CONST(0));
    const Dim *half = DIV(d, CONST(2));
    assert_ptr_equal(SUB(d, half), half);
    assert_ptr_equal(ADD(half, half), d);
    assert_ptr_equal(SUB(half, DIV(d, CONST(4))), DIV(d, CONST(4)));
    assert_ptr_equal(SUB(d, DIV(d, CONST(4))), MUL(CONST(3), DIV(d, CONST(4))));
    assert_string_equal(dim_text(bench, SUB(d, DIV(d, CONST(4)))), "3*(D/4)");
    assert_ptr_equal(DIV(half, CONST(2)), DIV(d, CONST(4)));
    assert_ptr_equal(DIV(d, half), CONST(2));
    assert_ptr_equal(MOD(MUL(CONST(3), half), half), CONST(0));
    /* Whichever factor is divided, it is the product that is. */
    const Dim *area = DIV(MUL(m, d), CONST(2));
    assert_ptr_equal(area, MUL(m, half));
    assert_ptr_equal(area, MUL(DIV(m, CONST(2)), d));
    assert_ptr_equal(MUL(area, CONST(2)), MUL(d, m));
    assert_ptr_equal(MUL(half, DIV(m, CONST(2))), DIV(MUL(m, d), CONST(4)));
    assert_ptr_equal(DIV(area, m), half);
    assert_ptr_equal(SUB(MUL(n, d), MUL(n, half)), MUL(half, n));
    assert_string_equal(dim_text(bench, area), "D*M/2");
    /* N/2 rounds down, so that N*D/2 holds no N/2. */
    assert_ptr_not_equal(SUB(n, DIV(n, CONST(2))), DIV(n, CONST(2)));
    assert_ptr_not_equal(MUL(DIV(n, CONST(2)), d), DIV(MUL(n, d), CONST(2)));
    assert_ptr_equal(DIV(ADD(half, n), CONST(2)), DIV(ADD(d, MUL(CONST(2), n)), CONST(4)));
    assert_ptr_equal(DIV(ADD(half, CONST(1)), CONST(4)), DIV(ADD(d, CONST(2)), CONST(8)));
    /* What was built before the constraint is not stale. */
    assert_ptr_equal(DIV(MUL(p, n), CONST(2)), early);
    assert_ptr_equal(ADD(early, early), MUL(p, n));
    /* S/2 and 1/2 are no whole numbers. */
    assert_ptr_equal(MUL(CONST(2), DIV(odd, CONST(2))), odd);
    assert_ptr_equal(MUL(CONST(4), MUL(DIV(odd, CONST(2)), half)), MUL(d, odd));
    assert_non_null(MUL(DIV(odd, CONST(2)), DIV(d, CONST(4))));
    /* Comparison and facts see through them. */
    assert_true(dim_known_le(bench->dims, half, d));
    assert_true(dim_known_le(bench->dims, ADD(half, DIV(d, CONST(4))), d));
    assert_false(dim_known_le(bench->dims, d, ADD(half, DIV(d, CONST(4)))));
    assert_int_equal(dim_divisor(bench->dims, half), 2);
    WHERE(MOD(e, CONST(2)), DIM_EQ, CONST(0));
    WHERE(DIV(e, CONST(2)), DIM_LE, CONST(64));
    WHERE(MUL(CONST(3), DIV(e, CONST(2))), DIM_GE, CONST(13));
    WHERE(MOD(DIV(e, CONST(2)), CONST(8)), DIM_EQ, CONST(0));
    assert_int_equal(dim_upper(bench->dims, e), 128);
    assert_int_equal(dim_lower(bench->dims, e), 10);
    assert_int_equal(dim_divisor(bench->dims, e), 16);
    WHERE(DIV(m, CONST(2)), DIM_EQ, CONST(5));
    assert_ptr_equal(DIV(m, CONST(2)), CONST(5));
    assert_ptr_equal(ADD(DIV(m, CONST(2)), d), ADD(d, CONST(5)));
}

/* Sums of products of exact quotients, put together in two orders: one Dim, with the value of the sum. */
BENCH_TEST(test_exact_quotients_in_any_order) {
    enum { N_SUMS = 2000, N_TERMS = 4 };
    static const int64_t divisors[] = {1, 2, 3, 4, 6, 8, 12, 24};
    const Dim *a = SYMBOL("A"), *b = SYMBOL("B");
    WHERE(MOD(a, CONST(24)), DIM_EQ, CONST(0));
    WHERE(MOD(b, CONST(24)), DIM_EQ, CONST(0));
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    bindings.known[0] = bindings.known[1] = true;
    bindings.value[0] = 24 * 7;
    bindings.value[1] = 24 * 11;
    uint64_t seed = 5;
    for (int i = 0; i < N_SUMS; i++) {
        const Dim *forward = CONST(0), *backward = CONST(0), *terms[N_TERMS];
        int64_t want = 0, got = 0;
        for (int t = 0; t < N_TERMS; t++) {
            int64_t k = divisors[draw_below(&seed, 8)], l = divisors[draw_below(&seed, 8)];
            const Dim *c = CONST(draw_below(&seed, 19) - 9);
            bool both = draw_below(&seed, 3);
            forward = ADD(forward, MUL(MUL(DIV(a, CONST(k)), c), both ? DIV(b, CONST(l)) : CONST(1)));
            terms[t] = MUL(c, both ? DIV(MUL(b, a), CONST(k * l)) : DIV(a, CONST(k)));
            want += c->value * (bindings.value[0] / k) * (both ? bindings.value[1] / l : 1);
        }
        for (int t = N_TERMS; t-- > 0;)
            backward = ADD(backward, terms[t]);
        assert_ptr_equal(forward, backward);
        assert_true(dim_eval(forward, &bindings, &got) && got == want);
        assert_ptr_equal(SUB(forward, backward), CONST(0));
        /* Half of what is even, twice, is the whole. */
        const Dim *twice = MUL(CONST(2), forward);
        assert_ptr_equal(SUB(twice, DIV(twice, CONST(2))), forward);
    }
}

BENCH_TEST(test_bounds_and_comparison) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *s = SYMBOL("S"), *t = SYMBOL("T"), *d = SYMBOL("D");
    assert_int_equal(dim_lower(bench->dims, m), 0);
    assert_int_equal(dim_upper(bench->dims, m), INT64_MAX);
    assert_int_equal(dim_upper(bench->dims, SUB(CONST(3), m)), 3);
    WHERE(CONST(1), DIM_LE, m);
    WHERE(m, DIM_LT, CONST(65537));
    WHERE(MUL(CONST(2), n), DIM_GE, CONST(7));
    WHERE(s, DIM_LE, t);
    int64_t sizes[] = {128, 64};
    assert_true(dim_constrain_set(bench->dims, d, sizes, 2, (Span){0}, &bench->diags));
    assert_int_equal(dim_lower(bench->dims, m), 1);
    assert_int_equal(dim_upper(bench->dims, m), 65536);
    assert_int_equal(dim_lower(bench->dims, n), 4);
    assert_int_equal(dim_upper(bench->dims, MUL(m, d)), 65536 * 128);
    assert_int_equal(dim_divisor(bench->dims, d), 64);
    assert_int_equal(dim_upper(bench->dims, MOD(t, CONST(8))), 7);
    assert_int_equal(dim_upper(bench->dims, DIV(m, CONST(16))), 4096);
    assert_true(dim_known_le(bench->dims, s, t));
    assert_true(dim_known_le(bench->dims, ADD(s, CONST(3)), ADD(t, CONST(3))));
    assert_true(dim_known_le(bench->dims, s, ADD(t, m)));
    assert_false(dim_known_le(bench->dims, t, s));
    assert_true(dim_known_some(bench->dims, m, s)); /* at least 1 */
    assert_true(dim_known_some(bench->dims, t, s));
    assert_true(dim_known_some(bench->dims, s, s));
    assert_false(dim_known_some(bench->dims, s, t));
    assert_true(dim_known_le(bench->dims, DIV(t, CONST(2)), t));
    assert_true(dim_known_le(bench->dims, MUL(CONST(2), DIV(t, CONST(2))), t));
    assert_true(dim_known_le(bench->dims, t, ADD(MUL(CONST(2), DIV(t, CONST(2))), CONST(1))));
    assert_false(dim_known_le(bench->dims, t, MUL(CONST(2), DIV(t, CONST(2)))));
    assert_true(dim_known_le(bench->dims, MOD(t, CONST(5)), t));
    assert_true(dim_known_le(bench->dims, dim_min(bench->dims, s, m), m));
    assert_true(dim_known_le(bench->dims, s, dim_max(bench->dims, t, m)));
    assert_ptr_equal(dim_max(bench->dims, SUB(m, CONST(1)), CONST(0)), SUB(m, CONST(1)));
    assert_ptr_equal(dim_min(bench->dims, s, t), s);
    assert_ptr_equal(DIV(MOD(t, CONST(8)), CONST(8)), CONST(0));
    WHERE(n, DIM_NE, CONST(4));
    WHERE(SYMBOL("X"), DIM_NE, CONST(0));
    assert_int_equal(dim_lower(bench->dims, SYMBOL("X")), 1);
}

BENCH_TEST(test_impossible_constraints) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N");
    int64_t negative[] = {-4, -8}, sizes[] = {3, 5};
    WHERE(m, DIM_LE, CONST(5));
    WHERE(MOD(n, CONST(4)), DIM_EQ, CONST(0));
    assert_int_equal(bench->diags.errors, 0);
    assert_false(dim_constrain(bench->dims, m, DIM_GE, CONST(7), (Span){0}, &bench->diags));
    assert_false(dim_constrain(bench->dims, m, DIM_LT, m, (Span){0}, &bench->diags));
    assert_false(dim_constrain(bench->dims, SYMBOL("P"), DIM_LT, CONST(0), (Span){0}, &bench->diags));
    assert_false(dim_constrain(bench->dims, NULL, DIM_LT, CONST(0), (Span){0}, &bench->diags));
    assert_false(dim_constrain_set(bench->dims, SYMBOL("Q"), negative, 2, (Span){0}, &bench->diags));
    assert_false(dim_constrain_set(bench->dims, n, sizes, 2, (Span){0}, &bench->diags));
    assert_false(dim_constrain_set(bench->dims, SYMBOL("R"), NULL, 0, (Span){0}, &bench->diags));
    assert_int_equal(bench->diags.errors, 7);
    assert_string_equal(bench->diags.list.at[0].message,
                        "'M >= 7' can never hold together with the constraints before it");
    assert_int_equal(bench->diags.list.at[3].id, DIAG_DIM);
    assert_string_equal(bench->diags.list.at[5].message, "'N in {3, 5}' can never hold");
}

BENCH_TEST(test_check_at_launch) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *d = SYMBOL("D");
    int64_t sizes[] = {64, 128};
    WHERE(MOD(m, CONST(16)), DIM_EQ, CONST(0));
    WHERE(m, DIM_EQ, MUL(CONST(2), n));
    WHERE(d, DIM_NE, CONST(100));
    assert_true(dim_constrain_set(bench->dims, d, sizes, 2, (Span){0}, &bench->diags));
    assert_int_equal(dim_constraint_count(bench->dims), 4);
    WHERE(d, DIM_NE, CONST(100));              /* said twice, kept once */
    WHERE(MOD(m, CONST(8)), DIM_EQ, CONST(0)); /* follows */
    assert_int_equal(dim_constraint_count(bench->dims), 4);
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    int64_t good[] = {32, 16, 64};
    for (int i = 0; i < 3; i++) {
        bindings.value[i] = good[i];
        bindings.known[i] = true;
    }
    assert_true(dim_check(bench->dims, &bindings, &bench->diags));
    bindings.value[0] = 33;
    assert_false(dim_check(bench->dims, &bindings, &bench->diags));
    assert_string_equal(bench->diags.list.at[0].message,
                        "the constraint 'M % 16 == 0' does not hold: M = 33");
    bindings.value[0] = 48;
    assert_false(dim_check(bench->dims, &bindings, &bench->diags));
    assert_string_equal(bench->diags.list.at[1].message,
                        "the constraint 'M == 2*N' does not hold: M = 48, N = 16");
    bindings.value[0] = 32;
    bindings.value[2] = 65;
    assert_false(dim_check(bench->dims, &bindings, &bench->diags));
    assert_string_equal(bench->diags.list.at[2].message,
                        "the constraint 'D in {64, 128}' does not hold: D = 65");
    bindings.known[0] = false;
    assert_false(dim_check(bench->dims, &bindings, &bench->diags));
    assert_string_equal(bench->diags.list.at[3].message,
                        "the constraint 'M % 16 == 0' does not hold: M is not known");
}

BENCH_TEST(test_overflow_is_null_and_stays) {
    const Dim *m = SYMBOL("M"), *big = CONST(((int64_t)1 << 62) - 1);
    assert_non_null(big);
    assert_null(CONST((int64_t)1 << 62));
    assert_null(CONST(INT64_MIN));
    assert_null(ADD(big, CONST(1)));
    assert_null(MUL(big, CONST(2)));
    assert_null(MUL(MUL(big, m), CONST(3)));
    assert_null(ADD(MUL(big, m), MUL(big, m)));
    assert_null(ADD(NULL, m));
    assert_null(SUB(m, NULL));
    assert_null(MUL(NULL, NULL));
    assert_null(DIV(m, NULL));
    assert_null(MOD(NULL, m));
    assert_null(dim_min(bench->dims, NULL, m));
    assert_null(dim_max(bench->dims, m, NULL));
    assert_null(dim_ceil_div(bench->dims, m, NULL));
    assert_null(dim_copy(bench->dims, bench->dims, NULL, NULL));
    assert_null(DIV(m, CONST(0)));
    assert_null(DIV(m, CONST(-1)));
    assert_null(MOD(m, CONST(0)));
    assert_false(dim_known_le(bench->dims, NULL, m));
    assert_int_equal(dim_lower(bench->dims, NULL), INT64_MIN);
    assert_int_equal(dim_upper(bench->dims, NULL), INT64_MAX);
    assert_int_equal(dim_divisor(bench->dims, NULL), 1);
    assert_string_equal(dim_text(bench, NULL), "overflow");
}

/* Expressions that grow without end must be refused, and soon. */
BENCH_TEST(test_hostile_growth) {
    const Dim *power = ADD(SYMBOL("A"), SYMBOL("B")), *nest = SYMBOL("A"), *sum = CONST(0),
              *deep = SYMBOL("B");
    for (int i = 0; i < 40; i++)
        power = MUL(power, power);
    assert_null(power);
    for (int i = 0; i < 3000 && nest; i++)
        nest = dim_max(bench->dims, DIV(ADD(MUL(nest, nest), SYMBOL("B")), CONST(7)), MOD(nest, CONST(1000)));
    assert_null(nest);
    for (int i = 0; i < 1000 && sum; i++)
        sum = ADD(sum, SYMBOL(text_format(bench->arena, "S%d", i)));
    assert_null(sum);
    for (int i = 0; i < 100000 && deep; i++)
        deep = MOD(ADD(deep, SYMBOL("C")), ADD(deep, SYMBOL("D")));
    assert_null(deep);
}

BENCH_TEST(test_text) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *k = SYMBOL("K");
    assert_string_equal(dim_text(bench, DIV(m, CONST(16))), "M/16");
    assert_string_equal(dim_text(bench, ADD(MUL(CONST(2), k), CONST(1))), "2*K + 1");
    assert_string_equal(dim_text(bench, dim_min(bench->dims, m, CONST(8))), "min(M, 8)");
    assert_string_equal(dim_text(bench, MOD(m, CONST(16))), "M % 16");
    assert_string_equal(dim_text(bench, SUB(m, CONST(1))), "M - 1");
    assert_string_equal(dim_text(bench, SUB(CONST(1), m)), "-M + 1");
    assert_string_equal(dim_text(bench, SUB(CONST(0), MUL(CONST(3), MUL(m, n)))), "-3*M*N");
    assert_string_equal(dim_text(bench, DIV(ADD(m, CONST(15)), CONST(16))), "(M + 15)/16");
    assert_string_equal(dim_text(bench, MUL(CONST(4), DIV(m, CONST(16)))), "4*(M/16)");
    assert_string_equal(dim_text(bench, DIV(m, MUL(n, k))), "M/(K*N)");
    assert_string_equal(dim_text(bench, DIV(MUL(m, n), CONST(16))), "M*N/16");
    assert_string_equal(dim_text(bench, DIV(SUB(CONST(0), m), CONST(16))), "(-M)/16");
    assert_string_equal(dim_text(bench, MOD(DIV(m, CONST(3)), ADD(n, CONST(2)))), "M/3 % (N + 2)");
    assert_string_equal(dim_text(bench, ADD(MUL(m, n), SUB(DIV(k, CONST(3)), DIV(n, CONST(5))))),
                        "M*N + K/3 - (N/5)");
    /* Order follows names, not creation. */
    DimTable *other = dim_table_new(bench->arena);
    dim_symbol(other, "N");
    dim_symbol(other, "M");
    Text text = text_new(bench->arena);
    dim_print(&text, other, dim_copy(other, bench->dims, ADD(MUL(CONST(2), n), m), NULL));
    assert_string_equal(text.at, dim_text(bench, ADD(MUL(CONST(2), n), m)));
}

/* ---- random expressions ------------------------------------------------------------------------------ */

enum { N_SYMBOLS = 4, N_CASES = 4000, N_POINTS = 12 };

/* An expression as it was asked for, evaluated in 128 bits beside the canonical Dim. */
typedef struct Tree {
    DimKind kind;
    int64_t value;
    int symbol;
    struct Tree *a, *b;
    const Dim *dim;
} Tree;

static Tree *tree_random(Bench *bench, uint64_t *seed, int depth) {
    Tree *tree = ARENA_NEW(bench->arena, Tree);
    int pick = (int)draw_below(seed, depth > 0 ? 12 : 3);
    if (pick == 0) {
        tree->kind = DIM_CONST;
        tree->value = draw_below(seed, 40) - 8;
        tree->dim = CONST(tree->value);
        return tree;
    }
    if (pick <= 2) {
        tree->kind = DIM_SYMBOL;
        tree->symbol = (int)draw_below(seed, N_SYMBOLS);
        tree->dim = dim_symbol_at(bench->dims, tree->symbol);
        return tree;
    }
    static const DimKind kinds[] = {DIM_ADD, DIM_ADD, DIM_MUL, DIM_DIV, DIM_DIV,
                                    DIM_MOD, DIM_MIN, DIM_MAX, DIM_MUL};
    tree->kind = kinds[pick - 3];
    tree->a = tree_random(bench, seed, depth - 1);
    tree->b = tree_random(bench, seed, depth - 1);
    if (tree->kind == DIM_DIV || tree->kind == DIM_MOD) { /* divisors are positive: a number, mostly */
        static const int64_t divisors[] = {1, 2, 3, 4, 8, 16, 32, 48, 64, 5};
        tree->b = ARENA_NEW(bench->arena, Tree);
        if (draw_below(seed, 4)) {
            *tree->b = (Tree){.kind = DIM_CONST, .value = divisors[draw_below(seed, 10)]};
            tree->b->dim = CONST(tree->b->value);
        } else {
            *tree->b =
                (Tree){.kind = DIM_SYMBOL, .symbol = 1 + (int)draw_below(seed, 2)}; /* N and D, never 0 */
            tree->b->dim = dim_symbol_at(bench->dims, tree->b->symbol);
        }
    }
    const Dim *a = tree->a->dim, *b = tree->b->dim;
    switch (tree->kind) {
    case DIM_ADD: tree->dim = ADD(a, b); break;
    case DIM_MUL: tree->dim = MUL(a, b); break;
    case DIM_DIV: tree->dim = DIV(a, b); break;
    case DIM_MOD: tree->dim = MOD(a, b); break;
    case DIM_MIN: tree->dim = dim_min(bench->dims, a, b); break;
    default: tree->dim = dim_max(bench->dims, a, b); break;
    }
    return tree;
}

static __int128 tree_eval(const Tree *tree, const int64_t *at) {
    if (tree->kind == DIM_CONST)
        return tree->value;
    if (tree->kind == DIM_SYMBOL)
        return at[tree->symbol];
    __int128 a = tree_eval(tree->a, at), b = tree_eval(tree->b, at);
    switch (tree->kind) {
    case DIM_ADD: return a + b;
    case DIM_MUL: return a * b;
    case DIM_DIV: return a / b - (a % b < 0);
    case DIM_MOD: return (a % b + b) % b;
    case DIM_MIN: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

/* Symbols M % 16 == 0, 1 <= N <= 50, D in {64, 128} with N | E... and E free; points that keep the
 * constraints. */
BENCH_TEST(test_random_expressions) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *d = SYMBOL("D"), *e = SYMBOL("E");
    int64_t sizes[] = {64, 128};
    WHERE(MOD(m, CONST(16)), DIM_EQ, CONST(0));
    WHERE(n, DIM_GE, CONST(1));
    WHERE(n, DIM_LE, CONST(50));
    assert_true(dim_constrain_set(bench->dims, d, sizes, 2, (Span){0}, &bench->diags));
    WHERE(MOD(e, n), DIM_EQ, CONST(0));
    WHERE(n, DIM_LE, ADD(e, CONST(60)));
    WHERE(m, DIM_LE, MUL(CONST(2), e));
    uint64_t seed = 11;
    int64_t points[N_POINTS][N_SYMBOLS];
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    memset(bindings.known, 1, N_SYMBOLS);
    for (int p = 0; p < N_POINTS; p++) {
        points[p][1] = 1 + draw_below(&seed, 50);
        points[p][2] = sizes[draw_below(&seed, 2)];
        points[p][3] = points[p][1] * draw_below(&seed, p % 3 ? 40 : 3);
        points[p][0] = 16 * draw_below(&seed, points[p][3] / 8 + 1);
        memcpy(bindings.value, points[p], sizeof points[p]);
        assert_true(dim_check(bench->dims, &bindings, &bench->diags));
    }
    Tree *before = NULL;
    DimTable *elsewhere = dim_table_new(bench->arena);
    int alive = 0;
    for (int i = 0; i < N_CASES; i++) {
        Tree *tree = tree_random(bench, &seed, 1 + i % 4);
        const Dim *dim = tree->dim;
        if (!dim)
            continue;
        alive++;
        bool below = before && dim_known_le(bench->dims, before->dim, dim);
        bool equal = before && before->dim == dim;
        int64_t lower = dim_lower(bench->dims, dim), upper = dim_upper(bench->dims, dim);
        int64_t divisor = dim_divisor(bench->dims, dim);
        for (int p = 0; p < N_POINTS; p++) {
            memcpy(bindings.value, points[p], sizeof points[p]);
            __int128 want = tree_eval(tree, points[p]);
            int64_t got;
            if (want > INT64_MAX || want < INT64_MIN || !dim_eval(dim, &bindings, &got))
                continue;
            if (got != (int64_t)want)
                fail_msg("%s is %lld, not %lld, at M=%lld N=%lld D=%lld E=%lld", dim_text(bench, dim),
                         (long long)got, (long long)want, (long long)points[p][0], (long long)points[p][1],
                         (long long)points[p][2], (long long)points[p][3]);
            if (got < lower || got > upper || (divisor ? got % divisor : got))
                fail_msg("%s = %lld breaks [%lld, %lld] or %lld |", dim_text(bench, dim), (long long)got,
                         (long long)lower, (long long)upper, (long long)divisor);
            if (below)
                assert_true(tree_eval(before, points[p]) <= want);
            if (equal)
                assert_true(tree_eval(before, points[p]) == want);
            DimBindings none = {0};
            if (dim->kind == DIM_CONST) {
                assert_true(dim_eval(dim, &none, &got));
            }
            /* Binding every symbol gives the number; binding some and then the rest as well. */
            const Dim *bound = dim_copy(elsewhere, bench->dims, dim, &bindings);
            assert_true(dim_is(bound, (int64_t)want) || !dim_const(elsewhere, (int64_t)want) || !bound);
        }
        const Dim *copied = dim_copy(bench->dims, bench->dims, dim, NULL);
        if (copied != dim)
            fail_msg("%s was built again as %s", dim_text(bench, dim), dim_text(bench, copied));
        before = tree;
    }
    assert_true(alive > N_CASES / 2);
}

BENCH_TEST(test_evaluation_refuses) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N");
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    int64_t out = 42;
    assert_false(dim_eval(m, &bindings, &out));
    bindings.known[0] = bindings.known[1] = true;
    bindings.value[0] = 7;
    assert_true(dim_eval(m, &bindings, &out) && out == 7);
    assert_false(dim_eval(DIV(m, n), &bindings, &out)); /* N = 0 */
    assert_false(dim_eval(MOD(m, n), &bindings, &out));
    bindings.value[1] = (int64_t)1 << 62;
    assert_false(dim_eval(MUL(m, n), &bindings, &out));
    assert_false(dim_eval(SYMBOL("later"), &bindings, &out));
    assert_false(dim_eval(NULL, &bindings, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_equal_expressions_are_one),
        BENCH_ENTRY(test_divisors_fold),
        BENCH_ENTRY(test_exact_quotients_are_coefficients),
        BENCH_ENTRY(test_exact_quotients_in_any_order),
        BENCH_ENTRY(test_bounds_and_comparison),
        BENCH_ENTRY(test_impossible_constraints),
        BENCH_ENTRY(test_check_at_launch),
        BENCH_ENTRY(test_overflow_is_null_and_stays),
        BENCH_ENTRY(test_hostile_growth),
        BENCH_ENTRY(test_text),
        BENCH_ENTRY(test_random_expressions),
        BENCH_ENTRY(test_evaluation_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
