/* Types and shapes of every operation, on good operands and on bad ones, with the words of the diagnostics.
 */
#include "support.h"

#include "ir/infer.h"
#include "ir/print.h"

static bool seen_good[OP_COUNT], seen_bad[OP_COUNT];

#define CONST(value) dim_const(bench->dims, value)
#define SYMBOL(name) dim_symbol(bench->dims, name)
#define LIST(...)                                                                                            \
    (const Dim *[]) {                                                                                        \
        __VA_ARGS__                                                                                          \
    }
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
#define GOOD(op, want, attrs, ...)                                                                           \
    expect_good(bench, op, want, attrs, sizeof((Value *[]){NULL, __VA_ARGS__}) / sizeof(Value *) - 1,        \
                (Value *[]){NULL, __VA_ARGS__} + 1)
#define BAD(op, id, words, attrs, ...)                                                                       \
    expect_bad(bench, op, id, words, attrs, sizeof((Value *[]){NULL, __VA_ARGS__}) / sizeof(Value *) - 1,    \
               (Value *[]){NULL, __VA_ARGS__} + 1)

static Value *expect_good(Bench *bench, OpKind op, const char *want, const Attr *attrs, size_t n_in,
                          Value **in) {
    Value *value = graph_append(bench->graph, op, in, (int)n_in, attrs, (Span){0}, &bench->diags);
    if (!value)
        fail_msg("%s: %s", op_info(op)->name, bench->diags.list.at[bench->diags.list.n - 1].message);
    Text text = text_new(bench->arena);
    value_print_type(&text, bench->graph, value);
    if (strcmp(text.at, want) != 0)
        fail_msg("%s gives %s, not %s", op_info(op)->name, text.at, want);
    assert_int_equal(value->id, bench->graph->values.n - 1);
    seen_good[op] = true;
    return value;
}

/* The first message must have exactly these words. */
static void expect_bad(Bench *bench, OpKind op, DiagId id, const char *words, const Attr *attrs, size_t n_in,
                       Value **in) {
    size_t before = bench->graph->values.n;
    Diags diags = {.arena = bench->arena};
    assert_null(graph_append(bench->graph, op, in, (int)n_in, attrs, (Span){0}, &diags));
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.at[0].message, words);
    assert_int_equal(diags.list.at[0].id, id);
    assert_int_equal(bench->graph->values.n, before);
    /* A caller that only asks gets the same answer in silence. */
    assert_null(graph_append(bench->graph, op, in, (int)n_in, attrs, (Span){0}, NULL));
    seen_bad[op] = true;
}

static Value *input(Bench *bench, const char *name, DType dtype, int rank, const Dim **dims) {
    Span span = {.file = 1, .begin = (uint32_t)(10 * bench->graph->inputs.n), .end = 0};
    return graph_add_input(bench->graph, name, dtype, rank, dims, NULL, span);
}

BENCH_TEST(test_scalar_types) {
    Value *of[DTYPE_COUNT];
    for (int t = 0; t < DTYPE_COUNT; t++)
        of[t] = input(bench, dtype_name((DType)t), (DType)t, 0, NULL);
    for (int kind = 0; kind < OP_SCALAR_COUNT; kind++) {
        OpKind op = (OpKind)kind;
        const OpInfo *info = op_info(op);
        for (int a = 0; a < DTYPE_COUNT; a++)
            for (int b = 0; b < DTYPE_COUNT; b++) {
                if (info->n_in == 1 && b != a)
                    continue;
                DType x = (DType)a, y = (DType)b,
                      both = info->n_in == 1 ? dtype_compute(x) : dtype_promote(x, y);
                Value *operands[] = {of[a], of[b], of[b]};
                DType want = both;
                if (info->rule == RULE_SELECT)
                    want = y == DTYPE_BOOL ? DTYPE_BOOL : dtype_compute(y); /* the condition does not count */
                else if (info->rule == RULE_COMPARE || info->rule == RULE_LOGIC)
                    want = DTYPE_BOOL;
                else if (info->rule == RULE_FLOAT)
                    want = x == DTYPE_F64 || (info->n_in > 1 && y == DTYPE_F64) ? DTYPE_F64 : DTYPE_F32;
                bool integers =
                    !dtype_is_float(x) && x != DTYPE_BOOL && !dtype_is_float(y) && y != DTYPE_BOOL;
                if (info->rule != RULE_BITS || integers) {
                    expect_good(bench, op, dtype_name(want), NULL, (size_t)info->n_in, operands);
                } else {
                    DType culprit = dtype_is_float(x) || x == DTYPE_BOOL ? x : y;
                    expect_bad(bench, op, DIAG_TYPE_MISMATCH,
                               text_format(bench->arena, "'%s' is defined on integers alone, not on %s",
                                           info->name, dtype_name(culprit)),
                               NULL, (size_t)info->n_in, operands);
                }
            }
    }
}

