/* Products with few rows: the weights stream from memory to registers, 16 bytes a load and many loads under
 * way, and meet the rows of the first operand, which L1 keeps, in fused multiply-adds. Nothing waits for a
 * barrier before the end.
 *
 * Where the weights are contiguous along K, a thread holds a run of K of each of its columns; where they are
 * contiguous along N, a run of columns at each of its K:
 *
 *     along K:  lanes and warps_m warps along K, warps_n warps along N, tile_n / warps_n columns a thread
 *     along N:  as many lanes along N as a warp's columns need, the others and warps_m warps along K
 *
 * The parts of the sums meet first among lanes, by shuffles, then among warps, and with split_k among the
 * blocks of a cluster (matmul_partials.c). Weights may be computed: dequantized, say.
 *
 * swap_ab computes the transposed product, for few columns: then the first operand is the "weights" that
 * stream, the few columns of the second are the "rows", and "columns" lie along M. What is said of rows,
 * columns, M and N below is said of that product. The few rows of x lie along K in memory, or side by side,
 * [K, 8], as few columns do: they are loaded so. */
#include "codegen/templates/matmul_gemv.h"

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"

typedef struct Gemv {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    GemvShape shape;
    int split;
    int n_x, n_w; /* operands of each kind: several products have one in common */
    Lower *x_lower[MATMUL_CORES], *w_lower[MATMUL_CORES];
    LowerTarget x_target[MATMUL_CORES], w_target[MATMUL_CORES];
    const KExpr *thread_k;         /* first of the thread's, within a step */
    const KExpr *thread_n;         /* first column of the thread, within the tile */
    const KVar *sum[MATMUL_CORES]; /* [column][row] */
    MatmulTile tile;
} Gemv;

/* ---- runs */

Run gemv_run(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
             const KExpr *const *batch, const GemvPlace *place) {
    DimTable *dims = plan->graph->dims;
    const Value *value = operand->value;
    Run run = {.rank = value->rank, .axis = place->axis, .width = place->width};
    for (int i = 0; i < value->rank - 2; i++)
        run.coords[i] = matmul_batch_coord(b, plan, operand, i, batch);
    run.coords[operand->mn_axis] = place->mn;
    run.coords[operand->k_axis] = place->k;
    if (dim_divisor(dims, operand->mn) % place->tile_mn != 0)
        run.guard = k_lt(b, place->mn, k_dim(b, operand->mn, K_I32));
    if (dim_divisor(dims, plan->k) % schedule->tile_k != 0)
        run.guard = k_and(b, run.guard, k_lt(b, place->k, k_dim(b, plan->k, K_I32)));
    return run;
}

/* The weight's run number `slot`: unroll runs of each column (along K), or one for each of unroll K. */
static Run gemv_weight_run(const Gemv *g, int which, const KExpr *k0, const KExpr *slot) {
    Builder *b = g->b;
    const GemvShape *s = &g->shape;
    const MatmulOperand *w = gemv_weights(g->plan, g->schedule, which);
    const KExpr *u = slot, *n = k_add(b, g->tile.col, g->thread_n), *k;
    if (s->along_k) {
        u = k_div(b, slot, k_i32(b, s->cols));
        n = k_add(b, n, k_mod(b, slot, k_i32(b, s->cols)));
        int apart = GEMV_LANES * g->schedule->warps_m * s->width;
        k = k_add(b, k_add(b, k0, g->thread_k), k_mul(b, u, k_i32(b, apart)));
    } else {
        k = k_add(b, k_add(b, k0, g->thread_k), u);
    }
    const GemvPlace place = {n, k, g->schedule->tile_n, s->along_k ? w->k_axis : w->mn_axis, s->width};
    return gemv_run(b, g->plan, g->schedule, w, g->tile.batch, &place);
}

/* The few rows' elements that go with the runs `u` of all columns (along K), or with all of them, in lines:
 * rows, or places along K, whichever a run does not lie along. */
static int gemv_x_lines(const Gemv *g) {
    return g->shape.x_along_k ? g->schedule->tile_m : gemv_run_k(&g->shape);
}

static int gemv_x_length(const Gemv *g) {
    return g->shape.x_along_k ? gemv_run_k(&g->shape) : g->schedule->tile_m;
}

