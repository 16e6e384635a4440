/* An operand that is computed by those who multiply: weights of 4 or 8 bits with their scales, an activation
 * that is applied. TMA brings the memory that it is mostly made of beside the other operand's tile, into the
 * same stage; each thread reads the elements of its own fragments from there, computes the operand's, packs
 * them in pairs, and the products take them from registers (PTX ISA 9.7.15.5.1, A of m64k16).
 *
 *     producer  --TMA-->  stage: raw rows, columns
 *                            |          |
 *     warpgroup 0         | load, compute, pack 32 of K | products of them    | load, ...
 *     warpgroup 1                                       | load, compute, pack | products of them | load, ...
 *
 * Two chunks of K have registers of their own, so that one is computed while the products of the other run.
 * (x * g with the sum of x * x, 8192 x 4096 x 4096 on an H200: 355 us, with one chunk of 64 at a time 369,
 * the product alone 344.) Instructions that read memory count more than bytes: the four words of a fragment
 * come by one ldmatrix (by four loads: 390 us), and what repeats over the rows by TMA and ldmatrix as well.
 *
 * Nothing goes through shared memory twice, and no warpgroup waits for another. The other operand has 16 bits
 * and the raw rows fewer, so that a stage spans several times wgmma's 128 bytes of K.
 *
 * What the epilogue wants of the first operand's rows is reduced on the way, of the elements that are in
 * registers anyway: the sum of squares of a norm that is applied behind the product.
 *
 *     y = rmsnorm(x, g) @ w.T   =   ((x * g) @ w.T) * rsqrt(sum(x * x) / K + eps)
 */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma_fragments.h"

int matmul_stage_bits(const MatmulPlan *plan, const Schedule *schedule, bool is_rows) {
    MatmulOperand source;
    if (schedule->fragments && is_rows &&
        matmul_convert_source(plan, matmul_side(plan, schedule, true), &source))
        return dtype_bits(source.elem);
    return dtype_bits(plan->a.elem);
}

bool matmul_has_fragments(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand) {
    bool is_reduced = plan->operand_rows.n && operand == &plan->a;
    return schedule->fragments && (is_reduced || matmul_is_converted(plan, operand));
}

int matmul_fragment_registers(const MatmulPlan *plan, const Schedule *schedule) {
    enum { LOADS = 24 }; /* of what else the operand is computed from */
    int n = schedule->swap_ab ? plan->n_cores : 1;
    int words = fragments_chunk(schedule) * FRAGMENT_WORDS * wgmma_blocks(schedule);
    int rows = 2 * wgmma_blocks(schedule) * (int)plan->operand_rows.n;
    return n * words * (fragments_sets(schedule) + 1) + LOADS + rows;
}

bool wgmma_accepts_fragments(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                             bool is_rows, const char **why) {
    MatmulOperand source;
    *why = "the products take their rows from registers, of 16 bits, and not their columns";
    if (plan->kind != MATMUL_16BIT || !is_rows)
        return false;
    *why = "what the fragments are computed from does not lie as TMA reads it, with K contiguous";
    if (!matmul_convert_source(plan, operand, &source) || source.major != MAJOR_K)
        return false;
    *why = "fragments come from rows of 32, 64 or 128 bytes of K";
    int row = schedule->tile_k * dtype_bits(source.elem) / 8;
    if (row != 32 && row != 64 && row != 128)
        return false;
    *why = "fragments are of one tile, for all columns of a row's block, by warpgroups side by side";
    return schedule->cluster_m <= 1 && schedule->cluster_n <= 1 && !schedule->ping_pong;
}

/* The operand, and of the first one what is reduced of its rows: the targets of each run. */
static void fragments_targets(Wgmma *w, const WgmmaOperand *o, Region *space) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    int n = o->operand == &w->plan->a ? (int)w->plan->operand_rows.n : 0;
    f->n_targets = 1 + n;
    f->targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)f->n_targets);
    f->partials = ARENA_ARRAY(b->arena, PartialVars, (size_t)n + 1);
    f->targets[0] = (LowerTarget){.value = o->operand->value, .stored = true};
    for (int i = 0; i < n; i++) {
        Value *reduced = w->plan->operand_rows.at[i]->in[0];
        f->targets[1 + i] = (LowerTarget){.value = reduced};
        vec_push(b->arena, &space->outputs, reduced);
    }
}

