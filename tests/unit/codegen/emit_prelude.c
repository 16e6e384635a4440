/* The prelude by itself: all of it compiles for every target, sections bring what they use and nothing else,
 * and math.ll is what its sources say. */
#include "tests/unit/codegen/emit_support.h"

#include "codegen/emit_sections.h"

extern const char codegen_prelude_text[];

static const char sample[] = "head, in no section\n"
                             "//! one\nint one() { return two() + u32_one; }\n"
                             "//! two deux\nint two();\n"
                             "//! three sm>=89\nint three_new();\n"
                             "//! three sm<89\nint three_old();\n";

static const char *prelude_used(Bench *bench, int sm, const char *text) {
    Sections sections = sections_parse(bench->arena, sample, "//! ", sm);
    sections_use(&sections, text, strlen(text));
    Text out = text_new(bench->arena);
    sections_print(&sections, &out);
    return out.n ? out.at : "";
}

static void prelude_sections(void **state) {
    (void)state;
    Bench bench = bench_new();
    assert_string_equal(prelude_used(&bench, 80, "none of one_, deuxieme, 3"), "");
    assert_string_equal(prelude_used(&bench, 80, "x = one();"),
                        "int two();\nint one() { return two() + u32_one; }\n");
    assert_string_equal(prelude_used(&bench, 80, "deux"), "int two();\n");
    assert_string_equal(prelude_used(&bench, 88, "three"), "int three_old();\n");
    assert_string_equal(prelude_used(&bench, 89, "three"), "int three_new();\n");
    bench_free(&bench);
}

static void prelude_compiles_alone(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        Bench bench = bench_new();
        Sections sections =
            sections_parse(bench.arena, codegen_prelude_text, "//! ", target_find(targets[i])->sm);
        assert_true(sections.list.n > 100);
        for (size_t j = 0; j < sections.list.n; j++) {
            const Section *section = &sections.list.at[j];
            for (int k = 0; k < section->n_names; k++)
                sections_use(&sections, section->names[k], section->name_bytes[k]);
        }
        Text text = text_new(bench.arena);
        sections_print(&sections, &text);
        bench_compile_cuda(text.at, targets[i]);
        bench_free(&bench);
    }
}

/* The first line of what a command prints. */
static bool prelude_ask(const char *command, char *line, int bytes) {
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    bool good = fgets(line, bytes, pipe) != NULL;
    return pclose(pipe) == 0 && good;
}

static void prelude_math_ll_is_fresh(void **state) {
    (void)state;
    char stated[256], actual[256];
    if (!prelude_ask("sed -n 's/^; sha256 of .*: //p' codegen/prelude/math.ll 2>/dev/null", stated,
                     sizeof stated) ||
        !prelude_ask("cd codegen/prelude && cat math_llvm.c math_f64.cuh math_f32.cuh convert.cuh | "
                     "sha256sum | cut -c1-64",
                     actual, sizeof actual)) {
        print_message("SKIPPED: not run from the source tree, or no sha256sum\n");
        skip();
    }
    if (strcmp(stated, actual) != 0)
        fail_msg("math.ll is older than its sources: run `make math-ll`");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prelude_sections),
        cmocka_unit_test(prelude_compiles_alone),
        cmocka_unit_test(prelude_math_ll_is_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
