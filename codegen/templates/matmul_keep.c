/* Inputs of the epilogue that stay in registers from the pass over the columns that first wants them to the
 * last.
 *
 *     dp = d @ v.T     ds = p * (dp - sum(dp * p))
 *
 * The sum is a pass over the tile's columns, ds another, and both want p. Where one value serves all passes
 * from the second on, the accumulators hold that (rows_cut); here both dp and p are wanted to the end. Where
 * loads have no guard, the assembler sees that the second is the first again. With one it does not, and of
 * the compilers before it only LLVM takes assembly for a function of its operands, so that it is said here.
 */
#include "codegen/templates/matmul_epilogue.h"

enum {
    KEEP_INPUTS = 2,
    KEEP_AROUND = 40, /* registers for everything but accumulators and kept elements */
};

/* Whether computing `value` reads the input's elements; what passes find ready ends the search. */
static bool keep_reads(const MatmulPlan *plan, const Value *value, const Value *input, ValueMap *seen) {
    if (value == input)
        return true;
    if (value_map_get(seen, value) || region_reads(plan->region, value))
        return false;
    value_map_set(seen, value, true);
    for (size_t i = 0; i < plan->statistics.n; i++)
        if (plan->statistics.at[i] == value)
            return false;
    for (int i = 0; i < plan->n_cores; i++)
        if (plan->core[i] == value)
            return false;
    for (int i = 0; i < value->n_in; i++)
        if (keep_reads(plan, value->in[i], input, seen))
            return true;
    return false;
}

/* Whether several passes read it, statistics' or the outputs'. */
static bool keep_is_wanted(Epilogue *e, const Value *input) {
    const MatmulPlan *plan = e->plan;
    int passes = 0;
    for (size_t i = 0; i < plan->statistics.n; i++) {
        ValueMap seen = {.arena = e->b->arena};
        passes += keep_reads(plan, matmul_reduced(plan->statistics.at[i]), input, &seen);
    }
    ValueMap seen = {.arena = e->b->arena};
    bool is_stored = false;
    for (size_t i = 0; i < plan->region->outputs.n; i++)
        is_stored = is_stored || keep_reads(plan, plan->region->outputs.at[i], input, &seen);
    return passes + is_stored > 1;
}

void matmul_keep_begin(Epilogue *e) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    const MatmulFragment *f = e->fragment;
    const Region *region = plan->region;
    if (!plan->statistics.n || region->column_block || matmul_rows_first_held(b, plan))
        return;
    int elements = f->accumulator[0]->count, n = 0;
    int room = region->schedule.consumer_registers - KEEP_AROUND - elements * plan->n_cores;
    LowerTarget targets[KEEP_INPUTS];
    for (size_t i = 0; i < region->inputs.n && n < KEEP_INPUTS && room >= elements * (n + 1); i++) {
        const Value *input = region->inputs.at[i];
        if (value_same_dims(input, plan->core[0]) && ktype_bits(ktype_of(input->dtype)) <= 32 &&
            keep_is_wanted(e, input))
            targets[n++] = (LowerTarget){.value = input};
    }
    if (n == 0)
        return;
    EpilogueSlot slot = {
        .block = k_i32(b, 0), .group = k_i32(b, 0), .half = k_i32(b, 0), .piece = k_i32(b, 0)};
    int pieces = f->width / e->run;
    epilogue_at_run(e, &slot);
    lower_outer_begin(e->lower, &slot.run, targets, n, f->blocks * f->groups * f->halves * pieces);
    e->is_kept = true;
    slot.block = epilogue_loop(b, "block", f->blocks);
    slot.group = epilogue_loop(b, "g", f->groups);
    slot.half = epilogue_loop(b, "h", f->halves);
    slot.piece = epilogue_loop(b, "p", pieces);
    epilogue_at_run(e, &slot);
    lower_batch_load(e->lower, &slot.run, epilogue_number(e, &slot));
    epilogue_loop_end(b, pieces);
    epilogue_loop_end(b, f->halves);
    epilogue_loop_end(b, f->groups);
    epilogue_loop_end(b, f->blocks);
}

void matmul_keep_end(Epilogue *e) {
    if (e->is_kept)
        lower_batch_end(e->lower);
    e->is_kept = false;
}
