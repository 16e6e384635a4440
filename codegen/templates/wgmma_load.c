/* What comes into shared memory: the operands' tiles, the loop over tiles, the producer, and the warpgroups
 * that compute an operand on its way. */
#include "codegen/template.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

/* ---- operands */

Tile wgmma_tile(const Wgmma *w, const WgmmaOperand *o, const char *name, int stages, const Tile *over) {
    const Schedule *schedule = w->schedule;
    bool is_k = o->operand->major == MAJOR_K;
    int held = matmul_held(w->plan, schedule, o->is_rows);
    int along_k = matmul_row_elements(w->plan, schedule, o->operand);
    int rows = is_k ? held : along_k, cols = is_k ? along_k : held;
    DType elem = o->operand->elem;
    return over ? tile_over(over->buffer, elem, rows, cols, stages, over->pitch)
                : tile_shared(w->b, name, elem, rows, cols, stages);
}

void wgmma_add_operand(Wgmma *w, const MatmulOperand *operand, const char *name, bool is_rows) {
    const Schedule *schedule = w->schedule;
    Builder *b = w->b;
    WgmmaOperand *o = &w->operands[w->n_operands++];
    o->operand = operand;
    o->is_rows = is_rows;
    o->tile_mn = is_rows ? schedule->tile_m : schedule->tile_n;
    if (matmul_has_fragments(w->plan, schedule, operand)) {
        wgmma_fragments_new(w, o, name);
        return;
    }
    if (matmul_is_converted(w->plan, operand)) {
        MatmulConvert *convert = &w->converts[w->n_converts++];
        *convert = matmul_convert(b, w->plan, schedule, operand, name, o->tile_mn);
        w->converters = matmul_converters(w->plan, schedule);
        o->convert = convert;
        if (convert->is_brought) {
            o->tile = convert->skew.tile;
            return;
        }
        MatmulOperand *made = ARENA_NEW(b->arena, MatmulOperand);
        *made = *operand;
        made->major = convert->loader.tile_major;
        o->operand = made;
        o->tile = convert->loader.tile;
        return;
    }
    if (schedule->patches) {
        wgmma_patch_operand(w, o, name);
        return;
    }
    o->tile = wgmma_tile(w, o, name, schedule->stages, NULL);
    if (matmul_has_chosen_rows(operand))
        wgmma_rows_new(w, o);
}

/* Whether each element is loaded by one block only: a streamed weight should leave L2 to what is read again.
 */
static bool wgmma_is_read_once(const Wgmma *w, const WgmmaOperand *o) {
    const Dim *across = o->is_rows ? w->tiles.tiles_n : w->tiles.tiles_m;
    return dim_is(across, 1) && o->operand->n_batch == w->plan->batch_rank &&
           matmul_leaves_l2(w->plan, o->operand);
}

MatmulTma wgmma_tma(const Wgmma *w, const WgmmaOperand *o) {
    int64_t filled = matmul_filled_unit(w->plan, w->schedule);
    return (MatmulTma){
        .operand = o->fragments ? wgmma_fragments_source(o->fragments) : o->operand,
        .tile = o->tile,
        .members = o->is_rows ? (MatmulMembers){1, -1, -1, false} : w->tiles.members,
        .maps = o->maps,
        .share = o->is_rows ? w->tiles.cluster_n : w->tiles.cluster_m,
        .share_step = o->is_rows ? w->tiles.cluster_m : 1,
        .cluster = w->cluster,
        .chosen = o->chosen,
        .pages = o->pages,
        .patch = w->tiles.patch.is_along_k || (w->tiles.patch.axes && o->is_rows) ? &w->tiles.patch : NULL,
        .windows = o->windows,
        .dealt = o->is_rows ? &w->dealt.rows : NULL,
        .piece = w->dealt.piece,
        .unit = filled ? w->plan->k_unit : NULL,
        .unit_end = filled ? matmul_unit_end(w->plan, w->schedule, o->operand) : NULL,
        .filled = filled,
        .is_once = wgmma_is_read_once(w, o),
        .is_clipped = !o->fragments && !w->plan->columns.n && !(w->tiles.patch.axes && o->is_rows) &&
                      !(o->is_rows ? w->tiles.rows_end : w->tiles.cols_end)};
}

bool wgmma_is_early(Builder *b, const MatmulOperand *operand) {
    return !k_global(b, operand->view.base, false)->late &&
           (!operand->chosen || !k_global(b, operand->chosen->index.base, false)->late);
}

