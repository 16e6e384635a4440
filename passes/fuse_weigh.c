/* Two plans of a graph, weighed against each other where they differ.
 *
 * Statistics of a product's rows may be taken by the product's kernel, or by one behind it that reads the
 * product again. Which is quicker depends on all that a schedule is chosen by: few tiles leave most of the
 * machine idle, which splits K once nothing needs whole rows; blocks that share long rows wait for each
 * other; a second kernel moves the product twice. So the graph is planned both ways, and the cost model
 * asked.
 *
 *     joined:  [x @ w.T, softmax]               parts that the two do not have in common: kernels that are
 *     apart:   [x @ w.T] [softmax]              connected by values that both compute
 *
 * Each part of the graph takes the plan whose kernels take less time there. */
#include "passes/fuse.h"

#include <math.h>

/* The kernels of both plans, and which are connected. */
typedef struct Weigh {
    Fuse *fuse;
    VEC(const Region *) regions; /* those with the statistics inside, then the others */
    size_t n_joined;
    int *part;                /* of a region: another one that it is connected with, or itself */
    const Region **candidate; /* by Value.id: the kernel with a statistic inside that may leave */
} Weigh;

static bool weigh_is_statistic(const Weigh *w, const Value *value) {
    return value_class(value) == OPCLASS_REDUCTION && !fuse_node(w->fuse, value)->is_hosted &&
           !reduction_is_inline(value);
}

/* Whether a product is one of several beside each other, as heads are, which stay whole to have statistics.
 */
static bool weigh_is_head(const Value *core) {
    const Value *first = core->in[0];
    return core->rank > 2 && (first->rank < core->rank || dim_is(first->dims[core->rank - 3], 1));
}

/* Whether a @schedule names what kernels of a product alone have: a tile, or a way to multiply. */
static bool weigh_is_for_product(const Hint *hint) {
    const char *path = fuse_hint_path(hint);
    if (path && strcmp(path, "loop") != 0)
        return true;
    for (size_t i = 0; !strcmp(hint->name, "schedule") && i < hint->args.n; i++)
        if (fuse_hint_says(&hint->args.at[i], "tile"))
            return true;
    return false;
}

bool *fuse_mark_hinted(Arena *arena, const Graph *graph, bool (*counts)(const Hint *hint)) {
    bool *is_hinted = ARENA_ARRAY(arena, bool, graph->values.n + 1);
    for (size_t i = 0; i < graph->hints.n; i++) {
        const Hint *hint = &graph->hints.at[i];
        const Value *value = fuse_hint_value(graph, hint);
        if (value && counts(hint))
            is_hinted[value->id] = true;
    }
    for (size_t i = graph->values.n; i-- > 0;) /* topological */
        for (int k = 0; k < graph->values.at[i]->n_in && is_hinted[i]; k++)
            is_hinted[graph->values.at[i]->in[k]->id] = true;
    return is_hinted;
}

bool hint_is_expect(const Hint *hint) {
    return !strcmp(hint->name, "expect");
}

static bool weigh_is_expected(const Hint *hint) {
    return hint_is_expect(hint) || weigh_is_for_product(hint);
}

bool *fuse_mark_expected(const Fuse *fuse) {
    return fuse_mark_hinted(fuse->arena, fuse->graph, weigh_is_expected);
}

/* Finds the statistics that may leave their product's kernel; how many. */
static int weigh_find(Weigh *w) {
    const Partition *partition = w->fuse->pass->partition;
    const bool *is_expected = fuse_mark_expected(w->fuse);
    int found = 0;
    for (size_t i = 0; i < partition->regions.n; i++) {
        const Region *region = partition->regions.at[i];
        if (region->kind != TEMPLATE_MATMUL || region->n_reduced == 0 || weigh_is_head(region->cores.at[0]) ||
            is_expected[region->cores.at[0]->id])
            continue;
        for (size_t k = 0; k < region->values.n; k++)
            if (weigh_is_statistic(w, region->values.at[k])) {
                w->candidate[region->values.at[k]->id] = region;
                found++;
            }
    }
    return found;
}

static int weigh_part(const Weigh *w, int region) {
    while (w->part[region] != region)
        region = w->part[region] = w->part[w->part[region]];
    return region;
}

