/* Kernels of their own for some sizes of dims that are not known before launch.
 *
 * No schedule serves one row and four thousand, and few kernels of rows that may begin anywhere are as quick
 * as those of rows that begin at 16 bytes. So a plan with symbolic dims has variants, plans of the same graph
 * under guards, which fusion, schedules and index arithmetic rely on as if the graph's `where` had said them:
 *
 *     M == 1, K % 8 == 0 | 2 <= M <= 16, K % 8 == 0 | ... | K % 8 == 0 | the plan: all that is left
 *
 * All variants have what a caller nearly always keeps to: no dim is 0, and lines of memory are whole units of
 * 16 bytes. The variant before the plan itself has that alone. */
#include "runtime/family.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- facts ------------------------------------------------------------------------------------------- */

static DimGuard *family_fact(Family *family, const Dim *d) {
    for (size_t i = 0; i < family->facts.n; i++)
        if (family->facts.at[i].dim == d)
            return &family->facts.at[i];
    vec_push(family->plan->arena, &family->facts, ((DimGuard){d, INT64_MIN, INT64_MAX, 1}));
    return &family->facts.at[family->facts.n - 1];
}

/* Lines of a packed tensor are whole units of 16 bytes. */
static void family_align(Family *family, const Value *value, const Dim *const *strides) {
    enum { UNIT_BITS = 128 };
    int unit = UNIT_BITS / dtype_bits(value->dtype);
    const Dim *line = value->rank >= 2 && !strides ? value->dims[value->rank - 1] : NULL;
    DimTable *dims = family->plan->graph->dims;
    if (!line || dim_is_const(line) || dim_known_multiple(dims, line, dim_const(dims, unit)))
        return;
    DimGuard *fact = family_fact(family, line);
    fact->multiple = fact->multiple > unit ? fact->multiple : unit; /* both are powers of two */
}

static void family_facts(Family *family) {
    const Graph *graph = family->plan->graph;
    for (size_t i = 0; i < graph->inputs.n; i++)
        family_align(family, graph->inputs.at[i], (const Dim *const *)graph->inputs.at[i]->strides);
    for (size_t i = 0; i < graph->outputs.n; i++)
        family_align(family, graph->outputs.at[i].value, (const Dim *const *)graph->outputs.at[i].strides);
    for (int i = 0; i < family->plan->n_free_dims; i++) {
        const Dim *symbol = dim_symbol_at(graph->dims, family->plan->free_dims[i]);
        if (dim_lower(graph->dims, symbol) < 1)
            family_fact(family, symbol)->lower = 1;
    }
}

int64_t family_multiple(const Family *family, const Dim *extent) {
    int64_t multiple = dim_divisor(family->plan->graph->dims, extent);
    for (size_t i = 0; i < family->facts.n; i++)
        if (family->facts.at[i].dim == extent && family->facts.at[i].multiple > multiple)
            multiple = family->facts.at[i].multiple;
    return multiple > 1 ? multiple : 1;
}

/* ---- sizes ------------------------------------------------------------------------------------------- */

bool family_is_extent(const Dim *d, const Dim **last) {
    if (d->kind == DIM_SYMBOL) {
        *last = d;
        return true;
    }
    return d->kind == DIM_MUL && family_is_extent(d->a, last) && family_is_extent(d->b, last);
}

/* Sets the symbols of an extent so that it has this size. */
static void family_set(const Dim *d, const Dim *last, int64_t size, DimBindings *out) {
    if (d->kind == DIM_SYMBOL) {
        out->value[d->symbol] = d == last ? size : 1;
        out->known[d->symbol] = true;
    } else {
        family_set(d->a, last, size, out);
        family_set(d->b, last, size, out);
    }
}

static DimBindings family_copy(Arena *arena, const DimBindings *from) {
    DimBindings copy = {.n = from->n,
                        .value = ARENA_ARRAY(arena, int64_t, (size_t)from->n + 1),
                        .known = ARENA_ARRAY(arena, bool, (size_t)from->n + 1)};
    memcpy(copy.value, from->value, (size_t)from->n * sizeof *copy.value);
    memcpy(copy.known, from->known, (size_t)from->n * sizeof *copy.known);
    return copy;
}

/* What a matrix of a batch is one of, where nobody says: few, since it is many matrices that are large
 * already. */
static void family_usual(Family *family) {
    enum { BATCH = 16 };
    const sinter_plan *plan = family->plan;
    family->usual = family_copy(plan->arena, &plan->hint);
    for (size_t i = 0; i < plan->partition->regions.n; i++) {
        const Region *region = plan->partition->regions.at[i];
        for (int axis = 0; region->cores.n && axis + 2 < region->rank; axis++) {
            const Dim *d = region->dims[axis];
            if (d->kind == DIM_SYMBOL && !family->usual.known[d->symbol])
                family_set(d, d, BATCH, &family->usual);
        }
    }
}

DimBindings family_point(const Family *family, const Dim *extent, int64_t size) {
    DimBindings point = family_copy(family->plan->arena, &family->usual);
    const Dim *last;
    if (extent && size && family_is_extent(extent, &last))
        family_set(extent, last, size, &point);
    return point;
}