BENCH_TEST(test_broadcasting) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *one = CONST(1);
    Value *mn = input(bench, "mn", DTYPE_BF16, 2, LIST(m, n)),
          *row = input(bench, "row", DTYPE_F32, 1, LIST(n));
    Value *column = input(bench, "column", DTYPE_F32, 2, LIST(m, one)),
          *scalar = input(bench, "s", DTYPE_I8, 0, NULL);
    Value *many = input(bench, "many", DTYPE_F16, 3, LIST(CONST(5), one, n));
    Value *wrong = input(bench, "wrong", DTYPE_F32, 1, LIST(m)),
          *zero = input(bench, "zero", DTYPE_F32, 1, LIST(CONST(0)));
    Value *unit = input(bench, "unit", DTYPE_F32, 1, LIST(one));
    GOOD(OP_add, "f32[M, N]", NULL, mn, row);
    GOOD(OP_add, "f32[M, N]", NULL, row, column);
    GOOD(OP_add, "f32[M, N]", NULL, scalar, mn);
    GOOD(OP_mul, "f32[5, M, N]", NULL, many, mn);
    GOOD(OP_fma, "f32[5, M, N]", NULL, column, row, many);
    GOOD(OP_add, "f32[0]", NULL, zero, unit);
    BAD(OP_add, DIAG_SHAPE_MISMATCH,
        "operands of 'add' do not broadcast: N and M on axis -1 of bf16[M, N] and f32[M]", NULL, mn, wrong);
    BAD(OP_select, DIAG_SHAPE_MISMATCH,
        "operands of 'select' do not broadcast: M and N on axis -1 of f32[M] and f32[N]", NULL, scalar, wrong,
        row);
    BAD(OP_add, DIAG_ARGUMENTS, "'add' takes 2 operands, not 1", NULL, mn);
    BAD(OP_exp, DIAG_ARGUMENTS, "'exp' takes 1 operand, not 2", NULL, mn, mn);
    assert_null(graph_append(bench->graph, OP_add, (Value *[]){mn, NULL}, 2, NULL, (Span){0}, &bench->diags));
    assert_int_equal(bench->diags.errors, 0); /* the NULL was reported when it arose */
}

BENCH_TEST(test_border) {
    const Dim *m = SYMBOL("M");
    GOOD(OP_constant, "bf16", ATTRS({.number = {.f = 0.5}}, {.dtype = DTYPE_BF16}));
    GOOD(OP_dim, "i64", ATTRS({.dim = dim_div(bench->dims, m, CONST(16))}));
    BAD(OP_constant, DIAG_ATTRIBUTE, "'dtype' of 'constant' is no element type",
        ATTRS({.number = {.f = 0.5}}, {.dtype = DTYPE_COUNT}));
    BAD(OP_dim, DIAG_DIM, "'value' of 'dim' overflows 64 bits", ATTRS({.dim = NULL}));
    Value *x = input(bench, "x", DTYPE_F16, 1, LIST(m));
    BAD(OP_constant, DIAG_ARGUMENTS, "'constant' takes 0 operands, not 1",
        ATTRS({.i = 0}, {.dtype = DTYPE_F32}), x);
    seen_good[OP_input] = seen_bad[OP_input] = true; /* declared, so nothing to infer */
    assert_true(infer_value(bench->graph, x, &bench->diags));
    GOOD(OP_cast, "e4m3[M]", ATTRS({.dtype = DTYPE_E4M3}), x);
    BAD(OP_cast, DIAG_ATTRIBUTE, "'dtype' of 'cast' is no element type", ATTRS({.dtype = DTYPE_COUNT}), x);
    Value *float_constant = graph_constant_float(bench->graph, 0.1, (Span){0});
    assert_true(float_constant->dtype == DTYPE_F32 && float_constant->attrs[0].number.f == (double)0.1f);
    assert_int_equal(graph_constant_float(bench->graph, 1e40, (Span){0})->dtype, DTYPE_F64);
    assert_int_equal(graph_constant_int(bench->graph, INT32_MIN, (Span){0})->dtype, DTYPE_I32);
    assert_int_equal(graph_constant_int(bench->graph, (int64_t)INT32_MAX + 1, (Span){0})->dtype, DTYPE_I64);
}

