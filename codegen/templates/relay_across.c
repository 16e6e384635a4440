/* What a product across adds to the kernel of a relay (relay.h): its sum runs over the rows of tiles.
 *
 * What is held lies in registers by rows of the tile, which are the product's sum: it goes through shared
 * memory, and comes from there as the first operand the other way around. All warpgroups put their rows there
 * and meet; then each has some of the product's rows or columns, in the registers of a first product that it
 * was computed of, while the next part's other first product is multiplied:
 *
 *     tensor cores   | d | dv += p | dk += e, dq = e.T @ k | s of the next part | d ...
 *     registers          | e, p    | to shared memory                           | dq to shared memory
 *
 * From shared memory warps of the producer's warpgroup add it to the product's rows in memory, by TMA, one
 * part of all of its columns at a time, in the order of relay_order.c: the first tile that comes to a part
 * stores it. Two of them take turns, as each waits for its turn, for the sums to be in memory, and to tell
 * the next tile: together as long as the products of a part take. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/relay.h"
#include "ir/base/checked.h"

enum {
    ACROSS_COPIES = 2,  /* of what is held, and of sums: warpgroups are at most one part apart */
    ACROSS_BARRIER = 1, /* named, of all consumers */
    ACROSS_ADDER = 1,   /* warps that add, from this one on, as many as copies */
    ACROSS_BRINGER = ACROSS_ADDER + ACROSS_COPIES, /* the warp that brings vectors */
    ACROSS_LANES = 32,
    ACROSS_MATRICES = 16,  /* rows and columns of four 8x8 ones */
    ACROSS_EXCHANGED = 16, /* columns from the groups of lanes in odd rows to those of others, at one time */
    /* columns in f32 that a swizzle moves; half of those in 16 bits, which begins where it is */
    ACROSS_SPAN = 32
};

/* ---- sizes */

/* How warpgroups share a part of the product: by blocks of 64 rows, where there are enough, else by columns.
 * Of these each has whole rows of a swizzle in `sums`; those beyond the product's are zero, and not stored.
 */
typedef struct AcrossShare {
    int blocks, columns; /* of a warpgroup */
    int width;           /* columns of all */
    int registers;       /* of a thread */
} AcrossShare;

static AcrossShare across_share(const RelayPlan *plan, const Schedule *s) {
    int blocks = s->tile_k / WGMMA_M, groups = s->warps_m, own_blocks = blocks / groups;
    bool by_blocks = blocks % groups == 0;
    AcrossShare share = {.blocks = by_blocks ? own_blocks : blocks};
    share.width = (int)round_up(plan->columns, by_blocks ? ACROSS_SPAN : ACROSS_SPAN * groups);
    share.columns = by_blocks ? share.width : share.width / groups;
    share.registers = share.blocks * share.columns / 2;
    return share;
}

int relay_across_width(const RelayPlan *plan, const Schedule *s) {
    return across_share(plan, s).width;
}

/* How the product reads the rows of a first one, as its second operand: the other way around. */
static OperandMajor across_major(const RelayPlan *plan) {
    return plan->first[plan->across_rows].a.major == MAJOR_K ? MAJOR_MN : MAJOR_K;
}

/* Of a thread, for a part: none, where those of first product 1 are just as many, and free by then. With some
 * of those the assembler would wait for each product. */
int relay_across_registers(const RelayPlan *plan, const Schedule *s) {
    int registers = across_share(plan, s).registers;
    return registers == s->tile_k / 2 ? 0 : registers;
}

int64_t relay_across_bytes(const RelayPlan *plan, const Schedule *s) {
    int64_t held = 2 * (int64_t)s->tile_m * s->tile_k;
    int64_t sums = 4 * (int64_t)s->tile_k * relay_across_width(plan, s);
    int64_t vectors = 4 * (int64_t)s->stages * s->tile_k * plan->n_vectors;
    return ACROSS_COPIES * (held + sums) + vectors;
}

