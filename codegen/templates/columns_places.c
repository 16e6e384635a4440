/* Columns that are windows beside one another, as a depthwise convolution's: each thread has several places
 * of an axis, which share most of what their windows read. What is the same for all, as weights are, is read
 * once a tap. All taps along the last reduced axis are written out, of all places, and what several
 * of these read is read once:
 *
 *     place 0    | x0 x1 x2 |
 *     place 1       | x1 x2 x3 |                 4 places and 3 taps: 6 of 12 loads of x, 3 of 12 of weights
 *     place 2          | x2 x3 x4 |
 *     place 3             | x3 x4 x5 |
 *
 * A thread goes through all of its own rows, and needs no other's. (H200, LLVM, us, a place a thread; 4
 * places; 8 or 7: 7 x 7 taps of 32 x 56 x 56 x 256 248, 123, 110; 5 x 5 of 2 x 128 x 128 x 640 117, 58, 49; 3
 * x 3 of 32 x 112 x 112 x 32 33, 26, 24; in steps of 2 15.7, 15.0, 15.1. NVRTC did not see that loads are
 * the same, where each was written out: 298, 178, 167.) */
#include "codegen/templates/columns_places.h"

#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/template.h"
#include "ir/view.h"

enum {
    PLACES_THREADS = 128,
    PLACES_MOST = 8,
    PLACES_TURNS = 64, /* of the loop over those of other axes */
    PLACES_RUN = 4,    /* elements: runs of 8 leave registers for fewer threads */
};

/* ---- schedules */

static const Dim *places_taps(const Region *region) {
    return region->dims[region->n_reduced - 1];
}

/* The axis whose neighbours a thread has, counted from the space's first: along which the last windows with
 * those taps lie, of axes as long the last one (behind it, a convolution's space has channels, or groups and
 * their features); the last but one where there are none. */
static int places_axis(const Region *region) {
    for (size_t v = region->values.n; v-- > 0;) {
        const Value *value = region->values.at[v];
        if (value->op != OP_window || value->attrs[1].dim != places_taps(region))
            continue;
        for (int i = region->rank - 2; i >= region->n_reduced; i--)
            if (region->dims[i] == value->dims[value->attrs[0].i])
                return i;
    }
    return region->rank - 2;
}

bool columns_accepts_places(const Graph *graph, const Region *region, const Schedule *s, const char **why) {
    *why = "places beside each other are those of a kept axis, which they divide, 2 to 8 a thread";
    if (region->n_reduced < 1 || region->rank - region->n_reduced < 2 || s->places < 2 ||
        s->places > PLACES_MOST ||
        dim_divisor(graph->dims, region->dims[places_axis(region)]) % s->places != 0)
        return false;
    *why =
        "a thread with several places has all of their rows, those along the last reduced axis at once, up "
        "to 32";
    if (s->threads_per_row != s->threads || !dim_is(places_taps(region), s->unroll) ||
        s->unroll > PLACES_TAPS)
        return false;
    *why = "of several places one pass computes one element a column";
    if (lower_stores_whole(graph, region) || lower_count_levels(graph, region) != 1)
        return false;
    *why = NULL;
    return true;
}

/* Elements that so many places of windows read, each counted once. */
static int places_distinct(int64_t taps, int64_t step, int64_t dilation, int places) {
    int distinct = 0;
    for (int place = 0; place < places; place++)
        for (int64_t tap = 0; tap < taps; tap++) {
            bool is_known = false; /* a place before has it */
            for (int before = 0; before < place && !is_known; before++) {
                int64_t ahead = (place - before) * step;
                is_known = ahead % dilation == 0 && tap + ahead / dilation < taps;
            }
            distinct += !is_known;
        }
    return distinct;
}

/* Whether so many places share enough of windows of so many elements: of 3 in steps of 2 even 8 places do not
 * (the largest of 3 x 3, 64 x 112 x 112 x 64: 44 us by a place a thread, 47). Where the taps are kept and
 * places reduced, as for weights' gradients, it is the other way around. */
