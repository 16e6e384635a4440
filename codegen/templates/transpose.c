/* Transpose: pointwise work whose reads are contiguous along another axis than its writes. Both go through a
 * tile of shared memory, so that both move whole vectors, t elements along a, v along c:
 *
 *     turned reads    x[c][a .. a+t) -> registers, t x v to a thread -> tile[a][c .. c+v)
 *     the work        tile[a][c .. c+v) and all other inputs -> outputs[a][c .. c+v)
 *     turned writes   tile[a][c .. c+v) -> registers, t x v to a thread -> y[c][a .. a+t)
 *
 * Here c is the innermost axis, and a is the axis of the turned accesses.
 *
 * Behind t rows of a tile a gap moves the next ones by v elements, or by a word, so that they begin an odd
 * number of these from the ones before, and threads side by side along `a` do not meet in the same banks;
 * along c neighbours lie side by side anyway. All places are then a register of the thread's and a number
 * that is known once loops are unrolled. */
#include "codegen/templates/transpose.h"
#include "codegen/templates/vectors.h"
#include "ir/base/checked.h"

enum { TRANSPOSE_INPUTS = 32 };

/* ---- what is turned */

/* Whether a value has what is computed in another space, as factors of blocks are applied, transposed to this
 * one, and something here starts from it. */
static bool transpose_is_computed(const Region *region, const Value *value) {
    if (value->op != OP_transpose || !lower_is_whole(region, value))
        return false;
    const Value *below = value->in[0];
    while (!region_reads(region, below) && (below->op == OP_reshape || below->op == OP_transpose))
        below = below->in[0];
    if (region_reads(region, below) || op_info(below->op)->class_ != OPCLASS_POINTWISE)
        return false;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *user = region->values.at[i];
        for (int k = 0; k < user->n_in; k++)
            if (user->in[k] == value && op_info(user->op)->class_ == OPCLASS_POINTWISE)
                return true;
    }
    return false;
}

/* What work here starts from: tensors, moved or not, and what is computed elsewhere. */
static int transpose_starts(const Region *region, const Value **out, int room) {
    int n = lower_moved_inputs(region, out, room);
    for (size_t i = 0; i < region->values.n && n < room; i++)
        if (transpose_is_computed(region, region->values.at[i]))
            out[n++] = region->values.at[i];
    return n;
}

