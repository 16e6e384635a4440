/* Kernels beside one another: a pointwise kernel and another kernel over the same space that read the same
 * large tensor become one, where neither waits for the other. The tensor is then read once, and one launch is
 * saved.
 *
 *     a = relu(x)              pointwise "a", "b": reads x once
 *     b = x * 2
 *
 * Where both are little work, which a launch is much beside, they need not read anything in common: the keys
 * and the values that are kept, each with new ones behind it.
 *
 * The other may multiply matrices, where everything large that the first reads is read behind the product:
 *
 *     d = (dy @ w) * silu_backward(g, u)      matmul "d", "h": reads g and u once
 *     h = silu(g) * u  */
#include "ir/value_map.h"
#include "passes/fuse.h"
#include "passes/product.h"

enum {
    SIBLING_OPEN = 4,
    SIBLING_TRIES = 65536,     /* pairs looked at, so that a hostile graph cannot make this walk long */
    SIBLING_ROWS = 128,        /* rows below which a rows kernel leaves most of the machine idle */
    SIBLING_SMALL = 65536,     /* elements that one block handles as fast as a launch */
    SIBLING_LITTLE = 32 << 20, /* bytes that take ten microseconds, of which a launch is a fifth */
};

typedef VEC(Group *) SiblingReaders;

typedef struct Siblings {
    Fuse *fuse;
    int n;                 /* groups */
    FuseClosure *closures; /* by group */
    int *stamps, stamp;    /* by group */
    int tries;
} Siblings;

static void sibling_collect(Siblings *siblings, const Group *group) {
    siblings->closures[group->id] = fuse_closure(siblings->fuse, group, group->outputs.at, group->outputs.n);
}

/* Whether `from` reads, through others too, what `to` writes. */
static bool sibling_reaches(Siblings *siblings, const Group *from, const Group *to) {
    if (from == to)
        return true;
    if (siblings->stamps[from->id] == siblings->stamp)
        return false;
    siblings->stamps[from->id] = siblings->stamp;
    for (size_t i = 0; i < siblings->closures[from->id].read.n; i++) {
        const Group *home = fuse_home(siblings->fuse, siblings->closures[from->id].read.at[i]);
        if (home && sibling_reaches(siblings, home, to))
            return true;
    }
    return false;
}

static bool sibling_is_candidate(const Group *group) {
    return !group->dead && group->outputs.n &&
           (group->kind == TEMPLATE_POINTWISE || group->kind == TEMPLATE_ROWS);
}

/* Whether a kernel over rows has as many as keep the machine busy. */
static bool sibling_is_wide(const Fuse *fuse, const Group *group) {
    return group->kind == TEMPLATE_POINTWISE || fuse_count(fuse, group->rank, group->dims) <= SIBLING_SMALL ||
           fuse_count(fuse, group->rank - group->n_reduced, group->dims) >= SIBLING_ROWS;
}

/* `from` into `into`, where neither waits for the other and one kernel holds both. */
static bool sibling_merge(Siblings *siblings, Group *into, Group *from, const char *why) {
    Fuse *fuse = siblings->fuse;
    if (into->outputs.n + from->outputs.n > (size_t)fuse->limits->max_outputs ||
        siblings->closures[into->id].read.n + siblings->closures[from->id].read.n >
            (size_t)fuse->limits->max_inputs ||
        into->members.n + from->members.n > FUSE_MEMBERS_MAX)
        return false;
    siblings->stamp++;
    if (sibling_reaches(siblings, into, from))
        return false;
    siblings->stamp++;
    if (sibling_reaches(siblings, from, into))
        return false;
    pass_decide(fuse->pass, "sibling", true, from->outputs.at[0], into->outputs.at[0], NULL, "%s", why);
    group_merge(fuse, into, from);
    sibling_collect(siblings, into);
    return true;
}

/* Whether a kernel over the space has elements of it along another axis than the innermost, which one of rows
 * would read or write one by one: of a square, transposed, dims do not tell. */
static bool sibling_turns(const Siblings *siblings, const Group *group) {
    const FuseClosure *closure = &siblings->closures[group->id];
    for (size_t i = 0; i < closure->computed.n; i++) {
        const Value *value = closure->computed.at[i];
        if (value->op == OP_transpose && space_same(group, value->rank, value->dims) &&
            !space_keeps_innermost(value, value->in[0]))
            return true;
    }
    return false;
}

