/* The simulator on kernels built by hand: what they compute, and which defects it reports. */
#include "kernel_support.h"

/* ---- what runs ----------------------------------------------------------------------------------------- */

static void test_vector_add(void **state) {
    (void)state;
    enum { N = 1000 };
    float x[N], y[N], z[N] = {0};
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 0.5f * (float)i;
    }
    Bench bench;
    bench_open(&bench, 64);
    DimTable *dims = bench.graph->dims;
    const Dim *n = dim_symbol(dims, "N");
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, N, false);
    KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, N, false);
    KBuffer *bz = bench_buffer(&bench, "z", DTYPE_F32, z, N, true);
    const KVar *a = k_array(B, "a", K_F32, 4, NULL), *b = k_array(B, "b", K_F32, 4, NULL);
    const KExpr *i =
        k_let_expr(B, "i", k_mul(B, k_add(B, k_mul(B, k_special(B, SPECIAL_CTA_X), I(64)), TID), I(4)));
    const KExpr *guard = k_lt(B, i, k_dim(B, n, K_I32));
    k_load(B, a, NULL, bx, i, 4, guard, CACHE_DEFAULT);
    k_load(B, b, NULL, by, i, 4, guard, CACHE_DEFAULT);
    const KExpr *j = k_for_begin(B, "j", I(0), I(4), 1, UNROLL_FULL);
    k_set_elem(B, a, j, k_add(B, k_elem(B, a, j), k_elem(B, b, j)));
    k_end(B);
    k_store(B, bz, i, a, NULL, 4, guard, CACHE_DEFAULT);
    DimBindings bindings = dim_bindings_new(bench.arena, dims);
    bindings.value[0] = N;
    bindings.known[0] = true;
    if (!bench_run_bound(&bench, 4, &bindings))
        fail_msg("%s", bench_message(&bench));
    for (int k = 0; k < N; k++)
        assert_true(z[k] == 1.5f * (float)k);
    bench_close(&bench);
}

/* Sums 256 numbers: shuffles in each warp, shared memory between warps. Without the barrier it races. */
static void build_block_sum(Bench *bench_, float *x, float *sum, bool with_barrier) {
    Bench bench = *bench_;
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 256, false);
    KBuffer *bs = bench_buffer(&bench, "sum", DTYPE_F32, sum, 1, true);
    KBuffer *parts = k_shared(B, "parts", DTYPE_F32, 8, 16);
    const KVar *v = k_variable(B, "v", K_F32, k_load_scalar(B, "loaded", bx, TID, NULL));
    for (int step = 16; step; step /= 2)
        k_set(B, v, k_add(B, k_var(B, v), k_shuffle_xor(B, k_var(B, v), step)));
    k_store(B, parts, WARP, v, NULL, 1, k_eq(B, LANE, I(0)), CACHE_DEFAULT);
    if (with_barrier)
        k_barrier(B);
    k_if_begin(B, k_eq(B, TID, I(0)));
    const KVar *total = k_variable(B, "total", K_F32, k_float(B, K_F32, 0));
    const KExpr *w = k_for_begin(B, "w", I(0), I(8), 1, UNROLL_NONE);
    k_set(B, total, k_add(B, k_var(B, total), k_load_scalar(B, "part", parts, w, NULL)));
    k_end(B);
    k_store(B, bs, I(0), total, NULL, 1, NULL, CACHE_DEFAULT);
    k_end(B);
    *bench_ = bench;
}

static void test_block_sum(void **state) {
    (void)state;
    float x[256], sum = 0, want = 0;
    for (int i = 0; i < 256; i++)
        want += x[i] = (float)(i % 7);
    Bench bench;
    bench_open(&bench, 256);
    build_block_sum(&bench, x, &sum, true);
    bench_runs(&bench, 1);
    assert_true(sum == want);
    bench_close(&bench);
}

