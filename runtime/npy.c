/* The header of a .npy file is a Python dictionary of three known keys; the parser below knows just that much
 * Python. */
#include "runtime/npy.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/checked.h"

typedef struct NpyCursor {
    const char *at, *end;
} NpyCursor;

static void npy_space(NpyCursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool npy_take(NpyCursor *c, const char *word) {
    npy_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

static bool npy_string(NpyCursor *c, char *out, size_t room) {
    npy_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 == room)
            return false;
        out[n++] = *c->at++;
    }
    if (c->at == c->end)
        return false;
    c->at++;
    out[n] = 0;
    return true;
}

static bool npy_number(NpyCursor *c, int64_t *out) {
    npy_space(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return false;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!checked_mul(value, 10, &value) || !checked_add(value, *c->at - '0', &value))
            return false;
    npy_take(c, "L"); /* Python 2 wrote long integers so */
    *out = value;
    return true;
}

static bool npy_shape(NpyCursor *c, RawArray *out) {
    if (!npy_take(c, "("))
        return false;
    while (!npy_take(c, ")")) {
        if (out->rank == RANK_MAX || !npy_number(c, &out->dims[out->rank]))
            return false;
        out->rank++;
        if (!npy_take(c, ",")) {
            if (!npy_take(c, ")"))
                return false;
            break;
        }
    }
    return true;
}

/* "<f4", "|V2", "|b1": byte order, kind, size. */
static bool npy_type(const char *descr, RawArray *out) {
    char order = descr[0];
    if (!order || !strchr("<|=", order) || !descr[1] || !strchr("fiubV", descr[1]))
        return false;
    char *end;
    long size = strtol(descr + 2, &end, 10);
    if (*end || (size != 1 && size != 2 && size != 4 && size != 8) || (descr[1] == 'b' && size != 1))
        return false;
    out->kind = descr[1];
    out->size = (int)size;
    static const struct {
        char kind;
        int size;
        DType dtype;
    } known[] = {{'f', 8, DTYPE_F64}, {'f', 4, DTYPE_F32}, {'f', 2, DTYPE_F16},
                 {'i', 8, DTYPE_I64}, {'i', 4, DTYPE_I32}, {'i', 2, DTYPE_I16},
                 {'i', 1, DTYPE_I8},  {'u', 1, DTYPE_U8},  {'b', 1, DTYPE_BOOL}};
    out->dtype = DTYPE_COUNT;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].kind == out->kind && known[i].size == out->size)
            out->dtype = known[i].dtype;
    return true;
}

static bool npy_header(NpyCursor *c, RawArray *out, const char **what) {
    bool has_type = false, has_order = false, has_shape = false;
    char word[64];
    *what = "its header is not a dictionary";
    if (!npy_take(c, "{"))
        return false;
    while (!npy_take(c, "}")) {
        if (!npy_string(c, word, sizeof word) || !npy_take(c, ":"))
            return false;
        if (strcmp(word, "descr") == 0 && !has_type) {
            *what = "its element type is not one that Sinter reads (little-endian numbers of 1 to 8 bytes)";
            if (!npy_string(c, word, sizeof word) || !npy_type(word, out))
                return false;
            has_type = true;
        } else if (strcmp(word, "fortran_order") == 0 && !has_order) {
            *what = "its fortran_order is neither True nor False";
            out->fortran = npy_take(c, "True");
            if (!out->fortran && !npy_take(c, "False"))
                return false;
            has_order = true;
        } else if (strcmp(word, "shape") == 0 && !has_shape) {
            *what = "its shape is not a tuple of at most eight numbers";
            if (!npy_shape(c, out))
                return false;
            has_shape = true;
        } else {
            *what = "its header has an unknown or repeated key";
            return false;
        }
        *what = "its header is not a dictionary";
        npy_take(c, ",");
    }
    *what = "its header lacks descr, fortran_order or shape";
    return has_type && has_order && has_shape;
}

bool npy_parse(const void *bytes, size_t n, const char *name, Diags *diags, RawArray *out) {
    memset(out, 0, sizeof *out);
    const uint8_t *at = bytes;
    const char *what = "it is not a .npy file";
    size_t head = 0, length = 0;
    bool ok = n >= 10 && memcmp(at, "\x93NUMPY", 6) == 0 && at[6] >= 1 && at[6] <= 3;
    if (ok && at[6] == 1) {
        head = 10;
        length = at[8] | (size_t)at[9] << 8;
    } else if (ok) {
        head = 12;
        ok = n >= head;
        length = ok ? at[8] | (size_t)at[9] << 8 | (size_t)at[10] << 16 | (size_t)at[11] << 24 : 0;
    }
    if (ok && length > n - head) {
        what = "it ends inside its header";
        ok = false;
    }
    if (ok) {
        NpyCursor cursor = {(const char *)at + head, (const char *)at + head + length};
        ok = npy_header(&cursor, out, &what);
    }
    int64_t total = 0;
    if (ok) {
        what = "its size overflows";
        out->count = 1;
        for (int i = 0; i < out->rank && ok; i++)
            ok = checked_mul(out->count, out->dims[i], &out->count);
        ok = ok && checked_mul(out->count, out->size, &total);
    }
    if (ok && (uint64_t)total > n - head - length) {
        what = "it is shorter than its shape says";
        ok = false;
    }
    if (!ok) {
        diag_error(diags, DIAG_DATA, (Span){0}, "%s: %s", name, what);
        return false;
    }
    out->at = at + head + length;
    return true;
}

