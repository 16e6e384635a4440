/* The schedules that the cost model picks first, compiled by both backends: no spill, no stack, no serialized
 * wgmma. Also that the choices are of the kind that the shapes ask for. */
#include "emit_support.h"
#include "matmul_support.h"

typedef struct Shape {
    const char *target;
    int64_t m, n, k;
    DType type;
    bool b_is_kn;    /* the second operand lies [K, N] */
    MatmulPath path; /* that the choice should take */
} Shape;

static void compile_choices(Case *c, int most, MatmulPath path) {
    enum { ROOM = 16 };
    Schedule choices[ROOM];
    case_region(c);
    const Template *template = template_of(c->region.kind);
    int n = template->schedules(c->graph, &c->region, c->target, NULL, choices, ROOM);
    assert_true(n > (c->is_chain ? 0 : 1)); /* a product can always be a loop, which its list ends with */
    assert_int_equal(choices[0].path, path);
    for (int i = 0; i < n; i++) {
        const char *why = NULL;
        assert_true(template->accepts(c->graph, &c->region, &choices[i], c->target, &why));
    }
    for (int i = 0; i < n && i < most; i++) {
        c->region.schedule = choices[i];
        Kernel *kernel = codegen_kernel(c->arena, c->graph, &c->region, c->target, &c->diags);
        if (!kernel)
            fail_msg("%s", case_message(c));
        Bench bench = {.arena = c->arena, .diags = &c->diags, .graph = c->graph, .region = &c->region};
        print_message("%s\n", kernel->summary);
        bench_compile(&bench, kernel);
    }
}

static Value *shape_product(Case *c, const Shape *s) {
    case_open(c, s->target);
    Value *x = INPUT(c, "x", s->type, s->m, s->k);
    Value *w =
        s->b_is_kn ? INPUT(c, "w", s->type, s->k, s->n) : case_t(c, INPUT(c, "w", s->type, s->n, s->k));
    return case_matmul(c, x, w);
}

static void test_bias_gelu(void **state) {
    (void)state;
    static const Shape shapes[] = {
        {"sm_90a", 8192, 16384, 4096, DTYPE_BF16, false, MATMUL_WGMMA},
        {"sm_90a", 8192, 8192, 8192, DTYPE_F16, true, MATMUL_WGMMA},
        {"sm_90a", 16, 14336, 4096, DTYPE_BF16, false, MATMUL_WGMMA},
        {"sm_90a", 64, 4096, 14336, DTYPE_BF16, true, MATMUL_WGMMA}, /* K split over clusters */
        {"sm_90a", 1, 28672, 8192, DTYPE_BF16, false, MATMUL_GEMV},
        {"sm_80", 1, 4096, 4096, DTYPE_F32, true, MATMUL_GEMV},
        {"sm_90a", 512, 3072, 768, DTYPE_BF16, false, MATMUL_WGMMA},
        {"sm_90a", 4096, 4096, 4096, DTYPE_E4M3, false, MATMUL_WGMMA},
        {"sm_90a", 4096, 4096, 4096, DTYPE_TF32, false, MATMUL_WGMMA},
        {"sm_90a", 1000, 1000, 1001, DTYPE_BF16, false, MATMUL_WGMMA}, /* operands from anywhere */
        {"sm_90a", 1000, 1000, 1001, DTYPE_TF32, false, MATMUL_MMA_SYNC},
        {"sm_90a", 2048, 2048, 2048, DTYPE_F32, false, MATMUL_SIMT},
        {"sm_80", 4096, 4096, 4096, DTYPE_BF16, false, MATMUL_MMA_SYNC},
        {"sm_89", 4096, 4096, 4096, DTYPE_E4M3, false, MATMUL_MMA_SYNC},
        {"sm_86", 1024, 1024, 1024, DTYPE_F64, true, MATMUL_SIMT},
        {"sm_90a", 512, 1024, 1024, DTYPE_F64, false, MATMUL_MMA_SYNC},
        {"sm_90a", 4096, 4096, 4096, DTYPE_F64, true, MATMUL_MMA_SYNC},
        {"sm_90a", 1, 8192, 4096, DTYPE_F64, false, MATMUL_GEMV},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Case c;
        Value *product = shape_product(&c, &shapes[i]);
        Value *s = case_op(&c, OP_add, product, INPUT(&c, "bias", DTYPE_BF16, shapes[i].n), NULL, NULL);
        Value *u =
            case_op(&c, OP_mul, case_op(&c, OP_mul, case_op(&c, OP_mul, s, s, NULL, NULL), s, NULL, NULL),
                    case_number(&c, 0.044715), NULL, NULL);
        u = case_op(&c, OP_mul, case_op(&c, OP_add, s, u, NULL, NULL), case_number(&c, 1.5957691216), NULL,
                    NULL);
        case_output(
            &c, "y",
            case_cast(&c, case_op(&c, OP_mul, s, case_op(&c, OP_sigmoid, u, NULL, NULL, NULL), NULL, NULL),
                      DTYPE_BF16));
        compile_choices(&c, 1, shapes[i].path);
        case_close(&c);
    }
}

