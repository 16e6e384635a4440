/* Chained products by wgmma: what one leaves in registers, the next takes from there.
 *
 * Roles are those of matmul_wgmma.c. There are two rings: stages of both operands of link 0, and slots of the
 * second operands of the links behind it, so that the next tile's first link is loaded while this one's later
 * links multiply. What is the same for all tiles may stay instead: later second operands without a batch.
 *
 * A consumer warpgroup has 64 rows:
 *
 *     link 0   acc (64 x N0) = x @ w0         both from shared memory
 *              epilogue                       in the accumulators: whole rows lie here, softmax goes too
 *              packed = acc in 16 bits        two neighbours a register
 *     link 1   acc (64 x N1) = packed @ w1    the first operand from registers
 *              epilogue                       stored; or packed for link 2
 *
 * The accumulators of 16 columns, packed in pairs, are the fragment of m64k16 as they lie (PTX ISA
 * 9.7.15.5.1).
 *
 * Warpgroups go through the rings independently, so that one multiplies while the other is in an epilogue.
 * Columns of the last link that do not fit the registers are done in passes, for which the packed operand
 * stays. A cluster of two blocks, neighbours along m, loads half of each second operand into both. */
#include "codegen/templates/chain.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_result.h"
#include "codegen/templates/matmul_tma.h"

enum { WGMMA_K = 16 /* elements */ };

typedef struct ChainLink {
    const MatmulPlan *plan;
    Lower *lower;
    MatmulVectors vectors;
    MatmulTma b;
    const KExpr *b_descriptor;
    int columns; /* of the accumulators */
    const KVar *accumulator;
    const KVar *packed; /* what it hands on; NULL: the last */
} ChainLink;

typedef struct Chain {
    Builder *b;
    const ChainPlan *plan;
    const Schedule *schedule;
    MatmulTiles tiles;
    MatmulTma a;
    const KExpr *a_descriptor;
    ChainLink link[CHAIN_LINKS];
    int n, passes, cluster;
    PipelinePeers peers;     /* a consumer's */
    Pipeline pipeline;       /* operands of the first link */
    Pipeline later;          /* second operands of later links */
    const KBuffer *resident; /* the barrier of second operands that stay; NULL: all come through the ring */
    MatmulStaging staging;
    bool is_staged;
} Chain;

/* Stages that a link's second operand takes. */
static const Dim *chain_steps(const Chain *c, int link) {
    DimTable *dims = c->plan->graph->dims;
    const Dim *depth = link ? dim_const(dims, c->plan->columns[link - 1]) : c->plan->link[0].k;
    return dim_ceil_div(dims, depth, dim_const(dims, c->schedule->tile_k));
}

/* ---- shared memory */

/* The first link's second operand has its part of each stage. Those of later links share a ring of slots, or
 * stay. */
static void chain_second_operand(Chain *c, int i) {
    enum { ALIGNMENT = 1024 };
    Builder *b = c->b;
    ChainLink *link = &c->link[i];
    const Schedule *s = c->schedule;
    const MatmulOperand *operand = &c->plan->link[i].b[0];
    int n = s->stages, depth = s->tile_k;
    int64_t pitch = (int64_t)link->columns * depth;
    const KBuffer *memory = NULL;
    if (i && !s->later_stages) {
        n = chain_later_steps(c->plan, s, i) * (i == c->n - 1 ? c->passes : 1);
    } else if (i) {
        n = s->later_stages;
        pitch = chain_slot_elements(c->plan, s);
        memory = i > 1 ? c->link[1].b.tile.buffer : NULL;
    }
    if (!memory)
        memory = k_shared(b, i ? "later_tile" : "b_tile", operand->elem, pitch * n, ALIGNMENT);
    Tile tile = operand->major == MAJOR_K ? tile_over(memory, operand->elem, link->columns, depth, n, pitch)
                                          : tile_over(memory, operand->elem, depth, link->columns, n, pitch);
    link->b = (MatmulTma){
        .operand = operand, .tile = tile, .share = c->cluster, .share_step = 1, .cluster = c->cluster};
    link->b.maps = matmul_tma_maps(b, c->plan->graph->dims, &link->b);
}

