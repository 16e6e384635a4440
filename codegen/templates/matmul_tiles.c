/* Which tile of the result a block works on. */
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"
#include "codegen/templates/matmul_simt.h"

int matmul_split(const Schedule *schedule) {
    return schedule->split_k > 1 ? schedule->split_k : 1;
}

int matmul_gang(const MatmulPlan *plan, const Schedule *schedule) {
    if (!plan->statistics.n || plan->block_cols || !dim_is_const(plan->n) || schedule->tile_n < 1)
        return 1;
    int64_t blocks = (plan->n->value + schedule->tile_n - 1) / schedule->tile_n;
    return blocks < 1 ? 1 : blocks > INT16_MAX ? INT16_MAX : (int)blocks;
}

/* Whether the matrices along an axis of a second operand's batch, of the batch's own axis, lie one behind the
 * other in memory. */
static bool members_are_neighbours(const MatmulPlan *plan, const MatmulOperand *own, int own_axis, int axis) {
    const Dim *step = own->view.strides[own->mn_axis];
    return own->value->dims[own_axis] == plan->region->dims[axis] &&
           own->view.strides[own_axis] == dim_mul(plan->graph->dims, plan->n, step);
}

/* The axis of the first operand's batch that is the batch's; -1 where all matrices along that have one first
 * operand. */
static int members_first_axis(const MatmulPlan *plan, int axis) {
    const Value *first = plan->a.value;
    int own = axis - (plan->batch_rank + 2 - first->rank);
    return own < 0 || dim_is(first->dims[own], 1) ? -1 : own;
}

/* Whether the first operands along an axis of its batch are channels beside each other at each tap of the
 * same windows, of which a step has one tap and `n` matrices lie within a line. */
static bool members_lie_in_line(const MatmulPlan *plan, const Schedule *schedule, int first_axis, int n) {
    enum { LINE_BITS = 1024 };
    const Windows *windows = plan->a.windows;
    return windows && matmul_has_windows(&plan->a) && plan->a.major == MAJOR_K &&
           plan->b[0].major == MAJOR_K && plan->n_cores == 1 && !matmul_partial_cols(plan, schedule) &&
           dim_is(windows->channels, schedule->tile_k) && dim_is(windows->first_channel, 0) &&
           windows->batch[first_axis].base_axis == windows->channels_axis &&
           windows->batch[first_axis].step == windows->channels &&
           n * schedule->tile_k * dtype_bits(plan->a.elem) <= LINE_BITS;
}

/* Whether all second operands are neighbours along an axis. */
static bool members_are_alike(const MatmulPlan *plan, int own_axis, int axis) {
    for (int i = 0; i < plan->n_cores; i++)
        if (plan->b[i].value->rank != plan->b[0].value->rank ||
            !members_are_neighbours(plan, &plan->b[i], own_axis, axis))
            return false;
    return true;
}

/* What counts on a tile of one matrix has one: sums of columns, parts of K in several blocks, the order of
 * stored tiles that a guest waits for. */
static bool members_are_accepted(const MatmulPlan *plan, const Schedule *schedule) {
    const char *why;
    if (schedule->path != MATMUL_WGMMA || schedule->swap_ab || schedule->stream_k || schedule->split_k > 1 ||
        schedule->cluster_n > 1)
        return false;
    if (plan->before || plan->columns.n || plan->block_cols || matmul_rows_guest(plan) ||
        matmul_has_scale(plan))
        return false;
    for (int i = 0; i < plan->n_cores; i++)
        if (!matmul_is_tma(plan->graph, &plan->b[i], &why))
            return false;
    return true;
}

