/* From expressions to Values: what names and expressions mean while one graph is built, and the functions
 * that work it out.
 *
 * Much of the language is known when the graph is written: numbers, dims, lists, words. A Meaning is such a
 * thing, or a tensor (a Value of the graph). Numbers are weak: they take the type of what they meet
 * (operators.c) and become constants only there. MEANING_FAILED stands for what an error has been reported
 * about; whatever it touches is MEANING_FAILED too, silently. */
#ifndef SINTER_FRONTEND_EXPAND_H
#define SINTER_FRONTEND_EXPAND_H

#include "frontend/parse.h"
#include "ir/graph.h"

typedef enum MeaningKind {
    MEANING_FAILED,
    MEANING_TENSOR,
    MEANING_WHOLE, /* weak whole number */
    MEANING_REAL,  /* weak real number */
    MEANING_DIM,   /* a dim, or a sum, product, ... of dims */
    MEANING_TRUTH, /* true, false */
    MEANING_TYPE,  /* bf16 */
    MEANING_WORD,  /* one of the choices of a parameter */
    MEANING_LIST,
    MEANING_SEVERAL, /* results of a call */
    MEANING_NONE,    /* the absent argument */
} MeaningKind;

typedef struct Meaning Meaning;
struct Meaning {
    MeaningKind kind;
    union {
        Value *value;
        int64_t whole;
        double real;
        const Dim *dim;
        bool truth;
        DType dtype;
        const char *word;
        struct {
            Meaning *at;
            int n;
        } list; /* MEANING_LIST, MEANING_SEVERAL */
    };
};

/* What a Value was worked out from, as products ask; a Value's `scratch` while its graph is built. */
typedef struct ProductOrigin ProductOrigin;

/* What a name stands for in a scope. */
typedef struct Binding {
    Meaning meaning;
    Span declared;
} Binding;

/* The names that a body sees: of the graph, or of the call that is being inlined. Scopes do not nest. */
typedef struct Scope {
    Names names;                    /* Binding */
    const FunctionSyntax *function; /* NULL: the graph's own body */
    struct Scope *caller;
    Span call; /* in the caller */
} Scope;

typedef struct Expand {
    Arena *arena;
    Diags *diags;
    const FrontendLimits *limits;
    Graph *graph;
    Names *functions; /* FunctionSyntax; the file's own hide the library's */
    Scope *scope;
    Names outputs;     /* TypeMeaning: what the graph's results are declared to be */
    Names value_names; /* int: the last number put behind a name; taken by Values or reserved by the text */
    int calls;         /* nested */
    int depth;         /* of C's stack, in expressions */
    int64_t steps;     /* expressions worked out, over the whole file */
    size_t n_traced;   /* Values of the graph whose ProductOrigin is known */
    bool stopped;      /* a limit was met and reported: everything fails from here */
} Expand;

/* ---- expand.c: scopes, functions, expressions ---- */
Meaning expand_expr(Expand *expand, const Expr *expr);
void expand_bind(Expand *expand, Word name, Meaning meaning);
/* The place that a Value made for `span` is said to come from: inside the library, the call that led there.
 */