/* The choices for a product, with an input of every element added to it or not. */
static int rounds_choices(Case *c, int64_t m, int64_t n, bool with_input, Schedule *choices, int room) {
    case_open(c, "sm_90a");
    Value *y =
        case_matmul(c, INPUT(c, "x", DTYPE_BF16, m, 4096), case_t(c, INPUT(c, "w", DTYPE_BF16, n, 4096)));
    if (with_input)
        y = case_op(c, OP_add, y, INPUT(c, "r", DTYPE_BF16, m, n), NULL, NULL);
    case_output(c, "y", case_cast(c, y, DTYPE_BF16));
    case_region(c);
    return template_of(c->region.kind)->schedules(c->graph, &c->region, c->target, NULL, choices, room);
}

static bool rounds_has_three(const Schedule *choices, int n) {
    for (int i = 0; i < n; i++)
        if (choices[i].path == MATMUL_WGMMA && choices[i].warps_m == 3)
            return true;
    return false;
}

static bool rounds_has_transposed(const Schedule *choices, int n) {
    for (int i = 0; i < n; i++)
        if (choices[i].path == MATMUL_WGMMA && choices[i].swap_ab)
            return true;
    return false;
}

static bool rounds_has_large_cluster(const Schedule *choices, int n) {
    for (int i = 0; i < n; i++)
        if (choices[i].cluster_m * choices[i].cluster_n > 2)
            return true;
    return false;
}

/* 192 by 128, of either operand 192, where such tiles fill a round that others leave half empty: those of
 * three warpgroups, or of the transposed product; neither beside an input of every element; no turns where a
 * block has one tile, and no clusters of four where there are many. */
static void test_rounds(void **state) {
    (void)state;
    enum { ROOM = 256 };
    Schedule choices[ROOM];
    Case c;
    int n = rounds_choices(&c, 6144, 1024, false, choices, ROOM);
    assert_int_equal(choices[0].tile_m * choices[0].tile_n, 192 * 128);
    assert_true(rounds_has_three(choices, n));
    assert_true(rounds_has_transposed(choices, n));
    case_close(&c);
    n = rounds_choices(&c, 6144, 1024, true, choices, ROOM);
    assert_false(rounds_has_three(choices, n));
    assert_false(rounds_has_transposed(choices, n));
    case_close(&c);
    n = rounds_choices(&c, 2048, 4096, false, choices, ROOM);
    assert_true(rounds_has_three(choices, n));
    assert_false(choices[0].cluster_m * choices[0].cluster_n > 2);
    case_close(&c);
    n = rounds_choices(&c, 1024, 1536, false, choices, ROOM);
    for (int i = 0; i < n; i++)
        assert_false(choices[i].ping_pong && choices[i].tile_n >= 128); /* 96 tiles, or fewer */
    assert_true(rounds_has_large_cluster(choices, n));
    case_close(&c);
}

static void test_integers(void **state) {
    (void)state;
    static const Shape shapes[] = {{"sm_90a", 4096, 4096, 4096, DTYPE_I8, false, MATMUL_WGMMA},
                                   {"sm_80", 4096, 4096, 4096, DTYPE_I8, true, MATMUL_MMA_SYNC},
                                   {"sm_80", 512, 512, 512, DTYPE_I32, true, MATMUL_SIMT}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Case c;
        case_output(&c, "y", shape_product(&c, &shapes[i]));
        compile_choices(&c, 1, shapes[i].path);
        case_close(&c);
    }
}

static void test_two_products(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Case c;
        case_open(&c, i ? "sm_80" : "sm_90a");
        Value *x = INPUT(&c, "x", DTYPE_BF16, 4096, 4096), *wg = INPUT(&c, "wg", DTYPE_BF16, 14336, 4096),
              *wu = INPUT(&c, "wu", DTYPE_BF16, 14336, 4096);
        Value *g = case_matmul(&c, x, case_t(&c, wg)), *u = case_matmul(&c, x, case_t(&c, wu));
        Value *y = case_op(&c, OP_mul,
                           case_op(&c, OP_mul, g, case_op(&c, OP_sigmoid, g, NULL, NULL, NULL), NULL, NULL),
                           u, NULL, NULL);
        case_output(&c, "y", case_cast(&c, y, DTYPE_BF16));
        compile_choices(&c, 1, i ? MATMUL_MMA_SYNC : MATMUL_WGMMA);
        case_close(&c);
    }
}

