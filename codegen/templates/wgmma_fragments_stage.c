/* What memory has of an operand that is computed where it is multiplied (wgmma_fragments.c): its elements in
 * the stages that TMA filled, taken to registers by the word, and the numbers that repeat over its rows.
 *
 * Elements of 16 bits come as ldmatrix lays them, a fragment at a time. Weights of 4 and 8 bits come in
 * pairs, which are widened behind the leading bits of 2^23. */
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma_fragments.h"

enum { FACTOR_ALIGN = 128 /* bytes, of what TMA brings to a stage */ };

int fragments_slot(const Wgmma *w, int i, int block) {
    return (i * w->blocks + block) * FRAGMENT_WORDS;
}

/* Of 8 bits, of 16 or of 32. */
bool fragments_in_pairs(const MatmulOperand *source) {
    return dtype_bits(source->elem) == 16 || !dtype_is_float(source->elem);
}

static bool fragments_is_float(const WgmmaFragments *f) {
    return dtype_is_float(f->source->elem);
}

/* ---- factors */

/* Whether a value is one number of this type for each of K, that lies in memory as TMA reads it. */
static bool fragments_is_factor(const MatmulPlan *plan, Value *value, DType elem, View *view) {
    enum { LINE = 16 /* bytes */ };
    DimTable *dims = plan->graph->dims;
    bool is_column = value->rank >= 1 && value->dims[value->rank - 1] == plan->k && value->dtype == elem;
    for (int axis = 0; axis + 1 < value->rank; axis++)
        is_column = is_column && dim_is(value->dims[axis], 1);
    if (!is_column)
        return false;
    View found = view_of(plan->graph, value, region_is_memory, (void *)(uintptr_t)plan->region);
    if (!region_reads(plan->region, found.base) || !dim_is(found.strides[value->rank - 1], 1) ||
        dim_divisor(dims, found.offset) * dtype_bits(elem) % (8 * LINE) != 0 ||
        dim_divisor(dims, plan->k) * dtype_bits(elem) % (8 * LINE) != 0)
        return false;
    *view = found;
    return true;
}

/* Whether an operand is what the source has, as it is or times numbers of its own type for each of K, and how
 * then. The product of two such numbers, exact in f32, is rounded once either way. Elements beyond the end of
 * K would have no factors. */
FragmentsPacked fragments_packed(const MatmulPlan *plan, const Schedule *schedule,
                                 const MatmulOperand *operand, const MatmulOperand *source) {
    FragmentsPacked packed = {0};
    const Value *value = operand->value;
    DType elem = operand->elem;
    if (source->elem != elem || operand->k_axis != value->rank - 1 ||
        dim_divisor(plan->graph->dims, plan->k) % schedule->tile_k != 0)
        return packed;
    packed.is_packed = value == source->value;
    if (packed.is_packed || value->op != OP_cast || value->dtype != elem || value->in[0]->op != OP_mul)
        return packed;
    const Value *product = value->in[0];
    bool is_aligned = (int64_t)schedule->tile_k * dtype_bits(elem) % (8 * FACTOR_ALIGN) == 0;
    for (int i = 0; i < 2 && is_aligned && !packed.is_packed; i++)
        packed.is_packed = product->in[i] == source->value &&
                           fragments_is_factor(plan, product->in[1 - i], elem, &packed.factor);
    return packed;
}

/* The same of any operand: neither where it has no fragments. */
static FragmentsPacked fragments_packed_of(const MatmulPlan *plan, const Schedule *schedule,
                                           const MatmulOperand *operand) {
    MatmulOperand source;
    if (!matmul_has_fragments(plan, schedule, operand) || !matmul_convert_source(plan, operand, &source))
        return (FragmentsPacked){0};
    return fragments_packed(plan, schedule, operand, &source);
}

/* Whether an operand is integers of 4 bits, as they are or times numbers of its own type: the product of two
 * such numbers is rounded once, whether it is made of floats or of pairs of that type. */
