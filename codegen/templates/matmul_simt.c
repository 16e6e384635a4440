/* Matrix products by fused multiply-adds from shared tiles: exact f32, f64, i32 and i64. The blocks of a
 * cluster may share the K of a tile (split_k).
 *
 * Warps divide the tile in warps_m x warps_n parts, the lanes of a warp each part in 4 x 8 (or 8 x 4). A
 * thread computes, from columns of the A tile and rows of the B tile (both kept with M or N contiguous),
 * every combination of its rows and columns, which come in groups of one 16-byte vector:
 *
 *     rows of lane (y, x)       w y .. w y + w - 1,   4 w + w y ..,   ...
 *     columns of lane (y, x)    w x .. w x + w - 1,   8 w + w x ..,   ...
 *
 * where w is 4 elements of 32 bits, or 2 of 64.
 *
 * Shared memory gives a warp 4 bytes a lane and clock, twice that where lanes 1 apart, or 2 apart, all ask
 * for the same place. So lanes stand in squares of four, of which each two have a vector in common either
 * way:
 *
 *     x      0   1   2   3   4   5   6   7
 *     y 0    0   1   4   5   8   9  12  13        a of lanes 0 and 1 is the same, of 2 and 3, ...
 *       1    2   3   6   7  10  11  14  15        b of lanes 0 and 2, of 1 and 3, ...
 *       2   16  17  20  21  24  25  28  29
 *       3   18  19  22  23  26  27  30  31
 *
 * In rows of lanes b took four clocks, and 8 x 4 elements of a thread waited for shared memory, not for the
 * multiply-adds (H200: 200 x 3072 x 768 by tiles of 64 x 128 54 us). Only where rows have statistics are the
 * lanes of a row neighbours, 4 to 32 of them. */
#include "codegen/templates/matmul_simt.h"

#include <limits.h>

#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_ring.h"
#include "ir/base/checked.h"

enum { SIMT_LANES = 32, SIMT_LANES_N = 8, SIMT_LANES_FEW = 4, SIMT_WARPS = 16, SIMT_ROWS = 16 };

typedef struct Simt {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    SimtShape shape;
    MatmulRing ring;
    const KExpr *warp_row, *warp_col; /* of the warp's part, within the tile */
    const KExpr *y, *x;               /* of the lane */
    const KVar *accumulator[MATMUL_CORES];
} Simt;

int simt_loads(const SimtShape *shape, int cores) {
    enum { SHARED = 2, APART = 4 };
    return SHARED * shape->rows + (shape->is_paired ? SHARED : APART) * shape->cols * cores;
}

/* Of the ways to place lanes, that which loads the least; of those alike, that which stores the longest runs,
 * or where rows have statistics, takes the fewest lanes for each. */
bool simt_shape(const MatmulPlan *plan, const Schedule *schedule, SimtShape *shape) {
    int width = 128 / dtype_bits(plan->a.elem), least = INT_MAX;
    bool is_paired = plan->statistics.n == 0;
    if (schedule->warps_m < 1 || schedule->warps_n < 1 || schedule->warps_m * schedule->warps_n > SIMT_WARPS)
        return false;
    for (int lanes_n = SIMT_LANES_FEW; lanes_n <= (is_paired ? SIMT_LANES_N : SIMT_LANES); lanes_n *= 2) {
        int rows = SIMT_LANES / lanes_n * schedule->warps_m * width;
        int cols = lanes_n * schedule->warps_n * width;
        if (schedule->tile_m < rows || schedule->tile_m % rows || schedule->tile_n < cols ||
            schedule->tile_n % cols)
            continue;
        SimtShape tried = {.width = width,
                           .lanes_m = SIMT_LANES / lanes_n,
                           .lanes_n = lanes_n,
                           .rows = schedule->tile_m / rows,
                           .cols = schedule->tile_n / cols,
                           .is_paired = is_paired};
        int loads = simt_loads(&tried, plan->n_cores);
        if (loads < least || (is_paired && loads == least)) {
            least = loads;
            *shape = tried;
        }
    }
    return least < INT_MAX;
}

