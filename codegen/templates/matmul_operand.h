/* Operands of matrix products: where they lie in memory, and who can read them there (matmul_operand.c,
 * matmul_prologue.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_OPERAND_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_OPERAND_H

#include "codegen/templates/matmul.h"

/* Axes besides the matrix' two that TMA follows: of the batch, outer parts of an axis, what indices choose.
 */
enum { MATMUL_TMA_BEYOND = 3 };

/* Reads operand `which` of a product of the region. */
void matmul_read_operand(const Graph *graph, const Region *region, const Value *product, int which,
                         MatmulOperand *operand);
/* Whether indices choose the operand's matrices of the batch, its pages, or its rows, from memory that can be
 * read so, whatever the type of its elements; notes which, and the view. */
bool matmul_find_chosen(const Graph *graph, const Region *region, MatmulOperand *operand);
/* The same for memory that the operand is computed from, with its axes in the operand's order. */
bool matmul_take_chosen(const Graph *graph, const Region *region, const ViewGather *gather,
                        MatmulOperand *operand);
/* Sets what follows from an operand's view. */
void matmul_read_view(MatmulOperand *operand);
/* The type in which the source's elements are given to what computes the operand: short integers as f32,
 * which holds them, where they are used as floats alone. */
KType matmul_source_type(const MatmulPlan *plan, const MatmulOperand *source);
/* Whether TMA can read an operand: contiguous, everything else in steps of 16 bytes. */
bool matmul_is_tma(const Graph *graph, const MatmulOperand *operand, const char **why);
/* Whether it can where tiles lie within the parts that memory has the operand in. */
bool matmul_is_parted(const MatmulOperand *operand);
/* Whether it reads matrices, or pages, that indices choose. */
bool matmul_has_chosen_matrices(const MatmulOperand *operand);
/* Whether it reads windows. */
bool matmul_has_windows(const MatmulOperand *operand);
/* Whether TMA brings the operand in any of these ways. */
bool matmul_is_brought_by_tma(const Graph *graph, const MatmulOperand *operand, const char **why);
/* Whether warps of wgmma's kernels copy the rows that indices choose. */
bool matmul_has_chosen_rows(const MatmulOperand *operand);
bool matmul_chooses_rows(const MatmulPlan *plan); /* of any operand */
/* What an index chooses for a batch, and for a row along M or N, or along the axis of pages (NULL: it chooses
 * whole matrices): -1 where the index is none of what is chosen from, or the row none of the operand's. TMA
 * reads zeros at -1, also from a tensor of no matrices, which its map gives one. */
const KExpr *matmul_chosen(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                           const KExpr *const *batch, const KExpr *row);
/* Ahead of a tile's loads by TMA, which matrix of the operand they are of; NULL: it is the batch's, or boxes
 * are of pages. */
const KExpr *matmul_chosen_matrix(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                                  const KExpr *const *batch);
/* An input of the epilogue that TMA can read: 16-bit elements, the space's own dims, of which so many are a
 * batch's, rows in steps of 16 bytes. */
enum { INPUTS_BATCH = 2 };
bool matmul_is_tma_input(const MatmulPlan *plan, const Value *value);

/* The operand as a region of its own: its dims the space, itself the output. */
Region *matmul_operand_space(Arena *arena, const Region *region, const Value *value);

/* Elements of a value, of dims that are not known the most. */
double matmul_elements(const MatmulPlan *plan, const Value *value);
/* Whether what is loaded once should be the first that L2 gives up, so that it drives out neither what is
 * read again nor what others wrote. Of streams many times its size nothing would stay anyway, and they are
 * faster when L2 writes those lines back at once (H200, reading behind a kernel that wrote 256 MB: 34.2
 * against 37.8 us for 117 MB, but 117.4 against 112.9 for 470 MB). */
bool matmul_leaves_l2(const MatmulPlan *plan, const MatmulOperand *operand);

#endif
