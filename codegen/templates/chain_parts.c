/* What kernels that take columns in parts have in common (chain_parts.h). */
#include "codegen/templates/chain_parts.h"

#include "codegen/templates/matmul_operand.h"
#include "ir/base/checked.h"

/* ---- schedules */

int parts_groups(const Schedule *schedule) {
    return schedule->warps_m * (schedule->warps_n > 1 ? schedule->warps_n : 1);
}

bool parts_accepts_registers(const Target *target, const Schedule *schedule, const char **why) {
    *why = "setmaxnreg takes multiples of 8 from 24 to 256, together no more than the block has at launch";
    int groups = parts_groups(schedule);
    return target_deals_registers(target, 1 + groups, groups, schedule->producer_registers,
                                  schedule->consumer_registers);
}

bool parts_accepts(const Target *target, const Schedule *schedule, const char **why) {
    *why = "the target has no wgmma";
    if (!target->has_wgmma || !target->has_tma)
        return false;
    *why = "products are chained by wgmma alone";
    if (schedule->path != MATMUL_WGMMA || schedule->swap_ab || schedule->ping_pong ||
        schedule->cluster_m > 1 || schedule->cluster_n > 1)
        return false;
    *why = "tile_m is 64 rows for each of 1 to 3 consumer warpgroups";
    if (schedule->warps_m < 1 || parts_groups(schedule) > 3 ||
        schedule->tile_m != schedule->warps_m * WGMMA_M)
        return false;
    *why = "2 to 8 stages of parts";
    if (schedule->stages < 2 || schedule->stages > 8)
        return false;
    return parts_accepts_registers(target, schedule, why);
}

int parts_registers(const Target *target, const Schedule *schedule) {
    enum { MOST = 255 };
    int at_launch = target->registers_per_sm / (WARPGROUP * (1 + parts_groups(schedule)));
    return schedule->consumer_registers ? schedule->consumer_registers : at_launch > MOST ? MOST : at_launch;
}

Schedule parts_schedule(int groups, int columns, int width) {
    static const int registers[][2] = {{0, 0}, {0, 0}, {24, 240}, {32, 160}}; /* producer's, consumers' */
    return (Schedule){.path = MATMUL_WGMMA,
                      .threads = WARPGROUP * (1 + groups),
                      .tile_m = WGMMA_M * groups,
                      .warps_m = groups,
                      .warps_n = 1,
                      .tile_n = columns,
                      .tile_k = width,
                      .persistent = true,
                      .tma_store = true,
                      .producer_registers = registers[groups][0],
                      .consumer_registers = registers[groups][1]};
}

Schedule parts_store_schedule(const Schedule *schedule) {
    enum { NARROW = 32 };
    Schedule store = *schedule;
    store.tile_n = schedule->tile_n % NARROW == 0 ? NARROW : schedule->tile_n;
    store.warps_m = parts_groups(schedule);
    return store;
}

/* ---- which parts */

void parts_set_band(Parts *parts, const Band *band) {
    parts->band = *band;
    for (int i = 0; i < band->n; i++) {
        parts->is_ragged = parts->is_ragged || band->limit[i].by_row;
        parts->may_see_none = parts->may_see_none || band->limit[i].n_numbers;
    }
}

const Dim *parts_count(const Parts *parts) {
    DimTable *dims = parts->plan->graph->dims;
    return dim_ceil_div(dims, parts->plan->n, dim_const(dims, parts->width));
}

void parts_coords(const Parts *parts, const Value *value, const MatmulTile *tile, const KExpr **coords) {
    int shift = parts->plan->batch_rank + 2 - value->rank;
    for (int i = 0; i < value->rank; i++)
        coords[i] = dim_is(value->dims[i], 1) ? k_i32(parts->b, 0) : tile->batch[i + shift];
}

