/* Matrix products by wgmma, fed by TMA (sm_90a).
 *
 * One block an SM stays for the whole launch and takes one tile of the result after another. Its first
 * warpgroup loads, the others multiply, with a ring of stages between them (pipeline.h):
 *
 *     producer (one thread)   for each tile, for each step of K:  wait empty, expect bytes, TMA A, TMA B -->
 * stage s consumers (64 rows each, or 128) for each tile, for each step of K:  wait full, wgmma x 4, commit,
 *                                                                 wait for the step before, release its stage
 *                                            then the epilogue, while the producer fills the ring for the
 * next tile
 *
 * One step's products stay in flight while the next step's are issued, so the tensor cores never wait for a
 * release. setmaxnreg moves registers from the producer to the consumers, whose accumulators take half of
 * them.
 *
 * A cluster of two blocks, neighbours along m, needs the same tile of B: each loads half of it into both
 * (multicast), and a stage is free when the consumers of both have released it. Along n, the same with A.
 *
 * With ping_pong, each consumer warpgroup takes whole tiles, every second one: while one runs its epilogue,
 * the other has the tensor cores to itself. Two named barriers give the turn: a warpgroup may not wait for a
 * stage before the other has all of its own, since a parity tells only neighbouring phases apart.
 *
 *     warpgroup 0   | tile 0: products | epilogue | tile 2: products | epilogue |
 *     warpgroup 1        (waits)       | tile 1: products | epilogue | tile 3: ...
 *
 * In two levels (promote, and operands with factors of blocks), the products of a step go into registers of
 * their own, for at most 128 columns at a time, and from there into the accumulators:
 *
 *     warpgroup 0   | products | wait, acc += sum * scale | products | ...
 *     warpgroup 1        | wait, acc += sum * scale | products | ...
 *
 * One warpgroup's additions run beside the other's products, so the tensor cores are not waited for.
 *
 * An operand that has to be computed gets a warpgroup of its own between the two (matmul_convert.c).
 *
 * swap_ab computes the transposed product: then "rows" of the tile lie along N of the result, and a small M
 * lies along wgmma's n. */
#include "codegen/templates/matmul.h"

#include "ir/base/checked.h"

enum {
    WARPGROUP = 128,
    WGMMA_M = 64,
    WGMMA_K_BYTES = 32,
    TMA_BOX_MAX = 256,
    BARRIER_BYTES = 256,
    WGMMA_OPERANDS = 26, /* registers besides the sums that the assembler wants for an instruction (C7602) */
    VECTOR_BARRIER = 4 /* and the next two: a warpgroup's own */,
    TURN_BARRIER = 1 /* and the next: each warpgroup's turn */
};

/* An operand as this kernel sees it: which side of the (maybe transposed) product it is on. */
typedef struct WgmmaOperand {
    const MatmulOperand *operand;
    const MatmulConvert *convert; /* NULL: TMA brings it */
    Tile tile;
    bool is_rows; /* gives rows of the tile, else columns */
    int tile_mn;
    int map;
    const KExpr *descriptor;
} WgmmaOperand;

typedef struct Wgmma {
    MatmulVectors vectors;
    const KVar *side; /* which of a vector's two copies is the present tile's */
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    MatmulTiles tiles;
    WgmmaOperand operands[1 + MATMUL_CORES]; /* a, then each core's b */
    int n_operands;
    Pipeline pipeline;
    int consumers, blocks; /* warpgroups; m64 blocks of each */
    int cluster;
    int split; /* blocks of a cluster that share a tile's K; 1: none */
    MatmulPartials parts;
    MatmulGang gang; /* blocks 1: none */
    MatmulInputs inputs;
    const Dim *steps; /* of K */
    const KVar *accumulator[MATMUL_CORES];
    int partial_cols; /* 0: one level */
    const KVar *partial;
    MatmulScales scales[1 + MATMUL_CORES]; /* of each operand */
    const KVar *next[1 + MATMUL_CORES];    /* its factors for the next step; NULL: it has none */
    const KVar *factor[MATMUL_CORES];      /* of the present step's sums: [row][part]; NULL: 1 */
    MatmulConvert convert;
    int converters; /* warpgroups */
} Wgmma;

static int wgmma_k_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    return schedule->tile_k * dtype_bits(plan->a.elem) / 8;
}

/* Rows of the tile that one consumer warpgroup computes. */
static int wgmma_rows(const Schedule *schedule) {
    return schedule->ping_pong ? schedule->tile_m : schedule->tile_m / schedule->warps_m;
}

static int wgmma_blocks(const Schedule *schedule) {
    return wgmma_rows(schedule) / WGMMA_M;
}

/* Warps that must release a stage before it is free. */
static int wgmma_releases(const Schedule *schedule) {
    return 4 * (schedule->ping_pong ? 1 : schedule->warps_m);
}

static int wgmma_split(const Schedule *schedule) {
    return schedule->split_k > 1 ? schedule->split_k : 1;
}

/* The tile as the result has it. */
static int wgmma_result_rows(const Schedule *schedule) {
    return schedule->swap_ab ? schedule->tile_n : schedule->tile_m;
}

static int wgmma_result_cols(const Schedule *schedule) {
    return schedule->swap_ab ? schedule->tile_m : schedule->tile_n;
}

int64_t matmul_smem_wgmma(const MatmulPlan *plan, const Schedule *schedule) {
    int n_rows = schedule->swap_ab ? plan->n_cores : 1, n_cols = schedule->swap_ab ? 1 : plan->n_cores;
    int64_t stage =
        (int64_t)wgmma_k_bytes(plan, schedule) * (n_rows * schedule->tile_m + n_cols * schedule->tile_n);
    int64_t parts = wgmma_split(schedule) == 1 ? 0
                                               : matmul_partials_bytes(plan, wgmma_result_rows(schedule),
                                                                       wgmma_result_cols(schedule), 1);
    return stage * schedule->stages + parts + matmul_staging_bytes(plan, schedule) +
           matmul_scales_bytes(plan, schedule) + matmul_convert_bytes(plan, schedule) + BARRIER_BYTES;
}

/* Column vectors that fit beside the stages without costing a block of the SM. */
static void wgmma_find_vectors(const MatmulPlan *plan, const Schedule *schedule, MatmulVectors *vectors) {
    int blocks = matmul_blocks_per_sm(plan, schedule);
    int64_t room = blocks == 1 ? plan->target->smem_per_block : plan->target->smem_per_sm / blocks - 1024;
    *vectors = (MatmulVectors){0};
    if (!schedule->swap_ab && wgmma_split(schedule) == 1)
        matmul_find_vectors(plan, schedule->tile_n, 2 * schedule->warps_m,
                            room - matmul_smem_wgmma(plan, schedule), vectors);
}