BENCH_TEST(test_index_and_random) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *one = CONST(1);
    Value *index = GOOD(OP_index, "i32[1, N]", ATTRS(DIMS(m, n), {.i = 1}));
    assert_ptr_equal(index->attrs[0].dims[0], one);
    BAD(OP_index, DIAG_AXIS, "'index' of axis 2 of 2 dims", ATTRS(DIMS(m, n), {.i = 2}));
    BAD(OP_index, DIAG_AXIS, "'index' of axis -1 of 2 dims", ATTRS(DIMS(m, n), {.i = -1}));
    BAD(OP_index, DIAG_DIM, "'index' counts in i32, which 5000000000 exceeds",
        ATTRS(DIMS(CONST(5000000000)), {.i = 0}));
    Value *key = GOOD(OP_constant, "i64", ATTRS({.number = {.i = 7}}, {.dtype = DTYPE_I64}));
    Value *narrow = GOOD(OP_constant, "i32", ATTRS({.number = {.i = 7}}, {.dtype = DTYPE_I32}));
    GOOD(OP_uniform, "f32[M, N]", ATTRS(DIMS(m, n), {.i = 4}), key);
    GOOD(OP_normal, "f32[N]", ATTRS(DIMS(n), {.i = 0}), key);
    BAD(OP_uniform, DIAG_TYPE_MISMATCH, "the key of 'uniform' is an i64 scalar, not i32",
        ATTRS(DIMS(n), {.i = 0}), narrow);
    BAD(OP_normal, DIAG_ATTRIBUTE, "'offset' of 'normal' is negative", ATTRS(DIMS(n), {.i = -1}), key);
    BAD(OP_normal, DIAG_DIM, "dim 0 in 'dims' of 'normal' overflows 64 bits",
        ATTRS({.dims = LIST(NULL), .n_dims = 1}), key);
    BAD(OP_uniform, DIAG_RANK, "'dims' of 'uniform' has 9 dims; 8 is the most",
        ATTRS(DIMS(n, n, n, n, n, n, n, n, n), {.i = 0}), key);
    BAD(OP_uniform, DIAG_DIM, "dim 0 of the result of 'uniform' is negative: -2",
        ATTRS(DIMS(CONST(-2)), {.i = 0}), key);
}