static bool simt_accepts_split(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    enum { MOST = 8 };
    int split = matmul_split(schedule);
    *why = NULL;
    if (split == 1)
        return true;
    *why = "split_k takes a cluster of 2, 4 or 8 blocks of its own, from sm_90 on";
    if (!plan->target->has_cluster || split > MOST || !is_power_of_two(split) || schedule->cluster_m > 1 ||
        schedule->cluster_n > 1)
        return false;
    *why = "the blocks of a split read sums of 32 bits from each other, each of them a part of the tile";
    if (dtype_bits(plan->a.elem) != 32 ||
        !matmul_partials_divide(plan, schedule->tile_m, schedule->tile_n, split))
        return false;
    *why = "each block of a split has at least one step of K";
    if (dim_lower(plan->graph->dims, plan->k) < (int64_t)split * schedule->tile_k)
        return false;
    *why = "row statistics need the sums of whole rows, which a split has in several blocks";
    return plan->statistics.n == 0;
}

bool matmul_accepts_simt(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "matrix instructions hold these operands exactly"; /* those of f64 leave this path its schedules */
    if (plan->kind != MATMUL_FMA && plan->kind != MATMUL_F64)
        return false;
    *why = "multiply-adds are in f32, f64, i32 or i64";
    DType type = plan->a.elem;
    if (type != DTYPE_F32 && type != DTYPE_F64 && type != DTYPE_I32 && type != DTYPE_I64)
        return false;
    SimtShape shape;
    *why = "1 to 16 warps, each with a part of the tile of a multiple of 4 x 8 or 8 x 4 vectors of 16 bytes";
    if (schedule->swap_ab || !simt_shape(plan, schedule, &shape))
        return false;
    *why = "row statistics need whole rows in one warp: warps_n 1 and N up to tile_n";
    if (plan->statistics.n && (schedule->warps_n != 1 || !matmul_has_rows(plan, schedule)))
        return false;
    if (!matmul_holds_blocks(plan, 1, why))
        return false;
    *why = "tile_k is 8, 16 or 32";
    if (schedule->tile_k != 8 && schedule->tile_k != 16 && schedule->tile_k != 32)
        return false;
    if (!simt_accepts_split(plan, schedule, why))
        return false;
    *why = "a thread's accumulators and what it loads do not fit its registers";
    if (matmul_registers(plan, schedule) > 255)
        return false;
    *why = "2 to 8 stages that fit shared memory";
    if (schedule->stages < 2 || schedule->stages > 8 ||
        matmul_smem_tiles(plan, schedule) > plan->target->smem_per_block - 1024)
        return false;
    *why = NULL;
    return true;
}

/* Column of the tile from which on a thread has vector `i` in rows `first` + `kk`, as the tile keeps it. What
 * is turned by `first` is the same for all of a loop over kk; the lane's place alone is turned where it
 * decides it, so that one address serves all vectors. */
static const KExpr *simt_column(const Simt *s, const MatmulLoader *loader, const KExpr *first,
                                const KExpr *kk, bool is_a, int i) {
    Builder *b = s->b;
    int w = s->shape.width, span = (is_a ? s->shape.lanes_m : s->shape.lanes_n) * w;
    const KExpr *own = k_mul(b, is_a ? s->y : s->x, k_i32(b, w));
    const KExpr *rest = k_add(b, is_a ? s->warp_row : s->warp_col, k_i32(b, i * span));
    bool is_own = span % MATMUL_TURNED == 0;
    const KExpr *col = is_own ? own : k_add(b, rest, own);
    col = matmul_loader_turned(b, loader, kk, matmul_loader_turned(b, loader, first, col));
    return is_own ? k_add(b, rest, col) : col;
}

/* A thread's vectors of rows `first` + `kk` of a tile, one of them in each of its groups. */
static const KVar *simt_load(const Simt *s, const MatmulLoader *loader, const char *name, const KExpr *stage,
                             const KExpr *first, const KExpr *kk, bool is_a) {
    Builder *b = s->b;
    int w = s->shape.width, vectors = is_a ? s->shape.rows : s->shape.cols;
    const KVar *values = k_array(b, name, ktype_of(loader->tile.elem), vectors * w, NULL);
    for (int i = 0; i < vectors; i++)
        k_load(b, values, k_i32(b, i * w), loader->tile.buffer,
               tile_index(b, &loader->tile, stage, k_add(b, first, kk),
                          simt_column(s, loader, first, kk, is_a, i)),
               w, NULL, CACHE_DEFAULT);
    return values;
}

