/* Operands of 16 bits whose rows begin anywhere in memory, into the tiles that wgmma reads. TMA brings rows
 * that begin at multiples of 16 bytes; so here the warps of one or two warpgroups copy the 16 bytes that a
 * row has in memory, from the last multiple before its first element on, and move the words from there,
 * shifted by half a word where the row begins within one:
 *
 *     memory   . . . a | b c d e f g h i | ...        a line of 64 elements, here from the fourth of 8 on
 *     slot     . . . a   b c d e f g h i   ...        cp.async: 8 pieces of 8 elements, and what follows
 *     words          . a   b c   d e   f g            that the lanes read, two each: their own and the next
 *     tile           a b   c d   e f   g h            32 lanes, a word each
 *
 * Rows that are 8 apart begin alike, since 8 rows of any pitch are a multiple of 16 bytes. One of four warps
 * has those of two of the eight kinds, w and w + 4 of every 8, one of eight warps those of one kind: so where
 * to read and which bytes to take it knows for a whole tile, and a line is two loads, a permutation and a
 * store. Lines lie along K, or along M (or N) where memory has the operand so:
 *
 *     K-major      line i of kind r      row 8 i + r, 64 elements of K
 *     MN-major     line 8 c + i          row 8 i + r of K, columns 64 c to 64 c + 63
 *
 * What is behind a line of K begins the next step's: a row's lines of all slots are a ring, of which a step
 * reads a piece of the next slot as well. Of columns, a slot has whole rows, and a piece behind each. (L2
 * sets the pace, and a piece behind each line would take a third of the line's time there.)
 *
 * Behind the end of K the tile has zeros, as TMA leaves there; what it has behind the last row or column of
 * the operand is not used. */
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_result.h"

enum {
    SKEW_LINE = 64, /* elements: a row of a tile's block */
    SKEW_PIECE = 8, /* elements of a copy */
    SKEW_KINDS = 8,
    SKEW_LANES = 32,
    SKEW_AT_ONCE = SKEW_LANES * SKEW_PIECE / SKEW_LINE, /* lines that a warp copies at a time */
    SKEW_SLOTS_K = 4,                                   /* a power of two */
    SKEW_SLOTS_MN = 3
};

bool matmul_is_skewed(const MatmulOperand *operand) {
    return operand->is_memory && operand->is_contiguous && operand->narrow == operand->elem &&
           dtype_bits(operand->elem) == 16;
}

bool matmul_skew_accepts(const MatmulOperand *operand, int tile_mn, int tile_k, int warps) {
    int lines = operand->major == MAJOR_K ? SKEW_AT_ONCE * warps : SKEW_LINE;
    return tile_k == SKEW_LINE && SKEW_KINDS % warps == 0 && tile_mn % lines == 0;
}

/* Kinds of rows that a warp has. */
static int skew_own(const MatmulSkew *skew) {
    return SKEW_KINDS / skew->warps;
}

int matmul_skew_slots(const MatmulOperand *operand) {
    return operand->major == MAJOR_K ? SKEW_SLOTS_K : SKEW_SLOTS_MN;
}

/* Elements of a row: of K the lines of all slots; else those of the tile, and one piece more. */
static int skew_row(const MatmulOperand *operand, int tile_mn) {
    return operand->major == MAJOR_K ? SKEW_LINE * SKEW_SLOTS_K : tile_mn + SKEW_PIECE;
}

/* Of all slots. */
static int64_t skew_elements(const MatmulOperand *operand, int tile_mn) {
    int rows = operand->major == MAJOR_K ? tile_mn : SKEW_LINE * SKEW_SLOTS_MN;
    return (int64_t)skew_row(operand, tile_mn) * rows;
}

int64_t matmul_skew_bytes(const MatmulOperand *operand, int tile_mn) {
    return skew_elements(operand, tile_mn) * 2;
}

/* Elements from one row to the next. */
static const Dim *skew_pitch(const MatmulSkew *skew) {
    const MatmulOperand *operand = skew->operand;
    return operand->view.strides[operand->major == MAJOR_K ? operand->mn_axis : operand->k_axis];
}

/* Elements from the first to behind the last that the operand's memory has. */
static const Dim *skew_memory(const MatmulSkew *skew) {
    const Value *base = skew->operand->view.base;
    DimTable *dims = skew->plan->graph->dims;
    const Dim *strides[RANK_MAX], *one = dim_const(dims, 1), *last = dim_const(dims, 0);
    view_base_strides(skew->plan->graph, base, strides);
    for (int i = 0; i < base->rank; i++)
        last = dim_add(dims, last, dim_mul(dims, dim_sub(dims, base->dims[i], one), strides[i]));
    return dim_add(dims, last, one);
}

