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
 * Where x is -inf beyond a band along the diagonal (Band), parts of which a tile's rows see nothing are
 * neither loaded nor multiplied, and the elements of those that lie within the band whole are not asked. */
#include "codegen/reduce.h"
#include "codegen/templates/chain.h"

#include "codegen/cost.h"

#include <math.h>

enum {
    STREAM_K = 16,    /* elements of a matrix instruction */
    STREAM_HALVES = 2 /* rows of a thread, 8 apart */
};

typedef struct Stream {
    Builder *b;
    const ChainPlan *plan;
    const Schedule *schedule;
    MatmulTiles tiles;
    MatmulTma query, key, value;
    const KExpr *query_first, *key_at, *value_at; /* descriptors of the first stage */
    const KExpr *query_at;                        /* of the tile's */
    Pipeline queries, keys, values;
    Lower *lower[2]; /* of each link */
    MatmulStaging staging;
    bool is_staged;
    Band band;
    bool is_banded,
        masks;   /* parts beyond the band are left out; elements beyond it are what x masks, no others */
    Value *held; /* what the accumulators have of a part: x, or without its band, or q @ k.T itself */
    double by;   /* x is as many times that */
    const KExpr *first, *end;           /* parts of the tile */
    const KVar *scores, *packed, *sums; /* x and p of a part, p in 16 bits, o */
    const KVar *top, *total,
        *scale; /* of each row: largest, the lane's part of the sum, what the sums take */
} Stream;

/* ---- sizes */

static int stream_depth(const ChainPlan *plan) {
    return (int)((dim_upper(plan->graph->dims, plan->link[0].k) + STREAM_K - 1) / STREAM_K * STREAM_K);
}

