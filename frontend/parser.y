/* Tokens -> syntax tree. Pure and reentrant; everything on its stack lies in the parse's arena, so giving up midway leaks nothing.
 *
 * After an error the parser goes on behind the statement (newline, ';' or '}') or at the next definition, so that one run reports
 * several errors. */
%code requires {
#include "frontend/parse.h"
}

/* Flex knows the two types by these names alone. */
%code provides {
#define YYSTYPE SGSTYPE
#define YYLTYPE SGLTYPE
}

%code {
#include "frontend/lexer.h"

#define YYINITDEPTH 200
#define YYMAXDEPTH 20000
#define YYSTACK_ALLOC(n) arena_alloc(parse->arena, (n))
#define YYSTACK_ALLOC_MAXIMUM SIZE_MAX
#define YYLLOC_DEFAULT(Now, Rhs, N)                                                                                    \
    do {                                                                                                               \
        (Now).file = parse->file;                                                                                      \
        (Now).begin = (N) ? YYRHSLOC(Rhs, 1).begin : YYRHSLOC(Rhs, 0).end;                                             \
        (Now).end = (N) ? YYRHSLOC(Rhs, N).end : YYRHSLOC(Rhs, 0).end;                                                 \
        (Now).caret = (Now).begin;                                                                                     \
    } while (0)
#define PUSH(list, item)                                                                                               \
    do {                                                                                                               \
        if (parse_count(parse, yyloc))                                                                                    \
            vec_push(parse->arena, &(list), (item));                                                                   \
    } while (0)

static void sgerror(const Span *place, void *scanner, Parse *parse, const char *message);
static Span parser_at(Span span, Span caret);
}

%define api.pure full
%define api.prefix {sg}
%define api.value.type union
%define api.location.type {Span}
%define parse.error custom
/* Errors are found before reductions hide what could have stood there. */
%define lr.type canonical-lr
%define lr.default-reduction consistent
%locations
%expect 0
%lex-param {void *scanner}
%parse-param {void *scanner} {Parse *parse}

%token <Word> NAME "a name"
%token <Word> HINT "a hint"
%token <int64_t> WHOLE "a whole number"
%token <double> REAL "a number"
%token <HintArgument> TILE "a tile"
%token <Word> SINTER "'sinter'" GRAPH "'graph'" FN "'fn'" CHECK "'check'" GRAD "'grad'" WHERE "'where'"
%token <Word> IN "'in'" RETURN "'return'" IF "'if'" ELSE "'else'"
%token NEWLINE "the end of the line"
%token ARROW "'->'" POWER "'**'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='" AND "'&&'" OR "'||'" ELLIPSIS "'...'"
%token END 0 "the end of the file"

%type <Expr *> expr or and comparison sum term unary power postfix primary optional
%type <ExprList> exprs exprs1 dims
%type <Argument> argument
%type <ArgumentList> arguments arguments1
%type <IndexItem> index
%type <IndexList> indices
%type <TypeSyntax *> type
%type <Declaration> parameter target
%type <DeclarationList> parameters parameters1 targets
%type <Statement> statement
%type <StatementList> body lines
%type <HintArgument> hint_argument
%type <HintArgumentList> hint_arguments hint_arguments1
%type <HintList> hints
%type <Operator> relation
%type <ConstraintSyntax> constraint chain
%type <ConstraintList> where constraints
%type <FunctionParameter> function_parameter
%type <FunctionParameterList> function_parameters function_parameters1
%type <WordList> choices
%type <CheckItem> set numbers check_item
%type <CheckItemList> check_items

%%

module: version items;

version:
    SINTER WHOLE {
        if ($2 != 1)
            parse_error(parse, DIAG_VERSION, @2,
                        text_format(parse->arena, "version %lld of the language is not known: this is version 1", (long long)$2));
    }
  | SINTER REAL { parse_error(parse, DIAG_VERSION, @2, "the version of the language is a whole number: 'sinter 1'"); }
  | %empty {
        Span start = {parse->file, 0, parse->source->n > 0, 0};
        parse_error(parse, DIAG_VERSION, start, "a graph file starts with 'sinter 1', the version of the language");
    };

