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
 * The producer brings q once a tile, and keys and values by rings of their own, keys one part ahead. Where
 * the values are columns of the keys' own rows (compressed keys: "DeepSeek-V2", 2024), a stage of keys is
 * both operands, and is free behind the second product. With two such stages that product comes before x of
 * the next part, whose stage may still be on its way.
 *
 * More columns of the second product than registers of a warpgroup hold are shared by two that have the same
 * rows (warps_n), each all parts' sums of its half. Of a part each does half of the columns of x, with their
 * exponentials; what both need of it goes through shared memory (chain_exchange.c).
 *
 * What is wanted of the rows besides is stored then too, as far as the largest element and the sum are enough
 * for it: the logarithm of a row's sum, for gradients.
 *
 * Where x is -inf beyond a band (Band), along the diagonal or behind the end of a sequence, parts of which a
 * tile's rows see nothing are neither loaded nor multiplied, and the elements of those that lie within the
 * band whole are not asked. */
#include "codegen/templates/chain_stream.h"

#include "codegen/templates/matmul_operand.h"

/* ---- the producer */

/* Ahead of a tile's loads: the matrices that indices choose, as a cache's of a sequence. (Pages are those of
 * each load.) */
static void stream_choose(Stream *s, const MatmulTile *tile) {
    const MatmulPlan *link = s->plan->link;
    s->query.chosen = matmul_chosen_matrix(s->b, &link[0], s->query.operand, tile->batch);
    s->key.chosen = matmul_chosen_matrix(s->b, &link[0], s->key.operand, tile->batch);
    if (!s->keeps_values)
        s->value.chosen = matmul_chosen_matrix(s->b, &link[1], s->value.operand, tile->batch);
}

static void stream_load_keys(Stream *s, const PipelineState *key, const KExpr *part, const MatmulTile *tile) {
    Builder *b = s->b;
    parts_load_begin(b, &s->plan->link[0], &s->key, &s->keys, key,
                     k_mul(b, part, k_i32(b, s->schedule->tile_k)), k_i32(b, 0), tile, stream_keyed_bytes(s));
    stream_keyed_load(s, k_var(b, key->stage), pipeline_full_address(b, &s->keys, key), part, tile);
    pipeline_advance(b, &s->keys, key);
}

static void stream_load_values(Stream *s, const PipelineState *value, const KExpr *end,
                               const MatmulTile *tile) {
    Builder *b = s->b;
    if (s->keeps_values)
        return;
    const KExpr *part = k_sub(b, end, k_i32(b, 1));
    parts_load(b, &s->plan->link[1], &s->value, &s->values, value, k_i32(b, 0),
               k_mul(b, part, k_i32(b, s->schedule->tile_k)), tile);
}

static void stream_produce(Stream *s) {
    Builder *b = s->b;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), zero));
    PipelineState query = pipeline_start(b, &s->queries), key = pipeline_start(b, &s->keys), value = {0};
    if (!s->keeps_values)
        value = pipeline_start(b, &s->values);
    MatmulTile tile = parts_tiles_begin(&s->parts, &s->plan->link[1]);
    parts_find(&s->parts, &tile);
    parts_if_any_begin(&s->parts);
    stream_choose(s, &tile);
    parts_load(b, &s->plan->link[0], &s->query, &s->queries, &query, tile.row, zero, &tile);
    stream_load_keys(s, &key, s->parts.first, &tile);
    const KExpr *part = k_for_begin(b, "part", k_add(b, s->parts.first, one), s->parts.end, 1, UNROLL_NONE);
    stream_load_keys(s, &key, part, &tile);
    stream_load_values(s, &value, part, &tile);
    k_end(b);
    stream_load_values(s, &value, s->parts.end, &tile);
    parts_if_any_end(&s->parts);
    k_end(b);
    k_end(b);
}

/* ---- the consumers: products */

