/* Reductions. Rows: over the innermost axes, any number of them that depend on one another (softmax, norms,
 * losses), with everything applied along the row again; a product whose row fits one block takes them into
 * its epilogue. Columns: over leading axes, so that reads stay contiguous along the innermost axis; what a
 * column statistic is applied to is another kernel's work, but where columns are short. */
#include "passes/fuse.h"

enum { ROWS_SEARCH = 64 /* groups looked back on for one that reads the same rows */ };

/* Adds what `value` is computed from, through everything that is element by element, whoever computes it. */
static void rows_sources(Fuse *fuse, const Value *value, const Value **sources, int *n, int room) {
    const FuseNode *node = fuse_node(fuse, value);
    if (node->free || fuse->stamps[value->id] == fuse->stamp || *n >= room)
        return;
    fuse->stamps[value->id] = fuse->stamp;
    bool is_joined = value->op == OP_concat && fuse_home(fuse, value); /* results of a kernel, as one */
    if (value->op == OP_input || value_is_heavy(value) || is_joined) {
        sources[(*n)++] = value;
        return;
    }
    for (int i = 0; i < value->n_in; i++)
        rows_sources(fuse, value->in[i], sources, n, room);
}

enum { ROWS_SOURCES = 32 };

/* Parts of statistics that one kernel writes together, of a product's blocks, of blocks of rows, of rows or
 * of columns: small, and put together by one kernel. */
static bool rows_are_parts(const Fuse *fuse, const Value *a, const Value *b) {
    BlockStatistic part;
    const Group *home = fuse_home(fuse, a);
    if (!home || fuse_home(fuse, b) != home)
        return false;
    bool are_statistics = value_class(a) == OPCLASS_REDUCTION && value_class(b) == OPCLASS_REDUCTION,
         are_blocks = block_statistic(a, &part) && block_statistic(b, &part);
    switch (home->kind) {
    case TEMPLATE_COLUMNS: return are_statistics && value_same_dims(a, b);
    case TEMPLATE_ROWS: return are_blocks || (are_statistics && value_same_dims(a, b));
    case TEMPLATE_MATMUL: return are_blocks;
    default: return false;
    }
}

bool fuse_rows_share(Fuse *fuse, const Group *group, const Value *operand) {
    const Value *mine[ROWS_SOURCES], *theirs[ROWS_SOURCES];
    int n_mine = 0, n_theirs = 0;
    fuse->stamp++;
    rows_sources(fuse, operand, mine, &n_mine, ROWS_SOURCES);
    fuse->stamp++;
    for (size_t i = 0; i < group->leaves.n; i++)
        rows_sources(fuse, group->leaves.at[i], theirs, &n_theirs, ROWS_SOURCES);
    int64_t space = fuse_count(fuse, group->rank, group->dims);
    for (int i = 0; i < n_mine; i++)
        for (int k = 0; k < n_theirs; k++)
            if ((mine[i] == theirs[k] || rows_are_parts(fuse, mine[i], theirs[k])) &&
                fuse_count(fuse, mine[i]->rank, mine[i]->dims) >= space)
                return true;
    return false;
}

/* Whether `group` reduces the very operand already, computed though it be of tensors that repeat. */
static bool rows_reduce_same(const Group *group, const Value *operand) {
    for (size_t i = 0; i < group->members.n; i++)
        if (value_class(group->members.at[i]) == OPCLASS_REDUCTION && group->members.at[i]->in[0] == operand)
            return true;
    return false;
}

/* Whether everything between the group's results and a floating operand is element by element over the
 * group's space. */
static bool rows_in_space(Fuse *fuse, const Group *group, const Value *value) {
    const FuseNode *node = fuse_node(fuse, value);
    if (node->home || node->free || value->op == OP_input || !group_set_has(&node->reads, group->id))
        return true;
    if (fuse->stamps[value->id] == fuse->stamp)
        return true;
    fuse->stamps[value->id] = fuse->stamp;
    if (!value_is_pointwise(value) && value->op != OP_broadcast)
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!rows_in_space(fuse, group, value->in[i]))
            return false;
    return true;
}

/* Joins a reduction of `operand`, or of what it is in blocks, to a kernel over the operand's space that
 * computes or reads it. */
