/* The path for a few dozen rows: how a schedule divides its work (matmul_skinny_shape.c), what lanes make of
 * an operand's memory (matmul_skinny_source.c), how they load it (matmul_skinny_load.c), the kernel
 * (matmul_skinny.c); beside these, only the estimate of its time includes it. */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_SKINNY_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_SKINNY_H

#include "codegen/kernel_build.h"
#include "codegen/templates/matmul_gemv.h"

/* Of an instruction (mma.m16n8k16): weights' columns, which are its rows; few rows, which are its columns;
 * lanes that share the K of a column; elements of a column that a lane has of it. */
enum { SKINNY_COLUMNS = 16, SKINNY_ROWS = 8, SKINNY_LANES_K = 4, SKINNY_OWN = 4 };
enum { SKINNY_ROWS_MAX = 64, SKINNY_WIDTH_MAX = 32, SKINNY_ACROSS_MAX = 64 };

/* What an operand is, where lanes make numbers of 16 bits of its memory themselves: (memory - zero) * factor,
 * both the same for each block of K that a quad of lanes has of a column, so that the sums of products take
 * them. */
typedef struct SkinnySource {
    bool is_direct; /* else it is computed by the graph's operations, element by element */
    bool is_across; /* neighbours in memory are along M or N, not along K */
    View view;      /* along the operand's axes */
    DType dtype;    /* of memory */
    bool has_factor, has_zero;
    MatmulScale factor, zero;
} SkinnySource;
const SkinnySource *skinny_source(const MatmulPlan *plan, const MatmulOperand *operand);
/* Words of memory that a run takes. */
int skinny_source_words(const SkinnySource *source, int width);
/* Whether pairs are of elements 4 apart, as the nibbles of a word are masked out, rather than of neighbours.
 */
bool skinny_is_nibbles(const SkinnySource *source);
/* Element `e` of pair `p` of a run. */
int skinny_pair_element(bool is_nibbles, int p, int e);
/* Elements of a word of memory. */
int skinny_per_word(const SkinnySource *source);
/* The pairs of a run whose memory is raw[at ..] on, of f16 or bf16: pairs[p] for each. */
void skinny_widen(Builder *b, const SkinnySource *source, DType elem, const KVar *raw, const KExpr *at,
                  int width, const KExpr **pairs);
/* The same of two words, neighbours along K of as many columns as a word has elements: pairs[c] of column c.
 */
void skinny_widen_across(Builder *b, const SkinnySource *source, DType elem, const KExpr *word,
                         const KExpr *next, const KExpr **pairs);
/* The pairs of nibbles' order of a run that lies in order. */
void skinny_reorder(Builder *b, const KVar *raw, const KExpr *at, int width, const KExpr **pairs);

typedef struct SkinnyShape {
    bool is_direct; /* weights are taken from memory by the lanes */
    bool is_across; /* and lie along N there, not along K */
    int width;      /* elements along K of a lane's run */
    int columns;    /* of a lane: along N neighbours, of all K in its run; along K two a block */
    int unroll;     /* runs under way */
    int blocks;     /* of columns, a warp, whose pairs a lane makes at a time */
    int wide;       /* instructions for the columns of a block: along K one */
    int groups;     /* of 8 rows */
} SkinnyShape;
/* False where the schedule does not divide it. */
bool skinny_shape(const MatmulPlan *plan, const Schedule *schedule, SkinnyShape *shape);

#endif
