#include "tests/fuzz/graphgen.h"

#include <math.h>
#include <string.h>

#include "ir/infer.h"

enum { FLOAT_BOUND = 2, INTEGER_BOUND = 20, POOL_MAX = 6, SAMPLES = 17, JUMP_STEPS = 24 };
/* Largest magnitude, and largest error, that an operation may result in. */
static const double gen_largest = 1000, gen_error_most = 0.05;
/* What a kernel's functions may be off: a few units of f32 and, near 0, an absolute amount. */
static const double gen_relative = 2e-6, gen_absolute = 2e-6;

/* What is known of a value, in value->scratch. */
typedef struct Known {
    double low, high;
    double error; /* 0: a kernel has exactly the reference's value */
    int64_t count;
    bool used;
} Known;

typedef struct Gen {
    Arena *arena;
    Graph *graph;
    uint64_t random;
    GraphGenOptions options;
    DimBindings bindings;
    const Dim *pool[POOL_MAX]; /* the dims that shapes are made of */
    int n_pool;
    int n_inputs; /* ever made, for names */
} Gen;

/* ---- random numbers ---------------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t gen_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int gen_below(Gen *gen, int n) {
    return (int)(gen_draw(&gen->random) % (uint64_t)n);
}

static bool gen_chance(Gen *gen, int percent) {
    return gen_below(gen, 100) < percent;
}

/* ---- values ------------------------------------------------------------------------------------------ */

static Known *gen_known(const Value *value) {
    return value->scratch;
}

static bool gen_count(const Gen *gen, const Value *value, int64_t *count) {
    *count = 1;
    for (int i = 0; i < value->rank; i++) {
        int64_t dim;
        if (!dim_eval(value->dims[i], &gen->bindings, &dim) || dim < 0)
            return false;
        *count *= dim;
        if (*count > gen->options.max_count)
            return false;
    }
    return true;
}

/* Appends, unless the rules, the size or the numbers are against it. */
static Value *gen_append(Gen *gen, OpKind op, Value **in, int n_in, const Attr *attrs, Known known) {
    bool is_sane = known.low >= -9.3e18 && known.high <= 9.3e18 && known.error <= gen_error_most;
    if (!is_sane)
        return NULL;
    size_t before = gen->graph->values.n;
    Value *value = graph_append(gen->graph, op, in, n_in, attrs, (Span){0}, NULL);
    if (!value)
        return NULL;
    bool floats = dtype_is_float(value->dtype);
    if (!gen_count(gen, value, &known.count) || (floats && fmax(-known.low, known.high) > gen_largest)) {
        gen->graph->values.n = before;
        return NULL;
    }
    Known *kept = ARENA_NEW(gen->arena, Known);
    *kept = known;
    kept->used = false;
    value->scratch = kept;
    for (int i = 0; i < n_in; i++)
        gen_known(in[i])->used = true;
    return value;
}

/* What an input of this type is filled with. */
static Known gen_of_type(Gen *gen, DType dtype) {
    double low = (double)dtype_min_int(dtype), high = (double)dtype_max_int(dtype);
    if (dtype_is_float(dtype))
        return (Known){.low = -FLOAT_BOUND, .high = FLOAT_BOUND};
    if (dtype == DTYPE_I64 && gen_chance(gen, 20))
        return (Known){.low = -0x1p40, .high = 0x1p40};
    if (dtype_bits(dtype) > 8)
        return (Known){.low = -INTEGER_BOUND, .high = INTEGER_BOUND};
    return (Known){.low = low, .high = high};
}

static Value *gen_constant(Gen *gen, double number, DType dtype) {
    Number value = dtype_convert((Number){.f = number}, DTYPE_F64, dtype);
    double held = dtype_is_float(dtype) ? value.f : (double)value.i;
    Attr attrs[OP_MAX_ATTRS] = {{.number = value}, {.dtype = dtype}};
    return gen_append(gen, OP_constant, NULL, 0, attrs, (Known){.low = held, .high = held});
}

