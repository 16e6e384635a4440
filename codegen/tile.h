/* Tiles of shared memory, in the layout that layout.h draws, as kernel IR: a template names rows and columns,
 * the arithmetic of blocks, swizzles and stages stands here.
 *
 * A tile is `stages` times `rows` x `cols` elements, columns contiguous within a span. */
#ifndef SINTER_CODEGEN_TILE_H
#define SINTER_CODEGEN_TILE_H

#include "codegen/kernel_build.h"
#include "codegen/layout.h"

typedef struct Tile {
    const KBuffer *buffer;
    DType elem;
    int rows, cols;
    int span; /* elements of a row within a block; divides cols, or is a row and its padding */
    KSwizzle swizzle;
    int stages;
    int64_t pitch; /* elements from one stage to the next */
    int apart;     /* rows from 8 that wgmma reads as one to the next: 8, unless such groups overlap */
    int lead;      /* rows from a span that it reads MN-major to the next: all, unless they overlap */
} Tile;

/* Bytes of the widest span that divides a row of so many, which are a multiple of 16. */
int tile_span_bytes(int row_bytes);
/* In shared memory, with the widest swizzle whose span divides a row. cols * bits must be a multiple of 16
 * bytes. */
Tile tile_shared(Builder *b, const char *name, DType elem, int rows, int cols, int stages);
/* For threads alone, which read rows: not swizzled but padded by so many bytes a row, a multiple of 16, so
 * that one address serves all rows, and columns of neighbouring rows lie in different banks. */
Tile tile_padded(Builder *b, const char *name, DType elem, int rows, int cols, int padding, int stages);
/* Over memory that is there: stages `pitch` elements apart, which is a multiple of the swizzle's period. */
Tile tile_over(const KBuffer *buffer, DType elem, int rows, int cols, int stages, int64_t pitch);
int64_t tile_elements(const Tile *tile); /* of one stage */
int64_t tile_bytes(const Tile *tile);    /* of one stage */
/* Element number of (row, col) in a stage; row and col are i32. Where col is a multiple of a vector of at
 * most 16 bytes, the vector is contiguous there. */
const KExpr *tile_index(Builder *b, const Tile *tile, const KExpr *stage, const KExpr *row, const KExpr *col);
/* Its u32 shared address, for atoms. */
const KExpr *tile_address(Builder *b, const Tile *tile, const KExpr *stage, const KExpr *row,
                          const KExpr *col);
/* First element of a stage's block of columns, where TMA writes a box. */
const KExpr *tile_block_address(Builder *b, const Tile *tile, const KExpr *stage, int row, int block);

/* wgmma descriptor of stage 0 at its first row and column, as u64. */
const KExpr *tile_descriptor(Builder *b, const Tile *tile, OperandMajor major);
/* From one stage to the next, in units of 16 bytes. */
int64_t tile_stage_units(const Tile *tile);
/* What to add to it, in units of 16 bytes, for row and column offsets known here: multiples of 8 rows, and of
 * 32 bytes (K-major) or one span (MN-major) of columns. */
int64_t tile_descriptor_offset(const Tile *tile, int row, int col);

/* Four 8 x 16-byte matrices of a warp's fragment, in the order (rows 0-7, first 16 bytes), (rows 8-15,
 * first), (rows 0-7, second), (rows 8-15, second) if `rows_first`, else with the middle two exchanged:
 * ldmatrix into words[at .. at+4). `row` and `col` are the fragment's corner. */
void tile_load_matrices(Builder *b, const Tile *tile, const KExpr *stage, const KExpr *row, const KExpr *col,
                        bool rows_first, bool transposed, const KVar *words, int at);

#endif
