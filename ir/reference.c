/* The reference's driver, and the operations that work element by element. */
#include "ir/reference.h"

#include <string.h>

#include "ir/base/checked.h"
#include "ir/reference_internal.h"

bool tensor_new(Arena *arena, DType dtype, int rank, const int64_t *dims, Tensor *out) {
    *out = (Tensor){.dtype = dtype, .rank = rank, .count = 1};
    for (int i = 0; i < rank; i++) {
        out->dims[i] = dims[i];
        if (dims[i] < 0 || !checked_mul(out->count, dims[i], &out->count))
            return false;
    }
    size_t bytes;
    if (!checked_size_mul((size_t)out->count, sizeof(Number), &bytes))
        return false;
    out->at = ARENA_ARRAY(arena, Number, out->count ? (size_t)out->count : 1);
    return true;
}

void tensor_strides(const Tensor *tensor, int64_t *strides) {
    int64_t step = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= tensor->dims[i];
    }
}

void walk_start(Walk *walk, const Tensor *space) {
    *walk = (Walk){.rank = space->rank};
    memcpy(walk->dims, space->dims, sizeof walk->dims);
}

void walk_add(Walk *walk, const int64_t *strides, int64_t offset) {
    for (int i = 0; i < walk->rank; i++)
        walk->strides[walk->n][i] = strides[i];
    walk->offset[walk->n++] = offset;
}

void walk_add_broadcast(Walk *walk, const Tensor *operand) {
    int64_t packed[RANK_MAX], strides[RANK_MAX] = {0};
    tensor_strides(operand, packed);
    int shift = walk->rank - operand->rank;
    for (int i = 0; i < operand->rank; i++)
        strides[i + shift] = operand->dims[i] == 1 ? 0 : packed[i];
    walk_add(walk, strides, 0);
}

void walk_next(Walk *walk) {
    for (int i = walk->rank - 1; i >= 0; i--) {
        walk->at[i]++;
        for (int k = 0; k < walk->n; k++)
            walk->offset[k] += walk->strides[k][i];
        if (walk->at[i] < walk->dims[i])
            return;
        for (int k = 0; k < walk->n; k++)
            walk->offset[k] -= walk->strides[k][i] * walk->dims[i];
        walk->at[i] = 0;
    }
}

const Tensor *evaluation_operand(const Evaluation *e, const Value *value, int i) {
    return &e->results[value->in[i]->id];
}

bool evaluation_dim(Evaluation *e, const Value *value, const Dim *dim, int64_t *out) {
    if (dim && dim_eval(dim, e->bindings, out))
        return true;
    Text text = text_new(e->arena);
    dim_print(&text, e->graph->dims, dim);
    diag_error(e->diags, DIAG_DIM, value->span, "the dim '%s' has no value here", text.at);
    return false;
}

double number_as_double(Number number, DType type) {
    return dtype_is_float(type) ? number.f : (double)number.i;
}

int64_t wrap_int(int64_t value, DType type) {
    return type == DTYPE_I32 ? (int64_t)(int32_t)(uint32_t)value : value;
}

/* The type in which a scalar operation computes: for comparisons that is not the type of its result. */
static DType reference_scalar_type(const Value *value, const OpInfo *info) {
    int first = info->rule == RULE_SELECT ? 1 : 0;
    DType type = dtype_compute(value->in[first]->dtype);
    for (int i = first + 1; i < value->n_in; i++)
        type = dtype_promote(type, value->in[i]->dtype);
    if (!info->int_ref && !dtype_is_float(type))
        type = DTYPE_F32;
    return type;
}

static void reference_scalar(Evaluation *e, const Value *value, Tensor *out) {
    const OpInfo *info = op_info(value->op);
    bool in_float = dtype_is_float(reference_scalar_type(value, info));
    bool out_float = dtype_is_float(value->dtype);
    Walk walk;
    walk_start(&walk, out);
    for (int i = 0; i < value->n_in; i++)
        walk_add_broadcast(&walk, evaluation_operand(e, value, i));
    for (int64_t k = 0; k < out->count; k++, walk_next(&walk)) {
        double f[OP_MAX_ARITY] = {0};
        int64_t n[OP_MAX_ARITY] = {0};
        for (int i = 0; i < value->n_in; i++) {
            const Tensor *operand = evaluation_operand(e, value, i);
            Number x = operand->at[walk.offset[i]];
            f[i] = number_as_double(x, operand->dtype);
            n[i] =
                dtype_is_float(operand->dtype) ? x.f != 0 : x.i; /* a float among integers is a condition */
        }
        if (in_float) {
            double r = info->float_ref(f[0], f[1], f[2]);
            if (out_float)
                out->at[k].f = r;
            else
                out->at[k].i = r != 0;
        } else {
            out->at[k].i = wrap_int(info->int_ref(n[0], n[1], n[2]), value->dtype);
        }
    }
}

