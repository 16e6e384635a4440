/* Operands into shared tiles by all threads of a block, and the loop over K that brings both so:
 * matmul_prologue.c, matmul_ring.c. */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_RING_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_RING_H

#include "codegen/lower.h"
#include "codegen/templates/matmul_tiles.h"

/* matmul_prologue.c: tiles of an operand into a ring of stages, by all threads of the block. */
typedef struct MatmulLoader {
    const MatmulPlan *plan;
    const MatmulOperand *operand;
    Tile tile;
    OperandMajor tile_major; /* MAJOR_K: rows along M (or N), columns along K */
    int tile_mn, tile_k;
    bool is_copy;   /* cp.async, memory as it is; else by way of registers */
    bool is_turned; /* columns of the tile stand as matmul_loader_turned() has them, else as they come */
    bool is_moved;  /* memory as it is as well, in pieces too small for cp.async: bits, in `words` */
    const KVar *words;
    KType index;  /* of elements of memory */
    int run_axis; /* of the operand: along which a thread moves `vector` elements at a time */
    int vector;
    int threads;
    /* of a computed operand */
    Lower *lower;
    LowerTarget target;
    int together; /* turns that are loaded before the first of them is computed */
    /* the load that has been started */
    const KExpr *stage, *mn0, *k0, *valid;
    const KExpr *const *batch;
    /* where the operand is computed from a tile of memory that is in shared memory already; else NULL */
    const MatmulOperand *source;
    Tile source_tile;
    const KExpr *source_stage;
    const KExpr *source_k; /* of that tile, at which the operand's begins */
    const KVar *from;      /* the elements of a piece of it */
} MatmulLoader;
/* For multiply-adds tiles keep M (or N) contiguous; else whichever axis memory has, where the path can read
 * both. */
MatmulLoader matmul_loader(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, const char *name,
                           int tile_mn, int tile_k, int stages, int threads, MatmulPath path);
/* Issues the loads of the tile at (mn0, k0) for a stage; where `valid` is false, zeros. Copies write to
 * shared memory by themselves (the caller commits and waits); the registers of a computed operand go there
 * with matmul_load_finish(), in the same block. */
void matmul_load_start(Builder *b, MatmulLoader *loader, const KExpr *stage, const KExpr *mn0,
                       const KExpr *k0, const KExpr *const *batch, const KExpr *valid);
void matmul_load_finish(Builder *b, MatmulLoader *loader);
/* Where row k of the tile has its column `mn`: the same in rows 8 j to 8 j + 7; vectors of 16 bytes stay
 * whole, within the MATMUL_TURNED columns that they are of. By row 16 i + j as by 16 i and then by j. */
enum { MATMUL_TURNED = 16 };
const KExpr *matmul_loader_turned(Builder *b, const MatmulLoader *loader, const KExpr *k, const KExpr *mn);

/* matmul_ring.c: the loop over K that brings both operands so. */
typedef struct MatmulRing {
    const MatmulPlan *plan;
    const Schedule *schedule;
    MatmulLoader a, b[MATMUL_CORES];
    int split; /* blocks of a cluster, of which each takes a part of the steps; 1: one takes all */
} MatmulRing;
/* What a path does with the operands of a stage. */
typedef struct MatmulMultiply {
    void (*stage)(void *path, const KExpr *stage);
    void *path;
} MatmulMultiply;
MatmulRing matmul_ring(Builder *b, const MatmulPlan *plan, const Schedule *schedule, int threads);
void matmul_ring_product(Builder *b, MatmulRing *ring, const MatmulTile *tile,
                         const MatmulMultiply *multiply);

#endif
