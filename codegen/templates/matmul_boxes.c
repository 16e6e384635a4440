/* Boxes of staging to memory: of 16 rows, each one warp's, two in turn for each output (or one); of a
 * transposed product of 64 columns, each one warpgroup's.
 *
 *     by TMA:   one lane sends a box off, which is read while the next one is computed
 *     by rows:  lanes read the box back and store it, where TMA cannot write the output, whose rows are no
 *               multiple of 16 bytes (matmul_boxes_rows.c)
 *
 * With two boxes in turn the warp's lanes meet once a box: who writes box 0 again has met all lanes behind
 * their writes of box 1, and so behind their reads of box 0. With one they meet before they write it, too. */
#include "codegen/templates/matmul_epilogue.h"

enum { BOX_WARP = 32 };

void matmul_meet_group(Builder *b, const KExpr *group, int groups) {
    enum { BARRIER = 4 /* and the next two */ };
    for (int g = 0; g < groups; g++) {
        if (g + 1 < groups)
            k_if_begin(b, k_eq(b, group, k_i32(b, g)));
        k_named_barrier(b, BARRIER + g, WARPGROUP);
        if (g + 1 < groups)
            k_else(b);
    }
    for (int g = 0; g + 1 < groups; g++)
        k_end(b);
}

void matmul_boxes_begin(Builder *b, MatmulStaging *staging) {
    enum { SIDE = 8 /* of a matrix */ };
    const KExpr *lane = k_special(b, SPECIAL_LANE), *side = k_i32(b, SIDE), *two = k_i32(b, 2 * SIDE);
    const KExpr *row = k_mod(b, lane, two), *col = k_mul(b, k_div(b, lane, two), side);
    if (staging->is_swapped) { /* lanes 0-15 address the first group of columns, now rows of the box */
        const KExpr *in_matrix = k_mod(b, lane, side), *lower = k_sub(b, row, in_matrix);
        const KExpr *warp = k_mod(b, k_special(b, SPECIAL_WARP), k_i32(b, WARPGROUP / BOX_WARP));
        row = k_add(b, col, in_matrix);
        col = k_add(b, k_mul(b, warp, two), lower);
    }
    staging->lane_row = k_let_expr(b, "matrix_row", row);
    staging->lane_col = k_let_expr(b, "matrix_col", col);
}

const KExpr *matmul_boxes_row(Builder *b, const MatmulStaging *staging, const KExpr *warp_row) {
    const KExpr *block = k_i32(b, WGMMA_M);
    return staging->is_swapped ? k_mul(b, k_div(b, warp_row, block), block) : warp_row;
}

const KExpr *matmul_box_col(Builder *b, const MatmulStaging *staging, const KExpr *box) {
    return k_add(b, staging->col, k_mul(b, box, k_i32(b, staging->cols)));
}

/* Whether the thread is the one that an owner's boxes leave by. */
static const KExpr *boxes_lead(Builder *b, const MatmulStaging *staging) {
    const KExpr *number = staging->is_swapped ? k_mod(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP))
                                              : k_special(b, SPECIAL_LANE);
    return k_eq(b, number, k_i32(b, 0));
}

static void boxes_meet(Builder *b, const MatmulStaging *staging) {
    if (staging->is_swapped)
        matmul_meet_group(b, staging->owner, staging->groups);
    else
        k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
}

void matmul_boxes_wait(Builder *b, const MatmulStaging *staging, int rounds) {
    if (staging->n_tma) {
        int but = rounds * staging->n_tma;
        k_if_begin(b, boxes_lead(b, staging));
        k_atom(b, ATOM_bulk_wait_read, &but, NULL, 0);
        k_end(b);
    }
    if (staging->n_tma || rounds == 0)
        boxes_meet(b, staging);
}

void matmul_boxes_end(Builder *b, const MatmulStaging *staging) {
    if (!staging->n_tma)
        return;
    k_if_begin(b, boxes_lead(b, staging));
    k_atom(b, ATOM_bulk_wait, (int[]){0}, NULL, 0);
    k_end(b);
}

/* A box of lines: of 64 columns of 32 bits there are two, side by side. */
static void box_send_tma(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *block,
                         const KExpr *box_row, const KExpr *box_col, const KExpr *stage) {
    Builder *b = e->b;
    const Tile *tile = &staging->tile[output];
    const KExpr *row = staging->is_swapped ? box_col : box_row,
                *col = staging->is_swapped ? box_row : box_col;
    for (int first = 0; first < tile->cols; first += tile->span) {
        const KExpr *from = tile_block_address(b, tile, stage, 0, first / tile->span);
        KOperand operands[2 + STORED_DIMS] = {k_operand(k_tensor_map_addr(b, staging->map[output])),
                                              k_operand(from)};
        int n;
        if (staging->place) {
            const KExpr *groups = k_mul(b, block, k_i32(b, WGMMA_M / PATCH_GROUP));
            MatmulPlace place = matmul_patch_behind(b, staging->place, groups);
            operands[2] = k_operand(k_add(b, col, k_i32(b, first)));
            n = 1 + matmul_patch_coords(&place, operands + 3);
        } else {
            n = matmul_stored_coords(b, e->plan, &staging->stored[output], e->batch, row,
                                     k_add(b, col, k_i32(b, first)), operands + 2);
        }
        k_atom(b, (AtomId)(ATOM_tma_store_2d + n - 2), NULL, operands, 2 + n); /* ORDER TMA_STORE */
    }
    k_atom(b, ATOM_bulk_commit, NULL, NULL, 0);
}

void matmul_boxes_send(Epilogue *e, const MatmulStaging *staging, const KExpr *block, const KExpr *box,
                       const KExpr *const *boxes, int64_t first) {
    Builder *b = e->b;
    const KExpr *row = k_add(b, staging->row, k_mul(b, block, k_i32(b, e->fragment->block_rows)));
    const KExpr *col = k_sub(b, matmul_box_col(b, staging, box), k_i32(b, first));
    if (staging->n_tma)
        k_atom(b, ATOM_fence_async, NULL, NULL, 0);
    boxes_meet(b, staging);
    if (staging->n_tma) {
        k_if_begin(b, boxes_lead(b, staging));
        for (int o = 0; o < staging->n_tma; o++)
            box_send_tma(e, staging, o, block, row, col, boxes[o]);
        k_end(b);
    }
    lower_set_columns(e->lower, NULL); /* lanes store other columns than they have computed */
    for (int o = staging->n_tma; o < staging->n_outputs; o++)
        matmul_box_send_rows(e, staging, o, row, col, boxes[o], box);
}
