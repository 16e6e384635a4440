/* Types and shapes: what every rule shares, and the rules of scalars, random numbers, reductions and
 * products. Movement stands in infer_movement.c. */
#include "ir/infer.h"

#include <stdarg.h>

#include "ir/print.h"

/* ---- messages ---------------------------------------------------------------------------------------- */

const char *infer_dim_text(const Infer *infer, const Dim *dim) {
    Text text = text_new(infer->graph->arena);
    dim_print(&text, infer->graph->dims, dim);
    return text.at;
}

const char *infer_type_text(const Infer *infer, const Value *value) {
    Text text = text_new(infer->graph->arena);
    value_print_type(&text, infer->graph, value);
    return text.at;
}

/* The operation as a person wrote it. */
static const char *infer_op_text(OpKind op) {
    return op == OP_matmul ? "@" : op_info(op)->name;
}

bool infer_fail(Infer *infer, DiagId id, const char *format, ...) {
    if (!infer->diags)
        return false;
    const Value *value = infer->value;
    va_list args;
    va_start(args, format);
    Text message = text_new(infer->diags->arena);
    text_addv(&message, format, args);
    va_end(args);
    diag_error(infer->diags, id, value->span, "%s", message.at);
    for (int i = 0; i < value->n_in; i++) {
        const Value *operand = value->in[i];
        bool told = !operand->name || !operand->span.file;
        for (int j = 0; j < i; j++)
            told |= value->in[j] == operand;
        if (!told)
            diag_note(infer->diags, operand->span, "'%s' is %s%s here", operand->name,
                      operand->op == OP_input ? "declared " : "", infer_type_text(infer, operand));
    }
    return false;
}

/* ---- the frame --------------------------------------------------------------------------------------- */

static bool infer_check_attrs(Infer *infer) {
    const Value *value = infer->value;
    const OpInfo *info = op_info(value->op);
    for (int i = 0; i < info->n_attrs; i++) {
        const Attr *attr = &value->attrs[i];
        const char *name = info->attrs[i].name;
        switch (info->attrs[i].kind) {
        case ATTR_INT:
        case ATTR_NUMBER: break;
        case ATTR_DTYPE:
            if (attr->dtype > DTYPE_COUNT || (attr->dtype == DTYPE_COUNT && !info->attrs[i].fallback))
                return infer_fail(infer, DIAG_ATTRIBUTE, "'%s' of '%s' is no element type", name, info->name);
            break;
        case ATTR_DIM:
            if (!attr->dim)
                return infer_fail(infer, DIAG_DIM, "'%s' of '%s' overflows 64 bits", name, info->name);
            break;
        case ATTR_DIMS:
            if (attr->n_dims < 0 || attr->n_dims > RANK_MAX)
                return infer_fail(infer, DIAG_RANK, "'%s' of '%s' has %d dims; %d is the most", name,
                                  info->name, attr->n_dims, RANK_MAX);
            for (int j = 0; j < attr->n_dims; j++)
                if (!attr->dims || !attr->dims[j])
                    return infer_fail(infer, DIAG_DIM, "dim %d in '%s' of '%s' overflows 64 bits", j, name,
                                      info->name);
            break;
        case ATTR_INTS:
            if (attr->n_ints < 0 || attr->n_ints > RANK_MAX || (attr->n_ints && !attr->ints))
                return infer_fail(infer, DIAG_ATTRIBUTE, "'%s' of '%s' has %d numbers; %d is the most", name,
                                  info->name, attr->n_ints, RANK_MAX);
            break;
        case ATTR_AXES:
            if (attr->axes.n < 0 || attr->axes.n > RANK_MAX)
                return infer_fail(infer, DIAG_AXIS, "'%s' of '%s' names %d axes; %d is the most", name,
                                  info->name, attr->axes.n, RANK_MAX);
            break;
        }
    }
    return true;
}

