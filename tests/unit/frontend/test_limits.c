/* Hostile texts: each is refused with a diagnostic, within a second and 256 MiB, and without deep recursion.
 */
#include <string.h>
#include <time.h>

#include "support.h"

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* `before`, n times `middle`, then `after`. */
static char *repeated(const char *before, const char *middle, size_t n, const char *after) {
    size_t length = strlen(before) + n * strlen(middle) + strlen(after) + 1;
    char *text = malloc(length), *end = text;
    assert_non_null(text);
    end = stpcpy(end, before);
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, middle);
    stpcpy(end, after);
    return text;
}

enum {
    SLOW_BUILD = /* sanitizers take their time */
#if defined(__SANITIZE_ADDRESS__)
    10
#else
    1
#endif
};

static void check_refused(char *text, DiagId id) {
    double start = seconds();
    Parsed p = parse_text(text);
    double taken = seconds() - start;
    assert_true(p.ran); /* 256 MiB were enough */
    assert_false(p.good);
    bool found = false;
    for (size_t i = 0; i < p.diags->list.n; i++)
        found |= p.diags->list.at[i].id == id;
    if (!found)
        fail_msg("not refused by [%s]:%s", diag_name(id), parsed_diagnostics(&p));
    if (taken > 1.0 * SLOW_BUILD)
        fail_msg("%.2f s for %.60s", taken, text);
    parsed_free(&p);
    free(text);
}

#define HEAD "sinter 1\ngraph f (x: f32[M]) -> (y: f32[M]) { y = "

static void test_deep_nesting(void **state) {
    (void)state;
    check_refused(repeated(HEAD, "(", 1000000, "x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD, "[", 1000000, "x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD, "f(", 300, "x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD, "-", 2000000, "x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD, "!", 5000, "x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD, "x**", 1000000, "x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD "x", "+x", 1000000, " }"), DIAG_LIMIT);
    check_refused(repeated(HEAD "x", ".T", 1000000, " }"), DIAG_LIMIT);
    check_refused(repeated(HEAD "x", "[0]", 100000, " }"), DIAG_LIMIT);
    check_refused(repeated(HEAD, "x if x else ", 200000, "x }"), DIAG_LIMIT);
    check_refused(repeated("sinter 1\n", "{", 1000000, ""), DIAG_LIMIT);
    check_refused(repeated("sinter 1\ngraph f (x: f32[", "M+", 1000000, "M]) -> (y: f32[M]) { y = x }"),
                  DIAG_LIMIT);
}

static void test_many_parts(void **state) {
    (void)state;
    check_refused(repeated(HEAD "x\n", "a=x\n", 900000, "}"), DIAG_LIMIT);
    check_refused(repeated(HEAD "x\n", "a,", 1900000, "b = x }"), DIAG_LIMIT);
    check_refused(repeated(HEAD "f(", "1,", 1900000, "1) }"), DIAG_LIMIT);
    check_refused(repeated("sinter 1\ngraph f (", "x:f32,", 600000, "y: f32) -> (z: f32) { z = y }"),
                  DIAG_LIMIT);
    check_refused(
        repeated("sinter 1\ngraph f (x: f32[M]) -> (y: f32[M]) where M in {1", ",1", 1900000, "} { y = x }"),
        DIAG_LIMIT);
    check_refused(repeated("sinter 1\n", "#", (size_t)5 << 20, ""), DIAG_LIMIT);
    check_refused(repeated("sinter 1\n", "graph f () -> () {}\n", 200000, ""), DIAG_REDEFINED);
}

static void test_many_errors(void **state) {
    (void)state;
    check_refused(repeated("sinter 1\n", ")", 4000000, ""), DIAG_SYNTAX);
    check_refused(repeated("sinter 1\n", "\001", 4000000, ""), DIAG_SYNTAX);
    check_refused(repeated(HEAD "x\n", "= (\n", 1000000, "}"), DIAG_SYNTAX);
    check_refused(repeated(HEAD "x\n", "a + \n", 800000, "}"), DIAG_SYNTAX);
    check_refused(repeated(HEAD "x\n", "a = unknown\n", 50000, "}"), DIAG_UNKNOWN_NAME);
}

/* Each function calls the one before twice: 2^40 calls, whether they make values or numbers. */
static void test_exponential_expansion(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        static const char *const bodies[] = {"x + x", "x * 2", "[x[0], x[0]]"};
        static const char *const arguments[] = {"x", "1", "[1]"};
        char *text = malloc(1 << 16), *end = text;
        end += sprintf(end, "sinter 1\nfn g0 (x) { return %s }\n", bodies[kind]);
        for (int i = 1; i <= 40; i++)
            end += sprintf(end, "fn g%d (x) { a = g%d(x); b = g%d(x); return b }\n", i, i - 1, i - 1);
        sprintf(end, "graph g (x: f32[M]) -> (y: f32[M]) { y = x\n z = g40(%s) }", arguments[kind]);
        check_refused(text, DIAG_LIMIT);
    }
}

static void test_deep_expansion(void **state) {
    (void)state;
    char *text = malloc(1 << 20), *end = text;
    end += sprintf(end, "sinter 1\nfn g0 (x) { return x }\n");
    for (int i = 1; i <= 500; i++)
        end += sprintf(end, "fn g%d (x) { return %s g%d(x) }\n", i, "- - - - - - - - - - - - - - - - - - - -",
                       i - 1);
    sprintf(end, "graph g (x: f32[M]) -> (y: f32[M]) { y = g500(x) }");
    check_refused(text, DIAG_LIMIT);
}