static bool wgmma_accepts_operand(const MatmulPlan *plan, const Schedule *schedule,
                                  const MatmulOperand *operand, bool is_rows, const char **why) {
    if (!matmul_is_tma(plan->graph, operand, why))
        return operand->is_memory && operand->narrow == operand->elem
                   ? false
                   : matmul_accepts_convert(plan, schedule, operand, why);
    *why = "wgmma reads operands of 8 and 32 bits only where K is contiguous";
    if (operand->major == MAJOR_MN && plan->kind != MATMUL_16BIT)
        return false;
    int tile_mn = is_rows ? schedule->tile_m : schedule->tile_n;
    *why = "wgmma reads an operand that is contiguous along N in tiles of a multiple of 16";
    return operand->major == MAJOR_K || tile_mn % 16 == 0;
}

static bool wgmma_accepts_split(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    int split = wgmma_split(schedule);
    if (split == 1)
        return true;
    *why = "split_k takes a cluster of 2, 4 or 8 blocks of its own, whose tile has powers of two";
    if (split > 8 || (split & (split - 1)) || schedule->cluster_m > 1 || schedule->cluster_n > 1 ||
        schedule->ping_pong || (schedule->tile_m & (schedule->tile_m - 1)) ||
        (schedule->tile_n & (schedule->tile_n - 1)) || schedule->warps_m == 3)
        return false;
    *why = "a split has no warpgroups that convert operands";
    if (matmul_converters(plan, schedule))
        return false;
    *why = "each block of a split has at least one step of K";
    if (dim_lower(plan->graph->dims, plan->k) < (int64_t)split * schedule->tile_k)
        return false;
    *why = "row statistics need the sums of whole rows, which a split has in several blocks";
    return plan->statistics.n == 0;
}

/* Rows lie in one tile, or in a gang of blocks that exchange one word a row and statistic. */
static bool wgmma_accepts_statistics(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "row statistics need tiles whose rows lie along N: not swap_ab";
    if (schedule->swap_ab)
        return false;
    *why = "row statistics need whole rows in one tile, or an N that is known";
    if (!dim_is_const(plan->n) && !matmul_has_rows(plan, schedule))
        return false;
    int gang = matmul_gang(plan, schedule);
    if (gang == 1)
        return true;
    *why = "the blocks that hold a row do not run at the same time";
    if (gang > plan->target->sm_count || gang > MATMUL_GANG_MOST)
        return false;
    *why = "a gang of blocks has no cluster";
    if (schedule->cluster_m > 1 || schedule->cluster_n > 1)
        return false;
    *why = "blocks exchange statistics of 32 bits: sums, products and extremes, not their places";
    for (size_t i = 0; i < plan->statistics.n; i++)
        if (reduce_has_number(plan->statistics.at[i]) ||
            ktype_bits(reduce_type(plan->statistics.at[i])) != 32)
            return false;
    return true;
}

bool matmul_accepts_wgmma(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    const Target *target = plan->target;
    *why = "the target has no wgmma";
    if (!target->has_wgmma || !target->has_tma)
        return false;
    *why = "no matrix instruction holds both operands exactly";
    if (plan->kind == MATMUL_FMA)
        return false;
    if (!wgmma_accepts_operand(plan, schedule, &plan->a, !schedule->swap_ab, why))
        return false;
    for (int i = 0; i < plan->n_cores; i++) {
        if (!wgmma_accepts_operand(plan, schedule, &plan->b[i], schedule->swap_ab, why))
            return false;
        *why = "both products must read their second operands alike";
        if (plan->b[i].major != plan->b[0].major || plan->b[i].elem != plan->b[0].elem)
            return false;
    }
    *why = "tile_m is 64 or 128 rows for each of 1 to 3 consumer warpgroups";
    if (schedule->warps_m < 1 || schedule->warps_m > 3 || schedule->tile_m < WGMMA_M ||
        schedule->tile_m % ((schedule->ping_pong ? 1 : schedule->warps_m) * WGMMA_M) != 0 ||
        wgmma_blocks(schedule) > 2 || schedule->tile_m > TMA_BOX_MAX)
        return false;
    *why = "ping_pong takes two consumer warpgroups";
    if (schedule->ping_pong && schedule->warps_m != 2)
        return false;
    *why = "tile_n is a multiple of 8 up to 256 (of 16 for integers)";
    if (schedule->tile_n < 8 || schedule->tile_n > 256 ||
        schedule->tile_n % (plan->kind == MATMUL_INT8 ? 16 : 8) != 0)
        return false;
    *why = "tile_k is 32, 64 or 128 bytes of K";
    int k_bytes = wgmma_k_bytes(plan, schedule);
    if (k_bytes != 32 && k_bytes != 64 && k_bytes != 128)
        return false;
    if (matmul_partial_cols(plan, schedule)) {
        *why = "two-level sums are for floats and all of K, and need warpgroups that multiply side by side";
        if (plan->kind == MATMUL_INT8 || schedule->ping_pong || wgmma_split(schedule) > 1)
            return false;
        *why = "a step of K lies within one block of factors, and an instruction's columns share one factor";
        if (!matmul_scales_fit(plan, schedule))
            return false;
    }
    *why = "the accumulators do not fit the registers";
    int at_launch =
        target->registers_per_sm / (WARPGROUP * (1 + matmul_converters(plan, schedule) + schedule->warps_m));
    int most = schedule->consumer_registers ? schedule->consumer_registers
               : at_launch > 255            ? 255
                                            : at_launch;
    if (matmul_registers(plan, schedule) > most)
        return false;
    *why = "2 to 12 stages";
    if (schedule->stages < 2 || schedule->stages > 12)
        return false;
    *why = "the stages do not fit shared memory";
    if (matmul_smem_wgmma(plan, schedule) > target->smem_per_block)
        return false;
    *why = "a cluster has 2 blocks, along m or along n, and shares tiles that divide between them";
    int cluster_m = schedule->cluster_m > 1 ? schedule->cluster_m : 1,
        cluster_n = schedule->cluster_n > 1 ? schedule->cluster_n : 1;
    if (cluster_m * cluster_n > 2 || (cluster_m > 1 && schedule->tile_n % (16 * cluster_m) != 0))
        return false;
    if (cluster_m * cluster_n > 1) {
        const MatmulOperand *shared = (cluster_m > 1) != schedule->swap_ab ? &plan->b[0] : &plan->a;
        int tile_mn = cluster_m > 1 ? schedule->tile_n : schedule->tile_m;
        *why = "multicast copies at most three dims, and whole blocks of 64 along M or N";
        if (shared->n_batch > 1 || (shared->major == MAJOR_MN && tile_mn % 128 != 0))
            return false;
    }
    if (!wgmma_accepts_split(plan, schedule, why))
        return false;
    if (plan->statistics.n && !wgmma_accepts_statistics(plan, schedule, why))
        return false;
    if (!matmul_holds_blocks(plan, schedule->swap_ab || wgmma_split(schedule) > 1 ? 1 : schedule->tile_n,
                             why))
        return false;
    /* what a block has at launch, in multiples of 8 a thread, is all that its warpgroups can share: to ask
     * for more is to wait for ever */
    *why = "setmaxnreg takes multiples of 8 from 24 to 256, together no more than the block has at launch";
    int p = schedule->producer_registers, c = schedule->consumer_registers;
    int groups = 1 + matmul_converters(plan, schedule) + schedule->warps_m;
    if (c &&
        (p % 8 || c % 8 || p < 24 || c > 256 || p + schedule->warps_m * c > groups * (at_launch / 8 * 8)))
        return false;
    *why = "an instruction's columns take more registers than a thread has at launch";
    int cols = matmul_partial_cols(plan, schedule) ? matmul_partial_cols(plan, schedule) : schedule->tile_n;
    if (cols / 2 + WGMMA_OPERANDS > at_launch)
        return false;
    *why = "the converting warpgroups have less than 56 registers a thread";
    if (c && matmul_converters(plan, schedule) && matmul_convert_registers(plan, schedule) < 56)
        return false;
    *why = NULL;
    return true;
}