/* What counts its elements, and those of rows that a tile has behind the last. */
static KType skew_index(const MatmulSkew *skew) {
    enum { ROWS_BEHIND = 512 };
    const DimTable *dims = skew->plan->graph->dims;
    int64_t memory = dim_upper(dims, skew_memory(skew)), pitch = dim_upper(dims, skew_pitch(skew)),
            back = dim_lower(dims, skew_pitch(skew));
    bool fits = memory <= INT32_MAX && pitch <= INT32_MAX && back >= -INT32_MAX &&
                memory + pitch * ROWS_BEHIND <= INT32_MAX && back * ROWS_BEHIND >= -INT32_MAX;
    return fits ? K_I32 : K_I64;
}

MatmulSkew matmul_skew(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, const char *name,
                       int tile_mn, int tile_k, int stages, int warps) {
    bool is_k = operand->major == MAJOR_K;
    MatmulSkew skew = {.plan = plan, .operand = operand, .tile_mn = tile_mn, .warps = warps};
    skew.tile = tile_shared(b, name, operand->elem, is_k ? tile_mn : tile_k, is_k ? tile_k : tile_mn, stages);
    skew.raw = k_shared(b, text_format(b->arena, "%s_slots", name), operand->elem,
                        skew_elements(operand, tile_mn), 16);
    skew.index = skew_index(&skew);
    return skew;
}

/* So many rows, in elements. */
static const KExpr *skew_rows(Builder *b, const MatmulSkew *skew, const KExpr *rows) {
    return k_mul(b, k_convert(b, rows, skew->index), k_dim(b, skew_pitch(skew), skew->index));
}

/* Whether all rows begin where a word does. */
static bool skew_is_even(const MatmulSkew *skew) {
    const MatmulOperand *operand = skew->operand;
    DimTable *dims = skew->plan->graph->dims;
    bool is_even =
        dim_divisor(dims, operand->view.offset) % 2 == 0 && dim_divisor(dims, skew_pitch(skew)) % 2 == 0;
    for (int i = 0; i < operand->n_batch; i++)
        is_even = is_even && dim_divisor(dims, operand->view.strides[operand->batch[i]]) % 2 == 0;
    return is_even;
}

/* The warps that bring are those behind the producer's four. */
static const KExpr *skew_warp(Builder *b) {
    return k_sub(b, k_special(b, SPECIAL_WARP), k_i32(b, 4));
}

/* Which of the eight kinds of rows the warp's first, or second, kind is. */
static const KExpr *skew_kind(Builder *b, const MatmulSkew *skew, const KExpr *own) {
    return k_add(b, skew_warp(b), k_mul(b, own, k_i32(b, skew->warps)));
}

/* Elements from the warp's first line of a kind to its line number `line`. */
static const KExpr *skew_line(Builder *b, const MatmulSkew *skew, const KExpr *line) {
    const KExpr *kinds = k_i32(b, SKEW_KINDS);
    if (skew->operand->major == MAJOR_K)
        return skew_rows(b, skew, k_mul(b, line, kinds));
    const KExpr *rows = k_mul(b, k_mod(b, line, kinds), kinds);
    const KExpr *cols = k_mul(b, k_div(b, line, kinds), k_i32(b, SKEW_LINE));
    return k_add(b, skew_rows(b, skew, rows), k_convert(b, cols, skew->index));
}

/* The same in a slot. */
static const KExpr *skew_slot_line(Builder *b, const MatmulSkew *skew, const KExpr *line) {
    const KExpr *kinds = k_i32(b, SKEW_KINDS), *row = k_i32(b, skew_row(skew->operand, skew->tile_mn));
    if (skew->operand->major == MAJOR_K)
        return k_mul(b, line, row);
    return k_add(b, k_mul(b, k_mod(b, line, kinds), row),
                 k_mul(b, k_div(b, line, kinds), k_i32(b, SKEW_LINE)));
}

/* Where a slot has the first line of a kind, behind where it begins. */
static const KExpr *skew_slot_kind(Builder *b, const MatmulSkew *skew, const KExpr *own) {
    const KExpr *kind = k_add(b, k_mul(b, skew_warp(b), k_i32(b, skew_own(skew))), own);
    int rows = (skew->operand->major == MAJOR_K ? skew->tile_mn : SKEW_LINE) / SKEW_KINDS;
    return k_mul(b, kind, k_i32(b, (int64_t)rows * skew_row(skew->operand, skew->tile_mn)));
}