FragmentsNibbles fragments_nibbles(const MatmulOperand *operand, const MatmulOperand *source) {
    FragmentsNibbles nibbles = {0};
    const Value *value = operand->value;
    if (dtype_bits(source->elem) != 4)
        return nibbles;
    nibbles.is_made = value_before_widening(value) == source->value;
    if (value->op == OP_cast && value->dtype == operand->elem)
        value = value->in[0];
    for (int i = 0; i < 2 && !nibbles.is_made && value->op == OP_mul && value->dtype == DTYPE_F32; i++) {
        Value *scale = value->in[1 - i];
        if (value_before_widening(value->in[i]) == source->value &&
            value_before_widening(scale)->dtype == operand->elem)
            nibbles = (FragmentsNibbles){.is_made = true, .scale = scale};
    }
    return nibbles;
}

bool matmul_fragments_are_nibbles(const MatmulPlan *plan, const Schedule *schedule) {
    const MatmulOperand *operand = matmul_side(plan, schedule, true);
    MatmulOperand source;
    return matmul_has_fragments(plan, schedule, operand) && matmul_convert_source(plan, operand, &source) &&
           fragments_nibbles(operand, &source).is_made;
}

bool matmul_fragments_are_packed(const MatmulPlan *plan, const Schedule *schedule) {
    return fragments_packed_of(plan, schedule, matmul_side(plan, schedule, true)).is_packed;
}

void fragments_add_factor(Wgmma *w, WgmmaFragments *f) {
    Builder *b = w->b;
    const View *view = &f->packed.factor;
    if (!view->base)
        return;
    const char *name = view->base->name ? view->base->name : "factor";
    DType elem = f->operand->elem;
    f->factor_tile = k_shared(b, text_format(b->arena, "%s_tile", name), elem,
                              (int64_t)w->schedule->tile_k * w->schedule->stages, FACTOR_ALIGN);
    KTensorMap map = {.buffer = k_global(b, view->base, false),
                      .elem = elem,
                      .rank = 2,
                      .dims = {w->plan->k, dim_const(w->plan->graph->dims, 1)},
                      .strides = {dim_const(w->plan->graph->dims, 1), w->plan->k},
                      .offset = view->offset,
                      .box = {w->schedule->tile_k, 1}};
    f->factor_map = k_tensor_map(b, text_format(b->arena, "%s_map", name), map);
}

int64_t wgmma_fragments_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    int64_t bytes = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        if (fragments_packed_of(plan, schedule, operand).factor.base)
            bytes += (int64_t)schedule->tile_k * dtype_bits(operand->elem) / 8;
    }
    return bytes;
}

void wgmma_fragments_load(Wgmma *w, const WgmmaOperand *o, const PipelineState *state, const KExpr *k0) {
    Builder *b = w->b;
    const WgmmaFragments *f = o->fragments;
    if (!f || !f->factor_tile)
        return;
    const KExpr *at = k_mul(b, k_var(b, state->stage), k_i32(b, w->schedule->tile_k));
    KOperand operands[] = {
        k_operand(k_smem_addr(b, f->factor_tile, at)), k_operand(k_tensor_map_addr(b, f->factor_map)),
        k_operand(pipeline_full_address(b, &w->pipeline, state)), k_operand(k0), k_operand(k_i32(b, 0))};
    k_atom(b, ATOM_tma_load_2d, NULL, operands, 5);
}

bool wgmma_fragments_are_early(Wgmma *w, const WgmmaOperand *o) {
    const WgmmaFragments *f = o->fragments;
    return !f || !f->factor_tile || !k_global(w->b, f->packed.factor.base, false)->late;
}

