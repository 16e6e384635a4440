/* A softmax in parts (chain_stream.c): sizes, which schedules the kernel takes, which are tried. */
#include "codegen/cost.h"
#include "codegen/templates/chain_stream.h"

/* ---- sizes */

int stream_depth(const ChainPlan *plan) {
    return (int)((dim_upper(plan->graph->dims, plan->link[0].k) + PARTS_K - 1) / PARTS_K * PARTS_K);
}

/* Deeper ones would leave memory for parts of fewer columns: heads of 160 took 127 us as they are, 137 so. */
static int stream_tile_columns(int columns) {
    enum { DEEPEST = 128 };
    return columns <= DEEPEST ? parts_tile_columns(columns) : columns;
}

int stream_width(const ChainPlan *plan) {
    return stream_tile_columns(stream_depth(plan));
}

int stream_values_width(const Schedule *s) {
    return stream_tile_columns(s->tile_n);
}

/* Columns of the second product that a schedule has, those of several warpgroups in whole blocks of their
 * tile. */
static int stream_columns(const ChainPlan *plan, const Schedule *s) {
    enum { BLOCK = 64 };
    int unit = s->warps_n > 1 ? s->warps_n * BLOCK : 1;
    return (plan->columns[1] + unit - 1) / unit * unit;
}

bool stream_keeps_values(const ChainPlan *plan, const Schedule *s) {
    return plan->values_from >= 0 && plan->values_from + s->tile_n <= stream_depth(plan);
}

int stream_bytes(const ChainPlan *plan, const Schedule *s) {
    return 2 * (stream_width(plan) + (stream_keeps_values(plan, s) ? 0 : stream_values_width(s)));
}

static int64_t stream_smem_with(const ChainPlan *plan, const Schedule *s, int queries) {
    Schedule store = parts_store_schedule(s);
    int64_t depth = stream_width(plan), part = (int64_t)stream_bytes(plan, s) * s->tile_k;
    return 2 * (queries * s->tile_m * depth) + s->stages * part + stream_keyed_smem(plan, s) +
           matmul_staging_bytes(&plan->link[1], &store) + stream_exchange_bytes(s) + BARRIER_BYTES;
}

int stream_queries(const ChainPlan *plan, const Schedule *s) {
    return stream_smem_with(plan, s, 2) <= plan->target->smem_per_block ? 2 : 1;
}

/* What 160 registers hold without spilling: 64 columns of sums and parts of 128. */
static int stream_registers(const Schedule *s) {
    enum { ROWS_AND_ADDRESSES = 32 };
    return ROWS_AND_ADDRESSES + stream_summed(s) / 2 + stream_scored(s) / 2 + s->tile_k / 4;
}

bool chain_stream_accepts(const ChainPlan *plan, const Schedule *s, const char **why) {
    const Target *target = plan->target;
    if (!parts_accepts(target, s, why))
        return false;
    *why = "two warpgroups may share the columns of 64 rows, of a key that is contiguous along the first sum "
           "and a value that is not along the second, in parts of a multiple of 32";
    if (s->warps_n > 1 && (s->warps_n != 2 || s->warps_m != 1 || plan->link[0].b[0].major != MAJOR_K ||
                           plan->link[1].b[0].major != MAJOR_MN || s->tile_k % (2 * PARTS_K) != 0))
        return false;
    *why = "tile_n is the columns of the second product, tile_k those of a part of the softmax";
    if (s->tile_n != stream_columns(plan, s) || stream_summed(s) > WGMMA_N_MAX || s->tile_k < PARTS_K ||
        s->tile_k > WGMMA_N_MAX || s->tile_k % PARTS_K != 0)
        return false;
    *why = "the accumulators do not fit the registers";
    if (stream_registers(s) > parts_registers(target, s))
        return false;
    *why = "the stages do not fit shared memory";
    if (stream_smem_with(plan, s, 1) > target->smem_per_block)
        return false;
    *why = NULL;
    return true;
}

