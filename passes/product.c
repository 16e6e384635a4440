/* Which reductions of products pay in parts.
 *
 * A product's cone is what follows it element by element. A reduction along the rows of the cone is done in
 * parts where nothing else waits for it that needs the row again: softmax(x @ w.T) reads its row after the
 * statistics anyway, and the kernel that reads it computes them on the way; the loss of logits does not, and
 * the logits then never lie in memory. A row too long to stay on chip would be read twice, and is done in
 * parts as well. Reductions down the columns gain where the product is not stored otherwise, or is more than
 * L2 has (product_weigh_columns). It is all or nothing for the reductions of one product along one axis: one
 * that is left over would read the product again. */
#include "passes/product.h"

#include "ir/base/checked.h"
#include "passes/fuse.h"

enum {
    PRODUCT_LEAST_ROWS = 16, /* below, products are cut along M otherwise, and a row is little to read */
    PRODUCT_LEAST_COUNT = 1 << 20, /* elements below which a read costs less than a launch */
    PRODUCT_FRAGMENT_BITS = 16,    /* of an operand in the registers that matrix instructions read */
    PRODUCT_WASTE = 8,             /* the last block may lack this part of all columns */
};

/* What is known of a Value: bits of Product.flags. */
enum { FROM_ROWS = 1, FROM_COLUMNS = 2, FROM_ALL = 4 };

typedef struct Product {
    Pass *pass;
    const Graph *graph;
    const Value **core; /* by id: the product whose cone it is in; NULL: none */
    const Value **last; /* the same; of several that are not one kernel, whose kernel reads the others' */
    uint8_t
        *flags;   /* by id: computed from reductions of a product along its rows, down its columns, or both */
    uint8_t *bad; /* by id of the core: FROM_ROWS, FROM_COLUMNS: these reductions stay whole */
    int *functions;        /* by id of the core: of each element, in its cone */
    int *columns;          /* the same: its reductions down columns */
    bool *apart;           /* they are another kernel's if what they reduce is stored anyway: */
    bool *kept;            /* by id: others read it */
    bool *is_read;         /* by id of the core: others read something of its cone */
    const Value **reduced; /* by id of the core: what its reductions down columns are of; NULL: several */
} Product;

int64_t product_extent(const Graph *graph, const Dim *dim) {
    if (dim_is_const(dim))
        return dim->value;
    int64_t lower = dim_lower(graph->dims, dim), upper = dim_upper(graph->dims, dim),
            guess = FUSE_UNKNOWN_DIM;
    if (dim->kind == DIM_MUL && /* as many as the factors count apart: rows that are joined, say */
        !checked_mul(product_extent(graph, dim->a), product_extent(graph, dim->b), &guess))
        guess = INT64_MAX;
    return guess > upper ? upper : guess < lower ? lower : guess;
}

double product_matrices(const Graph *graph, const Value *product) {
    enum { FEW = 8 };
    double matrices = 1;
    for (int i = 0; i < product->rank - 2; i++) {
        int64_t extent = product_extent(graph, product->dims[i]);
        matrices *= (double)(extent > FEW && !dim_is_const(product->dims[i]) ? FEW : extent);
    }
    return matrices;
}

static bool product_is_found(const Value *value, int *room) {
    if (value->op == OP_matmul || --*room < 0)
        return true;
    for (int i = 0; i < value->n_in; i++)
        if (product_is_found(value->in[i], room))
            return true;
    return false;
}

bool product_is_below(const Value *value) {
    int room = 256; /* values, counted once for each use */
    return product_is_found(value, &room);
}

bool product_reads_windows(const Value *operand) {
    while (operand->op != OP_window && (op_is_view(operand->op) || operand->op == OP_pad))
        operand = operand->in[0];
    return operand->op == OP_window;
}

