/* TMA on the simulator: boxes in and out, who has waited and fenced, and what the hardware does not take. */
#include "kernel_support.h"

#include "codegen/simulate_internal.h"

/* Small integers, one after another. */
static void fill(float *at, int n) {
    for (int i = 0; i < n; i++)
        at[i] = (float)(i * 7 % 31 - 15);
}

/* A packed tensor of f32, in one box. */
static KTensorMap f32_map(Bench *bench, KBuffer *buffer, int rows, int cols) {
    KTensorMap map = {.buffer = buffer, .elem = DTYPE_F32, .rank = 2, .box = {cols, rows}};
    map.dims[0] = map.strides[1] = bench_dim(bench, cols);
    map.dims[1] = bench_dim(bench, rows);
    map.strides[0] = bench_dim(bench, 1);
    return map;
}

/* A 40 x 48 f32 tensor through shared memory in boxes of 32 x 16, which reach over its border: zeros come,
 * and nothing is written outside. */
static void check_copy(bool fenced, bool waits) {
    enum { ROWS = 40, COLS = 48, BOX_ROWS = 16, BOX_COLS = 32 };
    static _Alignas(16) float x[ROWS * COLS], y[ROWS * COLS], z[1];
    fill(x, ROWS * COLS);
    memset(y, 0, sizeof y);
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, ROWS * COLS, false);
    KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, ROWS * COLS, true);
    KBuffer *bz = bench_buffer(&bench, "z", DTYPE_F32, z, 1, true);
    KBuffer *in = k_shared(B, "in", DTYPE_F32, BOX_ROWS * BOX_COLS, 1024),
            *out = k_shared(B, "out", DTYPE_F32, BOX_ROWS * BOX_COLS, 1024);
    KBuffer *bar = k_shared(B, "full", DTYPE_I64, 1, 8);
    KTensorMap map = f32_map(&bench, bx, ROWS, COLS);
    map.box[0] = BOX_COLS;
    map.box[1] = BOX_ROWS;
    map.swizzle = SWIZZLE_128;
    int load = k_tensor_map(B, "load", map);
    map.buffer = by;
    int store = k_tensor_map(B, "store", map);
    const KExpr *address = k_smem_addr(B, bar, NULL);
    const KExpr *col = k_let_expr(B, "col", k_mul(B, k_special(B, SPECIAL_CTA_X), I(BOX_COLS)));
    const KExpr *row = k_let_expr(B, "row", k_mul(B, k_special(B, SPECIAL_CTA_Y), I(BOX_ROWS)));
    k_if_begin(B, k_eq(B, LANE, I(0)));
    ATOM(mbar_init, NULL, k_operand(address), k_operand(U(1)));
    ATOM0(fence_mbar_init, NULL);
    ATOM(mbar_expect_tx, NULL, k_operand(address), k_operand(U(BOX_ROWS * BOX_COLS * 4)));
    ATOM(tma_load_2d, NULL, k_operand(k_smem_addr(B, in, NULL)), k_operand(k_tensor_map_addr(B, load)),
         k_operand(address), k_operand(col), k_operand(row));
    k_end(B);
    ATOM0(warp_sync, NULL);
    ATOM(mbar_wait, NULL, k_operand(address), k_operand(U(0)));
    const KVar *v = k_array(B, "v", K_F32, 4, NULL), *sum = k_variable(B, "sum", K_F32, k_float(B, K_F32, 0));
    for (int i = 0; i < 4; i++) { /* 128 vectors of 4, in whatever order the swizzle has them */
        const KExpr *at = k_mul(B, k_add(B, LANE, I(32 * i)), I(4));
        k_load(B, v, NULL, in, at, 4, NULL, CACHE_DEFAULT);
        k_store(B, out, at, v, NULL, 4, NULL, CACHE_DEFAULT);
        k_set(B, sum, k_add(B, k_var(B, sum), k_elem_at(B, v, 0)));
    }
    if (fenced)
        ATOM0(fence_async, NULL);
    ATOM0(warp_sync, NULL);
    k_if_begin(B, k_eq(B, LANE, I(0)));
    ATOM(tma_store_2d, NULL, k_operand(k_tensor_map_addr(B, store)), k_operand(k_smem_addr(B, out, NULL)),
         k_operand(col), k_operand(row));
    ATOM0(bulk_commit, NULL);
    if (waits)
        ATOM0(bulk_wait_read, (int[]){0});
    k_end(B);
    k_store_scalar(B, bz, I(0), k_var(B, sum),
                   k_and(B, k_eq(B, LANE, I(0)), k_eq(B, k_add(B, col, row), I(0))));
    B->kernel->grid[1] = bench_dim(&bench, 3);
    if (fenced && waits) {
        bench_runs(&bench, 2);
        assert_memory_equal(x, y, sizeof x);
    } else {
        bench_fails(&bench, 2,
                    fenced ? "the block ends while a TMA store may still read" : "its writer did not fence");
    }
    bench_close(&bench);
}