/* A number of a tile's matrix, which 40 bits hold: of lengths that others are, none is as long. */
static const KExpr *parts_number(Parts *parts, const Value *value, const MatmulTile *tile) {
    enum { FAR_BITS = 40 };
    Builder *b = parts->b;
    const KExpr *coords[RANK_MAX];
    parts_coords(parts, value, tile, coords);
    const KExpr *number = k_convert(b, lower_at(parts->lower, value, coords, NULL), K_I64);
    int64_t far = (int64_t)1 << FAR_BITS;
    return ktype_of(value->dtype) == K_I64
               ? k_max(b, k_min(b, number, k_int(b, K_I64, far)), k_int(b, K_I64, -far))
               : number;
}

/* A limit of the band for a tile's matrix, kept so small that sums with coordinates are none beyond 32 bits.
 */
static const KExpr *parts_limit(Parts *parts, const BandLimit *limit, const MatmulTile *tile) {
    enum { FAR = 1 << 30 };
    Builder *b = parts->b;
    if (!limit->n_numbers)
        return k_dim(b, limit->offset, K_I32);
    const KExpr *sum = k_dim(b, limit->offset, K_I64);
    for (int i = 0; i < limit->n_numbers; i++) {
        const KExpr *number = parts_number(parts, limit->number[i].value, tile);
        sum = limit->number[i].is_taken ? k_sub(b, sum, number) : k_add(b, sum, number);
    }
    sum = k_max(b, k_min(b, sum, k_int(b, K_I64, FAR)), k_int(b, K_I64, -FAR));
    return k_let_expr(b, "limit", k_convert(b, sum, K_I32));
}

/* The parts that some rows from `row` on see, by the limits of their tile: from the first up to the one
 * behind the last. */
typedef struct PartsRange {
    const KExpr *first, *end;
} PartsRange;

static PartsRange parts_range(const Parts *parts, const KExpr *row, int rows) {
    Builder *b = parts->b;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *width = k_i32(b, parts->width);
    const KExpr *first = zero, *all = k_dim(b, parts_count(parts), K_I32), *end = all;
    for (int i = 0; i < parts->band.n; i++) {
        const BandLimit *limit = &parts->band.limit[i];
        const KExpr *col = parts->limit[i];
        if (limit->by_row)
            col = k_add(b, col, row);
        if (limit->by_row && limit->is_most)
            col = k_add(b, col, k_i32(b, rows - 1));
        if (limit->is_most && parts->may_see_none) {
            end = k_min(b, k_div(b, k_max(b, k_add(b, col, width), zero), width), end);
        } else if (limit->is_most) {
            end = k_min(b, k_add(b, k_div(b, k_max(b, col, zero), width), one), end);
        } else {
            const KExpr *part = k_div(b, k_max(b, col, zero), width);
            part = k_min(b, part, parts->may_see_none ? all : k_sub(b, all, one));
            first = first == zero ? part : k_max(b, first, part);
        }
    }
    return (PartsRange){first, end};
}

void parts_find(Parts *parts, const MatmulTile *tile) {
    Builder *b = parts->b;
    const KExpr *zero = k_i32(b, 0), *all = k_dim(b, parts_count(parts), K_I32);
    for (int i = 0; i < parts->band.n; i++)
        parts->limit[i] = parts_limit(parts, &parts->band.limit[i], tile);
    PartsRange range = parts_range(parts, tile->row, parts->rows);
    parts->first = range.first == zero ? zero : k_let_expr(b, "first_part", range.first);
    if (range.end != all && !parts->may_see_none)
        range.end = k_max(b, range.end, k_add(b, parts->first, k_i32(b, 1)));
    parts->end = range.end == all ? all : k_let_expr(b, "end_part", range.end);
    parts->own_first = parts->first;
    parts->own_end = parts->end;
}

/* Whether rows of one warpgroup may see others of the first (is_most: last) parts than those of all. Not so
 * up to a diagonal from corner to corner of parts that are as long as the tile has rows. */
