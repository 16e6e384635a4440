/* Functions that answer when the graph is written: what a tensor's dims and type are, and its parts. They let
 * functions of the language be written for any rank. */
#include "frontend/expand.h"

enum { QUERY_MOST_PARTS = 64 };

static Meaning query_list(Expand *expand, int n) {
    return (Meaning){.kind = MEANING_LIST, .list = {ARENA_ARRAY(expand->arena, Meaning, (size_t)n + 1), n}};
}

static Meaning query_dims(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    (void)syntax;
    Meaning list = query_list(expand, arguments[0].value->rank);
    for (int i = 0; i < list.list.n; i++)
        list.list.at[i] = meaning_of_dim(arguments[0].value->dims[i]);
    return list;
}

static bool query_is_number(const Meaning *argument) {
    return argument->kind == MEANING_WHOLE || argument->kind == MEANING_REAL || argument->kind == MEANING_DIM;
}

/* A number's rank is 0. */
static Meaning query_rank(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    (void)expand;
    (void)syntax;
    int rank = query_is_number(&arguments[0]) ? 0 : arguments[0].value->rank;
    return (Meaning){.kind = MEANING_WHOLE, .whole = rank};
}

static Meaning query_axis_number(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    const Value *of = arguments[0].value;
    int axis = call_axis(expand, arguments[1], of->rank, of->dims, syntax->arguments.at[1].value->span);
    return axis < 0 ? (Meaning){.kind = MEANING_FAILED} : (Meaning){.kind = MEANING_WHOLE, .whole = axis};
}

/* axes(x): all of them; axes(x, over): the numbers of one or several. */
static Meaning query_axes(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    const Value *of = arguments[0].value;
    bool all = syntax->arguments.n < 2, several = !all && arguments[1].kind == MEANING_LIST;
    Meaning list = query_list(expand, all ? of->rank : several ? arguments[1].list.n : 1);
    for (int i = 0; i < list.list.n; i++) {
        int axis = i;
        if (!all)
            axis = call_axis(expand, several ? arguments[1].list.at[i] : arguments[1], of->rank, of->dims,
                             syntax->arguments.at[1].value->span);
        if (axis < 0)
            return (Meaning){.kind = MEANING_FAILED};
        list.list.at[i] = (Meaning){.kind = MEANING_WHOLE, .whole = axis};
    }
    return list;
}

/* The product of the sizes of one or several axes. */
static Meaning query_size(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    Meaning axes = query_axes(expand, syntax, arguments);
    const Dim *size = dim_const(expand->graph->dims, 1);
    if (axes.kind == MEANING_FAILED)
        return axes;
    for (int i = 0; i < axes.list.n; i++)
        size = dim_mul(expand->graph->dims, size, arguments[0].value->dims[axes.list.at[i].whole]);
    return size ? meaning_of_dim(size)
                : expand_fail(expand, DIAG_DIM, syntax->span, "this size overflows 64 bits");
}

static Meaning query_type(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    (void)expand;
    (void)syntax;
    return (Meaning){.kind = MEANING_TYPE, .dtype = arguments[0].value->dtype};
}

/* x, as f32 where it is no float. */
static Meaning query_as_float(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    return dtype_is_float(arguments[0].value->dtype)
               ? arguments[0]
               : operator_cast(expand, arguments[0], DTYPE_F32, syntax->span);
}

/* x as x @ w takes it: what multiplies without being a matrix product rounds as that does. */
static Meaning query_as_factor(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    if (arguments[1].kind != MEANING_TENSOR)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, syntax->arguments.at[1].value->span,
                           "'as_factor' is for tensors, not for %s", meaning_noun(&arguments[1]));
    return product_factor(expand, arguments[0], arguments[1], syntax->span);
}

/* Part i of n equal ones, cut out of an axis of its own: so its size is N/n, not the difference of two
 * multiples of that. */
static Meaning query_share(Expand *expand, Value *parts, int axis, int64_t i, Span span) {
    DimTable *table = expand->graph->dims;
    Meaning part = indexing_part(expand, parts, axis, dim_const(table, i), dim_const(table, i + 1), span);
    if (part.kind != MEANING_TENSOR)
        return part;
    const Dim *dims[RANK_MAX];
    for (int k = 0; k < parts->rank - 1; k++)
        dims[k] = parts->dims[k < axis ? k : k + 1];
    return indexing_reshape(expand, part.value, parts->rank - 1, dims, span);
}

