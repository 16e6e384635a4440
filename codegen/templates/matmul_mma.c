/* Matrix products by mma.sync (sm_80 and later): cp.async into a ring of stages (matmul_ring.c), ldmatrix,
 * mma; without ldmatrix (matmul_mma_elements.c) in f64, where the target has it at speed, and what lies along
 * M or N in tf32.
 *
 * A block computes one tile of the result. Every operand that is no plain memory is computed on the way
 * (matmul_prologue.c), so this path takes any prologue, any layout and any ragged shape. Warps divide the
 * tile in warps_m x warps_n parts; a warp's part is made of fragments of 16 x 8 (layout.h). */
#include "codegen/templates/matmul_mma.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_result.h"

enum { MMA_M = 16, MMA_N = 8, MMA_K_BYTES = 32, MMA_COLS = 8 /* fragments of B in registers at a time */ };
enum { MMA_F64_K = 8 };

int mma_k(const MatmulPlan *plan) {
    return plan->kind == MATMUL_F64 ? MMA_F64_K : MMA_K_BYTES * 8 / dtype_bits(plan->a.elem);
}

bool matmul_accepts_mma(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "the target has no such matrix instruction";
    if (!plan->target->has_mma_bf16 || (plan->kind == MATMUL_FP8 && !plan->target->has_mma_fp8))
        return false;
    *why = "no matrix instruction holds both operands exactly";
    if (plan->kind == MATMUL_FMA)
        return false;
    *why = "the transposed product is a wgmma schedule";
    if (schedule->swap_ab)
        return false;
    *why = "1 to 16 warps, each with a part of the tile of multiples of 16 x 16";
    int warps = schedule->warps_m * schedule->warps_n;
    if (schedule->warps_m < 1 || schedule->warps_n < 1 || warps > 16 ||
        schedule->tile_m % (schedule->warps_m * MMA_M) != 0 ||
        schedule->tile_n % (schedule->warps_n * 2 * MMA_N) != 0 || schedule->tile_m > 256 ||
        schedule->tile_n > 256 || schedule->tile_m < 1 || schedule->tile_n < 1)
        return false;
    *why = plan->kind == MATMUL_F64 ? "tile_k is 8, 16 or 32"
                                    : "tile_k is a multiple of 32 bytes of K, up to 128";
    int steps = schedule->tile_k / mma_k(plan);
    if ((steps != 1 && steps != 2 && steps != 4) || schedule->tile_k != steps * mma_k(plan))
        return false;
    *why =
        "tiles that ldmatrix transposes have a power of two, or a multiple of 64, of elements along M and N";
    if (plan->kind == MATMUL_16BIT && (schedule->tile_m % 16 != 0 || schedule->tile_n % 16 != 0))
        return false;
    *why = "accumulators and computed operands do not fit the registers";
    if (matmul_registers(plan, schedule) > 255)
        return false;
    *why = "2 to 8 stages that fit shared memory";
    if (schedule->stages < 2 || schedule->stages > 8 ||
        matmul_smem_tiles(plan, schedule) > plan->target->smem_per_block - 1024)
        return false;
    *why = "row statistics need whole rows in one warp: warps_n 1 and N up to tile_n";
    if (plan->statistics.n && (schedule->warps_n != 1 || !matmul_has_rows(plan, schedule)))
        return false;
    if (!matmul_holds_blocks(plan, schedule->tile_n / schedule->warps_n, why))
        return false;
    *why = NULL;
    return true;
}

/* Fragments of 16 rows (A) or 16 columns (B): four matrices of 8 x 16 bytes. */
static void mma_load_words(const Mma *m, const MatmulLoader *loader, bool is_a, const KExpr *stage,
                           const KExpr *mn, const KExpr *k, const KVar *words, int at) {
    Builder *b = m->b;
    /* A: (rows 0-7, k 0), (8-15, k 0), (0-7, k 8), (8-15, k 8). B: (columns 0-7, k 0), (0-7, k 8), (8-15, k
     * 0), (8-15, k 8) */
    if (loader->tile_major == MAJOR_K)
        tile_load_matrices(b, &loader->tile, stage, mn, k, is_a, false, words, at);
    else /* the tile's rows are k: the transposing load gives the same registers, with rows and columns
            exchanged */
        tile_load_matrices(b, &loader->tile, stage, k, mn, !is_a, true, words, at);
}