/* Position in the file of the element with row-major number `element`. */
static int64_t raw_position(const RawArray *raw, int64_t element) {
    if (!raw->fortran)
        return element;
    int64_t position = 0, coordinates[RANK_MAX];
    for (int i = raw->rank; i-- > 0;) {
        coordinates[i] = element % raw->dims[i];
        element /= raw->dims[i];
    }
    for (int i = raw->rank; i-- > 0;)
        position = position * raw->dims[i] + coordinates[i];
    return position;
}

typedef enum RawMode { RAW_COPY, RAW_ROUND, RAW_NARROW, RAW_REFUSED } RawMode;

static RawMode raw_mode(const RawArray *raw, DType to) {
    if (raw->dtype == to)
        return RAW_COPY;
    if (dtype_bits(to) == 8 * raw->size && (raw->kind == 'V' || (raw->kind == 'u' && dtype_is_float(to))))
        return RAW_COPY;
    if (to == DTYPE_TF32 && raw->dtype == DTYPE_F32)
        return RAW_ROUND;
    if (dtype_is_float(to) && (raw->dtype == DTYPE_F32 || raw->dtype == DTYPE_F64))
        return RAW_ROUND;
    if ((to == DTYPE_I4 || to == DTYPE_U4) && dtype_is_int8(raw->dtype))
        return RAW_NARROW;
    return RAW_REFUSED;
}

bool raw_array_copy(const RawArray *raw, const char *name, Array *out, Diags *diags) {
    RawMode mode = raw_mode(raw, out->dtype);
    if (mode == RAW_REFUSED) {
        diag_error(diags, DIAG_DATA, (Span){0}, "%s holds %d-byte %s, and the graph declares %s", name,
                   raw->size,
                   raw->kind == 'f'   ? "floats"
                   : raw->kind == 'V' ? "raw elements"
                   : raw->kind == 'b' ? "booleans"
                                      : "integers",
                   dtype_name(out->dtype));
        return false;
    }
    bool same = raw->rank == out->rank;
    for (int i = 0; same && i < raw->rank; i++)
        same = raw->dims[i] == out->dims[i];
    if (!same) {
        Text have = text_new(diags->arena), want = text_new(diags->arena);
        for (int i = 0; i < raw->rank; i++)
            text_add(&have, "%s%lld", i ? ", " : "", (long long)raw->dims[i]);
        for (int i = 0; i < out->rank; i++)
            text_add(&want, "%s%lld", i ? ", " : "", (long long)out->dims[i]);
        diag_error(diags, DIAG_DATA, (Span){0}, "%s has shape [%s], and the graph wants [%s]", name,
                   have.n ? have.at : "", want.n ? want.at : "");
        return false;
    }
    size_t size = (size_t)raw->size;
    for (int64_t i = 0; i < raw->count; i++) {
        const uint8_t *from = raw->at + (size_t)raw_position(raw, i) * size;
        int64_t to = array_offset(out, i);
        if (mode == RAW_COPY) {
            memcpy(out->at + (size_t)to * size, from, size);
            continue;
        }
        uint8_t aligned[8] = {0};
        memcpy(aligned, from, size);
        Number value = dtype_load(raw->dtype, aligned, 0);
        if (mode == RAW_ROUND) {
            value.f = dtype_round(value.f, out->dtype);
        } else if (value.i < dtype_min_int(out->dtype) || value.i > dtype_max_int(out->dtype)) {
            diag_error(diags, DIAG_DATA, (Span){0}, "%s: element %lld is %lld, which %s cannot hold", name,
                       (long long)i, (long long)value.i, dtype_name(out->dtype));
            return false;
        }
        dtype_store(out->dtype, out->at, to, value);
    }
    if (out->dtype == DTYPE_BOOL) /* any nonzero byte is true in a file; kernels rely on 0 and 1 */
        for (int64_t i = 0; i < out->extent; i++)
            out->at[i] = out->at[i] != 0;
    return true;
}

static const char *npy_descr(DType dtype) {
    switch (dtype) {
    case DTYPE_F64: return "<f8";
    case DTYPE_F32:
    case DTYPE_TF32: return "<f4";
    case DTYPE_F16: return "<f2";
    case DTYPE_BF16: return "|V2";
    case DTYPE_E4M3:
    case DTYPE_E5M2: return "|V1";
    case DTYPE_I64: return "<i8";
    case DTYPE_I32: return "<i4";
    case DTYPE_I16: return "<i2";
    case DTYPE_I8:
    case DTYPE_I4: return "|i1";
    case DTYPE_U8:
    case DTYPE_U4: return "|u1";
    case DTYPE_BOOL: return "|b1";
    case DTYPE_COUNT: break;
    }
    return "|V1";
}

void npy_format(Text *out, const Array *array) {
    Text head = text_new(out->arena);
    text_add(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_descr(array->dtype));
    for (int i = 0; i < array->rank; i++)
        text_add(&head, "%lld,%s", (long long)array->dims[i], i + 1 < array->rank ? " " : "");
    text_add(&head, "), }");
    while ((10 + head.n + 1) % 64)
        text_add(&head, " ");
    text_add(&head, "\n");
    const char begin[10] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)head.n, (char)(head.n >> 8)};
    text_add_bytes(out, begin, sizeof begin);
    text_add_bytes(out, head.at, head.n);
    int bits = dtype_bits(array->dtype);
    for (int64_t i = 0; i < array->count; i++) {
        if (bits >= 8) {
            text_add_bytes(out, (const char *)array->at + array_offset(array, i) * (bits / 8),
                           (size_t)bits / 8);
        } else {
            char byte = (char)array_get(array, i).i;
            text_add_bytes(out, &byte, 1);
        }
    }
}