static bool places_share(const Region *region, const Dim *taps, int places) {
    enum { LEAST = 29, OF = 20 /* loads for one that is left */ };
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        if (value->op != OP_window)
            continue;
        int64_t step = value->attrs[2].i, dilation = value->attrs[3].i;
        int distinct = value->attrs[1].dim == taps ? places_distinct(taps->value, step, dilation, places)
                       : value->attrs[1].dim == region->dims[places_axis(region)]
                           ? places_distinct(places, step, dilation, (int)taps->value)
                           : 0;
        if (distinct && OF * taps->value * places >= LEAST * distinct)
            return true;
    }
    return false;
}

/* What neighbouring places have in common: of tap `t` place `p` reads what lies at `step` p + t. */
typedef struct PlacesShared {
    int64_t step; /* 0: nothing known yet */
    bool differs; /* something reads otherwise */
} PlacesShared;

/* The axis of its operand that a movement's axis is: all of it, in its order; -1: none. */
static int places_axis_below(const Value *movement, int axis) {
    switch (movement->op) {
    case OP_transpose: return movement->attrs[0].ints[axis];
    case OP_slice: return movement->attrs[2].ints[axis] == 1 ? axis : -1;
    case OP_pad: return axis;
    case OP_window: return axis != (int)movement->attrs[0].i && axis < movement->in[0]->rank ? axis : -1;
    case OP_reshape: return view_axis_below_reshape(movement, axis);
    default: return -1;
    }
}

/* A window whose places are those of the columns and whose elements are the taps, or the other way around. */
static bool places_is_window(const Value *value, int place, int tap, int64_t *of_place, int64_t *of_tap) {
    if (value->op != OP_window)
        return false;
    int along = (int)value->attrs[0].i, elements = value->rank - 1;
    int64_t step = value->attrs[2].i, dilation = value->attrs[3].i;
    bool is_forth = place == along && tap == elements;
    *of_place = is_forth ? step : dilation;
    *of_tap = is_forth ? dilation : step;
    return is_forth || (tap == along && place == elements);
}

/* What is read by what is reduced. */
static void places_find_shared(const Region *region, const Value *value, PlacesShared *shared) {
    int missing = region->rank - value->rank;
    int place = places_axis(region) - missing, tap = region->n_reduced - 1 - missing;
    if (place < 0 || dim_is(value->dims[place], 1))
        return;
    if (op_info(value->op)->class_ == OPCLASS_POINTWISE) {
        for (int i = 0; i < value->n_in; i++)
            places_find_shared(region, value->in[i], shared);
        return;
    }
    int64_t of_place = 0, of_tap = 0;
    while (place >= 0 && tap >= 0 && op_info(value->op)->class_ == OPCLASS_MOVEMENT &&
           !places_is_window(value, place, tap, &of_place, &of_tap)) {
        of_place = 0;
        place = places_axis_below(value, place);
        tap = places_axis_below(value, tap);
        value = value->in[0];
    }
    bool is_window = place >= 0 && tap >= 0 && places_is_window(value, place, tap, &of_place, &of_tap);
    shared->differs |= !is_window || of_tap != 1 || of_place > places_taps(region)->value ||
                       (shared->step && shared->step != of_place);
    shared->step = of_place;
}

/* How far apart neighbouring places read, where all that varies between them is read by windows along their
 * axis alone; 0: it is not. */
static int64_t places_step(const Region *region, const ReduceLevel *level) {
    PlacesShared shared = {0};
    for (size_t i = 0; i < level->n; i++)
        places_find_shared(region, level->at[i]->in[0], &shared);
    return shared.differs ? 0 : shared.step;
}

/* Whether places are neighbours in memory, without channels between them, so that 8 of f32 are 32 bytes a
 * lane: 16 images of 1024 x 1024, 3 x 3 twice, took 167 us, by 4 places 88 (H200). */
