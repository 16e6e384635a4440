/* Matrix instructions: those of one stage, of a tile, and sums in two levels. */
#include "codegen/templates/wgmma.h"

void wgmma_issue(Wgmma *w, int core, KOperand sums, KOperand a, const KExpr *bb, const KExpr *keep) {
    Builder *b = w->b;
    const WgmmaOperand *rows = &w->operands[w->schedule->swap_ab ? 1 + core : 0];
    const WgmmaOperand *cols = &w->operands[w->schedule->swap_ab ? 0 : 1 + core];
    int n = w->partial_cols ? w->partial_cols : matmul_columns_at_once(w->plan, w->schedule);
    KOperand operands[] = {sums, a, k_operand(bb), k_operand(keep)};
    DType x = rows->operand->elem, y = cols->operand->elem;
    switch (w->plan->kind) {
    case MATMUL_16BIT:
        if (rows->fragments) {
            k_atom(b, ATOM_wgmma_16bit_rs, (int[]){n, (int)x, cols->operand->major == MAJOR_MN}, operands, 4);
            return;
        }
        k_atom(b, ATOM_wgmma_16bit,
               (int[]){n, (int)x, rows->operand->major == MAJOR_MN, cols->operand->major == MAJOR_MN},
               operands, 4);
        return;
    case MATMUL_TF32:
        k_atom(b, rows->turned ? ATOM_wgmma_tf32_rs : ATOM_wgmma_tf32, (int[]){n}, operands, 4);
        return;
    case MATMUL_FP8: k_atom(b, ATOM_wgmma_fp8, (int[]){n, (int)x, (int)y}, operands, 4); return;
    case MATMUL_INT8: k_atom(b, ATOM_wgmma_int8, (int[]){n, (int)x, (int)y}, operands, 4); return;
    case MATMUL_F64:
    case MATMUL_FMA: return;
    }
}

const KExpr *wgmma_operand_descriptor(Wgmma *w, const WgmmaOperand *o, const KExpr *group) {
    Builder *b = w->b;
    const KExpr *descriptor = tile_descriptor(b, &o->tile, o->operand->major);
    if (o->is_rows && !w->schedule->ping_pong) { /* each warpgroup its own rows */
        const KExpr *own =
            k_mul(b, k_convert(b, group, K_U64), k_int(b, K_U64, wgmma_part(o, wgmma_rows(w->schedule), 0)));
        own = w->tiles.patch.is_along_k ? wgmma_patch_group(w, group) : own;
        descriptor = k_add(b, descriptor, own);
    }
    return k_let_expr(b, text_format(b->arena, "%s_descriptor", o->tile.buffer->name), descriptor);
}

/* Offset, in a descriptor's units, of the part of a tile at `mn` and K-step `i`. */
int64_t wgmma_part(const WgmmaOperand *o, int mn, int i) {
    int k = i * WGMMA_K_BYTES * 8 / dtype_bits(o->operand->elem);
    if (o->tile.apart != WGMMA_GROUP && o->operand->major == MAJOR_K)
        mn = mn / WGMMA_GROUP * o->tile.apart;
    return o->operand->major == MAJOR_K ? tile_descriptor_offset(&o->tile, mn, k)
                                        : tile_descriptor_offset(&o->tile, k, mn);
}

void wgmma_stage_at(Wgmma *w, const KExpr *stage, const KExpr **at) {
    Builder *b = w->b;
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        if (o->fragments || o->turned)
            continue;
        const KExpr *offset =
            k_mul(b, k_convert(b, stage, K_U64), k_int(b, K_U64, tile_stage_units(&o->tile)));
        at[i] = k_let_expr(b, text_format(b->arena, "%s_at", o->tile.buffer->name),
                           k_add(b, o->descriptor, offset));
    }
}

int wgmma_instructions(const Wgmma *w) {
    int all = wgmma_k_bytes(w->plan, w->schedule) / WGMMA_K_BYTES;
    int64_t each = WGMMA_K_BYTES * 8 / dtype_bits(w->plan->a.elem);
    bool is_short = w->n_terms && dim_is_const(w->plan->k) && w->plan->k->value < all * each;
    return is_short ? (int)((w->plan->k->value + each - 1) / each) : all;
}

