/* Pointwise kernels against the reference: every scalar operation, every element type, odd shapes,
 * broadcasts, strides, movement. */
#include "tests/unit/codegen/template_harness.h"

static void check_pointwise(Harness *h, Value *out) {
    harness_output(h, "out", out);
    harness_region(h, TEMPLATE_POINTWISE, out, 0);
    harness_check(h, 1);
}

static void every_scalar_operation(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I32, DTYPE_F64,
                                  DTYPE_I64, DTYPE_I8,   DTYPE_BOOL};
    for (int op = 0; op < OP_SCALAR_COUNT; op++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const OpInfo *info = op_info((OpKind)op);
            if (info->rule == RULE_BITS && (dtype_is_float(types[t]) || types[t] == DTYPE_BOOL))
                continue;
            Harness h = harness_new();
            const int64_t dims[] = {3, 40};
            h.is_double = types[t] == DTYPE_F64;
            Value *in[OP_MAX_ARITY];
            for (int i = 0; i < info->n_in; i++) {
                static const char *const names[] = {"a", "b", "c"};
                in[i] = make_input(&h, names[i], types[t], 2, dims);
                if (info->rule == RULE_BITS && i == 1 && (op == OP_shl || op == OP_shr)) /* 0 <= b < width */
                    in[i] = make1(&h, OP_abs, in[i]);
                if ((op == OP_sqrt || op == OP_rsqrt || op == OP_log || op == OP_log2 ||
                     (op == OP_pow && i == 0)) &&
                    types[t] != DTYPE_BOOL)
                    in[i] = make1(&h, OP_abs, in[i]);
            }
            check_pointwise(&h, make_named(&h, NULL, (OpKind)op, in, info->n_in, NULL));
        }
}

static void every_cast(void **state) {
    (void)state;
    for (int from = 0; from < DTYPE_COUNT; from++)
        for (int to = 0; to < DTYPE_COUNT; to++) {
            Harness h = harness_new();
            const int64_t dims[] = {3, 64};
            h.max_int = 1e6;
            Value *x = make_input(&h, "x", (DType)from, 2, dims);
            Value *scaled = dtype_is_float((DType)from) ? make2(&h, OP_mul, x, make_constant(&h, 37.5)) : x;
            check_pointwise(&h, make_cast(&h, scaled, (DType)to));
        }
}

/* A rounding cast in the middle is kept, and so is one that is stored and used. */
static void casts_round_where_they_stand(void **state) {
    (void)state;
    for (int t = DTYPE_F16; t <= DTYPE_E5M2; t++) {
        Harness h = harness_new();
        const int64_t dims[] = {5, 24};
        h.scale = 4;
        Value *x = make_input(&h, "x", DTYPE_F32, 2, dims), *y = make_input(&h, "y", DTYPE_F32, 2, dims);
        Value *rounded = make_cast(&h, make2(&h, OP_mul, x, y), (DType)t);
        Value *rest = make2(&h, OP_sub, make2(&h, OP_mul, x, y), rounded);
        harness_output(&h, "rounded", rounded);
        check_pointwise(&h, rest);
    }
}

static void odd_shapes(void **state) {
    (void)state;
    static const int64_t extents[] = {0, 1, 2, 3, 8, 17, 33, 1000};
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I8, DTYPE_I4, DTYPE_F64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
            for (size_t k = 0; k < 6; k++) {
                Harness h = harness_new();
                const int64_t dims[] = {extents[k], extents[i]}, row[] = {extents[i]},
                              column[] = {extents[k], 1};
                h.built_by = types[t] == DTYPE_I4 && extents[i] % 2 ? "any" : NULL;
                Value *x = make_input(&h, "x", types[t], 2, dims);
                Value *bias = make_input(&h, "bias", types[t], 1, row);
                Value *scale = make_input(&h, "scale", DTYPE_F32, 2, column);
                Value *y = make2(&h, OP_mul, make2(&h, OP_add, x, bias), make1(&h, OP_exp, scale));
                check_pointwise(&h, make_cast(&h, y, types[t]));
            }
}

