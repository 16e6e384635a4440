/* Words in the workspace by which the blocks of a grid wait for each other: packets of a gang, flags of
 * shared tiles, counters and tickets of a guest, turns of a relay. Anything may have been there before, so
 * the blocks clear them first, each a share, and meet at the barrier that a cooperative launch has:
 *
 *     all warps    | clear a share |--+
 *     warp 1       |               |  +--> grid_meet (some blocks begin later) --> [started]
 *     producer     |               | loads ...                                         |
 *     consumers    |               | products of the first tile ...                    +--> the first packet
 *
 * Nobody who loads or multiplies waits for that; whoever sends, raises or looks at the first word does, at an
 * mbarrier whose only phase has ended long before. (A memset in front of the kernel is another launch, behind
 * which the blocks of some SMs began 2 us later than others: softmax of 8192 x 1024 x 1024 took 34.5 us so.)
 */
#include "codegen/templates/signals.h"

enum { SIGNALS_THREAD = 32 /* of the producer's warpgroup, in a warp that does not load */ };

KBuffer *signals_new(Builder *b, Signals *signals, const char *name, DType elem, const Dim *count) {
    KBuffer *words = k_scratch(b, name, elem, count, true);
    vec_push(b->arena, &signals->words, words);
    return words;
}

void signals_init(Builder *b, Signals *signals) {
    if (!signals->words.n)
        return;
    signals->started = k_shared(b, "started", DTYPE_I64, 1, 8);
    KOperand operands[] = {k_operand(k_smem_addr(b, signals->started, k_i32(b, 0))),
                           k_operand(k_int(b, K_U32, 1))};
    k_atom(b, ATOM_mbar_init, NULL, operands, 2);
}

void signals_clear(Builder *b, const Signals *signals, DimTable *dims) {
    if (dim_is(b->kernel->grid[0], 0)) /* of no rows: it is not launched, and has no share to compute */
        return;
    for (size_t i = 0; i < signals->words.n; i++) {
        const KBuffer *words = signals->words.at[i];
        KType type = ktype_of(words->elem);
        const KVar *nothing = k_array(b, "nothing", type, 1, k_int(b, type, 0));
        const KExpr *share = k_dim(b, dim_ceil_div(dims, words->scratch, b->kernel->grid[0]), K_I32);
        const KExpr *first = k_let_expr(b, "first_word", k_mul(b, k_special(b, SPECIAL_CTA_X), share));
        const KExpr *end = k_min(b, k_add(b, first, share), k_dim(b, words->scratch, K_I32));
        const KExpr *word = k_for_step_begin(b, "word", k_add(b, first, k_special(b, SPECIAL_TID)), end,
                                             k_i32(b, b->kernel->threads));
        k_store(b, words, word, nothing, NULL, 1, NULL, CACHE_DEFAULT);
        k_end(b);
    }
}

void signals_meet(Builder *b, const Signals *signals) {
    if (!signals->words.n)
        return;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, SIGNALS_THREAD)));
    KOperand blocks = k_operand(k_special(b, SPECIAL_GRID_X));
    if (b->kernel->gang > 1)
        k_atom(b, ATOM_grid_meet, NULL, &blocks, 1);
    KOperand started = k_operand(k_smem_addr(b, signals->started, k_i32(b, 0)));
    k_atom(b, ATOM_mbar_arrive, NULL, &started, 1);
    k_end(b);
}

void signals_wait(Builder *b, const Signals *signals) {
    if (!signals->words.n)
        return;
    KOperand operands[] = {k_operand(k_smem_addr(b, signals->started, k_i32(b, 0))),
                           k_operand(k_int(b, K_U32, 0))};
    k_atom(b, ATOM_mbar_wait, NULL, operands, 2);
}
