/* Loops, conditions, roles, names and comments: what a reader of printed CUDA sees, and that both backends
 * build it. */
#include "tests/unit/codegen/emit_support.h"

/* Sum of a row: a loop over memory, a butterfly through the warp, and shared memory between warps. */
static Kernel *control_row_sum(Bench *bench, const char *target) {
    Builder b = bench_builder(bench, target, 256);
    const KBuffer *x = k_global(&b, bench_value(bench, "x", DTYPE_F16), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", DTYPE_F32), true);
    const KBuffer *partial = k_shared(&b, "partial", DTYPE_F32, 8, 16);
    b.kernel->summary = "sums of rows\nthreads_per_row=256";
    b.kernel->min_blocks = 2;
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KExpr *warp = k_let_expr(&b, "warp", k_special(&b, SPECIAL_WARP));
    const KExpr *lane = k_let_expr(&b, "lane", k_special(&b, SPECIAL_LANE));
    const KExpr *row = k_let_expr(&b, "row", k_convert(&b, k_special(&b, SPECIAL_CTA_X), K_I64));
    const KExpr *n = k_dim(&b, dim_symbol(bench->graph->dims, "n"), K_I64);
    const KVar *sum = k_variable(&b, "sum", K_F32, k_float(&b, K_F32, 0));
    k_comment(&b, "every thread takes eight elements a time");
    const KExpr *column = k_for_begin(&b, "column", k_mul(&b, k_convert(&b, tid, K_I64), k_int(&b, K_I64, 8)),
                                      n, 2048, UNROLL_AUTO);
    const KVar *values = k_array(&b, "values", K_F32, 8, NULL);
    k_load(&b, values, NULL, x, k_add(&b, k_mul(&b, row, n), column), 8, NULL, CACHE_STREAM);
    const KExpr *j = k_for_begin(&b, "j", k_i32(&b, 0), k_i32(&b, 8), 1, UNROLL_FULL);
    k_set(&b, sum, k_add(&b, k_var(&b, sum), k_elem(&b, values, j)));
    k_end(&b);
    k_end(&b);
    for (int mask = 16; mask > 0; mask /= 2)
        k_set(&b, sum, k_add(&b, k_var(&b, sum), k_shuffle_xor(&b, k_var(&b, sum), mask)));
    k_if_begin(&b, k_eq(&b, lane, k_i32(&b, 0)));
    k_store_scalar(&b, partial, warp, k_var(&b, sum), NULL);
    k_end(&b);
    k_barrier(&b);
    k_role_begin(&b, "the last step", k_eq(&b, tid, k_i32(&b, 0)));
    const KVar *total = k_variable(&b, "total", K_F32, k_float(&b, K_F32, 0));
    const KExpr *w = k_for_begin(&b, "w", k_i32(&b, 0), k_i32(&b, 8), 1, UNROLL_NONE);
    k_set(&b, total, k_add(&b, k_var(&b, total), k_load_scalar(&b, "part", partial, w, NULL)));
    k_end(&b);
    k_store_scalar(&b, y, row, k_var(&b, total), NULL);
    k_else(&b);
    k_if_begin(&b, k_eq(&b, warp, k_i32(&b, 7)));
    k_store_scalar(&b, partial, k_i32(&b, 0), k_float(&b, K_F32, 0), NULL);
    k_end(&b);
    k_end(&b);
    return bench_finish(bench, &b);
}

static void control_reads_well(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};
    static const char *const lines[] = {
        "// bench_kernel, for sm_80: 256 threads a block, 32 bytes of shared memory\n// sums of rows\n// "
        "threads_per_row=256\n",
        "extern \"C\" __global__ void __launch_bounds__(256, 2)\nbench_kernel(\n    const f16 *__restrict__ "
        "x,\n"
        "    float *__restrict__ y,\n    const i64 n) {\n",
        "    extern __shared__ __align__(16) unsigned char smem[];\n    float *const partial = (float "
        "*)(smem + 0);\n",
        "    const int warp = warp_index();\n",
        "    // every thread takes eight elements a time\n",
        "    #pragma unroll 1\n        for (int w = 0; w < 8; w++) {\n            float part = "
        "load_f32(partial + w);\n",
        "    if (tid == 0) { // the last step\n",
        "    } else if (warp == 7) {\n",
        "load_f16<8, READ_ONCE>(values, x + row * n + column);",
        "bar_sync<0, 256>();",
        "// the value of lane ^ b (9.7.9.6)\ntemplate <int b> DEVICE u32 shuffle_xor(u32 a) {",
        "    u32 shuffled = shuffle_xor<16>(f32_bits(sum));\n    sum += f32_from_bits(shuffled);\n",
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        Bench bench = bench_new();
        const char *cuda = bench_compile(&bench, control_row_sum(&bench, targets[i]));
        for (size_t j = i ? 1 : 0; j < sizeof lines / sizeof *lines; j++)
            if (!strstr(cuda, lines[j])) {
                fprintf(stderr, "%s\nlacks:\n%s\n", cuda, lines[j]);
                fail();
            }
        assert_null(strstr(cuda, "store_f16")); /* no section that is not used */
        bench_free(&bench);
    }
}

