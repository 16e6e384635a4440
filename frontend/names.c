/* Hashing by FNV-1a. The distance counts insertions, deletions, substitutions and swaps of neighbours
 * (optimal string alignment); a candidate counts as near within a third of the wanted name's length, so that
 * short names are not matched to anything. */
#include "frontend/names.h"

#include <string.h>
#include <strings.h>

#include "ir/base/text.h"

enum { NAMES_LONGEST_COMPARED = 40 };

static size_t names_slot(const Names *names, const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (const char *p = name; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 1099511628211u;
    size_t slot = (size_t)(hash ^ hash >> 32) & (names->room - 1);
    while (names->at[slot].name && strcmp(names->at[slot].name, name) != 0)
        slot = (slot + 1) & (names->room - 1);
    return slot;
}

Names names_new(Arena *arena) {
    return (Names){.arena = arena};
}

void *names_find(const Names *names, const char *name) {
    return names->room ? names->at[names_slot(names, name)].item : NULL;
}

void names_put(Names *names, const char *name, void *item) {
    if (2 * (names->n + 1) > names->room) {
        Names grown = {.arena = names->arena, .room = names->room ? 2 * names->room : 16};
        grown.at = ARENA_ARRAY(names->arena, NameEntry, grown.room);
        for (size_t i = 0; i < names->room; i++)
            if (names->at[i].name)
                grown.at[names_slot(&grown, names->at[i].name)] = names->at[i];
        grown.n = names->n;
        *names = grown;
    }
    size_t slot = names_slot(names, name);
    names->n += !names->at[slot].name;
    names->at[slot] = (NameEntry){name, item};
}

static int names_min(int a, int b) {
    return a < b ? a : b;
}

static int names_distance(const char *a, const char *b) {
    int na = (int)strlen(a), nb = (int)strlen(b);
    int rows[3][NAMES_LONGEST_COMPARED + 1];
    for (int j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            row[j] = names_min(names_min(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = names_min(row[j], above2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

Suggestion suggestion_new(const char *wanted) {
    int n = (int)strlen(wanted);
    return (Suggestion){.wanted = wanted,
                        .distance = n > NAMES_LONGEST_COMPARED ? 0
                                    : n < 3                    ? n + 1
                                                               : 2 + n / 3};
}

void suggestion_offer(Suggestion *suggestion, const char *candidate) {
    size_t n = strlen(candidate);
    if (suggestion->distance == 0 || n > NAMES_LONGEST_COMPARED)
        return;
    int distance = names_distance(suggestion->wanted, candidate);
    size_t longer = n > strlen(suggestion->wanted) ? n : strlen(suggestion->wanted);
    if (distance >= (int)longer && strcasecmp(candidate, suggestion->wanted) != 0)
        return; /* nothing in common */
    if (distance < suggestion->distance) {
        suggestion->best = candidate;
        suggestion->distance = distance;
    } else if (distance == suggestion->distance && suggestion->best &&
               strcmp(candidate, suggestion->best) < 0) {
        suggestion->best = candidate; /* of equals the first by name, in whatever order they are offered */
    }
}

void suggestion_offer_all(Suggestion *suggestion, const Names *names) {
    for (size_t i = 0; i < names->room; i++)
        if (names->at[i].name)
            suggestion_offer(suggestion, names->at[i].name);
}

const char *suggestion_text(Arena *arena, const Suggestion *suggestion) {
    return suggestion->best ? text_format(arena, "; did you mean '%s'?", suggestion->best) : "";
}