/* Connects kernels that compute the same product, reduction or result; what lies between is computed wherever
 * it is wanted. */
static void weigh_connect(Weigh *w) {
    Arena *arena = w->fuse->arena;
    size_t n = w->fuse->graph->values.n;
    int *first = ARENA_ARRAY(arena, int, n + 1); /* one more than its number; 0: none */
    bool *is_result = ARENA_ARRAY(arena, bool, n + 1);
    for (size_t i = 0; i < w->regions.n; i++)
        for (size_t k = 0; k < w->regions.at[i]->outputs.n; k++)
            is_result[w->regions.at[i]->outputs.at[k]->id] = true;
    w->part = ARENA_ARRAY(arena, int, w->regions.n + 1);
    for (size_t i = 0; i < w->regions.n; i++) {
        const Region *region = w->regions.at[i];
        w->part[i] = (int)i;
        for (size_t k = 0; k < region->values.n; k++) {
            const Value *value = region->values.at[k];
            OpClass class_ = value_class(value);
            if (class_ != OPCLASS_CONTRACTION && class_ != OPCLASS_REDUCTION && !is_result[value->id])
                continue;
            int *other = &first[value->id];
            if (*other)
                w->part[weigh_part(w, (int)i)] = weigh_part(w, *other - 1);
            else
                *other = (int)i + 1;
        }
    }
}

static void weigh_keep_regions(Weigh *w) {
    const Partition *partition = w->fuse->pass->partition;
    for (size_t i = 0; i < partition->regions.n; i++)
        vec_push(w->fuse->arena, &w->regions, partition->regions.at[i]);
}

/* Seconds of the parts that candidates are in, by part, in both plans; NaN where the cost model does not know
 * some kernel. */
static RowsEstimate *weigh_estimate(const Weigh *w) {
    Arena *arena = w->fuse->arena;
    RowsEstimate *estimates = ARENA_ARRAY(arena, RowsEstimate, w->regions.n + 1);
    bool *is_wanted = ARENA_ARRAY(arena, bool, w->regions.n + 1);
    for (size_t i = 0; i < w->fuse->graph->values.n; i++)
        if (w->candidate[i])
            is_wanted[weigh_part(w, w->candidate[i]->id)] = true;
    for (size_t i = 0; i < w->regions.n; i++) {
        int part = weigh_part(w, (int)i);
        if (!is_wanted[part])
            continue;
        double seconds = fuse_seconds(w->fuse, w->regions.at[i]);
        *(i < w->n_joined ? &estimates[part].joined : &estimates[part].apart) += seconds > 0 ? seconds : NAN;
    }
    return estimates;
}

/* Notes what each candidate's part costs either way, and refuses those where that is less apart. */
static void weigh_settle(const Weigh *w) {
    FuseKnown *known = w->fuse->known;
    const RowsEstimate *estimates = weigh_estimate(w);
    for (size_t i = 0; i < w->fuse->graph->values.n; i++) {
        if (!w->candidate[i])
            continue;
        RowsEstimate estimate = estimates[weigh_part(w, w->candidate[i]->id)];
        if (isnan(estimate.joined) || isnan(estimate.apart))
            continue;
        known->rows[i] = estimate;
        if (estimate.apart < estimate.joined)
            known->refused[i] |= REFUSED_ROWS;
    }
}

bool fuse_weigh_rows(Fuse *fuse) {
    size_t n = fuse->graph->values.n;
    Weigh w = {.fuse = fuse, .candidate = ARENA_ARRAY(fuse->arena, const Region *, n + 1)};
    if (!fuse->pass->options->seconds || weigh_find(&w) == 0)
        return false;
    weigh_keep_regions(&w);
    w.n_joined = w.regions.n;
    FuseKnown apart = {.refused = ARENA_ARRAY(fuse->arena, uint8_t, n + 1), .rows = fuse->known->rows};
    for (size_t i = 0; i < n; i++)
        apart.refused[i] = (uint8_t)(fuse->known->refused[i] | (w.candidate[i] ? REFUSED_ROWS : 0));
    if (!fuse_plan(fuse->pass, fuse->graph, &apart))
        return true; /* as before */
    weigh_keep_regions(&w);
    weigh_connect(&w);
    weigh_settle(&w);
    return true;
}
