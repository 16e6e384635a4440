/* Matrix products: what a product's kernel takes in on either side.
 *
 * Behind the product everything element by element is free: it happens in registers. Before it nothing is: a
 * tensor-core kernel copies its operands straight from memory to shared memory, and an operand that must be
 * computed is computed once for every tile that reads it. So a prologue joins only where that costs less than
 * storing its result. Views of memory cost nothing on either side. */
#include <stdlib.h>

#include "ir/view.h"
#include "ir/windows.h"
#include "passes/fuse.h"

enum {
    MATMUL_TILE =
        128, /* rows or columns of a tile: how often an operand's element is read is extent / tile */
    MATMUL_FACTOR_BLOCK = 16, /* elements for each of which a factor is computed once, by another kernel */
    MATMUL_SMALL = 1 << 22,   /* multiplications below which a launch costs more than the product */
    /* rows from which an operand of 8 bits is converted by a kernel of its own: on the way it takes a fifth
     * of the product's time, and there as long as 1300 rows do. One of 4 bits is converted on the way for the
     * columns of one transposed tile alone. */
    MATMUL_WIDEN_ROWS = 1280,
    MATMUL_RECOMPUTE_COST =
        128, /* scalar operations an operand's element may cost over all tiles, without tensor cores */
};

static const Dim *matmul_extent(const Value *matmul, int from_end) {
    return matmul->dims[matmul->rank - from_end];
}

void fuse_matmul(Fuse *fuse, Value *value) {
    if (fuse_chain(fuse, value))
        return;
    Group *group = group_new(fuse, TEMPLATE_MATMUL, value->rank, value->dims, 0);
    group_add_core(fuse, group, value);
    pass_decide(fuse->pass, "matmul", true, value, NULL, NULL, "it is the core of a kernel");
}

static const Value *matmul_below_views(const Value *value, bool widens) {
    while (op_is_view(value->op) ||
           (widens && value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype)))
        value = value->in[0];
    return value;
}

/* Whether two second operands are narrower in memory than they are multiplied, by more rows than lie along
 * the columns of a transposed product: then a kernel converts but one of them on the way. */
static bool matmul_widens_both(const Fuse *fuse, const Value *a, const Value *b) {
    int64_t m = fuse_extent(fuse, matmul_extent(a, 2));
    bool widens = true;
    for (int i = 0; i < 2; i++) {
        const Value *operand = (i ? b : a)->in[1];
        widens = widens && dtype_bits(matmul_below_views(operand, true)->dtype) < dtype_bits(operand->dtype);
    }
    return widens && m > MATMUL_TILE && product_uses_tensor_cores(fuse->limits, a);
}

static bool matmul_is_of_cores(const Group *group) {
    return group->kind == TEMPLATE_MATMUL && !group->is_chain && !group->sums.n;
}

bool fuse_are_dual(const Group *a, const Group *b) {
    return matmul_is_of_cores(a) && matmul_is_of_cores(b) &&
           product_are_dual(a->cores.at[0], b->cores.at[0]); /* all of a group are alike */
}

bool fuse_dual(Fuse *fuse, Value *value, Group *a, Group *b) {
    if (a == b || !matmul_is_of_cores(a) || !matmul_is_of_cores(b))
        return false;
    Value *first = a->cores.at[0], *second = b->cores.at[0];
    const char *change = "products with the same first operand, and results of equal dims and type";
    if (!product_are_dual(first, second)) {
        pass_decide(
            fuse->pass, "dual_matmul", false, value, second, change,
            "two products meet here that do not share their first operand, or differ in size or type");
        return false;
    }
    if (a->cores.n + b->cores.n > REGION_CORES_MAX) {
        pass_decide(fuse->pass, "dual_matmul", false, value, second,
                    text_format(fuse->arena, "at most %d products", REGION_CORES_MAX),
                    "one kernel computes no more products side by side");
        return false;
    }
    int refusal = REFUSED_PRODUCT | (a->cores.n + b->cores.n > 2 ? REFUSED_CORES : 0);
    if ((fuse->known->refused[first->id] | fuse->known->refused[second->id]) & refusal) {
        pass_decide(fuse->pass, "dual_matmul", false, value, second, "operands that are copied, not computed",
                    "no schedule has registers for all products");
        return false;
    }
    if (matmul_widens_both(fuse, first, second)) {
        pass_decide(fuse->pass, "dual_matmul", false, value, second,
                    "at most 128 rows, or weights of the type that they are multiplied in",
                    "a kernel converts one second operand on its way, not several");
        return false;
    }
    if (a->n_reduced || b->n_reduced || group_waits(a, b) || group_waits(b, a)) {
        pass_decide(fuse->pass, "dual_matmul", false, value, second, change,
                    "one of the products waits for another");
        return false;
    }
    if (a->leaves.n + b->leaves.n > (size_t)fuse->limits->max_inputs ||
        a->members.n + b->members.n > FUSE_MEMBERS_MAX) {
        pass_decide(fuse->pass, "inputs", false, value, second, "fewer operands or operations",
                    "together they read too many tensors, or compute too much");
        return false;
    }
    group_merge(fuse, a, b);
    qsort(a->cores.at, a->cores.n, sizeof(Value *), fuse_by_id);
    pass_decide(fuse->pass, "dual_matmul", true, value, second, NULL, "%s products read '%s' and meet here",
                a->cores.n == 2 ? "both" : "the",
                first->in[0]->name ? first->in[0]->name : "the same operand");
    return true;
}