void wgmma_fragments_new(Wgmma *w, WgmmaOperand *o, const char *name) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments = ARENA_NEW(b->arena, WgmmaFragments);
    MatmulOperand *source = ARENA_NEW(b->arena, MatmulOperand);
    matmul_convert_source(w->plan, o->operand, source);
    Region *space = matmul_operand_space(b->arena, w->plan->region, o->operand->value);
    *f = (WgmmaFragments){.operand = o->operand, .source = source};
    fragments_targets(w, o, space);
    f->packed = fragments_packed(w->plan, w->schedule, o->operand, source);
    f->nibbles = fragments_nibbles(o->operand, source);
    if (f->nibbles.scale)
        f->targets[0] = (LowerTarget){.value = f->nibbles.scale};
    fragments_add_factor(w, f);
    f->lower = lower_new(b, space);
    bool in_pairs = fragments_in_pairs(source);
    int bits = dtype_bits(source->elem);
    DType pair = bits == 4 ? DTYPE_U8 : bits == 8 ? DTYPE_I16 : DTYPE_I32;
    o->tile = tile_shared(b, name, in_pairs ? pair : source->elem, o->tile_mn,
                          w->schedule->tile_k / (in_pairs ? 2 : 1), w->schedule->stages);
}

const MatmulOperand *wgmma_fragments_source(const WgmmaFragments *fragments) {
    return fragments->source;
}

/* ---- the elements of a word */

/* Word `word` of a block in a step of 16 of K: where it is in the operand. */
static Run fragments_run(Wgmma *w, const WgmmaOperand *o, int i, int block, const KExpr *word) {
    Builder *b = w->b;
    const WgmmaFragments *f = o->fragments;
    const MatmulOperand *operand = f->operand;
    DimTable *dims = w->plan->graph->dims;
    Run run = {.rank = operand->value->rank, .axis = operand->k_axis, .width = 2};
    const KExpr *half_k = k_div(b, word, k_i32(b, 2)), *half_row = k_mod(b, word, k_i32(b, 2));
    const KExpr *row = k_add(b, f->row, k_add(b, k_mul(b, half_row, k_i32(b, 8)), k_i32(b, block * WGMMA_M)));
    const KExpr *k = k_add(b, f->k, k_add(b, k_mul(b, half_k, k_i32(b, 8)), k_i32(b, i * FRAGMENT_K)));
    row = k_add(b, f->tile->row, row);
    for (int axis = 0; axis < run.rank - 2; axis++)
        run.coords[axis] = matmul_batch_coord(b, w->plan, operand, axis, f->tile->batch);
    run.coords[operand->mn_axis] = row;
    run.coords[operand->k_axis] = k;
    if (dim_divisor(dims, operand->mn) % o->tile_mn != 0)
        run.guard = k_lt(b, row, k_dim(b, operand->mn, K_I32));
    if (dim_divisor(dims, w->plan->k) % w->schedule->tile_k != 0)
        run.guard = k_and(b, run.guard, k_lt(b, k, k_dim(b, w->plan->k, K_I32)));
    return run;
}

/* ---- a stage */

/* A word's scales, as a pair: of a stage in one place, so that those which are alike are made once. */
static void fragments_pack_scales(Wgmma *w, const WgmmaOperand *o) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    int steps = w->schedule->tile_k / FRAGMENT_K;
    f->scales = k_array(b, "scales", K_U32, fragments_slot(w, steps, 0), NULL);
    for (int i = 0; i < steps; i++)
        for (int block = 0; block < w->blocks; block++) {
            const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
            const KExpr *slot = k_add(b, word, k_i32(b, fragments_slot(w, i, block))), *pair[2];
            Run run = fragments_run(w, o, i, block, word);
            const KVar *scale = k_array(b, "scale", ktype_of(f->nibbles.scale->dtype), 2, NULL);
            f->targets[0].dst = scale;
            lower_batch_run(f->lower, &run, slot, f->targets, 1);
            for (int e = 0; e < 2; e++)
                pair[e] = k_convert(b, k_elem_at(b, scale, e), K_F32);
            k_set_elem(b, f->scales, slot, k_pack(b, f->operand->elem, pair));
            k_end(b);
        }
}

/* Where packed pairs, or nibbles, are all that the operand is, nothing is computed for it. */
static int fragments_first_target(const WgmmaFragments *f) {
    return f->packed.is_packed || (f->nibbles.is_made && !f->nibbles.scale);
}

