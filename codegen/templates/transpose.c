/* Transpose: pointwise work whose reads are contiguous along another axis than its writes. Both go through a
 * tile of shared memory, so that both move whole vectors:
 *
 *     turned reads   x[c][a .. a+v)  -> registers, v x v to a thread -> tile[a][c .. c+v)      a: the axis of
 * the reads work           tile[a][c .. c+v) and all other inputs -> outputs [a][c .. c+v)           c: the
 * innermost axis turned writes  tile[a][c .. c+v) -> registers, v x v to a thread -> y[c][a .. a+v)
 *
 * A tile's row holds its runs of v elements in an order that depends on the row (run number xor row / v), so
 * that neither side meets the same banks twice. */
#include "codegen/cost.h"
#include "codegen/lower.h"
#include "codegen/template.h"
#include "codegen/templates/vectors.h"
#include "ir/base/checked.h"
#include "ir/view.h"

enum { TRANSPOSE_THREADS = 256, TRANSPOSE_BANKS_BYTES = 128, TRANSPOSE_INPUTS = 32 };

typedef struct TransposeTile {
    const Value *value; /* read, or written */
    KBuffer *buffer;
} TransposeTile;

typedef struct Transpose {
    Builder *b;
    const Region *region;
    Lower *lower;
    KType index;
    int axis, last, width, rows,
        columns; /* the axis of turned accesses, the innermost; a tile's extents along them */
    const KExpr *coords[RANK_MAX]; /* of the tile's first element */
    VEC(TransposeTile) reads, writes;
} Transpose;

/* ---- what is turned */

/* The axis of the space, besides the innermost, along which the most inputs and outputs are contiguous; -1
 * where none is. */
static int transpose_axis(const Graph *graph, const Region *region) {
    int votes[RANK_MAX] = {0}, best = -1;
    if (region->rank < 2 || dim_is(region->dims[region->rank - 1], 1))
        return -1;
    const Value *moved[TRANSPOSE_INPUTS];
    int n = lower_moved_inputs(region, moved, TRANSPOSE_INPUTS);
    for (int i = 0; i < n; i++) {
        int axis = lower_read_axis(graph, region, moved[i]);
        if (axis >= 0)
            votes[axis]++;
    }
    for (size_t i = 0; i < region->outputs.n; i++) {
        int axis = lower_write_axis(graph, region, region->outputs.at[i]);
        if (axis >= 0)
            votes[axis]++;
    }
    for (int i = 0; i < region->rank - 1; i++)
        if (votes[i] > 0 && (best < 0 || votes[i] > votes[best]))
            best = i;
    return best;
}

static void transpose_find(Transpose *t, const Graph *graph) {
    const Region *region = t->region;
    const Value *moved[TRANSPOSE_INPUTS];
    int n = lower_moved_inputs(region, moved, TRANSPOSE_INPUTS);
    for (int i = 0; i < n; i++)
        if (lower_read_axis(graph, region, moved[i]) == t->axis) {
            TransposeTile tile = {.value = moved[i]};
            vec_push(graph->arena, &t->reads, tile);
        }
    for (size_t i = 0; i < region->outputs.n; i++)
        if (lower_write_axis(graph, region, region->outputs.at[i]) == t->axis) {
            TransposeTile tile = {.value = region->outputs.at[i]};
            vec_push(graph->arena, &t->writes, tile);
        }
}

static bool transpose_is_written_turned(const Transpose *t, const Value *output) {
    for (size_t i = 0; i < t->writes.n; i++)
        if (t->writes.at[i].value == output)
            return true;
    return false;
}

/* ---- places */

/* Where the run of v elements number `run` of a tile's row begins. */
static const KExpr *transpose_place(const Transpose *t, const KBuffer *tile, const KExpr *row,
                                    const KExpr *run) {
    Builder *b = t->b;
    int runs = TRANSPOSE_BANKS_BYTES * 8 / (t->width * dtype_bits(tile->elem)), most = t->columns / t->width;
    runs = runs < 1 ? 1 : runs > most ? most : runs;
    const KExpr *turn = k_mod(b, k_div(b, row, k_i32(b, t->width)), k_i32(b, runs));
    const KExpr *place = runs > 1 ? k_xor(b, run, turn) : run;
    return k_add(b, k_mul(b, row, k_i32(b, t->columns)), k_mul(b, place, k_i32(b, t->width)));
}

