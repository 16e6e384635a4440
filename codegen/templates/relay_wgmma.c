/* The kernel of a relay (relay.h):
 *
 *     s, d                parts of tile_k columns of the first products, 64 rows a warpgroup
 *     p, e                what is computed of a part, in 16 bits, in registers
 *     dv += p @ y, ...    all columns of the last products in registers, for the tile's rows
 *
 * What is handed on is computed as soon as the first products that it needs have ended, and the last products
 * that take it go to the tensor cores behind it, so that these work meanwhile; where registers allow it, the
 * first product of the next part follows at once:
 *
 *     tensor cores   | s | d | dv += p | dk += e | s | d | ...
 *     registers          | p   | e     |             | p ...
 *
 * The producer brings the first operands' rows once a tile, and the second operands of a part through one
 * ring. One that a first product has its columns of, and a last one its sum along, comes once for both, as k
 * does: its tile's rows are the part either way.
 *
 * Where all that is handed on is zero beyond a band (Band), parts of which a tile's rows see nothing are
 * neither loaded nor multiplied ("FlashAttention-2", 2023, section 3.1: skipping blocks under a causal mask),
 * and elements are masked in parts that lie across its border. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_result.h"
#include "codegen/templates/relay.h"

enum { RELAY_HALVES = 2 /* rows of a thread, 8 apart */ };

/* ---- the producer */

static void relay_load_rows(RelayRun *r, const MatmulTile *tile) {
    Builder *b = r->b;
    pipeline_wait_empty(b, &r->row_ring, &r->row);
    const KExpr *bytes = matmul_tma_bytes(b, &r->rows[0], tile->row);
    for (int i = 1; i < r->plan->n_first; i++)
        bytes = k_add(b, bytes, matmul_tma_bytes(b, &r->rows[i], tile->row));
    pipeline_expect(b, &r->row_ring, &r->row, bytes);
    for (int i = 0; i < r->plan->n_first; i++)
        matmul_tma_load(b, &r->plan->first[i], &r->rows[i], k_var(b, r->row.stage),
                        pipeline_full_address(b, &r->row_ring, &r->row), tile->row, k_i32(b, 0), tile->batch);
    pipeline_advance(b, &r->row_ring, &r->row);
}

/* Whether an operand comes through the ring of those that are free early. */
static bool relay_comes_early(const RelayRun *r, int brought) {
    return r->early_ring.stages && relay_is_early(r->plan, brought);
}

/* A part of those operands that come through one of the rings. */
static void relay_load_through(RelayRun *r, bool early, const KExpr *at, const MatmulTile *tile) {
    Builder *b = r->b;
    Pipeline *ring = early ? &r->early_ring : &r->part_ring;
    PipelineState *state = early ? &r->early : &r->part;
    const KExpr *zero = k_i32(b, 0), *bytes = NULL;
    for (int i = 0; i < r->plan->n_brought; i++)
        if (relay_comes_early(r, i) == early) {
            const KExpr *own = matmul_tma_bytes(b, &r->brought[i], at);
            bytes = bytes ? k_add(b, bytes, own) : own;
        }
    pipeline_wait_empty(b, ring, state);
    pipeline_expect(b, ring, state, bytes);
    for (int i = 0; i < r->plan->n_brought; i++) {
        const RelayBrought *brought = &r->plan->brought[i];
        if (relay_comes_early(r, i) == early)
            matmul_tma_load(b, brought->plan, &r->brought[i], k_var(b, state->stage),
                            pipeline_full_address(b, ring, state), brought->is_last ? zero : at,
                            brought->is_last ? at : zero, tile->batch);
    }
    pipeline_advance(b, ring, state);
}

static void relay_load_part(RelayRun *r, const KExpr *part, const MatmulTile *tile) {
    Builder *b = r->b;
    const KExpr *at = k_let_expr(b, "part_col", k_mul(b, part, k_i32(b, r->parts.width)));
    relay_load_through(r, false, at, tile);
    if (r->early_ring.stages)
        relay_load_through(r, true, at, tile);
}