Value *product_below(Value *value, const Value *x, int depth) {
    if (value->op == OP_matmul)
        return value_same_dims(value, x) ? value : NULL;
    Value *product = NULL;
    for (int i = 0; i < value->n_in && !product && depth && value_is_pointwise(value); i++)
        product = product_below(value->in[i], x, depth - 1);
    return product;
}

bool product_streams(const Graph *graph, const Value *product, int64_t times) {
    enum { ROWS = 64, TILES = 32 };
    return product_extent(graph, product->dims[product->rank - 2]) >= ROWS ||
           product_matrices(graph, product) * (double)times >= TILES;
}

bool product_is_16bit(const Value *product) {
    DType type = product->in[0]->dtype;
    return (type == DTYPE_F16 || type == DTYPE_BF16) && product->in[1]->dtype == type &&
           product->dtype == DTYPE_F32;
}

bool product_types_use_tensor_cores(const FuseLimits *limits, DType a, DType b) {
    bool fp8 = dtype_is_fp8(a) && dtype_is_fp8(b), int8 = dtype_is_int8(a) && dtype_is_int8(b);
    bool same = a == b && (a == DTYPE_F16 || a == DTYPE_BF16 || a == DTYPE_TF32);
    return limits->has_tensor_cores && (fp8 || int8 || same);
}

bool product_uses_tensor_cores(const FuseLimits *limits, const Value *matmul) {
    return product_types_use_tensor_cores(limits, matmul->in[0]->dtype, matmul->in[1]->dtype);
}

bool product_computes_operand(const FuseLimits *limits, const Value *product) {
    return limits->computes_fragments && dtype_bits(product->in[0]->dtype) == PRODUCT_FRAGMENT_BITS &&
           product_uses_tensor_cores(limits, product);
}

bool product_reduces_operand(const Graph *graph, const FuseLimits *limits, const Value *product) {
    enum { LEAST_ROWS = 256, LINE = 16 };
    const Value *operand = product->in[0];
    const Dim *row = operand->dims[operand->rank - 1];
    return product_computes_operand(limits, product) &&
           dim_divisor(graph->dims, row) * PRODUCT_FRAGMENT_BITS % (8 * LINE) == 0 &&
           product_extent(graph, product->dims[product->rank - 2]) >= LEAST_ROWS;
}

bool product_defers(const Graph *graph, const FuseLimits *limits, const Value *product, int n_products,
                    DeferEstimate *estimate) {
    static const double share = 0.035, launch = 3e-6;
    const Value *operand = product->in[0];
    double rows = 1, k = (double)product_extent(graph, operand->dims[operand->rank - 1]);
    for (int i = 0; i < product->rank - 1; i++)
        rows *= (double)product_extent(graph, product->dims[i]);
    double columns = (double)product_extent(graph, product->dims[product->rank - 1]);
    estimate->beside = share * n_products * 2 * rows * k * columns / limits->tensor_flops;
    estimate->apart =
        2 * rows * k * dtype_bits(operand->dtype) / 8.0 / limits->memory_bytes_per_second + launch;
    return estimate->beside < estimate->apart;
}

bool product_are_dual(const Value *a, const Value *b) {
    return a != b && a->in[0] == b->in[0] &&
           (a->in[1]->op == OP_transpose) == (b->in[1]->op == OP_transpose) && a->dtype == b->dtype &&
           a->in[1]->dtype == b->in[1]->dtype && value_same_dims(a, b) && value_same_dims(a->in[1], b->in[1]);
}

const char *product_sum_fault(const FuseLimits *limits, const Value *a, const Value *b, const char **change) {
    *change = "results of equal dims and type";
    if (a->dtype != b->dtype || !value_same_dims(a, b))
        return "the two products differ in size or type";
    *change = "operands of one type, f16, bf16, tf32, fp8 or 8-bit integers, in both products";
    if (a->in[0]->dtype != b->in[0]->dtype || a->in[1]->dtype != b->in[1]->dtype ||
        !product_uses_tensor_cores(limits, a) || !product_uses_tensor_cores(limits, b))
        return "matrix instructions do not take the operands of both alike";
    return NULL;
}

