/* Form: "SINTERK1" | graphs | images | BLAKE3 of all before it. Numbers are 8 bytes, little end first; a
 * block is its length and its bytes. */
#include "runtime/pack.h"

#include <string.h>

#include "ir/vendor/blake3/blake3.h"

static const char PACK_MAGIC[8] = "SINTERK1";
enum { PACK_COUNT_MOST = 1 << 20 };
enum { PACK_NO_FUSION = 1, PACK_NO_VARIANTS = 2 };

static void pack_hash(const void *bytes, size_t n, uint8_t out[BLAKE3_OUT_LEN]) {
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, bytes, n);
    blake3_hasher_finalize(&hasher, out, BLAKE3_OUT_LEN);
}

void pack_key(const char *target, const char *form, uint8_t key[CACHE_KEY_BYTES]) {
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    const char *parts[] = {target, form};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        blake3_hasher_update(&hasher, parts[i], strlen(parts[i]) + 1); /* the NUL keeps them apart */
    blake3_hasher_finalize(&hasher, key, CACHE_KEY_BYTES);
}

Pack pack_new(Arena *arena) {
    return (Pack){.arena = arena};
}

const PackImage *pack_find(const Pack *pack, const uint8_t key[CACHE_KEY_BYTES]) {
    for (size_t i = 0; i < pack->images.n; i++)
        if (memcmp(pack->images.at[i].key, key, CACHE_KEY_BYTES) == 0)
            return &pack->images.at[i];
    return NULL;
}

static void pack_add_kernel(Pack *pack, const sinter_plan *plan, const PlanKernel *kernel) {
    PackImage entry;
    if (!kernel->has_image)
        return;
    pack_key(plan->target->name, kernel->form, entry.key);
    if (pack_find(pack, entry.key))
        return;
    Text bytes = text_new(pack->arena);
    image_encode(&bytes, &kernel->machine.image);
    entry.image = (Bytes){(const uint8_t *)bytes.at, bytes.n};
    vec_push(pack->arena, &pack->images, entry);
}

static void pack_add_kernels(Pack *pack, const sinter_plan *plan) {
    for (int i = 0; i < plan->n_kernels; i++)
        for (const PlanKernel *kernel = &plan->kernels[i]; kernel; kernel = kernel->passed_over)
            pack_add_kernel(pack, plan, kernel);
}

void pack_add(Pack *pack, const sinter_plan *plan, const char *name, const char *text) {
    PackGraph graph = {.name = arena_strdup(pack->arena, name),
                       .text = arena_strdup(pack->arena, text),
                       .target = arena_strdup(pack->arena, plan->target->name),
                       .no_fusion = plan->no_fusion,
                       .no_variants = plan->no_variants};
    for (int i = 0; i < plan->n_bound; i++)
        vec_push(pack->arena, &graph.dims,
                 ((sinter_dim){arena_strdup(pack->arena, plan->bound[i].name), plan->bound[i].value}));
    vec_push(pack->arena, &pack->graphs, graph);
    pack_add_kernels(pack, plan);
    for (int i = 0; i < plan->n_variants; i++)
        pack_add_kernels(pack, plan->variants[i]);
}

static void pack_put_number(Text *out, uint64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(value >> 8 * i);
    text_add_bytes(out, bytes, 8);
}

static void pack_put_block(Text *out, const void *bytes, size_t n) {
    pack_put_number(out, n);
    text_add_bytes(out, bytes, n);
}

static void pack_put_text(Text *out, const char *text) {
    pack_put_block(out, text, strlen(text));
}

void pack_encode(Text *out, const Pack *pack) {
    size_t begin = out->n;
    text_add_bytes(out, PACK_MAGIC, sizeof PACK_MAGIC);
    pack_put_number(out, pack->graphs.n);
    for (size_t i = 0; i < pack->graphs.n; i++) {
        const PackGraph *graph = &pack->graphs.at[i];
        pack_put_text(out, graph->name);
        pack_put_text(out, graph->text);
        pack_put_text(out, graph->target);
        pack_put_number(out, graph->no_fusion * PACK_NO_FUSION + graph->no_variants * PACK_NO_VARIANTS);
        pack_put_number(out, graph->dims.n);
        for (size_t k = 0; k < graph->dims.n; k++) {
            pack_put_text(out, graph->dims.at[k].name);
            pack_put_number(out, (uint64_t)graph->dims.at[k].value);
        }
    }
    pack_put_number(out, pack->images.n);
    for (size_t i = 0; i < pack->images.n; i++) {
        text_add_bytes(out, (const char *)pack->images.at[i].key, CACHE_KEY_BYTES);
        pack_put_block(out, pack->images.at[i].image.at, pack->images.at[i].image.n);
    }
    uint8_t sum[BLAKE3_OUT_LEN];
    pack_hash(out->at + begin, out->n - begin, sum);
    text_add_bytes(out, (const char *)sum, sizeof sum);
}