static const KExpr *skew_slot(Builder *b, const MatmulSkew *skew, const KExpr *slot) {
    int row = skew_row(skew->operand, skew->tile_mn);
    return k_mul(b, slot, k_i32(b, skew->operand->major == MAJOR_K ? SKEW_LINE : (int64_t)SKEW_LINE * row));
}

/* The lane's copies: of four of the warp's lines at a time; and of the piece behind a row. */
typedef struct SkewLane {
    const KExpr *own, *line, *piece;
} SkewLane;

static SkewLane skew_lane(Builder *b, const MatmulSkew *skew) {
    const KExpr *lane = k_special(b, SPECIAL_LANE), *pieces = k_i32(b, SKEW_LINE / SKEW_PIECE);
    const KExpr *row = k_div(b, lane, pieces), *own = k_i32(b, skew_own(skew));
    return (SkewLane){.own = k_mod(b, row, own), .line = k_div(b, row, own), .piece = k_mod(b, lane, pieces)};
}

/* Behind the last line of a row of columns. */
static SkewLane skew_lane_behind(Builder *b, const MatmulSkew *skew) {
    const KExpr *lane = k_special(b, SPECIAL_LANE), *own = k_i32(b, skew_own(skew));
    int before = (skew->tile_mn / SKEW_LINE - 1) * SKEW_KINDS;
    return (SkewLane){.own = k_mod(b, lane, own),
                      .line = k_add(b, k_div(b, lane, own), k_i32(b, before)),
                      .piece = k_i32(b, SKEW_LINE / SKEW_PIECE)};
}

/* The element of memory that a lane's copy begins with, of a tile whose first row's element is `corner`. */
static const KExpr *skew_from(Builder *b, const MatmulSkew *skew, const KExpr *corner, const SkewLane *lane) {
    const KExpr *first = k_add(b, corner, skew_rows(b, skew, skew_kind(b, skew, lane->own)));
    first = k_add(b, first, skew_line(b, skew, lane->line));
    const KExpr *piece = k_mul(b, k_convert(b, lane->piece, skew->index), k_int(b, skew->index, SKEW_PIECE));
    return k_add(b, k_bit_and(b, first, k_int(b, skew->index, -SKEW_PIECE)), piece);
}

void matmul_skew_tile(Builder *b, MatmulSkew *skew, const KExpr *mn0, const KExpr *const *batch) {
    const MatmulOperand *operand = skew->operand;
    KType type = skew->index;
    const KExpr *matrix =
        matmul_in_batch(b, skew->plan, operand, k_dim(b, operand->view.offset, type), batch);
    bool is_k = operand->major == MAJOR_K, is_even = skew_is_even(skew);
    const KExpr *corner = k_add(b, matrix, is_k ? skew_rows(b, skew, mn0) : k_convert(b, mn0, type));
    corner = k_let_expr(b, "corner", corner);
    SkewLane lane = skew_lane(b, skew), behind = skew_lane_behind(b, skew);
    skew->from = k_let_expr(b, "from", skew_from(b, skew, corner, &lane));
    skew->behind = is_k ? NULL : k_let_expr(b, "behind", skew_from(b, skew, corner, &behind));
    for (int own = 0; own < skew_own(skew); own++) {
        const KExpr *kind = k_i32(b, own);
        const KExpr *first = k_add(b, corner, skew_rows(b, skew, skew_kind(b, skew, kind)));
        const KExpr *shift = k_convert(b, k_bit_and(b, first, k_int(b, type, SKEW_PIECE - 1)), K_I32);
        shift = k_let_expr(b, "shift", shift);
        const KExpr *word = k_sub(b, shift, k_bit_and(b, shift, k_i32(b, 1)));
        const KExpr *at = k_add(b, word, k_mul(b, k_special(b, SPECIAL_LANE), k_i32(b, 2)));
        skew->read[own] = k_let_expr(b, "read", at);
        if (is_even)
            continue;
        const KExpr *is_odd = k_eq(b, k_bit_and(b, shift, k_i32(b, 1)), k_i32(b, 1));
        const KExpr *bytes = k_select(b, is_odd, k_int(b, K_U32, 0x5432), k_int(b, K_U32, 0x3210));
        skew->pick[own] = k_let_expr(b, "pick", bytes);
    }
}