static int64_t stream_smem_with(const ChainPlan *plan, const Schedule *s, int queries) {
    Schedule store = chain_store_schedule(s);
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
    *why = "the target has no wgmma";
    if (!target->has_wgmma || !target->has_tma)
        return false;
    *why = "products are chained by wgmma alone";
    if (s->path != MATMUL_WGMMA || s->swap_ab || s->ping_pong || s->cluster_m > 1 || s->cluster_n > 1)
        return false;
    *why = "tile_m is 64 rows for each of 1 to 3 consumer warpgroups";
    if (s->warps_m < 1 || s->warps_m > 3 || s->tile_m != s->warps_m * WGMMA_M)
        return false;
    *why = "tile_n is the columns of the second product, tile_k those of a part of the softmax";
    if (s->tile_n != plan->columns[1] || s->tile_n > WGMMA_N_MAX || s->tile_k < STREAM_K ||
        s->tile_k > WGMMA_N_MAX || s->tile_k % STREAM_K != 0)
        return false;
    *why = "2 to 8 stages of keys and values";
    if (s->stages < 2 || s->stages > 8)
        return false;
    *why = "the accumulators do not fit the registers";
    int at_launch = target->registers_per_sm / (WARPGROUP * (1 + s->warps_m));
    if (stream_registers(s) > (s->consumer_registers ? s->consumer_registers
                               : at_launch > 255     ? 255
                                                     : at_launch))
        return false;
    *why = "the stages do not fit shared memory";
    if (stream_smem_with(plan, s, 1) > target->smem_per_block)
        return false;
    *why = "setmaxnreg takes multiples of 8 from 24 to 256 that fit the SM";
    int p = s->producer_registers, c = s->consumer_registers;
    if (c &&
        (p % 8 || c % 8 || p < 24 || c > 256 || WARPGROUP * (p + s->warps_m * c) > target->registers_per_sm))
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
 * stages are enough: what they bring, L2 has. */
int chain_stream_schedules(const ChainPlan *plan, const DimBindings *hint, Schedule *out, int room) {
    static const int parts[] = {128, 96, 64}, registers[][2] = {{0, 0}, {0, 0}, {24, 240}, {32, 160}};
    const char *why;
    int n = 0;
    for (int groups = stream_groups(plan, hint); groups >= 1; groups--)
        for (size_t i = 0; i < sizeof parts / sizeof *parts && n < room; i++) {
            Schedule s = {.path = MATMUL_WGMMA,
                          .threads = WARPGROUP * (1 + groups),
                          .tile_m = WGMMA_M * groups,
                          .warps_m = groups,
                          .warps_n = 1,
                          .tile_n = plan->columns[1],
                          .tile_k = parts[i],
                          .stages = 2,
                          .persistent = true,
                          .tma_store = true,
                          .producer_registers = registers[groups][0],
                          .consumer_registers = registers[groups][1]};
            if (chain_stream_accepts(plan, &s, &why))
                out[n++] = s;
        }
    return n;
}

/* ---- shared memory */

static MatmulTma stream_operand(Stream *s, const MatmulOperand *operand, const char *name, int mn, int depth,
                                int stages) {
    bool is_k = operand->major == MAJOR_K;
    MatmulTma tma = {.operand = operand, .share = 1};
    tma.tile = tile_shared(s->b, name, operand->elem, is_k ? mn : depth, is_k ? depth : mn, stages);
    tma.maps = matmul_tma_maps(s->b, s->plan->graph->dims, &tma);
    return tma;
}

/* What is kept of q @ k.T for the exponentials. */
static void stream_find_scores(Stream *s) {
    const MatmulPlan *plan = &s->plan->link[0];
    Value *x = s->plan->softmax.x;
    s->is_banded = softmax_band(plan->graph->dims, x, &s->band, &s->held);
    s->masks = s->held != x;
    s->by = 1;
    double by;
    if (s->held->op == OP_mul && s->held->in[0] == plan->core[0] && value_is_constant(s->held->in[1], &by) &&
        by > 0 && isfinite((float)(by * M_LOG2E))) {
        s->held = s->held->in[0];
        s->by = by;
    }
}

/* The parts that a tile's rows see anything of: one at least, of which all may be masked. */
static void stream_find_parts(Stream *s, const MatmulTile *tile) {
    Builder *b = s->b;
    DimTable *dims = s->plan->graph->dims;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *width = k_i32(b, s->schedule->tile_k);
    s->first = zero;
    s->end = k_dim(b, dim_ceil_div(dims, s->plan->link[0].n, dim_const(dims, s->schedule->tile_k)), K_I32);
    if (s->band.low) {
        const KExpr *col = k_max(b, k_add(b, tile->row, k_dim(b, s->band.low, K_I32)), zero);
        s->first = k_let_expr(b, "first_part", k_min(b, k_div(b, col, width), k_sub(b, s->end, one)));
    }
    if (s->band.high) {
        const KExpr *col = k_max(
            b,
            k_add(b, tile->row,
                  k_dim(b, dim_add(dims, s->band.high, dim_const(dims, s->schedule->tile_m - 1)), K_I32)),
            zero);
        const KExpr *end = k_min(b, k_add(b, k_div(b, col, width), one), s->end);
        s->end = k_let_expr(b, "end_part", k_max(b, end, k_add(b, s->first, one)));
    }
}

/* Matrices whose keys and values L2 holds together with what else goes through it. */
static int stream_matrices(const Stream *s) {
    enum { MOST = 64, PARTS_OF_L2 = 2 };
    const MatmulPlan *first = &s->plan->link[0];
    const DimTable *dims = s->plan->graph->dims;
    double bytes = (double)dim_upper(dims, first->n) * (stream_depth(s->plan) + s->schedule->tile_n) * 2;
    double fit = (double)s->plan->target->l2_bytes / PARTS_OF_L2 / bytes;
    return fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
}

/* Tiles of a band have parts of their row in different numbers. Those with the most come first, each of some
 * matrices whose keys and values L2 holds, so that blocks end together:
 *
 *     number   0 1 2 3 | 4 5 6 7 | ...       of 4 matrices: the last rows of each, then those before them
 */
static const KExpr *stream_longest_first(Stream *s, const KExpr *number) {
    Builder *b = s->b;
    const KExpr *rows = k_dim(b, s->tiles.tiles_m, K_I32), *matrices = k_dim(b, s->tiles.batch, K_I32);
    const KExpr *together = k_i32(b, stream_matrices(s)), *one = k_i32(b, 1);
    const KExpr *per_group = k_let_expr(b, "tiles_per_group", k_mul(b, rows, together));
    const KExpr *first = k_let_expr(b, "first_matrix", k_mul(b, k_div(b, number, per_group), together));
    const KExpr *rest = k_let_expr(b, "tile_of_group", k_mod(b, number, per_group));
    const KExpr *there = k_let_expr(b, "group_matrices", k_min(b, together, k_sub(b, matrices, first)));
    const KExpr *row = k_sub(b, k_sub(b, rows, one), k_div(b, rest, there));
    return k_add(b, k_mul(b, k_add(b, first, k_mod(b, rest, there)), rows), row);
}

static MatmulTile stream_tiles_begin(Stream *s) {
    Builder *b = s->b;
    const KExpr *number = k_for_step_begin(b, "tile", k_special(b, SPECIAL_CTA_X),
                                           k_dim(b, s->tiles.count, K_I32), k_special(b, SPECIAL_GRID_X));
    if (s->is_banded)
        number = k_let_expr(b, "own_tile", stream_longest_first(s, number));
    return matmul_tile_at(b, &s->plan->link[1], &s->tiles, number);
}

/* As many blocks as SMs, or fewer where all tiles are alike and fewer take no longer. */
static const Dim *stream_grid(const Stream *s) {
    const ChainPlan *plan = s->plan;
    DimTable *dims = plan->graph->dims;
    return s->is_banded ? dim_min(dims, s->tiles.count, dim_const(dims, plan->target->sm_count))
                        : matmul_grid(&plan->link[0], &s->tiles, 1);
}

/* ---- the producer */

static void stream_load(Stream *s, int link, const MatmulTma *tma, const Pipeline *ring,
                        const PipelineState *state, const KExpr *mn, const KExpr *k, const MatmulTile *tile) {
    Builder *b = s->b;
    pipeline_wait_empty(b, ring, state);
    pipeline_expect(b, ring, state, k_int(b, K_U32, tile_bytes(&tma->tile)));
    matmul_tma_load(b, &s->plan->link[link], tma, k_var(b, state->stage),
                    pipeline_full_address(b, ring, state), mn, k, tile->batch);
    pipeline_advance(b, ring, state);
}

static void stream_produce(Stream *s) {
    Builder *b = s->b;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *width = k_i32(b, s->schedule->tile_k);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), zero));
    PipelineState query = pipeline_start(b, &s->queries), key = pipeline_start(b, &s->keys),
                  value = pipeline_start(b, &s->values);
    MatmulTile tile = stream_tiles_begin(s);
    stream_find_parts(s, &tile);
    stream_load(s, 0, &s->query, &s->queries, &query, tile.row, zero, &tile);
    stream_load(s, 0, &s->key, &s->keys, &key, k_mul(b, s->first, width), zero, &tile);
    const KExpr *part = k_for_begin(b, "part", k_add(b, s->first, one), s->end, 1, UNROLL_NONE);
    stream_load(s, 0, &s->key, &s->keys, &key, k_mul(b, part, width), zero, &tile);
    stream_load(s, 1, &s->value, &s->values, &value, zero, k_mul(b, k_sub(b, part, one), width), &tile);
    k_end(b);
    stream_load(s, 1, &s->value, &s->values, &value, zero, k_mul(b, k_sub(b, s->end, one), width), &tile);
    k_end(b);
    k_end(b);
}

