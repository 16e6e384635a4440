/* Windows as operands of convolutions, against the reference: an input whose elements are numbered is moved
 * by it, and the windows that are recognized must name the same elements, and zeros where the border is. */
#include "support.h"

#include "ir/reference.h"
#include "ir/windows.h"

#define CONST(value) dim_const(bench->dims, value)
#define SYMBOL(name) dim_symbol(bench->dims, name)
#define ATTRS(...) ((Attr[OP_MAX_ATTRS]){__VA_ARGS__})

/* Windows along the axes between the first and the last. */
typedef struct Steps {
    int64_t taps[WINDOWS_AXES_MAX], stride[WINDOWS_AXES_MAX], pad[WINDOWS_AXES_MAX],
        dilation[WINDOWS_AXES_MAX];
} Steps;

static Value *reshape(Bench *bench, Value *x, int rank, const Dim **dims) {
    return bench_append(bench, OP_reshape, x, NULL, ATTRS({.dims = dims, .n_dims = rank}));
}

static Value *transpose(Bench *bench, Value *x, int *perm) {
    return bench_append(bench, OP_transpose, x, NULL, ATTRS({.ints = perm, .n_ints = x->rank}));
}

static Value *input(Bench *bench, DType dtype, int rank, const Dim *const *dims) {
    return graph_add_input(bench->graph, "x", dtype, rank, dims, NULL, (Span){0});
}

static Value *input_of(Bench *bench, DType dtype, int rank, const int64_t *sizes) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i] = CONST(sizes[i]);
    return input(bench, dtype, rank, dims);
}

static Value *pad(Bench *bench, Value *x, const int64_t *by, double border) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        dims[i] = CONST(i > 0 && i + 1 < x->rank ? by[i - 1] : 0);
    Value *number =
        bench_append(bench, OP_constant, NULL, NULL, ATTRS({.number.f = border}, {.dtype = x->dtype}));
    return bench_append(bench, OP_pad, x, number,
                        ATTRS({.dims = dims, .n_dims = x->rank}, {.dims = dims, .n_dims = x->rank}));
}

/* [N, P, Q, C, R, S] of [N, H, W, C]; an axis without a pad, or without taps, says 0 or 1. */
static Value *windows_in(Bench *bench, Value *x, const Steps *steps, double border) {
    int n = x->rank - 2;
    Value *value = x;
    for (int i = 0; i < n; i++)
        if (steps->pad[i] != 0) {
            value = pad(bench, x, steps->pad, border);
            break;
        }
    for (int i = 0; i < n; i++)
        value = bench_append(bench, OP_window, value, NULL,
                             ATTRS({.i = i + 1}, {.dim = CONST(steps->taps[i])}, {.i = steps->stride[i]},
                                   {.i = steps->dilation[i]}));
    return value;
}

static const Dim *product(Bench *bench, const Value *x, int from, int to) {
    const Dim *count = CONST(1);
    for (int i = from; i < to; i++)
        count = dim_mul(bench->dims, count, x->dims[i]);
    return count;
}

/* [N P Q, R S C] of [N, P, Q, C, R, S]. */
static Value *rows(Bench *bench, Value *t) {
    int n = t->rank / 2;
    const Dim *parts[] = {product(bench, t, 0, n), t->dims[n], product(bench, t, n + 1, t->rank)};
    const Dim *joined[] = {parts[0], dim_mul(bench->dims, parts[1], parts[2])};
    Value *turned = transpose(bench, reshape(bench, t, 3, parts), (int[]){0, 2, 1});
    return reshape(bench, turned, 2, joined);
}

/* The same of each group of channels, [G, N P Q, R S C]. */
static Value *group_rows(Bench *bench, Value *t, int64_t groups) {
    int n = t->rank / 2;
    const Dim *within = dim_div(bench->dims, t->dims[n], CONST(groups));
    const Dim *parts[] = {product(bench, t, 0, n), CONST(groups), within, product(bench, t, n + 1, t->rank)};
    const Dim *joined[] = {parts[1], parts[0], dim_mul(bench->dims, parts[2], parts[3])};
    Value *turned = transpose(bench, reshape(bench, t, 4, parts), (int[]){1, 0, 3, 2});
    return reshape(bench, turned, 3, joined);
}

