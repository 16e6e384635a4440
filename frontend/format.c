/* `sinter fmt`: the tokens of a source under one layout, comments kept.
 *
 * Line breaks inside a statement or a head are the author's; everything else follows rules. A body stands in
 * one line, "{ a; b }", where it did, else a statement a line. Blank lines collapse to one. Works on tokens,
 * not on the tree, so that nothing can get lost: the output has the tokens and the comments of the input
 * (only ';' and line ends stand for one another), and formatting it again changes nothing. */
#include "frontend/parse.h"

#include "frontend/parser.h"

enum { FORMAT_INDENT = 4 };

/* An open bracket, and what the rules ask about it. */
typedef struct FormatBracket {
    int opener;
    bool is_type;   /* '[' of a type: K/128 is written tight */
    bool is_set;    /* '{' of a set of numbers */
    bool one_line;  /* '{' of a body that stands in one line */
    bool annotated; /* '(': the present parameter has a ':' */
} FormatBracket;

typedef struct Format {
    const Source *source;
    TokenList tokens;
    Text *out;
    VEC(FormatBracket) open;
    bool starts_line;   /* nothing stands in the present line of the output */
    bool head_breaks;   /* the head of the present definition spans lines */
    bool in_definition; /* between a definition's keyword and its '(' */
} Format;

static bool format_defines(int kind) {
    return kind == GRAPH || kind == FN || kind == CHECK || kind == GRAD || kind == SINTER;
}

static FormatBracket *format_top(Format *format) {
    return format->open.n ? &format->open.at[format->open.n - 1] : NULL;
}

static int format_kind(const Format *format, size_t i) {
    return i < format->tokens.n ? format->tokens.at[i].kind : END;
}

/* Whether the token before i ends an operand, so that '-' behind it is infix. */
static bool format_is_operand_end(int kind) {
    return kind == NAME || kind == WHOLE || kind == REAL || kind == TILE || kind == ')' || kind == ']' ||
           kind == IN;
}

static bool format_is_infix(const Format *format, size_t i) {
    switch (format_kind(format, i)) {
    case '+':
    case '-': return i > 0 && format_is_operand_end(format_kind(format, i - 1));
    case '*':
    case '/':
    case '%':
    case '@':
    case POWER:
    case EQ:
    case NE:
    case '<':
    case LE:
    case '>':
    case GE:
    case AND:
    case OR:
    case '|': return true;
    default: return false;
    }
}

static bool format_is_tight(const Format *format, size_t i) {
    int kind = format_kind(format, i);
    const FormatBracket *top = format->open.n ? &format->open.at[format->open.n - 1] : NULL;
    return top && top->is_type && (kind == '*' || kind == '/' || kind == '%');
}

/* Whether a space stands between tokens i - 1 and i of one line. Asked before token i enters the stack of
 * brackets. */
static bool format_wants_space(Format *format, size_t i) {
    int before = format_kind(format, i - 1), kind = format_kind(format, i);
    const FormatBracket *top = format_top(format);
    bool in_paren = top && top->opener == '(', in_square = top && top->opener == '[';
    bool tight_equals = (in_paren && !top->annotated) || in_square;
    if (before == '(' || before == '[' || before == '.' || kind == ')' || kind == ']' || kind == ',' ||
        kind == '.')
        return false;
    if (before == ',')
        return true;
    if (kind == '}' || before == '{')
        return !(top && top->is_set);
    if (kind == ':')
        return in_square && top->is_type;
    if (before == ':')
        return !in_square || top->is_type;
    if (kind == '=' || before == '=')
        return !tight_equals;
    if (format_is_infix(format, i))
        return !format_is_tight(format, i);
    if (format_is_infix(format, i - 1))
        return !format_is_tight(format, i - 1);
    if (before == '-' || before == '+' || before == '!')
        return false;
    if (kind == '(')
        return before != HINT && (before != NAME || format->in_definition);
    if (kind == '[')
        return !format_is_operand_end(before) || before == IN;
    return true;
}

static void format_newline(Format *format, bool blank) {
    if (!format->starts_line)
        text_add(format->out, "\n");
    if (blank && format->out->n > 0 && !(format->out->n > 1 && format->out->at[format->out->n - 2] == '\n'))
        text_add(format->out, "\n");
    format->starts_line = true;
}

static void format_indent(Format *format, int columns) {
    if (format->starts_line)
        text_add(format->out, "%*s", columns, "");
    format->starts_line = false;
}

/* The comments between two tokens: one behind the token before stays there, the others have lines of their
 * own. Answers whether the gap holds a line end; *blank whether a blank line comes directly before the token.
 */
static bool format_gap(Format *format, uint32_t from, uint32_t to, int indent, bool opens, bool *blank) {
    const char *text = format->source->text;
    int lines = 0;
    bool any = from == 0;
    for (uint32_t i = from; i < to; i++) {
        if (text[i] == '\n') {
            lines++;
            any = true;
        }
        if (text[i] != '#')
            continue;
        uint32_t end = i;
        while (end < to && text[end] != '\n')
            end++;
        uint32_t last = end;
        while (last > i && (text[last - 1] == ' ' || text[last - 1] == '\t' || text[last - 1] == '\r'))
            last--;
        if (lines == 0 && from > 0 && !format->starts_line) {
            text_add(format->out, "  ");
        } else {
            format_newline(format, lines > 1 && !opens);
            format_indent(format, indent);
        }
        text_add_bytes(format->out, text + i, last - i);
        text_add(format->out, "\n");
        format->starts_line = true;
        opens = false;
        lines = end < to;
        any = true;
        i = end;
    }
    *blank = lines > 1 && !opens;
    return any;
}