/* A loop over the block's tiles, each with its parts found. */
static MatmulTile relay_tiles_begin(RelayRun *r) {
    if (r->plan->has_across)
        return relay_order_begin(r);
    MatmulTile tile = parts_tiles_begin(&r->parts, &r->plan->last[0]);
    parts_find(&r->parts, &tile);
    return tile;
}

static void relay_tiles_end(RelayRun *r) {
    if (r->plan->has_across)
        relay_order_end(r);
    else
        k_end(r->b);
}

/* A role's places in the rings. */
static void relay_start(RelayRun *r) {
    r->row = pipeline_start(r->b, &r->row_ring);
    r->part = pipeline_start(r->b, &r->part_ring);
    if (r->early_ring.stages)
        r->early = pipeline_start(r->b, &r->early_ring);
}

static void relay_produce(RelayRun *r) {
    Builder *b = r->b;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    relay_start(r);
    MatmulTile tile = relay_tiles_begin(r);
    parts_if_any_begin(&r->parts);
    relay_load_rows(r, &tile);
    if (r->plan->has_across) {
        const KVar *part = relay_order_first_part(r);
        k_for_begin(b, "step", k_i32(b, 0), r->across.order.count, 1, UNROLL_NONE);
        relay_load_part(r, k_var(b, part), &tile);
        relay_order_next_part(r, part);
    } else {
        const KExpr *part = k_for_begin(b, "part", r->parts.first, r->parts.end, 1, UNROLL_NONE);
        relay_load_part(r, part, &tile);
    }
    k_end(b);
    parts_if_any_end(&r->parts);
    relay_tiles_end(r);
    k_end(b);
}

/* ---- the consumers: products */

/* First products from number `from` on, up to `to`. Each by itself, as what needs the first alone is computed
 * while the others are multiplied. */
void relay_issue_first(RelayRun *r, int from, int to) {
    Builder *b = r->b;
    if (from < to)
        k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int i = from; i < to; i++) {
        const MatmulPlan *first = &r->plan->first[i];
        const Tile *rows = &r->rows[i].tile, *tile = &r->brought[r->plan->first_from[i]].tile;
        const PipelineState *state = relay_comes_early(r, r->plan->first_from[i]) ? &r->early : &r->part;
        const KExpr *at = parts_stage(b, tile, r->first_at[i], k_var(b, state->stage));
        for (int k = 0; k < relay_depth(r->plan, i); k += PARTS_K) {
            KOperand operands[] = {k_regs(r->fragment[i], 0, r->fragment[i]->count),
                                   k_operand(parts_from(b, rows, first->a.major, r->rows_at[i], k)),
                                   k_operand(parts_from(b, tile, first->b[0].major, at, k)),
                                   k_operand(k_int(b, K_U32, k > 0))};
            int shape[] = {r->schedule->tile_k, (int)first->a.elem, first->a.major == MAJOR_MN,
                           first->b[0].major == MAJOR_MN};
            k_atom(b, ATOM_wgmma_16bit, shape, operands, 4);
        }
        k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
    }
}

/* Those that take one thing that is held, as one group. */
void relay_issue_last(RelayRun *r, int held, const KExpr *stage) {
    Builder *b = r->b;
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int i = 0; i < r->plan->n_last; i++) {
        const MatmulOperand *operand = &r->plan->last[i].b[0];
        const Tile *tile = &r->brought[r->plan->last_from[i]].tile;
        if (r->plan->held_of[i] != held)
            continue;
        const KExpr *at = parts_stage(b, tile, r->last_at[i], stage);
        for (int k = 0; k < r->schedule->tile_k; k += PARTS_K) {
            KOperand operands[] = {
                k_regs(r->sums[i], 0, r->sums[i]->count), k_regs(r->packed[held], k / 4, 4),
                k_operand(parts_from(b, tile, operand->major, at, k)), k_operand(k_int(b, K_U32, 1))};
            int shape[] = {r->schedule->tile_n, (int)operand->elem, operand->major == MAJOR_MN};
            k_atom(b, ATOM_wgmma_16bit_rs, shape, operands, 4);
        }
    }
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
}

void relay_wait(RelayRun *r, int groups, const KVar *const *settled, int n) {
    k_atom(r->b, ATOM_wgmma_wait, &groups, NULL, 0);
    for (int i = 0; i < n; i++)
        matmul_settle(r->b, settled[i]);
}

