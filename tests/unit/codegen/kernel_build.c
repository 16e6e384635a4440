/* What the builder folds, names and lays out. */
#include "kernel_support.h"

#include "codegen/kernel_print.h"

static const char *text_of(Bench *bench, const KExpr *expr) {
    Text text = text_new(bench->arena);
    kernel_print_expr(&text, bench->b.kernel, expr);
    return text.at;
}

#define EXPECT(expr, want) assert_string_equal(text_of(&bench, (expr)), want)

static void test_folds_integers(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    const KExpr *x = k_var(B, k_variable(B, "x", K_I32, I(3)));
    EXPECT(k_add(B, x, I(0)), "x");
    EXPECT(k_add(B, I(0), x), "x");
    EXPECT(k_add(B, k_add(B, x, I(3)), I(-3)), "x");
    EXPECT(k_add(B, I(2), x), "x + 2");
    EXPECT(k_sub(B, x, x), "0");
    EXPECT(k_sub(B, x, k_var(B, x->var)), "0");
    EXPECT(k_mul(B, x, I(1)), "x");
    EXPECT(k_mul(B, x, I(0)), "0");
    EXPECT(k_mul(B, k_mul(B, x, I(4)), I(8)), "x*32");
    EXPECT(k_div(B, k_mul(B, x, I(8)), I(8)), "x");
    EXPECT(k_div(B, k_mul(B, x, I(32)), I(8)), "x*4");
    EXPECT(k_div(B, k_mul(B, x, I(8)), I(32)), "x/4");
    EXPECT(k_div(B, k_div(B, x, I(4)), I(8)), "x/32");
    EXPECT(k_mod(B, k_mul(B, x, I(32)), I(8)), "0");
    EXPECT(k_mod(B, k_mod(B, x, I(32)), I(8)), "x%8");
    const KExpr *middle = k_mul(B, k_mod(B, k_div(B, x, I(64)), I(3)), I(64));
    EXPECT(k_add(B, middle, k_mod(B, x, I(64))), "x%192");
    EXPECT(k_add(B, k_add(B, k_mul(B, k_div(B, x, I(192)), I(192)), middle), k_mod(B, x, I(64))), "x");
    EXPECT(k_add(B, middle, k_mod(B, x, I(32))), "x/64%3*64 + x%32");
    EXPECT(k_div(B, I(7), I(2)), "3");
    EXPECT(k_mod(B, I(7), I(4)), "3");
    EXPECT(k_int(B, K_I32, INT64_C(0x100000001)), "1");
    EXPECT(k_add(B, I(INT32_MAX), I(1)), "-2147483648");
    EXPECT(k_min(B, I(3), I(5)), "3");
    EXPECT(k_mul_hi(B, U(0xffffffff), U(0xffffffff)), "4294967294");
    EXPECT(k_shr(B, k_int(B, K_U64, -1), 63), "1");
    bench_close(&bench);
}

static void test_uses_ranges(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    const KExpr *x = k_var(B, k_variable(B, "x", K_I32, I(3)));
    EXPECT(k_div(B, LANE, I(32)), "0");
    EXPECT(k_mod(B, LANE, I(32)), "lane");
    EXPECT(k_div(B, LANE, I(4)), "lane/4");
    EXPECT(k_div(B, k_add(B, k_mul(B, x, I(32)), LANE), I(32)), "x");
    EXPECT(k_mod(B, k_add(B, k_mul(B, x, I(32)), LANE), I(32)), "lane");
    EXPECT(k_mod(B, k_add(B, k_mul(B, x, I(32)), x), I(32)), "(x*32 + x)%32"); /* x may be negative */
    EXPECT(k_lt(B, TID, I(128)), "true");
    EXPECT(k_lt(B, TID, I(127)), "tid < 127");
    EXPECT(k_ge(B, LANE, I(0)), "true");
    EXPECT(k_ge(B, x, I(0)), "x >= 0");
    EXPECT(k_min(B, LANE, I(100)), "lane");
    /* what wraps is left alone */
    const KExpr *u = k_var(B, k_variable(B, "u", K_U32, U(3)));
    EXPECT(k_div(B, k_mul(B, u, U(8)), U(8)), "u*8/8");
    bench_close(&bench);
}