static bool parts_differ(const Parts *parts, bool is_most) {
    bool differ = false;
    for (int i = 0; i < parts->band.n; i++)
        differ = differ || (parts->band.limit[i].by_row && parts->band.limit[i].is_most == is_most);
    return differ && parts->rows > WGMMA_M && (!is_most || parts->width % parts->rows != 0);
}

void parts_find_own(Parts *parts, const KExpr *row) {
    Builder *b = parts->b;
    const KExpr *one = k_i32(b, 1);
    bool limits_first = parts_differ(parts, false), limits_end = parts_differ(parts, true);
    if (!limits_first && !limits_end)
        return;
    PartsRange own = parts_range(parts, row, WGMMA_M);
    if (limits_first) {
        own.first = k_min(b, k_max(b, own.first, parts->first), k_sub(b, parts->end, one));
        parts->own_first = k_let_expr(b, "own_first", own.first);
    }
    if (limits_end) {
        own.end = k_max(b, k_min(b, own.end, parts->end), k_add(b, parts->own_first, one));
        parts->own_end = k_let_expr(b, "own_end", own.end);
    }
}

void parts_if_any_begin(Parts *parts) {
    if (parts->may_see_none)
        k_if_begin(parts->b, k_lt(parts->b, parts->first, parts->end));
}

void parts_if_any_end(Parts *parts) {
    if (parts->may_see_none)
        k_end(parts->b);
}

/* Places in a group of so many tiles that a block's tiles have, one after the other. */
static int64_t parts_places(int64_t tiles, int64_t blocks) {
    return tiles / dim_gcd(tiles, blocks);
}

/* Matrices whose columns' operands, as keys and values, L2 holds together with what else goes through it;
 * fewer, where a block would have only tiles of a few lengths else: of 9 matrices of 44 rows of tiles, 132
 * blocks have 3 places each. */
static int parts_matrices(const Parts *parts) {
    enum { MOST = 64, PARTS_OF_L2 = 2, PLACES = 16 };
    const MatmulPlan *first = parts->plan;
    const DimTable *dims = first->graph->dims;
    double bytes = (double)dim_upper(dims, first->n) * (double)parts->bytes;
    double fit = (double)first->target->l2_bytes / PARTS_OF_L2 / bytes;
    int most = fit < 1 ? 1 : fit > MOST ? MOST : (int)fit, best = most;
    const Dim *rows = parts->tiles.tiles_m;
    int64_t blocks = first->target->sm_count;
    for (int n = most; dim_is_const(rows) && rows->value > 0 && 2 * n > most; n--) {
        if (parts_places(rows->value * best, blocks) >= PLACES)
            break;
        if (parts_places(rows->value * n, blocks) > parts_places(rows->value * best, blocks))
            best = n;
    }
    return best;
}

/* Whether the first rows see the most: where a band along the diagonal has a lower bound alone. */
static bool parts_first_see_most(const Parts *parts) {
    bool first = true;
    for (int i = 0; i < parts->band.n; i++)
        first = first && !(parts->band.limit[i].by_row && parts->band.limit[i].is_most);
    return first;
}

PartsNumbered parts_numbered(const Parts *parts, const KExpr *number, int together) {
    Builder *b = parts->b;
    const KExpr *rows = k_dim(b, parts->tiles.tiles_m, K_I32),
                *matrices = k_dim(b, parts->tiles.batch, K_I32), *beside = k_i32(b, together);
    const KExpr *per_group = k_let_expr(b, "tiles_per_group", k_mul(b, rows, beside));
    const KExpr *first = k_let_expr(b, "first_matrix", k_mul(b, k_div(b, number, per_group), beside));
    PartsNumbered tile = {.within = k_let_expr(b, "tile_of_group", k_mod(b, number, per_group))};
    tile.members = k_let_expr(b, "group_matrices", k_min(b, beside, k_sub(b, matrices, first)));
    tile.row = k_div(b, tile.within, tile.members);
    tile.member = k_mod(b, tile.within, tile.members);
    tile.matrix = k_add(b, first, tile.member);
    return tile;
}

