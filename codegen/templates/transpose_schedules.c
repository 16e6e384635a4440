/* Which schedules the transpose template takes, and which it proposes. */
#include "codegen/cost.h"
#include "codegen/templates/transpose.h"
#include "ir/base/checked.h"

enum {
    TRANSPOSE_THREADS = 256,
    TRANSPOSE_ROWS_MOST = 256,
    TRANSPOSE_COLUMNS_MOST = 512,
};

/* ---- what is taken */

/* Whether threads have equally many of the pieces that each step of the kernel is made of. */
static bool transpose_is_even(const Transpose *t, int threads) {
    int reads = t->rows / t->turned * t->columns;
    if (threads < 32 || threads > 1024 || threads % 32 != 0)
        return false;
    if (!t->is_skewed)
        return reads / t->width % threads == 0;
    return reads % threads == 0 && t->rows * (t->columns / t->width) % threads == 0 &&
           t->rows * TRANSPOSE_EDGES * t->width % threads == 0;
}

static bool transpose_is_tile(const Schedule *s, int turned) {
    return is_power_of_two(s->vector) && s->vector <= 16 && is_power_of_two(turned) && turned <= 16 &&
           is_power_of_two(s->tile_rows) && s->tile_rows >= turned && s->tile_rows <= TRANSPOSE_ROWS_MOST &&
           s->tile_cols > 0 && s->tile_cols % s->vector == 0 && s->tile_cols <= TRANSPOSE_COLUMNS_MOST;
}

const char *transpose_writes_refuse(const Transpose *t, const Target *target, int64_t bytes) {
    for (size_t i = 0; i < t->writes.n; i++) {
        DType type = t->writes.at[i].value->dtype;
        if (dtype_bits(type) < 8)
            return "elements of less than a byte cannot be turned";
        bytes += round_up(transpose_tile_count(t, type) * dtype_bits(type) / 8, TRANSPOSE_ALIGNMENT);
    }
    return bytes > target->smem_per_block ? "the tiles do not fit into shared memory" : NULL;
}

int transpose_writes_run(const Transpose *t, int bits) {
    enum { RUN_MOST = 8 };
    int run = RUN_MOST;
    for (size_t i = 0; i < t->writes.n; i++)
        while (run > 1 && run * dtype_bits(t->writes.at[i].value->dtype) > bits)
            run /= 2;
    return run;
}

bool transpose_accepts(const Graph *graph, const Region *region, const Schedule *s, const Target *target,
                       const char **why) {
    Transpose t = transpose_plan(graph, region, s);
    if (t.axis < 0 || t.reads.n + t.writes.n == 0) {
        *why = "nothing is read or written along another axis than the innermost";
        return false;
    }
    if (!transpose_is_tile(s, t.turned)) {
        *why = "vector, turned_vector and tile_rows must be powers of two, vectors of at most 16; tile_rows "
               "at least turned_vector and at most 256, tile_cols a multiple of vector and at most 512";
        return false;
    }
    if (!transpose_is_even(&t, s->threads)) {
        *why = "threads must be a multiple of 32 up to 1024 that divides the tile's blocks of turned_vector "
               "x vector elements; where vector does not divide the innermost axis, the tile's runs both "
               "ways, and two vectors of each row";
        return false;
    }
    if (dim_divisor(graph->dims, region->dims[t.axis]) % t.turned != 0) {
        *why = "turned_vector (vector, where it is not said) must divide the axis of turned accesses";
        return false;
    }
    if (t.is_skewed && (*why = transpose_skewed_refuses(graph, &t)))
        return false;
    int64_t bytes = 0;
    size_t n = t.is_skewed ? region->outputs.n : t.reads.n + t.writes.n;
    for (size_t i = 0; i < n; i++) {
        const Value *value = t.is_skewed     ? region->outputs.at[i]
                             : i < t.reads.n ? t.reads.at[i].value
                                             : t.writes.at[i - t.reads.n].value;
        if (dtype_bits(value->dtype) < 8) {
            *why = "elements of less than a byte cannot be turned";
            return false;
        }
        bytes += round_up(transpose_tile_count(&t, value->dtype) * dtype_bits(value->dtype) / 8,
                          TRANSPOSE_ALIGNMENT);
    }
    if (bytes > target->smem_per_block) {
        *why = "the tiles do not fit into shared memory";
        return false;
    }
    for (size_t i = 0; i < region->outputs.n; i++)
        if (!lower_output_is_whole(graph, region, region->outputs.at[i]) ||
            (!t.is_skewed && !transpose_is_written_turned(&t, region->outputs.at[i]) &&
             !lower_can_store(graph, region, region->outputs.at[i], t.last, s->vector))) {
            *why = "an output does not fit the space, or has 4-bit elements and rows of odd length";
            return false;
        }
    return true;
}

