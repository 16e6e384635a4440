/* The schedules of tiles in shared memory that warps multiply by mma.sync, or threads by multiply-adds. */
#include <limits.h>
#include <math.h>

#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_schedules.h"
#include "codegen/templates/matmul_simt.h"

/* Whether threads compute an operand, or copy it element by element. */
static bool schedules_computes(const MatmulPlan *plan, const Schedule *s) {
    bool computes = matmul_loader_registers(plan, &plan->a, s, s->tile_m, s->threads) > 0;
    for (int i = 0; i < plan->n_cores; i++)
        computes |= matmul_loader_registers(plan, &plan->b[i], s, s->tile_n, s->threads) > 0;
    return computes;
}

/* Copies of a thread for a stage, each of which has an address in registers. */
static int schedules_copies(const MatmulPlan *plan, const Schedule *s) {
    int pieces = 0;
    for (int i = 0; i <= plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        int width = operand->copy_width ? operand->copy_width : operand->run_width;
        pieces += (i ? s->tile_n : s->tile_m) * s->tile_k / width;
    }
    return pieces / s->threads;
}

/* The last shapes are for tf32, of which shared memory sets the pace: fewer warps, whose parts are larger. */
void schedules_mma(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    static const int shapes[][4] = {
        /* tile_m, tile_n, warps_m, warps_n */
        {128, 256, 2, 4}, {128, 128, 2, 4}, {128, 128, 2, 2}, {128, 128, 4, 2}, {128, 64, 2, 2},
        {64, 128, 2, 2},  {64, 128, 2, 4},  {64, 64, 2, 2},   {64, 64, 4, 2},   {64, 32, 2, 2},
        {64, 32, 4, 2},   {32, 128, 1, 4},  {32, 64, 1, 2},   {32, 64, 2, 2},   {32, 32, 2, 2},
        {16, 128, 1, 4},  {16, 64, 1, 2},   {16, 32, 1, 2},   {64, 256, 4, 1},  {64, 128, 4, 1},
        {128, 128, 8, 1}, {128, 256, 8, 1}, {64, 64, 4, 1},   {64, 32, 4, 1},   {64, 16, 4, 1},
        {32, 256, 2, 1},  {16, 16, 1, 1},   {96, 112, 3, 1},  {64, 64, 1, 2},   {64, 32, 2, 1}};
    enum { STAGES = 4, STAGES_F64 = 6, SHAPES_TF32 = 3 /* the last */, MOST_COPIES = 22 };
    int all = (int)(sizeof shapes / sizeof *shapes), few_warps = all - SHAPES_TF32;
    int n_shapes = c->plan->kind == MATMUL_TF32 ? all : few_warps;
    bool is_f64 = c->plan->kind == MATMUL_F64;
    int bits = dtype_bits(c->plan->a.elem), before = found->n;
    /* a warp that has long rows to itself reads more than it multiplies: for their statistics alone; long
     * steps of 8-bit elements take the registers that large tiles need */
    bool has_rows = c->plan->statistics.n || c->plan->block_cols || c->plan->region->column_block;
    /* stages of one instruction's K where computed operands leave no registers for more, or K is short */
    int one = is_f64 ? 64 : 32; /* bytes */
    for (int least = c->k * bits <= 8 * one ? one : 2 * one; least >= one && found->n == before; least /= 2)
        for (int i = 0; i < n_shapes; i++)
            for (int k_bytes = least; k_bytes <= 2 * least; k_bytes *= 2) {
                Schedule s = {.path = MATMUL_MMA_SYNC,
                              .threads = 32 * shapes[i][2] * shapes[i][3],
                              .tile_m = shapes[i][0],
                              .tile_n = shapes[i][1],
                              .tile_k = k_bytes * 8 / bits,
                              .warps_m = shapes[i][2],
                              .warps_n = shapes[i][3]};
                bool is_large = s.tile_m * s.tile_n >= 64 * 64;
                if ((i >= few_warps && schedules_copies(c->plan, &s) > MOST_COPIES) ||
                    (s.warps_n == 1 && s.tile_n >= 128 && !has_rows) ||
                    (bits == 8 && k_bytes == 128 && is_large))
                    continue;
                /* a ring deeper than K only fills stages with zeros; what is computed on its way comes one
                 * step ahead however deep it is, and the first steps one after the other */
                int64_t steps = (c->k + s.tile_k - 1) / s.tile_k;
                int deepest = is_f64 ? STAGES_F64 : STAGES;
                int most = schedules_computes(c->plan, &s) ? 2 : steps < deepest ? (int)steps + 1 : deepest;
                for (int blocks = 1; blocks <= 4; blocks *= 2)
                    schedules_add_deepest(c, accepts, found, s, most, blocks);
            }
}

/* Warps of a block along M and N for a tile, so that threads load the least for what they multiply, and if
 * that leaves a choice store the longest runs; false: so many do not divide it. */
static bool schedules_simt_warps(const Cost *c, int warps, Schedule *s) {
    SimtShape shape;
    Schedule tried = *s;
    int least = INT_MAX;
    for (tried.warps_m = warps; tried.warps_m >= 1; tried.warps_m /= 2) {
        tried.warps_n = warps / tried.warps_m;
        if (simt_shape(c->plan, &tried, &shape) && simt_loads(&shape, c->plan->n_cores) < least &&
            (tried.warps_n == 1 || !c->plan->statistics.n)) {
            least = simt_loads(&shape, c->plan->n_cores);
            *s = tried;
        }
    }
    return least < INT_MAX;
}

/* A tile whole, and shared by the blocks of a cluster as long as not all SMs have some. */
static void schedules_simt_tile(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    enum { STAGES = 3, SPLIT_MOST = 8, BLOCKS_MOST = 3 /* of an SM */ };
    int most = schedules_computes(c->plan, &s) ? 2 : STAGES; /* it comes one step ahead however deep it is */
    double rounds = schedules_rounds(c, &s);
    for (s.split_k = 1; s.split_k <= SPLIT_MOST; s.split_k *= 2)
        if (s.split_k == 1 || rounds * s.split_k <= BLOCKS_MOST)
            schedules_add_deepest(c, accepts, found, s, most, 1);
}

void schedules_simt(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    static const int sides[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256};
    enum { SIDES = sizeof sides / sizeof *sides, LEAST = 4, MOST = 8 /* warps */, LARGE = 128 * 256 };
    /* four warps divide no tile of less than 32 x 64: sides to that are there however few the rows are */
    double m = fmax(c->m, 32), n = fmax(c->n, 64);
    for (int i = 0; i < SIDES && (i == 0 || sides[i - 1] < m); i++)
        for (int j = 0; j < SIDES && (j == 0 || sides[j - 1] < n); j++)
            for (int warps = LEAST; warps <= MOST; warps *= 2)
                for (int tile_k = 16; tile_k <= 32; tile_k *= 2) {
                    Schedule s = {.path = MATMUL_SIMT,
                                  .threads = 32 * warps,
                                  .tile_m = sides[i],
                                  .tile_n = sides[j],
                                  .tile_k = tile_k};
                    int area = s.tile_m * s.tile_n;
                    /* longer steps, where registers are left for what is on its way to shared memory */
                    bool is_large =
                        (warps == MOST && area > 32 * s.threads) || dtype_bits(c->plan->a.elem) == 64;
                    if (area <= LARGE && !(tile_k > 16 && is_large) && schedules_simt_warps(c, warps, &s))
                        schedules_simt_tile(c, accepts, found, s);
                }
}