static Value *flipped(Bench *bench, Value *t) {
    const Dim *start[RANK_MAX], *limit[RANK_MAX];
    int step[RANK_MAX];
    for (int i = 0; i < t->rank; i++) {
        bool is_tap = i > t->rank / 2;
        start[i] = is_tap ? dim_sub(bench->dims, t->dims[i], CONST(1)) : CONST(0);
        limit[i] = is_tap ? CONST(-1) : t->dims[i];
        step[i] = is_tap ? -1 : 1;
    }
    return bench_append(bench, OP_slice, t, NULL,
                        ATTRS({.dims = start, .n_dims = t->rank}, {.dims = limit, .n_dims = t->rank},
                              {.ints = step, .n_ints = t->rank}));
}

static bool is_input(void *context, const Value *value) {
    (void)context;
    return value->op == OP_input;
}

static bool found(Bench *bench, Value *value, Windows *windows) {
    return windows_of(bench->graph, value, value->rank - 2, value->rank - 1, is_input, NULL, windows);
}

static int64_t evaluated(const Dim *dim, const DimBindings *bindings) {
    int64_t value;
    assert_true(dim_eval(dim, bindings, &value));
    return value;
}

/* Where along the base each axis of a window's element is; false where that is in the border. */
static bool coordinates_of(const Windows *windows, const DimBindings *bindings, int rank,
                           const int64_t *coords, int64_t *at) {
    int64_t place = coords[windows->places_axis], within = coords[windows->within_axis],
            channels = evaluated(windows->channels, bindings), tap = within / channels;
    bool is_inside = true;
    memset(at, 0, RANK_MAX * sizeof *at);
    at[windows->channels_axis] = within % channels + evaluated(windows->first_channel, bindings);
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        int64_t places = evaluated(axis->places, bindings), step = axis->tap_step,
                t = tap / axis->taps_inner % axis->taps,
                extent = evaluated(windows->base->dims[axis->base_axis], bindings),
                to = axis->low + place % places * axis->step +
                     (step < 0 ? (axis->taps - 1 - t) * -step : t * step);
        assert_int_equal(axis->low + (places - 1) * axis->step, extent - 1 + axis->high);
        at[axis->base_axis] = to;
        is_inside = is_inside && to >= 0 && to < extent;
        place /= places;
    }
    if (windows->images_axis >= 0)
        at[windows->images_axis] = place;
    else
        assert_int_equal(place, 0);
    for (int i = 0; i < rank; i++)
        if (windows->batch[i].base_axis >= 0)
            at[windows->batch[i].base_axis] += coords[i] * evaluated(windows->batch[i].step, bindings);
    return is_inside;
}

/* Whether what the windows name is what the reference has at each place of the value. */
static void check(Bench *bench, Value *value, const Windows *windows, const DimBindings *bindings) {
    Value *x = bench->graph->inputs.at[0];
    assert_ptr_equal(windows->base, x);
    int64_t dims[RANK_MAX], coords[RANK_MAX], at[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        dims[i] = evaluated(x->dims[i], bindings);
    Tensor numbers, moved;
    assert_true(tensor_new(bench->arena, x->dtype, x->rank, dims, &numbers));
    for (int64_t e = 0; e < numbers.count; e++)
        numbers.at[e].f = (double)(e + 1);
    assert_true(
        reference_value(bench->arena, bench->graph, bindings, &numbers, value, &moved, &bench->diags));
    for (int64_t e = 0; e < moved.count; e++) {
        int64_t rest = e, element = 0;
        for (int i = moved.rank - 1; i >= 0; i--) {
            coords[i] = rest % moved.dims[i];
            rest /= moved.dims[i];
        }
        bool is_inside = coordinates_of(windows, bindings, moved.rank, coords, at);
        for (int i = 0; i < x->rank; i++)
            element = element * dims[i] + at[i];
        assert_true(moved.at[e].f == (is_inside ? (double)(element + 1) : 0));
    }
}

static void accept(Bench *bench, Value *value, Windows *windows) {
    DimBindings none = {0};
    assert_true(found(bench, value, windows));
    check(bench, value, windows, &none);
}

static void axis_is(const WindowsAxis *axis, int base_axis, int64_t low, int64_t high, int64_t step,
                    int64_t taps, int64_t tap_step, int64_t taps_inner) {
    assert_int_equal(axis->base_axis, base_axis);
    assert_int_equal(axis->low, low);
    assert_int_equal(axis->high, high);
    assert_int_equal(axis->step, step);
    assert_int_equal(axis->taps, taps);
    assert_int_equal(axis->tap_step, tap_step);
    assert_int_equal(axis->taps_inner, taps_inner);
}

BENCH_TEST(test_two_axes) {
    Steps steps = {{3, 2}, {2, 1}, {1, 2}, {1, 2}};
    Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){2, 9, 7, 16});
    Windows windows;
    accept(bench, rows(bench, windows_in(bench, x, &steps, 0)), &windows);
    assert_int_equal(windows.n, 2);
    assert_true(windows.places_axis == 0 && windows.within_axis == 1);
    assert_true(windows.images_axis == 0 && windows.channels_axis == 3 && !windows.is_of_some);
    assert_true(dim_is(windows.channels, 16) && dim_is(windows.first_channel, 0));
    axis_is(&windows.axis[0], 2, -2, 0, 1, 2, 2, 1);
    axis_is(&windows.axis[1], 1, -1, -1, 2, 3, 1, 2);
    assert_true(dim_is(windows.axis[0].places, 9) && dim_is(windows.axis[1].places, 5));
}

