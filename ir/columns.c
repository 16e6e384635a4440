#include "ir/columns.h"

#include "ir/dim_table.h"
#include "ir/value_map.h"

enum {
    COLUMNS_READS_MAX = 64,   /* ways from a Value to the product */
    COLUMNS_VISITS_MAX = 512, /* Values met on them */
};

ColumnFit column_fit_start(void) {
    return (ColumnFit){.adds = true, .xors = true, .pairs = true, .elem = {-1, -1}};
}

void column_fit_add(ColumnFit *fit, int64_t from, int64_t to) {
    int64_t group = from / COLUMN_GROUP, other = to / COLUMN_GROUP;
    int e = (int)(from & 1), other_e = (int)(to & 1);
    if (!fit->any) {
        fit->add = other - group;
        fit->xor_ = other ^ group;
    }
    fit->any = true;
    fit->adds = fit->adds && other - group == fit->add;
    fit->xors = fit->xors && (other ^ group) == fit->xor_;
    fit->pairs = fit->pairs && (from % COLUMN_GROUP) / 2 == (to % COLUMN_GROUP) / 2 &&
                 (fit->elem[e] < 0 || fit->elem[e] == other_e);
    fit->elem[e] = other_e;
}

bool column_fit_end(const ColumnFit *fit, ColumnMove *move) {
    if (!fit->pairs || !(fit->adds || fit->xors))
        return false;
    *move = (ColumnMove){.is_xor = !fit->adds, .by = fit->adds ? fit->add : fit->xor_};
    for (int e = 0; e < 2; e++)
        move->elem[e] = fit->elem[e] < 0 ? e : fit->elem[e];
    return true;
}

/* A coordinate along one axis: of the rows, then it is axis `row` of them; else a number for each column. */
typedef struct ColumnAxis {
    int row; /* -1: numbers */
    const int32_t *at;
} ColumnAxis;

/* Coordinates in a Value of every column that is looked at. */
typedef struct ColumnCoords {
    ColumnAxis axes[RANK_MAX];
    int n_rows; /* the rows, as the row-major space of these dims; dims of 1 are left out */
    const Dim *rows[RANK_MAX];
    const bool *is_read; /* NULL: for every column */
} ColumnCoords;

typedef struct ColumnRead {
    const int32_t *at;
    const bool *is_read;
} ColumnRead;

typedef struct ColumnWalk {
    const Graph *graph;
    Arena *arena;
    const Value *const *cores;
    int n_cores;
    bool (*is_here)(void *context, const Value *value);
    void *context;
    ValueMap depends; /* on a core: 1 yes, 2 no */
    int32_t width;
    const int32_t *zeros;
    ColumnRead reads[COLUMNS_READS_MAX];
    int n_reads, visits;
    const char *why;
} ColumnWalk;

static bool columns_is_core(const ColumnWalk *walk, const Value *value) {
    for (int i = 0; i < walk->n_cores; i++)
        if (walk->cores[i] == value)
            return true;
    return false;
}

static bool columns_depends(ColumnWalk *walk, const Value *value) {
    int known = value_map_get(&walk->depends, value);
    if (known)
        return known == 1;
    bool depends = columns_is_core(walk, value);
    if (!depends && value->op != OP_input && walk->is_here(walk->context, value))
        for (int i = 0; i < value->n_in && !depends; i++)
            depends = columns_depends(walk, value->in[i]);
    value_map_set(&walk->depends, value, depends ? 1 : 2);
    return depends;
}

static bool columns_refuse(ColumnWalk *walk, const char *why) {
    walk->why = why;
    return false;
}

static int32_t *columns_numbers(ColumnWalk *walk) {
    return ARENA_ARRAY(walk->arena, int32_t, (size_t)walk->width);
}

static bool columns_walk(ColumnWalk *walk, const Value *value, const ColumnCoords *coords);

/* Operands of something element by element: aligned at the right, dims of 1 repeat. */
static ColumnCoords columns_operand(const ColumnWalk *walk, const Value *value, const Value *operand,
                                    const ColumnCoords *coords) {
    ColumnCoords out = *coords;
    int shift = value->rank - operand->rank;
    for (int i = 0; i < operand->rank; i++)
        out.axes[i] = dim_is(operand->dims[i], 1) ? (ColumnAxis){-1, walk->zeros} : coords->axes[i + shift];
    return out;
}

