/* Where an operand's elements are: memory under strides, in two parts along an axis, or slices that indices
 * choose; and in which ways TMA reads them. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_tiles.h"

/* Whether the operand's view tells where its elements are, in one way or another. */
static bool operand_has_view(const MatmulOperand *operand) {
    return operand->is_memory || operand->is_parted || operand->chosen || operand->windows;
}

/* The widest type that an operand's elements need: exact widening on the way is undone. */
static DType operand_narrow(const MatmulOperand *operand) {
    return operand_has_view(operand) ? operand->view.base->dtype
                                     : value_before_widening(operand->value)->dtype;
}

KType matmul_source_type(const MatmulPlan *plan, const MatmulOperand *source) {
    const Value *value = source->value;
    KType type = ktype_of(value->dtype);
    if (dtype_is_float(source->elem) || dtype_bits(source->elem) > 16)
        return type;
    for (size_t i = 0; i < plan->region->values.n; i++) {
        const Value *user = plan->region->values.at[i];
        for (int k = 0; k < user->n_in; k++)
            if (user->in[k] == value &&
                (!dtype_is_float(user->dtype) || !(op_is_scalar(user->op) || user->op == OP_cast)))
                return type;
    }
    return K_F32;
}

void matmul_read_view(MatmulOperand *operand) {
    const Value *value = operand->value;
    operand->narrow = operand_narrow(operand);
    operand->major = MAJOR_K;
    if (operand_has_view(operand)) {
        bool along_k = dim_is(operand->view.strides[operand->k_axis], 1);
        bool along_mn = dim_is(operand->view.strides[operand->mn_axis], 1);
        operand->is_contiguous = along_k || along_mn;
        operand->major =
            along_mn && (!along_k || dim_is(value->dims[operand->k_axis], 1)) ? MAJOR_MN : MAJOR_K;
    }
    bool has_strides = operand->is_memory || operand->chosen || operand->windows;
    operand->n_batch = 0;
    for (int i = 0; i < value->rank - 2; i++)
        if (!dim_is(value->dims[i], 1) && !(has_strides && dim_is(operand->view.strides[i], 0)))
            operand->batch[operand->n_batch++] = i;
}

/* Whether a value is another with its last two axes exchanged. */
static bool operand_is_flipped(const Value *value) {
    int rank = value->rank;
    if (value->op != OP_transpose || value->attrs[0].ints[rank - 1] != rank - 2)
        return false;
    for (int axis = 0; axis < rank - 2; axis++)
        if (value->attrs[0].ints[axis] != axis)
            return false;
    return true;
}

/* Takes one axis of an operand from its factors; false where it is in more than two. */
static bool operand_part(DimTable *dims, const ViewFactors *factors, int axis, bool may_have_two,
                         MatmulOperand *operand, const Dim **part, const Dim **outer) {
    const ViewFactor *found[2];
    int n = 0;
    for (int i = 0; i < factors->n; i++) {
        if (factors->at[i].axis != axis)
            continue;
        if (n == (may_have_two ? 2 : 1))
            return false;
        found[n++] = &factors->at[i];
    }
    operand->view.strides[axis] = n ? found[n - 1]->stride : dim_const(dims, 0);
    if (n == 2) {
        *part = found[1]->dim;
        *outer = found[0]->stride;
    }
    return true;
}

/* Whether TMA can read the operand where M, N or K lie in two parts; notes where. A part of M or N is whole
 * tiles. */