/* Whether the scores are computed of what has a number for each of them, which lanes load. */
static bool stream_loads_scores(const ChainPlan *plan) {
    const MatmulPlan *link = &plan->link[0];
    for (size_t i = 0; i < link->region->inputs.n; i++) {
        const Value *input = link->region->inputs.at[i];
        bool has_keys = input->rank >= 2 && input->dims[input->rank - 1] == link->n && !dim_is(link->n, 1);
        if (has_keys && input->dims[input->rank - 2] == link->m && !dim_is(link->m, 1) &&
            input != link->a.view.base && input != link->b[0].view.base)
            return true;
    }
    return false;
}

/* Warpgroups of a block: three where their registers suffice and tiles of theirs have hardly more rows behind
 * the last than those of two: 64 heads of 4096 x 4096 x 64 took 526 us so, 581 by two. What lanes load wants
 * more: 64 heads of 2048 x 2048 x 64 with a bias took 347 us by three, 286 by two. */
static int stream_groups(const ChainPlan *plan, const DimBindings *hint) {
    enum { NARROW = 64 };
    int64_t rows = cost_extent(plan->graph, plan->link[0].m, hint);
    int64_t threes = (rows + 3 * WGMMA_M - 1) / (3 * WGMMA_M),
            twos = (rows + 2 * WGMMA_M - 1) / (2 * WGMMA_M);
    if (plan->columns[1] <= NARROW && !stream_loads_scores(plan) && 20 * 3 * threes <= 21 * 2 * twos)
        return 3;
    return rows > WGMMA_M ? 2 : 1;
}

/* Adds a schedule, if the kernel takes it; how many there are. */
static int stream_add(const ChainPlan *plan, Schedule s, Schedule *out, int n, int room) {
    const char *why;
    s.tile_n = stream_columns(plan, &s);
    if (n < room && chain_stream_accepts(plan, &s, &why))
        out[n++] = s;
    return n;
}

/* Where values come with the keys, few rows wait for stages of both: short parts, as many as there is room
 * for. */
static int stream_kept_schedules(const ChainPlan *plan, Schedule s, Schedule *out, int n, int room) {
    enum { PART = 64, MOST = 4, FEWEST = 3 };
    s.tile_k = PART;
    s.tile_n = stream_columns(plan, &s);
    for (s.stages = MOST; s.stages >= FEWEST && stream_keeps_values(plan, &s); s.stages--)
        n = stream_add(plan, s, out, n, room);
    return n;
}

/* The columns of the second product shared by two warpgroups. Parts as long as memory holds, and boxes for
 * outputs where these leave some: what is stored is little beside the keys. */
static int stream_wide_schedules(const ChainPlan *plan, Schedule *out, int room) {
    static const int parts[] = {128, 96, 64, 32};
    Schedule s = parts_schedule(2, 0, 0);
    s.tile_m = WGMMA_M;
    s.warps_m = 1;
    s.warps_n = 2;
    int n = stream_kept_schedules(plan, s, out, 0, room);
    s.stages = 2;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int boxes = 1; boxes >= 0; boxes--) {
            s.tile_k = parts[i];
            s.tma_store = boxes;
            n = stream_add(plan, s, out, n, room);
        }
    return n;
}

/* Parts of 128 columns, where memory and registers hold them: those of 96, 112, 144 and 160 took longer. Two
 * stages are enough: L2 has what they bring, and for few rows more of them bring memory no sooner. */
int chain_stream_schedules(const ChainPlan *plan, const DimBindings *hint, Schedule *out, int room) {
    static const int parts[] = {128, 96, 64};
    int n = 0, most = stream_groups(plan, hint);
    if (plan->columns[1] > WGMMA_N_MAX)
        return stream_wide_schedules(plan, out, room);
    if (most == 1)
        n = stream_kept_schedules(plan, parts_schedule(1, 0, 0), out, n, room);
    for (int groups = most; groups >= 1; groups--)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            Schedule s = parts_schedule(groups, 0, parts[i]);
            s.stages = 2;
            n = stream_add(plan, s, out, n, room);
        }
    return n;
}
