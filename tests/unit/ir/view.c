/* Views against the reference: an input whose elements are their own places in memory is moved by the
 * reference, and the view of the result must name the same places. */
#include "support.h"

#include "ir/reference.h"
#include "ir/view.h"

#define CONST(value) dim_const(bench->dims, value)
#define SYMBOL(name) dim_symbol(bench->dims, name)

/* The input of a test: rank 3 with memory order that the caller chooses. */
static Value *places_input(Bench *bench, const Dim *const *dims, const Dim *const *strides) {
    Value *x = graph_add_input(bench->graph, "x", DTYPE_I32, 3, dims, strides, (Span){0});
    return x;
}

static void places_check(Bench *bench, Value *value, const DimBindings *bindings, Value *want_base) {
    Value *x = bench->graph->inputs.at[0];
    View view = view_of(bench->graph, value, NULL, NULL);
    assert_ptr_equal(view.base, want_base);
    const Dim *own[RANK_MAX];
    int64_t dims[RANK_MAX], strides[RANK_MAX], offset;
    view_base_strides(bench->graph, x, own);
    for (int i = 0; i < x->rank; i++) {
        assert_true(dim_eval(x->dims[i], bindings, &dims[i]));
        assert_true(dim_eval(own[i], bindings, &strides[i]));
    }
    Tensor places, moved;
    assert_true(tensor_new(bench->arena, DTYPE_I32, x->rank, dims, &places));
    for (int64_t e = 0; e < places.count; e++) {
        int64_t rest = e, place = 0;
        for (int i = x->rank - 1; i >= 0; i--) {
            place += rest % dims[i] * strides[i];
            rest /= dims[i];
        }
        places.at[e].i = place;
    }
    assert_true(reference_value(bench->arena, bench->graph, bindings, &places, value, &moved, &bench->diags));
    assert_true(dim_eval(view.offset, bindings, &offset));
    for (int i = 0; i < value->rank; i++)
        assert_true(dim_eval(view.strides[i], bindings, &strides[i]));
    for (int64_t e = 0; e < moved.count; e++) {
        int64_t rest = e, place = offset;
        for (int i = moved.rank - 1; i >= 0; i--) {
            place += rest % moved.dims[i] * strides[i];
            rest /= moved.dims[i];
        }
        assert_int_equal(place, moved.at[e].i);
    }
}

static Value *move(Bench *bench, OpKind op, Value *x, const Attr *attrs) {
    Value *value = graph_append(bench->graph, op, &x, 1, attrs, (Span){0}, &bench->diags);
    if (!value)
        fail_msg("%s", bench->diags.list.at[0].message);
    return value;
}

