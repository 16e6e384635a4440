/* Where a Value's elements lie in the region's space.
 *
 * A Value fits as the space itself, as the space with reduced axes 1, as the space with reduced axes dropped,
 * as one of pieces of its rows, or as something that broadcasts to the space. An output behind transposes and
 * reshapes is computed as the Value below them that fits, and stored where those operations send its
 * elements. */
#include "codegen/lower_internal.h"

typedef enum Fit { FIT_NONE, FIT_WHOLE, FIT_KEPT, FIT_DROPPED, FIT_PIECE, FIT_BROADCAST } Fit;

static void place_reduced(const Region *region, int *begin, int *end) {
    bool leading = region->kind == TEMPLATE_COLUMNS;
    *begin = leading ? 0 : region->rank - region->n_reduced;
    *end = leading ? region->n_reduced : region->rank;
}

static bool place_dims_equal(int n, const Dim *const *x, const Dim *const *y) {
    for (int i = 0; i < n; i++)
        if (x[i] != y[i])
            return false;
    return true;
}

static Fit place_fit(const Region *region, const Value *value) {
    int begin, end, kept = region->rank - region->n_reduced;
    place_reduced(region, &begin, &end);
    if (value->rank == region->rank && place_dims_equal(value->rank, value->dims, region->dims))
        return FIT_WHOLE;
    if (region->n_reduced > 0 && value->rank == kept && place_dims_equal(begin, value->dims, region->dims) &&
        place_dims_equal(kept - begin, value->dims + begin, region->dims + end))
        return FIT_DROPPED;
    bool is_kept = value->rank == region->rank && region->n_reduced > 0;
    for (int i = 0; is_kept && i < value->rank; i++)
        is_kept = i >= begin && i < end ? dim_is(value->dims[i], 1) : value->dims[i] == region->dims[i];
    if (is_kept)
        return FIT_KEPT;
    if (region_has_piece_dims(region, value))
        return FIT_PIECE;
    int shift = region->rank - value->rank;
    for (int i = 0; i < value->rank; i++)
        if (shift < 0 || (value->dims[i] != region->dims[i + shift] && !dim_is(value->dims[i], 1)))
            return FIT_NONE;
    return FIT_BROADCAST;
}

bool lower_is_whole(const Region *region, const Value *value) {
    return place_fit(region, value) == FIT_WHOLE;
}

bool lower_is_column(const Region *region, const Value *value) {
    Fit fit = place_fit(region, value);
    int begin, end, shift = region->rank - value->rank;
    place_reduced(region, &begin, &end);
    if (value->rank == 0 || fit == FIT_NONE || fit == FIT_WHOLE || dim_is(value->dims[value->rank - 1], 1) ||
        value->dims[value->rank - 1] != region->dims[region->rank - 1])
        return false;
    for (int i = 0; fit == FIT_BROADCAST && i < value->rank; i++)
        if (i + shift >= begin && i + shift < end && !dim_is(value->dims[i], 1))
            return false;
    return true;
}

bool lower_is_space_reduction(const Region *region, const Value *value) {
    if (op_info(value->op)->class_ != OPCLASS_REDUCTION || !lower_is_whole(region, value->in[0]))
        return false;
    bool reduced[RANK_MAX] = {false};
    for (int i = 0; i < value->attrs[0].axes.n; i++)
        reduced[value->attrs[0].axes.at[i]] = true;
    int begin, end;
    place_reduced(region, &begin, &end);
    for (int i = 0; i < region->rank; i++)
        if (reduced[i] != (i >= begin && i < end) && !dim_is(region->dims[i], 1)) /* an axis of 1 is both */
            return false;
    return true;
}

/* The Value below transposes and reshapes, all computed here, that lies in the space; `value` itself where
 * there is none. */
