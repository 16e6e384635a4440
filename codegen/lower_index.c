/* Coordinates of a run's elements: affine in the lane where that can be kept, with what is known of their
 * alignment. */
#include "codegen/kernel_value.h"
#include "codegen/lower_internal.h"
#include "ir/base/checked.h"
#include "ir/view.h"

enum {
    PLACEHOLDER_SPACE = -1,
    PLACEHOLDER_LANE = -100,
    PLACEHOLDER_OUTER = -101,
    PLACEHOLDER_INNER = -102,
    PLACEHOLDER_INDEX = -1000
};

int lower_space_placeholder(int axis) {
    return PLACEHOLDER_SPACE - axis;
}

int lower_lane_placeholder(void) {
    return PLACEHOLDER_LANE;
}

int lower_outer_placeholder(void) {
    return PLACEHOLDER_OUTER;
}

int lower_inner_placeholder(void) {
    return PLACEHOLDER_INNER;
}

int lower_index_placeholder(int index) {
    return PLACEHOLDER_INDEX - index;
}

/* The largest power of two, up to LOWER_ALIGN_MAX, that divides a number (0: everything does). */
int lower_align_of(int64_t divisor) {
    int align = 1;
    while (align < LOWER_ALIGN_MAX && divisor % (2 * align) == 0)
        align *= 2;
    return align;
}

static int index_align_product(int a, int b) {
    return a * b < LOWER_ALIGN_MAX ? a * b : LOWER_ALIGN_MAX;
}

static int index_align_sum(int a, int b) {
    return a < b ? a : b;
}

static int index_dim_align(const Lower *lower, const Dim *dim) {
    return lower_align_of(dim_divisor(lower->graph->dims, dim));
}

LaneCoord lane_const(Lower *lower, int64_t value) {
    return (LaneCoord){value ? k_int(lower->b, lower->index, value) : lower->zero, 0, lower_align_of(value),
                       1};
}

static const KExpr *index_lane(Lower *lower) {
    return k_convert(lower->b, k_var(lower->b, &lower->lane_var), lower->index);
}

const KExpr *lane_expr(Lower *lower, LaneCoord coord) {
    if (coord.step == 0)
        return coord.at;
    Builder *b = lower->b;
    const KExpr *lane = k_div(b, index_lane(lower), k_int(b, lower->index, coord.share));
    return k_add(b, coord.at, k_mul(b, lane, k_int(b, lower->index, coord.step)));
}

/* The coordinate with its dependence on the lane inside `at`. */
static LaneCoord index_flat(Lower *lower, LaneCoord x) {
    return x.step == 0 ? x : (LaneCoord){lane_expr(lower, x), 0, 1, 1};
}

LaneCoord lane_concrete(Lower *lower, LaneCoord coord) {
    return (LaneCoord){lower_concrete(lower, lane_expr(lower, coord)), 0, 1, 1};
}

bool lane_is_run(LaneCoord coord) {
    return coord.step == 1 && coord.share == 1;
}

int lane_shares(const Lower *lower, LaneCoord coord) {
    int width = lower->shape ? lower->shape->width : 1;
    return coord.step ? width / coord.share : 1;
}

LaneCoord lane_add(Lower *lower, LaneCoord x, LaneCoord y) {
    if (x.step && y.step && x.share != y.share)
        y = index_flat(lower, y);
    return (LaneCoord){k_add(lower->b, x.at, y.at), x.step + y.step, index_align_sum(x.align, y.align),
                       x.step ? x.share : y.share};
}

LaneCoord lane_add_dim(Lower *lower, LaneCoord x, const Dim *dim, int sign) {
    if (dim_is(dim, 0))
        return x;
    const KExpr *term = k_dim(lower->b, dim, lower->index);
    x.at = sign > 0 ? k_add(lower->b, x.at, term) : k_sub(lower->b, x.at, term);
    x.align = index_align_sum(x.align, index_dim_align(lower, dim));
    return x;
}

LaneCoord lane_scale(Lower *lower, LaneCoord x, const Dim *by) {
    if (x.at == lower->zero && x.step == 0)
        return x;
    int64_t step = 0;
    if (x.step != 0 && !(dim_is_const(by) && checked_mul(x.step, by->value, &step)))
        x = index_flat(lower, x);
    const KExpr *at = k_mul(lower->b, x.at, k_dim(lower->b, by, lower->index));
    return (LaneCoord){at, step, index_align_product(x.align, index_dim_align(lower, by)), x.share};
}

