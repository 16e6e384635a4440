/* Boxes of staging to memory by rows: neighbouring lanes have neighbouring elements.
 *
 *     row 0   | T0 T1 T2 ...                  T31 | T0 T1 T2 ...        `width` elements each
 *     row 1   | T0 T1 T2 ...
 *
 * Where rows are of odd length every second one begins within a word of memory. Words of two elements then
 * begin at the box's second column, and the one before them has the last element of the box before, which a
 * lane has kept. What no word has at the tile's edges goes by the element, by lanes of all rows at once:
 *
 *     even row    | T0 | T1 | T2 | ...                 | T31 |     the next box
 *     odd row   T31 | T0 | T1 | T2 | ...             | T30 | .     its T31 has this element too
 *
 * (4096 x 50257 logits along 768 took 494 us by the element, 427 by words; 96 x 257 x 257 along 80, in boxes
 * of 32 columns, 20.5 where each box had edges of its own, which ask L2 three times a row, 18.2.) */
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

/* The run of the result at a row and a column, guarded where the tile may have rows beyond the last. */
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
    return run;
}

static const KExpr *rows_has_col(Epilogue *e, const KExpr *col) {
    const MatmulPlan *plan = e->plan;
    bool is_whole = dim_divisor(plan->graph->dims, plan->n) % e->fragment->tile_cols == 0;
    return is_whole ? NULL : k_lt(e->b, col, k_dim(e->b, plan->n, K_I32));
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
    run.guard = k_and(b, run.guard, rows_has_col(e, run.coords[run.axis]));
    lower_store(e->lower, &run, value, elements, k_mul(b, piece, k_i32(b, width)));
    epilogue_loop_end(b, n);
    if (pieces > n)
        k_end(b);
}

/* Whether rows of an output, of which lanes would store single elements of 16 bits, are of odd length only,
 * and follow each other in memory. */
static bool rows_are_odd(const Epilogue *e, const MatmulStaging *staging, int output) {
    enum { WORD = 2 };
    const Value *value = staging->output[output];
    return staging->row_width[output] == 1 && dtype_bits(value->dtype) == 16 &&
           lower_can_store_skewed(e->plan->graph, e->plan->region, value, WORD);
}

void matmul_boxes_follow(Epilogue *e, const MatmulStaging *staging, int boxes) {
    Builder *b = e->b;
    e->boxes = boxes;
    for (int o = 0; o < staging->n_outputs; o++) {
        e->kept[o] = NULL;
        if (boxes == 1 || o < staging->n_tma || !rows_are_odd(e, staging, o))
            continue;
        e->kept[o] = k_array(b, "kept", K_U32, 1, NULL);
        k_set_elem(b, e->kept[o], k_i32(b, 0), k_int(b, K_U32, 0));
    }
}

/* A box of an output with odd rows. */
typedef struct RowsBox {
    const MatmulStaging *staging;
    int output;
    const KExpr *row, *col;      /* of the result, its first */
    const KExpr *stage, *number; /* of those of its rows */
} RowsBox;

/* A row of it. */
typedef struct RowsRow {
    const KExpr *outer; /* its number among those of all matrices */
    const KExpr *head;  /* columns of the box before the first that begins a word of memory: 0 or 1 */
    const KExpr *last;  /* column of the box that is the result's last, or the box's; negative: none is */
} RowsRow;

static RowsRow rows_row(Epilogue *e, const RowsBox *box, const KExpr *in_box) {
    Builder *b = e->b;
    const MatmulPlan *plan = e->plan;
    KType type = lower_index_type(e->lower);
    const KExpr *outer = k_convert(b, k_add(b, box->row, in_box), type), *one = k_i32(b, 1);
    for (int axis = plan->batch_rank - 1; axis >= 0; axis--) {
        const Dim *each = region_extent(plan->graph, plan->region, axis + 1, plan->batch_rank + 1);
        outer = k_add(b, outer, k_mul(b, k_convert(b, e->batch[axis], type), k_dim(b, each, type)));
    }
    const KExpr *before = k_bit_and(b, k_convert(b, outer, K_I32), k_dim(b, plan->n, K_I32));
    const KExpr *left = k_sub(b, k_dim(b, plan->n, K_I32), box->col);
    const KExpr *last = k_sub(b, k_min(b, left, k_i32(b, box->staging->cols)), one);
    return (RowsRow){.outer = outer,
                     .head = k_let_expr(b, "head", k_bit_and(b, k_add(b, before, box->col), one)),
                     .last = k_let_expr(b, "last_col", last)};
}