static int gemv_x_pieces(const Gemv *g) {
    return gemv_x_length(g) / g->shape.x_width;
}

static const KExpr *gemv_x_line(const Gemv *g) {
    return epilogue_loop(g->b, g->shape.x_along_k ? "m" : "e", gemv_x_lines(g));
}

static Run gemv_x_run(const Gemv *g, int which, const KExpr *k0, const KExpr *u, const KExpr *line,
                      const KExpr *piece) {
    Builder *b = g->b;
    const GemvShape *s = &g->shape;
    const MatmulOperand *x = gemv_few(g->plan, g->schedule, which);
    const KExpr *along = k_mul(b, piece, k_i32(b, s->x_width));
    const KExpr *k = k_add(b, k_add(b, k0, g->thread_k), s->x_along_k ? along : line);
    if (s->along_k)
        k = k_add(b, k, k_mul(b, u, k_i32(b, GEMV_LANES * g->schedule->warps_m * s->width)));
    const GemvPlace place = {k_add(b, g->tile.row, s->x_along_k ? line : along), k, g->schedule->tile_m,
                             s->x_along_k ? x->k_axis : x->mn_axis, s->x_width};
    return gemv_run(b, g->plan, g->schedule, x, g->tile.batch, &place);
}

static const KExpr *gemv_x_slot(const Gemv *g, const KExpr *u, const KExpr *line, const KExpr *piece) {
    Builder *b = g->b;
    const KExpr *at = k_add(b, k_mul(b, u, k_i32(b, gemv_x_lines(g))), line);
    return k_add(b, k_mul(b, at, k_i32(b, gemv_x_pieces(g))), piece);
}

static int gemv_slots(const GemvShape *s) {
    return s->along_k ? s->unroll * s->cols : s->unroll;
}

/* ---- one step of K */

static void gemv_load_few(Gemv *g, int which, const KExpr *k0) {
    Builder *b = g->b;
    const KExpr *zero = k_i32(b, 0);
    int times = g->shape.along_k ? g->shape.unroll : 1, lines = gemv_x_lines(g), pieces = gemv_x_pieces(g);
    g->x_target[which] = (LowerTarget){.value = gemv_few(g->plan, g->schedule, which)->value};
    Run run = gemv_x_run(g, which, k0, zero, zero, zero);
    lower_batch_begin(g->x_lower[which], &run, &g->x_target[which], 1, times * lines * pieces);
    const KExpr *u = epilogue_loop(b, "u", times), *line = gemv_x_line(g);
    const KExpr *piece = epilogue_loop(b, "p", pieces);
    run = gemv_x_run(g, which, k0, u, line, piece);
    lower_batch_load(g->x_lower[which], &run, gemv_x_slot(g, u, line, piece));
    epilogue_loop_end(b, pieces);
    epilogue_loop_end(b, lines);
    epilogue_loop_end(b, times);
}

static void gemv_load(Gemv *g, const KExpr *k0) {
    Builder *b = g->b;
    const GemvShape *s = &g->shape;
    for (int i = 0; i < g->n_w; i++) {
        g->w_target[i] = (LowerTarget){.value = gemv_weights(g->plan, g->schedule, i)->value};
        Run run = gemv_weight_run(g, i, k0, k_i32(b, 0));
        lower_batch_begin(g->w_lower[i], &run, &g->w_target[i], 1, gemv_slots(s));
        const KExpr *slot = epilogue_loop(b, "i", gemv_slots(s));
        run = gemv_weight_run(g, i, k0, slot);
        lower_batch_load(g->w_lower[i], &run, slot);
        epilogue_loop_end(b, gemv_slots(s));
    }
    for (int i = 0; i < g->n_x; i++)
        gemv_load_few(g, i, k0);
}

/* Elements of the few rows to go with runs `u`: [line][along it]. */
static const KVar *gemv_x(Gemv *g, int which, const KExpr *k0, const KExpr *u) {
    Builder *b = g->b;
    const Value *value = gemv_few(g->plan, g->schedule, which)->value;
    int pieces = gemv_x_pieces(g), lines = gemv_x_lines(g), length = gemv_x_length(g);
    const KVar *x = k_array(b, value->name ? value->name : "x", ktype_of(value->dtype), lines * length, NULL);
    const KExpr *line = gemv_x_line(g), *piece = epilogue_loop(b, "p", pieces);
    Run run = gemv_x_run(g, which, k0, u, line, piece);
    g->x_target[which].dst = x;
    g->x_target[which].at =
        k_add(b, k_mul(b, line, k_i32(b, length)), k_mul(b, piece, k_i32(b, g->shape.x_width)));
    lower_batch_run(g->x_lower[which], &run, gemv_x_slot(g, u, line, piece), &g->x_target[which], 1);
    epilogue_loop_end(b, pieces);
    epilogue_loop_end(b, lines);
    return x;
}

