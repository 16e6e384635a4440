/* What counts as a softmax, and the band within which scores are seen. */
#include "support.h"

#include <math.h>

#include "ir/reference.h"
#include "ir/band.h"
#include "ir/softmax.h"

enum { ROWS = 6, COLUMNS = 10 };

static Value *op(Bench *bench, OpKind kind, Value *a, Value *b, const Attr *attrs) {
    Value *in[] = {a, b};
    Value *value = graph_append(bench->graph, kind, in, a ? b ? 2 : 1 : 0, attrs, (Span){0}, &bench->diags);
    if (!value)
        fail_msg("%s", bench->diags.list.at[0].message);
    return value;
}

static Value *constant(Bench *bench, double value, DType dtype) {
    Number number = dtype_is_float(dtype) ? (Number){.f = value} : (Number){.i = (int64_t)value};
    return op(bench, OP_constant, NULL, NULL, (Attr[]){{.number = number}, {.dtype = dtype}});
}

static Value *scores(Bench *bench) {
    const Dim *dims[] = {dim_const(bench->dims, 2), dim_const(bench->dims, ROWS),
                         dim_const(bench->dims, COLUMNS)};
    return graph_add_input(bench->graph, "s", DTYPE_F32, 3, dims, NULL, (Span){0});
}

static Value *along_rows(Bench *bench, OpKind kind, Value *x) {
    return op(bench, kind, x, NULL, (Attr[]){{.axes = {1, {x->rank - 1}}}, {.i = 1}});
}

static Value *softmax(Bench *bench, Value *x, OpKind last) {
    Value *e = op(bench, OP_exp, op(bench, OP_sub, x, along_rows(bench, OP_reduce_max, x), NULL), NULL, NULL);
    Value *share = op(bench, last, e, along_rows(bench, OP_sum, e), NULL);
    return op(bench, OP_cast, share, NULL, (Attr[]){{.dtype = DTYPE_BF16}});
}

/* The coordinate along an axis counted from behind. */
static Value *coordinate(Bench *bench, int behind) {
    const Dim *one = dim_const(bench->dims, 1);
    const Dim *dims[] = {one, behind == 1 ? dim_const(bench->dims, ROWS) : one,
                         behind == 0 ? dim_const(bench->dims, COLUMNS) : one};
    return op(bench, OP_index, NULL, NULL, (Attr[]){{.dims = dims, .n_dims = 3}, {.i = 2 - behind}});
}

static Value *select_seen(Bench *bench, Value *inside, Value *y, double beyond) {
    Value *in[] = {inside, y, constant(bench, beyond, DTYPE_F32)};
    Value *value = graph_append(bench->graph, OP_select, in, 3, NULL, (Span){0}, &bench->diags);
    assert_non_null(value);
    return value;
}

BENCH_TEST(test_softmax) {
    Value *x = scores(bench), *y = softmax(bench, x, OP_div);
    Softmax found;
    assert_true(softmax_of(y, &found));
    assert_ptr_equal(found.x, x);
    assert_int_equal(found.max->op, OP_reduce_max);
    assert_int_equal(found.sum->op, OP_sum);
    assert_false(softmax_of(y->in[0], &found)); /* not rounded */
    assert_false(softmax_of(softmax(bench, x, OP_sub), &found));
    /* the maximum of something else */
    Value *e = op(bench, OP_exp, op(bench, OP_sub, x, found.sum, NULL), NULL, NULL);
    Value *share = op(bench, OP_div, e, along_rows(bench, OP_sum, e), NULL);
    assert_false(softmax_of(op(bench, OP_cast, share, NULL, (Attr[]){{.dtype = DTYPE_BF16}}), &found));
}