/* The run of the space that starts at element (row, column) of the tile and goes along `axis`. */
static Run transpose_run(Transpose *t, int axis, const KExpr *row, const KExpr *column) {
    Builder *b = t->b;
    const Region *region = t->region;
    DimTable *table = b->kernel->graph->dims;
    Run run = {.rank = region->rank, .axis = axis, .width = t->width};
    for (int i = 0; i < region->rank; i++)
        run.coords[i] = t->coords[i];
    run.coords[t->axis] = k_add(b, t->coords[t->axis], k_convert(b, row, t->index));
    run.coords[t->last] = k_add(b, t->coords[t->last], k_convert(b, column, t->index));
    const int axes[] = {t->axis, t->last}, extents[] = {t->rows, t->columns};
    for (int i = 0; i < 2; i++)
        if (dim_divisor(table, region->dims[axes[i]]) % extents[i] != 0)
            run.guard =
                k_and(b, run.guard, k_lt(b, run.coords[axes[i]], k_dim(b, region->dims[axes[i]], t->index)));
    return run;
}

/* A loop over what a thread does of `count` pieces of work of the block; the piece's number. */
static const KExpr *transpose_loop(Transpose *t, int count, const KExpr **slot) {
    Builder *b = t->b;
    int threads = b->kernel->threads;
    const KExpr *tid = k_special(b, SPECIAL_TID);
    *slot = k_for_begin(b, "u", k_i32(b, 0), k_i32(b, count / threads), 1, UNROLL_FULL);
    return k_let_expr(b, "n", k_add(b, k_mul(b, *slot, k_i32(b, threads)), tid));
}

/* ---- the three steps */

typedef struct TransposeBlock {
    const KExpr *slot, *row,
        *run; /* of the thread's blocks; the block's first row; its run within the rows */
} TransposeBlock;

/* Opens the loop over the thread's blocks of v x v elements: neighbouring threads side by side along the
 * rows. */
static TransposeBlock transpose_blocks_begin(Transpose *t) {
    Builder *b = t->b;
    int across = t->rows / t->width;
    TransposeBlock block;
    const KExpr *n = transpose_loop(t, across * (t->columns / t->width), &block.slot);
    block.row = k_let_expr(b, "block_row", k_mul(b, k_mod(b, n, k_i32(b, across)), k_i32(b, t->width)));
    block.run = k_let_expr(b, "block_run", k_div(b, n, k_i32(b, across)));
    return block;
}

/* The run along the axis of turned accesses at the block's column number i. */
static Run transpose_block_run(Transpose *t, const TransposeBlock *block, const KExpr *i) {
    Builder *b = t->b;
    const KExpr *column = k_add(b, k_mul(b, block->run, k_i32(b, t->width)), i);
    return transpose_run(t, t->axis, block->row, column);
}

/* Elements of the block as they are read, by columns, become elements as they are stored, by rows; or the
 * other way round. */
static void transpose_turn(Transpose *t, const KVar *to, const KExpr *to_at, const KVar *from,
                           const KExpr *from_at) {
    Builder *b = t->b;
    const KExpr *width = k_i32(b, t->width);
    const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), width, 1, UNROLL_FULL);
    const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), width, 1, UNROLL_FULL);
    const KExpr *element = k_elem(b, from, k_add(b, from_at, k_add(b, k_mul(b, j, width), i)));
    k_set_elem(b, to, k_add(b, to_at, k_add(b, k_mul(b, i, width), j)), element);
    k_end(b);
    k_end(b);
}