static bool operand_is_parted(const Graph *graph, const Region *region, MatmulOperand *operand) {
    enum { TILE_LEAST = 8 };
    ViewFactors factors;
    void *context = (void *)(uintptr_t)region;
    Value *value = (Value *)(uintptr_t)operand->value,
          *base = view_below_movements(value, region_is_memory, context);
    const Dim *strides[RANK_MAX];
    view_base_strides(graph, base, strides);
    if (!region_is_memory(context, base) || !view_factors(graph, value, base, strides, &factors))
        return false;
    MatmulOperand found = *operand;
    found.view = (View){.base = base, .offset = factors.offset};
    int n_batch = 0;
    for (int i = 0; i < value->rank; i++) {
        bool is_mn = i == operand->mn_axis, is_k = i == operand->k_axis;
        const Dim *part = NULL, *outer = NULL;
        if (!operand_part(graph->dims, &factors, i, is_mn || is_k, &found, &part, &outer))
            return false;
        if (is_mn) {
            found.mn_part = part;
            found.mn_outer = outer;
        } else if (is_k) {
            found.k_part = part;
            found.k_outer = outer;
        } else {
            n_batch += !dim_is(value->dims[i], 1);
        }
    }
    int parts = (found.mn_part != NULL) + (found.k_part != NULL);
    bool has_run =
        dim_is(found.view.strides[operand->k_axis], 1) || dim_is(found.view.strides[operand->mn_axis], 1);
    if (!parts || parts + n_batch > MATMUL_TMA_BEYOND || !has_run || dtype_bits(base->dtype) < 8)
        return false;
    if (found.mn_part && dim_divisor(graph->dims, found.mn_part) % TILE_LEAST != 0)
        return false;
    if (!view_is_step(graph, factors.offset, base->dtype))
        return false;
    for (int i = 0; i < factors.n; i++)
        if (!dim_is(factors.at[i].stride, 1) && !view_is_step(graph, factors.at[i].stride, base->dtype))
            return false;
    found.is_parted = true;
    *operand = found;
    return true;
}

/* Whether TMA can read what an operand's view says. */
static bool operand_is_tma_view(const Graph *graph, const MatmulOperand *operand, const char **why) {
    *why = "TMA needs an operand that is contiguous along K, M or N";
    if (!operand->is_contiguous)
        return false;
    *why = "TMA needs rows and starts that are multiples of 16 bytes";
    int outer = operand->major == MAJOR_K ? operand->mn_axis : operand->k_axis;
    if (!view_is_step(graph, operand->view.offset, operand->elem) ||
        !view_is_step(graph, operand->view.strides[outer], operand->elem) ||
        (dim_is(operand->view.strides[outer], 0) && !dim_is(operand->value->dims[outer], 1)) ||
        (operand->chosen && !view_is_step(graph, operand->chosen->step, operand->elem)))
        return false;
    for (int i = 0; i < operand->n_batch; i++)
        if (!view_is_step(graph, operand->view.strides[operand->batch[i]], operand->elem))
            return false;
    *why = "TMA reads at most five dims: two of the matrix and three of the batch";
    if (operand->n_batch + (operand->chosen != NULL) > MATMUL_TMA_BEYOND)
        return false;
    *why = NULL;
    return true;
}

/* Whether the rows that indices choose along M or N lie along K, each from a multiple of 16 bytes on. */
static bool operand_has_whole_rows(const Graph *graph, const MatmulOperand *operand) {
    const ViewGather *chosen = operand->chosen;
    bool fits = operand->is_contiguous && operand->major == MAJOR_K &&
                view_is_step(graph, operand->view.offset, operand->elem) &&
                view_is_step(graph, chosen->step, operand->elem) &&
                dim_is(operand->view.strides[operand->mn_axis], 0) &&
                view_is_step(graph, operand->value->dims[operand->k_axis], operand->elem);
    for (int i = 0; i < operand->n_batch; i++)
        fits = fits && view_is_step(graph, operand->view.strides[operand->batch[i]], operand->elem);
    return fits;
}

/* Whether TMA copies pages as boxes: of rows along K, or of columns along M or N, in whole turns of 8. */
static bool operand_has_page_boxes(const Graph *graph, const MatmulOperand *operand) {
    enum { PAGE_ROWS = 8 };
    const ViewGather *pages = operand->chosen;
    int across = operand->major == MAJOR_K ? operand->mn_axis : operand->k_axis;
    return pages->page_axis == across && dim_is_const(pages->page) && pages->page->value % PAGE_ROWS == 0 &&
           dim_lower(graph->dims, operand->value->dims[across]) <= INT32_MAX;
}

