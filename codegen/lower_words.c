/* Integers of 4 and 8 bits that are wanted as floats: loads keep them as memory has them, in words of 32
 * bits, and each run widens its own just before it computes. Conversions of integers to floats go at an
 * eighth of the speed of multiply-adds, so none is used: behind the leading bits of 2^23, in the lowest bits
 * of a float's fraction, a bit pattern is a number of ones.
 *
 *     word                    . . . . d d d d c c c c b b b b a a a a       elements of 4 bits
 *     (word & mask) | 2^23    0 1 0 0 1 0 1 1 0 . . 0 b b b b 0 0 0 0       2^23 + 16 * b
 *     times 1/16, less 2^19   b
 *
 * Both steps are exact. Signed elements count from the least of their type, once their first bits are turned;
 * half a word at a time lies low enough in the fraction. */
#include "codegen/lower_internal.h"
#include "ir/op.h"

enum { WORD_BITS = 32, FRACTION_BITS = 23 };

/* Whether all that the region makes of an integer is arithmetic of floats. */
static bool words_become_floats(const Lower *lower, const Value *value) {
    bool is_used = false;
    for (size_t i = 0; i < lower->region->values.n; i++) {
        const Value *user = lower->region->values.at[i];
        for (int k = 0; k < user->n_in; k++) {
            if (user->in[k] != value)
                continue;
            bool moves = lower_is_plain_movement(user->op);
            bool is_float = dtype_is_float(user->dtype) && (op_is_scalar(user->op) || user->op == OP_cast);
            if (moves ? !words_become_floats(lower, user) : !is_float)
                return false;
            is_used = true;
        }
    }
    return is_used;
}

int lower_word_elements(const Lower *lower, const LowerEntry *entry) {
    const Value *value = entry->key.value;
    int bits = dtype_bits(value->dtype);
    bool is_small = dtype_class(value->dtype) == DTYPE_SIGNED || dtype_class(value->dtype) == DTYPE_UNSIGNED;
    if (entry->kind != ENTRY_VECTOR || entry->share > 1 || !is_small || bits > 8 ||
        entry->chunk * bits % WORD_BITS != 0 || !words_become_floats(lower, value))
        return 0;
    return WORD_BITS / bits;
}

const KExpr *lower_word_counted(Builder *b, DType dtype, const KExpr *word) {
    int bits = dtype_bits(dtype);
    int64_t signs = 0;
    for (int low = 0; low < WORD_BITS; low += bits)
        signs |= (int64_t)1 << (low + bits - 1);
    return dtype_class(dtype) == DTYPE_SIGNED ? k_xor(b, word, k_int(b, K_U32, signs)) : word;
}

const KExpr *lower_word_element(Builder *b, DType dtype, const KExpr *word, int low) {
    enum { LEADING = (FRACTION_BITS + 127) << FRACTION_BITS };
    int bits = dtype_bits(dtype);
    int64_t mask = (((int64_t)1 << bits) - 1) << low;
    int64_t least = dtype_class(dtype) == DTYPE_SIGNED ? (int64_t)1 << (bits - 1) : 0;
    const KVar *pattern = k_variable(b, "bits", K_U32, NULL);
    KOperand operands[] = {k_reg(pattern), k_operand(word), k_operand(k_int(b, K_U32, mask)),
                           k_operand(k_int(b, K_U32, LEADING))};
    k_atom(b, ATOM_and_or, NULL, operands, 4);
    const KExpr *number = k_bitcast(b, k_var(b, pattern), K_F32);
    double scale = 1.0 / (double)((int64_t)1 << low);
    double zero = (double)((int64_t)1 << FRACTION_BITS) * scale + (double)least;
    if (low == 0)
        return k_sub(b, number, k_float(b, K_F32, zero));
    return k_scalar(b, OP_fma, number, k_float(b, K_F32, scale), k_float(b, K_F32, -zero));
}

void lower_word_widen(Builder *b, DType dtype, const KExpr *word, const KVar *to, int first) {
    enum { HALF = WORD_BITS / 2 };
    int bits = dtype_bits(dtype), n = WORD_BITS / bits;
    word = k_let_expr(b, "word", lower_word_counted(b, dtype, word));
    const KExpr *upper = k_let_expr(b, "upper", k_shr(b, word, HALF));
    for (int e = 0; e < n; e++)
        k_set_elem(b, to, k_i32(b, first + e),
                   lower_word_element(b, dtype, e < n / 2 ? word : upper, e % (n / 2) * bits));
}

static const KExpr *words_twice(Builder *b, DType elem, double x) {
    const KExpr *pair[] = {k_float(b, K_F32, x), k_float(b, K_F32, x)};
    return k_pack(b, elem, pair);
}

const KExpr *lower_nibble_pair(Builder *b, DType dtype, DType elem, const KExpr *word) {
    enum { MASK = 0x000f000f, SIGN = 8 };
    double leading = elem == DTYPE_BF16 ? 128 : 1024, zero = leading;
    if (dtype_class(dtype) == DTYPE_SIGNED)
        zero += SIGN; /* its bit, flipped, counts from the least */
    const KVar *bits = k_variable(b, "bits", K_U32, NULL), *pair = k_variable(b, "pair", K_U32, NULL);
    KOperand masked[] = {k_reg(bits), k_operand(word), k_operand(k_int(b, K_U32, MASK)),
                         k_operand(words_twice(b, elem, zero))};
    k_atom(b, ATOM_and_xor, NULL, masked, 4);
    KOperand reduced[] = {k_reg(pair), k_operand(k_var(b, bits)), k_operand(words_twice(b, elem, 1)),
                          k_operand(words_twice(b, elem, -zero))};
    k_atom(b, ATOM_fma_pairs, (int[]){elem}, reduced, 4);
    return k_var(b, pair);
}

void lower_words_widen(Lower *lower, const LowerEntry *entry) {
    Builder *b = lower->b;
    const LowerEntry *words = entry->words;
    DType dtype = entry->key.value->dtype;
    int width = lower->shape->width, n = words->per_word;
    const KExpr *first = k_mul(b, lower_entry_slot(lower, words), k_i32(b, width / n));
    for (int i = 0; i < width; i += n) {
        const KExpr *word = words->array->count ? k_elem(b, words->array, k_add(b, first, k_i32(b, i / n)))
                                                : k_var(b, words->array);
        lower_word_widen(b, dtype, word, entry->array, i);
    }
}