/* split(x, n, axis), where the axis has no fixed size. */
static Meaning query_split_symbolic(Expand *expand, Value *of, int axis, const Dim *share, Meaning parts,
                                    Span span) {
    if (of->rank == RANK_MAX)
        return expand_fail(expand, DIAG_RANK, span,
                           "a tensor of %d dims is split along axes of fixed size alone", RANK_MAX);
    const Dim *dims[RANK_MAX];
    for (int k = 0; k <= of->rank; k++)
        dims[k] = k < axis    ? of->dims[k]
                  : k == axis ? dim_const(expand->graph->dims, parts.list.n)
                              : of->dims[k - 1];
    dims[axis + 1] = share;
    Meaning wide = indexing_reshape(expand, of, of->rank + 1, dims, span);
    for (int i = 0; i < parts.list.n; i++) {
        if (wide.kind != MEANING_TENSOR)
            return wide;
        parts.list.at[i] = query_share(expand, wide.value, axis, i, span);
        if (parts.list.at[i].kind != MEANING_TENSOR)
            return parts.list.at[i];
    }
    return parts;
}

/* split(x, [a, b], axis): parts of these sizes. */
static Meaning query_split_sizes(Expand *expand, Value *of, int axis, const Dim *const *sizes, Meaning parts,
                                 Span span) {
    DimTable *table = expand->graph->dims;
    const Dim *start = dim_const(table, 0);
    for (int i = 0; i < parts.list.n; i++) {
        const Dim *limit = dim_add(table, start, sizes[i]);
        if (!limit)
            return expand_fail(expand, DIAG_DIM, span, "the sizes of the parts overflow");
        parts.list.at[i] = indexing_part(expand, of, axis, start, limit, span);
        if (parts.list.at[i].kind != MEANING_TENSOR)
            return parts.list.at[i];
        start = limit;
    }
    if (start == of->dims[axis])
        return parts;
    return expand_fail(expand, DIAG_SHAPE_MISMATCH, span, "the sizes do not add up to the size of axis %d",
                       axis);
}

static Meaning query_split(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    DimTable *table = expand->graph->dims;
    Value *of = arguments[0].value;
    bool third = syntax->arguments.n > 2, listed = arguments[1].kind == MEANING_LIST;
    Span span = syntax->arguments.at[1].value->span;
    int axis = call_axis(expand, third ? arguments[2] : (Meaning){.kind = MEANING_WHOLE, .whole = -1},
                         of->rank, of->dims, third ? syntax->arguments.at[2].value->span : syntax->span);
    if (axis < 0)
        return (Meaning){.kind = MEANING_FAILED};
    int64_t n = listed ? arguments[1].list.n : arguments[1].kind == MEANING_WHOLE ? arguments[1].whole : 0;
    if (n < 1 || n > QUERY_MOST_PARTS)
        return expand_fail(expand, DIAG_ATTRIBUTE, span,
                           "a tensor is split into 1 to %d parts, or into a list of sizes", QUERY_MOST_PARTS);
    const Dim *sizes[QUERY_MOST_PARTS], *whole = of->dims[axis];
    if (!listed && !dim_is(dim_mod(table, whole, dim_const(table, n)), 0)) {
        Text size = text_new(expand->arena);
        dim_print(&size, table, whole);
        return expand_fail(expand, DIAG_SHAPE_MISMATCH, syntax->span,
                           "axis %d has size %s, which is not known to be a multiple of %lld", axis, size.at,
                           (long long)n);
    }
    for (int i = 0; i < n; i++) {
        sizes[i] = listed ? meaning_dim(expand, arguments[1].list.at[i], span, "a size")
                          : dim_div(table, whole, dim_const(table, n));
        if (!sizes[i])
            return (Meaning){.kind = MEANING_FAILED};
    }
    Meaning parts = query_list(expand, (int)n);
    parts.kind = MEANING_SEVERAL;
    /* parts that are known to add up are slices; others, of a size that only divides, an axis of their own */
    if (!listed && n > 1 && dim_mul(table, sizes[0], dim_const(table, n)) != whole)
        return query_split_symbolic(expand, of, axis, sizes[0], parts, syntax->span);
    return query_split_sizes(expand, of, axis, sizes, parts, syntax->span);
}

