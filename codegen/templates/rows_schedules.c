/* Which schedules the rows template takes, and which it would take: where a row stays between passes, and how
 * many threads and blocks share it. */
#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/template.h"
#include "codegen/templates/rows.h"
#include "codegen/templates/rows_plan.h"
#include "codegen/templates/rows_turned.h"
#include "ir/base/checked.h"

enum {
    ROWS_THREADS = 128, /* a block, where rows are short */
    ROWS_RUNS_MAX = 64, /* elements of a row that one thread keeps, of each value */
    ROWS_KEPT_OF_1024 = 32,
    ROWS_TARGET = 32,       /* elements of a row for each thread, where there are rows enough */
    ROWS_STREAM_UNROLL = 8, /* runs in flight, where the row is read again */
    ROWS_MEETING = 32,      /* bytes of a result that blocks read of each other */
    ROWS_BLOCKS_MAX = 8,    /* that share a row: as many as every device has in a cluster */
    ROWS_LONG = 8192,       /* elements of a row from which on shared memory keeps it better than registers */
    ROWS_LONG_THREADS = 512,
    ROWS_LONG_UNROLL = 4, /* where two blocks share it */
    ROWS_MANY = 4,        /* for each multiprocessor */
    ROWS_WIDE = 4,        /* elements of a run with which half of the threads will do for few rows too */
};

const Dim *rows_extent(const Graph *graph, const Region *region) {
    return region_extent(graph, region, region->rank - region->n_reduced, region->rank);
}

int rows_blocks(const Schedule *s) {
    return s->cluster_n > 1 ? s->cluster_n : 1;
}

int64_t rows_kept_length(const Graph *graph, const Region *region, const Schedule *s) {
    int64_t step = (int64_t)s->threads_per_row * rows_blocks(s) * s->vector * s->unroll;
    int64_t longest = dim_upper(graph->dims, rows_extent(graph, region));
    return longest > INT32_MAX ? INT32_MAX : round_up(longest, step) / rows_blocks(s);
}

int64_t rows_smem(const Graph *graph, const Region *region, const Schedule *s) {
    const Value *moved[ROWS_KEPT_MAX];
    int n = lower_moved_inputs(region, moved, ROWS_KEPT_MAX);
    int64_t bytes = 0;
    for (int i = 0; s->row_in_smem && i < n; i++)
        bytes +=
            rows_kept_length(graph, region, s) * s->rows_per_block * dtype_bits(moved[i]->dtype) / 8 + 16;
    for (size_t i = 0; i < region->values.n; i++)
        if (lower_is_space_reduction(region, region->values.at[i]))
            bytes += (int64_t)(s->threads / 32) * 16 + 32 + (rows_blocks(s) > 1 ? ROWS_MEETING : 0);
    return bytes + rows_down_smem(graph, region, s) + rows_ahead_smem(graph, region, s);
}

bool rows_varies(const Value *input) {
    return input->rank > 0 && !dim_is(input->dims[input->rank - 1], 1);
}

/* ---- schedules */

/* Whether the blocks of a cluster may share a row: results are words then. */
static bool rows_accepts_blocks(const Graph *graph, const Region *region, const Schedule *s,
                                const Target *target, const char **why) {
    int blocks = rows_blocks(s);
    if (s->cluster_m > 1 || !is_power_of_two(blocks) || blocks > ROWS_BLOCKS_MAX ||
        (blocks > 1 && (!target->has_cluster || s->rows_per_block != 1))) {
        *why = "a row may be shared by a cluster of 1x2, 1x4 or 1x8 blocks, one row a block, on a target "
               "with clusters";
        return false;
    }
    const Dim *extent = rows_extent(graph, region);
    if (blocks > 1 && dim_upper(graph->dims, extent) > INT32_MAX) {
        *why = "blocks that share a row number its elements by 32 bits";
        return false;
    }
    for (size_t i = 0; i < region->values.n && blocks > 1; i++) {
        const Value *value = region->values.at[i];
        if (lower_is_space_reduction(region, value) && ktype_bits(reduce_type(value)) != 32) {
            *why = "blocks that share a row exchange results of 32 bits";
            return false;
        }
    }
    return true;
}

