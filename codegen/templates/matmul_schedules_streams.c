/* The schedules of few rows, or few columns, past which the larger operand streams. */
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_schedules.h"

/* The few rows of a gemv, or with `swap` its few columns. */
static void schedules_gemv_few(const Cost *c, SchedulesAccept *accepts, Candidates *found, int64_t few,
                               bool swap) {
    enum { RUN = 8 /* elements of a lane's */, LANES = 32 };
    int rows = 1, least_warps = 4; /* that share K, unless one row has too little for so many */
    while (rows < few && rows < 8)
        rows *= 2;
    while (few == 1 && least_warps > 1 && c->k < least_warps * LANES * RUN)
        least_warps /= 2;
    Schedule s = {.path = MATMUL_GEMV, .tile_m = rows, .swap_ab = swap};
    for (s.warps_m = least_warps; s.warps_m <= 8; s.warps_m *= 2)
        for (s.tile_n = 1; s.tile_n <= 256; s.tile_n *= 2)
            for (s.split_k = 1; s.split_k <= 8; s.split_k *= 2) {
                s.warps_n = 1;
                s.threads = 32 * s.warps_m;
                int least = matmul_gemv_step(c->plan, &s);
                for (s.tile_k = least; least && s.tile_k <= 8 * least; s.tile_k *= 2)
                    schedules_add(c, accepts, found, s);
            }
}

/* A tile of the skinny path with as many runs under way as there may be. */
static void schedules_skinny_steps(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s) {
    enum { UNROLL_MOST = 8 };
    int least = matmul_skinny_step(c->plan, &s);
    for (s.tile_k = least; least && s.tile_k <= UNROLL_MOST * least; s.tile_k *= 2)
        schedules_add(c, accepts, found, s);
}

/* The few rows, or with `swap` columns, of the skinny path: in the longest runs, and where there is more than
 * one group of rows in shorter ones, too, which take fewer registers of each. */
static void schedules_skinny_few(const Cost *c, SchedulesAccept *accepts, Candidates *found, int64_t few,
                                 bool swap) {
    enum { ROWS_LEAST = 8, COLUMNS = 16, BLOCKS_MOST = 4, ACROSS_MOST = 16, WARPS_MOST = 8, SHORT = 16 };
    Schedule s = {.path = MATMUL_SKINNY, .tile_m = ROWS_LEAST, .swap_ab = swap};
    bool is_across = matmul_skinny_is_across(c->plan, &s);
    int most = is_across ? ACROSS_MOST : BLOCKS_MOST;
    while (s.tile_m < few)
        s.tile_m *= 2;
    for (s.warps_m = 1; s.warps_m <= WARPS_MOST; s.warps_m *= 2)
        for (s.warps_n = s.warps_m < 4 ? 4 / s.warps_m : 1; s.warps_m * s.warps_n <= WARPS_MOST;
             s.warps_n *= 2)
            for (int blocks = is_across ? 2 : 1; blocks <= most; blocks *= 2)
                for (s.split_k = 1; s.split_k <= 8; s.split_k *= 2) {
                    s.threads = 32 * s.warps_m * s.warps_n;
                    s.tile_n = COLUMNS * blocks * s.warps_n;
                    schedules_skinny_steps(c, accepts, found, s);
                    Schedule other = s;
                    other.vector = SHORT; /* of several groups of rows, shorter; of runs across, longer */
                    int step = matmul_skinny_step(c->plan, &s), others = matmul_skinny_step(c->plan, &other);
                    if (is_across ? others > step : few > ROWS_LEAST && others < step)
                        schedules_skinny_steps(c, accepts, found, other);
                }
}

/* Weights of 4 and 8 bits, as the estimate is measured for. Of 16 bits wgmma takes no longer (8 x 4096 x
 * 4096 14.7 us, 15.3 by this path), and of 32 rows and more it is quicker with fewer bits, too (32 x 11008 x
 * 4096 29 us, 39); along N only of more than 32, as its warps collect those nibble by nibble (58, 33). */
static void schedules_skinny_side(const Cost *c, SchedulesAccept *accepts, Candidates *found, bool swap) {
    enum { MOST_ROWS = 16, MOST_ACROSS = 32, NARROW = 8 };
    int64_t few = swap ? c->n : c->m;
    Schedule s = {.path = MATMUL_SKINNY, .swap_ab = swap};
    const MatmulOperand *weights = swap ? &c->plan->a : &c->plan->b[0];
    int most = matmul_skinny_is_across(c->plan, &s) ? MOST_ACROSS : MOST_ROWS;
    if (few <= most && matmul_skinny_bits(c->plan, weights) <= NARROW)
        schedules_skinny_few(c, accepts, found, few, swap);
}

void schedules_skinny(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    if (c->plan->kind != MATMUL_16BIT)
        return;
    schedules_skinny_side(c, accepts, found, false);
    if (c->m > c->n)
        schedules_skinny_side(c, accepts, found, true);
}

void schedules_gemv(const Cost *c, SchedulesAccept *accepts, Candidates *found) {
    const MatmulPlan *plan = c->plan;
    enum { MOST_ROWS = 64 /* in tiles of 8, for weights that neither TMA nor cp.async can read */ };
    /* the constants are measured for 16-bit and exact f32 operands, and those of f64 are read alike; the
     * others have it by @schedule */
    DType type = plan->core[0]->dtype;
    bool is_fma = plan->kind == MATMUL_FMA && (type == DTYPE_F32 || type == DTYPE_F64);
    if (plan->kind != MATMUL_16BIT && plan->kind != MATMUL_F64 && !is_fma)
        return;
    if (c->m <= MOST_ROWS)
        schedules_gemv_few(c, accepts, found, c->m, false);
    /* where both are few, rows serve as well, unless columns are many times as many */
    if (c->n <= MOST_ROWS && (c->m > 8 ? c->m > c->n : c->m >= 4 * c->n))
        schedules_gemv_few(c, accepts, found, c->n, true);
}