/* ---- the consumers: products */

static const KExpr *stream_stage(Stream *s, const MatmulTma *tma, const KExpr *descriptor,
                                 const KExpr *stage) {
    Builder *b = s->b;
    const KExpr *offset = k_mul(b, k_convert(b, stage, K_U64), k_int(b, K_U64, tile_bytes(&tma->tile) / 16));
    return k_let_expr(b, text_format(b->arena, "%s_at", tma->tile.buffer->name),
                      k_add(b, descriptor, offset));
}

/* An operand's descriptor from element k of the sum on. */
static const KExpr *stream_from(Stream *s, const MatmulTma *tma, const KExpr *at, int k) {
    bool is_k = tma->operand->major == MAJOR_K;
    int64_t offset =
        is_k ? tile_descriptor_offset(&tma->tile, 0, k) : tile_descriptor_offset(&tma->tile, k, 0);
    return k_add(s->b, at, k_int(s->b, K_U64, offset));
}

/* Issues q @ k.T of a part. */
static void stream_first(Stream *s, const KExpr *stage) {
    Builder *b = s->b;
    const MatmulOperand *a = s->query.operand, *k_operand_ = s->key.operand;
    const KExpr *at = stream_stage(s, &s->key, s->key_at, stage);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int k = 0; k < stream_depth(s->plan); k += STREAM_K) {
        KOperand operands[] = {k_regs(s->scores, 0, s->scores->count),
                               k_operand(stream_from(s, &s->query, s->query_at, k)),
                               k_operand(stream_from(s, &s->key, at, k)), k_operand(k_int(b, K_U32, k > 0))};
        int shape[] = {s->schedule->tile_k, (int)a->elem, a->major == MAJOR_MN,
                       k_operand_->major == MAJOR_MN};
        k_atom(b, ATOM_wgmma_16bit, shape, operands, 4);
    }
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
}