static bool rows_accepts_shape(const Graph *graph, const Region *region, const Schedule *s,
                               const char **why) {
    if (region->n_reduced < 1 || region->n_reduced > region->rank) {
        *why = "nothing is reduced along rows";
        return false;
    }
    if (!template_takes_rows(s, why))
        return false;
    return s->vector > 0 && rows_start(graph, region, s->vector) != RUN_IN_ROW
               ? rows_accepts_unaligned(graph, region, s, why)
               : template_takes_vector(graph, region, s, why);
}

/* Whether anything along the row, or another reduction of it, needs the result of a reduction. */
static bool rows_have_passes(const Graph *graph, const Region *region) {
    int levels = lower_count_levels(graph, region);
    return levels > 1 || (levels == 1 && lower_stores_whole(graph, region));
}

bool rows_accepts(const Graph *graph, const Region *region, const Schedule *schedule, const Target *target,
                  const char **why) {
    if (!rows_accepts_shape(graph, region, schedule, why) ||
        !rows_accepts_blocks(graph, region, schedule, target, why) ||
        !rows_accepts_down(graph, region, schedule, why) ||
        !rows_accepts_pieces(graph, region, schedule, why))
        return false;
    const Dim *extent = rows_extent(graph, region);
    int64_t a_run = (int64_t)schedule->threads_per_row * rows_blocks(schedule) * schedule->vector;
    if (schedule->resident && dim_upper(graph->dims, extent) > a_run * (ROWS_RUNS_MAX / schedule->vector)) {
        *why = "a row that is kept in registers may have 64 elements a thread, and a known upper bound";
        return false;
    }
    if (!schedule->resident && (schedule->unroll < 1 || schedule->unroll > 16)) {
        *why = "unroll must lie between 1 and 16";
        return false;
    }
    if (schedule->row_in_smem && (schedule->resident || !rows_have_passes(graph, region))) {
        *why = "a row is kept in shared memory where it is not kept in registers and is needed in several "
               "passes";
        return false;
    }
    if (rows_smem(graph, region, schedule) > target->smem_per_block) {
        *why = "the row does not fit into shared memory, or has no known upper bound";
        return false;
    }
    if ((*why = rows_turned_refuses(graph, region, schedule, target, rows_smem(graph, region, schedule))))
        return false;
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        BlockStatistic block;
        bool whole = lower_output_is_whole(graph, region, output);
        if (!lower_output_is_block(region, output, &block) &&
            !lower_can_store(graph, region, output, region->rank - 1, whole ? schedule->vector : 1)) {
            *why = "an output does not fit the rows, or has 4-bit elements and rows of odd length";
            return false;
        }
    }
    return true;
}

/* Threads a row so that each has about `share` elements: more of them where a warp can be full of `run`s,
 * and no second warp, which costs a barrier, where one will do. */
static int rows_lanes(int64_t extent, int64_t run, int64_t share) {
    int lanes = 1;
    int64_t warp = 32 * share * 2 <= 32 * (int64_t)ROWS_RUNS_MAX ? 32 * share * 2 : 32 * share;
    while (lanes < 32 && lanes * run < extent)
        lanes *= 2;
    while (lanes < 1024 && extent > warp && lanes * share < extent)
        lanes *= 2;
    return lanes;
}

/* The same row in the shared memory of the blocks of a cluster, small ones, of which an SM has several: some
 * load while others store. Softmax of 4096 rows of 131072 took 997 us where each pass read the row again, 810
 * with two blocks of 1024 threads, 591 with four of 512, 583 with eight of 256. */
static Schedule rows_shared(const Graph *graph, const Region *region, Schedule in_smem) {
    in_smem.cluster_m = 1;
    in_smem.cluster_n = ROWS_BLOCKS_MAX;
    in_smem.threads = in_smem.threads_per_row = 256;
    Schedule few = in_smem; /* fewer runs at a time, where that leaves less of the last round empty */
    few.unroll /= 2;
    return 10 * rows_kept_length(graph, region, &few) < 9 * rows_kept_length(graph, region, &in_smem)
               ? few
               : in_smem;
}

bool rows_may_have_rounds(const Region *region) {
    int places = 0;
    for (size_t i = 0; i < region->values.n; i++)
        places +=
            region->values.at[i]->op == OP_argmax && lower_is_space_reduction(region, region->values.at[i]);
    return places >= ROUNDS_FEWEST;
}