static void test_divergence(void **state) {
    (void)state;
    int32_t out[32];
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bo = bench_buffer(&bench, "out", DTYPE_I32, out, 32, true);
    const KVar *v = k_variable(B, "v", K_I32, I(0));
    k_for_begin(B, "i", I(0), LANE, 1, UNROLL_NONE); /* as many turns as the lane's number */
    k_if_begin(B, k_lt(B, LANE, I(16)));
    k_set(B, v, k_add(B, k_var(B, v), I(1)));
    k_else(B);
    k_set(B, v, k_add(B, k_var(B, v), I(100)));
    k_end(B);
    k_end(B);
    k_store(B, bo, LANE, v, NULL, 1, NULL, CACHE_DEFAULT);
    bench_runs(&bench, 1);
    for (int i = 0; i < 32; i++)
        assert_int_equal(out[i], i < 16 ? i : 100 * i);
    bench_close(&bench);
}

/* Numbers through every element type: a load widens, a store rounds; nibbles lie two in a byte. */
static void test_elements(void **state) {
    (void)state;
    uint16_t halves[32] = {0};
    uint8_t nibbles[16];
    int32_t wide[32];
    for (int i = 0; i < 16; i++)
        nibbles[i] = (uint8_t)(i << 4 | (15 - i));
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bh = bench_buffer(&bench, "halves", DTYPE_BF16, halves, 32, true);
    KBuffer *bn = bench_buffer(&bench, "nibbles", DTYPE_I4, nibbles, 32, false);
    KBuffer *bw = bench_buffer(&bench, "wide", DTYPE_I32, wide, 32, true);
    k_store_scalar(B, bh, LANE, k_mul(B, k_convert(B, LANE, K_F32), k_float(B, K_F32, 1.001)), NULL);
    k_store_scalar(B, bw, LANE, k_load_scalar(B, "nibble", bn, LANE, NULL), NULL);
    bench_runs(&bench, 1);
    for (int i = 0; i < 32; i++) {
        assert_true(dtype_load(DTYPE_BF16, halves, i).f ==
                    dtype_round((float)((double)i * (double)1.001f), DTYPE_BF16));
        int nibble = i % 2 ? i / 2 : 15 - i / 2;
        assert_int_equal(wide[i], nibble >= 8 ? nibble - 16 : nibble);
    }
    bench_close(&bench);
}

static void test_integers_wrap(void **state) {
    (void)state;
    int32_t out[32];
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bo = bench_buffer(&bench, "out", DTYPE_I32, out, 32, true);
    const KVar *u = k_variable(B, "u", K_U32, U(0xfffffff0));
    k_set(B, u, k_add(B, k_var(B, u), k_convert(B, LANE, K_U32)));
    k_store_scalar(B, bo, LANE, k_convert(B, k_shr(B, k_var(B, u), 28), K_I32), NULL);
    bench_runs(&bench, 1);
    for (int i = 0; i < 32; i++)
        assert_int_equal(out[i], i < 16 ? 15 : 0);
    bench_close(&bench);
}

static void test_cp_async(void **state) {
    (void)state;
    float x[128], y[128];
    for (int i = 0; i < 128; i++)
        x[i] = (float)i;
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 128, false);
    KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, 128, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 128, 16);
    const KExpr *i = k_mul(B, LANE, I(4));
    /* the last lane reads 8 bytes only */
    ATOM(cp_async_16, NULL, k_operand(k_smem_addr(B, tile, i)), k_operand(k_global_addr(B, bx, i)),
         k_operand(k_select(B, k_lt(B, LANE, I(31)), U(16), U(8))));
    ATOM0(cp_async_commit, NULL);
    ATOM0(cp_async_wait, (int[]){0});
    ATOM0(warp_sync, NULL);
    const KVar *v = k_array(B, "v", K_F32, 4, NULL);
    k_load(B, v, NULL, tile, i, 4, NULL, CACHE_DEFAULT);
    k_store(B, by, i, v, NULL, 4, NULL, CACHE_DEFAULT);
    bench_runs(&bench, 1);
    for (int k = 0; k < 128; k++)
        assert_true(y[k] == (k < 126 ? (float)k : 0));
    bench_close(&bench);
}

