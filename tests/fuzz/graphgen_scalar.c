/* Scalars and casts: operands that broadcast, brought where the function is tame. */
#include <math.h>

#include "ir/infer.h"
#include "tests/fuzz/graphgen_internal.h"

enum { SAMPLES = 17, JUMP_STEPS = 24 };

static double gen_float_ref(const OpInfo *info, const double *x) {
    return info->float_ref(x[0], x[1], x[2]);
}

/* Whether the function jumps somewhere between two points that differ in one operand: halving the gap does
 * not close it. */
static bool gen_jumps(const OpInfo *info, const double *from, int operand, double to) {
    double a[3] = {from[0], from[1], from[2]}, b[3] = {from[0], from[1], from[2]}, gap = 0;
    b[operand] = to;
    for (int step = 0; step < JUMP_STEPS; step++) {
        double middle[3] = {a[0], a[1], a[2]};
        middle[operand] = a[operand] + (b[operand] - a[operand]) / 2;
        double fa = gen_float_ref(info, a), fm = gen_float_ref(info, middle), fb = gen_float_ref(info, b);
        gap = fabs(fa - fb);
        if (fabs(fm - fa) > fabs(fb - fm))
            b[operand] = middle[operand];
        else
            a[operand] = middle[operand];
    }
    return gap > 1e-3;
}

/* Points at which a function is looked at: evenly over the interval, and closely around 0, where poles are.
 */
static int gen_points(Gen *gen, const Known *known, int least, double **out) {
    double width = known->high - known->low, per_unit = least > SAMPLES ? 8 : 0;
    int n = (int)fmax(least, width * per_unit), count = 0;
    double *points = *out = ARENA_ARRAY(gen->arena, double, (size_t)n + 4);
    static const double close[] = {-1e-4, 0, 1e-4};
    for (int i = 0, k = 0; i <= n; i++) {
        double at = i == n ? known->high : known->low + width * i / n;
        for (; k < 3 && close[k] <= at; k++)
            if (close[k] > known->low)
                points[count++] = close[k];
        points[count++] = at;
    }
    return count;
}

/* Interval and error of a scalar of floats, by sampling a grid; false where it is not finite or too steep
 * there. */
static bool gen_sample(Gen *gen, const OpInfo *info, const Known *const *in, Known *out) {
    int n = info->n_in, least = n == 1 ? 64 : n == 2 ? SAMPLES : 5, counts[OP_MAX_ARITY], total = 1;
    double steepest[OP_MAX_ARITY] = {0}, *points[OP_MAX_ARITY];
    *out = (Known){.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < n; i++) {
        counts[i] = gen_points(gen, in[i], least, &points[i]);
        total *= counts[i];
    }
    for (int k = 0; k < total; k++) {
        int at[OP_MAX_ARITY];
        double x[3] = {0};
        for (int i = 0, rest = k; i < n; rest /= counts[i++]) {
            at[i] = rest % counts[i];
            x[i] = points[i][at[i]];
        }
        double y = gen_float_ref(info, x);
        if (!isfinite(y))
            return false;
        out->low = fmin(out->low, y);
        out->high = fmax(out->high, y);
        for (int i = 0; i < n; i++) {
            if (in[i]->error == 0 || at[i] + 1 == counts[i])
                continue; /* slopes matter where there is an error to carry on */
            double next[3] = {x[0], x[1], x[2]};
            next[i] = points[i][at[i] + 1];
            double change = fabs(gen_float_ref(info, next) - y);
            if (next[i] > x[i])
                steepest[i] = fmax(steepest[i], change / (next[i] - x[i]));
            if (change > 1e-3 && gen_jumps(info, x, i, next[i]))
                return false;
        }
    }
    /* Between the points there may be more. */
    double width = out->high - out->low;
    out->low -= width / 8;
    out->high += width / 8;
    out->error = GEN_RELATIVE * fmax(fabs(out->low), fabs(out->high)) + GEN_ABSOLUTE;
    for (int i = 0; i < n; i++) {
        if (steepest[i] > 60)
            return false;
        out->error += 1.5 * steepest[i] * in[i]->error;
    }
    return true;
}

/* The interval of an integer result: exact corners for what is monotonic, else the whole type. */
static Known gen_integers(OpKind op, DType dtype, const Known *const *in) {
    Known out = {.low = (double)dtype_min_int(dtype), .high = (double)dtype_max_int(dtype)};
    double low = out.low, high = out.high;
    if (op == OP_add)
        low = in[0]->low + in[1]->low, high = in[0]->high + in[1]->high;
    else if (op == OP_sub)
        low = in[0]->low - in[1]->high, high = in[0]->high - in[1]->low;
    else if (op == OP_min || op == OP_max)
        low = fmin(in[0]->low, in[1]->low), high = fmax(in[0]->high, in[1]->high);
    else if (op == OP_neg || op == OP_abs || op == OP_sign)
        high = fmax(fabs(in[0]->low), fabs(in[0]->high)) + 1, low = -high;
    if (low < out.low || high > out.high)
        return out; /* it may wrap */
    return (Known){.low = low, .high = high};
}

