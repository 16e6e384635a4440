/* Growing text, shortest decimals, diagnostics as data. */
#include <locale.h>
#include <math.h>

#include "support.h"

BENCH_TEST(test_growth) {
    Text text = text_new(bench->arena);
    char expected[4000] = "";
    for (int i = 0; i < 300; i++) {
        text_add(&text, "%d,", i);
        sprintf(expected + strlen(expected), "%d,", i);
        assert_int_equal(text.n, strlen(expected));
        assert_string_equal(text.at, expected);
    }
    /* Exactly as long as the room, and one byte more. */
    for (size_t n = 60; n < 70; n++) {
        Text edge = text_new(bench->arena);
        char *long_word = memset(arena_alloc(bench->arena, n + 1), 'x', n);
        text_add(&edge, "%s", long_word);
        assert_int_equal(edge.n, n);
        assert_string_equal(edge.at, long_word);
        text_add_bytes(&edge, "\0y", 2);
        assert_int_equal(edge.n, n + 2);
        assert_memory_equal(edge.at + n, "\0y", 3);
    }
    assert_string_equal(text_format(bench->arena, "%s-%d", "a", 7), "a-7");
}

static const char *shortest(Bench *bench, double value) {
    Text text = text_new(bench->arena);
    text_add_double(&text, value);
    return text.at;
}

BENCH_TEST(test_doubles) {
    assert_string_equal(shortest(bench, 0.1), "0.1");
    assert_string_equal(shortest(bench, 1), "1");
    assert_string_equal(shortest(bench, -2.5), "-2.5");
    assert_string_equal(shortest(bench, 1e300), "1e+300");
    assert_string_equal(shortest(bench, INFINITY), "inf");
    assert_string_equal(shortest(bench, -INFINITY), "-inf");
    assert_string_equal(shortest(bench, NAN), "nan");
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = draw(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            assert_true(strtod(shortest(bench, value), NULL) == value);
    }
}

BENCH_TEST(test_foreign_decimal_point) {
    static const char *const comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
    for (size_t i = 0; i < 3; i++)
        if (setlocale(LC_NUMERIC, comma[i]))
            break;
    const char *text = shortest(bench, 0.25);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "0.25");
}

BENCH_TEST(test_diagnostics_are_counted_and_limited) {
    Diags *diags = &bench->diags;
    diags->error_limit = 3;
    Span span = {.file = 1, .begin = 2, .end = 3, .caret = 2};
    diag_warning(diags, DIAG_HINT, span, "careful");
    assert_int_equal(diags_fault(diags), FAULT_NONE);
    for (int i = 0; i < 5; i++) {
        diag_error(diags, DIAG_AXIS, span, "axis %d", i);
        diag_note(diags, span, "note %d", i);
    }
    assert_int_equal(diags->errors, 5);
    assert_int_equal(diags->list.n, 1 + 2 * 3);
    assert_string_equal(diags->list.at[5].message, "axis 2");
    assert_string_equal(diags->list.at[6].message, "note 2");
    assert_int_equal(diags->list.at[6].severity, SEVERITY_NOTE);
    assert_int_equal(diags->list.at[6].id, DIAG_AXIS);
    assert_int_equal(diags->list.at[6].span.begin, 2);
    assert_int_equal(diags_fault(diags), FAULT_INPUT);
    Diags other = {.arena = bench->arena};
    diag_error(&other, DIAG_AXIS, span, "input");
    diag_error(&other, DIAG_DEVICE, span, "driver");
    diag_error(&other, DIAG_USAGE, span, "usage");
    assert_int_equal(diags_fault(&other), FAULT_ENVIRONMENT);
    for (int i = 3; i < 40; i++)
        diag_error(&other, DIAG_AXIS, span, "%d", i);
    assert_int_equal(other.list.n, 20);
    diag_error(NULL, DIAG_AXIS, span, "a speculative caller wants no diagnostics");
}

BENCH_TEST(test_diagnostic_table) {
    (void)bench;
    for (int id = 0; id < DIAG_COUNT; id++) {
        const char *name = diag_name((DiagId)id);
        assert_true(strlen(name) > 2 && strlen(diag_doc((DiagId)id)) > 10);
        assert_int_equal(diag_find(name), id); /* so names are unique, too */
        assert_true(diag_fault((DiagId)id) != FAULT_NONE);
    }
    assert_int_equal(diag_find("no such"), DIAG_COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_growth),
        BENCH_ENTRY(test_doubles),
        BENCH_ENTRY(test_foreign_decimal_point),
        BENCH_ENTRY(test_diagnostics_are_counted_and_limited),
        BENCH_ENTRY(test_diagnostic_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