/* Issues q @ k.T of a part, of the columns that are the warpgroup's. */
static void stream_issue_scores(Stream *s, const KExpr *stage) {
    Builder *b = s->b;
    const MatmulOperand *query = s->query.operand, *key = s->key.operand;
    const KExpr *at = parts_stage(b, &s->key.tile, s->key_at, stage), *query_at = s->query_at;
    /* its sums with k are the same for all parts, and would take two registers each */
    if (s->across)
        query_at = matmul_anew(b, "again", query_at);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int k = 0; k < stream_depth(s->plan); k += PARTS_K) {
        KOperand operands[] = {k_regs(s->scores, 0, s->scores->count),
                               k_operand(parts_from(b, &s->query.tile, query->major, query_at, k)),
                               k_operand(parts_from(b, &s->key.tile, key->major, at, k)),
                               k_operand(k_int(b, K_U32, k > 0))};
        int shape[] = {stream_scored(s->schedule), (int)query->elem, query->major == MAJOR_MN,
                       key->major == MAJOR_MN};
        k_atom(b, ATOM_wgmma_16bit, shape, operands, 4);
    }
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
}

/* Issues o += p @ v of a part: p of the warpgroup's own columns of x, then of those of the other one. */
static void stream_issue_sums(Stream *s, const KExpr *stage) {
    Builder *b = s->b;
    const MatmulOperand *operand = s->value.operand;
    const KExpr *at[STREAM_ACROSS_MOST];
    int scored = stream_scored(s->schedule);
    for (int i = 0; i < stream_across(s->schedule); i++)
        at[i] = parts_stage(b, &s->value.tile, s->value_at[i], stage);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int k = 0; k < s->schedule->tile_k; k += PARTS_K) {
        KOperand operands[] = {
            k_regs(s->sums, 0, s->sums->count), k_regs(s->packed, k / 4, 4),
            k_operand(parts_from(b, &s->value.tile, operand->major, at[k / scored], k % scored)),
            k_operand(k_int(b, K_U32, 1))};
        int shape[] = {stream_summed(s->schedule), (int)operand->elem, operand->major == MAJOR_MN};
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

/* First column of a part that the warpgroup has. */
static const KExpr *stream_part_col(Stream *s, const KExpr *part) {
    Builder *b = s->b;
    const KExpr *col = k_mul(b, part, k_i32(b, s->schedule->tile_k));
    if (s->across)
        col = k_add(b, col, k_mul(b, s->across, k_i32(b, stream_scored(s->schedule))));
    return k_let_expr(b, "part_col", col);
}

static void stream_release_keys(Stream *s, const PipelineState *key) {
    if (!s->keeps_values)
        pipeline_release(s->b, &s->keys, k_var(s->b, key->stage), NULL);
}

/* The first product of a part has ended. What came with its keys is still to be read. */
static void stream_next_keys(Stream *s, const PipelineState *key) {
    if (s->keyed.n)
        stream_keyed_take(s, key);
    else
        stream_release_keys(s, key);
    pipeline_advance(s->b, &s->keys, key);
}

static void stream_next_values(Stream *s, const PipelineState *value) {
    pipeline_release(s->b, &s->values, k_var(s->b, value->stage), NULL);
    pipeline_advance(s->b, &s->values, value);
}

static void stream_wait_values(Stream *s, const PipelineState *value) {
    if (!s->keeps_values)
        pipeline_wait_full(s->b, &s->values, value);
}

/* Parts that are the others' alone: the warpgroup only frees their stages. */
static void stream_skip(Stream *s, const KExpr *first, const KExpr *end, const PipelineState *key,
                        const PipelineState *value) {
    Builder *b = s->b;
    if (first == end)
        return;
    k_for_begin(b, "skipped", first, end, 1, UNROLL_NONE);
    pipeline_wait_full(b, &s->keys, key);
    stream_release_keys(s, key);
    pipeline_advance(b, &s->keys, key);
    stream_wait_values(s, value);
    stream_next_values(s, value);
    k_end(b);
}

/* The second product of a part ends. */
static void stream_end_sums(Stream *s, const PipelineState *value) {
    stream_wait(s, 0, s->sums);
    stream_next_values(s, value);
}

/* x of the next part is computed ahead of the sums of this one, which go on during its exponentials. */
static void stream_ahead(Stream *s, const PipelineState *key, const PipelineState *value) {
    Builder *b = s->b;
    pipeline_wait_full(b, &s->keys, key);
    stream_issue_scores(s, k_var(b, key->stage));
    stream_wait_values(s, value);
    stream_issue_sums(s, k_var(b, value->stage));
    stream_wait(s, 1, s->scores);
    stream_next_keys(s, key);
}

/* Whether two stages have keys and values of a part each: then none would be on its way while x of the next
 * part waits for its stage, and this part's sums behind it. */
static bool stream_sums_first(const Stream *s) {
    return s->keeps_values && s->schedule->stages == 2;
}

/* This part's sums come first, and what they free is filled during all that the next part needs. */
static void stream_behind(Stream *s, const PipelineState *key, const PipelineState *value) {
    Builder *b = s->b;
    stream_issue_sums(s, k_var(b, value->stage));
    pipeline_wait_full(b, &s->keys, key);
    stream_issue_scores(s, k_var(b, key->stage));
    stream_wait(s, 1, s->sums);
    stream_next_values(s, value);
    stream_wait(s, 0, s->scores);
    stream_next_keys(s, key);
}

static void stream_parts_of_tile(Stream *s, const MatmulTile *tile, PartsAt *at, PipelineState *query,
                                 PipelineState *key, PipelineState *value) {
    Builder *b = s->b;
    const KExpr *one = k_i32(b, 1);
    MatmulFragment scores = stream_fragment(s, s->scores, stream_scored(s->schedule), at->lane_row);
    scores.tile_cols = s->schedule->tile_k;
    pipeline_wait_full(b, &s->queries, query);
    s->query_at = parts_stage(b, &s->query.tile, s->query_first, k_var(b, query->stage));
    stream_skip(s, s->parts.first, s->parts.own_first, key, value);
    pipeline_wait_full(b, &s->keys, key);
    stream_issue_scores(s, k_var(b, key->stage));
    stream_wait(s, 0, s->scores);
    stream_next_keys(s, key);
    at->col = stream_part_col(s, s->parts.own_first);
    stream_softmax(s, &scores, tile, at);
    stream_pack(s);
    const KExpr *part =
        k_for_begin(b, "part", k_add(b, s->parts.own_first, one), s->parts.own_end, 1, UNROLL_NONE);
    (stream_sums_first(s) ? stream_behind : stream_ahead)(s, key, value);
    at->col = stream_part_col(s, part);
    stream_softmax(s, &scores, tile, at);
    if (!stream_sums_first(s))
        stream_end_sums(s, value);
    stream_scale_sums(s);
    stream_pack(s);
    k_end(b);
    pipeline_release(b, &s->queries, k_var(b, query->stage), NULL);
    pipeline_advance(b, &s->queries, query);
    stream_wait_values(s, value);
    stream_issue_sums(s, k_var(b, value->stage));
    stream_end_sums(s, value);
    stream_skip(s, s->parts.own_end, s->parts.end, key, value);
}

/* Descriptors of the first stages. A warpgroup that shares its rows has some of a part's columns, with which
 * it begins the sums, and some of the sums' columns. */
static void stream_describe(Stream *s, const KExpr *group) {
    Builder *b = s->b;
    int rows = s->query.operand->major == MAJOR_K ? WGMMA_M : 0;
    int64_t own = tile_descriptor_offset(&s->query.tile, rows, WGMMA_M - rows); /* of a warpgroup's rows */
    const KExpr *query = tile_descriptor(b, &s->query.tile, s->query.operand->major),
                *key = tile_descriptor(b, &s->key.tile, s->key.operand->major),
                *value = tile_descriptor(b, &s->value.tile, s->value.operand->major);
    const KExpr *number = k_convert(b, group, K_U64);
    if (s->keeps_values)
        value = k_add(b, value,
                      k_int(b, K_U64, tile_descriptor_offset(&s->value.tile, 0, (int)s->plan->values_from)));
    if (!s->across) {
        query = k_add(b, query, k_mul(b, number, k_int(b, K_U64, own)));
    } else {
        int scored = stream_scored(s->schedule);
        int64_t first = tile_descriptor_offset(&s->key.tile, scored, 0),
                column = tile_descriptor_offset(&s->value.tile, 0, stream_summed(s->schedule)),
                row = tile_descriptor_offset(&s->value.tile, scored, 0);
        key = k_add(b, key, k_mul(b, number, k_int(b, K_U64, first)));
        value = k_add(b, value, k_mul(b, number, k_int(b, K_U64, column)));
        const KExpr *other = k_sub(b, k_int(b, K_U64, 1), number);
        s->value_at[1] =
            k_let_expr(b, "others_values", k_add(b, value, k_mul(b, other, k_int(b, K_U64, row))));
        value = k_add(b, value, k_mul(b, number, k_int(b, K_U64, row)));
    }
    s->query_first = k_let_expr(b, "query_descriptor", query);
    s->key_at = k_let_expr(b, "key_descriptor", key);
    s->value_at[0] = k_let_expr(b, "value_descriptor", value);
}

/* What the sums are in the end, and what rows have besides, once for all who share them. */
static void stream_store(Stream *s, const MatmulTile *tile, const PartsAt *at, const PartsLane *place) {
    Builder *b = s->b;
    int summed = stream_summed(s->schedule);
    MatmulFragment scores = stream_fragment(s, s->scores, stream_scored(s->schedule), at->lane_row);
    scores.col = place->col;
    if (s->across && s->rows)
        k_if_begin(b, k_eq(b, s->across, k_i32(b, 0)));
    stream_store_rows(s, &scores, tile);
    if (s->across && s->rows)
        k_end(b);
    MatmulFragment fragment = stream_fragment(s, s->sums, summed, at->lane_row);
    const KExpr *first = s->across ? k_mul(b, s->across, k_i32(b, summed)) : k_i32(b, 0);
    fragment.col = k_add(b, first, place->col);
    fragment.tile_cols = s->schedule->tile_n;
    fragment.is_whole = !s->across;
    s->staging.row = k_add(b, tile->row, place->warp_row);
    s->staging.col = first;
    matmul_epilogue(b, &s->plan->link[1], s->lower[1], &fragment, tile->batch,
                    s->is_staged ? &s->staging : NULL, NULL, NULL);
}

static void stream_consume(Stream *s) {
    Builder *b = s->b;
    const KExpr *warp = k_let_expr(b, "warp", k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    const KExpr *group = k_let_expr(b, "warpgroup", k_div(b, warp, k_i32(b, 4)));
    if (stream_across(s->schedule) > 1)
        s->across = group;
    stream_describe(s, group);
    PipelineState query = pipeline_start(b, &s->queries), key = pipeline_start(b, &s->keys),
                  value = pipeline_start(b, &s->values);
    PartsLane place = parts_lane(b, warp, s->across ? k_i32(b, 0) : group);
    if (s->is_staged) {
        s->staging.owner = warp;
        matmul_boxes_begin(b, &s->staging);
    }
    MatmulTile tile = parts_tiles_begin(&s->parts, &s->plan->link[1]);
    PartsAt at = {.warp_row = k_let_expr(b, "first_row", k_add(b, tile.row, place.warp_row)),
                  .lane_row = k_let_expr(b, "own_row", k_add(b, tile.row, place.row)),
                  .lane_col = place.col};
    s->place = place.row;
    stream_declare_tile(s);
    parts_find(&s->parts, &tile);
    if (!s->across)
        parts_find_own(&s->parts, k_add(b, tile.row, k_mul(b, group, k_i32(b, WGMMA_M))));
    MatmulFragment scores = stream_fragment(s, s->scores, stream_scored(s->schedule), at.lane_row);
    stream_begin_with_sink(s, &scores, &tile);
    parts_if_any_begin(&s->parts);
    if (s->seen.value || s->held != s->plan->link[0].core[0])
        s->row_inputs = matmul_load_rows(b, &s->plan->link[0], s->lower[0], &scores, tile.batch);
    stream_parts_of_tile(s, &tile, &at, &query, &key, &value);
    parts_if_any_end(&s->parts);
    stream_divide(s);
    stream_store(s, &tile, &at, &place);
    k_end(b);
    if (s->is_staged)
        matmul_boxes_end(b, &s->staging);
}

/* ---- the kernel */

void chain_stream_build(Builder *b, const ChainPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    int depth = stream_width(plan);
    Stream s = {.b = b, .plan = plan, .schedule = schedule};
    s.parts = (Parts){.b = b,
                      .plan = &plan->link[0],
                      .tiles = chain_tiles(plan, schedule),
                      .rows = schedule->tile_m,
                      .width = schedule->tile_k,
                      .bytes = stream_bytes(plan, schedule)};
    s.keeps_values = stream_keeps_values(plan, schedule);
    stream_find_scores(&s);
    kernel->threads = WARPGROUP * (1 + parts_groups(schedule));
    kernel->min_blocks = 1;
    kernel->grid[0] = parts_grid(&s.parts);
    s.query = parts_operand(b, &plan->link[0], &plan->link[0].a, "query_tile", schedule->tile_m, depth,
                            stream_queries(plan, schedule), true);
    s.key = parts_operand(b, &plan->link[0], &plan->link[0].b[0], "key_tile", schedule->tile_k, depth,
                          schedule->stages, !s.keeps_values);
    if (s.keeps_values)
        s.value = (MatmulTma){.operand = &plan->link[1].b[0], .tile = s.key.tile};
    else
        s.value = parts_operand(b, &plan->link[1], &plan->link[1].b[0], "value_tile",
                                stream_values_width(schedule), schedule->tile_k, schedule->stages, true);
    stream_keyed_declare(&s);
    Schedule store = parts_store_schedule(schedule);
    s.is_staged = matmul_staging(b, &plan->link[1], &store, NULL, &s.staging);
    s.queries = pipeline_new(b, "query", stream_queries(plan, schedule));
    s.keys = pipeline_new(b, "key", schedule->stages);
    s.values = s.keeps_values ? s.keys : pipeline_new(b, "value", schedule->stages);
    if (stream_across(schedule) > 1)
        s.exchange = stream_exchange_new(b, schedule, plan->link[1].b[0].elem);
    for (int i = 0; i < 2; i++)
        s.lower[i] = lower_new(b, plan->link[i].region);
    s.parts.lower = s.lower[0];
    if (plan->rows.region)
        s.rows = lower_new(b, plan->rows.region);
    if (plan->weighed.region)
        s.weighed = lower_new(b, plan->weighed.region);
    if (plan->sink.region)
        s.sink = lower_new(b, plan->sink.region);

    int releases = 4 * parts_groups(schedule);
    k_comment(b, "rings of queries, keys and values: 1 arrival fills a stage, %d free it", releases);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    pipeline_init(b, &s.queries, 1, releases);
    pipeline_init(b, &s.keys, 1, releases);
    if (!s.keeps_values)
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
        "%d stages, %d consumer warpgroups%s%s%s",
        schedule->tile_k, schedule->tile_m, schedule->tile_n, schedule->stages, parts_groups(schedule),
        s.across ? " that share the rows" : "", s.keeps_values ? ", values that are columns of the keys" : "",
        s.is_staged ? matmul_staging_name(&s.staging) : "");
}