bool relay_across_accepts(const Schedule *s, const char **why) {
    *why = "a product across takes two warpgroups, and parts of 64 columns or a multiple";
    if (s->warps_m != RELAY_ACROSS_GROUPS || s->tile_k % WGMMA_M != 0)
        return false;
    *why = NULL;
    return true;
}

/* ---- the kernel's memory */

/* Outputs leave through the memory of what is held, once all of it has been read. */
static void across_stage_outputs(RelayRun *r) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    Schedule store = parts_store_schedule(r->schedule);
    const KBuffer *held = r->across.held.buffer;
    int64_t offset = held->offset, end = offset + ACROSS_COPIES * tile_bytes(&r->across.held);
    for (int i = 0; i < plan->n_last; i++) {
        const Region *region = plan->last[i].region;
        int64_t bytes = matmul_staging_bytes(&plan->last[i], &store);
        if (region->outputs.n != 1 || bytes == 0 || offset + bytes > end)
            continue;
        DType elem = region->outputs.at[0]->dtype;
        MatmulStaging over = {0};
        over.tile[0].buffer =
            k_shared_at(b, i ? "staging_1" : "staging", elem, bytes * 8 / dtype_bits(elem), offset);
        r->is_staged[i] = matmul_staging(b, &plan->last[i], &store, &over, &r->staging[i]);
        offset += bytes;
    }
}

void relay_across_declare(RelayRun *r) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    const RelayPlan *plan = r->plan;
    const Schedule *s = r->schedule;
    const Value *output = plan->across.core[0];
    a->held = tile_shared(b, "held_tile", plan->first[0].a.elem, s->tile_m, s->tile_k, ACROSS_COPIES);
    a->sums = tile_shared(b, "sums_tile", DTYPE_F32, s->tile_k, relay_across_width(plan, s), ACROSS_COPIES);
    across_stage_outputs(r);
    r->vectors.n = plan->n_vectors;
    for (int i = 0; i < plan->n_vectors; i++) {
        const char *name = plan->vectors[i]->name ? plan->vectors[i]->name : "vector";
        r->vectors.value[i] = plan->vectors[i];
        r->vectors.buffer[i] = k_shared(b, text_format(b->arena, "%s_tile", name), DTYPE_F32,
                                        (int64_t)s->stages * s->tile_k, 16);
    }
    matmul_stored(&plan->across, output, &a->stored);
    a->map = matmul_stored_map(b, output, &a->stored, a->sums.rows, a->sums.span, a->sums.swizzle);
    a->ring = pipeline_new(b, "sums", ACROSS_COPIES);
    const Dim *turns = dim_mul(plan->graph->dims, r->parts.tiles.batch, parts_count(&r->parts));
    a->turns = signals_new(b, &a->signals, "turns", DTYPE_I32, turns);
    b->kernel->gang = (int)b->kernel->grid[0]->value;
}

/* ---- consumers */

/* Where a lane's first element of the product lies in a part of it. */
static void across_find_place(RelayRun *r, const PartsLane *lane, const KExpr *group) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    AcrossShare share = across_share(r->plan, r->schedule);
    const KExpr *row = k_mod(b, lane->row, k_i32(b, WGMMA_M)), *col = lane->col;
    if (share.columns < share.width)
        col = k_add(b, col, k_mul(b, group, k_i32(b, share.columns)));
    else
        row = k_add(b, row, k_mul(b, group, k_i32(b, share.blocks * WGMMA_M)));
    const KExpr *at = tile_index(b, &a->sums, k_i32(b, 0), row, col);
    const KExpr *exchanged = k_mul(b, k_mod(b, row, k_i32(b, 2)), k_i32(b, ACROSS_EXCHANGED));
    a->place = k_let_expr(b, "place_in_sums", k_xor(b, at, exchanged));
}

