/* Reductions down the columns of what a kernel of rows has in hand anyway: that kernel does them in blocks of
 * rows, and the columns are not read again (gradients of a norm's factors, of a bias).
 *
 *     dx = f(dy, x, sum(.., over=1));  dg = sum(dy * n, over=0)             dy, x: [16384, 4096]
 * ->  p = sum(reshape(dy * n, dims=[256, 64, 4096]), over=1)                by the kernel that computes dx
 *     dg = sum(p, over=0)                                                   by a small one
 *
 * So it is where rows of the same tensors are reduced too, or where what is reduced is written. As many
 * blocks as the multiprocessors take at once; fewer rows than a block is worth are left to kernels of
 * columns. */
#include "ir/base/checked.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/split.h"

enum {
    ROWS_LEAST = 16,     /* rows of a block: with fewer the parts themselves are a share of what is moved */
    ROWS_ROUNDS = 4,     /* blocks that a multiprocessor takes at once, at most */
    ROWS_SHORT = 352,    /* bytes of a row: with fewer, lanes of the warp that has it have nothing to do */
    ROWS_COLUMNS = 8192, /* more do not stay in registers, with their sums */
    ROWS_LEAST_COUNT = 1 << 19, /* elements */
    ROWS_SOURCES_MAX = 16,
    ROWS_SEARCH_MAX = 128,  /* operations between a reduction and what it is computed from */
    ROWS_WHOLE_LEAST = 128, /* elements of a row that is reduced before everything is */
    ROWS_WHOLE_MOST = 16384,
    ROWS_MOST = 65536, /* rows whose results one block reduces well */
};

typedef VEC(const Value *) SplitValues;

struct SplitRows {
    Pass *pass;
    const Graph *graph;
    ValueMap blocks; /* rows of a block */
};

/* Tensors of its own space that a value is computed from, element by element; false where a product
 * is among them, or there are too many. */
static bool rows_collect(const SplitRows *found, const Value *value, const Value *like, ValueMap *seen,
                         SplitValues *sources, int *budget) {
    if (value_map_get(seen, value) || value->op == OP_constant)
        return true;
    value_map_set(seen, value, 1);
    if (value->op == OP_matmul || --*budget < 0)
        return false;
    if (!value_is_pointwise(value)) {
        if (value_same_dims(value, like) && sources->n < ROWS_SOURCES_MAX)
            vec_push(found->pass->arena, sources, value);
        return value->op != OP_broadcast || rows_collect(found, value->in[0], like, seen, sources, budget);
    }
    for (int i = 0; i < value->n_in; i++)
        if (!rows_collect(found, value->in[i], like, seen, sources, budget))
            return false;
    return true;
}

static bool rows_sources(const SplitRows *found, const Value *value, SplitValues *sources) {
    ValueMap seen = {.arena = found->pass->arena};
    int budget = ROWS_SEARCH_MAX;
    return rows_collect(found, value, value, &seen, sources, &budget);
}

static bool rows_meet(const SplitValues *a, const SplitValues *b) {
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            if (a->at[i] == b->at[k])
                return true;
    return false;
}

static bool rows_are_parts_of(const Value *value) {
    switch (value->op) {
    case OP_sum:
    case OP_prod:
    case OP_reduce_min:
    case OP_reduce_max: return value->attrs[1].i != 0;
    default: return false;
    }
}

/* Whether `value` reduces the last axis alone, of a tensor of these dims. */
static bool rows_reduces_row(const Value *value, const Value *like) {
    return value_class(value) == OPCLASS_REDUCTION && value_same_dims(value->in[0], like) &&
           value->attrs[0].axes.n == 1 && value->attrs[0].axes.at[0] == like->rank - 1;
}

/* Gradients of a layer norm's operands, H200, us: 20 million elements of bf16 by rows of 28 320 in one kernel
 * and its small one, 72 with columns by a kernel of their own, of 128 87 and 60, of 196 61 and 68, of 384 47
 * and 60; 10 million of f32 of 28 136 and 61, of 96 54 and 58, of 384 38 and 57. */
