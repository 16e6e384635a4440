/* Products that are added up: the steps of K of one behind those of another, in the same ring of stages and
 * the same accumulators.
 *
 *     producer    | t, b     | x, w     | x, w     | x, w     | ...   two tiles for each step
 *     consumers   | products | acc *= 2 | products | products | ...   acc = 2 * (t @ b.T) + x @ w.T
 *
 * All tiles of an operand's side are of one size, so a stage serves any of the products. TMA fills with zeros
 * what the last step of each has beyond its K. Blocks that share a tile's K have a part of each product's.
 * Where nothing is computed in between, the first products of one follow the last ones of the other without a
 * wait. */
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

/* Whether the tile of an operand lies in the place of another's, contiguous along the other axis: both in
 * whole lines of a swizzle. */
static bool sum_tiles_agree(const Schedule *schedule, const MatmulOperand *a, const MatmulOperand *b,
                            bool is_rows) {
    enum { LINE = 128 };
    int bits = dtype_bits(a->elem), tile_mn = is_rows ? schedule->tile_m : schedule->tile_n;
    return a->major == b->major ||
           (schedule->tile_k * bits / 8 % LINE == 0 && tile_mn * bits / 8 % LINE == 0);
}

static bool sum_accepts_term(const MatmulPlan *plan, const MatmulPlan *term, const Schedule *schedule,
                             const char **why) {
    bool is_rows = !schedule->swap_ab;
    *why = "products are added up of operands that TMA brings as wgmma takes them";
    if (matmul_is_converted(term, &term->a) || matmul_is_converted(term, &term->b[0]))
        return false;
    if (!wgmma_accepts_operand(term, schedule, &term->a, is_rows, why) ||
        !wgmma_accepts_operand(term, schedule, &term->b[0], !is_rows, why))
        return false;
    *why = "tiles of operands that are contiguous along different axes have whole lines of 128 bytes";
    return sum_tiles_agree(schedule, &plan->a, &term->a, is_rows) &&
           sum_tiles_agree(schedule, &plan->b[0], &term->b[0], !is_rows) &&
           wgmma_accepts_shared(term, schedule, why);
}

bool wgmma_accepts_terms(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "products are added up in one level";
    if (matmul_partial_cols(plan, schedule))
        return false;
    *why = "products are added up of operands that TMA brings as wgmma takes them";
    if (schedule->fragments || matmul_converters(plan, schedule))
        return false;
    for (const MatmulPlan *term = plan->before; term; term = term->before) {
        if (!sum_accepts_term(plan, term, schedule, why))
            return false;
        *why = "blocks that share K hold parts of each product, of which only multiples add up";
        if (matmul_split(schedule) > 1 && !term->is_multiple)
            return false;
    }
    return true;
}

/* The operand in the place of that of the last product, on the same side. */
static WgmmaOperand sum_operand(Wgmma *w, const MatmulPlan *plan, const MatmulOperand *operand,
                                const WgmmaOperand *like) {
    WgmmaOperand o = {.operand = operand, .is_rows = like->is_rows, .tile_mn = like->tile_mn};
    Wgmma own = *w;
    own.plan = plan;
    o.tile = wgmma_tile(w, &o, NULL, w->schedule->stages, &like->tile);
    MatmulTma tma = wgmma_tma(&own, &o);
    o.maps = matmul_tma_maps(w->b, w->plan->graph->dims, &tma);
    o.is_early = wgmma_is_early(w->b, operand);
    return o;
}

static void sum_add_term(Wgmma *w, const MatmulPlan *plan) {
    if (plan->before)
        sum_add_term(w, plan->before);
    WgmmaTerm *term = &w->terms[w->n_terms++];
    term->plan = plan;
    term->steps = matmul_k_steps(plan, w->schedule);
    term->operands[0] = sum_operand(w, plan, &plan->a, &w->operands[0]);
    term->operands[1] = sum_operand(w, plan, &plan->b[0], &w->operands[1]);
    if (plan->is_changed)
        term->lower = lower_new(w->b, plan->region);
}

void wgmma_add_terms(Wgmma *w) {
    if (w->plan->before)
        sum_add_term(w, w->plan->before);
}

void wgmma_terms_descriptors(Wgmma *w, const KExpr *group) {
    for (int i = 0; i < w->n_terms; i++)
        for (int k = 0; k < 2; k++) {
            WgmmaOperand *o = &w->terms[i].operands[k];
            const WgmmaOperand *like = &w->operands[k];
            bool is_alike = o->operand->major == like->operand->major;
            if (!matmul_is_turned(w->plan, o->operand))
                o->descriptor = is_alike ? like->descriptor : wgmma_operand_descriptor(w, o, group);
        }
}

Wgmma wgmma_term(const Wgmma *w, int number) {
    Wgmma term = *w;
    if (number == w->n_terms)
        return term;
    term.plan = w->terms[number].plan;
    term.steps = w->terms[number].steps;
    term.guest = (WgmmaGuest){0}; /* stores are waited for within the last product */
    memcpy(term.operands, w->terms[number].operands, sizeof w->terms[number].operands);
    return term;
}

const KExpr *wgmma_terms_steps(const Wgmma *w) {
    const KExpr *steps = k_i32(w->b, 0);
    for (int i = 0; i < w->n_terms; i++)
        steps = k_add(w->b, steps, k_dim(w->b, w->terms[i].steps, K_I32));
    return steps;
}

bool wgmma_has_steps(const Wgmma *w) {
    int64_t least = (int64_t)(w->split - 1) * w->schedule->tile_k + 1; /* that leaves each block a step */
    return dim_lower(w->plan->graph->dims, w->plan->k) >= least;
}

bool wgmma_all_have_steps(const Wgmma *w) {
    for (int i = 0; i <= w->n_terms; i++) {
        Wgmma term = wgmma_term(w, i);
        if (!wgmma_has_steps(&term))
            return false;
    }
    return true;
}

bool wgmma_terms_product(Wgmma *w, const MatmulFragment *fragment, const MatmulTile *tile,
                         const PipelineState *state, const KVar *previous, bool is_cleared) {
    Builder *b = w->b;
    bool goes_on = false;
    if (w->n_terms && is_cleared)
        matmul_settle(b, w->accumulator[0]); /* cleared before the first fence, not behind it */
    for (int i = 0; i < w->n_terms; i++) {
        Wgmma term = wgmma_term(w, i);
        const KExpr *first, *steps = wgmma_steps(&term, &first);
        wgmma_product_steps(&term, steps, state, previous, is_cleared || i, goes_on);
        goes_on = !w->terms[i].lower && !is_cleared;
        if (goes_on)
            continue;
        wgmma_tile_end(&term, steps, previous, !wgmma_has_steps(&term));
        if (w->terms[i].lower)
            matmul_epilogue_hold(b, term.plan, w->terms[i].lower, fragment, tile->batch, NULL,
                                 term.plan->region->outputs.at[0]);
        matmul_settle(b, w->accumulator[0]); /* before the fence of the products that are added */
    }
    return goes_on;
}