/* ---- what is proposed */

/* Elements of a run along an axis: of 16 bytes at most, so that what a warp loads or stores at once lies side
 * by side (64.2 us for 25 million elements of 16 bits to 32 by runs of 8, 42.5 by 4). */
static int transpose_vector(const Graph *graph, const Region *region, int axis) {
    enum { RUN_BITS = 128, RUN_MOST = 8 };
    int vector = axis < 0 ? 1 : lower_vector_width(graph, region, axis);
    vector = vector > RUN_MOST ? RUN_MOST : vector;
    for (size_t i = 0; i < region->inputs.n + region->outputs.n; i++) {
        const Value *value =
            i < region->inputs.n ? region->inputs.at[i] : region->outputs.at[i - region->inputs.n];
        while (vector > 1 && lower_output_is_whole(graph, region, value) &&
               vector * dtype_bits(value->dtype) > RUN_BITS)
            vector /= 2;
    }
    return vector;
}

/* Whether there are fewer than so many tiles of so many elements an SM. */
static bool transpose_is_small(const Graph *graph, const Region *region, const Target *target,
                               const DimBindings *hint, int tile, int per_sm) {
    return cost_space(graph, region, 0, region->rank, hint) / tile < (int64_t)target->sm_count * per_sm;
}

/* Bits of the widest element that has as many as the space. */
static int transpose_bits(const Graph *graph, const Region *region) {
    int bits = 8;
    for (size_t i = 0; i < region->inputs.n + region->outputs.n; i++) {
        const Value *value =
            i < region->inputs.n ? region->inputs.at[i] : region->outputs.at[i - region->inputs.n];
        if (lower_output_is_whole(graph, region, value) && dtype_bits(value->dtype) > bits)
            bits = dtype_bits(value->dtype);
    }
    return bits;
}

/* Whether an input is read along the innermost axis: where rows begin anywhere, that goes by the element, and
 * far apart. */
static bool transpose_reads_straight(const Graph *graph, const Region *region) {
    enum { INPUTS = 32 };
    const Value *moved[INPUTS];
    int n = lower_moved_inputs(region, moved, INPUTS);
    for (int i = 0; i < n; i++)
        if (lower_read_axis(graph, region, moved[i]) == region->rank - 1)
            return true;
    return false;
}

/* Columns of a tile, a multiple of `step` of at most `most`, in as few equal parts as they go. */
static int transpose_columns(int64_t extent, int step, int most) {
    int64_t parts = ceil_div(extent, most / step * step);
    return (int)round_up(ceil_div(extent, parts < 1 ? 1 : parts), step);
}

/* The most columns of a tile of rows of odd length: whole rows where they are short, unless tiles are few;
 * of 32 bits by vectors both ways fewer, for more blocks an SM. (H200, rows of 257 elements of 16 bits: 2.1
 * million in all 11.3 us whole, 8.6 by 144, 8.4 by 96; 5.6 million 13.1, 15.2, 14.7; 51 million 64, 71, 89.
 * 5001 x 3004 of 32 bits 49.5 by 144, 42.0 by 80.) */
static int transpose_skewed_most(int64_t extent, int bits, int turned, bool is_small) {
    enum { WHOLE_BITS = 272 * 16, COLUMNS = 144, COLUMNS_WIDE = 80, COLUMNS_FEW = 96, WIDE = 32 };
    if (is_small)
        return COLUMNS_FEW;
    if (extent * bits <= WHOLE_BITS)
        return WHOLE_BITS / bits;
    return bits >= WIDE && turned > 1 ? COLUMNS_WIDE : COLUMNS;
}

/* Rows of odd length: a line of memory along the axis, and columns that divide the rows into equal parts. */
static Schedule transpose_skewed_schedule(const Graph *graph, const Region *region, const Target *target,
                                          const DimBindings *hint, int width, int turned) {
    enum { LINE_BITS = 1024, COLUMNS = 144, THREADS = 128, TILES_PER_SM = 4 };
    int bits = transpose_bits(graph, region), rows = LINE_BITS / bits, across = rows / turned;
    int64_t extent = region->dims[region->rank - 1]->value;
    int edges = rows * TRANSPOSE_EDGES * width, threads = edges < THREADS ? edges : THREADS;
    /* Such columns as give all threads equally much of both. */
    int step = threads / across > width ? threads / across : width;
    while (rows * (step / width) % threads != 0)
        step *= 2;
    bool is_small = transpose_is_small(graph, region, target, hint, rows * COLUMNS, TILES_PER_SM);
    int columns = transpose_columns(extent, step, transpose_skewed_most(extent, bits, turned, is_small));
    return (Schedule){.threads = threads,
                      .vector = width,
                      .turned_vector = turned,
                      .unroll = 1,
                      .tile_rows = rows,
                      .tile_cols = columns};
}

