/* Reading tensors from .safetensors files, with nothing trusted. */
#ifndef SINTER_RUNTIME_SAFETENSORS_H
#define SINTER_RUNTIME_SAFETENSORS_H

#include "runtime/npy.h"

/* The tensor `tensor` of the file's bytes; NULL: the only one. False, with a DIAG_DATA that begins with
 * `name`. */
bool safetensors_find(const void *bytes, size_t n, const char *name, const char *tensor, Diags *diags,
                      RawArray *out);

#endif