void relay_across_begin(RelayRun *r, const PartsLane *lane, const KExpr *group) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    const Tile *rows = &r->rows[r->plan->across_rows].tile;
    OperandMajor turned = across_major(r->plan);
    AcrossShare share = across_share(r->plan, r->schedule);
    bool by_columns = share.columns < share.width;
    const KExpr *number = k_convert(b, group, K_U64);
    int64_t own = tile_descriptor_offset(&a->held, WGMMA_M, 0);
    a->own_first =
        k_let_expr(b, "own_held",
                   k_add(b, tile_descriptor(b, &a->held, MAJOR_K), k_mul(b, number, k_int(b, K_U64, own))));
    const KExpr *held = tile_descriptor(b, &a->held, MAJOR_MN), *second = tile_descriptor(b, rows, turned);
    int64_t step = by_columns ? tile_descriptor_offset(rows, turned == MAJOR_MN ? 0 : share.columns,
                                                       turned == MAJOR_MN ? share.columns : 0)
                              : tile_descriptor_offset(&a->held, 0, share.blocks * WGMMA_M);
    const KExpr *further = k_mul(b, number, k_int(b, K_U64, step));
    a->turned_first = k_let_expr(b, "turned_held", by_columns ? held : k_add(b, held, further));
    a->rows_first = k_let_expr(b, "across_rows", by_columns ? k_add(b, second, further) : second);
    a->at = pipeline_start(b, &a->ring);
    across_find_place(r, lane, group);
    const KExpr *number_of_lane = k_special(b, SPECIAL_LANE), *size = k_i32(b, ACROSS_MATRICES);
    a->put_row = k_let_expr(b, "put_row", k_add(b, lane->warp_row, k_mod(b, number_of_lane, size)));
    a->put_col =
        k_let_expr(b, "put_col", k_mul(b, k_div(b, number_of_lane, size), k_i32(b, ACROSS_MATRICES / 2)));
}

void relay_across_tile(RelayRun *r, const MatmulFragment *fragment, const MatmulTile *tile) {
    int own = relay_across_registers(r->plan, r->schedule);
    r->across.part = own ? k_array(r->b, "across_part", K_F32, own, k_float(r->b, K_F32, 0)) : r->fragment[1];
    r->across.rest = matmul_pack_begin(r->b, &r->plan->rest, r->between, fragment, tile->batch, &r->vectors);
}

/* What is held, from registers to this part's copy, as rows; zero beyond the last row, as it is summed over.
 */
static void across_put(RelayRun *r, const PartsAt *at) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    const KVar *packed = r->packed[plan->across_held];
    const Dim *rows = plan->first[0].m;
    for (int half = 0; half < 2 && dim_divisor(plan->graph->dims, rows) % r->schedule->tile_m != 0; half++) {
        const KExpr *row = k_add(b, at->lane_row, k_i32(b, 8 * half));
        k_if_begin(b, k_ge(b, row, k_dim(b, rows, K_I32)));
        const KExpr *group = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, packed->count / 2), 1, UNROLL_FULL);
        k_set_elem(b, packed, k_add(b, k_mul(b, group, k_i32(b, 2)), k_i32(b, half)), k_int(b, K_U32, 0));
        k_end(b);
        k_end(b);
    }
    matmul_settle(b, packed);
    for (int i = 0; i < r->schedule->tile_k / ACROSS_MATRICES; i++) {
        const KExpr *to = tile_address(b, &r->across.held, k_var(b, r->across.at.stage), r->across.put_row,
                                       k_add(b, r->across.put_col, k_i32(b, i * ACROSS_MATRICES)));
        KOperand operands[] = {k_operand(to), k_regs(packed, 4 * i, 4)};
        k_atom(b, ATOM_stmatrix_x4, NULL, operands, 2);
    }
    k_atom(b, ATOM_fence_async, NULL, NULL, 0);
}

