/* Long lines of printed CUDA, broken where a person would. */
#include "codegen/emit_cuda.h"

enum { LINE_COLUMNS = 110 };

/* How good a place for the end of a line the space at `at` is: behind a comma, or in front of an operator
 * that binds loosely; the less the better, 0 for none. */
static int lines_break_rank(const char *code, size_t at, size_t bytes) {
    static const char *const loosest_first[] = {"=", "?", ":", "||", "&&", "|", "^", "&"};
    enum { N_LOOSE = sizeof loosest_first / sizeof *loosest_first };
    if (at == 0 || code[at] != ' ')
        return 0;
    if (code[at - 1] == ',' || code[at - 1] == ';')
        return 1;
    const char *operator= code + at + 1;
    size_t n = strspn(operator, "&|?:+-*/%<>=!^");
    if (!n || at + 1 + n >= bytes || operator[n] != ' ')
        return 0;
    for (int i = 0; i < N_LOOSE; i++)
        if (strlen(loosest_first[i]) == n && memcmp(loosest_first[i], operator, n) == 0)
            return 2 + i;
    bool is_sum = n == 1 && (*operator== '+' || * operator== '-');
    bool is_product = n == 1 && (*operator== '*' || * operator== '/' || * operator== '%');
    return 2 + N_LOOSE + (is_product ? 2 : is_sum ? 1 : 0);
}

/* Where to break code that begins in column `column` and is too long: inside as few parentheses as possible,
 * then at the best rank, then as late as possible. 0: nowhere. */
static size_t lines_break(const char *code, size_t bytes, size_t column) {
    size_t best = 0;
    int depth = 0, best_rank = 0;
    for (size_t i = 0; i < bytes && column + i < LINE_COLUMNS; i++) {
        depth += code[i] == '(' || code[i] == '[';
        depth -= code[i] == ')' || code[i] == ']';
        int rank = column + i > LINE_COLUMNS / 2 ? lines_break_rank(code, i, bytes) : 0;
        if (!rank)
            continue;
        rank += 32 * depth;
        if (!best || rank <= best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

/* Prints lines, the long ones in pieces; each further piece stands two steps deeper than its line. */
void cuda_lines(Text *out, const char *text) {
    while (*text) {
        size_t indent = strspn(text, " ");
        const char *code = text + indent;
        size_t bytes = strcspn(code, "\n");
        bool is_code = *code != '/' && *code != '#';
        size_t column = indent;
        text_add(out, "%*s", (int)indent, "");
        for (size_t at;
             is_code && column + bytes > LINE_COLUMNS && (at = lines_break(code, bytes, column)) > 0;) {
            text_add_bytes(out, code, at);
            code += at + 1;
            bytes -= at + 1;
            column = indent + 8;
            text_add(out, "\n%*s", (int)column, "");
        }
        text_add_bytes(out, code, bytes);
        text = code + bytes + (code[bytes] == '\n');
        text_add(out, "\n");
    }
}