/* What else the operand is computed from is on its way while the stage is waited for. */
static void fragments_start(Wgmma *w, WgmmaOperand *o, const MatmulTile *tile, const KExpr *warp_row,
                            const KExpr *k0) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    int steps = w->schedule->tile_k / FRAGMENT_K, first = fragments_first_target(f);
    f->tile = tile;
    f->warp_row = warp_row;
    f->row = k_add(b, warp_row, k_div(b, lane, k_i32(b, 4)));
    f->k = k_add(b, k0, k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2)));
    if (first < f->n_targets && !f->nibbles.is_made) {
        f->from = k_array(b, "from", matmul_source_type(w->plan, f->source), 2, NULL);
        lower_bind_array(f->lower, f->source->value, f->from, NULL);
    }
    Run shape = fragments_run(w, o, 0, 0, k_i32(b, 0));
    lower_batch_begin(f->lower, &shape, f->targets + first, f->n_targets - first,
                      fragments_slot(w, steps, 0));
    for (int i = 0; i < steps; i++)
        for (int block = 0; block < w->blocks; block++) {
            const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
            Run run = fragments_run(w, o, i, block, word);
            lower_batch_load(f->lower, &run, k_add(b, word, k_i32(b, fragments_slot(w, i, block))));
            k_end(b);
        }
    if (f->nibbles.scale)
        fragments_pack_scales(w, o);
}

/* What a word's elements add to the reductions of its row. */
static void fragments_add(Wgmma *w, const WgmmaFragments *f, const Run *run, int block, const KExpr *word) {
    Builder *b = w->b;
    const KExpr *row = k_add(b, k_mod(b, word, k_i32(b, 2)), k_i32(b, 2 * block));
    for (int i = 0; i + 1 < f->n_targets; i++)
        for (int e = 0; e < 2; e++)
            reduce_take(b, w->plan->operand_rows.at[i], f->partials[i], row,
                        k_elem_at(b, f->targets[1 + i].dst, e), k_i32(b, 0), run->guard);
}

/* Computes targets from `first` on of a word, and adds up what is reduced. */
static void fragments_lower(Wgmma *w, WgmmaOperand *o, const Run *run, int i, int block, const KExpr *word,
                            int first) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    fragments_from_raw(w, f, i, block, word);
    for (int x = 1; x < f->n_targets; x++)
        f->targets[x].dst = k_array(b, "reduced", ktype_of(f->targets[x].value->dtype), 2, NULL);
    lower_batch_run(f->lower, run, k_add(b, word, k_i32(b, fragments_slot(w, i, block))), f->targets + first,
                    f->n_targets - first);
    fragments_add(w, f, run, block, word);
}

/* The fragments of step i, of a block of 64 rows. */
static void fragments_compute(Wgmma *w, WgmmaOperand *o, const KVar *words, int i, int block) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    const Value *value = f->operand->value;
    const char *name = value->name ? value->name : "operand";
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
    Run run = fragments_run(w, o, i, block, word);
    const KVar *elements = k_array(b, name, ktype_of(value->dtype), 2, NULL);
    f->targets[0].dst = elements;
    fragments_lower(w, o, &run, i, block, word, 0);
    const KExpr *pair[2];
    for (int e = 0; e < 2; e++) {
        pair[e] = k_convert(b, k_elem_at(b, elements, e), K_F32);
        if (run.guard) /* what lies outside counts as zero, whatever is made of it */
            pair[e] = k_select(b, run.guard, pair[e], k_float(b, K_F32, 0));
    }
    int first = fragments_slot(w, i % fragments_chunk(w->schedule), block);
    k_set_elem(b, words, k_add(b, word, k_i32(b, first)), k_pack(b, f->operand->elem, pair));
    k_end(b);
}

/* A word of pairs times those of a factor, each rounded once. */
static const KExpr *fragments_multiplied(Builder *b, const WgmmaFragments *f, const KExpr *pairs,
                                         const KExpr *factor) {
    const KVar *product = k_variable(b, "product", K_U32, NULL);
    KOperand operands[] = {k_reg(product), k_operand(pairs), k_operand(factor)};
    k_atom(b, ATOM_mul_pairs, (int[]){f->operand->elem}, operands, 3);
    return k_var(b, product);
}

/* The factors of a word's K, as they are packed. */
static const KExpr *fragments_factor(Builder *b, const WgmmaFragments *f, int i, const KExpr *word) {
    return k_elem(b, f->factors, k_add(b, k_div(b, word, k_i32(b, 2)), k_i32(b, 2 * i)));
}