static Value *gen_scalar_on(Gen *gen, OpKind op, Value **in) {
    const OpInfo *info = op_info(op);
    const Known *known[OP_MAX_ARITY];
    bool floats = !info->int_ref, exact = true;
    for (int i = 0; i < info->n_in; i++) {
        known[i] = gen_known(in[i]);
        floats |= dtype_is_float(in[i]->dtype) && !(info->rule == RULE_SELECT && i == 0);
        exact &= known[i]->error == 0;
    }
    Known out;
    if (info->rule == RULE_COMPARE || info->rule == RULE_LOGIC) {
        if (!exact)
            return NULL; /* a rounding may turn it over */
        out = (Known){.low = 0, .high = 1};
    } else if (info->rule == RULE_SELECT) {
        if (known[0]->error > 0)
            return NULL;
        out = (Known){.low = fmin(known[1]->low, known[2]->low),
                      .high = fmax(known[1]->high, known[2]->high),
                      .error = fmax(known[1]->error, known[2]->error)};
    } else if (!floats) {
        DType dtype = dtype_compute(in[0]->dtype);
        for (int i = 1; i < info->n_in; i++)
            dtype = dtype_promote(dtype, in[i]->dtype);
        out = gen_integers(op, dtype, known);
    } else {
        for (int i = 0; i < info->n_in; i++)
            if (fmax(fabs(known[i]->low), fabs(known[i]->high)) > GEN_LARGEST)
                return NULL;
        if (!gen_sample(gen, info, known, &out))
            return NULL;
    }
    return gen_append(gen, op, in, info->n_in, NULL, out);
}

/* Brings an operand into [1/2, ...) or into [1/2, 3/2], where every function is tame. */
static Value *gen_tame(Gen *gen, Value *value, OpKind by) {
    Value *positive = gen_scalar_on(gen, by, &value);
    Value *half = gen_constant(gen, 0.5, DTYPE_F32);
    if (!positive || !half)
        return NULL;
    return gen_scalar_on(gen, OP_add, (Value *[]){positive, half});
}

/* A value that broadcasts with `like`: an old one, a constant or a new input. */
static Value *gen_partner(Gen *gen, const Value *like) {
    const Dim *dims[RANK_MAX];
    for (int attempt = 0; attempt < 12; attempt++) {
        Value *value = gen_any(gen);
        if (infer_broadcast_dims(gen->graph->dims, like->rank, like->dims, value->rank, value->dims, dims) >=
            0)
            return value;
    }
    if (gen_chance(gen, 30))
        return gen_constant(gen, (gen_below(gen, 33) - 16) / 8.0, like->dtype);
    int rank = gen_below(gen, like->rank + 1);
    for (int i = 0; i < rank; i++)
        dims[i] = gen_chance(gen, 15) ? dim_const(gen->graph->dims, 1) : like->dims[like->rank - rank + i];
    return gen_input(gen, gen_dtype(gen), rank, dims);
}

Value *gen_scalar(Gen *gen, OpKind op) {
    const OpInfo *info = op_info(op);
    Value *in[OP_MAX_ARITY];
    in[0] = gen_any(gen);
    for (int i = 1; i < info->n_in; i++) {
        in[i] = gen_partner(gen, in[i - 1]);
        if (!in[i])
            return NULL;
    }
    if (op == OP_shl || op == OP_shr) { /* 0 <= b < width */
        Value *mask = gen_constant(gen, 7, DTYPE_I32);
        in[1] =
            mask ? gen_append(gen, OP_bit_and, (Value *[]){in[1], mask}, 2, NULL, (Known){.high = 7}) : NULL;
        if (!in[1])
            return NULL;
    }
    /* As they are; the last one tame; all of them; all of them within narrow bounds. */
    static const struct {
        bool first, last;
        OpKind by;
    } attempts[] = {
        {false, false, OP_abs}, {false, true, OP_abs}, {true, true, OP_abs}, {true, true, OP_sigmoid}};
    int n = info->n_in;
    size_t most = gen_chance(gen, 40) ? 4 : 3;
    for (size_t k = 0; k < most; k++) {
        size_t values = gen->graph->values.n, inputs = gen->graph->inputs.n;
        Value *tame[OP_MAX_ARITY], *value = NULL;
        bool all = true;
        for (int i = 0; i < n; i++) {
            bool wild = i + 1 == n ? attempts[k].last : attempts[k].first;
            tame[i] = wild ? gen_tame(gen, in[i], attempts[k].by) : in[i];
            all &= tame[i] != NULL;
        }
        if (all)
            value = gen_scalar_on(gen, op, tame);
        if (value || info->rule == RULE_BITS || info->rule == RULE_COMPARE || info->rule == RULE_LOGIC)
            return value;
        gen_undo(gen, values, inputs);
    }
    return NULL;
}

Value *gen_cast_to(Gen *gen, Value *x, DType to) {
    const Known *known = gen_known(x);
    Known out = *known;
    double magnitude = fmax(fabs(known->low), fabs(known->high));
    if (dtype_is_float(to)) {
        if (magnitude > dtype_max_finite(to) / 2 || magnitude > GEN_LARGEST)
            return NULL;
        /* Two numbers that differ may be rounded apart, by one place each; subnormals share the smallest
         * place. */
        double place = to == DTYPE_F64 || to == DTYPE_F32 ? 6e-8
                       : to == DTYPE_E4M3                 ? 0.0625
                       : to == DTYPE_E5M2                 ? 0.125
                       : to == DTYPE_BF16                 ? 0.0039
                                                          : 0.00049;
        if (known->error > 0)
            out.error += 2 * place * magnitude + (to == DTYPE_E4M3 ? 0.002 : 1e-5);
        out.low -= place * magnitude;
        out.high += place * magnitude;
    } else {
        if (known->error > 0)
            return NULL;
        bool inside = known->low >= (double)dtype_min_int(to) && known->high <= (double)dtype_max_int(to);
        if (!inside || to == DTYPE_BOOL)
            out = (Known){.low = (double)dtype_min_int(to), .high = (double)dtype_max_int(to)};
    }
    return gen_append(gen, OP_cast, &x, 1, (Attr[OP_MAX_ATTRS]){{.dtype = to}}, out);
}