/* Tiles of a band along the diagonal have parts of their row in different numbers. Those with the most come
 * first, each of some matrices whose keys and values L2 holds, so that blocks end together:
 *
 *     number   0 1 2 3 | 4 5 6 7 | ...       of 4 matrices: the last rows of each, then those before them
 */
static const KExpr *parts_longest_first(Parts *parts, const KExpr *number) {
    Builder *b = parts->b;
    const KExpr *rows = k_dim(b, parts->tiles.tiles_m, K_I32);
    PartsNumbered tile = parts_numbered(parts, number, parts_matrices(parts));
    const KExpr *row =
        parts_first_see_most(parts) ? tile.row : k_sub(b, k_sub(b, rows, k_i32(b, 1)), tile.row);
    return k_add(b, k_mul(b, tile.matrix, rows), row);
}

MatmulTile parts_tiles_begin(Parts *parts, const MatmulPlan *plan) {
    Builder *b = parts->b;
    const KExpr *number = k_for_step_begin(b, "tile", k_special(b, SPECIAL_CTA_X),
                                           k_dim(b, parts->tiles.count, K_I32), k_special(b, SPECIAL_GRID_X));
    if (parts->is_ragged)
        number = k_let_expr(b, "own_tile", parts_longest_first(parts, number));
    return matmul_tile_at(b, plan, &parts->tiles, number);
}

/* As many blocks as SMs, or fewer: where all tiles are alike and that takes no longer, and where memory says
 * how long tiles are, so that a block's are at other places of their sequences: of 8 parts each, 132 blocks
 * would always have the same two. */
const Dim *parts_grid(const Parts *parts) {
    const MatmulPlan *plan = parts->plan;
    DimTable *dims = plan->graph->dims;
    const Dim *tiles = parts->tiles.count;
    int64_t blocks = plan->target->sm_count;
    if (!parts->is_ragged && !parts->may_see_none)
        return matmul_grid(plan, &parts->tiles, 1);
    while (parts->may_see_none && dim_is_const(tiles) && tiles->value > blocks &&
           dim_gcd(blocks, tiles->value) > 1)
        blocks--;
    return dim_min(dims, tiles, dim_const(dims, blocks));
}

/* ---- masks */

const KExpr *parts_is_inside(Builder *b, const PartsMask *mask, const KExpr *group, const KExpr *half,
                             const KExpr *j) {
    const KExpr *col = k_add(b, k_mul(b, group, k_i32(b, 8)), j);
    if (mask->by_row)
        col = k_sub(b, col, k_mul(b, half, k_i32(b, 8)));
    return mask->is_most ? k_ge(b, mask->limit, col) : k_ge(b, col, mask->limit);
}

static void parts_mask_some(Parts *parts, const PartsAt *at, const KExpr *some, const KExpr *limit,
                            PartsMask own, void (*mask)(void *context, const PartsMask *), void *context) {
    Builder *b = parts->b;
    k_if_begin(b, some);
    /* of a column less the part's first: what is constant for an unrolled element stands on one side */
    limit = k_sub(b, limit, k_add(b, at->col, at->lane_col));
    own.limit = k_let_expr(b, "mask_limit", own.by_row ? k_add(b, limit, at->lane_row) : limit);
    mask(context, &own);
    k_end(b);
}

