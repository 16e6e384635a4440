/* A guest: the rows of the product, once they are in memory, by warps of the same kernel that have nothing
 * else to do (region.h).
 *
 * A norm over rows that are longer than a tile cannot begin before other blocks have stored the rest of a
 * row, so it would be a kernel of its own, which begins when all products have ended. Here three warps of the
 * producer's warpgroup, which only shared registers until now, take rows while the others multiply:
 *
 *     warp 0         | loads of tile 0 | of tile 1 | of tile 2 |                      | rows
 *     warps 1-3      | wait            | rows of the first row of tiles | rows ...    | rows
 *     consumers      | tile 0          | tile 1    | tile 2    | (no tile is left)    | rows
 *                              raises `done` ^           ^
 *
 * A row of tiles is in memory when all warps that store a part of it have added to its counter in `done`.
 * Rows go to warps by tickets, in the order of the matrix, which is roughly the order of tiles. Nobody who
 * multiplies waits for a guest, so the products always go on; and all blocks run together (a cooperative
 * launch), so what a guest waits for does come.
 *
 * A warp adds to the counter late, within the products of its next tile: by then its stores have ended, and
 * nobody waits for them. */
#include "codegen/template.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/rows.h"
#include "codegen/templates/wgmma.h"

enum {
    GUEST_LATE = 4,            /* steps of the next tile's products before a tile is said to be stored */
    GUEST_TICKET_BYTES = 8192, /* of a product's rows that a warp takes at a time, where they are short */
    GUEST_DONE = 32            /* counters of rows of tiles begin in the line behind the tickets' */
};

/* The address of the counter of a row of tiles. */
static const KExpr *guest_done(Wgmma *w, const KExpr *tile_row) {
    return k_global_addr(w->b, w->guest.counters, k_add(w->b, tile_row, k_i32(w->b, GUEST_DONE)));
}

static int64_t guest_warps(const Wgmma *w) {
    return wgmma_releases(w->schedule); /* that store a tile, as they all multiply for it */
}

/* Rows that one ticket stands for: they lie in one row of tiles. */
static int guest_rows(const MatmulPlan *plan, const Schedule *schedule) {
    DimTable *dims = plan->graph->dims;
    int64_t longest = dim_upper(dims, plan->n), bytes = longest * dtype_bits(DTYPE_BF16) / 8;
    int rows = 1;
    while (rows < schedule->tile_m && 2 * rows * bytes <= GUEST_TICKET_BYTES &&
           schedule->tile_m % (2 * rows) == 0 && dim_divisor(dims, plan->m) % (2 * rows) == 0)
        rows *= 2;
    return rows;
}

/* How a warp with so many registers a thread (0: those at launch) takes a row. */
static Schedule guest_schedule(const MatmulPlan *plan, const Schedule *schedule, int registers) {
    return rows_warp_schedule(plan->graph, plan->region->guest, registers ? registers : GUEST_AT_LAUNCH,
                              schedule->ease);
}

/* Whether the guest's rows are this product's, one by one. */
static bool guest_fits(const MatmulPlan *plan) {
    const Region *guest = plan->region->guest;
    const Value *core = plan->core[0];
    bool fits = guest->kind == TEMPLATE_ROWS && guest->n_reduced == 1 && guest->rank == core->rank;
    for (int i = 0; fits && i < guest->rank; i++)
        fits = guest->dims[i] == core->dims[i];
    return fits;
}

bool wgmma_has_idle_warps(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "the warps that a guest would have compute an operand";
    if (matmul_converters(plan, schedule) || schedule->fragments)
        return false;
    *why = "the warps that a guest has need 56 registers a thread";
    return !schedule->consumer_registers || schedule->producer_registers >= GUEST_REGISTERS;
}

