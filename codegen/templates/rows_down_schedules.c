/* Rows with statistics of columns: which schedules the template takes of them, and which it would take. */
#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/reduce.h"
#include "codegen/templates/rows.h"
#include "codegen/templates/rows_plan.h"
#include "ir/base/checked.h"

enum { DOWN_STAGES_MAX = 8 };

/* Registers in which a thread has what its columns come to so far. */
static int64_t down_words(const Graph *graph, const Region *region, const Schedule *s) {
    RowsDown down[ROWS_DOWN_MAX];
    int n = rows_find_down(region, down);
    int64_t words = 0, own = ceil_div(dim_upper(graph->dims, rows_extent(graph, region)), s->threads_per_row);
    for (int i = 0; i < n && i < ROWS_DOWN_MAX; i++)
        words += own * ktype_bits(reduce_type(down[i].reduction)) / 32;
    return words;
}

bool rows_accepts_down(const Graph *graph, const Region *region, const Schedule *s, const char **why) {
    RowsDown down[ROWS_DOWN_MAX];
    int n = rows_find_down(region, down);
    if (n == 0 && s->stages == 0)
        return true;
    if (n == 0 || s->stages == 1 || s->stages > DOWN_STAGES_MAX) {
        *why = "rows are brought ahead, 2 to 8 stages of them, where columns have statistics";
        return false;
    }
    if (!s->resident || rows_blocks(s) > 1 || s->threads_per_row < 32 || n > ROWS_DOWN_MAX ||
        down_words(graph, region, s) > ROWS_REGISTERS) {
        *why =
            "statistics of columns take rows in registers, of 32 threads or more, and 96 registers at most";
        return false;
    }
    for (int i = 0; i < n; i++)
        if (down[i].block.block != down[0].block.block || down[i].block.block % s->rows_per_block != 0 ||
            down[i].block.block < (int64_t)s->rows_per_block * s->stages) {
            *why = "the rows at a time must divide the rows of a block, which has as many as its stages at "
                   "least";
            return false;
        }
    return true;
}

/* The least stages with which what is on its way fills an SM's share of memory's latency, as far as there is
 * room for two blocks, and rows for all stages; 0: none. */
static int down_stages(const Graph *graph, const Region *region, const Target *target, Schedule s,
                       int64_t blocks) {
    enum { ON_THEIR_WAY = 64 << 10 /* bytes */ };
    const char *why;
    int most = 0;
    for (s.stages = 2; s.stages <= DOWN_STAGES_MAX; s.stages++) {
        int64_t ring = rows_ahead_smem(graph, region, &s);
        if (ring == 0 || 2 * rows_smem(graph, region, &s) > target->smem_per_sm ||
            !rows_accepts(graph, region, &s, target, &why))
            break;
        most = s.stages;
        if (ring / s.stages * (s.stages - 1) * ceil_div(blocks, target->sm_count) >= ON_THEIR_WAY)
            break;
    }
    return most;
}

/* Rows with statistics of columns, of which a thread has `own` elements, in blocks of `threads` or more: 128
 * of one warp a row where registers hold one (layer norm's gradients, 65536 x 768: 86 us; by two warps a row
 * 96), else 8 elements a thread (16384 x 4096: 117 us; rms norm's of 8192 x 8192: 114). */
static bool down_schedule(const Graph *graph, const Region *region, const Target *target,
                          const DimBindings *hint, int64_t own, int threads, Schedule *out) {
    RowsDown down[ROWS_DOWN_MAX];
    const char *why;
    rows_find_down(region, down);
    int64_t extent = cost_space(graph, region, region->rank - 1, region->rank, hint),
            of_block = down[0].block.block;
    int64_t blocks = cost_space(graph, region, 0, region->rank - 1, hint) / of_block;
    Schedule s = {.vector = rows_vector(graph, region), .resident = true, .threads_per_row = 32};
    while (s.threads_per_row < 1024 && s.threads_per_row * own < extent)
        s.threads_per_row *= 2;
    s.threads = s.threads_per_row > threads ? s.threads_per_row : threads;
    while (s.threads > s.threads_per_row && of_block % (s.threads / s.threads_per_row) != 0)
        s.threads /= 2;
    s.rows_per_block = s.threads / s.threads_per_row;
    s.stages = down_stages(graph, region, target, s, blocks);
    *out = s;
    return rows_accepts(graph, region, &s, target, &why);
}

int rows_down_schedules(const Graph *graph, const Region *region, const Target *target,
                        const DimBindings *hint, Schedule *out, int room) {
    enum { WARP_THREADS = 128, THREADS = 256 };
    static const int own[] = {8, 16, 4, 32};
    RowsDown down[ROWS_DOWN_MAX];
    int64_t extent = cost_space(graph, region, region->rank - 1, region->rank, hint);
    int64_t kept = ceil_div(extent, 32) * (cost_streams(graph, region) + rows_find_down(region, down));
    int n = 0;
    if (kept <= ROWS_REGISTERS && n < room)
        n += down_schedule(graph, region, target, hint, ceil_div(extent, 32), WARP_THREADS, &out[n]);
    for (int i = 0; i < (int)(sizeof own / sizeof *own) && n < room; i++)
        n += down_schedule(graph, region, target, hint, own[i], THREADS, &out[n]);
    return n;
}