/* Axes [from, from_end) of coordinates in `dims`, all numbers, become axes [to, to_end) of `to_dims`. */
static bool columns_regroup(ColumnWalk *walk, ColumnCoords *coords, const Dim *const *dims, int from,
                            int from_end, const Dim *const *to_dims, int to, int to_end, ColumnCoords *out) {
    int32_t *linear = columns_numbers(walk);
    for (int i = from; i < from_end; i++) {
        if (!dim_is_const(dims[i]))
            return columns_refuse(walk, "the product's columns are not all known");
        for (int32_t c = 0; c < walk->width; c++)
            linear[c] = linear[c] * (int32_t)dims[i]->value + coords->axes[i].at[c];
    }
    for (int i = to_end - 1; i >= to; i--) {
        if (!dim_is_const(to_dims[i]) || to_dims[i]->value < 1)
            return columns_refuse(walk, "the product's columns are not all known");
        int32_t *at = columns_numbers(walk);
        for (int32_t c = 0; c < walk->width; c++) {
            at[c] = i > to ? linear[c] % (int32_t)to_dims[i]->value : linear[c];
            linear[c] /= (int32_t)to_dims[i]->value;
        }
        out->axes[i] = (ColumnAxis){-1, at};
    }
    return true;
}

/* Row axes that stand side by side and in order become other row axes; the rows behind them have new numbers.
 */
static bool columns_regroup_rows(ColumnWalk *walk, ColumnCoords *coords, const Dim *const *dims, int from,
                                 int from_end, const Dim *const *to_dims, int to, int to_end,
                                 ColumnCoords *out) {
    const char *why = "rows and columns of the product are joined, or rows change places";
    int first = -1, n = 0, fresh = 0, n_behind = 0;
    for (int i = from; i < from_end; i++) {
        if (dim_is(dims[i], 1))
            continue;
        if (coords->axes[i].row < 0 || (n > 0 && coords->axes[i].row != first + n))
            return columns_refuse(walk, why);
        first = n++ ? first : coords->axes[i].row;
    }
    for (int i = to; i < to_end; i++)
        fresh += !dim_is(to_dims[i], 1);
    if (out->n_rows - n + fresh > RANK_MAX)
        return columns_refuse(walk, why);
    for (int i = 0; i < RANK_MAX; i++) {
        if (out->axes[i].row >= first + n)
            out->axes[i].row += fresh - n;
        if (coords->axes[i].row >= first + n)
            coords->axes[i].row += fresh - n;
    }
    const Dim *behind[RANK_MAX];
    int at = first;
    for (int i = first + n; i < out->n_rows; i++)
        behind[n_behind++] = out->rows[i];
    for (int i = to; i < to_end; i++) {
        if (dim_is(to_dims[i], 1))
            continue;
        out->axes[i] = (ColumnAxis){at, NULL};
        out->rows[at++] = to_dims[i];
    }
    for (int i = 0; i < n_behind; i++)
        out->rows[at + i] = behind[i];
    out->n_rows = at + n_behind;
    return true;
}

/* Coordinates in a reshape become those in its operand: by the shortest runs of axes with equal products,
 * from the innermost on. */
static bool columns_reshape(ColumnWalk *walk, const Value *value, const ColumnCoords *coords,
                            ColumnCoords *out) {
    const Value *operand = value->in[0];
    DimTable *table = walk->graph->dims;
    int i = value->rank, k = operand->rank;
    *out = *coords;
    ColumnCoords from = *coords;
    struct {
        int from, from_end, to, to_end;
    } runs[2 * RANK_MAX];
    int n = 0;
    while (i > 0 || k > 0) {
        int i_end = i, k_end = k;
        const Dim *count = i > 0 ? value->dims[--i] : dim_const(table, 1);
        const Dim *to_count = k > 0 ? operand->dims[--k] : dim_const(table, 1);
        while (count != to_count && (i > 0 || k > 0)) {
            if (i > 0 && (k == 0 || dim_known_le(table, count, to_count)))
                count = dim_mul(table, count, value->dims[--i]);
            else
                to_count = dim_mul(table, to_count, operand->dims[--k]);
        }
        if (!count || count != to_count)
            return columns_refuse(walk, "a reshape does not keep the product's rows apart");
        runs[n].from = i;
        runs[n].from_end = i_end;
        runs[n].to = k;
        runs[n++].to_end = k_end;
    }
    for (int a = 0; a < RANK_MAX; a++)
        out->axes[a] = (ColumnAxis){-1, walk->zeros};
    for (int r = n - 1; r >= 0; r--) {
        bool has_rows = false;
        for (int a = runs[r].from; a < runs[r].from_end; a++)
            has_rows = has_rows || from.axes[a].row >= 0;
        const Dim *const *dims = (const Dim *const *)value->dims, *const *to_dims =
                                                                      (const Dim *const *)operand->dims;
        if (!(has_rows ? columns_regroup_rows : columns_regroup)(
                walk, &from, dims, runs[r].from, runs[r].from_end, to_dims, runs[r].to, runs[r].to_end, out))
            return false;
    }
    return true;
}