static Value *move_random(Bench *bench, Value *x, uint64_t *seed, const Dim *m) {
    const Dim *a[RANK_MAX], *b[RANK_MAX];
    int ints[RANK_MAX];
    Attr attrs[OP_MAX_ATTRS] = {
        {.dims = a, .n_dims = x->rank}, {.dims = b, .n_dims = x->rank}, {.ints = ints, .n_ints = x->rank}};
    switch (draw_below(seed, 6)) {
    case 0: { /* a permutation */
        for (int i = 0; i < x->rank; i++) {
            int at = (int)draw_below(seed, i + 1);
            ints[i] = ints[at];
            ints[at] = i;
        }
        Attr perm[OP_MAX_ATTRS] = {{.ints = ints, .n_ints = x->rank}};
        return move(bench, OP_transpose, x, perm);
    }
    case 1: /* a slice of constant dims, whole symbolic ones */
        for (int i = 0; i < x->rank; i++) {
            int64_t n = x->dims[i]->value;
            bool backward = draw(seed) & 1, whole = !dim_is_const(x->dims[i]) || n < 2;
            ints[i] = whole ? 1 : (int)(1 + draw_below(seed, 2)) * (backward ? -1 : 1);
            a[i] = whole ? CONST(0)
                         : CONST(backward ? n - 1 - draw_below(seed, n / 2) : draw_below(seed, n / 2));
            b[i] = whole ? x->dims[i]
                         : CONST(backward ? draw_below(seed, n / 2) - 1 : n - draw_below(seed, n / 2));
        }
        return move(bench, OP_slice, x, attrs);
    case 2: /* a new leading axis, repeated */
        if (x->rank == 5)
            return x;
        a[0] = CONST(2);
        memcpy(a + 1, x->dims, (size_t)x->rank * sizeof *a);
        attrs[0].n_dims = x->rank + 1;
        return move(bench, OP_broadcast, x, attrs);
    case 3: { /* split the symbolic axis, or flatten all */
        int n = 0;
        if (draw(seed) & 1) {
            a[0] = value_count(bench->graph, x);
            attrs[0].n_dims = 1;
            return move(bench, OP_reshape, x, attrs);
        }
        for (int i = 0; i < x->rank && n < 6; i++)
            if (x->dims[i] == m) {
                a[n++] = dim_div(bench->dims, m, CONST(4));
                a[n++] = CONST(4);
            } else {
                a[n++] = x->dims[i];
            }
        attrs[0].n_dims = n;
        return move(bench, OP_reshape, x, attrs);
    }
    case 4: { /* windows over an axis of constant size */
        int axis = (int)draw_below(seed, x->rank);
        if (x->rank >= 5 || !dim_is_const(x->dims[axis]))
            return x;
        int64_t size = 1 + draw_below(seed, x->dims[axis]->value < 4 ? x->dims[axis]->value : 4);
        int64_t apart = size == 1 ? 3 : 1 + draw_below(seed, (x->dims[axis]->value - 1) / (size - 1));
        Attr window[OP_MAX_ATTRS] = {
            {.i = axis}, {.dim = CONST(size)}, {.i = 1 + draw_below(seed, 3)}, {.i = apart}};
        return move(bench, OP_window, x, window);
    }
    default: { /* exact widening changes no place */
        Attr to[OP_MAX_ATTRS] = {{.dtype = DTYPE_I64}};
        return move(bench, OP_cast, x, to);
    }
    }
}

BENCH_TEST(test_random_chains) {
    const Dim *m = SYMBOL("M");
    assert_true(dim_constrain(bench->dims, dim_mod(bench->dims, m, CONST(4)), DIM_EQ, CONST(0), (Span){0},
                              &bench->diags));
    const Dim *dims[] = {CONST(6), m, CONST(10)};
    const Dim *padded[] = {dim_mul(bench->dims, m, CONST(12)), CONST(12), CONST(1)};
    const Dim *turned[] = {CONST(1), CONST(6), dim_mul(bench->dims, m, CONST(6))};
    const Dim *const *layouts[] = {NULL, padded, turned};
    DimBindings bindings = dim_bindings_new(bench->arena, bench->dims);
    bindings.value[0] = 8;
    bindings.known[0] = true;
    uint64_t seed = 21;
    int views = 0;
    for (int round = 0; round < 600; round++) {
        Graph *graph = graph_new(bench->arena, "g");
        graph->dims = bench->dims;
        bench->graph = graph;
        Value *x = places_input(bench, dims, layouts[round % 3]), *value = x;
        for (int step = 0; step < 1 + round % 5; step++) {
            Value *next = move_random(bench, value, &seed, m);
            View view = view_of(bench->graph, next, NULL, NULL);
            if (view.base != x) /* a reshape across a gap: computed, so its own base, packed */
                break;
            value = next;
        }
        views += value != x;
        places_check(bench, value, &bindings, x);
    }
    assert_true(views > 400);
}

