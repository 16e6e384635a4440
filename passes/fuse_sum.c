/* Sums of products: one kernel adds up several products in the same accumulators, the steps of K of one
 * behind those of another.
 *
 *     y = 2 * (t @ b.T) + x @ w.T        matmul "y": acc = t @ b.T, acc = 2 * acc, acc += x @ w.T
 *
 * Neither product is ever in memory, as a f32 tensor that one kernel writes and the next one reads. What is
 * computed of the first product element by element is computed in the registers between the two; the other is
 * added as it is (the pass `sums` brings sums into that order). */
#include "ir/base/checked.h"
#include "passes/fuse.h"

/* A sum's parts: the group whose product is added as it is, and the group that the rest comes from. */
typedef struct SumParts {
    Group *first, *last;
    Value *product;
} SumParts;

static int64_t sum_length(const Fuse *fuse, const Value *product) {
    return fuse_extent(fuse, product->in[0]->dims[product->in[0]->rank - 1]);
}

/* Of two products that are both added as they are, the longer one's steps come last: blocks may share them.
 */
static bool sum_parts(const Fuse *fuse, const Value *value, SumParts *parts) {
    *parts = (SumParts){0};
    for (int i = 1; i >= 0; i--) {
        Group *last = fuse_home(fuse, value->in[i]), *first = fuse_home(fuse, value->in[1 - i]);
        if (value->in[i] == last->cores.at[0] &&
            (!parts->product || sum_length(fuse, value->in[i]) > sum_length(fuse, parts->product)))
            *parts = (SumParts){first, last, value->in[i]};
    }
    return parts->product;
}

/* Whether a Value is a product, or the last of those that are added up, times factors alone. */
static bool sum_is_multiple(const Fuse *fuse, const Group *group, const Value *value) {
    const Value *product = group->sums.n ? group->sums.at[group->sums.n - 1] : group->cores.at[0];
    while (value != product) {
        int of = value->op == OP_mul && fuse_home(fuse, value->in[0]) != group;
        bool is_other = value->n_in < 2 || fuse_home(fuse, value->in[1 - of]) != group;
        if (!op_multiplies(value->op) || !is_other || fuse_home(fuse, value->in[of]) != group)
            return false;
        value = value->in[of];
    }
    return true;
}

/* Why kernels of their own are quicker, and what would have to change; NULL: they are not. Where K is long, a
 * row or two are streamed through registers, and of few tiles blocks share K: they have a part of each
 * product, of which only multiples add up. */
static const char *sum_is_quicker_apart(const Fuse *fuse, const Value *sum, const SumParts *parts,
                                        const char **change) {
    enum {
        TILE = 128,
        FEW = 2,
        LONG = 1024 /* K that takes no longer than another launch and its traffic */
    };
    const FuseLimits *limits = fuse->limits;
    int64_t tiles = 1, longest = sum_length(fuse, parts->product), fewest = INT64_MAX;
    for (size_t i = 0; i < parts->first->cores.n; i++) {
        int64_t k = sum_length(fuse, parts->first->cores.at[i]);
        longest = k > longest ? k : longest;
    }
    for (int i = 0; i < sum->rank; i++) {
        int64_t extent = fuse_extent(fuse, sum->dims[i]);
        int64_t along = ceil_div(extent, i < sum->rank - 2 ? 1 : TILE);
        if (tiles < limits->sm_count)
            tiles *= along < limits->sm_count ? along : limits->sm_count;
        if (i >= sum->rank - 2 && extent < fewest)
            fewest = extent;
    }
    *change = "three rows and columns, or a shorter K";
    if (longest > LONG && fewest <= FEW)
        return "a row or two are streamed faster by kernels of their own";
    *change = "a larger result, a shorter K, or factors alone between the two";
    const Value *to = sum->in[sum->in[0] == parts->product];
    bool is_few = longest > LONG && tiles * 2 < limits->sm_count;
    return is_few && !sum_is_multiple(fuse, parts->first, to)
               ? "few tiles and a long K, which blocks cannot share with what lies between the two"
               : NULL;
}

bool fuse_is_sum(const Fuse *fuse, const Value *value, const Group *a, const Group *b) {
    if (!fuse->limits->adds_products || value->op != OP_add || a->kind != b->kind ||
        a->kind != TEMPLATE_MATMUL || a->is_chain || b->is_chain)
        return false;
    for (int i = 0; i < 2; i++)
        if (fuse_home(fuse, value->in[i]) != a && fuse_home(fuse, value->in[i]) != b)
            return false;
    return fuse_home(fuse, value->in[0]) != fuse_home(fuse, value->in[1]) && !fuse_are_dual(a, b);
}