static void chain_operands(Chain *c) {
    Builder *b = c->b;
    const Schedule *s = c->schedule;
    const ChainPlan *plan = c->plan;
    const MatmulOperand *a = &plan->link[0].a;
    DType elem = a->elem;
    int stages = s->stages;
    Tile tile = a->major == MAJOR_K ? tile_shared(b, "a_tile", elem, s->tile_m, s->tile_k, stages)
                                    : tile_shared(b, "a_tile", elem, s->tile_k, s->tile_m, stages);
    c->a = (MatmulTma){.operand = a, .tile = tile, .share = 1};
    c->a.maps = matmul_tma_maps(b, c->plan->graph->dims, &c->a);
    for (int i = 0; i < c->n; i++) {
        ChainLink *link = &c->link[i];
        link->plan = &plan->link[i];
        link->columns = chain_tile_columns(plan, s, i);
        chain_second_operand(c, i);
    }
}

/* The vectors of all epilogues, as far as they fit; their columns are the same for every tile of rows. */
static void chain_vectors(Chain *c) {
    Builder *b = c->b;
    int64_t room = c->plan->target->smem_per_sm / chain_blocks_per_sm(c->plan, c->schedule) - 1024;
    room = room < c->plan->target->smem_per_block ? room : c->plan->target->smem_per_block;
    room -= chain_smem(c->plan, c->schedule);
    for (int i = 0; i < c->n; i++) {
        ChainLink *link = &c->link[i];
        int columns = i == c->n - 1 ? c->passes * link->columns : link->columns;
        matmul_find_vectors(link->plan, columns, 1, room, &link->vectors);
        for (int k = 0; k < link->vectors.n; k++) {
            const Value *value = link->vectors.value[k];
            const char *name = text_format(b->arena, "%s_tile", value->name ? value->name : "vector");
            link->vectors.buffer[k] = k_shared(b, name, value->dtype, columns, 16);
            room -= (int64_t)columns * dtype_bits(value->dtype) / 8 + 16;
        }
    }
}

/* By all threads of the block, once; zeros behind the last column. */
static void chain_load_vectors(Chain *c) {
    Builder *b = c->b;
    bool any = false;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->link[i].vectors.n; k++) {
            const Value *value = c->link[i].vectors.value[k];
            const KBuffer *to = c->link[i].vectors.buffer[k];
            int bytes = VECTORS_WORD, word = 8 * bytes / dtype_bits(value->dtype);
            int64_t columns = i == c->n - 1 ? (int64_t)c->passes * c->link[i].columns : c->link[i].columns;
            const KExpr *number = k_for_step_begin(b, "word", k_special(b, SPECIAL_TID),
                                                   k_i32(b, columns / word), k_i32(b, b->kernel->threads));
            const KExpr *col = k_mul(b, number, k_i32(b, word)), *read = k_int(b, K_U32, bytes);
            const Dim *n = c->link[i].plan->n;
            if (!dim_is(n, columns))
                read = matmul_vector_bytes(b, c->link[i].plan, value, col);
            KOperand operands[] = {k_operand(k_smem_addr(b, to, col)),
                                   k_operand(k_global_addr(b, k_global(b, value, false), col)),
                                   k_operand(read)};
            k_atom(b, ATOM_cp_async, &bytes, operands, 3);
            k_end(b);
            any = true;
        }
    if (!any)
        return;
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    k_atom(b, ATOM_cp_async_wait, (int[]){0}, NULL, 0);
}

/* ---- the producer */

