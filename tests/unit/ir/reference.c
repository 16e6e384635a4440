/* The float64 reference on cases worked out by hand, and on the edges that tables of documentation promise:
 * empty reductions, NaN, ties, indices out of range, integers that wrap, batches that repeat, random numbers
 * from a second Philox. */
#include <math.h>

#include "support.h"

#include "ir/reference.h"

#define CONST(value) dim_const(bench->dims, value)
#define DIMS(...)                                                                                            \
    { .dims = (const Dim *[]){__VA_ARGS__}, .n_dims = sizeof((const Dim *[]){__VA_ARGS__}) / sizeof(Dim *) }
#define INTS(...)                                                                                            \
    { .ints = (int[]){__VA_ARGS__}, .n_ints = sizeof((int[]){__VA_ARGS__}) / sizeof(int) }
#define AXES(...)                                                                                            \
    {                                                                                                        \
        .axes = {.n = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .at = {__VA_ARGS__} }                      \
    }
#define ATTRS(...)                                                                                           \
    (Attr[OP_MAX_ATTRS]) {                                                                                   \
        __VA_ARGS__                                                                                          \
    }
enum { INPUTS_MAX = 4 };
static Tensor tensors[INPUTS_MAX]; /* of the test's inputs, by position */

/* An input with elements 0, 1, 2, ... or, where given, those of `values`. */
static Value *input(Bench *bench, DType dtype, int rank, const int64_t *dims, const double *values) {
    const Dim *symbolic[RANK_MAX];
    size_t position = bench->graph->inputs.n;
    assert_true(position < INPUTS_MAX);
    for (int i = 0; i < rank; i++)
        symbolic[i] = CONST(dims[i]);
    Value *value = graph_add_input(bench->graph, "x", dtype, rank, symbolic, NULL, (Span){0});
    Tensor *tensor = &tensors[position];
    assert_true(tensor_new(bench->arena, dtype, rank, dims, tensor));
    for (int64_t i = 0; i < tensor->count; i++) {
        double x = values ? values[i] : (double)i;
        tensor->at[i] = dtype_is_float(dtype) ? (Number){.f = x} : (Number){.i = (int64_t)x};
    }
    return value;
}

static Value *vector(Bench *bench, DType dtype, int n, const double *values) {
    return input(bench, dtype, 1, (int64_t[]){n}, values);
}

static Tensor evaluate(Bench *bench, Value *value) {
    Tensor out = {0};
    DimBindings none = {0};
    if (!value || !reference_value(bench->arena, bench->graph, &none, tensors, value, &out, &bench->diags))
        fail_msg("%s", bench->diags.list.n ? bench->diags.list.at[0].message : "no value");
    return out;
}

/* The operation's result, compared element by element; NaN is equal to NaN. */
static void expect(Bench *bench, OpKind op, Value **in, int n_in, const Attr *attrs, int n,
                   const double *want) {
    Value *value = graph_append(bench->graph, op, in, n_in, attrs, (Span){0}, &bench->diags);
    Tensor out = evaluate(bench, value);
    assert_int_equal(out.count, n);
    assert_int_equal(out.dtype, value->dtype);
    for (int i = 0; i < n; i++) {
        double got = dtype_is_float(out.dtype) ? out.at[i].f : (double)out.at[i].i;
        if (!(got == want[i] || (isnan(got) && isnan(want[i]))))
            fail_msg("%s: element %d is %.17g, not %.17g", op_info(op)->name, i, got, want[i]);
    }
}
#define EXPECT1(op, x, attrs, ...)                                                                           \
    expect(bench, op, (Value *[]){x}, 1, attrs, sizeof((double[]){__VA_ARGS__}) / sizeof(double),            \
           (double[]){__VA_ARGS__})
#define EXPECT2(op, x, y, attrs, ...)                                                                        \
    expect(bench, op, (Value *[]){x, y}, 2, attrs, sizeof((double[]){__VA_ARGS__}) / sizeof(double),         \
           (double[]){__VA_ARGS__})