/* Issues o += p @ v of a part. */
static void stream_second(Stream *s, const KExpr *stage) {
    Builder *b = s->b;
    const MatmulOperand *operand = s->value.operand;
    const KExpr *at = stream_stage(s, &s->value, s->value_at, stage);
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int k = 0; k < s->schedule->tile_k; k += STREAM_K) {
        KOperand operands[] = {k_regs(s->sums, 0, s->sums->count), k_regs(s->packed, k / 4, 4),
                               k_operand(stream_from(s, &s->value, at, k)), k_operand(k_int(b, K_U32, 1))};
        int shape[] = {s->schedule->tile_n, (int)operand->elem, operand->major == MAJOR_MN};
        k_atom(b, ATOM_wgmma_16bit_rs, shape, operands, 4);
    }
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
}

static void stream_wait(Stream *s, int groups, const KVar *settled) {
    k_atom(s->b, ATOM_wgmma_wait, &groups, NULL, 0);
    matmul_settle(s->b, settled);
}

/* ---- the consumers: a part of the softmax */

/* Each element that the thread has of 8 columns times `groups`, with its row and place in the registers. */
typedef struct StreamEach {
    const KExpr *group, *half, *j, *at;
} StreamEach;

static StreamEach stream_each_begin(Stream *s, int columns) {
    Builder *b = s->b;
    StreamEach each;
    each.group = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, columns / 8), 1, UNROLL_FULL);
    each.half = k_for_begin(b, "h", k_i32(b, 0), k_i32(b, STREAM_HALVES), 1, UNROLL_FULL);
    each.j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, 2), 1, UNROLL_FULL);
    const KExpr *row = k_add(b, k_mul(b, each.group, k_i32(b, STREAM_HALVES)), each.half);
    each.at = k_add(b, k_mul(b, row, k_i32(b, 2)), each.j);
    return each;
}

static void stream_each_end(Stream *s) {
    for (int i = 0; i < 3; i++)
        k_end(s->b);
}

static void stream_scale_sums(Stream *s, const KVar *by) {
    Builder *b = s->b;
    StreamEach each = stream_each_begin(s, s->schedule->tile_n);
    k_set_elem(b, s->sums, each.at, k_mul(b, k_elem(b, s->sums, each.at), k_elem(b, by, each.half)));
    stream_each_end(s);
}

/* Where a lane's elements of a part lie. */
typedef struct StreamAt {
    const KExpr *col;                 /* of the part */
    const KExpr *warp_row;            /* of the warp */
    const KExpr *lane_row, *lane_col; /* of the lane, this one within the part */
} StreamAt;

/* Where `some` of the warp's elements in the part lie beyond, those whose column less what `limit` adds to
 * their row is above or below it become -inf. */
static void stream_mask(Stream *s, const StreamAt *at, const KExpr *some, const KExpr *limit, bool by_row,
                        bool is_above) {
    Builder *b = s->b;
    k_if_begin(b, some);
    /* of a column less the part's first: what is constant for an unrolled element stands on one side */
    const KExpr *own = k_sub(b, limit, k_add(b, at->col, at->lane_col));
    own = k_let_expr(b, "mask_limit", by_row ? k_add(b, own, at->lane_row) : own);
    StreamEach each = stream_each_begin(s, s->schedule->tile_k);
    const KExpr *col = k_add(b, k_mul(b, each.group, k_i32(b, 8)), each.j);
    if (by_row)
        col = k_sub(b, col, k_mul(b, each.half, k_i32(b, 8)));
    const KExpr *inside = is_above ? k_ge(b, own, col) : k_ge(b, col, own);
    k_set_elem(b, s->scores, each.at,
               k_select(b, inside, k_elem(b, s->scores, each.at), k_float(b, K_F32, -INFINITY)));
    stream_each_end(s);
    k_end(b);
}