BENCH_TEST(test_sink) {
    Value *x = scores(bench), *max = along_rows(bench, OP_reduce_max, x);
    const Dim *one = dim_const(bench->dims, 1), *dims[] = {dim_const(bench->dims, 2), one, one};
    Value *sink = graph_add_input(bench->graph, "k", DTYPE_BF16, 3, dims, NULL, (Span){0});
    Value *of_x = along_rows(bench, OP_sum, x); /* of the scores, which is no sink */
    for (int turn = 0; turn < 4; turn++) {
        bool swaps = turn & 1;
        Value *own = turn < 2 ? sink : of_x;
        Value *base = op(bench, OP_max, swaps ? own : max, swaps ? max : own, NULL);
        Value *e = op(bench, OP_exp, op(bench, OP_sub, x, base, NULL), NULL, NULL);
        Value *sum = along_rows(bench, OP_sum, e),
              *weight = op(bench, OP_exp, op(bench, OP_sub, own, base, NULL), NULL, NULL);
        Value *whole = op(bench, OP_add, swaps ? weight : sum, swaps ? sum : weight, NULL);
        Value *y =
            op(bench, OP_cast, op(bench, OP_div, e, whole, NULL), NULL, (Attr[]){{.dtype = DTYPE_BF16}});
        Value *without =
            op(bench, OP_cast, op(bench, OP_div, e, sum, NULL), NULL, (Attr[]){{.dtype = DTYPE_BF16}});
        Softmax found;
        assert_false(softmax_of(without, &found));
        assert_int_equal(softmax_of(y, &found), turn < 2);
        if (turn >= 2)
            continue;
        assert_ptr_equal(found.x, x);
        assert_ptr_equal(found.sink, sink);
        assert_ptr_equal(found.max, max);
        assert_ptr_equal(found.base, base);
        assert_ptr_equal(found.sum, sum);
        assert_ptr_equal(found.whole, whole);
        assert_null(found.weighed);
    }
}

BENCH_TEST(test_weighed) {
    Value *x = scores(bench), *share = softmax(bench, x, OP_div)->in[0];
    const Dim *dims[] = {dim_const(bench->dims, 2), dim_const(bench->dims, ROWS),
                         dim_const(bench->dims, COLUMNS)};
    Value *mask = graph_add_input(bench->graph, "m", DTYPE_F32, 3, dims, NULL, (Span){0});
    Attr narrow[] = {{.dtype = DTYPE_BF16}};
    Value *factor = op(bench, OP_exp, mask, NULL, NULL), *weighed = op(bench, OP_mul, share, factor, NULL);
    Softmax found;
    assert_true(softmax_of(op(bench, OP_cast, weighed, NULL, narrow), &found));
    assert_ptr_equal(found.share, share);
    assert_ptr_equal(found.weighed, weighed);
    assert_ptr_equal(found.x, x);
    /* by what comes of the scores */
    Value *own = op(bench, OP_mul, share, along_rows(bench, OP_sum, x), NULL);
    assert_false(softmax_of(op(bench, OP_cast, own, NULL, narrow), &found));
}

/* The only limit of a kind; NULL: there is none. */
static const BandLimit *limit_of(const Band *band, bool by_row, bool is_most) {
    const BandLimit *found = NULL;
    for (int i = 0; i < band->n; i++)
        if (band->limit[i].by_row == by_row && band->limit[i].is_most == is_most) {
            assert_null(found);
            found = &band->limit[i];
        }
    return found;
}

static void check_band(Bench *bench, Value *inside, int64_t low, int64_t high, bool is_all) {
    Value *y = scores(bench), *x = select_seen(bench, inside, y, -INFINITY), *inner;
    Band band;
    assert_true(band_of(bench->dims, x, -INFINITY, &band, &inner));
    const BandLimit *least = limit_of(&band, true, false), *most = limit_of(&band, true, true);
    assert_int_equal(band.n, (least != NULL) + (most != NULL));
    assert_int_equal(least ? least->offset->value : INT64_MIN, low);
    assert_int_equal(most ? most->offset->value : INT64_MAX, high);
    assert_ptr_equal(inner, is_all ? y : x);
    /* of a square matrix, and of one with more rows, where it says that each column is seen, each is */
    enum { COLUMNS = 9, MORE = 13 };
    for (int64_t rows = COLUMNS; rows <= MORE; rows += MORE - COLUMNS) {
        const Dim *columns = dim_const(bench->dims, COLUMNS);
        bool all = true;
        for (int64_t col = 0; col < COLUMNS; col++) {
            bool some = false;
            for (int64_t row = 0; row < rows; row++)
                some = some || (col - row >= low && col - row <= high);
            all = all && some;
        }
        bool says = band_sees_columns(bench->dims, &band, dim_const(bench->dims, rows), columns);
        assert_true(all || !says);
        assert_true(says || low > 0 || high < 0 || (rows > COLUMNS && most));
    }
}

