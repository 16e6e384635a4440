#include "codegen/templates/vectors.h"

DType vectors_element(KType type) {
    switch (type) {
    case K_BOOL: return DTYPE_BOOL;
    case K_I64:
    case K_U64: return DTYPE_I64;
    case K_F32: return DTYPE_F32;
    case K_F64: return DTYPE_F64;
    case K_I32:
    case K_U32: break;
    }
    return DTYPE_I32;
}

static void vectors_move(Builder *b, bool store, const KBuffer *buffer, const KExpr *index, const KVar *array,
                         const KExpr *at, int width) {
    int bits = dtype_bits(buffer->elem), chunk = width * bits > 128 ? 128 / bits : width;
    for (int i = 0; i < width; i += chunk) {
        const KExpr *from = k_add(b, index, k_int(b, index->type, i)), *element = k_add(b, at, k_i32(b, i));
        if (store)
            k_store(b, buffer, from, array, element, chunk, NULL, CACHE_DEFAULT);
        else
            k_load(b, array, element, buffer, from, chunk, NULL, CACHE_DEFAULT);
    }
}

void vectors_store(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *array, const KExpr *at,
                   int width) {
    vectors_move(b, true, buffer, index, array, at, width);
}

void vectors_load(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *array, const KExpr *at,
                  int width) {
    vectors_move(b, false, buffer, index, array, at, width);
}
