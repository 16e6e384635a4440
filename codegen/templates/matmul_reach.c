/* The gradient of a convolution's data, of strides, is one product: its columns are the channels at each
 * phase of the stride, its K the features at each place that a phase's windows may reach, and the weights are
 * windows of themselves that lie outside of their tensor where a phase lacks a place. 3 x 3 taps with a
 * stride of 2, the border 1:
 *
 *     columns     | even, even | even, odd | odd, even | odd, odd |      channels of each
 *     places of K |  1 of 4    |  2 of 4   |  2 of 4   |  4 of 4  |      features at each
 *
 * A tile whose columns are of one phase takes the steps of its own places alone, 9 of 16 in all. */
#include "codegen/templates/matmul_reach.h"

#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"
#include "codegen/templates/matmul_tiles.h"

/* Whether all that the kernel does with a tile's steps takes as many of them as there are. */
static bool reach_may_differ(const MatmulPlan *plan, const Schedule *s) {
    const char *why;
    return s->path == MATMUL_WGMMA && !s->swap_ab && !s->patches && !s->stream_k && !s->ping_pong &&
           !s->fragments && s->split_k <= 1 && s->cluster_m <= 1 && s->cluster_n <= 1 && plan->n_cores == 1 &&
           plan->batch_rank == 0 && !plan->before && !plan->guest && !plan->region->guest &&
           !plan->statistics.n && !matmul_has_scale(plan) && !matmul_partial_cols(plan, s) &&
           !matmul_converters(plan, s) && matmul_is_brought_by_tma(plan->graph, &plan->a, &why);
}

/* Steps of K at each place; 0 where steps are not of one place each. The features that they have lie along
 * the first axis of the windows, or from image to image where there is but one place. */
static int64_t reach_steps_each(const MatmulPlan *plan, const Schedule *s, const Windows *windows) {
    int64_t places = 1, features = 0;
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        if (!dim_is_const(axis->places) || axis->places->value < 1 || axis->step < 1 ||
            !dim_is_const(windows->seen->dims[axis->base_axis]))
            return 0;
        places *= axis->places->value;
    }
    if (!dim_is_const(windows->channels) || !dim_is_const(plan->k) || plan->k->value < 1)
        return 0;
    if (windows->images_axis >= 0)
        features = places == 1 ? plan->k->value : 0;
    else if (windows_have_lines(windows) && plan->k->value == places)
        features = windows->axis[0].places->value;
    int64_t filled = matmul_filled_unit(plan, s);
    if (filled)
        return plan->k_unit->value == features ? filled / s->tile_k : 0;
    return features % s->tile_k == 0 ? features / s->tile_k : 0;
}

/* The places of windows that have one of the axis's taps within the tensor. */
static void reach_tap(const Windows *windows, const WindowsAxis *axis, int tap, int *low, int *count) {
    int64_t number = axis->tap_step < 0 ? axis->taps - 1 - tap : tap;
    int64_t first = axis->low + number * (axis->tap_step < 0 ? -axis->tap_step : axis->tap_step);
    int64_t extent = windows->seen->dims[axis->base_axis]->value;
    *low = *count = 0;
    for (int64_t place = axis->places->value - 1; place >= 0; place--) {
        int64_t at = first + place * axis->step;
        if (at >= 0 && at < extent) {
            *low = (int)place;
            ++*count;
        }
    }
}

/* One axis, for tiles of so many columns; whether any of them lacks places. */
static bool reach_axis(const Windows *windows, const WindowsAxis *axis, int tile_n, MatmulReachAxis *out) {
    int64_t inner = windows->channels->value * axis->taps_inner;
    bool lacks = false;
    *out = (MatmulReachAxis){.places = (int)axis->places->value, .taps = 1, .inner = 1};
    out->count[0] = out->places;
    if (axis->taps > REACH_TAPS_MAX || inner % tile_n != 0)
        return false; /* a tile has columns of several taps */
    out->inner = (int)inner;
    out->taps = (int)axis->taps;
    for (int tap = 0; tap < out->taps; tap++) {
        reach_tap(windows, axis, tap, &out->low[tap], &out->count[tap]);
        lacks |= out->count[tap] < out->places;
    }
    return lacks;
}

