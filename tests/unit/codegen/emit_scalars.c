/* Every scalar operation in every register type, every conversion, rounding and packing, printed by both
 * backends and compiled. What the operations compute: math_functions.c on the CPU, and the semantic tests on
 * a GPU. */
#include "tests/unit/codegen/emit_support.h"

#include "codegen/kernel_value.h"

static const char *const targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};
enum { N_TARGETS = sizeof targets / sizeof *targets };

/* A tensor's element type that loads give this register type from, and a conversion into it where there is
 * none. */
static DType scalars_memory_type(KType type) {
    switch (type) {
    case K_F64: return DTYPE_F64;
    case K_F32: return DTYPE_F32;
    case K_I64:
    case K_U64: return DTYPE_I64;
    case K_BOOL: return DTYPE_BOOL;
    default: return DTYPE_I32;
    }
}

static const KExpr *scalars_read(Builder *b, const KBuffer *x, KType type, const KExpr *at, int row) {
    const KExpr *index = k_add(b, at, k_i32(b, 4096 * row));
    return k_let_expr(b, "a", k_convert(b, k_load_scalar(b, "loaded", x, index, NULL), type));
}

static void scalars_write(Builder *b, const KBuffer *y, const KExpr *value, const KExpr *at, int *row) {
    k_store_scalar(b, y, k_add(b, at, k_i32(b, 4096 * (*row)++)), k_convert(b, value, ktype_of(y->elem)),
                   NULL);
}