/* Elements beyond the band, and beyond the last column. */
static void stream_mask_part(Stream *s, const StreamAt *at) {
    enum { WARP_ROWS = 16 };
    Builder *b = s->b;
    const Dim *n = s->plan->link[0].n;
    const KExpr *last = k_add(b, at->col, k_i32(b, s->schedule->tile_k - 1));
    if (s->masks && s->band.high) {
        const KExpr *limit = k_dim(b, s->band.high, K_I32);
        stream_mask(s, at, k_lt(b, k_add(b, at->warp_row, limit), last), limit, true, true);
    }
    if (s->masks && s->band.low) {
        const KExpr *limit = k_dim(b, s->band.low, K_I32);
        const KExpr *lowest = k_add(b, k_add(b, at->warp_row, limit), k_i32(b, WARP_ROWS - 1));
        stream_mask(s, at, k_lt(b, at->col, lowest), limit, true, false);
    }
    if (dim_divisor(s->plan->graph->dims, n) % s->schedule->tile_k != 0) {
        const KExpr *limit = k_sub(b, k_dim(b, n, K_I32), k_i32(b, 1));
        stream_mask(s, at, k_lt(b, limit, last), limit, false, true);
    }
}

/* The rows' largest elements with those of this part, and what the sums so far are scaled by. Rows of which
 * all is -inf so far count from 0. */
static void stream_find_top(Stream *s, const KVar *base) {
    Builder *b = s->b;
    const Value *max = s->plan->softmax.max;
    PartialVars tops = reduce_declare(b, max, "part_top", 2 * STREAM_HALVES, K_I32);
    StreamEach each = stream_each_begin(s, s->schedule->tile_k);
    const KExpr *column = k_add(b, k_mul(b, each.half, k_i32(b, 2)), each.j);
    reduce_take(b, max, tops, column, k_elem(b, s->scores, each.at), NULL, NULL);
    stream_each_end(s);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half), *own = k_i32(b, 2 * half);
        reduce_into(b, max, tops, own, reduce_get(b, tops, k_i32(b, 2 * half + 1)));
        reduce_lanes(b, max, tops, own, 4);
        reduce_into(b, max, tops, own, (Partial){k_elem(b, s->top, row), NULL});
        const KExpr *top = k_elem(b, tops.x, own), *low = k_float(b, K_F32, -INFINITY);
        const KExpr *counted = k_select(b, k_eq(b, top, low), k_float(b, K_F32, 0), top);
        const KExpr *log2_e = k_float(b, K_F32, s->by * M_LOG2E);
        k_set_elem(b, base, row, k_mul(b, counted, log2_e));
        const KExpr *below = k_sub(b, k_mul(b, k_elem(b, s->top, row), log2_e), k_elem(b, base, row));
        k_set_elem(b, s->scale, row, lower_power_of_two(b, below));
        k_set_elem(b, s->top, row, top);
    }
}

/* p in the place of x, and the sum of a row with it. */
static void stream_exponentials(Stream *s, const KVar *base) {
    Builder *b = s->b;
    const KVar *part = k_array(b, "part_sum", K_F32, 2 * STREAM_HALVES, k_float(b, K_F32, 0));
    StreamEach each = stream_each_begin(s, s->schedule->tile_k);
    const KExpr *x = k_elem(b, s->scores, each.at), *log2_e = k_float(b, K_F32, s->by * M_LOG2E);
    const KExpr *below = k_sub(b, k_mul(b, x, log2_e), k_elem(b, base, each.half));
    const KExpr *column = k_add(b, k_mul(b, each.half, k_i32(b, 2)), each.j);
    k_set_elem(b, s->scores, each.at, lower_power_of_two(b, below));
    k_set_elem(b, part, column, k_add(b, k_elem(b, part, column), k_elem(b, s->scores, each.at)));
    stream_each_end(s);
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half);
        const KExpr *sum = k_add(b, k_elem_at(b, part, 2 * half), k_elem_at(b, part, 2 * half + 1));
        k_set_elem(b, s->total, row,
                   k_add(b, k_mul(b, k_elem(b, s->total, row), k_elem(b, s->scale, row)), sum));
    }
}