static MatmulTile chain_tiles_begin(Chain *c) {
    Builder *b = c->b;
    const KExpr *first = k_special(b, SPECIAL_CTA_X), *step = k_special(b, SPECIAL_GRID_X);
    if (c->cluster > 1) {
        first = k_div(b, first, k_i32(b, c->cluster));
        step = k_div(b, step, k_i32(b, c->cluster));
    }
    const KExpr *number = k_for_step_begin(b, "tile", first, k_dim(b, c->tiles.count, K_I32), step);
    return matmul_tile_at(b, c->link[c->n - 1].plan, &c->tiles, number);
}

/* The stages of one link, whose columns begin at `col`. */
static void chain_produce_link(Chain *c, int i, const PipelineState *state, const MatmulTile *tile,
                               const KExpr *col) {
    Builder *b = c->b;
    const ChainLink *link = &c->link[i];
    MatmulTma loads[] = {link->b, c->a};
    const KExpr *first[] = {col, tile->row};
    int n = i == 0 ? 2 : 1;
    int64_t bytes = 0;
    for (int k = 0; k < n; k++) {
        loads[k].chosen = matmul_chosen_matrix(b, link->plan, loads[k].operand, tile->batch);
        bytes += tile_bytes(&loads[k].tile);
    }
    const KExpr *step =
        k_for_begin(b, "k_step", k_i32(b, 0), k_dim(b, chain_steps(c, i), K_I32), 1, UNROLL_NONE);
    const KExpr *k0 = k_let_expr(b, "k", k_mul(b, step, k_i32(b, c->schedule->tile_k)));
    for (int k = 0; k < n; k++)
        matmul_tma_find_pages(b, link->plan, &loads[k], first[k], k0, tile->batch);
    const Pipeline *ring = i ? &c->later : &c->pipeline;
    pipeline_wait_empty(b, ring, state);
    pipeline_expect(b, ring, state, k_int(b, K_U32, bytes));
    const KExpr *stage = k_var(b, state->stage), *full = pipeline_full_address(b, ring, state);
    for (int k = n; k-- > 0;)
        matmul_tma_load(b, link->plan, &loads[k], stage, full, first[k], k0, tile->batch);
    pipeline_advance(b, ring, state);
    k_end(b);
}

static const KExpr *chain_pass_begin(Chain *c) {
    if (c->passes == 1)
        return k_i32(c->b, 0);
    const KExpr *pass = k_for_begin(c->b, "pass", k_i32(c->b, 0), k_i32(c->b, c->passes), 1, UNROLL_NONE);
    return k_let_expr(c->b, "pass_col", k_mul(c->b, pass, k_i32(c->b, c->schedule->tile_n)));
}

static void chain_pass_end(Chain *c) {
    if (c->passes > 1)
        k_end(c->b);
}

/* Second operands of all links but the first, once. */
static void chain_produce_resident(Chain *c) {
    Builder *b = c->b;
    const KExpr *full = k_smem_addr(b, c->resident, k_i32(b, 0));
    int64_t bytes = 0;
    for (int i = 1; i < c->n; i++)
        bytes += tile_bytes(&c->link[i].b.tile) * c->link[i].b.tile.stages;
    KOperand expect[] = {k_operand(full), k_operand(k_int(b, K_U32, bytes))};
    k_atom(b, ATOM_mbar_expect_tx, NULL, expect, 2);
    for (int i = 1; i < c->n; i++) {
        const Tile *tile = &c->link[i].b.tile;
        const KExpr *steps = k_i32(b, chain_later_steps(c->plan, c->schedule, i));
        const KExpr *slot = k_for_begin(b, "slot", k_i32(b, 0), k_i32(b, tile->stages), 1, UNROLL_NONE);
        const KExpr *col = k_mul(b, k_div(b, slot, steps), k_i32(b, c->link[i].columns));
        const KExpr *k0 = k_mul(b, k_mod(b, slot, steps), k_i32(b, c->schedule->tile_k));
        matmul_tma_load(b, c->link[i].plan, &c->link[i].b, slot, full, col, k0, NULL);
        k_end(b);
    }
}

