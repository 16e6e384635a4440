/* Tiles of a convolution whose rows are a patch of the image, so that one box of it has all taps of all of
 * them (Schedule.patches). A tile of rows that follow each other in the result has its windows from TMA tap
 * by tap, nine times for 3 x 3, and L2 sets the pace where features are few.
 *
 *     places of a tile        the box that their windows span, and what tap (1, 2) reads of it
 *
 *      8 beside each other     8 + taps - 1 elements, each a row of channels in shared memory
 *     +--------+              +----------+
 *     |ooooooo.| group 0      |..........|       wgmma takes rows in groups of 8 that lie in one piece: tap
 *     |ooooooo.| group 1      |..xxxxxxxx|       (r, s) of group g begins at row (g + r) * width + s of the
 *     |ooooooo.| ...          |..xxxxxxxx|       box, and groups are a width apart, whatever the tap. The
 *     +--------+              |..xxxxxxxx|       swizzle goes by addresses, not by where a group begins, so
 *                             +----------+       that any row may be the first (H200: all widths and taps)
 *
 * Along one axis alone, groups follow each other. What lies outside of the image TMA fills with zeros, and
 * what lies beyond it of a tile is not stored. The weights stay in shared memory for the whole launch, or
 * come with each box where they are too many (wgmma_patch.c). H200, 3 x 3 of 16 x 224 x 224 x 64 to 24
 * features: 58 us, tap by tap 138; 5 x 5 of 8 x 128 x 128 x 320 to 48: 203 and 340.
 *
 * Of the gradient of weights the places are K: a step has 64 of them, and each block of 64 rows of the tile
 * (of the transposed product) is a tap of 64 channels, or two of 32, or four of 16, at the same distance in
 * the box as taps are beside each other:
 *
 *     rows of a tile   | tap (0, 0) | tap (0, 1) | tap (0, 2) |  of another line of taps: another warpgroup,
 *     each reads       box at row 0, at row 1,    at row 2       or another tile, whose box begins there
 *
 * 64 x 64 features, 3 x 3, of 64 x 56 x 56: 43 us, 59 where each tap of each place came by itself. */
#include "codegen/templates/matmul_patch.h"

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"
#include "codegen/templates/matmul_tiles.h"
#include "ir/base/checked.h"

enum { PATCH_BOX_MAX = 256 /* elements along an axis of a tensor map's box */, PATCH_TAPS_MAX = 64 };

/* Windows one beside the other along each axis, of known number, whose taps lie in the order of the axes. */
static bool patch_has_windows(const MatmulOperand *operand, OperandMajor major) {
    const Windows *windows = operand->windows;
    int64_t taps = 1;
    if (!matmul_has_windows(operand) || operand->major != major)
        return false;
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        if (axis->step != 1 || !dim_is_const(axis->places) || axis->places->value < 1 ||
            (axis->taps > 1 && axis->taps_inner != taps) || (major == MAJOR_MN && axis->tap_step < 0))
            return false;
        taps *= axis->taps;
    }
    return taps > 1 && taps <= PATCH_TAPS_MAX;
}

/* Whether all else of the region is by elements of the result, in whichever order its rows come. */
static bool patch_has_free_rows(const MatmulPlan *plan, const Schedule *schedule) {
    return plan->n_cores == 1 && !plan->before && !plan->guest && !plan->region->guest && !plan->columns.n &&
           !plan->statistics.n && !plan->operand_rows.n && !plan->region->windows.n &&
           !matmul_has_scale(plan) && !matmul_partial_cols(plan, schedule);
}

/* Whether it is the gradient of weights: features and channels lie beside each other at each place. */
static bool patch_is_of_weights(const MatmulPlan *plan) {
    enum { MOST_BATCH = 1 /* axes of a map beside columns, two of places and what is beyond them */ };
    const MatmulOperand *features = &plan->a;
    const char *why;
    return patch_has_windows(&plan->b[0], MAJOR_MN) && plan->kind == MATMUL_16BIT &&
           dim_is_const(plan->b[0].windows->channels) && features->major == MAJOR_MN && !features->chosen &&
           !features->windows && features->n_batch <= MOST_BATCH &&
           matmul_is_tma(plan->graph, features, &why);
}

/* Channels of a row of the box, as swizzles have them. */
static int patch_channels(const Windows *windows) {
    enum { WIDE = 64, HALF = 32, QUARTER = 16 };
    int64_t channels = windows->channels->value;
    return channels <= QUARTER ? QUARTER : channels <= HALF ? HALF : WIDE;
}

