/* Matrix products on the simulator against plain C: fragments of mma.sync, and pipelines of TMA, mbarriers
 * and wgmma. */
#include "kernel_support.h"

#include <math.h>

#include "codegen/simulate_internal.h"

/* Small integers: every type holds them, and sums are exact. */
static int small(int i, int j, int seed) {
    return (i * 7 + j * 13 + i * j + seed) % 7 - 3;
}

static int small_unsigned(int i, int j, int seed) {
    return (i * 7 + j * 13 + i * j + seed) % 7;
}

static void fill(DType type, void *at, int rows, int cols, int seed) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            int value = type == DTYPE_U8 ? small_unsigned(i, j, seed) : small(i, j, seed);
            Number number = {.i = value};
            if (dtype_is_float(type))
                number.f = value;
            dtype_store(type, at, (int64_t)i * cols + j, number);
        }
}

static double element(DType type, const void *at, int64_t index) {
    Number number = dtype_load(type, at, index);
    return dtype_is_float(type) ? number.f : (double)number.i;
}

/* The simulator's quick conversions against ir's, for every bit pattern. */
static void test_quick_elements(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_E4M3, DTYPE_E5M2, DTYPE_I8, DTYPE_U8};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t half = (uint16_t)bits;
            Number quick = sim_element_load(types[t], &half, 0), slow = dtype_load(types[t], &half, 0);
            if (dtype_is_float(types[t]) ? quick.f != slow.f && !(isnan(quick.f) && isnan(slow.f))
                                         : quick.i != slow.i)
                fail_msg("%s %#x is %g, not %g", dtype_name(types[t]), bits, quick.f, slow.f);
        }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 65536 / 8 - 3) {
        uint32_t word = (uint32_t)bits;
        float value;
        uint16_t quick, slow;
        memcpy(&value, &word, sizeof value);
        sim_element_store(DTYPE_BF16, &quick, 0, (Number){.f = value}, K_F32);
        dtype_store(DTYPE_BF16, &slow, 0, (Number){.f = dtype_round(value, DTYPE_BF16)});
        assert_int_equal(quick, slow);
    }
}

/* ---- mma.sync ------------------------------------------------------------------------------------------ */

/* 16 x 8 x k with A [16, k] and B [8, k] in shared memory: ldmatrix gives chunks of 4 bytes whatever the
 * type. */
static void check_mma(AtomId atom, const int *shape, DType a_type, DType b_type) {
    uint8_t a[16 * 64], b[8 * 64];
    int k = 32 / (dtype_bits(a_type) / 8); /* two 16-byte chunks: a row of A is 32 bytes */
    float c[16 * 8];
    int32_t ci[16 * 8];
    bool is_integer = atom == ATOM_mma_int8;
    fill(a_type, a, 16, k, 1);
    fill(b_type, b, 8, k, 2);
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *ba = bench_buffer(&bench, "a", a_type, a, 16 * k, false);
    KBuffer *bb = bench_buffer(&bench, "b", b_type, b, 8 * k, false);
    KBuffer *bc = is_integer ? bench_buffer(&bench, "c", DTYPE_I32, ci, 128, true)
                             : bench_buffer(&bench, "c", DTYPE_F32, c, 128, true);
    KBuffer *sa = k_shared(B, "sa", a_type, 16 * k, 16), *sb = k_shared(B, "sb", b_type, 8 * k, 16);
    const KVar *words = k_array(B, "words", K_U32, 4, NULL);
    int chunk = k / 2; /* elements of 16 bytes */
    const KExpr *at = k_mul(B, LANE, I(chunk));
    k_load_raw(B, words, NULL, ba, at, chunk, NULL, CACHE_DEFAULT);
    k_store_raw(B, sa, at, words, NULL, chunk, NULL, CACHE_DEFAULT);
    k_if_begin(B, k_lt(B, LANE, I(16)));
    k_load_raw(B, words, NULL, bb, at, chunk, NULL, CACHE_DEFAULT);
    k_store_raw(B, sb, at, words, NULL, chunk, NULL, CACHE_DEFAULT);
    k_end(B);
    k_barrier(B);
    /* matrices 0 to 3 of A: rows 0-7, rows 8-15, then their second chunks; of B: first chunk, second chunk */
    const KExpr *row = k_mod(B, LANE, I(16)), *half = k_div(B, LANE, I(16));
    const KVar *fa = k_array(B, "fa", K_U32, 4, NULL), *fb = k_array(B, "fb", K_U32, 2, NULL);
    ATOM(ldmatrix_x4, NULL, k_reg(fa),
         k_operand(k_smem_addr(B, sa, k_add(B, k_mul(B, row, I(k)), k_mul(B, half, I(chunk))))));
    const KExpr *brow = k_mod(B, LANE, I(8)), *bhalf = k_mod(B, k_div(B, LANE, I(8)), I(2));
    ATOM(ldmatrix_x2, NULL, k_reg(fb),
         k_operand(k_smem_addr(B, sb, k_add(B, k_mul(B, brow, I(k)), k_mul(B, bhalf, I(chunk))))));
    KType type = is_integer ? K_I32 : K_F32;
    const KVar *acc = k_array(B, "acc", type, 4, is_integer ? I(5) : k_float(B, K_F32, 5));
    KOperand operands[] = {k_reg(acc), k_reg(fa), k_reg(fb)};
    k_atom(B, atom, shape, operands, 3);
    for (int r = 0; r < 4; r++) {
        const KExpr *i = k_add(B, k_div(B, LANE, I(4)), I(8 * (r / 2)));
        const KExpr *j = k_add(B, k_mul(B, k_mod(B, LANE, I(4)), I(2)), I(r % 2));
        k_store_scalar(B, bc, k_add(B, k_mul(B, i, I(8)), j), k_elem_at(B, acc, r), NULL);
    }
    bench_runs(&bench, 1);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double want = 5;
            for (int kk = 0; kk < k; kk++)
                want += element(a_type, a, i * k + kk) * element(b_type, b, j * k + kk);
            double got = is_integer ? ci[i * 8 + j] : c[i * 8 + j];
            if (got != want)
                fail_msg("%s: c[%d][%d] is %g, not %g", atom_info(atom)->name, i, j, got, want);
        }
    bench_close(&bench);
}

