/* Matrix products by fused multiply-adds from shared tiles: exact f32, f64, i32 and i64.
 *
 * 16 x 16 threads; each computes, from columns of the A tile and rows of the B tile (both kept with M or N
 * contiguous), every combination of its rows and columns. A thread's rows come in groups of one 16-byte
 * vector, the groups 16 vectors apart, so that each load is one vector and neighbours read neighbouring
 * banks:
 *
 *     rows of thread y:     w y .. w y + w - 1,   16 w + w y ..,   ...        w = 4 elements of 32 bits, 2 of
 * 64 columns of thread x:  w x .. w x + w - 1,   16 w + w x ..,   ...
 *
 * Of a tile with fewer columns, or rows, than 16 vectors have, each thread has one vector, and the more
 * threads stand along the other side: 64 x 4, 32 x 8, 8 x 32, 4 x 64. */
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_result.h"
#include "codegen/templates/matmul_ring.h"

enum { SIMT_SIDE = 16, SIMT_THREADS = SIMT_SIDE * SIMT_SIDE, SIMT_ROWS = 16, SIMT_SIDE_LEAST = 4 };

typedef struct Simt {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    MatmulRing ring;
    int width, rows, cols; /* elements of a vector; vectors of a thread along m and n */
    int side_m, side_n;    /* threads along them */
    const KExpr *y, *x;
    const KVar *accumulator[MATMUL_CORES];
} Simt;

static int simt_width(const MatmulPlan *plan) {
    return 128 / dtype_bits(plan->a.elem);
}

/* Threads along N. */
static int simt_side_n(const MatmulPlan *plan, const Schedule *schedule) {
    int rows = schedule->tile_m / simt_width(plan), cols = schedule->tile_n / simt_width(plan);
    int side = cols < SIMT_SIDE ? cols : rows < SIMT_SIDE && rows > 0 ? SIMT_THREADS / rows : SIMT_SIDE;
    bool is_power = side > 0 && (side & (side - 1)) == 0;
    return is_power && side >= SIMT_SIDE_LEAST && side <= SIMT_THREADS / SIMT_SIDE_LEAST ? side : SIMT_SIDE;
}

bool matmul_accepts_simt(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "matrix instructions hold these operands exactly"; /* those of f64 leave this path its schedules */
    if (plan->kind != MATMUL_FMA && plan->kind != MATMUL_F64)
        return false;
    *why = "multiply-adds are in f32, f64, i32 or i64";
    DType type = plan->a.elem;
    if (type != DTYPE_F32 && type != DTYPE_F64 && type != DTYPE_I32 && type != DTYPE_I64)
        return false;
    int side_n = simt_side_n(plan, schedule), side_m = SIMT_THREADS / side_n, width = simt_width(plan);
    *why = "a tile is a multiple of 16 vectors of 16 bytes along M and N, or of 4 or 8 along one of them and "
           "64 or 32 along the other, at most 8 elements of each for a thread";
    if (schedule->swap_ab || schedule->tile_m < side_m * width || schedule->tile_n < side_n * width ||
        schedule->tile_m % (side_m * width) || schedule->tile_n % (side_n * width) ||
        schedule->tile_m > 8 * side_m || schedule->tile_n > 8 * side_n)
        return false;
    *why = "row statistics are taken by lanes of one warp: at most 32 threads along N";
    if (plan->statistics.n && side_n > 32)
        return false;
    if (!matmul_holds_blocks(plan, 1, why))
        return false;
    *why = "a thread's 64-bit accumulators do not fit its registers";
    if (simt_width(plan) == 2 && schedule->tile_m * schedule->tile_n > 64 * 128)
        return false;
    *why = "tile_k is 8, 16 or 32";
    if (schedule->tile_k != 8 && schedule->tile_k != 16 && schedule->tile_k != 32)
        return false;
    *why = "2 to 8 stages that fit shared memory";
    if (schedule->stages < 2 || schedule->stages > 8 ||
        matmul_smem_tiles(plan, schedule) > plan->target->smem_per_block - 1024)
        return false;
    *why = "row statistics need whole rows in one tile: N up to tile_n";
    if (plan->statistics.n && !matmul_has_rows(plan, schedule))
        return false;
    *why = NULL;
    return true;
}