/* ---- operands */

static void wgmma_add_operand(Wgmma *w, const MatmulOperand *operand, const char *name, bool is_rows) {
    const Schedule *schedule = w->schedule;
    Builder *b = w->b;
    WgmmaOperand *o = &w->operands[w->n_operands++];
    o->operand = operand;
    o->is_rows = is_rows;
    o->tile_mn = is_rows ? schedule->tile_m : schedule->tile_n;
    if (matmul_is_converted(w->plan, operand)) {
        w->convert = matmul_convert(b, w->plan, schedule, operand, name, o->tile_mn);
        w->converters = matmul_converters(w->plan, schedule);
        MatmulOperand *made = ARENA_NEW(b->arena, MatmulOperand);
        *made = *operand;
        made->major = w->convert.loader.tile_major;
        o->operand = made;
        o->convert = &w->convert;
        o->tile = w->convert.loader.tile;
        return;
    }
    o->tile = operand->major == MAJOR_K
                  ? tile_shared(b, name, operand->elem, o->tile_mn, schedule->tile_k, schedule->stages)
                  : tile_shared(b, name, operand->elem, schedule->tile_k, o->tile_mn, schedule->stages);
}

static bool wgmma_is_shared(const Wgmma *w, const WgmmaOperand *o) {
    return o->is_rows ? w->tiles.cluster_n > 1 : w->tiles.cluster_m > 1;
}

/* Whether each element is loaded by one block only: a streamed weight should leave L2 to what is read again.
 */
static bool wgmma_is_read_once(const Wgmma *w, const WgmmaOperand *o) {
    const Dim *across = o->is_rows ? w->tiles.tiles_n : w->tiles.tiles_m;
    return dim_is(across, 1) && o->operand->n_batch == w->plan->batch_rank &&
           matmul_leaves_l2(w->plan, o->operand);
}

static MatmulTma wgmma_tma(const Wgmma *w, const WgmmaOperand *o) {
    return (MatmulTma){.operand = o->operand,
                       .tile = o->tile,
                       .map = o->map,
                       .share = wgmma_is_shared(w, o) ? w->cluster : 1,
                       .is_once = wgmma_is_read_once(w, o)};
}

/* ---- the two roles */

/* Loop over the tiles of this block: those from `skip` on, every `turns`-th. A split has one cluster a tile.
 */
static void wgmma_tiles_begin(Wgmma *w, const KExpr *skip, int turns, MatmulTile *tile) {
    Builder *b = w->b;
    const KExpr *first = k_special(b, SPECIAL_CTA_X), *step = k_special(b, SPECIAL_GRID_X);
    if (w->split > 1) {
        *tile = matmul_tile_at(b, w->plan, &w->tiles, k_div(b, first, k_i32(b, w->split)));
        return;
    }
    if (w->tiles.together > 1) {
        first = k_div(b, first, k_i32(b, w->tiles.together));
        step = k_div(b, step, k_i32(b, w->tiles.together));
    }
    if (turns > 1)
        first = k_add(b, first, k_mul(b, skip, step));
    const KExpr *number =
        k_for_step_begin(b, "tile", first, k_dim(b, w->tiles.count, K_I32), k_mul(b, step, k_i32(b, turns)));
    *tile = matmul_tile_at(b, w->plan, &w->tiles, number);
}

static void wgmma_tiles_end(Wgmma *w) {
    if (w->split == 1)
        k_end(w->b);
}

/* Steps of K that this block takes, and the first of them. */
static const KExpr *wgmma_steps(Wgmma *w, const KExpr **first) {
    Builder *b = w->b;
    const KExpr *all = k_dim(b, w->steps, K_I32), *split = k_i32(b, w->split);
    *first = k_i32(b, 0);
    if (w->split == 1)
        return all;
    const KExpr *rank = k_convert(b, k_special(b, SPECIAL_CTA_RANK), K_I32);
    *first = k_let_expr(b, "first_step", k_div(b, k_mul(b, rank, all), split));
    if (dim_divisor(w->plan->graph->dims, w->steps) % w->split == 0)
        return k_div(b, all, split);
    const KExpr *end = k_div(b, k_mul(b, k_add(b, rank, k_i32(b, 1)), all), split);
    return k_let_expr(b, "steps", k_sub(b, end, *first));
}

static void wgmma_meet(Builder *b) {
    k_atom(b, ATOM_cluster_arrive, NULL, NULL, 0);
    k_atom(b, ATOM_cluster_wait, NULL, NULL, 0);
}

/* The next raw tile, from which the converter makes its operand: number `unit` along K. */
static void wgmma_load_raw(Wgmma *w, const PipelineState *raw, const MatmulTile *tile, const KExpr *unit) {
    Builder *b = w->b;
    const MatmulConvert *convert = &w->convert;
    bool is_rows = matmul_is_converted(w->plan, &w->plan->a) != w->schedule->swap_ab;
    const KExpr *k0 = k_mul(b, unit, k_i32(b, (int64_t)w->schedule->tile_k * convert->ratio));
    pipeline_wait_empty(b, &convert->raw, raw);
    pipeline_expect(b, &convert->raw, raw, k_int(b, K_U32, tile_bytes(&convert->tma.tile)));
    matmul_tma_load(b, w->plan, &convert->tma, k_var(b, raw->stage),
                    pipeline_full_address(b, &convert->raw, raw), is_rows ? tile->row : tile->col, k0,
                    tile->batch);
    pipeline_advance(b, &convert->raw, raw);
}

static const KExpr *wgmma_units(Wgmma *w) {
    return k_div(w->b, k_dim(w->b, w->steps, K_I32), k_i32(w->b, w->convert.ratio));
}

