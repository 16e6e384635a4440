/* Indices of memory, laid out for the compilers that follow. */
#ifndef SINTER_CODEGEN_KERNEL_INDEX_H
#define SINTER_CODEGEN_KERNEL_INDEX_H

#include "codegen/kernel_build.h"

/* The same index with what unrolled loops make constant as its last terms, out of the lets it stands in:
 *
 *     row * 64 + col, where row = lane_row + h * 8, col = lane_col + g * 16    becomes
 *     lane_row * 64 + lane_col + h * 512 + g * 16
 *
 * so that the accesses of all turns share one address register and differ in the instruction's immediate
 * offset. LLVM finds that by itself; NVVM, behind NVRTC, widens each sum to 64 bits on its own, and holds as
 * many addresses as there are turns. The index itself where there is nothing to gain. */
const KExpr *k_index_unrolled_last(Builder *b, const KExpr *index);

#endif