static void test_tma_copy(void **state) {
    (void)state;
    check_copy(true, true);
    check_copy(false, true);
    check_copy(true, false);
}

/* A box is loaded over one that lanes have read: the fence keeps the second load behind their reads. */
static void check_load_over_reads(bool fenced) {
    enum { ELEMENTS = 128 };
    static _Alignas(16) float x[ELEMENTS], z[ELEMENTS];
    fill(x, 4 * 32);
    Bench bench;
    bench_open(&bench, 32);
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, ELEMENTS, false);
    KBuffer *bz = bench_buffer(&bench, "z", DTYPE_F32, z, ELEMENTS, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, ELEMENTS, 128),
            *full = k_shared(B, "full", DTYPE_I64, 1, 8);
    KTensorMap map = f32_map(&bench, bx, 4, 32);
    int load = k_tensor_map(B, "load", map);
    const KExpr *address = k_smem_addr(B, full, NULL), *at = k_mul(B, LANE, I(4));
    const KVar *v = k_array(B, "v", K_F32, 4, NULL);
    k_if_begin(B, k_eq(B, LANE, I(0)));
    ATOM(mbar_init, NULL, k_operand(address), k_operand(U(1)));
    ATOM0(fence_mbar_init, NULL);
    k_end(B);
    for (unsigned phase = 0; phase < 2; phase++) {
        if (phase > 0 && fenced)
            ATOM0(fence_async, NULL);
        ATOM0(warp_sync, NULL);
        k_if_begin(B, k_eq(B, LANE, I(0)));
        ATOM(mbar_expect_tx, NULL, k_operand(address), k_operand(U(ELEMENTS * 4)));
        ATOM(tma_load_2d, NULL, k_operand(k_smem_addr(B, tile, NULL)), k_operand(k_tensor_map_addr(B, load)),
             k_operand(address), k_operand(I(0)), k_operand(I(0)));
        k_end(B);
        ATOM0(warp_sync, NULL);
        ATOM(mbar_wait, NULL, k_operand(address), k_operand(U(phase)));
        k_load(B, v, NULL, tile, at, 4, NULL, CACHE_DEFAULT);
    }
    k_store(B, bz, at, v, NULL, 4, NULL, CACHE_DEFAULT);
    if (fenced) {
        bench_runs(&bench, 1);
        assert_memory_equal(x, z, sizeof x);
    } else {
        bench_fails(&bench, 1, "did not fence behind its reads");
    }
    bench_close(&bench);
}

static void test_load_over_reads(void **state) {
    (void)state;
    check_load_over_reads(true);
    check_load_over_reads(false);
}

/* Lane l fills column l of the four rows of a tile, and lane 0 sends it off: within an `if` that stays open,
 * for what else that lane does. */
static void store_lanes(Builder *b, const KBuffer *tile, int map) {
    const KExpr *lane = k_special(b, SPECIAL_LANE), *zero = k_i32(b, 0);
    const KExpr *row = k_for_begin(b, "row", zero, k_i32(b, 4), 1, UNROLL_NONE);
    k_store_scalar(b, tile, k_add(b, k_mul(b, row, k_i32(b, 32)), lane), k_convert(b, lane, K_F32), NULL);
    k_end(b);
    k_atom(b, ATOM_fence_async, NULL, NULL, 0);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    k_if_begin(b, k_eq(b, lane, zero));
    KOperand operands[] = {k_operand(k_tensor_map_addr(b, map)), k_operand(k_smem_addr(b, tile, NULL)),
                           k_operand(zero), k_operand(zero)};
    k_atom(b, ATOM_tma_store_2d, NULL, operands, 4);
    k_atom(b, ATOM_bulk_commit, NULL, NULL, 0);
}