static void test_growing_dims(void **state) {
    (void)state;
    char *text = malloc(1 << 16), *end = text;
    end += sprintf(end, "sinter 1\ngraph g (x: f32[A,B,C,D]) -> (y: f32) {\n d0 = A + B + C + D + 1\n");
    for (int i = 1; i <= 60; i++)
        end += sprintf(end, " d%d = (d%d + A %% %d) * (d%d + B / %d)\n", i, i - 1, i + 1, i - 1, i + 1);
    sprintf(end, " y = d60 }");
    check_refused(text, DIAG_DIM);
    check_refused(repeated("sinter 1\ngraph f (x: f32[", "9", 5000, "]) -> (y: f32) { y = x }"),
                  DIAG_ATTRIBUTE);
    check_refused(strdup(HEAD "reshape(x, [4611686018427387903, 4611686018427387903]) }"), DIAG_DIM);
    check_refused(strdup(HEAD "[1] * 1000000000000 }"), DIAG_LIMIT);
    check_refused(strdup(HEAD "[1, 2] + [3] * 31 }"), DIAG_LIMIT);
    check_refused(strdup(HEAD "exp(x, 9223372036854775807 * 2) }"), DIAG_ATTRIBUTE);
    check_refused(strdup(HEAD "x[-9223372036854775807] }"), DIAG_DIM);
}

static void test_lists_of_many_items(void **state) {
    (void)state;
    char *left = repeated(HEAD "[1", ",1", 100000, "] - [2"), *right = repeated(left, ",2", 100000, "] }");
    free(left);
    check_refused(right, DIAG_LIMIT);
}

/* NULs, halves of tokens and bytes of no character. */
static void test_odd_bytes(void **state) {
    (void)state;
    static const char nul[] = "sinter 1\0graph\0(";
    Parsed p = parse_bytes("nul.sg", nul, sizeof nul - 1);
    assert_true(p.ran && !p.good);
    parsed_free(&p);
    for (int byte = 0; byte < 256; byte++) {
        char text[] = HEAD "x ? 1 }";
        *strchr(text, '?') = (char)byte;
        p = parse_bytes("byte.sg", text, sizeof text - 1);
        assert_true(p.ran);
        parsed_free(&p);
    }
    p = parse_bytes("empty.sg", "", 0);
    assert_true(p.ran && !p.good);
    assert_int_equal(p.diags->list.at[0].id, DIAG_VERSION);
    parsed_free(&p);
}

/* Every prefix of a good text is refused or read, and nothing else happens. */
static void test_every_prefix(void **state) {
    (void)state;
    size_t n;
    char *text = read_file("tests/unit/frontend/graphs/language.sg", &n);
    for (size_t length = 0; length < n; length += 3) {
        Parsed p = parse_bytes("prefix.sg", text, length);
        assert_true(p.ran);
        assert_int_equal(p.good, p.diags->errors == 0);
        assert_non_null(parsed_diagnostics(&p));
        parsed_free(&p);
    }
    free(text);
}

/* Memory that runs out at any point is reported by arena_run(), and nothing leaks. */
static void test_every_allocation_fails(void **state) {
    (void)state;
    size_t n;
    char *text = read_file("tests/unit/frontend/graphs/language.sg", &n);
    for (uint64_t fault = 1;; fault = fault + 1 + fault / 16) {
        Parsed p = {.arena = arena_new(0), .name = "fault.sg", .text = text, .n = n};
        arena_fail_at(p.arena, fault);
        p.ran = arena_run(p.arena, parsed_body, &p);
        bool done = p.ran;
        if (done)
            assert_true(p.good);
        arena_free(p.arena);
        if (done)
            break;
    }
    free(text);
}

static void test_given_limits(void **state) {
    (void)state;
    static const struct {
        FrontendLimits limits;
        const char *text;
    } tests[] = {{{.max_bytes = 20}, HEAD "x }"},
                 {{.max_depth = 3}, HEAD "((((x)))) }"},
                 {{.max_values = 4}, HEAD "exp(exp(exp(exp(x)))) }"},
                 {{.max_expansion = 1}, HEAD "b(x) }\nfn b (x) { return c(x) }\nfn c (x) { return x }"}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        for (int limited = 0; limited < 2; limited++) {
            Parsed p = {
                .arena = arena_new(0), .name = "limit.sg", .text = tests[t].text, .n = strlen(tests[t].text)};
            if (limited)
                p.limits = tests[t].limits;
            assert_true(arena_run(p.arena, parsed_body, &p));
            assert_int_equal(p.good, !limited);
            if (limited)
                assert_int_equal(p.diags->list.at[0].id, DIAG_LIMIT);
            arena_free(p.arena);
        }
    }
}

/* A scanner that starts over at each NUL takes ten seconds for this. */
static void test_comment_of_nuls(void **state) {
    (void)state;
    enum { LENGTH = 80000 };
    char *text = calloc(LENGTH, 1);
    assert_non_null(text);
    memcpy(text, "# ", 2);
    for (int i = 2; i < LENGTH; i += 3)
        text[i] = '?';
    double start = seconds();
    Parsed p = parse_bytes("test.sg", text, LENGTH);
    assert_true(seconds() - start < 1.0 * SLOW_BUILD);
    assert_true(p.ran);
    assert_false(p.good);
    assert_int_equal(p.diags->list.at[0].id, DIAG_SYNTAX);
    parsed_free(&p);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deep_nesting),        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_many_errors),         cmocka_unit_test(test_exponential_expansion),
        cmocka_unit_test(test_deep_expansion),      cmocka_unit_test(test_growing_dims),
        cmocka_unit_test(test_lists_of_many_items), cmocka_unit_test(test_odd_bytes),
        cmocka_unit_test(test_every_prefix),        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_given_limits),        cmocka_unit_test(test_comment_of_nuls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
