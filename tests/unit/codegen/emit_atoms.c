/* Every row of atoms.def, printed by both backends and assembled; and matrix products in a loop, which the
 * assembler may not serialize. */
#include "tests/unit/codegen/emit_support.h"

/* Static parameters that an atom's row accepts. */
static void atoms_shape(AtomId atom, int shape[4]) {
    static const struct {
        AtomId atom;
        int shape[4];
    } shapes[] = {
        {ATOM_wgmma_16bit, {64, DTYPE_BF16, 0, 1}},
        {ATOM_wgmma_16bit_rs, {64, DTYPE_F16, 1}},
        {ATOM_wgmma_tf32, {32}},
        {ATOM_wgmma_tf32_rs, {32}},
        {ATOM_wgmma_fp8, {64, DTYPE_E4M3, DTYPE_E5M2}},
        {ATOM_wgmma_int8, {32, DTYPE_U8, DTYPE_U8}},
        {ATOM_settle_f32, {64}},
        {ATOM_settle_i32, {4}},
        {ATOM_setmaxnreg_inc, {232}},
        {ATOM_setmaxnreg_dec, {40}},
        {ATOM_cp_async, {8}},
        {ATOM_mma_16bit, {DTYPE_F16}},
        {ATOM_fma_pairs, {DTYPE_BF16}},
        {ATOM_mul_pairs, {DTYPE_F16}},
        {ATOM_mma_int8, {DTYPE_U8, DTYPE_I8}},
        {ATOM_mma_fp8, {DTYPE_E5M2, DTYPE_E4M3}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].atom == atom)
            memcpy(shape, shapes[i].shape, sizeof shapes[i].shape);
}

static const KExpr *atoms_input(Builder *b, char constraint, const KBuffer *tile, const KBuffer *x, int i) {
    switch (constraint) {
    case 'r': return i < 2 ? k_smem_addr(b, tile, k_i32(b, 32 * i)) : k_int(b, K_U32, 16);
    case 'l': return k_global_addr(b, x, k_i32(b, 32 * i));
    case 'd': return k_float(b, K_F64, 1);
    case 'n': return k_i32(b, 32 * i);
    default: return k_float(b, K_F32, 1);
    }
}

static KType atoms_register_type(char constraint) {
    return constraint == 'f' ? K_F32 : constraint == 'd' ? K_F64 : constraint == 'l' ? K_U64 : K_U32;
}

/* One kernel with the atom in it; what it writes is stored. */
static Kernel *atoms_kernel(Bench *bench, AtomId atom, const char *target) {
    Builder b = bench_builder(bench, target, 128);
    const KBuffer *x = k_global(&b, bench_value(bench, "x", DTYPE_F32), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", DTYPE_F32), true);
    const KBuffer *tile = k_shared(&b, "tile", DTYPE_F32, 1024, 1024);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    b.kernel->gang = atom == ATOM_grid_meet ? 2 : 1;
    b.kernel->min_blocks = 1; /* setmaxnreg needs a known count of registers at entry */
    int shape[4] = {0};
    atoms_shape(atom, shape);
    AtomOperand wanted[ATOM_MAX_OPERANDS];
    KOperand operands[ATOM_MAX_OPERANDS];
    const KVar *written[ATOM_MAX_OPERANDS];
    int n = atom_operands(atom, shape, wanted), n_written = 0;
    for (int i = 0; i < n; i++) {
        KType type = atoms_register_type(wanted[i].constraint);
        if (!wanted[i].is_out && wanted[i].count == 1) {
            operands[i] = k_operand(atoms_input(&b, wanted[i].constraint, tile, x, i));
            continue;
        }
        const KExpr *fill = k_convert(&b, k_i32(&b, 0), type);
        const KVar *registers =
            k_array(&b, "registers", type, wanted[i].count, wanted[i].is_in ? fill : NULL);
        operands[i] = k_reg(registers);
        if (wanted[i].is_out)
            written[n_written++] = registers;
    }
    bool is_wgmma = atom >= ATOM_wgmma_16bit && atom <= ATOM_wgmma_int8;
    if (is_wgmma)
        k_atom(&b, ATOM_wgmma_fence, NULL, NULL, 0);
    k_atom(&b, atom, shape, operands, n);
    if (is_wgmma) {
        int groups[4] = {0};
        k_atom(&b, ATOM_wgmma_commit, NULL, NULL, 0);
        k_atom(&b, ATOM_wgmma_wait, groups, NULL, 0);
    }
    for (int i = 0; i < n_written; i++)
        for (int j = 0; j < written[i]->count; j++)
            k_store_scalar(&b, y, k_add(&b, tid, k_i32(&b, 128 * j)),
                           k_convert(&b, k_elem_at(&b, written[i], j), K_F32), NULL);
    return bench_finish(bench, &b);
}

static void atoms_every_row_compiles(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};
    for (int atom = 0; atom < ATOM_COUNT; atom++) {
        if (atom == ATOM_wgmma_fence || atom == ATOM_wgmma_commit || atom == ATOM_wgmma_wait)
            continue; /* around each product; alone they make the assembler insert the others */
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            if (atom_info((AtomId)atom)->sm > target_find(targets[i])->sm)
                continue;
            if (i == 1 || i == 2) /* what sm_80 has, they have; only their own rows are worth the time */
                if (atom_info((AtomId)atom)->sm < target_find(targets[i])->sm)
                    continue;
            Bench bench = bench_new();
            bench_compile(&bench, atoms_kernel(&bench, (AtomId)atom, targets[i]));
            bench_free(&bench);
        }
    }
}

