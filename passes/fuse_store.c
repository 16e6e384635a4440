/* The walk back from the outputs: what lies in memory, and who writes it.
 *
 * Users are met before what they use, so when the walk reaches a Value, all groups that need it are known.
 * One at home that another group needs is stored, unless computing it again from what is in memory anyway
 * moves fewer bytes; one that floats is computed where it is needed, unless that is dear and several need it.
 */
#include "passes/fuse.h"

/* `again`: how many times the group computes an element, if it does: as many as windows that it reads have
 * it. */
static void store_need(Fuse *fuse, FuseNode *node, Group *group, double again) {
    FuseNeed *need = NULL;
    for (size_t i = 0; i < node->needs.n && !need; i++)
        need = node->needs.at[i].group == group ? &node->needs.at[i] : NULL;
    if (need)
        need->again = need->again > again ? need->again : again;
    else
        vec_push(fuse->arena, &node->needs, ((FuseNeed){group, again}));
}

static bool store_is_needed_by(const FuseNode *node, const Group *group) {
    for (size_t i = 0; i < node->needs.n; i++)
        if (node->needs.at[i].group == group)
            return true;
    return false;
}

static int store_foreign(const FuseNode *node) {
    int n = 0;
    for (size_t i = 0; i < node->needs.n; i++)
        n += node->needs.at[i].group != node->home;
    return n;
}

/* How many times the group that computes it most often does. */
static double store_again(const FuseNode *node) {
    double again = 1;
    for (size_t i = 0; i < node->needs.n; i++)
        again = node->needs.at[i].again > again ? node->needs.at[i].again : again;
    return again;
}

/* In how many windows of an axis an element is; 1 of what is no window. */
static double store_windows(const Fuse *fuse, const Value *value) {
    if (value->op != OP_window || value->attrs[2].i <= 0)
        return 1;
    double windows = (double)fuse_extent(fuse, value->dims[value->rank - 1]) / (double)value->attrs[2].i;
    return windows > 1 ? windows : 1;
}

/* `group` computes `value`, each element so many times: it needs the operands. */
static void store_pass_on(Fuse *fuse, Value *value, Group *group, double again) {
    again *= store_windows(fuse, value);
    for (int i = 0; i < value->n_in; i++)
        if (!fuse_node(fuse, value->in[i])->free)
            store_need(fuse, fuse_node(fuse, value->in[i]), group, again);
}

/* The Value that a matmul's operand is a view of; exact widening casts happen as it is read. */
static Value *store_viewed(const Fuse *fuse, Value *value) {
    while (
        !fuse_home(fuse, value) &&
        (op_is_view(value->op) || (value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype))))
        value = value->in[0];
    return value;
}

static void store_output(Fuse *fuse, FuseNode *node) {
    if (!node->stored)
        vec_push(fuse->arena, &node->home->outputs, node->value);
    node->stored = true;
}

/* Whether an operand is the same as an earlier one, as both of a square are. */
static bool store_is_repeated(const Value *value, int operand) {
    for (int i = 0; i < operand; i++)
        if (value->in[i] == value->in[operand])
            return true;
    return false;
}

/* Whether the groups elsewhere that need `node`'s Value compute it again: from what they read anyway, or from
 * something narrower. */
