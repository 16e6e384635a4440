/* Sums of which several warps, or the blocks of a cluster, hold a part each: the parts meet in shared memory
 * and are added in one order, whoever adds them, so that two runs give the same bits. Then the epilogue runs,
 * on the whole sums, with neighbouring threads at neighbouring columns of the result: of sums of the
 * transposed product at neighbouring rows of those, each with a run of its columns.
 *
 *     block 0 of the cluster   products of K 0 .. K/2      [ parts ]--+--> sums of rows 0 .. 7    epilogue
 *     block 1                  products of K/2 .. K        [ parts ]--+--> sums of rows 8 .. 15   epilogue
 *                                                                 ld.shared::cluster */
#include "codegen/templates/matmul_partials.h"

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
    const KExpr *row = k_add(b, f->row, k_mul(b, block, k_i32(b, f->block_rows)));
    row = k_add(b, row, k_mul(b, half, k_i32(b, f->half_rows)));
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

/* What a thread of `threads` finishes, in runs of `width` columns. */
static MatmulFragment partials_fragment(const MatmulPartials *p, int width, int threads) {
    int lines = p->cols / width, pieces = p->rows * lines / p->cluster;
    int turns = pieces > threads ? pieces / threads : 1;
    MatmulFragment f = {.blocks = turns, .block_rows = threads / lines, .halves = 1, .groups = 1};
    if (p->is_swapped) { /* the next turn is further along the same row */
        f.groups = turns;
        f.group_cols = threads / p->rows * width;
        f.blocks = 1;
    } else if (threads < lines) { /* several turns within a row */
        f.groups = turns < lines / threads ? turns : lines / threads;
        f.group_cols = threads * width;
        f.blocks = turns / f.groups;
        f.block_rows = 1;
    }
    f.width = width;
    f.tile_rows = p->rows;
    f.tile_cols = p->cols;
    f.is_swapped = p->is_swapped;
    return f;
}

void matmul_partials_finish(Builder *b, const MatmulPlan *plan, Lower *lower, const MatmulPartials *p,
                            const KExpr *thread, int threads, const KExpr *row, const KExpr *col,
                            const KExpr *const *batch) {
    int width = 128 / dtype_bits(partials_type(plan));
    width = p->cols % width == 0 ? width : 1;
    int lines = p->cols / width, pieces = p->rows * lines / p->cluster;
    MatmulFragment f = partials_fragment(p, width, threads);
    const KExpr *piece = thread;
    if (p->cluster > 1) /* each block finishes its share of the tile */
        piece = k_add(b, k_mul(b, k_special(b, SPECIAL_CTA_RANK), k_i32(b, pieces)), thread);
    const KExpr *line_row = k_div(b, piece, k_i32(b, lines)), *line = k_mod(b, piece, k_i32(b, lines));
    if (p->is_swapped) {
        line_row = k_mod(b, piece, k_i32(b, p->rows));
        line = k_div(b, piece, k_i32(b, p->rows));
    }
    const KExpr *tile_row = k_let_expr(b, "sum_row", line_row);
    const KExpr *tile_col = k_let_expr(b, "sum_col", k_mul(b, line, k_i32(b, width)));
    f.row = k_let_expr(b, "row", k_add(b, row, tile_row));
    f.col = k_let_expr(b, "col", k_add(b, col, tile_col));
    if (pieces < threads)
        k_if_begin(b, k_lt(b, thread, k_i32(b, pieces)));
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
    if (pieces < threads)
        k_end(b);
}
