/* What patches of the image (matmul_patch.c) change in the estimate of tiles by wgmma. */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_tiles.h"

/* Bytes a clock of an SM for weights that stay, as all SMs ask for the same. Not fitted. */
static const double cost_resident_per_clock = 50;
/* How much longer tiles that are patches take than the parts that they are made of, whose weights stay, or
 * come with each box; where their ring has two boxes, of 128 rows or of others, since what is loaded waits
 * for what is multiplied; where it has three; and where one warpgroup multiplies, besides, if weights come.
 * Fitted to 1000 schedules of 130 convolutions (H200), from 16 to 2048 channels and 16 to 2048 features. */
static const double cost_patch = 0.92, cost_patch_weights = 0.97;
static const double cost_two_boxes = 1.5, cost_two_boxes_apart = 1.26, cost_three_boxes = 1.14;
static const double cost_patch_alone = 1.12;
/* The same where a step's places are patches: of 40 schedules of gradients of weights. */
static const double cost_patch_along_k = 0.86;

/* Patches of the places of all images, so many of which are rows or K. */
double cost_patches(const MatmulPatch *patch, double extent) {
    double places = 1, patches = 1;
    for (int i = 0; i < patch->axes; i++) {
        double along = (double)patch->windows->axis[i].places->value;
        places *= along;
        patches *= ceil(along / patch->places[i]);
    }
    return extent / places * patches;
}

/* Steps of K that one box serves. */
double cost_taps(const MatmulPlan *plan, const Schedule *s) {
    return s->patches && !s->swap_ab ? matmul_patch_of(plan, s).taps : 1;
}

/* Of the rows that a tile has at each tap, those that its box brings; of weights that stay, none come. */
double cost_box(const MatmulPlan *plan, const Schedule *s, bool is_rows) {
    if (!s->patches)
        return 1;
    MatmulPatch patch = matmul_patch_of(plan, s);
    if (!is_rows)
        return matmul_patch_stays(plan, s) ? 0 : 1;
    double elements = matmul_patch_elements(&patch);
    if (!patch.is_along_k)
        return elements / (s->tile_m * patch.taps);
    double rows = cost_short_rows(patch.channels * dtype_bits(plan->b[0].elem) / 8);
    return rows * elements * patch.channels / ((double)s->tile_m * s->tile_k);
}

/* Seconds until weights that stay have come, once for all tiles. */
double cost_resident(const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    double bytes = (double)s->tile_n * s->tile_k * matmul_stage_bits(plan, s, false) / 8 * w->steps;
    return s->patches && matmul_patch_stays(plan, s)
               ? cost_load + bytes * w->crowd / cost_resident_per_clock / cost_clock
               : 0;
}

double cost_in_patches(const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    if (!s->patches)
        return 1;
    if (s->swap_ab)
        return cost_patch_along_k;
    bool is_apart = s->tile_m != 128 || w->crowd > 1;
    double two = is_apart ? cost_two_boxes_apart : cost_two_boxes;
    if (matmul_patch_stays(plan, s))
        return cost_patch * (s->stages > 2 ? 1 : two);
    double ring = s->stages > 3 ? 1 : s->stages == 3 ? cost_three_boxes : two;
    return cost_patch_weights * ring * (s->warps_m == 1 ? cost_patch_alone : 1);
}
