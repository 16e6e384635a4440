/* The tiles that do not fill a round: blocks share their steps of K.
 *
 * 192 tiles on 132 SMs are two rounds, of which the second leaves 72 SMs without work. Here two blocks share
 * each of the 60 tiles that are left over, so that they take half a round. More generally, groups of blocks
 * share a few tiles evenly. Each tile is owned by a block, which takes the first of its steps, its head; the
 * rest of the group, the helpers, share the tails as a line of steps of which each has an equal piece:
 *
 *     tile 0    |            block 0            | block 3 |
 *     tile 1    |            block 1            | block 3 |      four blocks share three tiles
 *     tile 2    |            block 2            | block 3 |
 *
 * So all owners are at the same place of K, and L2 brings a row of tiles for all that want it. With equal
 * pieces of one line of all steps each block of a group was at another place: 3072 x 768 x 16384 took 129 us
 * so, and 114 in this order. Blocks are numbered by their place of K first, and by the group then:
 * neighbours, which share a GPC and what L2 brings to it, have the same steps of neighbouring tiles.
 *
 * The owner adds what helpers have of its tile, in their order, so that two runs give the same bits, and goes
 * on to the epilogue. Whole rounds come before, in which each block has tiles of its own; the shared ones
 * first would leave blocks at other places of K for all that follows.
 *
 * To share all tiles among all blocks evenly (stream-K: Osama et al., "Stream-K: Work-centric Parallel
 * Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023) takes every block to another place
 * of K, and L2 no longer brings a row of tiles for all that want it: 4096 x 3072 x 4096 took 168 us so, where
 * two rounds took 137.
 *
 * The part of a tile is what the registers of a block hold, 16 bytes of each lane side by side; a warp raises
 * a flag of its own for the same warp of the owner, so that no barrier of the block is needed. */
#include <math.h>

#include "codegen/template.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

enum {
    STREAM_BLOCKS = 8 /* of a group, at most */,
    STREAM_PART_STEPS = 2 /* steps of K that a part costs its owner, about */,
    STREAM_LEAST = 2 /* steps of a tile for each block, at least: no piece is empty */,
    STREAM_LANES = 32
};

/* Groups of `of` blocks for so many tiles each, where that shares `left` tiles sooner: in fewer steps than
 * `least`. */
static void stream_offer(WgmmaStream *s, int64_t left, int64_t blocks, int tiles, int of, double *least) {
    bool fits = (left + tiles - 1) / tiles * of <= blocks && s->steps / of >= STREAM_LEAST;
    double steps = (double)tiles * s->steps / of + STREAM_PART_STEPS * (of - tiles);
    if (!fits || steps >= *least)
        return;
    *least = steps;
    s->group_tiles = tiles;
    s->group_blocks = of;
}

/* How groups of blocks share `left` tiles soonest: one tile with several helpers, or several with one, so
 * that the same steps of all tiles are had at one time (with 5 helpers for 3 tiles 1024 x 1024 x 32768 took
 * 142 us, with 1 for 1 96). */
static void stream_find_group(WgmmaStream *s, int64_t left, int64_t blocks) {
    double least = INFINITY;
    for (int of = 2; of <= STREAM_BLOCKS; of++) {
        stream_offer(s, left, blocks, 1, of, &least);
        stream_offer(s, left, blocks, of - 1, of, &least);
    }
}

WgmmaStream wgmma_stream(const MatmulPlan *plan, const Schedule *schedule) {
    WgmmaStream stream = {0};
    if (!schedule->stream_k)
        return stream;
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    const Dim *steps = matmul_k_steps(plan, schedule);
    if (!dim_is_const(tiles.count) || !dim_is_const(steps) || tiles.count->value < 1 ||
        tiles.count->value > INT16_MAX || steps->value < 1 || steps->value > INT16_MAX)
        return stream;
    int blocks = plan->target->sm_count;
    stream.rounds = (int)(tiles.count->value / blocks);
    stream.tiles = (int)(tiles.count->value % blocks);
    stream.steps = (int)steps->value;
    if (stream.tiles)
        stream_find_group(&stream, stream.tiles, blocks);
    if (stream.group_blocks) {
        stream.groups = (stream.tiles + stream.group_tiles - 1) / stream.group_tiles;
        stream.blocks = stream.rounds ? blocks : stream.groups * stream.group_blocks;
    }
    return stream;
}