typedef struct PackReader {
    Arena *arena;
    const uint8_t *at;
    size_t left;
    bool ok;
} PackReader;

static const uint8_t *pack_get_bytes(PackReader *r, size_t n) {
    if (!r->ok || n > r->left) {
        r->ok = false;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += n;
    r->left -= n;
    return at;
}

static uint64_t pack_get_number(PackReader *r) {
    const uint8_t *at = pack_get_bytes(r, 8);
    uint64_t value = 0;
    for (int i = 7; i >= 0 && at; i--)
        value = value << 8 | at[i];
    return value;
}

static const char *pack_get_text(PackReader *r) {
    size_t n = (size_t)pack_get_number(r);
    const char *at = (const char *)pack_get_bytes(r, n);
    return at ? arena_strndup(r->arena, at, n) : "";
}

static uint64_t pack_get_count(PackReader *r) {
    uint64_t n = pack_get_number(r);
    if (n > PACK_COUNT_MOST)
        r->ok = false;
    return r->ok ? n : 0;
}

bool pack_is(const void *bytes, size_t n) {
    return n >= sizeof PACK_MAGIC && memcmp(bytes, PACK_MAGIC, sizeof PACK_MAGIC) == 0;
}

bool pack_decode(Arena *arena, const void *bytes, size_t n, const char *name, Diags *diags, Pack *out) {
    *out = pack_new(arena);
    uint8_t sum[BLAKE3_OUT_LEN];
    bool whole = pack_is(bytes, n) && n >= sizeof PACK_MAGIC + sizeof sum;
    if (whole) {
        pack_hash(bytes, n - sizeof sum, sum);
        whole = memcmp(sum, (const uint8_t *)bytes + n - sizeof sum, sizeof sum) == 0;
    }
    if (!whole) {
        diag_error(diags, DIAG_DATA, (Span){0}, "%s is not a whole pack of this version of Sinter", name);
        return false;
    }
    PackReader r = {arena, (const uint8_t *)bytes + sizeof PACK_MAGIC, n - sizeof PACK_MAGIC - sizeof sum,
                    true};
    uint64_t graphs = pack_get_count(&r);
    for (uint64_t i = 0; i < graphs && r.ok; i++) {
        PackGraph graph = {.name = pack_get_text(&r)};
        graph.text = pack_get_text(&r);
        graph.target = pack_get_text(&r);
        uint64_t flags = pack_get_number(&r);
        graph.no_fusion = flags & PACK_NO_FUSION;
        graph.no_variants = flags & PACK_NO_VARIANTS;
        uint64_t dims = pack_get_count(&r);
        for (uint64_t k = 0; k < dims && r.ok; k++) {
            const char *dim = pack_get_text(&r);
            vec_push(arena, &graph.dims, ((sinter_dim){dim, (int64_t)pack_get_number(&r)}));
        }
        vec_push(arena, &out->graphs, graph);
    }
    uint64_t images = pack_get_count(&r);
    for (uint64_t i = 0; i < images && r.ok; i++) {
        PackImage image = {0};
        const uint8_t *key = pack_get_bytes(&r, CACHE_KEY_BYTES);
        if (key)
            memcpy(image.key, key, CACHE_KEY_BYTES);
        image.image.n = (size_t)pack_get_number(&r);
        image.image.at = pack_get_bytes(&r, image.image.n);
        vec_push(arena, &out->images, image);
    }
    if (r.ok && r.left == 0 && out->graphs.n)
        return true;
    diag_error(diags, DIAG_DATA, (Span){0}, "%s is damaged", name);
    return false;
}

typedef struct PackUse {
    sinter_context *context;
    const void *bytes;
    size_t n;
    bool ok;
} PackUse;

static void pack_use_body(void *argument) {
    PackUse *use = argument;
    Arena *arena = use->context->arena;
    Diags diags = {.arena = arena};
    uint8_t *copy = ARENA_ARRAY(arena, uint8_t, use->n + 1);
    Pack *pack = ARENA_NEW(arena, Pack);
    memcpy(copy, use->bytes, use->n);
    use->ok = pack_decode(arena, copy, use->n, "the pack", &diags, pack);
    if (use->ok)
        use->context->pack = pack;
    else
        use->context->report = report_make(arena, NULL, &diags);
}

sinter_status sinter_context_use_pack(sinter_context *context, const void *bytes, size_t n) {
    PackUse use = {context, bytes, n, false};
    if (!arena_run(context->arena, pack_use_body, &use))
        return SINTER_OUT_OF_MEMORY;
    return use.ok ? SINTER_OK : SINTER_BAD_DATA;
}
