#include "codegen/emit_sections.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION_MAX_NAMES = sizeof((Section){0}.names) / sizeof(const char *) };

static size_t sections_hash(const char *name, size_t bytes) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static bool section_has_name(const Section *section, const char *name, size_t bytes) {
    for (int i = 0; i < section->n_names; i++)
        if (section->name_bytes[i] == bytes && memcmp(section->names[i], name, bytes) == 0)
            return true;
    return false;
}

/* The section that defines a name; NULL where there is none. */
static Section *sections_find(const Sections *sections, const char *name, size_t bytes) {
    for (size_t at = sections_hash(name, bytes) % sections->n_buckets; sections->buckets[at];
         at = (at + 1) % sections->n_buckets) {
        Section *section = &sections->list.at[sections->buckets[at] - 1];
        if (section_has_name(section, name, bytes))
            return section;
    }
    return NULL;
}

static void sections_index(Sections *sections) {
    size_t names = 0;
    for (size_t i = 0; i < sections->list.n; i++)
        names += (size_t)sections->list.at[i].n_names;
    sections->n_buckets = 2 * names + 1;
    sections->buckets = ARENA_ARRAY(sections->arena, int, sections->n_buckets);
    for (size_t i = 0; i < sections->list.n; i++) {
        const Section *section = &sections->list.at[i];
        for (int j = 0; j < section->n_names; j++) {
            size_t at = sections_hash(section->names[j], section->name_bytes[j]) % sections->n_buckets;
            while (sections->buckets[at])
                at = (at + 1) % sections->n_buckets;
            sections->buckets[at] = (int)i + 1;
        }
    }
}

/* Reads the line that begins a section: its names, and whether the target is one of its targets. */
static Section section_open(const char *line, const char *end, int sm) {
    Section section = {.text = end};
    bool is_for_target = true;
    for (const char *at = line; at < end;) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        const char *word = at;
        while (at < end && !isspace((unsigned char)*at))
            at++;
        if (strncmp(word, "sm>=", 4) == 0) {
            is_for_target &= sm >= atoi(word + 4);
        } else if (strncmp(word, "sm<", 3) == 0) {
            is_for_target &= sm < atoi(word + 3);
        } else if (at > word && section.n_names < SECTION_MAX_NAMES) {
            section.names[section.n_names] = word;
            section.name_bytes[section.n_names++] = (size_t)(at - word);
        }
    }
    if (!is_for_target)
        section.n_names = 0;
    return section;
}

static void section_close(Sections *sections, Section section, const char *end) {
    section.bytes = (size_t)(end - section.text);
    if (section.n_names)
        vec_push(sections->arena, &sections->list, section);
}

Sections sections_parse(Arena *arena, const char *text, const char *mark, int sm) {
    Sections sections = {.arena = arena};
    size_t mark_bytes = strlen(mark);
    Section open = {.text = text};
    const char *line = text;
    while (*line) {
        size_t bytes = strcspn(line, "\n");
        const char *next = line + bytes + (line[bytes] != 0);
        if (strncmp(line, mark, mark_bytes) == 0) {
            section_close(&sections, open, line);
            open = section_open(line + mark_bytes, next, sm);
        }
        line = next;
    }
    section_close(&sections, open, line);
    sections_index(&sections);
    return sections;
}

bool sections_define(const Sections *sections, const char *name, size_t bytes) {
    return sections_find(sections, name, bytes) != NULL;
}

static bool section_is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The next whole word at or behind *at; false at the end. */
static bool sections_next_word(const char **at, const char *end, const char **word, size_t *bytes) {
    while (*at < end && !section_is_word(**at))
        ++*at;
    *word = *at;
    while (*at < end && section_is_word(**at))
        ++*at;
    *bytes = (size_t)(*at - *word);
    return *bytes > 0;
}

void sections_use(Sections *sections, const char *text, size_t bytes) {
    const char *word, *at = text;
    size_t n;
    while (sections_next_word(&at, text + bytes, &word, &n)) {
        Section *section = sections_find(sections, word, n);
        if (!section || section->is_used)
            continue;
        section->is_used = true;
        sections_use(sections, section->text, section->bytes);
    }
}

static void section_print(Sections *sections, Section *section, Text *out) {
    if (section->is_printed)
        return;
    section->is_printed = true;
    const char *word, *at = section->text;
    size_t n;
    while (sections_next_word(&at, section->text + section->bytes, &word, &n)) {
        Section *used = sections_find(sections, word, n);
        if (used)
            section_print(sections, used, out);
    }
    text_add_bytes(out, section->text, section->bytes);
}

void sections_print(Sections *sections, Text *out) {
    for (size_t i = 0; i < sections->list.n; i++)
        if (sections->list.at[i].is_used)
            section_print(sections, &sections->list.at[i], out);
}