/* What a TMA store has written is read by another warp once its own has waited for the whole store; that its
 * reads of shared memory are over says nothing of that. */
static void test_tma_store_seen(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        static _Alignas(16) float y[128], z[32];
        Bench bench;
        bench_open(&bench, 64);
        KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, 128, true);
        KBuffer *bz = bench_buffer(&bench, "z", DTYPE_F32, z, 32, true);
        KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 128, 128);
        KTensorMap map = f32_map(&bench, by, 4, 32);
        int store = k_tensor_map(B, "store", map);
        const KExpr *warp = k_special(B, SPECIAL_WARP);
        k_if_begin(B, k_eq(B, warp, I(0)));
        store_lanes(B, tile, store);
        k_atom(B, whole ? ATOM_bulk_wait : ATOM_bulk_wait_read, (int[]){0}, NULL, 0);
        k_end(B);
        k_end(B);
        k_barrier(B);
        k_if_begin(B, k_eq(B, warp, I(1)));
        k_store_scalar(B, bz, LANE, k_load_scalar(B, "seen", by, LANE, NULL), NULL);
        k_end(B);
        if (whole) {
            bench_runs(&bench, 1);
            assert_true(z[31] == 31);
        } else {
            bench_fails(&bench, 1, "of 'y' is read");
        }
        bench_close(&bench);
    }
}

/* Boxes that two warps add to one tensor: in order, the second behind the first's flag, the sums of both; in
 * none, a race. */
static void test_tma_add(void **state) {
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        static _Alignas(16) float y[128];
        for (int i = 0; i < 128; i++)
            y[i] = 100;
        Bench bench;
        bench_open(&bench, 64);
        KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, 128, true);
        KBuffer *bf = k_scratch(B, "flags", DTYPE_I32, bench_dim(&bench, 1), true);
        KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 256, 128);
        int map = k_tensor_map(B, "map", f32_map(&bench, by, 4, 32));
        const KExpr *warp = k_special(B, SPECIAL_WARP), *own = k_mul(B, warp, I(128));
        k_store_scalar(B, bf, I(0), I(0), k_eq(B, k_special(B, SPECIAL_TID), I(0)));
        k_barrier(B);
        const KExpr *row = k_for_begin(B, "row", I(0), I(4), 1, UNROLL_NONE);
        k_store_scalar(B, tile, k_add(B, own, k_add(B, k_mul(B, row, I(32)), LANE)),
                       k_convert(B, k_add(B, LANE, warp), K_F32), NULL);
        k_end(B);
        ATOM0(fence_async, NULL);
        ATOM0(warp_sync, NULL);
        k_if_begin(B, k_eq(B, LANE, I(0)));
        KOperand flag[] = {k_operand(k_global_addr(B, bf, I(0))), k_operand(U(1))};
        if (ordered) {
            k_if_begin(B, k_eq(B, warp, I(1)));
            k_atom(B, ATOM_flag_wait, NULL, flag, 2);
            ATOM0(fence_async_global, NULL);
            k_end(B);
        }
        ATOM(tma_add_2d, NULL, k_operand(k_tensor_map_addr(B, map)), k_operand(k_smem_addr(B, tile, own)),
             k_operand(I(0)), k_operand(I(0)));
        ATOM0(bulk_commit, NULL);
        ATOM0(bulk_wait, (int[]){0});
        if (ordered) {
            k_if_begin(B, k_eq(B, warp, I(0)));
            k_atom(B, ATOM_flag_raise, NULL, flag, 2);
            k_end(B);
        }
        k_end(B);
        if (ordered) {
            bench_runs(&bench, 1);
            assert_true(y[0] == 101 && y[31] == 163 && y[127] == 163);
        } else {
            bench_fails(&bench, 1, "race: element");
        }
        bench_close(&bench);
    }
}