BENCH_TEST(test_movement) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *one = CONST(1);
    Value *x = input(bench, "x", DTYPE_BF16, 2, LIST(m, n)),
          *row = input(bench, "row", DTYPE_I8, 2, LIST(one, n));
    GOOD(OP_broadcast, "i8[3, M, N]", ATTRS(DIMS(CONST(3), m, n)), row);
    BAD(OP_broadcast, DIAG_SHAPE_MISMATCH,
        "bf16[M, N] does not broadcast to bf16[M, M]: N is not M on axis -1", ATTRS(DIMS(m, m)), x);
    BAD(OP_broadcast, DIAG_RANK, "bf16[M, N] does not broadcast to bf16[N], which has fewer dims",
        ATTRS(DIMS(n)), x);

    const Dim *mn = dim_mul(bench->dims, m, n);
    GOOD(OP_reshape, "bf16[M*N]", ATTRS(DIMS(mn)), x);
    GOOD(OP_reshape, "bf16[N, 1, M]", ATTRS(DIMS(n, one, m)), x);
    BAD(OP_reshape, DIAG_SHAPE_MISMATCH,
        "bf16[M, N] has M*N elements and cannot be reshaped to bf16[M, M], which has M*M", ATTRS(DIMS(m, m)),
        x);
    const Dim *sixteenth = dim_div(bench->dims, n, CONST(16));
    BAD(OP_reshape, DIAG_SHAPE_MISMATCH,
        "bf16[M, N] has M*N elements and cannot be reshaped to bf16[M, N/16, 16], which has 16*M*(N/16)",
        ATTRS(DIMS(m, sixteenth, CONST(16))), x);
    assert_true(
        dim_constrain(bench->dims, dim_mod(bench->dims, n, CONST(16)), DIM_EQ, CONST(0), (Span){0}, NULL));
    GOOD(OP_reshape, "bf16[M, N/16, 16]", ATTRS(DIMS(m, sixteenth, CONST(16))), x);
    const Dim *large = CONST((int64_t)1 << 40);
    Value *huge = input(bench, "huge", DTYPE_I8, 2, LIST(large, large));
    BAD(OP_reshape, DIAG_DIM, "the number of elements of i8[1099511627776, 1099511627776] overflows 64 bits",
        ATTRS(DIMS(large, large)), huge);

    GOOD(OP_transpose, "bf16[N, M]", ATTRS(INTS(1, 0)), x);
    BAD(OP_transpose, DIAG_RANK, "'perm' of 'transpose' has 1 numbers for bf16[M, N], which has 2 dims",
        ATTRS(INTS(0)), x);
    BAD(OP_transpose, DIAG_AXIS, "'perm' of 'transpose' names every axis once, but axis 0 is repeated",
        ATTRS(INTS(0, 0)), x);
    BAD(OP_transpose, DIAG_AXIS, "'perm' of 'transpose' names every axis once, but axis 2 is out of range",
        ATTRS(INTS(0, 2)), x);
}

BENCH_TEST(test_slices) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *zero = CONST(0), *one = CONST(1), *below = CONST(-1);
    assert_true(dim_constrain(bench->dims, n, DIM_GE, CONST(8), (Span){0}, NULL));
    Value *x = input(bench, "x", DTYPE_F16, 2, LIST(m, n)),
          *ten = input(bench, "ten", DTYPE_F16, 1, LIST(CONST(10)));
    const Dim *half = dim_div(bench->dims, n, CONST(2)), *last = dim_sub(bench->dims, m, one);
    GOOD(OP_slice, "f16[M, N/2]", ATTRS(DIMS(zero, zero), DIMS(m, half), INTS(1, 1)), x);
    GOOD(OP_slice, "f16[M, 6]", ATTRS(DIMS(zero, CONST(2)), DIMS(m, CONST(8)), INTS(1, 1)), x);
    GOOD(OP_slice, "f16[(M + 1)/2, N - 3]", ATTRS(DIMS(zero, CONST(3)), DIMS(m, n), INTS(2, 1)), x);
    GOOD(OP_slice, "f16[M, 2]", ATTRS(DIMS(last, CONST(5)), DIMS(below, one), INTS(-1, -2)), x);
    GOOD(OP_slice, "f16[0]", ATTRS(DIMS(CONST(7)), DIMS(CONST(3)), INTS(1)), ten);
    GOOD(OP_slice, "f16[4]", ATTRS(DIMS(CONST(9)), DIMS(below), INTS(-3)), ten);
    BAD(OP_slice, DIAG_ATTRIBUTE, "limit of 'slice' <= dim on axis 0: 11 exceeds 10",
        ATTRS(DIMS(zero), DIMS(CONST(11)), INTS(1)), ten);
    BAD(OP_slice, DIAG_ATTRIBUTE, "0 <= start of 'slice' on axis 0: 0 exceeds -1",
        ATTRS(DIMS(below), DIMS(one), INTS(1)), ten);
    BAD(OP_slice, DIAG_ATTRIBUTE, "start of 'slice' < dim on axis 0: 10 exceeds 9",
        ATTRS(DIMS(CONST(10)), DIMS(below), INTS(-1)), ten);
    BAD(OP_slice, DIAG_ATTRIBUTE, "-1 <= limit of 'slice' on axis 0: -1 exceeds -2",
        ATTRS(DIMS(CONST(5)), DIMS(CONST(-2)), INTS(-1)), ten);
    BAD(OP_slice, DIAG_ATTRIBUTE, "limit of 'slice' <= dim on axis 0 is not known to hold: 4 may exceed M",
        ATTRS(DIMS(zero, zero), DIMS(CONST(4), n), INTS(1, 1)), x);
    BAD(OP_slice, DIAG_ATTRIBUTE, "the step of 'slice' on axis 0 is 0", ATTRS(DIMS(zero), DIMS(one), INTS(0)),
        ten);
    BAD(OP_slice, DIAG_RANK, "'slice' of f16[10] needs 1 starts, limits and steps, not 1, 1 and 2",
        ATTRS(DIMS(zero), DIMS(one), INTS(1, 1)), ten);
    Diags diags = {.arena = bench->arena};
    Attr *attrs = ATTRS(DIMS(zero, zero), DIMS(CONST(4), n), INTS(1, 1));
    graph_append(bench->graph, OP_slice, &x, 1, attrs, (Span){0}, &diags);
    assert_string_equal(diags.list.at[2].message, "'where 4 <= M' would say so");
}

