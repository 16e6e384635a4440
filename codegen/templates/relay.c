/* The relay template: which schedules it takes, and which it chooses (relay.h). */
#include "codegen/templates/relay.h"

#include "codegen/cost.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_staging.h"

enum { RELAY_EASE_MOST = 2 /* from here on products of two parts are not under way together */ };

/* ---- sizes */

int relay_depth(const RelayPlan *plan, int first) {
    return (int)((dim_upper(plan->graph->dims, plan->first[first].k) + PARTS_K - 1) / PARTS_K * PARTS_K);
}

int relay_rows_width(const RelayPlan *plan, const Schedule *s, int first) {
    bool goes_across = plan->has_across && plan->across_rows == first;
    return goes_across ? relay_across_width(plan, s) : parts_tile_columns(relay_depth(plan, first));
}

int relay_width(const RelayPlan *plan, const RelayBrought *brought) {
    for (int i = 0; i < plan->n_first; i++)
        if (brought->plan == &plan->first[i])
            return parts_tile_columns(relay_depth(plan, i));
    return parts_tile_columns(plan->columns);
}

bool relay_is_early(const RelayPlan *plan, int brought) {
    bool is_early = !plan->has_across;
    for (int i = 0; i < plan->n_last; i++)
        is_early = is_early && plan->last_from[i] != brought;
    return is_early;
}

static int64_t relay_smem_with(const RelayPlan *plan, const Schedule *s, int row_stages, int early_stages) {
    Schedule store = parts_store_schedule(s);
    int64_t rows = 0, parts = 0, bytes = BARRIER_BYTES;
    for (int i = 0; i < plan->n_first; i++)
        rows += relay_rows_width(plan, s, i);
    for (int i = 0; i < plan->n_brought; i++)
        parts += relay_width(plan, &plan->brought[i]) * (relay_is_early(plan, i) ? early_stages : s->stages);
    for (int i = 0; i < plan->n_last && !plan->has_across; i++)
        bytes += matmul_staging_bytes(&plan->last[i], &store);
    if (plan->has_across)
        bytes += relay_across_bytes(plan, s);
    return bytes + 2 * (row_stages * s->tile_m * rows + s->tile_k * parts);
}

int relay_row_stages(const RelayPlan *plan, const Schedule *s) {
    return relay_smem_with(plan, s, 2, relay_early_stages(plan, s)) <= plan->target->smem_per_block ? 2 : 1;
}

static bool relay_moves_none(const void *context, const Value *value) {
    (void)context;
    (void)value;
    return false;
}

/* Inputs of what lies between that have another element at each of a thread's columns: all but scalars, and
 * those of rows that nothing turns into columns. */
static int relay_column_inputs(const RelayPlan *plan) {
    const MatmulPlan *between = &plan->between;
    int n = 0;
    for (size_t i = 0; i < between->region->inputs.n; i++) {
        const Value *input = between->region->inputs.at[i];
        bool is_row = input->rank == 0 || (value_is_of_rows(input, between->core[0]) &&
                                           matmul_is_read_in_place(between, input, relay_moves_none, NULL));
        n += matmul_is_read_behind(between, input) && !is_row;
    }
    return n;
}

/* Registers of a consumer thread besides addresses and the like: while the last thing that is held of a part
 * is computed, of the products that it is computed of, and what was packed before. */
static int relay_registers(const RelayPlan *plan, const Schedule *s) {
    return plan->n_last * plan->columns / 2 + plan->n_first * s->tile_k / 2 +
           (plan->n_held - 1) * s->tile_k / 4;
}

/* The same while a first product of the next part is under way behind the last ones of this. */
static int relay_registers_ahead(const RelayPlan *plan, const Schedule *s) {
    return plan->n_last * plan->columns / 2 + s->tile_k / 2 + plan->n_held * s->tile_k / 4;
}

/* With fewer than these besides, and inputs of some columns at a time, the assembler waits for each product
 * before the next. */
