/* Turned reads into rows that begin anywhere in memory, since their length is no multiple of a vector (257).
 *
 * Vectors begin where memory has them, so each row of a tile has a few elements before its first whole vector
 * and behind its last one, its edges, which are written one by one:
 *
 *     memory   | . . . . . . x x | x x x x x x x x | x x x x x x x x | x x x . . . . . |
 *                        head                                          tail
 *     tile's row, columns + v long: its first whole vector lies at v, its first element at v - head
 *
 * So shared memory, too, has whole vectors where they are read. The work is done before, in runs along the
 * axis of turned accesses: each of their elements goes to a row of its own anyway. */
#include "codegen/templates/transpose.h"

enum { SKEWED_BITS = 128 }; /* of a vector at most */

/* ---- which regions */

const char *transpose_skewed_refuses(const Graph *graph, const Transpose *t) {
    const Region *region = t->region;
    if (!dim_is_const(region->dims[t->last]))
        return "vector must divide the innermost axis where its extent is not known";
    if (t->writes.n > 0)
        return "vector must divide the innermost axis where an output is written along another one";
    for (size_t i = 0; i < region->outputs.n; i++)
        if (t->width * dtype_bits(region->outputs.at[i]->dtype) > SKEWED_BITS ||
            !lower_can_store_skewed(graph, region, region->outputs.at[i], t->width))
            return "vector must divide the innermost axis, or every output be one array in the order of the "
                   "space, of vectors of at most 16 bytes";
    return NULL;
}

int transpose_skewed_width(const Graph *graph, const Region *region, const Transpose *t) {
    enum { MOST = 8 };
    Transpose asked = *t;
    for (asked.width = MOST; asked.width > 1; asked.width /= 2)
        if (dim_divisor(graph->dims, region->dims[t->last]) % asked.width != 0 &&
            !transpose_skewed_refuses(graph, &asked))
            break;
    return asked.width;
}

/* ---- places */

/* Numbers of rows among all of the space, row by row, and of elements before their first whole vectors. */
typedef struct SkewedRows {
    const KExpr *first;  /* number of the tile's first row */
    const KExpr *stride; /* to the number of the next one */
    const KExpr *head;   /* of the first */
    const KExpr *turn;   /* from a row to the next, heads grow by this, modulo the width */
} SkewedRows;

static const KExpr *skewed_modulo(const Transpose *t, const KExpr *x) {
    return k_bit_and(t->b, x, k_int(t->b, x->type, t->width - 1));
}

/* `x` numbers' worth of what one number adds to a head. */
static const KExpr *skewed_heads(const Transpose *t, const KExpr *x) {
    Builder *b = t->b;
    int64_t extent = t->region->dims[t->last]->value, each = (t->width - extent % t->width) % t->width;
    x = k_convert(b, skewed_modulo(t, x), K_I32);
    return skewed_modulo(t, k_mul(b, x, k_int(b, K_I32, each)));
}

static SkewedRows skewed_rows(Transpose *t) {
    Builder *b = t->b;
    SkewedRows rows;
    const Dim *behind = region_extent(b->kernel->graph, t->region, t->axis + 1, t->last);
    const KExpr *number = t->coords[0];
    for (int i = 1; i < t->last; i++)
        number = k_add(b, k_mul(b, number, k_dim(b, t->region->dims[i], t->index)), t->coords[i]);
    rows.first = k_let_expr(b, "tile_first", number);
    rows.stride = k_dim(b, behind, t->index);
    rows.head = k_let_expr(b, "tile_head", skewed_heads(t, rows.first));
    rows.turn = skewed_heads(t, rows.stride);
    return rows;
}

static const KExpr *skewed_head(const Transpose *t, const SkewedRows *rows, const KExpr *row) {
    return skewed_modulo(t, k_add(t->b, rows->head, k_mul(t->b, row, rows->turn)));
}

/* ---- the kernel */

static void skewed_fill(Transpose *t, const SkewedRows *rows, TransposeTile *tiles, int n) {
    Builder *b = t->b;
    int across = t->rows / t->turned, count = across * t->columns;
    const KExpr *turned = k_i32(b, t->turned);
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    for (int i = 0; i < n; i++)
        targets[i] = (LowerTarget){.value = tiles[i].value, .stored = true};
    Run run = {.rank = t->region->rank, .axis = t->axis, .width = t->turned};
    lower_batch_begin(t->lower, &run, targets, n, count / b->kernel->threads);
    TransposePiece at = transpose_pieces_begin(t, count, across, "column", "rows");
    run = transpose_run(t, t->axis, k_mul(b, at.minor, turned), at.major);
    lower_batch_load(t->lower, &run, at.slot);
    k_end(b);

    at = transpose_pieces_begin(t, count, across, "column", "rows");
    run = transpose_run(t, t->axis, k_mul(b, at.minor, turned), at.major);
    for (int i = 0; i < n; i++) {
        const char *name = text_format(b->arena, "%s_v", lower_value_name(t->lower, tiles[i].value));
        targets[i].dst = k_array(b, name, ktype_of(tiles[i].value->dtype), t->turned, NULL);
    }
    lower_batch_run(t->lower, &run, at.slot, targets, n);
    const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), turned, 1, UNROLL_FULL);
    const KExpr *head = skewed_head(t, rows, k_add(b, k_mul(b, at.minor, turned), i));
    const KExpr *column = k_add(b, k_sub(b, k_i32(b, t->width), head), at.major);
    for (int k = 0; k < n; k++) {
        const KExpr *row = transpose_group_row(t, tiles[k].buffer, at.minor, i);
        k_store(b, tiles[k].buffer, k_add(b, row, column), targets[k].dst, i, 1, NULL, CACHE_DEFAULT);
    }
    k_end(b);
    k_end(b);
    lower_batch_end(t->lower);
    k_barrier(b);
}

