/* Rows that indices choose: of a table of embeddings, of the tokens that an expert has. TMA of this machine
 * reads no rows that lie apart; so warps of the producer's warpgroup, which otherwise share registers alone,
 * copy them by 16 bytes, eight lanes a row, to where TMA would have put them:
 *
 *     warp 0      | TMA: the other operand, step 0 | step 1 | step 2 | ...
 *     warps 2, 3  | numbers of the tile's rows | copies of step 0 | copies of step 1 | ...
 *     warp 1                                   | step 0 has come: full | step 1 has come: full | ...
 *
 * Nobody who copies waits for copies: they arrive at a barrier of their own when they are complete. There
 * warp 1 waits, fences them for the matrix unit, to which they came by another way than TMA's (PTX ISA
 * 9.7.13.4), and says that the stage is full. (With a fence by those who multiply, and three warps that copy,
 * the same products took up to 8 % longer by tiles of 128 x 128.) Copies take more of shared memory's rate
 * than TMA does: 16384 x 3584 x 1792 takes 297 us with chosen rows, 271 without. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/wgmma.h"

enum {
    ROWS_FENCE = 1, /* the warp that fences */
    ROWS_WARP = 2,  /* the first of those that copy */
    ROWS_WARPS = 2,
    ROWS_BYTES = 128, /* of a row's step */
    ROWS_PIECE = 16,
    ROWS_LANES = ROWS_BYTES / ROWS_PIECE,
    ROWS_AT_ONCE = ROWS_WARPS * 32 / ROWS_LANES
};

struct WgmmaRows {
    const KVar *numbers; /* of the present tile: those of the lane's rows */
    KType index;         /* of elements of the memory that rows are chosen from */
};

bool wgmma_accepts_rows(const MatmulPlan *plan, const Schedule *schedule, int tile_mn, const char **why) {
    *why = "warps copy chosen rows 128 bytes at a time, eight rows together, of one product";
    if (wgmma_k_bytes(plan, schedule) != ROWS_BYTES || tile_mn % ROWS_AT_ONCE != 0 || plan->before ||
        plan->guest || matmul_has_idle_guest(plan))
        return false;
    return wgmma_has_idle_warps(plan, schedule, why);
}

int64_t wgmma_rows_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    return matmul_chooses_rows(plan) ? (int64_t)schedule->stages * dtype_bits(DTYPE_I64) / 8 : 0;
}

void wgmma_rows_new(Wgmma *w, WgmmaOperand *o) {
    const DimTable *dims = w->plan->graph->dims;
    int64_t memory = dim_upper(dims, value_count(w->plan->graph, o->operand->view.base));
    o->rows = ARENA_NEW(w->b->arena, WgmmaRows);
    o->rows->index = memory <= INT32_MAX / 2 ? K_I32 : K_I64;
}

void wgmma_rows_declare(Wgmma *w) {
    if (matmul_chooses_rows(w->plan))
        w->landed = k_shared(w->b, "stage_landed", DTYPE_I64, w->schedule->stages, 8);
}

void wgmma_rows_init(Wgmma *w) {
    if (w->landed)
        pipeline_init_barriers(w->b, w->landed, w->schedule->stages, ROWS_WARPS * 32);
}

/* The lane's row number `turn` in a tile. */
static const KExpr *rows_row(Builder *b, const KExpr *turn) {
    const KExpr *warp = k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, ROWS_WARP));
    const KExpr *row = k_mul(b, warp, k_i32(b, ROWS_AT_ONCE / ROWS_WARPS));
    row = k_add(b, row, k_div(b, k_special(b, SPECIAL_LANE), k_i32(b, ROWS_LANES)));
    return k_add(b, row, k_mul(b, turn, k_i32(b, ROWS_AT_ONCE)));
}

static void rows_begin(Wgmma *w, WgmmaOperand *o, const MatmulTile *tile) {
    Builder *b = w->b;
    int turns = o->tile_mn / ROWS_AT_ONCE;
    o->rows->numbers = k_array(b, "numbers", K_I32, turns, NULL);
    const KExpr *turn = epilogue_loop(b, "turn", turns);
    const KExpr *row = k_add(b, o->is_rows ? tile->row : tile->col, rows_row(b, turn));
    k_set_elem(b, o->rows->numbers, turn, matmul_chosen(b, w->plan, o->operand, tile->batch, row));
    epilogue_loop_end(b, turns);
}

/* The element that a lane's copies of a step count rows from: of column `k` of the batch's first. */
static const KExpr *rows_origin(Wgmma *w, const WgmmaOperand *o, const KExpr *k, const MatmulTile *tile) {
    Builder *b = w->b;
    KType type = o->rows->index;
    const KExpr *first = k_add(b, k_dim(b, o->operand->view.offset, type), k_convert(b, k, type));
    return k_let_expr(b, "origin", matmul_in_batch(b, w->plan, o->operand, first, tile->batch));
}