bool matmul_stream(const MatmulPlan *plan, const Schedule *schedule, MatmulShares *shares) {
    WgmmaStream s = wgmma_stream(plan, schedule);
    *shares =
        (MatmulShares){.rounds = s.rounds, .tiles = s.group_tiles, .parts = s.group_blocks - s.group_tiles};
    if (s.group_blocks)
        shares->share = (double)s.group_tiles / s.group_blocks;
    return s.blocks > 0;
}

bool wgmma_accepts_stream(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "stream_k takes whole tiles of blocks that multiply side by side: no cluster, split_k, ping_pong";
    if (schedule->cluster_m > 1 || schedule->cluster_n > 1 || schedule->split_k > 1 || schedule->ping_pong ||
        !schedule->persistent)
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
    w->stream.flags = signals_new(w->b, &w->signals, "flags", DTYPE_I32, dim_const(dims, warps));
}

/* Which blocks of the group own tiles, and what is whose. Every groups-th tile is the group's. */
static void stream_group(Wgmma *w, const KExpr *own) {
    Builder *b = w->b;
    WgmmaStream *s = &w->stream;
    const KExpr *blocks = k_i32(b, s->group_blocks), *steps = k_i32(b, s->steps);
    const KExpr *tiles = k_sub(b, k_i32(b, s->tiles + s->groups - 1), s->group);
    tiles = k_div(b, tiles, k_i32(b, s->groups));
    if (s->blocks > s->groups * s->group_blocks) /* blocks behind those of groups have whole rounds alone */
        tiles = k_select(b, k_lt(b, own, blocks), tiles, k_i32(b, 0));
    tiles = k_let_expr(b, "group_tiles", tiles);
    const KExpr *even = k_add(b, k_mul(b, tiles, steps), k_i32(b, s->group_blocks - 1));
    s->head = k_let_expr(b, "head", k_div(b, even, blocks));
    s->tail = k_let_expr(b, "tail", k_sub(b, steps, s->head));
    s->helper = k_let_expr(b, "helper", k_sub(b, own, tiles));
    s->helpers = k_let_expr(b, "helpers", k_sub(b, blocks, tiles));
    s->tails = k_let_expr(b, "tails", k_mul(b, tiles, s->tail));
}