Span expand_place(const Expand *expand, Span span);
/* One error; inside functions followed by notes that name the calls. Gives MEANING_FAILED. */
Meaning expand_fail(Expand *expand, DiagId id, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* graph_append() with the limits watched and the declarations of the operands noted on an error. */
Meaning expand_append(Expand *expand, OpKind op, Value **in, int n_in, const Attr *attrs, Span span);
const char *meaning_noun(const Meaning *meaning); /* "a tensor", "a word", ... */

/* ---- statements.c ---- */
/* The statements of a body. False where none is a `return`, whose Meaning *result takes. */
bool statement_body(Expand *expand, const StatementList *body, Meaning *result);

/* ---- types.c: what a written type demands ---- */
typedef struct TypeMeaning {
    DType dtype;
    bool has_dims;
    int rank;
    const Dim *dims[RANK_MAX];
    const Dim **strides; /* NULL: packed */
} TypeMeaning;
/* Names in the dims of a signature's type become symbols of the graph. */
void type_declare(Expand *expand, const TypeSyntax *syntax);
bool type_meaning(Expand *expand, const TypeSyntax *syntax, TypeMeaning *out);
/* `value` as a declaration demands it: cast where the element type differs, refused where the dims do. */
Meaning type_apply(Expand *expand, Meaning value, const TypeMeaning *type, Word name, Span span);

/* ---- operators.c: arithmetic, weak numbers, the matrix product ---- */
Meaning operator_unary(Expand *expand, const Expr *expr, Meaning a);
Meaning operator_binary(Expand *expand, const Expr *expr, Meaning a, Meaning b);
/* A scalar primitive on meanings: worked out now where all are numbers, else with the numbers made constants
 * that fit. */
Meaning operator_scalar(Expand *expand, OpKind op, Meaning *operands, int n, Span span);
/* A tensor, where need be a constant of the type given (DTYPE_COUNT: the number's own). NULL after an error.
 */
Value *operator_tensor(Expand *expand, Meaning meaning, DType type, Span span);
bool meaning_is_number(const Meaning *meaning); /* known now: whole, real, truth, or a dim */
/* As a Dim; NULL, after an error that names `what`, where it is none. */
const Dim *meaning_dim(Expand *expand, Meaning meaning, Span span, const char *what);
Meaning meaning_of_dim(const Dim *dim);                              /* a constant one is a whole number */
bool meaning_equal(const Meaning *a, const Meaning *b, bool *equal); /* false where that is not known now */
Meaning operator_cast(Expand *expand, Meaning a, DType type, Span span);

/* ---- product.c: the matrix product ---- */
/* a @ b, computed operands cast to 16 bits where both come of tensors of such a type. */
Meaning product_of(Expand *expand, Meaning left, Meaning right, Span span);
/* Tensor a as it is multiplied with tensor b. */
Meaning product_factor(Expand *expand, Meaning a, Meaning b, Span span);
/* Marks a tensor whose type the text asks for, so that products leave it alone. */
Meaning product_declare(Expand *expand, Meaning tensor);

/* ---- indexing.c: a[...], a.T ---- */
Meaning indexing_field(Expand *expand, const Expr *expr, Meaning of);
Meaning indexing_index(Expand *expand, const Expr *expr, Meaning of);
Meaning indexing_reshape(Expand *expand, Value *of, int rank, const Dim *const *dims, Span span);
/* Elements start, ... limit - 1 along one axis. */
Meaning indexing_part(Expand *expand, Value *of, int axis, const Dim *start, const Dim *limit, Span span);

/* ---- windows.c, windows_back.c ---- */
/* windows(x, size, stride, pad, dilation, border): what windows over the axes between the first and the last
 * have, at every place where they fit; bordered first. [N, H, W, C] gives [N, P, Q, C, R, S]. */
Meaning windows_call(Expand *expand, const Expr *syntax, const Meaning *arguments);
/* windows_back(x, size, stride, pad, dilation, of): of each element of a tensor with inner axes `of`, where x
 * has an element for each of its windows, those of the windows that it was in, in the order of its place in
 * them: [N, P, Q, C] gives [N, H, W, C, R, S], zeros for windows that are none. */
Meaning windows_back_call(Expand *expand, const Expr *syntax, const Meaning *arguments);
/* phases(x, size, stride, pad, dilation, of, w): the same of every stride-th element, [N, I, J, C, T, U],
 * weights w [C, R, S, K] for all those between, [C, T, a, U, b, K]: of element stride * i + a; and the list
 * of sizes. */
Meaning phases_call(Expand *expand, const Expr *syntax, const Meaning *arguments);

/* ---- calls.c: primitives and built-in functions ---- */
/* A call of what is no `fn`: arguments in order, names NULL for positional ones. */
Meaning call_builtin(Expand *expand, const Expr *call, const Meaning *arguments);
bool call_is_builtin(const char *name);
bool call_is_planned(const char *name); /* named by the language, not supported yet */
void call_suggest(Suggestion *suggestion);
/* A number or a dim as an axis of a tensor of these dims; -1 after an error. */
int call_axis(Expand *expand, Meaning meaning, int rank, const Dim *const *dims, Span span);

/* ---- topk.c ---- */
/* The k largest of `x` along an axis: two results, values (of `of` at the same places, where it is not NULL)
 * and i64 places. */
Meaning topk_call(Expand *expand, Value *x, int64_t k, int axis, Value *of, Span span);

/* ---- queries.c: functions that answer when the graph is written ---- */
bool query_is(const char *name);
void query_suggest(Suggestion *suggestion);
Meaning query_call(Expand *expand, const Expr *call, const Meaning *arguments);

#endif