static void test_mma(void **state) {
    (void)state;
    check_mma(ATOM_mma_16bit, (int[]){DTYPE_BF16}, DTYPE_BF16, DTYPE_BF16);
    check_mma(ATOM_mma_16bit, (int[]){DTYPE_F16}, DTYPE_F16, DTYPE_F16);
    check_mma(ATOM_mma_tf32, NULL, DTYPE_TF32, DTYPE_TF32);
    check_mma(ATOM_mma_int8, (int[]){DTYPE_I8, DTYPE_U8}, DTYPE_I8, DTYPE_U8);
    check_mma(ATOM_mma_fp8, (int[]){DTYPE_E4M3, DTYPE_E5M2}, DTYPE_E4M3, DTYPE_E5M2);
}

/* f64: a register an element, and what f32 would not hold. */
static void test_mma_f64(void **state) {
    (void)state;
    enum { M = 16, N = 8, K = 8 };
    double a[M * K], b[N * K], c[M * N];
    fill(DTYPE_F64, a, M, K, 1);
    fill(DTYPE_F64, b, N, K, 2);
    a[0] += 0x1p-40;
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *ba = bench_buffer(&bench, "a", DTYPE_F64, a, M * K, false);
    KBuffer *bb = bench_buffer(&bench, "b", DTYPE_F64, b, N * K, false);
    KBuffer *bc = bench_buffer(&bench, "c", DTYPE_F64, c, M * N, true);
    const KExpr *g = k_div(B, LANE, I(4)), *t = k_mod(B, LANE, I(4));
    const KVar *acc = k_array(B, "acc", K_F64, 4, k_float(B, K_F64, 5));
    const KVar *fa = k_array(B, "fa", K_F64, 4, NULL), *fb = k_array(B, "fb", K_F64, 2, NULL);
    for (int r = 0; r < 4; r++) {
        const KExpr *row = k_add(B, g, I(8 * (r % 2))), *k = k_add(B, t, I(4 * (r / 2)));
        k_load(B, fa, I(r), ba, k_add(B, k_mul(B, row, I(K)), k), 1, NULL, CACHE_DEFAULT);
    }
    for (int r = 0; r < 2; r++)
        k_load(B, fb, I(r), bb, k_add(B, k_mul(B, g, I(K)), k_add(B, t, I(4 * r))), 1, NULL, CACHE_DEFAULT);
    KOperand operands[] = {k_reg(acc), k_reg(fa), k_reg(fb)};
    k_atom(B, ATOM_mma_f64, NULL, operands, 3);
    for (int r = 0; r < 4; r++) {
        const KExpr *i = k_add(B, g, I(8 * (r / 2)));
        const KExpr *j = k_add(B, k_mul(B, t, I(2)), I(r % 2));
        k_store_scalar(B, bc, k_add(B, k_mul(B, i, I(N)), j), k_elem_at(B, acc, r), NULL);
    }
    bench_runs(&bench, 1);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 5;
            for (int k = 0; k < K; k++)
                want += a[i * K + k] * b[j * K + k];
            assert_true(c[i * N + j] == want);
        }
    bench_close(&bench);
}

