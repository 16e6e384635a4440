/* Sums of which several warps, or the blocks of a cluster, hold a part each: the parts meet in shared memory
 * and are added in one order, whoever adds them, so that two runs give the same bits. Then the epilogue runs,
 * on the whole sums, with neighbouring threads at neighbouring columns of the result: of sums of the
 * transposed product at neighbouring rows of those, each with a run of its columns.
 *
 *     block 0 of the cluster   products of K 0 .. K/2      [ parts ]--+--> sums of rows 0 .. 7    epilogue
 *     block 1                  products of K/2 .. K        [ parts ]--+--> sums of rows 8 .. 15   epilogue
 *                                                                 ld.shared::cluster */
#include "codegen/templates/matmul_partials.h"

#include "ir/base/checked.h"

static DType partials_type(const MatmulPlan *plan) {
    switch (plan->accumulator) {
    case K_F64: return DTYPE_F64;
    case K_I64: return DTYPE_I64;
    case K_I32: return DTYPE_I32;
    default: return DTYPE_F32;
    }
}

int64_t matmul_partials_bytes(const MatmulPlan *plan, int rows, int cols, int parts) {
    int64_t elements = (int64_t)rows * (cols + PARTIALS_PAD) * parts;
    return elements * dtype_bits(partials_type(plan)) / 8 * plan->n_cores;
}

MatmulPartials matmul_partials(Builder *b, const MatmulPlan *plan, int rows, int cols, int parts,
                               int cluster) {
    MatmulPartials p = {.rows = rows, .cols = cols, .parts = parts, .cluster = cluster};
    int64_t elements = (int64_t)rows * (cols + PARTIALS_PAD) * parts;
    for (int core = 0; core < plan->n_cores; core++)
        p.buffer[core] = k_shared(b, "parts", partials_type(plan), elements, 16);
    return p;
}

const KExpr *matmul_partials_index(Builder *b, const MatmulPartials *p, const KExpr *part, const KExpr *row,
                                   const KExpr *col) {
    const KExpr *line = k_add(b, k_mul(b, part, k_i32(b, p->rows)), row);
    return k_add(b, k_mul(b, line, k_i32(b, p->cols + PARTIALS_PAD)), col);
}

void matmul_partials_put(Builder *b, const MatmulPlan *plan, const MatmulPartials *p,
                         const MatmulFragment *f) {
    const KExpr *block = epilogue_loop(b, "block", f->blocks);
    const KExpr *group = epilogue_loop(b, "g", f->groups), *half = epilogue_loop(b, "h", f->halves);
    const KExpr *piece = f->is_swapped ? epilogue_loop(b, "p", f->width) : k_i32(b, 0);
    const KExpr *row = matmul_fragment_row(b, f, block, half);
    const KExpr *col = k_add(b, k_add(b, f->col, k_mul(b, group, k_i32(b, f->group_cols))), piece);
    const KExpr *at = k_add(b, k_mul(b, block, k_i32(b, f->groups)), group);
    at = k_add(b, k_mul(b, at, k_i32(b, f->halves)), half);
    at = k_add(b, k_mul(b, at, k_i32(b, f->width)), piece);
    const KExpr *to = f->is_swapped ? matmul_partials_index(b, p, k_i32(b, 0), col, row)
                                    : matmul_partials_index(b, p, k_i32(b, 0), row, col);
    for (int core = 0; core < plan->n_cores; core++)
        k_store(b, p->buffer[core], to, f->accumulator[core], at, f->is_swapped ? 1 : f->width, NULL,
                CACHE_DEFAULT);
    epilogue_loop_end(b, f->is_swapped ? f->width : 1);
    epilogue_loop_end(b, f->halves);
    epilogue_loop_end(b, f->groups);
    epilogue_loop_end(b, f->blocks);
}

