/* What is element by element: it joins the kernel that computes its operand (an epilogue, a norm's apply), or
 * floats until someone needs it. Where two kernels meet in one Value, they are made one if they can be. */
#include "passes/fuse.h"

enum { POINTWISE_HOMES = 8 };

/* Distinct groups that compute operands of `value`, latest first. */
static int pointwise_homes(const Fuse *fuse, const Value *value, Group **homes) {
    int n = 0;
    for (int i = 0; i < value->n_in && n < POINTWISE_HOMES; i++) {
        Group *home = fuse_home(fuse, value->in[i]);
        bool known = !home || fuse_node(fuse, value->in[i])->barrier;
        for (int k = 0; k < n; k++)
            known |= homes[k] == home;
        if (known)
            continue;
        int at = n++;
        for (; at > 0 && homes[at - 1]->id < home->id; at--)
            homes[at] = homes[at - 1];
        homes[at] = home;
    }
    return n;
}

/* Bytes of the rows that two merged groups would hold on chip. */
static int64_t pointwise_row_bytes(const Fuse *fuse, const Group *group) {
    int64_t length = fuse_count(fuse, group->n_reduced, group->dims + group->rank - group->n_reduced);
    return length * (int64_t)group->leaves.n * (int64_t)sizeof(float);
}

static bool pointwise_merge(Fuse *fuse, Value *value, Group *a, Group *b) {
    if (a->kind == TEMPLATE_MATMUL)
        return fuse_is_sum(fuse, value, a, b) ? fuse_sum(fuse, value) : fuse_dual(fuse, value, a, b);
    if (a->kind != b->kind || a->kind == TEMPLATE_POINTWISE || a->n_reduced != b->n_reduced ||
        !space_same(a, b->rank, b->dims))
        return false;
    if (group_waits(a, b) || group_waits(b, a))
        return false;
    if (a->members.n + b->members.n > FUSE_MEMBERS_MAX || a->n_columns + b->n_columns > REGION_COLUMNS_MAX ||
        a->leaves.n + b->leaves.n > (size_t)fuse->limits->max_inputs ||
        (a->kind == TEMPLATE_ROWS &&
         pointwise_row_bytes(fuse, a) + pointwise_row_bytes(fuse, b) > fuse->limits->row_resident_max)) {
        pass_decide(fuse->pass, "merge", false, value, b->members.at[0], "shorter rows or fewer operands",
                    "the rows of both do not stay on chip together");
        return false;
    }
    Value *other = b->members.at[0];
    group_merge(fuse, a, b);
    pass_decide(fuse->pass, "merge", true, value, other, NULL, "two kernels over the same space meet here");
    return true;
}

/* Whether `value` can be computed in `group`: in its space, from operands that wait for nothing of it. */
static bool pointwise_can_join(Fuse *fuse, Group *group, const Value *value, const Value **blocker) {
    for (int i = 0; i < value->n_in; i++) {
        const FuseNode *node = fuse_node(fuse, value->in[i]);
        bool inside = node->home == group && !node->barrier;
        if (!inside && !node->free && group_feeds(fuse, group, value->in[i])) {
            *blocker = value->in[i];
            return false;
        }
    }
    return true;
}

static bool pointwise_try(Fuse *fuse, Group *group, Value *value) {
    const Value *blocker = NULL;
    Value *core = group->members.at[0];
    if (!space_fits(group, value)) {
        bool columns = group->kind == TEMPLATE_COLUMNS;
        pass_decide(
            fuse->pass, columns ? "columns_apply" : "shape", false, value, core,
            columns ? "statistics over the innermost axes, or of more columns and shorter ones"
                    : "equal dims",
            columns ? "a block of the column kernel has seen its columns once when their statistic is known"
                    : "its dims are not those of the kernel that computes its operand");
        return false;
    }
    if (!pointwise_can_join(fuse, group, value, &blocker)) {
        pass_decide(fuse->pass, "cycle", false, value, (Value *)blocker, "no second way between the two",
                    "another operand is computed from the same kernel's stored result");
        return false;
    }
    if (group->kind == TEMPLATE_MATMUL && fuse->known->refused[value->id] & REFUSED_STORE) {
        pass_decide(fuse->pass, "epilogue", false, value, core,
                    "elements of a byte or more, or an even number of columns",
                    "two threads would write one byte of it");
        return false;
    }
    if (!group_has_room(fuse, group, value)) {
        pass_decide(fuse->pass, group->members.n >= FUSE_MEMBERS_MAX ? "size" : "inputs", false, value, core,
                    "fewer operands or operations", "the kernel is as large as kernels get");
        return false;
    }
    group_join(fuse, group, value);
    pass_decide(fuse->pass, "epilogue", true, value, core, NULL, "it follows element by element");
    return true;
}

/* Whether the kernel of a product has an operand of `value` element by element, none of whose columns move,
 * and can read the others: it need not be computed where columns of another product move to it. */
static bool pointwise_follows_product(Fuse *fuse, const Value *value) {
    const Value *blocker;
    for (int i = 0; i < value->n_in; i++) {
        Group *home = fuse_home(fuse, value->in[i]);
        if (home && home->kind == TEMPLATE_MATMUL && !home->is_chain && !home->is_moved &&
            !fuse_node(fuse, value->in[i])->barrier && space_fits(home, value) &&
            pointwise_can_join(fuse, home, value, &blocker))
            return true;
    }
    return false;
}

void fuse_light(Fuse *fuse, Value *value) {
    Group *homes[POINTWISE_HOMES];
    if (fuse_node(fuse, value)->is_in_operand) {
        group_float(fuse, value);
        return;
    }
    if (fuse_block_repeated(fuse, value))
        return;
    if ((value_is_pointwise(value) || value->op == OP_concat) && !pointwise_follows_product(fuse, value) &&
        (fuse_columns(fuse, value, value->op == OP_concat) || fuse_bundle(fuse, value)))
        return;
    if (fuse_rows_moved(fuse, value))
        return;
    if (value_is_pointwise(value) || value->op == OP_broadcast) {
        int n = pointwise_homes(fuse, value, homes);
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++)
                if (!homes[i]->dead && !homes[k]->dead && space_fits(homes[i], value) &&
                    space_fits(homes[k], value))
                    pointwise_merge(fuse, value, homes[k], homes[i]);
        for (int i = 0; i < n; i++)
            if (!homes[i]->dead && pointwise_try(fuse, homes[i], value))
                return;
    }
    group_float(fuse, value);
}
