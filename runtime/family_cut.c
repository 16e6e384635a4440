/* For which sizes a plan has kernels of their own: one extent of its products is cut, by the cost model.
 *
 * Up to CUT_SMALL sizes are cut into ranges that kernels may rely on (a single row of tiles, say), from the
 * largest down: a range is widened as long as the schedules of the wider one lose little at either end.
 *
 *     M == 1 | 2 <= M <= 16 | 17 <= M <= 64 | 65 <= M <= 128 | 129 <= M <= 256
 *
 * Beyond, what matters is how full the last round of tiles is, which comes and goes with the size. So a few
 * schedules are picked that take any such size, those which together lose least at the ends below, and every
 * size is given to the one that is quickest at the end above it:
 *
 *     257 to 384 and 641 to 768: tile 128x192 | 385 to 640: ... | the rest: what the plan has for no size
 *
 * Large lengths of rows that a kernel of their own reduces are cut by how they fit a block instead; without
 * products there is nothing else. */
#include "runtime/family.h"

enum { CUT_SMALL = 256, CUT_LARGE = 4096 /* larger ones are alike */ };
static const int64_t cut_small_ends[] = {1, 4, 16, 64, 128, 160, 208, CUT_SMALL};
/* Ends of large sizes, and whose schedules may be picked. */
static const struct {
    int64_t size;
    bool is_choice;
} cut_large_ends[] = {{320, true},   {384, true},   {448, false},  {512, true},   {576, false},
                      {640, true},   {704, false},  {768, true},   {896, false},  {1024, true},
                      {1152, false}, {1280, true},  {1408, false}, {1536, true},  {1792, false},
                      {2048, true},  {2304, false}, {2560, true},  {3072, false}, {CUT_LARGE, false}};
#define CUT_COUNT(ends) ((int)(sizeof(ends) / sizeof *(ends)))
enum {
    CUT_RANGES = CUT_COUNT(cut_small_ends) + 1,
    CUT_POINTS = CUT_COUNT(cut_large_ends),
    CUT_CHOICES = 12, /* schedules for large sizes that are compared */
    CUT_PICKS = 5,    /* of them that are taken, besides the plan's for no size in particular */
    CUT_EXTENTS = 4,  /* that are tried out */
};
_Static_assert(CUT_RANGES + CUT_PICKS + 1 <= FAMILY_SCOPES, "a plan has room for all of its variants");
_Static_assert(CUT_RANGES + 2 < FAMILY_SKETCHES, "of all sizes, of each range, and of two together");
#define CUT_LOSS 1.05   /* the times that a schedule of a wider range may take */
#define CUT_GAIN 0.005  /* of the time, on an average of the sizes: what another schedule must bring */
#define CUT_BETTER 1.25 /* by how much more another extent must gain: what comes first varies more */

/* ---- sketches: fused, with schedules, without kernels ------------------------------------------------- */

static void cut_drop(Family *family, const sinter_plan *sketch) {
    for (int i = 0; i < FAMILY_SKETCHES; i++) {
        if (sketch && family->sketches[i] == sketch) {
            sinter_plan_destroy(family->sketches[i]);
            family->sketches[i] = NULL;
        }
    }
}

typedef struct CutChoose {
    sinter_plan *sketch;
    const DimBindings *point;
} CutChoose;

static void cut_choose_body(void *context) {
    const CutChoose *choose = context;
    sinter_plan *sketch = choose->sketch;
    for (size_t i = 0; i < sketch->partition->regions.n; i++)
        codegen_schedule(sketch->graph, sketch->partition->regions.at[i], sketch->target, choose->point,
                         &sketch->diags);
}

/* Gives a sketch's regions the schedules for these sizes. */
static bool cut_choose(sinter_plan *sketch, const DimBindings *point) {
    CutChoose choose = {sketch, point};
    return arena_run(sketch->arena, cut_choose_body, &choose) && !sketch->diags.errors;
}

typedef struct CutJob {
    Family *family;
    const PlanScope *const *scopes;
    sinter_plan **made; /* slots of the family's, one a scope */
    int n;
    atomic_int next;
} CutJob;