BENCH_TEST(test_windows) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *zero = CONST(0), *one = CONST(1), *three = CONST(3);
    assert_true(dim_constrain(bench->dims, n, DIM_GE, CONST(8), (Span){0}, NULL));
    Value *x = input(bench, "x", DTYPE_F16, 2, LIST(m, n)),
          *ten = input(bench, "ten", DTYPE_I8, 1, LIST(CONST(10))),
          *deep = input(bench, "deep", DTYPE_I8, 8, LIST(one, one, one, one, one, one, one, one));
#define WINDOW(axis, size, step, dilation) ATTRS({.i = axis}, {.dim = size}, {.i = step}, {.i = dilation})
    GOOD(OP_window, "f16[M, N - 2, 3]", WINDOW(1, three, 1, 1), x);
    GOOD(OP_window, "f16[M, (N + 1)/2 - 1, 3]", WINDOW(1, three, 2, 1), x);
    GOOD(OP_window, "f16[M, N - 6, 3]", WINDOW(1, three, 1, 3), x);
    GOOD(OP_window, "f16[M, 1, N]", WINDOW(1, n, 1, 1), x);
    GOOD(OP_window, "f16[M, (N + 1)/2, 1]", WINDOW(1, one, 2, 7), x);
    GOOD(OP_window, "i8[3, 3]", WINDOW(0, three, 3, 1), ten);
    GOOD(OP_window, "i8[2, 3]", WINDOW(0, three, 2, 3), ten);
    GOOD(OP_window, "i8[1, 10]", WINDOW(0, CONST(10), 100, 1), ten);
    BAD(OP_window, DIAG_AXIS, "'window' along axis 1 of i8[10], which has 1 dims", WINDOW(1, three, 1, 1),
        ten);
    BAD(OP_window, DIAG_AXIS, "'window' along axis -1 of i8[10], which has 1 dims", WINDOW(-1, three, 1, 1),
        ten);
    BAD(OP_window, DIAG_RANK, "the result of 'window' has 9 dims; 8 is the most", WINDOW(0, one, 1, 1), deep);
    BAD(OP_window, DIAG_ATTRIBUTE, "the step of 'window' is 0, not a positive number of 32 bits",
        WINDOW(0, three, 0, 1), ten);
    BAD(OP_window, DIAG_ATTRIBUTE, "the dilation of 'window' is -1, not a positive number of 32 bits",
        WINDOW(0, three, 1, -1), ten);
    BAD(OP_window, DIAG_ATTRIBUTE, "the step of 'window' is 2147483648, not a positive number of 32 bits",
        WINDOW(0, three, (int64_t)INT32_MAX + 1, 0), ten);
    BAD(OP_window, DIAG_ATTRIBUTE, "1 <= size of 'window' on axis 0: 1 exceeds 0", WINDOW(0, zero, 1, 1),
        ten);
    BAD(OP_window, DIAG_ATTRIBUTE, "the reach of a 'window' <= dim on axis 0: 11 exceeds 10",
        WINDOW(0, CONST(12), 1, 1), ten);
    BAD(OP_window, DIAG_ATTRIBUTE, "the reach of a 'window' <= dim on axis 0: 12 exceeds 10",
        WINDOW(0, three, 1, 6), ten);
    GOOD(OP_window, "i8[0, 11]", WINDOW(0, CONST(11), 1, 1), ten);
    BAD(OP_window, DIAG_ATTRIBUTE,
        "the reach of a 'window' <= dim on axis 0 is not known to hold: 2 may exceed M",
        WINDOW(0, three, 1, 1), x);
    BAD(OP_window, DIAG_ATTRIBUTE, "1 <= size of 'window' on axis 1 is not known to hold: 1 may exceed M",
        WINDOW(1, m, 1, 1), x);
    BAD(OP_window, DIAG_DIM, "the size of 'window' overflows 64 bits",
        WINDOW(0, CONST((int64_t)1 << 40), 1, INT32_MAX), ten);
    BAD(OP_window, DIAG_DIM, "'size' of 'window' overflows 64 bits", WINDOW(0, NULL, 1, 1), ten);
    Diags diags = {.arena = bench->arena};
    graph_append(bench->graph, OP_window, &x, 1, WINDOW(0, three, 1, 2), (Span){0}, &diags);
    assert_string_equal(diags.list.at[2].message, "'where 4 <= M' would say so");