/* The first raw tiles of a tile, all on their way together. */
static void wgmma_first_raw(Wgmma *w, const PipelineState *raw, const MatmulTile *tile) {
    Builder *b = w->b;
    if (!w->converters)
        return;
    const KExpr *end = k_min(b, wgmma_units(w), k_i32(b, w->convert.ahead));
    wgmma_load_raw(w, raw, tile, k_for_begin(b, "unit", k_i32(b, 0), end, 1, UNROLL_NONE));
    k_end(b);
}

/* In a step of the other operand, those that are due. */
static void wgmma_next_raw(Wgmma *w, const PipelineState *raw, const MatmulTile *tile, const KExpr *step) {
    Builder *b = w->b;
    if (!w->converters)
        return;
    const KExpr *ratio = k_i32(b, w->convert.ratio);
    const KExpr *unit = k_add(b, k_div(b, step, ratio), k_i32(b, w->convert.ahead));
    k_if_begin(b, k_and(b, k_eq(b, k_mod(b, step, ratio), k_i32(b, 0)), k_lt(b, unit, wgmma_units(w))));
    wgmma_load_raw(w, raw, tile, unit);
    k_end(b);
}

/* Each converter has every n-th raw tile, through all tiles. */
static void wgmma_convert(Wgmma *w) {
    Builder *b = w->b;
    int n = w->converters, ratio = w->convert.ratio;
    const KExpr *number = k_div(b, k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)), k_i32(b, 4));
    number = n > 1 ? k_let_expr(b, "converter", number) : k_i32(b, 0);
    PipelineState raw = pipeline_start(b, &w->convert.raw), state = pipeline_start(b, &w->pipeline);
    k_set(b, raw.stage, number);
    k_set(b, state.stage, k_mul(b, number, k_i32(b, ratio)));
    const KVar *first = k_variable(b, "first_unit", K_I32, number);
    const KExpr *units = wgmma_units(w);
    MatmulTile tile;
    wgmma_tiles_begin(w, NULL, 1, &tile);
    const KExpr *unit = k_for_begin(b, "unit", k_var(b, first), units, n, UNROLL_NONE);
    const KExpr *k0 = k_mul(b, unit, k_i32(b, (int64_t)w->schedule->tile_k * ratio));
    for (int i = 0; i < w->n_operands; i++)
        if (w->operands[i].convert)
            matmul_convert_raw(b, &w->convert, &w->pipeline, &raw, &state,
                               w->operands[i].is_rows ? tile.row : tile.col, k0, tile.batch);
    for (int i = 1; i < n; i++) { /* past the other converters' */
        pipeline_advance(b, &w->convert.raw, &raw);
        for (int k = 0; k < ratio; k++)
            pipeline_advance(b, &w->pipeline, &state);
    }
    k_end(b);
    if (n > 1 && dim_divisor(w->plan->graph->dims, w->steps) % (n * ratio) != 0) { /* the next tile's first */
        const KExpr *left = k_max(b, k_sub(b, units, k_var(b, first)), k_i32(b, 0));
        const KExpr *turns = k_div(b, k_add(b, left, k_i32(b, n - 1)), k_i32(b, n));
        k_set(b, first, k_sub(b, k_add(b, k_var(b, first), k_mul(b, turns, k_i32(b, n))), units));
    }
    wgmma_tiles_end(w);
}

static void wgmma_produce(Wgmma *w) {
    Builder *b = w->b;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    PipelineState state = pipeline_start(b, &w->pipeline), raw = {0};
    if (w->converters)
        raw = pipeline_start(b, &w->convert.raw);
    MatmulTile tile;
    const KExpr *first, *steps = wgmma_steps(w, &first);
    wgmma_tiles_begin(w, NULL, 1, &tile);
    wgmma_first_raw(w, &raw, &tile);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    int64_t bytes = 0;
    for (int i = 0; i < w->n_operands; i++)
        bytes += w->operands[i].convert ? 0 : tile_bytes(&w->operands[i].tile);
    const KExpr *k0 = k_let_expr(b, "k", k_mul(b, k_add(b, first, step), k_i32(b, w->schedule->tile_k)));
    wgmma_next_raw(w, &raw, &tile, step);
    pipeline_wait_empty(b, &w->pipeline, &state);
    pipeline_expect(b, &w->pipeline, &state, k_int(b, K_U32, bytes));
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        if (o->convert)
            continue;
        MatmulTma tma = wgmma_tma(w, o);
        matmul_tma_load(b, w->plan, &tma, k_var(b, state.stage),
                        pipeline_full_address(b, &w->pipeline, &state), o->is_rows ? tile.row : tile.col, k0,
                        tile.batch);
    }
    pipeline_advance(b, &w->pipeline, &state);
    k_end(b);
    matmul_inputs_load(b, w->plan, &w->inputs, &w->pipeline, &state, &tile);
    wgmma_tiles_end(w);
    k_end(b);
}

static void wgmma_issue(Wgmma *w, int core, KOperand sums, const KExpr *a, const KExpr *bb,
                        const KExpr *keep) {
    Builder *b = w->b;
    const WgmmaOperand *rows = &w->operands[w->schedule->swap_ab ? 1 + core : 0];
    const WgmmaOperand *cols = &w->operands[w->schedule->swap_ab ? 0 : 1 + core];
    int n = w->partial_cols ? w->partial_cols : w->schedule->tile_n;
    KOperand operands[] = {sums, k_operand(a), k_operand(bb), k_operand(keep)};
    DType x = rows->operand->elem, y = cols->operand->elem;
    switch (w->plan->kind) {
    case MATMUL_16BIT:
        k_atom(b, ATOM_wgmma_16bit,
               (int[]){n, (int)x, rows->operand->major == MAJOR_MN, cols->operand->major == MAJOR_MN},
               operands, 4);
        return;
    case MATMUL_TF32: k_atom(b, ATOM_wgmma_tf32, (int[]){n}, operands, 4); return;
    case MATMUL_FP8: k_atom(b, ATOM_wgmma_fp8, (int[]){n, (int)x, (int)y}, operands, 4); return;
    case MATMUL_INT8: k_atom(b, ATOM_wgmma_int8, (int[]){n, (int)x, (int)y}, operands, 4); return;
    case MATMUL_FMA: return;
    }
}

/* Offset, in a descriptor's units, of the part of a tile at `mn` and K-step `i`. */
static int64_t wgmma_part(const WgmmaOperand *o, int mn, int i) {
    int k = i * WGMMA_K_BYTES * 8 / dtype_bits(o->operand->elem);
    return o->operand->major == MAJOR_K ? tile_descriptor_offset(&o->tile, mn, k)
                                        : tile_descriptor_offset(&o->tile, k, mn);
}

/* Descriptors of a stage's tiles. */
static void wgmma_stage_at(Wgmma *w, const KExpr *stage, const KExpr **at) {
    Builder *b = w->b;
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        const KExpr *offset =
            k_mul(b, k_convert(b, stage, K_U64), k_int(b, K_U64, tile_bytes(&o->tile) / 16));
        at[i] = k_let_expr(b, text_format(b->arena, "%s_at", o->tile.buffer->name),
                           k_add(b, o->descriptor, offset));
    }
}