/* Four 8x8 matrices through stmatrix transposed and ldmatrix transposed, or plain, come back; one
 * transposition transposes. */
static void check_stmatrix(bool store_transposed, bool load_transposed) {
    uint16_t out[256];
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bo = bench_buffer(&bench, "out", DTYPE_F16, out, 256, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F16, 256, 16);
    const KVar *in = k_array(B, "in", K_U32, 4, NULL), *back = k_array(B, "back", K_U32, 4, NULL);
    for (int i = 0; i < 4; i++) /* element (r, c) of matrix i holds the bits 64 i + 8 r + c */
    {
        const KExpr *first = k_add(B, k_mul(B, k_convert(B, LANE, K_U32), U(2)), U(64 * i));
        k_set_elem(B, in, I(i), k_bit_or(B, first, k_shl(B, k_add(B, first, U(1)), 16)));
    }
    const KExpr *row = k_smem_addr(B, tile, k_mul(B, LANE, I(8)));
    if (store_transposed)
        ATOM(stmatrix_x4_trans, NULL, k_operand(row), k_reg(in));
    else
        ATOM(stmatrix_x4, NULL, k_operand(row), k_reg(in));
    ATOM0(warp_sync, NULL);
    if (load_transposed)
        ATOM(ldmatrix_x4_trans, NULL, k_reg(back), k_operand(row));
    else
        ATOM(ldmatrix_x4, NULL, k_reg(back), k_operand(row));
    for (int i = 0; i < 4; i++)
        k_store_raw(B, bo, k_add(B, k_mul(B, LANE, I(2)), I(64 * i)), back, I(i), 2, NULL, CACHE_DEFAULT);
    bench_runs(&bench, 1);
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++)
                assert_int_equal(out[64 * i + 8 * r + c], store_transposed == load_transposed
                                                              ? 64 * i + 8 * r + c
                                                              : 64 * i + 8 * c + r);
    bench_close(&bench);
}

static void test_stmatrix(void **state) {
    (void)state;
    check_stmatrix(false, false);
    check_stmatrix(true, true);
    check_stmatrix(false, true);
    check_stmatrix(true, false);
}

/* ---- TMA and wgmma ------------------------------------------------------------------------------------- */

/* What a pipeline gets wrong on purpose. */
typedef enum Defect {
    DEFECT_NONE,
    DEFECT_EARLY_RELEASE, /* the stage is released before wgmma is waited for */
    DEFECT_NO_FULL_WAIT,  /* the copy is not waited for */
    DEFECT_NO_EMPTY_WAIT, /* the producer does not wait for the stage */
    DEFECT_NO_FENCE,      /* accumulators are not fenced from wgmma */
    DEFECT_EARLY_READ,    /* accumulators are read before wgmma is waited for */
    DEFECT_EARLY_FENCE,   /* A's registers are set behind the fence */
    DEFECT_EARLY_WRITE,   /* A's registers are written before wgmma is waited for */
    DEFECT_WRONG_BYTES,   /* more bytes are expected than come */
    DEFECT_THREE_WARPS,   /* the fourth warp of the warpgroup stays away */
    DEFECT_NO_INIT_FENCE, /* mbarriers are not fenced for TMA */
} Defect;

typedef struct Product {
    AtomId atom;
    DType a, b;
    int n, k;
    KSwizzle swizzle;
    bool a_mn_major, b_mn_major;
    Defect defect;
} Product;

enum { M = 64, STAGES = 2, PRODUCT_MAX = 128 * 1024 };

/* One operand: [mn, k] in memory, or [k, mn] if mn_major; a stage holds `depth` elements of k. */
typedef struct Operand {
    int map;
    KBuffer *tile;
    int mn, depth, size, width; /* width: bytes of a row in shared memory */
    int box_mn, box_k;          /* elements of one copy */
    bool mn_major;
    KSwizzle swizzle;
} Operand;