/* ---- what is reported ---------------------------------------------------------------------------------- */

static void test_missing_barrier(void **state) {
    (void)state;
    float x[256] = {0}, sum;
    Bench bench;
    bench_open(&bench, 256);
    build_block_sum(&bench, x, &sum, false);
    bench_fails(&bench, 1, "which nobody wrote"); /* warp 0 comes first here: the others have not written */
    bench_close(&bench);
}

static void test_race(void **state) {
    (void)state;
    float x[64] = {0};
    Bench bench;
    bench_open(&bench, 64);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 64, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 64, 16);
    k_store_scalar(B, tile, TID, k_float(B, K_F32, 1), NULL);
    k_barrier(B);
    const KExpr *other = k_load_scalar(B, "other", tile, k_sub(B, I(63), TID), NULL);
    k_store_scalar(B, tile, TID, other, NULL); /* no barrier: the other warp may not have read yet */
    k_store_scalar(B, bx, TID, other, NULL);
    bench_fails(&bench, 1, "race: shared byte");
    bench_close(&bench);
}

static void test_race_in_warp(void **state) {
    (void)state;
    for (int synced = 0; synced < 2; synced++) {
        float x[32] = {0};
        Bench bench;
        bench_open(&bench, 32);
        KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 32, true);
        KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 32, 16);
        k_store_scalar(B, tile, LANE, k_convert(B, LANE, K_F32), NULL);
        if (synced)
            ATOM0(warp_sync, NULL);
        k_store_scalar(B, bx, LANE, k_load_scalar(B, "other", tile, k_sub(B, I(31), LANE), NULL), NULL);
        if (synced) {
            bench_runs(&bench, 1);
            assert_true(x[0] == 31 && x[31] == 0);
        } else {
            bench_fails(&bench, 1, "race: shared byte");
        }
        bench_close(&bench);
    }
}

static void test_race_between_blocks(void **state) {
    (void)state;
    float x[32] = {0};
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 32, true);
    k_store_scalar(B, bx, LANE, k_float(B, K_F32, 1), NULL);
    bench_fails(&bench, 2, "race: element 0 of 'x'");
    bench_close(&bench);
}

/* Block 0 clears a word by which blocks wait for each other, and meets the others. */
static void clear_signal(Bench *bench, const KBuffer *word) {
    Builder *b = &bench->b;
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_TID), k_i32(b, 0)));
    k_store_scalar(b, word, k_i32(b, 0), k_i32(b, 0), k_eq(b, k_special(b, SPECIAL_CTA_X), k_i32(b, 0)));
    KOperand blocks = k_operand(k_special(b, SPECIAL_GRID_X));
    k_atom(b, ATOM_grid_meet, NULL, &blocks, 1);
    k_end(b);
    k_barrier(b);
}

/* What another block wrote is read behind its flag alone, and only if it was raised behind the lanes' writes.
 */
static void test_flag(void **state) {
    (void)state;
    for (int defect = 0; defect < 3; defect++) {
        float x[32] = {0};
        Bench bench;
        bench_open(&bench, 32);
        bench.b.kernel->gang = 2;
        KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 32, true);
        KBuffer *parts = k_scratch(B, "parts", DTYPE_F32, bench_dim(&bench, 32), false);
        KBuffer *flag = k_scratch(B, "flag", DTYPE_I32, bench_dim(&bench, 1), true);
        clear_signal(&bench, flag);
        KOperand operands[] = {k_operand(k_global_addr(B, flag, I(0))), k_operand(k_int(B, K_U32, 1))};
        k_if_begin(B, k_eq(B, k_special(B, SPECIAL_CTA_X), I(1)));
        k_store_scalar(B, parts, LANE, k_convert(B, LANE, K_F32), NULL);
        if (defect != 1)
            ATOM0(warp_sync, NULL);
        k_if_begin(B, k_eq(B, LANE, I(0)));
        k_atom(B, ATOM_flag_raise, NULL, operands, 2);
        k_end(B);
        k_else(B);
        if (defect != 2)
            k_atom(B, ATOM_flag_wait, NULL, operands, 2);
        k_store_scalar(B, bx, LANE, k_load_scalar(B, "other", parts, k_sub(B, I(31), LANE), NULL), NULL);
        k_end(B);
        if (defect == 0) {
            bench_runs(&bench, 2);
            assert_true(x[0] == 31 && x[31] == 0);
        } else {
            bench_fails(&bench, 2, "of 'parts'");
        }
        bench_close(&bench);
    }
}

