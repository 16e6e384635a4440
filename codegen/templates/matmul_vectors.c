/* Inputs of the epilogue with one element a column, which shared memory has room for (MatmulVectors). */
#include "codegen/templates/matmul_inputs.h"
#include "codegen/templates/matmul_operand.h"

/* Whether a value has one element for each column of the product. */
static bool vectors_is_column(const void *matmul_plan, const Value *value) {
    const MatmulPlan *plan = matmul_plan;
    if (value->rank < 1 || value->dims[value->rank - 1] != plan->n || dim_is(plan->n, 1))
        return false;
    for (int i = 0; i < value->rank - 1; i++)
        if (!dim_is(value->dims[i], 1))
            return false;
    return true;
}

static bool vectors_fits(const MatmulPlan *plan, const Value *value) {
    const Dim *strides[RANK_MAX];
    int bits = dtype_bits(value->dtype);
    if (!vectors_is_column(plan, value) || bits < 8 || bits > 32 ||
        !matmul_is_read_in_place(plan, value, vectors_is_column, plan))
        return false;
    view_base_strides(plan->graph, value, strides);
    return dim_is(strides[value->rank - 1], 1);
}

const KExpr *matmul_vector_bytes(Builder *b, const MatmulPlan *plan, const Value *value, const KExpr *col) {
    int each = dtype_bits(value->dtype) / 8;
    const KExpr *end = k_dim(b, plan->n, K_I32), *zero = k_int(b, K_U32, 0),
                *all = k_int(b, K_U32, VECTORS_WORD);
    if (dim_divisor(plan->graph->dims, plan->n) % (VECTORS_WORD / each) == 0)
        return k_select(b, k_lt(b, col, end), all, zero);
    const KExpr *left = k_mul(b, k_max(b, k_sub(b, end, col), k_i32(b, 0)), k_i32(b, each));
    return k_convert(b, k_min(b, left, k_i32(b, VECTORS_WORD)), K_U32);
}

void matmul_find_vectors(const MatmulPlan *plan, int tile_cols, int copies, int64_t bytes,
                         MatmulVectors *vectors) {
    *vectors = (MatmulVectors){0};
    bool is_cut = plan->region->column_block > 0; /* then they may be wanted at other columns */
    for (size_t i = 0; i < plan->region->windows.n; i++)
        is_cut = is_cut || !plan->region->windows.at[i].is_bundle;
    if (is_cut)
        return;
    for (size_t i = 0; i < plan->region->inputs.n && vectors->n < VECTORS_MAX; i++) {
        const Value *value = plan->region->inputs.at[i];
        if (!vectors_fits(plan, value) || tile_cols * dtype_bits(value->dtype) % 128 != 0 ||
            !matmul_is_read_behind(plan, value))
            continue;
        int64_t size = (int64_t)tile_cols * dtype_bits(value->dtype) / 8 * copies;
        if (size > bytes)
            continue;
        bytes -= size;
        vectors->value[vectors->n++] = value;
    }
}