static int operand_bytes(const Operand *o) {
    return o->mn * o->depth * o->size;
}

static Operand operand_new(Bench *bench_, const char *name, DType type, void *at, int mn, int k, int depth,
                           bool mn_major, KSwizzle swizzle) {
    Bench bench = *bench_;
    Operand o = {.mn = mn,
                 .depth = depth,
                 .size = dtype_bits(type) / 8,
                 .width = 16 << swizzle,
                 .mn_major = mn_major,
                 .swizzle = swizzle};
    KBuffer *buffer = bench_buffer(&bench, name, type, at, (int64_t)mn * k, false);
    o.tile = k_shared(B, "tile", type, (int64_t)STAGES * mn * depth, 1024);
    o.box_mn = mn_major ? o.width / o.size : mn;
    o.box_k = mn_major ? depth : o.width / o.size;
    int inner = mn_major ? mn : k, outer = mn_major ? k : mn;
    KTensorMap map = {.buffer = buffer, .elem = type, .rank = 2, .swizzle = swizzle};
    map.dims[0] = bench_dim(&bench, inner);
    map.dims[1] = bench_dim(&bench, outer);
    map.strides[0] = bench_dim(&bench, 1);
    map.strides[1] = bench_dim(&bench, inner);
    map.box[0] = mn_major ? o.box_mn : o.box_k;
    map.box[1] = mn_major ? o.box_k : o.box_mn;
    o.map = k_tensor_map(B, "map", map);
    *bench_ = bench;
    return o;
}

/* Boxes lie one behind the other: along k if K-major, along mn if MN-major. */
static void operand_load(Bench *bench_, const Operand *o, const KExpr *stage, const KExpr *k,
                         const KExpr *bar) {
    Bench bench = *bench_;
    int boxes = o->mn_major ? o->mn / o->box_mn : o->depth / o->box_k;
    for (int i = 0; i < boxes; i++) {
        const KExpr *to = k_add(B, k_mul(B, stage, I(o->mn * o->depth)), I(i * o->box_mn * o->box_k));
        const KExpr *at_k = o->mn_major ? k : k_add(B, k, I(i * o->box_k)),
                    *at_mn = I(o->mn_major ? i * o->box_mn : 0);
        ATOM(tma_load_2d, NULL, k_operand(k_smem_addr(B, o->tile, to)),
             k_operand(k_tensor_map_addr(B, o->map)), k_operand(bar), k_operand(o->mn_major ? at_mn : at_k),
             k_operand(o->mn_major ? at_k : at_mn));
    }
    *bench_ = bench;
}

/* The descriptor of the operand from element k of the stage on. */
static const KExpr *operand_descriptor(Bench *bench_, const Operand *o, const KExpr *stage, int k) {
    Bench bench = *bench_;
    static const uint64_t modes[] = {0, 3, 2, 1};
    uint64_t leading, stride;
    int64_t skip; /* bytes */
    int bytes = k * o->size;
    if (o->mn_major) {
        leading = o->swizzle == SWIZZLE_NONE ? 128 : (uint64_t)(o->width * o->box_k);
        stride = o->swizzle == SWIZZLE_NONE ? (uint64_t)(o->width * o->box_k) : (uint64_t)(8 * o->width);
        skip = k * o->width;
    } else {
        leading = (uint64_t)(o->box_mn * 16);
        stride = (uint64_t)(8 * o->width);
        skip = bytes / o->width * o->width * o->mn + bytes % o->width;
    }
    const KExpr *address = k_add(B, k_smem_addr(B, o->tile, k_mul(B, stage, I(o->mn * o->depth))), U(skip));
    const KExpr *start = k_shr(B, k_convert(B, address, K_U64), 4);
    const KExpr *result = k_bit_or(
        B, start,
        k_int(B, K_U64, (int64_t)(leading / 16 << 16 | stride / 16 << 32 | modes[o->swizzle] << 62)));
    *bench_ = bench;
    return result;
}

/* A's elements from k on, for 32 bytes of k, into words 4 i and so on of `fragment` as m64k16 wants them,
 * packed in pairs, or m64k8. */
