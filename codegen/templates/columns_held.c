/* Columns of few rows: all rows of a strip in registers, read once for all passes; and results that are
 * stored along these rows, as a matrix in blocks of its columns is, and its transpose.
 *
 *     x[r][c]  ->  registers, all rows of a strip
 *     m[c] = max over r;  q[r][c] = x[r][c] / m[c]       q straight, if it is wanted so
 *     q[r][c]  ->  tile[r][c]  ->  t[c][r .. r + turned)
 *
 * The strip is then a tile of the transpose template (transpose.c), which writes it. */
#include "codegen/templates/columns_held.h"

#include "codegen/templates/vectors.h"
#include "ir/base/checked.h"

enum {
    HELD_ROWS_MOST = 1024,
    HELD_IN_FLIGHT = 16, /* rows of a thread */
    HELD_IN_FLIGHT_LEAST = 4,
    HELD_THREADS = 512,  /* so that each has registers for what it holds */
    HELD_REGISTERS = 64, /* of a thread, for elements that it has read */
};

static bool held_is_turned(const Graph *graph, const Region *region, const Value *output) {
    return lower_output_is_whole(graph, region, output) && !dim_is(region->dims[0], 1) &&
           lower_write_axis(graph, region, output) == 0;
}

bool columns_stores_turned(const Graph *graph, const Region *region) {
    for (size_t i = 0; i < region->outputs.n; i++)
        if (held_is_turned(graph, region, region->outputs.at[i]))
            return true;
    return false;
}

static Transpose held_tile(Arena *arena, const Graph *graph, const Region *region, const Schedule *schedule) {
    Transpose tile = {.region = region,
                      .axis = 0,
                      .last = region->rank - 1,
                      .rows = (int)region->dims[0]->value,
                      .columns = schedule->threads_per_row * schedule->vector,
                      .turned = schedule->turned_vector,
                      .width = schedule->vector};
    for (size_t i = 0; i < region->outputs.n; i++)
        if (held_is_turned(graph, region, region->outputs.at[i]))
            vec_push(arena, &tile.writes, ((TransposeTile){.value = region->outputs.at[i]}));
    return tile;
}

static const char *held_refuses_tile(const Graph *graph, const Region *region, const Schedule *s,
                                     const Target *target, int64_t bytes) {
    if (!is_power_of_two(s->turned_vector) || s->turned_vector > 16 || !is_power_of_two(s->vector) ||
        region->dims[0]->value % s->turned_vector != 0)
        return "vector and turned_vector must be powers of two of at most 16 that divide columns and rows";
    Transpose tile = held_tile(graph->arena, graph, region, s);
    return transpose_writes_refuse(&tile, target, bytes);
}

const char *columns_held_refuses(const Graph *graph, const Region *region, const Schedule *s,
                                 const Target *target, int64_t bytes) {
    if (region->n_reduced != 1 || !dim_is_const(region->dims[0]) || region->dims[0]->value > HELD_ROWS_MOST ||
        region->dims[0]->value != (int64_t)s->rows_per_block * s->unroll || s->places)
        return "resident rows are those of one axis, at most 1024, rows_per_block times unroll of them";
    if (!columns_stores_turned(graph, region))
        return s->turned_vector ? "no output is stored along the rows" : NULL;
    return s->turned_vector ? held_refuses_tile(graph, region, s, target, bytes)
                            : "an output is stored along the rows, which takes a turned_vector";
}

/* Tensors that have as many elements as the space. */
static int held_inputs(const Graph *graph, const Region *region) {
    int n = 0;
    for (size_t i = 0; i < region->inputs.n; i++)
        n += lower_output_is_whole(graph, region, region->inputs.at[i]);
    return n > 1 ? n : 1;
}

/* Schedules of strips of so many columns in runs of `width`, `turned` rows of which are stored at once, 0:
 * none are; those with the most rows in flight first. */