/* Whether the body that opens at token i has no line end inside. */
static bool format_is_one_line(const Format *format, size_t i) {
    int depth = 0;
    for (size_t j = i; j < format->tokens.n; j++) {
        depth += format_kind(format, j) == '{';
        depth -= format_kind(format, j) == '}';
        if (depth == 0)
            return !memchr(format->source->text + format->tokens.at[i].span.begin, '\n',
                           format->tokens.at[j].span.end - format->tokens.at[i].span.begin);
    }
    return false;
}

static int format_body_indent(const Format *format) {
    for (size_t i = 0; i < format->open.n; i++)
        if (format->open.at[i].opener == '{' && !format->open.at[i].is_set)
            return FORMAT_INDENT;
    return 0;
}

static void format_track(Format *format, size_t i) {
    int kind = format_kind(format, i);
    FormatBracket *top = format_top(format);
    if (format_defines(kind) && !top) {
        format->in_definition = kind != GRAD; /* what stands behind "=" is a call */
        format->head_breaks = false;
    }
    if (kind == ':' && top && top->opener == '(')
        top->annotated = true;
    if (kind == ',' && top)
        top->annotated = false;
    if (kind == '(' || kind == '[' || kind == '{') {
        FormatBracket bracket = {.opener = kind};
        bool after_type = i >= 2 && format_kind(format, i - 1) == NAME && format_kind(format, i - 2) == ':';
        bracket.is_type =
            kind == '[' && ((after_type && !(top && top->opener == '[')) || (top && top->is_type));
        bracket.is_set = kind == '{' && i > 0 && format_kind(format, i - 1) == IN;
        bracket.one_line = kind == '{' && format_is_one_line(format, i);
        vec_push(format->out->arena, &format->open, bracket);
        if (kind == '(')
            format->in_definition = false;
    }
    if ((kind == ')' || kind == ']' || kind == '}') && format->open.n > 0)
        format->open.n--;
}

static void format_token(Format *format, size_t i, bool separated) {
    const Token *token = &format->tokens.at[i];
    FormatBracket *top = format_top(format);
    int kind = token->kind, before = i > 0 ? format_kind(format, i - 1) : END;
    bool in_body = top && top->opener == '{' && !top->is_set;
    bool opens = in_body && before == '{', closes = kind == '}' && in_body;
    bool starts = !top && (format_defines(kind) || before == END);
    int indent = closes ? 0
                        : format_body_indent(format) + (separated || opens || starts || kind == WHERE ||
                                                                (kind == '{' && !top && before != IN)
                                                            ? 0
                                                            : FORMAT_INDENT);
    uint32_t from = i > 0 ? format->tokens.at[i - 1].span.end : 0;
    bool blank,
        broken = format_gap(format, from, token->span.begin, closes ? FORMAT_INDENT : indent, opens, &blank);
    if (!top && broken && !starts && kind != '{')
        format->head_breaks = true;

    bool breaks = broken && !format->starts_line;
    if (in_body && (opens || separated || closes))
        breaks = !top->one_line;
    else if (starts)
        breaks = i > 0;
    else if (kind == '{' && !top && before != IN)
        breaks = format->head_breaks;
    if (breaks || format->starts_line)
        format_newline(format, blank && (starts || separated));
    if (format->starts_line)
        format_indent(format, indent);
    else if (separated && !closes)
        text_add(format->out, "; ");
    else if (kind == HINT)
        text_add(format->out, "  ");
    else if (i > 0 && format_wants_space(format, i))
        text_add(format->out, " ");
    text_add_bytes(format->out, format->source->text + token->span.begin,
                   token->span.end - token->span.begin);
    format->starts_line = false;
    format_track(format, i);
}

bool frontend_format(Arena *arena, SourceSet *sources, uint32_t file, Diags *diags, Text *out) {
    ModuleSyntax module;
    if (!parse_source(arena, sources, file, NULL, diags, &module))
        return false;
    *out = text_new(arena);
    Format format = {.source = &sources->files.at[file - 1], .out = out, .starts_line = true};
    TokenList all = {0};
    parse_tokens(arena, sources, file, diags, &all);
    VEC(bool) separated = {0};
    bool separator = false;
    for (size_t i = 0; i < all.n; i++) {
        if (all.at[i].kind == NEWLINE || all.at[i].kind == ';') {
            separator = true;
            continue;
        }
        vec_push(arena, &format.tokens, all.at[i]);
        vec_push(arena, &separated, separator);
        separator = false;
    }
    for (size_t i = 0; i < format.tokens.n; i++)
        format_token(&format, i, separated.at[i]);
    uint32_t end = format.tokens.n ? format.tokens.at[format.tokens.n - 1].span.end : 0;
    bool blank;
    format_gap(&format, end, (uint32_t)format.source->n, 0, false, &blank);
    format_newline(&format, false);
    return true;
}
