#include "ir/gaps.h"

#include <math.h>

bool gaps_in(const Value *operand) {
    while (op_info(operand->op)->class_ == OPCLASS_MOVEMENT || operand->op == OP_cast)
        operand = operand->in[0];
    if (operand->op != OP_select || operand->in[2]->op != OP_constant)
        return false;
    double gap = operand->in[2]->attrs[0].number.f;
    return dtype_is_float(operand->in[2]->dtype) && gap == 0 && signbit(gap);
}
