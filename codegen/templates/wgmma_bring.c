/* The warps that bring operands whose rows begin anywhere in memory (matmul_skew.c): in each step of K each
 * moves what has come of this step into a stage, and starts the copies of a step ahead. Of lines of K, which
 * end with what begins the next step's, those have one slot more:
 *
 *     of columns        copy 0, 1, 2 | shift 0, copy 3 | shift 1, copy 4 | ...
 *     of K       copy 0, 1, 2, 3     | shift 0, copy 4 | shift 1, copy 5 | ...
 */
#include "codegen/templates/wgmma.h"

typedef struct Bring {
    Wgmma *w;
    const KVar *slot[1 + MATMUL_CORES]; /* of each operand: the present step's */
    PipelineState state;
    const KExpr *steps;
} Bring;

/* The copies of the step that takes the slot of step `at`, where there is one: a group in any case, since
 * groups are counted. */
static void bring_copy(Bring *bring, const KExpr *at, bool is_first) {
    Wgmma *w = bring->w;
    Builder *b = w->b;
    for (int i = 0; i < w->n_converts; i++) {
        const MatmulSkew *skew = &w->converts[i].skew;
        const KExpr *step = k_add(b, at, k_i32(b, matmul_skew_slots(skew->operand)));
        const KExpr *slot = is_first ? step : k_var(b, bring->slot[i]);
        if (is_first) {
            const KExpr *is_there = k_ge(b, step, k_i32(b, 0));
            if (dim_lower(w->plan->graph->dims, w->steps) < 1) /* a tile of no steps waits for no copies */
                is_there = k_and(b, is_there, k_lt(b, k_i32(b, 0), bring->steps));
            k_if_begin(b, is_there);
        }
        matmul_skew_copy(b, skew, slot, step, bring->steps);
        if (is_first)
            k_end(b);
    }
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
}

static void bring_advance(Bring *bring) {
    Builder *b = bring->w->b;
    for (int i = 0; i < bring->w->n_converts; i++) {
        const KExpr *next = k_add(b, k_var(b, bring->slot[i]), k_i32(b, 1)),
                    *slots = k_i32(b, matmul_skew_slots(bring->w->converts[i].skew.operand));
        k_set(b, bring->slot[i], k_select(b, k_eq(b, next, slots), k_i32(b, 0), next));
    }
}

static void bring_step(Bring *bring, const KExpr *step) {
    enum { ON_THEIR_WAY = 2 /* groups behind the last that the step needs */ };
    Wgmma *w = bring->w;
    Builder *b = w->b;
    k_atom(b, ATOM_cp_async_wait, (int[]){ON_THEIR_WAY}, NULL, 0);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    pipeline_wait_empty(b, &w->pipeline, &bring->state);
    for (int i = 0; i < w->n_converts; i++)
        matmul_skew_shift(b, &w->converts[i].skew, k_var(b, bring->slot[i]), step,
                          k_var(b, bring->state.stage));
    matmul_convert_arrive(b, &w->pipeline, &bring->state);
}

void wgmma_bring(Wgmma *w) {
    Builder *b = w->b;
    Bring bring = {.w = w, .steps = k_dim(b, w->steps, K_I32), .state = pipeline_start(b, &w->pipeline)};
    MatmulTile tile;
    wgmma_tiles_begin(w, NULL, 1, &tile);
    int most = 0;
    for (int i = 0, c = 0; i < w->n_operands; i++)
        if (w->operands[i].convert) {
            MatmulSkew *skew = &w->converts[c].skew;
            matmul_skew_tile(b, skew, w->operands[i].is_rows ? tile.row : tile.col, tile.batch);
            bring.slot[c++] = k_variable(b, "slot", K_I32, k_i32(b, 0));
            int slots = matmul_skew_slots(skew->operand);
            most = slots > most ? slots : most;
        }
    bring_copy(&bring, k_for_begin(b, "ahead", k_i32(b, -most), k_i32(b, 0), 1, UNROLL_NONE), true);
    k_end(b);
    const KExpr *step = k_for_begin(b, "step", k_i32(b, 0), bring.steps, 1, UNROLL_NONE);
    bring_step(&bring, step);
    bring_copy(&bring, step, false);
    bring_advance(&bring);
    k_end(b);
    wgmma_tiles_end(w);
}
