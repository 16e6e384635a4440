/* Two chained products with a softmax of any length between them: attention over many keys.
 *
 *     x = what is computed of q @ k.T           parts of tile_k columns, one after the other
 *     o = softmax(x) @ v                        64 rows a warpgroup, all columns in its registers
 *
 * No row of x is ever whole. A part counts from the largest element so far, and where it has a larger one,
 * what was summed before is scaled down to it ("Online normalizer calculation for softmax", 2018;
 * "FlashAttention", 2022); at the end the row is divided by its sum. The products of the next part run ahead:
 * while the tensor cores have x of part j + 1 and the second product of part j, in this order, the
 * exponentials of part j + 1 begin as soon as the first of the two has ended.
 *
 *     tensor cores   | x of 0 |            | x of 1 | o += p of 0 |     | x of 2 | o += p of 1 | ...
 *     registers               | p of 0 |            | p of 1      |               | p of 2 ...
 *
 * The producer brings q once a tile, and keys and values by rings of their own, keys one part ahead.
 *
 * What is wanted of the rows besides is stored then too, as far as the largest element and the sum are enough
 * for it: the logarithm of a row's sum, for gradients.
 *
 * Where x is -inf beyond a band (Band), along the diagonal or behind the end of a sequence, parts of which a
 * tile's rows see nothing are neither loaded nor multiplied, and the elements of those that lie within the
 * band whole are not asked. */
#include "codegen/templates/chain_stream.h"

#include "codegen/cost.h"
#include "codegen/templates/matmul_operand.h"

/* ---- sizes */

static int stream_depth(const ChainPlan *plan) {
    return (int)((dim_upper(plan->graph->dims, plan->link[0].k) + PARTS_K - 1) / PARTS_K * PARTS_K);
}

static int64_t stream_smem_with(const ChainPlan *plan, const Schedule *s, int queries) {
    Schedule store = parts_store_schedule(s);
    int64_t depth = stream_depth(plan), part = (depth + s->tile_n) * s->tile_k;
    return 2 * (queries * s->tile_m * depth + s->stages * part) +
           matmul_staging_bytes(&plan->link[1], &store) + BARRIER_BYTES;
}

/* Tiles of queries in memory: two where they fit, so that the next tile's parts are on their way while this
 * one's last are multiplied. */
static int stream_queries(const ChainPlan *plan, const Schedule *s) {
    return stream_smem_with(plan, s, 2) <= plan->target->smem_per_block ? 2 : 1;
}

/* What 160 registers hold without spilling: 64 columns of sums and parts of 128. */
static int stream_registers(const Schedule *s) {
    enum { ROWS_AND_ADDRESSES = 32 };
    return ROWS_AND_ADDRESSES + s->tile_n / 2 + s->tile_k / 2 + s->tile_k / 4;
}

bool chain_stream_accepts(const ChainPlan *plan, const Schedule *s, const char **why) {
    const Target *target = plan->target;
    if (!parts_accepts(target, s, why))
        return false;
    *why = "tile_n is the columns of the second product, tile_k those of a part of the softmax";
    if (s->tile_n != plan->columns[1] || s->tile_n > WGMMA_N_MAX || s->tile_k < PARTS_K ||
        s->tile_k > WGMMA_N_MAX || s->tile_k % PARTS_K != 0)
        return false;
    *why = "the accumulators do not fit the registers";
    if (stream_registers(s) > parts_registers(target, s))
        return false;
    *why = "the stages do not fit shared memory";
    if (stream_smem_with(plan, s, 1) > target->smem_per_block)
        return false;
    *why = NULL;
    return true;
}

/* Warpgroups of a block: three where their registers suffice and tiles of theirs have hardly more rows behind
 * the last than those of two: 64 heads of 4096 x 4096 x 64 took 526 us so, 581 by two. */
static int stream_groups(const ChainPlan *plan, const DimBindings *hint) {
    enum { NARROW = 64 };
    int64_t rows = cost_extent(plan->graph, plan->link[0].m, hint);
    int64_t threes = (rows + 3 * WGMMA_M - 1) / (3 * WGMMA_M),
            twos = (rows + 2 * WGMMA_M - 1) / (2 * WGMMA_M);
    if (plan->columns[1] <= NARROW && 20 * 3 * threes <= 21 * 2 * twos)
        return 3;
    return rows > WGMMA_M ? 2 : 1;
}

