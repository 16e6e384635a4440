/* The reference's movement operations: each output element names the input element that it is. */
#include <string.h>

#include "ir/reference_internal.h"

/* Copies the elements of `operand` that `strides` and `offset` pick for each element of `out`, in order. */
static void movement_copy(const Tensor *operand, const int64_t *strides, int64_t offset, Tensor *out) {
    Walk walk;
    walk_start(&walk, out);
    walk_add(&walk, strides, offset);
    for (int64_t k = 0; k < out->count; k++, walk_next(&walk))
        out->at[k] = operand->at[walk.offset[0]];
}

static void movement_broadcast(const Tensor *x, Tensor *out) {
    Walk walk;
    walk_start(&walk, out);
    walk_add_broadcast(&walk, x);
    for (int64_t k = 0; k < out->count; k++, walk_next(&walk))
        out->at[k] = x->at[walk.offset[0]];
}

static void movement_transpose(const Value *value, const Tensor *x, Tensor *out) {
    int64_t packed[RANK_MAX], strides[RANK_MAX];
    tensor_strides(x, packed);
    for (int i = 0; i < out->rank; i++)
        strides[i] = packed[value->attrs[0].ints[i]];
    movement_copy(x, strides, 0, out);
}

static bool movement_slice(Evaluation *e, const Value *value, const Tensor *x, Tensor *out) {
    int64_t packed[RANK_MAX], strides[RANK_MAX], offset = 0;
    tensor_strides(x, packed);
    for (int i = 0; i < out->rank; i++) {
        int64_t start, step = value->attrs[2].ints[i];
        if (!evaluation_dim(e, value, value->attrs[0].dims[i], &start))
            return false;
        int64_t last = start + step * (out->dims[i] - 1);
        if (out->dims[i] > 0 && (start < 0 || start >= x->dims[i] || last < 0 || last >= x->dims[i])) {
            diag_error(e->diags, DIAG_DIM, value->span, "the slice leaves its operand along axis %d", i);
            return false;
        }
        strides[i] = packed[i] * step;
        offset += packed[i] * start;
    }
    movement_copy(x, strides, offset, out);
    return true;
}

/* The last axis of the result steps through a window, the windowed one from window to window. */
static void movement_window(const Value *value, const Tensor *x, Tensor *out) {
    int64_t packed[RANK_MAX], strides[RANK_MAX];
    int axis = (int)value->attrs[0].i;
    tensor_strides(x, packed);
    for (int i = 0; i < x->rank; i++)
        strides[i] = i == axis ? packed[i] * value->attrs[2].i : packed[i];
    strides[x->rank] = packed[axis] * value->attrs[3].i;
    movement_copy(x, strides, 0, out);
}

static bool movement_pad(Evaluation *e, const Value *value, const Tensor *x, Tensor *out) {
    Number fill = dtype_convert(evaluation_operand(e, value, 1)->at[0],
                                evaluation_operand(e, value, 1)->dtype, out->dtype);
    int64_t packed[RANK_MAX], low[RANK_MAX];
    tensor_strides(x, packed);
    for (int i = 0; i < out->rank; i++)
        if (!evaluation_dim(e, value, value->attrs[0].dims[i], &low[i]))
            return false;
    Walk walk;
    walk_start(&walk, out);
    for (int64_t k = 0; k < out->count; k++, walk_next(&walk)) {
        bool inside = true;
        int64_t offset = 0;
        for (int i = 0; i < out->rank; i++) {
            int64_t at = walk.at[i] - low[i];
            inside = inside && at >= 0 && at < x->dims[i];
            offset += at * packed[i];
        }
        out->at[k] = inside ? x->at[offset] : fill;
    }
    return true;
}

static void movement_concat(Evaluation *e, const Value *value, Tensor *out) {
    int axis = (int)value->attrs[0].i;
    int64_t outer = 1, inner = 1, filled = 0;
    for (int i = 0; i < out->rank; i++) {
        if (i < axis)
            outer *= out->dims[i];
        else if (i > axis)
            inner *= out->dims[i];
    }
    for (int p = 0; p < value->n_in; p++) {
        const Tensor *part = evaluation_operand(e, value, p);
        int64_t run = part->dims[axis] * inner;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t k = 0; k < run; k++)
                out->at[o * out->dims[axis] * inner + filled + k] =
                    dtype_convert(part->at[o * run + k], part->dtype, out->dtype);
        filled += run;
    }
}

static void movement_gather(Evaluation *e, const Value *value, const Tensor *x, Tensor *out) {
    const Tensor *index = evaluation_operand(e, value, 1);
    int axis = (int)value->attrs[0].i;
    int64_t outer = 1, inner = 1, extent = x->dims[axis];
    for (int i = 0; i < x->rank; i++) {
        if (i < axis)
            outer *= x->dims[i];
        else if (i > axis)
            inner *= x->dims[i];
    }
    int64_t k = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < index->count; j++)
            for (int64_t n = 0; n < inner; n++, k++) {
                int64_t at = index->at[j].i;
                if (at >= 0 && at < extent)
                    out->at[k] = x->at[(o * extent + at) * inner + n];
            }
}

bool reference_movement(Evaluation *e, const Value *value, Tensor *out) {
    const Tensor *x = evaluation_operand(e, value, 0);
    switch (value->op) {
    case OP_broadcast: movement_broadcast(x, out); return true;
    case OP_reshape:
        if (x->count != out->count) {
            diag_error(e->diags, DIAG_DIM, value->span, "a reshape cannot turn %lld elements into %lld",
                       (long long)x->count, (long long)out->count);
            return false;
        }
        memcpy(out->at, x->at, (size_t)out->count * sizeof(Number));
        return true;
    case OP_transpose: movement_transpose(value, x, out); return true;
    case OP_slice: return movement_slice(e, value, x, out);
    case OP_window: movement_window(value, x, out); return true;
    case OP_pad: return movement_pad(e, value, x, out);
    case OP_concat: movement_concat(e, value, out); return true;
    case OP_gather: movement_gather(e, value, x, out); return true;
    default: break;
    }
    diag_error(e->diags, DIAG_INTERNAL, value->span, "the reference has no meaning for '%s'",
               op_info(value->op)->name);
    return false;
}