static bool columns_slice(ColumnWalk *walk, const Value *value, const ColumnCoords *coords,
                          ColumnCoords *out) {
    *out = *coords;
    for (int i = 0; i < value->rank; i++) {
        const Dim *start = value->attrs[0].dims[i];
        int step = value->attrs[2].ints[i];
        bool is_whole = dim_is(start, 0) && step == 1;
        if (coords->axes[i].row >= 0) {
            if (!is_whole || value->dims[i] != value->in[0]->dims[i])
                return columns_refuse(walk, "it takes some rows of the product only");
            continue;
        }
        if (is_whole)
            continue;
        if (!dim_is_const(start))
            return columns_refuse(walk, "the product's columns are not all known");
        int32_t *at = columns_numbers(walk);
        for (int32_t c = 0; c < walk->width; c++)
            at[c] = (int32_t)start->value + step * coords->axes[i].at[c];
        out->axes[i] = (ColumnAxis){-1, at};
    }
    return true;
}

/* One operand, which holds elements [before, before + extent) along an axis of numbers. */
static bool columns_part(ColumnWalk *walk, const Value *operand, int axis, int64_t before,
                         const ColumnCoords *coords) {
    const char *why = "the product's columns are not all known, or rows are joined with others";
    if (coords->axes[axis].row >= 0 || !dim_is_const(operand->dims[axis]))
        return columns_refuse(walk, why);
    int64_t extent = operand->dims[axis]->value;
    ColumnCoords out = *coords;
    int32_t *at = columns_numbers(walk);
    bool *is_read = ARENA_ARRAY(walk->arena, bool, (size_t)walk->width), any = false;
    for (int32_t c = 0; c < walk->width; c++) {
        int64_t there = coords->axes[axis].at[c] - before;
        is_read[c] = there >= 0 && there < extent && (!coords->is_read || coords->is_read[c]);
        at[c] = is_read[c] ? (int32_t)there : 0;
        any = any || is_read[c];
    }
    out.axes[axis] = (ColumnAxis){-1, at};
    out.is_read = is_read;
    return !any || columns_walk(walk, operand, &out);
}

static bool columns_concat(ColumnWalk *walk, const Value *value, const ColumnCoords *coords) {
    int axis = (int)value->attrs[0].i;
    int64_t before = 0;
    for (int i = 0; i < value->n_in; i++) {
        const Value *operand = value->in[i];
        if (!dim_is_const(operand->dims[axis]))
            return columns_refuse(walk, "the product's columns are not all known");
        if (columns_depends(walk, operand) && !columns_part(walk, operand, axis, before, coords))
            return false;
        before += operand->dims[axis]->value;
    }
    return true;
}

/* Every axis but the last is the product's own. */
static bool columns_at_row(ColumnWalk *walk, const Value *value, const ColumnCoords *coords) {
    int row = 0;
    for (int i = 0; i < value->rank - 1; i++) {
        if (dim_is(value->dims[i], 1))
            continue;
        if (coords->axes[i].row != row || coords->rows[row] != value->dims[i])
            return columns_refuse(walk, "it reads another row of the product");
        row++;
    }
    return row == coords->n_rows || columns_refuse(walk, "it reads another row of the product");
}

static bool columns_read(ColumnWalk *walk, const Value *core, const ColumnCoords *coords) {
    if (!columns_at_row(walk, core, coords))
        return false;
    if (coords->axes[core->rank - 1].row >= 0 || walk->n_reads == COLUMNS_READS_MAX)
        return columns_refuse(walk, "it reads the product in too many ways");
    walk->reads[walk->n_reads++] = (ColumnRead){coords->axes[core->rank - 1].at, coords->is_read};
    return true;
}

