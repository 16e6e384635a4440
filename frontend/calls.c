/* Calls of what is no `fn`: rows of the tables of operations, element types as casts, and a few functions
 * that answer when the graph is written.
 *
 * A primitive takes its operands in order and then its attributes, in the order of their row or by name.
 * Where the row wants dims, a tensor stands for its own; where it wants an axis, a dim names it; where it
 * wants several, one need be no list. min and max with `over` are the reductions. */
#include "frontend/expand.h"

#include <math.h>

#include "ir/infer.h"

int call_axis(Expand *expand, Meaning meaning, int rank, const Dim *const *dims, Span span) {
    if (meaning.kind == MEANING_WHOLE) {
        int64_t axis = meaning.whole < 0 ? meaning.whole + rank : meaning.whole;
        if (axis >= 0 && axis < rank)
            return (int)axis;
        expand_fail(expand, DIAG_AXIS, span, "axis %lld is out of range: the tensor has %d dim%s",
                    (long long)meaning.whole, rank, rank == 1 ? "" : "s");
        return -1;
    }
    if (meaning.kind != MEANING_DIM) {
        if (meaning.kind != MEANING_FAILED)
            expand_fail(expand, DIAG_AXIS, span, "an axis is a number or the dim that it has, not %s",
                        meaning_noun(&meaning));
        return -1;
    }
    int found = -1;
    Text name = text_new(expand->arena);
    dim_print(&name, expand->graph->dims, meaning.dim);
    for (int i = 0; i < rank; i++) {
        if (dims[i] != meaning.dim)
            continue;
        if (found >= 0) {
            expand_fail(expand, DIAG_AXIS, span, "'%s' names axis %d and axis %d alike; give the number",
                        name.at, found, i);
            return -1;
        }
        found = i;
    }
    if (found < 0)
        expand_fail(expand, DIAG_AXIS, span, "the tensor has no dim '%s'", name.at);
    return found;
}

/* ---- attributes ---- */

typedef struct Call {
    Expand *expand;
    const Expr *syntax;
    OpKind op;
    Value **in;
    int n_in;
    Attr attrs[OP_MAX_ATTRS];
} Call;

static bool call_attr_axes(Call *call, Meaning meaning, Span span, Attr *out) {
    Meaning *items = meaning.kind == MEANING_LIST ? meaning.list.at : &meaning;
    int n = meaning.kind == MEANING_LIST ? meaning.list.n : 1;
    const Value *of = call->in[0];
    bool chosen[RANK_MAX] = {false};
    for (int i = 0; i < n; i++) {
        int axis = call_axis(call->expand, items[i], of->rank, of->dims, span);
        if (axis < 0)
            return false;
        if (chosen[axis]) {
            expand_fail(call->expand, DIAG_AXIS, span, "axis %d is given twice", axis);
            return false;
        }
        chosen[axis] = true;
    }
    out->axes.n = 0;
    for (int i = 0; i < of->rank; i++)
        if (chosen[i])
            out->axes.at[out->axes.n++] = i;
    return true;
}

/* One dim of a reshape may be -1: whatever is left. Dims that stand on both sides cancel first, so that M
 * need not be known to be other than 0. */
static bool call_attr_rest(Call *call, Attr *dims, int rest, Span span) {
    DimTable *table = call->expand->graph->dims;
    const Value *of = call->in[0];
    const Dim *count = dim_const(table, 1), *others = count;
    bool cancelled[RANK_MAX] = {false};
    for (int i = 0; i < dims->n_dims; i++) {
        bool found = i == rest;
        for (int j = 0; j < of->rank && !found; j++)
            if (!cancelled[j] && of->dims[j] == dims->dims[i])
                found = cancelled[j] = true;
        if (!found)
            others = dim_mul(table, others, dims->dims[i]);
    }
    for (int j = 0; j < of->rank; j++)
        if (!cancelled[j])
            count = dim_mul(table, count, of->dims[j]);
    bool divides = count && others && !(dim_is_const(others) && others->value <= 0);
    dims->dims[rest] = divides ? dim_div(table, count, others) : NULL;
    if (!dims->dims[rest] || dim_mul(table, dims->dims[rest], others) != count) {
        expand_fail(call->expand, DIAG_SHAPE_MISMATCH, span, "the dim for -1 cannot be worked out");
        return false;
    }
    return true;
}

