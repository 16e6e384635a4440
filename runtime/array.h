/* Tensors in host memory, in the element's packed format and under any strides: what files hold and what
 * kernels read. */
#ifndef SINTER_RUNTIME_ARRAY_H
#define SINTER_RUNTIME_ARRAY_H

#include "ir/graph.h"
#include "ir/reference.h"

typedef struct Array {
    DType dtype;
    int rank;
    int64_t dims[RANK_MAX];
    int64_t strides[RANK_MAX]; /* elements, at least 0 */
    int64_t count;             /* elements: the product of the dims */
    int64_t extent;            /* elements of memory from the first to past the last */
    int64_t bytes;             /* of the memory */
    uint8_t *at;
} Array;

/* An array of zeros; strides NULL: packed row-major. False where a size is negative or overflows. */
bool array_new(Arena *arena, DType dtype, int rank, const int64_t *dims, const int64_t *strides, Array *out);
/* An array for an input or output of a graph under these dims. False, with a diagnostic, where they do not
 * suffice. */
bool array_for(Arena *arena, const Value *value, const Dim *const *strides, const DimBindings *bindings,
               Diags *diags, Array *out);
/* Where the row-major number `element` lies in memory, in elements. */
int64_t array_offset(const Array *array, int64_t element);
Number array_get(const Array *array, int64_t element);
void array_set(Array *array, int64_t element, Number value);
/* To and from the reference's tensors; types and dims are equal. */
bool array_to_tensor(Arena *arena, const Array *array, Tensor *out);
void array_from_tensor(const Tensor *tensor, Array *out);
/* "[3, 17]" of an element, for messages. */
const char *array_coordinates(Arena *arena, const Array *array, int64_t element);

#endif