static bool places_lie_together(const Region *region) {
    for (int i = places_axis(region) + 1; i < region->rank; i++)
        if (!dim_is(region->dims[i], 1))
            return false;
    return true;
}

int columns_places_schedules(const Graph *graph, const Region *region, const Target *target,
                             const DimBindings *hint, int vector, Schedule *out, int room) {
    static const int of_channels[] = {8, 7, 4, 5, 3, 2}, of_planes[] = {4, 5, 3, 8, 7, 2};
    const int *places = places_lie_together(region) ? of_planes : of_channels;
    const char *why;
    int n = 0;
    int64_t columns = cost_space(graph, region, region->n_reduced, region->rank, hint);
    int64_t rows = cost_space(graph, region, 0, region->n_reduced, hint);
    const Dim *taps = places_taps(region);
    if (!dim_is_const(taps) || taps->value > PLACES_TAPS || rows > PLACES_TURNS * taps->value)
        return 0;
    for (size_t i = 0; i < sizeof of_channels / sizeof *of_channels && n < room; i++) {
        Schedule s = {.threads = PLACES_THREADS,
                      .threads_per_row = PLACES_THREADS,
                      .rows_per_block = 1,
                      .vector = vector > PLACES_RUN ? PLACES_RUN : vector,
                      .places = places[i],
                      .unroll = (int)taps->value};
        int64_t threads = columns / ((int64_t)s.vector * s.places);
        if (threads >= (int64_t)PLACES_THREADS * target->sm_count && places_share(region, taps, s.places) &&
            columns_accepts_places(graph, region, &s, &why))
            out[n++] = s;
    }
    return n;
}

/* ---- the kernel */

typedef struct Places {
    Builder *b;
    const Region *region;
    const Schedule *schedule;
    Lower *lower;
    KType index;
    const KExpr *column, *inside;  /* of the first place; whether it is there (NULL: yes) */
    const KExpr *coords[RANK_MAX]; /* of the kept axes */
    ReduceLevel level;
    int64_t step; /* from one place's first element to the next one's, where places share what they read; else
                     0 */
    PartialVars *acc;
} Places;

static const KExpr *places_int(const Places *p, int64_t value) {
    return k_int(p->b, p->index, value);
}

/* Tap `tap` of the turn `turn`, for place `place`. */
static Run places_run(const Places *p, const KExpr *turn, const KExpr *tap, const KExpr *place) {
    Builder *b = p->b;
    const Region *region = p->region;
    int split = region->n_reduced, last = region->rank - 1;
    Run run = {
        .rank = region->rank, .axis = last, .width = p->schedule->vector, .split = split, .guard = p->inside};
    tap = k_convert(b, tap, p->index);
    place = k_convert(b, place, p->index);
    lower_delinearize(b, turn, split - 1, region->dims, run.coords);
    run.coords[split - 1] = tap;
    for (int i = split; i <= last; i++)
        run.coords[i] = p->coords[i];
    run.coords[places_axis(region)] = k_add(b, p->coords[places_axis(region)], place);
    run.outer = k_add(b, k_mul(b, turn, places_int(p, p->schedule->unroll)), tap);
    const Dim *step = region_extent(b->kernel->graph, region, places_axis(region) + 1, region->rank);
    run.inner = k_add(b, p->column, k_mul(b, place, k_dim(b, step, p->index)));
    return run;
}

/* The loops over taps and places, and the number of what the pass in them reads. */
static const KExpr *places_slots_begin(const Places *p, const KExpr **tap, const KExpr **place) {
    Builder *b = p->b;
    int n = p->schedule->places;
    *tap = k_for_begin(b, "tap", k_i32(b, 0), k_i32(b, p->schedule->unroll), 1, UNROLL_FULL);
    *place = k_for_begin(b, "place", k_i32(b, 0), k_i32(b, n), 1, UNROLL_FULL);
    if (p->step)
        return k_add(b, k_mul(b, *place, k_i32(b, (int)p->step)), *tap);
    return k_add(b, k_mul(b, *tap, k_i32(b, n)), *place);
}