/* Two warps of one block each write a half and add to a counter, behind their lanes' writes or not; the other
 * block waits for both. */
static void test_counter(void **state) {
    (void)state;
    for (int synced = 0; synced < 2; synced++) {
        float x[64] = {0};
        Bench bench;
        bench_open(&bench, 64);
        bench.b.kernel->gang = 2;
        KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 64, true);
        KBuffer *parts = k_scratch(B, "parts", DTYPE_F32, bench_dim(&bench, 64), false);
        KBuffer *counter = k_scratch(B, "counter", DTYPE_I32, bench_dim(&bench, 1), true);
        clear_signal(&bench, counter);
        const KExpr *address = k_global_addr(B, counter, I(0));
        k_if_begin(B, k_eq(B, k_special(B, SPECIAL_CTA_X), I(1)));
        k_store_scalar(B, parts, TID, k_convert(B, TID, K_F32), NULL);
        if (synced)
            ATOM0(warp_sync, NULL);
        k_if_begin(B, k_eq(B, LANE, I(0)));
        ATOM(flag_add, NULL, k_operand(address), k_operand(U(1)));
        k_end(B);
        k_else(B);
        ATOM(flag_reach, NULL, k_operand(address), k_operand(U(2)));
        k_store_scalar(B, bx, TID, k_load_scalar(B, "other", parts, k_sub(B, I(63), TID), NULL), NULL);
        k_end(B);
        if (synced) {
            bench_runs(&bench, 2);
            assert_true(x[0] == 63 && x[63] == 0);
        } else {
            bench_fails(&bench, 2, "of 'parts'");
        }
        bench_close(&bench);
    }
}

/* Warps that draw until there is nothing left: a loop whose step is known at the end of its turn alone. */
static void test_tickets(void **state) {
    (void)state;
    enum { N = 11 };
    float x[N] = {0};
    Bench bench;
    bench_open(&bench, 96);
    bench.b.kernel->gang = 2;
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, N, true);
    KBuffer *counter = k_scratch(B, "counter", DTYPE_I32, bench_dim(&bench, 1), true);
    clear_signal(&bench, counter);
    const KExpr *address = k_global_addr(B, counter, I(0));
    const KVar *drawn = k_variable(B, "drawn", K_I32, I(0)), *advance = k_variable(B, "advance", K_I32, I(0));
    for (int turn = 0; turn < 2; turn++) {
        const KExpr *ticket = NULL;
        if (turn)
            ticket = k_for_step_begin(B, "ticket", k_shuffle_index(B, "first", k_var(B, drawn), I(0)), I(N),
                                      k_var(B, advance));
        k_if_begin(B, k_eq(B, LANE, I(0)));
        ATOM(ticket, NULL, k_reg(drawn), k_operand(address), k_operand(U(1)));
        k_end(B);
        if (!turn)
            continue;
        k_store_scalar(B, bx, ticket, k_convert(B, k_add(B, ticket, I(1)), K_F32), k_eq(B, LANE, I(0)));
        k_set(B, advance, k_sub(B, k_shuffle_index(B, "next", k_var(B, drawn), I(0)), ticket));
        k_end(B);
    }
    bench_runs(&bench, 2);
    for (int i = 0; i < N; i++)
        assert_true(x[i] == (float)(i + 1));
    bench_close(&bench);
}

