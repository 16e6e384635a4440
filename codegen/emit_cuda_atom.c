/* Atoms as device functions: inline assembly in one place, calls where the kernel uses it. */
#include "codegen/emit_cuda.h"

#include <stdio.h>

/* Type of operand i of this statement; constants have none. */
static KType atom_operand_type(const KOperand *operand) {
    return operand->var ? operand->var->type : operand->expr->type;
}

static const CudaAtom *atom_function(EmitCuda *e, const KStmt *stmt) {
    CudaAtom wanted = {.atom = (AtomId)stmt->atom};
    memcpy(wanted.shape, stmt->shape, sizeof wanted.shape);
    for (int i = 0; i < stmt->n_operands; i++)
        wanted.types[i] = atom_operand_type(&stmt->operands[i]);
    for (size_t i = 0; i < e->atoms.n; i++) {
        const CudaAtom *known = &e->atoms.at[i];
        if (known->atom == wanted.atom && memcmp(known->shape, wanted.shape, sizeof wanted.shape) == 0 &&
            memcmp(known->types, wanted.types, sizeof wanted.types) == 0)
            return known;
    }
    Text name = text_new(e->arena);
    atom_name(&name, wanted.atom, wanted.shape);
    wanted.name = name.at;
    vec_push(e->arena, &e->atoms, wanted);
    return &e->atoms.at[e->atoms.n - 1];
}

/* Operands are d, d1, ... where written and a, b, c, ... where only read. */
static const char *atom_operand_name(EmitCuda *e, const AtomOperand *operands, int i) {
    int same = 0;
    for (int j = 0; j < i; j++)
        same += operands[j].is_out == operands[i].is_out;
    if (operands[i].is_out)
        return same ? text_format(e->arena, "d%d", same) : "d";
    return text_format(e->arena, "%c", "abcefghijklm"[same]);
}

static void atom_call_operand(EmitCuda *e, const KOperand *operand) {
    if (!operand->var) {
        text_add(&e->body, "%s", cuda_expr_text(e, operand->expr, PREC_ANY));
        return;
    }
    const char *name = e->var_names[operand->var->id];
    if (operand->count == 1 && operand->var->count)
        text_add(&e->body, "%s[%d]", name, operand->at);
    else if (operand->at)
        text_add(&e->body, "%s + %d", name, operand->at);
    else
        text_add(&e->body, "%s", name);
}

/* The operand that the function returns: the only one written, if it is one register and not read. -1: none.
 */
static int atom_result(const AtomOperand *operands, int n) {
    int result = -1;
    for (int i = 0; i < n; i++)
        if (operands[i].is_out) {
            if (result >= 0 || operands[i].is_in || operands[i].count != 1)
                return -1;
            result = i;
        }
    return result;
}

bool cuda_atom_sets(const KStmt *stmt, const KVar *var) {
    AtomOperand operands[ATOM_MAX_OPERANDS];
    int result = atom_result(operands, atom_operands((AtomId)stmt->atom, stmt->shape, operands));
    return result >= 0 && stmt->operands[result].var == var;
}

void cuda_atom_call(EmitCuda *e, const KStmt *stmt) {
    AtomOperand operands[ATOM_MAX_OPERANDS];
    int n = atom_operands((AtomId)stmt->atom, stmt->shape, operands);
    int result = atom_result(operands, n);
    if (result >= 0) {
        atom_call_operand(e, &stmt->operands[result]);
        text_add(&e->body, " = ");
    }
    text_add(&e->body, "%s", atom_function(e, stmt)->name);
    for (int is_static = 1; is_static >= 0; is_static--) { /* immediates are template arguments */
        int printed = 0;
        for (int i = 0; i < n; i++)
            if (i != result && (operands[i].constraint == 'n') == is_static) {
                text_add(&e->body, printed++ ? ", " : is_static ? "<" : "(");
                atom_call_operand(e, &stmt->operands[i]);
            }
        if (is_static)
            text_add(&e->body, printed ? ">" : "");
        else
            text_add(&e->body, printed ? ")" : "()");
    }
    text_add(&e->body, ";\n");
}

static void atom_parameters(EmitCuda *e, Text *out, const CudaAtom *atom, const AtomOperand *operands,
                            int n) {
    int printed = 0, result = atom_result(operands, n);
    for (int i = 0; i < n; i++) {
        if (operands[i].constraint == 'n' || i == result)
            continue;
        bool is_array = operands[i].count > 1;
        text_add(out, "%s%s%s %s%s", printed++ ? ", " : "", is_array && !operands[i].is_out ? "const " : "",
                 cuda_type_name(atom->types[i]),
                 is_array             ? "*"
                 : operands[i].is_out ? "&"
                                      : "",
                 atom_operand_name(e, operands, i));
    }
}