/* Last products that take what is held from shared memory, as its registers are free then. */
static void across_issue_last(RelayRun *r, const KExpr *stage) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    const Tile *held = &r->across.held;
    const KExpr *from = parts_stage(b, held, r->across.own_first, k_var(b, r->across.at.stage));
    for (int i = 0; i < plan->n_last; i++) {
        const MatmulOperand *operand = &plan->last[i].b[0];
        const Tile *tile = &r->brought[plan->last_from[i]].tile;
        if (plan->held_of[i] != plan->across_held)
            continue;
        const KExpr *at = parts_stage(b, tile, r->last_at[i], stage);
        for (int k = 0; k < r->schedule->tile_k; k += PARTS_K) {
            KOperand operands[] = {
                k_regs(r->sums[i], 0, r->sums[i]->count), k_operand(parts_from(b, held, MAJOR_K, from, k)),
                k_operand(parts_from(b, tile, operand->major, at, k)), k_operand(k_int(b, K_U32, 1))};
            int shape[] = {r->schedule->tile_n, (int)operand->elem, 0, operand->major == MAJOR_MN};
            k_atom(b, ATOM_wgmma_16bit, shape, operands, 4);
        }
    }
}

/* The product across. */
static void across_issue(RelayRun *r) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    const Tile *held = &r->across.held, *rows = &r->rows[plan->across_rows].tile;
    OperandMajor turned = across_major(plan);
    AcrossShare share = across_share(plan, r->schedule);
    const KExpr *from = parts_stage(b, held, r->across.turned_first, k_var(b, r->across.at.stage));
    for (int block = 0; block < share.blocks; block++) {
        int64_t down = tile_descriptor_offset(held, 0, block * WGMMA_M);
        const KExpr *own = k_add(b, from, k_int(b, K_U64, down));
        for (int k = 0; k < r->schedule->tile_m; k += PARTS_K) {
            KOperand operands[] = {k_regs(r->across.part, block * share.columns / 2, share.columns / 2),
                                   k_operand(parts_from(b, held, MAJOR_MN, own, k)),
                                   k_operand(parts_from(b, rows, turned, r->across.rows_at, k)),
                                   k_operand(k_int(b, K_U32, k > 0))};
            int shape[] = {share.columns, (int)held->elem, 1, turned == MAJOR_MN};
            k_atom(b, ATOM_wgmma_16bit, shape, operands, 4);
        }
    }
}

/* Where the lane's two elements of a group of 8 columns go, in the rows of a block or 8 below. Within a span
 * another group is another bit of the index whatever the swizzle did to it, so that one register serves all.
 */
static const KExpr *across_place(RelayRun *r, int block, int group, int half) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    int span = a->sums.span, col = 8 * group;
    int64_t down = (int64_t)(block * WGMMA_M + 8 * half) * span;
    int64_t further = down + (int64_t)(col / span) * a->sums.rows * span;
    const KExpr *stage = k_mul(b, k_var(b, a->at.stage), k_i32(b, a->sums.pitch));
    return k_add(b, k_add(b, k_xor(b, a->place, k_i32(b, col % span)), stage), k_i32(b, further));
}

/* A group and the one two further, in the two rows of a lane: lanes of odd rows exchange them (their `place`
 * is two groups further), since the swizzle has columns of four neighbouring rows in two places, which half a
 * warp would else write twice. */
static void across_put_groups(RelayRun *r, const KExpr *is_odd, int block, int group) {
    enum { APART = ACROSS_EXCHANGED / 8 };
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    AcrossShare share = across_share(r->plan, r->schedule);
    for (int half = 0; half < 2; half++) {
        int from[] = {block * share.columns / 2 + 4 * group + 2 * half, 0};
        from[1] = from[0] + 4 * APART;
        for (int which = 0; which < 2; which++) {
            const KVar *own = k_array(b, "pair", K_F32, 2, NULL);
            for (int i = 0; i < 2; i++)
                k_set_elem(b, own, k_i32(b, i),
                           k_select(b, is_odd, k_elem_at(b, a->part, from[!which] + i),
                                    k_elem_at(b, a->part, from[which] + i)));
            k_store(b, a->sums.buffer, across_place(r, block, group + APART * which, half), own, NULL, 2,
                    NULL, CACHE_DEFAULT);
        }
    }
}