/* A step that leaves elements behind the last window; one image; windows of one element. */
BENCH_TEST(test_steps_and_single_elements) {
    static const Steps cases[] = {{{3, 3}, {2, 2}, {0, 0}, {2, 2}},
                                  {{1, 1}, {2, 3}, {0, 0}, {1, 1}},
                                  {{1, 3}, {1, 1}, {0, 1}, {1, 1}},
                                  {{2, 1}, {8, 1}, {0, 3}, {5, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t images = 1; images <= 2; images++) {
            Windows windows;
            bench->graph = graph_new(bench->arena, "g");
            bench->dims = bench->graph->dims;
            Value *x = input_of(bench, DTYPE_F16, 4, (int64_t[]){images, 10, 12, 8});
            accept(bench, rows(bench, windows_in(bench, x, &cases[i], 0)), &windows);
            axis_is(&windows.axis[0], 2, -cases[i].pad[1], windows.axis[0].high, cases[i].stride[1],
                    cases[i].taps[1], windows.axis[0].tap_step, 1);
        }
}

BENCH_TEST(test_one_axis) {
    Steps steps = {{4}, {3}, {5}, {2}};
    Value *x = input_of(bench, DTYPE_F32, 3, (int64_t[]){3, 20, 4});
    Windows windows;
    accept(bench, rows(bench, windows_in(bench, x, &steps, 0)), &windows);
    assert_int_equal(windows.n, 1);
    axis_is(&windows.axis[0], 1, -5, -3, 3, 4, 2, 1);
    assert_true(dim_is(windows.axis[0].places, 8));
}

BENCH_TEST(test_three_axes) {
    Steps steps = {{2, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}};
    Value *x = input_of(bench, DTYPE_BF16, 5, (int64_t[]){2, 4, 5, 6, 8});
    Windows windows;
    accept(bench, rows(bench, windows_in(bench, x, &steps, 0)), &windows);
    assert_int_equal(windows.n, 3);
    axis_is(&windows.axis[0], 3, -1, -3, 1, 3, 2, 1);
    axis_is(&windows.axis[1], 2, -1, -1, 2, 3, 1, 3);
    axis_is(&windows.axis[2], 1, 0, -1, 1, 2, 1, 9);
}

BENCH_TEST(test_groups_are_a_batch) {
    Steps steps = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){2, 5, 6, 32});
    Windows windows;
    accept(bench, group_rows(bench, windows_in(bench, x, &steps, 0), 4), &windows);
    assert_int_equal(windows.batch[0].base_axis, 3);
    assert_true(dim_is(windows.batch[0].step, 8) && dim_is(windows.channels, 8));
    assert_true(windows.places_axis == 1 && windows.within_axis == 2);
    assert_true(windows.batch[1].base_axis == -1 && windows.batch[2].base_axis == -1);
    /* groups of 8 bytes are no steps */
    assert_false(found(bench, group_rows(bench, windows_in(bench, x, &steps, 0), 8), &windows));
}

BENCH_TEST(test_some_of_the_channels) {
    const Dim *start[] = {CONST(0), CONST(0), CONST(0), CONST(8)},
              *limit[] = {CONST(2), CONST(5), CONST(6), CONST(24)};
    Steps steps = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    for (int64_t from = 4; from <= 8; from += 4) {
        bench->graph = graph_new(bench->arena, "g");
        bench->graph->dims = bench->dims;
        Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){2, 5, 6, 32});
        start[3] = CONST(from);
        Value *t = windows_in(bench, x, &steps, 0);
        const Dim *part_start[] = {start[0], start[1], start[2], start[3], CONST(0), CONST(0)},
                  *part_limit[] = {limit[0], limit[1], limit[2], limit[3], CONST(3), CONST(3)};
        Value *part = bench_append(bench, OP_slice, t, NULL,
                                   ATTRS({.dims = part_start, .n_dims = 6}, {.dims = part_limit, .n_dims = 6},
                                         {.ints = (int[]){1, 1, 1, 1, 1, 1}, .n_ints = 6}));
        Windows windows;
        if (from % 8 == 0) {
            accept(bench, rows(bench, part), &windows);
            assert_true(dim_is(windows.first_channel, 8) && dim_is(windows.channels, 16));
        } else {
            assert_false(found(bench, rows(bench, part), &windows));
        }
    }
}