/* sum[column][row] += w[e] x[row][e] (along K), or sum[e][row] += w[e] x[row][u] */
static void gemv_multiply(Gemv *g, int core, const KVar *w, const KVar *x, const Run *run, const KExpr *u,
                          const KExpr *col) {
    Builder *b = g->b;
    const GemvShape *s = &g->shape;
    KType type = g->plan->accumulator;
    int rows = g->schedule->tile_m;
    const KExpr *e = epilogue_loop(b, "e", s->width);
    const KExpr *weight = k_convert(b, k_elem(b, w, e), type);
    if (run->guard &&
        !gemv_weights(g->plan, g->schedule, core)->is_memory) /* what lies outside counts as zero */
        weight = k_select(b, run->guard, weight, k_convert(b, k_i32(b, 0), type));
    weight = k_let_expr(b, "weight", weight);
    const KExpr *row = epilogue_loop(b, "m", rows);
    const KExpr *at = s->along_k ? e : u, *length = k_i32(b, gemv_x_length(g));
    const KExpr *from =
        s->x_along_k ? k_add(b, k_mul(b, row, length), at) : k_add(b, k_mul(b, at, length), row);
    const KExpr *to = k_add(b, k_mul(b, s->along_k ? col : e, k_i32(b, rows)), row);
    const KExpr *other = k_convert(b, k_elem(b, x, from), type), *sum = k_elem(b, g->sum[core], to);
    bool is_float = type == K_F32 || type == K_F64;
    k_set_elem(b, g->sum[core], to,
               is_float ? k_scalar(b, OP_fma, weight, other, sum) : k_add(b, k_mul(b, weight, other), sum));
    epilogue_loop_end(b, rows);
    epilogue_loop_end(b, s->width);
}

static void gemv_x_all(Gemv *g, const KExpr *k0, const KExpr *u, const KVar **x) {
    for (int i = 0; i < g->n_x; i++)
        x[i] = gemv_x(g, i, k0, u);
}

static void gemv_step(Gemv *g, const KExpr *k0) {
    Builder *b = g->b;
    const GemvShape *s = &g->shape;
    const KVar *x[MATMUL_CORES];
    gemv_load(g, k0);
    if (!s->along_k)
        gemv_x_all(g, k0, k_i32(b, 0), x);
    const KExpr *u = epilogue_loop(b, "u", s->unroll);
    if (s->along_k)
        gemv_x_all(g, k0, u, x);
    int cols = s->along_k ? s->cols : 1;
    const KExpr *col = epilogue_loop(b, "n", cols);
    for (int i = 0; i < g->n_w; i++) {
        const Value *value = gemv_weights(g->plan, g->schedule, i)->value;
        const KExpr *slot = s->along_k ? k_add(b, k_mul(b, u, k_i32(b, cols)), col) : u;
        Run run = gemv_weight_run(g, i, k0, slot);
        const KVar *w = k_array(b, value->name ? value->name : "w", ktype_of(value->dtype), s->width, NULL);
        g->w_target[i].dst = w;
        lower_batch_run(g->w_lower[i], &run, slot, &g->w_target[i], 1);
        for (int k = 0; k < g->n_x; k++) /* one of the two is 1: i + k is the product's number */
            gemv_multiply(g, i + k, w, x[k], &run, u, col);
    }
    epilogue_loop_end(b, cols);
    epilogue_loop_end(b, s->unroll);
    for (int i = 0; i < g->n_x; i++)
        lower_batch_end(g->x_lower[i]);
    for (int i = 0; i < g->n_w; i++)
        lower_batch_end(g->w_lower[i]);
}

/* ---- the sums */

/* What is left of the sums in a lane, once lanes have met. */
typedef struct GemvOwn {
    int n;              /* elements, the array's first */
    const KExpr *first; /* the first one's number among all sums; NULL: 0 */
    const KExpr *owns;  /* which of the lanes with the same sums may store them; NULL: there is one */
} GemvOwn;

