/* Rows of a few statistics: the k largest of a row, weights made of them.
 *
 *     v = concat(v0, v1, v2, axis=-1)      v0, v1, v2 one element a row      [M, 3]: written by the kernel
 * that reduces the rows y = v / (v0 + v1 + v2)
 *
 * Such a Value has neither the kernel's space nor one element a row, but a constant few that are made of
 * statistics alone. Whoever stores a row's statistic stores these after one another. */
#include "passes/fuse.h"

enum { BUNDLE_MOST = 64 };

/* Rows of the group's space, each with a constant few elements. */
static bool bundle_fits(const Group *group, const Value *value) {
    int last = group->rank - 1;
    if ((group->kind != TEMPLATE_ROWS && group->kind != TEMPLATE_MATMUL) || group->is_chain ||
        group->n_reduced != 1 || value->rank != group->rank || !dim_is_const(value->dims[last]) ||
        value->dims[last]->value < 2 || value->dims[last]->value > BUNDLE_MOST ||
        value->dims[last] == group->dims[last] || /* as many as the row has: it may be the row */
        dim_is(group->dims[last], 1))
        return false;
    for (int i = 0; i < last; i++)
        if (value->dims[i] != group->dims[i])
            return false;
    return true;
}

/* Whether a tensor in memory has one element a row, or the same elements for all rows. More than that is read
 * better by a kernel of many threads than by the one that stores a row's statistics. */
static bool bundle_is_small(const Value *value) {
    bool is_one = true;
    for (int i = 0; i < value->rank - 1; i++)
        is_one &= dim_is(value->dims[i], 1);
    return is_one || dim_is(value->dims[value->rank - 1], 1);
}

/* Whether `value` is made of the group's statistics, its bundles and what lies in memory, without a look at
 * the rows. */
static bool bundle_is_made(Fuse *fuse, const Group *group, const Value *value) {
    const FuseNode *node = fuse_node(fuse, value);
    if (node->free)
        return true;
    if (value->op == OP_input)
        return bundle_is_small(value);
    if (node->home)
        return node->home == group
                   ? !node->barrier && (node->bundle ||
                                        (space_fits(group, value) && dim_is(value->dims[group->rank - 1], 1)))
                   : bundle_is_small(value) && !group_waits(node->home, group);
    if (fuse->stamps[value->id] == fuse->stamp)
        return true;
    fuse->stamps[value->id] = fuse->stamp;
    bool reads = group_feeds(fuse, group, value);
    if (reads && !value_is_pointwise(value) && value->op != OP_broadcast &&
        !(value->op == OP_concat && value->attrs[0].i == group->rank - 1))
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!bundle_is_made(fuse, group, value->in[i]))
            return false;
    return true;
}

static bool bundle_try(Fuse *fuse, Group *group, Value *value) {
    fuse->stamp++;
    if (!bundle_fits(group, value) || !group_has_room(fuse, group, value))
        return false;
    for (int i = 0; i < value->n_in; i++)
        if (!bundle_is_made(fuse, group, value->in[i]))
            return false;
    group_join(fuse, group, value);
    fuse_node(fuse, value)->bundle = true;
    pass_decide(fuse->pass, "row_bundle", true, value, group->members.at[0], NULL,
                "it is made of the row's statistics alone, which that kernel has");
    return true;
}

bool fuse_bundle(Fuse *fuse, Value *value) {
    if (!value_is_pointwise(value) && value->op != OP_concat)
        return false;
    for (int i = 0; i < value->n_in; i++) {
        const FuseNode *node = fuse_node(fuse, value->in[i]);
        if (node->home && !node->barrier && bundle_try(fuse, node->home, value))
            return true;
        for (int id = 0; !node->home && id < (int)node->reads.n * 64; id++)
            if (group_set_has(&node->reads, id) && !fuse->groups.at[id]->dead &&
                bundle_try(fuse, fuse->groups.at[id], value))
                return true;
    }
    return false;
}