static const Value *place_root(const Region *region, const Value *value) {
    const RegionWindow *window = region_window(region, value);
    if (window)
        return window->root;
    bool deep = region->n_reduced > 0 || region->cores.n > 0;
    const Value *root = NULL, *at = value;
    for (;;) {
        Fit fit = place_fit(region, at);
        if (fit != FIT_NONE && fit != FIT_BROADCAST) {
            root = at;
            /* a square that is stored, or computed here, is stored turned: what it is of would be read so */
            bool is_square =
                at->op == OP_transpose && place_fit(region, at->in[0]) == FIT_WHOLE &&
                (region_writes(region, at->in[0]) ||
                 (region->kind == TEMPLATE_TRANSPOSE && op_info(at->in[0]->op)->class_ == OPCLASS_POINTWISE));
            if (!deep && !is_square)
                break;
        }
        if (at->op != OP_transpose && at->op != OP_reshape)
            break;
        bool is_computed = false;
        for (size_t i = 0; i < region->values.n; i++)
            is_computed = is_computed || region->values.at[i] == at->in[0];
        if (!is_computed)
            break;
        at = at->in[0];
    }
    return root ? root : value;
}

const Value *lower_root(const Region *region, const Value *output) {
    /* Only a store undoes movement: what is computed from a transpose wants the transpose. */
    return region_writes(region, output) ? place_root(region, output) : output;
}

/* Whether a value is some input's elements in the space's order, nothing computed. */
static bool place_is_moved_input(const Region *region, const Value *value) {
    if (!lower_is_whole(region, value))
        return false;
    while (!region_reads(region, value) &&
           (value->op == OP_transpose || value->op == OP_reshape || value->op == OP_slice))
        value = value->in[0];
    return region_reads(region, value);
}

/* Whether work starts from a moved input: something else than a further movement of it uses it. */
static bool place_is_start(const Region *region, const Value *value) {
    if (!place_is_moved_input(region, value))
        return false;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *user = region->values.at[i];
        for (int k = 0; k < user->n_in; k++)
            if (user->in[k] == value && !place_is_moved_input(region, user))
                return true;
    }
    for (size_t i = 0; i < region->outputs.n; i++)
        if (lower_root(region, region->outputs.at[i]) == value)
            return true;
    return false;
}

int lower_moved_inputs(const Region *region, const Value **out, int room) {
    int n = 0;
    for (size_t i = 0; i < region->inputs.n + region->values.n && n < room; i++) {
        const Value *value =
            i < region->inputs.n ? region->inputs.at[i] : region->values.at[i - region->inputs.n];
        if (place_is_start(region, value))
            out[n++] = value;
    }
    return n;
}

/* Elements of the space, or of its axes that are kept. */
static const Dim *place_count(const Graph *graph, const Region *region, bool kept) {
    int begin, end;
    place_reduced(region, &begin, &end);
    const Dim *count = dim_const(graph->dims, 1);
    for (int i = 0; i < region->rank; i++)
        if (!kept || i < begin || i >= end)
            count = dim_mul(graph->dims, count, region->dims[i]);
    return count;
}

bool lower_output_is_block(const Region *region, const Value *output, BlockStatistic *block) {
    const Value *statistic = block_stored(output);
    return statistic && block_statistic(statistic, block) && block->axis == region->rank - 2 &&
           lower_is_whole(region, block->of);
}

bool lower_output_is_whole(const Graph *graph, const Region *region, const Value *output) {
    return value_count(graph, output) == place_count(graph, region, false);
}

bool lower_stores_whole(const Graph *graph, const Region *region) {
    for (size_t i = 0; i < region->outputs.n; i++)
        if (lower_output_is_whole(graph, region, region->outputs.at[i]))
            return true;
    return false;
}

bool lower_output_is_kept(const Graph *graph, const Region *region, const Value *output) {
    return value_count(graph, output) == place_count(graph, region, true);
}

bool lower_output_is_piece(const Region *region, const Value *output) {
    return place_fit(region, place_root(region, output)) == FIT_PIECE;
}

/* The run's coordinate along an axis of the space. */
static LaneCoord place_axis(Lower *lower, const Run *shape, int axis) {
    if (dim_is(lower->region->dims[axis], 1))
        return lane_const(lower, 0);
    const KExpr *at = k_var(lower->b, &lower->space[axis]);
    bool runs = axis == shape->axis && shape->width > 1 && shape->start != RUN_FLAT;
    bool is_aligned = axis == shape->axis && shape->start == RUN_IN_ROW;
    return (LaneCoord){at, runs ? 1 : 0, is_aligned ? lower_align_of(shape->width) : 1, 1};
}