MatmulMembers matmul_members(const MatmulPlan *plan, const Schedule *schedule) {
    enum { MEMBER_COLS = 16 /* boxes of the result have no fewer */ };
    const MatmulMembers one = {1, -1, -1, false};
    const MatmulOperand *own = &plan->b[0];
    if (!dim_is_const(plan->n) || plan->n->value < MEMBER_COLS || plan->n->value % MEMBER_COLS != 0 ||
        schedule->tile_n % plan->n->value != 0 || !members_are_accepted(plan, schedule))
        return one;
    int n = schedule->tile_n / (int)plan->n->value;
    for (int i = 0; i < own->n_batch && n > 1; i++) {
        int axis = own->batch[i] + plan->batch_rank + 2 - own->value->rank;
        int first = members_first_axis(plan, axis);
        if (dim_divisor(plan->graph->dims, plan->region->dims[axis]) % n == 0 &&
            members_are_alike(plan, own->batch[i], axis) &&
            (first < 0 || members_lie_in_line(plan, schedule, first, n)))
            return (MatmulMembers){n, axis, own->batch[i], first >= 0};
    }
    return one;
}

int matmul_row_elements(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand) {
    MatmulMembers members = matmul_members(plan, schedule);
    return schedule->tile_k * (members.own_k && operand == &plan->a ? members.n : 1);
}

int matmul_columns_at_once(const MatmulPlan *plan, const Schedule *schedule) {
    MatmulMembers members = matmul_members(plan, schedule);
    return schedule->tile_n / (members.own_k ? members.n : 1);
}

MatmulBatch matmul_member_batch(Builder *b, const MatmulPlan *plan, const MatmulMembers *members,
                                const KExpr *const *batch, const KExpr *member) {
    MatmulBatch own = {0};
    for (int i = 0; i < plan->batch_rank; i++)
        own.at[i] = members->n > 1 && i == members->axis ? k_add(b, batch[i], member) : batch[i];
    return own;
}

/* Extent of an axis of the batch, in members of a tile. */
static const Dim *tiles_batch(const MatmulPlan *plan, const MatmulTiles *tiles, int axis) {
    DimTable *dims = plan->graph->dims;
    const Dim *extent = plan->region->dims[axis];
    bool has_members = tiles->members.n > 1 && tiles->members.axis == axis;
    return has_members ? dim_div(dims, extent, dim_const(dims, tiles->members.n)) : extent;
}

/* Whether indices choose an operand along an axis of the product's batch. */
static bool tiles_is_chosen(const MatmulPlan *plan, const MatmulOperand *operand, int axis) {
    int own = axis - (plan->batch_rank + 2 - operand->value->rank);
    return operand->chosen && !operand->chooses_rows && !operand->chosen->page && own >= 0 &&
           !dim_is(operand->chosen->index.strides[own], 0);
}

int matmul_above(const MatmulPlan *plan) {
    int axis = plan->batch_rank;
    for (; axis > 0; axis--)
        for (int i = 0; i < plan->n_cores; i++)
            if (!tiles_is_chosen(plan, &plan->b[i], axis - 1))
                return axis;
    return axis;
}

int matmul_beside(const MatmulPlan *plan) {
    const Value *shared = plan->a.value;
    if (matmul_above(plan) < plan->batch_rank)
        return plan->batch_rank;
    int axis = plan->batch_rank, missing = plan->batch_rank + 2 - shared->rank;
    while (axis > 0 && (axis - 1 < missing || dim_is(shared->dims[axis - 1 - missing], 1)))
        axis--;
    return axis;
}

/* Whether columns are apart for what takes the product, or for how they are stored. */
static bool tiles_cuts_columns(const MatmulPlan *plan, const Schedule *schedule) {
    return plan->block_cols || plan->region->column_block || plan->region->windows.n ||
           matmul_members(plan, schedule).n > 1;
}

/* Whether the last tile begins at 16 bytes of whatever lies along the extent, as TMA's boxes do: operands,
 * outputs, and inputs of the epilogue, which TMA brings where they have 16 bits. */
