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
 * The blocks of a cluster that are neighbours along m need the same tile of B: each loads its part of it into
 * all of them (multicast); along n, the same with A. A stage is free when the consumers of all blocks that it
 * is loaded with have released it, those in the same row and the same column of the cluster:
 *
 *     rank 0 | 1     0 and 1 share B, 0 and 2 share A: each loads half of both, and hears from two others'
 *          2 | 3     consumers, not from the block across
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
 * An operand that has to be computed gets a warpgroup of its own between the two (matmul_convert.c), or is
 * computed by those who multiply, in the registers that the products take it from (wgmma_fragments.c).
 *
 * Products that are added up take their steps one behind the other, in the same stages and accumulators
 * (wgmma_sum.c).
 *
 * Rows that are reduced once they are stored may be computed by the warps of the producer's warpgroup, which
 * have nothing else to do (wgmma_guest.c), or sums of columns of what the product reads
 * (wgmma_guest_columns.c).
 *
 * swap_ab computes the transposed product: then "rows" of the tile lie along N of the result, and M lies
 * along wgmma's n: a small one, or one that tiles of 80 or 160 divide better than those of 64. */
#include "codegen/template.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

/* Column vectors that fit beside the stages without costing a block of the SM. */
static void wgmma_find_vectors(const MatmulPlan *plan, const Schedule *schedule, MatmulVectors *vectors) {
    int blocks = matmul_blocks_per_sm(plan, schedule);
    int64_t room = blocks == 1 ? plan->target->smem_per_block : plan->target->smem_per_sm / blocks - 1024;
    *vectors = (MatmulVectors){0};
    if (!schedule->swap_ab && matmul_split(schedule) == 1)
        matmul_find_vectors(plan, schedule->tile_n / matmul_members(plan, schedule).n, 2 * schedule->warps_m,
                            room - matmul_smem_wgmma(plan, schedule), vectors);
}

/* Starts the copies of the tile's columns of each vector; zeros behind the last column. */
static void wgmma_start_vectors(Wgmma *w, const KExpr *group, const MatmulTile *tile) {
    Builder *b = w->b;
    int cols = w->tiles.tile_n;
    if (!w->vectors.n)
        return;
    k_set(b, w->side, k_sub(b, k_i32(b, 1), k_var(b, w->side)));
    const KExpr *copy = k_add(b, k_mul(b, k_var(b, w->side), k_i32(b, w->consumers)), group);
    w->vectors.base = k_let_expr(b, "vector_base", k_mul(b, copy, k_i32(b, cols)));
    for (int i = 0; i < w->vectors.n; i++) {
        const Value *value = w->vectors.value[i];
        int bytes = VECTORS_WORD, word = 8 * bytes / dtype_bits(value->dtype), words = cols / word;
        const KExpr *thread = k_mod(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP));
        for (int first = 0; first < words; first += WARPGROUP) {
            const KExpr *number = k_add(b, thread, k_i32(b, first)), *col = k_mul(b, number, k_i32(b, word));
            const KExpr *at = k_add(b, tile->col, col), *read = k_int(b, K_U32, bytes);
            if (!w->tiles.cols_end && dim_divisor(w->plan->graph->dims, w->plan->n) % w->tiles.span_n != 0)
                read = matmul_vector_bytes(b, w->plan, value, at);
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
    matmul_meet_group(b, group, w->consumers);
}

/* The parts of the cluster's blocks meet; each finishes a share of the tile. */
static void wgmma_finish_split(Wgmma *w, Lower *lower, MatmulFragment *fragment, const MatmulTile *tile,
                               const KExpr *lane_row, const KExpr *lane_col) {
    Builder *b = w->b;
    bool is_swapped = w->schedule->swap_ab;
    fragment->row = lane_row;
    fragment->col = lane_col;
    matmul_partials_put(b, w->plan, &w->parts, fragment);
    k_cluster_barrier(b);
    int threads = WARPGROUP * w->consumers;
    const KExpr *thread = k_let_expr(b, "thread", k_sub(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP)));
    matmul_partials_finish(b, w->plan, lower, &w->parts, thread, threads, is_swapped ? tile->col : tile->row,
                           is_swapped ? tile->row : tile->col, tile->batch);
}

