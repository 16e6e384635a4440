/* Calls of what is no `fn`: rows of the tables of operations, element types as casts, and the queries of
 * queries.c.
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

/* A number that borders a tensor becomes a constant of its type, as nothing is computed with either: the 0 of
 * `pad(x, 0, ...)` is bf16 where x is. One that the type does not have stays what it is. */
static Meaning call_border(Expand *expand, Meaning number, DType type, Span span) {
    bool is_whole = number.kind == MEANING_WHOLE, fits = dtype_is_float(type)
                                                             ? is_whole || number.kind == MEANING_REAL
                                                             : type != DTYPE_BOOL && is_whole &&
                                                                   number.whole >= dtype_min_int(type) &&
                                                                   number.whole <= dtype_max_int(type);
    return fits ? operator_cast(expand, number, type, span) : number;
}

static Meaning call_primitive(Expand *expand, const Expr *syntax, OpKind op, const Meaning *arguments) {
    const OpInfo *info = op_info(op);
    int positional = 0, given[OP_MAX_ATTRS] = {-1, -1, -1, -1};
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
        Span span = syntax->arguments.at[i].value->span;
        bool is_border = op == OP_pad && i == 1;
        Meaning argument =
            is_border ? call_border(expand, arguments[i], call.in[0]->dtype, span) : arguments[i];
        call.in[i] = operator_tensor(expand, argument, company, span);
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

/* ---- the way in ---- */

/* Operations that the language has names for and this version no row. */
static const char *const call_planned[] = {"lstm", "gru", "all_reduce", "all_gather", "reduce_scatter"};

bool call_is_planned(const char *name) {
    for (size_t i = 0; i < sizeof call_planned / sizeof *call_planned; i++)
        if (strcmp(call_planned[i], name) == 0)
            return true;
    return false;
}

bool call_is_builtin(const char *name) {
    OpKind op = op_find(name);
    return (op != OP_COUNT && op != OP_input) || dtype_find(name) != DTYPE_COUNT || query_is(name);
}

void call_suggest(Suggestion *suggestion) {
    for (int op = 0; op < OP_COUNT; op++)
        if (op != OP_input)
            suggestion_offer(suggestion, op_info((OpKind)op)->name);
    query_suggest(suggestion);
}

static bool call_names(const Expr *syntax, const char *name) {
    for (size_t i = 0; i < syntax->arguments.n; i++)
        if (syntax->arguments.at[i].name.text && strcmp(syntax->arguments.at[i].name.text, name) == 0)
            return true;
    return false;
}

Meaning call_builtin(Expand *expand, const Expr *syntax, const Meaning *arguments) {
    if (query_is(syntax->callee.text))
        return query_call(expand, syntax, arguments);
    OpKind op = op_find(syntax->callee.text);
    if (op == OP_COUNT) {
        if (syntax->arguments.n != 1 || syntax->arguments.at[0].name.text)
            return expand_fail(expand, DIAG_ARGUMENTS, syntax->callee.span, "the cast '%s' takes one operand",
                               syntax->callee.text);
        return product_declare(
            expand, operator_cast(expand, arguments[0], dtype_find(syntax->callee.text), syntax->span));
    }
    if ((op == OP_min || op == OP_max) && call_names(syntax, "over"))
        op = op == OP_min ? OP_reduce_min : OP_reduce_max;
    if (op == OP_matmul && syntax->arguments.n == 2 && !syntax->arguments.at[1].name.text)
        return product_of(expand, arguments[0], arguments[1], syntax->span);
    return call_primitive(expand, syntax, op, arguments);
}
