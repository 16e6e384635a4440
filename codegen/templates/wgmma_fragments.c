/* An operand that is computed by those who multiply: weights of 4 or 8 bits with their scales, an activation
 * that is applied. TMA brings the memory that it is mostly made of beside the other operand's tile, into the
 * same stage; each thread reads the elements of its own fragments from there, computes the operand's, packs
 * them in pairs, and the products take them from registers (PTX ISA 9.7.15.5.1, A of m64k16).
 *
 *     producer  --TMA-->  stage: raw rows, columns
 *                            |          |
 *     warpgroup 0         | load, compute, pack 64 of K | products of them    | load, ...
 *     warpgroup 1                                       | load, compute, pack | products of them | load, ...
 *
 * The matrix unit takes registers as it comes to them, so products of one warpgroup hardly run ahead of what
 * it computes: another warpgroup's, or another block's, fill the time. (Fragments of 16 of K at a time, with
 * three products on their way, took 494 us where these take 413.)
 *
 * Nothing goes through shared memory twice, and no warpgroup waits for another. The other operand has 16 bits
 * and the raw rows fewer, so that a stage spans several times wgmma's 128 bytes of K. */
#include "codegen/templates/wgmma.h"

enum {
    FRAGMENTS_CHUNK = 4, /* steps of 16 of K that are computed, then multiplied, together */
    FRAGMENT_WORDS = 4,  /* of a block of 64 rows: two neighbours along K each, of rows r, r + 8 at k, and at
                            k + 8 */
    FRAGMENT_K = 16
};

struct WgmmaFragments {
    const MatmulOperand *operand; /* what is computed */
    const MatmulOperand *source;  /* what it is mostly made of */
    Lower *lower;
    LowerTarget target;
    const KVar *raw;      /* the source's elements as the stage has them */
    const KVar *from;     /* those of a word */
    const KVar *words[2]; /* by step of a chunk and block of 64 rows; of chunks in turn */
    /* of the stage at hand */
    const KExpr *row, *k; /* of the thread's first word */
    const MatmulTile *tile;
};

static const MatmulOperand *fragments_operand(const MatmulPlan *plan, const Schedule *schedule, int core) {
    return schedule->swap_ab ? &plan->b[core] : &plan->a;
}

static int fragments_chunk(const Schedule *schedule) {
    int steps = schedule->tile_k / FRAGMENT_K;
    return steps < FRAGMENTS_CHUNK ? steps : FRAGMENTS_CHUNK;
}

/* Chunks whose fragments are in registers: one is computed while the products of the other run, where a stage
 * has several, so that it is known as the kernel is written which is which. */
static int fragments_sets(const Schedule *schedule) {
    return schedule->tile_k / FRAGMENT_K > FRAGMENTS_CHUNK ? 2 : 1;
}

int matmul_stage_bits(const MatmulPlan *plan, const Schedule *schedule, bool is_rows) {
    MatmulOperand source;
    if (schedule->fragments && is_rows &&
        matmul_convert_source(plan, fragments_operand(plan, schedule, 0), &source))
        return dtype_bits(source.elem);
    return dtype_bits(plan->a.elem);
}

int matmul_fragment_registers(const MatmulPlan *plan, const Schedule *schedule) {
    enum { LOADS = 24 }; /* of what else the operand is computed from */
    int n = schedule->swap_ab ? plan->n_cores : 1;
    int words = fragments_chunk(schedule) * FRAGMENT_WORDS * wgmma_blocks(schedule);
    return n * words * (fragments_sets(schedule) + 1) + LOADS;
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

/* Integers of a word, two neighbours along K, are read as one number: of 16 bits, or of 8. */
static bool fragments_in_pairs(const MatmulOperand *source) {
    return !dtype_is_float(source->elem) && dtype_bits(source->elem) <= 8;
}

void wgmma_fragments_new(Wgmma *w, WgmmaOperand *o, const char *name) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments = ARENA_NEW(b->arena, WgmmaFragments);
    MatmulOperand *source = ARENA_NEW(b->arena, MatmulOperand);
    matmul_convert_source(w->plan, o->operand, source);
    *f = (WgmmaFragments){
        .operand = o->operand,
        .source = source,
        .lower = lower_new(b, matmul_operand_space(b->arena, w->plan->region, o->operand->value))};
    bool in_pairs = fragments_in_pairs(source);
    DType pair = dtype_bits(source->elem) == 4 ? DTYPE_U8 : DTYPE_I16;
    o->tile = tile_shared(b, name, in_pairs ? pair : source->elem, o->tile_mn,
                          w->schedule->tile_k / (in_pairs ? 2 : 1), w->schedule->stages);
}

const MatmulOperand *wgmma_fragments_source(const WgmmaFragments *fragments) {
    return fragments->source;
}

