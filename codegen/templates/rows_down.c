/* Rows: statistics down the columns, of a block of rows each (ir/block.h), beside what is done along the
 * rows.
 *
 * A block of threads goes through its rows, rows_per_block of them at a time. A thread has the same columns
 * of each and keeps what their statistics come to so far:
 *
 *     for r in the block's rows:     the row's passes;   acc[c] = combine(acc[c], f(row)[c])
 *     acc of the rows_per_block threads of a column to shared memory; one of them combines these, in their
 * order
 *
 * What the blocks found is another kernel's to bring together. */
#include "codegen/lower.h"
#include "codegen/templates/rows_build.h"
#include "codegen/templates/vectors.h"
#include "ir/base/checked.h"

int rows_find_down(const Region *region, RowsDown *out) {
    int n = 0;
    for (size_t i = 0; i < region->outputs.n; i++) {
        BlockStatistic block;
        const Value *output = region->outputs.at[i];
        if (!lower_output_is_block(region, output, &block))
            continue;
        if (n < ROWS_DOWN_MAX)
            out[n] = (RowsDown){output, block_stored(output), block};
        n++;
    }
    return n;
}

int64_t rows_padded(const Graph *graph, const Region *region, const Schedule *s) {
    int64_t longest = dim_upper(graph->dims, region->dims[region->rank - 1]);
    return longest > INT32_MAX ? INT32_MAX : round_up(longest, (int64_t)s->threads_per_row * s->vector);
}

int64_t rows_down_smem(const Graph *graph, const Region *region, const Schedule *s) {
    RowsDown down[ROWS_DOWN_MAX];
    int n = rows_find_down(region, down);
    int64_t bytes = 0, length = rows_padded(graph, region, s);
    for (int i = 0; i < n && i < ROWS_DOWN_MAX; i++) {
        int64_t own = s->rows_per_block * length * ktype_bits(reduce_type(down[i].reduction)) / 8;
        bytes = own > bytes ? own : bytes;
    }
    return bytes;
}

void rows_declare_down(Rows *rows) {
    Builder *b = rows->b;
    for (int i = 0; i < rows->n_down; i++) {
        const Value *reduction = rows->down[i].reduction;
        const char *name = text_format(b->arena, "%s_acc", lower_value_name(rows->lower, reduction));
        rows->down_acc[i] = reduce_declare(b, reduction, name, rows->runs * rows->width, rows->index);
    }
}

void rows_down_targets(Rows *rows, LowerTarget *targets) {
    for (int i = 0; i < rows->n_down; i++)
        targets[i] = (LowerTarget){
            .value = rows->down[i].block.of,
            .fold = {.reduction = rows->down[i].reduction, .acc = rows->down_acc[i], .by_lane = true}};
}

/* Writes the result of column `column`, which is all that `x` holds of the block's rows. */
static void down_store(Rows *rows, const RowsDown *down, const KExpr *number, const KExpr *column,
                       PartialVars x) {
    Builder *b = rows->b;
    const Value *reduction = down->reduction;
    const KExpr *coords[RANK_MAX];
    int row = down->block.axis;
    lower_delinearize(b, number, row + 1, (const Dim *const *)reduction->dims, coords);
    coords[row + 1] = k_int(b, rows->index, 0);
    coords[row + 2] = k_convert(b, column, rows->index);
    lower_store_at(rows->lower, down->output, reduction, coords,
                   reduce_result(b, reduction, reduce_get(b, x, NULL)));
}

void rows_store_down(Rows *rows, const KExpr *number) {
    Builder *b = rows->b;
    const Schedule *s = rows->schedule;
    const KExpr *tid = k_special(b, SPECIAL_TID), *lanes = k_i32(b, rows->lanes);
    int64_t length = rows_padded(b->kernel->graph, rows->region, s);
    int64_t bytes = rows_down_smem(b->kernel->graph, rows->region, s);
    KBuffer *shared = NULL; /* by one statistic after the other */
    const KExpr *own = k_mul(b, k_div(b, tid, lanes), k_i32(b, length));
    own = k_add(b, own, k_mul(b, k_mod(b, tid, lanes), k_i32(b, rows->width)));
    own = k_let_expr(b, "own", own);
    for (int i = 0; i < rows->n_down; i++) {
        const RowsDown *down = &rows->down[i];
        PartialVars acc = rows->down_acc[i];
        KType type = acc.x->type;
        const char *name = text_format(b->arena, "%s_rows", acc.x->name);
        DType elem = vectors_element(type);
        int64_t count = bytes * 8 / ktype_bits(type);
        KBuffer *all =
            shared ? k_shared_at(b, name, elem, count, shared->offset) : k_shared(b, name, elem, count, 16);
        shared = shared ? shared : all;
        for (int run = 0; run < rows->runs; run++)
            vectors_store(b, all, k_add(b, own, k_i32(b, run * rows_stride(rows))), acc.x,
                          k_i32(b, run * rows->width), rows->width);
        k_barrier(b);
        const KExpr *end = k_convert(b, k_dim(b, rows->extent, rows->index), K_I32);
        const KExpr *column = k_for_begin(b, "column", tid, end, b->kernel->threads, UNROLL_NONE);
        PartialVars x = reduce_declare(b, down->reduction, "all", 0, rows->index);
        const KExpr *group =
            k_for_begin(b, "above", k_i32(b, 0), k_i32(b, s->rows_per_block), 1, UNROLL_AUTO);
        const KVar *one = k_variable(b, "one", type, NULL);
        k_load(b, one, NULL, all, k_add(b, k_mul(b, group, k_i32(b, length)), column), 1, NULL,
               CACHE_DEFAULT);
        reduce_into(b, down->reduction, x, NULL, (Partial){.x = k_var(b, one)});
        k_end(b);
        down_store(rows, down, number, column, x);
        k_end(b);
        if (i + 1 < rows->n_down)
            k_barrier(b);
    }
}
