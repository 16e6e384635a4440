/* The LLVM backend: kernel IR -> LLVM IR -> NVPTX, in a plugin of its own.
 *
 * Rules that LLVM 19 taught, each seen in the PTX or in ptxas' messages:
 *  - Passes run even at the lowest level, and the code generator runs above O0: with copies left between
 * wgmma instructions ptxas serializes them.
 *  - A tensor map is a byval parameter with the annotation "grid_constant"; without it LLVM copies the map to
 * local memory, where TMA cannot read it.
 *  - An error of instruction selection is a diagnostic and yet the emission "succeeds", with wrong code: so
 * errors are collected and fail the emission. Some errors end in LLVM's fatal handler: ours jumps back, and
 * what LLVM had allocated is lost.
 *  - Only intrinsics that are known to lower are used; functions come from prelude/math.ll. */
#include "codegen/emit_llvm.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "codegen/llvm_abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern const int sinter_llvm_abi;
EXPORT const int sinter_llvm_abi = SINTER_LLVM_ABI;
EXPORT LlvmEmit sinter_llvm_emit;

static const char llvm_triple[] = "nvptx64-nvidia-cuda";
static const char llvm_passes[] =
    "always-inline,globaldce,function(mem2reg,early-cse,instcombine<no-verify-fixpoint>,gvn,simplifycfg)";

/* ---- LLVM's own state
 * -------------------------------------------------------------------------------------- */

/* Where the fatal handler of this thread returns to; NULL outside sinter_llvm_emit(). */
typedef struct LlvmGuard {
    jmp_buf back;
    char message[512];
} LlvmGuard;
static _Thread_local LlvmGuard *llvm_guard;

static void llvm_on_fatal(const char *reason) {
    if (!llvm_guard)
        return; /* LLVM ends the process */
    snprintf(llvm_guard->message, sizeof llvm_guard->message, "%s", reason);
    longjmp(llvm_guard->back, 1);
}

/* Pointers to shared memory take 32 bits, as the hardware's addresses do. */
static void llvm_start(void) {
    static const char *const options[] = {"sinter", "-nvptx-short-ptr"};
    LLVMParseCommandLineOptions(2, options, NULL);
    LLVMInstallFatalErrorHandler(llvm_on_fatal);
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

/* Called from inside LLVM, whose frames an arena must not jump over: so it writes to a plain buffer. */
static void llvm_on_diagnostic(LLVMDiagnosticInfoRef info, void *context) {
    EmitLlvm *e = context;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || e->message[0])
        return;
    char *text = LLVMGetDiagInfoDescription(info);
    snprintf(e->message, sizeof e->message, "%s", text);
    LLVMDisposeMessage(text);
}

/* Also when the arena is freed or its run fails: then it is what is left of an emission that memory cut
 * short. */
static void llvm_release(void *object) {
    EmitLlvm *e = object;
    if (e->builder)
        LLVMDisposeBuilder(e->builder);
    if (e->module)
        LLVMDisposeModule(e->module);
    if (e->machine)
        LLVMDisposeTargetMachine(e->machine);
    if (e->context)
        LLVMContextDispose(e->context);
    e->builder = NULL;
    e->module = NULL;
    e->machine = NULL;
    e->context = NULL;
}

void llvm_fail(EmitLlvm *e, const KStmt *stmt, const char *format, ...) {
    Text text = text_new(e->arena);
    va_list args;
    va_start(args, format);
    text_addv(&text, format, args);
    va_end(args);
    if (!e->failed)
        diag_error(e->diags, DIAG_BACKEND, stmt ? stmt->span : (Span){0}, "LLVM, kernel '%s': %s",
                   e->kernel->name, text.at);
    e->failed = true;
}

/* ---- the function
 * ------------------------------------------------------------------------------------------ */

static void llvm_types(EmitLlvm *e) {
    LLVMContextRef c = e->context;
    e->i1 = LLVMInt1TypeInContext(c);
    e->i8 = LLVMInt8TypeInContext(c);
    e->i16 = LLVMInt16TypeInContext(c);
    e->i32 = LLVMInt32TypeInContext(c);
    e->i64 = LLVMInt64TypeInContext(c);
    e->f16 = LLVMHalfTypeInContext(c);
    e->f32 = LLVMFloatTypeInContext(c);
    e->f64 = LLVMDoubleTypeInContext(c);
    e->ptr_global = LLVMPointerTypeInContext(c, LLVM_SPACE_GLOBAL);
    e->ptr_shared = LLVMPointerTypeInContext(c, LLVM_SPACE_SHARED);
}

static void llvm_annotate(EmitLlvm *e, const char *name, LLVMValueRef value) {
    LLVMValueRef entry[] = {e->function, LLVMMDStringInContext(e->context, name, (unsigned)strlen(name)),
                            value};
    LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations", LLVMMDNodeInContext(e->context, entry, 3));
}

