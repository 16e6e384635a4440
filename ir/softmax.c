#include "ir/softmax.h"

/* Whether `row` has one element for each row of `x`. */
static bool softmax_is_of_rows(const Value *row, const Value *x) {
    return row->rank && value_same_rows(row, x) && dim_is(row->dims[row->rank - 1], 1);
}

bool softmax_of(const Value *value, Softmax *out) {
    const Value *share = value->op == OP_cast ? value->in[0] : NULL;
    if (!share || share->op != OP_div || share->in[0]->op != OP_exp || share->in[1]->op != OP_sum)
        return false;
    const Value *e = share->in[0], *below = e->in[0];
    Value *sum = share->in[1];
    if (sum->in[0] != e || below->op != OP_sub || below->in[1]->op != OP_reduce_max)
        return false;
    Value *x = below->in[0], *max = below->in[1];
    if (max->in[0] != x || x->dtype != DTYPE_F32 || e->dtype != DTYPE_F32 || sum->dtype != DTYPE_F32 ||
        share->dtype != DTYPE_F32 || !softmax_is_of_rows(max, x) || !softmax_is_of_rows(sum, x))
        return false;
    *out = (Softmax){.x = x, .max = max, .sum = sum};
    return true;
}
