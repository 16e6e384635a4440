/* Converters that bring operands whose rows begin anywhere in memory (matmul_skew.c). Each has every n-th
 * step of K, and the copies of its next steps on their way:
 *
 *     converter 0 of 2, three slots     copy 0, 2, 4 | shift 0, copy 6 | shift 2, copy 8 | ...
 */
#include "codegen/templates/wgmma.h"

typedef struct Bring {
    Wgmma *w;
    const KExpr *slots; /* the converter's first */
    const KVar *slot;   /* the present one, behind that */
    PipelineState state;
    const KExpr *steps;
} Bring;

/* The copies of a step, if there is one, into the present slot: a group in any case, since groups are
 * counted. */
static void bring_copy(Bring *bring, const KExpr *step) {
    Wgmma *w = bring->w;
    Builder *b = w->b;
    const KExpr *slot = k_add(b, bring->slots, k_var(b, bring->slot));
    k_if_begin(b, k_lt(b, step, bring->steps));
    for (int i = 0; i < w->n_converts; i++)
        matmul_skew_copy(b, &w->converts[i].skew, slot, step);
    k_end(b);
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    k_set(b, bring->slot, k_add(b, k_var(b, bring->slot), k_i32(b, 1)));
    k_if_begin(b, k_eq(b, k_var(b, bring->slot), k_i32(b, CONVERT_SLOTS)));
    k_set(b, bring->slot, k_i32(b, 0));
    k_end(b);
}

static void bring_step(Bring *bring, const KExpr *step) {
    Wgmma *w = bring->w;
    Builder *b = w->b;
    const KExpr *slot = k_add(b, bring->slots, k_var(b, bring->slot));
    k_atom(b, ATOM_cp_async_wait, (int[]){CONVERT_SLOTS - 1}, NULL, 0);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    pipeline_wait_empty(b, &w->pipeline, &bring->state);
    for (int i = 0; i < w->n_converts; i++)
        matmul_skew_shift(b, &w->converts[i].skew, slot, step, k_var(b, bring->state.stage));
    matmul_convert_arrive(b, &w->pipeline, &bring->state);
    for (int i = 1; i < w->converters; i++) /* past the other converters' */
        pipeline_advance(b, &w->pipeline, &bring->state);
}

void wgmma_bring(Wgmma *w) {
    Builder *b = w->b;
    int n = w->converters;
    const KExpr *number = wgmma_converter(w);
    Bring bring = {.w = w, .steps = k_dim(b, w->steps, K_I32), .state = pipeline_start(b, &w->pipeline)};
    bring.slots = k_mul(b, number, k_i32(b, CONVERT_SLOTS));
    bring.slot = k_variable(b, "slot", K_I32, k_i32(b, 0));
    k_set(b, bring.state.stage, number);
    const KVar *first = k_variable(b, "first_step", K_I32, number);
    MatmulTile tile;
    wgmma_tiles_begin(w, NULL, 1, &tile);
    for (int i = 0, c = 0; i < w->n_operands; i++)
        if (w->operands[i].convert)
            matmul_skew_tile(b, &w->converts[c++].skew, w->operands[i].is_rows ? tile.row : tile.col,
                             tile.batch);
    const KExpr *ahead = k_for_begin(b, "ahead", k_i32(b, 0), k_i32(b, CONVERT_SLOTS), 1, UNROLL_NONE);
    bring_copy(&bring, k_add(b, k_var(b, first), k_mul(b, ahead, k_i32(b, n))));
    k_end(b);
    const KExpr *step = k_for_begin(b, "step", k_var(b, first), bring.steps, n, UNROLL_NONE);
    bring_step(&bring, step);
    bring_copy(&bring, k_add(b, step, k_i32(b, CONVERT_SLOTS * n)));
    k_end(b);
    if (n > 1 && dim_divisor(w->plan->graph->dims, w->steps) % n != 0)
        wgmma_next_first(w, first, bring.steps);
    wgmma_tiles_end(w);
}