/* What the products of one stage are: descriptors of its tiles, and the number of its step. */
typedef struct WgmmaStage {
    const KExpr *at[1 + MATMUL_CORES], *step;
    bool is_cleared;
} WgmmaStage;

/* K step `i` of 32 bytes, of one core and of those members of the tile that have a first operand each
 * (`member` 0 where all have one), for each block of 64 rows. */
static void wgmma_multiply_member(Wgmma *w, const WgmmaStage *stage, int core, int member, int i) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    int columns = matmul_columns_at_once(w->plan, schedule), steps = wgmma_instructions(w);
    int rows = schedule->swap_ab ? 1 + core : 0, cols = schedule->swap_ab ? 0 : 1 + core;
    /* the first product of a tile ignores what the registers held */
    const KExpr *keep = i || stage->is_cleared ? k_int(b, K_U32, 1) : k_convert(b, stage->step, K_U32);
    int64_t col = wgmma_part(&w->operands[cols], member * columns, i);
    const KExpr *bb = k_add(b, stage->at[cols], k_int(b, K_U64, col));
    for (int block = 0; block < w->blocks; block++) {
        int64_t row = wgmma_part(&w->operands[rows], block * WGMMA_M, member * steps + i);
        const KExpr *a = k_add(b, stage->at[rows], k_int(b, K_U64, row));
        int first = (block * schedule->tile_n + member * columns) / 2;
        wgmma_issue(w, core, k_regs(w->accumulator[core], first, columns / 2), k_operand(a), bb, keep);
    }
}

/* The products of one stage. */
static void wgmma_multiply(Wgmma *w, const KExpr *stage, const KExpr *k_step, bool is_cleared) {
    WgmmaStage at = {.step = k_step, .is_cleared = is_cleared};
    int steps = wgmma_instructions(w), members = w->tiles.members.own_k ? w->tiles.members.n : 1;
    wgmma_stage_at(w, stage, at.at);
    for (int i = 0; i < steps; i++)
        for (int member = 0; member < members; member++)
            for (int core = 0; core < w->plan->n_cores; core++)
                wgmma_multiply_member(w, &at, core, member, i);
}

/* The registers that hold a step's factors: of this thread's two rows of each block of 64, and of the
 * columns of each instruction. */
static int wgmma_own_factors(const Wgmma *w, const WgmmaOperand *o) {
    return o->is_rows ? 2 * w->blocks : w->schedule->tile_n / w->partial_cols;
}

static bool wgmma_is_by_column(const WgmmaOperand *o) {
    return matmul_scale_is_by_column(o->operand, o->is_rows);
}

void wgmma_factors(Wgmma *w) {
    Builder *b = w->b;
    for (int i = 0; i < w->n_operands; i++)
        if (w->operands[i].operand->scale && !wgmma_is_by_column(&w->operands[i]))
            w->next[i] = k_array(b, "next_factor", K_F32, wgmma_own_factors(w, &w->operands[i]), NULL);
    for (int core = 0; core < w->plan->n_cores; core++)
        if (w->next[0] || w->next[1 + core])
            w->factor[core] =
                k_array(b, "factor", K_F32, 2 * w->blocks * w->schedule->tile_n / w->partial_cols, NULL);
}

/* Reads the factors of a step from the ring. They are used a step later, so that no product waits for them.
 */
static void wgmma_read_factors(Wgmma *w, const KExpr *step) {
    Builder *b = w->b;
    const KExpr *lane_row = k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, 4));
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        for (int k = 0; k < wgmma_own_factors(w, o) && w->next[i]; k++) {
            const KExpr *word = o->is_rows ? k_add(b, lane_row, k_i32(b, k * 8)) : k_i32(b, k);
            matmul_scale_read(b, &w->scales[i], step, word, w->next[i], k);
        }
    }
}