bool infer_value(Graph *graph, Value *value, Diags *diags) {
    Infer infer = {.graph = graph, .value = value, .diags = diags};
    const OpInfo *info = op_info(value->op);
    if (info->n_in >= 0 ? value->n_in != info->n_in : value->n_in < 1)
        return infer_fail(&infer, DIAG_ARGUMENTS, "'%s' takes %s%d operand%s, not %d", info->name,
                          info->n_in >= 0 ? "" : "at least ", info->n_in >= 0 ? info->n_in : 1,
                          info->n_in == 1 || info->n_in < 0 ? "" : "s", value->n_in);
    if (!infer_check_attrs(&infer) || !info->infer(&infer))
        return false;
    for (int i = 0; i < value->rank; i++) {
        if (!value->dims[i])
            return infer_fail(&infer, DIAG_DIM, "dim %d of the result of '%s' overflows 64 bits", i,
                              infer_op_text(value->op));
        if (dim_upper(graph->dims, value->dims[i]) < 0)
            return infer_fail(&infer, DIAG_DIM, "dim %d of the result of '%s' is negative: %s", i,
                              infer_op_text(value->op), infer_dim_text(&infer, value->dims[i]));
    }
    return true;
}

/* The result has the operand's dims. */
static void infer_same_dims(Infer *infer, const Value *like) {
    infer->value->rank = like->rank;
    for (int i = 0; i < like->rank; i++)
        infer->value->dims[i] = like->dims[i];
}

/* ---- border ------------------------------------------------------------------------------------------ */

bool infer_input(Infer *infer) {
    (void)infer; /* declared, not inferred */
    return true;
}

bool infer_constant(Infer *infer) {
    infer->value->dtype = infer->value->attrs[1].dtype;
    infer->value->rank = 0;
    return true;
}

bool infer_dim(Infer *infer) {
    infer->value->dtype = DTYPE_I64;
    infer->value->rank = 0;
    return true;
}

/* ---- pointwise --------------------------------------------------------------------------------------- */

/* One axis of a broadcast, counted from the right; NULL where the two do not fit. */
static const Dim *infer_broadcast_axis(const Dim *a, const Dim *b) {
    if (a == b || dim_is(b, 1))
        return a;
    return dim_is(a, 1) ? b : NULL;
}

int infer_broadcast_dims(DimTable *table, int rank_a, const Dim *const *a, int rank_b, const Dim *const *b,
                         const Dim **dims) {
    const Dim *one = dim_const(table, 1);
    int rank = rank_a > rank_b ? rank_a : rank_b;
    for (int i = 1; i <= rank; i++) {
        const Dim *both =
            infer_broadcast_axis(i <= rank_a ? a[rank_a - i] : one, i <= rank_b ? b[rank_b - i] : one);
        if (!both)
            return -1;
        dims[rank - i] = both;
    }
    return rank;
}

/* Names the rightmost axis on which two operands do not fit. */
static bool infer_broadcast_fail(Infer *infer, const Value *a, const Value *b) {
    int i = 1;
    while (i <= a->rank && i <= b->rank && infer_broadcast_axis(a->dims[a->rank - i], b->dims[b->rank - i]))
        i++;
    if (i > a->rank || i > b->rank) /* they fit each other, but not what the others made of them */
        return infer_fail(infer, DIAG_SHAPE_MISMATCH, "operands of '%s' do not broadcast",
                          op_info(infer->value->op)->name);
    return infer_fail(
        infer, DIAG_SHAPE_MISMATCH, "operands of '%s' do not broadcast: %s and %s on axis -%d of %s and %s",
        op_info(infer->value->op)->name, infer_dim_text(infer, a->dims[a->rank - i]),
        infer_dim_text(infer, b->dims[b->rank - i]), i, infer_type_text(infer, a), infer_type_text(infer, b));
}

static bool infer_broadcast_operands(Infer *infer) {
    Value *value = infer->value;
    infer_same_dims(infer, value->in[0]);
    for (int i = 1; i < value->n_in; i++) {
        const Dim *dims[RANK_MAX];
        const Value *next = value->in[i];
        int rank =
            infer_broadcast_dims(infer->graph->dims, value->rank, value->dims, next->rank, next->dims, dims);
        for (int j = 0; rank < 0 && j < i; j++) {
            if (infer_broadcast_dims(infer->graph->dims, value->in[j]->rank, value->in[j]->dims, next->rank,
                                     next->dims, dims) < 0)
                return infer_broadcast_fail(infer, value->in[j], next);
        }
        if (rank < 0)
            return infer_broadcast_fail(infer, value->in[0], next);
        value->rank = rank;
        for (int j = 0; j < rank; j++)
            value->dims[j] = dims[j];
    }
    return true;
}

