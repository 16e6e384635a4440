/* Relays: products whose first operand is computed, element by element, of other products, all in one kernel,
 * which takes the columns between them in parts. Asked by the pass `turned`, which brings products into that
 * form, and by fusion.
 *
 *     s = q @ k.T                  first
 *     d = do @ v.T                 first
 *     e = cast(exp(s - l) * (d - r), bf16)     between: of the dims of the first, in no memory
 *     dq = e @ k                   last
 *
 * A product may go across, of what is handed on to a last one the other way around, with the rows of a first
 * one (codegen/templates/relay.h):
 *
 *     dk = e' @ q                  last
 *     dq = e'.T @ k                across: of e' = (k @ q.T) ...
 */
#ifndef SINTER_PASSES_RELAY_H
#define SINTER_PASSES_RELAY_H

#include "passes/pass.h"

enum {
    RELAY_FIRST = 2,
    RELAY_LAST = 2,
    RELAY_DEPTH = 256,        /* of first products: all of it is in shared memory for a tile's rows */
    RELAY_ACCUMULATORS = 256, /* columns of all last products together: these are in registers */
};

typedef VEC(Value *) RelayValues;

typedef struct Relay {
    Value *first[RELAY_FIRST], *last[RELAY_LAST];
    Value *across; /* NULL: there is none */
    int n_first, n_last;
    RelayValues between; /* what is computed of the first products in their dims */
} Relay;

/* Takes apart what `held`, of 16 bits, is computed of; relay->last and across are left empty. False where
 * that is no one or two products that such a kernel takes. */
bool relay_between(Arena *arena, const Graph *graph, Value *held, Relay *relay);
/* Of a softmax's quotient exp(x - max) / sum, what makes it exp(x - that): max + log(sum), a number a row, or
 * the same with a sink, found in the graph or appended, and x. One number to be read instead of two, and no
 * division. NULL: `value` is no such quotient, or a defect. */
Value *relay_logarithm(Graph *graph, Diags *diags, const Value *value, Value **x);
/* Whether `product`, whose first operand is held so, can be a last one, and has rows for enough blocks. */
bool relay_is_last(const Graph *graph, const Value *product);
/* Whether `product` can go across the kernel of a relay that computes what it reads transposed. */
bool relay_is_across(Arena *arena, const Graph *graph, const Value *product);
/* Whether two are transposes of one value that have its axes in the same order. */
bool relay_is_same(const Value *a, const Value *b);
/* Whether two have a first product in common. */
bool relay_share_first(const Relay *a, const Relay *b);

#endif