static bool call_attr_dims(Call *call, Meaning meaning, const char *name, Span span, Attr *out) {
    if (meaning.kind == MEANING_TENSOR) {
        out->n_dims = meaning.value->rank;
        out->dims = meaning.value->dims;
        return true;
    }
    Meaning *items = meaning.kind == MEANING_LIST ? meaning.list.at : &meaning;
    int n = meaning.kind == MEANING_LIST ? meaning.list.n : 1;
    if (n > RANK_MAX) {
        expand_fail(call->expand, DIAG_RANK, span, "%d dims; %d are the most", n, RANK_MAX);
        return false;
    }
    out->n_dims = n;
    out->dims = ARENA_ARRAY(call->expand->arena, const Dim *, (size_t)n + 1);
    int rest = -1;
    for (int i = 0; i < n; i++) {
        if (call->op == OP_reshape && items[i].kind == MEANING_WHOLE && items[i].whole == -1 && rest < 0)
            rest = i;
        out->dims[i] = meaning_dim(call->expand, items[i], span, name);
        if (!out->dims[i])
            return false;
    }
    return rest < 0 || call_attr_rest(call, out, rest, span);
}

static bool call_attr_ints(Call *call, Meaning meaning, const char *name, Span span, Attr *out) {
    Meaning *items = meaning.kind == MEANING_LIST ? meaning.list.at : &meaning;
    int n = meaning.kind == MEANING_LIST ? meaning.list.n : 1;
    out->n_ints = n;
    out->ints = ARENA_ARRAY(call->expand->arena, int, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        if (items[i].kind != MEANING_WHOLE || items[i].whole > INT32_MAX || items[i].whole < -INT32_MAX) {
            expand_fail(call->expand, DIAG_ATTRIBUTE, span, "'%s' is a list of whole numbers", name);
            return false;
        }
        out->ints[i] = (int)items[i].whole;
        if (call->op == OP_transpose && out->ints[i] < 0)
            out->ints[i] += call->in[0]->rank;
    }
    return true;
}

static bool call_attr_number(Call *call, Meaning meaning, DType type, Span span, Attr *out) {
    bool whole = meaning.kind == MEANING_WHOLE || meaning.kind == MEANING_TRUTH;
    int64_t i = meaning.kind == MEANING_TRUTH   ? meaning.truth
                : meaning.kind == MEANING_WHOLE ? meaning.whole
                                                : 0;
    if (type < DTYPE_COUNT && dtype_is_float(type) && (whole || meaning.kind == MEANING_REAL)) {
        out->number.f = dtype_round(whole ? (double)i : meaning.real, type);
        return true;
    }
    if (type < DTYPE_COUNT && !dtype_is_float(type) && whole && i >= dtype_min_int(type) &&
        i <= dtype_max_int(type)) {
        out->number.i = i;
        return true;
    }
    expand_fail(call->expand, DIAG_ATTRIBUTE, span, "this is no value of the type %s",
                type < DTYPE_COUNT ? dtype_name(type) : "given");
    return false;
}

static bool call_attr_int(Call *call, Meaning meaning, const char *name, Span span, Attr *out) {
    if (strcmp(name, "axis") == 0) {
        int rank = call->n_in ? call->in[0]->rank : call->attrs[0].n_dims;
        const Dim *const *dims = call->n_in ? (const Dim *const *)call->in[0]->dims : call->attrs[0].dims;
        out->i = call_axis(call->expand, meaning, rank, dims, span);
        return out->i >= 0;
    }
    if (meaning.kind != MEANING_WHOLE && meaning.kind != MEANING_TRUTH) {
        expand_fail(call->expand, DIAG_ATTRIBUTE, span, "'%s' is a whole number, not %s", name,
                    meaning_noun(&meaning));
        return false;
    }
    out->i = meaning.kind == MEANING_WHOLE ? meaning.whole : meaning.truth;
    return true;
}

static bool call_attr(Call *call, int index, Meaning meaning, Span span) {
    const AttrInfo *info = &op_info(call->op)->attrs[index];
    Attr *out = &call->attrs[index];
    switch (info->kind) {
    case ATTR_INT: return call_attr_int(call, meaning, info->name, span, out);
    case ATTR_NUMBER:
        return call_attr_number(call, meaning, call->attrs[op_attr_index(call->op, "dtype")].dtype, span,
                                out);
    case ATTR_DTYPE:
        if (meaning.kind != MEANING_TYPE) {
            expand_fail(call->expand, DIAG_ATTRIBUTE, span, "'%s' is an element type, not %s", info->name,
                        meaning_noun(&meaning));
            return false;
        }
        out->dtype = meaning.dtype;
        return true;
    case ATTR_DIM: out->dim = meaning_dim(call->expand, meaning, span, info->name); return out->dim != NULL;
    case ATTR_DIMS: return call_attr_dims(call, meaning, info->name, span, out);
    case ATTR_INTS: return call_attr_ints(call, meaning, info->name, span, out);
    case ATTR_AXES: return call_attr_axes(call, meaning, span, out);
    }
    return false;
}