int matmul_patch_across(const MatmulPlan *plan) {
    if (!patch_is_of_weights(plan))
        return 0;
    const Windows *windows = plan->b[0].windows;
    return (int)ceil_div(windows->axis[0].taps, WGMMA_M / patch_channels(windows));
}

/* How taps and channels are a tile's rows; false where they are not whole lines of taps. */
static bool patch_find_lines(const Schedule *schedule, MatmulPatch *patch) {
    const WindowsAxis *first = &patch->windows->axis[0];
    int blocks = schedule->tile_m / schedule->warps_m / WGMMA_M;
    patch->channels = patch_channels(patch->windows);
    patch->beside = WGMMA_M / patch->channels;
    patch->across = (int)ceil_div(first->taps, patch->beside);
    patch->own = blocks / patch->across;
    patch->lines = patch->own * schedule->warps_m;
    if (patch->axes > 1)
        return patch->own > 0 && blocks % patch->across == 0;
    patch->across = blocks * schedule->warps_m; /* the one line, in parts */
    patch->own = patch->lines = 1;
    return patch->across * patch->beside >= first->taps;
}

bool matmul_patch(const MatmulPlan *plan, const Schedule *schedule, MatmulPatch *patch, const char **why) {
    bool is_along_k = schedule->swap_ab;
    *why = "patches are of wgmma's tiles, of 64 rows or more and 8 elements of K or more";
    if (schedule->path != MATMUL_WGMMA || schedule->warps_m < 1 || schedule->tile_m < WGMMA_M ||
        schedule->tile_m % WGMMA_M != 0 || schedule->tile_k < PATCH_GROUP)
        return false;
    *why = "patches are of windows one beside the other, of 2 to 64 taps";
    if (is_along_k ? !patch_is_of_weights(plan)
                   : !patch_has_windows(&plan->a, MAJOR_K) || plan->batch_rank > 0)
        return false;
    *why = "patches are of one product, nothing of which is by rows that follow each other";
    if (!patch_has_free_rows(plan, schedule))
        return false;
    const Windows *windows = is_along_k ? plan->b[0].windows : plan->a.windows;
    *patch = (MatmulPatch){.windows = windows,
                           .is_along_k = is_along_k,
                           .extent = is_along_k ? plan->k : plan->m,
                           .axes = windows->n,
                           .taps = 1};
    *why = "a tile has whole lines of the taps of weights";
    if (is_along_k && !patch_find_lines(schedule, patch))
        return false;
    int all = is_along_k ? schedule->tile_k : schedule->tile_m;
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        int each = windows->n == 1 ? all : i == 0 ? PATCH_GROUP : i == 1 ? all / PATCH_GROUP : 1;
        int64_t step = axis->tap_step < 0 ? -axis->tap_step : axis->tap_step, taps = axis->taps;
        if (is_along_k)
            taps = i == 0 ? patch->across * patch->beside : i == 1 ? patch->lines : 1;
        int64_t box = each + (taps - 1) * step;
        *why = "the box of a patch has 256 elements along an axis at most";
        if (box > PATCH_BOX_MAX)
            return false;
        patch->places[i] = each;
        patch->box[i] = (int)box;
        patch->taps *= (int)axis->taps;
    }
    patch->apart = windows->n == 1 ? PATCH_GROUP : patch->box[0];
    patch->rows_apart = windows->n == 1 ? PATCH_GROUP : windows->axis[0].places->value;
    *why = "the rows of the result are too many for those of a patch to be counted";
    return patch->rows_apart <= INT32_MAX / schedule->tile_m;
}

MatmulPatch matmul_patch_of(const MatmulPlan *plan, const Schedule *schedule) {
    MatmulPatch patch = {0};
    const char *why;
    if (schedule->patches && !matmul_patch(plan, schedule, &patch, &why))
        patch = (MatmulPatch){0};
    return patch;
}

const Dim *matmul_patch_steps(const MatmulPlan *plan, const Schedule *schedule) {
    DimTable *dims = plan->graph->dims;
    MatmulPatch patch = matmul_patch_of(plan, schedule);
    if (patch.is_along_k)
        return matmul_patch_count(dims, &patch);
    return dim_div(dims, matmul_k_steps(plan, schedule), dim_const(dims, patch.taps));
}