/* The copies of a step of K into a stage. */
static void rows_copy(Wgmma *w, const WgmmaOperand *o, const KExpr *stage, const KExpr *k0,
                      const MatmulTile *tile) {
    Builder *b = w->b;
    const MatmulOperand *operand = o->operand;
    const ViewGather *chosen = operand->chosen;
    KType type = o->rows->index;
    int turns = o->tile_mn / ROWS_AT_ONCE, piece = ROWS_PIECE * 8 / dtype_bits(operand->elem);
    const KExpr *col = k_mul(b, k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, ROWS_LANES)), k_i32(b, piece));
    const KExpr *k = k_add(b, k0, col), *origin = rows_origin(w, o, k, tile);
    const KExpr *bytes = k_int(b, K_U32, ROWS_PIECE), *none = k_int(b, K_U32, 0);
    if (dim_divisor(w->plan->graph->dims, w->plan->k) % w->schedule->tile_k != 0)
        bytes = k_let_expr(b, "bytes", k_select(b, k_lt(b, k, k_dim(b, w->plan->k, K_I32)), bytes, none));
    matmul_settle(b, o->rows->numbers); /* else the rows' addresses are kept too, twice as many registers */
    const KExpr *turn = epilogue_loop(b, "turn", turns), *number = k_elem(b, o->rows->numbers, turn);
    const KExpr *row = k_mul(b, k_convert(b, number, type), k_dim(b, chosen->step, type));
    const KExpr *is_row = k_ge(b, number, k_i32(b, 0));
    const KBuffer *memory = k_global(b, operand->view.base, false);
    KOperand operands[] = {k_operand(tile_address(b, &o->tile, stage, rows_row(b, turn), col)),
                           k_operand(k_global_addr(b, memory, k_add(b, origin, row))),
                           k_operand(k_select(b, is_row, bytes, none))};
    k_atom(b, ATOM_cp_async_16, NULL, operands, 3);
    epilogue_loop_end(b, turns);
}

static KOperand rows_landed(Wgmma *w, const PipelineState *state) {
    return k_operand(k_smem_addr(w->b, w->landed, k_var(w->b, state->stage)));
}

/* A stage, whose copies are those of `k0`; NULL: an input of the epilogue has it, and nothing is copied. */
static void rows_copy_stage(Wgmma *w, const PipelineState *state, const KExpr *k0, const MatmulTile *tile) {
    Builder *b = w->b;
    pipeline_wait_empty(b, &w->pipeline, state);
    for (int i = 0; i < w->n_operands && k0; i++)
        if (w->operands[i].rows)
            rows_copy(w, &w->operands[i], k_var(b, state->stage), k0, tile);
    KOperand landed = rows_landed(w, state);
    k_atom(b, ATOM_cp_async_arrive, NULL, &landed, 1);
    pipeline_advance(b, &w->pipeline, state);
}

static void rows_fence_stage(Wgmma *w, const PipelineState *state) {
    Builder *b = w->b;
    KOperand landed[] = {rows_landed(w, state), k_operand(k_var(b, state->phase))};
    k_atom(b, ATOM_mbar_wait, NULL, landed, 2);
    matmul_convert_arrive(b, &w->pipeline, state);
}

/* Every stage of the block's tiles, as the producer fills them. */
static void rows_stages(Wgmma *w, bool copies) {
    Builder *b = w->b;
    PipelineState state = pipeline_start(b, &w->pipeline);
    MatmulTile tile;
    wgmma_tiles_begin(w, NULL, 1, &tile);
    const KExpr *first, *steps = wgmma_steps(w, &first);
    for (int i = 0; i < w->n_operands && copies; i++)
        if (w->operands[i].rows)
            rows_begin(w, &w->operands[i], &tile);
    const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), steps, 1, UNROLL_NONE);
    if (copies)
        rows_copy_stage(w, &state, k_let_expr(b, "k", wgmma_k0(w, first, step)), &tile);
    else
        rows_fence_stage(w, &state);
    k_end(b);
    if (w->inputs.n) {
        const KExpr *chunks = k_i32(b, (int64_t)w->inputs.n * w->inputs.chunks);
        if (w->stream.blocks) /* they come to who stores the tile */
            chunks = k_select(b, k_eq(b, w->stream.first, k_i32(b, 0)), chunks, k_i32(b, 0));
        k_for_begin(b, "chunk", k_i32(b, 0), chunks, 1, UNROLL_NONE);
        if (copies)
            rows_copy_stage(w, &state, NULL, &tile);
        else
            rows_fence_stage(w, &state);
        k_end(b);
    }
    wgmma_tiles_end(w);
}

void wgmma_copy_rows(Wgmma *w) {
    Builder *b = w->b;
    if (!w->landed)
        return;
    const KExpr *warp = k_special(b, SPECIAL_WARP);
    k_comment(b, "rows that indices choose, by warps that do not load by TMA");
    k_if_begin(b, k_ge(b, warp, k_i32(b, ROWS_WARP)));
    rows_stages(w, true);
    k_end(b);
    k_if_begin(b, k_eq(b, warp, k_i32(b, ROWS_FENCE)));
    rows_stages(w, false);
    k_end(b);
}