/* The factors of the sums of a step: next[] become factor[]. */
static void wgmma_set_factors(Wgmma *w) {
    Builder *b = w->b;
    int parts = w->schedule->tile_n / w->partial_cols;
    for (int core = 0; core < w->plan->n_cores; core++)
        for (int row = 0; row < 2 * w->blocks && w->factor[core]; row++)
            for (int part = 0; part < parts; part++) {
                const KVar *rows = w->next[w->schedule->swap_ab ? 1 + core : 0];
                const KVar *cols = w->next[w->schedule->swap_ab ? 0 : 1 + core];
                const KExpr *x = rows ? k_elem_at(b, rows, row) : NULL,
                            *y = cols ? k_elem_at(b, cols, part) : NULL;
                k_set_elem(b, w->factor[core], k_i32(b, row * parts + part),
                           !x   ? y
                           : !y ? x
                                : k_mul(b, x, y));
            }
    /* now, not where the sums want them: the next factors come into the same registers */
    for (int core = 0; core < w->plan->n_cores; core++)
        if (w->factor[core])
            matmul_settle(b, w->factor[core]);
}

/* The factors of a step for the thread's two columns of a group, where each column has its own; else NULL. */
static const KVar *wgmma_column_factors(Wgmma *w, int core, int part, const KExpr *g, const KExpr *step) {
    Builder *b = w->b;
    int cols = w->schedule->swap_ab ? 0 : 1 + core;
    if (!wgmma_is_by_column(&w->operands[cols]))
        return NULL;
    const KVar *own = k_array(b, "column_factor", K_F32, 2, NULL);
    const KExpr *lane = k_mul(b, k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, 4)), k_i32(b, 2));
    const KExpr *col = k_add(b, lane, k_add(b, k_mul(b, g, k_i32(b, 8)), k_i32(b, part * w->partial_cols)));
    for (int j = 0; j < 2; j++)
        matmul_scale_read(b, &w->scales[cols], step, k_add(b, col, k_i32(b, j)), own, j);
    return own;
}

/* acc += partial * factor, for `part` of the columns of a block of 64 rows. */
static void wgmma_promote(Wgmma *w, int core, int block, int part, const KExpr *step) {
    Builder *b = w->b;
    int parts = w->schedule->tile_n / w->partial_cols;
    int first = (block * w->schedule->tile_n + part * w->partial_cols) / 2;
    const KExpr *g = k_for_begin(b, "g", k_i32(b, 0), k_i32(b, w->partial_cols / 8), 1, UNROLL_FULL);
    const KVar *columns = wgmma_column_factors(w, core, part, g, step);
    for (int i = 0; i < 4; i++) {
        const KExpr *at = k_add(b, k_mul(b, g, k_i32(b, 4)), k_i32(b, i));
        const KExpr *to = k_add(b, at, k_i32(b, first));
        const KExpr *sum = k_elem(b, w->accumulator[core], to);
        const KExpr *factor = w->factor[core]
                                  ? k_elem_at(b, w->factor[core], (block * 2 + i / 2) * parts + part)
                                  : k_float(b, K_F32, 1);
        if (columns)
            factor = k_mul(b, factor, k_elem_at(b, columns, i % 2));
        const KExpr *partial = k_convert(b, k_elem(b, w->partial, at), w->plan->accumulator);
        k_set_elem(b, w->accumulator[core], to, k_scalar(b, OP_fma, partial, factor, sum));
    }
    k_end(b);
}