int transpose_axis(const Graph *graph, const Region *region) {
    int votes[RANK_MAX] = {0}, best = -1;
    if (region->rank < 2 || dim_is(region->dims[region->rank - 1], 1))
        return -1;
    const Value *moved[TRANSPOSE_INPUTS];
    int n = transpose_starts(region, moved, TRANSPOSE_INPUTS);
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
    int n = transpose_starts(region, moved, TRANSPOSE_INPUTS);
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

bool transpose_is_written_turned(const Transpose *t, const Value *output) {
    for (size_t i = 0; i < t->writes.n; i++)
        if (t->writes.at[i].value == output)
            return true;
    return false;
}

/* ---- places */

/* Elements from one row of a tile to the next, and those left free behind the rows of a run. */
static int transpose_pitch(const Transpose *t) {
    return t->columns + (t->is_skewed ? t->width : 0);
}

static int transpose_gap(const Transpose *t, DType type) {
    enum { BANK_BITS = 32 };
    int word = BANK_BITS / dtype_bits(type), gap = t->width > word ? t->width : word;
    return t->turned * transpose_pitch(t) / gap % 2 == 0 ? gap : 0;
}

int64_t transpose_tile_count(const Transpose *t, DType type) {
    return (int64_t)t->rows * transpose_pitch(t) + (int64_t)t->rows / t->turned * transpose_gap(t, type);
}

KBuffer *transpose_tile(Transpose *t, const Value *value) {
    const char *name = text_format(t->b->arena, "%s_tile", lower_value_name(t->lower, value));
    return k_shared(t->b, name, value->dtype, transpose_tile_count(t, value->dtype), TRANSPOSE_ALIGNMENT);
}

const KExpr *transpose_group_row(const Transpose *t, const KBuffer *tile, const KExpr *group,
                                 const KExpr *i) {
    Builder *b = t->b;
    int pitch = transpose_pitch(t), span = t->turned * pitch + transpose_gap(t, tile->elem);
    return k_add(b, k_mul(b, group, k_i32(b, span)), k_mul(b, i, k_i32(b, pitch)));
}

const KExpr *transpose_piece_row(const Transpose *t, const KBuffer *tile, const TransposePiece *piece) {
    Builder *b = t->b;
    const KExpr *turned = k_i32(b, t->turned);
    if (!piece->first || piece->step % t->turned != 0)
        return transpose_group_row(t, tile, k_div(b, piece->major, turned), k_mod(b, piece->major, turned));
    const KExpr *group = k_mul(b, piece->slot, k_i32(b, piece->step / t->turned));
    group = k_add(b, k_div(b, piece->first, turned), group);
    return transpose_group_row(t, tile, group, k_mod(b, piece->first, turned));
}

Run transpose_run(Transpose *t, int axis, const KExpr *row, const KExpr *column) {
    Builder *b = t->b;
    const Region *region = t->region;
    DimTable *table = b->kernel->graph->dims;
    Run run = {.rank = region->rank, .axis = axis, .width = axis == t->axis ? t->turned : t->width};
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

/* Piece number slot * threads + tid lies at its quotient and remainder by `across`. Where threads and
 * `across` divide one another, these are a number of the thread and what unrolling knows. */
TransposePiece transpose_pieces_begin(Transpose *t, int count, int across, const char *major,
                                      const char *minor) {
    Builder *b = t->b;
    int threads = b->kernel->threads;
    const KExpr *tid = k_special(b, SPECIAL_TID), *lanes = k_i32(b, across);
    TransposePiece piece = {0};
    if (threads % across == 0) {
        piece.minor = k_let_expr(b, minor, k_mod(b, tid, lanes));
        piece.first = k_let_expr(b, text_format(b->arena, "first_%s", major), k_div(b, tid, lanes));
        piece.step = threads / across;
    }
    piece.slot = k_for_begin(b, "u", k_i32(b, 0), k_i32(b, ceil_div(count, threads)), 1, UNROLL_FULL);
    if (count % threads != 0) {
        const KExpr *number = k_add(b, k_mul(b, piece.slot, k_i32(b, threads)), tid);
        k_if_begin(b, k_lt(b, number, k_i32(b, count)));
        piece.is_guarded = true;
    }
    if (piece.first) {
        piece.major = k_add(b, piece.first, k_mul(b, piece.slot, k_i32(b, piece.step)));
    } else if (across % threads == 0) {
        const KExpr *parts = k_i32(b, across / threads);
        piece.major = k_div(b, piece.slot, parts);
        piece.minor = k_add(b, tid, k_mul(b, k_mod(b, piece.slot, parts), k_i32(b, threads)));
    } else {
        const KExpr *n = k_add(b, k_mul(b, piece.slot, k_i32(b, threads)), tid);
        piece.major = k_let_expr(b, major, k_div(b, n, lanes));
        piece.minor = k_let_expr(b, minor, k_mod(b, n, lanes));
    }
    return piece;
}

/* ---- the three steps */

/* Opens the loop over the thread's blocks of t x v elements: neighbouring threads side by side along the
 * rows. `minor` is the block's run along the axis, `major` the one along the innermost. */
static TransposePiece transpose_blocks_begin(Transpose *t) {
    int across = t->rows / t->turned;
    return transpose_pieces_begin(t, across * (t->columns / t->width), across, "run", "rows");
}

/* The run along the axis of turned accesses at the block's column number i. */
static Run transpose_block_run(Transpose *t, const TransposePiece *block, const KExpr *i) {
    Builder *b = t->b;
    const KExpr *row = k_mul(b, block->minor, k_i32(b, t->turned));
    const KExpr *column = k_add(b, k_mul(b, block->major, k_i32(b, t->width)), i);
    return transpose_run(t, t->axis, row, column);
}

/* Where the block's row number i begins in a tile. */
static const KExpr *transpose_block_row(Transpose *t, const KBuffer *tile, const TransposePiece *block,
                                        const KExpr *i) {
    Builder *b = t->b;
    const KExpr *column = k_mul(b, block->major, k_i32(b, t->width));
    return k_add(b, transpose_group_row(t, tile, block->minor, i), column);
}

/* Elements of a block in runs of `n`, from from_at on, become its runs of `m`, the other way round. */
static void transpose_turn(Transpose *t, const KVar *to, const KVar *from, const KExpr *from_at, int n,
                           int m) {
    Builder *b = t->b;
    const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), k_i32(b, n), 1, UNROLL_FULL);
    const KExpr *j = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, m), 1, UNROLL_FULL);
    const KExpr *element = k_elem(b, from, k_add(b, from_at, k_add(b, k_mul(b, j, k_i32(b, n)), i)));
    k_set_elem(b, to, k_add(b, k_mul(b, i, k_i32(b, m)), j), element);
    k_end(b);
    k_end(b);
}