items: %empty | items item;

graph_word: GRAPH { yyerrok; };
fn_word: FN { yyerrok; };
check_word: CHECK { yyerrok; };
grad_word: GRAD { yyerrok; };

item: graph | function | check | gradient | error;

graph: graph_word NAME '(' parameters ')' ARROW '(' parameters ')' where body {
        GraphSyntax *graph = ARENA_NEW(parse->arena, GraphSyntax);
        *graph = (GraphSyntax){$2, $4, $8, $10, $11, parser_at(@$, @2)};
        PUSH(parse->module->graphs, graph);
    };

parameters: %empty { $$ = (DeclarationList){0}; } | parameters1 | parameters1 ',' | error { $$ = (DeclarationList){0}; };
parameters1:
    parameter { $$ = (DeclarationList){0}; PUSH($$, $1); }
  | parameters1 ',' parameter { $$ = $1; PUSH($$, $3); };
parameter: NAME ':' type { $$ = (Declaration){$1, $3, @$}; };

type:
    NAME { $$ = ARENA_NEW(parse->arena, TypeSyntax); $$->dtype = $1; $$->span = @$; }
  | NAME '[' dims ']' {
        $$ = ARENA_NEW(parse->arena, TypeSyntax);
        *$$ = (TypeSyntax){.dtype = $1, .has_dims = true, .dims = $3, .span = @$};
    }
  | NAME '[' dims ':' NAME ']' {
        $$ = ARENA_NEW(parse->arena, TypeSyntax);
        *$$ = (TypeSyntax){.dtype = $1, .has_dims = true, .dims = $3, .layout = $5, .span = @$};
    }
  | NAME '[' dims ':' NAME '=' '[' exprs ']' ']' {
        if (strcmp($5.text, "strides") != 0)
            parse_error(parse, DIAG_SYNTAX, @5, "a layout is written 'NHWC' or 'strides=[...]'");
        $$ = ARENA_NEW(parse->arena, TypeSyntax);
        *$$ = (TypeSyntax){.dtype = $1, .has_dims = true, .dims = $3, .has_strides = true, .strides = $8, .span = @$};
    };
dims: exprs;

where: %empty { $$ = (ConstraintList){0}; } | WHERE constraints { $$ = $2; } | WHERE constraints ',' { $$ = $2; };
constraints:
    constraint { $$ = (ConstraintList){0}; PUSH($$, $1); }
  | constraints ',' constraint { $$ = $1; PUSH($$, $3); };
constraint:
    chain { $$ = $1; $$.span = @$; }
  | sum IN set {
        $$ = (ConstraintSyntax){.is_set = true, .set = $3.set, .n_set = $3.n_set, .span = parser_at(@$, @2)};
        PUSH($$.terms, $1);
    };
chain:
    sum relation sum {
        $$ = (ConstraintSyntax){.span = @$};
        PUSH($$.terms, $1);
        PUSH($$.terms, $3);
        PUSH($$.relations, $2);
    }
  | chain relation sum { $$ = $1; PUSH($$.terms, $3); PUSH($$.relations, $2); };
relation: EQ { $$ = OPERATOR_EQ; } | NE { $$ = OPERATOR_NE; } | '<' { $$ = OPERATOR_LT; } | LE { $$ = OPERATOR_LE; }
  | '>' { $$ = OPERATOR_GT; } | GE { $$ = OPERATOR_GE; };

set: '{' numbers '}' { $$ = $2; } | '{' numbers ',' '}' { $$ = $2; };
numbers:
    WHOLE { $$ = (CheckItem){0}; parse_set_add(parse, &$$, $1); }
  | numbers ',' WHOLE { $$ = $1; parse_set_add(parse, &$$, $3); };

body: '{' lines '}' { $$ = $2; };
lines:
    line_end { $$ = (StatementList){0}; }
  | statement { $$ = (StatementList){0}; PUSH($$, $1); }
  | lines separator line_end { $$ = $1; }
  | lines separator statement { $$ = $1; PUSH($$, $3); }
  | error { $$ = (StatementList){0}; }
  | lines separator error { $$ = $1; };