BENCH_TEST(test_movement) {
    Value *x = input(bench, DTYPE_F32, 2, (int64_t[]){2, 3}, NULL);
    const Dim *zero = CONST(0), *one = CONST(1), *two = CONST(2), *three = CONST(3);
    EXPECT1(OP_transpose, x, ATTRS(INTS(1, 0)), 0, 3, 1, 4, 2, 5);
    EXPECT1(OP_reshape, x, ATTRS(DIMS(three, two)), 0, 1, 2, 3, 4, 5);
    EXPECT1(OP_broadcast, x, ATTRS(DIMS(two, two, three)), 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
    EXPECT1(OP_slice, x, ATTRS(DIMS(zero, one), DIMS(two, three), INTS(1, 1)), 1, 2, 4, 5);
    EXPECT1(OP_slice, x, ATTRS(DIMS(one, two), DIMS(CONST(-1), CONST(-1)), INTS(-1, -2)), 5, 3, 2, 0);
    EXPECT1(OP_window, x, ATTRS({.i = 1}, {.dim = two}, {.i = 1}, {.i = 1}), 0, 1, 1, 2, 3, 4, 4, 5);
    EXPECT1(OP_window, x, ATTRS({.i = 1}, {.dim = two}, {.i = 2}, {.i = 2}), 0, 2, 3, 5);
    EXPECT1(OP_window, x, ATTRS({.i = 0}, {.dim = two}, {.i = 1}, {.i = 1}), 0, 3, 1, 4, 2, 5);
    EXPECT1(OP_window, x, ATTRS({.i = 1}, {.dim = one}, {.i = 2}, {.i = 9}), 0, 2, 3, 5);
    Value *border = graph_append(bench->graph, OP_constant, NULL, 0,
                                 ATTRS({.number = {.f = 9}}, {.dtype = DTYPE_F32}), (Span){0}, &bench->diags);
    EXPECT2(OP_pad, x, border, ATTRS(DIMS(zero, one), DIMS(one, zero)), 9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9);
    EXPECT2(OP_concat, x, x, ATTRS({.i = 1}), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    EXPECT2(OP_concat, x, x, ATTRS({.i = 0}), 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
    Value *at = vector(bench, DTYPE_I32, 4, (double[]){2, -1, 3, 0});
    EXPECT2(OP_gather, x, at, ATTRS({.i = 1}), 2, 0, 0, 0, 5, 0, 0, 3); /* out of range reads 0 */
    Value *row = vector(bench, DTYPE_I64, 2, (double[]){1, 5});
    EXPECT2(OP_gather, x, row, ATTRS({.i = 0}), 3, 4, 5, 0, 0, 0);
    expect(bench, OP_index, NULL, 0, ATTRS(DIMS(one, three), {.i = 1}), 3, (double[]){0, 1, 2});
}

BENCH_TEST(test_reductions) {
    Value *x = input(bench, DTYPE_F32, 2, (int64_t[]){2, 3}, (double[]){4, -1, 4, NAN, 2, -3});
    Attr *rows = ATTRS(AXES(1), {.i = 1}), *columns = ATTRS(AXES(0), {.i = 0}),
         *all = ATTRS(AXES(0, 1), {.i = 0});
    EXPECT1(OP_sum, x, rows, 7, NAN);
    EXPECT1(OP_sum, x, columns, NAN, 1, 1);
    EXPECT1(OP_prod, x, rows, -16, NAN);
    EXPECT1(OP_reduce_min, x, columns, NAN, -1, -3);
    EXPECT1(OP_reduce_max, x, rows, 4, NAN);
    EXPECT1(OP_argmax, x, rows, 0, 0); /* the first of equals, and the first NaN */
    EXPECT1(OP_argmin, x, columns, 1, 0, 1);
    EXPECT1(OP_argmin, x, all, 3); /* row-major number among the reduced */
    EXPECT1(OP_any, x, rows, 1, 1);
    Value *flags = input(bench, DTYPE_BOOL, 2, (int64_t[]){2, 3}, (double[]){0, 0, 0, 1, 1, 1});
    EXPECT1(OP_any, flags, rows, 0, 1);
    EXPECT1(OP_all, flags, rows, 0, 1);
    EXPECT1(OP_sum, flags, all, 3);
    Value *large = vector(bench, DTYPE_I32, 3, (double[]){2147483647, 1, 5});
    EXPECT1(OP_sum, large, ATTRS(AXES(0), {.i = 0}), -2147483643.0); /* wraps */
    EXPECT1(OP_reduce_min, large, ATTRS(AXES(0), {.i = 0}), 1);
}

BENCH_TEST(test_reductions_of_none) {
    Attr *over = ATTRS(AXES(0), {.i = 0});
    Value *floats = input(bench, DTYPE_BF16, 2, (int64_t[]){0, 1}, NULL),
          *bytes = input(bench, DTYPE_U8, 2, (int64_t[]){0, 1}, NULL);
    EXPECT1(OP_sum, floats, over, 0);
    EXPECT1(OP_prod, floats, over, 1);
    EXPECT1(OP_reduce_max, floats, over, -INFINITY);
    EXPECT1(OP_reduce_min, floats, over, INFINITY);
    EXPECT1(OP_argmax, floats, over, 0);
    EXPECT1(OP_any, floats, over, 0);
    EXPECT1(OP_all, floats, over, 1);
    EXPECT1(OP_reduce_max, bytes, over, INT32_MIN);
    EXPECT1(OP_reduce_min, bytes, over, INT32_MAX);
}

BENCH_TEST(test_scalars) {
    Value *a = vector(bench, DTYPE_I32, 4, (double[]){2147483647, -7, 7, -2147483648.0});
    Value *b = vector(bench, DTYPE_I8, 4, (double[]){1, 2, 0, -1});
    EXPECT2(OP_add, a, b, NULL, -2147483648.0, -5, 7, 2147483647);
    EXPECT2(OP_mul, a, b, NULL, 2147483647, -14, 0, -2147483648.0);
    EXPECT2(OP_div, a, b, NULL, 2147483647, -3, 0, -2147483648.0);
    EXPECT2(OP_mod, a, b, NULL, 0, -1, 0, 0);
    Value *f = vector(bench, DTYPE_F32, 4, (double[]){1.5, NAN, -INFINITY, 0});
    EXPECT2(OP_max, f, b, NULL, 1.5, NAN, 0, 0);
    EXPECT2(OP_lt, f, b, NULL, 0, 0, 1, 0);
    EXPECT2(OP_ne, f, f, NULL, 0, 1, 0, 0);
    EXPECT1(OP_isfinite, f, NULL, 1, 0, 0, 1);
    EXPECT1(OP_not, f, NULL, 0, 0, 0, 1);
    Value *in[] = {f, a, b}; /* NaN and infinity are true */
    expect(bench, OP_select, in, 3, NULL, 4, (double[]){2147483647, -7, 7, -1});
    EXPECT1(OP_cast, f, ATTRS({.dtype = DTYPE_I8}), 1, 0, -128, 0);
    EXPECT1(OP_cast, f, ATTRS({.dtype = DTYPE_E4M3}), 1.5, NAN, -448, 0);
    EXPECT1(OP_cast, a, ATTRS({.dtype = DTYPE_U4}), 15, 9, 7, 0);
    EXPECT1(OP_sqrt, b, NULL, 1, sqrt(2), 0, NAN); /* integers become floats */
}

BENCH_TEST(test_matmul) {
    Value *a = input(bench, DTYPE_I8, 3, (int64_t[]){4, 1, 2}, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    Value *b = input(bench, DTYPE_I8, 3, (int64_t[]){2, 2, 1}, (double[]){1, 10, 100, 1000});
    /* Batches 0 and 1 meet matrix 0, batches 2 and 3 matrix 1. */
    EXPECT2(OP_matmul, a, b, NULL, 21, 43, 6500, 8700);
    Value *c = input(bench, DTYPE_F32, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    EXPECT2(OP_matmul, c, c, NULL, 7, 10, 15, 22);
    Value *none = input(bench, DTYPE_F32, 2, (int64_t[]){2, 0}, NULL);
    Value *turned =
        graph_append(bench->graph, OP_transpose, &none, 1, ATTRS(INTS(1, 0)), (Span){0}, &bench->diags);
    EXPECT2(OP_matmul, none, turned, NULL, 0, 0, 0, 0);
}

/* Philox-4x32-10 as the paper's tables say it, in another shape: a round maps (L1 R1 L0 R0). */
static void philox_again(uint64_t counter, uint64_t key, uint32_t out[4]) {
    uint32_t r0 = (uint32_t)counter, l0 = (uint32_t)(counter >> 32), r1 = 0, l1 = 0;
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t k0 = (uint32_t)key + round * 0x9E3779B9u, k1 = (uint32_t)(key >> 32) + round * 0xBB67AE85u;
        uint32_t high0 = (uint32_t)((uint64_t)r0 * 0xD2511F53u >> 32), low0 = r0 * 0xD2511F53u;
        uint32_t high1 = (uint32_t)((uint64_t)r1 * 0xCD9E8D57u >> 32), low1 = r1 * 0xCD9E8D57u;
        r0 = high1 ^ l0 ^ k0;
        l0 = low1;
        r1 = high0 ^ l1 ^ k1;
        l1 = low0;
    }
    out[0] = r0, out[1] = l0, out[2] = r1, out[3] = l1;
}

BENCH_TEST(test_philox) {
    (void)bench;
    /* The known answer that the paper's code is published with. */
    static const uint32_t zero[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t got[4], want[4];
    philox4x32(0, 0, got);
    assert_memory_equal(got, zero, sizeof zero);
    uint64_t seed = 31;
    for (int i = 0; i < 1000; i++) {
        uint64_t counter = draw(&seed), key = draw(&seed);
        philox4x32(counter, key, got);
        philox_again(counter, key, want);
        assert_memory_equal(got, want, sizeof want);
    }
}

BENCH_TEST(test_random_numbers) {
    Attr key[OP_MAX_ATTRS] = {{.number = {.i = 77}}, {.dtype = DTYPE_I64}};
    Value *seed = graph_append(bench->graph, OP_constant, NULL, 0, key, (Span){0}, &bench->diags);
    Attr *dims = ATTRS(DIMS(CONST(50), CONST(101)), {.i = 3}), *shifted = ATTRS(DIMS(CONST(8)), {.i = 4});
    Value *u = graph_append(bench->graph, OP_uniform, &seed, 1, dims, (Span){0}, &bench->diags);
    Value *v = graph_append(bench->graph, OP_uniform, &seed, 1, shifted, (Span){0}, &bench->diags);
    Value *n = graph_append(bench->graph, OP_normal, &seed, 1, dims, (Span){0}, &bench->diags);
    Tensor uniform = evaluate(bench, u), later = evaluate(bench, v), normal = evaluate(bench, n);
    double sum = 0, squares = 0, mean = 0;
    for (int64_t e = 0; e < uniform.count; e++) {
        uint32_t w[4];
        philox_again((uint64_t)e / 4 + 3, 77, w);
        assert_true(uniform.at[e].f == (w[e % 4] >> 8) / 16777216.0);
        assert_true((float)uniform.at[e].f == uniform.at[e].f);
        mean += uniform.at[e].f;
        sum += normal.at[e].f;
        squares += normal.at[e].f * normal.at[e].f;
    }
    for (int i = 0; i < 4; i++)
        assert_true(later.at[i].f == uniform.at[i + 4].f); /* one counter further */
    double count = (double)uniform.count;
    assert_true(fabs(mean / count - 0.5) < 0.02 && fabs(sum / count) < 0.05 &&
                fabs(squares / count - 1) < 0.1);
}

BENCH_TEST(test_what_it_refuses) {
    const Dim *m = dim_symbol(bench->dims, "M"), *dims[] = {m};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_F32, 1, dims, NULL, (Span){0});
    graph_add_output(bench->graph, "x", x, NULL, (Span){0});
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    Tensor given, out;
    int64_t five = 5;
    assert_true(tensor_new(bench->arena, DTYPE_F32, 1, &five, &given));
    assert_false(reference_run(bench->arena, bench->graph, &bindings, &given, &out,
                               &bench->diags)); /* M has no value */
    assert_int_equal(bench->diags.list.at[0].id, DIAG_DIM);
    bindings.known[0] = true;
    bindings.value[0] = 6;
    assert_false(reference_run(bench->arena, bench->graph, &bindings, &given, &out, &bench->diags));
    assert_int_equal(bench->diags.list.at[1].id, DIAG_DATA);
    bindings.value[0] = 5;
    assert_true(reference_run(bench->arena, bench->graph, &bindings, &given, &out, &bench->diags));
    assert_int_equal(out.count, 5);
    int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40}, negative = -1;
    assert_false(tensor_new(bench->arena, DTYPE_I8, 2, huge, &out));
    assert_false(tensor_new(bench->arena, DTYPE_I8, 1, &negative, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_movement),
        BENCH_ENTRY(test_reductions),
        BENCH_ENTRY(test_reductions_of_none),
        BENCH_ENTRY(test_scalars),
        BENCH_ENTRY(test_matmul),
        BENCH_ENTRY(test_philox),
        BENCH_ENTRY(test_random_numbers),
        BENCH_ENTRY(test_what_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