bool product_block_fits(const Graph *graph, const FuseLimits *limits, const Value *product, bool is_row,
                        int64_t block) {
    int64_t m = product_extent(graph, product->dims[product->rank - 2]),
            n = product_extent(graph, product->dims[product->rank - 1]), count = PRODUCT_LEAST_COUNT;
    for (int i = 0; i < product->rank - 2; i++) {
        int64_t extent = product_extent(graph, product->dims[i]);
        count /= extent > 1 ? extent : 1;
    }
    if (m < PRODUCT_LEAST_ROWS || n < 1 || n < count / m)
        return false;
    if (!is_row)
        return block == PRODUCT_BLOCK_ROWS;
    int64_t blocks = (n + block - 1) / block;
    bool is_tile = block == limits->matmul_row_max || block == limits->matmul_row_max / 2;
    return is_tile && n > limits->matmul_row_max && (blocks * block - n) * PRODUCT_WASTE <= n;
}

/* Whether something that follows the product lets its sums be as short as tensor cores keep them. */
static bool product_sums_fast(const Product *p, const Value *core) {
    for (size_t i = 0; i < p->graph->hints.n; i++) {
        const Hint *hint = &p->graph->hints.at[i];
        if (hint->value && p->core[hint->value->id] == core && fuse_hint_allows(hint, "fast_accumulation"))
            return true;
    }
    return false;
}

/* Whether two registers hold each sum, as those of fp8 products are added up in two levels. */
static bool product_sums_twice(const Product *p, const Value *core) {
    DType type = core->in[0]->dtype;
    return dtype_is_fp8(type) && !product_sums_fast(p, core);
}

/* Elements of a block; 0: none fits. The widest blocks of columns that N is made of. Narrow ones are better
 * where the last one is not full, since the guards of its columns take the registers that wide tiles leave,
 * where sums in two levels leave wide tiles none, and where several functions of each element want some: the
 * loss of logits behind a tanh took 529 us in wide ones and 460 in narrow ones, the logarithms of the sums of
 * rows and columns 67.8 and 50. And they are where two warpgroups take tiles of them in turn, which wide
 * tiles leave no registers for: the loss of 4096 x 32000 logits along K = 2048 took 876 us in wide ones and
 * 795 in narrow ones, of 16384 x 1024 along 512 50 and 42. Along 128 that hides little, nor does it along
 * 8192. */
static int64_t product_block(const Product *p, const Value *core, ProductPart part) {
    enum { SEVERAL = 2, SHORT = 256, LONG = 4096 };
    const FuseLimits *limits = p->pass->options->limits;
    bool has_fragments = product_uses_tensor_cores(limits, core);
    if (part == PRODUCT_COLUMNS)
        return has_fragments && product_block_fits(p->graph, limits, core, false, PRODUCT_BLOCK_ROWS)
                   ? PRODUCT_BLOCK_ROWS
                   : 0;
    int64_t widest = limits->matmul_row_max,
            columns = dim_divisor(p->graph->dims, core->dims[core->rank - 1]);
    int64_t k = product_extent(p->graph, core->in[0]->dims[core->in[0]->rank - 1]);
    bool is_wide = has_fragments && (k <= SHORT || k > LONG);
    if (is_wide && columns % widest == 0 && !product_sums_twice(p, core) &&
        p->functions[core->id] < SEVERAL && product_block_fits(p->graph, limits, core, true, widest))
        return widest;
    return product_block_fits(p->graph, limits, core, true, widest / 2) ? widest / 2 : 0;
}

Value *product_reduced(const Value *reduction) {
    Value *operand = reduction->in[0];
    if (operand->op != OP_transpose || reduction->attrs[0].axes.n != 1 || operand->rank < 3)
        return operand;
    int axis = operand->attrs[0].ints[reduction->attrs[0].axes.at[0]];
    return axis == operand->rank - 2 ? operand->in[0] : operand;
}

