/* Runs of elements between registers and shared memory, in accesses of at most 16 bytes. */
#ifndef SINTER_CODEGEN_TEMPLATES_VECTORS_H
#define SINTER_CODEGEN_TEMPLATES_VECTORS_H

#include "codegen/kernel_build.h"

/* The element type that holds a register of this type in shared memory. */
DType vectors_element(KType type);
/* array[at .. at + width) to buffer[index .. index + width), and back; width is a power of two. */
void vectors_store(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *array, const KExpr *at,
                   int width);
void vectors_load(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *array, const KExpr *at,
                  int width);

#endif
