/* Movement operations: they keep what is known of their operand. */
#include <math.h>
#include <string.h>

#include "tests/fuzz/graphgen_internal.h"

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

/* Of up to 4 elements, some apart and some steps from each other, so long as one fits. */
static Value *gen_window(Gen *gen, Value *x) {
    if (x->rank == 0 || x->rank > 4)
        return NULL;
    int axis = gen_below(gen, x->rank);
    int64_t least = dim_lower(gen->graph->dims, x->dims[axis]);
    if (least < 1)
        return NULL;
    int64_t size = 1 + gen_below(gen, (int)(least < 4 ? least : 4));
    int64_t reach = size == 1 ? 3 : (least - 1) / (size - 1), step = gen_chance(gen, 40) ? size : 1;
    Attr attrs[OP_MAX_ATTRS] = {
        {.i = axis},
        {.dim = dim_const(gen->graph->dims, size)},
        {.i = gen_chance(gen, 20) ? 2 : step},
        {.i = gen_chance(gen, 25) ? 1 + gen_below(gen, (int)(reach < 3 ? reach : 3)) : 1}};
    return gen_append(gen, OP_window, &x, 1, attrs, *gen_known(x));
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

Value *gen_movement(Gen *gen, OpKind op, Value *x) {
    switch (op) {
    case OP_broadcast: return gen_broadcast(gen, x);
    case OP_reshape: return gen_reshape(gen, x);
    case OP_transpose: return gen_transpose(gen, x);
    case OP_slice: return gen_slice(gen, x);
    case OP_window: return gen_window(gen, x);
    case OP_pad: return gen_pad(gen, x);
    case OP_concat: return gen_concat(gen, x);
    case OP_gather: return gen_gather(gen, x);
    default: return NULL;
    }
}
