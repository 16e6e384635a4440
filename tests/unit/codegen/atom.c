/* Atoms: operands and text of every row, in both dialects, and ptxas' word that the text is PTX. */
#include "kernel_support.h"

#include <unistd.h>

#undef ATOM

/* Static parameters that are right for a row. */
static void example_shape(AtomId atom, int shape[4]) {
    const char *kinds = atom_info(atom)->shape;
    memset(shape, 0, 4 * sizeof *shape);
    for (int i = 0; kinds[i]; i++)
        shape[i] = kinds[i] == 't' ? DTYPE_BF16 : 1;
    switch (atom) {
    case ATOM_wgmma_16bit:
    case ATOM_wgmma_16bit_rs:
    case ATOM_wgmma_tf32:
    case ATOM_wgmma_tf32_rs: shape[0] = 64; break;
    case ATOM_wgmma_fp8:
        shape[0] = 64;
        shape[1] = DTYPE_E4M3;
        shape[2] = DTYPE_E5M2;
        break;
    case ATOM_wgmma_int8:
        shape[0] = 64;
        shape[1] = shape[2] = DTYPE_I8;
        break;
    case ATOM_mma_int8:
        shape[0] = DTYPE_I8;
        shape[1] = DTYPE_U8;
        break;
    case ATOM_mma_fp8:
        shape[0] = DTYPE_E4M3;
        shape[1] = DTYPE_E5M2;
        break;
    case ATOM_setmaxnreg_inc:
    case ATOM_setmaxnreg_dec: shape[0] = 240; break;
    case ATOM_cp_async: shape[0] = 8; break;
    default: break;
    }
}

static const char *text_of(Arena *arena, AtomId atom, const int shape[4], char mark) {
    Text text = text_new(arena);
    atom_text(&text, atom, shape, mark);
    return text.at;
}

static const char *name_of(Arena *arena, AtomId atom, const int shape[4]) {
    Text text = text_new(arena);
    atom_name(&text, atom, shape);
    return text.at;
}

static void test_rows(void **state) {
    (void)state;
    for (int i = 0; i < ATOM_COUNT; i++) {
        const AtomInfo *info = atom_info((AtomId)i);
        assert_true(strlen(info->shape) <= 4);
        assert_true(strspn(info->shape, "nt") == strlen(info->shape));
        int shape[4];
        example_shape((AtomId)i, shape);
        AtomOperand operands[ATOM_MAX_OPERANDS];
        int n = atom_operands((AtomId)i, shape, operands);
        assert_true(n <= ATOM_MAX_OPERANDS);
        for (int o = 0; o < n; o++) {
            char reference[16];
            snprintf(reference, sizeof reference, "$%d", o);
            if (info->text[0] &&
                !strstr(info->text, reference)) /* a row without an instruction holds registers in place */
                fail_msg("%s does not use operand %d", info->name, o);
            assert_non_null(strchr("rlfdn", operands[o].constraint));
            assert_true(operands[o].count >= 1);
        }
    }
}

static void test_operands(void **state) {
    (void)state;
    AtomOperand operands[ATOM_MAX_OPERANDS];
    int shape[4] = {96, DTYPE_BF16, 0, 1};
    assert_int_equal(atom_operands(ATOM_wgmma_16bit, shape, operands), 4);
    assert_int_equal(operands[0].count, 48);
    assert_true(operands[0].is_in && operands[0].is_out && operands[0].constraint == 'f');
    assert_true(operands[1].is_in && !operands[1].is_out && operands[1].constraint == 'l');
    assert_int_equal(atom_operands(ATOM_ldmatrix_x4, shape, operands), 2);
    assert_int_equal(operands[0].count, 4);
    assert_true(!operands[0].is_in && operands[0].is_out);
}

static void test_text(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    int none[4] = {0}, bf16[4] = {DTYPE_BF16}, small[4] = {8, DTYPE_F16, 0, 1};
    assert_string_equal(text_of(arena, ATOM_bar_sync, none, '%'), "bar.sync %0, %1;");
    assert_string_equal(text_of(arena, ATOM_bar_sync, none, '$'), "bar.sync $0, $1;");
    assert_string_equal(text_of(arena, ATOM_stmatrix_x4, none, '%'),
                        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};");
    assert_string_equal(
        text_of(arena, ATOM_mma_16bit, bf16, '%'),
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};");
    assert_string_equal(
        text_of(arena, ATOM_wgmma_16bit, small, '$'),
        "{ .reg .pred keep; setp.ne.b32 keep, $6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{$0, $1, $2, $3}, $4, $5, keep, 1, 1, 0, 1; }");
    /* '@' before a word is a predicate, not a parameter */
    assert_non_null(strstr(text_of(arena, ATOM_mbar_wait, none, '%'), "@done bra.uni ready"));
    arena_free(arena);
}

