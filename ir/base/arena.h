/* The memory of one graph or one compilation: allocated piece by piece, freed whole.
 *
 * Out of memory has one rule. Everything that takes from an arena runs below arena_run(); when the arena's
 * limit is reached, the system has no memory, or a test's fault comes due, control returns to the innermost
 * arena_run() of that arena, which answers false. So arena_alloc() never returns NULL and nobody below
 * arena_run() tests for it. What was opened on the way (files, LLVM contexts) is registered with
 * arena_defer() and closed by arena_free() or by the failing arena_run().
 *
 * Threads: an arena belongs to one thread at a time. */
#ifndef SINTER_IR_BASE_ARENA_H
#define SINTER_IR_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

/* A new arena that may hold `limit` bytes (0: no limit but the machine's). NULL where the system has no
 * memory. */
Arena *arena_new(size_t limit);
/* Runs the deferred calls, latest first, and frees all. NULL is allowed. */
void arena_free(Arena *arena);

/* Zeroed, aligned to 16. Calling it outside arena_run() when memory is short is a defect of the caller and
 * aborts. */
void *arena_alloc(Arena *arena, size_t size);
/* count * size, the product checked; an overflow counts as out of memory. */
void *arena_alloc_array(Arena *arena, size_t count, size_t size);
char *arena_strdup(Arena *arena, const char *text);
char *arena_strndup(Arena *arena, const char *text, size_t length);
#define ARENA_NEW(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
#define ARENA_ARRAY(arena, Type, count) ((Type *)arena_alloc_array((arena), (count), sizeof(Type)))

/* Calls body(context) and answers true, or false where memory ran out on the way. Nests. Locals that body
 * changes must be reached through `context`. */
bool arena_run(Arena *arena, void (*body)(void *context), void *context);
/* Calls release(object) when the arena is freed, or when the arena_run() around this call fails. */
void arena_defer(Arena *arena, void (*release)(void *object), void *object);
/* Gives up as if memory had run out; used where a limit on nodes, depth or time plays the same part. */
_Noreturn void arena_give_up(Arena *arena);

/* Memory taken since arena_mark() is given back by arena_release(); nothing deferred may lie between. */
typedef struct ArenaMark {
    void *chunk;
    size_t used;
    size_t total;
} ArenaMark;
ArenaMark arena_mark(Arena *arena);
void arena_release(Arena *arena, ArenaMark mark);

size_t arena_used(const Arena *arena);
/* For fault tests: the n-th allocation from now fails (1 = the next); 0 takes the fault back. */
void arena_fail_at(Arena *arena, uint64_t n);

#endif