/* An element of y is seen where the condition holds, and where the band says so. */
static void check_same(Bench *bench, Value *inside, Value *y, const Tensor *in, const int64_t *lengths,
                       int n_limits) {
    Value *x = select_seen(bench, inside, y, -INFINITY), *inner;
    Band band;
    Tensor seen;
    DimBindings none = {0};
    assert_true(band_of(bench->dims, x, -INFINITY, &band, &inner));
    assert_int_equal(band.n, n_limits);
    assert_ptr_equal(inner, y);
    assert_true(reference_value(bench->arena, bench->graph, &none, in, inside, &seen, &bench->diags));
    int matrices = seen.rank > 2 ? (int)seen.dims[0] : 1;
    for (int m = 0; m < matrices; m++)
        for (int row = 0; row < ROWS; row++)
            for (int col = 0; col < COLUMNS; col++) {
                int64_t own_row = seen.dims[seen.rank - 2] == 1 ? 0 : row,
                        own_col = seen.dims[seen.rank - 1] == 1 ? 0 : col;
                int64_t at = (m * seen.dims[seen.rank - 2] + own_row) * seen.dims[seen.rank - 1] + own_col;
                bool is_seen = true;
                for (int i = 0; i < band.n; i++) {
                    const BandLimit *limit = &band.limit[i];
                    int64_t by = 0;
                    for (int k = 0; k < limit->n_numbers; k++)
                        by += limit->number[k].is_taken ? -lengths[m] : lengths[m];
                    int64_t place = col - (limit->by_row ? row : 0), end = limit->offset->value + by;
                    is_seen = is_seen && (limit->is_most ? place <= end : place >= end);
                }
                assert_int_equal(is_seen, seen.at[at].i != 0);
            }
}