/* The run that begins at an element of the tile, with its row's number. */
static Run skewed_run(Transpose *t, const SkewedRows *rows, const KExpr *row, const KExpr *column,
                      int width) {
    Builder *b = t->b;
    Run run = transpose_run(t, t->last, row, column);
    run.width = width;
    run.start = width > 1 ? RUN_SKEWED : RUN_IN_ROW;
    run.split = t->last;
    run.outer = k_add(b, rows->first, k_mul(b, k_convert(b, row, t->index), rows->stride));
    run.inner = run.coords[t->last];
    const KExpr *last = k_i32(b, width - 1), *end = k_i32(b, t->columns);
    const KExpr *extent = k_dim(b, t->region->dims[t->last], t->index);
    run.guard = k_lt(b, k_add(b, column, last), end);
    run.guard = k_and(b, run.guard, k_lt(b, k_add(b, run.inner, k_convert(b, last, t->index)), extent));
    if (dim_divisor(b->kernel->graph->dims, t->region->dims[t->axis]) % t->rows != 0)
        run.guard =
            k_and(b, run.guard, k_lt(b, run.coords[t->axis], k_dim(b, t->region->dims[t->axis], t->index)));
    return run;
}

/* Registers of so many elements as memory has them. */
static int skewed_words(const KBuffer *tile, int elements) {
    enum { WORD_BITS = 32 };
    return (elements * dtype_bits(tile->elem) + WORD_BITS - 1) / WORD_BITS;
}

static void skewed_write(Transpose *t, const SkewedRows *rows, const TransposeTile *tiles, int n) {
    Builder *b = t->b;
    int across = t->columns / t->width;
    const KExpr *width = k_i32(b, t->width);
    TransposePiece at = transpose_pieces_begin(t, t->rows * across, across, "row", "run");
    const KExpr *place = k_mul(b, at.minor, width);
    Run run = skewed_run(t, rows, at.major, k_add(b, place, skewed_head(t, rows, at.major)), t->width);
    for (int k = 0; k < n; k++) {
        const KBuffer *tile = tiles[k].buffer;
        const KVar *vector = k_array(b, "vector", K_U32, skewed_words(tile, t->width), NULL);
        const KExpr *row = k_add(b, transpose_piece_row(t, tile, &at), width);
        k_load_raw(b, vector, NULL, tile, k_add(b, row, place), t->width, NULL, CACHE_DEFAULT);
        lower_store(t->lower, &run, tiles[k].value, vector, NULL);
    }
    k_end(b);
}

/* Both edges of each row, an element a thread. */
static void skewed_write_edges(Transpose *t, const SkewedRows *rows, const TransposeTile *tiles, int n) {
    Builder *b = t->b;
    const KExpr *width = k_i32(b, t->width), *extent = k_dim(b, t->region->dims[t->last], t->index);
    const KExpr *length = k_convert(b, k_sub(b, extent, t->coords[t->last]), K_I32);
    length = k_let_expr(b, "length", k_min(b, length, k_i32(b, t->columns)));
    int across = TRANSPOSE_EDGES * t->width;
    TransposePiece at = transpose_pieces_begin(t, t->rows * across, across, "row", "edge");
    const KExpr *head = k_let_expr(b, "head", skewed_head(t, rows, at.major));
    const KExpr *vectors = k_div(b, k_max(b, k_sub(b, length, head), k_i32(b, 0)), width);
    const KExpr *behind = k_add(b, at.minor, k_mul(b, vectors, width));
    const KExpr *column = k_let_expr(b, "column", k_select(b, k_lt(b, at.minor, head), at.minor, behind));
    Run run = skewed_run(t, rows, at.major, column, 1);
    k_if_begin(b, run.guard);
    run.guard = NULL;
    for (int k = 0; k < n; k++) {
        const KBuffer *tile = tiles[k].buffer;
        const KVar *element = k_array(b, "element", K_U32, skewed_words(tile, 1), NULL);
        const KExpr *place = k_add(b, column, k_sub(b, width, head));
        place = k_add(b, transpose_piece_row(t, tile, &at), place);
        k_load_raw(b, element, NULL, tile, place, 1, NULL, CACHE_DEFAULT);
        lower_store(t->lower, &run, tiles[k].value, element, NULL);
    }
    k_end(b);
    k_end(b);
}

void transpose_skewed_build(Transpose *t) {
    Builder *b = t->b;
    const Region *region = t->region;
    int n = (int)region->outputs.n;
    TransposeTile *tiles = ARENA_ARRAY(b->arena, TransposeTile, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        tiles[i] = (TransposeTile){region->outputs.at[i], transpose_tile(t, region->outputs.at[i])};
        k_partial(b, tiles[i].buffer);
    }
    SkewedRows rows = skewed_rows(t);
    skewed_fill(t, &rows, tiles, n);
    skewed_write(t, &rows, tiles, n);
    skewed_write_edges(t, &rows, tiles, n);
}