static bool rows_join_existing(Fuse *fuse, Value *value, const Value *operand, TemplateKind kind,
                               int n_reduced) {
    int looked = 0;
    for (size_t i = fuse->groups.n; i-- > 0 && looked < ROWS_SEARCH;) {
        Group *group = fuse->groups.at[i];
        if (group->dead || group->kind != kind || group->n_reduced != n_reduced ||
            !space_same(group, operand->rank, operand->dims))
            continue;
        looked++;
        bool is_block = kind == TEMPLATE_ROWS && value->in[0] != operand;
        if (is_block && group->n_columns >= REGION_COLUMNS_MAX)
            continue;
        const FuseNode *node = fuse_node(fuse, operand);
        bool own = node->home == group && !node->barrier;
        bool reads = !node->home && group_set_has(&node->reads, group->id);
        fuse->stamp++;
        if (!own && !rows_reduce_same(group, operand) && !(reads && rows_in_space(fuse, group, operand)) &&
            (reads || !fuse_rows_share(fuse, group, operand)))
            continue;
        if (!group_can_compute(fuse, group, operand)) {
            pass_decide(fuse->pass, "cycle", false, value, group->members.at[0],
                        "the reduced Value computed in the same kernel",
                        "a kernel between the two would have to run before and after");
            continue;
        }
        if (!group_has_room(fuse, group, value)) {
            pass_decide(fuse->pass, "inputs", false, value, group->members.at[0],
                        "fewer operands or operations", "the kernel is as large as kernels get");
            continue;
        }
        group_join(fuse, group, value);
        group->n_columns += is_block;
        pass_decide(fuse->pass, kind == TEMPLATE_ROWS ? "rows" : "columns", true, value, group->members.at[0],
                    NULL,
                    own || reads ? "it reduces what the same kernel computes"
                                 : "it reduces what the same kernel reads");
        return true;
    }
    return false;
}

/* Whether `value` is computed from `statistic`, by what is no product. */
static bool rows_need(Fuse *fuse, const Value *value, const Value *statistic) {
    const Graph *graph = fuse->graph;
    fuse->stamp++;
    fuse->stamps[statistic->id] = fuse->stamp;
    for (size_t i = statistic->id + 1; i < graph->values.n && i <= value->id; i++) { /* topological */
        const Value *at = graph->values.at[i];
        for (int k = 0; k < at->n_in && at->op != OP_matmul; k++)
            if (fuse->stamps[at->in[k]->id] == fuse->stamp)
                fuse->stamps[i] = fuse->stamp;
    }
    return fuse->stamps[value->id] == fuse->stamp;
}

/* Whether the graph asks for what needs a statistic behind the product, by its kernel's idle warps, which may
 * take rows whose number is known. */
static bool rows_are_asked_behind(Fuse *fuse, const Value *statistic) {
    const Graph *graph = fuse->graph;
    const Value *operand = statistic->in[0];
    for (int i = 0; i < operand->rank; i++)
        if (!dim_is_const(operand->dims[i]))
            return false;
    for (size_t i = 0; i < graph->hints.n; i++) {
        const Hint *hint = &graph->hints.at[i];
        const Value *value = fuse_hint_value(fuse->graph, hint);
        bool is_asked = false;
        if (value && fuse_hint_tells_guest(hint, &is_asked) && is_asked && rows_need(fuse, value, statistic))
            return true;
    }
    return false;
}

/* Whether blocks that run together may share rows of a product of which a tile has `most` columns. */
static bool rows_may_share(const Fuse *fuse, const Group *group, const Dim *row, int64_t most) {
    const FuseLimits *limits = fuse->limits;
    return !group->is_chain && most == limits->matmul_row_max && dim_is_const(row) &&
           row->value <= limits->matmul_gang_row_max;
}

/* Whether a product of these dims may have rows that have no columns. */
static bool rows_may_be_bare(const Fuse *fuse, int rank, const Dim *const *dims) {
    return !dim_known_some(fuse->graph->dims, dims[rank - 1], dims[rank - 2]);
}

bool fuse_rows_refuse(Fuse *fuse, const Region *region) {
    const Graph *graph = fuse->graph;
    bool is_bare = false, found = false;
    if (region->kind != TEMPLATE_MATMUL || region->n_reduced == 0 ||
        !rows_may_be_bare(fuse, region->rank, region->dims))
        return false;
    for (size_t i = 0; i < region->outputs.n; i++)
        is_bare |= value_count(graph, region->outputs.at[i]) != value_count(graph, region->cores.at[0]);
    for (size_t i = 0; i < region->values.n && is_bare; i++) {
        const Value *value = region->values.at[i];
        if (value_class(value) != OPCLASS_REDUCTION || fuse->known->refused[value->id] & REFUSED_ROWS)
            continue;
        fuse->known->refused[value->id] |= REFUSED_ROWS;
        found = true;
    }
    return found;
}