/* The thread's first column within a tile; where columns move, known anew for each tile. What is one for each
 * column of a block, and the same for all tiles, compilers would read ahead of the loop over tiles, and keep
 * in registers, or spilled, all through the products. (Where none move it comes by shared memory,
 * MatmulVectors.)
 */
static const KExpr *wgmma_own_col(Wgmma *w, const KExpr *lane_col) {
    if (!w->schedule->persistent || !w->plan->region->column_block)
        return lane_col;
    return matmul_anew(w->b, "own_col", lane_col);
}

/* What the thread has of a tile. */
static MatmulFragment wgmma_fragment(const Wgmma *w, const MatmulTile *tile, const KExpr *lane_row,
                                     const KExpr *lane_col) {
    Builder *b = w->b;
    MatmulFragment fragment = {.blocks = w->blocks,
                               .block_rows = WGMMA_M,
                               .halves = 2,
                               .half_rows = 8,
                               .groups = w->tiles.tile_n / 8,
                               .group_cols = 8,
                               .block_groups = w->schedule->tile_n / 8,
                               .width = 2,
                               .row = k_add(b, tile->row, lane_row),
                               .col = k_add(b, tile->col, lane_col),
                               .lane_col = lane_col,
                               .tile_rows = w->tiles.rows_end ? 1 : w->tiles.span_m,
                               .tile_cols = w->tiles.cols_end ? 1 : w->tiles.span_n,
                               .row_lanes = 4,
                               .is_swapped = w->schedule->swap_ab,
                               .operand_rows = w->operand_rows.at};
    for (int core = 0; core < w->plan->n_cores; core++)
        fragment.accumulator[core] = w->accumulator[core];
    return fragment;
}

/* What a consumer needs to store a tile. */
typedef struct WgmmaStore {
    Lower *lower;
    MatmulStaging *staging; /* NULL: registers to memory */
    const KExpr *warp, *group, *warp_row, *lane_row, *lane_col;
    const PipelineState *state;
} WgmmaStore;

/* The thread's rows, and the warp's boxes, as places of the tile's patch. */
static void wgmma_place_rows(Wgmma *w, const MatmulTile *tile, const WgmmaStore *store,
                             MatmulFragment *fragment, MatmulStaging *staging) {
    Builder *b = w->b;
    const MatmulPatch *patch = &w->tiles.patch;
    const KExpr *group = k_div(b, store->warp_row, k_i32(b, PATCH_GROUP));
    const KExpr *lane = k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, 4));
    MatmulPlace *first = ARENA_NEW(b->arena, MatmulPlace), *own = ARENA_NEW(b->arena, MatmulPlace);
    *first = matmul_patch_place(b, patch, tile->row, group, k_i32(b, 0));
    *own = *first;
    own->at[0] = k_add(b, first->at[0], lane);
    fragment->row = k_add(b, k_add(b, tile->row, k_mul(b, group, k_i32(b, patch->rows_apart))), lane);
    fragment->half_rows = (int)patch->rows_apart;
    fragment->block_rows = (int)patch->rows_apart * (WGMMA_M / PATCH_GROUP);
    fragment->place = own;
    if (staging)
        staging->place = first;
}

