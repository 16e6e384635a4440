/* Words by which the blocks of a grid wait for each other (signals.c). Nothing is done where there are none.
 */
#ifndef SINTER_CODEGEN_TEMPLATES_SIGNALS_H
#define SINTER_CODEGEN_TEMPLATES_SIGNALS_H

#include "codegen/kernel_build.h"

typedef struct Signals {
    VEC(const KBuffer *) words;
    const KBuffer *started; /* mbarrier: they are cleared, in all blocks */
} Signals;

/* Declares such words; the grid is known. */
KBuffer *signals_new(Builder *b, Signals *signals, const char *name, DType elem, const Dim *count);
/* By the thread that initializes mbarriers; by all threads, before a barrier of the block; by the producer's
 * warpgroup. */
void signals_init(Builder *b, Signals *signals);
void signals_clear(Builder *b, const Signals *signals, DimTable *dims);
void signals_meet(Builder *b, const Signals *signals);
/* Before a thread writes or reads such words: all blocks have cleared them. */
void signals_wait(Builder *b, const Signals *signals);

#endif