bool wgmma_accepts_guest(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "a guest has the rows of the product";
    if (!guest_fits(plan))
        return false;
    *why = "rows that another kernel's warps take are those of tiles that lie along N, whole and in turn: no "
           "swap_ab, split_k, cluster or row statistics";
    if (schedule->swap_ab || matmul_split(schedule) > 1 || plan->statistics.n || schedule->cluster_m > 1 ||
        schedule->cluster_n > 1 || !schedule->persistent)
        return false;
    if (!wgmma_has_idle_warps(plan, schedule, why))
        return false;
    *why = "rows are taken beside one or two warpgroups that multiply";
    if (schedule->warps_m > 2)
        return false;
    *why = "blocks that wait for each other's tiles run together: their number must be known";
    const Dim *grid = matmul_persistent_grid(plan, schedule);
    if (!schedule->stream_k && (!dim_is_const(grid) || grid->value < 1))
        return false;
    Schedule rows = guest_schedule(plan, schedule, schedule->producer_registers);
    return template_rows.accepts(plan->graph, plan->region->guest, &rows, plan->target, why);
}

void wgmma_guest_new(Wgmma *w) {
    Builder *b = w->b;
    Kernel *kernel = b->kernel;
    DimTable *dims = w->plan->graph->dims;
    const Region *host = w->plan->region;
    if (!matmul_rows_guest(w->plan))
        return;
    w->guest = (WgmmaGuest){.region = host->guest, .rows = guest_rows(w->plan, w->schedule)};
    for (size_t i = 0; i < host->outputs.n; i++) /* which the guest reads while other tiles are stored */
        k_global(b, host->outputs.at[i], true);
    const Dim *counters =
        dim_add(dims, dim_const(dims, GUEST_DONE), dim_mul(dims, w->tiles.tiles_m, w->tiles.batch));
    w->guest.counters = signals_new(w->b, &w->signals, "counters", DTYPE_I32, counters);
    kernel->gang = (int)kernel->grid[0]->value;
}

/* ---- those who store tiles */

/* Whether a tile is said to be stored within the next one's products, or right behind its epilogue: where
 * those are no plain loop, or there may be no step. */
static bool guest_is_late(const Wgmma *w) {
    return !w->partial_cols && wgmma_has_steps(w);
}

void wgmma_guest_start(Wgmma *w, const MatmulStaging *staging) {
    if (!w->guest.region)
        return;
    w->guest.has_bulk = staging && staging->n_tma;
    w->guest.pending = k_variable(w->b, "pending", K_I32, k_i32(w->b, -1));
}

/* The warp's part of the pending row of tiles is in memory. */
static void guest_raise(Wgmma *w, const KExpr *when) {
    Builder *b = w->b;
    const KExpr *pending = k_var(b, w->guest.pending);
    k_if_begin(b, k_and(b, when, k_ge(b, pending, k_i32(b, 0))));
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_LANE), k_i32(b, 0)));
    if (w->guest.has_bulk)
        k_atom(b, ATOM_bulk_wait, (int[]){0}, NULL, 0);
    KOperand operands[] = {k_operand(guest_done(w, pending)), k_operand(k_int(b, K_U32, 1))};
    k_atom(b, ATOM_flag_add, NULL, operands, 2);
    k_end(b);
    k_set(b, w->guest.pending, k_i32(b, -1));
    k_end(b);
}

/* Number of the row of tiles that has row `row` of a matrix. */
static const KExpr *guest_tile_row(Wgmma *w, const KExpr *matrix, const KExpr *row) {
    Builder *b = w->b;
    const KExpr *number = k_div(b, row, k_i32(b, w->tiles.tile_m));
    return matrix ? k_add(b, k_mul(b, matrix, k_dim(b, w->tiles.tiles_m, K_I32)), number) : number;
}

void wgmma_guest_stored(Wgmma *w, const MatmulTile *tile) {
    Builder *b = w->b;
    const KExpr *matrix = NULL;
    if (!w->guest.region)
        return;
    for (int i = 0; i < w->plan->batch_rank; i++) {
        const KExpr *dim = k_dim(b, w->plan->region->dims[i], K_I32);
        const KExpr *at = k_convert(b, tile->batch[i], K_I32);
        matrix = matrix ? k_add(b, k_mul(b, matrix, dim), at) : at;
    }
    k_set(b, w->guest.pending, guest_tile_row(w, matrix, tile->row));
    if (!guest_is_late(w))
        guest_raise(w, NULL);
}

void wgmma_guest_step(Wgmma *w, const KExpr *step, const KExpr *steps) {
    Builder *b = w->b;
    if (!w->guest.pending || !guest_is_late(w))
        return;
    const KExpr *late = k_min(b, k_sub(b, steps, k_i32(b, 1)), k_i32(b, GUEST_LATE));
    guest_raise(w, k_eq(b, step, late));
}

