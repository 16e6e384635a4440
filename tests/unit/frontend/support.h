/* What the front end's tests share: a file read whole, and a text parsed in a fresh arena. */
#ifndef SINTER_TESTS_FRONTEND_SUPPORT_H
#define SINTER_TESTS_FRONTEND_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frontend/frontend.h"

/* The bytes of a file, ended by NUL; the caller frees them. Tests run in the root of the tree. */
static inline char *read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *n = fread(text, 1, (1 << 20) - 1, file);
    text[*n] = 0;
    fclose(file);
    return text;
}

typedef struct Parsed {
    Arena *arena;
    SourceSet *sources;
    Diags *diags;
    Module module;
    bool good;
    bool ran; /* memory sufficed */
    const char *name, *text;
    size_t n;
    FrontendLimits limits;
} Parsed;

static inline void parsed_body(void *context) {
    Parsed *p = context;
    p->sources = source_set_new(p->arena);
    p->diags = ARENA_NEW(p->arena, Diags);
    p->diags->arena = p->arena;
    p->diags->error_limit = 200;
    uint32_t file = source_add(p->sources, p->name, p->text, p->n);
    p->good = frontend_parse(p->arena, p->sources, file, &p->limits, p->diags, &p->module);
}

static inline Parsed parse_bytes(const char *name, const char *text, size_t n) {
    Parsed p = {.arena = arena_new((size_t)256 << 20), .name = name, .text = text, .n = n};
    assert_non_null(p.arena);
    p.ran = arena_run(p.arena, parsed_body, &p);
    return p;
}

static inline Parsed parse_text(const char *text) {
    return parse_bytes("test.sg", text, strlen(text));
}

static inline void parsed_free(Parsed *p) {
    arena_free(p->arena);
}

/* All diagnostics as a person sees them. */
static inline const char *parsed_diagnostics(const Parsed *p) {
    Text text = text_new(p->arena);
    text_add(&text, "\n");
    for (size_t i = 0; i < p->diags->list.n; i++)
        diagnostic_print(&text, p->sources, &p->diags->list.at[i], false);
    return text.at;
}

static inline void assert_parsed(const Parsed *p) {
    assert_true(p->ran);
    if (!p->good)
        fail_msg("%s", parsed_diagnostics(p));
}

#endif
