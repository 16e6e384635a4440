/* Which schedules the columns template takes, and which it proposes. */
#include "codegen/templates/columns_schedules.h"

#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/templates/columns_held.h"
#include "codegen/templates/columns_places.h"

enum {
    COLUMNS_THREADS = 256,
    COLUMNS_STRIP_BYTES = 256,    /* of one row, where there are strips enough */
    COLUMNS_STRIP_BYTES_MIN = 64, /* what memory delivers at once */
    COLUMNS_UNROLL_MOST = 16,
    COLUMNS_FEW_ROWS = 64,
    COLUMNS_IN_FLIGHT = 9, /* of few rows, the taps of 3 x 3 */
};

/* Bytes of shared memory: a partial result for each thread and column of its run, for each reduction. */
static int64_t columns_smem(const Region *region, const Schedule *s) {
    int64_t bytes = 0;
    for (size_t i = 0; i < region->values.n; i++)
        if (lower_is_space_reduction(region, region->values.at[i]))
            bytes += (int64_t)s->threads * s->vector * (reduce_has_number(region->values.at[i]) ? 16 : 8);
    return bytes;
}

bool columns_accepts(const Graph *graph, const Region *region, const Schedule *s, const Target *target,
                     const char **why) {
    if (region->n_reduced < 1 || region->n_reduced >= region->rank) {
        *why = "nothing is reduced along columns, or no axis is kept";
        return false;
    }
    bool reduces = false;
    for (size_t i = 0; i < region->values.n; i++)
        reduces = reduces || lower_is_space_reduction(region, region->values.at[i]);
    if (!reduces) {
        *why = "no reduction is over all leading axes";
        return false;
    }
    if (!template_takes_rows(s, why) || !template_takes_vector(graph, region, s, why))
        return false;
    int most = s->places ? PLACES_TAPS : COLUMNS_UNROLL_MOST;
    if (s->unroll < 1 || s->unroll > most) {
        *why = "unroll must lie between 1 and 16, or 32 taps of several places";
        return false;
    }
    if (columns_smem(region, s) > target->smem_per_block) {
        *why = "the partial results do not fit into shared memory";
        return false;
    }
    for (size_t i = 0; i < region->outputs.n; i++)
        if (!lower_can_store(graph, region, region->outputs.at[i], region->rank - 1, s->vector)) {
            *why = "an output does not fit the columns, or has 4-bit elements and rows of odd length";
            return false;
        }
    if (s->resident && (*why = columns_held_refuses(graph, region, s, target, columns_smem(region, s))))
        return false;
    if (!s->resident && s->turned_vector) {
        *why = "with turned_vector, rows are resident";
        return false;
    }
    return s->places == 0 || columns_accepts_places(graph, region, s, why);
}

/* Few rows of many columns, as the taps of windows are: each thread goes through all of its own, of so few
 * that blocks come out even (norms of 358400 columns of 50, two inputs of 16 bits: 29.5 us by 1400
 * blocks, 34.2 by 175).
 */
static int columns_of_few_rows(const Target *target, int64_t rows, int64_t columns, int vector, int bits,
                               Schedule *out, int room) {
    enum { BLOCKS = 3, RUN_LEAST = 32 /* bits */ };
    while (vector * bits > RUN_LEAST && vector > 1 &&
           columns < (int64_t)BLOCKS * target->sm_count * COLUMNS_THREADS * vector)
        vector /= 2;
    Schedule s = {.vector = vector,
                  .threads_per_row = COLUMNS_THREADS,
                  .threads = COLUMNS_THREADS,
                  .rows_per_block = 1,
                  .unroll = COLUMNS_IN_FLIGHT};
    while (rows % s.unroll != 0)
        s.unroll--;
    int n = 0;
    out[n++] = s;
    for (int less = s.unroll - 1; less >= 1 && n < room; less--)
        if (rows % less == 0) {
            out[n] = s;
            out[n++].unroll = less;
        }
    return n;
}

/* Whether columns are gone through more than once. */
static bool columns_go_again(const Graph *graph, const Region *region) {
    return lower_stores_whole(graph, region) || lower_count_levels(graph, region) > 1;
}

/* Columns that are gone through again, for what a statistic of theirs is applied to: a strip of 128 bytes,
 * which stays in L1, and all of its rows on their way at once, some 28 bytes of each thread's column (layer
 * norm over 256 channels of 100352 places: 61.7 us otherwise, 38.6 so; softmax over 1024 of 49152: 112, 82).
 */
static bool columns_again(const Graph *graph, const Region *region, const DimBindings *hint, Schedule *out) {
    enum {
        COLUMN_BITS = 2048 * 8,
        STRIP_BITS = 128 * 8,
        RUN_BITS = 64,
        ROWS_LEAST = 8,
        ROWS_MOST = 64,
        THREADS_OF_SEVERAL = 512,
        SHARE_BITS = 28 * 8,
        IN_FLIGHT = 16
    };
    int bits = 8, vector = lower_vector_width(graph, region, region->rank - 1);
    for (size_t i = 0; i < region->inputs.n; i++)
        if (lower_output_is_whole(graph, region, region->inputs.at[i]) &&
            dtype_bits(region->inputs.at[i]->dtype) > bits)
            bits = dtype_bits(region->inputs.at[i]->dtype);
    int64_t rows = cost_space(graph, region, 0, region->n_reduced, hint);
    int64_t columns = cost_space(graph, region, region->n_reduced, region->rank, hint);
    while (vector > 1 && vector * bits > RUN_BITS)
        vector /= 2;
    int lanes = STRIP_BITS / (vector * bits), levels = lower_count_levels(graph, region);
    int most = levels > 1 ? THREADS_OF_SEVERAL : 1024; /* whose registers leave an SM room for two blocks */
    if (columns < lanes * vector || rows > COLUMN_BITS / bits)
        return false;
    Schedule s = {.vector = vector, .rows_per_block = ROWS_LEAST, .unroll = 1};
    while (s.rows_per_block < ROWS_MOST && 2 * s.rows_per_block * SHARE_BITS <= rows * bits)
        s.rows_per_block *= 2;
    while (lanes * s.rows_per_block > most)
        lanes /= 2;
    s.threads_per_row = lanes;
    while (s.unroll < IN_FLIGHT && s.rows_per_block * s.unroll < rows)
        s.unroll *= 2;
    s.threads = lanes * s.rows_per_block;
    *out = s;
    return true;
}