/* A block that comes to the grid's barrier a second time would wait for good. */
static void test_second_meeting(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 32);
    bench.b.kernel->gang = 2;
    KBuffer *word = k_scratch(B, "word", DTYPE_I32, bench_dim(&bench, 1), true);
    clear_signal(&bench, word);
    clear_signal(&bench, word);
    bench_fails(&bench, 2, "comes to the grid's barrier a second time");
    bench_close(&bench);
}

/* Two blocks store the same elements, block b what `of_block` times b is. */
static void store_twice(Bench *bench, float x[32], int of_block) {
    bench_open(bench, 32);
    bench->b.kernel->rewrites = true;
    KBuffer *bx = bench_buffer(bench, "x", DTYPE_F32, x, 32, true);
    const KExpr *number =
        k_add(&bench->b, k_special(&bench->b, SPECIAL_TID),
              k_mul(&bench->b, k_special(&bench->b, SPECIAL_CTA_X), k_i32(&bench->b, of_block)));
    k_store_scalar(&bench->b, bx, k_special(&bench->b, SPECIAL_TID), k_convert(&bench->b, number, K_F32),
                   NULL);
}

static void test_written_twice(void **state) {
    (void)state;
    float x[32] = {0};
    Bench bench;
    store_twice(&bench, x, 0);
    bench_runs(&bench, 2);
    for (int i = 0; i < 32; i++)
        assert_true(x[i] == (float)i);
    bench_close(&bench);
    store_twice(&bench, x, 1);
    bench_fails(&bench, 2, "is written by two threads, not the same bits");
    bench_close(&bench);
}

static void test_read_of_other_block(void **state) {
    (void)state;
    float x[64] = {0};
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 64, true);
    const KExpr *cta = k_special(B, SPECIAL_CTA_X);
    const KExpr *mine = k_add(B, k_mul(B, cta, I(32)), LANE);
    const KExpr *other = k_load_scalar(B, "other", bx, k_sub(B, I(63), mine), k_eq(B, cta, I(1)));
    k_store_scalar(B, bx, mine, other, NULL);
    bench_fails(&bench, 2, "is read, and written by another thread");
    bench_close(&bench);
}

static void test_out_of_bounds(void **state) {
    (void)state;
    float x[40] = {0};
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 40, true);
    k_store_scalar(B, bx, k_add(B, TID, I(9)), k_float(B, K_F32, 1), NULL);
    bench_fails(&bench, 1, "thread 31: element 40 of 'x', which has 40");
    bench_close(&bench);

    bench_open(&bench, 32);
    bx = bench_buffer(&bench, "x", DTYPE_F32, x, 40, false);
    k_load_scalar(B, "v", bx, k_sub(B, TID, I(1)), NULL);
    bench_fails(&bench, 1, "thread 0: element -1 of 'x'");
    bench_close(&bench);
}

static void test_misaligned(void **state) {
    (void)state;
    float x[136] = {0};
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 136, false);
    const KVar *v = k_array(B, "v", K_F32, 4, NULL);
    k_load(B, v, NULL, bx, k_add(B, k_mul(B, TID, I(4)), I(2)), 4, NULL, CACHE_DEFAULT);
    bench_fails(&bench, 1, "element 2 of 'x' is accessed 4 wide: not aligned");
    bench_close(&bench);
}

/* Where nobody need have written all of it, raw loads give what is there, and NaNs behind it. */
static void test_partly_written(void **state) {
    (void)state;
    float y[128];
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, 128, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 128, 16);
    k_partial(B, tile);
    const KExpr *i = k_mul(B, LANE, I(4));
    k_store_scalar(B, tile, i, k_convert(B, LANE, K_F32), k_lt(B, LANE, I(31)));
    const KVar *words = k_array(B, "words", K_U32, 4, NULL);
    k_load_raw(B, words, NULL, tile, i, 4, NULL, CACHE_DEFAULT);
    k_store_raw(B, by, i, words, NULL, 4, NULL, CACHE_DEFAULT);
    bench_runs(&bench, 1);
    for (int k = 0; k < 128; k++)
        assert_true(k % 4 == 0 && k < 124 ? y[k] == (float)(k / 4) : y[k] != y[k]);
    bench_close(&bench);
}

