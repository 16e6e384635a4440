/* Boxes of staging to memory by rows: neighbouring lanes have neighbouring elements.
 *
 *     row 0   | T0 T1 T2 ...                  T31 | T0 T1 T2 ...        `width` elements each
 *     row 1   | T0 T1 T2 ...
 *
 * Where rows are of odd length every second one begins within a word of memory. Words of two elements then
 * begin at the box's second column, and what is left of a row, its edges, goes by the element (4096 x 50257
 * logits along 768 took 494 us by the element, 435 by words where 50258 are a row's):
 *
 *     even row    | T0 | T1 | T2 | ...            | T31 |
 *     odd row     e | T0 | T1 | T2 | ...      | T30 | e       e: lanes of all odd rows at once
 */
#include "codegen/templates/matmul_epilogue.h"

enum {
    ROWS_LANES = 32,
    ROWS_AT_ONCE = 8 /* elements that a lane has on their way: reads of shared memory overlap */
};

/* The lane's piece number `piece` of a box: its row and first column. */
static void rows_piece(Builder *b, const MatmulStaging *staging, int width, const KExpr *piece,
                      const KExpr **row, const KExpr **col) {
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    int in_row = staging->cols / width; /* pieces */
    if (in_row >= ROWS_LANES) {
        const KExpr *turns = k_i32(b, in_row / ROWS_LANES);
        *row = k_div(b, piece, turns);
        *col = k_add(b, k_mul(b, k_mod(b, piece, turns), k_i32(b, ROWS_LANES)), lane);
    } else {
        *row = k_add(b, k_mul(b, piece, k_i32(b, ROWS_LANES / in_row)), k_div(b, lane, k_i32(b, in_row)));
        *col = k_mod(b, lane, k_i32(b, in_row));
    }
    *col = k_mul(b, *col, k_i32(b, width));
}

/* The run of the result at a row and a column, guarded where the tile may reach beyond the result. */
static Run rows_run(Epilogue *e, const KExpr *row, const KExpr *col, int width) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    int rank = plan->batch_rank + 2;
    Run run = {.rank = rank, .axis = rank - 1, .width = width};
    for (int i = 0; i < plan->batch_rank; i++)
        run.coords[i] = e->batch[i];
    run.coords[rank - 2] = row;
    run.coords[rank - 1] = col;
    if (dim_divisor(plan->graph->dims, plan->m) % e->fragment->tile_rows != 0)
        run.guard = k_lt(b, row, k_dim(b, plan->m, K_I32));
    if (dim_divisor(plan->graph->dims, plan->n) % e->fragment->tile_cols != 0)
        run.guard = k_and(b, run.guard, k_lt(b, col, k_dim(b, plan->n, K_I32)));
    return run;
}

static void rows_send(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *box_row,
                          const KExpr *box_col, const KExpr *stage) {
    Builder *b = e->b;
    const Value *value = staging->output[output];
    const Tile *tile = &staging->tile[output];
    int width = staging->row_width[output], pieces = STAGING_ROWS * staging->cols / width / ROWS_LANES;
    int n = width >= ROWS_AT_ONCE ? 1 : ROWS_AT_ONCE / width < pieces ? ROWS_AT_ONCE / width : pieces;
    const KExpr *row, *col;
    const KExpr *turn =
        pieces == n ? k_i32(b, 0) : k_for_begin(b, "turn", k_i32(b, 0), k_i32(b, pieces / n), 1, UNROLL_NONE);
    const KExpr *first = k_mul(b, turn, k_i32(b, n));
    const KVar *elements = k_array(b, text_format(b->arena, "%s_row", value->name ? value->name : "out"),
                                   ktype_of(value->dtype), n * width, NULL);
    const KExpr *piece = epilogue_loop(b, "piece", n);
    rows_piece(b, staging, width, k_add(b, first, piece), &row, &col);
    k_load(b, elements, k_mul(b, piece, k_i32(b, width)), tile->buffer, tile_index(b, tile, stage, row, col),
           width, NULL, CACHE_DEFAULT);
    epilogue_loop_end(b, n);
    piece = epilogue_loop(b, "piece", n);
    rows_piece(b, staging, width, k_add(b, first, piece), &row, &col);
    Run run = rows_run(e, k_add(b, box_row, row), k_add(b, box_col, col), width);
    lower_store(e->lower, &run, value, elements, k_mul(b, piece, k_i32(b, width)));
    epilogue_loop_end(b, n);
    if (pieces > n)
        k_end(b);
}

/* A row of the result that a box has, of odd length perhaps. */
typedef struct RowsRow {
    const KExpr *outer; /* its number among those of all matrices */
    const KExpr *head;  /* columns of the box before the first that begins a word of memory: 0 or 1 */
    const KExpr *last;  /* column of the box that is the last of the result's there; negative: none is */
} RowsRow;

static RowsRow rows_row(Epilogue *e, const KExpr *row, const KExpr *box_col, int cols) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    KType type = lower_index_type(e->lower);
    const KExpr *outer = k_convert(b, row, type), *one = k_i32(b, 1);
    for (int axis = plan->batch_rank - 1; axis >= 0; axis--) {
        const Dim *each = region_extent(plan->graph, plan->region, axis + 1, plan->batch_rank + 1);
        outer = k_add(b, outer, k_mul(b, k_convert(b, e->batch[axis], type), k_dim(b, each, type)));
    }
    const KExpr *before = k_bit_and(b, k_convert(b, outer, K_I32), k_dim(b, plan->n, K_I32));
    const KExpr *left = k_sub(b, k_dim(b, plan->n, K_I32), box_col);
    return (RowsRow){.outer = outer,
                     .head = k_bit_and(b, k_add(b, before, box_col), one),
                     .last = k_sub(b, k_min(b, left, k_i32(b, cols)), one)};
}

