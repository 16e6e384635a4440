/* A reduction too long for one block becomes two, so that every multiprocessor has work.
 *
 *     s = sum(x, over=1)       x: f32[4, 1048576]
 * ->  p = sum(reshape(x, dims=[4, 128, 8192]), over=2)
 *     s = sum(p, over=1)
 *
 * Rows: few rows, long ones. Columns (leading axes): few columns, many rows. Lengths must be known, and
 * divide: then the parts are equal and no element is guarded. Sums, products, extremes and any/all may be
 * taken in parts in any order; argmax numbers elements and stays whole. What split_product.c does in the
 * kernel of a product is left to it. Columns of what a product reads too are cut into more parts, as idle
 * warps of the product's kernel may take them (fuse_guest.c). */
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/split.h"

enum {
    SPLIT_BLOCKS = 264,           /* blocks that fill a large GPU twice */
    SPLIT_ROW = 65536,            /* elements of a row that one block still reduces well */
    SPLIT_PART = 4096,            /* least elements of a part of a row */
    SPLIT_COLUMN = 1024,          /* rows that one block still sums well */
    SPLIT_COLUMN_PART = 64,       /* least rows of a part */
    SPLIT_WARP_PART = 128,        /* that a warp sums */
    SPLIT_GROUP_PART = 256,       /* rows of the columns of groups */
    SPLIT_COLUMN_BLOCK = 64,      /* columns that a block takes */
    SPLIT_PIECE = 8,              /* columns that a thread reads at once */
    SPLIT_COLUMN_TOTAL = 1 << 20, /* elements below which a second launch costs more */
};

/* What the rule asks. */
typedef struct Split {
    const ProductReductions *products;
    const SplitRows *rows;
    const SplitGroups *groups;
    const SplitSquares *squares;
    ValueMap operands; /* of products by tensor cores, before they are moved */
} Split;

static const Value *split_unmoved(const Value *value) {
    while (value_class(value) == OPCLASS_MOVEMENT || value->op == OP_cast)
        value = value->in[0];
    return value;
}

static Split *split_new(Pass *pass, const Graph *graph) {
    Split *split = ARENA_NEW(pass->arena, Split);
    const SplitGroups *groups = split_groups_find(pass, graph);
    *split = (Split){.products = product_find(pass, graph),
                     .rows = split_rows_find(pass, graph),
                     .groups = groups,
                     .squares = split_squares_find(pass, graph, groups),
                     .operands.arena = pass->arena};
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        for (int k = 0; value->op == OP_matmul && k < value->n_in; k++)
            if (product_uses_tensor_cores(pass->options->limits, value))
                value_map_set(&split->operands, split_unmoved(value->in[k]), 1);
    }
    return split;
}

bool split_takes_parts(OpKind op) {
    return op == OP_sum || op == OP_prod || op == OP_reduce_min || op == OP_reduce_max || op == OP_any ||
           op == OP_all;
}

bool split_counts(const Value *value, int64_t *reduced, int64_t *kept) {
    const Value *operand = value->in[0];
    *reduced = *kept = 1;
    for (int i = 0; i < operand->rank; i++) {
        int64_t *count = value_reduces(value, i) ? reduced : kept;
        if (!dim_is_const(operand->dims[i]) || __builtin_mul_overflow(*count, operand->dims[i]->value, count))
            return false;
    }
    return *reduced > 0 && *kept > 0 && *kept <= INT64_MAX / *reduced;
}

/* The most parts, at most `wanted`, that divide n with `least` elements or more each, of which so many times
 * `columns` are whole pieces of `piece`; 1 where there are none. */
static int64_t split_pieces(int64_t n, int64_t wanted, int64_t least, int64_t columns, int64_t piece) {
    if (wanted > n / least)
        wanted = n / least;
    for (int64_t parts = wanted; parts > 1; parts--)
        if (n % parts == 0 && parts * columns % piece == 0)
            return parts;
    return 1;
}

int64_t split_parts(int64_t n, int64_t wanted, int64_t least) {
    return split_pieces(n, wanted, least, 1, 1);
}

/* Whether columns are no whole pieces of a line, so that those of neighbouring rows had better be read
 * together as columns of different parts; how many parts in *parts:
 *
 *     rows of 3        | 0 1 2 | 0 1 2 | 0 1 2 | 0 1 2 | ...
 *     part             |   0   |   1   |   2   |   0   | ...      of three, which are rows of 9 to the kernel
 *
 * 12544000 rows of 3 (H200): by parts one behind the other 3 of 16 lanes had a column. */