static bool infer_is_integer(DType dtype) {
    return dtype_class(dtype) == DTYPE_SIGNED || dtype_class(dtype) == DTYPE_UNSIGNED;
}

bool infer_scalar(Infer *infer) {
    Value *value = infer->value;
    const OpInfo *info = op_info(value->op);
    DType promoted = dtype_compute(value->in[0]->dtype);
    bool any_f64 = value->in[0]->dtype == DTYPE_F64;
    for (int i = 1; i < value->n_in; i++) {
        promoted = dtype_promote(promoted, value->in[i]->dtype);
        any_f64 |= value->in[i]->dtype == DTYPE_F64;
    }
    switch (info->rule) {
    case RULE_ARITH: value->dtype = promoted; break;
    case RULE_FLOAT: value->dtype = any_f64 ? DTYPE_F64 : DTYPE_F32; break;
    case RULE_COMPARE:
    case RULE_LOGIC: value->dtype = DTYPE_BOOL; break;
    case RULE_SELECT:
        if (value->in[1]->dtype == DTYPE_BOOL && value->in[2]->dtype == DTYPE_BOOL)
            value->dtype = DTYPE_BOOL;
        else
            value->dtype = dtype_promote(value->in[1]->dtype, value->in[2]->dtype);
        break;
    case RULE_BITS:
        for (int i = 0; i < value->n_in; i++)
            if (!infer_is_integer(value->in[i]->dtype))
                return infer_fail(infer, DIAG_TYPE_MISMATCH, "'%s' is defined on integers alone, not on %s",
                                  info->name, dtype_name(value->in[i]->dtype));
        value->dtype = promoted;
        break;
    }
    return infer_broadcast_operands(infer);
}

bool infer_cast(Infer *infer) {
    infer->value->dtype = infer->value->attrs[0].dtype;
    infer_same_dims(infer, infer->value->in[0]);
    return true;
}

/* The dims besides the axis do not count; they are set to 1 so that equal operations look equal. */
bool infer_index(Infer *infer) {
    Value *value = infer->value;
    int n = value->attrs[0].n_dims;
    int64_t axis = value->attrs[1].i;
    if (axis < 0 || axis >= n)
        return infer_fail(infer, DIAG_AXIS, "'index' of axis %lld of %d dims", (long long)axis, n);
    const Dim **dims = ARENA_ARRAY(infer->graph->arena, const Dim *, (size_t)n);
    for (int i = 0; i < n; i++)
        dims[i] = i == axis ? value->attrs[0].dims[i] : dim_const(infer->graph->dims, 1);
    value->attrs[0].dims = dims;
    value->dtype = DTYPE_I32;
    value->rank = n;
    for (int i = 0; i < n; i++)
        value->dims[i] = dims[i];
    if (dim_lower(infer->graph->dims, dims[axis]) > (int64_t)INT32_MAX + 1)
        return infer_fail(infer, DIAG_DIM, "'index' counts in i32, which %s exceeds",
                          infer_dim_text(infer, dims[axis]));
    return true;
}

bool infer_random(Infer *infer) {
    Value *value = infer->value;
    const Value *key = value->in[0];
    const char *name = op_info(value->op)->name;
    if (key->dtype != DTYPE_I64 || key->rank != 0)
        return infer_fail(infer, DIAG_TYPE_MISMATCH, "the key of '%s' is an i64 scalar, not %s", name,
                          infer_type_text(infer, key));
    if (value->attrs[1].i < 0)
        return infer_fail(infer, DIAG_ATTRIBUTE, "'offset' of '%s' is negative", name);
    value->dtype = DTYPE_F32;
    value->rank = value->attrs[0].n_dims;
    for (int i = 0; i < value->rank; i++)
        value->dims[i] = value->attrs[0].dims[i];
    return true;
}

/* ---- reductions -------------------------------------------------------------------------------------- */

