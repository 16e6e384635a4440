/* The syntax tree: what the text says, before anybody asks what it means. All of it lies in one arena and is
 * never changed after parsing. Every node knows its bytes, so that a diagnostic can point at it. */
#ifndef SINTER_FRONTEND_SYNTAX_H
#define SINTER_FRONTEND_SYNTAX_H

#include "frontend/names.h"
#include "ir/base/diag.h"
#include "ir/dim.h"

typedef struct Expr Expr;
typedef VEC(Expr *) ExprList;

/* A name as written, with its place. */
typedef struct Word {
    const char *text;
    Span span;
} Word;
typedef VEC(Word) WordList;

/* Infix and prefix operators: OPERATOR(enum, text, name of the primitive that it stands for). ORDER OPERATOR
 */
#define OPERATORS(X)                                                                                         \
    X(ADD, "+", "add")                                                                                       \
    X(SUB, "-", "sub")                                                                                       \
    X(MUL, "*", "mul")                                                                                       \
    X(DIV, "/", "div")                                                                                       \
    X(MOD, "%", "mod")                                                                                       \
    X(POW, "**", "pow")                                                                                      \
    X(MATMUL, "@", "matmul")                                                                                 \
    X(EQ, "==", "eq")                                                                                        \
    X(NE, "!=", "ne")                                                                                        \
    X(LT, "<", "lt")                                                                                         \
    X(LE, "<=", "le")                                                                                        \
    X(GT, ">", "gt")                                                                                         \
    X(GE, ">=", "ge")                                                                                        \
    X(AND, "&&", "and")                                                                                      \
    X(OR, "||", "or")                                                                                        \
    X(NEG, "-", "neg")                                                                                       \
    X(NOT, "!", "not")
typedef enum Operator {
#define OPERATOR(ENUM, TEXT, NAME) OPERATOR_##ENUM,
    OPERATORS(OPERATOR)
#undef OPERATOR
} Operator;

typedef enum ExprKind {
    EXPR_NAME,   /* x */
    EXPR_WHOLE,  /* 3 */
    EXPR_REAL,   /* 3.0 */
    EXPR_UNARY,  /* -a, !a */
    EXPR_BINARY, /* a + b */
    EXPR_CALL,   /* f(a, k=b) */
    EXPR_LIST,   /* [a, b] */
    EXPR_FIELD,  /* a.T */
    EXPR_INDEX,  /* a[i, j:k, ...] */
    EXPR_IF,     /* a if c else b */
} ExprKind;

/* `name=value`, or `value` alone (name.text NULL). */
typedef struct Argument {
    Word name;
    Expr *value;
} Argument;
typedef VEC(Argument) ArgumentList;

typedef enum IndexKind { INDEX_AT, INDEX_RANGE, INDEX_ELLIPSIS } IndexKind;
/* One place between the brackets of a[...]; a part that is not written is NULL. */
typedef struct IndexItem {
    IndexKind kind;
    Expr *at;                   /* INDEX_AT */
    Expr *start, *limit, *step; /* INDEX_RANGE */
    Span span;
} IndexItem;
typedef VEC(IndexItem) IndexList;

struct Expr {
    ExprKind kind;
    Operator operator_; /* EXPR_UNARY, EXPR_BINARY */
    int depth;          /* of the tree below, at least 1: bounds every recursive walk */
    Span span;          /* the caret stands at an infix operator */
    union {
        const char *name;
        int64_t whole;
        double real;
        struct {
            Expr *a, *b; /* b: EXPR_BINARY alone */
        };
        struct {
            Word callee;
            ArgumentList arguments;
        };
        ExprList items; /* EXPR_LIST */
        struct {
            Expr *of;
            const char *field;
        };
        struct {
            Expr *indexed;
            IndexList indices;
        };
        struct {
            Expr *condition, *then, *otherwise;
        };
    };
};

/* bf16[M, K], bf16[B,C,H,W : NHWC], bf16[M, K : strides=[1, M]], bf16 */
typedef struct TypeSyntax {
    Word dtype;
    bool has_dims;
    ExprList dims;
    Word layout; /* text NULL where none is written */
    bool has_strides;
    ExprList strides;
    Span span;
} TypeSyntax;

typedef struct HintArgument {
    Word name;
    int64_t values[4];
    int n;
    const char *word;
} HintArgument;
typedef VEC(HintArgument) HintArgumentList;
typedef struct HintSyntax {
    Word name;
    HintArgumentList arguments;
    Span span;
} HintSyntax;
typedef VEC(HintSyntax) HintList;

/* A name with a type, where one is written: a parameter, a result, or what a statement sets. */
typedef struct Declaration {
    Word name;
    TypeSyntax *type;
    Span span;
} Declaration;
typedef VEC(Declaration) DeclarationList;

/* `a, b = value`, or `return a, b` (no targets). */
typedef struct Statement {
    DeclarationList targets;
    ExprList values;
    HintList hints;
    bool is_return;
    Span span;
} Statement;
typedef VEC(Statement) StatementList;

/* a <= b < c, or a in {...}. */
typedef struct ConstraintSyntax {
    ExprList terms;
    VEC(Operator) relations; /* one fewer than the terms */
    bool is_set;
    const int64_t *set;
    int n_set;
    Span span;
} ConstraintSyntax;
typedef VEC(ConstraintSyntax) ConstraintList;

typedef struct FunctionParameter {
    Word name;
    WordList choices; /* words, one of which must be given; none: any value */
    Expr *fallback;   /* NULL: must be given */
} FunctionParameter;
typedef VEC(FunctionParameter) FunctionParameterList;

typedef struct FunctionSyntax {
    Word name;
    FunctionParameterList parameters;
    StatementList body;
    bool in_library;
} FunctionSyntax;

typedef struct GraphSyntax {
    Word name;
    DeclarationList parameters, results;
    ConstraintList constraints;
    StatementList body;
    Span span;
} GraphSyntax;

/* `M in {1, 17}`, `N = 8`, `rtol = 2e-2` */
typedef struct CheckItem {
    Word name;
    const int64_t *set; /* whole numbers, one for `=` */
    int n_set;
    bool is_real; /* `=` with a number that is not whole: in `real` */
    double real;
    Span span;
} CheckItem;
typedef VEC(CheckItem) CheckItemList;
typedef struct CheckSyntax {
    Word graph;
    CheckItemList items;
    Span span;
} CheckSyntax;

/* `grad name = callee(arguments)`, where the callee is to be `gradient`. */
typedef struct GradientSyntax {
    Word name, callee;
    ArgumentList arguments;
    Span span;
} GradientSyntax;

typedef struct ModuleSyntax {
    VEC(GraphSyntax *) graphs;
    VEC(FunctionSyntax *) functions;
    VEC(CheckSyntax *) checks;
    VEC(GradientSyntax *) gradients;
} ModuleSyntax;

const char *operator_text(Operator operator_);
const char *operator_primitive(Operator operator_); /* name of its row of the tables of operations */

#endif