static void chain_produce(Chain *c) {
    Builder *b = c->b;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    if (c->resident)
        chain_produce_resident(c);
    PipelineState state = pipeline_start(b, &c->pipeline), later = {0};
    if (!c->resident)
        later = pipeline_start(b, &c->later);
    MatmulTile tile = chain_tiles_begin(c);
    chain_produce_link(c, 0, &state, &tile, k_i32(b, 0));
    for (int i = 1; i < c->n && !c->resident; i++) {
        const KExpr *col = i == c->n - 1 ? chain_pass_begin(c) : k_i32(b, 0);
        chain_produce_link(c, i, &later, &tile, col);
    }
    if (!c->resident)
        chain_pass_end(c);
    k_end(b);
    k_end(b);
}

/* ---- the consumers */

static const KExpr *chain_stage_at(Chain *c, const Tile *tile, const KExpr *descriptor, const KExpr *stage) {
    Builder *b = c->b;
    int64_t units = tile->pitch * dtype_bits(tile->elem) / 128; /* of 16 bytes */
    const KExpr *offset = k_mul(b, k_convert(b, stage, K_U64), k_int(b, K_U64, units));
    return k_let_expr(b, text_format(b->arena, "%s_at", tile->buffer->name), k_add(b, descriptor, offset));
}

/* An operand's descriptor from row or column `mn` and element k of the stage on. */
static const KExpr *chain_part(Chain *c, const MatmulTma *tma, const KExpr *at, int mn, int k) {
    bool is_k = tma->operand->major == MAJOR_K;
    int64_t offset =
        is_k ? tile_descriptor_offset(&tma->tile, mn, k) : tile_descriptor_offset(&tma->tile, k, mn);
    return k_add(c->b, at, k_int(c->b, K_U64, offset));
}

/* The products of one stage; `packed` words of the link before from `at` on, or both operands from shared
 * memory. The first product of a tile ignores what the accumulators held. */
static void chain_multiply(Chain *c, int i, const KExpr *stage, const KExpr *keeps, int first_k) {
    Builder *b = c->b;
    ChainLink *link = &c->link[i];
    const MatmulOperand *operand = link->b.operand;
    DType elem = operand->elem;
    const KExpr *b_at = chain_stage_at(c, &link->b.tile, link->b_descriptor, stage);
    const KExpr *a_at = i ? NULL : chain_stage_at(c, &c->a.tile, c->a_descriptor, stage);
    int depth = c->schedule->tile_k;
    if (i && c->plan->columns[i - 1] - first_k < depth)
        depth = c->plan->columns[i - 1] - first_k;
    int parts = chain_parts(link->columns), n = link->columns / parts;
    for (int k = 0; k < depth; k += WGMMA_K)
        for (int part = 0; part < parts; part++) {
            const KExpr *keep = k ? k_int(b, K_U32, 1) : keeps;
            KOperand operands[] = {k_regs(link->accumulator, part * n / 2, n / 2),
                                   {0},
                                   k_operand(chain_part(c, &link->b, b_at, part * n, k)),
                                   k_operand(keep)};
            if (i) {
                operands[1] = k_regs(c->link[i - 1].packed, (first_k + k) / 4, 4);
                k_atom(b, ATOM_wgmma_16bit_rs, (int[]){n, (int)elem, operand->major == MAJOR_MN}, operands,
                       4);
            } else {
                operands[1] = k_operand(chain_part(c, &c->a, a_at, 0, k));
                k_atom(b, ATOM_wgmma_16bit,
                       (int[]){n, (int)elem, c->a.operand->major == MAJOR_MN, operand->major == MAJOR_MN},
                       operands, 4);
            }
        }
}

