/* Statistics of groups of neighbouring channels, as a group norm has them. In memory a place's channels of
 * one group are a short piece among those of others:
 *
 *     x: [N, H, W, G, c]      s = sum(transpose(x, [0, 3, 1, 2, 4]), over=[2, 3, 4])
 *
 * A block that reduces the row of one group would read 2 c bytes of each sector of 32. Instead columns are
 * reduced first, those of all groups, in parts of the places; and then, for each group, parts and channels.
 *
 * So it is also where a piece is whole sectors, if sums of columns of the same tensors are computed from the
 * statistics, as those of a group norm's gradient are: kernels that read the statistics can compute what they
 * sum, which otherwise the rows' kernel would have to store. */
#include "passes/fuse.h"
#include "passes/split.h"

enum {
    GROUPS_PIECE = 256,     /* bits of a sector */
    GROUPS_ROWS = 512,      /* least rows of a column */
    GROUPS_BLOCKS = 132,    /* multiprocessors that would have a row each */
    GROUPS_TOTAL = 1 << 20, /* elements below which two launches more cost too much */
    GROUPS_CONE = 64,       /* Values looked at */
};

/* Whether before the last axis of a transpose there is one in memory that `value` keeps. */
static bool groups_lie_apart(const Value *value, const Value *transpose) {
    const int *perm = transpose->attrs[0].ints;
    int before = perm[transpose->rank - 1] - 1;
    while (before >= 0 && dim_is(transpose->in[0]->dims[before], 1))
        before--;
    for (int i = 0; before >= 0 && i < transpose->rank; i++)
        if (perm[i] == before)
            return !value_reduces(value, i);
    return false;
}

/* What all tensors of whole size that the operand is computed from have in common. */
typedef struct GroupsCone {
    const Value *value, *transpose; /* the reduction; one that moves a tensor, NULL where there is none yet */
    int room, bits;                 /* Values that may still be looked at; of the widest element */
} GroupsCone;

/* Whether all of them lie apart. */
static bool groups_cone(GroupsCone *cone, const Value *operand) {
    if (--cone->room < 0)
        return false;
    if (operand->op == OP_transpose) {
        if (dtype_bits(operand->dtype) > cone->bits)
            cone->bits = dtype_bits(operand->dtype);
        cone->transpose = operand;
        return groups_lie_apart(cone->value, operand);
    }
    if (!value_is_pointwise(operand))
        return false;
    for (int i = 0; i < operand->n_in; i++)
        if (value_same_dims(operand->in[i], operand) && !groups_cone(cone, operand->in[i]))
            return false;
    return true;
}

/* The axes that are kept in the order in which they lie, the run's parts and rows where the run lies. */
static void groups_order(const Value *transpose, SplitRun *run) {
    const int *from = transpose->attrs[0].ints;
    int n = 0, at = run->at;
    for (int place = 0; place < transpose->rank; place++)
        for (int i = 0; i <= at; i++)
            if (from[i] == place) {
                run->perm[n++] = i;
                if (i == at) {
                    run->row = n;
                    run->perm[n++] = at + 1;
                }
            }
    run->perm[n] = at + 2;
}

struct SplitGroups {
    ValueMap summed;  /* reductions of rows that sums of columns are computed from */
    ValueMap counted; /* reductions that @expect is about, of the one kernel that rows had */
};

/* Whether it reduces as many elements down columns as make up a tensor that is worth it. */
static bool groups_is_of_columns(const Value *value) {
    int64_t rows, kept;
    int n_reduced;
    return value_class(value) == OPCLASS_REDUCTION && split_counts(value, &rows, &kept) &&
           rows * kept >= GROUPS_TOTAL && reduction_layout(value, &n_reduced) == REDUCTION_COLUMNS;
}

const SplitGroups *split_groups_find(Pass *pass, const Graph *graph) {
    SplitGroups *found = ARENA_NEW(pass->arena, SplitGroups);
    *found = (SplitGroups){.summed.arena = pass->arena, .counted.arena = pass->arena};
    const bool *is_counted = fuse_mark_hinted(pass->arena, graph, hint_is_expect);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *columns = graph->values.at[i];
        if (is_counted[columns->id] && value_class(columns) == OPCLASS_REDUCTION)
            value_map_set(&found->counted, columns, 1);
        if (!groups_is_of_columns(columns))
            continue;
        for (size_t k = 0; k < i; k++) {
            const Value *value = graph->values.at[k];
            if (value_class(value) == OPCLASS_REDUCTION && value_is_computed_from(columns, value))
                value_map_set(&found->summed, value, 1);
        }
    }
    return found;
}

bool split_groups(const SplitGroups *found, const Value *value, SplitRun *run) {
    const Value *operand = value->in[0];
    int last = operand->rank - 1;
    GroupsCone cone = {.value = value, .room = GROUPS_CONE};
    if (value_map_get(&found->counted, value) || !run->is_row || run->n < 2 || !value_reduces(value, last) ||
        operand->rank - run->n + 3 > RANK_MAX || run->rows * run->kept < GROUPS_TOTAL ||
        !groups_cone(&cone, operand) || !cone.transpose)
        return false;
    int64_t piece = operand->dims[last]->value, rows = run->rows / piece;
    bool is_whole = piece * cone.bits % GROUPS_PIECE == 0 && run->kept >= GROUPS_BLOCKS &&
                    !value_map_get(&found->summed, value);
    if (piece < 2 || piece > GROUPS_PIECE || rows < GROUPS_ROWS || is_whole)
        return false;
    run->n--;
    run->rows = rows;
    run->is_group = true;
    groups_order(cone.transpose, run);
    return true;
}