static void *cut_work(void *context) {
    CutJob *job = context;
    const Family *family = job->family;
    sinter_plan_options options = family->options;
    options.stage = SINTER_STAGE_REGIONS;
    for (int i; (i = atomic_fetch_add(&job->next, 1)) < job->n;) {
        sinter_status status =
            plan_create(family->plan->context, family->graph, &options, NULL, job->scopes[i], &job->made[i]);
        if (status || !cut_choose(job->made[i], &job->made[i]->hint)) {
            sinter_plan_destroy(job->made[i]);
            job->made[i] = NULL;
        }
    }
    return NULL;
}

/* Sketches of several ranges, made side by side; to be dropped, NULL where the graph does not compile so. */
static void cut_sketches(Family *family, const FamilyRange *ranges, int n, sinter_plan **out) {
    const PlanScope *scopes[CUT_RANGES];
    int first = 0, free = 0; /* slots of the family's: n side by side */
    for (int i = 0; free < n; i++) {
        free = family->sketches[i] ? 0 : free + 1;
        first = i + 1 - free;
    }
    for (int i = 0; i < n; i++)
        scopes[i] = family_scope(family, &ranges[i]);
    CutJob job = {.family = family, .scopes = scopes, .made = &family->sketches[first], .n = n};
    family_run(cut_work, &job, n);
    for (int i = 0; i < n; i++)
        out[i] = family->sketches[first + i];
}

static sinter_plan *cut_sketch(Family *family, const FamilyRange *range) {
    sinter_plan *sketch;
    cut_sketches(family, range, 1, &sketch);
    return sketch;
}

typedef struct CutSum {
    const sinter_plan *sketch;
    DimBindings point;
    double seconds; /* 0: nobody knows */
} CutSum;

static void cut_add_up(void *context) {
    CutSum *sum = context;
    const sinter_plan *sketch = sum->sketch;
    double seconds = 0;
    for (size_t i = 0; i < sketch->partition->regions.n; i++) {
        const Region *region = sketch->partition->regions.at[i];
        double part =
            codegen_schedule_seconds(sketch->graph, region, sketch->target, &sum->point, &region->schedule);
        if (part <= 0)
            return;
        seconds += part;
    }
    sum->seconds = seconds;
}

/* Seconds that a sketch's schedules are expected to take where an extent has this size; 0: nobody knows. */
static double cut_seconds(Family *family, const sinter_plan *sketch, const Dim *extent, int64_t size) {
    CutSum sum = {.sketch = sketch, .point = family_point(family, extent, size)};
    return sketch && arena_run(sketch->arena, cut_add_up, &sum) ? sum.seconds : 0;
}

/* ---- extents ----------------------------------------------------------------------------------------- */

/* How many times longer the kernels for all sizes take, at most, at a size that an extent may have. */
static double cut_gain(Family *family, const sinter_plan *all, const Dim *extent) {
    static const int64_t probes[] = {1, 16, 256};
    double most = 0;
    int64_t lower = family_multiple(family, extent);
    for (int i = 0; i < CUT_COUNT(probes); i++) {
        if (probes[i] < lower)
            continue;
        sinter_plan *own = cut_sketch(family, &(FamilyRange){extent, lower, probes[i], .hint = probes[i]});
        double with = cut_seconds(family, own, extent, probes[i]),
               without = cut_seconds(family, all, extent, probes[i]);
        cut_drop(family, own);
        if (with > 0 && without > most * with)
            most = without / with;
        lower = probes[i] + 1;
    }
    return most;
}

/* The extents of the products' spaces that may be cut, each once; how many. Of which sizes are expected, as
 * of a batch, none is. */
static int cut_extents(Family *family, const sinter_plan *all, const Dim *out[CUT_EXTENTS]) {
    const sinter_plan *plan = family->plan;
    int n = 0;
    for (size_t i = 0; i < all->partition->regions.n; i++) {
        const Region *region = all->partition->regions.at[i];
        for (int axis = 0; region->cores.n && axis < region->rank && n < CUT_EXTENTS; axis++) {
            const Dim *extent = dim_copy(plan->graph->dims, all->graph->dims, region->dims[axis], NULL),
                      *last;
            bool is_new = extent && family_is_extent(extent, &last) && !family->usual.known[last->symbol];
            for (int k = 0; k < n; k++)
                is_new = is_new && out[k] != extent;
            if (is_new)
                out[n++] = extent;
        }
    }
    return n;
}