bool relay_runs_ahead(const RelayPlan *plan, const Schedule *s) {
    enum { BESIDES = 48, BESIDES_AHEAD = 56, AT_ONCE = 16 };
    int most = parts_registers(plan->target, s), loads = (AT_ONCE >> s->ease) * relay_column_inputs(plan);
    return !plan->has_across && s->ease < RELAY_EASE_MOST &&
           relay_registers(plan, s) + loads + BESIDES <= most &&
           relay_registers_ahead(plan, s) + BESIDES_AHEAD <= most;
}

/* Parts of 64 columns are worth that: those of 32 read the first products' rows twice as often. */
int relay_early_stages(const RelayPlan *plan, const Schedule *s) {
    enum { WIDEST = 64, STAGES = 2 };
    bool may_be_one =
        plan->n_held == 1 && s->tile_k <= WIDEST && s->stages == STAGES && !relay_runs_ahead(plan, s);
    return may_be_one && relay_smem_with(plan, s, 1, STAGES) > plan->target->smem_per_block ? 1 : s->stages;
}

/* Registers besides that are always enough, or that may be. */
enum { RELAY_ROOMY = 48, RELAY_TIGHT = 16, RELAY_ACROSS_BESIDES = 32 };

/* With a product across: while it and a first product of the next part are under way, and last ones that take
 * what is held from registers; or while the last thing that is held is packed. */
static int relay_registers_across(const RelayPlan *plan, const Schedule *s) {
    int packed = (plan->n_held - 1) * s->tile_k / 4;
    return plan->n_last * plan->columns / 2 + packed + s->tile_k + relay_across_registers(plan, s);
}

static bool relay_fits_registers(const RelayPlan *plan, const Schedule *s, int besides) {
    if (plan->has_across)
        return relay_registers_across(plan, s) + RELAY_ACROSS_BESIDES <= parts_registers(plan->target, s);
    return relay_registers(plan, s) + besides <= parts_registers(plan->target, s);
}

/* ---- the Template row */

static bool relay_accepts_planned(const RelayPlan *plan, const Schedule *s, const char **why) {
    if (!parts_accepts(plan->target, s, why))
        return false;
    *why = "a relay's warpgroups have rows of their own";
    if (s->warps_n > 1)
        return false;
    *why = "tile_n is the columns of a last product, tile_k those of a part";
    if (s->tile_n != plan->columns || s->tile_k < PARTS_K || s->tile_k > WGMMA_N_MAX || s->tile_k % PARTS_K)
        return false;
    *why = "ease is 0, 1 or 2";
    if (s->ease < 0 || s->ease > RELAY_EASE_MOST)
        return false;
    *why = "the accumulators do not fit the registers";
    if (!relay_fits_registers(plan, s, RELAY_TIGHT))
        return false;
    if (plan->has_across && !relay_across_accepts(s, why))
        return false;
    *why = "the stages do not fit shared memory";
    if (relay_smem_with(plan, s, 1, relay_early_stages(plan, s)) > plan->target->smem_per_block)
        return false;
    *why = NULL;
    return true;
}

static bool relay_accepts(const Graph *graph, const Region *region, const Schedule *schedule,
                          const Target *target, const char **why) {
    RelayPlan plan;
    *why = "a product across has elements elsewhere than the others: no loop computes all of one place";
    if (schedule->path == MATMUL_LOOP)
        return !relay_goes_across(region);
    return relay_plan(graph, region, target, &plan, why) && relay_accepts_planned(&plan, schedule, why);
}

/* Warpgroups of a block: one, where rows do not fill the tiles of two, or too few tiles. */
static int relay_groups(const RelayPlan *plan, const DimBindings *hint) {
    if (plan->has_across)
        return RELAY_ACROSS_GROUPS;
    int64_t rows = cost_extent(plan->graph, plan->first[0].m, hint);
    int64_t batch = cost_space(plan->graph, plan->region, 0, plan->first[0].batch_rank, hint);
    int64_t pairs = batch * ((rows + 2 * WGMMA_M - 1) / (2 * WGMMA_M));
    return rows <= WGMMA_M || 2 * pairs <= plan->target->sm_count ? 1 : 2;
}

/* Which candidates: whether they run ahead, columns of a part at least and at most, whether registers suffice
 * in any case. */