bool fuse_rows_block(Fuse *fuse, Value *value, const BlockStatistic *block) {
    Value *of = block->of;
    if (block->axis != of->rank - 2 || value->in[0]->in[0] != of || fuse_node(fuse, of)->barrier)
        return false;
    if (rows_join_existing(fuse, value, of, TEMPLATE_ROWS, 1))
        return true;
    Group *group = group_new(fuse, TEMPLATE_ROWS, of->rank, (const Dim *const *)of->dims, 1);
    group_join(fuse, group, value);
    group->n_columns = 1;
    pass_decide(fuse->pass, "rows", true, value, of, NULL,
                "it begins a kernel that reduces columns of a block of rows");
    return true;
}

/* Row statistics inside a product's epilogue. */
static bool rows_join_matmul(Fuse *fuse, Value *value, ReductionLayout layout, int n_reduced) {
    Value *operand = value->in[0];
    Group *group = fuse_home(fuse, operand);
    if (!group || group->kind != TEMPLATE_MATMUL || fuse_node(fuse, operand)->barrier ||
        !space_same(group, operand->rank, operand->dims))
        return false;
    Value *core = group->cores.at[0];
    if (layout != REDUCTION_ROWS) {
        pass_decide(fuse->pass, "matmul_columns", false, value, core, "a reduction along the last axis",
                    "each block of the product has a part of a column only");
        return false;
    }
    if (n_reduced != 1) {
        pass_decide(fuse->pass, "matmul_rows", false, value, core, "a reduction along the last axis alone",
                    "it reduces more than the columns of the product");
        return false;
    }
    const RowsEstimate *estimate = &fuse->known->rows[value->id];
    if (fuse->known->refused[value->id] & REFUSED_ROWS) {
        if (estimate->joined > 0)
            pass_decide(fuse->pass, "matmul_rows", false, value, core,
                        "@expect(kernels=1), or other numbers of rows, columns or products added up",
                        "by the estimate it is quicker in a kernel of its own, %.1f us in all, than in the "
                        "product's, %.1f us",
                        estimate->apart * 1e6, estimate->joined * 1e6);
        else if (rows_may_be_bare(fuse, group->rank, group->dims))
            pass_decide(
                fuse->pass, "matmul_rows", false, value, core,
                "columns where there are rows, known from the dims or a 'where'",
                "the product may have rows without columns, and then no block to store results of rows");
        else
            pass_decide(fuse->pass, "matmul_rows", false, value, core,
                        "fewer columns, or fewer products and computed operands, so that registers hold a "
                        "tile of whole rows",
                        "no schedule of the product's kernel holds whole rows");
        return false;
    }
    if (group->is_in_parts) {
        pass_decide(fuse->pass, "matmul_rows", false, value, core, "fewer columns between the two products",
                    "the softmax before the product comes in parts, by a kernel that reduces no other rows");
        return false;
    }
    const Dim *row = operand->dims[operand->rank - 1];
    int64_t longest = dim_upper(fuse->graph->dims, row), most = chain_row_max(fuse, group);
    bool is_long = longest > most;
    if (is_long && rows_are_asked_behind(fuse, value)) {
        pass_decide(fuse->pass, "hint", false, value, core, "no @fuse(guest)",
                    "the graph asks for it behind the product");
        return false;
    }
    if (is_long && !rows_may_share(fuse, group, row, most)) {
        char *change = text_format(fuse->graph->arena,
                                   "rows of at most %lld, known from the dims or a 'where'", (long long)most);
        if (longest == INT64_MAX)
            pass_decide(fuse->pass, "matmul_rows", false, value, core, change,
                        "the length of the product's rows is not bounded");
        else
            pass_decide(fuse->pass, "matmul_rows", false, value, core, change,
                        "the product's rows have up to %lld elements, more than one block holds",
                        (long long)longest);
        return false;
    }
    if (group->block_cols || !group_has_room(fuse, group, value))
        return false;
    group->n_reduced = 1;
    group_join(fuse, group, value);
    const char *where =
        is_long ? "a row of the product is in blocks that run together and exchange their statistics"
        : most == INT64_MAX
            ? "a row of the product comes in parts, of which a block keeps the statistics so far"
            : "a row of the product is in one block";
    if (estimate->joined > 0)
        pass_decide(fuse->pass, "matmul_rows", true, value, core, NULL,
                    "%s; by the estimate that takes %.1f us, and a kernel of its own %.1f us in all", where,
                    estimate->joined * 1e6, estimate->apart * 1e6);
    else
        pass_decide(fuse->pass, "matmul_rows", true, value, core, NULL, "%s", where);
    return true;
}

