/* libFuzzer over the front end: any bytes are parsed, printed and parsed again, and formatted. Nothing may
 * crash, hang or leak; what parses must print to a text that parses to a graph of the same hash. From the
 * root of the tree:
 *
 *   make BUILD=build/fuzz build/fuzz/frontend/parser.c build/fuzz/frontend/lexer.c
 * build/fuzz/frontend/library.c
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I. -Ibuild/fuzz
 * -D_GNU_SOURCE \
 *       -DBLAKE3_NO_SSE2 -DBLAKE3_NO_SSE41 -DBLAKE3_NO_AVX2 -DBLAKE3_NO_AVX512 tests/fuzz/fuzz_frontend.c
 * frontend/[a-z]*.c \
 *       build/fuzz/frontend/[a-z]*.c ir/[a-z]*.c ir/base/[a-z]*.c ir/vendor/blake3/blake3.c
 * ir/vendor/blake3/blake3_dispatch.c \ ir/vendor/blake3/blake3_portable.c -lm -o build/fuzz/fuzz_frontend
 *   mkdir -p build/fuzz/corpus && cp tests/unit/frontend/graphs/[a-z]*.sg tests/diag/[a-z]*.sg
 * frontend/library.sg build/fuzz/corpus build/fuzz/fuzz_frontend -max_total_time=60 -timeout=5
 * -rss_limit_mb=1024 -dict=tests/fuzz/frontend.dict build/fuzz/corpus */
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/print.h"

typedef struct Input {
    Arena *arena;
    const char *text;
    size_t n;
} Input;

static bool fuzz_parse(Arena *arena, const char *text, size_t n, Module *module) {
    SourceSet *sources = source_set_new(arena);
    Diags diags = {.arena = arena};
    uint32_t file = source_add(sources, "fuzz.sg", text, n);
    bool good = frontend_parse(arena, sources, file, &(FrontendLimits){.max_values = 2000}, &diags, module);
    Text out = text_new(arena);
    for (size_t i = 0; i < diags.list.n; i++)
        diagnostic_print(&out, sources, &diags.list.at[i], i % 2);
    if (good != (diags.errors == 0))
        abort();
    return good;
}

static void fuzz_round_trip(Arena *arena, const Graph *graph) {
    Text text = text_new(arena);
    graph_print(&text, graph);
    Module again;
    uint8_t a[GRAPH_HASH_BYTES], b[GRAPH_HASH_BYTES];
    if (!fuzz_parse(arena, text.at, text.n, &again) || again.graphs.n != 1)
        abort();
    graph_hash(graph, a);
    graph_hash(again.graphs.at[0], b);
    if (memcmp(a, b, sizeof a) != 0)
        abort();
}

static void fuzz_format(Arena *arena, const char *text, size_t n) {
    SourceSet *sources = source_set_new(arena);
    Diags diags = {.arena = arena};
    Text once, twice;
    if (!frontend_format(arena, sources, source_add(sources, "fuzz.sg", text, n), &diags, &once))
        return;
    if (!frontend_format(arena, sources, source_add(sources, "again.sg", once.at, once.n), &diags, &twice))
        abort();
    if (strcmp(once.at, twice.at) != 0)
        abort();
}

static void fuzz_body(void *context) {
    const Input *input = context;
    Module module;
    if (fuzz_parse(input->arena, input->text, input->n, &module))
        for (size_t i = 0; i < module.graphs.n; i++)
            fuzz_round_trip(input->arena, module.graphs.at[i]);
    fuzz_format(input->arena, input->text, input->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input = {arena_new((size_t)256 << 20), (const char *)data, size};
    arena_run(input.arena, fuzz_body, &input);
    arena_free(input.arena);
    return 0;
}