/* What a let stands for is seen where a quotient comes out even, unless something in it is set twice. */
static void test_divides_lets(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    const KExpr *lane_col = k_mul(B, k_mod(B, LANE, I(4)), I(2));
    const KExpr *i = k_for_begin(B, "i", I(0), I(100), 1, UNROLL_NONE);
    const KExpr *word = k_for_begin(B, "word", I(0), I(4), 1, UNROLL_FULL);
    const KExpr *own = k_add(B, lane_col, k_mul(B, k_div(B, word, I(2)), I(8)));
    const KExpr *col = k_let_expr(B, "col", k_add(B, k_add(B, k_mul(B, i, I(256)), own), I(144)));
    EXPECT(k_div(B, col, I(128)), "i*2 + 1");
    EXPECT(k_div(B, col, I(96)), "col/96");
    EXPECT(k_div(B, col, I(16)), "i*16 + 9");
    EXPECT(k_div(B, col, I(4)), "col/4");
    const KExpr *moving = k_var(B, k_variable(B, "moving", K_I32, I(0)));
    const KExpr *other = k_let_expr(B, "other", k_add(B, k_mul(B, moving, I(128)), own));
    EXPECT(k_div(B, other, I(128)), "other/128");
    const KExpr *below = k_let_expr(B, "below", k_add(B, k_mul(B, i, I(128)), I(-1)));
    EXPECT(k_div(B, below, I(128)), "below/128");
    k_end(B);
    k_end(B);
    bench_close(&bench);
}

static void test_folds_conditions(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    const KExpr *x = k_var(B, k_variable(B, "x", K_I32, I(3)));
    const KExpr *f = k_var(B, k_variable(B, "f", K_F32, k_float(B, K_F32, 1.5)));
    const KExpr *c = k_lt(B, x, I(4)), *yes = k_int(B, K_BOOL, 1), *no = k_int(B, K_BOOL, 0);
    assert_ptr_equal(k_and(B, NULL, c), c);
    assert_ptr_equal(k_and(B, c, NULL), c);
    assert_null(k_and(B, NULL, NULL));
    assert_ptr_equal(k_and(B, yes, c), c);
    EXPECT(k_and(B, c, no), "false");
    EXPECT(k_not(B, c), "x >= 4");
    EXPECT(k_not(B, k_lt(B, f, f)), "not(f < f)"); /* NaN */
    const KExpr *both = k_and(B, c, k_eq(B, x, I(2)));
    assert_ptr_equal(k_not(B, k_not(B, both)), both);
    assert_ptr_equal(k_select(B, yes, x, I(9)), x);
    EXPECT(k_select(B, c, x, I(9)), "select(x < 4, x, 9)");
    EXPECT(k_add(B, f, k_float(B, K_F32, 0)), "f + 0"); /* -0 + 0 is 0 */
    bench_close(&bench);
}

static void test_changes_types(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    const KExpr *x = k_var(B, k_variable(B, "x", K_I32, I(3)));
    EXPECT(k_convert(B, k_convert(B, x, K_I64), K_I32), "x");
    EXPECT(k_convert(B, k_convert(B, x, K_F32), K_I32), "i32(f32(x))");
    EXPECT(k_convert(B, k_float(B, K_F32, -3.7), K_I32), "-3");
    EXPECT(k_convert(B, k_float(B, K_F32, -3.7), K_U32), "0");
    EXPECT(k_convert(B, k_float(B, K_F32, 1e20), K_U32), "4294967295");
    EXPECT(k_bitcast(B, k_float(B, K_F32, 1), K_U32), "1065353216");
    EXPECT(k_bitcast(B, U(0x40000000), K_F32), "2");
    EXPECT(k_round(B, k_float(B, K_F32, 1.001), DTYPE_BF16), "1");
    const KExpr *halves[] = {k_float(B, K_F32, 1), k_float(B, K_F32, -2)};
    EXPECT(k_pack(B, DTYPE_BF16, halves), "3221241728"); /* 0xc0003f80 */
    bench_close(&bench);
}