/* The thread's rows as taps and channels. */
static void wgmma_tap_rows(Wgmma *w, const MatmulTile *tile, const WgmmaStore *store,
                           MatmulFragment *fragment) {
    enum { WARP_ROWS = 16 };
    Builder *b = w->b;
    const MatmulPatch *patch = &w->tiles.patch;
    const WindowsAxis *axis = patch->windows->axis;
    const KExpr *channels = k_i32(b, patch->windows->channels->value), *each = k_i32(b, patch->channels);
    const KExpr *first = k_mul(b, store->group, k_i32(b, w->blocks)), *across = k_i32(b, patch->across);
    const KExpr *lane = k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, 4));
    const KExpr *in_block = k_mul(b, k_mod(b, store->warp, k_i32(b, 4)), k_i32(b, WARP_ROWS));
    const KExpr *beside = k_div(b, in_block, each), *channel = k_add(b, k_mod(b, in_block, each), lane);
    MatmulTapRows *rows = ARENA_NEW(b->arena, MatmulTapRows);
    rows->patch = patch;
    rows->tap = k_add(b, k_mul(b, k_mod(b, first, across), k_i32(b, patch->beside)), beside);
    rows->line = k_div(b, first, across);
    if (patch->axes > 1) {
        const KExpr *line = k_div(b, k_div(b, tile->row, channels), k_i32(b, axis[0].taps));
        rows->line = k_add(b, rows->line, k_mod(b, line, k_i32(b, axis[1].taps)));
    }
    rows->channel = k_add(b, k_mod(b, tile->row, channels), channel);
    const KExpr *row = k_add(b, tile->row, matmul_patch_rows_to(b, patch, first));
    fragment->row = k_add(b, row, k_add(b, k_mul(b, beside, channels), channel));
    fragment->taps = rows;
}

static void wgmma_store_tile(Wgmma *w, const MatmulTile *tile, const WgmmaStore *store) {
    Builder *b = w->b;
    MatmulStaging *staging = store->staging;
    signals_wait(w->b, &w->signals);
    wgmma_stream_own_begin(w, store->warp);
    const KExpr *member = epilogue_loop(b, "member", w->tiles.members.n);
    MatmulBatch batch = matmul_member_batch(b, w->plan, &w->tiles.members, tile->batch, member);
    MatmulFragment fragment = wgmma_fragment(w, tile, store->lane_row, wgmma_own_col(w, store->lane_col));
    if (w->gang.blocks > 1)
        fragment.gang = &w->gang;
    if (w->tiles.members.n > 1)
        fragment.first_group = k_mul(b, member, k_i32(b, fragment.groups));
    if (w->tiles.patch.is_along_k)
        wgmma_tap_rows(w, tile, store, &fragment);
    else if (w->tiles.patch.axes)
        wgmma_place_rows(w, tile, store, &fragment, staging);
    if (staging) {
        staging->owner = staging->is_swapped ? store->group : store->warp;
        staging->row = k_add(b, tile->row, matmul_boxes_row(b, staging, store->warp_row));
        staging->col = tile->col;
    }
    w->inputs.pipeline = &w->pipeline;
    w->inputs.state = store->state;
    w->inputs.row = store->warp_row;
    matmul_epilogue(b, w->plan, store->lower, &fragment, batch.at, staging, w->vectors.n ? &w->vectors : NULL,
                    w->inputs.n ? &w->inputs : NULL);
    epilogue_loop_end(b, w->tiles.members.n);
    wgmma_guest_stored(w, tile);
    wgmma_stream_own_end(w);
}