/* y[op] = op(a, b, c) on data from memory, and again on coordinates where the type is an integer. */
static Kernel *scalars_all(Bench *bench, KType type, const char *target) {
    Builder b = bench_builder(bench, target, 64);
    DType memory = scalars_memory_type(type);
    const KBuffer *x = k_global(&b, bench_value(bench, "x", memory), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", memory), true);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    int row = 0;
    for (int op = 0; op < OP_SCALAR_COUNT; op++) {
        if (!kvalue_scalar_takes((OpKind)op, type))
            continue;
        k_comment(&b, "%s", op_info((OpKind)op)->name);
        const KExpr *args[3] = {NULL, NULL, NULL};
        int n = op_info((OpKind)op)->n_in;
        for (int i = 0; i < n; i++)
            args[i] = scalars_read(&b, x, type, tid, 3 * op + i);
        if (op_info((OpKind)op)->rule == RULE_SELECT)
            args[0] = k_convert(&b, args[0], K_BOOL);
        scalars_write(&b, y,
                      k_scalar(&b, (OpKind)op, args[0], n > 1 ? args[1] : NULL, n > 2 ? args[2] : NULL), tid,
                      &row);
        if (!ktype_is_int(type))
            continue;
        for (int i = 0; i < 3; i++)
            args[i] = k_convert(&b, k_add(&b, tid, k_i32(&b, i + 1)), type);
        if (op_info((OpKind)op)->rule == RULE_SELECT)
            args[0] = k_lt(&b, tid, k_i32(&b, 7));
        if (op == OP_shl || op == OP_shr)
            args[1] = k_int(&b, type, 3);
        scalars_write(&b, y,
                      k_scalar(&b, (OpKind)op, args[0], n > 1 ? args[1] : NULL, n > 2 ? args[2] : NULL), tid,
                      &row);
    }
    return bench_finish(bench, &b);
}

static void scalars_every_operation_compiles(void **state) {
    (void)state;
    for (int type = K_BOOL; type <= K_F64; type++)
        for (int i = 0; i < N_TARGETS; i++) {
            Bench bench = bench_new();
            bench_compile(&bench, scalars_all(&bench, (KType)type, targets[i]));
            bench_free(&bench);
        }
}

static Kernel *scalars_conversions(Bench *bench, const char *target) {
    Builder b = bench_builder(bench, target, 64);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    for (int from = K_BOOL; from <= K_F64; from++)
        for (int to = K_BOOL; to <= K_F64; to++) {
            DType memory = scalars_memory_type((KType)from), out = scalars_memory_type((KType)to);
            const KBuffer *x = k_global(&b, bench_value(bench, "x", memory), false);
            const KBuffer *y = k_global(&b, bench_value(bench, "y", out), true);
            const KExpr *value = scalars_read(&b, x, (KType)from, tid, 0);
            int row = 0;
            scalars_write(&b, y, k_convert(&b, value, (KType)to), tid, &row);
            if (ktype_bits((KType)from) == ktype_bits((KType)to) && from != K_BOOL)
                scalars_write(&b, y, k_bitcast(&b, value, (KType)to), tid, &row);
        }
    return bench_finish(bench, &b);
}

static Kernel *scalars_roundings(Bench *bench, const char *target) {
    Builder b = bench_builder(bench, target, 64);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KBuffer *x = k_global(&b, bench_value(bench, "x", DTYPE_F32), false);
    const KBuffer *w = k_global(&b, bench_value(bench, "w", DTYPE_F64), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", DTYPE_F64), true);
    int row = 0;
    for (int type = 0; dtype_is_float((DType)type); type++) {
        const KExpr *narrow = scalars_read(&b, x, K_F32, tid, type),
                    *wide = scalars_read(&b, w, K_F64, tid, type);
        scalars_write(&b, y, k_round(&b, narrow, (DType)type), tid, &row);
        scalars_write(&b, y, k_round(&b, wide, (DType)type), tid, &row);
    }
    return bench_finish(bench, &b);
}

static Kernel *scalars_packs(Bench *bench, const char *target) {
    Builder b = bench_builder(bench, target, 64);
    const KExpr *tid = k_let_expr(&b, "tid", k_special(&b, SPECIAL_TID));
    const KBuffer *x = k_global(&b, bench_value(bench, "x", DTYPE_F32), false);
    const KBuffer *y = k_global(&b, bench_value(bench, "y", DTYPE_I32), true);
    int row = 0;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (dtype_bits((DType)type) > 32)
            continue;
        int lanes = 32 / dtype_bits((DType)type);
        const KExpr *values[8];
        for (int i = 0; i < lanes; i++)
            values[i] = scalars_read(&b, x, ktype_of((DType)type), tid, 8 * type + i);
        const KExpr *word = k_let_expr(&b, "word", k_pack(&b, (DType)type, values));
        scalars_write(&b, y, word, tid, &row);
        for (int i = 0; i < lanes; i++)
            scalars_write(&b, y, k_unpack(&b, (DType)type, word, lanes - 1 - i), tid, &row);
    }
    return bench_finish(bench, &b);
}

static void scalars_every_conversion_compiles(void **state) {
    (void)state;
    Kernel *(*const builders[])(Bench *, const char *) = {scalars_conversions, scalars_roundings,
                                                          scalars_packs};
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
        for (int j = 0; j < N_TARGETS; j++) {
            Bench bench = bench_new();
            bench_compile(&bench, builders[i](&bench, targets[j]));
            bench_free(&bench);
        }
}

/* The text of an expression that is stored: what stands between "stored = " and ";". */
static const char *scalars_text(Bench *bench, Builder *b, const KExpr *value) {
    const KBuffer *y = k_global(b, bench_value(bench, "y", DTYPE_F32), true);
    k_variable(b, "shown", value->type, value);
    k_store_scalar(b, y, k_i32(b, 0), k_float(b, K_F32, 0), NULL);
    Text cuda = text_new(bench->arena);
    emit_cuda(&cuda, bench_finish(bench, b));
    char *at = strstr(cuda.at, "shown = ");
    assert_non_null(at);
    at += strlen("shown = ");
    *strchr(at, ';') = 0;
    return at;
}

static void scalars_check_text(const KExpr *(*build)(Builder *), const char *expected) {
    Bench bench = bench_new();
    Builder b = bench_builder(&bench, "sm_80", 64);
    assert_string_equal(scalars_text(&bench, &b, build(&b)), expected);
    bench_free(&bench);
}

static const KExpr *text_f(Builder *b, const char *name) {
    return k_var(b, k_variable(b, name, K_F32, k_float(b, K_F32, 1)));
}
static const KExpr *text_sub_of_sum(Builder *b) {
    return k_sub(b, text_f(b, "p"), k_add(b, text_f(b, "q"), text_f(b, "r")));
}
static const KExpr *text_sum_of_sub(Builder *b) {
    return k_add(b, k_sub(b, text_f(b, "p"), text_f(b, "q")), text_f(b, "r"));
}
static const KExpr *text_product_of_sum(Builder *b) {
    return k_mul(b, k_add(b, text_f(b, "p"), text_f(b, "q")), k_float(b, K_F32, -0.1));
}
static const KExpr *text_negated(Builder *b) {
    return k_scalar(b, OP_neg, k_scalar(b, OP_neg, text_f(b, "p"), NULL, NULL), NULL, NULL);
}
static const KExpr *text_selected(Builder *b) {
    const KExpr *p = text_f(b, "p"), *q = text_f(b, "q");
    return k_select(b, k_lt(b, p, q), k_max(b, p, q), k_mul(b, q, k_float(b, K_F32, __builtin_inf())));
}
static const KExpr *text_bits(Builder *b) {
    const KExpr *i = k_var(b, k_variable(b, "i", K_U32, k_int(b, K_U32, 1)));
    return k_xor(b, k_shr(b, k_add(b, i, k_int(b, K_U32, 5)), 3), k_bit_and(b, i, k_int(b, K_U32, 65535)));
}
static const KExpr *text_rsqrt(Builder *b) {
    const KExpr *p = k_var(b, k_variable(b, "p", K_F64, k_float(b, K_F64, 1)));
    return k_mul(b, p, k_scalar(b, OP_rsqrt, p, NULL, NULL));
}

static void scalars_precedence(void **state) {
    (void)state;
    scalars_check_text(text_sub_of_sum, "p - (q + r)");
    scalars_check_text(text_sum_of_sub, "p - q + r");
    scalars_check_text(text_product_of_sum, "(p + q) * -0.1f");
    scalars_check_text(text_negated, "-(-p)");
    scalars_check_text(text_selected, "p < q ? max_f32(p, q) : q * f32_infinity()");
    scalars_check_text(text_bits, "((i + 5u) >> 3u) ^ (i & 0xffffu)");
    scalars_check_text(text_rsqrt, "p * (1.0 / sqrt(p))");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_precedence),
        cmocka_unit_test(scalars_every_conversion_compiles),
        cmocka_unit_test(scalars_every_operation_compiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