/* TMA takes boxes that begin at 16 bytes of a row. */
static void test_load_within_piece(void **state) {
    (void)state;
    for (int column = 2; column <= 4; column += 2) {
        static _Alignas(16) float x[128], z[32];
        fill(x, 4 * 32);
        Bench bench;
        bench_open(&bench, 32);
        KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 128, false);
        KBuffer *bz = bench_buffer(&bench, "z", DTYPE_F32, z, 32, true);
        KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 128, 128),
                *full = k_shared(B, "full", DTYPE_I64, 1, 8);
        int load = k_tensor_map(B, "load", f32_map(&bench, bx, 4, 32));
        const KExpr *address = k_smem_addr(B, full, NULL);
        k_if_begin(B, k_eq(B, LANE, I(0)));
        ATOM(mbar_init, NULL, k_operand(address), k_operand(U(1)));
        ATOM0(fence_mbar_init, NULL);
        ATOM(mbar_expect_tx, NULL, k_operand(address), k_operand(U(512)));
        ATOM(tma_load_2d, NULL, k_operand(k_smem_addr(B, tile, NULL)), k_operand(k_tensor_map_addr(B, load)),
             k_operand(address), k_operand(I(column)), k_operand(I(0)));
        k_end(B);
        ATOM0(warp_sync, NULL);
        ATOM(mbar_wait, NULL, k_operand(address), k_operand(U(0)));
        k_store_scalar(B, bz, LANE, k_load_scalar(B, "seen", tile, LANE, NULL), NULL);
        if (column == 4) {
            bench_runs(&bench, 1);
            assert_true(z[0] == x[4] && z[31] == 0);
        } else {
            bench_fails(&bench, 1, "one of 'x' begins at 8");
        }
        bench_close(&bench);
    }
}

/* TMA writes pieces of 16 bytes: where a row ends within one, it writes beyond the row. */
static void test_tma_store_pieces(void **state) {
    (void)state;
    for (int columns = 28; columns <= 32; columns += 2) {
        static _Alignas(16) float y[128];
        Bench bench;
        bench_open(&bench, 32);
        KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, 128, true);
        KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 128, 128);
        KTensorMap map = f32_map(&bench, by, 4, 32);
        map.dims[0] = dim_const(bench.graph->dims, columns);
        int store = k_tensor_map(B, "store", map);
        store_lanes(B, tile, store);
        k_atom(B, ATOM_bulk_wait, (int[]){0}, NULL, 0);
        k_end(B);
        if (columns % 4 == 0)
            bench_runs(&bench, 1);
        else
            bench_fails(&bench, 1, "rows of 'y' of 120 end within one");
        bench_close(&bench);
    }
}

/* One block of a cluster copies for both. */
static void test_multicast(void **state) {
    (void)state;
    static _Alignas(16) float x[128], y[256];
    fill(x, 4 * 32);
    memset(y, 0, sizeof y);
    Bench bench;
    bench_open(&bench, 32);
    B->kernel->cluster[0] = 2;
    KBuffer *bx = bench_buffer(&bench, "x", DTYPE_F32, x, 128, false);
    KBuffer *by = bench_buffer(&bench, "y", DTYPE_F32, y, 256, true);
    KBuffer *tile = k_shared(B, "tile", DTYPE_F32, 128, 128), *bar = k_shared(B, "full", DTYPE_I64, 1, 8);
    KTensorMap map = f32_map(&bench, bx, 4, 32);
    int load = k_tensor_map(B, "load", map);
    const KExpr *address = k_smem_addr(B, bar, NULL), *rank = k_special(B, SPECIAL_CTA_RANK);
    k_if_begin(B, k_eq(B, LANE, I(0)));
    ATOM(mbar_init, NULL, k_operand(address), k_operand(U(1)));
    ATOM0(fence_mbar_init, NULL);
    ATOM(mbar_expect_tx, NULL, k_operand(address), k_operand(U(512)));
    k_end(B);
    ATOM0(cluster_arrive, NULL);
    ATOM0(cluster_wait, NULL);
    k_if_begin(B, k_and(B, k_eq(B, LANE, I(0)), k_eq(B, rank, I(0))));
    ATOM(tma_load_2d_multicast, NULL, k_operand(k_smem_addr(B, tile, NULL)),
         k_operand(k_tensor_map_addr(B, load)), k_operand(address), k_operand(I(0)), k_operand(I(0)),
         k_operand(U(3)));
    k_end(B);
    ATOM(mbar_wait, NULL, k_operand(address), k_operand(U(0)));
    const KVar *v = k_array(B, "v", K_F32, 4, NULL);
    k_load(B, v, NULL, tile, k_mul(B, LANE, I(4)), 4, NULL, CACHE_DEFAULT);
    k_store(B, by, k_add(B, k_mul(B, rank, I(128)), k_mul(B, LANE, I(4))), v, NULL, 4, NULL, CACHE_DEFAULT);
    ATOM0(cluster_arrive, NULL);
    ATOM0(cluster_wait, NULL);
    bench_runs(&bench, 2);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(x, y + 128, sizeof x);
    bench_close(&bench);
}