static void test_dims(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    DimTable *dims = bench.graph->dims;
    const Dim *m = dim_symbol(dims, "M"), *n = dim_symbol(dims, "N"), *sixteen = dim_const(dims, 16);
    EXPECT(k_dim(B, sixteen, K_I32), "16");
    EXPECT(k_dim(B, m, K_I64), "M");
    EXPECT(k_dim(B, m, K_I32), "i32(M)");
    EXPECT(k_dim(B, dim_div(dims, m, sixteen), K_I64), "M/16");
    EXPECT(k_dim(B, dim_sub(dims, m, dim_const(dims, 3)), K_I64), "M - 3");
    /* a floor, where the dividend may be negative */
    const char *floor = text_of(&bench, k_dim(B, dim_div(dims, dim_sub(dims, m, n), sixteen), K_I64));
    assert_non_null(strstr(floor, "select("));
    assert_int_equal(B->kernel->params.n, 2); /* one parameter a symbol */
    bench_close(&bench);
}

static void test_names(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 128);
    assert_string_equal(k_variable(B, "x", K_I32, NULL)->name, "x");
    assert_string_equal(k_variable(B, "x", K_I32, NULL)->name, "x_2");
    assert_string_equal(k_variable(B, "x", K_I32, NULL)->name, "x_3");
    assert_string_equal(k_variable(B, "for", K_I32, NULL)->name, "for_2");
    assert_string_equal(k_variable(B, "exp", K_I32, NULL)->name, "exp_2");
    assert_string_equal(k_variable(B, "1.5 wide", K_I32, NULL)->name, "v1_5_wide");
    assert_string_equal(k_variable(B, "", K_I32, NULL)->name, "v");
    bench_close(&bench);
}

static void test_memory(void **state) {
    (void)state;
    Bench bench;
    float memory[4];
    bench_open(&bench, 128);
    KBuffer *x = bench_buffer(&bench, "x", DTYPE_F32, memory, 4, false);
    assert_ptr_equal(k_global(B, x->value, true), x);
    assert_true(x->written);
    assert_int_equal(B->kernel->params.n, 1);
    KBuffer *a = k_shared(B, "a", DTYPE_I8, 3, 16), *b = k_shared(B, "b", DTYPE_BF16, 8, 1024);
    assert_int_equal(a->offset, 0);
    assert_int_equal(b->offset, 1024);
    KBuffer *c = k_shared_at(B, "c", DTYPE_F32, 1024, 512);
    assert_int_equal(c->align, 512);
    assert_int_equal(B->kernel->smem_bytes, 512 + 4096);
    assert_int_equal(B->kernel->smem_align, 1024);
    bench_close(&bench);
}

static void test_blocks(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 64);
    k_else(B);
    assert_int_equal(bench.diags.errors, 1);
    k_end(B);
    assert_int_equal(bench.diags.errors, 2);
    k_if_begin(B, k_lt(B, TID, I(7)));
    assert_null(builder_finish(B));
    bench_close(&bench);
}

static const char *kernel_text(Bench *bench, int64_t blocks) {
    bench->b.kernel->grid[0] = bench_dim(bench, blocks);
    Kernel *kernel = builder_finish(&bench->b);
    assert_non_null(kernel);
    Text text = text_new(bench->arena);
    kernel_print(&text, kernel);
    return text.at;
}

