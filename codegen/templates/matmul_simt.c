/* Matrix products by fused multiply-adds from shared tiles: exact f32, f64, i32 and i64.
 *
 * 16 x 16 threads; each computes, from columns of the A tile and rows of the B tile (both kept with M or N
 * contiguous), every combination of its rows and columns. A thread's rows come in groups of one 16-byte
 * vector, the groups 16 vectors apart, so that each load is one vector and neighbours read neighbouring
 * banks:
 *
 *     rows of thread y:     w y .. w y + w - 1,   16 w + w y ..,   ...        w = 4 elements of 32 bits, 2 of
 * 64 columns of thread x:  w x .. w x + w - 1,   16 w + w x ..,   ... */
#include "codegen/templates/matmul.h"

enum { SIMT_SIDE = 16, SIMT_THREADS = SIMT_SIDE * SIMT_SIDE, SIMT_ROWS = 16 };

typedef struct Simt {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    MatmulLoader a, b_[MATMUL_CORES];
    int width, rows, cols; /* elements of a vector; vectors of a thread along m and n */
    const KExpr *y, *x;
    const KVar *accumulator[MATMUL_CORES];
} Simt;

static int simt_width(const MatmulPlan *plan) {
    return 128 / dtype_bits(plan->a.elem);
}

bool matmul_accepts_simt(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "matrix instructions hold these operands exactly";
    if (plan->kind != MATMUL_FMA)
        return false;
    *why = "multiply-adds are in f32, f64, i32 or i64";
    DType type = plan->a.elem;
    if (type != DTYPE_F32 && type != DTYPE_F64 && type != DTYPE_I32 && type != DTYPE_I64)
        return false;
    int vectors = SIMT_SIDE * simt_width(plan);
    *why = "a tile is a multiple of 16 vectors of 16 bytes along M and N, at most 8 elements of each for a "
           "thread";
    if (schedule->swap_ab || schedule->tile_m < vectors || schedule->tile_n < vectors ||
        schedule->tile_m % vectors || schedule->tile_n % vectors || schedule->tile_m > 8 * SIMT_SIDE ||
        schedule->tile_n > 8 * SIMT_SIDE)
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
static const KVar *simt_load(Simt *s, const MatmulLoader *loader, const char *name, const KExpr *stage,
                             const KExpr *k, const KExpr *thread, int vectors) {
    Builder *b = s->b;
    const KVar *values = k_array(b, name, ktype_of(loader->tile.elem), vectors * s->width, NULL);
    for (int i = 0; i < vectors; i++) {
        const KExpr *col = k_mul(b, k_add(b, k_i32(b, i * SIMT_SIDE), thread), k_i32(b, s->width));
        k_load(b, values, k_i32(b, i * s->width), loader->tile.buffer,
               tile_index(b, &loader->tile, stage, k, col), s->width, NULL, CACHE_DEFAULT);
    }
    return values;
}

/* accumulator[((block * groups + group) * halves + half) * width + e] += a[block * w + half] * b[group * w +
 * e] */
static void simt_multiply(Simt *s, const KExpr *stage) {
    Builder *b = s->b;
    int w = s->width;
    /* loads move up as far as loops are unrolled: beyond this many rows they hold registers and gain nothing
     */
    int rows = s->schedule->tile_k < SIMT_ROWS ? s->schedule->tile_k : SIMT_ROWS;
    const KExpr *first = k_i32(b, 0);
    if (rows < s->schedule->tile_k)
        first = k_for_begin(b, "k_first", first, k_i32(b, s->schedule->tile_k), rows, UNROLL_NONE);
    const KExpr *k = k_add(b, first, k_for_begin(b, "kk", k_i32(b, 0), k_i32(b, rows), 1, UNROLL_FULL));
    const KVar *a = simt_load(s, &s->a, "a", stage, k, s->y, s->rows);
    for (int core = 0; core < s->plan->n_cores; core++) {
        const KVar *bb = simt_load(s, &s->b_[core], "b", stage, k, s->x, s->cols);
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

static void simt_start(Simt *s, const MatmulTile *tile, const KExpr *step, const KExpr *steps) {
    Builder *b = s->b;
    const KExpr *stage = k_let_expr(b, "fill", k_mod(b, step, k_i32(b, s->schedule->stages)));
    const KExpr *k0 = k_let_expr(b, "k", k_mul(b, step, k_i32(b, s->schedule->tile_k)));
    const KExpr *valid = k_lt(b, step, steps);
    matmul_load_start(b, &s->a, stage, tile->row, k0, tile->batch, valid);
    for (int core = 0; core < s->plan->n_cores; core++)
        matmul_load_start(b, &s->b_[core], stage, tile->col, k0, tile->batch, valid);
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
}

static void simt_finish(Simt *s) {
    matmul_load_finish(s->b, &s->a);
    for (int core = 0; core < s->plan->n_cores; core++)
        matmul_load_finish(s->b, &s->b_[core]);
}

void matmul_build_simt(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    DimTable *dims = plan->graph->dims;
    Simt s = {.b = b, .plan = plan, .schedule = schedule, .width = simt_width(plan)};
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    s.rows = schedule->tile_m / (SIMT_SIDE * s.width);
    s.cols = schedule->tile_n / (SIMT_SIDE * s.width);
    kernel->threads = SIMT_THREADS;
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->grid[0] = tiles.count;
    s.a = matmul_loader(b, plan, &plan->a, "a_tile", schedule->tile_m, schedule->tile_k, schedule->stages,
                        SIMT_THREADS, true);
    for (int i = 0; i < plan->n_cores; i++)
        s.b_[i] = matmul_loader(b, plan, &plan->b[i],
                                plan->n_cores == 1 ? "b_tile"
                                : i                ? "b_tile_1"
                                                   : "b_tile_0",
                                schedule->tile_n, schedule->tile_k, schedule->stages, SIMT_THREADS, true);
    Lower *lower = lower_new(b, plan->region);
    const KExpr *tid = k_special(b, SPECIAL_TID);
    s.y = k_let_expr(b, "thread_y", k_div(b, tid, k_i32(b, SIMT_SIDE)));
    s.x = k_let_expr(b, "thread_x", k_mod(b, tid, k_i32(b, SIMT_SIDE)));
    MatmulTile tile = matmul_tile_at(b, plan, &tiles, k_special(b, SPECIAL_CTA_X));
    for (int core = 0; core < plan->n_cores; core++)
        s.accumulator[core] =
            k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc", plan->accumulator,
                    s.rows * s.cols * s.width * s.width, k_convert(b, k_i32(b, 0), plan->accumulator));

    int ahead = schedule->stages - 1;
    const KExpr *steps = k_dim(b, dim_ceil_div(dims, plan->k, dim_const(dims, schedule->tile_k)), K_I32);
    const KExpr *first = k_for_begin(b, "first", k_i32(b, 0), k_i32(b, ahead), 1, UNROLL_NONE);
    simt_start(&s, &tile, first, steps);
    simt_finish(&s);
    k_end(b);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    k_atom(b, ATOM_cp_async_wait, (int[]){ahead - 1}, NULL, 0);
    k_barrier(b);
    simt_start(&s, &tile, k_let_expr(b, "next", k_add(b, step, k_i32(b, ahead))), steps);
    simt_multiply(&s, k_let_expr(b, "stage", k_mod(b, step, k_i32(b, schedule->stages))));
    simt_finish(&s);
    k_end(b);
    k_atom(b, ATOM_cp_async_wait, (int[]){0}, NULL, 0); /* copies of zeros may still be under way */

    MatmulFragment fragment = {
        .blocks = s.rows,
        .block_rows = SIMT_SIDE * s.width,
        .halves = s.width,
        .half_rows = 1,
        .groups = s.cols,
        .group_cols = SIMT_SIDE * s.width,
        .width = s.width,
        .row = k_let_expr(b, "row", k_add(b, tile.row, k_mul(b, s.y, k_i32(b, s.width)))),
        .col = k_let_expr(b, "col", k_add(b, tile.col, k_mul(b, s.x, k_i32(b, s.width)))),
        .tile_rows = schedule->tile_m,
        .tile_cols = schedule->tile_n,
        .row_lanes = SIMT_SIDE};
    for (int core = 0; core < plan->n_cores; core++)
        fragment.accumulator[core] = s.accumulator[core];
    matmul_epilogue(b, plan, lower, &fragment, tile.batch, NULL, NULL, NULL);
    kernel->summary = text_format(b->arena, "matmul by multiply-adds in %s: tile %dx%dx%d, %d stages",
                                  dtype_name(plan->a.elem), schedule->tile_m, schedule->tile_n,
                                  schedule->tile_k, schedule->stages);
}
