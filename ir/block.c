#include "ir/block.h"

bool block_statistic(const Value *value, BlockStatistic *out) {
    if (op_info(value->op)->class_ != OPCLASS_REDUCTION || value->attrs[0].axes.n != 1 ||
        !value->attrs[1].i || value->in[0]->op != OP_reshape)
        return false;
    const Value *cut = value->in[0], *whole = cut->in[0];
    int axis = value->attrs[0].axes.at[0] - 1;
    if (cut->rank != whole->rank + 1 || axis < 0 || axis < whole->rank - 2 ||
        !dim_is_const(cut->dims[axis + 1]))
        return false;
    for (int i = 0; i < whole->rank; i++)
        if (i != axis && whole->dims[i] != cut->dims[i < axis ? i : i + 1])
            return false;
    *out = (BlockStatistic){.of = whole->op == OP_pad ? whole->in[0] : cut->in[0],
                            .axis = axis,
                            .block = cut->dims[axis + 1]->value};
    return out->of->rank >= 2;
}

const Value *block_stored(const Value *output) {
    BlockStatistic block;
    while (output->op == OP_reshape || output->op == OP_transpose)
        output = output->in[0];
    return block_statistic(output, &block) ? output : NULL;
}

/* The broadcast of a statistic to what it was reduced from. */
static const Value *block_of_broadcast(const Value *value) {
    BlockStatistic statistic;
    bool is_one = value->op == OP_broadcast && block_statistic(value->in[0], &statistic) &&
                  value_same_dims(value, value->in[0]->in[0]);
    return is_one ? value->in[0] : NULL;
}

static const Value *block_of_reshape(const Value *value) {
    const Value *statistic = value->op == OP_reshape ? block_of_broadcast(value->in[0]) : NULL;
    return statistic && value_same_dims(value, statistic->in[0]->in[0]) ? statistic : NULL;
}

const Value *block_repeated(const Value *value) {
    const Value *statistic = value->op == OP_slice ? block_of_reshape(value->in[0]) : NULL;
    BlockStatistic block;
    if (!statistic)
        return value->op == OP_slice     ? NULL
               : value->op == OP_reshape ? block_of_reshape(value)
                                         : block_of_broadcast(value);
    if (!block_statistic(statistic, &block) || !value_same_dims(value, block.of))
        return NULL;
    for (int i = 0; i < value->rank; i++)
        if (!dim_is(value->attrs[0].dims[i], 0) || value->attrs[2].ints[i] != 1)
            return NULL;
    return statistic;
}
