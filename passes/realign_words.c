/* Operands of tf32 that lie along M or N. Matrix instructions take such elements along K, but their first
 * operand from registers as well, where its order in memory does not matter
 * (codegen/templates/wgmma_turned.c). So one operand of a product may stay as it is:
 *
 *     y = x @ w        w: tf32[K, N]               one kernel: the product is computed transposed, w first
 *     y = x.T @ w.T    x: tf32[K, M]               one kernel
 *     y = x.T @ w      x: tf32[K, M]               the smaller one is copied
 *
 * The transposed product has the result's columns in its rows, and kernels reduce rows of a result that lie
 * as they are: the second operand of a product that is reduced is copied. */
#include "passes/fuse.h"
#include "passes/realign.h"

enum {
    WORDS_LINE = 128 /* bits that rows in memory are multiples of */,
    WORDS_RANK = 4 /* dims that TMA has */
};

bool *realign_find_reduced(Pass *pass, const Graph *graph) {
    bool *reduced = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    for (size_t i = graph->values.n; i-- > 0;) { /* topological */
        const Value *value = graph->values.at[i];
        bool passes_on = !value_is_heavy(value) && reduced[value->id];
        for (int k = 0; k < value->n_in && (passes_on || value_class(value) == OPCLASS_REDUCTION); k++)
            reduced[value->in[k]->id] = true;
    }
    return reduced;
}

/* Whether the product's kernel can take an operand that is turned as it lies. */
static bool words_are_taken(const Rewrite *rewrite, const Value *product, int which) {
    Value *operand = product->in[which], *base = realign_base(operand);
    const bool *reduced = rewrite->pass->state;
    bool is_reduced = product->id >= rewrite->n_before || reduced[product->id];
    return rewrite->pass->options->limits->turns_words && operand->dtype == DTYPE_TF32 &&
           realign_is_turned(operand, which) && operand->rank <= WORDS_RANK &&
           base->dims[base->rank - 1]->value * dtype_bits(DTYPE_TF32) % WORDS_LINE == 0 &&
           !(which == 1 && is_reduced);
}

int realign_taken(const Rewrite *rewrite, const Value *product) {
    bool first = words_are_taken(rewrite, product, 0), second = words_are_taken(rewrite, product, 1);
    if (first && second)
        return realign_count(product->in[0]) >= realign_count(product->in[1]) ? 0 : 1;
    return first ? 0 : second ? 1 : -1;
}