static bool store_recomputes(Fuse *fuse, const FuseNode *node) {
    Value *value = node->value;
    if (node->barrier || node->stored || node->is_read_whole ||
        !(value_is_pointwise(value) || value->op == OP_broadcast))
        return false;
    if (fuse->has_root[value->id]) {
        pass_decide(fuse->pass, "recompute", true, value, NULL, NULL,
                    "it is computed again of what other values that are wanted are computed of, too");
        return true;
    }
    if (fuse_op_cost(value) > fuse->limits->inline_cost_max || store_again(node) > 1)
        return false;
    int64_t foreign = store_foreign(node), extra_reads = 0, extra_stores = 0;
    for (int i = 0; i < value->n_in; i++) {
        const FuseNode *in = fuse_node(fuse, value->in[i]);
        if (in->free || store_is_repeated(value, i) || fuse_is_slight(fuse, value->in[i], value))
            continue;
        const Value *base = value_before_widening(space_stored_base(fuse, value->in[i])); /* as it is read */
        const FuseNode *below = fuse_node(fuse, base);
        int64_t bytes = fuse_bytes(fuse, base);
        if (!in->home && value->in[i]->op != OP_input && !op_is_view(value->in[i]->op))
            return false; /* a floating operand has costs of its own */
        for (size_t k = 0; k < node->needs.n; k++) {
            const Group *group = node->needs.at[k].group;
            if (group != node->home && !store_is_needed_by(in, group) && !store_is_needed_by(below, group))
                extra_reads += bytes;
        }
        if (below->home == node->home && !below->stored && !store_foreign(below) &&
            !value_is_output(fuse->graph, base))
            extra_stores += bytes;
    }
    if (extra_reads + extra_stores >= fuse_bytes(fuse, value) * (foreign + 1))
        return false;
    pass_decide(fuse->pass, "recompute", true, value, NULL, NULL,
                "computing it again moves fewer bytes than storing it");
    return true;
}

static void store_at_home(Fuse *fuse, FuseNode *node) {
    Group *home = node->home;
    if (value_is_output(fuse->graph, node->value))
        store_output(fuse, node);
    bool recomputed = !node->stored && store_foreign(node) && store_recomputes(fuse, node);
    if (!recomputed && store_foreign(node))
        store_output(fuse, node);
    if (node->stored || store_is_needed_by(node, home))
        store_pass_on(fuse, node->value, home, 1);
    for (size_t i = 0; recomputed && i < node->needs.n; i++)
        if (node->needs.at[i].group != home)
            store_pass_on(fuse, node->value, node->needs.at[i].group, node->needs.at[i].again);
}

/* Whether `value` is among what the cores of a product's kernel read: there it is needed at other coordinates
 * than those of the result. */
static bool store_is_operand(Fuse *fuse, const Value *at, const Value *value) {
    if (at == value)
        return true;
    if (fuse->stamps[at->id] == fuse->stamp || at->id < value->id)
        return false;
    fuse->stamps[at->id] = fuse->stamp;
    for (int i = 0; i < at->n_in; i++)
        if (!fuse_home(fuse, at->in[i]) && store_is_operand(fuse, at->in[i], value))
            return true;
    return false;
}

static bool store_can_host(Fuse *fuse, const FuseNode *node, const Group *host) {
    Value *value = node->value;
    if (!space_fits(host, value) || host->outputs.n >= (size_t)fuse->limits->max_outputs ||
        group_feeds(fuse, host, value))
        return false;
    for (size_t i = 0; i < node->needs.n; i++)
        if (node->needs.at[i].group != host && group_waits(host, node->needs.at[i].group))
            return false; /* that one would wait for the host in turn */
    fuse->stamp++;
    for (size_t i = 0; i < host->cores.n; i++)
        for (int k = 0; k < host->cores.at[i]->n_in; k++)
            if (store_is_operand(fuse, host->cores.at[i]->in[k], value))
                return false;
    return true;
}

/* Of the groups that compute a floating Value anyway, one that can write it for the others; NULL where none
 * can. */
static Group *store_host(Fuse *fuse, const FuseNode *node) {
    if (op_is_view(node->value->op))
        return NULL;
    for (size_t i = 0; i < node->needs.n; i++)
        if (node->needs.at[i].again <= 1 && store_can_host(fuse, node, node->needs.at[i].group))
            return node->needs.at[i].group;
    return NULL;
}

/* `host` computes and stores a floating Value. Groups whose results the host reads compute it for themselves.
 */
static void store_in(Fuse *fuse, FuseNode *node, Group *host) {
    Value *value = node->value;
    group_join(fuse, host, value);
    store_output(fuse, node);
    store_pass_on(fuse, value, host, 1);
    for (size_t i = 0; i < node->needs.n; i++) {
        Group *need = node->needs.at[i].group;
        if (need != host && fuse_reads(fuse, need, value))
            group_wait_for(fuse, need, value);
        else if (need != host)
            store_pass_on(fuse, value, need, node->needs.at[i].again);
    }
}