/* topk(x, k, over=-1, of=x): values and places of the k largest; with `of`, what it has there. */
static Meaning query_topk(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    Value *x = arguments[0].value;
    size_t n = syntax->arguments.n;
    bool third = n > 2;
    int axis = call_axis(expand, third ? arguments[2] : (Meaning){.kind = MEANING_WHOLE, .whole = -1},
                         x->rank, x->dims, third ? syntax->arguments.at[2].value->span : syntax->span);
    if (axis < 0)
        return (Meaning){.kind = MEANING_FAILED};
    if (arguments[1].kind != MEANING_WHOLE)
        return expand_fail(expand, DIAG_ATTRIBUTE, syntax->arguments.at[1].value->span,
                           "topk takes a whole number of elements, not %s", meaning_noun(&arguments[1]));
    if (n > 3 && (arguments[3].kind != MEANING_TENSOR || !value_same_dims(arguments[3].value, x)))
        return expand_fail(expand, DIAG_SHAPE_MISMATCH, syntax->arguments.at[3].value->span,
                           "'of' is a tensor of the same dims");
    return topk_call(expand, x, arguments[1].whole, axis, n > 3 ? arguments[3].value : NULL, syntax->span);
}

typedef struct Query {
    const char *name;
    const char *parameters[7]; /* the first is a tensor, for rank also a number */
    int least, most;
    Meaning (*answer)(Expand *expand, const Expr *syntax, const Meaning *arguments);
} Query;

static const Query query_table[] = {
    {"dims", {"x"}, 1, 1, query_dims},
    {"rank", {"x"}, 1, 1, query_rank},
    {"axes", {"x", "over"}, 1, 2, query_axes},
    {"axis", {"x", "axis"}, 2, 2, query_axis_number},
    {"size", {"x", "axis"}, 2, 2, query_size},
    {"type", {"x"}, 1, 1, query_type},
    {"as_factor", {"x", "w"}, 2, 2, query_as_factor},
    {"as_float", {"x"}, 1, 1, query_as_float},
    {"split", {"x", "n", "axis"}, 2, 3, query_split},
    {"topk", {"x", "k", "over", "of"}, 2, 4, query_topk},
    {"windows_back", {"x", "size", "stride", "pad", "dilation", "of"}, 6, 6, windows_back_call},
    {"phases", {"x", "size", "stride", "pad", "dilation", "of", "w"}, 7, 7, phases_call},
    {"windows", {"x", "size", "stride", "pad", "dilation", "border"}, 6, 6, windows_call},
};

static const Query *query_find(const char *name) {
    for (size_t i = 0; i < sizeof query_table / sizeof *query_table; i++)
        if (strcmp(query_table[i].name, name) == 0)
            return &query_table[i];
    return NULL;
}

/* Arguments by name are accepted in the order of the parameters. */
static Meaning query_run(Expand *expand, const Expr *syntax, const Query *query, const Meaning *arguments) {
    int n = (int)syntax->arguments.n;
    if (n < query->least || n > query->most)
        return expand_fail(expand, DIAG_ARGUMENTS, syntax->callee.span, "'%s' takes %d argument%s, not %d",
                           query->name, query->most, query->most == 1 ? "" : "s", n);
    for (int i = 0; i < n; i++) {
        const Word *name = &syntax->arguments.at[i].name;
        if (name->text && strcmp(name->text, query->parameters[i]) != 0)
            return expand_fail(expand, DIAG_ARGUMENTS, name->span, "argument %d of '%s' is '%s'", i + 1,
                               query->name, query->parameters[i]);
    }
    bool takes_number = query->answer == query_rank && query_is_number(&arguments[0]);
    if (arguments[0].kind != MEANING_TENSOR && !takes_number)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, syntax->arguments.at[0].value->span,
                           "'%s' is for tensors, not for %s", query->name, meaning_noun(&arguments[0]));
    return query->answer(expand, syntax, arguments);
}

bool query_is(const char *name) {
    return query_find(name) != NULL;
}

void query_suggest(Suggestion *suggestion) {
    for (size_t i = 0; i < sizeof query_table / sizeof *query_table; i++)
        suggestion_offer(suggestion, query_table[i].name);
}

Meaning query_call(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    return query_run(expand, syntax, query_find(syntax->callee.text), arguments);
}
