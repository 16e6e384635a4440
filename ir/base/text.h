/* Text that grows on an arena. Always ends in NUL; `n` does not count it. */
#ifndef SINTER_IR_BASE_TEXT_H
#define SINTER_IR_BASE_TEXT_H

#include <stdarg.h>

#include "ir/base/arena.h"

typedef struct Text {
    Arena *arena;
    char *at;
    size_t n, room;
} Text;

Text text_new(Arena *arena);
void text_add(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_addv(Text *text, const char *format, va_list args);
void text_add_bytes(Text *text, const char *bytes, size_t n);
/* The shortest decimal that reads back as exactly `value`; "inf", "-inf" and "nan" for those. */
void text_add_double(Text *text, double value);
char *text_format(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