/* Which pages a load is of: ahead of a tile's loads where they lie along M or N, else (k0 is one) ahead of a
 * step's. */
static void wgmma_find_pages(Wgmma *w, const MatmulTile *tile, const KExpr *k0) {
    for (int i = 0; i < w->n_operands; i++) {
        WgmmaOperand *o = &w->operands[i];
        MatmulTma tma = wgmma_tma(w, o);
        if (o->convert || o->rows || (tma.operand->major == MAJOR_MN) != (k0 != NULL))
            continue;
        matmul_tma_find_pages(w->b, w->plan, &tma, o->is_rows ? tile->row : tile->col, k0, tile->batch);
        o->pages = tma.pages;
    }
}

/* Ahead of a tile's loads. */
static void wgmma_choose(Wgmma *w, const MatmulTile *tile) {
    const KExpr *piece = wgmma_dealt_tile(w, tile);
    w->dealt.piece = piece ? k_let_expr(w->b, "row_start", piece) : NULL;
    for (int i = 0; i < w->n_operands; i++) {
        WgmmaOperand *o = &w->operands[i];
        if (!o->convert)
            o->chosen = matmul_chosen_matrix(w->b, w->plan, wgmma_tma(w, o).operand, tile->batch);
    }
    wgmma_find_pages(w, tile, NULL);
    for (int i = 0; i < w->n_operands; i++) {
        WgmmaOperand *o = &w->operands[i];
        MatmulTma tma = wgmma_tma(w, o);
        if (o->convert || o->rows)
            continue;
        matmul_tma_find_windows(w->b, w->plan, &tma, o->is_rows ? tile->row : tile->col, tile->batch);
        o->windows = tma.windows;
    }
}

/* ---- the two roles */

const KExpr *wgmma_numbers_begin(Wgmma *w, const KExpr *skip, int turns) {
    Builder *b = w->b;
    const KExpr *first = k_special(b, SPECIAL_CTA_X), *step = k_special(b, SPECIAL_GRID_X);
    if (w->tiles.together > 1) {
        first = k_div(b, first, k_i32(b, w->tiles.together));
        step = k_div(b, step, k_i32(b, w->tiles.together));
    }
    if (w->tiles.reach.axes) {
        const KExpr *rounds = matmul_reach_rounds(b, first, step, k_dim(b, w->count, K_I32));
        const KExpr *round = k_for_begin(b, "round", k_i32(b, 0), rounds, 1, UNROLL_NONE);
        return matmul_reach_tile(b, first, step, round);
    }
    if (turns > 1)
        first = k_add(b, first, k_mul(b, skip, step));
    return k_for_step_begin(b, "tile", first, k_dim(b, w->count, K_I32), k_mul(b, step, k_i32(b, turns)));
}

/* A split has one cluster a tile. */
void wgmma_tiles_begin(Wgmma *w, const KExpr *skip, int turns, MatmulTile *tile) {
    Builder *b = w->b;
    const KExpr *first = k_special(b, SPECIAL_CTA_X);
    if (w->split > 1) {
        *tile = matmul_tile_at(b, w->plan, &w->tiles, k_div(b, first, k_i32(b, w->split)));
        return;
    }
    if (w->stream.blocks) {
        *tile = matmul_tile_at(b, w->plan, &w->tiles, wgmma_stream_begin(w));
        return;
    }
    *tile = matmul_tile_at(b, w->plan, &w->tiles, wgmma_numbers_begin(w, skip, turns));
    if (w->tiles.reach.axes)
        w->reached = matmul_reached(b, &w->tiles.reach, tile->col);
}

void wgmma_tiles_end(Wgmma *w) {
    if (w->split == 1)
        k_end(w->b);
}

bool wgmma_steps_differ(const Wgmma *w) {
    return w->stream.blocks || w->tiles.reach.axes;
}

/* Steps of K that this block takes, and the first of them. */
const KExpr *wgmma_steps(Wgmma *w, const KExpr **first) {
    Builder *b = w->b;
    const KExpr *all = k_dim(b, w->steps, K_I32), *split = k_i32(b, w->split);
    if (w->stream.blocks) {
        *first = w->stream.first;
        return w->stream.count;
    }
    *first = k_i32(b, 0);
    if (w->tiles.reach.axes)
        return w->reached.steps;
    if (w->split == 1)
        return all;
    const KExpr *rank = k_convert(b, k_special(b, SPECIAL_CTA_RANK), K_I32);
    *first = rank;
    if (dim_divisor(w->plan->graph->dims, w->steps) % w->split == 0)
        return k_div(b, all, split);
    return k_let_expr(b, "steps", k_div(b, k_sub(b, k_add(b, all, k_i32(b, w->split - 1)), rank), split));
}