/* ---- the consumers: a tile */

MatmulFragment relay_fragment(const RelayRun *r, const KVar *const *accumulators, int n, int columns,
                              const KExpr *row, const KExpr *col) {
    MatmulFragment fragment = {.blocks = 1,
                               .block_rows = WGMMA_M,
                               .halves = RELAY_HALVES,
                               .half_rows = 8,
                               .groups = columns / 8,
                               .group_cols = 8,
                               .width = 2,
                               .row = row,
                               .col = col,
                               .tile_rows = r->schedule->tile_m,
                               .tile_cols = columns,
                               .row_lanes = 4};
    for (int i = 0; i < n; i++)
        fragment.accumulator[i] = accumulators[i];
    return fragment;
}

/* Words of what lies beyond a limit: zero, or a half of them. context: the RelayRun. */
static void relay_mask(void *context, const PartsMask *mask) {
    RelayRun *r = context;
    Builder *b = r->b;
    const KExpr *group = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, r->schedule->tile_k / 8), 1, UNROLL_FULL);
    const KExpr *half = k_for_begin(b, "h", k_i32(b, 0), k_i32(b, RELAY_HALVES), 1, UNROLL_FULL);
    const KExpr *word = k_add(b, k_mul(b, group, k_i32(b, RELAY_HALVES)), half);
    const KExpr *zero = k_int(b, K_U32, 0), *low = k_int(b, K_U32, 0xffff),
                *high = k_int(b, K_U32, 0xffff0000);
    const KExpr *kept =
        k_bit_or(b, k_select(b, parts_is_inside(b, mask, group, half, k_i32(b, 0)), low, zero),
                 k_select(b, parts_is_inside(b, mask, group, half, k_i32(b, 1)), high, zero));
    k_set_elem(b, r->masked, word, k_bit_and(b, k_elem(b, r->masked, word), kept));
    k_end(b);
    k_end(b);
}

void relay_pack(RelayRun *r, Epilogue *pack, int held, const MatmulFragment *fragment, const PartsAt *at) {
    Builder *b = r->b;
    b->rounds_powers = true;
    matmul_pack(pack, fragment, r->plan->made[held], r->packed[held]);
    b->rounds_powers = false;
    r->masked = r->packed[held];
    parts_mask(&r->parts, at, true, relay_mask, r);
}

static void relay_next_early(RelayRun *r) {
    if (!r->early_ring.stages)
        return;
    pipeline_release(r->b, &r->early_ring, k_var(r->b, r->early.stage), NULL);
    pipeline_advance(r->b, &r->early_ring, &r->early);
}

/* Computes one thing that is held of a part, once the first products that it needs have ended: all groups but
 * those of first products that it does not need, and `behind` groups of last ones. */
static void relay_hold(RelayRun *r, int held, int behind, const MatmulFragment *fragment, const PartsAt *at) {
    int needed = r->plan->n_needed[held];
    relay_wait(r, behind + r->plan->n_first - needed, r->fragment, needed);
    relay_next_early(r); /* with a ring of their own one thing is held, of all first products */
    relay_pack(r, r->pack, held, fragment, at);
    matmul_settle(r->b, r->packed[held]);
}

/* All of a part behind its first products, which are under way. */
static void relay_part(RelayRun *r, const KExpr *part, PartsAt at, const KExpr *stage) {
    Builder *b = r->b;
    at.col = k_let_expr(b, "part_col", k_mul(b, part, k_i32(b, r->parts.width)));
    MatmulFragment *fragment = ARENA_NEW(b->arena, MatmulFragment); /* the epilogue keeps it */
    *fragment = relay_fragment(r, r->fragment, r->plan->n_first, r->schedule->tile_k, at.lane_row,
                               k_add(b, at.col, at.lane_col));
    for (int held = 0; held < r->plan->n_held; held++) {
        relay_hold(r, held, held, fragment, &at);
        relay_issue_last(r, held, stage);
    }
}

void relay_release(RelayRun *r, const KExpr *stage) {
    pipeline_release(r->b, &r->part_ring, stage, NULL);
}

