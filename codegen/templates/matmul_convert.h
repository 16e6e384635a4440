/* Operands that warpgroups make or bring on their way to wgmma, where TMA cannot: matmul_convert.c,
 * matmul_skew.c. */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_CONVERT_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_CONVERT_H

#include "codegen/pipeline.h"
#include "codegen/templates/matmul_ring.h"
#include "codegen/templates/matmul_tma.h"

/* matmul_skew.c */

/* An operand of 16 bits whose rows begin anywhere in memory, on its way to a shared tile by the warps of one
 * or two warpgroups. Nobody but a warp itself sees its part of the copies. */
typedef struct MatmulSkew {
    const MatmulPlan *plan;
    const MatmulOperand *operand;
    Tile tile;
    const KBuffer *raw; /* the copies, in slots */
    int tile_mn;
    int warps;
    KType index; /* of elements of memory */
    /* of the present tile: elements of memory that the lane's copies begin with in step 0; for each of the
     * warp's kinds of rows, two at most, where in a slot the lane's words begin, and which of their bytes it
     * takes (NULL: all rows begin where a word does) */
    const KExpr *from, *behind, *read[2], *pick[2];
} MatmulSkew;
/* Whether it is memory that can be brought so, and in such tiles. */
bool matmul_is_skewed(const MatmulOperand *operand);
bool matmul_skew_accepts(const MatmulOperand *operand, int tile_mn, int tile_k, int warps);
/* Steps for which there is room: slots, of which each step takes the next one. */
int matmul_skew_slots(const MatmulOperand *operand);
/* Bytes of shared memory for them. */
int64_t matmul_skew_bytes(const MatmulOperand *operand, int tile_mn);
/* Declares its tile, of `stages`, and slots. */
MatmulSkew matmul_skew(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, const char *name,
                       int tile_mn, int tile_k, int stages, int warps);
/* A tile at mn0 begins. */
void matmul_skew_tile(Builder *b, MatmulSkew *skew, const KExpr *mn0, const KExpr *const *batch);
/* Starts the warp's copies of a step of `steps` into a slot; of K there is a step behind the last, which
 * begins what that one ends with. When they have come, of K the next step's too, and the warp has met: its
 * part of the slot into a stage. */
void matmul_skew_copy(Builder *b, const MatmulSkew *skew, const KExpr *slot, const KExpr *step,
                      const KExpr *steps);
void matmul_skew_shift(Builder *b, const MatmulSkew *skew, const KExpr *slot, const KExpr *step,
                       const KExpr *stage);

/* matmul_convert.c */

enum { CONVERT_THREADS = 128, CONVERT_WIDTH = 8 /* elements */, CONVERT_LINE = 16 /* bytes */ };
typedef struct MatmulConvert {
    bool is_brought; /* by `skew`; the rest is of what is computed */
    MatmulSkew skew;
    MatmulLoader loader; /* makes the operand's tile */
    MatmulTma tma;       /* the tile of memory that it is made from */
    Pipeline raw;        /* the ring of those */
    int ratio;           /* steps of K that one of those has */
    int ahead;           /* how many of those the producer brings before it waits for any to be used */
} MatmulConvert;
/* Whether an operand is computed because TMA cannot bring it as wgmma takes it. */
bool matmul_is_converted(const MatmulPlan *plan, const MatmulOperand *operand);
/* Whether they bring it from memory that has the elements themselves. */
bool matmul_is_brought(const MatmulPlan *plan, const MatmulOperand *operand);
/* Whether they bring all that TMA does not. */
bool matmul_brings(const MatmulPlan *plan);
/* Warpgroups that compute it, each every n-th stage, and so the same stages each time round the ring; or
 * bring it, together each stage. */
int matmul_converters(const MatmulPlan *plan, const Schedule *schedule);
/* Warpgroups of a block of the path through wgmma: one that loads, these, and those that multiply. */
int matmul_warpgroups(const MatmulPlan *plan, const Schedule *schedule);
/* What setmaxnreg leaves for each of their threads, where the schedule deals registers out. */
int matmul_convert_registers(const MatmulPlan *plan, const Schedule *schedule);
bool matmul_accepts_convert(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                            const char **why);
/* The memory that a computed operand is made from, as an operand; false where there is none that TMA reads.
 */
bool matmul_convert_source(const MatmulPlan *plan, const MatmulOperand *operand, MatmulOperand *source);
int64_t matmul_convert_bytes(const MatmulPlan *plan, const Schedule *schedule); /* of its ring */
MatmulConvert matmul_convert(Builder *b, const MatmulPlan *plan, const Schedule *schedule,
                             const MatmulOperand *operand, const char *name, int tile_mn);
/* The converter's work for one raw tile, which begins at k0: waits for both rings, computes the stages that
 * are made from it, arrives at both and goes on to the next in both. */
void matmul_convert_raw(Builder *b, MatmulConvert *convert, const Pipeline *stages, const PipelineState *raw,
                        const PipelineState *stage, const KExpr *mn0, const KExpr *k0,
                        const KExpr *const *batch);

/* The calling warp of a converter has put down its part of a stage, and goes on to the next. */
void matmul_convert_arrive(Builder *b, const Pipeline *stages, const PipelineState *stage);

#endif
