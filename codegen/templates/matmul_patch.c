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
 * what lies beyond it of a tile is not stored. The weights stay in shared memory, all of them, for the whole
 * launch (wgmma_patch.c). 64 channels to 24 features, 3 x 3, 16 x 224 x 224: 138 us tap by tap, cuDNN 115. */
#include "codegen/templates/matmul_patch.h"

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"
#include "codegen/templates/matmul_tiles.h"
#include "ir/base/checked.h"

enum { PATCH_BOX_MAX = 256 /* elements along an axis of a tensor map's box */, PATCH_TAPS_MAX = 64 };

/* Windows one beside the other along each axis, of known number, whose taps lie in the order of the axes. */
static bool patch_has_windows(const MatmulPlan *plan) {
    const MatmulOperand *operand = &plan->a;
    const Windows *windows = operand->windows;
    int64_t taps = 1;
    if (!matmul_has_windows(operand) || operand->major != MAJOR_K)
        return false;
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        if (axis->step != 1 || !dim_is_const(axis->places) || axis->places->value < 1 ||
            (axis->taps > 1 && axis->taps_inner != taps))
            return false;
        taps *= axis->taps;
    }
    return taps > 1 && taps <= PATCH_TAPS_MAX;
}

/* Whether all else of the region is by elements of the result, in whichever order its rows come. */
static bool patch_has_free_rows(const MatmulPlan *plan, const Schedule *schedule) {
    return plan->batch_rank == 0 && plan->n_cores == 1 && !plan->before && !plan->guest &&
           !plan->region->guest && !plan->columns.n && !plan->statistics.n && !plan->operand_rows.n &&
           !plan->region->windows.n && !matmul_has_scale(plan) && !matmul_partial_cols(plan, schedule);
}

bool matmul_patch(const MatmulPlan *plan, const Schedule *schedule, MatmulPatch *patch, const char **why) {
    *why = "patches are of windows one beside the other, of 2 to 64 taps";
    if (!patch_has_windows(plan))
        return false;
    *why = "patches are of one product, nothing of which is by rows that follow each other";
    if (schedule->swap_ab || !patch_has_free_rows(plan, schedule))
        return false;
    const Windows *windows = plan->a.windows;
    *patch = (MatmulPatch){.axes = windows->n, .taps = 1};
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        int all = schedule->tile_m, each = windows->n == 1 ? all
                                           : i == 0        ? PATCH_GROUP
                                           : i == 1        ? all / PATCH_GROUP
                                                           : 1;
        int64_t step = axis->tap_step < 0 ? -axis->tap_step : axis->tap_step;
        int64_t box = each + (axis->taps - 1) * step;
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
    return dim_div(dims, matmul_k_steps(plan, schedule), dim_const(dims, patch.taps));
}

int matmul_patch_elements(const MatmulPatch *patch) {
    int elements = 1;
    for (int i = 0; i < patch->axes; i++)
        elements *= patch->box[i];
    return elements;
}

int matmul_patch_tap(const MatmulPlan *plan, const MatmulPatch *patch, int tap) {
    int at = 0, pitch = 1;
    for (int i = 0; i < patch->axes; i++) {
        const WindowsAxis *axis = &plan->a.windows->axis[i];
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
    return round_up((int64_t)matmul_patch_elements(&patch) * schedule->tile_k, period);
}

/* Patches along an axis. */
static int64_t patch_along(const MatmulPlan *plan, const MatmulPatch *patch, int axis) {
    return ceil_div(plan->a.windows->axis[axis].places->value, patch->places[axis]);
}

const Dim *matmul_patch_count(const MatmulPlan *plan, const MatmulPatch *patch) {
    DimTable *dims = plan->graph->dims;
    int64_t places = 1, patches = 1;
    for (int i = 0; i < patch->axes; i++) {
        places *= plan->a.windows->axis[i].places->value;
        patches *= patch_along(plan, patch, i);
    }
    return dim_mul(dims, dim_div(dims, plan->m, dim_const(dims, places)), dim_const(dims, patches));
}

const KExpr *matmul_patch_row(Builder *b, const MatmulPlan *plan, const MatmulPatch *patch,
                              const KExpr *number) {
    const KExpr *row = k_i32(b, 0);
    int64_t rows = 1;
    for (int i = 0; i < patch->axes; i++) {
        const KExpr *along = k_i32(b, patch_along(plan, patch, i));
        row = k_add(b, row, k_mul(b, k_mod(b, number, along), k_i32(b, rows * patch->places[i])));
        number = k_div(b, number, along);
        rows *= plan->a.windows->axis[i].places->value;
    }
    return k_add(b, row, k_mul(b, number, k_i32(b, rows)));
}

void matmul_patch_dims(const MatmulPlan *plan, const MatmulPatch *patch, const Dim *pitch, int rows,
                       KTensorMap *map) {
    DimTable *dims = plan->graph->dims;
    int sides = matmul_patch_sides(patch);
    const Dim *each = dim_const(dims, 1);
    map->rank = 1;
    for (int i = 0; i <= sides; i++) {
        const Dim *places = i < sides ? plan->a.windows->axis[i].places : dim_div(dims, plan->m, each);
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

MatmulPlace matmul_patch_place(Builder *b, const MatmulPlan *plan, const MatmulPatch *patch, const KExpr *row,
                               const KExpr *group, const KExpr *lane) {
    MatmulPlace place = {.patch = patch};
    for (int i = 0; i < matmul_patch_sides(patch); i++) {
        const KExpr *places = k_i32(b, plan->a.windows->axis[i].places->value);
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

const KExpr *matmul_patch_inside(Builder *b, const MatmulPlan *plan, const MatmulPlace *place) {
    const KExpr *inside = NULL;
    for (int i = 0; i < matmul_patch_sides(place->patch); i++) {
        int64_t places = plan->a.windows->axis[i].places->value;
        if (places % place->patch->places[i] != 0)
            inside = k_and(b, inside, k_lt(b, place->at[i], k_i32(b, places)));
    }
    return inside;
}