/* The fragments of step i of nibbles. */
static void fragments_widen_nibbles(Wgmma *w, WgmmaOperand *o, const KVar *words, int i, int block) {
    Builder *b = w->b;
    const WgmmaFragments *f = o->fragments;
    int first = fragments_slot(w, i % fragments_chunk(w->schedule), block);
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
    Run run = fragments_run(w, o, i, block, word);
    const KExpr *pair = fragments_nibble_pair(w, f, i, block, word);
    if (f->scales) {
        const KExpr *slot = k_add(b, word, k_i32(b, fragments_slot(w, i, block)));
        pair = fragments_multiplied(b, f, pair, k_elem(b, f->scales, slot));
    }
    if (run.guard)
        pair = k_select(b, run.guard, pair, k_int(b, K_U32, 0));
    k_set_elem(b, words, k_add(b, word, k_i32(b, first)), pair);
    k_end(b);
}

/* The fragments of step i, of a block of 64 rows, however they come to be. */
static void fragments_pack(Wgmma *w, WgmmaOperand *o, const KVar *words, int i, int block) {
    Builder *b = w->b;
    const WgmmaFragments *f = o->fragments;
    if (f->nibbles.is_made) {
        fragments_widen_nibbles(w, o, words, i, block);
        return;
    }
    if (!f->packed.is_packed) {
        fragments_compute(w, o, words, i, block);
        return;
    }
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
    const KExpr *at = k_add(b, word, k_i32(b, fragments_slot(w, i % fragments_chunk(w->schedule), block)));
    const KExpr *pairs = k_elem(b, f->raw, at);
    if (f->factor_tile)
        pairs = fragments_multiplied(b, f, pairs, fragments_factor(b, f, i, word));
    k_set_elem(b, words, at, pairs);
    k_end(b);
}

/* The reductions of a step's rows by themselves, while the products run. */
static void fragments_reduce(Wgmma *w, WgmmaOperand *o, int i, int block) {
    Builder *b = w->b;
    const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
    Run run = fragments_run(w, o, i, block, word);
    fragments_lower(w, o, &run, i, block, word, 1);
    k_end(b);
}

/* The products of step i. */
static void fragments_multiply(Wgmma *w, const KExpr *const *at, int set, int i, const KExpr *keep) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    int count = schedule->tile_n / 2;
    for (int core = 0; core < w->plan->n_cores; core++)
        for (int block = 0; block < w->blocks; block++) {
            int rows = schedule->swap_ab ? 1 + core : 0, cols = schedule->swap_ab ? 0 : 1 + core;
            const KVar *words = w->operands[rows].fragments->words[set];
            int first = fragments_slot(w, i % fragments_chunk(schedule), block);
            const KExpr *bb = k_add(b, at[cols], k_int(b, K_U64, wgmma_part(&w->operands[cols], 0, i)));
            wgmma_issue(w, core, k_regs(w->accumulator[core], block * count, count),
                        k_regs(words, first, FRAGMENT_WORDS), bb, keep);
        }
}

/* Whether words are what memory has. They are read behind the products that take the last ones: ptxas 13.0
 * gives a word and the copy of it one register, and would load it while these still read it. */
static bool fragments_is_copy(const WgmmaFragments *f) {
    return f->packed.is_packed && !f->factor_tile;
}

/* The products of a chunk, whose first step is i, of the stage at hand; they are on their way then. */
static void fragments_take(Wgmma *w, const KExpr *const *at, const KExpr *stage, const KExpr *keep, int i) {
    Builder *b = w->b;
    int n = fragments_chunk(w->schedule), sets = fragments_sets(w->schedule), set = i / n % sets;
    for (int x = 0; x < w->n_operands; x++)
        if (w->operands[x].fragments && !fragments_is_copy(w->operands[x].fragments))
            fragments_read(w, &w->operands[x], stage, i);
    /* the products that read the registers which are written next have ended */
    k_atom(b, ATOM_wgmma_wait, (int[]){sets - 1}, NULL, 0);
    for (int x = 0; x < w->n_operands; x++) {
        WgmmaOperand *o = &w->operands[x];
        if (!o->fragments)
            continue;
        if (fragments_is_copy(o->fragments))
            fragments_read(w, o, stage, i);
        for (int step = i; step < i + n; step++)
            for (int block = 0; block < w->blocks; block++)
                fragments_pack(w, o, o->fragments->words[set], step, block);
        matmul_settle(b, o->fragments->words[set]);
    }
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int step = i; step < i + n; step++)
        fragments_multiply(w, at, set, step, step ? k_int(b, K_U32, 1) : keep);
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
    for (int x = 0; x < w->n_operands; x++) {
        WgmmaOperand *o = &w->operands[x];
        bool is_reduced = o->fragments && o->fragments->packed.is_packed && o->fragments->n_targets > 1;
        for (int step = i; step < i + n && is_reduced; step++)
            for (int block = 0; block < w->blocks; block++)
                fragments_reduce(w, o, step, block);
    }
}

