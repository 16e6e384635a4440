/* Operations on constants are computed once, here, by the reference of the operation's own row.
 *
 *     c = 1 / 8                 c = 0.125
 *     y = x * cast(c)     ->    y = x * 0.125
 *
 * A result keeps the value that the graph means: constants of float types hold the reference's float64, so
 * folding rounds no more than a kernel would. Dims that are constants become numbers; a movement of a
 * constant is the constant, where its users broadcast anyway. */
#include "passes/rewrite.h"

static double fold_as_double(Number number, DType type) {
    return dtype_is_float(type) ? number.f : (double)number.i;
}

static DType fold_compute_type(const Value *value, const OpInfo *info) {
    int first = info->rule == RULE_SELECT ? 1 : 0;
    DType type = dtype_compute(value->in[first]->dtype);
    for (int i = first + 1; i < value->n_in; i++)
        type = dtype_promote(type, value->in[i]->dtype);
    return !info->int_ref && !dtype_is_float(type) ? DTYPE_F32 : type;
}

static Value *fold_scalar(Rewrite *rewrite, Value *value) {
    const OpInfo *info = op_info(value->op);
    double f[OP_MAX_ARITY] = {0};
    int64_t n[OP_MAX_ARITY] = {0};
    Number result;
    for (int i = 0; i < value->n_in; i++) {
        const Value *in = value->in[i];
        Number number = in->attrs[0].number;
        f[i] = fold_as_double(number, in->dtype);
        n[i] = dtype_is_float(in->dtype) ? number.f != 0 : number.i;
    }
    if (dtype_is_float(fold_compute_type(value, info))) {
        double computed = info->float_ref(f[0], f[1], f[2]);
        if (dtype_is_float(value->dtype))
            result.f = dtype_round(computed, value->dtype);
        else
            result.i = computed != 0;
    } else {
        result.i = info->int_ref(n[0], n[1], n[2]);
        if (value->dtype == DTYPE_I32)
            result.i = (int32_t)(uint32_t)result.i;
    }
    return build_constant(rewrite, result, value->dtype, value);
}

static Value *fold_dim(Rewrite *rewrite, Value *value) {
    const Dim *dim = value->attrs[0].dim;
    return dim_is_const(dim) ? build_constant(rewrite, (Number){.i = dim->value}, DTYPE_I64, value) : value;
}

/* Operands of an element-by-element operation broadcast by themselves, so a constant spread over dims is that
 * constant there, unless the dims of the result come from it. */
static Value *fold_spread(Rewrite *rewrite, Value *value) {
    Value *in[OP_MAX_ARITY];
    bool folded = false, dims_remain = false;
    for (int i = 0; i < value->n_in; i++) {
        Value *at = value->in[i];
        while (at->op == OP_broadcast || at->op == OP_reshape || at->op == OP_transpose || at->op == OP_slice)
            at = at->in[0];
        bool constant = at != value->in[i] && at->op == OP_constant;
        folded |= constant;
        in[i] = constant ? at : value->in[i];
        dims_remain |= !constant && value_same_dims(value->in[i], value);
    }
    return folded && dims_remain ? build_like(rewrite, value, in) : value;
}

static Value *fold_rule(Rewrite *rewrite, Value *value) {
    if (value->op == OP_dim)
        return fold_dim(rewrite, value);
    if (!value_is_pointwise(value))
        return value;
    for (int i = 0; i < value->n_in; i++)
        if (!value_is_scalar_constant(value->in[i]))
            return op_is_scalar(value->op) ? fold_spread(rewrite, value) : value;
    if (value->op == OP_cast)
        return build_constant(rewrite,
                              dtype_convert(value->in[0]->attrs[0].number, value->in[0]->dtype, value->dtype),
                              value->dtype, value);
    return fold_scalar(rewrite, value);
}

bool pass_fold(Pass *pass, Graph *graph) {
    return rewrite_graph(pass, graph, fold_rule);
}
