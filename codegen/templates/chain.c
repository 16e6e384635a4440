/* The chain template: takes a region apart into links, says what the kernel takes, chooses schedules. */
#include "codegen/templates/chain.h"

#include <math.h>

#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_staging.h"

enum { CHAIN_NARROW = 128 /* columns of a pass */ };

/* ---- links */

/* Products of a link's region; 0 where `core` is not among them. */
static int chain_products(const Region *region, const Value *core) {
    bool has_core = false;
    int n = 0;
    for (size_t i = 0; i < region->values.n; i++) {
        n += region->values.at[i]->op == OP_matmul;
        has_core |= region->values.at[i] == core;
    }
    return has_core ? n : 0;
}

/* Whether an output is one element for each row of the first product, and nothing of the last. */
static bool chain_is_row(const ChainPlan *plan, Value *output) {
    const Region *whole = plan->region;
    const Value *last = whole->cores.at[plan->n_links - 1];
    const Region *part = region_part(plan->graph->arena, whole, &output, 1, NULL, last);
    return !chain_products(part, last) && value_is_of_rows(lower_root(whole, output), whole->cores.at[0]);
}

/* The region's outputs that are rows' own, or the others. */
static size_t chain_outputs(const ChainPlan *plan, bool is_row, Value **out) {
    const Region *whole = plan->region;
    size_t n = 0;
    for (size_t i = 0; i < whole->outputs.n; i++)
        if (chain_is_row(plan, whole->outputs.at[i]) == is_row)
            out[n++] = whole->outputs.at[i];
    return n;
}

/* Whether what the softmax's exponents count from, and what they are divided by, are all that the outputs of
 * a part want of its reductions. */
static bool chain_knows_rows(const ChainPlan *plan, const Region *part) {
    ValueMap wanted = {.arena = plan->graph->arena};
    for (size_t i = 0; i < part->outputs.n; i++)
        value_map_set(&wanted, part->outputs.at[i], true);
    for (size_t i = part->values.n; i-- > 0;) { /* users before what they use */
        const Value *value = part->values.at[i];
        if (!value_map_get(&wanted, value) || value == plan->softmax.base || value == plan->softmax.whole)
            continue;
        if (op_info(value->op)->class_ == OPCLASS_REDUCTION)
            return false;
        for (int k = 0; k < value->n_in; k++)
            value_map_set(&wanted, value->in[k], true);
    }
    return true;
}

/* The outputs that the softmax's maximum and sum are enough for; false: something else is wanted of rows. */
static bool chain_rows(ChainPlan *plan, Value *const *outputs, size_t n, const char **why) {
    if (!n)
        return true;
    Region *part = region_part(plan->graph->arena, plan->region, outputs, n, NULL, plan->region->cores.at[0]);
    plan->rows = plan->link[0];
    plan->rows.region = part;
    part->n_reduced = 1;
    *why = "of a softmax in parts, rows' maxima and sums are known, no other reductions";
    return chain_knows_rows(plan, part);
}

/* The part that computes a sink, one element a row. */
static void chain_sink(ChainPlan *plan) {
    Value *sink = plan->softmax.sink, *core = plan->region->cores.at[0];
    if (!sink)
        return;
    plan->sink = plan->link[0];
    plan->sink.region = region_part(plan->graph->arena, plan->region, &sink, 1, NULL, core);
}

/* Whether TMA reads an operand where it lies in one piece, or where indices choose it. */
static bool chain_is_tma(const ChainPlan *plan, const MatmulOperand *operand, const char **why) {
    return matmul_has_chosen_matrices(operand) || matmul_is_tma(plan->graph, operand, why);
}

/* Whether a later link's second operand is the same for all matrices of a batch, so that it can stay. */
static bool chain_can_stay(const ChainPlan *plan, int link) {
    const MatmulOperand *operand = &plan->link[link].b[0];
    return !operand->n_batch && !operand->chosen;
}