static bool tiles_end_at_pieces(const MatmulPlan *plan, const Dim *extent, const MatmulOperand *operand) {
    const Graph *graph = plan->graph;
    bool ends = view_is_step(graph, extent, operand->elem) && view_is_step(graph, extent, DTYPE_BF16);
    for (size_t i = 0; i < plan->region->outputs.n && extent == plan->n; i++)
        ends = ends && view_is_step(graph, extent, plan->region->outputs.at[i]->dtype);
    return ends;
}

bool matmul_overlaps(const MatmulPlan *plan, const Schedule *schedule, bool is_rows) {
    const DimTable *dims = plan->graph->dims;
    const MatmulOperand *operand = matmul_side(plan, schedule, is_rows);
    const char *why;
    bool is_m = is_rows != schedule->swap_ab;
    const Dim *extent = is_m ? plan->m : plan->n;
    int tile = is_rows ? schedule->tile_m : schedule->tile_n;
    if (schedule->path != MATMUL_WGMMA || dim_lower(dims, extent) <= tile ||
        dim_divisor(dims, extent) % tile == 0 || schedule->stream_k || schedule->fragments ||
        schedule->patches || matmul_converters(plan, schedule) || operand->mn_part ||
        !matmul_is_tma(plan->graph, operand, &why))
        return false;
    if (operand->major == MAJOR_K ? !(is_m && is_rows) : !tiles_end_at_pieces(plan, extent, operand))
        return false;
    if (!is_m && tiles_cuts_columns(plan, schedule))
        return false;
    return !plan->before && !plan->guest && !plan->columns.n && !plan->region->guest &&
           matmul_gang(plan, schedule) == 1 && matmul_above(plan) == plan->batch_rank &&
           !matmul_has_scale(plan);
}

MatmulTiles matmul_tiles(const MatmulPlan *plan, const Schedule *schedule) {
    DimTable *dims = plan->graph->dims;
    MatmulMembers members = matmul_members(plan, schedule);
    MatmulTiles tiles = {
        .tile_m = schedule->tile_m,
        .tile_n = schedule->tile_n / members.n,
        .members = members,
        .patch = matmul_patch_of(plan, schedule),
        .reach = matmul_reach(plan, schedule),
        .cluster_m = schedule->cluster_m > 1 ? schedule->cluster_m : 1,
        .cluster_n = schedule->cluster_n > 1 ? schedule->cluster_n : 1,
        .group_m = schedule->group_m > 1 ? schedule->group_m : 1,
        .group_n = schedule->group_n,
        .gang = matmul_gang(plan, schedule),
    };
    tiles.span_m = tiles.tile_m * tiles.cluster_m;
    tiles.span_n = tiles.tile_n * tiles.cluster_n;
    tiles.together = tiles.cluster_m * tiles.cluster_n * tiles.gang;
    const Dim *rows = schedule->swap_ab ? plan->n : plan->m, *cols = schedule->swap_ab ? plan->m : plan->n;
    tiles.rows_end = matmul_overlaps(plan, schedule, true) ? rows : NULL;
    tiles.cols_end = matmul_overlaps(plan, schedule, false) ? cols : NULL;
    tiles.tiles_m = !tiles.patch.axes        ? dim_ceil_div(dims, rows, dim_const(dims, tiles.span_m))
                    : tiles.patch.is_along_k ? dim_const(dims, matmul_patch_tiles(&tiles.patch))
                                             : matmul_patch_count(dims, &tiles.patch);
    tiles.tiles_n = dim_ceil_div(dims, cols, dim_const(dims, (int64_t)tiles.span_n * tiles.gang));
    tiles.batch = dim_const(dims, 1);
    tiles.across = tiles.tiles_n;
    tiles.down = tiles.tiles_m;
    int chosen = matmul_above(plan);
    if (schedule->swap_ab) { /* rows lie along N */
        tiles.beside = chosen;
        tiles.above = plan->batch_rank;
    } else if (matmul_rows_guest(plan)) { /* it waits for rows of one matrix */
        tiles.beside = tiles.above = plan->batch_rank;
    } else {
        tiles.beside = matmul_beside(plan);
        tiles.above = chosen;
    }
    for (int i = 0; i < plan->batch_rank; i++) {
        const Dim *extent = tiles_batch(plan, &tiles, i);
        tiles.batch = dim_mul(dims, tiles.batch, extent);
        if (i >= tiles.beside)
            tiles.across = dim_mul(dims, tiles.across, extent);
        if (i >= tiles.above)
            tiles.down = dim_mul(dims, tiles.down, extent);
    }
    tiles.count = dim_mul(dims, tiles.batch, dim_mul(dims, tiles.tiles_m, tiles.tiles_n));
    return tiles;
}