BENCH_TEST(test_windows) {
    const Dim *n = SYMBOL("N");
    assert_true(dim_constrain(bench->dims, n, DIM_GE, CONST(1), (Span){0}, &bench->diags));
    const Dim *dims[] = {CONST(2), CONST(20), n}, *zero = CONST(0);
    Value *x = places_input(bench, dims, NULL);
    Value *t = move(bench, OP_transpose, x, (Attr[OP_MAX_ATTRS]){{.ints = (int[]){0, 2, 1}, .n_ints = 3}});
    const Dim *start[] = {zero, zero, CONST(18)}, *limit[] = {CONST(2), n, CONST(1)};
    Attr slice[OP_MAX_ATTRS] = {
        {.dims = start, .n_dims = 3}, {.dims = limit, .n_dims = 3}, {.ints = (int[]){1, 1, -2}, .n_ints = 3}};
    Value *s = move(bench, OP_slice, t, slice); /* [2, N, 9], from 18 down by 2 */
    Attr window[OP_MAX_ATTRS] = {{.i = 2}, {.dim = CONST(3)}, {.i = 2}, {.i = 3}};
    Value *w = move(bench, OP_window, s, window); /* [2, N, 2, 3] */
    assert_int_equal(w->rank, 4);
    assert_true(dim_is(w->dims[2], 2) && dim_is(w->dims[3], 3));
    View view = view_of(bench->graph, w, NULL, NULL);
    assert_ptr_equal(view.base, x);
    assert_ptr_equal(view.offset, dim_mul(bench->dims, n, CONST(18)));
    assert_ptr_equal(view.strides[0], dim_mul(bench->dims, n, CONST(20)));
    assert_true(dim_is(view.strides[1], 1));
    assert_ptr_equal(view.strides[2], dim_mul(bench->dims, n, CONST(-4)));
    assert_ptr_equal(view.strides[3], dim_mul(bench->dims, n, CONST(-6)));
    /* A window of windows, and a part of each: still strides. */
    Attr again[OP_MAX_ATTRS] = {{.i = 3}, {.dim = CONST(2)}, {.i = 1}, {.i = 2}};
    view = view_of(bench->graph, move(bench, OP_window, w, again), NULL, NULL);
    assert_ptr_equal(view.base, x);
    assert_ptr_equal(view.strides[3], dim_mul(bench->dims, n, CONST(-6)));
    assert_ptr_equal(view.strides[4], dim_mul(bench->dims, n, CONST(-12)));
    /* Places and what is within them are no one axis, unless windows tile the axis. */
    const Dim *flat[] = {CONST(2), n, CONST(6)};
    Attr joined[OP_MAX_ATTRS] = {{.dims = flat, .n_dims = 3}};
    Value *apart = move(bench, OP_reshape, w, joined);
    assert_ptr_equal(view_of(bench->graph, apart, NULL, NULL).base, apart);
    Attr tiling[OP_MAX_ATTRS] = {{.i = 2}, {.dim = CONST(3)}, {.i = 3}, {.i = 1}};
    const Dim *whole[] = {CONST(2), n, CONST(9)};
    Attr back[OP_MAX_ATTRS] = {{.dims = whole, .n_dims = 3}};
    view =
        view_of(bench->graph, move(bench, OP_reshape, move(bench, OP_window, s, tiling), back), NULL, NULL);
    assert_ptr_equal(view.base, x);
    assert_ptr_equal(view.strides[2], dim_mul(bench->dims, n, CONST(-2)));
}

BENCH_TEST(test_what_strides_cannot_say) {
    const Dim *dims[] = {CONST(4), CONST(6), CONST(10)}, *flat[] = {CONST(4 * 60)},
              *wide[] = {CONST(4), CONST(60)};
    Value *x = places_input(bench, dims, NULL);
    Value *t = move(bench, OP_transpose, x, (Attr[3]){{.ints = (int[]){1, 0, 2}, .n_ints = 3}});
    Value *r = move(bench, OP_reshape, t, (Attr[3]){{.dims = flat, .n_dims = 1}});
    View view = view_of(bench->graph, r, NULL, NULL);
    assert_ptr_equal(view.base, r);
    assert_true(dim_is(view.strides[0], 1) && dim_is(view.offset, 0));
    DimBindings none = {0};
    places_check(bench, move(bench, OP_reshape, x, (Attr[3]){{.dims = wide, .n_dims = 2}}), &none, x);
    /* A narrowing cast computes. */
    Value *narrow = move(bench, OP_cast, x, (Attr[3]){{.dtype = DTYPE_I8}});
    assert_ptr_equal(view_of(bench->graph, narrow, NULL, NULL).base, narrow);
    Value *sum = move(bench, OP_sum, x, (Attr[3]){{.axes = {.n = 1, .at = {0}}}, {.i = 1}});
    assert_ptr_equal(view_of(bench->graph, sum, NULL, NULL).base, sum);
}

