/* Outputs that leave through shared memory, in the order in which memory has them: by TMA where it can, else
 * by rows, whose neighbouring elements neighbouring lanes store.
 *
 *     p: [M, N] as it is                   coordinates of a box        col, row
 *     heads first, [B, H, S, D] of         col % D, row % S, col / D, row / S
 *     rows (B, S) and columns (H, D)
 *
 * What an output is of the result, by reshapes and transposes, is undone on its strides (ir/view.h). */
#include "codegen/lower.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_staging.h"

enum {
    STORED_COLS = 64 /* columns of the widest box */,
    STORED_BYTES = 16,
    STORED_LANES = 32,
    STORED_SECTOR = 32
};

/* Adds the parts of an axis, the inner ones first: the innermost alone, or the others. */
static bool stored_add(const MatmulPlan *plan, const ViewFactors *factors, int axis, bool is_inner,
                       MatmulStored *stored) {
    const Dim *each = dim_const(plan->graph->dims, 1);
    int first = -1;
    for (int i = factors->n - 1; i >= 0; i--) {
        const ViewFactor *factor = &factors->at[i];
        if (factor->axis != axis)
            continue;
        bool is_innermost = first < 0;
        first = first < 0 ? i : first;
        bool is_last = i == 0 || factors->at[i - 1].axis != axis;
        if (is_innermost == is_inner) {
            if (stored->n == STORED_DIMS || !each)
                return false;
            stored->at[stored->n].axis = axis;
            stored->at[stored->n].dim = factor->dim;
            stored->at[stored->n].stride = factor->stride;
            stored->at[stored->n].each = each;
            stored->at[stored->n++].is_last = is_last;
        }
        each = dim_mul(plan->graph->dims, each, factor->dim);
    }
    return true;
}

/* Where an output that has whole bytes for each element of the product, or of a window of its columns, has
 * its rows and columns. */
static bool stored_find(const MatmulPlan *plan, const Value *output, ViewFactors *factors) {
    const Graph *graph = plan->graph;
    const RegionWindow *window = region_window(plan->region, output);
    const Value *root = lower_root(plan->region, output), *core = plan->core[0];
    int bits = dtype_bits(output->dtype), rank = core->rank;
    const Dim *dims[RANK_MAX];
    if (bits < 8 || bits > 32 || (bits == 16 && !dtype_is_float(output->dtype)) ||
        (window ? window->is_bundle : !value_same_dims(root, core)))
        return false;
    for (int i = 0; i < rank; i++)
        dims[i] = core->dims[i];
    if (window)
        dims[rank - 1] = dim_const(graph->dims, window->width);
    return view_stored(graph, output, root, rank, dims, factors);
}

/* The innermost columns; NULL where they are not side by side in memory, or parts of less than a sector, of
 * which a fragment's rows may have more side by side than its columns. */
static const ViewFactor *stored_columns(const MatmulPlan *plan, const ViewFactors *factors, int bits) {
    for (int i = factors->n - 1; i >= 0; i--) {
        const ViewFactor *factor = &factors->at[i];
        if (factor->axis != plan->core[0]->rank - 1)
            continue;
        bool is_long =
            factor->dim == plan->n || dim_lower(plan->graph->dims, factor->dim) * bits >= 8 * STORED_SECTOR;
        return is_long && dim_is(factor->stride, 1) ? factor : NULL;
    }
    return NULL;
}

/* Whether pieces of so many columns all begin at multiples of their size in memory. */
static bool stored_is_aligned(const MatmulPlan *plan, const ViewFactors *factors, const ViewFactor *columns,
                              int width) {
    DimTable *dims = plan->graph->dims;
    for (int i = 0; i < factors->n; i++) {
        const ViewFactor *factor = &factors->at[i];
        if (dim_divisor(dims, factor == columns ? factor->dim : factor->stride) % width != 0)
            return false;
    }
    return true;
}