/* A long row in shared memory, of which an SM has at least two, so that one loads while the other computes;
 * with as many runs in flight as leave little of the last round empty. In registers it would take a block's
 * threads so many that an SM has no room for a second: softmax of 8192 rows of 24576 took 259 us, 200 so; of
 * 32000, 306 and 257; their cross entropy 230 and 179; layer norm of 12288, 111 and 102. Rows of two inputs
 * that are too long for that are shared by two blocks (divergence of 4096 x 32000: 360 us, 284 so). Few rows
 * of short runs want all threads (group norm over 10 of 320 channels: 50 us, 57 so). */
static bool rows_long_schedule(const Graph *graph, const Region *region, const Target *target, int64_t rows,
                               Schedule *s) {
    const char *why;
    Schedule one = *s;
    one.resident = false;
    one.row_in_smem = true;
    one.threads = one.threads_per_row = ROWS_LONG_THREADS;
    one.rows_per_block = 1;
    int64_t longest = dim_upper(graph->dims, rows_extent(graph, region));
    if (longest > INT32_MAX) /* no bound is known */
        return false;
    for (one.unroll = ROWS_STREAM_UNROLL; one.unroll > 0; one.unroll /= 2) {
        bool is_full = one.unroll == 1 || 3 * rows_kept_length(graph, region, &one) <= 4 * longest;
        if (is_full && 2 * rows_smem(graph, region, &one) <= target->smem_per_sm) {
            *s = one;
            return true;
        }
    }
    one.unroll = ROWS_LONG_UNROLL;
    one.threads = one.threads_per_row = ROWS_LONG_THREADS / 2;
    one.cluster_m = 1;
    one.cluster_n = 2;
    if (rows < (int64_t)ROWS_MANY * target->sm_count || cost_streams(graph, region) < 2 ||
        !rows_accepts_blocks(graph, region, &one, target, &why) ||
        2 * rows_smem(graph, region, &one) > target->smem_per_sm)
        return false;
    *s = one;
    return true;
}

/* How a row is taken that a block's registers do not hold and several passes need, of which the last one
 * stores it (where none does, reading again costs less: the loss of 4096 rows of 131072 397 us, 700 shared):
 * by one block from its shared memory, two blocks an SM, so that one computes while the other loads; by a
 * cluster from that of its blocks; or read again. */
static Schedule rows_needed_again(const Graph *graph, const Region *region, const Target *target,
                                  Schedule s) {
    const char *why;
    Schedule one = s;
    one.row_in_smem = true;
    if (rows_smem(graph, region, &one) <= target->smem_per_block)
        return one;
    Schedule shared = rows_shared(graph, region, one);
    if (rows_accepts_blocks(graph, region, &shared, target, &why) &&
        rows_smem(graph, region, &shared) <= target->smem_per_block)
        return shared;
    if (s.threads_per_row == 1024 && region->rank > 2)
        s.threads = s.threads_per_row =
            512; /* 64 registers a thread do not hold the coordinates of a longer space */
    return s;
}

/* Elements of a short row that a thread should have at least: a run; or two, where the row is but reduced and
 * there are so many that threads are without end, since a load alone is not enough in flight (the largest of
 * 128 elements in 4104192 rows: 316 us by runs of 8, 253 by two; of 64, 32 and 16 alike). Of rows that runs
 * do not divide, several elements, as soon as threads fill the machine so (softmax of 49 elements in 262144
 * rows: 43.9 us by 32 threads a row, 24.2 by 16; rms norm of 27 in 400000, f32: 64.4, by 8 26.2; the mean of
 * 49 in 131072: 23.9, by 8 9.2). Of skewed runs as many as leave a thread some beside the edges (softmax of
 * 197 in 100000: 26.1 by 32 threads, 24.6 by 16). */
static int64_t rows_least(const Graph *graph, const Region *region, const Target *target, int64_t rows,
                          int64_t extent, int vector) {
    enum { WAVES = 8, RUN_BITS = 64, SEVERAL = 5, SEVERAL_REDUCED = 8, SEVERAL_SKEWED = 16 };
    if (rows_start(graph, region, vector) == RUN_SKEWED)
        return SEVERAL_SKEWED;
    bool is_whole = lower_stores_whole(graph, region), is_short = true;
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *input = region->inputs.at[i];
        bool moves = lower_output_is_whole(graph, region, input);
        is_short = is_short && (!moves || vector * dtype_bits(input->dtype) < RUN_BITS);
    }
    int64_t threads = (int64_t)target->sm_count * 2048;
    int64_t several = round_up(is_whole ? SEVERAL : SEVERAL_REDUCED, vector);
    if (is_short && extent > several && rows > threads / extent * several)
        return several;
    bool may_have_two = !is_whole && extent >= 2 * vector;
    return may_have_two && rows > threads * WAVES / extent * (2 * vector) ? 2 * vector : vector;
}