/* A chain that is deeper than any stack. */
BENCH_TEST(test_long_chains) {
    const Dim *dims[] = {CONST(4), CONST(6), CONST(10)};
    Value *x = places_input(bench, dims, NULL), *value = x;
    for (int i = 0; i < 300000; i++)
        value = move(bench, OP_transpose, value, (Attr[3]){{.ints = (int[]){2, 0, 1}, .n_ints = 3}});
    View view = view_of(bench->graph, value, NULL, NULL);
    assert_ptr_equal(view.base, x);
    assert_true(dim_is(view.strides[0], 60) && dim_is(view.strides[1], 10) && dim_is(view.strides[2], 1));
}

static bool is_this(void *context, const Value *value) {
    return value == context;
}

BENCH_TEST(test_stops_where_asked_and_knows_outputs) {
    const Dim *dims[] = {CONST(4), CONST(6), CONST(10)}, *strides[] = {CONST(100), CONST(10), CONST(1)};
    Value *x = places_input(bench, dims, NULL), *e = move(bench, OP_neg, x, NULL);
    Value *t = move(bench, OP_transpose, e, (Attr[3]){{.ints = (int[]){2, 1, 0}, .n_ints = 3}});
    Value *back = move(bench, OP_transpose, t, (Attr[3]){{.ints = (int[]){2, 1, 0}, .n_ints = 3}});
    assert_ptr_equal(view_of(bench->graph, back, is_this, t).base, t);
    View view = view_of(bench->graph, t, NULL, NULL);
    assert_true(view.base == e && dim_is(view.strides[0], 1) && dim_is(view.strides[2], 60));
    graph_add_output(bench->graph, "e", e, strides,
                     (Span){0}); /* now its memory is the caller's, with gaps */
    view = view_of(bench->graph, back, NULL, NULL);
    assert_true(view.base == e && dim_is(view.strides[0], 100) && dim_is(view.strides[1], 10));
}

BENCH_TEST(test_vector_widths) {
    const Dim *m = SYMBOL("M"), *n = SYMBOL("N");
    assert_true(dim_constrain(bench->dims, dim_mod(bench->dims, n, CONST(8)), DIM_EQ, CONST(0), (Span){0},
                              &bench->diags));
    const Dim *dims[] = {m, CONST(3), n}, *odd[] = {CONST(5), CONST(3), m};
    Value *x = places_input(bench, dims, NULL);
    View view = view_of(bench->graph, x, NULL, NULL);
    assert_int_equal(view_vector_width(bench->graph, &view, x, 2, 16), 8);
    assert_int_equal(view_vector_width(bench->graph, &view, x, 2, 4), 4);
    assert_int_equal(view_vector_width(bench->graph, &view, x, 1, 16), 1); /* not contiguous there */
    Value *y = graph_add_input(bench->graph, "y", DTYPE_I32, 3, odd, NULL, (Span){0});
    view = view_of(bench->graph, y, NULL, NULL);
    assert_int_equal(view_vector_width(bench->graph, &view, y, 2, 16), 1); /* M may be odd */
    assert_true(dim_constrain(bench->dims, n, DIM_GE, CONST(16), (Span){0}, &bench->diags));
    static const struct {
        int64_t start, length;
        int width;
    } slices[] = {{8, 8, 8}, {4, 8, 4}, {2, 12, 2}, {1, 8, 1}, {0, 6, 2}};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        const Dim *start[] = {CONST(0), CONST(0), CONST(slices[i].start)};
        const Dim *limit[] = {m, CONST(3), CONST(slices[i].start + slices[i].length)};
        Attr attrs[] = {{.dims = start, .n_dims = 3},
                        {.dims = limit, .n_dims = 3},
                        {.ints = (int[]){1, 1, 1}, .n_ints = 3}};
        Value *s = move(bench, OP_slice, x, attrs);
        view = view_of(bench->graph, s, NULL, NULL);
        assert_int_equal(view_vector_width(bench->graph, &view, s, 2, 16), slices[i].width);
    }
}

