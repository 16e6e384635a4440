/* Elements of 8 bits that are multiplied with factors of blocks. Matrix instructions take them along K alone,
 * so those that lie along M or N are copied to that order; the factors stay as they are, and are applied to
 * sums of products (codegen/templates/matmul_scale.c), for which they are in f32:
 *
 *     dx = dequantize(dy, sd) @ dequantize(w, sw)      w: e4m3[N, K], contracted along N; sw: bf16
 * ->  p  = transpose(w)                                a kernel of its own
 *     f  = cast(sw, f32)                               another one, for a number a block
 *     dx = dequantize(dy, sd) @ (p.T * wide(f))
 *
 * Without that the elements would be multiplied by their factors first: a product in f32.
 *
 * Where every few elements have a factor, sums of so few products take longer than a product in 16 bits.
 * Powers of two leave the elements' digits as they are, so that bf16 holds what they give, and both operands
 * are computed in it first:
 *
 *     y = (x * wide(exp2(ex))) @ (w * wide(exp2(ew))).T          ex, ew: integers, one for each 32 of K
 * ->  y = cast(x * wide(exp2(ex)), bf16) @ cast(w * wide(exp2(ew)), bf16).T */
#include "passes/realign.h"

#include <math.h>

static const double scaled_fma = 45e12, scaled_bytes = 1200e12; /* operations a second */
/* Seconds for each element of K, however few rows and columns are multiplied in f32. */
static const double scaled_fma_step = 45e-9;

/* The same in sums of 32 elements, each with a factor of its own, and in bf16. */
static const double scaled_short = 300e12, scaled_bf16 = 720e12;
enum { SCALED_SHORT = 32 };

/* An operand that is elements times factors, or such a product with its last axes exchanged. */
typedef struct ScaledOperand {
    Value *product; /* NULL: the operand is no such product */
    int elements;   /* which of its inputs they are */
    bool is_second; /* whether its axes are in the order of a second operand, K first */
} ScaledOperand;

static bool scaled_is_byte(const Value *value) {
    return dtype_is_fp8(value->dtype) || dtype_is_int8(value->dtype);
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
        if (scaled_is_byte(product->in[i]) && value_same_dims(product->in[i], product)) {
            found.product = product;
            found.elements = i;
        }
    return found;
}

static bool scaled_is_turned(const ScaledOperand *operand) {
    return operand->product && realign_is_turned(operand->product->in[operand->elements], operand->is_second);
}

static Value *scaled_factors(const ScaledOperand *operand) {
    return operand->product ? operand->product->in[1 - operand->elements] : NULL;
}

static bool scaled_is_half(const ScaledOperand *operand) {
    const Value *factors = scaled_factors(operand);
    return factors && dtype_is_float(factors->dtype) && dtype_bits(factors->dtype) == 16;
}

/* What factors repeat, in f32. */
static Value *scaled_widened(Rewrite *rewrite, Value *factors) {
    if (!op_is_view(factors->op))
        return build_cast(rewrite, factors, DTYPE_F32, factors);
    Value *below = scaled_widened(rewrite, factors->in[0]);
    return below ? build_like(rewrite, factors, &below) : NULL;
}

/* Whether a value is a whole number, whatever type it is computed in. */
static bool scaled_is_whole(const Value *value) {
    double number;
    if (value->op == OP_cast)
        return !dtype_is_float(value->in[0]->dtype) || scaled_is_whole(value->in[0]);
    if (value->op == OP_add || value->op == OP_sub)
        return scaled_is_whole(value->in[0]) && scaled_is_whole(value->in[1]);
    if (op_is_view(value->op))
        return scaled_is_whole(value->in[0]);
    return !dtype_is_float(value->dtype) || (value_is_constant(value, &number) && number == trunc(number));
}

/* Whether an operand's elements have a power of two each SCALED_SHORT, or more of them. */
static bool scaled_is_shifted(const ScaledOperand *operand) {
    Value *factors = scaled_factors(operand);
    if (factors)
        factors = value_below_views(factors);
    return factors && factors->op == OP_exp2 && factors->dtype == DTYPE_F32 &&
           scaled_is_whole(factors->in[0]) &&
           realign_count(operand->product) <= SCALED_SHORT * realign_count(factors);
}

