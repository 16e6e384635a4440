/* Which reductions of matrix products are done in parts by the kernel that multiplies: asked by the passes
 * `split`, which leaves those alone, and `split_product`, which does it, and by fusion. */
#ifndef SINTER_PASSES_PRODUCT_H
#define SINTER_PASSES_PRODUCT_H

#include "ir/value_map.h"
#include "passes/pass.h"

enum { PRODUCT_BLOCK_ROWS = 16 /* rows that one warp has of a tile: a column's part */ };

typedef enum ProductPart {
    PRODUCT_WHOLE,   /* not in parts */
    PRODUCT_ROWS,    /* along N, in blocks of columns */
    PRODUCT_COLUMNS, /* along M, in blocks of rows */
} ProductPart;

typedef enum ProductForm {
    PRODUCT_PLAIN,      /* refers to no other reduction of its kind */
    PRODUCT_EXP_SUM,    /* sum(exp(x - g)): first is reduce_max(x), g is it, or 0 where that is not finite */
    PRODUCT_SQUARE_SUM, /* sum((x - g)^2): first is sum(x), g is it times or through a scalar */
} ProductForm;

/* A reduction that is done in parts. */
typedef struct ProductReduction {
    Value *value;
    ProductPart part;
    int64_t block; /* elements of a block */
    ProductForm form;
    const Value *first; /* the reduction that it refers to, rewritten along with it; NULL for PRODUCT_PLAIN */
    Value *parts;       /* what split_product made of it: one element a block */
} ProductReduction;

typedef struct ProductReductions {
    ProductReduction *at;
    size_t n;
    ProductReduction *whole; /* large ones that are not: what waits for them reads the product again */
    size_t n_whole;
    ValueMap numbers; /* of values in `at`, plus 1 */
} ProductReductions;

/* All of a graph's, in topological order; graph->values must be numbered. */
ProductReductions *product_find(Pass *pass, const Graph *graph);
/* The one among them that is `value`; NULL: none. */
ProductReduction *product_get(const ProductReductions *all, const Value *value);

/* What a reduction reduces: its operand, or where that is a batch of matrices turned so that their rows come
 * first, to be reduced, what was turned. */
Value *product_reduced(const Value *reduction);
/* Whether blocks of that many columns (is_row: the parts of a row), or of that many rows, of a product of
 * these dims are what a product's kernel reduces by itself, and it is large enough to gain. */
bool product_block_fits(const Graph *graph, const FuseLimits *limits, const Value *product, bool is_row,
                        int64_t block);
/* Types that tensor cores multiply as they are: both of 16 bits and alike, both fp8, or both 8-bit integers.
 */
bool product_types_use_tensor_cores(const FuseLimits *limits, DType a, DType b);
bool product_uses_tensor_cores(const FuseLimits *limits, const Value *matmul);
/* Whether the kernel of a product may compute its first operand in the registers that tensor cores read: of
 * 16 bits. */
bool product_computes_operand(const FuseLimits *limits, const Value *product);
/* Whether such a kernel pays in reducing the operand's rows on the way: where there are enough of them that
 * the other operand does not come first. */
bool product_reduces_operand(const Graph *graph, const FuseLimits *limits, const Value *product);
/* What normalizing a product's operand takes, in seconds: its rows reduced by the product's kernel on the
 * way, and by a kernel of its own, which stores the operand. */
typedef struct DeferEstimate {
    double beside, apart;
} DeferEstimate;
/* Whether it pays to leave the factor of a normalized operand's rows to the epilogue of a product that can
 * reduce these (product_reduces_operand), instead of a kernel that normalizes; `n_products`: that share the
 * operand in one kernel. */
bool product_defers(const Graph *graph, const FuseLimits *limits, const Value *product, int n_products,
                    DeferEstimate *estimate);
/* Whether two products read one first operand, are of equal size and type, and read their second operands
 * alike.
 */
bool product_are_dual(const Value *a, const Value *b);
/* Why one kernel does not add two products up, and what would have to change; NULL: their sizes and types let
 * it. */
const char *product_sum_fault(const FuseLimits *limits, const Value *a, const Value *b, const char **change);
/* What a dim counts as where costs are compared: an unknown one FUSE_UNKNOWN_DIM, within its bounds, a
 * product of dims what they do. */
int64_t product_extent(const Graph *graph, const Dim *dim);
/* Matrices of a product's batch, where few of them make another kernel the better one: along an axis whose
 * extent is not known, few. */
double product_matrices(const Graph *graph, const Value *product);
/* Whether a value is computed from a product, as far as a bounded search sees: beyond it there may be one.
 * Then it may stay in the registers of that product's kernel; what is computed element by element from
 * anything else is written in any order at once. */
bool product_is_below(const Value *value);
/* Whether a product's operand is windows of a tensor, moved. */
bool product_reads_windows(const Value *operand);
/* The product of x's dims that `value`, x or an operand of what computes it, is computed from element by
 * element, at most `depth` operations below it; NULL: there is none. */
Value *product_below(Value *value, const Value *x, int depth);
/* Whether a kernel that takes a product's columns in parts has tiles worth its while: of whole rows, or so
 * many, `times` the matrices, that they ask enough of memory, for which few rows wait. */
bool product_streams(const Graph *graph, const Value *product, int64_t times);
/* Whether it is of 16-bit operands of one type, into f32. */
bool product_is_16bit(const Value *product);

#endif
