/* Names: a table from name to item, and the search for the name that a misspelt one may have meant. */
#ifndef SINTER_FRONTEND_NAMES_H
#define SINTER_FRONTEND_NAMES_H

#include "ir/base/arena.h"

typedef struct NameEntry {
    const char *name; /* NULL: free */
    void *item;
} NameEntry;

typedef struct Names {
    Arena *arena;
    NameEntry *at; /* open addressing; `room` is a power of two */
    size_t n, room;
} Names;

Names names_new(Arena *arena);
void *names_find(const Names *names, const char *name);
void names_put(Names *names, const char *name, void *item); /* takes the place of an item of the same name */

/* The nearest of all candidates offered, by edit distance; `best` stays NULL where none is near enough to
 * help. */
typedef struct Suggestion {
    const char *wanted;
    const char *best;
    int distance;
} Suggestion;

Suggestion suggestion_new(const char *wanted);
void suggestion_offer(Suggestion *suggestion, const char *candidate);
void suggestion_offer_all(Suggestion *suggestion, const Names *names);
/* "; did you mean 'w'?", or "" where nothing is near. */
const char *suggestion_text(Arena *arena, const Suggestion *suggestion);

#endif