static void transpose_read(Transpose *t) {
    Builder *b = t->b;
    size_t n = t->reads.n;
    int threads = b->kernel->threads, block = t->width * t->width,
        blocks = t->rows * t->columns / (block * threads);
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *name = lower_value_name(t->lower, t->reads.at[i].value);
        targets[i].value = t->reads.at[i].value;
        targets[i].dst = k_array(b, name, ktype_of(targets[i].value->dtype), blocks * block, NULL);
        t->reads.at[i].buffer = k_shared(b, text_format(b->arena, "%s_tile", name), targets[i].value->dtype,
                                         (int64_t)t->rows * t->columns, TRANSPOSE_BANKS_BYTES);
    }
    Run run = {.rank = t->region->rank, .axis = t->axis, .width = t->width};
    lower_batch_begin(t->lower, &run, targets, (int)n, blocks * t->width);
    TransposeBlock at = transpose_blocks_begin(t);
    const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, t->width), 1, UNROLL_FULL);
    run = transpose_block_run(t, &at, i);
    lower_batch_load(t->lower, &run, k_add(b, k_mul(b, at.slot, k_i32(b, t->width)), i));
    k_end(b);
    k_end(b);

    at = transpose_blocks_begin(t);
    i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, t->width), 1, UNROLL_FULL);
    run = transpose_block_run(t, &at, i);
    const KExpr *slot = k_add(b, k_mul(b, at.slot, k_i32(b, t->width)), i);
    for (size_t k = 0; k < n; k++)
        targets[k].at = k_mul(b, slot, k_i32(b, t->width));
    lower_batch_run(t->lower, &run, slot, targets, (int)n);
    k_end(b);
    for (size_t k = 0; k < n; k++) {
        const KVar *rows = k_array(b, "rows", targets[k].dst->type, block, NULL);
        transpose_turn(t, rows, k_i32(b, 0), targets[k].dst, k_mul(b, at.slot, k_i32(b, block)));
        i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, t->width), 1, UNROLL_FULL);
        const KExpr *place = transpose_place(t, t->reads.at[k].buffer, k_add(b, at.row, i), at.run);
        vectors_store(b, t->reads.at[k].buffer, place, rows, k_mul(b, i, k_i32(b, t->width)), t->width);
        k_end(b);
    }
    k_end(b);
    lower_batch_end(t->lower);
    k_barrier(b);
}

static void transpose_work(Transpose *t) {
    Builder *b = t->b;
    const Region *region = t->region;
    int n = (int)region->outputs.n, threads = b->kernel->threads, across = t->columns / t->width;
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    for (size_t i = 0; i < t->writes.n; i++) {
        const Value *output = t->writes.at[i].value;
        const char *name = text_format(b->arena, "%s_tile", lower_value_name(t->lower, output));
        t->writes.at[i].buffer =
            k_shared(b, name, output->dtype, (int64_t)t->rows * t->columns, TRANSPOSE_BANKS_BYTES);
    }
    for (int i = 0; i < n; i++)
        targets[i] = (LowerTarget){.value = region->outputs.at[i], .stored = true};
    /* What is turned is known from the tile, so that planning need not look below. */
    for (size_t i = 0; i < t->reads.n; i++)
        lower_bind_expr(t->lower, t->reads.at[i].value,
                        k_convert(b, k_i32(b, 0), ktype_of(t->reads.at[i].value->dtype)));
    Run run = {.rank = region->rank, .axis = t->last, .width = t->width};
    lower_batch_begin(t->lower, &run, targets, n, t->rows * across / threads);
    const KExpr *slot, *number = transpose_loop(t, t->rows * across, &slot);
    const KExpr *row = k_div(b, number, k_i32(b, across)), *place = k_mod(b, number, k_i32(b, across));
    run = transpose_run(t, t->last, row, k_mul(b, place, k_i32(b, t->width)));
    lower_batch_load(t->lower, &run, slot);
    k_end(b);

    number = transpose_loop(t, t->rows * across, &slot);
    row = k_let_expr(b, "row", k_div(b, number, k_i32(b, across)));
    place = k_let_expr(b, "run", k_mod(b, number, k_i32(b, across)));
    run = transpose_run(t, t->last, row, k_mul(b, place, k_i32(b, t->width)));
    for (size_t i = 0; i < t->reads.n; i++) {
        const TransposeTile *tile = &t->reads.at[i];
        const KVar *array = k_array(b, text_format(b->arena, "%s_v", lower_value_name(t->lower, tile->value)),
                                    ktype_of(tile->value->dtype), t->width, NULL);
        vectors_load(b, tile->buffer, transpose_place(t, tile->buffer, row, place), array, k_i32(b, 0),
                     t->width);
        lower_bind_array(t->lower, tile->value, array, NULL);
    }
    for (int i = 0; i < n; i++) {
        const char *name = text_format(b->arena, "%s_v", lower_value_name(t->lower, targets[i].value));
        targets[i].dst = k_array(b, name, ktype_of(targets[i].value->dtype), t->width, NULL);
    }
    lower_batch_run(t->lower, &run, slot, targets, n);
    for (int i = 0; i < n; i++) {
        if (!transpose_is_written_turned(t, targets[i].value))
            lower_store(t->lower, &run, targets[i].value, targets[i].dst, NULL);
        for (size_t k = 0; k < t->writes.n; k++)
            if (t->writes.at[k].value == targets[i].value)
                vectors_store(b, t->writes.at[k].buffer,
                              transpose_place(t, t->writes.at[k].buffer, row, place), targets[i].dst,
                              k_i32(b, 0), t->width);
    }
    k_end(b);
    lower_batch_end(t->lower);
}