/* Parts of 128 columns, where memory and registers hold them: those of 96, 112, 144 and 160 took longer. Two
 * stages are enough: L2 has what they bring, and for few rows more of them bring memory no sooner. */
int chain_stream_schedules(const ChainPlan *plan, const DimBindings *hint, Schedule *out, int room) {
    static const int parts[] = {128, 96, 64};
    const char *why;
    int n = 0;
    for (int groups = stream_groups(plan, hint); groups >= 1; groups--)
        for (size_t i = 0; i < sizeof parts / sizeof *parts && n < room; i++) {
            Schedule s = parts_schedule(groups, plan->columns[1], parts[i]);
            s.stages = 2;
            if (chain_stream_accepts(plan, &s, &why))
                out[n++] = s;
        }
    return n;
}

/* ---- the producer */

/* Ahead of a tile's loads: the matrices that indices choose, as a cache's of a sequence. (Pages are those of
 * each load.) */
static void stream_choose(Stream *s, const MatmulTile *tile) {
    const MatmulPlan *link = s->plan->link;
    s->query.chosen = matmul_chosen_matrix(s->b, &link[0], s->query.operand, tile->batch);
    s->key.chosen = matmul_chosen_matrix(s->b, &link[0], s->key.operand, tile->batch);
    s->value.chosen = matmul_chosen_matrix(s->b, &link[1], s->value.operand, tile->batch);
}

static void stream_produce(Stream *s) {
    Builder *b = s->b;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *width = k_i32(b, s->schedule->tile_k);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), zero));
    PipelineState query = pipeline_start(b, &s->queries), key = pipeline_start(b, &s->keys),
                  value = pipeline_start(b, &s->values);
    MatmulTile tile = parts_tiles_begin(&s->parts, &s->plan->link[1]);
    parts_find(&s->parts, &tile);
    parts_if_any_begin(&s->parts);
    stream_choose(s, &tile);
    parts_load(b, &s->plan->link[0], &s->query, &s->queries, &query, tile.row, zero, &tile);
    parts_load(b, &s->plan->link[0], &s->key, &s->keys, &key, k_mul(b, s->parts.first, width), zero, &tile);
    const KExpr *part = k_for_begin(b, "part", k_add(b, s->parts.first, one), s->parts.end, 1, UNROLL_NONE);
    parts_load(b, &s->plan->link[0], &s->key, &s->keys, &key, k_mul(b, part, width), zero, &tile);
    parts_load(b, &s->plan->link[1], &s->value, &s->values, &value, zero,
               k_mul(b, k_sub(b, part, one), width), &tile);
    k_end(b);
    parts_load(b, &s->plan->link[1], &s->value, &s->values, &value, zero,
               k_mul(b, k_sub(b, s->parts.end, one), width), &tile);
    parts_if_any_end(&s->parts);
    k_end(b);
    k_end(b);
}

/* ---- the consumers: products */

/* Issues q @ k.T of a part. */
static void stream_issue_scores(Stream *s, const KExpr *stage) {
    Builder *b = s->b;
    const MatmulOperand *query = s->query.operand, *key = s->key.operand;
    const KExpr *at = parts_stage(b, &s->key.tile, s->key_at, stage);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int k = 0; k < stream_depth(s->plan); k += PARTS_K) {
        KOperand operands[] = {k_regs(s->scores, 0, s->scores->count),
                               k_operand(parts_from(b, &s->query.tile, query->major, s->query_at, k)),
                               k_operand(parts_from(b, &s->key.tile, key->major, at, k)),
                               k_operand(k_int(b, K_U32, k > 0))};
        int shape[] = {s->schedule->tile_k, (int)query->elem, query->major == MAJOR_MN,
                       key->major == MAJOR_MN};
        k_atom(b, ATOM_wgmma_16bit, shape, operands, 4);
    }
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
}

/* Issues o += p @ v of a part. */
static void stream_issue_sums(Stream *s, const KExpr *stage) {
    Builder *b = s->b;
    const MatmulOperand *operand = s->value.operand;
    const KExpr *at = parts_stage(b, &s->value.tile, s->value_at, stage);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int k = 0; k < s->schedule->tile_k; k += PARTS_K) {
        KOperand operands[] = {k_regs(s->sums, 0, s->sums->count), k_regs(s->packed, k / 4, 4),
                               k_operand(parts_from(b, &s->value.tile, operand->major, at, k)),
                               k_operand(k_int(b, K_U32, 1))};
        int shape[] = {s->schedule->tile_n, (int)operand->elem, operand->major == MAJOR_MN};
        k_atom(b, ATOM_wgmma_16bit_rs, shape, operands, 4);
    }
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
}

