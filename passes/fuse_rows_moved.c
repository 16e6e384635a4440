/* Columns of a row that change places behind its statistics, as a rotation has the two halves of a head:
 *
 *     n = x * rsqrt(mean(x * x, over=-1))
 *     y = concat(n[.., :D/2] * c - n[.., D/2:] * s, n[.., D/2:] * c + n[.., :D/2] * s, axis=-1)
 *
 * The rows' kernel computes y too: what of n a thread has not itself it computes again, of elements that its
 * warp has read before and of statistics that all threads of the row know. */
#include "passes/fuse.h"

typedef struct Moved {
    Fuse *fuse;
    Group *group; /* whose rows they are; NULL: none was met */
    int room;     /* values that may yet be looked at */
} Moved;

/* Whether a value of the rows' kernel can be computed at any column: element by element, of what lies in
 * memory and of statistics of the row. */
static bool moved_can_repeat(Moved *moved, const Value *value) {
    const Fuse *fuse = moved->fuse;
    const FuseNode *node = fuse_node(fuse, value);
    if (--moved->room < 0)
        return false;
    if (node->free || node->home != moved->group) /* in memory, or of what is */
        return true;
    if (dim_is(value->dims[value->rank - 1], 1)) /* the row's */
        return !node->barrier;
    if (node->barrier || !value_is_pointwise(value))
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!moved_can_repeat(moved, value->in[i]))
            return false;
    return true;
}

static bool moved_reads_nothing(const FuseNode *node) {
    for (size_t i = 0; i < node->reads.n; i++)
        if (node->reads.words[i])
            return false;
    return true;
}

/* Whether a value is some neighbouring columns of another. */
static bool moved_takes_columns(const Value *value) {
    return value_takes_columns(value) && value->attrs[2].ints[value->rank - 1] == 1;
}

/* Whether what floats below `value` is of one kernel's rows, and of what reads no result of it. */
static bool moved_is_of_rows(Moved *moved, Value *value) {
    const Fuse *fuse = moved->fuse;
    const FuseNode *node = fuse_node(fuse, value);
    if (--moved->room < 0)
        return false;
    if (node->free || value->op == OP_input)
        return true;
    if (node->home) {
        if (node->home->kind != TEMPLATE_ROWS)
            return true; /* read from memory: whether it may be is asked later */
        if (moved->group && moved->group != node->home)
            return false;
        moved->group = node->home;
        return space_fits(node->home, value) && moved_can_repeat(moved, value);
    }
    bool is_apart = moved_reads_nothing(node),
         goes_on = value_is_pointwise(value) || value->op == OP_concat || moved_takes_columns(value);
    if (is_apart || !goes_on || (value->op == OP_concat && value->attrs[0].i != value->rank - 1))
        return is_apart;
    for (int i = 0; i < value->n_in; i++)
        if (!moved_is_of_rows(moved, value->in[i]))
            return false;
    return true;
}

bool fuse_rows_moved(Fuse *fuse, Value *value) {
    enum { ROOM = 96 };
    Moved moved = {.fuse = fuse, .room = ROOM};
    if (value->op != OP_concat || value->attrs[0].i != value->rank - 1)
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!moved_is_of_rows(&moved, value->in[i]))
            return false;
    Group *group = moved.group;
    for (int i = 0; i < value->n_in && group; i++)
        if (!group_can_compute(fuse, group, value->in[i]))
            return false;
    if (!group || group->n_reduced != 1 || group->n_columns || !space_fits(group, value) ||
        !group_has_room(fuse, group, value))
        return false;
    group_join(fuse, group, value);
    pass_decide(fuse->pass, "rows_moved", true, value, group->members.at[0], NULL,
                "columns of the row that change places are computed again where they come to");
    return true;
}
