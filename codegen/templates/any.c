/* Any region: a thread computes one element of each output, alone. Slow, and always there: what a template
 * refuses runs like this.
 *
 * Outputs need no common space. Of elements of less than a byte, a thread computes the two that share a byte.
 */
#include "codegen/lower.h"
#include "codegen/template.h"

enum { ANY_THREADS = 256 };

static bool any_accepts(const Graph *graph, const Region *region, const Schedule *schedule,
                        const Target *target, const char **why) {
    (void)graph, (void)region, (void)schedule, (void)target, (void)why;
    return true;
}

static int any_schedules(const Graph *graph, const Region *region, const Target *target,
                         const DimBindings *hint, Schedule *out, int room) {
    (void)graph, (void)region, (void)target, (void)hint, (void)room;
    out[0] = (Schedule){.threads = ANY_THREADS, .vector = 1, .unroll = 1};
    return 1;
}

/* Elements of an output that one thread computes. */
static int any_width(const Value *output) {
    return dtype_bits(output->dtype) < 8 ? 8 / dtype_bits(output->dtype) : 1;
}

static const Dim *any_threads(const Graph *graph, const Value *output) {
    return dim_ceil_div(graph->dims, value_count(graph, output), dim_const(graph->dims, any_width(output)));
}

static void any_output(Builder *b, Lower *lower, const Value *output, const KExpr *thread) {
    const Graph *graph = b->kernel->graph;
    KType type = lower_index_type(lower);
    int width = any_width(output);
    const KVar *element = k_array(b, "element", ktype_of(output->dtype), width, NULL);
    const KExpr *first = k_mul(b, thread, k_int(b, type, width)),
                *count = k_dim(b, value_count(graph, output), type);
    for (int i = 0; i < width; i++) {
        const KExpr *coords[RANK_MAX], *linear = k_add(b, first, k_int(b, type, i));
        lower_delinearize(b, linear, output->rank, output->dims, coords);
        k_set_elem(b, element, k_i32(b, i),
                   lower_at(lower, output, coords, width > 1 ? k_lt(b, linear, count) : NULL));
    }
    if (width > 1) {
        k_store(b, k_global(b, output, true), first, element, NULL, width, NULL, CACHE_DEFAULT);
        return;
    }
    const KExpr *coords[RANK_MAX];
    lower_delinearize(b, first, output->rank, output->dims, coords);
    lower_store_at(lower, output, output, coords, k_elem_at(b, element, 0));
}

static void any_build(Builder *b, const Region *region) {
    Kernel *kernel = b->kernel;
    DimTable *table = kernel->graph->dims;
    Lower *lower = lower_new(b, region);
    lower_declare_params(lower);
    KType type = lower_index_type(lower);
    const Dim *threads = dim_const(table, 1);
    for (size_t i = 0; i < region->outputs.n; i++)
        threads = dim_max(table, threads, any_threads(kernel->graph, region->outputs.at[i]));
    kernel->threads = ANY_THREADS;
    kernel->grid[0] = dim_ceil_div(table, threads, dim_const(table, ANY_THREADS));
    kernel->summary = "any: a thread for each element, reductions and products as loops";
    const KExpr *block = k_convert(b, k_special(b, SPECIAL_CTA_X), type);
    const KExpr *thread =
        k_add(b, k_mul(b, block, k_int(b, type, ANY_THREADS)), k_convert(b, k_special(b, SPECIAL_TID), type));
    thread = k_let_expr(b, "i", thread);
    for (size_t i = 0; i < region->outputs.n; i++) {
        k_if_begin(b, k_lt(b, thread, k_dim(b, any_threads(kernel->graph, region->outputs.at[i]), type)));
        any_output(b, lower, region->outputs.at[i], thread);
        k_end(b);
    }
}

const Template template_any = {
    .name = "any", .accepts = any_accepts, .schedules = any_schedules, .build = any_build};