/* One stage of the first product: its own products are issued, those of the stage before are waited for. */
static void chain_step(Chain *c, const PipelineState *state, const KVar *previous, const KExpr *step) {
    Builder *b = c->b;
    pipeline_wait_full(b, &c->pipeline, state);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    chain_multiply(c, 0, k_var(b, state->stage), k_int(b, K_U32, !dim_is(chain_steps(c, 0), 1)), 0);
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
    k_atom(b, ATOM_wgmma_wait, (int[]){1}, NULL, 0);
    pipeline_release_behind(b, &c->pipeline, state, previous, step, &c->peers);
}

static void chain_first_product(Chain *c, const PipelineState *state, const KVar *previous) {
    Builder *b = c->b;
    const KExpr *steps = k_dim(b, chain_steps(c, 0), K_I32);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    chain_step(c, state, previous, step);
    k_end(b);
    k_atom(b, ATOM_wgmma_wait, (int[]){0}, NULL, 0);
    matmul_settle(b, c->link[0].accumulator);
    pipeline_release(b, &c->pipeline, k_var(b, previous), &c->peers);
}

/* Which registers a product takes is known as it is written, so this is no loop. The stages are waited for
 * before the first product of the burst: the assembler packs each register as late as it may, and between two
 * waits it would keep unpacked what it has no room for. */
static void chain_later_product(Chain *c, int i, const PipelineState *state, const KExpr *col) {
    Builder *b = c->b;
    int depth = c->schedule->tile_k, steps = chain_later_steps(c->plan, c->schedule, i);
    int slots = c->link[i].b.tile.stages, burst = steps < slots ? steps : slots;
    if (c->resident) {
        KOperand operands[] = {k_operand(k_smem_addr(b, c->resident, k_i32(b, 0))),
                               k_operand(k_int(b, K_U32, 0))};
        k_atom(b, ATOM_mbar_wait, NULL, operands, 2);
    }
    const KExpr *slot = k_mul(b, k_div(b, col, k_i32(b, c->link[i].columns)), k_i32(b, steps));
    for (int step = 0; step < steps; step += burst) {
        int n = steps - step < burst ? steps - step : burst;
        const KExpr *stage[CHAIN_COLUMNS / 32];
        for (int s = 0; s < n; s++) {
            if (c->resident) {
                stage[s] = k_add(b, slot, k_i32(b, s));
                continue;
            }
            pipeline_wait_full(b, &c->later, state);
            stage[s] = k_let_expr(b, "taken", k_var(b, state->stage));
            pipeline_advance(b, &c->later, state);
        }
        k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
        for (int s = 0; s < n; s++)
            chain_multiply(c, i, stage[s], k_int(b, K_U32, step + s > 0), (step + s) * depth);
        k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
        k_atom(b, ATOM_wgmma_wait, (int[]){0}, NULL, 0);
        for (int s = 0; s < n && !c->resident; s++)
            pipeline_release(b, &c->later, stage[s], &c->peers);
    }
    matmul_settle(b, c->link[i].accumulator);
}

/* Declared where their link begins: nothing of them lives on from the tile before. That the first product of
 * a loop ignores what registers held is not seen by the assembler, so these are cleared. */
static void chain_registers(Chain *c, int i) {
    Builder *b = c->b;
    ChainLink *link = &c->link[i];
    const char *name = link->plan->core[0]->name ? link->plan->core[0]->name : "acc";
    const KExpr *fill = i || dim_is(chain_steps(c, 0), 1) ? NULL : k_float(b, link->plan->accumulator, 0);
    link->accumulator = k_array(b, name, link->plan->accumulator, link->columns / 2, fill);
    if (i < c->n - 1)
        link->packed = k_array(b, text_format(b->arena, "%s_packed", name), K_U32, link->columns / 4, NULL);
}

