/* Second operands with gaps (ir/gaps.h), which matrix instructions multiply like any other: 0 times what is
 * infinite or no number is none, so a result that is none is computed once more, by a loop over K that leaves
 * the gaps out. That hardly ever happens; what it costs otherwise is a comparison an element. */
#include "codegen/templates/matmul_epilogue.h"
#include "ir/gaps.h"

static const KExpr *gaps_is_none(Builder *b, const KExpr *x) {
    return k_not(b, k_eq(b, x, x));
}

/* Loops over the fragment's elements, whose number in the accumulator arrays it returns. */
static const KExpr *gaps_elements_begin(Epilogue *e, KUnroll unroll, EpilogueSlot *slot) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    const KExpr *zero = k_i32(b, 0);
    *slot = (EpilogueSlot){.block = k_for_begin(b, "block", zero, k_i32(b, f->blocks), 1, unroll),
                           .group = k_for_begin(b, "g", zero, k_i32(b, f->groups), 1, unroll),
                           .half = k_for_begin(b, "h", zero, k_i32(b, f->halves), 1, unroll),
                           .piece = k_for_begin(b, "p", zero, k_i32(b, f->width), 1, unroll)};
    return epilogue_at(e, slot);
}

static void gaps_elements_end(Epilogue *e) {
    enum { LOOPS = 4 };
    for (int i = 0; i < LOOPS; i++)
        k_end(e->b);
}

/* Computes the element `at` of the accumulators anew, if it is no number: registers have no index that is
 * known late, so that all are gone through to find it. */
static void gaps_compute(Epilogue *e, int core, EpilogueSlot *slot, const KExpr *at) {
    Builder *b = e->b;
    const Value *product = e->plan->core[core];
    const KVar *accumulator = e->fragment->accumulator[core];
    const KExpr *count = k_i32(b, accumulator->count);
    const KVar *own = k_variable(b, "own", accumulator->type, k_convert(b, k_i32(b, 0), accumulator->type));
    const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), count, 1, UNROLL_FULL);
    k_set(b, own, k_select(b, k_eq(b, i, at), k_elem(b, accumulator, i), k_var(b, own)));
    k_end(b);
    epilogue_at_run(e, slot);
    for (int c = 0; c < e->plan->n_cores; c++)
        lower_unbind(e->lower, e->plan->core[c]);
    k_if_begin(b, k_and(b, slot->run.guard, gaps_is_none(b, k_var(b, own))));
    k_set(b, own, k_convert(b, lower_at(e->lower, product, slot->run.coords, NULL), accumulator->type));
    k_end(b);
    i = k_for_begin(b, "i", k_i32(b, 0), count, 1, UNROLL_FULL);
    k_set_elem(b, accumulator, i, k_select(b, k_eq(b, i, at), k_var(b, own), k_elem(b, accumulator, i)));
    k_end(b);
}

bool matmul_has_gaps(const MatmulPlan *plan) {
    const Region *region = plan->region;
    for (size_t i = 0; i < region->cores.n; i++)
        if (gaps_in(region->cores.at[i]->in[1]))
            return true;
    return false;
}

void matmul_leave_gaps(Epilogue *e) {
    Builder *b = e->b;
    EpilogueSlot slot;
    int run = e->run;
    if (!matmul_has_gaps(e->plan))
        return;
    e->run = 1; /* pieces are elements */
    for (int c = 0; c < e->plan->n_cores; c++) {
        const KVar *accumulator = e->fragment->accumulator[c];
        const KVar *any = k_variable(b, "has_none", K_BOOL, k_convert(b, k_i32(b, 0), K_BOOL));
        const KExpr *at = gaps_elements_begin(e, UNROLL_FULL, &slot);
        k_set(b, any, k_scalar(b, OP_or, k_var(b, any), gaps_is_none(b, k_elem(b, accumulator, at)), NULL));
        gaps_elements_end(e);
        k_if_begin(b, k_var(b, any));
        k_comment(b, "what is no number, without the zeros between groups");
        at = gaps_elements_begin(e, UNROLL_NONE, &slot);
        gaps_compute(e, c, &slot, k_let_expr(b, "at", at));
        gaps_elements_end(e);
        k_end(b);
    }
    e->run = run;
}