static void test_uninitialized(void **state) {
    (void)state;
    float x[32] = {0};
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 32, true);
    const KVar *v = k_variable(B, "v", K_F32, NULL);
    k_if_begin(B, k_lt(B, TID, I(16)));
    k_set(B, v, k_float(B, K_F32, 1));
    k_end(B);
    k_store(B, bx, TID, v, NULL, 1, NULL, CACHE_DEFAULT);
    bench_fails(&bench, 1, "thread 16: a register is read that nobody set");
    bench_close(&bench);

    bench_open(&bench, 32);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 32, 16);
    k_store_scalar(B, tile, TID, k_float(B, K_F32, 1), k_lt(B, TID, I(31)));
    k_load_scalar(B, "v", tile, TID, NULL);
    bench_fails(&bench, 1, "('tile'[31]) is read, which nobody wrote");
    bench_close(&bench);
}

static void test_deadlock(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 64);
    k_if_begin(B, k_eq(B, WARP, I(0)));
    k_named_barrier(B, 1, 64);
    k_end(B);
    bench_fails(
        &bench, 1,
        "deadlock: all 1 warps that run wait; block (0, 0, 0) warp 0 waits for barrier 1, where 32 of 64");
    bench_close(&bench);

    bench_open(&bench, 32);
    KBuffer *bar = k_shared(B, "full", DTYPE_I64, 1, 16);
    k_if_begin(B, k_eq(B, TID, I(0)));
    ATOM(mbar_init, NULL, k_operand(k_smem_addr(B, bar, NULL)), k_operand(U(2)));
    ATOM(mbar_arrive, NULL, k_operand(k_smem_addr(B, bar, NULL)));
    k_end(B);
    ATOM0(warp_sync, NULL);
    ATOM(mbar_wait, NULL, k_operand(k_smem_addr(B, bar, NULL)), k_operand(U(0)));
    bench_fails(&bench, 1, "in phase 0 with 1 of 2 arrivals");
    bench_close(&bench);
}

/* Of all lanes, those below a number arrive. */
static void test_early_arrivals(void **state) {
    (void)state;
    for (int lanes = 1; lanes <= 2; lanes++) {
        Bench bench;
        bench_open(&bench, 32);
        KBuffer *bar = k_shared(B, "empty", DTYPE_I64, 1, 16);
        const KExpr *address = k_smem_addr(B, bar, NULL);
        k_if_begin(B, k_eq(B, TID, I(0)));
        ATOM(mbar_init, NULL, k_operand(address), k_operand(U(2)));
        k_end(B);
        ATOM0(warp_sync, NULL);
        ATOM(mbar_arrive_early, NULL, k_operand(address), k_operand(k_convert(B, LANE, K_U32)),
             k_operand(U(lanes)));
        ATOM(mbar_wait, NULL, k_operand(address), k_operand(U(0)));
        if (lanes == 2)
            bench_runs(&bench, 1);
        else
            bench_fails(&bench, 1, "in phase 0 with 1 of 2 arrivals");
        bench_close(&bench);
    }
}

static void test_divergent_barrier(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 32);
    k_if_begin(B, k_lt(B, TID, I(7)));
    k_barrier(B);
    k_end(B);
    bench_fails(&bench, 1, "all lanes of a warp execute this together; lanes 0x7f do");
    bench_close(&bench);
}