/* Of a run that starts at a multiple of an extent and has several times as many elements. */
static void index_split_run(Lower *lower, LaneCoord x, int by, LaneCoord *quotient, LaneCoord *remainder) {
    Builder *b = lower->b;
    const KExpr *extent = k_int(b, lower->index, by);
    const LaneCoord lane = {lower->zero, 1, 1, x.share};
    *quotient = (LaneCoord){k_div(b, x.at, extent), 1, x.align / by, x.share * by};
    *remainder = (LaneCoord){k_mod(b, lane_expr(lower, lane), extent), 0, 1, 1};
}

void lane_split(Lower *lower, LaneCoord x, const Dim *by, LaneCoord *quotient, LaneCoord *remainder) {
    Builder *b = lower->b;
    int width = lane_shares(lower, x), by_align = index_dim_align(lower, by);
    /* A run that starts at a multiple of its width stays within one block of a multiple of its width. */
    bool stays = x.step == 0 || (x.step == 1 && x.align % width == 0 && by_align % width == 0);
    if (!stays && x.step == 1 && dim_is_const(by) && by->value > 1 && by->value < width &&
        width % by->value == 0 && x.align % by->value == 0) {
        index_split_run(lower, x, (int)by->value, quotient, remainder);
        return;
    }
    if (!stays)
        x = index_flat(lower, x);
    const KExpr *extent = k_dim(b, by, lower->index);
    *quotient = (LaneCoord){k_div(b, x.at, extent), 0, 1, 1};
    *remainder = (LaneCoord){k_mod(b, x.at, extent), x.step, index_align_sum(x.align, by_align), x.share};
}

LaneCoord lane_offset(Lower *lower, int rank, const LaneCoord *coords, const Dim *const *strides) {
    LaneCoord sum = lane_const(lower, 0);
    for (int i = 0; i < rank; i++)
        if (!dim_is(strides[i], 0))
            sum = lane_add(lower, sum, lane_scale(lower, coords[i], strides[i]));
    return sum;
}

/* Remembers that these are the parts of a number, in the present run. */
static void index_remember(Lower *lower, LaneCoord number, int rank, const Dim *const *dims,
                           const LaneCoord *coords) {
    enum { MOST = 16 };
    const Run *shape = lower->shape;
    int n = 0;
    for (int i = 0; i < rank; i++)
        n += !dim_is(dims[i], 1);
    if (!shape || n < 2)
        return;
    LaneWhole *whole = ARENA_NEW(lower->arena, LaneWhole);
    *whole = (LaneWhole){.number = number,
                         .axis = shape->axis,
                         .width = shape->width,
                         .split = shape->split,
                         .start = shape->start};
    for (int i = 0; i < rank; i++)
        if (!dim_is(dims[i], 1)) {
            whole->dims[whole->n] = dims[i];
            whole->parts[whole->n++] = coords[i];
        }
    if (lower->wholes.n == MOST)
        lower->wholes.n = 0;
    vec_push(lower->arena, &lower->wholes, whole);
}

static bool index_is_whole(const Lower *lower, const LaneWhole *whole, int rank, const LaneCoord *coords,
                           const Dim *const *dims) {
    const Run *shape = lower->shape;
    bool is_same = shape && shape->axis == whole->axis && shape->width == whole->width &&
                   shape->split == whole->split && shape->start == whole->start && whole->n <= rank;
    for (int i = 0; is_same && i < whole->n; i++)
        is_same = dims[i] == whole->dims[i] && lane_equal(coords[i], whole->parts[i]);
    return is_same;
}

/* Coordinates, none of them along an axis of one element, with numbers that were taken apart in one again;
 * how many are left. */
static int index_unite(const Lower *lower, int rank, LaneCoord *coords, const Dim **dims) {
    int n = 0;
    for (int i = 0; i < rank; n++) {
        const LaneWhole *whole = NULL;
        for (size_t k = lower->wholes.n; k-- > 0 && !whole;)
            if (index_is_whole(lower, lower->wholes.at[k], rank - i, coords + i, dims + i))
                whole = lower->wholes.at[k];
        coords[n] = whole ? whole->number : coords[i];
        dims[n] = dims[i++];
        for (int k = 1; whole && k < whole->n; k++)
            dims[n] = dim_mul(lower->graph->dims, dims[n], dims[i++]);
    }
    return n;
}

