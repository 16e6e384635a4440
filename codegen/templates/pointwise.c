/* Pointwise: every thread computes `unroll` runs of `vector` elements, a block's width apart; all loads
 * first.
 *
 *     first = blockIdx.x * threads * unroll + threadIdx.x
 *     for u in unroll:  x_v[u] = x[run first + u * threads]
 *     for u in unroll:  y_v = f(x_v[u]);  y[run first + u * threads] = y_v
 *
 * Runs are numbered in row-major order of the space; the grid covers them exactly once. Where rows are of odd
 * length a run may begin in one and end in the next. */
#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/template.h"
#include "ir/base/checked.h"

enum {
    POINTWISE_THREADS = 256,
    POINTWISE_WORDS = 16, /* registers of loads that a thread has in flight */
    POINTWISE_UNROLL_MAX = 8,
    POINTWISE_UNROLL_FLAT = 2,  /* where something is read by the element: four at once were 2 % slower */
    POINTWISE_STORES = 4,       /* elements that stores take at least, where they can and loads cannot */
    POINTWISE_BLOCKS_PER_SM = 4 /* below this, blocks are worth more than unrolling */
};

/* Whether a run of this width may go on from one row to the next. */
static bool pointwise_is_flat(const Graph *graph, const Region *region, int vector) {
    return region->rank > 1 && dim_divisor(graph->dims, region->dims[region->rank - 1]) % vector != 0;
}

static const Dim *pointwise_count(const Graph *graph, const Region *region) {
    return region_extent(graph, region, 0, region->rank);
}

static bool pointwise_takes_vector(const Graph *graph, const Region *region, int vector, const char **why) {
    enum { VECTOR_MAX = 16 };
    if (is_power_of_two(vector) && vector <= VECTOR_MAX &&
        dim_divisor(graph->dims, pointwise_count(graph, region)) % vector == 0)
        return true;
    *why = "vector must be a power of two up to 16 that divides the number of elements";
    return false;
}

static bool pointwise_accepts(const Graph *graph, const Region *region, const Schedule *schedule,
                              const Target *target, const char **why) {
    (void)target;
    int vector = schedule->vector;
    if (schedule->threads < 32 || schedule->threads > 1024 || schedule->threads % 32 != 0) {
        *why = "threads must be a multiple of 32 up to 1024";
        return false;
    }
    if (!pointwise_takes_vector(graph, region, vector, why))
        return false;
    if (schedule->unroll < 1 || schedule->unroll > 16) {
        *why = "unroll must lie between 1 and 16";
        return false;
    }
    for (size_t i = 0; i < region->outputs.n; i++)
        if (!lower_can_store(graph, region, region->outputs.at[i], region->rank - 1, vector)) {
            *why = "an output of 4-bit elements needs rows of even length";
            return false;
        }
    return true;
}

/* Whether all runs of a thread have the same column, because rows divide the distance of the runs. */
static bool pointwise_repeats(const Region *region, const Schedule *schedule) {
    const Dim *inner = region->rank > 0 ? region->dims[region->rank - 1] : NULL;
    int64_t distance = (int64_t)schedule->threads * schedule->vector;
    return dim_is_const(inner) && inner->value > 1 && distance % inner->value == 0 &&
           inner->value % schedule->vector == 0;
}

/* Registers that the loads of so many runs take, packed as they were read. What repeats from run to run of a
 * thread, as a bias does where its row divides the distance of the runs, is held once. */
static int64_t pointwise_words(const Graph *graph, const Region *region, const Schedule *schedule,
                               int unroll) {
    int64_t words = 0;
    bool repeats = pointwise_repeats(region, schedule);
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *input = region->inputs.at[i];
        if (input->rank == 0 || dim_is(input->dims[input->rank - 1], 1))
            continue;
        bool is_row = input->dims[input->rank - 1] == value_count(graph, input);
        words += (int64_t)schedule->vector * dtype_bits(input->dtype) / 32 * (is_row && repeats ? 0 : unroll);
    }
    return words;
}

/* Whether a value's elements that are neighbours in its last axis are computed, element by element, of
 * neighbours in memory, but where they are filled in at the ends of rows, or rows of several are one behind
 * the other. */
static bool pointwise_is_copy(const Graph *graph, const Region *region, const Value *value, int depth) {
    enum { DEPTH = 8 };
    bool is_rows = value->op == OP_concat && value->attrs[0].i != value->rank - 1;
    bool is_computed = op_is_scalar(value->op) || value->op == OP_cast;
    int n = value->op == OP_pad ? 1 : is_rows || is_computed ? value->n_in : 0;
    if (value->rank == 0 || value->op == OP_constant || region_reads(region, value))
        return true;
    if (depth == DEPTH || n == 0)
        return lower_read_axis(graph, region, value) == region->rank - 1;
    for (int i = 0; i < n; i++)
        if (!pointwise_is_copy(graph, region, value->in[i], depth + 1))
            return false;
    return true;
}