static void llvm_parameter_attribute(EmitLlvm *e, unsigned i, const char *name, uint64_t value) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(e->function, i + 1, LLVMCreateEnumAttribute(e->context, kind, value));
}

/* The parameters' attributes; the numbers, from 1, of the tensor maps among them. */
static void llvm_parameters(EmitLlvm *e) {
    const Kernel *kernel = e->kernel;
    LLVMTypeRef map = LLVMArrayType2(e->i64, 16);
    LLVMValueRef *maps = ARENA_ARRAY(e->arena, LLVMValueRef, kernel->params.n + 1);
    unsigned n_maps = 0;
    for (unsigned i = 0; i < kernel->params.n; i++) {
        const KParam *param = &kernel->params.at[i];
        LLVMSetValueName2(LLVMGetParam(e->function, i), param->name, strlen(param->name));
        if (param->kind == PARAM_BUFFER) {
            llvm_parameter_attribute(e, i, "noalias", 0);
            llvm_parameter_attribute(e, i, "align", (uint64_t)param->buffer->align);
            if (!param->buffer->written)
                llvm_parameter_attribute(e, i, "readonly", 0);
        } else if (param->kind == PARAM_TENSOR_MAP) {
            unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
            LLVMAddAttributeAtIndex(e->function, i + 1, LLVMCreateTypeAttribute(e->context, byval, map));
            llvm_parameter_attribute(e, i, "align", 64);
            maps[n_maps++] = LLVMConstInt(e->i32, i + 1, 0);
        }
    }
    if (n_maps)
        llvm_annotate(e, "grid_constant", LLVMMDNodeInContext(e->context, maps, n_maps));
}

static void llvm_function(EmitLlvm *e) {
    const Kernel *kernel = e->kernel;
    LLVMTypeRef *types = ARENA_ARRAY(e->arena, LLVMTypeRef, kernel->params.n + 1);
    for (size_t i = 0; i < kernel->params.n; i++)
        types[i] = kernel->params.at[i].kind == PARAM_BUFFER ? e->ptr_global
                   : kernel->params.at[i].kind == PARAM_DIM  ? e->i64
                                                             : LLVMPointerTypeInContext(e->context, 0);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)kernel->params.n, 0);
    e->function = LLVMAddFunction(e->module, kernel->name, type);
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(e->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->context, nounwind, 0));
    llvm_annotate(e, "kernel", LLVMConstInt(e->i32, 1, 0));
    llvm_annotate(e, "maxntidx", LLVMConstInt(e->i32, (unsigned)kernel->threads, 0));
    if (kernel->min_blocks)
        llvm_annotate(e, "minctasm", LLVMConstInt(e->i32, (unsigned)kernel->min_blocks, 0));
    llvm_parameters(e);
    if (kernel->smem_bytes) {
        e->smem = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0), "smem", LLVM_SPACE_SHARED);
        LLVMSetAlignment(e->smem, (unsigned)kernel->smem_align);
    }
}

/* An alloca for each register, all in the entry block, where mem2reg looks for them. */
static void llvm_slots(EmitLlvm *e) {
    const Kernel *kernel = e->kernel;
    e->lets = ARENA_ARRAY(e->arena, LLVMValueRef, kernel->vars.n + 1);
    e->slots = ARENA_ARRAY(e->arena, LLVMValueRef *, kernel->vars.n + 1);
    for (size_t i = 0; i < kernel->vars.n; i++) {
        const KVar *var = kernel->vars.at[i];
        if (var->is_let)
            continue;
        int n = var->count ? var->count : 1;
        e->slots[i] = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n);
        for (int j = 0; j < n; j++)
            e->slots[i][j] = LLVMBuildAlloca(e->builder, llvm_type(e, var->type), var->name);
    }
}

static bool llvm_build(EmitLlvm *e) {
    e->facts = emit_facts(e->arena, e->kernel);
    llvm_types(e);
    llvm_function(e);
    e->builder = LLVMCreateBuilderInContext(e->context);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->context, e->function, "entry"));
    llvm_slots(e);
    llvm_block(e, &e->kernel->body);
    LLVMBuildRetVoid(e->builder);
    return !e->failed && llvm_link_math(e);
}

/* ---- from module to text
 * ----------------------------------------------------------------------------------- */

static bool llvm_check(EmitLlvm *e) {
    char *message = NULL;
    bool broken = LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message) != 0;
    if (broken)
        llvm_fail(e, NULL, "%s", message);
    LLVMDisposeMessage(message);
    return !broken;
}

/* Truths that are converted as signed numbers, -1 or 0, which InstCombine makes of negated ones: the NVPTX
 * backend of LLVM 19 gives 1 for -1 where the same truth is converted as an unsigned number too. A choice of
 * the two numbers says the same. */
