/* Reading and writing whole files. */
#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/text.h"

static bool file_read_descriptor(Arena *arena, int descriptor, size_t most, size_t expected, Bytes *out) {
    size_t room = expected < most ? expected + 1 : most + 1;
    if (room < 65536)
        room = 65536;
    uint8_t *at = ARENA_ARRAY(arena, uint8_t, room + 1);
    size_t n = 0;
    for (;;) {
        if (n == room) {
            if (n > most)
                break;
            uint8_t *fresh = ARENA_ARRAY(arena, uint8_t, 2 * room + 1);
            memcpy(fresh, at, n);
            at = fresh;
            room *= 2;
        }
        ssize_t got = read(descriptor, at + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    if (n > most) {
        errno = EFBIG;
        return false;
    }
    at[n] = 0;
    *out = (Bytes){at, n};
    return true;
}

typedef struct FileRead {
    Arena *arena;
    int descriptor;
    size_t most, expected;
    Bytes *out;
    bool ok;
} FileRead;

static void file_read_body(void *context) {
    FileRead *r = context;
    r->ok = file_read_descriptor(r->arena, r->descriptor, r->most, r->expected, r->out);
}

bool file_read(Arena *arena, const char *path, size_t most, Bytes *out) {
    bool standard = strcmp(path, "-") == 0;
    int descriptor = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    struct stat status;
    FileRead r = {arena, descriptor, most, 0, out, false};
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        r.expected = (size_t)status.st_size;
    bool fits =
        arena_run(arena, file_read_body, &r); /* so that the descriptor is closed where memory runs out */
    int error = fits ? errno : ENOMEM;
    if (!standard)
        close(descriptor);
    errno = error;
    return fits && r.ok;
}

bool file_write(const char *path, const void *bytes, size_t n) {
    char fresh[4096];
    int length = snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof fresh) {
        errno = ENAMETOOLONG;
        return false;
    }
    int descriptor = mkostemp(fresh, O_CLOEXEC);
    if (descriptor < 0)
        return false;
    const uint8_t *at = bytes;
    bool ok = true;
    for (size_t done = 0; done < n && ok;) {
        ssize_t put = write(descriptor, at + done, n - done);
        if (put < 0 && errno != EINTR)
            ok = false;
        if (put > 0)
            done += (size_t)put;
    }
    ok = ok && fchmod(descriptor, 0644) == 0; /* mkostemp() gives 0600 */
    int error = errno;
    if (close(descriptor) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(fresh, path) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok) {
        unlink(fresh);
        errno = error;
    }
    return ok;
}

bool file_make_directory(const char *path) {
    char part[4096];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != 0)
            continue;
        char kept = part[i];
        part[i] = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return false;
        part[i] = kept;
    }
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if (!S_ISDIR(status.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return true;
}

const char *file_find_program(Arena *arena, const char *directories, const char *name) {
    while (directories && *directories) {
        size_t n = strcspn(directories, ":");
        if (n) {
            const char *path = text_format(arena, "%.*s/%s", (int)n, directories, name);
            struct stat status;
            if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
                return path;
        }
        directories += n + (directories[n] == ':');
    }
    return NULL;
}