/* Windows of 2 images of 6 x 7 pixels of 8 f32 channels, with a border of 1 and 2 apart: a box of 10 of the
 * 2 x 3 x 4 places, from the second one of a row on, reaches into the next row and image. */
enum { IMAGES = 2, HEIGHT = 6, WIDTH = 7, CHANNELS = 8, PLACES_Y = 3, PLACES_X = 4, PLACES = 10, TAPS = 3 };

static const KPlaces every_other = {.low = {-1, -1}, .high = {-1, -2}, .step = {2, 2}};

static KTensorMap windows_map(Bench *bench, KBuffer *buffer, const KPlaces *places) {
    KTensorMap map = {
        .buffer = buffer, .elem = DTYPE_F32, .rank = 4, .box = {CHANNELS, PLACES, 1, 1}, .places = places};
    static const int dims[] = {CHANNELS, WIDTH, HEIGHT, IMAGES};
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        map.dims[i] = bench_dim(bench, dims[i]);
        map.strides[i] = bench_dim(bench, stride);
        stride *= dims[i];
    }
    return map;
}

/* Copies one tap of a box of windows to `y`; coordinates are those of channel, x, y and image, and the tap's
 * along x and y. */
static void windows_copy(Bench *at, float *x, float *y, const KPlaces *places, const int *coordinates) {
    bench_open(at, 32);
    Builder *b = &at->b;
    KBuffer *bx = bench_buffer(at, "x", DTYPE_F32, x, IMAGES * HEIGHT * WIDTH * CHANNELS, false);
    KBuffer *by = bench_buffer(at, "y", DTYPE_F32, y, PLACES * CHANNELS, true);
    KBuffer *box = k_shared(b, "box", DTYPE_F32, PLACES * CHANNELS, 128),
            *full = k_shared(b, "full", DTYPE_I64, 1, 8);
    int map = k_tensor_map(b, "load", windows_map(at, bx, places));
    const KExpr *lane = k_special(b, SPECIAL_LANE), *address = k_smem_addr(b, full, NULL);
    KOperand load[9] = {k_operand(k_smem_addr(b, box, NULL)), k_operand(k_tensor_map_addr(b, map)),
                        k_operand(address)};
    for (int i = 0; i < 4; i++)
        load[3 + i] = k_operand(k_i32(b, coordinates[i]));
    for (int i = 4; i < 6; i++)
        load[3 + i] = k_operand(k_int(b, K_U32, coordinates[i]));
    k_if_begin(b, k_eq(b, lane, k_i32(b, 0)));
    k_atom(b, ATOM_mbar_init, NULL, (KOperand[]){k_operand(address), k_operand(k_int(b, K_U32, 1))}, 2);
    k_atom(b, ATOM_fence_mbar_init, NULL, NULL, 0);
    k_atom(b, ATOM_mbar_expect_tx, NULL,
           (KOperand[]){k_operand(address), k_operand(k_int(b, K_U32, PLACES * CHANNELS * 4))}, 2);
    k_atom(b, ATOM_tma_load_windows_2, NULL, load, 9);
    k_end(b);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    k_atom(b, ATOM_mbar_wait, NULL, (KOperand[]){k_operand(address), k_operand(k_int(b, K_U32, 0))}, 2);
    const KVar *v = k_array(b, "v", K_F32, 4, NULL);
    k_if_begin(b, k_lt(b, lane, k_i32(b, PLACES * CHANNELS / 4)));
    const KExpr *element = k_mul(b, lane, k_i32(b, 4));
    k_load(b, v, NULL, box, element, 4, NULL, CACHE_DEFAULT);
    k_store(b, by, element, v, NULL, 4, NULL, CACHE_DEFAULT);
    k_end(b);
}