/* Whether `value` is a view of elements of 8 bits that matrix instructions take, floats or integers. */
static bool matmul_is_byte(const Value *value, bool is_float) {
    DType type = matmul_below_views(value, true)->dtype;
    return is_float ? dtype_is_fp8(type) : dtype_is_int8(type);
}

/* What memory of 8 bits an element is multiplied with, an f32 factor a block, each of at least
 * MATMUL_FACTOR_BLOCK elements unless it lies in memory: the products are of the elements, and the factors go
 * into the accumulators. NULL: `value` is not such a product. */
static Value *matmul_factors(const Fuse *fuse, const Value *value, bool is_float) {
    const Value *product = value;
    while (product->op == OP_transpose)
        product = product->in[0];
    for (int i = 0; i < 2 && product->op == OP_mul && fuse->limits->scales_blocks; i++) {
        Value *factors = value_below_views(product->in[1 - i]);
        bool are_few =
            fuse_count(fuse, product->rank, (const Dim *const *)product->dims) / MATMUL_FACTOR_BLOCK >=
            fuse_count(fuse, factors->rank, (const Dim *const *)factors->dims);
        if (matmul_is_byte(product->in[i], is_float) && factors->dtype == DTYPE_F32 &&
            (fuse_is_base(fuse, factors) || are_few))
            return factors;
    }
    return NULL;
}

/* The factors of an operand that sums of products take; NULL: it has none, or the elements of both are no
 * operands of one matrix instruction. */
static Value *matmul_summed_factors(const Fuse *fuse, const Value *matmul, int operand) {
    const Value *other = matmul->in[1 - operand];
    for (int is_float = 0; is_float < 2; is_float++) {
        Value *factors = matmul_factors(fuse, matmul->in[operand], is_float);
        if (factors && (matmul_factors(fuse, other, is_float) || matmul_is_byte(other, is_float)))
            return factors;
    }
    return NULL;
}

Value *matmul_widened_apart(Fuse *fuse, Value *matmul, int operand) {
    Value *value = matmul->in[operand];
    const Value *other = matmul_below_views(matmul->in[1 - operand], false);
    const Dim *extent = matmul_extent(matmul, operand ? 2 : 1);
    while (op_is_view(value->op) && !fuse_home(fuse, value))
        value = value->in[0];
    if (fuse_home(fuse, value) || value->op != OP_cast || dtype_bits(value->dtype) != 16 ||
        dtype_bits(value->in[0]->dtype) > 8 || dtype_bits(other->dtype) != 16)
        return NULL;
    bool is_byte = dtype_bits(value->in[0]->dtype) == 8;
    int64_t rows = is_byte ? dim_lower(fuse->graph->dims, extent) : fuse_extent(fuse, extent);
    if (rows < (is_byte ? MATMUL_WIDEN_ROWS : MATMUL_TILE + 1) ||
        !product_uses_tensor_cores(fuse->limits, matmul))
        return NULL;
    pass_decide(fuse->pass, "matmul_prologue", false, matmul, value, "fewer rows, which read it less often",
                "%lld rows are multiplied by it: converting it once for all costs less than on the way",
                (long long)rows);
    return value;
}