const KExpr *wgmma_k0(Wgmma *w, const KExpr *first, const KExpr *step) {
    Builder *b = w->b;
    if (w->split > 1)
        step = k_mul(b, step, k_i32(b, w->split));
    if (w->tiles.patch.is_along_k) /* the first place of a patch */
        return matmul_patch_row(b, &w->tiles.patch, k_add(b, first, step));
    if (w->tiles.reach.axes)
        step = matmul_reached_step(b, &w->tiles.reach, &w->reached, step);
    return k_mul(b, k_add(b, first, step), k_i32(b, w->schedule->tile_k));
}

bool wgmma_has_raw(const Wgmma *w) {
    return w->n_converts && !w->converts[0].is_brought;
}

/* The next raw tile, from which the converter makes its operand: number `unit` along K. */
static void wgmma_load_raw(Wgmma *w, const PipelineState *raw, const MatmulTile *tile, const KExpr *unit) {
    Builder *b = w->b;
    const MatmulConvert *convert = &w->converts[0];
    bool is_rows = matmul_is_converted(w->plan, &w->plan->a) != w->schedule->swap_ab;
    const KExpr *k0 = k_mul(b, unit, k_i32(b, (int64_t)w->schedule->tile_k * convert->ratio));
    pipeline_wait_empty(b, &convert->raw, raw);
    pipeline_expect(b, &convert->raw, raw, k_int(b, K_U32, tile_bytes(&convert->tma.tile)));
    matmul_tma_load(b, w->plan, &convert->tma, k_var(b, raw->stage),
                    pipeline_full_address(b, &convert->raw, raw), is_rows ? tile->row : tile->col, k0,
                    tile->batch);
    pipeline_advance(b, &convert->raw, raw);
}

static const KExpr *wgmma_units(Wgmma *w) {
    return k_div(w->b, k_dim(w->b, w->steps, K_I32), k_i32(w->b, w->converts[0].ratio));
}

/* The first raw tiles of a tile, all on their way together. */
static void wgmma_first_raw(Wgmma *w, const PipelineState *raw, const MatmulTile *tile) {
    Builder *b = w->b;
    if (!wgmma_has_raw(w))
        return;
    MatmulTma *tma = &w->converts[0].tma;
    tma->chosen = matmul_chosen_matrix(b, w->plan, tma->operand, tile->batch);
    const KExpr *end = k_min(b, wgmma_units(w), k_i32(b, w->converts[0].ahead));
    wgmma_load_raw(w, raw, tile, k_for_begin(b, "unit", k_i32(b, 0), end, 1, UNROLL_NONE));
    k_end(b);
}

/* In a step of the other operand, those that are due. */
static void wgmma_next_raw(Wgmma *w, const PipelineState *raw, const MatmulTile *tile, const KExpr *step) {
    Builder *b = w->b;
    if (!wgmma_has_raw(w))
        return;
    const KExpr *ratio = k_i32(b, w->converts[0].ratio);
    const KExpr *unit = k_add(b, k_div(b, step, ratio), k_i32(b, w->converts[0].ahead));
    k_if_begin(b, k_and(b, k_eq(b, k_mod(b, step, ratio), k_i32(b, 0)), k_lt(b, unit, wgmma_units(w))));
    wgmma_load_raw(w, raw, tile, unit);
    k_end(b);
}