static bool chain_link(ChainPlan *plan, int i, Value *core, const char **why) {
    const Region *whole = plan->region;
    bool is_last = i == plan->n_links - 1;
    const Value *before = i ? plan->held[i - 1] : NULL;
    Value *held = is_last ? NULL : whole->cores.at[i + 1]->in[0];
    bool streams = plan->streams && !is_last;
    plan->held[i] = held;
    Value *made = streams ? plan->softmax.x : held;
    Value **outputs = ARENA_ARRAY(plan->graph->arena, Value *, whole->outputs.n + 1);
    size_t n_outputs = is_last ? chain_outputs(plan, false, outputs) : 1;
    if (!is_last)
        outputs[0] = made;
    Region *part = region_part(plan->graph->arena, whole, outputs, n_outputs, before, core);
    vec_push(plan->graph->arena, &part->cores, core);
    *why = "a link of the chain is one product, which only the next link needs";
    if (chain_products(part, core) != 1)
        return false;
    MatmulPlan *link = &plan->link[i];
    if (!matmul_plan(plan->graph, part, plan->target, link, why))
        return false;
    part->n_reduced = link->statistics.n > 0;
    *why = "chained products have operands of one 16-bit type";
    if (link->kind != MATMUL_16BIT || link->a.narrow != link->a.elem ||
        (held && held->dtype != link->a.elem) || (i && link->a.elem != plan->link[0].a.elem))
        return false;
    *why = "a link of a chain does not multiply weights of several groups";
    if (matmul_has_gaps(link))
        return false;
    *why = "chained products have the same rows";
    if (!value_same_rows(core, whole->cores.at[0]) || (held && !value_same_dims(held, core)))
        return false;
    if ((i == 0 && !chain_is_tma(plan, &link->a, why)) || !chain_is_tma(plan, &link->b[0], why))
        return false;
    *why = "the columns between chained products are known, and no more than the registers hold";
    int64_t most = dim_upper(plan->graph->dims, link->n);
    if (!streams && (most < 1 || most > (is_last ? 1 << 20 : CHAIN_COLUMNS)))
        return false;
    plan->columns[i] = streams ? 0 : (int)((most + 15) / 16 * 16);
    *why = "more than 256 columns are read by two instructions, which takes an operand that is contiguous "
           "along K";
    if (!is_last && chain_parts(plan->columns[i]) > 1 && link->b[0].major != MAJOR_K)
        return false;
    *why = "a product may have nothing to sum";
    return dim_known_some(plan->graph->dims, link->k, link->m);
}

/* The part that multiplies weights with what does not come of the scores. */
static void chain_weighed(ChainPlan *plan) {
    Value *weighed = plan->softmax.weighed, *core = plan->region->cores.at[0];
    if (!weighed)
        return;
    plan->weighed = plan->link[0];
    plan->weighed.core[0] = plan->softmax.share;
    plan->weighed.region =
        region_part(plan->graph->arena, plan->region, &weighed, 1, plan->softmax.share, core);
    const Value *random = chain_random(plan);
    if (random)
        plan->weighed.core[plan->weighed.n_cores++] = random;
}

/* The links of a chain whose softmax, if it has one, comes in parts or does not. */
static bool chain_links(ChainPlan *plan, bool streams, const char **why) {
    const Region *region = plan->region;
    Value **rows = ARENA_ARRAY(plan->graph->arena, Value *, region->outputs.n + 1);
    size_t n_rows = chain_outputs(plan, true, rows);
    plan->streams = streams;
    *why = "what is stored of rows besides is computed from the maxima and sums of a softmax";
    if (n_rows && !streams)
        return false;
    for (int i = 0; i < plan->n_links; i++)
        if (!chain_link(plan, i, region->cores.at[i], why))
            return false;
    *why = "of products around a softmax in parts, neither is reduced";
    if (streams && (plan->link[0].statistics.n || plan->link[1].statistics.n))
        return false;
    if (!chain_rows(plan, rows, n_rows, why))
        return false;
    if (streams) {
        chain_find_keyed(plan);
        chain_sink(plan);
        chain_weighed(plan);
    }
    plan->values_from = streams ? chain_values_from(plan) : -1;
    *why = NULL;
    return true;
}

