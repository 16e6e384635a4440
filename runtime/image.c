/* Images as bytes, and the figures in an assembler's log. */
#include "runtime/image.h"

#include <stdlib.h>
#include <string.h>

static const char IMAGE_MAGIC[8] = "SGIMAGE3";

const char *image_backend_name(ImageBackend backend) {
    return backend == IMAGE_LLVM ? "llvm" : "nvrtc";
}

const char *image_assembler_name(ImageAssembler assembler) {
    switch (assembler) {
    case IMAGE_NOT_ASSEMBLED: return NULL;
    case IMAGE_PTXAS: return "ptxas";
    case IMAGE_BY_NVRTC: return "nvrtc";
    case IMAGE_BY_DRIVER: return "driver";
    }
    return NULL;
}

/* The number that stands before `word` in a line such as "    0 bytes stack frame, 8 bytes spill stores". */
static int image_number_before(const char *line, size_t n, const char *word) {
    const char *at = memmem(line, n, word, strlen(word));
    if (!at)
        return 0;
    const char *begin = at;
    while (begin > line && begin[-1] == ' ')
        begin--;
    while (begin > line && begin[-1] >= '0' && begin[-1] <= '9')
        begin--;
    long value = strtol(begin, NULL, 10);
    return value > 0 && value < 1 << 30 ? (int)value : 0;
}

ImageFigures image_read_log(const char *log) {
    ImageFigures figures = {0};
    for (const char *line = log; *line;) {
        size_t n = strcspn(line, "\n");
        if (memmem(line, n, "bytes stack frame", 17)) {
            figures.stack_bytes = image_number_before(line, n, "bytes stack frame");
            figures.spill_store_bytes = image_number_before(line, n, "bytes spill stores");
            figures.spill_load_bytes = image_number_before(line, n, "bytes spill loads");
        }
        const char *used = memmem(line, n, "Used ", 5);
        if (used && memmem(line, n, " registers", 10)) {
            figures.registers = (int)strtol(used + 5, NULL, 10);
            figures.barriers = image_number_before(line, n, "barriers");
            figures.static_shared_bytes = image_number_before(line, n, "bytes smem");
        }
        if (memmem(line, n, "(C75", 4))
            figures.serialized++;
        line += n + (line[n] == '\n');
    }
    return figures;
}

static void image_put32(Text *out, uint32_t value) {
    const char bytes[4] = {(char)value, (char)(value >> 8), (char)(value >> 16), (char)(value >> 24)};
    text_add_bytes(out, bytes, 4);
}

static void image_put_block(Text *out, const void *bytes, size_t n) {
    image_put32(out, (uint32_t)n);
    text_add_bytes(out, bytes ? bytes : "", n);
}

void image_encode(Text *out, const Image *image) {
    const ImageFigures *f = &image->figures;
    const int numbers[] = {(int)image->backend,    (int)image->assembler, f->registers,
                           f->stack_bytes,         f->spill_store_bytes,  f->spill_load_bytes,
                           f->static_shared_bytes, f->barriers,           f->serialized};
    text_add_bytes(out, IMAGE_MAGIC, sizeof IMAGE_MAGIC);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        image_put32(out, (uint32_t)numbers[i]);
    image_put_block(out, image->entry, strlen(image->entry));
    image_put_block(out, image->ptx, image->ptx ? image->ptx_bytes : 0);
    image_put_block(out, image->cubin, image->cubin ? image->cubin_bytes : 0);
    image_put_block(out, image->log, image->log ? strlen(image->log) : 0);
}

typedef struct ImageReader {
    const uint8_t *at;
    size_t left;
    bool ok;
} ImageReader;

static uint32_t image_get32(ImageReader *r) {
    if (r->left < 4) {
        r->ok = false;
        return 0;
    }
    uint32_t value = r->at[0] | (uint32_t)r->at[1] << 8 | (uint32_t)r->at[2] << 16 | (uint32_t)r->at[3] << 24;
    r->at += 4;
    r->left -= 4;
    return value;
}

static const char *image_get_block(Arena *arena, ImageReader *r, size_t *n) {
    *n = image_get32(r);
    if (!r->ok || *n > r->left) {
        r->ok = false;
        return NULL;
    }
    char *copy = NULL;
    if (*n) {
        copy = ARENA_ARRAY(arena, char, *n + 1);
        memcpy(copy, r->at, *n);
    }
    r->at += *n;
    r->left -= *n;
    return copy;
}

bool image_decode(Arena *arena, const void *bytes, size_t n, Image *out) {
    ImageReader r = {bytes, n, true};
    if (n < sizeof IMAGE_MAGIC || memcmp(bytes, IMAGE_MAGIC, sizeof IMAGE_MAGIC) != 0)
        return false;
    r.at += sizeof IMAGE_MAGIC;
    r.left -= sizeof IMAGE_MAGIC;
    Image image = {0};
    uint32_t backend = image_get32(&r), assembler = image_get32(&r);
    ImageFigures *f = &image.figures;
    int *numbers[] = {&f->registers,           &f->stack_bytes, &f->spill_store_bytes, &f->spill_load_bytes,
                      &f->static_shared_bytes, &f->barriers,    &f->serialized};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = (int)image_get32(&r);
    if (!r.ok || backend >= IMAGE_BACKENDS || assembler > IMAGE_BY_DRIVER)
        return false;
    image.backend = (ImageBackend)backend;
    image.assembler = (ImageAssembler)assembler;
    size_t entry_bytes, log_bytes;
    image.entry = image_get_block(arena, &r, &entry_bytes);
    image.ptx = image_get_block(arena, &r, &image.ptx_bytes);
    image.cubin = image_get_block(arena, &r, &image.cubin_bytes);
    image.log = image_get_block(arena, &r, &log_bytes);
    bool texts = image.entry && strlen(image.entry) == entry_bytes &&
                 (!image.ptx || strlen(image.ptx) == image.ptx_bytes) &&
                 (!image.log || strlen(image.log) == log_bytes);
    if (!image.log)
        image.log = "";
    if (!r.ok || !texts || r.left || (!image.ptx && !image.cubin))
        return false;
    *out = image;
    return true;
}