/* Over the last axis, and maybe others; or over the one before and maybe others before that. */
static ProductPart product_part(const Value *reduction) {
    int rank = reduction->in[0]->rank, n = reduction->attrs[0].axes.n;
    const int *axes = reduction->attrs[0].axes.at;
    if (product_reduced(reduction) != reduction->in[0])
        return PRODUCT_COLUMNS;
    if (n < 1 || rank < 2 || axes[n - 1] < rank - 2)
        return PRODUCT_WHOLE;
    return axes[n - 1] == rank - 1 ? PRODUCT_ROWS : PRODUCT_COLUMNS;
}

static bool product_is_divisible(const Value *reduction, ProductPart part) {
    switch (reduction->op) {
    case OP_sum:
    case OP_prod:
    case OP_reduce_min:
    case OP_reduce_max:
    case OP_any:
    case OP_all: return true;
    case OP_argmin:
    case OP_argmax: return part == PRODUCT_ROWS && reduction->attrs[0].axes.n == 1;
    default: return false;
    }
}

/* What a value that is reduced is computed of alone, as squares are. */
static const Value *product_source(const Value *value) {
    const Value *source = value_before_widening(value);
    bool is_of_one = value_is_pointwise(source) && source->op != OP_cast;
    for (int i = 1; i < source->n_in; i++)
        is_of_one = is_of_one && source->in[i] == source->in[0];
    return is_of_one ? value_before_widening(source->in[0]) : source;
}

/* Whether `first` reduces x over the axes of `sum`, and keeps them. */
static bool product_is_first(const Value *first, OpKind op, const Value *x, const Value *sum) {
    if (first->op != op || value_before_widening(first->in[0]) != value_before_widening(x) ||
        !first->attrs[1].i || first->dtype != sum->dtype || first->attrs[0].axes.n != sum->attrs[0].axes.n)
        return false;
    for (int i = 0; i < first->attrs[0].axes.n; i++)
        if (first->attrs[0].axes.at[i] != sum->attrs[0].axes.at[i])
            return false;
    return true;
}

/* `g` without what stands for 0 where it is not finite. */
static const Value *product_exp_shift(const Value *g) {
    double zero;
    bool is_guarded = g->op == OP_select && g->in[0]->op == OP_isfinite && g->in[0]->in[0] == g->in[1] &&
                      value_is_constant(g->in[2], &zero) && zero == 0;
    return is_guarded ? g->in[1] : g;
}

/* `g` without a scalar factor or divisor. */
static const Value *product_mean_sum(const Value *g) {
    if ((g->op == OP_mul || g->op == OP_div) && g->in[1]->rank == 0)
        return g->in[0];
    return g->op == OP_mul && g->in[0]->rank == 0 ? g->in[1] : g;
}

/* The form of a reduction, and what it refers to. */
static ProductForm product_form(const Value *sum, const Value **first) {
    const Value *e = sum->in[0], *shifted = e->n_in ? e->in[0] : NULL;
    *first = NULL;
    if (sum->op != OP_sum || !shifted || shifted->op != OP_sub || !dtype_is_float(sum->dtype) ||
        !value_same_dims(shifted->in[0], e))
        return PRODUCT_PLAIN;
    const Value *x = shifted->in[0], *g = shifted->in[1];
    if (e->op == OP_exp && product_is_first(product_exp_shift(g), OP_reduce_max, x, sum)) {
        *first = product_exp_shift(g);
        return PRODUCT_EXP_SUM;
    }
    if (e->op == OP_mul && e->in[1] == shifted && product_is_first(product_mean_sum(g), OP_sum, x, sum)) {
        *first = product_mean_sum(g);
        return PRODUCT_SQUARE_SUM;
    }
    return PRODUCT_PLAIN;
}

