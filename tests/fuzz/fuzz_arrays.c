/* Bytes from anywhere as .npy and as .safetensors. What is accepted is copied, so that a sanitizer sees every
 * read. */
#include <stdlib.h>
#include <string.h>

#include "runtime/safetensors.h"

typedef struct Fuzz {
    Arena *arena;
    const uint8_t *data;
    size_t size;
} Fuzz;

static void fuzz_copy(const Fuzz *fuzz, const RawArray *raw, Diags *diags) {
    DType types[] = {raw->dtype, DTYPE_BF16, DTYPE_E4M3, DTYPE_I4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Array array;
        if (types[i] != DTYPE_COUNT && raw->count < 1 << 16 &&
            array_new(fuzz->arena, types[i], raw->rank, raw->dims, NULL, &array))
            raw_array_copy(raw, "input", &array, diags);
    }
}

static void fuzz_body(void *context) {
    const Fuzz *fuzz = context;
    Diags diags = {.arena = fuzz->arena};
    RawArray raw;
    if (npy_parse(fuzz->data, fuzz->size, "input", &diags, &raw))
        fuzz_copy(fuzz, &raw, &diags);
    if (safetensors_find(fuzz->data, fuzz->size, "input", NULL, &diags, &raw))
        fuzz_copy(fuzz, &raw, &diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Fuzz fuzz = {arena_new((size_t)64 << 20), data, size};
    arena_run(fuzz.arena, fuzz_body, &fuzz);
    arena_free(fuzz.arena);
    return 0;
}