/* Of so many elements of a run, those that a thread's loads suit: 16 bytes of each input, so that a warp's
 * lie side by side (f32 to bf16, 67 million: 98.6 us by 8 elements, 97.4 by 4); of elements that are read one
 * by one, of windows or pairs, two, so that neighbours in a warp read the same lines (the largest of 2 x
 * 2: 73.8 us by 8, 42.5 by 2; a rotation of neighbours: 55.5, 45.9). */
static int pointwise_loaded(const Graph *graph, const Region *region, int vector) {
    enum { LOAD_BITS = 128, APART = 2 };
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *input = region->inputs.at[i];
        const Dim *last = input->rank > 0 ? input->dims[input->rank - 1] : NULL;
        bool is_table = last && !dim_is(last, 1) && value_count(graph, input) != last;
        while (vector > 1 && is_table && vector * dtype_bits(input->dtype) > LOAD_BITS)
            vector /= 2;
    }
    return vector > APART && lower_reads_apart(graph, region) ? APART : vector;
}

/* Elements of a run that goes on in the next row, where that makes it longer than `vector`. */
static int pointwise_flat_vector(const Graph *graph, const Region *region, int vector) {
    int64_t divisor = dim_divisor(graph->dims, pointwise_count(graph, region));
    int flat = lower_unaligned_width(graph, region, RUN_FLAT);
    while (flat > vector && divisor % flat != 0)
        flat /= 2;
    return flat > vector ? flat : vector;
}

/* Elements of a run: as many as every input and output can move at once; but where inputs begin anywhere
 * (rows that are copied to aligned ones), the stores at least go four at a time (H200, 4097x1025: 10.5 us
 * for 16.6). */
static int pointwise_vector(const Graph *graph, const Region *region) {
    enum { STORE_BITS = 128 };
    int last = region->rank - 1,
        vector = pointwise_loaded(
            graph, region, pointwise_flat_vector(graph, region, lower_stored_width(graph, region, last)));
    bool is_line = vector < POINTWISE_STORES && region->rank > 0;
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        is_line = is_line && pointwise_is_copy(graph, region, lower_root(region, output), 0) &&
                  lower_write_axis(graph, region, output) == last &&
                  POINTWISE_STORES * dtype_bits(output->dtype) <= STORE_BITS;
    }
    Schedule wider = {.threads = POINTWISE_THREADS, .vector = POINTWISE_STORES, .unroll = 1};
    const char *why;
    return is_line && pointwise_accepts(graph, region, &wider, NULL, &why) ? POINTWISE_STORES : vector;
}

static int pointwise_schedules(const Graph *graph, const Region *region, const Target *target,
                               const DimBindings *hint, Schedule *out, int room) {
    Schedule schedule = {.threads = POINTWISE_THREADS};
    schedule.vector = pointwise_vector(graph, region);
    int64_t runs = cost_space(graph, region, 0, region->rank, hint) / schedule.vector;
    bool is_flat = schedule.vector > lower_stored_width(graph, region, region->rank - 1);
    int limit = is_flat ? POINTWISE_UNROLL_FLAT : POINTWISE_UNROLL_MAX;
    /* loads under conditions: 105.3 us with four at once, 99.8 */
    for (size_t i = 0; i < region->values.n && !is_flat; i++)
        limit = region->values.at[i]->op == OP_pad ? 1 : limit;
    while (limit > 1 && pointwise_words(graph, region, &schedule, limit) > POINTWISE_WORDS)
        limit /= 2;
    int64_t enough = (int64_t)target->sm_count * POINTWISE_BLOCKS_PER_SM;
    schedule.unroll = cost_unroll(runs, schedule.threads, enough, limit);
    while (schedule.threads > 64 && schedule.unroll == 1 && runs / schedule.threads < target->sm_count)
        schedule.threads /= 2;
    int n = 0;
    out[n++] = schedule;
    if (n < room && schedule.unroll > 1) {
        out[n] = schedule;
        out[n++].unroll /= 2;
    }
    if (n < room && schedule.unroll < POINTWISE_UNROLL_MAX) {
        out[n] = schedule;
        out[n++].unroll *= 2;
    }
    if (n < room) {
        out[n] = schedule;
        out[n++].threads = schedule.threads == 512 ? 256 : 512;
    }
    Schedule narrow = schedule; /* where many results of much work do not fit the registers */
    const char *why;
    narrow.unroll = 1;
    for (narrow.vector /= 2; n < room && narrow.vector >= 1; narrow.vector /= 2)
        if (pointwise_accepts(graph, region, &narrow, target, &why))
            out[n++] = narrow;
    return n;
}