/* Each converter has every n-th raw tile, through all tiles. */
void wgmma_convert(Wgmma *w) {
    Builder *b = w->b;
    int n = w->converters, ratio = w->converts[0].ratio;
    const KExpr *number = k_div(b, k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4)), k_i32(b, 4));
    number = n > 1 ? k_let_expr(b, "converter", number) : k_i32(b, 0);
    PipelineState raw = pipeline_start(b, &w->converts[0].raw), state = pipeline_start(b, &w->pipeline);
    k_set(b, raw.stage, number);
    k_set(b, state.stage, k_mul(b, number, k_i32(b, ratio)));
    const KVar *first = k_variable(b, "first_unit", K_I32, number);
    const KExpr *units = wgmma_units(w);
    MatmulTile tile;
    wgmma_tiles_begin(w, NULL, 1, &tile);
    const KExpr *unit = k_for_begin(b, "unit", k_var(b, first), units, n, UNROLL_NONE);
    const KExpr *k0 = k_mul(b, unit, k_i32(b, (int64_t)w->schedule->tile_k * ratio));
    for (int i = 0; i < w->n_operands; i++)
        if (w->operands[i].convert)
            matmul_convert_raw(b, &w->converts[0], &w->pipeline, &raw, &state,
                               w->operands[i].is_rows ? tile.row : tile.col, k0, tile.batch);
    for (int i = 1; i < n; i++) { /* past the other converters' */
        pipeline_advance(b, &w->converts[0].raw, &raw);
        for (int k = 0; k < ratio; k++)
            pipeline_advance(b, &w->pipeline, &state);
    }
    k_end(b);
    if (n > 1 && dim_divisor(w->plan->graph->dims, w->steps) % (n * ratio) != 0) { /* the next tile's first */
        const KExpr *left = k_max(b, k_sub(b, units, k_var(b, first)), k_i32(b, 0));
        const KExpr *turns = k_div(b, k_add(b, left, k_i32(b, n - 1)), k_i32(b, n));
        k_set(b, first, k_sub(b, k_add(b, k_var(b, first), k_mul(b, turns, k_i32(b, n))), units));
    }
    wgmma_tiles_end(w);
}

/* The steps of K that this block takes of a product. */
typedef struct WgmmaSteps {
    const KExpr *first, *count;
} WgmmaSteps;

/* The copies of a step into the present stage: of operands that are early, or of those that are not, or of
 * all. */
static void wgmma_load_step(Wgmma *w, const PipelineState *state, const MatmulTile *tile, const KExpr *k0,
                            bool early, bool late) {
    Builder *b = w->b;
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        if (o->convert || o->rows || o->is_resident || !(o->is_early ? early : late))
            continue;
        MatmulTma tma = wgmma_tma(w, o);
        const KExpr *mn0 = o->is_rows ? tile->row : tile->col;
        const KExpr *at = w->dealt.rows.count && !o->is_rows ? k_sub(b, k0, w->dealt.shift) : k0;
        if (o->taps)
            wgmma_load_taps(w, &tma, state, mn0, at, tile->batch);
        else
            matmul_tma_load(b, w->plan, &tma, k_var(b, state->stage),
                            pipeline_full_address(b, &w->pipeline, state), mn0, at, tile->batch);
        wgmma_fragments_load(w, o, state, k0);
    }
}

static const KExpr *wgmma_bytes(Wgmma *w, const MatmulTile *tile) {
    Builder *b = w->b;
    const KExpr *bytes = k_int(b, K_U32, wgmma_fragments_bytes(w->plan, w->schedule));
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        MatmulTma tma = wgmma_tma(w, o);
        if (!o->convert && !o->rows && !o->is_resident)
            bytes = k_add(b, bytes,
                          k_mul(b, matmul_tma_bytes(b, &tma, o->is_rows ? tile->row : tile->col),
                                k_int(b, K_U32, o->taps ? o->taps : 1)));
    }
    return bytes;
}

/* The copies of what is early, of the first `count` steps of one product. */
static void wgmma_load_early(Wgmma *w, const PipelineState *state, const MatmulTile *tile, const KExpr *first,
                             const KExpr *count) {
    Builder *b = w->b;
    wgmma_choose(w, tile);
    const KExpr *step = k_for_begin(b, "early", k_i32(b, 0), count, 1, UNROLL_NONE);
    const KExpr *k0 = wgmma_k0(w, first, step);
    wgmma_find_pages(w, tile, k0);
    pipeline_expect(b, &w->pipeline, state, wgmma_bytes(w, tile));
    wgmma_load_step(w, state, tile, k0, true, false);
    pipeline_advance(b, &w->pipeline, state);
    k_end(b);
}

/* Of the first tile, as many stages as there are: weights are on their way while the kernel before ends.
 * Gives how many have been begun so. */
