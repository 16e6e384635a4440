/* The matrix product, `a @ b`, and the types of its operands.
 *
 * Tensor cores want operands of 16 bits, and a graph's numbers are f32 between what memory has. So an f32
 * intermediate (worked out; neither an f32 input nor declared or cast f32 in the text) is cast to 16 bits
 * where it meets such an operand, or another intermediate, and both come of tensors of one 16-bit type:
 *
 *     softmax(q @ k.T) @ v                           rounds the weights to v's type
 *     attention(rope(x @ wq.T, c, s), ...)           rounds queries and keys to x's and wq's
 *
 * What comes of a product of bytes (fp8, int8, with factors that leave it), and meets bytes again, is cast to
 * bf16, which has all of theirs:
 *
 *     softmax(dequantize(q, a) @ dequantize(k, b).T) @ dequantize(v, c)
 *
 * What an intermediate comes of (ProductOrigin): through a product, of its operands; otherwise of all that it
 * was worked out from, where tables, factors and biases that are repeated along it may be f32. An f32 tensor
 * of its own size asks for f32. Whatever else is f32 is multiplied in f32. */
#include "frontend/expand.h"

/* type: F16, BF16: what a value comes of; DTYPE_COUNT: of numbers, indices or narrower elements, which take
 * any type; F32: of what keeps its products f32. */
struct ProductOrigin {
    DType type;
    bool by_product;
    bool of_bytes;    /* of a product whose operands are bytes, and of nothing of another type */
    bool is_declared; /* its type stands in the text */
};

static bool product_is_16bit(DType type) {
    return type == DTYPE_F16 || type == DTYPE_BF16;
}

static ProductOrigin *product_origin(Expand *expand, Value *value) {
    if (!value->scratch)
        *(ProductOrigin *)(value->scratch = ARENA_NEW(expand->arena, ProductOrigin)) =
            (ProductOrigin){.type = DTYPE_COUNT};
    return value->scratch;
}

Meaning product_declare(Expand *expand, Meaning tensor) {
    if (tensor.kind == MEANING_TENSOR)
        product_origin(expand, tensor.value)->is_declared = true;
    return tensor;
}

static bool product_is_declared(const Value *value) {
    return value->scratch && ((const ProductOrigin *)value->scratch)->is_declared;
}

/* Whether an f32 value was asked for in f32: an input, a cast or a declared type, seen through what only
 * moves elements. */
static bool product_is_wanted_f32(const Value *value) {
    while (op_info(value->op)->class_ == OPCLASS_MOVEMENT && !product_is_declared(value))
        value = value->in[0];
    return value->op == OP_input || value->op == OP_cast || product_is_declared(value);
}

/* The type of a computed operand that is what memory has but for factors that do not vary along K:
 * passes/scale.c takes those behind the product, which is then exact of 16 bits and less. */
static DType product_scaled_type(const Value *value, bool is_second) {
    int k_axis = value->rank - (is_second && value->rank > 1 ? 2 : 1);
    if (value->op == OP_transpose) {
        k_axis = value->attrs[0].ints[k_axis];
        value = value->in[0];
    }
    bool found = true;
    while (found && (value->op == OP_mul || value->op == OP_div)) {
        found = false;
        for (int i = 1; i >= (value->op == OP_div) && !found; i--) {
            found = !value_varies(value->in[i], value, k_axis) && value_same_dims(value->in[!i], value);
            if (found)
                value = value->in[!i];
        }
    }
    while (value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype))
        value = value->in[0];
    return value->dtype;
}

static bool product_has_bytes(const Value *value, bool is_second) {
    DType type = product_scaled_type(value, is_second);
    return dtype_is_fp8(type) || dtype_is_int8(type);
}

/* Of two types that stand for where elements come from. */
static DType product_joined(DType a, DType b) {
    if (a == b || b == DTYPE_COUNT)
        return a;
    return a == DTYPE_COUNT ? b : DTYPE_F32;
}

/* Of operands by way of products those alone; of others all, but f32 ones that are repeated. */
static ProductOrigin product_combined(const Value *value) {
    ProductOrigin all = {.type = DTYPE_COUNT};
    bool of_bytes = false;
    for (int i = 0; i < value->n_in; i++) {
        const ProductOrigin *of = value->in[i]->scratch;
        bool is_repeated =
            of->type == DTYPE_F32 && !of->by_product &&
            (value->op == OP_broadcast || (op_is_scalar(value->op) && !value_same_dims(value->in[i], value)));
        of_bytes = of_bytes || of->of_bytes;
        if (is_repeated || (all.by_product && !of->by_product))
            continue;
        DType type = of->by_product && !all.by_product ? of->type : product_joined(all.type, of->type);
        all = (ProductOrigin){.type = type, .by_product = of->by_product};
    }
    all.of_bytes = of_bytes && all.type == DTYPE_COUNT;
    return all;
}

static ProductOrigin product_of_operands(const Value *a, const Value *b) {
    DType types[2] = {a->dtype, b->dtype}, type = DTYPE_COUNT;
    bool is_wide = product_is_16bit(types[0]) || product_is_16bit(types[1]); /* as the text has them */
    if (!is_wide && product_has_bytes(a, false) && product_has_bytes(b, true))
        return (ProductOrigin){.type = DTYPE_COUNT, .of_bytes = true};
    for (int i = 0; i < 2; i++)
        if (dtype_bits(types[i]) > 8)
            type = product_joined(type, product_is_16bit(types[i]) ? types[i] : DTYPE_F32);
    return (ProductOrigin){.type = type, .by_product = type != DTYPE_COUNT};
}