/* The products of one stage in two levels; releases the stage. */
static void wgmma_multiply_promoted(Wgmma *w, const KExpr *stage, const KExpr *step) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    const KExpr *at[1 + MATMUL_CORES];
    int steps = wgmma_k_bytes(w->plan, schedule) / WGMMA_K_BYTES, parts = schedule->tile_n / w->partial_cols;
    int units = w->plan->n_cores * w->blocks * parts;
    wgmma_stage_at(w, stage, at);
    for (int unit = 0; unit < units; unit++) {
        int part = unit % parts, block = unit / parts % w->blocks, core = unit / parts / w->blocks;
        const WgmmaOperand *rows = &w->operands[schedule->swap_ab ? 1 + core : 0];
        const WgmmaOperand *cols = &w->operands[schedule->swap_ab ? 0 : 1 + core];
        k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
        for (int i = 0; i < steps; i++) {
            int64_t row = wgmma_part(rows, block * WGMMA_M, i),
                    col = wgmma_part(cols, part * w->partial_cols, i);
            wgmma_issue(w, core, k_regs(w->partial, 0, w->partial_cols / 2),
                        k_operand(k_add(b, at[rows - w->operands], k_int(b, K_U64, row))),
                        k_add(b, at[cols - w->operands], k_int(b, K_U64, col)), k_int(b, K_U32, i > 0));
        }
        k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
        if (unit == 0)
            wgmma_read_factors(w, k_add(b, step, k_i32(b, 1)));
        k_atom(b, ATOM_wgmma_wait, (int[]){0}, NULL, 0);
        matmul_settle(b, w->partial);
        if (unit == units - 1)
            pipeline_release(b, &w->pipeline, stage, &w->peers);
        wgmma_promote(w, core, block, part, step);
        matmul_settle(b, w->accumulator[core]); /* added before the next products take the same registers */
    }
}

/* All copies but the latest `but` steps' have come, and what the warp has read may be overwritten. */
static void wgmma_wait_scales(Builder *b, int but) {
    k_atom(b, ATOM_cp_async_wait, &but, NULL, 0);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
}

static const KExpr *wgmma_last_step(Wgmma *w) {
    return k_sub(w->b, k_dim(w->b, w->steps, K_I32), k_i32(w->b, 1));
}

/* Where a tile's factors stand, and the copies of its first steps. */
void wgmma_scales_tile(Wgmma *w, const KExpr *warp, const KExpr *warp_row, const MatmulTile *tile) {
    Builder *b = w->b;
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    if (!matmul_has_scale(w->plan))
        return;
    wgmma_wait_scales(b, 0);
    /* a lane's row: 16 of each block of 64 */
    const KExpr *row =
        k_add(b, k_mul(b, k_div(b, lane, k_i32(b, 16)), k_i32(b, WGMMA_M)), k_mod(b, lane, k_i32(b, 16)));
    row = k_add(b, k_add(b, tile->row, warp_row), row);
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        int each = wgmma_is_by_column(o) ? 1 : w->partial_cols;
        const KExpr *col = k_add(b, tile->col, k_mul(b, lane, k_i32(b, each)));
        matmul_scales_tile(b, &w->scales[i], warp, o->is_rows ? row : col, o->operand->mn,
                           o->is_rows ? w->tiles.span_m : w->tiles.span_n, tile->batch);
    }
    for (int i = 0; i < w->n_operands; i++)
        matmul_scales_first(b, &w->scales[i], wgmma_last_step(w));
    k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    wgmma_wait_scales(b, 0);
    wgmma_read_factors(w, k_i32(b, 0));
}

void wgmma_tile_product_promoted(Wgmma *w, const KExpr *steps, const PipelineState *state) {
    Builder *b = w->b;
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    if (matmul_has_scale(w->plan)) {
        wgmma_set_factors(w);
        wgmma_wait_scales(b, 1); /* the next step's are there */
        for (int i = 0; i < w->n_operands; i++)
            matmul_scales_ahead(b, &w->scales[i], step, wgmma_last_step(w));
        k_atom(b, ATOM_cp_async_commit, NULL, NULL, 0);
    }
    pipeline_wait_full(b, &w->pipeline, state);
    wgmma_multiply_promoted(w, k_var(b, state->stage), step);
    pipeline_advance(b, &w->pipeline, state);
    k_end(b);
}

/* The warpgroup waits for its turn, or gives the turn to the other. */
static void wgmma_turn(Wgmma *w, const KExpr *group, bool is_mine) {
    Builder *b = w->b;
    for (int g = 0; g < 2; g++) {
        KOperand operands[] = {k_operand(k_i32(b, TURN_BARRIER + (is_mine ? g : 1 - g))),
                               k_operand(k_i32(b, 2 * WARPGROUP))};
        if (g == 0)
            k_if_begin(b, k_eq(b, group, k_i32(b, 0)));
        else
            k_else(b);
        k_atom(b, is_mine ? ATOM_bar_sync : ATOM_bar_arrive, NULL, operands, 2);
    }
    k_end(b);
}