static void relay_wait_part(RelayRun *r) {
    pipeline_wait_full(r->b, &r->part_ring, &r->part);
    if (r->early_ring.stages)
        pipeline_wait_full(r->b, &r->early_ring, &r->early);
}

static void relay_next_part(RelayRun *r) {
    relay_release(r, k_var(r->b, r->part.stage));
    pipeline_advance(r->b, &r->part_ring, &r->part);
}

/* Parts that are the other warpgroup's alone: this one only frees their stages. */
static void relay_skip(RelayRun *r, const KExpr *first, const KExpr *end) {
    if (first == end)
        return;
    k_for_begin(r->b, "skipped", first, end, 1, UNROLL_NONE);
    relay_wait_part(r);
    relay_next_early(r);
    relay_next_part(r);
    k_end(r->b);
}

/* Part by part. */
static void relay_parts(RelayRun *r, const PartsAt *at) {
    Builder *b = r->b;
    const KExpr *part = k_for_begin(b, "part", r->parts.own_first, r->parts.own_end, 1, UNROLL_NONE);
    relay_wait_part(r);
    relay_issue_first(r, 0, r->plan->n_first);
    relay_part(r, part, *at, k_var(b, r->part.stage));
    relay_wait(r, 0, r->sums, r->plan->n_last);
    relay_next_part(r);
    k_end(b);
}

/* The first of the first products of the next part right behind the last ones of this, and when these have
 * ended, the others. */
static void relay_parts_ahead(RelayRun *r, const PartsAt *at) {
    Builder *b = r->b;
    int n_first = r->plan->n_first;
    const KExpr *one = k_i32(b, 1);
    const KVar *own = k_variable(b, "own_stage", K_I32, k_i32(b, 0));
    for (int i = 0; i < r->plan->n_last; i++)
        matmul_settle(b, r->sums[i]); /* zeros now, not while products are under way */
    pipeline_wait_full(b, &r->part_ring, &r->part);
    relay_issue_first(r, 0, n_first);
    const KExpr *last = k_sub(b, r->parts.own_end, one);
    const KExpr *part = k_for_begin(b, "part", r->parts.own_first, last, 1, UNROLL_NONE);
    k_set(b, own, k_var(b, r->part.stage));
    pipeline_advance(b, &r->part_ring, &r->part);
    relay_part(r, part, *at, k_var(b, own));
    pipeline_wait_full(b, &r->part_ring, &r->part);
    relay_issue_first(r, 0, 1);
    relay_wait(r, 1, r->sums, r->plan->n_last);
    relay_release(r, k_var(b, own));
    relay_issue_first(r, 1, n_first);
    k_end(b);
    relay_part(r, last, *at, k_var(b, r->part.stage));
    relay_wait(r, 0, r->sums, r->plan->n_last);
    relay_next_part(r);
}

static void relay_own_parts(RelayRun *r, const PartsAt *at) {
    relay_skip(r, r->parts.first, r->parts.own_first);
    if (r->runs_ahead)
        relay_parts_ahead(r, at);
    else
        relay_parts(r, at);
    relay_skip(r, r->parts.own_end, r->parts.end);
}

/* Registers of a tile. Zeros for the first products cost nothing, as these read none of them; unwritten, they
 * would be kept from one tile to the next. */
static void relay_declare_tile(RelayRun *r) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    const KExpr *zero = k_float(b, K_F32, 0);
    for (int i = 0; i < plan->n_first; i++)
        r->fragment[i] = k_array(b, "part_of", K_F32, r->schedule->tile_k / 2, zero);
    for (int i = 0; i < plan->n_held; i++)
        r->packed[i] = k_array(b, "packed", K_U32, r->schedule->tile_k / 4, NULL);
    for (int i = 0; i < plan->n_last; i++)
        r->sums[i] = k_array(b, "sums", K_F32, r->schedule->tile_n / 2, zero);
}

