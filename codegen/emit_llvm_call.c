/* Calls: intrinsics, inline assembly and atoms, and the functions of prelude/math.ll. */
#include "codegen/emit_llvm.h"

#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>

#include "codegen/emit_sections.h"
#include "codegen/kernel_value.h"

extern const char codegen_math_ll_text[]; /* prelude/math.ll, embedded by the Makefile */

/* Only what is known to lower on every target may be named here: LLVM 19 aborts or miscompiles on others
 * (exp, sin, pow, ...). */
LLVMValueRef llvm_intrinsic(EmitLlvm *e, const char *name, LLVMTypeRef overload, LLVMValueRef *args, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef *overloads = overload ? &overload : NULL;
    size_t n_overloads = overload ? 1 : 0;
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, overloads, n_overloads);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, n_overloads);
    return LLVMBuildCall2(e->builder, type, function, args, (unsigned)n, "");
}

LLVMValueRef llvm_math(EmitLlvm *e, const char *name, LLVMTypeRef result, LLVMValueRef *args, int n) {
    LLVMTypeRef types[OP_MAX_ARITY];
    for (int i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, 0);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    if (!function)
        function = LLVMAddFunction(e->module, name, type);
    return LLVMBuildCall2(e->builder, type, function, args, (unsigned)n, "");
}

/* ---- inline assembly
 * --------------------------------------------------------------------------------------- */

static void call_attribute(EmitLlvm *e, LLVMValueRef call, const char *name, uint64_t value) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, kind, value));
}

