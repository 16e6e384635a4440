/* Operands of tf32 that lie along M or N. Matrix instructions take such elements along K, but their first
 * operand from registers as well, where its order in memory does not matter
 * (codegen/templates/wgmma_turned.c). So one operand of a product may stay as it is:
 *
 *     y = x @ w        w: tf32[K, N]               one kernel: the product is computed transposed, w first
 *     y = x.T @ w.T    x: tf32[K, M]               one kernel
 *     y = x.T @ w      x: tf32[K, M]               the smaller one is copied
 *
 * The transposed product has the result's columns in its rows, and kernels reduce rows of a result that lie
 * as they are: the second operand of a product that is reduced is copied.
 *
 * Nor is anything copied where mma.sync takes less, whose fragments are loaded by elements from tiles in
 * either order (codegen/templates/matmul_mma_elements.c). It multiplies at half of wgmma's rate, which does
 * not matter where memory sets the pace, as of many small products. Targets without wgmma have nothing
 * faster. */
#include <math.h>

#include "passes/fuse.h"
#include "passes/realign.h"

/* Operations a second, and seconds for each of K where tiles are few; and how much of the time of memory, or
 * of the products if they take less, adds to the other, also where K is short: by mma.sync with elements as
 * they lie, by wgmma. (H200, in one kernel and with a copy: 192 of 160 x 320 along 160 52 us and 43, 1024 x
 * 4096 along 64 15.1 and 11.4; 192 of 384 x 384 along 256 110 and 114, 512 of 512 x 128 along 197 115 and
 * 167.) */
typedef struct WordsPath {
    double operations, step, beside, beside_short;
} WordsPath;
static const WordsPath words_lying = {165e12, 5e-9, 0.5, 1}, words_fast = {330e12, 2e-9, 0.3, 0.3};
static const double words_memory = 4e12; /* bytes a second */
/* The first of these where mma.sync brings rows that begin anywhere four bytes at a time, or has whole rows
 * of a result that is reduced. */
static const double words_slow = 110e12, words_slow_step = 6e-9;

enum {
    WORDS_LINE = 128,  /* bits that rows in memory are multiples of */
    WORDS_SHORT = 160, /* of K: a ring that holds most of it has little to go on with */
    WORDS_RANK = 4     /* dims that TMA has */
};

static bool words_are_reduced(const Rewrite *rewrite, const Value *product) {
    const bool *reduced = rewrite->pass->state;
    return product->id >= rewrite->n_before || reduced[product->id];
}

/* Whether the product's kernel can take an operand that is turned as it lies. */
static bool words_are_taken(const Rewrite *rewrite, const Value *product, int which) {
    Value *operand = product->in[which], *base = realign_base(operand);
    return rewrite->pass->options->limits->turns_words && operand->dtype == DTYPE_TF32 &&
           realign_is_turned(operand, which) && operand->rank <= WORDS_RANK &&
           base->dims[base->rank - 1]->value * dtype_bits(DTYPE_TF32) % WORDS_LINE == 0 &&
           !(which == 1 && words_are_reduced(rewrite, product));
}

int realign_taken(const Rewrite *rewrite, const Value *product) {
    bool first = words_are_taken(rewrite, product, 0), second = words_are_taken(rewrite, product, 1);
    if (first && second)
        return realign_count(product->in[0]) >= realign_count(product->in[1]) ? 0 : 1;
    return first ? 0 : second ? 1 : -1;
}

static double words_seconds(const WordsPath *path, const Value *product) {
    const Value *a = product->in[0], *b = product->in[1];
    double k = (double)a->dims[a->rank - 1]->value;
    double elements = realign_count(product) + realign_count(a) + realign_count(b);
    double memory = elements * dtype_bits(DTYPE_TF32) / 8 / words_memory;
    double work = fmax(realign_operations(product) / path->operations, k * path->step);
    double beside = k <= WORDS_SHORT ? path->beside_short : path->beside;
    return fmax(work, memory) + beside * fmin(work, memory);
}

double realign_words_loss(const Rewrite *rewrite, const Value *product) {
    bool are_aligned = true;
    for (int i = 0; i < 2; i++)
        are_aligned = are_aligned && !realign_missing(realign_base(product->in[i]));
    if (are_aligned && !rewrite->pass->options->limits->turns_words)
        return 0;
    if (are_aligned && !words_are_reduced(rewrite, product))
        return words_seconds(&words_lying, product) - words_seconds(&words_fast, product);
    const Value *a = product->in[0];
    return fmax(realign_operations(product) * (1 / words_slow - 1 / words_fast.operations),
                (double)a->dims[a->rank - 1]->value * words_slow_step);
}
