/* Groups and the order between them. A group waits for the groups whose results it reads, through others too;
 * that set is kept closed at every step, so that asking whether two groups would wait for each other is one
 * bit. */
#include "passes/fuse.h"

bool group_set_has(const GroupSet *set, int id) {
    size_t word = (size_t)id / 64;
    return word < set->n && set->words[word] >> (id % 64) & 1;
}

static void group_set_grow(Arena *arena, GroupSet *set, size_t n) {
    if (set->n >= n)
        return;
    uint64_t *words = ARENA_ARRAY(arena, uint64_t, n);
    if (set->n)
        memcpy(words, set->words, set->n * sizeof *words);
    set->words = words;
    set->n = n;
}

bool group_set_add(Arena *arena, GroupSet *set, int id) {
    if (group_set_has(set, id))
        return false;
    group_set_grow(arena, set, (size_t)id / 64 + 1);
    set->words[id / 64] |= UINT64_C(1) << (id % 64);
    return true;
}

bool group_set_join(Arena *arena, GroupSet *set, const GroupSet *more) {
    bool grew = false;
    group_set_grow(arena, set, more->n);
    for (size_t i = 0; i < more->n; i++) {
        grew |= (more->words[i] & ~set->words[i]) != 0;
        set->words[i] |= more->words[i];
    }
    return grew;
}

Group *group_new(Fuse *fuse, TemplateKind kind, int rank, const Dim *const *dims, int n_reduced) {
    Group *group = ARENA_NEW(fuse->arena, Group);
    group->id = (int)fuse->groups.n;
    group->kind = kind;
    group->rank = rank;
    for (int i = 0; i < rank; i++)
        group->dims[i] = dims[i];
    group->n_reduced = n_reduced;
    vec_push(fuse->arena, &fuse->groups, group);
    return group;
}

bool group_waits(const Group *group, const Group *other) {
    return group_set_has(&group->after, other->id);
}

bool group_is_needed_elsewhere(const Fuse *fuse, const Group *group, const Value *but, GroupCounts counts) {
    for (size_t i = 0; i < group->members.n; i++)
        if (value_is_output(fuse->graph, group->members.at[i]) &&
            (!counts || counts(group, group->members.at[i])))
            return true;
    for (size_t i = 0; i < fuse->graph->values.n; i++) {
        const Value *user = fuse->graph->values.at[i];
        for (int k = 0; k < user->n_in && user != but && fuse_home(fuse, user) != group; k++)
            if (fuse_home(fuse, user->in[k]) == group && (!counts || counts(group, user->in[k])))
                return true;
    }
    return false;
}

static bool group_ends_view(void *context, const Value *value) {
    return fuse_is_base(context, value);
}

View fuse_view(Fuse *fuse, Value *value) {
    return view_of(fuse->graph, value, group_ends_view, fuse);
}

bool fuse_view_gather(Fuse *fuse, Value *value, ViewGather *gather) {
    return view_gather(fuse->graph, value, group_ends_view, fuse, gather);
}

bool fuse_view_pages(Fuse *fuse, Value *operand, ViewGather *gather) {
    enum { PAGE_ROWS = 8 };
    int row = operand->rank - 2, col = operand->rank - 1;
    return operand->rank >= 2 && view_pages(fuse->graph, operand, group_ends_view, fuse, gather) &&
           (gather->page_axis == row || gather->page_axis == col) &&
           dim_is(gather->data.strides[row + col - gather->page_axis], 1) && dim_is_const(gather->page) &&
           gather->page->value % PAGE_ROWS == 0;
}

bool fuse_reads(const Fuse *fuse, const Group *group, const Value *value) {
    const FuseNode *node = fuse_node(fuse, value);
    return value->op == OP_input || (node->stored && node->home != group && !group_waits(node->home, group));
}

FuseClosure fuse_closure(Fuse *fuse, const Group *group, Value *const *outputs, size_t n) {
    FuseClosure closure = {0};
    VEC(Value *) open = {0};
    fuse->stamp++;
    for (size_t i = 0; i < n; i++) {
        fuse->stamps[outputs[i]->id] = fuse->stamp;
        vec_push(fuse->arena, &open, outputs[i]);
    }
    while (open.n) {
        Value *value = open.at[--open.n];
        vec_push(fuse->arena, &closure.computed, value);
        for (int i = 0; i < value->n_in; i++) {
            Value *in = value->in[i];
            if (fuse_node(fuse, in)->free || fuse->stamps[in->id] == fuse->stamp)
                continue;
            fuse->stamps[in->id] = fuse->stamp;
            if (fuse_reads(fuse, group, in))
                vec_push(fuse->arena, &closure.read, in);
            else
                vec_push(fuse->arena, &open, in);
        }
    }
    return closure;
}

