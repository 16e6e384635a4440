/* Values of attention that are columns of the keys' own rows, as where both are expanded from one compressed
 * vector ("DeepSeek-V2", 2024): a tile of keys has them, for which MN-major is the other way to read it
 *
 *     k = memory[..., 0:576]        one tile     rows of keys, in blocks of one span of columns each
 *     v = memory[..., 0:512]                     its first eight blocks */
#include "codegen/templates/chain_stream.h"

/* Whether two operands' axes go the same way through memory. */
static bool values_axis_alike(const MatmulOperand *a, int axis, const MatmulOperand *b, int other) {
    return a->value->dims[axis] == b->value->dims[other] &&
           (dim_is(a->value->dims[axis], 1) || a->view.strides[axis] == b->view.strides[other]);
}

/* Whether indices choose the same of both: matrices, or pages of keys. */
static bool values_chosen_alike(const MatmulOperand *keys, const MatmulOperand *values) {
    const ViewGather *a = keys->chosen, *b = values->chosen;
    if (!a || !b)
        return !a && !b;
    bool alike = a->index.base == b->index.base && a->index.offset == b->index.offset && a->step == b->step &&
                 a->extent == b->extent && a->page == b->page;
    if (a->page)
        alike = alike && a->page_axis == keys->mn_axis && b->page_axis == values->k_axis &&
                a->index.strides[a->page_axis] == b->index.strides[b->page_axis];
    for (int i = 0; i < keys->value->rank - 2 && alike; i++)
        alike = a->index.strides[i] == b->index.strides[i];
    return alike && !keys->chooses_rows && !values->chooses_rows;
}

int64_t chain_values_from(const ChainPlan *plan) {
    const MatmulOperand *keys = &plan->link[0].b[0], *values = &plan->link[1].b[0];
    DimTable *dims = plan->graph->dims;
    int rank = keys->value->rank;
    if ((!keys->is_memory && !keys->chosen) || (!values->is_memory && !values->chosen) ||
        keys->major != MAJOR_K || values->major != MAJOR_MN || rank != values->value->rank ||
        keys->view.base != values->view.base || !values_chosen_alike(keys, values))
        return -1;
    bool alike = values_axis_alike(keys, keys->mn_axis, values, values->k_axis) &&
                 keys->view.strides[keys->k_axis] == values->view.strides[values->mn_axis];
    for (int i = 0; i < rank - 2 && alike; i++)
        alike = values_axis_alike(keys, i, values, i);
    const Dim *from = dim_sub(dims, values->view.offset, keys->view.offset);
    if (!alike || !dim_is_const(keys->value->dims[keys->k_axis]) || !dim_is_const(from) || from->value < 0)
        return -1;
    int bits = dtype_bits(keys->elem);
    int64_t span = (int64_t)tile_span_bytes(stream_width(plan) * bits / 8) * 8 / bits; /* a block's columns */
    return from->value % span == 0 ? from->value : -1;
}
