/* The tiles that do not fill a round: blocks share their steps of K.
 *
 * 192 tiles on 132 SMs are two rounds, of which the second leaves 72 SMs without work. Here two blocks share
 * each of the 60 tiles that are left over, so that they take half a round. More generally, groups of blocks
 * share a few tiles evenly, as a line of steps of which each has an equal piece:
 *
 *     tiles     |         0         |         1         |
 *     blocks    |      0      |      1      |      2    |      three blocks share two tiles
 *
 * The block that has a tile's first steps owns it: it adds what the blocks behind it have of the same tile,
 * in their order, so that two runs give the same bits, and goes on to the epilogue. A block comes to the tile
 * that it owns last in its piece; what it has of another's, the end or the middle of a tile, is the first of
 * its piece, so that the owner hardly ever waits. Whole rounds come before, in which each block has tiles of
 * its own; the shared ones first would leave blocks at other places of K for all that follows.
 *
 *     block 1   ... | tile 1 | tile 132: end --> parts | tile 133: begin | wait for block 2, add | epilogue
 *
 * To share all tiles among all blocks evenly (stream-K: Osama et al., "Stream-K: Work-centric Parallel
 * Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023) takes every block to another place
 * of K, and L2 no longer brings a row of tiles for all that want it: 4096 x 3072 x 4096 took 168 us so, where
 * two rounds took 137.
 *
 * The part of a tile is what the registers of a block hold, 16 bytes of each lane side by side; a warp raises
 * a flag of its own for the same warp of the owner, so that no barrier of the block is needed. */
#include "codegen/template.h"
#include "codegen/templates/wgmma.h"

enum {
    STREAM_PARTS = 4 /* blocks of a group, at most */,
    STREAM_LEAST = 2 /* steps that a block has, at least */,
    STREAM_LANES = 32
};

/* The most evenly that groups of blocks can share `left` tiles: tiles of a group, its blocks. */
static void stream_find_group(WgmmaStream *s, int64_t left, int64_t blocks) {
    for (int of = 2; of <= STREAM_PARTS; of++)
        for (int tiles = 1; tiles < of; tiles++) {
            bool fits = (left + tiles - 1) / tiles * of <= blocks;
            bool is_less = !s->group_blocks || tiles * s->group_blocks < s->group_tiles * of;
            if (fits && is_less && (int64_t)tiles * s->steps / of >= STREAM_LEAST) {
                s->group_tiles = tiles;
                s->group_blocks = of;
            }
        }
}

WgmmaStream wgmma_stream(const MatmulPlan *plan, const Schedule *schedule) {
    WgmmaStream stream = {0};
    if (!schedule->stream_k)
        return stream;
    DimTable *dims = plan->graph->dims;
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    const Dim *steps = dim_ceil_div(dims, plan->k, dim_const(dims, schedule->tile_k));
    if (!dim_is_const(tiles.count) || !dim_is_const(steps) || tiles.count->value < 1 ||
        tiles.count->value > INT16_MAX || steps->value < 1 || steps->value > INT16_MAX)
        return stream;
    int blocks = plan->target->sm_count;
    stream.rounds = (int)(tiles.count->value / blocks);
    stream.tiles = (int)(tiles.count->value % blocks);
    stream.steps = (int)steps->value;
    if (stream.tiles)
        stream_find_group(&stream, stream.tiles, blocks);
    if (stream.group_blocks)
        stream.blocks = stream.rounds ? blocks
                                      : (stream.tiles + stream.group_tiles - 1) / stream.group_tiles *
                                            stream.group_blocks;
    return stream;
}

bool matmul_stream(const MatmulPlan *plan, const Schedule *schedule, int *rounds, double *share) {
    WgmmaStream stream = wgmma_stream(plan, schedule);
    *rounds = stream.rounds;
    *share = stream.group_blocks ? (double)stream.group_tiles / stream.group_blocks : 0;
    return stream.blocks > 0;
}

bool wgmma_accepts_stream(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "stream_k takes whole tiles of blocks that multiply side by side: no cluster, split_k, ping_pong, "
           "swap_ab";
    if (schedule->cluster_m > 1 || schedule->cluster_n > 1 || schedule->split_k > 1 || schedule->ping_pong ||
        schedule->swap_ab || !schedule->persistent)
        return false;
    *why = "stream_k takes operands as they are, and one product";
    if (matmul_converters(plan, schedule) || schedule->fragments || matmul_has_scale(plan) || plan->before)
        return false;
    *why = "row statistics need the sums of whole rows in the blocks of a gang";
    if (plan->statistics.n)
        return false;
    *why = "no tiles are left over for which several blocks would have the time, or none are known";
    return wgmma_stream(plan, schedule).blocks > 0;
}