static LLVMValueRef call_asm(EmitLlvm *e, LLVMTypeRef type, const char *text, size_t bytes,
                             const char *constraints, LLVMValueRef *args, int n, LlvmAsm kind) {
    LLVMValueRef code = LLVMGetInlineAsm(type, text, bytes, constraints, strlen(constraints),
                                         kind == LLVM_ASM_ORDERED, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(e->builder, type, code, args, (unsigned)n, "");
    call_attribute(e, call, "nounwind", 0);
    if (kind == LLVM_ASM_ORDERED)
        call_attribute(e, call, "convergent", 0);
    else
        call_attribute(e, call, "memory", 0); /* of none */
    return call;
}

LLVMValueRef llvm_asm(EmitLlvm *e, const char *text, const char *constraints, LLVMTypeRef result,
                      LLVMValueRef *args, int n, LlvmAsm kind) {
    LLVMTypeRef types[8];
    for (int i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    return call_asm(e, LLVMFunctionType(result, types, (unsigned)n, 0), text, strlen(text), constraints, args,
                    n, kind);
}

/* Registers of an atom's operand: read ones as values, written ones as the slots that they go to. */
static LLVMValueRef atom_register(EmitLlvm *e, const KOperand *operand, int i) {
    if (!operand->var)
        return llvm_whole_expr(e, operand->expr);
    if (operand->var->is_let)
        return e->lets[operand->var->id];
    return llvm_load_slot(e, operand->var, llvm_slot(e, operand->var, NULL, operand->at + i));
}

void llvm_atom(EmitLlvm *e, const KStmt *stmt) {
    const AtomInfo *info = atom_info((AtomId)stmt->atom);
    AtomOperand operands[ATOM_MAX_OPERANDS];
    int n = atom_operands((AtomId)stmt->atom, stmt->shape, operands);
    size_t registers = 0;
    for (int i = 0; i < n; i++)
        registers += (size_t)operands[i].count;
    LLVMTypeRef *out_types = ARENA_ARRAY(e->arena, LLVMTypeRef, registers + 1);
    LLVMValueRef *slots = ARENA_ARRAY(e->arena, LLVMValueRef, registers + 1);
    LLVMValueRef *args = ARENA_ARRAY(e->arena, LLVMValueRef, registers + 1);
    Text constraints = text_new(e->arena);
    int n_out = 0, n_args = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; operands[i].is_out && j < operands[i].count; j++) {
            const KOperand *operand = &stmt->operands[i];
            text_add(&constraints, "%s=%c", n_out ? "," : "", operands[i].constraint);
            out_types[n_out] = llvm_type(e, operand->var->type);
            slots[n_out++] = llvm_slot(e, operand->var, NULL, operand->at + j);
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; !operands[i].is_out && j < operands[i].count; j++) {
            text_add(&constraints, "%s%c", constraints.n ? "," : "", operands[i].constraint);
            args[n_args++] = atom_register(e, &stmt->operands[i], j);
        }
    /* Inputs that share a register with an output stand last, as the number of that output. */
    for (int i = 0, out = 0; i < n; i++)
        for (int j = 0; operands[i].is_out && j < operands[i].count; j++, out++)
            if (operands[i].is_in) {
                text_add(&constraints, ",%d", out);
                args[n_args++] = atom_register(e, &stmt->operands[i], j);
            }
    if (info->effect == EFFECT_MEMORY)
        text_add(&constraints, "%s~{memory}", constraints.n ? "," : "");

    LLVMTypeRef *arg_types = ARENA_ARRAY(e->arena, LLVMTypeRef, registers + 1);
    for (int i = 0; i < n_args; i++)
        arg_types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef result = n_out == 0   ? LLVMVoidTypeInContext(e->context)
                         : n_out == 1 ? out_types[0]
                                      : LLVMStructTypeInContext(e->context, out_types, (unsigned)n_out, 0);
    Text text = text_new(e->arena);
    atom_text(&text, (AtomId)stmt->atom, stmt->shape, '$');
    LLVMTypeRef type = LLVMFunctionType(result, arg_types, (unsigned)n_args, 0);
    LLVMValueRef call = call_asm(e, type, text.at, text.n, constraints.n ? constraints.at : "", args, n_args,
                                 info->effect == EFFECT_PURE ? LLVM_ASM_PURE : LLVM_ASM_ORDERED);
    for (int i = 0; i < n_out; i++) {
        LLVMValueRef value = n_out == 1 ? call : LLVMBuildExtractValue(e->builder, call, (unsigned)i, "");
        LLVMBuildStore(e->builder, value, slots[i]);
    }
}

/* ---- functions
 * --------------------------------------------------------------------------------------------- */

/* Parses the functions of math.ll that the module calls, and links them in. */
bool llvm_link_math(EmitLlvm *e) {
    Text calls = text_new(e->arena), text = text_new(e->arena);
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) {
        size_t bytes;
        const char *name = LLVMGetValueName2(f, &bytes);
        if (LLVMIsDeclaration(f) && !LLVMGetIntrinsicID(f)) {
            text_add_bytes(&calls, name, bytes);
            text_add(&calls, " ");
        }
    }
    if (!calls.n)
        return true;
    Sections sections = sections_parse(e->arena, codegen_math_ll_text, ";! ", e->kernel->target->sm);
    sections_use(&sections, calls.at, calls.n);
    sections_print(&sections, &text);
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text.at, text.n, "math.ll");
    LLVMModuleRef functions = NULL;
    char *message = NULL;
    bool failed = LLVMParseIRInContext(e->context, buffer, &functions, &message) != 0;
    if (failed)
        llvm_fail(e, NULL, "the functions of math.ll: %s", message ? message : "unreadable");
    LLVMDisposeMessage(message);
    if (failed)
        return false;
    LLVMSetDataLayout(functions, LLVMGetDataLayoutStr(e->module));
    LLVMSetTarget(functions, LLVMGetTarget(e->module));
    for (LLVMValueRef f = LLVMGetFirstFunction(functions); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            LLVMSetLinkage(f,
                           LLVMExternalLinkage); /* a declaration is not resolved by an internal function */
    if (LLVMLinkModules2(e->module, functions)) {
        llvm_fail(e, NULL, "the functions of math.ll do not link");
        return false;
    }
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        if (f != e->function && !LLVMIsDeclaration(f))
            LLVMSetLinkage(f, LLVMInternalLinkage);
    return true;
}