/* Ahead of all tiles. */
static void relay_find_descriptors(RelayRun *r, const KExpr *group) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    for (int i = 0; i < plan->n_first; i++) {
        const MatmulPlan *first = &plan->first[i];
        int rows = first->a.major == MAJOR_K ? WGMMA_M : 0;
        int64_t own = tile_descriptor_offset(&r->rows[i].tile, rows, WGMMA_M - rows);
        const KExpr *own_rows = k_mul(b, k_convert(b, group, K_U64), k_int(b, K_U64, own));
        r->rows_first[i] = k_let_expr(
            b, "rows_descriptor", k_add(b, tile_descriptor(b, &r->rows[i].tile, first->a.major), own_rows));
        r->first_at[i] =
            k_let_expr(b, "first_descriptor",
                       tile_descriptor(b, &r->brought[plan->first_from[i]].tile, first->b[0].major));
    }
    for (int i = 0; i < plan->n_last; i++)
        r->last_at[i] =
            k_let_expr(b, "last_descriptor",
                       tile_descriptor(b, &r->brought[plan->last_from[i]].tile, plan->last[i].b[0].major));
}

static void relay_store(RelayRun *r, const MatmulTile *tile, const PartsLane *place, const KExpr *row) {
    Builder *b = r->b;
    for (int i = 0; i < r->plan->n_last; i++) {
        MatmulFragment fragment = relay_fragment(r, &r->sums[i], 1, r->schedule->tile_n, row, place->col);
        fragment.is_whole = true;
        r->staging[i].row = k_add(b, tile->row, place->warp_row);
        r->staging[i].col = k_i32(b, 0);
        matmul_epilogue(b, &r->plan->last[i], r->lower[i], &fragment, tile->batch,
                        r->is_staged[i] ? &r->staging[i] : NULL, NULL, NULL);
    }
}

static void relay_consume(RelayRun *r) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    const KExpr *warp = k_let_expr(b, "warp", k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    const KExpr *group = k_let_expr(b, "warpgroup", k_div(b, warp, k_i32(b, 4)));
    relay_find_descriptors(r, group);
    relay_start(r);
    PartsLane place = parts_lane(b, warp, group);
    for (int i = 0; i < plan->n_last; i++)
        if (r->is_staged[i]) {
            r->staging[i].owner = warp;
            matmul_boxes_begin(b, &r->staging[i]);
        }
    if (plan->has_across)
        relay_across_begin(r, &place, group);
    MatmulTile tile = relay_tiles_begin(r);
    if (!plan->has_across)
        parts_find_own(&r->parts, k_add(b, tile.row, k_mul(b, group, k_i32(b, WGMMA_M))));
    PartsAt at = {.warp_row = k_let_expr(b, "first_row", k_add(b, tile.row, place.warp_row)),
                  .lane_row = k_let_expr(b, "own_row", k_add(b, tile.row, place.row)),
                  .lane_col = place.col};
    relay_declare_tile(r);
    MatmulFragment first =
        relay_fragment(r, r->fragment, plan->n_first, r->schedule->tile_k, at.lane_row, place.col);
    r->vectors.lane_col = place.col;
    r->pack = matmul_pack_begin(b, &plan->between, r->between, &first, tile.batch, &r->vectors);
    if (plan->has_across)
        relay_across_tile(r, &first, &tile);
    parts_if_any_begin(&r->parts);
    pipeline_wait_full(b, &r->row_ring, &r->row);
    for (int i = 0; i < plan->n_first; i++)
        r->rows_at[i] = parts_stage(b, &r->rows[i].tile, r->rows_first[i], k_var(b, r->row.stage));
    if (plan->has_across)
        relay_across_parts(r, &at);
    else
        relay_own_parts(r, &at);
    pipeline_release(b, &r->row_ring, k_var(b, r->row.stage), NULL);
    pipeline_advance(b, &r->row_ring, &r->row);
    parts_if_any_end(&r->parts);
    matmul_pack_end(r->pack);
    if (plan->has_across)
        relay_across_meet(r);
    relay_store(r, &tile, &place, at.lane_row);
    if (plan->has_across)
        relay_across_stored(r);
    relay_tiles_end(r);
    for (int i = 0; i < plan->n_last; i++)
        if (r->is_staged[i])
            matmul_boxes_end(b, &r->staging[i]);
}

/* ---- the kernel */