#undef WINDOW
}

BENCH_TEST(test_pad_concat_gather) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *zero = CONST(0), *one = CONST(1);
    Value *x = input(bench, "x", DTYPE_F16, 2, LIST(m, n)),
          *y = input(bench, "y", DTYPE_F16, 2, LIST(m, CONST(3)));
    Value *f = input(bench, "f", DTYPE_F32, 2, LIST(m, n)), *v = input(bench, "v", DTYPE_F16, 1, LIST(n));
    Value *none = GOOD(OP_constant, "f16", ATTRS({.number = {.f = 0}}, {.dtype = DTYPE_F16}));
    Value *wide = GOOD(OP_constant, "f32", ATTRS({.number = {.f = 0}}, {.dtype = DTYPE_F32}));
    GOOD(OP_pad, "f16[M + 1, N + 3]", ATTRS(DIMS(zero, one), DIMS(one, CONST(2))), x, none);
    BAD(OP_pad, DIAG_ATTRIBUTE, "0 <= low of 'pad' on axis 0: 0 exceeds -1",
        ATTRS(DIMS(CONST(-1), one), DIMS(one, one)), x, none);
    BAD(OP_pad, DIAG_ATTRIBUTE, "0 <= high of 'pad' on axis 1 is not known to hold: 0 may exceed M - 1",
        ATTRS(DIMS(one, one), DIMS(one, dim_sub(bench->dims, m, one))), x, none);
    BAD(OP_pad, DIAG_TYPE_MISMATCH, "'pad' borders f16[M, N] with f32; cast it to f16 first",
        ATTRS(DIMS(one, one), DIMS(one, one)), x, wide);
    BAD(OP_pad, DIAG_RANK, "the border of 'pad' is a scalar, not f16[N]",
        ATTRS(DIMS(one, one), DIMS(one, one)), x, v);
    BAD(OP_pad, DIAG_RANK, "'pad' of f16[M, N] needs 2 lows and highs, not 1 and 2",
        ATTRS(DIMS(one), DIMS(one, one)), x, none);

    GOOD(OP_concat, "f16[M, 2*N + 3]", ATTRS({.i = 1}), x, y, x);
    GOOD(OP_concat, "f16[M, N]", ATTRS({.i = 0}), x);
    BAD(OP_concat, DIAG_ARGUMENTS, "'concat' takes at least 1 operand, not 0", ATTRS({.i = 0}));
    BAD(OP_concat, DIAG_AXIS, "'concat' along axis 2 of f16[M, N], which has 2 dims", ATTRS({.i = 2}), x, y);
    BAD(OP_concat, DIAG_SHAPE_MISMATCH, "'concat' along axis 0: dims differ on axis 1: N and 3",
        ATTRS({.i = 0}), x, y);
    BAD(OP_concat, DIAG_RANK, "'concat' joins f16[M, N] and f16[N], whose ranks differ", ATTRS({.i = 0}), x,
        v);
    BAD(OP_concat, DIAG_TYPE_MISMATCH, "'concat' joins f16 and f32; cast one of them first", ATTRS({.i = 0}),
        x, f);

    Value *at = input(bench, "at", DTYPE_I32, 2, LIST(CONST(4), CONST(5)));
    GOOD(OP_gather, "f16[4, 5, N]", ATTRS({.i = 0}), x, at);
    GOOD(OP_gather, "f16[M, 4, 5]", ATTRS({.i = 1}), x, at);
    BAD(OP_gather, DIAG_AXIS, "'gather' along axis -1 of f16[M, N], which has 2 dims", ATTRS({.i = -1}), x,
        at);
    BAD(OP_gather, DIAG_TYPE_MISMATCH, "indices of 'gather' are integers, not f32", ATTRS({.i = 0}), x, f);
    Value *deep = input(bench, "deep", DTYPE_I8, 8, LIST(one, one, one, one, one, one, one, one));
    BAD(OP_gather, DIAG_RANK, "the result of 'gather' has 9 dims; 8 is the most", ATTRS({.i = 0}), x, deep);
}