/* The products of one stage: K steps of 32 bytes, for each block of 64 rows and each core. */
static void wgmma_multiply(Wgmma *w, const KExpr *stage, const KExpr *k_step, bool is_cleared) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    const KExpr *at[1 + MATMUL_CORES];
    int count = schedule->tile_n / 2;
    wgmma_stage_at(w, stage, at);
    int steps = wgmma_k_bytes(w->plan, schedule) / WGMMA_K_BYTES;
    for (int i = 0; i < steps; i++)
        for (int core = 0; core < w->plan->n_cores; core++)
            for (int block = 0; block < w->blocks; block++) {
                int rows = schedule->swap_ab ? 1 + core : 0, cols = schedule->swap_ab ? 0 : 1 + core;
                const KExpr *a =
                    k_add(b, at[rows], k_int(b, K_U64, wgmma_part(&w->operands[rows], block * WGMMA_M, i)));
                const KExpr *bb = k_add(b, at[cols], k_int(b, K_U64, wgmma_part(&w->operands[cols], 0, i)));
                /* the first product of a tile ignores what the registers held */
                const KExpr *keep = i || is_cleared ? k_int(b, K_U32, 1) : k_convert(b, k_step, K_U32);
                wgmma_issue(w, core, k_regs(w->accumulator[core], block * count, count), a, bb, keep);
            }
}

/* The registers that hold a step's factors: of this thread's two rows of each block of 64, and of the
 * columns of each instruction. */
static int wgmma_own_factors(const Wgmma *w, const WgmmaOperand *o) {
    return o->is_rows ? 2 * w->blocks : w->schedule->tile_n / w->partial_cols;
}

/* Reads the factors of a step from the ring. They are used a step later, so that no product waits for them.
 */
static void wgmma_read_factors(Wgmma *w, const KExpr *step) {
    Builder *b = w->b;
    const KExpr *lane_row = k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, 4));
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        for (int k = 0; k < wgmma_own_factors(w, o) && o->operand->scale; k++) {
            const KExpr *word = o->is_rows ? k_add(b, lane_row, k_i32(b, k * 8)) : k_i32(b, k);
            matmul_scale_read(b, &w->scales[i], step, word, w->next[i], k);
        }
    }
}

/* The factors of the sums of a step: next[] become factor[]. */
static void wgmma_set_factors(Wgmma *w) {
    Builder *b = w->b;
    int parts = w->schedule->tile_n / w->partial_cols;
    for (int core = 0; core < w->plan->n_cores; core++)
        for (int row = 0; row < 2 * w->blocks; row++)
            for (int part = 0; part < parts; part++) {
                const KVar *rows = w->next[w->schedule->swap_ab ? 1 + core : 0];
                const KVar *cols = w->next[w->schedule->swap_ab ? 0 : 1 + core];
                const KExpr *x = rows ? k_elem_at(b, rows, row) : NULL,
                            *y = cols ? k_elem_at(b, cols, part) : NULL;
                k_set_elem(b, w->factor[core], k_i32(b, row * parts + part),
                           !x   ? y
                           : !y ? x
                                : k_mul(b, x, y));
            }
}

/* acc += partial * factor, for `part` of the columns of a block of 64 rows. */
static void wgmma_promote(Wgmma *w, int core, int block, int part) {
    Builder *b = w->b;
    int parts = w->schedule->tile_n / w->partial_cols;
    int first = (block * w->schedule->tile_n + part * w->partial_cols) / 2;
    const KExpr *g = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, w->partial_cols / 8), 1, UNROLL_FULL);
    for (int i = 0; i < 4; i++) {
        const KExpr *at = k_add(b, k_mul(b, g, k_i32(b, 4)), k_i32(b, i));
        const KExpr *to = k_add(b, at, k_i32(b, first));
        const KExpr *sum = k_elem(b, w->accumulator[core], to);
        const KExpr *factor = w->factor[core]
                                  ? k_elem_at(b, w->factor[core], (block * 2 + i / 2) * parts + part)
                                  : k_float(b, K_F32, 1);
        k_set_elem(b, w->accumulator[core], to, k_scalar(b, OP_fma, k_elem(b, w->partial, at), factor, sum));
    }
    k_end(b);
}

/* The products of one stage in two levels; releases the stage. */
static void wgmma_multiply_promoted(Wgmma *w, const KExpr *stage, const KExpr *step) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    const KExpr *at[1 + MATMUL_CORES];
    int steps = wgmma_k_bytes(w->plan, schedule) / WGMMA_K_BYTES, parts = schedule->tile_n / w->partial_cols;
    int units = w->plan->n_cores * w->blocks * parts;
    wgmma_stage_at(w, stage, at);
    for (int unit = 0; unit < units; unit++) {
        int part = unit % parts, block = unit / parts % w->blocks, core = unit / parts / w->blocks;
        const WgmmaOperand *rows = &w->operands[schedule->swap_ab ? 1 + core : 0];
        const WgmmaOperand *cols = &w->operands[schedule->swap_ab ? 0 : 1 + core];
        k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
        for (int i = 0; i < steps; i++) {
            int64_t row = wgmma_part(rows, block * WGMMA_M, i),
                    col = wgmma_part(cols, part * w->partial_cols, i);
            wgmma_issue(w, core, k_regs(w->partial, 0, w->partial_cols / 2),
                        k_add(b, at[rows - w->operands], k_int(b, K_U64, row)),
                        k_add(b, at[cols - w->operands], k_int(b, K_U64, col)), k_int(b, K_U32, i > 0));
        }
        k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
        if (unit == 0)
            wgmma_read_factors(w, k_add(b, step, k_i32(b, 1)));
        k_atom(b, ATOM_wgmma_wait, (int[]){0}, NULL, 0);
        matmul_settle(b, w->partial);
        if (unit == units - 1)
            pipeline_release(b, &w->pipeline, stage, w->cluster);
        wgmma_promote(w, core, block, part);
        matmul_settle(b, w->accumulator[core]); /* added before the next products take the same registers */
    }
}

/* All copies but the latest `but` steps' have come, and what the warp has read may be overwritten. */
static void wgmma_wait_scales(Builder *b, int but) {
    k_atom(b, ATOM_cp_async_wait, &but, NULL, 0);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
}

static const KExpr *wgmma_last_step(Wgmma *w) {
    return k_sub(w->b, k_dim(w->b, w->steps, K_I32), k_i32(w->b, 1));
}