/* Lanes that hold parts of the same sums add them. Of two that meet, one needs the lower half of the sums,
 * the other the upper: each gives away what the other needs, and goes on with half as many.
 *
 *     lane 0    a  b  c  d      a+a' b+b'      lanes 16, 8, 4 apart: 32 + 16 + 8 exchanges
 *     lane 16   a' b' c' d'     c+c' d+d'      for 64 sums, where keeping all takes 3 * 64
 *
 * Each sum is made of the same parts in the same order either way. Sums that do not halve stay in both. */
static GemvOwn gemv_add_lanes(Gemv *g, const KVar *sum) {
    Builder *b = g->b;
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    GemvOwn own = {.n = sum->count};
    for (int mask = GEMV_LANES / 2; mask >= g->shape.lanes_n; mask /= 2) {
        const KExpr *is_low = k_eq(b, k_mod(b, k_div(b, lane, k_i32(b, mask)), k_i32(b, 2)), k_i32(b, 0));
        bool halves = own.n % 2 == 0;
        if (halves) {
            own.n /= 2;
            is_low = k_let_expr(b, "is_low", is_low);
            const KExpr *begin = k_select(b, is_low, k_i32(b, 0), k_i32(b, own.n));
            own.first = own.first ? k_add(b, own.first, begin) : begin;
        } else {
            own.owns = k_and(b, own.owns, is_low);
        }
        const KExpr *i = epilogue_loop(b, "i", own.n), *mine = k_elem(b, sum, i), *other = mine;
        if (halves) {
            const KExpr *upper = k_elem(b, sum, k_add(b, i, k_i32(b, own.n)));
            other = k_let_expr(b, "given", k_select(b, is_low, upper, mine));
            mine = k_let_expr(b, "kept", k_select(b, is_low, mine, upper));
        }
        k_set_elem(b, sum, i, k_add(b, mine, k_shuffle_xor(b, other, mask)));
        epilogue_loop_end(b, own.n);
    }
    return own;
}

static void gemv_put(Gemv *g, const MatmulPartials *parts, const KExpr *warp_k) {
    Builder *b = g->b;
    const KExpr *rows = k_i32(b, g->schedule->tile_m);
    GemvOwn own = {0};
    for (int core = 0; core < g->plan->n_cores; core++)
        own = gemv_add_lanes(g, g->sum[core]);
    const KExpr *first = own.first ? k_let_expr(b, "first_sum", own.first) : k_i32(b, 0);
    if (own.owns)
        k_if_begin(b, own.owns);
    const KExpr *i = epilogue_loop(b, "i", own.n), *number = k_add(b, first, i);
    const KExpr *row = k_mod(b, number, rows), *col = k_add(b, g->thread_n, k_div(b, number, rows));
    for (int core = 0; core < g->plan->n_cores; core++)
        k_store(b, parts->buffer[core], matmul_partials_index(b, parts, warp_k, row, col), g->sum[core], i, 1,
                NULL, CACHE_DEFAULT);
    epilogue_loop_end(b, own.n);
    if (own.owns)
        k_end(b);
}

static void gemv_meet(const Gemv *g) {
    if (g->split == 1) {
        k_barrier(g->b);
        return;
    }
    k_cluster_barrier(g->b);
}

static void gemv_product(Gemv *g) {
    Builder *b = g->b;
    DimTable *dims = g->plan->graph->dims;
    const Dim *all = dim_ceil_div(dims, g->plan->k, dim_const(dims, g->schedule->tile_k));
    const KExpr *first, *end;
    matmul_partials_steps(b, all, g->split, &first, &end);
    const KExpr *step = k_for_begin(b, "k_step", first, end, 1, UNROLL_NONE);
    gemv_step(g, k_let_expr(b, "k", k_mul(b, step, k_i32(b, g->schedule->tile_k))));
    k_end(b);
}