line_end: %empty;
/* Behind a line end, errors count again. */
separator: NEWLINE { yyerrok; } | ';' { yyerrok; };

statement:
    targets '=' expr hints {
        $$ = (Statement){.targets = $1, .hints = $4, .span = @$};
        PUSH($$.values, $3);
    }
  | RETURN exprs1 { $$ = (Statement){.values = $2, .is_return = true, .span = @$}; };
targets:
    target { $$ = (DeclarationList){0}; PUSH($$, $1); }
  | targets ',' target { $$ = $1; PUSH($$, $3); };
target: NAME { $$ = (Declaration){$1, NULL, @$}; } | NAME ':' type { $$ = (Declaration){$1, $3, @$}; };

hints: %empty { $$ = (HintList){0}; }
  | hints HINT '(' hint_arguments ')' {
        HintSyntax hint = {$2, $4, {0}};
        hint.span = @2;
        hint.span.end = @5.end;
        $$ = $1;
        PUSH($$, hint);
    };
hint_arguments: %empty { $$ = (HintArgumentList){0}; } | hint_arguments1;
hint_arguments1:
    hint_argument { $$ = (HintArgumentList){0}; PUSH($$, $1); }
  | hint_arguments1 ',' hint_argument { $$ = $1; PUSH($$, $3); };
hint_argument:
    NAME { $$ = (HintArgument){.name = $1}; }
  | NAME '=' NAME { $$ = (HintArgument){.name = $1, .word = $3.text}; }
  | NAME '=' WHOLE { $$ = (HintArgument){.name = $1, .values = {$3}, .n = 1}; }
  | NAME '=' TILE { $$ = $3; $$.name = $1; };

function: fn_word NAME '(' function_parameters ')' body {
        FunctionSyntax *function = ARENA_NEW(parse->arena, FunctionSyntax);
        *function = (FunctionSyntax){.name = $2, .parameters = $4, .body = $6};
        PUSH(parse->module->functions, function);
    };
function_parameters: %empty { $$ = (FunctionParameterList){0}; } | function_parameters1
  | function_parameters1 ',' | error { $$ = (FunctionParameterList){0}; };
function_parameters1:
    function_parameter { $$ = (FunctionParameterList){0}; PUSH($$, $1); }
  | function_parameters1 ',' function_parameter { $$ = $1; PUSH($$, $3); };
function_parameter:
    NAME { $$ = (FunctionParameter){.name = $1}; }
  | NAME '=' expr { $$ = (FunctionParameter){.name = $1, .fallback = $3}; }
  | NAME ':' choices { $$ = (FunctionParameter){.name = $1, .choices = $3}; }
  | NAME ':' choices '=' expr { $$ = (FunctionParameter){.name = $1, .choices = $3, .fallback = $5}; };
choices:
    NAME { $$ = (WordList){0}; PUSH($$, $1); }
  | choices '|' NAME { $$ = $1; PUSH($$, $3); };

check: check_word NAME '{' check_items '}' {
        CheckSyntax *check = ARENA_NEW(parse->arena, CheckSyntax);
        *check = (CheckSyntax){$2, $4, parser_at(@$, @2)};
        PUSH(parse->module->checks, check);
    };
check_items:
    line_end { $$ = (CheckItemList){0}; }
  | check_item { $$ = (CheckItemList){0}; PUSH($$, $1); }
  | check_items separator line_end { $$ = $1; }
  | check_items separator check_item { $$ = $1; PUSH($$, $3); }
  | error { $$ = (CheckItemList){0}; }
  | check_items separator error { $$ = $1; };
check_item:
    NAME IN set { $$ = $3; $$.name = $1; $$.span = @$; }
  | NAME '=' WHOLE { $$ = (CheckItem){.name = $1, .span = @$}; parse_set_add(parse, &$$, $3); }
  | NAME '=' REAL { $$ = (CheckItem){.name = $1, .is_real = true, .real = $3, .span = @$}; };