static MatmulFragment chain_fragment(const Chain *c, int i, const KExpr *row, const KExpr *col) {
    return (MatmulFragment){.accumulator = {c->link[i].accumulator},
                            .blocks = 1,
                            .block_rows = WGMMA_M,
                            .halves = 2,
                            .half_rows = 8,
                            .groups = c->link[i].columns / 8,
                            .group_cols = 8,
                            .width = 2,
                            .row = row,
                            .col = col,
                            .tile_rows = c->schedule->tile_m,
                            .tile_cols = c->link[i].columns,
                            .row_lanes = 4,
                            .is_whole = i < c->n - 1 || c->passes == 1};
}

/* The link's result takes the place of its product, then is packed in pairs. */
static void chain_hand_on(Chain *c, int i, const MatmulFragment *fragment, const MatmulTile *tile) {
    Builder *b = c->b;
    ChainLink *link = &c->link[i];
    const Value *held = c->plan->held[i];
    matmul_epilogue_hold(b, link->plan, link->lower, fragment, tile->batch,
                         link->vectors.n ? &link->vectors : NULL, held);
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, link->packed->count), 1, UNROLL_FULL);
    const KExpr *at = k_mul(b, word, k_i32(b, 2));
    const KExpr *pair[] = {k_elem(b, link->accumulator, at),
                           k_elem(b, link->accumulator, k_add(b, at, k_i32(b, 1)))};
    k_set_elem(b, link->packed, word, k_pack(b, held->dtype, pair));
    k_end(b);
    matmul_settle(b, link->packed); /* before the fence of the products that read it */
}