/* Adds one part's `width` elements to sum[at ..]. */
static void partials_add(Builder *b, const MatmulPlan *plan, const MatmulPartials *p, int core,
                         const KExpr *index, const KExpr *block, const KVar *sum, const KExpr *at,
                         int width) {
    const KVar *part = k_array(b, "part", plan->accumulator, width, NULL);
    if (p->cluster > 1) {
        const KVar *words = k_array(b, "words", K_U32, width, NULL);
        KOperand operands[] = {k_regs(words, 0, width), k_operand(k_smem_addr(b, p->buffer[core], index)),
                               k_operand(block)};
        k_atom(b, ATOM_cluster_load, NULL, operands, 3);
        for (int e = 0; e < width; e++)
            k_set_elem(b, part, k_i32(b, e), k_bitcast(b, k_elem_at(b, words, e), plan->accumulator));
    } else {
        k_load(b, part, NULL, p->buffer[core], index, width, NULL, CACHE_DEFAULT);
    }
    for (int e = 0; e < width; e++) {
        const KExpr *to = k_add(b, at, k_i32(b, e));
        k_set_elem(b, sum, to, k_add(b, k_elem(b, sum, to), k_elem_at(b, part, e)));
    }
}

/* Elements of 16 bytes of sums; one by one where rows are no multiple of them. */
static int partials_width(const MatmulPlan *plan, int cols) {
    int width = 128 / dtype_bits(partials_type(plan));
    return cols % width == 0 ? width : 1;
}

/* The largest power of two that divides n, but at most `most`. */
static int partials_power(int n, int most) {
    int power = 1;
    while (n % (2 * power) == 0 && 2 * power <= most)
        power *= 2;
    return power;
}

/* What each block of a cluster finishes of a tile: the rows are shared first, then the columns, in lines of
 * `width`; and how many of its threads stand along either. */
typedef struct PartialsShare {
    int width, blocks_n; /* blocks of the cluster that have the same rows */
    int rows, lines;     /* of a block */
    int threads_m, threads_n;
} PartialsShare;

static PartialsShare partials_share(const MatmulPlan *plan, const MatmulPartials *p, int threads) {
    PartialsShare s = {.width = partials_width(plan, p->cols)};
    int blocks_m = partials_power(p->rows, p->cluster);
    s.blocks_n = p->cluster / blocks_m;
    s.rows = p->rows / blocks_m;
    s.lines = p->cols / s.width / s.blocks_n;
    s.threads_n = partials_power(s.lines, threads);
    s.threads_m = partials_power(s.rows, threads / s.threads_n);
    return s;
}

bool matmul_partials_divide(const MatmulPlan *plan, int rows, int cols, int cluster) {
    int lines = cols / partials_width(plan, cols);
    return lines % (cluster / partials_power(rows, cluster)) == 0;
}

void matmul_partials_steps(Builder *b, const Dim *all, int cluster, const KExpr **first, const KExpr **end) {
    *first = k_i32(b, 0);
    *end = k_dim(b, all, K_I32);
    if (cluster == 1)
        return;
    const KExpr *rank = k_convert(b, k_special(b, SPECIAL_CTA_RANK), K_I32), *steps = *end;
    const KExpr *blocks = k_i32(b, cluster), *next = k_add(b, rank, k_i32(b, 1));
    *first = k_let_expr(b, "first_step", k_div(b, k_mul(b, rank, steps), blocks));
    *end = k_let_expr(b, "last_step", k_div(b, k_mul(b, next, steps), blocks));
}

/* Rows in pieces of `width` columns, of which a thread of `threads` has each so-manieth: the next one is
 * further along the same row of the transposed product. */