/* Reductions of the first operand's rows: nothing yet. */
static void fragments_rows_begin(Wgmma *w) {
    Builder *b = w->b;
    const MatmulPlan *plan = w->plan;
    for (size_t i = 0; i < plan->operand_rows.n; i++) {
        const Value *value = plan->operand_rows.at[i];
        const char *name = value->name ? value->name : op_info(value->op)->name;
        w->operands[0].fragments->partials[i] =
            reduce_declare(b, value, text_format(b->arena, "operand_%s", name), 2 * w->blocks, K_I32);
    }
}

/* All of K is in them: the four lanes of a row put together what they have. */
static void fragments_rows_end(Wgmma *w) {
    Builder *b = w->b;
    const MatmulPlan *plan = w->plan;
    w->operand_rows.n = 0;
    for (size_t i = 0; i < plan->operand_rows.n; i++) {
        PartialVars partial = w->operands[0].fragments->partials[i];
        const KExpr *row = k_for_begin(b, "row", k_i32(b, 0), k_i32(b, 2 * w->blocks), 1, UNROLL_FULL);
        reduce_lanes(b, plan->operand_rows.at[i], partial, row, 4);
        k_end(b);
        vec_push(b->arena, &w->operand_rows, ((MatmulRow){plan->operand_rows.at[i], partial.x}));
    }
}

void wgmma_fragments_product(Wgmma *w, const MatmulTile *tile, const KExpr *warp_row, const KExpr *first,
                             const KExpr *steps, const PipelineState *state, const KVar *previous,
                             bool is_cleared) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    int n = fragments_chunk(schedule), sets = fragments_sets(schedule), all = schedule->tile_k / FRAGMENT_K;
    const KExpr *at[1 + MATMUL_CORES] = {NULL};
    for (int x = 0; x < w->n_operands; x++)
        for (int set = 0; set < sets && w->operands[x].fragments; set++)
            w->operands[x].fragments->words[set] =
                k_array(b, "fragments", K_U32, n * w->blocks * FRAGMENT_WORDS, NULL);
    for (int x = 0; x < w->n_operands; x++)
        if (w->operands[x].fragments && w->operands[x].fragments->factor_tile)
            w->operands[x].fragments->factors = k_array(b, "factors", K_U32, 2 * all, NULL);
    fragments_rows_begin(w);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    const KExpr *k0 = wgmma_k0(w, first, step);
    for (int x = 0; x < w->n_operands; x++)
        if (w->operands[x].fragments)
            fragments_start(w, &w->operands[x], tile, warp_row, k0);
    pipeline_wait_full(b, &w->pipeline, state);
    const KExpr *stage = k_var(b, state->stage);
    const KExpr *keep = is_cleared ? k_int(b, K_U32, 1) : k_convert(b, step, K_U32);
    wgmma_stage_at(w, stage, at);
    for (int i = 0; i < all; i += n) {
        fragments_take(w, at, stage, keep, i);
        if (i / n == sets - 1) { /* the products of the stage before had ended */
            k_if_begin(b, k_ge(b, step, k_i32(b, 1)));
            pipeline_release(b, &w->pipeline, k_var(b, previous), &w->peers);
            k_end(b);
        }
    }
    for (int x = w->n_operands - 1; x >= 0; x--)
        if (w->operands[x].fragments) {
            lower_batch_end(w->operands[x].fragments->lower);
            lower_unbind(w->operands[x].fragments->lower, w->operands[x].fragments->source->value);
        }
    k_set(b, previous, stage);
    pipeline_advance(b, &w->pipeline, state);
    k_end(b);
    wgmma_tile_end(w, steps, previous, is_cleared);
    fragments_rows_end(w);
}