static DType gen_dtype(Gen *gen) {
    static const DType common[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    return gen_chance(gen, 50) ? common[gen_below(gen, 3)] : (DType)gen_below(gen, DTYPE_COUNT);
}

static const Dim *gen_dim(Gen *gen) {
    return gen_chance(gen, 8) ? dim_const(gen->graph->dims, 1) : gen->pool[gen_below(gen, gen->n_pool)];
}

/* Strides of a buffer whose axes lie in another order than row-major. */
static const Dim **gen_strides(Gen *gen, int rank, const Dim *const *dims) {
    if (gen->options.no_layouts || rank < 2 || !gen_chance(gen, 12))
        return NULL;
    const Dim **strides = ARENA_ARRAY(gen->arena, const Dim *, (size_t)rank);
    int first = gen_below(gen, rank);
    const Dim *stride = dim_const(gen->graph->dims, 1);
    for (int k = 0; k < rank; k++) {
        int axis = (first + k) % rank;
        strides[axis] = stride;
        stride = dim_mul(gen->graph->dims, stride, dims[axis]);
    }
    return strides;
}

static Value *gen_input(Gen *gen, DType dtype, int rank, const Dim *const *dims) {
    Value like = {.rank = rank};
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    Known *known = ARENA_NEW(gen->arena, Known);
    *known = gen_of_type(gen, dtype);
    if (!gen_count(gen, &like, &known->count))
        return NULL;
    const char *name = text_format(gen->arena, "in%d", gen->n_inputs++);
    bool nibbles = dtype_bits(dtype) < 8;
    Value *value = graph_add_input(gen->graph, name, dtype, rank, dims,
                                   nibbles ? NULL : gen_strides(gen, rank, dims), (Span){0});
    value->scratch = known;
    return value;
}

static Value *gen_random_input(Gen *gen) {
    const Dim *dims[4];
    int rank = gen_below(gen, 5);
    for (int i = 0; i < rank; i++)
        dims[i] = gen_dim(gen);
    return gen_input(gen, gen_dtype(gen), rank, dims);
}

/* Some value, mostly one that nobody uses yet, so that graphs grow deep and come together again; a scalar of
 * the border rarely. */
static Value *gen_any(Gen *gen) {
    size_t n = gen->graph->values.n;
    Value *value = NULL;
    for (int attempt = 0; attempt < 8; attempt++) {
        value = gen->graph->values.at[gen_below(gen, (int)n)];
        bool plain = op_info(value->op)->class_ != OPCLASS_BORDER || value->op == OP_input;
        if (plain && (!gen_known(value)->used || gen_chance(gen, 25)))
            break;
    }
    return value;
}

/* ---- scalars ----------------------------------------------------------------------------------------- */

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
    out->error = gen_relative * fmax(fabs(out->low), fabs(out->high)) + gen_absolute;
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
            if (fmax(fabs(known[i]->low), fabs(known[i]->high)) > gen_largest)
                return NULL;
        if (!gen_sample(gen, info, known, &out))
            return NULL;
    }
    return gen_append(gen, op, in, info->n_in, NULL, out);
}

