/* NumPy's .npy files (format versions 1 to 3), read with nothing trusted, and written.
 *
 * NumPy has no bf16, fp8 or 4-bit types. They are raw bytes there ('|V2', '|V1', or unsigned integers of the
 * same size, which the graph's type gives their meaning), and written so. An f32 or f64 file may stand for
 * any float type: its values are rounded once. Small integers may stand for 4-bit types, one a byte. */
#ifndef SINTER_RUNTIME_NPY_H
#define SINTER_RUNTIME_NPY_H

#include "runtime/array.h"

/* A numeric array inside some file's bytes, whatever its container. */
typedef struct RawArray {
    char kind;    /* 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'V' raw bytes */
    int size;     /* bytes of an element */
    DType dtype;  /* DTYPE_COUNT where the container cannot name it */
    bool fortran; /* first axis innermost */
    int rank;
    int64_t dims[RANK_MAX];
    int64_t count;
    const uint8_t *at; /* count * size bytes, little endian, not aligned */
} RawArray;

/* False, with a DIAG_DATA that begins with `name`, where the bytes are not such a file. */
bool npy_parse(const void *bytes, size_t n, const char *name, Diags *diags, RawArray *out);
/* Copies the elements into `out`, whose type and dims are set; false, with a diagnostic, where they do not
 * fit. */
bool raw_array_copy(const RawArray *raw, const char *name, Array *out, Diags *diags);
/* The file's bytes for an array. */
void npy_format(Text *out, const Array *array);

#endif