/* Values named like functions of the prelude, like words of C++ and like one another. */
static void control_names_do_not_collide(void **state) {
    (void)state;
    static const char *const names[] = {"load_f32", "u32",    "float",    "tid", "exp_f32",
                                        "smem",     "Access", "bar_sync", "u32"};
    enum { N = sizeof names / sizeof *names };
    Bench bench = bench_new();
    Builder b = bench_builder(&bench, "sm_80", 64);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KExpr *sum = k_float(&b, K_F32, 0);
    for (int i = 0; i < N; i++) {
        const KBuffer *x = k_global(&b, bench_value(&bench, names[i], DTYPE_F32), false);
        const KExpr *value = k_load_scalar(&b, names[i], x, tid, NULL);
        sum = k_add(&b, sum, k_scalar(&b, OP_exp, value, NULL, NULL));
    }
    k_barrier(&b);
    const KBuffer *y = k_global(&b, bench_value(&bench, "store_f32", DTYPE_F32), true);
    k_store_scalar(&b, y, tid, sum, NULL);
    bench_compile(&bench, bench_finish(&bench, &b));
    bench_free(&bench);
}

/* A comment's text comes from the graph, which may hold anything. */
static void control_comments_stay_comments(void **state) {
    (void)state;
    Bench bench = bench_new();
    Builder b = bench_builder(&bench, "sm_80", 32);
    b.kernel->summary = "ends in a backslash \\\n*/ #error\r\n\\";
    k_comment(&b, "%s", "one\\\nint two;\\");
    const KBuffer *y = k_global(&b, bench_value(&bench, "y", DTYPE_F32), true);
    k_store_scalar(&b, y, k_i32(&b, 0), k_float(&b, K_F32, 1), NULL);
    bench_compile(&bench, bench_finish(&bench, &b));
    bench_free(&bench);
}

