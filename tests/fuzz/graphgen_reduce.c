/* Reductions, matrix products, and what is made from dims alone. */
#include <math.h>
#include <string.h>

#include "ir/infer.h"
#include "tests/fuzz/graphgen_internal.h"

Value *gen_shaped(Gen *gen, OpKind op) {
    const Dim *dims[4];
    int rank = gen_below(gen, 4) + (op == OP_index);
    for (int i = 0; i < rank; i++)
        dims[i] = gen_dim(gen);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = dims, .n_dims = rank}};
    if (op == OP_index) {
        attrs[1].i = gen_below(gen, rank);
        return gen_append(gen, op, NULL, 0, attrs, (Known){.high = gen->options.max_dim});
    }
    Value *key = gen_constant(gen, gen_below(gen, 1000), DTYPE_I64);
    attrs[1].i = gen_below(gen, 4);
    Known known = op == OP_normal ? (Known){.low = -6, .high = 6, .error = 1e-5} : (Known){.high = 1};
    return key ? gen_append(gen, op, &key, 1, attrs, known) : NULL;
}

Value *gen_reduction(Gen *gen, OpKind op) {
    Value *x = gen_any(gen);
    const Known *known = gen_known(x);
    Attr attrs[OP_MAX_ATTRS] = {{.axes = {.n = 0}}, {.i = gen_below(gen, 2)}};
    int64_t n = 1, dim;
    for (int i = 0; i < x->rank; i++)
        if (gen_chance(gen, i + 1 == x->rank ? 60 : 30)) {
            attrs[0].axes.at[attrs[0].axes.n++] = i;
            n *= dim_eval(x->dims[i], &gen->bindings, &dim) ? dim : 1;
        }
    double magnitude = fmax(fabs(known->low), fabs(known->high)), count = (double)n;
    bool floats = dtype_is_float(x->dtype);
    DType result = dtype_compute(x->dtype);
    Known whole = {.low = (double)dtype_min_int(DTYPE_I64), .high = (double)dtype_max_int(DTYPE_I64)};
    Known out = floats ? *known : result == DTYPE_I64 ? whole : (Known){.low = INT32_MIN, .high = INT32_MAX};
    switch (op_info(op)->infer == infer_reduction ? op : OP_COUNT) {
    case OP_sum:
        if (floats)
            out = (Known){.low = fmin(0, count * known->low),
                          .high = fmax(0, count * known->high),
                          .error = count * known->error + GEN_RELATIVE * count * magnitude + GEN_ABSOLUTE};
        break;
    case OP_prod:
        /* Factors above 1 multiply beyond all bounds soon. */
        if (floats && (n > 8 || magnitude > 2.5))
            return NULL;
        if (floats) {
            double most = pow(fmax(1, magnitude), count);
            out = (Known){.low = -most,
                          .high = most,
                          .error = count * most * (known->error + GEN_RELATIVE) + GEN_ABSOLUTE};
        }
        break;
    case OP_reduce_min:
    case OP_reduce_max:
        /* Of none, infinity or the end of the type: only where there is something. */
        if (n == 0)
            return NULL;
        out = *known;
        break;
    default: /* logical and of arguments: a rounding may turn them over */
        if (known->error > 0)
            return NULL;
        out = (Known){.high = op_info(op)->infer == infer_logical_reduction ? 1 : (double)n};
        break;
    }
    return gen_append(gen, op, &x, 1, attrs, out);
}

Value *gen_matmul(Gen *gen) {
    Value *a = gen_any(gen);
    DimTable *table = gen->graph->dims;
    if (a->rank < 2 || gen_chance(gen, 40)) {
        const Dim *dims[3] = {gen_dim(gen), gen_dim(gen), gen_dim(gen)};
        int rank = 2 + gen_chance(gen, 30);
        a = gen_input(gen, gen_dtype(gen), rank, dims);
        if (!a)
            return NULL;
    }
    const Dim *dims[RANK_MAX];
    int rank = gen_chance(gen, 50) ? 2 : a->rank;
    for (int i = 0; i < rank - 2; i++) /* batches: equal, 1, or repeated */
        dims[i] = gen_chance(gen, 25) ? dim_const(table, 1) : a->dims[i];
    const Dim *inner = a->dims[a->rank - 1];
    bool turned = gen_chance(gen, 50);
    dims[rank - 2] = turned ? gen_dim(gen) : inner;
    dims[rank - 1] = turned ? inner : gen_dim(gen);
    Value *b = gen_input(gen, gen_chance(gen, 70) ? a->dtype : gen_dtype(gen), rank, dims);
    if (!b)
        return NULL;
    if (turned) {
        int perm[RANK_MAX];
        for (int i = 0; i < rank; i++)
            perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        b = gen_append(gen, OP_transpose, &b, 1, (Attr[OP_MAX_ATTRS]){{.ints = perm, .n_ints = rank}},
                       *gen_known(b));
        if (!b)
            return NULL;
    }
    const Known *ka = gen_known(a), *kb = gen_known(b);
    int64_t k = 0;
    dim_eval(inner, &gen->bindings, &k);
    double ma = fmax(fabs(ka->low), fabs(ka->high)), mb = fmax(fabs(kb->low), fabs(kb->high)),
           most = (double)k * ma * mb;
    Known out = {.low = -most, .high = most};
    if (dtype_is_float(dtype_promote(a->dtype, b->dtype))) {
        /* Tensor cores sum products of 8-bit floats with fewer bits. */
        bool eighths = dtype_bits(a->dtype) <= 8 || dtype_bits(b->dtype) <= 8;
        out.error = (double)k * (ma * kb->error + mb * ka->error) + (eighths ? 2e-4 : GEN_RELATIVE) * most +
                    GEN_ABSOLUTE;
    } else if (most > INT32_MAX) {
        return NULL;
    }
    return gen_append(gen, OP_matmul, (Value *[]){a, b}, 2, NULL, out);
}