PlanScope *family_scope(Family *family, const FamilyRange *range) {
    Arena *arena = family->plan->arena;
    const DimTable *dims = family->plan->graph->dims;
    PlanScope *scope = ARENA_NEW(arena, PlanScope);
    DimGuard *guards = ARENA_ARRAY(arena, DimGuard, family->facts.n + 1);
    int n = 0;
    if (range->extent)
        guards[n++] = (DimGuard){range->extent, range->lower, range->upper, 1};
    for (size_t i = 0; i < family->facts.n; i++) {
        const DimGuard *fact = &family->facts.at[i];
        if (range->extent && fact->dim == range->extent)
            guards[0].multiple = fact->multiple;
        else
            guards[n++] = *fact;
    }
    scope->guards = (DimGuards){dims, guards, n};
    Text text = text_new(arena);
    dim_guards_print(&text, &scope->guards);
    scope->text = text.at;
    DimBindings point = family_point(family, range->extent, range->hint);
    sinter_dim *hints = ARENA_ARRAY(arena, sinter_dim, (size_t)point.n + 1);
    for (int i = 0; i < point.n; i++)
        if (point.known[i])
            hints[scope->n_hints++] = (sinter_dim){dim_symbol_name(dims, i), point.value[i]};
    scope->hints = hints;
    return scope;
}

/* ---- making them ------------------------------------------------------------------------------------- */

static void *family_work(void *context) {
    Family *family = context;
    for (int i; (i = atomic_fetch_add(&family->next, 1)) < family->n_scopes;)
        family->status[i] = plan_create(family->plan->context, family->graph, &family->options, NULL,
                                        family->scopes[i], &family->made[i]);
    return NULL;
}

void family_run(void *(*work)(void *context), void *context, int n) {
    pthread_t threads[FAMILY_SCOPES];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int begun = 0;
    while (begun + 1 < n && begun + 1 < processors && begun < FAMILY_SCOPES &&
           !pthread_create(&threads[begun], NULL, work, context))
        begun++;
    work(context);
    while (begun-- > 0)
        pthread_join(threads[begun], NULL);
}

/* Whether a scope's kernels are those of the plan itself. */
static bool family_is_needless(Family *family, const PlanScope *scope) {
    sinter_plan_options options = family->options;
    options.stage = SINTER_STAGE_KERNELS;
    const sinter_plan *whole = family->plan;
    sinter_plan *plan;
    bool same = !plan_create(whole->context, family->graph, &options, NULL, scope, &plan) &&
                plan->n_kernels == whole->n_kernels;
    for (int i = 0; same && i < whole->n_kernels; i++)
        same = strcmp(plan->kernels[i].ir, whole->kernels[i].ir) == 0;
    sinter_plan_destroy(plan);
    return same;
}

/* Takes what was made into the plan; a scope that failed is left out, with a warning, and its sizes are
 * nobody's. */
static void family_take(Family *family, int i) {
    sinter_plan *plan = family->plan, *variant = family->made[i];
    const sinter_diagnostic *why = variant ? sinter_plan_diagnostic(variant, 0) : NULL;
    int position = family->status[i] ? -1 : plan->n_variants;
    for (int k = 0; k < plan->n_sizes; k++)
        if (plan->sizes[k].variant == i)
            plan->sizes[k].variant = position;
    if (i == family->plain)
        plan->plain = position;
    if (position < 0) {
        diag_warning(&plan->diags, DIAG_SCHEDULE, (Span){0}, "there are no kernels of their own for %s: %s",
                     family->scopes[i]->text, why ? why->message : sinter_status_text(family->status[i]));
        return;
    }
    plan->variants[plan->n_variants++] = variant;
    family->made[i] = NULL;
    plan->times.passes_ms += variant->times.passes_ms;
    plan->times.codegen_ms += variant->times.codegen_ms;
    plan->times.backend_ms += variant->times.backend_ms;
    plan->times.ptxas_ms += variant->times.ptxas_ms;
    plan->times.load_ms += variant->times.load_ms;
}

static void family_release(void *context) {
    Family *family = context;
    for (int i = 0; i < FAMILY_SKETCHES; i++)
        sinter_plan_destroy(family->sketches[i]);
    for (int i = 0; i < FAMILY_SCOPES; i++)
        sinter_plan_destroy(family->made[i]);
}

void plan_make_family(sinter_plan *plan, const sinter_graph *graph, const sinter_plan_options *options) {
    Family *family = ARENA_NEW(plan->arena, Family);
    *family = (Family){.plan = plan, .graph = graph, .options = *options, .plain = -1};
    family->options.dump = NULL;
    arena_defer(plan->arena, family_release, family);
    family_facts(family);
    family_usual(family);
    if (plan->n_kernels <= FAMILY_KERNELS)
        family_cut(family);
    PlanScope *plain = family_scope(family, &(FamilyRange){0});
    if (!family_is_needless(family, plain)) {
        family->plain = family->n_scopes++;
        family->scopes[family->plain] = plain;
    }
    plan->plain = -1;
    plan->variants = ARENA_ARRAY(plan->arena, sinter_plan *, (size_t)family->n_scopes + 1);
    family_run(family_work, family, family->n_scopes);
    for (int i = 0; i < family->n_scopes; i++)
        family_take(family, i);
}