/* Whether a group has accumulators of one sum, and nothing but elements made of them. */
static bool sum_is_plain(const Group *group) {
    return group->cores.n == group->sums.n + 1 && !group->n_reduced && !group->has_blocks && !group->is_moved;
}

/* Why the two do not become one kernel, and what would have to change; NULL: they do. */
static const char *sum_fault(Fuse *fuse, const Value *value, SumParts *parts, const char **change) {
    *change = "one of the two products added as it is";
    if (!sum_parts(fuse, value, parts))
        return "both products are changed before they are added";
    const Group *first = parts->first, *last = parts->last;
    *change = "results of equal dims and type";
    if (!value_same_dims(value, parts->product) || value->dtype != parts->product->dtype ||
        value->in[0]->dtype != value->in[1]->dtype || !value_same_dims(value->in[0], value->in[1]))
        return "what is added has not the product's dims and type";
    const char *fault = product_sum_fault(fuse->limits, first->cores.at[0], parts->product, change);
    if (fault)
        return fault;
    fault = sum_is_quicker_apart(fuse, value, parts, change);
    if (fault)
        return fault;
    *change = text_format(fuse->graph->arena, "at most %d products", REGION_SUM_MAX);
    if (last->cores.n != 1 || first->cores.n >= REGION_SUM_MAX)
        return "one kernel adds up no more";
    *change = "no statistics of one product alone, and columns that stay where they are";
    if (!sum_is_plain(first) || !sum_is_plain(last))
        return "a product is more than its elements before the sum";
    *change = "products that only their sum needs";
    if (group_is_needed_elsewhere(fuse, first, value, NULL) ||
        group_is_needed_elsewhere(fuse, last, value, NULL))
        return "one of the two products is needed elsewhere too";
    *change = "products that do not depend on one another";
    if (group_waits(first, last) || group_waits(last, first))
        return "one of the two products waits for the other";
    *change = "fewer operands";
    if (first->leaves.n + last->leaves.n > (size_t)fuse->limits->max_inputs ||
        first->members.n + last->members.n >= FUSE_MEMBERS_MAX)
        return "the kernel would be larger than kernels get";
    *change = "no @schedule for another path";
    if (chain_has_other_path(fuse->graph))
        return "the graph asks for other ways to multiply";
    *change = "operands that are copied, not computed, with rows that start at 16 bytes";
    return fuse->known->refused[parts->product->id] & REFUSED_SUM ? "no schedule adds both up" : NULL;
}

bool fuse_sum(Fuse *fuse, Value *value) {
    Value *other = fuse_home(fuse, value->in[1])->cores.at[0];
    SumParts parts;
    const char *change, *fault = sum_fault(fuse, value, &parts, &change);
    if (fault) {
        pass_decide(fuse->pass, "product_sum", false, value, other, change, "%s", fault);
        return false;
    }
    group_merge(fuse, parts.first, parts.last);
    vec_push(fuse->arena, &parts.first->sums, value);
    pass_decide(fuse->pass, "product_sum", true, value, parts.product, NULL,
                "its steps of K go on in the accumulators that the other product is in");
    return true;
}

/* What alone needs a Value; NULL where there is no such one. */
static const Value *sum_only_user(const Fuse *fuse, const Value *value) {
    const Value *user = NULL;
    for (size_t i = value->id + 1; i < fuse->graph->values.n; i++)
        for (int k = 0; k < fuse->graph->values.at[i]->n_in; k++) {
            if (fuse->graph->values.at[i]->in[k] != value)
                continue;
            if (user)
                return NULL;
            user = fuse->graph->values.at[i];
        }
    return value_is_output(fuse->graph, value) ? NULL : user;
}

bool fuse_sum_follows(const Fuse *fuse, const Value *product) {
    const char *change;
    const Value *term = product, *user = sum_only_user(fuse, product);
    while (user && op_multiplies(user->op)) {
        term = user;
        user = sum_only_user(fuse, user);
    }
    if (!fuse->limits->adds_products || !user || user->op != OP_add || !value_same_dims(user, product))
        return false;
    const Value *added = user->in[user->in[0] == term], *other = added;
    while (op_multiplies(other->op))
        other = other->in[other->op == OP_mul && !value_same_dims(other->in[0], product)];
    return other->op == OP_matmul && (term == product || added == other) &&
           !product_are_dual(other, product) && !product_sum_fault(fuse->limits, other, product, &change);
}
