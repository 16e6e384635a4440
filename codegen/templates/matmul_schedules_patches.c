/* Schedules of convolutions by patches of the image, and of the gradients of their weights. */
#include <math.h>

#include "codegen/schedule.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_schedules.h"
#include "codegen/templates/matmul_tiles.h"
#include "ir/base/checked.h"

enum { PATCH_STAGES = 6 };

/* Whether each box brings weights of so few channels that their rows, or boxes, take TMA longer than their
 * products take, and there are more of both: 3 x 3, 256 to 320 channels, 16 at a time and by 160 features 372
 * us, tap by tap 205; but 3 x 3 x 3, 256 to 40, of which all features have one tile, 258 and 594. */
static bool schedules_brings_few(const MatmulPlan *plan, const Schedule *s) {
    enum { HALF_LINE = 64 };
    return s->tile_k * dtype_bits(plan->b[0].elem) / 8 < HALF_LINE &&
           dim_upper(plan->graph->dims, plan->n) > s->tile_n &&
           dim_upper(plan->graph->dims, plan->a.windows->channels) > s->tile_k &&
           !matmul_patch_stays(plan, s);
}

/* Tiles whose rows are a patch of a convolution's places. */
static void schedules_rows(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    static const struct {
        int tile_m, warps_m, blocks;
        bool ping_pong;
    } tiles[] = {{128, 2, 1, false}, {128, 2, 1, true}, {256, 2, 1, false}, {192, 3, 1, false},
                 {64, 1, 1, false},  {64, 1, 2, false}, {64, 1, 3, false},  {128, 2, 2, false}};
    s.patches = true;
    if (schedules_brings_few(c->plan, &s))
        return;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        s.tile_m = tiles[i].tile_m;
        s.warps_m = tiles[i].warps_m;
        s.threads = 128 * (1 + s.warps_m);
        s.ping_pong = tiles[i].ping_pong;
        schedule_deal_registers(&s, false);
        if (tiles[i].blocks > 1)
            s.producer_registers = s.consumer_registers = 0;
        schedules_add_deepest(c, accepts, found, s, PATCH_STAGES, tiles[i].blocks);
    }
}

/* The next number of columns, of a product that has `columns`: some of them, in the end all, or as many as
 * there may be. False behind those. */
static bool schedules_next_columns(Schedule *s, int64_t columns) {
    enum { STEP = 32 };
    int64_t all = round_up(columns, 16), most = all < WGMMA_N_MAX ? all : WGMMA_N_MAX;
    if (s->tile_n >= most)
        return false;
    s->tile_n = (int)(s->tile_n + STEP < most ? s->tile_n + STEP : most);
    return true;
}

/* By all features, or some of them. */
static void schedules_columns(const Cost *c, SchedulesAccept *accepts, Candidates *found, int tile_k) {
    Schedule s = {
        .path = MATMUL_WGMMA, .tile_k = tile_k, .warps_n = 1, .persistent = true, .tma_store = true};
    for (s.tile_n = 0; schedules_next_columns(&s, c->n);)
        schedules_rows(c, accepts, found, s);
}

/* Whether at least half of the multiprocessors have a tile. */
static bool schedules_fill_half(const Cost *c, const Schedule *s) {
    MatmulPatch patch = matmul_patch_of(c->plan, s);
    if (!patch.axes)
        return false;
    double tiles = (double)matmul_patch_tiles(&patch) * ceil((double)c->m / s->tile_n) * (double)c->batch;
    return 2 * tiles >= c->plan->target->sm_count;
}

static void schedules_weights_tile(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    for (int blocks = 1; blocks <= (s.warps_m == 1 ? 2 : 1) && schedules_fill_half(c, &s); blocks++)
        schedules_add_deepest(c, accepts, found, s, WGMMA_STAGES, blocks);
}

/* Gradients of weights by patches: tiles of whole lines of taps, among one to three warpgroups. */
static void schedules_weights(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    enum { BLOCKS = 8 };
    int across = matmul_patch_across(c->plan);
    bool is_line = across && c->plan->b[0].windows->n == 1;
    Schedule s = {.path = MATMUL_WGMMA,
                  .tile_k = PATCH_PLACES,
                  .warps_n = 1,
                  .persistent = true,
                  .swap_ab = true,
                  .patches = true};
    for (s.warps_m = 1; across && s.warps_m <= 3; s.warps_m++)
        for (int own = 1; own <= (is_line ? 1 : BLOCKS); own++) {
            int blocks = is_line ? (across + s.warps_m - 1) / s.warps_m : own * across;
            if (blocks > BLOCKS)
                break;
            s.threads = 128 * (1 + s.warps_m);
            s.tile_m = WGMMA_M * blocks * s.warps_m;
            schedule_deal_registers(&s, false);
            for (s.tile_n = 0; schedules_next_columns(&s, c->m);)
                schedules_weights_tile(c, accepts, found, s);
        }
}

void schedules_patches(const Cost *c, SchedulesAccept *accepts, Candidates *found, int step) {
    int quarter = 256 / dtype_bits(c->plan->a.elem); /* of a line */
    for (int tile_k = step; c->plan->a.windows && tile_k >= quarter; tile_k /= 2)
        schedules_columns(c, accepts, found, tile_k);
    schedules_weights(c, accepts, found);
}