/* accumulator[((block * groups + group) * halves + half) * width + e] += a[block * w + half] * b[group * w +
 * e] */
static void simt_multiply(void *path, const KExpr *stage) {
    const Simt *s = path;
    Builder *b = s->b;
    int w = s->shape.width;
    /* loads move up as far as loops are unrolled: beyond this many rows they hold registers and gain nothing
     */
    int rows = s->schedule->tile_k < SIMT_ROWS ? s->schedule->tile_k : SIMT_ROWS;
    const KExpr *first = k_i32(b, 0);
    if (rows < s->schedule->tile_k)
        first = k_for_begin(b, "k_first", first, k_i32(b, s->schedule->tile_k), rows, UNROLL_NONE);
    const KExpr *kk = k_for_begin(b, "kk", k_i32(b, 0), k_i32(b, rows), 1, UNROLL_FULL);
    const KVar *a = simt_load(s, &s->ring.a, "a", stage, first, kk, true);
    for (int core = 0; core < s->plan->n_cores; core++) {
        const KVar *bb = simt_load(s, &s->ring.b[core], "b", stage, first, kk, false);
        const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, s->shape.rows * w), 1, UNROLL_FULL);
        const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, s->shape.cols * w), 1, UNROLL_FULL);
        const KExpr *block = k_div(b, i, k_i32(b, w)), *half = k_mod(b, i, k_i32(b, w));
        const KExpr *group = k_div(b, j, k_i32(b, w)), *e = k_mod(b, j, k_i32(b, w));
        const KExpr *at = k_add(b, k_mul(b, block, k_i32(b, s->shape.cols)), group);
        at = k_add(b, k_mul(b, k_add(b, k_mul(b, at, k_i32(b, w)), half), k_i32(b, w)), e);
        const KExpr *x = k_elem(b, a, i), *y = k_elem(b, bb, j), *sum = k_elem(b, s->accumulator[core], at);
        bool is_float = dtype_is_float(s->plan->a.elem);
        k_set_elem(b, s->accumulator[core], at,
                   is_float ? k_scalar(b, OP_fma, x, y, sum) : k_add(b, k_mul(b, x, y), sum));
        k_end(b);
        k_end(b);
    }
    k_end(b);
    if (rows < s->schedule->tile_k)
        k_end(b);
}

/* Where the thread stands. */
static void simt_begin(Simt *s) {
    Builder *b = s->b;
    const Schedule *schedule = s->schedule;
    int part_m = schedule->tile_m / schedule->warps_m, part_n = schedule->tile_n / schedule->warps_n;
    const KExpr *warp = k_special(b, SPECIAL_WARP), *lane = k_special(b, SPECIAL_LANE);
    const KExpr *y = k_div(b, lane, k_i32(b, s->shape.lanes_n));
    const KExpr *x = k_mod(b, lane, k_i32(b, s->shape.lanes_n));
    if (s->shape.is_paired) { /* x's lowest bit, then y's, then x's others, then y's */
        const KExpr *two = k_i32(b, 2), *square = k_div(b, lane, k_i32(b, 4));
        int squares = s->shape.lanes_n / 2;
        y = k_add(b, k_mul(b, k_div(b, square, k_i32(b, squares)), two), k_mod(b, k_div(b, lane, two), two));
        x = k_add(b, k_mul(b, k_mod(b, square, k_i32(b, squares)), two), k_mod(b, lane, two));
    }
    s->warp_row =
        k_let_expr(b, "warp_row", k_mul(b, k_div(b, warp, k_i32(b, schedule->warps_n)), k_i32(b, part_m)));
    s->warp_col =
        k_let_expr(b, "warp_col", k_mul(b, k_mod(b, warp, k_i32(b, schedule->warps_n)), k_i32(b, part_n)));
    s->y = k_let_expr(b, "lane_y", y);
    s->x = k_let_expr(b, "lane_x", x);
}