static void fragment_load(Bench *bench_, const KVar *fragment, const KBuffer *memory, DType type,
                          int row_length, const KExpr *k, int i) {
    Bench bench = *bench_;
    for (int word = 0; word < 4; word++) {
        const KExpr *row = k_add(B, k_add(B, k_mul(B, WARP, I(16)), k_div(B, LANE, I(4))), I(word % 2 * 8));
        int each = 32 / dtype_bits(type);
        const KExpr *at = k_add(B, k_mul(B, row, I(row_length)), k_mul(B, k_mod(B, LANE, I(4)), I(each)));
        at = k_add(B, k_add(B, at, k), I(each * (8 * i + word / 2 * 4)));
        const KExpr *pair[2];
        for (int e = 0; e < each; e++)
            pair[e] = k_load_scalar(B, e ? "high" : "low", memory, k_add(B, at, I(e)), NULL);
        k_set_elem(B, fragment, I(4 * i + word),
                   each == 1 ? k_bitcast(B, pair[0], K_U32) : k_pack(B, type, pair));
    }
    *bench_ = bench;
}

static const KExpr *barrier_address(Bench *bench_, const KBuffer *bars, const KExpr *stage) {
    return k_smem_addr(&bench_->b, bars, stage);
}

/* Warps 0 to 3 multiply, warp 4 copies. */
static void build_product(Bench *bench_, const Product *p, void *a, void *b, void *c) {
    Bench bench = *bench_;
    bool is_integer = p->atom == ATOM_wgmma_int8;
    int size = dtype_bits(p->a) / 8, k_step = 32 / size,
        depth = p->swizzle == SWIZZLE_NONE ? k_step : 128 / size;
    if (p->swizzle == SWIZZLE_32 || p->swizzle == SWIZZLE_64)
        depth = 64 / size;
    Operand oa = operand_new(&bench, "a", p->a, a, M, p->k, depth, p->a_mn_major, p->swizzle);
    Operand ob = operand_new(&bench, "b", p->b, b, p->n, p->k, depth, p->b_mn_major, p->swizzle);
    bool in_registers = p->atom == ATOM_wgmma_16bit_rs || p->atom == ATOM_wgmma_tf32_rs;
    const KBuffer *rows =
        in_registers ? bench_buffer(&bench, "rows", p->a, a, (int64_t)M * p->k, false) : NULL;
    KBuffer *bc = bench_buffer(&bench, "c", is_integer ? DTYPE_I32 : DTYPE_F32, c, (int64_t)M * p->n, true);
    KBuffer *full = k_shared(B, "full", DTYPE_I64, STAGES, 8),
            *empty = k_shared(B, "empty", DTYPE_I64, STAGES, 8);
    k_if_begin(B, k_eq(B, TID, I(0)));
    for (int s = 0; s < STAGES; s++) {
        ATOM(mbar_init, NULL, k_operand(barrier_address(&bench, full, I(s))), k_operand(U(1)));
        ATOM(mbar_init, NULL, k_operand(barrier_address(&bench, empty, I(s))),
             k_operand(U(p->defect == DEFECT_THREE_WARPS ? 3 : 4)));
    }
    if (p->defect != DEFECT_NO_INIT_FENCE)
        ATOM0(fence_mbar_init, NULL);
    k_end(B);
    k_barrier(B);
    const KExpr *tiles = I(p->k / depth);

    k_role_begin(B, "producer", k_eq(B, WARP, I(4)));
    k_if_begin(B, k_eq(B, LANE, I(0)));
    const KExpr *t = k_for_begin(B, "t", I(0), tiles, 1, UNROLL_NONE);
    const KExpr *stage = k_let_expr(B, "stage", k_mod(B, t, I(STAGES)));
    const KExpr *turn = k_convert(B, k_mod(B, k_div(B, t, I(STAGES)), I(2)), K_U32);
    if (p->defect != DEFECT_NO_EMPTY_WAIT)
        ATOM(mbar_wait, NULL, k_operand(barrier_address(&bench, empty, stage)),
             k_operand(k_xor(B, turn, U(1))));
    const KExpr *bar = k_let_expr(B, "bar", barrier_address(&bench, full, stage));
    int bytes = operand_bytes(&oa) + operand_bytes(&ob) + (p->defect == DEFECT_WRONG_BYTES ? 16 : 0);
    ATOM(mbar_expect_tx, NULL, k_operand(bar), k_operand(U(bytes)));
    operand_load(&bench, &oa, stage, k_mul(B, t, I(depth)), bar);
    operand_load(&bench, &ob, stage, k_mul(B, t, I(depth)), bar);
    k_end(B);
    k_end(B);

    k_else(B);
    if (p->defect == DEFECT_THREE_WARPS)
        k_if_begin(B, k_lt(B, WARP, I(3)));
    const KVar *acc = k_array(B, "acc", is_integer ? K_I32 : K_F32, p->n / 2, NULL);
    const KVar *fragment = in_registers ? k_array(B, "fragment", K_U32, 4 * depth / k_step, NULL) : NULL;
    t = k_for_begin(B, "t", I(0), tiles, 1, UNROLL_NONE);
    stage = k_let_expr(B, "stage", k_mod(B, t, I(STAGES)));
    turn = k_convert(B, k_mod(B, k_div(B, t, I(STAGES)), I(2)), K_U32);
    if (p->defect != DEFECT_NO_FULL_WAIT)
        ATOM(mbar_wait, NULL, k_operand(barrier_address(&bench, full, stage)), k_operand(turn));
    if (p->defect == DEFECT_EARLY_FENCE)
        ATOM0(wgmma_fence, NULL);
    for (int k = 0; in_registers && k < depth; k += k_step)
        fragment_load(&bench, fragment, rows, p->a, p->k, k_mul(B, t, I(depth)), k / k_step);
    if (p->defect != DEFECT_NO_FENCE && p->defect != DEFECT_EARLY_FENCE)
        ATOM0(wgmma_fence, NULL);
    int shape[4] = {p->n, p->a, p->b};
    if (p->atom == ATOM_wgmma_16bit) {
        shape[2] = p->a_mn_major;
        shape[3] = p->b_mn_major;
    }
    if (p->atom == ATOM_wgmma_16bit_rs)
        shape[2] = p->b_mn_major;
    for (int k = 0; k < depth; k += k_step) {
        const KExpr *keeps = k ? U(1) : k_convert(B, k_lt(B, I(0), t), K_U32);
        KOperand operands[] = {k_reg(acc),
                               in_registers ? k_regs(fragment, 4 * k / k_step, 4)
                                            : k_operand(operand_descriptor(&bench, &oa, stage, k)),
                               k_operand(operand_descriptor(&bench, &ob, stage, k)), k_operand(keeps)};
        k_atom(B, p->atom, shape, operands, 4);
    }
    ATOM0(wgmma_commit, NULL);
    const KExpr *released = barrier_address(&bench, empty, stage);
    if (p->defect == DEFECT_EARLY_RELEASE) {
        k_if_begin(B, k_eq(B, LANE, I(0)));
        ATOM(mbar_arrive, NULL, k_operand(released));
        k_end(B);
    }
    if (p->defect == DEFECT_EARLY_READ)
        k_variable(B, "early", K_F32, k_elem_at(B, acc, 0));
    if (p->defect == DEFECT_EARLY_WRITE)
        k_set_elem(B, fragment, I(0), U(0));
    ATOM0(wgmma_wait, (int[]){0});
    if (p->defect != DEFECT_EARLY_RELEASE) {
        k_if_begin(B, k_eq(B, LANE, I(0)));
        ATOM(mbar_arrive, NULL, k_operand(released));
        k_end(B);
    }
    k_end(B);
    for (int r = 0; r < p->n / 2; r++) {
        const KExpr *i = k_add(B, k_add(B, k_mul(B, WARP, I(16)), k_div(B, LANE, I(4))), I(8 * (r / 2 % 2)));
        const KExpr *j = k_add(B, k_mul(B, k_mod(B, LANE, I(4)), I(2)), I(r / 4 * 8 + r % 2));
        k_store_scalar(B, bc, k_add(B, k_mul(B, i, I(p->n)), j), k_elem_at(B, acc, r), NULL);
    }
    if (p->defect == DEFECT_THREE_WARPS)
        k_end(B);
    k_end(B);
    *bench_ = bench;
}

