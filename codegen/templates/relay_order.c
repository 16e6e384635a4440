/* In which order tiles add their parts to a product across (relay.h).
 *
 * A part of the product is the sum of what all tiles of the matrix that see it have of it. Floating-point
 * sums hang on their order, and two runs are to give the same bits, so each tile waits for its turn at a
 * part: for those before it in an order that shapes and the number of blocks alone decide. It is the order in
 * which tiles come to the part if all are equally fast, so that nobody waits for long.
 *
 * Where all tiles see all parts, those that are there at the same time begin at places evenly apart, and go
 * around; tiles 0 to 3, of 8 parts, and who comes to part 4 as number 0, 1, 2 and 3:
 *
 *     time      0 1 2 3 4 5 6 7
 *     tile 0    0 1 2 3[4]5 6 7     2
 *     tile 1    2 3[4]5 6 7 0 1     1
 *     tile 2   [4]5 6 7 0 1 2 3     0
 *     tile 3    6 7 0 1 2 3[4]5     3
 *
 * Where a band along the diagonal has them see other parts, each begins where it sees the first, the tile
 * with the last rows is the first at each part, and some have more parts than others. So that blocks end
 * together, each second round of tiles deals them the other way around, and as blocks come to these at other
 * times then, their tiles go through their parts from the last one on, first rows first:
 *
 *     tile 0 of one matrix    0 1 2 3 4 5 6 7 | 7 6          tile 3 of the next
 *     tile 1                  2 3 4 5 6 7 | 7 6 5 4          tile 2
 *     tile 2                  4 5 6 7 | 7 6 5 4 3 2          tile 1
 *     tile 3                  6 7 | 7 6 5 4 3 2 1 0          tile 0
 *
 * A tile waits at each part for as many tiles as are there, so that of many with few parts most would wait.
 * Those that are there are of several matrices then, whose second operands L2 holds; of 3, numbered
 *
 *     matrix 0    0 3 6 ...        its rows of tiles
 *     matrix 1    1 4 7 ...
 *     matrix 2    2 5 8 ...
 *
 * Tiles of rounds before come first at every part. So no tile waits for one that waits for it: to each visit
 * belongs a time, later along a tile's parts and along a part's turns, where equal times of a part are in the
 * order of tiles. All blocks run at the same time, in a cooperative launch, since they wait for each other.
 *
 * Adding dq up across blocks, by TMA and in whatever order they come: "FlashAttention-3" (2024). */
#include "codegen/templates/relay.h"
#include "ir/base/checked.h"

/* The band's limit from below (above, is_most); NULL: there is none. */
static const Dim *order_limit(const RelayRun *r, bool is_most) {
    const Band *band = &r->parts.band;
    for (int i = 0; i < band->n; i++)
        if (band->limit[i].is_most == is_most)
            return band->limit[i].offset;
    return NULL;
}

/* As many as SMs; or whole matrices' worth, where that takes no more rounds of tiles, or where tiles have
 * parts in different numbers and few SMs are idle: then a block's tiles of two rounds have equally many
 * together, and no matrix has tiles in two rounds. */
const Dim *relay_order_blocks(const RelayRun *r) {
    enum { IDLE = 16 /* one SM of so many */ };
    DimTable *dims = r->plan->graph->dims;
    const Dim *rows = r->parts.tiles.tiles_m, *tiles = r->parts.tiles.count;
    int64_t blocks = r->plan->target->sm_count;
    if (!dim_is_const(rows) || !dim_is_const(tiles) || tiles->value < 1)
        return dim_const(dims, blocks);
    int64_t whole = blocks - blocks % rows->value;
    bool is_even = r->parts.is_ragged && (blocks - whole) * IDLE <= blocks;
    if (whole > 0 && (is_even || (tiles->value - 1) / whole == (tiles->value - 1) / blocks))
        blocks = whole;
    return dim_const(dims, tiles->value < blocks ? tiles->value : blocks);
}

/* Matrices whose tiles are numbered beside each other. A tile adds to a part in about the time that it takes
 * for one or two, and so waits for no one where twice as many parts as tiles are there: 48 matrices of 16
 * tiles of 6 parts took 167 us one behind the other, 107 all beside each other, 681 for 508 us where L2 did
 * not hold what 64 of 16 tiles read and add to. */