/* Joins a reduction of pieces of rows to the kernel that computes these rows of their own statistics. */
static bool rows_join_pieces(Fuse *fuse, Value *value, int n_reduced) {
    const Value *operand = value->in[0];
    Group *group = fuse_home(fuse, operand);
    if (!group || group->kind != TEMPLATE_ROWS || group->n_reduced != 2 || n_reduced != 1 ||
        value_is_arg(value) || !value->attrs[1].i || fuse_node(fuse, operand)->barrier ||
        !space_same(group, operand->rank, operand->dims) || !group_has_room(fuse, group, value))
        return false;
    if (fuse->known->refused[value->id] & REFUSED_ROWS) {
        pass_decide(fuse->pass, "pieces", false, value, group->members.at[0],
                    "shorter rows, or such as lie side by side in memory",
                    "threads do not have whole rows in registers, a piece in neighbours'");
        return false;
    }
    group_join(fuse, group, value);
    group->has_pieces = true;
    pass_decide(fuse->pass, "pieces", true, value, group->members.at[0], NULL,
                "neighbouring threads have a piece of the row that the same kernel computes");
    return true;
}

/* Whether blocks may go through their columns again, to apply a statistic: columns so many that every
 * multiprocessor has some, and so short that those of all at once are in L2 still. */
static bool rows_go_again(const Fuse *fuse, const Group *group, const Value *operand) {
    enum { COLUMN_BYTES = 2048, STRIP = 64 };
    int64_t rows = fuse_count(fuse, group->n_reduced, group->dims),
            columns = fuse_count(fuse, group->rank - group->n_reduced, group->dims + group->n_reduced);
    return rows <= COLUMN_BYTES * 8 / dtype_bits(operand->dtype) && columns / STRIP >= fuse->limits->sm_count;
}

/* Whether a row has a few elements, of tensors so much smaller than the results that to store these would
 * take longer than to compute them again: distances between all points of two sets. */
static bool rows_are_few_of_little(Fuse *fuse, const Value *value) {
    enum { TIMES = 4 };
    const Value *sources[ROWS_SOURCES];
    int n = 0, n_reduced;
    int64_t bytes = 0;
    if (!reduction_is_short(value) || reduction_layout(value, &n_reduced) != REDUCTION_ROWS)
        return false;
    fuse->stamp++;
    rows_sources(fuse, value->in[0], sources, &n, ROWS_SOURCES);
    for (int i = 0; i < n; i++) {
        if (value_is_heavy(sources[i]) && !fuse_home(fuse, sources[i]))
            return false;
        bytes += fuse_bytes(fuse, sources[i]);
    }
    return bytes && n < ROWS_SOURCES && bytes * TIMES < fuse_bytes(fuse, value);
}

void fuse_reduction(Fuse *fuse, Value *value) {
    Value *operand = value->in[0];
    int n_reduced = 0;
    if (reduction_is_inline(value) || rows_are_few_of_little(fuse, value)) {
        group_float(fuse, value);
        pass_decide(fuse->pass, "prologue", true, value, operand, NULL,
                    "it has so few elements that it is computed like a scalar");
        return;
    }
    if (fuse_block_statistic(fuse, value) || fuse_operand_statistic(fuse, value))
        return;
    ReductionLayout layout = reduction_layout(value, &n_reduced);
    if (layout == REDUCTION_MIXED) {
        Group *group = group_new(fuse, TEMPLATE_POINTWISE, value->rank, value->dims, 0);
        group_join(fuse, group, value);
        fuse_node(fuse, value)->barrier = true;
        pass_decide(fuse->pass, "shape", false, value, operand, "reduced axes that are innermost, or leading",
                    "the reduced axes lie between others, so each result is a loop of one thread");
        return;
    }
    if (rows_join_matmul(fuse, value, layout, n_reduced))
        return;
    TemplateKind kind = layout == REDUCTION_ROWS ? TEMPLATE_ROWS : TEMPLATE_COLUMNS;
    if (kind == TEMPLATE_ROWS && rows_join_pieces(fuse, value, n_reduced))
        return;
    if (rows_join_existing(fuse, value, operand, kind, n_reduced))
        return;
    Group *group = group_new(fuse, kind, operand->rank, operand->dims, n_reduced);
    group->goes_again = kind == TEMPLATE_COLUMNS && rows_go_again(fuse, group, operand);
    group_join(fuse, group, value);
    pass_decide(fuse->pass, kind == TEMPLATE_ROWS ? "rows" : "columns", true, value, operand, NULL,
                "it begins a kernel over what it reduces");
}
