/* Reading the rows of atoms.def; see atom.h. */
#include "codegen/atom.h"

#include <ctype.h>
#include <string.h>

#include "ir/type.h"

static const AtomInfo atom_table[ATOM_COUNT] = {
#define ATOM(NAME, SIGNATURE, SHAPE, TEXT, SM, PTX, EFFECT, DOC)                                             \
    [ATOM_##NAME] = {#NAME, SIGNATURE, SHAPE, TEXT, SM, PTX, EFFECT, DOC},
#include "codegen/atoms.def"
#undef ATOM
};

const AtomInfo *atom_info(AtomId atom) {
    return &atom_table[atom];
}

/* What the PTX ISA calls an element type in an instruction's name. */
static const char *atom_type_name(int type) {
    switch (type) {
    case DTYPE_F64: return "f64";
    case DTYPE_F32: return "f32";
    case DTYPE_TF32: return "tf32";
    case DTYPE_F16: return "f16";
    case DTYPE_BF16: return "bf16";
    case DTYPE_E4M3: return "e4m3";
    case DTYPE_E5M2: return "e5m2";
    case DTYPE_I32: return "s32";
    case DTYPE_I8: return "s8";
    case DTYPE_U8: return "u8";
    case DTYPE_I4: return "s4";
    case DTYPE_U4: return "u4";
    default: return "unknown";
    }
}

static int atom_number(const char **at) {
    int number = 0;
    while (isdigit((unsigned char)**at))
        number = 10 * number + (*(*at)++ - '0');
    return number;
}

/* "*4", "*N" or "*N/2" behind a constraint's letter; 1 where there is none. */
static int atom_count(const char **at, const int shape[4]) {
    if (**at != '*')
        return 1;
    ++*at;
    int count;
    if (**at == 'N') {
        count = shape[0];
        ++*at;
    } else {
        count = atom_number(at);
    }
    if (**at == '/') {
        ++*at;
        count /= atom_number(at);
    }
    return count;
}

int atom_operands(AtomId atom, const int shape[4], AtomOperand out[ATOM_MAX_OPERANDS]) {
    const char *at = atom_table[atom].signature;
    int n = 0;
    while (*at) {
        AtomOperand operand = {.is_in = true};
        if (*at == '=' || *at == '+') {
            operand.is_out = true;
            operand.is_in = *at == '+';
            at++;
        }
        operand.constraint = *at++;
        operand.count = atom_count(&at, shape);
        out[n++] = operand;
        while (*at == ' ')
            at++;
    }
    return n;
}

/* Prints one operand: a register, or an array's registers in braces. An operand that the signature makes an
 * array is one even where its count is 1. */
static void atom_print_operand(Text *out, const AtomOperand *operand, int first, char mark) {
    if (operand->count == 1) {
        text_add(out, "%c%d", mark, first);
        return;
    }
    text_add_bytes(out, "{", 1);
    for (int i = 0; i < operand->count; i++)
        text_add(out, "%s%c%d", i ? ", " : "", mark, first + i);
    text_add_bytes(out, "}", 1);
}

void atom_text(Text *out, AtomId atom, const int shape[4], char mark) {
    const AtomInfo *info = &atom_table[atom];
    AtomOperand operands[ATOM_MAX_OPERANDS];
    int n = atom_operands(atom, shape, operands);
    int first[ATOM_MAX_OPERANDS], next = 0;
    for (int i = 0; i < n; i++)
        if (operands[i].is_out) {
            first[i] = next;
            next += operands[i].count;
        }
    /* In LLVM's dialect the inputs tied to "+" operands take numbers too, but behind all others. */
    for (int i = 0; i < n; i++)
        if (!operands[i].is_out) {
            first[i] = next;
            next += operands[i].count;
        }
    for (const char *at = info->text; *at;) {
        if (*at == '$' && isdigit((unsigned char)at[1])) {
            at++;
            int i = atom_number(&at);
            if (i < n)
                atom_print_operand(out, &operands[i], first[i], mark);
        } else if (*at == '@' && at[1] >= '0' && at[1] <= '3') {
            int i = at[1] - '0';
            if (info->shape[i] == 't')
                text_add(out, "%s", atom_type_name(shape[i]));
            else
                text_add(out, "%d", shape[i]);
            at += 2;
        } else {
            if (*at == mark)
                text_add_bytes(out, at, 1); /* the mark itself is written twice in both dialects */
            text_add_bytes(out, at++, 1);
        }
    }
}

/* The shape of a matrix product, as the PTX ISA writes it; NULL for other atoms. %d is shape[0]. */
static const char *atom_matrix_stem(AtomId atom) {
    switch (atom) {
    case ATOM_wgmma_16bit: return "wgmma_m64n%dk16";
    case ATOM_wgmma_16bit_rs: return "wgmma_rs_m64n%dk16";
    case ATOM_wgmma_tf32: return "wgmma_m64n%dk8_tf32";
    case ATOM_wgmma_tf32_rs: return "wgmma_rs_m64n%dk8_tf32";
    case ATOM_wgmma_fp8:
    case ATOM_wgmma_int8: return "wgmma_m64n%dk32";
    case ATOM_mma_16bit: return "mma_m16n8k16";
    case ATOM_mma_tf32: return "mma_m16n8k8_tf32";
    case ATOM_mma_f64: return "mma_m16n8k8_f64";
    case ATOM_mma_int8:
    case ATOM_mma_fp8: return "mma_m16n8k32";
    default: return NULL;
    }
}

void atom_name(Text *out, AtomId atom, const int shape[4]) {
    const AtomInfo *info = &atom_table[atom];
    const char *stem = atom_matrix_stem(atom);
    int numbers = 0;
    const char *percent = stem ? strchr(stem, '%') : NULL;
    if (percent) {
        text_add_bytes(out, stem, (size_t)(percent - stem));
        text_add(out, "%d%s", shape[0], percent + 2);
    } else {
        text_add(out, "%s", stem ? stem : info->name);
    }
    int last_type = -1;
    for (int i = 0; info->shape[i]; i++) {
        if (info->shape[i] == 't') {
            if (shape[i] != last_type)
                text_add(out, "_%s", atom_type_name(shape[i]));
            last_type = shape[i];
        } else if (!stem) {
            text_add(out, "_%d", shape[i]);
        } else if (numbers++ > 0 && shape[i]) {
            text_add(out, numbers == 2 && atom != ATOM_wgmma_16bit_rs ? "_transposed_a" : "_transposed_b");
        }
    }
}
