/* The roofline model (Williams, Waterman and Patterson, CACM 2009), with the peaks of targets.def. */
#include "runtime/cli/roofline.h"

#include <math.h>

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

/* Multiply-adds of elements of a type, each 2: what is shorter than a byte is multiplied as 16 bits. */
static double roofline_peak(const Target *target, DType type) {
    switch (type) {
    case DTYPE_BF16:
    case DTYPE_F16:
    case DTYPE_I4:
    case DTYPE_U4: return target->tensor_flops;
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_I8:
    case DTYPE_U8: return target->has_mma_fp8 ? 2 * target->tensor_flops : target->tensor_flops;
    case DTYPE_TF32: return target->tensor_flops / 2;
    case DTYPE_F64: return target->tensor_f64_flops > 0 ? target->tensor_f64_flops : target->fma_flops / 2;
    default: return target->fma_flops;
    }
}

/* What a value is computed of, as far as it decides how fast products of it are: a scaled or normalized
 * tensor is multiplied in the type that it had in memory. */
typedef struct RooflineSource {
    double count; /* elements of the largest tensor, before it was repeated */
    double peak;  /* of that; of several the slowest */
} RooflineSource;

static RooflineSource roofline_slower(RooflineSource a, RooflineSource b) {
    if (a.count != b.count)
        return a.count > b.count ? a : b;
    return a.peak < b.peak ? a : b;
}

/* sources: of the values before it. */
static RooflineSource roofline_source(const Problem *problem, const Target *target, const Value *value,
                                      const RooflineSource *sources) {
    RooflineSource own = {roofline_count(problem, value), roofline_peak(target, value->dtype)};
    OpClass class_ = op_info(value->op)->class_;
    bool narrows = value->op == OP_cast && !dtype_widens(value->in[0]->dtype, value->dtype);
    bool is_seen_through = class_ == OPCLASS_MOVEMENT || op_is_scalar(value->op) || value->op == OP_cast;
    if (value->op == OP_matmul) /* of its sums in a further product */
        return (RooflineSource){own.count,
                                fmin(sources[value->in[0]->id].peak, sources[value->in[1]->id].peak)};
    if (!is_seen_through || narrows || value->n_in == 0)
        return own;
    RooflineSource source = sources[value->in[0]->id];
    for (int i = 1; i < value->n_in && class_ != OPCLASS_MOVEMENT; i++)
        source = roofline_slower(source, sources[value->in[i]->id]);
    source.count = fmin(source.count, own.count);
    return source;
}

Roofline roofline_of(const Problem *problem, const Target *target) {
    Roofline r = {0};
    const Graph *g = problem->g;
    for (size_t i = 0; i < g->inputs.n; i++)
        r.bytes += roofline_bytes(problem, g->inputs.at[i]);
    for (size_t i = 0; i < g->outputs.n; i++)
        r.bytes += roofline_bytes(problem, g->outputs.at[i].value);
    RooflineSource *sources = ARENA_ARRAY(problem->arena, RooflineSource, g->values.n);
    for (size_t i = 0; i < g->values.n; i++) {
        const Value *v = g->values.at[i];
        sources[v->id] = roofline_source(problem, target, v, sources);
        if (v->op != OP_matmul)
            continue;
        int64_t k = 0;
        dim_eval(v->in[0]->dims[v->in[0]->rank - 1], &problem->bindings, &k);
        double flops = 2 * roofline_count(problem, v) * (double)k;
        r.flops += flops;
        r.compute_us += flops / sources[v->id].peak * 1e6;
    }
    r.memory_us = r.bytes / target->memory_bytes_per_second * 1e6;
    r.floor_us = r.memory_us > r.compute_us ? r.memory_us : r.compute_us;
    return r;
}