static int held_schedules_of(const Graph *graph, const Region *region, const Target *target, int strip,
                             int width, int turned, Schedule *out, int room) {
    int n = 0, inputs = held_inputs(graph, region), rows = (int)region->dims[0]->value;
    for (int flight = HELD_IN_FLIGHT; flight >= HELD_IN_FLIGHT_LEAST && n < room; flight--) {
        Schedule s = {.vector = width,
                      .turned_vector = turned,
                      .threads = strip / width * (rows / flight),
                      .threads_per_row = strip / width,
                      .rows_per_block = rows / flight,
                      .unroll = flight,
                      .resident = true};
        const char *why;
        bool is_even = !turned || rows / turned * s.threads_per_row % s.threads == 0; /* when it is stored */
        if (is_even && flight * width * inputs <= HELD_REGISTERS && s.threads <= HELD_THREADS &&
            template_takes_rows(&s, &why) && !columns_held_refuses(graph, region, &s, target, 0))
            out[n++] = s;
    }
    return n;
}

/* Strips of 64 columns in runs of 16 bytes, where rows are few; of many 32 in runs of 4, so that several
 * blocks are on an SM. (H200, bf16: layer norm of 384 channels of 32 x 28 x 28, stored channels last, by
 * strips of 64 30.7 us, of 32 18.9; softmax of columns of 512, transposed, 47.3 and 26.5.) */
int columns_held_schedules(const Graph *graph, const Region *region, const Target *target, int vector,
                           Schedule *out, int room) {
    enum { ROWS_FEW = 128, RUN_FEW = 8, RUN_MANY = 4, TURNED_BITS = 128 };
    static const int few[] = {64, 32, 128}, many[] = {32, 64};
    int n = 0;
    if (region->n_reduced != 1 || !dim_is_const(region->dims[0]) || region->dims[0]->value > HELD_ROWS_MOST)
        return 0;
    bool is_few = region->dims[0]->value <= ROWS_FEW;
    const int *strips = is_few ? few : many;
    int n_strips = (int)(is_few ? sizeof few / sizeof *few : sizeof many / sizeof *many);
    Transpose tile = held_tile(graph->arena, graph, region, &(Schedule){0});
    int turned = tile.writes.n > 0 ? transpose_writes_run(&tile, TURNED_BITS) : 0;
    int most = is_few ? RUN_FEW : RUN_MANY, first = vector < most ? vector : most;
    for (int shorter = 1; shorter <= 2; shorter *= 2)
        for (int i = 0; i < n_strips; i++)
            for (int width = first; width >= 1 && 4 * width >= first; width /= 2)
                if (turned >= shorter || shorter == 1)
                    n += held_schedules_of(graph, region, target, strips[i], width, turned / shorter, out + n,
                                           room - n);
    return n;
}

Transpose columns_tile_plan(Builder *b, Lower *lower, const Region *region) {
    Transpose tile = held_tile(b->arena, b->kernel->graph, region, &region->schedule);
    tile.b = b;
    tile.lower = lower;
    tile.index = lower_index_type(lower);
    return tile;
}

void columns_tile_begin(Transpose *tile, const Run *first) {
    for (int i = 0; i < first->rank; i++)
        tile->coords[i] = first->coords[i];
    for (size_t i = 0; i < tile->writes.n; i++)
        tile->writes.at[i].buffer = transpose_tile(tile, tile->writes.at[i].value);
}

void columns_tile_put(const Transpose *tile, const LowerTarget *target, const KExpr *y, const KExpr *slot,
                      int above, const KExpr *column) {
    Builder *b = tile->b;
    const KExpr *first = k_convert(b, y, K_I32);
    TransposePiece piece = {.slot = slot, .first = first, .step = above};
    piece.major = k_add(b, first, k_mul(b, slot, k_i32(b, above)));
    for (size_t i = 0; i < tile->writes.n; i++) {
        const KBuffer *buffer = tile->writes.at[i].buffer;
        if (tile->writes.at[i].value == target->value)
            vectors_store(b, buffer, k_add(b, transpose_piece_row(tile, buffer, &piece), column), target->dst,
                          k_i32(b, 0), tile->width);
    }
}