/* Whether these are neighbouring axes of the space at the present run's coordinates; the first of them in
 * *first. */
static bool index_is_space(const Lower *lower, int rank, const LaneCoord *coords, const Dim *const *dims,
                           int *first) {
    const Region *region = lower->region;
    for (int a = region->rank - rank; a >= 0; a--) {
        bool same = true;
        for (int i = 0; same && i < rank; i++) {
            bool is_one = dim_is(dims[i], 1);
            same = dims[i] == region->dims[a + i] &&
                   (is_one || (coords[i].at->kind == KX_VAR && coords[i].at->var == &lower->space[a + i]));
        }
        *first = a;
        if (same)
            return true;
    }
    return false;
}

/* The product of the space's extents along axes [begin, end). */
static const Dim *index_extent(const Lower *lower, int begin, int end) {
    return region_extent(lower->graph, lower->region, begin, end);
}

static bool index_is_multiple(const Lower *lower, const Dim *dim) {
    return dim_divisor(lower->graph->dims, dim) % lower->shape->width == 0;
}

/* Whether all elements of a run that goes on from row to row have the same coordinates along axes up to
 * `end`: runs of all of the space begin at multiples of their width, and as many elements lie behind. */
static bool index_is_shared(const Lower *lower, int end) {
    return lower->shape->split == 0 &&
           index_is_multiple(lower, index_extent(lower, end, lower->region->rank));
}

/* The row-major number within axes [begin, end) of the space, from the one within axes [from, to) that the
 * run has: of a part of these, where runs go on from row to row, each element's own, unless they share it, or
 * lie side by side in it. */
static LaneCoord index_part(Lower *lower, int begin, int end, int from, int to, const KVar *number) {
    Builder *b = lower->b;
    const Run *shape = lower->shape;
    const KExpr *at = k_var(b, number);
    const Dim *behind = index_extent(lower, end, to);
    bool is_part = shape->start == RUN_FLAT && from >= shape->split &&
                   !(dim_is(behind, 1) && dim_is(index_extent(lower, from, begin), 1));
    bool is_own =
        is_part &&
        !(dim_is(behind, 1) ? shape->split == 0 && index_is_multiple(lower, index_extent(lower, begin, end))
                            : index_is_shared(lower, end));
    if (is_own)
        at = k_add(b, at, index_lane(lower));
    if (!dim_is(behind, 1))
        at = k_div(b, at, k_dim(b, behind, lower->index));
    if (begin > from)
        at = k_mod(b, at, k_dim(b, index_extent(lower, begin, end), lower->index));
    bool runs = end == lower->region->rank && shape->width > 1 && !is_own;
    return (LaneCoord){at, runs ? 1 : 0,
                       runs && shape->start != RUN_SKEWED ? lower_align_of(shape->width) : 1, 1};
}

/* The row-major number within axes [begin, end) of the space. */
static LaneCoord index_number(Lower *lower, int begin, int end) {
    int split = lower->shape->split, rank = lower->region->rank;
    if (end <= split)
        return index_part(lower, begin, end, 0, split, &lower->outer_var);
    LaneCoord inner = index_part(lower, begin > split ? begin : split, end, split, rank, &lower->inner_var);
    if (begin >= split)
        return inner;
    LaneCoord outer = index_part(lower, begin, split, 0, split, &lower->outer_var);
    LaneCoord whole = lane_add(lower, lane_scale(lower, outer, index_extent(lower, split, end)), inner);
    if (lower->shape->start == RUN_SKEWED && end == rank && dim_is(index_extent(lower, 0, begin), 1))
        whole.align = lower_align_of(lower->shape->width);
    return whole;
}

LaneCoord lane_linear(Lower *lower, int rank, const LaneCoord *coords, const Dim *const *dims) {
    const Dim *strides[RANK_MAX], *extents[RANK_MAX];
    LaneCoord at[RANK_MAX];
    int first, n = 0;
    for (int i = 0; i < rank; i++)
        if (!dim_is(dims[i], 1)) {
            extents[n] = dims[i];
            at[n++] = coords[i];
        }
    n = index_unite(lower, n, at, extents);
    if (n > 1 && lower->shape && lower->shape->outer && index_is_space(lower, n, at, extents, &first))
        return index_number(lower, first, first + n);
    dims_packed_strides(lower->graph->dims, n, extents, strides);
    return lane_offset(lower, n, at, strides);
}

