/* Diagnostics in clang's form. A line goes to a terminal, so what could move its cursor (control characters,
 * damaged UTF-8) is shown as U+FFFD; tabs become spaces; a long line is cut to a window around the caret. */
#include "frontend/source.h"

#include <string.h>

enum { SOURCE_TAB = 8, SOURCE_WINDOW = 160 };

SourceSet *source_set_new(Arena *arena) {
    SourceSet *set = ARENA_NEW(arena, SourceSet);
    set->arena = arena;
    return set;
}

uint32_t source_add(SourceSet *set, const char *name, const char *text, size_t n) {
    Source source = {.name = arena_strdup(set->arena, name), .n = n};
    char *copy = ARENA_ARRAY(set->arena, char, n + 1);
    if (n)
        memcpy(copy, text, n);
    copy[n] = 0;
    source.text = copy;
    vec_push(set->arena, &source.lines, 0);
    for (size_t i = 0; i < n; i++)
        if (copy[i] == '\n')
            vec_push(set->arena, &source.lines, (uint32_t)(i + 1));
    vec_push(set->arena, &set->files, source);
    return (uint32_t)set->files.n;
}

/* One code point of text[0..n); its length in bytes. 0xFFFD, of one byte, where it is damaged. */
static size_t source_decode(const char *text, size_t n, uint32_t *point) {
    const unsigned char *p = (const unsigned char *)text;
    size_t length = p[0] < 0x80                   ? 1
                    : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                    : (p[0] & 0xf0) == 0xe0       ? 3
                    : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                  : 0;
    uint32_t value = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (i >= n || (p[i] & 0xc0) != 0x80)
            length = 0;
        else
            value = value << 6 | (p[i] & 0x3f);
    }
    bool bad = length == 0 || (length == 3 && value < 0x800) || (value >= 0xd800 && value < 0xe000) ||
               (length == 4 && (value < 0x10000 || value > 0x10ffff));
    *point = bad ? 0xfffd : value;
    return bad ? 1 : length;
}

/* Columns of a terminal that a code point takes: Unicode's wide and combining ranges, coarsely. */
static int source_width(uint32_t point) {
    static const struct {
        uint32_t first, last;
        int width;
    } ranges[] = {{0x300, 0x36f, 0},    {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},
                  {0x2e80, 0x303e, 2},  {0x3041, 0x4dbf, 2}, {0x4e00, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},
                  {0xf900, 0xfaff, 2},  {0xfe00, 0xfe0f, 0}, {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},
                  {0xff00, 0xff60, 2},  {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f900, 0x1f9ff, 2},
                  {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return ranges[i].width;
    return 1;
}

static const Source *source_of(const SourceSet *set, uint32_t file) {
    return file >= 1 && file <= set->files.n ? &set->files.at[file - 1] : NULL;
}

static size_t source_line_of(const Source *source, uint32_t byte) {
    size_t low = 0, high = source->lines.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (source->lines.at[middle] <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void source_locate(const SourceSet *set, uint32_t file, uint32_t byte, int *line, int *column) {
    const Source *source = source_of(set, file);
    *line = *column = 0;
    if (!source)
        return;
    if (byte > source->n)
        byte = (uint32_t)source->n;
    size_t l = source_line_of(source, byte);
    *line = (int)l + 1;
    *column = 1;
    for (size_t i = source->lines.at[l]; i < byte; ++*column) {
        uint32_t point;
        i += source_decode(source->text + i, source->n - i, &point);
    }
}

/* A stretch of one line as a terminal shows it: its text, and the marks below. */
typedef struct SourceView {
    Text text, marks;
    int column;
} SourceView;

static void source_show(SourceView *view, const Source *source, size_t at, size_t length, uint32_t point,
                        char mark) {
    int width = 1;
    if (point == '\t') {
        width = SOURCE_TAB - view->column % SOURCE_TAB;
        text_add(&view->text, "%*s", width, "");
    } else if (point < ' ' || (point >= 0x7f && point < 0xa0) || point == 0xfffd ||
               (point >= 0x202a && point <= 0x202e)) {
        text_add(&view->text, "\xef\xbf\xbd");
    } else {
        width = source_width(point);
        text_add_bytes(&view->text, source->text + at, length);
    }
    for (int i = 0; i < width; i++)
        text_add_bytes(&view->marks, mark == '^' && i > 0 ? "~" : &mark, 1);
    view->column += width;
}

static void source_excerpt(Text *out, const SourceSet *set, const Source *source, Span span, bool colour) {
    size_t line = source_line_of(source, span.caret);
    size_t begin = source->lines.at[line];
    const char *newline = memchr(source->text + begin, '\n', source->n - begin);
    size_t end = newline ? (size_t)(newline - source->text) : source->n;
    size_t from = begin, to = end;
    if (end - begin > SOURCE_WINDOW) {
        from = span.caret > begin + SOURCE_WINDOW / 2 ? span.caret - SOURCE_WINDOW / 2 : begin;
        to = from + SOURCE_WINDOW < end ? from + SOURCE_WINDOW : end;
        while (from > begin && ((unsigned char)source->text[from] & 0xc0) == 0x80)
            from--;
    }
    SourceView view = {text_new(set->arena), text_new(set->arena), 0};
    if (from > begin) {
        text_add(&view.text, "...");
        text_add(&view.marks, "   ");
        view.column = 3;
    }
    for (size_t i = from; i < to;) {
        uint32_t point;
        size_t length = source_decode(source->text + i, end - i, &point);
        char mark = i <= span.caret && span.caret < i + length ? '^'
                    : i >= span.begin && i < span.end          ? '~'
                                                               : ' ';
        source_show(&view, source, i, length, point, mark);
        i += length;
    }
    if (to < end)
        text_add(&view.text, "...");
    if (span.caret >= end)
        text_add(&view.marks, "^");
    while (view.marks.n > 0 && view.marks.at[view.marks.n - 1] == ' ')
        view.marks.at[--view.marks.n] = 0;
    text_add_bytes(out, view.text.at, view.text.n);
    text_add(out, "\n%s", colour ? "\033[1;32m" : "");
    text_add_bytes(out, view.marks.at, view.marks.n);
    text_add(out, "%s\n", colour ? "\033[0m" : "");
}

void diagnostic_print(Text *out, const SourceSet *set, const Diagnostic *diagnostic, bool colour) {
    static const struct {
        const char *word, *colour;
    } severities[] = {[SEVERITY_NOTE] = {"note", "\033[1;36m"},
                      [SEVERITY_WARNING] = {"warning", "\033[1;35m"},
                      [SEVERITY_ERROR] = {"error", "\033[1;31m"}};
    const char *bold = colour ? "\033[1m" : "", *plain = colour ? "\033[0m" : "";
    Span span = diagnostic->span;
    const Source *source = source_of(set, span.file);
    if (source) {
        if (span.caret > source->n)
            span.caret = (uint32_t)source->n;
        int line, column;
        source_locate(set, span.file, span.caret, &line, &column);
        text_add(out, "%s%s:%d:%d: %s", bold, source->name, line, column, plain);
    }
    text_add(out, "%s%s: %s%s", colour ? severities[diagnostic->severity].colour : "",
             severities[diagnostic->severity].word, plain, bold);
    text_add_bytes(out, diagnostic->message, strlen(diagnostic->message));
    if (diagnostic->severity != SEVERITY_NOTE)
        text_add(out, " [%s]", diag_name(diagnostic->id));
    text_add(out, "%s\n", plain);
    if (source)
        source_excerpt(out, set, source, span, colour);
}
