/* The kernel cache: hits, damage, faults of the disk, many processes at once, its bound. */
#include "tests/unit/runtime/home.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cache.h"

static Home home;

static int setup(void **state) {
    (void)state;
    return home_make(home);
}

static int teardown(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Cache cache = {home, 1 << 30};
    cache_trim(&cache, arena, 0);
    arena_free(arena);
    home_remove(home);
    return 0;
}

static void key_of(int number, uint8_t key[CACHE_KEY_BYTES]) {
    for (int i = 0; i < CACHE_KEY_BYTES; i++)
        key[i] = (uint8_t)(number * 31 + i * 7 + number / 256);
}

static const char *entry_path(Arena *arena, const uint8_t *key) {
    Text path = text_new(arena);
    text_add(&path, "%s/%02x/", home, key[0]);
    for (int i = 1; i < CACHE_KEY_BYTES; i++)
        text_add(&path, "%02x", key[i]);
    return path.at;
}

static void test_put_and_get(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Cache cache = {home, 1 << 30};
    uint8_t key[CACHE_KEY_BYTES], other[CACHE_KEY_BYTES];
    Bytes bytes;
    key_of(1, key);
    key_of(2, other);
    assert_false(cache_get(&cache, arena, key, &bytes));
    cache_put(&cache, arena, key, "kernel", 6);
    assert_true(cache_get(&cache, arena, key, &bytes));
    assert_int_equal(bytes.n, 6);
    assert_memory_equal(bytes.at, "kernel", 6);
    assert_false(cache_get(&cache, arena, other, &bytes));
    cache_put(&cache, arena, key, "", 0);
    assert_true(cache_get(&cache, arena, key, &bytes));
    assert_int_equal(bytes.n, 0);
    arena_free(arena);
}

/* An entry with any byte changed, or cut anywhere, is a miss, and gone. */
static void test_damage(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Cache cache = {home, 1 << 30};
    uint8_t key[CACHE_KEY_BYTES];
    key_of(3, key);
    cache_put(&cache, arena, key, "0123456789", 10);
    const char *path = entry_path(arena, key);
    Bytes good, bytes;
    assert_true(file_read(arena, path, 1 << 20, &good));
    for (size_t i = 0; i < good.n; i++) {
        uint8_t *bad = ARENA_ARRAY(arena, uint8_t, good.n);
        memcpy(bad, good.at, good.n);
        bad[i] ^= 0x10;
        assert_true(file_write(path, bad, good.n));
        assert_false(cache_get(&cache, arena, key, &bytes));
        assert_int_equal(access(path, F_OK), -1);
        assert_true(file_write(path, good.at, i));
        assert_false(cache_get(&cache, arena, key, &bytes));
    }
    /* the entry of one key under another's name */
    uint8_t other[CACHE_KEY_BYTES];
    key_of(4, other);
    cache_put(&cache, arena, other, "x", 1);
    assert_true(file_write(entry_path(arena, other), good.at, good.n));
    assert_false(cache_get(&cache, arena, other, &bytes));
    arena_free(arena);
}

static void test_disk_faults(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    uint8_t key[CACHE_KEY_BYTES];
    Bytes bytes;
    key_of(5, key);
    const char *const nowhere[] = {"/proc/self/no/such", "/dev/null", "/dev/full",
                                   text_format(arena, "%s/file", home)};
    assert_true(file_write(nowhere[3], "x", 1));
    for (size_t i = 0; i < 4; i++) {
        Cache cache = {nowhere[i], 1 << 30};
        cache_put(&cache, arena, key, "x", 1);
        assert_false(cache_get(&cache, arena, key, &bytes));
        assert_int_equal(cache_size(&cache).entries, 0);
        assert_int_equal(cache_trim(&cache, arena, 0), 0);
    }
    Cache none = {NULL, 0};
    cache_put(&none, arena, key, "x", 1);
    assert_false(cache_get(&none, arena, key, &bytes));
    arena_free(arena);
}

static void test_bound(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Cache cache = {home, 1 << 30};
    cache_trim(&cache, arena, 0);
    char block[1000];
    memset(block, 'k', sizeof block);
    uint8_t keys[20][CACHE_KEY_BYTES];
    Bytes bytes;
    for (int i = 0; i < 20; i++) {
        key_of(100 + i, keys[i]);
        cache_put(&cache, arena, keys[i], block, sizeof block);
        struct timespec used[2] = {{1000000 + i, 0}, {1000000 + i, 0}};
        assert_int_equal(utimensat(AT_FDCWD, entry_path(arena, keys[i]), used, 0), 0);
    }
    assert_int_equal(cache_size(&cache).entries, 20);
    assert_true(cache_get(&cache, arena, keys[0], &bytes)); /* the oldest is used again */
    int64_t each = cache_size(&cache).bytes / 20;
    assert_int_equal(cache_trim(&cache, arena, 5 * each), 15);
    assert_true(cache_get(&cache, arena, keys[0], &bytes));
    assert_true(cache_get(&cache, arena, keys[19], &bytes));
    assert_false(cache_get(&cache, arena, keys[1], &bytes));
    arena_free(arena);
}

/* Processes that write, read, damage and trim the same few entries: every hit is whole. */
static void race(int seed) {
    Arena *arena = arena_new(0);
    Cache cache = {home, 1 << 30};
    unsigned state = (unsigned)seed * 7919u + 1;
    for (int i = 0; i < 150; i++) {
        state = state * 1103515245u + 12345u;
        int number = (int)(state >> 16) % 4;
        size_t n = 1000 + (size_t)number * 5000;
        uint8_t key[CACHE_KEY_BYTES], want = (uint8_t)(number + 1);
        key_of(200 + number, key);
        Bytes bytes;
        if (cache_get(&cache, arena, key, &bytes)) {
            if (bytes.n != n)
                _exit(1);
            for (size_t k = 0; k < n; k++)
                if (bytes.at[k] != want)
                    _exit(2);
        }
        uint8_t *block = ARENA_ARRAY(arena, uint8_t, n);
        memset(block, want, n);
        cache_put(&cache, arena, key, block, n);
        if (i % 40 == 39)
            cache_trim(&cache, arena, 8000);
        if (i % 50 == 49)
            (void)!truncate(entry_path(arena, key), 77);
    }
    arena_free(arena);
    _exit(0);
}

static void test_many_processes(void **state) {
    (void)state;
    pid_t children[6];
    for (int i = 0; i < 6; i++)
        if ((children[i] = fork()) == 0)
            race(i);
    for (int i = 0; i < 6; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get),    cmocka_unit_test(test_damage),
        cmocka_unit_test(test_disk_faults),    cmocka_unit_test(test_bound),
        cmocka_unit_test(test_many_processes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