/* The dims of an index are those of the tensor that it numbers: all but the axis become 1. */
static void call_index_dims(Call *call) {
    Attr *dims = &call->attrs[0];
    const Dim **ones = ARENA_ARRAY(call->expand->arena, const Dim *, (size_t)dims->n_dims + 1);
    for (int i = 0; i < dims->n_dims; i++)
        ones[i] = i == call->attrs[1].i ? dims->dims[i] : dim_const(call->expand->graph->dims, 1);
    dims->dims = ones;
}

/* given[k] becomes the argument for attribute k, or stays -1. */
static bool call_match(Call *call, int *given) {
    const OpInfo *info = op_info(call->op);
    const ArgumentList *arguments = &call->syntax->arguments;
    bool named = false;
    for (size_t i = 0; i < arguments->n; i++) {
        const Argument *argument = &arguments->at[i];
        Span span = argument->value->span;
        int at = (int)i - info->n_in;
        if (argument->name.text) {
            named = true;
            at = op_attr_index(call->op, argument->name.text);
            if (at < 0) {
                Suggestion near = suggestion_new(argument->name.text);
                for (int k = 0; k < info->n_attrs; k++)
                    suggestion_offer(&near, info->attrs[k].name);
                expand_fail(call->expand, DIAG_ARGUMENTS, argument->name.span, "'%s' has no attribute '%s'%s",
                            info->name, argument->name.text, suggestion_text(call->expand->arena, &near));
                return false;
            }
        } else if (named) {
            expand_fail(call->expand, DIAG_ARGUMENTS, span,
                        "an argument without a name may not follow one with a name");
            return false;
        } else if (info->n_in < 0 || at < 0) {
            continue;
        } else if (at >= info->n_attrs) {
            expand_fail(call->expand, DIAG_ARGUMENTS, span, "'%s' takes %d argument%s, not %zu", info->name,
                        info->n_in + info->n_attrs, info->n_in + info->n_attrs == 1 ? "" : "s", arguments->n);
            return false;
        }
        if (given[at] >= 0) {
            expand_fail(call->expand, DIAG_ARGUMENTS, span, "'%s' is given twice", info->attrs[at].name);
            return false;
        }
        given[at] = (int)i;
    }
    return true;
}

static Meaning call_primitive(Expand *expand, const Expr *syntax, OpKind op, const Meaning *arguments) {
    const OpInfo *info = op_info(op);
    int positional = 0, given[OP_MAX_ATTRS] = {-1, -1, -1};
    while ((size_t)positional < syntax->arguments.n && !syntax->arguments.at[positional].name.text)
        positional++;
    Call call = {.expand = expand, .syntax = syntax, .op = op};
    if (!call_match(&call, given))
        return (Meaning){.kind = MEANING_FAILED};
    call.n_in = info->n_in < 0 ? positional : info->n_in;
    if (positional < call.n_in || call.n_in < (info->n_in < 0))
        return expand_fail(expand, DIAG_ARGUMENTS, syntax->callee.span, "'%s' takes %d operand%s, not %d",
                           info->name, info->n_in < 0 ? 1 : info->n_in,
                           info->n_in == 1 || info->n_in < 0 ? "" : "s", positional);
    if (op_is_scalar(op)) {
        Meaning operands[OP_MAX_ARITY];
        memcpy(operands, arguments, (size_t)call.n_in * sizeof *operands);
        return operator_scalar(expand, op, operands, call.n_in, syntax->span);
    }
    DType company = info->class_ == OPCLASS_RANDOM ? DTYPE_I64 : DTYPE_COUNT;
    for (int i = 0; i < call.n_in; i++)
        if (arguments[i].kind == MEANING_TENSOR && company == DTYPE_COUNT)
            company = dtype_compute(arguments[i].value->dtype);
    call.in = ARENA_ARRAY(expand->arena, Value *, (size_t)call.n_in + 1);
    for (int i = 0; i < call.n_in; i++) {
        call.in[i] = operator_tensor(expand, arguments[i], company, syntax->arguments.at[i].value->span);
        if (!call.in[i])
            return (Meaning){.kind = MEANING_FAILED};
    }
    /* Element types first: what a number may be depends on them. */
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < info->n_attrs; k++) {
            if ((info->attrs[k].kind == ATTR_DTYPE) != (pass == 0))
                continue;
            if (given[k] < 0 && !attr_fallback(op, k, &call.attrs[k]))
                return expand_fail(expand, DIAG_ARGUMENTS, syntax->callee.span,
                                   "'%s' lacks its attribute '%s'", info->name, info->attrs[k].name);
            if (given[k] >= 0 &&
                !call_attr(&call, k, arguments[given[k]], syntax->arguments.at[given[k]].value->span))
                return (Meaning){.kind = MEANING_FAILED};
        }
    if (op == OP_index)
        call_index_dims(&call);
    return expand_append(expand, op, call.in, call.n_in, call.attrs, syntax->span);
}