bool group_can_compute(const Fuse *fuse, const Group *group, const Value *operand) {
    const FuseNode *node = fuse_node(fuse, operand);
    if (node->home)
        return node->home == group ? !node->barrier : !group_waits(node->home, group);
    for (int id = 0; id < (int)node->reads.n * 64; id++)
        if (group_set_has(&node->reads, id) && group_waits(fuse->groups.at[id], group))
            return false;
    return true;
}

bool group_feeds(const Fuse *fuse, const Group *group, const Value *value) {
    const FuseNode *node = fuse_node(fuse, value);
    if (node->home)
        return node->home == group || group_waits(node->home, group);
    for (size_t i = 0; i < node->reads.n; i++)
        for (uint64_t word = node->reads.words[i]; word; word &= word - 1) {
            const Group *read = fuse->groups.at[i * 64 + (size_t)__builtin_ctzll(word)];
            if (read == group || group_waits(read, group))
                return true;
        }
    return false;
}

/* Adds `more` to what `group`, and whoever waits for it, waits for. */
static void group_wait_set(Fuse *fuse, Group *group, const GroupSet *more) {
    if (!group_set_join(fuse->arena, &group->after, more))
        return;
    for (size_t i = 0; i < fuse->groups.n; i++) {
        Group *later = fuse->groups.at[i];
        if (!later->dead && group_waits(later, group))
            group_set_join(fuse->arena, &later->after, &group->after);
    }
}

void group_wait_for(Fuse *fuse, Group *group, const Value *value) {
    const FuseNode *node = fuse_node(fuse, value);
    GroupSet more = {0};
    if (node->home && node->home != group) {
        group_set_join(fuse->arena, &more, &node->home->after);
        group_set_add(fuse->arena, &more, node->home->id);
    }
    for (size_t i = 0; !node->home && i < node->reads.n; i++)
        for (uint64_t word = node->reads.words[i]; word; word &= word - 1) {
            const Group *read = fuse->groups.at[i * 64 + (size_t)__builtin_ctzll(word)];
            if (read == group)
                continue;
            group_set_join(fuse->arena, &more, &read->after);
            group_set_add(fuse->arena, &more, read->id);
        }
    if (more.n)
        group_wait_set(fuse, group, &more);
}

static bool group_has_leaf(const Group *group, const Value *leaf) {
    for (size_t i = 0; i < group->leaves.n; i++)
        if (group->leaves.at[i] == leaf)
            return true;
    return false;
}

/* Calls for each tensor that `group` reads to compute from `operand`. */
static void group_add_leaves(Fuse *fuse, Group *group, Value *operand) {
    FuseNode *node = fuse_node(fuse, operand);
    if (node->free || (node->home && node->home == group && !node->barrier))
        return;
    if (node->home || operand->op == OP_input) {
        if (!group_has_leaf(group, operand))
            vec_push(fuse->arena, &group->leaves, operand);
        return;
    }
    for (int i = 0; i < node->n_leaves; i++)
        if (fuse_home(fuse, node->leaves[i]) != group && !group_has_leaf(group, node->leaves[i]))
            vec_push(fuse->arena, &group->leaves, node->leaves[i]);
}

void group_join(Fuse *fuse, Group *group, Value *value) {
    FuseNode *node = fuse_node(fuse, value);
    for (int i = 0; i < value->n_in; i++) {
        group_wait_for(fuse, group, value->in[i]);
        group_add_leaves(fuse, group, value->in[i]);
    }
    node->home = group;
    vec_push(fuse->arena, &group->members, value);
}

void group_add_core(Fuse *fuse, Group *group, Value *value) {
    vec_push(fuse->arena, &group->cores, value);
    group_join(fuse, group, value);
}

bool group_has_room(Fuse *fuse, Group *group, const Value *value) {
    if (group->members.n >= FUSE_MEMBERS_MAX)
        return false;
    int fresh = 0;
    for (int i = 0; i < value->n_in; i++) {
        const FuseNode *node = fuse_node(fuse, value->in[i]);
        if (node->free || node->home == group)
            continue;
        if (node->home || value->in[i]->op == OP_input)
            fresh += !group_has_leaf(group, value->in[i]);
        else
            for (int k = 0; k < node->n_leaves; k++)
                fresh += fuse_home(fuse, node->leaves[k]) != group && !group_has_leaf(group, node->leaves[k]);
    }
    return (int)group->leaves.n + fresh <= fuse->limits->max_inputs;
}