static void stream_wait(Stream *s, int groups, const KVar *settled) {
    k_atom(s->b, ATOM_wgmma_wait, &groups, NULL, 0);
    matmul_settle(s->b, settled);
}

/* ---- the consumers: a tile */

static MatmulFragment stream_fragment(const Stream *s, const KVar *accumulator, int columns,
                                      const KExpr *row) {
    return (MatmulFragment){.accumulator = {accumulator},
                            .blocks = 1,
                            .block_rows = WGMMA_M,
                            .halves = STREAM_HALVES,
                            .half_rows = 8,
                            .groups = columns / 8,
                            .group_cols = 8,
                            .width = 2,
                            .row = row,
                            .tile_rows = s->schedule->tile_m,
                            .tile_cols = columns,
                            .row_lanes = 4};
}

static void stream_parts_of_tile(Stream *s, const MatmulTile *tile, PartsAt *at, PipelineState *query,
                                 PipelineState *key, PipelineState *value) {
    Builder *b = s->b;
    const KExpr *one = k_i32(b, 1), *width = k_i32(b, s->schedule->tile_k);
    MatmulFragment scores = stream_fragment(s, s->scores, s->schedule->tile_k, at->lane_row);
    pipeline_wait_full(b, &s->queries, query);
    s->query_at = parts_stage(b, &s->query.tile, s->query_first, k_var(b, query->stage));
    pipeline_wait_full(b, &s->keys, key);
    stream_issue_scores(s, k_var(b, key->stage));
    stream_wait(s, 0, s->scores);
    pipeline_release(b, &s->keys, k_var(b, key->stage), NULL);
    pipeline_advance(b, &s->keys, key);
    at->col = k_let_expr(b, "part_col", k_mul(b, s->parts.first, width));
    stream_softmax(s, &scores, tile, at);
    stream_pack(s);
    const KExpr *part = k_for_begin(b, "part", k_add(b, s->parts.first, one), s->parts.end, 1, UNROLL_NONE);
    pipeline_wait_full(b, &s->keys, key);
    stream_issue_scores(s, k_var(b, key->stage));
    pipeline_wait_full(b, &s->values, value);
    stream_issue_sums(s, k_var(b, value->stage));
    stream_wait(s, 1, s->scores);
    pipeline_release(b, &s->keys, k_var(b, key->stage), NULL);
    pipeline_advance(b, &s->keys, key);
    at->col = k_let_expr(b, "part_col", k_mul(b, part, width));
    stream_softmax(s, &scores, tile, at);
    stream_wait(s, 0, s->sums);
    pipeline_release(b, &s->values, k_var(b, value->stage), NULL);
    pipeline_advance(b, &s->values, value);
    stream_scale_sums(s);
    stream_pack(s);
    k_end(b);
    pipeline_release(b, &s->queries, k_var(b, query->stage), NULL);
    pipeline_advance(b, &s->queries, query);
    pipeline_wait_full(b, &s->values, value);
    stream_issue_sums(s, k_var(b, value->stage));
    stream_wait(s, 0, s->sums);
    pipeline_release(b, &s->values, k_var(b, value->stage), NULL);
    pipeline_advance(b, &s->values, value);
}