/* The extent whose ranges gain most; NULL: none gains. */
static const Dim *cut_extent(Family *family, const sinter_plan *all) {
    const Dim *extents[CUT_EXTENTS], *best = NULL;
    double most = CUT_LOSS;
    int n = cut_extents(family, all, extents);
    for (int i = 0; i < n; i++) {
        double gain = n > 1 ? cut_gain(family, all, extents[i]) : 2 * CUT_LOSS;
        if (gain <= most)
            continue;
        best = extents[i];
        most = gain * CUT_BETTER;
    }
    return best;
}

/* ---- small sizes ------------------------------------------------------------------------------------- */

/* Whether a range and the one below it, of which there are sketches, are served by one plan, whose sketch
 * then takes the place of both. What loses by the range's own schedules, whose guards end just above, is not
 * tried.
 */
static bool cut_widens(Family *family, const FamilyRange *range, const FamilyRange *below,
                       sinter_plan **sketch, sinter_plan *own) {
    double low = cut_seconds(family, own, range->extent, below->upper),
           high = cut_seconds(family, *sketch, range->extent, range->upper);
    sinter_plan *wide = NULL;
    FamilyRange both = *range;
    both.lower = below->lower;
    if (cut_seconds(family, *sketch, range->extent, below->upper) <= CUT_LOSS * low)
        wide = cut_sketch(family, &both);
    bool widens = wide && cut_seconds(family, wide, range->extent, below->upper) <= CUT_LOSS * low &&
                  cut_seconds(family, wide, range->extent, range->upper) <= CUT_LOSS * high;
    cut_drop(family, widens ? own : wide);
    cut_drop(family, *sketch);
    *sketch = widens ? wide : own;
    return widens;
}

/* Whether the kernels for all sizes lose little at both ends of a range. */
static bool cut_is_served(Family *family, const sinter_plan *all, const FamilyRange *range,
                          const sinter_plan *sketch) {
    return cut_seconds(family, all, range->extent, range->upper) <=
               CUT_LOSS * cut_seconds(family, sketch, range->extent, range->upper) &&
           cut_seconds(family, all, range->extent, range->lower) <=
               CUT_LOSS * cut_seconds(family, sketch, range->extent, range->lower);
}

/* Sizes up to `upper`, and above those before, are those of a scope (NULL: of the one that has the facts
 * alone). */
static void cut_give(Family *family, int64_t upper, PlanScope *scope) {
    sinter_plan *plan = family->plan;
    int variant = -1;
    for (int i = 0; i < family->n_scopes; i++)
        variant = family->scopes[i] == scope ? i : variant;
    if (scope && variant < 0) {
        variant = family->n_scopes++;
        family->scopes[variant] = scope;
    }
    if (plan->n_sizes && plan->sizes[plan->n_sizes - 1].variant == variant)
        plan->n_sizes--;
    plan->sizes[plan->n_sizes++] = (PlanSizes){upper, variant};
}

/* Sizes from `least` to `most`, in ranges. */
static void cut_small(Family *family, const sinter_plan *all, const Dim *extent, int64_t least,
                      int64_t most) {
    FamilyRange ranges[CUT_RANGES], kept[CUT_RANGES];
    sinter_plan *sketches[CUT_RANGES];
    int n = 0, n_kept = 0;
    int64_t lower = least;
    for (int i = 0; i < CUT_COUNT(cut_small_ends) && lower <= most; i++) {
        int64_t end = cut_small_ends[i] < most ? cut_small_ends[i] : most;
        if (end < lower)
            continue;
        ranges[n++] = (FamilyRange){extent, lower, end, .hint = end};
        lower = end + 1;
    }
    if (!n)
        return;
    cut_sketches(family, ranges, n, sketches);
    FamilyRange range = ranges[n - 1];
    sinter_plan *sketch = sketches[n - 1];
    while (--n > 0) {
        const FamilyRange *below = &ranges[n - 1];
        if (cut_widens(family, &range, below, &sketch, sketches[n - 1])) {
            range.lower = below->lower;
        } else {
            kept[n_kept++] = range;
            range = *below;
        }
    }
    bool is_served = cut_is_served(family, all, &range, sketch);
    cut_drop(family, sketch);
    cut_give(family, range.upper, is_served ? NULL : family_scope(family, &range));
    while (n_kept-- > 0)
        cut_give(family, kept[n_kept].upper, family_scope(family, &kept[n_kept]));
}