void group_merge(Fuse *fuse, Group *into, Group *from) {
    for (size_t i = 0; i < from->members.n; i++) {
        fuse_node(fuse, from->members.at[i])->home = into;
        vec_push(fuse->arena, &into->members, from->members.at[i]);
    }
    for (size_t i = 0; i < from->cores.n; i++)
        vec_push(fuse->arena, &into->cores, from->cores.at[i]);
    for (size_t i = 0; i < from->sums.n; i++)
        vec_push(fuse->arena, &into->sums, from->sums.at[i]);
    for (size_t i = 0; i < from->leaves.n; i++)
        if (!group_has_leaf(into, from->leaves.at[i]))
            vec_push(fuse->arena, &into->leaves, from->leaves.at[i]);
    for (size_t i = 0; i < from->outputs.n; i++)
        vec_push(fuse->arena, &into->outputs, from->outputs.at[i]);
    into->is_moved |= from->is_moved;
    into->moved_block = column_blocks_join(into->moved_block, from->moved_block);
    into->has_pieces |= from->has_pieces;
    into->n_columns += from->n_columns;
    into->has_blocks |= from->has_blocks;
    into->block_cols = into->block_cols ? into->block_cols : from->block_cols;
    from->dead = true;
    group_wait_set(fuse, into, &from->after);
    for (size_t i = 0; i < fuse->groups.n; i++) {
        Group *later = fuse->groups.at[i];
        if (!later->dead && later != into && group_waits(later, from)) {
            group_set_add(fuse->arena, &later->after, into->id);
            group_set_join(fuse->arena, &later->after, &into->after);
        }
    }
    for (size_t i = 0; i < fuse->graph->values.n; i++) {
        FuseNode *node = &fuse->nodes[i];
        if (!node->home && group_set_has(&node->reads, from->id))
            group_set_add(fuse->arena, &node->reads, into->id);
    }
}

static void group_float_leaf(FuseNode *node, Value *leaf, int room) {
    for (int i = 0; i < node->n_leaves; i++)
        if (node->leaves[i] == leaf)
            return;
    if (node->n_leaves < room)
        node->leaves[node->n_leaves] = leaf;
    node->n_leaves++;
}

static int group_float_sum(Fuse *fuse, FuseNode *node, Value **leaves, int room) {
    Value *value = node->value;
    node->leaves = leaves;
    node->n_leaves = 0;
    node->reads = (GroupSet){0};
    for (int i = 0; i < value->n_in && node->n_leaves <= room; i++) {
        const FuseNode *in = fuse_node(fuse, value->in[i]);
        if (in->free)
            continue;
        if (in->home)
            group_set_add(fuse->arena, &node->reads, in->home->id);
        if (in->home || value->in[i]->op == OP_input) {
            group_float_leaf(node, value->in[i], room);
            continue;
        }
        group_set_join(fuse->arena, &node->reads, &in->reads);
        for (int k = 0; k < in->n_leaves; k++)
            group_float_leaf(node, in->leaves[k], room);
    }
    return node->n_leaves;
}

/* The operand that a group of its own relieves `value` of most, or NULL. */
static Value *group_float_heaviest(const Fuse *fuse, const Value *value) {
    Value *heaviest = NULL;
    for (int i = 0; i < value->n_in; i++) {
        const FuseNode *in = fuse_node(fuse, value->in[i]);
        if (in->free || in->home || value->in[i]->op == OP_input)
            continue;
        if (!heaviest || in->n_leaves > fuse_node(fuse, heaviest)->n_leaves)
            heaviest = value->in[i];
    }
    return heaviest;
}

/* A closed group for one Value: nobody joins it later, so it waits for no more than the Value's computation
 * does now. */
static void group_float_anchor(Fuse *fuse, Value *value, const char *rule, const char *why) {
    Group *group = group_new(fuse, TEMPLATE_POINTWISE, value->rank, value->dims, 0);
    group_join(fuse, group, value);
    fuse_node(fuse, value)->barrier = true;
    pass_decide(fuse->pass, rule, false, value, NULL, "fewer operands or operations in one expression", "%s",
                why);
}

void group_float(Fuse *fuse, Value *value) {
    FuseNode *node = fuse_node(fuse, value);
    int room = fuse->limits->max_inputs * 3 / 4;
    if (room < value->n_in)
        room = value->n_in;
    if (value->op == OP_input)
        return;
    Value **leaves = ARENA_ARRAY(fuse->arena, Value *, (size_t)room + 1);
    while (group_float_sum(fuse, node, leaves, room) > room) {
        Value *heaviest = group_float_heaviest(fuse, value);
        if (!heaviest)
            break;
        group_float_anchor(fuse, heaviest, "inputs",
                           "it is computed from more tensors than one kernel takes");
    }
    while (fuse_cone_size(fuse, value, FUSE_CONE_MAX) > FUSE_CONE_MAX) {
        Value *largest = NULL;
        int64_t most = 1;
        for (int i = 0; i < value->n_in; i++) {
            const FuseNode *in = fuse_node(fuse, value->in[i]);
            int64_t size = in->free || in->home ? 0 : fuse_cone_size(fuse, value->in[i], FUSE_CONE_MAX);
            if (size > most) {
                most = size;
                largest = value->in[i];
            }
        }
        if (!largest)
            break;
        group_float_anchor(fuse, largest, "size", "its expression is longer than one kernel should be");
        group_float_sum(fuse, node, leaves, room);
    }
}
