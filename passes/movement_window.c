/* Windows repeat what they are of, so what is computed of one element is computed below them:
 *
 *     cast(reshape(window(pad(x, 0))), bf16)   ->   reshape(window(pad(cast(x, bf16), 0)))
 *     cast(reduce_max(window(x)), bf16)        ->   reduce_max(window(cast(x, bf16)))    x of a product
 *     window(x, axis, size=1, step=2)          ->   reshape(x[::2])
 */
#include "passes/movement.h"
#include "passes/product.h"

enum { WINDOW_CHAIN_MAX = 16 };

static bool window_is_movement(const Value *value) {
    return value->op == OP_reshape || value->op == OP_transpose || value->op == OP_slice ||
           value->op == OP_window || value->op == OP_pad;
}

/* Movements below `value` that have no other user, down to the lowest window or pad, from the top; 0 where no
 * window is among them. */
static int window_chain(const Rewrite *rewrite, Value *value, Value **chain) {
    int n = 0, lowest = 0;
    bool has_window = false;
    for (; n < WINDOW_CHAIN_MAX && window_is_movement(value) && rewrite_uses(rewrite, value) <= 1;
         value = value->in[0]) {
        chain[n++] = value;
        has_window |= value->op == OP_window;
        lowest = value->op == OP_window || value->op == OP_pad ? n : lowest;
    }
    return has_window ? lowest : 0;
}

/* The largest of what windows have, which is the same rounded before and after: a product's kernel stores
 * half as much. NULL: it is none. */
static Value *window_largest(const Rewrite *rewrite, const Value *cast) {
    Value *largest = cast->in[0];
    bool is_16bit = cast->dtype == DTYPE_BF16 || cast->dtype == DTYPE_F16;
    return (largest->op == OP_reduce_max || largest->op == OP_reduce_min) && is_16bit &&
                   largest->dtype == DTYPE_F32 && rewrite_uses(rewrite, largest) == 1
               ? largest
               : NULL;
}

Value *movement_cast_windows(Rewrite *rewrite, Value *value) {
    Value *chain[WINDOW_CHAIN_MAX];
    if (value->op != OP_cast || dtype_bits(value->dtype) >= dtype_bits(value->in[0]->dtype))
        return value;
    Value *largest = window_largest(rewrite, value);
    int n = window_chain(rewrite, largest ? largest->in[0] : value->in[0], chain);
    Value *base = n ? chain[n - 1]->in[0] : NULL;
    if (!n || (largest && (base->dtype != DTYPE_F32 || !product_is_below(base))))
        return value;
    Value *fresh = build_cast(rewrite, base, value->dtype, value);
    for (int i = n; i-- > 0 && fresh;) {
        Value *in[2] = {fresh, NULL};
        if (chain[i]->op == OP_pad)
            in[1] = build_cast(rewrite, chain[i]->in[1], value->dtype, value);
        fresh = build_like(rewrite, chain[i], in);
    }
    if (fresh && largest)
        fresh = build_cast(rewrite, build_like(rewrite, largest, &fresh), value->dtype, value);
    return fresh ? fresh : value;
}

Value *movement_window(Rewrite *rewrite, Value *value) {
    const Value *x = value->in[0];
    int axis = (int)value->attrs[0].i;
    if (!dim_is(value->attrs[1].dim, 1))
        return value;
    Value *places = build_part(rewrite, value->in[0], axis, dim_const(rewrite->graph->dims, 0), x->dims[axis],
                               (int)value->attrs[2].i, value);
    return build_reshape(rewrite, places, value->rank, value->dims, value);
}