/* The factors of a chunk's pairs, for all rows: matrices of 8 rows that are one and the same. */
static void fragments_read_factors(Wgmma *w, const WgmmaFragments *f, const KExpr *stage, int i) {
    Builder *b = w->b;
    int n = fragments_chunk(w->schedule);
    const KExpr *first = k_mul(b, stage, k_i32(b, w->schedule->tile_k));
    const KExpr *own = k_mul(b, k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, 8)), k_i32(b, 8));
    for (int step = i; step < i + n; step += 2) {
        bool is_last = step + 1 == i + n;
        if (is_last)
            own = k_mod(b, own, k_i32(b, FRAGMENT_K));
        const KExpr *at = k_add(b, first, k_add(b, own, k_i32(b, step * FRAGMENT_K)));
        KOperand operands[] = {k_regs(f->factors, 2 * step, is_last ? 2 : 4),
                               k_operand(k_smem_addr(b, f->factor_tile, at))};
        k_atom(b, is_last ? ATOM_ldmatrix_x2 : ATOM_ldmatrix_x4, NULL, operands, 2);
    }
}

/* ---- elements */

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

/* Fragments as they lie in memory: four matrices of 8 rows by 16 bytes, rows r and r + 8 at k, then at k + 8.
 * (By loads of 4 bytes, four times as many, 8192 x 4096 x 4096 took 390 us where it takes 366.) */
static void fragments_read_matrices(Wgmma *w, WgmmaOperand *o, const KExpr *stage, int i) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    int n = fragments_chunk(w->schedule);
    f->raw = k_array(b, "raw", K_U32, n * w->blocks * FRAGMENT_WORDS, NULL);
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *row = k_add(b, f->warp_row, k_mod(b, lane, k_i32(b, 16)));
    const KExpr *col = k_mul(b, k_div(b, lane, k_i32(b, 16)), k_i32(b, 4));
    for (int step = i; step < i + n; step++)
        for (int block = 0; block < w->blocks; block++) {
            const KExpr *at = tile_index(b, &o->tile, stage, k_add(b, row, k_i32(b, block * WGMMA_M)),
                                         k_add(b, col, k_i32(b, step * 8)));
            KOperand operands[] = {k_regs(f->raw, fragments_slot(w, step % n, block), FRAGMENT_WORDS),
                                   k_operand(k_smem_addr(b, o->tile.buffer, at))};
            k_atom(b, ATOM_ldmatrix_x4, NULL, operands, 2);
        }
}

void fragments_read(Wgmma *w, WgmmaOperand *o, const KExpr *stage, int i) {
    Builder *b = w->b;
    WgmmaFragments *f = o->fragments;
    if (f->factor_tile)
        fragments_read_factors(w, f, stage, i);
    if (dtype_bits(f->source->elem) == 16) {
        fragments_read_matrices(w, o, stage, i);
        return;
    }
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

const KExpr *fragments_nibble_pair(Wgmma *w, const WgmmaFragments *f, int i, int block, const KExpr *word) {
    enum { SPREAD = 0x1001 /* the upper of a byte's two goes to bit 16 */ };
    Builder *b = w->b;
    const KExpr *byte = k_convert(b, k_elem(b, f->raw, fragments_raw_at(w, f, i, block, word)), K_U32);
    return lower_nibble_pair(b, f->source->elem, f->operand->elem, k_mul(b, byte, k_int(b, K_U32, SPREAD)));
}

void fragments_from_raw(Wgmma *w, const WgmmaFragments *f, int i, int block, const KExpr *word) {
    Builder *b = w->b;
    const KExpr *at = fragments_raw_at(w, f, i, block, word);
    KType type = f->from->type;
    bool in_pairs = fragments_in_pairs(f->source);
    const KExpr *pair = in_pairs ? k_elem(b, f->raw, at) : NULL;
    if (in_pairs && fragments_is_float(f)) {
        pair = k_convert(b, pair, K_U32);
        for (int e = 0; e < 2; e++)
            k_set_elem(b, f->from, k_i32(b, e), k_unpack(b, f->source->elem, pair, e));
        return;
    }
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
