/* What lanes make of an operand's memory on its way to mma.sync: numbers of 16 bits, in pairs.
 *
 * Nibbles become bf16 two at a time: behind the leading bits of 128 four bits of a fraction are a number of
 * ones, and the subtraction of 128, exact, leaves the nibble (with f16 it is 1024). Those of a word that lie
 * 16 bits apart are a pair, so a pair's elements are four apart, and the other operand's are brought into the
 * same order.
 *
 *     word                   h g f e d c b a       nibbles of elements a, b, ..
 *     word >> 4 & 000f000f   . . . f . . . b       | 43004300: 128 + f, 128 + b
 *
 * Bytes become floats (lower_words.c), and these pairs.
 *
 * Where neighbours in memory are columns, words of two neighbours along K are first interleaved, so that what
 * becomes a pair is one column's:
 *
 *     words                  h g f e d c b a, H G F E D C B A      of K and of K + 1, nibbles of columns a ..
 *     their lower halves     D C B A d c b a                       then as above: a pair is A, a */
#include "codegen/templates/matmul_skinny.h"

#include "codegen/lower.h"
#include "codegen/templates/matmul_scale.h"

enum { WORD_BITS = 32, HALF = 16, NIBBLE = 4 };

/* Below what the products do not feel, as far as the kernel computes it: transposes, and casts to floats of
 * 16 bits or more, whose rounding is left out.
 */
static Value *source_below(const MatmulPlan *plan, Value *value, int rank, int *axis) {
    enum { LEAST_BITS = 16 };
    while (!region_reads(plan->region, value)) {
        bool is_rounded =
            value->op == OP_cast && dtype_is_float(value->dtype) && dtype_bits(value->dtype) >= LEAST_BITS;
        if (value->op != OP_transpose && !is_rounded)
            break;
        for (int i = 0; i < rank && value->op == OP_transpose; i++)
            axis[i] = value->attrs[0].ints[axis[i]];
        value = value->in[0];
    }
    return value;
}

/* The operand of a product, or a difference, that is not the factor, or the zero; NULL: it is neither. */
static Value *source_beside(const MatmulPlan *plan, const Value *value, int rank, const int *axis, OpKind op,
                            MatmulScale *other) {
    if (value->op != op || !dtype_is_float(value->dtype) || region_reads(plan->region, value))
        return NULL;
    for (int i = 0; i < (op == OP_mul ? 2 : 1); i++) {
        Value *data = value->in[i], *factor = value->in[1 - i];
        int own[RANK_MAX];
        memcpy(own, axis, sizeof own);
        if (!value_same_dims(data, value) || !value_same_dims(factor, value))
            continue;
        factor = source_below(plan, factor, rank, own);
        if (matmul_find_factor(plan->graph, plan->region, factor, rank, own, other) &&
            ktype_bits(ktype_of(other->base->dtype)) == WORD_BITS)
            return data;
    }
    return NULL;
}

/* Whether numbers of 16 bits have every element. */
static bool source_fits(DType dtype, DType elem) {
    return dtype == elem ||
           (dtype_bits(dtype) <= 8 && dtype_class(dtype) != DTYPE_LOGICAL && dtype_widens(dtype, elem));
}

static SkinnySource source_find(const MatmulPlan *plan, const MatmulOperand *operand) {
    SkinnySource source = {0};
    int rank = operand->value->rank, axis[RANK_MAX] = {0};
    for (int i = 0; i < rank; i++)
        axis[i] = i;
    Value *value = source_below(plan, (Value *)(uintptr_t)operand->value, rank, axis);
    Value *data = source_beside(plan, value, rank, axis, OP_mul, &source.factor);
    source.has_factor = data != NULL;
    if (data)
        value = source_below(plan, data, rank, axis);
    data = source_beside(plan, value, rank, axis, OP_sub, &source.zero);
    source.has_zero = data != NULL;
    if (data)
        value = source_below(plan, data, rank, axis);
    View view = view_of(plan->graph, value, region_is_memory, (void *)(uintptr_t)plan->region);
    if (!region_reads(plan->region, view.base) || !source_fits(view.base->dtype, operand->elem))
        return source;
    source.view = view;
    for (int i = 0; i < rank; i++)
        source.view.strides[i] = view.strides[axis[i]];
    source.dtype = view.base->dtype;
    source.is_across = dim_is(source.view.strides[operand->mn_axis], 1);
    source.is_direct = source.is_across || dim_is(source.view.strides[operand->k_axis], 1);
    return source;
}

const SkinnySource *skinny_source(const MatmulPlan *plan, const MatmulOperand *operand) {
    MatmulRuns *runs = operand->runs;
    if (!runs->source) {
        SkinnySource *source = ARENA_NEW(plan->graph->arena, SkinnySource);
        *source = source_find(plan, operand);
        runs->source = source;
    }
    return runs->source;
}