/* Whether what is gone through again had better stay in registers meanwhile, rather than in L1 by the
 * schedule `again` (NULL: there is none). (H200, bf16: softmax over 1024 of 64 x 768 75 us, 82 so, layer norm
 * over 768 of 64 x 784 98 and 64; mean and variance alone of 256 rows at a time, all of which are on their
 * way at once in any case, of 16 x 4096 x 512 69.6 and 72.4, of 224 of 64 x 3136 x 384 162 and 147.) */
static bool columns_are_held(const Graph *graph, const Region *region, const Schedule *again, int64_t rows,
                             int bits) {
    enum { ROWS_MOST_BITS = 768 * 16, ROWS_WIDE = 32 };
    bool is_at_once = again && rows == (int64_t)again->rows_per_block * again->unroll;
    return !(is_at_once && !lower_stores_whole(graph, region)) &&
           (bits >= ROWS_WIDE || rows * bits <= ROWS_MOST_BITS);
}

int columns_schedules(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                      Schedule *out, int room) {
    int vector = lower_vector_width(graph, region, region->rank - 1), bits = 8;
    vector = vector > 8 ? 8 : vector;
    for (size_t i = 0; i < region->inputs.n; i++)
        if (region->inputs.at[i]->rank > 0 && dtype_bits(region->inputs.at[i]->dtype) > bits)
            bits = dtype_bits(region->inputs.at[i]->dtype);
    int64_t columns = cost_space(graph, region, region->n_reduced, region->rank, hint);
    int64_t rows = cost_space(graph, region, 0, region->n_reduced, hint);
    int64_t run_bytes = (int64_t)vector * bits / 8;
    int n = columns_stores_turned(graph, region)
                ? columns_held_schedules(graph, region, target, vector, out, room)
                : 0;
    if (n > 0)
        return n;
    n = columns_places_schedules(graph, region, target, hint, vector, out, room - 1);
    if (rows <= COLUMNS_FEW_ROWS && columns >= (int64_t)COLUMNS_THREADS * vector * target->sm_count)
        return n + columns_of_few_rows(target, rows, columns, vector, bits, out + n, room - n);
    if (n == 0 && columns_go_again(graph, region)) {
        Schedule again;
        bool has_again = columns_again(graph, region, hint, &again);
        if (columns_are_held(graph, region, has_again ? &again : NULL, rows, bits))
            n = columns_held_schedules(graph, region, target, vector, out, room / 2);
        if (has_again && n + 1 < room)
            out[n++] = again;
    }
    Schedule s = {
        .vector = vector, .unroll = COLUMNS_UNROLL, .threads_per_row = 1, .threads = COLUMNS_THREADS};
    while (s.threads_per_row < 64 && s.threads_per_row * run_bytes < COLUMNS_STRIP_BYTES &&
           (int64_t)s.threads_per_row * vector < columns)
        s.threads_per_row *= 2;
    while (s.threads_per_row > 1 && (s.threads_per_row / 2) * run_bytes >= COLUMNS_STRIP_BYTES_MIN &&
           2 * (columns / ((int64_t)s.threads_per_row * vector)) < 3 * (int64_t)target->sm_count)
        s.threads_per_row /= 2;
    /* Few strips: more threads for each. */
    int64_t strips = columns / ((int64_t)s.threads_per_row * vector) + 1;
    while (s.threads < 1024 && strips * s.threads < (int64_t)target->sm_count * 1024 &&
           rows > 2 * (int64_t)s.threads / s.threads_per_row * s.unroll)
        s.threads *= 2;
    while (s.unroll > 1 && rows < (int64_t)s.threads / s.threads_per_row * s.unroll)
        s.unroll /= 2;
    while (s.threads > 32 && rows * s.threads_per_row < s.threads)
        s.threads /= 2;
    while (s.threads > 32 && columns_smem(region, &s) > target->smem_per_block)
        s.threads /= 2;
    if (s.threads_per_row > s.threads)
        s.threads_per_row = s.threads;
    s.rows_per_block = s.threads / s.threads_per_row;
    out[n++] = s;
    if (n < room && s.unroll < 8) {
        out[n] = s;
        out[n++].unroll *= 2;
    }
    if (n < room && s.threads >= 64 && s.rows_per_block >= 2) {
        out[n] = s;
        out[n].threads /= 2;
        out[n++].rows_per_block /= 2;
    }
    if (n < room && s.threads_per_row >= 2 && s.threads < 1024) {
        out[n] = s;
        out[n].threads_per_row /= 2;
        out[n++].rows_per_block *= 2;
    }
    return n;
}