/* Registers of a thread's sums, in 16 bytes. */
static int stream_words(const Wgmma *w) {
    return w->blocks * w->schedule->tile_n / 2 / 4;
}

void wgmma_stream_buffers(Wgmma *w) {
    Builder *b = w->b;
    DimTable *dims = w->plan->graph->dims;
    int64_t warps = (int64_t)w->stream.blocks * w->consumers * 4;
    DType type = w->plan->accumulator == K_I32 ? DTYPE_I32 : DTYPE_F32;
    for (int core = 0; core < w->plan->n_cores; core++)
        w->stream.parts[core] =
            k_scratch(b, "parts", type, dim_const(dims, warps * STREAM_LANES * 4 * stream_words(w)), false);
    w->stream.flags = k_scratch(b, "flags", DTYPE_I32, dim_const(dims, warps), true);
}

const KExpr *wgmma_stream_begin(Wgmma *w) {
    Builder *b = w->b;
    WgmmaStream *s = &w->stream;
    const KExpr *cta = k_special(b, SPECIAL_CTA_X), *blocks = k_i32(b, s->group_blocks);
    const KExpr *zero = k_i32(b, 0), *steps = k_i32(b, s->steps);
    const KExpr *own = k_let_expr(b, "group_block", k_mod(b, cta, blocks));
    s->base = k_let_expr(b, "group_tile", k_mul(b, k_div(b, cta, blocks), k_i32(b, s->group_tiles)));
    /* the last group may have fewer, those behind it none */
    const KExpr *tiles = k_sub(b, k_i32(b, s->tiles), s->base);
    tiles = k_max(b, k_min(b, tiles, k_i32(b, s->group_tiles)), zero);
    s->all = k_let_expr(b, "group_steps", k_mul(b, tiles, steps));
    s->from = k_let_expr(b, "piece", k_div(b, k_mul(b, own, s->all), blocks));
    s->to = k_let_expr(b, "piece_end", k_div(b, k_mul(b, k_add(b, own, k_i32(b, 1)), s->all), blocks));
    const KExpr *first = k_let_expr(b, "first_tile", k_div(b, s->from, steps));
    const KExpr *shared = k_div(b, k_add(b, s->to, k_i32(b, s->steps - 1)), steps);
    shared = k_let_expr(b, "shared", k_sub(b, shared, first));
    const KExpr *rounds = k_i32(b, s->rounds);
    const KExpr *item = k_for_begin(b, "item", zero, k_add(b, shared, rounds), 1, UNROLL_NONE);
    const KExpr *is_shared = s->rounds ? k_let_expr(b, "is_shared", k_ge(b, item, rounds)) : NULL;
    const KExpr *in_group = k_let_expr(b, "tile_of_group", k_add(b, first, k_sub(b, item, rounds)));
    const KExpr *number = k_add(b, s->base, in_group);
    if (is_shared) {
        const KExpr *grid = k_special(b, SPECIAL_GRID_X);
        number = k_select(b, is_shared, k_add(b, k_mul(b, rounds, grid), number),
                          k_add(b, k_mul(b, item, grid), cta));
    }
    s->after = k_let_expr(b, "steps_after", k_mul(b, k_add(b, in_group, k_i32(b, 1)), steps));
    const KExpr *before = k_sub(b, s->after, steps);
    const KExpr *begin = k_max(b, k_sub(b, s->from, before), zero);
    const KExpr *end = k_min(b, k_sub(b, s->to, before), steps);
    s->first = k_let_expr(b, "first_step", is_shared ? k_select(b, is_shared, begin, zero) : begin);
    s->end = k_let_expr(b, "last_step", is_shared ? k_select(b, is_shared, end, steps) : end);
    s->count = k_let_expr(b, "steps", k_sub(b, s->end, s->first));
    return k_let_expr(b, "tile", number);
}