LaneCoord lane_memory(Lower *lower, const Value *value, const LaneCoord *coords) {
    const Dim *strides[RANK_MAX], *packed[RANK_MAX];
    view_base_strides(lower->graph, value, strides);
    dims_packed_strides(lower->graph->dims, value->rank, value->dims, packed);
    for (int i = 0; i < value->rank; i++)
        if (strides[i] != packed[i] && !dim_is(value->dims[i], 1))
            return lane_offset(lower, value->rank, coords, strides);
    return lane_linear(lower, value->rank, coords, value->dims);
}

void lane_delinear(Lower *lower, LaneCoord linear, int rank, const Dim *const *dims, LaneCoord *coords) {
    const LaneCoord number = linear;
    int first = 0; /* the first axis that is not 1 takes what is left, without a remainder */
    while (first < rank && dim_is(dims[first], 1))
        coords[first++] = lane_const(lower, 0);
    for (int i = rank - 1; i > first; i--) {
        if (dim_is(dims[i], 1)) {
            coords[i] = lane_const(lower, 0);
            continue;
        }
        LaneCoord quotient;
        lane_split(lower, linear, dims[i], &quotient, &coords[i]);
        linear = quotient;
    }
    if (first < rank)
        coords[first] = linear;
    index_remember(lower, number, rank, dims, coords);
}

/* The number that was taken apart into these coordinates, as far as folding sees that they are its parts:
 * axis by axis, since products of symbols are symbols of their own. NULL `at`: they are not. */
static LaneCoord index_rejoined(Lower *lower, int rank, const LaneCoord *coords, const Dim *const *dims) {
    LaneCoord whole = coords[0];
    for (int i = 1; i < rank; i++)
        whole = dim_is(dims[i], 1) ? whole : lane_add(lower, lane_scale(lower, whole, dims[i]), coords[i]);
    if (whole.at->kind != KX_VAR || whole.step != coords[rank - 1].step || whole.share > 1)
        whole.at = NULL;
    return whole;
}

static LaneCoord index_joined(Lower *lower, int rank, const LaneCoord *coords, const Dim *const *dims) {
    LaneCoord whole = rank > 1 ? index_rejoined(lower, rank, coords, dims) : (LaneCoord){NULL, 0, 1, 1};
    return whole.at ? whole : lane_linear(lower, rank, coords, dims);
}

void lane_reshape(Lower *lower, int rank, const Dim *const *dims, const LaneCoord *coords, int to_rank,
                  const Dim *const *to_dims, LaneCoord *to) {
    DimTable *table = lower->graph->dims;
    int i = rank, k = to_rank;
    while (i > 0 || k > 0) {
        /* The smallest groups of innermost axes, on both sides, that hold equally many elements. */
        int i_end = i, k_end = k;
        const Dim *count = i > 0 ? dims[--i] : dim_const(table, 1);
        const Dim *to_count = k > 0 ? to_dims[--k] : dim_const(table, 1);
        while (count != to_count && (i > 0 || k > 0)) {
            if (i > 0 && (k == 0 || dim_known_le(table, count, to_count)))
                count = dim_mul(table, count, dims[--i]);
            else
                to_count = dim_mul(table, to_count, to_dims[--k]);
        }
        if (i_end - i == 1 && k_end - k == 1)
            to[k] = coords[i];
        else
            lane_delinear(lower, index_joined(lower, i_end - i, coords + i, dims + i), k_end - k, to_dims + k,
                          to + k);
    }
}

bool lower_expr_equal(const KExpr *x, const KExpr *y) {
    if (x == y)
        return true;
    if (!x || !y || x->kind != y->kind || x->type != y->type || x->op != y->op || x->dtype != y->dtype ||
        x->i != y->i || x->var != y->var || x->buffer != y->buffer || x->n_args != y->n_args)
        return false;
    if (x->kind == KX_FLOAT && x->f != y->f)
        return false;
    for (int i = 0; i < x->n_args; i++)
        if (!lower_expr_equal(x->args[i], y->args[i]))
            return false;
    return true;
}

bool lane_equal(LaneCoord x, LaneCoord y) {
    return x.step == y.step && (!x.step || x.share == y.share) && lower_expr_equal(x.at, y.at);
}