double matmul_elements(const MatmulPlan *plan, const Value *value) {
    double n = 1;
    for (int i = 0; i < value->rank; i++)
        n *= (double)dim_upper(plan->graph->dims, value->dims[i]);
    return n;
}

bool matmul_leaves_l2(const MatmulPlan *plan, const MatmulOperand *operand) {
    enum { TIMES_L2 = 4 };
    double bytes = matmul_elements(plan, operand->value) * dtype_bits(operand->narrow) / 8;
    return bytes < TIMES_L2 * (double)plan->target->l2_bytes;
}

int64_t matmul_smem_tiles(const MatmulPlan *plan, const Schedule *schedule) {
    int64_t stage = matmul_loader_bytes(plan, &plan->a, schedule->path, schedule->tile_m, schedule->tile_k);
    for (int i = 0; i < plan->n_cores; i++)
        stage += matmul_loader_bytes(plan, &plan->b[i], schedule->path, schedule->tile_n, schedule->tile_k);
    bool has_parts = schedule->path == MATMUL_SIMT && matmul_split(schedule) > 1;
    int64_t parts = has_parts ? matmul_partials_bytes(plan, schedule->tile_m, schedule->tile_n, 1) : 0;
    return stage * schedule->stages + parts;
}

static int tiles_threads(const MatmulPlan *plan, const Schedule *schedule) {
    switch (schedule->path) {
    case MATMUL_WGMMA: return 128 * matmul_warpgroups(plan, schedule);
    case MATMUL_MMA_SYNC:
    case MATMUL_SIMT:
    case MATMUL_GEMV:
    case MATMUL_SKINNY: return 32 * schedule->warps_m * schedule->warps_n;
    default: return 256;
    }
}

/* An estimate of a thread's registers: accumulators, fragments, operands on their way, addresses and the
 * epilogue. */
