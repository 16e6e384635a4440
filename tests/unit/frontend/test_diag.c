/* Each file of tests/diag says what is wrong with it: a comment `# error:COLUMN: text` stands on the line
 * that the error points at, `# note:COLUMN: text` on that of a note (`# error@LINE:COLUMN: text` somewhere
 * else). The text is part of "message [name]". Every error of a file is announced, and every announcement
 * comes true. */
#include <dirent.h>
#include <string.h>

#include "support.h"

enum { ANNOUNCED_MAX = 64, FILES_MAX = 200 };
static const char directory[] = "tests/diag";

typedef struct Announced {
    Severity severity;
    int line, column;
    const char *text;
    size_t n;
    bool met;
} Announced;

static int announced_read(const char *text, Announced *out) {
    int n = 0, line = 1;
    for (const char *p = text; *p; p++) {
        line += *p == '\n';
        Severity severity = strncmp(p, "# error", 7) == 0 ? SEVERITY_ERROR : SEVERITY_NOTE;
        if (severity == SEVERITY_NOTE && strncmp(p, "# note", 6) != 0)
            continue;
        char *rest = (char *)p + (severity == SEVERITY_ERROR ? 7 : 6);
        int at = *rest == '@' ? (int)strtol(rest + 1, &rest, 10) : line;
        assert_int_equal(*rest, ':');
        int column = (int)strtol(rest + 1, &rest, 10);
        assert_int_equal(*rest, ':');
        rest += 1 + strspn(rest + 1, " ");
        size_t length = strcspn(rest, "\n#");
        while (length > 0 && rest[length - 1] == ' ')
            length--;
        assert_true(n < ANNOUNCED_MAX && length > 0);
        out[n++] = (Announced){severity, at, column, rest, length, false};
    }
    return n;
}

static bool announced_matches(Announced *announced, const Diagnostic *diagnostic, int line, int column,
                              const char *message) {
    if (announced->met || announced->severity != diagnostic->severity || announced->line != line ||
        announced->column != column)
        return false;
    announced->met = memmem(message, strlen(message), announced->text, announced->n) != NULL;
    return announced->met;
}

static void check_file(const char *path, bool *seen) {
    size_t n;
    char *text = read_file(path, &n);
    Announced announced[ANNOUNCED_MAX];
    int n_announced = announced_read(text, announced);
    Parsed p = parse_bytes(path, text, n);
    assert_true(p.ran);
    assert_false(p.good);
    for (size_t i = 0; i < p.diags->list.n; i++) {
        const Diagnostic *diagnostic = &p.diags->list.at[i];
        int line, column;
        source_locate(p.sources, diagnostic->span.file, diagnostic->span.caret, &line, &column);
        const char *message = text_format(p.arena, "%s [%s]", diagnostic->message, diag_name(diagnostic->id));
        bool met = false;
        for (int k = 0; k < n_announced && !met; k++)
            met = announced_matches(&announced[k], diagnostic, line, column, message);
        if (!met && diagnostic->severity == SEVERITY_ERROR)
            fail_msg("%s: this error is not announced:%s", path, parsed_diagnostics(&p));
        seen[diagnostic->id] = true;
    }
    for (int k = 0; k < n_announced; k++)
        if (!announced[k].met)
            fail_msg("%s:%d: no '%.*s' at column %d:%s", path, announced[k].line, (int)announced[k].n,
                     announced[k].text, announced[k].column, parsed_diagnostics(&p));
    parsed_free(&p);
    free(text);
}

static void test_files(void **state) {
    (void)state;
    bool seen[DIAG_COUNT] = {false};
    struct dirent *entry;
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    int files = 0;
    while ((entry = readdir(listing))) {
        size_t length = strlen(entry->d_name);
        if (length < 3 || strcmp(entry->d_name + length - 3, ".sg") != 0)
            continue;
        char path[600];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        check_file(path, seen);
        files++;
    }
    closedir(listing);
    assert_true(files > 0);
    /* Every kind of diagnostic that a text alone can cause is caused by some file. */
    static const DiagId causes[] = {
        DIAG_SYNTAX,    DIAG_VERSION,   DIAG_UNKNOWN_NAME,   DIAG_REDEFINED,     DIAG_UNKNOWN_OP,
        DIAG_ARGUMENTS, DIAG_ATTRIBUTE, DIAG_SHAPE_MISMATCH, DIAG_TYPE_MISMATCH, DIAG_RANK,
        DIAG_AXIS,      DIAG_DIM,       DIAG_CONSTRAINT,     DIAG_OUTPUT,        DIAG_RECURSION,
        DIAG_LIMIT,     DIAG_HINT,      DIAG_CHECK,          DIAG_UNSUPPORTED};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (!seen[causes[i]])
            fail_msg("no file of %s causes [%s]", directory, diag_name(causes[i]));
}

/* The example of the language's description, to the letter. */
static void test_like_clang(void **state) {
    (void)state;
    static const char text[] =
        "sinter 1\n\ngraph ffn (x: bf16[M, 4096], w: bf16[N, 4095], b: bf16[N]) -> (y: bf16[M, N])\n"
        "where 1 <= M <= 65536\n{\n    y = gelu(x @ w.T + b, approx=tanh)\n}\n";
    Parsed p = parse_bytes("ffn.sg", text, sizeof text - 1);
    assert_true(p.ran);
    assert_string_equal(parsed_diagnostics(&p),
                        "\n"
                        "ffn.sg:6:16: error: inner dims of '@' differ: 4096 and 4095 [shape-mismatch]\n"
                        "    y = gelu(x @ w.T + b, approx=tanh)\n"
                        "             ~~^~~~~\n"
                        "ffn.sg:3:12: note: 'x' is declared bf16[M, 4096] here\n"
                        "graph ffn (x: bf16[M, 4096], w: bf16[N, 4095], b: bf16[N]) -> (y: bf16[M, N])\n"
                        "           ^~~~~~~~~~~~~~~~\n"
                        "ffn.sg:3:30: note: 'w' is declared bf16[N, 4095] here\n"
                        "graph ffn (x: bf16[M, 4096], w: bf16[N, 4095], b: bf16[N]) -> (y: bf16[M, N])\n"
                        "                             ^~~~~~~~~~~~~~~~\n");
    parsed_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_like_clang)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