static int order_matrices(const RelayRun *r) {
    enum { PARTS_A_TILE = 2, PARTS_OF_L2 = 2 };
    const RelayPlan *plan = r->plan;
    const DimTable *dims = plan->graph->dims;
    const Dim *rows = r->parts.tiles.tiles_m, *matrices = r->parts.tiles.batch,
              *parts = parts_count(&r->parts);
    if (r->parts.is_ragged || !dim_is_const(rows) || !dim_is_const(matrices) || !dim_is_const(parts))
        return 1;
    int64_t there = parts->value / PARTS_A_TILE;
    if (there >= rows->value || matrices->value < 1)
        return 1;
    double bytes = (double)dim_upper(dims, plan->first[0].n) * (r->parts.bytes + 4.0 * plan->columns);
    double most = (double)plan->target->l2_bytes / PARTS_OF_L2 / bytes;
    int64_t wanted = ceil_div(plan->target->sm_count, there < 1 ? 1 : there);
    int64_t groups = matrices->value / wanted; /* of equally many */
    int64_t beside = ceil_div(matrices->value, groups < 1 ? 1 : groups);
    return most < 1 ? 1 : (double)beside < most ? (int)beside : (int)most;
}

static const KExpr *order_is_back(Builder *b, const RelayOrder *order) {
    return k_lt(b, order->stride, k_i32(b, 0));
}

/* The tile of a number, and which of its matrix' are there: those numbered from the round's first on. */
static MatmulTile order_find_tile(RelayRun *r, const KExpr *number, const KExpr *round_first) {
    Builder *b = r->b;
    RelayOrder *order = &r->across.order;
    int beside = order_matrices(r);
    const KExpr *rows = k_dim(b, r->parts.tiles.tiles_m, K_I32), *zero = k_i32(b, 0), *up = zero;
    PartsNumbered tile = {.members = k_i32(b, 1), .member = zero};
    if (beside > 1) {
        tile = parts_numbered(&r->parts, number, beside);
        up = k_sub(b, tile.members, k_i32(b, 1));
    } else {
        tile.matrix = k_div(b, number, rows);
        tile.row = k_mod(b, number, rows);
    }
    order->matrix = k_let_expr(b, "matrix", tile.matrix);
    order->row = k_let_expr(b, "tile_of_rows", tile.row);
    /* numbers from the matrix' first tile to the round's, and how many of its tiles these are */
    const KExpr *first =
        beside > 1 ? k_add(b, k_sub(b, number, tile.within), tile.member) : k_mul(b, order->matrix, rows);
    const KExpr *before = k_let_expr(b, "numbers_before", k_sub(b, round_first, first));
    const KExpr *behind = k_add(b, before, k_dim(b, b->kernel->grid[0], K_I32));
    const KExpr *low = k_div(b, k_add(b, k_max(b, before, zero), up), tile.members);
    const KExpr *end = k_min(b, k_div(b, k_add(b, behind, up), tile.members), rows);
    order->low = k_let_expr(b, "lowest_tile", low);
    order->there = k_let_expr(b, "tiles_there", k_sub(b, end, order->low));
    order->place = k_let_expr(b, "place_there", k_sub(b, order->row, order->low));
    if (beside > 1)
        number = k_let_expr(b, "own_tile", k_add(b, k_mul(b, order->matrix, rows), order->row));
    return matmul_tile_at(b, &r->plan->last[0], &r->parts.tiles, number);
}

MatmulTile relay_order_begin(RelayRun *r) {
    Builder *b = r->b;
    RelayOrder *order = &r->across.order;
    DimTable *dims = r->plan->graph->dims;
    const Dim *tiles = r->parts.tiles.count, *rounds = dim_ceil_div(dims, tiles, b->kernel->grid[0]);
    const KExpr *blocks = k_dim(b, b->kernel->grid[0], K_I32);
    const KExpr *zero = k_i32(b, 0), *one = k_i32(b, 1), *place = k_special(b, SPECIAL_CTA_X);
    const KExpr *round = k_for_begin(b, "round", zero, k_dim(b, rounds, K_I32), 1, UNROLL_NONE);
    const KExpr *first = k_let_expr(b, "round_first", k_mul(b, round, blocks));
    order->stride = NULL;
    if (r->parts.is_ragged) {
        const KExpr *is_back = k_eq(b, k_mod(b, round, k_i32(b, 2)), one);
        order->stride = k_let_expr(b, "stride", k_select(b, is_back, k_i32(b, -1), one));
        place = k_select(b, order_is_back(b, order), k_sub(b, k_sub(b, blocks, one), place), place);
    }
    const KExpr *number = k_let_expr(b, "tile", k_add(b, first, place));
    k_if_begin(b, k_lt(b, number, k_dim(b, tiles, K_I32)));
    MatmulTile tile = order_find_tile(r, number, first);
    parts_find(&r->parts, &tile);
    order->count = k_let_expr(b, "parts", k_sub(b, r->parts.end, r->parts.first));
    const KExpr *start =
        k_add(b, r->parts.first, k_div(b, k_mul(b, order->place, order->count), order->there));
    if (r->parts.is_ragged)
        start = k_select(b, order_is_back(b, order), k_sub(b, r->parts.end, one), r->parts.first);
    order->start = k_let_expr(b, "start", start);
    if (r->parts.is_ragged) {
        const KExpr *is_back = order_is_back(b, order),
                    *high = k_sub(b, k_add(b, order->low, order->there), one);
        order->high = k_let_expr(b, "highest_tile", k_select(b, is_back, zero, high));
        order->bias =
            k_let_expr(b, "turn_bias", k_select(b, is_back, order->row, k_sub(b, order->low, order->row)));
    }
    return tile;
}