/* Whether all of a view's strides but 1 are steps of 16 bytes, as TMA takes them. */
static bool matmul_is_stepped(const Fuse *fuse, const View *view, int rank) {
    int64_t step = 128 / dtype_bits(view->base->dtype);
    bool fits = dim_divisor(fuse->graph->dims, view->offset) % step == 0;
    for (int i = 0; i < rank; i++)
        fits = fits &&
               (dim_is(view->strides[i], 1) || dim_divisor(fuse->graph->dims, view->strides[i]) % step == 0);
    return fits;
}

/* Whether TMA may read an operand, that of a product beside rows that warps copy, so that no warpgroup
 * computes or brings it. */
static bool matmul_is_tma(Fuse *fuse, Value *operand) {
    ViewGather gather;
    View view = fuse_view(fuse, operand);
    if (fuse_view_gather(fuse, operand, &gather) || fuse_view_pages(fuse, operand, &gather))
        view = gather.data;
    return fuse_is_base(fuse, view.base) && view.base->dtype == operand->dtype &&
           matmul_is_stepped(fuse, &view, operand->rank);
}

/* Whether indices choose an operand's matrices, its pages, or its rows along M or N, of memory that kernels
 * read where it lies: by TMA, or by warps that copy rows. The indices are in memory, or can be. */
static bool matmul_is_chosen(Fuse *fuse, Value *matmul, int which, Value **index) {
    Value *operand = matmul->in[which];
    int k_axis = operand->rank - (which ? 2 : 1);
    int row = operand->rank - 2, col = operand->rank - 1, mn_axis = row + col - k_axis, n_batch = 1;
    ViewGather gather;
    if (!fuse->limits->reads_chosen || !product_uses_tensor_cores(fuse->limits, matmul))
        return false;
    bool has_pages = fuse_view_pages(fuse, operand, &gather);
    if ((!has_pages && !fuse_view_gather(fuse, operand, &gather)) || !fuse_is_base(fuse, gather.data.base) ||
        gather.data.base->dtype != operand->dtype)
        return false;
    *index = gather.index.base;
    if (!fuse_is_base(fuse, *index) && (!value_is_pointwise(*index) || fuse_node(fuse, *index)->free))
        return false;
    for (int i = 0; i < row; i++)
        n_batch += !dim_is(operand->dims[i], 1) && !dim_is(gather.data.strides[i], 0);
    int64_t step = 128 / dtype_bits(operand->dtype);
    bool is_along_k = dim_is(gather.data.strides[k_axis], 1),
         is_along_mn = dim_is(gather.data.strides[mn_axis], 1);
    bool fits = (has_pages || dim_is(gather.index.strides[k_axis], 0)) &&
                dim_divisor(fuse->graph->dims, gather.step) % step == 0 &&
                matmul_is_stepped(fuse, &gather.data, operand->rank);
    if (has_pages || dim_is(gather.index.strides[mn_axis], 0))
        return fits && n_batch <= FUSE_TMA_BEYOND && is_along_k != is_along_mn;
    return fits && is_along_k && matmul_is_tma(fuse, matmul->in[1 - which]) &&
           dim_divisor(fuse->graph->dims, operand->dims[k_axis]) % step == 0;
}

/* Whether a product is so small that a launch costs more. */
static bool matmul_is_small(Fuse *fuse, const Value *matmul) {
    int64_t m = fuse_extent(fuse, matmul_extent(matmul, 2)), n = fuse_extent(fuse, matmul_extent(matmul, 1));
    int64_t k = fuse_extent(fuse, matmul->in[0]->dims[matmul->in[0]->rank - 1]);
    return m < MATMUL_SMALL && n < MATMUL_SMALL && k < MATMUL_SMALL && m * n < MATMUL_SMALL &&
           m * n * k <= MATMUL_SMALL;
}

Value *matmul_index_apart(Fuse *fuse, Value *matmul, int operand) {
    Value *index;
    bool is_apart = !fuse_home(fuse, matmul)->is_chain && !matmul_is_small(fuse, matmul) &&
                    matmul_is_chosen(fuse, matmul, operand, &index) && !fuse_is_base(fuse, index);
    return is_apart ? index : NULL;
}

Value *matmul_factors_apart(Fuse *fuse, Value *matmul, int operand) {
    Value *factors = matmul_summed_factors(fuse, matmul, operand);
    bool is_apart = factors && !fuse_home(fuse, matmul)->is_chain && !matmul_is_small(fuse, matmul) &&
                    !fuse_is_base(fuse, factors) && !fuse_node(fuse, factors)->free;
    return is_apart ? factors : NULL;
}