int matmul_registers(const MatmulPlan *plan, const Schedule *schedule) {
    enum { ADDRESSES = 44, STATISTICS = 24, PARTIAL = 32, COLUMNS = 16, SYMBOLIC = 52, SIMT_ADDRESSES = 20 };
    enum { LONG_STEP = 32, LONG = 16 /* loads of f64 that move up */ };
    enum { PARTS_I64 = 48 /* a product of 64 bits is made of several of 32 */ };
    if (schedule->path == MATMUL_GEMV)
        return matmul_gemv_registers(plan, schedule);
    if (schedule->path == MATMUL_SKINNY)
        return matmul_skinny_registers(plan, schedule);
    int threads = tiles_threads(plan, schedule);
    int words = plan->accumulator == K_F64 || plan->accumulator == K_I64 ? 2 : 1;
    int own = schedule->path == MATMUL_WGMMA ? 128 * schedule->warps_m : threads;
    if (schedule->ping_pong)
        own = 128;
    int around = ADDRESSES; /* the partial sums are gone when the epilogue comes */
    if (schedule->path == MATMUL_WGMMA && matmul_partial_cols(plan, schedule)) {
        int partial = matmul_partial_cols(plan, schedule) / 2 + PARTIAL;
        around = partial > around ? partial : around;
    }
    int registers = around + schedule->tile_m * schedule->tile_n * plan->n_cores * words / own;
    if (schedule->path == MATMUL_WGMMA && schedule->fragments)
        registers += matmul_fragment_registers(plan, schedule);
    if (schedule->path == MATMUL_WGMMA)
        registers += matmul_turned_registers(plan, schedule);
    if (plan->statistics.n)
        registers += STATISTICS;
    if (plan->columns.n)
        registers += COLUMNS * (plan->columns.n > plan->n_columns_first ? 2 : 1);
    for (const MatmulPlan *before = plan->before; before; before = before->before)
        registers += before->is_multiple ? 0 : COLUMNS;
    if (schedule->path == MATMUL_MMA_SYNC)
        registers += (schedule->tile_m / schedule->warps_m / 4 + 16) * words;
    bool is_f64 = matmul_is_mma_f64(plan, schedule);
    if (is_f64 && schedule->tile_k == LONG_STEP)
        registers += LONG;
    /* extents and pitches that come at launch, and what is multiplied with them */
    bool is_fixed = dim_is_const(plan->m) && dim_is_const(plan->n) && dim_is_const(plan->k);
    if (schedule->path == MATMUL_MMA_SYNC && !is_fixed)
        registers += SYMBOLIC + (plan->columns.n ? COLUMNS : 0);
    if (is_f64 && !is_fixed) /* three of each copy of two elements: its address, 64 bits, and a guard */
        registers +=
            3 * (schedule->tile_m + schedule->tile_n * plan->n_cores) * schedule->tile_k / 2 / threads;
    SimtShape simt;
    if (schedule->path == MATMUL_SIMT && simt_shape(plan, schedule, &simt))
        registers += (simt.rows + simt.cols) * simt.width * words + SIMT_ADDRESSES - ADDRESSES +
                     (plan->accumulator == K_I64 ? PARTS_I64 : 0);
    if (schedule->path != MATMUL_WGMMA) {
        registers += matmul_loader_registers(plan, &plan->a, schedule, schedule->tile_m, threads);
        for (int i = 0; i < plan->n_cores; i++)
            registers += matmul_loader_registers(plan, &plan->b[i], schedule, schedule->tile_n, threads);
    }
    return registers;
}

int matmul_blocks_that_fit(const MatmulPlan *plan, const Schedule *schedule) {
    enum { BLOCKS_MOST = 32 };
    int threads = tiles_threads(plan, schedule);
    int64_t smem = schedule->path == MATMUL_WGMMA   ? matmul_smem_wgmma(plan, schedule)
                   : matmul_streams(schedule->path) ? matmul_smem_gemv(plan, schedule)
                                                    : matmul_smem_tiles(plan, schedule);
    int64_t by_smem = plan->target->smem_per_sm / (smem + BLOCK_RESERVE);
    int64_t by_registers =
        plan->target->registers_per_sm / ((int64_t)threads * matmul_registers(plan, schedule));
    int64_t blocks = by_smem < by_registers ? by_smem : by_registers;
    int64_t most = plan->target->max_threads_per_sm / threads;
    blocks = blocks < most ? blocks : most;
    return blocks < 1 ? 1 : blocks > BLOCKS_MOST ? BLOCKS_MOST : (int)blocks;
}

int matmul_blocks_per_sm(const MatmulPlan *plan, const Schedule *schedule) {
    bool is_wgmma = schedule->path == MATMUL_WGMMA;
    if (schedule->ease > 1)
        return 1;
    if (is_wgmma && (schedule->consumer_registers || schedule->warps_m > 2))
        return 1; /* setmaxnreg deals out the registers of the whole SM */
    if (is_wgmma && (schedule->stream_k || matmul_gang(plan, schedule) > 1 || matmul_rows_guest(plan)))
        return 1; /* all blocks must run at the same time: nothing rests on an estimate */
    int blocks = matmul_blocks_that_fit(plan, schedule);
    int most = matmul_streams(schedule->path)                                          ? blocks
               : (is_wgmma && schedule->split_k <= 1) || schedule->path == MATMUL_SIMT ? 2
                                                                                       : 4;
    return blocks < most ? blocks : most;
}