static void llvm_mend_signed_truths(EmitLlvm *e) {
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
                next = LLVMGetNextInstruction(at);
                if (LLVMGetInstructionOpcode(at) != LLVMSIToFP ||
                    LLVMTypeOf(LLVMGetOperand(at, 0)) != LLVMInt1TypeInContext(e->context))
                    continue;
                LLVMTypeRef type = LLVMTypeOf(at);
                LLVMPositionBuilderBefore(e->builder, at);
                LLVMReplaceAllUsesWith(at, LLVMBuildSelect(e->builder, LLVMGetOperand(at, 0),
                                                           LLVMConstReal(type, -1), LLVMConstNull(type), ""));
                LLVMInstructionEraseFromParent(at);
            }
}

static bool llvm_optimize(EmitLlvm *e) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, llvm_passes, e->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) {
        llvm_mend_signed_truths(e);
        return true;
    }
    char *message = LLVMGetErrorMessage(error);
    snprintf(e->message, sizeof e->message, "%s", message);
    LLVMDisposeErrorMessage(message);
    return false;
}

static bool llvm_text(EmitLlvm *e, Text *out, LlvmOutput what) {
    if (what == LLVM_OUTPUT_IR) {
        char *text = LLVMPrintModuleToString(e->module);
        text_add_bytes(out, text, strlen(text));
        LLVMDisposeMessage(text);
        return true;
    }
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(e->machine, e->module, LLVMAssemblyFile, &message, &buffer)) {
        snprintf(e->message, sizeof e->message, "%s", message ? message : "no assembly");
        LLVMDisposeMessage(message);
        return false;
    }
    if (!e->message[0])
        text_add_bytes(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
    return true;
}

/* The latest PTX version that an atom of the kernel needs, as a number: "8.4" is 84. */
static int llvm_ptx_version(const KBlock *block, int version) {
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        version = llvm_ptx_version(&stmt->body, version);
        version = llvm_ptx_version(&stmt->other, version);
        const char *needed = stmt->kind == KS_ATOM ? atom_info((AtomId)stmt->atom)->ptx : "0.0";
        int number = (needed[0] - '0') * 10 + (needed[2] - '0');
        if (number > version)
            version = number;
    }
    return version;
}

/* The target's features, with a later PTX version where an atom needs one; older drivers load the others. */
static const char *llvm_features(EmitLlvm *e) {
    const Target *target = e->kernel->target;
    const char *version = target->ptx_version;
    int least = (version[0] - '0') * 10 + (version[2] - '0');
    int needed = llvm_ptx_version(&e->kernel->body, least);
    return needed > least ? text_format(e->arena, "+ptx%d", needed) : target->llvm_features;
}

static bool llvm_open(EmitLlvm *e) {
    const Target *target = e->kernel->target;
    LLVMTargetRef nvptx = NULL;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(llvm_triple, &nvptx, &message)) {
        snprintf(e->message, sizeof e->message, "%s", message);
        LLVMDisposeMessage(message);
        return false;
    }
    e->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(e->context, llvm_on_diagnostic, e);
    e->module = LLVMModuleCreateWithNameInContext(e->kernel->name, e->context);
    e->machine = LLVMCreateTargetMachine(nvptx, llvm_triple, target->llvm_cpu, llvm_features(e),
                                         LLVMCodeGenLevelLess, LLVMRelocDefault, LLVMCodeModelDefault);
    LLVMSetTarget(e->module, llvm_triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(e->machine);
    LLVMSetModuleDataLayout(e->module, layout);
    LLVMDisposeTargetData(layout);
    return true;
}

static bool llvm_emit(EmitLlvm *e, Text *out, LlvmOutput what) {
    size_t before = out->n;
    bool good = llvm_open(e) && llvm_build(e) && llvm_check(e) && llvm_optimize(e) && llvm_text(e, out, what);
    if (e->message[0] && !e->failed)
        llvm_fail(e, NULL, "%s", e->message);
    if (good && !e->failed)
        return true;
    out->n = before;
    return false;
}

bool sinter_llvm_emit(Text *out, const Kernel *kernel, LlvmOutput what, Diags *diags) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, llvm_start);
    if (!kernel->target->llvm_cpu) {
        diag_error(diags, DIAG_UNSUPPORTED, (Span){0}, "LLVM 19 has no target %s; use NVRTC",
                   kernel->target->name);
        return false;
    }
    EmitLlvm *e = ARENA_NEW(out->arena, EmitLlvm);
    e->arena = out->arena;
    e->kernel = kernel;
    e->diags = diags;
    arena_defer(out->arena, llvm_release, e);
    LlvmGuard guard, *outer = llvm_guard;
    guard.message[0] = 0;
    bool good = false;
    if (setjmp(guard.back) == 0) {
        llvm_guard = &guard;
        good = llvm_emit(e, out, what);
        llvm_guard = outer;
        llvm_release(e);
        return good;
    }
    llvm_guard = outer;
    /* LLVM stopped in the middle of its work; its objects are in no state to be disposed of. */
    e->builder = NULL;
    e->module = NULL;
    e->machine = NULL;
    e->context = NULL;
    llvm_fail(e, NULL, "%s", guard.message);
    return false;
}