static void store_alone(Fuse *fuse, FuseNode *node) {
    const Value *value = node->value;
    if (value->op == OP_reshape &&
        value->in[0]->op == OP_transpose) /* whose axes the kernel has its tiles along */
        value = value->in[0];
    store_in(fuse, node, group_new(fuse, TEMPLATE_POINTWISE, value->rank, value->dims, 0));
    node->barrier = true;
}

/* By the one of the groups that need it that can, or by its own. */
static void store_somewhere(Fuse *fuse, FuseNode *node) {
    Value *value = node->value;
    Group *host = store_host(fuse, node);
    if (host) {
        pass_decide(fuse->pass, "sibling", true, value, host->members.at[0], NULL,
                    "a kernel that computes it anyway writes it too");
        store_in(fuse, node, host);
        return;
    }
    store_alone(fuse, node);
}

/* Whether each row of the kernel has one element of it, so that no order of storing has more to a line. */
static bool store_is_statistic(const Group *home, const Value *base) {
    return home->n_reduced == 1 && base->rank == home->rank && dim_is(base->dims[base->rank - 1], 1);
}

/* Whether it is so little, of columns, that a kernel of its own takes longer than single elements do. */
static bool store_is_small(const Fuse *fuse, const Group *home, const Value *base) {
    enum { ELEMENTS = 1 << 16 };
    return home->kind == TEMPLATE_COLUMNS &&
           fuse_count(fuse, base->rank, (const Dim *const *)base->dims) <= ELEMENTS;
}

/* Whether a kernel of columns of few rows has all of them on chip, and stores along them what its columns are
 * applied to, or single elements of columns that are many more than these. */
static bool store_turns_columns(const Fuse *fuse, const Group *home, const Value *value, const Value *base) {
    enum { ROWS = 32 };
    const Dim *rows = home->dims[0];
    if (home->kind != TEMPLATE_COLUMNS || !home->goes_again || home->n_reduced != 1 || !dim_is_const(rows) ||
        rows->value % ROWS || fuse->known->refused[value->id] & REFUSED_STORE)
        return false;
    return !space_same(home, base->rank, (const Dim *const *)base->dims) || !space_innermost_of(value, base);
}

/* Whether a kernel of rows that are along the last axis alone stores across them what their statistics are
 * applied to, by blocks of several rows (rows_turned.c). */
static bool store_turns_rows(const Fuse *fuse, const Group *home, const Value *value, const Value *base) {
    int axis = space_innermost_of(value, base);
    return axis >= 0 && axis < home->rank - 1 && home->kind == TEMPLATE_ROWS && home->n_reduced == 1 &&
           home->rank > 1 && home->n_columns == 0 && !(fuse->known->refused[value->id] & REFUSED_STORE) &&
           space_same(home, base->rank, (const Dim *const *)base->dims);
}

/* A kernel of columns short enough to be gone through again, which reads what a floating Value is computed
 * of, and stores it in the order of `value`; it computes that Value from now on. NULL where there is none. */
static Group *store_beside_columns(Fuse *fuse, const Value *value, Value *base) {
    if (!value_is_pointwise(base) || fuse_node(fuse, base)->free)
        return NULL;
    for (size_t i = 0; i < fuse->groups.n; i++) {
        Group *group = fuse->groups.at[i];
        if (group->dead || group->kind != TEMPLATE_COLUMNS || !group->goes_again ||
            !space_same(group, base->rank, (const Dim *const *)base->dims) ||
            !(space_keeps_innermost(value, base) || store_turns_columns(fuse, group, value, base)) ||
            !group_has_room(fuse, group, base) || !store_can_host(fuse, fuse_node(fuse, base), group) ||
            !fuse_rows_share(fuse, group, base))
            continue;
        group_join(fuse, group, base);
        return group;
    }
    return NULL;
}

/* What stores a floating Value whose rows are joined (beside.c) computes it over the dims that it has so, for
 * the sake of another kernel over these; what stores it turned, alone or both ways, over its own. */
