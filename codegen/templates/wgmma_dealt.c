/* Tiles of dealt rows (matmul_dealt.c): zeros in place of what the first step and the last have of other
 * rows. Each warpgroup puts them into its own rows, ahead of its products. */
#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_result.h"
#include "codegen/templates/wgmma.h"

bool wgmma_accepts_dealt(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "rows that are dealt out give a tile's rows, and the other operand's rows lie along K";
    const MatmulOperand *other = &plan->b[0];
    const char *no_tma;
    if (schedule->swap_ab || plan->n_cores > 1 || other->major != MAJOR_MN ||
        !matmul_is_tma(plan->graph, other, &no_tma) || other->n_batch)
        return false;
    *why = "rows that are dealt out have tiles and steps of their own: no cluster, split_k or stream_k";
    return schedule->cluster_m <= 1 && schedule->cluster_n <= 1 && matmul_split(schedule) == 1 &&
           !schedule->stream_k && !plan->before && !plan->guest && !plan->statistics.n &&
           !matmul_columns_guest(plan) && matmul_members(plan, schedule).n <= 1;
}

/* The bits of the word of elements `at` and the next that lie in [begin, end), in elements of the step. */
static const KExpr *dealt_bits(Builder *b, const KExpr *at, const KExpr *begin, const KExpr *end) {
    enum { LOW = 0xffff };
    const KExpr *none = k_int(b, K_U32, 0), *bits = none;
    for (int half = 0; half < 2; half++) {
        const KExpr *element = k_add(b, at, k_i32(b, half));
        const KExpr *is_own = k_and(b, k_ge(b, element, begin), k_lt(b, element, end));
        const KExpr *own = k_int(b, K_U32, half ? (int64_t)LOW << 16 : LOW);
        bits = k_bit_or(b, bits, k_select(b, is_own, own, none));
    }
    return bits;
}

const KExpr *wgmma_dealt_tile(Wgmma *w, const MatmulTile *tile) {
    Builder *b = w->b;
    if (!w->dealt.rows.count)
        return NULL;
    const KExpr *start = matmul_dealt_start(b, w->plan, &w->dealt.rows, tile->batch);
    start = k_let_expr(b, "start", start);
    w->dealt.shift = k_let_expr(b, "shift", matmul_dealt_shift(b, start));
    return matmul_dealt_piece(b, start);
}

void wgmma_dealt_step(Wgmma *w, const KExpr *stage, const KExpr *step, const KExpr *steps) {
    enum { WORDS = 4, WORD = 2 };
    Builder *b = w->b;
    if (!w->dealt.rows.count)
        return;
    const Tile *tile = &w->operands[0].tile;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *last = k_sub(b, steps, one);
    k_if_begin(b, k_scalar(b, OP_or, k_eq(b, step, zero), k_eq(b, step, last), NULL));
    const KExpr *begin = k_sub(b, w->dealt.shift, k_mul(b, step, k_i32(b, w->schedule->tile_k)));
    begin = k_let_expr(b, "begin", begin);
    const KExpr *end = k_let_expr(b, "end", k_add(b, begin, k_dim(b, w->plan->k, K_I32)));
    int rows = WGMMA_M * w->blocks, pieces = w->schedule->tile_k / DEALT_PIECE;
    const KExpr *thread = k_mod(b, k_special(b, SPECIAL_TID), k_i32(b, WARPGROUP));
    const KExpr *row = k_mod(b, thread, k_i32(b, rows));
    if (!w->schedule->ping_pong)
        row = k_add(b, row, k_mul(b, w->dealt.group, k_i32(b, rows)));
    /* a row's threads have every n-th piece */
    const KExpr *piece = k_for_begin(b, "piece", k_div(b, thread, k_i32(b, rows)), k_i32(b, pieces),
                                     WARPGROUP / rows, UNROLL_NONE);
    const KExpr *first = k_let_expr(b, "first", k_mul(b, piece, k_i32(b, DEALT_PIECE)));
    const KExpr *behind = k_add(b, first, k_i32(b, DEALT_PIECE));
    k_if_begin(b, k_scalar(b, OP_or, k_lt(b, first, begin), k_lt(b, end, behind), NULL));
    const KVar *words = k_array(b, "piece_words", K_U32, WORDS, NULL);
    const KExpr *at = k_let_expr(b, "piece_at", tile_index(b, tile, stage, row, first));
    k_load_raw(b, words, zero, tile->buffer, at, DEALT_PIECE, NULL, CACHE_DEFAULT);
    for (int i = 0; i < WORDS; i++) {
        const KExpr *bits = dealt_bits(b, k_add(b, first, k_i32(b, i * WORD)), begin, end);
        k_set_elem(b, words, k_i32(b, i), k_bit_and(b, k_elem_at(b, words, i), bits));
    }
    k_store_raw(b, tile->buffer, at, words, zero, DEALT_PIECE, NULL, CACHE_DEFAULT);
    k_end(b);
    k_end(b);
    k_atom(b, ATOM_fence_async, NULL, NULL, 0);
    matmul_meet_group(b, w->dealt.group, w->consumers);
    k_end(b);
}
