/* A directory of a test's own. */
#ifndef TESTS_UNIT_RUNTIME_HOME_H
#define TESTS_UNIT_RUNTIME_HOME_H

#include "tests/unit/runtime/support.h"

#include "runtime/spawn.h"

/* Its path, under $TMPDIR. */
typedef char Home[256];

static inline int home_make(Home home) {
    const char *parent = getenv("TMPDIR");
    return spawn_directory(parent ? parent : "/tmp", home, sizeof(Home)) ? 0 : -1;
}

static inline void home_remove(const Home home) {
    Arena *arena = arena_new(0);
    Text said = text_new(arena);
    spawn_run((const char *const[]){"/bin/rm", "-rf", home, NULL}, &said);
    arena_free(arena);
}

#endif
