/* Attention in parts of its keys: what split_keys.c finds, and the space in which it builds the parts
 * (split_keys_space.c). */
#ifndef SINTER_PASSES_SPLIT_KEYS_H
#define SINTER_PASSES_SPLIT_KEYS_H

#include "ir/softmax.h"
#include "passes/rewrite.h"

typedef struct Keys {
    Rewrite *rewrite;
    Softmax softmax;
    Value *core, *product;  /* q @ k.T, and softmax(x) @ v */
    bool is_wide;           /* its heads: streams_is_wide */
    const Dim *first, *all; /* the keys that are meant: from which on, and how many; of joined ones some */
    int64_t parts;          /* of these */
    const Dim *each;        /* keys of a part */
    const Dim *step; /* from where one begins to where the next does; less than `each` if they overlap */
} Keys;

/* A value's extent along an axis that is counted from the last, which is 1. */
const Dim *keys_dim(const Value *value, int from_end);
/* How many of the keys along an axis are the first tensor's of two that *joined joins; NULL: they are not
 * joined of two. */
const Dim *keys_boundary(const Value *value, int axis, const Value **joined);
/* Whether parts begin with keys of the ones before. */
bool keys_overlap(const Keys *keys);
/* A matrix whose rows are keys: [..., T, D] as [..., P, T / P, D]; NULL where the graph has no room. */
Value *keys_rows(const Keys *keys, Value *matrix);
/* What x is computed by, of parts: at most so many operations above the product. */
Value *keys_cone(const Keys *keys, Value *value, int depth);
/* x without the keys of a part that the next one begins with. */
Value *keys_masked(const Keys *keys, Value *x);
/* A number, in f32. */
Value *keys_float(Rewrite *rewrite, double number, const Value *like);

#endif