/* What the warpgroup has of the product, to shared memory, where warps add it from. */
static void across_hand_over(RelayRun *r) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    AcrossShare share = across_share(r->plan, r->schedule);
    const KExpr *row = k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, 4));
    const KExpr *is_odd = k_let_expr(b, "is_odd", k_eq(b, k_mod(b, row, k_i32(b, 2)), k_i32(b, 1)));
    pipeline_wait_empty(b, &a->ring, &a->at);
    for (int block = 0; block < share.blocks; block++)
        for (int group = 0; group < share.columns / 8; group += group % 2 ? 3 : 1)
            across_put_groups(r, is_odd, block, group);
    k_atom(b, ATOM_fence_async, NULL, NULL, 0);
    pipeline_fill(b, &a->ring, &a->at);
    pipeline_advance(b, &a->ring, &a->at);
}

/* That of the part, where the ring has gone on to the next one: computed, as it takes no register so. */
static const KExpr *across_stage_before(RelayRun *r) {
    Builder *b = r->b;
    const KExpr *stage = k_var(b, r->part.stage), *zero = k_i32(b, 0);
    const KExpr *wrapped = k_select(b, k_eq(b, stage, zero), k_i32(b, r->part_ring.stages), zero);
    return k_sub(b, k_add(b, stage, wrapped), k_i32(b, 1));
}

/* A part whose first product 0 is complete, and 1 under way; and those of the next, but behind the last. */
static void across_part(RelayRun *r, const KExpr *part, PartsAt at, bool is_last) {
    Builder *b = r->b;
    const RelayPlan *plan = r->plan;
    at.col = k_let_expr(b, "part_col", k_mul(b, part, k_i32(b, r->parts.width)));
    MatmulFragment *fragment = ARENA_NEW(b->arena, MatmulFragment); /* the epilogue keeps it */
    *fragment = relay_fragment(r, r->fragment, plan->n_first, r->schedule->tile_k, at.lane_row,
                               k_add(b, at.col, at.lane_col));
    const KExpr *stage = k_var(b, r->part.stage);
    r->vectors.base = k_mul(b, stage, k_i32(b, r->schedule->tile_k));
    if (plan->kept) {
        b->rounds_powers = true;
        matmul_pack_hold(r->pack, fragment, plan->kept);
        b->rounds_powers = false;
    }
    relay_wait(r, 0, &r->fragment[1], 1);
    relay_pack(r, r->across.rest, plan->across_held, fragment, &at);
    across_put(r, &at);
    for (int held = 0; held < plan->n_held; held++)
        if (held != plan->across_held) {
            relay_pack(r, r->across.rest, held, fragment, &at);
            matmul_settle(b, r->packed[held]);
            relay_issue_last(r, held, stage);
        }
    if (plan->kept)
        lower_unbind(r->between, plan->kept);
    pipeline_advance(b, &r->part_ring, &r->part);
    if (!is_last)
        pipeline_wait_full(b, &r->part_ring, &r->part);
    k_named_barrier(b, ACROSS_BARRIER, WARPGROUP * r->schedule->warps_m);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    across_issue_last(r, across_stage_before(r));
    across_issue(r);
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
    if (!is_last)
        relay_issue_first(r, 0, 1);
    relay_wait(r, 0, r->sums, plan->n_last);
    matmul_settle(b, r->fragment[0]);
    matmul_settle(b, r->across.part);
    relay_release(r, across_stage_before(r));
    across_hand_over(r);
    if (!is_last)
        relay_issue_first(r, 1, 2);
}

/* From here on addresses are computed again: what is computed of them in the first part, in the loop over the
 * others and behind it would be found to be the same, and kept in registers through all of that, 28 of them
 * for the rows alone. */
static void across_forget_addresses(RelayRun *r) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    for (int i = 0; i < r->plan->n_first; i++)
        r->rows_at[i] = matmul_anew(b, "again", r->rows_at[i]);
    a->rows_at = matmul_anew(b, "again", a->rows_at);
    a->place = matmul_anew(b, "again", a->place);
    a->put_row = matmul_anew(b, "again", a->put_row);
}