int matmul_patch_elements(const MatmulPatch *patch) {
    int elements = 1;
    for (int i = 0; i < patch->axes; i++)
        elements *= patch->box[i];
    return elements;
}

int matmul_patch_tap(const MatmulPatch *patch, int tap) {
    int at = 0, pitch = 1;
    for (int i = 0; i < patch->axes; i++) {
        const WindowsAxis *axis = &patch->windows->axis[i];
        int number = tap % (int)axis->taps, step = (int)axis->tap_step;
        at += pitch * (step < 0 ? ((int)axis->taps - 1 - number) * -step : number * step);
        tap /= (int)axis->taps;
        pitch *= patch->box[i];
    }
    return at;
}

int64_t matmul_patch_pitch(const MatmulPlan *plan, const Schedule *schedule) {
    MatmulPatch patch = matmul_patch_of(plan, schedule);
    int64_t period = (int64_t)swizzle_period(SWIZZLE_128) * 8 / dtype_bits(plan->a.elem);
    int channels = patch.is_along_k ? patch.channels : schedule->tile_k;
    return round_up((int64_t)matmul_patch_elements(&patch) * channels, period);
}

/* Patches along an axis. */
static int64_t patch_along(const MatmulPatch *patch, int axis) {
    return ceil_div(patch->windows->axis[axis].places->value, patch->places[axis]);
}

const Dim *matmul_patch_count(DimTable *dims, const MatmulPatch *patch) {
    int64_t places = 1, patches = 1;
    for (int i = 0; i < patch->axes; i++) {
        places *= patch->windows->axis[i].places->value;
        patches *= patch_along(patch, i);
    }
    return dim_mul(dims, dim_div(dims, patch->extent, dim_const(dims, places)), dim_const(dims, patches));
}

const KExpr *matmul_patch_row(Builder *b, const MatmulPatch *patch, const KExpr *number) {
    const KExpr *row = k_i32(b, 0);
    int64_t rows = 1;
    for (int i = 0; i < patch->axes; i++) {
        const KExpr *along = k_i32(b, patch_along(patch, i));
        row = k_add(b, row, k_mul(b, k_mod(b, number, along), k_i32(b, rows * patch->places[i])));
        number = k_div(b, number, along);
        rows *= patch->windows->axis[i].places->value;
    }
    return k_add(b, row, k_mul(b, number, k_i32(b, rows)));
}

void matmul_patch_dims(DimTable *dims, const MatmulPatch *patch, const Dim *pitch, int rows,
                       KTensorMap *map) {
    int sides = matmul_patch_sides(patch);
    const Dim *each = dim_const(dims, 1);
    map->rank = 1;
    for (int i = 0; i <= sides; i++) {
        const Dim *places = i < sides ? patch->windows->axis[i].places : dim_div(dims, patch->extent, each);
        bool is_line = i == 0 && sides == PATCH_AXES;
        map->dims[map->rank] = places;
        map->strides[map->rank] = dim_mul(dims, pitch, each);
        map->box[map->rank++] = is_line               ? PATCH_GROUP
                                : i == sides          ? 1
                                : sides == PATCH_AXES ? rows / PATCH_GROUP
                                                      : rows;
        each = dim_mul(dims, each, places);
    }
}

int matmul_patch_coords(const MatmulPlace *place, KOperand *coords) {
    int n = 0;
    for (; n < matmul_patch_sides(place->patch); n++)
        coords[n] = k_operand(place->at[n]);
    coords[n++] = k_operand(place->beyond);
    return n;
}

MatmulPlace matmul_patch_place(Builder *b, const MatmulPatch *patch, const KExpr *row, const KExpr *group,
                               const KExpr *lane) {
    MatmulPlace place = {.patch = patch};
    for (int i = 0; i < matmul_patch_sides(patch); i++) {
        const KExpr *places = k_i32(b, patch->windows->axis[i].places->value);
        place.at[i] = k_let_expr(b, "place", k_mod(b, row, places));
        row = k_div(b, row, places);
    }
    place.beyond = row;
    place.at[0] = k_add(b, place.at[0], lane);
    return matmul_patch_behind(b, &place, group);
}

MatmulPlace matmul_patch_behind(Builder *b, const MatmulPlace *place, const KExpr *groups) {
    MatmulPlace behind = *place;
    if (place->patch->axes == 1)
        behind.at[0] = k_add(b, place->at[0], k_mul(b, groups, k_i32(b, PATCH_GROUP)));
    else
        behind.at[1] = k_add(b, place->at[1], groups);
    return behind;
}

