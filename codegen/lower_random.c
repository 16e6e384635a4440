/* Random numbers: Philox-4x32-10 (Salmon et al., SC 2011) counted by the element's row-major number;
 * ir/reference.h defines them. One counter gives four words, hence four elements: an aligned run computes
 * each counter once, for its four, or for the two that it has of them. */
#include "codegen/lower_internal.h"

enum { PHILOX_ROUNDS = 10, PHILOX_WORDS = LOWER_WORDS };

static const KExpr *random_u32(Builder *b, uint32_t value) {
    return k_int(b, K_U32, value);
}

/* The four words that belong to a 64-bit counter. */
static void random_philox(Builder *b, const KExpr *seed, const KExpr *counter,
                          const KVar *word[PHILOX_WORDS]) {
    const KExpr *key = k_let_expr(b, "key", k_convert(b, seed, K_U64));
    counter = k_let_expr(b, "counter", k_convert(b, counter, K_U64));
    const KExpr *zero = random_u32(b, 0);
    word[0] = k_variable(b, "word0", K_U32, k_convert(b, counter, K_U32));
    word[1] = k_variable(b, "word1", K_U32, k_convert(b, k_shr(b, counter, 32), K_U32));
    word[2] = k_variable(b, "word2", K_U32, zero);
    word[3] = k_variable(b, "word3", K_U32, zero);
    const KVar *key0 = k_variable(b, "key0", K_U32, k_convert(b, key, K_U32));
    const KVar *key1 = k_variable(b, "key1", K_U32, k_convert(b, k_shr(b, key, 32), K_U32));
    k_for_begin(b, "round", k_i32(b, 0), k_i32(b, PHILOX_ROUNDS), 1, UNROLL_FULL);
    const KExpr *m0 = random_u32(b, 0xD2511F53u), *m1 = random_u32(b, 0xCD9E8D57u);
    const KExpr *w0 = k_var(b, word[0]), *w2 = k_var(b, word[2]);
    const KExpr *low0 = k_let_expr(b, "low0", k_mul(b, w0, m0)),
                *low1 = k_let_expr(b, "low1", k_mul(b, w2, m1));
    const KExpr *high0 = k_let_expr(b, "high0", k_mul_hi(b, w0, m0));
    const KExpr *high1 = k_let_expr(b, "high1", k_mul_hi(b, w2, m1));
    k_set(b, word[0], k_xor(b, k_xor(b, high1, k_var(b, word[1])), k_var(b, key0)));
    k_set(b, word[1], low1);
    k_set(b, word[2], k_xor(b, k_xor(b, high0, k_var(b, word[3])), k_var(b, key1)));
    k_set(b, word[3], low0);
    k_set(b, key0, k_add(b, k_var(b, key0), random_u32(b, 0x9E3779B9u)));
    k_set(b, key1, k_add(b, k_var(b, key1), random_u32(b, 0xBB67AE85u)));
    k_end(b);
}

/* The upper 24 bits of a word plus `plus`, times 2^-24: exact in f32. */
static const KExpr *random_unit(Builder *b, const KExpr *word, int plus) {
    const KExpr *bits = k_add(b, k_shr(b, word, 8), random_u32(b, (uint32_t)plus));
    return k_mul(b, k_convert(b, bits, K_F32), k_float(b, K_F32, 1.0 / 16777216.0));
}

/* Box and Muller: radius and angle of the pair of normal numbers that words 2p and 2p + 1 give. */
static void random_polar(Builder *b, const KExpr *first, const KExpr *second, const KExpr **radius,
                         const KExpr **angle) {
    const KExpr *log = k_scalar(b, OP_log, random_unit(b, first, 1), NULL, NULL);
    *radius = k_let_expr(b, "radius", k_scalar(b, OP_sqrt, k_mul(b, log, k_float(b, K_F32, -2)), NULL, NULL));
    *angle =
        k_let_expr(b, "angle", k_mul(b, random_unit(b, second, 0), k_float(b, K_F32, 6.283185307179586)));
}

static const KExpr *random_counter(Lower *lower, const Value *value, const KExpr *number) {
    Builder *b = lower->b;
    const KExpr *group = k_convert(b, k_div(b, number, k_int(b, lower->index, PHILOX_WORDS)), K_I64);
    return k_add(b, group, k_int(b, K_I64, value->attrs[1].i));
}

void lower_random_four(Lower *lower, const Value *value, const KExpr *const *coords,
                       const KVar *word[LOWER_WORDS]) {
    Builder *b = lower->b;
    const KExpr *number = k_int(b, lower->index, 0);
    for (int i = 0; i < value->rank; i++)
        number = k_add(b, k_mul(b, number, k_dim(b, value->dims[i], lower->index)),
                       k_convert(b, coords[i], lower->index));
    random_philox(b, lower_at(lower, value->in[0], coords, NULL), random_counter(lower, value, number), word);
}

