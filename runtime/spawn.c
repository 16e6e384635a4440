/* Child processes by posix_spawn: no copy of the host's memory, no atfork handlers of a large process. */
#include "runtime/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct SpawnRead {
    int descriptor;
    Text *said;
} SpawnRead;

static void spawn_read_body(void *context) {
    SpawnRead *r = context;
    char piece[4096];
    for (;;) {
        ssize_t got = read(r->descriptor, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        text_add_bytes(r->said, piece, (size_t)got);
    }
}

int spawn_run(const char *const *argv, Text *said) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    pid_t child;
    int error = posix_spawn(&child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        errno = error;
        return -1;
    }
    SpawnRead r = {ends[0], said};
    bool fits =
        arena_run(said->arena, spawn_read_body, &r); /* the child is waited for even where memory runs out */
    close(ends[0]);
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    if (!fits)
        arena_give_up(said->arena);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool spawn_directory(const char *parent, char *path, size_t room) {
    int n = snprintf(path, room, "%s/sinter-XXXXXX", parent);
    if (n < 0 || (size_t)n >= room) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(path) != NULL;
}

void spawn_directory_remove(const char *path) {
    DIR *directory = opendir(path);
    if (!directory)
        return;
    struct dirent *entry;
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}