/* Run number `number`, counted in runs. */
static void pointwise_run_at(Builder *b, const Region *region, const KExpr *number, const KExpr *runs,
                             bool exact, Run *run) {
    const KExpr *column = run->repeats ? run->coords[region->rank - 1] : NULL;
    const KExpr *at = k_mul(b, number, k_int(b, number->type, run->width));
    run->guard = exact ? NULL : k_lt(b, number, runs);
    if (run->start == RUN_FLAT) {
        run->inner = at;
        return;
    }
    run->outer = at;
    lower_delinearize(b, at, region->rank, region->dims, run->coords);
    if (column)
        run->coords[region->rank - 1] = column;
}

static void pointwise_build(Builder *b, const Region *region) {
    const Schedule *schedule = &region->schedule;
    const Graph *graph = b->kernel->graph;
    DimTable *table = graph->dims;
    int n = (int)region->outputs.n, unroll = schedule->unroll;
    int64_t per_block = (int64_t)schedule->threads * unroll;
    Kernel *kernel = b->kernel;
    kernel->threads = schedule->threads;
    const Dim *count = pointwise_count(graph, region);
    const Dim *runs_dim = dim_div(table, count, dim_const(table, schedule->vector));
    kernel->grid[0] = dim_ceil_div(table, runs_dim, dim_const(table, per_block));
    kernel->summary = text_format(b->arena, "pointwise: %d threads, %d x %d elements each", schedule->threads,
                                  unroll, schedule->vector);

    Lower *lower = lower_new(b, region);
    lower_declare_params(lower);
    KType type = lower_index_type(lower);
    const KExpr *runs = k_dim(b, runs_dim, type), *threads = k_int(b, type, schedule->threads);
    bool exact = dim_divisor(table, runs_dim) % per_block == 0;
    const KExpr *block = k_convert(b, k_special(b, SPECIAL_CTA_X), type);
    const KExpr *first =
        k_add(b, k_mul(b, block, k_int(b, type, per_block)), k_convert(b, k_special(b, SPECIAL_TID), type));
    first = k_let_expr(b, "first", first);

    Run run = {.rank = region->rank, .axis = region->rank - 1, .width = schedule->vector, .outer = first};
    run.split = region->rank;
    if (pointwise_is_flat(graph, region, run.width)) {
        run.start = RUN_FLAT;
        run.split = 0;
        run.outer = k_int(b, type, 0);
        run.inner = first;
    }
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    for (int i = 0; i < n; i++)
        targets[i] = (LowerTarget){.value = region->outputs.at[i], .stored = true};
    run.repeats = unroll > 1 && pointwise_repeats(region, schedule);
    if (run.repeats) {
        const KExpr *at = k_mul(b, first, k_int(b, type, run.width));
        run.coords[run.axis] = k_let_expr(b, "col", k_mod(b, at, k_dim(b, region->dims[run.axis], type)));
    }
    lower_batch_begin(lower, &run, targets, n, unroll);
    if (run.repeats)
        lower_batch_load_shared(lower, &run);
    const KExpr *slot = k_i32(b, 0), *end = k_i32(b, unroll), *number = first;
    if (unroll > 1) {
        slot = k_for_begin(b, "u", k_i32(b, 0), end, 1, UNROLL_FULL);
        number = k_add(b, first, k_mul(b, k_convert(b, slot, type), threads));
    }
    number = k_let_expr(b, "i", number);
    pointwise_run_at(b, region, number, runs, exact, &run);
    lower_batch_load(lower, &run, slot);
    if (unroll > 1) {
        k_end(b);
        slot = k_for_begin(b, "u", k_i32(b, 0), end, 1, UNROLL_FULL);
        number = k_let_expr(b, "i", k_add(b, first, k_mul(b, k_convert(b, slot, type), threads)));
        pointwise_run_at(b, region, number, runs, exact, &run);
    }
    for (int i = 0; i < n; i++) {
        const Value *output = region->outputs.at[i];
        const char *name = text_format(b->arena, "%s_v", lower_value_name(lower, output));
        targets[i].dst = k_array(b, name, ktype_of(output->dtype), run.width, NULL);
    }
    lower_batch_run(lower, &run, slot, targets, n);
    for (int i = 0; i < n; i++)
        lower_store(lower, &run, region->outputs.at[i], targets[i].dst, NULL);
    if (unroll > 1)
        k_end(b);
    lower_batch_end(lower);
}

const Template template_pointwise = {.name = "pointwise",
                                     .accepts = pointwise_accepts,
                                     .schedules = pointwise_schedules,
                                     .build = pointwise_build};
