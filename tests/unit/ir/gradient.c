/* Gradient rules, row by row: every operation of the table either has a rule, which is compared with
 * differences, or is flat, which is compared with differences too. */
#include "support.h"

#include "gradient_check.h"
#include "ir/gradient_internal.h"
#include "ir/print.h"

static Value *input(Bench *bench, DType dtype, int rank, const int64_t *sizes) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i] = dim_const(bench->dims, sizes[i]);
    return graph_add_input(bench->graph, text_format(bench->arena, "x%zu", bench->graph->inputs.n), dtype,
                           rank, dims, NULL, (Span){0});
}
#define F64(...)                                                                                             \
    input(bench, DTYPE_F64, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static const Dim **dims_of(Bench *bench, int n, const int64_t *sizes) {
    const Dim **dims = ARENA_ARRAY(bench->arena, const Dim *, (size_t)n);
    for (int i = 0; i < n; i++)
        dims[i] = dim_const(bench->dims, sizes[i]);
    return dims;
}
#define DIMS(...)                                                                                            \
    {                                                                                                        \
        .dims = dims_of(bench, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)),                      \
                        (int64_t[]){__VA_ARGS__}),                                                           \
        .n_dims = (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))                                    \
    }
#define INTS(...)                                                                                            \
    { .ints = (int[]){__VA_ARGS__}, .n_ints = (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)) }
#define AXES(...)                                                                                            \
    {                                                                                                        \
        .axes = {(int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), {__VA_ARGS__} }                            \
    }

static void start(Bench *bench, const char *name) {
    bench->graph = graph_new(bench->arena, name);
    bench->dims = bench->graph->dims;
}

static GradientCheck checked(Bench *bench, Value *y) {
    graph_add_output(bench->graph, "y", y, NULL, (Span){0});
    return (GradientCheck){.arena = bench->arena,
                           .diags = &bench->diags,
                           .forward = bench->graph,
                           .low = -2,
                           .high = 2,
                           .tolerance = 1e-7};
}

/* ---- scalars ---- */

/* y = op of operands that broadcast against each other. */
static Value *scalar_value(Bench *bench, OpKind op) {
    const OpInfo *info = op_info(op);
    Value *in[OP_MAX_ARITY] = {0};
    for (int i = 0; i < info->n_in; i++) {
        bool is_condition = info->rule == RULE_LOGIC || (info->rule == RULE_SELECT && i == 0);
        DType dtype = is_condition ? DTYPE_BOOL : DTYPE_F64;
        in[i] = i == 0   ? input(bench, dtype, 2, (int64_t[]){3, 4})
                : i == 1 ? input(bench, dtype, 1, (int64_t[]){4})
                         : input(bench, dtype, 2, (int64_t[]){3, 1});
    }
    return bench_append_all(bench, op, in, info->n_in, NULL);
}

static void scalar_range(OpKind op, GradientCheck *check) {
    switch (op) {
    case OP_log:
    case OP_log2:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_reciprocal:
    case OP_div:
    case OP_pow: check->low = 0.3; break;
    case OP_log1p: check->low = -0.7; break;
    case OP_tan:
        check->low = -1;
        check->high = 1;
        break;
    default: break;
    }
}

BENCH_TEST(test_scalars) {
    for (int kind = 0; kind < OP_SCALAR_COUNT; kind++) {
        const OpInfo *info = op_info((OpKind)kind);
        if (info->rule == RULE_BITS || info->rule == RULE_LOGIC) {
            assert_ptr_equal(info->gradient, gradient_none);
            continue;
        }
        start(bench, info->name);
        Value *y = scalar_value(bench, (OpKind)kind);
        if (!dtype_is_float(y->dtype))
            y = bench_append_all(bench, OP_cast, &y, 1, (Attr[OP_MAX_ATTRS]){{.dtype = DTYPE_F64}});
        GradientCheck check = checked(bench, y);
        scalar_range((OpKind)kind, &check);
        gradient_check(&check); /* flat rows too: differences must be 0 then */
    }
}

/* Negative bases have no logarithm, but what depends on them alone is a power. */
BENCH_TEST(test_whole_powers) {
    start(bench, "whole_powers");
    Value *in[] = {F64(12), NULL};
    for (int power = 0; power < 4; power++) {
        start(bench, "whole_powers");
        in[0] = F64(12);
        in[1] = graph_constant_float(bench->graph, power, (Span){0});
        GradientCheck check = checked(bench, bench_append_all(bench, OP_pow, in, 2, NULL));
        gradient_check(&check);
    }
}