static void places_slots_end(const Places *p) {
    k_end(p->b);
    k_end(p->b);
}

/* All that the taps of a turn read of all places, in registers; what several places read, once. */
static void places_load(const Places *p, const KExpr *turn, const LowerTarget *targets) {
    Builder *b = p->b;
    int taps = p->schedule->unroll, places = p->schedule->places;
    int shared = (int)p->step * (places - 1) + taps;
    Run run = places_run(p, turn, k_i32(b, 0), k_i32(b, 0));
    lower_batch_begin(p->lower, &run, targets, (int)p->level.n, p->step ? shared : taps * places);
    if (!p->step) {
        const KExpr *tap, *place, *slot = places_slots_begin(p, &tap, &place);
        run = places_run(p, turn, tap, place);
        lower_batch_load(p->lower, &run, slot);
        places_slots_end(p);
        return;
    }
    const KExpr *slot = k_for_begin(b, "slot", k_i32(b, 0), k_i32(b, shared), 1, UNROLL_FULL);
    const KExpr *place = k_min(b, k_div(b, slot, k_i32(b, (int)p->step)), k_i32(b, places - 1));
    run = places_run(p, turn, k_sub(b, slot, k_mul(b, place, k_i32(b, (int)p->step))), place);
    lower_batch_load(p->lower, &run, slot);
    k_end(b);
}

static void places_reduce(Places *p) {
    Builder *b = p->b;
    size_t n = p->level.n;
    int width = p->schedule->vector, places = p->schedule->places;
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, n);
    p->acc = ARENA_ARRAY(b->arena, PartialVars, n);
    for (size_t i = 0; i < n; i++) {
        const Value *reduction = p->level.at[i];
        const char *name = text_format(b->arena, "%s_acc", lower_value_name(p->lower, reduction));
        p->acc[i] = reduce_declare(b, reduction, name, width * places, p->index);
        targets[i] = (LowerTarget){.value = reduction->in[0],
                                   .fold = {.reduction = reduction, .acc = p->acc[i], .by_lane = true}};
    }
    const Dim *turns = region_extent(b->kernel->graph, p->region, 0, p->region->n_reduced - 1);
    const KExpr *turn = k_for_begin(b, "turn", places_int(p, 0), k_dim(b, turns, p->index), 1, UNROLL_NONE);
    const KExpr *tap, *place, *zero = k_i32(b, 0);
    Run run = places_run(p, turn, zero, zero);
    int taps = p->schedule->unroll;
    lower_fixed_begin(p->lower, &run, targets, (int)n, taps, places_axis(p->region));
    tap = k_for_begin(b, "tap", zero, k_i32(b, taps), 1, UNROLL_FULL);
    run = places_run(p, turn, tap, zero);
    lower_batch_load(p->lower, &run, tap);
    k_end(b);
    places_load(p, turn, targets);
    const KExpr *slot = places_slots_begin(p, &tap, &place);
    run = places_run(p, turn, tap, place);
    for (size_t i = 0; i < n; i++) {
        targets[i].fold.number = run.outer;
        targets[i].fold.at = k_mul(b, place, k_i32(b, width));
    }
    lower_set_outer_slot(p->lower, tap);
    lower_batch_run(p->lower, &run, slot, targets, (int)n);
    places_slots_end(p);
    lower_batch_end(p->lower);
    lower_batch_end(p->lower);
    k_end(b);
}