/* ---- products */

static void mma_issue(const Mma *m, int core, int i, int j, int b_word) {
    Builder *b = m->b;
    int at = 4 * (i * m->cols + j);
    KOperand operands[] = {k_regs(m->accumulator[core], at, 4), k_regs(m->a_words, 4 * i, 4),
                           k_regs(m->b_words, 2 * b_word, 2)};
    DType x = m->ring.a.operand->elem, y = m->ring.b[core].operand->elem;
    switch (m->plan->kind) {
    case MATMUL_16BIT: k_atom(b, ATOM_mma_16bit, (int[]){(int)x}, operands, 3); return;
    case MATMUL_TF32: k_atom(b, ATOM_mma_tf32, NULL, operands, 3); return;
    case MATMUL_FP8: k_atom(b, ATOM_mma_fp8, (int[]){(int)x, (int)y}, operands, 3); return;
    case MATMUL_INT8: k_atom(b, ATOM_mma_int8, (int[]){(int)x, (int)y}, operands, 3); return;
    case MATMUL_F64: k_atom(b, ATOM_mma_f64, NULL, operands, 3); return;
    case MATMUL_FMA: return;
    }
}

/* What memory has of tf32 is rounded to it here, as TMA does on its way to wgmma: there may be f32's further
 * bits, which the instruction cuts off, for 2.6 times the error. So half of the last one that counts is added
 * before; not to NaN, which might become a number. */
static void mma_round_words(const Mma *m, const MatmulLoader *loader, const KVar *words, int at) {
    enum { WORDS = 4, HALF = 1 << 12 };
    Builder *b = m->b;
    if (m->plan->kind != MATMUL_TF32 || !(loader->is_copy || loader->is_moved))
        return;
    for (int i = at; i < at + WORDS; i++) {
        const KExpr *word = k_elem_at(b, words, i), *x = k_bitcast(b, word, K_F32);
        k_set_elem(b, words, k_i32(b, i),
                   k_select(b, k_eq(b, x, x), k_add(b, word, k_int(b, K_U32, HALF)), word));
    }
}

/* Fragments of 16 rows of A, or of 16 columns of B, from mn on, in step `first` + `kk`. */
static void mma_load(const Mma *m, const MatmulLoader *loader, bool is_a, const KExpr *stage, const KExpr *mn,
                     const KExpr *first, const KExpr *kk, const KVar *words, int at) {
    Builder *b = m->b;
    if (mma_takes_elements(m->plan, loader)) {
        mma_elements_load(m, loader, is_a, stage, mn, first, kk, words, at);
    } else {
        const KExpr *k = k_mul(b, k_add(b, first, kk), k_i32(b, mma_k(m->plan)));
        mma_load_words(m, loader, is_a, stage, mn, k, words, at);
    }
    mma_round_words(m, loader, words, at);
}

/* Steps of a stage that are unrolled, so that the loads of all may move up to the first: two, where
 * accumulators of f64 leave no registers for more. */
static int mma_unrolled(const Mma *m, int steps) {
    enum { MANY = 16 /* fragments */, TWO = 2 };
    bool is_tight = m->plan->kind == MATMUL_F64 && m->rows * m->cols * m->plan->n_cores >= MANY;
    return is_tight && steps > TWO ? TWO : steps;
}

static void mma_multiply(void *path, const KExpr *stage) {
    const Mma *m = path;
    Builder *b = m->b;
    int steps = m->schedule->tile_k / mma_k(m->plan), unrolled = mma_unrolled(m, steps);
    const KExpr *first = k_i32(b, 0), *kk = k_i32(b, 0);
    if (unrolled < steps)
        first = k_for_begin(b, "k_first", first, k_i32(b, steps), unrolled, UNROLL_NONE);
    if (unrolled > 1)
        kk = k_for_begin(b, "kk", kk, k_i32(b, unrolled), 1, UNROLL_FULL);
    for (int i = 0; i < m->rows; i++)
        mma_load(m, &m->ring.a, true, stage, k_add(b, m->warp_row, k_i32(b, MMA_M * i)), first, kk,
                 m->a_words, 4 * i);
    for (int core = 0; core < m->plan->n_cores; core++)
        for (int col = 0; col < m->cols; col += MMA_COLS) {
            int last = col + MMA_COLS < m->cols ? col + MMA_COLS : m->cols;
            for (int j = col; j < last; j += 2)
                mma_load(m, &m->ring.b[core], false, stage, k_add(b, m->warp_col, k_i32(b, MMA_N * j)), first,
                         kk, m->b_words, 2 * (j - col));
            for (int i = 0; i < m->rows; i++)
                for (int j = col; j < last; j++)
                    mma_issue(m, core, i, j, j - col);
        }
    if (unrolled > 1)
        k_end(b);
    if (unrolled < steps)
        k_end(b);
}