/* Vectors both ways, or single elements both ways. */
static Schedule transpose_square(const Graph *graph, const Region *region, const Target *target,
                                 const DimBindings *hint, int axis, int vector) {
    enum { LARGE = 128 * 64, TILES_PER_SM = 8 };
    /* Of few elements each thread has fewer (H200, gelu of 64 x 7 x 5120: 8.3 us by 8 x 8, 7.5 by 4 x 4; 224
     * x 128 x 256 14.0 and 12.6). */
    if (vector == 8 && transpose_is_small(graph, region, target, hint, LARGE, TILES_PER_SM))
        vector = 4;
    /* Tiles that divide the extents need no conditions. Elements one by one: many of a row at once, and
     * several of a thread (5001 x 3003 of 32 bits: 48.0 us by 32 x 32, 38.6 so). */
    int tile = vector == 8 ? 128 : vector == 1 ? 32 : 64, rows = tile, columns = vector == 1 ? 128 : tile;
    if (axis >= 0 && vector == 8 && dim_divisor(graph->dims, region->dims[axis]) % rows != 0)
        rows /= 2;
    if (vector == 8 && dim_divisor(graph->dims, region->dims[region->rank - 1]) % columns != 0)
        columns /= 2;
    /* Nor columns beyond the end (32 x 128256 of 16 bits: 11.6 us by 64 columns, 9.2 by 32). */
    while (columns / 2 >= 4 * vector && dim_upper(graph->dims, region->dims[region->rank - 1]) <= columns / 2)
        columns /= 2;
    int blocks = (rows / vector) * (columns / vector);
    int threads = vector == 1 ? TRANSPOSE_THREADS / 2 : TRANSPOSE_THREADS;
    return (Schedule){.threads = blocks < threads ? blocks : threads,
                      .vector = vector,
                      .unroll = 1,
                      .tile_rows = rows,
                      .tile_cols = columns};
}

/* One axis is odd, or nearly so: wide runs along the other one alone. */
static Schedule transpose_oblong(int vector, int turned) {
    enum { ROWS = 64, COLUMNS = 64 };
    int blocks = ROWS * COLUMNS / (vector * turned);
    return (Schedule){.threads = blocks < TRANSPOSE_THREADS ? blocks : TRANSPOSE_THREADS,
                      .vector = vector,
                      .turned_vector = turned,
                      .unroll = 1,
                      .tile_rows = ROWS,
                      .tile_cols = COLUMNS};
}

int transpose_schedules(const Graph *graph, const Region *region, const Target *target,
                        const DimBindings *hint, Schedule *out, int room) {
    enum { VECTOR_ENOUGH = 4, SKEWED_ONE = 4 };
    int axis = transpose_axis(graph, region), n = 0;
    int vector = transpose_vector(graph, region, region->rank - 1),
        turned = transpose_vector(graph, region, axis), least = vector < turned ? vector : turned;
    Schedule asked = {.vector = 1, .tile_rows = 1, .tile_cols = 1};
    Transpose t = transpose_plan(graph, region, &asked);
    if (axis >= 0 && vector < VECTOR_ENOUGH && !transpose_reads_straight(graph, region)) {
        int width = transpose_skewed_width(graph, region, &t);
        /* Rows that single elements are stored to lie a vector apart in the banks. */
        if (turned == 1 && width > SKEWED_ONE)
            width = SKEWED_ONE;
        if (width > vector)
            out[n++] = transpose_skewed_schedule(graph, region, target, hint, width, turned);
    }
    if (n < room && least < VECTOR_ENOUGH && vector != turned)
        out[n++] = transpose_oblong(vector, turned);
    if (n == room)
        return n;
    Schedule square = transpose_square(graph, region, target, hint, axis, least);
    int blocks = (square.tile_rows / square.vector) * (square.tile_cols / square.vector);
    out[n++] = square;
    if (n < room && blocks >= 128 * 2) {
        out[n] = square;
        out[n].threads = square.threads / 2;
        out[n++].tile_rows /= 2;
    }
    if (n < room && square.vector > 2) { /* what needs fewer registers */
        out[n] = square;
        out[n].threads = 4 * blocks < square.threads ? 4 * blocks : square.threads;
        out[n++].vector /= 2;
    }
    return n;
}