/* ---- large sizes ------------------------------------------------------------------------------------- */

typedef struct CutLarge {
    int n; /* sizes */
    int64_t size[CUT_POINTS];
    int n_choices; /* schedules; the last is the plan's for no size in particular */
    int64_t hint[CUT_CHOICES];
    double seconds[CUT_CHOICES][CUT_POINTS];
    double best[CUT_POINTS];
    int taken[CUT_PICKS], n_taken;
} CutLarge;

static void cut_list(CutLarge *large, int64_t least, int64_t most) {
    for (int i = 0; i < CUT_POINTS; i++) {
        int64_t size = cut_large_ends[i].size < most ? cut_large_ends[i].size : most;
        if (size < least)
            continue;
        large->size[large->n++] = size;
        if (cut_large_ends[i].is_choice || size == most)
            large->hint[large->n_choices++] = size;
        if (size == most)
            break;
    }
    large->hint[large->n_choices++] = 0;
}

/* What each size would take by the schedules of each choice, all of one cut into kernels. False where nobody
 * knows. */
static bool cut_measure(Family *family, const sinter_plan *all, const FamilyRange *range, CutLarge *large) {
    sinter_plan *sketch = cut_sketch(family, range);
    bool ok = sketch != NULL;
    for (int i = 0; i < large->n_choices && ok; i++) {
        DimBindings point = family_point(family, range->extent, large->hint[i]);
        ok = !large->hint[i] || cut_choose(sketch, &point);
        for (int at = 0; at < large->n && ok; at++) {
            double seconds =
                cut_seconds(family, large->hint[i] ? sketch : all, range->extent, large->size[at]);
            large->seconds[i][at] = seconds;
            if (i == 0 || seconds < large->best[at])
                large->best[at] = seconds;
            ok = seconds > 0;
        }
    }
    cut_drop(family, sketch);
    return ok;
}

/* The quickest of those taken at a size; the plan's where the difference is none. */
static int cut_quickest(const CutLarge *large, int at) {
    int best = large->n_choices - 1;
    for (int i = 0; i < large->n_taken; i++)
        if (large->seconds[large->taken[i]][at] < 0.99 * large->seconds[best][at])
            best = large->taken[i];
    return best;
}

/* Seconds that a choice would spare, in units of what each size takes at best. */
static double cut_spares(const CutLarge *large, int choice) {
    double sum = 0;
    for (int at = 0; at < large->n; at++) {
        double now = large->seconds[cut_quickest(large, at)][at], then = large->seconds[choice][at];
        sum += then < now ? (now - then) / large->best[at] : 0;
    }
    return sum;
}

/* Takes the choice that spares most, as long as one spares enough. */
static void cut_pick(CutLarge *large) {
    while (large->n_taken < CUT_PICKS) {
        int best = 0;
        for (int i = 1; i < large->n_choices; i++)
            best = cut_spares(large, i) > cut_spares(large, best) ? i : best;
        if (cut_spares(large, best) < CUT_GAIN * large->n)
            break;
        large->taken[large->n_taken++] = best;
    }
}

/* Sizes from `least` to `most`, which may be INT64_MAX, by a few schedules. */
static void cut_large(Family *family, const sinter_plan *all, const Dim *extent, int64_t least,
                      int64_t most) {
    FamilyRange range = {extent, least, most, .hint = 0};
    CutLarge *large = ARENA_NEW(family->plan->arena, CutLarge);
    PlanScope *scopes[CUT_CHOICES] = {NULL};
    cut_list(large, least, most);
    if (cut_measure(family, all, &range, large)) {
        cut_pick(large);
        for (int i = 0; i < large->n_taken; i++) {
            range.hint = large->hint[large->taken[i]];
            scopes[large->taken[i]] = family_scope(family, &range);
        }
        for (int at = 0; at < large->n; at++)
            cut_give(family, large->size[at], scopes[cut_quickest(large, at)]);
    }
    if (!large->n || large->size[large->n - 1] < most)
        cut_give(family, most, NULL);
}