static void stream_consume(Stream *s) {
    Builder *b = s->b;
    const KExpr *warp = k_let_expr(b, "warp", k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    const KExpr *group = k_let_expr(b, "warpgroup", k_div(b, warp, k_i32(b, 4)));
    int rows = s->query.operand->major == MAJOR_K ? WGMMA_M : 0;
    int64_t own = tile_descriptor_offset(&s->query.tile, rows, WGMMA_M - rows); /* of a warpgroup's rows */
    const KExpr *own_rows = k_mul(b, k_convert(b, group, K_U64), k_int(b, K_U64, own));
    s->query_first =
        k_let_expr(b, "query_descriptor",
                   k_add(b, tile_descriptor(b, &s->query.tile, s->query.operand->major), own_rows));
    s->key_at = k_let_expr(b, "key_descriptor", tile_descriptor(b, &s->key.tile, s->key.operand->major));
    s->value_at =
        k_let_expr(b, "value_descriptor", tile_descriptor(b, &s->value.tile, s->value.operand->major));
    PipelineState query = pipeline_start(b, &s->queries), key = pipeline_start(b, &s->keys),
                  value = pipeline_start(b, &s->values);
    PartsLane place = parts_lane(b, warp, group);
    if (s->is_staged) {
        s->staging.owner = warp;
        matmul_boxes_begin(b, &s->staging);
    }
    MatmulTile tile = parts_tiles_begin(&s->parts, &s->plan->link[1]);
    PartsAt at = {.warp_row = k_let_expr(b, "first_row", k_add(b, tile.row, place.warp_row)),
                  .lane_row = k_let_expr(b, "own_row", k_add(b, tile.row, place.row)),
                  .lane_col = place.col};
    stream_declare_tile(s);
    parts_find(&s->parts, &tile);
    parts_if_any_begin(&s->parts);
    stream_parts_of_tile(s, &tile, &at, &query, &key, &value);
    parts_if_any_end(&s->parts);
    stream_divide(s);
    MatmulFragment scores = stream_fragment(s, s->scores, s->schedule->tile_k, at.lane_row);
    scores.col = place.col;
    stream_store_rows(s, &scores, &tile);
    MatmulFragment fragment = stream_fragment(s, s->sums, s->schedule->tile_n, at.lane_row);
    fragment.col = place.col;
    fragment.is_whole = true;
    s->staging.row = k_add(b, tile.row, place.warp_row);
    s->staging.col = k_i32(b, 0);
    matmul_epilogue(b, &s->plan->link[1], s->lower[1], &fragment, tile.batch,
                    s->is_staged ? &s->staging : NULL, NULL, NULL);
    k_end(b);
    if (s->is_staged)
        matmul_boxes_end(b, &s->staging);
}

/* ---- the kernel */

void chain_stream_build(Builder *b, const ChainPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    int depth = stream_depth(plan);
    Stream s = {.b = b, .plan = plan, .schedule = schedule};
    s.parts = (Parts){.b = b,
                      .plan = &plan->link[0],
                      .tiles = chain_tiles(plan, schedule),
                      .rows = schedule->tile_m,
                      .width = schedule->tile_k,
                      .bytes = 2 * (depth + schedule->tile_n)};
    stream_find_scores(&s);
    kernel->threads = WARPGROUP * (1 + schedule->warps_m);
    kernel->min_blocks = 1;
    kernel->grid[0] = parts_grid(&s.parts);
    s.query = parts_operand(b, &plan->link[0], &plan->link[0].a, "query_tile", schedule->tile_m, depth,
                            stream_queries(plan, schedule), true);
    s.key = parts_operand(b, &plan->link[0], &plan->link[0].b[0], "key_tile", schedule->tile_k, depth,
                          schedule->stages, true);
    s.value = parts_operand(b, &plan->link[1], &plan->link[1].b[0], "value_tile", schedule->tile_n,
                            schedule->tile_k, schedule->stages, true);
    Schedule store = parts_store_schedule(schedule);
    s.is_staged = matmul_staging(b, &plan->link[1], &store, NULL, &s.staging);
    s.queries = pipeline_new(b, "query", stream_queries(plan, schedule));
    s.keys = pipeline_new(b, "key", schedule->stages);
    s.values = pipeline_new(b, "value", schedule->stages);
    for (int i = 0; i < 2; i++)
        s.lower[i] = lower_new(b, plan->link[i].region);
    s.parts.lower = s.lower[0];
    if (plan->rows.region)
        s.rows = lower_new(b, plan->rows.region);

    int releases = 4 * schedule->warps_m;
    k_comment(b, "rings of queries, keys and values: 1 arrival fills a stage, %d free it", releases);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    pipeline_init(b, &s.queries, 1, releases);
    pipeline_init(b, &s.keys, 1, releases);
    pipeline_init(b, &s.values, 1, releases);
    k_end(b);
    k_barrier(b);
    k_role_begin(b, "producer", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_dec, &schedule->producer_registers, NULL, 0);
    stream_produce(&s);
    k_else(b);
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_inc, &schedule->consumer_registers, NULL, 0);
    stream_consume(&s);
    k_end(b);
    kernel->summary = text_format(
        b->arena,
        "chain of 2 products by wgmma, a softmax between them in parts of %d columns: %d rows, columns %d, "
        "%d stages, %d consumer warpgroups%s",
        schedule->tile_k, schedule->tile_m, schedule->tile_n, schedule->stages, schedule->warps_m,
        s.is_staged ? matmul_staging_name(&s.staging) : "");
}
