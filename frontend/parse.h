/* What lexer, parser and their callers share during one parse. */
#ifndef SINTER_FRONTEND_PARSE_H
#define SINTER_FRONTEND_PARSE_H

#include "frontend/frontend.h"
#include "frontend/syntax.h"

/* An open bracket. Newlines end statements only directly inside the braces of a body. */
typedef struct Bracket {
    char opener;
    bool lines;
    uint32_t at;
} Bracket;

typedef struct Parse {
    Arena *arena;
    Diags *diags;
    const Source *source;
    uint32_t file;
    FrontendLimits limits; /* none zero */
    ModuleSyntax *module;
    uint32_t at;  /* the lexer's place */
    int last;     /* token before the place */
    uint32_t end; /* of the last token that is no line end */
    VEC(Bracket) open;
    size_t nodes;
    int errors;
    bool refused; /* a limit was met and reported: no more of these */
    bool failed;
} Parse;

/* Reads a source into a syntax tree. False where there was an error; the tree then holds what could be read.
 */
bool parse_source(Arena *arena, SourceSet *sources, uint32_t file, const FrontendLimits *limits, Diags *diags,
                  ModuleSyntax *out);
/* A token of a source, for the formatter. */
typedef struct Token {
    int kind; /* of parser.h */
    Span span;
} Token;
typedef VEC(Token) TokenList;
/* All tokens of a source that parses, without the end of the file. */
void parse_tokens(Arena *arena, SourceSet *sources, uint32_t file, Diags *diags, TokenList *out);
/* The limits with every zero replaced by its default. */
FrontendLimits frontend_limits(const FrontendLimits *limits);

/* For the grammar's actions. A tree that gets too deep or too large is reported once and replaced by a leaf.
 */
Expr *parse_name(Parse *parse, Word name);
Expr *parse_whole(Parse *parse, int64_t value, Span span);
Expr *parse_real(Parse *parse, double value, Span span);
Expr *parse_unary(Parse *parse, Operator operator_, Expr *a, Span span);
Expr *parse_binary(Parse *parse, Operator operator_, Expr *a, Expr *b, Span operator_span);
Expr *parse_call(Parse *parse, Word callee, const ArgumentList *arguments, Span span);
Expr *parse_list(Parse *parse, const ExprList *items, Span span);
Expr *parse_field(Parse *parse, Expr *of, Word field);
Expr *parse_index(Parse *parse, Expr *of, const IndexList *items, Span span);
Expr *parse_if(Parse *parse, Expr *then, Expr *condition, Expr *otherwise);
bool parse_count(Parse *parse, Span span); /* one more part; false where there are too many */
void parse_set_add(Parse *parse, CheckItem *item, int64_t value);
void parse_error(Parse *parse, DiagId id, Span span, const char *message);
/* `text[0..n)` with C's escapes for what a terminal must not see, at most 40 bytes of it. */
const char *parse_quote(Arena *arena, const char *text, size_t n);

#endif
