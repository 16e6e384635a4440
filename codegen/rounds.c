#include "codegen/rounds.h"

#include <math.h>

bool rounds_is_hit(const Value *value, const Value *at, int from_end, const Dim *extent) {
    if (value->op != OP_eq)
        return false;
    for (int i = 0; i < 2; i++) {
        const Value *index = value->in[i], *number = value->in[!i];
        number = number->op == OP_cast ? number->in[0] : number;
        int axis = index->rank - from_end;
        if (index->op == OP_index && number == at && axis >= 0 && index->attrs[1].i == axis &&
            index->dims[axis] == extent)
            return true;
    }
    return false;
}

/* Whether `value` is what loses against every element of x, itself included. */
static bool rounds_is_taken(const Value *x, const Value *value) {
    double number;
    if (!value_is_constant(value, &number))
        return false;
    return number == (dtype_is_float(x->dtype) ? -INFINITY : (double)dtype_min_int(x->dtype));
}

const Value *rounds_next(const Region *region, const Value *x, const Value *at, int from_end,
                         const Dim *extent) {
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        if (value->op == OP_select && value->in[2] == x && rounds_is_taken(x, value->in[1]) &&
            rounds_is_hit(value->in[0], at, from_end, extent))
            return value;
    }
    return NULL;
}