int matmul_stored_width(const MatmulPlan *plan, const Value *output, int cols) {
    ViewFactors factors;
    if (!stored_find(plan, output, &factors))
        return 0;
    int bits = dtype_bits(output->dtype), width = 1;
    const ViewFactor *columns = stored_columns(plan, &factors, bits);
    int most = 8 * STORED_BYTES / bits, share = STAGING_ROWS * cols / STORED_LANES;
    if (!columns)
        return 0;
    while (2 * width <= most && 2 * width <= share && stored_is_aligned(plan, &factors, columns, 2 * width))
        width *= 2;
    return width;
}

bool matmul_stored(const MatmulPlan *plan, const Value *output, MatmulStored *stored) {
    const Graph *graph = plan->graph;
    const RegionWindow *window = region_window(plan->region, output);
    int rank = plan->core[0]->rank, rows = rank - 2, cols = rank - 1;
    ViewFactors factors;
    *stored = (MatmulStored){0};
    if (dim_divisor(graph->dims, plan->n) % 2 != 0 || !stored_find(plan, output, &factors))
        return false;
    bool has_rows = false;
    for (int i = 0; i < factors.n; i++)
        has_rows = has_rows || factors.at[i].axis == rows;
    bool fits = stored_add(plan, &factors, cols, true, stored) && stored->n == 1;
    if (fits && !has_rows) { /* one row, whose map has a dim for it all the same */
        stored->at[1].axis = rows;
        stored->at[1].dim = stored->at[1].each = dim_const(graph->dims, 1);
        stored->at[1].stride = window ? dim_const(graph->dims, window->width) : plan->core[0]->dims[cols];
        stored->at[1].is_last = true;
        stored->n = 2;
    }
    fits = fits && stored_add(plan, &factors, rows, true, stored) &&
           stored_add(plan, &factors, cols, false, stored) && stored_add(plan, &factors, rows, false, stored);
    for (int axis = rank - 3; axis >= 0; axis--)
        fits = fits && stored_add(plan, &factors, axis, true, stored) &&
               stored_add(plan, &factors, axis, false, stored);
    if (!fits || !dim_is(stored->at[0].stride, 1))
        return false;
    for (int i = 1; i < stored->n; i++)
        if (!view_is_step(graph, stored->at[i].stride, output->dtype) || dim_is(stored->at[i].stride, 0))
            return false;
    /* TMA writes whole pieces of 16 bytes: of a row that ends within one, what lies behind it too. */
    if (!view_is_step(graph, stored->at[0].dim, output->dtype))
        return false;
    return (stored->at[0].is_last || dim_divisor(graph->dims, stored->at[0].dim) % STORED_COLS == 0) &&
           (stored->at[1].is_last || dim_divisor(graph->dims, stored->at[1].dim) % STAGING_ROWS == 0);
}

int matmul_stored_map(Builder *b, const Value *output, const MatmulStored *stored, int rows, int cols,
                      KSwizzle swizzle) {
    KTensorMap map = {
        .buffer = k_global(b, output, true), .elem = output->dtype, .rank = stored->n, .swizzle = swizzle};
    for (int i = 0; i < stored->n; i++) {
        map.dims[i] = stored->at[i].dim;
        map.strides[i] = stored->at[i].stride;
        map.box[i] = i == 0 ? cols : i == 1 ? rows : 1;
    }
    return k_tensor_map(b, text_format(b->arena, "%s_map", output->name ? output->name : "out"), map);
}

int matmul_stored_coords(Builder *b, const MatmulPlan *plan, const MatmulStored *stored,
                         const KExpr *const *batch, const KExpr *row, const KExpr *col, KOperand *coords) {
    int rank = plan->core[0]->rank;
    for (int i = 0; i < stored->n; i++) {
        int axis = stored->at[i].axis;
        const KExpr *at = axis == rank - 1 ? col : axis == rank - 2 ? row : batch[axis];
        at = k_div(b, at, k_dim(b, stored->at[i].each, K_I32));
        if (!stored->at[i].is_last)
            at = k_mod(b, at, k_dim(b, stored->at[i].dim, K_I32));
        coords[i] = k_operand(at);
    }
    return stored->n;
}