/* Whether an operand can be copied 16 bytes at a time. One that threads must bring element by element takes
 * registers that statistics of wide tiles want. */
static bool product_is_aligned(const Product *p, const Value *operand) {
    while (operand->op == OP_transpose)
        operand = operand->in[0];
    int64_t divisor = operand->rank ? dim_divisor(p->graph->dims, operand->dims[operand->rank - 1]) : 1;
    return divisor * dtype_bits(operand->dtype) % 128 == 0;
}

/* Of multiply-adds rows alone gain, as the threads of one warp have a row of the tile: the loss of 2048 x
 * 32000 logits along 512 took 1635 us by two kernels and 1464 so, of 8192 x 8192 along 128 474 and 440. */
static bool product_is_fit(const Product *p, const Value *matmul) {
    bool is_f32 = matmul->in[0]->dtype == DTYPE_F32 && matmul->in[1]->dtype == DTYPE_F32;
    return (is_f32 || product_uses_tensor_cores(p->pass->options->limits, matmul)) &&
           product_is_aligned(p, matmul->in[0]) && product_is_aligned(p, matmul->in[1]);
}

/* The product whose kernel computes `value` too; NULL: none, or several that are not one kernel. */
static const Value *product_core(const Product *p, const Value *value) {
    if (value->op == OP_matmul)
        return product_is_fit(p, value) ? value : NULL;
    const Value *core = NULL;
    for (int i = 0; value_is_pointwise(value) && i < value->n_in; i++) {
        const Value *other = p->core[value->in[i]->id];
        if (!other || !value_same_dims(other, value))
            continue;
        if (core && core != other && core->in[0] != other->in[0])
            return NULL;
        core = core ? core : other;
    }
    return core;
}

/* The last of the products that `value` is computed of; NULL: none. */
static const Value *product_last(const Product *p, const Value *value) {
    const Value *last = p->core[value->id];
    for (int i = 0; !p->core[value->id] && value_is_pointwise(value) && i < value->n_in; i++) {
        const Value *other = p->last[value->in[i]->id];
        if (other && value_same_dims(other, value) && (!last || other->id > last->id))
            last = other;
    }
    return last;
}

/* The product whose kernel may take a part of each reduction. Rows that several are in are left whole. */
static const Value *product_reduces(const Product *p, const Value *reduction, ProductPart part) {
    const Value *operand = product_reduced(reduction);
    return part == PRODUCT_COLUMNS ? p->last[operand->id] : p->core[operand->id];
}

/* Whether a rows kernel reads a row of the product once, for its statistics and for what they are applied to.
 */
static bool product_row_stays(const Product *p, const Value *core) {
    int64_t n = product_extent(p->graph, core->dims[core->rank - 1]);
    return n <= p->pass->options->limits->row_resident_max / (int64_t)sizeof(float);
}

/* A Value that its product's kernel must have whole, or that lies in memory: what it is computed from cannot
 * come of parts. */
static void product_need(Product *p, const Value *value) {
    const Value *core = p->core[value->id];
    if (core && (p->flags[value->id] & FROM_ROWS) && product_row_stays(p, core))
        p->bad[core->id] |= FROM_ROWS;
}

/* Whether a row of the product lies in one tile, whose kernel then reduces it as a whole. */
static bool product_has_row(const Product *p, const Value *core) {
    return dim_upper(p->graph->dims, core->dims[core->rank - 1]) <= p->pass->options->limits->matmul_row_max;
}

/* What is known of values computed from a reduction. One over more than a row is never had by a kernel that
 * has whole rows. */
static uint8_t product_flag(const Value *reduction, ProductPart part) {
    return part != PRODUCT_ROWS ? FROM_COLUMNS : reduction->attrs[0].axes.n > 1 ? FROM_ALL : FROM_ROWS;
}