/* Half of the threads, where these leave nothing of a row's last round empty and rows are many: layer norm of
 * 5120 elements in 13056 rows takes 75.6 us by 256 threads a row, 70.4 by 128, quantized in blocks behind a
 * norm 67.5 and 55.6; of 7168 in 9344 65.6 and 56.1. */
static int rows_full_lanes(const Target *target, int64_t rows, int64_t extent, int vector, int lanes) {
    enum { LEAST = 64, THREADS = 1024 /* for each multiprocessor */ };
    int half = lanes / 2;
    bool is_better = lanes >= LEAST && extent % ((int64_t)lanes * vector) != 0 &&
                     extent % ((int64_t)half * vector) == 0 && extent <= (int64_t)half * ROWS_RUNS_MAX;
    return is_better && rows >= (int64_t)target->sm_count * THREADS / half ? half : lanes;
}

static Schedule rows_schedule(const Graph *graph, const Region *region, const Target *target,
                              const DimBindings *hint, int vector, int64_t share) {
    const Dim *extent_dim = rows_extent(graph, region);
    int64_t extent = cost_extent(graph, extent_dim, hint), longest = dim_upper(graph->dims, extent_dim);
    int64_t rows = cost_space(graph, region, 0, region->rank - region->n_reduced, hint);
    Schedule s = {.vector = vector, .unroll = ROWS_STREAM_UNROLL};
    s.threads_per_row = rows_lanes(extent, rows_least(graph, region, target, rows, extent, vector), share);
    int streams = cost_streams(graph, region), kept = ROWS_REGISTERS / (streams > 0 ? streams : 1);
    kept = kept > ROWS_RUNS_MAX ? ROWS_RUNS_MAX : kept;
    int full = rows_full_lanes(target, rows, extent, vector, s.threads_per_row);
    if (longest <= (int64_t)full * kept)
        s.threads_per_row = full;
    if (s.threads_per_row == 1024 && kept > ROWS_KEPT_OF_1024)
        kept = ROWS_KEPT_OF_1024; /* 64 registers a thread are all there are */
    s.resident = longest <= (int64_t)s.threads_per_row * kept;
    if (!s.resident && s.threads_per_row < 256)
        s.threads_per_row = 256;
    s.threads = s.threads_per_row > ROWS_THREADS ? s.threads_per_row : ROWS_THREADS;
    s.rows_per_block = s.threads / s.threads_per_row;
    bool has_passes = rows_have_passes(graph, region), is_whole = lower_stores_whole(graph, region);
    bool is_easy = rows >= (int64_t)ROWS_MANY * target->sm_count || vector >= ROWS_WIDE;
    bool is_long = extent > ROWS_LONG && vector > 1 && is_easy && !rows_may_have_rounds(region) &&
                   !rows_have_pieces(region);
    if (is_long && has_passes && rows_long_schedule(graph, region, target, rows, &s))
        return s;
    if (!s.resident && has_passes && is_whole)
        s = rows_needed_again(graph, region, target, s);
    return s;
}

/* Elements of a run. Of rows in 32 bits a thread loads 16 bytes at a time as well as it stores no more: layer
 * norm of 8192 x 4096 from f32 to bf16 takes 57.6 us, with runs of 8 elements 59.6. */
int rows_loaded_width(const Graph *graph, const Region *region, int vector) {
    enum { LONG_BITS = 32, LOAD_BITS = 128 };
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *input = region->inputs.at[i];
        int bits = dtype_bits(input->dtype);
        bool is_long = bits >= LONG_BITS && lower_output_is_whole(graph, region, input);
        while (vector > 1 && is_long && vector * bits > LOAD_BITS)
            vector /= 2;
    }
    return vector;
}

int rows_vector(const Graph *graph, const Region *region) {
    return rows_loaded_width(graph, region, lower_stored_width(graph, region, region->rank - 1));
}

/* Runs in flight of a warp that reads its row again: with few registers half as many, and half of these where
 * passes read or compute more than a norm without a mean does. */
