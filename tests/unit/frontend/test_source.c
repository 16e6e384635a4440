/* Places in a source, and diagnostics as clang prints them. */
#include <string.h>

#include "support.h"

#include "frontend/names.h"

typedef struct Printed {
    const char *text; /* of the source */
    Span span;
    Severity severity;
    bool colour;
    const char *expected;
} Printed;

static void printed_body(void *context) {
    void **both = context;
    Arena *arena = both[0];
    const Printed *test = both[1];
    SourceSet *set = source_set_new(arena);
    source_add(set, "a.sg", test->text, strlen(test->text));
    Diagnostic diagnostic = {DIAG_SYNTAX, test->severity, test->span, "wrong"};
    Text out = text_new(arena);
    diagnostic_print(&out, set, &diagnostic, test->colour);
    assert_string_equal(out.at, test->expected);
}

static void check_printed(const Printed *test) {
    Arena *arena = arena_new(0);
    void *both[] = {arena, (void *)test};
    assert_true(arena_run(arena, printed_body, both));
    arena_free(arena);
}

static void test_range_and_caret(void **state) {
    (void)state;
    check_printed(&(Printed){"one\nx @ w.T + b\n",
                             {1, 4, 11, 6},
                             SEVERITY_ERROR,
                             false,
                             "a.sg:2:3: error: wrong [syntax]\nx @ w.T + b\n~~^~~~~\n"});
}

static void test_note_has_no_name(void **state) {
    (void)state;
    check_printed(&(Printed){"abc", {1, 1, 2, 1}, SEVERITY_NOTE, false, "a.sg:1:2: note: wrong\nabc\n ^\n"});
}

static void test_no_place(void **state) {
    (void)state;
    check_printed(&(Printed){"abc", {0, 0, 0, 0}, SEVERITY_WARNING, false, "warning: wrong [syntax]\n"});
}

static void test_tabs_become_spaces(void **state) {
    (void)state;
    check_printed(&(Printed){"\tab\tcd",
                             {1, 4, 6, 4},
                             SEVERITY_ERROR,
                             false,
                             "a.sg:1:5: error: wrong [syntax]\n        ab      cd\n                ^~\n"});
}

/* A wide character takes two columns of the terminal and one of the location. */
static void test_wide_characters(void **state) {
    (void)state;
    check_printed(&(Printed){"# \xe6\xbc\xa2\xc3\xa9 x",
                             {1, 8, 9, 8},
                             SEVERITY_ERROR,
                             false,
                             "a.sg:1:6: error: wrong [syntax]\n# \xe6\xbc\xa2\xc3\xa9 x\n      ^\n"});
}

static void test_range_over_lines_is_cut(void **state) {
    (void)state;
    check_printed(&(Printed){"f(a,\n  b)\n",
                             {1, 0, 9, 7},
                             SEVERITY_ERROR,
                             false,
                             "a.sg:2:3: error: wrong [syntax]\n  b)\n~~^~\n"});
}

static void test_caret_at_the_end(void **state) {
    (void)state;
    check_printed(&(Printed){
        "abc", {1, 3, 3, 3}, SEVERITY_ERROR, false, "a.sg:1:4: error: wrong [syntax]\nabc\n   ^\n"});
}

/* What could steer a terminal is not passed on. */
static void test_control_characters(void **state) {
    (void)state;
    check_printed(&(Printed){"\033[2J\xff x",
                             {1, 6, 7, 6},
                             SEVERITY_ERROR,
                             false,
                             "a.sg:1:7: error: wrong [syntax]\n\xef\xbf\xbd[2J\xef\xbf\xbd x\n      ^\n"});
}

static void test_colour(void **state) {
    (void)state;
    check_printed(&(Printed){"a",
                             {1, 0, 1, 0},
                             SEVERITY_ERROR,
                             true,
                             "\033[1ma.sg:1:1: \033[0m\033[1;31merror: \033[0m\033[1mwrong "
                             "[syntax]\033[0m\na\n\033[1;32m^\033[0m\n"});
}

static void long_line_body(void *context) {
    Arena *arena = context;
    SourceSet *set = source_set_new(arena);
    char *line = ARENA_ARRAY(arena, char, 100000);
    memset(line, 'x', 99999);
    source_add(set, "long.sg", line, 99999);
    Diagnostic diagnostic = {DIAG_SYNTAX, SEVERITY_ERROR, {1, 50000, 50010, 50003}, "wrong"};
    Text out = text_new(arena);
    diagnostic_print(&out, set, &diagnostic, false);
    assert_true(out.n < 500);
    const char *caret = strchr(out.at, '^');
    assert_non_null(caret);
    assert_memory_equal(caret - 3, "~~~^~~~~~~", 10);
}

static void test_long_line_is_a_window(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    assert_true(arena_run(arena, long_line_body, arena));
    arena_free(arena);
}

static void names_body(void *context) {
    Arena *arena = context;
    Names names = names_new(arena);
    static int items[1000];
    char name[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "name%d", i);
        names_put(&names, arena_strdup(arena, name), &items[i]);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "name%d", i);
        assert_ptr_equal(names_find(&names, name), &items[i]);
    }
    assert_null(names_find(&names, "name1000"));
    names_put(&names, "name7", &items[0]);
    assert_ptr_equal(names_find(&names, "name7"), &items[0]);
    assert_int_equal(names.n, 1000);
}

static void test_names(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    assert_true(arena_run(arena, names_body, arena));
    arena_free(arena);
}

static void test_suggestions(void **state) {
    (void)state;
    static const struct {
        const char *wanted, *offered[3], *best;
    } tests[] = {{"wieght", {"weight", "width", "w"}, "weight"},
                 {"gleu", {"elu", "gelu", "relu"}, "gelu"},
                 {"M", {"m", "x", "long"}, "m"},
                 {"v", {"w", "x", "long"}, NULL},
                 {"softmxa", {"softmax", "log_softmax", "max"}, "softmax"},
                 {"ab", {"cd", "xyz", "efgh"}, NULL},
                 {"layernorm", {"matmul", "rope", "mean"}, NULL}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        Suggestion suggestion = suggestion_new(tests[i].wanted);
        for (int k = 0; k < 3; k++)
            suggestion_offer(&suggestion, tests[i].offered[k]);
        if (tests[i].best)
            assert_string_equal(suggestion.best, tests[i].best);
        else
            assert_null(suggestion.best);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_and_caret),
        cmocka_unit_test(test_note_has_no_name),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_tabs_become_spaces),
        cmocka_unit_test(test_wide_characters),
        cmocka_unit_test(test_range_over_lines_is_cut),
        cmocka_unit_test(test_caret_at_the_end),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_colour),
        cmocka_unit_test(test_long_line_is_a_window),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
