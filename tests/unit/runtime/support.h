/* What the tests of this room share: cmocka, and an arena whose contents are used below arena_run(). */
#ifndef TESTS_UNIT_RUNTIME_SUPPORT_H
#define TESTS_UNIT_RUNTIME_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/spawn.h"

static inline bool said(const Diags *diags, DiagId id, const char *part) {
    for (size_t i = 0; i < diags->list.n; i++)
        if (diags->list.at[i].id == id && strstr(diags->list.at[i].message, part))
            return true;
    return false;
}

/* A directory of the test's own under $TMPDIR: its path, until it goes with all that is in it. */
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