/* Opens the loop over the block's tiles; the number of the present one. */
const KExpr *wgmma_stream_begin(Wgmma *w) {
    Builder *b = w->b;
    WgmmaStream *s = &w->stream;
    const KExpr *cta = k_special(b, SPECIAL_CTA_X), *groups = k_i32(b, s->groups);
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *rounds = k_i32(b, s->rounds);
    const KExpr *own = k_let_expr(b, "group_block", k_div(b, cta, groups));
    s->group = k_let_expr(b, "group", k_mod(b, cta, groups));
    stream_group(w, own);
    const KExpr *is_owner = k_let_expr(b, "is_owner", k_lt(b, s->helper, zero));
    const KExpr *from = k_let_expr(b, "piece", k_div(b, k_mul(b, s->helper, s->tails), s->helpers));
    const KExpr *to = k_div(b, k_mul(b, k_add(b, s->helper, one), s->tails), s->helpers);
    to = k_let_expr(b, "piece_end", to);
    const KExpr *behind = k_div(b, k_sub(b, k_add(b, to, s->tail), one), s->tail);
    const KExpr *tile = k_let_expr(b, "first_tile", k_select(b, is_owner, own, k_div(b, from, s->tail)));
    const KExpr *shared =
        k_select(b, is_owner, one, k_select(b, k_lt(b, from, to), k_sub(b, behind, tile), zero));
    shared = k_let_expr(b, "shared", shared);
    const KExpr *item = k_for_begin(b, "item", zero, k_add(b, shared, rounds), 1, UNROLL_NONE);
    const KExpr *is_whole = s->rounds ? k_let_expr(b, "is_whole", k_lt(b, item, rounds)) : NULL;
    s->in_group = k_let_expr(b, "tile_of_group", k_add(b, tile, k_sub(b, item, rounds)));
    const KExpr *number = k_add(b, k_mul(b, s->in_group, groups), s->group);
    const KExpr *before = k_mul(b, s->in_group, s->tail);
    const KExpr *begin = k_add(b, s->head, k_max(b, k_sub(b, from, before), zero));
    const KExpr *end = k_add(b, s->head, k_min(b, k_sub(b, to, before), s->tail));
    begin = k_select(b, is_owner, zero, begin);
    end = k_select(b, is_owner, s->head, end);
    if (is_whole) {
        const KExpr *grid = k_special(b, SPECIAL_GRID_X);
        number = k_select(b, is_whole, k_add(b, k_mul(b, item, grid), cta),
                          k_add(b, k_mul(b, rounds, grid), number));
        begin = k_select(b, is_whole, zero, begin);
        end = k_select(b, is_whole, k_i32(b, s->steps), end);
    }
    s->first = k_let_expr(b, "first_step", begin);
    s->end = k_let_expr(b, "last_step", end);
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

/* Number of a part's warp among those of all: of the part that a helper has of a tile of the group. Along the
 * line of tails the helper or the tile or both go on, so that their sum tells parts apart, and there are
 * fewer than blocks. */
static const KExpr *stream_warp(Wgmma *w, const KExpr *helper, const KExpr *tile, const KExpr *warp) {
    Builder *b = w->b;
    const KExpr *group = k_mul(b, w->stream.group, k_i32(b, w->stream.group_blocks));
    const KExpr *part = k_add(b, group, k_add(b, helper, tile));
    return k_let_expr(b, "part", k_add(b, k_mul(b, part, k_i32(b, 4 * w->consumers)), warp));
}

/* Raises a warp's flag, or waits for it. */
static void stream_flag(Wgmma *w, AtomId atom, const KExpr *warp) {
    Builder *b = w->b;
    KOperand operands[] = {k_operand(k_global_addr(b, w->stream.flags, warp)), k_operand(k_int(b, K_U32, 1))};
    k_atom(b, atom, NULL, operands, 2);
}

static void stream_put(Wgmma *w, const KExpr *warp) {
    Builder *b = w->b;
    const KExpr *own = stream_warp(w, w->stream.helper, w->stream.in_group, warp), *at = stream_at(w, own);
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

/* The helpers whose pieces have a part of the tile's tail. */
static void stream_collect(Wgmma *w, const KExpr *warp) {
    Builder *b = w->b;
    const WgmmaStream *s = &w->stream;
    const KExpr *one = k_i32(b, 1);
    k_if_begin(b, k_lt(b, s->end, k_i32(b, s->steps)));
    /* who has the step p of the tails: ((p + 1) * helpers - 1) / tails */
    const KExpr *first = k_add(b, k_mul(b, s->in_group, s->tail), one);
    first = k_div(b, k_sub(b, k_mul(b, first, s->helpers), one), s->tails);
    const KExpr *last = k_mul(b, k_mul(b, k_add(b, s->in_group, one), s->tail), s->helpers);
    last = k_add(b, k_div(b, k_sub(b, last, one), s->tails), one);
    const KExpr *helper = k_for_begin(b, "from", k_let_expr(b, "first_helper", first),
                                      k_let_expr(b, "last_helper", last), 1, UNROLL_NONE);
    const KExpr *from = stream_warp(w, helper, s->in_group, warp);
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
