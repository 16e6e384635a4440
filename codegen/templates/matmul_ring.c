/* The loop over K of the paths without TMA: steps into a ring of shared tiles, by all threads of the block,
 * some of them ahead of the products.
 *
 *     stage    0      1      2      3       (4 stages)
 *     step k   used   here   coming load k + 3
 *
 * One barrier a step: behind it everybody's copies into stage k are visible, and everybody has left the stage
 * that is loaded next. Where an operand is computed on the way, nothing is loaded behind the last step;
 * copies of nothing are quicker than to ask. */
#include "codegen/templates/matmul_ring.h"

#include "codegen/templates/matmul_partials.h"

MatmulRing matmul_ring(Builder *b, const MatmulPlan *plan, const Schedule *schedule, int threads) {
    MatmulRing ring = {.plan = plan, .schedule = schedule, .split = 1};
    ring.a = matmul_loader(b, plan, &plan->a, "a_tile", schedule->tile_m, schedule->tile_k, schedule->stages,
                           threads, schedule->path);
    for (int i = 0; i < plan->n_cores; i++)
        ring.b[i] = matmul_loader(
            b, plan, &plan->b[i], plan->n_cores == 1 ? "b_tile" : text_format(b->arena, "b_tile_%d", i),
            schedule->tile_n, schedule->tile_k, schedule->stages, threads, schedule->path);
    return ring;
}

static bool ring_is_computed(const MatmulRing *ring) {
    bool is_computed = !ring->a.is_copy;
    for (int i = 0; i < ring->plan->n_cores; i++)
        is_computed |= !ring->b[i].is_copy;
    return is_computed;
}

/* Loads a step where `valid` (NULL: it is); what is computed is stored behind the products of stage `used`.
 */
static void ring_load(Builder *b, MatmulRing *ring, const MatmulTile *tile, const KExpr *step,
                      const KExpr *valid, const MatmulMultiply *multiply, const KExpr *used) {
    const KExpr *stage = k_let_expr(b, "fill", k_mod(b, step, k_i32(b, ring->schedule->stages)));
    const KExpr *k0 = k_let_expr(b, "k", k_mul(b, step, k_i32(b, ring->schedule->tile_k)));
    matmul_load_start(b, &ring->a, stage, tile->row, k0, tile->batch, valid);
    for (int i = 0; i < ring->plan->n_cores; i++)
        matmul_load_start(b, &ring->b[i], stage, tile->col, k0, tile->batch, valid);
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    if (used)
        multiply->stage(multiply->path, used);
    matmul_load_finish(b, &ring->a);
    for (int i = 0; i < ring->plan->n_cores; i++)
        matmul_load_finish(b, &ring->b[i]);
}

/* A group of copies is counted for each step, whether there is one or not: they are waited for by number. */
static void ring_step(Builder *b, MatmulRing *ring, const MatmulTile *tile, const KExpr *step,
                      const KExpr *end, const MatmulMultiply *multiply, const KExpr *used) {
    const KExpr *valid = k_lt(b, step, end);
    if (!ring_is_computed(ring)) {
        ring_load(b, ring, tile, step, valid, multiply, used);
        return;
    }
    k_if_begin(b, valid);
    ring_load(b, ring, tile, step, NULL, multiply, used);
    k_else(b);
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    if (used)
        multiply->stage(multiply->path, used);
    k_end(b);
}

void matmul_ring_product(Builder *b, MatmulRing *ring, const MatmulTile *tile,
                         const MatmulMultiply *multiply) {
    DimTable *dims = ring->plan->graph->dims;
    int stages = ring->schedule->stages, ahead = stages - 1;
    const Dim *n_steps = dim_ceil_div(dims, ring->plan->k, dim_const(dims, ring->schedule->tile_k));
    const KExpr *begin, *end;
    matmul_partials_steps(b, n_steps, ring->split, &begin, &end);
    const KExpr *first = k_for_begin(b, "first", begin, k_add(b, begin, k_i32(b, ahead)), 1, UNROLL_NONE);
    ring_step(b, ring, tile, first, end, multiply, NULL);
    k_end(b);
    const KExpr *step = k_for_begin(b, "k_step", begin, end, 1, UNROLL_NONE);
    k_atom(b, ATOM_cp_async_wait, (int[]){ahead - 1}, NULL, 0);
    k_barrier(b);
    const KExpr *next = k_let_expr(b, "next", k_add(b, step, k_i32(b, ahead)));
    ring_step(b, ring, tile, next, end, multiply, k_let_expr(b, "stage", k_mod(b, step, k_i32(b, stages))));
    k_end(b);
    k_atom(b, ATOM_cp_async_wait, (int[]){0}, NULL, 0); /* copies of zeros may still be under way */
}
