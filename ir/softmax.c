#include "ir/softmax.h"

#include <math.h>
#include <stdlib.h>

/* Whether `row` has one element for each row of `x`. */
static bool softmax_is_of_rows(const Value *row, const Value *x) {
    return row->rank && value_same_rows(row, x) && dim_is(row->dims[row->rank - 1], 1);
}

bool softmax_of(const Value *value, Softmax *out) {
    const Value *share = value->op == OP_cast ? value->in[0] : NULL;
    if (!share || share->op != OP_div || share->in[0]->op != OP_exp || share->in[1]->op != OP_sum)
        return false;
    const Value *e = share->in[0], *below = e->in[0];
    Value *sum = share->in[1];
    if (sum->in[0] != e || below->op != OP_sub || below->in[1]->op != OP_reduce_max)
        return false;
    Value *x = below->in[0], *max = below->in[1];
    if (max->in[0] != x || x->dtype != DTYPE_F32 || e->dtype != DTYPE_F32 || sum->dtype != DTYPE_F32 ||
        share->dtype != DTYPE_F32 || !softmax_is_of_rows(max, x) || !softmax_is_of_rows(sum, x))
        return false;
    *out = (Softmax){.x = x, .max = max, .sum = sum};
    return true;
}

/* column * by_column + row * by_row + offset */
typedef struct BandSide {
    DimTable *dims;
    int by_column, by_row;
    const Dim *offset;
} BandSide;

enum { BAND_FAR = 1 << 30 /* more than any coordinate, and sums of a few stay far from overflow */ };

static void band_offset(BandSide *side, int sign, const Dim *by) {
    side->offset = (sign > 0 ? dim_add : dim_sub)(side->dims, side->offset, by);
}

static bool band_is_integer(const Value *value) {
    return !dtype_is_float(value->dtype) && value->dtype != DTYPE_BOOL;
}

/* Adds `sign` times an integer expression; false where it is not of that form. */
static bool band_side(const Value *value, int sign, BandSide *side) {
    double number;
    if (value_is_constant(value, &number)) {
        if (fabs(number) >= BAND_FAR || number != floor(number))
            return false;
        band_offset(side, sign, dim_const(side->dims, (int64_t)number));
        return true;
    }
    switch (value->op) {
    case OP_index: {
        int64_t behind = value->rank - 1 - value->attrs[1].i; /* axes behind it */
        *(behind == 0 ? &side->by_column : &side->by_row) += sign;
        return behind <= 1;
    }
    case OP_dim:
        band_offset(side, sign, value->attrs[0].dim);
        return !dim_is_const(value->attrs[0].dim) || llabs(value->attrs[0].dim->value) < BAND_FAR;
    case OP_cast: return band_is_integer(value->in[0]) && band_side(value->in[0], sign, side);
    case OP_broadcast: return band_side(value->in[0], sign, side);
    case OP_add: return band_side(value->in[0], sign, side) && band_side(value->in[1], sign, side);
    case OP_sub: return band_side(value->in[0], sign, side) && band_side(value->in[1], -sign, side);
    default: return false;
    }
}

/* Narrows the band by a condition; whether that says all of it. */
static bool band_condition(DimTable *dims, const Value *inside, Band *band) {
    if (inside->op == OP_broadcast)
        return band_condition(dims, inside->in[0], band);
    if (inside->op == OP_and) {
        bool first = band_condition(dims, inside->in[0], band),
             second = band_condition(dims, inside->in[1], band);
        return first && second;
    }
    bool is_below = inside->op == OP_le || inside->op == OP_lt;
    if (!is_below && inside->op != OP_ge && inside->op != OP_gt)
        return false;
    /* the smaller side less the larger one: at most 0, or at most -1 */
    BandSide side = {.dims = dims, .offset = dim_const(dims, inside->op == OP_lt || inside->op == OP_gt)};
    if (!band_is_integer(inside->in[0]) || !band_is_integer(inside->in[1]) ||
        !band_side(inside->in[0], is_below ? 1 : -1, &side) ||
        !band_side(inside->in[1], is_below ? -1 : 1, &side))
        return false;
    if (side.by_column == 1 && side.by_row == -1) {
        const Dim *most = dim_sub(dims, dim_const(dims, 0), side.offset);
        band->high = band->high ? dim_min(dims, band->high, most) : most;
    } else if (side.by_column == -1 && side.by_row == 1) {
        band->low = band->low ? dim_max(dims, band->low, side.offset) : side.offset;
    } else {
        return false;
    }
    return true;
}

bool softmax_band(DimTable *dims, Value *x, Band *band, Value **inner) {
    double beyond;
    *band = (Band){0};
    *inner = x;
    if (x->op != OP_select || !value_is_constant(x->in[2], &beyond) || beyond != -INFINITY)
        return false;
    if (band_condition(dims, x->in[0], band))
        *inner = x->in[1];
    return band->low || band->high;
}