static void ranks_up_to_eight(void **state) {
    (void)state;
    for (int rank = 0; rank <= RANK_MAX; rank++) {
        Harness h = harness_new();
        const int64_t dims[RANK_MAX] = {2, 3, 1, 2, 3, 1, 2, 4};
        Value *x = make_input(&h, "x", DTYPE_F32, rank, dims + RANK_MAX - rank);
        int64_t other[RANK_MAX];
        for (int i = 0; i < rank; i++)
            other[i] = i % 2 ? dims[RANK_MAX - rank + i] : 1;
        Value *y = make_input(&h, "y", DTYPE_F32, rank, other);
        check_pointwise(&h, make2(&h, OP_sub, x, y));
    }
}

static void strided_inputs(void **state) {
    (void)state;
    static const int64_t strides[][2] = {{40, 1}, {1, 6}, {64, 2}, {0, 1}, {33, 1}};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        Harness h = harness_new();
        const int64_t dims[] = {6, 32};
        Value *y = make_input(&h, "y", DTYPE_F16, 2, dims);
        const Dim *d[] = {harness_dim(&h, 6), harness_dim(&h, 32)};
        const Dim *s[] = {harness_dim(&h, strides[i][0]), harness_dim(&h, strides[i][1])};
        Value *x = graph_add_input(h.graph, "x", DTYPE_F16, 2, d, s, (Span){0});
        check_pointwise(&h, make_cast(&h, make2(&h, OP_add, x, y), DTYPE_F16));
    }
}

static void strided_output(void **state) {
    (void)state;
    Harness h = harness_new();
    const int64_t dims[] = {6, 32};
    Value *x = make_input(&h, "x", DTYPE_BF16, 2, dims), *y = make_cast(&h, make1(&h, OP_exp, x), DTYPE_BF16);
    const Dim *strides[] = {harness_dim(&h, 1), harness_dim(&h, 8)};
    y->name = "y";
    graph_add_output(h.graph, "y", y, strides, (Span){0});
    vec_push(h.arena, &h.region->outputs, y);
    harness_region(&h, TEMPLATE_POINTWISE, y, 0);
    harness_check(&h, 1);
}

static void movement(void **state) {
    (void)state;
    for (int width = 5; width <= 16; width += 11) {
        Harness h = harness_new();
        const int64_t dims[] = {4, 6, width}, flat[] = {24, width}, row[] = {width}, line[] = {24 * width};
        Value *x = make_input(&h, "x", DTYPE_F32, 3, dims), *y = make_input(&h, "y", DTYPE_F32, 2, flat);
        Value *bias = make_input(&h, "bias", DTYPE_F32, 1, row), *z = make_input(&h, "z", DTYPE_F32, 1, line);
        Value *w = make_input(&h, "w", DTYPE_F32, 3, (int64_t[]){width, 4, 6});
        Value *sum = make2(&h, OP_add, x, make_reshape(&h, y, 3, dims));
        sum = make2(&h, OP_mul, sum, make_shaped(&h, OP_broadcast, bias, 3, dims));
        sum = make2(&h, OP_sub, sum, make_reshape(&h, z, 3, dims));
        sum = make2(&h, OP_add, sum, make_transpose(&h, w, (int[]){1, 2, 0}));
        check_pointwise(&h, sum);
    }
}

static Value *make_slice(Harness *h, Value *x, const int64_t *start, const int64_t *limit, const int *step) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
    attrs[0].dims = make_dims(h, x->rank, start);
    attrs[1].dims = make_dims(h, x->rank, limit);
    attrs[0].n_dims = attrs[1].n_dims = attrs[2].n_ints = x->rank;
    attrs[2].ints = ARENA_ARRAY(h->arena, int, RANK_MAX);
    for (int i = 0; i < x->rank; i++)
        attrs[2].ints[i] = step[i];
    return make_named(h, NULL, OP_slice, &x, 1, attrs);
}

