/* Movement operations as arithmetic on coordinates: where an operand is read for a coordinate of the result.
 */
#include "codegen/lower_internal.h"

void lower_broadcast_coords(Lower *lower, const Value *operand, int rank, const LaneCoord *coords,
                            LaneCoord *out) {
    int shift = rank - operand->rank;
    for (int i = 0; i < operand->rank; i++)
        out[i] = dim_is(operand->dims[i], 1) ? lane_const(lower, 0) : coords[i + shift];
}

bool lower_is_plain_movement(OpKind op) {
    return op == OP_broadcast || op == OP_reshape || op == OP_transpose || op == OP_slice || op == OP_window;
}

/* Axis i of the operand starts at `start` and steps by `step` for each step of the result. */
static LaneCoord movement_slice(Lower *lower, const Value *value, int i, LaneCoord coord) {
    const Dim *step = dim_const(lower->graph->dims, value->attrs[2].ints[i]);
    return lane_add_dim(lower, lane_scale(lower, coord, step), value->attrs[0].dims[i], 1);
}

/* Along the windowed axis: the place of the window, and what is within it. */
static LaneCoord movement_window(Lower *lower, const Value *value, const LaneCoord *coords) {
    const Dim *step = dim_const(lower->graph->dims, value->attrs[2].i),
              *dilation = dim_const(lower->graph->dims, value->attrs[3].i);
    return lane_add(lower, lane_scale(lower, coords[value->attrs[0].i], step),
                    lane_scale(lower, coords[value->rank - 1], dilation));
}

void lower_operand_coords(Lower *lower, const Value *value, const LaneCoord *coords, LaneCoord *out) {
    const Value *operand = value->in[0];
    switch (value->op) {
    case OP_reshape:
        lane_reshape(lower, value->rank, value->dims, coords, operand->rank, operand->dims, out);
        break;
    case OP_transpose:
        for (int i = 0; i < value->rank; i++)
            out[value->attrs[0].ints[i]] = coords[i];
        break;
    case OP_slice:
        for (int i = 0; i < value->rank; i++)
            out[i] = movement_slice(lower, value, i, coords[i]);
        break;
    case OP_window:
        for (int i = 0; i < operand->rank; i++)
            out[i] = i == value->attrs[0].i ? movement_window(lower, value, coords) : coords[i];
        break;
    default: lower_broadcast_coords(lower, operand, value->rank, coords, out); break;
    }
}

/* The condition 0 <= coord < extent. A run that starts and ends at multiples of its width lies inside as a
 * whole or outside. */
static const KExpr *movement_inside(Lower *lower, LaneCoord coord, const Dim *extent, bool may_be_below,
                                    bool may_be_above) {
    Builder *b = lower->b;
    int width = lower->shape ? lower->shape->width : 1;
    int align = lower_align_of(dim_divisor(lower->graph->dims, extent));
    bool whole = lane_is_run(coord) && coord.align % width == 0 && align % width == 0;
    const KExpr *at = whole ? coord.at : lane_expr(lower, coord), *inside = NULL;
    if (may_be_below)
        inside = k_ge(b, at, lower->zero);
    if (may_be_above)
        inside = k_and(b, inside, k_lt(b, at, k_dim(b, extent, lower->index)));
    return inside;
}

static void movement_pad(Lower *lower, const Value *value, const LaneCoord *coords, LaneCoord *out,
                         const KExpr **inside) {
    const Value *operand = value->in[0];
    for (int i = 0; i < value->rank; i++) {
        const Dim *low = value->attrs[0].dims[i], *high = value->attrs[1].dims[i];
        out[i] = lane_add_dim(lower, coords[i], low, -1);
        *inside = k_and(lower->b, *inside,
                        movement_inside(lower, out[i], operand->dims[i], !dim_is(low, 0), !dim_is(high, 0)));
    }
}

static void movement_concat(Lower *lower, const Value *value, int part, const LaneCoord *coords,
                            LaneCoord *out, const KExpr **inside) {
    DimTable *table = lower->graph->dims;
    int axis = (int)value->attrs[0].i;
    const Dim *before = dim_const(table, 0);
    for (int i = 0; i < part; i++)
        before = dim_add(table, before, value->in[i]->dims[axis]);
    for (int i = 0; i < value->rank; i++)
        out[i] = coords[i];
    out[axis] = lane_add_dim(lower, coords[axis], before, -1);
    *inside =
        movement_inside(lower, out[axis], value->in[part]->dims[axis], part > 0, part < value->n_in - 1);
}

void lower_part_coords(Lower *lower, const Value *value, int part, const LaneCoord *coords, LaneCoord *out,
                       const KExpr **inside) {
    *inside = NULL;
    if (value->op == OP_pad)
        movement_pad(lower, value, coords, out, inside);
    else
        movement_concat(lower, value, part, coords, out, inside);
}

/* The placeholder for the value of `index` at coordinates. */
static const KExpr *movement_index(Lower *lower, const Value *index, const LaneCoord *coords,
                                   const KExpr *guard) {
    LowerKey key = lower_key(index, coords, guard);
    bool varies = lower_expr_varies(lower, guard);
    for (int i = 0; i < index->rank; i++)
        varies = varies || lane_varies(lower, coords[i]);
    for (size_t i = 0; i < lower->indices.n; i++) {
        LowerIndex *known = lower->indices.at[i];
        bool same = known->key.value == index && lower_expr_equal(known->key.guard, guard);
        for (int k = 0; same && k < index->rank; k++)
            same = lane_equal(known->key.coords[k], coords[k]);
        if (same)
            return k_var(lower->b, &known->placeholder);
    }
    LowerIndex *fresh = ARENA_NEW(lower->arena, LowerIndex);
    KType type = ktype_of(index->dtype) == K_I64 ? K_I64 : lower->index;
    *fresh = (LowerIndex){
        .key = key, .varies = varies, .placeholder = {.name = "at", .type = type, .is_let = true}};
    fresh->placeholder.id = lower_index_placeholder((int)lower->indices.n);
    vec_push(lower->arena, &lower->indices, fresh);
    return k_var(lower->b, &fresh->placeholder);
}

void lower_gather_coords(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                         LaneCoord *index_coords, LaneCoord *out, const KExpr **inside) {
    Builder *b = lower->b;
    const Value *data = value->in[0], *index = value->in[1];
    int axis = (int)value->attrs[0].i;
    for (int i = 0; i < axis; i++)
        out[i] = coords[i];
    for (int i = 0; i < index->rank; i++)
        index_coords[i] = coords[axis + i];
    for (int i = axis + 1; i < data->rank; i++)
        out[i] = coords[i + index->rank - 1];
    const KExpr *chosen = movement_index(lower, index, index_coords, guard);
    out[axis] = (LaneCoord){k_convert(b, chosen, lower->index), 0, 1, 1};
    *inside = k_and(b, k_ge(b, chosen, k_int(b, chosen->type, 0)),
                    k_lt(b, chosen, k_dim(b, data->dims[axis], chosen->type)));
}