/* Where a tile's factors stand, and the copies of its first steps. */
static void wgmma_scales_tile(Wgmma *w, const KExpr *warp, const KExpr *warp_row, const MatmulTile *tile) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    if (!matmul_has_scale(w->plan))
        return;
    wgmma_wait_scales(b, 0);
    /* a lane's row: 16 of each block of 64 */
    const KExpr *row =
        k_add(b, k_mul(b, k_div(b, lane, k_i32(b, 16)), k_i32(b, WGMMA_M)), k_mod(b, lane, k_i32(b, 16)));
    row = k_add(b, k_add(b, tile->row, warp_row), row);
    const KExpr *col = k_add(b, tile->col, k_mul(b, lane, k_i32(b, w->partial_cols)));
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        matmul_scales_tile(b, &w->scales[i], warp, o->is_rows ? row : col, o->operand->mn,
                           o->is_rows ? schedule->tile_m : schedule->tile_n, tile->batch);
    }
    for (int i = 0; i < w->n_operands; i++)
        matmul_scales_first(b, &w->scales[i], wgmma_last_step(w));
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    wgmma_wait_scales(b, 0);
    wgmma_read_factors(w, k_i32(b, 0));
}

static void wgmma_tile_product_promoted(Wgmma *w, const PipelineState *state) {
    Builder *b = w->b;
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), k_dim(b, w->steps, K_I32), 1, UNROLL_NONE);
    if (matmul_has_scale(w->plan)) {
        wgmma_set_factors(w);
        wgmma_wait_scales(b, 1); /* the next step's are there */
        for (int i = 0; i < w->n_operands; i++)
            matmul_scales_ahead(b, &w->scales[i], step, wgmma_last_step(w));
        k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    }
    pipeline_wait_full(b, &w->pipeline, state);
    wgmma_multiply_promoted(w, k_var(b, state->stage), step);
    pipeline_advance(b, &w->pipeline, state);
    k_end(b);
}

/* The warpgroup waits for its turn, or gives the turn to the other. */
static void wgmma_turn(Wgmma *w, const KExpr *group, bool is_mine) {
    Builder *b = w->b;
    for (int g = 0; g < 2; g++) {
        KOperand operands[] = {k_operand(k_i32(b, TURN_BARRIER + (is_mine ? g : 1 - g))),
                               k_operand(k_i32(b, 2 * WARPGROUP))};
        if (g == 0)
            k_if_begin(b, k_eq(b, group, k_i32(b, 0)));
        else
            k_else(b);
        k_atom(b, is_mine ? ATOM_bar_sync : ATOM_bar_arrive, NULL, operands, 2);
    }
    k_end(b);
}

static void wgmma_tile_product(Wgmma *w, const KExpr *group, const KExpr *steps, const PipelineState *state,
                               const KVar *previous) {
    Builder *b = w->b;
    /* where K may be 0, no product clears the registers */
    bool is_cleared = w->partial_cols || dim_lower(w->plan->graph->dims, w->plan->k) < 1;
    for (int core = 0; core < w->plan->n_cores && is_cleared; core++) {
        const KExpr *i =
            k_for_begin(b, "i", k_i32(b, 0), k_i32(b, w->accumulator[core]->count), 1, UNROLL_FULL);
        k_set_elem(b, w->accumulator[core], i, k_convert(b, k_i32(b, 0), w->plan->accumulator));
        k_end(b);
    }
    if (w->partial_cols) {
        wgmma_tile_product_promoted(w, state);
        return;
    }
    if (w->schedule->ping_pong)
        wgmma_turn(w, group, true);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    pipeline_wait_full(b, &w->pipeline, state);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    wgmma_multiply(w, k_var(b, state->stage), step, is_cleared);
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
    k_atom(b, ATOM_wgmma_wait, (int[]){1}, NULL, 0);
    k_if_begin(b, k_ge(b, step, k_i32(b, 1)));
    pipeline_release(b, &w->pipeline, k_var(b, previous), w->cluster);
    k_end(b);
    k_set(b, previous, k_var(b, state->stage));
    pipeline_advance(b, &w->pipeline, state);
    k_end(b);
    if (w->schedule->ping_pong)
        wgmma_turn(w, group, false);
    k_atom(b, ATOM_wgmma_wait, (int[]){0}, NULL, 0);
    for (int core = 0; core < w->plan->n_cores; core++)
        matmul_settle(b, w->accumulator[core]); /* all products have ended */
    if (is_cleared)
        k_if_begin(b, k_ge(b, steps, k_i32(b, 1)));
    pipeline_release(b, &w->pipeline, k_var(b, previous), w->cluster);
    if (is_cleared)
        k_end(b);
}

/* Starts the copies of the tile's columns of each vector; zeros behind the last column. */
static void wgmma_start_vectors(Wgmma *w, const KExpr *group, const MatmulTile *tile) {
    Builder *b = w->b;
    int cols = w->schedule->tile_n;
    if (!w->vectors.n)
        return;
    k_set(b, w->side, k_sub(b, k_i32(b, 1), k_var(b, w->side)));
    const KExpr *copy = k_add(b, k_mul(b, k_var(b, w->side), k_i32(b, w->consumers)), group);
    w->vectors.base = k_let_expr(b, "vector_base", k_mul(b, copy, k_i32(b, cols)));
    for (int i = 0; i < w->vectors.n; i++) {
        const Value *value = w->vectors.value[i];
        int word = 32 / dtype_bits(value->dtype), words = cols / word, bytes = 4;
        const KExpr *thread = k_mod(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP));
        for (int first = 0; first < words; first += WARPGROUP) {
            const KExpr *number = k_add(b, thread, k_i32(b, first)), *col = k_mul(b, number, k_i32(b, word));
            const KExpr *at = k_add(b, tile->col, col), *read = k_int(b, K_U32, bytes);
            if (dim_divisor(w->plan->graph->dims, w->plan->n) % cols != 0)
                read = k_select(b, k_lt(b, at, k_dim(b, w->plan->n, K_I32)), read, k_int(b, K_U32, 0));
            KOperand operands[] = {
                k_operand(k_smem_addr(b, w->vectors.buffer[i], k_add(b, w->vectors.base, col))),
                k_operand(k_global_addr(b, k_global(b, value, false), at)), k_operand(read)};
            if (words - first < WARPGROUP)
                k_if_begin(b, k_lt(b, number, k_i32(b, words)));
            k_atom(b, ATOM_cp_async, &bytes, operands, 3);
            if (words - first < WARPGROUP)
                k_end(b);
        }
    }
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
}

/* The whole warpgroup's copies have come. A copy is not overwritten before the next but one tile, which no
 * warp begins before all have been here for the next. */
static void wgmma_finish_vectors(Wgmma *w, const KExpr *group) {
    Builder *b = w->b;
    if (!w->vectors.n)
        return;
    k_atom(b, ATOM_cp_async_wait, (int[]){0}, NULL, 0);
    for (int g = 0; g < w->consumers; g++) {
        if (g + 1 < w->consumers)
            k_if_begin(b, k_eq(b, group, k_i32(b, g)));
        k_named_barrier(b, VECTOR_BARRIER + g, WARPGROUP);
        if (g + 1 < w->consumers)
            k_else(b);
    }
    for (int g = 0; g + 1 < w->consumers; g++)
        k_end(b);
}