static void slices(void **state) {
    (void)state;
    static const int64_t starts[][2] = {{0, 0}, {2, 8}, {1, 3}, {9, 63}, {0, 0}};
    static const int64_t limits[][2] = {{8, 32}, {10, 40}, {9, 35}, {1, 31}, {10, 64}};
    static const int steps[][2] = {{1, 1}, {1, 1}, {1, 1}, {-1, -1}, {3, 2}};
    for (int i = 0; i < 5; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){10, 64});
        check_pointwise(&h, make1(&h, OP_neg, make_slice(&h, x, starts[i], limits[i], steps[i])));
    }
}

static void pads(void **state) {
    (void)state;
    static const int64_t borders[][4] = {{1, 8, 2, 8}, {0, 3, 1, 0}, {2, 0, 0, 5}, {0, 0, 0, 0}};
    for (int i = 0; i < 4; i++) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_F32, 2, (int64_t[]){4, 16});
        Value *fill = make_input(&h, "fill", DTYPE_F32, 0, NULL);
        Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
        attrs[0].dims = make_dims(&h, 2, borders[i]);
        attrs[1].dims = make_dims(&h, 2, borders[i] + 2);
        attrs[0].n_dims = attrs[1].n_dims = 2;
        Value *in[] = {make1(&h, OP_exp, x), fill};
        check_pointwise(&h, make1(&h, OP_neg, make_named(&h, NULL, OP_pad, in, 2, attrs)));
    }
}

static void concatenations(void **state) {
    (void)state;
    for (int axis = 0; axis < 2; axis++)
        for (int odd = 0; odd < 2; odd++) {
            Harness h = harness_new();
            Attr attrs[OP_MAX_ATTRS] = {{.i = axis}};
            int64_t n = odd ? 5 : 8;
            Value *in[3];
            static const char *const names[] = {"a", "b", "c"};
            for (int i = 0; i < 3; i++)
                in[i] = make_input(&h, names[i], DTYPE_F32, 2,
                                   axis ? (int64_t[]){4, n * (i + 1)} : (int64_t[]){n * (i + 1), 4});
            in[1] = make1(&h, OP_neg, in[1]);
            check_pointwise(&h, make1(&h, OP_exp, make_named(&h, NULL, OP_concat, in, 3, attrs)));
        }
}

static void gathers(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_I32, DTYPE_I64, DTYPE_U8};
    for (int t = 0; t < 3; t++)
        for (int axis = 0; axis < 2; axis++)
            for (int computed = 0; computed < 2; computed++) {
                Harness h = harness_new(); /* indices go from -9 to 9: some are out of range */
                Value *table = make_input(&h, "table", DTYPE_BF16, 2, (int64_t[]){8, 16});
                Value *at = make_input(&h, "at", types[t], 2, (int64_t[]){3, 5});
                if (computed)
                    table = make1(&h, OP_exp, table);
                Attr attrs[OP_MAX_ATTRS] = {{.i = axis}};
                Value *in[] = {table, at};
                check_pointwise(&h, make1(&h, OP_neg, make_named(&h, NULL, OP_gather, in, 2, attrs)));
            }
}

/* An index that is far outside of 32 bits reads 0, though coordinates have 32. */
static void gather_far_out_of_range(void **state) {
    (void)state;
    Harness h = harness_new();
    Value *table = make_input(&h, "table", DTYPE_F32, 2, (int64_t[]){8, 16});
    Value *at = make_input(&h, "at", DTYPE_I64, 1, (int64_t[]){32});
    Value *far = make2(&h, OP_add, at, graph_constant_int(h.graph, (int64_t)1 << 32, (Span){0}));
    Value *in[] = {table, far};
    check_pointwise(&h, make_named(&h, NULL, OP_gather, in, 2, NULL));
}