static int rows_warp_unroll(const Region *region, int registers, int ease) {
    enum { MANY_REGISTERS = 128, FEW_INPUTS = 2 };
    int unroll = ROWS_STREAM_UNROLL, reductions = 0, inputs = 0;
    for (size_t i = 0; i < region->values.n; i++)
        reductions += lower_is_space_reduction(region, region->values.at[i]);
    for (size_t i = 0; i < region->inputs.n; i++)
        inputs += rows_varies(region->inputs.at[i]);
    if (registers < MANY_REGISTERS)
        unroll /= reductions > 1 || inputs > FEW_INPUTS ? 4 : 2;
    return unroll >> ease > 1 ? unroll >> ease : 1;
}

Schedule rows_warp_schedule(const Graph *graph, const Region *region, int registers, int ease) {
    enum { AROUND = 48 /* registers for addresses, sums and what is computed */ };
    int streams = cost_streams(graph, region),
        kept = (registers - AROUND) / (2 * (streams > 0 ? streams : 1));
    kept = kept > ROWS_RUNS_MAX ? ROWS_RUNS_MAX : kept;
    Schedule s = {.threads = 32, .threads_per_row = 32, .rows_per_block = 1};
    s.vector = rows_vector(graph, region);
    s.unroll = rows_warp_unroll(region, registers, ease);
    const Dim *extent = rows_extent(graph, region);
    s.resident = dim_upper(graph->dims, extent) <= 32 * (int64_t)kept;
    return s;
}

/* Elements that each thread should have of a row. Few rows: more threads for each, so that the machine is
 * full; but rounds are chains of exchanges, which fewer threads are through with sooner (32 of 2048 in 512
 * rows take 29.5 us by 256 threads a row, 12.7 by 32). */
static int64_t rows_share(const Region *region, const Target *target, int vector, int64_t rows,
                          int64_t extent, int streams) {
    int64_t share = ROWS_TARGET / (streams > 1 ? streams : 1);
    if (rows_may_have_rounds(region)) /* half of what registers keep: a single warp may have twice as much */
        return streams > 1 ? ROWS_RUNS_MAX / 4 : ROWS_RUNS_MAX;
    while (share > vector && rows * rows_lanes(extent, vector, share) < (int64_t)target->sm_count * 512)
        share /= 2;
    return share < vector ? vector : share;
}

int rows_schedules(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                   Schedule *out, int room) {
    RowsDown down[ROWS_DOWN_MAX];
    if (rows_find_down(region, down) > 0)
        return rows_down_schedules(graph, region, target, hint, out, room);
    int split = region->rank - region->n_reduced;
    int vector = rows_vector(graph, region);
    int64_t rows = cost_space(graph, region, 0, split, hint),
            extent = cost_space(graph, region, split, region->rank, hint);
    int64_t share = rows_share(region, target, vector, rows, extent, cost_streams(graph, region));
    int n = 0, unaligned = rows_unaligned_vector(graph, region);
    if (rows_store_turned(graph, region)) {
        Schedule like = rows_schedule(graph, region, target, hint, vector, share);
        n = rows_turned_schedules(graph, region, target, &like, out, room);
    }
    if (n > 0)
        return n;
    if (unaligned > vector)
        out[n++] =
            rows_schedule(graph, region, target, hint, unaligned, share > unaligned ? share : unaligned);
    if (n < room)
        out[n++] = rows_schedule(graph, region, target, hint, vector, share);
    if (n < room && 2 * share <= ROWS_RUNS_MAX)
        out[n++] = rows_schedule(graph, region, target, hint, vector, 2 * share);
    if (n < room && share / 2 >= vector)
        out[n++] = rows_schedule(graph, region, target, hint, vector, share / 2);
    if (n < room && vector > 1)
        out[n++] = rows_schedule(graph, region, target, hint, vector / 2, share);
    if (n < room) { /* what needs the fewest registers: a row that is read again, one run at a time */
        Schedule *s = &out[n++];
        *s = out[0];
        s->resident = s->row_in_smem = false;
        s->cluster_m = s->cluster_n = 0;
        s->unroll = 1;
        s->threads = s->threads_per_row = s->threads_per_row < 256 ? s->threads_per_row : 256;
        s->threads = s->threads < ROWS_THREADS ? ROWS_THREADS : s->threads;
        s->rows_per_block = s->threads / s->threads_per_row;
    }
    return n;
}