/* Reductions down the columns of a product take less in its kernel, or in one that reads the result, from L2
 * mostly. H200, us in all, by its kernel and apart:
 *
 *     mean and variance, for which lanes exchange      3 x 3 of 64 x 56 x 56 x 64          106    53
 *     each column twice                                1 x 1 of it to 256 channels         179   133
 *                                                      2048 x 512, by more kernels apart    15    17
 *     tiles that are patches of the image otherwise    3 x 3 of 64 x 56 x 56 x 64           84    53
 *     two sums                                         200704 x 256 along 64               163    85
 *                                                      16384 x 1024 along 1024              68    63
 *                                                      12544 x 256 along 2304               31    32
 *     one                                              200704 x 256 along 64                99    73
 *                                                      16384 x 1024 along 1024              63    60
 *                                                      12544 x 256 along 1024               21    23
 *                                                      32768 x 3072 along 768              253   273
 *     two of what is not stored for anything else      50176 x 512 along 128                32    69
 *
 * So does one of what is stored rounded, which would lie in memory twice. */
static void product_weigh_columns(Product *p, const Value *core, const Value *operand, ProductForm form) {
    enum { MANY_ROWS = 4096, NARROW = 128, LITTLE = 6 << 20, MUCH = 30 << 20 };
    enum { LONG = 512, LONG_FOR_TWO = 1024 };
    const Graph *graph = p->graph;
    double rows = (double)product_extent(graph, core->dims[core->rank - 2]);
    int64_t columns = product_extent(graph, core->dims[core->rank - 1]);
    int64_t k = product_extent(graph, core->in[0]->dims[core->in[0]->rank - 1]);
    double elements = rows * (double)columns;
    const Value *source = product_source(operand);
    p->reduced[core->id] = p->columns[core->id]++ && p->reduced[core->id] != source ? NULL : source;
    if (rows <= MANY_ROWS)
        return;
    if (form == PRODUCT_SQUARE_SUM || (columns < NARROW && product_reads_windows(core->in[0])))
        p->bad[core->id] |= FROM_COLUMNS;
    bool is_little = elements <= LITTLE, is_much = elements >= MUCH;
    p->apart[core->id] =
        p->columns[core->id] > 1 ? !is_little || k < LONG_FOR_TWO : !(is_little || is_much) || k < LONG;
}

/* A reduction over a cone: what it makes of the values computed from it, and what stands against parts. */
static void product_reduction(Product *p, const Value *value) {
    ProductPart part = product_part(value);
    const Value *operand = product_reduced(value), *core = product_reduces(p, value, part), *first;
    if (!core || (part == PRODUCT_ROWS && value->attrs[0].axes.n == 1 && product_has_row(p, core)))
        return;
    uint8_t flags = p->flags[operand->id], mine = product_flag(value, part);
    ProductForm form = flags == mine ? product_form(value, &first) : PRODUCT_PLAIN;
    if (form != PRODUCT_PLAIN)
        flags = 0;
    if (flags)
        product_need(p, operand);
    if (part == PRODUCT_WHOLE)
        return;
    if (part == PRODUCT_COLUMNS)
        product_weigh_columns(p, core, operand, form);
    if (flags || !product_is_divisible(value, part) || !product_block(p, core, part))
        p->bad[core->id] |= part == PRODUCT_ROWS ? FROM_ROWS : FROM_COLUMNS;
    p->flags[value->id] |= mine;
}

/* An exponential, say, but no quotient: that is one of them for a whole row, or a product. */
static bool product_is_function(const Value *value) {
    enum { FUNCTION_COST = 4 };
    return value_is_pointwise(value) && value->op != OP_div && fuse_op_cost(value) >= FUNCTION_COST;
}