static bool infer_reduced_dims(Infer *infer) {
    Value *value = infer->value;
    const Value *x = value->in[0];
    const char *name = op_info(value->op)->name;
    const Attr *over = &value->attrs[0];
    int64_t keep = value->attrs[1].i;
    if (keep != 0 && keep != 1)
        return infer_fail(infer, DIAG_ATTRIBUTE, "'keep' of '%s' is 0 or 1, not %lld", name, (long long)keep);
    bool reduced[RANK_MAX] = {false};
    for (int i = 0; i < over->axes.n; i++) {
        int axis = over->axes.at[i];
        if (axis < 0 || axis >= x->rank)
            return infer_fail(infer, DIAG_AXIS, "'%s' over axis %d of %s, which has %d dims", name, axis,
                              infer_type_text(infer, x), x->rank);
        if (i > 0 && axis <= over->axes.at[i - 1])
            return infer_fail(infer, DIAG_AXIS, "axes of '%s' are ascending and named once", name);
        reduced[axis] = true;
    }
    value->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (reduced[i] && !keep)
            continue;
        value->dims[value->rank++] = reduced[i] ? dim_const(infer->graph->dims, 1) : x->dims[i];
    }
    return true;
}

bool infer_reduction(Infer *infer) {
    infer->value->dtype = dtype_compute(infer->value->in[0]->dtype);
    return infer_reduced_dims(infer);
}

bool infer_logical_reduction(Infer *infer) {
    infer->value->dtype = DTYPE_BOOL;
    return infer_reduced_dims(infer);
}

bool infer_arg_reduction(Infer *infer) {
    infer->value->dtype = DTYPE_I64;
    return infer_reduced_dims(infer);
}

/* ---- products ---------------------------------------------------------------------------------------- */

/* A batch dim of the product. Besides NumPy's rule, the smaller of two dims may repeat where it divides the
 * larger: element i of the larger meets element i / (larger / smaller) of the smaller, as key and value heads
 * shared by groups of query heads do. */
static const Dim *infer_batch_dim(Infer *infer, const Dim *a, const Dim *b) {
    const Dim *both = infer_broadcast_axis(a, b);
    if (both || dim_is(a, 0) || dim_is(b, 0))
        return both;
    if (dim_known_multiple(infer->graph->dims, a, b))
        return a;
    return dim_known_multiple(infer->graph->dims, b, a) ? b : NULL;
}

bool infer_matmul(Infer *infer) {
    Value *value = infer->value;
    const Value *a = value->in[0], *b = value->in[1];
    for (int i = 0; i < 2; i++)
        if (value->in[i]->rank < 2)
            return infer_fail(infer, DIAG_RANK, "operand %d of '@' is %s; a matrix has at least two dims",
                              i + 1, infer_type_text(infer, value->in[i]));
    const Dim *inner_a = a->dims[a->rank - 1], *inner_b = b->dims[b->rank - 2];
    if (inner_a != inner_b)
        return infer_fail(infer, DIAG_SHAPE_MISMATCH, "inner dims of '@' differ: %s and %s",
                          infer_dim_text(infer, inner_a), infer_dim_text(infer, inner_b));
    DType promoted = dtype_promote(a->dtype, b->dtype), asked = value->attrs[0].dtype;
    if (asked != DTYPE_COUNT &&
        (dtype_compute(asked) != asked || (dtype_is_float(promoted) && !dtype_is_float(asked))))
        return infer_fail(infer, DIAG_TYPE_MISMATCH, "'@' of %s and %s has no %s result; cast it instead",
                          dtype_name(a->dtype), dtype_name(b->dtype), dtype_name(asked));
    value->dtype = asked == DTYPE_COUNT ? promoted : asked;
    if (asked == promoted)
        value->attrs[0].dtype = DTYPE_COUNT;
    value->rank = a->rank > b->rank ? a->rank : b->rank;
    const Dim *one = dim_const(infer->graph->dims, 1);
    for (int i = 3; i <= value->rank; i++) {
        const Dim *batch_a = i <= a->rank ? a->dims[a->rank - i] : one;
        const Dim *batch_b = i <= b->rank ? b->dims[b->rank - i] : one;
        const Dim *both = infer_batch_dim(infer, batch_a, batch_b);
        if (!both)
            return infer_fail(
                infer, DIAG_SHAPE_MISMATCH,
                "batch dims of '@' do not fit: %s and %s on axis -%d; they are equal, or 1, or one "
                "is known to divide the other",
                infer_dim_text(infer, batch_a), infer_dim_text(infer, batch_b), i);
        value->dims[value->rank - i] = both;
    }
    value->dims[value->rank - 2] = a->dims[a->rank - 2];
    value->dims[value->rank - 1] = b->dims[b->rank - 1];
    return true;
}
