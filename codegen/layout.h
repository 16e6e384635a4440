/* Where elements lie: the algebra of shared-memory swizzles, the descriptors that wgmma reads tiles by, and
 * the coordinates of fragments. Plain arithmetic, known here once; tile.h builds kernel IR from it.
 *
 * Swizzle (PTX ISA 5.5.6, "Swizzling modes"). A tile is stored in rows of `span` bytes (128, 64 or 32). The
 * 16-byte chunk number within a row is xored with bits of the row number, so that eight rows read at one
 * chunk column lie in eight different bank groups. For span 128, a row is all 32 banks, and chunk c of row r
 * stands at c ^ (r % 8):
 *
 *            chunk  0  1  2  3  4  5  6  7        span  bits xored            period
 *     row 0         0  1  2  3  4  5  6  7        128   4..6 with 7..9        1024 bytes
 *     row 1         1  0  3  2  5  4  7  6         64   4..5 with 7..8         512
 *     row 2         2  3  0  1  6  7  4  5         32   4    with 7            256
 *     ...
 *     row 7         7  6  5  4  3  2  1  0
 *
 * TMA writes, wgmma reads, and ldmatrix and stmatrix address this same layout, given a base aligned to the
 * period.
 *
 * Tiles wider than a span are cut into blocks of one span, each block all rows long (what one TMA box
 * writes):
 *
 *     columns   0 .. span-1        span .. 2 span-1
 *              +-------------+    +-------------+
 *      row 0   | block 0     |    | block 1     |        element (r, c): block c / span, then row r, then c %
 * span row 1   |             |    |             |
 *              +-------------+    +-------------+
 *
 * Fragment of a matrix product (wgmma's D: PTX ISA 9.7.15.5.1; mma.sync's C: 9.7.14.5.8): groups of 8
 * columns; in each, a lane of the warp has two neighbours of row lane/4 and two of row lane/4 + 8:
 *
 *              column  0  1 | 2  3 | 4  5 | 6  7           register of group g and lane l:
 *      row 0          T0    | T1   | T2   | T3             4 g + 0, 1: row l/4,     columns 8 g + 2 (l%4) +
 * 0, 1 row 1          T4    | T5   | T6   | T7             4 g + 2, 3: row l/4 + 8, the same columns
 *      ...
 *      row 8          T0    | T1   | T2   | T3             warp w of a wgmma warpgroup has rows 16 w .. 16 w
 * + 15
 */
#ifndef SINTER_CODEGEN_LAYOUT_H
#define SINTER_CODEGEN_LAYOUT_H

#include "codegen/kernel.h"

/* Bytes of a row under a swizzle; 16 without one. */
int swizzle_span(KSwizzle swizzle);
/* Bytes after which the pattern repeats: what a tile's base is aligned to; 16 without a swizzle. */
int swizzle_period(KSwizzle swizzle);
/* The swizzle with rows of exactly `bytes`; SWIZZLE_NONE where there is none. */
KSwizzle swizzle_for_span(int bytes);
/* The chunk column at which 16-byte chunk `chunk` of row `row` stands. */
int swizzle_chunk(KSwizzle swizzle, int row, int chunk);
/* The row's bits that are xored: chunk ^ ((row >> shift) & mask). */
void swizzle_row_bits(KSwizzle swizzle, int *shift, int *mask);

/* How wgmma walks a tile in shared memory. K-major: rows are M or N, columns K. MN-major: rows are K, columns
 * M or N, in blocks of one span. */
typedef enum OperandMajor { MAJOR_K, MAJOR_MN } OperandMajor;

/* The constant bits of a wgmma descriptor (PTX ISA 9.7.15.5.1.2.2), in units of 16 bytes:
 *     0-13 address | 16-29 leading byte offset | 32-45 stride byte offset | 49-51 base offset, 0 | 62-63
 * swizzle: 1 is 128, 2 is 64, 3 is 32 bytes stride: from one group of 8 rows to the next. leading: MN-major,
 * from one block to the next (block_bytes); not read K-major. `apart`: rows from the first of such a group to
 * that of the next, WGMMA_GROUP where they follow each other. An operand may begin at any row: bits
 * of addresses are xored, not of rows' numbers, whatever the base offset would say. */
enum { WGMMA_GROUP = 8 };
uint64_t wgmma_descriptor(KSwizzle swizzle, OperandMajor major, int apart, int64_t block_bytes);

#endif