/* Whether it stores across rows what no kernel of rows has a tile for. */
static bool sibling_is_refused(const Siblings *siblings, const Group *group) {
    const Fuse *fuse = siblings->fuse;
    for (size_t i = 0; i < group->outputs.n; i++) {
        const Value *output = group->outputs.at[i];
        if (op_is_view(output->op) && fuse->known->refused[output->id] & REFUSED_STORE)
            return true;
    }
    return false;
}

static bool sibling_try(Siblings *siblings, Group *into, Group *from, const char *why) {
    if (into->kind == TEMPLATE_ROWS && (sibling_turns(siblings, from) || sibling_is_refused(siblings, from)))
        return false;
    return into != from && sibling_is_candidate(into) && sibling_is_candidate(from) &&
           from->kind == TEMPLATE_POINTWISE && space_same(into, from->rank, from->dims) &&
           sibling_is_wide(siblings->fuse, into) && siblings->tries++ < SIBLING_TRIES &&
           sibling_merge(siblings, into, from, why);
}

/* A reduction computed in place, one element a thread, stays alone: beside others it would be repeated for
 * nothing. */
static bool sibling_is_plain(const Group *group) {
    for (size_t i = 0; i < group->members.n; i++)
        if (group->kind == TEMPLATE_POINTWISE && value_is_heavy(group->members.at[i]))
            return false;
    return true;
}

/* Joins kernels to one another, each to one of a few that were met before it: the readers of one tensor, or
 * what is little work over one space. */
static void sibling_join(Siblings *siblings, Group *const *readers, size_t n, const char *why) {
    Group *open[SIBLING_OPEN];
    int n_open = 0;
    for (size_t i = 0; i < n; i++) {
        bool joined = readers[i]->dead;
        for (int k = 0; k < n_open && !joined; k++)
            joined = readers[i] == open[k] || sibling_try(siblings, open[k], readers[i], why);
        for (int k = 0; k < n_open && !joined; k++)
            if (sibling_try(siblings, readers[i], open[k], why)) {
                open[k] = readers[i];
                joined = true;
            }
        if (joined)
            continue;
        if (n_open == SIBLING_OPEN)
            memmove(open, open + 1, (size_t)--n_open * sizeof *open);
        open[n_open++] = readers[i];
    }
}

/* Whether a pointwise kernel reads and writes so little that its launch is much of its time. */
static bool sibling_is_little(const Siblings *siblings, const Group *group) {
    const Fuse *fuse = siblings->fuse;
    const FuseClosure *closure = &siblings->closures[group->id];
    int64_t bytes = 0;
    for (size_t i = 0; i < closure->read.n && bytes <= SIBLING_LITTLE; i++)
        bytes += fuse_bytes(fuse, closure->read.at[i]);
    for (size_t i = 0; i < group->outputs.n && bytes <= SIBLING_LITTLE; i++)
        bytes += fuse_bytes(fuse, group->outputs.at[i]);
    return bytes <= SIBLING_LITTLE;
}

/* Joins little pointwise kernels over one space to one another. */
static void sibling_join_little(Siblings *siblings) {
    Fuse *fuse = siblings->fuse;
    VEC(Group *) little = {0};
    for (int i = 0; i < siblings->n; i++) {
        Group *group = fuse->groups.at[i];
        if (group->kind == TEMPLATE_POINTWISE && sibling_is_candidate(group) && sibling_is_plain(group) &&
            sibling_is_little(siblings, group))
            vec_push(fuse->arena, &little, group);
    }
    sibling_join(siblings, little.at, little.n, "both are little work, and one launch is saved");
}

/* What the group's product is computed from, as far as the group computes it, and what that reads. */
static ValueMap sibling_before(const Siblings *siblings, const Group *group) {
    Arena *arena = siblings->fuse->arena;
    const FuseClosure *closure = &siblings->closures[group->id];
    ValueMap computed = {.arena = arena}, before = {.arena = arena};
    VEC(const Value *) open = {0};
    for (size_t i = 0; i < closure->computed.n; i++)
        value_map_set(&computed, closure->computed.at[i], 1);
    for (size_t i = 0; i < group->cores.n; i++)
        vec_push(arena, &open, group->cores.at[i]);
    while (open.n) {
        const Value *value = open.at[--open.n];
        for (int i = 0; value_map_get(&computed, value) && i < value->n_in; i++)
            if (!value_map_get(&before, value->in[i])) {
                value_map_set(&before, value->in[i], 1);
                vec_push(arena, &open, value->in[i]);
            }
    }
    return before;
}

/* Whether `value` reads its operands element by element, in the order of the space. */
static bool sibling_reads_in_order(const Value *value) {
    return value_is_pointwise(value) || value->op == OP_reshape;
}