/* Adds to a scope's text the sizes that are its own, where its guards let others in as well. */
static void cut_tell(Family *family, int variant) {
    const sinter_plan *plan = family->plan;
    PlanScope *scope = family->scopes[variant];
    Text text = text_new(plan->arena);
    const char *between = "; chosen for ";
    int64_t lower = scope->guards.at[0].lower;
    text_add(&text, "%s", scope->text);
    for (int i = 0; i < plan->n_sizes; i++) {
        int64_t upper = plan->sizes[i].upper;
        if (plan->sizes[i].variant == variant) {
            text_add(&text, "%s%lld to %lld", between, (long long)lower, (long long)upper);
            between = ", ";
        }
        lower = upper < INT64_MAX ? upper + 1 : upper;
    }
    scope->text = text.at;
}

/* ---- rows that are reduced --------------------------------------------------------------------------- */

/* The length of the rows that a kernel of their own reduces; NULL: there is none, or it is known. */
static const Dim *cut_row(Family *family, const sinter_plan *all) {
    const sinter_plan *plan = family->plan;
    const Dim *row = NULL, *last;
    for (size_t i = 0; i < all->partition->regions.n; i++) {
        const Region *region = all->partition->regions.at[i];
        if (region->kind == TEMPLATE_ROWS && region->n_reduced == 1 && !row)
            row = dim_copy(plan->graph->dims, all->graph->dims, region->dims[region->rank - 1], NULL);
    }
    return row && family_is_extent(row, &last) && !plan->hint.known[last->symbol] ? row : NULL;
}

/* Whether two sketches have the same kernels with the same schedules. */
static bool cut_agree(const sinter_plan *a, const sinter_plan *b) {
    bool same = a && b && a->partition->regions.n == b->partition->regions.n;
    for (size_t i = 0; same && i < a->partition->regions.n; i++)
        same =
            schedule_equals(&a->partition->regions.at[i]->schedule, &b->partition->regions.at[i]->schedule);
    return same;
}

/* Rows of known length are kept in registers or in shared memory instead of being read again: ranges by how
 * much they take at most. */
static void cut_rows(Family *family, const sinter_plan *all, const Dim *row, int64_t least, int64_t most) {
    static const int64_t ends[] = {1024, 4096, 16384, 32768, 131072};
    _Static_assert(CUT_COUNT(ends) <= CUT_PICKS, "a plan has room for all of its variants");
    for (int i = 0; i < CUT_COUNT(ends) && least < most; i++) {
        if (ends[i] < least)
            continue;
        FamilyRange range = {row, least, ends[i] < most ? ends[i] : most, .hint = ends[i]};
        const sinter_plan *own = cut_sketch(family, &range);
        cut_give(family, range.upper, own && !cut_agree(own, all) ? family_scope(family, &range) : NULL);
        cut_drop(family, own);
        least = range.upper + 1;
    }
}

static void cut_products(Family *family, const sinter_plan *all, const Dim *extent, int64_t least,
                         int64_t most) {
    if (least <= CUT_SMALL)
        cut_small(family, all, extent, least, most < CUT_SMALL ? most : CUT_SMALL);
    int n_small = family->n_scopes;
    least = least > CUT_SMALL ? least : CUT_SMALL + 1;
    if (most > CUT_SMALL && extent == cut_row(family, all)) {
        cut_rows(family, all, extent, least, most);
    } else if (most > CUT_SMALL) {
        cut_large(family, all, extent, least, most);
        for (int i = n_small; i < family->n_scopes; i++)
            cut_tell(family, i);
    }
}

void family_cut(Family *family) {
    sinter_plan *plan = family->plan;
    plan->sizes = ARENA_ARRAY(plan->arena, PlanSizes, CUT_RANGES + CUT_POINTS + 1);
    const sinter_plan *all = cut_sketch(family, &(FamilyRange){0});
    const Dim *extent = all ? cut_extent(family, all) : NULL;
    plan->sized = all && !extent ? cut_row(family, all) : extent;
    if (plan->sized) {
        int64_t least = dim_lower(plan->graph->dims, plan->sized),
                unit = family_multiple(family, plan->sized), most = dim_upper(plan->graph->dims, plan->sized);
        least = least > unit ? least : unit;
        if (extent)
            cut_products(family, all, extent, least, most);
        else
            cut_rows(family, all, plan->sized, least, most);
    }
    cut_drop(family, all);
}
