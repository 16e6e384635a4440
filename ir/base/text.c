#include "ir/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Text text_new(Arena *arena) {
    return (Text){.arena = arena, .at = arena_alloc(arena, 64), .room = 64};
}

/* Makes room for `n` more bytes and the NUL. */
static void text_reserve(Text *text, size_t n) {
    if (n < text->room - text->n)
        return;
    size_t room = text->room;
    while (n >= room - text->n) {
        if (room > SIZE_MAX / 4)
            arena_give_up(text->arena);
        room *= 2;
    }
    char *at = arena_alloc(text->arena, room);
    memcpy(at, text->at, text->n);
    text->at = at;
    text->room = room;
}

void text_add_bytes(Text *text, const char *bytes, size_t n) {
    text_reserve(text, n);
    if (n)
        memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

void text_addv(Text *text, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(text->at + text->n, text->room - text->n, format, args);
    if (n > 0 && (size_t)n >= text->room - text->n) {
        text_reserve(text, (size_t)n);
        vsnprintf(text->at + text->n, text->room - text->n, format, again);
    }
    va_end(again);
    if (n > 0)
        text->n += (size_t)n;
    text->at[text->n] = '\0';
}

void text_add(Text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_addv(text, format, args);
    va_end(args);
}

void text_add_double(Text *text, double value) {
    if (isnan(value)) {
        text_add(text, "nan");
        return;
    }
    if (isinf(value)) {
        text_add(text, value > 0 ? "inf" : "-inf");
        return;
    }
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    /* A host program's locale may have another decimal point. */
    for (char *c = digits; *c; c++)
        if (!strchr("0123456789+-e", *c))
            *c = '.';
    text_add(text, "%s", digits);
}

char *text_format(Arena *arena, const char *format, ...) {
    Text text = text_new(arena);
    va_list args;
    va_start(args, format);
    text_addv(&text, format, args);
    va_end(args);
    return text.at;
}