static void index_and_dim(void **state) {
    (void)state;
    Harness h = harness_new();
    Value *x = make_input(&h, "x", DTYPE_F32, 2, (int64_t[]){7, 12});
    Attr row[OP_MAX_ATTRS] = {{.dims = make_dims(&h, 2, (int64_t[]){7, 1}), .n_dims = 2}, {.i = 0}};
    Attr col[OP_MAX_ATTRS] = {{.dims = make_dims(&h, 2, (int64_t[]){1, 12}), .n_dims = 2}, {.i = 1}};
    row[0].n_dims = col[0].n_dims = 2;
    row[0].dims = make_dims(&h, 2, (int64_t[]){7, 1});
    col[0].dims = make_dims(&h, 2, (int64_t[]){1, 12});
    Value *i = make_named(&h, NULL, OP_index, NULL, 0, row),
          *j = make_named(&h, NULL, OP_index, NULL, 0, col);
    Value *masked = make3(&h, OP_select, make2(&h, OP_le, j, i), x, make_constant(&h, -INFINITY));
    Attr dim[OP_MAX_ATTRS] = {{.dim = harness_dim(&h, 12)}};
    check_pointwise(&h, make2(&h, OP_mul, masked, make_named(&h, NULL, OP_dim, NULL, 0, dim)));
}

static void random_numbers(void **state) {
    (void)state;
    for (int normal = 0; normal < 2; normal++)
        for (int64_t n = 7; n <= 40; n += 33)
            for (int offset = 0; offset < 2; offset++) {
                Harness h = harness_new();
                const int64_t dims[] = {5, n};
                Value *x = make_input(&h, "x", DTYPE_F32, 2, dims),
                      *seed = make_input(&h, "seed", DTYPE_I64, 0, NULL);
                h.max_int = 9e18;
                h.scale = 4;
                Attr attrs[OP_MAX_ATTRS] = {{.i = 0}};
                attrs[0].dims = make_dims(&h, 2, dims);
                attrs[0].n_dims = 2;
                attrs[1].i = offset ? ((int64_t)1 << 33) + 5 : 0;
                Value *r = make_named(&h, NULL, normal ? OP_normal : OP_uniform, &seed, 1, attrs);
                check_pointwise(&h, make2(&h, OP_add, r, x));
            }
}

/* A pointwise region may hold any value: what no template carries becomes a loop. */
static void loops_in_place(void **state) {
    (void)state;
    static const OpKind ops[] = {OP_sum, OP_prod, OP_reduce_min, OP_reduce_max,
                                 OP_any, OP_all,  OP_argmax,     OP_argmin};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int keep = 0; keep < 2; keep++) {
            Harness h = harness_new();
            Value *x =
                make_input(&h, "x", i == 4 || i == 5 ? DTYPE_BOOL : DTYPE_F32, 3, (int64_t[]){3, 4, 5});
            check_pointwise(&h, make_reduce(&h, ops[i], x, (int[]){0, 2}, 2, keep));
        }
}

static void products_in_place(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I8, DTYPE_F64, DTYPE_TF32};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        Harness h = harness_new();
        h.scale = 10;
        Value *a = make_input(&h, "a", types[t], 3, (int64_t[]){4, 5, 7});
        Value *b = make_input(&h, "b", types[t], 3, (int64_t[]){2, 7, 6});
        Attr attrs[OP_MAX_ATTRS] = {{.dtype = DTYPE_COUNT}};
        Value *in[] = {a, b};
        Value *y = make1(&h, OP_abs, make_named(&h, NULL, OP_matmul, in, 2, attrs));
        check_pointwise(&h, y);
    }
}