/* Whether a placeholder is a coordinate that each element of a run has of its own. */
static bool index_is_apart(const Lower *lower, int id) {
    const Run *shape = lower->shape;
    return shape && shape->start == RUN_FLAT && id > PLACEHOLDER_LANE &&
           PLACEHOLDER_SPACE - id >= shape->split && !index_is_shared(lower, PLACEHOLDER_SPACE - id + 1);
}

bool lower_expr_varies(const Lower *lower, const KExpr *expr) {
    if (!expr)
        return false;
    if (expr->kind == KX_VAR && expr->var->id < 0)
        return expr->var->id == PLACEHOLDER_LANE || index_is_apart(lower, expr->var->id) ||
               (expr->var->id <= PLACEHOLDER_INDEX &&
                lower->indices.at[PLACEHOLDER_INDEX - expr->var->id]->varies);
    for (int i = 0; i < expr->n_args; i++)
        if (lower_expr_varies(lower, expr->args[i]))
            return true;
    return false;
}

bool lower_expr_is_outer(const Lower *lower, const KExpr *expr, int split) {
    if (!expr)
        return true;
    if (expr->kind == KX_VAR && expr->var->id < 0) {
        int id = expr->var->id;
        if (id > PLACEHOLDER_LANE)
            return PLACEHOLDER_SPACE - id < split;
        return id == PLACEHOLDER_OUTER;
    }
    for (int i = 0; i < expr->n_args; i++)
        if (!lower_expr_is_outer(lower, expr->args[i], split))
            return false;
    return true;
}

bool lower_expr_is_along(const KExpr *expr, int axis) {
    if (!expr)
        return true;
    if (expr->kind == KX_VAR && expr->var->id < 0)
        return expr->var->id == PLACEHOLDER_LANE || expr->var->id == PLACEHOLDER_SPACE - axis;
    for (int i = 0; i < expr->n_args; i++)
        if (!lower_expr_is_along(expr->args[i], axis))
            return false;
    return true;
}

bool lower_expr_is_of_lane(const KExpr *expr) {
    if (expr->kind == KX_VAR)
        return expr->var->id == PLACEHOLDER_LANE;
    bool is_of_lane = expr->kind == KX_INT || expr->kind == KX_SCALAR || expr->kind == KX_CONVERT;
    for (int i = 0; is_of_lane && i < expr->n_args; i++)
        is_of_lane = lower_expr_is_of_lane(expr->args[i]);
    return is_of_lane;
}

bool lower_expr_is_fixed(const KExpr *expr, int axis) {
    if (!expr)
        return true;
    if (expr->kind == KX_VAR && expr->var->id < 0)
        return expr->var->id != PLACEHOLDER_SPACE - axis && expr->var->id != PLACEHOLDER_INNER &&
               expr->var->id > PLACEHOLDER_INDEX;
    for (int i = 0; i < expr->n_args; i++)
        if (!lower_expr_is_fixed(expr->args[i], axis))
            return false;
    return true;
}

bool lane_varies(const Lower *lower, LaneCoord coord) {
    return coord.step != 0 || lower_expr_varies(lower, coord.at);
}

/* The value of a coordinate that is read or computed, at the present lane. */
static const KExpr *index_value(Lower *lower, int number) {
    LowerIndex *index = lower->indices.at[number];
    if (!index->expr) {
        const KExpr *expr = lower_eval(lower, index->key.value, index->key.coords, index->key.guard);
        lower_remember_number(lower, ENTRY_INDEX, number);
        index->expr = k_let_expr(lower->b, "at", k_convert(lower->b, expr, index->placeholder.type));
    }
    return index->expr;
}

/* The present run's coordinate along an axis of the space, or the present element's. */
static const KExpr *index_coordinate(Lower *lower, int axis) {
    const Run *run = lower->run;
    if (run->start != RUN_FLAT || axis < run->split)
        return run->coords[axis];
    const KExpr *coords[RANK_MAX], *at = run->inner;
    if (!index_is_shared(lower, axis + 1))
        at = k_add(lower->b, at, k_convert(lower->b, lower->lane, run->inner->type));
    lower_delinearize(lower->b, at, run->rank - run->split, lower->region->dims + run->split, coords);
    return coords[axis - run->split];
}

