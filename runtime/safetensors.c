/* A .safetensors file: an 8-byte length, so many bytes of JSON {name: {dtype, shape, data_offsets}}, then the
 * data. */
#include "runtime/safetensors.h"

#include <string.h>

#include "ir/base/checked.h"
#include "runtime/vendor/yyjson/yyjson.h"

enum { SAFETENSORS_HEADER_MOST = 100 << 20 }; /* the format's own limit */

/* The JSON document lies in the diagnostics' arena, so that giving up in the middle leaves nothing behind. */
static void *safetensors_alloc(void *arena, size_t size) {
    return arena_alloc(arena, size);
}

static void *safetensors_realloc(void *arena, void *old, size_t old_size, size_t size) {
    void *fresh = arena_alloc(arena, size);
    memcpy(fresh, old, old_size < size ? old_size : size);
    return fresh;
}

static void safetensors_free(void *arena, void *old) {
    (void)arena;
    (void)old;
}

static bool safetensors_type(const char *word, RawArray *out) {
    static const struct {
        const char *word;
        DType dtype;
        char kind;
        int size;
    } types[] = {
        {"F64", DTYPE_F64, 'f', 8},   {"F32", DTYPE_F32, 'f', 4},      {"F16", DTYPE_F16, 'f', 2},
        {"BF16", DTYPE_BF16, 'f', 2}, {"F8_E4M3", DTYPE_E4M3, 'f', 1}, {"F8_E5M2", DTYPE_E5M2, 'f', 1},
        {"I64", DTYPE_I64, 'i', 8},   {"I32", DTYPE_I32, 'i', 4},      {"I16", DTYPE_I16, 'i', 2},
        {"I8", DTYPE_I8, 'i', 1},     {"U8", DTYPE_U8, 'u', 1},        {"BOOL", DTYPE_BOOL, 'b', 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].word, word) == 0) {
            out->dtype = types[i].dtype;
            out->kind = types[i].kind;
            out->size = types[i].size;
            return true;
        }
    }
    return false;
}

/* Reads one entry; *what says what is wrong with it. */
static bool safetensors_entry(yyjson_val *entry, const uint8_t *data, size_t n, RawArray *out,
                              const char **what) {
    const char *type = yyjson_get_str(yyjson_obj_get(entry, "dtype"));
    *what = "an element type that Sinter does not read";
    if (!type || !safetensors_type(type, out))
        return false;
    yyjson_val *shape = yyjson_obj_get(entry, "shape"), *offsets = yyjson_obj_get(entry, "data_offsets");
    *what = "no shape of at most eight numbers";
    if (!yyjson_is_arr(shape) || yyjson_arr_size(shape) > RANK_MAX)
        return false;
    out->rank = (int)yyjson_arr_size(shape);
    out->count = 1;
    for (int i = 0; i < out->rank; i++) {
        yyjson_val *dim = yyjson_arr_get(shape, (size_t)i);
        if (!yyjson_is_uint(dim) || yyjson_get_uint(dim) > INT64_MAX)
            return false;
        out->dims[i] = (int64_t)yyjson_get_uint(dim);
        if (!checked_mul(out->count, out->dims[i], &out->count))
            return false;
    }
    *what = "offsets that do not fit its shape and the file";
    int64_t bytes;
    yyjson_val *first = yyjson_arr_get(offsets, 0), *last = yyjson_arr_get(offsets, 1);
    if (!yyjson_is_arr(offsets) || yyjson_arr_size(offsets) != 2 || !yyjson_is_uint(first) ||
        !yyjson_is_uint(last) || !checked_mul(out->count, out->size, &bytes))
        return false;
    uint64_t begin = yyjson_get_uint(first), end = yyjson_get_uint(last);
    if (begin > end || end > n || end - begin != (uint64_t)bytes)
        return false;
    out->at = data + begin;
    return true;
}

static bool safetensors_search(yyjson_val *root, const char *tensor, const uint8_t *data, size_t n,
                               const char *name, Diags *diags, RawArray *out) {
    yyjson_val *found = NULL, *key, *value;
    size_t index, most, matches = 0;
    yyjson_obj_foreach(root, index, most, key, value) {
        const char *word = yyjson_get_str(key);
        if (strcmp(word, "__metadata__") == 0 || (tensor && strcmp(word, tensor) != 0))
            continue;
        matches++;
        found = value;
    }
    if (matches != 1) {
        if (tensor)
            diag_error(diags, DIAG_DATA, (Span){0}, "%s has no tensor '%s'", name, tensor);
        else
            diag_error(diags, DIAG_DATA, (Span){0}, "%s has %zu tensors: name one, as in %s:NAME", name,
                       matches, name);
        return false;
    }
    const char *what;
    if (safetensors_entry(found, data, n, out, &what))
        return true;
    diag_error(diags, DIAG_DATA, (Span){0}, "%s: tensor '%s' has %s", name, tensor ? tensor : "", what);
    return false;
}

bool safetensors_find(const void *bytes, size_t n, const char *name, const char *tensor, Diags *diags,
                      RawArray *out) {
    memset(out, 0, sizeof *out);
    const uint8_t *at = bytes;
    uint64_t length = 0;
    for (int i = 7; i >= 0 && n >= 8; i--)
        length = length << 8 | at[i];
    if (n < 8 || length > n - 8 || length > SAFETENSORS_HEADER_MOST) {
        diag_error(diags, DIAG_DATA, (Span){0}, "%s is not a .safetensors file", name);
        return false;
    }
    const yyjson_alc memory = {safetensors_alloc, safetensors_realloc, safetensors_free, diags->arena};
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)(at + 8), (size_t)length, 0, &memory, NULL);
    yyjson_val *root = doc ? yyjson_doc_get_root(doc) : NULL;
    bool ok = false;
    if (yyjson_is_obj(root))
        ok = safetensors_search(root, tensor, at + 8 + length, n - 8 - (size_t)length, name, diags, out);
    else
        diag_error(diags, DIAG_DATA, (Span){0}, "%s: its header is not a JSON object", name);
    return ok;
}