const KExpr *lower_random_number(Builder *b, const KExpr *word) {
    return random_unit(b, word, 0);
}

/* Whether the second pair of its counter's words is an element's. */
static const KExpr *random_is_upper(Lower *lower, const KExpr *number) {
    Builder *b = lower->b;
    const KExpr *place = k_mod(b, number, k_int(b, lower->index, PHILOX_WORDS));
    return k_let_expr(b, "is_upper", k_ge(b, place, k_int(b, lower->index, 2)));
}

const KExpr *lower_random(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    Builder *b = lower->b;
    const KExpr *seed = lower_eval(lower, value->in[0], NULL, guard);
    const KExpr *number = lane_concrete(lower, lane_linear(lower, value->rank, coords, value->dims)).at;
    number = k_let_expr(b, "number", number);
    const KVar *word[PHILOX_WORDS];
    random_philox(b, seed, random_counter(lower, value, number), word);
    const KExpr *is_odd = k_let_expr(
        b, "is_odd", k_eq(b, k_mod(b, number, k_int(b, lower->index, 2)), k_int(b, lower->index, 1)));
    const KExpr *is_upper = random_is_upper(lower, number);
    const KExpr *even = k_select(b, is_upper, k_var(b, word[2]), k_var(b, word[0]));
    const KExpr *odd = k_select(b, is_upper, k_var(b, word[3]), k_var(b, word[1]));
    if (value->op == OP_uniform)
        return random_unit(b, k_select(b, is_odd, odd, even), 0);
    const KExpr *radius, *angle;
    random_polar(b, even, odd, &radius, &angle);
    const KExpr *turn =
        k_select(b, is_odd, k_scalar(b, OP_sin, angle, NULL, NULL), k_scalar(b, OP_cos, angle, NULL, NULL));
    return k_mul(b, radius, turn);
}

/* Elements of a run that share a counter's words: four where a run begins with a counter, else two, which
 * are a pair of normal numbers. */
static int random_share(Lower *lower, const LaneCoord *number) {
    int width = lower->shape->width;
    bool is_whole = width % PHILOX_WORDS == 0 && number->align % PHILOX_WORDS == 0;
    return is_whole ? PHILOX_WORDS : 2;
}

bool lower_random_is_wide(Lower *lower, const Value *value, const LaneCoord *coords) {
    LaneCoord number = lane_linear(lower, value->rank, coords, value->dims);
    return lower->shape->width % 2 == 0 && lane_is_run(number) && number.align % 2 == 0 &&
           !lower_expr_varies(lower, number.at);
}

/* Elements `at` and the next of a run, from a pair of words. */
static void random_fill_pair(Builder *b, const Value *value, const KVar *array, const KExpr *at,
                             const KExpr *even, const KExpr *odd) {
    const KExpr *next = k_add(b, at, k_i32(b, 1)), *radius, *angle;
    if (value->op == OP_uniform) {
        k_set_elem(b, array, at, random_unit(b, even, 0));
        k_set_elem(b, array, next, random_unit(b, odd, 0));
        return;
    }
    random_polar(b, even, odd, &radius, &angle);
    k_set_elem(b, array, at, k_mul(b, radius, k_scalar(b, OP_cos, angle, NULL, NULL)));
    k_set_elem(b, array, next, k_mul(b, radius, k_scalar(b, OP_sin, angle, NULL, NULL)));
}

void lower_random_fill(Lower *lower, LowerEntry *entry) {
    Builder *b = lower->b;
    const Value *value = entry->key.value;
    const KExpr *seed = lower_eval(lower, value->in[0], NULL, entry->key.guard);
    LaneCoord linear = lane_linear(lower, value->rank, entry->key.coords, value->dims);
    const KExpr *number = k_let_expr(b, "number", lower_concrete(lower, linear.at));
    int share = random_share(lower, &linear);
    const KExpr *group =
        k_for_begin(b, "group", k_i32(b, 0), k_i32(b, lower->shape->width / share), 1, UNROLL_FULL);
    const KExpr *first = k_mul(b, group, k_i32(b, share));
    const KExpr *own = k_add(b, number, k_convert(b, first, lower->index));
    const KVar *word[PHILOX_WORDS];
    random_philox(b, seed, random_counter(lower, value, own), word);
    if (share == PHILOX_WORDS) {
        for (int pair = 0; pair < PHILOX_WORDS; pair += 2)
            random_fill_pair(b, value, entry->array, k_add(b, first, k_i32(b, pair)), k_var(b, word[pair]),
                             k_var(b, word[pair + 1]));
    } else {
        const KExpr *is_upper = random_is_upper(lower, own);
        random_fill_pair(b, value, entry->array, first,
                         k_select(b, is_upper, k_var(b, word[2]), k_var(b, word[0])),
                         k_select(b, is_upper, k_var(b, word[3]), k_var(b, word[1])));
    }
    k_end(b);
}