/* A tile of one of several products. */
static void wgmma_store_product(Wgmma *w, int product, const MatmulTile *tile, void *context) {
    WgmmaStore store = *(const WgmmaStore *)context;
    WgmmaProduct *own = &w->products[product];
    if (own->is_staged && store.staging) {
        own->staging.lane_row = store.staging->lane_row;
        own->staging.lane_col = store.staging->lane_col;
    }
    store.staging = own->is_staged ? &own->staging : NULL;
    store.lower = own->lower;
    if (store.staging) /* the tile before may be of another product, and have ended on either side */
        matmul_boxes_wait(w->b, store.staging, 0);
    wgmma_store_tile(w, tile, &store);
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
        w->partial = k_array(b, "partial", w->plan->kind == MATMUL_INT8 ? K_I32 : w->plan->accumulator,
                             w->partial_cols / 2, NULL);
    wgmma_factors(w);
    for (int i = 0; i < w->n_operands; i++) {
        WgmmaOperand *o = &w->operands[i];
        if (o->fragments || matmul_is_turned(w->plan, o->operand))
            continue;
        o->descriptor = wgmma_operand_descriptor(w, o, group);
    }
    wgmma_terms_descriptors(w, group);
    w->peers = pipeline_peers(b, w->tiles.cluster_m, w->tiles.cluster_n);
    PipelineState state = pipeline_start(b, &w->pipeline);
    const KVar *previous = k_variable(b, "previous", K_I32, k_i32(b, 0));
    const KExpr *first = NULL, *steps = NULL, *stages = NULL; /* of a tile */
    if (!wgmma_steps_differ(w))
        steps = wgmma_steps(w, &first);
    if (ping_pong) { /* the second warpgroup begins behind the stages of the first tile */
        stages = k_add(b, steps, k_i32(b, w->inputs.n * w->inputs.chunks));
        stages = k_add(b, stages, wgmma_terms_steps(w));
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

    wgmma_turned_begin(w, warp_row);
    if (staging)
        matmul_boxes_begin(b, staging);
    if (w->gang.blocks > 1) {
        /* rows lane / 4 and lane / 4 + 8 of each warp's 16 are one packet */
        const KExpr *first = k_add(b, k_div(b, warp_row, k_i32(b, 2)), k_div(b, lane, k_i32(b, 4)));
        const KExpr *own = ping_pong ? k_mul(b, group, k_i32(b, rows / 2)) : k_i32(b, 0);
        w->gang.lane_pair = k_let_expr(b, "packet_pair", k_add(b, own, first));
        w->gang.round = k_variable(b, "round", K_I32, k_i32(b, 0));
    }
    wgmma_guest_start(w, staging);
    wgmma_wait_resident(w);
    MatmulTile tile = {0};
    const KExpr *number = NULL;
    if (w->vectors.n) {
        w->side = k_variable(b, "side", K_I32, k_i32(b, 0));
        w->vectors.lane_col = lane_col;
    }
    if (w->n_products)
        number = wgmma_numbers_begin(w, group, ping_pong ? 2 : 1);
    else
        wgmma_tiles_begin(w, group, ping_pong ? 2 : 1, &tile);
    if (wgmma_steps_differ(w))
        steps = wgmma_steps(w, &first);
    if (w->partial_cols)
        wgmma_scales_tile(w, warp, warp_row, &tile);
    wgmma_start_vectors(w, group, &tile);
    MatmulFragment fragment = {0};
    if (!w->n_products)
        fragment = wgmma_fragment(w, &tile, lane_row, lane_col);
    wgmma_tile_product(w, &tile, group, warp_row, first, steps, &state, previous, &fragment);
    wgmma_finish_vectors(w, group);
    WgmmaStore store = {lower, staging, warp, group, warp_row, lane_row, lane_col, &state};
    if (w->split > 1) {
        wgmma_finish_split(w, lower, &fragment, &tile, lane_row, lane_col);
        return;
    }
    if (w->n_products)
        wgmma_of_product(w, number, wgmma_store_product, &store);
    else
        wgmma_store_tile(w, &tile, &store);
    if (ping_pong) /* the other warpgroup's tile */
        pipeline_skip(b, &w->pipeline, &state, stages);
    wgmma_tiles_end(w);
    wgmma_guest_end(w);
    if (staging)
        matmul_boxes_end(b, staging);
}

/* ---- the kernel */

static void wgmma_init(Wgmma *w) {
    Builder *b = w->b;
    /* of the producer, and of the warps that convert a stage, or that bring parts of it */
    int arrivals = 1 + 4 * (matmul_brings(w->plan) ? w->converters : w->converters > 0) + (w->landed != NULL);
    int releases = wgmma_releases(w->schedule) * pipeline_peer_count(w->tiles.cluster_m, w->tiles.cluster_n);
    k_comment(b, "the ring of stages: %d arrivals fill one, %d free it", arrivals, releases);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    for (int i = 0; i < (int)b->kernel->params.n; i++)
        if (b->kernel->params.at[i].kind == PARAM_TENSOR_MAP) {
            KOperand map = k_operand(k_tensor_map_addr(b, i));
            k_atom(b, ATOM_tensor_map_prefetch, NULL, &map, 1);
        }
    signals_init(w->b, &w->signals);
    pipeline_init(b, &w->pipeline, arrivals, releases);
    wgmma_rows_init(w);
    if (w->resident.stages)
        pipeline_init(b, &w->resident, 1, 1);
    if (wgmma_has_raw(w))
        pipeline_init(b, &w->converts[0].raw, 1, 4);
    k_end(b);
    signals_clear(b, &w->signals, w->plan->graph->dims);
    if (w->cluster > 1) {
        k_cluster_barrier(b);
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
    w.split = matmul_split(schedule);
    matmul_dealt(plan->graph, &plan->a, &w.dealt.rows);
    w.steps = schedule->patches ? matmul_patch_steps(plan, schedule) : matmul_k_steps(plan, schedule);
    kernel->threads = WARPGROUP * (1 + matmul_converters(plan, schedule) + w.consumers);
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->cluster[0] = w.cluster * w.split;
    kernel->grid[0] =
        w.split > 1 ? dim_mul(dims, w.tiles.count, dim_const(dims, w.split)) : wgmma_grid(plan, schedule);
    kernel->gang = w.tiles.gang;
    w.stream = wgmma_stream(plan, schedule);
    if (w.stream.blocks) {
        kernel->grid[0] = dim_const(dims, w.stream.blocks);
        kernel->gang = w.stream.blocks;
    }
    wgmma_guest_new(&w);

    wgmma_add_operand(&w, &plan->a, "a_tile", !schedule->swap_ab);
    for (int i = 0; i < plan->n_cores; i++)
        wgmma_add_operand(&w, &plan->b[i],
                          plan->n_cores == 1 ? "b_tile" : text_format(b->arena, "b_tile_%d", i),
                          schedule->swap_ab);
    /* a cooperative launch does not begin before the kernel before has ended */
    bool may_start_early = kernel->waits && w.cluster == 1 && !w.converters && !w.stream.blocks &&
                           !schedule->patches && !w.tiles.reach.axes && !plan->region->guest &&
                           !matmul_chooses_rows(plan);
    for (int i = 0; i < w.n_operands; i++) {
        if (w.operands[i].convert || w.operands[i].rows)
            continue;
        MatmulTma tma = wgmma_tma(&w, &w.operands[i]);
        w.operands[i].maps = matmul_tma_maps(b, plan->graph->dims, &tma);
        w.operands[i].is_early =
            wgmma_is_early(b, tma.operand) && wgmma_fragments_are_early(&w, &w.operands[i]);
        w.starts_early |= w.operands[i].is_early && may_start_early;
    }
    wgmma_add_terms(&w);
    bool has_own_ring =
        !w.converters && !schedule->fragments && !plan->guest; /* counted in stages of operands */
    if (has_own_ring)
        matmul_find_inputs(b, plan, schedule, &w.inputs);
    matmul_inputs_declare(b, plan, schedule, w.operands[0].tile.buffer, w.operands[1].tile.buffer, &w.inputs);
    MatmulStaging staging;
    bool is_staged = matmul_staging(b, plan, schedule, NULL, &staging);
    wgmma_add_products(&w, is_staged ? &staging : NULL);
    if (!plan->guest) /* whose columns would be others */
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
    if (w.stream.blocks)
        wgmma_stream_buffers(&w);
    w.gang.blocks = w.tiles.gang;
    if (w.gang.blocks > 1) {
        int rows = w.consumers * wgmma_rows(schedule);
        const Dim *words = dim_mul(dims, kernel->grid[0], dim_const(dims, matmul_gang_words(rows)));
        w.gang =
            matmul_gang_new(b, plan, schedule, rows, signals_new(b, &w.signals, "packets", DTYPE_I64, words));
    }
    for (int i = 0; i < w.n_operands; i++)
        w.scales[i] = matmul_scales(b, plan, schedule, w.operands[i].operand, w.operands[i].is_rows);
    w.pipeline = pipeline_new(b, "stage", schedule->stages);
    if (schedule->patches && matmul_patch_stays(plan, schedule))
        w.resident = pipeline_new(b, "resident", 1);
    wgmma_rows_declare(&w);
    Lower *lower = lower_new(b, plan->region);

    if (!w.starts_early)
        template_order(b, plan->region);
    wgmma_init(&w);
    k_role_begin(b, "producer", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_dec, &schedule->producer_registers, NULL, 0);
    signals_meet(b, &w.signals);
    wgmma_produce(&w);
    wgmma_copy_rows(&w);
    wgmma_guest_rows(&w, schedule->producer_registers);
    wgmma_guest_columns(&w);
    if (w.split > 1)
        k_cluster_barrier(b);
    k_else(b);
    if (w.converters) {
        k_role_begin(b, "converter", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4 + 4 * w.converters)));
        if (schedule->consumer_registers)
            k_atom(b, ATOM_setmaxnreg_dec, (int[]){matmul_convert_registers(plan, schedule)}, NULL, 0);
        if (wgmma_has_raw(&w))
            wgmma_convert(&w);
        else
            wgmma_bring(&w);
        k_else(b);
    }
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_inc, &schedule->consumer_registers, NULL, 0);
    if (w.starts_early)
        template_order(b, plan->region);
    wgmma_consume(&w, lower, is_staged ? &staging : NULL);
    wgmma_guest_rows(&w, schedule->consumer_registers);
    if (w.converters)
        k_end(b);
    k_end(b);
    if (w.cluster * w.split > 1) /* no block leaves while another may still use its memory or arrive at its
                                    barriers */
        k_cluster_barrier(b);
    kernel->summary = text_format(
        b->arena,
        "matmul by wgmma: tile %dx%dx%d, %d stages, cluster %dx%d, "
        "%d consumer warpgroups%s%s%s%s%s%s%s%s%s%s%s",
        schedule->tile_m, schedule->tile_n, schedule->tile_k, schedule->stages, w.tiles.cluster_m,
        w.tiles.cluster_n, w.consumers, schedule->ping_pong ? " in turn" : "",
        w.tiles.members.n > 1      ? text_format(b->arena, ", %d matrices a tile", w.tiles.members.n)
        : w.tiles.patch.is_along_k ? ", steps are patches of the image"
        : w.tiles.patch.axes       ? ", rows a patch of the image"
        : w.tiles.reach.axes       ? ", K as far as columns reach"
                                   : "",
        w.gang.blocks > 1 ? text_format(b->arena, ", rows over gangs of %d blocks", w.gang.blocks) : "",
        schedule->fragments || matmul_is_turned(plan, matmul_side(plan, schedule, true))
            ? ", an operand in registers"
        : w.converters
            ? text_format(b->arena, wgmma_has_raw(&w) ? ", %d that convert" : ", %d that bring rows",
                          w.converters)
            : "",
        w.landed ? ", rows by index" : "",
        w.n_terms ? text_format(b->arena, ", %d products added up", w.n_terms + 1) : "",
        w.partial_cols ? ", sums in two levels" : "", schedule->swap_ab ? ", transposed product" : "",
        is_staged ? matmul_staging_name(&staging) : "",
        w.split > 1       ? text_format(b->arena, ", K split among %d blocks of a cluster", w.split)
        : w.stream.blocks ? text_format(b->arena, ", K of %d tiles shared, %d by %d blocks", w.stream.tiles,
                                        w.stream.group_tiles, w.stream.group_blocks)
                          : "",
        w.n_products ? text_format(b->arena, ", %d products one behind the other", w.n_products)
                     : wgmma_guest_name(&w));
}