/* Another order or another grouping of the same elements. */
static Value *move_stored(Bench *bench, Value *x, uint64_t *seed) {
    const Dim *dims[RANK_MAX];
    int perm[RANK_MAX] = {0}, n = 0;
    if (draw(seed) & 1) {
        for (int i = 0; i < x->rank; i++) {
            int at = (int)draw_below(seed, i + 1);
            perm[i] = perm[at];
            perm[at] = i;
        }
        return move(bench, OP_transpose, x, (Attr[OP_MAX_ATTRS]){{.ints = perm, .n_ints = x->rank}});
    }
    int64_t rest = 12 * 24;
    while (n < 4 && rest > 1) {
        static const int64_t some[] = {1, 2, 3, 4, 6, 8, 12};
        int64_t dim = some[draw_below(seed, 7)];
        if (rest % dim != 0)
            continue;
        dims[n++] = CONST(dim);
        rest /= dim;
    }
    dims[n++] = CONST(rest);
    return move(bench, OP_reshape, x, (Attr[OP_MAX_ATTRS]){{.dims = dims, .n_dims = n}});
}

/* Where an element of the root is, by the factors: each axis' coordinate in digits, the last factor's first.
 */
static int64_t stored_place(const ViewFactors *factors, const int64_t *coords) {
    int64_t place = 0, rest = 0;
    for (int i = factors->n - 1; i >= 0; i--) {
        const ViewFactor *factor = &factors->at[i];
        if (i == factors->n - 1 || factors->at[i + 1].axis != factor->axis)
            rest = coords[factor->axis];
        place += rest % factor->dim->value * factor->stride->value;
        rest /= factor->dim->value;
    }
    return place;
}

BENCH_TEST(test_stored_in_another_order) {
    const Dim *dims[] = {CONST(12), CONST(1), CONST(24)};
    Value *root = places_input(bench, dims, NULL);
    Tensor numbers, moved;
    int64_t extents[] = {12, 1, 24};
    assert_true(tensor_new(bench->arena, DTYPE_I32, 3, extents, &numbers));
    for (int64_t e = 0; e < numbers.count; e++)
        numbers.at[e].i = e;
    DimBindings none = {0};
    int said = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t state = seed;
        Value *stored = root;
        for (int64_t n = 1 + draw_below(&state, 4); n > 0; n--)
            stored = move_stored(bench, stored, &state);
        ViewFactors factors;
        if (!view_stored(bench->graph, stored, root, 3, dims, &factors)) {
            refused++;
            continue;
        }
        said++;
        assert_true(
            reference_value(bench->arena, bench->graph, &none, &numbers, stored, &moved, &bench->diags));
        for (int64_t r = 0; r < numbers.count; r++) {
            int64_t coords[] = {r / 24, 0, r % 24};
            assert_int_equal(moved.at[stored_place(&factors, coords)].i, r);
        }
    }
    assert_true(said > 100 && refused > 10);
}

static bool gather_is_input(void *context, const Value *value) {
    (void)context;
    return value->op == OP_input;
}

/* What element `coords` of a gathered value is: the place in the data's memory, 0 for an index of none. */
static int64_t gathered_place(const ViewGather *gather, int rank, const int64_t *coords,
                              const int64_t *numbers) {
    int64_t number = gather->index.offset->value, place = gather->data.offset->value;
    for (int i = 0; i < rank; i++) {
        int64_t page = gather->page && i == gather->page_axis ? gather->page->value : 0;
        number += (page ? coords[i] / page : coords[i]) * gather->index.strides[i]->value;
        place += (page ? coords[i] % page : coords[i]) * gather->data.strides[i]->value;
    }
    int64_t at = numbers[number];
    return at < 0 || at >= gather->extent->value ? 0 : place + at * gather->step->value;
}