static void chain_consume(Chain *c) {
    Builder *b = c->b;
    const KExpr *warp = k_let_expr(b, "warp", k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    const KExpr *group = k_let_expr(b, "warpgroup", k_div(b, warp, k_i32(b, 4)));
    int a_rows = c->a.operand->major == MAJOR_K ? WGMMA_M : 0;
    int64_t own = tile_descriptor_offset(&c->a.tile, a_rows, WGMMA_M - a_rows); /* of a warpgroup's rows */
    const KExpr *own_rows = k_mul(b, k_convert(b, group, K_U64), k_int(b, K_U64, own));
    c->a_descriptor = k_let_expr(b, "a_tile_descriptor",
                                 k_add(b, tile_descriptor(b, &c->a.tile, c->a.operand->major), own_rows));
    for (int i = 0; i < c->n; i++) {
        ChainLink *link = &c->link[i];
        link->b_descriptor =
            k_let_expr(b, "b_tile_descriptor", tile_descriptor(b, &link->b.tile, link->b.operand->major));
    }
    c->peers = pipeline_peers(b, c->cluster, 1);
    PipelineState state = pipeline_start(b, &c->pipeline), later = {0};
    if (!c->resident)
        later = pipeline_start(b, &c->later);
    const KVar *previous = k_variable(b, "previous", K_I32, k_i32(b, 0));
    PartsLane place = parts_lane(b, warp, group);
    if (c->is_staged) {
        c->staging.owner = warp;
        matmul_boxes_begin(b, &c->staging);
    }
    MatmulTile tile = chain_tiles_begin(c);
    const KExpr *row = k_add(b, tile.row, place.row);
    for (int i = 0; i < c->n; i++) {
        ChainLink *link = &c->link[i];
        bool is_last = i == c->n - 1;
        const KExpr *col = is_last ? chain_pass_begin(c) : k_i32(b, 0);
        link->vectors.base = col;
        link->vectors.lane_col = place.col;
        chain_registers(c, i);
        if (i == 0)
            chain_first_product(c, &state, previous);
        else
            chain_later_product(c, i, &later, col);
        MatmulFragment fragment = chain_fragment(c, i, row, k_add(b, col, place.col));
        if (!is_last) {
            chain_hand_on(c, i, &fragment, &tile);
            continue;
        }
        c->staging.row = k_add(b, tile.row, place.warp_row);
        c->staging.col = col;
        matmul_epilogue(b, link->plan, link->lower, &fragment, tile.batch, c->is_staged ? &c->staging : NULL,
                        link->vectors.n ? &link->vectors : NULL, NULL);
    }
    chain_pass_end(c);
    k_end(b);
    if (c->is_staged)
        matmul_boxes_end(b, &c->staging);
}

/* ---- the kernel */

static void chain_meet(Chain *c) {
    if (c->cluster > 1) {
        k_cluster_barrier(c->b);
    } else {
        k_barrier(c->b);
    }
}

static void chain_init(Chain *c) {
    Builder *b = c->b;
    int releases = 4 * c->schedule->warps_m * pipeline_peer_count(c->cluster, 1);
    k_comment(b, "the ring of stages: 1 arrivals fill one, %d free it", releases);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    if (c->resident) {
        KOperand operands[] = {k_operand(k_smem_addr(b, c->resident, k_i32(b, 0))),
                               k_operand(k_int(b, K_U32, 1))};
        k_atom(b, ATOM_mbar_init, NULL, operands, 2);
    }
    pipeline_init(b, &c->pipeline, 1, releases);
    if (!c->resident)
        pipeline_init(b, &c->later, 1, releases);
    k_end(b);
    chain_load_vectors(c);
    chain_meet(c);
}

static const char *chain_summary(const Chain *c) {
    const Schedule *s = c->schedule;
    Text text = text_new(c->b->arena);
    text_add(&text, "chain of %d products by wgmma: %d rows, columns", c->n, s->tile_m);
    for (int i = 0; i < c->n; i++)
        text_add(&text, " %d%s", c->link[i].columns, i == c->n - 1 ? "" : ",");
    if (c->passes > 1)
        text_add(&text, " in %d passes", c->passes);
    if (c->resident)
        text_add(&text, ", later second operands resident");
    text_add(&text, ", steps of %d, %d stages and %d, cluster %dx1, %d consumer warpgroups%s", s->tile_k,
             s->stages, s->later_stages, c->cluster, s->warps_m,
             c->is_staged ? matmul_staging_name(&c->staging) : "");
    return text.at;
}

void chain_build(Builder *b, const ChainPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    int blocks = chain_blocks_per_sm(plan, schedule);
    Chain c = {.b = b, .plan = plan, .schedule = schedule, .n = plan->n_links};
    c.tiles = chain_tiles(plan, schedule);
    c.cluster = c.tiles.cluster_m;
    c.passes = chain_passes(plan, schedule);
    kernel->threads = WARPGROUP * (1 + schedule->warps_m);
    kernel->min_blocks = blocks;
    kernel->cluster[0] = c.cluster;
    kernel->grid[0] = matmul_grid(&plan->link[0], &c.tiles, blocks);
    chain_operands(&c);
    Schedule store = parts_store_schedule(schedule);
    c.is_staged = matmul_staging(b, &plan->link[c.n - 1], &store, NULL, &c.staging);
    chain_vectors(&c);
    c.pipeline = pipeline_new(b, "stage", schedule->stages);
    if (!schedule->later_stages)
        c.resident = k_shared(b, "resident_full", DTYPE_I64, 1, 8);
    else
        c.later = pipeline_new(b, "slot", schedule->later_stages);
    for (int i = 0; i < c.n; i++)
        c.link[i].lower = lower_new(b, plan->link[i].region);

    chain_init(&c);
    k_role_begin(b, "producer", k_lt(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_dec, &schedule->producer_registers, NULL, 0);
    chain_produce(&c);
    k_else(b);
    if (schedule->consumer_registers)
        k_atom(b, ATOM_setmaxnreg_inc, &schedule->consumer_registers, NULL, 0);
    chain_consume(&c);
    k_end(b);
    if (c.cluster >
        1) /* neither block leaves while the other may still write to its memory or arrive at its barriers */
        chain_meet(&c);
    kernel->summary = chain_summary(&c);
}