static void test_cp_async_not_waited(void **state) {
    (void)state;
    float x[128] = {0};
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 128, false);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 256, 16);
    const KExpr *i = k_mul(B, LANE, I(4));
    for (int stage = 0; stage < 2; stage++) {
        ATOM(cp_async_16, NULL, k_operand(k_smem_addr(B, tile, k_add(B, i, I(128 * stage)))),
             k_operand(k_global_addr(B, bx, i)), k_operand(U(16)));
        ATOM0(cp_async_commit, NULL);
    }
    ATOM0(cp_async_wait, (int[]){1}); /* the first stage alone */
    ATOM0(warp_sync, NULL);
    const KVar *v = k_array(B, "v", K_F32, 4, NULL);
    k_load(B, v, NULL, tile, i, 4, NULL, CACHE_DEFAULT);
    k_load(B, v, NULL, tile, k_add(B, i, I(128)), 4, NULL, CACHE_DEFAULT);
    bench_fails(&bench, 1, "race: shared byte 512 ('tile'[128]) is read while cp.async of warp 0 writes it");
    bench_close(&bench);
}

static void test_step_limit(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 32);
    const KVar *v = k_variable(B, "v", K_I32, I(0));
    k_for_begin(B, "i", I(0), I(INT32_MAX), 1, UNROLL_NONE);
    k_set(B, v, k_add(B, k_var(B, v), I(1)));
    k_end(B);
    bench_fails(&bench, 1, "more than 10000000 statements");
    bench_close(&bench);
}

static void test_unbound(void **state) {
    (void)state;
    Bench bench;
    bench_open(&bench, 32);
    k_let(B, "n", k_dim(B, dim_symbol(bench.graph->dims, "N"), K_I64));
    bench_fails(&bench, 1, "a dim parameter cannot be worked out");
    bench_close(&bench);

    bench_open(&bench, 32);
    bench_buffer(&bench, "x", DTYPE_F32, NULL, 0, false);
    bench.n_buffers = 0;
    bench_fails(&bench, 1, "no memory is given for 'x'");
    bench_close(&bench);
}

/* Two blocks of a cluster tell one another through mbarriers; without the cluster's barrier before, the
 * mbarrier may not be there. */
static void test_cluster(void **state) {
    (void)state;
    enum { UNSYNCED, SYNCED, EARLY, WAYS };
    for (int way = 0; way < WAYS; way++) {
        int32_t out[64] = {0};
        Bench bench;
        bench_open(&bench, 32);
        B->kernel->cluster[0] = 2;
        KBuffer *bo = bench_buffer(&bench, "out", DTYPE_I32, out, 64, true);
        KBuffer *bar = k_shared(B, "ready", DTYPE_I64, 1, 16);
        const KExpr *address = k_smem_addr(B, bar, NULL), *rank = k_special(B, SPECIAL_CTA_RANK);
        k_if_begin(B, k_eq(B, TID, I(0)));
        ATOM(mbar_init, NULL, k_operand(address), k_operand(U(32)));
        ATOM0(fence_mbar_init, NULL);
        k_end(B);
        if (way != UNSYNCED) {
            ATOM0(cluster_arrive, NULL);
            ATOM0(cluster_wait, NULL);
        }
        const KExpr *other = k_convert(B, k_sub(B, I(1), rank), K_U32);
        if (way == EARLY)
            ATOM(mbar_arrive_remote_early, NULL, k_operand(address), k_operand(k_convert(B, LANE, K_U32)),
                 k_operand(U(32)), k_operand(other));
        else
            ATOM(mbar_arrive_remote, NULL, k_operand(address), k_operand(other));
        ATOM(mbar_wait, NULL, k_operand(address), k_operand(U(0)));
        k_store_scalar(B, bo, k_add(B, k_mul(B, rank, I(32)), LANE), rank, NULL);
        ATOM0(cluster_arrive, NULL);
        ATOM0(cluster_wait, NULL);
        if (way != UNSYNCED) {
            bench_runs(&bench, 2);
            for (int i = 0; i < 64; i++)
                assert_int_equal(out[i], i / 32);
        } else {
            bench_fails(&bench, 2, "is no mbarrier yet");
        }
        bench_close(&bench);
    }
}

