/* Files, whole: read, and written so that a reader never sees half of one. */
#ifndef SINTER_RUNTIME_FILE_H
#define SINTER_RUNTIME_FILE_H

#include "ir/base/arena.h"

typedef struct Bytes {
    const uint8_t *at; /* a NUL stands behind the last */
    size_t n;
} Bytes;

/* The whole of a regular file, or of standard input for "-". False where it cannot be read or is longer than
 * `most` bytes; errno tells why (EFBIG for the latter). */
bool file_read(Arena *arena, const char *path, size_t most, Bytes *out);
/* Written to a fresh name beside `path`, then renamed over it. False with errno; nothing is left behind then.
 */
bool file_write(const char *path, const void *bytes, size_t n);
/* The directory and those above it, mode 0700 for what is new. */
bool file_make_directory(const char *path);
/* `directory`/`name`, where `directory` is one of the colon-separated list, for the first that is an
 * executable file; NULL: none. */
const char *file_find_program(Arena *arena, const char *directories, const char *name);

#endif