static void transpose_write(Transpose *t) {
    Builder *b = t->b;
    k_barrier(b);
    for (size_t k = 0; k < t->writes.n; k++) {
        const TransposeTile *tile = &t->writes.at[k];
        KType type = ktype_of(tile->value->dtype);
        int block = t->width * t->width;
        TransposeBlock at = transpose_blocks_begin(t);
        const KVar *rows = k_array(b, "rows", type, block, NULL),
                   *columns = k_array(b, "columns", type, block, NULL);
        const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, t->width), 1, UNROLL_FULL);
        const KExpr *place = transpose_place(t, tile->buffer, k_add(b, at.row, i), at.run);
        vectors_load(b, tile->buffer, place, rows, k_mul(b, i, k_i32(b, t->width)), t->width);
        k_end(b);
        transpose_turn(t, columns, k_i32(b, 0), rows, k_i32(b, 0));
        i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, t->width), 1, UNROLL_FULL);
        Run run = transpose_block_run(t, &at, i);
        lower_store(t->lower, &run, tile->value, columns, k_mul(b, i, k_i32(b, t->width)));
        k_end(b);
        k_end(b);
    }
}

/* The block's tile: innermost axis fastest, then the axis of turned accesses, then the others. */
static void transpose_place_block(Transpose *t) {
    Builder *b = t->b;
    const Region *region = t->region;
    DimTable *table = b->kernel->graph->dims;
    const Dim *others[RANK_MAX], *count = dim_const(table, 1);
    int n = 0;
    for (int i = 0; i < region->rank; i++)
        if (i != t->axis && i != t->last) {
            others[n++] = region->dims[i];
            count = dim_mul(table, count, region->dims[i]);
        }
    const Dim *across = dim_ceil_div(table, region->dims[t->last], dim_const(table, t->columns));
    const Dim *down = dim_ceil_div(table, region->dims[t->axis], dim_const(table, t->rows));
    b->kernel->grid[0] = dim_mul(table, dim_mul(table, across, down), count);
    const KExpr *block = k_convert(b, k_special(b, SPECIAL_CTA_X), t->index), *rest[RANK_MAX];
    const KExpr *column = k_mod(b, block, k_dim(b, across, t->index));
    block = k_let_expr(b, "above", k_div(b, block, k_dim(b, across, t->index)));
    const KExpr *row = n > 0 ? k_mod(b, block, k_dim(b, down, t->index)) : block;
    if (n > 0)
        lower_delinearize(b, k_let_expr(b, "matrix", k_div(b, block, k_dim(b, down, t->index))), n, others,
                          rest);
    n = 0;
    for (int i = 0; i < region->rank; i++)
        if (i != t->axis && i != t->last)
            t->coords[i] = k_let_expr(b, text_format(b->arena, "axis%d", i), rest[n++]);
    t->coords[t->axis] = k_let_expr(b, "tile_row", k_mul(b, row, k_int(b, t->index, t->rows)));
    t->coords[t->last] = k_let_expr(b, "tile_column", k_mul(b, column, k_int(b, t->index, t->columns)));
}

static Transpose transpose_plan(const Graph *graph, const Region *region, const Schedule *schedule) {
    Transpose t = {.region = region,
                   .width = schedule->vector,
                   .rows = schedule->tile_rows,
                   .columns = schedule->tile_cols};
    t.axis = transpose_axis(graph, region);
    t.last = region->rank - 1;
    if (t.axis >= 0)
        transpose_find(&t, graph);
    return t;
}

static void transpose_build(Builder *b, const Region *region) {
    const Schedule *schedule = &region->schedule;
    Kernel *kernel = b->kernel;
    Transpose t = transpose_plan(kernel->graph, region, schedule);
    kernel->threads = schedule->threads;
    kernel->summary = text_format(b->arena, "transpose: tiles of %d x %d, vectors of %d both ways", t.rows,
                                  t.columns, t.width);
    t.b = b;
    t.lower = lower_new(b, region);
    lower_declare_params(t.lower);
    t.index = lower_index_type(t.lower);
    transpose_place_block(&t);
    if (t.reads.n > 0)
        transpose_read(&t);
    transpose_work(&t);
    if (t.writes.n > 0)
        transpose_write(&t);
}

/* ---- schedules */