/* Whether fragments of any operand are loaded by elements. */
static bool mma_by_elements(const Mma *m) {
    bool takes = mma_takes_elements(m->plan, &m->ring.a);
    for (int i = 0; i < m->plan->n_cores; i++)
        takes |= mma_takes_elements(m->plan, &m->ring.b[i]);
    return takes;
}

void matmul_build_mma(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    Mma m = {.b = b, .plan = plan, .schedule = schedule};
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    int part_m = schedule->tile_m / schedule->warps_m, part_n = schedule->tile_n / schedule->warps_n;
    m.rows = part_m / MMA_M;
    m.cols = part_n / MMA_N;
    kernel->threads = 32 * schedule->warps_m * schedule->warps_n;
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->grid[0] = tiles.count;
    m.ring = matmul_ring(b, plan, schedule, kernel->threads);
    Lower *lower = lower_new(b, plan->region);

    const KExpr *warp = k_special(b, SPECIAL_WARP), *lane = k_special(b, SPECIAL_LANE);
    m.warp_row =
        k_let_expr(b, "warp_row", k_mul(b, k_mod(b, warp, k_i32(b, schedule->warps_m)), k_i32(b, part_m)));
    m.warp_col =
        k_let_expr(b, "warp_col", k_mul(b, k_div(b, warp, k_i32(b, schedule->warps_m)), k_i32(b, part_n)));
    MatmulTile tile = matmul_tile_at(b, plan, &tiles, k_special(b, SPECIAL_CTA_X));
    for (int core = 0; core < plan->n_cores; core++)
        m.accumulator[core] =
            k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc", plan->accumulator,
                    4 * m.rows * m.cols, k_convert(b, k_i32(b, 0), plan->accumulator));
    if (mma_by_elements(&m))
        mma_elements_begin(&m);
    KType word = plan->kind == MATMUL_F64 ? K_F64 : K_U32;
    m.a_words = k_array(b, "a", word, 4 * m.rows, NULL);
    m.b_words = k_array(b, "b", word, 2 * (m.cols < MMA_COLS ? m.cols : MMA_COLS), NULL);
    matmul_ring_product(b, &m.ring, &tile, &(MatmulMultiply){mma_multiply, &m});

    const KExpr *row = k_add(b, tile.row, k_add(b, m.warp_row, k_div(b, lane, k_i32(b, 4))));
    const KExpr *lane_col = k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2));
    const KExpr *col = k_add(b, tile.col, k_add(b, m.warp_col, lane_col));
    MatmulFragment fragment = {.blocks = m.rows,
                               .block_rows = MMA_M,
                               .halves = 2,
                               .half_rows = 8,
                               .groups = m.cols,
                               .group_cols = MMA_N,
                               .width = 2,
                               .row = k_let_expr(b, "row", row),
                               .col = k_let_expr(b, "col", col),
                               .lane_col = lane_col,
                               .tile_rows = schedule->tile_m,
                               .tile_cols = schedule->tile_n,
                               .row_lanes = 4};
    for (int core = 0; core < plan->n_cores; core++)
        fragment.accumulator[core] = m.accumulator[core];
    matmul_epilogue(b, plan, lower, &fragment, tile.batch, NULL, NULL, NULL);
    kernel->summary =
        text_format(b->arena, "matmul by mma.sync: tile %dx%dx%d, %d stages, %dx%d warps%s%s",
                    schedule->tile_m, schedule->tile_n, schedule->tile_k, schedule->stages, schedule->warps_m,
                    schedule->warps_n, m.ring.a.is_copy ? "" : ", first operand computed",
                    m.ring.b[0].is_copy ? "" : ", second operand computed");
}