static bool rows_are_short(const SplitValues *sources) {
    int64_t most = 0;
    for (size_t i = 0; i < sources->n; i++) {
        const Value *value = sources->at[i];
        const Dim *columns = value->dims[value->rank - 1];
        int64_t bytes = dim_is_const(columns) ? columns->value * dtype_bits(value->dtype) / 8 : ROWS_SHORT;
        most = bytes > most ? bytes : most;
    }
    return most < ROWS_SHORT;
}

/* Whether what is reduced is an output, rounded or not. */
static bool rows_are_output(const Graph *graph, const Value *operand) {
    const Value *written = operand;
    while (written->op == OP_cast)
        written = written->in[0];
    for (size_t i = 0; i < graph->outputs.n && value_is_pointwise(written); i++) {
        const Value *output = graph->outputs.at[i].value;
        if (output == operand || output == written || (output->op == OP_cast && output->in[0] == written))
            return true;
    }
    return false;
}

/* Whether `value` is taken in parts of a block of rows too, as what it reduces is written by rows. */
static bool rows_reduces_output(const SplitRows *found, const Value *value, const Value *like) {
    int n_reduced;
    return value_class(value) == OPCLASS_REDUCTION && value_same_dims(value->in[0], like) &&
           rows_are_parts_of(value) && reduction_layout(value, &n_reduced) == REDUCTION_COLUMNS &&
           n_reduced == like->rank - 1 && rows_are_output(found->graph, value->in[0]);
}

/* Whether a kernel computes or reads the rows of what is reduced, and waits for no result of it. */
static bool rows_have_company(const SplitRows *found, const Value *reduction) {
    const Graph *graph = found->graph;
    const Value *operand = reduction->in[0];
    SplitValues mine = {NULL, 0, 0};
    if (!rows_sources(found, operand, &mine) || rows_are_short(&mine))
        return false;
    if (rows_are_output(graph, operand))
        return true;
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *row = graph->values.at[i];
        SplitValues theirs = {NULL, 0, 0};
        if ((rows_reduces_row(row, operand) || rows_reduces_output(found, row, operand)) &&
            !value_is_computed_from(row, reduction) && rows_sources(found, row->in[0], &theirs) &&
            rows_meet(&mine, &theirs))
            return true;
    }
    return false;
}

/* Rows of a block so that blocks fill the multiprocessors evenly; 0: no number of rows does. */
static int64_t rows_of_block(const FuseLimits *limits, int64_t matrices, int64_t rows) {
    enum { FULL = 80, TWO = 5 /* of 100 */ };
    int64_t best = 0, most = 0, sms = limits->sm_count;
    for (int64_t each = 1; matrices <= ROWS_ROUNDS * sms / each && rows / each >= ROWS_LEAST; each++) {
        int64_t blocks = matrices * each, rounds = ceil_div(blocks, sms),
                full = 100 * blocks / (rounds * sms);
        int64_t worth = full + (rounds == 2) * TWO; /* while one waits for its rows, the other computes */
        if (rows % each == 0 && full >= FULL && worth > most) {
            most = worth;
            best = rows / each;
        }
    }
    return best;
}

static int64_t rows_block(const SplitRows *found, const Value *value) {
    int n_reduced;
    if (value_class(value) != OPCLASS_REDUCTION || !rows_are_parts_of(value) ||
        reduction_layout(value, &n_reduced) != REDUCTION_COLUMNS)
        return 0;
    const Value *operand = value->in[0];
    int rank = operand->rank;
    int64_t reduced, kept, count;
    if (rank < 2 || n_reduced != rank - 1 || !split_counts(value, &reduced, &kept) || kept > ROWS_COLUMNS ||
        __builtin_mul_overflow(reduced, kept, &count) || count < ROWS_LEAST_COUNT)
        return 0;
    int64_t rows = operand->dims[rank - 2]->value;
    int64_t block = rows_of_block(found->pass->options->limits, reduced / rows, rows);
    return block && rows_have_company(found, value) ? block : 0;
}

/* Whether a kernel writes something of the reduced space in its own order, element by element, that is
 * computed of the same tensors; and none writes it transposed, which goes by tiles. */