static bool split_deals(const Value *value, int64_t reduced, int64_t kept, int64_t *parts) {
    enum { PIECE = 128 /* bits */ };
    int bits = dtype_bits(value->in[0]->dtype);
    int64_t wanted = (int64_t)SPLIT_BLOCKS / 2 * SPLIT_COLUMN_BLOCK / kept,
            most = reduced / SPLIT_COLUMN_PART;
    if (kept >= SPLIT_COLUMN_BLOCK && kept * bits % PIECE == 0)
        return false;
    *parts = split_pieces(reduced, wanted, SPLIT_COLUMN_PART, kept, SPLIT_PIECE);
    return *parts > 1 && *parts > (wanted < most ? wanted : most) / 4; /* else too few blocks */
}

bool split_run(const SplitGroups *groups, const Value *value, SplitRun *run) {
    *run = (SplitRun){0};
    ReductionLayout layout = reduction_layout(value, &run->n);
    if (!split_counts(value, &run->rows, &run->kept) || layout == REDUCTION_MIXED)
        return false;
    run->is_row = layout == REDUCTION_ROWS;
    run->at = run->is_row ? value->in[0]->rank - run->n : 0;
    split_groups(groups, value, run);
    return true;
}

int64_t split_row_parts(const SplitRun *run, int64_t most) {
    if (run->kept >= SPLIT_BLOCKS || run->rows <= SPLIT_ROW)
        return 1;
    int64_t wanted = (2 * SPLIT_BLOCKS + run->kept - 1) / run->kept;
    return split_parts(run->rows, wanted > run->rows / most ? wanted : run->rows / most, SPLIT_PART);
}

/* The run as so many parts of so many rows; how many axes that are. */
static int split_dims(DimTable *table, const Value *operand, const SplitRun *run, int64_t parts, int64_t rows,
                      const Dim **dims) {
    int rank = run->at;
    for (int i = 0; i < rank; i++)
        dims[i] = operand->dims[i];
    dims[rank++] = dim_const(table, run->is_dealt ? rows : parts);
    dims[rank++] = dim_const(table, run->is_dealt ? parts : rows);
    for (int i = run->at + run->n; i < operand->rank; i++)
        dims[rank++] = operand->dims[i];
    return rank;
}

Value *split_cut(Rewrite *rewrite, Value *operand, const SplitRun *run, int64_t parts, const Value *like) {
    DimTable *table = rewrite->graph->dims;
    const Dim *dims[RANK_MAX], *moved[RANK_MAX], *columns = dim_const(table, 1);
    if (operand->rank - run->n + 2 > RANK_MAX)
        return NULL;
    int rank = split_dims(table, operand, run, parts, run->rows / parts, dims);
    Value *cut = build_reshape(rewrite, operand, rank, dims, like);
    if (!run->is_group)
        return cut;
    for (int i = 0; i < rank; i++) {
        moved[i] = dims[run->perm[i]];
        if (i > run->row)
            columns = dim_mul(table, columns, moved[i]);
    }
    moved[run->row + 1] = columns;
    cut = build_transpose(rewrite, cut, run->perm, like);
    return build_reshape(rewrite, cut, run->row + 2, moved, like);
}

Value *split_reduce_rows(Rewrite *rewrite, OpKind op, Value *cut, const SplitRun *run, const Value *like) {
    int axis = run->is_group ? run->row : run->at + !run->is_dealt;
    return build_reduce(rewrite, op, cut, 1, &axis, true, like);
}

Value *split_parts_of(Rewrite *rewrite, Value *reduced, const SplitRun *run, int64_t parts, Value *value) {
    const Dim *dims[RANK_MAX], *moved[RANK_MAX];
    int inverse[RANK_MAX];
    if (!run->is_group)
        return reduced;
    int rank = split_dims(rewrite->graph->dims, value->in[0], run, parts, 1, dims);
    for (int i = 0; i < rank; i++) {
        inverse[run->perm[i]] = i;
        moved[i] = dims[run->perm[i]];
    }
    return build_transpose(rewrite, build_reshape(rewrite, reduced, rank, moved, value), inverse, value);
}

Value *split_joined(Rewrite *rewrite, Value *parts, const SplitRun *run, Value *value) {
    int axes[] = {run->at + run->is_dealt, parts ? parts->rank - 1 : 0};
    Value *fresh = build_reduce(rewrite, value->op, parts, run->is_group ? 2 : 1, axes, true, value);
    fresh = build_reshape(rewrite, fresh, value->rank, (const Dim *const *)value->dims, value);
    return fresh && fresh->dtype == value->dtype ? fresh : value;
}

/* sum over a run of axes as sum over P of sum over n/P. */
static Value *split_apply(Rewrite *rewrite, Value *value, const SplitRun *run, int64_t parts) {
    Value *cut = split_cut(rewrite, value->in[0], run, parts, value);
    cut = split_reduce_rows(rewrite, value->op, cut, run, value);
    return split_joined(rewrite, split_parts_of(rewrite, cut, run, parts, value), run, value);
}