bool matmul_take_chosen(const Graph *graph, const Region *region, const ViewGather *gather,
                        MatmulOperand *operand) {
    if (!region_reads(region, gather->data.base) || !region_reads(region, gather->index.base) ||
        !(gather->page || dim_is(gather->index.strides[operand->k_axis], 0)) ||
        dim_lower(graph->dims, gather->extent) > INT32_MAX)
        return false;
    ViewGather *kept = ARENA_NEW(graph->arena, ViewGather);
    *kept = *gather;
    MatmulOperand found = *operand;
    const char *why;
    found.view = gather->data;
    found.chosen = kept;
    found.chooses_rows = !gather->page && !dim_is(gather->index.strides[operand->mn_axis], 0);
    matmul_read_view(&found);
    found.elem = found.narrow;
    if (gather->page && !operand_has_page_boxes(graph, &found))
        return false;
    if (found.chooses_rows ? !operand_has_whole_rows(graph, &found)
                           : !operand_is_tma_view(graph, &found, &why))
        return false;
    operand->view = found.view;
    operand->chosen = kept;
    operand->chooses_rows = found.chooses_rows;
    return true;
}

bool matmul_find_chosen(const Graph *graph, const Region *region, MatmulOperand *operand) {
    ViewGather gather;
    Value *value = (Value *)(uintptr_t)operand->value;
    void *context = (void *)(uintptr_t)region;
    return (view_gather(graph, value, region_is_memory, context, &gather) &&
            matmul_take_chosen(graph, region, &gather, operand)) ||
           (view_pages(graph, value, region_is_memory, context, &gather) &&
            matmul_take_chosen(graph, region, &gather, operand));
}

/* Whether TMA can read the operand as windows; notes them. */
static bool operand_has_windows(const Graph *graph, const Region *region, MatmulOperand *operand) {
    Windows *windows = ARENA_NEW(graph->arena, Windows);
    const Value *value = operand->value;
    if (!windows_of(graph, (Value *)(uintptr_t)value, operand->mn_axis, operand->k_axis, region_is_memory,
                    (void *)(uintptr_t)region, windows))
        return false;
    const Dim *zero = dim_const(graph->dims, 0);
    operand->windows = windows;
    operand->view = (View){.base = (Value *)(uintptr_t)windows->base, .offset = zero};
    for (int i = 0; i < value->rank; i++)
        operand->view.strides[i] = windows->batch[i].base_axis >= 0 ? windows->batch[i].step : zero;
    operand->view.strides[windows->within_axis] = dim_const(graph->dims, 1);
    return true;
}

void matmul_read_operand(const Graph *graph, const Region *region, const Value *product, int which,
                         MatmulOperand *operand) {
    Value *value = product->in[which];
    *operand = (MatmulOperand){.value = value, .runs = ARENA_NEW(graph->arena, MatmulRuns)};
    operand->mn_axis = value->rank - (which == 0 ? 2 : 1);
    operand->k_axis = value->rank - (which == 0 ? 1 : 2);
    operand->mn = value->dims[operand->mn_axis];
    operand->view = view_of(graph, value, region_is_memory, (void *)(uintptr_t)region);
    operand->is_memory = region_reads(region, operand->view.base);
    bool has_view = operand->is_memory || operand_is_parted(graph, region, operand) ||
                    matmul_find_chosen(graph, region, operand) || operand_has_windows(graph, region, operand);
    while (!has_view && operand_is_flipped(operand->value)) { /* the same, the other way round */
        int axis = operand->mn_axis;
        operand->value = operand->value->in[0];
        operand->mn_axis = operand->k_axis;
        operand->k_axis = axis;
    }
    matmul_read_view(operand);
}