const Dim *matmul_grid(const MatmulPlan *plan, const MatmulTiles *tiles, int blocks_per_sm) {
    DimTable *dims = plan->graph->dims;
    const Dim *together = dim_const(dims, tiles->together);
    int cluster = tiles->cluster_m * tiles->cluster_n, sms = target_clustered_sms(plan->target, cluster);
    const Dim *slots = dim_const(dims, (int64_t)sms * blocks_per_sm / tiles->together);
    /* 2048 tiles on 132 SMs are 16 rounds; 128 blocks do them in 16 rounds too, with less traffic and power.
     */
    const Dim *rounds = dim_max(dims, dim_const(dims, 1), dim_ceil_div(dims, tiles->count, slots));
    return dim_mul(dims, together, dim_ceil_div(dims, tiles->count, rounds));
}

const Dim *matmul_persistent_grid(const MatmulPlan *plan, const Schedule *schedule) {
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    return matmul_grid(plan, &tiles, matmul_blocks_per_sm(plan, schedule));
}

/* Takes the matrix out of a number that counts `each` of every matrix of some axes of the batch: sets the
 * coordinates of these, gives what is left. */
static const KExpr *tiles_matrix(Builder *b, const MatmulPlan *plan, const MatmulTiles *tiles,
                                 const KExpr *number, const Dim *each, int first, int end, MatmulTile *tile) {
    const Dim *extents[RANK_MAX];
    if (first == end)
        return number;
    for (int i = first; i < end; i++)
        extents[i - first] = tiles_batch(plan, tiles, i);
    const KExpr *per_matrix = k_let_expr(b, "tiles_per_matrix", k_dim(b, each, K_I32));
    const KExpr *batch = k_let_expr(b, "batch", k_div(b, number, per_matrix));
    const KExpr *within = k_let_expr(b, "tile_of_matrix", k_mod(b, number, per_matrix));
    if (end - first == 1)
        tile->batch[first] = batch;
    else
        lower_delinearize(b, batch, end - first, extents, tile->batch + first);
    return within;
}

/* Where a number lies in the order in which `group` tiles along one axis come before the other advances. */
static void tiles_grouped(Builder *b, DimTable *dims, const KExpr *number, const Dim *along, const Dim *other,
                          int group, const KExpr **at, const KExpr **at_other) {
    const KExpr *others = k_dim(b, other, K_I32), *in_group = k_i32(b, group);
    if (group == 1) {
        *at = k_div(b, number, others);
        *at_other = k_mod(b, number, others);
        return;
    }
    const KExpr *per_group = k_let_expr(b, "tiles_per_group", k_mul(b, others, in_group));
    const KExpr *first = k_let_expr(b, "group_first", k_mul(b, k_div(b, number, per_group), in_group));
    const KExpr *rest = k_let_expr(b, "tile_of_group", k_mod(b, number, per_group));
    bool is_whole = dim_divisor(dims, along) % group == 0;
    const KExpr *left = k_sub(b, k_dim(b, along, K_I32), first);
    const KExpr *there = is_whole ? in_group : k_let_expr(b, "group_tiles", k_min(b, in_group, left));
    *at = k_add(b, first, k_mod(b, rest, there));
    *at_other = k_div(b, rest, there);
}

/* The first row, or column, of a tile; `end`: where the last one ends; NULL: as it comes. */
static const KExpr *tiles_first(Builder *b, const KExpr *number, int tile, const Dim *end) {
    const KExpr *first = k_mul(b, number, k_i32(b, tile));
    if (!end)
        return first;
    b->kernel->rewrites = true;
    return k_min(b, first, k_sub(b, k_dim(b, end, K_I32), k_i32(b, tile)));
}