static void gemv_operands(Gemv *g) {
    Builder *b = g->b;
    const MatmulPlan *plan = g->plan;
    g->n_x = gemv_n_few(plan, g->schedule);
    g->n_w = gemv_n_weights(plan, g->schedule);
    for (int i = 0; i < g->n_x; i++) {
        const MatmulOperand *x = gemv_few(plan, g->schedule, i);
        g->x_lower[i] = lower_new(b, matmul_operand_space(b->arena, plan->region, x->value));
        lower_set_cache(g->x_lower[i], CACHE_KEEP);
    }
    for (int i = 0; i < g->n_w; i++) {
        const MatmulOperand *w = gemv_weights(plan, g->schedule, i);
        g->w_lower[i] = lower_new(b, matmul_operand_space(b->arena, plan->region, w->value));
        lower_set_cache(g->w_lower[i], matmul_leaves_l2(plan, w) ? CACHE_STREAM : CACHE_DEFAULT);
    }
}

static const char *gemv_summary(const Gemv *g) {
    Arena *arena = g->b->arena;
    const Schedule *s = g->schedule;
    const char *few = s->swap_ab ? "column" : "row", *many = s->swap_ab ? "rows" : "weights";
    const char *along = g->shape.along_k ? "K" : s->swap_ab ? "M" : "N";
    const char *split =
        g->split > 1 ? text_format(arena, ", K split among %d blocks of a cluster", g->split) : "";
    return text_format(
        arena, "matmul by streaming: %d %s%s, %s %d contiguous along %s in runs of %d, %d under way%s",
        s->tile_m, few, s->tile_m == 1 ? "" : "s", many, s->tile_n, along, g->shape.width,
        gemv_slots(&g->shape), split);
}

void matmul_build_gemv(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    Gemv g = {.b = b, .plan = plan, .schedule = schedule};
    gemv_shape(plan, schedule, &g.shape);
    g.split = matmul_split(schedule);
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    kernel->threads = GEMV_LANES * schedule->warps_m * schedule->warps_n;
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->cluster[0] = g.split;
    kernel->grid[0] = dim_mul(plan->graph->dims, tiles.count, dim_const(plan->graph->dims, g.split));
    MatmulPartials parts =
        matmul_partials(b, plan, schedule->tile_m, schedule->tile_n, schedule->warps_m, g.split);
    parts.is_swapped = schedule->swap_ab;
    Lower *lower = lower_new(b, plan->region);
    gemv_operands(&g);

    const KExpr *lane = k_special(b, SPECIAL_LANE), *warp = k_special(b, SPECIAL_WARP);
    const KExpr *warp_k = k_let_expr(b, "warp_k", k_mod(b, warp, k_i32(b, schedule->warps_m)));
    const KExpr *warp_n = k_let_expr(b, "warp_n", k_div(b, warp, k_i32(b, schedule->warps_m)));
    const KExpr *lane_n = k_mod(b, lane, k_i32(b, g.shape.lanes_n));
    const KExpr *lane_k = k_div(b, lane, k_i32(b, g.shape.lanes_n));
    const KExpr *own_k = k_add(b, k_mul(b, warp_k, k_i32(b, g.shape.lanes_k)), lane_k);
    const KExpr *own_n = k_add(b, k_mul(b, warp_n, k_i32(b, g.shape.lanes_n)), lane_n);
    g.thread_k = k_let_expr(b, "thread_k",
                            k_mul(b, own_k, k_i32(b, g.shape.along_k ? g.shape.width : g.shape.unroll)));
    g.thread_n = k_let_expr(b, "thread_n", k_mul(b, own_n, k_i32(b, g.shape.cols)));
    const KExpr *number = k_special(b, SPECIAL_CTA_X);
    if (g.split > 1)
        number = k_div(b, number, k_i32(b, g.split));
    g.tile = matmul_tile_at(b, plan, &tiles, number);
    for (int core = 0; core < plan->n_cores; core++)
        g.sum[core] = k_array(b, plan->core[core]->name ? plan->core[core]->name : "sum", plan->accumulator,
                              schedule->tile_m * g.shape.cols, k_convert(b, k_i32(b, 0), plan->accumulator));
    gemv_product(&g);
    gemv_put(&g, &parts, warp_k);
    gemv_meet(&g);
    matmul_partials_finish(b, plan, lower, &parts, k_special(b, SPECIAL_TID), kernel->threads, g.tile.row,
                           g.tile.col, g.tile.batch);
    if (g.split > 1) /* no block leaves while another may still read its parts */
        gemv_meet(&g);
    kernel->summary = gemv_summary(&g);
}