/* Each block of a cluster reads what the other has put down: behind the cluster's barrier, in front of it,
 * and with a second round of writes that does or does not wait for the readers. */
static void test_cluster_load(void **state) {
    (void)state;
    enum { SYNCED, EARLY_READ, EARLY_WRITE, NO_BLOCK, WAYS };
    for (int way = 0; way < WAYS; way++) {
        int32_t out[64] = {0};
        Bench bench;
        bench_open(&bench, 32);
        B->kernel->cluster[0] = 2;
        KBuffer *bo = bench_buffer(&bench, "out", DTYPE_I32, out, 64, true);
        KBuffer *own = k_shared(B, "own", DTYPE_I32, 128, 16);
        const KExpr *rank = k_convert(B, k_special(B, SPECIAL_CTA_RANK), K_I32);
        const KExpr *at = k_mul(B, LANE, I(4)), *other = k_sub(B, I(1), rank);
        k_store_scalar(B, own, at, k_add(B, k_mul(B, rank, I(100)), LANE), NULL);
        for (int i = 1; i < 4; i++)
            k_store_scalar(B, own, k_add(B, at, I(i)), I(0), NULL);
        if (way != EARLY_READ) {
            ATOM0(cluster_arrive, NULL);
            ATOM0(cluster_wait, NULL);
        }
        const KVar *words = k_array(B, "words", K_U32, 4, NULL);
        ATOM(cluster_load, NULL, k_regs(words, 0, 4), k_operand(k_smem_addr(B, own, at)),
             k_operand(k_convert(B, way == NO_BLOCK ? I(2) : other, K_U32)));
        if (way == SYNCED) {
            ATOM0(cluster_arrive, NULL);
            ATOM0(cluster_wait, NULL);
        }
        if (way == SYNCED || way == EARLY_WRITE) /* the second block's turn comes when the first has read */
            k_store_scalar(B, own, at, I(7), way == SYNCED ? NULL : k_eq(B, rank, I(1)));
        k_store_scalar(B, bo, k_add(B, k_mul(B, rank, I(32)), LANE),
                       k_convert(B, k_elem_at(B, words, 0), K_I32), NULL);
        ATOM0(cluster_arrive, NULL);
        ATOM0(cluster_wait, NULL);
        static const char *const faults[WAYS] = {NULL, "which nobody wrote", "is written while",
                                                 "block 2 of the cluster, which does not exist"};
        if (way == SYNCED) {
            bench_runs(&bench, 2);
            for (int i = 0; i < 64; i++)
                assert_int_equal(out[i], i < 32 ? 100 + i : i - 32);
        } else {
            bench_fails(&bench, 2, faults[way]);
        }
        bench_close(&bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_add),        cmocka_unit_test(test_block_sum),
        cmocka_unit_test(test_divergence),        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_integers_wrap),     cmocka_unit_test(test_cp_async),
        cmocka_unit_test(test_missing_barrier),   cmocka_unit_test(test_race),
        cmocka_unit_test(test_race_in_warp),      cmocka_unit_test(test_race_between_blocks),
        cmocka_unit_test(test_written_twice),     cmocka_unit_test(test_flag),
        cmocka_unit_test(test_counter),           cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_second_meeting),    cmocka_unit_test(test_read_of_other_block),
        cmocka_unit_test(test_out_of_bounds),     cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_uninitialized),     cmocka_unit_test(test_partly_written),
        cmocka_unit_test(test_deadlock),          cmocka_unit_test(test_early_arrivals),
        cmocka_unit_test(test_divergent_barrier), cmocka_unit_test(test_cp_async_not_waited),
        cmocka_unit_test(test_step_limit),        cmocka_unit_test(test_unbound),
        cmocka_unit_test(test_cluster),           cmocka_unit_test(test_cluster_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