static void test_names(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    int plain[4] = {256, DTYPE_BF16, 0, 0}, transposed[4] = {64, DTYPE_F16, 0, 1},
        fp8[4] = {128, DTYPE_E4M3, DTYPE_E5M2};
    int wait[4] = {2};
    assert_string_equal(name_of(arena, ATOM_wgmma_16bit, plain), "wgmma_m64n256k16_bf16");
    assert_string_equal(name_of(arena, ATOM_wgmma_16bit, transposed), "wgmma_m64n64k16_f16_transposed_b");
    assert_string_equal(name_of(arena, ATOM_wgmma_fp8, fp8), "wgmma_m64n128k32_e4m3_e5m2");
    assert_string_equal(name_of(arena, ATOM_wgmma_wait, wait), "wgmma_wait_2");
    assert_string_equal(name_of(arena, ATOM_warp_sync, wait), "warp_sync");
    arena_free(arena);
}

/* ---- ptxas --------------------------------------------------------------------------------------------- */

static const char *target_of(AtomId atom) {
    return atom_info(atom)->sm >= 90 ? "sm_90a" : atom_info(atom)->sm >= 89 ? "sm_89" : "sm_80";
}

/* A PTX module whose one kernel executes the atom on registers of its own. */
static void write_module(FILE *file, Arena *arena, AtomId atom) {
    int shape[4];
    AtomOperand operands[ATOM_MAX_OPERANDS];
    example_shape(atom, shape);
    int n = atom_operands(atom, shape, operands), next = 0;
    const char *text = text_of(arena, atom, shape, '%');
    const char *version = atom_info(atom)->ptx; /* but for what sm_90a itself needs */
    if (atom_info(atom)->sm >= 90 && strcmp(version, "8.0") < 0)
        version = "8.0";
    fprintf(file, ".version %s\n.target %s\n.address_size 64\n.visible .entry k()\n{\n", version,
            target_of(atom));
    const char *values[256]; /* of the text's registers: outputs first */
    for (int outputs = 1; outputs >= 0; outputs--)
        for (int o = 0; o < n; o++)
            for (int c = 0; c < operands[o].count && operands[o].is_out == (outputs == 1); c++) {
                bool is_barrier = atom == ATOM_bar_sync || atom == ATOM_bar_arrive;
                values[next] = text_format(arena, "x%d", next);
                if (operands[o].constraint == 'n')
                    values[next] = !is_barrier ? "8" : o == 0 ? "1" : "64";
                else if (operands[o].constraint == 'f')
                    fprintf(file, ".reg .f32 x%d;\nmov.f32 x%d, 0f00000000;\n", next, next);
                else
                    fprintf(file, ".reg .b%d x%d;\nmov.b%d x%d, 0;\n",
                            operands[o].constraint == 'r' ? 32 : 64, next,
                            operands[o].constraint == 'r' ? 32 : 64, next);
                next++;
            }
    for (const char *at = text; *at; at++) {
        if (*at == '%' && at[1] == '%') {
            fputc(*at++, file); /* the mark itself */
        } else if (*at == '%') {
            int number = (int)strtol(at + 1, (char **)&at, 10);
            fputs(values[number], file);
            at--;
        } else {
            fputc(*at, file);
        }
    }
    fprintf(file, "\nret;\n}\n");
}

static void test_assembles(void **state) {
    (void)state;
    if (system("ptxas --version > /dev/null 2>&1") != 0) {
        print_message("ptxas is not on PATH: the atoms' text is not assembled\n");
        skip();
    }
    Arena *arena = arena_new(0);
    char directory[] = "/tmp/sinter-atoms-XXXXXX";
    assert_non_null(mkdtemp(directory));
    int failed = 0;
    for (int i = 0; i < ATOM_COUNT; i++) {
        const char *path = text_format(arena, "%s/%s.ptx", directory, atom_info((AtomId)i)->name);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        write_module(file, arena, (AtomId)i);
        fclose(file);
        const char *command =
            text_format(arena, "ptxas -arch=%s -o /dev/null %s", target_of((AtomId)i), path);
        if (system(command) != 0) {
            print_error("%s does not assemble\n", atom_info((AtomId)i)->name);
            failed++;
        }
        unlink(path);
    }
    rmdir(directory);
    arena_free(arena);
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_operands),  cmocka_unit_test(test_text),
        cmocka_unit_test(test_names), cmocka_unit_test(test_assembles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
