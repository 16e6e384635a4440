/* The formatter: one layout, nothing lost, and formatting twice is formatting once. */
#include <ctype.h>
#include <dirent.h>
#include <string.h>

#include "support.h"

typedef struct Formatted {
    Arena *arena;
    const char *text;
    size_t n;
    Text out;
    bool good;
} Formatted;

static void formatted_body(void *context) {
    Formatted *f = context;
    SourceSet *sources = source_set_new(f->arena);
    Diags diags = {.arena = f->arena};
    uint32_t file = source_add(sources, "format.sg", f->text, f->n);
    f->good = frontend_format(f->arena, sources, file, &diags, &f->out);
    assert_int_equal(f->good, diags.errors == 0);
}

static Formatted format_text(const char *text, size_t n) {
    Formatted f = {.arena = arena_new((size_t)256 << 20), .text = text, .n = n};
    assert_true(arena_run(f.arena, formatted_body, &f));
    return f;
}

static void check_layout(const char *text, const char *expected) {
    Formatted f = format_text(text, strlen(text));
    assert_true(f.good);
    assert_string_equal(f.out.at, expected);
    Formatted again = format_text(f.out.at, f.out.n);
    assert_true(again.good);
    assert_string_equal(again.out.at, f.out.at);
    arena_free(again.arena);
    arena_free(f.arena);
}

static void test_spaces(void **state) {
    (void)state;
    check_layout(
        "sinter 1\ngraph  f(x:bf16[M,2*K :strides=[ 1,M ]] ,w :f32)->( y:f32[ M ] )where M%2==0,K "
        "in{64,128}{y=x[ 0 : -1,...]"
        "+f( - x,over = [1,2],a=-1)**-2 ; z = !x.T&&x [ 1: :2 ]@w@expect( kernels=1 )}",
        "sinter 1\ngraph f (x: bf16[M, 2*K : strides=[1, M]], w: f32) -> (y: f32[M]) where M % 2 == 0, K in "
        "{64, 128} { "
        "y = x[0:-1, ...] + f(-x, over=[1, 2], a=-1) ** -2; z = !x.T && x[1::2] @ w  @expect(kernels=1) }\n");
    check_layout("sinter 1\ngrad d=gradient ( f ,of = [ x,w ] )\n",
                 "sinter 1\ngrad d = gradient(f, of=[x, w])\n");
}

static void test_lines_and_comments(void **state) {
    (void)state;
    check_layout("# head\n\n\n\nsinter 1 # one\n\n\n\nfn f(x,k:a|b=a)   {   # of f\n  y=x ; z = y # "
                 "both\n\n\n  # alone\n\treturn y*z\n  # last\n}\n"
                 "graph g (x: f32[M],   # first\n y: f32[M])\n->(z:f32[M])\nwhere M>0\n{ z=f(x,\ny) +\n x   "
                 "\n   @expect(kernels=1)\n}\n#end",
                 "# head\n\nsinter 1  # one\n\nfn f (x, k: a | b = a) {  # of f\n    y = x\n    z = y  # "
                 "both\n\n    # alone\n"
                 "    return y * z\n    # last\n}\ngraph g (x: f32[M],  # first\n    y: f32[M])\n    -> (z: "
                 "f32[M])\nwhere M > 0\n{\n"
                 "    z = f(x,\n        y) +\n        x\n        @expect(kernels=1)\n}\n#end\n");
}

static void test_checks_and_lists(void **state) {
    (void)state;
    check_layout("sinter 1\ncheck f{M in{1,2};N=3\nrtol=1e-2}\nfn g(x){return[x]+[1][0]if x==none else-1}\n",
                 "sinter 1\ncheck f {\n    M in {1, 2}\n    N = 3\n    rtol = 1e-2\n}\n"
                 "fn g (x) { return [x] + [1][0] if x == none else -1 }\n");
}

static void test_refuses_what_does_not_parse(void **state) {
    (void)state;
    static const char text[] = "sinter 1\ngraph f (";
    Formatted f = format_text(text, strlen(text));
    assert_false(f.good);
    arena_free(f.arena);
}

/* Everything but white space and separators. */
static char *essence(const char *text) {
    char *out = malloc(strlen(text) + 1), *end = out;
    assert_non_null(out);
    for (; *text; text++)
        if (!isspace((unsigned char)*text) && *text != ';')
            *end++ = *text;
    *end = 0;
    return out;
}

static void check_directory(const char *directory) {
    struct dirent *entry;
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    int files = 0;
    while ((entry = readdir(listing))) {
        if (!strstr(entry->d_name, ".sg"))
            continue;
        char path[600];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        size_t n;
        char *text = read_file(path, &n);
        Formatted f = format_text(text, n);
        if (f.good) {
            char *before = essence(text), *after = essence(f.out.at);
            assert_string_equal(before, after);
            Formatted again = format_text(f.out.at, f.out.n);
            assert_string_equal(again.out.at, f.out.at);
            arena_free(again.arena);
            free(before);
            free(after);
            files++;
        }
        arena_free(f.arena);
        free(text);
    }
    closedir(listing);
    assert_true(files > 0);
}

static void test_files(void **state) {
    (void)state;
    check_directory("tests/unit/frontend/graphs");
    check_directory("tests/diag");
    check_directory("frontend");
}

/* The library keeps the layout that it prescribes. */
static void test_library_is_formatted(void **state) {
    (void)state;
    size_t n;
    char *text = read_file("frontend/library.sg", &n);
    Formatted f = format_text(text, n);
    assert_string_equal(f.out.at, text);
    arena_free(f.arena);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_lines_and_comments),
        cmocka_unit_test(test_checks_and_lists),
        cmocka_unit_test(test_refuses_what_does_not_parse),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_library_is_formatted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
