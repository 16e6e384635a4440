/* Rows of a length that is no multiple of 16 bytes begin anywhere within a piece of 16, and TMA's boxes begin
 * at one. Of n such rows, one behind the other, the n-th of each begin alike (n: 8 for odd lengths): a view
 * of every n-th row is a matrix whose rows are whole pieces apart, though it begins within one.
 *
 *     memory      | row 0 . . . . | row 1 . . . . | ...  | row n-1 . . . | row n . . . . | ...
 *     matrix 0      row 0, row n, ...          matrix 1    row 1, row n + 1, ...
 *
 * A tile is of one matrix. Its box begins with the piece that the row's first element lies in, so it has up
 * to 7 elements of the row before, and the end of K brings some of the row behind:
 *
 *     tile of x     | p p p x x x x x | x x x x x x x x | ... | x x x n n n n n |        here shifted by 3
 *     tile of w     | 0 0 0 w w w w w | w ...                 | w w w 0 0 0 0 0 |        rows along K
 *
 * The other operand's rows lie along K, where TMA begins anywhere: its tile begins as many rows earlier, and
 * has zeros there and behind the last. What these meet of other rows may be infinite, so those who multiply
 * put zeros in its place, in the first step and the last (wgmma_dealt.c). passes/deal.c makes such views of
 * operands that are given so. */
#include "codegen/templates/matmul_dealt.h"

#include "codegen/templates/matmul_tiles.h"

bool matmul_dealt(const Graph *graph, const MatmulOperand *operand, MatmulDealt *dealt) {
    if (!operand->is_memory || operand->narrow != operand->elem || dtype_bits(operand->elem) != 16 ||
        operand->major != MAJOR_K || !operand->is_contiguous || operand->n_batch != 1)
        return false;
    const Dim *count = operand->value->dims[operand->batch[0]], *k = operand->value->dims[operand->k_axis];
    const Dim *pitch = operand->view.strides[operand->batch[0]];
    const Dim *apart = operand->view.strides[operand->mn_axis];
    if (!dim_is_const(count) || !dim_is_const(pitch) || !dim_is_const(apart) || !dim_is_const(k) ||
        count->value > DEALT_PIECE || pitch->value > INT32_MAX / DEALT_PIECE ||
        pitch->value % DEALT_PIECE == 0 || pitch->value < k->value ||
        apart->value != count->value * pitch->value)
        return false;
    if (!view_is_step(graph, operand->view.offset, operand->elem) ||
        !view_is_step(graph, apart, operand->elem) || !dim_is(operand->view.strides[operand->k_axis], 1))
        return false;
    *dealt = (MatmulDealt){operand->batch[0], count->value, pitch->value};
    return true;
}

bool matmul_is_dealt(const MatmulPlan *plan, const MatmulOperand *operand) {
    MatmulDealt dealt;
    return operand == &plan->a && matmul_dealt(plan->graph, operand, &dealt);
}

const Dim *matmul_dealt_line(DimTable *dims, const MatmulOperand *operand, const MatmulDealt *dealt) {
    const Dim *before = dim_const(dims, (dealt->count - 1) * dealt->pitch);
    return dim_add(dims, before, operand->value->dims[operand->k_axis]);
}

const KExpr *matmul_dealt_start(Builder *b, const MatmulPlan *plan, const MatmulDealt *dealt,
                                const KExpr *const *batch) {
    const KExpr *number = matmul_batch_coord(b, plan, &plan->a, dealt->axis, batch);
    return k_mul(b, number, k_i32(b, dealt->pitch));
}

const KExpr *matmul_dealt_piece(Builder *b, const KExpr *start) {
    return k_bit_and(b, start, k_i32(b, -DEALT_PIECE));
}

const KExpr *matmul_dealt_shift(Builder *b, const KExpr *start) {
    return k_bit_and(b, start, k_i32(b, DEALT_PIECE - 1));
}

int matmul_dealt_most(const MatmulDealt *dealt) {
    return DEALT_PIECE - (int)dim_gcd(DEALT_PIECE, dealt->pitch);
}