/* Whether a softmax that registers hold comes in parts all the same: where so little room is left that the
 * last product would have its rows multiplied several times, a pass for some of its columns each, or where
 * whole parts lie beyond a band. (32 x 16 matrices of 257 rows, H200: of 192 columns 120 us whole, 89 in
 * parts; along the diagonal of 128 columns 63.5 and 58.5, but of 64 columns 48.6 and 51.7.) */
static bool chain_prefers_parts(const ChainPlan *plan) {
    enum { NARROW = 64 };
    DimTable *dims = plan->graph->dims;
    Value *x = plan->softmax.x, *inner;
    const Value *last = plan->region->cores.at[1];
    int64_t columns = dim_upper(dims, x->dims[x->rank - 1]),
            depth = dim_upper(dims, last->dims[last->rank - 1]);
    Band band;
    if (columns <= WGMMA_N_MAX || depth <= NARROW)
        return false;
    return depth > CHAIN_NARROW || band_of(dims, x, -INFINITY, &band, &inner);
}

bool chain_plan(const Graph *graph, const Region *region, const Target *target, ChainPlan *plan,
                const char **why) {
    *plan = (ChainPlan){.graph = graph, .region = region, .target = target, .n_links = (int)region->cores.n};
    *why = "a chain has two or three products";
    if (region->kind != TEMPLATE_CHAIN || plan->n_links < 2 || plan->n_links > CHAIN_LINKS)
        return false;
    const Value *between = region->cores.at[1]->in[0];
    Value **rows = ARENA_ARRAY(graph->arena, Value *, region->outputs.n + 1);
    if (plan->n_links != 2 || !softmax_of(between, &plan->softmax))
        return chain_links(plan, false, why);
    if (chain_outputs(plan, true, rows) ||
        dim_upper(graph->dims, between->dims[between->rank - 1]) > CHAIN_COLUMNS)
        return chain_links(plan, true, why);
    Schedule any;
    return (chain_prefers_parts(plan) && chain_links(plan, true, why) &&
            chain_stream_schedules(plan, NULL, &any, 1)) ||
           chain_links(plan, false, why);
}

/* ---- sizes */

int chain_tile_columns(const ChainPlan *plan, const Schedule *schedule, int link) {
    return link == plan->n_links - 1 ? schedule->tile_n : plan->columns[link];
}

int chain_passes(const ChainPlan *plan, const Schedule *schedule) {
    int all = plan->columns[plan->n_links - 1];
    return (all + schedule->tile_n - 1) / schedule->tile_n;
}

int chain_parts(int columns) {
    return columns > WGMMA_N_MAX ? 2 : 1;
}

int chain_later_steps(const ChainPlan *plan, const Schedule *schedule, int link) {
    return (plan->columns[link - 1] + schedule->tile_k - 1) / schedule->tile_k;
}

int64_t chain_slot_elements(const ChainPlan *plan, const Schedule *schedule) {
    int64_t most = 0;
    for (int i = 1; i < plan->n_links; i++) {
        int64_t n = (int64_t)chain_tile_columns(plan, schedule, i) * schedule->tile_k;
        most = n > most ? n : most;
    }
    return most;
}

/* Second operands of later links: all, where they stay for the whole launch, or the ring that they come
 * through. */
static int64_t chain_later_bytes(const ChainPlan *plan, const Schedule *schedule) {
    int64_t elements = 0;
    if (schedule->later_stages)
        return 2 * schedule->later_stages * chain_slot_elements(plan, schedule);
    for (int i = 1; i < plan->n_links; i++) {
        int64_t columns = (int64_t)chain_tile_columns(plan, schedule, i) *
                          (i == plan->n_links - 1 ? chain_passes(plan, schedule) : 1);
        elements += columns * chain_later_steps(plan, schedule, i) * schedule->tile_k;
    }
    return 2 * elements;
}