void relay_across_parts(RelayRun *r, const PartsAt *at) {
    Builder *b = r->b;
    r->across.rows_at = r->across.rows_first;
    if (r->row_ring.stages > 1)
        r->across.rows_at =
            parts_stage(b, &r->rows[r->plan->across_rows].tile, r->across.rows_first, k_var(b, r->row.stage));
    /* unknown to the compiler: a loop over one part at most becomes a branch, and registers that meet behind
     * it have the assembler wait for each product (C7511) */
    const KExpr *last = matmul_anew(b, "again", k_sub(b, r->across.order.count, k_i32(b, 1)));
    for (int i = 0; i < r->plan->n_last; i++)
        matmul_settle(b, r->sums[i]); /* zeros now, not while products are under way */
    pipeline_wait_full(b, &r->part_ring, &r->part);
    relay_issue_first(r, 0, 1);
    relay_wait(r, 0, r->fragment, 1);
    relay_issue_first(r, 1, 2);
    across_forget_addresses(r);
    const KVar *part = relay_order_first_part(r);
    k_for_begin(b, "step", k_i32(b, 0), last, 1, UNROLL_NONE);
    across_part(r, k_var(b, part), *at, false);
    relay_order_next_part(r, part);
    k_end(b);
    across_forget_addresses(r);
    across_part(r, k_var(b, part), *at, true);
}

void relay_across_meet(RelayRun *r) {
    matmul_pack_end(r->across.rest);
    k_named_barrier(r->b, ACROSS_BARRIER, WARPGROUP * r->schedule->warps_m);
}

void relay_across_stored(RelayRun *r) {
    for (int i = 0; i < r->plan->n_last; i++)
        if (r->is_staged[i])
            matmul_boxes_wait(r->b, &r->staging[i], 0);
    k_named_barrier(r->b, ACROSS_BARRIER, WARPGROUP * r->schedule->warps_m);
}

/* ---- warps that add */

/* A part's boxes, of all rows and some columns. */
static void across_send(RelayRun *r, const MatmulTile *tile, const KExpr *part, bool adds) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    AtomId atom = adds ? ATOM_tma_add_2d : ATOM_tma_store_2d; /* ORDER TMA_ADD, TMA_STORE */
    const KExpr *row = k_mul(b, part, k_i32(b, r->parts.width));
    int columns = (int)dim_upper(r->plan->graph->dims, r->plan->across.n);
    for (int first = 0; first < columns; first += a->sums.span) {
        const KExpr *from = tile_block_address(b, &a->sums, k_var(b, a->at.stage), 0, first / a->sums.span);
        KOperand operands[2 + STORED_DIMS] = {k_operand(k_tensor_map_addr(b, a->map)), k_operand(from)};
        int n = matmul_stored_coords(b, &r->plan->across, &a->stored, tile->batch, row, k_i32(b, first),
                                     operands + 2);
        k_atom(b, (AtomId)(atom + n - 2), NULL, operands, 2 + n);
    }
    k_atom(b, ATOM_bulk_commit, NULL, NULL, 0);
}

static void across_add_part(RelayRun *r, const MatmulTile *tile, const KExpr *part) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    /* known to be the warp's own stage, it would make addresses constant, and have them kept in registers */
    KOperand stage = k_regs(a->at.stage, 0, 1);
    k_atom(b, ATOM_settle_i32, (int[]){1}, &stage, 1);
    pipeline_wait_full(b, &a->ring, &a->at);
    const KExpr *turn = k_convert(b, relay_order_turn(r, part), K_U32);
    const KExpr *at = relay_order_number(r, part);
    KOperand flag[] = {k_operand(k_global_addr(b, a->turns, at)), k_operand(turn)};
    k_if_begin(b, k_eq(b, turn, k_int(b, K_U32, 0)));
    across_send(r, tile, part, false);
    k_else(b);
    k_atom(b, ATOM_flag_wait, NULL, flag, 2);
    k_atom(b, ATOM_fence_async_global, NULL, NULL, 0);
    across_send(r, tile, part, true);
    k_end(b);
    k_atom(b, ATOM_bulk_wait_read, (int[]){0}, NULL, 0);
    KOperand empty = k_operand(k_smem_addr(b, a->ring.empty, k_var(b, a->at.stage)));
    k_atom(b, ATOM_mbar_arrive, NULL, &empty, 1);
    k_atom(b, ATOM_bulk_wait, (int[]){0}, NULL, 0);
    k_atom(b, ATOM_fence_async_global, NULL, NULL, 0);
    flag[1] = k_operand(k_add(b, turn, k_int(b, K_U32, 1)));
    k_atom(b, ATOM_flag_raise, NULL, flag, 2);
}