/* In how many parts a reduction is done that is no group's, and shares no reading with another. */
static int64_t split_wanted(const Split *split, const Value *value, SplitRun *run, const char **why) {
    int64_t parts = 1, blocks = (run->kept + SPLIT_COLUMN_BLOCK - 1) / SPLIT_COLUMN_BLOCK;
    if (run->is_row)
        return split_row_parts(run, INT64_MAX);
    if (run->rows <= SPLIT_COLUMN || run->kept * run->rows < SPLIT_COLUMN_TOTAL)
        return 1;
    if (value_map_get(&split->operands, split_unmoved(value->in[0]))) {
        *why = "warps of a product that reads them may take them";
        return split_parts(run->rows, run->rows, SPLIT_WARP_PART);
    }
    run->is_dealt = split_deals(value, run->rows, run->kept, &parts);
    return run->is_dealt ? parts : split_parts(run->rows, SPLIT_BLOCKS / blocks, SPLIT_COLUMN_PART);
}

static Value *split_rule(Rewrite *rewrite, Value *value) {
    SplitRun run;
    const Split *split = rewrite->pass->state;
    if (value_class(value) != OPCLASS_REDUCTION || product_get(split->products, value) ||
        split_rows_block(split->rows, value) || !split_takes_parts(value->op) || !value->attrs[1].i)
        return value;
    bool is_run = split_run(split->groups, value, &run);
    Value *places = run.kept * run.rows >= SPLIT_COLUMN_TOTAL ? split_places(rewrite, value) : value;
    if (places != value || !is_run)
        return places;
    const char *why = "all multiprocessors work";
    int64_t parts = split_squares_get(split->squares, value);
    bool is_pair = parts > 0;
    if (is_pair)
        why = "one of them reads the elements once, for their mean and for what lies around it";
    else if (run.is_group)
        parts = split_parts(run.rows, run.rows, SPLIT_GROUP_PART);
    else
        parts = split_wanted(split, value, &run, &why);
    if (run.is_group)
        why = "one of them reads whole lines, channels of all groups";
    if (parts < 2)
        return value;
    Value *fresh = is_pair ? split_squares_apply(rewrite, split->groups, value, parts) : value;
    if (fresh == value)
        fresh = split_apply(rewrite, value, &run, parts);
    if (fresh != value)
        pass_decide(
            rewrite->pass, "split", false, value, NULL, "more results, or fewer elements for each",
            "%lld elements for each of %lld results are reduced in %lld parts, by two kernels, "
            "so that %s",
            (long long)(run.rows * (run.is_group ? value->in[0]->dims[value->in[0]->rank - 1]->value : 1)),
            (long long)run.kept, (long long)parts, why);
    return fresh;
}

/* In the form of statistics of blocks (ir/block.h), which a kernel of rows knows again. */
static Value *split_rows_rule(Rewrite *rewrite, Value *value) {
    DimTable *table = rewrite->graph->dims;
    const Split *split = rewrite->pass->state;
    int64_t block = split_rows_block(split->rows, value);
    Value *operand = value->in[0];
    if (!block || operand->rank + 1 > RANK_MAX)
        return value;
    int rank = operand->rank, row = rank - 2, inner = rank - 1;
    const Dim *cut[RANK_MAX], *parts[RANK_MAX];
    for (int i = 0; i < rank; i++)
        cut[i <= row ? i : i + 1] = parts[i] = operand->dims[i];
    cut[row] = parts[row] = dim_div(table, operand->dims[row], dim_const(table, block));
    cut[inner] = dim_const(table, block);
    Value *first = build_reshape(rewrite, operand, rank + 1, cut, value);
    first = build_reduce(rewrite, value->op, first, 1, &inner, true, value);
    Value *second = build_reshape(rewrite, first, rank, parts, value);
    second = build_reduce(rewrite, value->op, second, value->attrs[0].axes.n, value->attrs[0].axes.at, true,
                          value);
    if (!second || second->dtype != value->dtype)
        return value;
    pass_decide(rewrite->pass, "split", true, second, value, NULL,
                "the kernel that has its rows anyway reduces %lld of them at a time, another kernel "
                "their results",
                (long long)block);
    return second;
}

bool pass_split(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion)
        return false;
    graph_renumber(graph);
    Split *split = split_new(pass, graph);
    pass->state = split;
    bool changed = rewrite_graph(pass, graph, split_rule);
    if (changed)
        pass_cse(pass, graph); /* so that it is seen what is a statistic of what */
    for (int round = 0; changed && round < 4 && pass_movement(pass, graph); round++)
        continue; /* the parts' reshape belongs on the inputs */
    if (changed) {
        graph_renumber(graph);
        split->rows = split_rows_find(pass, graph); /* whose reshape stays */
    }
    return rewrite_graph(pass, graph, split_rows_rule) || changed;
}