int skinny_source_words(const SkinnySource *source, int width) {
    return width * dtype_bits(source->dtype) / WORD_BITS;
}

int skinny_per_word(const SkinnySource *source) {
    return WORD_BITS / dtype_bits(source->dtype);
}

bool skinny_is_nibbles(const SkinnySource *source) {
    return source->is_direct && !source->is_across && dtype_bits(source->dtype) == NIBBLE;
}

int skinny_pair_element(bool is_nibbles, int p, int e) {
    enum { PAIRS = WORD_BITS / NIBBLE / 2 /* of a word */ };
    return is_nibbles ? p / PAIRS * 2 * PAIRS + p % PAIRS + PAIRS * e : 2 * p + e;
}

static const KExpr *source_word(Builder *b, const KVar *raw, const KExpr *at, int i) {
    return k_elem(b, raw, k_add(b, at, k_i32(b, i)));
}

/* The four pairs of a word of nibbles. */
static void source_widen_nibbles(Builder *b, DType dtype, DType elem, const KExpr *word,
                                 const KExpr **pairs) {
    word = k_let_expr(b, "word", word);
    for (int i = 0; i < HALF / NIBBLE; i++)
        pairs[i] = lower_nibble_pair(b, dtype, elem, k_shr(b, word, NIBBLE * i));
}

/* The two pairs of a word of bytes. */
static void source_widen_bytes(Builder *b, DType dtype, DType elem, const KExpr *word, const KExpr **pairs) {
    enum { BYTE = 8 };
    if (!dtype_is_float(dtype))
        word = k_let_expr(b, "word", lower_word_counted(b, dtype, word));
    for (int p = 0; p < 2; p++) {
        const KExpr *half = p ? k_shr(b, word, HALF) : word, *pair[2];
        if (p && !dtype_is_float(dtype))
            half = k_let_expr(b, "upper", half);
        for (int e = 0; e < 2; e++)
            pair[e] = dtype_is_float(dtype) ? k_unpack(b, dtype, word, 2 * p + e)
                                            : lower_word_element(b, dtype, half, BYTE * e);
        pairs[p] = k_pack(b, elem, pair);
    }
}

/* The pairs of a word. */
static void source_widen_word(Builder *b, DType dtype, DType elem, const KExpr *word, const KExpr **pairs) {
    if (dtype_bits(dtype) == NIBBLE)
        source_widen_nibbles(b, dtype, elem, word, pairs);
    else if (dtype_bits(dtype) < HALF)
        source_widen_bytes(b, dtype, elem, word, pairs);
    else
        pairs[0] = word;
}

void skinny_widen(Builder *b, const SkinnySource *source, DType elem, const KVar *raw, const KExpr *at,
                  int width, const KExpr **pairs) {
    int words = skinny_source_words(source, width), per_word = skinny_per_word(source) / 2;
    for (int i = 0; i < words; i++)
        source_widen_word(b, source->dtype, elem, source_word(b, raw, at, i), pairs + i * per_word);
}

static const KExpr *source_permuted(Builder *b, const KExpr *x, const KExpr *y, int selector) {
    const KVar *word = k_variable(b, "turned", K_U32, NULL);
    KOperand operands[] = {k_reg(word), k_operand(x), k_operand(y), k_operand(k_int(b, K_U32, selector))};
    k_atom(b, ATOM_byte_permute, NULL, operands, 4);
    return k_var(b, word);
}

void skinny_widen_across(Builder *b, const SkinnySource *source, DType elem, const KExpr *word,
                         const KExpr *next, const KExpr **pairs) {
    static const int halves[] = {0x5410, 0x7632}, bytes[] = {0x5140, 0x7362};
    const int *selectors = dtype_bits(source->dtype) == HALF / 2 ? bytes : halves;
    for (int half = 0; half < 2; half++)
        source_widen_word(b, source->dtype, elem, source_permuted(b, word, next, selectors[half]),
                          pairs + half * skinny_per_word(source) / 2);
}

void skinny_reorder(Builder *b, const KVar *raw, const KExpr *at, int width, const KExpr **pairs) {
    enum { LOWER = 0x5410, UPPER = 0x7632, PAIRS = 4 };
    for (int p = 0; p < width / 2; p++) {
        int first = p / PAIRS * PAIRS + p % PAIRS / 2; /* word of the pair's first element */
        pairs[p] = source_permuted(b, source_word(b, raw, at, first),
                                   source_word(b, raw, at, first + PAIRS / 2), p % 2 ? UPPER : LOWER);
    }
}