static bool matmul_is_value(void *context, const Value *value) {
    return value == context;
}

/* Looked for below movements, at what lies in memory or is computed, or else at what the lowest of them are
 * of that can be stored for it. */
Value *matmul_windows_base(Fuse *fuse, Value *matmul, int operand) {
    Value *whole = matmul->in[operand], *value = whole, *found = NULL;
    int k_axis = whole->rank - (operand ? 2 : 1), mn_axis = 2 * whole->rank - 3 - k_axis;
    bool may_read = fuse->limits->reads_chosen && !fuse_home(fuse, matmul)->is_chain &&
                    product_uses_tensor_cores(fuse->limits, matmul) && !matmul_is_small(fuse, matmul) &&
                    !fuse_is_base(fuse, fuse_view(fuse, whole).base);
    while (may_read && !fuse_is_base(fuse, value) && (op_is_view(value->op) || value->op == OP_pad)) {
        bool is_lowest = value->op == OP_window || value->op == OP_pad;
        value = value->in[0];
        bool is_end = fuse_is_base(fuse, value) || !(op_is_view(value->op) || value->op == OP_pad);
        Windows windows;
        if ((is_lowest || is_end) && value->dtype == whole->dtype &&
            windows_of(fuse->graph, whole, mn_axis, k_axis, matmul_is_value, value, &windows))
            found = value;
    }
    return found;
}

bool matmul_wants_stored(Fuse *fuse, Value *matmul, int operand) {
    Value *value = matmul->in[operand];
    int64_t extent = fuse_extent(fuse, matmul_extent(matmul, operand ? 2 : 1));
    int64_t tiles = (extent + MATMUL_TILE - 1) / MATMUL_TILE;
    int64_t cost = fuse_cone_cost(fuse, value, 1 << 20);
    if (fuse_home(fuse, matmul)->is_chain)
        return !chain_chooses(fuse, matmul, operand);
    if (matmul_is_small(fuse, matmul)) {
        pass_decide(fuse->pass, "prologue", true, matmul, value, NULL,
                    "the product is small, so its operand is computed as it is read");
        return false;
    }
    if (matmul_windows_base(fuse, matmul, operand)) {
        pass_decide(
            fuse->pass, "matmul_prologue", false, matmul, value, "an operand that lies in memory",
            "its windows are copied from memory a tap at a time, which beats computing it for each tap");
        return true;
    }
    Value *index;
    if (matmul_is_chosen(fuse, matmul, operand, &index)) {
        pass_decide(fuse->pass, "prologue", true, matmul, value, NULL,
                    "it is read where the indices say that it lies");
        return false;
    }
    if (matmul_summed_factors(fuse, matmul, operand)) {
        pass_decide(fuse->pass, "prologue", true, matmul, value, NULL,
                    "its factors, one a block, are applied to sums of products");
        return false;
    }
    bool tensor = product_uses_tensor_cores(fuse->limits, matmul);
    if (tensor ? tiles <= 1 : tiles * cost <= MATMUL_RECOMPUTE_COST) {
        pass_decide(fuse->pass, "prologue", true, matmul, value, NULL,
                    "computing the operand in each of %lld tiles costs less than storing it",
                    (long long)tiles);
        return false;
    }
    FragmentsEstimate estimate;
    if (operand == 0 && fuse_fragments(fuse, matmul, &estimate)) {
        if (fuse_node(fuse, matmul)->takes_rows)
            pass_decide(
                fuse->pass, "prologue", true, matmul, value, NULL,
                "it is computed in the registers that the matrix instructions read, where its rows are "
                "reduced");
        else
            pass_decide(
                fuse->pass, "prologue", true, matmul, value, NULL,
                "it is computed in the registers that the matrix instructions read, which costs %.0f us "
                "by the estimate, and storing it %.0f us",
                estimate.fragments * 1e6, estimate.stored * 1e6);
        return false;
    }
    pass_decide(fuse->pass, "matmul_prologue", false, matmul, value,
                operand
                    ? "at most 128 rows of result, or a weight that is stored as the product reads it"
                    : "at most 128 columns of result, or computing the operand in the kernel that makes it",
                "it would be computed again for each of %lld tiles that read it%s", (long long)tiles,
                tensor ? ", and the copy from memory straight to shared memory would be lost" : "");
    return true;
}
