/* Rows: results that are stored across the rows, as a norm is whose transpose is asked for. A block has so
 * many rows as fill a sector of memory that way, some at a time, and a tile of the result:
 *
 *     for each of the block's rows:  y = f(x, statistics of the row);  y -> tile[row]
 *     tile[row][c]  ->  t[c][row .. row + turned)
 *
 * The tile is one of the transpose template (transpose.c), which writes it. */
#include "codegen/templates/rows_turned.h"

#include "codegen/templates/vectors.h"
#include "ir/base/checked.h"

static bool turned_is_whole(const Graph *graph, const Region *region, const Value *output) {
    BlockStatistic block;
    return !region_window(region, output) && !lower_output_is_block(region, output, &block) &&
           lower_output_is_whole(graph, region, output);
}

/* The axis of the space, besides the rows' own, along which the first output is stored that has one; -1:
 * none. */
static int turned_axis(const Graph *graph, const Region *region) {
    if (region->n_reduced != 1 || dim_is(region->dims[region->rank - 1], 1))
        return -1;
    for (size_t i = 0; i < region->outputs.n; i++) {
        if (!turned_is_whole(graph, region, region->outputs.at[i]))
            continue;
        int axis = lower_write_axis(graph, region, region->outputs.at[i]);
        if (axis >= 0 && axis < region->rank - 1)
            return axis;
    }
    return -1;
}

static bool turned_is_output(const Graph *graph, const Region *region, const Value *output, int axis) {
    return turned_is_whole(graph, region, output) && lower_write_axis(graph, region, output) == axis;
}

bool rows_store_turned(const Graph *graph, const Region *region) {
    return turned_axis(graph, region) >= 0;
}

static Transpose turned_tile(Arena *arena, const Graph *graph, const Region *region,
                             const Schedule *schedule) {
    Transpose tile = {.region = region,
                      .axis = turned_axis(graph, region),
                      .last = region->rank - 1,
                      .rows = schedule->tile_rows,
                      .columns = (int)region->dims[region->rank - 1]->value,
                      .turned = schedule->turned_vector,
                      .width = schedule->vector};
    for (size_t i = 0; i < region->outputs.n; i++)
        if (turned_is_output(graph, region, region->outputs.at[i], tile.axis))
            vec_push(arena, &tile.writes, ((TransposeTile){.value = region->outputs.at[i]}));
    return tile;
}

static const char *turned_refuses_tile(const Graph *graph, const Region *region, const Schedule *s,
                                       const Target *target, int64_t bytes) {
    enum { ROWS_MOST = 256, ROW_MOST = 1 << 14 };
    const Dim *row = region->dims[region->rank - 1];
    if (!is_power_of_two(s->turned_vector) || s->turned_vector > 16 || !is_power_of_two(s->vector) ||
        s->tile_rows < s->turned_vector || s->tile_rows > ROWS_MOST || s->tile_rows % s->turned_vector ||
        s->tile_rows % s->rows_per_block ||
        dim_divisor(graph->dims, region->dims[turned_axis(graph, region)]) % s->tile_rows)
        return "tile_rows, at most 256, must be a multiple of turned_vector and rows_per_block, and divide "
               "the axis "
               "that the output lies along";
    if (!s->resident || rows_blocks(s) > 1 || !dim_is_const(row) || row->value > ROW_MOST ||
        row->value % s->vector)
        return "rows that are stored across are resident, of a known length, in whole runs of vector";
    Transpose tile = turned_tile(graph->arena, graph, region, s);
    return transpose_writes_refuse(&tile, target, bytes);
}

const char *rows_turned_refuses(const Graph *graph, const Region *region, const Schedule *s,
                                const Target *target, int64_t bytes) {
    RowsDown down[ROWS_DOWN_MAX];
    if (!s->turned_vector) /* element by element, where it is */
        return NULL;
    if (!rows_store_turned(graph, region))
        return "no output is stored across the rows";
    if (rows_find_down(region, down) > 0 || rows_may_have_rounds(region) ||
        rows_start(graph, region, s->vector) != RUN_IN_ROW)
        return "rows that are stored across have no statistics of columns and no rounds, and begin at "
               "vectors";
    return turned_refuses_tile(graph, region, s, target, bytes);
}

/* Rows are stored in runs of 8 bytes, so that blocks of runs leave registers for more threads (H200, a norm
 * of 4 x 2048 x 32 heads of 128 in 16 bits, transposed: 45.4 us by 16 bytes, 39.6 so). */