/* A statistic of the product's rows, which the template has for the whole row: reached at that row. */
static bool columns_statistic(ColumnWalk *walk, const Value *value, const ColumnCoords *coords) {
    const Value *core = walk->cores[0];
    if (!value_same_dims(value->in[0], core) || value->attrs[0].axes.n != 1 ||
        value->attrs[0].axes.at[0] != core->rank - 1)
        return columns_refuse(walk,
                              "it is computed from a reduction of the product otherwise than along its rows");
    int row = 0;
    for (int i = 0; i < core->rank - 1; i++) { /* kept or dropped, the axes before the last are the rows */
        if (dim_is(core->dims[i], 1))
            continue;
        if (coords->axes[i].row != row++)
            return columns_refuse(walk, "it reads another row of the product");
    }
    return true;
}

static bool columns_walk(ColumnWalk *walk, const Value *value, const ColumnCoords *coords) {
    if (!columns_depends(walk, value))
        return true;
    if (++walk->visits > COLUMNS_VISITS_MAX)
        return columns_refuse(walk, "it is computed from the product in too many ways");
    if (columns_is_core(walk, value))
        return columns_read(walk, value, coords);
    ColumnCoords at = *coords;
    const OpInfo *info = op_info(value->op);
    if (info->class_ == OPCLASS_REDUCTION)
        return columns_statistic(walk, value, coords);
    switch (value->op) {
    case OP_concat: return columns_concat(walk, value, coords);
    case OP_reshape:
        return columns_reshape(walk, value, coords, &at) && columns_walk(walk, value->in[0], &at);
    case OP_slice: return columns_slice(walk, value, coords, &at) && columns_walk(walk, value->in[0], &at);
    case OP_transpose:
        for (int i = 0; i < value->rank; i++)
            at.axes[value->attrs[0].ints[i]] = coords->axes[i];
        return columns_walk(walk, value->in[0], &at);
    default: break;
    }
    if (info->class_ != OPCLASS_POINTWISE && value->op != OP_broadcast)
        return columns_refuse(walk, "an operation on the way moves the product's elements otherwise than by "
                                    "reshape, transpose, slice and concat");
    for (int i = 0; i < value->n_in; i++) {
        at = columns_operand(walk, value, value->in[i], coords);
        if (!columns_walk(walk, value->in[i], &at))
            return false;
    }
    return true;
}

/* Coordinates of the Value's own elements: leading axes are the product's rows, the others its columns. */
static bool columns_start(ColumnWalk *walk, const Value *value, ColumnCoords *coords) {
    const Value *core = walk->cores[0];
    DimTable *table = walk->graph->dims;
    const Dim *rows = dim_const(table, 1), *before = rows;
    for (int i = 0; i < core->rank - 1 && rows; i++)
        rows = dim_mul(table, rows, core->dims[i]);
    int split = 0;
    while (split < value->rank && before && before != rows)
        before = dim_mul(table, before, value->dims[split++]);
    int64_t width = 1;
    for (int i = split; i < value->rank; i++) {
        if (!dim_is_const(value->dims[i]) || value->dims[i]->value < 1 ||
            value->dims[i]->value > COLUMN_COUNT_MAX / width)
            return columns_refuse(walk, "the product's columns are not all known, or too many");
        width *= value->dims[i]->value;
    }
    if (!rows || before != rows || width % COLUMN_GROUP != 0)
        return columns_refuse(walk, "its rows are not the product's, or no multiple of eight columns long");
    walk->width = (int32_t)width;
    walk->zeros = columns_numbers(walk);
    *coords = (ColumnCoords){0};
    for (int i = 0; i < RANK_MAX; i++)
        coords->axes[i] = (ColumnAxis){-1, walk->zeros};
    for (int i = 0; i < split; i++)
        if (!dim_is(value->dims[i], 1)) {
            coords->axes[i].row = coords->n_rows;
            coords->rows[coords->n_rows++] = value->dims[i];
        }
    int64_t behind = 1;
    for (int i = value->rank - 1; i >= split; i--) {
        int32_t *at = columns_numbers(walk);
        for (int32_t c = 0; c < walk->width; c++)
            at[c] = (int32_t)(c / behind % value->dims[i]->value);
        coords->axes[i].at = at;
        behind *= value->dims[i]->value;
    }
    return true;
}

/* Whether aligned blocks of so many columns hold both ends of every read, for a Value whose first column is
 * `first` of the product. */
static bool columns_stay(const ColumnWalk *walk, int64_t first, int block) {
    for (int r = 0; r < walk->n_reads; r++) {
        const ColumnRead *read = &walk->reads[r];
        for (int32_t c = 0; c < walk->width; c++)
            if ((!read->is_read || read->is_read[c]) && (first + c) / block != read->at[c] / block)
                return false;
    }
    return true;
}

/* The smallest such block; 0 where a read leaves the thread or the largest block. 1: every read is of its own
 * column. */