static const KExpr *rows_index(Builder *b, const RowsBox *box, const KExpr *in_box, const KExpr *col) {
    return tile_index(b, &box->staging->tile[box->output], box->stage, in_box, col);
}

static const KBuffer *rows_buffer(const RowsBox *box) {
    return box->staging->tile[box->output].buffer;
}

static const char *rows_name(Builder *b, const RowsBox *box, const char *what) {
    const Value *value = box->staging->output[box->output];
    return text_format(b->arena, "%s_%s", value->name ? value->name : "out", what);
}

/* The lane's word of a row: its number there, whether it is the last, and which lane has the next; behind the
 * last that is the first. */
typedef struct RowsWord {
    const KExpr *number, *is_end, *next;
} RowsWord;

/* Stores a word: as it lies in the box, or of its last element and the next word's first. */
static void rows_store_word(Epilogue *e, const RowsBox *box, const RowsWord *word, const KExpr *in_box,
                            const KExpr *own) {
    Builder *b = e->b;
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1);
    RowsRow row = rows_row(e, box, in_box);
    const KExpr *is_odd = k_eq(b, row.head, one), *first = own;
    const KVar *kept = e->kept[box->output];
    const KExpr *col = k_add(b, k_mul(b, word->number, k_i32(b, 2)), row.head);
    const KExpr *is_before = k_and(b, is_odd, word->is_end), *is_there = k_not(b, is_before);
    if (kept) {
        const KExpr *other = k_shuffle_index(b, "before", k_elem_at(b, kept, 0), in_box);
        first = k_select(b, is_before, other, first);
        is_there = k_scalar(b, OP_or, is_there, k_lt(b, zero, box->number), NULL);
        col = k_select(b, is_before, k_i32(b, -1), col);
    }
    const KVar *pair = k_array(b, rows_name(b, box, "pair"), K_U32, 1, NULL);
    KOperand operands[] = {k_reg(pair), k_operand(first),
                           k_operand(k_shuffle_index(b, "behind", own, word->next)),
                           k_operand(k_select(b, is_odd, k_int(b, K_U32, 0x5432), k_int(b, K_U32, 0x3210)))};
    k_atom(b, ATOM_byte_permute, NULL, operands, 4);
    Run run = rows_run(e, k_add(b, box->row, in_box), k_add(b, box->col, col), 2);
    run.start = RUN_SKEWED;
    run.split = run.axis;
    run.outer = row.outer;
    run.inner = k_convert(b, run.coords[run.axis], lower_index_type(e->lower));
    run.guard = k_and(b, run.guard, k_and(b, is_there, k_lt(b, col, row.last)));
    lower_store(e->lower, &run, box->staging->output[box->output], pair, NULL);
}