static void relay_declare(RelayRun *r) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    const Schedule *s = r->schedule;
    Schedule store = parts_store_schedule(s);
    int early = relay_early_stages(plan, s);
    for (int i = 0; i < plan->n_first; i++)
        r->rows[i] =
            parts_operand(b, &plan->first[i], &plan->first[i].a, "rows_tile", s->tile_m,
                          relay_rows_width(plan, s, i), relay_row_stages(plan, s), !plan->has_across);
    for (int i = 0; i < plan->n_brought; i++) {
        const RelayBrought *brought = &plan->brought[i];
        int width = relay_width(plan, brought);
        r->brought[i] = parts_operand(
            b, brought->plan, brought->operand, "part_tile", brought->is_last ? width : s->tile_k,
            brought->is_last ? s->tile_k : width, relay_is_early(plan, i) ? early : s->stages, false);
    }
    if (plan->has_across)
        relay_across_declare(r);
    for (int i = 0; i < plan->n_last && !plan->has_across; i++)
        r->is_staged[i] = matmul_staging(b, &plan->last[i], &store, NULL, &r->staging[i]);
    r->row_ring = pipeline_new(b, "rows", relay_row_stages(plan, s));
    r->part_ring = pipeline_new(b, "part", s->stages);
    if (early < s->stages)
        r->early_ring = pipeline_new(b, "early", early);
    for (int i = 0; i < plan->n_last; i++)
        r->lower[i] = lower_new(b, plan->last[i].region);
}

static MatmulTiles relay_tiles(const RelayPlan *plan, const Schedule *schedule) {
    MatmulTiles tiles = matmul_tiles(&plan->last[0], schedule);
    tiles.rows_end = tiles.cols_end = NULL; /* the band hangs on a tile's first row */
    return tiles;
}

void relay_build(Builder *b, const RelayPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    RelayRun r = {.b = b, .plan = plan, .schedule = schedule, .runs_ahead = relay_runs_ahead(plan, schedule)};
    r.between = lower_new(b, plan->between.region);
    r.parts = (Parts){.b = b,
                      .plan = &plan->first[0],
                      .lower = r.between,
                      .tiles = relay_tiles(plan, schedule),
                      .rows = schedule->tile_m,
                      .width = schedule->tile_k};
    for (int i = 0; i < plan->n_brought; i++)
        r.parts.bytes += 2 * relay_width(plan, &plan->brought[i]);
    parts_set_band(&r.parts, &plan->band);
    kernel->threads = WARPGROUP * (1 + schedule->warps_m);
    kernel->min_blocks = 1;
    kernel->grid[0] = plan->has_across ? relay_order_blocks(&r) : parts_grid(&r.parts);
    relay_declare(&r);

    int releases = 4 * schedule->warps_m;
    k_comment(b, "rings of rows and of parts: 1 arrival fills a stage%s, %d free it",
              r.vectors.n ? ", of parts 2" : "", releases);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    pipeline_init(b, &r.row_ring, 1, releases);
    pipeline_init(b, &r.part_ring, r.vectors.n ? 2 : 1, releases);
    if (r.early_ring.stages)
        pipeline_init(b, &r.early_ring, 1, releases);
    if (plan->has_across) {
        pipeline_init(b, &r.across.ring, releases, 1);
        signals_init(b, &r.across.signals);
    }
    k_end(b);
    if (plan->has_across)
        signals_clear(b, &r.across.signals, plan->graph->dims);
    k_barrier(b);
    k_role_begin(b, "producer", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_dec, &schedule->producer_registers, NULL, 0);
    signals_meet(b, &r.across.signals);
    relay_produce(&r);
    if (plan->has_across) {
        relay_across_add(&r);
        relay_across_bring(&r);
    }
    k_else(b);
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_inc, &schedule->consumer_registers, NULL, 0);
    relay_consume(&r);
    k_end(b);
    kernel->summary = text_format(
        b->arena,
        "relay of %d products to %d%s by wgmma, parts of %d columns%s: %d rows, columns "
        "%d, %d stages, %d consumer warpgroups%s",
        plan->n_first, plan->n_last, plan->has_across ? " and one across" : "", schedule->tile_k,
        r.runs_ahead ? " that run ahead" : "", schedule->tile_m, schedule->tile_n, schedule->stages,
        schedule->warps_m, r.is_staged[0] ? matmul_staging_name(&r.staging[0]) : "");
}
