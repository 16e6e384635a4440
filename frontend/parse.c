/* Runs lexer and parser over one source, and builds the nodes that the grammar's actions ask for.
 *
 * Every node knows the depth of its tree and a parse counts its parts: both are bounded, so that no later
 * walk can exhaust the stack and no small file can exhaust the memory. */
#include "frontend/parse.h"

#include "frontend/parser.h"

#include "frontend/lexer.h"

enum { PARSE_DEEPEST_TREE = 1000, PARSE_MOST_PARTS = 600000, PARSE_MOST_ERRORS = 500 };

#define OPERATOR(ENUM, TEXT, NAME) TEXT,
static const char *const operator_texts[] = {OPERATORS(OPERATOR)};
#undef OPERATOR
#define OPERATOR(ENUM, TEXT, NAME) NAME,
static const char *const operator_primitives[] = {OPERATORS(OPERATOR)};
#undef OPERATOR

const char *operator_text(Operator operator_) {
    return operator_texts[operator_];
}

const char *operator_primitive(Operator operator_) {
    return operator_primitives[operator_];
}

FrontendLimits frontend_limits(const FrontendLimits *limits) {
    FrontendLimits full = limits ? *limits : (FrontendLimits){0};
    if (full.max_bytes == 0)
        full.max_bytes = (size_t)4 << 20;
    if (full.max_depth <= 0)
        full.max_depth = 200;
    if (full.max_values <= 0)
        full.max_values = 20000;
    if (full.max_expansion <= 0)
        full.max_expansion = 64;
    return full;
}

void parse_error(Parse *parse, DiagId id, Span span, const char *message) {
    parse->failed = true;
    if (++parse->errors >= PARSE_MOST_ERRORS)
        parse->refused = true;
    diag_error(parse->diags, id, span, "%s", message);
}

bool parse_count(Parse *parse, Span span) {
    if (parse->refused)
        return false;
    if (++parse->nodes > PARSE_MOST_PARTS) {
        parse->refused = true;
        parse_error(parse, DIAG_LIMIT, span,
                    text_format(parse->arena, "the text has more than %d parts", PARSE_MOST_PARTS));
    }
    return true;
}

static Expr *parse_node(Parse *parse, ExprKind kind, int depth, Span span) {
    parse_count(parse, span);
    if (depth > PARSE_DEEPEST_TREE && !parse->refused) {
        parse->refused = true;
        parse_error(
            parse, DIAG_LIMIT, span,
            text_format(parse->arena, "an expression is nested more than %d deep", PARSE_DEEPEST_TREE));
    }
    Expr *expr = ARENA_NEW(parse->arena, Expr);
    *expr = (Expr){.kind = kind, .depth = depth, .span = span};
    return expr;
}

static Span parse_join(Span a, Span b, Span caret) {
    return (Span){a.file, a.begin, b.end, caret.begin};
}

static int parse_deeper(int depth, const Expr *below) {
    return below && below->depth >= depth ? below->depth + 1 : depth;
}

Expr *parse_name(Parse *parse, Word name) {
    Expr *expr = parse_node(parse, EXPR_NAME, 1, name.span);
    expr->name = name.text;
    return expr;
}

Expr *parse_whole(Parse *parse, int64_t value, Span span) {
    Expr *expr = parse_node(parse, EXPR_WHOLE, 1, span);
    expr->whole = value;
    return expr;
}

Expr *parse_real(Parse *parse, double value, Span span) {
    Expr *expr = parse_node(parse, EXPR_REAL, 1, span);
    expr->real = value;
    return expr;
}

Expr *parse_unary(Parse *parse, Operator operator_, Expr *a, Span span) {
    Expr *expr = parse_node(parse, EXPR_UNARY, parse_deeper(1, a), span);
    expr->operator_ = operator_;
    expr->a = a;
    return expr;
}

Expr *parse_binary(Parse *parse, Operator operator_, Expr *a, Expr *b, Span operator_span) {
    Expr *expr = parse_node(parse, EXPR_BINARY, parse_deeper(parse_deeper(1, a), b),
                            parse_join(a->span, b->span, operator_span));
    expr->operator_ = operator_;
    expr->a = a;
    expr->b = b;
    return expr;
}

Expr *parse_call(Parse *parse, Word callee, const ArgumentList *arguments, Span span) {
    int depth = 1;
    for (size_t i = 0; i < arguments->n; i++)
        depth = parse_deeper(depth, arguments->at[i].value);
    Expr *expr = parse_node(parse, EXPR_CALL, depth, span);
    expr->callee = callee;
    expr->arguments = *arguments;
    return expr;
}