/* Whether rows of an output, of which lanes would store single elements of 16 bits, are of odd length only,
 * and follow each other in memory. */
static bool rows_are_odd(const Epilogue *e, const MatmulStaging *staging, int output) {
    enum { WORD = 2 };
    const Value *value = staging->output[output];
    return staging->row_width[output] == 1 && dtype_bits(value->dtype) == 16 &&
           lower_can_store_skewed(e->plan->graph, e->plan->region, value, WORD);
}

static void rows_send_words(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *box_row,
                            const KExpr *box_col, const KExpr *stage) {
    Builder *b = e->b;
    const Value *value = staging->output[output];
    const Tile *tile = &staging->tile[output];
    const KExpr *lane = k_special(b, SPECIAL_LANE), *one = k_i32(b, 1), *two = k_i32(b, 2);
    int in_row = staging->cols / 2, turns = STAGING_ROWS * in_row / ROWS_LANES, n = ROWS_AT_ONCE / 2;
    n = n < turns ? n : turns;
    const char *name = value->name ? value->name : "out";
    const KVar *words = k_array(b, text_format(b->arena, "%s_words", name), K_U32, 2 * n, NULL);
    const KExpr *word = k_mul(b, k_mod(b, lane, k_i32(b, in_row)), two), *behind = k_add(b, word, two);
    behind = k_min(b, behind, k_i32(b, staging->cols - 2));
    const KExpr *turn = k_for_begin(b, "turn", k_i32(b, 0), k_i32(b, turns / n), 1, UNROLL_NONE);
    const KExpr *i = epilogue_loop(b, "i", n);
    const KExpr *lane_row = k_div(b, lane, k_i32(b, in_row)), *each = k_i32(b, ROWS_LANES / in_row);
    const KExpr *first = k_mul(b, turn, k_i32(b, n));
    const KExpr *row = k_add(b, k_mul(b, k_add(b, first, i), each), lane_row);
    k_load_raw(b, words, k_mul(b, i, two), tile->buffer, tile_index(b, tile, stage, row, word), 2, NULL,
               CACHE_DEFAULT);
    k_load_raw(b, words, k_add(b, k_mul(b, i, two), one), tile->buffer,
               tile_index(b, tile, stage, row, behind), 2, NULL, CACHE_DEFAULT);
    epilogue_loop_end(b, n);
    i = epilogue_loop(b, "i", n);
    row = k_add(b, box_row, k_add(b, k_mul(b, k_add(b, first, i), each), lane_row));
    RowsRow at = rows_row(e, row, box_col, staging->cols);
    const KVar *pair = k_array(b, text_format(b->arena, "%s_pair", name), K_U32, 1, NULL);
    const KExpr *bytes =
        k_select(b, k_eq(b, at.head, one), k_int(b, K_U32, 0x5432), k_int(b, K_U32, 0x3210));
    KOperand operands[] = {k_reg(pair), k_operand(k_elem(b, words, k_mul(b, i, two))),
                           k_operand(k_elem(b, words, k_add(b, k_mul(b, i, two), one))), k_operand(bytes)};
    k_atom(b, ATOM_byte_permute, NULL, operands, 4);
    const KExpr *col = k_add(b, word, at.head);
    Run run = rows_run(e, row, k_add(b, box_col, col), 2);
    run.start = RUN_SKEWED;
    run.split = run.axis;
    run.outer = at.outer;
    run.inner = k_convert(b, run.coords[run.axis], lower_index_type(e->lower));
    run.guard = k_and(b, run.guard, k_lt(b, col, at.last));
    lower_store(e->lower, &run, value, pair, NULL);
    epilogue_loop_end(b, n);
    k_end(b);
}

/* Lanes 2 r and 2 r + 1 have the first and the last element of row r, where no word has them. */
static void rows_send_edges(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *box_row,
                            const KExpr *box_col, const KExpr *stage) {
    Builder *b = e->b;
    const Value *value = staging->output[output];
    const Tile *tile = &staging->tile[output];
    const KExpr *lane = k_special(b, SPECIAL_LANE), *zero = k_i32(b, 0), *one = k_i32(b, 1);
    const KExpr *in_box = k_div(b, lane, k_i32(b, 2)), *row = k_add(b, box_row, in_box);
    RowsRow at = rows_row(e, row, box_col, staging->cols);
    const KExpr *is_last = k_eq(b, k_mod(b, lane, k_i32(b, 2)), one);
    const KExpr *col = k_max(b, k_select(b, is_last, at.last, zero), zero);
    const KExpr *apart = k_sub(b, k_select(b, is_last, at.last, one), at.head);
    const KExpr *is_single = k_eq(b, k_bit_and(b, apart, one), zero);
    const KVar *edge = k_array(b, text_format(b->arena, "%s_edge", value->name ? value->name : "out"),
                               ktype_of(value->dtype), 1, NULL);
    k_load(b, edge, zero, tile->buffer, tile_index(b, tile, stage, in_box, col), 1, NULL, CACHE_DEFAULT);
    Run run = rows_run(e, row, k_add(b, box_col, col), 1);
    run.guard = k_and(b, run.guard, k_and(b, is_single, k_ge(b, at.last, zero)));
    lower_store(e->lower, &run, value, edge, NULL);
}

void matmul_box_send_rows(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *box_row,
                          const KExpr *box_col, const KExpr *stage) {
    if (!rows_are_odd(e, staging, output)) {
        rows_send(e, staging, output, box_row, box_col, stage);
        return;
    }
    rows_send_words(e, staging, output, box_row, box_col, stage);
    rows_send_edges(e, staging, output, box_row, box_col, stage);
}