gradient: grad_word NAME '=' NAME '(' arguments ')' {
        GradientSyntax *gradient = ARENA_NEW(parse->arena, GradientSyntax);
        *gradient = (GradientSyntax){$2, $4, $6, parser_at(@$, @2)};
        PUSH(parse->module->gradients, gradient);
    };

expr: or | or IF or ELSE expr { $$ = parse_if(parse, $1, $3, $5); };
or: and | or OR and { $$ = parse_binary(parse, OPERATOR_OR, $1, $3, @2); };
and: comparison | and AND comparison { $$ = parse_binary(parse, OPERATOR_AND, $1, $3, @2); };
comparison: sum | sum relation sum { $$ = parse_binary(parse, $2, $1, $3, @2); };
sum: term
  | sum '+' term { $$ = parse_binary(parse, OPERATOR_ADD, $1, $3, @2); }
  | sum '-' term { $$ = parse_binary(parse, OPERATOR_SUB, $1, $3, @2); };
term: unary
  | term '*' unary { $$ = parse_binary(parse, OPERATOR_MUL, $1, $3, @2); }
  | term '/' unary { $$ = parse_binary(parse, OPERATOR_DIV, $1, $3, @2); }
  | term '%' unary { $$ = parse_binary(parse, OPERATOR_MOD, $1, $3, @2); }
  | term '@' unary { $$ = parse_binary(parse, OPERATOR_MATMUL, $1, $3, @2); };
unary: power
  | '-' unary { $$ = parse_unary(parse, OPERATOR_NEG, $2, @$); }
  | '!' unary { $$ = parse_unary(parse, OPERATOR_NOT, $2, @$); };
power: postfix | postfix POWER unary { $$ = parse_binary(parse, OPERATOR_POW, $1, $3, @2); };
postfix: primary
  | NAME '(' arguments ')' { $$ = parse_call(parse, $1, &$3, @$); }
  | postfix '.' NAME { $$ = parse_field(parse, $1, $3); }
  | postfix '[' indices ']' { $$ = parse_index(parse, $1, &$3, parser_at(@$, @2)); };
primary:
    NAME { $$ = parse_name(parse, $1); }
  | WHOLE { $$ = parse_whole(parse, $1, @1); }
  | REAL { $$ = parse_real(parse, $1, @1); }
  | '(' expr ')' { $$ = $2; }
  | '[' exprs ']' { $$ = parse_list(parse, &$2, @$); };

exprs: %empty { $$ = (ExprList){0}; } | exprs1 | exprs1 ',';
exprs1: expr { $$ = (ExprList){0}; PUSH($$, $1); } | exprs1 ',' expr { $$ = $1; PUSH($$, $3); };

arguments: %empty { $$ = (ArgumentList){0}; } | arguments1 | arguments1 ',';
arguments1: argument { $$ = (ArgumentList){0}; PUSH($$, $1); } | arguments1 ',' argument { $$ = $1; PUSH($$, $3); };
argument: expr { $$ = (Argument){.value = $1}; } | NAME '=' expr { $$ = (Argument){$1, $3}; };

indices: index { $$ = (IndexList){0}; PUSH($$, $1); } | indices ',' index { $$ = $1; PUSH($$, $3); };
index:
    expr { $$ = (IndexItem){.kind = INDEX_AT, .at = $1, .span = @$}; }
  | ELLIPSIS { $$ = (IndexItem){.kind = INDEX_ELLIPSIS, .span = @$}; }
  | optional ':' optional { $$ = (IndexItem){.kind = INDEX_RANGE, .start = $1, .limit = $3, .span = @$}; }
  | optional ':' optional ':' optional {
        $$ = (IndexItem){.kind = INDEX_RANGE, .start = $1, .limit = $3, .step = $5, .span = @$};
    };
optional: %empty { $$ = NULL; } | expr;

%%

/* The range of one place with the caret at another. */
static Span parser_at(Span span, Span caret) {
    span.caret = caret.begin;
    return span;
}