/* ---- the elements of a word */

/* Number of a block's first word, in a step of 16 of K. */
static int fragments_slot(const Wgmma *w, int i, int block) {
    return (i * w->blocks + block) * FRAGMENT_WORDS;
}

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

/* Registers of f->raw that a word takes. */
static int fragments_raw_width(const WgmmaFragments *f) {
    return fragments_in_pairs(f->source) ? 1 : 2;
}

/* Where f->raw has a word of a chunk. */
static const KExpr *fragments_raw_at(Wgmma *w, const WgmmaFragments *f, int i, int block, const KExpr *word) {
    Builder *b = w->b;
    int first = fragments_slot(w, i % fragments_chunk(w->schedule), block);
    return k_mul(b, k_add(b, word, k_i32(b, first)), k_i32(b, fragments_raw_width(f)));
}

/* The source's elements of a chunk, whose first step is i: all before the first is used. */
static void fragments_read(Wgmma *w, WgmmaOperand *o, const KExpr *stage, int i) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    int n = fragments_chunk(w->schedule), width = fragments_raw_width(f);
    f->raw = k_array(b, "raw", ktype_of(o->tile.elem), width * n * w->blocks * FRAGMENT_WORDS, NULL);
    const KExpr *lane_col = k_mul(b, k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, 4)), k_i32(b, width));
    for (int step = i; step < i + n; step++)
        for (int block = 0; block < w->blocks; block++) {
            const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
            const KExpr *half_k = k_div(b, word, k_i32(b, 2)), *half_row = k_mod(b, word, k_i32(b, 2));
            const KExpr *row = k_add(b, f->row, k_i32(b, block * WGMMA_M));
            row = k_add(b, row, k_mul(b, half_row, k_i32(b, 8)));
            const KExpr *col = k_add(b, lane_col, k_mul(b, half_k, k_i32(b, 4 * width)));
            col = k_add(b, col, k_i32(b, step * 8 * width));
            k_load(b, f->raw, fragments_raw_at(w, f, step, block, word), o->tile.buffer,
                   tile_index(b, &o->tile, stage, row, col), width, NULL, CACHE_DEFAULT);
            k_end(b);
        }
}

static bool fragments_is_signed(const WgmmaFragments *f) {
    return f->source->elem == DTYPE_I8 || f->source->elem == DTYPE_I4;
}

/* Element e of a pair, the lower bits first, counted from the least that its type has: i8 from -128. */
static const KExpr *fragments_counted(Wgmma *w, const WgmmaFragments *f, const KExpr *pair, int e) {
    Builder *b = w->b;
    int bits = dtype_bits(f->source->elem);
    const KExpr *element =
        k_bit_and(b, e ? k_shr(b, pair, bits) : pair, k_int(b, pair->type, (1 << bits) - 1));
    return fragments_is_signed(f) ? k_xor(b, element, k_int(b, pair->type, 1 << (bits - 1))) : element;
}

/* A pair to f32 behind the leading bits of 2^23, as the converting warpgroups do it (matmul_prologue.c). */
static void fragments_widen(Wgmma *w, const WgmmaFragments *f, const KExpr *pair) {
    enum { LEADING = 0x4B000000, AROUND = 0x7540 };
    Builder *b = w->b;
    int bits = dtype_bits(f->source->elem);
    double zero = 8388608 + (fragments_is_signed(f) ? 1 << (bits - 1) : 0);
    pair = k_convert(b, pair, K_U32);
    if (bits == 8 && fragments_is_signed(f))
        pair = k_let_expr(b, "shifted", k_xor(b, pair, k_int(b, K_U32, 0x8080)));
    for (int e = 0; e < 2; e++) {
        const KExpr *number;
        if (bits == 8) {
            const KVar *permuted = k_variable(b, "bits", K_U32, NULL);
            KOperand operands[] = {k_reg(permuted), k_operand(pair), k_operand(k_int(b, K_U32, LEADING)),
                                   k_operand(k_int(b, K_U32, AROUND | e))};
            k_atom(b, ATOM_byte_permute, NULL, operands, 4);
            number = k_var(b, permuted);
        } else {
            int sign = fragments_is_signed(f) ? 1 << (bits - 1) : 0;
            const KExpr *element =
                k_bit_and(b, e ? k_shr(b, pair, bits) : pair, k_int(b, K_U32, (1 << bits) - 1));
            number = k_xor(b, element, k_int(b, K_U32, LEADING | sign));
        }
        k_set_elem(b, f->from, k_i32(b, e), k_sub(b, k_bitcast(b, number, K_F32), k_float(b, K_F32, zero)));
    }
}