BENCH_TEST(test_limits_from_memory) {
    static const int64_t lengths[] = {7, -2}, extents[] = {2, 1, 1};
    const Dim *dims[] = {dim_const(bench->dims, 2), dim_const(bench->dims, 1), dim_const(bench->dims, 1)};
    Value *length = graph_add_input(bench->graph, "n", DTYPE_I32, 3, dims, NULL, (Span){0});
    Value *y = scores(bench), *inner;
    Tensor in[2];
    Band band;
    int64_t all[] = {2, ROWS, COLUMNS};
    assert_true(tensor_new(bench->arena, DTYPE_I32, 3, extents, &in[0]));
    assert_true(tensor_new(bench->arena, DTYPE_F32, 3, all, &in[1]));
    for (int i = 0; i < 2; i++)
        in[0].at[i].i = lengths[i];
    Value *col = coordinate(bench, 0), *row = coordinate(bench, 1), *three = constant(bench, 3, DTYPE_I32);
    Value *ends = op(bench, OP_lt, col, length, NULL), *begins = op(bench, OP_le, length, col, NULL);
    check_same(bench, ends, y, in, lengths, 1);
    check_same(bench, begins, y, in, lengths, 1);
    check_same(bench, op(bench, OP_le, op(bench, OP_add, col, length, NULL), three, NULL), y, in, lengths, 1);
    check_same(bench, op(bench, OP_ge, op(bench, OP_sub, three, length, NULL), col, NULL), y, in, lengths, 1);
    check_same(bench, op(bench, OP_gt, op(bench, OP_add, col, length, NULL), three, NULL), y, in, lengths, 1);
    /* the last queries of sequences whose keys are so many */
    Value *last =
        op(bench, OP_add, row, op(bench, OP_sub, length, constant(bench, ROWS, DTYPE_I32), NULL), NULL);
    Value *causal = op(bench, OP_le, col, last, NULL);
    check_same(bench, causal, y, in, lengths, 1);
    check_same(bench, op(bench, OP_and, causal, ends, NULL), y, in, lengths, 2);
    check_same(bench, op(bench, OP_lt, col, three, NULL), y, in, lengths, 1);
    Value *twice =
        op(bench, OP_add, op(bench, OP_sub, col, length, NULL), op(bench, OP_sub, three, length, NULL), NULL);
    check_same(bench, op(bench, OP_lt, twice, three, NULL), y, in, lengths, 1);
    /* coordinates under other axes of one element; what has one element alone is no coordinate */
    const Dim *wide[] = {dim_const(bench->dims, 1), dim_const(bench->dims, 1), dim_const(bench->dims, 1),
                         dim_const(bench->dims, COLUMNS)},
              *flat[] = {dim_const(bench->dims, COLUMNS)};
    Value *wider = op(bench, OP_reshape, col, NULL, (Attr[]){{.dims = wide, .n_dims = 4}}),
          *vector = op(bench, OP_reshape, wider, NULL, (Attr[]){{.dims = flat, .n_dims = 1}});
    assert_int_equal(value_coordinate(row), 1);
    assert_int_equal(value_coordinate(wider), 3);
    assert_int_equal(value_coordinate(vector), 0);
    assert_int_equal(value_coordinate(length), -1);
    assert_int_equal(
        value_coordinate(op(bench, OP_index, NULL, NULL, (Attr[]){{.dims = wide, .n_dims = 3}, {.i = 1}})),
        -1);
    check_same(bench, op(bench, OP_lt, vector, length, NULL), y, in, lengths, 1);
    /* one select within another */
    assert_true(band_of(bench->dims,
                        select_seen(bench, causal, select_seen(bench, ends, y, -INFINITY), -INFINITY),
                        -INFINITY, &band, &inner));
    assert_int_equal(band.n, 2);
    assert_ptr_equal(inner, y);
    /* what is no number of a matrix */
    const Dim *of_rows[] = {dim_const(bench->dims, 2), dim_const(bench->dims, ROWS),
                            dim_const(bench->dims, 1)};
    Value *own = graph_add_input(bench->graph, "r", DTYPE_I32, 3, of_rows, NULL, (Span){0});
    assert_false(band_of(bench->dims, select_seen(bench, op(bench, OP_lt, col, own, NULL), y, -INFINITY),
                         -INFINITY, &band, &inner));
    Value *thrice = op(bench, OP_lt, op(bench, OP_add, twice, length, NULL), three, NULL);
    assert_false(band_of(bench->dims, select_seen(bench, thrice, y, -INFINITY), -INFINITY, &band, &inner));
}

