/* The verifier: one broken kernel for each invariant at the head of kernel_verify.c, and the words that it is
 * refused with. */
#include "kernel_support.h"

static float memory[64];

typedef struct Case {
    int rule;
    void (*build)(Bench *bench, KBuffer *x, KBuffer *tile);
    const char *text;
} Case;

#undef B
#define B (&bench->b)
#define UNUSED(x) (void)(x)

static void types_differ(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_let(B, "v", k_scalar(B, OP_add, TID, k_convert(B, TID, K_I64), NULL));
}

static void result_differs(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KExpr *sum = (KExpr *)k_add(B, TID, TID);
    sum->type = K_F32;
    k_let(B, "v", sum);
}

static void not_defined(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_let(B, "v", k_scalar(B, OP_exp, TID, NULL, NULL));
}

static void too_many_nodes(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    const KExpr *v = k_var(B, k_variable(B, "v", K_U32, U(1)));
    for (int i = 0; i < 40; i++)
        v = k_add(B, v, v);
    k_let(B, "w", v);
}

static void too_deep(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    const KExpr *v = k_var(B, k_variable(B, "v", K_U32, U(1)));
    for (int i = 0; i < 5000; i++)
        v = k_bit_and(B, v, k_convert(B, TID, K_U32));
    k_let(B, "w", v);
}

static void bad_bitcast(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_let(B, "v", k_bitcast(B, TID, K_F64));
}

static void bad_unpack(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_let(B, "v", k_unpack(B, DTYPE_BF16, k_convert(B, TID, K_U32), 2));
}

static void used_before(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    const KVar *v = k_variable(B, "v", K_I32, NULL);
    KBlock *block = bench->b.open.at[0];
    KStmt *declared = block->at[--block->n];
    k_let(B, "w", k_var(B, v));
    vec_push(bench->arena, block, declared);
}

static void used_outside(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_if_begin(B, k_eq(B, TID, I(3)));
    const KVar *v = k_variable(B, "v", K_I32, I(1));
    k_end(B);
    k_set(B, v, I(2));
}

static void declared_twice(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_let(B, "v", TID);
    KBlock *block = bench->b.open.at[0];
    KStmt *declared = block->at[block->n - 1];
    vec_push(bench->arena, block, declared);
}

static void let_is_set(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_set(B, k_let(B, "v", TID), I(1));
}

static void let_is_loaded(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    k_load(B, k_let(B, "v", k_float(B, K_F32, 0)), NULL, x, I(0), 1, NULL, CACHE_DEFAULT);
}

static void dynamic_index(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    const KVar *v = k_array(B, "v", K_I32, 4, I(0));
    const KExpr *i = k_for_begin(B, "i", I(0), I(4), 1, UNROLL_AUTO);
    k_set_elem(B, v, i, I(1));
    k_end(B);
}

static void index_outside(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    const KVar *v = k_array(B, "v", K_I32, 4, I(0));
    const KExpr *i = k_for_begin(B, "i", I(0), I(4), 1, UNROLL_FULL);
    k_set_elem(B, v, k_add(B, i, I(4)), I(1));
    k_end(B);
}

static void unrolled_bounds(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    const KVar *v = k_variable(B, "v", K_I32, I(0));
    const KExpr *i = k_for_begin(B, "i", I(0), TID, 1, UNROLL_FULL);
    k_set(B, v, i);
    k_end(B);
}

static void bad_step(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_for_begin(B, "i", I(0), I(4), 0, UNROLL_NONE);
    k_end(B);
}

static void too_wide(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    k_load(B, k_array(B, "v", K_F32, 8, NULL), NULL, x, I(0), 8, NULL, CACHE_DEFAULT);
}

static void not_aligned(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KBuffer *odd = k_shared_at(B, "odd", DTYPE_F32, 8, 8);
    k_load(B, k_array(B, "v", K_F32, 4, NULL), NULL, odd, I(0), 4, NULL, CACHE_DEFAULT);
}

static void not_multiple(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    k_load(B, k_array(B, "v", K_F32, 4, NULL), NULL, x, I(2), 4, NULL, CACHE_DEFAULT);
}

static void wrong_register(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    k_load(B, k_variable(B, "v", K_I32, NULL), NULL, x, I(0), 1, NULL, CACHE_DEFAULT);
}

static void raw_element(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x);
    k_load_raw(B, k_variable(B, "v", K_F32, NULL), NULL, tile, I(0), 1, NULL, CACHE_DEFAULT);
}

