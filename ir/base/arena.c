#include "ir/base/arena.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, ARENA_CHUNK_FIRST = 16 << 10, ARENA_CHUNK_MOST = 1 << 20 };

/* Memory is a list of chunks, the newest first; only the newest is allocated from. What lies behind `used` is
 * zero: as the system hands it out, so that pages that nobody touches cost nothing. */
typedef struct Chunk {
    struct Chunk *older;
    size_t used, room; /* bytes behind this header */
} Chunk;
enum { CHUNK_HEADER = (sizeof(Chunk) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN };

typedef struct Deferred {
    struct Deferred *older;
    void (*release)(void *object);
    void *object;
} Deferred;

/* One arena_run() in progress. */
typedef struct Frame {
    struct Frame *outer;
    Deferred *deferred; /* what was registered before this run began, and survives its failure */
    jmp_buf back;
} Frame;

struct Arena {
    Chunk *chunk;
    size_t total, limit; /* bytes handed out, rounded up to the alignment */
    size_t next_room;
    uint64_t fail_at; /* allocations until the planned fault; 0: none is planned */
    Deferred *deferred;
    Frame *frame;
};

Arena *arena_new(size_t limit) {
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        return NULL;
    arena->limit = limit ? limit : SIZE_MAX;
    arena->next_room = ARENA_CHUNK_FIRST;
    return arena;
}

static void arena_run_deferred(Arena *arena, Deferred *until) {
    while (arena->deferred != until) {
        Deferred *latest = arena->deferred;
        arena->deferred = latest->older;
        latest->release(latest->object);
    }
}

static void arena_drop_chunks(Arena *arena, Chunk *until) {
    while (arena->chunk != until) {
        Chunk *older = arena->chunk->older;
        free(arena->chunk);
        arena->chunk = older;
    }
}

void arena_free(Arena *arena) {
    if (!arena)
        return;
    arena_run_deferred(arena, NULL);
    arena_drop_chunks(arena, NULL);
    free(arena);
}

_Noreturn void arena_give_up(Arena *arena) {
    if (!arena->frame)
        abort();
    longjmp(arena->frame->back, 1);
}

/* NULL where the allocation fails, by limit, by system or by plan. */
static void *arena_try(Arena *arena, size_t size) {
    if (arena->fail_at && --arena->fail_at == 0)
        return NULL;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (size == 0)
        size = ARENA_ALIGN; /* so that every pointer is one's own */
    if (size > arena->limit - arena->total)
        return NULL;
    if (!arena->chunk || size > arena->chunk->room - arena->chunk->used) {
        size_t room = arena->next_room > size ? arena->next_room : size;
        Chunk *chunk = calloc(1, CHUNK_HEADER + room);
        if (!chunk)
            return NULL;
        *chunk = (Chunk){.older = arena->chunk, .room = room};
        arena->chunk = chunk;
        if (arena->next_room < ARENA_CHUNK_MOST)
            arena->next_room *= 2;
    }
    void *at = (char *)arena->chunk + CHUNK_HEADER + arena->chunk->used;
    arena->chunk->used += size;
    arena->total += size;
    return at;
}

void *arena_alloc(Arena *arena, size_t size) {
    void *at = arena_try(arena, size);
    if (!at)
        arena_give_up(arena);
    return at;
}

void *arena_alloc_array(Arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        arena_give_up(arena);
    return arena_alloc(arena, bytes);
}

char *arena_strdup(Arena *arena, const char *text) {
    return arena_strndup(arena, text, strlen(text));
}

char *arena_strndup(Arena *arena, const char *text, size_t length) {
    length = strnlen(text, length);
    char *copy = arena_alloc(arena, length + 1);
    return memcpy(copy, text, length);
}

bool arena_run(Arena *arena, void (*body)(void *context), void *context) {
    Frame frame = {.outer = arena->frame, .deferred = arena->deferred};
    arena->frame = &frame;
    bool done = setjmp(frame.back) == 0;
    if (done)
        body(context);
    arena->frame = frame.outer;
    if (!done)
        arena_run_deferred(arena, frame.deferred);
    return done;
}

void arena_defer(Arena *arena, void (*release)(void *object), void *object) {
    Deferred *deferred = arena_try(arena, sizeof *deferred);
    if (!deferred) {
        release(object); /* nobody else could */
        arena_give_up(arena);
    }
    *deferred = (Deferred){.older = arena->deferred, .release = release, .object = object};
    arena->deferred = deferred;
}

ArenaMark arena_mark(Arena *arena) {
    return (ArenaMark){
        .chunk = arena->chunk, .used = arena->chunk ? arena->chunk->used : 0, .total = arena->total};
}

void arena_release(Arena *arena, ArenaMark mark) {
    arena_drop_chunks(arena, mark.chunk);
    if (arena->chunk) {
        memset((char *)arena->chunk + CHUNK_HEADER + mark.used, 0, arena->chunk->used - mark.used);
        arena->chunk->used = mark.used;
    }
    arena->total = mark.total;
}

size_t arena_used(const Arena *arena) {
    return arena->total;
}

void arena_fail_at(Arena *arena, uint64_t n) {
    arena->fail_at = n;
}