/* x of a part, whose products have ended, becomes p; what the sums are scaled by then is known. */
static void stream_softmax(Stream *s, const MatmulFragment *scores, const MatmulTile *tile,
                           const StreamAt *at) {
    Builder *b = s->b;
    const KVar *base = k_array(b, "base", K_F32, STREAM_HALVES, NULL);
    MatmulFragment fragment = *scores;
    fragment.col = k_add(b, at->col, at->lane_col);
    if (s->held != s->plan->link[0].core[0])
        matmul_epilogue_hold(b, &s->plan->link[0], s->lower[0], &fragment, tile->batch, NULL, s->held);
    stream_mask_part(s, at);
    stream_find_top(s, base);
    stream_exponentials(s, base);
}

/* p in 16 bits, for the products: two neighbours a register. */
static void stream_pack(Stream *s) {
    Builder *b = s->b;
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, s->packed->count), 1, UNROLL_FULL);
    const KExpr *at = k_mul(b, word, k_i32(b, 2));
    const KExpr *pair[] = {k_elem(b, s->scores, at), k_elem(b, s->scores, k_add(b, at, k_i32(b, 1)))};
    k_set_elem(b, s->packed, word, k_pack(b, s->value.operand->elem, pair));
    k_end(b);
    matmul_settle(b, s->packed);
}

/* The rows divided by their sums. */
static void stream_divide(Stream *s) {
    Builder *b = s->b;
    const Value *sum = s->plan->softmax.sum;
    PartialVars totals = {.x = s->total};
    for (int half = 0; half < STREAM_HALVES; half++) {
        const KExpr *row = k_i32(b, half);
        reduce_lanes(b, sum, totals, row, 4);
        k_set_elem(b, s->scale, row, k_div(b, k_float(b, K_F32, 1), k_elem(b, s->total, row)));
    }
    stream_scale_sums(s, s->scale);
}

/* ---- the consumers: a tile */

static void stream_declare_tile(Stream *s) {
    Builder *b = s->b;
    const KExpr *zero = k_float(b, K_F32, 0);
    s->scores = k_array(b, "scores", K_F32, s->schedule->tile_k / 2, NULL);
    s->packed = k_array(b, "packed", K_U32, s->schedule->tile_k / 4, NULL);
    s->sums = k_array(b, "sums", K_F32, s->schedule->tile_n / 2, zero);
    s->top = k_array(b, "top", K_F32, STREAM_HALVES, k_float(b, K_F32, -INFINITY));
    s->total = k_array(b, "total", K_F32, STREAM_HALVES, zero);
    s->scale = k_array(b, "scale", K_F32, STREAM_HALVES, zero);
}

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