int rows_turned_schedules(const Graph *graph, const Region *region, const Target *target,
                          const Schedule *like, Schedule *out, int room) {
    enum { RUN_BITS = 64 };
    static const int rows[] = {32, 16, 64}, threads[] = {256, 512, 128};
    Transpose tile = turned_tile(graph->arena, graph, region, like);
    int n = 0, run = transpose_writes_run(&tile, RUN_BITS);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int turned = run; turned >= 1 && 2 * turned >= run; turned /= 2)
            for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
                Schedule s = *like;
                s.tile_rows = rows[i];
                s.turned_vector = turned;
                s.threads = threads[k];
                s.rows_per_block = s.threads / s.threads_per_row;
                /* two blocks an SM, so that one loads while the other stores */
                if (n < room && s.rows_per_block > 0 &&
                    !rows_turned_refuses(graph, region, &s, target, target->smem_per_block / 2))
                    out[n++] = s;
            }
    return n;
}

void rows_tile_plan(Rows *rows) {
    rows->tile = turned_tile(rows->b->arena, rows->b->kernel->graph, rows->region, rows->schedule);
    rows->tile.b = rows->b;
    rows->tile.lower = rows->lower;
    rows->tile.index = rows->index;
    rows->tile_places = ARENA_ARRAY(rows->b->arena, const KExpr *, rows->tile.writes.n + 1);
}

/* The number of the tile's first row, which lies at row tile * rows of its axis; *step: from there to the
 * next. Blocks beside each other have neighbours along the axes behind that one. */
static const KExpr *turned_first(Rows *rows, const KExpr *block, const KExpr **step) {
    Builder *b = rows->b;
    const Graph *graph = b->kernel->graph;
    const Region *region = rows->region;
    int axis = rows->tile.axis;
    const KExpr *inner = k_dim(b, region_extent(graph, region, axis + 1, rows->split), rows->index);
    *step = inner;
    const KExpr *first = k_mul(b, k_div(b, block, inner), k_int(b, rows->index, rows->tile.rows));
    return k_let_expr(b, "tile_row", k_add(b, k_mul(b, first, inner), k_mod(b, block, inner)));
}

void rows_tile_build(Rows *rows, const KExpr *block, const KExpr *above, void (*build_row)(Rows *rows)) {
    Builder *b = rows->b;
    Transpose *tile = &rows->tile;
    const KExpr *turned = k_i32(b, tile->turned), *step, *first = turned_first(rows, block, &step);
    lower_delinearize(b, first, rows->split, rows->region->dims, tile->coords);
    tile->coords[tile->last] = k_int(b, rows->index, 0);
    for (size_t i = 0; i < tile->writes.n; i++)
        tile->writes.at[i].buffer = transpose_tile(tile, tile->writes.at[i].value);
    const KExpr *at = k_for_begin(b, "of_tile", k_i32(b, 0), k_i32(b, tile->rows),
                                  rows->schedule->rows_per_block, UNROLL_NONE);
    const KExpr *row = k_let_expr(b, "row_of_tile", k_add(b, at, above));
    rows->row = k_let_expr(b, "row", k_add(b, first, k_mul(b, k_convert(b, row, rows->index), step)));
    for (size_t i = 0; i < tile->writes.n; i++) {
        const KBuffer *buffer = tile->writes.at[i].buffer;
        const KExpr *place = transpose_group_row(tile, buffer, k_div(b, row, turned), k_mod(b, row, turned));
        rows->tile_places[i] = k_let_expr(b, "place", place);
    }
    build_row(rows);
    if (rows->lanes > 32 && rows->levels.n == 1) /* of several, another's barrier is between */
        k_barrier(b);
    k_end(b);
    transpose_write(tile);
}

void rows_tile_put(const Rows *rows, const LowerTarget *target, const Run *run) {
    Builder *b = rows->b;
    const KExpr *column = k_convert(b, run->inner, K_I32);
    if (run->guard)
        k_if_begin(b, run->guard);
    for (size_t i = 0; i < rows->tile.writes.n; i++)
        if (rows->tile.writes.at[i].value == target->value)
            vectors_store(b, rows->tile.writes.at[i].buffer, k_add(b, rows->tile_places[i], column),
                          target->dst, k_i32(b, 0), rows->width);
    if (run->guard)
        k_end(b);
}
