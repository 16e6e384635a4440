/* Rows: those of a block that come after the present one are on their way to shared memory while it is
 * handled (cp.async, PTX ISA 9.7.9.25). A thread copies the runs that it will read itself, so that no barrier
 * is needed:
 *
 *     copy rows 0 .. stages - 2
 *     for each row r:   wait for row r;   its runs to registers;   copy row r + stages - 1 to where r - 1
 * was;   passes
 *
 * Inputs whose elements are the space's own, in its order, take this way; others are loaded where they are
 * used. */
#include "codegen/kernel_value.h"
#include "codegen/templates/rows_build.h"
#include "codegen/templates/vectors.h"
#include "ir/view.h"

static bool ahead_is_packed(const Graph *graph, const Region *region, const Value *input) {
    const Dim *strides[RANK_MAX], *step = dim_const(graph->dims, 1);
    if (input->rank != region->rank)
        return false;
    view_base_strides(graph, input, strides);
    for (int i = input->rank - 1; i >= 0; i--) {
        if (input->dims[i] != region->dims[i] || (strides[i] != step && !dim_is(input->dims[i], 1)))
            return false;
        step = dim_mul(graph->dims, step, input->dims[i]);
    }
    return true;
}

int rows_find_ahead(const Graph *graph, const Region *region, int width, const Value **out) {
    int n = 0;
    for (size_t i = 0; i < region->inputs.n && n < ROWS_AHEAD_MAX; i++) {
        const Value *input = region->inputs.at[i];
        int bits = width * dtype_bits(input->dtype);
        if (ahead_is_packed(graph, region, input) && dtype_bits(input->dtype) >= 8 &&
            (bits == 32 || bits == 64 || bits == 128))
            out[n++] = input;
    }
    return n;
}

int64_t rows_ahead_smem(const Graph *graph, const Region *region, const Schedule *s) {
    const Value *inputs[ROWS_AHEAD_MAX];
    int64_t bytes = 0;
    if (s->stages < 2)
        return 0;
    for (int i = rows_find_ahead(graph, region, s->vector, inputs); i-- > 0;)
        bytes += (int64_t)s->stages * s->rows_per_block * rows_padded(graph, region, s) *
                 dtype_bits(inputs[i]->dtype) / 8;
    return bytes;
}

/* Where a thread's run lies in the ring: neighbours of a warp side by side. */
static const KExpr *ahead_at(Rows *rows, const KExpr *stage, int run) {
    Builder *b = rows->b;
    const KExpr *at = k_add(b, k_mul(b, stage, k_i32(b, rows->runs)), k_i32(b, run));
    at = k_add(b, k_mul(b, at, k_i32(b, b->kernel->threads)), k_special(b, SPECIAL_TID));
    return k_mul(b, at, k_i32(b, rows->width));
}

/* The stage of the block's row number `at`. */
static const KExpr *ahead_stage(Rows *rows, const KExpr *at) {
    Builder *b = rows->b;
    const KExpr *turn = k_div(b, k_convert(b, at, K_I32), k_i32(b, rows->schedule->rows_per_block));
    return k_mod(b, turn, k_i32(b, rows->schedule->stages));
}

/* Begins the copies of the thread's row, the block's number `at`, where `is_row` (NULL: it is one); closes
 * the group anyway. */
static void ahead_copy(Rows *rows, const KExpr *at, const KExpr *is_row) {
    Builder *b = rows->b;
    const KExpr *first = k_mul(b, rows->lane, k_int(b, rows->index, rows->width));
    const KExpr *row = k_mul(b, k_add(b, rows->first_row, at), k_dim(b, rows->extent, rows->index));
    bool exact = dim_is(rows->extent, rows_stride(rows) * rows->runs);
    if (is_row)
        k_if_begin(b, is_row);
    const KExpr *stage = k_let_expr(b, "to_stage", ahead_stage(rows, at));
    const KExpr *origin = k_let_expr(b, "origin", k_add(b, row, first));
    for (int i = 0; i < rows->n_ahead; i++) {
        const RowsAhead *ahead = &rows->ahead[i];
        int bytes = rows->width * dtype_bits(ahead->value->dtype) / 8;
        for (int run = 0; run < rows->runs; run++) {
            const KExpr *step = k_int(b, rows->index, run * rows_stride(rows)),
                        *read = k_int(b, K_U32, bytes);
            if (!exact)
                read = k_select(b, k_lt(b, k_add(b, first, step), k_dim(b, rows->extent, rows->index)), read,
                                k_int(b, K_U32, 0));
            KOperand operands[] = {
                k_operand(k_smem_addr(b, ahead->ring, ahead_at(rows, stage, run))),
                k_operand(k_global_addr(b, k_global(b, ahead->value, false), k_add(b, origin, step))),
                k_operand(read)};
            if (bytes == 16)
                k_atom(b, ATOM_cp_async_16, NULL, operands, 3);
            else
                k_atom(b, ATOM_cp_async, &bytes, operands, 3);
        }
    }
    if (is_row)
        k_end(b);
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
}

void rows_ahead_begin(Rows *rows) {
    Builder *b = rows->b;
    const Value *inputs[ROWS_AHEAD_MAX];
    const Schedule *s = rows->schedule;
    rows->n_ahead = s->stages < 2 ? 0 : rows_find_ahead(b->kernel->graph, rows->region, rows->width, inputs);
    for (int i = 0; i < rows->n_ahead; i++) {
        const char *name = text_format(b->arena, "%s_ahead", lower_value_name(rows->lower, inputs[i]));
        int64_t count = (int64_t)s->stages * rows->runs * b->kernel->threads * rows->width;
        rows->ahead[i] = (RowsAhead){inputs[i], k_shared(b, name, inputs[i]->dtype, count, 16)};
    }
    for (int stage = 0; stage < s->stages - 1 && rows->n_ahead; stage++)
        ahead_copy(rows, k_int(b, rows->index, (int64_t)stage * s->rows_per_block), NULL);
}

void rows_ahead_take(Rows *rows, const KExpr *at) {
    Builder *b = rows->b;
    const Schedule *s = rows->schedule;
    if (!rows->n_ahead)
        return;
    k_atom(b, ATOM_cp_async_wait, (int[]){s->stages - 2}, NULL, 0);
    const KExpr *stage = k_let_expr(b, "stage", ahead_stage(rows, at));
    for (int i = 0; i < rows->n_ahead; i++) {
        const Value *value = rows->ahead[i].value;
        const char *name = text_format(b->arena, "%s_v", lower_value_name(rows->lower, value));
        RowsHeld held = {value, k_array(b, name, ktype_of(value->dtype), rows->runs * rows->width, NULL)};
        for (int run = 0; run < rows->runs; run++)
            vectors_load(b, rows->ahead[i].ring, ahead_at(rows, stage, run), held.array,
                         k_i32(b, run * rows->width), rows->width);
        vec_push(b->arena, &rows->held, held);
    }
    const KExpr *next = k_add(b, at, k_int(b, rows->index, (int64_t)(s->stages - 1) * s->rows_per_block));
    ahead_copy(rows, next, k_lt(b, next, k_int(b, rows->index, rows->down[0].block.block)));
}