BENCH_TEST(test_reductions) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N");
    static const struct {
        DType from, sum, logical, arg;
    } types[] = {{DTYPE_BF16, DTYPE_F32, DTYPE_BOOL, DTYPE_I64},
                 {DTYPE_F64, DTYPE_F64, DTYPE_BOOL, DTYPE_I64},
                 {DTYPE_I8, DTYPE_I32, DTYPE_BOOL, DTYPE_I64},
                 {DTYPE_I64, DTYPE_I64, DTYPE_BOOL, DTYPE_I64},
                 {DTYPE_BOOL, DTYPE_I32, DTYPE_BOOL, DTYPE_I64}};
    for (int kind = OP_sum; kind <= OP_argmin; kind++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            OpKind op = (OpKind)kind;
            Value *x = input(bench, "x", types[t].from, 3, LIST(m, n, CONST(3)));
            DType dtype = op >= OP_argmax ? types[t].arg : op >= OP_any ? types[t].logical : types[t].sum;
            const char *name = dtype_name(dtype);
            GOOD(op, text_format(bench->arena, "%s[M, 1, 3]", name), ATTRS(AXES(1), {.i = 1}), x);
            GOOD(op, text_format(bench->arena, "%s[N]", name), ATTRS(AXES(0, 2), {.i = 0}), x);
            GOOD(op, name, ATTRS(AXES(0, 1, 2), {.i = 0}), x);
            GOOD(op, text_format(bench->arena, "%s[M, N, 3]", name), ATTRS({.axes = {.n = 0}}, {.i = 1}), x);
            BAD(op, DIAG_AXIS,
                text_format(bench->arena, "'%s' over axis 3 of %s[M, N, 3], which has 3 dims",
                            op_info(op)->name, dtype_name(types[t].from)),
                ATTRS(AXES(3), {.i = 1}), x);
            BAD(op, DIAG_AXIS,
                text_format(bench->arena, "axes of '%s' are ascending and named once", op_info(op)->name),
                ATTRS(AXES(1, 1), {.i = 1}), x);
            BAD(op, DIAG_ATTRIBUTE,
                text_format(bench->arena, "'keep' of '%s' is 0 or 1, not 2", op_info(op)->name),
                ATTRS(AXES(1), {.i = 2}), x);
        }
}