/* Works out what all Values since the last call come of; operands stand before what uses them. */
static void product_trace(Expand *expand) {
    for (; expand->n_traced < expand->graph->values.n; expand->n_traced++) {
        Value *value = expand->graph->values.at[expand->n_traced];
        ProductOrigin *origin = product_origin(expand, value);
        bool is_float = dtype_is_float(value->dtype), is_declared = origin->is_declared;
        if (value->op == OP_matmul && is_float)
            *origin = product_of_operands(value->in[0], value->in[1]);
        else if (is_float)
            *origin = product_combined(value);
        bool is_asked_for = value->op == OP_input || value->op == OP_cast || is_declared;
        if (product_is_16bit(value->dtype))
            origin->type = value->dtype;
        else if (is_float && dtype_bits(value->dtype) > 16 && is_asked_for)
            *origin = (ProductOrigin){.type = DTYPE_F32};
        origin->is_declared = is_declared;
    }
}

/* The 16-bit type in which two f32 intermediates are multiplied; DTYPE_COUNT: in f32. */
static DType product_common_type(Expand *expand, const Value *a, const Value *b) {
    product_trace(expand);
    const ProductOrigin *of[] = {a->scratch, b->scratch};
    if ((of[0]->of_bytes && product_has_bytes(b, true)) || (of[1]->of_bytes && product_has_bytes(a, false)))
        return DTYPE_BF16;
    DType type = product_joined(of[0]->type, of[1]->type);
    bool is_scaled =
        dtype_bits(product_scaled_type(a, false)) <= 16 && dtype_bits(product_scaled_type(b, true)) <= 16;
    return product_is_16bit(type) && !is_scaled ? type : DTYPE_COUNT;
}

/* The 16-bit type to which f32 intermediates among two operands are cast; DTYPE_COUNT: to none. */
static DType product_type(Expand *expand, const Value *a, const Value *b) {
    if (product_is_16bit(a->dtype) || product_is_16bit(b->dtype))
        return product_is_16bit(a->dtype) ? a->dtype : b->dtype;
    bool are_f32 = a->dtype == DTYPE_F32 && b->dtype == DTYPE_F32;
    return are_f32 && !product_is_wanted_f32(a) && !product_is_wanted_f32(b)
               ? product_common_type(expand, a, b)
               : DTYPE_COUNT;
}

static Value *product_operand(Expand *expand, Value *value, DType type, Span span) {
    if (type == DTYPE_COUNT || value->dtype != DTYPE_F32 || product_is_wanted_f32(value))
        return value;
    Meaning cast = operator_cast(expand, (Meaning){.kind = MEANING_TENSOR, .value = value}, type, span);
    return cast.kind == MEANING_TENSOR ? cast.value : NULL;
}

Meaning product_factor(Expand *expand, Meaning a, Meaning b, Span span) {
    Value *cast = product_operand(expand, a.value, product_type(expand, a.value, b.value), span);
    return cast ? (Meaning){.kind = MEANING_TENSOR, .value = cast} : (Meaning){.kind = MEANING_FAILED};
}

static Value *product_reshaped(Expand *expand, Value *value, int rank, const Dim *const *dims, Span span) {
    Meaning made = indexing_reshape(expand, value, rank, dims, span);
    return made.kind == MEANING_TENSOR ? made.value : NULL;
}

/* A vector on the left is a row, one on the right a column; the axis of size 1 is taken off the product
 * again. */
Meaning product_of(Expand *expand, Meaning left, Meaning right, Span span) {
    if (left.kind != MEANING_TENSOR || right.kind != MEANING_TENSOR)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, span, "'@' is for tensors, not for %s",
                           meaning_noun(left.kind != MEANING_TENSOR ? &left : &right));
    Value *a = left.value, *b = right.value;
    if (a->rank == 0 || b->rank == 0)
        return expand_fail(expand, DIAG_RANK, span, "'@' is for vectors and matrices, not for scalars");
    bool row = a->rank == 1, column = b->rank == 1;
    const Dim *one = dim_const(expand->graph->dims, 1);
    DType type = product_type(expand, a, b);
    a = product_operand(expand, a, type, span);
    b = a ? product_operand(expand, b, type, span) : NULL;
    if (!b)
        return (Meaning){.kind = MEANING_FAILED};
    if (row)
        a = product_reshaped(expand, a, 2, (const Dim *[]){one, a->dims[0]}, span);
    if (column)
        b = product_reshaped(expand, b, 2, (const Dim *[]){b->dims[0], one}, span);
    if (!a || !b)
        return (Meaning){.kind = MEANING_FAILED};
    Value *in[2] = {a, b};
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
    Meaning product = expand_append(expand, OP_matmul, in, 2, attrs, span);
    if (product.kind != MEANING_TENSOR || !(row || column))
        return product;
    const Value *full = product.value;
    const Dim *dims[RANK_MAX];
    int rank = 0;
    for (int i = 0; i < full->rank; i++)
        if (!(row && i == full->rank - 2) && !(column && i == full->rank - 1))
            dims[rank++] = full->dims[i];
    Value *trimmed = product_reshaped(expand, product.value, rank, dims, span);
    return trimmed ? (Meaning){.kind = MEANING_TENSOR, .value = trimmed} : (Meaning){.kind = MEANING_FAILED};
}