MatmulTile matmul_tile_at(Builder *b, const MatmulPlan *plan, const MatmulTiles *tiles, const KExpr *number) {
    DimTable *dims = plan->graph->dims;
    MatmulTile tile = {0};
    int first = tiles->beside < tiles->above ? tiles->beside : tiles->above;
    const KExpr *within =
        tiles_matrix(b, plan, tiles, number, dim_mul(dims, tiles->down, tiles->across), 0, first, &tile);
    const KExpr *m, *n;
    if (dim_is(tiles->across, 1)) {
        m = within;
        n = k_i32(b, 0);
    } else if (dim_is(tiles->down, 1)) {
        m = k_i32(b, 0);
        n = within;
    } else if (tiles->group_n) {
        tiles_grouped(b, dims, within, tiles->across, tiles->down, tiles->group_n, &n, &m);
    } else {
        tiles_grouped(b, dims, within, tiles->down, tiles->across, tiles->group_m, &m, &n);
    }
    m = tiles_matrix(b, plan, tiles, m, tiles->tiles_m, tiles->above, plan->batch_rank, &tile);
    n = tiles_matrix(b, plan, tiles, n, tiles->tiles_n, tiles->beside, plan->batch_rank, &tile);
    if (tiles->members.n > 1) {
        int axis = tiles->members.axis;
        tile.batch[axis] =
            k_let_expr(b, "first_member", k_mul(b, tile.batch[axis], k_i32(b, tiles->members.n)));
    }
    const KExpr *rank = k_special(b, SPECIAL_CTA_RANK);
    if (tiles->cluster_m > 1) {
        const KExpr *own = tiles->cluster_n > 1 ? k_mod(b, rank, k_i32(b, tiles->cluster_m)) : rank;
        m = k_add(b, k_mul(b, m, k_i32(b, tiles->cluster_m)), own);
    }
    if (tiles->cluster_n > 1)
        n = k_add(b, k_mul(b, n, k_i32(b, tiles->cluster_n)), k_div(b, rank, k_i32(b, tiles->cluster_m)));
    if (tiles->gang > 1)
        n = k_mod(b, k_special(b, SPECIAL_CTA_X), k_i32(b, tiles->gang));
    if (tiles->reach.descends)
        n = k_sub(b, k_sub(b, k_dim(b, tiles->tiles_n, K_I32), k_i32(b, 1)), n);
    tile.row = k_let_expr(b, "tile_row",
                          !tiles->patch.axes        ? tiles_first(b, m, tiles->tile_m, tiles->rows_end)
                          : tiles->patch.is_along_k ? matmul_patch_first(b, &tiles->patch, m)
                                                    : matmul_patch_row(b, &tiles->patch, m));
    tile.col = k_let_expr(b, "tile_col", tiles_first(b, n, tiles->tile_n, tiles->cols_end));
    return tile;
}

const KExpr *matmul_batch_coord(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, int axis,
                                const KExpr *const *batch) {
    int shift = plan->batch_rank + 2 - operand->value->rank;
    const Dim *own = operand->value->dims[axis], *out = plan->region->dims[axis + shift];
    if (dim_is(own, 1) && !dim_is(out, 1))
        return k_i32(b, 0);
    const KExpr *coord = batch[axis + shift];
    if (own == out)
        return coord;
    return k_div(b, coord, k_dim(b, dim_div(plan->graph->dims, out, own), K_I32)); /* grouped heads repeat */
}

const KExpr *matmul_in_batch(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                             const KExpr *element, const KExpr *const *batch) {
    KType type = element->type;
    for (int i = 0; i < operand->n_batch; i++) {
        const KExpr *at = matmul_batch_coord(b, plan, operand, operand->batch[i], batch);
        const Dim *stride = operand->view.strides[operand->batch[i]];
        element = k_add(b, element, k_mul(b, k_convert(b, at, type), k_dim(b, stride, type)));
    }
    return element;
}