MatmulReach matmul_reach(const MatmulPlan *plan, const Schedule *schedule) {
    enum { PLACES_MOST = 64 };
    const Windows *windows = plan->b[0].windows;
    MatmulReach reach = {0};
    if (!matmul_has_windows(&plan->b[0]) || plan->b[0].major != MAJOR_MN || !dim_is_const(plan->n) ||
        !reach_may_differ(plan, schedule))
        return reach;
    reach.steps_each = (int)reach_steps_each(plan, schedule, windows);
    bool lacks = false;
    for (int i = windows->images_axis < 0; i < windows->n && reach.steps_each; i++) {
        if (windows->axis[i].places->value > PLACES_MOST)
            return (MatmulReach){0};
        lacks |= reach_axis(windows, &windows->axis[i], schedule->tile_n, &reach.axis[reach.axes++]);
    }
    if (!lacks)
        return (MatmulReach){0};
    int64_t last = plan->n->value - schedule->tile_n;
    reach.descends = matmul_reach_steps(&reach, last) > matmul_reach_steps(&reach, 0);
    return reach;
}

int64_t matmul_reach_steps(const MatmulReach *reach, int64_t col) {
    int64_t steps = reach->steps_each;
    for (int i = 0; i < reach->axes; i++) {
        const MatmulReachAxis *axis = &reach->axis[i];
        steps *= axis->count[col / axis->inner % axis->taps];
    }
    return steps > 1 ? steps : 1;
}

/* The number of a table that is the tap's. */
static const KExpr *reach_of_tap(Builder *b, const MatmulReachAxis *axis, const int *table,
                                 const KExpr *tap) {
    const KExpr *found = k_i32(b, table[0]);
    for (int i = 1; i < axis->taps; i++)
        if (table[i] != table[0])
            found = k_select(b, k_eq(b, tap, k_i32(b, i)), k_i32(b, table[i]), found);
    return found;
}

MatmulReached matmul_reached(Builder *b, const MatmulReach *reach, const KExpr *col) {
    MatmulReached reached = {.steps = k_i32(b, reach->steps_each)};
    for (int i = 0; i < reach->axes; i++) {
        const MatmulReachAxis *axis = &reach->axis[i];
        const KExpr *tap = k_mod(b, k_div(b, col, k_i32(b, axis->inner)), k_i32(b, axis->taps));
        const KExpr *count = reach_of_tap(b, axis, axis->count, tap);
        reached.steps = k_mul(b, reached.steps, count);
        reached.low[i] = reach_of_tap(b, axis, axis->low, tap);
        reached.count[i] = k_max(b, count, k_i32(b, 1));
    }
    /* one step of zeros where there is none: what the epilogue takes is set by the first */
    reached.steps = k_let_expr(b, "steps", k_max(b, reached.steps, k_i32(b, 1)));
    return reached;
}

const KExpr *matmul_reached_step(Builder *b, const MatmulReach *reach, const MatmulReached *reached,
                                 const KExpr *step) {
    const KExpr *each = k_i32(b, reach->steps_each), *all = k_mod(b, step, each);
    const KExpr *place = k_div(b, step, each);
    int64_t pitch = reach->steps_each;
    for (int i = 0; i < reach->axes; i++) {
        bool is_last = i == reach->axes - 1;
        const KExpr *at = is_last ? place : k_mod(b, place, reached->count[i]);
        all = k_add(b, all, k_mul(b, k_add(b, at, reached->low[i]), k_i32(b, pitch)));
        place = is_last ? place : k_div(b, place, reached->count[i]);
        pitch *= reach->axis[i].places;
    }
    return all;
}

const KExpr *matmul_reach_rounds(Builder *b, const KExpr *block, const KExpr *blocks, const KExpr *tiles) {
    const KExpr *whole = k_div(b, tiles, blocks), *rest = k_mod(b, tiles, blocks);
    const KExpr *turned = k_sub(b, k_sub(b, blocks, k_i32(b, 1)), block);
    const KExpr *in_last = k_select(b, k_eq(b, k_mod(b, whole, k_i32(b, 2)), k_i32(b, 1)), turned, block);
    return k_let_expr(b, "rounds", k_add(b, whole, k_convert(b, k_lt(b, in_last, rest), K_I32)));
}

const KExpr *matmul_reach_tile(Builder *b, const KExpr *block, const KExpr *blocks, const KExpr *round) {
    const KExpr *turned = k_sub(b, k_sub(b, blocks, k_i32(b, 1)), block);
    const KExpr *is_turned = k_eq(b, k_mod(b, round, k_i32(b, 2)), k_i32(b, 1));
    return k_let_expr(b, "tile", k_add(b, k_mul(b, round, blocks), k_select(b, is_turned, turned, block)));
}