/* Arrays indexed in nested unrolled loops; the LLVM backend must see constants. */
static void control_unrolled_nests(void **state) {
    (void)state;
    Bench bench = bench_new();
    Builder b = bench_builder(&bench, "sm_90a", 128);
    const KBuffer *x = k_global(&b, bench_value(&bench, "x", DTYPE_F32), false);
    const KBuffer *y = k_global(&b, bench_value(&bench, "y", DTYPE_F32), true);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KVar *tile = k_array(&b, "tile", K_F32, 64, k_float(&b, K_F32, -1.5));
    const KExpr *step = k_for_begin(&b, "step", k_i32(&b, 0), k_i32(&b, 32), 1, UNROLL_NONE);
    const KExpr *i = k_for_begin(&b, "i", k_i32(&b, 0), k_i32(&b, 8), 1, UNROLL_FULL);
    const KExpr *j = k_for_begin(&b, "j", i, k_i32(&b, 8), 1, UNROLL_FULL);
    const KExpr *at = k_let_expr(&b, "at", k_add(&b, k_mul(&b, i, k_i32(&b, 8)), j));
    const KExpr *value = k_load_scalar(&b, "value", x, k_add(&b, k_mul(&b, step, k_i32(&b, 64)), at), NULL);
    k_set_elem(&b, tile, at, k_add(&b, k_elem(&b, tile, k_add(&b, k_mul(&b, j, k_i32(&b, 8)), i)), value));
    k_end(&b);
    k_end(&b);
    k_end(&b);
    const KExpr *l = k_for_begin(&b, "l", k_i32(&b, 0), k_i32(&b, 64), 4, UNROLL_FULL);
    k_store(&b, y, k_add(&b, k_mul(&b, tid, k_i32(&b, 64)), l), tile, l, 4, NULL, CACHE_DEFAULT);
    k_end(&b);
    const KExpr *block = k_for_step_begin(&b, "block", k_special(&b, SPECIAL_CTA_X), k_i32(&b, 1000),
                                          k_special(&b, SPECIAL_GRID_X));
    k_store_scalar(&b, y, block, k_float(&b, K_F32, 0.1), k_lt(&b, block, tid));
    k_end(&b);
    const char *cuda = bench_compile(&bench, bench_finish(&bench, &b));
    assert_non_null(strstr(cuda, "float tile[64];\n    fill<64, float>(tile, -1.5f);"));
    assert_non_null(
        strstr(cuda, "for (int block = (int)blockIdx.x; block < 1000; block += (int)gridDim.x) {"));
    bench_free(&bench);
}

/* The LLVM backend's text is LLVM IR where that is asked for, and unknown targets are refused with a
 * diagnostic. */
static void control_llvm_outputs(void **state) {
    (void)state;
    LlvmEmit *llvm = bench_llvm();
    if (!llvm)
        skip();
    Bench bench = bench_new();
    Text ir = text_new(bench.arena);
    assert_true(llvm(&ir, control_row_sum(&bench, "sm_90a"), LLVM_OUTPUT_IR, bench.diags));
    assert_non_null(strstr(ir.at, "target triple = \"nvptx64-nvidia-cuda\""));
    assert_non_null(strstr(ir.at, "define void @bench_kernel("));
    bench_free(&bench);

    bench = bench_new();
    Text ptx = text_new(bench.arena);
    assert_false(llvm(&ptx, control_row_sum(&bench, "sm_120"), LLVM_OUTPUT_PTX, bench.diags));
    assert_int_equal(bench.diags->errors, 1);
    assert_int_equal(bench.diags->list.at[0].id, DIAG_UNSUPPORTED);
    assert_int_equal(ptx.n, 0);
    bench_free(&bench);
}

/* Memory that ends in the middle of an emission leaves nothing behind and harms no later one. */
typedef struct ShortMemory {
    Bench *bench;
    const Kernel *kernel;
    LlvmEmit *llvm;
} ShortMemory;

static void control_emit_both(void *context) {
    ShortMemory *run = context;
    Text out = text_new(run->bench->arena);
    emit_cuda(&out, run->kernel);
    if (run->llvm)
        run->llvm(&out, run->kernel, LLVM_OUTPUT_PTX, run->bench->diags);
}

static void control_survives_short_memory(void **state) {
    (void)state;
    Bench bench = bench_new();
    ShortMemory run = {&bench, control_row_sum(&bench, "sm_90a"), bench_llvm()};
    int failures = 0;
    for (uint64_t at = 1; at < 2000; at += at < 64 ? 1 : 97) {
        arena_fail_at(bench.arena, at);
        failures += !arena_run(bench.arena, control_emit_both, &run);
    }
    arena_fail_at(bench.arena, 0);
    assert_true(failures > 10);
    assert_true(arena_run(bench.arena, control_emit_both, &run));
    bench_compile(&bench, run.kernel);
    bench_free(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_reads_well),
        cmocka_unit_test(control_names_do_not_collide),
        cmocka_unit_test(control_comments_stay_comments),
        cmocka_unit_test(control_unrolled_nests),
        cmocka_unit_test(control_llvm_outputs),
        cmocka_unit_test(control_survives_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
