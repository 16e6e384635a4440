/* fp8 elements that are multiplied with factors of blocks, and lie along M or N. Matrix instructions take fp8
 * along K alone, so the elements are copied to that order; the factors stay as they are, and are applied to
 * sums of products (codegen/templates/matmul_scale.c):
 *
 *     dx = dequantize(dy, sd) @ dequantize(w, sw)      w: e4m3[N, K], contracted along N
 * ->  p  = transpose(w)                                a kernel of its own
 *     dx = dequantize(dy, sd) @ (p.T * wide(sw))
 *
 * Without the copy the elements would be multiplied by their factors first: a product in f32. */
#include "passes/realign.h"

static const double scaled_fma = 45e12, scaled_fp8 = 1200e12; /* operations a second */

/* An operand that is elements times factors, or such a product with its last axes exchanged. */
typedef struct ScaledOperand {
    Value *product; /* NULL: the operand is no such product */
    int elements;   /* which of its inputs they are */
    bool is_second; /* whether its axes are in the order of a second operand, K first */
} ScaledOperand;

static bool scaled_is_fp8(const Value *value) {
    return value->dtype == DTYPE_E4M3 || value->dtype == DTYPE_E5M2;
}

static bool scaled_is_exchanged(const Value *value) {
    int last = value->rank - 1;
    if (value->op != OP_transpose || last < 1)
        return false;
    for (int i = 0; i < last - 1; i++)
        if (value->attrs[0].ints[i] != i)
            return false;
    return value->attrs[0].ints[last] == last - 1;
}

static ScaledOperand scaled_find(Value *operand, bool is_second) {
    bool is_exchanged = scaled_is_exchanged(operand);
    Value *product = is_exchanged ? operand->in[0] : operand;
    ScaledOperand found = {.is_second = is_second != is_exchanged};
    for (int i = 0; i < 2 && product->op == OP_mul && !found.product; i++)
        if (scaled_is_fp8(product->in[i]) && value_same_dims(product->in[i], product)) {
            found.product = product;
            found.elements = i;
        }
    return found;
}

static bool scaled_is_turned(const ScaledOperand *operand) {
    return operand->product && realign_is_turned(operand->product->in[operand->elements], operand->is_second);
}

static Value *scaled_copied(Rewrite *rewrite, Value *operand, const ScaledOperand *found) {
    Value *in[2] = {found->product->in[0], found->product->in[1]};
    in[found->elements] = realign_turned(rewrite, in[found->elements], found->is_second);
    Value *product = build_like(rewrite, found->product, in);
    return operand == found->product ? product : build_like(rewrite, operand, &product);
}

Value *realign_scaled(Rewrite *rewrite, Value *product) {
    ScaledOperand operands[2];
    double copies = 0;
    for (int i = 0; i < 2; i++) {
        operands[i] = scaled_find(product->in[i], i);
        if (!operands[i].product && !scaled_is_fp8(product->in[i]))
            return NULL;
        if (scaled_is_turned(&operands[i]))
            copies += realign_copy_seconds(operands[i].product->in[operands[i].elements]);
        else if (!operands[i].product && realign_is_turned(product->in[i], i))
            copies += realign_copy_seconds(product->in[i]);
    }
    const Dim *k = product->in[0]->dims[product->in[0]->rank - 1];
    double operations = dim_is_const(k) ? 2 * realign_count(product) * (double)k->value : 0;
    bool has_factors = operands[0].product || operands[1].product;
    if (!has_factors || copies == 0 || operations / scaled_fma - operations / scaled_fp8 < copies)
        return NULL;
    Value *in[2] = {product->in[0], product->in[1]};
    for (int i = 0; i < 2; i++)
        if (scaled_is_turned(&operands[i]))
            in[i] = scaled_copied(rewrite, in[i], &operands[i]);
        else if (!operands[i].product && realign_is_turned(in[i], i))
            in[i] = realign_turned(rewrite, in[i], i);
    return build_like(rewrite, product, in);
}