static void check_product(Product p, const char *defect) {
    static _Alignas(16) uint8_t a[PRODUCT_MAX], b[PRODUCT_MAX], c[M * 256 * 4];
    bool is_integer = p.atom == ATOM_wgmma_int8;
    fill(p.a, a, p.a_mn_major ? p.k : M, p.a_mn_major ? M : p.k, 3);
    fill(p.b, b, p.b_mn_major ? p.k : p.n, p.b_mn_major ? p.n : p.k, 4);
    memset(c, 0, sizeof c);
    Bench bench;
    bench_open(&bench, 160);
    build_product(&bench, &p, a, b, c);
    if (defect) {
        bench_fails(&bench, 1, defect);
        bench_close(&bench);
        return;
    }
    bench_runs(&bench, 1);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < p.n; j++) {
            double want = 0, got = element(is_integer ? DTYPE_I32 : DTYPE_F32, c, i * p.n + j);
            for (int k = 0; k < p.k; k++)
                want += element(p.a, a, p.a_mn_major ? k * M + i : i * p.k + k) *
                        element(p.b, b, p.b_mn_major ? k * p.n + j : j * p.k + k);
            if (got != want)
                fail_msg("%s: c[%d][%d] is %g, not %g", atom_info(p.atom)->name, i, j, got, want);
        }
    bench_close(&bench);
}