static void rows_send_words(Epilogue *e, const RowsBox *box) {
    Builder *b = e->b;
    int cols = box->staging->cols, in_row = cols / 2, turns = STAGING_ROWS * in_row / ROWS_LANES;
    int n = turns < ROWS_AT_ONCE ? turns : ROWS_AT_ONCE;
    const KExpr *lane = k_special(b, SPECIAL_LANE), *two = k_i32(b, 2);
    RowsWord word = {.number = k_mod(b, lane, k_i32(b, in_row))};
    const KExpr *first_lane = k_sub(b, lane, word.number), *end = k_i32(b, in_row - 1);
    word.is_end = k_eq(b, word.number, end);
    word.next = k_select(b, word.is_end, first_lane, k_add(b, lane, k_i32(b, 1)));
    /* anew for each box: compilers would keep where it reads of all of them, beside the accumulators, and
     * spill */
    const KExpr *col = matmul_anew(b, "word_col", k_mul(b, word.number, two));
    const KVar *words = k_array(b, rows_name(b, box, "words"), K_U32, n, NULL);
    const KExpr *turn =
        turns == n ? k_i32(b, 0) : k_for_begin(b, "turn", k_i32(b, 0), k_i32(b, turns / n), 1, UNROLL_NONE);
    const KExpr *lane_row = k_div(b, lane, k_i32(b, in_row)), *each = k_i32(b, ROWS_LANES / in_row);
    const KExpr *first = k_mul(b, turn, k_i32(b, n)), *i = epilogue_loop(b, "i", n);
    const KExpr *in_box = k_add(b, k_mul(b, k_add(b, first, i), each), lane_row);
    k_load_raw(b, words, i, rows_buffer(box), rows_index(b, box, in_box, col), 2, NULL, CACHE_DEFAULT);
    epilogue_loop_end(b, n);
    i = epilogue_loop(b, "i", n);
    in_box = k_add(b, k_mul(b, k_add(b, first, i), each), lane_row);
    rows_store_word(e, box, &word, in_box, k_elem(b, words, i));
    epilogue_loop_end(b, n);
    if (turns > n)
        k_end(b);
}

/* Lanes 2 r and 2 r + 1 have the first and the last element of row r, where no word has them. */
static void rows_send_edges(Epilogue *e, const RowsBox *box) {
    Builder *b = e->b;
    const Value *value = box->staging->output[box->output];
    int cols = box->staging->cols;
    const KExpr *lane = matmul_anew(b, "lane", k_special(b, SPECIAL_LANE)), *zero = k_i32(b, 0),
                *one = k_i32(b, 1);
    const KExpr *in_box = k_div(b, lane, k_i32(b, 2)), *is_last = k_eq(b, k_mod(b, lane, k_i32(b, 2)), one);
    RowsRow row = rows_row(e, box, in_box);
    const KExpr *col = k_max(b, k_select(b, is_last, row.last, zero), zero);
    const KExpr *apart = k_sub(b, k_select(b, is_last, row.last, one), row.head);
    const KExpr *is_single = k_eq(b, k_bit_and(b, apart, one), zero);
    if (e->kept[box->output]) {
        const KExpr *left = k_sub(b, k_dim(b, e->plan->n, K_I32), box->col);
        const KExpr *goes_on =
            k_and(b, k_lt(b, box->number, k_i32(b, e->boxes - 1)), k_lt(b, k_i32(b, cols), left));
        const KExpr *in_word = k_select(b, is_last, goes_on, k_lt(b, zero, box->number));
        is_single = k_and(b, is_single, k_not(b, in_word));
    }
    const KVar *edge = k_array(b, rows_name(b, box, "edge"), ktype_of(value->dtype), 1, NULL);
    k_load(b, edge, zero, rows_buffer(box), rows_index(b, box, in_box, col), 1, NULL, CACHE_DEFAULT);
    Run run = rows_run(e, k_add(b, box->row, in_box), k_add(b, box->col, col), 1);
    run.guard = k_and(b, run.guard, k_and(b, is_single, k_ge(b, row.last, zero)));
    lower_store(e->lower, &run, value, edge, NULL);
}

/* Lane r keeps the last word of row r for the next box. */
static void rows_keep(Epilogue *e, const RowsBox *box) {
    Builder *b = e->b;
    const KVar *kept = e->kept[box->output];
    if (!kept)
        return;
    const KExpr *in_box = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, STAGING_ROWS));
    k_load_raw(b, kept, k_i32(b, 0), rows_buffer(box),
               rows_index(b, box, in_box, k_i32(b, box->staging->cols - 2)), 2, NULL, CACHE_DEFAULT);
}

void matmul_box_send_rows(Epilogue *e, const MatmulStaging *staging, int output, const KExpr *box_row,
                          const KExpr *box_col, const KExpr *stage, const KExpr *number) {
    if (!rows_are_odd(e, staging, output)) {
        rows_send(e, staging, output, box_row, box_col, stage);
        return;
    }
    RowsBox box = {staging, output, box_row, box_col, stage, number};
    rows_send_words(e, &box);
    rows_send_edges(e, &box);
    rows_keep(e, &box);
}