static const int64_t gather_numbers[] = {3, 0, -1, 2, 1, 7};

/* Numbers of places [5, 4, 6], the first input, of which [2, 3] indices, the second, choose. */
static Value *gather_inputs(Bench *bench, int axis, Tensor in[2]) {
    const Dim *dims[] = {CONST(5), CONST(4), CONST(6)}, *two[] = {CONST(2), CONST(3)};
    static const int64_t extents[] = {5, 4, 6}, index_extents[] = {2, 3};
    if (!bench->graph->inputs.n) {
        places_input(bench, dims, NULL);
        graph_add_input(bench->graph, "i", DTYPE_I32, 2, two, NULL, (Span){0});
    }
    assert_true(tensor_new(bench->arena, DTYPE_I32, 3, extents, &in[0]));
    assert_true(tensor_new(bench->arena, DTYPE_I32, 2, index_extents, &in[1]));
    for (int64_t e = 0; e < in[0].count; e++)
        in[0].at[e].i = e;
    for (int64_t e = 0; e < in[1].count; e++)
        in[1].at[e].i = gather_numbers[e];
    Value *operands[] = {bench->graph->inputs.at[0], bench->graph->inputs.at[1]};
    Value *value = graph_append(bench->graph, OP_gather, operands, 2, (Attr[OP_MAX_ATTRS]){{.i = axis}},
                                (Span){0}, &bench->diags);
    assert_non_null(value);
    return value;
}

static void gather_check(Bench *bench, Value *value, const Tensor in[2], const ViewGather *gather) {
    DimBindings none = {0};
    Tensor moved;
    assert_ptr_equal(gather->data.base, bench->graph->inputs.at[0]);
    assert_ptr_equal(gather->index.base, bench->graph->inputs.at[1]);
    assert_true(reference_value(bench->arena, bench->graph, &none, in, value, &moved, &bench->diags));
    for (int64_t e = 0; e < moved.count; e++) {
        int64_t coords[RANK_MAX], rest = e;
        for (int i = moved.rank - 1; i >= 0; i--) {
            coords[i] = rest % moved.dims[i];
            rest /= moved.dims[i];
        }
        assert_int_equal(gathered_place(gather, moved.rank, coords, gather_numbers), moved.at[e].i);
    }
}

BENCH_TEST(test_slices_that_indices_choose) {
    Tensor in[2];
    for (int axis = 0; axis < 3; axis++) {
        Value *value = gather_inputs(bench, axis, in);
        int perm[] = {3, 1, 0, 2};
        value = move(bench, OP_transpose, value, (Attr[OP_MAX_ATTRS]){{.ints = perm, .n_ints = 4}});
        ViewGather gather;
        assert_true(view_gather(bench->graph, value, gather_is_input, NULL, &gather));
        gather_check(bench, value, in, &gather);
        assert_false(view_pages(bench->graph, value, gather_is_input, NULL, &gather));
        /* across an index' axis and one of the data there is no stride */
        const Dim *flat[] = {value_count(bench->graph, value)};
        Value *joined = move(bench, OP_reshape, value, (Attr[OP_MAX_ATTRS]){{.dims = flat, .n_dims = 1}});
        assert_false(view_gather(bench->graph, joined, gather_is_input, NULL, &gather));
        assert_false(view_gather(bench->graph, bench->graph->inputs.at[0], gather_is_input, NULL, &gather));
    }
}

static Value *reshaped(Bench *bench, Value *value, int rank, const Dim **dims) {
    return move(bench, OP_reshape, value, (Attr[OP_MAX_ATTRS]){{.dims = dims, .n_dims = rank}});
}

static void pages_check(Bench *bench, Value *value, const Tensor in[2], int axis, int64_t page) {
    ViewGather gather;
    assert_false(view_gather(bench->graph, value, gather_is_input, NULL, &gather));
    assert_true(view_pages(bench->graph, value, gather_is_input, NULL, &gather));
    assert_int_equal(gather.page_axis, axis);
    assert_int_equal(gather.page->value, page);
    gather_check(bench, value, in, &gather);
}