/* All products have ended: the sums are not read before this place. */
static void wgmma_settle(Wgmma *w) {
    for (int core = 0; core < w->plan->n_cores; core++)
        matmul_settle(w->b, w->accumulator[core]);
}

void wgmma_tile_end(Wgmma *w, const KExpr *steps, const KVar *previous, bool is_cleared) {
    Builder *b = w->b;
    bool is_early = w->schedule->ping_pong; /* the other warpgroup wants the stage during the epilogue */
    k_atom(b, ATOM_wgmma_wait, (int[]){0}, NULL, 0);
    if (!is_early)
        wgmma_settle(w);
    if (is_cleared)
        k_if_begin(b, k_ge(b, steps, k_i32(b, 1)));
    (is_early ? pipeline_release_early : pipeline_release)(b, &w->pipeline, k_var(b, previous), &w->peers);
    if (is_cleared)
        k_end(b);
    if (is_early)
        wgmma_settle(w);
}

void wgmma_product_steps(Wgmma *w, const KExpr *steps, const PipelineState *state, const KVar *previous,
                         bool is_cleared, bool goes_on) {
    Builder *b = w->b;
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    pipeline_wait_full(b, &w->pipeline, state);
    wgmma_dealt_step(w, k_var(b, state->stage), step, steps);
    if (w->operands[w->schedule->swap_ab ? 1 : 0].turned) {
        wgmma_turned_stage(w, k_var(b, state->stage),
                           is_cleared ? k_int(b, K_U32, 1) : k_convert(b, step, K_U32));
    } else {
        k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
        (w->tiles.patch.is_along_k ? wgmma_multiply_places
         : w->schedule->patches    ? wgmma_multiply_taps
                                   : wgmma_multiply)(w, k_var(b, state->stage), step, is_cleared);
        k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
        k_atom(b, ATOM_wgmma_wait, (int[]){1}, NULL, 0);
    }
    pipeline_release_behind(b, &w->pipeline, state, previous, goes_on ? NULL : step, &w->peers);
    wgmma_guest_step(w, step, steps);
    k_end(b);
}

void wgmma_tile_product(Wgmma *w, const MatmulTile *tile, const KExpr *group, const KExpr *warp_row,
                        const KExpr *first, const KExpr *steps, const PipelineState *state,
                        const KVar *previous, const MatmulFragment *fragment) {
    Builder *b = w->b;
    /* where K may be 0, no product clears the registers */
    bool is_cleared = w->partial_cols || !wgmma_all_have_steps(w);
    for (int core = 0; core < w->plan->n_cores && is_cleared; core++) {
        const KExpr *i =
            k_for_begin(b, "i", k_i32(b, 0), k_i32(b, w->accumulator[core]->count), 1, UNROLL_FULL);
        k_set_elem(b, w->accumulator[core], i, k_convert(b, k_i32(b, 0), w->plan->accumulator));
        k_end(b);
    }
    if (w->partial_cols) {
        wgmma_tile_product_promoted(w, steps, state);
        return;
    }
    if (w->schedule->fragments) {
        wgmma_fragments_product(w, tile, warp_row, first, steps, state, previous, is_cleared);
        return;
    }
    wgmma_dealt_tile(w, tile);
    w->dealt.group = group;
    if (w->schedule->ping_pong)
        wgmma_turn(w, group, true);
    bool goes_on = wgmma_terms_product(w, fragment, tile, state, previous, is_cleared);
    wgmma_product_steps(w, steps, state, previous, is_cleared || w->n_terms, goes_on);
    if (w->schedule->ping_pong)
        wgmma_turn(w, group, false);
    wgmma_tile_end(w, steps, previous, !wgmma_has_steps(w));
}