/* The same, named once. */
static const KExpr *index_space(Lower *lower, int axis) {
    Builder *b = lower->b;
    if (!lower->space_expr[axis]) {
        int from_end = lower->run->rank - 1 - axis;
        const char *name = from_end == 0   ? "col"
                           : from_end == 1 ? "row"
                                           : text_format(lower->arena, "axis%d", axis);
        const KExpr *at = k_convert(b, index_coordinate(lower, axis), lower->index);
        lower_remember_number(lower, ENTRY_SPACE, axis);
        lower->space_expr[axis] = k_let_expr(b, name, at);
    }
    return lower->space_expr[axis];
}

static const KExpr *index_placeholder_value(Lower *lower, const KVar *var) {
    if (var->id == PLACEHOLDER_LANE)
        return lower->lane;
    if (var->id <= PLACEHOLDER_INDEX)
        return index_value(lower, PLACEHOLDER_INDEX - var->id);
    /* A number within one axis is the coordinate along it. */
    if (var->id == PLACEHOLDER_OUTER && lower->run->split == 1)
        return index_space(lower, 0);
    if (var->id == PLACEHOLDER_INNER && lower->run->split == lower->run->rank - 1)
        return index_space(lower, lower->run->rank - 1);
    if (var->id == PLACEHOLDER_OUTER)
        return k_convert(lower->b, lower->run->outer, lower->index);
    if (var->id == PLACEHOLDER_INNER)
        return k_convert(lower->b, lower->run->inner, lower->index);
    return index_space(lower, PLACEHOLDER_SPACE - var->id);
}

const KExpr *lower_concrete(Lower *lower, const KExpr *expr) {
    Builder *b = lower->b;
    if (!expr)
        return NULL;
    if (expr->kind == KX_VAR && expr->var->id < 0)
        return index_placeholder_value(lower, expr->var);
    const KExpr *args[3] = {NULL, NULL, NULL};
    bool changed = false;
    if (lower->has_columns && expr->kind == KX_SCALAR && expr->op != OP_mul && ktype_is_int(expr->type)) {
        const KExpr *of_tile = lower_column_of_tile(lower, expr);
        if (of_tile)
            return of_tile;
    }
    for (int i = 0; i < expr->n_args && i < 3; i++) {
        args[i] = lower_concrete(lower, expr->args[i]);
        changed = changed || args[i] != expr->args[i];
    }
    if (!changed)
        return expr;
    if (expr->kind == KX_CONVERT)
        return k_convert(b, args[0], expr->type);
    bool is_index = expr->type == K_I32 || expr->type == K_I64;
    if (is_index && expr->op == OP_div)
        return k_div(b, args[0], args[1]);
    if (is_index && expr->op == OP_mod)
        return k_mod(b, args[0], args[1]);
    return k_scalar(b, expr->op, args[0], args[1], args[2]);
}

/* Whether a number of elements, or an offset, surely stays below 2^31 with room for the lanes of the last
 * block. */
static bool index_is_small(const DimTable *table, const Dim *dim) {
    return dim && dim_lower(table, dim) >= 0 && dim_upper(table, dim) <= INT32_MAX - (1 << 24);
}

static bool index_value_is_small(const Graph *graph, const Value *value, bool in_memory) {
    DimTable *table = graph->dims;
    const Dim *count = dim_const(table, 1);
    for (int i = 0; i < value->rank; i++) {
        if (!index_is_small(table, value->dims[i]))
            return false;
        count = dim_mul(table, count, value->dims[i]);
    }
    if (!index_is_small(table, count))
        return false;
    if (!in_memory)
        return true;
    const Dim *strides[RANK_MAX], *span = dim_const(table, 0);
    view_base_strides(graph, value, strides);
    for (int i = 0; i < value->rank; i++)
        span = dim_add(table, span, dim_mul(table, value->dims[i], strides[i]));
    return index_is_small(table, span);
}

KType lower_choose_index(const Graph *graph, const Region *region) {
    for (size_t i = 0; i < region->values.n; i++)
        if (!index_value_is_small(graph, region->values.at[i], false))
            return K_I64;
    for (size_t i = 0; i < region->inputs.n; i++)
        if (!index_value_is_small(graph, region->inputs.at[i], true))
            return K_I64;
    for (size_t i = 0; i < region->outputs.n; i++)
        if (!index_value_is_small(graph, region->outputs.at[i], true))
            return K_I64;
    Value space = {.rank = region->rank};
    memcpy(space.dims, region->dims, sizeof space.dims);
    return index_value_is_small(graph, &space, false) ? K_I32 : K_I64;
}