/* `: "+f"(d[0]), ...`, the operands that are written or the others, eight registers a line. */
static void atom_constraints(EmitCuda *e, Text *out, const AtomOperand *operands, int n, bool is_out) {
    text_add(out, "\n        :");
    int printed = 0;
    for (int i = 0; i < n; i++) {
        if (operands[i].is_out != is_out)
            continue;
        const char *name = atom_operand_name(e, operands, i);
        const char *direction = !is_out ? "" : operands[i].is_in ? "+" : "=";
        for (int j = 0; j < operands[i].count; j++, printed++) {
            text_add(out, printed == 0 ? " " : printed % 8 ? ", " : ",\n          ");
            text_add(out, "\"%s%c\"(%s", direction, operands[i].constraint, name);
            if (operands[i].count > 1)
                text_add(out, "[%d]", j);
            text_add(out, ")");
        }
    }
}

/* The row's words, with operands by the names that they have here. */
static void atom_comment(EmitCuda *e, Text *out, const CudaAtom *atom, const AtomOperand *operands, int n) {
    text_add(out, "// ");
    for (const char *at = atom_info(atom->atom)->doc; *at; at++) {
        if (*at == '$' && at[1] >= '0' && at[1] < '0' + n)
            text_add(out, "%s", atom_operand_name(e, operands, *++at - '0'));
        else if (*at == '@' && at[1] >= '0' && at[1] <= '3')
            text_add(out, "%d", atom->shape[*++at - '0']);
        else
            text_add_bytes(out, at, 1);
    }
    text_add(out, "\n");
}

static void atom_head(EmitCuda *e, Text *out, const CudaAtom *atom, const AtomOperand *operands, int n) {
    int n_static = 0, result = atom_result(operands, n);
    for (int i = 0; i < n; i++)
        if (operands[i].constraint == 'n')
            text_add(out, "%sint %s", n_static++ ? ", " : "template <", atom_operand_name(e, operands, i));
    text_add(out, n_static ? "> " : "");
    text_add(out, "DEVICE %s %s(", result >= 0 ? cuda_type_name(atom->types[result]) : "void", atom->name);
    atom_parameters(e, out, atom, operands, n);
    text_add(out, ") {\n");
    if (result >= 0)
        text_add(out, "    %s %s;\n", cuda_type_name(atom->types[result]),
                 atom_operand_name(e, operands, result));
}

/* The assembly as string literals: an instruction, or 16 registers of a list, a line. */
static void atom_code(EmitCuda *e, Text *out, const CudaAtom *atom) {
    Text text = text_new(e->arena);
    atom_text(&text, atom->atom, atom->shape, '%');
    text_add(out, "\"");
    int commas = 0;
    for (const char *at = text.at; *at; at++) {
        if (*at == '"' || *at == '\\')
            text_add_bytes(out, "\\", 1);
        text_add_bytes(out, at, 1);
        bool is_end = *at == ',' ? ++commas % 16 == 0 : *at == ';' && at[1];
        if (is_end && at[1] == ' ') {
            text_add(out, " \"\n        \"");
            at++;
        }
    }
    text_add(out, "\"");
}

static void atom_print_function(EmitCuda *e, Text *out, const CudaAtom *atom) {
    const AtomInfo *info = atom_info(atom->atom);
    AtomOperand operands[ATOM_MAX_OPERANDS];
    int n = atom_operands(atom->atom, atom->shape, operands);
    atom_comment(e, out, atom, operands, n);
    atom_head(e, out, atom, operands, n);
    text_add(out, "    asm%s(", info->effect == EFFECT_PURE ? "" : " volatile");
    atom_code(e, out, atom);
    bool clobbers = info->effect == EFFECT_MEMORY;
    if (n || clobbers) {
        atom_constraints(e, out, operands, n, true);
        atom_constraints(e, out, operands, n, false);
    }
    text_add(out, clobbers ? "\n        : \"memory\");\n" : ");\n");
    int result = atom_result(operands, n);
    if (result >= 0)
        text_add(out, "    return %s;\n", atom_operand_name(e, operands, result));
    text_add(out, "}\n\n");
}

void cuda_atom_functions(EmitCuda *e, Text *out) {
    for (size_t i = 0; i < e->atoms.n; i++)
        atom_print_function(e, out, &e->atoms.at[i]);
}