BENCH_TEST(test_flipped_taps) {
    Steps steps = {{3, 2}, {1, 2}, {2, 1}, {2, 1}};
    Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){2, 6, 5, 8});
    Windows windows;
    accept(bench, rows(bench, flipped(bench, windows_in(bench, x, &steps, 0))), &windows);
    axis_is(&windows.axis[0], 2, -1, -1, 2, 2, -1, 1);
    axis_is(&windows.axis[1], 1, -2, -2, 1, 3, -2, 2);
}

/* As the gradient of weights reads them: places are summed over. */
BENCH_TEST(test_places_along_k) {
    Steps steps = {{3, 3}, {1, 2}, {1, 1}, {1, 1}};
    Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){2, 6, 7, 8});
    Value *value = rows(bench, windows_in(bench, x, &steps, 0));
    DimBindings none = {0};
    Windows windows, turned;
    assert_true(windows_of(bench->graph, value, 1, 0, is_input, NULL, &windows));
    assert_true(windows.places_axis == 0 && windows.within_axis == 1);
    check(bench, value, &windows, &none);
    Value *other = transpose(bench, value, (int[]){1, 0});
    accept(bench, other, &turned);
    assert_true(turned.places_axis == 1 && turned.within_axis == 0);
}

/* A batch of parts of the images, each with places of its own. */
BENCH_TEST(test_some_of_the_images) {
    Steps steps = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){6, 4, 5, 8});
    Value *all = rows(bench, windows_in(bench, x, &steps, 0));
    const Dim *parts[] = {CONST(3), CONST(2 * 20), CONST(72)}, *one[] = {CONST(6), CONST(20), CONST(72)},
              *cut[] = {CONST(12), CONST(10), CONST(72)};
    Windows windows;
    accept(bench, reshape(bench, all, 3, parts), &windows);
    assert_true(windows.is_of_some && windows.images_axis == 0 && windows.batch[0].base_axis == 0);
    assert_true(dim_is(windows.batch[0].step, 2));
    accept(bench, reshape(bench, all, 3, one), &windows); /* an image each */
    assert_true(!windows.is_of_some && windows.images_axis == 0 && dim_is(windows.batch[0].step, 1));
    assert_false(found(bench, reshape(bench, all, 3, cut), &windows)); /* halves of images */
}

BENCH_TEST(test_symbols) {
    const Dim *dims[] = {SYMBOL("N"), SYMBOL("H"), SYMBOL("W"), CONST(8)};
    Steps steps = {{3, 3}, {1, 1}, {1, 0}, {1, 1}}, apart = {{3, 3}, {2, 2}, {1, 1}, {1, 1}};
    for (int i = 0; i < 3; i++)
        assert_true(dim_constrain(bench->dims, dims[i], DIM_GE, CONST(3), (Span){0}, &bench->diags));
    Value *x = input(bench, DTYPE_BF16, 4, dims);
    Value *value = rows(bench, windows_in(bench, x, &steps, 0));
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    Windows windows;
    assert_true(found(bench, value, &windows));
    axis_is(&windows.axis[0], 2, 0, -2, 1, 3, 1, 1);
    axis_is(&windows.axis[1], 1, -1, -1, 1, 3, 1, 3);
    for (int i = 0; i < 3; i++) {
        bindings.value[i] = (int64_t[]){3, 5, 4}[i];
        bindings.known[i] = true;
    }
    check(bench, value, &windows, &bindings);
    /* where the last window of every other one begins depends on the size */
    assert_false(found(bench, rows(bench, windows_in(bench, x, &apart, 0)), &windows));
}

/* Channels are innermost in memory, whatever the order of the axes. */
BENCH_TEST(test_order_in_memory) {
    const Dim *dims[] = {CONST(2), CONST(8), CONST(5), CONST(6)},
              *strides[] = {CONST(240), CONST(1), CONST(48), CONST(8)},
              *narrow[] = {CONST(5 * 52), CONST(1), CONST(52), CONST(8)};
    const Dim *const *orders[] = {NULL, strides, narrow};
    Steps steps = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    for (int i = 0; i < 3; i++) {
        Windows windows;
        bench->graph = graph_new(bench->arena, "g");
        bench->graph->dims = bench->dims;
        Value *x = graph_add_input(bench->graph, "x", DTYPE_BF16, 4, dims, orders[i], (Span){0});
        Value *last = transpose(bench, x, (int[]){0, 2, 3, 1});
        Value *value = rows(bench, windows_in(bench, last, &steps, 0));
        if (i == 1) {
            accept(bench, value, &windows);
            assert_true(windows.channels_axis == 1 && windows.axis[0].base_axis == 3);
        } else { /* channels lie apart, or rows of pixels in steps that are none */
            assert_false(found(bench, value, &windows));
        }
    }
}