/* Steps of recurrent cells, whose gates are parts of one matrix. */
static void test_gates(void **state) {
    (void)state;
    enum { MOST = 4 };
    static const struct {
        const char *target;
        int n;
        int64_t m, width;
        DType type;
        MatmulPath path;
    } cells[] = {{"sm_90a", 3, 1, 1024, DTYPE_BF16, MATMUL_GEMV},
                 {"sm_90a", 3, 16, 1024, DTYPE_BF16, MATMUL_WGMMA},
                 {"sm_90a", 4, 64, 1024, DTYPE_BF16, MATMUL_WGMMA},
                 {"sm_90a", 4, 4096, 1024, DTYPE_BF16, MATMUL_WGMMA},
                 {"sm_90a", 4, 64, 1024, DTYPE_TF32, MATMUL_WGMMA},
                 {"sm_80", 4, 64, 1024, DTYPE_BF16, MATMUL_MMA_SYNC},
                 {"sm_80", 3, 4096, 1024, DTYPE_F16, MATMUL_MMA_SYNC},
                 {"sm_90a", 4, 256, 1024, DTYPE_F32, MATMUL_SIMT}};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        Case c;
        case_open(&c, cells[i].target);
        int64_t width = cells[i].width;
        Value *h = INPUT(&c, "h", cells[i].type, cells[i].m, width), *at[MOST];
        Value *w = INPUT(&c, "w", cells[i].type, cells[i].n * width, width);
        Value *x = INPUT(&c, "x", cells[i].type, cells[i].m, cells[i].n * width);
        Value *cell = INPUT(&c, "s", DTYPE_F32, cells[i].m, width);
        for (int k = 0; k < cells[i].n; k++) {
            Value *gate = case_matmul(&c, h, case_t(&c, case_part(&c, w, 0, k * width, (k + 1) * width)));
            Value *part = case_part(&c, x, 1, k * width, (k + 1) * width);
            at[k] = case_op(&c, OP_sigmoid, case_op(&c, OP_add, gate, part, NULL, NULL), NULL, NULL, NULL);
        }
        Value *fresh = case_op(&c, OP_mul, at[0], at[1], NULL, NULL);
        Value *y = case_op(&c, OP_add, fresh, case_op(&c, OP_mul, at[2], cell, NULL, NULL), NULL, NULL);
        case_output(&c, "state", y);
        if (cells[i].n > 3)
            y = case_op(&c, OP_mul, case_op(&c, OP_tanh, y, NULL, NULL, NULL), at[3], NULL, NULL);
        case_output(&c, "y", case_cast(&c, y, DTYPE_BF16));
        compile_choices(&c, 1, cells[i].path);
        case_close(&c);
    }
}

static void test_row_statistics(void **state) {
    (void)state;
    static const Shape shapes[] = {{"sm_90a", 8192, 192, 1024, DTYPE_BF16, false, MATMUL_WGMMA},
                                   {"sm_90a", 8192, 72, 1024, DTYPE_BF16, false, MATMUL_WGMMA},
                                   {"sm_80", 8192, 128, 1024, DTYPE_BF16, false, MATMUL_MMA_SYNC}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Case c;
        Value *s = shape_product(&c, &shapes[i]);
        s = case_op(&c, OP_add, s, INPUT(&c, "r", DTYPE_BF16, shapes[i].m, shapes[i].n), NULL, NULL);
        Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, s, case_row(&c, OP_reduce_max, s), NULL, NULL),
                           NULL, NULL, NULL);
        case_output(&c, "s", case_cast(&c, s, DTYPE_BF16));
        case_output(&c, "y",
                    case_cast(&c, case_op(&c, OP_div, e, case_row(&c, OP_sum, e), NULL, NULL), DTYPE_BF16));
        compile_choices(&c, 1, shapes[i].path);
        case_close(&c);
    }
}

/* 256 columns: the accumulators take half of all registers. */
static void test_wide_softmax(void **state) {
    (void)state;
    static const Shape shape = {"sm_90a", 8192, 256, 1024, DTYPE_BF16, false, MATMUL_WGMMA};
    Case c;
    Value *s = shape_product(&c, &shape);
    Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, s, case_row(&c, OP_reduce_max, s), NULL, NULL), NULL,
                       NULL, NULL);
    case_output(&c, "y",
                case_cast(&c, case_op(&c, OP_div, e, case_row(&c, OP_sum, e), NULL, NULL), DTYPE_BF16));
    compile_choices(&c, 1, shape.path);
    case_close(&c);
}