/* The main loop of a matmul: two stages of products in flight over the back edge. */
static Kernel *atoms_wgmma_loop(Bench *bench, int n) {
    Builder b = bench_builder(bench, "sm_90a", 128);
    const KBuffer *x = k_global(&b, bench_value(bench, "x", DTYPE_BF16), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", DTYPE_F32), true);
    const KBuffer *tile = k_shared(&b, "tile", DTYPE_BF16, 65536, 1024);
    int map = k_tensor_map(
        &b, "x_map",
        (KTensorMap){.buffer = x,
                     .elem = DTYPE_BF16,
                     .rank = 2,
                     .dims = {dim_const(bench->graph->dims, 4096), dim_const(bench->graph->dims, 4096)},
                     .strides = {dim_const(bench->graph->dims, 1), dim_const(bench->graph->dims, 4096)},
                     .box = {64, 64},
                     .swizzle = SWIZZLE_128});
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KVar *acc = k_array(&b, "acc", K_F32, n / 2, k_float(&b, K_F32, 0));
    const KExpr *descriptor = k_let_expr(
        &b, "descriptor",
        k_bit_or(&b, k_convert(&b, k_smem_addr(&b, tile, k_i32(&b, 0)), K_U64), k_int(&b, K_U64, 1ll << 62)));
    k_role_begin(&b, "issues the copies", k_eq(&b, tid, k_i32(&b, 0)));
    KOperand prefetch[] = {k_operand(k_tensor_map_addr(&b, map))};
    k_atom(&b, ATOM_tensor_map_prefetch, NULL, prefetch, 1);
    KOperand load[] = {k_operand(k_smem_addr(&b, tile, k_i32(&b, 0))), k_operand(k_tensor_map_addr(&b, map)),
                       k_operand(k_smem_addr(&b, tile, k_i32(&b, 32768))), k_operand(k_i32(&b, 0)),
                       k_operand(k_i32(&b, 64))};
    k_atom(&b, ATOM_tma_load_2d, NULL, load, 5);
    k_end(&b);
    const KExpr *k = k_for_begin(&b, "k", k_i32(&b, 0), k_i32(&b, 64), 1, UNROLL_NONE);
    k_atom(&b, ATOM_wgmma_fence, NULL, NULL, 0);
    int shape[4] = {n, DTYPE_BF16, 0, 0};
    for (int i = 0; i < 4; i++) {
        const KExpr *at = k_add(&b, descriptor, k_int(&b, K_U64, 2 * i));
        KOperand operands[] = {k_reg(acc), k_operand(at), k_operand(k_add(&b, at, k_int(&b, K_U64, 1024))),
                               k_operand(k_convert(&b, k_lt(&b, k_i32(&b, 0), k), K_I32))};
        k_atom(&b, ATOM_wgmma_16bit, shape, operands, 4);
    }
    k_atom(&b, ATOM_wgmma_commit, NULL, NULL, 0);
    int groups[4] = {1};
    k_atom(&b, ATOM_wgmma_wait, groups, NULL, 0);
    k_end(&b);
    groups[0] = 0;
    k_atom(&b, ATOM_wgmma_wait, groups, NULL, 0);
    const KExpr *i = k_for_begin(&b, "i", k_i32(&b, 0), k_i32(&b, n / 2), 4, UNROLL_FULL);
    k_store(&b, y, k_add(&b, k_mul(&b, tid, k_i32(&b, n / 2)), i), acc, i, 4, NULL, CACHE_STREAM);
    k_end(&b);
    return bench_finish(bench, &b);
}

static void atoms_wgmma_stays_asynchronous(void **state) {
    (void)state;
    for (int n = 64; n <= 256; n *= 2) {
        Bench bench = bench_new();
        const char *cuda = bench_compile(&bench, atoms_wgmma_loop(&bench, n));
        assert_non_null(strstr(cuda, "#pragma unroll 1"));
        assert_non_null(strstr(cuda, "tma_load_2d(smem_address(tile), tensor_map_address(&x_map),"));
        bench_free(&bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atoms_every_row_compiles),
        cmocka_unit_test(atoms_wgmma_stays_asynchronous),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