/* The same element of place `number`, counted from the first of all, by loops. */
static float windows_want(const float *x, int number, int tap_x, int tap_y, int channel) {
    int column = number % PLACES_X * 2 - 1 + tap_x, row = number / PLACES_X % PLACES_Y * 2 - 1 + tap_y,
        image = number / PLACES_X / PLACES_Y;
    if (column < 0 || column >= WIDTH || row < 0 || row >= HEIGHT || image >= IMAGES)
        return 0;
    return x[((image * HEIGHT + row) * WIDTH + column) * CHANNELS + channel];
}

static void test_windows(void **state) {
    (void)state;
    static _Alignas(16) float x[IMAGES * HEIGHT * WIDTH * CHANNELS], y[PLACES * CHANNELS];
    for (int i = 0; i < IMAGES * HEIGHT * WIDTH * CHANNELS; i++)
        x[i] = (float)(i + 1);
    for (int first = 0; first < IMAGES * PLACES_Y * PLACES_X; first += 5)
        for (int tap = 0; tap < TAPS * TAPS; tap++) {
            Bench bench;
            int coordinates[] = {0,
                                 first % PLACES_X * 2 - 1,
                                 first / PLACES_X % PLACES_Y * 2 - 1,
                                 first / PLACES_X / PLACES_Y,
                                 tap % TAPS,
                                 tap / TAPS};
            windows_copy(&bench, x, y, &every_other, coordinates);
            bench_runs(&bench, 1);
            for (int i = 0; i < PLACES * CHANNELS; i++)
                assert_true(y[i] ==
                            windows_want(x, first + i / CHANNELS, tap % TAPS, tap / TAPS, i % CHANNELS));
            bench_close(&bench);
        }
}

/* A box that begins at some channel, whose last ones are not there. */
static void test_windows_of_some_channels(void **state) {
    (void)state;
    static _Alignas(16) float x[IMAGES * HEIGHT * WIDTH * CHANNELS], y[PLACES * CHANNELS];
    for (int i = 0; i < IMAGES * HEIGHT * WIDTH * CHANNELS; i++)
        x[i] = (float)(i + 1);
    Bench bench;
    windows_copy(&bench, x, y, &every_other, (int[]){4, 1, 1, 0, 2, 1});
    bench_runs(&bench, 1);
    for (int i = 0; i < PLACES * CHANNELS; i++) {
        int channel = i % CHANNELS + 4;
        float want = channel < CHANNELS ? windows_want(x, PLACES_X + 1 + i / CHANNELS, 2, 1, channel) : 0;
        assert_true(y[i] == want);
    }
    bench_close(&bench);
}

/* A first window beside those that the map has, behind them, or a map that has none. */
static void test_no_windows(void **state) {
    (void)state;
    static _Alignas(16) float x[IMAGES * HEIGHT * WIDTH * CHANNELS], y[PLACES * CHANNELS];
    static const int wrong[][6] = {{0, 0, -1, 0, 0, 0},
                                   {0, -1, 2, 0, 0, 0},
                                   {0, -3, -1, 0, 0, 0},
                                   {0, 7, -1, 0, 0, 0},
                                   {0, -1, 5, 0, 0, 0}};
    Bench bench;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        windows_copy(&bench, x, y, &every_other, wrong[i]);
        bench_fails(&bench, 1, "the first window of a copy is none of those of 'x'");
        bench_close(&bench);
    }
    windows_copy(&bench, x, y, &every_other, (int[]){2, -1, -1, 0, 0, 0});
    bench_fails(&bench, 1, "one of 'x' begins at 8");
    bench_close(&bench);
    windows_copy(&bench, x, y, NULL, (int[]){0, -1, -1, 0, 0, 0});
    bench_fails(&bench, 1, "a copy of windows through a tensor map of tiles");
    bench_close(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tma_copy),
        cmocka_unit_test(test_load_over_reads),
        cmocka_unit_test(test_tma_store_seen),
        cmocka_unit_test(test_tma_add),
        cmocka_unit_test(test_load_within_piece),
        cmocka_unit_test(test_tma_store_pieces),
        cmocka_unit_test(test_multicast),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_windows_of_some_channels),
        cmocka_unit_test(test_no_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