void parts_mask(Parts *parts, const PartsAt *at, bool masks_band,
                void (*mask)(void *context, const PartsMask *), void *context) {
    enum { WARP_ROWS = 16 };
    Builder *b = parts->b;
    const Dim *n = parts->plan->n;
    const KExpr *last = k_add(b, at->col, k_i32(b, parts->width - 1));
    for (int i = 0; i < parts->band.n && masks_band; i++) {
        const BandLimit *limit = &parts->band.limit[i];
        const KExpr *own = limit->by_row ? k_add(b, at->warp_row, parts->limit[i]) : parts->limit[i];
        if (limit->by_row && !limit->is_most)
            own = k_add(b, own, k_i32(b, WARP_ROWS - 1));
        const KExpr *some = limit->is_most ? k_lt(b, own, last) : k_lt(b, at->col, own);
        PartsMask of = {.by_row = limit->by_row, .is_most = limit->is_most};
        parts_mask_some(parts, at, some, parts->limit[i], of, mask, context);
    }
    if (dim_divisor(parts->plan->graph->dims, n) % parts->width != 0) {
        const KExpr *limit = k_sub(b, k_dim(b, n, K_I32), k_i32(b, 1));
        parts_mask_some(parts, at, k_lt(b, limit, last), limit, (PartsMask){.is_most = true}, mask, context);
    }
}

/* ---- what a part needs of memory */

int parts_tile_columns(int columns) {
    enum { SPAN = 64 };
    return columns <= SPAN / 2 ? columns : (int)round_up(columns, SPAN);
}

MatmulTma parts_operand(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, const char *name,
                        int mn, int depth, int stages, bool may_clip) {
    bool is_k = operand->major == MAJOR_K, is_short = dim_is_const(operand->mn) && operand->mn->value < mn;
    MatmulTma tma = {.operand = operand, .share = 1, .is_clipped = may_clip && is_short};
    tma.tile = tile_shared(b, name, operand->elem, is_k ? mn : depth, is_k ? depth : mn, stages);
    tma.maps = matmul_tma_maps(b, plan->graph->dims, &tma);
    return tma;
}

void parts_load_begin(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const Pipeline *ring,
                      const PipelineState *state, const KExpr *mn, const KExpr *k, const MatmulTile *tile,
                      int64_t beside) {
    MatmulTma own = *tma;
    matmul_tma_find_pages(b, plan, &own, mn, k, tile->batch);
    pipeline_wait_empty(b, ring, state);
    pipeline_expect(b, ring, state, k_add(b, matmul_tma_bytes(b, &own, mn), k_int(b, K_U32, beside)));
    matmul_tma_load(b, plan, &own, k_var(b, state->stage), pipeline_full_address(b, ring, state), mn, k,
                    tile->batch);
}

void parts_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const Pipeline *ring,
                const PipelineState *state, const KExpr *mn, const KExpr *k, const MatmulTile *tile) {
    parts_load_begin(b, plan, tma, ring, state, mn, k, tile, 0);
    pipeline_advance(b, ring, state);
}

const KExpr *parts_stage(Builder *b, const Tile *tile, const KExpr *descriptor, const KExpr *stage) {
    const KExpr *offset = k_mul(b, k_convert(b, stage, K_U64), k_int(b, K_U64, tile_bytes(tile) / 16));
    return k_let_expr(b, text_format(b->arena, "%s_at", tile->buffer->name), k_add(b, descriptor, offset));
}

const KExpr *parts_from(Builder *b, const Tile *tile, OperandMajor major, const KExpr *at, int k) {
    int64_t offset =
        major == MAJOR_K ? tile_descriptor_offset(tile, 0, k) : tile_descriptor_offset(tile, k, 0);
    return k_add(b, at, k_int(b, K_U64, offset));
}

PartsLane parts_lane(Builder *b, const KExpr *warp, const KExpr *group) {
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *row =
        k_add(b, k_mul(b, group, k_i32(b, WGMMA_M)), k_mul(b, k_mod(b, warp, k_i32(b, 4)), k_i32(b, 16)));
    PartsLane own = {.warp_row = k_let_expr(b, "warp_row", row)};
    own.row = k_let_expr(b, "lane_row", k_add(b, own.warp_row, k_div(b, lane, k_i32(b, 4))));
    own.col = k_let_expr(b, "lane_col", k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2)));
    return own;
}
