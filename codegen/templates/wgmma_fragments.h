/* Shared by wgmma_fragments.c, which computes and multiplies fragments, and wgmma_fragments_stage.c, which
 * knows what memory has of them; nobody else includes it. */
#ifndef SINTER_CODEGEN_TEMPLATES_WGMMA_FRAGMENTS_H
#define SINTER_CODEGEN_TEMPLATES_WGMMA_FRAGMENTS_H

#include "codegen/templates/wgmma.h"

enum {
    FRAGMENTS_CHUNK = 4, /* steps of 16 of K that are computed, then multiplied, together */
    FRAGMENT_WORDS = 4,  /* of a block of 64 rows: two neighbours along K each, of rows r, r + 8 at k, and at
                            k + 8 */
    FRAGMENT_K = 16
};

/* Pairs that go to the products as they are packed in memory, or times those of a factor. */
typedef struct FragmentsPacked {
    bool is_packed;
    View factor; /* one number for each of K; base NULL: there is none */
} FragmentsPacked;

/* Integers of 4 bits that become pairs without being floats on the way. */
typedef struct FragmentsNibbles {
    bool is_made;
    Value *scale; /* what they are multiplied with; NULL: nothing */
} FragmentsNibbles;

struct WgmmaFragments {
    const MatmulOperand *operand; /* what is computed */
    const MatmulOperand *source;  /* what it is mostly made of */
    Lower *lower;
    LowerTarget *targets; /* the operand, then what is reduced of it */
    int n_targets;
    PartialVars *partials; /* of each reduction, by block and half of 16 rows */
    FragmentsPacked packed;
    FragmentsNibbles nibbles;
    int factor_map;
    KBuffer *factor_tile; /* the factors of K, a stage behind the other */
    const KVar *factors;  /* those of the stage at hand: two words a step of 16 */
    const KVar *scales;   /* those of nibbles, a pair a word of the stage at hand; NULL: there are none */
    const KVar *raw;      /* the source's elements as the stage has them */
    const KVar *from;     /* those of a word */
    const KVar *words[2]; /* by step of a chunk and block of 64 rows; of chunks in turn */
    /* of the stage at hand */
    const KExpr *warp_row; /* of the tile: the warp's first */
    const KExpr *row, *k;  /* of the thread's first word */
    const MatmulTile *tile;
};

/* Steps of 16 of K that are computed, then multiplied, together. */
static inline int fragments_chunk(const Schedule *schedule) {
    int steps = schedule->tile_k / FRAGMENT_K, half = steps > 1 ? steps / 2 : 1;
    return half < FRAGMENTS_CHUNK ? half : FRAGMENTS_CHUNK;
}

/* Chunks whose fragments are in registers: one is computed while the products of the other run, where a stage
 * has several, so that it is known as the kernel is written which is which. */
static inline int fragments_sets(const Schedule *schedule) {
    return schedule->tile_k / FRAGMENT_K > fragments_chunk(schedule) ? 2 : 1;
}

/* Number of a block's first word, in a step of 16 of K. */
int fragments_slot(const Wgmma *w, int i, int block);
/* Whether the two elements of a word, neighbours along K, are read as one number. */
bool fragments_in_pairs(const MatmulOperand *source);
/* Whether, and how, an operand's words are what memory has, or products of that, without being taken apart.
 */
FragmentsPacked fragments_packed(const MatmulPlan *plan, const Schedule *schedule,
                                 const MatmulOperand *operand, const MatmulOperand *source);
FragmentsNibbles fragments_nibbles(const MatmulOperand *operand, const MatmulOperand *source);
/* A word's integers of 4 bits as a pair of the operand's type. */
const KExpr *fragments_nibble_pair(Wgmma *w, const WgmmaFragments *f, int i, int block, const KExpr *word);
/* Declares the ring of the factors that come with the stages, where there are some. */
void fragments_add_factor(Wgmma *w, WgmmaFragments *f);
/* The source's elements of a chunk, whose first step is i, and its factors, to registers. */
void fragments_read(Wgmma *w, WgmmaOperand *o, const KExpr *stage, int i);
/* Sets f->from to those of a word. */
void fragments_from_raw(Wgmma *w, const WgmmaFragments *f, int i, int block, const KExpr *word);

#endif