static void product_walk(Product *p) {
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const Value *value = p->graph->values.at[i];
        for (int k = 0; value->op != OP_matmul && k < value->n_in; k++)
            p->flags[i] |= p->flags[value->in[k]->id];
        p->core[i] = product_core(p, value);
        p->last[i] = product_last(p, value);
        if (p->core[i] && value->op != OP_matmul && product_is_function(value))
            p->functions[p->core[i]->id]++;
        bool is_reduction = value_class(value) == OPCLASS_REDUCTION;
        if (is_reduction)
            product_reduction(p, value);
        for (int k = 0; !is_reduction && k < value->n_in; k++) {
            const Value *in = value->in[k];
            if (p->core[in->id] != p->core[i])
                product_need(p, in);
            if (p->last[in->id] && (p->last[in->id] != p->last[i] || (p->flags[i] & FROM_COLUMNS)))
                p->kept[in->id] = p->is_read[p->last[in->id]->id] = true;
            /* a batch that is turned and computed with, not only reduced, is reduced where that is done */
            if (in->op == OP_transpose && in->rank > 2 && value_is_pointwise(value) && p->core[in->in[0]->id])
                p->bad[p->core[in->in[0]->id]->id] |= FROM_COLUMNS;
        }
    }
    for (size_t i = 0; i < p->graph->outputs.n; i++) {
        const Value *value = p->graph->outputs.at[i].value;
        product_need(p, value);
        if (p->last[value->id])
            p->kept[value->id] = p->is_read[p->last[value->id]->id] = true;
    }
    for (size_t i = 0; i < p->graph->values.n; i++)
        if (p->apart[i] && (p->reduced[i] ? p->kept[p->reduced[i]->id] : p->is_read[i]))
            p->bad[i] |= FROM_COLUMNS;
}

ProductReductions *product_find(Pass *pass, const Graph *graph) {
    size_t n = graph->values.n + 1;
    Product p = {.pass = pass, .graph = graph};
    VEC(ProductReduction) found = {0}, whole = {0};
    ProductReductions *all = ARENA_NEW(pass->arena, ProductReductions);
    *all = (ProductReductions){.numbers.arena = pass->arena};
    if (!pass->options->limits || !pass->options->limits->has_tensor_cores || pass->options->no_fusion)
        return all;
    p.core = ARENA_ARRAY(pass->arena, const Value *, n);
    p.last = ARENA_ARRAY(pass->arena, const Value *, n);
    p.flags = ARENA_ARRAY(pass->arena, uint8_t, n);
    p.bad = ARENA_ARRAY(pass->arena, uint8_t, n);
    p.functions = ARENA_ARRAY(pass->arena, int, n);
    p.columns = ARENA_ARRAY(pass->arena, int, n);
    p.apart = ARENA_ARRAY(pass->arena, bool, n);
    p.kept = ARENA_ARRAY(pass->arena, bool, n);
    p.is_read = ARENA_ARRAY(pass->arena, bool, n);
    p.reduced = ARENA_ARRAY(pass->arena, const Value *, n);
    product_walk(&p);
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        bool is_reduction = value_class(value) == OPCLASS_REDUCTION;
        ProductPart part = is_reduction ? product_part(value) : PRODUCT_WHOLE;
        const Value *core = is_reduction ? product_reduces(&p, value, part) : NULL;
        ProductReduction one = {.value = value, .part = part};
        one.block = !core || part == PRODUCT_WHOLE ? 0 : product_block(&p, core, part);
        if (!one.block)
            continue;
        if (p.bad[core->id] & (part == PRODUCT_ROWS ? FROM_ROWS : FROM_COLUMNS)) {
            vec_push(pass->arena, &whole, one);
            continue;
        }
        if (p.flags[product_reduced(value)->id] & product_flag(value, part))
            one.form = product_form(value, &one.first);
        vec_push(pass->arena, &found, one);
        value_map_set(&all->numbers, value, (int)found.n);
    }
    all->whole = whole.at;
    all->n_whole = whole.n;
    all->at = found.at;
    all->n = found.n;
    return all;
}

ProductReduction *product_get(const ProductReductions *all, const Value *value) {
    int number = value_map_get(&all->numbers, value);
    return number ? &all->at[number - 1] : NULL;
}