BENCH_TEST(test_pages_that_indices_choose) {
    Tensor in[2];
    Value *slices = gather_inputs(bench, 0, in); /* [2, 3, 4, 6] */
    const Dim *behind[] = {CONST(2), CONST(12), CONST(6)}, *across[] = {CONST(2), CONST(6), CONST(12)},
              *all[] = {CONST(24), CONST(6)}, *split[] = {CONST(2), CONST(2), CONST(6), CONST(6)},
              *words[] = {CONST(2), CONST(72)};
    int turn[] = {0, 3, 1, 2}, apart[] = {0, 2, 1, 3};
    pages_check(bench, reshaped(bench, slices, 3, behind), in, 1, 4);
    pages_check(bench, reshaped(bench, slices, 2, all), in, 0, 4);
    pages_check(bench, reshaped(bench, slices, 2, words), in, 1, 24);
    Value *turned = move(bench, OP_transpose, slices, (Attr[OP_MAX_ATTRS]){{.ints = turn, .n_ints = 4}});
    pages_check(bench, reshaped(bench, turned, 3, across), in, 2, 4);
    /* all pages but the first of each */
    const Dim *start[] = {CONST(0), CONST(4), CONST(0)}, *limit[] = {CONST(2), CONST(12), CONST(6)};
    int step[] = {1, 1, 1};
    Attr whole[OP_MAX_ATTRS] = {
        {.dims = start, .n_dims = 3}, {.dims = limit, .n_dims = 3}, {.ints = step, .n_ints = 3}};
    Value *pages = reshaped(bench, slices, 3, behind);
    pages_check(bench, move(bench, OP_slice, pages, whole), in, 1, 4);
    /* parts of pages, and pages whose rows trade places with their numbers */
    ViewGather gather;
    start[1] = CONST(2);
    assert_false(
        view_pages(bench->graph, move(bench, OP_slice, pages, whole), gather_is_input, NULL, &gather));
    Value *mixed = move(bench, OP_transpose, slices, (Attr[OP_MAX_ATTRS]){{.ints = apart, .n_ints = 4}});
    assert_false(view_pages(bench->graph, reshaped(bench, mixed, 3, behind), gather_is_input, NULL, &gather));
    assert_false(view_pages(bench->graph, reshaped(bench, slices, 4, split), gather_is_input, NULL, &gather));
    assert_false(view_pages(bench->graph, slices, gather_is_input, NULL, &gather));
    assert_false(view_pages(bench->graph, bench->graph->inputs.at[0], gather_is_input, NULL, &gather));
}

static void test_axes_below_a_reshape(void **state) {
    Bench *bench = *state;
    const Dim *dims[] = {CONST(4), CONST(1), SYMBOL("n")},
              *wide[] = {CONST(1), CONST(4), SYMBOL("n"), CONST(1)},
              *joined[] = {dim_mul(bench->dims, CONST(4), SYMBOL("n"))};
    Value *x = places_input(bench, dims, NULL), *same = reshaped(bench, x, 4, wide);
    assert_int_equal(view_axis_below_reshape(same, 1), 0);
    assert_int_equal(view_axis_below_reshape(same, 2), 2);
    assert_int_equal(view_axis_below_reshape(same, 0), -1);
    assert_int_equal(view_axis_below_reshape(same, 3), -1);
    assert_int_equal(view_axis_below_reshape(reshaped(bench, x, 1, joined), 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_ENTRY(test_random_chains),
        BENCH_ENTRY(test_windows),
        BENCH_ENTRY(test_what_strides_cannot_say),
        BENCH_ENTRY(test_long_chains),
        BENCH_ENTRY(test_stops_where_asked_and_knows_outputs),
        BENCH_ENTRY(test_vector_widths),
        BENCH_ENTRY(test_stored_in_another_order),
        BENCH_ENTRY(test_slices_that_indices_choose),
        BENCH_ENTRY(test_pages_that_indices_choose),
        BENCH_ENTRY(test_axes_below_a_reshape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
