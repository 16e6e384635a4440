#include "ir/gaps.h"

#include <math.h>

bool gaps_in(const Value *operand) {
    enum { BITS = 16 };
    if (dtype_bits(operand->dtype) != BITS)
        return false;
    while (op_info(operand->op)->class_ == OPCLASS_MOVEMENT || operand->op == OP_cast)
        operand = operand->in[0];
    if (operand->op != OP_select || operand->in[2]->op != OP_constant || operand->in[1]->op != OP_select)
        return false;
    const Value *is_own = operand->in[0];
    if (is_own->op != OP_eq || is_own->in[0]->op != OP_index || is_own->in[1]->op != OP_index)
        return false;
    double gap = operand->in[2]->attrs[0].number.f;
    return dtype_is_float(operand->in[2]->dtype) && gap == 0 && signbit(gap);
}