/* What the thread has, of the tile or of its part of K; row and col as the tile's corner is. */
static MatmulFragment simt_fragment(const Simt *s, const KExpr *row, const KExpr *col) {
    Builder *b = s->b;
    const SimtShape *shape = &s->shape;
    const KExpr *w = k_i32(b, shape->width);
    row = k_add(b, row, k_add(b, s->warp_row, k_mul(b, s->y, w)));
    col = k_add(b, col, k_add(b, s->warp_col, k_mul(b, s->x, w)));
    MatmulFragment fragment = {.blocks = shape->rows,
                               .block_rows = shape->lanes_m * shape->width,
                               .halves = shape->width,
                               .half_rows = 1,
                               .groups = shape->cols,
                               .group_cols = shape->lanes_n * shape->width,
                               .width = shape->width,
                               .row = k_let_expr(b, "row", row),
                               .col = k_let_expr(b, "col", col),
                               .tile_rows = s->schedule->tile_m,
                               .tile_cols = s->schedule->tile_n,
                               .row_lanes = shape->lanes_n};
    for (int core = 0; core < s->plan->n_cores; core++)
        fragment.accumulator[core] = s->accumulator[core];
    return fragment;
}

/* The blocks of the cluster add up their parts, and each finishes some of the tile. */
static void simt_meet(const Simt *s, const MatmulPartials *parts, Lower *lower, const MatmulTile *tile) {
    Builder *b = s->b;
    const KExpr *zero = k_i32(b, 0);
    MatmulFragment own = simt_fragment(s, zero, zero);
    matmul_partials_put(b, s->plan, parts, &own);
    k_cluster_barrier(b);
    matmul_partials_finish(b, s->plan, lower, parts, k_special(b, SPECIAL_TID), b->kernel->threads, tile->row,
                           tile->col, tile->batch);
    k_cluster_barrier(b); /* no block leaves while another may still read its part */
}

void matmul_build_simt(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    DimTable *dims = plan->graph->dims;
    Simt s = {.b = b, .plan = plan, .schedule = schedule};
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    int split = matmul_split(schedule);
    simt_shape(plan, schedule, &s.shape);
    kernel->threads = SIMT_LANES * schedule->warps_m * schedule->warps_n;
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->cluster[0] = split;
    kernel->grid[0] = dim_mul(dims, tiles.count, dim_const(dims, split));
    s.ring = matmul_ring(b, plan, schedule, kernel->threads);
    s.ring.split = split;
    MatmulPartials parts = {0};
    if (split > 1)
        parts = matmul_partials(b, plan, schedule->tile_m, schedule->tile_n, 1, split);
    Lower *lower = lower_new(b, plan->region);
    simt_begin(&s);
    const KExpr *number = k_div(b, k_special(b, SPECIAL_CTA_X), k_i32(b, split));
    MatmulTile tile = matmul_tile_at(b, plan, &tiles, number);
    int sums = s.shape.rows * s.shape.cols * s.shape.width * s.shape.width;
    for (int core = 0; core < plan->n_cores; core++)
        s.accumulator[core] = k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc",
                                      plan->accumulator, sums, k_convert(b, k_i32(b, 0), plan->accumulator));

    matmul_ring_product(b, &s.ring, &tile, &(MatmulMultiply){simt_multiply, &s});

    if (split > 1) {
        simt_meet(&s, &parts, lower, &tile);
    } else {
        MatmulFragment fragment = simt_fragment(&s, tile.row, tile.col);
        matmul_epilogue(b, plan, lower, &fragment, tile.batch, NULL, NULL, NULL);
    }
    const char *shared =
        split > 1 ? text_format(b->arena, ", K split among %d blocks of a cluster", split) : "";
    kernel->summary =
        text_format(b->arena, "matmul by multiply-adds in %s: tile %dx%dx%d, %d stages, %dx%d warps%s",
                    dtype_name(plan->a.elem), schedule->tile_m, schedule->tile_n, schedule->tile_k,
                    schedule->stages, schedule->warps_m, schedule->warps_n, shared);
}