/* ---- functions that answer when the graph is written ---- */

enum { CALL_MOST_PARTS = 64 };

static Meaning call_list(Expand *expand, int n) {
    return (Meaning){.kind = MEANING_LIST, .list = {ARENA_ARRAY(expand->arena, Meaning, (size_t)n + 1), n}};
}

static Meaning call_dims(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    (void)syntax;
    Meaning list = call_list(expand, arguments[0].value->rank);
    for (int i = 0; i < list.list.n; i++)
        list.list.at[i] = meaning_of_dim(arguments[0].value->dims[i]);
    return list;
}

static Meaning call_rank(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    (void)expand;
    (void)syntax;
    return (Meaning){.kind = MEANING_WHOLE, .whole = arguments[0].value->rank};
}

static Meaning call_axis_number(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    const Value *of = arguments[0].value;
    int axis = call_axis(expand, arguments[1], of->rank, of->dims, syntax->arguments.at[1].value->span);
    return axis < 0 ? (Meaning){.kind = MEANING_FAILED} : (Meaning){.kind = MEANING_WHOLE, .whole = axis};
}

/* axes(x): all of them; axes(x, over): the numbers of one or several. */
static Meaning call_axes(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    const Value *of = arguments[0].value;
    bool all = syntax->arguments.n < 2, several = !all && arguments[1].kind == MEANING_LIST;
    Meaning list = call_list(expand, all ? of->rank : several ? arguments[1].list.n : 1);
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
static Meaning call_size(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    Meaning axes = call_axes(expand, syntax, arguments);
    const Dim *size = dim_const(expand->graph->dims, 1);
    if (axes.kind == MEANING_FAILED)
        return axes;
    for (int i = 0; i < axes.list.n; i++)
        size = dim_mul(expand->graph->dims, size, arguments[0].value->dims[axes.list.at[i].whole]);
    return size ? meaning_of_dim(size)
                : expand_fail(expand, DIAG_DIM, syntax->span, "this size overflows 64 bits");
}

static Meaning call_type(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    (void)expand;
    (void)syntax;
    return (Meaning){.kind = MEANING_TYPE, .dtype = arguments[0].value->dtype};
}

/* x, as f32 where it is no float. */
static Meaning call_as_float(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    return dtype_is_float(arguments[0].value->dtype)
               ? arguments[0]
               : operator_cast(expand, arguments[0], DTYPE_F32, syntax->span);
}

/* Part i of n equal ones, cut out of an axis of its own: so its size is N/n, not the difference of two
 * multiples of that. */
static Meaning call_share(Expand *expand, Value *parts, int axis, int64_t i, Span span) {
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
static Meaning call_split_symbolic(Expand *expand, Value *of, int axis, const Dim *share, Meaning parts,
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
        parts.list.at[i] = call_share(expand, wide.value, axis, i, span);
        if (parts.list.at[i].kind != MEANING_TENSOR)
            return parts.list.at[i];
    }
    return parts;
}

/* split(x, [a, b], axis): parts of these sizes. */
static Meaning call_split_sizes(Expand *expand, Value *of, int axis, const Dim *const *sizes, Meaning parts,
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

static Meaning call_split(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    DimTable *table = expand->graph->dims;
    Value *of = arguments[0].value;
    bool third = syntax->arguments.n > 2, listed = arguments[1].kind == MEANING_LIST;
    Span span = syntax->arguments.at[1].value->span;
    int axis = call_axis(expand, third ? arguments[2] : (Meaning){.kind = MEANING_WHOLE, .whole = -1},
                         of->rank, of->dims, third ? syntax->arguments.at[2].value->span : syntax->span);
    if (axis < 0)
        return (Meaning){.kind = MEANING_FAILED};
    int64_t n = listed ? arguments[1].list.n : arguments[1].kind == MEANING_WHOLE ? arguments[1].whole : 0;
    if (n < 1 || n > CALL_MOST_PARTS)
        return expand_fail(expand, DIAG_ATTRIBUTE, span,
                           "a tensor is split into 1 to %d parts, or into a list of sizes", CALL_MOST_PARTS);
    const Dim *sizes[CALL_MOST_PARTS], *whole = of->dims[axis];
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
    Meaning parts = call_list(expand, (int)n);
    parts.kind = MEANING_SEVERAL;
    if (!listed && !dim_is_const(whole) && n > 1)
        return call_split_symbolic(expand, of, axis, sizes[0], parts, syntax->span);
    return call_split_sizes(expand, of, axis, sizes, parts, syntax->span);
}

typedef struct StaticCall {
    const char *name;
    const char *parameters[3]; /* the first is a tensor */
    int least, most;
    Meaning (*answer)(Expand *expand, const Expr *syntax, const Meaning *arguments);
} StaticCall;

static const StaticCall call_statics[] = {
    {"dims", {"x"}, 1, 1, call_dims},         {"rank", {"x"}, 1, 1, call_rank},
    {"axes", {"x", "over"}, 1, 2, call_axes}, {"axis", {"x", "axis"}, 2, 2, call_axis_number},
    {"size", {"x", "axis"}, 2, 2, call_size}, {"type", {"x"}, 1, 1, call_type},
    {"as_float", {"x"}, 1, 1, call_as_float}, {"split", {"x", "n", "axis"}, 2, 3, call_split},
};

static const StaticCall *call_find_static(const char *name) {
    for (size_t i = 0; i < sizeof call_statics / sizeof *call_statics; i++)
        if (strcmp(call_statics[i].name, name) == 0)
            return &call_statics[i];
    return NULL;
}

/* Arguments by name are accepted in the order of the parameters. */
static Meaning call_static(Expand *expand, const Expr *syntax, const StaticCall *call,
                           const Meaning *arguments) {
    int n = (int)syntax->arguments.n;
    if (n < call->least || n > call->most)
        return expand_fail(expand, DIAG_ARGUMENTS, syntax->callee.span, "'%s' takes %d argument%s, not %d",
                           call->name, call->most, call->most == 1 ? "" : "s", n);
    for (int i = 0; i < n; i++) {
        const Word *name = &syntax->arguments.at[i].name;
        if (name->text && strcmp(name->text, call->parameters[i]) != 0)
            return expand_fail(expand, DIAG_ARGUMENTS, name->span, "argument %d of '%s' is '%s'", i + 1,
                               call->name, call->parameters[i]);
    }
    if (arguments[0].kind != MEANING_TENSOR)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, syntax->arguments.at[0].value->span,
                           "'%s' is for tensors, not for %s", call->name, meaning_noun(&arguments[0]));
    return call->answer(expand, syntax, arguments);
}

/* ---- the way in ---- */

bool call_is_builtin(const char *name) {
    OpKind op = op_find(name);
    return (op != OP_COUNT && op != OP_input) || dtype_find(name) != DTYPE_COUNT || call_find_static(name);
}

void call_suggest(const Expand *expand, Suggestion *suggestion) {
    (void)expand;
    for (int op = 0; op < OP_COUNT; op++)
        if (op != OP_input)
            suggestion_offer(suggestion, op_info((OpKind)op)->name);
    for (size_t i = 0; i < sizeof call_statics / sizeof *call_statics; i++)
        suggestion_offer(suggestion, call_statics[i].name);
}

static bool call_has_over(const Expr *syntax) {
    for (size_t i = 0; i < syntax->arguments.n; i++)
        if (syntax->arguments.at[i].name.text && strcmp(syntax->arguments.at[i].name.text, "over") == 0)
            return true;
    return false;
}

Meaning call_builtin(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    const StaticCall *static_call = call_find_static(syntax->callee.text);
    if (static_call)
        return call_static(expand, syntax, static_call, arguments);
    OpKind op = op_find(syntax->callee.text);
    if (op == OP_COUNT) {
        if (syntax->arguments.n != 1 || syntax->arguments.at[0].name.text)
            return expand_fail(expand, DIAG_ARGUMENTS, syntax->callee.span, "the cast '%s' takes one operand",
                               syntax->callee.text);
        return operator_declare(
            operator_cast(expand, arguments[0], dtype_find(syntax->callee.text), syntax->span));
    }
    if ((op == OP_min || op == OP_max) && call_has_over(syntax))
        op = op == OP_min ? OP_reduce_min : OP_reduce_max;
    return call_primitive(expand, syntax, op, arguments);
}
