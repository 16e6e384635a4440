/* Source texts, and the place of a byte in them. Files are numbered from 1; 0 is "no place". */
#ifndef SINTER_FRONTEND_SOURCE_H
#define SINTER_FRONTEND_SOURCE_H

#include "ir/base/diag.h"

typedef struct Source {
    const char *name; /* as the user gave it: "ffn.sg", "<stdin>" */
    const char *text; /* ends in NUL; may hold others */
    size_t n;
    VEC(uint32_t) lines; /* first byte of each line */
} Source;

typedef struct SourceSet {
    Arena *arena;
    VEC(Source) files;
} SourceSet;

SourceSet *source_set_new(Arena *arena);
uint32_t source_add(SourceSet *set, const char *name, const char *text,
                    size_t n); /* copies; the file's number */
/* 1-based line and column (in code points) of a byte. */
void source_locate(const SourceSet *set, uint32_t file, uint32_t byte, int *line, int *column);
/* `file:line:col: error: message [name]`, the line, and the caret line with the range (~~^~~); tabs and wide
 * characters aligned. */
void diagnostic_print(Text *out, const SourceSet *set, const Diagnostic *diagnostic, bool colour);

#endif
