/* Entries are files `<directory>/<first two hex digits>/<the other 62>`:
 *
 *     "SGCACHE1" | key 32 | length 8, little endian | BLAKE3 of the payload 32 | payload
 *
 * Reading an entry sets its time of change, so that trimming removes what was used longest ago. */
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/text.h"
#include "ir/base/vec.h"
#include "ir/vendor/blake3/blake3.h"

static const char CACHE_MAGIC[8] = "SGCACHE1";
enum { CACHE_HEAD = 8 + CACHE_KEY_BYTES + 8 + BLAKE3_OUT_LEN };

static const char *cache_path(const Cache *cache, Arena *arena, const uint8_t *key, const char **directory) {
    char hex[2 * CACHE_KEY_BYTES + 1];
    for (int i = 0; i < CACHE_KEY_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    *directory = text_format(arena, "%s/%.2s", cache->directory, hex);
    return text_format(arena, "%s/%s", *directory, hex + 2);
}

static void cache_hash(const void *bytes, size_t n, uint8_t *out) {
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, bytes, n);
    blake3_hasher_finalize(&hasher, out, BLAKE3_OUT_LEN);
}

bool cache_get(const Cache *cache, Arena *arena, const uint8_t key[CACHE_KEY_BYTES], Bytes *out) {
    if (!cache->directory)
        return false;
    const char *directory;
    const char *path = cache_path(cache, arena, key, &directory);
    Bytes file;
    if (!file_read(arena, path, CACHE_ENTRY_MOST + CACHE_HEAD, &file))
        return false;
    uint8_t sum[BLAKE3_OUT_LEN];
    uint64_t length = 0;
    bool good = file.n >= CACHE_HEAD && memcmp(file.at, CACHE_MAGIC, 8) == 0 &&
                memcmp(file.at + 8, key, CACHE_KEY_BYTES) == 0;
    if (good) {
        for (int i = 7; i >= 0; i--)
            length = length << 8 | file.at[8 + CACHE_KEY_BYTES + i];
        good = length == file.n - CACHE_HEAD;
    }
    if (good) {
        cache_hash(file.at + CACHE_HEAD, (size_t)length, sum);
        good = memcmp(sum, file.at + 8 + CACHE_KEY_BYTES + 8, sizeof sum) == 0;
    }
    if (!good) {
        unlink(path); /* damaged: the next one to compile writes it anew */
        return false;
    }
    utimensat(AT_FDCWD, path, NULL, 0);
    *out = (Bytes){file.at + CACHE_HEAD, (size_t)length};
    return true;
}

void cache_put(const Cache *cache, Arena *arena, const uint8_t key[CACHE_KEY_BYTES], const void *bytes,
               size_t n) {
    if (!cache->directory || n > CACHE_ENTRY_MOST)
        return;
    const char *directory;
    const char *path = cache_path(cache, arena, key, &directory);
    if (!file_make_directory(directory))
        return;
    uint8_t head[CACHE_HEAD];
    memcpy(head, CACHE_MAGIC, 8);
    memcpy(head + 8, key, CACHE_KEY_BYTES);
    for (int i = 0; i < 8; i++)
        head[8 + CACHE_KEY_BYTES + i] = (uint8_t)((uint64_t)n >> 8 * i);
    cache_hash(bytes, n, head + 8 + CACHE_KEY_BYTES + 8);
    Text text = text_new(arena);
    text_add_bytes(&text, (const char *)head, sizeof head);
    text_add_bytes(&text, bytes, n);
    if (!file_write(path, text.at, text.n))
        return;
    /* One writer in 16, chosen by the key, looks at the whole: the bound is passed by little and the scan is
     * rare. */
    if (key[CACHE_KEY_BYTES - 1] % 16 == 0 && cache_size(cache).bytes > cache->most)
        cache_trim(cache, arena, cache->most - cache->most / 4);
}

typedef struct CacheFile {
    const char *path;
    int64_t bytes;
    struct timespec used;
} CacheFile;

/* Calls visit for every file of the cache; files that another process removes meanwhile are passed over. */
static void cache_walk(const Cache *cache,
                       void (*visit)(void *context, const char *path, const struct stat *status),
                       void *context) {
    DIR *top = cache->directory ? opendir(cache->directory) : NULL;
    struct dirent *shelf;
    while (top && (shelf = readdir(top))) {
        if (strspn(shelf->d_name, "0123456789abcdef") != 2 || shelf->d_name[2])
            continue;
        char directory[4096];
        int n = snprintf(directory, sizeof directory, "%s/%s", cache->directory, shelf->d_name);
        DIR *inner = n > 0 && (size_t)n < sizeof directory ? opendir(directory) : NULL;
        struct dirent *entry;
        while (inner && (entry = readdir(inner))) {
            char path[4096];
            struct stat status;
            n = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            if (n > 0 && (size_t)n < sizeof path && lstat(path, &status) == 0 && S_ISREG(status.st_mode))
                visit(context, path, &status);
        }
        if (inner)
            closedir(inner);
    }
    if (top)
        closedir(top);
}

static void cache_visit_size(void *context, const char *path, const struct stat *status) {
    (void)path;
    CacheSize *size = context;
    size->entries++;
    size->bytes += status->st_size;
}

CacheSize cache_size(const Cache *cache) {
    CacheSize size = {0};
    cache_walk(cache, cache_visit_size, &size);
    return size;
}

typedef struct CacheList {
    Arena *arena;
    VEC(CacheFile) files;
} CacheList;

static void cache_visit_list(void *context, const char *path, const struct stat *status) {
    CacheList *list = context;
    vec_push(list->arena, &list->files,
             ((CacheFile){arena_strdup(list->arena, path), status->st_size, status->st_mtim}));
}

static int cache_compare(const void *a, const void *b) {
    const CacheFile *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

int64_t cache_trim(const Cache *cache, Arena *arena, int64_t most) {
    CacheList list = {arena, {0}};
    cache_walk(cache, cache_visit_list, &list);
    if (list.files.n)
        qsort(list.files.at, list.files.n, sizeof *list.files.at, cache_compare);
    int64_t bytes = 0, removed = 0;
    for (size_t i = 0; i < list.files.n; i++)
        bytes += list.files.at[i].bytes;
    for (size_t i = 0; i < list.files.n && bytes > most; i++) {
        if (unlink(list.files.at[i].path) == 0)
            removed++;
        bytes -= list.files.at[i].bytes;
    }
    return removed;
}