/* What is read element by element behind the group's product, and not before it. */
static ValueMap sibling_behind(const Siblings *siblings, const Group *group) {
    const FuseClosure *closure = &siblings->closures[group->id];
    ValueMap before = sibling_before(siblings, group), behind = {.arena = siblings->fuse->arena};
    for (size_t i = 0; i < closure->computed.n; i++) {
        const Value *value = closure->computed.at[i];
        bool is_behind = sibling_reads_in_order(value) && !value_map_get(&before, value);
        for (int k = 0; is_behind && k < value->n_in; k++)
            if (!value_map_get(&before, value->in[k]))
                value_map_set(&behind, value->in[k], 1);
    }
    return behind;
}

/* Whether everything that the group reads and that is as large as its space is read behind a product. */
static bool sibling_reads_no_more(const Siblings *siblings, const Group *group, const ValueMap *behind) {
    const FuseClosure *closure = &siblings->closures[group->id];
    int64_t space = fuse_count(siblings->fuse, group->rank, group->dims);
    int shared = 0;
    for (size_t i = 0; i < closure->read.n; i++) {
        const Value *in = closure->read.at[i];
        if (fuse_count(siblings->fuse, in->rank, in->dims) < space)
            continue;
        if (!value_map_get(behind, in))
            return false;
        shared++;
    }
    return shared > 0;
}

/* Whether an output has the dims of the group's space, or more, of which it joins the rows. */
static bool sibling_stores_in_order(const Group *group, const Value *output) {
    const Value *base = output->op == OP_reshape ? output->in[0] : output;
    return space_same(group, base->rank, base->dims);
}

/* A product whose results go out element by element, by tensor cores. */
static bool sibling_is_product(const Siblings *siblings, const Group *group) {
    if (group->dead || group->kind != TEMPLATE_MATMUL || group->n_reduced || group->is_chain ||
        group->is_moved || group->has_blocks || group->sums.n || group->cores.n != 1 || !group->outputs.n ||
        !product_uses_tensor_cores(siblings->fuse->limits, group->cores.at[0]))
        return false;
    for (size_t i = 0; i < group->outputs.n; i++)
        if (!sibling_stores_in_order(group, group->outputs.at[i]))
            return false;
    return true;
}

/* Joins pointwise kernels to products that read the same. */
static void sibling_join_products(Siblings *siblings) {
    Fuse *fuse = siblings->fuse;
    for (int p = 0; p < siblings->n; p++) {
        Group *product = fuse->groups.at[p];
        if (!sibling_is_product(siblings, product))
            continue;
        ValueMap behind = sibling_behind(siblings, product);
        for (int i = 0; i < siblings->n; i++) {
            Group *from = fuse->groups.at[i];
            if (from->kind == TEMPLATE_POINTWISE && sibling_is_candidate(from) && sibling_is_plain(from) &&
                space_same(product, from->rank, from->dims) && siblings->tries++ < SIBLING_TRIES &&
                sibling_reads_no_more(siblings, from, &behind))
                sibling_merge(siblings, product, from, "the product's kernel reads the same tensors");
        }
    }
}

void fuse_siblings(Fuse *fuse) {
    Siblings siblings = {.fuse = fuse, .n = (int)fuse->groups.n};
    siblings.closures = ARENA_ARRAY(fuse->arena, FuseClosure, fuse->groups.n + 1);
    siblings.stamps = ARENA_ARRAY(fuse->arena, int, fuse->groups.n + 1);
    SiblingReaders *readers = ARENA_ARRAY(fuse->arena, SiblingReaders, fuse->graph->values.n + 1);
    for (int i = 0; i < siblings.n; i++) {
        Group *group = fuse->groups.at[i];
        if (group->dead)
            continue;
        sibling_collect(&siblings, group);
        if (!sibling_is_candidate(group) || !sibling_is_plain(group))
            continue;
        int64_t space = fuse_count(fuse, group->rank, group->dims);
        for (size_t k = 0; k < siblings.closures[i].read.n; k++) {
            Value *in = siblings.closures[i].read.at[k];
            if (fuse_count(fuse, in->rank, in->dims) >= space)
                vec_push(fuse->arena, &readers[in->id], group);
        }
    }
    for (size_t v = 0; v < fuse->graph->values.n; v++)
        sibling_join(&siblings, readers[v].at, readers[v].n, "both read the same tensor");
    sibling_join_little(&siblings);
    sibling_join_products(&siblings);
}
