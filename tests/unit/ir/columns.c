/* Columns that trade places within a thread's registers: which reads are, and where a Value's columns lie. */
#include "support.h"

#include "ir/columns.h"

static bool fit(int64_t (*to)(int64_t c), int64_t n, ColumnMove *move) {
    ColumnFit fit = column_fit_start();
    for (int64_t c = 0; c < n; c++)
        if (to(c) >= 0) /* else not read */
            column_fit_add(&fit, c, to(c));
    return column_fit_end(&fit, move);
}

static int64_t to_itself(int64_t c) {
    return c;
}
static int64_t to_other_half(int64_t c) {
    return c ^ 64;
}
static int64_t to_upper_half(int64_t c) {
    return c % 128 < 64 ? c + 64 : -1;
}
static int64_t to_neighbour(int64_t c) {
    return c ^ 1;
}
static int64_t to_even(int64_t c) {
    return c / 2 * 2;
}
static int64_t to_next(int64_t c) {
    return (c + 1) % 128;
}
static int64_t to_next_pair(int64_t c) {
    return c ^ 2;
}
static int64_t to_mixed(int64_t c) {
    return c < 64 ? c : c ^ 8;
}

static void test_fits(void **state) {
    (void)state;
    ColumnMove move;
    assert_true(fit(to_itself, 256, &move) && !move.is_xor && move.by == 0 && move.elem[1] == 1);
    assert_true(fit(to_other_half, 256, &move) && move.is_xor && move.by == 8 && move.elem[0] == 0);
    assert_true(fit(to_upper_half, 256, &move) && !move.is_xor && move.by == 8);
    assert_true(fit(to_neighbour, 64, &move) && move.by == 0 && move.elem[0] == 1 && move.elem[1] == 0);
    assert_true(fit(to_even, 64, &move) && move.elem[0] == 0 && move.elem[1] == 0);
    assert_false(fit(to_next, 128, &move));
    assert_false(fit(to_next_pair, 128, &move));
    assert_false(fit(to_mixed, 128, &move));
}

static bool everywhere(void *context, const Value *value) {
    (void)context;
    (void)value;
    return true;
}

#define CONST(value) dim_const(bench->dims, value)

static Value *product(Bench *bench, const Dim *rows, int64_t columns) {
    const Dim *x_dims[] = {rows, CONST(16)}, *w_dims[] = {CONST(16), CONST(columns)};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_BF16, 2, x_dims, NULL, (Span){0});
    Value *w = graph_add_input(bench->graph, "w", DTYPE_BF16, 2, w_dims, NULL, (Span){0});
    return bench_append(bench, OP_matmul, x, w, NULL);
}

static Value *reshape(Bench *bench, Value *x, int rank, const Dim **dims) {
    return bench_append(bench, OP_reshape, x, NULL, (Attr[OP_MAX_ATTRS]){{.dims = dims, .n_dims = rank}});
}

/* Columns [from, to) of the last axis. */
static Value *part(Bench *bench, Value *x, int64_t from, int64_t to) {
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        start[i] = CONST(i + 1 < x->rank ? 0 : from);
        limit[i] = i + 1 < x->rank ? x->dims[i] : CONST(to);
        step[i] = 1;
    }
    return bench_append(bench, OP_slice, x, NULL,
                        (Attr[OP_MAX_ATTRS]){{.dims = start, .n_dims = x->rank},
                                             {.dims = limit, .n_dims = x->rank},
                                             {.ints = step, .n_ints = x->rank}});
}

static Value *join(Bench *bench, Value *x, Value *y) {
    return bench_append(bench, OP_concat, x, y, (Attr[OP_MAX_ATTRS]){{.i = x->rank - 1}});
}

static bool place(Bench *bench, const Value *core, const Value *value, ColumnPlace *out) {
    const char *why;
    bool found = columns_place(bench->graph, &core, 1, value, everywhere, NULL, out, &why);
    assert_true(found == !why);
    return found;
}

BENCH_TEST(test_places) {
    const Dim *rows = dim_symbol(bench->dims, "M");
    Value *h = product(bench, rows, 96);
    ColumnPlace at;
    assert_true(place(bench, h, part(bench, h, 32, 96), &at) && at.first == 32 && at.width == 64 &&
                at.block == 0);
    Value *heads = reshape(bench, part(bench, h, 32, 96), 3, (const Dim *[]){rows, CONST(2), CONST(32)});
    Value *turned = join(bench, part(bench, heads, 16, 32), part(bench, heads, 0, 16));
    assert_true(place(bench, h, turned, &at) && at.first == 32 && at.width == 64 && at.block == 32);
    Value *sum = bench_append(bench, OP_add, turned, heads, NULL);
    assert_true(place(bench, h, sum, &at) && at.first == 32 && at.block == 32);
    /* a half of each head is no run of columns; a head by one is another thread's; rows may not be mixed with
     * columns */
    assert_false(place(bench, h, part(bench, heads, 0, 16), &at));
    assert_false(place(bench, h, join(bench, part(bench, h, 1, 96), part(bench, h, 0, 1)), &at));
    assert_false(place(bench, h, part(bench, h, 4, 12), &at));
    Value *square = product(bench, CONST(8), 8);
    assert_false(place(bench, square,
                       bench_append(bench, OP_transpose, square, NULL,
                                    (Attr[OP_MAX_ATTRS]){{.ints = (int[]){1, 0}, .n_ints = 2}}),
                       &at));
    Value *wide = product(bench, rows, 1024);
    assert_false(
        place(bench, wide, join(bench, part(bench, wide, 512, 1024), part(bench, wide, 0, 512)), &at));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),
        BENCH_ENTRY(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
