/* Arrays: sizes, and element access in row-major order. */
#include "runtime/array.h"

#include <string.h>

#include "ir/base/checked.h"

bool array_new(Arena *arena, DType dtype, int rank, const int64_t *dims, const int64_t *strides, Array *out) {
    memset(out, 0, sizeof *out);
    if (rank < 0 || rank > RANK_MAX)
        return false;
    out->dtype = dtype;
    out->rank = rank;
    out->count = 1;
    out->extent = 1;
    int64_t packed = 1;
    for (int i = rank; i-- > 0;) {
        if (dims[i] < 0 || (strides && strides[i] < 0))
            return false;
        out->dims[i] = dims[i];
        out->strides[i] = strides ? strides[i] : packed;
        int64_t reach;
        if (!checked_mul(out->count, dims[i], &out->count) ||
            !checked_mul(packed, dims[i] ? dims[i] : 1, &packed) ||
            !checked_mul(dims[i] ? dims[i] - 1 : 0, out->strides[i], &reach) ||
            !checked_add(out->extent, reach, &out->extent))
            return false;
    }
    if (out->count == 0)
        out->extent = 0;
    if (!dtype_bytes(dtype, out->extent, &out->bytes))
        return false;
    out->at = ARENA_ARRAY(arena, uint8_t, (size_t)out->bytes + 16);
    return true;
}

bool array_for(Arena *arena, const Value *value, const Dim *const *strides, const DimBindings *bindings,
               Diags *diags, Array *out) {
    int64_t dims[RANK_MAX], steps[RANK_MAX];
    bool ok = true;
    for (int i = 0; i < value->rank && ok; i++)
        ok = dim_eval(value->dims[i], bindings, &dims[i]) &&
             (!strides || dim_eval(strides[i], bindings, &steps[i]));
    if (ok && array_new(arena, value->dtype, value->rank, dims, strides ? steps : NULL, out))
        return true;
    diag_error(diags, DIAG_DIM, value->span, "the size of '%s' cannot be worked out for these dims",
               value->name ? value->name : "a tensor");
    return false;
}

int64_t array_offset(const Array *array, int64_t element) {
    int64_t offset = 0;
    for (int i = array->rank; i-- > 0;) {
        offset += element % array->dims[i] * array->strides[i];
        element /= array->dims[i];
    }
    return offset;
}

Number array_get(const Array *array, int64_t element) {
    return dtype_load(array->dtype, array->at, array_offset(array, element));
}

void array_set(Array *array, int64_t element, Number value) {
    dtype_store(array->dtype, array->at, array_offset(array, element), value);
}

bool array_to_tensor(Arena *arena, const Array *array, Tensor *out) {
    if (!tensor_new(arena, array->dtype, array->rank, array->dims, out))
        return false;
    for (int64_t i = 0; i < array->count; i++)
        out->at[i] = array_get(array, i);
    return true;
}

void array_from_tensor(const Tensor *tensor, Array *out) {
    for (int64_t i = 0; i < out->count; i++)
        array_set(out, i, tensor->at[i]);
}

const char *array_coordinates(Arena *arena, const Array *array, int64_t element) {
    int64_t at[RANK_MAX];
    for (int i = array->rank; i-- > 0;) {
        at[i] = element % array->dims[i];
        element /= array->dims[i];
    }
    Text text = text_new(arena);
    text_add(&text, "[");
    for (int i = 0; i < array->rank; i++)
        text_add(&text, "%s%lld", i ? ", " : "", (long long)at[i]);
    text_add(&text, "]");
    return text.at;
}