/* ---- the other operations ---- */

static Value *make_cast(Bench *bench) {
    Value *x = F64(3, 4);
    return bench_append_all(bench, OP_cast, &x, 1, (Attr[OP_MAX_ATTRS]){{.dtype = DTYPE_F64}});
}

static Value *make_broadcast(Bench *bench) {
    Value *x = F64(3, 1);
    return bench_append_all(bench, OP_broadcast, &x, 1, (Attr[OP_MAX_ATTRS]){DIMS(2, 3, 4)});
}

static Value *make_reshape(Bench *bench) {
    Value *x = F64(3, 4);
    return bench_append_all(bench, OP_reshape, &x, 1, (Attr[OP_MAX_ATTRS]){DIMS(2, 6)});
}

static Value *make_transpose(Bench *bench) {
    Value *x = F64(2, 3, 4);
    return bench_append_all(bench, OP_transpose, &x, 1, (Attr[OP_MAX_ATTRS]){INTS(2, 0, 1)});
}

/* Steps that fill the axis and that do not, from a start, downward. */
static Value *make_slice(Bench *bench) {
    Value *x = F64(6, 7, 8, 5);
    return bench_append_all(bench, OP_slice, &x, 1,
                            (Attr[OP_MAX_ATTRS]){DIMS(1, 6, 1, 2), DIMS(6, -1, 8, 5), INTS(2, -3, 3, 1)});
}

/* Nothing, upward and downward. */
static Value *make_slice_of_none(Bench *bench) {
    Value *x = F64(6, 4);
    Value *up =
        bench_append(bench, OP_slice, x, NULL, (Attr[OP_MAX_ATTRS]){DIMS(2, 0), DIMS(2, 4), INTS(1, 1)});
    Value *down =
        bench_append(bench, OP_slice, x, NULL, (Attr[OP_MAX_ATTRS]){DIMS(5, 0), DIMS(5, 4), INTS(-2, 1)});
    Value *in[] = {up, down, x};
    return bench_append_all(bench, OP_concat, in, 3, (Attr[OP_MAX_ATTRS]){{.i = 0}});
}

static Value *window_of(Bench *bench, int64_t n, int64_t size, int64_t step, int64_t dilation) {
    Value *x = F64(2, n, 3);
    return bench_append_all(
        bench, OP_window, &x, 1,
        (Attr[OP_MAX_ATTRS]){{.i = 1}, {.dim = dim_const(bench->dims, size)}, {.i = step}, {.i = dilation}});
}

static Value *make_window(Bench *bench) {
    return window_of(bench, 7, 3, 1, 1);
}
static Value *make_window_apart(Bench *bench) {
    return window_of(bench, 11, 2, 3, 1);
}
static Value *make_window_apart_short(Bench *bench) {
    return window_of(bench, 8, 2, 3, 1);
}
static Value *make_window_strided(Bench *bench) {
    return window_of(bench, 12, 3, 2, 2);
}
static Value *make_window_long(Bench *bench) {
    return window_of(bench, 50, 40, 1, 1);
}
static Value *make_window_long_strided(Bench *bench) {
    return window_of(bench, 90, 40, 3, 2);
}

static Value *make_pad(Bench *bench) {
    Value *in[] = {F64(3, 4), input(bench, DTYPE_F64, 0, NULL)};
    return bench_append_all(bench, OP_pad, in, 2, (Attr[OP_MAX_ATTRS]){DIMS(1, 0), DIMS(2, 3)});
}

static Value *make_concat(Bench *bench) {
    Value *in[] = {F64(3, 1), F64(3, 4), NULL};
    in[2] = in[0];
    return bench_append_all(bench, OP_concat, in, 3, (Attr[OP_MAX_ATTRS]){{.i = 1}});
}

/* Indices that are repeated, and one that is out of range: 5 of 5. */
static Value *make_gather(Bench *bench) {
    Value *in[] = {F64(2, 5, 3), input(bench, DTYPE_I32, 2, (int64_t[]){4, 2})};
    return bench_append_all(bench, OP_gather, in, 2, (Attr[OP_MAX_ATTRS]){{.i = 1}});
}