bool matmul_is_tma(const Graph *graph, const MatmulOperand *operand, const char **why) {
    *why = "TMA copies memory: an operand is computed in this kernel, or converted";
    return operand->is_memory && operand->narrow == operand->elem && operand_is_tma_view(graph, operand, why);
}

bool matmul_is_parted(const MatmulOperand *operand) {
    return operand->is_parted && operand->narrow == operand->elem;
}

bool matmul_has_chosen_matrices(const MatmulOperand *operand) {
    return operand->chosen && !operand->chooses_rows && operand->narrow == operand->elem;
}

bool matmul_has_windows(const MatmulOperand *operand) {
    return operand->windows && operand->narrow == operand->elem;
}

bool matmul_is_brought_by_tma(const Graph *graph, const MatmulOperand *operand, const char **why) {
    return matmul_has_chosen_matrices(operand) || matmul_is_parted(operand) || matmul_has_windows(operand) ||
           matmul_is_tma(graph, operand, why);
}

bool matmul_has_chosen_rows(const MatmulOperand *operand) {
    return operand->chooses_rows && operand->narrow == operand->elem;
}

bool matmul_chooses_rows(const MatmulPlan *plan) {
    bool found = matmul_has_chosen_rows(&plan->a);
    for (int i = 0; i < plan->n_cores; i++)
        found = found || matmul_has_chosen_rows(&plan->b[i]);
    return found;
}

bool matmul_uses_idle_warps(const MatmulPlan *plan) {
    return matmul_chooses_rows(plan) || matmul_has_idle_guest(plan);
}

bool matmul_is_tma_input(const MatmulPlan *plan, const Value *value) {
    const Dim *strides[RANK_MAX];
    if (dtype_bits(value->dtype) != 16 || !dtype_is_float(value->dtype) ||
        !value_same_dims(value, plan->core[0]) || plan->batch_rank > INPUTS_BATCH ||
        dim_divisor(plan->graph->dims, plan->n) % 2 != 0)
        return false;
    view_base_strides(plan->graph, value, strides);
    if (!dim_is(strides[value->rank - 1], 1))
        return false;
    for (int i = 0; i < value->rank - 1; i++)
        if (!view_is_step(plan->graph, strides[i], value->dtype) || dim_is(strides[i], 0))
            return false;
    return true;
}

const KExpr *matmul_chosen(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                           const KExpr *const *batch, const KExpr *row) {
    const ViewGather *chosen = operand->chosen;
    const KExpr *at = k_dim(b, chosen->index.offset, K_I32), *is_one = NULL;
    for (int i = 0; i < operand->value->rank - 2; i++)
        at = k_add(b, at,
                   k_mul(b, matmul_batch_coord(b, plan, operand, i, batch),
                         k_dim(b, chosen->index.strides[i], K_I32)));
    if (row) {
        int axis = chosen->page ? chosen->page_axis : operand->mn_axis;
        is_one = k_lt(b, row, k_dim(b, operand->value->dims[axis], K_I32));
        const KExpr *number = chosen->page ? k_div(b, row, k_dim(b, chosen->page, K_I32)) : row;
        at = k_add(b, at, k_mul(b, number, k_dim(b, chosen->index.strides[axis], K_I32)));
    }
    const KExpr *number = k_load_scalar(b, "chosen", k_global(b, chosen->index.base, false), at, is_one);
    KType type = number->type == K_I64 ? K_I64 : K_I32;
    number = k_convert(b, number, type);
    const KExpr *extent = k_dim(b, chosen->extent, type);
    is_one = k_and(b, is_one, k_and(b, k_ge(b, number, k_int(b, type, 0)), k_lt(b, number, extent)));
    return k_convert(b, k_select(b, is_one, number, k_int(b, type, -1)), K_I32);
}

const KExpr *matmul_chosen_matrix(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                                  const KExpr *const *batch) {
    if (!operand->chosen || operand->chooses_rows || operand->chosen->page)
        return NULL;
    return k_let_expr(b, "matrix", matmul_chosen(b, plan, operand, batch, NULL));
}