/* A thread's vectors of one row of a tile. */
static const KVar *simt_load(const Simt *s, const MatmulLoader *loader, const char *name, const KExpr *stage,
                             const KExpr *k, const KExpr *thread, int side, int vectors) {
    Builder *b = s->b;
    const KVar *values = k_array(b, name, ktype_of(loader->tile.elem), vectors * s->width, NULL);
    for (int i = 0; i < vectors; i++) {
        const KExpr *col = k_mul(b, k_add(b, k_i32(b, i * side), thread), k_i32(b, s->width));
        k_load(b, values, k_i32(b, i * s->width), loader->tile.buffer,
               tile_index(b, &loader->tile, stage, k, col), s->width, NULL, CACHE_DEFAULT);
    }
    return values;
}

/* accumulator[((block * groups + group) * halves + half) * width + e] += a[block * w + half] * b[group * w +
 * e] */
static void simt_multiply(void *path, const KExpr *stage) {
    const Simt *s = path;
    Builder *b = s->b;
    int w = s->width;
    /* loads move up as far as loops are unrolled: beyond this many rows they hold registers and gain nothing
     */
    int rows = s->schedule->tile_k < SIMT_ROWS ? s->schedule->tile_k : SIMT_ROWS;
    const KExpr *first = k_i32(b, 0);
    if (rows < s->schedule->tile_k)
        first = k_for_begin(b, "k_first", first, k_i32(b, s->schedule->tile_k), rows, UNROLL_NONE);
    const KExpr *k = k_add(b, first, k_for_begin(b, "kk", k_i32(b, 0), k_i32(b, rows), 1, UNROLL_FULL));
    const KVar *a = simt_load(s, &s->ring.a, "a", stage, k, s->y, s->side_m, s->rows);
    for (int core = 0; core < s->plan->n_cores; core++) {
        const KVar *bb = simt_load(s, &s->ring.b[core], "b", stage, k, s->x, s->side_n, s->cols);
        const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, s->rows * w), 1, UNROLL_FULL);
        const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, s->cols * w), 1, UNROLL_FULL);
        const KExpr *block = k_div(b, i, k_i32(b, w)), *half = k_mod(b, i, k_i32(b, w));
        const KExpr *group = k_div(b, j, k_i32(b, w)), *e = k_mod(b, j, k_i32(b, w));
        const KExpr *at = k_add(b, k_mul(b, block, k_i32(b, s->cols)), group);
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

void matmul_build_simt(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    Simt s = {.b = b, .plan = plan, .schedule = schedule, .width = simt_width(plan)};
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    s.side_n = simt_side_n(plan, schedule);
    s.side_m = SIMT_THREADS / s.side_n;
    s.rows = schedule->tile_m / (s.side_m * s.width);
    s.cols = schedule->tile_n / (s.side_n * s.width);
    kernel->threads = SIMT_THREADS;
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->grid[0] = tiles.count;
    s.ring = matmul_ring(b, plan, schedule, SIMT_THREADS);
    Lower *lower = lower_new(b, plan->region);
    const KExpr *tid = k_special(b, SPECIAL_TID);
    s.y = k_let_expr(b, "thread_y", k_div(b, tid, k_i32(b, s.side_n)));
    s.x = k_let_expr(b, "thread_x", k_mod(b, tid, k_i32(b, s.side_n)));
    MatmulTile tile = matmul_tile_at(b, plan, &tiles, k_special(b, SPECIAL_CTA_X));
    for (int core = 0; core < plan->n_cores; core++)
        s.accumulator[core] =
            k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc", plan->accumulator,
                    s.rows * s.cols * s.width * s.width, k_convert(b, k_i32(b, 0), plan->accumulator));

    matmul_ring_product(b, &s.ring, &tile, &(MatmulMultiply){simt_multiply, &s});

    MatmulFragment fragment = {
        .blocks = s.rows,
        .block_rows = s.side_m * s.width,
        .halves = s.width,
        .half_rows = 1,
        .groups = s.cols,
        .group_cols = s.side_n * s.width,
        .width = s.width,
        .row = k_let_expr(b, "row", k_add(b, tile.row, k_mul(b, s.y, k_i32(b, s.width)))),
        .col = k_let_expr(b, "col", k_add(b, tile.col, k_mul(b, s.x, k_i32(b, s.width)))),
        .tile_rows = schedule->tile_m,
        .tile_cols = schedule->tile_n,
        .row_lanes = s.side_n};
    for (int core = 0; core < plan->n_cores; core++)
        fragment.accumulator[core] = s.accumulator[core];
    matmul_epilogue(b, plan, lower, &fragment, tile.batch, NULL, NULL, NULL);
    kernel->summary = text_format(b->arena, "matmul by multiply-adds in %s: tile %dx%dx%d, %d stages",
                                  dtype_name(plan->a.elem), schedule->tile_m, schedule->tile_n,
                                  schedule->tile_k, schedule->stages);
}