bool lower_place(Lower *lower, const Value *value, const Run *shape, LaneCoord *coords) {
    const Region *region = lower->region;
    int begin, end;
    place_reduced(region, &begin, &end);
    Fit fit = place_fit(region, value);
    if (fit == FIT_NONE)
        return false;
    int shift = region->rank - value->rank;
    for (int i = 0; i < value->rank; i++) {
        int axis = fit == FIT_DROPPED ? (i < begin ? i : i + region->n_reduced) : i + shift;
        coords[i] = dim_is(value->dims[i], 1) ? lane_const(lower, 0) : place_axis(lower, shape, axis);
    }
    return true;
}

/* The same row-major order as the space, or as its axes that are kept. */
static bool place_linear(Lower *lower, const Value *value, const Run *shape, LaneCoord *coords) {
    const Region *region = lower->region;
    DimTable *table = lower->graph->dims;
    const Dim *count = value_count(lower->graph, value);
    int begin, end;
    place_reduced(region, &begin, &end);
    for (int drop = 0; drop <= (region->n_reduced > 0); drop++) {
        LaneCoord space[RANK_MAX];
        const Dim *dims[RANK_MAX], *space_count = dim_const(table, 1);
        int rank = 0;
        for (int i = 0; i < region->rank; i++) {
            if (drop && i >= begin && i < end)
                continue;
            dims[rank] = region->dims[i];
            space[rank++] = place_axis(lower, shape, i);
            space_count = dim_mul(table, space_count, region->dims[i]);
        }
        if (space_count == count) {
            lane_reshape(lower, rank, dims, space, value->rank, value->dims, coords);
            return true;
        }
    }
    return false;
}

const KExpr *lower_window(Lower *lower, const Value *output) {
    Builder *b = lower->b;
    const Region *region = lower->region;
    const RegionWindow *window = region_window(region, output);
    if (!window || window->is_bundle)
        return NULL;
    const Dim *columns = region->dims[region->rank - 1];
    const KExpr *column = k_var(b, &lower->space[region->rank - 1]), *inside = NULL;
    if (window->first > 0)
        inside = k_ge(b, column, k_int(b, lower->index, window->first));
    if (!dim_is(columns, window->first + window->width))
        inside = k_and(b, inside, k_lt(b, column, k_int(b, lower->index, window->first + window->width)));
    return inside;
}

/* A window of the columns, under its root's own dims. */
static void place_window(Lower *lower, const RegionWindow *window, const Run *shape, LaneCoord *coords) {
    const Region *region = lower->region;
    DimTable *table = lower->graph->dims;
    LaneCoord space[RANK_MAX];
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < region->rank; i++) {
        dims[i] = region->dims[i];
        space[i] = place_axis(lower, shape, i);
    }
    int last = region->rank - 1;
    dims[last] = dim_const(table, window->width);
    space[last] = lane_add_dim(lower, space[last], dim_const(table, window->first), -1);
    lane_reshape(lower, region->rank, dims, space, window->root->rank, window->root->dims, coords);
}

void lower_move_coords(Lower *lower, const Value *movement, const LaneCoord *from, LaneCoord *coords) {
    const Value *operand = movement->in[0];
    if (movement->op == OP_transpose)
        for (int i = 0; i < movement->rank; i++)
            coords[i] = from[movement->attrs[0].ints[i]];
    else
        lane_reshape(lower, operand->rank, operand->dims, from, movement->rank, movement->dims, coords);
}

/* Coordinates in what an output is by reshapes and transposes; `window` is the output's, or NULL. */
static bool place_stored(Lower *lower, const Value *value, const RegionWindow *window, const Run *shape,
                         LaneCoord *coords) {
    if (value == (window ? window->root : place_root(lower->region, value))) {
        if (window)
            place_window(lower, window, shape, coords);
        return window || lower_place(lower, value, shape, coords) ||
               place_linear(lower, value, shape, coords);
    }
    LaneCoord at[RANK_MAX];
    if (!place_stored(lower, value->in[0], window, shape, at))
        return false;
    lower_move_coords(lower, value, at, coords);
    return true;
}

bool lower_output_coords(Lower *lower, const Value *output, const Run *shape, LaneCoord *coords) {
    return place_stored(lower, output, region_window(lower->region, output), shape, coords);
}

bool lower_root_coords(Lower *lower, const Value *output, const Run *shape, LaneCoord *coords) {
    const RegionWindow *window = region_window(lower->region, output);
    const Value *root = lower_root(lower->region, output);
    return lower_place(lower, root, shape, coords) || place_stored(lower, root, window, shape, coords);
}