int64_t chain_smem(const ChainPlan *plan, const Schedule *schedule) {
    int64_t rows = schedule->tile_m + chain_tile_columns(plan, schedule, 0); /* of a stage */
    Schedule store = parts_store_schedule(schedule);
    return 2 * rows * schedule->tile_k * schedule->stages + chain_later_bytes(plan, schedule) +
           matmul_staging_bytes(&plan->link[plan->n_links - 1], &store) + BARRIER_BYTES;
}

/* Registers of a consumer thread: while a link multiplies, its accumulators and what it was handed. */
static int chain_registers(const ChainPlan *plan, const Schedule *schedule) {
    enum { ADDRESSES = 44, STATISTICS = 24 };
    int most = 0;
    for (int i = 0; i < plan->n_links; i++) {
        int own = chain_tile_columns(plan, schedule, i) / 2 + (plan->link[i].statistics.n ? STATISTICS : 0);
        own += i ? plan->columns[i - 1] / 4 : 0;
        most = own > most ? own : most;
    }
    return ADDRESSES + most;
}

int chain_blocks_per_sm(const ChainPlan *plan, const Schedule *schedule) {
    if (schedule->warps_m > 1)
        return 1; /* setmaxnreg deals out the registers of the whole SM */
    int64_t by_smem = plan->target->smem_per_sm / (chain_smem(plan, schedule) + BLOCK_RESERVE);
    int64_t by_registers =
        plan->target->registers_per_sm / (2 * WARPGROUP * (int64_t)chain_registers(plan, schedule));
    int64_t blocks = by_smem < by_registers ? by_smem : by_registers;
    return blocks >= 2 ? 2 : 1;
}

MatmulTiles chain_tiles(const ChainPlan *plan, const Schedule *schedule) {
    Schedule rows = *schedule;
    rows.tile_n = chain_passes(plan, schedule) * schedule->tile_n;
    MatmulTiles tiles = matmul_tiles(&plan->link[plan->n_links - 1], &rows);
    /* which columns between a tile goes over may hang on its first row */
    tiles.rows_end = tiles.cols_end = NULL;
    return tiles;
}

/* ---- the Template row */

static bool chain_accepts_planned(const ChainPlan *plan, const Schedule *schedule, const char **why) {
    const Target *target = plan->target;
    const MatmulPlan *last = &plan->link[plan->n_links - 1];
    if (plan->streams)
        return chain_stream_accepts(plan, schedule, why);
    *why = "the target has no wgmma";
    if (!target->has_wgmma || !target->has_tma)
        return false;
    *why = "products are chained by wgmma alone";
    if (schedule->path != MATMUL_WGMMA || schedule->swap_ab || schedule->ping_pong)
        return false;
    *why = "tile_m is 64 rows for each of 1 to 3 consumer warpgroups";
    if (schedule->warps_m < 1 || schedule->warps_m > 3 || schedule->tile_m != schedule->warps_m * WGMMA_M ||
        schedule->warps_n > 1)
        return false;
    *why = "tile_n is a multiple of 16 up to 256";
    if (schedule->tile_n < 16 || schedule->tile_n > CHAIN_COLUMNS_LAST || schedule->tile_n % 16 != 0)
        return false;
    *why = "row statistics need whole rows in one tile: N up to tile_n";
    if (last->statistics.n && chain_passes(plan, schedule) > 1)
        return false;
    *why = "second operands stay in shared memory where all matrices of a batch have the same";
    for (int i = 1; i < plan->n_links && !schedule->later_stages; i++)
        if (!chain_can_stay(plan, i))
            return false;
    *why = "tile_k is 32 or 64";
    if (schedule->tile_k != 32 && schedule->tile_k != 64)
        return false;
    *why = "2 to 8 stages, and up to 24 of later links";
    if (schedule->stages < 2 || schedule->stages > 8 || schedule->later_stages < 0 ||
        schedule->later_stages > 24)
        return false;
    *why = "the accumulators do not fit the registers";
    if (chain_registers(plan, schedule) > parts_registers(target, schedule))
        return false;
    *why = "the stages do not fit shared memory";
    if (chain_smem(plan, schedule) > target->smem_per_block)
        return false;
    *why = "a cluster has 2 blocks, along m, and shares tiles that divide between them";
    for (int i = 0; i < plan->n_links && schedule->cluster_m > 1; i++) {
        const MatmulOperand *shared = &plan->link[i].b[0];
        int columns = chain_tile_columns(plan, schedule, i);
        if (schedule->cluster_m > 2 || shared->n_batch > 1 || shared->chosen ||
            columns % (shared->major == MAJOR_MN ? 128 : 16) != 0)
            return false;
    }
    if (schedule->cluster_n > 1)
        return false;
    if (!parts_accepts_registers(target, schedule, why))
        return false;
    *why = NULL;
    return true;
}