/* Four-bit outputs whose rows are odd: two elements share a byte across rows. */
static void odd_four_bit_rows(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 3; rows++) {
        Harness h = harness_new();
        h.built_by = "any";
        Value *x = make_input(&h, "x", DTYPE_I4, 2, (int64_t[]){rows, 5});
        check_pointwise(&h, make_cast(&h, make1(&h, OP_neg, x), DTYPE_I4));
    }
}

static void schedules_that_are_asked_for(void **state) {
    (void)state;
    static const int vectors[] = {1, 2, 4, 8, 16}, unrolls[] = {1, 2, 3, 8};
    for (int v = 0; v < 5; v++)
        for (int u = 0; u < 4; u++) {
            Harness h = harness_new();
            Value *x = make_input(&h, "x", DTYPE_BF16, 2, (int64_t[]){20, 48});
            h.has_schedule = true;
            h.schedule = (Schedule){.threads = 64, .vector = vectors[v], .unroll = unrolls[u]};
            check_pointwise(&h, make_cast(&h, make1(&h, OP_exp, x), DTYPE_F32));
        }
}

/* Runs of one thread that have the same column read what belongs to the column once. */
static void columns_that_repeat(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 50; rows += 7) {
        Harness h = harness_new();
        Value *x = make_input(&h, "x", DTYPE_F32, 2, (int64_t[]){rows, 16});
        Value *bias = make_input(&h, "bias", DTYPE_BF16, 1, (int64_t[]){16});
        Value *scale = make_input(&h, "scale", DTYPE_F32, 2, (int64_t[]){rows, 1});
        Value *all = make_input(&h, "all", DTYPE_F32, 0, NULL);
        h.has_schedule = true;
        h.schedule = (Schedule){.threads = 32, .vector = 4, .unroll = 4};
        h.scale = 4;
        Value *y = make2(&h, OP_mul, make2(&h, OP_add, x, bias), make1(&h, OP_exp, scale));
        check_pointwise(&h, make2(&h, OP_sub, make2(&h, OP_mul, y, make1(&h, OP_exp, bias)), all));
    }
}

static void symbolic_dims(void **state) {
    (void)state;
    static const int64_t values[] = {0, 1, 5, 64};
    for (int i = 0; i < 4; i++) {
        Harness h = harness_new();
        DimTable *table = h.graph->dims;
        const Dim *m = dim_symbol(table, "M"), *n = dim_symbol(table, "N");
        dim_constrain(table, dim_mod(table, n, dim_const(table, 8)), DIM_EQ, dim_const(table, 0), (Span){0},
                      &h.diags);
        const Dim *dims[] = {m, n};
        Value *x = graph_add_input(h.graph, "x", DTYPE_BF16, 2, dims, NULL, (Span){0});
        Value *bias = graph_add_input(h.graph, "bias", DTYPE_BF16, 1, &n, NULL, (Span){0});
        h.bindings = dim_bindings_new(h.arena, table);
        h.bindings.known[0] = h.bindings.known[1] = true;
        h.bindings.value[0] = values[i];
        h.bindings.value[1] = 24;
        check_pointwise(&h, make_cast(&h, make2(&h, OP_add, x, bias), DTYPE_BF16));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_operation),
        cmocka_unit_test(every_cast),
        cmocka_unit_test(casts_round_where_they_stand),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(ranks_up_to_eight),
        cmocka_unit_test(strided_inputs),
        cmocka_unit_test(strided_output),
        cmocka_unit_test(movement),
        cmocka_unit_test(slices),
        cmocka_unit_test(pads),
        cmocka_unit_test(concatenations),
        cmocka_unit_test(gathers),
        cmocka_unit_test(gather_far_out_of_range),
        cmocka_unit_test(index_and_dim),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(loops_in_place),
        cmocka_unit_test(products_in_place),
        cmocka_unit_test(odd_four_bit_rows),
        cmocka_unit_test(schedules_that_are_asked_for),
        cmocka_unit_test(symbolic_dims),
        cmocka_unit_test(columns_that_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