/* Called by the parser itself only where its stack is full. */
static void sgerror(const Span *place, void *scanner, Parse *parse, const char *message) {
    (void)scanner;
    (void)message;
    if (!parse->refused)
        parse_error(parse, DIAG_LIMIT, *place, "the text is nested too deeply");
    parse->refused = true;
}

/* Note where the bracket opened that the parser still misses, if that is not plain to see on the same line. */
static void parser_note_open(Parse *parse, Span place, bool wants_closing, bool at_end) {
    if (!wants_closing || parse->open.n == 0)
        return;
    Bracket bracket = parse->open.at[parse->open.n - 1];
    if (bracket.opener == '{' && !at_end)
        return;
    for (uint32_t i = bracket.at; i < place.begin; i++)
        if (parse->source->text[i] == '\n') {
            Span span = {parse->file, bracket.at, bracket.at + 1, bracket.at};
            diag_note(parse->diags, span, "this '%c' is still open", bracket.opener);
            return;
        }
}

static bool parser_is_operator(yysymbol_kind_t kind) {
    static const char *const texts[] = {"'+'", "'-'", "'*'", "'/'", "'%'", "'@'", "'**'", "'=='", "'!='", "'<'", "'<='",
                                        "'>'", "'>='", "'&&'", "'||'", "'.'", "'['", "'('", "'if'"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i], yysymbol_name(kind)) == 0)
            return true;
    return false;
}

/* Leaves out the infix operators, which may stand behind every operand. */
static int parser_expected(const yypcontext_t *context, yysymbol_kind_t *expected, int most, bool *operand) {
    int n = yypcontext_expected_tokens(context, expected, most), kept = 0;
    bool after_operand = false, name = false, number = false;
    for (int i = 0; i < n; i++) {
        after_operand |= strcmp(yysymbol_name(expected[i]), "'*'") == 0;
        name |= expected[i] == YYSYMBOL_NAME;
        number |= expected[i] == YYSYMBOL_WHOLE;
    }
    *operand = name && number && !after_operand;
    for (int i = 0; i < n; i++)
        if (!(after_operand && parser_is_operator(expected[i])))
            expected[kept++] = expected[i];
    return kept;
}

static int yyreport_syntax_error(const yypcontext_t *context, void *scanner, Parse *parse) {
    enum { MOST = 64, SHOWN = 5 };
    (void)scanner;
    if (parse->refused)
        return 0;
    yysymbol_kind_t expected[MOST];
    bool operand, wants_closing = false;
    int n = parser_expected(context, expected, MOST, &operand);
    Span place = *yypcontext_location(context);
    yysymbol_kind_t found = yypcontext_token(context);
    Text text = text_new(parse->arena);
    for (int i = 0; i < n; i++) {
        const char *name = yysymbol_name(expected[i]);
        wants_closing |= strcmp(name, "')'") == 0 || strcmp(name, "']'") == 0 || strcmp(name, "'}'") == 0;
    }
    if (found == YYSYMBOL_YYEOF || found == YYSYMBOL_NEWLINE)
        text_add(&text, "%s comes too early", yysymbol_name(found));
    else
        text_add(&text, "'%s' is not expected here",
                 parse_quote(parse->arena, parse->source->text + place.begin, place.end - place.begin));
    if (found == YYSYMBOL_YYEOF && wants_closing && parse->open.n > 0)
        text_add(&text, ": a bracket is not closed");
    else if (operand)
        text_add(&text, ", an expression is");
    bool listed = !operand && !(found == YYSYMBOL_YYEOF && wants_closing);
    for (int i = 0; listed && n <= SHOWN && i < n; i++)
        text_add(&text, "%s%s%s", i == 0 ? ", " : i == n - 1 ? " or " : ", ", yysymbol_name(expected[i]), i == n - 1 ? " is" : "");
    parse_error(parse, DIAG_SYNTAX, place, text.at);
    parser_note_open(parse, place, wants_closing, found == YYSYMBOL_YYEOF);
    /* Skipping to the end of the statement needs newlines to count again. */
    while (parse->open.n > 0 && !parse->open.at[parse->open.n - 1].lines)
        parse->open.n--;
    return 0;
}