static void test_prints(void **state) {
    (void)state;
    Bench bench;
    float memory[64];
    bench_open(&bench, 64);
    KBuffer *x = bench_buffer(&bench, "x", DTYPE_F32, memory, 64, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_BF16, 64, 128);
    const KVar *v = k_array(B, "v", K_F32, 4, NULL);
    const KExpr *i = k_let_expr(B, "i", k_mul(B, TID, I(4)));
    k_comment(B, "a load");
    k_load(B, v, NULL, x, i, 4, k_lt(B, i, I(64)), CACHE_STREAM);
    const KExpr *j = k_for_begin(B, "j", I(0), I(4), 1, UNROLL_FULL);
    k_set_elem(B, v, j, k_scalar(B, OP_exp, k_elem(B, v, j), NULL, NULL));
    k_end(B);
    k_role_begin(B, "writer", k_lt(B, WARP, I(1)));
    k_store(B, tile, i, v, NULL, 4, NULL, CACHE_DEFAULT);
    k_else(B);
    k_barrier(B);
    k_end(B);
    assert_string_equal(kernel_text(&bench, 3),
                        "kernel kernel: 64 threads, grid (3, 1, 1), 128 bytes shared aligned to 128\n"
                        "param x: f32, align 16, written\n"
                        "shared tile: bf16[64] at 0, align 128\n"
                        "\n"
                        "let warp: i32 = warp_index\n"
                        "var v: f32[4]\n"
                        "let i: i32 = tid*4\n"
                        "-- a load\n"
                        "v[0..4) = x[i..+4) stream if i < 64\n"
                        "for j: i32 = 0 to 4 unrolled {\n"
                        "    v[j] = exp(v[j])\n"
                        "}\n"
                        "role writer: if warp < 1 {\n"
                        "    tile[i..+4) = v[0..4)\n"
                        "} else {\n"
                        "    bar_sync(0, 64)\n"
                        "}\n");
    bench_close(&bench);
}

/* What turns of unrolled loops make constant comes last, through the lets it stands in; what is only in lets
 * then goes. */
static void test_indices(void **state) {
    (void)state;
    Bench bench;
    float memory[4096];
    bench_open(&bench, 64);
    KBuffer *x = bench_buffer(&bench, "x", DTYPE_F32, memory, 4096, true);
    const KVar *v = k_variable(B, "v", K_F32, NULL), *moving = k_variable(B, "moving", K_I32, I(0));
    const KExpr *lane_row = k_let_expr(B, "lane_row", k_div(B, TID, I(8)));
    const KExpr *h = k_for_begin(B, "h", I(0), I(2), 1, UNROLL_FULL);
    const KExpr *turn = k_for_begin(B, "turn", I(0), I(2), 1, UNROLL_NONE);
    const KExpr *row = k_let_expr(B, "row", k_add(B, lane_row, k_mul(B, h, I(8))));
    const KExpr *col = k_let_expr(B, "col", k_add(B, turn, I(4)));
    const KExpr *last = k_let_expr(B, "last", k_add(B, k_var(B, moving), h));
    k_load(B, v, NULL, x, k_add(B, k_mul(B, row, I(64)), col), 1, NULL, CACHE_DEFAULT);
    k_load(B, v, NULL, x, k_mod(B, row, I(4)), 1, NULL, CACHE_DEFAULT); /* no sum */
    k_set(B, moving, I(1));
    k_load(B, v, NULL, x, last, 1, NULL, CACHE_DEFAULT); /* `moving` is another by now */
    k_end(B);
    k_for_begin(B, "g", I(0), I(2), 1, UNROLL_FULL);
    k_let(B, "unread", k_let_expr(B, "half", k_div(B, lane_row, I(2))));
    k_end(B);
    k_end(B);
    const char *body = strstr(kernel_text(&bench, 1), "var v");
    assert_non_null(body);
    assert_string_equal(body, "var v: f32\n"
                              "var moving: i32 = 0\n"
                              "let lane_row: i32 = tid/8\n"
                              "for h: i32 = 0 to 2 unrolled {\n"
                              "    for turn: i32 = 0 to 2 {\n"
                              "        let row: i32 = lane_row + h*8\n"
                              "        let col: i32 = turn + 4\n"
                              "        let last: i32 = moving + h\n"
                              "        v = x[lane_row*64 + col + h*512]\n"
                              "        v = x[row%4]\n"
                              "        moving = 1\n"
                              "        v = x[last]\n"
                              "    }\n"
                              "}\n");
    bench_close(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folds_integers), cmocka_unit_test(test_uses_ranges),
        cmocka_unit_test(test_divides_lets),   cmocka_unit_test(test_folds_conditions),
        cmocka_unit_test(test_changes_types),  cmocka_unit_test(test_dims),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_memory),
        cmocka_unit_test(test_blocks),         cmocka_unit_test(test_prints),
        cmocka_unit_test(test_indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