BENCH_TEST(test_refused) {
    static const struct {
        DType dtype;
        int64_t channels;
        Steps steps;
        double border;
        bool is_found;
    } cases[] = {
        {DTYPE_BF16, 8, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 0, true},
        {DTYPE_BF16, 3, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 0, false}, /* pixels of 6 bytes */
        {DTYPE_BF16, 4, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 0, false},
        {DTYPE_F32, 4, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 0, true},
        {DTYPE_BF16, 8, {{3, 3}, {8, 1}, {1, 1}, {1, 1}}, 0, true},
        {DTYPE_BF16, 8, {{3, 3}, {9, 1}, {1, 1}, {1, 1}}, 0, false},
        {DTYPE_BF16, 8, {{3, 3}, {1, 1}, {0, 128}, {1, 1}}, 0, true},
        {DTYPE_BF16, 8, {{3, 3}, {1, 1}, {0, 129}, {1, 1}}, 0, false},
        {DTYPE_BF16, 8, {{3, 3}, {1, 1}, {200, 1}, {1, 1}}, 0, false},
        {DTYPE_BF16, 8, {{2, 3}, {1, 1}, {127, 1}, {255, 1}}, 0, true},
        {DTYPE_BF16, 8, {{2, 3}, {1, 1}, {128, 1}, {256, 1}}, 0, false}, /* no tap so far away */
        {DTYPE_BF16, 8, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench->graph = graph_new(bench->arena, "g");
        bench->dims = bench->graph->dims;
        Windows windows;
        Value *x = input_of(bench, cases[i].dtype, 4, (int64_t[]){1, 11, 10, cases[i].channels});
        Value *value = rows(bench, windows_in(bench, x, &cases[i].steps, cases[i].border));
        if (found(bench, value, &windows) != cases[i].is_found)
            fail_msg("case %zu", i);
    }
}

/* Corners lie further away where there are fewer axes. */
BENCH_TEST(test_corners_of_one_axis) {
    Steps steps = {{3}, {1}, {200}, {1}};
    Value *x = input_of(bench, DTYPE_BF16, 3, (int64_t[]){2, 7, 8});
    Windows windows;
    accept(bench, rows(bench, windows_in(bench, x, &steps, 0)), &windows);
    axis_is(&windows.axis[0], 1, -200, 198, 1, 3, 1, 1);
}

/* What a slice leaves out is not zero, as the border beside it is. */
BENCH_TEST(test_slice_below_a_pad) {
    Steps steps = {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, bare = {{3, 3}, {1, 1}, {0, 0}, {1, 1}};
    Value *x = input_of(bench, DTYPE_BF16, 4, (int64_t[]){1, 8, 8, 8});
    const Dim *start[] = {CONST(0), CONST(2), CONST(0), CONST(0)},
              *limit[] = {CONST(1), CONST(8), CONST(8), CONST(8)};
    Value *part = bench_append(bench, OP_slice, x, NULL,
                               ATTRS({.dims = start, .n_dims = 4}, {.dims = limit, .n_dims = 4},
                                     {.ints = (int[]){1, 1, 1, 1}, .n_ints = 4}));
    Windows windows;
    assert_false(found(bench, rows(bench, windows_in(bench, part, &steps, 0)), &windows));
    accept(bench, rows(bench, windows_in(bench, part, &bare, 0)), &windows);
    axis_is(&windows.axis[1], 1, 2, -2, 1, 3, 1, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_two_axes),
        BENCH_ENTRY(test_steps_and_single_elements),
        BENCH_ENTRY(test_one_axis),
        BENCH_ENTRY(test_three_axes),
        BENCH_ENTRY(test_groups_are_a_batch),
        BENCH_ENTRY(test_some_of_the_channels),
        BENCH_ENTRY(test_flipped_taps),
        BENCH_ENTRY(test_places_along_k),
        BENCH_ENTRY(test_some_of_the_images),
        BENCH_ENTRY(test_symbols),
        BENCH_ENTRY(test_order_in_memory),
        BENCH_ENTRY(test_refused),
        BENCH_ENTRY(test_corners_of_one_axis),
        BENCH_ENTRY(test_slice_below_a_pad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
