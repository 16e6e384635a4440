/* Between the files of the LLVM backend. What they export: LlvmEmit of codegen.h, as sinter_llvm_emit. */
#ifndef SINTER_CODEGEN_EMIT_LLVM_H
#define SINTER_CODEGEN_EMIT_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "codegen/atom.h"
#include "codegen/codegen.h"
#include "codegen/emit_facts.h"

typedef struct EmitLlvm {
    Arena *arena;
    const Kernel *kernel;
    Diags *diags;
    bool failed; /* a diagnostic was given */

    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTargetMachineRef machine;
    LLVMValueRef function;
    LLVMValueRef smem; /* all of shared memory; NULL where there is none */
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr_global, ptr_shared;

    LLVMValueRef *lets; /* by KVar.id: value of a let or of a loop's variable */
    LLVMValueRef *
        *slots; /* by KVar.id: an alloca for each element of the others; mem2reg makes them registers */
    EmitFacts facts;
    bool is_data_tree;  /* of the expression that is built: emit_is_data() */
    int64_t statements; /* built so far, unrolled ones each time */

    char message[512]; /* first error that LLVM reported */
} EmitLlvm;

/* Memory spaces of NVPTX. */
enum { LLVM_SPACE_GLOBAL = 1, LLVM_SPACE_SHARED = 3 };

void llvm_fail(EmitLlvm *e, const KStmt *stmt, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* emit_llvm_expr.c */
LLVMTypeRef llvm_type(const EmitLlvm *e, KType type);
/* A part of an expression; a whole one. */
LLVMValueRef llvm_expr(EmitLlvm *e, const KExpr *expr);
LLVMValueRef llvm_whole_expr(EmitLlvm *e, const KExpr *expr);
LLVMValueRef llvm_int(const EmitLlvm *e, KType type, int64_t value);
LLVMValueRef llvm_zero(const EmitLlvm *e, KType type);
/* The alloca of an element of a variable; reports an index that is not constant or outside. */
LLVMValueRef llvm_slot(EmitLlvm *e, const KVar *var, LLVMValueRef index, int offset);
LLVMValueRef llvm_load_slot(EmitLlvm *e, const KVar *var, LLVMValueRef slot);
/* Pointer to an element of a buffer; of two elements of 4 bits, to their byte. */
LLVMValueRef llvm_address(EmitLlvm *e, const KBuffer *buffer, LLVMValueRef index);

/* emit_llvm_call.c */
LLVMValueRef llvm_intrinsic(EmitLlvm *e, const char *name, LLVMTypeRef overload, LLVMValueRef *args, int n);
/* A function of math.ll, linked in by llvm_link_math(). */
LLVMValueRef llvm_math(EmitLlvm *e, const char *name, LLVMTypeRef result, LLVMValueRef *args, int n);
typedef enum LlvmAsm {
    LLVM_ASM_PURE,    /* the result follows from the operands */
    LLVM_ASM_ORDERED, /* not moved, not merged, not removed */
} LlvmAsm;
LLVMValueRef llvm_asm(EmitLlvm *e, const char *text, const char *constraints, LLVMTypeRef result,
                      LLVMValueRef *args, int n, LlvmAsm kind);
void llvm_atom(EmitLlvm *e, const KStmt *stmt);
bool llvm_link_math(EmitLlvm *e);

/* emit_llvm_memory.c */
/* Elements of less than 64 bits in a word: KX_PACK, KX_UNPACK and vector accesses. Missing values count as
 * zero. */
LLVMValueRef llvm_pack(EmitLlvm *e, DType type, LLVMValueRef *values, int n);
LLVMValueRef llvm_unpack(EmitLlvm *e, DType type, LLVMValueRef word, int lane);
void llvm_load(EmitLlvm *e, const KStmt *stmt);
void llvm_store(EmitLlvm *e, const KStmt *stmt);

/* emit_llvm_stmt.c */
void llvm_block(EmitLlvm *e, const KBlock *block);

#endif
