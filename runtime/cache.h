/* The kernel cache: machine code that was made before, one file a kernel, per user, bounded.
 *
 * It may fail, vanish, be damaged or be shared by any number of processes at any time, and nothing happens
 * but a miss: every entry carries its key and a BLAKE3 of its contents, is written beside and renamed into
 * place, and is looked at whole or not at all. */
#ifndef SINTER_RUNTIME_CACHE_H
#define SINTER_RUNTIME_CACHE_H

#include "runtime/file.h"

enum { CACHE_KEY_BYTES = 32, CACHE_ENTRY_MOST = 64 << 20 };

typedef struct Cache {
    const char *directory; /* NULL: no cache */
    int64_t most;          /* bytes that it may hold */
} Cache;

typedef struct CacheSize {
    int64_t entries, bytes;
} CacheSize;

bool cache_get(const Cache *cache, Arena *arena, const uint8_t key[CACHE_KEY_BYTES], Bytes *out);
/* Puts an entry; now and then removes the entries that were used longest ago until the bound holds again. */
void cache_put(const Cache *cache, Arena *arena, const uint8_t key[CACHE_KEY_BYTES], const void *bytes,
               size_t n);
CacheSize cache_size(const Cache *cache);
/* Removes entries, oldest use first, until at most `most` bytes are left. Gives how many were removed. */
int64_t cache_trim(const Cache *cache, Arena *arena, int64_t most);

#endif