static void reference_cast(Evaluation *e, const Value *value, Tensor *out) {
    const Tensor *x = evaluation_operand(e, value, 0);
    for (int64_t k = 0; k < out->count; k++)
        out->at[k] = dtype_convert(x->at[k], x->dtype, out->dtype);
}

static void reference_index(const Value *value, Tensor *out) {
    Walk walk;
    walk_start(&walk, out);
    int axis = (int)value->attrs[1].i;
    for (int64_t k = 0; k < out->count; k++, walk_next(&walk))
        out->at[k].i = walk.at[axis];
}

static bool reference_one(Evaluation *e, const Value *value) {
    int64_t dims[RANK_MAX];
    for (int i = 0; i < value->rank; i++)
        if (!evaluation_dim(e, value, value->dims[i], &dims[i]))
            return false;
    Tensor *out = &e->results[value->id];
    if (value->op == OP_input) {
        *out = e->inputs[value->attrs[0].i];
        bool same = out->dtype == value->dtype && out->rank == value->rank;
        for (int i = 0; same && i < value->rank; i++)
            same = out->dims[i] == dims[i];
        if (!same)
            diag_error(e->diags, DIAG_DATA, value->span,
                       "the array given for '%s' has another type or shape than declared",
                       value->name ? value->name : "input");
        return same;
    }
    if (!tensor_new(e->arena, value->dtype, value->rank, dims, out)) {
        diag_error(e->diags, DIAG_DIM, value->span, "the tensor has more elements than fit into memory");
        return false;
    }
    if (op_is_scalar(value->op)) {
        reference_scalar(e, value, out);
        return true;
    }
    switch (op_info(value->op)->class_) {
    case OPCLASS_BORDER:
        if (value->op == OP_constant)
            out->at[0] = value->attrs[0].number;
        else
            return evaluation_dim(e, value, value->attrs[0].dim, &out->at[0].i);
        return true;
    case OPCLASS_POINTWISE:
        if (value->op == OP_cast)
            reference_cast(e, value, out);
        else
            reference_index(value, out);
        return true;
    case OPCLASS_RANDOM: reference_random(e, value, out); return true;
    case OPCLASS_MOVEMENT: return reference_movement(e, value, out);
    case OPCLASS_REDUCTION: reference_reduction(e, value, out); return true;
    case OPCLASS_CONTRACTION: reference_matmul(e, value, out); return true;
    case OPCLASS_COMPOSITE:
    case OPCLASS_RECURRENT:
    case OPCLASS_COLLECTIVE: break;
    }
    diag_error(e->diags, DIAG_INTERNAL, value->span, "the reference has no meaning for '%s'",
               op_info(value->op)->name);
    return false;
}

static bool reference_until(Evaluation *e, size_t n) {
    e->results = ARENA_ARRAY(e->arena, Tensor, e->graph->values.n ? e->graph->values.n : 1);
    for (size_t i = 0; i < n; i++)
        if (!reference_one(e, e->graph->values.at[i]))
            return false;
    return true;
}

bool reference_run(Arena *arena, const Graph *graph, const DimBindings *bindings, const Tensor *inputs,
                   Tensor *outputs, Diags *diags) {
    Evaluation e = {.arena = arena, .graph = graph, .bindings = bindings, .inputs = inputs, .diags = diags};
    if (!reference_until(&e, graph->values.n))
        return false;
    for (size_t i = 0; i < graph->outputs.n; i++)
        outputs[i] = e.results[graph->outputs.at[i].value->id];
    return true;
}

bool reference_value(Arena *arena, const Graph *graph, const DimBindings *bindings, const Tensor *inputs,
                     const Value *value, Tensor *out, Diags *diags) {
    Evaluation e = {.arena = arena, .graph = graph, .bindings = bindings, .inputs = inputs, .diags = diags};
    if (!reference_until(&e, (size_t)value->id + 1))
        return false;
    *out = e.results[value->id];
    return true;
}