/* One copy of the lane's: of what memory has of it; nothing, where `is_wanted` is false. */
static void skew_copy(Builder *b, const MatmulSkew *skew, const KExpr *from, const KExpr *to,
                      const KExpr *is_wanted) {
    KType type = skew->index;
    const KExpr *zero = k_int(b, type, 0), *piece = k_int(b, type, SKEW_PIECE);
    const KExpr *left = k_sub(b, k_dim(b, skew_memory(skew), type), from);
    left = k_max(b, zero, k_min(b, left, piece));
    bool goes_back = dim_lower(skew->plan->graph->dims, skew_pitch(skew)) < 0;
    if (goes_back) /* what is behind the last row lies before the first */
        left = k_select(b, k_ge(b, from, zero), left, zero);
    left = is_wanted ? k_select(b, is_wanted, left, zero) : left;
    const KBuffer *memory = k_global(b, skew->operand->view.base, false);
    KOperand operands[] = {k_operand(k_smem_addr(b, skew->raw, to)),
                           k_operand(k_global_addr(b, memory, from)),
                           k_operand(k_mul(b, k_convert(b, left, K_U32), k_int(b, K_U32, 2)))};
    k_atom(b, ATOM_cp_async_16, NULL, operands, 3);
}

/* Whether the lane's piece of a line `line` lines on is wanted; NULL: it is. Of the step behind the last only
 * the first piece of each line of K is; of columns there are rows up to the end of K. */
static const KExpr *skew_is_wanted(Builder *b, const MatmulSkew *skew, const SkewLane *lane,
                                   const KExpr *line, const KExpr *step, const KExpr *steps) {
    const Dim *k = skew->plan->k;
    if (skew->operand->major == MAJOR_K)
        return k_scalar(b, OP_or, k_lt(b, step, steps), k_eq(b, lane->piece, k_i32(b, 0)), NULL);
    if (dim_divisor(skew->plan->graph->dims, k) % SKEW_LINE == 0)
        return NULL;
    const KExpr *kinds = k_i32(b, SKEW_KINDS), *first = k_mul(b, step, k_i32(b, SKEW_LINE));
    first = k_add(b, first,
                  k_add(b, skew_kind(b, skew, lane->own), k_mul(b, k_mod(b, lane->line, kinds), kinds)));
    return k_lt(b, k_mul(b, k_mod(b, line, kinds), kinds), k_sub(b, k_dim(b, k, K_I32), first));
}

/* Where in a slot a lane's first copy goes. */
static const KExpr *skew_to(Builder *b, const MatmulSkew *skew, const KExpr *slot, const SkewLane *lane) {
    const KExpr *to = k_add(b, skew_slot(b, skew, slot), skew_slot_kind(b, skew, lane->own));
    to = k_add(b, to, skew_slot_line(b, skew, lane->line));
    return k_let_expr(b, "to", k_add(b, to, k_mul(b, lane->piece, k_i32(b, SKEW_PIECE))));
}

void matmul_skew_copy(Builder *b, const MatmulSkew *skew, const KExpr *slot, const KExpr *step,
                      const KExpr *steps) {
    bool is_k = skew->operand->major == MAJOR_K;
    const KExpr *ahead = k_mul(b, step, k_i32(b, SKEW_LINE));
    k_if_begin(b, is_k ? k_ge(b, steps, step) : k_lt(b, step, steps));
    ahead = is_k ? k_convert(b, ahead, skew->index) : skew_rows(b, skew, ahead);
    SkewLane lane = skew_lane(b, skew);
    const KExpr *from = k_let_expr(b, "copied", k_add(b, skew->from, ahead)),
                *to = skew_to(b, skew, slot, &lane);
    int turns = skew->tile_mn / skew->warps / SKEW_AT_ONCE;
    const KExpr *turn = epilogue_loop(b, "turn", turns);
    const KExpr *line = k_mul(b, turn, k_i32(b, SKEW_AT_ONCE / skew_own(skew)));
    skew_copy(b, skew, k_add(b, from, skew_line(b, skew, line)), k_add(b, to, skew_slot_line(b, skew, line)),
              skew_is_wanted(b, skew, &lane, line, step, steps));
    epilogue_loop_end(b, turns);
    if (!is_k) {
        SkewLane behind = skew_lane_behind(b, skew);
        int rows = SKEW_LINE / skew->warps; /* of K, of the warp's */
        k_if_begin(b, k_lt(b, k_special(b, SPECIAL_LANE), k_i32(b, rows)));
        skew_copy(b, skew, k_add(b, skew->behind, ahead), skew_to(b, skew, slot, &behind),
                  skew_is_wanted(b, skew, &behind, k_i32(b, 0), step, steps));
        k_end(b);
    }
    k_end(b);
}