static Group *store_joined(Fuse *fuse, Value *base) {
    if (!value_is_pointwise(base) || fuse_node(fuse, base)->free)
        return NULL;
    Group *home = store_host(fuse, fuse_node(fuse, base));
    if (!home)
        home = group_new(fuse, TEMPLATE_POINTWISE, base->rank, base->dims, 0);
    group_join(fuse, home, base);
    return home;
}

/* A graph output that is a reshape or transpose of a kernel's result: stored in that order by that kernel. */
static bool store_reordered(Fuse *fuse, FuseNode *node) {
    Value *value = node->value, *base = space_stored_base(fuse, value);
    Group *home = fuse_home(fuse, base);
    bool is_both_ways = value->op == OP_transpose && value_is_output(fuse->graph, base),
         is_turned = value->op == OP_transpose && !space_keeps_innermost(value, base),
         is_cut = value->op == OP_reshape && value->rank > base->rank;
    if (!home && base != value)
        home = store_beside_columns(fuse, value, base);
    if (!home && (is_turned || (base == value->in[0] && (is_both_ways || is_cut))))
        home = store_joined(fuse, base);
    if (base == value || !home || fuse_node(fuse, base)->barrier)
        return false;
    bool is_as_it_is = home->kind == TEMPLATE_POINTWISE || store_is_statistic(home, base) ||
                       store_is_small(fuse, home, base) || space_keeps_innermost(value, base);
    if (!is_as_it_is && !store_turns_columns(fuse, home, value, base) &&
        !store_turns_rows(fuse, home, value, base)) {
        pass_decide(fuse->pass, "output_movement", false, value, base,
                    "an output whose innermost axis is that of the result",
                    "writing the rows of the result in this order would scatter single elements");
        return false;
    }
    pass_decide(fuse->pass, "output_movement", true, value, base, NULL,
                "the result is stored in this order%s",
                is_as_it_is ? "" : ", of rows that a block has on chip together");
    store_in(fuse, node, home);
    return true;
}

/* Whether the kernel of what such a view is of stores it in the view's order (fuse_joined.c); a product's
 * does where parts of its rows change places, heads of its columns being found by fuse_columns.c. */
static bool store_joins_heads(const Fuse *fuse, const FuseNode *node) {
    const Value *base = space_stored_base(fuse, node->value);
    const Group *home = fuse_home(fuse, base);
    if (!home || fuse_node(fuse, base)->stored || store_foreign(fuse_node(fuse, base)))
        return false;
    bool is_able = home->is_chain || home->kind == TEMPLATE_ROWS || home->kind == TEMPLATE_POINTWISE;
    if (home->kind == TEMPLATE_MATMUL && !is_able)
        is_able = node->value->in[0]->in[0] != base;
    return is_able && fuse_joins(fuse, node->value, base);
}

/* The same of what floats, which several products would want in the order that it has. */
static bool store_floats_joined(const Fuse *fuse, const FuseNode *node) {
    const Value *base = space_stored_base(fuse, node->value);
    return node->needs.n > 0 && fuse_joined_view(fuse, node->value, base) == node->value;
}

/* Whether a mask is drawn by a kernel of its own, since it is behind sums of so few products that these do
 * not hide the arithmetic of random numbers, of which threads there use two of four: 8192 x 4096 x 1024 with
 * a GELU took 214 us, 164 so. */
static bool store_is_drawn_apart(const Fuse *fuse, const FuseNode *node, const bool *is_expected) {
    enum { SUM = 1024, ELEMENTS = 1 << 23 };
    const Value *value = node->value;
    bool is_drawn = false;
    for (int i = 0; i < value->n_in; i++)
        is_drawn = is_drawn || value->in[i]->op == OP_uniform;
    if (!is_drawn || value->dtype != DTYPE_BOOL || is_expected[value->id] || !node->needs.n ||
        fuse_count(fuse, value->rank, (const Dim *const *)value->dims) <= ELEMENTS)
        return false;
    for (size_t i = 0; i < node->needs.n; i++) {
        const Group *group = node->needs.at[i].group;
        const Value *a = group->cores.n == 1 ? group->cores.at[0]->in[0] : NULL;
        if (group->kind != TEMPLATE_MATMUL || group->is_chain || !a ||
            fuse_extent(fuse, a->dims[a->rank - 1]) > SUM)
            return false;
    }
    return true;
}