static void splits_byte(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KBuffer *nibbles = k_shared(B, "nibbles", DTYPE_I4, 8, 16);
    k_store_scalar(B, nibbles, I(0), I(1), NULL);
}

static void not_written(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    k_store_scalar(B, x, I(0), k_float(B, K_F32, 1), NULL);
}

static void bad_guard(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    k_load_scalar(B, "v", x, I(0), TID);
}

static void bad_condition(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_if_begin(B, TID);
    k_end(B);
}

static void bad_shape(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_atom(B, ATOM_setmaxnreg_inc, (int[]){100}, NULL, 0);
}

static void bad_type_shape(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KOperand operands[] = {k_reg(k_array(B, "c", K_F32, 4, k_float(B, K_F32, 0))),
                           k_reg(k_array(B, "a", K_U32, 4, U(0))), k_reg(k_array(B, "b", K_U32, 2, U(0)))};
    k_atom(B, ATOM_mma_16bit, (int[]){DTYPE_F32}, operands, 3);
}

static void no_operands(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_atom(B, ATOM_mbar_arrive, NULL, NULL, 0);
}

static void too_few_registers(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x);
    KOperand operands[] = {k_reg(k_array(B, "a", K_U32, 2, NULL)), k_operand(k_smem_addr(B, tile, NULL))};
    k_atom(B, ATOM_ldmatrix_x4, NULL, operands, 2);
}

static void operand_type(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KOperand operands[] = {k_operand(k_convert(B, TID, K_U64))};
    k_atom(B, ATOM_mbar_arrive, NULL, operands, 1);
}

static void operand_not_constant(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KOperand operands[] = {k_operand(I(1)), k_operand(TID)};
    k_atom(B, ATOM_bar_sync, NULL, operands, 2);
}

static void atom_writes_let(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    KOperand operands[] = {k_reg(k_let(B, "v", k_convert(B, TID, K_U32))), k_operand(U(1)), k_operand(I(1))};
    k_atom(B, ATOM_shuffle_xor, NULL, operands, 3);
}

static void barrier_number(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_named_barrier(B, 16, 64);
}

static void barrier_threads(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_named_barrier(B, 1, 96);
}

static void bad_threads(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    B->kernel->threads = 48;
}

static void bad_cluster(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    B->kernel->cluster[0] = B->kernel->cluster[1] = 4;
}

static void shared_outside(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    B->kernel->smem_bytes = 16;
}

static void shared_too_large(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_shared(B, "big", DTYPE_F32, 60000, 16);
}

static void name_taken(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_let(B, "v", TID);
    k_let(B, "w", TID);
    B->kernel->vars.at[1]->name = "v";
}

static void not_a_parameter(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    B->kernel->params.n = 0;
}

static void add_map(Bench *bench, KBuffer *x, int box, int64_t stride) {
    KTensorMap map = {.buffer = x, .elem = DTYPE_F32, .rank = 2, .box = {box, 1}, .swizzle = SWIZZLE_128};
    map.dims[0] = map.dims[1] = bench_dim(bench, 8);
    map.strides[0] = bench_dim(bench, 1);
    map.strides[1] = bench_dim(bench, stride);
    k_tensor_map(B, "map", map);
}

static void map_too_wide(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    add_map(bench, x, 64, 64);
}

static void map_stride(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    add_map(bench, x, 32, 6);
}

static void map_box(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(tile);
    add_map(bench, x, 512, 8);
}