void relay_across_add(RelayRun *r) {
    Builder *b = r->b;
    RelayAcross *a = &r->across;
    const KExpr *warp = k_special(b, SPECIAL_WARP);
    const KExpr *is_one =
        k_and(b, k_ge(b, warp, k_i32(b, ACROSS_ADDER)), k_lt(b, warp, k_i32(b, ACROSS_BRINGER)));
    k_if_begin(b, k_and(b, is_one, k_eq(b, k_special(b, SPECIAL_LANE), k_i32(b, 0))));
    signals_wait(b, &a->signals);
    a->at = pipeline_start(b, &a->ring);
    MatmulTile tile = relay_order_begin(r);
    const KVar *part = relay_order_first_part(r);
    k_for_begin(b, "step", k_i32(b, 0), a->order.count, 1, UNROLL_NONE);
    k_if_begin(b, k_eq(b, k_var(b, a->at.stage), k_sub(b, warp, k_i32(b, ACROSS_ADDER))));
    across_add_part(r, &tile, k_var(b, part));
    k_end(b);
    pipeline_advance(b, &a->ring, &a->at);
    relay_order_next_part(r, part);
    k_end(b);
    relay_order_end(r);
    k_end(b);
}

/* ---- the warp that brings vectors */

static void across_bring_part(RelayRun *r, const MatmulTile *tile, const KExpr *part) {
    Builder *b = r->b;
    const Dim *columns = r->plan->first[0].n;
    int width = r->parts.width;
    const KExpr *lane = k_special(b, SPECIAL_LANE),
                *stage = k_mul(b, k_var(b, r->part.stage), k_i32(b, width));
    for (int i = 0; i < width / ACROSS_LANES; i++) {
        const KExpr *at = k_add(b, lane, k_i32(b, (int64_t)i * ACROSS_LANES));
        const KExpr *col = k_add(b, k_mul(b, part, k_i32(b, width)), at), *guard = NULL;
        if (dim_divisor(r->plan->graph->dims, columns) % width != 0)
            guard = k_lt(b, col, k_dim(b, columns, K_I32));
        for (int v = 0; v < r->vectors.n; v++) {
            const Value *value = r->vectors.value[v];
            const KExpr *coords[RANK_MAX];
            parts_coords(&r->parts, value, tile, coords);
            coords[value->rank - 1] = col;
            k_store_scalar(b, r->vectors.buffer[v], k_add(b, stage, at),
                           lower_at(r->between, value, coords, guard), NULL);
        }
    }
}

void relay_across_bring(RelayRun *r) {
    Builder *b = r->b;
    if (!r->vectors.n)
        return;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_WARP), k_i32(b, ACROSS_BRINGER)));
    r->part = pipeline_start(b, &r->part_ring);
    MatmulTile tile = relay_order_begin(r);
    const KVar *part = relay_order_first_part(r);
    k_for_begin(b, "step", k_i32(b, 0), r->across.order.count, 1, UNROLL_NONE);
    pipeline_wait_empty(b, &r->part_ring, &r->part);
    across_bring_part(r, &tile, k_var(b, part));
    pipeline_fill(b, &r->part_ring, &r->part);
    pipeline_advance(b, &r->part_ring, &r->part);
    relay_order_next_part(r, part);
    k_end(b);
    relay_order_end(r);
    k_end(b);
}