BENCH_TEST(test_matmul) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N"), *k = CONST(4096), *b = SYMBOL("B"), *h = SYMBOL("H"),
              *j = SYMBOL("J");
    Attr automatic[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
    Value *x = input(bench, "x", DTYPE_BF16, 2, LIST(m, k)),
          *w = input(bench, "w", DTYPE_BF16, 2, LIST(n, CONST(4095)));
    Value *y = input(bench, "y", DTYPE_BF16, 2, LIST(k, n)),
          *i8 = input(bench, "i8", DTYPE_I8, 2, LIST(k, n));
    Value *v = input(bench, "v", DTYPE_F32, 1, LIST(k));
    Value *batch = input(bench, "batch", DTYPE_F16, 4, LIST(b, h, m, k)),
          *group = input(bench, "group", DTYPE_F16, 4, LIST(b, j, k, n));
    Value *six = input(bench, "six", DTYPE_F16, 3, LIST(CONST(6), m, k)),
          *four = input(bench, "four", DTYPE_F16, 3, LIST(CONST(4), k, n));
    Value *two = input(bench, "two", DTYPE_F16, 3, LIST(CONST(2), k, n)),
          *none = input(bench, "none", DTYPE_F16, 3, LIST(CONST(0), k, n));
    GOOD(OP_matmul, "f32[M, N]", automatic, x, y);
    GOOD(OP_matmul, "f32[M, N]", NULL, x, y); /* "auto" is the default */
    GOOD(OP_matmul, "f64[M, N]", ATTRS({.dtype = DTYPE_F64}), x, y);
    BAD(OP_matmul, DIAG_TYPE_MISMATCH, "'@' of bf16 and bf16 has no bf16 result; cast it instead",
        ATTRS({.dtype = DTYPE_BF16}), x, y);
    GOOD(OP_matmul, "f32[M, N]", automatic, x, i8);
    GOOD(OP_matmul, "f32[B, H, M, N]", automatic, batch, y);
    GOOD(OP_matmul, "f32[6, M, N]", automatic, six, two);
    GOOD(OP_matmul, "f32[6, M, N]", automatic, six, y);
    BAD(OP_matmul, DIAG_RANK, "operand 2 of '@' is f32[4096]; a matrix has at least two dims", automatic, x,
        v);
    BAD(OP_matmul, DIAG_SHAPE_MISMATCH,
        "batch dims of '@' do not fit: 6 and 4 on axis -3; they are equal, or 1, or one is known to divide "
        "the other",
        automatic, six, four);
    BAD(OP_matmul, DIAG_SHAPE_MISMATCH,
        "batch dims of '@' do not fit: 6 and 0 on axis -3; they are equal, or 1, or one is known to divide "
        "the other",
        automatic, six, none);
    BAD(OP_matmul, DIAG_SHAPE_MISMATCH,
        "batch dims of '@' do not fit: H and J on axis -3; they are equal, or 1, or one is known to divide "
        "the other",
        automatic, batch, group);
    assert_true(dim_constrain(bench->dims, dim_mod(bench->dims, h, j), DIM_EQ, CONST(0), (Span){0}, NULL));
    GOOD(OP_matmul, "f32[B, H, M, N]", automatic, batch, group);
    BAD(OP_matmul, DIAG_TYPE_MISMATCH, "'@' of bf16 and bf16 has no i32 result; cast it instead",
        ATTRS({.dtype = DTYPE_I32}), x, y);
    BAD(OP_matmul, DIAG_SHAPE_MISMATCH, "inner dims of '@' differ: 4096 and N", automatic, x, w);
    /* The notes show where the named operands are declared. */
    Diags diags = {.arena = bench->arena};
    graph_append(bench->graph, OP_matmul, (Value *[]){x, w}, 2, NULL, (Span){.file = 1, .begin = 90}, &diags);
    assert_int_equal(diags.list.n, 3);
    assert_int_equal(diags.list.at[0].span.begin, 90);
    assert_string_equal(diags.list.at[1].message, "'x' is declared bf16[M, 4096] here");
    assert_string_equal(diags.list.at[2].message, "'w' is declared bf16[N, 4095] here");
    assert_int_equal(diags.list.at[2].span.begin, w->span.begin);
}

static void test_every_operation_was_seen(void **state) {
    (void)state;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        const OpInfo *info = op_info((OpKind)kind);
        if (!seen_good[kind])
            fail_msg("no good operands of '%s'", info->name);
        bool may_fail = kind >= OP_SCALAR_COUNT || info->rule == RULE_BITS;
        if (may_fail && !seen_bad[kind])
            fail_msg("no bad operands of '%s'", info->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_scalar_types),
        BENCH_ENTRY(test_broadcasting),
        BENCH_ENTRY(test_border),
        BENCH_ENTRY(test_index_and_random),
        BENCH_ENTRY(test_movement),
        BENCH_ENTRY(test_slices),
        BENCH_ENTRY(test_windows),
        BENCH_ENTRY(test_pad_concat_gather),
        BENCH_ENTRY(test_reductions),
        BENCH_ENTRY(test_matmul),
        cmocka_unit_test(test_every_operation_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