/* Whether what floats is computed of rows that are joined of several tensors' (a shifted image's). */
static bool store_has_joined_rows(Fuse *fuse, const Value *value) {
    const FuseNode *node = fuse_node(fuse, value);
    if (node->free || node->home || fuse->stamps[value->id] == fuse->stamp)
        return false;
    fuse->stamps[value->id] = fuse->stamp;
    if (value->op == OP_concat && value->attrs[0].i < value->rank - 1)
        return true;
    for (int i = 0; i < value->n_in; i++)
        if (store_has_joined_rows(fuse, value->in[i]))
            return true;
    return false;
}

/* Whether a product's kernel is among several that need it: of one tensor in memory the ring brings the
 * epilogue its rows, of several its threads read them. */
static bool store_is_dear_to_product(Fuse *fuse, const FuseNode *node) {
    bool has_product = false;
    for (size_t i = 0; i < node->needs.n; i++)
        has_product = has_product || node->needs.at[i].group->kind == TEMPLATE_MATMUL;
    fuse->stamp++;
    return has_product && store_has_joined_rows(fuse, node->value);
}

/* Whether an output joins axes of what floats (and may cut others), which a kernel over these axes may
 * compute anyway: all that do are known once the walk is there. */
static bool store_joins_axes(const Fuse *fuse, const Value *value) {
    const Value *base = value->n_in ? value->in[0] : NULL;
    return value->op == OP_reshape && value_is_output(fuse->graph, value) && value_is_pointwise(base) &&
           !fuse_home(fuse, base) && !fuse_node(fuse, base)->free && !fuse->joined_of[base->id];
}

/* Whether a floating Value that several groups need is dear enough to be stored once. */
static bool store_is_dear(Fuse *fuse, const FuseNode *node) {
    int64_t limit = fuse->limits->inline_cost_max, leaf_bytes = 0, needs = (int64_t)node->needs.n;
    if (needs < 2 || op_is_view(node->value->op) || node->value->op == OP_index)
        return false;
    if (fuse_cone_cost(fuse, node->value, limit) > limit || store_is_dear_to_product(fuse, node))
        return true;
    for (int i = 0; i < node->n_leaves; i++)
        leaf_bytes += fuse_bytes(fuse, node->leaves[i]);
    return leaf_bytes * needs > leaf_bytes + fuse_bytes(fuse, node->value) * (1 + needs);
}

/* Whether windows have a group compute it so many times that writing and reading it takes less: of 28 million
 * elements, 3 x 3 windows of silu(batchnorm(x)) took 196 us so and 122 of its result, of x times a channel's
 * factor 68 and 78. */
static bool store_is_repeated_often(Fuse *fuse, const FuseNode *node) {
    enum { MOVING = 14, LAUNCH = 75000000 }; /* scalar operations in the time of a byte, and of a launch */
    const Value *value = node->value;
    double again = store_again(node),
           elements = (double)fuse_count(fuse, value->rank, (const Dim *const *)value->dims);
    if (again <= 1 || !value_is_pointwise(value))
        return false;
    double operations = (double)fuse_cone_cost(fuse, value, 1 << 20) * again,
           moving = (double)fuse_bytes(fuse, value) * MOVING;
    return elements * operations > moving + LAUNCH;
}

