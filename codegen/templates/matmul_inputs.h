/* Inputs of the epilogue, brought to shared memory while the products run: one number a column
 * (matmul_vectors.c), or one an element (matmul_inputs.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_INPUTS_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_INPUTS_H

#include "codegen/pipeline.h"
#include "codegen/templates/matmul_tiles.h"

/* Inputs of the epilogue with one element a column (a bias), brought to shared memory while the products run,
 * so that the epilogue does not wait for them: cp.async by the warpgroup that needs them, two copies in turn.
 */
enum { VECTORS_MAX = 4 };
typedef struct MatmulVectors {
    int n;
    const Value *value[VECTORS_MAX];
    const KBuffer *buffer[VECTORS_MAX];
    const KExpr *base;     /* element of the buffers at which the present tile's copy begins */
    const KExpr *lane_col; /* of the thread's first column within the tile */
} MatmulVectors;
/* Those that the epilogue reads and cp.async can copy in words of 4 bytes, as many as fit `bytes` with
 * `copies` copies. */
void matmul_find_vectors(const MatmulPlan *plan, int tile_cols, int copies, int64_t bytes,
                         MatmulVectors *vectors);
/* Bytes that a vector has of the word that begins with a column, which is a whole number of words from the
 * first. */
enum { VECTORS_WORD = 4 };
const KExpr *matmul_vector_bytes(Builder *b, const MatmulPlan *plan, const Value *value, const KExpr *col);

/* matmul_inputs.c: inputs of the epilogue with an element for each of the product's, of 16 bits, which the
 * producer brings through the ring behind the steps of K. */
enum { INPUTS_MOST = 2 };
typedef struct MatmulInputs {
    int n;
    const Value *memory[INPUTS_MOST]; /* the region's input */
    const Value *value[INPUTS_MOST];  /* the same, or its reshape to the product's dims */
    bool is_held;           /* read by the pass before the first statistic; else where outputs are stored */
    MatmulPatch patch;      /* of the tiles; axes 0: they are none */
    int chunks, chunk_cols; /* a chunk of one input is a stage */
    Tile tile[INPUTS_MOST];
    int map[INPUTS_MOST];
    /* a consumer's */
    const Pipeline *pipeline;
    const PipelineState *state;
    const KExpr *row;                /* of the tile: the warp's first */
    const KExpr *stage[INPUTS_MOST]; /* of the present chunk */
    const KVar *words[INPUTS_MOST];  /* of the present batch of column groups: a pair of elements each */
} MatmulInputs;
/* Whether the schedule has a way through the ring for them; else each thread waits for its own elements. */
bool matmul_inputs_have_way(const MatmulPlan *plan, const Schedule *schedule);
/* Those that the epilogue reads element by element; n is 0 where there are none, or the schedule has no way
 * for them. */
void matmul_find_inputs(Builder *b, const MatmulPlan *plan, const Schedule *schedule, MatmulInputs *inputs);
/* `rows` and `cols`: the operands' tiles that give rows and columns, over whose stages chunks are laid. */
void matmul_inputs_declare(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const KBuffer *rows,
                           const KBuffer *cols, MatmulInputs *inputs);
/* The producer's part of a tile. */
void matmul_inputs_load(Builder *b, const MatmulPlan *plan, const MatmulInputs *inputs,
                        const Pipeline *pipeline, const PipelineState *state, const MatmulTile *at);

#endif