typedef struct RelayWanted {
    bool ahead;
    int least, most;
    bool is_roomy;
} RelayWanted;

/* As many stages as fit; with the fewest, outputs may go as they lie in registers, where boxes find no
 * memory. False: it is not taken with any. */
static bool relay_find_stages(const RelayPlan *plan, Schedule *s) {
    enum { FEWEST = 2, MOST = 3 };
    const char *why;
    for (s->stages = MOST; s->stages >= FEWEST; s->stages--)
        if (relay_accepts_planned(plan, s, &why))
            return true;
    s->stages = FEWEST;
    s->tma_store = false;
    return relay_accepts_planned(plan, s, &why);
}

static int relay_candidates(const RelayPlan *plan, int groups, const RelayWanted *wanted, Schedule *out,
                            int room) {
    enum { PRODUCERS = 40, CONSUMERS = 232 };
    static const int parts[] = {128, 96, 64, 48, 32};
    int n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        Schedule s = parts_schedule(groups, plan->columns, parts[i]);
        if (plan->has_across && relay_registers_across(plan, &s) + RELAY_ACROSS_BESIDES <= CONSUMERS) {
            s.producer_registers = PRODUCERS; /* who adds and brings has more to remember than who loads */
            s.consumer_registers = CONSUMERS;
        }
        for (; s.ease <= RELAY_EASE_MOST && n < room; s.ease += wanted->ahead ? 1 : RELAY_EASE_MOST) {
            if (parts[i] < wanted->least || parts[i] > wanted->most ||
                relay_runs_ahead(plan, &s) != wanted->ahead ||
                relay_fits_registers(plan, &s, RELAY_ROOMY) != wanted->is_roomy)
                continue;
            out[n] = s;
            n += relay_find_stages(plan, &out[n]);
        }
    }
    return n;
}

/* Parts that run ahead are better than wider ones that do not, unless they are narrow: then the first
 * products' rows are read too often. Not so where one thing is held, of two products: it waits for both
 * either way (dq of 128 heads of 4096 x 128 took 2587 us, and 2705 so; gelu between 128 and 4096 columns of
 * 65536 rows 305 and 265). Parts of 48 of which nothing spills are worth less than those of 64 of which
 * nothing does by chance (dk and dv of those heads: 3901 and 3659). */
static int relay_schedules(const Graph *graph, const Region *region, const Target *target,
                           const DimBindings *hint, Schedule *out, int room) {
    enum { NARROW = 64, WIDEST = 128 };
    static const RelayWanted ahead = {true, NARROW, WIDEST, true}, roomy = {false, NARROW, WIDEST, true},
                             tight = {false, NARROW, WIDEST, false}, narrow = {false, 0, NARROW - 1, true};
    RelayPlan plan;
    const char *why;
    int n = 0;
    bool is_planned = relay_plan(graph, region, target, &plan, &why);
    bool ahead_first = plan.n_first == 1 || plan.n_held > 1;
    const RelayWanted *order[] = {ahead_first ? &ahead : &roomy, ahead_first ? &roomy : &ahead, &tight,
                                  &narrow};
    for (int groups = is_planned ? relay_groups(&plan, hint) : 0; groups >= 1; groups--)
        for (size_t i = 0; i < sizeof order / sizeof *order; i++)
            n += relay_candidates(&plan, groups, order[i], out + n, room - 1 - n);
    if (!n && !relay_goes_across(region) &&
        template_any.schedules(graph, region, target, hint, &out[n], 1) == 1)
        out[n++].path = MATMUL_LOOP; /* what always exists */
    return n;
}

static void relay_build_region(Builder *b, const Region *region) {
    RelayPlan plan;
    const char *why;
    if (region->schedule.path == MATMUL_LOOP) {
        template_any.build(b, region);
        return;
    }
    if (!relay_plan(b->kernel->graph, region, b->kernel->target, &plan, &why)) {
        diag_error(b->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': %s", region->name, why);
        return;
    }
    relay_build(b, &plan);
}

const Template template_relay = {
    .name = "relay", .accepts = relay_accepts, .schedules = relay_schedules, .build = relay_build_region};