/* What was appended since goes again. */
static void gen_undo(Gen *gen, size_t values, size_t inputs) {
    gen->graph->values.n = values;
    gen->graph->inputs.n = inputs;
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

static Value *gen_scalar(Gen *gen, OpKind op) {
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

static Value *gen_cast_to(Gen *gen, Value *x, DType to) {
    const Known *known = gen_known(x);
    Known out = *known;
    double magnitude = fmax(fabs(known->low), fabs(known->high));
    if (dtype_is_float(to)) {
        if (magnitude > dtype_max_finite(to) / 2 || magnitude > gen_largest)
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

/* ---- movement ---------------------------------------------------------------------------------------- */

static Value *gen_transpose(Gen *gen, Value *x) {
    int perm[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        int at = gen_below(gen, i + 1);
        perm[i] = perm[at];
        perm[at] = i;
    }
    return gen_append(gen, OP_transpose, &x, 1, (Attr[OP_MAX_ATTRS]){{.ints = perm, .n_ints = x->rank}},
                      *gen_known(x));
}

static Value *gen_broadcast(Gen *gen, Value *x) {
    const Dim *dims[RANK_MAX];
    int more = x->rank < 4 ? gen_below(gen, 2) : 0;
    for (int i = 0; i < more; i++)
        dims[i] = gen_dim(gen);
    for (int i = 0; i < x->rank; i++)
        dims[more + i] = dim_is(x->dims[i], 1) ? gen_dim(gen) : x->dims[i];
    Attr attrs[OP_MAX_ATTRS] = {{.dims = dims, .n_dims = more + x->rank}};
    return gen_append(gen, OP_broadcast, &x, 1, attrs, *gen_known(x));
}

/* Two neighbouring axes joined, one split, or an axis of 1 put in. */
static Value *gen_reshape(Gen *gen, Value *x) {
    DimTable *table = gen->graph->dims;
    const Dim *dims[RANK_MAX];
    int at = gen_below(gen, x->rank + 1), kind = gen_below(gen, 3), n = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i == at && kind == 0)
            dims[n++] = dim_const(table, 1);
        int64_t divisor = dim_divisor(table, x->dims[i]);
        if (i == at && kind == 1 && i + 1 < x->rank) {
            dims[n++] = dim_mul(table, x->dims[i], x->dims[i + 1]);
            i++;
        } else if (i == at && kind == 2 && x->rank < 5 && divisor > 1 && divisor % 2 == 0) {
            dims[n++] = dim_div(table, x->dims[i], dim_const(table, 2));
            dims[n++] = dim_const(table, 2);
        } else {
            dims[n++] = x->dims[i];
        }
    }
    return gen_append(gen, OP_reshape, &x, 1, (Attr[OP_MAX_ATTRS]){{.dims = dims, .n_dims = n}},
                      *gen_known(x));
}

static Value *gen_slice(Gen *gen, Value *x) {
    DimTable *table = gen->graph->dims;
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        const Dim *dim = x->dims[i];
        int64_t least = dim_lower(table, dim);
        int cut = least > 1 ? gen_below(gen, (int)(least < 8 ? least : 8)) : 0;
        int from = cut ? gen_below(gen, cut + 1) : 0;
        step[i] = gen_chance(gen, 20) ? 2 : 1;
        start[i] = dim_const(table, from);
        limit[i] = dim_sub(table, dim, dim_const(table, cut - from));
        if (gen_chance(gen, 15)) { /* the same, backwards */
            step[i] = -step[i];
            const Dim *last = dim_sub(table, limit[i], dim_const(table, 1));
            limit[i] = dim_const(table, from - 1);
            start[i] = last;
        }
    }
    Attr attrs[OP_MAX_ATTRS] = {{.dims = start, .n_dims = x->rank},
                                {.dims = limit, .n_dims = x->rank},
                                {.ints = step, .n_ints = x->rank}};
    return gen_append(gen, OP_slice, &x, 1, attrs, *gen_known(x));
}

static Value *gen_pad(Gen *gen, Value *x) {
    const Dim *low[RANK_MAX], *high[RANK_MAX];
    Known known = *gen_known(x);
    for (int i = 0; i < x->rank; i++) {
        low[i] = dim_const(gen->graph->dims, gen_below(gen, 3));
        high[i] = dim_const(gen->graph->dims, gen_below(gen, 3));
    }
    Value *border = gen_constant(gen, gen_below(gen, 3) - 1, x->dtype);
    if (!border)
        return NULL;
    known.low = fmin(known.low, gen_known(border)->low);
    known.high = fmax(known.high, gen_known(border)->high);
    Attr attrs[OP_MAX_ATTRS] = {{.dims = low, .n_dims = x->rank}, {.dims = high, .n_dims = x->rank}};
    return gen_append(gen, OP_pad, (Value *[]){x, border}, 2, attrs, known);
}

static Value *gen_concat(Gen *gen, Value *x) {
    Value *parts[3] = {x, x, x};
    int n = 1 + gen_below(gen, 3);
    Known known = *gen_known(x);
    if (x->rank == 0)
        return NULL;
    for (int i = 1; i < n; i++) {
        Value *other = gen_any(gen);
        if (other->dtype == x->dtype && value_same_dims(other, x))
            parts[i] = other;
        known.low = fmin(known.low, gen_known(parts[i])->low);
        known.high = fmax(known.high, gen_known(parts[i])->high);
        known.error = fmax(known.error, gen_known(parts[i])->error);
    }
    Attr attrs[OP_MAX_ATTRS] = {{.i = gen_below(gen, x->rank)}};
    return gen_append(gen, OP_concat, parts, n, attrs, known);
}

static Value *gen_gather(Gen *gen, Value *x) {
    static const DType types[] = {DTYPE_I32, DTYPE_I64, DTYPE_U8, DTYPE_I16};
    const Dim *dims[2];
    Known known = *gen_known(x);
    if (x->rank == 0 || x->rank > 4)
        return NULL;
    int rank = gen_below(gen, 3);
    for (int i = 0; i < rank; i++)
        dims[i] = gen_dim(gen);
    Value *index = gen_input(gen, types[gen_below(gen, 4)], rank, dims);
    if (!index)
        return NULL;
    known.low = fmin(known.low, 0); /* an index out of range reads 0 */
    known.high = fmax(known.high, 0);
    Attr attrs[OP_MAX_ATTRS] = {{.i = gen_below(gen, x->rank)}};
    return gen_append(gen, OP_gather, (Value *[]){x, index}, 2, attrs, known);
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

static Value *gen_shaped(Gen *gen, OpKind op) {
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

static Value *gen_reduction(Gen *gen, OpKind op) {
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
                          .error = count * known->error + gen_relative * count * magnitude + gen_absolute};
        break;
    case OP_prod:
        /* Factors above 1 multiply beyond all bounds soon. */
        if (floats && (n > 8 || magnitude > 2.5))
            return NULL;
        if (floats) {
            double most = pow(fmax(1, magnitude), count);
            out = (Known){.low = -most,
                          .high = most,
                          .error = count * most * (known->error + gen_relative) + gen_absolute};
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

static Value *gen_matmul(Gen *gen) {
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
        out.error = (double)k * (ma * kb->error + mb * ka->error) + (eighths ? 2e-4 : gen_relative) * most +
                    gen_absolute;
    } else if (most > INT32_MAX) {
        return NULL;
    }
    return gen_append(gen, OP_matmul, (Value *[]){a, b}, 2, NULL, out);
}

static Value *gen_one(Gen *gen, OpKind op) {
    if (op_is_scalar(op))
        return gen_scalar(gen, op);
    switch (op_info(op)->class_) {
    case OPCLASS_REDUCTION: return gen_reduction(gen, op);
    case OPCLASS_RANDOM: return gen_shaped(gen, op);
    default: break;
    }
    switch (op) {
    case OP_input: return gen_random_input(gen);
    case OP_constant: return gen_constant(gen, (gen_below(gen, 33) - 16) / 8.0, gen_dtype(gen));
    case OP_dim: {
        Attr attrs[OP_MAX_ATTRS] = {{.dim = gen_dim(gen)}};
        return gen_append(gen, op, NULL, 0, attrs, (Known){.high = gen->options.max_dim});
    }
    case OP_cast: return gen_cast_to(gen, gen_any(gen), gen_dtype(gen));
    case OP_index: return gen_shaped(gen, op);
    case OP_broadcast: return gen_broadcast(gen, gen_any(gen));
    case OP_reshape: return gen_reshape(gen, gen_any(gen));
    case OP_transpose: return gen_transpose(gen, gen_any(gen));
    case OP_slice: return gen_slice(gen, gen_any(gen));
    case OP_pad: return gen_pad(gen, gen_any(gen));
    case OP_concat: return gen_concat(gen, gen_any(gen));
    case OP_gather: return gen_gather(gen, gen_any(gen));
    case OP_matmul: return gen_matmul(gen);
    default: return NULL;
    }
}

/* ---- graphs ------------------------------------------------------------------------------------------ */

/* A handful of dims, so that shapes meet; some are symbols, some of these with a divisor or a lower bound. */
static void gen_choose_dims(Gen *gen) {
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40};
    DimTable *table = gen->graph->dims;
    int64_t chosen[POOL_MAX];
    gen->n_pool = 3 + gen_below(gen, POOL_MAX - 2);
    for (int i = 0; i < gen->n_pool; i++) {
        int64_t size = sizes[gen_below(gen, (int)(sizeof sizes / sizeof *sizes))];
        chosen[i] = size > gen->options.max_dim ? gen->options.max_dim : size;
        gen->pool[i] = dim_const(table, chosen[i]);
        if (gen->options.no_symbols || !gen_chance(gen, 35))
            continue;
        gen->pool[i] = dim_symbol(table, text_format(gen->arena, "D%d", i));
        if (chosen[i] % 4 == 0 && gen_chance(gen, 50))
            dim_constrain(table, dim_mod(table, gen->pool[i], dim_const(table, 4)), DIM_EQ,
                          dim_const(table, 0), (Span){0}, NULL);
        if (gen_chance(gen, 60))
            dim_constrain(table, gen->pool[i], DIM_GE, dim_const(table, chosen[i] / 2 + 1), (Span){0}, NULL);
    }
    gen->bindings = dim_bindings_new(gen->arena, table);
    for (int i = 0; i < gen->n_pool; i++)
        if (gen->pool[i]->kind == DIM_SYMBOL) {
            gen->bindings.value[gen->pool[i]->symbol] = chosen[i];
            gen->bindings.known[gen->pool[i]->symbol] = true;
        }
}

static bool gen_may_be_output(const Gen *gen, const Value *value) {
    bool nibbles = dtype_bits(value->dtype) < 8;
    return value->op != OP_input && value->op != OP_constant && !(nibbles && gen->options.no_nibbles);
}

/* Up to three values that nobody uses, the newest first; an input where there is none. */
static void gen_choose_outputs(Gen *gen) {
    Graph *graph = gen->graph;
    graph_renumber(graph);
    int *uses = graph_use_counts(gen->arena, graph), n = 1 + gen_below(gen, 3);
    for (size_t i = graph->values.n; i-- > 0 && n > 0;) {
        Value *value = graph->values.at[i];
        if (uses[i] > 0 || !gen_may_be_output(gen, value))
            continue;
        bool nibbles = dtype_bits(value->dtype) < 8;
        graph_add_output(graph, text_format(gen->arena, "out%zu", graph->outputs.n), value,
                         nibbles ? NULL : gen_strides(gen, value->rank, value->dims), (Span){0});
        n--;
    }
    if (graph->outputs.n == 0)
        graph_add_output(graph, "out0", graph->inputs.at[0], NULL, (Span){0});
}

/* Every symbol is a dim of some input, since that is how it gets its value at launch. */
static void gen_declare_symbols(Gen *gen) {
    Graph *graph = gen->graph;
    for (int symbol = 0; symbol < dim_symbol_count(graph->dims); symbol++) {
        const Dim *dim = dim_symbol_at(graph->dims, symbol);
        bool declared = false;
        for (size_t i = 0; i < graph->inputs.n; i++)
            for (int axis = 0; axis < graph->inputs.at[i]->rank; axis++)
                declared |= graph->inputs.at[i]->dims[axis] == dim;
        if (!declared)
            gen_input(gen, gen_dtype(gen), 1, &dim);
    }
}

/* Inputs that the outputs do not need go, but for a few: a caller may well pass what is not used. */
static void gen_drop_inputs(Gen *gen) {
    Graph *graph = gen->graph;
    graph_sort(graph);
    int *uses = graph_use_counts(gen->arena, graph);
    size_t values = 0, inputs = 0;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        if (value->op == OP_input) {
            if (uses[i] == 0 && !gen_chance(gen, 5))
                continue;
            value->attrs[0].i = (int64_t)inputs;
            graph->inputs.at[inputs++] = value;
        }
        graph->values.at[values++] = value;
    }
    graph->values.n = values;
    graph->inputs.n = inputs;
    graph_renumber(graph);
}

GraphGen graphgen(Arena *arena, uint64_t seed, const GraphGenOptions *options) {
    Gen gen = {.arena = arena, .graph = graph_new(arena, "fuzz"), .random = seed};
    if (options)
        gen.options = *options;
    gen.options.operations = gen.options.operations ? gen.options.operations : 12;
    gen.options.max_dim = gen.options.max_dim ? gen.options.max_dim : 40;
    gen.options.max_count = gen.options.max_count ? gen.options.max_count : 6000;
    gen_choose_dims(&gen);
    while (gen.graph->inputs.n == 0)
        gen_random_input(&gen);
    int made = 0, most = 20 * gen.options.operations;
    for (int tried = 0; made < gen.options.operations && tried < most; tried++) {
        /* Classes as often as people use them, rows of a class alike. */
        static const struct {
            OpClass class_;
            int percent;
        } classes[] = {{OPCLASS_POINTWISE, 50},  {OPCLASS_MOVEMENT, 20}, {OPCLASS_REDUCTION, 14},
                       {OPCLASS_CONTRACTION, 9}, {OPCLASS_BORDER, 4},    {OPCLASS_RANDOM, 3}};
        int k = 0;
        for (int pick = gen_below(&gen, 100); pick >= classes[k].percent; k++)
            pick -= classes[k].percent;
        OpKind op;
        do
            op = (OpKind)gen_below(&gen, OP_COUNT);
        while (op_info(op)->class_ != classes[k].class_);
        size_t values = gen.graph->values.n, inputs = gen.graph->inputs.n;
        if (gen_one(&gen, op))
            made += op_info(op)->class_ != OPCLASS_BORDER;
        else
            gen_undo(&gen, values, inputs);
    }
    gen_choose_outputs(&gen);
    gen_drop_inputs(&gen);
    gen_declare_symbols(&gen);
    GraphGen out = {.graph = gen.graph,
                    .bindings = gen.bindings,
                    .ranges = ARENA_ARRAY(arena, GraphGenRange, gen.graph->inputs.n),
                    .tolerance = ARENA_ARRAY(arena, double, gen.graph->outputs.n)};
    for (size_t i = 0; i < gen.graph->inputs.n; i++) {
        const Known *known = gen_known(gen.graph->inputs.at[i]);
        out.ranges[i] = (GraphGenRange){known->low, known->high};
    }
    for (size_t i = 0; i < gen.graph->outputs.n; i++)
        out.tolerance[i] = 2 * gen_known(gen.graph->outputs.at[i].value)->error;
    for (size_t i = 0; i < gen.graph->values.n; i++)
        gen.graph->values.at[i]->scratch = NULL;
    return out;
}

Tensor *graphgen_inputs(Arena *arena, const GraphGen *generated, uint64_t seed) {
    const Graph *graph = generated->graph;
    Tensor *inputs = ARENA_ARRAY(arena, Tensor, graph->inputs.n);
    for (size_t i = 0; i < graph->inputs.n; i++) {
        const Value *value = graph->inputs.at[i];
        uint64_t random = seed ^ (i + 1) * 0xd1342543de82ef95u;
        int64_t dims[RANK_MAX] = {0};
        for (int axis = 0; axis < value->rank; axis++)
            if (!dim_eval(value->dims[axis], &generated->bindings, &dims[axis]))
                arena_give_up(arena);
        if (!tensor_new(arena, value->dtype, value->rank, dims, &inputs[i]))
            arena_give_up(arena);
        GraphGenRange range = generated->ranges[i];
        for (int64_t k = 0; k < inputs[i].count; k++) {
            double unit = (double)(gen_draw(&random) >> 11) * 0x1p-53,
                   drawn = range.low + unit * (range.high - range.low);
            if (dtype_is_float(value->dtype))
                inputs[i].at[k].f = dtype_round(drawn, value->dtype);
            else
                inputs[i].at[k].i = (int64_t)floor(range.low + unit * (range.high - range.low + 1));
        }
    }
    return inputs;
}