static void store_floating(Fuse *fuse, FuseNode *node, bool forced, const bool *is_expected) {
    Value *value = node->value;
    bool output = value_is_output(fuse->graph, value);
    forced = forced || (!output && store_floats_joined(fuse, node));
    bool is_laid = output ? !forced : op_is_view(value->op) && (forced || store_joins_heads(fuse, node));
    if (is_laid && store_reordered(fuse, node))
        return;
    if (output && !forced && fuse_columns(fuse, value, true)) {
        store_output(fuse, node);
        store_pass_on(fuse, value, node->home, 1);
        return;
    }
    if (!node->needs.n && !output)
        return;
    if (store_is_drawn_apart(fuse, node, is_expected)) {
        pass_decide(fuse->pass, "drawn", false, value, node->needs.at[0].group->cores.at[0],
                    "@expect(kernels=1), or products of which more are added up",
                    "a kernel of its own draws the mask, in half the time");
        store_alone(fuse, node);
        return;
    }
    bool repeated = !output && !forced && store_is_repeated_often(fuse, node),
         dear = !output && !forced && !repeated && store_is_dear(fuse, node);
    if (output || forced || repeated || dear) {
        if (repeated)
            pass_decide(
                fuse->pass, "windows", false, value, NULL,
                "fewer operations, or windows that have it less often",
                "each window that has an element would compute it again, which takes longer than reading it");
        else if (dear)
            pass_decide(
                fuse->pass, "store", false, value, NULL, "fewer operations, or fewer kernels that need it",
                "%zu kernels need it and computing it again costs more than reading it", node->needs.n);
        store_somewhere(fuse, node);
        return;
    }
    if (node->needs.n > 1 && !op_is_view(value->op))
        pass_decide(fuse->pass, "recompute", true, value, NULL, NULL,
                    "%zu kernels compute it as they need it", node->needs.n);
    for (size_t i = 0; i < node->needs.n; i++)
        store_pass_on(fuse, value, node->needs.at[i].group, node->needs.at[i].again);
}

/* Stores what joins axes of a floating Value, which all groups that need it are known of: by one of them. */
static void store_joined_axes(Fuse *fuse, FuseNode *node) {
    FuseNode *joined = fuse_node(fuse, fuse->joined_of[node->value->id]);
    Group *host = node->home ? NULL : store_host(fuse, node);
    if (!host) { /* or another output of it has given it a kernel */
        if (!store_reordered(fuse, joined))
            store_somewhere(fuse, joined);
        return;
    }
    pass_decide(fuse->pass, "sibling", true, joined->value, host->members.at[0], NULL,
                "a kernel that computes it anyway writes it too");
    group_join(fuse, host, node->value);
    store_in(fuse, joined, host);
}

void fuse_store(Fuse *fuse) {
    Graph *graph = fuse->graph;
    bool *forced = ARENA_ARRAY(fuse->arena, bool, graph->values.n + 1);
    const bool *is_expected = fuse_mark_expected(fuse);
    fuse_roots(fuse);
    fuse->joined_of = ARENA_ARRAY(fuse->arena, Value *, graph->values.n + 1);
    for (size_t i = graph->values.n; i-- > 0;) {
        FuseNode *node = &fuse->nodes[i];
        if (node->free || node->value->op == OP_input)
            continue;
        if (fuse->joined_of[i])
            store_joined_axes(fuse, node);
        if (!node->home && !forced[i] && store_joins_axes(fuse, node->value)) {
            fuse->joined_of[node->value->in[0]->id] = node->value;
            continue;
        }
        if (!node->home) {
            store_floating(fuse, node, forced[i], is_expected);
            continue;
        }
        store_at_home(fuse, node);
        Value *value = node->value;
        if (value->op != OP_matmul || !(node->stored || node->needs.n))
            continue;
        for (int k = 0; k < 2; k++) {
            Value *below = store_viewed(fuse, value->in[k]),
                  *joined = fuse_joined_view(fuse, value->in[k], below),
                  *of_windows = joined ? NULL : matmul_windows_base(fuse, value, k),
                  *viewed = joined       ? joined
                            : of_windows ? of_windows
                                         : below,
                  *widened = matmul_widened_apart(fuse, value, k),
                  *index = matmul_index_apart(fuse, value, k),
                  *factors = matmul_factors_apart(fuse, value, k);
            const FuseNode *operand = fuse_node(fuse, viewed);
            if (widened)
                forced[widened->id] = true;
            if (index)
                forced[index->id] = true;
            if (factors)
                forced[factors->id] = true;
            if (!operand->home && !operand->free && viewed->op != OP_input &&
                matmul_wants_stored(fuse, value, k))
                forced[viewed->id] = true;
        }
    }
}