BENCH_TEST(test_bands) {
    Value *col = coordinate(bench, 0), *row = coordinate(bench, 1), *three = constant(bench, 3, DTYPE_I32);
    Value *ahead = op(bench, OP_sub, col, row, NULL), *zero = constant(bench, 0, DTYPE_I32);
    check_band(bench, op(bench, OP_le, col, row, NULL), INT64_MIN, 0, true);
    check_band(bench, op(bench, OP_lt, col, row, NULL), INT64_MIN, -1, true);
    check_band(bench, op(bench, OP_ge, row, col, NULL), INT64_MIN, 0, true);
    check_band(bench, op(bench, OP_gt, row, col, NULL), INT64_MIN, -1, true);
    check_band(bench, op(bench, OP_ge, col, row, NULL), 0, INT64_MAX, true);
    check_band(bench, op(bench, OP_le, ahead, three, NULL), INT64_MIN, 3, true);
    check_band(bench, op(bench, OP_gt, op(bench, OP_add, ahead, three, NULL), zero, NULL), -2, INT64_MAX,
               true);
    Value *causal = op(bench, OP_le, ahead, zero, NULL);
    Value *recent = op(bench, OP_lt, op(bench, OP_sub, row, three, NULL), col, NULL);
    check_band(bench, op(bench, OP_and, causal, recent, NULL), -2, 0, true);
    /* positions that are counted from the end */
    const Dim *more = dim_sub(bench->dims, dim_symbol(bench->dims, "T"), dim_symbol(bench->dims, "S"));
    Value *last = op(bench, OP_add, row, op(bench, OP_dim, NULL, NULL, (Attr[]){{.dim = more}}), NULL),
          *inner;
    Band band;
    assert_true(band_of(bench->dims,
                        select_seen(bench, op(bench, OP_le, col, last, NULL), scores(bench), -INFINITY),
                        -INFINITY, &band, &inner));
    assert_ptr_equal(limit_of(&band, true, true)->offset, more);
    /* what else is asked may mask more */
    const Dim *dims[] = {dim_const(bench->dims, ROWS), dim_const(bench->dims, COLUMNS)};
    Value *mask = graph_add_input(bench->graph, "m", DTYPE_BOOL, 2, dims, NULL, (Span){0});
    check_band(bench, op(bench, OP_and, mask, causal, NULL), INT64_MIN, 0, false);
}

BENCH_TEST(test_no_bands) {
    Value *col = coordinate(bench, 0), *row = coordinate(bench, 1), *y = scores(bench), *inner;
    Value *causal = op(bench, OP_le, col, row, NULL);
    Band band;
    assert_false(band_of(bench->dims, y, -INFINITY, &band, &inner));
    assert_ptr_equal(inner, y);
    assert_false(band_of(bench->dims, select_seen(bench, causal, y, 0), -INFINITY, &band, &inner));
    Value *sum = op(bench, OP_le, op(bench, OP_add, col, row, NULL), constant(bench, 4, DTYPE_I32), NULL);
    assert_false(band_of(bench->dims, select_seen(bench, sum, y, -INFINITY), -INFINITY, &band, &inner));
    Value *either = op(bench, OP_or, causal, op(bench, OP_ge, col, row, NULL), NULL);
    assert_false(band_of(bench->dims, select_seen(bench, either, y, -INFINITY), -INFINITY, &band, &inner));
}

BENCH_TEST(test_bands_of_zeros) {
    Value *col = coordinate(bench, 0), *row = coordinate(bench, 1), *y = scores(bench);
    Value *seen = op(bench, OP_le, col, row, NULL), *other = op(bench, OP_ge, col, row, NULL);
    Value *low = select_seen(bench, seen, y, -INFINITY), *none = select_seen(bench, seen, y, 0);
    Value *power = op(bench, OP_exp, op(bench, OP_sub, low, y, NULL), NULL, NULL);
    Band band, same;
    assert_true(band_of_zeros(bench->dims, none, &band));
    assert_int_equal(band.n, 1);
    assert_true(band_of_zeros(bench->dims, op(bench, OP_mul, y, power, NULL), &same));
    assert_true(band_same(&band, &same));
    assert_true(band_of_zeros(bench->dims, select_seen(bench, other, y, 0), &same));
    assert_false(band_same(&band, &same));
    /* not zero, or not there */
    assert_false(band_of_zeros(bench->dims, low, &band));
    assert_false(band_of_zeros(bench->dims, op(bench, OP_exp, none, NULL, NULL), &band));
    assert_false(band_of_zeros(bench->dims, op(bench, OP_add, none, y, NULL), &band));
    assert_false(
        band_of_zeros(bench->dims, op(bench, OP_exp, op(bench, OP_sub, y, low, NULL), NULL, NULL), &band));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_softmax),
        BENCH_ENTRY(test_sink),
        BENCH_ENTRY(test_weighed),
        BENCH_ENTRY(test_bands),
        BENCH_ENTRY(test_limits_from_memory),
        BENCH_ENTRY(test_no_bands),
        BENCH_ENTRY(test_bands_of_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