static void transpose_read(Transpose *t) {
    Builder *b = t->b;
    size_t n = t->reads.n;
    int threads = b->kernel->threads, block = t->turned * t->width,
        blocks = t->rows * t->columns / (block * threads);
    const KExpr *width = k_i32(b, t->width), *turned = k_i32(b, t->turned);
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, n + 1);
    for (size_t i = 0; i < n; i++) {
        const Value *value = t->reads.at[i].value;
        targets[i].value = value;
        targets[i].dst =
            k_array(b, lower_value_name(t->lower, value), ktype_of(value->dtype), blocks * block, NULL);
        t->reads.at[i].buffer = transpose_tile(t, value);
    }
    Run run = {.rank = t->region->rank, .axis = t->axis, .width = t->turned};
    lower_batch_begin(t->lower, &run, targets, (int)n, blocks * t->width);
    TransposePiece at = transpose_blocks_begin(t);
    const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), width, 1, UNROLL_FULL);
    run = transpose_block_run(t, &at, i);
    lower_batch_load(t->lower, &run, k_add(b, k_mul(b, at.slot, width), i));
    k_end(b);
    k_end(b);

    at = transpose_blocks_begin(t);
    i = k_for_begin(b, "i", k_i32(b, 0), width, 1, UNROLL_FULL);
    run = transpose_block_run(t, &at, i);
    const KExpr *slot = k_add(b, k_mul(b, at.slot, width), i);
    for (size_t k = 0; k < n; k++)
        targets[k].at = k_mul(b, slot, turned);
    lower_batch_run(t->lower, &run, slot, targets, (int)n);
    k_end(b);
    for (size_t k = 0; k < n; k++) {
        const KVar *rows = k_array(b, "rows", targets[k].dst->type, block, NULL);
        transpose_turn(t, rows, targets[k].dst, k_mul(b, at.slot, k_i32(b, block)), t->turned, t->width);
        i = k_for_begin(b, "i", k_i32(b, 0), turned, 1, UNROLL_FULL);
        const KExpr *place = transpose_block_row(t, t->reads.at[k].buffer, &at, i);
        vectors_store(b, t->reads.at[k].buffer, place, rows, k_mul(b, i, width), t->width);
        k_end(b);
    }
    k_end(b);
    lower_batch_end(t->lower);
    k_barrier(b);
}

static void transpose_work(Transpose *t) {
    Builder *b = t->b;
    const Region *region = t->region;
    int n = (int)region->outputs.n, across = t->columns / t->width, count = t->rows * across;
    const KExpr *width = k_i32(b, t->width);
    LowerTarget *targets = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    for (size_t i = 0; i < t->writes.n; i++)
        t->writes.at[i].buffer = transpose_tile(t, t->writes.at[i].value);
    for (int i = 0; i < n; i++)
        targets[i] = (LowerTarget){.value = region->outputs.at[i], .stored = true};
    /* What is turned is known from the tile, so that planning need not look below. */
    for (size_t i = 0; i < t->reads.n; i++)
        lower_bind_expr(t->lower, t->reads.at[i].value,
                        k_convert(b, k_i32(b, 0), ktype_of(t->reads.at[i].value->dtype)));
    Run run = {.rank = region->rank, .axis = t->last, .width = t->width};
    lower_batch_begin(t->lower, &run, targets, n, count / b->kernel->threads);
    TransposePiece at = transpose_pieces_begin(t, count, across, "row", "run");
    run = transpose_run(t, t->last, at.major, k_mul(b, at.minor, width));
    lower_batch_load(t->lower, &run, at.slot);
    k_end(b);

    at = transpose_pieces_begin(t, count, across, "row", "run");
    const KExpr *column = k_mul(b, at.minor, width);
    run = transpose_run(t, t->last, at.major, column);
    for (size_t i = 0; i < t->reads.n; i++) {
        const TransposeTile *tile = &t->reads.at[i];
        const KVar *array = k_array(b, text_format(b->arena, "%s_v", lower_value_name(t->lower, tile->value)),
                                    ktype_of(tile->value->dtype), t->width, NULL);
        vectors_load(b, tile->buffer, k_add(b, transpose_piece_row(t, tile->buffer, &at), column), array,
                     k_i32(b, 0), t->width);
        lower_bind_array(t->lower, tile->value, array, NULL);
    }
    for (int i = 0; i < n; i++) {
        const char *name = text_format(b->arena, "%s_v", lower_value_name(t->lower, targets[i].value));
        targets[i].dst = k_array(b, name, ktype_of(targets[i].value->dtype), t->width, NULL);
    }
    lower_batch_run(t->lower, &run, at.slot, targets, n);
    for (int i = 0; i < n; i++) {
        if (!transpose_is_written_turned(t, targets[i].value))
            lower_store(t->lower, &run, targets[i].value, targets[i].dst, NULL);
        for (size_t k = 0; k < t->writes.n; k++) {
            const KBuffer *tile = t->writes.at[k].buffer;
            if (t->writes.at[k].value == targets[i].value)
                vectors_store(b, tile, k_add(b, transpose_piece_row(t, tile, &at), column), targets[i].dst,
                              k_i32(b, 0), t->width);
        }
    }
    k_end(b);
    lower_batch_end(t->lower);
}