/* The results of the reductions, of all places; then what is computed of them, place by place. */
static void places_store(Places *p) {
    Builder *b = p->b;
    const Region *region = p->region;
    int width = p->schedule->vector, n = (int)region->outputs.n;
    const KVar **results = ARENA_ARRAY(b->arena, const KVar *, p->level.n);
    for (size_t i = 0; i < p->level.n; i++) {
        const Value *reduction = p->level.at[i];
        int all = width * p->schedule->places;
        const KVar *made =
            k_array(b, lower_value_name(p->lower, reduction), ktype_of(reduction->dtype), all, NULL);
        const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, all), 1, UNROLL_FULL);
        k_set_elem(b, made, j, reduce_result(b, reduction, reduce_get(b, p->acc[i], j)));
        k_end(b);
        results[i] = made;
    }
    if (p->inside)
        k_if_begin(b, p->inside);
    const KExpr *place = k_for_begin(b, "place", k_i32(b, 0), k_i32(b, p->schedule->places), 1, UNROLL_FULL);
    for (size_t i = 0; i < p->level.n; i++)
        lower_bind_array(p->lower, p->level.at[i], results[i], k_mul(b, place, k_i32(b, width)));
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n);
    for (int i = 0; i < n; i++) {
        const Value *output = region->outputs.at[i];
        const char *name = text_format(b->arena, "%s_v", lower_value_name(p->lower, output));
        targets[i] = (LowerTarget){.value = output, .stored = true};
        targets[i].dst = k_array(b, name, ktype_of(output->dtype), width, NULL);
    }
    Run run = places_run(p, places_int(p, 0), k_i32(b, 0), place);
    run.guard = NULL;
    lower_run(p->lower, &run, targets, n);
    for (int i = 0; i < n; i++)
        lower_store(p->lower, &run, targets[i].value, targets[i].dst, NULL);
    k_end(b);
    if (p->inside)
        k_end(b);
}

/* Threads side by side have runs of the last axis, then the next places. */
static const Dim *places_find(Places *p) {
    Builder *b = p->b;
    const Region *region = p->region;
    DimTable *table = b->kernel->graph->dims;
    int split = region->n_reduced, axis = places_axis(region), last = region->rank - 1;
    const Dim *dims[RANK_MAX], *count = dim_const(table, 1);
    for (int i = split; i <= last; i++) {
        int64_t own = i == axis ? p->schedule->places : i == last ? p->schedule->vector : 1;
        dims[i] = dim_div(table, region->dims[i], dim_const(table, own));
        count = dim_mul(table, count, dims[i]);
    }
    const KExpr *number =
        k_mul(b, k_convert(b, k_special(b, SPECIAL_CTA_X), p->index), places_int(p, p->schedule->threads));
    number = k_let_expr(b, "number", k_add(b, number, k_convert(b, k_special(b, SPECIAL_TID), p->index)));
    lower_delinearize(b, number, region->rank - split, dims + split, p->coords + split);
    const KExpr *column = NULL;
    for (int i = split; i <= last; i++) {
        int own = i == axis ? p->schedule->places : i == last ? p->schedule->vector : 1;
        const char *name = i == axis ? "place" : i == last ? "col" : "axis";
        p->coords[i] = k_let_expr(b, name, k_mul(b, p->coords[i], places_int(p, own)));
        column = column ? k_add(b, k_mul(b, column, k_dim(b, region->dims[i], p->index)), p->coords[i])
                        : p->coords[i];
    }
    p->column = k_let_expr(b, "column", column);
    if (dim_divisor(table, count) % p->schedule->threads != 0)
        p->inside = k_let_expr(b, "inside", k_lt(b, number, k_dim(b, count, p->index)));
    return dim_ceil_div(table, count, dim_const(table, p->schedule->threads));
}

void columns_build_places(Builder *b, const Region *region) {
    const Schedule *schedule = &region->schedule;
    Kernel *kernel = b->kernel;
    Places p = {.b = b, .region = region, .schedule = schedule, .lower = lower_new(b, region)};
    lower_declare_params(p.lower);
    p.index = lower_index_type(p.lower);
    p.level = lower_find_levels(p.lower).at[0];
    p.step = places_step(region, &p.level);
    kernel->threads = schedule->threads;
    kernel->summary =
        text_format(b->arena, "columns: %d places beside each other a thread, %d elements of %d rows at once",
                    schedule->places, schedule->vector, schedule->unroll);
    kernel->grid[0] = places_find(&p);
    places_reduce(&p);
    places_store(&p);
}