static int columns_block(const ColumnWalk *walk, int64_t first, const char **why) {
    for (int r = 0; r < walk->n_reads; r++) {
        const ColumnRead *read = &walk->reads[r];
        ColumnFit fit = column_fit_start();
        ColumnMove move;
        for (int32_t c = 0; c < walk->width; c++)
            if (!read->is_read || read->is_read[c])
                column_fit_add(&fit, first + c, read->at[c]);
        *why = "a column is wanted that another thread holds: they may move by multiples of eight, or within "
               "a pair";
        if (!column_fit_end(&fit, &move))
            return 0;
    }
    *why = "columns trade places over more than an aligned block of 256";
    if (columns_stay(walk, first, 1))
        return 1;
    for (int block = COLUMN_GROUP; block <= COLUMN_BLOCK_MAX; block += COLUMN_GROUP)
        if (columns_stay(walk, first, block))
            return block;
    return 0;
}

int column_blocks_join(int x, int y) {
    return x && y ? x / (int)dim_gcd(x, y) * y : x + y;
}

static bool columns_find(ColumnWalk *walk, ColumnPlace *place) {
    const Value *core = walk->cores[0];
    int64_t columns = core->dims[core->rank - 1]->value, least = INT64_MAX, shift = INT64_MAX;
    for (int r = 0; r < walk->n_reads; r++)
        for (int32_t c = 0; c < walk->width; c++) {
            const ColumnRead *read = &walk->reads[r];
            if (read->is_read && !read->is_read[c])
                continue;
            least = read->at[c] < least ? read->at[c] : least;
            shift = read->at[c] - c < shift ? read->at[c] - c : shift;
        }
    if (least == INT64_MAX)
        return columns_refuse(walk, "it reads no column of the product");
    int64_t tries[] = {least, shift, 0};
    const char *why =
        "its columns do not begin at a multiple of eight of the product's, or reach beyond them";
    *place = (ColumnPlace){.width = walk->width};
    walk->why = why;
    for (int i = 0; i < 3; i++) {
        if (tries[i] < 0 || tries[i] % COLUMN_GROUP != 0 || tries[i] + walk->width > columns)
            continue;
        int block = columns_block(walk, tries[i], &why);
        if (!block) {
            walk->why = why;
        } else if (!place->block || block < place->block) {
            place->first = tries[i];
            place->block = block;
        }
    }
    if (!place->block)
        return false;
    place->block = place->block == 1 ? 0 : place->block;
    return true;
}

/* One search, with memory of its own that is gone when it has answered. */
typedef struct ColumnQuestion {
    ColumnWalk walk;
    const Value *value;
    ColumnPlace *place;
    bool found;
} ColumnQuestion;

static void columns_answer(void *context) {
    ColumnQuestion *question = context;
    ColumnWalk *walk = &question->walk;
    ColumnCoords coords;
    question->found = columns_start(walk, question->value, &coords) &&
                      columns_walk(walk, question->value, &coords) && columns_find(walk, question->place);
}

static void columns_free(void *object) {
    Arena **scratch = object;
    arena_free(*scratch);
    *scratch = NULL;
}

bool columns_place(const Graph *graph, const Value *const *cores, int n_cores, const Value *value,
                   bool (*is_here)(void *context, const Value *value), void *context, ColumnPlace *place,
                   const char **why) {
    const Dim *columns = cores[0]->dims[cores[0]->rank - 1];
    *why = "the number of the product's columns is not known, or no multiple of eight";
    if (!dim_is_const(columns) || columns->value % COLUMN_GROUP != 0)
        return false;
    Arena **scratch = ARENA_NEW(graph->arena, Arena *);
    arena_defer(graph->arena, columns_free,
                scratch); /* should the graph's arena give up in the midst of it */
    *scratch = arena_new(0);
    if (!*scratch)
        arena_give_up(graph->arena);
    ColumnQuestion *question = ARENA_NEW(graph->arena, ColumnQuestion);
    question->walk = (ColumnWalk){.graph = graph,
                                  .arena = *scratch,
                                  .cores = cores,
                                  .n_cores = n_cores,
                                  .is_here = is_here,
                                  .context = context,
                                  .depends = {.arena = *scratch}};
    question->value = value;
    question->place = place;
    bool is_answered = arena_run(*scratch, columns_answer, question);
    columns_free(scratch);
    if (!is_answered)
        arena_give_up(graph->arena);
    *why = question->found ? NULL : question->walk.why;
    return question->found;
}