static Value *reduction(Bench *bench, OpKind op) {
    Value *x = F64(3, 4, 2);
    return bench_append_all(bench, op, &x, 1, (Attr[OP_MAX_ATTRS]){AXES(0, 2), {.i = 0}});
}
static Value *make_sum(Bench *bench) {
    return reduction(bench, OP_sum);
}
static Value *make_sum_kept(Bench *bench) {
    Value *x = F64(3, 4, 2);
    return bench_append_all(bench, OP_sum, &x, 1, (Attr[OP_MAX_ATTRS]){AXES(1), {.i = 1}});
}
static Value *make_prod(Bench *bench) {
    return reduction(bench, OP_prod);
}
static Value *make_reduce_min(Bench *bench) {
    return reduction(bench, OP_reduce_min);
}
static Value *make_reduce_max(Bench *bench) {
    return reduction(bench, OP_reduce_max);
}

static Value *product(Bench *bench, Value *a, Value *b) {
    Value *in[] = {a, b};
    return bench_append_all(bench, OP_matmul, in, 2, (Attr[OP_MAX_ATTRS]){{.dtype = DTYPE_COUNT}});
}
static Value *make_matmul(Bench *bench) {
    Value *a = F64(3, 4), *b = F64(4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_turned(Bench *bench) {
    Value *a = F64(4, 3), *b = F64(5, 4);
    return product(bench, bench_append_all(bench, OP_transpose, &a, 1, (Attr[OP_MAX_ATTRS]){INTS(1, 0)}),
                   bench_append_all(bench, OP_transpose, &b, 1, (Attr[OP_MAX_ATTRS]){INTS(1, 0)}));
}
static Value *make_matmul_shared_right(Bench *bench) {
    Value *a = F64(2, 6, 3, 4), *b = F64(4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_shared_left(Bench *bench) {
    Value *a = F64(3, 4), *b = F64(2, 6, 4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_of_one(Bench *bench) {
    Value *a = F64(2, 1, 3, 4), *b = F64(1, 6, 4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_inner_shared(Bench *bench) {
    Value *a = F64(2, 6, 3, 4), *b = F64(2, 1, 4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_outer_shared(Bench *bench) {
    Value *a = F64(2, 6, 3, 4), *b = F64(6, 4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_repeated_right(Bench *bench) {
    Value *a = F64(2, 6, 3, 4), *b = F64(1, 2, 4, 5);
    return product(bench, a, b);
}
static Value *make_matmul_repeated_left(Bench *bench) {
    Value *a = F64(3, 3, 4), *b = F64(2, 6, 4, 5);
    return product(bench, a, b);
}

typedef struct Case {
    OpKind op;
    const char *name;
    Value *(*make)(Bench *bench);
    int64_t below;
} Case;

static const Case cases[] = {
    {OP_cast, "cast", make_cast, 0},
    {OP_broadcast, "broadcast", make_broadcast, 0},
    {OP_reshape, "reshape", make_reshape, 0},
    {OP_transpose, "transpose", make_transpose, 0},
    {OP_slice, "slice", make_slice, 0},
    {OP_slice, "slice of none", make_slice_of_none, 0},
    {OP_window, "window", make_window, 0},
    {OP_window, "windows apart", make_window_apart, 0},
    {OP_window, "windows apart, the last at the end", make_window_apart_short, 0},
    {OP_window, "window, strided and dilated", make_window_strided, 0},
    {OP_window, "long window", make_window_long, 0},
    {OP_window, "long window, strided and dilated", make_window_long_strided, 0},
    {OP_pad, "pad", make_pad, 0},
    {OP_concat, "concat", make_concat, 0},
    {OP_gather, "gather", make_gather, 6},
    {OP_sum, "sum", make_sum, 0},
    {OP_sum, "sum, kept", make_sum_kept, 0},
    {OP_prod, "prod", make_prod, 0},
    {OP_reduce_min, "reduce_min", make_reduce_min, 0},
    {OP_reduce_max, "reduce_max", make_reduce_max, 0},
    {OP_matmul, "matmul", make_matmul, 0},
    {OP_matmul, "matmul of transposed", make_matmul_turned, 0},
    {OP_matmul, "matmul, shared on the right", make_matmul_shared_right, 0},
    {OP_matmul, "matmul, shared on the left", make_matmul_shared_left, 0},
    {OP_matmul, "matmul, batches of one", make_matmul_of_one, 0},
    {OP_matmul, "matmul, shared within", make_matmul_inner_shared, 0},
    {OP_matmul, "matmul, shared without", make_matmul_outer_shared, 0},
    {OP_matmul, "matmul, repeated on the right", make_matmul_repeated_right, 0},
    {OP_matmul, "matmul, repeated on the left", make_matmul_repeated_left, 0},
};

BENCH_TEST(test_operations) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(bench, cases[i].name);
        Value *y = cases[i].make(bench);
        GradientCheck check = checked(bench, y);
        check.below = cases[i].below;
        gradient_check(&check);
    }
}

/* A row of the table that has a rule has a case, and only what cannot have a gradient has none. */
BENCH_TEST(test_every_row) {
    (void)bench;
    static const OpKind flat[] = {OP_input,  OP_constant, OP_dim, OP_index,  OP_uniform,
                                  OP_normal, OP_any,      OP_all, OP_argmax, OP_argmin};
    for (int kind = OP_SCALAR_COUNT; kind < OP_COUNT; kind++) {
        bool has_case = false, is_flat = false;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            has_case |= cases[i].op == (OpKind)kind;
        for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
            is_flat |= flat[i] == (OpKind)kind;
        if (is_flat == has_case || is_flat != (op_info((OpKind)kind)->gradient == gradient_none))
            fail_msg("'%s' needs a gradient rule and a case here, or is flat", op_info((OpKind)kind)->name);
    }
}

/* ---- choices ---- */

/* The gradients of a row that is reduced, where dy is 1. */
static void expect_row(Bench *bench, OpKind op, const double *row, const double *wanted) {
    start(bench, op_info(op)->name);
    Value *y = bench_append(bench, op, F64(1, 4), NULL, (Attr[OP_MAX_ATTRS]){AXES(1), {.i = 1}});
    graph_add_output(bench->graph, "y", y, NULL, (Span){0});
    const Graph *derived = gradient_of_all(bench->arena, bench->graph, &bench->diags);
    Number x[4], one[] = {{.f = 1}};
    for (int i = 0; i < 4; i++)
        x[i].f = row[i];
    Tensor in[] = {{DTYPE_F64, 2, {1, 4}, 4, x}, {DTYPE_F64, 2, {1, 1}, 1, one}}, out;
    DimBindings none = dim_bindings_new(bench->arena, derived->dims);
    assert_true(reference_run(bench->arena, derived, &none, in, &out, &bench->diags));
    for (int i = 0; i < 4; i++)
        if (out.at[i].f != wanted[i])
            fail_msg("%s: element %d: %g, not %g", op_info(op)->name, i, out.at[i].f, wanted[i]);
}

/* Equal largest elements have equal shares; an element's slope in a product is the product of the others. */
BENCH_TEST(test_rows) {
    expect_row(bench, OP_reduce_max, (double[]){2, 3, 1, 3}, (double[]){0, 0.5, 0, 0.5});
    expect_row(bench, OP_reduce_min, (double[]){-1, 3, -1, -1}, (double[]){1.0 / 3, 0, 1.0 / 3, 1.0 / 3});
    expect_row(bench, OP_prod, (double[]){2, 4, -1, 0.5}, (double[]){-2, -1, 4, -8});
    expect_row(bench, OP_prod, (double[]){2, 0, -1, 0.5}, (double[]){0, -1, 0, 0});
    expect_row(bench, OP_prod, (double[]){2, 0, -1, 0}, (double[]){0, 0, 0, 0});
}

static double slope_of_max(Bench *bench, double x, bool with_constant) {
    start(bench, "max");
    Value *in[] = {input(bench, DTYPE_F64, 0, NULL), NULL};
    in[1] =
        with_constant ? graph_constant_float(bench->graph, 0, (Span){0}) : input(bench, DTYPE_F64, 0, NULL);
    graph_add_output(bench->graph, "y", bench_append_all(bench, OP_max, in, 2, NULL), NULL, (Span){0});
    const Graph *derived = gradient_of_all(bench->arena, bench->graph, &bench->diags);
    Number at[] = {{.f = x}, {.f = with_constant ? 1 : 0}, {.f = 1}};
    Tensor tensors[3], out[2];
    for (size_t k = 0; k < derived->inputs.n; k++)
        tensors[k] = (Tensor){DTYPE_F64, 0, {0}, 1, &at[k]};
    DimBindings none = dim_bindings_new(bench->arena, derived->dims);
    assert_true(reference_run(bench->arena, derived, &none, tensors, out, &bench->diags));
    return out[0].at[0].f;
}

BENCH_TEST(test_max_of_equals) {
    assert_true(slope_of_max(bench, 0, true) == 0);
    assert_true(slope_of_max(bench, 1, true) == 1);
    assert_true(slope_of_max(bench, -1, true) == 0);
    assert_true(slope_of_max(bench, 0, false) == 0.5);
}

/* select(x > 0, op(x), 0) has the slope 0 below, where op itself has none. */
BENCH_TEST(test_what_select_left_out) {
    static const OpKind ops[] = {OP_log,        OP_log2, OP_sqrt,  OP_rsqrt,
                                 OP_reciprocal, OP_exp,  OP_expm1, OP_exp2};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        bool is_exp = ops[i] == OP_exp || ops[i] == OP_expm1 || ops[i] == OP_exp2;
        start(bench, op_info(ops[i])->name);
        Value *x = F64(2), *zero = graph_constant_float(bench->graph, is_exp ? -2000 : 0, (Span){0});
        Value *compared[] = {is_exp ? zero : x, is_exp ? x : zero};
        Value *negated = bench_append_all(bench, OP_neg, &x, 1, NULL);
        Value *taken = bench_append_all(bench, ops[i], is_exp ? &negated : &x, 1, NULL);
        Value *in[] = {bench_append_all(bench, OP_gt, compared, 2, NULL), taken, x};
        Value *y = bench_append_all(bench, OP_select, in, 3, NULL);
        graph_add_output(bench->graph, "y", y, NULL, (Span){0});
        const Graph *derived = gradient_of_all(bench->arena, bench->graph, &bench->diags);
        Number values[] = {{.f = 0}, {.f = is_exp ? -1000 : -3}}, dy[] = {{.f = 1}, {.f = 1}};
        Tensor tensors[] = {{DTYPE_F64, 1, {2}, 2, values}, {DTYPE_F64, 1, {2}, 2, dy}}, out;
        DimBindings none = dim_bindings_new(bench->arena, derived->dims);
        assert_true(reference_run(bench->arena, derived, &none, tensors, &out, &bench->diags));
        for (int k = 0; k < 2; k++)
            if (out.at[k].f != 1)
                fail_msg("%s: element %d has the slope %g", op_info(ops[i])->name, k, out.at[k].f);
    }
}

/* ---- what the graph looks like ---- */

static int count_ops(const Graph *graph, OpKind op) {
    int n = 0;
    for (size_t i = 0; i < graph->values.n; i++)
        n += graph->values.at[i]->op == op;
    return n;
}

/* Products of 16 bits stay products of 16 bits; gradients are f32 until they are stored. */
BENCH_TEST(test_types) {
    static const DType types[][2] = {
        {DTYPE_BF16, DTYPE_BF16}, {DTYPE_F16, DTYPE_F16}, {DTYPE_E4M3, DTYPE_BF16}, {DTYPE_F32, DTYPE_F32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        start(bench, "types");
        Value *a = input(bench, types[i][0], 2, (int64_t[]){3, 4});
        Value *b = input(bench, types[i][0], 2, (int64_t[]){4, 5});
        graph_add_output(bench->graph, "y", product(bench, a, b), NULL, (Span){0});
        const Graph *derived = gradient_of_all(bench->arena, bench->graph, &bench->diags);
        assert_int_equal(count_ops(derived, OP_matmul), 2);
        for (size_t k = 0; k < derived->values.n; k++) {
            const Value *value = derived->values.at[k];
            if (value->op != OP_matmul)
                continue;
            assert_int_equal(value->in[0]->dtype, types[i][1]);
            assert_int_equal(value->in[1]->dtype, types[i][1]);
            assert_int_equal(value->dtype, DTYPE_F32);
        }
        for (size_t k = 0; k < derived->outputs.n; k++)
            assert_int_equal(derived->outputs.at[k].value->dtype, types[i][0]);
    }
}

/* Windows that do not overlap are moved back, and long ones reduced: neither adds tap by tap. */
BENCH_TEST(test_windows_without_sums) {
    Value *(*const makes[])(Bench *) = {make_window_apart, make_window_long, make_window};
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        start(bench, "windows");
        graph_add_output(bench->graph, "y", makes[i](bench), NULL, (Span){0});
        const Graph *derived = gradient_of_all(bench->arena, bench->graph, &bench->diags);
        assert_int_equal(count_ops(derived, OP_add), makes[i] == make_window ? 2 : 0);
        assert_int_equal(count_ops(derived, OP_sum), makes[i] == make_window_long);
    }
}

/* An input that nothing depends on has zeros; what only it needs is not built. */
BENCH_TEST(test_no_gradient) {
    start(bench, "unused");
    Value *in[] = {F64(3), F64(3)};
    Value *y = bench_append_all(bench, OP_floor, &in[1], 1, NULL);
    Value *added[] = {in[0], y};
    graph_add_output(bench->graph, "y", bench_append_all(bench, OP_add, added, 2, NULL), NULL, (Span){0});
    const Graph *derived = gradient_of_all(bench->arena, bench->graph, &bench->diags);
    assert_int_equal(derived->inputs.n, 3);
    assert_int_equal(derived->outputs.n, 2);
    assert_ptr_equal(derived->outputs.at[0].value,
                     derived->inputs.at[2]); /* a single contribution is no sum */
    assert_int_equal(derived->outputs.at[1].value->op, OP_broadcast);
    assert_int_equal(count_ops(derived, OP_floor), 0);
    assert_string_equal(derived->outputs.at[1].name, "dx1");
    assert_string_equal(derived->inputs.at[2]->name, "dy");
}

/* Names: d<name>, d_<name> where an input has that, and else a diagnostic. */
BENCH_TEST(test_names) {
    for (int taken = 0; taken < 3; taken++) {
        start(bench, "names");
        Value *x = F64(3);
        static const char *const others[] = {"dy", "d_y"};
        for (int i = 0; i < taken; i++)
            graph_add_input(bench->graph, others[i], DTYPE_F64, 0, NULL, NULL, (Span){0});
        graph_add_output(bench->graph, "y", bench_append_all(bench, OP_exp, &x, 1, NULL), NULL, (Span){0});
        GradientRequest request = {.name = "derived", .of = (int[]){0}, .n = 1, .max_values = 100};
        const Graph *derived = gradient_build(bench->arena, bench->graph, &request, &bench->diags);
        assert_int_equal(derived == NULL, taken == 2);
        if (derived)
            assert_string_equal(derived->inputs.at[1 + taken]->name, taken ? "d_y" : "dy");
    }
    assert_int_equal(bench->diags.list.at[0].id, DIAG_REDEFINED);
}

/* More operations than allowed are refused, as a gather from large tables is. */
BENCH_TEST(test_refused) {
    start(bench, "long");
    Value *x = F64(3);
    for (int i = 0; i < 60; i++)
        x = bench_append_all(bench, OP_sin, &x, 1, NULL);
    graph_add_output(bench->graph, "y", x, NULL, (Span){0});
    GradientRequest request = {.name = "derived", .of = (int[]){0}, .n = 1, .max_values = 100};
    assert_null(gradient_build(bench->arena, bench->graph, &request, &bench->diags));
    assert_int_equal(bench->diags.list.at[0].id, DIAG_LIMIT);
    start(bench, "table");
    Value *in[] = {F64(50000, 3), input(bench, DTYPE_I32, 1, (int64_t[]){100})};
    graph_add_output(bench->graph, "y",
                     bench_append_all(bench, OP_gather, in, 2, (Attr[OP_MAX_ATTRS]){{.i = 0}}), NULL,
                     (Span){0});
    bench->diags = (Diags){.arena = bench->arena};
    assert_null(gradient_build(bench->arena, bench->graph, &request, &bench->diags));
    assert_int_equal(bench->diags.list.at[0].id, DIAG_UNSUPPORTED);
    assert_int_equal(diags_fault(&bench->diags), FAULT_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_scalars),
        BENCH_ENTRY(test_whole_powers),
        BENCH_ENTRY(test_operations),
        BENCH_ENTRY(test_every_row),
        BENCH_ENTRY(test_rows),
        BENCH_ENTRY(test_max_of_equals),
        BENCH_ENTRY(test_what_select_left_out),
        BENCH_ENTRY(test_types),
        BENCH_ENTRY(test_windows_without_sums),
        BENCH_ENTRY(test_no_gradient),
        BENCH_ENTRY(test_names),
        BENCH_ENTRY(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
