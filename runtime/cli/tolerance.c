/* Tolerances that an output has by what it is computed from. */
#include "runtime/cli/tolerance.h"

#include "ir/value_map.h"
#include "runtime/cli/compare.h"

/* Tensor cores add up fp8 products of one instruction, 32 along K, in about 14 bits ("DeepSeek-V3 Technical
 * Report", 2024, section 3.3.2), whatever the accumulators hold: 2^-13 of a sum's largest parts, of which a
 * result may be a small part. */
static const double tolerance_fp8 = 1e-3;

enum {
    TOLERANCE_ELEMENTS = 1 /* fp8 elements, perhaps times factors */,
    TOLERANCE_PRODUCT = 2 /* of such */
};

static bool tolerance_passes_on(const Value *value) {
    OpClass class_ = op_info(value->op)->class_;
    return class_ == OPCLASS_POINTWISE || class_ == OPCLASS_MOVEMENT || class_ == OPCLASS_COMPOSITE;
}

static int tolerance_marks(const Value *value, const ValueMap *marks) {
    int any = 0, all = TOLERANCE_ELEMENTS;
    for (int i = 0; i < value->n_in; i++) {
        any |= value_map_get(marks, value->in[i]);
        all &= value_map_get(marks, value->in[i]);
    }
    bool is_fp8 = dtype_is_fp8(value->dtype);
    int own = any & TOLERANCE_PRODUCT;
    if (is_fp8 || (tolerance_passes_on(value) && any & TOLERANCE_ELEMENTS))
        own |= TOLERANCE_ELEMENTS;
    if (value->op == OP_matmul && all)
        own |= TOLERANCE_PRODUCT;
    return own;
}

double tolerance_of_output(Arena *arena, const Graph *graph, size_t output) {
    const Value *value = graph->outputs.at[output].value;
    double own = compare_default_rtol(value->dtype);
    ValueMap marks = {.arena = arena};
    for (size_t i = 0; i < graph->values.n; i++)
        value_map_set(&marks, graph->values.at[i], tolerance_marks(graph->values.at[i], &marks));
    bool is_less_exact = value_map_get(&marks, value) & TOLERANCE_PRODUCT && dtype_is_float(value->dtype);
    return is_less_exact && own < tolerance_fp8 ? tolerance_fp8 : own;
}