static void test_wgmma(void **state) {
    (void)state;
    const Product bf16 = {.atom = ATOM_wgmma_16bit,
                          .a = DTYPE_BF16,
                          .b = DTYPE_BF16,
                          .n = 64,
                          .k = 192,
                          .swizzle = SWIZZLE_128};
    Product p = bf16;
    check_product(p, NULL);
    p.n = 128;
    p.k = 320;
    check_product(p, NULL);
    for (int swizzle = SWIZZLE_NONE; swizzle <= SWIZZLE_128; swizzle++) {
        p = bf16;
        p.swizzle = (KSwizzle)swizzle;
        check_product(p, NULL);
        p.b_mn_major = true;
        check_product(p, NULL);
        p.a_mn_major = true;
        p.n = 128;
        check_product(p, NULL);
    }
    p = bf16;
    p.a = p.b = DTYPE_F16;
    check_product(p, NULL);
    p = bf16;
    p.atom = ATOM_wgmma_16bit_rs;
    check_product(p, NULL);
    p.a = p.b = DTYPE_F16;
    p.b_mn_major = true;
    check_product(p, NULL);
    p = (Product){
        .atom = ATOM_wgmma_tf32, .a = DTYPE_TF32, .b = DTYPE_TF32, .n = 72, .k = 96, .swizzle = SWIZZLE_128};
    check_product(p, NULL);
    p.atom = ATOM_wgmma_tf32_rs;
    check_product(p, NULL);
    check_product((Product){.atom = ATOM_wgmma_fp8,
                            .a = DTYPE_E4M3,
                            .b = DTYPE_E5M2,
                            .n = 64,
                            .k = 384,
                            .swizzle = SWIZZLE_128},
                  NULL);
    check_product(
        (Product){
            .atom = ATOM_wgmma_int8, .a = DTYPE_U8, .b = DTYPE_U8, .n = 96, .k = 384, .swizzle = SWIZZLE_64},
        NULL);
}

static void test_wgmma_defects(void **state) {
    (void)state;
    Product p = {.atom = ATOM_wgmma_16bit,
                 .a = DTYPE_BF16,
                 .b = DTYPE_BF16,
                 .n = 64,
                 .k = 320,
                 .swizzle = SWIZZLE_128};
    static const struct {
        Defect defect;
        const char *text;
    } cases[] = {
        {DEFECT_EARLY_RELEASE, "race: shared byte"},
        {DEFECT_NO_FULL_WAIT, "which nobody wrote"},
        {DEFECT_NO_EMPTY_WAIT, "gets more than its 1 arrivals in a phase"},
        {DEFECT_NO_FENCE, "was touched and not fenced"},
        {DEFECT_EARLY_READ, "read before its wgmma is waited for"},
        {DEFECT_WRONG_BYTES, "and 16 bytes to come"},
        {DEFECT_THREE_WARPS, "executed different wgmma instructions"},
        {DEFECT_NO_INIT_FENCE, "its initialization was not fenced"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p.defect = cases[i].defect;
        check_product(p, cases[i].text);
    }
    p.atom = ATOM_wgmma_16bit_rs;
    p.defect = DEFECT_EARLY_FENCE;
    check_product(p, "register of A 0 was touched and not fenced");
    p.defect = DEFECT_EARLY_WRITE;
    check_product(p, "written before its wgmma is waited for");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quick_elements), cmocka_unit_test(test_mma),
        cmocka_unit_test(test_mma_f64),        cmocka_unit_test(test_stmatrix),
        cmocka_unit_test(test_wgmma),          cmocka_unit_test(test_wgmma_defects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