Expr *parse_list(Parse *parse, const ExprList *items, Span span) {
    int depth = 1;
    for (size_t i = 0; i < items->n; i++)
        depth = parse_deeper(depth, items->at[i]);
    Expr *expr = parse_node(parse, EXPR_LIST, depth, span);
    expr->items = *items;
    return expr;
}

Expr *parse_field(Parse *parse, Expr *of, Word field) {
    Expr *expr =
        parse_node(parse, EXPR_FIELD, parse_deeper(1, of), parse_join(of->span, field.span, field.span));
    expr->of = of;
    expr->field = field.text;
    return expr;
}

Expr *parse_index(Parse *parse, Expr *of, const IndexList *items, Span span) {
    int depth = parse_deeper(1, of);
    for (size_t i = 0; i < items->n; i++) {
        const IndexItem *item = &items->at[i];
        depth = parse_deeper(parse_deeper(depth, item->at), item->start);
        depth = parse_deeper(parse_deeper(depth, item->limit), item->step);
    }
    Expr *expr = parse_node(parse, EXPR_INDEX, depth, span);
    expr->indexed = of;
    expr->indices = *items;
    return expr;
}

Expr *parse_if(Parse *parse, Expr *then, Expr *condition, Expr *otherwise) {
    int depth = parse_deeper(parse_deeper(parse_deeper(1, then), condition), otherwise);
    Expr *expr = parse_node(parse, EXPR_IF, depth, parse_join(then->span, otherwise->span, condition->span));
    expr->then = then;
    expr->condition = condition;
    expr->otherwise = otherwise;
    return expr;
}

/* Room doubles at each power of two: a set's length tells how much it has. */
void parse_set_add(Parse *parse, CheckItem *item, int64_t value) {
    if (!parse_count(parse, item->span))
        return;
    if ((item->n_set & (item->n_set - 1)) == 0) {
        int64_t *fresh = ARENA_ARRAY(parse->arena, int64_t, (size_t)(item->n_set ? 2 * item->n_set : 1));
        if (item->n_set)
            memcpy(fresh, item->set, (size_t)item->n_set * sizeof *fresh);
        item->set = fresh;
    }
    ((int64_t *)item->set)[item->n_set++] = value;
}

const char *parse_quote(Arena *arena, const char *text, size_t n) {
    enum { SHOWN = 40 };
    Text out = text_new(arena);
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= ' ' && byte < 0x7f)
            text_add_bytes(&out, text + i, 1);
        else
            text_add(&out, "\\x%02x", byte);
    }
    if (n > SHOWN)
        text_add(&out, "...");
    return out.at;
}

static yyscan_t parse_start(Parse *parse) {
    yyscan_t scanner;
    if (sglex_init_extra(parse, &scanner) != 0)
        arena_give_up(parse->arena);
    sg_scan_bytes(parse->source->text, (int)parse->source->n, scanner);
    return scanner;
}

void parse_tokens(Arena *arena, SourceSet *sources, uint32_t file, Diags *diags, TokenList *out) {
    Parse parse = {.arena = arena,
                   .diags = diags,
                   .source = &sources->files.at[file - 1],
                   .file = file,
                   .limits = frontend_limits(NULL),
                   .last = END};
    yyscan_t scanner = parse_start(&parse);
    SGSTYPE value;
    Token token;
    while ((token.kind = sglex(&value, &token.span, scanner)) != END)
        vec_push(arena, out, token);
}

bool parse_source(Arena *arena, SourceSet *sources, uint32_t file, const FrontendLimits *limits, Diags *diags,
                  ModuleSyntax *out) {
    *out = (ModuleSyntax){0};
    const Source *source = &sources->files.at[file - 1];
    Parse parse = {.arena = arena,
                   .diags = diags,
                   .source = source,
                   .file = file,
                   .limits = frontend_limits(limits),
                   .module = out,
                   .last = END};
    if (source->n > parse.limits.max_bytes || source->n > INT32_MAX - 2) {
        Span start = {file, 0, 1, 0};
        diag_error(diags, DIAG_LIMIT, start, "the text has %zu bytes; %zu are the most", source->n,
                   parse.limits.max_bytes);
        return false;
    }
    /* The scanner starts a token over at each NUL inside it, so that a long comment full of them would take
     * forever. */
    const char *nul = memchr(source->text, 0, source->n);
    if (nul) {
        uint32_t at = (uint32_t)(nul - source->text);
        diag_error(diags, DIAG_SYNTAX, (Span){file, at, at + 1, at},
                   "'\\x00' has no meaning here: this is not text");
        return false;
    }
    int result = sgparse(parse_start(&parse), &parse);
    return result == 0 && !parse.failed;
}
