/* Copies of a product's operands in an order that its kernel reads at full rate; what the files of the pass
 * `realign` share. */
#ifndef SINTER_PASSES_REALIGN_H
#define SINTER_PASSES_REALIGN_H

#include "passes/rewrite.h"

static const double realign_launch = 2e-6; /* seconds, of a kernel that copies */

/* Elements of a value; 0 where an extent is not known. */
double realign_count(const Value *value);
/* Operations of a product; 0 where an extent is not known. */
double realign_operations(const Value *product);
/* Seconds that a copy of a value takes. */
double realign_copy_seconds(const Value *value);
/* Whether an operand, the first or the second, lies along M or N, of elements that are only taken along K. */
bool realign_is_turned(const Value *operand, bool is_second);
/* Whether neighbours along the last two axes of an operand, the first or the second, are none in memory, or
 * too few. */
bool realign_is_scattered(const Graph *graph, const Value *operand, bool is_second);
/* Elements that a row lacks; 0 where it lies well, or where the pass has nothing to say. */
int64_t realign_missing(const Value *base);
/* Rows with as many zeros behind each. */
Value *realign_padded(Rewrite *rewrite, Value *base, int64_t missing);
/* The rows of a copy that are those of `base`, from `first_row` on, without what is behind each; NULL where
 * the graph has no room. */
Value *realign_part(Rewrite *rewrite, Value *copy, Value *base, const Dim *first_row);
/* A value copied to rows that have as many elements more, without those. */
Value *realign_copied(Rewrite *rewrite, Value *base, int64_t missing);
/* What lies in memory: the operand, or what it is a transpose of. */
Value *realign_base(Value *operand);
/* The operand copied with K innermost. */
Value *realign_turned(Rewrite *rewrite, Value *operand, bool is_second);

/* realign_words.c: which operand of a product its kernel takes as it lies, though it lies along M or N; -1:
 * none. The other one is copied, if it does too. */
int realign_taken(const Rewrite *rewrite, const Value *product);
/* Seconds that a product loses where operands of 32 bits besides that one stay as they lie. */
double realign_words_loss(const Rewrite *rewrite, const Value *product);

/* realign_brought.c: seconds that a product loses whose kernel itself brings `n` operands that TMA does not
 * read; negative where it cannot. */
double realign_brought(const Rewrite *rewrite, const Value *product, int n);

/* realign_joined.c: whether one kernel copies both operands of a product; does it, false with `in` as it was
 * where it cannot; and whether a value is such a copy. */
bool realign_joins(const Rewrite *rewrite, Value *const in[2]);
bool realign_both(Rewrite *rewrite, Value *in[2]);
bool realign_is_joined(const Value *copy);

/* realign_windows.c: a product of windows whose channels are no whole lines, with those copied; NULL where
 * they are, or it does not pay. */
Value *realign_windows(Rewrite *rewrite, Value *product);

/* realign_scaled.c: a product of fp8 elements times factors, with those copied that lie along M or N; NULL
 * where there are none, or it does not pay. */
Value *realign_scaled(Rewrite *rewrite, Value *product);

#endif