/* Seconds that computing an operand in bf16 takes. */
static double scaled_bf16_seconds(const ScaledOperand *operand) {
    const Value *elements = operand->product->in[operand->elements];
    return realign_copy_seconds(elements) * (1 + dtype_bits(DTYPE_BF16) / dtype_bits(elements->dtype)) / 2;
}

/* Both operands in bf16, where that is quicker; NULL: it is not, or would round. */
static Value *scaled_in_bf16(Rewrite *rewrite, Value *product, const ScaledOperand *operands,
                             double operations) {
    if (!scaled_is_shifted(&operands[0]) || !scaled_is_shifted(&operands[1]) ||
        operations * (1 / scaled_short - 1 / scaled_bf16) <
            scaled_bf16_seconds(&operands[0]) + scaled_bf16_seconds(&operands[1]))
        return NULL;
    Value *in[2];
    for (int i = 0; i < 2; i++) {
        in[i] = build_cast(rewrite, operands[i].product, DTYPE_BF16, product);
        if (in[i] && product->in[i] != operands[i].product)
            in[i] = build_like(rewrite, product->in[i], &in[i]);
    }
    if (!in[0] || !in[1])
        return NULL;
    pass_decide(rewrite->pass, "realign", false, product, NULL,
                "smaller operands, or factors of more elements, or other numbers than powers of two",
                "bf16 holds both operands, whose factors are powers of two, and their product takes less "
                "than sums of %d elements with a factor each",
                SCALED_SHORT);
    return build_like(rewrite, product, in);
}

/* Seconds that an operand's copies take before its product. */
static double scaled_seconds(const ScaledOperand *operand, const Value *value, bool is_second) {
    double seconds = scaled_is_half(operand) ? realign_launch : 0;
    if (scaled_is_turned(operand))
        return seconds + realign_copy_seconds(operand->product->in[operand->elements]);
    return !operand->product && realign_is_turned(value, is_second) ? realign_copy_seconds(value) : seconds;
}

static Value *scaled_copied(Rewrite *rewrite, Value *operand, const ScaledOperand *found) {
    if (!scaled_is_turned(found) && !scaled_is_half(found))
        return operand;
    Value *in[2] = {found->product->in[0], found->product->in[1]};
    if (scaled_is_turned(found))
        in[found->elements] = realign_turned(rewrite, in[found->elements], found->is_second);
    if (scaled_is_half(found))
        in[1 - found->elements] = scaled_widened(rewrite, scaled_factors(found));
    if (!in[0] || !in[1])
        return operand;
    Value *product = build_like(rewrite, found->product, in);
    return operand == found->product ? product : build_like(rewrite, operand, &product);
}

Value *realign_scaled(Rewrite *rewrite, Value *product) {
    ScaledOperand operands[2];
    double copies = 0;
    for (int i = 0; i < 2; i++) {
        operands[i] = scaled_find(product->in[i], i);
        if (!operands[i].product && !scaled_is_byte(product->in[i]))
            return NULL;
        copies += scaled_seconds(&operands[i], product->in[i], i);
    }
    const Dim *k = product->in[0]->dims[product->in[0]->rank - 1];
    double length = dim_is_const(k) ? (double)k->value : 0;
    double operations = 2 * realign_count(product) * length;
    double multiplied = fmax(operations / scaled_fma, length * scaled_fma_step);
    bool has_factors = operands[0].product || operands[1].product;
    Value *in_bf16 = scaled_in_bf16(rewrite, product, operands, operations);
    if (in_bf16)
        return in_bf16;
    if (!has_factors || copies == 0 || multiplied - operations / scaled_bytes < copies)
        return NULL;
    Value *in[2] = {product->in[0], product->in[1]};
    for (int i = 0; i < 2; i++)
        if (operands[i].product)
            in[i] = scaled_copied(rewrite, in[i], &operands[i]);
        else if (realign_is_turned(in[i], i))
            in[i] = realign_turned(rewrite, in[i], i);
    return build_like(rewrite, product, in);
}