/* The parts of the cluster's blocks meet; each finishes a share of the tile. */
static void wgmma_finish_split(Wgmma *w, Lower *lower, MatmulFragment *fragment, const MatmulTile *tile,
                               const KExpr *lane_row, const KExpr *lane_col) {
    Builder *b = w->b;
    bool is_swapped = w->schedule->swap_ab;
    fragment->row = lane_row;
    fragment->col = lane_col;
    matmul_partials_put(b, w->plan, &w->parts, fragment);
    wgmma_meet(b);
    int threads = WARPGROUP * w->consumers;
    const KExpr *thread = k_let_expr(b, "thread", k_sub(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP)));
    matmul_partials_finish(b, w->plan, lower, &w->parts, thread, threads, is_swapped ? tile->col : tile->row,
                           is_swapped ? tile->row : tile->col, tile->batch);
}

static void wgmma_consume(Wgmma *w, Lower *lower, MatmulStaging *staging) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    const KExpr *warp =
        k_let_expr(b, "warp", k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4 * (1 + w->converters))));
    const KExpr *group = k_let_expr(b, "warpgroup", k_div(b, warp, k_i32(b, 4)));
    bool ping_pong = schedule->ping_pong;
    int count = w->blocks * schedule->tile_n / 2, rows = wgmma_rows(schedule);
    for (int core = 0; core < w->plan->n_cores; core++)
        w->accumulator[core] = k_array(b, w->plan->core[core]->name ? w->plan->core[core]->name : "acc",
                                       w->plan->accumulator, count, NULL);
    if (w->partial_cols)
        w->partial = k_array(b, "partial", w->plan->accumulator, w->partial_cols / 2, NULL);
    for (int i = 0; i < w->n_operands; i++)
        if (w->operands[i].operand->scale)
            w->next[i] = k_array(b, "next_factor", K_F32, wgmma_own_factors(w, &w->operands[i]), NULL);
    for (int core = 0; core < w->plan->n_cores && matmul_has_scale(w->plan); core++)
        w->factor[core] =
            k_array(b, "factor", K_F32, 2 * w->blocks * schedule->tile_n / w->partial_cols, NULL);
    for (int i = 0; i < w->n_operands; i++) {
        WgmmaOperand *o = &w->operands[i];
        o->descriptor = tile_descriptor(b, &o->tile, o->operand->major);
        if (o->is_rows && !ping_pong) { /* each warpgroup its own rows */
            const KExpr *own = k_mul(b, k_convert(b, group, K_U64), k_int(b, K_U64, wgmma_part(o, rows, 0)));
            o->descriptor = k_add(b, o->descriptor, own);
        }
        o->descriptor =
            k_let_expr(b, text_format(b->arena, "%s_descriptor", o->tile.buffer->name), o->descriptor);
    }
    PipelineState state = pipeline_start(b, &w->pipeline);
    const KVar *previous = k_variable(b, "previous", K_I32, k_i32(b, 0));
    const KExpr *first, *steps = wgmma_steps(w, &first);
    const KExpr *stages = k_add(b, steps, k_i32(b, w->inputs.n * w->inputs.chunks)); /* of a tile */
    if (ping_pong) { /* the second warpgroup begins behind the stages of the first tile */
        k_if_begin(b, k_eq(b, group, k_i32(b, 1)));
        pipeline_skip(b, &w->pipeline, &state, stages);
        KOperand turn[] = {k_operand(k_i32(b, TURN_BARRIER)), k_operand(k_i32(b, 2 * WARPGROUP))};
        k_atom(b, ATOM_bar_arrive, NULL, turn, 2); /* and gives the first turn away */
        k_end(b);
    }
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *warp_row = k_add(b, ping_pong ? k_i32(b, 0) : k_mul(b, group, k_i32(b, rows)),
                                  k_mul(b, k_mod(b, warp, k_i32(b, 4)), k_i32(b, 16)));
    warp_row = k_let_expr(b, "warp_row", warp_row);
    const KExpr *lane_row = k_let_expr(b, "lane_row", k_add(b, warp_row, k_div(b, lane, k_i32(b, 4))));
    const KExpr *lane_col = k_let_expr(b, "lane_col", k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2)));

    if (staging) { /* four matrices: lanes 0-15 address the rows of the first group of columns, lanes 16-31
                      those of the second */
        staging->lane_row = k_let_expr(b, "matrix_row", k_mod(b, lane, k_i32(b, STAGING_ROWS)));
        staging->lane_col =
            k_let_expr(b, "matrix_col", k_mul(b, k_div(b, lane, k_i32(b, STAGING_ROWS)), k_i32(b, 8)));
    }
    if (w->gang.blocks > 1) {
        /* rows lane / 4 and lane / 4 + 8 of each warp's 16 are one packet */
        const KExpr *first = k_add(b, k_div(b, warp_row, k_i32(b, 2)), k_div(b, lane, k_i32(b, 4)));
        const KExpr *own = ping_pong ? k_mul(b, group, k_i32(b, rows / 2)) : k_i32(b, 0);
        w->gang.lane_pair = k_let_expr(b, "packet_pair", k_add(b, own, first));
        w->gang.round = k_variable(b, "round", K_I32, k_i32(b, 0));
    }
    MatmulTile tile;
    if (w->vectors.n) {
        w->side = k_variable(b, "side", K_I32, k_i32(b, 0));
        w->vectors.lane_col = lane_col;
    }
    wgmma_tiles_begin(w, group, ping_pong ? 2 : 1, &tile);
    if (w->partial_cols)
        wgmma_scales_tile(w, warp, warp_row, &tile);
    wgmma_start_vectors(w, group, &tile);
    wgmma_tile_product(w, group, steps, &state, previous);
    wgmma_finish_vectors(w, group);
    MatmulFragment fragment = {.blocks = w->blocks,
                               .block_rows = WGMMA_M,
                               .halves = 2,
                               .half_rows = 8,
                               .groups = schedule->tile_n / 8,
                               .group_cols = 8,
                               .width = 2,
                               .row = k_add(b, tile.row, lane_row),
                               .col = k_add(b, tile.col, lane_col),
                               .tile_rows = schedule->tile_m,
                               .tile_cols = schedule->tile_n,
                               .row_lanes = 4,
                               .is_swapped = schedule->swap_ab};
    for (int core = 0; core < w->plan->n_cores; core++)
        fragment.accumulator[core] = w->accumulator[core];
    if (w->split > 1) {
        wgmma_finish_split(w, lower, &fragment, &tile, lane_row, lane_col);
        return;
    }
    if (w->gang.blocks > 1)
        fragment.gang = &w->gang;
    if (staging) {
        staging->warp = warp;
        staging->row = k_add(b, tile.row, warp_row);
        staging->col = tile.col;
    }
    w->inputs.pipeline = &w->pipeline;
    w->inputs.state = &state;
    w->inputs.row = warp_row;
    matmul_epilogue(b, w->plan, lower, &fragment, tile.batch, staging, w->vectors.n ? &w->vectors : NULL,
                    w->inputs.n ? &w->inputs : NULL);
    if (ping_pong) /* the other warpgroup's tile */
        pipeline_skip(b, &w->pipeline, &state, stages);
    wgmma_tiles_end(w);
    if (staging) { /* shared memory must outlive the copies out of it */
        k_if_begin(b, k_eq(b, lane, k_i32(b, 0)));
        k_atom(b, ATOM_bulk_wait, (int[]){0}, NULL, 0);
        k_end(b);
    }
}

