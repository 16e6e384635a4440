/* What counts as a softmax, and the band within which scores are seen. */
#include "support.h"

#include <math.h>

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

static void check_band(Bench *bench, Value *inside, int64_t low, int64_t high, bool is_all) {
    Value *y = scores(bench), *x = select_seen(bench, inside, y, -INFINITY), *inner;
    Band band;
    assert_true(softmax_band(bench->dims, x, &band, &inner));
    assert_int_equal(band.low ? band.low->value : INT64_MIN, low);
    assert_int_equal(band.high ? band.high->value : INT64_MAX, high);
    assert_ptr_equal(inner, is_all ? y : x);
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
    assert_true(softmax_band(bench->dims,
                             select_seen(bench, op(bench, OP_le, col, last, NULL), scores(bench), -INFINITY),
                             &band, &inner));
    assert_ptr_equal(band.high, more);
    /* what else is asked may mask more */
    const Dim *dims[] = {dim_const(bench->dims, ROWS), dim_const(bench->dims, COLUMNS)};
    Value *mask = graph_add_input(bench->graph, "m", DTYPE_BOOL, 2, dims, NULL, (Span){0});
    check_band(bench, op(bench, OP_and, mask, causal, NULL), INT64_MIN, 0, false);
}

BENCH_TEST(test_no_bands) {
    Value *col = coordinate(bench, 0), *row = coordinate(bench, 1), *y = scores(bench), *inner;
    Value *causal = op(bench, OP_le, col, row, NULL);
    Band band;
    assert_false(softmax_band(bench->dims, y, &band, &inner));
    assert_ptr_equal(inner, y);
    assert_false(softmax_band(bench->dims, select_seen(bench, causal, y, 0), &band, &inner));
    Value *sum = op(bench, OP_le, op(bench, OP_add, col, row, NULL), constant(bench, 4, DTYPE_I32), NULL);
    assert_false(softmax_band(bench->dims, select_seen(bench, sum, y, -INFINITY), &band, &inner));
    Value *batch = op(bench, OP_le, col, coordinate(bench, 2), NULL);
    assert_false(softmax_band(bench->dims, select_seen(bench, batch, y, -INFINITY), &band, &inner));
    Value *either = op(bench, OP_or, causal, op(bench, OP_ge, col, row, NULL), NULL);
    assert_false(softmax_band(bench->dims, select_seen(bench, either, y, -INFINITY), &band, &inner));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_softmax),
        BENCH_ENTRY(test_bands),
        BENCH_ENTRY(test_no_bands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
