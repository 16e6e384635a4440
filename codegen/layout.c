#include "codegen/layout.h"

int swizzle_span(KSwizzle swizzle) {
    switch (swizzle) {
    case SWIZZLE_NONE: return 16;
    case SWIZZLE_32: return 32;
    case SWIZZLE_64: return 64;
    case SWIZZLE_128: return 128;
    }
    return 16;
}

int swizzle_period(KSwizzle swizzle) {
    return swizzle == SWIZZLE_NONE ? 16 : 8 * swizzle_span(swizzle);
}

KSwizzle swizzle_for_span(int bytes) {
    return bytes == 128 ? SWIZZLE_128 : bytes == 64 ? SWIZZLE_64 : bytes == 32 ? SWIZZLE_32 : SWIZZLE_NONE;
}

void swizzle_row_bits(KSwizzle swizzle, int *shift, int *mask) {
    switch (swizzle) {
    case SWIZZLE_NONE: *shift = 0, *mask = 0; return;
    case SWIZZLE_32: *shift = 2, *mask = 1; return;
    case SWIZZLE_64: *shift = 1, *mask = 3; return;
    case SWIZZLE_128: *shift = 0, *mask = 7; return;
    }
}

int swizzle_chunk(KSwizzle swizzle, int row, int chunk) {
    int shift = 0, mask = 0;
    swizzle_row_bits(swizzle, &shift, &mask);
    return chunk ^ ((row >> shift) & mask);
}

uint64_t wgmma_descriptor(KSwizzle swizzle, OperandMajor major, int apart, int64_t block_bytes) {
    static const uint64_t layout[] = {
        [SWIZZLE_NONE] = 0, [SWIZZLE_32] = 3, [SWIZZLE_64] = 2, [SWIZZLE_128] = 1};
    uint64_t stride = (uint64_t)(apart * swizzle_span(swizzle)) >> 4;
    uint64_t leading = major == MAJOR_MN ? (uint64_t)block_bytes >> 4 : 1;
    return (leading & 0x3fff) << 16 | (stride & 0x3fff) << 32 | layout[swizzle] << 62;
}
