/* Movement among the columns of a matrix product: what an epilogue may read without leaving its registers.
 *
 * A thread of a matrix kernel holds, of each of its rows, the two neighbouring columns 2q and 2q + 1 of every
 * group of eight, for one q. So an element that is wanted at another column of the same row is in the
 * thread's own registers if it lies a whole number of groups away, in the same pair of its group:
 *
 *     rotated halves of 128    column ^ 64     group ^ 8, the same element of the pair
 *     rotated neighbours       column ^ 1      the same group, the other element of the pair
 *
 * columns_place() follows a Value down to the product through reshapes, transposes, slices, concats and
 * whatever is element by element, with numbers for the columns, and tells whether each read is one of these.
 * Fusion asks it before a Value joins a product's kernel; the lowering asks column_fit_*() for the same
 * reads, as arithmetic on coordinates (codegen/lower_columns.c). */
#ifndef SINTER_IR_COLUMNS_H
#define SINTER_IR_COLUMNS_H

#include "ir/graph.h"

enum {
    COLUMN_GROUP = 8,           /* columns of a group: what one row of four lanes holds two by two */
    COLUMN_BLOCK_MAX = 256,     /* the widest block within which columns trade places: one tile */
    COLUMN_COUNT_MAX = 1 << 16, /* columns of a product that are looked at one by one */
};

/* Where one read goes, for every column: group + by, or group ^ by, and elem[e] of the pair for element e. */
typedef struct ColumnMove {
    bool is_xor;
    int64_t by; /* groups */
    int elem[2];
} ColumnMove;

/* Collects the columns that a read goes from and to. */
typedef struct ColumnFit {
    bool any, adds, xors, pairs;
    int64_t add, xor_;
    int elem[2]; /* -1: not seen */
} ColumnFit;

ColumnFit column_fit_start(void);
void column_fit_add(ColumnFit *fit, int64_t from, int64_t to);
/* False where no ColumnMove is all of what was added. */
bool column_fit_end(const ColumnFit *fit, ColumnMove *move);

/* Where a Value's elements stand in a product's space: in row-major order, its row r holds columns [first,
 * first + width) of the product's row r. */
typedef struct ColumnPlace {
    int64_t first, width;
    int block; /* every read stays within its aligned block of so many columns; 0: each reads its own column
                */
} ColumnPlace;

/* The smallest blocks that are whole ones of both kinds; 0 stands for those of single columns. */
int column_blocks_join(int x, int y);

/* Finds the place of `value`, which is_here() Values compute from `cores` (matmuls of equal dims). False,
 * with a person's words in *why, where it has none, or where it reads a column that is not in the same
 * thread. Row statistics count as reads of the row. */
bool columns_place(const Graph *graph, const Value *const *cores, int n_cores, const Value *value,
                   bool (*is_here)(void *context, const Value *value), void *context, ColumnPlace *place,
                   const char **why);

#endif