void relay_order_end(RelayRun *r) {
    k_end(r->b);
    k_end(r->b);
}

const KVar *relay_order_first_part(const RelayRun *r) {
    return k_variable(r->b, "part", K_I32, r->across.order.start);
}

void relay_order_next_part(const RelayRun *r, const KVar *part) {
    Builder *b = r->b;
    const RelayOrder *order = &r->across.order;
    k_set(b, part, k_add(b, k_var(b, part), order->stride ? order->stride : k_i32(b, 1)));
    if (!order->stride) {
        k_if_begin(b, k_eq(b, k_var(b, part), r->parts.end));
        k_set(b, part, r->parts.first);
        k_end(b);
    }
}

/* Tiles that are there at the same time and began at the part or before it come to it from the last of them
 * down, and then those that began behind it, when they have gone around. */
static const KExpr *order_turn_around(const RelayRun *r, const KExpr *part) {
    Builder *b = r->b;
    const RelayOrder *order = &r->across.order;
    const KExpr *one = k_i32(b, 1), *zero = k_i32(b, 0), *at = k_sub(b, part, r->parts.first);
    /* the last that began there: its place * count / there <= at */
    const KExpr *begun = k_sub(b, k_mul(b, k_add(b, at, one), order->there), one);
    const KExpr *behind = k_sub(b, k_div(b, begun, order->count), order->place);
    behind = k_let_expr(b, "turn_there", behind);
    const KExpr *around = k_select(b, k_lt(b, behind, zero), order->there, zero);
    return k_add(b, k_add(b, order->low, behind), around);
}

/* Where tiles go along the diagonal: down, tile `row` comes to a part behind those from the last one that
 * sees it, of those that are there, and behind all of rounds before, `low` of them if all see it: min(high,
 * last) - row + low; and up, behind all before it: row. With `high` 0 for these, one expression serves both.
 *
 * The first and the last tile that see a part: */
static const KExpr *order_first_tile(const RelayRun *r, const KExpr *part) {
    Builder *b = r->b;
    const Dim *most = order_limit(r, true);
    if (!most)
        return k_i32(b, 0);
    const KExpr *row = k_sub(b, k_mul(b, part, k_i32(b, r->parts.width)), k_dim(b, most, K_I32));
    return k_div(b, k_max(b, row, k_i32(b, 0)), k_i32(b, r->parts.rows));
}

static const KExpr *order_last_tile(const RelayRun *r, const KExpr *part) {
    Builder *b = r->b;
    const Dim *least = order_limit(r, false);
    const KExpr *one = k_i32(b, 1), *last = k_sub(b, k_dim(b, r->parts.tiles.tiles_m, K_I32), one);
    if (!least)
        return last;
    const KExpr *row = k_sub(b, k_mul(b, k_add(b, part, one), k_i32(b, r->parts.width)), one);
    row = k_div(b, k_sub(b, row, k_dim(b, least, K_I32)), k_i32(b, r->parts.rows));
    /* rows that see nothing at all have the last part, masked */
    const KExpr *is_end = k_eq(b, part, k_sub(b, k_dim(b, parts_count(&r->parts), K_I32), one));
    return k_select(b, is_end, last, k_min(b, row, last));
}

const KExpr *relay_order_turn(const RelayRun *r, const KExpr *part) {
    Builder *b = r->b;
    const RelayOrder *order = &r->across.order;
    if (!order->stride)
        return k_let_expr(b, "turn", order_turn_around(r, part));
    const KExpr *turn = k_add(b, k_min(b, order->high, order_last_tile(r, part)), order->bias);
    if (order_limit(r, true)) { /* tiles of this round and of those before, from the first that sees it on */
        const KExpr *first = k_let_expr(b, "first_tile", order_first_tile(r, part));
        const KExpr *down = k_sub(b, turn, k_min(b, first, order->low));
        turn = k_select(b, order_is_back(b, order), k_sub(b, turn, first), down);
    }
    return k_let_expr(b, "turn", turn);
}

const KExpr *relay_order_number(const RelayRun *r, const KExpr *part) {
    Builder *b = r->b;
    const KExpr *parts = k_dim(b, parts_count(&r->parts), K_I32);
    return k_let_expr(b, "part_number", k_add(b, k_mul(b, r->across.order.matrix, parts), part));
}