static bool transpose_accepts(const Graph *graph, const Region *region, const Schedule *s,
                              const Target *target, const char **why) {
    if (!is_power_of_two(s->vector) || s->vector > 16 || !is_power_of_two(s->tile_rows) ||
        !is_power_of_two(s->tile_cols) || s->tile_rows > 256 || s->tile_cols > 256 ||
        s->tile_rows < s->vector || s->tile_cols < s->vector) {
        *why = "vector, tile_rows and tile_cols must be powers of two, the tile at least the vector and at "
               "most 256";
        return false;
    }
    int blocks = (s->tile_rows / s->vector) * (s->tile_cols / s->vector);
    if (s->threads < 32 || s->threads > 1024 || s->threads % 32 != 0 || blocks % s->threads != 0) {
        *why = "threads must be a multiple of 32 up to 1024 that divides the tile's blocks of vector x "
               "vector elements";
        return false;
    }
    Transpose t = transpose_plan(graph, region, s);
    if (t.axis < 0 || t.reads.n + t.writes.n == 0) {
        *why = "nothing is read or written along another axis than the innermost";
        return false;
    }
    if (dim_divisor(graph->dims, region->dims[t.axis]) % s->vector != 0 ||
        dim_divisor(graph->dims, region->dims[t.last]) % s->vector != 0) {
        *why = "vector must divide both axes";
        return false;
    }
    int64_t bytes = 0;
    for (size_t i = 0; i < t.reads.n + t.writes.n; i++) {
        const Value *value = i < t.reads.n ? t.reads.at[i].value : t.writes.at[i - t.reads.n].value;
        if (dtype_bits(value->dtype) < 8) {
            *why = "elements of less than a byte cannot be turned";
            return false;
        }
        bytes += (int64_t)s->tile_rows * s->tile_cols * dtype_bits(value->dtype) / 8;
    }
    if (bytes > target->smem_per_block) {
        *why = "the tiles do not fit into shared memory";
        return false;
    }
    for (size_t i = 0; i < region->outputs.n; i++)
        if (!lower_output_is_whole(graph, region, region->outputs.at[i]) ||
            (!transpose_is_written_turned(&t, region->outputs.at[i]) &&
             !lower_can_store(graph, region, region->outputs.at[i], t.last, s->vector))) {
            *why = "an output does not fit the space, or has 4-bit elements and rows of odd length";
            return false;
        }
    return true;
}

/* Elements of a run both ways: of 16 bytes at most, so that what a warp loads or stores at once lies side by
 * side (64.2 us for 25 million elements of 16 bits to 32 by runs of 8, 42.5 by 4). */
static int transpose_vector(const Graph *graph, const Region *region, int axis) {
    enum { RUN_BITS = 128, RUN_MOST = 8 };
    int vector = lower_vector_width(graph, region, region->rank - 1);
    int other = axis < 0 ? 1 : lower_vector_width(graph, region, axis);
    vector = other < vector ? other : vector;
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

static int transpose_schedules(const Graph *graph, const Region *region, const Target *target,
                               const DimBindings *hint, Schedule *out, int room) {
    (void)target, (void)hint;
    int last = region->rank - 1, axis = transpose_axis(graph, region);
    int vector = transpose_vector(graph, region, axis);
    /* Tiles that divide the extents need no conditions. Elements one by one: many of a row at once, and
     * several of a thread (5001 x 3003 of 32 bits: 48.0 us by 32 x 32, 38.6 so). */
    int tile = vector == 8 ? 128 : vector == 1 ? 32 : 64, rows = tile, columns = vector == 1 ? 128 : tile;
    if (axis >= 0 && vector == 8 && dim_divisor(graph->dims, region->dims[axis]) % rows != 0)
        rows /= 2;
    if (vector == 8 && dim_divisor(graph->dims, region->dims[last]) % columns != 0)
        columns /= 2;
    int blocks = (rows / vector) * (columns / vector);
    int n = 0;
    int threads = vector == 1 ? TRANSPOSE_THREADS / 2 : TRANSPOSE_THREADS;
    out[n++] = (Schedule){.threads = blocks < threads ? blocks : threads,
                          .vector = vector,
                          .unroll = 1,
                          .tile_rows = rows,
                          .tile_cols = columns};
    if (n < room && blocks >= 128 * 2) {
        out[n] = out[0];
        out[n].threads = out[0].threads / 2;
        out[n++].tile_rows /= 2;
    }
    if (n < room && vector > 2) { /* what needs fewer registers */
        out[n] = out[0];
        out[n].threads = 4 * blocks < threads ? 4 * blocks : threads;
        out[n++].vector /= 2;
    }
    return n;
}

const Template template_transpose = {.name = "transpose",
                                     .accepts = transpose_accepts,
                                     .schedules = transpose_schedules,
                                     .build = transpose_build};