/* Element of the parts that a lane of a warp of a block begins with. */
static const KExpr *stream_at(Wgmma *w, const KExpr *warp) {
    Builder *b = w->b;
    const KExpr *at = k_mul(b, warp, k_i32(b, (int64_t)STREAM_LANES * 4 * stream_words(w)));
    return k_let_expr(b, "part_at", k_add(b, at, k_mul(b, k_special(b, SPECIAL_LANE), k_i32(b, 4))));
}

static const KExpr *stream_word(Builder *b, const KExpr *at, const KExpr *word) {
    return k_add(b, at, k_mul(b, word, k_i32(b, STREAM_LANES * 4)));
}

/* Number of a block's warp among those of all. */
static const KExpr *stream_warp(Wgmma *w, const KExpr *block, const KExpr *warp) {
    return k_let_expr(w->b, "part", k_add(w->b, k_mul(w->b, block, k_i32(w->b, 4 * w->consumers)), warp));
}

/* Raises a warp's flag, or waits for it. */
static void stream_flag(Wgmma *w, AtomId atom, const KExpr *warp) {
    Builder *b = w->b;
    KOperand operands[] = {k_operand(k_global_addr(b, w->stream.flags, warp)), k_operand(k_int(b, K_U32, 1))};
    k_atom(b, atom, NULL, operands, 2);
}

static void stream_put(Wgmma *w, const KExpr *warp) {
    Builder *b = w->b;
    const KExpr *own = stream_warp(w, k_special(b, SPECIAL_CTA_X), warp), *at = stream_at(w, own);
    for (int core = 0; core < w->plan->n_cores; core++) {
        const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, stream_words(w)), 1, UNROLL_FULL);
        k_store(b, w->stream.parts[core], stream_word(b, at, word), w->accumulator[core],
                k_mul(b, word, k_i32(b, 4)), 4, NULL, CACHE_DEFAULT);
        k_end(b);
    }
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_LANE), k_i32(b, 0)));
    stream_flag(w, ATOM_flag_raise, own);
    k_end(b);
}

/* acc += the part of the warp `from`, what it has of all at once on its way. */
static void stream_add(Wgmma *w, const KExpr *from) {
    Builder *b = w->b;
    const KExpr *at = stream_at(w, from);
    for (int core = 0; core < w->plan->n_cores; core++) {
        const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, stream_words(w)), 1, UNROLL_FULL);
        const KVar *part = k_array(b, "part_sums", w->plan->accumulator, 4, NULL);
        k_load(b, part, NULL, w->stream.parts[core], stream_word(b, at, word), 4, NULL, CACHE_DEFAULT);
        for (int i = 0; i < 4; i++) {
            const KExpr *to = k_add(b, k_mul(b, word, k_i32(b, 4)), k_i32(b, i));
            k_set_elem(b, w->accumulator[core], to,
                       k_add(b, k_elem(b, w->accumulator[core], to), k_elem_at(b, part, i)));
        }
        k_end(b);
    }
}

/* The blocks behind this one whose pieces begin before the tile's end. */
static void stream_collect(Wgmma *w, const KExpr *warp) {
    Builder *b = w->b;
    const WgmmaStream *s = &w->stream;
    const KExpr *cta = k_special(b, SPECIAL_CTA_X), *blocks = k_i32(b, s->group_blocks);
    k_if_begin(b, k_lt(b, s->end, k_i32(b, s->steps)));
    const KExpr *last = k_add(b, k_mul(b, s->after, blocks), k_sub(b, s->all, k_i32(b, 1)));
    last = k_add(b, k_div(b, last, s->all), k_sub(b, cta, k_mod(b, cta, blocks)));
    last = k_let_expr(b, "last_block", last);
    const KExpr *block = k_for_begin(b, "block", k_add(b, cta, k_i32(b, 1)), last, 1, UNROLL_NONE);
    const KExpr *from = stream_warp(w, block, warp);
    stream_flag(w, ATOM_flag_wait, from);
    stream_add(w, from);
    k_end(b);
    k_end(b);
}

void wgmma_stream_own_begin(Wgmma *w, const KExpr *warp) {
    Builder *b = w->b;
    if (!w->stream.blocks)
        return;
    k_if_begin(b, k_lt(b, k_i32(b, 0), w->stream.first));
    stream_put(w, warp);
    k_else(b);
    stream_collect(w, warp);
}

void wgmma_stream_own_end(Wgmma *w) {
    if (w->stream.blocks)
        k_end(w->b);
}