/* The source's elements of a word, of the type that the operand is computed from. */
static void fragments_from_raw(Wgmma *w, const WgmmaFragments *f, int i, int block, const KExpr *word) {
    Builder *b = w->b;
    const KExpr *at = fragments_raw_at(w, f, i, block, word);
    KType type = f->from->type;
    bool in_pairs = fragments_in_pairs(f->source);
    const KExpr *pair = in_pairs ? k_elem(b, f->raw, at) : NULL;
    if (in_pairs && type == K_F32) {
        fragments_widen(w, f, pair);
        return;
    }
    int64_t zero = fragments_is_signed(f) ? (int64_t)1 << (dtype_bits(f->source->elem) - 1) : 0;
    for (int e = 0; e < 2; e++) {
        const KExpr *element = in_pairs ? k_sub(b, fragments_counted(w, f, pair, e), k_i32(b, zero))
                                        : k_elem(b, f->raw, k_add(b, at, k_i32(b, e)));
        k_set_elem(b, f->from, k_i32(b, e), k_convert(b, element, type));
    }
}

/* ---- a stage */

/* The type in which the source's elements are given to what computes the operand: integers as f32, which
 * holds them, where they are used as floats alone. */
static KType fragments_type(const Wgmma *w, const WgmmaFragments *f) {
    const Value *value = f->source->value;
    KType type = ktype_of(value->dtype);
    for (size_t i = 0; i < w->plan->region->values.n && fragments_in_pairs(f->source); i++) {
        const Value *user = w->plan->region->values.at[i];
        for (int k = 0; k < user->n_in; k++)
            if (user->in[k] == value && (!dtype_is_float(user->dtype) || !op_is_scalar(user->op)))
                return type;
    }
    return fragments_in_pairs(f->source) ? K_F32 : type;
}

/* What else the operand is computed from is on its way while the stage is waited for. */
static void fragments_start(Wgmma *w, WgmmaOperand *o, const MatmulTile *tile, const KExpr *warp_row,
                            const KExpr *k0) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    int steps = w->schedule->tile_k / FRAGMENT_K;
    f->tile = tile;
    f->row = k_add(b, warp_row, k_div(b, lane, k_i32(b, 4)));
    f->k = k_add(b, k0, k_mul(b, k_mod(b, lane, k_i32(b, 4)), k_i32(b, 2)));
    f->target = (LowerTarget){.value = f->operand->value, .stored = true};
    f->from = k_array(b, "from", fragments_type(w, f), 2, NULL);
    lower_bind_array(f->lower, f->source->value, f->from, NULL);
    Run shape = fragments_run(w, o, 0, 0, k_i32(b, 0));
    lower_batch_begin(f->lower, &shape, &f->target, 1, fragments_slot(w, steps, 0));
    for (int i = 0; i < steps; i++)
        for (int block = 0; block < w->blocks; block++) {
            const KExpr *word = k_for_begin(b, "word", k_i32(b, 0), k_i32(b, FRAGMENT_WORDS), 1, UNROLL_FULL);
            Run run = fragments_run(w, o, i, block, word);
            lower_batch_load(f->lower, &run, k_add(b, word, k_i32(b, fragments_slot(w, i, block))));
            k_end(b);
        }
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
    fragments_from_raw(w, f, i, block, word);
    f->target.dst = elements;
    lower_batch_run(f->lower, &run, k_add(b, word, k_i32(b, fragments_slot(w, i, block))), &f->target, 1);
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

/* The products of a chunk, whose first step is i, of the stage at hand; they are on their way then. */
static void fragments_take(Wgmma *w, const KExpr *const *at, const KExpr *stage, const KExpr *keep, int i) {
    Builder *b = w->b;
    int n = fragments_chunk(w->schedule), sets = fragments_sets(w->schedule), set = i / n % sets;
    for (int x = 0; x < w->n_operands; x++)
        if (w->operands[x].fragments)
            fragments_read(w, &w->operands[x], stage, i);
    /* the products that read the registers which are written next have ended */
    k_atom(b, ATOM_wgmma_wait, (int[]){sets - 1}, NULL, 0);
    for (int x = 0; x < w->n_operands; x++) {
        WgmmaOperand *o = &w->operands[x];
        if (!o->fragments)
            continue;
        for (int step = i; step < i + n; step++)
            for (int block = 0; block < w->blocks; block++)
                fragments_compute(w, o, o->fragments->words[set], step, block);
        matmul_settle(b, o->fragments->words[set]);
    }
    k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
    for (int step = i; step < i + n; step++)
        fragments_multiply(w, at, set, step, step ? k_int(b, K_U32, 1) : keep);
    k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
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
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    const KExpr *k0 = k_mul(b, k_add(b, first, step), k_i32(b, schedule->tile_k));
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
}
