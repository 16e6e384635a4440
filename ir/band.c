#include "ir/band.h"

#include <math.h>
#include <stdlib.h>

/* column * by_column + row * by_row + offset, and the numbers */
typedef struct BandSide {
    DimTable *dims;
    int by_column, by_row;
    const Dim *offset;
    BandNumber number[BAND_NUMBERS_MAX];
    int n_numbers;
} BandSide;

enum {
    BAND_FAR = 1 << 30, /* more than any coordinate, and sums of a few stay far from overflow */
    BAND_DEPTH = 16     /* of what a number of a matrix, or what is zero, is computed by */
};

static void band_offset(BandSide *side, int sign, const Dim *by) {
    side->offset = (sign > 0 ? dim_add : dim_sub)(side->dims, side->offset, by);
}

static bool band_is_integer(const Value *value) {
    return !dtype_is_float(value->dtype) && value->dtype != DTYPE_BOOL;
}

/* Whether a value is computed from inputs element by element, by few operations. */
static bool band_is_simple(const Value *value, int depth) {
    OpClass class = op_info(value->op)->class_;
    bool is_simple = depth > 0 && (class == OPCLASS_POINTWISE || class == OPCLASS_MOVEMENT ||
                                   value->op == OP_input || value->op == OP_constant || value->op == OP_dim);
    for (int i = 0; i < value->n_in && is_simple; i++)
        is_simple = band_is_simple(value->in[i], depth - 1);
    return is_simple;
}

/* Whether it is an integer for each matrix. */
static bool band_is_of_matrix(const Value *value) {
    for (int axis = value->rank - 1; axis >= 0 && axis >= value->rank - 2; axis--)
        if (!dim_is(value->dims[axis], 1))
            return false;
    return band_is_integer(value) && band_is_simple(value, BAND_DEPTH);
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
    int axis = value_coordinate(value),
        behind = value->rank - 1 - axis; /* axes behind the one it counts along */
    if (axis >= 0 && behind <= 1) {
        *(behind == 0 ? &side->by_column : &side->by_row) += sign;
        return true;
    }
    switch (value->op) {
    case OP_dim:
        band_offset(side, sign, value->attrs[0].dim);
        return !dim_is_const(value->attrs[0].dim) || llabs(value->attrs[0].dim->value) < BAND_FAR;
    case OP_cast:
        if (band_is_integer(value->in[0]))
            return band_side(value->in[0], sign, side);
        break;
    case OP_broadcast: return band_side(value->in[0], sign, side);
    case OP_add:
    case OP_sub:
        return band_side(value->in[0], sign, side) &&
               band_side(value->in[1], value->op == OP_add ? sign : -sign, side);
    default: break;
    }
    if (side->n_numbers == BAND_NUMBERS_MAX || !band_is_of_matrix(value))
        return false;
    side->number[side->n_numbers++] = (BandNumber){value, sign < 0};
    return true;
}

/* One limit more, or the tighter of two of which dims say all; false where there is no room. */
static bool band_add(DimTable *dims, BandLimit limit, Band *band) {
    for (int i = 0; i < band->n; i++) {
        BandLimit *at = &band->limit[i];
        if (limit.n_numbers || at->n_numbers || at->is_most != limit.is_most || at->by_row != limit.by_row)
            continue;
        at->offset = (limit.is_most ? dim_min : dim_max)(dims, at->offset, limit.offset);
        return true;
    }
    if (band->n == BAND_LIMITS_MAX)
        return false;
    band->limit[band->n++] = limit;
    return true;
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
    bool is_most = side.by_column == 1;
    if ((!is_most && side.by_column != -1) || (side.by_row && side.by_row != -side.by_column))
        return false;
    BandLimit limit = {.is_most = is_most,
                       .by_row = side.by_row != 0,
                       .offset = is_most ? dim_sub(dims, dim_const(dims, 0), side.offset) : side.offset,
                       .n_numbers = side.n_numbers};
    for (int i = 0; i < side.n_numbers; i++)
        limit.number[i] = (BandNumber){side.number[i].value, side.number[i].is_taken != is_most};
    return limit.offset && band_add(dims, limit, band);
}

bool band_of(DimTable *dims, Value *x, double beyond, Band *band, Value **inner) {
    double other;
    bool is_all = true;
    *band = (Band){0};
    *inner = x;
    while (x->op == OP_select && value_is_constant(x->in[2], &other) && other == beyond) {
        is_all = band_condition(dims, x->in[0], band) && is_all;
        x = x->in[1];
        if (is_all)
            *inner = x;
    }
    return band->n > 0;
}

/* What is computed of x is -inf where x is. */
static Value *band_lowered(Value *x) {
    double factor;
    switch (x->op) {
    case OP_cast:
    case OP_sub: return x->in[0];
    case OP_mul:
    case OP_div: return value_is_constant(x->in[1], &factor) && factor > 0 ? x->in[0] : NULL;
    default: return NULL;
    }
}

static bool band_of_depth(DimTable *dims, Value *x, double beyond, Band *band, int depth) {
    Value *inner;
    if (depth == 0)
        return false;
    if (band_of(dims, x, beyond, band, &inner))
        return true;
    if (beyond == 0) {
        bool is_power = x->op == OP_exp || x->op == OP_exp2, is_product = x->op == OP_mul;
        if (is_power)
            return band_of_depth(dims, x->in[0], -INFINITY, band, depth - 1);
        if (x->op != OP_cast && x->op != OP_neg && x->op != OP_div && !is_product)
            return false;
        return band_of_depth(dims, x->in[0], 0, band, depth - 1) ||
               (is_product && band_of_depth(dims, x->in[1], 0, band, depth - 1));
    }
    if (x->op == OP_add && band_of_depth(dims, x->in[1], beyond, band, depth - 1))
        return true;
    Value *lowered = x->op == OP_add ? x->in[0] : band_lowered(x);
    return lowered && band_of_depth(dims, lowered, beyond, band, depth - 1);
}

bool band_of_zeros(DimTable *dims, Value *x, Band *band) {
    return band_of_depth(dims, x, 0, band, BAND_DEPTH);
}

bool band_sees_columns(const DimTable *dims, const Band *band, const Dim *rows, const Dim *columns) {
    for (int i = 0; i < band->n; i++) {
        const BandLimit *limit = &band->limit[i];
        bool is_seen = limit->is_most ? dim_lower(dims, limit->offset) >= 0 && rows == columns
                                      : dim_upper(dims, limit->offset) <= 0;
        if (!limit->by_row || limit->n_numbers || !is_seen)
            return false;
    }
    return true;
}

bool band_same(const Band *a, const Band *b) {
    bool is_same = a->n == b->n;
    for (int i = 0; i < a->n && is_same; i++) {
        const BandLimit *x = &a->limit[i], *y = &b->limit[i];
        is_same = x->is_most == y->is_most && x->by_row == y->by_row && x->offset == y->offset &&
                  x->n_numbers == y->n_numbers;
        for (int k = 0; k < x->n_numbers && is_same; k++)
            is_same =
                x->number[k].value == y->number[k].value && x->number[k].is_taken == y->number[k].is_taken;
    }
    return is_same;
}