static MatmulFragment partials_swapped(Builder *b, const MatmulPartials *p, const PartialsShare *s,
                                       const KExpr *thread, int threads) {
    int pieces = p->rows * p->cols / s->width / p->cluster;
    MatmulFragment f = {.blocks = 1,
                        .groups = pieces > threads ? pieces / threads : 1,
                        .group_cols = threads / p->rows * s->width};
    const KExpr *piece = thread;
    if (p->cluster > 1)
        piece = k_add(b, k_mul(b, k_special(b, SPECIAL_CTA_RANK), k_i32(b, pieces)), thread);
    f.row = k_mod(b, piece, k_i32(b, p->rows));
    f.col = k_mul(b, k_div(b, piece, k_i32(b, p->rows)), k_i32(b, s->width));
    return f;
}

/* What a thread finishes; the fragment's row and col count from the tile's corner. */
static MatmulFragment partials_straight(Builder *b, const MatmulPartials *p, const PartialsShare *s,
                                        const KExpr *thread) {
    MatmulFragment f = {.blocks = s->rows / s->threads_m,
                        .block_rows = s->threads_m,
                        .groups = s->lines / s->threads_n,
                        .group_cols = s->threads_n * s->width};
    f.row = k_div(b, thread, k_i32(b, s->threads_n));
    f.col = k_mul(b, k_mod(b, thread, k_i32(b, s->threads_n)), k_i32(b, s->width));
    if (p->cluster > 1) {
        const KExpr *rank = k_convert(b, k_special(b, SPECIAL_CTA_RANK), K_I32), *n = k_i32(b, s->blocks_n);
        f.row = k_add(b, f.row, k_mul(b, k_div(b, rank, n), k_i32(b, s->rows)));
        f.col = k_add(b, f.col, k_mul(b, k_mod(b, rank, n), k_i32(b, s->lines * s->width)));
    }
    return f;
}

void matmul_partials_finish(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulPartials *p,
                            const KExpr *thread, int threads, const KExpr *row, const KExpr *col,
                            const KExpr *const *batch) {
    PartialsShare share = partials_share(plan, p, threads);
    int width = share.width, active = share.threads_m * share.threads_n;
    if (p->is_swapped)
        active = p->rows * p->cols / width / p->cluster;
    MatmulFragment f = p->is_swapped ? partials_swapped(b, p, &share, thread, threads)
                                     : partials_straight(b, p, &share, thread);
    const KExpr *tile_row = k_let_expr(b, "sum_row", f.row), *tile_col = k_let_expr(b, "sum_col", f.col);
    f.halves = 1;
    f.width = width;
    f.tile_rows = p->rows;
    f.tile_cols = p->cols;
    f.is_swapped = p->is_swapped;
    f.row = k_let_expr(b, "row", k_add(b, row, tile_row));
    f.col = k_let_expr(b, "col", k_add(b, col, tile_col));
    if (active < threads)
        k_if_begin(b, k_lt(b, thread, k_i32(b, active)));
    for (int core = 0; core < plan->n_cores; core++)
        f.accumulator[core] =
            k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc", plan->accumulator,
                    f.blocks * f.groups * width, k_convert(b, k_i32(b, 0), plan->accumulator));
    for (int core = 0; core < plan->n_cores; core++) {
        const KExpr *block = epilogue_loop(b, "block", f.blocks), *group = epilogue_loop(b, "g", f.groups);
        const KExpr *r = k_add(b, tile_row, k_mul(b, block, k_i32(b, f.block_rows)));
        const KExpr *c = k_add(b, tile_col, k_mul(b, group, k_i32(b, f.group_cols)));
        const KExpr *turn = k_add(b, k_mul(b, block, k_i32(b, f.groups)), group);
        for (int from = 0; from < p->cluster; from++)
            for (int part = 0; part < p->parts; part++)
                partials_add(b, plan, p, core, matmul_partials_index(b, p, k_i32(b, part), r, c),
                             k_int(b, K_U32, from), f.accumulator[core], k_mul(b, turn, k_i32(b, width)),
                             width);
        epilogue_loop_end(b, f.groups);
        epilogue_loop_end(b, f.blocks);
    }
    matmul_epilogue(b, plan, lower, &f, batch, NULL, NULL, NULL);
    if (active < threads)
        k_end(b);
}