/* The bits of the lane's word that lie before the end of K; NULL: all do. */
static const KExpr *skew_mask(Builder *b, const MatmulSkew *skew, const KExpr *step) {
    const Dim *k = skew->plan->k;
    if (skew->operand->major != MAJOR_K || dim_divisor(skew->plan->graph->dims, k) % SKEW_LINE == 0)
        return NULL;
    const KExpr *at =
        k_add(b, k_mul(b, step, k_i32(b, SKEW_LINE)), k_mul(b, k_special(b, SPECIAL_LANE), k_i32(b, 2)));
    const KExpr *left = k_sub(b, k_dim(b, k, K_I32), at);
    const KExpr *some = k_select(b, k_eq(b, left, k_i32(b, 1)), k_int(b, K_U32, 0xffff), k_int(b, K_U32, 0));
    return k_let_expr(b, "mask", k_select(b, k_lt(b, k_i32(b, 1), left), k_int(b, K_U32, 0xffffffff), some));
}

/* Where the lane's word `at` of a kind's first line lies, which may be one of the next slot's. */
static const KExpr *skew_read(Builder *b, const MatmulSkew *skew, const KExpr *at, const KExpr *slot,
                              const KExpr *kind) {
    at = k_add(b, skew_slot(b, skew, slot), at);
    if (skew->operand->major == MAJOR_K)
        at = k_bit_and(b, at, k_i32(b, SKEW_LINE * SKEW_SLOTS_K - 1));
    return k_let_expr(b, "word_at", k_add(b, kind, at));
}

void matmul_skew_shift(Builder *b, const MatmulSkew *skew, const KExpr *slot, const KExpr *step,
                       const KExpr *stage) {
    enum { AT_ONCE = 8 /* lines whose words are read before the first is stored: reads overlap */ };
    int lines = skew->tile_mn / SKEW_KINDS, n = lines < AT_ONCE ? lines : AT_ONCE;
    while (lines % n != 0)
        n--;
    bool is_even = !skew->pick[0];
    const KExpr *mask = skew_mask(b, skew, step), *one = k_i32(b, 1);
    const KExpr *two = k_i32(b, 2), *word_col = k_mul(b, k_special(b, SPECIAL_LANE), two);
    for (int own = 0; own < skew_own(skew); own++) {
        const KExpr *kind = skew_slot_kind(b, skew, k_i32(b, own));
        const KExpr *read = skew_read(b, skew, skew->read[own], slot, kind);
        const KExpr *next = skew_read(b, skew, k_add(b, skew->read[own], two), slot, kind);
        const KExpr *put = k_let_expr(
            b, "put", tile_index(b, &skew->tile, stage, skew_kind(b, skew, k_i32(b, own)), word_col));
        const KExpr *part = epilogue_loop(b, "part", lines / n);
        const KExpr *first = k_mul(b, part, k_i32(b, n));
        const KVar *words = k_array(b, "words", K_U32, 2 * n, NULL);
        const KExpr *i = epilogue_loop(b, "i", n), *at = k_mul(b, i, two);
        const KExpr *line = skew_slot_line(b, skew, k_add(b, first, i));
        k_load_raw(b, words, at, skew->raw, k_add(b, read, line), 2, NULL, CACHE_DEFAULT);
        if (!is_even)
            k_load_raw(b, words, k_add(b, at, one), skew->raw, k_add(b, next, line), 2, NULL, CACHE_DEFAULT);
        epilogue_loop_end(b, n);
        i = epilogue_loop(b, "i", n);
        at = k_mul(b, i, two);
        const KVar *pair = k_array(b, "pair", K_U32, 1, NULL);
        if (is_even) {
            k_set_elem(b, pair, k_i32(b, 0), k_elem(b, words, at));
        } else {
            KOperand operands[] = {k_reg(pair), k_operand(k_elem(b, words, at)),
                                   k_operand(k_elem(b, words, k_add(b, at, one))),
                                   k_operand(skew->pick[own])};
            k_atom(b, ATOM_byte_permute, NULL, operands, 4);
        }
        if (mask)
            k_set_elem(b, pair, k_i32(b, 0), k_bit_and(b, k_elem_at(b, pair, 0), mask));
        const KExpr *to = k_add(b, put, k_mul(b, k_add(b, first, i), k_i32(b, SKEW_KINDS * SKEW_LINE)));
        k_store_raw(b, skew->tile.buffer, to, pair, NULL, 2, NULL, CACHE_DEFAULT);
        epilogue_loop_end(b, n);
        epilogue_loop_end(b, lines / n);
    }
}