static void test_prologue(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Case c;
        case_open(&c, i ? "sm_80" : "sm_90a");
        Value *x = INPUT(&c, "x", DTYPE_BF16, 4096, 4096), *w = INPUT(&c, "w", DTYPE_E4M3, 4096, 4096),
              *g = INPUT(&c, "g", DTYPE_F32, 4096);
        x = case_cast(&c, case_op(&c, OP_mul, x, g, NULL, NULL), DTYPE_BF16);
        case_output(&c, "y", case_cast(&c, case_matmul(&c, x, case_t(&c, w)), DTYPE_BF16));
        compile_choices(&c, 1, MATMUL_MMA_SYNC);
        case_close(&c);
    }
}

static Value *layer(Case *c, Value *x, int64_t n, int number) {
    Value *w =
        case_input(c, text_format(c->arena, "w%d", number), x->dtype, 2, (int64_t[]){n, x->dims[1]->value});
    Value *b = case_input(c, text_format(c->arena, "b%d", number), x->dtype, 1, &n);
    Value *y = case_op(c, OP_add, case_matmul(c, x, case_t(c, w)), b, NULL, NULL);
    return case_cast(c, case_op(c, OP_max, y, case_number(c, 0), NULL, NULL), x->dtype);
}

static void test_chains(void **state) {
    (void)state;
    static const int64_t widths[][3] = {{256, 128, 0}, {256, 256, 0}, {320, 64, 0}, {256, 128, 64}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        Case c;
        case_open(&c, "sm_90a");
        c.is_chain = true;
        Value *y = INPUT(&c, "x", DTYPE_BF16, 65536, 512);
        for (int k = 0; k < 3 && widths[i][k]; k++)
            y = layer(&c, y, widths[i][k], k);
        case_output(&c, "y", y);
        compile_choices(&c, 2, MATMUL_WGMMA);
        case_close(&c);
    }
}

static void test_attention(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {197, 197, 64}, {257, 257, 64}, {256, 256, 128}, {4096, 77, 64}, {49, 49, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t s = shapes[i][0], t = shapes[i][1], d = shapes[i][2];
        Case c;
        case_open(&c, "sm_90a");
        c.is_chain = true;
        Value *q = INPUT(&c, "q", DTYPE_BF16, 8, 16, s, d), *k = INPUT(&c, "k", DTYPE_BF16, 8, 16, t, d),
              *v = INPUT(&c, "v", DTYPE_BF16, 8, 16, t, d);
        Value *x = case_op(&c, OP_mul, case_matmul(&c, q, case_t(&c, k)), case_number(&c, 0.125), NULL, NULL);
        Value *e = case_op(&c, OP_exp, case_op(&c, OP_sub, x, case_row(&c, OP_reduce_max, x), NULL, NULL),
                           NULL, NULL, NULL);
        Value *p = case_op(&c, OP_div, e, case_row(&c, OP_sum, e), NULL, NULL);
        case_output(&c, "y", case_cast(&c, case_matmul(&c, case_cast(&c, p, DTYPE_BF16), v), DTYPE_BF16));
        compile_choices(&c, 1, MATMUL_WGMMA);
        case_close(&c);
    }
}

static void test_symbolic(void **state) {
    (void)state;
    Case c;
    case_open(&c, "sm_90a");
    DimTable *dims = c.graph->dims;
    const Dim *m = dim_symbol(dims, "M"), *n = dim_symbol(dims, "N"), *k = dim_symbol(dims, "K"),
              *eight = dim_const(dims, 8);
    assert_true(
        dim_constrain(dims, dim_mod(dims, k, eight), DIM_EQ, dim_const(dims, 0), (Span){0}, &c.diags));
    assert_true(
        dim_constrain(dims, dim_mod(dims, n, eight), DIM_EQ, dim_const(dims, 0), (Span){0}, &c.diags));
    Value *x = graph_add_input(c.graph, "x", DTYPE_BF16, 2, (const Dim *[]){m, k}, NULL, (Span){0});
    Value *w = graph_add_input(c.graph, "w", DTYPE_BF16, 2, (const Dim *[]){n, k}, NULL, (Span){0});
    Value *b = graph_add_input(c.graph, "b", DTYPE_BF16, 1, (const Dim *[]){n}, NULL, (Span){0});
    case_output(
        &c, "y",
        case_cast(&c, case_op(&c, OP_add, case_matmul(&c, x, case_t(&c, w)), b, NULL, NULL), DTYPE_BF16));
    compile_choices(&c, 1, MATMUL_WGMMA);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias_gelu),    cmocka_unit_test(test_integers),
        cmocka_unit_test(test_rounds),       cmocka_unit_test(test_two_products),
        cmocka_unit_test(test_gates),        cmocka_unit_test(test_row_statistics),
        cmocka_unit_test(test_wide_softmax), cmocka_unit_test(test_prologue),
        cmocka_unit_test(test_symbolic),     cmocka_unit_test(test_chains),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