static const KVar *wgmma_start_early(Wgmma *w, const WgmmaSteps *products) {
    Builder *b = w->b;
    const KExpr *number = k_special(b, SPECIAL_CTA_X), *all = k_i32(b, 0), *done = k_i32(b, 0);
    int together = w->split > 1 ? w->split : w->tiles.together;
    if (together > 1)
        number = k_div(b, number, k_i32(b, together));
    MatmulTile tile = matmul_tile_at(b, w->plan, &w->tiles, number);
    PipelineState state = pipeline_start(b, &w->pipeline);
    for (int i = 0; i <= w->n_terms; i++)
        all = k_add(b, all, products[i].count);
    const KExpr *most = k_min(b, all, k_i32(b, w->pipeline.stages));
    const KVar *begun = k_variable(b, "begun", K_I32, most);
    for (int i = 0; i < w->n_terms; i++) {
        Wgmma term = wgmma_term(w, i);
        wgmma_load_early(&term, &state, &tile, products[i].first,
                         k_min(b, k_sub(b, most, done), products[i].count));
        done = k_add(b, done, products[i].count);
    }
    wgmma_load_early(w, &state, &tile, products[w->n_terms].first,
                     w->n_terms ? k_sub(b, most, done) : k_var(b, begun));
    template_order(b, w->plan->region);
    return begun;
}

/* The steps of one product; of `begun` stages, what is early is on its way. */
static void wgmma_load_product(Wgmma *w, const PipelineState *state, const PipelineState *raw,
                               const MatmulTile *tile, const WgmmaSteps *steps, const KVar *begun) {
    Builder *b = w->b;
    wgmma_choose(w, tile);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps->count, 1, UNROLL_NONE);
    const KExpr *k0 = k_let_expr(b, "k", wgmma_k0(w, steps->first, step));
    wgmma_next_raw(w, raw, tile, step);
    wgmma_find_pages(w, tile, k0);
    if (begun) {
        k_if_begin(b, k_lt(b, k_i32(b, 0), k_var(b, begun)));
        k_set(b, begun, k_sub(b, k_var(b, begun), k_i32(b, 1)));
        k_else(b);
    }
    pipeline_wait_empty(b, &w->pipeline, state);
    pipeline_expect(b, &w->pipeline, state, wgmma_bytes(w, tile));
    if (begun) {
        wgmma_load_step(w, state, tile, k0, true, false);
        k_end(b);
    }
    wgmma_load_step(w, state, tile, k0, !begun, true);
    pipeline_advance(b, &w->pipeline, state);
    k_end(b);
}

/* A tile of one of several products. */
typedef struct WgmmaLoad {
    const PipelineState *state;
    const WgmmaSteps *steps;
} WgmmaLoad;
static void wgmma_load_tile(Wgmma *w, int product, const MatmulTile *tile, void *context) {
    (void)product;
    const WgmmaLoad *load = context;
    wgmma_load_product(w, load->state, NULL, tile, load->steps, NULL);
}

void wgmma_produce(Wgmma *w) {
    Builder *b = w->b;
    WgmmaSteps products[REGION_SUM_MAX];
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    for (int i = 0; i <= w->n_terms && !wgmma_steps_differ(w); i++) {
        Wgmma term = wgmma_term(w, i);
        products[i].count = wgmma_steps(&term, &products[i].first);
    }
    const KVar *begun = w->starts_early ? wgmma_start_early(w, products) : NULL;
    PipelineState state = pipeline_start(b, &w->pipeline), raw = {0};
    wgmma_load_resident(w);
    if (wgmma_has_raw(w))
        raw = pipeline_start(b, &w->converts[0].raw);
    if (w->n_products) {
        WgmmaLoad load = {&state, &products[0]};
        wgmma_of_product(w, wgmma_numbers_begin(w, NULL, 1), wgmma_load_tile, &load);
        k_end(b);
        k_end(b);
        return;
    }
    MatmulTile tile;
    wgmma_tiles_begin(w, NULL, 1, &tile);
    if (wgmma_steps_differ(w)) /* of each tile others */
        products[0].count = wgmma_steps(w, &products[0].first);
    wgmma_first_raw(w, &raw, &tile);
    for (int i = 0; i <= w->n_terms; i++) {
        Wgmma term = wgmma_term(w, i);
        wgmma_load_product(&term, &state, &raw, &tile, &products[i], begun);
    }
    bool is_asked = w->inputs.n && w->stream.blocks; /* they go to who stores the tile */
    if (is_asked)
        k_if_begin(b, k_eq(b, w->stream.first, k_i32(b, 0)));
    matmul_inputs_load(b, w->plan, &w->inputs, &w->pipeline, &state, &tile);
    if (is_asked)
        k_end(b);
    wgmma_tiles_end(w);
    k_end(b);
}