void wgmma_guest_end(Wgmma *w) {
    if (w->guest.region && guest_is_late(w))
        guest_raise(w, NULL);
}

/* ---- those who take rows */

/* Draws the warp's next ticket, into a register of lane 0. */
static void guest_draw(Wgmma *w, const KVar *drawn) {
    Builder *b = w->b;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_LANE), k_i32(b, 0)));
    KOperand operands[] = {k_reg(drawn), k_operand(k_global_addr(b, w->guest.counters, k_i32(b, 0))),
                           k_operand(k_int(b, K_U32, 1))};
    k_atom(b, ATOM_ticket, NULL, operands, 3);
    k_end(b);
}

/* Until all of the row of tiles that has `row` is in memory. */
static void guest_wait(Wgmma *w, const KExpr *row) {
    Builder *b = w->b;
    const KExpr *rows = k_dim(b, w->plan->m, K_I32);
    bool has_batch = w->plan->batch_rank > 0;
    const KExpr *tile = has_batch ? guest_tile_row(w, k_div(b, row, rows), k_mod(b, row, rows))
                                  : guest_tile_row(w, NULL, row);
    const KExpr *parts = k_mul(b, k_dim(b, w->tiles.tiles_n, K_I32), k_i32(b, guest_warps(w)));
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_LANE), k_i32(b, 0)));
    KOperand operands[] = {k_operand(guest_done(w, tile)), k_operand(k_convert(b, parts, K_U32))};
    k_atom(b, ATOM_flag_reach, NULL, operands, 2);
    k_end(b);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
}

void wgmma_guest_rows(Wgmma *w, int registers) {
    Builder *b = w->b;
    DimTable *dims = w->plan->graph->dims;
    const Region *region = w->guest.region;
    if (!region)
        return;
    k_comment(b, "rows of %s, as soon as what they need is stored",
              k_global(b, region->outputs.at[0], true)->name);
    Schedule *schedule = ARENA_NEW(b->arena, Schedule);
    *schedule = guest_schedule(w->plan, w->schedule, registers);
    const Dim *rows = dim_mul(dims, w->tiles.batch, w->plan->m);
    const KExpr *lane = k_special(b, SPECIAL_LANE), *each = k_i32(b, w->guest.rows);
    const KExpr *tickets = k_div(b, k_dim(b, rows, K_I32), each); /* each divides a matrix's rows */
    const KVar *drawn = k_variable(b, "drawn", K_I32, k_i32(b, 0));
    const KVar *advance = k_variable(b, "advance", K_I32, k_i32(b, 0));
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0); /* lanes that loaded, or waited for those, meet */
    signals_wait(w->b, &w->signals);
    guest_draw(w, drawn);
    const KExpr *first = k_shuffle_index(b, "first_ticket", k_var(b, drawn), k_i32(b, 0));
    const KExpr *ticket = k_for_step_begin(b, "ticket", first, tickets, k_var(b, advance));
    guest_draw(w, drawn); /* the next, which is there when this one's rows are done */
    const KExpr *row = k_let_expr(b, "first_row", k_mul(b, ticket, each));
    guest_wait(w, row);
    if (w->guest.rows > 1)
        row = k_add(b, row, k_for_begin(b, "row_of_ticket", k_i32(b, 0), each, 1, UNROLL_NONE));
    b->rounds_products = true; /* whichever warps take a row, its bits are the same */
    rows_build_warp(b, region, schedule, row, lane);
    b->rounds_products = false;
    if (w->guest.rows > 1)
        k_end(b);
    const KExpr *next = k_shuffle_index(b, "next_ticket", k_var(b, drawn), k_i32(b, 0));
    k_set(b, advance, k_sub(b, next, ticket));
    k_end(b);
}

const char *wgmma_guest_name(const Wgmma *w) {
    const Region *guest = matmul_has_idle_guest(w->plan) ? w->plan->region->guest : NULL;
    return guest ? text_format(w->b->arena, ", %s of '%s' by idle warps",
                               guest->kind == TEMPLATE_ROWS ? "rows" : "columns",
                               k_global(w->b, guest->outputs.at[0], true)->name)
                 : "";
}
