/* Bytes from anywhere as a cached image and as a pack. A pack's checksum would stop every mutation, so it is
 * made right first. */
#include <stdlib.h>
#include <string.h>

#include "ir/vendor/blake3/blake3.h"
#include "runtime/pack.h"

typedef struct Fuzz {
    Arena *arena;
    const uint8_t *data;
    size_t size;
} Fuzz;

static void fuzz_body(void *context) {
    const Fuzz *fuzz = context;
    Diags diags = {.arena = fuzz->arena};
    Image image;
    if (image_decode(fuzz->arena, fuzz->data, fuzz->size, &image)) {
        Text again = text_new(fuzz->arena);
        image_encode(&again, &image);
        if (again.n != fuzz->size)
            abort();
        image_read_log(image.log);
    }
    if (!pack_is(fuzz->data, fuzz->size))
        return;
    uint8_t *bytes = ARENA_ARRAY(fuzz->arena, uint8_t, fuzz->size + BLAKE3_OUT_LEN);
    memcpy(bytes, fuzz->data, fuzz->size);
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, bytes, fuzz->size);
    blake3_hasher_finalize(&hasher, bytes + fuzz->size, BLAKE3_OUT_LEN);
    Pack pack;
    pack_decode(fuzz->arena, bytes, fuzz->size + BLAKE3_OUT_LEN, "input", &diags, &pack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Fuzz fuzz = {arena_new((size_t)64 << 20), data, size};
    arena_run(fuzz.arena, fuzz_body, &fuzz);
    arena_free(fuzz.arena);
    return 0;
}
