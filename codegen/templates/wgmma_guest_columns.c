/* A guest that reduces columns of something else, while the product is computed (region.h).
 *
 * The gradients of a linear layer are a product of dy and the sums of its columns, which need nothing of each
 * other. The product is bound by tensor cores and leaves most of memory's rate; a kernel of its own for the
 * sums would have to wait for all multiprocessors. Here three warps of the producer's warpgroup, which only
 * shared registers until now, take strips of columns in turn:
 *
 *     warp 0         | loads of tile 0 | of tile 1 | of tile 2 |
 *     warps 1-3      | strip w | strip w + 3 * blocks | ...      |
 *     consumers      | tile 0          | tile 1    | tile 2    |
 *
 * Nobody waits for anybody, so that any grid will do, and strips are alike, so that they are dealt out and
 * not drawn. */
#include "codegen/template.h"
#include "codegen/templates/columns.h"
#include "codegen/templates/wgmma.h"

enum { IDLE_WARPS = 3 };

static Schedule guest_columns_schedule(const MatmulPlan *plan, const Schedule *schedule) {
    int registers = schedule->consumer_registers ? schedule->producer_registers : GUEST_AT_LAUNCH;
    return columns_warp_schedule(plan->graph, matmul_columns_guest(plan), registers, schedule->ease);
}

bool wgmma_accepts_columns(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    const Region *guest = matmul_columns_guest(plan);
    *why = "warps take strips of columns whose results are all that is stored";
    if (!columns_warp_takes(plan->graph, guest))
        return false;
    if (!wgmma_has_idle_warps(plan, schedule, why))
        return false;
    Schedule strips = guest_columns_schedule(plan, schedule);
    return template_columns.accepts(plan->graph, guest, &strips, plan->target, why);
}

void wgmma_guest_columns(Wgmma *w) {
    Builder *b = w->b;
    const Region *guest = matmul_columns_guest(w->plan);
    if (!guest)
        return;
    k_comment(b, "columns of %s, by warps that do not load", k_global(b, guest->outputs.at[0], true)->name);
    Schedule *schedule = ARENA_NEW(b->arena, Schedule);
    *schedule = guest_columns_schedule(w->plan, w->schedule);
    const KExpr *idle = k_i32(b, IDLE_WARPS), *warp = k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 1));
    const KExpr *first = k_add(b, k_mul(b, k_special(b, SPECIAL_CTA_X), idle), warp);
    const KExpr *step = k_mul(b, k_special(b, SPECIAL_GRID_X), idle);
    const Dim *strips = columns_warp_strips(w->plan->graph, guest, schedule);
    k_if_begin(b, k_ge(b, warp, k_i32(b, 0)));
    const KExpr *strip = k_for_step_begin(b, "strip", first, k_dim(b, strips, K_I32), step);
    columns_build_warp(b, guest, schedule, strip, k_special(b, SPECIAL_LANE));
    k_end(b);
    k_end(b);
}