static const Case cases[] = {
    {1, types_differ, "'add' has operands of types i32 and i64"},
    {1, result_differs, "'add' gives i32, not f32"},
    {1, not_defined, "'exp' is not defined on i32"},
    {1, too_many_nodes, "an expression has more than 1048576 nodes"},
    {1, too_deep, "nodes or 4096 levels"},
    {1, bad_bitcast, "bits of i32 do not become f64"},
    {1, bad_unpack, "there is no element 2 of bf16 in a word"},
    {2, used_before, "'v' is used where it is not declared"},
    {2, used_outside, "'v' is used where it is not declared"},
    {2, declared_twice, "'v' is declared twice"},
    {3, let_is_set, "'v' is set once, where it is declared"},
    {3, let_is_loaded, "'v' is set once, where it is declared"},
    {4, dynamic_index, "an index of array 'v' is not constant after unrolling"},
    {4, index_outside, "elements from 4 of 'v' are used, which has 4"},
    {5, unrolled_bounds, "a loop to be unrolled has bounds that are not constant"},
    {5, bad_step, "a loop's step is 0"},
    {6, too_wide, "an access is 8 elements of 32 bits"},
    {6, not_aligned, "an access of 16 bytes to 'odd', which is aligned to 8"},
    {6, not_multiple, "index 2 is no multiple of the width 4"},
    {7, wrong_register, "'v' has type i32 where f32 is due"},
    {7, raw_element, "'v' has type f32 where u32 is due"},
    {8, splits_byte, "an access of 1 i4 splits a byte"},
    {9, not_written, "'x' promises that nothing is written to it"},
    {10, bad_guard, "a guard has type i32 where bool is due"},
    {10, bad_condition, "a condition has type i32 where bool is due"},
    {11, bad_shape, "the registers are not a multiple of 8 from 24 to 256"},
    {11, bad_type_shape, "the element type is neither f16 nor bf16"},
    {12, no_operands, "it has 0 operands where the row says 1"},
    {12, too_few_registers, "operand 0 has 2 registers where the row says 4"},
    {12, operand_type, "operand 0 has type u64 where the row says \"r\""},
    {12, operand_not_constant, "operand 1 is not an integer constant"},
    {13, atom_writes_let, "operand 0 writes 'v', which is set once"},
    {14, barrier_number, "barriers are numbered 0 to 15"},
    {14, barrier_threads, "a barrier's threads are a multiple of 32, at most the block's"},
    {15, bad_threads, "a block has 48 threads"},
    {15, bad_cluster, "a cluster has 16 blocks"},
    {16, shared_outside, "shared buffer 'tile' ends behind shared memory"},
    {16, shared_too_large, "bytes of shared memory; sm_90a has 232448"},
    {17, name_taken, "the name 'v' is taken twice"},
    {17, not_a_parameter, "global buffer 'x' is not one parameter"},
    {18, map_too_wide, "rows of 256 bytes do not fit its swizzle"},
    {18, map_stride, "stride 1 is not a multiple of 16 bytes"},
    {18, map_box, "has a box outside 1 to 256"},
};

static void check_case(const Case *c, const char *target) {
    Bench bench;
    bench_open(&bench, 64);
    bench.b.kernel->target = target_find(target);
    KBuffer *x = bench_buffer(&bench, "x", DTYPE_F32, memory, 64, false);
    KBuffer *tile = k_shared(&bench.b, "tile", DTYPE_BF16, 64, 16);
    c->build(&bench, x, tile);
    assert_null(builder_finish(&bench.b));
    bool found = false;
    for (size_t i = 0; i < bench.diags.list.n; i++) {
        assert_int_equal(bench.diags.list.at[i].id, DIAG_INTERNAL);
        found = found || strstr(bench.diags.list.at[i].message, c->text);
    }
    if (!found)
        fail_msg("rule %d: '%s' is not in '%s'", c->rule, c->text, bench_message(&bench));
    bench_close(&bench);
}

static void test_rules(void **state) {
    (void)state;
    bool seen[19] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(&cases[i], "sm_90a");
        seen[cases[i].rule] = true;
    }
    for (int rule = 1; rule <= 18; rule++)
        assert_true(seen[rule]);
}

static void a_fence(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_atom(B, ATOM_fence_async, NULL, NULL, 0);
}

static void a_wgmma_fence(Bench *bench, KBuffer *x, KBuffer *tile) {
    UNUSED(x), UNUSED(tile);
    k_atom(B, ATOM_wgmma_fence, NULL, NULL, 0);
}

static void test_targets(void **state) {
    (void)state;
    check_case(&(Case){11, a_fence, "it needs sm_90; the target is sm_80"}, "sm_80");
    check_case(&(Case){11, a_wgmma_fence, "the target has no wgmma"}, "sm_120");
}

/* What is right is not refused: arrays of arrays of constants through lets and nested loops. */
static void test_valid(void **state) {
    (void)state;
    Bench bench_, *bench = &bench_;
    bench_open(bench, 64);
    const KVar *v = k_array(B, "v", K_F32, 32, k_float(B, K_F32, 0));
    const KExpr *i = k_for_begin(B, "i", I(0), I(4), 1, UNROLL_FULL);
    const KExpr *base = k_let_expr(B, "base", k_mul(B, i, I(8)));
    const KExpr *j = k_for_begin(B, "j", base, k_add(B, base, I(8)), 2, UNROLL_FULL);
    k_set_elem(B, v, k_add(B, j, k_mod(B, i, I(2))), k_convert(B, TID, K_F32));
    k_end(B);
    k_end(B);
    assert_non_null(builder_finish(B));
    bench_close(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
