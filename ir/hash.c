#include "ir/print.h"
#include "ir/vendor/blake3/blake3.h"

typedef struct Hash {
    Arena *arena;
    const Graph *graph;
    uint8_t *hash;
} Hash;

static void hash_text(void *context) {
    Hash *hash = context;
    Text text = text_new(hash->arena);
    graph_print_for_hash(&text, hash->graph);
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, text.at, text.n);
    blake3_hasher_finalize(&hasher, hash->hash, GRAPH_HASH_BYTES);
}

/* The text lies in an arena of its own: it goes at once, and threads that share a finished graph may all hash
 * it. */
void graph_hash(const Graph *graph, uint8_t out[GRAPH_HASH_BYTES]) {
    _Static_assert((int)GRAPH_HASH_BYTES == (int)BLAKE3_OUT_LEN, "the hash is a whole BLAKE3 output");
    Arena *arena = arena_new(0);
    Hash hash = {.arena = arena, .graph = graph, .hash = out};
    bool done = arena && arena_run(arena, hash_text, &hash);
    arena_free(arena);
    if (!done)
        arena_give_up(graph->arena);
}