/* ---- the kernel */

static void wgmma_init(Wgmma *w) {
    Builder *b = w->b;
    int arrivals = w->converters ? 5 : 1; /* of the producer, and of four converting warps */
    k_comment(b, "the ring of stages: %d arrivals fill one, %d free it", arrivals,
              wgmma_releases(w->schedule) * w->cluster);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    for (int i = 0; i < (int)b->kernel->params.n; i++)
        if (b->kernel->params.at[i].kind == PARAM_TENSOR_MAP) {
            KOperand map = k_operand(k_tensor_map_addr(b, i));
            k_atom(b, ATOM_tensor_map_prefetch, NULL, &map, 1);
        }
    pipeline_init(b, &w->pipeline, arrivals, wgmma_releases(w->schedule) * w->cluster);
    if (w->converters)
        pipeline_init(b, &w->convert.raw, 1, 4);
    k_end(b);
    if (w->cluster > 1) {
        k_atom(b, ATOM_cluster_arrive, NULL, NULL, 0);
        k_atom(b, ATOM_cluster_wait, NULL, NULL, 0);
    } else {
        k_barrier(b);
    }
}

void matmul_build_wgmma(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    DimTable *dims = plan->graph->dims;
    Wgmma w = {.b = b,
               .plan = plan,
               .schedule = schedule,
               .consumers = schedule->warps_m,
               .blocks = wgmma_blocks(schedule),
               .partial_cols = matmul_partial_cols(plan, schedule)};
    w.tiles = matmul_tiles(plan, schedule);
    w.cluster = w.tiles.cluster_m * w.tiles.cluster_n;
    w.split = wgmma_split(schedule);
    w.steps = dim_ceil_div(dims, plan->k, dim_const(dims, schedule->tile_k));
    kernel->threads = WARPGROUP * (1 + matmul_converters(plan, schedule) + w.consumers);
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->cluster[0] = w.cluster * w.split;
    kernel->grid[0] = w.split > 1 ? dim_mul(dims, w.tiles.count, dim_const(dims, w.split))
                                  : matmul_persistent_grid(plan, schedule);
    kernel->gang = w.tiles.gang;

    wgmma_add_operand(&w, &plan->a, "a_tile", !schedule->swap_ab);
    for (int i = 0; i < plan->n_cores; i++)
        wgmma_add_operand(&w, &plan->b[i],
                          plan->n_cores == 1 ? "b_tile"
                          : i                ? "b_tile_1"
                                             : "b_tile_0",
                          schedule->swap_ab);
    for (int i = 0; i < w.n_operands; i++) {
        if (w.operands[i].convert)
            continue;
        MatmulTma tma = wgmma_tma(&w, &w.operands[i]);
        w.operands[i].map = matmul_tma_map(b, &tma);
    }
    if (!w.converters) /* whose stages the ring is then not counted in */
        matmul_find_inputs(b, plan, schedule, &w.inputs);
    matmul_inputs_declare(b, plan, schedule, w.operands[0].tile.buffer, w.operands[1].tile.buffer, &w.inputs);
    MatmulStaging staging;
    bool is_staged = matmul_staging(b, plan, schedule, &staging);
    wgmma_find_vectors(plan, schedule, &w.vectors);
    for (int i = 0; i < w.vectors.n; i++) {
        const Value *value = w.vectors.value[i];
        w.vectors.buffer[i] =
            k_shared(b, text_format(b->arena, "%s_tile", value->name ? value->name : "vector"), value->dtype,
                     (int64_t)2 * w.consumers * schedule->tile_n, 16);
    }
    if (w.split > 1)
        w.parts =
            matmul_partials(b, plan, wgmma_result_rows(schedule), wgmma_result_cols(schedule), 1, w.split);
    w.gang.blocks = w.tiles.gang;
    if (w.gang.blocks > 1)
        w.gang = matmul_gang_new(b, plan, schedule, w.consumers * wgmma_rows(schedule));
    for (int i = 0; i < w.n_operands; i++)
        w.scales[i] = matmul_scales(b, plan, schedule, w.operands[i].operand, w.operands[i].is_rows);
    w.pipeline = pipeline_new(b, "stage", schedule->stages);
    Lower *lower = lower_new(b, plan->region);

    wgmma_init(&w);
    k_role_begin(b, "producer", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_dec, &schedule->producer_registers, NULL, 0);
    wgmma_produce(&w);
    if (w.split > 1)
        wgmma_meet(b);
    k_else(b);
    if (w.converters) {
        k_role_begin(b, "converter", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4 + 4 * w.converters)));
        if (schedule->consumer_registers)
            k_atom(b, ATOM_setmaxnreg_dec, (int[]){matmul_convert_registers(plan, schedule)}, NULL, 0);
        wgmma_convert(&w);
        k_else(b);
    }
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_inc, &schedule->consumer_registers, NULL, 0);
    wgmma_consume(&w, lower, is_staged ? &staging : NULL);
    if (w.converters)
        k_end(b);
    k_end(b);
    if (w.cluster * w.split > 1) /* no block leaves while another may still use its memory or arrive at its
                                    barriers */
        wgmma_meet(b);
    kernel->summary = text_format(
        b->arena,
        "matmul by wgmma: tile %dx%dx%d, %d stages, cluster %dx%d, %d consumer warpgroups%s%s%s%s%s%s%s",
        schedule->tile_m, schedule->tile_n, schedule->tile_k, schedule->stages, w.tiles.cluster_m,
        w.tiles.cluster_n, w.consumers, schedule->ping_pong ? " in turn" : "",
        w.gang.blocks > 1 ? text_format(b->arena, ", rows over gangs of %d blocks", w.gang.blocks) : "",
        w.converters ? text_format(b->arena, ", %d that convert", w.converters) : "",
        w.partial_cols ? ", sums in two levels" : "", schedule->swap_ab ? ", transposed product" : "",
        is_staged ? ", outputs by TMA" : "",
        w.split > 1 ? text_format(b->arena, ", K split among %d blocks of a cluster", w.split) : "");
}