void transpose_write(Transpose *t) {
    Builder *b = t->b;
    const KExpr *width = k_i32(b, t->width), *turned = k_i32(b, t->turned);
    k_barrier(b);
    for (size_t k = 0; k < t->writes.n; k++) {
        const TransposeTile *tile = &t->writes.at[k];
        KType type = ktype_of(tile->value->dtype);
        int block = t->turned * t->width;
        TransposePiece at = transpose_blocks_begin(t);
        const KVar *rows = k_array(b, "rows", type, block, NULL),
                   *columns = k_array(b, "columns", type, block, NULL);
        const KExpr *i = k_for_begin(b, "i", k_i32(b, 0), turned, 1, UNROLL_FULL);
        vectors_load(b, tile->buffer, transpose_block_row(t, tile->buffer, &at, i), rows, k_mul(b, i, width),
                     t->width);
        k_end(b);
        transpose_turn(t, columns, rows, k_i32(b, 0), t->width, t->turned);
        i = k_for_begin(b, "i", k_i32(b, 0), width, 1, UNROLL_FULL);
        Run run = transpose_block_run(t, &at, i);
        lower_store(t->lower, &run, tile->value, columns, k_mul(b, i, turned));
        k_end(b);
        if (at.is_guarded)
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

Transpose transpose_plan(const Graph *graph, const Region *region, const Schedule *schedule) {
    Transpose t = {.region = region,
                   .width = schedule->vector,
                   .turned = schedule->turned_vector ? schedule->turned_vector : schedule->vector,
                   .rows = schedule->tile_rows,
                   .columns = schedule->tile_cols};
    t.axis = transpose_axis(graph, region);
    t.last = region->rank - 1;
    if (t.axis >= 0) {
        transpose_find(&t, graph);
        t.is_skewed = dim_divisor(graph->dims, region->dims[t.last]) % t.width != 0;
    }
    return t;
}

static void transpose_build(Builder *b, const Region *region) {
    const Schedule *schedule = &region->schedule;
    Kernel *kernel = b->kernel;
    Transpose t = transpose_plan(kernel->graph, region, schedule);
    kernel->threads = schedule->threads;
    kernel->summary =
        text_format(b->arena, "transpose: tiles of %d x %d, vectors of %d turned, of %d straight%s", t.rows,
                    t.columns, t.turned, t.width, t.is_skewed ? ", of rows that begin anywhere" : "");
    t.b = b;
    t.lower = lower_new(b, region);
    lower_declare_params(t.lower);
    t.index = lower_index_type(t.lower);
    transpose_place_block(&t);
    if (t.is_skewed) {
        transpose_skewed_build(&t);
        return;
    }
    if (t.reads.n > 0)
        transpose_read(&t);
    transpose_work(&t);
    if (t.writes.n > 0)
        transpose_write(&t);
}

const Template template_transpose = {.name = "transpose",
                                     .accepts = transpose_accepts,
                                     .schedules = transpose_schedules,
                                     .build = transpose_build};
