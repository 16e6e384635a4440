/* Every way to move elements: each type, each width, guarded or not, with each cache hint, in global and
 * shared memory. */
#include "tests/unit/codegen/emit_support.h"

static int memory_widths(DType type, int widths[5]) {
    int n = 0;
    for (int width = dtype_bits(type) < 8 ? 2 : 1; width <= 16 && width * dtype_bits(type) <= 128; width *= 2)
        widths[n++] = width;
    return n;
}

/* Reads x, passes it through shared memory and stores it to y, once for each width; a nibble is read alone,
 * too. */
static Kernel *memory_copies(Bench *bench, DType type, const char *target) {
    Builder b = bench_builder(bench, target, 128);
    const KBuffer *x = k_global(&b, bench_value(bench, "x", type), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", type), true);
    KBuffer *tile = k_shared(&b, "tile", type, 128 * 16, 16);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KExpr *n = k_dim(&b, dim_symbol(bench->graph->dims, "n"), K_I64);
    const KExpr *row =
        k_let_expr(&b, "row", k_add(&b, k_mul(&b, k_special(&b, SPECIAL_CTA_X), k_i32(&b, 128)), tid));
    const KExpr *guard = k_let_expr(&b, "inside", k_lt(&b, k_convert(&b, row, K_I64), n));
    int widths[5], n_widths = memory_widths(type, widths);
    for (int i = 0; i < n_widths; i++) {
        int width = widths[i];
        k_comment(&b, "%d elements at a time", width);
        const KVar *values =
            k_array(&b, "values", ktype_of(type), 16, k_convert(&b, k_i32(&b, i % 2), ktype_of(type)));
        KCache cache = (KCache)(i % 3);
        const KExpr *k = k_for_begin(&b, "k", k_i32(&b, 0), k_i32(&b, 16), width, UNROLL_FULL);
        const KExpr *at = k_add(&b, k_mul(&b, row, k_i32(&b, 16)), k);
        k_load(&b, values, k, x, at, width, i % 2 ? guard : NULL, cache);
        k_end(&b);
        const KExpr *j = k_for_begin(&b, "j", k_i32(&b, 0), k_i32(&b, 16), width, UNROLL_FULL);
        k_store(&b, tile, k_add(&b, k_mul(&b, tid, k_i32(&b, 16)), j), values, j, width, NULL, CACHE_DEFAULT);
        k_end(&b);
        k_barrier(&b);
        const KExpr *l = k_for_begin(&b, "l", k_i32(&b, 0), k_i32(&b, 16), width, UNROLL_FULL);
        const KExpr *other = k_xor(&b, tid, k_i32(&b, 1));
        k_load(&b, values, l, tile, k_add(&b, k_mul(&b, other, k_i32(&b, 16)), l), width, NULL,
               CACHE_DEFAULT);
        k_store(&b, y, k_add(&b, k_mul(&b, row, k_i32(&b, 16)), l), values, l, width, guard, cache);
        k_end(&b);
    }
    if (dtype_bits(type) >= 8) {
        const KExpr *one = k_load_scalar(&b, "one", x, row, guard);
        const KExpr *two = k_load_scalar(&b, "two", y, row, NULL);
        k_store_scalar(&b, y, row, k_select(&b, guard, one, two), guard);
    } else {
        const KVar *pair = k_array(&b, "pair", K_I32, 2, NULL);
        k_set_elem(&b, pair, k_i32(&b, 0), k_load_scalar(&b, "one", x, k_add(&b, row, k_i32(&b, 1)), guard));
        k_set_elem(&b, pair, k_i32(&b, 1), k_load_scalar(&b, "two", tile, tid, NULL));
        k_store(&b, y, k_mul(&b, row, k_i32(&b, 2)), pair, NULL, 2, guard, CACHE_DEFAULT);
    }
    return bench_finish(bench, &b);
}

static void memory_every_type_compiles(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
        for (int type = 0; type < DTYPE_COUNT; type++) {
            Bench bench = bench_new();
            bench_compile(&bench, memory_copies(&bench, (DType)type, targets[t]));
            bench_free(&bench);
        }
}

/* Bits as words, without conversion. */
static void memory_raw_words(void **state) {
    (void)state;
    Bench bench = bench_new();
    Builder b = bench_builder(&bench, "sm_90a", 64);
    const KBuffer *x = k_global(&b, bench_value(&bench, "x", DTYPE_BF16), false);
    const KBuffer *y = k_global(&b, bench_value(&bench, "y", DTYPE_BF16), true);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KVar *words = k_array(&b, "words", K_U32, 4, NULL);
    const KExpr *guard = k_lt(&b, tid, k_i32(&b, 17));
    k_load_raw(&b, words, NULL, x, k_mul(&b, tid, k_i32(&b, 8)), 8, guard, CACHE_STREAM);
    const KExpr *word = k_elem_at(&b, words, 0);
    const KExpr *pair[] = {k_unpack(&b, DTYPE_BF16, word, 1), k_unpack(&b, DTYPE_BF16, word, 0)};
    k_set_elem(&b, words, k_i32(&b, 0), k_pack(&b, DTYPE_BF16, pair));
    k_store_raw(&b, y, k_mul(&b, tid, k_i32(&b, 8)), words, NULL, 8, guard, CACHE_STREAM);
    k_store_raw(&b, y, k_mul(&b, tid, k_i32(&b, 2)), words, k_i32(&b, 3), 2, NULL, CACHE_DEFAULT);
    const KVar *single = k_array(&b, "single", K_U32, 1, NULL);
    k_load_raw(&b, single, NULL, x, tid, 1, guard, CACHE_DEFAULT);
    k_store_raw(&b, y, tid, single, NULL, 1, NULL, CACHE_DEFAULT);
    const char *cuda = bench_compile(&bench, bench_finish(&bench, &b));
    assert_non_null(strstr(cuda, "load_raw<16, READ_ONCE>(words, x + tid * 8, tid < 17);"));
    assert_non_null(strstr(cuda, "store_raw<4>(y + tid * 2, words + 3);"));
    assert_non_null(strstr(cuda, "load_raw<2, READ_ONLY>(single, x + tid, tid < 17);"));
    assert_non_null(strstr(cuda, "store_raw<2>(y + tid, single);"));
    bench_free(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_every_type_compiles),
        cmocka_unit_test(memory_raw_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