static bool chain_accepts(const Graph *graph, const Region *region, const Schedule *schedule,
                          const Target *target, const char **why) {
    ChainPlan plan;
    if (schedule->path == MATMUL_LOOP)
        return true;
    return chain_plan(graph, region, target, &plan, why) && chain_accepts_planned(&plan, schedule, why);
}

static Schedule chain_candidate(int warpgroups, int tile_n, int64_t depth, int cluster) {
    static const int registers[][2] = {{0, 0}, {0, 0}, {40, 232}, {32, 160}}; /* producer's, consumers' */
    return (Schedule){.path = MATMUL_WGMMA,
                      .threads = WARPGROUP * (1 + warpgroups),
                      .tile_m = WGMMA_M * warpgroups,
                      .warps_m = warpgroups,
                      .warps_n = 1,
                      .tile_n = tile_n,
                      .tile_k = depth <= 32 ? 32 : 64,
                      .cluster_m = cluster,
                      .persistent = true,
                      .tma_store = true,
                      .producer_registers = registers[warpgroups][0],
                      .consumer_registers = registers[warpgroups][1]};
}

/* Whether three warpgroups, where their registers suffice, are to hide one another's softmax: rows enough for
 * all, and hardly more of them behind the last than two would have. */
static bool chain_wants_three(const ChainPlan *plan, int64_t batch, int64_t rows) {
    int64_t threes = (rows + 3 * WGMMA_M - 1) / (3 * WGMMA_M),
            twos = (rows + 2 * WGMMA_M - 1) / (2 * WGMMA_M);
    return plan->link[0].statistics.n && batch * threes >= 2 * plan->target->sm_count &&
           20 * 3 * threes <= 21 * 2 * twos;
}

/* Two consumer warpgroups share what is loaded for both; where a matrix has few rows, or all together have,
 * one alone wastes less. Blocks that are neighbours along M load second operands for each other. */
static int chain_candidates(const ChainPlan *plan, const DimBindings *hint, Schedule *out) {
    int64_t rows = cost_extent(plan->graph, plan->link[0].m, hint),
            depth = cost_extent(plan->graph, plan->link[0].k, hint);
    int all = plan->columns[plan->n_links - 1], n = 0;
    int64_t batch = cost_space(plan->graph, plan->region, 0, plan->link[0].batch_rank, hint);
    int64_t pairs = batch * ((rows + 2 * WGMMA_M - 1) / (2 * WGMMA_M)); /* of 64 rows */
    bool is_small = rows <= WGMMA_M || 2 * pairs <= plan->target->sm_count;
    int widest = all <= CHAIN_COLUMNS_LAST ? all : CHAIN_NARROW;
    if (chain_wants_three(plan, batch, rows))
        out[n++] = chain_candidate(3, widest, depth, 1);
    for (int cluster = rows >= 8 * 2 * WGMMA_M && !is_small ? 2 : 1; cluster >= 1; cluster--) {
        out[n++] = chain_candidate(is_small ? 1 : 2, widest, depth, cluster);
        if (widest > CHAIN_NARROW)
            out[n++] = chain_candidate(is_small ? 1 : 2, CHAIN_NARROW, depth, cluster);
    }
    return n;
}