static void stream_parts_of_tile(Stream *s, const MatmulTile *tile, StreamAt *at, PipelineState *query,
                                 PipelineState *key, PipelineState *value) {
    Builder *b = s->b;
    const KExpr *one = k_i32(b, 1), *width = k_i32(b, s->schedule->tile_k);
    MatmulFragment scores = stream_fragment(s, s->scores, s->schedule->tile_k, at->lane_row);
    stream_find_parts(s, tile);
    pipeline_wait_full(b, &s->queries, query);
    s->query_at = stream_stage(s, &s->query, s->query_first, k_var(b, query->stage));
    pipeline_wait_full(b, &s->keys, key);
    stream_first(s, k_var(b, key->stage));
    stream_wait(s, 0, s->scores);
    pipeline_release(b, &s->keys, k_var(b, key->stage), NULL);
    pipeline_advance(b, &s->keys, key);
    at->col = k_let_expr(b, "part_col", k_mul(b, s->first, width));
    stream_softmax(s, &scores, tile, at);
    stream_pack(s);
    const KExpr *part = k_for_begin(b, "part", k_add(b, s->first, one), s->end, 1, UNROLL_NONE);
    pipeline_wait_full(b, &s->keys, key);
    stream_first(s, k_var(b, key->stage));
    pipeline_wait_full(b, &s->values, value);
    stream_second(s, k_var(b, value->stage));
    stream_wait(s, 1, s->scores);
    pipeline_release(b, &s->keys, k_var(b, key->stage), NULL);
    pipeline_advance(b, &s->keys, key);
    at->col = k_let_expr(b, "part_col", k_mul(b, part, width));
    stream_softmax(s, &scores, tile, at);
    stream_wait(s, 0, s->sums);
    pipeline_release(b, &s->values, k_var(b, value->stage), NULL);
    pipeline_advance(b, &s->values, value);
    stream_scale_sums(s, s->scale);
    stream_pack(s);
    k_end(b);
    pipeline_release(b, &s->queries, k_var(b, query->stage), NULL);
    pipeline_advance(b, &s->queries, query);
    pipeline_wait_full(b, &s->values, value);
    stream_second(s, k_var(b, value->stage));
    stream_wait(s, 0, s->sums);
    pipeline_release(b, &s->values, k_var(b, value->stage), NULL);
    pipeline_advance(b, &s->values, value);
}

static void stream_consume(Stream *s) {
    Builder *b = s->b;
    const KExpr *warp = k_let_expr(b, "warp", k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)));
    const KExpr *group = k_let_expr(b, "warpgroup", k_div(b, warp, k_i32(b, 4))),
                *lane = k_special(b, SPECIAL_LANE);
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
    const KExpr *warp_row =
        k_add(b, k_mul(b, group, k_i32(b, WGMMA_M)), k_mul(b, k_mod(b, warp, k_i32(b, 4)), k_i32(b, 16)));
    warp_row = k_let_expr(b, "warp_row", warp_row);
    const KExpr *lane_row = k_let_expr(b, "lane_row", k_add(b, warp_row, k_div(b, lane, k_i32(b, 4))));
    const KExpr *lane_col = k_let_expr(b, "lane_col", k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2)));
    if (s->is_staged) {
        s->staging.owner = warp;
        matmul_boxes_begin(b, &s->staging);
    }
    MatmulTile tile = stream_tiles_begin(s);
    StreamAt at = {.warp_row = k_let_expr(b, "first_row", k_add(b, tile.row, warp_row)),
                   .lane_row = k_let_expr(b, "own_row", k_add(b, tile.row, lane_row)),
                   .lane_col = lane_col};
    stream_declare_tile(s);
    stream_parts_of_tile(s, &tile, &at, &query, &key, &value);
    stream_divide(s);
    MatmulFragment fragment = stream_fragment(s, s->sums, s->schedule->tile_n, at.lane_row);
    fragment.col = lane_col;
    fragment.is_whole = true;
    s->staging.row = k_add(b, tile.row, warp_row);
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
    Stream s = {.b = b, .plan = plan, .schedule = schedule};
    s.tiles = chain_tiles(plan, schedule);
    stream_find_scores(&s);
    kernel->threads = WARPGROUP * (1 + schedule->warps_m);
    kernel->min_blocks = 1;
    kernel->grid[0] = stream_grid(&s);
    int depth = stream_depth(plan);
    s.query = stream_operand(&s, &plan->link[0].a, "query_tile", schedule->tile_m, depth,
                             stream_queries(plan, schedule));
    s.key = stream_operand(&s, &plan->link[0].b[0], "key_tile", schedule->tile_k, depth, schedule->stages);
    s.value = stream_operand(&s, &plan->link[1].b[0], "value_tile", schedule->tile_n, schedule->tile_k,
                             schedule->stages);
    Schedule store = chain_store_schedule(schedule);
    s.is_staged = matmul_staging(b, &plan->link[1], &store, NULL, &s.staging);
    s.queries = pipeline_new(b, "query", stream_queries(plan, schedule));
    s.keys = pipeline_new(b, "key", schedule->stages);
    s.values = pipeline_new(b, "value", schedule->stages);
    for (int i = 0; i < 2; i++)
        s.lower[i] = lower_new(b, plan->link[i].region);

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