const KExpr *matmul_patch_inside(Builder *b, const MatmulPlace *place) {
    const KExpr *inside = NULL;
    for (int i = 0; i < matmul_patch_sides(place->patch); i++) {
        int64_t places = place->patch->windows->axis[i].places->value;
        if (places % place->patch->places[i] != 0)
            inside = k_and(b, inside, k_lt(b, place->at[i], k_i32(b, places)));
    }
    return inside;
}

/* ---- along K */

static int64_t patch_step(const MatmulPatch *patch, int axis) {
    return patch->windows->axis[axis].tap_step;
}

int matmul_patch_block(const MatmulPatch *patch, int block) {
    int along = block % patch->across * patch->beside * (int)patch_step(patch, 0);
    if (patch->axes == 1)
        return along;
    return along + block / patch->across * (int)patch_step(patch, 1) * patch->box[0];
}

int matmul_patch_warpgroup(const MatmulPatch *patch, int blocks) {
    return patch->axes == 1 ? matmul_patch_block(patch, blocks)
                            : patch->own * (int)patch_step(patch, 1) * patch->box[0];
}

/* Tiles along the second axis of taps, and along the third. */
static int64_t patch_line_tiles(const MatmulPatch *patch) {
    return patch->axes > 1 ? ceil_div(patch->windows->axis[1].taps, patch->lines) : 1;
}

static int64_t patch_channel_tiles(const MatmulPatch *patch) {
    return ceil_div(patch->windows->channels->value, patch->channels);
}

int64_t matmul_patch_tiles(const MatmulPatch *patch) {
    int64_t others = patch->axes > 2 ? patch->windows->axis[2].taps : 1;
    return patch_channel_tiles(patch) * patch_line_tiles(patch) * others;
}

const KExpr *matmul_patch_first(Builder *b, const MatmulPatch *patch, const KExpr *number) {
    int64_t line = patch->windows->axis[0].taps * patch->windows->channels->value,
            lines = patch->axes > 1 ? patch->windows->axis[1].taps : 1;
    const KExpr *channels = k_i32(b, patch_channel_tiles(patch)), *tiles = k_i32(b, patch_line_tiles(patch));
    const KExpr *row = k_mul(b, k_mod(b, number, channels), k_i32(b, patch->channels));
    number = k_div(b, number, channels);
    row = k_add(b, row, k_mul(b, k_mod(b, number, tiles), k_i32(b, patch->lines * line)));
    return k_add(b, row, k_mul(b, k_div(b, number, tiles), k_i32(b, lines * line)));
}

const KExpr *matmul_patch_rows_to(Builder *b, const MatmulPatch *patch, const KExpr *block) {
    int64_t channels = patch->windows->channels->value, line = patch->windows->axis[0].taps * channels;
    const KExpr *across = k_i32(b, patch->across);
    const KExpr *along = k_mul(b, k_mod(b, block, across), k_i32(b, patch->beside * channels));
    return k_add(b, k_mul(b, k_div(b, block, across), k_i32(b, line)), along);
}

const KExpr *matmul_patch_has_row(Builder *b, const MatmulTapRows *rows, const KExpr *block,
                                  const KExpr *half) {
    const MatmulPatch *patch = rows->patch;
    const Windows *windows = patch->windows;
    const KExpr *across = k_i32(b, patch->across), *inside = NULL;
    if (patch->across * patch->beside != windows->axis[0].taps) {
        const KExpr *tap = k_mul(b, k_mod(b, block, across), k_i32(b, patch->beside));
        inside = k_lt(b, k_add(b, rows->tap, tap), k_i32(b, windows->axis[0].taps));
    }
    if (patch->axes > 1 && windows->axis[1].taps % patch->lines != 0) {
        const KExpr *line = k_add(b, rows->line, k_div(b, block, across));
        inside = k_and(b, inside, k_lt(b, line, k_i32(b, windows->axis[1].taps)));
    }
    if (windows->channels->value % patch->channels != 0) {
        const KExpr *channel = k_add(b, rows->channel, k_mul(b, half, k_i32(b, PATCH_GROUP)));
        inside = k_and(b, inside, k_lt(b, channel, k_i32(b, windows->channels->value)));
    }
    return inside;
}