/* The most stages with which `blocks` share an SM; false where not even `fewest` do. */
static bool chain_deepest(const ChainPlan *plan, Schedule *s, int fewest, int blocks) {
    const char *why;
    for (s->stages = 8; s->stages >= fewest; s->stages--)
        if (chain_accepts_planned(plan, s, &why) && chain_blocks_per_sm(plan, s) >= blocks)
            return true;
    return false;
}

/* How memory is shared between the two rings. Where tiles are short, both run several tiles ahead; else later
 * second operands stay, or come while the first link multiplies, in one burst for each link if need be. */
static bool chain_share_memory(const ChainPlan *plan, Schedule *s, int first_steps, int blocks) {
    enum { AHEAD = 4, ENOUGH = 4 /* stages */, RESIDENT = 3 };
    int all = 0, most = 0;
    bool can_stay = true;
    for (int i = 1; i < plan->n_links; i++) {
        int steps = chain_later_steps(plan, s, i);
        all += steps;
        most = steps > most ? steps : most;
        can_stay = can_stay && chain_can_stay(plan, i);
    }
    for (int ahead = AHEAD; ahead >= 2; ahead--) {
        int fewest = ahead * first_steps < ENOUGH ? ahead * first_steps : ENOUGH;
        s->later_stages = ahead * all;
        if (s->later_stages <= 16 && chain_deepest(plan, s, fewest, blocks))
            return true;
    }
    s->later_stages = 0;
    if (can_stay && chain_deepest(plan, s, RESIDENT, blocks))
        return true;
    s->later_stages = all;
    if (chain_deepest(plan, s, RESIDENT, blocks))
        return true;
    s->later_stages = most;
    return chain_deepest(plan, s, 2, blocks);
}

/* 1 and the schedule with stages, as many blocks an SM as go; 0 where nothing fits. */
static int chain_with_stages(const ChainPlan *plan, Schedule s, Schedule *out) {
    const Dim *depth = plan->link[0].k;
    int64_t steps = dim_is_const(depth) ? (depth->value + s.tile_k - 1) / s.tile_k : 8;
    for (int blocks = s.warps_m == 1 ? 2 : 1; blocks >= 1; blocks--)
        if (chain_share_memory(plan, &s, steps > 8 ? 8 : (int)steps, blocks)) {
            *out = s;
            return 1;
        }
    return 0;
}

static int chain_schedules(const Graph *graph, const Region *region, const Target *target,
                           const DimBindings *hint, Schedule *out, int room) {
    enum { CANDIDATES = 5 };
    ChainPlan plan;
    Schedule candidates[CANDIDATES];
    const char *why;
    bool is_planned = chain_plan(graph, region, target, &plan, &why), streams = is_planned && plan.streams;
    int n = streams ? chain_stream_schedules(&plan, hint, out, room - 1) : 0,
        n_candidates = is_planned && !streams ? chain_candidates(&plan, hint, candidates) : 0;
    for (int i = 0; i < n_candidates && n < room - 1; i++)
        n += chain_with_stages(&plan, candidates[i], &out[n]);
    if (!n && template_any.schedules(graph, region, target, hint, &out[n], 1) == 1)
        out[n++].path = MATMUL_LOOP; /* what always exists */
    return n;
}

static void chain_build_region(Builder *b, const Region *region) {
    ChainPlan plan;
    const char *why;
    if (region->schedule.path == MATMUL_LOOP) {
        template_any.build(b, region);
        return;
    }
    if (!chain_plan(b->kernel->graph, region, b->kernel->target, &plan, &why)) {
        diag_error(b->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': %s", region->name, why);
        return;
    }
    (plan.streams ? chain_stream_build : chain_build)(b, &plan);
}

const Template template_chain = {
    .name = "chain", .accepts = chain_accepts, .schedules = chain_schedules, .build = chain_build_region};
