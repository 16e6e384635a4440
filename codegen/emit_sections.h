/* A text in sections, of which only those are printed that are used: the prelude of device functions, and the
 * functions in LLVM IR of the other backend.
 *
 * A section begins at a line "MARK name name ..." and ends before the next such line; it defines those names.
 * It is used where one of them occurs, as a whole word, in the text that it serves or in another used
 * section. A word "sm>=89" or "sm<89" behind the names restricts it to those targets. */
#ifndef SINTER_CODEGEN_EMIT_SECTIONS_H
#define SINTER_CODEGEN_EMIT_SECTIONS_H

#include "ir/base/text.h"
#include "ir/base/vec.h"

typedef struct Section {
    const char *names[8];
    size_t name_bytes[8];
    int n_names;
    const char *text; /* without the mark's line */
    size_t bytes;
    bool is_used, is_printed;
} Section;

typedef struct Sections {
    Arena *arena;
    VEC(Section) list;
    int *buckets; /* hash of a name -> 1 + index of its section; linear probing */
    size_t n_buckets;
} Sections;

Sections sections_parse(Arena *arena, const char *text, const char *mark, int sm);
/* Whether a section defines this name. */
bool sections_define(const Sections *sections, const char *name, size_t bytes);
/* Marks what `text` uses, directly or through other sections. */
void sections_use(Sections *sections, const char *text, size_t bytes);
/* Appends the used sections that were not printed before, each behind those that it uses. */
void sections_print(Sections *sections, Text *out);

#endif
