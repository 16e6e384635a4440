/* Machine code of one kernel: what a backend made of it, and what is known of it. Plain data, so that it can
 * be cached and packed. */
#ifndef SINTER_RUNTIME_IMAGE_H
#define SINTER_RUNTIME_IMAGE_H

#include "ir/base/diag.h"

typedef enum ImageBackend { IMAGE_LLVM, IMAGE_NVRTC, IMAGE_BACKENDS } ImageBackend;
typedef enum ImageAssembler {
    IMAGE_NOT_ASSEMBLED,
    IMAGE_PTXAS,
    IMAGE_BY_NVRTC,
    IMAGE_BY_DRIVER
} ImageAssembler;

/* What the assembler reports; all 0 where nobody did. */
typedef struct ImageFigures {
    int registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_shared_bytes, barriers;
    int serialized; /* warnings that wgmma was serialized (C75xx) */
} ImageFigures;

typedef struct Image {
    const char *entry; /* the function's name in it: of the kernel that it was made for first */
    ImageBackend backend;
    ImageAssembler assembler;
    const char *ptx; /* NUL-terminated; NULL: none */
    size_t ptx_bytes;
    const void *cubin; /* NULL: none; the driver then assembles the PTX */
    size_t cubin_bytes;
    const char *log; /* of the compiler and the assembler; "" where they said nothing */
    ImageFigures figures;
} Image;

const char *image_backend_name(ImageBackend backend);
const char *image_assembler_name(ImageAssembler assembler);

/* Reads what `ptxas -v` says, from its own output or from NVRTC's log. */
ImageFigures image_read_log(const char *log);

/* To bytes and back. Decoding trusts nothing: false where the bytes are not what image_encode() of this
 * version wrote. */
void image_encode(Text *out, const Image *image);
bool image_decode(Arena *arena, const void *bytes, size_t n, Image *out);

#endif