static bool rows_are_written(const SplitRows *found, const Value *reduction) {
    SplitValues mine = {NULL, 0, 0};
    bool any = false;
    if (!rows_sources(found, reduction->in[0], &mine))
        return false;
    for (size_t i = 0; i < found->graph->outputs.n; i++) {
        const Value *output = found->graph->outputs.at[i].value, *base = value_below_views(output);
        SplitValues theirs = {NULL, 0, 0};
        if (!value_is_pointwise(base) || !value_same_dims(base, reduction->in[0]) ||
            value_is_computed_from(base, reduction) || !rows_sources(found, base, &theirs) ||
            !rows_meet(&mine, &theirs))
            continue;
        if (output != base)
            return false;
        any = true;
    }
    return any;
}

/* How many of the last axes make rows of such lengths; `most`: no more of them. */
static int rows_axes(const Value *operand, int64_t elements, int most) {
    int64_t row = 1;
    for (int n = 1; n <= most; n++) {
        row *= operand->dims[operand->rank - n]->value;
        int64_t rows = elements / row;
        if (row > ROWS_WHOLE_MOST || rows < 2)
            return 0;
        if (row >= ROWS_WHOLE_LEAST && rows <= ROWS_MOST)
            return n;
    }
    return 0;
}

/* Whether a product's kernel has the rows of what is reduced in its tiles, and the matrices that these are
 * would be stored for no other reason. Few tiles had better share K: 8 of 256 x 256 along 4096 took 18 us so,
 * and 21 with rows that one block has; 16384 of 39 x 39 along 16 88, and 27. */
static bool rows_are_products(const SplitRows *found, const Value *reduction) {
    enum { DEPTH = 8, TILE_ROWS = 128 };
    const FuseLimits *limits = found->pass->options->limits;
    Value *operand = reduction->in[0];
    int n = reduction->attrs[0].axes.n, rank = operand->rank;
    const int *axes = reduction->attrs[0].axes.at;
    int64_t elements, kept, count;
    if (!limits || n < 2 || axes[n - 1] != rank - 1 || axes[n - 2] != rank - 2 ||
        !split_counts(reduction, &elements, &kept) || __builtin_mul_overflow(elements, kept, &count) ||
        count < ROWS_LEAST_COUNT)
        return false;
    const Value *product = product_below(operand, operand, DEPTH);
    int64_t rows = operand->dims[rank - 2]->value, columns = operand->dims[rank - 1]->value;
    int64_t tiles = count / (rows * columns) * ceil_div(rows, TILE_ROWS);
    return tiles >= limits->sm_count && product && product_uses_tensor_cores(limits, product) &&
           columns <= limits->matmul_row_max;
}

int split_rows_whole(Pass *pass, const Graph *graph, const Value *value) {
    int64_t elements, kept;
    const SplitRows found = {.pass = pass, .graph = graph};
    const Value *operand = value->n_in ? value->in[0] : NULL;
    if (value_class(value) != OPCLASS_REDUCTION || !rows_are_parts_of(value) || operand->rank < 2 ||
        value->attrs[0].axes.n < 2)
        return 0;
    if (rows_are_products(&found, value))
        return 1;
    if (value->attrs[0].axes.n != operand->rank)
        return 0;
    const Dim *last = operand->dims[operand->rank - 1];
    if (!split_counts(value, &elements, &kept)) /* of so many rows as come at launch one block took all */
        return dim_is_const(last) && last->value >= ROWS_WHOLE_LEAST && last->value <= ROWS_WHOLE_MOST;
    bool has_rows = rows_have_company(&found, value);
    return has_rows || rows_are_written(&found, value)
               ? rows_axes(operand, elements, has_rows ? 1 : operand->rank - 1)
               : 0;
}

const SplitRows *split_rows_find(Pass *pass, const Graph *graph) {
    SplitRows *found = ARENA_NEW(pass->arena, SplitRows);
    *found = (SplitRows){.pass = pass, .graph = graph, .blocks.arena = pass->arena};
    for (size_t i = 0; i < graph->values.n && pass->options->limits; i++) {
        int64_t block = rows_block(found, graph->values.at[i]);
        if (block && block <= INT32_MAX)
            value_map_set(&found->blocks, graph->values.at[i], (int)block);
    }
    return found;
}

int64_t split_rows_block(const SplitRows *found, const Value *value) {
    return value_map_get(&found->blocks, value);
}
