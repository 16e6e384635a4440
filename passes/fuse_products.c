/* Whether products of one input go in one launch (codegen/templates/wgmma_products.c): q, k and v whose heads
 * are normalized, each with an epilogue of its own.
 *
 *     q = rope(rmsnorm(reshape(x @ wq, ..)))   region 0: matmul
 *     k = rope(rmsnorm(reshape(x @ wk, ..)))   region 1: matmul   ->   a guest of region 0
 *     v = x @ wv                               region 2: matmul   ->   a guest of that
 *
 * Each kernel of its own fills its last round of tiles by itself, and begins when the one before it ends; in
 * one launch all have one schedule. Which of the two takes longer the cost model says. */
#include "passes/fuse.h"

/* Of a launch, what a kernel does not wait for that follows another: it begins while that one ends. */
static const double products_overlap = 3e-6;

static bool products_is_single(const Region *region) {
    return region->kind == TEMPLATE_MATMUL && region->cores.n == 1 && !region->sums.n &&
           (!region->guest || region->guest->kind == TEMPLATE_MATMUL);
}

/* Whether both multiply one input, along all of its K, and there is something to multiply. */
static bool products_are_alike(const Region *x, const Region *y) {
    const Value *a = x->cores.at[0]->in[0], *b = y->cores.at[0]->in[0];
    return value_below_views(a) == value_below_views(b) && a->dims[a->rank - 1] == b->dims[b->rank - 1] &&
           a->dtype == b->dtype && !fuse_is_idle(x) && !fuse_is_idle(y);
}

/* Whether what a region reads is there when region `first` of the partition begins. */
static bool products_are_ready(const Partition *partition, size_t first, size_t end, const Region *region) {
    for (size_t i = first; i < end; i++)
        for (size_t k = 0; k < region->inputs.n; k++)
            if (region_kernel_writes(partition->regions.at[i], region->inputs.at[k]))
                return false;
    return true;
}

static bool products_have_room(const Fuse *fuse, const Region *host, const Region *guest) {
    size_t inputs = guest->inputs.n, outputs = guest->outputs.n;
    for (const Region *part = host; part; part = part->guest) {
        inputs += part->inputs.n;
        outputs += part->outputs.n;
    }
    return inputs <= (size_t)fuse->limits->max_inputs && outputs <= (size_t)fuse->limits->max_outputs;
}

static int64_t products_elements(const Fuse *fuse, const Region *region) {
    return fuse_count(fuse, region->rank, region->dims);
}

/* The larger of them is the host, whose kernel the schedule is made for, unless a person said which. */
static Region *products_join(const Fuse *fuse, Region *first, Region *more) {
    if (!first->schedule_hint && products_elements(fuse, more) > products_elements(fuse, first)) {
        more->guest = first;
        return more;
    }
    Region *last = first;
    while (last->guest)
        last = last->guest;
    last->guest = more;
    return first;
}

static void products_part(Region *first, Region *more) {
    if (more->guest == first)
        more->guest = NULL;
    for (Region *part = first; part->guest; part = part->guest)
        if (part->guest == more) {
            part->guest = NULL;
            return;
        }
}

/* The kernel of both, where codegen takes them together and that pays or is asked for; else NULL, both as
 * they were. `*alone`: seconds of the first, 0 where not known yet, and then of what stands in its place: to
 * choose a schedule takes long. */
static Region *products_try(Fuse *fuse, Region *first, Region *more, double *alone) {
    const PassOptions *options = fuse->pass->options;
    Value *at = more->outputs.at[0], *other = first->outputs.at[0];
    const char *why = NULL;
    bool is_asked = false, is_told = false;
    for (const Region *part = more; part; part = part == more ? first : part->guest) {
        bool is_wanted = false;
        if (!fuse_guest_hint(fuse->graph, part, &is_wanted))
            continue;
        if (!is_wanted)
            return NULL;
        is_told = true;
        is_asked |= part == more;
    }
    if (!is_told && (first->schedule_hint || more->schedule_hint))
        return NULL;
    if (*alone <= 0)
        *alone = fuse_seconds(fuse, first);
    double apart = *alone + fuse_seconds(fuse, more);
    Region *host = products_join(fuse, first, more);
    double joined = fuse_seconds(fuse, host); /* codegen takes what it has a time for, hints apart */
    if ((joined <= 0 || is_told) && !options->takes(options->takes_context, fuse->graph, host, &why)) {
        products_part(first, more);
        pass_decide(fuse->pass, "products", false, at, other, "products that one schedule serves",
                    "they do not go in one launch: %s", why ? why : "their template refuses");
        return NULL;
    }
    bool pays = is_asked || (joined > 0 && joined < apart - products_overlap);
    if (pays)
        *alone = joined;
    else
        products_part(first, more);
    pass_decide(fuse->pass, "products", pays, at, other, "products that fill fewer rounds of tiles",
                "products of one input: one launch takes %.1f us by the estimate, one more %.1f us",
                joined * 1e6, apart * 1e6);
    return pays ? host : NULL;
}

void fuse_products(Fuse *fuse) {
    Partition *partition = fuse->pass->partition;
    const PassOptions *options = fuse->pass->options;
    size_t n = 0;
    if (!fuse->limits->hosts_products || !options->takes || !options->seconds)
        return;
    double *seconds = ARENA_ARRAY(fuse->arena, double, partition->regions.n + 1);
    for (size_t i = 0; i < partition->regions.n; i++) {
        Region *region = partition->regions.at[i], *host = NULL;
        for (size_t k = 0; k < n && !host && products_is_single(region) && !region->guest; k++) {
            Region *first = partition->regions.at[k];
            if (products_is_single(first) && products_are_alike(first, region) &&
                products_are_ready(partition, k, n, region) && products_have_room(fuse, first, region))
                host = products_try(fuse, first, region, &seconds[k]);
            if (host)
                partition->regions.at[k] = host;
        }
        if (!host)
            partition->regions.at[n++] = region;
    }
    if (n < partition->regions.n) {
        partition->regions.n = n;
        fuse_number(fuse->graph, fuse->pass->partition);
    }
}
