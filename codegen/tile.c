#include "codegen/tile.h"

static int tile_chunk(DType elem) {
    return 128 / dtype_bits(elem); /* elements of 16 bytes */
}

int tile_span_bytes(int row_bytes) {
    return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : row_bytes % 32 == 0 ? 32 : 16;
}

Tile tile_over(const KBuffer *buffer, DType elem, int rows, int cols, int stages, int64_t pitch) {
    int span_bytes = tile_span_bytes(cols * dtype_bits(elem) / 8);
    return (Tile){
        .buffer = buffer,
        .elem = elem,
        .rows = rows,
        .cols = cols,
        .span = span_bytes * 8 / dtype_bits(elem),
        .swizzle = swizzle_for_span(span_bytes),
        .stages = stages,
        .pitch = pitch,
        .apart = WGMMA_GROUP,
        .lead = rows,
    };
}

Tile tile_shared(Builder *b, const char *name, DType elem, int rows, int cols, int stages) {
    Tile tile = tile_over(NULL, elem, rows, cols, stages, (int64_t)rows * cols);
    tile.buffer = k_shared(b, name, elem, tile.pitch * stages, swizzle_period(tile.swizzle));
    return tile;
}

Tile tile_padded(Builder *b, const char *name, DType elem, int rows, int cols, int padding, int stages) {
    int span = cols + padding * 8 / dtype_bits(elem);
    Tile tile = {.elem = elem,
                 .rows = rows,
                 .cols = cols,
                 .span = span,
                 .stages = stages,
                 .apart = WGMMA_GROUP,
                 .lead = rows};
    tile.swizzle = SWIZZLE_NONE;
    tile.pitch = (int64_t)rows * tile.span;
    tile.buffer = k_shared(b, name, elem, tile.pitch * stages, 16);
    return tile;
}

int64_t tile_elements(const Tile *tile) {
    return (int64_t)tile->rows * tile->cols;
}

int64_t tile_bytes(const Tile *tile) {
    return tile_elements(tile) * dtype_bits(tile->elem) / 8;
}

const KExpr *tile_index(Builder *b, const Tile *tile, const KExpr *stage, const KExpr *row,
                        const KExpr *col) {
    int chunk = tile_chunk(tile->elem), shift = 0, mask = 0;
    swizzle_row_bits(tile->swizzle, &shift, &mask);
    const KExpr *index = k_mul(b, row, k_i32(b, tile->span));
    if (stage)
        index = k_add(b, k_mul(b, stage, k_i32(b, tile->pitch)), index);
    const KExpr *within = col;
    if (tile->cols > tile->span) {
        const KExpr *block = k_div(b, col, k_i32(b, tile->span));
        index = k_add(b, index, k_mul(b, block, k_i32(b, (int64_t)tile->rows * tile->span)));
        within = k_mod(b, col, k_i32(b, tile->span));
    }
    if (mask) {
        /* chunk ^ bits == (within ^ bits * chunk elements), because both are powers of two apart */
        const KExpr *bits = k_bit_and(b, shift ? k_shr(b, row, shift) : row, k_i32(b, mask));
        within = k_xor(b, within, k_mul(b, bits, k_i32(b, chunk)));
    }
    return k_add(b, index, within);
}

const KExpr *tile_address(Builder *b, const Tile *tile, const KExpr *stage, const KExpr *row,
                          const KExpr *col) {
    return k_smem_addr(b, tile->buffer, tile_index(b, tile, stage, row, col));
}

const KExpr *tile_block_address(Builder *b, const Tile *tile, const KExpr *stage, int row, int block) {
    const KExpr *index = k_i32(b, ((int64_t)block * tile->rows + row) * tile->span);
    if (stage)
        index = k_add(b, k_mul(b, stage, k_i32(b, tile->pitch)), index);
    return k_smem_addr(b, tile->buffer, index);
}

const KExpr *tile_descriptor(Builder *b, const Tile *tile, OperandMajor major) {
    int64_t block_bytes = (int64_t)tile->lead * swizzle_span(tile->swizzle);
    /* 18 bits: in a cluster the address has the block's number above them (PTX ISA 9.7.15.5.1.2.2) */
    const KExpr *address = k_smem_addr(b, tile->buffer, k_i32(b, 0));
    address = k_bit_and(b, address, k_int(b, K_U32, 0x3ffff));
    const KExpr *low = k_convert(b, k_shr(b, address, 4), K_U64);
    uint64_t constant = wgmma_descriptor(tile->swizzle, major, tile->apart, block_bytes);
    return k_bit_or(b, low, k_int(b, K_U64, (int64_t)constant));
}

int64_t tile_stage_units(const Tile *tile) {
    return tile->pitch * dtype_bits(tile->elem) / 128;
}

int64_t tile_descriptor_offset(const Tile *tile, int row, int col) {
    int64_t element = ((int64_t)(col / tile->span) * tile->rows + row) * tile->span + col % tile->span;
    return element * dtype_bits(tile->elem) / 128;
}

void tile_load_matrices(Builder *b, const Tile *tile, const KExpr *stage, const KExpr *row, const KExpr *col,
                        bool rows_first, bool transposed, const KVar *words, int at) {
    /* lanes 0-7, 8-15, 16-23 and 24-31 give the row addresses of the four matrices */
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *low = k_mod(b, lane, k_i32(b, 8));
    const KExpr *second = k_mod(b, k_div(b, lane, k_i32(b, 8)), k_i32(b, 2)); /* matrices 1 and 3 */
    const KExpr *later = k_div(b, lane, k_i32(b, 16));                        /* matrices 2 and 3 */
    const KExpr *down = rows_first ? second : later, *across = rows_first ? later : second;
    const KExpr *r = k_add(b, row, k_add(b, low, k_mul(b, down, k_i32(b, 8))));
    const KExpr *c = k_add(b, col, k_mul(b, across, k_i32(b, tile_chunk(tile->elem))));
    KOperand operands[] = {k_regs(words, at, 4), k_operand(tile_address(b, tile, stage, r, c))};
    k_atom(b, transposed ? ATOM_ldmatrix_x4_trans : ATOM_ldmatrix_x4, NULL, operands, 2);
}
