/* Packs (.sgk): compiled graphs in one file, to be run later where no backend is (sinter_context_use_pack(),
 * or any verb of the command line with the pack in place of a graph file).
 *
 * A pack holds the canonical text of each graph, the target, the dims compiled in, and its kernels' images.
 * Opening one runs the passes and the code generator again, which takes milliseconds, and takes an image
 * wherever a kernel is exactly one that was packed, apart from names; a newer Sinter that generates another
 * kernel compiles it anew. */
#ifndef SINTER_RUNTIME_PACK_H
#define SINTER_RUNTIME_PACK_H

#include "runtime/plan.h"

typedef struct PackImage {
    uint8_t key[CACHE_KEY_BYTES]; /* of the kernel's form and the target: pack_key() */
    Bytes image;                  /* image_encode()'s */
} PackImage;

typedef struct PackGraph {
    const char *name, *text, *target;
    VEC(sinter_dim) dims;
    bool no_fusion, no_variants;
} PackGraph;

typedef struct Pack {
    Arena *arena;
    VEC(PackGraph) graphs;
    VEC(PackImage) images;
} Pack;

Pack pack_new(Arena *arena);
/* Adds a plan that was compiled, and the text of the graph that it came from. Copies everything. */
void pack_add(Pack *pack, const sinter_plan *plan, const char *name, const char *text);
void pack_encode(Text *out, const Pack *pack);
/* Trusts nothing: false, with a diagnostic that begins with `name`. What `out` holds lies in the bytes and in
 * its arena. */
bool pack_decode(Arena *arena, const void *bytes, size_t n, const char *name, Diags *diags, Pack *out);
bool pack_is(const void *bytes, size_t n);

/* `form`: the kernel's, as PlanKernel has it. */
void pack_key(const char *target, const char *form, uint8_t key[CACHE_KEY_BYTES]);
/* The image of a kernel; NULL where the pack has none. */
const PackImage *pack_find(const Pack *pack, const uint8_t key[CACHE_KEY_BYTES]);

#endif
