/* The roofline model (Williams, Waterman and Patterson, CACM 2009), with the peaks of targets.def. */
#include "runtime/cli/roofline.h"

static double roofline_count(const Problem *problem, const Value *value) {
    double count = 1;
    for (int i = 0; i < value->rank; i++) {
        int64_t dim = 0;
        dim_eval(value->dims[i], &problem->bindings, &dim);
        count *= (double)dim;
    }
    return count;
}

static double roofline_bytes(const Problem *problem, const Value *value) {
    return roofline_count(problem, value) * dtype_bits(value->dtype) / 8;
}

/* The element type that reaches the matrix product, seen through casts and movement. */
static DType roofline_type(const Value *value) {
    while (value->n_in &&
           (value->op == OP_transpose || value->op == OP_reshape || value->op == OP_broadcast ||
            value->op == OP_slice || value->op == OP_window || value->op == OP_pad ||
            (value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype))))
        value = value->in[0];
    return value->dtype;
}

static double roofline_peak(const Target *target, DType type) {
    switch (type) {
    case DTYPE_BF16:
    case DTYPE_F16: return target->tensor_flops;
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_I8:
    case DTYPE_U8: return target->has_mma_fp8 ? 2 * target->tensor_flops : target->tensor_flops;
    case DTYPE_TF32: return target->tensor_flops / 2;
    case DTYPE_F64: return target->tensor_f64_flops > 0 ? target->tensor_f64_flops : target->fma_flops / 2;
    default: return target->fma_flops;
    }
}

Roofline roofline_of(const Problem *problem, const Target *target) {
    Roofline r = {0};
    const Graph *g = problem->g;
    for (size_t i = 0; i < g->inputs.n; i++)
        r.bytes += roofline_bytes(problem, g->inputs.at[i]);
    for (size_t i = 0; i < g->outputs.n; i++)
        r.bytes += roofline_bytes(problem, g->outputs.at[i].value);
    for (size_t i = 0; i < g->values.n; i++) {
        const Value *v = g->values.at[i];
        if (v->op != OP_matmul)
            continue;
        int64_t k = 0;
        dim_eval(v->in[0]->dims[v->in[0]->rank - 1], &problem->bindings, &k);
        double flops = 2 * roofline_count(problem, v) * (double)k;
        r.flops += flops;
        r.compute_us += flops / roofline_peak(target, roofline_type(v->in[0])) * 1e6;
    }
    r.memory_us = r.bytes / target->memory_bytes_per_second * 1e6;
    r.floor_us = r.memory_us > r.compute_us ? r.memory_us : r.compute_us;
    return r;
}
